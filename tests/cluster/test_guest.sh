#!/usr/bin/env bash
# A node of libtide-actor in a cluster of libtide: tables are made, checkpointed and dropped beside it; its
# handler in C is called by a script, and asks script actors. It leaves, and training continues.
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

guest=${TIDE_BUILD_DIR:-$root/build}/tests/guest

cat >host.lua <<'LUA'
local tide = require "tide"
local Times = tide.actor {name = "times", opens = "read", times = function(_, a, b) return a * b end}
local job = tide.job {
  name = "sums",
  tables = {
    sums = tide.table {keys = tide.dense(100), width = 2, update = "add"},
    moving = tide.table {keys = tide.dense(100), width = 2, update = "add", technique = "relocate"},
    clocked = tide.table {keys = tide.dense(100), width = 2, update = "add", consistency = "ssp:1"},
    kept = tide.table {keys = tide.dense(100), width = 2, update = "add", replicas = 1},
  },
  worker = function(w)
    for key = 0, 99 do w.tables.sums:push({key}, {{1, 2}}) end
    w.tables.moving:push({5}, {{1, 1}})
    w.tables.kept:push({5}, {{1, 1}})
    for _ = 1, 5 do
      w.tables.clocked:push({7}, {{1, 1}})
      w:clock()
    end
    w:report {examples = 1, loss = w.tables.sums:pull({9})[1]}
  end,
}
local function area(a, b) return tide.lookup("area"):call {a, b} end
tide.main(function()
  local cluster <close> = tide.cluster {}
  local g <close> = cluster:group(Times, {}, {on = "n2", publish = "times"})
  print(#g:members())
  local ok, answer
  repeat
    tide.sleep(0.05)
    ok, answer = pcall(area, 6, 7)
  until ok
  print("area", answer.value)
  print("wrong", select(2, pcall(area, 1)))
  print("raised", area("x", {}).err.message)
  print("nobody", select(2, pcall(tide.lookup, "nobody")))
  local run = cluster:start(job)
  print("trained", run:wait().examples)
  local made <const> = cluster:checkpoint {dir = "made"}
  print("checkpoint", made.rows or made)
  tide.lookup("area"):cast(true)
end)
LUA
run 0 up lab -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
"$guest" lab "$(head -1 "$XDG_RUNTIME_DIR/tide/lab/endpoint")" >guest.txt 2>&1 &
ends=$!
started+=($ends)
run 0 run --cluster lab host.lua
says out.txt '^area.*42'
says out.txt '^wrong.*an area has two sides'
says out.txt '^raised.*attempt to mul'
says out.txt '^nobody.*T0401'
says out.txt '^trained'
says out.txt '^checkpoint'
wait $ends || fail "the guest ended with $?: $(cat guest.txt)"
run 0 down lab -y
finish
