-- Matrix factorisation by coordinate descent: one rank after the other, each number of the factors exactly the best.
--   tide run ccd.lua                         generated ratings, two node processes
--   tide run ccd.lua --data ml-100k/ua.base --test ml-100k/ua.test --rank 10 --l2 10
-- No step size, no epochs that make things worse: the objective falls in every pass.
local tide = require "tide"

local opt = tide.options {
  data     = {"ratings or MatrixMarket; without it: generated", type = "string"},
  test     = {"cells held out, in a file of their own", type = "string"},
  rank     = {"numbers a row and a column", default = 10},
  l2       = {"weight of the squares", default = 2.0},
  weighted = {"squares of a row count as often as it has cells", default = false},
  passes   = {"over all ranks", default = 10},
  inner    = {"rounds of both sides within a rank", default = 1},
  nodes    = {"node processes on this machine, a worker each", default = 2},
  seed     = {"of data and initial values", default = 1},
}

local source = opt.data
if opt.test then source = {train = opt.data, test = opt.test} end
local data = tide.data.matrix(source or tide.data.generate {rows = 300, columns = 200, train = 9000, test = 1000,
  rank = 5, seed = opt.seed}, {center = true})

local job = tide.descent.ccd {name = "ccd", data = data, rank = opt.rank, l2 = opt.l2, weighted = opt.weighted,
                              passes = opt.passes, inner = opt.inner, seed = opt.seed}

tide.main(function()
  print(data.note)
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  print(("%4s %14s %12s %12s %10s"):format("pass", "objective", "train RMSE", "test RMSE", "seconds"))
  for r in run:events "report" do
    print(("%4d %14.6f %12.6f %12s %10.3f"):format(r.pass, r.objective, r.train_rmse,
      r.test_rmse and ("%.6f"):format(r.test_rmse) or "-", r.elapsed_s))
  end
  run:wait()
end)
