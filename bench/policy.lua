-- Rows of bench_policy; `row` is the program's.
local core = require "tide.core"
local Host = require "tide.policy.host"
local source = require "tide.policy.source"
local rng = core.random(1)

-- Processor time of this thread's process: other programs of the machine do not count.
local function median_us(rounds, times, f)
  local list = {}
  for i = 1, rounds do
    local began = os.clock()
    for _ = 1, times do f() end
    list[i] = (os.clock() - began) / times * 1e6
  end
  table.sort(list)
  return list[#list // 2 + 1]
end

-- What even-finish needs; with `boa`, what that one needs.
local function batching_view(n, boa)
  local view = {job = {id = 1, batch = 64 * n}, workers = {}, nodes = {}, now = 0, tick = 1, reason = {}, age = {},
                last = {status = "none"}}
  for i = 1, n do
    local per, x, y = 0.001 * (1 + rng:uniform()), {}, {}
    for j = 1, 64 do
      x[j] = 32 + j
      y[j] = 0.01 + per * x[j]
    end
    view.workers[i] = {id = i, node = i, state = "up", slots = 1, clock = 9, batch = 64, batch_min = 1,
      batch_max = 64 * n, examples_per_s = 64 / y[1], speed = not boa and {examples = x, seconds = y} or nil,
      examples = boa and x[1] or nil, seconds = boa and y[1] or nil}
  end
  return view
end

local function scheduling_view(jobs)
  local view = {slots = 2048, nodes = {}, jobs = {}, now = 0, tick = 1, reason = {}, age = {}, last = {status = "none"}}
  for i = 1, 256 do view.nodes[i] = {id = i, name = "n" .. i, slots = 8, state = "up", free = 8} end
  for i = 1, jobs do
    view.jobs[i] = {id = i, name = "job" .. i, submit = i, age = 3600, state = "running", slots = 0, min = 1, max = 16,
                    request = {slots = 1 << math.tointeger(rng:below(4)), batch = 128},
                    attained = rng:uniform() * 100000, resizes = 0}
  end
  return view
end

-- Jobs whose throughput and noise are known, as scheduling/goodput needs them.
local function goodput_view(jobs, nodes)
  local view = scheduling_view(jobs)
  view.nodes, view.slots = {table.unpack(view.nodes, 1, nodes)}, nodes * 8
  for _, job in ipairs(view.jobs) do
    job.max, job.max_seen, job.weight, job.resize_s = 64, 16, 1, 30
    job.perf = {0.02 + 0.1 * rng:uniform(), 0.001, 0.02, 0.001, 0.1 * rng:uniform(), 0.002, 1.5}
    job.gns = {sqr = 1, var = 1e5 * rng:uniform()}
    job.batch = {start = 128, max = 8192, lo = 16, hi = 512}
  end
  return view
end

-- Decides on the views in turn: the second one's samples are new to who saw the first.
local function decisions(name, view, times, second)
  local loaded = assert(source.load(assert(source.find(name)), {timed = false}))
  assert(loaded.sandbox:init(core.plain_encode(loaded.params), nil, 1, source.budget(loaded.policy.kind, false, 10)))
  local bytes, budget = core.plain_encode(view), source.budget(loaded.policy.kind, false)
  local other = second and core.plain_encode(second) or bytes
  return median_us(21, times, function()
    assert(loaded.sandbox:decide(bytes, 1, budget))
    bytes, other = other, bytes
  end), bytes
end

for _, n in ipairs {4, 64} do
  row(("even-finish, %d workers: decision"):format(n), "us", (decisions("batching/even-finish", batching_view(n), 20)))
end
for _, n in ipairs {64, 1000} do
  local us, bytes = decisions("batching/boa", batching_view(n, true), 4, batching_view(n, true))
  row(("boa, %d workers: decision"):format(n), "us", us)
  row(("boa, %d workers: view"):format(n), "bytes", #bytes)
end
for _, n in ipairs {100, 1000} do
  local us, bytes = decisions("scheduling/tiresias", scheduling_view(n), 2)
  row(("tiresias, %d jobs: decision"):format(n), "us", us)
  row(("tiresias, %d jobs: view"):format(n), "bytes", #bytes)
end
local small <const> = (decisions("scheduling/goodput", goodput_view(160, 8), 1))
local large <const> = (decisions("scheduling/goodput", goodput_view(1000, 256), 1))
row("goodput, 160 jobs, 64 slots: decision", "us", small)
row("goodput, 1000 jobs, 2048 slots: decision", "us", large)
row("the same over it", "times", large / small)

-- Persons with equal numbers of jobs, as scheduling/fair needs them.
local function fair_view(jobs, persons)
  local view <const> = goodput_view(jobs, 50)
  view.half_life_s, view.persons, view.reason = 3600, {}, {{event = "submit", id = 1}}
  for i = 1, persons do
    view.persons[i] = {name = "p" .. i, weight = 1 + i % 4, priority = 0, used = rng:uniform() * 1e6}
  end
  for i, job in ipairs(view.jobs) do job.person, job.slots, job.nodes = "p" .. i % persons + 1, 0, {} end
  return view
end
row("fair, 1000 jobs of 50 persons, 400 slots: decision", "us", (decisions("scheduling/fair", fair_view(1000, 50), 1)))
local view = scheduling_view(1000)
row("1000 jobs, 256 nodes: view to bytes", "us", median_us(21, 2, function() core.plain_encode(view) end))

-- The host with everything around a decision: snapshot, validation, journal.
local function host_of(n)
  local now, written, template = 0, 0, batching_view(n)
  local journal = require("tide.policy.journal").new(function(bytes) written = written + #bytes end)
  local h = Host.new {seed = 1, journal = journal, driver = {
    now = function() return now end,
    signals = function() return {["worker.speed"] = true, ["worker.sample"] = true} end,
    snapshot = function()
      local copy = {job = template.job, workers = template.workers, age = {}}
      return copy
    end,
    apply = function(_, _, actions)
      for _, a in ipairs(actions) do template.workers[a.id].batch = a.value end
      return true
    end}}
  assert(h:add_seat("batching", "job", "batching/even-finish"))
  return h, function()
    now = now + 11
    h:step()
  end, function() return written end
end

local h, step, written = host_of(4)
local before, count = written(), 0
row("even-finish, 4 workers: decision in the host", "us", median_us(21, 20, function()
  count = count + 1
  step()
end))
row("journal of such a decision", "bytes", (written() - before) / count)
local other = {"batching/equal", "batching/even-finish"}
local swaps = 0
row("swap, with rehearsal and hand-over", "us", median_us(21, 5, function()
  swaps = swaps + 1
  assert(h:swap(other[1 + swaps % 2]))
end))
h:close()

local costs = {}
for i = 1, 1000 do costs[i] = {at = rng:uniform() * 0.1, per = 0.001 + rng:uniform() * 0.01, min = 1} end
row("minmax_split, 1000 workers", "us", median_us(21, 5, function() core.k.minmax_split(100000, costs) end))
local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = rng:uniform() end
  return list
end
for _, n in ipairs {100, 340} do
  local cost = {}
  for i = 1, n do cost[i] = numbers(n) end
  row(("assign, %d x %d"):format(n, n), "us", median_us(21, 2, function() core.k.assign(cost) end))
end
local weights, machines = {}, {}
for i = 1, 1024 do weights[i] = rng:uniform() end
for j = 1, 16 do machines[j] = 1 end
row("makespan, 1024 weights on 16 machines", "us", median_us(21, 1, function() core.k.makespan(weights, machines) end))

-- What the count hook costs in a loop that does nothing else.
local loop <const> = "local n = 0 for i = 1, 3000000 do n = n + i % 7 end return {n = n}"
local plain = median_us(5, 1, function() load(loop)() end)
local boxed = median_us(5, 1, function()
  local s = assert(core.sandbox(1 << 20))
  assert(s:load(loop, "=loop", {instructions = 1e9}))
  s:close()
end)
row("a tight loop in the sandbox over plain Lua", "times", boxed / plain)
row("a sandbox: made, loaded, closed", "us", median_us(21, 5, function()
  assert(source.load(assert(source.find "batching/equal"), {timed = false})).sandbox:close()
end))
