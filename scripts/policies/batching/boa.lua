-- BOA: each worker's time is a line in its batch, t(b) = alpha b + beta; the batches are the integer split of the total
-- that minimises the slowest. Reconstructed from the paper's abstract; the solver is exact, so no branch and bound.
--
--  * alpha and beta by least squares that forgets: a sample counts `forget` times the next one (k.lines).
--  * with one distinct batch beta keeps its last value, alpha = (t - beta) / b, and the worker's batch is varied by one
--    example now and then, so that both become known. It gets it back when that step is measured.
--  * a worker whose last two samples are both off its line by `jump` has become another: what was before is forgotten,
--    and beta is taken to have changed as much as the time.
--  * a new split is adopted when it is predicted to pay by `gain`; a worker changes by `change` of its batch, or of an
--    equal share if that is more, at most.
local policy = {
  api = 1, kind = "batching", name = "boa", version = 5,
  params = { forget = 0.9, gain = 1.03, change = 0.5, explore = 20, jump = 1.25 },
  needs = { "worker.sample" }, every = 0.1, on = { "join", "leave" }, min_gap = 0.02,
}

function policy.init(params, saved)
  return { params = params, ticks = 0, beta = saved and type(saved.beta) == "table" and saved.beta or nil }
end

-- Every `explore` decisions one example changes hands between two neighbours.
local function explore(st, view)
  st.ticks = st.ticks + 1
  local n = #view.workers
  if n < 2 or st.ticks % st.params.explore ~= 0 then return {} end
  local from = view.workers[st.ticks // st.params.explore % n + 1]
  local to = view.workers[(st.ticks // st.params.explore + 1) % n + 1]
  if from.batch - 1 < math.max(from.batch_min or 1, 1) or to.batch + 1 > (to.batch_max or math.maxinteger) then
    return {}
  end
  st.tried = from.clock
  return { batch = { [from.id] = from.batch - 1, [to.id] = to.batch + 1 }, why = "to learn the workers' speeds" }
end

function policy.decide(st, view, k)
  st.lines = st.lines or k.lines { forget = st.params.forget, jump = st.params.jump, at = st.beta }
  if not st.lines:learn(view.workers) then return {} end
  local asked = #view.reason > 0 -- a worker joined or left: batches may change by any amount
  local best = st.lines:split(view.job.batch, view.workers, not asked and st.params.change or nil)
  if not best then return {} end -- within one step's change the total cannot be kept
  -- The shares of a trial go out with the answer to the next report, and are measured a step later.
  local measured = st.tried and (view.workers[1].clock or 0) >= st.tried + 2
  if measured then st.tried = nil end
  if not measured and not asked and not k.hysteresis(best.now_s, best.seconds, st.params.gain) then
    return st.tried and {} or explore(st, view)
  end
  if not best.changed then return explore(st, view) end
  return { batch = best.share, why = ("slowest %.4g s, predicted %.4g s"):format(best.now_s, best.seconds) }
end

function policy.export(st) return { beta = st.lines and st.lines:kept() or st.beta } end

return policy
