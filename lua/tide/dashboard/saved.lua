-- Runs of the directory that the dashboard was started in, for its page: listed, filtered and sorted, their curves,
-- scatter charts, histograms and logs. Each function answers a request: status, type and text.
local core = require "tide.core"
local csv = require "tide.csv"
local errors = require "tide.errors"
local history = require "tide.run.history"
local json = require "tide.json"
local log_query = require "tide.run.log_query"
local report_of = require "tide.report"
local run_log = require "tide.run.run_log"
local state = require "tide.dashboard.state"
local texts = require "tide.text"

local saved = {}

local JSON <const>, CSV <const> = "application/json", "text/csv; charset=utf-8"
local PLAIN <const> = "text/plain; charset=utf-8"
local RUNS_MAX <const> = 200 -- of a listing, the newest that fit
local CURVES_MAX <const>, POINTS_MAX <const> = 16, 600
local COMPARED_MAX <const> = 32 -- runs of a curve
local SCATTER_MAX <const> = 2000 -- points of a scatter chart
local FIELDS_MAX <const> = 1000 -- names that are offered
local PARAMS_MAX <const> = 32 -- columns
local MARKS_MAX <const> = 100 -- of a run
local LOG_BYTES <const> = 4 << 20 -- of a log that is downloaded, the newest
local AXES <const> = {n = true, elapsed_s = true, examples = true}

---An error as an answer.
---@param err tide.error
---@return integer status
---@return string type
---@return string text
function saved.failed(err)
  local status <const> = (err.code == "T0401" or err.code == "T0303") and 404 or err.code == "T0801" and 403 or 400
  return status, JSON, core.json_encode {error = state.text(err.message), help = err.help and state.text(err.help)}
end

local function wrong(message, help) return saved.failed(errors.new("T0105", {message = message, help = help})) end

---The fields of a query: "search=a%20b&rank=2".
---@param query string
---@return table<string, string>
function saved.fields_of(query)
  local fields = {}
  for name, value in query:gmatch "([%w_]+)=([^&]*)" do
    fields[name] = value:gsub("+", " "):gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
  end
  return fields
end

---- listing and filtering ---------------------------------------------------------------------------------------------

-- What a listing makes of a record once: runs that are over are the same tables in each listing.
local seen <const> = setmetatable({}, {__mode = "k"}) ---@type table<table, {params: table, line: string, text: string}>

-- Params that are no tables, as "eps=0.1 rank=64" too, and all texts that a filter looks into.
local function look_of(run)
  local look = seen[run]
  if not look then
    local params <const>, parts = {}, {}
    for _, key in ipairs(texts.sorted_keys(type(run.params) == "table" and run.params or {})) do
      local value <const> = run.params[key]
      if type(value) ~= "table" then
        params[key], parts[#parts + 1] = value, ("%s=%s"):format(key, tostring(value))
      end
    end
    local line <const> = table.concat(parts, " ")
    look = {params = params, line = line, text = table.concat({run.id, run.name or "", run.job or "", run.user or "",
      line, run.script or ""}, "\0"):lower()}
    seen[run] = look
  end
  return look
end

local OWN <const> = {id = "id", name = "name", run = "name", job = "job", state = "state", person = "user",
  user = "user", script = "script", note = "note", started = "started_at", duration = "took_s", reports = "reports",
  loss = "loss", rate = "examples_per_s", seed = "seed"}

-- The value of a run's field by its name on the page; a param where it is none of a run's own.
local function value_of(run, name)
  if OWN[name] then return run[OWN[name]] end
  return look_of(run).params[name]
end

local COMPARE <const> = {
  ["<"] = function(a, b) return a < b end, [">"] = function(a, b) return a > b end,
  ["<="] = function(a, b) return a <= b end, [">="] = function(a, b) return a >= b end,
  ["="] = function(a, b) return a == b end, ["!="] = function(a, b) return a ~= b end,
}

local function has_tag(run, tag)
  for _, each in ipairs(run.tags or {}) do
    if each:lower() == tag then return true end
  end
  return false
end

-- A word of a filter: `loss<0.9`, `rank=64`, `tag=best`, else a text that one of the run's has.
local function condition_of(word)
  local name <const>, operator <const>, right <const> = word:match "^([%w_.]+)([<>!=]=?)(.+)$"
  local compare <const> = COMPARE[operator]
  if compare and name == "tag" then
    return function(run) return has_tag(run, right) == (operator == "=") end
  elseif compare then
    local number <const> = tonumber(right)
    return function(run)
      local value <const> = value_of(run, name)
      if value == nil then return false end
      if number and type(value) == "number" then return compare(value, number) end
      return compare(tostring(value):lower(), right)
    end
  end
  return function(run)
    if look_of(run).text:find(word, 1, true) then return true end -- the others change while a run is active, and later
    return table.concat({run.state or "", run.note or "", run.why or "", table.concat(run.tags or {}, " ")}, "\0")
      :lower():find(word, 1, true) ~= nil
  end
end

---A filter of runs, from its words.
---@param text string words, and conditions of fields: "mf loss<0.9 rank=64 tag=best"
---@return fun(run: tide.past_run): boolean
function saved.filter(text)
  local conditions = {}
  for word in text:lower():gmatch "%S+" do conditions[#conditions + 1] = condition_of(word) end
  return function(run)
    for _, holds in ipairs(conditions) do
      if not holds(run) then return false end
    end
    return true
  end
end

local function key_of(run, name)
  local value <const> = value_of(run, name)
  if type(value) == "number" then return value == value and value or nil end
  return value ~= nil and tostring(value) or nil
end

-- Numbers before texts, what is missing last in both directions.
local function sort_by(list, name, descending)
  local function before(a, b)
    local x <const>, y <const> = key_of(a, name), key_of(b, name)
    if x == y then return a.id > b.id end
    if x == nil or y == nil then return y == nil end
    if type(x) ~= type(y) then return type(x) == "number" end
    if descending then return x > y end
    return x < y
  end
  table.sort(list, before)
end

local known <const> = {} -- runs that are over

local function fitting(text)
  local all <const>, fits <const>, list = history.list(nil, known), saved.filter(text or ""), {}
  for i = #all, 1, -1 do
    if fits(all[i]) then list[#list + 1] = all[i] end
  end
  return list, #all
end

local TEXT_BYTES <const> = 400 -- of a cell

local function finite(v) return type(v) == "number" and v == v and math.abs(v) < math.huge and v or nil end

-- A value as a cell: no number that JSON has not, no text without an end.
local function short(value)
  if type(value) == "number" then return finite(value) end
  if type(value) ~= "string" or #value <= TEXT_BYTES then return value end
  return (value:sub(1, TEXT_BYTES):gsub("[\xc0-\xff][\x80-\xbf]*$", "")) .. "..."
end

local function row_of(run)
  local look <const> = look_of(run)
  local row <const> = {id = run.id, name = run.name, job = run.job, state = run.state, why = run.why,
    started_at = run.started_at, took_s = run.took_s, reports = run.reports, loss = run.loss, user = run.user,
    tags = run.tags and table.concat(run.tags, " "), note = run.note, params = look.line ~= "" and look.line or nil,
    rate = run.examples_per_s, args = run.args and table.concat(run.args, " ") or nil, script = run.script}
  local values = {}
  for key, value in pairs(row) do row[key] = short(value) end
  for key, value in pairs(look.params) do values[short(key)] = short(value) end
  row.values = next(values) and values or nil
  return state.clean(row)
end

-- The params that most of these runs have, as columns.
local function columns_of(list)
  local counts = {}
  for _, run in ipairs(list) do
    for name in pairs(look_of(run).params) do counts[name] = (counts[name] or 0) + 1 end
  end
  local names <const> = texts.sorted_keys(counts)
  table.sort(names, function(a, b) return counts[a] > counts[b] or counts[a] == counts[b] and a < b end)
  return state.clean(table.move(names, 1, math.min(#names, PARAMS_MAX), 1, {}))
end

---`GET /api/runs?filter=WORDS&sort=FIELD&descending=1`: oldest first where nothing else is asked for.
function saved.runs(_, query)
  local fields <const> = saved.fields_of(query)
  local list <const>, all <const> = fitting(fields.filter)
  local sorted <const> = fields.sort and fields.sort ~= ""
  if sorted then sort_by(list, fields.sort, fields.descending == "1") end
  local shown <const>, rows = table.move(list, 1, math.min(#list, RUNS_MAX), 1, {}), {}
  for i, run in ipairs(shown) do rows[sorted and i or #shown + 1 - i] = row_of(run) end
  return 200, JSON, json.object({schema = "tide.runs/1", directory = history.ROOT, all = all, fit = #list},
    {runs = rows, columns = columns_of(shown)})
end

---- curves ------------------------------------------------------------------------------------------------------------

-- Changes of the active run: swaps of policies, params, workers that joined or left. Its place on the axis is
-- that of the newest report before it.
local function marks_of(run, reports, x)
  local marks, at, examples = {}, 1, 0
  for _, event in ipairs(history.events(run)) do
    local said <const> = type(event.text) == "string" and event.text or ""
    if event.kind == "policy" or said:find " set$" or said:find "workers" and not said:find " started: " then
      while reports[at] and (reports[at].time or 0) <= (event.time or 0) do
        examples, at = examples + (tonumber(reports[at].examples) or 0), at + 1
      end
      local last <const> = reports[at - 1]
      local place <const> = x == "examples" and examples or last and last[x] or 0
      if #marks < MARKS_MAX then marks[#marks + 1] = {x = place, text = state.text(said)} end
    end
  end
  return marks
end

local function run_of(id)
  local run <const>, err = history.find(id)
  if run and run.id == id then return run end
  return nil, err or errors.new("T0401", {message = ("there is no run `%s`"):format(state.text(id))})
end

-- The runs that a query names, in order.
local function runs_of(fields)
  local list = {}
  for id in (fields.runs or ""):gmatch "[^,]+" do
    local run <const>, err = run_of(id)
    if not run then return nil, err end
    list[#list + 1] = run
  end
  if #list >= 1 and #list <= COMPARED_MAX then return list end
  return nil, errors.new("T0105", {message = ("a chart is of 1 to %d runs: runs=ID,ID"):format(COMPARED_MAX)})
end

local function names_of(set)
  local names <const> = texts.sorted_keys(set)
  return state.clean(table.move(names, 1, math.min(#names, FIELDS_MAX), 1, {}))
end

---One field of several runs, thinned here: as JSON, or all points as CSV.
function saved.curve(_, query)
  local fields <const> = saved.fields_of(query)
  local x <const>, field <const> = fields.x or "n", fields.field or "loss"
  local list <const>, err = runs_of(fields)
  if not list then return saved.failed(err) end
  if not AXES[x] then return wrong "x is n, elapsed_s or examples" end
  local curves, names, mean = {}, {}, nil
  local lines = {"run,name," .. x .. "," .. csv.cell(field)}
  for i, run in ipairs(list) do
    local own, wanted, marked <const> = {}, {x, field}, #history.events(run) > 0
    for _, name in ipairs(history.names(history.edges(run))) do own[name], names[name] = true, true end
    if own[field .. "_n"] then wanted[#wanted + 1] = field .. "_n" end
    local part <const> = field:match "^(.*)loss$"
    if part and part ~= "" then wanted[#wanted + 1] = part .. "examples" end
    if part or marked then wanted[#wanted + 1] = "examples" end
    if marked then wanted[#wanted + 1] = "time" end
    local reports <const> = history.columns(run, wanted)
    local newest <const> = reports[#reports]
    mean = mean or newest and newest[field] and report_of.count_of(newest, field) and true
    local all <const> = fields.format == "csv"
    local points <const> = history.curve(reports, field, x, all and math.huge or POINTS_MAX)
    curves[i] = {id = run.id, name = state.text(run.name or run.job or ""), params = state.text(look_of(run).line),
      points = points, marks = marks_of(run, reports, x)}
    for _, p in ipairs(all and points or {}) do
      lines[#lines + 1] = table.concat({run.id, csv.cell(run.name), csv.cell(p[1]), csv.cell(p[2])}, ",")
    end
  end
  if fields.format == "csv" then return 200, CSV, table.concat(lines, "\r\n") .. "\r\n" end
  return 200, JSON, json.object({schema = "tide.curve/1", field = state.text(field), x = x,
    mean = mean}, {curves = curves, fields = names_of(names)})
end

---- scatter charts ----------------------------------------------------------------------------------------------------

-- A point a report of the runs that are named, evenly thinned.
local function points_of_reports(list, fields, names)
  local points, most = {}, SCATTER_MAX // #list
  for _, run in ipairs(list) do
    local reports <const> = history.reports(run)
    for _, name in ipairs(history.names(reports)) do names[name] = true end
    for _, name in ipairs {"n", "elapsed_s"} do names[name] = true end
    local step <const> = math.max(#reports / most, 1)
    for k = 0, math.ceil(#reports / step) - 1 do
      local r <const> = reports[math.floor(k * step) + 1]
      local function at(name) return finite(name and report_of.value(r, name)) end
      points[#points + 1] = {at(fields.x), at(fields.y), at(fields.colour) or false, run.id}
      if not (at(fields.x) and at(fields.y)) then points[#points] = nil end
    end
  end
  return points
end

-- A point a run: of its params, loss, rate and so on.
local function points_of_runs(list, fields, names)
  local points = {}
  for _, run in ipairs(list) do
    for name in pairs(OWN) do names[name] = finite(value_of(run, name)) and true or names[name] end
    for name, value in pairs(look_of(run).params) do names[name] = finite(value) and true or names[name] end
    local x <const>, y <const> = finite(value_of(run, fields.x)), finite(value_of(run, fields.y))
    if x and y and #points < SCATTER_MAX then
      points[#points + 1] = {x, y, fields.colour and finite(value_of(run, fields.colour)) or false, run.id}
    end
  end
  return points
end

---`GET /api/scatter?x=FIELD&y=FIELD&colour=FIELD`: a point a run that `filter` keeps, or with `runs=ID,ID` a point a
---report of these.
function saved.scatter(_, query)
  local fields <const>, names = saved.fields_of(query), {}
  if not (fields.x and fields.y) then
    return wrong("a scatter chart has two fields", "/api/scatter?x=rank&y=loss&colour=eps")
  end
  if fields.colour == "" then fields.colour = nil end
  local points
  if fields.runs and fields.runs ~= "" then
    local list <const>, err = runs_of(fields)
    if not list then return saved.failed(err) end
    points = points_of_reports(list, fields, names)
  else
    points = points_of_runs((fitting(fields.filter)), fields, names)
  end
  return 200, JSON, json.object({schema = "tide.scatter/1", x = state.text(fields.x), y = state.text(fields.y),
    colour = fields.colour and state.text(fields.colour)}, {points = points, fields = names_of(names)})
end

---- histograms --------------------------------------------------------------------------------------------------------

local COLUMNS_MAX <const> = 120 -- reports that a histogram shows

-- Bins by their number and the names of all histograms in reports: `fc1.weights_bin_-3` is bin -3 of `fc1.weights`.
local function bins_of(reports, wanted)
  local names, bins, least, most = {}, {}, math.huge, -math.huge
  for _, key in ipairs(history.names(reports, true)) do
    local name <const>, bin <const> = key:match "^(.+)_bin_(%-?%d%d?)$"
    if name then names[name] = true end
    if name and name == wanted then least, most = math.min(least, tonumber(bin)), math.max(most, tonumber(bin)) end
  end
  for bin = least, most do bins[#bins + 1] = math.tointeger(bin) end
  return bins, names
end

---`GET /api/histogram?runs=ID&field=NAME`: of a run, how its values lay over its reports.
function saved.histogram(_, query)
  local fields <const> = saved.fields_of(query)
  local list <const>, err = runs_of(fields)
  if not list then return saved.failed(err) end
  local reports <const> = history.reports(list[1])
  local bins, names = bins_of(reports, fields.field)
  local chosen <const> = fields.field and fields.field ~= "" and fields.field or texts.sorted_keys(names)[1]
  if chosen ~= fields.field then bins = bins_of(reports, chosen) end
  local columns, step <const> = {}, math.max(#reports / COLUMNS_MAX, 1)
  for k = 0, #bins > 0 and math.ceil(#reports / step) - 1 or -1 do
    local r <const> = reports[math.floor(k * step) + 1]
    local counts, sum = {}, 0
    for i, bin in ipairs(bins) do
      counts[i] = finite(r[("%s_bin_%d"):format(chosen, bin)]) or 0
      sum = sum + counts[i]
    end
    for i, count in ipairs(counts) do counts[i] = sum > 0 and tonumber(("%.4f"):format(count / sum)) or 0 end
    columns[#columns + 1] = {r.n or k, counts}
  end
  return 200, JSON, json.object({schema = "tide.histogram/1", run = list[1].id,
    field = chosen and state.text(chosen)}, {bins = bins, columns = columns, fields = names_of(names)})
end

---- one run -----------------------------------------------------------------------------------------------------------

---The log of a saved run as text: what a query of lines keeps of its newest bytes.
---@param id string
---@param query string
function saved.log(id, query)
  local run <const>, err = run_of(id)
  if not run then return saved.failed(err) end
  local fields <const> = saved.fields_of(query)
  local keep <const> = log_query.filter {rank = math.tointeger(tonumber(fields.rank or "")),
    search = fields.search ~= "" and fields.search or nil, err = fields.stderr == "1" or nil}
  local _, size <const> = run_log.read(run.directory)
  local after, parts = math.max((size or 0) - LOG_BYTES, 0), {}
  while size and after < size do
    local some <const>, _, next_at <const> = run_log.read(run.directory, after)
    if not some or next_at == after then break end
    parts[#parts + 1], after = some, next_at
  end
  local log = table.concat(parts)
  if log ~= "" and log:sub(-1) ~= "\n" then log = log .. "\n" end
  return 200, PLAIN, state.text(texts.harmless(keep(log):gsub("\27%[[%d;]*m", "")))
end

---A saved run with its curves. The id is one of those in the directory, or there is none.
---@param id string
function saved.run(id)
  local run <const>, err = run_of(id)
  if not run then return saved.failed(err) end
  local reports <const>, curves = history.reports(run), {}
  for i, name in ipairs(history.names(reports)) do
    if i > CURVES_MAX then break end
    curves[i] = {name = state.text(name), points = history.curve(reports, name, "n", POINTS_MAX),
                 over_time = history.curve(reports, name, "elapsed_s", POINTS_MAX)}
  end
  local events <const>, log <const> = state.clean(history.events(run)), {}
  for line in (run_log.read(run.directory) or ""):gsub("\27%[[%d;]*m", ""):gmatch "[^\n]+" do
    log[#log + 1] = texts.clean_lines(line)
  end
  run.directory = nil
  return 200, JSON, json.object({schema = "tide.run/1", run = state.clean(run)}, {curves = curves,
    events = events, log = log})
end

return saved
