-- Calls of published actors over HTTP: POST /api/call/NAME {"method": "score", "arguments": [..], "timeout_s": 1} is
-- answered with {"value": ..}, or with {"error": {code, name, message, help}} and a status that says whose fault it is.
-- Bodies are JSON, or msgpack where the headers name it. A call has the right of the dashboard's user, or that of the
-- token where it is less.
--
-- An actor of the dashboard's client takes the calls from the server, so that they wait neither for the dashboard's
-- looks nor for each other. While there is none, the server answers each call with 503.
local core = require "tide.core"
local client = require "tide.cluster.client"
local errors = require "tide.errors"

local calls = {}

local TIMEOUT_S <const>, TIMEOUT_MAX <const> = 5, 60
local RETRY_S <const>, START_S <const> = 1, 5
local JSON <const>, MSGPACK <const> = "application/json", "application/msgpack"
local STATUS <const> = {EPERM = 403, ENOENT = 404, EBUSY = 429, ETIMEDOUT = 504, EDIED = 502, EUNREACHABLE = 502,
  EINVAL = 400, EUNSUPPORTED = 400}
local GONE <const> = {ENOENT = true, EDIED = true, EUNREACHABLE = true}
local ACTOR <const> = [[return require("tide.dashboard.calls").serve(...)]]

---- bodies ----------------------------------------------------------------------------------------------------------

-- The type of the answer: what the request accepts, else the type of its body.
local function type_of_answer(request)
  if request.accept:find("msgpack", 1, true) then return MSGPACK end
  if request.accept:find("json", 1, true) then return JSON end
  return request.type:find("msgpack", 1, true) and MSGPACK or JSON
end

local function decode(request)
  if not request.type:find("msgpack", 1, true) then return core.json_decode(request.body) end
  local ok <const>, value = pcall(core.decode, request.body)
  return ok and value or nil
end

local function failed(kind, status, err)
  local place <const> = err.where and not errors.is_inside(err.where) and err.where or nil
  local wait_s <const> = (status == 429 or status == 503) and (err.retry_after_s or RETRY_S) or nil
  local problem <const> = {error = {code = err.code, name = err.name, message = tostring(err.message), help = err.help,
    where = place, node = err.node, retry_after_s = wait_s}}
  return status, kind, kind == MSGPACK and core.encode(problem) or core.json_encode(problem), wait_s
end

local function succeeded(kind, value)
  if kind == MSGPACK then return 200, kind, core.encode {value = value} end
  local told <const>, text = pcall(core.json_encode, {value = value})
  if told and text then return 200, kind, text end
  return failed(kind, 406, errors.new("T0116", {message = "the answer has no form in JSON",
    help = "ask for Accept: application/msgpack"}))
end

-- nil: the call is well-formed.
local function fault(o, request)
  if request.method ~= "POST" then return "a call is a POST" end
  if type(o) ~= "table" or type(o.method) ~= "string" then return "a call names its method" end
  local arguments <const>, timeout_s <const> = o.arguments, o.timeout_s
  if arguments ~= nil and (type(arguments) ~= "table" or next(arguments) ~= nil and #arguments == 0) then
    return "the arguments of a call are a list"
  end
  if timeout_s ~= nil and (type(timeout_s) ~= "number" or not (timeout_s > 0 and timeout_s <= TIMEOUT_MAX)) then
    return ("timeout_s is a number of seconds up to %d"):format(TIMEOUT_MAX)
  end
end

---- asking ----------------------------------------------------------------------------------------------------------

local addresses <const> = {} ---@type table<string, string> groups that were found, by name

-- nil and an error: there is none.
local function address_of(name)
  if addresses[name] then return addresses[name] end
  local up = false
  for _, member in ipairs(core.members()) do
    up = up or member.state == "up"
    local address <const> = member.state == "up" and core.whereis(member.name .. "/" .. name)
    if address then
      addresses[name] = address
      return address
    end
  end
  if not up then return nil, errors.new("T0501", {message = "no node of the cluster is up"}) end
  return nil, errors.new("T0401", {message = ("no actor is published as `%s`"):format(name),
    help = "cluster:group(Class, arguments, {publish = NAME})"})
end

-- The answer of the group, or nil and an error. One that has gone since it was found is looked for again: it did not
-- get the call.
local function ask(name, body, timeout_s)
  local problem
  for _ = 1, 2 do
    local known <const>, address, none = addresses[name], address_of(name)
    if not address then return nil, none end
    local answer <const>, err = core.call(address, body, timeout_s)
    if answer then return answer end
    problem = errors.from(err)
    if GONE[problem.name] then addresses[name] = nil end
    if not known or problem.name ~= "ENOENT" then break end
  end
  return nil, problem
end

-- Status, type, text and seconds of Retry-After of one request.
local function respond(request)
  local kind <const> = type_of_answer(request)
  local o <const> = decode(request)
  local malformed <const> = fault(o, request)
  if malformed then
    return failed(kind, request.method ~= "POST" and 405 or 400, errors.new("T0116", {message = malformed,
      help = '{"method": "score", "arguments": [1, 2], "timeout_s": 1}'}))
  end
  local name <const> = request.target:match "^/api/call/([%w_.-]+)$"
  local arguments <const>, timeout_s <const> = o.arguments or {}, o.timeout_s or TIMEOUT_S
  if not name then return failed(kind, 404, errors.new("T0401", {message = "this is no name of an actor"})) end
  local answer <const>, err = ask(name, {op = "ask", method = o.method, arguments = arguments, count = #arguments,
    timeout_s = timeout_s, as_right = request.right}, timeout_s)
  if answer and not answer.err then return succeeded(kind, answer.value) end
  local problem <const> = errors.from(answer and answer.err or err)
  local raised <const> = answer and problem.name ~= "EDIED" and problem.name ~= "ETIMEDOUT" -- by the method
  return failed(kind, raised and 422 or problem.code == "T0501" and 503 or STATUS[problem.name] or 502, problem)
end

local function answer_one(server, request)
  local ok <const>, status, kind, text, wait_s = xpcall(respond, debug.traceback, request)
  if ok then return server:answer(request.id, status, kind, text, wait_s) end
  core.log("error", "a call over HTTP failed: " .. tostring(status))
  return server:answer(request.id, 500, JSON, '{"error":{"message":"the dashboard failed; its log says why"}}')
end

---Body of the actor that takes calls, until the server is closed.
---@param a {server: integer, parent: string}
function calls.serve(a)
  local server <const>, err = core.http_calls(a.server)
  core.send(a.parent, {}) -- it waits for this
  if not server then error(err, 0) end
  core.title "calls over HTTP"
  for request in server.take, server do core.fiber(answer_one, server, request) end
end

---On an actor of the client.
---@param request {server: integer}
function calls.begin_inside(request)
  local address <const>, err = core.spawn {source = ACTOR, chunk = "@tide/calls.lua", role = "control",
    argument = {server = request.server, parent = core.self()}}
  if not address then return nil, err end
  core.receive(START_S)
  return address
end

---- the dashboard's side --------------------------------------------------------------------------------------------

---Sees to it that an actor takes the calls of a server: after each session with a cluster a new one.
---@param server table of core.http_listen
function calls.ensure(server)
  if server:served() then return end
  local begun <const>, err = client.run("tide.dashboard.calls.begin_inside", {server = server:number()})
  if not begun then core.log("warn", "no calls over HTTP: " .. tostring(err.message)) end
end

return calls
