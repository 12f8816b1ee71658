package.path = "tests/lua/?.lua;" .. package.path
require "support"

-- Shipped placement policies are pure functions of a view.
local function policy(name, params)
  local p = dofile("scripts/policies/placement/" .. name .. ".lua")
  local given = {}
  for k, v in pairs(p.params or {}) do given[k] = params and params[k] or v end
  return p, p.init(given)
end

local function hot(key, share, by_node, owner, technique)
  return {table = 1, key = key, share = share, by_node = by_node, owner = owner or 1,
          technique = technique or "relocate"}
end

local function view(keys, technique)
  return {nodes = {{id = 1, state = "up"}, {id = 2, state = "up"}}, age = {["key.hot"] = 0},
          tables = {{id = 1, keys = 1000, technique = technique or "relocate"}}, hot = keys}
end

describe("placement policies", function()
  it("replicate-hot copies what is far above the mean and used by several, until it cools down", function()
    local p, st = policy("replicate-hot")
    local both, one = {[1] = 5, [2] = 5}, {[1] = 10}
    local first = p.decide(st, view {hot(3, 0.2, both), hot(4, 0.11, both), hot(5, 0.09, both), hot(6, 0.3, one)})
    assert.same({{table = 1, keys = {3, 4}, use = "replicate"}}, first.technique)
    assert.same({}, p.decide(st, view {hot(3, 0.2, both), hot(4, 0.06, both)})) -- cooler, not cool
    local later = p.decide(st, view {hot(3, 0.2, both), hot(4, 0.04, both)})
    assert.same({{table = 1, keys = {4}, use = "relocate"}}, later.technique)
    local again = p.init(p.params, p.export(st)) -- a successor knows what has copies
    assert.same({{table = 1, keys = {3}, use = "relocate"}}, p.decide(again, view {}).technique)
  end)

  it("replicate-hot waits for the first figures and keeps to its limit", function()
    local p, st = policy("replicate-hot", {keys = 1})
    local before = view {}
    before.hot, before.age = nil, {}
    assert.same({}, p.decide(st, before))
    local both = {[1] = 5, [2] = 5}
    assert.same({1}, p.decide(st, view {hot(1, 0.3, both), hot(2, 0.3, both)}).technique[1].keys)
  end)

  it("localize-on-demand moves a key to who makes most of its accesses", function()
    local p, st = policy("localize-on-demand")
    local plan = p.decide(st, view {hot(1, 0.1, {[1] = 2, [2] = 8}), hot(2, 0.1, {[1] = 5, [2] = 5}),
      hot(3, 0.1, {[1] = 9, [2] = 1}), hot(4, 0.1, {[2] = 9}, 1, "replicate")})
    assert.same({{table = 1, key = 1, to = 2}}, plan.moves)
    assert.same({}, p.decide(st, view({hot(1, 0.1, {[1] = 2, [2] = 8}, 1, "static")}, "static")))
  end)

  it("intent gives hot keys back to intents where rows move", function()
    local p, st = policy("intent")
    local plan = p.decide(st, view({hot(1, 0.1, {}, 1, "replicate"), hot(2, 0.1, {}, 1, "intent")}, "intent"))
    assert.same({{table = 1, keys = {1}, use = "intent"}}, plan.technique)
    assert.same({}, p.decide(st, view({hot(1, 0.1, {}, 1, "static")}, "static")))
  end)

  it("hash spreads slots and moves only the share of a node that comes", function()
    local p, st = policy("hash")
    local function homes(nodes, slots)
      local v = {nodes = nodes, tables = {{id = 1, replicas = 0}}, table_slots = slots}
      for _, m in ipairs(p.decide(st, v).moves or {}) do slots[m.slot + 1].home = m.to end
      local count = {}
      for _, s in ipairs(slots) do count[s.home] = (count[s.home] or 0) + 1 end
      return count
    end
    local slots, nodes = {}, {{id = 1, state = "up"}, {id = 2, state = "up"}, {id = 3, state = "up"}}
    for s = 0, 4095 do slots[s + 1] = {id = s, table = 1, home = 1} end
    local three = homes(nodes, slots)
    for id = 1, 3 do assert.is_true(math.abs(three[id] - 4096 / 3) < 200) end
    local before = {}
    for i, s in ipairs(slots) do before[i] = s.home end
    nodes[4] = {id = 4, state = "up"}
    homes(nodes, slots)
    for i, s in ipairs(slots) do assert.is_true(s.home == before[i] or s.home == 4) end
    nodes[4].state = "draining"
    homes(nodes, slots)
    for i, s in ipairs(slots) do assert.equal(before[i], s.home) end
  end)
end)
