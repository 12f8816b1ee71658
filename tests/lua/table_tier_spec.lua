-- tide.table{memory =, disk =}: what it takes, and what is refused by name.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local table_spec

local function fresh()
  require "tests.lua.fresh"()
  table_spec = require "tide.run.table_spec"
end

local function spec(fields)
  local all <const> = {keys = table_spec.dense(100), width = 4}
  for key, value in pairs(fields) do all[key] = value end
  return table_spec.new(all)
end

local function refused(fields)
  local done <const>, err = pcall(spec, fields)
  assert.is_false(done)
  assert.equal("T0204", err.code)
  return tostring(err.message)
end

describe("a table with memory and disk", function()
  before_each(fresh)

  it("passes the bytes and the directory on", function()
    local made <const> = spec {memory = "2MiB", disk = "/data/x"}
    assert.equal(2 << 20, made.tier_memory)
    assert.equal("/data/x", made.disk)
    assert.is_nil(made.memory)
    assert.equal("/d", spec {memory = 1e6, disk = "/d", technique = "relocate", keys = table_spec.hashed()}.disk)
  end)

  it("has both or neither", function()
    assert.matches("together", refused {memory = "2MiB"})
    assert.matches("together", refused {disk = "/data/x"})
    assert.matches("absolute path", refused {memory = "2MiB", disk = "data"})
    assert.matches("absolute path", refused {memory = "2MiB", disk = "/" .. ("x"):rep(159)})
    assert.matches("`memory`", refused {memory = "much", disk = "/data/x"})
  end)

  it("refuses by name what does not work with it", function()
    local function with(fields)
      fields.memory, fields.disk = "2MiB", "/data/x"
      return refused(fields)
    end
    assert.matches("replicas = 1", with {replicas = 1})
    assert.matches('consistency "bsp"', with {consistency = "bsp"})
    assert.matches('technique "intent"', with {technique = "intent"})
    assert.matches('technique "replicate"', with {technique = "replicate"})
    assert.matches("admit", with {keys = table_spec.hashed {limit = 5, admit = {after = 2}}})
    assert.matches("expire", with {keys = table_spec.hashed {expire = {unused = "7d"}}})
    assert.matches("evict", with {keys = table_spec.hashed {limit = 5, evict = "lfu"}})
  end)

  it("takes a limit of keys", function()
    assert.equal(5, spec {memory = "2MiB", disk = "/d", keys = table_spec.hashed {limit = 5}}.keys[2])
  end)
end)
