-- A kernel written in C (saxpy.c beside this file), called from workers.
--   cc -O3 -shared -fPIC saxpy.c $(pkg-config --cflags tide) -o saxpy.so
local tide = require "tide"

local opt = tide.options {
  module = {"the shared object", default = "saxpy.so"},
  nodes = {"worker nodes", default = 2},
}
local own <const> = tide.kernel.load(opt.module) -- on every node; all have to have the same file

local job = tide.job {
  name = "own",
  tables = {
    t = tide.table {keys = tide.dense(1000), width = 4, update = "add", init = tide.uniform {low = 1, high = 1}},
  },
  worker = function(w)
    local x <const>, y = tide.tensor.zeros("f32", 1000):fill(2), tide.tensor.zeros("f32", 1000):fill(1)
    local result <const> = own.saxpy {a = 3, x = x, y = y}
    if w.rank == 1 then own.grow {rows = w.tables.t, count = 1000, factor = 5} end
    w:barrier "grown"
    w:report {examples = result.count, y = y[1000], row = w.tables.t:pull({999})[1]}
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    print(("%d numbers, y = %g, row = %g, module version %s"):format(
      r.examples, r.y / opt.nodes, r.row / opt.nodes, own.version))
  end
  run:wait()
end)
