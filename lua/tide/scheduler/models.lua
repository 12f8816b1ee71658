-- Turns a controller's reports of throughput and progress into what policies see of the run. Foreign values: a
-- number that cannot be is left out, and nothing that a run says gives it a size that it has not come near.
local contract = require "tide.policy.contract"
local core = require "tide.core"

local models = {}

local NUMBERS <const> = 7
local LEAST <const>, MOST <const> = 1e-8, 1e9
local EXAMPLES_MOST <const> = 1 << 53

local function is_finite(v) return type(v) == "number" and v == v and v > -math.huge and v < math.huge end

local function is_between(v, low, high) return is_finite(v) and v >= low and v <= high end

-- {start, max, lo, hi} as k.goodput takes it, or nil.
local function batch_of(b)
  if type(b) ~= "table" then return nil end
  for _, key in ipairs {"start", "max", "lo", "hi"} do
    if not is_between(b[key], 1, EXAMPLES_MOST) then return nil end
  end
  if b.start > b.max or b.lo > b.hi then return nil end
  return {start = b.start, max = b.max, lo = b.lo, hi = b.hi}
end

local function perf_of(p)
  if type(p) ~= "table" or #p ~= NUMBERS then return nil end
  local out = {}
  for i = 1, NUMBERS do
    if not is_between(p[i], LEAST, MOST) then return nil end
    out[i] = p[i]
  end
  return out
end

local function noise_of(g)
  if type(g) ~= "table" or not is_between(g.sqr, 0, 1e300) or not is_between(g.var, 1e-12, 1e300) then return nil end
  return {sqr = g.sqr, var = g.var}
end

---Takes in the report of a run: {model = {perf, gns, batch, seen, fit}, progress = {examples, total}}.
---@param r table its record
---@param request table
---@return boolean whether it has a new fit
function models.take(r, request)
  local p <const> = type(request.progress) == "table" and request.progress or {}
  local done <const> = is_between(p.examples, 0, EXAMPLES_MOST) and p.examples or 0
  r._done = math.max(r._done or 0, done) -- what was done stays done
  r._total = is_between(p.total, 1, EXAMPLES_MOST) and p.total or nil
  local m <const> = request.model
  if type(m) ~= "table" then return false end
  local perf <const>, batch <const>, gns <const> = perf_of(m.perf), batch_of(m.batch), noise_of(m.gns)
  if not (perf and batch and gns) then
    if not r._told_wrong then
      core.event("run", ("%s tells of a throughput that cannot be: it counts as unknown"):format(r.name))
    end
    r._told_wrong, r.model = true, nil
    return false
  end
  r.model = {perf = perf, batch = batch, gns = gns, seen = is_between(m.seen, 1, MOST) and m.seen // 1 or 1,
             unit = is_between(m.unit, 1e-9, EXAMPLES_MOST) and m.unit or 1,
             fit = ((r.model or {}).fit or 0) + 1}
  return true
end

-- Seconds of a step at each number of slots; {}: not known.
local function steps_of(e)
  local steps = {}
  for k = 1, e.perf and math.min(e.max, 256) or 0 do
    local best <const> = core.k.best_batch(e, k, 1)
    steps[k] = best and best.step_s * (e.batch.start / math.max(best.total, 1)) or nil
    if not steps[k] then break end
  end
  return steps
end

---Fills the entry of a view.
---@param e table
---@param r table record
---@param want table<string, boolean> signals
function models.fill(e, r, want)
  local m <const> = r.model
  if want["job.goodput"] or want["job.throughput"] or want["job.oracle"] then
    e.max_seen = math.min(m and m.seen or 0, r.most or 0)
    if m then e.perf, e.gns, e.batch, e.fit, e.unit = m.perf, m.gns, m.batch, m.fit, m.unit end
    if e.gns and want["job.throughput"] then e.gns = contract.all_noise end
    e.batch = e.batch or {start = 1, max = 1, lo = 1, hi = 1}
  end
  local rate <const> = (r._progress or {}).rate
  if is_between(rate, 1e-9, EXAMPLES_MOST) then e.rate = rate end
  if want["job.progress"] then e.progress = r._done or 0 end
  local left <const> = r._total and math.max(r._total - (r._done or 0), 0) or nil
  if want["job.remaining"] then e.remaining = left end
  if want["job.oracle"] then
    e.oracle = {step_s = steps_of(e), remaining = left and m and left / m.unit / m.batch.start or 1}
  end
end

return models
