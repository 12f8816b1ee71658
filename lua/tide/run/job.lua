-- tide.job{}: what is trained, on what data, by which code. A job registers itself by its name while the script loads.
local checkpoint = require "tide.run.checkpoint"
local checks = require "tide.checks"
local data_sets = require "tide.run.data_sets"
local extensions = require "tide.extensions"
local declared = require "tide.declared"
local script = require "tide.script"
local text = require "tide.text"

---@class tide.job
local job = {}
job.__index = job

local LATER <const> = {restore = "checkpoints", reinit = "new homes for lost rows"} -- of on_loss

---@param name any
---@return boolean whether it may name a cluster, node, table or job
---@package
function job.is_identifier(name)
  return type(name) == "string" and #name <= 63 and name:find("^[a-z0-9][a-z0-9._-]*$") ~= nil
end

-- Fields that are tables of their own.
local function check_parts(who, o)
  if type(o.batch) == "number" then o.batch = {total = o.batch} end
  o.batch = o.batch and checks.options(("`batch` of %s"):format(who), declared.batch, o.batch, "T0203")
  local stop <const> = o.stop and checks.options(("`stop` of %s"):format(who), declared.stop, o.stop, "T0203")
  o.stop = stop
  if not stop then return end
  if (stop.patience or stop.better or stop.by or stop.per) and not stop.metric then
    error(script.error("T0203", "the stop rule requires `metric`: which number of the reports is to get better"), 4)
  end
  if stop.metric and not stop.patience then
    error(script.error("T0203", "the stop rule `metric` requires `patience`: so many reports without a better one"), 4)
  end
end

-- The fields of a job in their units.
local function read(fields)
  local later <const> = type(fields) == "table" and LATER[fields.on_loss]
  if later then
    error(script.error("T0615", ("job field `on_loss = \"%s\"` needs %s, which this version has not"):format(
      fields.on_loss, later)), 3)
  end
  local named <const> = type(fields) == "table" and type(fields.name) == "string"
  local who <const> = named and ("job `%s`"):format(text.clean(fields.name)) or "tide.job"
  local o <const> = checks.options(who, declared.job, fields, "T0203")
  if not job.is_identifier(o.name) then
    error(script.error("T0203", "a job needs a name of small letters, digits, `.`, `_`, `-`"), 3)
  end
  if o.chunks and not o.data then
    error(script.error("T0203", ("job `%s` has chunks of no data"):format(o.name),
      {help = "say what is cut: `data = N`, a list or a data set"}), 3)
  end
  check_parts(who, o)
  if o.checkpoint then
    local problem
    o.checkpoint, problem = checkpoint.settings(o.checkpoint, ("`checkpoint` of %s"):format(who))
    if problem then error(problem, 3) end
  end
  return o
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

---Registers a job. On workers and controllers this is what finds `worker`, `evaluate` and `on_report` by name.
---@param given tide.job_fields
---@return tide.job
---@package
function job.new(given)
  local fields <const> = read(given)
  if script.in_main then
    error(script.error("T0206", ("job `%s` is made inside tide.main, which only the driver runs"):format(fields.name),
      {help = "move tide.job to the top of the script, where every worker runs it too"}), 2)
  end
  if script.jobs[fields.name] then
    error(script.error("T0203", ("two jobs are called `%s`"):format(fields.name)), 2)
  end
  local self = setmetatable(fields, job)
  if self.batch then extensions.register(self, {batch = self.batch}) end
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
