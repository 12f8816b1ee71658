-- tide.table: what an answered push survives, as scripts say it.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local table_spec

local function fresh()
  require "tests.lua.fresh"()
  table_spec = require "tide.run.table_spec"
end

local function spec(fields)
  fields.keys, fields.width = {"dense", 10}, 4
  return table_spec.new(fields)
end

local function refusal(fields)
  local ok, err = pcall(spec, fields)
  assert.is_false(ok)
  return tostring(err.message)
end

describe("durability", function()
  before_each(fresh)

  it("is a name, or a window with its bounds", function()
    assert.equal("strict", spec {replicas = 1, durability = "strict"}.durability)
    assert.equal("none", spec {durability = "none"}.durability)
    assert.is_nil(spec {replicas = 1, durability = "window"}.window_ns)
    local s <const> = spec {replicas = 2, durability = {window = "20ms", bytes = "1MiB"}}
    assert.equal("window", s.durability)
    assert.equal(20000000, s.window_ns)
    assert.equal(1 << 20, s.window_bytes)
    assert.equal(10000000000, spec {replicas = 1, durability = {window = "10s"}}.window_ns)
    assert.equal(65536, spec {replicas = 1, durability = {bytes = 65536}}.window_bytes)
  end)

  it("names what it does not know", function()
    assert.matches("`half`", refusal {replicas = 1, durability = "half"})
    assert.matches("no field `windw`", refusal {replicas = 1, durability = {windw = "1s"}})
    assert.matches("not a duration", refusal {replicas = 1, durability = {window = "soon"}})
    assert.matches("not a size", refusal {replicas = 1, durability = {bytes = "much"}})
    assert.matches("there are", refusal {replicas = 1, durability = {}})
  end)

  it("has bounds, and wants copies", function()
    assert.matches("4ms to 10s", refusal {replicas = 1, durability = {window = "3ms"}})
    assert.matches("4ms to 10s", refusal {replicas = 1, durability = {window = "11s"}})
    assert.matches("64KiB to 1GiB", refusal {replicas = 1, durability = {bytes = "1KiB"}})
    assert.matches("needs replicas", refusal {durability = "window"})
    assert.matches("needs replicas", refusal {replicas = 0, durability = "strict"})
    assert.matches("no copies", refusal {replicas = 1, durability = "none"})
  end)
end)
