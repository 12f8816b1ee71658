-- A curve over time as text: points of braille where there are such characters, else stars.
local show = require "tide.show"
local text = require "tide.text"
local units = require "tide.units"

local curve = {}

local ROWS <const>, ROWS_MAX <const> = 6, 40
local WIDTH_MIN <const> = 20
local DOTS <const> = { -- bits of a braille cell: four rows of two
  {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

-- Which points of a grid the curve goes through: lines between neighbouring samples.
local function points_of(self, across, down)
  local low, high = math.huge, -math.huge
  for _, v in ipairs(self.value) do low, high = math.min(low, v), math.max(high, v) end
  local first <const>, last <const> = self.at[1], self.at[#self.at]
  local function place(i)
    local x <const> = first > last and (first - self.at[i]) / (first - last) or 0
    local y <const> = high > low and (high - self.value[i]) / (high - low) or 0.5
    return math.floor(x * (across - 1) + 0.5), math.floor(y * (down - 1) + 0.5)
  end
  local grid, x0, y0 = {}, nil, nil
  for i = 1, #self.at do
    local x1, y1 = place(i)
    local steps <const> = x0 and math.max(math.abs(x1 - x0), math.abs(y1 - y0), 1) or 1
    for s = x0 and 0 or 1, steps do
      local x = math.floor((x0 or x1) + (x1 - (x0 or x1)) * s / steps + 0.5)
      local y = math.floor((y0 or y1) + (y1 - (y0 or y1)) * s / steps + 0.5)
      grid[y * across + x] = true
    end
    x0, y0 = x1, y1
  end
  return grid, low, high
end

local function cell(grid, across, row, column, unicode)
  if not unicode then return grid[row * across + column] and "*" or " " end
  local bits = 0
  for dy = 0, 3 do
    for dx = 0, 1 do
      if grid[(4 * row + dy) * across + 2 * column + dx] then bits = bits | DOTS[dy + 1][dx + 1] end
    end
  end
  return bits == 0 and " " or utf8.char(0x2800 + bits)
end

local function drawn(self, o)
  local count <const> = #self.value
  local head <const> = ("%s %s"):format(text.clean(self.name), show.number(self.value[count]))
  if count == 1 then return head end
  local unicode <const> = o.utf8
  local width <const> = math.max(WIDTH_MIN, math.min((o.width or 100) - 14, 100))
  local across <const>, down <const> = unicode and 2 * width or width, unicode and 4 * self.rows or self.rows
  local grid, low, high = points_of(self, across, down)
  local lines = {("%s, from %s ago to %s ago"):format(head, units.format_duration(self.at[1]),
    units.format_duration(self.at[count]))}
  for row = 0, self.rows - 1 do
    local label <const> = row == 0 and show.number(high) or row == self.rows - 1 and show.number(low) or ""
    local cells = {}
    for column = 0, width - 1 do cells[column + 1] = cell(grid, across, row, column, unicode) end
    lines[#lines + 1] = (text.pad(label, 12, true) .. " " .. table.concat(cells)):gsub(" +$", "")
  end
  return table.concat(lines, "\n")
end

---@param name string
---@param at number[] seconds before now, the oldest first
---@param value number[]; what is no number or not finite is left out
---@param rows? integer of the curve
---@return table curve {name, at, value, rows}
function curve.of(name, at, value, rows)
  local self = {name = name, at = {}, value = {}, rows = math.max(2, math.min(math.tointeger(rows) or ROWS, ROWS_MAX))}
  for i, v in ipairs(value) do
    if v == v and math.abs(v) < math.huge then
      self.at[#self.at + 1], self.value[#self.value + 1] = at[i], v
    end
  end
  return #self.value > 0 and setmetatable(self, {__console = drawn}) or self
end

return curve
