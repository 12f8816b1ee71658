-- Actors that serve requests. A request is a message `{op = name, ...}`: a cast, or a call, which gets exactly one
-- answer.
--
-- A service has two tables: the *rows* declare each request (its senders, its fields, whether its answer
-- takes long), the *answers* are the functions of the same names. For each message the service finds the row, checks
-- the sender's right and the fields, calls the function, and answers with what it returned. What it raises is answered
-- as an error with its place. A request without a row, a right that does not suffice, and a field that is missing,
-- unknown or of another type are refused with an error and counted (`messages_refused` of core.actors).
--
-- docs/internals/service.md is the guide.
local core = require "tide.core"
local errors = require "tide.errors"
local fields = require "tide.fields"
local script = require "tide.script"
local text = require "tide.text"

local service = {}
service.__index = service

---@class tide.request what is declared of a request
---@field right "read"|"operate"|"admin"|"node" the least that its sender needs
---@field waits boolean it blocks: it runs in a fiber of its own
---@field fields tide.field_list

---@class tide.service
---@field name string "the agent", for errors
---@field rows table<string, tide.request>
---@field answers table<string, fun(request: table, from: any): any, table?> what a request is answered with: a
---  value, nothing for an empty table, nil and an error, or service.LATER
---@field waits? boolean all requests run in fibers of their own
---@field envelope? table<string, boolean> fields that every message has beside `op`
---@field from? fun(request: table, message: table): any, table? what a function gets with its request, instead of
---  the message; nil and an error: the request is refused; nil alone: it is dropped
---@field audit? fun(name: string, request: table, message: table, row: tide.request, refusal?: table): true?, table?
---  notes what is asked for before it is done; nil and an error: it must not be
---@field invoke? fun(f: function, request: table, from: any): any, table? calls a function, with more than those two
---@field unknown? fun(name: any): table the error of a request without a row
---@field exited? fun(message: table) something that is monitored has ended
---@field stopped? fun(): boolean? the actor is to stop; true: it continues until a turn ends it. Default: the loop ends
---@field route? fun(message: table): tide.service? the service that serves this message, if it is another one
---@field failed? fun(request: any, err: table, message: table) of a cast, which has no caller to be answered

---What a function returns that answers later, by service.answer.
service.LATER = {}

local RANK <const> = {read = 1, operate = 2, admin = 3, node = 4}
local OP <const> = {op = true}

---@param held string right of a sender
---@param needed string
---@return boolean
function service.at_least(held, needed) return (RANK[held] or 0) >= RANK[needed] end

---The lesser of two rights; one that is unknown is none.
---@param a string
---@param b string
function service.lesser(a, b) return (RANK[b] or 0) < (RANK[a] or 0) and b or a end

---@param actor table<string, table> by request: {right, "waits", <field> = type}; the right is "node" where none is
---  said
---@return table<string, tide.request>
function service.rows(actor)
  local rows = {}
  for name, declared in pairs(actor) do
    local row, of_fields = {right = "node", waits = false}, {}
    for k, v in pairs(declared) do
      if type(k) == "string" then
        of_fields[k] = v
      elseif v == "waits" then
        row.waits = true
      else
        row.right = RANK[v] and v or error(("request `%s` has no right `%s`"):format(name, v))
      end
    end
    row.fields = fields.compile(of_fields)
    rows[name] = row
  end
  return rows
end

---Whether the sender of a message may have this request.
---@param rows table<string, tide.request>
---@param name any of the request, a foreign value
---@param right string of the message
---@return true|nil, table? err
function service.allows(rows, name, right)
  local row <const> = type(name) == "string" and rows[name]
  local needed <const> = row and row.right or "node"
  if service.at_least(right, needed) then return true end
  if right == "read" or needed == "node" then
    return nil, errors.new("T0801", ("the request requires more than the right `%s`"):format(tostring(right)))
  end
  return nil, errors.new("T0801", {
    message = ("%s requires the right `%s`, and the connection has `%s`"):format(name, needed, tostring(right)),
    help = "use keys of that role: tide keys issue --role " .. needed .. " --name NAME"})
end

---Whether a request is well-formed.
---@param rows table<string, tide.request>
---@param name string
---@param request any
---@param envelope? table<string, boolean>
---@return true|nil, table? err
function service.check(rows, name, request, envelope)
  local fault <const>, help = fields.fault(rows[name].fields, request, envelope or OP)
  if not fault then return true end
  return nil, errors.new("T0116", {message = ("the request `%s` is malformed: %s"):format(name, fault),
    state = "nothing was done", help = help})
end

---Answers a call with what a function returned. A cast gets no answer.
---@param message table the request
---@param ok boolean of xpcall
---@param answer any
---@param err any
function service.answer(message, ok, answer, err)
  if message.kind ~= "call" then return end
  local problem = not ok and answer or not answer and err or nil
  local told
  if not problem then
    local travels <const>, sent, why = pcall(core.answer, message, answer == nil and {} or answer)
    told, problem = travels and sent, travels and why or sent
  end
  if not told then core.answer_error(message, problem) end -- also of an answer that cannot travel
end

---Answers a call later: with what a function returns that blocks, on a fiber of its own.
---@param message table the request
---@param f fun(...): any, any
---@return table LATER
function service.later(message, f, ...)
  core.fiber(function(...) service.answer(message, xpcall(f, script.failure, ...)) end, ...)
  return service.LATER
end

---A test aid: bytes of the Lua state of the actor that serves this, without garbage, and actors of its node.
---@return {bytes: integer, actors: integer}
function service.bytes()
  collectgarbage()
  collectgarbage() -- what finalizers have released
  return {bytes = collectgarbage "count" * 1024 // 1, actors = #core.actors()}
end

---@param o tide.service
---@return tide.service
function service.new(o)
  for name in pairs(o.answers) do
    if not o.rows[name] then error(("%s serves the request `%s`, which has no row"):format(o.name, name), 2) end
  end
  local envelope = {op = true}
  for name in pairs(o.envelope or {}) do envelope[name] = true end
  local self <const> = {envelope = envelope}
  for k, v in pairs(o) do self[k] = self[k] or v end
  return setmetatable(self, service)
end

local function unknown_error(self, name)
  if self.unknown then return self.unknown(name) end
  return errors.new("T0116", {message = ("%s does not know the request `%s`"):format(self.name,
    text.clean(tostring(name))), help = type(name) == "string"
    and text.did_you_mean(name, self.answers) or nil})
end

-- What the function of a request gets with it, where the request may be served; else nil, and why not unless it is
-- dropped.
local function admitted(self, request, message)
  local name <const> = type(request) == "table" and request.op or nil
  local row <const> = type(name) == "string" and self.answers[name] and self.rows[name] or nil
  if not row then return nil, unknown_error(self, name) end
  local from, err = message, nil
  if self.from then from, err = self.from(request, message) end
  if from == nil then return nil, err end
  local ok = message.right == "node"
  if not ok then ok, err = service.allows(self.rows, name, message.right) end
  if ok then ok, err = service.check(self.rows, name, request, self.envelope) end
  if self.audit then
    local noted <const>, problem = self.audit(name, request, message, row, err)
    if ok and not noted then err = problem end
  end
  if err then return nil, err end
  return from
end

-- Of a cast: there is no one to answer.
local function has_failed(self, request, err, message)
  if message.kind == "call" then
    core.answer_error(message, err)
  elseif self.failed then
    self.failed(request, err, message)
  elseif message.right == "node" then
    core.log("warn", ("%s refused a cast: %s"):format(self.name, errors.from(err).message))
  end
end

local function invoke(f, request, from) return f(request, from) end

local function call(self, request, from, message)
  local ok, answer, err = xpcall(self.invoke or invoke, script.failure, self.answers[request.op], request, from)
  if answer == service.LATER then return nil end
  if message.kind == "call" then
    service.answer(message, ok, answer, err)
  elseif not ok or not answer and err then
    has_failed(self, request, not ok and answer or err, message)
  else
    return answer
  end
  return nil
end

---Whether a request may be served, for those that come inside another one.
---@param request table {op, ...}
---@param message table that it came by
---@return any|nil from, table? err
function service:admit(request, message)
  local from <const>, err = admitted(self, request, message)
  if err then core.refused() end
  return from, err
end

---Serves one request.
---@param message table
---@return any answer of a cast, for the caller; nil of a request that blocks
function service:serve(message)
  local request <const> = message.value
  local from <const>, err = self:admit(request, message)
  if err then return has_failed(self, request, err, message) end
  if from == nil then return nil end
  if not (self.rows[request.op].waits or self.waits) then return call(self, request, from, message) end
  core.fiber(call, self, request, from, message)
  return nil
end

---Deals with any message.
---@param message table
---@return boolean|nil whether the actor stops
function service:handle(message)
  if message.kind == "stop" then return not (self.stopped and self.stopped()) end
  if message.kind == "exit" then
    if self.exited then self.exited(message) end
  else
    local by <const> = self.route and self.route(message) or self
    by:serve(message)
  end
  return nil
end

---@class tide.service.loop
---@field wait_s? number|fun(): number how long a turn waits for a message, at most
---@field receive? fun(seconds: number?): table? instead of core.receive
---@field turn? fun(): any called after each message and each wait; what it returns ends the loop

---Serves messages until the actor is stopped, or a turn says so.
---@param loop tide.service.loop
---@return any of `turn`; nil: stopped
function service:run(loop)
  local receive <const>, wait_s <const> = loop.receive or core.receive, loop.wait_s
  while true do
    local message <const> = receive(type(wait_s) == "function" and wait_s() or wait_s)
    if message and self:handle(message) then return nil end
    local over <const> = loop.turn and loop.turn()
    if over then return over end
  end
end

return service
