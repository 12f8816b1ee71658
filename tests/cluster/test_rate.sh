#!/bin/bash
# Learning rates of tables that are in use: by command and at the console, by who may; a checkpoint keeps the rate, also
# against the one in the script. Momentum beside the same in plain Lua; options of rules arrive.
. "$(dirname "$0")/harness.sh"
export TIDE_CLUSTER=lab

cat >pace.lua <<'LUA'
-- One push of 1 a step, until the rate is not 1; the sum of the steps is what the rates were.
local tide = require "tide"
local job = tide.job {
  name = "pace",
  tables = {t = tide.table {keys = tide.dense(8), width = 1, update = {"sgd", lr = 1}},
            plain = tide.table {keys = tide.dense(8), width = 1}},
  worker = function(w)
    while w.tables.t:rate() == 1 do tide.sleep(0.02) end
    w:barrier "seen"
    w.tables.t:push({0, 7}, {1, 1})
    w:report {loss = 0}
    while w.tables.t:rate() ~= 0 do tide.sleep(0.02) end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {}
  local run = cluster:start(job)
  run:wait()
  local rows = run.tables.t:pull {0, 7}
  print("rows", rows[1], rows[2])
end)
LUA
run 0 up lab -n 2 -w 1
for pid in $(cut -d' ' -f1 "$XDG_RUNTIME_DIR/tide/lab/pids"); do started+=("$pid"); done
"$TIDE" run --cluster lab --slots 2 pace.lua >pace.txt 2>pace.err </dev/null &
driver=$!
started+=("$driver")
has_table() { "$TIDE" tables --plain </dev/null 2>/dev/null | grep -q '\.t'; }
wait_for 20 has_table
run 0 attach lab -e 'tables["pace-1.t"]:rate()'
says out.txt '^1(\.0)?$'
run 2 table set t
says err.txt 'missing argument .settings.'
run 2 table set t speed=1
says err.txt 'T0105.*speed=1'
run 2 table set t rate=-1
says err.txt '-1 is no learning rate'
run 2 table set plain rate=0.5
says err.txt 'update rule add has no learning rate'
run 1 table set nobody rate=0.5
says err.txt 'T0401'
run 2 table show t rate=1
says err.txt "too many arguments"
run 4 attach lab --role read -e 'tables["pace-1.t"]:rate(0.5)'
says err.txt 'T0801.*needs role operate'
run 0 attach lab --role read -e 'tables["pace-1.t"]:rate()'
says out.txt '^1(\.0)?$'
run 0 table set t rate=0.25
says err.txt 'pace-1.t.*learning rate 0.25, consistency sequential'
run 0 table set t rate=0.25 --json
says out.txt '"rate":0.25'
run 0 attach lab --role operate -e 'tables["pace-1.t"]:rate(0)'
wait "$driver" || fail "the job: $(cat pace.err)"
says pace.txt '^rows.-0.5.-0.5$'
run 0 down lab -y
unset TIDE_CLUSTER

# ---- a checkpoint keeps the rate
cat >kept.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {steps = {"", default = 3}, to = {"a rate from step 2 on", default = 0.125}}
local job = tide.job {
  name = "kept",
  tables = {t = tide.table {keys = tide.dense(4), width = 1, update = {"sgd", lr = 1}}},
  checkpoint = {dir = "ckpt", cut = "clock"},
  worker = function(w)
    if w.rank == 1 then print("rate", w.tables.t:rate()) end
    for step = w.clocks + 1, opt.steps do
      if step == 2 then
        w:barrier "before"
        if w.rank == 1 then assert(w.tables.t:rate(opt.to)) end
        w:barrier "after"
      end
      w.tables.t:push({0, 1, 2, 3}, {1, 1, 1, 1})
      w:report {examples = 1}
      w:clock()
    end
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1}
  local run = cluster:start(job)
  run:wait()
  print("row", run.tables.t:pull({3})[1])
end)
LUA
run 0 run kept.lua
says err.txt 'rate.1(\.0)?$'
says out.txt '^row.-2.5$' # 2 and 4 x 0.125
run 0 run --resume ckpt kept.lua --steps 4
says err.txt 'rate.0.125$'
says out.txt '^row.-2.75$'

# ---- momentum beside the same in Lua, and what rules are told
cat >momentum.lua <<'LUA'
local tide = require "tide"
local function said(fields)
  local ok, err = pcall(tide.table, {keys = tide.dense(1), width = 1, update = fields})
  print(ok, ok or err.message)
end
said {"momentum", lr = 0.1, momentum = 1}
said {"nesterov", lr = 0.1, momentum = 0}
said {"momentum", lr = 0.1, beta1 = 0.9}
said {"adam", lr = 0.1, eps = 0}
local rules = {momentum = {"momentum", lr = 0.5, momentum = 0.75}, nesterov = {"nesterov", lr = 0.5},
               adagrad = {"adagrad", lr = 1, eps = 1}}
local tables = {}
for name, update in pairs(rules) do
  tables[name] = tide.table {keys = tide.dense(2), width = 5, update = update}
  if name ~= "adagrad" then
    tables[name .. "_clocked"] = tide.table {keys = tide.dense(2), width = 5, update = update, consistency = "ssp:0"}
  end
end
local STEPS <const> = 6
local job = tide.job {name = "m", tables = tables, worker = function(w)
  for step = 1, STEPS do
    for _, handle in pairs(w.tables) do
      if w.rank == 1 then handle:push({0, 1}, tide.tensor.zeros("f32", 2, 5):fill(step)) end
    end
    w:clock()
  end
end}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2, workers = 1}
  local run = cluster:start(job)
  run:wait()
  local function row(name) return run.tables[name]:pull({1})[5] end
  local wants = {adagrad = 0}
  local sum = 0
  for step = 1, STEPS do
    sum = sum + step * step
    wants.adagrad = wants.adagrad - step / (math.sqrt(sum) + 1)
  end
  for name, keep in pairs {momentum = 0.75, nesterov = 0.9} do
    local v, x = 0, 0
    for step = 1, STEPS do
      v = keep * v + step
      x = x - 0.5 * (name == "nesterov" and step + keep * v or v)
    end
    wants[name] = x
    wants[name .. "_clocked"] = x
  end
  for name, x in pairs(wants) do assert(math.abs(row(name) - x) < 1e-4 * math.abs(x), name .. " " .. row(name)) end
  print "as in Lua"
  local shared, err = pcall(run.tables.momentum.manage, run.tables.momentum, {0}, "replicate")
  print(shared, err.message)
end)
LUA
run 0 run momentum.lua
says out.txt '`momentum` is 1, not between 0 and 1'
says out.txt '`momentum` is 0, not between 0 and 1'
says out.txt 'no field `beta1`'
says out.txt '`eps` is 0, which rows'
says out.txt '^as in Lua$'
says out.txt 'updates by momentum do not add up'
finish
