-- Fits a linear model to a file and prints what it took as one JSON object: what bench/descent.py compares with others.
-- Under tide sim, without a file: Gram working sets beside scheduled sets at a latency.
--   tide run bench/descent.lua --data x.safetensors --share 0.1
--   tide sim --latency 1ms bench/descent.lua
local tide = require "tide"
local d = tide.descent

local opt = tide.options {
  data      = {"LibSVM file, or safetensors with x and y; without it: generated", type = "string"},
  model     = {"lasso or logistic", default = "lasso"},
  mode      = {"gram or sets", default = "gram"},
  lambda    = {"the penalty; 0: by --share", default = 0.0},
  share     = {"of the largest penalty", default = 0.1},
  path      = {"penalties of a path; 0: one", default = 0},
  ratio     = {"of a path", default = 1e-2},
  tolerance = {"gap, as a share of the objective", default = 1e-6},
  intercept = {"a constant", default = false},
  order     = {"of sets", default = "active"},
  check     = {"of sets", default = "rowsum"},
  set       = {"of sets", default = 32},
  ahead     = {"of sets", default = 1},
  nodes     = {"a worker each", default = 1},
}
local simulated = require "tide.core".simulated()
local data
if opt.data and opt.data:find "%.safetensors$" then
  data = tide.data.dense(opt.data)
else
  data = tide.data.libsvm(opt.data or {generate = {train = 400, columns = 2000, nonzeros = 40, classes = 0, seed = 1}},
    {labels = opt.model == "logistic" and "class" or "number"})
end
local function fields(name, mode)
  local o = {name = name, data = data, mode = mode, tolerance = opt.tolerance, intercept = opt.intercept,
             order = opt.order, check = opt.check, set = opt.set, ahead = opt.ahead}
  if opt.path > 0 then
    o.model, o.lambdas, o.ratio = opt.model, opt.path, opt.ratio
  elseif opt.lambda > 0 then
    o.lambda = opt.lambda
  else
    o.share = opt.share
  end
  return o
end
local make = opt.path > 0 and d.path or d[opt.model]
local jobs = simulated and {make(fields("gram", "gram")), make(fields("sets", "sets"))}
  or {make(fields("fit", opt.mode))}

local function fit(job)
  local cluster <close> = tide.cluster {nodes = simulated and 4 or opt.nodes}
  local run = cluster:start(job)
  local trace, sums, last = {}, 0, nil
  for r in run:events "report" do
    sums, last = sums + (r.sums or 0), r
    trace[#trace + 1] = {r.elapsed_s, r.objective, r.gap or -1, r.rounds, r.updates or 0}
  end
  run:wait()
  return {seconds = last.elapsed_s, sums = sums, objective = last.objective, gap = last.gap,
          support = last.support, rounds = last.rounds, trace = trace, set = last.set}
end

tide.main(function()
  local results = {}
  for i, job in ipairs(jobs) do results[i] = fit(job) end
  if simulated then
    local g, s = results[1], results[2]
    print(("descent latency: gram %.4f s, sets %.4f s, %.4f of it; %d sums, %d rounds"):format(g.seconds, s.seconds,
      g.seconds / s.seconds, g.sums, s.rounds))
  else
    print(tide.json.encode(results[1]))
  end
end)
