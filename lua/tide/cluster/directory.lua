-- The directory of a cluster of `tide up`: where the cluster is, and which processes it has. It is called as the
-- cluster and lies, with mode 0700, under $XDG_RUNTIME_DIR/tide or /tmp/tide-<uid>.
local core = require "tide.core"
local errors = require "tide.errors"

local directory = {}

local PRIVATE <const> = 448 -- 0700: who can write there could pose as a node

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

local function user_id()
  return (read_text("/proc/self/status") or ""):match("\nUid:%s*(%d+)") or "0"
end

---@return string directory that holds a directory for each running cluster of this user
function directory.base()
  local runtime = os.getenv("XDG_RUNTIME_DIR")
  -- The rule of node.c, which puts sockets there: their paths must be absolute and short.
  if runtime and runtime:find("^/") and #runtime < 64 then return runtime .. "/tide" end
  return "/tmp/tide-" .. user_id()
end

---@param name string of a cluster
---@return string path
function directory.of(name) return directory.base() .. "/" .. name end

---@param name string
---@return true|nil, table? err
function directory.make(name)
  for _, path in ipairs {directory.base(), directory.of(name)} do
    local ok, err = core.mkdir(path, PRIVATE)
    if not ok then
      return nil, errors.new("T0403", {message = ("the run directory cannot be made: %s"):format(err.message),
        where = path, help = "$XDG_RUNTIME_DIR must be a directory of yours; without it /tmp is used"})
    end
  end
  return true
end

---Writes what others need to find a cluster: endpoint, and pid with start time of its processes.
---@param name string
---@param endpoint string several: one a line
---@param pids integer[] its controller's first
---@return true|nil, table? err
function directory.publish(name, endpoint, pids)
  local path <const> = directory.of(name)
  local ok, err = directory.make(name)
  if not ok then return nil, err end
  local lines = {}
  for _, pid in ipairs(pids) do lines[#lines + 1] = ("%d %s"):format(pid, start_time(pid) or "0") end
  ok, err = core.file_write(path .. "/pids", table.concat(lines, "\n") .. "\n")
  if ok then ok, err = core.file_write(path .. "/endpoint", endpoint .. "\n") end
  return ok, err
end

---@param name string
function directory.unpublish(name)
  local path <const> = directory.of(name)
  core.file_remove(path .. "/endpoint")
  core.file_remove(path .. "/pids")
end

---@return integer pid of this process
function directory.own_pid()
  return math.tointeger((read_text("/proc/self/stat") or "0"):match("^(%d+)")) or 0
end

---@return string[] names of this user's clusters whose controller runs
function directory.running()
  local names = {}
  for _, name in ipairs(core.file_list(directory.base()) or {}) do
    if directory.pids(name)[1] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

---The cluster of this user that runs, when there is one.
---@return string? name
---@return string? problem why there is none to name
---@return boolean? several
function directory.only()
  local names <const> = directory.running()
  if #names > 1 then return nil, "several clusters run: " .. table.concat(names, ", "), true end
  return names[1], "no cluster of yours runs", false
end

---@param name string
---@return integer[] pids of the cluster's processes that still run, controller first; a reused pid is not counted
function directory.pids(name)
  local pids = {}
  for pid, started in (read_text(directory.of(name) .. "/pids") or ""):gmatch("(%d+) (%d+)") do
    local number = math.tointeger(tonumber(pid))
    if start_time(number) == started then pids[#pids + 1] = number end
  end
  return pids
end

---Where the cluster can be entered: one endpoint, its controller's, or one of each process that still runs.
---@param name string
---@return string[] endpoints
---@return boolean replicated the controllers are several
function directory.endpoints(name)
  local all, alive = {}, {}
  for line in (read_text(directory.of(name) .. "/endpoint") or ""):gmatch("[^\n]+") do all[#all + 1] = line end
  if #all <= 1 then return all, false end
  local i = 0
  for pid, started in (read_text(directory.of(name) .. "/pids") or ""):gmatch("(%d+) (%d+)") do
    i = i + 1
    if start_time(math.tointeger(tonumber(pid))) == started then alive[#alive + 1] = all[i] end
  end
  return alive, true
end

return directory
