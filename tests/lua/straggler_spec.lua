package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
support.core.random = require "fake_train" ().core.random
local straggler = require "tide.run.straggler"

local function slow_ones(o, clocks)
  local slowness, list = straggler(o), {}
  for clock = 0, clocks - 1 do
    for rank = 1, o.workers do
      local factor <const> = slowness(rank, clock)
      if factor ~= 1 then list[#list + 1] = {clock = clock, rank = rank, factor = factor} end
    end
  end
  return list
end

describe("a straggler", function()
  it("is one worker at each clock, and another one only when the next is drawn", function()
    local list, seen = slow_ones({workers = 4, clocks = 3, seed = 5}, 60), {}
    assert.equal(60, #list)
    for i, one in ipairs(list) do
      assert.equal(i - 1, one.clock)
      assert.equal(4, one.factor)
      seen[one.rank] = true
      if one.clock % 3 ~= 0 then assert.equal(list[i - 1].rank, one.rank) end
    end
    assert.is_true(seen[1] and seen[2] and seen[3] and seen[4])
    assert.same(list, slow_ones({workers = 4, clocks = 3, seed = 5}, 60))
    assert.not_same(list, slow_ones({workers = 4, clocks = 3, seed = 6}, 60))
  end)

  it("may stay with one worker, or be none", function()
    for _, one in ipairs(slow_ones({workers = 3, kind = "stays", factor = 2.5}, 9)) do
      assert.same({1, 2.5}, {one.rank, one.factor})
    end
    assert.same({}, slow_ones({workers = 3, kind = "none"}, 9))
  end)

  it("is refused where it makes no sense", function()
    for _, o in ipairs {{}, {workers = 0}, {workers = 2, kind = "moved"}, {workers = 2, factor = 0.5},
                        {workers = 2, clocks = 0}} do
      assert.equal("T0113", select(2, pcall(straggler, o)).code)
    end
  end)
end)
