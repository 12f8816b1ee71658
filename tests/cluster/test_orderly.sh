#!/bin/bash
# Orderly commands lose nothing: a node that alone holds rows waits for another one when it is told to end; a job in
# chunks is resumed by any number of workers.
. "$(dirname "$0")/harness.sh"

cat >put.lua <<'END'
local tide = require "tide"
local job = tide.job {name = "put", tables = {t = tide.table {keys = tide.dense(1000), width = 4, keep = true}},
  worker = function(w) w.tables.t:push(tide.range(0, 999), tide.tensor.zeros("f32", 1000, 4):fill(1)) w:report {} end}
tide.main(function() local c <close> = tide.cluster {} c:start(job):wait() end)
END
run 0 up solo -n 1
run 0 run --cluster solo put.lua
node=$(sed -n 2p "$XDG_RUNTIME_DIR/tide/solo/pids" | cut -d' ' -f1)
kill -TERM "$node"
sleep 0.7
kill -0 "$node" 2>/dev/null || fail "the node that alone holds rows has left"
begin node --cluster solo --join "$(cat "$XDG_RUNTIME_DIR/tide/solo/endpoint")" --name n2
for _ in $(seq 100); do kill -0 "$node" 2>/dev/null || break; sleep 0.05; done
kill -0 "$node" 2>/dev/null && fail "the node does not leave, though another one may take its rows"
TIDE_OUT=$("$TIDE" tables --cluster solo --plain 2>&1)
grep -q '	1000	' <<<"$TIDE_OUT" || fail "the rows are gone: $TIDE_OUT"
run 0 down solo -y

cat >grow.lua <<'END'
local tide = require "tide"
local opt = tide.options {stop = {"passes", default = 6}, nodes = {"nodes", default = 2},
                          chunks = {"chunks, 0: of the number of workers", default = 12}}
local job = tide.job {
  name = "grow", checkpoint = {dir = "ckpt", every = "1h"}, data = 60, chunks = opt.chunks > 0 and opt.chunks or nil,
  tables = {t = tide.table {keys = tide.dense(10), width = 1}},
  worker = function(w)
    while w.passes < opt.stop and not w:stopping() do
      for c in w:chunks() do tide.sleep(0.01) w.tables.t:push({0}, {{c.count}}) c:report {examples = c.count} end
      w:report {}
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  for r in run:events "report" do
    if r.n == 2 and opt.stop == 6 then run:set_workers(4) end
    assert(r.examples == 60, r.examples)
  end
  run:wait()
  print("SUM", run.tables.t:pull {0}[1])
end)
END
for chunks in 12 0; do
    rm -rf ckpt
    run 0 run grow.lua --chunks $chunks
    says out.txt '^SUM	360.0$'
    run 0 run --resume ckpt grow.lua --stop 8 --nodes 3 --chunks $chunks
    says out.txt '^SUM	480.0$'
done
run 1 run --resume ckpt grow.lua --stop 8 --nodes 3 --chunks 7
says err.txt 'T0705.*60 examples in'
finish
