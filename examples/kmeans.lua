-- k-means (Lloyd 1982): each worker assigns its points to the nearest centre; sums and counts of a step meet in tables.
local tide = require "tide"

local opt = tide.options {
  points = {"points to draw", default = 20000, min = 1},
  dimensions = {"numbers a point has", default = 16, min = 1},
  centres = {"clusters to draw and to find", default = 8, min = 1},
  steps = {"steps", default = 8},
  nodes = {"worker nodes", default = 2, min = 1},
  seed = {"of the points and the first centres", default = 1},
}
local K <const>, D <const> = opt.centres, opt.dimensions

-- The points of one worker: noise around centres that all workers draw alike.
local function draw(rank, workers)
  local numbers <const> = tide.tensor.zeros("u32", opt.points // workers)
  for i = 1, #numbers do numbers[i] = (rank + i * workers) % K end
  local truth <const> = tide.tensor.zeros("f32", K, D):uniform(opt.seed, -10, 10)
  return truth:gather(numbers):add(tide.tensor.zeros("f32", #numbers, D):normal(opt.seed * 1000 + rank))
end

local job = tide.job {
  name = "kmeans",
  tables = { -- a row for each step and centre
    sums = tide.table {keys = tide.hashed(), width = D, update = "add"},
    counts = tide.table {keys = tide.hashed(), width = 1, update = "add"},
  },
  worker = function(w)
    local points <const> = draw(w.rank, w.workers)
    local n <const> = points:rows()
    local lengths <const> = points:row_dots(points):sum()
    local distances <const> = tide.tensor.zeros("f32", n, K)
    local centres = tide.tensor.zeros("f32", K, D):uniform(opt.seed + 1, -10, 10)
    for step = 1, opt.steps do
      -- |p - c|^2 = |p|^2 - 2 p c + |c|^2, and |p|^2 is the same for all c
      distances:matmul(points, centres, {transpose_b = true, scale = -2}):add(centres:row_dots(centres):view(1, 1, K))
      local nearest <const> = distances:argmin()
      local keys <const> = tide.tensor.zeros("u64", K):fill(step * K, 1)
      w.tables.sums:push(keys, tide.tensor.zeros("f32", K, D):scatter_add(nearest, points))
      w.tables.counts:push(keys, tide.tensor.zeros("f32", K, 1):scatter_add(nearest, 1))
      w:report {examples = n, squares = lengths + distances:row_min():sum()}
      centres = w.tables.sums:pull(keys):div(w.tables.counts:pull(keys):map("max(x, 1)"))
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for report in run:events "report" do
    print(("step %2d  mean squared distance %.3f"):format(report.n, report.squares / report.examples))
  end
  run:wait()
end)
