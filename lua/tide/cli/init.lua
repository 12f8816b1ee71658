-- The `tide` command: finds the command in the words, runs it, prints what went wrong, returns the exit code.
--
-- Data goes to stdout, talk and errors to stderr. A command is a module of tide/command/ (see `tide.arguments`); its
-- `run(context)` returns an exit code, or nil and an error. Nothing here ends the process.

local arguments = require "tide.cli.arguments"
local cluster_view = require "tide.cluster.view"
local config = require "tide.cli.config"
local errors = require "tide.errors"
local json = require "tide.json"
local limits = require "tide.limits"
local table_view = require "tide.show.table_view"
local text = require "tide.text"
local usage = require "tide.cli.usage"

local cli = {}

local EXIT_TIMEOUT <const> = 124
local EXIT_INTERRUPTED <const> = 130
local EXIT_PIPE <const> = 141
local EPIPE <const> = 32

---- context ----------------------------------------------------------------------------------------------------------

---What a command works with: its options, the outside world, and how to print.
---@class tide.context
---@field core table
---@field options table<string, any> checked values
---@field terminal {stdin: boolean, stdout: boolean, stderr: boolean, width: integer, utf8: boolean}
---@field json boolean
---@field plain boolean
---@field quiet boolean
---@field verbose boolean
---@field timeout_s? number
---@field keys? string directory of a credential
---@field getenv fun(name: string): string?
---@field commands table
local context = {}
context.__index = context

local pipe_closed <const> = {} -- raised when the reader of stdout went away

-- Fields that were not replaced come from the process.
local function default_environment(given)
  local env = {}
  for k, v in pairs(given or {}) do env[k] = v end
  env.core = env.core or require "tide.core"
  env.getenv = env.getenv or os.getenv
  env.write_out = env.write_out or function(s)
    local ok, why, number = io.stdout:write(s)
    if ok then ok, why, number = io.stdout:flush() end
    if not ok and number == EPIPE then error(pipe_closed, 0) end
    if not ok then error(errors.new("T0403", {message = "the output could not be written: " .. tostring(why)}), 0) end
  end
  env.write_err = env.write_err or function(s)
    io.stderr:write(s)
    io.stderr:flush()
  end
  env.read_line = env.read_line or function() return io.stdin:read("l") end
  return env
end

local function new_context(env)
  local found <const> = env.core.terminal()
  local terminal <const> = {
    stdin = found.stdin or false, stdout = found.stdout or false, stderr = found.stderr or false,
    utf8 = found.utf8 or false, width = found.width and found.width > 0 and found.width or 100,
  }
  return setmetatable({
    core = env.core, getenv = env.getenv, write_out = env.write_out, write_err = env.write_err,
    read_line = env.read_line, terminal = terminal, options = {}, json = false, plain = false, quiet = false,
    verbose = false, color = "auto",
  }, context)
end

---@param stream "stdout"|"stderr"
---@return boolean
function context:colored(stream)
  if self.color ~= "auto" then return self.color == "always" end
  local no_color <const> = self.getenv "NO_COLOR"
  return self.terminal[stream] and (no_color == nil or no_color == "") and self.getenv "TERM" ~= "dumb"
end

-- What a command prints may come from nodes, runs and files, so both filter it: no text moves the reader's cursor.

---Data, to stdout.
---@param line string JSON with --json
function context:print(line)
  self.write_out((self.json and text.harmless_json(line) or text.harmless(line)) .. "\n")
end

---Talk, to stderr; not with --quiet.
---@param line string
function context:say(line)
  if not self.quiet then self.write_err(text.harmless(line) .. "\n") end
end

---A line of the fields of one thing; nothing where there is no value.
---@param title string
---@param value any
function context:field(title, value)
  if value ~= nil and value ~= "" then self:print(("%-10s %s"):format(title, text.clean(tostring(value)))) end
end

---@param rows table[]
---@param columns tide.column[]
---@return string[] lines as wide as the terminal
function context:table_lines(rows, columns)
  return table_view.lines(rows, columns, {width = self.terminal.width, unicode = self.terminal.utf8,
    color = self:colored "stdout"})
end

---Prints an object as JSON, with the schema of the command's row.
---@param object table
---@param arrays? table<string, any[]> fields that are lists, also when they are empty
function context:record(object, arrays)
  object.schema = self.schema
  self:print(arrays and json.object(object, arrays) or self.core.json_encode(object))
end

---What a command of one object ends with: JSON, or a line of talk.
---@param object table of the schema of the command's row
---@param line string
---@return 0 exit code
function context:tell(object, line)
  if self.json then
    self:record(object)
  else
    self:say(line)
  end
  return 0
end

---Prints an error in the form that was asked for.
---@param err tide.error
function context:complain(err)
  if self.json then
    self.write_err(text.harmless_json(self.core.json_encode(errors.to_data(err))) .. "\n")
    return
  end
  self.write_err(errors.format(err, {
    color = self:colored "stderr", unicode = self.terminal.utf8, width = self.terminal.width, verbose = self.verbose,
  }) .. "\n")
end

---Asks before something is ended or removed. Without a terminal the answer is -y or an error.
---@param question string
---@return true? confirmed
---@return tide.error? err
function context:confirm(question)
  if self.options.yes then return true end
  if not self.terminal.stdin or self.json then
    return nil, errors.new("T0109", {message = question .. " Nobody can be asked here", state = "nothing changed"})
  end
  self.write_err(question .. " [y/N] ")
  local answer <const> = (self.read_line() or ""):lower()
  if answer == "y" or answer == "yes" then return true end
  return nil, errors.new("T0109", {message = "not confirmed", state = "nothing changed"})
end

---- dispatch ---------------------------------------------------------------------------------------------------------

local function unknown_command(name, names)
  local help = text.did_you_mean(name, names)
  if not help then help = "`tide help` lists the commands; a script runs by `tide run " .. text.clean(name) .. "`" end
  return errors.new("T0101", {message = ("`%s` is no command"):format(name), help = help})
end

local function note_early_flags(self, leading, words)
  self.json = arguments.has_flag(leading, "json") or arguments.has_flag(words, "json")
  self.verbose = arguments.has_flag(leading, "verbose") or arguments.has_flag(words, "verbose", "v")
end

local function use_options(self, values)
  self.options = values
  self.json, self.plain = values.json or false, values.plain or false
  self.quiet, self.verbose = values.quiet or false, values.verbose or false
  self.color = values.color or self.color
  self.timeout_s = values.timeout
  self.keys = values.keys
  if self.keys and not values.debuggable then self.core.harden(true) end
end

local ALARM_S <const> = 2 -- what a command has beyond --timeout to end by itself

-- Whatever the command waits for or computes, --timeout ends it.
local function set_alarm(self, command)
  if not self.timeout_s or command.stays and command.stays(self.options) then return end
  local err <const> = errors.new("T0507", {message = ("`tide %s` did not end within --timeout and was killed"):format(
    command.name), help = "give more time by --timeout"})
  local said = ""
  local write <const> = self.write_err
  self.write_err = function(s) said = said .. s end
  self:complain(err)
  self.write_err = write
  self.core.alarm(self.timeout_s + ALARM_S, said)
end

local function traced(raised)
  if raised == pipe_closed then return raised end
  local err = errors.from(raised, "T1099")
  err.trace = err.trace or debug.traceback("", 2)
  return err
end

-- The exit code an error means here: --timeout and Ctrl-C have codes of their own.
local function exit_of(self, err)
  if err.exit then return errors.exit(err) end
  if err.name == "ETIMEDOUT" and self.timeout_s then return EXIT_TIMEOUT end
  return errors.exit(err)
end

local function failed(self, err)
  if err == pipe_closed then return EXIT_PIPE end
  err = errors.from(err)
  if err.page then
    self:print(err.page)
    return errors.exit(err)
  end
  local ended <const> = err.name == "ECANCELED" or err.name == "ETIMEDOUT"
  if self.core.interrupted() > 0 and ended and err.code ~= "T0210" then err = errors.new("T0210", {cause = err}) end
  self:complain(err)
  return err.code == "T0210" and EXIT_INTERRUPTED or exit_of(self, err)
end

local function takes_limits(command)
  for _, option in ipairs(command.options or {}) do
    if option == arguments.shared.limit then return true end
  end
  return false
end

-- As a client of the cluster, where the row says so.
local function carry_out(self, command)
  self.schema, self.columns = command.schema, command.columns
  if not command.attached then return command.run(self, self.options) end
  return cluster_view.attached(self, function(client) return command.run(self, self.options, client) end)
end

local function run_command(self, command, leading, words)
  local own <const> = arguments.own_words(command, words)
  note_early_flags(self, leading, own)
  local row <const>, rest = arguments.chosen(command, words)
  if arguments.has_flag(own, "help", "h") or arguments.has_flag(leading, "help") then
    self:print(usage.command(row and own[1] == row.verb and row or command))
    return 0
  end
  if not row then return nil, rest end
  command = row
  local values, err = arguments.parse(command, leading, rest)
  if not values then return nil, err end
  if command.configured ~= false then
    local ok, problem = config.fill(self, command, values)
    if not ok then return nil, problem end
  end
  use_options(self, values)
  if takes_limits(command) then
    local ok, problem = limits.use(self, command.name == "sim")
    if not ok then return nil, problem end
  end
  set_alarm(self, command)
  return carry_out(self, command)
end

local function dispatch(self, words)
  local split <const> = arguments.split(words)
  note_early_flags(self, split.leading, split.name == "run" and {} or split.rest)
  if not split.name then
    if arguments.has_flag(split.leading, "help") then
      self:print(usage.overview((self.commands.all())))
      return 0
    end
    if arguments.has_flag(split.leading, "version") then
      split.name = "version"
    elseif #words == 0 then
      self.write_err(usage.short(self.commands.names) .. "\n")
      return 2
    end
  end
  for i = #split.leading, 1, -1 do
    if split.leading[i] == "--version" then table.remove(split.leading, i) end
  end
  if not split.name then
    -- Options without a command: a wrong one is named, else the command is missing.
    local _, err = arguments.parse({options = arguments.global_only()}, split.leading, {})
    return nil, err or errors.new("T0103", {message = "a command is missing", help = "`tide help` lists the commands"})
  end
  local command <const> = self.commands.find(split.name)
  if not command then return nil, unknown_command(split.name, self.commands.names) end
  local within <const> = command.within and command.within[split.rest[1]]
  if within then
    return run_command(self, require(within), split.leading, table.move(split.rest, 2, #split.rest, 1, {}))
  end
  return run_command(self, command, split.leading, split.rest)
end

---Runs one command line.
---@param words string[] without the program's name
---@param commands {names: string[], find: fun(name: string): table?, all: fun(): table[], table} of tide.command
---@param env? table replacements for tests: core, getenv, write_out, write_err, read_line
---@return integer exit code
function cli.main(words, commands, env)
  local self <const> = new_context(default_environment(env))
  self.commands = commands
  local ok, code, err = xpcall(dispatch, traced, self, words)
  if not ok then
    local done, after = pcall(failed, self, code)
    return done and after or EXIT_PIPE
  end
  if code == nil then
    local done, after = pcall(failed, self, err)
    return done and after or EXIT_PIPE
  end
  return math.tointeger(code) or 1
end

return cli
