#!/bin/bash
# Real processes: servers of a table with copies are killed (-9), or fall silent, one after another under load. No
# acknowledged push is lost and none is doubled; with durability window no more are lost than was told. Nobody is declared
# dead because the machine is busy. ROUNDS=n for more rounds.
. "$(dirname "$0")/harness.sh"

program=${TIDE_BUILD_DIR:-$root/build}/bench/bench_failover
[ -x "$program" ] || { echo "no $program: build it first"; exit 1; }
rounds=${ROUNDS:-8}
limit=$((rounds * 20 + 60))
for replicas in 1 2; do
    if ! timeout "$limit" "$program" --rounds "$rounds" --replicas "$replicas" >out.txt 2>err.txt; then
        fail "rounds with $replicas copies failed"
        sed 's/^/  /' out.txt err.txt | tail -20
    fi
    says out.txt 'keys with lost or doubled pushes +0'
    cat out.txt
done
if ! timeout "$limit" "$program" --rounds $((rounds / 2)) --only killed --durability window >out.txt 2>err.txt; then
    fail "rounds with a window failed"
    sed 's/^/  /' out.txt err.txt | tail -20
fi
says out.txt 'keys with lost or doubled pushes +0'
cat out.txt
if ! timeout "$limit" "$program" --rounds $((rounds / 2)) --only busy >out.txt 2>err.txt; then
    fail "a busy machine cost somebody's life"
    sed 's/^/  /' out.txt err.txt | tail -20
fi
finish
