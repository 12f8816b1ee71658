#!/bin/bash
# A table's learning rate is changed while its job runs, and whoever commands crashes about then: all steps before it
# are of the old rate and all behind it of the new one, also on a node that joins, and one seed is one run.
. "$(dirname "$0")/harness.sh"

cat >rate.lua <<'END'
local tide = require "tide"
local sim = require "tide.sim"
local opt = tide.options {controllers = {"nodes that know what is decided", default = 1}}
local KEYS <const> = 200
local rule = {"sgd", lr = 1}
local function t(o)
  o.keys, o.width, o.update = tide.dense(KEYS), 2, rule
  return tide.table(o)
end
local job = tide.job {
  name = "rate",
  tables = {plain = t {}, clocked = t {consistency = "bsp"}, relocating = t {technique = "relocate"}},
  worker = function(w)
    local keys, ones = tide.range(0, KEYS - 1), tide.tensor.zeros("f32", KEYS, 2):fill(1)
    for step = 1, 100 do
      for _, handle in pairs(w.tables) do handle:push(keys, ones) end
      w:clock()
      w:report {pushes = 1}
      if step == 40 then
        w:barrier "before"
        if w.rank == 1 then
          for _, handle in pairs(w.tables) do assert(handle:rate(0.5)) end
        end
        w:barrier "after"
      end
      tide.sleep "10ms"
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1, servers = 1,
    controllers = opt.controllers > 1 and opt.controllers or nil}
  if opt.controllers > 1 then sim.fault("crash", {node = "c1", at = tide.now() + 0.3 + 0.5 * sim.rng:uniform()}) end
  local run, joined = cluster:start(job), nil
  for report in run:events "report" do
    if report.n == 60 then
      cluster:add_node()
      for _, m in ipairs(cluster.nodes()) do joined = m.name == "s2" and m.id or joined end
      local slots = {}
      for slot = 0, 4095 do slots[slot + 1] = slot end
      assert(run.tables.plain:move(slots, joined))
    end
  end
  run:wait()
  for _, name in ipairs {"plain", "clocked", "relocating"} do
    local handle = run.tables[name]
    local rows = handle:pull(tide.range(0, KEYS - 1))
    print(name, rows:min(), rows:max(), handle:rate(), handle.spec.update.lr)
  end
  print("home", next(run.tables.plain:homes()) == joined)
end)
END
exact() {
    for name in plain clocked relocating; do says out.txt "^$name.-140.0.-140.0.0.5.1.0$"; done
    says out.txt '^home.true$'
}
run 0 sim --seed 3 rate.lua
exact
first=$(hash_of err.txt)
run 0 sim --seed 3 rate.lua
same "$first" "$(hash_of err.txt)" "a run whose rate changes"
if [ -e "$(dirname "$TIDE")/tide_raft.so" ]; then
    for seed in 1 2 3 4; do
        run 0 sim --seed "$seed" rate.lua -- --controllers 3
        exact
    done
fi
finish
