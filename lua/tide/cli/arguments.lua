-- From the words of the command line to a command and its checked values.
--
-- A command is one row (tide.command): `tide help`, manual pages, completion and what --json prints follow from it, and
-- argparse parses by it; values are converted by `tide.options`, so that scripts and commands read "30s" and "4MiB"
-- alike. Words before the command may be global options only; for a command whose last argument is `rest`, every word
-- behind the script belongs to the script. A command with verbs is followed by one, which has arguments of its own.

local argparse = require "argparse"
local declared = require "tide.declared"
local errors = require "tide.errors"
local options = require "tide.options"
local text = require "tide.text"

local arguments = {}

---@class tide.option
---@field name string long name without dashes
---@field short? string one letter
---@field type? string see tide.options; absent: a flag
---@field choices? string[]
---@field doc string
---@field min? number
---@field max? number
---@field value? string placeholder in help texts
---@field repeated? boolean may be given several times: its value is a list
---@field config? string setting that stands in when the option is not given
---@field of? string the verbs that take it, with commas between; absent: all of them

---@class tide.argument
---@field name string
---@field doc string
---@field optional? boolean
---@field many? boolean|integer a list of words; a number: at least so many
---@field type? string see tide.options; absent: a string
---@field choices? string[]
---@field min? number
---@field max? number
---@field label? string its word in help texts, where that is not its name
---@field rest? boolean the words behind a script

---@class tide.verb
---@field name string
---@field doc string
---@field arguments? tide.argument[]
---@field schema? string where it is not the command's
---@field run fun(context: tide.context, options: table, client?: table): integer?, tide.error?

---@class tide.command
---@field name string
---@field brief string its line in `tide help`
---@field summary string
---@field examples string[][] a command line and what it is for
---@field arguments? tide.argument[]
---@field options? tide.option[]
---@field hints? table<string, string> of an option that it has not: why, or where else
---@field verbs? tide.verb[]
---@field verb? string the verb where none is given
---@field schema? string of the objects that --json prints
---@field columns? tide.column[] the fields of these objects
---@field attached? boolean runs as a client of the cluster
---@field configured? boolean false: configuration files and environment set none of its options
---@field stays? fun(options: table): boolean whether --timeout leaves it alone
---@field run? fun(context: tide.context, options: table, client?: table): integer?, tide.error?

---Options of every command.
---@type tide.option[]
arguments.common = {
  {name = "json", doc = "JSON on stdout, a line per record; errors as JSON on stderr"},
  {name = "plain", doc = "one record a line, tabs between fields, no header"},
  {name = "quiet", short = "q", doc = "no talk on stderr but errors"},
  {name = "verbose", short = "v", doc = "more talk; errors with the calls that led there"},
  {name = "color", config = "color", type = "string", choices = {"auto", "always", "never"}, value = "WHEN",
   doc = "colours: auto, always or never"},
  {name = "timeout", config = "timeout", type = "duration", doc = "time out after this time, with exit code 124"},
  {name = "keys", config = "keys", type = "string", value = "DIR",
   doc = "your keys, for clusters on other machines (tide keys)"},
  {name = "help", short = "h", doc = "this text"},
}

---Options that several commands share; a command lists those it takes.
---@type table<string, tide.option>
arguments.shared = {
  cluster = {name = "cluster", config = "cluster", type = "string", value = "C",
    doc = "name or endpoint of the cluster (default $TIDE_CLUSTER, else the one that runs)"},
  yes = {name = "yes", short = "y", doc = "do not ask"},
  silence = declared.flags(declared.cluster, {"silence"})[1],
  limit = {name = "limit", type = "string", value = "NAME=V", repeated = true,
    doc = "set a limit, window or timeout of this process and those it starts (`tide version -v` lists them)"},
  dry_run = {name = "dry-run", short = "n", doc = "say what would happen and do nothing"},
}

local VERSION <const> = {name = "version", short = "V", doc = "same as `tide version`"}

---The options that may stand before the command.
---@return tide.option[]
function arguments.global()
  local list = {}
  for _, option in ipairs(arguments.common) do list[#list + 1] = option end
  local shared <const> = arguments.shared
  table.move({shared.cluster, shared.yes, shared.dry_run, VERSION}, 1, 4, #list + 1, list)
  return list
end

---The global options that are not options of every command.
---@return tide.option[]
function arguments.global_only()
  local list <const> = arguments.global()
  return table.move(list, #arguments.common + 1, #list, 1, {})
end

---The options a command takes, its own first.
---@param command table
---@return tide.option[]
function arguments.of(command)
  local list = {}
  for _, option in ipairs(command.options or {}) do list[#list + 1] = option end
  for _, option in ipairs(arguments.common) do list[#list + 1] = option end
  return list
end

local function find_long(list, name)
  for _, option in ipairs(list) do
    if option.name == name then return option end
  end
end

local function find_short(list, letter)
  for _, option in ipairs(list) do
    if option.short == letter then return option end
  end
end

-- Does the word at hand end in an option that takes the following word as its value?
local function wants_next(list, word)
  if word:sub(1, 2) == "--" then
    if word:find("=", 1, true) then return false end
    local option <const> = find_long(list, word:sub(3))
    return option ~= nil and option.type ~= nil
  end
  for i = 2, #word do
    local option <const> = find_short(list, word:sub(i, i))
    if option and option.type then return i == #word end
  end
  return false
end

local function is_option(word) return #word > 1 and word:sub(1, 1) == "-" end

---Index of the first word that is no option and no value of one; #words + 1 when there is none. A `--` is skipped.
local function first_operand(words, list, from)
  local at = from
  while at <= #words do
    if words[at] == "--" then return at + 1 end
    if not is_option(words[at]) then return at end
    at = at + (wants_next(list, words[at]) and 2 or 1)
  end
  return #words + 1
end

---Is the word the path of a script rather than the name of a command?
---@param word string
---@return boolean
function arguments.is_script(word)
  return word:find("%.lua$") ~= nil or word:find("/", 1, true) ~= nil
end

-- Leading words in long form, one per option: `-n` means --dry-run here and --nodes behind `up`.
local function long_form(words, last)
  local list <const> = arguments.global()
  local out, at = {}, 1
  while at <= last do
    local word <const> = words[at]
    if word:sub(1, 2) == "--" then
      out[#out + 1] = word
      if wants_next(list, word) then
        at = at + 1
        out[#out + 1] = words[at]
      end
    else
      for i = 2, #word do
        local option <const> = find_short(list, word:sub(i, i))
        out[#out + 1] = option and "--" .. option.name or "-" .. word:sub(i, i)
      end
    end
    at = at + 1
  end
  return out
end

---Splits the command line.
---@param words string[]
---@return {leading: string[], name: string?, rest: string[]}
function arguments.split(words)
  local list <const> = arguments.global()
  local at = first_operand(words, list, 1)
  local last = at - 1
  if last >= 1 and words[last] == "--" and at > 1 then last = last - 1 end
  local leading <const> = long_form(words, math.min(last, #words))
  local name = words[at]
  if not name then return {leading = leading, rest = {}} end
  if arguments.is_script(name) then
    return {leading = leading, name = "run", rest = table.move(words, at, #words, 1, {})}
  end
  return {leading = leading, name = name, rest = table.move(words, at + 1, #words, 1, {})}
end

---Do words hold a flag (before any `--`)? Used before parsing, to report parse errors in the right form.
---@param words string[]
---@param name string
---@param short? string
---@return boolean
function arguments.has_flag(words, name, short)
  for _, word in ipairs(words) do
    if word == "--" then return false end
    if word == "--" .. name then return true end
    if short and word:find("^%-%a+$") and word:find(short, 2, true) then return true end
  end
  return false
end

---- argparse ---------------------------------------------------------------------------------------------------------

local function add_options(parser, list)
  for _, option in ipairs(list) do
    local names <const> = (option.short and "-" .. option.short .. " " or "") .. "--" .. option.name
    local target <const> = option.name:gsub("-", "_")
    local doc <const> = arguments.doc(option)
    if option.type then
      local made = parser:option(names):target(target):argname(arguments.placeholder(option)):description(doc)
      if option.type == "string" and option.choices then made:choices(option.choices) end
      if option.repeated then made:count("*") end
    else
      parser:flag(names):target(target):description(doc):count("*")
    end
  end
end

local function add_arguments(parser, command)
  for _, argument in ipairs(command.arguments or {}) do
    local made = parser:argument(argument.name):description(argument.doc)
    if argument.choices then made:choices(argument.choices) end
    if math.type(argument.many) == "integer" then
      made:args(argument.many .. "+")
    elseif argument.rest or argument.many then
      made:args("*")
    elseif argument.optional then
      made:args("?")
    end
  end
end

---What an option is for, where the options of all verbs stand together.
---@param option tide.option
---@return string
function arguments.doc(option) return (option.of and option.of .. ": " or "") .. option.doc end

---The word that stands for an option's value: "N", "TIME".
---@param option tide.option
---@return string
function arguments.placeholder(option) return option.value or options.placeholder(option.type) end

---One parser that knows all commands, for the shell completions.
---@param commands table[]
---@return table parser of argparse
function arguments.tree(commands)
  local root = argparse("tide", "Elastic parameter-server machine learning, scripted in Lua."):add_help(false)
  root:require_command(false)
  add_options(root, arguments.global())
  for _, command in ipairs(commands) do
    local parser = root:command(command.name, command.summary):add_help(false)
    add_arguments(parser, command)
    add_options(parser, arguments.of(command))
    parser:require_command(false)
    for _, verb in ipairs(command.verbs or {}) do
      local row <const> = arguments.verb(command, verb)
      local under = parser:command(verb.name, row.summary):add_help(false)
      add_arguments(under, row)
      add_options(under, arguments.of(row))
    end
  end
  return root
end

local function option_names(command)
  local names = {}
  for _, option in ipairs(arguments.of(command)) do names[#names + 1] = "--" .. option.name end
  return names
end

local SHARED_HINTS <const> = {
  ["--cluster"] = "it does not use a running cluster", ["--yes"] = "it asks nothing",
  ["--dry-run"] = "it changes nothing",
}

-- argparse explains in words; its words become errors of the catalogue.
local function from_argparse(message, command)
  local title <const> = command.name and "tide " .. command.name or "tide"
  local where <const> = "`" .. title .. "`"
  local unknown <const> = message:match("unknown option '([^']*)'")
  if unknown then
    local flag <const> = unknown:match("^[^=]*")
    local hint <const> = command.hints and command.hints[flag] or SHARED_HINTS[flag]
    return errors.new("T0102", {
      message = ("%s has no option `%s`%s"):format(where, flag, hint and ": " .. hint or ""),
      help = not hint and text.did_you_mean(flag, option_names(command))
        or ("`%s --help` lists the options"):format(title),
    })
  end
  local single <const> = message:gsub("\n.*", ""):gsub("'([^']*)'", "`%1`")
  local help <const> = ("`%s --help` shows the usage"):format(title)
  local code = "T0103"
  if single:find("too many arguments", 1, true) or single:find("does not take arguments", 1, true) then
    code = "T0106"
  elseif single:find("at most", 1, true) or single:find("can not be used together", 1, true) then
    code = "T0107"
  elseif single:find("must be one of", 1, true) then
    code = "T0105"
  end
  return errors.new(code, {message = where .. ": " .. single, help = help})
end

-- A value in the type of its option's or argument's row; lists stay lists of words.
local function converted(row, given, called)
  if not row.type or type(given) == "table" then return given end
  local value, why, code = options.convert(row.type, given, row)
  if value == nil then return nil, errors.new(code or "T0104", {message = ("%s: %s"):format(called, why)}) end
  return value
end

local function convert(command, parsed)
  local values, err = {}
  for _, option in ipairs(arguments.of(command)) do
    local key <const> = option.name:gsub("-", "_")
    local given <const> = parsed[key]
    if given ~= nil and not option.type then
      values[key] = given ~= 0 and given ~= false
    elseif given ~= nil then
      values[key], err = converted(option, given, "--" .. option.name)
      if err then return nil, err end
    end
  end
  for _, argument in ipairs(command.arguments or {}) do
    local given <const> = not argument.rest and parsed[argument.name] or nil
    if given ~= nil then
      values[argument.name], err = converted(argument, given, argument.name:upper())
      if err then return nil, err end
    end
  end
  return values
end

---- verbs ------------------------------------------------------------------------------------------------------------

---A verb of a command as a command of its own.
---@param command tide.command
---@param verb tide.verb
---@return tide.command
function arguments.verb(command, verb)
  local row, called <const> = {}, command.name .. " " .. verb.name
  for key, value in pairs(command) do row[key] = value end
  for key, value in pairs(verb) do row[key] = value end
  row.name, row.verb, row.verbs, row.summary = called, verb.name, nil, verb.doc:gsub("^%l", string.upper) .. "."
  row.options, row.hints, row.examples = {}, {}, {}
  for _, option in ipairs(command.options or {}) do
    if not option.of then
      row.options[#row.options + 1] = option
    elseif (" " .. option.of .. ","):find((" %s,"):format(verb.name), 1, true) then
      row.options[#row.options + 1] = setmetatable({of = false}, {__index = option})
    else
      row.hints["--" .. option.name] = ("it is for %s"):format(option.of)
    end
  end
  for _, example in ipairs(command.examples) do
    if (example[1] .. " "):find(("tide %s "):format(called), 1, true) then row.examples[#row.examples + 1] = example end
  end
  if not row.examples[1] then row.examples = command.examples end
  return row
end

---The verb that words name, as a command of its own, and the words without it.
---@param command tide.command
---@param words string[]
---@return tide.command? row nil: see err
---@return string[]|tide.error rest
function arguments.chosen(command, words)
  if not command.verbs then return command, words end
  local at <const> = first_operand(words, arguments.of(command), 1)
  local before <const> = table.move(words, 1, at - 1, 1, {})
  local _, err = arguments.parse({name = command.name, options = command.options}, {}, before)
  if err then return nil, err end
  local name, names = words[at] or command.verb, {}
  for i, verb in ipairs(command.verbs) do
    if verb.name == name then return arguments.verb(command, verb), table.move(words, at + 1, #words, at, before) end
    names[i] = verb.name
  end
  return nil, errors.new(name and "T0105" or "T0103", {message = name
    and ("`tide %s` has no verb `%s`"):format(command.name, text.clean(name))
    or ("`tide %s`: a verb is missing"):format(command.name),
    help = name and text.did_you_mean(name, names) or "there are " .. table.concat(names, ", ")})
end

---Lines of a list of verbs for help: what is typed, and what it is for.
---@param command tide.command
---@return string[][]
function arguments.verb_rows(command)
  local rows = {}
  for i, verb in ipairs(command.verbs or {}) do
    rows[i] = {verb.name .. arguments.synopsis(verb), verb.doc .. (verb.name == command.verb and " (default)" or "")}
  end
  return rows
end

---The word that stands for an argument in help texts.
---@param argument tide.argument
---@return string
function arguments.called(argument)
  return argument.rest and "[" .. argument.label .. "]" or argument.label or argument.name:upper()
end

---The arguments of a command or verb as they stand in its usage: " NAME [WORDS]".
---@param row tide.command|tide.verb
---@return string
function arguments.synopsis(row)
  local line = row.verbs and (row.verb and " [VERB ..]" or " VERB ..") or ""
  for _, argument in ipairs(row.arguments or {}) do
    local name <const> = arguments.called(argument) .. (argument.many and ".." or "")
    line = line .. " " .. (argument.optional and "[" .. name .. "]" or name)
  end
  return line
end

---What --json prints, or nil where the row does not say.
---@param row tide.command
---@return string?
function arguments.printed(row)
  local names = {}
  for i, column in ipairs(row.columns or {}) do names[i] = column.key end
  local with <const> = #names > 0 and " with " .. table.concat(names, ", ") or ""
  return row.schema and ("objects of %s%s"):format(row.schema, with)
end

local PLAIN <const> = {"name", "short", "type", "doc", "choices", "min", "max", "optional", "many", "of", "repeated",
                       "rest", "schema"}

local function plain_rows(list)
  local out = {}
  for i, row in ipairs(list) do
    out[i] = {}
    for _, field in ipairs(PLAIN) do out[i][field] = row[field] or nil end
    if row.arguments and row.arguments[1] then out[i].arguments = plain_rows(row.arguments) end
  end
  return out[1] and out
end

---A row as data, for `tide help COMMAND --json`.
---@param row tide.command
---@return table
function arguments.data(row)
  return {name = row.name, brief = row.brief, schema = row.schema, prints = arguments.printed(row),
    arguments = plain_rows(row.arguments or {}), options = plain_rows(arguments.of(row)),
    verbs = plain_rows(row.verbs or {})}
end

-- Words for argparse, and those that belong to the script.
local function cut_script(command, words)
  local at <const> = first_operand(words, arguments.of(command), 1)
  local ours <const> = table.move(words, 1, math.min(at - 1, #words), 1, {})
  if at > #words then return ours, {} end
  if ours[#ours] ~= "--" then ours[#ours + 1] = "--" end
  ours[#ours + 1] = words[at]
  return ours, table.move(words, at + 1, #words, 1, {})
end

---The words of a command that are not the script's.
---@param command table
---@param words string[]
---@return string[]
function arguments.own_words(command, words)
  return command.takes_script and (cut_script(command, words)) or words
end

---Parses the words of one command.
---@param command table
---@param leading string[] global options from before the command
---@param words string[]
---@return table? values by name (`-` as `_`), `rest` for the words behind a script, `verb` of one of a command's verbs
---@return tide.error? err
function arguments.parse(command, leading, words)
  local rest
  if command.takes_script then words, rest = cut_script(command, words) end
  local all <const> = table.move(words, 1, #words, #leading + 1, table.move(leading, 1, #leading, 1, {}))
  local parser = argparse("tide"):add_help(false)
  add_arguments(parser, command)
  add_options(parser, arguments.of(command))
  local ok, parsed = parser:pparse(all)
  if not ok then return nil, from_argparse(parsed, command) end
  local values, err = convert(command, parsed)
  if not values then return nil, err end
  values.rest, values.verb = rest, command.verb
  return values
end

return arguments
