-- Poseidon v2: speed-up of VGG19-22K and Inception-V3 with hybrid communication; v1: AlexNet and GoogLeNet on 8 nodes.
--   tide run examples/papers/poseidon.lua
-- Constants, set on 2026-11-28 before the first run: layers by their published shapes; 34.2 and 43.2 images/s on one
-- Titan X (v2, one node); cards of 40 and 10 Gbit/s, 20 us. The rate of v1's K20 was not found: 100, 200, 400 images/s.
-- Sizes are a 16th (bench/speedup.lua).
local tide = require "tide"
local paper = require "paper"

local p = paper.open {
  name = "poseidon", title = "Poseidon, versions 1 and 2",
  source = "Zhang et al., Poseidon, USENIX ATC 2017 (v2) and arXiv 1512.06216 (v1)",
  where = "Simulated: the exchange is real, a layer's computing takes its share of the published time of one node",
}
p.seeds = {1}
local NODES <const> = p.opt.small and {2, 4} or {2, 4, 8, 16, 32}
local METHODS <const> = {"hybrid", "ps", "no overlap"}

local function speedup(options)
  return p:figure(p:sim("bench/speedup.lua", options), function(r) return r.speedup end)
end

tide.main(function()
  local series, at = {}, {}
  for i, method in ipairs(METHODS) do
    series[i] = {name = "ours, " .. method, points = {}}
    at[method] = {}
    for k, nodes in ipairs(NODES) do
      local figure <const> = speedup {net = "vgg19-22k", nodes = nodes, gbit = 40, methods = method}
      series[i].points[k], at[method][nodes] = p:point(nodes, figure), figure
    end
  end
  local last <const> = NODES[#NODES]
  p:check(at.hybrid[last].y > at["no overlap"][last].y, "hybrid is faster than no overlap")
  for i, name in ipairs {"poseidon", "wfbp", "ps"} do
    series[#METHODS + i] = p:published("poseidon2." .. name)
    p:row {what = ("VGG19-22K, %d nodes, 40 Gbit/s: %s"):format(last, p:published("poseidon2." .. name).name
             .. ", ours " .. METHODS[i]), ours = at[METHODS[i]][last],
           published = p:value("poseidon2." .. name, last)}
  end
  p:chart {title = "VGG19-22K, 40 Gbit/s", x = "nodes", y = "speed-up over one node", log_x = true, log_y = true,
           series = series, note = "seed 1"}
  if not p.opt.small then
    p:row {what = "VGG19-22K, 16 nodes, 10 Gbit/s: hybrid", published = p:value "poseidon2.16", least = 15.5 * 0.97,
           ours = speedup {net = "vgg19-22k", nodes = 16, gbit = 10, methods = "hybrid"}}
    p:row {what = "Inception-V3, 32 nodes, 40 Gbit/s: hybrid", published = p:value "poseidon2.inception",
           least = 31.5 * 0.97, ours = speedup {net = "inception-v3", nodes = 32, gbit = 40, methods = "hybrid"}}
  end
  for _, net in ipairs(p.opt.small and {} or {"alexnet", "googlenet"}) do
    local bars = {}
    for i, method in ipairs(METHODS) do
      bars[i] = {name = method, values = {}}
      for k, images in ipairs {100, 200, 400} do
        local figure <const> = speedup {net = net, nodes = 8, gbit = 40, methods = method, images = images}
        bars[i].values[k] = figure.y
        if method == "hybrid" then
          p:row {what = ("v1, %s, 8 nodes, 40 Gbit/s, %d images/s a node"):format(net, images), ours = figure,
                 published = p:value("poseidon1." .. net), least = p:value("poseidon1." .. net).y}
        end
      end
    end
    p:chart {title = net .. ", 8 nodes, 40 Gbit/s", x = "images/s of one node", y = "speed-up over one node",
             groups = {"100", "200", "400"}, series = bars, note = "seed 1"}
  end
  p:differs "baselines are too fast: the simulator has no copies between GPU and host and no processor time of servers"
  p:differs "one seed: latency is fixed, and the seed changes only the order of equal times"
  p:lacks "v1: DWBP and SACP apart, and CIFAR-10: values and conditions were not found"
  p:close()
end)
