-- docs/guides/exchange.md: local tide = require "tide"
@block@
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  run:wait()
  print("reports", run:summary().reports)            --> reports 10
end)
