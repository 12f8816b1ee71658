#!/bin/bash
# Experiment scripts run unchanged on simulated nodes; what they may not do is refused with the line and the remedy;
# faults that a script asks for happen, and end the run as they end a real one.
. "$(dirname "$0")/harness.sh"
mkdir data && make_triples 1 data

kge() { run 0 sim --seed 3 "$root/examples/kge.lua" --data data --dim 8 --epochs 2 --nodes 3 "$@"; }
kge
says out.txt 'epoch  2  loss [0-9.]+'
says out.txt 'MRR 0\.[0-9]+'
says err.txt '^sim: seed 3, virtual 0\.[0-9]+ s, [0-9]+ events, 0 faults, hash [0-9a-f]{16}$'
cp out.txt first.txt
first=$(hash_of err.txt)
kge
same "$first" "$(hash_of err.txt)" "the example"
cmp -s out.txt first.txt || fail "the example's summary differs between two runs of a seed"
[ ! -e .tide ] || fail "a simulated run has left something on this disk"

# The simulated run and a real one train the same: one worker a node, batches in the same order.
kge --dim 8 --nodes 1 --json
simulated=$(sed -n 's/.*"loss": *\([-0-9.e]*\).*/\1/p' out.txt | head -1)
run 0 run "$root/examples/kge.lua" --data data --dim 8 --epochs 2 --nodes 1 --json
real=$(sed -n 's/.*"loss": *\([-0-9.e]*\).*/\1/p' out.txt | head -1)
[ -n "$real" ] && [ "$real" = "$simulated" ] || fail "one node: the loss is $real in real, $simulated simulated"

cat >work.lua <<'EOF'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {what = {"what happens", default = "nothing"}}
local happens = {
  crash = function() sim.fault("crash", {node = "n2", at = "0.1s"}) end,
  pause = function() sim.fault("pause", {node = "n3", at = "0.1s", time = "200ms"}) end,
  short = function() sim.fault("partition", {{"n1"}, {"n2", "n3"}}, {at = "0.1s", heal = "+0.3s", oneway = true}) end,
  long = function() sim.fault("partition", {{"n1"}, {"n2", "n3"}}, {at = "0.1s", heal = "+9s"}) end,
  reset = function() sim.fault("reset", {{"n1"}, {"n2", "n3"}}, {at = "0.1s"}) end,
  slow = function()
    sim.net {latency = "50us", nic = "1Gbit"}
    sim.node("n2", {speed = 0.5, nic = "1Mbit", slow = {p = 0.2, factor = 5, mean = "100ms"}})
    sim.fault("delay", {latency = "5ms", at = "0.1s", heal = "+0.1s"})
    sim.fault("slow", {node = "n1", factor = 20, at = "0.1s", heal = "+0.1s"})
    sim.fault("nic", {node = "n3", bandwidth = "1Mbit", at = "0.1s", heal = "+0.1s"})
  end,
  disk = function() sim.fault("disk", {write_error = 1}) end,
  full = function() sim.fault("disk", {free = "512"}) end,
  spoil = function() sim.fault("disk", {node = "n1", crash = 2}) end,
  missed = function() sim.fault("pause", {node = "n9", at = "0.1s"}) end,
  bad = function() sim.fault("crash", {node = "n2", at = "soon"}) end,
  unknown = function() sim.fault("flood", {node = "n2"}) end,
  driver = function() sim.fault("crash", {node = "driver"}) end,
  time = function() return os.time() end,
  clock = function() return os.clock() end,
  shell = function() os.execute("true") end,
  file = function() return io.open("x") end,
  check = function() sim.check("linearizable") end,
  clocks = function()
    sim.node("n1", {ahead = "100h", drift = 1e-3})
    sim.node("n3", {ahead = "3s", drift = -1e-3})
  end,
  drifts = function() sim.node("n1", {drift = 0.5}) end,
  holds = function() sim.check("time goes on", function() return tide.now() >= 0 end, {every = "1ms"}) end,
  breaks = function()
    sim.fault("pause", {node = "n3", at = "0.1s", time = "200ms"})
    sim.check("early", function() return tide.now() < 0.3, "it is late" end, {every = "7ms"})
  end,
  raises = function() sim.check("broken", function() return nil + 1 end) end,
  sums = function()
    local sums = sim.check("sums", function() return tide.now() < 0.2, "none" end, {every = "1h"})
    tide.sleep "300ms"
    sums()
  end,
}
local job = tide.job {
  name = "work", stop = {epochs = 20},
  tables = {t = tide.table {keys = tide.dense(60), width = 4, init = tide.zero(), update = {"add"}}},
  worker = function(w)
    local keys, ones = tide.range(0, 59), tide.tensor.zeros("f32", 60, 4)
    ones:fill(1)
    if opt.what == "worker" then io.open("x") end
    for _ = 1, 20 do
      local ok, err = w.tables.t:push(keys, ones)
      if not ok then error(err, 0) end
      tide.sleep "20ms"
      w:report {examples = 60}
    end
  end,
}
tide.main(function()
  if happens[opt.what] then happens[opt.what]() end
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  run:wait()
  print("sum", run.tables.t:pull(tide.range(0, 59)):sum())
  if opt.what == "disk" or opt.what == "full" then run:dump("/tmp/out", {"t"}) end
end)
EOF
# work EXIT WHAT: twice, with the same hash
work() {
    run "$1" sim --seed 5 work.lua --what "$2"
    local hash
    hash=$(hash_of err.txt)
    run "$1" sim --seed 5 work.lua --what "$2"
    same "$hash" "$(hash_of err.txt)" "work.lua --what $2"
}
virtual_ms() { sed -n 's/^sim: seed .*virtual \([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p' err.txt | sed 's/^0*//'; }

work 0 nothing
says out.txt 'sum.*14400'
plain=$(virtual_ms)
work 0 clocks # nothing goes by the clock of another node
says out.txt 'sum.*14400'
[ $(($(virtual_ms) - plain)) -lt 100 ] || fail "clocks that differ: $(virtual_ms) ms, without $plain"
for what in pause short slow; do
    work 0 $what
    says out.txt 'sum.*14400' # nothing is lost, nothing is doubled
    [ "$(virtual_ms)" -gt "$plain" ] || fail "$what takes no time: $(virtual_ms) ms, without it $plain"
done
run 1 sim --seed 5 work.lua --what disk
says err.txt "table 'work-1.t' cannot be written to '/tmp/out': EIO"
run 1 sim --seed 5 work.lua --what full
says err.txt "no space left for '/tmp/out'"
work 5 crash
says err.txt 'error\[T0509\].*node n2 is lost'
says err.txt '^sim: fault crash n2 at 0.1s$'
says err.txt '^sim: again: tide sim --seed 5 work.lua -- --what crash$'
work 5 long
says err.txt 'error\[T0509\].*node n1 is lost: no heartbeat'
run 0 sim --seed 5 work.lua --what missed
says err.txt 'the fault pause of n9 hits nobody'
run 1 sim --seeds 1..2 work.lua --what crash
says err.txt 'again: tide sim --seed 2 work.lua -- --what crash'
says err.txt '2 seeds, 2 failed'

refused() { # EXIT WHAT PATTERN
    run "$1" sim --seed 5 work.lua --what "$2"
    says err.txt "$3"
    says err.txt 'work\.lua:[0-9]+'
}
refused 1 time 'T0217.*`os.time` is not allowed under tide sim: use tide.now'
refused 1 clock '`os.clock` is not allowed'
refused 1 shell '`os.execute` is not allowed'
refused 1 file '`io.open` is not allowed under tide sim: use a data source'
refused 1 worker 'on n[123].*`io.open` is not allowed'
refused 2 bad 'at: `soon` is no time'
refused 2 unknown 'fault `flood` is not known: crash, delay, disk, flip'
refused 2 spoil 'disk: crash is a probability'
refused 2 driver 'the driver cannot crash'
refused 2 drifts 'drift: `0.5` is no number between'
refused 2 check 'sim.check requires a name and a function'
refused 1 raises 'check `broken` failed at 0\.1.*arithmetic on a nil value'

# A check that fails ends the run: with the faults that were asked for, and the command that repeats it.
work 0 holds
says out.txt 'sum.*14400'
for what in breaks sums; do
    work 1 $what
    says err.txt 'error\[T0220\].*check `(early|sums)` failed at 0\.3.*: (it is late|none)'
    says err.txt "^sim: again: tide sim --seed 5 work.lua -- --what $what$"
done
run 1 sim --seeds 5..6 work.lua --what breaks
says err.txt 'fault pause n3 at 0.1s'
says err.txt '2 seeds, 2 failed'
run 2 sim --seed x work.lua
run 2 sim --seeds 5..1 work.lua
run 2 sim work.lua --seed
run 2 sim --nic broad work.lua

# The summary of many nodes, each linked to all, fits into a message.
cat >many.lua <<'EOF'
local tide = require "tide"
local job = tide.job {name = "many", worker = function(w) w:report {examples = 1} end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 55}
  print("examples", cluster:start(job):wait().examples)
end)
EOF
run 0 sim --seed 1 many.lua
says out.txt 'examples.*55'

# A node that crashed comes back under its name; what a script draws from sim.rng is the seed's.
cat >back.lua <<'EOF'
local tide = require "tide"
local sim = require "tide.sim"
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  sim.fault("crash", {node = "n2", at = "0.2s", restart = "+0.5s"})
  sim.fault("crash", {node = "n3", at = "0.2s", restart = "+1ms"})
  print("drawn", sim.seed, sim.rng:below(1000000))
  tide.sleep "2s"
  local up = {}
  for _, member in ipairs(cluster.nodes()) do
    if member.state == "up" then up[#up + 1] = member.name end
  end
  table.sort(up)
  print("up", table.concat(up, " "))
end)
EOF
run 0 sim --seed 5 back.lua
says out.txt 'up.driver n1 n2 n3'
drawn=$(grep drawn out.txt)
run 0 sim --seed 5 back.lua
[ "$drawn" = "$(grep drawn out.txt)" ] || fail "sim.rng draws something else in a second run"
run 0 sim --seed 6 back.lua
[ "$drawn" != "$(grep drawn out.txt)" ] || fail "sim.rng draws the same from another seed"

run 0 run work.lua
says out.txt 'sum.*14400'
run 1 run work.lua --what crash
says err.txt 'error\[T0218\]: only under tide sim'
says err.txt 'work\.lua:5'
finish
