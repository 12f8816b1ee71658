-- BOA: each worker's time is a line in its batch, t(b) = alpha b + beta; the batches are the integer split of the total
-- that minimises the slowest. Reconstructed from the paper's abstract; the solver is exact, so no branch and bound.
--
--  * alpha and beta by least squares that forgets: a sample counts `forget` times the next one, `window` samples count.
--  * with one distinct batch beta keeps its last value, alpha = (t - beta) / b, and the worker's batch is varied by one
--    example now and then, so that both become known. It gets it back when that step is measured.
--  * a worker whose last two samples are both off its line by `jump` has become another: what was before is forgotten,
--    and beta is taken to have changed as much as the time.
--  * a new split is adopted when it is predicted to pay by `gain`; a worker changes by `change` of its batch, or of an
--    equal share if that is more, at most.
local policy = {
  api = 1, kind = "batching", name = "boa", version = 3,
  params = { forget = 0.9, window = 24, gain = 1.03, change = 0.5, explore = 20, jump = 1.25 },
  needs = { "worker.speed" }, every = 0.1, on = { "join", "leave" }, min_gap = 0.02,
}

function policy.init(params, saved)
  local beta = {}
  for id, value in pairs(saved and type(saved.beta) == "table" and saved.beta or {}) do beta[id] = value end
  return { params = params, beta = beta, ticks = 0, line = {}, keep = {}, clock = {} }
end

-- How many of its newest samples still tell how fast a worker is.
local function samples_that_count(st, w)
  local n, line = #w.speed.examples, st.line[w.id]
  local keep = math.min((st.keep[w.id] or st.params.window) + (w.clock or 0) - (st.clock[w.id] or 0), st.params.window)
  local function ratio(i) return w.speed.seconds[i] / (line.at + line.per * w.speed.examples[i]) end
  local function off(i, up)
    if up then return ratio(i) > st.params.jump end
    return ratio(i) < 1 / st.params.jump
  end
  if line and n >= 2 and line.at + line.per > 0 then
    local up = ratio(n) > 1
    if off(n, up) and off(n - 1, up) then
      local first = n - 1
      while first > 1 and first > n - keep + 1 and off(first - 1, up) do first = first - 1 end
      keep = n - first + 1
      st.beta[w.id] = (st.beta[w.id] or 0) * ratio(n)
    end
  end
  st.keep[w.id], st.clock[w.id] = keep, w.clock
  return math.min(keep, n)
end

-- Weighted least squares by scaling rows; the newest sample is last.
local function fit(st, w, k)
  local n, a, y, least, most = #w.speed.examples, {}, {}, math.huge, 0
  local first = n - samples_that_count(st, w) + 1
  for i = first, n do
    local b, scale = w.speed.examples[i], st.params.forget ^ ((n - i) / 2)
    a[#a + 1], y[#y + 1] = { scale, scale * b }, scale * w.speed.seconds[i]
    least, most = math.min(least, b), math.max(most, b)
  end
  if least == most then
    local beta = math.min(st.beta[w.id] or 0, 0.9 * w.speed.seconds[n])
    local sum, weight = 0, 0
    for i = first, n do
      sum, weight = sum + st.params.forget ^ (n - i) * w.speed.seconds[i], weight + st.params.forget ^ (n - i)
    end
    return { at = beta, per = math.max(sum / weight - beta, 0) / most }
  end
  local c = k.nnls(a, y)
  st.beta[w.id] = c[1]
  return { at = c[1], per = c[2] }
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
  local cost, now_s = {}, 0
  for i, w in ipairs(view.workers) do
    if not w.speed or #w.speed.examples == 0 then return {} end
    local c = fit(st, w, k)
    st.line[w.id] = { at = c.at, per = c.per }
    local least, most = math.max(w.batch_min or 1, 1), w.batch_max or view.job.batch
    if #view.reason == 0 then
      local step = math.ceil(st.params.change * math.max(w.batch, view.job.batch / #view.workers))
      least, most = math.max(least, w.batch - step), math.min(most, w.batch + step)
    end
    c.min, c.max, cost[i] = least, math.max(least, most), c
    now_s = math.max(now_s, c.at + c.per * w.batch)
  end
  local ok, best = pcall(k.minmax_split, view.job.batch, cost)
  if not ok then return {} end -- within one step's change the total cannot be kept
  -- The shares of a trial go out with the answer to the next report, and are measured a step later.
  local measured = st.tried and (view.workers[1].clock or 0) >= st.tried + 2
  if measured then st.tried = nil end
  if not measured and #view.reason == 0 and not k.hysteresis(now_s, best.seconds, st.params.gain) then
    return st.tried and {} or explore(st, view)
  end
  local batch, changed = {}, false
  for i, w in ipairs(view.workers) do
    batch[w.id], changed = best.share[i], changed or best.share[i] ~= w.batch
  end
  if not changed then return explore(st, view) end
  return { batch = batch, why = ("slowest %.4g s, predicted %.4g s"):format(now_s, best.seconds) }
end

function policy.export(st) return { beta = st.beta } end

return policy
