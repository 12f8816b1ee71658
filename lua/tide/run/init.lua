-- A run: one job on a cluster, seen from the driver. The handle that cluster:start gives.
--
-- The run itself lives in its controller actor (controller.lua) and on the workers; this end polls the controller for
-- what happened, draws the progress line meanwhile, and turns Ctrl-C into a stop: once at the next report, twice now.
local artifacts = require "tide.run.artifacts"
local array_files = require "tide.array_files"
local bundle = require "tide.bundle"
local checkpoints = require "tide.run.checkpoint"
local checks = require "tide.checks"
local children = require "tide.provision.children"
local core = require "tide.core"
local extensions = require "tide.extensions"
local keeper = require "tide.keeper"
local outbox = require "tide.run.outbox"
local pieces = require "tide.pieces"
local script = require "tide.script"
local summary = require "tide.run.summary"
local table_spec = require "tide.run.table_spec"
local errors = require "tide.errors"
local report_of = require "tide.report"
local run_host = require "tide.run.host"
local run_params = require "tide.run.params"
local text = require "tide.text"

local run = {}
run.__index = run

local CONTROLLER <const> = [[return require("tide.run.controller").main(...)]]
local LATE_S <const> = 4 -- for naming workers that are late
local SHARED_S <const> = 0.02 -- a fiber looks so often for what another one polls
local CHECKPOINT_S <const> = 3600
local LOG_LINES_SHOWN <const> = 200
local HISTORY_MAX <const> = 1000 -- reports that run.history keeps at least
local ITERATED <const> = {report = true, started = true} -- by run:events; each kind waits for its own loop
local ROWS_AT_ONCE <const> = 65536 -- of a table that is written

---@class tide.run
---@field id string of the run's directory under .tide/runs
---@field name string "mf-1": what the cluster calls it
---@field number integer of the cluster's runs
---@field params table params of the workers as of the newest report
---@field history table[] the newest reports
---@field tables table<string, table> handles by the job's names of them
---@field policy table its policies: list, check, shadow, report, swap, set, rollback, history, why, replay

local function table_specs(job)
  local specs = job.tables or {}
  if type(specs) == "function" then specs = specs(job.data) end
  if type(specs) ~= "table" then
    error(script.error("T0113", ("`tables` of job `%s` gives a %s, not a table"):format(job.name, type(specs))), 0)
  end
  return specs
end

-- What a table of a run is called, so that runs do not meet by accident: "mf-17.factors". One with a `name` is found
-- by the runs of its script, under the first that had it; a shared one by all.
local function name_of(self, key, spec)
  if spec.shared then return spec.name or key end
  if not spec.name then return self.name .. "." .. key end
  local named = self.cluster.named_tables or {}
  self.cluster.named_tables = named
  named[spec.name] = named[spec.name] or self.name .. "." .. spec.name
  return named[spec.name]
end

-- The run whose clocks the workers count: its own. Where it takes up a table with clocks, by its name, that an earlier
-- run of the script made, they continue with that table's.
local function domain_of(self, specs)
  local owners <const> = self.cluster.named_domains or {}
  self.cluster.named_domains = owners
  local domain
  for _, key in ipairs(text.sorted_keys(specs)) do
    local spec <const> = specs[key]
    local clocked <const> = not spec.shared and (spec.consistency or "sequential") ~= "sequential"
    domain = domain or clocked and spec.name and owners[spec.name]
  end
  domain = domain or self.number
  for _, spec in pairs(specs) do
    if spec.name and not spec.shared then owners[spec.name] = owners[spec.name] or domain end
  end
  return domain
end

---Makes the job's tables on all nodes, or finds those with names of their own.
local function create_tables(self, resumed)
  local handles, names, keeps, named = {}, {}, {}, {}
  local specs <const>, taken <const> = {}, {}
  for key, spec in pairs(table_specs(self.job)) do
    if type(key) ~= "string" then
      error(script.error("T0203", ("a table of job `%s` has no name: tables = {NAME = tide.table {..}}"):format(
        self.job.name)), 0)
    end
    specs[key] = table_spec.is(spec) and spec or table_spec.new(spec)
  end
  self.domain = domain_of(self, specs)
  for _, key in ipairs(text.sorted_keys(specs)) do
    local spec <const>, o = specs[key], {}
    for k, v in pairs(spec) do o[k] = v end
    if not spec.shared then o.run, o.domain, o.run_memory = self.number, self.domain, self.memory end
    o.name = name_of(self, key, spec)
    if not require("tide.run.job").is_identifier(o.name) then
      error(script.error("T0203", ("table `%s` of run %s would be called `%s`: at most 63 small letters, digits, `.`, "
        .. "`_`, `-`"):format(key, self.name, o.name)), 0)
    end
    if taken[o.name] then -- each push of one would be a push of the other
      error(script.error("T0203", ("tables `%s` and `%s` of job `%s` are both called `%s`"):format(
        taken[o.name], key, self.job.name, o.name)), 0)
    end
    taken[o.name] = key
    o.keep, o.shared = nil, nil
    o.seed = spec.seed or self.seed
    local handle, err = core.table(o)
    if not handle then
      error(resumed and checkpoints.error(err) or errors.from(err), 0)
    end
    handles[key], names[key] = handle, o.name
    if (spec.keep or self.cluster.context.keep) and not spec.shared then keeps[#keeps + 1] = o.name end
    if spec.name and not spec.shared then named[#named + 1] = o.name end
  end
  if #keeps > 0 or #named > 0 then
    keeper.ask {op = "tables", n = self.number, keeps = keeps, named = named}
  end
  return handles, names
end

local function total_of(job)
  if job.progress and job.progress.total then return job.progress.total end
  local count = job.stop and job.stop.epochs and job:examples()
  return count and count * job.stop.epochs or nil
end

---The tables and the record of the job that `tide run --resume DIR` continues with; once.
---@package
function run.restore_job(self, context, job, name)
  local dir = context.resume
  context.resume = nil
  context.flags:used "resume"
  local restored, err = checkpoints.restore(dir, nil,
    {job = job.name, run = name, number = self.number, memory = self.memory, others = not context.attached})
  if not restored then error(err, 0) end
  for line in restored.skipped:gmatch "[^\n]+" do context.warn(line) end
  local saved = restored.job
  if type(saved) ~= "table" or saved.name ~= job.name then
    error(script.error("T0705", ("the checkpoint is of job `%s`, this one is `%s`"):format(
      type(saved) == "table" and tostring(saved.name) or "none", job.name), {where = dir}), 0)
  end
  local meeting <const> = extensions.of(job, "meeting")
  local misfit <const> = meeting and meeting.misfit and meeting.misfit(saved.ranks)
  if misfit then error(script.error("T0705", misfit, {where = dir}), 0) end
  context.progress:say(("tide: resumed from generation %d of %s%s"):format(restored.generation, dir,
    restored.clock and ", clock " .. restored.clock or ""))
  for rank, record in pairs(saved.ranks) do saved.ranks[rank] = pieces.packed(record) end -- a message has few values
  return saved
end

---From its record to its workers. Raises what goes wrong.
local function begin(self)
  local cluster <const>, job <const> = self.cluster, self.job
  local context <const> = cluster.context
  local nodes <const> = run_host.slots(cluster, self)
  local resume <const> = context.resume and require("tide.run").restore_job(self, context, job, self.name)
  if resume then self.seed, self.params = resume.seed or self.seed, resume.params or self.params end
  self.tables, self.table_names = create_tables(self, resume ~= nil)
  local sent = {}
  for k, v in pairs(context.script) do sent[k] = v end
  sent.modules = self.modules
  local err
  self.controller, err = core.spawn {
    source = CONTROLLER, chunk = "@tide/controller.lua", role = "control",
    argument = {
      run = self.id, number = self.number, domain = self.domain, shared = cluster:is_shared(), order = self.order,
      directory = self.directory, script = sent,
      job = job.name, params = self.params, seed = self.seed, tables = self.table_names,
      nodes = nodes, servers_max = cluster.servers_max, nodes_max = cluster:is_shared() and 0 or cluster.nodes_max,
      provisioned = cluster:provisions(true),
      total = total_of(job), resume = resume,
      examples = job:has_chunks() and job:examples() or nil,
      journal = not context.simulated and ("%s/policies-%s.journal"):format(self.directory, job.name) or nil,
    },
  }
  if not self.controller then error(errors.from(err), 0) end
  self.policy = require("tide.policy.remote").new(self.controller)
  cluster.own_runs[#cluster.own_runs + 1] = self
  run_host.started(self)
  self.bar = context.progress:add {name = job.name, total = total_of(job), unit = job.progress and job.progress.unit
    or "ex", count = resume and resume.examples}
end

---@param cluster table
---@param job tide.job
---@param params? table over the job's own
---@param o? tide.start_options
---@return tide.run
---@package
function run.start(cluster, job, params, o)
  if type(job) ~= "table" or not job.check_upvalues then
    error(script.error("T0113", "cluster:start requires a job made by tide.job"), 3)
  end
  local ok, err = job:check_upvalues()
  if not ok then error(err, 3) end
  if params ~= nil then
    ok, err = run_params.check(params, job.params or {}, {who = "cluster:start"})
    if not ok then error(err, 0) end
  end
  local merged = {}
  for k, v in pairs(job.params or {}) do merged[k] = v end
  for k, v in pairs(params or {}) do merged[k] = v end
  local seed = job.seed or script.api.seed
  local modules <const> = bundle.collect()
  local opened <const> = run_host.open(cluster, job, merged, o)
  local self = setmetatable({
    id = opened.id, name = opened.name, number = opened.number, memory = opened.memory,
    directory = opened.directory,
    log = opened.log, waits_for_slots = opened.waits, cluster = cluster, job = job, params = merged,
    queue = {}, results = {}, history = {}, sums = {}, examples_done = 0,
    policy_events = {},
    started_at = core.now(), lines_shown = 0, seed = seed, modules = modules,
  }, run)
  ok, err = xpcall(begin, script.failure, self)
  if not ok then
    self.failed = errors.from(err)
    run_host.close(self, {})
    error(err, 0)
  end
  return self
end

---- what is shown while waiting -----------------------------------------------------------------------------------

---@package
function run:show_progress(p)
  self.newest = p
  local running = next(p.fields or {}) ~= nil
  local f = running and p.fields or p.last or {}
  local shown = {{"epoch", (p.n or 0) + (running and 1 or 0)}}
  local loss <const> = report_of.value(f, "loss")
  if loss then shown[2] = {"loss", loss + 0.0} end
  local done = p.done or 0
  if done == 0 and (p.n or 0) > 0 then -- no worker says how many examples it had
    done = p.n
    self.bar:aim((self.job.stop or {}).epochs, "reports")
  else
    self.bar:aim(p.total)
  end
  self.bar:update(done, shown)
end

---Keeps a file with the run, as w:artifact of its workers does. Raises what cannot be kept.
---@param name string letters, digits and . _ -; for tensors it ends in .npy, .npz, .safetensors or .csv
---@param value string|tide.tensor|table<string, tide.tensor> the path of a file, a tensor, or tensors by name
---@return tide.artifact {name, bytes, sha256, time}
function run:artifact(name, value)
  local directory <const> = not self.cluster.context.simulated and self.directory or nil
  local kept <const>, err = artifacts.keep(directory, name, value)
  if not kept then error(err, 2) end
  return kept
end

---@package
function run:clear_progress() self.cluster.context.progress:hide() end

---@package
function run:show_log(event)
  local context = self.cluster.context
  local line = event.rank and ("[%s #%d%s] %s"):format(event.node, event.rank, event.err and " err" or "", event.text)
    or event.text
  local ok, why = self.log:write(line)
  if not ok then context.unsaved("the run's log", {message = why, where = self.directory .. "/run.log"}) end
  if context.quiet or self.lines_shown > LOG_LINES_SHOWN then return end
  self.lines_shown = self.lines_shown + 1
  context.progress:say(line)
  if self.lines_shown > LOG_LINES_SHOWN then
    context.progress:say("... the rest goes to " .. (self.directory .. "/run.log") .. " only")
  end
end

---Workers are gone and the run continues without them.
---@package
function run:show_loss(event)
  local parts = {("tide: node %s is gone (%s), the run continues without its workers"):format(event.node, event.reason)}
  if event.chunks > 0 then
    parts[2] = ("%d chunk%s done again"):format(event.chunks, event.chunks == 1 and " is" or "s are")
  end
  self.cluster.context.progress:say(table.concat(parts, "; "))
end

-- Changes of the cluster, one after the other, during the run.
---@package
function run:reshape(what, f)
  self.reshaping = self.reshaping or {}
  table.insert(self.reshaping, {what = what, f = f})
  if #self.reshaping > 1 then return end
  core.fiber(function()
    while self.reshaping[1] do
      local ok, err = pcall(self.reshaping[1].f, self.cluster)
      if not ok then
        self.cluster.context.progress:say(("tide: %s: %s"):format(self.reshaping[1].what, errors.from(err).message))
      end
      table.remove(self.reshaping, 1)
    end
  end)
end

---A policy requests another number of servers; while one request is carried out the newest one waits.
---@package
function run:scale_servers(servers)
  local waits = self.wanted_servers
  self.wanted_servers = servers
  if waits then return end
  self:reshape("servers", function(cluster)
    local count = self.wanted_servers
    self.wanted_servers = nil
    cluster:set_servers(count)
  end)
end

---A worker for the run, each on a node of its own.
---@package
function run:add_workers(count)
  if self.cluster:provisions(true) then
    local each <const> = self.cluster.pool.o.workers
    local ok, err = pcall(self.cluster.want_more, self.cluster, (count + each - 1) // each)
    if ok then return end
    core.send(self.controller, {op = "not_joined", count = count})
    return self.cluster.context.progress:say("tide: workers: " .. errors.from(err).message)
  end
  for _ = 1, count do
    self:reshape("workers", function(cluster)
      local ok, err = pcall(cluster.add_node, cluster, nil, 1)
      if ok then return end
      core.send(self.controller, {op = "not_joined", count = 1})
      error(err, 0)
    end)
  end
end

-- A run that was closed before its workers had returned has nothing more to report.
local function refuse_closed(self)
  if self.closed then error(errors.new("T0510", {message = "the run was canceled", help = "start another one"}), 0) end
end

-- Asks the controller for something; its refusal is raised here, at the call.
local function ask(self, request, timeout_s)
  self:raise_failure()
  refuse_closed(self)
  local answer, err = core.call(self.controller, request, timeout_s)
  if not answer then error(errors.from(err), 0) end
  return answer
end

---Lets workers come or go until there are `count`: new ones start on nodes of their own and begin after a report of
---all, the newest leave after one. For jobs whose work is bound to no rank.
---@param count integer
function run:set_workers(count)
  count = checks.whole("run:set_workers", "the number of workers", count, 1)
  ask(self, {op = "workers", count = count})
end

---Lets a worker leave after its next report. The last one stays.
---@param rank integer
function run:drop_worker(rank)
  rank = checks.whole("run:drop_worker", "the rank of a worker", rank, 1)
  ask(self, {op = "drop", ranks = {rank}})
end

---An interrupt has come: the run stops at its next report.
---@param signal string
---@return boolean whether it has not ended yet
---@package
function run:heed_interrupt(signal)
  if self.finished or self.failed or self.closed then return false end
  local context <const> = self.cluster.context
  if self.controller and not self.stopping then
    self.stopping, context.interrupted = true, true
    context.progress:say(("tide: %sstopping at the next report, in %g s at the latest%s"):format(
      signal == "SIGINT" and "" or signal .. ": ", context.grace_s,
      signal == "SIGINT" and "; Ctrl-C again kills now" or ""))
    core.send(self.controller, {op = "stop", reason = "interrupted", within_s = context.grace_s})
  end
  return true
end

---@package
function run:look_for_interrupts()
  local context <const> = self.cluster.context
  local count <const>, signal = core.interrupted()
  local seen <const> = count - context.interrupts -- one before the run began stops it too
  if seen >= 2 then
    error(errors.new("T0210", {message = "interrupted twice: killed", state = "the tables were not written"}), 0)
  end
  if seen == 1 then
    context.interrupted = true
    self:heed_interrupt(signal)
  end
  if context.gone then error(context.gone, 0) end
  local deadline <const> = context.deadline
  if deadline and core.now() >= deadline then
    context.ends = true -- the driver's watcher lets the script close its clusters
    local answer <const> = self.controller and core.call(self.controller, {op = "late"}, LATE_S)
    error(errors.new("T0507", {message = "the run took longer than --timeout", exit = 124,
      state = ("%sthe run was ended; nothing was written"):format(answer and answer.late .. "; " or "")}), 0)
  end
end

-- Keeps the newest reports and the sums of what the summary adds up.
---@package
function run:remember(report)
  summary.add_report(self.sums, report)
  self.examples_done = self.examples_done + (type(report.examples) == "number" and report.examples or 0)
  local history <const> = self.history
  history[#history + 1] = report
  if #history >= 2 * HISTORY_MAX then
    table.move(history, #history - HISTORY_MAX + 1, #history, 1)
    for i = #history, HISTORY_MAX + 1, -1 do history[i] = nil end
  end
end

---- events --------------------------------------------------------------------------------------------------------

---One poll of the controller: moves everything on that has happened.
---@package
function run:pump()
  self:look_for_interrupts()
  if self.polls then return core.sleep(SHARED_S) end -- another fiber of the script does it
  local go_on <const> = self.go_on
  self.polls, self.go_on = true, nil
  local answer, err = core.call(self.controller, {op = "next", hold = self.holding, continue = go_on,
    after = self.heard})
  self.polls = nil
  if not answer then
    self.failed = self.failed or errors.from(err)
    return
  end
  if answer.progress then
    self:show_progress(answer.progress)
  else
    self.bar:update(self.bar.count) -- the clock moves on
  end
  self.heard = answer.last
  for _, line in ipairs(answer.items) do
    local event <const> = outbox.decoded(line)
    if event.kind == "log" then
      self:show_log(event)
    elseif event.kind == "failed" then
      self.failed = children.explained(errors.from(event.error), self.cluster.children)
    elseif event.kind == "evaluated" then
      self.results[event.id] = event
    elseif event.kind == "params" then
      run_host.params_set(self, event.params)
    elseif event.kind == "unsaved" then
      self.cluster.context.unsaved(event.what, event.error)
    elseif event.kind == "lost" then
      self:show_loss(event)
    elseif event.kind == "scale" then
      if event.servers then self:scale_servers(event.servers) end
      if event.workers then self:add_workers(event.workers) end
    elseif event.kind == "vacant" then
      self:reshape("workers", function(cluster) cluster:vacate(event.node) end)
    elseif event.kind == "policy" then
      self.policy_events[#self.policy_events + 1] = event
    elseif event.kind == "finished" then
      self.finished = true
    elseif ITERATED[event.kind] then
      if event.kind == "started" then self.bar:begin() end
      if event.kind == "report" then
        self.params = event.params or self.params
        self:remember(event)
        self.report_count = event.n
      end
      self.queue[#self.queue + 1] = event
      if #self.queue > HISTORY_MAX then table.remove(self.queue, 1) end -- no loop takes them
    end
  end
end

---@package
function run:raise_failure()
  if not self.failed then return end
  self:clear_progress()
  error(self.failed, 0)
end

local function take(self, kind)
  for i, event in ipairs(self.queue) do
    if event.kind == kind then return table.remove(self.queue, i) end
  end
  return nil
end

---Iterates over what happens: "report" (once a report of all workers: the sums of its numbers, and n, clock,
---elapsed_s, workers; `stop`, the reason, where the run stops at this report) or "started". While the body runs, the
---workers wait in their report, so that run:evaluate there sees the parameters of exactly that report.
---@param kind "report"|"started"
---@return function iterator, nil, nil, table closing
function run:events(kind)
  if not ITERATED[kind] then
    checks.fail(("run:events is of \"report\" or \"started\", not %s"):format(tostring(kind)))
  end
  self.holding = true
  local closing = setmetatable({}, {__close = function()
    self.holding = false
    core.send(self.controller, {op = "continue", hold = false})
  end})
  return function()
    local event = take(self, kind)
    if event then
      self:clear_progress()
      return event
    end
    self.go_on = true
    while true do
      self:pump()
      self:raise_failure()
      event = take(self, kind)
      if event then
        self:clear_progress()
        return event
      end
      if self.finished then return nil end
    end
  end, nil, nil, closing
end

---Runs job.evaluate[name] on every worker, where the job stands at a report or barrier or has returned.
---@param name string
---@return number|table mean sum / count, 0/0 if nothing was counted; for a table of sums a table of means, with count
function run:evaluate(name)
  if not (self.job.evaluate and self.job.evaluate[name]) then
    error(script.error("T0401", ("job `%s` has no evaluation `%s`"):format(self.job.name, tostring(name))), 2)
  end
  self:raise_failure()
  local asked, err = core.call(self.controller, {op = "evaluate", name = name})
  if not asked then error(errors.from(err), 2) end
  self.bar:update(self.bar.count, {{"evaluating", name}})
  while not self.results[asked.id] do
    self:pump()
    self:raise_failure()
  end
  self:clear_progress()
  local result = self.results[asked.id]
  self.results[asked.id] = nil
  if result.error then error(errors.from(result.error), 2) end
  return result.result
end

---Waits until every worker has returned.
---@return tide.summary
function run:wait()
  if not self.finished then refuse_closed(self) end
  self.holding, self.go_on = false, true
  while not self.finished do
    self:pump()
    self:raise_failure()
    self.queue = {}
  end
  self:raise_failure()
  if not self.bar.done then
    if self.newest then self:show_progress(self.newest) end
    self.bar:finish()
  end
  self:clear_progress()
  local result = self:summary()
  if result.not_finite > 0 then
    self.cluster.context.warn(("%d pushed rows held a NaN or an infinity; a table with "
      .. "`refuse_nan = true` refuses them"):format(result.not_finite))
  end
  local written, problem = core.file_write(self.directory .. "/summary.json",
    core.json_encode(result:to_data()))
  if not written then self.cluster.context.unsaved("the run's summary", problem) end
  return result
end

---What the run did so far, over all nodes.
---@return tide.summary
function run:summary()
  local counters, err = core.call(self.controller, {op = "counters"})
  if not counters then error(errors.from(err), 2) end
  for i, node in ipairs(counters.nodes) do counters.nodes[i] = core.decode(node) end
  for _, answers in pairs(counters.hottest) do
    for name, answer in pairs(answers) do answers[name] = core.decode(answer) end
  end
  return summary.new(self, counters)
end

---Asks the workers to stop at their next report or w:stopping().
---@param rule? string the script's own rule that ends it: then the run is done, and not stopped
function run:stop(rule)
  if rule ~= nil then checks.text("run:stop", "the name of a rule", rule) end
  if not self.closed then core.send(self.controller, {op = "stop", reason = rule or "on request"}) end
end

---Writes a checkpoint while the workers continue, and waits until it is on disk.
---@param o? {dir?: string, cut?: "clock"|"fuzzy"} default: as the job's field `checkpoint` says
---@return table info {generation, clock, cut, full, rows, bytes, took_s}
function run:checkpoint(o)
  o = o or {}
  checks.known("T0708", "run:checkpoint", o, {dir = true, cut = true})
  local settings, problem = checkpoints.settings({dir = o.dir or (self.job.checkpoint or {}).dir,
    cut = o.cut}, "run:checkpoint")
  if not settings then error(problem, 0) end
  return ask(self, {op = "checkpoint", dir = o.dir, cut = o.cut}, CHECKPOINT_S)
end

---Changes params from the next report on.
---@param params table of those that the job has
function run:set(params)
  local ok <const>, problem = run_params.check(params, nil, {who = "run:set"}) -- else it does not travel
  if not ok then error(problem, 0) end
  ask(self, {op = "verb.set", params = params})
end

local function verb(self, name, arguments, timeout_s)
  arguments.op = "verb." .. name
  local answer, err = core.call(self.controller, arguments, timeout_s or core.limit "actor_call_timeout" + 5)
  if not answer then return nil, errors.from(err) end
  return true
end

---Lets all workers wait in their next report, or for their next chunk; true when they do. With `release` they leave
---there: their slots are free, the tables stay, and the run continues when it is resumed.
---@param o? {release?: boolean}
---@return true|nil, table? err
function run:pause(o) return verb(self, "pause", {release = o and o.release or nil}) end

---Resumes after a pause; one that released its slots waits for others first.
---@return true|nil, table? err
function run:resume() return verb(self, "resume", {}, 7 * 24 * 3600) end

---How far it is.
---@return string state running, paused, suspended, stopping, done, stopped, failed
---@return string? why
function run:state()
  local answer, err = core.call(self.controller, {op = "state"})
  if not answer then error(errors.from(err), 2) end
  return answer.state, answer.why
end

---A test aid, to see what stragglers do to a run: from its next report or chunk on this worker takes `factor` times as
---long as its work does. What it needs more it sleeps, so it does not matter how many cores there are; a `compute_s`
---that it reports is multiplied likewise.
---@param rank integer
---@param factor number 1: no longer
function run:slow_worker(rank, factor)
  rank = checks.whole("run:slow_worker", "the rank of a worker", rank, 1)
  factor = checks.number("run:slow_worker", "the factor", factor, 1, 1000)
  ask(self, {op = "slow", rank = rank, factor = factor})
end

local function close(self, raised)
  if self.closed then return end
  self.closed = true
  self:clear_progress()
  local state <const> = core.call(self.controller, {op = "close"}, 2)
  run_host.close(self, state or {}, raised)
end

---Ends the workers now, and drops the run's tables: nothing of it stays on any node.
function run:cancel() close(self) end

---Done with a run: what it holds on nodes is freed, its tables too. An active run is ended.
---`local run <close> = cluster:start(job)` does it at the end of the block; the end of the cluster does it for all.
function run:close() self:cancel() end

---@package
run.close_by = close -- and the error that ends the block, the cluster or the script

run.__close = close

-- All rows of a dense table in the order of their keys.
local function rows_of(handle, path)
  local keys <const> = handle.spec.keys
  if keys[1] ~= "dense" then
    error(script.error("T0113", "a table of hashed keys is written as .safetensors, with its keys", {where = path}), 3)
  end
  local rows = core.tensor("f32", keys[2], handle.width)
  for first = 0, keys[2] - 1, ROWS_AT_ONCE do
    local count <const> = math.min(ROWS_AT_ONCE, keys[2] - first)
    rows:put(first + 1, handle:pull(core.tensor("u64", count, 1):fill(first, 1)))
  end
  return rows
end

---Writes the sums of the newest 1,000 reports or more, a line a report: `.csv`, or `.json`, an object a line; `.npz`
---has an array for each field.
---@param path string
---@param fields? string[] default: all numbers of reports
function run:save_reports(path, fields)
  checks.text("run:save_reports", "the path of a file", path)
  local content
  if path:find "%.npz$" then
    local written, problem = array_files.write(path, array_files.records_tensors(self.history, fields))
    if not written then error(errors.from(problem), 2) end
    return
  elseif path:find "%.csv$" then
    content = array_files.records_csv(self.history, fields)
  elseif path:find "%.json$" then
    local lines, wanted = {}, fields and {}
    for _, key in ipairs(fields or {}) do wanted[key] = true end
    for i, report in ipairs(self.history) do
      local record = {}
      for key, v in pairs(report) do
        if type(v) == "number" and v == v and (not wanted or wanted[key]) then record[key] = v end
      end
      lines[i] = core.json_encode(record) .. "\n"
    end
    content = table.concat(lines)
  else
    checks.fail "run:save_reports writes .csv, .json or .npz"
  end
  local ok, err = core.file_write(path, content)
  if not ok then error(errors.from(err), 2) end
end

---Writes tables, one file each: `path` for a single one, `<path>.<name>.<ending>` for several. `.safetensors` has keys
---and what update rules remember, for t:load; `.npy` and `.csv` have the rows of dense tables, `.npz` those of all
---named ones in one file, by their names.
---@param path string
---@param names string[] the job's names of tables
---@return string[] paths
function run:dump(path, names)
  checks.text("run:dump", "the path of a file", path)
  if type(names) ~= "table" or #names == 0 then checks.fail "run:dump requires a list of the job's names of tables" end
  local stem, ending = path:match "^(.+)%.(%w+)$"
  if not (ending == "safetensors" or ending == "npy" or ending == "npz" or ending == "csv") then
    stem, ending = path, "safetensors"
  end
  local paths, together = {}, {}
  for _, name in ipairs(names) do
    local handle = self.tables[name]
    if not handle then
      error(script.error("T0401", ("job `%s` has no table `%s`"):format(self.job.name, tostring(name))), 2)
    end
    local target = path
    if #names > 1 and ending ~= "npz" then target = ("%s.%s.%s"):format(stem, name, ending) end
    local ok, err
    if ending == "safetensors" then
      ok, err = pcall(handle.save, handle, target)
    elseif ending == "npz" then
      together[name], ok = rows_of(handle, target), true
    else
      ok, err = array_files.write(target, rows_of(handle, target))
    end
    if not ok then error(errors.from(err), 2) end
    paths[#paths + 1] = target
  end
  if ending == "npz" then
    local ok, err = array_files.write(path, together)
    if not ok then error(errors.from(err), 2) end
    return {path}
  end
  return paths
end

return run
