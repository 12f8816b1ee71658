-- What the fields of a message look like: a row names each field with its type. A row is compiled once, and a message
-- is compared with it before it is used, because every message comes from another process.
--
-- A type is a word of CHECKS, with `?` where the field may be missing; or a row of its own, with `optional = true`
-- where it may. A field that the row does not name is a fault, as is one of another type.
local text = require "tide.text"

local fields = {}

local function is_list_of(value, fits)
  if type(value) ~= "table" then return false end
  local count = 0
  for _, v in next, value do
    count = count + 1
    if not fits(v) then return false end
  end
  return count == #value
end

local function is_map_of(value, fits)
  if type(value) ~= "table" then return false end
  for k, v in next, value do
    if type(k) ~= "string" or not fits(v) then return false end
  end
  return true
end

local function is_string(v) return type(v) == "string" end
local function is_integer(v) return type(v) == "number" and math.tointeger(v) ~= nil end
local function is_count(v) return is_integer(v) and v >= 0 end
local function is_number(v) return type(v) == "number" and v == v end
local function is_table(v) return type(v) == "table" end

local CHECKS <const> = {
  string = {is_string, "a string"},
  integer = {is_integer, "a whole number"},
  count = {is_count, "a whole number from 0 on"},
  number = {is_number, "a number"},
  seconds = {function(v) return is_number(v) and v >= 0 and v < math.huge end, "a number of seconds from 0 on"},
  boolean = {function(v) return type(v) == "boolean" end, "true or false"},
  table = {is_table, "a table"},
  any = {function() return true end, "a value"},
  id = {function(v) return is_string(v) or is_integer(v) end, "a name or a number"},
  keys = {function(v) return type(v) == "userdata" or is_list_of(v, is_integer) end, "a list of keys"},
  strings = {function(v) return is_list_of(v, is_string) end, "a list of strings"},
  integers = {function(v) return is_list_of(v, is_integer) end, "a list of whole numbers"},
  tables = {function(v) return is_list_of(v, is_table) end, "a list of tables"},
  names = {function(v) return is_map_of(v, is_string) end, "a table of strings by name"},
  counts = {function(v) return is_map_of(v, is_count) end, "a table of whole numbers by name"},
  sums = {function(v) return type(v) == "number" or is_map_of(v, function(n) return type(n) == "number" end) end,
    "a number, or a table of numbers by name"},
}

---@class tide.field_list
---@field [integer] {name: string, optional?: boolean, fits?: fun(v: any): boolean, what?: string,
---  row?: tide.field_list}
---@field known table<string, boolean> names of the fields

---@param row table<string, string|table> fields with their types
---@return tide.field_list in the order in which faults are found
function fields.compile(row)
  local list = {known = {}}
  for _, name in ipairs(text.sorted_keys(row)) do
    local kind <const> = row[name]
    if type(kind) == "table" then
      list[#list + 1] = {name = name, optional = kind.optional, row = fields.compile(kind)}
    elseif name ~= "optional" then
      local check <const> = CHECKS[kind:match "^%a+"] or error(("no type `%s`"):format(kind))
      list[#list + 1] = {name = name, optional = kind:sub(-1) == "?" or kind == "any", fits = check[1], what = check[2]}
    end
    if name ~= "optional" then list.known[name] = true end
  end
  return list
end

---@param row table fields
---@return table the same fields, as a field that may be missing
function fields.optional(row)
  local copy = {optional = true}
  for k, v in pairs(row) do copy[k] = v end
  return copy
end

local NONE <const> = {}

local function unknown(list, name, path)
  local known <const> = {}
  for i, field in ipairs(list) do known[i] = field.name end
  return ("%s no field `%s`"):format(path and ("`%s` has"):format(path) or "it has", text.clean(name)),
    text.did_you_mean(name, known)
end

local function wrong(field, v, path)
  return ("`%s` is %s, not %s"):format(path and path .. "." .. field.name or field.name,
    type(v) == "table" and "another table" or (type(v) == "number" or type(v) == "boolean") and tostring(v)
    or "a " .. type(v), field.what)
end

---Compares a value with its row. Every message passes here: what is only needed for a fault is made when there is one.
---@param list tide.field_list
---@param value any
---@param envelope table<string, boolean> names that every message has
---@param path? string of the value in the message
---@return string|nil fault the first that is found
---@return string? help
function fields.fault(list, value, envelope, path)
  if type(value) ~= "table" then return ("`%s` is a %s, not a table"):format(path or "", type(value)) end
  local known <const> = list.known
  for name in next, value do
    if not known[name] and not envelope[name] then return unknown(list, name, path) end
  end
  for i = 1, #list do
    local field <const> = list[i]
    local v <const> = value[field.name]
    if v == nil then
      if not field.optional then return ("`%s` is missing"):format(path and path .. "." .. field.name or field.name) end
    elseif field.row then
      local fault, help = fields.fault(field.row, v, NONE, path and path .. "." .. field.name or field.name)
      if fault then return fault, help end
    elseif not field.fits(v) then
      return wrong(field, v, path)
    end
  end
  return nil
end

return fields
