#!/bin/bash
# A node process that dies in mid-run ends the run within 3 s, named, with exit code 5; no process is left.
. "$(dirname "$0")/harness.sh"

cat >long.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "long",
  tables = {t = tide.table {keys = tide.dense(1000), width = 8}},
  worker = function(w)
    for i = 1, 100000 do
      w.tables.t:pull {i % 1000, (i * 7) % 1000}
      if i % 100 == 0 then w:report {examples = 100, wait = false} end
      if i == 200 then print "under way" end
      if w:stopping() then break end
      tide.sleep(0.001)
    end
    w:report {examples = 1}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  print(cluster:start(job):wait():table {"reports", "pulls_local", "pulls_remote"})
end)
LUA

begin run long.lua
under_way() { grep -q "under way" err.txt 2>/dev/null; }
wait_for 15 under_way
victim=$(node_pid n2) || fail "no process of node n2"
kill -KILL "$victim"
wait "$driver"
code=$?
[ "$code" = 5 ] || fail "exit code $code, not 5"
says err.txt 'node n2 is lost'
nothing_left

# Ctrl-C once: stop at the next report, summary, exit 130. Twice: at once.
begin run long.lua
wait_for 15 under_way
kill -INT "$driver"
wait "$driver"
code=$?
[ "$code" = 130 ] || fail "after one SIGINT: exit code $code, not 130"
says err.txt 'stopping at the next report'
says out.txt 'pulls_local'
nothing_left

sed 's/w:stopping()/false/' long.lua >stubborn.lua
begin run stubborn.lua
wait_for 15 under_way
kill -INT "$driver"
sleep 0.6
kill -INT "$driver"
wait "$driver"
code=$?
[ "$code" = 130 ] || fail "after two SIGINTs: exit code $code, not 130"
nothing_left

# kill -9 of the driver: the nodes die with it.
begin run long.lua
wait_for 15 under_way
kill -KILL "$driver"
wait "$driver" 2>/dev/null
nothing_left

run 124 --timeout 2s run long.lua
nothing_left

# A script that never comes back from its own work ends too, with the nodes it started.
cat >busy.lua <<'LUA'
local tide = require "tide"
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1} -- luacheck: ignore 211
  print "busy"
  while true do end
end)
LUA
run 124 --timeout 1s run busy.lua
nothing_left
begin run busy.lua
busy() { grep -q busy out.txt 2>/dev/null; }
wait_for 15 busy
kill -INT "$driver"
sleep 0.3
kill -INT "$driver"
wait "$driver"
code=$?
[ "$code" = 130 ] || fail "a busy script after two SIGINTs: exit code $code, not 130"
says err.txt 'killed'
nothing_left
finish
