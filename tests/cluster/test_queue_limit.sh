#!/bin/bash
# A node's queue limit: its workers' operations stay within it and all arrive, on real nodes and on simulated ones;
# what is no size is refused.
. "$(dirname "$0")/harness.sh"

cat >limit.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {limit = {"of each node", default = "16KiB"}}
local job = tide.job {
  name = "limit", tables = {w = {keys = {"dense", 300}, width = 8}},
  worker = function(w)
    local keys, rows = {}, {}
    for i = 1, 100 do keys[i] = i end
    for i = 1, 800 do rows[i] = 1 end
    for _ = 1, 20 do w.tables.w:push(keys, rows) end
    local queue <const> = core.queue()
    local within <const> = queue.most_bytes > 0 and queue.most_bytes <= queue.limit_bytes
    w:report {limits = queue.limit_bytes, within = within and 1 or 0} -- of all workers together
  end,
}

tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, workers = 3, queue_limit = opt.limit}
  local run = cluster:start(job)
  for r in run:events "report" do print(r.limits, r.within) end
  run:wait()
  print(run.tables.w:pull({7}):sum())
end)
LUA

run 0 run limit.lua
says out.txt '^147456	9$'
says out.txt '^1440.0$'
run 0 sim limit.lua
says out.txt '^147456	9$'
says out.txt '^1440.0$'
run 2 run limit.lua --limit much
says err.txt '.queue_limit. is the string .much., not a size'
run 2 node --queue-limit much
says err.txt 'queue-limit'
finish
