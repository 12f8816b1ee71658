-- What the calls at the prompt share of reading their options.
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local options = {}

---Rejects unknown options of a call before any request. Raises at the caller of the call.
---@param o table?
---@param known string[]
---@param name string of the call
---@return table
function options.checked(o, known, name)
  if o == nil then return {} end
  if type(o) ~= "table" then
    error(errors.new("T0113", ("%s requires a table of options, not a %s"):format(name, type(o))), 3)
  end
  for key in pairs(o) do
    local ok = false
    for _, k in ipairs(known) do ok = ok or k == key end
    if not ok then
      error(errors.new("T0115", {message = ("option `%s` of %s"):format(text.clean(tostring(key)), name),
        help = text.did_you_mean(tostring(key), known) or "there are " .. table.concat(known, ", ")}), 3)
    end
  end
  return o
end

---@param time number|string seconds, or "200ms"
---@param name string of the call
---@return number seconds
function options.seconds(time, name)
  if type(time) == "number" then return time end
  local seconds, why = units.parse_duration(time)
  if not seconds then error(errors.new("T0113", name .. ": " .. why), 3) end
  return seconds
end

return options
