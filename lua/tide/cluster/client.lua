-- This process as a client of a running cluster: where that is, attaching, asking. All commands attach here and ask
-- here, with the keys that the command names.
--
-- A client may stall (Ctrl-Z, a laptop that sleeps) or be cut off: then members end its sessions with them. The runtime
-- attaches anew by itself while the cluster is there (runtime/net/members/leader_change.c), and `look` here judges each
-- answer by the sessions: one that was got while a session ended is asked for again.
local ask_all = require "tide.ask_all"
local core = require "tide.core"
local directory = require "tide.directory"
local errors = require "tide.errors"
local interrupts = require "tide.interrupts"
local members = require "tide.cluster.members"
local node_status = require "tide.cluster.node_status"
local pieces = require "tide.pieces"

local client = {}

client.attachments = 0 ---@type integer how often this process has attached: another time it may be another cluster

local PATIENCE_S <const> = 30 -- for a cluster that does not answer
local POLL_S <const> = 0.05

local attached_with ---@type table? options of the last attach

---Where a cluster is: by name, by endpoint, or the only one that runs.
---@param wanted? string
---@return string|nil endpoint, table? err, string? name
---@return string[]? others of the same cluster, where it has several controllers
function client.resolve(wanted)
  if wanted and wanted:find(":", 1, true) then
    -- Sockets of this user's clusters lie in a directory that is called as the cluster.
    local base <const> = "unix:" .. directory.base() .. "/"
    return wanted, nil, wanted:sub(1, #base) == base and wanted:sub(#base + 1):match "^([^/]+)/" or nil
  end
  if wanted and wanted:find("/", 1, true) then return "unix:" .. wanted end
  local name, problem, several = wanted, nil, nil
  if not name then name, problem, several = directory.only() end
  if not name then
    return nil, errors.new("T0501", {message = problem, help = several and "name one by --cluster" or nil})
  end
  local alive = directory.endpoints(name)
  if not alive[1] or not directory.pids(name)[1] then
    return nil, errors.new("T0501", {message = ("no cluster `%s` runs here"):format(name)})
  end
  return alive[1], nil, name, table.move(alive, 2, #alive, 1, {})
end

---Starts the node of this process in a cluster, by the first of its endpoints that answers: one of several controllers
---may stall.
---@param wanted? string as of `resolve`
---@param options table of core.node_start, without `join` and `cluster`
---@return true|nil, table? err
function client.enter(wanted, options)
  local endpoint <const>, lost <const>, name, others <const> = client.resolve(wanted)
  if not endpoint then return nil, lost end
  if not name and not options.client then
    local err
    name, err = client.name_of(endpoint, options.keys)
    if not name then return nil, err end
  end
  options.cluster = name
  local ok, first
  for _, each in ipairs {endpoint, table.unpack(others or {})} do
    local problem
    options.join = each
    ok, problem = core.node_start(options)
    first = first or problem
    if ok or problem.name ~= "ETIMEDOUT" then break end
  end
  if not ok then return nil, errors.from(first, "T0501") end
  return true
end

---Makes this process a client of a cluster: it sees members and may call their actors.
---Members that join and leave meanwhile are printed if `verbose`.
---@param o {cluster?: string, endpoint?: string, keys?: string, timeout_s?: number, verbose?: boolean}
---@return true|nil, table? err
function client.attach(o)
  core.log_level(o.verbose and "info" or "warn")
  attached_with = o
  local ok, err = client.enter(o.endpoint or o.cluster, {client = true, keys = o.keys, workers = 0, no_store = true})
  if not ok then return nil, err end
  interrupts.limit {count = 2}
  client.attachments = client.attachments + 1
  return true
end

---What the cluster at an endpoint is called: a member has to say it, a client learns it.
---@param endpoint string
---@param keys? string
---@return string|nil name, table? err
function client.name_of(endpoint, keys)
  local ok, err = client.attach {endpoint = endpoint, keys = keys}
  if not ok then return nil, err end
  local name <const> = core.node().cluster
  core.node_stop(0)
  return name
end

-- Waits for a session with the cluster; where it has ended, with whatever cluster is there now.
---@return table|nil node as core.node() has it, tide.error? err
local function session(patience_s)
  local deadline <const> = core.now() + patience_s
  while true do
    local node <const> = core.node()
    if not node or node.state == "dead" or node.state == "left" then
      core.node_stop(0)
      core.watch_interrupts() -- as a node does
      local ok, err = client.attach(attached_with)
      if not ok then return nil, err end
    elseif node.state == "up" then
      return node
    elseif core.now() >= deadline or core.interrupted() > 0 then
      return nil, errors.new("T0501", {message = ("the cluster does not answer: %s"):format(node.reason or "no view")})
    end
    core.sleep(POLL_S)
  end
end

---In the client's actor: what client.run calls.
---@param call table
---@return table
function client.inside(call)
  local answer, err = require(call.module)[call.name](pieces.unpacked(call.request, call.encoded))
  if answer == nil then return {error = errors.to_data(errors.from(err))} end
  local sent <const>, encoded <const> = pieces.packed(answer)
  return {answer = sent, encoded = encoded}
end

---Runs a function of a module as an actor of this client, which may call actors of the members, and waits for it.
---@param what string module and function: "tide.command.job.inside"; it returns an answer, or nil and an error
---@param request? any its argument
---@return any answer nil: see err
---@return tide.error? err
function client.run(what, request)
  local module <const>, name <const> = what:match "^(.+)%.([%w_]+)$"
  local sent <const>, encoded <const> = pieces.packed(request)
  local got <const>, err = core.node_run([[return require("tide.cluster.client").inside(...)]], "@tide/client.lua",
    {module = module, name = name, request = sent, encoded = encoded})
  if not got then return nil, errors.from(err) end
  if got.error then return nil, errors.from(got.error) end
  return pieces.unpacked(got.answer, got.encoded)
end

---The same of a function that changes nothing: when a session ends meanwhile it is run again.
---@param what string
---@param request? table
---@param patience_s? number for a cluster that does not answer, default 30
---@return any answer
---@return tide.error? err
function client.look(what, request, patience_s)
  while true do
    local before <const>, lost = session(patience_s or PATIENCE_S)
    if not before then return nil, lost end
    local answer <const>, err = client.run(what, request)
    local after <const> = core.node()
    local same <const> = after and after.state == "up" and after.sessions_lost == before.sessions_lost
    if same or core.interrupted() > 0 then return answer, err end
  end
end

---Asks all nodes that are up.
---@param what "status"|"events"|"log"|"hottest"|... a controller in a process of its own knows the first three
---@param more? table what the question says besides
---@return table|nil array of {name, id, state, answer | error} , table? err
function client.gather(what, more)
  local request = {op = what}
  for k, v in pairs(more or {}) do request[k] = v end
  return client.look("tide.cluster.client.gather_inside", request)
end

---Asks the agent of the first node that is up.
---@param request table {op=, ...}
---@return table? answer
---@return table? err
function client.ask_one(request) return client.run("tide.cluster.client.ask_one_inside", request) end

local ASK_S <const>, GATHER_S <const> = 3600, 5

function client.ask_one_inside(request)
  for _, member in ipairs(core.members()) do
    local address = member.state == "up" and core.whereis(member.name .. "/agent")
    if address then return core.call(address, request, ASK_S) end
  end
  return nil, errors.new("T0501", {message = "the cluster has no node that is up"})
end

function client.gather_inside(request)
  local rows, asked, addresses = {}, {}, {}
  for i, member in ipairs(members.listed()) do
    rows[i] = {name = member.name, id = member.id, state = member.state}
    local address <const> = node_status.address(member, request.op)
    if address then asked[#asked + 1], addresses[#addresses + 1] = rows[i], address end
  end
  local answers <const>, problems <const> = ask_all(addresses, request, {timeout_s = GATHER_S})
  for i, row in ipairs(asked) do
    row.answer, row.error = answers[i], problems[i] and errors.to_data(errors.from(problems[i]))
  end
  return rows
end

return client
