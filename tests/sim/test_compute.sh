#!/bin/bash
# Training of a net in virtual time: operations take what their arithmetic and their bytes take, a slow node takes longer
# and holds up the others, what can hide behind computing hides, and the costs of a machine are measured and used.
. "$(dirname "$0")/harness.sh"

cat >train.lua <<'LUA'
local tide, nn = require "tide", require "tide.nn"
local sim = require "tide.sim"
local opt = tide.options {flops = {"", default = 1e9}, memory = {"", default = 1e18}, nodes = {"", default = 1},
  speed = {"", default = 1.0}, net = {"", default = "mlp"}, comm = {"", default = "comm/hybrid"}, costs = {"", type = "string"}}
local nets = {}
function nets.mlp() return nn.flatten(), nn.linear(64), nn.relu(), nn.linear(10) end
function nets.vgg()
  return nn.conv(16, 3), nn.relu(), nn.maxpool(2), nn.conv(32, 3), nn.relu(), nn.maxpool(2), nn.flatten(),
    nn.linear(256), nn.relu(), nn.linear(256), nn.relu(), nn.linear(10)
end
local job = nn.job {name = "train", batch = 40 * opt.nodes, epochs = 2, optimizer = nn.sgd {lr = 0.05}, comm = opt.comm,
  program = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nets[opt.net]()},
  data = tide.data.images(nil, {count = 200 * opt.nodes, test = 0.2, seed = 3})}
if opt.costs then sim.compute {file = opt.costs} else sim.compute {flops = opt.flops, memory = opt.memory} end
if opt.speed ~= 1 then sim.node("n1", {speed = opt.speed}) end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local last = 0
  for r in run:events "report" do
    print(("epoch %.6f"):format(r.elapsed_s - last))
    last = r.elapsed_s
  end
  local s = run:wait()
  if s.overlap then print(("overlap %.4f"):format(s.overlap)) end
end)
LUA
simulate() { run 0 sim --seed 5 "$@"; }
epoch() { sed -n 's/^epoch //p' out.txt | tail -1; }
# between LOW VALUE HIGH WHAT
between() { awk -v l="$1" -v v="$2" -v h="$3" 'BEGIN {exit !(v >= l && v <= h)}' || fail "$4: $2 is not in $1..$3"; }

# 160 examples of 784-64-10, 6 flops a weight and example but for the first layer's 4; the update is part of the products.
simulate train.lua
expected=$(awk 'BEGIN {print 160 * (4 * 784 * 64 + 6 * 64 * 10) / 1e9}')
between "$expected" "$(epoch)" "$(awk -v e="$expected" 'BEGIN {print 1.1 * e}')" "an epoch by arithmetic"
half=$(epoch)
simulate train.lua --flops 2e9
between "$(awk -v e="$half" 'BEGIN {print 0.49 * e}')" "$(epoch)" "$(awk -v e="$half" 'BEGIN {print 0.52 * e}')" "twice the rate"
simulate train.lua --flops 1e18 --memory 1e9
between 0.004 "$(epoch)" 0.02 "an epoch by bytes"

# All wait for the slowest.
simulate train.lua --nodes 2
even=$(epoch)
simulate train.lua --nodes 2 --speed 0.25
between "$(awk -v e="$even" 'BEGIN {print 3.7 * e}')" "$(epoch)" "$(awk -v e="$even" 'BEGIN {print 4.1 * e}')" "a slow node"
first=$(hash_of err.txt)
simulate train.lua --nodes 2 --speed 0.25
same "$first" "$(hash_of err.txt)" "the same seed"

# Where convolutions are most of the computing and matrices most of the bytes, communication hides.
for comm in always-ps hybrid; do
    simulate --nic 1Gbit train.lua --nodes 4 --net vgg --flops 5e9 --memory 1e10 --comm comm/$comm
    between 0.8 "$(sed -n 's/^overlap //p' out.txt)" 1 "$comm: share that is hidden"
done

# A machine's own costs.
run 0 sim --seed 5 --calibrate costs.json train.lua
says err.txt 'calibrate: programs +[0-9.e+-]+ ps a flop, [0-9.e+-]+ ps a byte \([0-9]+ operations'
says costs.json '"work":\{[^}]*"flop_s":'
simulate train.lua --costs "$PWD/costs.json"
between 1e-6 "$(epoch)" 10 "an epoch by measured costs"
measured=$(epoch)
simulate --costs costs.json train.lua --flops 3e10
[ "$(epoch)" != "$measured" ] || fail "the script's own rates do not come after --costs"
cat >mf.json <<'JSON'
{"schema": "tide.costs/1", "kernels": {"mf_sgd_block": {"call_s": 0, "row_s": 0}}}
JSON
seconds_of() { grep -o '"train_s":[0-9.e-]*' out.txt | tail -1 | cut -d: -f2; }
small="$root/examples/mf.lua --nodes 2 --epochs 1 --rank 2"
run 0 sim --seed 5 --json $small
slow=$(seconds_of)
run 0 sim --seed 5 --json --costs mf.json $small
between 0 "$(seconds_of)" "$(awk -v s="$slow" 'BEGIN {print s / 2}')" "an epoch whose kernel costs nothing"
run 2 sim --seed 5 --costs nothing.json $small
says err.txt '^error.*costs of kernels: looking at nothing.json: no such file'
run 2 sim --seed 5 train.lua --flops 0
says err.txt 'flops: `0.0` is no number of them a second'
finish
