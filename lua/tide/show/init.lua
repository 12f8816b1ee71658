-- The printer of values: bounded, deterministic, safe for terminals.
--
-- It walks with raw access, so no metamethod of a value runs, and counts items, depth and characters. Arrays of records
-- with equal fields become aligned tables; maps print their keys in order; cycles print as <1>; numbers have six
-- significant digits, integers are whole; tensors and other userdata print by the summary of their type.

local table_view = require "tide.show.table_view"
local text = require "tide.text"

local BOUNDS <const> = {items = 50, depth = 4, string = 200, output = 64 << 10}
local LARGE <const> = {items = 100000, depth = 32, string = 1 << 20, output = 8 << 20} -- for a pager
local LINE_MAX <const> = 78

local show = {}

---A number as the console prints it.
---@param number number
---@return string
function show.number(number)
  if math.type(number) == "integer" then return tostring(number) end
  return ("%.6g"):format(number)
end

---A string as the console prints it, cut.
---@param s string
---@param most? integer default 200
---@return string quoted, escaped, cut after so many characters
function show.string(s, most)
  most = most or BOUNDS.string
  local length <const> = utf8.len(s) or #s
  local more = ""
  if length > most then
    s = s:sub(1, utf8.len(s) and utf8.offset(s, most + 1) - 1 or most)
    more = ("... %d more"):format(length - most)
  end
  local escaped <const> = s:gsub("[\\\"]", "\\%0"):gsub("\n", "\\n"):gsub("\t", "\\t"):gsub("\r", "\\r")
  return '"' .. text.clean(escaped) .. '"' .. more
end

local KEY_ORDER <const> = {number = 1, string = 2, boolean = 3}

local function ordered_keys(value)
  local keys, count = {}, 0
  for k in next, value do
    count = count + 1
    keys[count] = k
  end
  table.sort(keys, function(a, b)
    local x, y = KEY_ORDER[type(a)] or 4, KEY_ORDER[type(b)] or 4
    if x ~= y then return x < y end
    if x <= 2 then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function is_array(value)
  local count = 0
  for k in next, value do
    if math.type(k) ~= "integer" then return false end
    count = count + 1
  end
  return count == rawlen(value)
end

local write -- forward: values contain values

local function key_text(key)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") then return key end
  if type(key) == "string" then return "[" .. show.string(key) .. "]" end
  return "[" .. (type(key) == "number" and show.number(key) or text.clean(tostring(key))) .. "]"
end

local function items_of(value, state, depth)
  local parts, most <const> = {}, state.bounds.items
  if is_array(value) then
    for i = 1, math.min(rawlen(value), most) do parts[i] = write(rawget(value, i), state, depth + 1) end
    if rawlen(value) > most then parts[#parts + 1] = ("... %d more"):format(rawlen(value) - most) end
    return parts
  end
  local keys <const> = ordered_keys(value)
  for i = 1, math.min(#keys, most) do
    parts[i] = key_text(keys[i]) .. " = " .. write(rawget(value, keys[i]), state, depth + 1)
  end
  if #keys > most then parts[#parts + 1] = ("... %d more"):format(#keys - most) end
  return parts
end

local function write_table(value, state, depth)
  if state.open[value] then return ("<%d>"):format(state.open[value]) end
  if next(value) == nil then return "{}" end
  if depth >= state.bounds.depth then return "{...}" end
  state.count = state.count + 1
  state.open[value] = state.count
  local parts <const> = items_of(value, state, depth)
  state.open[value] = nil
  local one_line <const> = "{" .. table.concat(parts, ", ") .. "}"
  local indent <const> = ("  "):rep(depth + 1)
  if text.width(one_line) + 2 * depth <= state.line and not one_line:find("\n", 1, true) then return one_line end
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

write = function(value, state, depth)
  local kind <const> = type(value)
  if kind == "number" then return show.number(value) end
  if kind == "string" then return show.string(value, state.bounds.string) end
  if kind == "table" then
    if getmetatable(value) and rawget(value, "code") and rawget(value, "message") then
      return "error[" .. text.clean(tostring(rawget(value, "code"))) .. "]: "
        .. text.clean(tostring(rawget(value, "message")))
    end
    return write_table(value, state, depth)
  end
  if kind == "userdata" then
    local ok, summary = pcall(tostring, value)
    return ok and text.clean_lines(summary) or "<userdata>"
  end
  if kind == "function" then return "<function>" end
  return text.clean(tostring(value))
end

local function is_record(value)
  if type(value) ~= "table" or getmetatable(value) or next(value) == nil then return false end
  for key, cell in next, value do
    if type(key) ~= "string" or type(cell) == "table" then return false end
  end
  return true
end

-- Fields of an array of records of scalars, each of which has at least half of them; nil for anything else.
local function record_columns(value, most)
  if type(value) ~= "table" or rawlen(value) < 1 or not is_array(value) then return nil end
  local all = {}
  for i = 1, math.min(rawlen(value), most) do
    local record <const> = rawget(value, i)
    if not is_record(record) then return nil end
    for key in next, record do all[key] = true end
  end
  local keys <const> = ordered_keys(all)
  for i = 1, math.min(rawlen(value), most) do
    if 2 * #ordered_keys(rawget(value, i)) < #keys then return nil end
  end
  return keys
end

local function record_table(value, keys, o, bounds)
  local columns, rows = {}, {}
  for i, key in ipairs(keys) do columns[i] = {key = key} end
  for i = 1, math.min(rawlen(value), bounds.items) do
    local row = {}
    for _, key in ipairs(keys) do
      local cell <const> = rawget(rawget(value, i), key)
      local plain <const> = cell == nil or type(cell) == "string" or type(cell) == "number"
      if plain then row[key] = cell else row[key] = write(cell, {bounds = bounds}, 1) end
    end
    rows[i] = row
  end
  local lines <const> = table_view.lines(rows, columns, {width = o.width or 100, unicode = o.unicode ~= false})
  if rawlen(value) > bounds.items then
    lines[#lines + 1] = ("... %d more"):format(rawlen(value) - bounds.items)
  end
  return table.concat(lines, "\n")
end

---Any value as text.
---@param value any
---@param o? {width?: integer, unicode?: boolean, full?: boolean} default 100 and true; full: 100,000 items a table, 32
---  levels, 1 MiB a string, 8 MiB in all
---@return string
function show.value(value, o)
  local bounds <const> = o and o.full and LARGE or BOUNDS
  local keys <const> = record_columns(value, bounds.items)
  local out = keys and record_table(value, keys, o or {}, bounds) or write(value, {open = {}, count = 0,
    bounds = bounds, line = math.min(LINE_MAX, o and o.width or LINE_MAX)}, 0)
  if #out > bounds.output then
    local kept <const> = out:sub(1, bounds.output):gsub("[\xc2-\xf4][\x80-\xbf]*$", "")
    out = kept .. ("\n... %d more bytes"):format(#out - #kept)
  end
  return out
end

return setmetatable(show, {__call = function(_, value, o) return show.value(value, o) end})
