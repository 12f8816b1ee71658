-- A language model over sentences of any length: an LSTM whose chain is as long as the sentence, without padding.
--   tide run lm.lua                             generated sentences, two node processes
--   tide run lm.lua --data text/                train.txt, test.txt: "<sentences> <vocabulary>", lines "n id1 .. idn"
-- The loss is in nats a word.
local tide, nn = require "tide", require "tide.nn"

local opt = tide.options {
  data     = {"directory with train.txt and test.txt of numbered words; without it: generated", type = "string"},
  width    = {"of the state", default = 64},
  count    = {"number of generated sentences", default = 2000},
  words    = {"their vocabulary", default = 200},
  lr       = {"rate, of adagrad", default = 0.1},
  epochs   = {"passes over the sentences", default = 2},
  batch    = {"sentences of a step, of all workers together", default = 32},
  nodes    = {"node processes on this machine", default = 2},
  workers  = {"workers of each node", default = 1},
  seed     = {"of initial values, sentences and orders", default = 1},
  json     = {"one JSON object instead of text", default = false},
}

local H <const> = opt.width
local data <const> = opt.data and tide.data.forest(opt.data, {format = "sentences"})
  or tide.data.forest {generate = "chains", samples = opt.count, test = opt.count // 8, vocabulary = opt.words,
                       seed = opt.seed}

local program <const> = nn.vertex("lm", function(p, v)
  local x = v:embed(p:table("E", data.vocabulary, H), v:index "word") -- the word before
  local h, c = v:child(1, v:state("h", H)), v:child(1, v:state("c", H))
  local z = nn.linear(4 * H, {name = "w"})(x) + nn.linear(4 * H, {name = "u", bias = false})(h)
  local i, f, o, u = nn.split(z, 4)
  local c1 = (f + 1):sigmoid() * c + i:sigmoid() * u:tanh() -- it remembers from the start
  local h1 = o:sigmoid() * c1:tanh()
  v:publish {h = h1, c = c1}
  local logits = nn.linear(data.vocabulary, {name = "softmax"})(h1)
  p:output("logits", logits)
  p:loss(nn.xent(logits, v:index "label")) -- this word
end, {children = 1})

local job <const> = nn.job {
  name = "lm", program = program, data = data, batch = opt.batch, epochs = opt.epochs, seed = opt.seed,
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
    local e = {epoch = r.n, loss = r.loss / r.examples, seconds = r.elapsed_s, test_loss = test.loss}
    epochs[#epochs + 1] = e
    say("epoch %2d  %.4f nats a word  test %.4f (perplexity %.1f)  %7.2f s", e.epoch, e.loss, e.test_loss,
      math.exp(e.test_loss), e.seconds)
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
