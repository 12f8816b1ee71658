-- JSON: text of a value, value of a text. The work is done in C (`tide.core`); keys come sorted.

local core = require "tide.core"
local errors = require "tide.errors"

local json = {}

---@param value any nil, booleans, numbers, strings, arrays, string-keyed tables
---@return string
function json.encode(value) return core.json_encode(value) end

---@param source string
---@return any value
---@return tide.error? err T0402 when the text is not JSON
function json.decode(source)
  local value, err = core.json_decode(source)
  if value == nil and err then return nil, errors.from(err, "T0402") end
  return value
end

return json
