-- What of a machine matters to Tide, looked at one by one: `tide doctor`.
--
-- A check gives {status, value, remedy}: "ok", "warn" (it works, worse than it could) or "fail" (it will not work). It
-- reads what the kernel says in /proc and /sys; what is not there is not checked.
local core = require "tide.core"
local errors = require "tide.errors"
local history = require "tide.console.history"
local units = require "tide.units"

local doctor = {}

---@class tide.check
---@field check string what was looked at
---@field status "ok"|"warn"|"fail"
---@field value string what was found
---@field remedy? string what to do

local FILES_LEAST <const>, FILES_GOOD <const> = 256, 4096
local MAPS_GOOD <const> = 65530
local SYNC_SLOW_S <const> = 0.05
local KEYS_SOON_S <const> = 14 * 24 * 3600
local SKEW_S <const> = 1
local TRIP_S <const> = 0.05
local FAST_CLOCKS <const> = {tsc = true, ["kvm-clock"] = true, arch_sys_counter = true,
                             hyperv_clocksource_tsc_page = true}
local SHARED_LEAST <const> = 64 << 20
local LOCKED_LEAST <const> = 1 << 20 -- Debian gives 8 MiB
local ROOM_LEAST <const>, ROOM_GOOD <const> = 64 << 20, 1 << 30

---@param path string
---@return string|nil
function doctor.read(path)
  local file <const> = io.open(path)
  if not file then return nil end
  local content <const> = file:read "a"
  file:close()
  return content
end

local function ok(value) return {status = "ok", value = value} end
local function warn(value, remedy) return {status = "warn", value = value, remedy = remedy} end
local function bad(value, remedy) return {status = "fail", value = value, remedy = remedy} end

local function limit_of(name)
  local soft <const> = (doctor.read "/proc/self/limits" or ""):match(name .. " +(%S+)")
  if soft == "unlimited" then return math.huge end
  return tonumber(soft)
end

-- Where Tide writes by default: sockets and logs of clusters, histories of runs, the console's lines.
local function places(o)
  local list = {o.directory or "."}
  local run <const> = core.run_directory()
  list[#list + 1] = run and run:match "^(.*)/[^/]+$"
  local lines <const> = history.path(os.getenv)
  list[#list + 1] = lines and lines:match "^(.*)/tide/[^/]+$"
  return list
end

---- checks, in order -------------------------------------------------------------------------------------------------

-- {name, f(o)}; f gives nil where there is nothing to say.
local CHECKS <const> = {
  {"version", function()
    local build <const> = core.build()
    return ok(("tide %s, %s, libuv %s"):format(core.version, build.lua or "Lua", build.libuv or "?"))
  end},
  {"processors", function()
    local count <const> = core.machine().processors
    local quota <const>, period <const> = (doctor.read "/sys/fs/cgroup/cpu.max" or ""):match "^(%d+) (%d+)"
    local allowed <const> = quota and quota / period
    if allowed and allowed < count then
      return warn(("%d, of which the cgroup allows %.1f"):format(count, allowed),
        ("give nodes at most %d workers in all, or raise cpu.max"):format(math.max(1, allowed // 1 | 0)))
    end
    local ready <const> = tonumber((doctor.read "/proc/loadavg" or ""):match "^%S+ %S+ %S+ (%d+)/")
    if ready and ready > 2 * count + 1 then
      return warn(("%d, and %d threads are runnable"):format(count, ready),
        "other work runs on this machine: figures of it say little, beats may come late")
    end
    return ok(tostring(count))
  end},
  {"memory", function()
    local info <const> = doctor.read "/proc/meminfo"
    local free <const> = info and tonumber(info:match "MemAvailable: +(%d+)")
    local cap <const> = tonumber((doctor.read "/sys/fs/cgroup/memory.max" or ""):match "^(%d+)")
    if not free then return nil end
    local value = units.format_size(free << 10) .. " available"
    if cap and cap < free << 10 then
      value = ("%s, of which the cgroup allows %s"):format(value, units.format_size(cap))
    end
    if free << 10 < 512 << 20 then return warn(value, "end what takes it, or give nodes a cap: --memory") end
    if cap and cap < free << 10 then
      return warn(value, "give nodes a cap below that, --memory, or the kernel ends them")
    end
    return ok(value)
  end},
  {"open files", function()
    local limit <const> = limit_of "Max open files"
    if not limit then return nil end
    local value <const> = limit == math.huge and "unlimited" or ("%d"):format(limit)
    if limit < FILES_LEAST then return bad(value, "ulimit -n 4096: every link takes one") end
    if limit < FILES_GOOD then return warn(value, "ulimit -n 4096, for clusters of hundreds of nodes") end
    return ok(value)
  end},
  {"processes", function()
    local limit <const> = limit_of "Max processes"
    if not limit then return nil end
    local value <const> = limit == math.huge and "unlimited" or ("%d"):format(limit)
    if limit < 64 then return bad(value, "ulimit -u 1024: a node has some threads") end
    return ok(value)
  end},
  {"locked memory", function()
    local limit <const> = limit_of "Max locked memory"
    if not limit then return nil end
    local value <const> = limit == math.huge and "unlimited" or units.format_size(limit // 1 | 0)
    if limit < LOCKED_LEAST then
      return warn(value, "ulimit -l 65536: drivers of GPUs and fast networks lock memory; Tide itself locks none")
    end
    return ok(value)
  end},
  {"memory maps", function()
    local count <const> = tonumber((doctor.read "/proc/sys/vm/max_map_count" or ""))
    if not count then return nil end
    if count < MAPS_GOOD then
      return warn(("%d"):format(count), "sysctl vm.max_map_count=65530: each fiber's stack takes two")
    end
    return ok(("%d"):format(count))
  end},
  {"huge pages", function()
    local mode <const> = (doctor.read "/sys/kernel/mm/transparent_hugepage/enabled" or ""):match "%[(%l+)%]"
    if not mode then return nil end
    if mode == "never" then
      return warn(mode, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large tables are read faster")
    end
    return ok(mode)
  end},
  {"shared memory", function()
    local mounts <const> = doctor.read "/proc/mounts"
    if not mounts then return nil end
    local options <const> = mounts:match "\n?%S+ /dev/shm tmpfs (%S+)"
    if not options then
      return warn("/dev/shm is no tmpfs", "mount it: nodes of one machine then talk through rings instead of sockets")
    end
    local size <const> = tonumber(options:match "size=(%d+)k")
    if size and size << 10 < SHARED_LEAST then
      return warn(units.format_size(size << 10), "give it 64 MiB or more (docker run --shm-size=1g)")
    end
    if not (options .. ","):find "^rw," then return warn("/dev/shm is read-only", "mount it writable") end
    return ok(size and units.format_size(size << 10) or "/dev/shm")
  end},
  {"run directory", function()
    local path, err = core.run_directory()
    if path then
      local made, problem = core.private_directory(path, true)
      if made then return ok(path) end
      err = problem
    end
    return bad(errors.from(err).message, "set XDG_RUNTIME_DIR to a directory that only you may write to")
  end},
  {"history", function(o)
    local root <const> = o.directory or "."
    local path <const> = root .. "/.tide-doctor"
    local began <const> = core.now()
    local written, err = core.file_write(path, ("x"):rep(4096))
    local took <const> = core.now() - began
    if not written then
      return bad(errors.from(err).message, "run scripts in a directory that you may write to: .tide/runs is made there")
    end
    core.file_remove(path)
    local value <const> = ("a file is safe on disk after %s"):format(units.format_duration(took))
    if took > SYNC_SLOW_S then return warn(value, "put checkpoints and run directories on a faster disk") end
    return ok(value)
  end},
  {"free space", function(o)
    local least, where
    local full = {}
    for _, place in ipairs(places(o)) do
      local free <const> = core.disk_room(place)
      if free then
        if free < ROOM_LEAST then full[#full + 1] = place end
        if not least or free < least then least, where = free, place end
      end
    end
    if not least then return nil end
    local value <const> = ("%s in %s"):format(units.format_size(least), where)
    if #full > 0 then
      return bad(value, "make room in " .. table.concat(full, ", ") .. ": histories, checkpoints and logs are cut off")
    end
    if least < ROOM_GOOD then
      return warn(value, "make room, or take another disk: a checkpoint is as large as its tables")
    end
    return ok(value)
  end},
  {"clock", function()
    local source <const> = (doctor.read "/sys/devices/system/clocksource/clocksource0/current_clocksource" or "")
      :match "^%S+"
    if not source then return nil end
    if not FAST_CLOCKS[source] then
      return warn(source, "a clock that is slow to read: each span and wait reads it twice")
    end
    return ok(source)
  end},
  {"BLAS", function()
    local cpu <const> = core.build().cpu or {}
    if not cpu.blas then return warn("none", "install libopenblas0: matrix products are computed without it") end
    local value <const> = ("%s%s%s"):format(cpu.blas, cpu.core and ", core " .. cpu.core or "",
      cpu.rate and ", " .. cpu.rate or "")
    if (cpu.core or ""):lower() == "prescott" or (cpu.core or ""):lower() == "generic" then
      return warn(value, "OpenBLAS does not know this processor: OPENBLAS_CORETYPE=Haswell, or a newer one")
    end
    return ok(value)
  end},
  {"GPU", function()
    local cuda <const> = core.build().cuda or {}
    if cuda.available then return ok(cuda.device or "there is one") end
    local seen <const> = doctor.read "/proc/driver/nvidia/version" ~= nil
    local reason <const> = cuda.reason or "none"
    if seen then return warn(reason, "there is a driver: see `tide version -v` for what is missing") end
    return ok("none: " .. reason)
  end},
  {"keys", function(o)
    local list <const> = o.keys and require("tide.cluster.keys").show(o.keys)
    if not list or #list == 0 then return nil end
    local soonest
    for _, key in ipairs(list) do
      if key.state == "expired" then
        return warn(("those of %s ended on %s"):format(key.name, key.ends), "tide keys issue makes new ones")
      elseif key.state == "valid" and (not soonest or key.until_s < soonest.until_s) then
        soonest = key
      end
    end
    if not soonest then return warn("all are revoked", "tide keys issue makes new ones") end
    if soonest.until_s - os.time() < KEYS_SOON_S then
      return warn(("those of %s end on %s"):format(soonest.name, soonest.ends), "tide keys issue makes new ones")
    end
    return ok(("valid until %s"):format(soonest.ends))
  end},
  {"clusters", function()
    local names <const> = require("tide.directory").running()
    return ok(#names == 0 and "none of yours runs here" or table.concat(names, ", "))
  end},
}

-- An address that a node is to listen on: it is tried.
local function listens(address)
  local started, err = core.node_start {cluster = "doctor", listen = address, workers = 0, no_store = true}
  if not started then
    return bad(errors.from(err).message, "take another port, end its user, or give --keys for other machines")
  end
  core.node_stop(0)
  return ok(address)
end

-- Members of the cluster that this process is attached to: their clocks and how far they are.
local function of_members(snapshot, list)
  for _, node in ipairs(snapshot.nodes) do
    local name <const> = "node " .. node.name
    local row
    if not node.up and node.state ~= "left" then
      row = bad(("%s, does not answer"):format(node.state), "see `tide log --node` and its machine")
    elseif node.wall then
      local skew <const> = node.wall - node.asked_wall
      local value <const> = ("round trip %s, clock %+.0f ms"):format(units.format_duration(node.trip_s), 1000 * skew)
      if math.abs(skew) > SKEW_S + node.trip_s then
        row = warn(value, "set its clock (ntp): logs and histories cannot be laid over each other")
      elseif node.trip_s > TRIP_S then
        row = warn(value, "far away or very busy: `tide why` says whether it matters")
      else
        row = ok(value)
      end
    end
    if row then
      row.check = name
      list[#list + 1] = row
    end
  end
end

---@param o {directory?: string, keys?: string, listen?: string, snapshot?: tide.snapshot}
---@return tide.check[]
function doctor.look(o)
  local list = {}
  local function add(name, f, ...)
    local done, row = pcall(f, ...)
    if not done then row = warn(errors.from(row).message, "this check itself failed: please report it") end
    if row then
      row.check = name
      list[#list + 1] = row
    end
  end
  for _, check in ipairs(CHECKS) do add(check[1], check[2], o) end
  if o.listen then add("address", listens, o.listen) end
  if o.snapshot then of_members(o.snapshot, list) end
  return list
end

return doctor
