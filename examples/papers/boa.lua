-- BOA: batches by the speed of each worker, for stragglers that stay and that move.
--   tide run examples/papers/boa.lua
-- Constants, set on 2026-11-28 before the first run: speeds 1 : 1.6 : 3 are the example's; 1 : 2.0 : 4.9 are peak f32
-- rates of three cards (8.9, 4.4, 1.8 TFLOP/s, recalled), two of each; 64 examples a worker, 5 ms a step and 1 ms an
-- example are the example's defaults; the moving straggler changes every 40 steps of 160.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "boa", title = "BOA",
  source = "BOA: batch orchestration algorithm for straggler mitigation (no values of the article were found)",
  where = "Simulated: workers on emulated cards, one synchronous step after the other",
}
local POLICIES <const> = p.opt.small and {"equal", "boa"} or {"equal", "lb-bsp", "even-finish", "boa"}
local STEPS <const> = p.opt.small and 40 or 160
local SETTINGS <const> = {
  {name = "three speeds", speeds = "1,1.6,3", batch = 192},
  {name = "two of three cards", speeds = "1,1,2,2,4.9,4.9", batch = 384},
  {name = "one slow, moving", speeds = "1,1,1,3", batch = 256, wander = 40},
}

tide.main(function()
  local groups, series = {}, {}
  for i, policy in ipairs(POLICIES) do
    series[i] = {name = policy, values = {}}
    for k, s in ipairs(SETTINGS) do
      groups[k] = s.name
      local runs <const> = p:sim("boa", {policy = "batching/" .. policy, speeds = s.speeds, batch = s.batch,
                                         steps = STEPS, wander = s.wander or 0})
      local whole <const> = p:figure(runs, function(r) return r.mean_ms / r.best_mean_ms end)
      local ends <const> = p:figure(runs, function(r) return r.end_ms / r.best_end_ms end)
      series[i].values[k] = whole.y
      local boa <const> = policy == "boa"
      p:row {what = ("%s, %s: time over the best split, all steps"):format(policy, s.name), ours = whole,
             most = boa and not s.wander and 1.05 or nil}
      if boa then p:row {what = ("boa, %s: the last 20 steps"):format(s.name), ours = ends, most = 1.05} end
    end
  end
  p:check(series[#series].values[1] < series[1].values[1], "batches by speed are faster than even ones")
  p:chart {title = "Time of a step over the best split", y = "time over the best split", groups = groups,
           series = series, note = #p.seeds > 1 and "medians of seeds 1, 2, 3" or "seed 1"}
  p:differs "cards are emulated: a worker sleeps 5 ms a step and 1 ms an example, times its slowness"
  p:lacks("23 % over synchronous descent with one backup worker (the first author's thesis): the sync seat rejects "
    .. "backup workers, so that baseline does not run")
  p:close()
end)
