-- The keeper of a group of actors (tide.run.actors): an actor in the process that made the group. It starts members by
-- the nodes' agents, watches them, starts those again that end by an error, and gathers the answers of a call. Whoever
-- has its address has the group.
local ask_all = require "tide.ask_all"
local core = require "tide.core"
local errors = require "tide.errors"
local quota = require "tide.run.quota"
local requests = require "tide.requests"
local service = require "tide.service"
local stream = require "tide.stream"

---@class tide.group_keeper
---@field a table argument of the actor
---@field members {rank: integer, node: string, agent: string, state: string, life: integer, address: string?,
---  err: tide.error?, ends: number[]}[]
---@field monitors table<integer, table> by id: members, and callers {caller = address}
---@field callers table<string, integer> monitors of those that hold streams or wait for changes
---@field streams table<integer, {caller: string, answers: tide.stream}> of calls that are read as they come
---@field opens table<string, string> rights of clients by method
---@field quota table of clients
---@field changes tide.stream what happened to members
---@field broken? tide.error linked, and one is gone for good
local group = {}

local BACKOFF_S <const>, MINUTE_S <const> = 0.1, 60
local CALLS_MAX <const> = 64

---- members ---------------------------------------------------------------------------------------------------------

-- A member came, went, or came back.
local function changed(self, m, state, err)
  m.state, m.err = state, err
  if state ~= "up" and state ~= "starting" then m.address = nil end
  self.changes:put {rank = m.rank, node = m.node, state = state, life = m.life, why = err and err.message}
end

local function end_member(m)
  if not m.address or m.state == "lost" or m.state == "ended" then return end
  m.state = "ended"
  core.send(m.address, {op = "end"}, "answer")
  core.send(m.agent, {op = "member.stop", address = m.address}, "answer")
end

-- A member does not come back.
local function gone(self, m, err)
  changed(self, m, "lost", err)
  if not self.a.link or self.broken then return end
  self.broken = err
  for _, other in ipairs(self.members) do
    end_member(other)
    if other ~= m then
      changed(self, other, "ended", errors.new("T0508", {message = ("member %d has ended with member %d"):format(
        other.rank, m.rank), node = other.node, cause = err}))
    end
  end
end

local function start(self, m)
  local a <const> = self.a
  m.life = (m.life or 0) + 1
  local answer <const>, err = core.call(m.agent, {op = "member.start", threads = a.threads, argument = {
    script = a.script, class = a.class, rank = m.rank, size = #a.members, life = m.life, arguments = a.arguments,
    group = core.self()}})
  if not answer then return gone(self, m, errors.from(err)) end
  m.address, m.state = answer.address, "starting"
  self.monitors[core.monitor(m.address)] = m
  if self.broken then end_member(m) end
end

-- A member has ended by an error: it is started again, unless that happened too often.
local function again(self, m, err)
  local now <const> = core.now()
  local recent = {}
  for _, at in ipairs(m.ends) do
    if now - at < MINUTE_S then recent[#recent + 1] = at end
  end
  m.ends = recent
  if #recent >= (self.a.restart or 0) then return gone(self, m, err) end
  recent[#recent + 1] = now
  changed(self, m, "restarting", err)
  core.fiber(function()
    core.sleep(BACKOFF_S * 2 ^ (#recent - 1))
    if not self.broken then start(self, m) end
  end)
end

local function member_ended(self, m, message)
  if m.state == "ended" then return end
  if message.code == 0 then
    return changed(self, m, "ended", errors.new("T0508", {message = ("member %d has ended"):format(m.rank),
      node = m.node}))
  end
  local why <const> = message.text and message.text ~= "" and message.text:match "^[^\n]*" or message.name
  local err <const> = errors.new("T0508", {node = m.node,
    message = ("member %d on node %s has ended: %s"):format(m.rank, m.node, tostring(why))})
  if message.name == "EKILLED" then gone(self, m, err) else again(self, m, err) end
end

---- callers ---------------------------------------------------------------------------------------------------------

-- What is held for a caller ends with it.
local function watch_caller(self, address)
  if self.callers[address] then return end
  self.callers[address] = core.monitor(address)
  if self.callers[address] then self.monitors[self.callers[address]] = {caller = address} end
end

local function forget_caller(self, address)
  self.callers[address] = nil
  for id, one in pairs(self.streams) do
    if one.caller == address then self.streams[id] = nil end
  end
  self.changes:forget(address)
end

local function exited(self, message)
  if message.from == self.a.owner then
    self.over = true
    return
  end
  local what <const> = self.monitors[message.call]
  self.monitors[message.call] = nil
  if what and what.caller then
    forget_caller(self, what.caller)
  elseif what then
    member_ended(self, what, message)
  end
end

---- calls -----------------------------------------------------------------------------------------------------------

local function chosen(self, ranks)
  local list = {}
  for _, m in ipairs(self.members) do
    local wanted = ranks == nil
    for _, rank in ipairs(ranks or {}) do wanted = wanted or rank == m.rank end
    if wanted then list[#list + 1] = m end
  end
  return list
end

local function body_of(request)
  return {op = "run", method = request.method, arguments = request.arguments, count = request.count}
end

-- The answer of one member, or nil and why there is none, with the node.
local function ask_member(m, body, timeout_s)
  local answer, err
  if m.state == "lost" or m.state == "ended" then
    err = m.err
  elseif not m.address then
    err = errors.new("T0508", {message = ("member %d is being started again"):format(m.rank), node = m.node})
  else
    answer, err = core.call(m.address, body, timeout_s)
  end
  if answer then return answer end
  err = errors.to_data(errors.from(err))
  err.node = err.node or m.node
  return nil, err
end

-- One call: all members at one time; each answers, fails or is lost.
local function call(self, request, one_came)
  local got, lost = {}, {}
  local body <const>, list <const> = body_of(request), chosen(self, request.ranks)
  local answers <const>, problems <const> = ask_all(list, function(m)
    local answer <const>, err = ask_member(m, body, request.timeout_s or core.limit "actor_call_timeout")
    if one_came then one_came {rank = m.rank, value = answer and answer.value, err = err} end
    return answer, err
  end)
  for i, m in ipairs(list) do
    if answers[i] then
      got[#got + 1] = {rank = m.rank, value = answers[i].value}
    else
      lost[#lost + 1] = {rank = m.rank, err = problems[i]}
    end
  end
  self.calls = self.calls - 1
  return {got = got, lost = lost}
end

-- The member that has the fewest requests of clients; the one that waited longest of several.
local function idlest(self)
  local best
  for _, m in ipairs(self.members) do
    local better <const> = not best or (m.asked or 0) < (best.asked or 0)
      or (m.asked or 0) == (best.asked or 0) and (m.turn or 0) < (best.turn or 0)
    if m.address and m.state == "up" and better then best = m end
  end
  return best
end

-- A request of a client: one member answers. What the method raises travels as a value.
local function ask_idlest(self, request, bucket)
  local m <const> = idlest(self)
  local answer, err
  if m then
    self.turns = self.turns + 1
    m.asked, m.turn = (m.asked or 0) + 1, self.turns
    answer, err = ask_member(m, body_of(request), request.timeout_s or core.limit "actor_call_timeout")
    m.asked = m.asked - 1
  else
    err = errors.to_data(errors.new("T0508", "no member of the group is up"))
  end
  self.calls = self.calls - 1
  quota.done(bucket)
  return answer and {value = answer.value} or {err = err}
end

-- A call whose answers are read as they come: {stream = its number}.
local function begin_stream(self, request, caller)
  self.newest = self.newest + 1
  local id <const>, one <const> = self.newest, {caller = caller}
  one.answers = stream.new {items_max = #self.members, once = function() self.streams[id] = nil end}
  self.streams[id] = one
  watch_caller(self, caller)
  core.fiber(function()
    call(self, request, function(answer) one.answers:put(answer) end)
    one.answers:close()
  end)
  return {stream = id}
end

---- requests --------------------------------------------------------------------------------------------------------

local answers <const> = {}

function answers.started(self, request)
  local m <const> = self.members[request.rank]
  if m and m.life == request.life then changed(self, m, "up") end
end

-- Counts one more call; else why there cannot be one.
local function begin_call(self)
  if self.broken then return self.broken end
  if self.calls >= CALLS_MAX then
    return errors.new("T0601", {message = ("%d calls of the group are pending"):format(self.calls)})
  end
  self.calls = self.calls + 1
  return nil
end

function answers.call(self, request, message)
  local err <const> = begin_call(self)
  if err then return nil, err end
  if request.stream then return begin_stream(self, request, message.from) end
  return service.later(message, call, self, request)
end

-- A client asks by the name of a published group; `as_right`: for a person who may have less than the client.
function answers.ask(self, request, message)
  local right <const> = self.opens[request.method]
  local held <const> = service.lesser(message.right, request.as_right or message.right)
  if held ~= "node" and not (right and service.at_least(held, right)) then
    return nil, errors.new("T0801", {message = right
      and ("method `%s` requires the right `%s`, and the connection has `%s`"):format(request.method, right, held)
      or ("actor `%s` opens no method `%s` to clients"):format(self.a.class, request.method),
      help = right and ("use keys of that role: tide keys issue --role %s --name NAME"):format(right)
        or "name it in `opens` of tide.actor"})
  end
  local bucket, err
  if message.right ~= "node" then bucket, err = self.quota:take(message.from) end
  if err then return nil, err end
  err = begin_call(self)
  if err then
    quota.done(bucket)
    return nil, err
  end
  return service.later(message, ask_idlest, self, request, bucket)
end

-- A name is one group's in the whole cluster: clients ask nodes for it in any order.
function answers.publish(self, request)
  for _, member in ipairs(core.members()) do
    local taken <const> = member.state == "up" and core.whereis(member.name .. "/" .. request.name)
    if taken and taken ~= core.self() then
      return nil, errors.new("T0512", {message = ("the name `%s` is taken on node %s"):format(request.name,
        member.name), node = member.name})
    end
  end
  local ok <const>, err = core.register(request.name)
  if not ok then return nil, err end
  if next(self.opens) then core.open "read" end -- each method has a right of its own
end

function answers.next(self, request, message)
  local one <const> = self.streams[request.stream]
  if not one then return {items = {}, last = 0, over = true} end
  return one.answers:read(message, request.after)
end

function answers.drop(self, request) self.streams[request.stream] = nil end

function answers.changes(self, request, message)
  watch_caller(self, message.from)
  return self.changes:read(message, request.after)
end

function answers.cast(self, request)
  for _, m in ipairs(chosen(self, request.ranks)) do
    if m.address then core.send(m.address, body_of(request)) end
  end
end

function answers.members(self)
  local list = {}
  for i, m in ipairs(self.members) do
    list[i] = {rank = m.rank, node = m.node, state = m.state, life = m.life, address = m.address,
      why = m.err and m.err.message or nil}
  end
  return {members = list, changes = self.changes.last}
end

local function finish(self)
  for _, m in ipairs(self.members) do end_member(m) end
  self.changes:close()
end

function answers.close(self)
  finish(self)
  self.over = true
end

---Body of the actor.
---@param a {script: table, class: string, arguments: any, members: {node: string, agent: string}[], restart: integer?,
---  threads: boolean?, link: boolean?, owner: string?, opens: table<string, string>?, quota: table?}
function group.main(a)
  core.trap_exits(true)
  core.title("group " .. a.class)
  local self <const> = {a = a, members = {}, monitors = {}, callers = {}, streams = {}, newest = 0, calls = 0,
                        turns = 0, opens = a.opens or {}, quota = quota.new(a.quota),
                        changes = stream.new {items_max = core.limit "run_group_changes"}}
  for rank, place in ipairs(a.members) do
    self.members[rank] = {rank = rank, node = place.node, agent = place.agent, ends = {}}
  end
  ask_all(self.members, function(m) return start(self, m) end)
  if a.owner then core.monitor(a.owner) end
  local served <const> = service.new {
    name = "a group", rows = requests.group, answers = answers,
    invoke = function(f, request, message) return f(self, request, message) end,
    exited = function(message) exited(self, message) end,
  }
  served:run {turn = function() return self.over end}
  finish(self)
end

return group
