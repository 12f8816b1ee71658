#!/bin/bash
# TLS against plain TCP in one run, on an address of this machine that is not loopback: round trip, 64 KB messages, and
# the training of the demo on a cluster under TLS and one without. Best of ROUNDS each, taken in turns.
#   bench/tls.sh [BUILD] [ROUNDS]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(readlink -f "${1:-$root/build}")
rounds=${2:-3}
address=$(hostname -I | tr ' ' '\n' | grep -m1 '^[0-9.]*$' || true)
[ -n "$address" ] || { echo "no address but loopback: nothing goes under TLS" >&2; exit 77; }
work=$(mktemp -d /tmp/tide-tls-XXXXXX)
nodes=()
finish() {
    for pid in "${nodes[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
cd "$work"
"$build/tide" keys init local >/dev/null 2>&1
for ((i = 0; i < rounds; i++)); do
    for row in 'round trip' '64 KB'; do
        "$build/bench/bench_links" --json --only "$row" --listen tcp:127.0.0.1:0 >>plain.txt 2>/dev/null
        "$build/bench/bench_links" --json --only "$row" --listen "tcp:$address:0" --keys keys/local/node \
            >>tls.txt 2>/dev/null
    done
done
# of FILE ROW max|min
of() { grep -F "\"row\":\"$2\"" "$1" | sed 's/.*"value":\([0-9.e+]*\).*/\1/' | sort -g | { [ "$3" = max ] && tail -1 || head -1; }; }
row() { printf '%-10s %-48s %12.4g %s\n' tls "$1" "$2" "$3"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {print a / b}'; }
"$build/bench/bench_tls"
plain=$(of plain.txt 'payload 64 KB' max) tls=$(of tls.txt 'payload 64 KB' max)
row "64 KB messages, TLS over plain ($tls and $plain MB/s)" "$(ratio "$tls" "$plain")" x
plain=$(of plain.txt 'round trip, 1 B, p50' min) tls=$(of tls.txt 'round trip, 1 B, p50' min)
row "round trip, TLS over plain ($tls and $plain us)" "$(ratio "$tls" "$plain")" x

# train NAME FIRST-NODE'S-OPTIONS...: seconds of the demo on two nodes and a driver
train() {
    local name=$1 port=$((20000 + RANDOM % 20000)) at
    shift
    at=tcp:$1:$port
    shift
    "$build/tide" node --cluster local --listen "$at" "$@" >"$name-1.log" 2>&1 &
    nodes=($!)
    until "$build/tide" status --cluster "$at" ${keys:+--keys "$keys"} >/dev/null 2>&1; do sleep 0.1; done
    "$build/tide" node --cluster local --join "$at" "$@" >"$name-2.log" 2>&1 &
    nodes+=($!)
    sleep 1
    local began=$(date +%s%N)
    "$build/tide" run --cluster "$at" ${keys:+--keys "$keys"} "$root/examples/mf.lua" --epochs 10 >"$name.txt" 2>&1 ||
        { tail -3 "$name.txt" >&2; return 1; }
    echo $(($(date +%s%N) - began)) >>"$name.ns"
    for pid in "${nodes[@]}"; do kill "$pid"; done
    wait "${nodes[@]}" 2>/dev/null || true
    nodes=()
}
for ((i = 0; i < rounds; i++)); do
    keys='' train plain 127.0.0.1
    keys=keys/local/admin train tls "$address" --keys keys/local/node
done
best() { sort -g "$1" | head -1 | awk '{print $1 / 1e9}'; }
row "training of the demo, TLS over plain ($(best tls.ns) and $(best plain.ns) s)" "$(ratio "$(best tls.ns)" "$(best plain.ns)")" x
