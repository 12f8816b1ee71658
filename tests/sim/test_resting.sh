#!/bin/bash
# Tables with clocks rest until they are used: they cost a run nothing, and who uses one late sees in it what the model
# promises, wherever its rows live.
. "$(dirname "$0")/harness.sh"

cat >resting.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {idle = {"tables that nobody uses", default = 0}, late = {"use the others from here on", default = 20}}
local MODELS = {"bsp", "ssp:1", "essp:1", "essp:0", "vap:0.5", "async"}
local tables = {w = tide.table {keys = tide.dense(400), width = 1, consistency = "bsp"}}
for i, model in ipairs(MODELS) do
  if opt.late > 0 then tables["late" .. i] = tide.table {keys = tide.dense(400), width = 1, consistency = model} end
end
for i = 1, opt.idle do tables["idle" .. i] = tide.table {keys = tide.dense(400), width = 1, consistency = "bsp"} end
local job = tide.job {name = "rest", tables = tables, worker = function(w)
  local keys, ones = tide.range(0, 399), tide.tensor.zeros("f32", 400, 1):fill(1)
  for clock = 1, 40 do
    w.tables.w:pull(keys)
    w.tables.w:push(keys, ones)
    if opt.late > 0 and clock > opt.late + w.rank then -- one worker after the other
      for i, model in ipairs(MODELS) do
        local t = w.tables["late" .. i]
        local rows, bound = t:pull(keys), tonumber(model:match "ssp:(%d)") or model == "bsp" and 0
        -- Each of the others that had begun, up to the bound.
        local least = clock - 1 - opt.late - w.rank -- its own
        for other = 1, w.workers do
          if other ~= w.rank and bound then least = least + math.max(0, clock - 1 - bound - opt.late - other) end
        end
        assert(not bound and rows:min() >= 0 or bound and rows:min() >= least and rows:min() == rows:min(),
          ("%s at clock %d of %d: %g, not %s"):format(model, clock, w.rank, rows:min(), least))
        if model == "bsp" then assert(rows:max() == least and rows:min() == least, "bsp is not exact") end
        t:push(keys, ones)
      end
    end
    w:clock()
  end
  w:report {examples = 1}
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run = cluster:start(job)
  local bytes = run:wait().wire_bytes
  if opt.late > 0 then
    for i, model in ipairs(MODELS) do
      local rows, all = run.tables["late" .. i]:pull(tide.range(0, 399)), 3 * (40 - opt.late) - 6
      assert(rows:min() == all and rows:max() == all, ("%s: %g to %g, not %d"):format(model, rows:min(), rows:max(), all))
    end
  end
  print("BYTES", bytes)
end)
LUA
for seed in 1 2 3; do run 0 sim --seed $seed resting.lua; done
run 0 sim --seed 1 resting.lua --late 0
alone=$(sed -n 's/^BYTES\t//p' out.txt)
run 0 sim --seed 1 resting.lua --late 0 --idle 15
beside=$(sed -n 's/^BYTES\t//p' out.txt)
[ $((beside * 10)) -lt $((alone * 12)) ] || fail "15 idle tables make $alone bytes $beside"
finish
