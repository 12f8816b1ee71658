-- Requests to several actors at once: one fiber per request, answers in the order of the targets.
--
-- All requests share one deadline, so the whole takes as long as the slowest answer and never longer than the deadline.
-- A target without an answer is *missing*; the caller says how many may be.
local core = require "tide.core"
local errors = require "tide.errors"

---@class tide.ask_all.options
---@field timeout_s? number until the deadline of all requests together (5)
---@field missing? integer how many answers may be missing; default: any number
---@field at_once? integer requests in flight at most; default: all of them

local TIMEOUT_S <const> = 5

---Calls every target and waits for all answers. A target that is false is missing without being called: its node has no
---such actor. What a function `request` raises is raised here, when the other requests have ended.
---@param targets any[] addresses, or what the function `request` takes; false: missing
---@param request table|fun(target: any, i: integer, timeout_s: number): any, table? what every target is sent; or how
---  one is asked: its answer, or nil and why there is none
---@param o? tide.ask_all.options
---@return table<integer, any>|nil answers by the target's place, nil where it is missing; nil: too many are missing
---@return table<integer, table>|table problems by place, why an answer is missing; the first of them when too many are
local function ask_all(targets, request, o)
  o = o or {}
  local deadline <const> = core.now() + (o.timeout_s or TIMEOUT_S)
  local ask = request
  if type(request) == "table" then
    ask = function(target, _, timeout_s) return core.call(target, request, timeout_s) end
  end
  local answers, problems, next_one, fibers = {}, {}, 0, {}
  for k = 1, math.min(#targets, o.at_once or #targets) do
    fibers[k] = core.fiber(function()
      while next_one < #targets do
        next_one = next_one + 1
        local i <const> = next_one
        local answer, err
        if targets[i] then answer, err = ask(targets[i], i, math.max(deadline - core.now(), 0)) end
        answers[i] = answer
        if answer == nil then problems[i] = err or errors.new("T0501", {message = "no such actor"}) end
      end
    end)
  end
  local raised
  for _, fiber in ipairs(fibers) do
    local ok, err = core.fiber_wait(fiber)
    if not ok then raised = raised or err end
  end
  if raised then error(raised, 0) end
  local missing, first = 0, nil
  for i = 1, #targets do
    if problems[i] then missing, first = missing + 1, first or problems[i] end
  end
  if missing > (o.missing or math.huge) then return nil, first end
  return answers, problems
end

return ask_all
