-- Three jobs share a cluster: a net, a logistic regression and a k-means arrive one after the other. First come, first
-- served with the sizes that they ask for, against sizes that a goodput policy chooses and changes while they train
-- (Pollux, OSDI 2021).
--   tide run examples/pollux.lua --chart pollux.svg        tide sim examples/pollux.lua
local tide = require "tide"
local nn = require "tide.nn"
local core = require "tide.core"
local opt = tide.options {
  nodes = {"worker nodes of one slot", default = 4},
  scale = {"how much longer the jobs are", default = 1},
  apart = {"seconds between two jobs", default = 12},
  policy = {"the policy beside scheduling/fifo", default = "scheduling/goodput"},
  chart = {"file for a picture of both", type = "string"},
}
-- A simulated cluster computes little data for as long as a real one computes much.
local sim <const> = core.simulated() and require "tide.sim" or nil
local size <const> = sim and {images = 600, epochs = 40, points = 640, width = 32, passes = 12}
  or {images = 6000, epochs = 300, points = 12800, width = 512, passes = 60}
local function work(flops) if sim then sim.work(flops) end end
if sim then sim.compute {flops = 4e7} end

---- the jobs ------------------------------------------------------------------------------------------------------

local net = nn.sequential {input = {28, 28, 1}, loss = nn.xent(), nn.flatten(), nn.linear(128), nn.relu(),
  nn.linear(10)}
local jobs = {
  {slots = 4, job = nn.job {name = "net", program = net, data = tide.data.images(nil, {count = size.images,
    test = 1 / 6, seed = 2}), batch = 100, epochs = size.epochs * opt.scale, optimizer = nn.momentum {lr = 0.05}}},
}

local POINTS <const>, WIDTH <const>, CENTRES <const> = size.points, size.width, 16
local truth <const> = tide.tensor.zeros("f32", WIDTH, 1):normal(7)

-- Points of a chunk, the same whoever draws them.
local function draw(chunk) return tide.tensor.zeros("f32", chunk.count, WIDTH):normal(1000 + chunk.first) end

jobs[2] = {slots = 2, job = tide.job {
  name = "logistic", data = POINTS, chunks = 32, stop = {epochs = size.passes * opt.scale},
  tables = {weights = tide.table {keys = tide.dense(1), width = WIDTH, update = "add"}},
  worker = function(w)
    local zeros <const> = tide.tensor.zeros
    while not w:stopping() do
      for chunk in w:chunks() do
        local x <const> = draw(chunk)
        local weights <const> = w.tables.weights:pull({0}):view(1, WIDTH, 1)
        local label <const> = zeros("f32", chunk.count, 1):matmul(x, truth):map("x > 0")
        local error <const> = zeros("f32", chunk.count, 1):matmul(x, weights):map("sigmoid(x)"):sub(label)
        work(6e6)
        local step <const> = zeros("f32", 1, WIDTH):matmul(error, x, {transpose_a = true, scale = -1e-3})
        w.tables.weights:push({0}, step)
        chunk:report {examples = chunk.count, loss = error:dot(error)}
      end
      w:report {}
    end
  end,
}}

jobs[3] = {slots = 2, job = tide.job {
  name = "kmeans", data = POINTS, chunks = 32, stop = {epochs = size.passes // 2 * opt.scale},
  tables = { -- a row for each pass and centre
    sums = tide.table {keys = tide.hashed(), width = WIDTH, update = "add"},
    counts = tide.table {keys = tide.hashed(), width = 1, update = "add"},
  },
  worker = function(w)
    local zeros <const> = tide.tensor.zeros
    local distances <const> = zeros("f32", POINTS // 32, CENTRES)
    local pass = w.passes
    while not w:stopping() do
      pass = pass + 1
      local before <const> = zeros("u64", CENTRES):fill((pass - 1) * CENTRES, 1)
      local centres <const> = pass == 1 and zeros("f32", CENTRES, WIDTH):normal(3)
        or w.tables.sums:pull(before):div(w.tables.counts:pull(before):map("max(x, 1)"))
      local keys <const> = zeros("u64", CENTRES):fill(pass * CENTRES, 1)
      for chunk in w:chunks(pass) do
        local x <const> = draw(chunk)
        -- |p - c|^2 = |p|^2 - 2 p c + |c|^2
        distances:matmul(x, centres, {transpose_b = true, scale = -2})
        distances:add(centres:row_dots(centres):view(1, 1, CENTRES))
        local nearest <const> = distances:argmin()
        work(6e6)
        w.tables.sums:push(keys, zeros("f32", CENTRES, WIDTH):scatter_add(nearest, x))
        w.tables.counts:push(keys, zeros("f32", CENTRES, 1):scatter_add(nearest, 1))
        chunk:report {examples = chunk.count, loss = distances:row_min():sum() + x:dot(x)}
      end
      w:report {}
    end
  end,
}}

---- a day of the cluster ------------------------------------------------------------------------------------------

-- Runs all jobs under a policy: {name, jct = seconds by job, curve = {job = {{at, slots}, ..}}}.
local function day(policy, limits_of)
  local cluster <close> = tide.cluster {nodes = opt.nodes}
  cluster:schedule(policy)
  local began <const> = tide.now()
  local r = {policy = policy, jct = {}, loss = {}, curve = {}, resizes = 0, done = 0}
  local function watch()
    while r.done < #jobs do
      for _, each in ipairs(cluster:runs()) do
        local line <const> = r.curve[each.job] or {}
        r.curve[each.job], line[#line + 1] = line, {tide.now() - began, each.slots}
      end
      tide.sleep(0.5)
    end
  end
  local tasks = {watch}
  for i, entry in ipairs(jobs) do
    tasks[#tasks + 1] = function()
      tide.sleep((i - 1) * opt.apart)
      local submitted <const> = tide.now()
      local run = cluster:start(entry.job, nil, limits_of(entry))
      local last
      for report in run:events "report" do last = report end
      run:wait()
      r.jct[i], r.loss[i], r.done = tide.now() - submitted, last.loss / last.examples, r.done + 1
      print(("%-20s %-9s done %5.1f s after its submission, loss %.4f"):format(policy, entry.job.name, r.jct[i],
        r.loss[i]))
      run:close()
    end
  end
  tide.all(tasks)
  for _, each in ipairs(cluster:runs {all = true}) do r.resizes = r.resizes + (each.resizes or 0) end
  r.makespan = tide.now() - began
  return r
end

local function mean(list)
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

tide.main(function()
  local results = {
    day("scheduling/fifo", function(entry) return {slots = math.min(entry.slots, opt.nodes)} end),
    day(opt.policy, function() return {min = 1, max = opt.nodes} end),
  }
  print()
  for _, r in ipairs(results) do
    print(("%-20s mean completion %5.1f s, all done after %5.1f s, %d resizes"):format(r.policy, mean(r.jct),
      r.makespan, r.resizes))
  end
  print(("%s takes %.2f of the time of %s"):format(opt.policy, mean(results[2].jct) / mean(results[1].jct),
    results[1].policy))
  if not opt.chart then return end
  local charts, names = {}, {}
  for i, entry in ipairs(jobs) do names[i] = entry.job.name end
  local bars = {title = "Completion time", y = "seconds", groups = names, series = {}}
  for i, r in ipairs(results) do
    local series = {}
    for j, name in ipairs(names) do series[j] = {name = name, points = r.curve[name] or {}} end
    charts[i] = {title = "Slots under " .. r.policy, x = "seconds", y = "slots", series = series}
    bars.series[i] = {name = r.policy, values = r.jct}
  end
  charts[#charts + 1] = bars
  assert(tide.chart.write(opt.chart, charts))
  print("chart: " .. opt.chart)
end)
