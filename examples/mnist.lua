-- Image classification by data-parallel training.
--   tide run mnist.lua                                   a generated task, two node processes
--   tide run mnist.lua --data mnist/ --net conv          MNIST's files, packed by gzip or not
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  data    = {"directory with MNIST's files; without it: generated", type = "string"},
  test    = {"share that is held out where there is one pair of files", default = 0.2},
  count   = {"number of generated images", default = 3000},
  net     = {"the net", default = "mlp", choices = {"mlp", "conv", "residual"}},
  rule    = {"update rule", default = "momentum", choices = {"sgd", "momentum", "adam"}},
  lr      = {"rate; without it 0.1 for sgd, 0.05 for momentum, 0.001 for adam", type = "number"},
  epochs  = {"passes over the images", default = 5},
  batch   = {"images of a step, of all workers together", default = 64},
  most    = {"largest batch: from `batch` on it follows the noise of the gradients, and the rate with it",
             type = "integer"},
  clip    = {"largest norm of a step's mean gradient", type = "number"},
  nodes   = {"node processes on this machine", default = 2},
  workers = {"workers of each node", default = 1},
  seed    = {"of initial values, split and orders", default = 1},
  save    = {"file for the parameters", type = "string"},
  json    = {"one JSON object instead of text", default = false},
}

local data = tide.data.images(opt.data, {test = opt.test, seed = opt.seed, count = opt.count})

local nets = {}

function nets.mlp()
  return nn.sequential {
    input = {28, 28, 1}, loss = nn.xent(),
    nn.flatten(), nn.linear(256), nn.relu(), nn.linear(10),
  }
end

function nets.conv()
  return nn.sequential {
    input = {28, 28, 1}, loss = nn.xent(),
    nn.conv(16, 3), nn.relu(), nn.maxpool(2),
    nn.conv(32, 3), nn.relu(), nn.maxpool(2),
    nn.flatten(), nn.dropout(0.25), nn.linear(64), nn.relu(), nn.linear(10),
  }
end

function nets.residual()
  return nn.program("residual", function(p)
    local x, y = p:input("x", 28, 28, 1), p:index "y"
    local h = nn.maxpool(2)(nn.relu(nn.batchnorm()(nn.conv(16, 3, {bias = false})(x))))
    for _ = 1, 2 do
      local r = nn.relu(nn.batchnorm()(nn.conv(16, 3, {bias = false})(h)))
      r = nn.batchnorm()(nn.conv(16, 3, {bias = false})(r))
      h = nn.relu(h + r)
    end
    local z = nn.linear(10)(nn.mean_pixels(h))
    p:output("logits", z)
    p:loss(nn.xent(z, y))
  end)
end

local RATES = {sgd = 0.1, momentum = 0.05, adam = 0.001}

local program = nets[opt.net]()
local job = nn.job {
  name = "mnist", program = program, data = data, epochs = opt.epochs, seed = opt.seed,
  batch = opt.most and {start = opt.batch, max = opt.most} or opt.batch,
  optimizer = nn[opt.rule] {lr = opt.lr or RATES[opt.rule]}, clip = opt.clip,
}

local function say(...)
  if not opt.json and not tide.output.json then print(string.format(...)) end
end

tide.main(function()
  say("data: %s", data.note)
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = opt.workers}
  local run = cluster:start(job)
  local epochs = {}
  for r in run:events "report" do
    local test = run:evaluate "test"
    local tested <const> = test.count > 0 -- else the means are none
    local e = {epoch = r.n, loss = r.loss / r.examples, accuracy = r.correct / r.examples, seconds = r.elapsed_s,
               test_accuracy = tested and test.correct or nil, test_loss = tested and test.loss or nil}
    epochs[#epochs + 1] = e
    say("epoch %2d  loss %.4f  accuracy %.4f  %s  %7.2f s", e.epoch, e.loss, e.accuracy,
      tested and ("test accuracy %.4f"):format(e.test_accuracy) or "no test images", e.seconds)
  end
  local summary = run:wait()
  local files = opt.save and run:dump(opt.save, {"params", "states"}) or {}
  if opt.json or tide.output.json then
    local result = summary:to_data()
    result.schema, result.data, result.epochs, result.program = "tide.nn/1", data.note, epochs, program:id()
    result.test_accuracy, result.files = epochs[#epochs].test_accuracy, files
    print(tide.json.encode(result))
    return
  end
  print(summary:table {"reports", "epoch_s", "accesses_local", "accesses_remote", "wire_bytes"})
  for _, file in ipairs(files) do say("written: %s", file) end
end)
