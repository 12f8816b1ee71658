-- The keeper of runs: slots that could not be recorded, and tables of closed runs.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake

-- What the keeper answers to these requests, in order.
local function answers_to(requests)
  local inbox = {}
  for i, request in ipairs(requests) do
    inbox[i] = type(request) == "function" and request
      or {kind = "call", right = "node", from = "d:1", call = i, value = request}
  end
  fake.core.receive = function()
    while type(inbox[1]) == "function" do table.remove(inbox, 1)() end
    return table.remove(inbox, 1) or {kind = "stop"}
  end
  require("tide.cluster.runs").main()
  local list = {}
  for _, each in ipairs(fake.answers) do list[each.message.call] = each.value end
  for _, each in ipairs(fake.errors) do list[each.message.call] = each.err end
  return list
end

before_each(function()
  fake = require "tests.lua.fresh"()
  fake.kept, fake.dropped, fake.tables = {}, {}, {}
  local core <const> = fake.core
  core.register, core.open, core.wall = function() return true end, function() end, function() return fake.time end
  core.trap_exits, core.event, core.whereis = function() end, function() end, function() end
  core.node = function() return {id = 1, controller = 1} end
  core.control_list = function() return {} end
  core.control_put = function(key, value)
    if fake.full then return nil, {name = "ENOSPC", code = "T0601", message = "no room"} end
    fake.kept[key] = value
    return true
  end
  core.tables = function() return fake.tables end
  core.table_drop = function(name)
    fake.dropped[#fake.dropped + 1] = name
    return true
  end
  package.loaded["tide.scheduler"] = {new = function()
    local none <const> = function() return nil end
    return {is_active = none, recover = none, held_back = none, priority = function() return 0 end,
            tick = none, finished = none, event = none, told = none, row = none}
  end}
  fake.members_list = {{id = 1, name = "n1", state = "up", workers = 4}}
end)

describe("the keeper of runs", function()
  it("gives slots back that it could not record", function()
    local list <const> = answers_to {
      {op = "open", job = "a", uid = "u", slots = 1}, {op = "grant", n = 1}, {op = "held"},
      function() fake.full = true end,
      {op = "slots.more", n = 1, slots = 2},
      function() fake.full = false end,
      {op = "held"}, {op = "get", name = "1"}, {op = "slots.more", n = 1, slots = 3}, {op = "held"},
    }
    assert.equal(3, list[3].free)
    assert.equal("T0601", list[5].code)
    assert.equal(3, list[7].free)
    assert.equal(1, list[8].wanted)
    assert.same({n1 = 3}, list[9].grant)
    assert.equal(0, list[10].free)
  end)

  it("takes the name of a person from a host only if it is one", function()
    local list <const> = answers_to {
      {op = "open", job = "a", uid = "u", user = "ann b"}, {op = "get", name = "1"},
      {op = "open", job = "a", uid = "v", user = "../\27[2J"}, {op = "get", name = "2"},
      {op = "open", job = "a", uid = "w", user = ("x"):rep(65)}, {op = "get", name = "3"},
    }
    assert.equal("ann b", list[2].user)
    assert.is_nil(list[4].user)
    assert.is_nil(list[6].user)
  end)

  it("gives no more slots than are free, and those of a run that has ended to others", function()
    local more <const> = {op = "slots.more", n = 2, slots = 2}
    local list <const> = answers_to {
      {op = "open", job = "a", uid = "u", slots = 1}, {op = "grant", n = 1},
      {op = "open", job = "b", uid = "v", slots = 2}, {op = "grant", n = 2},
      more, {op = "held"},
      {op = "tell", n = 1, uid = "u", state = "done"}, {op = "held"}, more,
    }
    assert.equal("T0603", list[5].code)
    assert.equal(1, list[6].free)
    assert.equal(2, list[8].free)
    assert.same({n1 = 2}, list[9].grant)
  end)

  it("ends a run after its time, by a clock that nobody sets", function()
    local stopped, set = 0, 0
    fake.core.wall = function() return 1e9 + set + fake.time end
    fake.core.monitor = function() return "m" end
    fake.core.send = function(_, value) stopped = stopped + (value.op == "verb.stop" and 1 or 0) end
    answers_to {
      {op = "open", job = "a", uid = "u", slots = 1}, {op = "grant", n = 1}, {op = "time", name = "1", seconds = 3600},
      {op = "tell", n = 1, uid = "u", state = "running"}, {op = "held"},
      function() set = 86400 end, {op = "held"}, {op = "held"},
      function()
        assert.equal(0, stopped)
        fake.time = fake.time + 3590
      end, {op = "held"}, {op = "held"},
      function()
        assert.equal(0, stopped)
        fake.time = fake.time + 11
      end, {op = "held"}, {op = "held"},
    }
    assert.equal(1, stopped)
  end)

  it("lets nobody end or close a run under the number of another", function()
    local list <const> = answers_to {
      {op = "open", job = "a", uid = "u", slots = 1}, {op = "grant", n = 1},
      {op = "close", n = 1, uid = "v"}, {op = "tell", n = 1, uid = "v", state = "failed"}, {op = "held"},
      {op = "get", name = "1"},
    }
    assert.equal("T0513", list[3].code)
    assert.equal(3, list[5].free)
    assert.equal("starting", list[6].state)
    assert.same({"disowned"}, {fake.sent[#fake.sent].value.op})
  end)

  it("drops the tables that have the number of a closed run, whatever they are called", function()
    fake.tables = {{name = "a-1.t", run = 1}, {name = "hits", run = 1}, {name = "a-1.pool"}, {name = "a-2.t", run = 2}}
    answers_to {{op = "open", job = "a", uid = "u"}, {op = "close", n = 1, uid = "u"}}
    assert.same({"a-1.t", "hits"}, fake.dropped)
  end)
end)
