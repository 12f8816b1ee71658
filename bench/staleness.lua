-- What a bound of staleness gains where workers are held up, in the simulator: steps of 10 ms on tables of three
-- consistencies, with a node that is always three times as slow and with steps that are so at random.
--   tide sim bench/staleness.lua
local tide = require "tide"
local core = require "tide.core"
local sim = require "tide.sim"

local opt = tide.options {
  nodes = {"of a worker each", default = 8},
  steps = {"of a run", default = 200},
  times = {"how slow what is slow is", default = 3},
  often = {"share of the steps that are slow at random", default = 0.05},
}
local STEP_S <const> = 0.01
local SLOW <const> = {
  ["a slow node"] = function(rank) return rank == 1 end,
  ["slow steps"] = function(_, rng) return rng:uniform() < opt.often end,
}

local jobs = {}
for _, consistency in ipairs {"bsp", "ssp:1", "ssp:3"} do
  jobs[#jobs + 1] = {consistency = consistency, job = tide.job {
    name = "staleness-" .. #jobs + 1, params = {slow = 1},
    tables = {t = tide.table {keys = tide.dense(8), width = 8, init = tide.zero(), update = "add",
                              consistency = consistency}},
    worker = function(w)
      local rng <const>, slow <const> = core.random(100 + w.rank), SLOW[w.params.slow]
      local keys <const>, ones <const> = tide.range(0, 7), tide.tensor.zeros("f32", 8, 8)
      local began <const> = core.now()
      for _ = 1, opt.steps do
        w.tables.t:pull(keys)
        tide.sleep(STEP_S * (slow(w.rank, rng) and opt.times or 1))
        w.tables.t:push(keys, ones)
        w:clock()
      end
      w:report {step_s = w.rank == 1 and (core.now() - began) / opt.steps or 0}
    end}}
end

tide.main(function()
  if not sim.active then error("staleness.lua is for `tide sim`: tide sim bench/staleness.lua", 0) end
  for _, slow in ipairs {"a slow node", "slow steps"} do
    for _, each in ipairs(jobs) do
      local cluster <close> = tide.cluster {nodes = opt.nodes}
      local run = cluster:start(each.job, {slow = slow})
      for r in run:events "report" do
        print(("%-12s %-6s %6.2f ms a step"):format(slow, each.consistency, 1000 * r.step_s))
      end
      run:wait()
    end
  end
end)
