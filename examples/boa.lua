-- Workers of different speed, and who divides the batch. Each worker computes its share of every step on an emulated
-- device: at + per * examples seconds, times how slow it is. Pushed gradients are sums over the examples, so unequal
-- shares give the same mean.
--   tide run examples/boa.lua --speeds 1,1.6,3        tide sim examples/boa.lua --policy batching/equal
--   tide sim examples/boa.lua --speeds 1,1,1,3 --batch 128 --per 3.98 --at 27 --wander 40     the straggler moves
local tide = require "tide"
local opt = tide.options {
  policy = {"who decides", default = "batching/boa"}, speeds = {"how slow each worker is", default = "1,1.6,3"},
  batch = {"examples of a step over all workers", default = 192}, steps = {"how many", default = 80},
  at = {"ms of a step besides its examples", default = 5.0}, per = {"ms of an example", default = 1.0},
  wander = {"steps after which everybody's speed goes to the next worker; 0: never", default = 0},
  json = {"one JSON object instead of text", default = false},
}
local speeds <const> = {}
for text in opt.speeds:gmatch "[^,]+" do
  speeds[#speeds + 1] = assert(tonumber(text), "--speeds are numbers, separated by commas")
end

local function speed_of(rank, step)
  local shift = opt.wander > 0 and step // opt.wander or 0
  return speeds[(rank - 1 - shift) % #speeds + 1]
end

local WIDTH <const> = 64
local job = tide.job {
  name = "boa", batch = opt.batch, stop = {epochs = opt.steps}, policies = {batching = opt.policy},
  tables = {model = {keys = {"dense", 8}, width = WIDTH}},
  worker = function(w)
    local keys <const> = {0, 1, 2, 3, 4, 5, 6, 7}
    local gradient, step = tide.tensor.zeros("f32", #keys, WIDTH), 0
    while not w:stopping() do
      w.tables.model:pull(keys)
      local began <const> = tide.now()
      tide.sleep((opt.at + opt.per * w.batch) * speed_of(w.rank, step) * 1e-3)
      local compute_s <const> = tide.now() - began
      gradient:fill(w.batch / opt.batch) -- what a sum over w.batch examples of gradient 1 is of the whole batch
      w.tables.model:push(keys, gradient)
      step = step + 1
      w:report {loss = 1, examples = w.batch, compute_s = compute_s}
    end
  end,
}

-- The best that a split can do, by the speeds themselves.
local function optimum(step)
  local cost = {}
  for rank = 1, #speeds do
    local s = speed_of(rank, step) * 1e-3
    cost[rank] = {at = opt.at * s, per = opt.per * s, min = 1, max = opt.batch}
  end
  return tide.k.minmax_split(opt.batch, cost).seconds
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = #speeds}
  local run = cluster:start(job)
  local quiet <const> = opt.json or tide.output.json
  local settled, sum_s, best_s = {}, 0, 0
  if not quiet then print "step   ms   optimum  shares" end
  for r in run:events "report" do
    local shares, slowest = {}, 0
    for _, w in ipairs(r.workers) do
      shares[w.rank], slowest = ("%d"):format(w.examples), math.max(slowest, w.compute_s)
    end
    assert(r.examples == opt.batch, "a step lacks examples")
    sum_s, best_s = sum_s + slowest, best_s + optimum(r.n - 1)
    if r.n > opt.steps - 20 then settled[#settled + 1] = slowest end
    local since = opt.wander > 0 and (r.n - 1) % opt.wander or r.n - 1
    if not quiet and (since < 12 or r.n == opt.steps) then
      print(("%4d %6.1f %6.1f  %s"):format(r.n, 1e3 * slowest, 1e3 * optimum(r.n - 1), table.concat(shares, " ")))
    end
  end
  run:wait()
  local median <const> = tide.k.quantile(settled, 0.5)
  if quiet then -- over all steps, and over the last 20
    print(tide.json.encode {schema = "tide.boa/1", policy = opt.policy, mean_ms = 1e3 * sum_s / opt.steps,
                            best_mean_ms = 1e3 * best_s / opt.steps, end_ms = 1e3 * median,
                            best_end_ms = 1e3 * optimum(opt.steps - 1)})
  else
    print(("the slowest worker of the last 20 steps: median %.1f ms, the best split gives %.1f ms"):format(1e3 * median,
      1e3 * optimum(opt.steps - 1)))
  end
  -- Every step added what one worker with the whole batch would have added.
  local sum = run.tables.model:pull({0})[1]
  assert(math.abs(sum - opt.steps) < 1e-2, "gradients are not weighted by examples: " .. sum)
end)
