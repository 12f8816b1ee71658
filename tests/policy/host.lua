-- The policy host on a driver of its own: virtual time, workers whose time is a line in their batch.
local core = require "tide.core"
local chunks = require "tide.chunks"
local guard = require "tide.policy.guard"
local Host = require "tide.policy.host"
local journal = require "tide.policy.journal"
local replay = require "tide.policy.replay"
local source = require "tide.policy.source"
local contract = require "tide.policy.contract"

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

-- A job of n workers; step seconds = the slowest worker's at + per * batch.
local function world(o)
  o = o or {}
  local w = {time = 0, clock = 0, events = {}, applied = 0, doubled = 0, epochs = {}, workers = {}, batch = o.batch or 96}
  local speeds = o.speeds or {1, 1.6, 3}
  for i, speed in ipairs(speeds) do
    w.workers[i] = {id = i, node = i, state = "up", batch = w.batch // #speeds, batch_min = 1, batch_max = w.batch,
                    at = 0.01, per = 0.01 / speed, examples = {}, seconds = {}, metrics = {}}
  end
  w.driver = {
    now = function() return w.time end,
    signals = function() return o.signals or {["worker.speed"] = true, ["worker.sample"] = true, ["worker.times"] = true} end,
    notify = function(e) w.events[#w.events + 1] = e end,
    snapshot = function()
      local view = {job = {id = 1, batch = w.batch}, workers = {}, age = {}}
      for i, x in ipairs(w.workers) do
        view.workers[i] = {id = x.id, node = x.node, state = x.state, batch = x.batch, batch_min = x.batch_min,
          batch_max = x.batch_max, clock = w.clock, compute_s = x.at + x.per * x.batch,
          examples = x.examples[#x.examples], seconds = x.seconds[#x.seconds],
          speed = {examples = {table.unpack(x.examples)}, seconds = {table.unpack(x.seconds)}}}
      end
      return view
    end,
    things = function()
      local out = {compute_s = {}}
      for i, x in ipairs(w.workers) do out.compute_s[i] = x.metrics.compute_s end
      return out
    end,
    apply = function(_, _, actions, epoch)
      if o.fail_apply then return nil, "the node is gone" end
      w.epochs[#w.epochs + 1] = epoch
      for _, a in ipairs(actions) do
        assert(a.field == "batch", a.field)
        if w.workers[a.id].batch == a.value then w.doubled = w.doubled + 1 end
        w.workers[a.id].batch, w.applied = a.value, w.applied + 1
      end
      local sum = 0
      for _, x in ipairs(w.workers) do sum = sum + x.batch end
      assert(sum == w.batch, "the batches do not sum up")
      return true
    end,
  }
  function w.step_s()
    local most = 0
    for _, x in ipairs(w.workers) do most = math.max(most, x.at + x.per * x.batch) end
    return most
  end
  -- One step of training, then the host.
  function w.train(h, times)
    for _ = 1, times or 1 do
      local s = w.step_s()
      for _, x in ipairs(w.workers) do
        x.examples[#x.examples + 1], x.seconds[#x.seconds + 1] = x.batch, x.at + x.per * x.batch
        guard.sample(x.metrics, "compute_s", w.time + s, x.at + x.per * x.batch, 64)
        if #x.examples > 64 then table.remove(x.examples, 1) table.remove(x.seconds, 1) end
      end
      w.time, w.clock = w.time + s, w.clock + 1
      h:metric("examples_per_s", w.batch / s)
      h:step()
    end
  end
  return w
end

local function new_host(w, o)
  o = o or {}
  return Host.new {driver = w.driver, seed = o.seed or 1, journal = o.journal, timed = o.timed}
end

local function policy(body, o)
  o = o or {}
  return {path = (o.name or "test") .. ".lua", text = ([[return {api = 1, kind = %q, name = %q, version = %d, every = %g, min_gap = 0.001,
    needs = {%s}, params = {%s},
    init = function(params, saved) return {params = params, n = saved and saved.n or 0, saved = saved} end,
    decide = function(st, view, k) %s end,
    export = function(st) return {n = st.n} end}]]):format(o.kind or "batching", o.name or "test", o.version or 1,
    o.every or 1, o.needs or "", o.params or "", body)}
end

local SHIFT <const> = [[st.n = st.n + 1
  local from, to = 1 + st.n % #view.workers, 1 + (st.n + 1) % #view.workers
  if view.workers[from].batch < 2 then return {} end
  return {batch = {[from] = view.workers[from].batch - 1, [to] = view.workers[to].batch + 1}, why = "turn " .. st.n}]]

case("every shipped policy loads under its name and keeps the contract", function()
  local names = source.shipped()
  assert(#names >= 14, #names)
  for _, name in ipairs(names) do
    local loaded = assert(source.load(assert(source.find(name)), {timed = true}))
    assert(name == loaded.policy.kind .. "/" .. loaded.policy.name, name)
    loaded.sandbox:close()
  end
  for _, kind in pairs(contract.kinds) do assert(source.find(kind.fallback)) end
end)

case("the 20 lines of the manual, unmodified: all workers finish together", function()
  local file = assert(io.open(SOURCE .. "/docs/policies.md"))
  local text = file:read "a"
  file:close()
  local example = assert(text:match "```lua\n(%-%- Give each worker the batch.-)```")
  local w = world()
  for _, x in ipairs(w.workers) do x.examples, x.seconds = {10, 20}, {x.at + 10 * x.per, x.at + 20 * x.per} end
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", {text = example, path = "even-finish.lua"}))
  local before = w.step_s()
  w.train(h, 3)
  assert(w.step_s() < before / 1.5, ("%g, was %g"):format(w.step_s(), before))
  assert(h:why("batch 1")[1].why:find "step", h:why("batch 1")[1].why)
  h:close()
end)

case("boa, even-finish and lb-bsp beat equal shares on workers of speeds 1 : 1.6 : 3", function()
  local best
  for _, name in ipairs {"batching/boa", "batching/even-finish", "batching/lb-bsp"} do
    local w = world {batch = 300}
    local h = new_host(w)
    assert(h:add_seat("batching", "mf", name))
    local before = w.step_s()
    w.train(h, 400)
    if name ~= "batching/even-finish" then -- that one needs two distinct batches to see a line
      assert(before / w.step_s() >= 1.5, ("%s: %g of %g"):format(name, w.step_s(), before))
    end
    best = best or w.step_s()
    h:close()
  end
  -- boa is within 5 % of the split that knows the lines
  local w, cost = world {batch = 300}, {}
  for i, x in ipairs(w.workers) do cost[i] = {at = x.at, per = x.per, min = 1} end
  assert(best <= 1.05 * core.k.minmax_split(300, cost).seconds, best)
end)

case("boa: an example that changed hands to learn something goes back when that is measured", function()
  local w = world {batch = 300}
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/boa"))
  w.train(h, 60)
  local cost, off, changed, batch = {}, 0, 0, nil
  for i, x in ipairs(w.workers) do cost[i] = {at = x.at, per = x.per, min = 1} end
  local best = core.k.minmax_split(300, cost).seconds
  for _ = 1, 200 do
    w.train(h, 1)
    if w.step_s() > 1.001 * best then off = off + 1 end
    if batch and batch ~= w.workers[1].batch then changed = changed + 1 end
    batch = w.workers[1].batch
  end
  assert(changed >= 4, "it has stopped to look")
  assert(off <= 40, off)
  h:close()
end)

case("chunks: another size from the next pass on, every example once, also where a record goes on", function()
  local function new() return chunks.new(1000, {workers = 2, seed = 7, chunks = 10}) end
  local function pass_of(set, stop_at) -- sizes of the chunks that were handed out, examples seen
    local sizes, seen = {}, {}
    while not set:over() and #sizes ~= stop_at do
      local c = set:take(1, 0)
      sizes[#sizes + 1] = c.count
      for e = c.first, c.first + c.count - 1 do seen[#seen + 1] = e end
      assert(set:finish {index = c.index, lease = c.lease, fields = {n = c.count}})
    end
    return sizes, seen
  end
  local set = new()
  set:begin()
  set:resize(300)
  assert(set:size_wanted() == 300 and #pass_of(set) == 10 and set:take_sums().n == 1000)
  set:begin()
  local sizes, seen = pass_of(set, 3)
  assert(#sizes == 3)
  local record = core.plain_decode(core.plain_encode(set:record()))
  local again = new()
  assert(again:restore(record))
  local rest, more = pass_of(again)
  table.move(more, 1, #more, #seen + 1, seen)
  table.sort(seen)
  assert(#sizes + #rest == 4 and #seen == 1000 and seen[1] < seen[2])
  for i = 2, 1000 do assert(seen[i] == seen[i - 1] + 1, "an example is missing or twice") end
  assert(again:take_sums().n == 1000)
  again:begin()
  assert(#pass_of(again) == 4)
  again:resize(5000)
  again:begin()
  assert(#pass_of(again) == 1)
  local ok, why = chunks.new(1000, {workers = 2, seed = 7, chunks = 4}):restore(record)
  assert(not ok and why:find "in 10 chunks, the job's 1000 in 4")
  record.declared, record.pieces, record.size, record.done = nil, 10, nil, {} -- of a program before this one
  assert(new():restore(record))
end)

case("a policy that is wrong is refused with the reason, and nothing changes", function()
  local w = world {signals = {}}
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  local epoch = h.epoch
  for text, want in pairs {
    ["return 1"] = "returns no table", ["return {api = 2, kind = 'batching'}"] = "written for api 2",
    ["return {kind = 'batching'}"] = "`api = 1` is missing", ["return {api = 1, kind = 'nothing'}"] = "there are scheduling",
    ["return {api = 1, kind = 'batching', name = 'X', version = 1}"] = "small letters",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1.5}"] = "version",
    ["return {api = 1, kind = {'scaling', 'placement'}, name = 'x', version = 1}"] = "one policy holds one seat",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print}"] = "`decide` must be a function",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, extra = 1}"] = "`extra` is not known",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, on = {'rain'}}"] = "`rain`",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, every = 0}"] = "`every`",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, params = {a = {b = 1}}}"] = "flat list",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, needs = {'worker.speed'}}"] = "workers that report",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, needs = {'kernel.magic'}}"] = "k.magic",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = print, needs = {'moon'}}"] = "no signal is called",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = error, decide = print}"] = "fails in init",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = function() error 'no' end}"] = "fails on the newest view",
    ["return {api = 1, kind = 'batching', name = 'x', version = 1, init = print, decide = function() return {batch = {[9] = 1}} end}"] = "PLAN_UNKNOWN",
    ["return {api = 1, kind = 'placement', name = 'x', version = 1, init = print, decide = print}"] = "no seat for placement",
    ["return {"] = "expected", ["while true do end"] = "it ta"} do
    local answer, err = h:swap {text = text, path = "bad.lua"}
    assert(not answer and err.message:find(want, 1, true), ("%s: %s"):format(text, tostring(err and err.message)))
    assert(h.epoch == epoch and h:list()[1].name == "equal")
  end
  local _, err = h:swap "batching/nonsense"
  assert(err.code == "T0301")
  _, err = h:swap(policy("return {}", {params = "a = 1"}), {params = {b = 2}})
  assert(err.message:find "no parameter `b`")
  _, err = h:swap(policy("return {}", {params = "a = 1"}), {params = {a = "x"}})
  assert(err.message:find "must be a number")
  h:close()
end)

case("swap: state is handed over, one record and one epoch, the next decision is the new one's", function()
  local records = {}
  local w = world()
  local h = new_host(w, {journal = journal.new(function(bytes) records[#records + 1] = bytes end)})
  assert(h:add_seat("batching", "mf", policy(SHIFT)))
  w.train(h, 5)
  local n = core.plain_decode(h:seat("batching"):last_export()).n
  assert(n >= 1)
  local before = #records
  local answer = assert(h:swap(policy(SHIFT .. "-- two\n", {version = 2})))
  assert(#records == before + 1 and answer.epoch == h.epoch and answer.old == "test v1" and answer.new == "test v2")
  w.train(h, 1)
  assert(core.plain_decode(h:seat("batching"):last_export()).n == n + 1)
  answer = assert(h:rollback "batching")
  assert(answer.new == "test v1" and core.plain_decode(h:seat("batching"):last_export()).n == n)
  assert(#h:history "batching" == 3)
  assert(h:set("batching", {}, {}).new == "test v1")
  h:close()
end)

case("1000 swaps under load: no action is lost or done twice, batches always sum up", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy(SHIFT, {every = 0.1})))
  local a, b = policy(SHIFT, {every = 0.1}), policy(SHIFT .. "-- b\n", {every = 0.1, name = "other"})
  local wished = 0
  for i = 1, 1000 do
    w.train(h, 1)
    assert(h:swap(i % 2 == 0 and a or b))
  end
  w.train(h, 1)
  for _, s in ipairs(h.order) do wished = wished + s.actions end
  assert(w.applied == wished and w.doubled == 0, ("%d of %d, %d doubled"):format(w.applied, wished, w.doubled))
  assert(core.plain_decode(h:seat("batching"):last_export()).n == h:list()[1].decisions)
  for i = 2, #w.epochs do assert(w.epochs[i] >= w.epochs[i - 1]) end
  assert(h:list()[1].errors == 0)
  h:close()
end)

case("faults leave the last plan in force; three in a row give the seat to the previous good policy", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy(SHIFT)))
  w.train(h, 3)
  local n = core.plain_decode(h:seat("batching"):last_export()).n
  local bad = policy("st.n = st.n + 1000 if view.tick > 5 then error 'oh dear' end return {}", {name = "bad", every = 0.05})
  assert(h:swap(bad))
  w.train(h, 30)
  assert(h:list()[1].name == "test", h:list()[1].name)
  local failed = h:history("batching")
  assert(failed[2].name == "bad" and failed[2].failed:find "oh dear")
  local seen
  for _, e in ipairs(w.events) do seen = seen or e.kind == "policy_failed" and e.reason:find "bad.lua:%d+: oh dear" end
  assert(seen)
  assert(core.plain_decode(h:seat("batching"):last_export()).n >= n)
  h:close()
end)

for name, body in pairs {error = "error 'x'", budget = "while true do end", rejected = "return {batch = {[1] = 1}}",
    memory = "local t = {} for i = 1, 1e9 do t[i] = {i} end", shape = "return {batch = print}", nan = "return {batch = {[1] = 0 / 0}}"} do
  case("without a good predecessor the fallback takes over: " .. name, function()
    local w = world {batch = 97}
    local h = new_host(w)
    assert(h:add_seat("batching", "mf", policy("if view.tick > 1 then " .. body .. " end return {}", {every = 0.01})))
    for _, x in ipairs(w.workers) do x.batch = 1 end
    w.workers[1].batch = 95
    w.train(h, 8)
    local l = h:list()[1]
    assert(l.name == "equal" and l.errors == 3, l.name .. " " .. l.errors)
    assert(w.workers[1].batch == 33 and w.workers[2].batch == 32)
    h:close()
  end)
end

case("a failed decide throws the half-changed state away", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy("st.n = st.n + 1 if view.tick == 3 then error 'x' end return {why = tostring(st.n)}", {every = 0.01})))
  w.train(h, 5)
  assert(core.plain_decode(h:seat("batching"):last_export()).n == 4) -- ticks 1, 2, 4, 5
  h:close()
end)

case("a guard rolls back a policy that halves the metric, and blocks it until forced", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/lb-bsp"))
  w.train(h, 200)
  local good = w.step_s()
  local bad = policy("return {batch = {[1] = view.job.batch - 2, [2] = 1, [3] = 1}}", {name = "halver", every = 0.5})
  local refused, err = h:swap(bad, {guard = {metric = "nothing", drop = 0.1, within = "20s"}})
  assert(not refused and err.code == "T0307" and err.message:find "examples_per_s")
  local swapped_at = w.time
  local answer = assert(h:swap(bad, {guard = {metric = "examples_per_s", drop = "10%", within = "20s"}}))
  assert(answer.guard.baseline > 0 and answer.guard.limit < answer.guard.baseline)
  while h:list()[1].name == "halver" do
    w.train(h, 1)
    assert(w.time < swapped_at + 21, "it was not rolled back within its window")
  end
  assert(h:list()[1].name == "lb-bsp")
  local after = w.step_s()
  w.train(h, 300)
  assert(w.step_s() < after and w.step_s() > 0.5 * good) -- lb-bsp has it again, and repairs
  local _, blocked = h:swap(bad)
  assert(blocked.code == "T0305" and blocked.message:find "the limit is")
  assert(h:swap(bad, {force = true}))
  h:close()
end)

case("a guard is passed by a policy that is as good; a fault or a NaN in its window trips it", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  w.train(h, 50)
  local g = {metric = "examples_per_s", drop = 0.1, within = 5}
  assert(h:swap("batching/lb-bsp", {guard = g}))
  w.train(h, 60)
  assert(h:list()[1].name == "lb-bsp" and not h:list()[1].guarded and h:history("batching")[2].guard:find "it was")
  assert(h:swap(policy("st.n = st.n + 1 if st.n > 2 then error 'x' end return {}", {every = 0.1, name = "faulty"}), {guard = g}))
  w.train(h, 5)
  assert(h:list()[1].name == "lb-bsp")
  assert(h:swap("batching/boa", {guard = g}))
  h:metric("loss", 0 / 0)
  assert(h:list()[1].name == "lb-bsp")
  h:close()
end)

case("shadow: same views, own state, never applied, agreement by field", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy(SHIFT, {every = 0.1})))
  assert(h:shadow(policy("return {batch = {[1] = 94, [2] = 1, [3] = 1}}", {name = "greedy"}), {for_ = 5}))
  w.train(h, 20)
  assert(w.workers[1].batch < 60)
  local report = assert(h:report "batching")
  assert(report.decisions >= 3 and report.same == 0 and report.fields.batch.differs == report.decisions and report.faults == 0)
  assert(report.first_difference.own.batch[1] == 94)
  assert(h:shadow(policy(SHIFT)))
  local s = h:seat "batching"
  assert(s.shadowed.version.saved == s:last_export())
  w.train(h, 5)
  report = h:report "batching"
  assert(report.same == report.decisions and report.decisions > 0)
  h:close()
end)

-- Two pairs of a fast and a slow worker.
local PAIRS <const> = {speeds = {1, 3, 1, 3}, batch = 160}
local RISE <const> = {metric = "compute_s", rise = 0.2, within = 3}

case("canary: divides its own part of the batch, the rest keeps what it has; promoted when it is better", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  w.train(h, 30)
  local answer = assert(h:swap("batching/boa", {canary = {workers = {3, 4}}, guard = RISE}))
  assert(answer.canary == "workers 3,4" and answer.inside == 2 and answer.rest == 2 and answer.epoch == 2)
  local began = w.time
  while h:list()[1].canary do
    w.train(h, 1)
    if h:list()[1].canary then
      assert(w.workers[1].batch == 40 and w.workers[2].batch == 40 and w.workers[3].batch + w.workers[4].batch == 80)
      assert(h:list()[1].name == "equal" and h:report("batching").outcome == "goes on")
    end
    assert(w.time < began + 10, "the guard has not ended it")
  end
  local report = h:report "batching"
  assert(report.outcome:find "^promoted" and report.decisions > 0 and report.actions > 0)
  local g = report.groups.compute_s
  assert(g.inside < 0.8 * g.inside_before and g.rest == g.rest_before)
  assert(h:list()[1].name == "boa")
  local line = h:history "batching"
  assert(line[2].canary == "workers 3,4" and line[3].guard and line[3].current)
  w.train(h, 60)
  assert(w.workers[2].batch > 50 and w.workers[1].batch < 40, "the promoted policy decides about all")
  assert(h:rollback("batching").new == "equal v1")
  h:close()
end)

local LOPSIDED <const> = [[st.n = st.n + 1
  local batch, list = {}, view.workers
  for i, x in ipairs(list) do batch[x.id] = i % 2 == 1 and view.job.batch // 2 - 1 or 1 end
  return {batch = batch}]]

case("canary: one that is worse than the rest is withdrawn and blocked; the old policy repairs at once", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  w.train(h, 30)
  local bad = policy(LOPSIDED, {name = "lopsided", every = 0.1})
  assert(h:swap(bad, {canary = {workers = "3,4"}, guard = RISE}))
  w.train(h, 1)
  assert(w.workers[3].batch == 79 and w.workers[4].batch == 1 and w.workers[1].batch == 40)
  while h:list()[1].canary do w.train(h, 1) end
  w.train(h, 1)
  for i = 1, 4 do assert(w.workers[i].batch == 40) end
  assert(h:report("batching").outcome:find "^withdrawn: compute_s of the canary is")
  local _, err = h:swap(bad)
  assert(err.code == "T0305")
  assert(h:list()[1].errors == 0 and h:history("batching")[2].outcome:find "withdrawn")
  h:close()
end)

case("canary: what befalls both groups is not held against it; what it does wrong itself is", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  w.train(h, 30)
  assert(h:swap("batching/lb-bsp", {canary = {workers = {3, 4}}, guard = RISE}))
  for _, x in ipairs(w.workers) do x.at, x.per = 3 * x.at, 3 * x.per end
  while h:list()[1].canary do w.train(h, 1) end
  assert(h:list()[1].name == "lb-bsp", h:report("batching").outcome)
  w.train(h, 3)
  for _, body in ipairs {"error 'oh'", "return {batch = {[9] = 1}}", "while true do end"} do
    local wrong = policy("st.n = st.n + 1 if st.n > 1 then " .. body .. " end return {}", {name = "wrong", every = 0.01})
    assert(h:swap(wrong, {canary = {workers = {3, 4}}, guard = RISE}))
    w.train(h, 3)
    assert(not h:list()[1].canary and h:list()[1].name == "lb-bsp" and h:list()[1].errors == 0)
    assert(h:swap(wrong, {canary = {workers = {3, 4}}, guard = RISE}) == nil, "it is not blocked")
  end
  assert(h:swap("batching/boa", {canary = {workers = {1, 2}}, guard = RISE}))
  h:metric("loss", 0 / 0)
  assert(not h:list()[1].canary)
  assert(h:swap("batching/even-finish", {canary = {workers = {1, 2}}, guard = RISE}))
  assert(h:rollback("batching").old == "even-finish v1" and h:list()[1].name == "lb-bsp") -- one word back
  assert(h:swap("batching/even-finish", {canary = {workers = {1, 2}}, guard = RISE}))
  assert(h:swap "batching/equal" and not h:list()[1].canary)
  h:close()
end)

case("canary: what it is compared with is the policy beside it, not one before that", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/boa"))
  w.train(h, 60)
  assert(h:swap "batching/equal")
  local refused, err = h:swap("batching/even-finish", {canary = {workers = {3, 4}}, guard = RISE})
  assert(not refused and err.message:find "no sample of `compute_s` yet", err and err.message)
  w.train(h, 4)
  local now = {}
  for i = 1, 4 do now[i] = w.workers[i].at + w.workers[i].per * w.workers[i].batch end
  assert(h:swap(policy("return {}", {name = "still"}), {canary = {workers = {3, 4}}, guard = RISE}))
  local g = h:seat("batching").canary.before.compute_s
  assert(math.abs(g.inside - math.max(now[3], now[4])) < 1e-9 and math.abs(g.rest - math.max(now[1], now[2])) < 1e-9)
  h:close()
end)

case("canary: a metric of the whole run guards it too", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  w.train(h, 30)
  local bad = policy(LOPSIDED, {name = "lopsided", every = 0.1})
  assert(h:swap(bad, {canary = {workers = {1, 2}}, guard = {metric = "examples_per_s", drop = 0.2, within = 5}}))
  while h:list()[1].canary do w.train(h, 1) end
  assert(h:report("batching").outcome:find "^withdrawn: examples_per_s is")
  h:close()
end)

case("canary: what cannot be tried on a part is refused, and nothing changes", function()
  local w = world(PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  assert(h:add_seat("scaling", "mf", "scaling/fixed"))
  w.train(h, 10)
  local epoch = h.epoch
  for _, entry in ipairs {
    {"batching/boa", {workers = {1, 2}}, nil, "wants a guard"}, {"batching/boa", {workers = {1}}, RISE, "two or more"},
    {"batching/boa", {workers = {1, 2, 3, 4}}, RISE, "some outside"}, {"batching/boa", {workers = {9}}, RISE, "some inside"},
    {"batching/boa", {tables = "w"}, RISE, "{fraction = ...} or {nodes = ...} or {workers"}, {"batching/boa", {}, RISE, "is {fraction"},
    {"batching/boa", {workers = {1, 2}, fraction = 0.5}, RISE, "is {fraction"}, {"batching/boa", {fraction = 1}, RISE, "between 0 and 1"},
    {"batching/boa", {workers = {}}, RISE, "names nothing"}, {"batching/boa", "n1", RISE, "is {fraction"},
    {"scaling/psld", {nodes = "n1"}, RISE, "one answer for all"},
    {"batching/boa", {workers = {1, 2}}, {metric = "moonlight", drop = 0.1}, "no sample of `moonlight`"},
    {"batching/boa", {workers = {1, 2}}, {metric = "compute_s"}, "a guard is"}} do
    local answer, err = h:swap(entry[1], {canary = entry[2], guard = entry[3]})
    if entry[1] == "scaling/psld" and err.code == "T0302" then err.message = "one answer for all" end -- its signal is not measured here
    assert(not answer and err.message:find(entry[4], 1, true), tostring(err and err.message))
    assert(h.epoch == epoch and not h:list()[1].canary)
  end
  h:close()
end)

case("canary: the journal replays both policies; after a crash the old one has all", function()
  local bytes = {}
  local w = world {speeds = {1, 3, 1, 3, 2, 2}, batch = 240}
  local h = new_host(w, {journal = journal.new(function(b) bytes[#bytes + 1] = b end)})
  assert(h:add_seat("batching", "mf", policy(SHIFT, {every = 0.3})))
  w.train(h, 20)
  local new = policy(SHIFT .. "-- new\n", {name = "new", every = 0.1})
  assert(h:swap(new, {canary = {fraction = 0.5}, guard = {metric = "compute_s", rise = 5, within = 4}}))
  w.train(h, 5)
  local crashed = table.concat(bytes)
  while h:list()[1].canary do w.train(h, 1) end
  assert(h:list()[1].name == "new", h:report("batching").outcome)
  w.train(h, 10)
  local report = assert(replay.run((journal.parse(table.concat(bytes))), {}))
  assert(report.identical and report.decisions > 20, report.same)
  local other = new_host(world(PAIRS))
  assert(other:add_seat("batching", "mf", "batching/equal"))
  other:recover((journal.parse(crashed)))
  assert(other:list()[1].name == "test" and not other:list()[1].canary)
  h:close()
  other:close()
end)

case("a crash between or in any two records: one policy holds the seat, whole, with its last accepted state", function()
  local parts, w = {}, world(PAIRS)
  local h = new_host(w, {journal = journal.new(function(b) parts[#parts + 1] = b end)})
  assert(h:add_seat("batching", "mf", policy(SHIFT, {every = 0.3})))
  w.train(h, 6)
  assert(h:swap(policy(SHIFT .. "-- b\n", {name = "b", every = 0.3})))
  w.train(h, 6)
  local guarded = {metric = "compute_s", rise = 5, within = 1}
  assert(h:swap(policy(SHIFT .. "-- c\n", {name = "c", every = 0.2}), {canary = {workers = {1, 2}}, guard = guarded}))
  while h:list()[1].canary do w.train(h, 1) end
  assert(h:rollback "batching")
  w.train(h, 4)
  h:close()
  local text, holders = "", {}
  for i, part in ipairs(parts) do
    for _, cut in ipairs {1, #part // 2, #part} do -- torn in its head, in its middle, whole
      local records = journal.parse(text .. part:sub(1, cut))
      local name, n
      for _, r in ipairs(records or {}) do
        if r.text and not r.canary then name, n = r.name, core.plain_decode(r.saved or core.plain_encode {n = 0}).n end
        if r.what == "decision" and not r.canary and r.saved then n = core.plain_decode(r.saved).n end
      end
      if name then
        local other = new_host(world(PAIRS))
        assert(other:add_seat("batching", "mf", "batching/equal"))
        other:recover(records)
        assert(other:list()[1].name == name and not other:list()[1].canary, ("record %d cut at %d"):format(i, cut))
        local saved = other:seat("batching"):last_export()
        assert((saved and core.plain_decode(saved).n or 0) == n)
        holders[name] = true
        other:close()
      end
    end
    text = text .. part
  end
  assert(holders.test and holders.b and holders.c)
end)

case("canaries at random: batches always sum up, each policy moves only what is its own", function()
  local rng = core.random(11)
  local function below(n) return math.tointeger(rng:below(n)) end
  for round = 1, 25 do
    local speeds, chosen = {}, {}
    for i = 1, 3 + below(6) do speeds[i] = 1 + below(4) end
    for i = 1, #speeds do if below(2) == 0 then chosen[#chosen + 1] = i end end
    local w = world {speeds = speeds, batch = 60 * #speeds}
    local h = new_host(w, {seed = round})
    local MOVE <const> = [[local list, batch = view.workers, {}
      local from, to = list[view.rng(#list)], list[view.rng(#list)]
      local some = math.min(view.rng(20), from.batch - 1)
      if from.id == to.id or some < 1 then return {} end
      return {batch = {[from.id] = from.batch - some, [to.id] = to.batch + some}}]]
    assert(h:add_seat("batching", "mf", policy(MOVE, {every = 0.2})))
    w.train(h, 5)
    local inner = h.driver.apply
    local inside = {}
    for _, id in ipairs(chosen) do inside[id] = true end
    local canary = h:swap(policy(MOVE .. " -- c\n", {name = "c", every = 0.3}), {canary = {workers = chosen},
      guard = {metric = "compute_s", rise = 3, within = 2}})
    assert((canary ~= nil) == (#chosen >= 2 and #chosen < #speeds))
    h.driver.apply = function(kind, scope, actions, epoch)
      local some_in, some_out = false, false
      for _, a in ipairs(actions) do
        if inside[a.id] then some_in = true else some_out = true end
      end
      assert(not (h:list()[1].canary and some_in and some_out), "one plan touches both parts")
      return inner(kind, scope, actions, epoch)
    end
    for _ = 1, 60 do w.train(h, 1) end
    assert(not h:list()[1].canary and h:list()[1].errors == 0)
    h:close()
  end
end)

-- Slots of two tables on three nodes, moved at once.
local function placement_world()
  local w = {time = 0, events = {}, slots = {}}
  for i = 0, 11 do w.slots[#w.slots + 1] = {id = i % 6, table = 1 + i // 6, home = 1 + i % 3, bytes = 1000} end
  w.driver = {
    now = function() return w.time end, signals = function() return {} end,
    notify = function(e) w.events[#w.events + 1] = e end,
    snapshot = function()
      local view = {job = {id = 1}, workers = {}, age = {}, nodes = {}, tables = {}, table_slots = {}}
      for i = 1, 3 do view.nodes[i] = {id = i, name = "n" .. i, state = "up"} end
      for i = 1, 2 do view.tables[i] = {id = i, name = ({"user", "item"})[i], replicas = 0} end
      for i, s in ipairs(w.slots) do view.table_slots[i] = {id = s.id, table = s.table, home = s.home, bytes = s.bytes} end
      return view
    end,
    apply = function(_, _, actions)
      for _, a in ipairs(actions) do
        for _, m in ipairs(a.field == "moves" and a.value or {}) do
          for _, s in ipairs(w.slots) do
            if s.table == m.table and s.id == m.slot then s.home = m.to end
          end
        end
      end
      return true
    end,
  }
  return w
end

case("canary of a placement: by node, by table, by a fraction; nothing outside moves", function()
  local ALL_TO_3 <const> = [[local moves = {}
    for _, s in ipairs(view.table_slots) do
      if s.home ~= 3 then moves[#moves + 1] = {table = s.table, slot = s.id, to = 3} end
    end
    return {moves = moves, replicas = view.tick == 1 and {[1] = 1} or nil}]]
  for name, part in pairs {node = {nodes = "@n1"}, table_ = {tables = "item"}, some = {fraction = 0.4}} do
    local w = placement_world()
    local h = new_host(w)
    assert(h:add_seat("placement", "mf", "placement/static"))
    h:metric("step_s", 1)
    h:step()
    local before = {}
    for i, s in ipairs(w.slots) do before[i] = s.home end
    assert(h:swap(policy(ALL_TO_3, {kind = "placement", name = "all"}), {canary = part, guard = {metric = "step_s", rise = 0.1, within = 5}}))
    for _ = 1, 8 do
      w.time = w.time + 0.5
      h:metric("step_s", 1)
      h:step()
    end
    local moved = 0
    for i, s in ipairs(w.slots) do
      local inside = name == "node" and before[i] == 1 or name == "table_" and s.table == 2
      if name == "some" then inside = s.home ~= before[i] end
      assert(s.home == (inside and 3 or before[i]), ("%s: slot %d"):format(name, i))
      if s.home ~= before[i] then moved = moved + 1 end
    end
    assert(moved > 0 and moved < 8, ("%s: %d moved"):format(name, moved))
    w.time = w.time + 2
    h:metric("step_s", 1)
    h:step()
    h:step()
    assert(h:list()[1].name == "all")
    w.time = w.time + 2
    h:step()
    for _, s in ipairs(w.slots) do assert(s.home == 3) end
    h:close()
  end
end)

-- Servers that serve `ops` keys a second of each slot; what moves is on its way for bytes / bandwidth seconds.
local function server_world(o)
  local w = {time = 0, clock = 0, speeds = o.speeds, slots = {}, moves = 0, bandwidth = o.bandwidth or 1e9}
  local tables = o.tables or {{keys = 1 << 20, width = 16, slots = o.slots or 64}}
  for t, spec in ipairs(tables) do
    for i = 0, spec.slots - 1 do
      w.slots[#w.slots + 1] = {id = i, table = t, home = 1 + i % #o.speeds, bytes = o.bytes or 1000, ops = o.ops or 100}
    end
  end
  local function view_of(_, _, needs)
    local view = {job = {id = 1, clock = w.clock}, workers = {}, age = {}, nodes = {}, servers = {}, tables = {}, table_slots = {}}
    for t, spec in ipairs(tables) do view.tables[t] = {id = t, name = "t" .. t, keys = spec.keys, width = spec.width, replicas = 0} end
    local load = {}
    for i, s in ipairs(w.slots) do
      view.table_slots[i] = {id = s.id, table = s.table, home = s.home, bytes = s.bytes, moving = s.arrives and s.arrives > w.time or nil,
                             ops_per_s = needs and s.ops}
      load[s.home] = (load[s.home] or 0) + s.ops
    end
    for i, speed in ipairs(w.speeds) do
      view.nodes[i] = {id = i, name = "s" .. i, state = "up"}
      view.servers[i] = {id = i, node = i, state = "up", ops_per_s = load[i] or 0, cpu_s = (load[i] or 0) / speed}
    end
    return view
  end
  w.driver = {
    now = function() return w.time end, signals = function() return {["server.load"] = true, ["slot.rates"] = true} end,
    snapshot = view_of, notify = function(e) error(e.reason) end,
    apply = function(_, _, actions)
      for _, m in ipairs(actions[1].value) do
        for _, s in ipairs(w.slots) do
          if s.table == m.table and s.id == m.slot then s.home, s.arrives, w.moves = m.to, w.time + s.bytes / w.bandwidth, w.moves + 1 end
        end
      end
      return true
    end,
  }
  function w.busiest()
    local load, most = {}, 0
    for _, s in ipairs(w.slots) do load[s.home] = (load[s.home] or 0) + s.ops end
    for id, l in pairs(load) do most = math.max(most, l / w.speeds[id]) end
    return most
  end
  function w.pass(h, seconds, iterations)
    for _ = 1, seconds * 2 do
      w.time, w.clock = w.time + 0.5, w.clock + (iterations or 10)
      h:step()
    end
  end
  return w
end

local function psld(w, params)
  local h = new_host(w)
  assert(h:add_seat("placement", "mf", {policy = "placement/psld", params = params}))
  return h
end

case("psld: takes from a slow server what the others do sooner, and nothing when all are alike", function()
  local w = server_world {speeds = {2000, 8000, 8000, 8000}}
  local h = psld(w)
  w.pass(h, 20)
  assert(w.busiest() < 1.08 * 6400 / 26000, w.busiest())
  local w2 = server_world {speeds = {8000, 8000, 8000, 8000}}
  local h2 = psld(w2, {explore = 0})
  w2.pass(h2, 20)
  assert(w2.moves == 0)
  h:close()
  h2:close()
end)

case("psld: a migration must pay for itself within the horizon", function()
  local function moved(bytes, params, iterations)
    local w = server_world {speeds = {2000, 8000, 8000, 8000}, bytes = bytes, bandwidth = 100e6}
    params.explore = 0
    local h = psld(w, params)
    w.pass(h, 10, iterations)
    h:close()
    return w.moves, w.busiest()
  end
  -- 12 of the 16 slots of the slow server would win 0.55 s of each second. An iteration takes 0.05 s: 50 of them are 2.5 s.
  local all = moved(1000, {})
  assert(all >= 10, all)
  assert(moved(1e9, {}) == 0) -- a hundred seconds to move what wins less than two
  local some, busiest = moved(10e6, {})
  assert(some >= 1 and busiest < 0.7, some)
  assert(moved(10e6, {horizon = 1}) == 0)
  assert(moved(1e9, {horizon = 10000000}) >= 10) -- a run that lasts forever
  assert(moved(1000e6, {}, 0) == 0 and moved(1e6, {}, 0) >= 10) -- nothing tells how long an iteration is: 30 s
  assert(moved(10e6, {interference = 100}) == 0)
end)

case("psld: how fast slots move is learnt from its own moves", function()
  local w = server_world {speeds = {2000, 8000, 8000, 8000}, bytes = 1e6, bandwidth = 0.4e6}
  local h = psld(w, {explore = 0})
  w.pass(h, 20)
  local learnt = core.plain_decode(h:seat("placement"):last_export()).bytes_per_s
  assert(w.moves >= 10 and learnt < 100e6 / 4, learnt)
  w = server_world {speeds = {2000, 8000, 8000, 8000}, bytes = 400e6, bandwidth = 1e12}
  h:close()
  h = psld(w, {explore = 0, horizon = 10000})
  w.pass(h, 20)
  learnt = core.plain_decode(h:seat("placement"):last_export()).bytes_per_s
  assert(learnt > 1e9, learnt)
  h:close()
end)

case("placements by other systems' rules: hash, byteps, mxnet, range, round-robin, each stable after its moves", function()
  local tables = {{keys = 1000, width = 10, slots = 32}, {keys = 100000, width = 100, slots = 64}, {width = 8, slots = 64}, {keys = 500, width = 1, slots = 32}}
  for _, name in ipairs {"hash", "byteps", "mxnet", "range", "round-robin"} do
    local w = server_world {speeds = {1, 1, 1, 1}, tables = tables, bytes = 625000}
    for _, x in ipairs(w.slots) do x.home = 1 end
    local h = new_host(w)
    assert(h:add_seat("placement", "mf", "placement/" .. name))
    h:step()
    local moves, homes = w.moves, {}
    assert(moves > 0, name)
    for _, s in ipairs(w.slots) do
      homes[s.table] = homes[s.table] or {}
      homes[s.table][s.home] = (homes[s.table][s.home] or 0) + 1
    end
    if name == "mxnet" then -- small ones whole, by number * 9973; large ones and those of unknown size cut evenly
      assert(homes[1][1] == 32 and homes[4][(3 * 9973) % 4 + 1] == 32)
      for n = 1, 4 do assert(homes[2][n] == 16 and homes[3][n] == 16) end
    elseif name == "byteps" then -- parts of 4 MB are six or seven of these slots, never split
      local by_slot = {}
      for _, s in ipairs(w.slots) do if s.table == 2 then by_slot[s.id] = s.home end end
      for part = 0, 8 do
        local first = math.ceil(part * 4096000 / 625000)
        for id = first, math.ceil((part + 1) * 4096000 / 625000) - 1 do assert(by_slot[id] == by_slot[first], part) end
      end
      local hash = 5381
      for c in ("65536"):gmatch "." do hash = (hash * 33 + c:byte()) & 0xffffffff end
      assert(by_slot[0] == hash % 4 + 1)
    elseif name == "hash" then
      for n = 1, 4 do assert(homes[2][n] > 6 and homes[2][n] < 28) end
    end
    w.time = 100
    h:step()
    assert(w.moves == moves, name .. " moves again")
    h:close()
  end
end)

case("shadow: it sees the signals that it needs, also those the live policy does not ask for", function()
  local asked
  local w = world()
  local inner = w.driver.snapshot
  w.driver.snapshot = function(kind, scope, needs)
    asked = needs or asked
    return inner(kind, scope, needs)
  end
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy("return {}", {every = 0.1})))
  assert(h:shadow("batching/boa", {for_ = 3}))
  w.train(h, 3)
  assert(table.concat(asked, " ") == "worker.sample")
  while w.time < 4 do w.train(h, 1) end
  assert(#asked == 0)
  h:close()
end)

case("check: the recorded views, where it differs, where it fails", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy("st.n = st.n + 1 return {why = 'x'}", {every = 0.01})))
  w.train(h, 230)
  local report = assert(h:check(policy("return {why = view.tick % 2 == 0 and 'x' or 'y'}", {name = "c"})))
  assert(report.views == 200 and report.valid == 200 and report.differs == 100 and report.ok and report.memory_bytes > 10000)
  report = assert(h:check(policy("if view.tick == 100 then error 'no' end return {}", {name = "c"})))
  assert(not report.ok and report.faults == 1 and report.fault:find "no" and not report.lacks)
  report = assert(h:check "batching/boa")
  assert(report.lacks == "worker.sample" and report.ok)
  assert(h:list()[1].errors == 0)
  h:close()
end)

case("partial: what cannot be carried out is told to the policy", function()
  local o = {fail_apply = true}
  local w = world(o)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy("if view.last.status == 'partial' then st.n = 7 end return {batch = {[1] = 30, [2] = 34, [3] = 32}}", {every = 0.01})))
  w.train(h, 3)
  assert(core.plain_decode(h:seat("batching"):last_export()).n == 7 and h:list()[1].last == "partial")
  h:close()
end)

case("events: only those a policy listens to, never closer than min_gap", function()
  local w = world()
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", {path = "e.lua", text = [[return {api = 1, kind = "batching", name = "e", version = 1, every = 1000,
    on = {"join"}, min_gap = 2, init = function() return {n = 0} end, export = function(st) return st end,
    decide = function(st, view) if #view.reason > 0 then st.n, st.id = st.n + 1, view.reason[1].id end return {} end}]]}))
  h:step()
  h:event("leave", 3)
  w.time = 1
  h:step()
  assert(h:list()[1].decisions == 1)
  h:event("join", 9)
  h:step()
  assert(h:list()[1].decisions == 1) -- too soon
  w.time = 2.5
  h:step()
  local st = core.plain_decode(h:seat("batching"):last_export())
  assert(st.n == 1 and st.id == 9)
  h:close()
end)

local function run_recorded(seed, write)
  local w = world()
  local h = new_host(w, {seed = seed, journal = journal.new(write)})
  assert(h:add_seat("batching", "mf", policy([[
    local a, b = view.rng(#view.workers), math.random(#view.workers)
    st.n = st.n + 1
    if view.tick % 7 == 0 then error "seven" end
    if a == b or view.workers[a].batch < 2 then return {} end
    return {batch = {[a] = view.workers[a].batch - 1, [b] = view.workers[b].batch + 1}, next_every = 0.02 + view.rng() / 10}]], {every = 0.05})))
  w.train(h, 40)
  assert(h:swap "batching/boa")
  w.train(h, 60)
  h:close()
end

case("determinism: two runs of a seed write the same journal, another seed another", function()
  local function run(seed)
    local out = {}
    run_recorded(seed, function(bytes) out[#out + 1] = bytes end)
    return core.sha256(table.concat(out))
  end
  local first = run(1)
  assert(first == run(1) and first ~= run(2))
end)

case("replay: byte-identical with its own policies; another policy's plans; a torn tail is left out", function()
  local path = os.tmpname()
  local bytes = {}
  run_recorded(3, function(b) bytes[#bytes + 1] = b end)
  local function write(text)
    local f = assert(io.open(path, "wb"))
    f:write(text)
    f:close()
  end
  local text = table.concat(bytes)
  write(text)
  local records, why, torn = journal.read(path)
  assert(records and not torn, why)
  assert(#records == #bytes - 1)
  local report = assert(replay.run(records, {}))
  assert(report.identical and report.decisions > 30, core.json_encode {report.same, report.decisions})
  local other = assert(replay.run(records, {policy = "batching/equal"}))
  assert(other.decisions == report.decisions and other.faults == 0 and other.open_loop and other.same < other.decisions)
  for _, r in ipairs(records) do -- a changed plan is found
    if r.plan and r.verdict == "applied" then
      r.plan = core.plain_encode {why = "forged"}
      break
    end
  end
  report = assert(replay.run(records, {}))
  assert(not report.identical and report.same == report.decisions - 1 and report.first_difference.recorded.why == "forged")
  for cut = 1, 40 do
    write(text:sub(1, #text - cut))
    local some, _, was_torn = journal.read(path)
    assert(#some == #bytes - 2 and was_torn)
  end
  write(text:sub(1, -100) .. ("\0"):rep(99)) -- damage in the last record
  assert(#journal.read(path) == #bytes - 2)
  local j = assert(journal.open(path)) -- continued behind the last good record
  j:append {what = "note", kind = "batching", scope = "mf", epoch = 0}
  j.close()
  records = assert(journal.read(path))
  assert(records[#records].what == "note" and #records == #bytes - 1)
  assert(not journal.parse("something else"))
  os.remove(path)
end)

case("after a failover the seat goes on with source, parameters and last accepted export", function()
  local bytes = {}
  local w = world()
  local h = new_host(w, {journal = journal.new(function(b) bytes[#bytes + 1] = b end)})
  assert(h:add_seat("batching", "mf", "batching/equal"))
  assert(h:swap(policy(SHIFT, {every = 0.05, params = "p = 1"}), {params = {p = 5}}))
  w.train(h, 9)
  local saved, epoch = h:seat("batching"):last_export(), h.epoch
  h:close() -- at every record the journal could end here
  for cut = 2, #bytes do
    local records = assert(journal.parse(table.concat(bytes, "", 1, cut)))
    local again = new_host(w)
    assert(again:add_seat("batching", "mf"))
    again:recover(records)
    local l = again:list()[1]
    assert(l.name == (cut < 3 and "equal" or "test"), cut .. l.name)
    assert(again.epoch > records[#records].epoch)
    if cut == #bytes then
      assert(l.params.p == 5 and again:seat("batching"):last_export() == saved and again.epoch > epoch)
    end
    again:close()
  end
end)

case("fuzzed policies: mutated sources never crash the host or get a bad plan through", function()
  local rng = core.random(13)
  local function below(n) return math.tointeger(rng:below(n)) end
  local originals = {}
  for _, name in ipairs {"batching/boa", "batching/lb-bsp", "batching/even-finish", "batching/equal"} do
    originals[#originals + 1] = source.find(name).text
  end
  for _ = 1, 150 do
    local text = originals[1 + below(#originals)]
    for _ = 1, 1 + below(3) do
      local at = 1 + below(#text)
      local pick = below(4)
      if pick == 0 then text = text:sub(1, at - 1) .. text:sub(at + 1 + below(20))
      elseif pick == 1 then text = text:sub(1, at) .. ({"0/0", "-1", "nil", "{}", "{{}}", "1e308", "while true do end", "\0"})[1 + below(8)] .. text:sub(at + 1)
      elseif pick == 2 then text = text:gsub("%d+", tostring(below(1000) - 500), 1 + below(3))
      else text = text:sub(1, at) .. text:sub(1 + below(#text), 1 + below(#text)) .. text:sub(at + 1) end
    end
    local w = world()
    local h = new_host(w)
    assert(h:add_seat("batching", "mf", "batching/equal"))
    h:swap {text = text, path = "fuzz.lua"}
    w.train(h, 6)
    assert(w.doubled == 0)
    h:close()
  end
end)

return cases
