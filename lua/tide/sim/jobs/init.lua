-- `tide.sim.jobs`: the job-level simulator for scripts and the command `tide sim jobs`. The guide is
-- docs/guides/scheduling.md.
local core = require "tide.core"
local errors = require "tide.errors"
local shares = require "tide.policy.persons"
local profiles = require "tide.sim.jobs.profiles"
local report = require "tide.sim.jobs.report"
local text = require "tide.text"
local trace = require "tide.sim.jobs.trace"
local world = require "tide.sim.jobs.world"

local jobs = {charts = report.charts}

---@class tide.sim.jobs
---@field profiles string folder with a folder an application
---@field nodes? integer 16
---@field slots? integer of a node; 4
---@field every? number seconds between decisions; 60
---@field resize? number|{start: number, live: number} seconds lost at a start, at a change of slots; 30
---@field interference? number share of its speed that a spanning job loses beside another one; 0
---@field events? boolean decisions when something happens too
---@field nodes_min? integer autoscaling between these
---@field nodes_max? integer
---@field shares? string path of a file of persons' shares
---@field node_start? number seconds until a node that was ordered is there; 120
local FIELDS <const> = {
  profiles = "string", nodes = "integer", slots = "integer", every = "number", resize = "resize",
  interference = "number",
  events = "boolean", nodes_min = "integer", nodes_max = "integer", node_start = "number", shares = "string",
}
local RUN_FIELDS <const> = {workload = true, policy = true, params = true, seed = true}

local function fail(message) error(errors.new("T0113", {message = "tide.sim.jobs: " .. message}), 0) end

local function check_field(name, value)
  local kind = FIELDS[name]
  if not kind then fail(("there is no field `%s`; there are %s"):format(tostring(name),
    table.concat(text.sorted_keys(FIELDS), ", "))) end
  if kind == "integer" and not (math.type(value) == "integer" and value >= 1 and value <= 4096) then
    fail(("`%s` must be an integer, 1 to 4096"):format(name))
  elseif kind == "number" and not (type(value) == "number" and value >= 0 and value < 1e9) then
    fail(("`%s` must be a number of 0 or more"):format(name))
  elseif (kind == "string" or kind == "boolean") and type(value) ~= kind then
    fail(("`%s` must be a %s"):format(name, kind))
  end
end

local function resize_of(value)
  if value == nil then value = 30 end
  if type(value) == "number" then value = {start = value, live = value} end
  if type(value) ~= "table" then fail "`resize` must be seconds, or {start = seconds, live = seconds}" end
  for name, v in pairs(value) do
    if name ~= "start" and name ~= "live" then fail(("`resize` has no field `%s`"):format(tostring(name))) end
    if math.tointeger(v) == nil or v < 0 or v > 86400 then fail "`resize` must be whole seconds, up to a day" end
  end
  return {start = math.tointeger(value.start or 30), live = math.tointeger(value.live or 30)}
end

local function shares_of(path)
  local content <const>, unread = core.file_read(path)
  if not content then error(errors.from(unread), 0) end
  local given <const>, err = shares.read(content, path)
  if not given then error(err, 0) end
  return shares.check(given)
end

local simulator = {}
simulator.__index = simulator

---Runs a workload.
---@param r {workload: string, policy?: string|table, params?: table, seed?: integer}
---@return table result jct, wait, rho (each with :mean(), :quantile(q), :max()), makespan, last, resizes, ...
function simulator:run(r)
  for name in pairs(r) do
    if not RUN_FIELDS[name] then fail(("run: there is no field `%s`"):format(tostring(name))) end
  end
  if type(r.workload) ~= "string" then fail "run: `workload` must be the path of a CSV file" end
  local policy = r.policy or "scheduling/goodput"
  if r.params then policy = {policy = policy, params = r.params} end
  local most = math.max(self.o.nodes, self.o.nodes_max) * self.o.slots
  local requests = trace.read(r.workload, self.profiles, most)
  return world.new(self.o, requests, policy, r.seed or 1):run()
end

---@param o tide.sim.jobs
---@return table simulator with :run
function jobs.new(o)
  if type(o) ~= "table" then fail "requires a table" end
  for name, value in pairs(o) do check_field(name, value) end
  if not o.profiles then fail "`profiles`, the folder of applications, is missing" end
  local every = o.every or 60
  if math.tointeger(every) == nil or every < 1 then fail "`every` must be whole seconds, 1 or more" end
  if (o.interference or 0) >= 1 then fail "`interference` must be below 1" end
  local nodes = o.nodes or 16
  local own = {nodes = nodes, slots = o.slots or 4, every = math.tointeger(every), resize = resize_of(o.resize),
    interference = o.interference or 0, events = o.events or false, nodes_min = o.nodes_min or nodes,
    nodes_max = o.nodes_max or nodes, node_start = o.node_start or 120}
  if o.shares then own.shares = shares_of(o.shares) end
  if own.nodes_min > own.nodes_max then fail "`nodes_min` is above `nodes_max`" end
  if nodes < own.nodes_min or nodes > own.nodes_max then fail "`nodes` must be between nodes_min and nodes_max" end
  return setmetatable({o = own, profiles = profiles.open(o.profiles)}, simulator)
end

return jobs
