package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local members = require "tide.cluster.members"

describe("the members that are shown", function()
  local function member(id, name, state, o)
    local m = {id = id, name = name, state = state, store = true, workers = 1}
    for k, v in pairs(o or {}) do m[k] = v end
    return m
  end
  local function driver(id, state) return member(id, "driver-" .. id, state, {store = false, workers = 0}) end
  local function names(all)
    local out = {}
    for i, m in ipairs(members.listed(all)) do out[i] = ("%s %s"):format(m.name, m.state) end
    return table.concat(out, ", ")
  end

  it("are all that live, and no driver that has ended", function()
    assert.equal("c0 up, n1 up, n2 leaving, driver-4 up", names {
      member(1, "c0", "up", {store = false, workers = 0}), member(2, "n1", "up"), member(3, "n2", "leaving"),
      driver(4, "up"), driver(5, "left"), driver(6, "dead")})
  end)

  it("are of departed nodes those that no newer one replaces", function()
    assert.equal("c1 dead, n2 left, n1 up", names {
      member(1, "c1", "dead", {store = false, workers = 0}), member(2, "n1", "dead"), member(3, "n2", "dead"),
      member(4, "n2", "left"), member(5, "n1", "up")})
  end)

  it("are few, however many have gone", function()
    local all = {view = 77}
    for i = 1, 512 do all[i] = member(i, "n" .. i, i % 2 == 0 and "left" or "dead") end
    local list <const> = members.listed(all)
    assert.equal(16, #list)
    assert.equal(512, list[16].id)
    assert.equal(77, list.view)
  end)

  it("are those of status and nodes", function()
    support.reset()
    table.insert(support.core.members_are, driver(4, "left"))
    assert.is_nil(support.tide("nodes").out:find "driver")
  end)
end)
