-- Lists of records for people (aligned tables) and programs (tab-separated lines, JSON lines).
--
-- A column is {key, title=, format=, right=}. The first column is the key column and is never cut. `format` turns a
-- value into text for people; plain and JSON output have exact values. Cells come from outside, so they are cleaned.

local checks = require "tide.checks"
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local table_view = {}

local GAP <const> = "  "
local CELL_MIN <const>, TITLE_MIN <const> = 6, 4

---@class tide.column
---@field key string field of the record
---@field title? string default: the key
---@field format? "count"|"size"|"duration"|"share"|"rate"|"rough" rough: three digits
---@field right? boolean align to the right; default for formats and numbers

local FORMATS <const> = {
  count = units.format_count, size = units.format_size, duration = units.format_duration,
  share = units.format_share, rate = units.format_rate, key = units.format_unsigned,
  rough = function(value) return ("%.3g"):format(value) end,
}

-- The shortest decimal that reads back as the same number.
local function exact_float(value)
  for _, format in ipairs {"%.15g", "%.16g"} do
    local short <const> = format:format(value)
    if tonumber(short) == value then return short end
  end
  return ("%.17g"):format(value)
end

local function exact(value)
  if value == nil then return "" end
  if type(value) == "number" and math.type(value) == "float" then return exact_float(value) end
  if type(value) == "table" then
    local items = {}
    for i, item in ipairs(value) do items[i] = exact(item) end
    return table.concat(items, ",")
  end
  return text.clean(value)
end

local function shown(value, column)
  if value == nil or value == "" then return "-" end
  local format <const> = FORMATS[column.format]
  if format and type(value) == "number" then return format(value) end
  if type(value) == "number" and math.type(value) == "float" then return ("%.6g"):format(value) end
  return exact(value)
end

local function aligns_right(column, rows)
  if column.right ~= nil then return column.right end
  if column.format then return true end
  for _, row in ipairs(rows) do
    if row[column.key] ~= nil then return type(row[column.key]) == "number" end
  end
  return false
end

-- Takes columns away from the widest cells that have more than `least`, never from the first column, until the line
-- fits.
local function shrink(widths, limit, least)
  local total = #GAP * (#widths - 1)
  for _, w in ipairs(widths) do total = total + w end
  while total > limit do
    local widest
    for i = 2, #widths do
      if widths[i] > least[i] and (not widest or widths[i] > widths[widest]) then widest = i end
    end
    if not widest then return end
    widths[widest] = widths[widest] - 1
    total = total - 1
  end
end

-- Text and the titles of numbers are cut first: a number that is cut says nothing. `needed`: by column, of its cells.
local function fit(widths, needed, right, limit)
  local least, last_least = {}, {}
  for i = 1, #widths do
    least[i] = right[i] and math.max(needed[i], TITLE_MIN) or CELL_MIN
    last_least[i] = CELL_MIN
  end
  shrink(widths, limit, least)
  shrink(widths, limit, last_least)
end

---Aligned lines with a header.
---@param rows table[]
---@param columns tide.column[]
---@param o? {width?:integer, unicode?:boolean, color?:boolean, header?:boolean}
---@return string[] lines
function table_view.lines(rows, columns, o)
  o = o or {}
  local cells, widths, needed, right = {}, {}, {}, {}
  for c, column in ipairs(columns) do
    right[c] = aligns_right(column, rows)
    needed[c] = 0
    for r, row in ipairs(rows) do
      cells[r] = cells[r] or {}
      cells[r][c] = shown(row[column.key], column)
      needed[c] = math.max(needed[c], text.width(cells[r][c]))
    end
    widths[c] = math.max(needed[c], o.header == false and 0 or text.width(column.title or column.key))
  end
  fit(widths, needed, right, o.width or 100)
  local function line(of)
    local parts = {}
    for c = 1, #columns do
      local cell <const> = c == 1 and of(c) or text.cut(of(c), widths[c], o.unicode)
      parts[c] = text.pad(cell, widths[c], right[c])
    end
    return (table.concat(parts, GAP):gsub(" +$", ""))
  end
  local lines = {}
  if o.header ~= false then
    local head <const> = line(function(c) return columns[c].title or columns[c].key end)
    lines[1] = o.color and "\27[1m" .. head .. "\27[0m" or head
  end
  for r = 1, #rows do
    lines[#lines + 1] = line(function(c) return cells[r][c] end)
  end
  return lines
end

---One record a line, cells separated by tabs, no header, exact values.
---@param rows table[]
---@param columns tide.column[]
---@return string[]
function table_view.plain_lines(rows, columns)
  local lines = {}
  for r, row in ipairs(rows) do
    local cells = {}
    for c, column in ipairs(columns) do cells[c] = exact(row[column.key]) end
    lines[r] = table.concat(cells, "\t")
  end
  return lines
end

---One JSON object a line, each with its schema and all fields of the record.
---@param rows table[]
---@param schema string "tide.node/1"
---@param encode fun(value: any): string
---@return string[]
function table_view.json_lines(rows, schema, encode)
  local lines = {}
  for r, row in ipairs(rows) do
    local object = {schema = schema}
    for k, v in pairs(row) do object[k] = v end
    lines[r] = encode(object)
  end
  return lines
end

local function fields_of(rows, columns)
  local known = {}
  for _, column in ipairs(columns) do known[column.key] = true end
  for _, row in ipairs(rows) do
    for k in pairs(row) do known[k] = true end
  end
  return known
end

local EXPRESSION_FUNCTIONS <const> = {
  math = {floor = math.floor, abs = math.abs, min = math.min, max = math.max},
  tostring = tostring, tonumber = tonumber, find = string.find, match = string.match,
}
local STEPS_MAX <const> = 100000

-- Runs a compiled expression with a bound on its steps: an endless expression must not hang the command.
local function bounded(f)
  debug.sethook(function()
    debug.sethook()
    error("the expression takes too long", 0)
  end, "", STEPS_MAX)
  local ok, value = pcall(f)
  debug.sethook()
  return ok, value
end

local function where_error(expression, why)
  return errors.new("T0114", {message = ("--where `%s`: %s"):format(expression, why)})
end

---Rows for which a Lua expression over their fields is true. Unknown names are errors, missing fields are nil.
---@param rows table[]
---@param columns tide.column[]
---@param expression string
---@return table[]? kept
---@return tide.error? err
function table_view.where(rows, columns, expression)
  local known <const> = fields_of(rows, columns)
  local row
  local environment <const> = setmetatable({}, {
    __index = function(_, name)
      if row and row[name] ~= nil then return row[name] end
      if EXPRESSION_FUNCTIONS[name] ~= nil then return EXPRESSION_FUNCTIONS[name] end
      if known[name] then return nil end
      local near <const> = text.did_you_mean(name, known)
      error(("no field `%s`%s"):format(name, near and "; " .. near or ""), 0)
    end,
    __newindex = function() error("an expression cannot assign", 0) end,
  })
  local chunk, why = load("return " .. expression, "=where", "t", environment)
  if not chunk then return nil, where_error(expression, (why:gsub("^where:%d+: ", ""))) end
  local kept = {}
  for _, candidate in ipairs(rows) do
    row = candidate
    local ok, value = bounded(chunk)
    -- A record that lacks the field is none of those: a number that is not there is neither large nor small.
    local fault <const> = not ok and tostring(value) or ""
    local lacks <const> = fault:find "compare .*nil" or fault:find "arithmetic on a nil"
    if not ok and not lacks then return nil, where_error(expression, (fault:gsub("^where:%d+: ", ""))) end
    if ok and value then kept[#kept + 1] = candidate end
  end
  return kept
end

local function before(a, b)
  if a == b or b == nil then return a ~= nil and b == nil end
  if a == nil then return false end
  if type(a) ~= type(b) then return type(a) < type(b) end
  if type(a) == "number" then return a > b end
  return tostring(a) < tostring(b)
end

---Rows ordered by a field: numbers from the largest, text from A; equal ones keep their order.
---@param rows table[]
---@param columns tide.column[]
---@param name string
---@param reversed? boolean
---@return table[]? sorted
---@return tide.error? err
function table_view.sort(rows, columns, name, reversed)
  local known <const> = fields_of(rows, columns)
  if not known[name] then
    return nil, checks.unknown("T0114", "--sort: no field `%s`", name, known)
  end
  local sorted, place = {}, {}
  for i, row in ipairs(rows) do
    sorted[i], place[row] = row, i
  end
  table.sort(sorted, function(x, y)
    local a, b = x[name], y[name]
    if before(a, b) then return not reversed end
    if before(b, a) then return reversed or false end
    return place[x] < place[y]
  end)
  return sorted
end

return table_view
