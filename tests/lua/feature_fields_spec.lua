-- tide.fields: one table a width, and what is wrong in a description.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

describe("tide.fields", function()
  local fields
  before_each(function()
    require "tests.lua.fresh"().core.tensor = function() return {} end
    fields = require "tide.feature_fields"
  end)

  local function refused(f, ...)
    local ok <const>, err <const> = pcall(f, ...)
    assert.is_false(ok)
    return tostring(err.message)
  end

  it("makes a table for each width, by the options given", function()
    local tables <const> = fields.new({user = 8, ad = 4, city = 4}):tables {update = {"sgd", lr = 1},
      keys = {"hashed", 10, evict = "lfu"}}
    assert.same(4, tables.fields4.width)
    assert.same(8, tables.fields8.width)
    assert.same({"hashed", 10, evict = "lfu"}, tables.fields8.keys)
    assert.same("sgd", tables.fields4.update[1])
    assert.is_nil(tables.fields16)
  end)

  it("pushes the rows of all features, or refuses", function()
    local f <const>, pushed = fields.new {user = 8, ad = 4}, {}
    local function handle(name)
      return {push = function(_, keys, rows) pushed[#pushed + 1] = name .. " " .. #keys .. " " .. rows end}
    end
    local tables <const> = {fields8 = handle "fields8", fields4 = handle "fields4"}
    f:push(tables, {user = {1, 2}, ad = {"a"}}, {user = "u", ad = "a"})
    assert.same({"fields4 1 a", "fields8 2 u"}, pushed)
    assert.match("features of field `ad`, and no rows",
      refused(f.push, f, tables, {user = {1}, ad = {2}}, {user = "u"}))
    assert.same(2, #pushed)
  end)

  it("says what is wrong", function()
    assert.match("requires fields with their widths", refused(fields.new, {}))
    assert.match("field `ad` has width 0.5", refused(fields.new, {ad = 0.5}))
    assert.match("field `ad` has width 8, not", refused(fields.new, {ad = "8"}))
    local f <const> = fields.new {user = 8}
    assert.match("hashed keys", refused(f.tables, f, {keys = {"dense", 4}}))
    assert.match("and no `width`", refused(f.tables, f, {width = 4}))
    assert.match("there is no field `usr`", refused(f.keys, f, "usr", {1}))
    for _, feature in ipairs {1.5, 0 / 0, true} do
      assert.match("feature 2 of field `user` is .*, not an integer or a string",
        refused(f.keys, f, "user", {1, feature}))
    end
    assert.match("features of field `user` are a number", refused(f.keys, f, "user", 7))
  end)
end)
