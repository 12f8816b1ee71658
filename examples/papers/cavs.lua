-- Cavs: what batching vertices brings on trees and sequences, one thread.
--   tide run examples/papers/cavs.lua
-- Constants, set on 2026-11-29 before the first run: Tree-FC on complete trees of 256 leaves; Tree-LSTM, two children,
-- on random trees of 37 vertices in the mean, as the treebank's; an LSTM over sequences of the generator's lengths.
-- H = 256, 1,000 words, batches 1, 16, 64. Seconds are the process's: a busy machine counts less.
local tide, nn = require "tide", require "tide.nn"
local paper = require "paper"

local p = paper.open {
  name = "cavs", title = "Cavs",
  source = "Xu et al., Cavs: An Efficient Runtime System for Dynamic Neural Networks, USENIX ATC 2018",
  where = "Real: one thread, steps of training by processor time",
}
local H <const>, WORDS <const>, BATCHES <const> = p.opt.small and 32 or 256, 1000, p.opt.small and {1, 4} or {1, 16, 64}
local SAMPLES <const> = BATCHES[#BATCHES]

---Program of a net: `step(x, v)` gives a vertex's state.
local function program(name, columns, states, step)
  return nn.vertex(name, function(q, v)
    local z <const> = nn.linear(columns, {name = "out"})(step(v:embed(q:table("E", WORDS, H), v:index "word"), v,
      v:state("h", H), states > 1 and v:state("c", H)))
    q:output("logits", z)
    q:loss(nn.xent(z, v:index "label"))
  end)
end

local function lstm(children)
  return function(x, v, h, c)
    local known = v:child(1, h)
    if children == 2 then known = known:concat(v:child(2, h)) end
    local z <const> = nn.linear((3 + children) * H, {name = "w"})(x)
      + nn.linear((3 + children) * H, {name = "u", bias = false})(known)
    local i <const>, o <const>, u <const>, left <const>, right <const> = nn.split(z, 3 + children)
    local c1 = i:sigmoid() * u:tanh() + left:sigmoid() * v:child(1, c)
    if right then c1 = c1 + right:sigmoid() * v:child(2, c) end
    local h1 <const> = o:sigmoid() * c1:tanh()
    v:publish {h = h1, c = c1}
    return h1
  end
end

local function fc(x, v, h)
  local h1 <const> = x + nn.relu(nn.linear(H, {name = "fc"})(v:child(1, h):concat(v:child(2, h))))
  v:publish {h = h1}
  return h1
end

local NETS <const> = {
  {name = "Tree-FC, 256 leaves", program = program("fc", 5, 1, fc),
   law = {generate = "balanced_trees", leaves = p.opt.small and 16 or 256}},
  {name = "Tree-LSTM", program = program("tree", 5, 2, lstm(2)), law = {generate = "random_trees", max = 19}},
  {name = "Var-LSTM", program = program("chain", WORDS, 2, lstm(1)), law = {generate = "chains"}},
}

---Samples a second of processor time over all samples in steps of `batch`: median of three measurements of at least
---0.3 s, after a first pass.
local function rate(net, batch, serial)
  local whole <const>, parts = net.data:whole "train", {}
  for from = 1, SAMPLES, batch do parts[#parts + 1] = whole:slice(from, batch) end
  local model <const> = net.program:compile {optimizer = nn.sgd {lr = 1e-3}, tables = {E = {"sgd", lr = 1e-3}}}
  model.serial = serial
  local rates <const>, levels = {}, 0
  for _, part in ipairs(parts) do levels = levels + model:step(part).levels end
  for i = 1, p.opt.small and 1 or 3 do
    local began <const>, passes = os.clock(), 0
    repeat
      for _, part in ipairs(parts) do model:step(part) end
      passes = passes + 1
    until os.clock() - began >= (p.opt.small and 0.01 or 0.3)
    rates[i] = passes * SAMPLES / (os.clock() - began)
  end
  table.sort(rates)
  return {y = rates[(#rates + 1) // 2], low = rates[1], high = rates[#rates]}, levels
end

tide.main(function()
  local series <const> = {}
  for i, net in ipairs(NETS) do
    net.law.samples, net.law.test, net.law.vocabulary, net.law.seed = SAMPLES, 1, WORDS, 1
    net.data = tide.data.forest(net.law)
    series[i] = {name = net.name, points = {}}
    for k, batch in ipairs(BATCHES) do
      local serial <const>, vertices <const> = rate(net, batch, true)
      local ours <const>, levels <const> = rate(net, batch, false)
      local gain <const> = {y = ours.y / serial.y, low = ours.low / serial.high, high = ours.high / serial.low}
      series[i].points[k] = p:point(batch, gain)
      p:row {what = ("%s, batch %d: samples/s"):format(net.name, batch), ours = ours}
      p:row {what = ("%s, batch %d: over one vertex at a time"):format(net.name, batch), ours = gain,
             least = batch > 1 and 1 or nil}
      p:check(batch == 1 or levels < vertices, "vertices of one level are computed together")
    end
  end
  p:chart {title = "Batching, H = " .. H, x = "samples of a step", y = "times as fast as one vertex at a time",
           log_x = true, log_y = true, series = series, note = "band: least to most of three"}
  p:differs "one thread of a processor in place of a GPU, whose calls of one vertex leave it idle"
  p:lacks "near 10 times over Fold, PyTorch and DyNet (abstract): on a GPU, and no value of a figure was found"
  p:lacks "the ablation of memory: rows of a level always lie side by side, and no switch puts them elsewhere"
  p:close()
end)
