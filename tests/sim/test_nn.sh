#!/bin/bash
# Nets among simulated nodes, one of which crashes at a moment that the seed draws: every report has all examples, whoever
# dies before its own, the replicas stay equal, and the table has each epoch's running statistics.
. "$(dirname "$0")/harness.sh"

cat >crash.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local core = require "tide.core"
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(12), nn.batchnorm(), nn.relu(),
  nn.linear(10)}
local NODES <const>, EPOCHS <const> = 3, 5
local job = nn.job {name = "crash", program = net, data = tide.data.images(nil, {count = 120, test = 1 / 6, seed = 2}),
  batch = 50, epochs = EPOCHS, optimizer = nn.sgd {lr = 0.1}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = NODES, servers = 2}
  local run <const> = cluster:start(job)
  local last, before, statistics
  for r in run:events "report" do
    assert(r.examples == 100, ("report %d has %d examples"):format(r.n, r.examples))
    assert((r.resyncs or 0) == 0, "the replicas differ")
    assert(r.loss < (before or math.huge), "it does not learn")
    local digest <const> = core.digest(run.tables.states:pull {0})
    assert(digest ~= statistics, "running statistics were not written")
    last, before, statistics = r, r.loss, digest
    if r.n == 2 then -- some time in the next epoch, or between it and its report
      local at <const> = core.now() + 1.2 * sim.rng:uniform() * r.elapsed_s / 2
      sim.fault("crash", {node = "n" .. sim.rng:below(NODES) + 1, at = ("%dus"):format(at * 1e6 // 1)})
    end
  end
  print(("lost %d, reports %d, of %d"):format(run:wait().workers_lost, last.n, #last.workers))
end)
LUA
run 0 sim --seeds 1..40 --jobs 2 crash.lua
says err.txt '40 seeds, 0 failed'
run 0 sim --seed 3 crash.lua
says out.txt '^lost 1, reports 5, of 2$'

# A matrix that is applied to every position of a sequence has factors of as many rows: the default sends no more bytes
# than dense values, and factors where a small batch makes them the cheaper way.
cat >sequence.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {comm = {"policy", default = "comm/hybrid"}, positions = {"of a sequence", default = 32},
  batch = {"examples", default = 64}}
local T <const>, D <const> = opt.positions, 64
local net = nn.program("sequence", function(p)
  local h = nn.relu(nn.linear(256)(p:input("x", T, D)))
  p:loss(nn.mse(nn.linear(D)(h):reshape(T * D), p:input("y", T * D)))
end)
local function noise(seed) return tide.tensor.zeros("f32", 320, T * D):normal(seed) end
local job = nn.job {name = "sequence", program = net, batch = opt.batch, epochs = 1, optimizer = nn.adam {lr = 1e-3},
  comm = opt.comm, data = tide.data.lazy(function()
    return {parts = {["train.x"] = noise(1), ["train.y"] = noise(2)}, count = 320}
  end)}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  print(("BYTES %d"):format(cluster:start(job):wait().comm_bytes_step // 1))
end)
LUA
bytes() { run 0 sim --seed 1 sequence.lua "$@"; sed -n 's/^BYTES //p' out.txt; }
dense=$(bytes --comm comm/always-ps)
[ "$(bytes)" -le "$((dense * 11 / 10))" ] || fail "hybrid sends $(bytes) bytes a step, dense values are $dense"
factors=$(bytes --positions 1 --batch 8)
[ "$factors" -lt "$((dense / 4))" ] || fail "factors of 4 rows take $factors bytes, dense values $dense"
finish
