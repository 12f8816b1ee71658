-- LightLDA: steps and time of a token by the number of topics; time of a pass by nodes.
--   tide run examples/papers/lightlda.lua
-- Constants, set on 2026-11-28 before the first run: corpus "generated B" (10^6 tokens, 5,000 words) for all numbers of
-- topics; processor seconds of five passes less those of one; simulated nodes at 20 us, 25 Gbit/s.
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "lightlda", title = "LightLDA",
  source = "Yuan et al., LightLDA: Big Topic Models on Modest Computer Clusters, WWW 2015",
  where = "Real: one worker, by processor time. Simulated: 1 to 8 nodes",
}
local TOPICS <const> = p.opt.small and {100, 1000} or {100, 1000, 10000, 100000}
local PASSES <const> = p.opt.small and {1, 2} or {1, 5}
local NODES <const> = p.opt.small and {1, 2} or {1, 2, 4, 8}
p.seeds = {1}

---Microseconds of processor time a token.
local function cost(sampler, topics)
  local all = {}
  for i, passes in ipairs(PASSES) do
    all[i] = p:real("bench/lda.lua", {data = "generated B", sampler = sampler, topics = topics, passes = passes})[1]
  end
  return (all[2].processor_s - all[1].processor_s) / (PASSES[2] - PASSES[1]) / all[1][#all[1]].tokens * 1e6
end

tide.main(function()
  local series = {}
  for i, sampler in ipairs {"light", "warp"} do
    series[i] = {name = "ours, " .. sampler, points = {}}
    for k, topics in ipairs(TOPICS) do series[i].points[k] = {topics, cost(sampler, topics)} end
    local first <const>, last <const> = series[i].points[1], series[i].points[#TOPICS]
    p:row {what = ("%s: processor us a token, K = %d"):format(sampler, first[1]), ours = first[2], unit = "us"}
    p:row {what = ("%s: time a token, K = %d over K = %d"):format(sampler, last[1], first[1]),
           ours = last[2] / first[2], least = sampler == "warp" and 0 or nil, most = sampler == "warp" and 1.5 or nil,
           note = "published: independent of K (abstract); taken on a machine that others used"}
  end
  local last <const> = NODES[#NODES]
  local times = {name = "ours, warp, exchange", points = {}}
  local one
  for k, nodes in ipairs(NODES) do
    local runs <const> = p:sim("bench/lda.lua", {data = "generated B", sampler = "warp", mode = "exchange",
                                                 nodes = nodes, topics = 1000, passes = p.opt.small and 2 or 3})
    local figure <const> = p:figure(runs, function(_, all) return all[#all].seconds_a_pass end)
    one = one or figure.y
    times.points[k] = p:point(nodes, figure)
    if k > 1 then
      p:row {what = ("warp, %d nodes: time of a pass times nodes, over one node's"):format(nodes), most = 1.15,
             ours = figure.y * nodes / one}
    end
  end
  p:check(times.points[2][2] < times.points[1][2], "two nodes are faster than one")
  p:chart {title = "Time of a token by topics", x = "topics", y = "processor us a token", log_x = true, series = series,
           note = "seed 1"}
  p:chart {title = "Time of a pass by nodes, K = 1000", x = "nodes", y = "virtual s", log_x = true, log_y = true,
           series = {times, {name = "1/n", points = {{1, one}, {last, one / last}}}}, note = "seed 1"}
  p:differs "one machine and a generated corpus; a token's simulated time is the simulator's default, not measured"
  p:lacks "light is not flat: the steps of a token are constant, its misses of the caches grow with K"
  p:lacks "10^6 topics x 10^6 words take too long here (`bench/lda.py --only large`: 0.29 M tokens/s, 2,117 MiB)"
  p:lacks "microseconds a token, and 180 h on 8 against 60 h on 24 machines: not found, or recalled only"
  p:close()
end)
