#!/bin/bash
# Limits of 1 in the simulator: what is set and drawn is said, repeats with its seed and costs only time. The seeds of
# profiles are those that random limits have failed with.
. "$(dirname "$0")/harness.sh"

cat >sums.lua <<'EOT'
local tide = require "tide"
local job = tide.job {
  name = "sums",
  worker = function(w)
    local keys, ones = {}, tide.tensor.zeros("f32", 40, 8):fill(1)
    for i = 1, 40 do keys[i] = i end
    for _ = 1, 20 do
      w.tables.t:push(keys, ones)
      w:barrier()
    end
    w:report {sum = w.tables.t:pull(keys):sum()}
  end,
  tables = {t = tide.table {keys = tide.dense(100), width = 8, update = {"add"}}},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, workers = 1}
  for r in cluster:start(job):events "report" do print(("sum %d"):format(r.sum)) end
end)
EOT
run 0 sim --seed 5 sums.lua
cp out.txt plain.txt
plain=$(hash_of err.txt)
run 0 sim --seed 5 --limit net_ring_frames=4 --limit net_ack_delay=90ms sums.lua
says err.txt 'limits net_ring_frames=4 net_ack_delay=0.09s'
cmp -s out.txt plain.txt || fail "other sums with a small ring"
[ "$(hash_of err.txt)" != "$plain" ] || fail "the limits changed nothing"
export TIDE_LIMITS=net_ring_frames=4
run 0 sim --seed 5 sums.lua
same "$plain" "$(hash_of err.txt)" "with TIDE_LIMITS"
unset TIDE_LIMITS
for seed in 1 2 3 4 5 6; do
    run 0 sim --seed $seed --draw-limits 0.7 sums.lua
    cmp -s out.txt plain.txt || fail "other sums with limits of seed $seed"
done
run 0 sim --seed 3 --draw-limits 0.7 --check-determinism sums.lua
says err.txt 'took the same course'

run 0 sim --profile swarm --seed 3 --set chaos_s=10 --draw-limits 0.5 --check-determinism
says err.txt 'took the same course'
run 0 sim --profile swarm --seed 509 --draw-limits 0.5  # small messages held back a large one for ever
run 0 sim --profile swarm --seed 1140 --draw-limits 0.4 # credit that was too little resumed fibers for nothing
run 0 sim --profile window --seed 1022 --draw-limits 0.4
run 0 sim --profile journal --seed 1086 --draw-limits 0.4 # a node came again too often while its name was taken
run 0 sim --profile runs --seed 2 --draw-limits 0.4 # a controller and a worker blocked as they sent to each other
run 0 sim --profile runs --seed 17 --draw-limits 0.4 # two controllers blocked as they told nodes of events
run 0 sim --profile runs --seed 104 --draw-limits 0.4 # an actor that was killed answered that it was cancelled

run 2 sim --profile swarm --seed 1 --limit net_ring_frame=9
says err.txt 'did you mean `net_ring_frames`?'
run 2 sim --limit net_ring_frames=1 sums.lua
says err.txt '1 is outside of 4 to 1048576'
run 2 sim --profile swarm --seed 1 --set net_ring_frames=1
says err.txt 'net_ring_frames takes 4 to 1048576'
finish
