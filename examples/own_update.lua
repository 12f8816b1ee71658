-- An update rule of a table written in C (lion.c beside this file): rows that find their targets by steps of one size.
--   cc -O3 -shared -fPIC lion.c $(pkg-config --cflags tide) -o lion.so
local tide = require "tide"

local opt = tide.options {
  module = {"the shared object", default = "lion.so"},
  nodes  = {"worker nodes", default = 2},
  steps  = {"of each worker", default = 150},
}
tide.kernel.load(opt.module) -- on every node; all have to have the same file

local KEYS <const>, WIDTH <const>, RATE <const> = 64, 4, 0.01

local job = tide.job {
  name = "own_update",
  tables = {
    rows = tide.table {keys = tide.dense(KEYS), width = WIDTH, update = {"lion", lr = RATE, beta1 = 0.5, beta2 = 0.5},
      consistency = "bsp"}, -- a step of the rule is of the sum that all workers pushed in a clock
  },
  worker = function(w)
    local rows <const>, keys <const> = w.tables.rows, {}
    local target <const> = tide.tensor.zeros("f32", KEYS, WIDTH)
    for k = 1, KEYS do keys[k] = k - 1 end
    for i = 1, KEYS * WIDTH do target[i] = i % 11 / 10 - 0.5 end
    for _ = 1, opt.steps do
      local d <const> = rows:pull(keys)
      d:axpy(-1, target) -- the gradient of |row - target|^2 / 2
      rows:push(keys, d)
      w:clock()
    end
    local d <const> = rows:pull(keys)
    d:axpy(-1, target)
    local far = 0
    for i = 1, KEYS * WIDTH do far = math.max(far, math.abs(d[i])) end
    w:report {examples = KEYS, far = far}
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local far, workers = 0, 0
  for r in run:events "report" do far, workers = far + r.far, workers + 1 end
  run:wait()
  print(("every value is within two steps of its target: %s"):format(far / workers <= 2 * RATE))
end)
