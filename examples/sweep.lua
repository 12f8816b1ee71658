-- A sweep: logistic regression on generated points with many rates and batch sizes, as many trials at once as the
-- cluster has worker slots. Poor ones are stopped early; what is done is kept in sweep.jsonl, so a sweep that was
-- interrupted continues where it was.
--
--   tide run examples/sweep.lua                        # successive halving over 12 draws
--   tide run examples/sweep.lua --search grid          # all combinations of four rates and two batches
--   tide run examples/sweep.lua --record sweep.jsonl   # again: continues where it was
--   tide sim examples/sweep.lua                        # the same on simulated nodes
--   tide runs compare ...                              # afterwards: the curves of some of them over each other
local tide = require "tide"

local o <const> = tide.options {
  search = {"how points are chosen", default = "halving", choices = {"grid", "random", "halving"}},
  count = {"trials of random and halving", default = 12},
  reports = {"reports of a whole trial", default = 9},
  nodes = {"nodes of one worker each: so many trials at once", default = 2},
  record = {"file that finished trials are kept in", type = "string"},
  seed = {"of the points and the draws", default = 1},
}

local WIDTH <const>, POINTS <const> = 8, 400

-- The same points on every node: two clouds, told apart by the sign of a sum.
local function points()
  local rng <const>, xs, ys = tide.random(o.seed), {}, {}
  for i = 1, POINTS do
    local x, score = {}, 0
    for k = 1, WIDTH do
      x[k] = 2 * rng:uniform() - 1
      score = score + (k % 2 == 0 and 1 or -1) * x[k]
    end
    xs[i], ys[i] = x, score + 0.3 * (rng:uniform() - 0.5) > 0 and 1 or 0
  end
  return xs, ys
end

local job = tide.job {
  name = "logistic", params = {rate = 0.1, batch = 20},
  tables = {w = tide.table {keys = tide.dense(1), width = WIDTH, update = "add"}},
  worker = function(w)
    local xs <const>, ys <const> = points()
    for _ = 1, o.reports do
      local loss = 0
      for first = 1, POINTS, w.params.batch do
        local weights <const>, gradient = w.tables.w:pull({0}), {}
        for k = 1, WIDTH do gradient[k] = 0 end
        local last <const> = math.min(first + w.params.batch - 1, POINTS)
        for i = first, last do
          local z = 0
          for k = 1, WIDTH do z = z + weights[k] * xs[i][k] end
          local p <const> = 1 / (1 + math.exp(-z))
          loss = loss - math.log(math.max(ys[i] == 1 and p or 1 - p, 1e-12))
          for k = 1, WIDTH do gradient[k] = gradient[k] - w.params.rate * (p - ys[i]) * xs[i][k] end
        end
        w.tables.w:push({0}, {gradient})
      end
      w:report {examples = POINTS, loss = loss}
    end
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = o.nodes}
  local found = tide.trials {
    cluster = cluster, job = job, search = o.search, count = o.search ~= "grid" and o.count or nil, reports = o.reports,
    record = o.record, seed = o.seed,
    space = o.search == "grid" and {rate = {0.001, 0.01, 0.1, 1.0}, batch = {10, 40}}
      or {rate = tide.trials.log_uniform(0.0005, 0.5), batch = {10, 40}},
  }
  print(found)
  print(("best: rate %.4g, batch %d, loss %.4f"):format(found.best.params.rate, found.best.params.batch,
    found.best.score))
end)
