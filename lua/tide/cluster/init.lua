-- The cluster of a run, `tide.cluster {}`: it lives in the driver's process tree. The driver is the controller node,
-- every worker node a child that dies with it.
local checkpoints = require "tide.run.checkpoint"
local checks = require "tide.checks"
local children = require "tide.provision.children"
local core = require "tide.core"
local declared = require "tide.declared"
local errors = require "tide.errors"
local runs = require "tide.cluster.runs"
local keeper = require "tide.keeper"
local traces = require "tide.show.trace"

local cluster = {}
cluster.__index = cluster

local CLOSE_S <const> = 3
local POLL_S <const> = 0.02
local KEEP_S <const> = 0.25
local PROCESSES_MAX <const> = 256
local SIMULATED_MAX <const> = 4000

cluster.context = nil ---@type table|nil what the driver knows: options of the command, script, run id

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

---Members c1, c2, ... beside this node, without rows and workers, to hold with it what the controller decides.
local function start_controllers(self, count)
  local node = core.node()
  for i = 1, count - 1 do
    local name = "c" .. i
    local child = children.start {endpoint = node.endpoint, cluster = node.cluster, name = name, workers = 0,
                               no_store = true, log = ("%s/node-%s.log"):format(self.context.directory, name)}
    self.controllers[i], self.children[#self.children + 1] = child, child
  end
end

---Until one of them leads: a run that begins then does not depend on its driver for decisions.
local function share_control(count)
  local ok, err = core.replicate(count)
  if not ok then
    local missing = err.name == "EUNSUPPORTED" or err.name == "EVERSION"
    error(missing and errors.new("T1004", {message = err.message}) or errors.from(err), 0)
  end
  local deadline = core.now() + children.join_s
  local own = core.node().id
  while true do
    local controller = core.node().controller
    if controller ~= 0 and controller ~= own then return end
    if core.now() > deadline then
      error(errors.new("T1001", {message = ("no other controller took over within %g s"):format(children.join_s)}), 0)
    end
    core.sleep(POLL_S)
  end
end

---This node may be the next controller: then it keeps the runs.
local function keep_runs(self)
  while not self.closed do
    runs.keep()
    core.sleep(KEEP_S)
  end
end

---tide.cluster{}: starts node processes on this machine and waits until they have joined. With `tide run --cluster`
---nothing is started: the nodes are those of that cluster.
---@param given tide.cluster_options
---@return table cluster to be closed
---@package
function cluster.new(given)
  local context = cluster.context
  if not context then
    error(errors.new("T0117", {message = "tide.cluster works in tide.main, on the driver"}), 2)
  end
  local o <const> = checks.options("tide.cluster", declared.cluster, given)
  local rate <const> = checks.options("`rate` of tide.cluster", declared.rate, o.rate)
  local count <const> = context.flags:value("nodes", o.nodes) or 2
  local workers <const>, servers <const> = context.flags:value("workers", o.workers) or 1, o.servers
  local silence <const> = context.flags:value("silence", o.silence)
  local most <const> = core.simulated() and SIMULATED_MAX or PROCESSES_MAX
  if count + servers > most then
    error(errors.new("T0113", {message = ("tide.cluster: %d nodes, servers included, are more than %d"):format(
      count + servers, most)}), 2)
  end
  local self = setmetatable({context = context, nodes_max = most, servers_max = most - count, run_id = context.run,
                             children = {}, controllers = {}, own_runs = {}}, cluster)
  context.clusters[#context.clusters + 1] = self
  if not context.attached then
    local node = core.node()
    if silence then core.grant_silence(silence) end
    local ok, err = pcall(function()
      if o.controllers then start_controllers(self, o.controllers) end
      for i = 1, servers + count do
        local serves = i <= servers
        local name = serves and "s" .. i or "n" .. i - servers
        self.children[#self.children + 1] = children.start {
          endpoint = node.endpoint, cluster = node.cluster, name = name, workers = serves and 0 or workers,
          no_store = servers > 0 and not serves, log = ("%s/node-%s.log"):format(context.directory, name),
          queue_limit = o.queue_limit, memory = o.memory, rate_operations = rate.operations, rate_bytes = rate.bytes,
        }
      end
      children.wait_up(self.children)
      if o.controllers then
        share_control(o.controllers)
        core.fiber(keep_runs, self)
      end
    end)
    if not ok then
      self:close()
      error(err, 0)
    end
  end
  adopt_members(self)
  if context.announce then context.announce(self) end
  context.flags:used "dashboard"
  if context.trace then
    context.flags:used "trace"
    self.tracing = traces.start(context.trace, self:agents(), context.traced)
    context.traced = self.tracing
  end
  return self
end

---Records what the nodes do until the trace is closed, which writes `path` for ui.perfetto.dev:
---`local trace <close> = cluster:trace "out.json"`. One at a time.
---@param path string
---@return table trace
function cluster:trace(path)
  checks.text("cluster:trace", "the path of a file", path)
  return traces.start(path, self:agents())
end

---In the order in which tables of slots = "range" deal out their keys, which is by id: so the first worker is where
---the first keys are.
---@return table[] {name, id, agent, workers} of the nodes that have workers or rows
---@package
function cluster:agents()
  local list = {}
  for i, member in ipairs(self.members) do
    list[i] = {name = member.name, id = member.id, agent = member.agent, workers = member.workers,
               store = member.store}
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

---One more node is there: runs of this script may use it.
---@param name string
---@package
function cluster:adopt(name)
  adopt_members(self)
  for _, each in ipairs(self:agents()) do
    if each.name == name then
      for _, run in ipairs(self.own_runs) do core.send(run.controller, {op = "joined", node = each}) end
    end
  end
end

for _, part in ipairs {"elastic", "provisioned"} do
  for name, method in pairs(require("tide.cluster." .. part).methods) do cluster[name] = method end
end

---Whether runs wait for their slots here, and may get others later.
---@return boolean
function cluster:is_shared() return self.context.attached or self.scheduled or false end

local SCHEDULE_FIELDS <const> = {params = true, guard = true, nodes = true, force = true}

---Lets a policy of the kind `scheduling` decide how many slots each run of this cluster has, from now on and while they
---continue; another one takes its place when it is called again. Without a policy they are given out in the order of
---submission.
---@param policy string|table|false a shipped name, a path, {policy=, params=}; false: none any more
---@param o? {params?: table, guard?: table, nodes?: tide.scheduler.pool} nodes: the policy adds and removes them
---@return true
function cluster:schedule(policy, o)
  o = o or {}
  checks.known("T0115", "cluster:schedule", o, SCHEDULE_FIELDS)
  local found, err
  if policy then
    found, err = require("tide.policy.source").find(policy)
    if not found then error(err, 2) end
  end
  if not self.context.attached then
    for _, run in ipairs(self.own_runs) do
      if not run.finished and not self.scheduled then
        error(errors.new("T0117", {message = ("cluster:schedule: run %s has all its workers"):format(run.name),
          help = "call it before the first run is started"}), 2)
      end
    end
    runs.keep()
  end
  local answer
  answer, err = keeper.ask {op = "schedule", policy = found and {text = found.text, path = found.path} or false,
    params = o.params or found and found.params, guard = o.guard, nodes = o.nodes, force = o.force}
  if not answer then error(err, 2) end
  self.scheduled = found ~= nil or nil
  return true
end

---The cluster's scheduling policy: list, swap, set, shadow, report, rollback, history, why, metric, as run.policy.
---@return table functions
function cluster.scheduling()
  local address, err = keeper.find()
  if not address then error(err, 2) end
  return require("tide.policy.remote").new(address)
end

---Starts a run of a job on the nodes of this cluster, and returns at once.
---@param job_ tide.job
---@param params? table
---@param o? tide.start_options
---@return tide.run
function cluster:start(job_, params, o)
  if o ~= nil then o = checks.options("cluster:start", declared.start, o) end
  return require("tide.run").start(self, job_, params, o)
end

---Spawns actors of a class on nodes: docs/guides/actors.md.
---@param class tide.actor_class
---@param arguments any for its `start`
---@param o? {on?: string, each?: integer, restart?: integer, threads?: boolean, link?: boolean, publish?: string}
---@return tide.group to be closed
function cluster:group(class, arguments, o) return require("tide.run.actors").spawn(self, class, arguments, o) end

---Runs of this cluster, of all users, oldest first.
---@param o? {job?: string, state?: string, all?: boolean} all: ended ones too
---@return tide.remote_run[]
function cluster.runs(_, o) return require("tide.run.remote").list(o) end

---One of them by name, number or job: `cluster:run "mf-17":pause()`.
---@param name string|integer
---@return tide.remote_run|nil, table? err T0513
function cluster.run(_, name) return require("tide.run.remote").find(name) end

---Starts a script on this cluster in a process of its own, which stays when this one ends.
---@param path string
---@param o? tide.submit_options
---@return tide.remote_run|nil, table? err
function cluster.submit(_, path, o) return require("tide.run.host").submit(core.node().endpoint, path, o) end

---A table by its name, `work-1.model` of the run work-1; docs/guides/runs.md.
---@param name string
---@return table|nil handle, table? err
function cluster.table(_, name) return (require("tide.cluster.table_names").find(name)) end

---All that the cluster's nodes and runs count at this moment: docs/guides/metrics.md.
---@param o? {hot?: boolean} hot: the hottest keys of its tables too
---@return tide.snapshot
function cluster.snapshot(_, o)
  if o ~= nil then checks.known("T0115", "cluster:snapshot", o, {hot = true}) end
  return require("tide.cluster.collect").here(o)
end

---The bottleneck of each active run, by what happens in so much time from now: docs/guides/metrics.md.
---@param time? string|number default "2s"
---@return tide.finding[]
function cluster.slowest(_, time)
  local seconds <const> = checks.argument("cluster:slowest", "the time", time or 2, {type = "duration"})
  local collect <const> = require "tide.cluster.collect"
  local before <const> = collect.here()
  core.sleep(seconds)
  return require("tide.show.slowest").of(before, collect.here {hot = true})
end

---Writes all tables to a directory while workers continue.
---@param o string|{dir: string, cut?: "clock"|"fuzzy", keep?: integer}
---@return table info {generation, clock, cut, full, rows, bytes, took_s}
function cluster.checkpoint(_, o)
  if type(o) == "string" then o = {dir = o} end
  checks.known("T0708", "cluster:checkpoint", o, {dir = true, keep = true, cut = true})
  local settings, problem = checkpoints.settings(o, "cluster:checkpoint")
  if not settings then error(problem, 2) end
  local info, err = checkpoints.save(settings)
  if not info then error(err, 2) end
  return info
end

---Brings all tables back to what they were; no worker should run.
---@param dir string
---@param generation? integer default: the newest that is whole
---@return table restored {generation, cut, clock, rows, skipped}
function cluster.restore(_, dir, generation)
  checks.text("cluster:restore", "the directory of a checkpoint", dir)
  if generation ~= nil then generation = checks.whole("cluster:restore", "the generation", generation, 0) end
  local restored, err = checkpoints.restore(dir, generation)
  if not restored then error(err, 2) end
  return restored
end

local function close(self, raised)
  if self.closed or self.context.stays then return end -- the console that follows the script looks at it
  self.closed = true
  for _, run in ipairs {table.unpack(self.own_runs)} do pcall(run.close_by, run, raised) end
  if self.tracing then
    local ok, err = pcall(self.tracing.close, self.tracing)
    if not ok then self.context.unsaved("the trace", err) end
    self.tracing = nil
  end
  self:close_pool()
  if #self.children == 0 then return end
  local ours <const>, ids <const> = {}, {}
  for _, child in ipairs(self.children) do ours[child.name] = true end
  for _, member in ipairs(core.members()) do
    if ours[member.name] and member.state == "up" then ids[#ids + 1] = member.id end
  end
  core.ends(ids)
  for _, member in ipairs(self.members or {}) do core.send(member.agent, {op = "quit", leave = false}) end
  if #self.controllers > 0 then children.wait_members_gone(self.members or {}, CLOSE_S) end -- one of them knows why
  for _, child in ipairs(self.members and self.controllers or self.children) do child.process:signal(15) end
  for _, child in ipairs(children.wait_ended(self.children, CLOSE_S)) do child.process:signal(9) end
  children.wait_ended(self.children, 1)
  children.wait_members_gone(self.members or {}, CLOSE_S)
  core.tables_forget() -- their rows went with the nodes: the script's next cluster makes its own
end

---Ends the runs and, if this process started them, the nodes.
function cluster:close() close(self) end

---@package
cluster.close_by = close -- and the error that ends the block or the script

cluster.__close = close

return cluster
