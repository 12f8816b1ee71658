-- Calls of published actors over HTTP: POST /api/call/NAME {"method": "score", "arguments": [..], "timeout_s": 1} is
-- answered with {"value": ..}, or with {"error": {code, name, message, help}} and a status that says whose fault it is.
-- The call has the right of the dashboard's user.
local core = require "tide.core"
local client = require "tide.cluster.client"
local errors = require "tide.errors"

local calls = {}

local TIMEOUT_S <const>, TIMEOUT_MAX <const> = 5, 60
local STATUS <const> = {EPERM = 403, ENOENT = 404, EBUSY = 429, ETIMEDOUT = 504, EDIED = 502, EUNREACHABLE = 502}

local function address_of(name)
  for _, member in ipairs(core.members()) do
    local address <const> = member.state == "up" and core.whereis(member.name .. "/" .. name)
    if address then return address end
  end
end

---On an actor of the client.
---@param request table
function calls.ask_inside(request)
  local address <const> = address_of(request.name)
  if not address then
    return {status = 404, err = errors.to_data(errors.new("T0401", {
      message = ("no actor is published as `%s`"):format(request.name),
      help = "cluster:group(Class, arguments, {publish = NAME})"}))}
  end
  local answer, err = core.call(address, {op = "ask", method = request.method, arguments = request.arguments,
    count = #request.arguments, timeout_s = request.timeout_s}, request.timeout_s)
  if answer and not answer.err then return {value = answer.value} end
  local problem <const> = errors.from(answer and answer.err or err)
  local raised <const> = answer and problem.code ~= "T0508" and problem.name ~= "ETIMEDOUT" -- by the method
  return {status = raised and 422 or STATUS[problem.name] or 502, err = errors.to_data(problem)}
end

local function failed(status, err)
  return status, core.json_encode {error = {code = err.code, name = err.name, message = tostring(err.message),
    help = err.help, where = err.where, node = err.node, retry_after_s = err.retry_after_s}}
end

local function malformed(message)
  return failed(400, errors.new("T0113", {message = message,
    help = '{"method": "score", "arguments": [1, 2], "timeout_s": 1}'}))
end

---@param name string of the target
---@param body string
---@return integer status
---@return string json
function calls.answer(name, body)
  local o <const> = core.json_decode(body)
  if type(o) ~= "table" or type(o.method) ~= "string" then return malformed "a call names its method" end
  local arguments <const>, timeout_s <const> = o.arguments or {}, o.timeout_s or TIMEOUT_S
  if type(arguments) ~= "table" or next(arguments) ~= nil and #arguments == 0 then
    return malformed "the arguments of a call are a list"
  end
  if type(timeout_s) ~= "number" or not (timeout_s > 0 and timeout_s <= TIMEOUT_MAX) then
    return malformed(("timeout_s is a number of seconds up to %d"):format(TIMEOUT_MAX))
  end
  local answer, err = client.run("tide.dashboard.calls.ask_inside", {name = name, method = o.method,
    arguments = arguments, timeout_s = timeout_s})
  if not answer then return failed(503, errors.from(err)) end
  if answer.err then return failed(answer.status, answer.err) end
  local told, text = pcall(core.json_encode, {value = answer.value})
  if not told or not text then
    return failed(406, errors.new("T0113", "the answer has no form in JSON"))
  end
  return 200, text
end

return calls
