-- Requests to several actors at once. The core is a fake whose fibers are coroutines and whose clock is virtual.
package.path = "lua/?.lua;lua/?/init.lua;tests/lua/?.lua;" .. package.path
local support = require "support"

local core, ask_all, most, in_flight, called

-- Runs the fiber that is due first until `fiber` has ended.
local function run_until_over(fiber)
  while not fiber.over do
    local due
    for _, each in ipairs(core.fibers) do
      if not each.over and (not due or each.at < due.at) then due = each end
    end
    core.time = math.max(core.time, due.at)
    local ok, at = coroutine.resume(due.thread)
    due.over = coroutine.status(due.thread) == "dead"
    due.ok, due.err = ok, not ok and at or nil
    if not due.over then due.at = at end
  end
end

before_each(function()
  most, in_flight, called = 0, 0, {}
  core = {time = 0, fibers = {}, now = function() return core.time end}
  function core.fiber(f)
    local fiber <const> = {thread = coroutine.create(f), at = core.time}
    core.fibers[#core.fibers + 1] = fiber
    return fiber
  end
  function core.fiber_wait(fiber)
    run_until_over(fiber)
    return fiber.ok, fiber.err
  end
  -- A target is the number of seconds that its answer takes.
  function core.call(seconds, request, timeout_s)
    called[#called + 1], in_flight = {target = seconds, request = request, timeout_s = timeout_s}, in_flight + 1
    most = math.max(most, in_flight)
    coroutine.yield(core.time + math.min(seconds, timeout_s))
    in_flight = in_flight - 1
    if seconds > timeout_s then return nil, {name = "ETIMEDOUT", message = "no answer"} end
    return {after = seconds}
  end
  package.loaded["tide.core"], package.loaded["tide.ask_all"] = core, nil
  ask_all = require "tide.ask_all"
end)
after_each(function() package.loaded["tide.core"], package.loaded["tide.ask_all"] = support.core, nil end)

describe("asking several at once", function()
  it("takes as long as the slowest, and gives answers in the order of the targets", function()
    local answers, problems = ask_all({3, 1, 2}, {op = "x"}, {timeout_s = 10})
    assert.same({{after = 3}, {after = 1}, {after = 2}}, answers)
    assert.same({}, problems)
    assert.equal(3, core.time)
    assert.equal(3, most)
    assert.same({op = "x"}, called[1].request)
  end)

  it("leaves a gap for one that does not answer by the deadline, or is not there", function()
    local answers, problems = ask_all({1, 7, false}, {op = "x"}, {timeout_s = 2})
    assert.same({after = 1}, answers[1])
    assert.is_nil(answers[2] or answers[3])
    assert.equal("ETIMEDOUT", problems[2].name)
    assert.equal("T0501", problems[3].code)
    assert.equal(2, #called)
    assert.equal(2, core.time)
  end)

  it("gives the first problem when more are missing than may be", function()
    assert.is_table((ask_all({1, 7}, {}, {timeout_s = 2, missing = 1})))
    local answers, err = ask_all({1, 7, false}, {}, {timeout_s = 2, missing = 1})
    assert.is_nil(answers)
    assert.equal("ETIMEDOUT", err.name)
  end)

  it("has so many in flight at most, and one deadline for all", function()
    local answers, problems = ask_all({2, 2, 2, 2, 2}, {}, {timeout_s = 5, at_once = 2})
    assert.equal(2, most)
    assert.equal(5, core.time)
    assert.same({after = 2}, answers[4])
    assert.equal(1, called[5].timeout_s)
    assert.equal("ETIMEDOUT", problems[5].name)
  end)

  it("asks by a function, and raises what that raises when the others have ended", function()
    local ended = 0
    local function ask(target, i)
      coroutine.yield(core.time + target)
      if target == 1 then error("broken", 0) end
      ended = ended + 1
      return target * i
    end
    assert.same({4, 6}, (ask_all({4, 3}, ask)))
    assert.has_error(function() ask_all({1, 5, 6}, ask) end, "broken")
    assert.equal(4, ended)
  end)

  it("of nobody is over at once", function()
    assert.same({}, (ask_all({}, {}, {missing = 0})))
    assert.equal(0, #core.fibers)
  end)
end)
