-- tide.hashed{}: which keys of a table have rows.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local table_spec

local function message(f, ...)
  local ok <const>, err <const> = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err.message)
end

describe("tide.hashed", function()
  before_each(function()
    require "tests.lua.fresh"()
    table_spec = require "tide.run.table_spec"
  end)

  it("becomes the fields of core.table", function()
    assert.same({"hashed", 0}, table_spec.hashed())
    assert.same({"hashed", 10, admit_after = 3, unused_ns = 7 * 86400 * 10 ^ 9 // 1 | 0, evict = "lfu"},
      table_spec.hashed {limit = 10, admit = {after = 3}, expire = {unused = "7d"}, evict = "lfu"})
    assert.same(1500000000, table_spec.hashed {expire = {unused = 1.5}}.unused_ns)
  end)

  it("says what is wrong", function()
    local function refused(o) return message(table_spec.hashed, o) end
    assert.match("no field `limt`", refused {limt = 1})
    assert.match("`admit` of tide.hashed is admit = {after = ..}", refused {limit = 1, admit = 3}, 1, true)
    assert.match("no field `affter`", refused {limit = 1, admit = {after = 2, affter = 3}})
    assert.match("admit.after is 16, not 2 to 15", refused {limit = 1, admit = {after = 16}})
    assert.match("admit.after is 3, not 2 to 15", refused {limit = 1, admit = {after = "3"}})
    assert.match("`admit` of tide.hashed needs a limit", refused {admit = {after = 3}})
    assert.match("`evict` of tide.hashed needs a limit", refused {evict = "lfu"})
    assert.match('there is "lfu"', refused {limit = 1, evict = "lru"})
    assert.match("not 1s to 3650d", refused {expire = {unused = "1ms"}})
    assert.match("is not a duration", refused {expire = {unused = "soon"}})
  end)

  it("names what does not work with it yet", function()
    local function refused(o)
      o.keys, o.width = table_spec.hashed {limit = 10, evict = "lfu"}, 1
      return message(table_spec.new, o)
    end
    assert.match("technique static, not `relocate`", refused {technique = "relocate"})
    assert.match("replicas = 0, not 1", refused {replicas = 1})
    assert.match("consistency sequential, not `bsp`", refused {consistency = "bsp"})
  end)
end)

describe("tide.table", function()
  local core

  before_each(function()
    require "tests.lua.fresh"()
    core, table_spec = require "tide.core", require "tide.run.table_spec"
  end)

  it("has the rows of option.def as fields: checked, annotated, and in the guide", function()
    local file <close> = assert(io.open "docs/guides/tables.md")
    local guide <const>, annotation <const> = file:read "a", table_spec.annotation()
    local rows <const> = core.table_options()
    assert.is_true(#rows >= 10)
    for _, row in ipairs(rows) do
      local function with(value)
        return {keys = table_spec.dense(5), width = 1, consistency = "ssp:1", [row.name] = value}
      end
      assert.match(("`%s` is "):format(row.name), message(table_spec.new, with {}), 1, true)
      assert.equal(row.words and row.words[1] or row.most ~= 1 and 1 or true,
        table_spec.new(with(row.words and row.words[1] or row.most ~= 1 and 1 or true))[row.name])
      assert.match(("---@field %s? "):format(row.name), annotation, 1, true)
      assert.match("`" .. row.name .. "`", guide, 1, true)
    end
    assert.match("not a whole number from 0 to 255", message(table_spec.new,
      {keys = table_spec.dense(5), width = 1, replicas = 256}), 1, true)
    local function refused(fields)
      fields.keys, fields.width = fields.keys or table_spec.dense(5), 1
      return message(table_spec.new, fields)
    end
    assert.match("`cache_bytes` works with clocks", refused {cache_bytes = 10})
    assert.match("`unsubscribe_after` works with clocks", refused {unsubscribe_after = 3, consistency = "sequential"})
    assert.match("hashed ones have no range", refused {keys = table_spec.hashed(), slots = "range"})
    assert.match("`seed` is `x`, not a whole number", refused {seed = "x"})
    assert.match("`seed` is `1.5`, not a whole number", refused {seed = 1.5})
    assert.match("`name` is `5`, not a name", refused {name = 5})
    assert.match("`name` is ``, not a name", refused {name = ""})
    assert.match("low is 1, above high", refused {init = table_spec.uniform {low = 1, high = -1}})
    assert.match("`eps` is 1e%-60, which", refused {update = {"adagrad", lr = 1, eps = 1e-60}})
    assert.match("did you mean `technique`?", tostring(select(2, pcall(table_spec.new, {tehcnique = 1})).help), 1, true)
  end)
end)
