#!/bin/bash
# A training step of four workers (or N) beside PyTorch's DistributedDataParallel (gloo), in the same run: each worker in
# a network namespace of its own, behind interfaces that `tc tbf` limits both ways. Each case is a net on a kind of links;
# the peers take turns, and a figure is the median of the rounds.
#   bench/ddp.sh [BUILD] [--json] [--workers N] [--rounds N] [--steps N] [--nets "mlp vgg mlr"] [--links "1000 200 cut"]
#                [--methods "hybrid always-ps always-ring always-sfb"] [--no-torch]
# Links: Mbit/s of all, or `cut`: 1000, one worker's 250. MB out leave a worker's interface in a step, heads of packets
# included; `formula` is docs/guides/exchange.md's, `apart` how far the bytes without those heads are from it. `of ddp`: the
# step's time over DDP's; `of best`: hybrid's over that of the best fixed method, if there are some.
#
# Needs root, ip, tc, python3 (and python3-torch, python3-numpy unless --no-torch); without them it says so and skips.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/netns.sh
. "$here/../tests/netns.sh"
build=$here/../build
json=0 workers=4 rounds=3 steps=5 nets="mlp vgg mlr" links="1000 200 cut" methods="hybrid" torch=1
while [ $# -gt 0 ]; do
    case $1 in
        --json) json=1 ;;
        --no-torch) torch=0 ;;
        --workers | --rounds | --steps | --nets | --links | --methods)
            [ $# -gt 1 ] || { echo "$1 requires a value" >&2; exit 2; }
            printf -v "${1#--}" '%s' "$2"
            shift ;;
        --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | grep -v '^set'; exit 0 ;;
        -*) echo "no option $1; --help lists them" >&2; exit 2 ;;
        *) build=$1 ;;
    esac
    shift
done
[[ $workers =~ ^[0-9]+$ && $workers -ge 2 ]] || { echo "--workers $workers: a number from 2 on is wanted" >&2; exit 2; }
[ $torch = 0 ] || /usr/bin/python3 -c 'import torch.distributed as d; d.ProcessGroupGloo' 2>/dev/null ||
    skip "python3-torch with gloo is not installed (--no-torch leaves it out)"
netns_begin "$(readlink -f "$build/tide")" "$workers"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

policies=$(printf 'comm/%s,' $methods)
ours() { # NET
    inside 0 timeout 600 "$tide" run --cluster "$cluster" "$here/ddp.lua" --net "$1" --workers "$workers" \
        --steps "$steps" --policies "${policies%,}" 2>ours.err </dev/null ||
        { echo "tide: $1 failed" >&2; tail -n 12 rows ours.err >&2; exit 1; }
}
port=29500
theirs() { # NET
    local k ranks=()
    port=$((port + 1))
    for ((k = 2; k <= workers; k++)); do
        inside $k timeout 600 /usr/bin/python3 "$here/peers/peer_ddp.py" "$1" $((k - 1)) "$workers" \
            10.77.0.2:$port eth$k 2 "$steps" >theirs$k.log 2>&1 &
        ranks[k]=$!
    done
    inside 1 timeout 600 /usr/bin/python3 "$here/peers/peer_ddp.py" "$1" 0 "$workers" \
        10.77.0.2:$port eth1 2 "$steps" 2>theirs.err ||
        { echo "pytorch: $1 failed" >&2; tail -n 3 theirs.err >&2; exit 1; }
    wait "${ranks[@]}"
}

# Rows of the rounds of a case (JSON, a line each) -> a row for each method with medians and ratios.
summarise() { # LINKS
    python3 -c '
import json, statistics, sys
links, as_json = sys.argv[1], sys.argv[2] == "1"
rounds, order = {}, []
for line in sys.stdin:
    row = json.loads(line)
    order += [row["method"]] if row["method"] not in rounds else []
    rounds.setdefault(row["method"], []).append(row)
rows = {}
for method in order:
    each = rounds[method]
    rows[method] = {**each[0], "links": links, "rounds": len(each)}
    for key in ("step_ms", "out_bytes", "content_bytes", "formula_bytes", "overlap"):
        if key in each[0]:
            rows[method][key] = statistics.median(row[key] for row in each)
fixed = [rows[m]["step_ms"] for m in rows if "always-" in m]
for method, row in rows.items():
    if row["peer"] == "tide" and "ddp" in rows:
        row["of_ddp"] = row["step_ms"] / rows["ddp"]["step_ms"]
    if method == "comm/hybrid" and fixed:
        row["of_best"] = row["step_ms"] / min(fixed)
    if as_json:
        print(json.dumps(row), flush=True)
        continue
    def share(key, form="%8.3f"):
        return form % row[key] if key in row else " " * 7 + "-"
    apart = 100 * (row["content_bytes"] / row["formula_bytes"] - 1)
    print("%-4s %-5s %-17s %10.1f %9.2f %9.2f %+7.2f%% %8s %s %s" % (
        row["net"], links, method, row["step_ms"], row["out_bytes"] / 1e6, row["formula_bytes"] / 1e6, apart,
        "%.0f %%" % (100 * row["overlap"]) if "overlap" in row else "-", share("of_ddp"), share("of_best")), flush=True)
' "$1" $json
}

if [ $json = 0 ]; then
    echo "# $(date -u +%F) $(getconf _NPROCESSORS_ONLN) cores, load $(cut -d' ' -f1 /proc/loadavg), $rounds rounds of $steps steps"
    printf '%-4s %-5s %-17s %10s %9s %9s %8s %8s %8s %8s\n' net links method "step ms" "MB out" formula apart overlap \
        "of ddp" "of best"
fi
netns_start "$workers"
for link in $links; do
    if [ "$link" = cut ]; then
        netns_limit 1000
        netns_limit 250 1
    else
        netns_limit "$link"
    fi
    for which in $nets; do
        : >rows
        for ((round = 0; round < rounds; round++)); do
            [ $torch = 0 ] || theirs "$which" >>rows
            ours "$which" >>rows
        done
        summarise "$link" <rows
    done
done
netns_stop
