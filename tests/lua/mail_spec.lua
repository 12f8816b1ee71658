-- What a worker has of the messages of others, by views. The core is a fake.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
require "tests.lua.fresh"()
local mail = require "tide.run.mail"

describe("the mail of a worker", function()
  local ADDRESSES <const> = {"n1:1", "n2:1"}
  local function end_of(view) return {op = "peer_over", v = view, r = 2} end

  it("drops messages of a former view, and keeps those of the next one until it begins", function()
    local box <const> = mail.new({rank = 1})
    box:open(2, {1, 2}, ADDRESSES)
    box:take(end_of(1))
    assert.is_nil(box.links[2].ended)
    box:take(end_of(3))
    assert.is_nil(box.links[2].ended)
    box:open(3, {1, 2}, ADDRESSES)
    assert.is_true(box.links[2].ended)
  end)
end)
