-- The keeper of a group of actors: what it holds for callers goes with them.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake

before_each(function()
  fake = require "tests.lua.fresh"()
  fake.core.self, fake.core.trap_exits = function() return "k:1" end, function() end
  fake.reply = function(_, value)
    if value.op == "member.start" then return {address = "m:" .. value.argument.rank} end
    return {value = 7}
  end
end)

-- Runs a keeper of one member over these messages; a function is called in its place.
local function serve(list, opens, quota)
  fake.core.receive = function()
    while type(list[1]) == "function" do table.remove(list, 1)() end
    return table.remove(list, 1) or {kind = "stop"}
  end
  require("tide.run.group").main {class = "c", script = {}, members = {{node = "n1", agent = "a:1"}},
    opens = opens, quota = quota}
end

local function ask(from, number, value)
  return {kind = "call", right = "node", from = from, call = number, value = value}
end

local function answer_to(number)
  for _, each in ipairs(fake.answers) do
    if each.message.call == number then return each.value end
  end
end

describe("the keeper of a group", function()
  it("frees the stream of a caller that is dead", function()
    serve {ask("w:9", 101, {op = "call", method = "m", stream = true}),
      ask("w:9", 102, {op = "call", method = "m", stream = true}),
      ask("w:8", 103, {op = "call", method = "m", stream = true}),
      ask("w:9", 104, {op = "next", stream = 1, after = 0}),
      {kind = "exit", from = "w:9", call = 2, code = 1},
      ask("w:8", 105, {op = "next", stream = 2, after = 0}), ask("w:8", 106, {op = "next", stream = 3, after = 0})}
    assert.equal(2, fake.monitored["w:9"])
    assert.equal(7, answer_to(104).items[1].value)
    assert.same({items = {}, last = 0, over = true}, answer_to(105))
    assert.equal(7, answer_to(106).items[1].value)
  end)

  it("does not answer a watcher that is dead", function()
    serve {ask("w:9", 101, {op = "changes"}), ask("w:8", 102, {op = "changes"}),
      {kind = "exit", from = "w:9", call = 2, code = 1},
      {kind = "cast", right = "node", from = "m:1", value = {op = "started", rank = 1, life = 1}}}
    assert.is_nil(answer_to(101))
    assert.equal("up", answer_to(102).items[1].state)
  end)
end)

describe("a published group", function()
  local started <const> = {kind = "cast", right = "node", from = "m:1", value = {op = "started", rank = 1, life = 1}}
  local opened, registered

  before_each(function()
    fake.core.open = function(right) opened = right end
    fake.core.register = function(name)
      if registered then return nil, {code = "T0512", name = "EEXIST", message = "taken"} end
      registered = name
      return true
    end
    opened, registered = nil, nil
  end)

  local function of_client(right, number, method, as_right)
    return {kind = "call", right = right, from = "c:1", call = number,
            value = {op = "ask", method = method, arguments = {1}, count = 1, as_right = as_right}}
  end

  local function refusal_of(number)
    for _, each in ipairs(fake.errors) do
      if each.message.call == number then return each.err end
    end
  end

  it("answers clients by the right of each method", function()
    serve({started, of_client("read", 101, "score"), of_client("read", 102, "reload"),
      of_client("admin", 103, "reload"), of_client("admin", 104, "hidden"), of_client("node", 105, "hidden")},
      {score = "read", reload = "operate"})
    assert.same({value = 7}, answer_to(101))
    assert.equal("T0801", refusal_of(102).code)
    assert.same({value = 7}, answer_to(103))
    assert.equal("T0801", refusal_of(104).code)
  end)

  it("answer a client that asks for a person by the lesser right", function()
    serve({started, of_client("admin", 101, "reload", "read"), of_client("node", 102, "reload", "read"),
      of_client("read", 103, "reload", "admin"), of_client("admin", 104, "reload", "nonsense"),
      of_client("admin", 105, "reload", "operate")}, {reload = "operate"})
    for number = 101, 104 do assert.equal("T0801", refusal_of(number).code) end
    assert.same({value = 7}, answer_to(105))
  end)

  it("answers nodes whatever a method opens to", function()
    serve({started, of_client("node", 105, "hidden")}, {score = "read"})
    assert.same({value = 7}, answer_to(105))
  end)

  it("tells of a method that raised, and where no member is up", function()
    local usual <const> = fake.reply
    fake.reply = function(to, value)
      if value.op == "run" then return nil, {code = "T0602", name = "ERANGE", message = "key 9"} end
      return usual(to, value)
    end
    serve({of_client("read", 101, "score"), started, of_client("read", 102, "score")}, {score = "read"})
    assert.equal("T0508", answer_to(101).err.code)
    assert.equal("T0602", answer_to(102).err.code)
    assert.equal("n1", answer_to(102).err.node)
  end)

  it("has a name of its own, and is open only if a method is", function()
    serve({ask("o:1", 101, {op = "publish", name = "predict"}), ask("o:1", 102, {op = "publish", name = "other"})},
      {score = "read"})
    assert.equal("predict", registered)
    assert.equal("read", opened)
    assert.equal("T0512", refusal_of(102).code)
    opened, registered = nil, nil
    serve({ask("o:1", 103, {op = "publish", name = "closed"})}, {})
    assert.is_nil(opened)
  end)
end)

describe("the rights of a class", function()
  local function class(opens)
    local script <const> = require "tide.script"
    script.actors, script.in_main = {}, false
    return require("tide.run.actors").class {name = "p", opens = opens, score = function() end, load = function() end}
  end

  it("are one for all methods, or one a method", function()
    assert.same({score = "read", load = "read"}, class("read").opens)
    assert.same({load = "admin"}, class({load = "admin"}).opens)
    assert.same({}, class(nil).opens)
  end)

  it("are those of clients, of methods that there are", function()
    for _, wrong in ipairs {"node", "god", 5, {score = "node"}, {absent = "read"}, {score = true}} do
      local ok, err = pcall(class, wrong)
      assert.is_false(ok)
      assert.equal("T0203", err.code)
    end
  end)
end)

describe("a quota", function()
  it("has a rate, or calls at one time", function()
    local script <const> = require "tide.script"
    script.in_main = false
    local function class(of)
      script.actors = {}
      return require("tide.run.actors").class {name = "p", quota = of}
    end
    assert.same({rate = 2}, class({rate = 2}).quota)
    for _, wrong in ipairs {5, {}, {rate = 0}, {outstanding = 1.5}, {rate = 1, burst = 2}} do
      local ok, err = pcall(class, wrong)
      assert.is_false(ok)
      assert.equal("T0203", err.code)
    end
  end)
end)

describe("a quota", function()
  local quota, now
  before_each(function()
    now = 100
    fake.core.now = function() return now end
    quota = require "tide.run.quota"
  end)

  it("bounds what each client has pending", function()
    local q <const> = quota.new {outstanding = 2}
    local first <const> = q:take "32768:1"
    assert.truthy(first)
    assert.truthy((q:take "32768:9")) -- another actor of the same process
    local bucket <const>, err = q:take "32768:1"
    assert.is_nil(bucket)
    assert.equal("T0601", err.code)
    assert.truthy((q:take "32769:1"))
    quota.done(first)
    assert.truthy((q:take "32768:1"))
  end)

  it("lets a second's calls through at once, and then its rate", function()
    local q <const> = quota.new {rate = 4}
    for _ = 1, 4 do assert.truthy((q:take "32768:1")) end
    local _, err = q:take "32768:1"
    assert.equal(0.25, err.retry_after_s)
    now = now + 0.25
    assert.truthy((q:take "32768:1"))
    assert.is_nil((q:take "32768:1"))
    now = now + 3600
    for _ = 1, 4 do assert.truthy((q:take "32768:1")) end
    assert.is_nil((q:take "32768:1"))
  end)

  it("forgets clients that ask for nothing", function()
    local q <const> = quota.new {rate = 1}
    for i = 1, 3000 do
      now = now + 2
      quota.done((q:take(i .. ":1")))
    end
    assert.is_true(q.count <= 1024)
  end)

  it("is of the keeper's clients, not of nodes", function()
    local function asks(number, right)
      return {kind = "call", right = right, from = "32768:1", call = number, value = {op = "ask", method = "m",
        arguments = {}}}
    end
    serve({{kind = "cast", right = "node", value = {op = "started", rank = 1, life = 1}}, asks(1, "read"),
      asks(2, "read"), asks(3, "node")}, {m = "read"}, {rate = 1})
    assert.equal(7, answer_to(1).value)
    assert.is_nil(answer_to(2))
    assert.equal(7, answer_to(3).value)
  end)
end)
