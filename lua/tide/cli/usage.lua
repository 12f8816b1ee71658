-- What `tide help` says: the lines of bare `tide`, pages of commands, errors and kernels, and a few topics.
-- Every page is at most 80 columns wide.

local arguments = require "tide.cli.arguments"
local errors = require "tide.errors"
local manual = require "tide.manual"
local options = require "tide.options"
local text = require "tide.text"

local usage = {}

local SHORT <const> = [[
Tide trains models with elastic parameter servers; jobs are scripts in Lua.

  tide run mf.lua --nodes 4      start a local cluster, run a script, stop
  tide up -n 3                   start a cluster that stays
  tide status                    what runs there

%s
More: `tide help`, `tide COMMAND --help`, `tide help T0501` for an error.]]

---Bare `tide`.
---@param names string[] of all commands
---@return string
function usage.short(names)
  return SHORT:format(table.concat(text.wrap("Commands: " .. table.concat(names, " "), 80, (" "):rep(10)), "\n"))
end

local TOPICS <const> = {
  ["exit-codes"] = {"what a command's exit code means", [[
Exit codes

    0  done
    1  the script, job or check failed
    2  wrong usage, options or configuration
    3  cluster unreachable; nothing is started in its place
    4  refused: authentication or role
    5  too many nodes or data lost
    6  policy refused, or rolled back before
  124  --timeout reached
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP
  141  the reader of the output went away (SIGPIPE)

Example: tide status --timeout 2s; echo $?]]},
  units = {"how times and sizes are written", [[
Units

  time   250us 20ms 30s 5m 2h; a bare number is seconds
  size   64KiB 4MiB 2GiB (1024), 64kB 4MB 2GB (1000); a bare number is bytes

Printed numbers have three significant digits, with k M G T for counts and
KiB MiB GiB for memory; --json prints exact values. Fields end in their unit:
_s, _bytes, _share.

Example: tide status --timeout 500ms]]},
  output = {"tables, --plain, --json, colours", [[
Output

Data goes to stdout, talk to stderr. Lists are aligned tables; --plain prints
one record a line with tabs and no header; --json prints one object a line,
each with a `schema` such as `tide.node/1`. With --json errors are JSON too, on
stderr.

Colours appear on a terminal only, and not with NO_COLOR, TERM=dumb or
--color never. Bars and `…` appear in a UTF-8 locale only.

Example: tide nodes --json | jq -r .name]]},
}

---The topics of `tide help` that are texts.
---@return table[] {name, text}, by name
function usage.topics()
  local list = {}
  for i, name in ipairs(text.sorted_keys(TOPICS)) do list[i] = {name, TOPICS[name][2]} end
  return list
end

local function errors_page()
  local out = {"Errors. `tide help CODE` explains one; for example `tide help T0501`."}
  local family
  for _, code in ipairs(text.sorted_keys(errors.catalogue)) do
    if code:sub(1, 3) ~= family then
      family = code:sub(1, 3)
      out[#out + 1] = ""
      out[#out + 1] = family .. "  " .. errors.families[family]
    end
    out[#out + 1] = ("  %s  %s"):format(code, errors.catalogue[code].title)
  end
  return table.concat(out, "\n")
end

local function option_rows(list)
  local rows = {}
  for _, option in ipairs(list) do
    local left = (option.short and "-" .. option.short .. ", " or "    ") .. "--" .. option.name
    if option.type then left = left .. " " .. arguments.placeholder(option) end
    rows[#rows + 1] = {left, arguments.doc(option)}
  end
  return rows
end

local function append(out, lines)
  table.move(lines, 1, #lines, #out + 1, out)
end

---- kernels ------------------------------------------------------------------------------------------------------

local function kernels_page(kernels)
  local out = {"Kernels. `tide help NAME` explains one; a script calls tide.kernel \"NAME\" {...}.", ""}
  local rows = {}
  for i, kernel in ipairs(kernels) do rows[i] = {kernel.name, kernel.doc} end
  append(out, options.two_columns(rows))
  return table.concat(out, "\n")
end

local function argument_doc(argument)
  if argument.required or argument.doc:find("default", 1, true) then return argument.doc end
  local default <const> = argument.default
  if default == nil then return argument.doc .. " (optional)" end
  return ("%s (default %s)"):format(argument.doc, type(default) == "number" and ("%.14g"):format(default)
    or tostring(default))
end

local function kernel_page(kernel)
  local out = text.wrap(kernel.doc, 80)
  append(out, {"", ("Arguments of tide.kernel \"%s\" {...}:"):format(kernel.name)})
  local rows = {}
  for i, argument in ipairs(kernel.parameters) do
    rows[i] = {argument.name .. " " .. argument.type:upper(), argument_doc(argument)}
  end
  append(out, options.two_columns(rows))
  return table.concat(out, "\n")
end

---- pages --------------------------------------------------------------------------------------------------------

---The page of a command: one sentence, examples, then options in groups.
---@param command table
---@return string
function usage.command(command)
  local out = text.wrap(command.summary, 80)
  out[#out + 1] = ""
  append(out, options.examples(command.examples))
  out[#out + 1] = ""
  out[#out + 1] = "Usage: tide " .. command.name .. " [options]" .. arguments.synopsis(command)
  local rows = arguments.verb_rows(command)
  for _, argument in ipairs(command.arguments or {}) do
    rows[#rows + 1] = {arguments.called(argument), argument.doc}
  end
  append(out, options.two_columns(rows))
  local printed <const> = arguments.printed(command)
  if printed then append(out, {"", table.unpack(text.wrap("--json: " .. printed, 80))}) end
  if command.options and #command.options > 0 then
    out[#out + 1] = ""
    out[#out + 1] = "Options:"
    append(out, options.two_columns(option_rows(command.options)))
  end
  out[#out + 1] = ""
  out[#out + 1] = "Options of every command:"
  append(out, options.two_columns(option_rows(arguments.common)))
  for _, line in ipairs(command.notes or {}) do
    out[#out + 1] = ""
    append(out, text.wrap(line, 80))
  end
  return table.concat(out, "\n")
end

-- The pages of the manual, a line each.
local function reference_page()
  local rows = {}
  for _, page in ipairs(manual.pages()) do rows[#rows + 1] = {page.name, page.title} end
  local out = {"Pages of the reference, by `tide help PAGE`; `tide help NAME` explains a function."}
  append(out, options.two_columns(rows))
  return table.concat(out, "\n")
end

---`tide help`: all commands and topics.
---@param commands table[]
---@return string
function usage.overview(commands)
  local out = {
    "Tide trains models with elastic parameter servers; jobs are scripts in Lua.", "",
    "Usage: tide [options] COMMAND ...", "       tide SCRIPT.lua [options of the script]", "",
    "  tide run mf.lua --nodes 4      start a local cluster, run a script, stop",
    "  tide up -n 3                   start a cluster that stays",
    "  tide status                    what runs there", "", "Commands:",
  }
  local rows = {}
  for _, command in ipairs(commands) do rows[#rows + 1] = {command.name, command.brief} end
  append(out, options.two_columns(rows))
  append(out, {"", "Options, before or after the command:"})
  append(out, options.two_columns(option_rows(arguments.global())))
  append(out, {"", "Topics, by `tide help TOPIC`:"})
  rows = {{"errors", "all error codes"}, {"CODE", "one error, such as T0501"},
          {"reference", "all modules and functions of scripts"}, {"NAME", "one of them: tensor, tensor.axpy, run.wait"},
          {"kernels", "all native inner loops"}, {"KERNEL", "one of them: what it computes, its arguments"}}
  for _, name in ipairs(text.sorted_keys(TOPICS)) do rows[#rows + 1] = {name, TOPICS[name][1]} end
  rows[#rows + 1] = {"config", "what a configuration file may set"}
  append(out, options.two_columns(rows))
  return table.concat(out, "\n")
end

---A page by topic: a command, an error code, a kernel, a name of the reference, or one of the topics.
---@param topic string
---@param commands table<string, table>
---@param kernels table[] as core.kernels() gives them
---@return string? page
---@return tide.error? err
function usage.topic(topic, commands, kernels)
  if commands[topic] then return usage.command(commands[topic]) end
  if topic == "errors" then return errors_page() end
  if topic == "reference" then return reference_page() end
  if topic == "kernels" then return kernels_page(kernels) end
  if TOPICS[topic] then return TOPICS[topic][2] end
  local code <const> = topic:upper()
  if errors.catalogue[code] then return errors.explain(code) end
  local names = {"errors", "kernels", "reference"}
  for _, kernel in ipairs(kernels) do
    if kernel.name == topic then return kernel_page(kernel) end
    names[#names + 1] = kernel.name
  end
  local page <const> = manual.help(topic, 80)
  if page then return page end
  for name in pairs(commands) do names[#names + 1] = name end
  for name in pairs(TOPICS) do names[#names + 1] = name end
  for name in pairs(manual.entries()) do names[#names + 1] = name end
  local help = text.did_you_mean(topic, names)
  if code:find("^T%d%d%d%d$") then
    local family <const> = errors.families[code:sub(1, 3)]
    help = family and ("%s.. is about %s; `tide help errors` lists all codes"):format(code:sub(1, 3), family)
      or "`tide help errors` lists all codes"
  end
  return nil, errors.new("T0112", {message = ("no help on `%s`"):format(topic), help = help})
end

return usage
