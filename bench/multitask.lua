-- Rounds of sdca with one worker that is ten times slower, all the time or now and then: with deadlines, without them,
-- and without the slow worker.
--   tide sim bench/multitask.lua
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

tide.main(function()
  local a <const> = fit(even)
  for _, how in ipairs {"always", "now and then"} do
    local b <const>, c <const> = fit(slow[how][1], how), fit(slow[how][2], how)
    print(("multitask straggler, %s: even %.4f s in %d rounds; without deadlines %.4f s in %d, %.2f times; "
      .. "with deadlines %.4f s in %d, %.2f times; least share of a pass %.3f; gap %.2e"):format(how,
      a.solve_s / opt.nodes, a.rounds, b.solve_s / opt.nodes, b.rounds, b.solve_s / a.solve_s, c.solve_s / opt.nodes,
      c.rounds, c.solve_s / a.solve_s, c.least_made or 1, c.gap / c.primal))
  end
end)
