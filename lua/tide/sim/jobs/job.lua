-- One simulated job: how it progresses with the slots that it holds, from its application's profile. Plain doubles in
-- the order of the published simulator, so that its results repeat to the second.
local contract = require "tide.policy.contract"
local core = require "tide.core"

local job = {}
job.__index = job

local SLOTS_MOST <const> = 64

-- To the nearest integer, halves to the even one.
local function round(x)
  local low = math.floor(x)
  local part = x - low
  if part > 0.5 or part == 0.5 and low % 2 == 1 then low = low + 1 end
  return math.tointeger(low)
end

---@param id integer
---@param request tide.sim.jobs.request
---@param adapts "goodput"|"throughput"|false what batch and learning rate maximise as slots change; false: they stay
function job.new(id, request, adapts)
  local app = request.app
  local fixed = not adapts and request.batch or app.batch_only
  return setmetatable({
    id = id, name = request.name, app = app, submit = request.time, request = request, fixed = fixed, slots = 0,
    nodes = {}, counts = {}, progress = 0, epoch = 1, owed = 0, resizes = 0, attained = 0, fit = 0, seen = {},
    rows = {}, adapts = adapts, person = request.person, priority = request.priority,
    cancel_at = request.cancel and request.time + request.cancel or math.huge,
    max_seen = 0, used = 0, active = false,
    max = fixed and (app.slots_most or fixed // app.low) or math.min(SLOTS_MOST, app.max // app.low),
  }, job)
end

function job:is_done() return self.ended ~= nil end

-- Seconds of a step, and what it brings on.
local function rate_of(self, slowed)
  local app, m, extra = self.app, self.m, self.extra
  local batch = self.slots * m * (extra + 1)
  local step, sync = app:seconds(self.counts, m)
  local sqr, var = app:noise(batch, self.epoch)
  local scale = batch / app.start
  local gain = (var + sqr) / (var / scale + sqr)
  local seconds = step + extra * (step - sync)
  return gain / seconds * (1 - slowed), gain / scale, step, sync, sqr, var
end

-- What a job measures of itself; fits again when it is new.
local function measure(self, step, sync, sqr, var)
  self.gns = {sqr = sqr, var = var}
  local key = #self.counts .. "," .. self.slots .. "," .. self.m
  if self.seen[key] then return end
  self.seen[key] = true
  self.rows[#self.rows + 1] = {n = #self.counts, K = self.slots, m = self.m, t_a = step - sync, t_o = step}
  self.max_seen = math.max(self.max_seen, self.slots)
  self.perf, self.fit = core.k.fit_goodput(self.rows), self.fit + 1
end

---The fields of a job for `k.goodput` and a policy's view.
function job:model()
  local app = self.app
  local gns <const> = self.gns and self.adapts == "throughput" and contract.all_noise or self.gns
  return {batch = {start = app.start, max = app.max, lo = app.low, hi = app.high}, perf = self.perf, gns = gns,
          fit = self.fit, max_seen = self.max_seen, min = 1, max = self.max}
end

---Chooses examples a slot and pass, and extra passes, for the slots that it has.
function job:choose_batch()
  local app = self.app
  if self.fixed or not self.perf then
    self.m, self.extra = app:split(self.fixed or math.max(app.start, app.low * self.slots), self.slots)
    return
  end
  local best = assert(core.k.best_batch(self:model(), self.slots, #self.counts))
  self.m, self.extra = best.batch, best.accum - 1
end

---Advances by `dt` seconds from `now`. `slowed`: what share of its speed sharing machines costs.
---@return integer|nil at when it finished
function job:advance(now, dt, slowed)
  local left = dt
  local spent = math.min(self.owed, left)
  self.owed, left, now = self.owed - spent, left - spent, now + spent
  self.attained = self.attained + spent * self.slots
  while left > 0 do
    local rate, efficiency, step, sync, sqr, var = rate_of(self, slowed)
    if not self.fixed then measure(self, step, sync, sqr, var) end
    self.efficiency = efficiency
    local target, seconds = self.app.ends[self.epoch], left
    if self.progress + rate * left < target then
      self.progress = self.progress + rate * left
    else
      seconds = round((target - self.progress) / rate)
      self.progress, self.epoch = target, self.epoch + 1
    end
    self.attained, self.used = self.attained + seconds * self.slots, self.used + seconds * self.slots
    now, left = now + seconds, left - seconds
    if self.epoch > self.app.epochs then
      self.ended = now
      return now
    end
    if not self.fixed then self:choose_batch() end
  end
  return nil
end

---About when it would finish if it kept its slots and batch; for stepping from event to event.
function job:ends_about(now, slowed)
  local at, progress, epoch = now + self.owed, self.progress, self.epoch
  local saved = epoch
  while epoch <= self.app.epochs do
    self.epoch = epoch
    local rate = rate_of(self, slowed)
    at, progress = at + (self.app.ends[epoch] - progress) / rate, self.app.ends[epoch]
    epoch = epoch + 1
  end
  self.epoch = saved
  return at
end

---Takes other slots: by node, and as counts in the order in which they were taken.
---@param places table<integer, integer>
---@param counts integer[]
---@param resize {start: number, live: number} seconds lost
function job:place(places, counts, resize)
  self.nodes, self.counts, self.slots = places, counts, 0
  for _, n in ipairs(counts) do self.slots = self.slots + n end
  if self.slots == 0 then return end
  if self.started then
    self.owed, self.resizes = resize.live, self.resizes + 1
  else
    self.owed, self.started = resize.start, true
  end
  self:choose_batch()
end

---Steps that are left at a fixed batch.
function job:steps_left()
  local app = self.app
  if self.epoch >= app.epochs then return 1 end
  local batch = self.fixed or app.start
  return app:iteration(batch, app.epochs) - app:iteration(batch, self.epoch)
end

return job
