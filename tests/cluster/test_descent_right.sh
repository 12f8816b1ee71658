#!/bin/bash
# Fits of tide.descent against loops of this script in f64: columns whose mean is far above their deviation, weights,
# folds; and what a run says that does not come to its tolerance, or to its end.
. "$(dirname "$0")/harness.sh"

cat >reference.lua <<'LUA'
local reference = {}

---Cyclic descent on centred columns: 1/2 sum w (y - b - X x)^2 + lambda |x|_1, to the last digit.
function reference.fit(rows, labels, weights, lambda)
  local n, J, weight, mean_y = #rows, #rows[1], 0, 0
  for i = 1, n do weight, mean_y = weight + weights[i], mean_y + weights[i] * labels[i] end
  mean_y = mean_y / weight
  local columns, means, squares, r, x = {}, {}, {}, {}, {}
  for i = 1, n do r[i] = labels[i] - mean_y end
  for j = 1, J do
    local sum, own, square = 0, {}, 0
    for i = 1, n do sum = sum + weights[i] * rows[i][j] end
    means[j] = sum / weight
    for i = 1, n do
      own[i] = rows[i][j] - means[j]
      square = square + weights[i] * own[i] ^ 2
    end
    columns[j], squares[j], x[j] = own, square, 0
  end
  for _ = 1, 400 do
    for j = 1, J do
      local z = squares[j] * x[j]
      for i = 1, n do z = z + weights[i] * columns[j][i] * r[i] end
      local to = z > lambda and (z - lambda) / squares[j] or z < -lambda and (z + lambda) / squares[j] or 0
      if to ~= x[j] then
        for i = 1, n do r[i] = r[i] - columns[j][i] * (to - x[j]) end
        x[j] = to
      end
    end
  end
  local objective, b = 0, mean_y
  for i = 1, n do objective = objective + weights[i] * r[i] ^ 2 / 2 end
  for j = 1, J do objective, b = objective + lambda * math.abs(x[j]), b - means[j] * x[j] end
  return {objective = objective, x = x, b = b}
end

function reference.predict(fit, row)
  local sum = fit.b
  for j, v in ipairs(row) do sum = sum + fit.x[j] * v end
  return sum
end

return reference
LUA

cat >right.lua <<'LUA'
local tide = require "tide"
local reference = require "reference"
local d = tide.descent
local opt = tide.options {nodes = {"", default = 1}}

---As f32 holds it, which is what data is kept in.
local function single(v) return (string.unpack("f", string.pack("f", v))) end

-- Column 2 is 200,000 +- 1 and column 3 is 1,000,000 +- 3; an example of weight 0 has neither.
local random, rows, labels, weights, lines = tide.random(3), {}, {}, {}, {}
local function normal() return math.sqrt(-2 * math.log(1 - random:uniform())) * math.cos(2 * math.pi * random:uniform()) end
for i = 1, 61 do
  local a, z, u = normal(), normal(), normal()
  rows[i] = {single(a), single(2e5 + z), single(1e6 + 3 * u), single(normal())}
  labels[i], weights[i] = single(3e5 + a - 2 * z + u / 2 + 0.3 * normal()), i % 3 == 0 and 2 or 0.5
  local words = {("%.9g"):format(labels[i])}
  for j, v in ipairs(rows[i]) do words[#words + 1] = ("%d:%.9g"):format(j, v) end
  lines[i] = table.concat(words, " ")
end
rows[62], labels[62], weights[62], lines[62] = {1, 0, 0, 1}, 7, 0, "7 1:1 4:1"
local file = assert(io.open("offset-" .. opt.nodes .. ".svm", "w"))
file:write(table.concat(lines, "\n"), "\n")
file:close()

local data = tide.data.libsvm("offset-" .. opt.nodes .. ".svm")
local fits = {d.lasso {name = "by-gram", data = data, lambda = 2, intercept = true, weights = weights, tolerance = 1e-12},
  d.lasso {name = "by-sets", data = data, lambda = 2, intercept = true, weights = weights, tolerance = 1e-10, mode = "sets"}}
local path = d.path {name = "path", data = data, lambdas = {8, 2}, folds = 4, intercept = true, weights = weights,
                     tolerance = 1e-12}

local function near(what, a, b, by)
  assert(math.abs(a - b) <= by * math.abs(b), ("%s: %.17g, not %.17g"):format(what, a, b))
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local want = reference.fit(rows, labels, weights, 2)
  for _, job in ipairs(fits) do
    local run, last = cluster:start(job), nil
    for r in run:events "report" do last = r end
    run:wait()
    local m = d.model(run)
    near(job.name .. ": objective", last.objective, want.objective, 1e-9)
    for j, v in ipairs(want.x) do near(("%s: x[%d]"):format(job.name, j), m.coefficients[j], v, 1e-4) end
    near(job.name .. ": intercept", m.intercept, want.b, 1e-4)
    assert(not m.stopped, "a run that has ended was not stopped")
  end

  -- A fold: the examples it leaves out have weight 0, and lambda the share of weight of the others.
  local run, last, sums, all = cluster:start(path), nil, {}, 0
  for i = 1, 62 do all = all + weights[i] end
  for r in run:events "report" do
    if r.held then
      sums[r.lambda] = sums[r.lambda] or {error = 0, weight = 0}
      sums[r.lambda].error, sums[r.lambda].weight = sums[r.lambda].error + r.held_out, sums[r.lambda].weight + r.held
    end
    last = r
  end
  run:wait()
  local order, fold_of, at = require("tide.data").order(62, 1), {}, 0
  for _, i in pairs(order) do
    i = math.tointeger(i) + 1
    if weights[i] > 0 then fold_of[i], at = at % 4 + 1, at + 1 end
  end
  local least, best = math.huge, nil
  for _, lambda in ipairs {8, 2} do
    local error = 0
    for fold = 1, 4 do
      local own, kept = {}, 0
      for i = 1, 62 do
        own[i] = fold_of[i] == fold and 0 or weights[i]
        kept = kept + own[i]
      end
      local fit = reference.fit(rows, labels, own, lambda * kept / all)
      for i = 1, 62 do
        if fold_of[i] == fold then error = error + weights[i] * (labels[i] - reference.predict(fit, rows[i])) ^ 2 end
      end
    end
    near("error of held-out examples", sums[lambda].error, error, 1e-5)
    near("weight of held-out examples", sums[lambda].weight, all, 1e-12)
    if error < least then least, best = error, lambda end
  end
  near("best error", last.best_error, least / all, 1e-5)
  assert(last.best_lambda == best, "another penalty is best")
  print "all right"
end)
LUA
for nodes in 1 3; do
    run 0 run -q right.lua --nodes $nodes
    says out.txt 'all right'
done

# Dense columns of 5,000 +- 1 and 10,000 +- 3 without an intercept: f32 products do not tell them apart, f64 ones do.
cat >dense.lua <<'LUA'
local tide = require "tide"
local N, J = 60, 4
if not io.open "dense.safetensors" then
  local random, x, y = tide.random(5), {}, {}
  for _ = 1, N do
    local a, b = 2 * random:uniform() - 1, 2 * random:uniform() - 1
    for _, v in ipairs {a, 5e3 + b, 1e4 + 3 * random:uniform(), random:uniform()} do x[#x + 1] = v end
    y[#y + 1] = a - 2 * b + random:uniform()
  end
  local head = ('{"x":{"dtype":"F32","shape":[%d,%d],"data_offsets":[0,%d]},"y":{"dtype":"F32","shape":[%d],'
    .. '"data_offsets":[%d,%d]}}'):format(N, J, 4 * N * J, N, 4 * N * J, 4 * N * (J + 1))
  local file = assert(io.open("dense.safetensors", "wb"))
  file:write(string.pack("<s8", head), string.pack(("f"):rep(N * J), table.unpack(x)), string.pack(("f"):rep(N),
    table.unpack(y)))
  file:close()
end
local job = tide.descent.lasso {name = "dense", data = tide.data.dense("dense.safetensors", {x = "x", y = "y"}),
                                lambda = 0.5, tolerance = 1e-7, mode = "gram"}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  local run, last = cluster:start(job), nil
  for r in run:events "report" do last = r end
  run:wait()
  assert(last.gap <= 1e-7 * last.objective, ("gap %g of %g"):format(last.gap, last.objective))
  assert(last.rounds < 30, "it steers by f32 products: " .. last.rounds .. " rounds")
  print "steers well"
end)
LUA
run 0 run dense.lua
says out.txt "steers well"
says_not err.txt 'warning'

# What is left out, what does not reach its tolerance, and a class that is too rare for the folds: said, once.
for i in $(seq 40); do echo "$((i % 5)) 1:$((i % 7)) 2:7 4:$((i % 3))"; done >constant.svm
for i in $(seq 40); do echo "$((i == 1 ? 1 : -1)) 1:$((i % 7)) 2:$((i % 3))"; done >rare.svm
cat >says.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local constant, rare = tide.data.libsvm "constant.svm", tide.data.libsvm "rare.svm"
local jobs = {
  d.lasso {name = "constant", data = constant, lambda = 1, intercept = true},
  d.lasso {name = "gram", data = constant, lambda = 1, tolerance = 1e-17, mode = "gram"},
  d.lasso {name = "sets", data = constant, lambda = 1, tolerance = 1e-17, mode = "sets"},
  d.ccd {name = "factors", data = tide.data.matrix(tide.data.generate {rows = 30, columns = 20, train = 300, test = 9,
         rank = 2, seed = 1}), rank = 2, passes = 2, tolerance = 1e-9},
  d.path {name = "rare", data = rare, model = "logistic", lambdas = 3, ratio = 0.1, folds = 4, intercept = true},
}
local nothing = {d.lasso {name = "nothing-gram", data = constant, lambda = 1e6, intercept = true, mode = "gram"},
  d.lasso {name = "nothing-sets", data = constant, lambda = 1e6, intercept = true, mode = "sets"}}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  for _, job in ipairs(jobs) do cluster:start(job):wait() end
  for _, job in ipairs(nothing) do -- no coefficient is the best: that is a model
    local run = cluster:start(job)
    run:wait()
    local m = d.model(run)
    assert(not next(m:nonzero()) and math.abs(m.intercept - 2) < 1e-12 and not m.stopped, "nothing is found otherwise")
  end
end)
LUA
run 0 run says.lua
says err.txt 'note: 1 of 4 columns are constant, their coefficients stay 0: 2$'
[ "$(grep -c 'warning: tolerance 1e-17 is not reached: nothing gets better any more in f64 at a gap of' err.txt)" = 2 ] ||
    fail "two fits do not reach their tolerance: $(cat err.txt)"
says err.txt 'warning: tolerance 1e-09 is not reached: pass 2, the last of `passes`, gained [0-9.]+ of the objective'
[ "$(grep -c 'warning: a class has 1 example for 4 folds' err.txt)" = 1 ] || fail "the rare class: $(cat err.txt)"

# A run that is stopped has the model it had come to; one that is stopped in its folds has none.
cat >stopped.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local opt = tide.options {job = {"", default = "sets"}, interrupt = {"as by Ctrl-C", default = false}}
local data = tide.data.libsvm {generate = {train = 300, columns = 400, nonzeros = 20, classes = 0, seed = 1}}
local matrix = tide.data.matrix(tide.data.generate {rows = 90, columns = 60, train = 2000, test = 9, rank = 4, seed = 1})
local jobs = {
  sets = d.lasso {name = "sets", data = data, share = 0.01, tolerance = 1e-14, mode = "sets"},
  gram = d.lasso {name = "gram", data = data, share = 0.01, tolerance = 1e-14, mode = "gram"},
  path = d.path {name = "path", data = data, lambdas = 2, ratio = 0.5, folds = 4},
  factors = d.ccd {name = "factors", data = matrix, rank = 4, passes = 100},
  own = d.job {name = "own", variables = 6, set = 2, rounds = 1 << 40, -- without end
    push = function(_, set, x)
      local sums = {}
      for k, j in ipairs(set) do sums[k] = (j - x[j]) / 2 end
      return sums
    end,
    pull = function(_, _, sums) return {sums[1] / 9, sums[2] / 9} end},
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run, last = cluster:start(jobs[opt.job]), nil
  for r in run:events "report" do
    last = r
    if r.n == 3 and opt.interrupt then os.execute "(sleep 0.1; kill -INT $PPID) &" end -- behind system()
    if r.n == 3 and not opt.interrupt then run:stop() end
  end
  run:wait()
  assert(run:state() == "stopped", run:state())
  if opt.job == "own" then
    local x, stopped = d.variables(run)
    assert(stopped and x[6] > 0 and x[6] <= 6, "its variables were not written")
  elseif opt.job == "factors" then
    for _, name in ipairs {"w", "h"} do
      for row = 0, 59 do assert(run.tables[name]:pull({row})[1] ~= 0, name .. " was not written") end
    end
  else
    local m, count = d.model(run), 0
    for _ in pairs(m:nonzero()) do count = count + 1 end
    assert(m.stopped, "it does not say that it was stopped")
    assert(count == last.support and count > 0, ("%d coefficients, the report has %g"):format(count, last.support))
  end
  print "found so far"
end)
LUA
for job in sets gram factors own; do
    run 0 run -q stopped.lua --job $job
    says out.txt 'found so far'
done
run 130 run -q stopped.lua --job own --interrupt
says out.txt 'found so far'
run 1 run -q stopped.lua --job path
says err.txt 'run path-[0-9]+ has no model: it is stopped and has not fitted all examples'

# Fits of nothing.
refuses() { # FILE OPTIONS PATTERN
    cat >nothing.lua <<LUA
local tide = require "tide"
local job = tide.descent.lasso {name = "a", data = tide.data.libsvm("$1", {columns = 2}), $2}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
    run 1 run -q nothing.lua
    says err.txt "$3"
}
printf '1 1:2\n2 2:1\n' >two.svm
refuses two.svm 'lambda = 1e-300' 'lambda 1e-300 is below [0-9.e-]+, the least that f64 tells from 0'
refuses two.svm 'lambda = 1, weights = {0, 0}' 'descent.lasso: all weights of examples are 0'
refuses two.svm 'lambda = 1, weights = {1}' 'descent.lasso: there are 1 weights for 2 examples'
refuses two.svm 'lambda = 1, penalty = {1, -1}' 'descent.lasso: penalty\[2\] is -1'
cat >one.lua <<'LUA'
local tide = require "tide"
local weights = {}
for i = 1, 40 do weights[i] = i == 1 and 0 or 1 end -- the only one of its class counts for nothing
local job = tide.descent.logistic {name = "a", data = tide.data.libsvm "rare.svm", lambda = 1, weights = weights}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
run 1 run -q one.lua
says err.txt 'descent.logistic: all examples are of one class'
finish
