-- Arguments of the script API, checked where the script calls: what is wrong, where (errors find the script's line),
-- and what is wanted.
local errors = require "tide.errors"

local checks = {}

---@param message string
---@param help? string what to do
function checks.fail(message, help) error(errors.new("T0113", {message = message, help = help}), 0) end

local function shown(value)
  if type(value) == "string" then return ("the string %q"):format(value) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  return value == nil and "nothing" or "a " .. type(value)
end

---@param who string what was called
---@param what string of which argument: "the rank of a worker"
---@param value any
---@param least? integer
---@param most? integer
---@return integer
function checks.whole(who, what, value, least, most)
  local number = type(value) == "number" and math.tointeger(value)
  if not number then checks.fail(("%s requires %s as a whole number, not %s"):format(who, what, shown(value))) end
  if least and number < least or most and number > most then
    checks.fail(("%s: %s is %s, not %d"):format(who, what, most and ("between %d and %d"):format(least or 0, most)
      or ("%d or more"):format(least), number))
  end
  return number
end

---@param who string
---@param what string
---@param value any
---@param least number
---@param most number
---@return number
function checks.number(who, what, value, least, most)
  if type(value) ~= "number" then
    checks.fail(("%s requires %s as a number, not %s"):format(who, what, shown(value)))
  end
  if not (value >= least and value <= most) then
    checks.fail(("%s: %s is between %g and %g, not %s"):format(who, what, least, most, shown(value)))
  end
  return value
end

---@param who string
---@param what string
---@param value any
---@return string
function checks.text(who, what, value)
  if type(value) ~= "string" or value == "" then
    checks.fail(("%s requires %s as a string, not %s"):format(who, what,
      value == "" and "an empty one" or shown(value)))
  end
  return value
end

return checks
