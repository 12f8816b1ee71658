#!/bin/bash
# Lookups of a client beside training: two nodes, whose workers pull and push rows of each other without a pause.
#   bench/lookups.sh BUILD [RATE [PULLS]]   keys a second; pulls of 100 keys
# Prints latencies from when each pull was due: without training, then beside it by the lane of lookups (right read) and
# without the lane (right operate), in turn, three times.
set -eu
build=$(readlink -f "${1:?usage: bench/lookups.sh BUILD [RATE [PULLS]]}")
rate=${2:-100000} pulls=${3:-10000}
work=$(mktemp -d)
export XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$work"
trap '"$build/tide" down lookups -y >/dev/null 2>&1 || true; cd /; rm -rf "$work"' EXIT
cat >load.lua <<'END'
local tide = require "tide"
local job = tide.job {name = "load", tables = {rows = tide.table {keys = tide.dense(100000), width = 64, update = "add"}},
  worker = function(w)
    local keys <const>, step <const> = tide.tensor.zeros("u64", 1000), tide.tensor.zeros("f32", 1000, 64)
    w:report {examples = 1}
    while not w:stopping() do
      for i = 1, #keys do keys[i] = w.rng:below(100000) end
      if w.params.busy then
        w.tables.rows:pull(keys)
        w.tables.rows:push(keys, step)
      else
        tide.sleep(0.05)
      end
      w:report {examples = #keys}
    end
  end, params = {busy = false}}
tide.main(function() local c <close> = tide.cluster {} c:start(job):wait() end)
END
"$build/tide" up --cluster lookups -n 2 >/dev/null
"$build/tide" submit --cluster lookups load.lua >/dev/null
for _ in $(seq 100); do "$build/tide" tables --cluster lookups --plain 2>/dev/null | grep -q rows && break; sleep 0.1; done
client() { printf '%-34s' "$1"; "$build/bench/bench_client" lookups rows "$pulls" "$rate" "$2"; }
client "idle, right read" 1
"$build/tide" job set load-1 busy=true --cluster lookups >/dev/null
sleep 1
for _ in 1 2 3; do
    client "beside training, right read" 1
    client "beside training, right operate" 2
done
