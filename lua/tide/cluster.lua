-- Clusters: node processes on this machine (for a run, or left behind by `tide up`), and how one attaches to them.
--
-- A run's cluster lives in the driver's process tree: the driver is the controller node, every worker node a child
-- that dies with it. A cluster of `tide up` is one detached controller process whose children are the nodes; its run
-- directory (mode 0700, under $XDG_RUNTIME_DIR/tide or /tmp/tide-<uid>) tells where it is and which processes it has.
local core = require "tide.core"
local errors = require "tide.errors"
local job = require "tide.job"
local text = require "tide.text"
local units = require "tide.units"

local cluster = {}
cluster.__index = cluster

local JOIN_S <const> = 10
local CLOSE_S <const> = 3
local DOWN_S <const> = 30
local POLL_S <const> = 0.02
local PROCESSES_MAX <const> = 256
local SIMULATED_MAX <const> = 4000

cluster.context = nil ---@type table|nil what the driver knows: options of the command, script, run id

---- small things --------------------------------------------------------------------------------------------------

local function read_text(path)
  local file <close> = io.open(path, "rb")
  return file and file:read("a") or nil
end

---The program of this process, to start nodes with: how it was called, seen from the program's own state.
---@return string
local function program()
  local context = cluster.context
  return context and context.program or cluster.program or (arg and arg[0]) or "/proc/self/exe"
end

local function shell_quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

---Start time of a process in clock ticks: a pid alone may have been given to another.
---@param pid integer
---@return string|nil
function cluster.start_time(pid)
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
function cluster.base_directory()
  local runtime = os.getenv("XDG_RUNTIME_DIR")
  -- The rule of node.c, which puts sockets there: their paths must be absolute and short.
  if runtime and runtime:find("^/") and #runtime < 64 then return runtime .. "/tide" end
  return "/tmp/tide-" .. user_id()
end

---@param name string
function cluster.directory(name) return cluster.base_directory() .. "/" .. name end

---Last lines of a node's log, for the error that its early end raises.
local function last_lines(path, count)
  local log = read_text(path) or ""
  local lines = {}
  for line in log:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return table.concat(lines, "\n", math.max(1, #lines - count + 1))
end

local function describe_end(ended)
  if ended.signal and ended.signal ~= 0 then return ("ended by signal %d"):format(ended.signal) end
  return ("ended with exit code %d"):format(ended.status or -1)
end

---- children ------------------------------------------------------------------------------------------------------

---A simulated node in place of a process, with the same face.
local function simulated_process(o)
  local handle = core.sim_node {name = o.name, cluster = o.cluster, join = o.endpoint, workers = o.workers,
                                no_store = o.no_store, queue_limit = o.queue_limit, memory = o.memory,
                                rate_operations = o.rate_operations, rate_bytes = o.rate_bytes}
  return {
    pid = function() return 0 end,
    signal = function() core.sim_kill(handle) end,
    ended = function() return core.sim_ended(handle) end,
  }
end

---@return table child {name, process, log}
local function start_child(o)
  if core.simulated() then return {name = o.name, process = simulated_process(o)} end
  local argv = {program(), "node", "--join", o.endpoint, "--cluster", o.cluster, "--name", o.name,
                "--workers", tostring(o.workers)}
  if o.no_store then argv[#argv + 1] = "--no-store" end
  for _, name in ipairs {"queue_limit", "memory", "rate_operations", "rate_bytes"} do
    if o[name] then table.move({"--" .. name:gsub("_", "-"), tostring(o[name])}, 1, 2, #argv + 1, argv) end
  end
  local process, err = core.process(argv, {output = o.log})
  if not process then error(errors.from(err, "T1001"), 0) end
  return {name = o.name, process = process, log = o.log}
end

local function child_failure(child, ended)
  local seen_before <const> = cluster.context and cluster.context.interrupts or 0
  if core.interrupted() > seen_before then -- a terminal's Ctrl-C goes to the nodes too, and one that starts just ends
    return errors.new("T0210", {message = ("interrupted before node %s had joined"):format(child.name),
                                state = "the other nodes were stopped"})
  end
  local tail = child.log and last_lines(child.log, 5) or ended.reason or ""
  return errors.new("T1001", {
    message = ("node %s %s before it had joined%s"):format(child.name, describe_end(ended),
      tail ~= "" and "; its log ends with:\n" .. tail or ""),
    where = child.log, node = child.name, state = "the other nodes were stopped"})
end

---Waits until all children are up members; raises with the log of the first that is not.
local function wait_up(children, timeout_s)
  local deadline = core.now() + timeout_s
  while true do
    local up = {}
    for _, member in ipairs(core.members()) do
      if member.state == "up" then up[member.name] = true end
    end
    local missing
    for _, child in ipairs(children) do
      local ended = child.process:ended()
      if ended then error(child_failure(child, ended), 0) end
      if not up[child.name] then missing = missing or child end
    end
    if not missing then return end
    if core.now() > deadline then
      error(errors.new("T1001", {message = ("node %s has not joined after %g s"):format(missing.name, timeout_s),
                                 where = missing.log, node = missing.name}), 0)
    end
    core.sleep(POLL_S)
  end
end

local function wait_ended(children, timeout_s)
  local deadline = core.now() + timeout_s
  while true do
    local running = {}
    for _, child in ipairs(children) do
      if not child.process:ended() then running[#running + 1] = child end
    end
    if #running == 0 or core.now() > deadline then return running end
    core.sleep(POLL_S)
  end
end

---Waits until this node knows that they have ended: a second cluster of the script has nodes of the same names.
---@param members table[] with their ids
local function wait_members_gone(members, timeout_s)
  local deadline = core.now() + timeout_s
  while core.now() < deadline do
    local there = {}
    for _, member in ipairs(core.members()) do there[member.id] = member.state == "up" end
    local left
    for _, member in ipairs(members) do left = left or there[member.id] end
    if not left then return end
    core.sleep(POLL_S)
  end
end
cluster.wait_members_gone = wait_members_gone

---- the cluster of a run ------------------------------------------------------------------------------------------

---@param name string of a member
---@return string address of its agent
local function agent_of(name)
  local deadline = core.now() + 5
  while true do
    local address, err = core.whereis(name .. "/agent")
    if address then return address end
    if core.now() > deadline then error(errors.from(err), 0) end
    core.sleep(POLL_S)
  end
end

local function adopt_members(self)
  local members = {}
  local workers = 0
  for _, member in ipairs(core.members()) do
    local works = (member.workers or 0) > 0
    if member.state == "up" and (works or member.store) then
      members[#members + 1] = member
      workers = workers + (member.workers or 0)
    end
  end
  -- By name, n2 before n10: ids follow the order of joining, which differs from run to run.
  table.sort(members, function(a, b)
    if #a.name ~= #b.name then return #a.name < #b.name end
    return a.name < b.name
  end)
  if workers == 0 then
    error(errors.new("T0501", {message = "the cluster has no node with workers"}), 0)
  end
  for _, member in ipairs(members) do member.agent = agent_of(member.name) end
  self.members = members -- at last: finding the agents waits, and others look meanwhile
end

---out.json for the first cluster of a script, out-2.json for the second.
local function next_trace(context)
  context.traces = (context.traces or 0) + 1
  if context.traces == 1 then return context.trace end
  local base, extension = context.trace:match "^(.+)(%.%w+)$"
  return ("%s-%d%s"):format(base or context.trace, context.traces, extension or "")
end

local function size_of(o, name)
  if not o[name] then return nil end
  local size, why = units.parse_size(o[name])
  if not size then error(errors.new("T0113", {message = ("tide.cluster: %s: %s"):format(name, why)}), 3) end
  return size
end

local FIELDS <const> = {nodes = true, workers = true, servers = true, queue_limit = true, memory = true, rate = true,
                        controllers = true}
local RATE_FIELDS <const> = {operations = true, bytes = true}

local function check_fields(what, given, known)
  if type(given) ~= "table" then error(errors.new("T0113", what .. " wants a table of fields"), 4) end
  for key in pairs(given) do
    if not known[key] then
      error(errors.new("T0113", ("%s has no field `%s`"):format(what, tostring(key)),
        {help = text.did_you_mean(tostring(key), text.sorted_keys(known))}), 4)
    end
  end
end

local function rate_of(rate)
  if not rate then return {} end
  check_fields("`rate` of tide.cluster", rate, RATE_FIELDS)
  local operations <const> = rate.operations
  if operations and (math.type(operations) ~= "integer" or operations < 1) then
    error(errors.new("T0113", {message = "tide.cluster: rate.operations is a whole number a second"}), 3)
  end
  return {operations = operations, bytes = size_of(rate, "bytes")}
end

---Members c1, c2, ... beside this node, without rows and workers, to hold with it what the controller decides.
local function start_controllers(self, count)
  if count ~= 3 and count ~= 5 then
    error(errors.new("T0113", {message = "tide.cluster: controllers is 3 or 5: one or two of them may be lost"}), 0)
  end
  local node = core.node()
  for i = 1, count - 1 do
    local name = "c" .. i
    local child = start_child {endpoint = node.endpoint, cluster = node.cluster, name = name, workers = 0,
                               no_store = true, log = ("%s/node-%s.log"):format(self.context.directory, name)}
    self.controllers[i], self.children[#self.children + 1] = child, child
  end
end

---Until one of them commands: a run that begins then does not depend on its driver for decisions.
local function share_control(count)
  local ok, err = core.replicate(count)
  if not ok then
    local missing = err.name == "EUNSUPPORTED" or err.name == "EVERSION"
    error(missing and errors.new("T1004", {message = err.message}) or errors.from(err), 0)
  end
  local deadline = core.now() + JOIN_S
  local own = core.node().id
  while true do
    local controller = core.node().controller
    if controller ~= 0 and controller ~= own then return end
    if core.now() > deadline then
      error(errors.new("T1001", {message = ("no other controller commands after %g s"):format(JOIN_S)}), 0)
    end
    core.sleep(POLL_S)
  end
end

---tide.cluster{}: starts node processes on this machine and waits until they have joined. With `tide run --cluster`
---nothing is started: the nodes are those of that cluster.
---@param o {nodes?: integer, workers?: integer, servers?: integer, queue_limit?: string|integer,
---  memory?: string|integer, rate?: {operations?: integer, bytes?: string|integer}, controllers?: integer}
---  servers: so many nodes of their own hold the rows (s1, s2, ...), and the nodes of workers none: their loss then
---  costs no rows; queue_limit: "64MiB", what each node may have under way of its workers' operations;
---  memory: "2GiB", what each node may hold of tables and queues; rate: what each node may ask of others in a second;
---  controllers: 3 or 5 nodes, this one and c1, c2, ..., hold what the controller decides, and when it ends another
---  one goes on
---@return table cluster to be closed
function cluster.new(o)
  o = o or {}
  local context = cluster.context
  if not context then
    error(errors.new("T0113", {message = "tide.cluster works in tide.main, on the driver"}), 2)
  end
  check_fields("tide.cluster", o, FIELDS)
  local count = o.nodes or context.nodes or 2
  local workers = o.workers or context.workers or 1
  local servers = o.servers or 0
  local queue_limit <const>, memory <const> = size_of(o, "queue_limit"), size_of(o, "memory")
  local rate <const> = rate_of(o.rate)
  local most = core.simulated() and SIMULATED_MAX or PROCESSES_MAX
  if math.type(count) ~= "integer" or count < 1 or math.type(servers) ~= "integer" or servers < 0
    or count + servers > most or math.type(workers) ~= "integer" or workers < 1 then
    error(errors.new("T0113", {message = ("tide.cluster wants 1 to %d nodes, servers included, and at least one "
      .. "worker each"):format(most)}), 2)
  end
  local self = setmetatable({context = context, servers_max = most - count, run_id = context.run, children = {},
                             controllers = {}, runs = {}}, cluster)
  context.clusters[#context.clusters + 1] = self
  if not context.attached then
    local node = core.node()
    local ok, err = pcall(function()
      if o.controllers then start_controllers(self, o.controllers) end
      for i = 1, servers + count do
        local serves = i <= servers
        local name = serves and "s" .. i or "n" .. i - servers
        self.children[#self.children + 1] = start_child {
          endpoint = node.endpoint, cluster = node.cluster, name = name, workers = serves and 0 or workers,
          no_store = servers > 0 and not serves, log = ("%s/node-%s.log"):format(context.directory, name),
          queue_limit = queue_limit, memory = memory, rate_operations = rate.operations, rate_bytes = rate.bytes,
        }
      end
      wait_up(self.children, JOIN_S)
      if o.controllers then share_control(o.controllers) end
    end)
    if not ok then
      self:close()
      error(err, 0)
    end
  end
  adopt_members(self)
  if context.announce then context.announce(self) end
  if context.trace then self.tracing = self:trace(next_trace(context)) end
  return self
end

---Records what the nodes do until the trace is closed, which writes `path` for ui.perfetto.dev:
---`local trace <close> = cluster:trace "out.json"`. One at a time.
---@param path string
---@return table trace
function cluster:trace(path) return require("tide.trace").start(path, self:agents()) end

---In the order in which tables of slots = "range" deal out their keys, which is by id: so the first worker is where
---the first keys are.
---@return table[] {name, id, agent, workers} of the nodes that have workers or rows
function cluster:agents()
  local list = {}
  for i, member in ipairs(self.members) do
    list[i] = {name = member.name, id = member.id, agent = member.agent, workers = member.workers,
               store = member.store}
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

require("tide.elastic").extend(cluster, {
  start_child = start_child, wait_up = wait_up, wait_ended = wait_ended, adopt_members = adopt_members,
  join_s = JOIN_S, nodes_max = PROCESSES_MAX,
})

---@param job_ tide.job
---@param params? table
---@return tide.run
function cluster:start(job_, params) return require("tide.run").start(self, job_, params) end

---@return table[] members
function cluster.nodes()
  local list = {}
  for _, member in ipairs(core.members()) do list[#list + 1] = member end
  return list
end

---@param name string
---@return table|nil handle, table? err
function cluster.table(_, name) return core.table_find(name) end

---Writes all tables to a directory while workers go on.
---@param o string|{dir: string, cut?: "clock"|"fuzzy", keep?: integer}
---@return table info {generation, clock, cut, full, rows, bytes, took_s}
function cluster.checkpoint(_, o)
  if type(o) == "string" then o = {dir = o} end
  local settings, problem = require("tide.checkpoint").settings {dir = o.dir, keep = o.keep, cut = o.cut}
  if not settings then error(errors.new("T0708", {message = problem}), 2) end
  local info, err = require("tide.checkpoint").save(settings)
  if not info then error(err, 2) end
  return info
end

---Brings all tables back to what they were; no worker should run.
---@param dir string
---@param generation? integer default: the newest that is whole
---@return table restored {generation, cut, clock, rows, skipped}
function cluster.restore(_, dir, generation)
  local restored, err = require("tide.checkpoint").restore(dir, generation)
  if not restored then error(err, 2) end
  return restored
end

---Ends the runs and, if this process started them, the nodes.
function cluster:close()
  if self.closed or self.context.stays then return end -- the console that follows the script looks at it
  self.closed = true
  for _, run in ipairs(self.runs) do pcall(run.cancel, run) end
  if self.tracing then
    local ok, err = pcall(self.tracing.close, self.tracing)
    if not ok then core.log("error", errors.from(err).message) end
  end
  if #self.children == 0 then return end
  local ours <const>, ids <const> = {}, {}
  for _, child in ipairs(self.children) do ours[child.name] = true end
  for _, member in ipairs(core.members()) do
    if ours[member.name] and member.state == "up" then ids[#ids + 1] = member.id end
  end
  core.ends(ids)
  for _, member in ipairs(self.members or {}) do core.send(member.agent, {op = "quit", leave = false}) end
  if #(self.controllers or {}) > 0 then wait_members_gone(self.members or {}, CLOSE_S) end -- one of them knows why
  for _, child in ipairs(self.members and self.controllers or self.children) do child.process:signal(15) end
  for _, child in ipairs(wait_ended(self.children, CLOSE_S)) do child.process:signal(9) end
  wait_ended(self.children, 1)
  wait_members_gone(self.members or {}, CLOSE_S)
  core.tables_forget() -- their rows went with the nodes: the script's next cluster makes its own
end

cluster.__close = cluster.close

---- `tide node` ---------------------------------------------------------------------------------------------------

local AGENT <const> = [[return require("tide.agent").main(...)]]

local PRIVATE <const> = 448 -- 0700: who can write there could pose as a node

---@return true|nil, table? err
local function make_directories(name)
  for _, path in ipairs {cluster.base_directory(), cluster.directory(name)} do
    local ok, err = core.mkdir(path, PRIVATE)
    if not ok then
      return nil, errors.new("T0403", {message = ("the run directory cannot be made: %s"):format(err.message),
        where = path, help = "$XDG_RUNTIME_DIR must be a directory of yours; without it /tmp is used"})
    end
  end
  return true
end

---Writes what others need to find a cluster: endpoint, and pid with start time of its processes.
local function publish(name, endpoint, pids)
  local directory = cluster.directory(name)
  local ok, err = make_directories(name)
  if not ok then return nil, err end
  local lines = {}
  for _, pid in ipairs(pids) do lines[#lines + 1] = ("%d %s"):format(pid, cluster.start_time(pid) or "0") end
  ok, err = core.file_write(directory .. "/pids", table.concat(lines, "\n") .. "\n")
  if ok then ok, err = core.file_write(directory .. "/endpoint", endpoint .. "\n") end
  return ok, err
end

local function unpublish(name)
  local directory = cluster.directory(name)
  core.file_remove(directory .. "/endpoint")
  core.file_remove(directory .. "/pids")
end
cluster.publish, cluster.unpublish = publish, unpublish

---@return integer pid of this process
function cluster.own_pid()
  return math.tointeger((read_text("/proc/self/stat") or "0"):match("^(%d+)")) or 0
end

local function complain(err)
  io.stderr:write(errors.format(errors.from(err), {}), "\n")
  return errors.exit(errors.from(err))
end

---Body of `tide node`: joins, serves until told to end. SIGTERM: leaves in order. The cluster's exit codes.
---@param o {join?:string, cluster?:string, name?:string, listen?:string, workers?:integer, no_store?:boolean,
---  grace_s?:number, controller?:boolean, state?:string, controllers?:integer, nodes?:integer, node_workers?:integer}
---@return integer exit code
function cluster.node_main(o)
  local ok, err = core.node_start {
    join = o.join, cluster = o.cluster, name = o.name, listen = o.listen, workers = o.workers, no_store = o.no_store,
    state = o.state, controllers = o.controllers, queue_limit = o.queue_limit, memory = o.memory,
    rate_operations = o.rate_operations, rate_bytes = o.rate_bytes,
  }
  if not ok then
    local missing = o.controllers and (err.name == "EUNSUPPORTED" or err.name == "EVERSION")
    return complain(missing and errors.new("T1004", {message = err.message}) or err)
  end
  local ended
  if o.controller then
    ended, err = core.node_run([[return require("tide.cluster").control(...)]], "@tide/cluster.lua", {
      cluster = core.node().cluster, nodes = o.nodes or 0, workers = o.node_workers or 1, program = program()})
  else
    ended, err = core.node_run(AGENT, "@tide/agent.lua", {program = program()})
  end
  if not ended then
    core.node_stop(0)
    return complain(err)
  end
  if ended.why == "dead" then
    core.node_stop(0)
    return complain(errors.new("T0509", {
      message = "the cluster has declared this node dead: " .. tostring(ended.reason or "no reason given")}))
  end
  core.node_stop(ended.why == "leave" and (o.grace_s or 25) or 0)
  return 0
end

---Control actor of a cluster of `tide up`: starts the nodes as children, publishes where the cluster is, and ends
---with them on SIGTERM.
---@param a {cluster: string, nodes: integer, workers: integer}
function cluster.control(a)
  cluster.program = a.program
  local node = core.node()
  local directory = cluster.directory(a.cluster)
  local children = {}
  local ok, err = pcall(function()
    for i = 1, a.nodes do
      children[i] = start_child {
        endpoint = node.endpoint, cluster = a.cluster, name = "n" .. i, workers = a.workers,
        log = ("%s/node-n%d.log"):format(directory, i),
      }
    end
    wait_up(children, JOIN_S)
  end)
  if not ok then
    for _, child in ipairs(children) do child.process:signal(9) end
    error(err, 0)
  end
  local pids = {cluster.own_pid()}
  for _, child in ipairs(children) do pids[#pids + 1] = child.process:pid() end
  ok, err = publish(a.cluster, node.endpoint, pids)
  if not ok then
    for _, child in ipairs(children) do child.process:signal(9) end
    error(errors.from(err), 0)
  end
  core.register("control")
  local ending
  while not ending do
    local message = core.receive(0.1)
    if message and message.kind == "call" and type(message.value) == "table" and message.value.op == "quit" then
      core.answer(message, {})
      ending = true
    elseif message and message.kind == "call" then
      core.answer_error(message, errors.new("T0113", "this request is not known"))
    elseif message and message.kind == "stop" then
      ending = true
    end
    ending = ending or core.interrupted() > 0
  end
  for _, child in ipairs(children) do child.process:signal(15) end
  for _, child in ipairs(wait_ended(children, DOWN_S)) do child.process:signal(9) end
  unpublish(a.cluster)
  return {why = "now"}
end

---- `tide up`, `tide down`, attaching ------------------------------------------------------------------------------

---@return string[] names of this user's clusters whose controller runs
function cluster.running()
  local names = {}
  for _, name in ipairs(core.file_list(cluster.base_directory()) or {}) do
    if cluster.pids(name)[1] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

---@param name string
---@return integer[] pids of the cluster's processes that still run, controller first; a reused pid is not counted
function cluster.pids(name)
  local pids = {}
  for pid, started in (read_text(cluster.directory(name) .. "/pids") or ""):gmatch("(%d+) (%d+)") do
    local number = math.tointeger(tonumber(pid))
    if cluster.start_time(number) == started then pids[#pids + 1] = number end
  end
  return pids
end

---Where the cluster can be entered: one endpoint, its controller's, or one of each process that still runs.
---@param name string
---@return string[] endpoints
---@return boolean replicated the controllers are several
local function endpoints(name)
  local all, alive = {}, {}
  for line in (read_text(cluster.directory(name) .. "/endpoint") or ""):gmatch("[^\n]+") do all[#all + 1] = line end
  if #all <= 1 then return all, false end
  local i = 0
  for pid, started in (read_text(cluster.directory(name) .. "/pids") or ""):gmatch("(%d+) (%d+)") do
    i = i + 1
    if cluster.start_time(math.tointeger(tonumber(pid))) == started then alive[#alive + 1] = all[i] end
  end
  return alive, true
end

---Starts this program in a session of its own, its output in `log`, whose last line tells the exit code. There is no
---node in this process yet that could start children, hence the shell; not by os.execute, which loses a Ctrl-C that
---comes meanwhile.
---@return integer|nil session
local function start_detached(log, ...)
  local words = {shell_quoted(program())}
  for _, word in ipairs {...} do words[#words + 1] = shell_quoted(word) end
  local script = shell_quoted(table.concat(words, " ") .. "; echo ended $?")
  local pipe = io.popen(("setsid sh -c %s </dev/null >>%s 2>&1 & echo $!"):format(script, shell_quoted(log)))
  local session = pipe and pipe:read "n"
  if pipe then pipe:close() end
  return session
end

---@param log string of start_detached
---@return string|nil exit code, once the process has ended
local function ended_status(log)
  return ("\n" .. (read_text(log) or "")):match("\nended (%d+)\n$")
end

---Ends what start_detached started, by force.
---@param session integer
---@param log string
local function end_detached(session, log)
  if ended_status(log) then return end
  -- The leader first: it may not have made its session yet, and starts nothing any more then.
  os.execute(("kill -s KILL %d 2>/dev/null; kill -s KILL -- -%d 2>/dev/null"):format(session, session))
end
cluster.start_detached, cluster.ended_status, cluster.end_detached = start_detached, ended_status, end_detached
cluster.last_lines = last_lines

---Starts a cluster that stays when this process ends.
---@param o {cluster?: string, nodes?: integer, workers?: integer, controllers?: integer, state?: string}
---@return table|nil {cluster, endpoint, pids}, table? err
function cluster.up(o)
  local name = o.cluster or "local"
  if not job.is_identifier(name) then
    return nil, errors.new("T0113", ("`%s` is no name for a cluster"):format(tostring(name)))
  end
  if cluster.pids(name)[1] then
    return nil, errors.new("T1002", {message = ("cluster `%s` runs already"):format(name)})
  end
  unpublish(name)
  local made, err = make_directories(name)
  if not made then return nil, err end
  core.watch_interrupts() -- what was started would go on by itself
  if o.controllers then return require("tide.replicated").up(o) end
  local log = cluster.directory(name) .. "/controller.log"
  core.file_remove(log)
  local session = start_detached(log, "node", "--controller", "--cluster", name, "--nodes", tostring(o.nodes or 2),
    "--node-workers", tostring(o.workers or 1), "--no-store", "--workers", "0")
  if not session then
    return nil, errors.new("T1001", {message = "the controller's process could not be started", where = log})
  end
  local deadline = core.now() + JOIN_S + 5
  while core.now() < deadline do
    local endpoint = read_text(cluster.directory(name) .. "/endpoint")
    if core.interrupted() > 0 then
      end_detached(session, log)
      unpublish(name)
      return nil, errors.new("T0210", {message = ("interrupted before cluster `%s` was up"):format(name),
        state = "what had been started was stopped"})
    end
    if endpoint then
      return {cluster = name, endpoint = endpoint:match("^[^\n]*"), pids = cluster.pids(name), log = log}
    end
    local status = ended_status(log)
    if status then
      unpublish(name)
      return nil, errors.new("T1001", {message = ("the controller ended with exit code %s; its log ends with:\n%s")
        :format(status, last_lines(log, 8))})
    end
    core.sleep(POLL_S)
  end
  cluster.down {cluster = name}
  return nil, errors.new("T1001", {message = "the cluster did not come up in time", where = log})
end

local function signal_pid(pid, signal)
  os.execute(("kill -%s %d 2>/dev/null"):format(signal, pid))
end

local function wait_gone(name, timeout_s)
  local deadline = core.now() + timeout_s
  while true do
    local pids = cluster.pids(name)
    if #pids == 0 or core.now() > deadline then return pids end
    core.sleep(POLL_S)
  end
end

---Which cluster of `tide up` is meant: the named one, or the only one.
---@param name? string
---@return string|nil name, table? err
function cluster.started(name)
  if not name then
    local running = cluster.running()
    if #running ~= 1 then
      return nil, errors.new("T1003", {message = #running == 0 and "no cluster of yours runs"
        or "several clusters run: " .. table.concat(running, ", "), help = #running > 0 and "name one" or nil})
    end
    return running[1]
  end
  if #cluster.pids(name) > 0 then return name end
  return nil, errors.new("T1003", {message = ("no cluster `%s` runs"):format(name)})
end

---Ends a cluster of `tide up`: in order, then what is left by force.
---@param o {cluster?: string, timeout_s?: number}
---@return table|nil {cluster, ended, killed}, table? err
function cluster.down(o)
  local name <const>, err = cluster.started(o.cluster)
  if not name then
    if o.cluster then unpublish(o.cluster) end
    return nil, err
  end
  local pids = cluster.pids(name)
  local _, replicated = endpoints(name)
  local told = true
  if replicated then
    told = require("tide.replicated").quit(name)
  else
    signal_pid(pids[1], "TERM")
  end
  local left = told and wait_gone(name, o.timeout_s or DOWN_S) or pids
  for _, pid in ipairs(left) do signal_pid(pid, "KILL") end
  if #left > 0 then wait_gone(name, 2) end
  unpublish(name)
  return {cluster = name, ended = #pids, killed = #left}
end

---Where a cluster is: by name, by endpoint, or the only one that runs.
---@param wanted? string
---@return string|nil endpoint, table? err, string? name
function cluster.resolve(wanted)
  if wanted and wanted:find(":", 1, true) then
    -- Sockets of this user's clusters lie in a directory that is called as the cluster.
    local base <const> = "unix:" .. cluster.base_directory() .. "/"
    return wanted, nil, wanted:sub(1, #base) == base and wanted:sub(#base + 1):match "^([^/]+)/" or nil
  end
  if wanted and wanted:find("/", 1, true) then return "unix:" .. wanted end
  local name = wanted
  if not name then
    local running = cluster.running()
    if #running ~= 1 then
      return nil, errors.new("T0501", {message = #running == 0 and "no cluster of yours runs"
        or "several clusters run: " .. table.concat(running, ", "),
        help = #running > 0 and "name one by --cluster" or nil})
    end
    name = running[1]
  end
  local alive = endpoints(name)
  if not alive[1] or not cluster.pids(name)[1] then
    return nil, errors.new("T0501", {message = ("no cluster `%s` runs here"):format(name)})
  end
  return alive[1], nil, name
end

---Makes this process a client of a cluster: it sees members and may call their actors.
---@param o {cluster?: string, endpoint?: string, timeout_s?: number}
---@return true|nil, table? err
function cluster.attach(o)
  local endpoint, err, name = cluster.resolve(o.endpoint or o.cluster)
  if not endpoint then return nil, err end
  local ok, problem = core.node_start {client = true, join = endpoint, cluster = name, workers = 0, no_store = true}
  if not ok then return nil, errors.from(problem, "T0501") end
  return true
end

---What this process knows of the cluster it is attached to.
---@return table {node, members}
function cluster.snapshot()
  return {node = core.node(), members = core.members()}
end

---Asks the agents of all nodes that are up.
---@param what "status"|"events"|"hottest"
---@param more? table what the question says besides
---@return table|nil array of {name, id, state, answer | error} , table? err
function cluster.gather(what, more)
  local request = {op = what}
  for k, v in pairs(more or {}) do request[k] = v end
  return core.node_run([[return require("tide.cluster").gather_inside(...)]], "@tide/cluster.lua", request)
end

---Asks the agent of the first node that is up.
---@param request table {op=, ...}
---@return table? answer
---@return table? err
function cluster.ask_one(request)
  return core.node_run([[return require("tide.cluster").ask_one_inside(...)]], "@tide/cluster.lua", request)
end

local ASK_S <const> = 3600

function cluster.ask_one_inside(request)
  for _, member in ipairs(core.members()) do
    local address = member.state == "up" and core.whereis(member.name .. "/agent")
    if address then
      local answer, err = core.call(address, request, ASK_S)
      if not answer then return {error = errors.to_data(errors.from(err))} end
      return {answer = answer}
    end
  end
  return {error = errors.to_data(errors.new("T0501", {message = "the cluster has no node that is up"}))}
end

function cluster.gather_inside(request)
  local rows = {}
  for _, member in ipairs(core.members()) do
    local row = {name = member.name, id = member.id, state = member.state}
    if member.state == "up" then
      local address = core.whereis(member.name .. "/agent")
      local answer, err
      if address then answer, err = core.call(address, request, 5) end
      row.answer, row.error = answer, err and errors.to_data(errors.from(err))
    end
    rows[#rows + 1] = row
  end
  return rows
end

return cluster
