-- The batching seat's side of a job whose batch changes (nn.job {batch = {start =, max =}}): what its workers measure
-- becomes a fit of its throughput and a noise scale, and plans become the batch of the next step.
local core = require "tide.core"

local batching = {}
batching.__index = batching

local HALF_S <const> = 1200 -- a measurement counts half as much after this
local FIT_EVERY_S <const> = 1

---@param limits tide.extension.adaptation
---@param machines fun(): integer how many machines its workers are on
function batching.new(limits, machines)
  return setmetatable({limits = limits, machines = machines, total = limits.start, accum = 1, rows = {}, keys = {},
                       fits = 0, max_seen = 0, fitted_at = -math.huge}, batching)
end

---What the first worker measured since its last report: {workers =, m =, pass_s =, step_s =, steps =, total =, ...}.
---@return boolean whether there is a new fit
function batching:measured(f)
  if not f then return false end
  self.gns = f.sqr and {sqr = f.sqr, var = f.var} or self.gns
  self.progress, self.told_total = f.progress, f.total
  if f.m <= 0 or f.step_s <= 0 then return false end
  local n <const> = self.machines()
  local key <const> = ("%d/%d/%d"):format(n, f.workers, math.floor(f.m + 0.5))
  local row, now <const> = self.keys[key], core.now()
  if not row then
    row = {n = n, K = math.max(f.workers, n), m = f.m, t_a = 0, t_o = 0, weight = 0, at = now}
    self.keys[key], self.rows[#self.rows + 1] = row, row
  end
  row.weight = row.weight * 0.5 ^ ((now - row.at) / HALF_S)
  row.at = now
  local share <const> = f.steps / (row.weight + f.steps)
  row.t_a, row.t_o = row.t_a + share * (f.pass_s - row.t_a), row.t_o + share * (math.max(f.step_s, f.pass_s) - row.t_o)
  row.weight = row.weight + f.steps
  self.max_seen = math.max(self.max_seen, f.workers)
  if now - self.fitted_at < FIT_EVERY_S then return false end
  local rows = {}
  for i, r in ipairs(self.rows) do -- as many steps as there were say nothing of how well the model should fit them
    rows[i] = {n = r.n, K = r.K, m = r.m, t_a = r.t_a, t_o = r.t_o, weight = 0.5 ^ ((now - r.at) / HALF_S)}
  end
  self.perf, self.fits, self.fitted_at = core.k.fit_goodput(rows), self.fits + 1, now
  return true
end

---What a view of the job has of it.
function batching:fill(job, want)
  local l <const> = self.limits
  job.batch, job.accum = self.total, self.accum
  job.limits = {start = l.start, max = l.max, lo = l.lo, hi = l.hi, hold = l.hold, grow = l.grow}
  if want["job.goodput"] then
    job.perf, job.gns, job.fit, job.max_seen = self.perf, self.gns, self.fits, self.max_seen
  end
  if want["job.progress"] then job.progress = self.progress end
end

---@return boolean whether it is a lever of this seat
function batching:apply(action)
  if action.field ~= "total" and action.field ~= "accum" then return false end
  self[action.field], self.changed = action.value, true
  return true
end

---@return {total: integer, accum: integer}
function batching:work() return {total = self.total, accum = self.accum} end

return batching
