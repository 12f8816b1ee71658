-- A cluster of `tide up --controllers N`: every node is a process of its own, so that none ends with another. The first
-- ones, c1 to cN, hold what the controller decides, and no rows and no workers: the end of one of them costs nothing.
local children = require "tide.provision.children"
local client = require "tide.cluster.client"
local core = require "tide.core"
local detached = require "tide.cluster.detached"
local directory = require "tide.directory"
local errors = require "tide.errors"

local replicated = {}

local POLL_S <const> = 0.02
local JOIN_S <const> = 15
local ENDS_S <const> = 2 -- best effort: a node that is about to end may not answer
local QUIT_S <const> = 2

local function socket_of(name, node) return ("unix:%s/%s.sock"):format(directory.of(name), node) end
local function log_of(name, node) return ("%s/node-%s.log"):format(directory.of(name), node) end

---@return integer session
local function start(name, node, words)
  local log = log_of(name, node)
  core.file_remove(log)
  local argv = {"node", "--cluster", name, "--name", node, "--listen", socket_of(name, node)}
  table.move(words, 1, #words, #argv + 1, argv)
  local session = detached.start(log, table.unpack(argv))
  if not session then
    error(errors.new("T1001", {message = ("the process of node %s could not be started"):format(node), where = log}), 0)
  end
  return session
end

---What the log of a node says if its process has ended; detached.start writes that line.
local function ended(name, node)
  local log = log_of(name, node)
  local status = detached.exit_code(log)
  if not status then return nil end
  return errors.new("T1001", {
    where = log, node = node, message = ("node %s ended with exit code %s; its log ends with:\n%s"):format(
      node, status, children.last_lines(log, 8)),
  })
end

local function wait_for(name, nodes, what, deadline)
  while true do
    local result = what()
    if core.interrupted() > 0 then -- before or meanwhile: the user has not read yet that it is up
      error(errors.new("T0210", {message = "interrupted before the cluster was up",
        state = "what had been started was stopped"}), 0)
    end
    if result then return result end
    for _, node in ipairs(nodes) do
      local err = ended(name, node)
      if err then error(err, 0) end
    end
    if core.now() > deadline then
      error(errors.new("T1001", {message = "the cluster did not come up in time", where = log_of(name, nodes[1])}), 0)
    end
    core.sleep(POLL_S)
  end
end

local function listens(name, node)
  for _, file in ipairs(core.file_list(directory.of(name)) or {}) do
    if file == node .. ".sock" then return true end
  end
  return false
end

---Members by name once all are up; this process is a client of the cluster meanwhile.
local function all_up(nodes)
  local up = {}
  for _, member in ipairs(core.members()) do
    if member.state == "up" then up[member.name] = member end
  end
  for _, node in ipairs(nodes) do
    if not up[node] then return nil end
  end
  return up
end

---@param sessions table<string, integer> of the nodes that have been started, also when it fails
local function bring_up(o, name, nodes, sessions)
  local deadline = core.now() + JOIN_S
  for _, node in ipairs(nodes) do -- whose socket may be left of one that was killed
    core.file_remove(socket_of(name, node):sub(#"unix:" + 1))
  end
  local function controller(...) -- a holder: its words, and where it keeps the log
    local words <const> = {...}
    table.move({"--no-store", "--workers", "0"}, 1, 3, #words + 1, words)
    if o.state then table.move({"--state", o.state}, 1, 2, #words + 1, words) end
    return words
  end
  local first <const> = controller("--controllers", tostring(o.controllers))
  if o.silence then table.move({"--silence", ("%gs"):format(o.silence)}, 1, 2, #first + 1, first) end
  sessions.c1 = start(name, "c1", first)
  wait_for(name, {"c1"}, function() return listens(name, "c1") end, deadline)
  for i, node in ipairs(nodes) do
    if i > 1 and i <= o.controllers then
      sessions[node] = start(name, node, controller("--join", socket_of(name, "c1")))
    elseif i > o.controllers then
      sessions[node] = start(name, node, {"--join", socket_of(name, "c1"), "--workers", tostring(o.workers or 1)})
    end
  end
  local ok, err = client.attach {endpoint = socket_of(name, "c1"), cluster = name}
  if not ok then error(err, 0) end
  local members = wait_for(name, nodes, function() return all_up(nodes) end, deadline)
  local pids, endpoints = {}, {}
  for i, node in ipairs(nodes) do pids[i], endpoints[i] = members[node].pid, members[node].endpoint end
  ok, err = directory.publish(name, table.concat(endpoints, "\n"), pids)
  if not ok then error(errors.from(err), 0) end
  return {cluster = name, endpoint = endpoints[1], pids = pids, log = log_of(name, "c1")}
end

---@param o {cluster: string, controllers: integer, nodes?: integer, workers?: integer, state?: string}
---@return table|nil {cluster, endpoint, pids}, table? err
function replicated.up(o)
  local nodes = {}
  for i = 1, o.controllers do nodes[i] = "c" .. i end
  for i = 1, o.nodes or 2 do nodes[o.controllers + i] = "n" .. i end
  local sessions = {}
  local ok, up = pcall(bring_up, o, o.cluster, nodes, sessions)
  core.node_stop(0)
  if ok then return up end
  directory.unpublish(o.cluster)
  for node, session in pairs(sessions) do detached.kill(session, log_of(o.cluster, node)) end
  return nil, errors.from(up, "T1001")
end

---@param members table[] of core.members
local function tell_to_quit(members)
  for _, member in ipairs(members) do
    local address = member.state == "up" and core.whereis(member.name .. "/agent")
    if address then core.send(address, {op = "quit", leave = false}) end
  end
  core.sleep(POLL_S)
end

---Ends all nodes, without moving rows first. The controllers follow when those with rows have gone: a controller
---elected in between would have no record of the end, and look for copies of their rows.
function replicated.quit_inside()
  local ids <const>, with_rows <const> = {}, {}
  for i, member in ipairs(core.members()) do
    ids[i] = member.id
    if member.store then with_rows[#with_rows + 1] = member end
  end
  for _, member in ipairs(core.members()) do
    local address = member.state == "up" and core.whereis(member.name .. "/agent")
    if address and core.call(address, {op = "ends", ids = ids}, ENDS_S) then break end
  end
  tell_to_quit(with_rows)
  children.wait_members_gone(with_rows, QUIT_S)
  tell_to_quit(core.members())
  return true
end

---@param name string
---@return boolean told; false: no controller takes a client at this moment
function replicated.quit(name)
  if not client.attach {cluster = name} then return false end
  client.run "tide.cluster.replicated.quit_inside"
  core.node_stop(0)
  return true
end

return replicated
