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
local function serve(list)
  fake.core.receive = function()
    while type(list[1]) == "function" do table.remove(list, 1)() end
    return table.remove(list, 1) or {kind = "stop"}
  end
  require("tide.run.actors").keeper {class = "c", script = {}, members = {{node = "n1", agent = "a:1"}}}
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
      ask("w:9", 104, {op = "next", stream = 1}),
      {kind = "exit", from = "w:9", call = 2, code = 1},
      ask("w:8", 105, {op = "next", stream = 2}), ask("w:8", 106, {op = "next", stream = 3})}
    assert.equal(2, fake.monitored["w:9"])
    assert.equal(7, answer_to(104).value)
    assert.same({over = true}, answer_to(105))
    assert.equal(7, answer_to(106).value)
  end)

  it("does not answer a watcher that is dead", function()
    serve {ask("w:9", 101, {op = "changes"}), ask("w:8", 102, {op = "changes"}),
      {kind = "exit", from = "w:9", call = 2, code = 1},
      {kind = "cast", right = "node", from = "m:1", value = {op = "started", rank = 1, life = 1}}}
    assert.is_nil(answer_to(101))
    assert.equal("up", answer_to(102).change.state)
  end)
end)
