#!/bin/bash
# Peers of another version or cluster are told so; whatever strangers send to a node's socket, a run continues.
. "$(dirname "$0")/harness.sh"
command -v python3 >/dev/null || { echo "skipped: no python3 to play the stranger"; exit 77; }
stranger() { timeout 30 python3 "$root/tests/cluster/stranger.py" "$@"; }

# ---- version and name ----
run 0 up --cluster lab -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
endpoint=$(cat "$XDG_RUNTIME_DIR/tide/lab/endpoint")
stranger "$endpoint" hello 77 lab >told.txt
says told.txt "peer speaks protocol $TIDE_PROTOCOL, this node speaks 77"
stranger "$endpoint" hello "$TIDE_PROTOCOL" other >told.txt
says told.txt "peer belongs to cluster 'lab', not 'other'"
run 1 node --join "$endpoint" --cluster other --name x
says err.txt "T0504.*peer belongs to cluster 'lab', not 'other'"
run 0 nodes --cluster lab --plain
[ "$(wc -l <out.txt)" = 3 ] || fail "strangers became members: $(cat out.txt)"

# ---- garbage, at every node of a run ----
cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "long",
  tables = {t = tide.table {keys = tide.dense(100), width = 4}},
  worker = function(w)
    local until_s = require "tide.core".now() + 6
    local pushed = 0
    while require "tide.core".now() < until_s do
      w.tables.t:push({pushed % 100}, {{1, 1, 1, 1}})
      pushed = pushed + 1
      if pushed == 100 then print "under way" end
      tide.sleep(0.0005)
    end
    w:barrier()
    local sum = 0
    if w.rank == 1 then
      local rows, keys = nil, {}
      for i = 0, 99 do keys[#keys + 1] = i end
      rows = w.tables.t:pull(keys)
      for i = 1, #rows do sum = sum + rows[i] end
    end
    w:report {pushed = pushed, sum = sum}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  for report in run:events "report" do
    print(("every push once: %s"):format(report.sum == 4 * report.pushed), report.pushed)
  end
end)
LUA
attack() { # CLUSTER SECONDS SEED SOCKET...
    local cluster=$1 limit=$2 seed=$3 socket pids=()
    shift 3
    for socket in "$@"; do
        seed=$((seed + 1))
        stranger "unix:$socket" attack "$limit" "$seed" "$cluster" >"attack$seed.txt" 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}"
    cat attack*.txt
}
begin run long.lua
under_way() { grep -q "under way" err.txt 2>/dev/null; }
wait_for 15 under_way
cluster=$(basename "$(dirname "$(ls "$XDG_RUNTIME_DIR"/tide/run-*/*.sock | head -1)")")
seed=$((RANDOM * 8))
echo "seed $seed"
attack "$cluster" 3 "$seed" "$XDG_RUNTIME_DIR/tide/$cluster"/*.sock
cat attack*.txt | awk '{ n += $1 } END { exit n < 50 }' || fail "hardly an attack was made"
wait "$driver"
code=$?
[ "$code" = 0 ] || { fail "under attack the run ended with $code"; tail -5 err.txt; }
says out.txt 'every push once: true'

# ---- garbage at an idle cluster, which serves afterwards ----
attack lab 2 "$((seed + 4))" "$XDG_RUNTIME_DIR/tide/lab"/*.sock >/dev/null
sleep 0.3
run 0 status --cluster lab
says out.txt 'nodes 3 up'
run 0 links --cluster lab --plain
[ "$(wc -l <out.txt)" -lt 12 ] || fail "clients that are gone stay in the list of links: $(wc -l <out.txt) lines"
lines=$(cat "$XDG_RUNTIME_DIR"/tide/lab/{controller,node-}*.log | wc -l)
[ "$lines" -lt 150 ] || fail "strangers fill the logs: $lines lines"
says "$XDG_RUNTIME_DIR/tide/lab/controller.log" 'closed the connection with|refused a connection'
run 0 down lab -y
nothing_left
finish
