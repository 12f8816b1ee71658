-- Processes of this program that stay when this one ends, each in a session of its own. There is no node here yet that
-- could start children, hence the shell; not by os.execute, which loses a Ctrl-C that comes meanwhile.
local children = require "tide.provision.children"
local core = require "tide.core"

local detached = {}

local function shell_quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

---Starts this program, its output in `log`, whose last line has the exit code.
---@param log string
---@param ... string its words
---@return integer|nil session
function detached.start(log, ...)
  local words = {shell_quoted(children.program)}
  for _, word in ipairs {...} do words[#words + 1] = shell_quoted(word) end
  local script = shell_quoted(table.concat(words, " ") .. "; echo ended $?")
  local pipe = io.popen(("setsid sh -c %s </dev/null >>%s 2>&1 & echo $!"):format(script, shell_quoted(log)))
  local session = pipe and pipe:read "n"
  if pipe then pipe:close() end
  return session
end

---@param log string of detached.start
---@return string|nil exit code, once the process has ended
function detached.exit_code(log)
  return ("\n" .. (core.file_read(log) or "")):match("\nended (%d+)\n$")
end

---Ends what detached.start started, by force.
---@param session integer
---@param log string
function detached.kill(session, log)
  if detached.exit_code(log) then return end
  -- The leader first: it may not have made its session yet, and starts nothing any more then.
  os.execute(("kill -s KILL %d 2>/dev/null; kill -s KILL -- -%d 2>/dev/null"):format(session, session))
end

return detached
