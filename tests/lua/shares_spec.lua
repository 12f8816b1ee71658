-- Shares of persons: what a file may say, and what counts as used.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local shares = require "tide.policy.persons"

describe("shares", function()
  it("take weights and limits of persons, weights and priorities of groups", function()
    local s = assert(shares.check {half_life = "1h", default = {weight = 2, slots = 4},
      groups = {vision = {weight = 3, priority = 7}},
      persons = {ann = {group = "vision", weight = 2, slots = 8, runs = 2, memory = "4GiB"}}})
    local all = shares.new(s, nil, 0)
    assert.same({name = "ann", group = "vision", weight = 2, group_weight = 3, priority = 7, used = 0, slots_max = 8,
      runs_max = 2, memory_max = 4 << 30}, all:of "ann")
    assert.same({name = "new", weight = 2, priority = 0, used = 0, slots_max = 4}, all:of "new")
  end)

  it("refuse what no share can be, with its place", function()
    for wrong, given in pairs {
      ["persons.ann has no field `wieght`"] = {persons = {ann = {wieght = 2}}},
      ["groups.g has no field `group`"] = {groups = {g = {group = "h"}}},
      ["groups.g: `slots` is 0"] = {groups = {g = {slots = 0}}},
      ["persons.ann: `slots` = 8 contradicts its group, which may have 4"] = {groups = {g = {slots = 4}},
        persons = {ann = {group = "g", slots = 8}}},
      ["default: `runs` = 3 contradicts its group"] = {groups = {g = {runs = 2}}, default = {group = "g", runs = 3}},
      ["default: there is no group `h`"] = {default = {group = "h"}},
      ["persons.ann: there is no group `h`"] = {persons = {ann = {group = "h"}}},
      ["`weight` is 0, not a number above 0"] = {persons = {ann = {weight = 0}}},
      ["`weight` is nan"] = {persons = {ann = {weight = 0 / 0}}},
      ["`weight` is inf"] = {persons = {ann = {weight = math.huge}}},
      ["`slots` is 1.5, not a whole number"] = {persons = {ann = {slots = 1.5}}},
      ["`memory` is the string \"lots\", not a size"] = {default = {memory = "lots"}},
      ["shares has no field `person`"] = {person = {}},
      ["`persons` has the name <b>"] = {persons = {["<b>"] = {}}},
      ["persons.ann requires a table of fields"] = {persons = {ann = 2}},
      ["`half_life` is the string \"soon\", not a duration"] = {half_life = "soon"},
      ["a nil is no table"] = false,
    } do
      local ok, err = shares.check(given or nil)
      assert.is_nil(ok, wrong)
      assert.equal(wrong:find("no field", 1, true) and "T0115" or "T0113", err.code)
      assert.truthy(err.message:gsub("%-nan", "nan"):find(wrong, 1, true), err.message)
    end
  end)

  it("are read from a file that can call nothing", function()
    assert.same({persons = {ann = {weight = 2}}}, shares.read("return {persons = {ann = {weight = 2}}}", "s.lua"))
    for _, content in ipairs {"os.exit()", "return {", "return 1", "\27Lua", "while true do end",
                            "local t = {} for i = 1, 1e9 do t[i] = {} end", "return ('x'):rep(1e9)"} do
      local given, err = shares.read(content, "s.lua")
      assert.is_nil(given)
      assert.equal("T0113", err.code)
    end
  end)

  it("are read from a file with as many persons as there may be", function()
    local lines = {}
    for i = 1, 2000 do
      lines[i] = ("p%d = {group = 'g', weight = 2, slots = 4, runs = 3, memory = '1GiB'},"):format(i)
    end
    assert(shares.read("return {groups = {g = {}}, persons = {" .. table.concat(lines) .. "}}", "s.lua"))
  end)

  it("halve what was used every half-life, and forget nobody who comes back", function()
    local all = shares.new(assert(shares.check {half_life = "1h"}), nil, 0)
    all:charge({ann = 100, bob = 40}, 0)
    all:charge({bob = 10}, 3600)
    assert.near(50, all:of("ann").used, 1e-9)
    assert.near(30, all:of("bob").used, 1e-9)
    local again = shares.new(all.settings, all:export(), 3600)
    assert.same({"ann", "bob"}, {again:persons({{person = "bob"}, {person = "ann"}}, 7200)[1].name,
      again:persons({{person = "bob"}, {person = "ann"}}, 7200)[2].name})
    assert.near(25, again:of("ann").used, 1e-9)
  end)

  it("tell why a person's limits keep a run from its slots", function()
    local all = shares.new(assert(shares.check {persons = {ann = {slots = 4, runs = 2, memory = "1GiB"}}}), nil, 0)
    local function refuses(name, held, wants) return all:refuses(name, {[name] = held}, wants) end
    assert.is_nil(refuses("ann", {slots = 2, runs = 1, memory = 0}, {slots = 2}))
    assert.truthy(refuses("ann", {slots = 3, runs = 1, memory = 0}, {slots = 2}):find "3 of at most 4 slots")
    assert.truthy(refuses("ann", {slots = 1, runs = 2, memory = 0}, {slots = 1}):find "2 of at most 2 runs")
    assert.truthy(refuses("ann", {slots = 1, runs = 1, memory = 1 << 30}, {slots = 1, memory = 1}):find "memory")
    assert.is_nil(refuses("bob", {slots = 100, runs = 9, memory = 1 << 40}, {slots = 100}))
  end)

  it("tell why a group's limits keep a run of a member from its slots", function()
    local all = shares.new(assert(shares.check {groups = {g = {slots = 4, runs = 3}},
      persons = {ann = {group = "g"}, bob = {group = "g"}}}), nil, 0)
    local held = {ann = {slots = 1, runs = 1, memory = 0}, bob = {slots = 2, runs = 1, memory = 0},
      cay = {slots = 9, runs = 9, memory = 0}}
    assert.is_nil(all:refuses("ann", held, {slots = 1}))
    assert.equal("group g has 3 of at most 4 slots, and this run takes 2", all:refuses("ann", held, {slots = 2}))
    assert.is_nil(all:refuses("cay", held, {slots = 2}))
    assert.is_true(all:is_limited "ann")
    assert.is_false(all:is_limited "cay")
  end)

  it("give a person who is removed the default entry, and keep what was used", function()
    local all = shares.new(assert(shares.check {persons = {ann = {weight = 4}}}), nil, 0)
    all:charge({ann = 100}, 0)
    all.settings = assert(shares.check {default = {slots = 1}})
    assert.same({name = "ann", weight = 1, priority = 0, used = 100, slots_max = 1}, all:of "ann")
    assert.truthy(all:refuses("ann", {ann = {slots = 3, runs = 1, memory = 0}}, {slots = 1}):find "3 of at most 1")
  end)
end)
