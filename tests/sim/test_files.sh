#!/bin/bash
# Files that a script writes under `tide sim` are there when it has ended, as under `tide run`, and change nothing in
# the simulation; a range of seeds leaves none.
. "$(dirname "$0")/../cluster/harness.sh"

cat >files.lua <<'LUA'
local tide = require "tide"
local job = tide.job {name = "j", worker = function(w) w:report {examples = 1, seconds = tide.now()} end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local points = {}
  for r in run:events "report" do points[#points + 1] = {r.elapsed_s, r.examples} end
  run:wait()
  assert(tide.chart.write("charts/of/one.svg", {{title = "one", series = {{name = "a", points = points}}}}))
  tide.tensor.save(os_there .. "/three.npy", tide.tensor.from("f32", {1, 2, 3}))
end)
LUA
mkdir there
sed -i "s|os_there|\"$PWD/there\"|" files.lua
"$TIDE" sim --seed 3 files.lua >out.txt 2>err.txt </dev/null || fail "$(cat err.txt)"
says charts/of/one.svg '<polyline'
says err.txt 'sim: charts/of/one.svg, [0-9]+ bytes'
[ "$(head -c 6 there/three.npy | tail -c 5)" = NUMPY ] || fail "three.npy: $(head -c 40 there/three.npy)"
[ ! -e .tide ] || fail "the simulation left a run: $(find .tide)"
hash=$(grep -o 'hash [0-9a-f]*' err.txt)
rm -r charts there/three.npy

"$TIDE" sim --seed 3 --no-files files.lua >out.txt 2>err.txt </dev/null || fail "$(cat err.txt)"
[ ! -e charts ] || fail "--no-files leaves files"
[ "$(grep -o 'hash [0-9a-f]*' err.txt)" = "$hash" ] || fail "files change the course: $hash, $(cat err.txt)"
"$TIDE" sim --seeds 3..4 files.lua >out.txt 2>err.txt </dev/null || fail "$(cat err.txt)"
says out.txt "seed 3 .*$hash"
[ ! -e charts ] && [ -z "$(ls there)" ] || fail "seeds leave files: $(find . -newer files.lua)"

# A place that cannot be written to.
sed -i 's|charts/of|/proc/charts|' files.lua
"$TIDE" sim --seed 3 files.lua >out.txt 2>err.txt </dev/null && fail "a file in /proc was written"
says err.txt '/proc/charts'
finish
