-- Node processes as children of this one: started, awaited as members, seen to end. Under `tide sim` simulated nodes in
-- their place, with the same face.
local core = require "tide.core"
local declared = require "tide.declared"
local errors = require "tide.errors"
local text = require "tide.text"

local children = {
  join_s = 10,                                  ---@type number how long a node may take to join
  program = arg and arg[0] or "/proc/self/exe", ---@type string what nodes are started with
  interrupts = 0,                               ---@type integer how many came before any node was started
}

local POLL_S <const> = 0.02

---Last lines of a log, for the error that its process's early end raises.
---@param path string
---@param count integer
---@return string
function children.last_lines(path, count)
  return text.last_lines(core.file_read(path) or "", count)
end

local SIGNALS <const> = {[1] = "SIGHUP", [2] = "SIGINT", [4] = "SIGILL", [6] = "SIGABRT", [7] = "SIGBUS",
                         [8] = "SIGFPE", [9] = "SIGKILL", [11] = "SIGSEGV", [15] = "SIGTERM"}

local function describe_end(ended)
  local signal <const> = ended.signal or 0
  if signal ~= 0 then return "ended by " .. (SIGNALS[signal] or ("signal %d"):format(signal)) end
  return ("ended with exit code %d"):format(ended.status or -1)
end

local CRASH_LINES <const> = 40 -- of the log's end, behind what a sanitizer or a library may add
local END_S <const> = 0.5      -- until the end of a process is known whose connection was lost

---How a node's process has ended by itself: by a signal, and where it was then if it crashed.
---@param child table of children.start
---@return string|nil "crashed: SIGSEGV at address 0x8 in kernel saxpy, at train.lua:31 (worker on n2)"
function children.how_ended(child)
  local ended <const> = child.process:ended()
  if not ended or (ended.signal or 0) == 0 or core.simulated() then return nil end
  local crash
  for line in (child.log and children.last_lines(child.log, CRASH_LINES) or ""):gmatch "[^\n]+" do
    crash = line:match "^tide: (crashed: .*)" or crash
  end
  return crash and text.clean(crash) or describe_end(ended)
end

---The error of a lost node, with how its process has ended if it is one of these.
---@param err tide.error
---@param list table[] of children.start
---@return tide.error
function children.explained(err, list)
  for _, child in ipairs(err.code == "T0509" and err.node and list or {}) do
    if child.name == err.node then
      local until_s <const> = core.now() + END_S
      while not core.simulated() and not child.process:ended() and core.now() < until_s do core.sleep(POLL_S) end
      local how <const> = children.how_ended(child)
      if how then err.message = ("node %s is lost: its process %s"):format(child.name, how) end
    end
  end
  return err
end

---A simulated node in place of a process, with the same face.
local function simulated_process(o)
  local handle = core.sim_node(declared.picked(declared.node, o, {name = o.name, cluster = o.cluster,
    join = o.endpoint}))
  return {
    pid = function() return 0 end,
    signal = function() core.sim_kill(handle) end,
    ended = function() return core.sim_ended(handle) end,
  }
end

---@param o {name: string, cluster: string, endpoint: string, log?: string} and what declared.node has
---@return table child {name, process, log}
function children.start(o)
  if core.simulated() then return {name = o.name, process = simulated_process(o)} end
  local argv = {children.program, "node", "--join", o.endpoint, "--cluster", o.cluster, "--name", o.name}
  local words <const> = declared.words(declared.node, o)
  table.move(words, 1, #words, #argv + 1, argv)
  local process, err = core.process(argv, {output = o.log})
  if not process then error(errors.from(err, "T1001"), 0) end
  return {name = o.name, process = process, log = o.log}
end

local function failure(child, ended)
  -- A terminal's Ctrl-C goes to the nodes too, and one that starts just ends.
  if core.interrupted() > children.interrupts then
    return errors.new("T0210", {message = ("interrupted before node %s had joined"):format(child.name),
                                state = "the other nodes were stopped"})
  end
  local tail = child.log and children.last_lines(child.log, 5) or ended.reason or ""
  return errors.new("T1001", {
    message = ("node %s %s before it had joined%s"):format(child.name, describe_end(ended),
      tail ~= "" and "; its log ends with:\n" .. tail or ""),
    where = child.log, node = child.name, state = "the other nodes were stopped"})
end

---Waits until all children are up members; raises with the log of the first that is not.
---@param list table[] of children.start
function children.wait_up(list)
  local deadline = core.now() + children.join_s
  while true do
    local up = {}
    for _, member in ipairs(core.members()) do
      if member.state == "up" then up[member.name] = true end
    end
    local missing
    for _, child in ipairs(list) do
      local ended = child.process:ended()
      if ended then error(failure(child, ended), 0) end
      if not up[child.name] then missing = missing or child end
    end
    if not missing then return end
    if core.now() > deadline then
      error(errors.new("T1001", {message = ("node %s has not joined after %g s"):format(missing.name, children.join_s),
                                 where = missing.log, node = missing.name}), 0)
    end
    core.sleep(POLL_S)
  end
end

---@param list table[] of children.start
---@param timeout_s number
---@return table[] those that have not ended
function children.wait_ended(list, timeout_s)
  local deadline = core.now() + timeout_s
  while true do
    local running = {}
    for _, child in ipairs(list) do
      if not child.process:ended() then running[#running + 1] = child end
    end
    if #running == 0 or core.now() > deadline then return running end
    core.sleep(POLL_S)
  end
end

---Waits until this node knows that they have ended: a second cluster of the script has nodes of the same names.
---@param members table[] with their ids
---@param timeout_s number
function children.wait_members_gone(members, timeout_s)
  local deadline = core.now() + timeout_s
  while core.now() < deadline do
    local there = {}
    for _, member in ipairs(core.members()) do there[member.id] = member.state == "up" end
    local left
    for _, member in ipairs(members) do left = left or there[member.id] end
    if not left then return end
    core.sleep(POLL_S)
  end
end

return children
