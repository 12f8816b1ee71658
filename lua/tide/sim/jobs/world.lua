-- The job-level simulator: jobs of a trace on nodes that exist as numbers, under a scheduling policy in the same host
-- as on a running cluster. Months go by in seconds; every run repeats.
--
-- Time goes in ticks (`every` seconds, as the published simulator), or from event to event (`events = true`).
local core = require "tide.core"
local errors = require "tide.errors"
local Host = require "tide.policy.host"
local Job = require "tide.sim.jobs.job"
local placer = require "tide.policy.placer"
local report = require "tide.sim.jobs.report"
local shares = require "tide.policy.persons"

local world = {}
world.__index = world

-- What the batch of a job maximises, by the signal of which a policy makes use.
local ADAPTS <const> = {["job.goodput"] = "goodput", ["job.throughput"] = "throughput"}
local IDLE_MOST <const> = 1000 -- decisions in a row that leave every job waiting, before it is an error
local SIGNALS <const> = {"job.person", "job.request", "job.attained", "job.resize", "job.goodput", "job.throughput",
                         "job.progress", "job.remaining", "job.oracle"}

---@class tide.sim.jobs.world
---@field nodes integer
---@field slots integer of a node
---@field every number seconds between decisions
---@field resize {start: number, live: number} seconds that a job loses when it starts and when its slots change
---@field interference number share of its speed that a spanning job loses on a machine with another one
---@field events boolean decisions when something happens, and every `every` seconds
---@field nodes_min integer with autoscaling
---@field nodes_max integer
---@field shares? tide.policy.share_settings of persons
---@field used? {at: number, by: table<string, number>} what persons used before; see shares.new
---@field machines? table[] {id, slots, machine, state = "up"}: nodes that differ

local function signal_set()
  local set = {}
  for _, name in ipairs(SIGNALS) do set[name] = true end
  return set
end

---- view, plan ----------------------------------------------------------------------------------------------------

local function node_entries(self)
  local list = {}
  local held = {}
  for _, job in ipairs(self.active) do
    for node, n in pairs(job.nodes) do held[node] = (held[node] or 0) + n end
  end
  for i, node in ipairs(self.machines) do
    local slots <const> = node.slots or self.o.slots
    list[i] = {id = node.id, name = "n" .. node.id, machine = node.machine or "m" .. node.id, slots = slots,
               free = slots - (held[node.id] or 0), state = node.state}
  end
  return list
end

local function job_entry(self, job, want)
  local e = {id = job.id, name = job.name, submit = job.submit, age = self.now - job.submit,
             state = job.slots > 0 and "running" or "queued", weight = job.weight or 1, slots = job.slots,
             nodes = job.nodes, min = job.min or 1, max = job.max, sizes = job.sizes, resizes = job.resizes,
             resize_s = self.o.resize.live}
  if job.preemptible == false and job.slots > 0 then e.preemptible = false end
  if want["job.person"] then e.person, e.memory, e.priority = job.person, job.memory, job.priority end
  if want["job.request"] then e.request = {slots = job.request.slots, batch = job.request.batch} end
  if want["job.attained"] then e.attained = job.attained end
  if want["job.goodput"] or want["job.throughput"] then
    for name, value in pairs(job:model()) do e[name] = value end
    e.min, e.max = job.min or 1, job.max
  end
  if want["job.progress"] then e.progress = job.progress end
  if want["job.remaining"] then e.remaining = job.app.ends[job.app.epochs] - job.progress end
  if want["job.oracle"] then
    e.oracle = {step_s = job.app:steps(job.fixed or job.app.start, self.o.slots, job.max), remaining = job:steps_left()}
  end
  return e
end

function world:snapshot(_, _, needs)
  local want = {}
  for _, name in ipairs(needs or {}) do want[name] = true end
  local view = {nodes = node_entries(self), jobs = {}, age = {}, slots = 0}
  for _, node in ipairs(view.nodes) do view.slots = view.slots + (node.state == "up" and node.slots or 0) end
  for i, job in ipairs(self.active) do view.jobs[i] = job_entry(self, job, want) end
  if want["job.person"] then
    view.half_life_s, view.persons = self.shares.settings.half_life_s, self.shares:persons(self.active, self.now)
  end
  if self.o.nodes_max > self.o.nodes_min then
    view.nodes_min, view.nodes_max = self.o.nodes_min, self.o.nodes_max
  end
  return view
end

-- Slots by machine in the order in which they were taken: most first (placer.emptiest), then by number.
local function counts_of(places)
  local ids, counts = {}, {}
  for id in pairs(places) do ids[#ids + 1] = id end
  table.sort(ids, function(a, b)
    if places[a] ~= places[b] then return places[a] > places[b] end
    return a < b
  end)
  for i, id in ipairs(ids) do counts[i] = places[id] end
  return counts
end

local function same_places(a, b)
  for k, v in pairs(a) do
    if b[k] ~= v then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

function world:apply(_, _, actions)
  local alloc, order, kind = {}, nil, "pack"
  for _, a in ipairs(actions) do
    if a.field == "alloc" then
      if a.value.servers then return nil, "`alloc.servers`: rows of a simulated job are nowhere" end
      alloc[a.id] = a.value
    elseif a.field == "order" then
      order = a.value
    elseif a.field == "placer" then
      kind = a.value
    elseif a.field == "nodes" then
      self:order_nodes(a.value)
    else
      return nil, ("the job simulator cannot carry out `%s`"):format(a.field)
    end
  end
  local placed, unfit = placer.place(node_entries(self), self.active, alloc, order, kind)
  self.unfit = self.unfit + #unfit
  for _, job in ipairs(self.active) do
    local places = placed[job.id]
    if places and not same_places(places, job.nodes) then
      local first = not job.started
      job:place(places, counts_of(places), self.o.resize)
      if first and job.started then job.first_slot = self.now end
    end
  end
  return true
end

---- nodes that come and go ----------------------------------------------------------------------------------------

function world:order_nodes(plan)
  local want = math.max(math.min(plan.want or #self.machines, self.o.nodes_max), self.o.nodes_min)
  local there = #self.machines + #self.ordered
  for _ = there + 1, want do self.ordered[#self.ordered + 1] = self.now + self.o.node_start end
  while there > want and #self.ordered > 0 do
    table.remove(self.ordered)
    there = there - 1
  end
  for i = #self.machines, 1, -1 do -- empty ones first, then those with the highest numbers
    if there <= want then break end
    local node, busy = self.machines[i], false
    for _, job in ipairs(self.active) do busy = busy or job.nodes[node.id] ~= nil end
    if not busy then
      table.remove(self.machines, i)
      there = there - 1
    end
  end
  for i = #self.machines, 1, -1 do
    if there <= want then break end
    self.machines[i].state, there = "draining", there - 1
  end
end

local function settle_nodes(self)
  for i = #self.ordered, 1, -1 do
    if self.ordered[i] <= self.now then
      table.remove(self.ordered, i)
      self.last_node = self.last_node + 1
      self.machines[#self.machines + 1] = {id = self.last_node, state = "up"}
      self.host:event("join", self.last_node)
    end
  end
  for i = #self.machines, 1, -1 do
    local node, busy = self.machines[i], false
    for _, job in ipairs(self.active) do busy = busy or job.nodes[node.id] ~= nil end
    if node.state == "draining" and not busy then table.remove(self.machines, i) end
  end
end

---- time ----------------------------------------------------------------------------------------------------------

-- How much slower each job is for sharing a machine with another one that spans machines.
local function interference(self)
  local slowed, spanning = {}, {}
  if self.o.interference == 0 then return slowed end
  for _, job in ipairs(self.active) do
    if #job.counts > 1 then
      for node in pairs(job.nodes) do spanning[node] = (spanning[node] or 0) + 1 end
    end
  end
  for _, job in ipairs(self.active) do
    for node in pairs(#job.counts > 1 and job.nodes or {}) do
      if spanning[node] > 1 then slowed[job.id] = self.o.interference end
    end
  end
  return slowed
end

-- Slot seconds by person while every person of the trace has jobs that could take more: there shares can be
-- distinguished from demand.
local function count_contended(self, charges)
  local wants, count = {}, 0
  for _, job in ipairs(self.active) do
    if job.slots < job.max and not wants[job.person] then wants[job.person], count = true, count + 1 end
  end
  if count < self.persons then return end
  for person, seconds in pairs(charges) do self.contended[person] = (self.contended[person] or 0) + seconds end
end

local function advance(self, dt)
  local slowed = interference(self)
  local held, efficiency, running, charges = 0, 0, 0, {}
  if self.begun then self.node_seconds = self.node_seconds + dt * #self.machines end
  for _, job in ipairs(self.active) do
    if job.slots > 0 then
      held, running = held + job.slots, running + 1
      charges[job.person] = (charges[job.person] or 0) + job.slots * dt
      job:advance(self.now, dt, slowed[job.id] or 0)
      efficiency = efficiency + (job.efficiency or 1)
    end
  end
  self.job_seconds = self.job_seconds + #self.active * dt
  self.now = self.now + dt
  self.shares:charge(charges, self.now)
  count_contended(self, charges)
  if running > 0 or #self.active > 0 then
    report.sample(self.curve, self.now, #self.active, held, #self.machines * self.o.slots,
      running > 0 and efficiency / running or nil)
  end
end

-- Jobs that have come and gone since the last tick.
local function turn_over(self)
  local active = {}
  for _, job in ipairs(self.active) do
    if not job:is_done() and (job.cancel_at or math.huge) <= self.now then job.ended, job.cancelled = self.now, true end
    if job:is_done() then
      job.active, job.slots, job.nodes, job.counts = false, 0, {}, {}
      self.left = self.left - 1
      self.host:event("finish", job.id)
    end
  end
  for _, job in ipairs(self.jobs) do
    if not job:is_done() and job.submit <= self.now then
      if not job.active then
        job.active = true
        self.host:event("submit", job.id)
      end
      active[#active + 1] = job
    end
  end
  self.active, self.begun = active, self.begun or #active > 0
end

local function decide(self)
  local began = core.cpu and core.cpu() or os.clock()
  self.seat.next_at = math.min(self.seat.next_at, self.now)
  self.host:step()
  self.decisions = self.decisions + 1
  self.decision_s = self.decision_s + ((core.cpu and core.cpu() or os.clock()) - began)
  local held = 0
  for _, job in ipairs(self.active) do held = held + job.slots end
  self.idle = held == 0 and self.idle + 1 or 0
  if self.idle >= IDLE_MOST then
    local names = {}
    for i, job in ipairs(self.active) do names[i] = job.name end
    error(errors.new("T0304", {message = ("policy `%s` gave no job a slot in %d decisions; waiting: %s%s"):format(
      self.seat.current.policy.name, self.idle, table.concat(names, ", ", 1, math.min(#names, 5)),
      self.fault and "; " .. self.fault or "")}), 0)
  end
end

-- Nothing runs, waits, or is about to change before the next job comes: the time until then is one step. Ticks stay
-- where they are.
local function idle_step(self)
  if #self.active > 0 or #self.ordered > 0 then return nil end
  for _, node in ipairs(self.machines) do
    if node.state == "draining" then return nil end
  end
  local first = math.huge
  for _, job in ipairs(self.jobs) do
    if not job:is_done() then first = math.min(first, job.submit) end
  end
  local every <const> = self.o.events and 1 or self.o.every
  local at <const> = math.max(math.ceil(first / every) * every, self.now + every)
  return at < math.huge and math.tointeger(at - self.now) or nil
end

-- Seconds to the next moment at which something happens.
local function next_step(self)
  local idle <const> = idle_step(self)
  if idle then return idle end
  local every = self.o.every
  if not self.o.events then return every end
  local at = (self.now // every + 1) * every
  local slowed = interference(self)
  for _, job in ipairs(self.jobs) do
    if not job.active and not job:is_done() then at = math.min(at, math.max(math.ceil(job.submit), self.now + 1)) end
  end
  for _, job in ipairs(self.active) do
    if job.slots > 0 then
      local about = math.ceil(job:ends_about(self.now, slowed[job.id] or 0))
      at = math.min(at, math.max(about, self.now + self.gap))
    end
  end
  return math.tointeger(at - self.now)
end

---@param o tide.sim.jobs.world
---@param requests tide.sim.jobs.request[]
---@param policy string|table
---@param seed integer
function world.new(o, requests, policy, seed)
  local self = setmetatable({o = o, now = 0, jobs = {}, active = {}, machines = {}, ordered = {},
    curve = report.curve(),
    left = #requests, unfit = 0, decisions = 0, decision_s = 0, idle = 0, job_seconds = 0, node_seconds = 0, faults = 0,
    contended = {}, persons = 0, last_node = o.nodes}, world)
  self.shares = shares.new(o.shares, o.used, 0)
  for i = 1, o.nodes do self.machines[i] = {id = i, state = "up"} end
  if o.machines then self.machines = o.machines end -- those of a running cluster
  self.host = Host.new {seed = seed, timed = false, driver = {
    now = function() return self.now end,
    signals = signal_set,
    notify = function(event)
      self.faults, self.fault = self.faults + 1, ("%s: %s"):format(event.policy, event.reason)
    end,
    snapshot = function(...) return self:snapshot(...) end,
    apply = function(...) return self:apply(...) end,
  }}
  local err
  self.seat, err = self.host:add_seat("scheduling", "", policy)
  if not self.seat then error(err, 0) end
  self.gap = math.max(1, math.ceil(self.seat.current.policy.min_gap))
  local adapts = false
  for _, name in ipairs(self.seat.current.policy.needs) do adapts = ADAPTS[name] or adapts end
  self.adapts = adapts
  local known = {}
  for i, request in ipairs(requests) do
    local job <const> = (request.new or Job.new)(i, request, adapts)
    self.jobs[i] = job
    if not known[job.person] then known[job.person], self.persons = true, self.persons + 1 end
  end
  return self
end

---Runs until all jobs are done.
---@return table result
function world:run()
  while true do
    advance(self, next_step(self))
    settle_nodes(self)
    turn_over(self)
    if self.left == 0 then break end
    if #self.active > 0 then decide(self) end
  end
  self.host:close()
  return report.of(self)
end

return world
