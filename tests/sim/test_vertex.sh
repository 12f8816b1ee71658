#!/bin/bash
# Programs of vertices among simulated nodes, one of which crashes at a moment that the seed draws: every sample is trained
# on once an epoch, whoever dies, and the replicas stay equal. Rows of words lie on nodes that have no workers.
. "$(dirname "$0")/harness.sh"

# A batch in pieces does what it does whole.
cat >pieces.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {memory = {"of a batch", default = "1MiB"}}
local H <const> = 8
local data = tide.data.forest {generate = "random_trees", samples = 40, vocabulary = 30, max = 5, seed = 5}
local kinds = {}
local out <const> = nn.linear(5, {name = "out"})
local function finish(p, v, h1)
  v:publish {h = h1}
  p:loss(nn.xent(out(h1), v:index "label"))
end
function kinds.leaf(p, v)
  finish(p, v, nn.linear(H, {name = "leaf"})(v:embed(p:table("E", 30, H), v:index "word")):tanh())
end
function kinds.inner(p, v) finish(p, v, nn.linear(H, {name = "inner"})(v:sum(v:state("h", H))):tanh()) end
local job = nn.job {name = "pieces", program = nn.vertices("tree", kinds), data = data, batch = 20, epochs = 3,
  optimizer = nn.sgd {lr = 0.3}, tables = {E = {"adagrad", lr = 0.1}}, memory = opt.memory}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <const> = cluster:start(job)
  for r in run:events "report" do print(("epoch %d loss %.5f"):format(r.n, r.loss / r.examples)) end
  run:wait()
end)
LUA
run 0 sim --seed 1 pieces.lua
cp out.txt whole.txt
says out.txt '^epoch 3 loss 1[.]'
run 0 sim --seed 1 pieces.lua --memory 16KiB
diff whole.txt out.txt >&2 || fail "a batch in pieces is not what it is whole"

cat >crash.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local core = require "tide.core"
local H <const>, NODES <const>, EPOCHS <const> = 8, 3, 4
local data = tide.data.forest {generate = "random_trees", samples = 60, vocabulary = 40, max = 5, seed = 5}
local program = nn.vertex("tree", function(p, v)
  local h = v:state("h", H)
  local x = v:embed(p:table("E", 40, H), v:index "word")
  local h1 = (nn.linear(H, {name = "own"})(x) + nn.linear(H, {name = "below", bias = false})(v:sum(h))):tanh()
  v:publish {h = h1}
  p:loss(nn.xent(nn.linear(5, {name = "out"})(h1), v:index "label"))
end)
local job = nn.job {name = "crash", program = program, data = data, batch = 15, epochs = EPOCHS,
  optimizer = nn.sgd {lr = 0.2}, tables = {E = {"sgd", lr = 0.2}}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = NODES, servers = 2}
  local run <const> = cluster:start(job)
  local vertices <const> = data:whole("train"):vertices()
  local last, before
  for r in run:events "report" do
    assert(r.examples == vertices, ("report %d has %d of %d vertices"):format(r.n, r.examples, vertices))
    assert((r.resyncs or 0) == 0, "the replicas differ")
    assert(r.loss < (before or math.huge), "it does not learn")
    last, before = r, r.loss
    if r.n == 1 then -- some time in the next epoch, or between it and its report
      local at <const> = core.now() + 1.2 * sim.rng:uniform() * r.elapsed_s
      sim.fault("crash", {node = "n" .. sim.rng:below(NODES) + 1, at = ("%dus"):format(at * 1e6 // 1)})
    end
  end
  print(("lost %d, reports %d, of %d"):format(run:wait().workers_lost, last.n, #last.workers))
end)
LUA
run 0 sim --seeds 1..30 --jobs 2 crash.lua
says err.txt '30 seeds, 0 failed'
run 0 sim --seed 3 crash.lua
cp err.txt first.txt
run 0 sim --seed 3 crash.lua
[ "$(grep -o 'hash [0-9a-f]*' first.txt)" = "$(grep -o 'hash [0-9a-f]*' err.txt)" ] || fail "a seed gives another hash"
finish
