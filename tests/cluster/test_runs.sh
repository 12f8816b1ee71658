#!/bin/bash
# Several runs of one script: one after the other, of one job and of two.
. "$(dirname "$0")/harness.sh"

cat >twice.lua <<'LUA'
local tide = require "tide"
local function job(name)
  return tide.job {
    name = name, tables = {t = tide.table {name = "hits", keys = tide.dense(10), width = 1}},
    worker = function(w)
      w.tables.t:push({w.rank}, {{1}})
      w:report {examples = 1}
    end,
  }
end
local first, second = job "first", job "second"
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(first):wait()
  cluster:start(first):wait()
  local run = cluster:start(second)
  run:wait()
  print(("row 1 is %d, row 2 is %d"):format(run.tables.t:pull({1})[1], run.tables.t:pull({2})[1]))
end)
LUA
run 0 run twice.lua
says out.txt 'row 1 is 3, row 2 is 3'

# Clusters one after the other: each makes its tables anew, and is not told of the nodes before.
cat >sweep.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "sweep",
  tables = {
    plain = tide.table {keys = tide.dense(10), width = 1},
    moving = tide.table {keys = tide.dense(10), width = 1, technique = "relocate"},
    clocked = tide.table {keys = tide.dense(10), width = 1, consistency = "ssp:1"},
  },
  worker = function(w)
    for _, t in pairs(w.tables) do t:push({1}, {{1}}) end
    w:clock()
    w:report {examples = 1}
  end,
}
tide.main(function()
  for nodes = 1, 3 do
    local cluster <close> = tide.cluster {nodes = nodes}
    local run = cluster:start(job)
    run:wait()
    print(("%d nodes: %d %d %d"):format(nodes, run.tables.plain:pull({1})[1], run.tables.moving:pull({1})[1],
      run.tables.clocked:pull({1})[1]))
  end
end)
LUA
for how in run sim; do
  run 0 $how sweep.lua
  says out.txt '1 nodes: 1 1 1'
  says out.txt '2 nodes: 2 2 2'
  says out.txt '3 nodes: 3 3 3'
done

# A cluster by its endpoint, which does not say what it is called; its controller serves rows and workers itself.
cat >one.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "one", tables = {t = tide.table {keys = tide.dense(4), width = 1}}, worker = function(w)
  w.tables.t:push({1}, {{1}})
  w:report {examples = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:wait()
  print("sum", run.tables.t:pull({1})[1])
end)
LUA
"$TIDE" node --controller --cluster named --listen "unix:$work/named.sock" >named.txt 2>&1 </dev/null &
controller=$!
until "$TIDE" nodes --cluster "unix:$work/named.sock" >/dev/null 2>&1; do sleep 0.05; done
run 0 run --cluster "unix:$work/named.sock" --slots 1 one.lua
says out.txt '^sum	1.0$'
run 0 submit --cluster "unix:$work/named.sock" --slots 1 one.lua
says out.txt ' on named$'
run 0 job wait one --cluster "unix:$work/named.sock"
kill "$controller"
wait "$controller"
run 3 run --cluster "unix:$work/named.sock" one.lua
nothing_left
finish
