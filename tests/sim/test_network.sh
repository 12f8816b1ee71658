#!/bin/bash
# The network and the costs of kernels as scripts and files describe them; what is wrong with a description is said.
. "$(dirname "$0")/harness.sh"
mkdir data && make_triples 1 data

# Four nodes push 8 MB each, five times: three quarters of it cross the core.
cat >bulk.lua <<'EOF'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {core = {"bandwidth between racks", default = ""}, bad = {"a mistake", default = ""}}
local job = tide.job {
  name = "bulk",
  tables = {t = tide.table {keys = tide.dense(4000), width = 512, init = tide.zero(), update = {"add"}}},
  worker = function(w)
    local keys, ones = tide.range(0, 3999), tide.tensor.zeros("f32", 4000, 512)
    ones:fill(1)
    for _ = 1, 5 do
      local ok, err = w.tables.t:push(keys, ones)
      if not ok then error(err, 0) end
    end
    w:report {examples = 1}
  end,
}
tide.main(function()
  if opt.core ~= "" then sim.net {racks = 4, nodes_per_rack = 1, core = opt.core} end
  if opt.bad == "field" then sim.net {rack = 4} end
  if opt.bad == "racks" then sim.net {racks = 4} end
  if opt.bad == "costs" then sim.compute {file = "none.json"} end
  local cluster <close> = tide.cluster {nodes = 4}
  local run = cluster:start(job)
  run:wait()
  print("sum", run.tables.t:pull(tide.range(0, 3999)):sum())
end)
EOF
virtual_ms() { sed -n 's/^sim: seed .*virtual \([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p' err.txt | sed 's/^0*//'; }
bulk() { # MODEL OPTIONS...
    local model=$1
    shift
    run 0 sim --seed 5 --model "$model" --nic 1Gbit bulk.lua "$@"
    says out.txt 'sum.*40960000'
}
bulk nic
says_not err.txt 'flows'
queued=$(virtual_ms)
bulk flow
says err.txt '^sim: [0-9]+ flows, rates computed [0-9]+ times, always max-min fair'
shared=$(virtual_ms)
hash=$(hash_of err.txt)
bulk flow
same "$hash" "$(hash_of err.txt)" "flows"
# 5 x 6 MB of each node over its card of 125 MB/s take 240 ms at least, however the cards are shared
for ms in "$queued" "$shared"; do
    [ "$ms" -gt 250 ] && [ "$ms" -lt 1500 ] || fail "queued: $queued ms, shared: $shared ms"
done
bulk flow --core 200Mbit # 20 x 6 MB over 25 MB/s
[ "$(virtual_ms)" -gt 4800 ] || fail "a slow core takes no time: $(virtual_ms) ms"

cat >net.lua <<'EOF'
return {racks = 4, nodes_per_rack = 1, core = "200Mbit", nic = "1Gbit", latency = {"10us", "30us"}, window = "1MiB",
        pairs = {{"n1", "n2", "20ms"}}, send = "3us", receive = "2us", byte = 0.1e-9}
EOF
run 0 sim --seed 5 --model flow --net net.lua bulk.lua
says err.txt '^sim: seed 5, model flow, latency 10us to 30us, NIC 1Gbit, network net.lua'
[ "$(virtual_ms)" -gt 4800 ] || fail "the file's core takes no time: $(virtual_ms) ms"
echo 'return {cores = 1}' >bad.lua
run 2 sim --net bad.lua bulk.lua
says err.txt 'bad.lua: net field `cores` is not known: byte, core, latency'
echo 'return {core = os.time()}' >bad.lua
run 2 sim --net bad.lua bulk.lua
run 2 sim --net none.lua bulk.lua
says err.txt '--net: cannot open none.lua'
refused() { # WHAT PATTERN
    run 2 sim --seed 5 bulk.lua --bad "$1"
    says err.txt "$2"
    says err.txt 'bulk\.lua:[0-9]+'
}
refused field 'net field `rack` is not known'
refused racks 'racks = 4, nodes_per_rack = nil: both are wanted'
refused costs 'costs of kernels: looking at none.json: no such file'

# Costs are measured where no kernel waits for others, and then decide how long a run takes.
kge() { run 0 sim --seed 3 "$@" --data "$work/data" --dim 32 --epochs 2 --nodes 1 --workers 1; }
kge --calibrate costs.json "$root/examples/kge.lua"
says err.txt '^calibrate: kge_train +[0-9.e+-]+ us a call, [0-9.e+-]+ us a row \([1-9][0-9]* calls'
says costs.json '"schema": *"tide.costs/1"'
sed '0,/^local tide = require "tide"$/s//&\nrequire("tide.sim").compute {file = "costs.json"}/' \
    "$root/examples/kge.lua" >kge.lua
grep -q costs.json kge.lua || fail "kge.lua is not what this test takes it for"
kge kge.lua
measured=$(virtual_ms)
sed 's/"row_s": *[0-9.e-]*/"row_s":0.01/g' costs.json >slow.json
sed -i 's/costs.json/slow.json/' kge.lua
kge kge.lua
[ "$(virtual_ms)" -gt $((measured + 20000)) ] || fail "10 ms a row: $(virtual_ms) ms, calibrated: $measured ms"
finish
