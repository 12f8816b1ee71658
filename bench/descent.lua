-- Fits a linear model to a file and prints what it took as one JSON object: what bench/descent.py compares with others.
-- Under tide sim, without a file: Gram working sets beside scheduled sets at a latency.
--   tide run bench/descent.lua --data x.safetensors --share 0.1
--   tide sim --latency 1ms bench/descent.lua
--   tide sim --latency 1ms bench/descent.lua --only ahead    sets of many variables, three rounds in flight or one
--   tide sim bench/descent.lua --only bytes --check none     what workers send, over what the sums are
--   tide run bench/descent.lua --only sampler                64 draws of a million variables by weight
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
  columns   = {"of ahead", default = 20000},
  only      = {"latency, ahead, bytes, sampler", default = "latency"},
}
local simulated = require "tide.core".simulated()
local data
if opt.data and opt.data:find "%.safetensors$" then
  data = tide.data.dense(opt.data)
else
  data = tide.data.libsvm(opt.data or {generate = {train = 400, columns = 2000, nonzeros = 40, classes = 0, seed = 1}},
    {labels = opt.model == "logistic" and "class" or "number"})
end
if opt.only == "ahead" then -- many columns with little in common
  data = tide.data.libsvm({generate = {train = 1000, columns = opt.columns, nonzeros = 20, classes = 0, seed = 1}})
end
if simulated then require "tide.sim".compute {call = "10us", row = "0.01us"} end -- what they count are numbers
local function fields(name, mode, ahead)
  local o = {name = name, data = data, mode = mode, tolerance = opt.tolerance, intercept = opt.intercept}
  if mode == "sets" then
    o.order, o.check, o.set, o.ahead = opt.order, opt.check, opt.set, ahead or opt.ahead
  end
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
local jobs = opt.only == "ahead" and {make(fields("one", "sets", 1)), make(fields("three", "sets", 3))}
  or simulated and {make(fields("gram", "gram")), make(fields("sets", "sets"))} or {make(fields("fit", opt.mode))}

---@param most? integer reports, and then it is stopped
local function fit(job, most)
  local cluster <close> = tide.cluster {nodes = simulated and 4 or opt.nodes}
  local run = cluster:start(job)
  local trace, sums, bytes, last = {}, 0, 0, nil
  for r in run:events "report" do
    sums, bytes, last = sums + (r.sums or 0), bytes + (r.peers_bytes or 0), r
    if r.n == most then run:stop() end
    trace[#trace + 1] = {r.elapsed_s, r.objective, r.gap or -1, r.rounds, r.updates or 0}
  end
  run:wait()
  return {seconds = last.elapsed_s, sums = sums, objective = last.objective, gap = last.gap,
          support = last.support, rounds = last.rounds, updates = last.updates, trace = trace, set = last.set,
          bytes = bytes}
end

local function sampler()
  local core <const> = require "tide.core"
  local J <const>, random <const> = 1000000, core.random(1)
  local weights <const>, tree <const> = core.tensor("f64", J, 1), core.tensor("f64", J + 1, 1)
  for j = 1, J do weights[j] = random:uniform() end
  core.kernel "descent_weigh" {weights = weights, tree = tree}
  local sample <const>, out <const>, times = core.kernel "descent_sample", core.tensor("u32", 64, 1), {}
  for k = 1, 2001 do
    local began <const> = core.now()
    sample {weights = weights, tree = tree, seed = k, count = 64, floor = 0.1, out = out}
    times[k] = core.now() - began
  end
  table.sort(times)
  print(("descent sampler: 64 of %d variables in %.1f us (median)"):format(J, 1e6 * times[1001]))
end

tide.main(function()
  if opt.only == "sampler" then return sampler() end
  local results = {}
  for i, job in ipairs(jobs) do results[i] = fit(job, opt.only == "ahead" and 1 or nil) end
  if opt.only == "ahead" then
    local one <const>, three <const> = results[1], results[2]
    print(("descent ahead: updates/s %.0f with one round under way, %.0f with three, %.3f times; sets of %.1f and %.1f")
      :format(one.updates / one.seconds, three.updates / three.seconds,
        three.updates / three.seconds / (one.updates / one.seconds), one.updates / one.rounds,
        three.updates / three.rounds))
  elseif opt.only == "bytes" then
    local s <const>, P <const> = results[2], 4
    local J <const> = data.columns -- numbers a worker sends to each other one: of sets, and of looks at all variables
    local wanted <const> = 8 * (s.updates + 2 * s.rounds + s.sums * (J + 3)) * (P - 1) * P
    print(("descent bytes: sets sent %.0f bytes, %.3f of 8 (|B| + 2) (P - 1) a worker and round and 8 J (P - 1) a sum; "
      .. "gram %.0f in %d sums"):format(s.bytes, s.bytes / wanted, results[1].bytes, results[1].sums))
  elseif simulated then
    local g, s = results[1], results[2]
    print(("descent latency: gram %.4f s, sets %.4f s, %.4f of it; %d sums, %d rounds"):format(g.seconds, s.seconds,
      g.seconds / s.seconds, g.sums, s.rounds))
  else
    print(tide.json.encode(results[1]))
  end
end)
