-- A net and a program of vertices trained on the GPU by two workers: what they learn is what the CPU learns.
local tide, nn = require "tide", require "tide.nn"

local net <const> = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.conv(8, 3), nn.relu(), nn.maxpool(2),
  nn.flatten(), nn.linear(10)}
local H <const> = 32
local tree <const> = nn.vertex("tree", function(p, v)
  local h = v:state("h", H)
  local x = v:embed(p:table("E", 100, H), v:index "word")
  local h1 = (nn.linear(H, {name = "own"})(x) + nn.linear(H, {name = "below", bias = false})(v:sum(h))):tanh()
  v:publish {h = h1}
  p:loss(nn.xent(nn.linear(5, {name = "out"})(h1), v:index "label"))
end)

local jobs = {}
for _, device in ipairs {"cpu", "cuda"} do
  jobs[#jobs + 1] = {net = nn.job {name = "net_" .. device, program = net, batch = 64, epochs = 1, device = device,
    data = tide.data.images(nil, {count = 640, seed = 2}), optimizer = nn.momentum {lr = 0.05}},
    tree = nn.job {name = "tree_" .. device, program = tree, batch = 16, epochs = 1, device = device,
    data = tide.data.forest {generate = "random_trees", samples = 200, vocabulary = 100, max = 9},
    optimizer = nn.sgd {lr = 0.2}, tables = {E = {"sgd", lr = 0.2}}}}
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  for _, name in ipairs {"net", "tree"} do
    local losses = {}
    for i, each in ipairs(jobs) do losses[i] = cluster:start(each[name]):wait().loss end
    print(name, losses[1], losses[2])
    assert(math.abs(losses[1] - losses[2]) < 1e-3 * losses[1], name)
  end
end)
