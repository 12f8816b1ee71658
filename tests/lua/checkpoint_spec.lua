package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"

local tide, core = support.tide, support.core

describe("checkpoints", function()
  local checkpoint = require "tide.run.checkpoint"

  before_each(function()
    support.reset()
    core.damage = nil
  end)

  it("have settings with defaults, or a text that names the field", function()
    assert.same({dir = "d", every_s = 60, keep = 3}, checkpoint.settings {dir = "d"})
    assert.same({dir = "d", every_s = 0.25, keep = 2, cut = "fuzzy"},
      checkpoint.settings {dir = "d", every = "250ms", keep = 2, cut = "fuzzy"})
    for _, case in ipairs {
      {{}, "directory"}, {{dir = ""}, "directory"}, {{dir = 1}, "`dir` is 1, not a string"},
      {{dir = "d", keep = 1}, "keep"},
      {{dir = "d", every = "soon"}, "every"}, {{dir = "d", every = 0}, "every"}, {{dir = "d", cut = "x"}, "cut"},
      {{dir = "d", evry = 1}, "`evry`"},
    } do
      local settings, problem = checkpoint.settings(case[1])
      assert.is_nil(settings)
      assert.equal("T0708", problem.code)
      assert.truthy(problem.message:find(case[2], 1, true), problem.message)
    end
  end)

  it("give errors of C their codes", function()
    for name, code in pairs {EPROTO = "T0703", EVERSION = "T0704", EMISMATCH = "T0705", EBUSY = "T0706",
                             ETIMEDOUT = "T0707", ENOSPC = "T0701", EDIED = "T0701", ENOENT = "T0702"} do
      local err = checkpoint.error({name = name, message = "m"}, "dir")
      assert.equal(code, err.code)
      assert.equal("m", err.message)
      assert.equal("dir", err.where)
    end
  end)

  it("say of a restore that it failed, not of a save", function()
    for name, code in pairs {EFULL = "T0709", ENOREPLICA = "T0709", ETIMEDOUT = "T0709", EBUSY = "T0709",
                             ENOENT = "T0702", EMISMATCH = "T0705"} do
      core.checkpoint_restore = function() return nil, {name = name, message = "m", node = "n1"} end
      local restored, err = checkpoint.restore "dir"
      assert.is_nil(restored)
      assert.same({code, "m", "dir", "n1"}, {err.code, err.message, err.where, err.node})
    end
  end)

  it("are aborted when what the job keeps cannot be had", function()
    local aborted
    core.checkpoint_start = function()
      return {info = function() return {generation = 1} end, abort = function() aborted = true end}
    end
    local info, err = checkpoint.save({dir = "d"}, function() error({name = "EINVAL", message = "no"}, 0) end)
    assert.is_nil(info)
    assert.equal("T0708", err.code)
    assert.is_true(aborted)
  end)

  it("are listed, newest first, with what is unfinished", function()
    local r = tide "checkpoint list ckpt --plain"
    assert.equal(0, r.code)
    assert.truthy(r.out:find("^2\tchanges\tclock\t9\t3\t400\t1\t2\t\n1\tunfinished"))
    r = tide "checkpoint list nowhere"
    assert.equal(1, r.code)
    assert.truthy(r.err:find("T0702", 1, true))
  end)

  it("are verified: 0, or 1 and the name of the block", function()
    assert.equal(0, tide("checkpoint verify ckpt").code)
    assert.equal(1, tide("checkpoint verify ckpt -g 7").code)
    core.damage = "'ckpt/000002/t-00001-00000.safetensors': block 3 of 9 is damaged"
    local r = tide "checkpoint verify ckpt"
    assert.equal(1, r.code)
    assert.truthy(r.err:find("T0703", 1, true))
    assert.truthy(r.err:find("block 3 of 9", 1, true))
  end)

  it("name their actions, and ask before they replace rows", function()
    local r = tide "checkpoint lst ckpt"
    assert.equal(2, r.code)
    assert.truthy(r.err:find("did you mean `list`", 1, true))
    assert.equal(2, tide("checkpoint restore ckpt").code)
    assert.equal(0, tide("checkpoint restore ckpt -n").code)
  end)
end)
