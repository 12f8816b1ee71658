#!/bin/bash
# Nets and models of factors that are suspended wholly and continue: with one worker every loss is that of a run which
# nobody disturbs, but for the order in which it is added up; with several they go on, also on another number, with nodes
# that die while the run is suspended, leaves or wakes; what is asked of a run without workers is answered later.
. "$(dirname "$0")/harness.sh"

cat >suspend.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local opt = tide.options {kind = {"of model", default = "net", choices = {"net", "adapts", "adam", "rounds", "lion", "mlr", "sdca"}},
  nodes = {"workers", default = 1}, pauses = {"how often", default = 0}}
local job
if opt.kind == "mlr" or opt.kind == "sdca" then
  local data = tide.data.libsvm({generate = {train = 128, columns = 100, nonzeros = 10, classes = 10, seed = 5}},
    {labels = "class"})
  local model = opt.kind == "sdca" and tide.factors.sdca {l2 = 1e-2}
    or tide.factors.mlr {lr = function(step) return 4 / (1 + step / 10) end}
  job = tide.factors.job {name = "rests", model = model, data = data, batch = 32, epochs = 6, comm = "comm/always-sfb"}
else
  local program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8), nn.batchnorm(),
    nn.relu(), nn.linear(10)}
  job = nn.job {name = "rests", program = program, comm = "comm/always-ps", epochs = 6,
    data = tide.data.images(nil, {count = 72, test = 1 / 6, seed = 2}),
    batch = opt.kind == "adapts" and {start = 10, max = 40, hi = 10} or 10,
    average = opt.kind == "lion" and 0.9 or nil,
    exchange = opt.kind == "rounds" and {every = 2, outer = nn.nesterov {lr = 0.7, mu = 0.5}} or nil,
    optimizer = opt.kind == "lion" and nn.lion {lr = 0.002}
      or (opt.kind == "adam" or opt.kind == "rounds") and nn.adam {lr = function(step) return 0.01 / step end} or nn.momentum {lr = 0.05}}
end
tide.main(function()
  sim.compute {flops = 1e6, memory = 1e8}
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = 1, servers = 1}
  local run, over = cluster:start(job), false
  tide.all {function()
    for r in run:events "report" do print(("report %d loss %.13g"):format(r.n, r.loss)) end
    over = true
  end, function()
    for i = 1, opt.pauses do
      tide.sleep(require("tide.extensions").meets_midway(job) and 0.9 + 0.3 * i or 0.15 + 0.05 * i) -- in the middle of an epoch; in another one each
      if over then return end
      local ok, err = run:pause {release = true}
      if not ok and err.code == "T0513" then return end -- it was over meanwhile
      assert(ok, err)
      assert(run:state() == "suspended")
      tide.sleep(0.1)
      assert(run:resume {timeout = "60s"})
    end
  end}
  run:wait()
end)
LUA
for kind in net adapts adam rounds lion mlr sdca; do
    run 0 sim --seed 1 suspend.lua --kind $kind && grep '^report' out.txt >undisturbed.txt
    run 0 sim --seed 1 suspend.lua --kind $kind --pauses 4 && grep '^report' out.txt >paused.txt
    [ "$(wc -l <paused.txt)" = 6 ] || fail "$kind: $(wc -l <paused.txt) reports"
    [ "$(grep -c 'joins on' err.txt)" -ge 2 ] || fail "$kind: it was hardly suspended"
    cmp undisturbed.txt paused.txt || fail "$kind: a run that was suspended has other losses"
done
run 0 sim --seed 1 suspend.lua --kind sdca --nodes 3 --pauses 4
run 0 sim --seed 1 suspend.lua --nodes 3 --pauses 4
run 0 sim --seed 1 suspend.lua --kind rounds --nodes 3 --pauses 4

# On a shared cluster: the seed draws when it is suspended, on how many slots it continues, and which node dies when.
cat >moves.lua <<'LUA'
local tide, nn, sim = require "tide", require "tide.nn", require "tide.sim"
local program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(8), nn.relu(),
  nn.linear(10)}
local job = nn.job {name = "moves", program = program, epochs = 8, batch = 10, optimizer = nn.momentum {lr = 0.05},
  data = tide.data.images(nil, {count = 72, test = 1 / 6, seed = 2})}
tide.main(function()
  sim.compute {flops = 1e6}
  local cluster <close> = tide.cluster {nodes = 4, workers = 1, servers = 1}
  local others, evaluated, over = 0, 0, false
  local dies = ("%dms"):format(sim.rng:below(3000))
  sim.fault("crash", {node = "n" .. sim.rng:below(4) + 1, at = dies})
  local run = cluster:start(job, {}, {slots = 1 + sim.rng:below(3)})
  tide.all {function()
    for r in run:events "report" do
      if r.examples ~= 60 then error(("report %d has %d examples"):format(r.n, r.examples)) end
    end
    over = true
  end, function()
    while not over do
      tide.sleep(0.3 * sim.rng:uniform())
      if over then break end
      if run:pause {release = true} then
        others = others + 1
        tide.sleep(0.2 * sim.rng:uniform())
        local ok, err = run:resume {timeout = "60s"}
        if not ok and not over and err.code ~= "T0509" then error(err) end -- lost while it started: again
        while not ok and not over and run:state() == "suspended" do ok = run:resume {timeout = "60s"} end
        if not over then run:set_workers(1 + sim.rng:below(3)) end
      end
    end
  end, function()
    while not over do
      tide.sleep(0.25)
      if not over then
        local r = run:evaluate "test"
        if r.count ~= 12 then error(("%d of 12 examples are evaluated"):format(r.count)) end
        evaluated = evaluated + 1
      end
    end
  end}
  run:wait()
  print(("suspended %d times, evaluated %d times"):format(others, evaluated))
end)
LUA
run 0 sim --seeds 2..3 --jobs 2 moves.lua
says err.txt '2 seeds, 0 failed'
run 0 sim --seed 1 moves.lua
says out.txt 'suspended [1-9][0-9]* times, evaluated [1-9]'
finish
