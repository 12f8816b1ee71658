#!/bin/bash
# Models fitted variable by variable (docs/guides/descent.md): what is found is optimal by an f64 loop of its own, the same for
# any number of workers and both ways to choose; models of the script's own; coordinate descent on factors; bad input.
. "$(dirname "$0")/harness.sh"

cat >linear.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local opt = tide.options {nodes = {"", default = 1}}
local generate = {train = 150, columns = 220, nonzeros = 30, classes = 0, seed = 3}
local numbers = tide.data.libsvm({generate = generate}, {labels = "number"})
local classes = tide.data.libsvm({generate = {train = 150, columns = 120, nonzeros = 20, classes = 2, seed = 3}},
  {labels = "class"})
local weights, penalty = {}, {}
for i = 1, 150 do weights[i] = 0.5 + (i % 4) / 3 end
for j = 1, 220 do penalty[j] = j % 50 == 0 and 0 or 1 + j % 3 end
local jobs = {
  {d.lasso {name = "plain", data = numbers, share = 0.05, tolerance = 1e-11}},
  {d.lasso {name = "centred", data = numbers, share = 0.05, intercept = true, tolerance = 1e-11}},
  {d.lasso {name = "weighted", data = numbers, lambda = 0.2, intercept = true, weights = weights, penalty = penalty,
            tolerance = 1e-11}},
  {d.lasso {name = "scaled", data = numbers, share = 0.1, standardise = true, intercept = true, tolerance = 1e-11}},
  {d.lasso {name = "positive", data = numbers, share = 0.05, positive = true, tolerance = 1e-11}},
  {d.enet {name = "net", data = numbers, share = 0.05, ridge = 0.3, intercept = true, tolerance = 1e-11}},
  {d.logistic {name = "logistic", data = classes, share = 0.1, intercept = true, tolerance = 1e-10}},
  {d.lasso {name = "by-sets", data = numbers, share = 0.1, mode = "sets", set = 16, tolerance = 1e-8}},
  {d.lasso {name = "by-priority", data = numbers, share = 0.1, mode = "sets", set = 16, order = "priority", ahead = 2,
            tolerance = 1e-6, intercept = true}},
}

-- How far x is from what optimality asks for, as a share of the penalty: nothing here is the library's.
local function violation(job, m, lambda)
  local o, part = job.descent, job.descent.data:whole "train"
  local n, J, v = part:rows(), part.columns, {}
  local sum, square, weight, rho = {}, {}, 0, {}
  for j = 1, J do sum[j], square[j] = 0, 0 end
  for i = 1, n do
    local w = o.weights and o.weights[i] or 1
    weight = weight + w
    v[i] = m.intercept
    for j, value in part:row(i) do
      v[i] = v[i] + value * m.coefficients[j + 1]
      sum[j + 1], square[j + 1] = sum[j + 1] + w * value, square[j + 1] + w * value * value
    end
    local y = part.labels[i]
    if o.model == "logistic" then
      y = y == 1 and 1 or -1
      rho[i] = w * y / (1 + math.exp(y * v[i]))
    else
      rho[i] = w * (y - v[i])
    end
  end
  local z, most, total = {}, 0, 0
  for j = 1, J do z[j] = 0 end
  for i = 1, n do
    total = total + rho[i]
    for j, value in part:row(i) do z[j + 1] = z[j + 1] + value * rho[i] end
  end
  if o.intercept then most = math.abs(total) / lambda / 10 end
  for j = 1, J do
    local c, x, r = o.penalty and o.penalty[j] or 1, m.coefficients[j], 1
    if o.standardise then
      local deviation = math.sqrt((square[j] - sum[j] ^ 2 / weight) / weight)
      c, r = c * deviation, deviation ^ 2
    end
    local g, off = z[j] - (o.ridge or 0) * r * x, nil
    if x ~= 0 then
      off = math.abs(g - (x > 0 and c or -c) * lambda)
    else
      off = math.max(0, (o.positive and g or math.abs(g)) - c * lambda)
    end
    most = math.max(most, off / lambda)
  end
  return most
end

tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  for _, entry in ipairs(jobs) do
    local job = entry[1]
    local run, last = cluster:start(job), nil
    for r in run:events "report" do last = r end
    run:wait()
    local m = d.model(run)
    local off = violation(job, m, last.lambda)
    assert(off < (job.name:find "^by" and 1e-2 or 1e-5), ("%s: off by %g"):format(job.name, off))
    assert(last.gap <= 1e-6 * last.objective and last.gap > -1e-9 * last.objective, job.name .. ": gap " .. last.gap)
    local sum, squares = 0, 0
    for j, v in pairs(m.coefficients) do sum, squares = sum + j * v, squares + v * v end
    print(("%s %.8f %.8f %.8f %.8f"):format(job.name, last.objective, sum / 100, squares, m.intercept))
  end
  print "all optimal"
end)
LUA
for nodes in 1 2 3; do
    run 0 run -q linear.lua --nodes $nodes
    says out.txt 'all optimal'
    grep -v '^by\|all' out.txt >sums-$nodes.txt
done
near sums-1.txt sums-2.txt 1e-6 "two workers find something else"
near sums-1.txt sums-3.txt 1e-6 "three workers find something else"

# A path, its folds, and the choice of the best.
cat >path.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local data = tide.data.libsvm({generate = {train = 200, columns = 60, nonzeros = 20, classes = 0, seed = 4}}, {labels = "number"})
local job = d.path {name = "path", data = data, model = "lasso", lambdas = 12, ratio = 1e-3, folds = 4, intercept = true}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 2}
  local run = cluster:start(job)
  local objective, errors, last = nil, {}, nil
  for r in run:events "report" do
    if r.stage == 1 then
      assert(not objective or r.objective < objective, "the objective falls with the penalty")
      objective = r.objective
    elseif r.held then
      errors[r.lambda] = (errors[r.lambda] or 0) + r.held_out / r.held / 4
      assert(r.held == 50)
    end
    last = r
  end
  run:wait()
  local best, at = math.huge, nil
  for lambda, error in pairs(errors) do if error < best then best, at = error, lambda end end
  assert(at == last.best_lambda and math.abs(best - last.best_error) < 1e-12, "the best is another one")
  assert(last.lambda == at and last.gap <= 1e-6 * last.objective, "the last fit is of another penalty")
  local m, rows = d.model(run), data:whole "train"
  local scores, squares = m:predict(rows), 0
  for i = 1, rows:rows() do squares = squares + (rows.labels[i] - scores[i]) ^ 2 end
  assert(squares / rows:rows() < best, "it predicts worse than held-out examples")
  print "path holds"
end)
LUA
run 0 run -q path.lua
says out.txt 'path holds'

# A model of one's own: least squares with its residual on the workers; live changes; other ways to schedule.
cat >own.lua <<'LUA'
local tide = require "tide"
local d = tide.descent
local J, N = 30, 90
local opt = tide.options {schedule = {"", default = "none"}, nodes = {"", default = 2}}
local random, x_is = tide.random(5), {}
for i = 1, N do x_is[i] = {} for j = 1, J do x_is[i][j] = random:uniform() - 0.5 end end
local function x_of(i, j) return x_is[i][j] end
local function y_of(i) local s = 0 for j = 1, J, 3 do s = s + x_of(i, j) * j / 10 end return s end
local square = {}
for j = 1, J do square[j] = 0 for i = 1, N do square[j] = square[j] + x_of(i, j) ^ 2 end end
local first, last, residual
local job = d.job {
  name = "own", variables = J, set = 6, tolerance = 1e-12, rounds = 4000,
  schedule = ({list = function(_, round) return {(round * 7) % J + 1, (round * 11 + 5) % J + 1 ~= (round * 7) % J + 1 and (round * 11 + 5) % J + 1 or nil} end,
    random = function(s) return s:random(6) end, blocks = function(s) return s:blocks(6) end,
    priority = function(s) return s:priority(6) end, twice = function() return {1, 1} end,
    outside = function() return {J + 1} end})[opt.schedule],
  divide = function(_, index, size, x)
    first, last, residual = N * (index - 1) // size + 1, N * index // size, {}
    for i = first, last do
      residual[i] = y_of(i)
      for j = 1, J do residual[i] = residual[i] - x_of(i, j) * x[j] end
    end
  end,
  push = function(_, set)
    local sums = {}
    for k, j in ipairs(set) do
      sums[k] = 0
      for i = first, last do sums[k] = sums[k] + x_of(i, j) * residual[i] end
    end
    return sums
  end,
  pull = function(_, set, sums)
    local changes = {}
    for k, j in ipairs(set) do changes[k] = sums[k] / square[j] end
    return changes
  end,
  apply = function(_, set, changes)
    for k, j in ipairs(set) do
      for i = first, last do residual[i] = residual[i] - x_of(i, j) * changes[k] end
    end
  end,
  objective = function()
    local sum = 0
    for i = first, last do sum = sum + residual[i] ^ 2 / 2 end
    return sum
  end,
  dependency = function(j, k)
    local sum = 0
    for i = 1, N do sum = sum + x_of(i, j) * x_of(i, k) end
    return math.abs(sum) / math.sqrt(square[j] * square[k])
  end,
}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local set
  for r in run:events "report" do
    if r.n == 2 then run:set {set = 3} end
    set = r.n > 4 and math.max(set or 0, r.set) or nil
    last = r
  end
  run:wait()
  local x = d.variables(run)
  for j = 1, J do assert(math.abs(x[j] - (j % 3 == 1 and j / 10 or 0)) < 1e-3, ("x[%d] = %g"):format(j, x[j])) end
  assert(not set or set <= 3, "the set stayed as it was")
  print("own model found", last.rounds)
end)
LUA
for schedule in none list random blocks priority; do
    run 0 run -q own.lua --schedule $schedule
    says out.txt 'own model found'
done
run 1 run -q own.lua --schedule twice
says err.txt 'round 1: schedule gives variable 1 twice'
run 1 run -q own.lua --schedule outside
says err.txt 'schedule gives variable 31, there are 1 to 30'

# Factors: the objective never rises, and a planted matrix of rank 3 is found.
cat >ccd.lua <<'LUA'
local tide = require "tide"
local opt = tide.options {nodes = {"", default = 1}}
local data = tide.data.matrix(tide.data.generate {rows = 60, columns = 50, train = 1500, test = 200, rank = 3, seed = 2})
local job = tide.descent.ccd {name = "ccd", data = data, rank = 3, l2 = 1e-6, passes = 60, inner = 2}
tide.main(function()
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  local run = cluster:start(job)
  local before
  for r in run:events "report" do
    assert(not before or r.objective <= before * (1 + 1e-12), "the objective rises")
    before = r.objective
  end
  run:wait()
  print(("%.9f"):format(before))
end)
LUA
run 0 run -q ccd.lua
one=$(cat out.txt)
run 0 run -q ccd.lua --nodes 3
awk -v a="$one" -v b="$(cat out.txt)" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < 1e-6 * a * a) }' ||
    fail "three workers find $(cat out.txt), one $one"

# MatrixMarket with a file of labels is the same data as LibSVM's text.
cat >market.lua <<'LUA'
local tide = require "tide"
local function write(name, text)
  local f = assert(io.open(name, "w"))
  f:write(text)
  f:close()
end
local random, cells, rows, labels = tide.random(3), {}, {}, {}
for i = 1, 40 do
  local words = {}
  labels[i] = random:uniform()
  for j = 1, 12 do
    if random:uniform() < 0.3 then
      local v = random:below(1000) / 64
      words[#words + 1] = ("%d:%.9g"):format(j, v)
      table.insert(cells, random:below(#cells + 1) + 1, ("%d %d %.9g"):format(i, j, v))
    end
  end
  rows[i] = ("%.9g qid:%d %s"):format(labels[i], i // 10, table.concat(words, " "))
  labels[i] = ("%.9g"):format(labels[i])
end
local numbers = {}
for i = 1, 40 do numbers[i] = i // 10 end
write("x.svm", table.concat(rows, "\n") .. "\n")
write("x.mtx", ("%%%%MatrixMarket matrix coordinate real general\n40 12 %d\n%s\n"):format(#cells, table.concat(cells, "\n")))
write("y.txt", table.concat(labels, "\n") .. "\n")
write("y.mtx", "%%MatrixMarket matrix array real general\n40 1\n" .. table.concat(labels, "\n") .. "\n")
write("tasks.txt", table.concat(numbers, "\n") .. "\n")
write("short.txt", "1\n2\n")
write("bad.txt", "1\nx\n")
write("gap.txt", "1\n\n2\n")
write("wide.txt", ("1\n"):rep(39) .. "16777217\n")
write("far.txt", ("1\n"):rep(39) .. "1e300\n")
write("twice.mtx", "%%MatrixMarket matrix coordinate real general\n40 12 2\n4 3 7\n4 3 2.5\n")
tide.main(function()
  local a = tide.data.libsvm("x.svm", {labels = "number", tasks = "qid", columns = 12}):whole "train"
  for _, y in ipairs {"y.txt", "y.mtx"} do
    local b = tide.data.market("x.mtx", y, {tasks = "tasks.txt"}):whole "train"
    for _, key in ipairs {"labels", "tasks", "offsets", "indices", "values"} do
      assert(a[key]:bytes() == b[key]:bytes(), key .. " differ")
    end
  end
  for _, bad in ipairs {{"x.mtx", "short.txt"}, {"x.mtx", "bad.txt"}, {"twice.mtx", "y.txt"}, {"x.mtx", "x.mtx"},
                        {"x.mtx", "gap.txt"}, {"x.mtx", "wide.txt"}, {"x.mtx", "far.txt"}} do
    print(select(2, pcall(function() return tide.data.market(bad[1], bad[2]).columns end)))
  end
end)
LUA
run 0 run -q market.lua
says out.txt '2 labels of 40 rows of x.mtx'
says out.txt 'bad.txt:2'
says out.txt 'row 4, column 3 is there twice'
says out.txt 'matrix array real general'
says out.txt 'gap.txt:2'
says out.txt '`labels`: row 40: 16777217 does not fit f32'
says out.txt '`labels`: row 40: 1e.300 does not fit f32'

# Bad input says what, where and what to do.
refuses() { # JOB PATTERN
    cat >bad.lua <<LUA
local tide = require "tide"
local d = tide.descent
local data = tide.data.libsvm({generate = {train = 20, columns = 9, nonzeros = 3, classes = 3, seed = 1}}, {labels = "class"})
local job = $1
tide.main(function()
  local cluster <close> = tide.cluster {nodes = 1}
  cluster:start(job):wait()
end)
LUA
    run 1 run -q bad.lua
    says err.txt "$2"
}
refuses 'd.lasso {name = "a", data = data}' 'requires `lambda`'
refuses 'd.lasso {name = "a", data = data, lambda = -1}' '`lambda` is -1, not a number above 0'
refuses 'd.lasso {name = "a", data = data, lambda = 1, shrae = 2}' 'no field `shrae`'
refuses 'd.lasso {name = "a", data = data, lambda = 1, mode = "grams"}' 'none of auto, gram, sets'
refuses 'd.lasso {name = "a", data = data, lambda = 1, weights = {1, 2}}' 'there are 2 weights for 20 examples'
refuses 'd.lasso {name = "a", data = data, lambda = 1, penalty = {1, 2, 3, 4, 5, 6, 7, 8, -1}}' 'penalty\[9\] is -1'
refuses 'd.logistic {name = "a", data = data, lambda = 1}' 'two classes, the data has 3'
refuses 'd.lasso {name = "a", data = data, lambda = 1, mode = "sets", theta = 2}' 'theta is 2, not in \(0, 1\)'
refuses 'd.lasso {name = "a", data = data, lambda = 1, mode = "sets", set = 0}' 'set is 0, not a whole number'
refuses 'd.path {name = "a", data = data, lambdas = {1, 2}}' 'a falling list'
refuses 'd.path {name = "a", data = data, mode = "sets"}' 'paths are of Gram working sets'
refuses 'd.ccd {name = "a", data = data, rank = 0}' '`rank` is 0'
finish
