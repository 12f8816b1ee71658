-- Rows with one value in a column go to one worker, pieces stay alike, nothing is lost or doubled.
package.path = "tests/lua/?.lua;" .. package.path
require "support"
local cluster = require "tide.data.cluster"

local function loads(shares, workers)
  local load = {}
  for w = 1, workers do load[w] = 0 end
  for _, list in pairs(shares) do
    for _, share in ipairs(list) do load[share[1]] = load[share[1]] + share[2] end
  end
  return load
end

describe("clustering of examples", function()
  it("gives each value to one worker, the heaviest first to who has least", function()
    assert.same({[1] = {{1, 5}}, [2] = {{2, 4}}, [3] = {{2, 3}}, [4] = {{1, 2}}},
      cluster.assign({5, 4, 3, 2}, 2))
  end)

  it("cuts what is more than a worker's part", function()
    local shares = cluster.assign({[0] = 70, [7] = 20, [9] = 10}, 4)
    assert.same({{1, 25}, {2, 25}, {3, 20}}, shares[0])
    assert.same({{4, 20}}, shares[7])
    assert.same({{3, 10}}, shares[9])
  end)

  it("loses and doubles nothing, and keeps pieces within the heaviest value of each other", function()
    local seed = 1
    local function random(n)
      seed = (seed * 48271) % 2147483647
      return seed % n
    end
    for workers = 1, 9 do
      local counts, total, heaviest = {}, 0, 0
      for value = 0, 40 do
        counts[value] = 1 + random(value == 0 and 3000 or 100)
        total, heaviest = total + counts[value], math.max(heaviest, counts[value])
      end
      local shares = cluster.assign(counts, workers)
      for value, count in pairs(counts) do
        local sum = 0
        for _, share in ipairs(shares[value]) do
          assert.is_true(share[2] > 0)
          sum = sum + share[2]
        end
        assert.equal(count, sum)
        assert.is_true(#shares[value] == 1 or count > total / workers)
      end
      local load = loads(shares, workers)
      assert.is_true(math.max(table.unpack(load)) - math.min(table.unpack(load)) <= heaviest)
    end
  end)
end)
