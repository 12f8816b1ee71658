#!/bin/bash
# A pool of simulated nodes whose launcher fails and whose nodes die, under a run that continues: every example counts
# once, as many nodes are there at the end as are wanted, and the same seed gives the same life.
. "$(dirname "$0")/harness.sh"
for seed in 3 17; do
    run 0 sim --seed $seed "$root/tests/sim/provision.lua"
    says out.txt '^nodes of the pool.4$'
done
first=$(hash_of err.txt)
run 0 sim --seed 17 "$root/tests/sim/provision.lua"
same "$first" "$(hash_of err.txt)" "a pool under faults"
for seed in 1 2 3; do # told to leave in the middle of their chunks: every update counts once
    run 0 sim --seed $seed "$root/tests/sim/leave.lua"
    says out.txt '^rows 3 3 left 2$'
done
run 1 sim --seed 3 "$root/tests/sim/provision.lua" --fails 1
says err.txt 'T1005.*5 nodes in a row have not come'
finish
