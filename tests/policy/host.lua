-- The policy host: swaps, shadows, guards, faults, recovery and replay, with batching policies.
local core = require "tide.core"
local chunks = require "tide.run.chunks"
local journal = require "tide.policy.journal"
local replay = require "tide.policy.replay"
local source = require "tide.policy.source"
local contract = require "tide.policy.contract"

local worlds = dofile(SOURCE .. "/tests/policy/worlds.lua")
local world <const>, new_host <const>, policy <const> = worlds.world, worlds.new_host, worlds.policy

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

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
  local file = assert(io.open(SOURCE .. "/docs/guides/policies.md"))
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
    assert(want ~= "fails on the newest view" or err.code == "T0304", err.code)
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
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT)))
  w.train(h, 5)
  local none <const>, why <const> = h:rollback "batching"
  assert(not none and why.code == "T0306", why and why.code)
  local n = core.plain_decode(h:seat("batching"):last_export()).n
  assert(n >= 1)
  local before = #records
  local answer = assert(h:swap(policy(worlds.SHIFT .. "-- two\n", {version = 2})))
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
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT, {every = 0.1})))
  local a, b = policy(worlds.SHIFT, {every = 0.1}), policy(worlds.SHIFT .. "-- b\n", {every = 0.1, name = "other"})
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
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT)))
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

case("a guard compares medians of its own window before and after, of three samples at least", function()
  local guard = require "tide.policy.guard"
  local metrics = {}
  for at = 1, 20 do guard.sample(metrics, "m", at, at <= 10 and 100 or 10) end
  local g = assert(guard.arm(metrics, {metric = "m", drop = 0.5, within = 5}, 20)) -- of the last five
  assert(g.baseline == 10 and g.limit == 5 and g.samples == 5)
  guard.sample(metrics, "m", 21, 1)
  assert(guard.look(metrics, g, 21) == nil) -- one bad sample is no breach
  guard.sample(metrics, "m", 22, 1)
  assert(guard.look(metrics, g, 22) == nil)
  guard.sample(metrics, "m", 23, 1)
  assert(guard.look(metrics, g, 23) == "breach")
  for at = 24, 30 do guard.sample(metrics, "m", at, 9) end
  assert(guard.look(metrics, g, 30) == "passed")
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
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT, {every = 0.1})))
  assert(h:shadow(policy("return {batch = {[1] = 94, [2] = 1, [3] = 1}}", {name = "greedy"}), {for_ = 5}))
  w.train(h, 20)
  assert(w.workers[1].batch < 60)
  local report = assert(h:report "batching")
  assert(report.decisions >= 3 and report.same == 0 and report.fields.batch.differs == report.decisions and report.faults == 0)
  assert(report.first_difference.own.batch[1] == 94)
  assert(h:shadow(policy(worlds.SHIFT)))
  local s = h:seat "batching"
  assert(s.shadowed.version.saved == s:last_export())
  w.train(h, 5)
  report = h:report "batching"
  assert(report.same == report.decisions and report.decisions > 0)
  h:close()
end)

case("a crash between or in any two records: one policy holds the seat, whole, with its last accepted state", function()
  local parts, w = {}, world(worlds.PAIRS)
  local h = new_host(w, {journal = journal.new(function(b) parts[#parts + 1] = b end)})
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT, {every = 0.3})))
  w.train(h, 6)
  assert(h:swap(policy(worlds.SHIFT .. "-- b\n", {name = "b", every = 0.3})))
  w.train(h, 6)
  local guarded = {metric = "compute_s", rise = 5, within = 1}
  assert(h:swap(policy(worlds.SHIFT .. "-- c\n", {name = "c", every = 0.2}), {canary = {workers = {1, 2}}, guard = guarded}))
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
        local other = new_host(world(worlds.PAIRS))
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
  local function check(ref)
    return replay.check(core.plain_decode(core.plain_encode(h:recorded "batching")), assert(source.find(ref)))
  end
  local report = assert(check(policy("return {why = view.tick % 2 == 0 and 'x' or 'y'}", {name = "c"})))
  assert(report.views == 200 and report.valid == 200 and report.differs == 100 and report.ok and report.memory_bytes > 10000)
  report = assert(check(policy("if view.tick == 100 then error 'no' end return {}", {name = "c"})))
  assert(not report.ok and report.faults == 1 and report.fault:find "no" and not report.lacks)
  report = assert(check(policy("print('looks', view.tick) while view.tick > 5 do end return {}", {name = "loop"})))
  assert(not report.ok and report.faults == 3 and report.views + report.not_tried == 200 and report.views < 20)
  assert(report.printed:find "^looks\t%d+\n$", report.printed)
  report = assert(check "batching/boa")
  assert(report.lacks == "worker.sample" and report.ok)
  assert(h:list()[1].errors == 0)
  h:close()
end)

case("print: what the policy of a seat prints reaches the run, also in init and where it fails", function()
  local w, printed = world(), {}
  w.driver.printed = function(of, lines) printed[#printed + 1] = of .. ": " .. lines end
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", policy("st.n = st.n + 1 print('n is', st.n) if st.n == 2 then error 'no' end return {}",
    {every = 0.01})))
  w.train(h, 3)
  assert(printed[1] == "batching@mf: n is\t1\n" and printed[2] == "batching@mf: n is\t2\n", table.concat(printed))
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
  assert(h:swap(policy(worlds.SHIFT, {every = 0.05, params = "p = 1"}), {params = {p = 5}}))
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
