-- Costs of the scripting surface: `tide run bench/scripting.lua`, a figure a line. bench/scripting.py compares the
-- first three with numpy.
local tide = require "tide"
local T = tide.tensor
local opt = tide.options {only = {"tensors or costs", default = "all", choices = {"all", "tensors", "costs"}}}
local results = {}

-- The least of several means, in seconds a call.
local function measure(name, calls, f, rounds)
  local best = math.huge
  for _ = 1, rounds or 7 do
    local began <const> = tide.now()
    for _ = 1, calls do f() end
    best = math.min(best, (tide.now() - began) / calls)
  end
  results[#results + 1] = ("%s\t%.9f"):format(name, best)
end

local function kmeans()
  local n <const>, K <const>, D <const> = 50000, 16, 16
  local points <const>, centres = T.zeros("f32", n, D):normal(1), T.zeros("f32", K, D):normal(2)
  local distances <const> = T.zeros("f32", n, K)
  measure("k-means step", 1, function()
    distances:matmul(points, centres, {transpose_b = true, scale = -2}):add(centres:row_dots(centres):view(1, 1, K))
    local nearest <const> = distances:argmin()
    local sums <const> = T.zeros("f32", K, D):scatter_add(nearest, points)
    centres = sums:div(T.zeros("f32", K, 1):scatter_add(nearest, 1):map("max(x, 1)"))
  end, 20)
end

local function pagerank()
  local n <const>, m <const> = 100000, 1000000
  local from <const> = T.zeros("f32", m):uniform(3, 0, n):map("floor(x)"):convert "u32"
  local to <const> = T.zeros("f32", m):uniform(4, 0, n):map("floor(x)"):convert "u32"
  local degree <const> = T.zeros("f32", n):scatter_add(from, 1):map "max(x, 1)"
  local ranks = T.zeros("f32", n):fill(1 / n)
  measure("pagerank step", 1, function()
    local shares <const> = (ranks / degree):gather(from)
    ranks = T.zeros("f32", n):scatter_add(to, shares):map("0.15 / n + 0.85 * x", {n = n})
  end, 20)
end

local function logistic()
  local n <const>, d <const> = 20000, 100
  local x <const>, y <const> = T.zeros("f32", n, d):normal(5), T.zeros("f32", n):uniform(6):map "x > 0.5"
  local w <const>, z <const>, g <const> = T.zeros("f32", d), T.zeros("f32", n), T.zeros("f32", d)
  measure("logistic step", 1, function()
    z:matmul(x, w):map("sigmoid(x) - y", {y = y})
    g:matmul(x, z, {transpose_a = true})
    w:axpy(-0.1 / n, g)
  end, 20)
end

local function tensors()
  local a <const>, b <const> = T.zeros("f32", 1000), T.zeros("f32", 1000):fill(1)
  local sum = 0
  measure("1000 reads of t[i]", 100, function() for i = 1, 1000 do sum = sum + a[i] end end)
  measure("1000 times t[i] = v", 100, function() for i = 1, 1000 do a[i] = i end end)
  measure("t:add(x), 1000 numbers", 10000, function() a:add(b) end)
  measure("t:dot(x), 1000 numbers", 10000, function() sum = sum + a:dot(b) end)
  measure("t:map(\"x * 0.5 + 1\"), 1000 numbers", 10000, function() a:map "x * 0.5 + 1" end)
  measure("T.zeros(f32, 16)", 10000, function() return T.zeros("f32", 16) end)
  measure("T.zeros(f32, 1000)", 10000, function() return T.zeros("f32", 1000) end)
end

local clocked = {}
for i = 1, 4 do clocked["c" .. i] = tide.table {keys = tide.dense(10000), width = 16, consistency = "ssp:1"} end

local function with(more)
  local all = {}
  for key, value in pairs(clocked) do all[key] = value end
  for key, value in pairs(more) do all[key] = value end
  return all
end

local job = tide.job {
  name = "costs",
  tables = with {t = tide.table {keys = tide.dense(10000), width = 16, slots = "range"},
                 r = tide.table {keys = tide.dense(10000), width = 16, technique = "relocate"}},
  worker = function(w)
    local t <const> = w.tables.t
    local here, there
    for key = 0, 9999 do
      local _, hit = t:pull_local {key}
      if hit[1] == 1 then here = here or key else there = there or key end
    end
    local keys16 = T.zeros("u64", 16)
    for i = 1, 16 do keys16[i] = here + i - 1 end
    local one <const>, row <const>, rows16 = T.from("u64", {here}), T.zeros("f32", 1, 16), T.zeros("f32", 16, 16)
    local far <const> = T.from("u64", {there})
    if w.rank == 1 then
      tensors()
      measure("pull of a local row", 10000, function() t:pull(one) end)
      measure("pull of a local row into a tensor", 10000, function() t:pull(one, {into = row}) end)
      measure("pull of a local row, key in a table", 10000, function() t:pull {here} end)
      measure("push of a local row", 10000, function() t:push(one, row) end)
      measure("pull of 16 local rows", 10000, function() t:pull(keys16) end)
      measure("push of 16 local rows", 10000, function() t:push(keys16, rows16) end)
      measure("pull of a row of another node", 300, function() t:pull(far) end)
      measure("push of a row of another node", 300, function() t:push(far, row) end)
    end
    w:barrier "measured"
    local key = w.rank * 100
    measure("localize of a row of another node", 1, function()
      w.tables.r:localize {key}
      key = key + 2
    end, 60)
    measure("localize of a row that is here", 1000, function() w.tables.r:localize {key - 2} end)
    w:barrier "moved"
    measure("barrier of two workers", 50, function() w:barrier "b" end)
    measure("report of two workers", 50, function() w:report {examples = 1} end)
    measure("report that nobody waits for", 1000, function() w:report {examples = 1, wait = false} end)
    measure("clock with 4 clocked tables, nothing pushed", 50, function() w:clock() end)
    measure("clock with 4 clocked tables, a row pushed in each", 50, function()
      for i = 1, 4 do w.tables["c" .. i]:push(one, row) end
      w:clock()
    end)
    if w.rank == 1 then w:log(table.concat(results, "\n")) end
  end,
}

local Echo = tide.actor {name = "echo", say = function(_, x) return x end}
local single = tide.job {name = "tensors", worker = function(w)
  kmeans()
  pagerank()
  logistic()
  w:log(table.concat(results, "\n"))
end}

tide.main(function()
  if opt.only ~= "costs" then
    local cluster <close> = tide.cluster {nodes = 1}
    cluster:start(single):wait()
  end
  if opt.only == "tensors" then return end
  local cluster <close> = tide.cluster {nodes = 2}
  cluster:start(job):wait()
  local group <close> = cluster:group(Echo, {}, {on = "n1"})
  results = {}
  measure("call of an actor of another node", 100, function() group:call("say", 1) end)
  measure("cast to an actor of another node", 1000, function() group:cast("say", 1) end)
  print(table.concat(results, "\n"))
end)
