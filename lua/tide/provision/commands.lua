-- Commands of launchers: run to their end, without a shell, with a time limit and their output.
local children = require "tide.cluster.children"
local core = require "tide.core"
local errors = require "tide.errors"

local commands = {}

local LIMIT_S <const>, POLL_S <const> = 30, 0.01
local serial = 0

---The path of this program, for other processes and machines with the same file system.
---@return string
function commands.program()
  local path <const> = children.program
  if path:sub(1, 1) == "/" then return path end
  if not path:find("/", 1, true) then return "tide" end
  return (os.getenv "PWD" or ".") .. "/" .. path
end

---@param argv string[]
---@param directory string for its output, until it has been read
---@return string|nil output nil: it failed
---@return table? err with the last lines that it wrote
function commands.run(argv, directory)
  serial = serial + 1
  local path <const> = ("%s/command-%d.txt"):format(directory, serial)
  core.file_remove(path)
  local process, why = core.process(argv, {output = path})
  if not process then
    return nil, errors.new("T1005", {message = ("%s cannot be started: %s"):format(argv[1], why.message),
      help = "is it installed, and in $PATH?"})
  end
  local deadline <const> = core.now() + LIMIT_S
  local ended = process:ended()
  while not ended and core.now() < deadline do
    core.sleep(POLL_S)
    ended = process:ended()
  end
  if not ended then process:signal(9) end
  local output <const> = core.file_read(path) or ""
  core.file_remove(path)
  if ended and ended.status == 0 and (ended.signal or 0) == 0 then return output end
  local last = output:gsub("%s+$", ""):match "([^\n]*\n?[^\n]*)$" or ""
  return nil, errors.new("T1005", {message = ("%s %s%s"):format(argv[1], ended and ("ended with exit code %d"):format(
    ended.status or -1) or ("did not end within %d s"):format(LIMIT_S), last ~= "" and ": " .. last or "")})
end

---The command line of one node, as every kind starts it.
---@param o {program?: string, endpoint: string, cluster: string, workers?: integer, keys?: string, grace_s?: number,
---  no_store?: boolean}
---@param name string
---@return string[]
function commands.node(o, name)
  local argv <const> = {o.program or commands.program(), "node", "--join", o.endpoint, "--cluster", o.cluster, "--name",
                        name, "--workers", tostring(o.workers or 1)}
  local function add(...) table.move({...}, 1, select("#", ...), #argv + 1, argv) end
  if o.keys then add("--keys", o.keys) end
  if o.grace_s then add("--grace", ("%ds"):format(math.max(math.floor(o.grace_s), 1))) end
  if o.no_store then add "--no-store" end
  return argv
end

---@param argv string[]
---@return string as a shell reads it
function commands.quoted(argv)
  local words = {}
  for i, word in ipairs(argv) do
    words[i] = word:find "^[%w_./:=,+@%%-]+$" and word or "'" .. word:gsub("'", "'\\''") .. "'"
  end
  return table.concat(words, " ")
end

return commands
