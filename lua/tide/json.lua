-- JSON: text of a value, value of a text. The work is done in C (`tide.core`); keys come sorted.

local core = require "tide.core"
local errors = require "tide.errors"

local json = {}

---A value as JSON, keys sorted.
---@param value any nil, booleans, numbers, strings, arrays, string-keyed tables
---@return string
function json.encode(value) return core.json_encode(value) end

---The value that JSON says.
---@param source string
---@return any value
---@return tide.error? err T0402 when the text is not JSON
function json.decode(source)
  local value, err = core.json_decode(source)
  if value == nil and err then return nil, errors.from(err, "T0402") end
  return value
end

---The objects of JSON lines. What is none, and a last line without its end, is left out: a kill cut it off.
---@param source? string nil: none
---@return table[]
function json.lines(source)
  local list = {}
  for line in (source or ""):gmatch "([^\n]+)\n" do
    local value <const> = core.json_decode(line)
    if type(value) == "table" then list[#list + 1] = value end
  end
  return list
end

---An object some of whose fields are arrays that may be empty: an empty table of Lua has no kind of its own.
---@param fields table<string, any>
---@param arrays table<string, any[]>
---@return string
function json.object(fields, arrays)
  local parts, names = {}, {}
  for name in pairs(fields) do names[#names + 1] = name end
  for name in pairs(arrays) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local encoded
    if arrays[name] then
      local items = {}
      for k, item in ipairs(arrays[name]) do items[k] = json.encode(item) end
      encoded = "[" .. table.concat(items, ",") .. "]"
    else
      encoded = json.encode(fields[name])
    end
    parts[i] = json.encode(name) .. ":" .. encoded
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

return json
