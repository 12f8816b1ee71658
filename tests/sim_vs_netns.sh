#!/bin/bash
# The simulator against network namespaces: the same script on real node processes, one in each namespace, behind
# interfaces that `tc tbf` limits both ways, and on simulated nodes whose cards were calibrated by separate transfers.
# Prints for each scenario the seconds of the slowest worker for real and simulated, and the error; at the end the
# median error and how often two scenarios of a group are in the same order.
#
# Needs root, ip, tc and python3; without them it says so and skips.
#   tests/sim_vs_netns.sh [BUILD]
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/netns.sh
. "$root/tests/netns.sh"
netns_begin "$(readlink -f "${1:-$root/build}/tide")" 4

# calibrate BYTES: bytes a second of one long transfer between namespaces 1 and 2, and half a round trip in seconds.
calibrate() {
    inside 1 timeout 60 python3 - <<'EOF' >"$work/calibrated" &
import socket, time
s = socket.create_server(("127.0.0.2", 7999)); c, _ = s.accept(); c.setsockopt(6, 1, 1)
for _ in range(200): c.sendall(c.recv(64))
got, begun = 0, None
while True:
    d = c.recv(1 << 18)
    if not d: break
    begun = begun or time.time(); got += len(d)
print(got / (time.time() - begun))
EOF
    local server=$!
    sleep 0.5
    inside 2 timeout 60 python3 - "$1" <<'EOF'
import socket, sys, time
s = socket.create_connection(("127.0.0.2", 7999)); s.setsockopt(6, 1, 1)
trips = []
for _ in range(200):
    t = time.time(); s.sendall(b"x" * 64); s.recv(64); trips.append(time.time() - t)
s.sendall(b"x" * int(sys.argv[1])); s.close()
print(sorted(trips)[100] / 2)
EOF
    wait $server
}

cat >lab.lua <<'EOF'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {
  what = {"operation", default = "push"}, rounds = {"of each worker", default = 4}, nodes = {"nodes", default = 2},
  keys = {"of 1 KiB each", default = 800}, slow = {"bandwidth of n1, simulated", default = ""},
}
local width <const> = 256
local table_of = {keys = tide.dense(opt.keys), width = width, init = tide.zero(), update = {"add"}, slots = "range"}
local job = tide.job {
  name = "lab",
  tables = {t = tide.table(table_of),
            seconds = tide.table {keys = tide.dense(256), width = 1, init = tide.zero(), update = {"assign"}}},
  worker = function(w)
    local t = w.tables.t
    local all = tide.range(0, opt.keys - 1)
    local first = tide.range(0, opt.keys // opt.nodes - 1) -- at home on the first node
    local few = tide.range(opt.keys // 2 - 4, opt.keys // 2 + 3) -- half of them on one node, half on another
    local one = tide.range(w.rank == 1 and opt.keys - 1 or 0, w.rank == 1 and opt.keys - 1 or 0)
    local function pull(keys) local ok, err = t:pull(keys); if not ok then error(err, 0) end end
    local function push(keys)
      local rows = tide.tensor.zeros("f32", #keys, width)
      local ok, err = t:push(keys, rows)
      if not ok then error(err, 0) end
    end
    local steps = {
      push = function() push(all) end,
      pull = function() pull(all) end,
      incast = function() push(first) end,
      fanout = function() pull(first) end,
      mix = function() pull(first); push(all) end,
      small = function() for _ = 1, 100 do pull(few); push(few) end end,
      ping = function() for _ = 1, 200 do pull(one) end end, -- for calibration
      bsp = function() pull(all); push(all); w:barrier() end,
    }
    w:barrier()
    local began = tide.now()
    for _ = 1, opt.rounds do steps[opt.what]() end
    local took = tide.tensor.zeros("f32", 1, 1)
    took:fill(tide.now() - began)
    w.tables.seconds:push(tide.range(w.rank, w.rank), took)
    w:report {examples = 1}
  end,
}
tide.main(function()
  if sim.active and opt.slow ~= "" then sim.node("n1", {nic = opt.slow}) end
  local cluster <close> = tide.cluster {nodes = opt.nodes, workers = 1}
  local run = cluster:start(job)
  run:wait()
  print("took", (run.tables.seconds:pull(tide.range(1, opt.nodes)):max()))
end)
EOF

took() { awk '$1 == "took" {print $2}' "$1"; }
median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

printf '%-34s %10s %10s %8s\n' scenario real_s simulated_s error
# What an operation of one key takes beyond the network, a quarter for each write and read: from runs of their own.
calibrate_costs() {
    local k real=()
    for k in 1 2 3; do
        inside 0 timeout 60 "$tide" run --cluster $cluster lab.lua --what ping >real.txt 2>real.err </dev/null
        real+=("$(took real.txt)")
    done
    echo "return {$network}" >net.lua
    timeout 60 "$tide" sim --seed 1 --net net.lua lab.lua --what ping >sim.txt 2>sim.err </dev/null
    costs=$(awk -v r="$(printf '%s\n' "${real[@]}" | median)" -v s="$(took sim.txt)" 'BEGIN {
        cost = r > s ? (r - s) / 800 / 4 : 0
        printf "send = %.9f, receive = %.9f", cost, cost
    }')
    echo "calibrated: $costs"
}

scenario() { # WHAT NODES MBIT [MBIT of n1]
    local k real=() name="$1, $2 nodes, $3 Mbit/s${4:+, n1 $4}" options=(--what "$1" --nodes "$2")
    for k in 1 2 3; do
        inside 0 timeout 60 "$tide" run --cluster $cluster lab.lua "${options[@]}" >real.txt 2>real.err </dev/null ||
            { echo "$name: the real run failed"; tail -3 real.err; failed=1; return; }
        real+=("$(took real.txt)")
    done
    [ -n "${4:-}" ] && options+=(--slow "$(awk -v b="$bytes" -v r="$4" -v f="$3" 'BEGIN {printf "%d", b * r / f}')B")
    timeout 60 "$tide" sim --seed 1 --model "$model" --net net.lua lab.lua "${options[@]}" >sim.txt 2>sim.err \
        </dev/null || { echo "$name: the simulated run failed"; tail -3 sim.err; failed=1; return; }
    awk -v n="$name" -v r="$(printf '%s\n' "${real[@]}" | median)" -v s="$(took sim.txt)" 'BEGIN {
        e = s > r ? s / r - 1 : 1 - s / r
        printf "%-34s %10.3f %10.3f %7.1f%%\n", n, r, s, 100 * e
        print r, s, e >> "figures"
    }'
}

failed=0
costs=
idle() { awk '/^cpu / {for (i = 2; i <= 9; i++) all += $i; print $5 + $6, all}' /proc/stat; }
before=$(idle)
model=${MODEL:-nic}
for mbit in 50 100; do
    netns_limit $mbit
    half=$(calibrate $((mbit * 250000)))
    bytes=$(cat calibrated)
    network=$(awk -v b="$bytes" -v l="$half" 'BEGIN {printf "nic = %d, latency = %.9f", b, l}')
    echo "calibrated at $mbit Mbit/s: $network"
    for count in 2 4; do
        netns_start $count
        [ -n "$costs" ] || calibrate_costs
        echo "return {$network, $costs}" >net.lua
        for what in push pull incast fanout; do scenario $what $count $mbit; done
        [ $mbit = 100 ] && for what in mix small bsp; do scenario $what $count $mbit; done
        if [ $mbit = 100 ]; then # n1 behind a slow card
            netns_limit 20 1
            scenario push $count $mbit 20
            netns_limit $mbit
        fi
        netns_stop
    done
done
echo "$before $(idle)" | awk '{
    idle = 100 * ($3 - $1) / ($4 - $2)
    printf "processors: %.0f %% idle%s\n", idle, idle < 30 ? ": too busy, the real figures are not to be trusted" : ""
}'
median_error=$(awk '{print $3}' figures | median)
awk -v m="$median_error" '{r[NR] = $1; s[NR] = $2} END {
    for (i = 1; i <= NR; i++) for (j = 1; j < i; j++) {
        q = r[i] / r[j]
        if (q > 1.1 || q < 1 / 1.1) { pairs++; same += (r[i] > r[j]) == (s[i] > s[j]) }
    }
    printf "%d scenarios: median error %.1f %%, order of %d of %d pairs the same\n", NR, 100 * m, same, pairs
}' figures
exit $failed
