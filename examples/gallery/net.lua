-- A neural network of one's own: two inputs, a metric, early stop; its parameters by their names at the end.
--   tide run examples/gallery/net.lua
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  epochs = {"passes over the examples, at most", default = 12},
  nodes  = {"worker nodes", default = 2},
  save   = {"file for the parameters", default = "net.safetensors"},
}

-- Points of the plane and a colour; label 1: inside of the circle, or red.
local function draw(count, seed)
  local place <const> = tide.tensor.zeros("f32", count, 2):uniform(seed, -1, 1)
  local colour <const> = tide.tensor.zeros("f32", count, 1):uniform(seed + 1):map "x < 0.2"
  local inside <const> = place:copy():map("x * x"):row_sums():map "x < 0.5"
  return place, colour, inside:map("max(x, red)", {red = colour}):convert "i32"
end

local data = tide.data.lazy(function()
  local parts = {}
  for name, count in pairs {train = 2000, valid = 500, test = 500} do
    parts[name .. ".place"], parts[name .. ".colour"], parts[name .. ".label"] = draw(count, count + #name)
  end
  return {parts = parts}
end)

local net = nn.program("circle", function(p)
  local place, colour, label = p:input("place", 2), p:input("colour", 1), p:index "label"
  local hidden = nn.relu(nn.linear(32)(place:concat(colour)))
  local z = nn.linear(2)(nn.relu(nn.linear(16)(hidden)))
  p:output("z", z)
  p:loss(nn.xent(z, label))
end)

local job = nn.job {
  name = "net", program = net, data = data, batch = 50, epochs = opt.epochs,
  optimizer = nn.adam {lr = nn.schedule.cosine(0.01, 40 * opt.epochs), beta2 = 0.99},
  validate = "valid", stop = {metric = "valid_loss", patience = 3},
  metrics = {ones = function(out) return out.z:argmax():convert "f32":sum() end}, -- share of rows called 1
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    print(("epoch %2d  loss %.3f  held out %.3f"):format(r.n, r.loss / r.examples, r.valid_loss / r.valid_examples))
  end
  run:wait()
  print(("right %.1f %%, called 1 %.1f %%"):format(100 * run:evaluate "test".correct, 100 * run:evaluate "ones"))
  net:save(run, opt.save)
  local m = net:compile()
  m:load(opt.save)
  print("parameters", m:parameter "fc1.w":rows(), m:parameter "fc1.w":columns())
end)
