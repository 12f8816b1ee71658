-- docs/faults.md: local emb = tide.table{name = "emb", keys = tide.dense(1e6), width = 64, replicas = 1}   -- durability = "strict"
local tide = require "tide"
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  @block@
  print(emb:health().mode, ctx:health().mode)         --> strict window
end)
