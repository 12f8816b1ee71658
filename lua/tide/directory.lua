-- The directory of a cluster of `tide up`: where the cluster is, and which processes it has. It is called as the
-- cluster and lies, with mode 0700, under $XDG_RUNTIME_DIR/tide or /tmp/tide-<uid>: a process that can write there
-- could pose as a node, so it is used only if it is this user's alone.
local core = require "tide.core"
local errors = require "tide.errors"

local directory = {}

local function read_text(path)
  local file <close> = io.open(path, "rb")
  return file and file:read("a") or nil
end

---Start time of a process in clock ticks: a pid alone may have been given to another.
---@param pid integer
---@return string|nil
local function start_time(pid)
  local stat = read_text(("/proc/%d/stat"):format(pid))
  -- The name in brackets may hold blanks; fields are counted behind it, state is the third.
  local rest = stat and stat:match("^.*%) (.*)$")
  if not rest then return nil end
  local index = 2
  local state
  for field in rest:gmatch("%S+") do
    index = index + 1
    if index == 3 then state = field end
    if index == 22 then return state ~= "Z" and field or nil end
  end
  return nil
end

---@return string holds a directory for each running cluster of this user; see runtime/port/run_directory.h
function directory.base()
  local path, err = core.run_directory()
  return path or error(errors.from(err), 0)
end

---@param name string of a cluster
---@return string path
function directory.of(name) return directory.base() .. "/" .. name end

local function refuse(err, path, state)
  error(errors.new(err.name == "EACCES" and "T0405" or "T0403", {message = err.message, where = path, state = state,
    exit = 2, help = "remove it, or let XDG_RUNTIME_DIR name a directory of yours"}), 0)
end

---The path of a cluster, to read what lies there: nothing there is believed, and no process signalled, unless it and
---the directory above it are private.
local function private(name)
  local paths <const> = {directory.base()}
  if name then paths[2] = paths[1] .. "/" .. name end
  for _, path in ipairs(paths) do
    local ok, err = core.private_directory(path, false)
    if not ok and err.name == "ENOENT" then return nil end
    if not ok then refuse(err, path, "nothing in it was used") end
  end
  return paths[#paths]
end

---@param name string
---@return true|nil, table? err
function directory.make(name)
  for _, path in ipairs {directory.base(), directory.of(name)} do
    local ok, err = core.private_directory(path, true)
    if not ok then
      return nil, errors.new("T0403", {message = ("the run directory cannot be made: %s"):format(err.message),
        where = path, help = "XDG_RUNTIME_DIR must name a directory of yours; without it /tmp is used"})
    end
  end
  return true
end

---Until it is closed, no other process prepares this cluster.
---@param name string that directory.make has made
---@return {close: fun()}|nil lock, table? err EBUSY: another one does
function directory.lock(name) return core.lock(directory.of(name) .. "/lock") end

---Writes what others need to find a cluster: endpoint, and pid with start time of its processes.
---@param name string
---@param endpoint string several: one a line
---@param pids integer[] its controller's first
---@param owner? string "run ID" or "program NAME": what it belongs to and ends with
---@param program? string what its processes run, if not this program
---@return true|nil, table? err
function directory.publish(name, endpoint, pids, owner, program)
  local path <const> = directory.of(name)
  local ok, err = directory.make(name)
  if not ok then return nil, err end
  local lines = {}
  for _, pid in ipairs(pids) do lines[#lines + 1] = ("%d %s %s"):format(pid, start_time(pid) or "0", program or "") end
  ok, err = true, nil
  if owner then ok, err = core.file_write(path .. "/owner", owner .. "\n") end
  if ok then ok, err = core.file_write(path .. "/pids", table.concat(lines, "\n") .. "\n") end
  if ok then ok, err = core.file_write(path .. "/endpoint", endpoint .. "\n") end
  return ok, err
end

---@param name string
function directory.unpublish(name)
  local path <const> = private(name)
  if not path then return end
  core.file_remove(path .. "/endpoint")
  core.file_remove(path .. "/pids")
  core.file_remove(path .. "/owner")
end

---Removes the directory of a cluster that has ended with its run; the audit logs of its nodes go to the run's.
---@param name string
---@param to string directory
function directory.retire(name, to)
  directory.unpublish(name)
  local path <const> = directory.of(name)
  for _, file in ipairs(core.file_list(path) or {}) do
    local content <const> = file:find "^audit%-" and core.file_read(path .. "/" .. file)
    if content and core.file_write(to .. "/" .. file, content, true) then core.file_remove(path .. "/" .. file) end
  end
  core.file_remove(path) -- if nothing else is in it
end

---@param name string
---@return string? owner what the cluster belongs to: "run ID", "program NAME"
function directory.owner_of(name)
  local path <const> = private(name)
  local owner <const> = path and read_text(path .. "/owner")
  return owner and owner:match "^[^\n]+"
end

---@return integer pid of this process
function directory.own_pid()
  return math.tointeger((read_text("/proc/self/stat") or "0"):match("^(%d+)")) or 0
end

---An identity of this process among all others, of other machines and other times too.
---@return string mark
function directory.process_mark()
  local pid <const> = directory.own_pid()
  return ("%s.%d.%s"):format(core.machine().id:sub(1, 12), pid, start_time(pid) or "0")
end

---@param mark string of directory.process_mark
---@return boolean whether that process runs, on this machine
function directory.runs_process(mark)
  local machine <const>, pid, started = mark:match "^([^.]*)%.(%d+)%.(%d+)$"
  return machine == core.machine().id:sub(1, 12) and start_time(math.tointeger(tonumber(pid))) == started
end

---@return string[] names of this user's clusters whose controller runs
function directory.running()
  local names = {}
  for _, name in ipairs(private() and core.file_list(directory.base()) or {}) do
    if directory.pids(name)[1] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

---The cluster of this user that runs, when there is one: of those that stay, else of runs and programs.
---@return string? name
---@return string? problem why there is none to name
---@return boolean? several
function directory.only()
  local names, owned = {}, {}
  for _, name in ipairs(directory.running()) do
    local list <const> = directory.owner_of(name) and owned or names
    list[#list + 1] = name
  end
  names = names[1] and names or owned
  if #names > 1 then return nil, "several clusters run: " .. table.concat(names, ", "), true end
  return names[1], "no cluster of yours runs", false
end

---Processes of a cluster as they were published.
---@return {pid: integer, runs: boolean, stopped: boolean}[] runs: it is still that process, of this user and this
---  program; stopped: by a signal or a debugger
local function processes(name)
  local path <const> = private(name)
  local list = {}
  for pid, started, program in (path and read_text(path .. "/pids") or ""):gmatch("(%d+) (%d+) ?([^\n]*)") do
    local number <const> = math.tointeger(tonumber(pid))
    list[#list + 1] = {pid = number, runs = start_time(number) == started
      and core.own_process(number, program ~= "" and program or nil),
      stopped = (read_text(("/proc/%d/stat"):format(number)) or ""):find "^%d+ %(.*%) [Tt] " ~= nil}
  end
  return list
end

---@param name string
---@return integer[] pids of the cluster's processes that still run, controller first
function directory.pids(name)
  local pids = {}
  for _, process in ipairs(processes(name)) do
    if process.runs then pids[#pids + 1] = process.pid end
  end
  return pids
end

local function lock_if_made(name)
  if core.file_read(directory.of(name) .. "/lock") then return directory.lock(name) end
  return nil
end

-- A cluster whose name may come again keeps its directory, for its lock and its logs.
local function forget(name)
  local path <const> = directory.of(name)
  local lock <close>, busy = lock_if_made(name)
  if busy or not core.sweep_directory(path) then return end
  directory.unpublish(name)
  if not lock then core.file_remove(path) end -- if nothing else is in it
end

---Removes what processes that were killed have left in the run directory: sockets, addresses, empty directories.
function directory.sweep()
  local ok, there = pcall(private)
  for _, name in ipairs(ok and there and core.file_list(there) or {}) do
    local private_one <const> = core.private_directory(there .. "/" .. name, false)
    if private_one and not directory.pids(name)[1] then forget(name) end
  end
end

---Where the cluster can be entered: one endpoint, its controller's, or one of each process that still runs. Those that
---are stopped come last: the kernel accepts connections to them, and no hello is answered.
---@param name string
---@return string[] endpoints
---@return boolean replicated the controllers are several
function directory.endpoints(name)
  local all, alive = {}, {}
  local path <const> = private(name)
  for line in (path and read_text(path .. "/endpoint") or ""):gmatch("[^\n]+") do all[#all + 1] = line end
  if #all <= 1 then return all, false end
  local list <const> = processes(name)
  for _, stopped in ipairs {false, true} do
    for i, process in ipairs(list) do
      if process.runs and process.stopped == stopped then alive[#alive + 1] = all[i] end
    end
  end
  return alive, true
end

return directory
