-- Options of scripts: `local opt = tide.options {rank = {"latent dimensions", default = 64}}`.
--
-- Parses the flags after the script's name (`--rank 32`, `--rank=32`, `--no-verbose` for booleans), checks them, and
-- writes the script's --help. The commands of `tide` itself read their values by the same `options.convert`.
--
-- An entry is {doc, default=, type=, choices=, min=, above=, max=, required=, of=}; bounds are of numbers, in the unit
-- of the type, and of each item of a list. Types: string, number, integer, boolean, file,
-- directory, list (separated by commas; `of` is the type of its items), duration (seconds), size (bytes). Without
-- `type` it is the default's. A name `batch_size` is written --batch-size; --batch_size works too.

local checks = require "tide.checks"
local errors = require "tide.errors"
local text = require "tide.text"
local units = require "tide.units"

local options = {}

local FIELDS <const> = {
  [1] = "string", type = "string", choices = "table", required = "boolean", of = "string", default = true,
  min = "number", above = "number", max = "number",
}
local HELP_WIDTH <const> = 80

---- values -----------------------------------------------------------------------------------------------------------

-- 21 is EISDIR: the only portable trace of a directory that stock Lua has.
local EISDIR <const> = 21

local function kind_of_file(path)
  local file, why = io.open(path, "r")
  if not file then return nil, why end
  local _, _, number = file:read(0)
  if not number then _, _, number = file:read(1) end
  file:close()
  return number == EISDIR and "directory" or "file"
end

local function convert_path(value, want)
  if value == "" then return nil, "an empty path", "T0110" end
  local kind, why = kind_of_file(value)
  if not kind then return nil, ("cannot read `%s`: %s"):format(value, (why:gsub("^.*: ", ""))), "T0110" end
  if kind ~= want then return nil, ("`%s` is a %s, not a %s"):format(value, kind, want), "T0110" end
  return value
end

local function bounded(type_name, o) return {type = type_name, min = o.min, above = o.above, max = o.max} end

local function convert_list(value, o)
  local list, of <const> = {}, o.of or "string"
  local item_row <const> = bounded(of, o)
  item_row.choices = o.choices
  for item in (value .. ","):gmatch("%s*(.-)%s*,") do
    if item ~= "" then
      local converted, why, code = options.convert(of, item, item_row)
      if converted == nil then return nil, why, code end
      list[#list + 1] = converted
    end
  end
  return list
end

local BOOLEANS <const> = {
  ["true"] = true, yes = true, on = true, ["1"] = true, ["false"] = false, no = false, off = false, ["0"] = false,
}

local CONVERTERS <const> = {
  string = function(value) return value end,
  number = function(value)
    local number <const> = tonumber(value)
    if number and math.abs(number) < math.huge and not value:find("^%s*[+-]?0[xX]") then return number + 0.0 end
    return nil, ("`%s` is not a number"):format(value)
  end,
  integer = function(value)
    local integer <const> = value:find("^%s*[+-]?%d") and math.tointeger(tonumber(value))
    if integer then return integer end
    return nil, ("`%s` is not a whole number"):format(value)
  end,
  boolean = function(value)
    local boolean <const> = BOOLEANS[value:lower()]
    if boolean ~= nil then return boolean end
    return nil, ("`%s` is not a boolean: write true or false"):format(value)
  end,
  file = function(value) return convert_path(value, "file") end,
  directory = function(value) return convert_path(value, "directory") end,
  duration = units.parse_duration,
  size = units.parse_size,
}

---The names of all types, sorted.
options.types = text.sorted_keys(CONVERTERS)
options.types[#options.types + 1] = "list"
table.sort(options.types)

---A string of the command line as a value.
---@param type_name string
---@param value string
---@param o? {choices?:any[], of?:string, min?:number, above?:number, max?:number}
---@return any value nil on failure
---@return string? why
---@return string? code of the catalogue
function options.convert(type_name, value, o)
  o = o or {}
  if type_name == "list" then return convert_list(value, o) end
  local converted, why, code = CONVERTERS[type_name](value)
  if converted == nil then return nil, why, code or "T0104" end
  if type(converted) == "number" then
    local fits <const>, bounds <const> = checks.within(bounded(type_name, o), converted)
    if not fits then return nil, ("`%s` is not %s"):format(value, bounds), "T0104" end
  end
  if not o.choices then return converted end
  local names = {}
  for _, choice in ipairs(o.choices) do
    if choice == converted then return converted end
    names[#names + 1] = tostring(choice)
  end
  return nil, ("`%s` is not one of %s"):format(value, table.concat(names, ", ")), "T0105"
end

---- declaration ------------------------------------------------------------------------------------------------------

local function type_of_default(default)
  local kind <const> = type(default)
  if kind == "number" then return math.type(default) == "integer" and "integer" or "number" end
  if kind == "table" then return "list" end
  return kind == "boolean" and "boolean" or "string"
end

local function faulty(name, why)
  errors.raise("T0108", ("option `%s`: %s"):format(tostring(name), why))
end

local function check_fields(name, entry)
  if type(name) ~= "string" or not name:find("^[a-z][a-z0-9_]*$") then
    faulty(name, "a name is a word of a-z, 0-9 and _, beginning with a letter")
  end
  if name == "help" then faulty(name, "this name is taken") end
  if type(entry) ~= "table" then faulty(name, "requires a table {doc, default=, type=, choices=, required=}") end
  for field, value in pairs(entry) do
    local want <const> = FIELDS[field]
    if not want then
      local near <const> = text.did_you_mean(field, {"type", "choices", "required", "of", "default"})
      faulty(name, ("unknown field `%s`%s"):format(tostring(field), near and "; " .. near or ""))
    end
    if want ~= true and type(value) ~= want then
      faulty(name, ("field `%s` is a %s, not a %s"):format(tostring(field), type(value), want))
    end
  end
end

-- A declared default may be written as on the command line ("30s", "4MiB"); paths of defaults are not checked.
local function convert_default(declared)
  local default <const> = declared.default
  if type(default) == "number" then
    local fits <const>, bounds <const> = checks.within(declared, default)
    if not fits then faulty(declared.name, ("its default %s is not %s"):format(default, bounds)) end
  end
  if type(default) ~= "string" or declared.type == "file" or declared.type == "directory" then return default end
  local row <const> = bounded(declared.type, declared)
  row.of = declared.of
  local value, why = options.convert(declared.type, default, row)
  if value == nil then faulty(declared.name, "its default: " .. why) end
  return value
end

local function declare(name, entry)
  check_fields(name, entry)
  local declared = {
    name = name, flag = "--" .. name:gsub("_", "-"), doc = entry[1] or "", choices = entry.choices,
    required = entry.required, of = entry.of, type = entry.type or type_of_default(entry.default),
    default = entry.default, min = entry.min, above = entry.above, max = entry.max,
  }
  local known = table.concat(options.types, ", ")
  if declared.type ~= "list" and not CONVERTERS[declared.type] then
    faulty(name, ("unknown type `%s`; the types are %s"):format(declared.type, known))
  end
  if declared.of and not CONVERTERS[declared.of] then
    faulty(name, ("unknown type of items `%s`; the types are %s"):format(declared.of, known))
  end
  if declared.required and declared.default ~= nil then faulty(name, "is required and has a default") end
  declared.value = convert_default(declared)
  return declared
end

-- Required options first, then by name: a table of Lua has no order of its own.
local function declare_all(spec)
  if type(spec) ~= "table" then errors.raise("T0108", "tide.options requires a table of options") end
  local list, by_flag = {}, {}
  for name, entry in pairs(spec) do list[#list + 1] = declare(name, entry) end
  table.sort(list, function(a, b)
    if (a.required or false) ~= (b.required or false) then return a.required or false end
    return a.name < b.name
  end)
  for _, declared in ipairs(list) do
    by_flag[declared.flag] = declared
    by_flag["--" .. declared.name] = declared
  end
  return list, by_flag
end

---- help -------------------------------------------------------------------------------------------------------------

local PLACEHOLDERS <const> = {
  string = "TEXT", number = "NUMBER", integer = "N", file = "FILE", directory = "DIR", list = "A,B,..",
  duration = "TIME", size = "SIZE",
}

---The word that stands for a value in help texts: "N", "FILE".
---@param type_name string
---@return string
function options.placeholder(type_name) return PLACEHOLDERS[type_name] or "VALUE" end

local function default_text(declared)
  local default <const> = declared.default
  if default == nil then return nil end
  if type(default) == "table" then
    local items = {}
    for i, item in ipairs(default) do items[i] = tostring(item) end
    return table.concat(items, ",")
  end
  return tostring(default)
end

local function left_of(declared)
  if declared.type ~= "boolean" then return declared.flag .. " " .. PLACEHOLDERS[declared.type] end
  return declared.default == true and "--no-" .. declared.flag:sub(3) or declared.flag
end

local function right_of(declared)
  local notes = {}
  if declared.required then notes[#notes + 1] = "required" end
  if declared.choices then
    local names = {}
    for i, choice in ipairs(declared.choices) do names[i] = tostring(choice) end
    notes[#notes + 1] = "one of " .. table.concat(names, ", ")
  end
  if declared.min or declared.above or declared.max then
    notes[#notes + 1] = select(2, checks.within(declared, 0))
  end
  local default <const> = default_text(declared)
  if default and default ~= "" and declared.type ~= "boolean" then notes[#notes + 1] = "default " .. default end
  if declared.type == "boolean" and declared.default == true then notes[#notes + 1] = "on by default" end
  return declared.doc .. (#notes > 0 and " (" .. table.concat(notes, "; ") .. ")" or "")
end

---Lines of two columns, at most 80 wide: {left, right} pairs.
---@param pairs_list string[][]
---@return string[]
function options.two_columns(pairs_list)
  local left_width = 8
  for _, pair in ipairs(pairs_list) do
    if #pair[1] <= 26 then left_width = math.max(left_width, #pair[1]) end
  end
  local lines = {}
  for _, pair in ipairs(pairs_list) do
    local wrapped <const> = text.wrap(pair[2], HELP_WIDTH - left_width - 4)
    local first = 1
    if #pair[1] <= left_width then
      lines[#lines + 1] = "  " .. text.pad(pair[1], left_width) .. "  " .. wrapped[1]
      first = 2
    else
      lines[#lines + 1] = "  " .. pair[1]
    end
    for i = first, #wrapped do
      lines[#lines + 1] = (" "):rep(left_width + 4) .. wrapped[i]
    end
  end
  return lines
end

---Lines of examples: commands and what they do, beside each other where that fits.
---@param list string[][] {command, doc?}
---@return string[]
function options.examples(list)
  local width = 0
  for _, example in ipairs(list) do width = math.max(width, #example[1]) end
  local lines = {}
  for _, example in ipairs(list) do
    local command <const>, doc <const> = table.unpack(example)
    if doc and width + #doc + 6 <= HELP_WIDTH then
      lines[#lines + 1] = "  " .. text.pad(command, width) .. "  " .. doc
    else
      lines[#lines + 1] = "  " .. command
      for _, line in ipairs(doc and text.wrap(doc, HELP_WIDTH - 6) or {}) do lines[#lines + 1] = "      " .. line end
    end
  end
  return lines
end

-- The first comment of a script describes it.
local function description(source)
  local lines = {}
  for line in ((source or "") .. "\n"):gmatch("(.-)\n") do
    local comment <const> = line:match("^%-%-+%s?(.*)$")
    if comment then
      lines[#lines + 1] = comment
    elseif not line:find("^#!") then
      break
    end
  end
  return lines
end

-- Paragraphs of a description wrapped; what is indented are examples.
local function laid_out(lines)
  local out, prose, examples = {}, {}, {}
  local function flush()
    local block <const> = #prose > 0 and text.wrap(table.concat(prose, " "), HELP_WIDTH) or options.examples(examples)
    table.move(block, 1, #block, #out + 1, out)
    prose, examples = {}, {}
  end
  for _, line in ipairs(lines) do
    local example <const> = text.clean(line):match "^%s+(%S.*)$"
    if #(example and prose or examples) > 0 or not line:find "%S" then flush() end
    if example then
      local command, doc = example:match "^(.-)%s%s+(.*)$"
      examples[#examples + 1] = {command or example, doc}
    elseif line:find "%S" then
      prose[#prose + 1] = text.clean(line)
    else
      out[#out + 1] = ""
    end
  end
  flush()
  return out
end

local function help_page(list, context)
  local script <const> = context.script or "SCRIPT"
  local out = laid_out(description(context.source))
  if #out > 0 then out[#out + 1] = "" end
  local example = "tide run " .. script
  for _, declared in ipairs(list) do
    if declared.required then example = example .. " " .. left_of(declared) end
  end
  out[#out + 1] = "Usage: tide run " .. script .. " [options]"
  out[#out + 1] = "Example: " .. example
  out[#out + 1] = ""
  out[#out + 1] = "Options of the script:"
  local rows = {}
  for _, declared in ipairs(list) do rows[#rows + 1] = {left_of(declared), right_of(declared)} end
  rows[#rows + 1] = {"-h, --help", "this text"}
  for _, line in ipairs(options.two_columns(rows)) do out[#out + 1] = line end
  return table.concat(out, "\n")
end

---- parsing ----------------------------------------------------------------------------------------------------------

local function unknown_flag(flag, list)
  local names = {"--help"}
  for _, declared in ipairs(list) do
    names[#names + 1] = declared.flag
    if declared.type == "boolean" then names[#names + 1] = "--no-" .. declared.flag:sub(3) end
  end
  return errors.new("T0102", {
    message = ("the script has no option `%s`"):format(flag), help = text.did_you_mean(flag, names),
  })
end

local function negated(flag, by_flag)
  local positive <const> = flag:match("^%-%-no[-_](.+)$")
  local declared <const> = positive and by_flag["--" .. positive]
  return declared and declared.type == "boolean" and declared or nil
end

local function store(values, seen, declared, given)
  local value, why, code = options.convert(declared.type, given, declared)
  if value == nil then return nil, errors.new(code, {message = declared.flag .. ": " .. why}) end
  if declared.type == "list" and seen[declared.name] then
    table.move(value, 1, #value, #values[declared.name] + 1, values[declared.name])
  else
    values[declared.name] = value
  end
  seen[declared.name] = true
  return true
end

-- One flag at args[at]; returns the index behind it, or nil and an error.
local function parse_flag(args, at, list, by_flag, values, seen)
  local flag, inline = args[at]:match("^(%-%-[^=]+)=(.*)$")
  flag = flag or args[at]
  local declared <const> = by_flag[flag]
  if not declared then
    local off <const> = negated(flag, by_flag)
    if not off then return nil, unknown_flag(flag, list) end
    if inline then return nil, errors.new("T0106", {message = ("`%s` takes no value"):format(flag)}) end
    values[off.name], seen[off.name] = false, true
    return at + 1
  end
  if declared.type == "boolean" and not inline then
    values[declared.name], seen[declared.name] = true, true
    return at + 1
  end
  local given = inline
  if not given then
    at = at + 1
    given = args[at]
    if given == nil then return nil, errors.new("T0103", {message = ("`%s` requires a value"):format(flag)}) end
  end
  local ok, err = store(values, seen, declared, given)
  if not ok then return nil, err end
  return at + 1
end

---@param args string[] words behind a script
---@return boolean
function options.asks_for_help(args)
  for _, argument in ipairs(args) do
    if argument == "--" then return false end
    if argument == "--help" or argument == "-h" then return true end
  end
  return false
end

---@class tide.options.context
---@field script? string path shown in the help
---@field source? string text of the script: its first comment heads the help

---Parses a script's arguments.
---@param spec table<string, table> see the head of this file
---@param args string[]
---@param context? tide.options.context
---@return table? values by name, defaults filled in
---@return tide.error? err
---@return string? help the page, when --help was asked for (then values and err are nil)
function options.parse(spec, args, context)
  local list, by_flag = declare_all(spec)
  if options.asks_for_help(args) then return nil, nil, help_page(list, context or {}) end
  local values, seen = {}, {}
  for _, declared in ipairs(list) do values[declared.name] = declared.value end
  local at = 1
  while at <= #args do
    local argument <const> = args[at]
    if argument == "--" and at == #args then break end
    if argument:sub(1, 1) ~= "-" or argument == "-" or argument == "--" then
      return nil, errors.new("T0106", {message = ("the script takes no argument `%s`, only options"):format(argument)})
    end
    local following, err = parse_flag(args, at, list, by_flag, values, seen)
    if not following then return nil, err end
    at = following
  end
  for _, declared in ipairs(list) do
    if declared.required and not seen[declared.name] then
      return nil, errors.new("T0103", {message = ("option `%s` is required"):format(left_of(declared))})
    end
  end
  return values
end

---tide.options: parses, and raises. --help raises an error with exit code 0 whose `page` is the text to print.
---@param spec table<string, table>
---@param args string[]
---@param context? tide.options.context
---@return table values
function options.declare(spec, args, context)
  local values, err, page = options.parse(spec, args, context)
  if page then errors.raise("T0100", {message = page, page = page, exit = 0}) end
  if not values then error(err, 0) end
  return values
end

return options
