-- tide.nn over a core that records: names and places of layers, operands of maps, errors, schedules, update rules. What
-- programs compute is tested where the real core is (tests/unit, tests/cluster/test_nn.sh).
package.path = "lua/?.lua;lua/?/init.lua;" .. package.path

local calls, fail

local function fake_program()
  local p, next_value = {}, -1
  for _, name in ipairs {"place", "input", "parameter", "state", "apply", "map", "reshape", "output",
                        "differentiate"} do
    p[name] = function(_, ...)
      calls[#calls + 1] = {name, ...}
      if fail and fail[1] == name then return nil, {message = fail[2]} end
      next_value = next_value + 1
      return next_value
    end
  end
  function p.shape() return "[B x 4 x 4 x 3]", {4, 4, 3}, true end
  return p
end

local function named(name)
  local found = {}
  for _, call in ipairs(calls) do if call[1] == name then found[#found + 1] = call end end
  return found
end

describe("tide.nn", function()
  local nn, kept
  before_each(function()
    calls, fail = {}, nil
    kept = {}
    for name, module in pairs(package.loaded) do
      if name:find("^tide") then kept[name], package.loaded[name] = module, nil end
    end
    package.loaded["tide.core"] = {program = fake_program, version = "0"}
    nn = require "tide.nn"
  end)
  after_each(function()
    for name in pairs(package.loaded) do if name:find("^tide") then package.loaded[name] = nil end end
    for name, module in pairs(kept) do package.loaded[name] = module end
  end)

  it("numbers layers by kind and remembers where each was written", function()
    nn.sequential {
      input = {4, 4, 3}, loss = nn.xent(),
      nn.conv(8, 3),
      nn.conv(8, 3, {bias = false}),
      nn.flatten(), nn.linear(10, {name = "top"}),
    }
    local names = {}
    for i, call in ipairs(named "parameter") do names[i] = call[2] end
    assert.same({"conv1.w", "conv1.b", "conv2.w", "top.w", "top.b"}, names)
    local first, second
    for _, call in ipairs(named "place") do
      if call[3] == "conv1" then first = call[4] end
      if call[3] == "conv2" then second = call[4] end
    end
    local line = tonumber(first:match("nn_spec.lua:(%d+)$"))
    assert.equal(line + 1, tonumber(second:match("nn_spec.lua:(%d+)$")))
  end)

  it("gives numbers as constants and values as integers", function()
    nn.program("p", function(p)
      local x = p:input("x", 4)
      p:loss(1 - x * 2)
    end)
    local maps = named "map"
    assert.same({"mul", "integer", "float"}, {maps[1][2], math.type(maps[1][3]), math.type(maps[1][4])})
    assert.same({"sub", "float", "integer"}, {maps[2][2], math.type(maps[2][3]), math.type(maps[2][4])})
  end)

  it("raises the core's reason with its line apart", function()
    fail = {"apply", "net.lua:9: linear \"fc1\": 3 and 4 must be equal"}
    local ok, err = pcall(nn.sequential, {input = {3}, loss = nn.xent(), nn.linear(2)})
    assert.is_false(ok)
    assert.same({"T0903", "net.lua:9", "linear \"fc1\": 3 and 4 must be equal"}, {err.code, err.where, err.message})
  end)

  it("refuses faulty layers and rules where they are written", function()
    local function refused(text, f, ...)
      local ok, err = pcall(f, ...)
      assert.is_false(ok)
      assert.truthy(tostring(err.message):find(text, 1, true), tostring(err.message))
    end
    refused("the size of a linear layer is 0", nn.linear, 0)
    refused("layer option `strde` is not known", nn.conv, 3, 3, {strde = 1})
    local nan <const> = 0 / 0
    for _, share in ipairs {1, -0.1, nan, "0.5"} do
      refused(("the share of dropout is %s, not a number from 0 to below 1"):format(share), nn.dropout, share)
    end
    refused("eps of batchnorm is -1, not a finite number of 0 or more", nn.batchnorm, {eps = -1})
    refused("rate of batchnorm is 2, not a number from 0 to 1", nn.batchnorm, {rate = 2})
    refused("eps of layernorm is " .. tostring(nan), nn.layernorm, {eps = nan})
    refused("eps of rmsnorm is x", nn.rmsnorm, {eps = "x"})
    refused("the stride of a convolution is 0", nn.conv, 3, 3, {stride = 0})
    refused("the pad of a pool is 0.5", nn.maxpool, 2, {pad = 0.5})
    refused("nn.adam requires lr", nn.adam, {})
    refused("nn.sgd: lr is -1, not a finite number of 0 or more", nn.sgd, {lr = -1})
    refused("nn.sgd: decay is " .. tostring(nan), nn.sgd, {lr = 1, decay = nan})
    refused("nn.adam: mu is 1, not a number from 0 to below 1", nn.adam, {lr = 1, mu = 1})
    refused("nn.lion: beta2 is 1.5", nn.lion, {lr = 1, beta2 = 1.5})
    refused("nn.adafactor: clip is 0, not a finite number above 0", nn.adafactor, {clip = 0})
    refused('nn.optimizer "own": lr is -1', nn.optimizer, {name = "own", lr = -1, step = print})
    refused("nn.schedule.step(rate, every, factor): every is 0, not a finite number above 0", nn.schedule.step, 1, 0, 1)
    refused("nn.schedule.cosine(rate, steps, low): steps is 0", nn.schedule.cosine, 1, 0)
    refused("nn.schedule.inverse(rate, decay): decay is -1", nn.schedule.inverse, 1, -1)
    refused("nn.schedule.warmup: steps is -1", nn.schedule.warmup, -1, nn.schedule.constant(1))
    refused("nn.sgd has no option `mu`", nn.sgd, {lr = 1, mu = 0.5})
    refused("requires input", nn.sequential, {})
    refused("layer 1 is a number", nn.sequential, {input = {3}, loss = nn.xent(), 7})
    refused("must be symmetric", nn.program, "p", function(p) p:param("w", {2}, {"uniform", 0, 1}) end)
  end)

  it("follows its schedules", function()
    local s = nn.schedule
    assert.equal(3, s.constant(3)(1000))
    assert.same({1, 0.5, 0.25}, {s.step(1, 10, 0.5)(10), s.step(1, 10, 0.5)(11), s.step(1, 10, 0.5)(21)})
    assert.near(0.55, s.cosine(1, 100, 0.1)(51), 1e-12)
    assert.near(0.1, s.cosine(1, 100, 0.1)(1000), 1e-12)
    assert.same({0.5, 1}, {s.warmup(10, s.constant(1))(5), s.warmup(10, s.constant(1))(50)})
    assert.equal(0.5, s.inverse(1, 0.1)(11))
    for t, rate in pairs {[1] = 1, [6] = 0.55, [11] = 0.1, [99] = 0.1} do
      assert.near(rate, s.linear(1, 10, 0.1)(t), 1e-12)
    end
  end)

  it("knows each rule's defaults and takes others", function()
    assert.same({rule = "adam", lr = 1, decay = 0, mu = 0.9, beta2 = 0.999, eps = 1e-8}, nn.adam {lr = 1})
    assert.same({rule = "momentum", lr = 1, decay = 0.1, mu = 0.5}, nn.momentum {lr = 1, mu = 0.5, decay = 0.1})
  end)

  it("does again what was cut for workers that died in the step, and nothing twice", function()
    package.loaded["tide.core"].kernel = function() end
    local group = require "tide.nn.worker_group"
    local present, seen = {1, 2, 3}, {}
    local g = group.new({rank = 1, workers = 3}, {})
    g.present = function() return present end
    local step = 0
    for first, count, cut in g:batches({{first = 1, count = 10}, {first = 21, count = 5}}, 6) do
      step = step + 1
      if step == 2 then present = {1, 3} end -- rank 2 dies in the second step
      local here = {}
      for _, rank in ipairs(present) do here[rank] = true end
      for i, rank in ipairs(cut.present) do
        local from, n = require("tide.run.data_sets").piece(cut.count, i, #cut.present)
        if rank == 1 then assert.same({cut.first + from - 1, n}, {first, count}) end
        for e = cut.first + from - 1, here[rank] and cut.first + from + n - 2 or 0 do seen[e] = (seen[e] or 0) + 1 end
      end
    end
    for e = 1, 25 do assert.equal((e <= 10 or e > 20) and 1 or nil, seen[e], e) end
  end)
end)
