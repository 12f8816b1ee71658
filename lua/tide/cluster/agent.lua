-- The agent of a node: an actor registered as "agent" that loads runs, starts their workers and reports the node's
-- state. It serves calls of any member and never waits for anything but its mailbox.
local checkpoints = require "tide.run.checkpoint"
local core = require "tide.core"
local cpu_share = require "tide.cluster.cpu_share"
local errors = require "tide.errors"
local hot_keys = require "tide.show.hot_keys"
local node_status = require "tide.cluster.node_status"
local pieces = require "tide.pieces"
local requests = require "tide.requests"
local roles = require "tide.console.roles"
local script = require "tide.script"
local service = require "tide.service"
local stacks = require "tide.cluster.stacks"
local table_names = require "tide.cluster.table_names"
local verbs = require "tide.request_audit"

local agent = {}

local LEAVE_S <const> = 25 -- what a node has for leaving, and
local WORK_SHARE <const> = 0.6 -- how much of it its workers have for what is in their hands
local LEFT_POLL_S <const> = 0.002 -- a simulated node that leaves notices so soon that it has left
local POLL_S <const> = core.simulated() and core.limit "cluster_agent_look" or 0.1 -- simulated nodes get no signals

local WORKER <const> = [[return require("tide.run.worker").main(...)]]

local state = {runs = {}, consoles = {}, members = {}, workers = {}}

local ops = {}

---What the tables of a run take of its memory here: {n}; empty where it has no cap, or no tables.
ops["run.memory"] = function(request) return core.memory(math.tointeger(request.n) or 0) or {} end

for name, look in pairs(node_status.ops) do ops[name] = look end

---What this node's store has done for others, in all and by slot of the named tables, and how long its own workers
---had something in flight to each other store: {tables={names}, slots=bool, homes={ids}}.
function ops.served(request)
  local answer = core.load()
  answer.now = core.now()
  for _, actor in ipairs(core.actors()) do
    if actor.type == "store" then answer.queue = actor.mailbox_messages end
  end
  answer.bytes, answer.served, answer.waited = {}, {}, {}
  for i, id in ipairs(request.homes or {}) do answer.waited[i] = core.waited(id) end
  for _, name in ipairs(request.tables) do
    local handle = core.table_find(name)
    if handle then
      answer.bytes[name] = handle:stats().memory_bytes
      answer.served[name] = request.slots and handle:slot_served() or nil
    end
  end
  return answer
end

---The hottest keys of tables among this node's workers: {tables={names}, count=} -> {[name] = see hot_keys.of_node}.
function ops.hottest(request)
  local answer = {}
  for _, name in ipairs(request.tables) do
    local handle = core.table_find(name)
    answer[name] = handle and hot_keys.of_node(handle, request.count)
  end
  return answer
end

---What the workers of this node saw of tables with clocks: {tables={names}}.
function ops.staleness(request)
  local answer = {now = core.now(), tables = {}}
  for _, name in ipairs(request.tables) do
    local handle = core.table_find(name)
    local seen = handle and handle:stats().staleness
    answer.tables[name] = seen and seen.workers or nil
  end
  return answer
end

---A placement policy requests keys here: {table=, keys=}. It is advice: failures appear at the access itself.
function ops.localize(request)
  local handle = core.table_find(request.table)
  if handle then core.fiber(function() handle:localize(request.keys) end) end
end

---Another bound for a table with clocks: {table=, value=}.
function ops.consistency(request)
  local handle, err = core.table_find(request.table)
  if not handle then return nil, err end
  handle:consistency(request.value)
end

ops.bytes = service.bytes

---A test aid: {seconds=} that each key served to another node takes this one longer.
function ops.serve_cost(request)
  core.serve_cost(request.seconds)
end

---Takes a run's script: {run=, script={text, sha, args, args_sha, path, modules}, controller=}. Answers the status, and
---of what machine the node is.
function ops.load(request, message)
  local sent = request.script
  local sha = core.sha256(sent.text)
  local known = state.runs[request.run]
  local mine = known and known.script.sha or sha
  if mine ~= sent.sha then
    return nil, script.error("T0207", ("the script differs: the driver runs %s, this node has %s"):format(
      sent.sha:sub(1, 12), mine:sub(1, 12)), {node = core.node().name})
  end
  local args_sha = known and known.script.args_sha or script.args_sha(sent.args)
  if args_sha ~= sent.args_sha then
    return nil, script.error("T0207", ("the script's options differ: the driver has %s, this node has %s"):format(
      sent.args_sha:sub(1, 12), args_sha:sub(1, 12)), {node = core.node().name})
  end
  if not known then
    local monitor = core.monitor(message.from)
    state.runs[request.run] = {script = sent, controller = message.from, monitor = monitor, workers = {}}
  end
  local answer = ops.status()
  answer.machine = core.machine()
  return answer
end

---The compute thread with the fewest workers, of whatever run.
local function idlest_thread()
  local counts, best = {}, 0
  for _, w in pairs(state.workers) do counts[w.thread] = (counts[w.thread] or 0) + 1 end
  for thread = 0, math.max(1, (core.member() or {}).workers or 1) - 1 do
    if (counts[thread] or 0) < (counts[best] or 0) then best = thread end
  end
  return best
end

---Starts workers of a loaded run: {run=, job=, ranks={...}, lives={...}, streams={...}, workers=, crowded=, seed=,
---params=, tables=, domain=}; answers addresses.
function ops.start(request)
  local run = state.runs[request.run]
  if state.leaving then
    return nil, script.error("T0509", "this node leaves", {node = core.node().name})
  end
  if not run then
    return nil, script.error("T0401", ("run %s is not loaded here"):format(tostring(request.run)))
  end
  run.job = request.job
  local addresses = {}
  for i, rank in ipairs(request.ranks) do
    local thread <const> = idlest_thread()
    local address, err = core.spawn {
      source = WORKER, chunk = "@tide/worker.lua", role = "compute", thread = thread,
      argument = {
        rank = rank, life = request.lives[i], stream = request.streams[i], workers = request.workers,
        crowded = request.crowded, node = core.node().name, seed = request.seed, params = request.params,
        controller = run.controller, script = run.script, job = request.job, tables = request.tables,
        domain = request.domain, keeps = request.keeps, resume = request.resume and request.resume[i],
      },
    }
    if not address then return nil, err end
    run.workers[address] = true
    state.workers[core.monitor(address)] = {run = request.run, rank = rank, address = address, thread = thread}
    addresses[i] = address
  end
  return {addresses = addresses}
end

local PATIENCE_S <const>, AGAIN_S <const>, STUCK_S <const> = 0.05, 0.02, 5

---Ends workers; those that do not come to a wait, where they would end, are interrupted.
---@param addresses table<string, any> by address
local function end_workers(addresses)
  local ending = {}
  for address in pairs(addresses) do
    core.kill(address)
    ending[address] = true
  end
  if core.simulated() or not next(ending) then return end
  core.fiber(function()
    local since <const> = core.now()
    core.sleep(PATIENCE_S)
    while core.now() - since < STUCK_S do
      local left = false
      for _, w in pairs(state.workers) do
        if ending[w.address] then
          left = true
          core.interrupt(w.address)
        end
      end
      if not left then return end
      core.sleep(AGAIN_S)
    end
    for _, w in pairs(state.workers) do
      if ending[w.address] then
        local line <const> = stacks.line((core.stack(w.address)))
        core.event("run", ("a worker of run %s is stuck on thread %d: %s does not end%s"):format(w.run, w.thread,
          w.address, line and ", it is at " .. line or ""))
      end
    end
  end)
end

---One worker of a run is not needed any more: {run=, address=}.
function ops.end_worker(request)
  local run = state.runs[request.run]
  if run and run.workers[request.address] then end_workers {[request.address] = true} end
end

local function forget(id)
  local run = state.runs[id]
  if not run then return end
  end_workers(run.workers)
  if run.monitor then core.demonitor(run.monitor) end
  state.runs[id] = nil
  collectgarbage() -- handles that were looked up keep a dropped table's memory
end

---Ends a run's workers at once: {run=}.
function ops.stop(request)
  forget(request.run)
end

---A member of a group: {argument = of its body, threads = on a worker thread}; answers its address. It ends with its
---keeper.
ops["member.start"] = function(request, message)
  local thread <const> = request.threads and idlest_thread() or 0
  local address, err = core.spawn {source = require("tide.run.actors").MEMBER, chunk = "@tide/run/actors.lua",
    role = request.threads and "compute" or "control", thread = thread, argument = request.argument}
  if not address then return nil, err end
  state.members[core.monitor(message.from)] = {address = address, keeper = message.from}
  if request.threads then
    state.workers[core.monitor(address)] = {run = "group", address = address, thread = thread}
  end
  return {address = address}
end

---Ends a member that was asked to stop and does not: {address=}.
ops["member.stop"] = function(request)
  for id, m in pairs(state.members) do
    if m.address == request.address then
      state.members[id] = nil
      core.demonitor(id)
      core.fiber(function()
        core.sleep(1)
        end_workers {[m.address] = true}
      end)
    end
  end
end

---How long this node's workers waited for a table, and how stale what they read was: {table=name}.
function ops.waits(request)
  local handle = core.table_find(request.table)
  if not handle then return {} end
  local waits = handle:waits()
  waits.staleness = (handle:stats().staleness or {}).hist
  return waits
end

---Something that others shall be able to ask for: {kind=, text=}.
function ops.event(request)
  core.event(request.kind, request.text)
end

---Jobs whose workers this node has, and its machine: {jobs = {{job=, run=, workers=}, ..}, machine=}.
function ops.jobs()
  local jobs = {}
  for id, run in pairs(state.runs) do
    local count = 0
    for _ in pairs(run.workers) do count = count + 1 end
    if run.job then jobs[#jobs + 1] = {job = run.job, run = id, workers = count} end
  end
  return {jobs = jobs, machine = core.machine()}
end

---What actors do at this moment: {address=}, else the workers {run=}, else all workers. Answers {data = encoded
---tide.stack records}.
function ops.stack(request)
  local list = {}
  if request.address then
    list[1] = {address = request.address}
  else
    for _, w in pairs(state.workers) do
      if not request.run or request.run == w.run then
        list[#list + 1] = {address = w.address, run = w.run, rank = w.rank}
      end
    end
  end
  return {data = pieces.of(core.encode(stacks.look(list)))}
end

---A test aid: from now on this process gets {share=} of one core.
ops["cpu.share"] = function(request)
  return cpu_share.hold(request.share, state.program)
end

---Gives slots of a table to a node, for command lines, which are no members: {table=, slots=, node=}.
function ops.move(request, message)
  local handle <const>, err = table_names.find(request.table)
  if not handle then return nil, err end
  handle:move(request.slots, request.node)
  core.event("table", ("%s: %d slots moved to node %d%s"):format(request.table, #request.slots, request.node,
    verbs.by(message)))
  return {moved = #request.slots}
end

---Writes a generation of all tables: {dir=, keep=}.
function ops.checkpoint(request, message)
  local info <const>, err = checkpoints.save {dir = request.dir, keep = request.keep}
  if info then
    core.event("checkpoint", ("generation %d in %s, as asked%s"):format(info.generation, request.dir,
      verbs.by(message)))
  end
  return info, err
end

---Brings all tables back: {dir=, generation=}.
function ops.restore(request, message)
  local restored <const>, err = checkpoints.restore(request.dir, request.generation)
  if restored then
    restored.job = nil
    core.event("checkpoint", ("generation %d of %s restored%s"):format(restored.generation, request.dir,
      verbs.by(message)))
  end
  return restored, err
end

local function node_of(address) return address:match "^%d+" end

local CONSOLE <const> = [[return require("tide.console.session").main(...)]]
local CONSOLES_MAX <const> = 32
local CONSOLE_BYTES <const> = 8 << 20 -- a new session starts only where so much is left for what it evaluates

---The console of a session: {session=, role=}; made when it does not run here. Answers {address, node, version, role,
---resumed}. A session keeps the role that it was made with.
ops["console.open"] = function(request, message)
  local id, role = request.session, request.role
  if not roles.is(role) then
    return nil, script.error("T0116", "a session has role read, operate or admin")
  end
  if not id:find "^%x+$" or #id > 64 then
    return nil, script.error("T0116", "a session is named by hexadecimal digits")
  end
  if not service.at_least(message.right, role) then
    return nil, script.error("T0801", ("a session of role %s requires that right, and the connection has `%s`"):format(
      role, message.right), {help = "tide attach --role " .. message.right})
  end
  local known = state.consoles[id]
  local count = 0
  for _ in pairs(state.consoles) do count = count + 1 end
  if not known then
    if count >= CONSOLES_MAX then
      return nil, script.error("T0603", ("this node has %d console sessions, which is the most"):format(CONSOLES_MAX),
        {help = "end one, or attach to another node: tide attach CLUSTER @NODE"})
    end
    local shared <const>, held <const> = roles.SHARED_BYTES, core.console_bytes()
    if role ~= "admin" and held > shared - CONSOLE_BYTES then
      return nil, script.error("T0603",
        ("the sessions below admin on this node hold %d of their %d MiB: end one"):format(held >> 20, shared >> 20))
    end
    local address, err = core.spawn {source = CONSOLE, chunk = "@tide/console/session.lua", role = "control",
                                     opens = role, argument = {session = id, role = role, owner = message.from}}
    if not address then return nil, err end
    state.consoles[id] = {address = address, role = role, owners = {[node_of(message.from)] = true}}
    core.monitor(address)
  elseif known.role ~= role then
    return nil, script.error("T0801", ("session %s has role %s on this node"):format(id:sub(1, 8), known.role))
  end
  local own = state.consoles[id]
  if known then -- the caller with its name is its owner, come back
    own.owners[node_of(message.from)] = true
    core.send(own.address, {op = "console.owner", from = message.from}, "answer")
  end
  return {address = own.address, node = core.node().name, version = core.version, role = own.role,
          resumed = known ~= nil}
end

---Ends a session at once, whatever it does: {session=}.
ops["console.drop"] = function(request, message)
  local known = state.consoles[request.session]
  if known and not known.owners[node_of(message.from)] and not service.at_least(message.right, "admin") then
    return nil, script.error("T0801", "the session belongs to another client: ending it requires the right `admin`")
  end
  if known then core.kill(known.address) end
end

---Begins to record spans: {events=} of each thread.
ops["trace.start"] = function(request)
  local ok <const>, err = core.trace_start(request.events)
  if not ok then return nil, err end
end

ops["trace.stop"] = function()
  core.trace_stop()
end

---{cursor=, origin=}: some of what was recorded, as text, and the cursor of the rest.
ops["trace.read"] = function(request)
  local text, cursor = core.trace_read(request.cursor, request.origin)
  return {text = text, cursor = cursor}
end

---For command lines, which are no members: these nodes are about to end with their cluster: {ids={..}}.
function ops.ends(request)
  local ok <const>, err = core.ends(request.ids)
  if not ok then return nil, err end
end

-- The way of a node that leaves: its workers finish what they have in hand, its runs say so, its rows are handed on.
local function begin_leaving(grace_s)
  if state.leaving then return end
  local grace <const> = grace_s or state.grace_s or LEAVE_S
  local leaving <const> = {began = core.now(), grace_s = grace, until_s = core.now() + grace * WORK_SHARE, waits = {}}
  for id, run in pairs(state.runs) do
    if next(run.workers) then
      leaving.waits[id] = true
      core.send(run.controller, {op = "leaving", node = core.node().id}, "answer")
      for address in pairs(run.workers) do core.send(address, {op = "leave"}, "system") end
    end
  end
  state.leaving = leaving
end

-- Whether nothing is in hand any more, or there is no time for it.
local function has_finished()
  local leaving <const> = state.leaving
  return next(leaving.waits) == nil or core.now() >= leaving.until_s or core.interrupted() > 1
end

local function end_leaving()
  if state.leaving.over then return end
  state.leaving.over = true
  if core.simulated() then
    core.leave() -- a simulated node is destroyed when its agent ends; a process waits in core.node_stop
  else
    state.ending = "leave"
  end
end

---Ends this node: {leave=bool, grace_s=}. With leave its workers finish what they have in hand and its slots are
---handed on first, within the grace.
function ops.quit(request)
  if request.leave then
    begin_leaving(tonumber(request.grace_s))
  else
    state.ending = "now"
  end
end

---The same in order, for command lines: {grace_s=}.
function ops.drain(request)
  local me <const> = core.member()
  local others, rows_elsewhere = 0, false
  for _, member in ipairs(core.members()) do
    if member.state == "up" and me and member.id ~= me.id then
      others, rows_elsewhere = others + 1, rows_elsewhere or member.store
    end
  end
  if core.node().controller == core.node().id then
    return nil, script.error("T0117", "this node is the cluster's only controller and cannot leave",
      {help = "end the cluster by `tide down`, or start it with several controllers: tide up --controllers 3"})
  elseif me and me.store and others > 0 and not rows_elsewhere and #(core.tables() or {}) > 0 then
    return nil, script.error("T0117", "this node cannot leave: no other node can hold its rows",
      {help = "start one with a store first: tide node --join ADDRESS"})
  end
  begin_leaving(tonumber(request.grace_s))
  return {grace = state.leaving.grace_s}
end

---From the controller of a run: no worker of this node has anything of it in hand.
function ops.vacated(request, message)
  local run <const> = state.runs[request.run]
  if state.leaving and run and run.controller == message.from then
    state.leaving.waits[request.run] = nil
    forget(request.run)
  end
end

local function worker_ended(id, worker)
  state.workers[id] = nil
  local run <const> = state.runs[worker.run]
  if run then run.workers[worker.address] = nil end
end

local function exited(message)
  local id <const>, from <const> = message.call, message.from
  if state.workers[id] then return worker_ended(id, state.workers[id]) end
  local member <const> = state.members[id]
  if member then
    state.members[id] = nil
    return end_workers {[member.address] = true}
  end
  for run, known in pairs(state.runs) do
    if known.controller == from then forget(run) end
  end
  for session, known in pairs(state.consoles) do
    if known.address == from then state.consoles[session] = nil end
  end
end

local requested <const> = service.new {
  name = "the agent", rows = requests.agent, answers = ops, audit = verbs.audit "agent", exited = exited,
  stopped = function()
    state.ending = state.ending or "now"
    return true
  end,
}

---Lets others find the cluster of a program that has its first node inside, until the agent ends.
---@return table? published to be closed
local function publish()
  local node <const>, directory = core.node(), require "tide.directory"
  if node.controller ~= node.id then return nil end
  local name <const>, program <const> = node.cluster, core.program_name()
  local done, ok, err = pcall(directory.publish, name, node.endpoint, {directory.own_pid()}, "program " .. program,
    program)
  if not done then ok, err = nil, errors.from(ok) end
  if not ok then
    core.log("warn", ("commands will not find this cluster by its name: %s"):format(err.message))
    return nil
  end
  return setmetatable({}, {__close = function() directory.unpublish(name) end})
end

-- Whether this node has gone, as it sees itself or as the others do.
---@return table|nil why it ends
local function has_gone()
  local node <const> = core.node()
  if node.state == "dead" then return {why = "dead", reason = node.reason, own = true} end
  local me <const> = core.member()
  if me and (me.state == "dead" or me.state == "left") then return {why = me.state, reason = me.reason} end
  return nil
end

local looked_at = 0

-- What is due now and then.
---@return table|nil why the node ends
local function look()
  looked_at = core.now()
  require("tide.cluster.runs").keep()
  core.audit_sync()
  if state.program then require "tide.cluster.own_log"() end
  return has_gone()
end

---@return table|nil why the node ends
local function turn()
  if core.interrupted() > 0 or state.leave_on_eof and core.input_ended() then begin_leaving() end
  if state.leaving and has_finished() then end_leaving() end
  local leaving <const> = state.leaving
  local due <const> = core.now() - looked_at >= core.limit "cluster_agent_look"
  local gone <const> = (leaving and leaving.over or due) and look() or nil
  if gone or not state.ending then return gone end
  return {why = state.ending, left_s = leaving and leaving.grace_s - (core.now() - leaving.began)}
end

---Body of the actor. Returns why the node shall end: {why = "leave"|"now"|"dead", reason=}.
---@param o? {program?: string, grace_s?: number, leave_on_eof?: boolean, embedded?: boolean} program: of this process,
---if it is the tide program; embedded: it is another one with a node inside
function agent.main(o)
  o = o or {}
  state.program, state.grace_s, state.leave_on_eof = o.program, o.grace_s, o.leave_on_eof
  local ok, err = core.register("agent")
  if not ok then return {why = "dead", reason = err and err.message} end
  local _ <close> = o and o.embedded and publish() or nil
  core.trap_exits(true)
  core.open "read"
  return requested:run {
    wait_s = function() return state.leaving and state.leaving.over and LEFT_POLL_S or POLL_S end,
    turn = turn,
  }
end

return agent
