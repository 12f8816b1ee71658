-- Policies swapped under load: how long a swap takes, whether a plan is lost, done twice or mixed with another's on any
-- node, and what it costs the run.
--   tide run bench/swap.lua [--swaps 1000] [--json]
-- Four nodes train in steps; a second fiber of the driver swaps two policies in turn, in blocks with quiet between
-- them. Each plan counts its decisions, and says whose it is: worker 1 has 50 + n mod 100 examples, worker 2 the rest
-- of 200, worker 3 one more than worker 4 for `first`, three more for `second`.
local tide = require "tide"
local opt = tide.options {
  swaps = {"how many", default = 1000}, gap = {"ms between two", default = 5.0},
  json = {"rows as JSON", default = false},
}
local BLOCKS <const> = 20
local TOTAL <const> = 400

local function turning(name, more)
  return {path = name .. ".lua", text = ([[return {
    api = 1, kind = "batching", name = "%s", version = 1, every = 0.001, min_gap = 0.001,
    init = function(_, saved) return {n = saved and saved.n or 0} end,
    decide = function(st, view)
      if #view.workers < 4 then return {} end
      st.n = st.n + 1
      local first, third = 50 + st.n %% 100, 100 + %d
      return {batch = {[1] = first, [2] = 200 - first, [3] = third, [4] = 200 - third}}
    end,
    export = function(st) return {n = st.n} end,
  }]]):format(name, more)}
end
local POLICIES <const> = {turning("first", 1), turning("second", 3)}

local job = tide.job {
  name = "swap", batch = TOTAL, tables = {model = {keys = {"dense", 4096}, width = 16}},
  worker = function(w)
    local keys, delta = {}, tide.tensor.zeros("f32", 512, 16)
    for i = 1, 512 do keys[i] = (w.rank * 512 + i) % 4096 end
    while not w:stopping() do
      w.tables.model:pull(keys)
      tide.sleep(0.003)
      w.tables.model:push(keys, delta)
      w:report {loss = 0, examples = w.batch}
    end
  end,
}

-- What workers computed with: one plan, whole, and none that is older than the one before.
local function check(seen, r)
  local shares = {}
  for _, w in ipairs(r.workers) do shares[w.rank] = w.examples end
  assert(r.examples == TOTAL, "a step lacks examples")
  if seen.any or shares[3] ~= 100 then -- until the first plan the shares are equal
    local more = shares[3] - 100
    assert(shares[1] + shares[2] == 200 and (more == 1 or more == 3), "a step mixes plans")
    local n = shares[1] - 50
    assert(not seen.any or (n - seen.n) % 100 < 50, "an older plan came after a newer one")
    seen.any, seen.n = true, n
  end
end

local function row(what, unit, value)
  if opt.json then
    print(('{"schema":"tide.bench/1","bench":"swap","row":"%s","unit":"%s","value":%.6g}'):format(what, unit, value))
  else
    print(("%-10s %-48s %12.4g %s"):format("swap", what, value, unit))
  end
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 4}
  local run = cluster:start(job)
  local latency, steps, done, failed = {}, 0, 0, 0
  local quiet, busy = {}, {}

  -- Steps a second until `over`.
  local function rate_of(into, f)
    local began, from = tide.now(), steps
    f()
    into[#into + 1] = (steps - from) / (tide.now() - began)
  end
  local swapper = tide.spawn(function()
    while steps < 20 do tide.sleep(0.01) end
    for block = 1, BLOCKS do
      rate_of(quiet, function() tide.sleep(opt.swaps // BLOCKS * (opt.gap + 2) * 1e-3) end)
      rate_of(busy, function()
        for _ = 1, (opt.swaps * block // BLOCKS) - (opt.swaps * (block - 1) // BLOCKS) do
          done = done + 1
          local began <const> = tide.now()
          if not run.policy.swap(POLICIES[1 + done % 2]) then failed = failed + 1 end
          latency[done] = 1e3 * (tide.now() - began)
          tide.sleep(opt.gap * 1e-3)
        end
      end)
    end
  end)
  local seen, last = {}, nil
  for r in run:events "report" do
    steps = r.n
    check(seen, r)
    if swapper:done() and not last then
      last = run.policy.list()[1]
      run:stop()
    end
  end
  swapper:wait()
  run:wait()
  assert(failed == 0 and last.errors == 0, ("%d swaps failed, %d decisions"):format(failed, last.errors))
  local k <const> = tide.k
  local dip <const> = 1 - k.quantile(busy, 0.5) / k.quantile(quiet, 0.5)
  row(("%d swaps on 4 nodes under load, latency p50"):format(done), "ms", k.quantile(latency, 0.5))
  row("latency p99", "ms", k.quantile(latency, 0.99))
  row("decisions between", "", last.decisions)
  row("steps", "1/s", k.quantile(quiet, 0.5))
  row("dip while swapped all the time", "%", 100 * dip)
  row("dip of a second with one swap", "%", 100 * dip * (opt.gap * 1e-3 + k.quantile(latency, 0.5) * 1e-3))
  row("failed, lost, doubled or mixed", "", 0)
end)
