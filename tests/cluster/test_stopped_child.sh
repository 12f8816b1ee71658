#!/bin/bash
# A node of a local run whose process is stopped, or gets no processor, is silent and not gone: the run waits for it, and
# counts exactly. --silence says how long; then the error says what the process does, and names the option.
. "$(dirname "$0")/harness.sh"
unset TIDE_SILENCE

cat >count.lua <<'L'
local tide = require "tide"
local opt = tide.options {steps = {"pushes of a worker", default = 300},
  grant = {"silence of tide.cluster", type = "string"}}
local job = tide.job {name = "count", tables = {hits = tide.table {keys = tide.dense(64), width = 1, update = "add"}},
  worker = function(w)
    for i = 1, opt.steps do
      w.tables.hits:push({w.rng:below(64)}, {{1}})
      if i % 20 == 0 then w:report {examples = 20} end
      tide.sleep(0.01)
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, silence = opt.grant}
  local run <close> = cluster:start(job)
  run:wait()
  local sum, rows = 0, run.tables.hits:pull(tide.range(0, 63))
  for i = 1, 64 do sum = sum + rows[i] end
  print("SUM", math.tointeger(sum))
end)
L
begun() { grep -q 'cluster run-' err.txt; }
stop_child() { # stop_child SECONDS
    local victim
    wait_for 20 node_pid n2 >/dev/null
    wait_for 20 begun
    sleep 0.7
    victim=$(node_pid n2)
    kill -STOP "$victim"
    sleep "$1"
    kill -CONT "$victim" 2>/dev/null
}

begin run count.lua
stop_child 3
wait "$driver" || fail "a child that is stopped for 3 s ends the run: $(cat err.txt)"
says out.txt '^SUM	600'

begin run --silence 1s count.lua --steps 1000
stop_child 5
wait "$driver" && fail "--silence 1s changes nothing"
says err.txt 'node n2 is lost: no heartbeat for [1-4]\..* s \(its process [0-9]+ is stopped\)'
says err.txt '[-]-silence where the cluster starts'

begin run count.lua --steps 1000 --grant 1s
stop_child 5
wait "$driver" && fail "silence = \"1s\" of tide.cluster changes nothing"
says err.txt 'node n2 is lost: no heartbeat for [1-4]\..* s \(its process [0-9]+ is stopped\)'
run 2 run count.lua --grant soon
says err.txt 'T0113.*tide.cluster: `silence`'

for _ in $(seq 20); do
    (while :; do :; done) &
    busy+=($!)
    started+=($!)
done
run 0 run count.lua
says out.txt '^SUM	600'
kill "${busy[@]}"
{ wait "${busy[@]}"; } 2>/dev/null
nothing_left
finish
