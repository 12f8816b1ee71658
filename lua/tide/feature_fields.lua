-- tide.fields: features of several fields, each with rows of a width of its own. Fields of one width share a hashed
-- table, in which a key is a 63-bit hash of field and feature. docs/guides/large-tables.md.
local checks = require "tide.checks"
local core = require "tide.core"
local script = require "tide.script"
local table_spec = require "tide.run.table_spec"
local text = require "tide.text"

---@class tide.fields
---@field widths table<string, integer> width of each field
local fields = {}
fields.__index = fields

local PREFIX <const> = "fields"

-- FNV-1a over the bytes.
local function hash_text(s)
  local h = 0xcbf29ce484222325 -- wraps, as all 64-bit arithmetic here
  for i = 1, #s do h = (h ~ s:byte(i)) * 0x100000001b3 end
  return h
end

-- The finaliser of splitmix64.
local function mix(x)
  x = (x ~ x >> 30) * 0xbf58476d1ce4e5b9
  x = (x ~ x >> 27) * 0x94d049bb133111eb
  return x ~ x >> 31
end

---Names fields and their widths.
---@param widths table<string, integer>
---@return tide.fields
function fields.new(widths)
  if type(widths) ~= "table" or next(widths) == nil then
    error(script.error("T0204", "tide.fields requires fields with their widths: {user = 64, ad = 16}"), 2)
  end
  local self <const> = setmetatable({widths = {}, seeds = {}, names = text.sorted_keys(widths)}, fields)
  for _, name in ipairs(self.names) do
    local width <const> = type(widths[name]) == "number" and math.tointeger(widths[name])
    if type(name) ~= "string" or not width or width < 1 then
      error(script.error("T0204", ("field `%s` has width %s, not a positive integer"):format(name,
        tostring(widths[name]))), 2)
    end
    self.widths[name], self.seeds[name] = width, hash_text(name)
  end
  return self
end

---The tables of a job, one a width: fields16, fields64. The other fields are those of tide.table; `keys` is
---tide.hashed {..}, without it tide.hashed().
---@param o? table
---@return table<string, table>
function fields:tables(o)
  if o and o.width ~= nil then
    error(script.error("T0204", "the tables of tide.fields have the widths of their fields, and no `width`"), 2)
  end
  local tables <const> = {}
  for _, name in ipairs(self.names) do
    local spec <const> = {keys = table_spec.hashed(), width = self.widths[name]}
    for key, value in pairs(o or {}) do spec[key] = value end
    if spec.keys[1] ~= "hashed" then error(script.error("T0204", "the tables of tide.fields have hashed keys"), 2) end
    spec.width = self.widths[name]
    tables[PREFIX .. spec.width] = tables[PREFIX .. spec.width] or table_spec.new(spec)
  end
  return tables
end

---The keys of features of a field.
---@param name string
---@param features (integer|string)[]|tide.tensor
---@return tide.tensor u64
function fields:keys(name, features)
  local seed <const> = self.seeds[name]
  if not seed then
    error(checks.unknown("T0204", "there is no field `%s`", name, self.names), 2)
  end
  local kind <const> = type(features)
  if kind ~= "table" and kind ~= "userdata" then
    error(script.error("T0204", ("features of field `%s` are a %s, not an array or a tensor"):format(name, kind)), 2)
  end
  local keys <const> = core.tensor("u64", #features, 1)
  for i = 1, #features do
    local feature <const> = features[i]
    local number <const> = type(feature) == "number" and math.tointeger(feature)
    if not number and type(feature) ~= "string" then
      error(script.error("T0204", ("feature %d of field `%s` is %s, not an integer or a string"):format(i, name,
        tostring(feature))), 2)
    end
    -- 63 bits: numbers of a u64 tensor are Lua's integers of 0 and more
    keys[i] = mix(seed ~ mix(number or hash_text(feature))) & math.maxinteger
  end
  return keys
end

-- Calls each(table name, its fields in order) for what is asked.
local function by_table(self, features, each)
  local lists <const> = {}
  for _, name in ipairs(text.sorted_keys(features)) do
    local key <const> = PREFIX .. (self.widths[name] or "")
    lists[key] = lists[key] or {}
    table.insert(lists[key], {name = name, keys = self:keys(name, features[name])})
  end
  for _, key in ipairs(text.sorted_keys(lists)) do each(key, lists[key]) end
end

---Rows of features; the pulls of all fields of a width are outstanding together.
---@param tables table<string, tide.table_handle> w.tables
---@param features table<string, (integer|string)[]|tide.tensor>
---@return table<string, tide.tensor> rows by field
function fields:pull(tables, features)
  local rows <const> = {}
  by_table(self, features, function(key, list)
    for _, field in ipairs(list) do
      field.ticket = tables[key]:pull(field.keys, {async = true})
    end
    for _, field in ipairs(list) do rows[field.name] = assert(field.ticket:wait()) end
  end)
  return rows
end

---Applies rows to features, by the update rule.
---@param tables table<string, tide.table_handle>
---@param features table<string, (integer|string)[]|tide.tensor>
---@param rows table<string, tide.tensor>
function fields:push(tables, features, rows)
  for name in pairs(features) do
    if not rows[name] then
      error(script.error("T0204", ("there are features of field `%s`, and no rows"):format(tostring(name))), 2)
    end
  end
  by_table(self, features, function(key, list)
    for _, field in ipairs(list) do tables[key]:push(field.keys, rows[field.name]) end
  end)
end

return fields
