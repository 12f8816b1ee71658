-- docs/guides/simulator.md: local sim = require "tide.sim"
local tide = require "tide"
@block@
local job = tide.job {name = "hit", on_worker_loss = "replay", stop = {epochs = 120},
  tables = {t = tide.table {keys = tide.dense(30), width = 1, replicas = 1}},
  worker = function(w)
    while not w:stopping() do
      w.tables.t:push({w.rank}, {{1}})
      tide.sleep(0.1)
      w:report {examples = 1}
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 5}
  cluster:start(job):wait()
end)
