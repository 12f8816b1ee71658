#!/bin/bash
# Real processes: servers of a table with copies are killed (-9) one after another under load. No acknowledged push is
# lost and none is doubled. ROUNDS=n for more rounds.
. "$(dirname "$0")/harness.sh"

program=${TIDE_BUILD_DIR:-$root/build}/bench/bench_failover
[ -x "$program" ] || { echo "no $program: build it first"; exit 1; }
for replicas in 1 2; do
    if ! timeout 220 "$program" --rounds "${ROUNDS:-8}" --replicas "$replicas" >out.txt 2>err.txt; then
        fail "rounds with $replicas copies failed"
        sed 's/^/  /' out.txt err.txt | tail -20
    fi
    says out.txt 'keys with lost or doubled pushes +0'
    cat out.txt
done
finish
