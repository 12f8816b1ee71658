-- docs/guides/several-machines.md: local cluster <close> = tide.cluster {}
local tide = require "tide"
local job = tide.job {name = "small", worker = function(w) w:report {examples = 1} end}
tide.main(function()
  @block@
  run:wait()
  print("reports", run:summary().reports)            --> reports 1
end)
