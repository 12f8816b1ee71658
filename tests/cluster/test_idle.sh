#!/bin/bash
# A cluster that has nothing to do uses next to no processor and little memory. And what else a small cluster on one
# machine must put up with: a second `tide up`, leftovers of a dead one, two runs at a time, sixteen nodes.
. "$(dirname "$0")/harness.sh"

# ---- leftovers of a cluster that died ----
mkdir -p -m 0700 "$XDG_RUNTIME_DIR/tide" && mkdir -m 0700 "$XDG_RUNTIME_DIR/tide/lab"
stale=$XDG_RUNTIME_DIR/tide/lab/node-dead.sock
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$stale" 2>/dev/null || touch "$stale"
echo "unix:$stale" >"$XDG_RUNTIME_DIR/tide/lab/endpoint"
echo "$$ 1" >"$XDG_RUNTIME_DIR/tide/lab/pids" # a pid that runs, but is not the process of that time
run 3 status --cluster lab
says err.txt 'no cluster `lab` runs here'
run 3 down lab -y
kill -0 $$ || fail "a process that only has the pid of one was ended"

# ---- idle ----
run 0 up --cluster lab -n 3
pids=$(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids")
for pid in $pids; do started+=("$pid"); done
busy_ms() { awk '{ sum += $1 } END { printf "%d\n", sum / 1e6 }' /proc/"$1"/task/*/schedstat; }
wakes() { awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' /proc/"$1"/task/*/status; }
sleep 1
declare -A busy_before wakes_before
for pid in $pids; do
    busy_before[$pid]=$(busy_ms "$pid")
    wakes_before[$pid]=$(wakes "$pid")
done
sleep 10
for pid in $pids; do
    used=$(($(busy_ms "$pid") - busy_before[$pid]))
    woke=$(($(wakes "$pid") - wakes_before[$pid]))
    rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
    echo "process $pid: woke $woke times in 10 s for $used ms of processor, $rss KiB resident"
    if [ -z "${TIDE_SANITIZED:-}" ]; then # a sanitizer costs all of it
        # Beats: three peers' and one's own at 10 a second, and ten turns of the agent. What a wake costs is the
        # machine's affair (0.1 ms here); the bound on it only catches a thread that never sleeps.
        [ "$woke" -le 700 ] || fail "an idle node woke $woke times in 10 s"
        [ "$used" -le 1000 ] || fail "an idle node used $used ms in 10 s"
        [ "$rss" -le 20480 ] || fail "an idle node has $rss KiB"
    fi
done

# ---- a second one ----
run 1 up --cluster lab
says err.txt 'T1002.*cluster `lab` runs already'
run 0 up --cluster lab2 -n 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab2/pids"); do started+=("$pid"); done
run 3 nodes
says err.txt 'several clusters run: lab, lab2'
run 0 down lab2 -y
run 0 nodes
says out.txt 'n3'
run 0 down -y
nothing_left

# ---- two runs, and sixteen nodes ----
cat >short.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {nodes = {"nodes", default = 2}}
local job = tide.job {
  name = "short", tables = {t = tide.table {keys = tide.dense(50), width = 1}},
  worker = function(w)
    for i = 1, 200 do w.tables.t:push({i % 50}, {{1}}) end
    w:barrier()
    local keys = {}
    for i = 1, 50 do keys[i] = i - 1 end
    w:report {sum = w.rank == 1 and w.tables.t:pull(keys):sum() or 0}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  for report in cluster:start(job):events "report" do print(("sum %d"):format(report.sum // 1)) end
end)
LUA
two=()
for i in 1 2 3; do
    timeout 60 "$TIDE" run short.lua >"out$i.txt" 2>"err$i.txt" </dev/null &
    two+=($!)
done
for i in 1 2 3; do
    wait "${two[i - 1]}" || { fail "one of three runs at a time failed"; cat "err$i.txt"; }
    says "out$i.txt" '^sum 400$'
done
run 0 run short.lua --nodes 16
says out.txt '^sum 3200$'
nothing_left
finish
