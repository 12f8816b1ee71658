-- Sentiment of every phrase of a sentence, by a network that has the shape of its tree (Tai, Socher, Manning 2015).
--   tide run treelstm.lua                       generated trees, two node processes
--   tide run treelstm.lua --data sst/           the Stanford Sentiment Treebank: train.txt, dev.txt, test.txt
--   tide run treelstm.lua --model binary        a forget gate for each of two children; --model fc: no gates at all
--   tide run treelstm.lua --model kinds         leaves and inner vertices have functions of their own
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  data    = {"directory with train.txt (dev.txt, test.txt) of bracketed trees; without it: generated", type = "string"},
  vectors = {"file of word vectors to begin with, \"word v1 v2 ..\" a line, with --data", type = "string"},
  model   = {"what a vertex computes", default = "childsum", choices = {"childsum", "binary", "fc", "kinds"}},
  width   = {"of a vertex's state", default = 64},
  count   = {"number of generated trees", default = 2000},
  rule    = {"update rule", default = "adagrad", choices = {"adagrad", "sgd"}},
  lr      = {"rate", default = 0.05},
  table_lr = {"rate of the words' rows", default = 0.1},
  decay   = {"weight decay of matrices", default = 0.0},
  epochs  = {"passes over the trees", default = 2},
  batch   = {"trees of a step, of all workers together", default = 16},
  nodes   = {"node processes on this machine", default = 2},
  workers = {"workers of each node", default = 1},
  seed    = {"of initial values, trees and orders", default = 1},
  json    = {"one JSON object instead of text", default = false},
}

local H <const>, VOCABULARY <const> = opt.width, 1000
if opt.vectors and not opt.data then error("--vectors are of the words of --data", 0) end
local data <const> = opt.data and tide.data.forest(opt.data, {format = "sexpr", vectors = opt.vectors})
  or tide.data.forest {generate = "random_trees", samples = opt.count, test = opt.count // 8, vocabulary = VOCABULARY,
                       max = 19, seed = opt.seed}

local vertices = {}

---Any number of children: their states are added up, each is forgotten by a gate of its own.
function vertices.childsum(x, v)
  local h, c = v:state("h", H), v:state("c", H)
  local z = nn.linear(3 * H, {name = "w"})(x) + nn.linear(3 * H, {name = "u", bias = false})(v:sum(h))
  local i, o, u = nn.split(z, 3)
  local f = nn.linear(H, {name = "uf"})(h):sigmoid() -- once a child
  local c1 = i:sigmoid() * u:tanh() + v:sum(f * c)
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  return h1
end

---A left and a right child, with weights of their own.
function vertices.binary(x, v)
  local h, c = v:state("h", H), v:state("c", H)
  local both = v:child(1, h):concat(v:child(2, h))
  local z = nn.linear(5 * H, {name = "w"})(x) + nn.linear(5 * H, {name = "u", bias = false})(both)
  local i, o, u, f1, f2 = nn.split(z, 5)
  local c1 = i:sigmoid() * u:tanh() + f1:sigmoid() * v:child(1, c) + f2:sigmoid() * v:child(2, c)
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  return h1
end

---One layer over both children.
function vertices.fc(x, v)
  local h = v:state("h", H)
  local h1 = x + nn.relu(nn.linear(H, {name = "fc"})(v:child(1, h):concat(v:child(2, h))))
  v:publish {h = h1}
  return h1
end

local out <const> = nn.linear(data.classes, {name = "out"})

local function classify(p, v, h)
  local z <const> = out(h)
  p:output("logits", z)
  p:loss(nn.xent(z, v:index "label"))
end

-- As wide as the vectors that rows begin with.
local function words(p, v)
  local from <const> = data.vectors
  return v:embed(p:table("E", data.vocabulary, from and from.columns or H, from), v:index "word")
end

---Two kinds of vertices: a leaf turns its word into a state, an inner one puts its children's together.
local kinds = {}

function kinds.leaf(p, v)
  local i, o, u = nn.split(nn.linear(3 * H, {name = "leaf"})(words(p, v)), 3)
  local c1 = i:sigmoid() * u:tanh()
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  classify(p, v, h1)
end

function kinds.inner(p, v)
  local h, c = v:state("h", H), v:state("c", H)
  local i, o, u, f1, f2 = nn.split(nn.linear(5 * H, {name = "inner"})(v:child(1, h):concat(v:child(2, h))), 5)
  local c1 = i:sigmoid() * u:tanh() + f1:sigmoid() * v:child(1, c) + f2:sigmoid() * v:child(2, c)
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  classify(p, v, h1)
end

local program <const> = opt.model == "kinds" and nn.vertices("kinds", kinds) or nn.vertex(opt.model, function(p, v)
  classify(p, v, vertices[opt.model](words(p, v), v))
end)

local job <const> = nn.job {
  name = "treelstm", program = program, data = data, batch = opt.batch, epochs = opt.epochs, seed = opt.seed,
  per = "sample", optimizer = nn[opt.rule] {lr = opt.lr, decay = opt.decay},
  tables = {E = {opt.rule, lr = opt.table_lr}},
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
    local all, roots = run:evaluate "test", run:evaluate "test_roots"
    local e = {epoch = r.n, loss = r.loss / r.examples, accuracy = r.correct / r.examples, seconds = r.elapsed_s,
               test_accuracy = all.correct, root_accuracy = roots.correct}
    epochs[#epochs + 1] = e
    say("epoch %2d  loss %.4f  accuracy %.4f  test: all vertices %.4f, roots %.4f  %7.2f s", e.epoch, e.loss,
      e.accuracy, e.test_accuracy, e.root_accuracy, e.seconds)
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
