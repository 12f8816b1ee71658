-- Related tasks learned together with the relation between them, and certified: the duality gap says how far the
-- answer is from the optimum. Each worker has tasks for itself; what travels is one row of parameters a task and
-- round.
--   tide run multitask.lua                                generated tasks
--   tide run multitask.lua --data school.svm --splits 5   School: 139 schools, examination scores
-- School's MATLAB file becomes school.svm by
--   import numpy as np; from scipy.io import loadmat; from sklearn.datasets import dump_svmlight_file
--   s = loadmat("school.mat"); X = [x for x in s["X"].ravel()]; Y = [y.ravel() for y in s["Y"].ravel()]
--   q = np.concatenate([[i + 1] * len(y) for i, y in enumerate(Y)])
--   dump_svmlight_file(np.vstack(X).astype(float), np.concatenate(Y).astype(float), "school.svm", query_id=q,
--                      zero_based=False)
local tide = require "tide"
local mtl = tide.multitask

local opt = tide.options {
  data     = {"LibSVM file whose qid is the task; without it: generated", type = "string"},
  relation = {"auto, learned, independent, mean:C", default = "auto"},
  loss     = {"squared, hinge, smoothed, logistic", default = "squared"},
  solver   = {"cg or sdca; without it: cg for squared loss", type = "string"},
  lambdas  = {"weights of the regulariser that are tried", default = "1e-4 3e-4 1e-3 3e-3 1e-2"},
  tasks    = {"generated", default = 8, min = 1},
  rows     = {"generated examples a task", default = 20},
  columns  = {"of generated examples", default = 20, min = 1},
  held_out = {"share of the data's examples, or generated ones a task", type = "number"},
  splits   = {"how many random splits of a file's examples", default = 1, min = 1},
  steps    = {"outer steps at most, of auto and learned; without it: 5", type = "integer"},
  rows_rho = {"sdca with the looser bound by sums of rows", default = false},
  deadline = {"times the median pass at which a round of sdca ends; 0: when a pass is made", default = 0.0, min = 0},
  nodes    = {"node processes on this machine, a worker each", default = 2, min = 1},
  chart    = {"file for a map of the correlations", type = "string"},
  seed     = {"of data and splits", default = 1},
  json     = {"one JSON object a split instead of text", default = false},
}

local lambdas = {}
for word in opt.lambdas:gmatch "[^%s,]+" do lambdas[#lambdas + 1] = tonumber(word) end
local relation = opt.relation
local c = relation:match "^mean:(.+)$"
if c then relation = {"mean", tonumber(c)} end

local jobs, sets = {}, {}
for split = 1, opt.splits do
  if opt.data then
    local test = opt.held_out or 0.25
    sets[split] = tide.data.libsvm(opt.data, {tasks = "qid"}):split {train = 1 - test, test = test,
                                                                      seed = opt.seed + split - 1}
  else
    sets[split] = tide.data.libsvm {generate = {tasks = opt.tasks, rows = opt.rows, columns = opt.columns,
      test = math.tointeger(opt.held_out or 200), seed = opt.seed + split - 1, classes = opt.loss ~= "squared" or nil}}
  end
  jobs[split] = mtl.job {name = "tasks-" .. split, data = sets[split], loss = opt.loss, relation = relation,
                         lambdas = lambdas, solver = opt.solver, steps = opt.steps, seed = opt.seed,
                         rho = opt.rows_rho and "rows" or nil,
                         deadline = opt.deadline > 0 and opt.deadline or nil, standardise = opt.data ~= nil,
                         bias = opt.data ~= nil}
end

tide.main(function()
  local quiet <const> = opt.json or tide.output.json
  local function say(...) if not quiet then print((...):format(select(2, ...))) end end
  local sum, squares = 0, 0
  for split, job in ipairs(jobs) do
    say("%s", sets[split].note)
    local cluster <close> = tide.cluster {nodes = opt.nodes}
    local run = cluster:start(job)
    say("%-6s %5s %9s %6s %12s %11s %7s %7s %10s %9s", "start", "outer", "lambda", "final", "objective", "gap",
      "rounds", "rho", "validated", "seconds")
    local record = {schema = "tide.multitask/1", split = split, data = sets[split].note, reports = {}}
    for r in run:events "report" do
      record.reports[r.n] = {outer = r.outer, lambda = r.lambda, final = r.final == 1, primal = r.primal, gap = r.gap,
                             rounds = r.rounds, elapsed_s = r.elapsed_s}
      say("%-6s %5d %9.1e %6s %12.6f %11.3e %7d %7.2f %10s %9.3f", r.start or "given", r.outer, r.lambda,
        r.final == 1 and "yes" or "", r.primal, r.gap, r.rounds, r.rho,
        r.validated and ("%.5f"):format(r.validated) or "-", r.elapsed_s)
    end
    record.wire_bytes = run:wait().wire_bytes
    local model = mtl.model(run)
    if opt.loss == "squared" then
      local rmse = model:rmse "test"
      sum, squares, record.rmse = sum + rmse, squares + rmse * rmse, rmse
      say("held out: RMSE %.4f, explained variance %.4f\n", rmse, model:explained_variance "test")
    else
      local right, count = 0, 0
      for _, e in ipairs(model:errors "test") do right, count = right + e.right, count + e.count end
      record.right = right / count
      say("held out: %.2f %% right\n", 100 * right / count)
    end
    if quiet then print(tide.json.encode(record)) end
    if opt.chart then assert(tide.chart.write(opt.chart, {model:chart()})) end
  end
  if opt.loss == "squared" and opt.splits > 1 then
    local n, mean = opt.splits, sum / opt.splits
    local deviation = math.sqrt(math.max(0, squares / n - mean ^ 2) * n / (n - 1))
    say("%d splits: RMSE %.4f +- %.4f", n, mean, deviation)
  end
end)
