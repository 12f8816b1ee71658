-- What goes through messages whole and counts there as few values: encoded, in strings of bounded size.
local core = require "tide.core"

local pieces = {}

---@param text string
---@return string|string[]
function pieces.of(text)
  local most <const> = core.limit "run_text_bytes" -- a message refuses strings of more than 1 MiB
  if #text <= most then return text end
  local list = {}
  for first = 1, #text, most do list[#list + 1] = text:sub(first, first + most - 1) end
  return list
end

---@param text string|string[] of pieces.of
---@return string
function pieces.whole(text) return type(text) == "table" and table.concat(text) or text end

---@param value any
---@return any travels
---@return boolean? encoded a table is
function pieces.packed(value)
  if type(value) ~= "table" then return value end
  return pieces.of(core.encode(value)), true
end

---@param value any of pieces.packed
---@param encoded? boolean
---@return any
function pieces.unpacked(value, encoded)
  if not encoded then return value end
  return (core.decode(pieces.whole(value)))
end

return pieces
