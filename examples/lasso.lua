-- Sparse linear models with a certificate: lasso, elastic net, logistic regression. Each worker has some of the
-- examples; the gap says how far the objective is from the optimum, at most.
--   tide run lasso.lua                                    generated examples, two node processes
--   tide run lasso.lua --data train.svm --share 0.01 --intercept
--   tide run lasso.lua --model logistic --folds 5         a path of penalties, cross-validated
--   tide run lasso.lua --mode sets --check pair           scheduled sets in place of Gram working sets
local tide = require "tide"
local d = tide.descent

local opt = tide.options {
  data        = {"LibSVM file, or safetensors with x and y; without it: generated", type = "string"},
  model       = {"lasso, enet, logistic", default = "lasso"},
  mode        = {"how variables are chosen: auto, gram, sets", default = "auto"},
  lambda      = {"the penalty; 0: by --share", default = 0.0},
  share       = {"the penalty, as a share of the one that lets no variable in", default = 0.1},
  ridge       = {"of the elastic net: weight of |x|^2 / 2", default = 1.0},
  path        = {"so many penalties, one after the other; 0: one", default = 0},
  folds       = {"of cross-validation along a path; 0: none", default = 0},
  ratio       = {"of a path: the last penalty over the first", default = 0.01},
  intercept   = {"a constant that is not penalised", default = false},
  standardise = {"penalise coefficients of scaled columns", default = false},
  positive    = {"coefficients of 0 or more", default = false},
  tolerance   = {"the gap at which it ends, as a share of the objective", default = 1e-6},
  set         = {"of sets: variables a round; without it: 32", type = "integer"},
  order       = {"of sets: active, priority, random, blocks; without it: active", type = "string"},
  check       = {"of sets: rowsum, pair, none; without it: rowsum", type = "string"},
  ahead       = {"of sets: rounds under way; without it: as it pays", type = "integer"},
  train       = {"generated examples", default = 600, min = 1},
  columns     = {"of generated examples", default = 800, min = 1},
  entries     = {"of a generated example that are not 0", default = 40, min = 1},
  nodes       = {"node processes on this machine, a worker each", default = 2, min = 1},
  chart       = {"file for a picture of the path", type = "string"},
  seed        = {"of data and orders", default = 1},
  json        = {"one JSON object instead of text", default = false},
}

local logistic <const> = opt.model == "logistic"
local data
if opt.data and opt.data:find "%.safetensors$" then
  data = tide.data.dense(opt.data)
else
  data = tide.data.libsvm(opt.data or {generate = {train = opt.train, columns = opt.columns, nonzeros = opt.entries,
    classes = logistic and 2 or 0, seed = opt.seed}}, {labels = logistic and "class" or "number"})
end

local along <const> = opt.path > 0 or opt.folds > 0
local fields = {name = "descent", data = data, mode = opt.mode, intercept = opt.intercept,
  standardise = opt.standardise, positive = opt.positive, tolerance = opt.tolerance, set = opt.set, order = opt.order,
  check = opt.check, ahead = opt.ahead, seed = opt.seed}
if opt.model == "enet" then fields.ridge = opt.ridge end
if along then
  fields.model, fields.ratio = opt.model, opt.ratio
  fields.lambdas, fields.folds = opt.path > 0 and opt.path or 30, opt.folds > 0 and opt.folds or nil
else
  if opt.lambda > 0 then fields.lambda = opt.lambda else fields.share = opt.share end
end
if not ({lasso = true, enet = true, logistic = true})[opt.model] then
  error(("--model %s is none of lasso, enet, logistic"):format(opt.model), 0)
end
local job = along and d.path(fields) or d[opt.model](fields)

tide.main(function()
  local quiet <const> = opt.json or tide.output.json
  local function say(...) if not quiet then print((...):format(select(2, ...))) end end
  say("%s", data.note)
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  say("%6s %12s %14s %11s %8s %8s %6s %9s %12s", "report", "lambda", "objective", "gap", "support", "set", "sums",
    "seconds", along and "explained" or "")
  local points, errors, reports = {}, {}, {}
  for r in run:events "report" do
    local held <const> = r.held_out and r.held_out / math.max(1, r.held)
    if held then -- of the examples that a fold leaves out
      errors[r.stage] = errors[r.stage] or {name = "fold " .. (r.stage - 1), points = {}}
      table.insert(errors[r.stage].points, {math.log(r.lambda, 10), held})
    else
      points[#points + 1] = {math.log(r.lambda, 10), r.explained or 0}
      reports[#reports + 1] = {n = r.n, lambda = r.lambda, objective = r.objective, gap = r.gap, support = r.support,
                               set = r.set, sums = r.sums, elapsed_s = r.elapsed_s}
      say("%6d %12.6g %14.8g %11s %8d %8.4g %6d %9.3f %12s", r.n, r.lambda, r.objective,
        r.gap and ("%.3e"):format(r.gap) or "-", r.support, r.set, r.sums or 0, r.elapsed_s,
        r.explained and ("%.4f"):format(r.explained) or "")
    end
    if r.best_lambda and opt.folds > 0 then
      say("best of %d folds: lambda %.6g, error %.6g +- %.2g", opt.folds, r.best_lambda, r.best_error,
        r.best_deviation)
    end
  end
  local summary <const> = run:wait()
  local model = d.model(run)
  local count, largest = 0, {}
  for j, v in pairs(model:nonzero()) do
    count = count + 1
    largest[#largest + 1] = {j, v}
  end
  table.sort(largest, function(a, b) return math.abs(a[2]) > math.abs(b[2]) end)
  if quiet then
    print(tide.json.encode {schema = "tide.lasso/1", data = data.note, reports = reports, support = count,
                            columns = data.columns, wire_bytes = summary.wire_bytes})
  end
  say("%d of %d coefficients are not 0%s; the largest:", count, data.columns,
    opt.intercept and (", the intercept is %.6g"):format(model.intercept) or "")
  for i = 1, math.min(5, #largest) do say("  column %d: %.6g", largest[i][1], largest[i][2]) end
  if opt.chart then
    local charts = {{title = "Explained share by log10 of lambda", x = "log10 lambda", y = "explained",
                     series = {{name = "all examples", points = points}}}}
    local folds = {}
    for stage = 2, opt.folds + 1 do folds[#folds + 1] = errors[stage] end
    if #folds > 0 then
      charts[2] = {title = "Error on held-out examples", x = "log10 lambda", y = "mean error", series = folds}
    end
    assert(tide.chart.write(opt.chart, charts))
  end
end)
