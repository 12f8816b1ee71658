-- Directed acyclic graphs, whose vertices have any number of children and parents: the largest label below each vertex.
--   tide run lattice.lua                        generated lattices, two node processes
--   tide run lattice.lua --data dags/           train.txt, test.txt in format "lists" (docs/guides/dynamic-networks.md)
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  data    = {"directory with train.txt and test.txt; without it: generated", type = "string"},
  over    = {"how children come together: gated and added up, or the largest of all", default = "sum",
             choices = {"sum", "max"}},
  width   = {"of a vertex's state", default = 32},
  count   = {"number of generated graphs", default = 1000},
  lr      = {"rate, of adagrad", default = 0.1},
  epochs  = {"passes over the graphs", default = 3},
  batch   = {"graphs of a step, of all workers together", default = 16},
  nodes   = {"node processes on this machine", default = 2},
  workers = {"workers of each node", default = 1},
  seed    = {"of initial values, graphs and orders", default = 1},
  json    = {"one JSON object instead of text", default = false},
}

local H <const> = opt.width
local data <const> = opt.data and tide.data.forest(opt.data, {format = "lists"})
  or tide.data.forest {generate = "lattices", samples = opt.count, test = opt.count // 8, vocabulary = 500,
                       seed = opt.seed}

local program <const> = nn.vertex("lattice", function(p, v)
  local x = v:embed(p:table("E", data.vocabulary, H), v:index "word")
  local h = v:state("h", H)
  local own = nn.linear(H, {name = "own"})(x)
  local below
  if opt.over == "sum" then
    -- Each edge has a gate that sees both of its ends.
    local gate = (nn.linear(H, {name = "child"})(h) + nn.linear(H, {name = "parent", bias = false})(x)):sigmoid()
    below = v:sum(gate * h)
  else
    below = v:max(h)
  end
  local h1 = (own + nn.linear(H, {name = "below", bias = false})(below)):tanh()
  v:publish {h = h1}
  local z = nn.linear(data.classes, {name = "out"})(h1)
  p:output("logits", z)
  p:loss(nn.xent(z, v:index "label"))
end)

local job <const> = nn.job {
  name = "lattice", program = program, data = data, batch = opt.batch, epochs = opt.epochs, seed = opt.seed,
  optimizer = nn.adagrad {lr = opt.lr}, tables = {E = {"adagrad", lr = opt.lr}},
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
    local e = {epoch = r.n, loss = r.loss / r.examples, accuracy = r.correct / r.examples, seconds = r.elapsed_s,
               test_accuracy = test.correct}
    epochs[#epochs + 1] = e
    say("epoch %2d  loss %.4f  accuracy %.4f  test accuracy %.4f  %7.2f s", e.epoch, e.loss, e.accuracy,
      e.test_accuracy, e.seconds)
  end
  local summary = run:wait()
  if opt.json or tide.output.json then
    local result = summary:to_data()
    result.schema, result.data, result.epochs, result.program = "tide.vertex/1", data.note, epochs, program:id()
    print(tide.json.encode(result))
    return
  end
  print(summary:table {"reports", "epoch_s", "accesses_local", "accesses_remote", "wire_bytes"})
end)
