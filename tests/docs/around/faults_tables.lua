-- docs/guides/faults.md: local emb = tide.table {keys = tide.dense(1e6), width = 64, replicas = 1}    -- durability = "strict"
local tide = require "tide"
@block@
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  run:wait()
  print("mode", run.tables.ctx:health().mode)         --> mode window
end)
