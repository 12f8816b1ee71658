-- The prompt: reads lines and blocks, evaluates them through a client, draws the results.
--
-- A block is complete when it compiles, as an expression or as a chunk; one whose only fault is that it ends too soon
-- asks for more, and two empty lines give it up. Lines that begin with \ are the prompt's own.
local attach = require "tide.console.attach"
local blocks = require "tide.console.block"
local core = require "tide.core"
local errors = require "tide.errors"
local history = require "tide.console.history"
local targets = require "tide.console.targets"
local text = require "tide.text"

local prompt = {}
prompt.__index = prompt

local CONTINUATION <const> = "   ...> "
local LISTED_MAX <const> = 60

local COMMANDS <const> = [[
\q        leave (also Ctrl-D)          \i FILE   evaluate a file
\e        edit the last block in $EDITOR
\s FILE   save what was typed as a script
\fg ID    wait for an evaluation that was left to itself
\t SET    talk to these nodes from now on (@all, @n3, ...); \t alone: to one
\drop     end the session on its node, whatever it does, and begin a new one
?NAME     help; ??NAME source; ? the ten things to do first
%time E   how long an expression takes; %bench E the median of five]]

---What a piece of text is: "complete", "more" (it ends too soon) or "wrong".
---@param block string
---@return string state
function prompt.state(block)
  local chunk <const>, as_chunk, as_value = blocks.compile(block)
  if chunk then return "complete" end
  return (as_chunk:find "<eof>$" or as_value:find "<eof>$") and "more" or "wrong"
end

---Words of the prompt that stand for a call: %time, %bench, ?x, x?, ??x.
---@param line string
---@return string kind "lua" | "help" | "source" | "command"
---@return string rest
function prompt.classify(line)
  local trimmed <const> = line:match "^%s*(.-)%s*$"
  if trimmed:sub(1, 1) == "\\" then return "command", trimmed:sub(2) end
  if trimmed:sub(1, 2) == "??" then return "source", trimmed:sub(3) end
  if trimmed:sub(1, 1) == "?" then return "help", trimmed:sub(2) end
  local asked <const> = trimmed:match "^([%w_.:]+)%?$"
  if asked then return "help", asked end
  local magic, expression = trimmed:match "^%%(%a+)%s+(.*)$"
  if magic == "time" or magic == "bench" then
    return "lua", ("%s(function() return %s end)"):format(magic, expression)
  end
  return "lua", line
end

---- drawing -------------------------------------------------------------------------------------------------------

local function out(chunk)
  io.stdout:write(text.harmless(chunk))
  io.stdout:flush()
end

function prompt:label()
  local where <const> = self.o.targets and " " .. text.clean(self.o.targets) or ""
  local role <const> = self.o.role ~= "admin" and (" (%s)"):format(self.o.role) or ""
  local plain <const> = text.clean(self.name) .. where .. role .. "> "
  return self.o.color and "\1\27[1;36m\1" .. plain .. "\1\27[0m\1" or plain
end

function prompt:show(result)
  if result.status == "detached" then
    out("left to itself; jobs() lists it, \\fg ID waits for it, kill(ID) ends it\n")
    return
  end
  local shown, failure = attach.shown(result, self.o)
  if shown then out(shown) end
  if failure then out(failure) end
end

---- evaluating ----------------------------------------------------------------------------------------------------

-- A local of one line does not exist in the next: a hint, printed once.
function prompt:hint_locals(block, result)
  for name in block:gmatch "local%s+([%a_][%w_]*)" do self.locals[name] = true end
  local message <const> = result.error and result.error.message or ""
  local name <const> = message:match "global '([%w_]+)'"
  if name and self.locals[name] and not self.hinted then
    self.hinted = true
    out(("`%s` was a local of an earlier line and is gone: leave `local` away at the prompt\n"):format(name))
  end
end

---@param block string
---@return boolean continue
function prompt:evaluate(block)
  local where, code = targets.split(block)
  if where and code == "" then return self:commands_t(where) end
  self.last = block
  local result, err = self.client:eval(code, {targets = where or self.o.targets, width = core.terminal().width,
    utf8 = self.o.utf8, seconds = self.o.seconds})
  if not result then
    self.failure = errors.to_data(errors.from(err))
    return false
  end
  self:show(result)
  self:hint_locals(block, result)
  self.history:add {text = block, cluster = self.name, targets = where or self.o.targets,
    seconds = result.seconds, ok = result.status == "ok"}
  self.session[#self.session + 1] = {text = code, targets = where or self.o.targets}
  return true
end

---- the prompt's own commands ---------------------------------------------------------------------------------------

local commands = {}

function prompt:commands_t(where)
  if where ~= "" then
    local found, err = targets.resolve(where, targets.cluster())
    if not found then
      out(errors.format(err, {unicode = self.o.utf8}) .. "\n")
      return true
    end
  end
  self.o.targets = where ~= "" and where or nil
  return true
end

commands["?"] = function() out(COMMANDS .. "\n") return true end
commands.q = function() return false end
commands.t = function(self, rest) return self:commands_t(rest) end

function commands.i(self, path)
  local file, why = io.open(path, "r")
  if not file then
    out(text.clean(why) .. "\n")
    return true
  end
  local block <const> = file:read "a" or ""
  file:close()
  return self:evaluate(block)
end

function commands.e(self)
  local path <const> = os.tmpname()
  core.file_write(path, self.last or "", true)
  local editor <const> = os.getenv "VISUAL" or os.getenv "EDITOR" or "vi"
  self.line.close()
  os.execute(editor .. " " .. path)
  self:open_line()
  local file = io.open(path, "r")
  local block <const> = file and (file:read "a"):gsub("\n+$", "") or ""
  if file then file:close() end
  os.remove(path)
  if block == "" then return true end
  out(text.clean_lines(block) .. "\n")
  self:remember(block)
  return self:evaluate(block)
end

-- Shows text in the pager of the person; its control characters are gone, whatever a node sent.
function prompt:page(shown)
  local path <const> = os.tmpname()
  core.file_write(path, text.clean_lines(shown), true)
  self.line.close()
  local ok = os.execute((os.getenv "PAGER" or "less -R") .. " " .. path)
  self:open_line()
  os.remove(path)
  if not ok then out(text.clean_lines(shown)) end -- there is no pager here
end

-- A line as part of a script that does the same: values are printed, and a `return` does not end the script.
local function as_statement(entry)
  if entry.targets then return ("print(json(on(%q, %q)))"):format(entry.targets, entry.text) end
  if load("return " .. entry.text, "=s", "t") then return ("print(%s)"):format(entry.text) end
  if load(entry.text .. "\nlocal _", "=s", "t") then return entry.text end
  return ("print((function()\n%s\nend)())"):format(entry.text)
end

function commands.s(self, path)
  local lines = {("-- A session at the prompt of cluster %s; `tide attach < FILE` runs it again."):format(
    text.clean(self.name))}
  for _, entry in ipairs(self.session) do lines[#lines + 1] = as_statement(entry) end
  local ok, err = core.file_write(path, table.concat(lines, "\n") .. "\n")
  out(ok and ("%d lines are in %s\n"):format(#self.session, text.clean(path))
    or text.clean(err.message or "not written") .. "\n")
  return true
end

function commands.fg(self, id)
  local result, err = self.client:foreground(math.tointeger(tonumber(id)) or 0)
  if result then
    self:show(result)
  else
    out(errors.format(errors.from(err), {unicode = self.o.utf8}) .. "\n")
  end
  return true
end

function commands.drop(self)
  local own <const> = self.client
  local agent = core.whereis(own.node .. "/agent")
  if agent then core.call(agent, {op = "console.drop", session = own.id}, 5) end
  core.sleep(0.1)
  local ok, err = own:connect()
  if not ok then
    self.failure = errors.to_data(err)
    return false
  end
  out("a new session; the globals of the old one are gone\n")
  return true
end

function prompt:command(words)
  local name, rest = words:match "^(%S*)%s*(.-)$"
  local f <const> = commands[name]
  if not f then
    out(("\\%s is no command of the prompt; \\? lists them\n"):format(text.clean(name)))
    return true
  end
  return f(self, rest)
end

---- lines ---------------------------------------------------------------------------------------------------------

local function common_prefix(list)
  local prefix = list[1]
  for i = 2, #list do
    while list[i]:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

local function in_columns(list, width)
  local widest = 0
  for _, item in ipairs(list) do widest = math.max(widest, #item) end
  local columns <const> = math.max(1, width // (widest + 2))
  local lines, line = {}, {}
  for i = 1, math.min(#list, LISTED_MAX) do
    line[#line + 1] = text.pad(text.clean(list[i]), widest + 2)
    if #line == columns then
      lines[#lines + 1] = table.concat(line):gsub(" +$", "")
      line = {}
    end
  end
  if #line > 0 then lines[#lines + 1] = table.concat(line):gsub(" +$", "") end
  if #list > LISTED_MAX then lines[#lines + 1] = ("... %d more"):format(#list - LISTED_MAX) end
  return table.concat(lines, "\n")
end

---What Tab does: text to insert, and what to show above the line.
---@param found {start: integer, candidates: string[], hint: string?}
---@param width integer
---@return string? insert
---@return string? shown
function prompt.tab(found, width)
  local list <const> = found.candidates
  if #list == 0 then return nil, found.hint end
  local prefix <const> = common_prefix(list)
  local more <const> = prefix:sub((found.start or 0) + 1)
  if more ~= "" then return more, nil end
  if #list == 1 then return nil, found.hint end
  return nil, in_columns(list, width) .. (found.hint and "\n" .. found.hint or "")
end

function prompt:open_line()
  local dumb <const> = os.getenv "TERM" == "dumb" or not os.getenv "TERM"
  assert(self.line.open(function(line, cursor)
    local block <const> = self.block and self.block .. "\n" or ""
    return prompt.tab(self.client:complete(block .. line, #block + cursor), core.terminal().width or 80)
  end, not dumb))
  for _, entry in ipairs(self.remembered) do self.line.remember(entry) end
end

function prompt:remember(block)
  if history.keeps(block) then
    self.remembered[#self.remembered + 1] = block
    self.line.remember(block)
  end
end

---Reads until a block is complete. Returns it; false: discarded; nil: the end of the input.
function prompt:read()
  local block = self.line.read(self:label())
  if not block then return block end
  local kind <const> = prompt.classify(block)
  if kind ~= "lua" then return block end
  local empty = 0
  local _, code = targets.split(block)
  while prompt.state(code) == "more" and code ~= "" do
    self.block = block
    local line = self.line.read(CONTINUATION)
    self.block = nil
    if not line then return line end
    empty = line == "" and empty + 1 or 0
    if empty == 2 then return false end
    block = block .. "\n" .. line
    _, code = targets.split(block)
  end
  return block
end

function prompt:dispatch(block)
  local kind, rest = prompt.classify(block)
  if kind == "command" then return self:command(rest) end
  if kind == "lua" then return self:evaluate(rest) end
  out((self.client:help(rest, kind == "source") or "no help") .. "\n")
  return true
end

local function title(self)
  local name, up = self.client.cluster_of()
  self.name = name
  if self.o.quiet then return end
  local words = {"tide " .. (self.client.version or core.version), "cluster " .. name, ("%d nodes up"):format(up)}
  for _, job in ipairs(self.client:jobs()) do words[#words + 1] = "job " .. job end
  words[#words + 1] = ("on %s as %s"):format(self.client.node, self.o.role)
  out(text.clean(table.concat(words, "  ")) .. "        ? for help\n")
end

---The prompt until its end.
---@param own table client, connected
---@param o table see attach.inside
---@return integer|nil exit
---@return table? err
function prompt.run(own, o)
  local self <const> = setmetatable({client = own, o = o, session = {}, remembered = {}, locals = {},
    line = require "tide.line", history = history.open(history.path(os.getenv))}, prompt)
  title(self)
  local entries <const> = self.history.entries
  for i = math.max(1, #entries - 1000), #entries do self.remembered[#self.remembered + 1] = entries[i].text end
  own.ended_by = self.line.ended_by
  own.say = function(line) self.line.above(text.clean(line) .. "\n") end
  own.page = function(shown) self:page(shown) end
  self:open_line()
  local going = true
  while going do
    local listener <const> = core.fiber(own.listen, own)
    local block = self:read()
    core.fiber_cancel(listener)
    own.interrupts = core.interrupted()
    if block == nil then
      out "\n"
      going = false
    elseif self.line.ended_by() then
      going = false
    elseif block and block:find "%S" then
      self:remember(block)
      going = self:dispatch(block)
    end
  end
  local signal <const> = self.line.ended_by()
  self.line.close()
  if self.failure then return nil, self.failure end
  return signal and 128 + signal or 0
end

return prompt
