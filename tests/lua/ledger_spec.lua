-- Slot hours by week, person and run, as the control store keeps them.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local DAY <const> = 86400
local MONDAY <const> = 1764547200 -- 2025-12-01 00:00 UTC, week 49

describe("the ledger", function()
  local fake, kept, wall
  before_each(function()
    fake = require "tests.lua.fresh"()
    kept, wall = {}, MONDAY
    local core <const> = fake.core
    core.wall, core.fiber = function() return wall end, function(f, ...) f(...) end
    core.encode, core.decode = function(v) return v end, function(v) return v end
    core.control_put = function(key, value) kept[key] = value end
    core.control_list = function() return kept end
  end)
  local function new() return require("tide.scheduler.ledger").new() end

  it("adds up what a run had, by the week in which it had it", function()
    local ledger <const> = new()
    ledger:add("ann", "mf-1", 60)
    ledger:add("ann", "mf-1", 30)
    wall = MONDAY + 7 * DAY
    ledger:add("ann", "mf-1", 5)
    ledger:add("bob/x", "lda-2", 7)
    assert.same({
      {week = "2025-W49", person = "ann", run = "mf-1", slot_s = 90},
      {week = "2025-W50", person = "ann", run = "mf-1", slot_s = 5},
      {week = "2025-W50", person = "bob/x", run = "lda-2", slot_s = 7},
    }, ledger:rows())
  end)

  it("keeps what changed when it is due, and is read again", function()
    local ledger <const> = new()
    fake.time = 100
    assert.is_false(ledger:keep()) -- nothing changed
    ledger:add("ann", "mf-1", 60)
    assert.is_true(ledger:keep())
    ledger:add("ann", "mf-1", 1)
    assert.is_false(ledger:keep()) -- it is too early
    fake.time = 200
    assert.is_true(ledger:keep())
    assert.same({["accounts/2025-W49/ann"] = {["mf-1"] = 61}}, kept)
    assert.equal(61, new():rows()[1].slot_s)
  end)

  it("drops weeks that are half a year old", function()
    kept = {["accounts/2025-W22/ann"] = {["mf-1"] = 1}, ["accounts/2025-W23/ann"] = {["mf-2"] = 2}}
    local rows <const> = new():rows()
    assert.equal(1, #rows)
    assert.equal("mf-2", rows[1].run)
    assert.is_nil(kept["accounts/2025-W22/ann"])
  end)

  it("adds up the smallest of many runs, and loses none of their time", function()
    local ledger <const> = new()
    for i = 1, 400 do ledger:add("ann", "r-" .. i, i) end
    fake.time = 100
    ledger:keep()
    local rows <const>, sum = ledger:rows(), 0
    for _, row in ipairs(rows) do sum = sum + row.slot_s end
    assert.equal(400 * 401 / 2, sum)
    assert.is_true(#rows <= 301)
    assert.truthy(kept["accounts/2025-W49/ann"].others)
    assert.equal(400, kept["accounts/2025-W49/ann"]["r-400"])
  end)
end)
