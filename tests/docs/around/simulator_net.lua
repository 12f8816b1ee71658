-- docs/guides/simulator.md: sim.net {
local tide, sim = require "tide", require "tide.sim"
@block@
local job = tide.job {name = "far", tables = {t = tide.table {keys = tide.dense(36), width = 1}},
  worker = function(w)
    w.tables.t:pull {35}
    w:report {examples = 1}
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 9}
  cluster:start(job):wait()
end)
