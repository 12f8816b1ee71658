#!/bin/bash
# Runs of tide.descent and tide.multitask that were stopped go on from a checkpoint with the same bits; mode auto goes over
# to scheduled sets, and says why; a node with other data is refused.
. "$(dirname "$0")/harness.sh"

cat >resume.lua <<'LUA'
local tide = require "tide"
local core = require "tide.core"
local d, mtl = tide.descent, tide.multitask
local opt = tide.options {only = {"a job that is resumed; without it: all, whole and stopped", type = "string"}}
local numbers = tide.data.libsvm({generate = {train = 150, columns = 220, nonzeros = 30, classes = 0, seed = 3}},
  {labels = "number"})
local classes = tide.data.libsvm({generate = {train = 150, columns = 120, nonzeros = 20, classes = 2, seed = 3}},
  {labels = "class"})
local matrix = tide.data.matrix(tide.data.generate {rows = 60, columns = 50, train = 1500, test = 200, rank = 3, seed = 2})
local tasks = tide.data.libsvm {generate = {tasks = 6, rows = 15, columns = 8, seed = 2, test = 50}}
local signs = tide.data.libsvm {generate = {tasks = 6, rows = 15, columns = 8, seed = 2, test = 50, classes = true}}
local function related(o, name, dir)
  o.name, o.checkpoint, o.standardise, o.bias = name, {dir = dir, every = "1000s"}, false, false
  return mtl.job(o)
end
local function linear(make, o, name, dir)
  o.name, o.checkpoint, o.intercept = name, {dir = dir, every = "1000s"}, true
  return make(o)
end
local X = 2^31 // 1 -- nothing here depends on it
local cases = {
  gram = function(...) return linear(d.lasso, {data = numbers, share = 0.02, tolerance = 1e-9}, ...) end,
  sets = function(...) return linear(d.lasso, {data = numbers, share = 0.05, tolerance = 1e-7, mode = "sets",
    order = "priority", set = 12}, ...) end,
  auto = function(...) return linear(d.lasso, {data = numbers, share = 0.02, tolerance = 1e-7, gram_most = 20}, ...) end,
  folds = function(...) return linear(d.path, {model = "logistic", data = classes, lambdas = 4, ratio = 0.1, folds = 2},
    ...) end,
  ccd = function(name, dir) return d.ccd {name = name, data = matrix, rank = 3, l2 = 0.1, passes = 8,
    checkpoint = {dir = dir, every = "1000s"}} end,
  cg = function(...) return related({data = tasks, lambdas = {0.2, 0.05}, tolerance = 1e-8}, ...) end,
  sdca = function(...) return related({data = signs, loss = "logistic", relation = "learned", lambdas = {0.2, 0.05},
    tolerance = 1e-8}, ...) end,
}
local whole, stopped = {}, {}
for name, make in pairs(cases) do
  whole[name], stopped[name] = make(name .. "-whole", "whole-" .. name), make(name, name)
end
local function result(name, run)
  if name == "ccd" then return core.digest(run.tables.h:pull(core.tensor("u64", 50, 1):fill(0, 1))) end
  if name == "cg" or name == "sdca" then return core.digest(mtl.model(run).w) end
  return core.digest(d.model(run).coefficients)
end
local function fit(cluster, name, job, stop)
  local run, before = cluster:start(job), 0
  for r in run:events "report" do
    before = before + 1
    if r.n == stop then run:stop() end
  end
  run:wait()
  return result(name, run), before
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  if opt.only then return print(opt.only, (fit(cluster, opt.only, stopped[opt.only]))) end
  local names = {}
  for name in pairs(cases) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local found, reports = fit(cluster, name, whole[name])
    assert(reports > 3, name .. " is over at once")
    print(name, found)
    local ok, other = pcall(fit, cluster, name, stopped[name], 3) -- while it chooses lambda it has no model
    assert(ok and other ~= found or not ok and other.message:find "has no model", name .. " was not stopped")
  end
end)
LUA
sed -i '/^local X = /d' resume.lua
run 0 run -q resume.lua
cp out.txt whole.txt
[ "$(grep -c . whole.txt)" = 7 ] || fail "not all jobs were fitted"
while read -r name found; do
    run 0 run -q --resume "$name" resume.lua --only "$name"
    grep -q "^$name.$found\$" out.txt || fail "$name: a resumed run finds $(cat out.txt), not $found"
done <whole.txt

# Too many variables for Gram sets: auto continues by scheduled sets and finds the same; gram says what to do.
cat >auto.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local opt = tide.options {mode = {"", default = "auto"}, most = {"", default = 4096}}
local data = tide.data.libsvm({generate = {train = 150, columns = 220, nonzeros = 30, classes = 0, seed = 3}},
  {labels = "number"})
local job = d.enet {name = "net", data = data, share = 0.02, mix = 0.9, intercept = true, tolerance = 1e-9,
                    mode = opt.mode, gram_most = opt.most}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local ways, last = "", nil
  for r in run:events "report" do
    local way = ({"sets", "gram"})[(r.gram or 2) + 1]
    if way and not ways:find(way .. "$") then ways = ways .. " " .. way end
    last = r
  end
  run:wait()
  print(("found %.7f%s"):format(last.objective, ways))
end)
LUA
run 0 run auto.lua --mode gram
found=$(grep -o 'found [0-9.]*' out.txt)
[ -n "$found" ] || fail "gram finds nothing"
run 0 run auto.lua
says out.txt "^$found gram\$"
run 0 run auto.lua --most 12
says out.txt "^$found gram sets\$"
says err.txt 'variables are not 0, [0-9]+ more ought not to be, and .gram_most. is 12, so the run continues with scheduled sets'
run 0 run auto.lua --most 60 # variables that are 0 leave the set
says out.txt "^$found gram\$"
run 1 run auto.lua --mode gram --most 12
says err.txt 'ought not to be, and .gram_most. is 12'

# Each node reads another file.
cat >other.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {kind = {"", default = "lasso"}}
local file = assert(io.open("loads.txt", "a"))
file:write("x")
local seed = file:seek "end"
file:close()
local job
if opt.kind == "lasso" then
  job = tide.descent.lasso {name = "a", share = 0.1,
    data = tide.data.libsvm({generate = {train = 50, columns = 9, nonzeros = 3, classes = 0, seed = seed}})}
elseif opt.kind == "ccd" then
  job = tide.descent.ccd {name = "a",
    data = tide.data.matrix(tide.data.generate {rows = 20, columns = 20, train = 100, test = 10, rank = 2, seed = seed})}
else
  job = tide.multitask.job {name = "a", relation = {"mean", 0.5}, lambdas = 0.1,
    data = tide.data.libsvm {generate = {tasks = 3, rows = 9, columns = 4, seed = seed}}}
end
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
end)
LUA
for kind in lasso ccd tasks; do
    run 1 run -q other.lua --kind $kind
    says err.txt 'worker 2 on node n[12] has other data than worker 1 on node n[12]'
done
finish
