package.path = "tests/lua/?.lua;" .. package.path
require "support"
local locality = require "tide.show.locality"

local function part(node, shared)
  return {node = node, local_share = 0.5, queued = 1, relocated_in = 2, relocated_out = 2, location_used = 0,
          location_stale = 0, shared = shared}
end

describe("the locality of a table", function()
  it("tells of copies where keys are shared, and says nothing of them elsewhere", function()
    local found <const> = {hottest = {}}
    local shared <const> = {keys = 3, copies = 2, hits = 12345, updates_out = 7, rows_in = 9, unsent_mean_ms = 1.23456,
                            behind_mean_ms = 0}
    local with <const> = locality.text({part("n1", shared), part "n2"}, found)
    assert.truthy(with:find("served", 1, true) and with:find("12.3k", 1, true) and with:find("1.23", 1, true))
    assert.falsy(with:find("1.2345", 1, true))
    assert.falsy(locality.text({part "n1"}, found):find("served", 1, true))
  end)
end)
