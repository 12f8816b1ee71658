-- Answers of actors that serve requests: each call gets one, whatever happens while it is served.
local core = require "tide.core"
local script = require "tide.script"

local answers = {}

---Answers a call with what a function returned: a value, or nil and an error. A cast gets no answer.
---@param message table the request
---@param ok boolean of xpcall
---@param answer any
---@param err any
function answers.give(message, ok, answer, err)
  if message.kind ~= "call" then return end
  local problem = not ok and answer or not answer and err or nil
  local told
  if not problem then told, problem = core.answer(message, answer) end
  if not told then core.answer_error(message, problem) end -- also of an answer that cannot travel
end

---Serves a request on a fiber of its own, since it waits for something.
---@param message table
---@param f fun(...): any, any the answer, or nil and an error
function answers.later(message, f, ...)
  core.fiber(function(...) answers.give(message, xpcall(f, script.failure, ...)) end, ...)
end

return answers
