-- The lasso under consistency models: 1/(2n) |y - X b|^2 + lambda |b|_1 by coordinate descent. Each worker has columns
-- of X for itself; what all share is the residual y - X b, in a table with clocks: a worker changes its coefficients
-- one after the other, on the residual as it sees it, and pushes what that changes. What a clock's work takes is slept,
-- and there is a straggler: one of the workers, now this one and now that one, takes four times as long.
--   tide run lasso_ssp.lua                               generated examples, all models, charts in .tide/lasso_ssp.svg
--   tide run lasso_ssp.lua --data abalone_scale --lambda 0.02 --models "bsp essp:2"
local tide = require "tide"

local opt = tide.options {
  data    = {"examples in LibSVM's form; without it: generated", type = "string"},
  models  = {"consistency models to compare", default = "bsp ssp:1 ssp:3 essp:1 essp:3 vap:0.01 async:20ms"},
  lambda  = {"weight of |b|_1, as a share of the one that lets no column in", default = 0.05},
  epochs  = {"passes over the columns", default = 10},
  clocks  = {"clocks of an epoch: blocks of columns", default = 8},
  within  = {"distance to the best objective, as a share of it, at which a model has arrived", default = 1e-3},
  train   = {"generated examples", default = 800},
  columns = {"of generated examples", default = 600},
  entries = {"of a generated example that are not 0", default = 60},
  work    = {"what the work of a clock takes", default = "5ms", type = "duration"},
  straggler = {"who is slow: moves (drawn from the seed), stays (worker 1), none", default = "moves"},
  factor  = {"how many times as long a clock of the straggler takes", default = 4.0},
  stays   = {"clocks until another straggler is drawn", default = 1},
  nodes   = {"node processes on this machine", default = 2},
  workers = {"workers of each node", default = 2},
  seed    = {"of data and orders", default = 1},
  chart   = {"file for the charts", default = ".tide/lasso_ssp.svg"},
}

local WIDTH <const> = 32 -- examples a row of the table has the residuals of
local all = opt.nodes * opt.workers
local data = tide.data.libsvm(opt.data or {generate = {train = opt.train, columns = opt.columns, nonzeros = opt.entries,
  classes = 0, seed = opt.seed}}, {labels = "number"})

---This worker's columns: {rows = {..}, values = {..}, square = sum of x^2 / n, b = coefficient}.
local function own_columns(x, rank)
  local list, by_column = {}, {}
  for i = 1, x:rows() do
    for column, value in x:row(i) do
      if column % all == rank - 1 then
        local c = by_column[column]
        if not c then
          c = {rows = {}, values = {}, square = 0, b = 0}
          by_column[column], list[#list + 1] = c, c
        end
        c.rows[#c.rows + 1], c.values[#c.values + 1] = i, value
        c.square = c.square + value * value / x:rows()
      end
    end
  end
  return list
end

local slowness = tide.straggler {workers = all, kind = opt.straggler, factor = opt.factor, clocks = opt.stays,
                                 seed = opt.seed}

local function shrink(v, by) return v > by and v - by or v < -by and v + by or 0 end

---The largest |x'y| / n of these columns.
local function steepest(columns, y)
  local most = 0
  for _, c in ipairs(columns) do
    local slope = 0
    for k, i in ipairs(c.rows) do slope = slope + c.values[k] * y[i] / #y end
    most = math.max(most, math.abs(slope))
  end
  return most
end

---One step of coordinate descent on a column; `residual` and `change` are lists by example.
local function step(c, residual, change, n, lambda)
  local slope = 0
  for k, i in ipairs(c.rows) do slope = slope + c.values[k] * residual[i] / n end
  local new <const> = shrink(slope + c.square * c.b, lambda) / c.square
  local moved <const> = new - c.b
  if moved == 0 then return end
  for k, i in ipairs(c.rows) do
    local by <const> = -moved * c.values[k]
    residual[i], change[i] = residual[i] + by, (change[i] or 0) + by
  end
  c.b = new
end

---Pushes what a block changed; rows of the table that it did not touch are left out.
local function push(residuals, change)
  local keys, at, rows = {}, {}, {}
  for i, by in pairs(change) do
    local key <const> = (i - 1) // WIDTH
    if not at[key] then
      keys[#keys + 1] = key
      at[key] = #keys
      rows[#keys] = {}
      for j = 1, WIDTH do rows[#keys][j] = 0 end
    end
    rows[at[key]][(i - 1) % WIDTH + 1] = by
  end
  if #keys > 0 then residuals:push(keys, rows) end
end

---A job whose residuals have the consistency `model`.
local function job_of(model)
  return tide.job {
    name = "lasso-" .. model:gsub("[:.]", "-"), data = data, seed = opt.seed,
    tables = function(d)
      return {residuals = tide.table {keys = tide.dense((d.count + WIDTH - 1) // WIDTH), width = WIDTH, update = "add",
                                      consistency = model}}
    end,
    worker = function(w)
      local x <const>, residuals <const> = w.data:whole "train", w.tables.residuals
      local n <const>, columns <const> = x:rows(), own_columns(x, w.rank)
      local keys <const> = tide.range(0, (n + WIDTH - 1) // WIDTH - 1)
      local y, lambda = {}, 0
      for i = 1, n do y[i] = x.labels[i] end
      if w.rank == 1 then push(residuals, y) end -- b = 0: the residual is y
      for _, most in pairs(w:barrier("begin", steepest(columns, y))) do lambda = math.max(lambda, opt.lambda * most) end
      local began = tide.now()
      for _ = 1, opt.epochs do
        for block = 1, opt.clocks do
          local residual, change <const> = residuals:pull(keys), {}
          local seen = {}
          for i = 1, n do seen[i] = residual[i] end
          local first <const> = #columns * (block - 1) // opt.clocks + 1
          for j = first, #columns * block // opt.clocks do step(columns[j], seen, change, n, lambda) end
          push(residuals, change)
          tide.sleep(opt.work * slowness(w.rank, w.clocks))
          w:clock()
        end
        local at <const> = tide.now() - began
        w:barrier "epoch" -- behind it all see the same
        local objective, residual = 0, residuals:pull(keys)
        for i = w.rank, n, all do objective = objective + residual[i] ^ 2 / (2 * n) end
        local used = 0
        for _, c in ipairs(columns) do
          objective = objective + lambda * math.abs(c.b)
          used = used + (c.b ~= 0 and 1 or 0)
        end
        w:barrier "measured"
        -- the sums of all workers; the mean of `at_s` is when the epoch ended
        w:report {objective = objective, used = used, at_s = at}
      end
    end,
  }
end

local jobs, models = {}, {}
for model in opt.models:gmatch "%S+" do
  models[#models + 1] = model
  jobs[model] = job_of(model)
end

---The first epoch at whose end the objective is within `share` of `best`, and when that was.
local function arrival(points, best, share)
  for _, p in ipairs(points) do
    if p.objective <= best * (1 + share) then return p end
  end
  return nil
end

tide.main(function()
  local results, best = {}, math.huge
  for _, model in ipairs(models) do
    local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
    local run = cluster:start(jobs[model])
    local points = {}
    for r in run:events "report" do
      points[r.n] = {epoch = r.n, objective = r.objective, used = r.used, at = r.at_s / all}
      best = math.min(best, r.objective)
    end
    local summary = run:wait()
    results[#results + 1] = {name = model, points = points, staleness = summary.staleness.residuals,
                             wire = summary.wire_bytes}
  end
  print(("data: %s; straggler: %s\n"):format(data.note, opt.straggler))
  print(("%-12s %11s %6s %9s %9s %8s %8s %8s %11s %9s"):format("model",
    "objective", "used", "epochs", "arrives", "seconds", "mean", "var", "wait/clock", "wire"))
  local by_epoch, by_time = {}, {}
  for i, r in ipairs(results) do
    local last <const>, there <const>, s <const> = r.points[#r.points], arrival(r.points, best, opt.within), r.staleness
    by_epoch[i], by_time[i] = {name = r.name, points = {}}, {name = r.name, points = {}}
    for k, p in ipairs(r.points) do
      by_epoch[i].points[k], by_time[i].points[k] = {p.epoch, p.objective}, {p.at, p.objective}
    end
    print(("%-12s %11.6g %6d %9s %9s %8.2f %8.2f %8.2f %11s %9s"):format(r.name, last.objective, last.used,
      there and there.epoch or "-", there and ("%.2fs"):format(there.at) or "-", last.at, s.mean, s.var,
      tide.units.format_duration(s.wait_s_per_clock or 0), tide.units.format_size(r.wire)))
  end
  local ok, err = tide.chart.write(opt.chart, {
    {title = "Objective by epoch, with a straggler", x = "epoch", y = "objective", log_y = true, series = by_epoch},
    {title = "Objective by time, with a straggler", x = "seconds", y = "objective", log_y = true, series = by_time},
    tide.staleness.bars(results),
  })
  if not ok then error(err, 0) end
  print("\ncharts: " .. opt.chart)
end)
