-- PageRank (Page et al. 1999) of a generated graph: each worker has a part of the links; what flows to a page in a step
-- meets in a table.
local tide = require "tide"

local opt = tide.options {
  pages = {"pages", default = 5000, min = 1},
  links = {"links a page has", default = 8, min = 1},
  steps = {"steps", default = 20},
  damping = {"share of visitors who follow a link", default = 0.85, min = 0, max = 1},
  nodes = {"worker nodes", default = 2, min = 1},
  seed = {"of the graph", default = 1},
}
local N <const> = opt.pages

-- Links of the worker's pages, sources and targets. Low numbers are linked to more often: floor(N u^3).
local function draw(rank, workers)
  local first <const>, last <const> = (rank - 1) * N // workers, rank * N // workers - 1
  local targets <const> = tide.tensor.zeros("f64", (last - first + 1) * opt.links):uniform(opt.seed * 1000 + rank)
  local sources <const> = tide.tensor.zeros("u32", #targets)
  for i = 1, #sources do sources[i] = first + (i - 1) // opt.links end
  return sources, targets:map("floor(n * x ^ 3)", {n = N}):convert "u32"
end

local job = tide.job {
  name = "pagerank",
  tables = {flow = tide.table {keys = tide.hashed(), width = 1, update = "add"}}, -- key: step * N + page
  worker = function(w)
    local sources <const>, targets = draw(w.rank, w.workers)
    local ranks = tide.tensor.zeros("f32", N):fill(1 / N)
    local keys <const> = tide.tensor.zeros("u64", N)
    for step = 1, opt.steps do
      keys:fill(step * N, 1)
      local sent <const> = ranks:gather(sources):mul(1 / opt.links)
      w.tables.flow:push(keys, tide.tensor.zeros("f32", N):scatter_add(targets, sent))
      w:barrier "flow"
      local before <const> = ranks
      ranks = w.tables.flow:pull(keys):map("(1 - d) / n + d * x", {d = opt.damping, n = N})
      local change <const> = ranks:copy():sub(before):map("abs(x)"):sum()
      w:report {examples = #sources, change = change / w.workers, total = ranks:sum() / w.workers}
    end
    for _ = 1, 5 do -- the pages of the highest ranks; reports are sums, so one worker alone tells them
      local best <const> = ranks:view(1, 1, N):argmax()[1]
      local mine <const> = w.rank == 1 and 1 or 0
      w:report {page = mine * best, value = mine * ranks[best + 1]}
      ranks[best + 1] = 0
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for report in run:events "report" do
    if report.page then
      print(("page %d has rank %.5f"):format(report.page, report.value))
    else
      print(("step %2d  change %.2e  sum of ranks %.6f"):format(report.n, report.change, report.total))
    end
  end
  run:wait()
end)
