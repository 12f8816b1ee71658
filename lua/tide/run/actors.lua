-- Actors of scripts: classes that are declared at the top of a script like jobs, spawned on the nodes of a cluster, one
-- or a group of them at a time, supervised and called. docs/guides/actors.md is the guide.
--
-- A *member* is an actor of its own with the script loaded in it: one handler at a time, in order from each sender. A
-- *keeper*, an actor in the process that made the group, starts members by the nodes' agents, watches them, starts
-- those again that end by an error, and gathers the answers of a call. Whoever has the keeper's address has the group.
local ask_all = require "tide.ask_all"
local core = require "tide.core"
local errors = require "tide.errors"
local requests = require "tide.cluster.requests"
local script = require "tide.script"
local service = require "tide.service"
local text = require "tide.text"

local actors = {}

local MEMBER <const> = [[return require("tide.run.actors").member(...)]]
local KEEPER <const> = [[return require("tide.run.actors").keeper(...)]]
local TIMEOUT_S <const> = 30
local START_S <const> = 30
local BACKOFF_S <const>, MINUTE_S <const> = 0.1, 60
local CALLS_MAX <const>, CHANGES_MAX <const> = 64, 256
local RESERVED <const> = {name = true, start = true, ended = true}
local RIGHTS <const> = {read = true, operate = true, admin = true}

actors.MEMBER = MEMBER

---- classes ---------------------------------------------------------------------------------------------------------

---@class tide.actor_class
---@field name string identifier
---@field start? fun(self: table, arguments: any) before the first message; self has rank, size, node and life, all
---  other fields of it are the script's
---@field ended? fun(self: table, why: string) when it is told to stop, or a cast raised
---@field opens table<string, string> the least right of a client that may ask for the method; others are closed
---@field methods table<string, function>

-- Rights by method: one for all, or a table of them.
local function opens_of(class, opens)
  local rights <const> = {}
  if opens ~= nil and type(opens) ~= "string" and type(opens) ~= "table" then
    error(script.error("T0203", ("`opens` of actor `%s` is a %s"):format(class.name, type(opens)),
      {help = 'opens = "read", or opens = {METHOD = "operate"}'}), 3)
  end
  if type(opens) == "string" then
    for method in pairs(class.methods) do rights[method] = opens end
  else
    for method, right in pairs(opens or {}) do rights[method] = right end
  end
  for method, right in pairs(rights) do
    if not RIGHTS[right] or not class.methods[method] then
      error(script.error("T0203", ("`opens` of actor `%s`: %s = %s is no right of a method"):format(class.name,
        tostring(method), tostring(right)), {help = 'opens = "read", or opens = {METHOD = "operate"}'}), 3)
    end
  end
  return rights
end

---Declares a class of actors. Every other field is a method: `function(self, ...)`, whose result is the answer.
---@param fields table {name=, start=, ended=, opens=, <method>=}; opens: what clients may ask of a published group,
---  "read" or {method = "operate"}
---@return tide.actor_class
function actors.class(fields)
  if type(fields) ~= "table" then error(script.error("T0113", "tide.actor wants a table of fields"), 2) end
  if not require("tide.run.job").is_identifier(fields.name) then
    error(script.error("T0203", "an actor needs a name of small letters, digits, `.`, `_`, `-`"), 2)
  end
  if script.in_main then
    error(script.error("T0206", ("actor `%s` is made inside tide.main, which only the driver runs"):format(fields.name),
      {help = "move tide.actor to the top of the script, where every node runs it too"}), 2)
  end
  if script.actors[fields.name] then
    error(script.error("T0203", ("two actors are called `%s`"):format(fields.name)), 2)
  end
  local class = {name = fields.name, start = fields.start, ended = fields.ended, methods = {}}
  for key, value in pairs(fields) do
    if key ~= "name" and key ~= "opens" then
      if type(value) ~= "function" then
        error(script.error("T0203", ("field `%s` of actor `%s` is a %s, not a function"):format(tostring(key),
          fields.name, type(value))), 2)
      end
      if not RESERVED[key] then class.methods[key] = value end
    end
  end
  class.opens = opens_of(class, fields.opens)
  script.actors[class.name] = class
  return class
end

---- a member --------------------------------------------------------------------------------------------------------

local function run_method(class, self, m)
  local f <const> = class.methods[m.method]
  if not f then
    local known <const> = text.sorted_keys(class.methods)
    return nil, script.error("T0113", ("actor `%s` has no method `%s`"):format(class.name, tostring(m.method)),
      {node = self.node, help = text.did_you_mean(tostring(m.method), known)})
  end
  local results = table.pack(xpcall(f, script.failure, self, table.unpack(m.arguments or {}, 1, m.count or 0)))
  if results[1] then return {value = results[2]} end
  local err = errors.from(results[2])
  err.node = err.node or self.node
  return nil, err
end

---Body of a member.
---@param a {script: table, class: string, rank: integer, size: integer, life: integer, arguments: any, group: string}
function actors.member(a)
  local ok, err = script.load {text = a.script.text, path = a.script.path, args = a.script.args, role = "actor",
                               modules = a.script.modules}
  if not ok then error(err, 0) end
  local class <const> = script.actors[a.class]
  if not class then error(script.error("T0401", ("the script declares no actor `%s`"):format(a.class)), 0) end
  core.title(("%s/%d"):format(a.class, a.rank))
  local self = {rank = a.rank, size = a.size, node = core.node().name, life = a.life}
  if class.start then class.start(self, a.arguments) end
  core.send(a.group, {op = "started", rank = a.rank, life = a.life})
  local over = false
  local served <const> = service.new {
    name = "an actor", rows = requests.member,
    answers = {run = function(m) return run_method(class, self, m) end, ["end"] = function() over = true end},
    failed = function(_, problem) -- of a cast: the actor ends
      if class.ended then class.ended(self, tostring(problem.message)) end
      error(problem, 0)
    end,
  }
  served:run {turn = function() return over end}
  if class.ended then class.ended(self, "stop") end
end

---- the keeper ------------------------------------------------------------------------------------------------------

---@param a {script, class, arguments, members = {{node, agent}}, restart, threads, owner, opens}
function actors.keeper(a)
  core.trap_exits(true)
  core.title("group " .. a.class)
  local opens <const> = a.opens or {}
  local members, monitors, calls = {}, {}, 0
  local me <const> = core.self()
  local streams, newest_stream = {}, 0
  local changes, change_count, watchers = {}, 0, {} -- changes by number, the newest CHANGES_MAX
  local broken ---@type tide.error? linked, and one is gone for good

  local function tell_watchers()
    for i = #watchers, 1, -1 do
      local w <const> = watchers[i]
      if w.after < change_count then
        table.remove(watchers, i)
        core.answer(w.message, {number = w.after + 1, change = changes[w.after + 1]})
      end
    end
  end

  -- Streams and watchers of a caller end with it.
  local callers = {} -- address to monitor
  local function watch_caller(address)
    if callers[address] then return end
    callers[address] = core.monitor(address)
    if callers[address] then monitors[callers[address]] = {caller = address} end
  end

  local function forget_caller(address)
    callers[address] = nil
    for id, stream in pairs(streams) do
      if stream.caller == address then streams[id] = nil end
    end
    for i = #watchers, 1, -1 do
      if watchers[i].message.from == address then table.remove(watchers, i) end
    end
  end

  -- A member came, went, or came back.
  local function changed(m, state, err)
    m.state, m.err = state, err
    if state ~= "up" and state ~= "starting" then m.address = nil end
    change_count = change_count + 1
    changes[change_count] = {rank = m.rank, node = m.node, state = state, life = m.life, why = err and err.message}
    changes[change_count - CHANGES_MAX] = nil
    tell_watchers()
  end

  local function end_member(m)
    if not m.address or m.state == "lost" or m.state == "ended" then return end
    m.state = "ended"
    core.send(m.address, {op = "end"})
    core.send(m.agent, {op = "member.stop", address = m.address})
  end

  local gone
  local function start(m)
    m.life = (m.life or 0) + 1
    local answer, err = core.call(m.agent, {op = "member.start", argument = {script = a.script, class = a.class,
      rank = m.rank, size = #a.members, life = m.life, arguments = a.arguments, group = me},
      threads = a.threads}, START_S)
    if not answer then return gone(m, errors.from(err)) end
    m.address, m.state = answer.address, "starting"
    m.monitor = core.monitor(m.address)
    monitors[m.monitor] = m
    if broken then end_member(m) end
  end

  -- It does not come back.
  function gone(m, err)
    changed(m, "lost", err)
    if not a.link or broken then return end
    broken = err
    for _, other in ipairs(members) do
      end_member(other)
      if other ~= m then
        changed(other, "ended", errors.new("T0508", {message = ("member %d has ended with member %d"):format(other.rank,
          m.rank), node = other.node, cause = err}))
      end
    end
  end

  -- Whether it is to be started again.
  local function again(m, err)
    local now <const> = core.now()
    local recent = {}
    for _, at in ipairs(m.ends) do
      if now - at < MINUTE_S then recent[#recent + 1] = at end
    end
    m.ends = recent
    if #recent >= (a.restart or 0) then return gone(m, err) end
    recent[#recent + 1] = now
    changed(m, "restarting", err)
    core.fiber(function()
      core.sleep(BACKOFF_S * 2 ^ (#recent - 1))
      if not broken then start(m) end
    end)
  end

  local function exited(message)
    if message.from == a.owner then return true end
    local m <const> = monitors[message.call]
    monitors[message.call] = nil
    if m and m.caller then
      forget_caller(m.caller)
      return false
    end
    if not m or m.state == "ended" then return false end
    if message.code == 0 then
      changed(m, "ended", errors.new("T0508", {message = ("member %d has ended"):format(m.rank), node = m.node}))
      return false
    end
    local why <const> = message.text and message.text ~= "" and message.text:match "^[^\n]*" or message.name
    local err <const> = errors.new("T0508", {node = m.node,
      message = ("member %d on node %s has ended: %s"):format(m.rank, m.node, tostring(why))})
    if message.name == "EKILLED" then gone(m, err) else again(m, err) end
    return false
  end

  local function chosen(ranks)
    local list = {}
    for _, m in ipairs(members) do
      local wanted = ranks == nil
      for _, rank in ipairs(ranks or {}) do wanted = wanted or rank == m.rank end
      if wanted then list[#list + 1] = m end
    end
    return list
  end

  -- One call: all members at one time; each answers, fails or is lost.
  local function call(request, one_came)
    local got, lost = {}, {}
    local body = {op = "run", method = request.method, arguments = request.arguments, count = request.count}
    local list <const> = chosen(request.ranks)
    local answers <const>, problems <const> = ask_all(list, function(m)
      local answer, err
      if m.state == "lost" or m.state == "ended" then
        err = m.err
      elseif not m.address then
        err = errors.new("T0508", {message = ("member %d is being started again"):format(m.rank), node = m.node})
      else
        answer, err = core.call(m.address, body, request.timeout_s or TIMEOUT_S)
      end
      if not answer then
        err = errors.to_data(errors.from(err))
        err.node = err.node or m.node
      end
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
    calls = calls - 1
    return {got = got, lost = lost}
  end

  -- The member that has the fewest requests of clients; the one that waited longest of several.
  local function idlest()
    local best
    for _, m in ipairs(members) do
      local better <const> = not best or (m.asked or 0) < (best.asked or 0)
        or (m.asked or 0) == (best.asked or 0) and (m.turn or 0) < (best.turn or 0)
      if m.address and m.state == "up" and better then best = m end
    end
    return best
  end

  -- A request of a client: one member answers. What the method raises travels as a value.
  local turns = 0
  local function ask(request)
    local m <const> = idlest()
    if not m then return {err = errors.to_data(errors.new("T0508", "no member of the group is up"))} end
    turns = turns + 1
    m.asked, m.turn = (m.asked or 0) + 1, turns
    local answer, err = core.call(m.address, {op = "run", method = request.method, arguments = request.arguments,
      count = request.count}, request.timeout_s or TIMEOUT_S)
    m.asked = m.asked - 1
    if answer then return {value = answer.value} end
    err = errors.to_data(errors.from(err))
    err.node = err.node or m.node
    return {err = err}
  end

  -- What came of a call and was not asked for yet goes to who waits for it.
  local function pass_on(stream)
    local message <const> = stream.waits
    if not message or not stream.ready[1] and not stream.over then return end
    stream.waits = nil
    if not stream.ready[1] then streams[stream.id] = nil end
    core.answer(message, table.remove(stream.ready, 1) or {over = true})
  end

  for rank, place in ipairs(a.members) do
    members[rank] = {rank = rank, node = place.node, agent = place.agent, ends = {}}
  end
  ask_all(members, start)
  if a.owner then core.monitor(a.owner) end

  local over = false
  local function finish()
    for _, m in ipairs(members) do end_member(m) end
    for _, w in ipairs(watchers) do core.answer(w.message, {over = true}) end
    watchers = {}
  end
  local answers <const> = {
    started = function(request)
      local m <const> = members[request.rank]
      if m and m.life == request.life then changed(m, "up") end
    end,
    call = function(request, message)
      if calls >= CALLS_MAX or broken then
        return nil, broken or errors.new("T0601", {message = ("%d calls of the group are pending"):format(calls)})
      end
      calls = calls + 1
      if not request.stream then return service.later(message, call, request) end
      newest_stream = newest_stream + 1
      local stream <const> = {id = newest_stream, ready = {}, caller = message.from}
      streams[stream.id] = stream
      watch_caller(message.from)
      core.fiber(function()
        call(request, function(one)
          if streams[stream.id] then table.insert(stream.ready, one) end -- else nobody asks for it any more
          pass_on(stream)
        end)
        stream.over = true
        pass_on(stream)
      end)
      return {stream = stream.id}
    end,
    ask = function(request, message)
      local right <const> = opens[request.method]
      if message.right ~= "node" and not (right and service.at_least(message.right, right)) then
        return nil, errors.new("T0801", {message = right
          and ("method `%s` takes the right `%s`, and this is `%s`"):format(request.method, right, message.right)
          or ("actor `%s` opens no method `%s` to clients"):format(a.class, request.method),
          help = right and "connect with that right" or "name it in `opens` of tide.actor"})
      end
      if calls >= CALLS_MAX or broken then
        return nil, broken or errors.new("T0601", {message = ("%d calls of the group are under way"):format(calls)})
      end
      calls = calls + 1
      return service.later(message, function()
        local answer <const> = ask(request)
        calls = calls - 1
        return answer
      end)
    end,
    publish = function(request)
      local ok, err = core.register(request.name)
      if not ok then return nil, err end
      if next(opens) then core.open "read" end -- each method has a right of its own
      return {}
    end,
    next = function(request, message)
      local stream <const> = streams[request.stream]
      if not stream then return {over = true} end
      stream.waits = message
      pass_on(stream)
      return service.LATER
    end,
    drop = function(request) streams[request.stream] = nil end,
    changes = function(request, message)
      watch_caller(message.from)
      watchers[#watchers + 1] = {after = math.max(request.after or change_count, change_count - CHANGES_MAX),
        message = message}
      tell_watchers()
      return service.LATER
    end,
    cast = function(request)
      for _, m in ipairs(chosen(request.ranks)) do
        if m.address then
          core.send(m.address, {op = "run", method = request.method, arguments = request.arguments,
            count = request.count})
        end
      end
    end,
    members = function()
      local list = {}
      for i, m in ipairs(members) do
        list[i] = {rank = m.rank, node = m.node, state = m.state, life = m.life, address = m.address,
          why = m.err and m.err.message or nil}
      end
      return {members = list, changes = change_count}
    end,
    close = function()
      finish()
      over = true
    end,
  }
  local keeper <const> = service.new {name = "a group", rows = requests.group, answers = answers,
    exited = function(message) over = exited(message) or over end}
  keeper:run {turn = function() return over end}
  finish()
end

---- handles ---------------------------------------------------------------------------------------------------------

---@class tide.group
---@field size integer members, those that are lost included
local group = {}
group.__index = group

local function handle(address, ranks, size, owned, members_max)
  return setmetatable({address = address, picked = ranks, size = size, owned = owned,
                       members_max = members_max or size}, group)
end

local function request_of(self, op, method, ...)
  return {op = op, method = method, arguments = {...}, count = select("#", ...), ranks = self.picked,
    timeout_s = self.timeout_s}
end

---Calls a method of every member and waits for all.
---@param method string
---@return table<integer, any> got answers by rank
---@return table<integer, tide.error>|nil lost why there is none, by rank; nil: all have answered
function group:call(method, ...)
  local answer, err = core.call(self.address, request_of(self, "call", method, ...), (self.timeout_s or TIMEOUT_S) + 5)
  if not answer then error(errors.from(err), 2) end
  local got, lost = {}, nil
  for _, one in ipairs(answer.got) do got[one.rank] = one.value end
  for _, one in ipairs(answer.lost) do
    lost = lost or {}
    lost[one.rank] = errors.from(one.err)
  end
  return got, lost
end

---Sends to every member; nobody answers. A member whose method raises ends.
---@param method string
function group:cast(method, ...)
  local ok, err = core.send(self.address, request_of(self, "cast", method, ...))
  if not ok then error(errors.from(err), 2) end
end

---Calls a method of every member: `for rank, value, err in g:each("add", 1) do`, as the answers come.
---@param method string
---@return fun(): integer?, any, tide.error?
function group:each(method, ...)
  local request <const> = request_of(self, "call", method, ...)
  request.stream = true
  local begun, problem = core.call(self.address, request, TIMEOUT_S)
  if not begun then error(errors.from(problem), 2) end
  local left <const> = setmetatable({}, {__close = function()
    core.send(self.address, {op = "drop", stream = begun.stream})
  end})
  return function()
    local one, err = core.call(self.address, {op = "next", stream = begun.stream},
      (self.timeout_s or TIMEOUT_S) + 5)
    if not one then error(errors.from(err), 2) end
    if one.rank then return one.rank, one.value, one.err and errors.from(one.err) or nil end
  end, nil, nil, left
end

---What happens to members from now on, as it happens: `for c in g:changes() do print(c.rank, c.state, c.why) end`. It
---ends with the group, or when nothing has happened for so long.
---@param timeout_s? number default: no limit
---@return fun(): {rank: integer, node: string, state: string, life: integer, why: string?}?
function group:changes(timeout_s)
  if timeout_s ~= nil and not (type(timeout_s) == "number" and timeout_s >= 0) then
    error(script.error("T0113", "g:changes wants a number of seconds"), 2)
  end
  local answer <const>, problem = core.call(self.address, {op = "members"}, TIMEOUT_S)
  if not answer then error(errors.from(problem), 2) end
  local after = answer.changes
  return function()
    local one, err = core.call(self.address, {op = "changes", after = after}, timeout_s or 1e9)
    if not one then
      if err.name == "ETIMEDOUT" or err.name == "EDIED" or err.name == "ENOENT" then return nil end
      error(errors.from(err), 2)
    end
    after = one.number
    return one.change
  end
end

---Some members, by rank.
---@param ranks integer[]
---@return tide.group
function group:ranks(ranks)
  if type(ranks) ~= "table" then error(script.error("T0113", "g:ranks wants a list of ranks"), 2) end
  for _, rank in ipairs(ranks) do
    if math.type(rank) ~= "integer" or rank < 1 or rank > self.members_max then
      error(script.error("T0113", ("the group has no member %s: it has 1 to %d"):format(tostring(rank),
        self.members_max)), 2)
    end
  end
  local other = handle(self.address, ranks, #ranks, false, self.members_max)
  other.timeout_s = self.timeout_s
  return other
end

---Some members, by their nodes: "n[2-3]", "n1", "@all".
---@param nodes string
---@return tide.group
function group:on(nodes)
  local names = {}
  for _, name in ipairs(actors.nodes_of(nodes)) do names[name] = true end
  local ranks = {}
  for _, m in ipairs(self:members()) do
    if names[m.node] then ranks[#ranks + 1] = m.rank end
  end
  return self:ranks(ranks)
end

---The same members, whose calls wait so long.
---@param seconds number
---@return tide.group
function group:within(seconds)
  local other = handle(self.address, self.picked, self.size, false, self.members_max)
  other.timeout_s = seconds
  return other
end

---Its members and how they are.
---@return table[] {rank, node, state, life, address, why}: state is starting, up, restarting, lost or ended
function group:members()
  local answer, err = core.call(self.address, {op = "members"}, TIMEOUT_S)
  if not answer then error(errors.from(err), 2) end
  return answer.members
end

---Something that travels: `tide.group(ref)` in a worker or member is the same group.
---@return table
function group:ref()
  return {group = self.address, size = self.size, ranks = self.picked, members = self.members_max}
end

---Ends the members; each one's `ended` is called first.
function group:close()
  if not self.owned or self.closed then return end
  self.closed = true
  core.call(self.address, {op = "close"}, 5)
end
group.__close = group.close

---@param ref table of group:ref()
---@return tide.group
function actors.group(ref)
  if type(ref) ~= "table" or type(ref.group) ~= "string" then
    error(script.error("T0113", "tide.group wants what group:ref() gives"), 2)
  end
  return handle(ref.group, ref.ranks, ref.size, false, ref.members)
end

---Names of nodes that are up: "@all", "n3", "n[2-5]", several with commas.
---@param wanted string
---@return string[]
function actors.nodes_of(wanted)
  local list, seen = {}, {}
  for word in (wanted:gsub("@", "")):gmatch "[^,%s]+" do
    local stem, first, last = word:match "^(.-)%[(%d+)%-(%d+)%]$"
    for _, member in ipairs(core.members()) do
      local number <const> = stem and member.name:sub(1, #stem) == stem
        and math.tointeger(tonumber(member.name:sub(#stem + 1)))
      local fits <const> = word == "all" or member.name == word
        or number and number >= tonumber(first) and number <= tonumber(last)
      local serves <const> = (member.workers or 0) > 0 or member.store
      if fits and serves and member.state == "up" and not seen[member.name] then
        seen[member.name] = true
        list[#list + 1] = member.name
      end
    end
  end
  table.sort(list, function(a, b)
    if #a ~= #b then return #a < #b end
    return a < b
  end)
  return list
end

local OPTIONS <const> = {on = true, each = true, restart = true, threads = true, link = true, publish = true}

---Spawns members of a class on nodes of a cluster.
---@param cluster table
---@param class tide.actor_class
---@param arguments any for `start`
---@param o? {on?: string, each?: integer, restart?: integer, threads?: boolean, link?: boolean,
---  publish?: string} on: nodes, default "@all"; each: members a node; restart: how often a minute one that ends by an
---  error is started again; threads: on worker threads; link: when one is gone for good, all end; publish: the name by
---  which clients ask it
---@return tide.group
function actors.spawn(cluster, class, arguments, o)
  o = o or {}
  if type(class) ~= "table" or script.actors[class.name or ""] ~= class then
    error(script.error("T0113", "cluster:group wants an actor made by tide.actor at the top of the script"), 3)
  end
  script.check_fields("T0113", "cluster:group", o, OPTIONS)
  local each <const>, restart <const> = o.each or 1, o.restart or 0
  if math.type(each) ~= "integer" or each < 1 or math.type(restart) ~= "integer" or restart < 0 then
    error(script.error("T0113", "cluster:group: each is a whole number from 1, restart one from 0"), 3)
  end
  local members = {}
  for _, name in ipairs(actors.nodes_of(o.on or "@all")) do
    local agent <const> = core.whereis(name .. "/agent")
    for _ = 1, agent and each or 0 do members[#members + 1] = {node = name, agent = agent} end
  end
  if #members == 0 then
    error(script.error("T0105", ("no node is meant by `%s`"):format(tostring(o.on or "@all")),
      {help = "\"@all\", \"n2\", \"n[2-5]\""}), 3)
  end
  local sent <const> = {}
  for k, v in pairs(cluster.context.script) do sent[k] = v end
  sent.modules = require("tide.bundle").collect()
  local address, err = core.spawn {source = KEEPER, chunk = "@tide/run/actors.lua", role = "control", argument = {
    script = sent, class = class.name, arguments = arguments, members = members, restart = restart,
    threads = o.threads or false, link = o.link or false, owner = core.self(), opens = class.opens}}
  if not address then error(errors.from(err), 3) end
  if o.publish ~= nil then
    local ok, problem = core.call(address, {op = "publish", name = o.publish}, START_S)
    if not ok then
      core.call(address, {op = "close"}, 5)
      error(errors.from(problem), 3)
    end
  end
  return handle(address, nil, #members, true)
end

return actors
