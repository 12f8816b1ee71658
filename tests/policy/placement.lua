-- Placements: PSLD on servers of different speeds, and the rules of other systems.
local core = require "tide.core"
local worlds = dofile(SOURCE .. "/tests/policy/worlds.lua")

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

-- Servers that serve `ops` keys a second of each slot; what moves is in flight for bytes / bandwidth seconds.
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
  local h = worlds.new_host(w)
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
    local h = worlds.new_host(w)
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

return cases
