-- The live driver of a job's policies: what the run's controller knows becomes views, and plans become what the workers
-- get with the answer to their report, slots that move (servers.lua) and nodes that come or go. The same code runs
-- under `tide sim`.
--
-- A job has a placement or a scaling seat when it names a policy for it, a dispatch seat when it names one and its
-- data is cut into chunks, and a sync seat for each table that it names one for: {sync = "sync/adaptive"} for all
-- tables with clocks, or {sync = {columns = "sync/adaptive"}}.
-- A job has a batching seat when it declares `batch`: each worker's share is w.batch, and what a worker reports as
-- `examples`, with the seconds it did not wait, is what its speed is judged by. Packages add seats at extension points
-- (tide.extensions): a comm seat at `communication`, a batching seat with a fit at `adaptation`.
local audit = require "tide.request_audit"
local Batching = require "tide.policy.batching"
local core = require "tide.core"
local dispatch = require "tide.policy.dispatch"
local errors = require "tide.errors"
local Comm = require "tide.policy.comm"
local extensions = require "tide.extensions"
local guard = require "tide.policy.guard"
local Host = require "tide.policy.host"
local journal = require "tide.policy.journal"
local report = require "tide.report"
local requests = require "tide.requests"
local script = require "tide.script"
local servers = require "tide.policy.servers"
local service = require "tide.service"
local shares = require "tide.policy.shares"
local Sync = require "tide.policy.sync"

local live = {}
live.__index = live

local SAMPLES_MAX <const> = 64

---@param batch tide.extension.batch
---@return table {total=, min=, max=}
local function batch_of(batch)
  return {total = math.tointeger(batch.total), min = math.tointeger(batch.min or 1),
          max = math.tointeger(batch.max or batch.total)}
end

local driver = {}
driver.__index = driver

function driver:snapshot(kind, scope, needs)
  local want = {}
  for _, name in ipairs(needs or {}) do want[name] = true end
  local view = {workers = {}, nodes = {}, age = {},
    job = {id = 1, name = self.job_name, batch = self.batch and self.batch.total, clock = self.clock, accum = 1,
           state = "running", age = core.now() - self.started_at}}
  for i, node in ipairs(self.nodes) do
    view.nodes[i] = {id = node.id, name = node.name, state = node.lost and "down" or "up", slots = node.workers}
  end
  for _, w in ipairs(self.workers) do
    if not w.done then
      local state = self.controller.workers[w.id].dropped and "leaving" or "up"
      local entry = {id = w.id, node = w.node, state = state, batch = w.batch, slots = 1,
                     batch_min = self.batch and self.batch.min, batch_max = self.batch and self.batch.max,
                     clock = w.clock, examples_per_s = w.examples_per_s}
      if want["worker.times"] then entry.compute_s, entry.wait_s = w.compute_s, w.wait_s end
      if want["worker.speed"] then entry.speed = self:speed_of(w) end
      if want["worker.sample"] then entry.examples, entry.seconds = w.examples[#w.examples], w.seconds[#w.seconds] end
      view.workers[#view.workers + 1] = entry
    end
  end
  if kind == "batching" and self.adapts then
    view.machines = self.adapts.machines()
    self.adapts:fill(view.job, want)
  elseif kind == "comm" then
    self.comm:fill(view, want)
  elseif kind == "sync" then
    self.sync:fill(view, scope, want)
  elseif kind == "dispatch" then
    self.dispatch:fill(view, want)
  elseif kind ~= "batching" then
    self.servers:fill(view, kind, want)
  end
  for name in pairs(want) do
    if kind == "comm" or kind == "dispatch" or name:find("^worker%.") then
      view.age[name] = self.measured_at and core.now() - self.measured_at or nil
    end
  end
  return view
end

-- A worker without samples borrows those of all the others.
function driver:speed_of(w)
  if #w.examples > 0 then
    return {examples = table.move(w.examples, 1, #w.examples, 1, {}),
            seconds = table.move(w.seconds, 1, #w.seconds, 1, {})}
  end
  local speed = {examples = {}, seconds = {}, borrowed = true}
  for _, other in ipairs(self.workers) do
    local n = #other.examples
    if n > 0 then
      speed.examples[#speed.examples + 1], speed.seconds[#speed.seconds + 1] = other.examples[n], other.seconds[n]
    end
  end
  if #speed.examples == 0 then speed.examples, speed.seconds = {1}, {1} end
  return speed
end

-- What of a plan the run does not allow stands in its log.
function driver:say(why)
  if why then self.controller:emit {kind = "log", text = why} end
end

function driver:apply(kind, scope, actions, epoch)
  for _, a in ipairs(actions) do
    if kind == "sync" then
      local ok, why = self.sync:apply(scope, a)
      if not ok then return nil, why end
    elseif kind == "comm" then
      if not self.comm:apply(a) then return nil, ("a job cannot carry out `%s` here"):format(a.field) end
    elseif kind == "dispatch" then
      local ok, why = self.dispatch:apply(a)
      if not ok then return nil, why end
    elseif kind == "batching" and self.adapts then
      if not self.adapts:apply(a) then return nil, ("this job cannot carry out `%s`"):format(a.field) end
    elseif a.field == "batch" then
      local w = self.workers[a.id]
      w.batch, w.epoch = a.value, epoch
    elseif a.field == "moves" then
      local ok, why = self.servers:move(a.value)
      if not ok then return nil, why end
    elseif a.field == "technique" then
      local ok, why = self.servers:manage(a.value)
      if not ok then return nil, why end
    elseif a.field == "servers" then
      self.servers:scale(a.value)
    elseif a.field == "workers" then
      self:say(self.controller:set_workers(a.value))
    elseif a.field == "drop" then
      self:say(self.controller:drop(a.value))
    elseif a.field == "total" then
      self.batch.total = a.value
      self.batch.max = math.max(self.batch.max, a.value)
    else
      return nil, ("a job cannot carry out `%s` here"):format(a.field)
    end
  end
  return true
end

---What is measured of each worker or, for placement, of each node that holds rows.
---@return table<string, table<integer, table>> samples of guard.sample by metric and id
function driver:things(kind)
  local out = {}
  local function add(id, metrics)
    for name, samples in pairs(metrics) do
      out[name] = out[name] or {}
      out[name][id] = samples
    end
  end
  if kind == "batching" or kind == "dispatch" then
    for _, w in ipairs(self.workers) do add(w.id, w.metrics) end
  elseif kind == "placement" then
    for id, metrics in pairs(self.servers.metrics) do add(id, metrics) end
  end
  return out
end

---A worker that is to come.
function driver:expect(rank, node)
  self.workers[rank] = {id = rank, node = node, done = true, clock = 0, examples = {}, seconds = {}, metrics = {}}
end

-- A worker has joined or left: the present ones share the batch as they did, until a policy knows better.
function driver:share_anew()
  if not self.batch then return end
  local there = {}
  for _, w in ipairs(self.workers) do
    if not w.done then
      there[#there + 1] = {id = w.id, batch = w.batch, batch_min = self.batch.min, batch_max = self.batch.max}
    end
  end
  for id, share in pairs(shares.scaled(there, {}, self.batch.total) or {}) do self.workers[id].batch = share end
end

local function new_driver(controller, batch)
  local self = setmetatable({controller = controller, job_name = controller.a.job, batch = batch, workers = {},
    nodes = controller.a.nodes, clock = 0, started_at = core.now()}, driver)
  local count = #controller.workers
  for i, w in ipairs(controller.workers) do
    self:expect(i, w.node.id)
    self.workers[i].done = nil
    self.workers[i].batch = batch and batch.total // count + (i <= batch.total % count and 1 or 0)
  end
  return self
end

local SEATS <const> = {"batching", "placement", "scaling", "comm", "dispatch", "sync"}

-- What a job must declare for a policy of the kind, or nothing.
local NEEDS <const> = {
  batching = {"batch", "give `batch = N`, the examples of one step over all workers"},
  comm = {"communication", "nn.job and tide.factors.job declare it; a package does by package.extend"},
  dispatch = {"chunks", "give `data = N`, and ask for chunks of it by w:chunks()"},
}

local function declares(job, kind)
  if kind == "dispatch" then return job:has_chunks() end
  return extensions.of(job, NEEDS[kind][1]) ~= nil
    or kind == "batching" and extensions.of(job, "adaptation") ~= nil
end

-- Which seats a job has; raises what cannot be.
local function seats_of(job)
  local policies, seats = job.policies or {}, {}
  for _, kind in ipairs(SEATS) do
    local need = NEEDS[kind]
    if need and declares(job, kind) and (kind ~= "dispatch" or policies[kind]) or not need and policies[kind] then
      seats[#seats + 1] = kind
    elseif policies[kind] then
      error(errors.new("T0303", {message = ("job `%s` names a %s policy but declares no `%s`"):format(job.name, kind,
        need[1]), help = need[2]}), 0)
    end
  end
  for kind in pairs(policies) do
    local known = false
    for _, seat in ipairs(SEATS) do known = known or seat == kind end
    if not known then
      error(errors.new("T0303", ("a run has no seat for %s policies yet; there are: %s"):format(kind,
        table.concat(SEATS, ", "))), 0)
    end
  end
  return seats
end

-- The sync policies of a job by its tables; raises what cannot be.
local function tables_of(job, policies, tables)
  local seats <const>, problem <const> = Sync.seats(policies, tables)
  if problem then error(errors.new("T0303", ("job `%s` names %s"):format(job.name, problem)), 0) end
  return seats
end

---@param job tide.job
---@return boolean whether there is anything that a policy could decide
function live.has_seats(job)
  return extensions.of(job, "batch") ~= nil or extensions.of(job, "communication") ~= nil
    or next(job.policies or {}) ~= nil
end

local function signals(names)
  local set = {}
  for _, name in ipairs(names) do set[name] = true end
  return set
end
local SIGNALS <const> = {
  batching = signals {"worker.speed", "worker.sample", "worker.times"},
  adapts = signals {"worker.times", "job.goodput", "job.progress"},
  placement = signals {"worker.speed", "worker.sample", "worker.times", "server.load", "slot.rates", "key.hot"},
  scaling = signals {"worker.speed", "worker.sample", "worker.times", "server.load"},
  dispatch = signals {"worker.speed", "worker.sample", "worker.times", "chunk.times"},
  comm = signals {"worker.times", "tensor.sizes", "net.rate"},
  sync = signals {"worker.times", "table.staleness"},
}

---@param controller table of tide.controller, its workers started
---@param job tide.job
---@return table|nil live; nil: the job has nothing that a policy could decide
function live.new(controller, job)
  local seats <const> = seats_of(job)
  if #seats == 0 then return nil end
  local batch <const>, sent <const> = extensions.of(job, "batch"), extensions.of(job, "communication")
  local adaptation <const> = extensions.of(job, "adaptation")
  local self = setmetatable({controller = controller,
    driver = new_driver(controller, batch and batch_of(batch))}, live)
  local d <const> = self.driver
  local policies <const> = job.policies or {}
  if policies.placement or policies.scaling then
    d.servers = servers.new(controller, core.limit "policy_sample", d.started_at, function(line)
      controller:emit {kind = "log", text = line}
    end)
  end
  local of_tables <const> = policies.sync and tables_of(job, policies.sync, controller.a.tables) or {}
  local keys <const> = require("tide.text").sorted_keys(of_tables)
  if policies.sync then
    d.sync = Sync.new(controller, keys, core.limit "policy_sample", function(line)
      controller:emit {kind = "log", text = line}
    end)
  end
  d.dispatch = policies.dispatch and dispatch.new(controller, SAMPLES_MAX, d.started_at)
  d.comm = sent and Comm.new(sent)
  d.adapts = adaptation and Batching.new(adaptation, function() return controller:machine_count() end)
  local own <const> = controller.a.journal and assert(journal.open(controller.a.journal, function(why)
    controller:emit {kind = "unsaved", what = "the journal of the policies",
                     error = script.error("T0403", why, {where = controller.a.journal})}
  end)) or nil
  self.host = Host.new {seed = controller.a.seed, timed = not core.simulated(), journal = own, driver = {
    now = function() return core.now() - d.started_at end,
    signals = function(kind) return SIGNALS[kind == "batching" and d.adapts and "adapts" or kind] end,
    notify = function(event) self:tell(event) end,
    printed = function(of, lines)
      for line in lines:gmatch "[^\n]+" do
        controller:emit {kind = "log", text = ("policy: %s: %s"):format(of, line)}
      end
    end,
    snapshot = function(...) return d:snapshot(...) end,
    things = function(kind) return d:things(kind) end,
    apply = function(...) return d:apply(...) end,
  }}
  local function add(kind, scope, policy)
    local _, err = self.host:add_seat(kind, scope, policy)
    if err then error(err, 0) end
  end
  for _, kind in ipairs(seats) do
    if kind ~= "sync" then add(kind, job.name, policies[kind]) end
  end
  for _, key in ipairs(keys) do add("sync", key, of_tables[key]) end
  if d.comm then self.host:step() end -- the first step follows a plan already
  return self
end

function live:tell(event)
  local text = ("policy: %s: %s: %s"):format(event.seat, event.policy, event.reason)
  if event.now then text = text .. "; now " .. event.now end
  self.controller:emit {kind = "log", text = text}
  self.controller:emit {kind = "policy", what = event.kind, seat = event.seat, policy = event.policy,
                        reason = event.reason, now = event.now, at = event.at}
end

---What a worker is to compute in its next step.
function live:batch_of(rank) return self.driver.workers[rank].batch end

---@param anew? boolean of workers that all begin now
---@return table|nil how gradients travel from the first step on
function live:comm_plan(anew)
  local comm <const> = self.driver.comm
  if anew then self.first_plan = nil end
  self.first_plan = self.first_plan or (comm and comm:plan())
  return self.first_plan
end

---What the first worker measured of the exchange of gradients.
function live:exchanged(fields)
  if self.driver.comm then
    self.driver.comm:measured(fields)
    self.driver.measured_at = core.now()
  end
  if self.driver.adapts and self.driver.adapts:measured(fields.adapts) then self.host:event("fit") end
end

---@return table|nil batch and passes of the next step, of a job whose batch changes
function live:work() return self.driver.adapts and self.driver.adapts:work() end

---A plan that has changed goes to the first worker, which sends it with the sums of its step; so does the newest one
---when another worker is the first.
function live:step()
  self.host:step()
  local adapts <const> = self.driver.adapts
  if adapts and adapts.changed then
    adapts.changed = false
    for _, w in ipairs(self.controller.workers) do -- the first of them sends it with its sums
      if w.state == "running" then self.controller:send_worker(w, {op = "work", work = adapts:work()}) end
    end
  end
  local comm <const> = self.driver.comm
  if not comm then return end
  for _, w in ipairs(self.controller.workers) do
    if w.state == "running" then
      if comm.changed or (self.told and self.told ~= w) then
        self.controller:send_worker(w, {op = "comm", plan = comm:plan()})
      end
      self.told = w
      return
    end
  end
end

---A report of all workers: their speeds, the job's metrics, and the seats that are due.
---@param waiting table[] the controller's workers
---@param sum table
function live:reported(waiting, sum)
  local d <const> = self.driver
  local now <const> = core.now()
  d.clock = d.clock + 1
  for _, w in ipairs(waiting) do
    local own, r = d.workers[w.rank], w.report
    local seconds = r.compute_s or (w.elapsed_s and math.max(w.elapsed_s - (r.wait_s or 0), 0))
    own.clock, own.compute_s, own.wait_s = d.clock, seconds, r.wait_s
    if type(r.examples) == "number" and r.examples > 0 and seconds and seconds > 0 then
      own.examples[#own.examples + 1], own.seconds[#own.seconds + 1] = r.examples, seconds
      if #own.examples > SAMPLES_MAX then
        table.remove(own.examples, 1)
        table.remove(own.seconds, 1)
      end
      own.examples_per_s, d.measured_at = r.examples / seconds, now
      guard.sample(own.metrics, "compute_s", now - d.started_at, seconds, SAMPLES_MAX)
      guard.sample(own.metrics, "examples_per_s", now - d.started_at, own.examples_per_s, SAMPLES_MAX)
    end
  end
  if d.reported_at and now > d.reported_at then
    self.host:metric("step_s", now - d.reported_at)
    if sum.examples then self.host:metric("examples_per_s", sum.examples / (now - d.reported_at)) end
  end
  local loss <const> = report.value(sum, "loss")
  if loss then self.host:metric("loss", loss) end
  d.reported_at = now
  self:step()
end

---A worker has completed a chunk: {examples=, since=}.
function live:completed(rank, examples, since)
  local d <const> = self.driver
  if not d.dispatch then return end
  d.measured_at = core.now()
  guard.sample(d.workers[rank].metrics, "example_s", d.measured_at - d.started_at,
    d.dispatch:completed(rank, examples, since) / examples, SAMPLES_MAX)
end

---Workers wait for chunks: the dispatch policy decides.
---@param ranks integer[]
---@return boolean whether queues have changed
function live:idle(ranks)
  local d <const> = self.driver
  if not d.dispatch then return false end
  for _, rank in ipairs(ranks) do self.host:event("idle", rank) end
  self.host:step()
  return self:queues_changed()
end

---@return boolean whether queues of chunks have changed since it was last asked
function live:queues_changed()
  local own <const> = self.driver.dispatch
  local changed = own ~= nil and own.changed or false
  if changed then own.changed = false end
  return changed
end

---A worker has returned or is lost: its share goes to the others at their next decision.
function live:ended(rank)
  local w = self.driver.workers[rank]
  if w.done then return end
  w.done, w.batch = true, w.batch and 0
  self.driver:share_anew()
  local left = false
  for _, other in ipairs(self.driver.workers) do left = left or not other.done end
  if left then self.host:event("leave", rank) end
end

---A worker is going to join on a node.
function live:expect(rank, node)
  self.driver:expect(rank, node.id)
  if self.driver.dispatch then self.driver.dispatch:expect(rank) end
end

---A worker has joined: it gets the share of one among equals, taken from all.
function live:joined_worker(rank)
  local d <const> = self.driver
  local there = 0
  for _, w in ipairs(d.workers) do there = there + (w.done and 0 or 1) end
  local w = d.workers[rank]
  w.done, w.batch = nil, d.batch and math.max(d.batch.total // (there + 1), 1)
  d:share_anew()
  self.host:event("join", rank)
end

---Things that are due by time.
function live:tick()
  for _, w in ipairs(self.driver.workers) do
    if not w.done then return self:step() end
  end
end

local verbs = {}
function verbs.list(host) return host:list() end
function verbs.swap(host, a) return host:swap(a.policy, a) end
function verbs.set(host, a) return host:set(a.kind, a.params or {}, a) end
function verbs.rollback(host, a) return host:rollback(a.kind, a) end
function verbs.views(host, a) return host:recorded(a.kind, a.scope) end
function verbs.shadow(host, a) return host:shadow(a.policy, a) end
function verbs.report(host, a) return host:report(a.kind, a.scope) end
function verbs.history(host, a) return host:history(a.kind, a.scope) end
function verbs.why(host, a) return host:why(a.what or "") end
function verbs.metric(host, a) return guard.curve(host.metrics, a.name, host.driver.now(), a.last) end
function verbs.journal(host)
  if host.journal.path then return {path = host.journal.path} end
  return nil, errors.new("T0303", "a simulated run keeps no journal of policies: replay one of a run on real nodes")
end

local asked <const> = service.new {name = "a seat of policies", rows = requests.policies, answers = verbs,
                                   audit = audit.audit "policies"}

-- Below admin only policies that are known to be good: that ship with Tide, or that an admin, or a node's script, has
-- brought to this run.
---@param self table with `approved`, SHA-256 sums of those that were
local function approves(self, policy, right)
  if type(policy) ~= "table" or type(policy.text) ~= "string" then return true end -- a mistake that the host names
  local name <const> = tostring(policy.path or ""):gsub("%.lua$", "")
  self.approved = self.approved or {}
  local sha <const> = core.sha256(policy.text)
  if service.at_least(right, "admin") then self.approved[sha] = true end
  return self.approved[sha] or core.embedded("policies/" .. name) == policy.text
end

---The request inside, if its sender may have it: what a verb of policies holds.
---@param self table remembers policies that an admin has brought
---@param request {verb: string, arguments: string} plain bytes
---@param message table by which it came
---@return table|nil a, table? err
function live.admit(self, request, message)
  local a = core.plain_decode(request.arguments)
  if type(a) ~= "table" then a = {arguments = a} end
  a.op = request.verb
  local allowed <const>, refusal = asked:admit(a, message)
  if not allowed then return nil, refusal end
  if not approves(self, a.policy, message.right) then
    return nil, errors.new("T0801", {
      message = "a policy that does not ship with Tide requires the right `admin` the first time",
      help = "let a person with admin keys swap it in once, or use a shipped one: tide policy shipped"})
  end
  a.by = core.person(message.from)
  return a
end

---What a script or the command line asks: {verb=, arguments= plain bytes}.
---@param request {verb: string, arguments: string}
---@param message table by which it came
---@return string|nil plain bytes, table? err
function live:serve(request, message)
  local a <const>, refusal = live.admit(self, request, message)
  if not a then return nil, refusal end
  local answer, err = verbs[a.op](self.host, a)
  if answer == nil then return nil, err end
  return core.plain_encode(answer)
end

---@return table[] see host:holders
function live:holders() return self.host:holders() end

---@return table[] {seat, policy, version, decisions, actions, faults}: the seats in numbers
function live:brief()
  local list = {}
  for i, row in ipairs(self.host:list()) do
    list[i] = {seat = row.seat, policy = row.name, version = row.version, decisions = row.decisions,
               actions = row.actions, faults = row.errors}
  end
  return list
end

---A node has joined the run.
function live:joined(node)
  if self.driver.servers then self.host:event("join", node.id) end
end

---A node of the run has gone.
function live:left(node)
  if self.driver.servers then self.host:event("leave", node.id) end
end

function live:close()
  if self.driver.servers then self.driver.servers:close() end
  if self.driver.sync then self.driver.sync:close() end
  self.host:close()
end

return live
