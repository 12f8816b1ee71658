-- tide.job{}: what is trained, on what data, by which code. A job registers itself by its name while the script loads.
local data_sets = require "tide.run.data_sets"
local extensions = require "tide.run.extensions"
local script = require "tide.script"
local text = require "tide.text"

---@class tide.job
---@field name string identifier
---@field worker fun(w: tide.worker) runs once on every worker
---@field data? tide.data.set|integer|any[] a data set, how many examples there are, or a list of them
---@field chunks? integer into how many chunks a pass over the data is cut for w:chunks() (8 a worker)
---@field on_worker_loss? "replay"|"stop" what a lost worker means; default: replay if the data is cut into chunks
---@field on_loss? "stop" what lost rows of a table mean
---@field tables? table<string, table>|fun(data: tide.data.set): table<string, table>
---@field params? table handed to the workers as w.params
---@field on_report? fun(run: table, sum: table): table|nil, string? once per report of all workers; its answer changes
---  params, a second one ends the run, as stopped for that reason
---@field evaluate? table<string, fun(w: tide.worker): number|table, number> sum (or table of sums) and count
---@field stop? {epochs?: integer, loss?: number, time?: number|string, metric?: string, per?: string,
---  patience?: integer, better?: "less"|"more", by?: number} epochs: reports; loss: at most; metric: a number of
---  reports, divided by the one called `per` (examples): after `patience` reports in which it got no better, by `by`
---  at least, the run ends
---@field checkpoint? {dir: string, every?: string|number, keep?: integer, cut?: "clock"|"fuzzy"} written now and then
---@field progress? {total?: integer, unit?: string} what the progress line counts up to
---@field seed? integer
---@field memory? string|integer what the tables of a run may take on each node: "256MB"
---@field batch? integer|{total: integer, min?: integer, max?: integer} examples of a step over all workers, and of one
---@field prepare? fun(w: tide.worker) what a worker does before it says that it is ready
---@field policies? table<string, string|table> the policy of each kind: {batching = "batching/boa"}
local job = {}
job.__index = job

local KNOWN <const> = {
  name = "string", worker = "function", data = {"table", "number"}, tables = {"table", "function"}, params = "table",
  on_report = "function", evaluate = "table", stop = "table", checkpoint = "table", progress = "table", seed = "number",
  workers = "number", chunks = "number", on_worker_loss = "string", on_loss = "string", batch = {"number", "table"},
  policies = "table", memory = {"string", "number"}, prepare = "function",
}
local CHOICES <const> = {on_worker_loss = {"replay", "stop"}, on_loss = {"stop"}}
local LATER <const> = {on_loss = {restore = "checkpoints", reinit = "new homes for lost rows"}}
local STOPS <const> = {epochs = "number", loss = "number", time = {"number", "string"}, metric = "string",
                       per = "string", patience = "number", better = "string", by = "number"}

---@param name any
---@return boolean whether it may name a cluster, node, table or job
---@package
function job.is_identifier(name)
  return type(name) == "string" and #name <= 63 and name:find("^[a-z0-9][a-z0-9._-]*$") ~= nil
end

local function is_count(value) return math.type(value) == "integer" and value >= 1 end

local function check_data(fields)
  if type(fields.data) == "number" and not is_count(fields.data) then
    error(script.error("T0203", "job field `data` is no number of examples: a whole number from 1 on"), 3)
  end
  if fields.chunks and not is_count(fields.chunks) then
    error(script.error("T0203", "job field `chunks` is no number of chunks: a whole number from 1 on"), 3)
  end
  if fields.chunks and not fields.data then
    error(script.error("T0203", ("job `%s` has chunks of no data"):format(fields.name),
      {help = "say what is cut: `data = N`, a list or a data set"}), 3)
  end
end

local function check_losses(fields)
  for key, choices in pairs(CHOICES) do
    local value = fields[key]
    local known = value == nil
    for _, choice in ipairs(choices) do known = known or value == choice end
    local later = value and LATER[key] and LATER[key][value]
    if later then
      error(script.error("T0615", ("job field `%s = \"%s\"` needs %s, which this version has not"):format(key, value,
        later)), 3)
    elseif not known then
      error(script.error("T0203", ("job field `%s` is `%s`, not %s"):format(key, tostring(value),
        table.concat(choices, " or "))), 3)
    end
  end
end

local function check_batch(fields)
  local b = fields.batch
  if b == nil then return end
  b = type(b) == "number" and {total = b} or b
  for _, key in ipairs {"total", "min", "max"} do
    local v = b[key]
    if (v ~= nil or key == "total") and not (math.tointeger(v) and v >= 1 and v < 1 << 40) then
      error(script.error("T0203", ("`batch` of job `%s`: `%s` must be a whole number of 1 or more"):format(fields.name,
        key)), 4)
    end
  end
end

local function check_stop(stop)
  for key, value in pairs(stop) do
    local want <const> = STOPS[key]
    if not want then
      error(script.error("T0203", ("stop rule `%s` is not known"):format(tostring(key)),
        {help = text.did_you_mean(tostring(key), text.sorted_keys(STOPS))}), 4)
    end
    if type(value) ~= want and not (type(want) == "table" and (type(value) == want[1] or type(value) == want[2])) then
      error(script.error("T0203", ("stop rule `%s` is a %s"):format(key, type(value))), 4)
    end
  end
  if (stop.patience or stop.better or stop.by or stop.per) and not stop.metric then
    error(script.error("T0203", "the stop rule requires `metric`: which number of the reports is to get better"), 4)
  end
  if stop.metric and not (math.type(stop.patience) == "integer" and stop.patience >= 1) then
    error(script.error("T0203", "the stop rule `metric` requires `patience`: so many reports without a better one"), 4)
  end
  if stop.better and stop.better ~= "less" and stop.better ~= "more" then
    error(script.error("T0203", ("stop rule `better` is `%s`, not less or more"):format(stop.better)), 4)
  end
end

local function check(fields)
  if type(fields) ~= "table" then error(script.error("T0203", "tide.job requires a table of fields"), 3) end
  for key, value in pairs(fields) do
    local want = KNOWN[key]
    if not want then
      error(script.error("T0203", ("job field `%s` is not known"):format(tostring(key)),
        {help = text.did_you_mean(tostring(key), text.sorted_keys(KNOWN))}), 3)
    end
    local got, fits = type(value), false
    for _, t in ipairs(type(want) == "table" and want or {want}) do fits = fits or got == t end
    if not fits then
      error(script.error("T0203", ("job field `%s` is a %s, not a %s"):format(key, got,
        type(want) == "table" and table.concat(want, " or a ") or want)), 3)
    end
  end
  if not job.is_identifier(fields.name) then
    error(script.error("T0203", "a job needs a name of small letters, digits, `.`, `_`, `-`"), 3)
  end
  if not fields.worker then
    error(script.error("T0203", ("job `%s` has no worker function"):format(fields.name)), 3)
  end
  check_data(fields)
  check_losses(fields)
  check_batch(fields)
  check_stop(fields.stop or {})
  local _, problem
  if fields.memory ~= nil then
    _, problem = require("tide.run.host").memory(fields.memory, ("`memory` of job `%s`"):format(fields.name))
  end
  if problem then error(script.error("T0203", problem.message), 3) end
end

---@return boolean whether the controller cuts this job's data into chunks
---@package
function job:has_chunks()
  return self.chunks ~= nil or (self.data ~= nil and not data_sets.is_set(self.data))
end

---@return boolean whether the run continues without a lost worker
---@package
function job:survives_workers()
  return (self.on_worker_loss or (self:has_chunks() and "replay" or "stop")) == "replay"
end

---@return integer|nil how many examples a pass over the data has; reads a data set
---@package
function job:examples()
  if type(self.data) == "number" then return self.data end
  if not self.data then return nil end
  return data_sets.is_set(self.data) and self.data.count or #self.data
end

local function check_checkpoint(fields)
  if not fields.checkpoint then return nil end
  local settings, problem = require("tide.run.checkpoint").settings(fields.checkpoint)
  if not settings then
    error(script.error("T0708", ("job `%s`: %s"):format(fields.name, problem)), 3)
  end
  return settings
end

---Registers a job. On workers and controllers this is what finds `worker`, `evaluate` and `on_report` by name.
---@param fields table see tide.job
---@return tide.job
---@package
function job.new(fields)
  check(fields)
  if script.in_main then
    error(script.error("T0206", ("job `%s` is made inside tide.main, which only the driver runs"):format(fields.name),
      {help = "move tide.job to the top of the script, where every worker runs it too"}), 2)
  end
  if script.jobs[fields.name] then
    error(script.error("T0203", ("two jobs are called `%s`"):format(fields.name)), 2)
  end
  local self = setmetatable({}, job)
  for k, v in pairs(fields) do self[k] = v end
  self.checkpoint = check_checkpoint(fields)
  if self.batch then
    extensions.register(self, {batch = type(self.batch) == "table" and self.batch or {total = self.batch}})
  end
  script.jobs[self.name] = self
  script.newest = self
  return self
end

local function upvalues(f, visit)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return end
    visit(name, value)
  end
end

local function each_travelling(self, visit)
  upvalues(self.worker, visit)
  for _, f in pairs(self.evaluate or {}) do upvalues(f, visit) end
end

---Called when the script has loaded: upvalues that are still nil are known to no worker, whatever main puts there.
---@package
function job:remember_upvalues()
  self.empty = {}
  each_travelling(self, function(name, value) if value == nil then self.empty[name] = true end end)
end

---@return true|nil, table? err T0206 when main has filled an upvalue that no worker will see
---@package
function job:check_upvalues()
  local found
  each_travelling(self, function(name, value)
    if value ~= nil and self.empty and self.empty[name] then found = name end
  end)
  if found then
    return nil, script.error("T0206", ("upvalue `%s` of job `%s` is only known in main"):format(found, self.name),
      {help = "pass it in params, or compute it at the top of the script"})
  end
  return true
end

return job
