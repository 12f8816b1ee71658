-- A worker actor: loads the run's script in its own Lua state and runs job.worker(w) on a compute thread.
--
-- It talks with the run's controller by casts (op = ready, report, progress, barrier, chunk, log, done, failed,
-- evaluated) and reads its mailbox only where the job waits or asks (report, barrier, chunks, stopping): those are the
-- points at which evaluations run and a stop takes effect. After job.worker has returned it serves evaluations until
-- it is asked to end.
local artifacts = require "tide.run.artifacts"
local core = require "tide.core"
local data_sets = require "tide.run.data_sets"
local output = require "tide.run.output"
local pieces = require "tide.pieces"
local report = require "tide.report"
local requests = require "tide.requests"
local script = require "tide.script"
local service = require "tide.service"

local worker = {}

local receive <const> = core.receive -- the script's is another one: tame_globals

local WAITS <const> = {answer = "w:report", pass = "a barrier", chunk = "w:chunks", go = "the beginning"}
local PEER <const> = {peer = true, peer_ack = true, peer_over = true} -- messages of other workers: tide.run.mail
local ARRIVALS_MOST <const> = 1024 -- barriers that a worker has come to and others have not

---@class tide.worker
---@field rank integer 1..workers
---@field workers integer how many there were when it began
---@field crowded boolean a machine has fewer processors than workers, as of the beginning of the run
---@field node string name of the node it runs on
---@field seed integer the job's seed; the same on all workers
---@field rng table generator seeded by job and rank
---@field tables table<string, table>
---@field data tide.data.set|integer|any[]|nil of a data set its own part; else what the job has
---@field params table
---@field batch integer|nil examples of its next step, of a job that declares `batch`
---@field comm table|nil newest plan of how gradients travel, of a job that declares `comm`: {epoch=, paths=, formats=}
---@field work table|nil newest batch and passes of a step, of a job whose batch changes: {total=, accum=}
---@field meet integer how often all of a job that meets were asked to
---@field begun integer reports of all before it began, where it joined
---@field suspends boolean|nil it was asked to leave together with all others
---@field clocks integer intervals ended so far; not 0 at the start of a resumed run
---@field passes integer passes over the data in chunks that are complete; not 0 at the start of a resumed run
---@field state table what the worker keeps for a resumed run: numbers, strings, tables of them
local w_methods = {}
w_methods.__index = w_methods

-- Raised to unwind job.worker when the run is over for this worker.
local ENDED <const> = setmetatable({}, {__tostring = function() return "the run has ended" end})

local function tell(self, message)
  message.rank, message.life = self.rank, self.life
  local ok, err = core.send(self.controller, message)
  if not ok then error(err, 0) end
end

---What a checkpoint keeps of this worker.
local function record_of(self)
  return {clock = self.clocks, rng = self.rng:state(), state = self.state, params = self.params}
end

---Errors are cut down to what travels and what the driver prints.
local function travelling(err)
  if type(err) ~= "table" then return {code = "T0609", message = tostring(err)} end
  return {code = err.code == "T0202" and "T0609" or err.code, name = err.name, message = tostring(err.message),
          where = err.where, node = err.node, help = err.help, trace = err.trace}
end

local function evaluate(self, request)
  local f = self.job.evaluate and self.job.evaluate[request.name]
  if not f then
    return tell(self, {op = "evaluated", id = request.id, error = {
      code = "T0401", message = ("job `%s` has no evaluation `%s`"):format(self.job.name, request.name)}})
  end
  local ok, sum, count = xpcall(f, script.failure, self)
  local fault <const> = ok and report.evaluation_fault(sum, count)
  if fault then
    ok, sum = false, script.error("T0113", ("evaluation `%s` of job `%s` %s"):format(request.name, self.job.name,
      fault))
  end
  if not ok then
    return tell(self, {op = "evaluated", id = request.id, error = travelling(sum)})
  end
  tell(self, {op = "evaluated", id = request.id, sum = sum, count = count})
end

-- What workers gave at a barrier comes in as many messages as it takes.
local function add_values(arrival, values)
  if not values then return end
  arrival.values = arrival.values or {}
  table.move(values, 1, #values, #arrival.values + 1, arrival.values)
end

-- What others send: by name, as methods of the worker. What `await` waits for is returned.
local orders <const> = {evaluate = evaluate}

function orders.stop(self, m) self.stop_asked, self.suspends = true, m.suspends or self.suspends end

-- This node leaves; what is in hand is finished, or cut.
function orders.leave(self) self.leaving = true end

function orders.slow(self, m) self.slowness = m.factor end
function orders.comm(self, m) self.comm = m.plan end
function orders.work(self, m) self.work = m.work end
function orders.meet(self, m) self.meet = m.count end
function orders.values(self, m) add_values(self.arrivals[m.id], m.values) end

function orders.pass(self, m)
  local arrival <const> = self.arrivals[m.id]
  self.arrivals[m.id], arrival.passed = nil, true
  add_values(arrival, m.values)
  return m
end

for _, name in ipairs {"go", "answer", "chunk"} do orders[name] = function(_, m) return m end end
for name in pairs(PEER) do orders[name] = function(self, m) self:box():take(m) end end

local function service_of(self)
  return service.new {
    name = "a worker", rows = requests.order, answers = orders, invoke = function(f, m) return f(self, m) end,
    failed = function(_, err) error(err, 0) end,
  }
end

---Handles one message; returns it when it is the answer that the caller waits for.
local function serve(self, message)
  if message.kind == "stop" then error(ENDED, 0) end
  return message.kind == "cast" and self.service:serve(message) or nil
end

local KEPT_MOST <const> = 65536

-- What comes from actors that are none of the run's waits for a core.receive of the script.
local function take_in(self, message)
  if message.kind == "exit" and self.mail then self.mail:exited(message) end
  local value <const> = message.value
  if message.kind == "stop" or message.from == nil or message.from == self.controller
    or type(value) == "table" and PEER[value.op] then
    return serve(self, message)
  end
  if #self.kept < KEPT_MOST then
    self.kept[#self.kept + 1] = message
  elseif not self.kept_full then
    self.kept_full = true
    tell(self, {op = "log", text = ("more than %d messages wait for core.receive: further ones are left out"):format(
      KEPT_MOST)})
  end
  return nil
end

-- Two fibers that wait for answers would take each other's.
local function alone(self, what)
  if self.waits_for then
    error(script.error("T0117", ("%s while another fiber of this worker waits in %s"):format(what, self.waits_for),
      {help = "one fiber of a worker meets the others; let it wait for the other fibers first"}), 0)
  end
end

---Waits for the controller's `op` with this id, serving evaluations meanwhile.
local function await(self, op, id)
  local since <const> = core.now()
  alone(self, WAITS[op])
  local mark <close> = setmetatable({}, {__close = function() self.waits_for = nil end}) -- luacheck: ignore 211
  self.waits_for = WAITS[op]
  while true do
    local message, err = receive()
    if not message then error(err, 0) end
    local value = take_in(self, message)
    if value and value.op == op and value.id == id then
      self.working_since = core.now()
      self.wait_s = self.wait_s + self.working_since - since
      return value
    end
  end
end

---Waits for a message and handles it.
local function attend(self)
  alone(self, "peers")
  local message, err = receive()
  if not message then error(err, 0) end
  take_in(self, message)
  self.working_since = core.now()
end

---Handles what has come, without waiting. While a fiber waits it does that.
local function look(self)
  while not self.waits_for do
    local message = receive(0)
    if not message then return end
    take_in(self, message)
  end
end

-- A script that receives for itself gets what is not the run's.
local function receive_own(self, timeout_s)
  local deadline <const> = timeout_s and core.now() + timeout_s
  while not self.kept[1] do
    local left <const> = deadline and math.max(0, deadline - core.now())
    if self.waits_for then
      if left == 0 then break end
      core.sleep(math.min(0.005, left or 0.005)) -- a waiter there keeps what comes
    else
      local message, err = receive(left)
      if not message then return nil, err end
      take_in(self, message)
    end
  end
  return table.remove(self.kept, 1)
end

---What other workers send to this one.
---@return tide.peers.mail
---@package
function w_methods:box()
  self.mail = self.mail or require("tide.run.mail").new(self, attend, look)
  return self.mail
end

---Meets with all other workers: then they can send each other typed arrays, see tide.peers. Called again, it makes a
---view of those that run then: after one was lost, and where workers may have joined.
---@param value? any a value for all: `values` of the result has those of all, by rank
---@return tide.peers
function w_methods:peers(value) return require("tide.run.peers").form(self, self:box(), value) end

-- A worker that is made slow takes so many times as long for what it has done since it last waited.
local function take_longer(self)
  if self.slowness == 1 then return end
  core.sleep((core.now() - self.working_since) * (self.slowness - 1))
  self.working_since = core.now()
end

local function flush_progress(self)
  if next(self.partial) then
    tell(self, {op = "progress", fields = self.partial})
    self.partial = {}
  end
  self.progress_at = core.now()
end

local function refuse(who, fault)
  if fault then error(script.error("T0113", ("%s: %s"):format(who, fault), {state = "nothing was reported"}), 0) end
end

local NO_NUMBERS <const> = {alike = true, wait = true} -- of the fields of w:report

-- Numbers add up; a text or a boolean takes the place of an earlier one.
local function add(sums, fields)
  for k, v in next, fields do
    if not NO_NUMBERS[k] then sums[k] = type(v) == "number" and (tonumber(sums[k]) or 0) + v or v end
  end
end

---Reports numbers of this worker. Waits until every worker has reported: the numbers are summed, and the answer of
---on_report becomes w.params. With `wait = false` the numbers only move the progress line, and nothing waits. Numbers
---in `alike` are the same on all workers: the controller takes them from one worker in place of sums. Names that
---reports use themselves (n, clock, kind, elapsed_s, workers, rank, node, ...) are refused. A text or a boolean stays
---in the worker's entry of the report.
---@param fields table {loss=, examples=, ..., alike={...}, wait=false}
---@return table params
function w_methods:report(fields)
  refuse("w:report", report.fault(fields, nil, NO_NUMBERS))
  local alike <const>, wait <const> = fields.alike, fields.wait
  refuse("w:report", alike ~= nil and report.fault(alike, "`alike`")
    or wait ~= nil and type(wait) ~= "boolean" and "`wait` is true or false, not a " .. type(wait))
  if wait == false then
    add(self.partial, fields)
    if core.now() - self.progress_at >= core.limit "run_progress_every" then flush_progress(self) end
    return self.params
  end
  alone(self, "w:report")
  take_longer(self)
  self.partial = {}
  self.reports = self.reports + 1
  local now = core.now()
  local own <const> = {}
  add(own, fields)
  own.compute_s = own.compute_s and own.compute_s * self.slowness
  add(own, self.spans)
  add(own, self.gauges)
  self.spans, self.gauges = {}, {}
  local mail <const>, peers = self.mail, nil
  if mail then
    peers = {bytes = mail.bytes, wait_s = mail.wait_s}
    self.wait_s = self.wait_s + mail.wait_s
    mail.bytes, mail.wait_s = 0, 0
  end
  tell(self, {op = "report", id = self.reports, fields = own, alike = alike,
              record = self.keeps and record_of(self) or nil,
              elapsed_s = now - self.reported_at, wait_s = self.wait_s, peers = peers})
  self.wait_s = 0
  local answer = await(self, "answer", self.reports)
  self.reported_at = core.now()
  self.wait_s = 0
  self.params = answer.params or self.params
  self.batch = answer.batch or self.batch
  self.stop_asked, self.suspends = self.stop_asked or answer.stop, answer.suspends or self.suspends
  return self.params
end

---@class tide.chunk
---@field pass integer 1 is the first pass over the data
---@field index integer which part of the data it is
---@field first integer its first example, from 1
---@field count integer
---@field last integer
local chunk_methods = {}
chunk_methods.__index = chunk_methods

---Numbers of this chunk. They are added to the next report of all workers when the chunk is complete, once, whatever
---happens to workers: so the sums of a pass hold every example.
---@param fields table<string, number>
function chunk_methods:report(fields)
  refuse("chunk:report", report.fault(fields, "a report of a chunk"))
  add(self.fields, fields)
end

---Iterates over this chunk in parts of `n` examples: `for first, last in chunk:steps(100) do ... end`. In a worker
---whose node is asked to leave the loop ends behind the part in hand: what was done counts, once, and others get the
---rest. Say by chunk:report what was done in each part, inside the loop.
---@param n integer
---@return fun(): integer?, integer?
function chunk_methods:steps(n)
  if math.type(n) ~= "integer" or n < 1 then
    error(script.error("T0113", "chunk:steps requires a whole number of examples, from 1"), 2)
  end
  local at = self.first
  return function()
    self.reached = at - self.first
    if at > self.last then return nil end
    look(self.worker)
    if self.worker.leaving and self.reached > 0 then return nil end
    local first <const> = at
    at = math.min(at + n, self.last + 1)
    return first, at - 1
  end
end

---Iterates over chunks of the data, one pass a call: `for chunk in w:chunks() do ... end`. The controller hands the
---next free chunk to each request; the loop ends for all workers when every chunk of the pass is complete. A chunk is
---complete when its worker comes for the next one: wait for its asynchronous operations before. What a lost worker had
---not completed another one does again. When the run is asked to stop, the loop ends behind the chunk in hand.
---@return fun(): tide.chunk|nil
function w_methods:chunks()
  if not self.job:has_chunks() then
    error(script.error("T0117", ("job `%s` has no data to cut"):format(self.job.name),
      {help = "give tide.job `data = N`, a list, or a data set and `chunks = N`"}), 2)
  end
  if self.waited_for < self.barriers then
    error(script.error("T0117", "w:chunks: this worker has not yet waited for an asynchronous barrier",
      {help = "call wait() of what w:barrier(name, value, {async = true}) returned"}), 2)
  end
  self.passes = self.passes + 1
  local pass <const> = self.passes
  local current
  local function leave()
    if not current then return nil end
    local said <const> = {index = current.index, lease = current.lease, fields = current.fields}
    local reached <const> = current.reached
    if reached and reached > 0 and reached < current.count then said.count = reached end -- it was cut
    current, self.holding = nil, self.holding - 1
    return said
  end
  local closing = setmetatable({}, {__close = function()
    local back <const> = leave()
    if back then tell(self, {op = "chunk", pass = pass, back = {index = back.index, lease = back.lease}}) end
  end})
  return function()
    alone(self, "w:chunks")
    take_longer(self)
    self.asked = self.asked + 1
    tell(self, {op = "chunk", id = self.asked, pass = pass, done = leave()})
    local answer = await(self, "chunk", self.asked)
    if not answer.index then return nil end
    self.holding = self.holding + 1
    current = setmetatable({
      worker = self, pass = pass, index = answer.index, lease = answer.lease,
      first = answer.first, count = answer.count,
      last = answer.first + answer.count - 1, fields = {},
    }, chunk_methods)
    return current
  end, nil, nil, closing
end

local function settle()
  local ok, err = core.settle()
  if not ok then error(err, 0) end
end

---@class tide.arrival a worker has come to a barrier
local arrival_methods = {}
arrival_methods.__index = arrival_methods

---Whether all workers have come to the barrier.
---@return boolean whether all workers have come; looks for messages, as w:stopping() does
function arrival_methods:done()
  if not self.passed then look(self.worker) end
  return self.passed
end

---Waits until all workers have come. What they did before they came is seen behind it.
---@return table values by rank, if there are any
function arrival_methods:wait()
  local w <const> = self.worker
  if not self.passed then await(w, "pass", self.id) end
  settle() -- here are the pushes of all
  w.waited_for = math.max(w.waited_for, self.id)
  local values = self.values and #self.values > 0 and {} or nil
  for _, each in ipairs(self.values or {}) do
    values[each.rank] = pieces.unpacked(each.value, each.encoded)
  end
  return values
end

---Waits until every worker that still runs is at a barrier of this name. After it all workers read the same values.
---With `async` the worker continues, with what the others do not touch, and waits later, or looks whether they have
---come: `local arrival = w:barrier("block", nil, {async = true})`, `arrival:done()`, `arrival:wait()`. What was done
---before the arrival is seen by all behind the wait. Barriers pass in the order in which a worker comes to them, and so
---do reports: all workers come to the same ones in the same order.
---@param name? string
---@param value? any something that all are to know
---@param o? {async?: boolean}
---@return table|tide.arrival values by rank, if there are any
function w_methods:barrier(name, value, o)
  if name ~= nil and type(name) ~= "string" then
    error(script.error("T0113", "w:barrier: the name of a barrier is a string, not a " .. type(name)), 2)
  end
  local splits <const> = o and o.async
  if splits and self.holding > 0 then
    error(script.error("T0117", "w:barrier: inside a loop over chunks a barrier cannot be asynchronous",
      {help = "w:barrier without `async`, or after the loop over w:chunks()"}), 2)
  end
  settle() -- what was pushed here is at the homes
  self.barriers = self.barriers + 1
  local most <const> = self.barriers - ARRIVALS_MOST
  if self.arrivals[most] then await(self, "pass", most) end
  local arrival <const> = setmetatable({worker = self, id = self.barriers, passed = false}, arrival_methods)
  local sent <const>, encoded <const> = pieces.packed(value)
  self.arrivals[arrival.id] = arrival
  tell(self, {op = "barrier", id = arrival.id, name = name or "barrier", value = sent, encoded = encoded,
              async = splits or nil})
  if splits then return arrival end
  return arrival:wait()
end

---Reports the cost of the exchange of gradients to the run's `comm` policy.
---@param fields table {seconds =, paths =, windows = by tensor, bytes =, busy_s =, step_s =, waited_s =, flops =,
---products_s =}
---@package
function w_methods:exchanged(fields) tell(self, {op = "exchanged", fields = fields}) end

---This worker will use keys of a table in its clocks `from` to `to` - 1 (w:clock() counts them): rows come here, or
---copies of those that others use too, when that is near. Nothing depends on it but speed.
---@param handle table of a table with technique "intent" or "relocate"
---@param keys integer[]|tensor
---@param from integer
---@param to? integer default from + 1
---@return boolean|nil ok nil: too many intents are queued already
function w_methods:intent(handle, keys, from, to)
  return handle:intent(keys, self.clock_base + from, self.clock_base + (to or from + 1))
end

---Ends this worker's clock interval: what it pushed is in flight, and others need not wait for it any more.
---@return integer clock
function w_methods:clock()
  local clock <const> = core.clock()
  self.clocks = clock - self.clock_base
  if core.cut_clock() == clock then -- the interval that begins now is the first after the cut
    tell(self, {op = "cut", record = record_of(self)})
  end
  return self.clocks
end

---Whether to leave the loop: looks for what has come meanwhile.
---@return boolean whether the run is asked to stop, or this node to leave: leave the loop after this step
function w_methods:stopping()
  look(self)
  return self.stop_asked or self.leaving
end

---Writes a record to the run's log.
---@param record table|string
function w_methods:log(record)
  tell(self, {op = "log", text = type(record) == "table" and core.json_encode(record) or tostring(record)})
end

---Keeps a file with the run, on the disk of its controller: `tide job artifacts`, `tide runs artifacts`. A name that is
---kept again replaces the file. Raises what cannot be kept, and nothing of it is there then.
---@param name string letters, digits and . _ -; for tensors it ends in .npy, .npz, .safetensors or .csv
---@param value string|tide.tensor|table<string, tide.tensor> the path of a file, a tensor, or tensors by name
---@return tide.artifact {name, bytes, sha256, time, rank, node}
function w_methods:artifact(name, value)
  local kept <const>, err = artifacts.keep_by(self.controller, self, name, value)
  if not kept then error(err, 2) end
  return kept
end

---A value as it is now, such as a learning rate or a norm. The next report has it, as the mean over the workers that
---gave one; a later value takes the place of an earlier one.
---@param name string
---@param value number
function w_methods:gauge(name, value)
  refuse("w:gauge", report.name_fault(name) or report.name_fault(name .. "_n")
    or type(value) ~= "number" and ("`%s` is a %s, not a number"):format(name, type(value)))
  self.gauges[name], self.gauges[name .. "_n"] = value, 1
end

---Seconds until the value is closed are added to the next report as `<name>_s`.
---@param name string
function w_methods:span(name)
  local key <const> = type(name) == "string" and name .. "_s" or name
  refuse("w:span", report.name_fault(key))
  local from <const> = core.now()
  return setmetatable({}, {__close = function()
    self.spans[key] = (self.spans[key] or 0) + core.now() - from
  end})
end

local LINE_MAX <const> = 64 << 10 -- bytes of what a worker prints at once

-- What this worker prints, by stream, as whole lines for the run's log.
local function printer(self, err)
  return output.lines(function(lines)
    local more <const> = #lines - LINE_MAX
    if more > 0 then lines = ("%s ... (%d bytes more)"):format(lines:sub(1, LINE_MAX), more) end
    tell(self, {op = "log", text = lines, err = err or nil})
  end)
end

---In workers, what a script prints goes to the run's log; a worker that ends the process would take a node with it.
local function tame_globals(self)
  local put_out <const>, flush_out <const> = printer(self, false)
  local put_err <const>, flush_err <const> = printer(self, true)
  output.capture(function(chunk, err) (err and put_err or put_out)(chunk) end)
  self.flush_output = function()
    flush_out()
    flush_err()
  end
  core.receive = function(timeout_s) return receive_own(self, timeout_s) end
  rawset(os, "exit", function()
    error(script.error("T0117", "os.exit would end the node; return from the worker function instead"), 2)
  end)
end

local function find_tables(names)
  local tables = {}
  for key, name in pairs(names) do
    local handle, err = core.table_find(name)
    if not handle then error(err, 0) end
    tables[key] = handle
  end
  return tables
end

---@param a table argument of the actor, see agent.lua
function worker.new(a)
  local resumed <const> = a.resume or {}
  local resume <const> = resumed.record and pieces.unpacked(resumed.record, true) or {}
  local rng = core.random(a.seed * 1000003 + a.stream)
  if resume.rng then rng:restore(resume.rng) end
  local self <const> = setmetatable({
    rank = a.rank, life = a.life, workers = a.workers, crowded = a.crowded, node = a.node, seed = a.seed,
    params = resume.params or a.params or {}, state = resume.state or {}, keeps = a.keeps, controller = a.controller,
    reports = 0, barriers = 0, arrivals = {}, kept = {},
    waited_for = 0, holding = 0, clocks = resume.clock or 0, passes = resumed.passes or 0, asked = 0, wait_s = 0,
    partial = {}, spans = {}, gauges = {}, progress_at = 0,
    slowness = 1, working_since = core.now(), reported_at = core.now(),
    stop_asked = false, leaving = false, rng = rng,
  }, w_methods)
  self.service = service_of(self)
  return self
end

local function prepare(self, a)
  if core.sha256(a.script.text) ~= a.script.sha or script.args_sha(a.script.args) ~= a.script.args_sha then
    error(script.error("T0207", ("the script differs: the driver runs %s, this node was given %s"):format(
      a.script.sha:sub(1, 12), core.sha256(a.script.text):sub(1, 12)), {node = a.node}), 0)
  end
  local ok, err = script.load {text = a.script.text, path = a.script.path, args = a.script.args, role = "worker",
                               modules = a.script.modules}
  if ok then ok, err = script.check_modules(a.script.modules or {}, a.node) end
  if not ok then error(err, 0) end
  self.job = script.jobs[a.job]
  if not self.job then
    error(script.error("T0401", ("the script registers no job `%s` on this node"):format(a.job), {node = a.node}), 0)
  end
  self.tables = find_tables(a.tables or {})
  if self.job.data then
    local data = self.job.data
    local place <const> = (self.rank - 1) % self.workers + 1 -- ranks may be higher: others have left
    self.data = data_sets.is_set(data) and data:cut(place, self.workers, self.seed) or data
  end
end

---Body of the actor.
function worker.main(a)
  local self = worker.new(a)
  tame_globals(self)
  local ok, err = xpcall(function()
    core.title("worker " .. a.rank)
    prepare(self, a)
    local begun, why = core.worker_begin(a.rank, self.clocks, a.domain)
    if not begun then error(why, 0) end
    self.clock_base = core.worker_clock() - self.clocks
    if self.job.prepare then self.job.prepare(self) end
    tell(self, {op = "ready"})
    local go <const> = await(self, "go", 0)
    self.batch, self.comm, self.passes = go.batch, go.comm, go.passes or self.passes
    self.params, self.work, self.meet = go.params or self.params, go.work, go.meet or 0
    self.begun, self.state = go.reports or 0, go.state or self.state
    self.reported_at, self.working_since = core.now(), core.now()
    self.job.worker(self)
    if self.mail then self.mail:finish() end
    core.worker_end()
    self.flush_output()
    flush_progress(self)
    if self.arrivals[self.barriers] then await(self, "pass", self.barriers) end -- none has to do without its values
    tell(self, {op = "done", record = record_of(self)})
    while true do
      local message, problem = receive()
      if not message then error(problem, 0) end
      take_in(self, message)
    end
  end, function(raised) return raised == ENDED and raised or script.failure(raised) end)
  if not ok and err ~= ENDED then
    core.worker_end()
    self.flush_output()
    local failure = travelling(err)
    failure.node = failure.node or self.node
    tell(self, {op = "failed", error = failure})
  end
end

return worker
