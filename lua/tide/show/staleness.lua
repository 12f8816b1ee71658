-- How old the rows were that workers read, the waits for them, and what it took in bytes: of tables with clocks, added
-- up over nodes, less what was counted before a run. For summaries, `tide table show`, t:show() and charts.
local chart = require "tide.chart"
local table_view = require "tide.show.table_view"
local units = require "tide.units"

local staleness = {}

---@class tide.staleness
---@field consistency string the bound in force
---@field hist integer[] hist[k]: pulls whose oldest row held everything up to k clocks before the reader's
---@field pulls integer
---@field mean number of -k
---@field var number
---@field clocks integer ended by workers that use the table
---@field waited_s number in pulls
---@field clock_s number in clocks that this table's bound blocked
---@field stopped_s number vap: until other nodes had received enough updates
---@field wait_s_per_clock number|nil of all three, a worker and clock
---@field stops integer vap
---@field excess integer vap: updates that alone are larger than the bound
---@field bytes table<string, integer> sent, by cause: pushed (rows that changed, to holders of copies), answered (rows
---  that were requested), updates (to the homes), confirmed (vap: which node has seen what)
---@field early_bytes integer of what was pushed, answered and sent as updates: ahead of its clock
---@field forced_bytes integer the rest of it
---@field workers table<integer, tide.staleness> by number, without bytes

local SUMS <const> = {"pulls", "over", "under", "hits", "waits", "fetches", "clocks", "waited_s", "clock_s",
                      "stopped_s", "stops"}

local function new() return {hist = {}} end

local function add(sum, after, before)
  before = before or {hist = {}}
  for k, n in ipairs(after.hist) do
    for i = #sum.hist + 1, k do sum.hist[i] = 0 end
    sum.hist[k] = sum.hist[k] + n - (before.hist[k] or 0)
  end
  for _, field in ipairs(SUMS) do sum[field] = (sum[field] or 0) + after[field] - (before[field] or 0) end
end

local function finish(sum)
  local counted, total, squares = 0, 0, 0
  for k, n in ipairs(sum.hist) do counted, total, squares = counted + n, total - k * n, squares + k * k * n end
  sum.mean = counted > 0 and total / counted or 0
  sum.var = counted > 0 and squares / counted - sum.mean ^ 2 or 0
  if sum.clocks > 0 then sum.wait_s_per_clock = (sum.waited_s + sum.clock_s + sum.stopped_s) / sum.clocks end
end

local function add_bytes(sum, after, before)
  local function grown(field) return after[field] - (before and before[field] or 0) end
  local causes <const> = {pushed = grown "value_bytes" - grown "answer_bytes", answered = grown "answer_bytes",
                          updates = grown "delta_bytes", confirmed = grown "confirm_bytes"}
  for cause, bytes in pairs(causes) do sum.bytes[cause] = (sum.bytes[cause] or 0) + bytes end
  for _, field in ipairs {"excess", "early_bytes", "forced_bytes"} do
    sum[field] = (sum[field] or 0) + grown(field)
  end
end

---@param parts {after: table, before: table|nil}[] what stats() of the table said on each node, and at the start
---@return tide.staleness|nil
function staleness.sum(parts)
  local sum
  for _, part in ipairs(parts) do
    local after <const>, before <const> = part.after.staleness, part.before and part.before.staleness
    if after then
      sum = sum or {hist = {}, bytes = {}, workers = {}}
      sum.consistency = part.after.consistency
      add(sum, after, before)
      add_bytes(sum, after, before)
      local was = {}
      for _, w in ipairs(before and before.workers or {}) do was[w.worker] = w end
      for _, w in ipairs(after.workers) do
        local of = sum.workers[w.worker] or new()
        sum.workers[w.worker] = of
        add(of, w, was[w.worker])
      end
    end
  end
  if not sum then return nil end
  finish(sum)
  for number, w in pairs(sum.workers) do
    finish(w)
    if w.pulls == 0 and w.clocks == 0 then sum.workers[number] = nil end -- of another run
  end
  local last = 0
  for number in pairs(sum.workers) do last = math.max(last, number) end
  for number = 1, last do -- a dead worker's figures are lost
    if not sum.workers[number] then
      local lost <const> = new()
      for _, field in ipairs(SUMS) do lost[field] = 0 end
      finish(lost)
      sum.workers[number] = lost
    end
  end
  return sum
end

---@param names table<string, string> of the run's tables: key in the job to name
---@param nodes table[] {before =, after =} as agents answer "status"
---@return table<string, tide.staleness>|nil by key
function staleness.of_run(names, nodes)
  local by_key = {}
  for key, name in pairs(names) do
    local parts = {}
    for _, node in ipairs(nodes) do
      parts[#parts + 1] = {after = node.after.tables[name] or {}, before = (node.before.tables or {})[name]}
    end
    by_key[key] = staleness.sum(parts)
  end
  return next(by_key) and by_key or nil
end

---- shown ---------------------------------------------------------------------------------------------------------

local COLUMNS <const> = {
  {key = "worker"}, {key = "pulls", format = "count"}, {key = "mean", right = true}, {key = "var", right = true},
  {key = "ages", title = "share of pulls by age in clocks"}, {key = "clocks", format = "count"},
  {key = "per_clock", title = "wait a clock", format = "duration"},
}

-- "1: 80 %, 2: 15 %, .."
local function ages(s)
  local parts, counted = {}, 0
  for _, n in ipairs(s.hist) do counted = counted + n end
  for k, n in ipairs(s.hist) do
    if n > 0 then parts[#parts + 1] = ("%d: %s"):format(k, units.format_share(n / counted)) end
  end
  return table.concat(parts, ", ")
end

local function row(label, s)
  return {worker = label, pulls = s.pulls, mean = ("%.2f"):format(s.mean), var = ("%.2f"):format(s.var),
          ages = ages(s), clocks = s.clocks, per_clock = s.wait_s_per_clock}
end

---@param s tide.staleness
---@return table[] rows a line a worker, and one of all
---@return tide.column[]
function staleness.rows(s)
  local rows, numbers = {}, {}
  for number in pairs(s.workers) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for i, number in ipairs(numbers) do rows[i] = row(number, s.workers[number]) end
  rows[#rows + 1] = row("all", s)
  return rows, COLUMNS
end

local CAUSES <const> = {"pushed", "answered", "updates", "confirmed"}

---For people: how old what each worker read was, what waiting and bytes it took.
---@param s tide.staleness
---@param o? table as of table_view.lines
---@return string
function staleness.text(s, o)
  local rows <const>, columns <const> = staleness.rows(s)
  local lines <const> = table_view.lines(rows, columns, o)
  local bytes = {}
  for _, cause in ipairs(CAUSES) do
    if s.bytes[cause] > 0 then bytes[#bytes + 1] = ("%s %s"):format(cause, units.format_size(s.bytes[cause])) end
  end
  table.insert(lines, 1, "consistency " .. s.consistency)
  lines[#lines + 1] = ("waited: pulls %s, clocks %s, pushes %s; sent: %s"):format(units.format_duration(s.waited_s),
    units.format_duration(s.clock_s), units.format_duration(s.stopped_s), table.concat(bytes, ", "))
  if s.early_bytes > 0 then
    lines[#lines] = ("%s; %s of it ahead of the clocks"):format(lines[#lines], units.format_size(s.early_bytes))
  end
  if s.stops > 0 then
    lines[#lines + 1] = ("the bound of values stopped pushes %d times; %d updates alone were larger than it"):format(
      s.stops, s.excess)
  end
  return table.concat(lines, "\n")
end

---A chart of how old the oldest row of a pull was: bars by age, one series each.
---@param list {name: string, staleness: tide.staleness}[]
---@param title? string
---@return tide.chart.bars
function staleness.bars(list, title)
  local series, deepest, groups = {}, 1, {}
  for i, item in ipairs(list) do
    local shares, counted = {}, 0
    for _, n in ipairs(item.staleness.hist) do counted = counted + n end
    for k, n in ipairs(item.staleness.hist) do shares[k] = counted > 0 and 100 * n / counted or 0 end
    deepest = math.max(deepest, #shares)
    series[i] = {name = item.name, values = shares}
  end
  for k = 1, deepest do groups[k] = tostring(-k) end
  return {title = title or "How old the oldest row of a pull was", x = "clock of the row - clock of the reader",
          y = "% of pulls", groups = groups, series = series}
end

---Writes the chart as SVG.
---@param path string
---@param list {name: string, staleness: tide.staleness}[]
---@return true|nil, table? err
function staleness.write(path, list) return chart.write(path, {staleness.bars(list)}) end

return staleness
