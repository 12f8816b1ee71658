-- Scheduling: goodput tools, the shipped policies against brute force, the placer, and the job simulator on small
-- profiles; on the published ones if TIDE_POLLUX names their folder.
local core = require "tide.core"
local k = core.k
local placer = require "tide.policy.placer"
local source = require "tide.policy.source"
local small = dofile(SOURCE .. "/tests/policy/small_trace.lua") -- luacheck: ignore SOURCE

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end
local rng = core.random(3)
local function below(n) return math.tointeger(rng:below(n)) end
local function near(a, b, tolerance) return math.abs(a - b) <= (tolerance or 1e-9) * math.max(1, math.abs(a), math.abs(b)) end
local function fails(pattern, f, ...)
  local ok, err = pcall(f, ...)
  local text = type(err) == "table" and err.message or tostring(err)
  assert(not ok and text:find(pattern, 1, true), ok and "no error" or text)
end

---- tools ---------------------------------------------------------------------------------------------------------

local function up(list)
  local nodes = {}
  for i, slots in ipairs(list) do nodes[i] = {id = i, slots = slots, state = "up"} end
  return nodes
end

case("sizes: powers of two on one machine, then whole ones", function()
  local function sizes(nodes) return table.concat(k.sizes(nodes), " ") end
  assert(sizes(up {4, 4, 4, 4, 4, 4, 4, 4}) == "1 2 4 8 12 16 24 32")
  assert(k.sizes(up {4, 4}).per_machine == 4)
  assert(sizes(up {3, 3, 3}) == "1 2 3 6 9")
  assert(sizes(up {1}) == "1" and sizes {} == "")
  local nodes = up {2, 2, 2, 2}
  for i, node in ipairs(nodes) do node.machine = i <= 2 and "a" or "b" end
  assert(sizes(nodes) == "1 2 4 8" and k.sizes(nodes).per_machine == 4)
  nodes[4].state = "draining"
  nodes[3].state = "draining"
  assert(sizes(nodes) == "1 2 4")
end)

case("goodput: no model, one slot; false where the job may not go; what it costs is charged", function()
  local sizes = k.sizes(up {4, 4})
  local job = {min = 1, max = 8, batch = {start = 32, max = 512, lo = 4, hi = 64}}
  local g, base = k.goodput(job, sizes, 3)
  assert(g[1] == 1 and g[2] == false and g[4] == false and base == 3)
  job.perf, job.gns, job.max_seen = {0.05, 0.002, 0.01, 0.001, 0.05, 0.002, 2}, {sqr = 0.2, var = 4}, 2
  g = k.goodput(job, sizes, 3)
  assert(g[1] and g[2] > g[1] and g[3] > g[2] and g[4] == false)
  job.max_seen, job.sizes = 8, {1, 4}
  g = k.goodput(job, sizes, 3)
  assert(g[1] and g[2] == false and g[3] and g[4] == false)
  job.sizes, job.min = "pow2", 2
  g, base = k.goodput(job, sizes, 1)
  assert(g[1] == false and g[2] and base > 0)
  local best = k.best_batch(job, 8, 2)
  assert(near(best.goodput, g[4]) and best.total == 8 * best.batch * best.accum)
  fails("start <= max", k.goodput, {batch = {start = 64, max = 32}}, sizes, 1)
  fails("lo <= hi", k.goodput, {batch = {start = 64, max = 64, lo = 9, hi = 8}}, sizes, 1)
  fails("seven numbers", k.goodput, {perf = {1, 2}}, sizes, 1)
  fails("not a finite number", k.goodput, {max = "x"}, sizes, 1)
end)

case("fit_goodput: takes back what made the times; noise: averages that can be handed on", function()
  local rows, truth = {}, {0.05, 0.002, 0.01, 0.001, 0.05, 0.002, 2}
  for _, p in ipairs {{1, 1}, {1, 2}, {1, 4}, {2, 8}, {4, 16}} do
    for _, m in ipairs {8, 32, 128} do
      local pass = truth[1] + truth[2] * m
      local at, by = truth[p[1] == 1 and 3 or 5], truth[p[1] == 1 and 4 or 6]
      local sync = p[2] == 1 and 1e-8 or at + by * math.max(p[2] - 2, 1e-8)
      rows[#rows + 1] = {n = p[1], K = p[2], m = m, t_a = pass, t_o = (pass ^ 2 + sync ^ 2) ^ 0.5}
    end
  end
  local perf, loss = k.fit_goodput(rows)
  assert(loss < 0.01, loss)
  assert(near(perf[1], truth[1], 0.02) and near(perf[7], 2, 0.3))
  fails("rows[2].K is nil", k.fit_goodput, {rows[1], {n = 1, m = 1, t_a = 1, t_o = 1}})
  fails("positive numbers", k.fit_goodput, {{n = 2, K = 1, m = 1, t_a = 1, t_o = 1}})
  local state = k.noise(nil, {count = 2, batch = 64, start = 32, sum = 3, total = 2})
  assert(state.sqr == 1 and state.var == 2)
  state = core.plain_decode(core.plain_encode(state))
  assert(k.noise(state, {count = 2, batch = 64, start = 32, sum = 0 / 0, total = 2}).skipped == 1)
  fails("show no noise", k.noise, nil, {count = 1, batch = 64, start = 32, sum = 3, total = 2})
end)

---- policies ------------------------------------------------------------------------------------------------------

local function policy(name, params)
  local loaded = assert(source.load(assert(source.find(name)), {timed = false, params = params, kind = "scheduling"}))
  assert(loaded.sandbox:init(core.plain_encode(loaded.params), nil, 1, source.budget("scheduling", false, 10)))
  return function(view)
    local bytes, fault = loaded.sandbox:decide(core.plain_encode(view), 1, source.budget("scheduling", false))
    assert(bytes, fault and fault.message)
    return core.plain_decode(bytes)
  end
end

local function random_view(machines, per_machine, jobs)
  local view = {slots = machines * per_machine, nodes = {}, jobs = {}, now = 100, tick = 1, reason = {}, age = {},
                last = {status = "none"}}
  for i = 1, machines do view.nodes[i] = {id = i, machine = i, slots = per_machine, free = per_machine, state = "up"} end
  for i = 1, jobs do
    view.jobs[i] = {id = i, age = below(5000), weight = 1 + below(3), slots = 0, nodes = {}, min = 1, max = view.slots,
      resizes = below(4), resize_s = 30, attained = below(90000), max_seen = 1 << below(4),
      batch = {start = 32, max = 2048, lo = 4, hi = 256}, gns = {sqr = rng:uniform() + 0.01, var = rng:uniform() * 20},
      perf = {rng:uniform() * 0.2 + 1e-3, rng:uniform() * 1e-2 + 1e-4, rng:uniform() * 0.1 + 1e-3, rng:uniform() * 0.01,
              rng:uniform() * 0.3 + 1e-3, rng:uniform() * 0.02, 1 + rng:uniform() * 4}}
    for p = 1, 7 do view.jobs[i].perf[p] = math.max(view.jobs[i].perf[p], 1e-8) end
    if below(5) == 0 then view.jobs[i].perf = nil end
    if below(3) == 0 then view.jobs[i].sizes = below(2) == 0 and "pow2" or {1, 4, 12} end
  end
  return view
end

-- What the policy's objective gives for sizes (0: waits), as its page defines it.
local function worth(view, p, choice)
  local sizes = k.sizes(view.nodes)
  local fair, sum = math.ceil(view.slots / #view.jobs), 0
  local function u(x) return p == 0 and math.log(x + 1e-3) or (p > 0 and 1 or -1) * (x + 1e-3) ^ p end
  for i, job in ipairs(view.jobs) do
    local goodput, base = k.goodput(job, sizes, fair)
    for c, size in ipairs(sizes) do
      if choice[i] == size then
        if not goodput[c] then return -math.huge end
        local keep = (job.slots == 0 or job.slots == size) and 1
          or math.max(job.age - job.resizes * job.resize_s, 0) / (job.age + job.resize_s)
        sum = sum + job.weight * (u(goodput[c] / base * keep) - u(0))
      end
    end
  end
  return sum
end

case("goodput: the best of all sizes, for every p, with limits and jobs that may not shrink", function()
  for _, p in ipairs {-4, -1, 0, 1} do
    local decide = policy("scheduling/goodput", {p = p})
    for _ = 1, 60 do
      local view = random_view(1 + below(3), 2, 1 + below(4))
      local left = view.slots
      for _, job in ipairs(view.jobs) do -- some hold slots
        local n = left > 0 and below(2) == 0 and 1 or 0
        job.slots, left = n, left - n
        if n > 0 then job.preemptible = below(4) ~= 0 or nil end
        if n > 0 and job.preemptible == nil then job.preemptible = false end
      end
      local plan = decide(view)
      local chosen, options = {}, {}
      local sizes = k.sizes(view.nodes)
      for i, job in ipairs(view.jobs) do
        chosen[i], options[i] = plan.alloc[job.id].slots, {0}
        if job.preemptible == false then
          options[i] = {job.slots}
        else
          table.move(sizes, 1, #sizes, 2, options[i])
        end
      end
      local best, choice = -math.huge, {}
      local function try(i, free)
        if i > #view.jobs then best = math.max(best, worth(view, p, choice)) return end
        for _, size in ipairs(options[i]) do
          if size <= free then
            choice[i] = size
            try(i + 1, free - size)
          end
        end
      end
      try(1, view.slots)
      assert(worth(view, p, chosen) >= best - 1e-9 * math.abs(best), ("p %g: %g, best %g"):format(p,
        worth(view, p, chosen), best))
    end
  end
end)

case("goodput: the same view, the same plan; 1,000 jobs on 2,048 slots fit the budget", function()
  local view = random_view(256, 8, 1000)
  local first, second = policy "scheduling/goodput"(view), policy "scheduling/goodput"(view)
  assert(core.plain_encode(first) == core.plain_encode(second))
  local sum = 0
  for _, a in pairs(first.alloc) do sum = sum + a.slots end
  assert(sum <= 2048 and sum > 1000)
  fails("p must be between", policy, "scheduling/goodput", {p = 2})
end)

---- placer --------------------------------------------------------------------------------------------------------

local function held_by_node(nodes, jobs)
  local held = {}
  for _, job in ipairs(jobs) do
    for node, n in pairs(job.nodes) do held[node] = (held[node] or 0) + n end
  end
  for _, node in ipairs(nodes) do
    assert((held[node.id] or 0) <= node.slots, "a node gives more than it has")
    assert(node.state == "up" or not held[node.id], "a node that is not up holds jobs")
  end
end

case("placer: whatever is wished in sizes that fit is placed, and nobody shares a machine who spans", function()
  for _ = 1, 150 do
    local per_machine = 1 << below(4)
    local machines = 1 + below(8)
    local nodes, jobs = {}, {}
    for i = 1, machines do nodes[i] = {id = i, slots = per_machine, state = "up"} end
    for i = 1, 12 do jobs[i] = {id = i, slots = 0, nodes = {}} end
    for _ = 1, 12 do
      for _, node in ipairs(nodes) do node.state = below(12) == 0 and "draining" or "up" end
      local sizes = k.sizes(nodes)
      local capacity = 0
      for _, node in ipairs(nodes) do capacity = capacity + (node.state == "up" and node.slots or 0) end
      local wish, alloc, order = {}, {}, {}
      for i = 1, #jobs do order[i] = i end
      for i = #order, 2, -1 do
        local j = 1 + below(i)
        order[i], order[j] = order[j], order[i]
      end
      for _, i in ipairs(order) do
        local size = #sizes > 0 and below(3) > 0 and sizes[1 + below(#sizes)] or 0
        if below(3) == 0 then size = jobs[i].slots end
        wish[i] = size <= capacity and size or 0
        capacity = capacity - wish[i]
        if wish[i] ~= jobs[i].slots then alloc[i] = {slots = wish[i]} end
      end
      local placed, unfit = placer.place(nodes, jobs, alloc, nil, "pack")
      local again = placer.place(nodes, jobs, alloc, nil, "pack")
      for i, job in ipairs(jobs) do
        if placed[i] then
          assert(core.plain_encode(placed[i]) == core.plain_encode(again[i]))
          job.nodes, job.slots = placed[i], 0
          for _, n in pairs(placed[i]) do job.slots = job.slots + n end
        end
        -- sizes that were cut for more machines than are up now may shrink; else all is as wished
        assert(job.slots == wish[i] or #unfit > 0)
        if job.slots > 0 and job.slots <= per_machine then
          assert(next(job.nodes, (next(job.nodes))) == nil, "fits on one machine, and spans")
        end
      end
      for _, u in ipairs(unfit) do assert(u.wanted > per_machine and u.wanted % per_machine ~= 0, "did not fit") end
      held_by_node(nodes, jobs)
      local spans = {}
      for _, job in ipairs(jobs) do
        for node in pairs(job.slots > per_machine and job.nodes or {}) do
          assert(not spans[node], "two that span share a machine")
          spans[node] = true
        end
      end
    end
  end
end)

case("placer: what is unchanged stays, and the fewest slots move to make room", function()
  local nodes = {{id = 1, slots = 4}, {id = 2, slots = 4}}
  local jobs = {{id = 1, slots = 1, nodes = {[1] = 1}}, {id = 2, slots = 2, nodes = {[2] = 2}},
                {id = 3, slots = 0, nodes = {}}}
  local placed = placer.place(nodes, jobs, {[3] = {slots = 4}})
  assert(placed[3][1] == 4 and placed[1][2] == 1 and placed[2] == nil)
  jobs[1].preemptible = false
  placed = placer.place(nodes, jobs, {[3] = {slots = 4}})
  assert(placed[3][2] == 4 and placed[2][1] == 2 and placed[1] == nil)
  local _, unfit = placer.place(nodes, {jobs[1], {id = 2, slots = 1, nodes = {[2] = 1}, preemptible = false}, jobs[3]},
    {[3] = {slots = 4}})
  assert(unfit[1].id == 3 and unfit[1].got == 2)
  placed = placer.place({{id = 1, slots = 4, free = 1}, {id = 2, slots = 4}}, {{id = 1, slots = 1, nodes = {[1] = 1}}},
    {[1] = {slots = 2}})
  assert(placed[1][1] == 2, "slots that others hold are not there; its own are")
end)

---- simulator -----------------------------------------------------------------------------------------------------

local function with_trace(count, f)
  local folder = small.make(count)
  local ok, err = xpcall(f, function(e) return type(e) == "table" and e.message or debug.traceback(e) end, folder)
  small.remove(folder)
  if not ok then error(err, 0) end
end

local function simulator(folder, more)
  local o = {profiles = folder .. "/profiles", nodes = 4, slots = 4}
  for name, value in pairs(more or {}) do o[name] = value end
  return require("tide.sim.jobs").new(o)
end

case("jobs: one job alone takes what its profile says", function()
  with_trace(1, function(folder)
    small.write(folder .. "/one.csv", "name,time,application,num_replicas,batch_size\na,30,narrow,2,32\n")
    local r = simulator(folder):run {workload = folder .. "/one.csv", policy = "scheduling/tiresias"}
    local app = small.apps.narrow
    local pass = app.ag + app.bg * 16
    local step = (pass ^ app.g + app.al ^ app.g) ^ (1 / app.g)
    local gain = (app.var + app.sqr) / (app.var / 2 + app.sqr)
    local epoch = math.floor(app.steps / (gain / step) + 0.5)
    -- submitted at 30, decided at 60, 30 s to start
    assert(math.abs(r.jct[1] - (60 + 30 + 3 * epoch - 30)) <= 3, r.jct[1])
    assert(r.wait[1] == 30 and r.resizes == 0 and r.node_hours > 0)
    assert(near(r.rho[1], r.jct[1] / (30 + 3 * epoch), 0.5))
  end)
end)

case("jobs: idle time is skipped, so times may count from anywhere and gaps be long", function()
  with_trace(1, function(folder)
    local function results(from, gap, events)
      small.write(folder .. "/far.csv", ("name,time,application,num_replicas,batch_size\na,%d,narrow,2,32\n"
        .. "b,%d,narrow,2,32\n"):format(from + 30, from + 30 + gap))
      return simulator(folder, {events = events}):run {workload = folder .. "/far.csv", policy = "scheduling/tiresias"}
    end
    for _, events in ipairs {false, true} do
      local near_zero <const>, unix <const> = results(0, 40, events), results(1732780800, 40, events)
      for i = 1, 2 do
        assert(near_zero.jct[i] == unix.jct[i] and near_zero.wait[i] == unix.wait[i])
      end
      assert(near(near_zero.node_hours, unix.node_hours) and near_zero.makespan == unix.makespan)
      assert(near_zero.decisions == unix.decisions)
      local far <const> = results(0, 600000000, events)
      assert(far.jct[2] == far.jct[1], far.jct[2])
    end
  end)
end)

case("jobs: all policies finish all jobs, the same in every run; goodput beats the fixed ones", function()
  with_trace(30, function(folder)
    local sim, jct = simulator(folder), {}
    for _, name in ipairs {"fifo", "tiresias", "optimus", "throughput", "goodput"} do
      local r = sim:run {workload = folder .. "/workload.csv", policy = "scheduling/" .. name}
      local again = sim:run {workload = folder .. "/workload.csv", policy = "scheduling/" .. name}
      assert(#r.jct == 30 and r.faults == 0, r.fault)
      assert(core.plain_encode(table.move(r.jct, 1, 30, 1, {})) == core.plain_encode(table.move(again.jct, 1, 30, 1, {})))
      jct[name] = r.jct:mean()
    end
    assert(jct.goodput < jct.tiresias and jct.goodput < jct.fifo, ("%g %g %g"):format(jct.goodput, jct.tiresias, jct.fifo))
    assert(jct.goodput < jct.throughput, ("%g %g"):format(jct.goodput, jct.throughput))
    local events = simulator(folder, {events = true, resize = {start = 30, live = 2}}):run {
      workload = folder .. "/workload.csv", policy = "scheduling/goodput"}
    assert(events.jct:mean() < jct.goodput)
    assert(require("tide.chart").svg(require("tide.sim.jobs").charts {events}):find "<polyline")
  end)
end)

---- persons -------------------------------------------------------------------------------------------------------

-- A view of persons with jobs that take any number of slots: {name, {job fields}..} each. A machine has one slot, so
-- that every number of slots is a size.
local function view_of(slots, persons)
  local view = random_view(slots, 1, 0)
  view.half_life_s, view.persons, view.reason = 3600, {}, {{event = "submit", id = 1}}
  for i, p in ipairs(persons) do
    view.persons[i] = {name = p.name, weight = p.weight or 1, group = p.group, group_weight = p.group_weight,
      priority = p.priority or 0, used = p.used or 0, slots_max = p.slots_max, runs_max = p.runs_max,
      memory_max = p.memory_max, group_slots_max = p.group_slots_max, group_runs_max = p.group_runs_max,
      group_memory_max = p.group_memory_max}
    for _, job in ipairs(p) do
      local id <const> = #view.jobs + 1
      view.jobs[id] = {id = id, age = 100, weight = 1, slots = job.slots or 0, nodes = {}, min = job.min or 1,
        max = job.max or slots, resizes = 0, resize_s = 1, attained = 0, max_seen = slots, person = p.name,
        memory = job.memory, priority = job.priority, preemptible = job.preemptible, batch = {start = 32, max = 2048, lo = 1, hi = 2048},
        gns = {sqr = 0.1, var = 20}, perf = {0.1, 0.01, 1e-3, 1e-3, 1e-3, 1e-3, 1}}
    end
  end
  return view
end

-- Slots of each job, and of each person.
local function given(plan, view)
  local of, sum = {}, {}
  for _, job in ipairs(view.jobs) do
    of[job.id] = plan.alloc[job.id].slots
    sum[job.person] = (sum[job.person] or 0) + of[job.id]
  end
  return of, sum
end

case("fair: weights of persons, and of groups and their members", function()
  local decide <const> = policy "scheduling/fair"
  local view = view_of(16, {{name = "a", {}}, {name = "b", weight = 3, {}}})
  local _, sum = given(decide(view), view)
  assert(sum.a == 4 and sum.b == 12, sum.a)
  view = view_of(16, {{name = "a", group = "g", group_weight = 1, weight = 1, {}},
    {name = "b", group = "g", group_weight = 1, weight = 1, {}}, {name = "c", weight = 1, {}}})
  _, sum = given(decide(view), view)
  assert(sum.a == 4 and sum.b == 4 and sum.c == 8, sum.c)
end)

case("fair: who has used much gets less; what one cannot take goes to others", function()
  local decide <const> = policy "scheduling/fair"
  local view = view_of(16, {{name = "a", used = 36e6, {}}, {name = "b", {}}})
  local _, sum = given(decide(view), view)
  assert(sum.a == 0 and sum.b == 16)
  view = view_of(16, {{name = "a", {max = 4}}, {name = "b", {}}})
  _, sum = given(decide(view), view)
  assert(sum.a == 4 and sum.b == 12)
  view = view_of(16, {{name = "a", {min = 12}}, {name = "b", {max = 8}}}) -- 8 slots of a are not enough for it
  _, sum = given(decide(view), view)
  assert(sum.b == 8 and sum.a == 0)
end)

case("fair: limits of slots, runs and memory, and priorities", function()
  local decide <const> = policy "scheduling/fair"
  local view = view_of(16, {{name = "a", slots_max = 3, {}}, {name = "b", runs_max = 1, {max = 2}, {}}})
  local of, sum = given(decide(view), view)
  assert(sum.a == 3 and of[2] == 2 and of[3] == 0)
  assert(decide(view).why[3]:find "at most 1 runs", decide(view).why[3])
  view = view_of(16, {{name = "a", memory_max = 100, {memory = 60}, {memory = 60}}})
  of = given(decide(view), view)
  assert(of[1] == 16 and of[2] == 0)
  view = view_of(16, {{name = "a", {}}, {name = "b", priority = 1, {max = 12}}})
  sum = select(2, given(decide(view), view))
  assert(sum.b == 12 and sum.a == 4)
end)

case("fair: limits of a group hold for its members together", function()
  local decide <const> = policy "scheduling/fair"
  local function member(name, o)
    o.name, o.group, o.group_weight, o.group_slots_max = name, "g", o.group_weight or 2, o.group_slots_max or 6
    return o
  end
  local view = view_of(16, {member("a", {{}}), member("b", {weight = 2, {}}), {name = "c", {}}})
  local sum = select(2, given(decide(view), view))
  assert(sum.a == 2 and sum.b == 4 and sum.c == 8, ("%d %d %d"):format(sum.a, sum.b, sum.c)) -- 10 slots are no size
  view = view_of(16, {member("a", {used = 36e6, {}}), member("b", {{}})}) -- nobody else wants what the group may not have
  sum = select(2, given(decide(view), view))
  assert(sum.a == 0 and sum.b == 6)
  view = view_of(16, {member("a", {group_runs_max = 2, {}, {}, {}}), member("b", {group_runs_max = 2, {}}), {name = "c", {}}})
  local of <const> = given(decide(view), view)
  assert(of[3] == 0 and of[4] == 0 and of[1] + of[2] == 6)
  assert(decide(view).why[4]:find "group g has at most 2 runs", decide(view).why[4])
  for seed = 1, 50 do -- whatever weights, use and sizes are: neither more than the group may have, nor slots left idle
    local persons <const>, wants = {}, 0
    for i = 1, 6 do
      local p <const> = {name = "p" .. i, weight = 1 + (seed * i) % 5, used = (seed * 7919 * i) % 100000}
      for n = 1, 1 + (seed + i) % 9 do p[n] = {max = 1} end
      persons[i] = i <= 3 and member(p.name, p) or p
      wants = wants + (i > 3 and #p or 0)
    end
    view = view_of(16, persons)
    sum = select(2, given(decide(view), view))
    local group <const> = sum.p1 + sum.p2 + sum.p3
    local total <const> = group + sum.p4 + sum.p5 + sum.p6
    local own = 0
    for i = 1, 3 do own = own + #persons[i] end
    assert(group <= 6, group)
    assert(total == math.min(16, wants + math.min(6, own)), ("seed %d: %d of %d"):format(seed, total, wants))
  end
end)

case("fair: of one person's runs those of a higher priority come first", function()
  local decide <const> = policy "scheduling/fair"
  local view <const> = view_of(16, {{name = "a", runs_max = 1, {max = 8}, {max = 8, priority = 5}}, {name = "b", {}}})
  local of <const> = given(decide(view), view)
  assert(of[1] == 0 and of[2] == 8 and of[3] == 8)
end)

case("fair: a run that may not be preempted keeps its slots", function()
  local decide <const> = policy "scheduling/fair"
  local view <const> = view_of(16, {{name = "a", slots_max = 4, {slots = 12, preemptible = false}}, {name = "b", {}}})
  local of <const> = given(decide(view), view)
  assert(of[1] == 12 and of[2] == 4)
end)

case("fair: 1,000 runs of 50 persons fit the budget", function()
  local decide <const>, persons = policy "scheduling/fair", {}
  for i = 1, 50 do
    persons[i] = {name = ("p%02d"):format(i), weight = 1 + i % 4, used = below(1000000)}
    for _ = 1, 20 do table.insert(persons[i], {max = 64}) end
  end
  local view <const> = view_of(400, persons)
  local plan <const>, total = decide(view), 0
  for _, job in ipairs(view.jobs) do total = total + plan.alloc[job.id].slots end
  assert(total == 400, total)
  assert(core.plain_encode(decide(view)) == core.plain_encode(plan))
end)

case("jobs: persons who all want more have their weights of the slots, within 3 %, over ten half-lives", function()
  local folder <const>, weights <const> = small.make(0), {ann = 1, bob = 2, cay = 5}
  local lines = {"name,time,application,num_replicas,batch_size,user"}
  for i = 1, 400 do
    local name <const> = i % 2 == 0 and "wide" or "narrow"
    lines[#lines + 1] = ("j%d,%d,%s,1,%d,%s"):format(i, i % 40, name, small.apps[name].start,
      i % 8 < 1 and "ann" or i % 8 < 3 and "bob" or "cay")
  end
  small.write(folder .. "/w.csv", table.concat(lines, "\n") .. "\n")
  small.write(folder .. "/shares.lua", [[return {half_life = "10m",
    persons = {ann = {weight = 1}, bob = {weight = 2}, cay = {weight = 5}}}]])
  local r <const> = simulator(folder, {shares = folder .. "/shares.lua", resize = 1, every = 15}):run {
    workload = folder .. "/w.csv", policy = "scheduling/fair"}
  assert(r.faults == 0, r.fault)
  local sum = 0
  for _, hours in pairs(r.contended) do sum = sum + hours end
  assert(sum / 16 * 6 > 10, ("only %g half-lives"):format(sum / 16 * 6))
  for name, weight in pairs(weights) do
    assert(math.abs(r.contended[name] / sum * 8 / weight - 1) < 0.03, ("%s has %g"):format(name, r.contended[name] / sum))
  end
  fails("there is no group `x`", function()
    small.write(folder .. "/bad.lua", "return {persons = {ann = {group = 'x'}}}")
    simulator(folder, {shares = folder .. "/bad.lua"})
  end)
  small.remove(folder)
end)

case("jobs: a trace has priorities among the runs of a person, and times at which she stops them", function()
  local folder <const> = small.make(0)
  small.write(folder .. "/w.csv", "name,time,application,num_replicas,batch_size,user,priority,cancel\n"
    .. "a,0,wide,1,64,ann,0,\nb,0,wide,1,64,ann,0,\nc,0,wide,1,64,ann,5,\nd,0,wide,1,64,ann,0,120\n")
  small.write(folder .. "/shares.lua", "return {persons = {ann = {runs = 1}}}")
  local sim <const> = simulator(folder, {shares = folder .. "/shares.lua"})
  local r <const> = sim:run {workload = folder .. "/w.csv", policy = "scheduling/fair"}
  assert(r.faults == 0, r.fault)
  assert(r.jobs[3].wait < r.jobs[1].wait and r.jobs[1].wait < r.jobs[2].wait, "c before a before b")
  assert(r.cancelled == 1 and r.jobs[4].cancelled and r.jobs[4].jct == 120, r.jobs[4].jct)
  small.write(folder .. "/w.csv", "name,time,application,num_replicas,batch_size,cancel\na,0,wide,1,64,-1\n")
  fails("w.csv:2: `cancel` is negative", function() sim:run {workload = folder .. "/w.csv"} end)
  small.remove(folder)
end)

case("jobs: a policy that grants too much is refused, said, and replaced", function()
  with_trace(3, function(folder)
    local greedy = {path = "greedy.lua", text = [[return {api = 1, kind = "scheduling", name = "greedy", version = 1,
      init = function() return {} end,
      decide = function(_, view)
        local alloc = {}
        for _, job in ipairs(view.jobs) do alloc[job.id] = {slots = 17} end
        return {alloc = alloc}
      end}]]}
    local r = simulator(folder):run {workload = folder .. "/workload.csv", policy = greedy}
    assert(r.faults > 0 and r.fault:find "PLAN_CAPACITY" and r.policy == "fifo" and #r.jct == 3)
    local idle = {path = "idle.lua", text = [[return {api = 1, kind = "scheduling", name = "idle", version = 1,
      init = function() return {} end, decide = function() return {} end}]]}
    fails("gave no job a slot", function() simulator(folder):run {workload = folder .. "/workload.csv", policy = idle} end)
  end)
end)

case("jobs: mistakes in files are said with file and line", function()
  with_trace(2, function(folder)
    local sim = simulator(folder)
    local function bad(pattern, text)
      small.write(folder .. "/bad.csv", text)
      fails(pattern, function() sim:run {workload = folder .. "/bad.csv"} end)
    end
    local head = "name,time,application,num_replicas,batch_size\n"
    bad("bad.csv:1: the file has no rows", "")
    bad("bad.csv:1: the file has no rows", head) -- of a header alone
    bad("bad.csv:1: the column `batch_size` is missing", "name,time,application,num_replicas\n")
    bad("bad.csv:2: `time` is negative", head .. "a,-1,wide,1,64\n")
    bad("bad.csv:2: `time` is `soon`", head .. "a,soon,wide,1,64\n")
    bad("bad.csv:3: no profile is called `deep`", head .. "a,1,wide,1,64\nb,1,deep,1,64\n")
    bad("bad.csv:2: `num_replicas` must be 1 or more", head .. "a,1,wide,0,64\n")
    bad("bad.csv:2: the job requires 17 slots and can never run: there are 16", head .. "a,1,wide,17,512\n")
    bad("bad.csv:2: `batch_size` must be 64 or more", head .. "a,1,wide,1,63\n")
    bad("bad.csv:2: `batch_size` is 513", head .. "a,1,wide,1,513\n")
    bad("bad.csv:2: 4 fields, the header has 5", head .. "a,1,wide,1\n")
    bad("bad.csv:3: a second job is called `a`", head .. "a,1,wide,1,64\na,1,wide,1,64\n")
    fails("no.csv", function() sim:run {workload = folder .. "/no.csv"} end)
    fails("no field `policies`", function() sim:run {workload = "x", policies = 1} end)
    fails("no field `node`", simulator, folder, {node = 4})
    fails("`slots` must be an integer", simulator, folder, {slots = 0})
    fails("`interference` must be below 1", simulator, folder, {interference = 1})
    small.write(folder .. "/profiles/wide/placements.csv", "placement,local_bsz,step_time,sync_time\n1,4,0.1,0.2\n")
    fails("placements.csv:2: requires local_bsz", function()
      simulator(folder):run {workload = folder .. "/workload.csv"}
    end)
  end)
end)

case("jobs: nodes follow the utility of the jobs", function()
  with_trace(12, function(folder)
    local sim = simulator(folder, {nodes = 1, nodes_min = 1, nodes_max = 4, node_start = 60})
    local fixed = simulator(folder):run {workload = folder .. "/workload.csv"}
    local r = sim:run {workload = folder .. "/workload.csv", params = {autoscale = true}}
    assert(r.faults == 0, r.fault)
    assert(r.node_hours < fixed.node_hours, ("%g node-hours, %g with all"):format(r.node_hours, fixed.node_hours))
    local most = 0
    for _, p in ipairs(r.curve) do most = math.max(most, p.slots) end
    assert(most > 4)
  end)
end)

case("jobs: nodes follow throughput, which grows further than what the batches are worth", function()
  with_trace(1, function(folder)
    local function run(name)
      return simulator(folder, {nodes = 1, nodes_min = 1, nodes_max = 16, node_start = 60}):run {
        workload = folder .. "/workload.csv", policy = "scheduling/" .. name, params = {autoscale = true}}
    end
    local ours <const>, other <const> = run "goodput", run "throughput"
    assert(other.faults == 0, other.fault)
    assert(ours.node_hours < other.node_hours, ("%g %g"):format(ours.node_hours, other.node_hours))
  end)
end)

case("throughput: slots go where they add most examples, whatever these are worth", function()
  local function plan_of(name)
    local view <const> = view_of(16, {{name = "a", {}, {}}})
    view.jobs[1].gns = {sqr = 1, var = 1} -- larger batches are worth little
    for _, job in ipairs(view.jobs) do
      job.batch.lo = 32 -- more slots, larger batches
      if name == "throughput" then job.gns = require("tide.policy.contract").all_noise end
    end
    return policy("scheduling/" .. name)(view).alloc
  end
  local goodput <const>, throughput <const> = plan_of "goodput", plan_of "throughput"
  assert(throughput[1].slots == throughput[2].slots and goodput[1].slots ~= goodput[2].slots,
    ("%d %d, %d %d"):format(throughput[1].slots, throughput[2].slots, goodput[1].slots, goodput[2].slots))
end)

---- the published traces --------------------------------------------------------------------------------------------

local POLLUX <const> = os.getenv "TIDE_POLLUX"
if POLLUX then
  case("published: every job of Tiresias and Optimus to the second", function()
    local csv = require "tide.sim.jobs.csv"
    for _, name in ipairs {"tiresias", "optimus"} do
      local t = csv.read(("%s/published/%s-1.0.csv"):format(POLLUX, name), {{name = "workload"}, {name = "job", text = true},
        {name = "jct_s"}})
      local published = {}
      for i = 1, #t.line do published[t.workload[i] .. " " .. t.job[i]] = t.jct_s[i] end
      local sim = require("tide.sim.jobs").new {profiles = POLLUX .. "/profiles"}
      for _, n in ipairs {1, 2, 3, 6, 7, 8} do
        local r = sim:run {workload = ("%s/workloads/1.0/workload-%d.csv"):format(POLLUX, n),
                           policy = "scheduling/" .. name}
        for _, job in ipairs(r.jobs) do
          local wanted = published[n .. " " .. job.name] or published[n .. ".0 " .. job.name]
          assert(job.jct == wanted, ("%s %d %s: %s, %s"):format(name, n, job.name, job.jct, tostring(wanted)))
        end
      end
    end
  end)
end

return cases
