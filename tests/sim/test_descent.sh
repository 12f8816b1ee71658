#!/bin/bash
# Descent and multi-task learning among simulated nodes: workers that die at any message, that join and are dropped,
# slow links; what is found is the same; a straggler and deadlines; a planted mistake.
. "$(dirname "$0")/harness.sh"

cat >descent.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local d = tide.descent
local opt = tide.options {change = {"", default = "none", choices = {"none", "crashes", "joins", "slow"}},
  mode = {"", default = "gram"}, model = {"", default = "lasso"}}
local data = tide.data.libsvm({generate = {train = 120, columns = 150, nonzeros = 20, seed = 3,
  classes = opt.model == "logistic" and 2 or 0}}, {labels = opt.model == "logistic" and "class" or "number"})
local job
if opt.mode == "path" then
  job = d.path {name = "job", model = opt.model, data = data, lambdas = 6, ratio = 0.05, folds = 2, intercept = true}
elseif opt.mode == "own" then
  job = nil
else
  job = d[opt.model] {name = "job", data = data, share = 0.1, intercept = true, mode = opt.mode,
    tolerance = opt.mode == "sets" and 1e-6 or 1e-10, set = opt.mode == "sets" and 12 or nil,
    ahead = opt.mode == "sets" and 2 or nil}
end

-- At any moment of what comes next.
local function crash(node)
  local us <const> = 1e6 * require "tide.core".now() // 1 + sim.rng:below(8000)
  sim.fault("crash", {node = node, at = ("%dus"):format(us)})
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.change == "joins" and 2 or 4, servers = 1}
  if opt.change == "slow" then sim.fault("slow", {node = "n2", factor = 8, at = "0s"}) end
  local run = cluster:start(job)
  local last
  for r in run:events "report" do
    last = r
    if opt.change == "crashes" and (r.n == 1 or r.n == 3) then crash("n" .. (r.n == 1 and 2 or 3)) end
    if opt.change == "joins" and r.n == 1 then run:set_workers(3) end
    if opt.change == "joins" and r.n == 3 then run:drop_worker(1) end
  end
  local s = run:wait()
  local m, sum, squares = d.model(run), 0, 0
  for j, v in pairs(m.coefficients) do sum, squares = sum + j * v, squares + v * v end
  print(("found %.5f %.4f %.4f %.4f"):format(last.objective, sum / 1000, squares, m.intercept))
  print("lost", s.workers_lost)
end)
LUA

cat >tasks.lua <<'LUA'
local tide = require "tide"
local sim = require "tide.sim"
local mtl = tide.multitask
local opt = tide.options {change = {"", default = "none", choices = {"none", "crashes", "joins"}},
  solver = {"", default = "sdca"}, loss = {"", default = "squared"}}
local data = tide.data.libsvm {generate = {tasks = 6, rows = 15, columns = 8, seed = 2, test = 50,
  classes = opt.loss ~= "squared" or nil}}
local job = mtl.job {name = "tasks", data = data, loss = opt.loss, solver = opt.solver, relation = {"mean", 0.5},
  lambdas = {0.2, 0.1, 0.05}, validate = 0.2, standardise = false, bias = false, tolerance = 1e-9, rounds = 2000}
local function crash(node)
  local us <const> = 1e6 * require "tide.core".now() // 1 + sim.rng:below(8000)
  sim.fault("crash", {node = node, at = ("%dus"):format(us)})
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.change == "joins" and 2 or 4, servers = 1}
  local run = cluster:start(job)
  local last
  for r in run:events "report" do
    last = r
    assert(r.gap > -1e-12 * r.primal, ("gap %g"):format(r.gap))
    if opt.change == "crashes" and r.n <= 2 then crash("n" .. (r.n + 1)) end
    if opt.change == "joins" and r.n == 1 then run:set_workers(3) end
    if opt.change == "joins" and r.n == 2 then run:drop_worker(1) end
  end
  run:wait()
  print(("found %.5f %.4f"):format(last.primal, mtl.model(run):rmse "test"))
end)
LUA

found() { grep '^found' out.txt; }

for mode in "gram lasso" "gram logistic" "path lasso" "sets lasso"; do
    set -- $mode
    run 0 sim --seed 1 descent.lua --mode $1 --model $2
    want=$(found)
    [ -n "$want" ] || fail "nothing is found by $mode"
    for seed in 1 2; do
        run 0 sim --seed $seed descent.lua --mode $1 --model $2 --change crashes
        [ "$(found)" = "$want" ] || fail "$mode, crashes of seed $seed: $(found), not $want"
    done
    run 0 sim --seed 2 descent.lua --mode $1 --model $2 --change joins
    [ "$(found)" = "$want" ] || fail "$mode, joins: $(found), not $want"
done
run 0 sim --seed 1 --check-determinism descent.lua --change crashes

# A slow worker gets less: what is found is the same.
run 0 sim --seed 1 descent.lua --mode path
want=$(found)
run 0 sim --seed 1 descent.lua --mode path --change slow
[ "$(found)" = "$want" ] || fail "path with a slow worker: $(found), not $want"
says err.txt 'by speed, workers get 3[0-9], [34], 3[0-9], 3[0-9] % of the work'

for way in "sdca squared" "cg squared" "sdca logistic"; do
    set -- $way
    run 0 sim --seed 1 tasks.lua --solver $1 --loss $2
    want=$(found)
    for seed in 1 2; do
        run 0 sim --seed $seed tasks.lua --solver $1 --loss $2 --change crashes
        [ "$(found)" = "$want" ] || fail "$way, crashes of seed $seed: $(found), not $want"
    done
    run 0 sim --seed 2 tasks.lua --solver $1 --loss $2 --change joins
    [ "$(found)" = "$want" ] || fail "$way, joins: $(found), not $want"
done
run 0 sim --seed 1 --check-determinism tasks.lua --change crashes

# Tasks that go and come while it runs: as if they had been so from the beginning; a task that is left out has what the
# others say of it.
cat >come.lua <<'LUA'
local tide = require "tide"
local mtl = tide.multitask
local opt = tide.options {solver = {"", default = "cg"}, at_first = {"", default = ""}, later = {"", default = ""}}
local function list(text)
  local numbers = {}
  for word in text:gmatch "%d+" do numbers[#numbers + 1] = math.tointeger(tonumber(word)) end
  return numbers
end
local data = tide.data.libsvm {generate = {tasks = 6, rows = 15, columns = 8, seed = 2, test = 50}}
local job = mtl.job {name = "tasks", data = data, solver = opt.solver, relation = {"mean", 0.5}, rounds = 2000,
  lambdas = {0.2, 0.1, 0.05}, standardise = false, bias = false, tolerance = 1e-10, without = list(opt.at_first)}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 3}
  local run, last = cluster:start(job), nil
  for r in run:events "report" do
    if r.n == 2 and opt.later ~= opt.at_first then run:set {without = list(opt.later)} end
    last = r
  end
  run:wait()
  local model = mtl.model(run)
  local norm = 0
  for k = 1, 8 do norm = norm + model.w[16 + k] ^ 2 end
  assert(norm > 0.01, "a task that is left out has no parameters")
  print(("found %.6f %.2f"):format(last.primal, model:errors "test"[3].squares))
end)
LUA
for solver in cg sdca; do
    run 0 sim --seed 1 come.lua --solver $solver --at-first 3 --later 3
    without=$(found)
    run 0 sim --seed 1 come.lua --solver $solver --at-first "3 5" --later 3
    [ "$(found)" = "$without" ] || fail "$solver, a task comes: $(found), not $without"
    run 0 sim --seed 1 come.lua --solver $solver
    whole=$(found)
    [ "$whole" != "$without" ] || fail "a task more makes no difference"
    run 0 sim --seed 1 come.lua --solver $solver --at-first 3
    [ "$(found)" = "$whole" ] || fail "$solver, task 3 comes: $(found), not $whole"
    run 0 sim --seed 1 come.lua --solver $solver --later 3
    [ "$(found)" = "$without" ] || fail "$solver, task 3 goes: $(found), not $without"
done
run 1 sim --seed 1 come.lua --at-first 9 --later 9
says err.txt 'without: there is no task 9'
run 1 sim --seed 1 come.lua --at-first "1 2 3 4 5 6" --later ""
says err.txt 'without: no task is left'

# One worker of four is ten times slower, all the time or now and then: sdca with deadlines.
run 0 sim --seed 1 "$root/bench/multitask.lua"
awk '{ for (i = 1; i < NF; i++) if ($i == "deadlines") { t = $(i + 5) } } /^multitask straggler/ { k++; ok += t <= 2 }
     END { exit !(k == 2 && ok == 2) }' out.txt || fail "with deadlines rounds take too long: $(cat out.txt)"
finish
