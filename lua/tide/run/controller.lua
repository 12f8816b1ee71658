-- The controller actor of one run, in the driver's process: starts the workers through the nodes' agents, gathers
-- their reports, answers with new params, and notifies the driver of events.
--
-- It loads the script for on_report and the stop rule. Once the workers run it never waits for anything but its
-- mailbox, so a lost node is noticed at any time. The driver asks it with long polls ("next"); events
-- wait here, bounded, until the driver has time.
--
-- When a node is lost, a job that allows it continues (losses.lua): no worker waits for the node's workers any more
-- (barrier.lua), what they had not completed of the data goes to others (chunks.lua), and nothing they may still say
-- counts. Rows that lived on that node alone are gone, and end the run.
local ask_all = require "tide.ask_all"
local chunks = require "tide.run.chunks"
local core = require "tide.core"
local errors = require "tide.errors"
local events = require "tide.cluster.events"
local losses = require "tide.run.losses"
local machine = require "tide.machine"
local report = require "tide.report"
local requests = require "tide.requests"
local run_log = require "tide.run.run_log"
local script = require "tide.script"
local service = require "tide.service"
local states = require "tide.run.states"

local controller = {from_worker = {}, from_driver = {}} -- by op of what they say
controller.__index = controller
for _, part in ipairs {"registry", "elastic_workers", "barrier", "outbox", "starting", "losses", "cuts", "evaluation",
                       "late_workers", "life", "grants", "figures", "artifacts", "increments"} do
  local module <const> = require("tide.run." .. part)
  for name, method in pairs(module.methods) do controller[name] = method end
  for name, answer in pairs(module.from_worker or {}) do controller.from_worker[name] = answer end
  for name, answer in pairs(module.from_driver or {}) do controller.from_driver[name] = answer end
end


---@param a table {run, script, job, params, seed, tables, nodes = {{name, id, agent, workers}}, total, examples,
--- resume}
function controller.new(a)
  local resume <const> = a.resume or {}
  local self <const> = setmetatable({
    a = a, params = resume.params or a.params or {}, state = resume.state or {}, workers = {}, live = 0, ready = 0,
    monitors = {}, clock = resume.reports or 0, evaluations = {}, next_evaluation = 0,
    partial = {}, done_examples = resume.examples or 0, records = {}, started_at = core.now(), baseline = {},
    progress_changed = false, workers_lost = 0,
  }, controller)
  self.outbox = self:new_outbox()
  self.life = machine.new(states, self)
  self.heard, self.requested = self:from_workers(), self:from_others()
  return self
end

---- events for the driver -----------------------------------------------------------------------------------------

---How much there is to do. Reports have their number of examples, else the job and its data.
---@return number|nil
function controller:total()
  local epochs <const> = self.job and self.job.stop and self.job.stop.epochs
  local own <const> = self.job and self.job.progress and self.job.progress.total
  if own or not epochs or self.clock == 0 or self.done_examples == 0 then return self.a.total end
  return math.floor(self.done_examples * epochs / self.clock + 0.5)
end

function controller:progress()
  return {n = self.clock, done = self.done_examples + (self.partial.examples or 0), total = self:total(),
          fields = self.partial, last = self.last}
end

---- failing -------------------------------------------------------------------------------------------------------

function controller:end_workers()
  for _, node in ipairs(self.a.nodes) do
    if not node.lost then core.send(node.agent, {op = "stop", run = self.a.run}, "answer") end
  end
end

---Ends the run with an error; the first one counts.
function controller:fail(err)
  if self.failed then return end
  self.failed, self.suspect = err, nil
  self.life:fire(self.cancelled and "cancel" or "fail")
  self:end_waiting()
  self:end_workers()
  self:emit {kind = "failed", error = err}
end

---- start ---------------------------------------------------------------------------------------------------------

---Has a machine fewer processors than workers, as far as nodes say which one is theirs?
local function is_crowded(nodes, loaded)
  local workers = {}
  for _, node in ipairs(nodes) do
    local its <const> = loaded[node.name].machine
    if its and its.processors > 0 then
      local id <const> = its.id ~= "" and its.id or node.name
      workers[id] = (workers[id] or 0) + node.workers
      if workers[id] > its.processors then return true end
    end
  end
  return false
end

-- Sends a request to nodes at once. Raises why one of them does not answer, when the answers of all are dealt with.
local function ask_nodes(nodes, request_of, deal)
  local answers <const>, problems <const> = ask_all(nodes, function(node, _, timeout_s)
    return core.call(node.agent, request_of(node), timeout_s)
  end, {timeout_s = core.limit "actor_call_timeout"})
  local err
  for i, node in ipairs(nodes) do
    if answers[i] then deal(node, answers[i]) end
    err = err or problems[i]
  end
  if err then error(err, 0) end
end

---Loads the script on every node and starts the workers. Raises what goes wrong.
function controller:start()
  local a = self.a
  local rank, busy = 0, {}
  self:leave_out_gone()
  for _, node in ipairs(a.nodes) do
    self:watch(node, {node = node})
    node.ranks, node.is_loaded = {}, true
    for _ = 1, node.workers do rank = self:new_worker(node, "starting").rank end
    if node.workers > 0 then busy[#busy + 1] = node end
  end
  ask_nodes(a.nodes, function() return {op = "load", run = a.run, script = a.script} end,
    function(node, answer) self.baseline[node.name] = answer end)
  self.worker_count, self.crowded = rank, is_crowded(a.nodes, self.baseline)
  if a.examples then
    self.chunks = chunks.new(a.examples, {workers = rank, seed = a.seed, chunks = self.job.chunks})
  end
  local bound <const> = a.resume and a.resume.workers ~= rank
    and (not self.chunks and "its work is bound to ranks" or self:fixed_workers())
  if bound then
    error(script.error("T0705", ("the checkpoint is of %d workers, the run has %d: %s"):format(a.resume.workers, rank,
      bound), {help = "start as many workers; tables alone are restored by cluster:restore"}), 0)
  end
  if a.resume and a.resume.chunks and self.chunks then
    local ok, problem = self.chunks:restore(a.resume.chunks)
    if not ok then error(script.error("T0705", problem), 0) end
  end
  local function start_of(node)
    local list, resume = {}, a.resume and {}
    for i, r in ipairs(node.ranks) do
      list[i] = self.workers[r]
      if resume then
        resume[i] = {record = a.resume.ranks[r], passes = self.chunks and self.chunks:begins_behind()}
      end
    end
    return self:start_request(list, rank, resume)
  end
  ask_nodes(busy, start_of, function(node, answer)
    for i, address in ipairs(answer.addresses) do self:has_started(node.ranks[i], address) end
  end)
end

---- chunks --------------------------------------------------------------------------------------------------------

---Answers one worker that waits for a chunk; false: it has to wait on.
function controller:serve_chunk(w)
  if self.life:is "held_back" then return end
  local pass <const>, set <const>, ending <const> = w.waits.pass, self.chunks, self.life:is "ending"
  if pass == set.pass + 1 and set:over() and not ending then set:begin() end
  local answer
  if ending or w.dropped or pass < set.pass or set:over() then
    answer = {op = "chunk"}
  else
    answer = pass == set.pass and set:take(w.rank, core.now())
    if not answer then return end
    answer.op = "chunk"
  end
  answer.id = w.waits.id
  self:count_wait(w)
  w.waits = nil
  self:send_worker(w, answer)
end

---Gives free chunks to the workers that wait for one; lets them go when the pass is over.
---@return integer[] ranks of those that wait on
function controller:hand_out()
  local idle = {}
  if not self.chunks or self.failed then return idle end
  for _, w in ipairs(self.workers) do
    if w.waits and w.waits.kind == "chunk" then self:serve_chunk(w) end
    if w.waits and w.waits.kind == "chunk" then idle[#idle + 1] = w.rank end
  end
  return idle
end

---The same, with a word of the dispatch policy for those that wait on.
function controller:dispatch()
  local idle = self:hand_out()
  if #idle > 0 and self.policies and self.policies:idle(idle) then self:hand_out() end
end

---A worker waits for something else than chunks, or for nothing any more: what is queued for it is free for all.
function controller:leave_queue(w)
  if self.chunks and self.chunks:unqueue(w.rank) then self:hand_out() end
end

---- what workers say ----------------------------------------------------------------------------------------------

local from_worker <const> = controller.from_worker

local function check_fields(fields)
  local fault <const> = report.fault(fields)
  if fault then error(script.error("T0113", fault), 0) end
end

function from_worker.ready(self, w)
  if w.state == "joining" then -- its message may come before the agent's answer with its address
    w.loaded, w.state = true, w.address and "waiting" or "joining"
    if w.state == "waiting" then self:ask_to_meet() end
    self:look_for_awake()
    return
  end
  w.state = "ready"
  self.ready = self.ready + 1
  if self.ready < self.worker_count then return end
  self.started_at = core.now()
  self.life:fire "begin"
  local ok, live = xpcall(require("tide.policy.live").new, script.failure, self, self.job)
  if not ok then return self:fail(live) end
  self.policies = live
  for _, each in ipairs(self.workers) do
    if each.state == "ready" then -- later ones join these
      each.state = "running"
      self:send_worker(each, {op = "go", id = 0, batch = live and live:batch_of(each.rank),
                               comm = live and live:comm_plan(), work = live and live:work()})
    end
  end
  if #self.workers > self.worker_count then self:ask_to_meet() end
  self:compare_policies()
  self:emit {kind = "started"}
end

function from_worker.report(self, w, m)
  check_fields(m.fields)
  if m.alike then check_fields(m.alike) end
  local r <const>, peers <const> = m.fields, m.peers or {}
  w.report = r
  self.records[w.rank] = m.record or self.records[w.rank]
  r.rank, r.node, r.wait_s, r.alike = w.rank, w.node.name, m.wait_s, m.alike
  r.peers_bytes, r.peers_wait_s = peers.bytes, peers.wait_s
  w.elapsed_s = m.elapsed_s
  self:count_report(w, m)
  self:arrive(w, {kind = "report", id = m.id})
end

function from_worker.barrier(self, w, m)
  self:arrive(w, {kind = "barrier", id = m.id, name = m.name, value = m.value, encoded = m.encoded, async = m.async})
end

function from_worker.exchanged(self, _, m)
  if self.policies then self.policies:exchanged(m.fields) end
end

function controller:count_progress(fields)
  report.add(self.partial, fields)
  self.progress_changed = true
  if self.outbox:is_awaited() and core.now() - self.polled_at >= 0.08 then self.outbox:flush() end
end

function from_worker.progress(self, _, m)
  check_fields(m.fields)
  self:count_progress(m.fields)
end

---{done = {index, lease, fields}} completes, with a count only so many examples of it, {back = {index, lease}} gives
---back, {id, pass} asks for the next one.
function from_worker.chunk(self, w, m)
  local counts, held = false, nil
  if not self.chunks then
    error(script.error("T0117", ("the worker requests a chunk, and job `%s` has no data to cut"):format(self.a.job),
      {help = "give tide.job `data = N`, a list, or a data set and `chunks = N`"}), 0)
  end
  if m.done then check_fields(m.done.fields) end
  if m.done and m.done.count then
    counts = self.chunks:split(m.done)
  elseif m.done then
    counts, held = self.chunks:finish(m.done)
  end
  if counts and next(m.done.fields) then self:count_progress(m.done.fields) end
  if held and self.policies then self.policies:completed(w.rank, self.chunks:size_of(m.done.index), held.since) end
  if m.back then self.chunks:give_back(m.back) end
  if m.id then w.waits = {kind = "chunk", id = m.id, pass = m.pass, since = core.now()} end
  self:dispatch()
  self:look_for_leaver(w.node)
  self:meet()
end

function from_worker.log(self, w, m)
  self:emit {kind = "log", text = m.text, err = m.err, rank = w.rank, node = w.node.name}
end

function from_worker.done(self, w, m)
  self.records[w.rank] = m.record
  w.state, w.waits = "done", nil
  if self.policies then self.policies:ended(w.rank) end
  self:leave_queue(w)
  if w.dropped and not self.departing then
    self:look_for_vacancy(w.node)
    if self.a.shared then self:free_slot(w) end
  end
  self:look_for_leaver(w.node)
  self:meet()
end

function from_worker.failed(self, w, m)
  local err = m.error
  err.node = err.node or w.node.name
  err.actor = ("worker %s/%d"):format(self.a.job, w.rank)
  if (err.code or ""):find "^T01" then err.exit = 1 end -- misuse in a script's worker is not misuse of the command
  w.failed = true
  self:fail_or_suspect(script.error(err.code or "T0609", err.message, err), w)
end

---- what the driver asks ------------------------------------------------------------------------------------------

local from_driver <const> = controller.from_driver

---Long poll. {hold = whether reports wait for "continue"}
function from_driver.next(self, request, message)
  self.hold = request.hold
  if request.continue then self:release() end
  self.polled_at = core.now()
  return self:read_events(message, request.after)
end

function from_driver.continue(self, request)
  self.hold = request.hold
  self:release()
end

-- What came of something that the driver asks of a run: nothing more to say, or why not.
local function outcome(self, who, why)
  if self.failed then return nil, self.failed end
  if why then return nil, script.error("T0117", ("%s: %s"):format(who, why)) end
  return {}
end

---One more node: {node = {name, id, agent, workers, store}}. Its workers join the run.
function from_driver.joined(self, request)
  local node = request.node
  if self.a.shared then return self:use_joined(node) end
  node.late = true
  self:watch(node, {node = node})
  node.ranks = {}
  self.a.nodes[#self.a.nodes + 1] = node
  if self.policies then self.policies:joined(node) end
  if node.workers > 0 then self:add_workers(node, node.workers) end
end

---Workers come or go until there are `count`.
function from_driver.workers(self, request) -- on a shared cluster it asks for slots
  return outcome(self, "run:set_workers", self.life:is "finished" and "the run is over"
    or not self.failed and self:set_workers(request.count))
end

---The driver could not start nodes for so many workers.
function from_driver.not_joined(self, request) self.coming = math.max((self.coming or 0) - request.count, 0) end

---A test aid: this worker takes `factor` times as long for its work from now on.
function from_driver.slow(self, request)
  local w = self.workers[request.rank]
  if w and w.address then self:send_worker(w, {op = "slow", factor = request.factor}) end
  return outcome(self, "run:slow_worker", not (w and w.state ~= "lost")
    and ("there is no worker %d: they are 1 to %d"):format(request.rank, #self.workers))
end

---From the agent of a node that was asked to leave: {node = id}. Answered when nothing of it is missing here.
function from_driver.leaving(self, request, message)
  for _, node in ipairs(self.a.nodes) do
    if node.id == request.node then return self:let_workers_leave(node, message.from) end
  end
  core.send(message.from, {op = "vacated", run = self.a.run}, "answer")
end

---These workers leave after their next report: {ranks=}.
function from_driver.drop(self, request)
  return outcome(self, "run:drop_worker", self.life:is "finished" and "the run is over"
    or not self.failed and self:drop(request.ranks))
end

function from_driver.stop(self, request)
  local was_away <const> = self.life:is "away"
  self.stop_why = request.reason or "on request"
  self:await_stop(request.within_s)
  for _, w in ipairs(self:running()) do self:send_worker(w, {op = "stop"}) end
  self.life:fire "stop"
  self:end_waiting()
  self:release_due() -- waiting workers have to be notified
  if was_away then self:meet() end
  self:hand_out()
end

-- What the summary reads of a node's status. A message holds a bounded number of values, and every node has a link to
-- every other.
local function counted(status)
  local bytes, frames = 0, 0
  for _, link in ipairs(status.links or {}) do
    bytes, frames = bytes + (link.bytes_out or 0), frames + (link.frames_out or 0)
  end
  return {tables = status.tables, rss_bytes = status.rss_bytes, links = {{bytes_out = bytes, frames_out = frames}}}
end

local HOTTEST <const> = 40 -- keys a node and table: of these the hottest of all nodes come out

-- All nodes at once. What a node says is encoded: a message holds a bounded number of values, and there may be a
-- thousand nodes.
local function count(self)
  local nodes, hottest, names, there, agents = {}, {}, {}, {}, {}
  for _, name in pairs(self.a.tables) do
    names[#names + 1] = name
    hottest[name] = {}
  end
  for _, node in ipairs(self.a.nodes) do
    if not node.lost then there[#there + 1], agents[#agents + 1] = node, node.agent end
  end
  local answers <const>, problems <const> = ask_all(agents, function(agent, _, timeout_s)
    local now <const>, err = core.call(agent, {op = "status"}, timeout_s)
    local hot <const> = now and core.call(agent, {op = "hottest", tables = names, count = HOTTEST}, timeout_s)
    return now and {now = now, hot = hot or {}}, err
  end, {timeout_s = core.limit "actor_call_timeout"})
  for i, node in ipairs(there) do
    local answer <const>, err <const> = answers[i], problems[i]
    if answer then
      nodes[#nodes + 1] = core.encode {name = node.name, before = counted(self.baseline[node.name] or {}),
                                       after = counted(answer.now)}
      for name, hot in pairs(answer.hot) do hottest[name][node.name] = core.encode(hot) end
    elseif not losses.NAMES[err.name or ""] then
      return nil, err
    end
  end
  return {nodes = nodes, hottest = hottest, elapsed_s = core.now() - self.started_at, clock = self.clock,
          examples = self.done_examples, workers_lost = self.workers_lost,
          chunks_redone = self.chunks and self.chunks.redone}
end

---Counters of all nodes that are there, each with what it was when the run began, and their hottest keys by table.
function from_driver.counters(self) return count(self) end

---A verb of policies: {verb=, arguments= plain bytes} -> {result= plain bytes}.
function from_driver.policy(self, request, message)
  if not self.policies then
    return nil, script.error("T0303", self:is_starting() and "the run has not started yet"
      or ("job `%s` declares neither `batch` nor `comm` and names no policies: it has no seats"):format(self.a.job))
  end
  local result <const>, err = self.policies:serve(request, message)
  if not result then return nil, err end
  events.of_policy(self, request.verb, core.plain_decode(result))
  return {result = result}
end

---How the run is: {} -> {state, why}.
function from_driver.state(self)
  local state <const>, why <const> = self:run_state()
  return {state = state, why = why}
end

---Some of the run's log: {after = position} -> {text, size, next}; without `after` the newest.
function from_driver.log(self, request) return run_log.answer(self.a.directory or "?", request.after) end

function from_driver.close(self)
  local state <const>, why <const> = self:run_state()
  self:end_workers()
  if self.policies then self.policies:close() end
  self:tell_runs(true)
  self:close_records()
  self.policies, self.closed = nil, true
  return {state = state, why = why, params = self.params}
end

---- loop ----------------------------------------------------------------------------------------------------------

function controller:exited(message)
  local what = self.monitors[message.call]
  self.monitors[message.call] = nil
  if not what or self.failed or self.closed then return end
  local reason = message.text and message.text ~= "" and message.text or message.name or "no reason given"
  if what.node then return self:lose_node(what.node, reason, message.code == 0) end
  local w = what.worker
  if w.failed or w.state == "lost" or w.dropped and w.state == "done" then return end
  local err = script.error("T0609", ("worker %d has ended: %s"):format(w.rank, reason), {node = w.node.name})
  if losses.NAMES[message.name or ""] then err.name = message.name end
  self.suspect = self.suspect or {err = err, at = core.now(), worker = w}
end

-- What is malformed, and what goes wrong on a worker's account, ends the run with an error that names the worker: it
-- waits for an answer that it cannot get.
local function blame(self, w, err)
  err = errors.from(err)
  err.node, err.actor = w.node.name, ("worker %s/%d"):format(self.a.job, w.rank)
  if err.code:find "^T01" then err.exit = 1 end -- no misuse of the command
  self:fail(err)
end

---What workers say.
function controller:from_workers()
  return service.new {
    name = "a run", rows = requests.worker, answers = from_worker, envelope = {rank = true, life = true},
    from = function(m)
      local w <const> = self.workers[m.rank]
      return w and w.state ~= "lost" and w.life == m.life and not self.failed and w or nil
    end,
    invoke = function(f, m, w) return f(self, w, m) end,
    failed = function(m, err) blame(self, self.workers[m.rank], err) end,
  }
end

---What the driver, nodes, the keeper of runs and clients ask.
function controller:from_others()
  return service.new {
    name = "a run", rows = requests.run, answers = from_driver,
    invoke = function(f, request, message) return f(self, request, message) end,
    failed = function(request, err, message)
      if message.right ~= "node" then return end
      local op <const> = type(request) == "table" and request.op or request
      self:emit {kind = "log", text = ("%s: %s"):format(tostring(op), errors.from(err).message)}
    end,
    route = function(message)
      local m <const> = message.value
      local by_worker <const> = message.kind == "cast" and message.right == "node" and type(m) == "table"
      return by_worker and m.rank and from_worker[m.op] and self.heard or nil
    end,
    exited = function(message) self:guard(self.exited, message) end,
  }
end

---Calls a method; what it raises ends the run.
function controller:guard(method, ...)
  local ok, err = xpcall(method, script.failure, self, ...)
  if not ok then self:fail(err) end
end

---Things that are due by time.
function controller:tick()
  if self.suspect and not self.failed then
    local node, reason = self:find_lost()
    if node then self:lose_node(node, reason) end
    if self.suspect and core.now() - self.suspect.at >= core.limit "run_suspect" then self:fail(self.suspect.err) end
  end
  if self.lost_node and not self.life:is "over" then
    local err <const> = self:lost_copies()
    if err then self:fail(err) end
  end
  if self.outbox:is_awaited() and core.now() - self.polled_at >= core.limit "run_tick" then self.outbox:flush() end
  if not self:is_starting() then self:forget_nodes() end
  self:look_for_rest()
  self:look_for_late()
  self:tell_runs()
  if self.policies and not self.life:is "over" then
    self.policies:tick()
    if self.policies:queues_changed() then self:hand_out() end
  end
  local checkpoint = self.job and self.job.checkpoint
  if checkpoint and self.ready == self.worker_count and not self.writing and not self.life:is "over"
    and core.now() - (self.checkpoint_at or self.started_at) >= checkpoint.every_s then
    core.fiber(self.job_checkpoint, self)
  end
end

---The command line finds a run's policies by this name on the driver's node; with several runs by the job's too.
function controller:publish_policies()
  local ok, err = core.register "policies"
  if not ok and err.name == "EEXIST" then ok, err = core.register("policies-" .. self.a.job) end
  if not ok and err.name ~= "EEXIST" then error(err, 0) end
end

-- The script, and what of it is the controller's.
local function load_script(self)
  local a <const> = self.a
  local loaded, problem = script.load {text = a.script.text, path = a.script.path, args = a.script.args,
                                       role = "controller", modules = a.script.modules}
  if not loaded then error(problem, 0) end
  self.job = script.jobs[a.job]
  if require("tide.policy.live").has_seats(self.job) then self:publish_policies() end
  self.stop_time_s = self.job.stop and self.job.stop.time
end

---Body of the actor.
function controller.main(a)
  core.trap_exits(true)
  core.open "read"
  local self <const> = controller.new(a)
  local ok, err = xpcall(load_script, script.failure, self)
  if ok then self:try_to_start() else self:fail_or_suspect(err) end
  self.requested:run {
    wait_s = function() return self.outbox:is_awaited() and 0.05 or core.limit "run_tick" end,
    turn = function()
      self:guard(self.tick)
      self:guard(self.look_for_slots)
      return self.closed
    end,
  }
end

return controller
