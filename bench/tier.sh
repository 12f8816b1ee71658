#!/bin/bash
# The rate of a disk by fio, with as many readers as a table with `disk` may have and with 64, beside pulls of
# bench/tier.lua from such a table, and of RocksDB with as much memory (librocksdb-dev): ROUNDS times in turn, in DIR, which
# should not be a memory file system.
#   bench/tier.sh BUILD [DIR]     ROUNDS=3 SECONDS_EACH=5 READERS=16
set -eu
tide=$(readlink -f "${1:?usage: bench/tier.sh BUILD [DIR]}")/tide
dir=$(mktemp -d "${2:-/var/tmp}/tide-bench-tier-XXXXXX")
trap 'rm -rf "$dir"' EXIT
here=$(readlink -f "$(dirname "$0")")
each=${SECONDS_EACH:-5} readers=${READERS:-16} rocksdb=''
cd "$dir"
if [ -e /usr/include/rocksdb/db.h ]; then
    g++ -std=c++17 -O2 "$here/peers/peer_rocksdb.cpp" -lrocksdb -pthread -o peer_rocksdb && rocksdb=./peer_rocksdb
fi
for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for jobs in "$readers" 64; do
        command -v fio >/dev/null || break
        fio --name=disk --filename="$dir/fio" --size=512M --rw=randread --bs=4k --direct=1 --ioengine=psync --numjobs="$jobs" \
            --time_based --runtime="$each" --group_reporting --output-format=terse | awk -F';' '{printf "fio          %9.0f reads/s by %d readers\n", $8, '"$jobs"'}'
    done
    TIDE_LIMITS=store_tier_readers=$readers "$tide" run "$here/tier.lua" --disk "$dir" --seconds "$each" 2>&1 | sed -n 's/.*\] \(.* rows\/s pulled\)/\1/p'
    [ -z "$rocksdb" ] || "$rocksdb" "$dir/rocksdb" "$each" "$readers"
done
