-- Results of evaluations as bounded text for people, and as bounded JSON for programs.
--
-- Runs inside the evaluation, under its limits. Handles of tables print as what their nodes say of them: no row is
-- pulled. Tensors print as shape, statistics and the head of each row.
local core = require "tide.core"
local errors = require "tide.errors"
local show = require "tide.show"
local text = require "tide.text"

local render = {}

local ROWS_MAX <const> = 8
local COLUMNS_MAX <const> = 8
local FULL_ROWS_MAX <const>, FULL_COLUMNS_MAX <const> = 10000, 1000
local FULL_WIDTH <const> = 1000
local DEPTH_MAX <const> = 16
local ITEMS_MAX <const> = 10000
local DATA_MAX <const> = 1 << 20
local RAMP <const> = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
local ASCII_RAMP <const> = {"_", ".", "-", "~", "=", "+", "*", "#"}

---Numbers as a line of bars.
---@param values number[]
---@param unicode boolean
---@return string
function render.spark(values, unicode)
  local ramp <const> = unicode and RAMP or ASCII_RAMP
  local low, high = math.huge, -math.huge
  for _, v in ipairs(values) do low, high = math.min(low, v), math.max(high, v) end
  local out = {}
  for i, v in ipairs(values) do
    local step = high > low and math.floor((v - low) / (high - low) * (#ramp - 1) + 0.5) or 0
    out[i] = v == v and ramp[step + 1] or "?"
  end
  return table.concat(out)
end

local function is_tensor(value) return (tostring(value):find "^[fiu]%d+%[") ~= nil end

---Shape, least and greatest value, mean, and the head of the first rows, or all of them.
local function tensor_text(tensor, full)
  local rows_most <const> = full and FULL_ROWS_MAX or ROWS_MAX
  local columns_most <const> = full and FULL_COLUMNS_MAX or COLUMNS_MAX
  local rows, columns = tensor:rows(), tensor:columns()
  local head <const> = ("%s[%d x %d]"):format(tensor:type(), rows, columns)
  local count <const> = #tensor
  if count == 0 then return head end
  local lines = {("%s  min %s  mean %s  max %s"):format(head, show.number(tensor:min()),
    show.number(tensor:sum() / count), show.number(tensor:max()))}
  for r = 1, math.min(rows, rows_most) do
    local cells = {}
    for c = 1, math.min(columns, columns_most) do cells[c] = show.number(tensor[(r - 1) * columns + c]) end
    if columns > columns_most then cells[#cells + 1] = "..." end
    lines[#lines + 1] = "  " .. table.concat(cells, "  ")
  end
  if rows > rows_most then lines[#lines + 1] = ("  ... %d more rows"):format(rows - rows_most) end
  return table.concat(lines, "\n")
end

local function value_text(value, o)
  local kind <const> = type(value)
  if kind == "userdata" then
    if value.type and is_tensor(value) then return tensor_text(value, o.full) end
    local described = o.describe and o.describe(value)
    return described or text.clean_lines(tostring(value))
  end
  local meta = kind == "table" and getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__console") then return rawget(meta, "__console")(value, o) end
  if kind == "string" and #value > 0 and value:find "\n" then return text.clean_lines(value) end
  return show.value(value, {width = o.width, unicode = o.utf8, full = o.full})
end

---A value for a pager: with far more items, levels and rows than fit on a screen.
---@param value any
---@param unicode boolean
---@return string
function render.full(value, unicode)
  return value_text(value, {width = FULL_WIDTH, utf8 = unicode, full = true})
end

---@param values table packed
---@param o {width: integer, utf8: boolean, describe: fun(value: any): string?}
---@return string
function render.text(values, o)
  local parts = {}
  for i = 1, values.n do
    local ok, shown = pcall(value_text, values[i], o)
    parts[i] = ok and shown or "<" .. type(values[i]) .. ">"
  end
  return table.concat(parts, "\n")
end

-- Plain data of any value: what JSON cannot hold becomes its summary.
local function plain(value, state, depth)
  local kind <const> = type(value)
  if kind == "number" or kind == "boolean" then return value end
  if kind == "string" then return utf8.len(value) and value or text.clean(value) end
  if kind ~= "table" then return kind == "userdata" and text.clean(tostring(value)) or "<" .. kind .. ">" end
  if state.open[value] or depth > DEPTH_MAX then return "<...>" end
  state.open[value] = true
  local out, array = {}, rawlen(value) > 0
  for k, v in next, value do
    state.items = state.items + 1
    if state.items > ITEMS_MAX then break end
    if array and math.type(k) == "integer" then
      out[k] = plain(v, state, depth + 1)
    elseif array then
      out[#out + 1] = plain(v, state, depth + 1)
    else
      out[text.clean(tostring(k))] = plain(v, state, depth + 1)
    end
  end
  state.open[value] = nil
  return out
end

---@param values table packed; a single value stands for itself, several are a list
---@return string|nil json
---@return boolean cut whether items are missing
function render.data(values)
  local state = {open = {}, items = 0}
  if values.n == 0 then return nil, false end
  local data
  if values.n == 1 then
    data = plain(values[1], state, 1)
  else
    data = {}
    for i = 1, values.n do data[i] = values[i] == nil and "nil" or plain(values[i], state, 1) end
  end
  if data == nil then return nil, false end
  local json <const> = core.json_encode {value = data}
  if #json > DATA_MAX then
    return core.json_encode {value = "a value of more than 1 MiB"}, true
  end
  return json, state.items > ITEMS_MAX
end

---An error as an evaluation ended with it: an error table that can travel.
---@param raised any
---@return table
function render.failure(raised)
  local err <const> = errors.from(raised, "T0202")
  local data = errors.to_data(err)
  data.trace = nil
  return data
end

return render
