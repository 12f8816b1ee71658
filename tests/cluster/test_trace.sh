#!/bin/bash
# Traces of real and simulated clusters: one file of valid events, of all nodes; the same seed, the same file.
. "$(dirname "$0")/harness.sh"

cat >work.lua <<'LUA'
local tide = require "tide"
local job = tide.job {
  name = "work", tables = {t = tide.table {keys = tide.dense(400), width = 2}},
  worker = function(w)
    for _ = 1, 5 do
      tide.span("a step", function()
        tide.sleep "1ms"
        w.tables.t:pull(tide.range(0, 399))
      end)
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
# check.lua: reads the file as JSON, and that spans of a track nest.
cat >check.lua <<'LUA'
local core = require "tide.core"
local file <close> = assert(io.open(arg[1]))
local events, tracks, names, pids = core.json_decode(file:read "a").traceEvents, {}, {}, {}
for _, e in ipairs(events) do
  if e.ph == "X" then
    local key = e.pid .. " " .. e.tid
    tracks[key] = tracks[key] or {}
    table.insert(tracks[key], {from = e.ts, to = e.ts + e.dur})
    names[e.name] = (names[e.name] or 0) + 1
  elseif e.ph == "M" and e.name == "process_name" then
    pids[#pids + 1] = e.args.name
  end
end
local EPSILON <const> = 0.002 -- us: of decimals
for key, spans in pairs(tracks) do
  table.sort(spans, function(a, b) return a.from < b.from or a.from == b.from and a.to > b.to end)
  local open = {}
  for _, s in ipairs(spans) do
    while #open > 0 and open[#open] <= s.from + EPSILON do open[#open] = nil end
    if #open > 0 and s.to > open[#open] + EPSILON then error("spans of track " .. key .. " overlap") end
    open[#open + 1] = s.to
  end
end
table.sort(pids)
require "tide".main(function()
  print("nodes " .. table.concat(pids, " "))
  print("steps " .. (names["a step"] or 0), "pulls", names["pull work-1.t"] ~= nil)
end)
LUA

looks_right() { # FILE
    run 0 run --nodes 1 check.lua "$1"
    says out.txt '^nodes driver n1 n2$'
    says out.txt '^steps 10.pulls.true$'
}

run 0 run --trace real.json work.lua
looks_right real.json

cat >twice.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "bare", worker = function() tide.span("a step", tide.sleep, "1ms") end}
tide.main(function()
  for _ = 1, 3 do
    local cluster <close> = tide.cluster {nodes = 2}
    cluster:start(job):wait()
  end
end)
LUA
run 0 run --trace pair.json twice.lua
says err.txt '^tide: trace of 3 clusters in pair.json'
run 0 run --nodes 1 check.lua pair.json
says out.txt '^nodes driver driver driver n1 n1, cluster 2 n1, cluster 3 n2 n2, cluster 2 n2, cluster 3$'
says out.txt '^steps 6.pulls.false$'
[ "$(ls pair*)" = pair.json ] || fail "there are other files: $(ls pair*)"

run 0 sim --seed 3 --trace one.json work.lua
looks_right one.json
run 0 sim --seed 3 --trace two.json work.lua
cmp one.json two.json || fail "the same seed gives another trace"

run 0 up --cluster lab -n 2
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
sed 's/for _ = 1, 5 do/for _ = 1, 4000 do/' work.lua >long.lua
begin run --cluster lab long.lua
long=$driver
runs() { "$TIDE" tables --cluster lab --plain 2>/dev/null | grep -q '^work-1.t'; }
wait_for 10 runs
run 0 trace --cluster lab some.json --for 300ms
says err.txt '^recorded 2 nodes in some.json$'
kill -INT "$long"
wait "$long"
run 0 run --nodes 1 check.lua some.json
says out.txt '^steps [1-9][0-9]*.pulls.true$'
run 1 trace --cluster lab /no/such/place.json
says err.txt 'cannot write the trace'
run 2 trace --cluster lab some.json --for never

run 1 run --trace /no/such/place.json work.lua
says err.txt "cannot write the trace ./no/such/place.json.: No such file or directory"
run 2 sim --seeds 1..2 --trace x.json work.lua
says err.txt '\-\-trace requires one run of a script'
run 2 sim --profile calm --seed 1 --trace x.json
says err.txt '\-\-trace requires one run of a script'
finish
