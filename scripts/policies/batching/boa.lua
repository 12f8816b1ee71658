-- BOA: each worker's time is a line in its batch, t(b) = alpha b + beta; the batches are the integer split of the total
-- that minimises the slowest. Reconstructed from the paper's abstract; the solver is exact, so no branch and bound.
--
--  * alpha and beta by least squares that forgets: a sample counts `forget` times the next one. Five sums a worker are
--    all that is kept of its samples, so a decision costs the same however long the run is.
--  * with one distinct batch beta keeps its last value, alpha = (t - beta) / b, and the worker's batch is varied by one
--    example now and then, so that both become known. It gets it back when that step is measured.
--  * a worker whose last two samples are both off its line by `jump` has become another: what was before is forgotten,
--    and beta is taken to have changed as much as the time.
--  * a new split is adopted when it is predicted to pay by `gain`; a worker changes by `change` of its batch, or of an
--    equal share if that is more, at most.
local policy = {
  api = 1, kind = "batching", name = "boa", version = 4,
  params = { forget = 0.9, gain = 1.03, change = 0.5, explore = 20, jump = 1.25 },
  needs = { "worker.sample" }, every = 0.1, on = { "join", "leave" }, min_gap = 0.02,
}

function policy.init(params, saved)
  local beta = {}
  for id, value in pairs(saved and type(saved.beta) == "table" and saved.beta or {}) do beta[id] = value end
  return { params = params, ticks = 0, beta = beta, known = {} }
end

-- Which way a sample is off the worker's line: 1, -1, or nil.
local function off(line, b, t, jump)
  local expected = line.at + line.per * b
  return expected > 0 and (t > expected * jump and 1 or t * jump < expected and -1) or nil
end

-- Takes a new sample into the sums: of weights, b, t, b b, b t.
local function add(line, b, t, forget)
  line.n, line.b, line.t = forget * line.n + 1, forget * line.b + b, forget * line.t + t
  line.bb, line.bt = forget * line.bb + b * b, forget * line.bt + b * t
end

-- The best line with both coefficients >= 0.
local function fit(st, id, line, b, t)
  local spread = line.n * line.bb - line.b * line.b
  if spread <= 1e-9 * line.n * line.bb then -- one distinct batch
    line.at = math.min(st.beta[id] or 0, 0.9 * t)
    line.per = math.max(line.t / line.n - line.at, 0) / b
    return
  end
  local per = (line.n * line.bt - line.b * line.t) / spread
  local at = (line.t - per * line.b) / line.n
  if per < 0 then
    per, at = 0, line.t / line.n
  elseif at < 0 then
    per, at = line.bt / line.bb, 0
  end
  line.at, line.per, st.beta[id] = at, per, at
end

local function learn(st, w)
  local id, b, t, line = w.id, w.examples, w.seconds, st.known[w.id]
  if line and line.clock == w.clock and line.last_b == b and line.last_t == t then return line end
  if not line then
    line = { n = 0, b = 0, t = 0, bb = 0, bt = 0 }
    st.known[id] = line
  else
    local way = off(line, b, t, st.params.jump)
    if way and way == line.way then
      st.beta[id] = (st.beta[id] or 0) * t / (line.at + line.per * b)
      line.n, line.b, line.t, line.bb, line.bt = 0, 0, 0, 0, 0
      add(line, line.last_b, line.last_t, 0)
      way = nil
    end
    line.way = way
  end
  add(line, b, t, st.params.forget)
  line.clock, line.last_b, line.last_t = w.clock, b, t
  fit(st, id, line, b, t)
  return line
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
  local cost, now_s, total = {}, 0, view.job.batch
  local change, equal, free = st.params.change, total / #view.workers, #view.reason > 0
  for i, w in ipairs(view.workers) do
    if not w.examples then return {} end
    local line, b = learn(st, w), w.batch -- also what it costs: at, per, min, max
    local least, most = w.batch_min or 1, w.batch_max or total
    if not free then
      local step = change * (b > equal and b or equal) // 1 + 1
      if b - step > least then least = b - step end
      if b + step < most then most = b + step end
    end
    if least < 1 then least = 1 end
    line.min, line.max, cost[i] = least, most > least and most or least, line
    local ends = line.at + line.per * b
    if ends > now_s then now_s = ends end
  end
  local ok, best = pcall(k.minmax_split, total, cost)
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
