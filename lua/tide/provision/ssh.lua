-- Nodes on other machines by ssh: one client a node, whose standard input is a pipe that this process holds. When it,
-- or the client, goes, the node reads the end of its input and leaves. Keys, known hosts and configuration are the
-- user's; nothing is asked.
local children = require "tide.provision.children"
local commands = require "tide.provision.commands"
local core = require "tide.core"
local errors = require "tide.errors"
local text = require "tide.text"

local kind = {name = "ssh", poll_s = 0.2}

local ASIDE_S <const> = 600 -- a host that failed twice, or once where trying again is no use
local FAILURES <const> = 2
local NO_CONNECTION <const>, NOT_RUN <const>, NO_PROGRAM <const> = 255, 126, 127
local SLOTS_MAX <const> = 256

-- What the client says when there is no connection, what it means, and whether to try again is no use.
local MEANS <const> = {
  {"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed, so it may be another machine; if it is meant "
    .. "to be, `ssh-keygen -R` forgets the old key, and a login by hand takes the new one", true},
  {"Host key verification failed", "its host key is not known; log in once by hand, and look at the key", true},
  {"Could not resolve hostname", "there is no host of this name", true},
  {"Permission denied", "it does not let this user in; a login by `ssh -o BatchMode=yes` has to work", true},
  {"[cC]onnection refused", "nothing listens there for ssh"},
  {"[tT]imed out", "it does not answer"},
}

-- "host[:nodes]" a line; # begins a comment.
local function read_hosts(path)
  local content, err = core.file_read(path)
  if not content then return nil, errors.new("T0110", {message = ("the list of hosts: %s"):format(err.message)}) end
  local hosts, line_number = {}, 0
  for line in (content .. "\n"):gmatch "([^\n]*)\n" do
    line_number = line_number + 1
    local word <const> = line:gsub("#.*$", ""):match "^%s*(.-)%s*$"
    local host, slots = word:match "^([%w_][%w._@-]*)$", 1
    if not host then
      host, slots = word:match "^([%w_][%w._@-]*):(%d+)$"
      slots = math.tointeger(tonumber(slots))
    end
    if host and slots and slots >= 1 and slots <= SLOTS_MAX then
      hosts[#hosts + 1] = {host = host, slots = slots, used = 0, failed = 0, aside = 0}
    elseif word ~= "" then
      return nil, errors.new("T0104", {message = ("`%s` is no host"):format(text.clean(word)),
        where = ("%s:%d"):format(path, line_number),
        help = ("a line is HOST or HOST:NODES, 1 to %d"):format(SLOTS_MAX)})
    end
  end
  if not hosts[1] then return nil, errors.new("T0103", {message = ("%s names no host"):format(path)}) end
  return hosts
end

local function is_here(host)
  host = host:gsub("^.*@", "")
  return host == "localhost" or host:find "^127%." ~= nil
end

function kind.check(o)
  if not o.hosts then return nil, errors.new("T0103", {message = "nodes by ssh want a list of hosts: --hosts FILE"}) end
  local hosts <const>, err = read_hosts(o.hosts)
  if not hosts then return nil, err end
  local client <const>, missing = commands.run({"ssh", "-V"}, o.directory)
  if not client then return nil, missing end
  local only_here <const> = o.endpoint:find "^unix:" or o.endpoint:find "^tcp:127%."
  local room = 0
  for _, host in ipairs(hosts) do
    room = room + host.slots
    if only_here and not is_here(host.host) then
      return nil, errors.new("T0104", {
        message = ("the cluster listens at %s, which %s cannot reach"):format(o.endpoint, host.host),
        help = "start it at an address of this machine: tide node --keys DIR --listen tcp:ADDRESS:PORT"})
    end
  end
  o.host_list, o.max = hosts, room
  return true
end

---@return string[]
function kind.command(o, name, host)
  local node <const> = commands.node(o, name)
  node[#node + 1] = "--leave-on-eof"
  local argv <const> = {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15"}
  if o.ssh_config then table.move({"-F", o.ssh_config}, 1, 2, #argv + 1, argv) end
  argv[#argv + 1] = host or "HOST"
  argv[#argv + 1] = "exec " .. commands.quoted(node)
  return argv
end

-- How many clients run on each host: those that have ended need no room.
local function count_used(o)
  for _, host in ipairs(o.host_list) do host.used = 0 end
  local running = {}
  for _, id in ipairs(o.running or {}) do
    if not id.process:ended() then
      running[#running + 1], id.host.used = id, id.host.used + 1
    end
  end
  o.running = running
end

local function free_host(o)
  local best
  count_used(o)
  for _, host in ipairs(o.host_list) do
    if host.used < host.slots and host.aside <= core.now() and (not best or host.used < best.used) then best = host end
  end
  return best
end

---How many nodes may be asked for now. Where all hosts are set aside, `start` says why.
---@return number
function kind.room(o)
  local room, left = 0, false
  count_used(o)
  for _, host in ipairs(o.host_list) do
    if host.aside <= core.now() then
      room, left = room + host.slots - host.used, true
    end
  end
  return left and room or math.huge
end

-- Why there is no host: what those say that are set aside.
local function no_host(o)
  local reasons = {}
  for _, host in ipairs(o.host_list) do
    if host.aside > core.now() then reasons[#reasons + 1] = ("%s: %s"):format(host.host, host.reason) end
  end
  return errors.new("T1005", {final = #reasons == #o.host_list, message = reasons[1]
    and ("no host is left for one more node; %s"):format(table.concat(reasons, "; "))
    or "no host has room for one more node"})
end

---@return table<string, any> ids by name
function kind.start(o, names)
  local ids = {}
  for _, name in ipairs(names) do
    local host <const> = free_host(o)
    if not host then return ids, no_host(o) end
    local log <const> = kind.log(o, name)
    core.file_remove(log)
    local process, err = core.process(commands.clean(kind.command(o, name, host.host)), {output = log, input = true})
    if not process then
      return ids, errors.new("T1005", {final = true, message = ("ssh cannot be started: %s"):format(err.message)})
    end
    ids[name] = {process = process, host = host}
    table.insert(o.running, ids[name])
  end
  return ids
end

-- Why a client ended, and whether to try again is no use.
local function why(o, name, ended)
  local log <const> = kind.log(o, name)
  local last <const> = text.clean((children.last_lines(log, 2):gsub("%s*\n%s*", "; ")))
  if (ended.signal or 0) ~= 0 then return ("the ssh client was ended by signal %d"):format(ended.signal) end
  if ended.status == NO_CONNECTION then
    local said <const> = core.file_read(log) or ""
    for _, row in ipairs(MEANS) do
      if said:find(row[1]) then return ("%s (%s)"):format(row[2], last), row[3] end
    end
    return "no connection: " .. last
  end
  if ended.status == NO_PROGRAM or ended.status == NOT_RUN then
    return ("`%s` is no program there: --program PATH names it (%s)"):format(o.program, last), true
  end
  return ("ended with exit code %d%s"):format(ended.status or -1, last ~= "" and ": " .. last or "")
end

-- A client has ended: is its host to be tried any more?
local function settle(ticket, reason, hopeless)
  local host <const> = ticket.id.host
  ticket.id.settled = true
  if ticket.joined or ticket.leaving then
    host.failed = 0
    return
  end
  host.failed, host.reason = host.failed + 1, reason
  if hopeless or host.failed >= FAILURES then host.aside, host.failed = core.now() + ASIDE_S, 0 end
end

function kind.list(o, tickets)
  local seen = {}
  for name, ticket in pairs(tickets) do
    local ended <const> = ticket.id.process:ended()
    if ended then
      local reason <const>, hopeless = why(o, name, ended)
      if not ticket.id.settled then settle(ticket, reason, hopeless) end
      seen[name] = {state = "gone", reason = ("%s: %s"):format(ticket.id.host.host, reason)}
    else
      seen[name] = {state = "starting"}
    end
  end
  return seen
end

function kind.stop(_, tickets) -- the client's end is the end of the node's input
  for _, ticket in ipairs(tickets) do ticket.id.process:signal(15) end
end

kind.kill = kind.stop

function kind.id_text(id) return "ssh to " .. id.host.host end

function kind.log(o, name) return ("%s/%s.log"):format(o.directory, name) end

return kind
