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
nothing_left
finish
