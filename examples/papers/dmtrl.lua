-- DMTRL: tasks learned together with their relation; gap by rounds and bytes, error against tasks learned apart.
--   tide run examples/papers/dmtrl.lua
-- Constants, set on 2026-11-28 before the first run: the example's generated tasks (8 of 20 examples and 20 columns),
-- lambda 1e-3, conjugate gradients, five outer steps: all its defaults but lambda, of which it has a list.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "dmtrl", title = "DMTRL",
  source = "Liu et al., Distributed Multi-Task Relationship Learning, KDD 2017 (no values were found)",
  where = "Simulated: 1 to 8 nodes, each with tasks of its own",
}
local NODES <const> = p.opt.small and {1, 2} or {1, 2, 4, 8}
local KB <const> = 1e-3

local function last(all) return all[1].reports[#all[1].reports] end

tide.main(function()
  local gaps, bytes = {}, {name = "wire", points = {}}
  local learned
  for i, nodes in ipairs(NODES) do
    local runs <const> = p:sim("multitask", {relation = "learned", lambdas = "1e-3", nodes = nodes})
    learned = learned or runs
    local rounds, points = 0, {}
    for k, r in ipairs(runs[1][1].reports) do
      rounds = rounds + r.rounds
      points[k] = {rounds, r.gap / r.primal}
    end
    gaps[i] = {name = ("%d node%s"):format(nodes, nodes == 1 and "" or "s"), points = points}
    bytes.points[i] = p:point(nodes, p:figure(runs, function(r) return r.wire_bytes * KB / rounds end))
    p:row {what = ("%d nodes: gap at the end over the objective"):format(nodes), most = 1e-6,
           ours = p:figure(runs, function(_, all) return last(all).gap / last(all).primal end)}
    p:row {what = ("%d nodes: rounds to the end"):format(nodes), ours = p:figure(runs, function(r)
      local sum = 0
      for _, report in ipairs(r.reports) do sum = sum + report.rounds end
      return sum
    end)}
  end
  local apart <const> = p:sim("multitask", {relation = "independent", lambdas = "1e-3", nodes = NODES[1]})
  local ratio <const> = p:speedup(apart, learned, function(r) return r.rmse end)
  p:row {what = "held-out error of tasks learned apart over learned together", ours = ratio, least = 1}
  p:check(ratio.y > 1, "tasks learned together have a smaller error")
  if p.opt.data and not p.opt.small then
    local school <const> = {data = p.opt.data .. "/school/school.svm", nodes = 2, splits = 2}
    local runs <const> = p:sim("multitask", school)
    p:row {what = "School: error with relation by validation", ours = p:figure(runs, function(r) return r.rmse end)}
  end
  p:chart {title = "Gap after each outer step, seed 1", x = "rounds", y = "duality gap over objective", log_y = true,
           series = gaps, note = "seed 1"}
  p:chart {title = "Bytes of a round", x = "nodes", y = "kB on the wire, all nodes", series = {bytes}}
  p:differs "the solver ends each outer step but the last at a gap of 1e-3 of the objective, and tells gaps only then"
  p:lacks "values of gap, error and time: the paper shows them as pictures"
  p:lacks "School (139 tasks) without --data: its file enters no repository"
  p:close()
end)
