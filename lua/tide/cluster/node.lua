-- Body of `tide node`: a process that is one node of a cluster, until it is asked to end.
local children = require "tide.provision.children"
local core = require "tide.core"
local declared = require "tide.declared"
local directory = require "tide.directory"
local errors = require "tide.errors"
local gang = require "tide.provision.gang"
local interrupts = require "tide.interrupts"

local node = {}

local AGENT <const> = [[return require("tide.cluster.agent").main(...)]]
local CONTROL <const> = [[return require("tide.cluster.up_down").control(...)]]

local function complain(err)
  io.stderr:write(errors.format(errors.from(err), {}), "\n")
  return errors.exit(errors.from(err))
end

---A first node by accident: rejected if the cluster exists and can be joined, reported if not.
---@return tide.error?
local function alone(o)
  local name <const> = o.cluster or "local"
  local endpoint <const> = directory.pids(name)[1] and directory.endpoints(name)[1]
  if endpoint then
    return errors.new("T0107", {message = ("cluster `%s` runs already"):format(name),
      help = ("--join %s enters it; another --cluster names one of its own"):format(endpoint)})
  end
  core.log("info", ("no --join: this node is the first of cluster `%s`"):format(name))
  return nil
end

-- Of a gang the first one may still be starting.
local function started(options, patient_s)
  local until_s <const> = core.now() + (patient_s or 0)
  while true do
    local ok, err = core.node_start(options)
    if ok or err.name ~= "EUNREACHABLE" or core.now() >= until_s or core.interrupted() > 0 then return ok, err end
    core.sleep(0.2)
  end
end

-- The audit log of this node: in the named directory, else with the cluster's files.
local function begin_audit(named)
  local cluster <const> = core.node().cluster
  if not named then
    local ok, err = directory.make(cluster)
    if not ok then return nil, err end
  end
  return core.audit_open(named or directory.of(cluster), core.node().name)
end

---Joins, serves until asked to end. SIGTERM: leaves in order. The cluster's exit codes.
---@param o {keys?:string, join?:string, cluster?:string, name?:string, listen?:string, workers?:integer,
---  no_store?:boolean, audit?:string, debuggable?:boolean, leave_on_eof?:boolean,
---  grace_s?:number, controller?:boolean, state?:string, controllers?:integer, nodes?:integer, node_workers?:integer,
---  silence?:number}
---@return integer exit code
function node.main(o)
  local ok, err
  local place, problem
  if o.gang then place, problem = gang.place(o.gang, o.rank) end
  if problem then return complain(problem) end
  if place then o.join, o.listen, o.name = place.join, place.listen, o.name or place.name end
  if not (o.join or o.controller or o.controllers or o.keys) then
    ok, err = pcall(alone, o)
    err = not ok and errors.from(err) or err
    if err then return complain(err) end
  end
  ok, err = core.harden(o.keys ~= nil and not o.debuggable)
  if not ok then return complain(err) end
  ok, err = started(declared.picked(declared.node, o, {
    join = o.join, cluster = o.cluster, name = o.name, listen = o.listen, keys = o.keys, state = o.state,
    controllers = o.controllers, silence = o.silence,
  }), place and place.join and gang.JOIN_S)
  if not ok then
    local missing = o.controllers and (err.name == "EUNSUPPORTED" or err.name == "EVERSION")
    return complain(missing and errors.new("T1004", {message = err.message}) or err)
  end
  interrupts.limit {count = 3, patient = true} -- the second one hurries it
  ok, err = begin_audit(o.audit)
  if not ok then
    core.node_stop(0)
    return complain(err)
  end
  local ended
  if o.controller then
    ended, err = core.node_run(CONTROL, "@tide/up_down.lua", {
      cluster = core.node().cluster, nodes = o.nodes or 0, workers = o.node_workers or 1, program = children.program})
  else
    local published <const> = not o.join and not o.controllers and directory.publish(
      core.node().cluster, core.node().endpoint, {directory.own_pid()})
    ended, err = core.node_run(AGENT, "@tide/agent.lua", {
      program = children.program, grace_s = o.grace_s, leave_on_eof = o.leave_on_eof})
    if published then directory.unpublish(core.node().cluster) end
  end
  if not ended then
    core.node_stop(0)
    return complain(err)
  end
  if ended.why == "dead" then
    core.node_stop(0)
    local reason <const> = tostring(ended.reason or "no reason given")
    return complain(errors.new("T0509", {
      message = ended.own and reason or "the cluster has declared this node dead: " .. reason,
      help = ended.own and "correct what the message names and start it again" or nil}))
  end
  core.audit_sync()
  core.node_stop(ended.why == "leave" and math.max(ended.left_s or o.grace_s or 25, 1) or 0)
  return 0
end

return node
