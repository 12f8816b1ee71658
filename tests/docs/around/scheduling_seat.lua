-- docs/guides/scheduling.md: cluster:schedule("scheduling/goodput", {params = {autoscale = true, price_per_s_max = 0.01},
-- by tide run
local tide = require "tide"
local job = tide.job {name = "small", worker = function(w) w:report {examples = 1} end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  @block@
  local run = cluster:start(job)
  run:wait()
  print("reports", run:summary().reports)            --> reports 1
end)
