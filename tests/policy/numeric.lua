-- k.*: each tool against brute force or a known answer, over random small instances.
local core = require "tide.core"
local k = core.k

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end
local rng = core.random(7)
local function below(n) return math.tointeger(rng:below(n)) end
local function near(a, b, tolerance) return math.abs(a - b) <= (tolerance or 1e-9) * math.max(1, math.abs(a), math.abs(b)) end
local function fails(pattern, f, ...)
  local ok, err = pcall(f, ...)
  assert(not ok and tostring(err):find(pattern, 1, true), tostring(err))
end

case("line: recovers a line, keeps both coefficients from going negative", function()
  local l = k.line({1, 2, 3, 4}, {3, 5, 7, 9})
  assert(near(l.at, 1) and near(l.per, 2))
  l = k.line({1, 2, 3}, {0.5, 2.5, 4.5}) -- would start below 0: through the origin instead
  assert(l.at == 0 and near(l.per, (0.5 + 5 + 13.5) / 14))
  l = k.line({1, 2, 3}, {3, 2, 1})
  assert(near(l.at, 2) and l.per == 0)
  l = k.line({4, 4, 4}, {8, 8, 8})
  assert(l.at == 0 and near(l.per, 2))
  l = k.line({0}, {3})
  assert(near(l.at, 3) and l.per == 0)
  fails("k.line", k.line, {1}, {1, 2})
  fails("not finite", k.line, {1, 0 / 0}, {1, 2})
end)

case("line: no line with non-negative coefficients fits better", function()
  for _ = 1, 200 do
    local x, y = {}, {}
    for i = 1, 2 + below(6) do x[i], y[i] = below(20), rng:uniform() * 10 end
    local l = k.line(x, y)
    local function err(at, per)
      local e = 0
      for i = 1, #x do e = e + (at + per * x[i] - y[i]) ^ 2 end
      return e
    end
    local best = err(l.at, l.per)
    for at = 0, 12, 0.5 do
      for per = 0, 3, 0.1 do assert(err(at, per) >= best - 1e-9, ("at %g per %g"):format(at, per)) end
    end
  end
end)

case("least squares: the residual is orthogonal to the columns, dependent columns get zero", function()
  for _ = 1, 100 do
    local rows, columns = 4 + below(5), 1 + below(4)
    local a, y = {}, {}
    for i = 1, rows do
      a[i], y[i] = {}, rng:uniform() * 4 - 2
      for j = 1, columns do a[i][j] = rng:uniform() - 0.5 end
    end
    local c = k.least_squares(a, y)
    for j = 1, columns do
      local dot = 0
      for i = 1, rows do
        local r = y[i]
        for q = 1, columns do r = r - a[i][q] * c[q] end
        dot = dot + r * a[i][j]
      end
      assert(math.abs(dot) < 1e-9, dot)
    end
  end
  local c = k.least_squares({{1, 2}, {2, 4}, {3, 6}}, {1, 2, 3})
  assert(near(c[1] + 2 * c[2], 1) and (c[1] == 0 or c[2] == 0))
end)

case("nnls: satisfies the conditions of optimality", function()
  for _ = 1, 200 do
    local rows, columns = 3 + below(6), 1 + below(5)
    local a, y = {}, {}
    for i = 1, rows do
      a[i], y[i] = {}, rng:uniform() * 4 - 1
      for j = 1, columns do a[i][j] = rng:uniform() - 0.3 end
    end
    local c = k.nnls(a, y)
    for j = 1, columns do
      local slope = 0
      for i = 1, rows do
        local r = y[i]
        for q = 1, columns do r = r - a[i][q] * c[q] end
        slope = slope + r * a[i][j]
      end
      assert(c[j] >= 0)
      assert(slope < 1e-6, "a coefficient wants to grow: " .. slope)
      if c[j] > 0 then assert(math.abs(slope) < 1e-6) end
    end
  end
end)

case("fit: finds the parameters inside their bounds, and stays on a bound that holds them", function()
  local function residuals(p)
    local r = {}
    for i = 1, 12 do r[i] = p[1] * math.exp(-p[2] * i) - 2 * math.exp(-0.3 * i) end
    return r
  end
  local f = k.fit {residuals = residuals, start = {1, 1}, low = {0, 0}, high = {10, 5}}
  assert(near(f.p[1], 2, 1e-5) and near(f.p[2], 0.3, 1e-5) and f.error < 1e-9)
  f = k.fit {residuals = residuals, start = {1, 1}, low = {0, 0.5}, high = {10, 5}}
  assert(f.p[2] >= 0.5 and f.p[2] < 0.51, f.p[2])
  fails("oh dear", k.fit, {residuals = function(p) if p[1] ~= 1 then error "oh dear" end return {p[1]} end, start = {1}})
  fails("not a finite", k.fit, {residuals = function(p) return {p[1] == 1 and 1 or 0 / 0} end, start = {1}})
  fails("at least as many", k.fit, {residuals = function() return {1} end, start = {1, 2}})
end)

local function slowest_by_force(total, cost, i, left)
  i, left = i or 1, left or total
  local c = cost[i]
  if not c then return left == 0 and 0 or math.huge end
  local best = math.huge
  for b = c.min or 0, math.min(c.max or total, left) do
    local t = #c > 0 and (b == 0 and 0 or c[b]) or not c[1] and c.at + c.per * b
    local rest = slowest_by_force(total, cost, i + 1, left - b)
    best = math.min(best, math.max(t or math.huge, rest))
  end
  return best
end

case("minmax split: equals brute force on lines and tables with bounds", function()
  for _ = 1, 400 do
    local total, cost = 1 + below(14), {}
    for i = 1, 1 + below(3) do
      if below(3) == 0 then
        cost[i] = {}
        local t = rng:uniform()
        for b = 1, 14 do
          if below(2) == 0 then t = t + rng:uniform() end
          cost[i][b] = t
        end
      else
        cost[i] = {at = below(3) * 0.5, per = below(4) == 0 and 0 or rng:uniform()}
      end
      if below(3) == 0 then cost[i].min = below(3) end
      if below(3) == 0 then cost[i].max = 3 + below(10) end
    end
    local want = slowest_by_force(total, cost)
    local ok, got = pcall(k.minmax_split, total, cost)
    if want == math.huge then
      assert(not ok, "an impossible split was given")
    else
      assert(ok, got)
      local sum = 0
      for i, b in ipairs(got.share) do
        sum = sum + b
        assert(b >= (cost[i].min or 0) and b <= (cost[i].max or total))
      end
      assert(sum == total and near(got.seconds, want), ("%g, should be %g"):format(got.seconds, want))
    end
  end
end)

case("minmax split: 1000 workers, and what is wrong is said", function()
  local cost = {}
  for i = 1, 1000 do cost[i] = {at = rng:uniform() * 0.1, per = 0.001 + rng:uniform() * 0.01, min = 1} end
  local best = k.minmax_split(100000, cost)
  local sum = 0
  for _, b in ipairs(best.share) do sum = sum + b end
  assert(sum == 100000)
  fails("the total is 100", k.minmax_split, 100, {{at = 0, per = 1, max = 5}})
  fails("allows no number", k.minmax_split, 1, {{at = 0, per = 1, min = 3}})
  fails("finite and not negative", k.minmax_split, 1, {{at = 0, per = -1}})
  fails("decrease", k.minmax_split, 1, {{2, 1}})
end)

local function permutations(n, m, f, picked, used)
  picked, used = picked or {}, used or {}
  if #picked == n then return f(picked) end
  for j = 1, m do
    if not used[j] then
      used[j], picked[#picked + 1] = true, j
      permutations(n, m, f, picked, used)
      used[j], picked[#picked] = nil, nil
    end
  end
end

-- What k.lines does, a worker at a time and from the samples themselves: the sums by their definition.
local function line_by_samples(samples, kept, forget)
  local n, x, y, xx, xy = 0, 0, 0, 0, 0
  for i, s in ipairs(samples) do
    local w = forget ^ (#samples - i)
    n, x, y, xx, xy = n + w, x + w * s.b, y + w * s.t, xx + w * s.b * s.b, xy + w * s.b * s.t
  end
  local newest, spread = samples[#samples], n * xx - x * x
  if spread <= 1e-9 * n * xx then
    local at = math.min(kept, 0.9 * newest.t)
    return {at = at, per = math.max(y / n - at, 0) / newest.b}, kept
  end
  local per = (n * xy - x * y) / spread
  local at = (y - per * x) / n
  if per < 0 then per, at = 0, y / n elseif at < 0 then per, at = xy / xx, 0 end
  return {at = at, per = per}, at
end

case("lines: least squares that forgets, anew when a worker has become another", function()
  for _ = 1, 60 do
    local forget, jump = 0.5 + 0.5 * rng:uniform(), 1.1 + rng:uniform()
    local lines, samples, kept, line, way, resets = k.lines {forget = forget, jump = jump}, {}, 0, nil, nil, 0
    local at, per = rng:uniform(), 0.01 + rng:uniform()
    for clock = 1, 40 do
      if below(12) == 0 then at, per = at * (0.2 + 3 * rng:uniform()), per * (0.2 + 3 * rng:uniform()) end
      local b = below(3) == 0 and 8 or 1 + below(20)
      local s = {b = b, t = (at + per * b) * (0.95 + 0.1 * rng:uniform())}
      if line then
        local expected = line.at + line.per * b
        local now_way = s.t > expected * jump and 1 or s.t * jump < expected and -1 or nil
        if now_way and now_way == way then
          kept, samples, way, resets = kept * s.t / expected, {samples[#samples]}, nil, resets + 1
        else
          way = now_way
        end
      end
      samples[#samples + 1] = s
      line, kept = line_by_samples(samples, kept, forget)
      assert(lines:learn {{id = 3, clock = clock, examples = s.b, seconds = s.t}})
      assert(lines:learn {{id = 3, clock = clock, examples = s.b, seconds = s.t}}) -- the same again counts once
      local got = lines:line(3)
      assert(near(got.at, line.at, 1e-6) and near(got.per, line.per, 1e-6), ("%g %g, not %g %g"):format(got.at, got.per,
        line.at, line.per))
      assert(near(lines:kept()[3] or 0, kept, 1e-6))
    end
  end
end)

case("lines: a split is minmax_split's within what a worker may change, and says whether it changes", function()
  for _ = 1, 100 do
    local n, total, lines, workers, cost = 2 + below(6), 0, k.lines {}, {}, {}
    for i = 1, n do
      local batch = 4 + below(30)
      total = total + batch
      workers[i] = {id = 2 * i, clock = 1, batch = batch, batch_min = below(4), examples = batch,
                    seconds = batch * (0.01 + rng:uniform())}
    end
    assert(lines:learn(workers))
    local change, now_s = below(2) == 0 and rng:uniform() or nil, 0
    for i, w in ipairs(workers) do
      local l, low, high = lines:line(w.id), math.max(w.batch_min, 1), total
      if change then
        local step = math.floor(change * math.max(w.batch, total / n)) + 1
        low, high = math.max(low, w.batch - step), math.min(high, w.batch + step)
      end
      cost[i] = {at = l.at, per = l.per, min = low, max = high}
      now_s = math.max(now_s, l.at + l.per * w.batch)
    end
    local best, got, changed = k.minmax_split(total, cost), lines:split(total, workers, change), false
    assert(near(got.seconds, best.seconds) and near(got.now_s, now_s))
    for i, w in ipairs(workers) do
      assert(got.share[w.id] == best.share[i])
      changed = changed or best.share[i] ~= w.batch
    end
    assert(got.changed == changed)
  end
end)

case("lines: who has no sample is told, what cannot be is nil, what is wrong an error", function()
  local lines = k.lines {at = {[2] = 0.5, [7] = -1, nothing = 2, [70000] = 1, [4] = "x"}}
  assert(lines:kept()[2] == 0.5 and not next(lines:kept(), 2))
  assert(not lines:learn {{id = 1, examples = 4, seconds = 1}, {id = 2}} and lines:learn {} and not lines:line(9))
  assert(lines:learn {{id = 2, examples = 4, seconds = 1}})
  assert(near(lines:line(2).at, 0.5) and near(lines:line(2).per, 0.125)) -- the one known before, while there is one size
  assert(lines:split(10, {}) == nil and lines:split(10, {{id = 2, batch = 1, batch_max = 3}}) == nil)
  for _, bad in ipairs {{id = -1}, {id = 65536}, {id = 1.5}, {id = "x"}, {}, {id = 1, examples = -1}, {id = 1, examples = 0 / 0},
    {id = 1, examples = 1, seconds = math.huge}, {id = 1, examples = 1, seconds = -1}, {id = 1, clock = 1.5},
    {id = 1, examples = {}}} do
    fails("k.lines", lines.learn, lines, {bad})
  end
  fails("k.lines", lines.split, lines, 1, {{id = 2, batch = "x"}})
  fails("k.lines", lines.learn, lines, {1})
  fails("table expected", lines.learn, lines, nil)
  fails("tide.lines expected", lines.learn, {}, {})
  fails("forget", k.lines, {forget = 0})
  fails("jump", k.lines, {jump = 1})
  assert(getmetatable(lines) == false)
end)

case("assign: equals brute force, also with forbidden pairs and more columns", function()
  for _ = 1, 200 do
    local n = 1 + below(4)
    local m, cost = n + below(3), {}
    for i = 1, n do
      cost[i] = {}
      for j = 1, m do cost[i][j] = below(5) == 0 and math.huge or below(20) - 5 end
    end
    local best = math.huge
    permutations(n, m, function(p)
      local sum = 0
      for i, j in ipairs(p) do sum = sum + cost[i][j] end
      best = math.min(best, sum)
    end)
    local ok, pick, total = pcall(k.assign, cost)
    if best == math.huge then
      assert(not ok)
    else
      assert(ok, pick)
      local seen, sum = {}, 0
      for i, j in ipairs(pick) do
        assert(not seen[j])
        seen[j], sum = true, sum + cost[i][j]
      end
      assert(sum == best and total == best, ("%g, should be %g"):format(total, best))
    end
  end
end)

case("knapsack: equals brute force at every capacity", function()
  for _ = 1, 100 do
    local n, capacity, sizes, rows = 1 + below(4), below(9), {1, 2, 4}, {}
    for i = 1, n do
      rows[i] = {}
      for j = 1, 3 do rows[i][j] = below(6) == 0 and -math.huge or rng:uniform() * 10 - 1 end
    end
    local function force(i, left)
      if i > n then return 0 end
      local best = force(i + 1, left)
      for j = 1, 3 do
        if sizes[j] <= left and rows[i][j] > -math.huge then
          best = math.max(best, rows[i][j] + force(i + 1, left - sizes[j]))
        end
      end
      return best
    end
    local pick, best, value = k.knapsack(rows, sizes, capacity)
    local sum, used = 0, 0
    for i, j in ipairs(pick) do
      if j > 0 then sum, used = sum + rows[i][j], used + sizes[j] end
    end
    assert(used <= capacity and near(sum, value) and near(value, force(1, capacity)))
    for c = 1, capacity do assert(near(best[c], force(1, c))) end
  end
end)

case("knapsack: what is wrong with a device is said; the CPU by name is the CPU", function()
  for _, device in ipairs {"abacus", 3, {}} do
    local fine, why = pcall(k.knapsack, {{1}}, {1}, 1, device)
    assert(not fine and why:find "k.knapsack: .*device")
  end
  assert(select(3, k.knapsack({{2}}, {1}, 1, "cpu-plain")) == 2)
end)

case("makespan: within 1.1 of brute force on small instances, never below the bound", function()
  for _ = 1, 60 do
    local n, m, weights, capacity = 1 + below(6), 1 + below(3), {}, {}
    for i = 1, n do weights[i] = 1 + below(20) end
    for j = 1, m do capacity[j] = 1 + below(3) end
    local best = math.huge
    local load = {}
    for j = 1, m do load[j] = 0 end
    local function force(i)
      if i > n then
        local span = 0
        for j = 1, m do span = math.max(span, load[j] / capacity[j]) end
        best = math.min(best, span)
        return
      end
      for j = 1, m do
        load[j] = load[j] + weights[i]
        force(i + 1)
        load[j] = load[j] - weights[i]
      end
    end
    force(1)
    local home, span, bound = k.makespan(weights, capacity)
    local check = {}
    for i, j in ipairs(home) do check[j] = (check[j] or 0) + weights[i] end
    local longest = 0
    for j, w in pairs(check) do longest = math.max(longest, w / capacity[j]) end
    assert(near(longest, span) and span >= bound - 1e-9 and best >= bound - 1e-9)
    assert(span <= 1.25 * best + 1e-9, ("%g, best %g"):format(span, best))
  end
end)

case("helpers: ewma, quantile, hysteresis, rounds", function()
  assert(k.ewma(nil, 4, 0.1) == 4 and near(k.ewma(10, 20, 0.25), 12.5))
  assert(k.quantile({3, 1, 2}, 0.5) == 2 and k.quantile({1, 2}, 0.5) == 1.5 and k.quantile({}, 0.5) == nil)
  assert(k.hysteresis(1.2, 1.0, 1.1) and not k.hysteresis(1.05, 1.0, 1.1))
  local granted = k.rounds({0.5, 0.25, 0.25}, {100, 10, 100}, {2, 2, 2}, 4)
  assert(granted[1] == 0 or granted[2] == 2)
  assert(granted[2] == 2) -- who received least of its share goes first
  local received = {0, 0, 0}
  for _ = 1, 400 do
    local g = k.rounds({0.5, 0.25, 0.25}, received, {1, 1, 1}, 1)
    for i = 1, 3 do received[i] = received[i] + g[i] end
  end
  assert(received[1] == 200 and received[2] == 100 and received[3] == 100)
end)

return cases
