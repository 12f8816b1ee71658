-- Clusters that stay: `tide up` starts one detached controller process whose children are the nodes, and which tells
-- where it is (directory.lua); `tide down` ends it. With several controllers every node is a process of its own
-- (replicated.lua).
local ask_all = require "tide.ask_all"
local children = require "tide.provision.children"
local cluster_view = require "tide.cluster.view"
local core = require "tide.core"
local detached = require "tide.cluster.detached"
local directory = require "tide.directory"
local errors = require "tide.errors"
local node_status = require "tide.cluster.node_status"
local requests = require "tide.requests"
local runs = require "tide.cluster.runs"
local keeper = require "tide.keeper"
local service = require "tide.service"
local verbs = require "tide.request_audit"
local job = require "tide.run.job"

local up_down = {}

local UP_S <const> = children.join_s + 5
local DOWN_S <const> = 30
local POLL_S <const> = 0.02
local VERB_S <const>, HOSTS_S <const> = 5, 10 -- for a run to obey, and for its script to end

local AGENT <const> = [[return require("tide.cluster.agent").main(...)]]

-- A controller that has worker threads, or rows, serves them as every node does.
local function serve_as_node(program)
  local me <const> = core.member()
  if not me or (me.workers or 0) == 0 and not me.store then return end
  local ok, err = core.spawn {source = AGENT, chunk = "@tide/agent.lua", role = "control",
                              argument = {program = program}}
  if not ok then error(err, 0) end
end

-- Nodes whose processes have ended by a signal, each once: as an event, and in the log.
local function tell_ends(nodes)
  for _, child in ipairs(nodes) do
    local how <const> = not child.told and children.how_ended(child)
    if how then
      child.told = true
      core.event("node", ("the process of %s %s"):format(child.name, how))
      core.log("error", ("the process of %s %s"):format(child.name, how))
    end
  end
end

-- What the control actor does until it is asked to end.
---@return table|nil why this node has gone
local function serve(nodes)
  local ending, synced_at = false, core.now()
  local answers <const> = {quit = function() ending = true end}
  for name, look in pairs(node_status.ops) do answers[name] = look end
  local control <const> = service.new {name = "the control actor", rows = requests.control, answers = answers,
                                       audit = verbs.audit "control"}
  runs.keep()
  local over <const> = control:run {wait_s = 0.1, turn = function()
    runs.keep()
    tell_ends(nodes)
    if core.now() - synced_at > 1 then
      synced_at = core.now()
      core.audit_sync()
      require "tide.cluster.own_log"()
    end
    local node <const> = core.node()
    if node.state == "dead" then return {why = "dead", reason = node.reason, own = true} end
    return (ending or core.interrupted() > 0) and {} or nil
  end}
  return over and over.why and over or nil
end

---Control actor of a cluster of `tide up`: starts the nodes as children, publishes where the cluster is, and ends
---with them on SIGTERM.
---@param a {cluster: string, nodes: integer, workers: integer}
function up_down.control(a)
  children.program = a.program
  local node = core.node()
  local logs <const> = directory.of(a.cluster)
  local nodes = {}
  local ok, err = directory.make(a.cluster) -- with a listener of another kind the node has not
  if not ok then error(err, 0) end
  ok, err = pcall(function()
    serve_as_node(a.program)
    for i = 1, a.nodes do
      nodes[i] = children.start {
        endpoint = node.endpoint, cluster = a.cluster, name = "n" .. i, workers = a.workers,
        log = ("%s/node-n%d.log"):format(logs, i),
      }
    end
    children.wait_up(nodes)
  end)
  if not ok then
    for _, child in ipairs(nodes) do child.process:signal(9) end
    error(err, 0)
  end
  local pids = {directory.own_pid()}
  for _, child in ipairs(nodes) do pids[#pids + 1] = child.process:pid() end
  ok, err = directory.publish(a.cluster, node.endpoint, pids)
  if not ok then
    for _, child in ipairs(nodes) do child.process:signal(9) end
    error(errors.from(err), 0)
  end
  core.register("control")
  core.open "read"
  local gone <const> = serve(nodes)
  if gone then
    for _, child in ipairs(nodes) do child.process:signal(9) end
    directory.unpublish(a.cluster)
    return gone
  end
  local ours <const>, ids <const> = {}, {} -- they end with the cluster: no node is to take their rows
  for _, child in ipairs(nodes) do ours[child.name] = true end
  for _, member in ipairs(core.members()) do
    if ours[member.name] then ids[#ids + 1] = member.id end
  end
  core.ends(ids)
  for _, child in ipairs(nodes) do child.process:signal(15) end
  for _, child in ipairs(children.wait_ended(nodes, DOWN_S)) do child.process:signal(9) end
  directory.unpublish(a.cluster)
  return {why = "now"}
end

---Starts a cluster that stays when this process ends.
---@param o {cluster?: string, nodes?: integer, workers?: integer, controllers?: integer, state?: string,
---  silence?: number}
---@return table|nil {cluster, endpoint, pids}, table? err
function up_down.up(o)
  local name = o.cluster or "local"
  if not job.is_identifier(name) then
    return nil, errors.new("T0113", ("`%s` is no name for a cluster"):format(tostring(name)))
  end
  local made, err = directory.make(name)
  if not made then return nil, err end
  directory.sweep()
  local lock <close>, busy = directory.lock(name)
  if not lock and busy.name == "EBUSY" then
    return nil, errors.new("T1002", {message = ("cluster `%s` is being started by another process"):format(name)})
  end
  if not lock then return nil, errors.from(busy, "T0403") end
  if directory.pids(name)[1] then
    return nil, errors.new("T1002", {message = ("cluster `%s` runs already"):format(name)})
  end
  directory.unpublish(name)
  core.watch_interrupts() -- what was started would continue by itself
  if o.controllers then return require("tide.cluster.replicated").up(o) end
  local log = directory.of(name) .. "/controller.log"
  core.file_remove(log)
  local words <const> = {"node", "--controller", "--cluster", name, "--nodes", tostring(o.nodes or 2),
                         "--node-workers", tostring(o.workers or 1), "--no-store", "--workers", "0"}
  if o.silence then table.move({"--silence", ("%gs"):format(o.silence)}, 1, 2, #words + 1, words) end
  local session = detached.start(log, table.unpack(words))
  if not session then
    return nil, errors.new("T1001", {message = "the controller's process could not be started", where = log})
  end
  local deadline = core.now() + UP_S
  while core.now() < deadline do
    local endpoint = directory.endpoints(name)[1]
    if core.interrupted() > 0 then
      detached.kill(session, log)
      directory.unpublish(name)
      return nil, errors.new("T0210", {message = ("interrupted before cluster `%s` was up"):format(name),
        state = "what had been started was stopped"})
    end
    if endpoint then
      return {cluster = name, endpoint = endpoint, pids = directory.pids(name), log = log}
    end
    local status = detached.exit_code(log)
    if status then
      directory.unpublish(name)
      return nil, errors.new("T1001", {message = ("the controller ended with exit code %s; its log ends with:\n%s")
        :format(status, children.last_lines(log, 8))})
    end
    core.sleep(POLL_S)
  end
  up_down.down {cluster = name}
  return nil, errors.new("T1001", {message = "the cluster did not come up in time", where = log})
end

local function signal_pid(pid, signal)
  os.execute(("kill -%s %d 2>/dev/null"):format(signal, pid))
end

local function wait_gone(name, timeout_s)
  local deadline = core.now() + timeout_s
  while true do
    local pids = directory.pids(name)
    if #pids == 0 or core.now() > deadline then return pids end
    core.sleep(POLL_S)
  end
end

---Which cluster of `tide up` is meant: the named one, or the only one.
---@param name? string
---@return string|nil name, table? err
function up_down.started(name)
  local problem, several
  if not name then name, problem, several = directory.only() end
  if not name then
    return nil, errors.new("T1003", {message = problem, help = several and "name one" or nil})
  end
  local pids <const> = directory.pids(name)
  if #pids == 0 then return nil, errors.new("T1003", {message = ("no cluster `%s` runs"):format(name)}) end
  local owner <const> = directory.owner_of(name)
  if owner then
    return nil, errors.new("T1003", {message = ("cluster `%s` belongs to %s and ends with it"):format(name, owner),
      help = ("press Ctrl-C where it runs, or: kill -INT %d"):format(pids[1])})
  end
  return name
end

---The active runs of the cluster that the command names.
---@param context tide.context
---@return table[]|nil runs {name, state, ...}, table? err
function up_down.runs(context)
  return cluster_view.attached(context, function(client)
    local answer <const>, err = client.look("tide.command.job.inside", {op = "list", all = false})
    return answer and answer.runs, err
  end)
end

-- Whether the host of a run is there yet: its process, if it is of this machine, else its node.
local function is_there(host, members, machine)
  if host.machine == machine and host.pid then return core.own_process(host.pid) end
  return members[host.node] == "up"
end

---In the client's actor: stops the runs of the cluster, and waits until their hosts have ended.
---@return string[] names of those that were active
function up_down.stop_runs_inside()
  local listed <const> = keeper.ask({op = "list"}, VERB_S)
  local going <const>, names, hosts = listed and listed.runs or {}, {}, {}
  for i, run in ipairs(going) do names[i], hosts[i] = run.name, run.host end
  ask_all(going, function(run, _, timeout_s)
    return keeper.ask({op = "verb", name = tostring(run.n), verb = "cancel",
      arguments = {why = "the cluster was taken down"}}, timeout_s)
  end, {timeout_s = VERB_S})
  local deadline <const>, machine <const> = core.now() + HOSTS_S, core.machine().id
  while #hosts > 0 and core.now() < deadline do
    local members = {}
    for _, member in ipairs(core.members()) do members[member.name] = member.state end
    for i = #hosts, 1, -1 do
      if not is_there(hosts[i], members, machine) then table.remove(hosts, i) end
    end
    core.sleep(POLL_S)
  end
  return names
end

-- Runs end first, as stopped: else each would fail with the first node that leaves.
---@return string[]|nil names of runs; nil: the cluster does not answer
local function stop_runs(name)
  local client <const> = require "tide.cluster.client"
  if not client.attach {cluster = name} then return nil end
  local names <const> = client.run "tide.cluster.up_down.stop_runs_inside"
  core.node_stop(0)
  return names or {}
end

---Ends a cluster of `tide up`: its runs, its nodes in order, then what is left by force.
---@param o {cluster?: string, timeout_s?: number}
---@return table|nil {cluster, ended, killed, runs}, table? err
function up_down.down(o)
  local name <const>, err = up_down.started(o.cluster)
  if not name then
    if o.cluster and #directory.pids(o.cluster) == 0 then directory.unpublish(o.cluster) end
    return nil, err
  end
  local stopped <const> = stop_runs(name)
  local pids = directory.pids(name)
  local _, replicated = directory.endpoints(name)
  local told = true
  if replicated then
    told = stopped ~= nil and require("tide.cluster.replicated").quit(name)
  else
    signal_pid(pids[1], "TERM")
  end
  local left = told and wait_gone(name, o.timeout_s or DOWN_S) or pids
  for _, pid in ipairs(left) do signal_pid(pid, "KILL") end
  if #left > 0 then wait_gone(name, 2) end
  directory.unpublish(name)
  return {cluster = name, ended = #pids, killed = #left, runs = stopped or {}}
end

return up_down
