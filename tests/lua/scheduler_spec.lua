-- Parts of a scheduled cluster: limits of runs, what runs may say of themselves, and the order in which grants follow
-- targets, with a core that only notes what is asked of it.
package.path = "lua/?.lua;lua/?/init.lua;tests/lua/?.lua;" .. package.path
local support = require "support"

local core, asked = nil, nil
local function load(name)
  for _, each in ipairs {"limits", "models", "settle"} do package.loaded["tide.scheduler." .. each] = nil end
  return require(name)
end

before_each(function()
  asked = {}
  core = {now = function() return core.time end, time = 100, event = function() end,
    fiber = function(f, ...) return f(...) end,
    call = function(address, request)
      asked[#asked + 1] = {address, request}
      return {}
    end}
  dofile "tests/lua/fake_limits.lua" (core)
  dofile "tests/lua/fake_options.lua" (core)
  package.loaded["tide.core"] = core
end)
after_each(function() package.loaded["tide.core"] = support.core end)

describe("limits of slots", function()
  it("says which numbers a run takes", function()
    local limits = load "tide.scheduler.limits"
    assert.is_true(limits.allows({min = 2, max = 4}, 3))
    assert.is_false(limits.allows({min = 2, max = 4}, 5))
    assert.is_false(limits.allows({sizes = "pow2"}, 3))
    assert.is_true(limits.allows({sizes = {1, 6}}, 6))
  end)

  it("refuses what cannot be", function()
    local limits = load "tide.scheduler.limits"
    for _, bad in ipairs {{min = 0}, {max = 1.5}, {min = 3, max = 2}, {sizes = "odd"}, {sizes = {}}, {sizes = {0}},
                          {weight = 0}, {weight = 0 / 0}, {preemptible = 1}, {most = 3}, 7} do
      local ok, err = limits.check(bad, "limits")
      assert.is_nil(ok)
      assert.equal("T0113", err.code)
    end
    assert.is_nil((limits.check({sizes = {7, 8}}, "limits", 4)))
    assert.is_true((limits.check({sizes = {7, 2}}, "limits", 4)))
    local whole <const> = {min = 2.0, max = 4.0}
    assert.is_true((limits.check(whole, "limits", 4)))
    assert.same({"integer", "integer"}, {math.type(whole.min), math.type(whole.max)})
  end)
end)

describe("nodes that come as a policy wishes", function()
  it("are at most as many as are allowed, and at least as many, those that were there included", function()
    package.loaded["tide.provision"] = {}
    local pool <const>, wanted = load "tide.scheduler.pool", nil
    local own = setmetatable({o = {min = 3, max = 5}, pool = {tickets = {auto1 = {}}, want = function(_, n)
      wanted = n
      return true
    end}, nodes = {list = function() return {{name = "n1", slots = 1}, {name = "n2", slots = 1}, {name = "auto1",
      slots = 1}} end}}, pool)
    for wish, want in pairs {[0] = 1, [3] = 1, [4] = 2, [5] = 3, [6] = 3, [100] = 3} do
      assert.is_true(own:order {want = wish})
      assert.equal(want, wanted, wish)
    end
    package.loaded["tide.provision"], package.loaded["tide.scheduler.pool"] = nil, nil
  end)
end)

describe("what a run says of itself", function()
  local good <const> = {perf = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1}, gns = {sqr = 0, var = 1}, seen = 64,
                        batch = {start = 8, max = 8, lo = 1, hi = 8}}

  it("counts as far as it can be", function()
    local models = load "tide.scheduler.models"
    local r, e = {name = "a-1", most = 2}, {max = 4}
    assert.is_true(models.take(r, {model = good, progress = {examples = 50, total = 100}}))
    models.take(r, {progress = {examples = 10, total = 100}}) -- less than before
    models.fill(e, r, {["job.goodput"] = true, ["job.remaining"] = true})
    assert.equal(50, e.remaining)
    assert.equal(2, e.max_seen) -- it never had more
    assert.same({sqr = 0, var = 1}, e.gns)
    models.take(r, {model = {perf = good.perf, gns = {sqr = 3, var = 1}, seen = 64, batch = good.batch}})
    for name, sqr in pairs {["job.goodput"] = 3, ["job.throughput"] = 0} do -- examples of one worth
      models.fill(e, r, {[name] = true})
      assert.same({sqr = sqr, var = 1}, e.gns)
    end
    models.take(r, {progress = {examples = 0 / 0, total = 1e300}})
    assert.equal(50, r._done)
  end)

  it("is unknown when it cannot be", function()
    local models = load "tide.scheduler.models"
    for _, change in ipairs {{perf = {0, 1, 1, 1, 1, 1, 1}}, {perf = {1}}, {perf = {1, 1, 1, 1, 1, 1, 0 / 0}},
                             {gns = {sqr = -1, var = 1}}, {batch = {start = 9, max = 8, lo = 1, hi = 8}},
                             {batch = {start = 8, max = math.huge, lo = 1, hi = 8}}} do
      local r, m = {name = "a-1"}, {}
      for k, v in pairs(good) do m[k] = v end
      for k, v in pairs(change) do m[k] = v end
      assert.is_false(models.take(r, {model = m}))
      assert.is_nil(r.model)
    end
  end)
end)

describe("grants", function()
  local settle, records, world
  before_each(function()
    settle = load "tide.scheduler.settle"
    records = {}
    world = {
      keeper = {ordered = function() return records end, waiting = {},
        save = function() return true end,
        start = function(r, grant)
          r.grant = grant
          world.keeper.waiting[r.n] = nil
        end},
      nodes = {list = function() return {{id = 1, name = "n1", slots = 2, state = "up"},
        {id = 2, name = "n2", slots = 2, state = "up"}} end,
        named = function(_, name) return (name == "n1" or name == "n2") and {state = "up"} or nil end},
      is_subject = function() return true end, policy = function() return "p" end,
    }
  end)
  local function run(n, grant, target)
    local r = {n = n, name = "r-" .. n, state = grant and "running" or "queued", grant = grant, target = target,
               epoch = 0, _controller = grant and "c" .. n or nil}
    records[#records + 1] = r
    if not grant then world.keeper.waiting[n] = {} end
    return r
  end

  it("shrink before others grow, and grow when what left has been told", function()
    local a = run(1, {n1 = 2, n2 = 2}, {n1 = 2})
    local b = run(2, nil, {n2 = 2})
    settle.step(world)
    assert.same({n1 = 2}, asked[1][2].nodes)
    assert.is_nil(b.grant) -- nothing is free yet
    settle.held(world, a, {held = {n1 = 2, n2 = 1}, order = a.order - 1}) -- of before the order
    assert.same({n1 = 2, n2 = 2}, a.grant)
    settle.held(world, a, {held = {n1 = 2, n2 = 1}, order = a.order})
    assert.same({n1 = 2, n2 = 1}, a.grant) -- what it has left is free at once
    settle.step(world)
    assert.is_nil(b.grant)
    settle.held(world, a, {held = {n1 = 2}, order = a.order})
    settle.step(world)
    assert.same({n1 = 2}, a.grant)
    assert.same({n2 = 2}, b.grant)
  end)

  it("are sent by force when workers do not leave, and go with their node", function()
    local a = run(1, {n1 = 1, n3 = 1}, {n1 = 1, n3 = 1})
    settle.lost_nodes(world)
    assert.same({n1 = 1}, a.grant)
    a.target = {}
    settle.changed(a)
    settle.step(world)
    assert.is_falsy(asked[1][2].force)
    core.time = 111
    settle.step(world)
    assert.is_true(asked[2][2].force)
    settle.held(world, a, {held = {}, order = a.order})
    assert.is_nil(a.grant)
  end)

  it("give what is free to one run, not to two", function()
    local a, b = run(1, nil, {n1 = 2}), run(2, nil, {n1 = 1, n2 = 1})
    settle.step(world)
    assert.same({n1 = 2}, a.grant)
    assert.is_nil(b.grant)
  end)

  it("are asked again half a second after a refusal", function()
    local refusals = 2
    core.call = function(address, request)
      asked[#asked + 1] = {address, request}
      refusals = refusals - 1
      return {refused = refusals >= 0 and "its workers are coming and going" or nil}
    end
    run(1, {n1 = 2}, {n1 = 1})
    for _ = 1, 8 do -- two seconds
      settle.step(world)
      core.time = core.time + 0.25
    end
    assert.equal(3, #asked)
    for _, each in ipairs(asked) do assert.same({{n1 = 1}, false}, {each[2].nodes, each[2].force}) end
  end)

  it("are sent by force again and again", function()
    local a = run(1, {n1 = 2}, {n1 = 1})
    settle.changed(a)
    for _ = 1, 35 do
      settle.step(world)
      core.time = core.time + 1
    end
    local forced = 0
    for _, each in ipairs(asked) do forced = forced + (each[2].force and 1 or 0) end
    assert.equal(3, forced)
  end)

  it("stay where a run cannot be changed", function()
    core.call = function() return {refused = "bound to ranks", bound = true} end
    local a = run(1, {n1 = 2}, {n1 = 1})
    settle.step(world)
    assert.equal("bound to ranks", a.bound)
    assert.same({n1 = 2}, a.target)
  end)
end)
