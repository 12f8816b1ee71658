-- Model-parallel LDA: likelihood by pass over data-parallel; likelihood does not depend on the number of nodes.
--   tide run examples/papers/mplda.lua
-- Constants, set on 2026-11-28 before the first run: corpus "generated B", 50 topics, 6 passes. rotate is
-- model-parallel (blocks of words pass from node to node), exchange is data-parallel. 20 us, 25 Gbit/s.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "mplda", title = "Model-parallel LDA",
  source = "Zheng et al., Model-Parallel Inference for Big Topic Models, 2014 (no values were found)",
  where = "Simulated: 1 to 8 nodes",
}
p.seeds = {1}
local NODES <const> = p.opt.small and {1, 2} or {1, 2, 4, 8}
local PASSES <const> = p.opt.small and 2 or 6

---Log-likelihood a token by pass, and the time of a pass.
local function lda(options)
  options.data, options.topics, options.passes, options.eval_every = "generated B", 50, PASSES, 1
  local all <const> = p:sim("bench/lda.lua", options)[1]
  local points, tokens = {}, all[#all].tokens
  for _, r in ipairs(all) do
    if r.ll then points[#points + 1] = {r.pass, r.ll / tokens} end
  end
  return points, all[#all].seconds_a_pass, all[#all].bytes / PASSES / 1e6
end

tide.main(function()
  local series, times, one = {}, {}, nil
  for k, nodes in ipairs(NODES) do
    local points <const>, seconds <const>, mb <const> = lda {mode = "rotate", sampler = "gibbs", nodes = nodes}
    one = one or seconds
    times[k] = {nodes, seconds}
    if k == 1 or k == #NODES then
      series[#series + 1] = {name = ("rotate (gibbs), %d"):format(nodes), points = points}
      p:row {what = ("rotate, %d nodes: log-likelihood a token after %d passes"):format(nodes, PASSES),
             ours = points[#points][2]}
    end
    if k > 1 then
      p:row {what = ("rotate, %d nodes: time of a pass times nodes, over one node's"):format(nodes),
             ours = seconds * nodes / one, note = ("%.1f MB a pass on the wire"):format(mb)}
    end
  end
  local nodes <const> = NODES[#NODES]
  local data <const> = lda {mode = "exchange", sampler = "warp", nodes = nodes}
  series[#series + 1] = {name = ("exchange (warp), %d"):format(nodes), points = data}
  local model <const> = series[2].points
  p:row {what = ("%d nodes, %d passes: log-likelihood a token, rotate less exchange"):format(nodes, PASSES), least = 0,
         ours = model[#model][2] - data[#data][2]}
  p:check(times[2][2] < times[1][2], "two nodes are faster than one")
  p:chart {title = "Log-likelihood by pass", x = "pass", y = "log-likelihood a token", series = series, note = "seed 1"}
  p:chart {title = "Time of a pass by nodes, rotate", x = "nodes", y = "virtual s", log_x = true, log_y = true,
           series = {{name = "ours", points = times}, {name = "1/n", points = {{1, one}, {nodes, one / nodes}}}},
           note = "seed 1"}
  p:differs "the data-parallel sampler is warp, which draws from frozen counts; model-parallel gibbs sees fresh ones"
  p:differs "a token's simulated time is the simulator's default, which does not depend on topics"
  p:lacks("memory of a node ~ 1/P: no run tells what a node's blocks take; four nodes peak at 140 to 150 MB for 160 MB "
    .. "of rows, since a worker may run three blocks ahead")
  p:lacks "2 x 10^11 variables on a cluster (abstract); memory and convergence values: not found"
  p:close()
end)
