-- CSV as every part of Tide writes it: a cell reads back (tide.data.csv) as the value that it was written from.
local csv = {}

---A value as a cell. Nothing is an empty cell; a number that is not finite is nan, inf or -inf.
---@param value any
---@return string
function csv.cell(value)
  if value == nil then return "" end
  if math.type(value) == "integer" then return tostring(value) end
  if type(value) == "number" then
    if value ~= value then return "nan" end
    if value == math.huge or value == -math.huge then return value > 0 and "inf" or "-inf" end
    local short <const> = ("%.15g"):format(value)
    return tonumber(short) == value and short or ("%.17g"):format(value)
  end
  local s <const> = tostring(value)
  return (s:find '[,;\t|"\r\n]' or s:find "^%s" or s:find "%s$") and '"' .. s:gsub('"', '""') .. '"' or s
end

---A line of values, with its end. A line of one empty cell is not an empty line.
---@param count integer
---@param value_at fun(i: integer): any
---@return string
function csv.line(count, value_at)
  local cells <const> = {}
  for i = 1, count do cells[i] = csv.cell(value_at(i)) end
  return (count == 1 and cells[1] == "" and '""' or table.concat(cells, ",")) .. "\n"
end

---A line of names, and a line for each record.
---@param fields string[]
---@param records table[]
---@return string
function csv.records(fields, records)
  local lines <const> = {csv.line(#fields, function(i) return fields[i] end)}
  for _, record in ipairs(records) do
    lines[#lines + 1] = csv.line(#fields, function(i) return record[fields[i]] end)
  end
  return table.concat(lines)
end

return csv
