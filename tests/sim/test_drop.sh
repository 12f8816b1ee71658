#!/bin/bash
# Tables of every technique are dropped while workers push, pull, localize and clock: all operations end, the names are
# free at once, the next run's rows begin at zero, and nothing of the dropped ones stays.
. "$(dirname "$0")/harness.sh"

cat >drop.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {rounds = {"rounds", default = 3}, seed = {"seed", default = 1}}
local WAYS = {
  plain = {}, relocate = {technique = "relocate"}, intent = {technique = "intent"},
  replicate = {technique = "replicate"}, hashed = {keys = tide.hashed {}}, strict = {replicas = 1},
  window = {replicas = 1, durability = "window"}, ssp = {consistency = "ssp:1"}, essp = {consistency = "essp:1"},
  bsp = {consistency = "bsp"}, vap = {consistency = "vap:0.5"}, async = {consistency = "async"},
}
local names, tables = {}, {}
for name, more in pairs(WAYS) do
  local spec = {keys = tide.dense(200), width = 4}
  for k, v in pairs(more) do spec[k] = v end
  names[#names + 1], tables[name] = name, tide.table(spec)
end
table.sort(names)
local job = tide.job {
  name = "work", tables = tables,
  worker = function(w)
    local ones = tide.tensor.zeros("f32", 8, 4)
    ones:fill(1)
    local refused, round = 0, 0
    repeat
      round = round + 1
      for _, name in ipairs(names) do
        local t, keys = w.tables[name], {}
        for i = 1, 8 do keys[i] = w.rng:below(25) * 8 + i - 1 end
        local ok, err = pcall(function()
          if name == "intent" then w:intent(t, keys, w.clocks + 1, w.clocks + 3) end
          if name == "relocate" and round % 3 == 0 then t:localize(keys, {async = true}) end
          t:push(keys, ones, {async = w.rng:below(2) == 0})
          if round % 4 == 0 then t:pull(keys) end
        end)
        if not ok and err.name ~= "ECLOSED" and err.name ~= "ENOENT" then error(err, 0) end
        refused = refused + (ok and 0 or 1)
      end
      w:clock()
      if round % 20 == 0 then tide.sleep(0.0005) end
    until w:stopping()
    w:report {refused = refused}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, workers = 2}
  for round = 1, opt.rounds do
    local run = cluster:start(job)
    while run:state() ~= "running" do tide.sleep(0.001) end
    if round == 1 then run.tables.replicate:manage({0, 8, 16}, "replicate") end
    for _, name in ipairs(names) do
      if run.tables[name].spec.consistency == nil then
        assert(round > 1 or run.tables[name]:pull({199})[1] < 1e6, name)
      end
    end
    tide.sleep(0.005 + 0.01 * round)
    local at = core.now()
    for _, name in ipairs(names) do
      local ok, err = core.table_drop(run.table_names[name])
      if not ok then error(err, 0) end
      local again, problem = core.table {name = run.table_names[name], keys = {"dense", 10}, width = 1}
      if not again then error(problem, 0) end
      assert(again:pull({1})[1] == 0 and select("#", again:push({1}, {{2}})) >= 0 and again:pull({1})[1] == 2)
      assert(core.table_drop(run.table_names[name])) -- it is no table of the run, which leaves it
    end
    local took <const> = core.now() - at
    run:stop()
    local refused = 0
    for r in run:events "report" do refused = refused + r.refused end
    run:close()
    assert(took < 5, ("a drop of all took %g s"):format(took))
    print(("round %d: %s, %d tables left"):format(round, refused > 0 and "refused" or "nothing refused",
      #core.tables()))
  end
end)
LUA
for seed in 1 2; do
  run 0 sim --seed $seed drop.lua
  says out.txt '^round 3: refused, 0 tables left'
done
run 0 run drop.lua --rounds 4
says out.txt '^round 4: refused, 0 tables left'

# Far nodes: workers wait for copies that come, and for others to see their pushes, when the table goes.
cat >waits.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local opt = tide.options {rounds = {"rounds", default = 4}, after = {"ms before the first drop", default = 3}}
local names = {"intent", "replicate", "vap"}
local job = tide.job {
  name = "work", tables = {
    intent = tide.table {keys = tide.dense(2000), width = 4, technique = "intent"},
    replicate = tide.table {keys = tide.dense(2000), width = 4, technique = "replicate"},
    vap = tide.table {keys = tide.dense(40), width = 4, consistency = "vap:0.5"},
  },
  worker = function(w)
    local ones = tide.tensor.zeros("f32", 8, 4)
    ones:fill(1)
    local refused = 0
    repeat
      for _, name in ipairs(names) do
        local t, keys = w.tables[name], {}
        local blocks <const> = name == "vap" and 5 or 250
        for i = 1, 8 do keys[i] = w.rng:below(blocks) * 8 + i - 1 end
        local ok, err = pcall(function()
          if name == "intent" then w:intent(t, keys, w.clocks, w.clocks + 3) end
          for _ = 1, 6 do
            t:push(keys, ones, {async = true})
            tide.sleep(0.0003)
          end
          t:pull(keys)
        end)
        if not ok and err.name ~= "ECLOSED" and err.name ~= "ENOENT" then error(err, 0) end
        refused = refused + (ok and 0 or 1)
      end
      w:clock()
      tide.sleep(0.0002)
    until w:stopping()
    w:report {refused = refused}
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3, workers = 2}
  for round = 1, opt.rounds do
    local run = cluster:start(job)
    while run:state() ~= "running" do tide.sleep(0.001) end
    tide.sleep(0.001 * opt.after * round)
    for _, name in ipairs(names) do assert(core.table_drop(run.table_names[name])) end
    run:stop()
    local refused = 0
    for r in run:events "report" do refused = refused + r.refused end
    run:close()
    print(("round %d: %s, %d tables left"):format(round, refused > 0 and "refused" or "nothing refused",
      #core.tables()))
  end
end)
LUA
for seed in 1 2; do
  run 0 sim --latency 500us --seed $seed waits.lua --after $((seed * 2))
  says out.txt '^round 4: refused, 0 tables left'
done
finish
