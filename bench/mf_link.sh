#!/bin/bash
# Matrix factorisation (bench/dsgd.lua, MF 1M) on two nodes behind limited links: real node processes, each in a network
# namespace of its own behind an interface that `tc tbf` limits both ways. As root.
#   bench/mf_link.sh [--json] [BUILD [MBIT [ROUNDS]]]      default: 1000 3
# Prints seconds an epoch, the median of the rounds, for rows that relocate and for rows that stay. Lapse took 0.69 s at
# 1 Gbit/s on another machine with two cores.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/netns.sh
. "$root/tests/netns.sh"
json=false
[ "${1:-}" = --json ] && json=true && shift
tide=$(readlink -m "${1:-$root/build}/tide") mbit=${2:-1000} rounds=${3:-3}

netns_begin "$tide" 2
netns_limit "$mbit"
for technique in relocate static; do
    for ((round = 0; round < rounds; round++)); do
        netns_start 2
        inside 0 timeout 120 "$tide" run --cluster $cluster "$root/bench/dsgd.lua" --nodes 2 --epochs 20 \
            --technique $technique >out.txt 2>err.txt </dev/null || { cat err.txt >&2; exit 1; }
        netns_stop
        awk '/s an epoch/ {print $1}' out.txt
    done | sort -n >epochs.txt
    [ "$(wc -l <epochs.txt)" = "$rounds" ] || exit 1
    least=$(head -n 1 epochs.txt) median=$(sed -n "$(((rounds + 1) / 2))p" epochs.txt)
    if $json; then
        printf '{"bench": "mf_link", "mbit": %d, "technique": "%s", "epoch_s": %.4f, "least_s": %.4f}\n' \
            "$mbit" $technique "$median" "$least"
    else
        printf 'MF 1M 2x1, links of %d Mbit/s, %-8s  %.4f s an epoch (least %.4f)\n' \
            "$mbit" $technique "$median" "$least"
    fi
done
