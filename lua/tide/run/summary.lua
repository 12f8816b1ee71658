-- The summary of a run: what it did, how much of it stayed local, what went over the wire.
local hot_keys = require "tide.show.hot_keys"
local report_of = require "tide.report"
local staleness = require "tide.show.staleness"
local table_view = require "tide.show.table_view"

local summary = {}

---@class tide.summary
---@field run string
---@field reports integer
---@field elapsed_s number
---@field epoch_s number|nil mean time between reports
---@field examples number
---@field examples_per_s number
---@field loss number|nil of the newest report, per example
---@field pulls_local integer keys pulled from the worker's own node
---@field pulls_remote integer
---@field pushes_local integer
---@field pushes_remote integer
---@field local_share number|nil share of all accesses that stayed on the node
---@field remote_share number|nil
---@field queued integer accesses that waited for a row or slot on the move
---@field forwarded integer accesses that a home passed on to the owner
---@field relocated integer rows that changed their node
---@field relocations_per_s number
---@field relocate_p50_s number|nil from the request of a row to its arrival: quantiles, within a fifth
---@field relocate_p99_s number|nil
---@field location_used integer accesses that went straight to where the key was last
---@field location_stale integer those that did not find it there
---@field hottest table<string, tide.hot_key[]> by name of the table: its ten hottest keys
---@field not_finite integer pushed rows with a NaN or an infinity
---@field wire_bytes integer bytes between processes
---@field wire_messages integer frames between processes
---@field comm_bytes integer|nil sent by the exchange of gradients, of all workers
---@field comm_bytes_step number|nil of a worker in a step
---@field comm_s number|nil some gradient was in flight: sum over the workers
---@field comm_skew_s number|nil of which workers waited for others to end their step
---@field comm_wait_s number|nil of which workers waited for gradients that all had ready
---@field overlap number|nil share of comm_s without comm_skew_s that was hidden behind computing
---@field workers_lost integer workers that were lost in mid-run
---@field chunks_redone integer chunks that were done again for them
---@field nodes table[] the same figures by node
---@field staleness table<string, tide.staleness>|nil of tables with clocks, by their name in the job
summary.__index = summary

local COUNTED <const> = {"pulls_local", "pulls_remote", "pushes_local", "pushes_remote", "not_finite", "queued",
                         "forwarded", "relocated_in", "location_used", "location_stale"}

local HOTTEST <const> = 10

local function link_sum(links, field)
  local sum = 0
  for _, link in ipairs(links or {}) do sum = sum + (link[field] or 0) end
  return sum
end

---Figures of one node: now less what they were when the run began.
local function of_node(node, tables)
  local row = {node = node.name, rss_bytes = node.after.rss_bytes}
  for _, field in ipairs(COUNTED) do row[field] = 0 end
  for name in pairs(tables) do
    local after, before = node.after.tables[name] or {}, (node.before.tables or {})[name] or {}
    for _, field in ipairs(COUNTED) do
      row[field] = row[field] + (after[field] or 0) - (before[field] or 0)
    end
  end
  row.relocated, row.relocated_in = row.relocated_in, nil
  row.wire_bytes = link_sum(node.after.links, "bytes_out") - link_sum(node.before.links, "bytes_out")
  row.wire_messages = link_sum(node.after.links, "frames_out") - link_sum(node.before.links, "frames_out")
  return row
end

---Quantiles of the times of relocations of all nodes.
local function add_quantiles(self, nodes, tables)
  local sum = {}
  for _, node in ipairs(nodes) do
    for name in pairs(tables) do
      local before = (node.before.tables or {})[name]
      hot_keys.add_times(sum, (node.after.tables[name] or {}).relocate_hist, before and before.relocate_hist)
    end
  end
  self.relocate_p50_s, self.relocate_p99_s = hot_keys.quantile(sum, 0.5), hot_keys.quantile(sum, 0.99)
end

local function add_shares(row)
  local here = row.pulls_local + row.pushes_local
  local there = row.pulls_remote + row.pushes_remote
  row.accesses_local, row.accesses_remote = here, there
  if here + there > 0 then
    row.local_share, row.remote_share = here / (here + there), there / (here + there)
  end
end

---Adds what a report says of the exchange of gradients.
---@param sums table<string, number> of the reports so far
---@param report table
---@package
function summary.add_report(sums, report)
  for k, v in pairs(report) do
    if k == "resyncs" or k == "steps" or type(k) == "string" and k:find "^comm_" then sums[k] = (sums[k] or 0) + v end
  end
end

---Share of the time in which gradients were in flight that computing hid. Time in which other workers had not ended
---their step is no communication.
---@param figures table of the exchange, of one worker or added up
---@return number|nil
---@package
function summary.overlap_of(figures)
  local in_flight <const> = figures.comm_s - figures.comm_skew_s
  return in_flight > 0 and math.max(0, 1 - figures.comm_wait_s / in_flight) or nil
end

---What reports said of the exchange of gradients.
local function add_exchange(self, sums)
  if not sums.comm_bytes then return end
  for k, v in pairs(sums) do self[k] = v end
  if (self.steps or 0) > 0 then self.comm_bytes_step = self.comm_bytes / self.steps end
  if sums.comm_s then self.overlap = summary.overlap_of(sums) end
end

---@param run tide.run
---@param counters table of the controller: nodes = {{name, before, after}}, elapsed_s, clock, examples
---@return tide.summary
---@package
function summary.new(run, counters)
  local self = {run = run.id, job = run.job.name, reports = counters.clock, elapsed_s = counters.elapsed_s,
                examples = counters.examples, workers_lost = counters.workers_lost or 0,
                chunks_redone = counters.chunks_redone or 0, seed = run.seed, nodes = {}, stopped = run.stopping or nil}
  local names = {}
  for _, name in pairs(run.table_names) do names[name] = true end
  for _, field in ipairs(COUNTED) do self[field] = 0 end
  self.relocated, self.relocated_in = 0, nil
  self.wire_bytes, self.wire_messages = 0, 0
  for i, node in ipairs(counters.nodes) do
    local row = of_node(node, names)
    add_shares(row)
    self.nodes[i] = row
    for _, field in ipairs(COUNTED) do
      if row[field] then self[field] = self[field] + row[field] end
    end
    self.relocated = self.relocated + row.relocated
    self.wire_bytes = self.wire_bytes + row.wire_bytes
    self.wire_messages = self.wire_messages + row.wire_messages
  end
  add_shares(self)
  self.relocations_per_s = self.elapsed_s > 0 and self.relocated / self.elapsed_s or 0
  add_quantiles(self, counters.nodes, names)
  self.hottest = {}
  for key, name in pairs(run.table_names) do
    self.hottest[key] = hot_keys.merge(counters.hottest and counters.hottest[name] or {}, HOTTEST)
  end
  self.staleness = staleness.of_run(run.table_names, counters.nodes)
  local history = run.history
  local last = history[#history]
  if last then
    self.epoch_s = last.elapsed_s / last.n
    if last.elapsed_s > 0 then self.examples_per_s = self.examples / last.elapsed_s end
    self.loss = report_of.value(last, "loss")
  end
  add_exchange(self, run.sums)
  return setmetatable(self, summary)
end

local function format_of(field)
  if field:find("_share$") or field == "overlap" then return "share" end
  if field:find("_bytes$") or field == "comm_bytes_step" then return "size" end
  if field:find("_per_s$") then return "rate" end
  if field:find("_s$") then return "duration" end
  return nil
end

local function is_count(value) return math.type(value) == "integer" and value >= 10000 end

local printable = {__index = {}}
printable.__tostring = function(self)
  local columns = {}
  for i, field in ipairs(self.fields) do
    local format = format_of(field)
    if not format and is_count(self.rows[1] and self.rows[1][field]) then format = "count" end
    columns[i] = {key = field, format = format}
  end
  return table.concat(table_view.lines(self.rows, columns, {width = 120}), "\n")
end

local DEFAULT <const> = {"reports", "elapsed_s", "examples_per_s", "loss", "local_share", "wire_bytes"}

---A printable table of one row.
---@param fields? string[] of the summary
---@return table printable by print and tostring; .rows has the exact values
function summary:table(fields)
  if not fields then
    fields = {table.unpack(DEFAULT)}
    if self.workers_lost > 0 then table.move({"workers_lost", "chunks_redone"}, 1, 2, #fields + 1, fields) end
    if self.relocated > 0 then table.move({"relocated", "relocate_p50_s"}, 1, 2, #fields + 1, fields) end
    if self.not_finite > 0 then table.insert(fields, 1, "not_finite") end
  end
  return setmetatable({rows = {self}, fields = fields}, printable)
end

function summary:__tostring() return tostring(self:table()) end

---A printable table of one row a node.
---@param fields? string[]
---@return table
function summary:by_node(fields)
  return setmetatable({rows = self.nodes, fields = fields or {
    "node", "accesses_local", "accesses_remote", "local_share", "wire_bytes", "wire_messages"}}, printable)
end

---Accesses on the nodes and elsewhere, as a chart: tide.chart.write("locality.svg", {summary:locality()}).
---@return tide.chart.bars
function summary:locality() return hot_keys.locality_chart("Accesses of " .. self.job, self.nodes) end

---Plain data for --json.
---@return table
function summary:to_data()
  local data = {schema = "tide.summary/1"}
  for k, v in pairs(self) do data[k] = v end
  data.hottest = {}
  for name, list in pairs(self.hottest) do data.hottest[name] = hot_keys.to_data(list) end
  return data
end

return summary
