#!/bin/bash
# A shared cluster with hosts that come and go, verbs, crashes and other controllers: what must hold of runs.
. "$(dirname "$0")/harness.sh"

for seed in 4 5 18; do
    run 0 sim --profile runs --seed $seed
    says out.txt '^[0-9]+ hosts: .*done.*stopped; [0-9]+ told of their runs$'
done

# A pause that is taken back is an error for who asked for it, and nothing else.
cat >back.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "slow", worker = function(w)
  for _ = 1, 3 do
    tide.sleep(1)
    w:report {examples = 1}
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run <close> = cluster:start(job)
  local same = cluster:run "slow"
  while run:state() ~= "running" do tide.sleep(0.01) end
  local told = {}
  for i, handle in ipairs {run, same} do
    local fiber = require("tide.core").fiber(function()
      local ok, err = handle:pause()
      told[i] = ok == nil and err.code
    end)
    tide.sleep(0.1)
    assert(run:resume())
    require("tide.core").fiber_wait(fiber)
  end
  local examples = 0
  for r in run:events "report" do examples = examples + r.examples end
  print(told[1], told[2], examples, #cluster:runs {all = true})
end)
LUA
for how in run "sim --seed 1"; do
    run 0 $how back.lua
    says out.txt '^T0210	T0210	6	1$'
done

# A table belongs to the run that made it, whatever it is called: one that runs share may have a run's name.
cat >shared.lua <<'LUA'
local tide = require "tide"
local pool = tide.table {keys = tide.dense(4), width = 1, shared = true, name = "a-1.pool"}
for _, name in ipairs {"a", "a-1"} do
  tide.job {name = name, tables = {pool = pool, own = tide.table {keys = tide.dense(4), width = 1}},
    worker = function(w)
      w.tables.pool:push({1}, {{5}})
      w.tables.own:push({1}, {{1}})
      w:report {examples = 1}
    end}
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local script = require "tide.script"
  for _, name in ipairs {"a", "a-1", "a"} do
    local run <close> = cluster:start(script.jobs[name])
    run:wait()
  end
  tide.sleep(2.5) -- the keeper of runs looks for late tables of closed ones
  local names = {}
  for i, entry in ipairs(require("tide.core").tables()) do names[i] = entry.name end
  print(table.concat(names, " "), cluster:table "a-1.pool":pull({1})[1])
end)
LUA
for how in run "sim --seed 1"; do
    run 0 $how shared.lua
    says out.txt '^a-1.pool	15.0$'
done

# A checkpoint brings a shared table back as what it was, also one that is called as if it were the run's.
cat >back_shared.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "j", checkpoint = {dir = "ckpt", every = "1h"}, tables = {
    pool = tide.table {keys = tide.dense(4), width = 1, shared = true, name = "j-9.pool"},
    own = tide.table {keys = tide.dense(4), width = 1}},
  worker = function(w)
    w.tables.pool:push({1}, {{5}})
    w.tables.own:push({1}, {{1}})
    w:report {examples = 1}
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run = cluster:start(job)
  run:wait()
  local own = run.tables.own:pull({1})[1]
  run:close()
  print(own, cluster:table "j-9.pool":pull({1})[1], #require("tide.core").tables())
end)
LUA
run 0 run back_shared.lua
says out.txt '^1.0	5.0	1$'
run 0 run --resume ckpt back_shared.lua
says out.txt '^2.0	10.0	1$'
finish
