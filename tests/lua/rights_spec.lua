-- What clients with less than the right `admin` may not do: bring policies of their own, end another's session.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake, audited

before_each(function()
  fake = require "tests.lua.fresh"()
  audited = {}
  local core <const> = fake.core
  core.plain_encode, core.plain_decode = core.encode, core.decode
  core.audit = function(entry)
    audited[#audited + 1] = entry
    return true
  end
  core.embedded = function(name) return name == "policies/scheduling/fifo" and "shipped" or nil end
end)

describe("a policy that is swapped in", function()
  local SHIPPED <const>, OWN <const> = {path = "scheduling/fifo", text = "shipped"}, {path = "my.lua", text = "own"}
  local swapped

  -- What the seat answers to a swap: of the cluster without a policy, of the cluster with one, of a job.
  local function seats()
    local live, scheduler = require "tide.policy.live", require "tide.scheduler"
    local function remember(_, policy)
      swapped = policy
      return {}
    end
    local host <const> = {swap = remember}
    return {
      empty = function(seat, ...) return scheduler.serve(seat, ...) end,
      taken = function(seat, ...)
        seat.host = host
        return scheduler.serve(seat, ...)
      end,
      job = function(seat, ...)
        seat.host = host
        return live.serve(seat, ...)
      end,
    }, remember
  end

  local function swap(serve, seat, policy, right)
    swapped = nil
    local arguments <const> = fake.core.encode {policy = policy, kind = "scheduling"}
    local answer, err = serve(seat, {verb = "swap", arguments = arguments}, {right = right, from = "9:1"})
    return answer ~= nil, err
  end

  for _, where in ipairs {"empty", "taken", "job"} do
    it("is one that ships with Tide, or that an admin has brought: seat " .. where, function()
      local all, install <const> = seats()
      local seat <const> = {install = install}
      local serve <const> = all[where]
      assert.is_true((swap(serve, seat, SHIPPED, "operate")))
      local ok, err = swap(serve, seat, OWN, "operate")
      assert.is_false(ok)
      assert.equal("T0801", err.code)
      assert.is_nil(swapped)
      assert.is_false((swap(serve, seat, {path = "scheduling/fifo", text = "own"}, "operate"))) -- its name alone
      assert.is_true((swap(serve, seat, OWN, "admin")))
      assert.is_true((swap(serve, seat, OWN, "operate")))
      assert.is_false((swap(serve, seat, {path = "my.lua", text = "another"}, "operate")))
    end)
  end

  it("takes the right `operate`, and is noted before it is done", function()
    local all <const>, install <const> = seats()
    for where, serve in pairs(all) do
      local ok, err = swap(serve, {install = install}, SHIPPED, "read")
      assert.is_false(ok, where)
      assert.equal("T0801", err.code)
      assert.is_nil(swapped)
      assert.equal(err.message, audited[#audited].result)
    end
    fake.core.audit = function() return nil, {message = "the disk is full"} end
    for where, serve in pairs(all) do
      local ok, err = swap(serve, {install = install}, SHIPPED, "operate")
      assert.is_false(ok, where)
      assert.equal("T0803", err.code)
      assert.is_nil(swapped)
    end
  end)
end)

describe("a session of a console", function()
  local killed

  -- What the agent answers to {right, from, request}, one after the other.
  local function answers_to(requests)
    local core <const> = fake.core
    local inbox = {}
    for i, each in ipairs(requests) do
      inbox[i] = {kind = "call", right = each[1], from = each[2], call = i, value = each[3]}
    end
    core.receive = function() return table.remove(inbox, 1) or {kind = "stop"} end
    core.register, core.trap_exits, core.open = function() return true end, function() end, function() end
    core.node = function() return {id = 1, name = "n1", state = "up"} end
    core.member, core.whereis, core.audit_sync = function() end, function() end, function() end
    core.console_bytes = function() return 0 end
    core.spawn = function() return "1:70" end
    core.kill = function(address) killed[#killed + 1] = address end
    package.loaded["tide.cluster.runs"] = {keep = function() end}
    require("tide.cluster.agent").main {}
    local list = {}
    for _, each in ipairs(fake.answers) do list[each.message.call] = each.value end
    for _, each in ipairs(fake.errors) do list[each.message.call] = each.err end
    return list
  end

  before_each(function() killed = {} end)

  it("is ended by its owner or an admin, and by no other client", function()
    local open <const> = {op = "console.open", session = "a1", role = "read"}
    local drop <const> = {op = "console.drop", session = "a1"}
    local list <const> = answers_to {{"read", "9:1", open}, {"read", "8:1", drop}, {"operate", "8:1", drop},
                                     {"admin", "8:1", drop}}
    assert.equal("1:70", list[1].address)
    assert.equal("T0801", list[2].code)
    assert.equal("T0801", list[3].code)
    assert.same({}, list[4])
    assert.same({"1:70"}, killed)
  end)

  it("is ended by its owner from any of its actors", function()
    answers_to {{"read", "9:1", {op = "console.open", session = "a1", role = "read"}},
                {"read", "9:5", {op = "console.drop", session = "a1"}}}
    assert.same({"1:70"}, killed)
  end)

  it("has no role above the right of its opener, and keeps the one that it was made with", function()
    local list <const> = answers_to {
      {"read", "9:1", {op = "console.open", session = "a1", role = "operate"}},
      {"operate", "9:1", {op = "console.open", session = "a1", role = "operate"}},
      {"admin", "9:1", {op = "console.open", session = "a1", role = "admin"}},
    }
    assert.equal("T0801", list[1].code)
    assert.equal("operate", list[2].role)
    assert.equal("T0801", list[3].code)
  end)
end)
