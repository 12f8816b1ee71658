-- Rounds of sdca with one worker that is ten times slower, all the time or now and then: with deadlines, without them,
-- and without the slow worker.
--   tide sim bench/multitask.lua
--   tide sim bench/multitask.lua --only bytes     what a round sends, over 8 x 2 m d (P - 1) / P^2 + 16 P a worker
--   tide run bench/multitask.lua --only steps     numbers a second of mtl_sdca, over those of a dot and an add
local tide = require "tide"
local sim = require "tide.sim"
local mtl = tide.multitask

local opt = tide.options {
  nodes     = {"workers", default = 4},
  factor    = {"how many times slower one of them is", default = 10.0},
  tasks     = {"generated", default = 16},
  rows      = {"examples a task", default = 100},
  columns   = {"of an example", default = 20},
  lambda    = {"weight of the regulariser", default = 1e-3},
  tolerance = {"gap at which it ends, as a share of the objective", default = 1e-3},
  share     = {"of the time that it is slow, now and then", default = 0.2},
  mean      = {"how long it is slow at a time", default = "50ms"},
  only      = {"straggler, bytes, steps", default = "straggler"},
  deadline  = {"times the median pass", default = 1.5},
}
local data = tide.data.libsvm {generate = {tasks = opt.tasks, rows = opt.rows, columns = opt.columns, seed = 1}}
local function job(name, deadline)
  return mtl.job {name = name, data = data, solver = "sdca", relation = {"mean", 0.5}, lambdas = opt.lambda,
                  standardise = false, bias = false, tolerance = opt.tolerance, rounds = 5000, deadline = deadline}
end
local even <const> = job("even")
local slow <const> = {
  always = {job("late-always"), job("timely-always", opt.deadline)},
  ["now and then"] = {job("late-at-times"), job("timely-at-times", opt.deadline)},
}

local function fit(which, how)
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  if how == "always" then
    sim.fault("slow", {node = "n2", factor = opt.factor, at = "0s"})
  elseif how then
    sim.node("n2", {slow = {p = opt.share, factor = opt.factor, mean = opt.mean}})
  end
  local run = cluster:start(which)
  local last
  for r in run:events "report" do last = r end
  run:wait()
  return last
end

local function bytes()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(even)
  local last
  for r in run:events "report" do last = r end
  run:wait()
  local m <const>, d <const>, P <const> = opt.tasks, opt.columns, opt.nodes
  local wanted <const> = last.rounds * (8 * 2 * m * d * (P - 1) / P ^ 2 + 16 * P) * P
  print(("multitask bytes: %.0f in %d rounds, %.3f of the formula"):format(last.peers_bytes, last.rounds,
    last.peers_bytes / wanted))
end

local function steps()
  local core <const> = require "tide.core"
  local n <const>, d <const>, rounds <const> = 2000, 500, 15
  local values <const>, y, a = core.tensor("f32", n, d), core.tensor("f64", n, 1), core.tensor("f64", n, 1)
  local random <const> = core.random(1)
  for i = 1, n * d do values[i] = random:uniform() - 0.5 end
  for i = 1, n do y[i] = random:uniform() end
  local w <const>, r <const> = core.tensor("f64", d, 1), core.tensor("f64", d, 1)
  local order <const> = core.tensor("u32", n, 1):fill(0, 1)
  order:shuffle(1)
  local function best(f)
    local least = math.huge
    for _ = 1, rounds do
      local began <const> = core.now()
      f()
      least = math.min(least, core.now() - began)
    end
    return n * d / least
  end
  local sdca <const>, product <const> = core.kernel "mtl_sdca", core.kernel "mtl_product"
  local own <const> = best(function()
    sdca {y = y, a = a, w = w, loss = "squared", smooth = 1, first = 0, rows = n, r = r, order = order, samples = n,
          weight = 1.0, values = values, d = d}
  end)
  local bare <const> = best(function()
    product {first = 0, rows = n, kind = "both", from = w, to = r, by = 1 / n, values = values, d = d}
  end)
  print(("multitask steps: %.3g numbers/s, a dot and an add of each row %.3g; %.2f of it"):format(own, bare,
    own / bare))
end

tide.main(function()
  if opt.only == "bytes" then return bytes() end
  if opt.only == "steps" then return steps() end
  local a <const> = fit(even)
  for _, how in ipairs {"always", "now and then"} do
    local b <const>, c <const> = fit(slow[how][1], how), fit(slow[how][2], how)
    print(("multitask straggler, %s: even %.4f s in %d rounds; without deadlines %.4f s in %d, %.2f times; "
      .. "with deadlines %.4f s in %d, %.2f times; least share of a pass %.3f; gap %.2e"):format(how,
      a.solve_s / opt.nodes, a.rounds, b.solve_s / opt.nodes, b.rounds, b.solve_s / a.solve_s, c.solve_s / opt.nodes,
      c.rounds, c.solve_s / a.solve_s, c.least_made or 1, c.gap / c.primal))
  end
end)
