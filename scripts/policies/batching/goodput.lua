-- The batch with the largest goodput (Qiao et al., Pollux, OSDI 2021, section 4.1): what a larger one wins in
-- examples a second against what an example of it is worth. It changes only for `gain`, at most by the job's `grow`
-- between two reports (of epochs), and not before `hold` examples.
local policy = { api = 1, kind = "batching", name = "goodput", version = 1, params = { gain = 1.05 },
  needs = { "job.goodput", "job.progress" }, every = 5, on = { "join", "leave", "fit" }, min_gap = 1 }

function policy.init(params, saved)
  return { params = params, from = saved and saved.from, clock = saved and saved.clock }
end

-- Goodput of the batch as it is, on so many workers.
local function goodput_now(job, workers, machines, k)
  local fixed = { start = job.batch, max = job.batch, lo = 1, hi = job.limits.hi }
  local now = k.best_batch({ batch = fixed, perf = job.perf }, workers, machines)
  local scale = job.batch / job.limits.start
  local gain = (job.gns.var + job.gns.sqr) / (job.gns.var / scale + job.gns.sqr)
  return now and now.goodput * gain / scale or 0
end

local function smallest(job, workers)
  local total = math.max(job.limits.start, job.limits.lo * workers)
  return total, math.max(1, math.ceil(total / workers / job.limits.hi))
end

function policy.decide(st, view, k)
  local job, workers, machines = view.job, #view.workers, math.max(view.machines or 1, 1)
  local least, passes = smallest(job, workers)
  if not (job.perf and job.gns) or job.limits.max == job.limits.start then
    local total = math.max(job.batch, least)
    return total ~= job.batch and { total = total, accum = passes } or {}
  end
  if (job.progress or 0) * job.limits.start < job.limits.hold then return {} end
  if st.clock ~= job.clock then st.from, st.clock = job.batch, job.clock end
  local limits = { start = job.limits.start, lo = job.limits.lo, hi = job.limits.hi,
                   max = math.max(math.min(job.limits.max, math.floor(st.from * job.limits.grow)), least) }
  local best = k.best_batch({ batch = limits, perf = job.perf, gns = job.gns }, workers, machines)
  local now = goodput_now(job, workers, machines, k)
  if not best or best.goodput < st.params.gain * now and job.batch >= least then return {} end
  local total = math.max(best.total, least)
  return { total = total, accum = best.accum,
           why = ("%d examples a step in place of %d: goodput %.4g/s in place of %.4g/s"):format(total, job.batch,
             best.goodput, now) }
end

function policy.export(st) return { from = st.from, clock = st.clock } end

return policy
