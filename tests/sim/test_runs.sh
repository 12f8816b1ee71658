#!/bin/bash
# A shared cluster with hosts that come and go, verbs, crashes and other controllers: what must hold of runs.
. "$(dirname "$0")/harness.sh"

for seed in 1 5 18; do
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
finish
