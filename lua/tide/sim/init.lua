-- `require "tide.sim"`: what a script may say about the simulated world it runs in. Guide: docs/guides/simulator.md.
--
-- The module loads everywhere, so that a script can ask `sim.active`; outside of `tide sim` every call raises. Workers
-- load the same script: there the calls do nothing, the driver's count.
local core = require "tide.core"
local errors = require "tide.errors"
local script = require "tide.script"
local sim_net = require "tide.sim.network"
local units = require "tide.units"

local sim = {
  active = core.simulated(), ---@type boolean
  seed = nil,                ---@type integer|nil of this run
  faults = {},               ---@type string[] what was asked for, printable, in order
}

local DRIVER <const> = "driver"
local SLOWNESS_MAX <const> = 1e5
local DRIFT_MAX <const> = 1e-3
local FLOPS <const>, MEMORY <const> = 1e11, 1e10 -- as the simulator begins

local opened <const> = sim.active and core.sim_report() or {latency_min = 0, latency_max = 0, nic = 0}
if sim.active then
  sim.seed = opened.seed
  ---Random numbers of the script's own faults; the same in every run of a seed.
  sim.rng = core.random(sim.seed)
end

local function fail(message, help) error(script.error("T0113", message, {help = help}), 3) end

---@return boolean whether the call counts here
local function check_active()
  if not sim.active then error(script.error("T0218", "only under tide sim"), 3) end
  return script.role == nil or script.role == DRIVER
end

---- reading arguments ---------------------------------------------------------------------------------------------

---Calls fn(...); what it finds wrong is the script's mistake.
local function checked(fn, ...)
  local ok, value = pcall(fn, ...)
  if not ok then
    if type(value) ~= "table" then error(value, 0) end
    fail(value.message)
  end
  return value
end

local function seconds_of(value, what) return checked(sim_net.seconds, value, what) end
local function bandwidth_of(value, what) return checked(sim_net.bandwidth, value, what) end

---A moment: "3s" of virtual time, or "+2s" after `from`.
local function moment_of(value, from, what)
  if type(value) == "string" and value:sub(1, 1) == "+" then return from + seconds_of(value:sub(2), what) end
  local at = seconds_of(value, what)
  if at < from then fail(("%s: %gs is before %gs"):format(what, at, from)) end
  return at
end

local function node_of(o, kind)
  if type(o) ~= "table" or type(o.node) ~= "string" then
    fail(("fault %s: `node` is missing: {node = \"n2\", at = \"3s\"}"):format(kind))
  end
  return o.node
end

local function factor_of(value, what)
  if type(value) ~= "number" or value <= 0 or value > SLOWNESS_MAX then
    fail(("%s: `%s` is no factor above 0"):format(what, tostring(value)))
  end
  return value
end

---Pairs (a, b) of nodes of different groups.
local function pairs_of(groups, kind)
  local list = {}
  local function group_at(i)
    local group = groups[i]
    return type(group) == "string" and {group} or group
  end
  if type(groups) ~= "table" or #groups < 2 then
    fail(("fault %s requires groups of nodes: {{\"n1\"}, {\"n2\", \"n3\"}}"):format(kind))
  end
  for i = 1, #groups do
    for j = i + 1, #groups do
      for _, a in ipairs(group_at(i)) do
        for _, b in ipairs(group_at(j)) do
          if a == b then fail(("fault %s: %s is in two groups"):format(kind, a)) end
          list[#list + 1] = {a, b}
        end
      end
    end
  end
  return list
end

---- the world -----------------------------------------------------------------------------------------------------

-- What holds when no fault does; nic_all 0: no limit.
local state = {latency = {opened.latency_min, opened.latency_max}, slowness = {}, nic = {}, nic_all = opened.nic}

---Network of all nodes from this line on.
---@class tide.sim.net
---@field latency? string|number|table one, or {least, most}
---@field nic? string|number bandwidth of each node's card
---@field core? string|number of the switch between racks, or between any two nodes where there are none
---@field racks? integer
---@field nodes_per_rack? integer n1, n2, ... fill the racks in order; the driver is in the first
---@field pairs? table[] {{"n1", "n2", "5ms"}}: latency of these
---@field window? string|number bytes of a connection that are sent and not read yet
---@field send? string|number a write takes the sender's I/O thread so long
---@field receive? string|number and a read the receiver's
---@field byte? string|number and each byte both
---@param o tide.sim.net
function sim.net(o)
  local counts = check_active()
  local net = checked(sim_net.parse, o)
  local now = core.now()
  if net.latency_min then
    state.latency = {net.latency_min, net.latency_max}
    if counts then core.sim_fault("latency", now, nil, nil, net.latency_min, net.latency_max) end
  end
  if net.nic then
    state.nic_all = net.nic
    if counts then core.sim_fault("nic", now, nil, nil, net.nic) end
  end
  if counts then core.sim_net(net) end
end

---A node's own properties.
---@param name string
---@class tide.sim.node
---@field speed? number of computing, 1 is usual
---@field nic? string|number bandwidth of its card
---@field slow? {p: number, factor: number, mean: string|number} slower for a share `p` of the time
---@field ahead? string|number its clock jumps so far ahead of the others
---@field drift? number and from here on gains so many seconds in a second, or loses them; at most 0.001
---@param o tide.sim.node
function sim.node(name, o)
  local counts = check_active()
  if type(name) ~= "string" or type(o) ~= "table" then fail "sim.node requires a node's name and a table" end
  local now = core.now()
  if o.speed then
    state.slowness[name] = 1 / factor_of(o.speed, "speed")
    if counts then core.sim_fault("slowness", now, name, nil, state.slowness[name]) end
  end
  if o.nic then
    state.nic[name] = bandwidth_of(o.nic, "nic")
    if counts then core.sim_fault("nic", now, name, nil, state.nic[name]) end
  end
  if o.ahead or o.drift then
    local drift = o.drift or 0
    if name == DRIVER then fail "the driver's clock is the one that faults go by" end
    if type(drift) ~= "number" or drift ~= drift or math.abs(drift) > DRIFT_MAX then
      fail(("drift: `%s` is no number between -%g and %g"):format(tostring(drift), DRIFT_MAX, DRIFT_MAX))
    end
    local ahead = seconds_of(o.ahead or 0, "ahead")
    if counts then core.sim_fault("clock", now, name, nil, ahead, drift) end
  end
  if o.slow then
    local p, factor = o.slow.p, factor_of(o.slow.factor, "slow.factor")
    if type(p) ~= "number" or p <= 0 or p >= 1 then fail "slow.p is the share of slow time, between 0 and 1" end
    local mean = seconds_of(o.slow.mean, "slow.mean")
    if mean <= 0 then fail "slow.mean is above 0" end
    if counts then core.sim_fault("markov", now, name, nil, state.slowness[name] or 1, factor, p, mean) end
  end
end

local function seconds_each(rate, what)
  if type(rate) ~= "number" or not (rate > 0 and rate <= 1e18) then
    fail(("%s: `%s` is no number of them a second"):format(what, tostring(rate)))
  end
  return 1 / rate
end

local function read_costs(path)
  local text, problem = core.file_read(path)
  if not text then fail("costs of kernels: " .. problem.message) end
  local ok, costs = pcall(core.json_decode, text)
  costs = ok and type(costs) == "table" and costs.schema == "tide.costs/1" and costs or {}
  if type(costs.kernels) ~= "table" then
    fail(("costs of kernels: %s: no file of `tide sim --calibrate`"):format(path))
  end
  for kernel, cost in pairs(costs.kernels) do
    core.sim_compute(seconds_of(cost.call_s, kernel .. ".call_s"), seconds_of(cost.row_s, kernel .. ".row_s"), kernel)
  end
  local work <const> = costs.work
  if work then core.sim_rates(seconds_of(work.flop_s, "flop_s"), seconds_of(work.byte_s, "byte_s")) end
end

---How long computing takes on a node of speed 1. Kernels: {call = "10us", row = "20us"} for all, or each as `file`
---says. Operations of programs, updates, products: flops / `flops` + bytes of their operands / `memory`, both a second.
---@param o {call?: string|number, row?: string|number, flops?: number, memory?: number, file?: string} file: of `tide
---sim --calibrate`
function sim.compute(o)
  if not check_active() then return end
  if o.call or o.row or not (o.file or o.flops or o.memory) then
    core.sim_compute(seconds_of(o.call or 10e-6, "call"), seconds_of(o.row or 20e-6, "row"))
  end
  if o.flops or o.memory then
    core.sim_rates(seconds_each(o.flops or FLOPS, "flops"), seconds_each(o.memory or MEMORY, "memory"))
  end
  if o.file then read_costs(o.file) end
end

---The calling worker computes as long as so much work takes: for what is not computed in the simulation.
---@param flops number
---@param bytes? number
function sim.work(flops, bytes)
  check_active()
  core.sim_work(flops, bytes)
end

---- faults --------------------------------------------------------------------------------------------------------

local function settings_fault(kind, o, at, value, before)
  core.sim_fault(kind, at, o.node, nil, value)
  if o.heal then core.sim_fault(kind, moment_of(o.heal, at, "heal"), o.node, nil, before) end
end

local kinds = {}

function kinds.crash(o, at)
  local node = node_of(o, "crash")
  if node == DRIVER then fail "the driver cannot crash: it is the script" end
  core.sim_fault("crash", at, node)
  if o.restart then core.sim_fault("restart", moment_of(o.restart, at, "restart"), node) end
  return node
end

function kinds.pause(o, at)
  local node = node_of(o, "pause")
  core.sim_fault("pause", at, node, nil, seconds_of(o.time or "1s", "time"))
  return node
end

function kinds.partition(o, at, groups)
  local heal = o.heal and moment_of(o.heal, at, "heal") - at or 0
  local names = {}
  for i, pair in ipairs(pairs_of(groups, "partition")) do
    core.sim_fault("cut", at, pair[1], pair[2], heal)
    if not o.oneway then core.sim_fault("cut", at, pair[2], pair[1], heal) end
    names[i] = pair[1] .. (o.oneway and ">" or "-") .. pair[2]
  end
  return table.concat(names, " ")
end

function kinds.reset(_, at, groups)
  local names = {}
  for i, pair in ipairs(pairs_of(groups, "reset")) do
    core.sim_fault("reset", at, pair[1], pair[2])
    names[i] = pair[1] .. "-" .. pair[2]
  end
  return table.concat(names, " ")
end

function kinds.slow(o, at)
  local node = node_of(o, "slow")
  local base = state.slowness[node] or 1
  settings_fault("slowness", o, at, base * factor_of(o.factor, "factor"), base)
  return node .. " x" .. o.factor
end

function kinds.nic(o, at)
  local node = node_of(o, "nic")
  settings_fault("nic", o, at, bandwidth_of(o.bandwidth, "bandwidth"), state.nic[node] or state.nic_all)
  return node .. " " .. tostring(o.bandwidth)
end

function kinds.delay(o, at)
  local latency = seconds_of(o.latency, "latency")
  core.sim_fault("latency", at, nil, nil, latency, latency)
  if o.heal then
    core.sim_fault("latency", moment_of(o.heal, at, "heal"), nil, nil, state.latency[1], state.latency[2])
  end
  return tostring(o.latency)
end

local function probability_of(value, what)
  value = value or 0
  if type(value) ~= "number" or value < 0 or value > 1 then
    fail(("disk: %s is a probability between 0 and 1"):format(what))
  end
  return value
end

local DISK <const> = {"read_error", "write_error", "sync_error", "crash"}
local DISK_FIELDS <const> = {node = 1, at = 1, heal = 1, sync = 1, free = 1, read_error = 1, write_error = 1,
                             sync_error = 1, crash = 1}

function kinds.disk(o, at)
  for key in pairs(o) do
    if not DISK_FIELDS[key] then fail(("disk: `%s` is not known"):format(tostring(key))) end
  end
  local values = {}
  for i, key in ipairs(DISK) do values[i] = probability_of(o[key], key) end
  local sync = type(o.sync) == "table" and o.sync or {o.sync or 0, o.sync or 0}
  values[5], values[6] = seconds_of(sync[1], "sync"), seconds_of(sync[2], "sync")
  if values[5] > values[6] then fail "disk: sync: the least is above the most" end
  values[7] = o.free and units.parse_size(o.free) or 0
  if o.free and not values[7] then fail(("disk: free: `%s` is no size such as \"10MB\""):format(tostring(o.free))) end
  core.sim_fault("disk", at, o.node, nil, table.unpack(values))
  if o.heal then core.sim_fault("disk", moment_of(o.heal, at, "heal"), o.node, nil, 0, 0, 0, 0, 0, 0, 0) end
  return o.node or "of all nodes"
end

local function damage(kind)
  return function(o, at)
    local node = node_of(o, kind)
    core.sim_fault(kind, at, node, o.file)
    return node .. " " .. (o.file or "any file")
  end
end

kinds.flip, kinds.truncate = damage "flip", damage "truncate"

local GROUPED <const> = {partition = true, reset = true}

---A fault at a moment of virtual time (default: now).
---@param kind "crash"|"pause"|"partition"|"reset"|"slow"|"nic"|"delay"|"disk"|"flip"|"truncate"
---@param what table of partition and reset: groups of nodes; else {node=, at=, ...}
---@param o? table of partition and reset: {at=, heal=, oneway=}
function sim.fault(kind, what, o)
  local counts = check_active()
  local make = kinds[kind]
  if not make then
    fail(("fault `%s` is not known: %s"):format(tostring(kind), table.concat(require("tide.text").sorted_keys(kinds),
      ", ")))
  end
  if type(what) ~= "table" then fail(("fault %s requires a table"):format(kind)) end
  local fields = GROUPED[kind] and o or what
  if type(fields) ~= "table" then fields = {} end
  if not counts then return end
  local at = fields.at and seconds_of(fields.at, "at") or core.now()
  local text = make(fields, at, what)
  local line = ("fault %s %s at %gs"):format(kind, text, at)
  sim.faults[#sim.faults + 1] = line
  local context = require("tide.cluster").context
  if context and not context.quiet and not context.json then context.progress:say("sim: " .. line) end
end

---- checks --------------------------------------------------------------------------------------------------------

local EVERY_S <const> = 0.1
local CHECK_FIELDS <const> = {every = true}

---The first check that fails asks the runs to stop, as Ctrl-C does, and is the error that the script ends with.
local function check_failed(name, why)
  local context <const> = require("tide.cluster").context
  local err <const> = script.error("T0220", ("check `%s` failed at %.6fs: %s"):format(name, core.now(), why))
  err.state = #sim.faults > 0 and table.concat(sim.faults, "; ") or "no fault was asked for"
  context.check_failed = context.check_failed or err
  context.interrupted = true
  return err
end

---An invariant of the script: a function that returns true, or false and why. It is called now and then on the driver,
---while everything continues, and may pull rows; what it raises is a failure as well.
---@param name string
---@param holds fun(): boolean, string?
---@param o? {every?: string|number} virtual time between two looks; default 100ms
---@return fun() check looks at once, and raises where it does not hold
function sim.check(name, holds, o)
  local counts = check_active()
  if type(name) ~= "string" or type(holds) ~= "function" or (o ~= nil and type(o) ~= "table") then
    fail "sim.check requires a name and a function that returns true, or false and why"
  end
  for key in pairs(o or {}) do
    if not CHECK_FIELDS[key] then fail(("sim.check: `%s` is not known: every"):format(tostring(key))) end
  end
  local every = o and o.every and seconds_of(o.every, "every") or EVERY_S
  if every <= 0 then fail "sim.check: `every` is above 0" end
  local function look()
    local ok, good, why = xpcall(holds, script.failure)
    if not ok then
      local err <const> = errors.from(good)
      return check_failed(name, err.where and err.where .. ": " .. err.message or err.message)
    end
    if not good then return check_failed(name, why and tostring(why) or "it does not hold") end
    return nil
  end
  if counts then
    core.fiber(function()
      repeat core.sleep(every) until look()
    end)
  end
  return function()
    local err = counts and look()
    if err then error(err, 0) end
  end
end

---The job-level simulator: traces of jobs under scheduling policies. Works in every script.
---@param o tide.sim.jobs
---@return table simulator with :run
function sim.jobs(o) return require("tide.sim.jobs").new(o) end

return sim
