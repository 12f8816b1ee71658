-- docs/guides/simulator.md: local bounded = sim.check("bounded", function()
local tide, sim = require "tide", require "tide.sim"
local keys <const> = tide.range(0, 9)
local job = tide.job {name = "sums", tables = {model = tide.table {keys = tide.dense(10), width = 1, init = tide.zero()}},
  worker = function(w)
    for _ = 1, 10 do tide.sleep(0.02) end
    w:report {examples = 1}
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  @block@
  run:wait()
  print "held"                                       --> held
end)
