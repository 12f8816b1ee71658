-- Manual pages (man(7)) from the declarations that parse the command line and make `--help`.

local arguments = require "tide.cli.arguments"

local man = {}

local MANUAL <const> = "Tide"

-- Text as man(7) reads it: no request at the start of a line, dashes as they are typed.
local function plain(s)
  s = s:gsub("\\", "\\e"):gsub("%-", "\\-")
  return (s:gsub("^([.'])", "\\&%1"):gsub("\n([.'])", "\n\\&%1"))
end

-- What stands in backticks in help texts is typed.
local function prose(s)
  return (plain(s):gsub("`([^`\n]+)`", "\\fB%1\\fR"))
end

local function add(out, ...)
  for _, line in ipairs {...} do out[#out + 1] = line end
end

local function head(out, title, version, brief)
  add(out, (".TH %s 1 \"\" \"Tide %s\" \"%s\""):format(plain(title:upper()), plain(version), MANUAL), ".SH NAME",
    ("%s \\- %s"):format(plain(title), prose(brief)))
end

local function option_list(out, title, list)
  if not list or #list == 0 then return end
  add(out, ".SH " .. title)
  for _, option in ipairs(list) do
    local left = (option.short and "\\fB\\-" .. option.short .. "\\fR, " or "") .. "\\fB" .. plain("--" .. option.name)
      .. "\\fR"
    if option.type then left = left .. " \\fI" .. plain(arguments.placeholder(option)) .. "\\fR" end
    add(out, ".TP", left, prose(arguments.doc(option)))
  end
end

local function examples(out, list)
  if not list or #list == 0 then return end
  add(out, ".SH EXAMPLES")
  for _, example in ipairs(list) do add(out, ".TP", ".B " .. plain(example[1]), prose(example[2] or "")) end
end

---The page of a command.
---@param command table
---@param version string
---@return string
function man.command(command, version)
  local out = {}
  head(out, "tide-" .. command.name, version, command.brief)
  add(out, ".SH SYNOPSIS", (".B tide %s\n[\\fIoptions\\fR]%s"):format(plain(command.name),
    plain(arguments.synopsis(command))), ".SH DESCRIPTION", prose(command.summary))
  if command.arguments and #command.arguments > 0 then
    add(out, ".SH ARGUMENTS")
    for _, argument in ipairs(command.arguments) do
      add(out, ".TP", "\\fI" .. plain(arguments.called(argument)) .. "\\fR",
        prose(argument.doc))
    end
  end
  local verbs <const> = arguments.verb_rows(command)
  if verbs[1] then add(out, ".SH VERBS") end
  for _, row in ipairs(verbs) do add(out, ".TP", ".B " .. plain(row[1]), prose(row[2])) end
  option_list(out, "OPTIONS", command.options)
  option_list(out, "OPTIONS OF EVERY COMMAND", arguments.common)
  examples(out, command.examples)
  if command.notes and #command.notes > 0 then
    add(out, ".SH NOTES")
    for i, note in ipairs(command.notes) do
      if i > 1 then add(out, ".PP") end
      add(out, prose(note))
    end
  end
  add(out, ".SH SEE ALSO", ".BR tide (1)")
  return table.concat(out, "\n") .. "\n"
end

---tide(1): all commands, and the topics of `tide help`.
---@param commands table[]
---@param topics table[] {name, text}
---@param version string
---@return string
function man.overview(commands, topics, version)
  local out = {}
  head(out, "tide", version, "trains models with elastic parameter servers; jobs are scripts in Lua")
  add(out, ".SH SYNOPSIS", ".B tide\n[\\fIoptions\\fR] \\fICOMMAND\\fR ...", ".br",
    ".B tide\n\\fISCRIPT.lua\\fR [\\fIoptions of the script\\fR]", ".SH COMMANDS")
  for _, command in ipairs(commands) do
    add(out, ".TP", (".BR %s (1)"):format(plain("tide-" .. command.name)), prose(command.brief))
  end
  option_list(out, "OPTIONS", arguments.global())
  for _, topic in ipairs(topics) do
    local title <const>, text <const> = topic[2]:match "^([^\n]*)\n(.*)$"
    add(out, ".SH " .. plain(title:upper()), ".nf", plain(text), ".fi")
  end
  add(out, ".SH SEE ALSO", ".BR bash (1)")
  return table.concat(out, "\n") .. "\n"
end

return man
