-- Commands of launchers: run to their end, without a shell, with a time limit and their output.
local children = require "tide.provision.children"
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

-- Variables of a job that this process itself is part of: to a launcher they would say that its nodes are part of it
-- too. Settings of the user and of the site stay.
local CLEAN <const> = [[for name in $(env | grep -aE '^(%s)[A-Za-z0-9_]*=' | grep -avE '^(%s)' | cut -d= -f1); do
unset "$name"; done; exec "$@"]]
local KEPT <const> = "OMPI_MCA_|PMIX_MCA_|SLURM_CONF=|SLURM_CLUSTERS=|SBATCH_ACCOUNT=|SBATCH_QOS=|SBATCH_RESERVATION="

---The argument list of a launcher's command without what a surrounding job has left in the environment.
---@param argv string[]
---@param own? string prefixes, as in "PMIX_|PMI_|OMPI_": default those of Slurm and MPI
---@return string[]
function commands.clean(argv, own)
  local script <const> = CLEAN:format(own or "SLURM_|SBATCH_|PMIX_|PMI_|OMPI_", KEPT)
  return table.move(argv, 1, #argv, 5, {"sh", "-c", script, "sh"})
end

local NOT_FOUND <const> = 127

---@param argv string[]
---@param directory string for its output, until it has been read
---@return string|nil output what it wrote to stdout; nil: it failed
---@return table? err with its last lines; err.unknown: it may have done its work all the same
function commands.run(argv, directory)
  serial = serial + 1
  local path <const> = ("%s/command-%d"):format(directory, serial)
  local line <const> = table.move({"sh", "-c", 'exec "$@" >"$0.out" 2>"$0.err"', path}, 1, 4, 1, {})
  local process, why = core.process(table.move(commands.clean(argv), 1, #argv + 4, 5, line))
  if not process then return nil, errors.from(why, "T1005") end
  local deadline <const> = core.now() + LIMIT_S
  local ended = process:ended()
  while not ended and core.now() < deadline do
    core.sleep(POLL_S)
    ended = process:ended()
  end
  if not ended then process:signal(9) end
  local output <const>, said <const> = core.file_read(path .. ".out") or "", core.file_read(path .. ".err") or ""
  core.file_remove(path .. ".out")
  core.file_remove(path .. ".err")
  if ended and ended.status == 0 and (ended.signal or 0) == 0 then return output end
  if ended and ended.status == NOT_FOUND then
    return nil, errors.new("T1005", {message = ("%s cannot be started"):format(argv[1]),
      help = "is it installed, and in $PATH?"})
  end
  local last = (output .. said):gsub("%s+$", ""):match "([^\n]*\n?[^\n]*)$" or ""
  return nil, errors.new("T1005", {unknown = not ended or nil, message = ("%s %s%s"):format(argv[1],
    ended and ("ended with exit code %d"):format(ended.status or -1) or ("did not end within %d s"):format(LIMIT_S),
    last ~= "" and ": " .. last or "")})
end

---The command line of one node, as every kind starts it.
---@param o {program?: string, endpoint: string, cluster: string, workers?: integer, keys?: string, grace_s?: number,
---  silence?: number, no_store?: boolean}
---@param name string
---@return string[]
function commands.node(o, name)
  local argv <const> = {o.program or commands.program(), "node", "--join", o.endpoint, "--cluster", o.cluster, "--name",
                        name, "--workers", tostring(o.workers or 1)}
  local function add(...) table.move({...}, 1, select("#", ...), #argv + 1, argv) end
  if o.keys then add("--keys", o.keys) end
  if o.grace_s then add("--grace", ("%ds"):format(math.max(math.floor(o.grace_s), 1))) end
  if o.silence then add("--silence", ("%gs"):format(o.silence)) end
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
