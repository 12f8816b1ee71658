-- Actors of scripts: classes that are declared at the top of a script like jobs, spawned on the nodes of a cluster, one
-- or a group of them at a time, supervised and called. docs/guides/actors.md is the guide.
--
-- A *member* is an actor of its own with the script loaded in it: one handler at a time, in order from each sender. A
-- *keeper* (group.lua) starts members, watches them and gathers the answers of calls.
local bundle = require "tide.bundle"
local checks = require "tide.checks"
local core = require "tide.core"
local errors = require "tide.errors"
local requests = require "tide.requests"
local script = require "tide.script"
local service = require "tide.service"
local stream = require "tide.stream"
local text = require "tide.text"

local actors = {}

local MEMBER <const> = [[return require("tide.run.actors").member(...)]]
local KEEPER <const> = [[return require("tide.run.group").main(...)]]
local RESERVED <const> = {name = true, start = true, ended = true}
local RIGHTS <const> = {read = true, operate = true, admin = true}

actors.MEMBER = MEMBER

---- classes ---------------------------------------------------------------------------------------------------------

---@class tide.actor_class
---@field name string identifier
---@field start? fun(self: table, arguments: any) before the first message; self has rank, size, node and life, all
---  other fields of it are the script's
---@field ended? fun(self: table, why: string) when it is stopped, or a cast raised
---@field opens table<string, string> the least right of a client that may ask for the method; others are closed
---@field quota? {rate?: number, outstanding?: integer} of each client, of all methods together
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

local function quota_of(class, wanted)
  if wanted == nil then return nil end
  local known <const> = type(wanted) == "table" and wanted or {}
  local rate <const>, outstanding <const> = known.rate, known.outstanding
  local right = type(wanted) == "table" and (rate ~= nil or outstanding ~= nil)
    and (rate == nil or type(rate) == "number" and rate > 0)
    and (outstanding == nil or math.type(outstanding) == "integer" and outstanding > 0)
  for key in pairs(known) do right = right and (key == "rate" or key == "outstanding") end
  if not right then
    error(script.error("T0203", ("`quota` of actor `%s` is no quota"):format(class.name),
      {help = "quota = {rate = 1000, outstanding = 64}: calls of a client a second, and at one time"}), 3)
  end
  return wanted
end

---Declares a class of actors. Every other field is a method: `function(self, ...)`, whose result is the answer.
---@param fields table {name=, start=, ended=, opens=, quota=, <method>=}; opens: what clients may ask of a published
---  group, "read" or {method = "operate"}; quota: how often, {rate = calls a second, outstanding = calls at one time}
---@return tide.actor_class
function actors.class(fields)
  if type(fields) ~= "table" then error(script.error("T0113", "tide.actor requires a table of fields"), 2) end
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
    if key ~= "name" and key ~= "opens" and key ~= "quota" then
      if type(value) ~= "function" then
        error(script.error("T0203", ("field `%s` of actor `%s` is a %s, not a function"):format(tostring(key),
          fields.name, type(value))), 2)
      end
      if not RESERVED[key] then class.methods[key] = value end
    end
  end
  class.opens, class.quota = opens_of(class, fields.opens), quota_of(class, fields.quota)
  script.actors[class.name] = class
  return class
end

---- a member --------------------------------------------------------------------------------------------------------

local function run_method(class, self, m)
  local f <const> = class.methods[m.method]
  if not f then
    local err <const> = checks.unknown("T0115", ("actor `%s` has no method"):format(class.name) .. " `%s`", m.method,
      class.methods)
    err.node = self.node
    return nil, err
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
  core.send(a.group, {op = "started", rank = a.rank, life = a.life}, "answer")
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
  local answer, err = core.call(self.address, request_of(self, "call", method, ...),
    (self.timeout_s or core.limit "actor_call_timeout") + 5)
  if not answer then error(errors.from(err), 2) end
  local got, lost = {}, nil
  for _, one in ipairs(answer.got) do got[one.rank] = one.value end
  for _, one in ipairs(answer.lost) do
    lost = lost or {}
    lost[one.rank] = errors.from(one.err)
  end
  return got, lost
end

---Sends to every member, without an answer. A member whose method raises ends.
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
  local begun, problem = core.call(self.address, request)
  if not begun then error(errors.from(problem), 2) end
  local left <const> = setmetatable({}, {__close = function()
    core.send(self.address, {op = "drop", stream = begun.stream})
  end})
  local wait_s <const> = (self.timeout_s or core.limit "actor_call_timeout") + 5
  local next_one <const> = stream.reader(function(after)
    return core.call(self.address, {op = "next", stream = begun.stream, after = after}, wait_s)
  end, 0)
  return function()
    local one, err = next_one()
    if err then error(errors.from(err), 2) end
    if one then return one.rank, one.value, one.err and errors.from(one.err) or nil end
  end, nil, nil, left
end

---What happens to members from now on, as it happens: `for c in g:changes() do print(c.rank, c.state, c.why) end`. It
---ends with the group, or when nothing has happened for so long.
---@param timeout_s? number default: no limit
---@return fun(): {rank: integer, node: string, state: string, life: integer, why: string?}?
function group:changes(timeout_s)
  if timeout_s ~= nil and not (type(timeout_s) == "number" and timeout_s >= 0) then
    error(script.error("T0113", "g:changes requires a number of seconds"), 2)
  end
  local answer <const>, problem = core.call(self.address, {op = "members"})
  if not answer then error(errors.from(problem), 2) end
  local next_one <const> = stream.reader(function(after)
    return core.call(self.address, {op = "changes", after = after}, timeout_s or 1e9)
  end, answer.changes)
  return function()
    local change <const>, err = next_one()
    if err and err.name ~= "ETIMEDOUT" and err.name ~= "EDIED" and err.name ~= "ENOENT" then
      error(errors.from(err), 2)
    end
    return change
  end
end

---Some members, by rank.
---@param ranks integer[]
---@return tide.group
function group:ranks(ranks)
  if type(ranks) ~= "table" then error(script.error("T0113", "g:ranks requires a list of ranks"), 2) end
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
  local answer, err = core.call(self.address, {op = "members"})
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
    error(script.error("T0113", "tide.group requires what group:ref() gives"), 2)
  end
  return handle(ref.group, ref.ranks, ref.size, false, ref.members)
end

---- actors by name --------------------------------------------------------------------------------------------------

---@class tide.named_actor
local named = {}
named.__index = named

---Sends a value and waits for the answer.
---@param value any
---@param timeout_s? number default: 30
---@return any
function named:call(value, timeout_s)
  local answer, err = core.call(self.address, value, timeout_s or core.limit "actor_call_timeout")
  if answer == nil and err then error(errors.from(err), 2) end
  return answer
end

---Sends a value, without an answer.
---@param value any
function named:cast(value)
  local ok, err = core.send(self.address, value)
  if not ok then error(errors.from(err), 2) end
end

---@param name string
---@return tide.named_actor
function actors.lookup(name)
  if type(name) ~= "string" then error(script.error("T0113", "tide.lookup requires the name of an actor"), 3) end
  local address = core.whereis(name)
  for _, member in ipairs(address and {} or core.members()) do
    address = member.state == "up" and core.whereis(member.name .. "/" .. name) or nil
    if address then break end
  end
  if not address then
    error(script.error("T0401", ("no node of the cluster has an actor named `%s`"):format(text.clean(name)),
      {help = "tide actors lists them"}), 3)
  end
  return setmetatable({address = address}, named)
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

---@type tide.declared[]
local OPTIONS <const> = {
  {name = "on", type = "string", default = "@all", doc = "nodes (@all)"},
  {name = "each", type = "integer", min = 1, max = 10000, default = 1, doc = "members a node (1)"},
  {name = "restart", type = "integer", min = 0, default = 0,
   doc = "how often a minute one that ends by an error is started again (0)"},
  {name = "threads", type = "boolean", default = false, doc = "on worker threads"},
  {name = "link", type = "boolean", default = false, doc = "when one is gone for good, all end"},
  {name = "publish", type = "string", doc = "the name by which clients ask it"},
}

---Spawns members of a class on nodes of a cluster.
---@param cluster table
---@param class tide.actor_class
---@param arguments any for `start`
---@param given? tide.group_options
---@return tide.group
function actors.spawn(cluster, class, arguments, given)
  if type(class) ~= "table" or script.actors[class.name or ""] ~= class then
    error(script.error("T0113", "cluster:group requires an actor made by tide.actor at the top of the script"), 3)
  end
  local o <const> = checks.options("cluster:group", OPTIONS, given)
  local members = {}
  for _, name in ipairs(actors.nodes_of(o.on)) do
    local agent <const> = core.whereis(name .. "/agent")
    for _ = 1, agent and o.each or 0 do members[#members + 1] = {node = name, agent = agent} end
  end
  if #members == 0 then
    error(script.error("T0105", ("no node is meant by `%s`"):format(o.on),
      {help = "\"@all\", \"n2\", \"n[2-5]\""}), 3)
  end
  local sent <const> = {}
  for k, v in pairs(cluster.context.script) do sent[k] = v end
  sent.modules = bundle.collect()
  local address, err = core.spawn {source = KEEPER, chunk = "@tide/run/group.lua", role = "control", argument = {
    script = sent, class = class.name, arguments = arguments, members = members, restart = o.restart,
    threads = o.threads, link = o.link, owner = core.self(), opens = class.opens,
    quota = class.quota}}
  if not address then error(errors.from(err), 3) end
  if o.publish ~= nil then
    local ok, problem = core.call(address, {op = "publish", name = o.publish})
    if not ok then
      core.call(address, {op = "close"}, 5)
      error(errors.from(problem), 3)
    end
  end
  return handle(address, nil, #members, true)
end

return actors
