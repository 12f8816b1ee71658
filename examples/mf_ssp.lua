-- Matrix factorisation under consistency models: how stale the factors are that workers see, and what it does to the
-- loss by time. Each worker has rows of the matrix for itself; the columns' factors are shared, in a table with clocks.
-- A clock is a minibatch: some of the worker's rows, all columns. What its work takes is slept, so that more workers
-- than cores do no harm, and one worker takes four times as long: the same one always, or now this and now that one.
--   tide run mf_ssp.lua                                  a generated matrix, all models, charts in .tide/mf_ssp.svg
--   tide run mf_ssp.lua --straggler stays                no bound helps against a worker that is always slow
--   tide sim mf_ssp.lua --models "bsp ssp:3 essp:3" --stays 4
--   tide run mf_ssp.lua --data ml-100k/u.data --models "essp:2 ssp:2" --straggler none
local tide = require "tide"
local sim = require "tide.sim"

local opt = tide.options {
  data      = {"ratings or MatrixMarket, as for mf.lua; without it: generated", type = "string"},
  models    = {"consistency models to compare", default = "bsp ssp:1 ssp:3 essp:1 essp:3 async:20ms"},
  rank      = {"latent dimensions", default = 16},
  epochs    = {"passes over the cells", default = 12},
  clocks    = {"clocks of an epoch", default = 8},
  parts     = {"parts of a clock: each reads the factors of all columns, works and pushes", default = 4},
  eps       = {"step size", default = 0.01},
  lambda    = {"weight of the regulariser", default = 0.05},
  work      = {"what the work of a clock takes", default = "5ms", type = "duration"},
  straggler = {"who is slow: moves (drawn from the seed), stays (worker 1), none", default = "moves"},
  factor    = {"how many times as long a clock of the straggler takes", default = 4.0},
  stays     = {"clocks until another straggler is drawn", default = 2},
  nodes     = {"node processes on this machine", default = 2},
  workers   = {"workers of each node", default = 2},
  seed      = {"of initial values, orders and stragglers", default = 1},
  chart     = {"file for the charts; -: they are printed, and nothing else", default = ".tide/mf_ssp.svg"},
  json      = {"one JSON object a model instead of text and charts", default = false},
}

local all = opt.nodes * opt.workers
local data = tide.data.ratings(opt.data or tide.data.generate "small", {
  split = {test = 0.1, seed = opt.seed}, partition = "rows", center = true, blocks = opt.clocks * opt.parts * all})
local slowness = tide.straggler {workers = all, kind = opt.straggler, factor = opt.factor, clocks = opt.stays,
                                 seed = opt.seed}
if sim.active then sim.compute {call = "10us", row = 50e-9} end -- a cell on a core of today

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
      local sgd <const>, epochs <const> = tide.kernel "mf_sgd_block", {}
      w:barrier "begin"
      local began <const> = tide.now()
      for epoch = 1, opt.epochs do
        local error, examples, part = 0, 0, 0
        for block in w.data:strips "train" do
          part = part + 1
          local r = sgd {rows = w.tables.rows, columns = w.tables.columns, cells = block.cells, values = block.values,
                         row_counts = w.data.row_counts, column_counts = w.data.column_counts, eps = opt.eps,
                         lambda = opt.lambda, seed = w.seed * 65537 + part}
          error, examples = error + r.loss, examples + r.examples
          tide.sleep(opt.work / opt.parts * slowness(w.rank, w.clocks))
          if part % opt.parts == 0 then w:clock() end
        end
        epochs[epoch] = {loss = error, examples = examples, at = tide.now() - began}
      end
      -- Told at the end: a report waits for all, and an epoch has ended when it has for the last worker.
      local ended <const> = {}
      for _, theirs in pairs(w:barrier("ended", epochs)) do
        for epoch, e in ipairs(theirs) do ended[epoch] = math.max(ended[epoch] or 0, e.at) end
      end
      for epoch, e in ipairs(epochs) do
        w:report {loss = e.loss, examples = e.examples, at_s = ended[epoch] / all}
      end
    end,
  }
end

local jobs, models = {}, {}
for model in opt.models:gmatch "%S+" do
  models[#models + 1] = model
  jobs[model] = job_of(model)
end

---When the loss was down to this, on the line between two epochs; nil: never.
local function time_to(points, loss)
  for i, p in ipairs(points) do
    local before <const> = points[i - 1]
    if p[2] <= loss then
      return before and p[1] - (p[1] - before[1]) * (loss - p[2]) / (before[2] - p[2]) or p[1]
    end
  end
  return nil
end

tide.main(function()
  local losses, by_epoch, ages, wires, target = {}, {}, {}, {}, 0
  for i, model in ipairs(models) do
    local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
    local run = cluster:start(jobs[model])
    losses[i], by_epoch[i] = {name = model, points = {}}, {name = model, points = {}}
    for r in run:events "report" do
      losses[i].points[r.n] = {r.at_s, r.loss / r.examples}
      by_epoch[i].points[r.n] = {r.n, r.loss / r.examples}
    end
    local summary = run:wait()
    ages[i], wires[i] = {name = model, staleness = summary.staleness.columns}, summary.wire_bytes
    target = math.max(target, losses[i].points[opt.epochs][2]) -- all get there
  end
  if opt.json or tide.output.json then
    for i, model in ipairs(models) do
      print(tide.json.encode {schema = "tide.mf_ssp/1", model = model, by_second = losses[i].points,
                              by_epoch = by_epoch[i].points, target = target,
                              target_s = time_to(losses[i].points, target), staleness = ages[i].staleness,
                              wire_bytes = wires[i]})
    end
    return
  end
  local charts = {
    {title = "Loss by time, straggler: " .. opt.straggler, x = "seconds", y = "loss of a cell", series = losses},
    {title = "Loss by epoch, straggler: " .. opt.straggler, x = "epoch", y = "loss of a cell", series = by_epoch},
    tide.staleness.bars(ages),
  }
  if opt.chart == "-" then return print(tide.chart.svg(charts)) end
  print(("data: %s; straggler: %s\nthere: when the loss of a cell was %.4f, and how many times as fast as the first\n")
    :format(data.note, opt.straggler, target))
  print(("%-12s %8s %9s %9s %7s %7s %7s %9s %10s"):format("model", "loss", "seconds", "there", "times", "mean", "var",
    "waited", "wire"))
  local first
  for i, model in ipairs(models) do
    local s <const>, points <const> = ages[i].staleness, losses[i].points
    local there <const> = time_to(points, target)
    first = first or there
    print(("%-12s %8.4f %9.3f %9.3f %7.2f %7.2f %7.2f %8.2fs %10s"):format(model, points[#points][2],
      points[#points][1], there, first / there, s.mean, s.var, s.waited_s, tide.units.format_size(wires[i])))
  end
  local ok, err = tide.chart.write(opt.chart, charts)
  if not ok then error(err, 0) end
  print("\ncharts: " .. opt.chart)
end)
