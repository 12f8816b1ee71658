-- What is checked of values that come from outside: arguments and options of the script API, of calls at the console,
-- and of configuration files. An option is declared once, as a row; its type, bounds, unit, default, annotation and the
-- error of a wrong value follow from the row, as those of the command line do (tide.cli.arguments), which has the same
-- rows. An unknown name is answered with the nearest known one.
--
-- Errors find the script's line by themselves (tide.script).
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local checks = {}

---@class tide.declared an option or an argument
---@field name string
---@field type string a word of TYPES, or several with `|` between them
---@field doc string what it is: a noun phrase
---@field min? number
---@field above? number where the bound itself is too little
---@field max? number
---@field choices? any[] the only values
---@field default? any stands in where nothing is given
---@field required? boolean
---@field optional? boolean of an argument: it may be left away

local function of_type(name) return function(value) if type(value) == name then return true, value end end end

-- Type -> {whether a value has it and the value in its unit, its words, its type in annotations}.
local TYPES <const> = {
  integer = {function(v)
    local whole <const> = type(v) == "number" and math.tointeger(v) -- 1e6 too
    if whole then return true, whole end
  end, "a whole number", "integer"},
  number = {function(v) if type(v) == "number" and v == v then return true, v end end, "a number", "number"},
  string = {of_type "string", "a string", "string"},
  boolean = {of_type "boolean", "true or false", "boolean"},
  table = {of_type "table", "a table", "table"},
  ["function"] = {of_type "function", "a function", "function"},
  duration = {function(v)
    local seconds <const>, why <const> = units.parse_duration(v)
    return seconds ~= nil, seconds, why
  end, "a time such as \"30s\"", "string|number", units.format_duration},
  size = {function(v)
    local bytes <const>, why <const> = units.parse_size(v)
    return bytes ~= nil, bytes, why
  end, "a size such as \"64MiB\"", "string|integer", units.format_size},
  any = {function(v) return true, v end, "a value", "any"},
}

local function shown(value)
  if type(value) == "string" then return ("the string %q"):format(text.clean(value)) end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  return value == nil and "nothing" or "a " .. type(value)
end

local function bounds(row, form)
  local function number(n) return form and form(n) or ("%.14g"):format(n) end
  if row.min and row.max then return (" from %s to %s"):format(number(row.min), number(row.max)) end
  if row.above then return (" above %s"):format(number(row.above)) end
  return row.min and (" from %s on"):format(number(row.min)) or row.max and (" up to %s"):format(number(row.max)) or ""
end

---@param row tide.declared
---@param value number in the unit of the row
---@return boolean whether it is within the bounds
---@return string bounds "from 1 to 256"
function checks.within(row, value)
  local fits <const> = value == value and not (row.min and value < row.min or row.above and value <= row.above
    or row.max and value > row.max)
  return fits, bounds(row, (TYPES[row.type] or {})[4]):sub(2)
end

-- What a value of the row is: "a whole number from 1 to 256".
local function wanted(row)
  if row.choices then
    local words = {}
    for i, choice in ipairs(row.choices) do words[i] = tostring(choice) end
    return #words > 1 and table.concat(words, ", ", 1, #words - 1) .. " or " .. words[#words] or words[1]
  end
  local words = {}
  for name in row.type:gmatch "%a+" do words[#words + 1] = TYPES[name][2] .. bounds(row, TYPES[name][4]) end
  return table.concat(words, " or ")
end

local function is_choice(row, value)
  for _, choice in ipairs(row.choices or {value}) do
    if choice == value then return true end
  end
  return false
end

---A value in the unit of its row: seconds, bytes.
---@param row tide.declared
---@param value any
---@return boolean fits
---@return any value or why not: "is 0, not a whole number from 1 on"
function checks.value(row, value)
  local why
  for name in row.type:gmatch "%a+" do
    local fits, read, fault = TYPES[name][1](value)
    if fits and type(read) == "number" then fits = checks.within(row, read) end
    if fits and is_choice(row, read) then return true, read end
    why = why or type(value) == "string" and fault and fault:match "^`.-` is not (.*)$"
  end
  return false, ("is %s, not %s"):format(shown(value), why or wanted(row))
end

---The error of a name that is not known, with the nearest known one.
---@param code string of the catalogue
---@param message string with %s for the name
---@param name any
---@param known string[]|table<string, any> the names, or a table by them
---@param help? string where none is near; default: the known names
---@return tide.error
function checks.unknown(code, message, name, known, help)
  local names <const> = rawget(known, 1) ~= nil and known or text.sorted_keys(known)
  local shown_name <const> = text.clean(name)
  return errors.new(code, {message = message:gsub("%%s", function() return shown_name end),
    help = text.did_you_mean(name, names) or help or #names > 0 and "there are " .. text.names(names) or nil})
end

---Raises unless `given` is a table of known fields.
---@param code string of the catalogue
---@param who string what was called with it: "tide.cluster"
---@param given any
---@param known table<string, any> by name
function checks.known(code, who, given, known)
  if type(given) ~= "table" then error(errors.new(code, {message = who .. " requires a table of fields"}), 3) end
  for key in pairs(given) do
    if known[key] == nil then error(checks.unknown(code, who .. " has no field `%s`", key, known), 3) end
  end
end

local by_name <const> = setmetatable({}, {__mode = "k"})

local function named(rows)
  local found = by_name[rows]
  if not found then
    found = {}
    for _, row in ipairs(rows) do found[row.name] = row end
    by_name[rows] = found
  end
  return found
end

---What is wrong with a table of options.
---@param who string what was called with it
---@param rows tide.declared[]
---@param given any nil: no options
---@param code? string of every error; default: T0115, T0113, T0105, T0103
---@return table|nil values in their units, with defaults
---@return tide.error? err
function checks.read(who, rows, given, code)
  if given == nil then given = {} end
  if type(given) ~= "table" then
    return nil, errors.new(code or "T0113", {message = who .. " requires a table of fields"})
  end
  local known <const>, values <const> = named(rows), {}
  for _, name in ipairs(text.sorted_keys(given)) do
    if not known[name] then return nil, checks.unknown(code or "T0115", who .. " has no field `%s`", name, known) end
  end
  for _, row in ipairs(rows) do
    local value = given[row.name]
    if value ~= nil then
      local fits <const>, read <const> = checks.value(row, value)
      if not fits then
        return nil, errors.new(code or row.choices and "T0105" or "T0113", {
          message = ("%s: `%s` %s"):format(who, row.name, read),
          help = row.choices and type(value) == "string" and text.did_you_mean(value, row.choices) or nil})
      end
      value = read
    elseif row.required then
      return nil, errors.new(code or "T0103", {message = ("%s requires `%s`: %s"):format(who, row.name, row.doc)})
    else
      value = row.default
    end
    values[row.name] = value
  end
  return values
end

---The options of a call; raises what is wrong with them.
---@param who string
---@param rows tide.declared[]
---@param given any
---@param code? string
---@return table values
function checks.options(who, rows, given, code)
  local values <const>, err = checks.read(who, rows, given, code)
  if not values then error(err, 3) end
  return values
end

local TIME_MAX <const> = 253402300799 -- 9999-12-31 23:59:59, the last that dates print

-- What a field of a record may be beside Lua's types.
local FIELDS <const> = {
  time = function(v) return type(v) == "number" and v >= 0 and v <= TIME_MAX end,
  strings = function(v)
    for _, each in ipairs(type(v) == "table" and v or {v}) do
      if type(each) ~= "string" then return false end
    end
    return type(v) == "table"
  end,
}

---A field of a record from a file, whose value has another type than the record's schema gives it. Anybody writes
---files: a damaged one must not end the command that lists a thousand others.
---@param record table
---@param types table<string, string|table> by field: a type of Lua, "time" (seconds since 1970), "strings", or the
---  types of a table's fields; a field may be absent
---@return string|nil name nil: there is none
function checks.odd_field(record, types)
  for name, kind in pairs(types) do
    local v <const> = record[name]
    local fits = v == nil or type(v) == kind
    if not fits and type(kind) == "table" then
      fits = type(v) == "table" and not checks.odd_field(v, kind)
    elseif not fits and FIELDS[kind] then
      fits = FIELDS[kind](v)
    end
    if not fits then return name end
  end
end

---The type of a row in an annotation.
---@param row tide.declared
---@return string
function checks.type_of(row)
  if row.choices then
    local words = {}
    for i, choice in ipairs(row.choices) do words[i] = ("%q"):format(choice) end
    return table.concat(words, "|")
  end
  return (row.type:gsub("%a+", function(name) return TYPES[name][3] end))
end

---The annotation of a class of options: `---@class` and `---@field` lines.
---@param class string
---@param rows tide.declared[]
---@return string
function checks.annotation(class, rows)
  local lines = {"---@class " .. class}
  for _, row in ipairs(rows) do
    lines[#lines + 1] = ("---@field %s%s %s %s"):format(row.name, row.required and "" or "?", row.said
      or checks.type_of(row), row.doc)
  end
  return table.concat(lines, "\n") .. "\n"
end

---- single arguments -------------------------------------------------------------------------------------------------

---@param message string
---@param help? string what to do
function checks.fail(message, help) error(errors.new("T0113", {message = message, help = help}), 0) end

---An argument that is declared where it is used.
---@param who string what was called
---@param what string which argument: "the rank of a worker"
---@param value any
---@param row table {type=, min=, max=}
---@return any value in its unit
function checks.argument(who, what, value, row)
  local fits <const>, read <const> = checks.value(row, value)
  if not fits then checks.fail(("%s: %s %s"):format(who, what, read)) end
  return read
end

---@param who string
---@param what string
---@param value any
---@param least? integer
---@param most? integer
---@return integer
function checks.whole(who, what, value, least, most)
  return checks.argument(who, what, value, {type = "integer", min = least, max = most})
end

---@param who string
---@param what string
---@param value any
---@param least number
---@param most number
---@return number
function checks.number(who, what, value, least, most)
  return checks.argument(who, what, value, {type = "number", min = least, max = most})
end

---@param who string
---@param what string
---@param value any
---@return string
function checks.text(who, what, value)
  if value == "" then value = nil end
  return checks.argument(who, what, value, {type = "string"})
end

return checks
