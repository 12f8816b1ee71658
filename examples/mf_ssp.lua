-- Matrix factorisation under consistency models: how stale the factors are that workers see, and what it does to the
-- loss. Each worker has rows of the matrix for itself; the columns' factors are shared, in a table with clocks. One
-- worker is slowed down now and then.
--   tide run mf_ssp.lua                                  a generated matrix, all models, charts in mf_ssp.svg
--   tide run mf_ssp.lua --data ml-100k/u.data --models "essp:2 ssp:2"
local tide = require "tide"

local opt = tide.options {
  data    = {"ratings or MatrixMarket, as for mf.lua; without it: generated", type = "string"},
  models  = {"consistency models to compare", default = "bsp ssp:1 ssp:3 essp:1 essp:3 async:20ms"},
  rank    = {"latent dimensions", default = 16},
  epochs  = {"passes over the cells", default = 8},
  clocks  = {"clocks of an epoch: blocks of columns", default = 8},
  eps     = {"step size", default = 0.01},
  lambda  = {"weight of the regulariser", default = 0.05},
  slow    = {"a delay of the straggler", default = "20ms", type = "duration"},
  often   = {"share of its clocks in which it is delayed", default = 0.3},
  nodes   = {"node processes on this machine", default = 2},
  workers = {"workers of each node", default = 2},
  seed    = {"of initial values and orders", default = 1},
  chart   = {"file for the charts", default = "mf_ssp.svg"},
}

local all = opt.nodes * opt.workers
local data = tide.data.ratings(opt.data or tide.data.generate "small", {
  split = {test = 0.1, seed = opt.seed}, partition = "rows", center = true,
  blocks = math.ceil(opt.clocks / all) * all, row_bytes = 4 * opt.rank})

local function init() return tide.normal {std = opt.rank ^ -0.25 / 2} end

---A job whose shared table has the consistency `model`.
local function job_of(model)
  return tide.job {
    name = "mf-" .. model:gsub(":", "-"), data = data, seed = opt.seed,
    tables = function(d)
      return {
        rows = tide.table {keys = tide.dense(d.rows), width = opt.rank, slots = "range", init = init(), update = "add"},
        columns = tide.table {keys = tide.dense(d.cols), width = opt.rank, init = init(), update = "add",
                              consistency = model, seed = opt.seed + 1},
      }
    end,
    worker = function(w)
      local sgd, began = tide.kernel "mf_sgd_block", tide.now()
      for epoch = 1, opt.epochs do
        local error, examples = 0, 0
        for block in w.data:dsgd(epoch, w.seed + w.rank) do -- everybody in an order of its own
          local r = sgd {rows = w.tables.rows, columns = w.tables.columns, cells = block.cells, values = block.values,
                         row_counts = w.data.row_counts, column_counts = w.data.column_counts, eps = opt.eps,
                         lambda = opt.lambda, seed = block.seed}
          error, examples = error + r.loss, examples + r.examples
          if w.rank == 1 and w.rng:uniform() < opt.often then tide.sleep(opt.slow) end
          w:clock()
        end
        -- `at_s` of all workers is summed: its mean is when the epoch ended
        w:report {loss = error, examples = examples, at_s = tide.now() - began}
      end
    end,
  }
end

local jobs, models = {}, {}
for model in opt.models:gmatch "%S+" do
  models[#models + 1] = model
  jobs[model] = job_of(model)
end

tide.main(function()
  local losses, ages = {}, {}
  print(("data: %s\n\n%-12s %10s %10s %10s %10s %10s %10s"):format(data.note, "model", "loss", "seconds", "mean",
    "variance", "waited", "wire"))
  for _, model in ipairs(models) do
    local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
    local run = cluster:start(jobs[model])
    local points, last = {}, nil
    for r in run:events "report" do
      last = {loss = r.loss / r.examples, at = r.at_s / all}
      points[#points + 1] = {last.at, last.loss}
    end
    local summary = run:wait()
    local s = summary.staleness.columns
    losses[#losses + 1] = {name = model, points = points}
    ages[#ages + 1] = {name = model, staleness = s}
    print(("%-12s %10.4f %10.2f %10.2f %10.2f %9.2fs %10s"):format(model, last.loss, last.at, s.mean, s.var,
      s.waited_s, tide.units.format_size(summary.wire_bytes)))
  end
  local ok, err = tide.chart.write(opt.chart, {
    {title = "Loss against time, one worker slowed", x = "seconds", y = "loss of a cell", series = losses},
    tide.staleness.bars(ages),
  })
  if not ok then error(err, 0) end
  print("\ncharts: " .. opt.chart)
end)
