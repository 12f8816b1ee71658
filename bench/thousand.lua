-- An hour of training on a thousand nodes, in the simulator: how much of a core's time does it take?
--   tide sim bench/thousand.lua
--
-- Nine hundred and ninety workers and ten servers, which hold all rows. A step draws keys, pulls their rows, computes
-- (for a time that differs by a tenth from step to step, and by a fifth from worker to worker) and pushes; after every
-- few steps all workers meet in a report. Computing is slept; everything else is what a real run does. Half the square
-- of every value is made small, whose gradient is the value itself; all begin above 0, and what is reported is how far.
local tide = require "tide"

local opt = tide.options {
  nodes = {"of workers, one on each", default = 990},
  servers = {"nodes that hold the rows", default = 10},
  time = {"the training goes on for so long", type = "duration", default = "1h"},
  step = {"computing of a step", type = "duration", default = "10s"},
  keys = {"that a step pulls and pushes", default = 32},
  rows = {"of the table", default = 100000},
  width = {"of a row", default = 32},
  report = {"steps between two reports", default = 10},
}

local function train(w)
  local speed <const> = 0.9 + 0.2 * w.rng:uniform()
  while not w:stopping() do
    local loss = 0
    for _ = 1, opt.report do
      local keys = {}
      for i = 1, opt.keys do keys[i] = w.rng:below(opt.rows) end
      local rows = w.tables.model:pull(keys)
      loss = loss + rows:sum()
      tide.sleep(opt.step / speed * (0.95 + 0.1 * w.rng:uniform()))
      w.tables.model:push(keys, rows)
    end
    w:report {loss = loss, examples = opt.report * opt.keys * opt.width}
  end
end

local job = tide.job {
  name = "thousand",
  tables = {
    model = tide.table {keys = tide.dense(opt.rows), width = opt.width, init = tide.uniform {low = 0, high = 2},
                        update = {"sgd", lr = 0.1}},
  },
  stop = {time = opt.time},
  worker = train,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes, servers = opt.servers, workers = 1}
  local run = cluster:start(job)
  for r in run:events "report" do
    print(("%6.0f s  loss %.4f"):format(r.elapsed_s, r.loss / r.examples))
  end
  print(run:wait():table {"reports", "elapsed_s", "examples", "local_share"})
end)
