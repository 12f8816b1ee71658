-- Canaries: a new policy has a part of what there is, until a guard promotes it or withdraws it.
local core = require "tide.core"
local journal = require "tide.policy.journal"
local replay = require "tide.policy.replay"
local worlds = dofile(SOURCE .. "/tests/policy/worlds.lua")
local world <const>, new_host <const>, policy <const> = worlds.world, worlds.new_host, worlds.policy

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

local RISE <const> = {metric = "compute_s", rise = 0.2, within = 3}
local LOPSIDED <const> = [[st.n = st.n + 1
  local batch, list = {}, view.workers
  for i, x in ipairs(list) do batch[x.id] = i % 2 == 1 and view.job.batch // 2 - 1 or 1 end
  return {batch = batch}]]

case("canary: divides its own part of the batch, the rest keeps what it has; promoted when it is better", function()
  local w = world(worlds.PAIRS)
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
      assert(h:list()[1].name == "equal" and h:report("batching").outcome == "active")
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

case("canary: one that is worse than the rest is withdrawn and blocked; the old policy repairs at once", function()
  local w = world(worlds.PAIRS)
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
  local w = world(worlds.PAIRS)
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
  local w = world(worlds.PAIRS)
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
  local w = world(worlds.PAIRS)
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
  local w = world(worlds.PAIRS)
  local h = new_host(w)
  assert(h:add_seat("batching", "mf", "batching/equal"))
  assert(h:add_seat("scaling", "mf", "scaling/fixed"))
  w.train(h, 10)
  local epoch = h.epoch
  for _, entry in ipairs {
    {"batching/boa", {workers = {1, 2}}, nil, "requires a guard"}, {"batching/boa", {workers = {1}}, RISE, "two or more"},
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
  assert(h:add_seat("batching", "mf", policy(worlds.SHIFT, {every = 0.3})))
  w.train(h, 20)
  local new = policy(worlds.SHIFT .. "-- new\n", {name = "new", every = 0.1})
  assert(h:swap(new, {canary = {fraction = 0.5}, guard = {metric = "compute_s", rise = 5, within = 4}}))
  w.train(h, 5)
  local crashed = table.concat(bytes)
  while h:list()[1].canary do w.train(h, 1) end
  assert(h:list()[1].name == "new", h:report("batching").outcome)
  w.train(h, 10)
  local report = assert(replay.run((journal.parse(table.concat(bytes))), {}))
  assert(report.identical and report.decisions > 20, report.same)
  local other = new_host(world(worlds.PAIRS))
  assert(other:add_seat("batching", "mf", "batching/equal"))
  other:recover((journal.parse(crashed)))
  assert(other:list()[1].name == "test" and not other:list()[1].canary)
  h:close()
  other:close()
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

return cases
