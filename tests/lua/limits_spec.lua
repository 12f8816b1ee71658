package.path = "tests/lua/?.lua;" .. package.path
require "support"
local core = require "tide.core"
local limits = require "tide.limits"

describe("limits", function()
  after_each(function()
    for _, limit in ipairs(core.limits()) do core.limit_set(limit.name, limit.default) end
    core.limits_passed = nil
  end)

  it("are set by words with units, and handed on", function()
    assert.is_true(limits.set({"net_ring_frames=16", "net_ring_bytes=64KiB", "net_ack_delay=5ms"}, "--limit"))
    assert.equal(16, core.limit "net_ring_frames")
    assert.equal(65536, core.limit "net_ring_bytes")
    assert.near(0.005, core.limit "net_ack_delay", 1e-12)
    assert.same({"net_ring_frames=16", "net_ring_bytes=65536", "net_ack_delay=0.005s"}, limits.changed())
    assert.same({"net_ack_delay=5000000", "net_ring_frames=7"},
      limits.settings {"net_ack_delay=5ms", "net_ring_frames=7"})
  end)

  it("are inherited from the environment, and the command line counts more", function()
    local function getenv(name)
      return name == "TIDE_LIMITS" and "net_ring_frames=16,net_ack_delay=2ms" or nil
    end
    assert.is_true(limits.use {getenv = getenv, options = {limit = {"net_ring_frames=32"}}})
    assert.equal(32, core.limit "net_ring_frames")
    assert.equal("net_ring_frames=32,net_ack_delay=0.002s", core.limits_passed)
    assert.is_true(limits.use({getenv = getenv, options = {limit = {"net_ring_frames=64"}}}, true))
    assert.equal(64, core.limit "net_ring_frames")
  end)

  it("say what is wrong with a word, and where it stood", function()
    local function refused(word, message, help)
      local ok <const>, err <const> = limits.set({word}, "--limit")
      assert.is_nil(ok)
      assert.equal("T0104", err.code)
      assert.equal(("--limit %s: %s"):format(word, message), err.message)
      if help then assert.equal(help, err.help) end
    end
    refused("net_ring_frame=9", "there is no limit `net_ring_frame`", "did you mean `net_ring_frames`?")
    refused("zzzzzzzzzz=9", "there is no limit `zzzzzzzzzz`", "`tide version -v` lists the limits")
    refused("net_ring_frames=3", "3 is outside of 4 to 1048576")
    refused("net_ring_frames=8.5", "`8.5` is not a whole number")
    refused("net_ack_delay=1h", "1h 00m is outside of 1 ms to 100 ms")
    refused("net_ring_bytes=many", "`many` is not a size: write 512, 64KiB, 4MiB or 2GB")
    refused("net_ring_frames", "write NAME=V")
  end)

  it("have a page with a row each, and rooms that it knows", function()
    local page <const> = limits.markdown()
    for _, limit in ipairs(core.limits()) do
      assert.truthy(page:find(("| `%s` | "):format(limit.name), 1, true), limit.name)
    end
    assert.truthy(page:find("| `net_ack_delay` | 20 ms | 1 ms | 100 ms | ", 1, true))
  end)
end)
