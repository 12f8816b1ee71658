package.path = "tests/lua/?.lua;" .. package.path
require "support"
local heat = require "tide.show.hot_keys"

local function answer(total, ...)
  local a = {total = total, keys = {}, reads = {}, writes = {}}
  for i, k in ipairs {...} do a.keys[i], a.reads[i], a.writes[i] = k[1], k[2], k[3] end
  return a
end

describe("heat", function()
  it("adds up what nodes counted and tells who accessed a key", function()
    local hot, total = heat.merge({
      n1 = answer(1000, {7, 200, 100}, {3, 100, 0}),
      n2 = answer(500, {3, 150, 100}, {9, 10, 10}),
    }, 10)
    assert.equal(1500, total)
    assert.same({3, 7, 9}, {hot[1].key, hot[2].key, hot[3].key})
    assert.same({reads = 250, writes = 100, accesses = 350}, {reads = hot[1].reads, writes = hot[1].writes,
      accesses = hot[1].accesses})
    assert.same({n1 = {reads = 100, writes = 0}, n2 = {reads = 150, writes = 100}}, hot[1].nodes)
    assert.equal(350 / 1500, hot[1].share)
    assert.is_nil(hot[2].nodes.n2)
  end)

  it("cuts the list, with equal keys in the same order whatever the nodes", function()
    local hot = heat.merge({a = answer(10, {5, 1, 0}, {4, 1, 0}), b = answer(10, {6, 1, 0}, {1, 2, 0})}, 3)
    assert.same({1, 4, 5}, {hot[1].key, hot[2].key, hot[3].key})
    assert.equal(3, #hot)
  end)

  it("takes keys for unsigned: in order, in tables and in JSON", function()
    local hot = heat.merge({a = answer(10, {-1, 1, 0}, {math.mininteger, 1, 0}, {4, 1, 0})}, 3)
    assert.same({4, math.mininteger, -1}, {hot[1].key, hot[2].key, hot[3].key})
    local data = heat.to_data(hot)
    assert.same({4, "9223372036854775808", "18446744073709551615"}, {data[1].key, data[2].key, data[3].key})
    local lines = require("tide.show.locality").text({}, {hottest = hot}, {})
    assert.matches("18446744073709551615", lines, 1, true)
  end)

  it("has nothing to say of tables that nobody accessed", function()
    local hot, total = heat.merge({n1 = answer(0)}, 5)
    assert.same({}, hot)
    assert.equal(0, total)
  end)

  it("reads quantiles off a histogram of relocation times", function()
    assert.is_nil(heat.quantile({}, 0.5))
    local hist = {0, 0, 98, 0, 2} -- 98 of 768 to 1024 ns, 2 of 1.5 to 2 us
    assert.near(896e-9, heat.quantile(hist, 0.5), 1e-12)
    assert.near(1792e-9, heat.quantile(hist, 0.99), 1e-12)
    assert.near(256e-9, heat.quantile({5}, 0.9), 1e-12)
  end)

  it("packs a node's counters", function()
    local handle = {hottest = function(_, n) return {{key = 2, reads = 64, writes = 0, doubt = 0}}, n end}
    assert.same({total = 8, keys = {2}, reads = {64}, writes = {0}}, heat.of_node(handle, 8))
  end)
end)
