-- How a team divides its work by speed: what each worker is to have, from what all have told of theirs.
local support = require "tests.lua.support"
support.reset()
local team = require "tide.team"

---A team of workers that take their turn at looks; returns it and how often the work was dealt.
local function of(size)
  local t <const> = team.new {log = function() end}
  t.size, t.shares = size, nil
  return t
end

local function told(...)
  local list = {}
  for i, speed in ipairs {...} do list[i] = {speed, 0.01} end
  return list
end

---How many of `looks` looks deal the work, where `speeds` says what each tells.
local function deals(looks, speeds)
  local t <const>, count = of(2), 0
  for k = 1, looks do count = count + (t:balance(told(speeds(k))) and 1 or 0) end
  return count, t
end

describe("tide.team", function()
  it("deals the work by speed when two looks in a row agree", function()
    local t <const> = of(4)
    assert.is_false(t:balance(told(8, 1, 8, 8)))
    assert.is_true(t:balance(told(8, 1, 8, 8)))
    assert.same({0.32, 0.04, 0.32, 0.32}, t.shares)
    for _ = 1, 50 do assert.is_false(t:balance(told(8, 1, 8, 8))) end
  end)

  it("keeps pieces that are nearly right, and those of rounds that take no time", function()
    assert.equal(0, (deals(50, function() return 1, 1.4 end)))
    local t <const> = of(2)
    for _ = 1, 9 do assert.is_false(t:balance {{8, 1e-4}, {1, 1e-4}}) end
  end)

  it("is not moved by a look that the next one does not confirm", function()
    assert.equal(0, (deals(100, function(k) return k % 2 == 0 and 4 or 1, 1 end)))
    assert.equal(0, (deals(100, function(k) return k % 3 == 0 and 4 or 1, 1 end)))
  end)

  it("deals ever more rarely while speeds swing", function()
    local function swing(k) return k // 4 % 2 == 0 and 4 or 1, k // 4 % 2 == 0 and 1 or 4 end
    local count <const>, t = deals(200, swing)
    assert.is_true(count >= 1 and count <= 6, count .. " deals")
    assert.is_true(t.resting > 0 or count < 6)
  end)

  it("waits until all know how fast they are", function()
    local t <const> = of(2)
    for _ = 1, 9 do assert.is_false(t:balance {{4, 0.01}, false}) end
  end)
end)
