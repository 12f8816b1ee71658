#!/bin/bash
# A cluster that ends takes its rows with it: nobody that goes is found dead, and nobody looks for copies of what it held.
. "$(dirname "$0")/harness.sh"

cat >copied.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {controllers = {"holders of what the controller decides", default = 1}}
local job = tide.job {
  name = "copied",
  tables = {t = tide.table {keys = tide.dense(1000), width = 4, update = "add", replicas = 1}},
  worker = function(w)
    for _ = 1, 50 do w.tables.t:push({w.rng:below(1000)}, {{1, 1, 1, 1}}) end
    w:report {examples = 50}
  end,
}
tide.main(function()
  for _ = 1, 2 do
    local cluster <close> = tide.cluster {nodes = 3, controllers = opt.controllers > 1 and opt.controllers or nil}
    cluster:start(job):wait()
    if opt.controllers > 1 then break end
  end
end)
LUA

# quiet_end: no log of the last run tells of a death or a loss.
quiet_end() {
    local logs
    logs=$(ls -d .tide/runs/* | tail -1)
    if grep -HE 'died|lost|nobody can take' "$logs"/*.log err.txt; then
        fail "$1: what ended with its cluster was looked for"
    fi
}

run 0 run copied.lua
quiet_end "one controller"
if [ ! -e "$(dirname "$TIDE")/tide_raft.so" ]; then
    finish
fi
run 0 run copied.lua --controllers 3
quiet_end "three controllers"

run 0 up lab --controllers 3 -n 3
run 0 run --cluster lab copied.lua
run 0 down lab -y
if grep -HE 'slots of table .* are lost|nobody can take' "$XDG_RUNTIME_DIR"/tide/lab/*.log; then
    fail "tide down: what ended with its cluster was looked for"
fi
nothing_left
finish
