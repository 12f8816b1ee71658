package.path = "tests/lua/?.lua;" .. package.path
require "support"
local flags = require "tide.run.flags"

describe("options that a script overrides", function()
  local said
  local function new(values, given)
    said = {}
    return flags.new(values, given or {}, function(text) said[#said + 1] = text end)
  end

  it("have their effect where the script says nothing", function()
    local f <const> = new({nodes = 4, slots = 2}, {nodes = true, slots = true})
    assert.equal(4, f:value("nodes"))
    assert.equal(2, f:value("slots"))
    assert.is_nil(f:value("workers"))
    f:warn_unused()
    assert.same({}, said)
  end)

  it("yield to the script, which is told once, unless both say the same", function()
    local f <const> = new({nodes = 4, workers = 2, memory = 64 << 20, limits = {min = 1, max = 4}},
      {nodes = true, workers = true, memory = true, limits = true})
    for _ = 1, 2 do
      assert.equal(1, f:value("nodes", 1))
      assert.equal(2, f:value("workers", 2))
    end
    assert.equal("1GiB", f:value("memory", "1GiB"))
    assert.same({min = 2}, f:value("limits", {min = 2}))
    f:warn_unused()
    assert.same({"--nodes 4 has no effect: tide.cluster in the script says nodes 1",
      "--memory 64 MiB has no effect: cluster:start in the script says memory 1GiB",
      "--min 1 --max 4 has no effect: cluster:start in the script says min 2"},
      {said[1], said[2], said[3], said[4]})
  end)

  it("of a configuration yield in silence", function()
    assert.equal(1, new({nodes = 4}):value("nodes", 1))
    assert.same({}, said)
  end)

  it("that nothing asked for are told at the end", function()
    local f <const> = new({nodes = 4, resume = "ckpt", no_wait = true, keep = true},
      {nodes = true, resume = true, no_wait = true, keep = true})
    f:used "keep"
    f:warn_unused()
    assert.same({"--no-wait has no effect: the script started no run",
      "--nodes 4 has no effect: the script made no cluster",
      "--resume ckpt has no effect: the script started no run"}, said)
  end)
end)
