#!/bin/bash
# A node dies while a run starts, at every step: as its tables are made, its script is loaded, its workers start.
. "$(dirname "$0")/harness.sh"

cat >start.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local sim = require "tide.sim"
local opt = tide.options {
  who = {"node that dies", default = "s1"},
  within = {"ms of the start", default = 100},
  shared = {"slots are waited for", type = "boolean", default = false},
}
local PASSES <const>, EXAMPLES <const> = 2, 40
local tables = {}
for i = 1, 10 do tables["t" .. i] = tide.table {keys = tide.dense(1000), width = 2, replicas = 1} end
local job = tide.job {name = "count", data = EXAMPLES, chunks = 8, stop = {epochs = PASSES}, tables = tables,
  worker = function(w)
    for pass = w.passes + 1, PASSES do
      for c in w:chunks(pass) do
        w.tables.t1:push({1}, {{c.count, 1}})
        c:report {examples = c.count}
      end
      w:report {loss = 1}
      if w:stopping() then break end
    end
  end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, servers = 3, workers = 2}
  if opt.shared then cluster:schedule "scheduling/fifo" end
  sim.net {latency = {"20us", "2ms"}}
  core.fiber(function()
    core.sleep(opt.within / 1000 * sim.rng:uniform())
    sim.fault("crash", {node = opt.who})
  end)
  local run = cluster:start(job, nil, opt.shared and {slots = 2} or nil)
  local examples = 0
  for r in run:events "report" do examples = examples + r.examples end
  run:wait()
  print(run:state(), examples)
end)
LUA
for seed in $(seq 1 5); do
    for how in "--who s1" "--who n2" "--who s1 --shared" "--who n2 --shared"; do
        # shellcheck disable=SC2086
        run 0 sim --seed $seed start.lua $how
        says out.txt '^done	80$'
    done
done
finish
