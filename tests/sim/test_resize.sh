#!/bin/bash
# Nets whose workers come and go between two steps, at moments that the seed draws: every report has every example once,
# with batches that stay and with batches that change; passes of a step add up to what one would give.
. "$(dirname "$0")/harness.sh"

cat >resize.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local core = require "tide.core"
local opt = tide.options {changes = {"the batch changes", default = false}}
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8), nn.batchnorm(), nn.relu(),
  nn.linear(10)}
local job = nn.job {name = "resize", program = net, data = tide.data.images(nil, {count = 120, test = 1 / 6, seed = 2}),
  batch = opt.changes and {start = 10, max = 80, lo = 1, hi = 8} or 10, epochs = 5, optimizer = nn.momentum {lr = 0.05}}
sim.compute {flops = 2e7}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <const> = cluster:start(job)
  core.fiber(function()
    for _ = 1, 6 do
      core.sleep(0.02 + 0.1 * sim.rng:uniform())
      run:set_workers(1 + sim.rng:below(3))
    end
  end)
  local first, last
  for r in run:events "report" do
    assert(r.examples == 100, ("report %d has %d examples"):format(r.n, r.examples))
    assert((r.resyncs or 0) == 0, "the replicas differ")
    first, last = first or r.loss, r.loss
    if opt.changes then assert(r.batch >= 10 and r.batch <= 80) end
  end
  run:wait()
  assert(last < first, "it does not learn")
end)
LUA
run 0 sim --seed 1 resize.lua
run 0 sim --seeds 1..12 --jobs 2 resize.lua
says err.txt '12 seeds, 0 failed'
run 0 sim --seeds 1..12 --jobs 2 resize.lua --changes
says err.txt '12 seeds, 0 failed'

cat >passes.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {hi = {"examples of a pass", default = 64}, fixed = {"a number as batch", default = false}}
local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8), nn.relu(), nn.linear(10)}
local job = nn.job {name = "passes", program = net, data = tide.data.images(nil, {count = 120, test = 1 / 6, seed = 2}),
  batch = opt.fixed and 20 or {start = 20, max = 20, hi = opt.hi, rule = "none"}, epochs = 3,
  optimizer = nn.momentum {lr = 0.05}, comm = "comm/always-ps"}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <const> = cluster:start(job)
  for r in run:events "report" do print(("%.5f"):format(r.loss)) end
  run:wait()
end)
LUA
run 0 sim --seed 1 passes.lua --fixed && grep -E '^[0-9.]+$' out.txt >fixed.txt
for hi in 64 5 3; do
    run 0 sim --seed 1 passes.lua --hi $hi && grep -E '^[0-9.]+$' out.txt >changes.txt
    near fixed.txt changes.txt 1e-6 "passes of $hi examples give other losses" # 100 losses of f32 in another order
done

cat >wrong.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local opt = tide.options {which = {"mistake", default = 1}}
local wrong = {{max = 8}, {start = 9, max = 8}, {start = 8, lo = 9, hi = 8}, {start = 8, rule = "big"}, {start = 8, most = 9},
  {start = 8, rule = "legw"}, {start = 1.5}, 0}
nn.job {name = "wrong", program = nn.sequential {input = {4}, loss = nn.xent(), nn.linear(2)}, data = {}, epochs = 1,
  optimizer = nn.sgd {lr = 1}, batch = wrong[opt.which]}
tide.main(function() end)
LUA
wants=("" "is missing" "above .max" "above .hi" "there are adascale" "most" "warmup" "whole number" "whole number")
for i in 1 2 3 4 5 6 7 8; do
    run 1 run wrong.lua --which $i
    says err.txt "${wants[$i]}"
done
finish
