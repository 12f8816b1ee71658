-- Streams: what is numbered and kept for readers, and what a reader that lags behind is told.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake, stream

before_each(function()
  fake = require "tests.lua.fresh"()
  stream = require "tide.stream"
end)

local asked = 0

-- Asks, and gives what that was answered with so far.
local function read(s, after, from)
  asked = asked + 1
  local number <const> = asked
  s:read({kind = "call", from = from or "r:1", call = number}, after)
  return function()
    for _, each in ipairs(fake.answers) do
      if each.message.call == number then return each.value end
    end
  end
end

local function filled(o, count)
  local s <const> = stream.new(o)
  for i = 1, count do s:put("item " .. i, 100) end
  return s
end

describe("a stream", function()
  it("answers at once what is there, else when it comes, to each reader from its own place", function()
    local s <const> = filled(nil, 2)
    assert.same({items = {"item 1", "item 2"}, last = 2}, read(s, 0)())
    assert.same({items = {"item 2"}, last = 2}, read(s, 1)())
    local later <const>, other <const> = read(s, 2), read(s)
    assert.is_nil(later())
    s:put "item 3"
    assert.same({items = {"item 3"}, last = 3}, later())
    assert.same({items = {"item 3"}, last = 3}, other())
  end)

  it("gives the same again to a reader that names the same number", function()
    local s <const> = filled({once = true}, 2)
    assert.same({"item 1", "item 2"}, read(s, 0)().items)
    assert.same({"item 1", "item 2"}, read(s, 0)().items) -- the answer was lost
    s:put "item 3"
    assert.same({"item 3"}, read(s, 2)().items)
    assert.equal(3, s.first) -- the first two were had
    assert.equal(0, s.bytes)
  end)

  it("keeps the newest, and says how many a slow reader has missed", function()
    local s <const> = filled({items_max = 3}, 10)
    assert.same({items = {"item 8", "item 9", "item 10"}, last = 10, lost = 6}, read(s, 1)())
    local big <const> = filled({bytes_max = 250}, 10)
    assert.same({items = {"item 9", "item 10"}, last = 10, lost = 8}, read(big, 0)())
    local one <const> = stream.new {bytes_max = 250}
    one:put("large", 1000) -- a single item stays
    assert.same({"large"}, read(one, 0)().items)
  end)

  it("sheds what its owner chooses", function()
    local s <const> = stream.new {shed = function(self)
      if self.last == 3 then self:drop(2) end
    end}
    for i = 1, 3 do s:put(i, 10) end
    assert.same({items = {1, 3}, last = 3, lost = 1}, read(s, 0)())
    assert.equal(20, s.bytes)
    s:drop(1)
    assert.same({3, 1}, {s.first, #read(s, 0)().items})
  end)

  it("answers with no more than fits one message", function()
    local s <const> = stream.new {items_max = 2000}
    for i = 1, 1000 do s:put(i, 1) end
    local answer <const> = read(s, 0)()
    assert.same({512, 512}, {#answer.items, answer.last})
    assert.same({488, 1000}, {#read(s, 512)().items, read(s, 512)().last})
    local big <const> = stream.new()
    for i = 1, 3 do big:put(i, 600 << 10) end
    assert.same({1}, read(big, 0)().items)
  end)

  it("ends when all was read, and its owner hears that its only reader has", function()
    local ended = 0
    local s <const> = filled({once = function() ended = ended + 1 end}, 1)
    local first <const> = read(s, 0)()
    assert.is_nil(first.over)
    local waits <const> = read(s, 1)
    s:close()
    assert.same({items = {}, last = 1, over = true}, waits())
    assert.equal(1, ended)
  end)

  it("does not answer a reader that is dead", function()
    local s <const> = stream.new()
    local dead <const>, living <const> = read(s, 0, "r:9"), read(s, 0, "r:8")
    s:forget "r:9"
    s:put "item"
    assert.is_nil(dead())
    assert.same({"item"}, living().items)
  end)

  it("answers readers that wait with nothing when it is told to, and adds to each answer", function()
    local s
    s = stream.new {once = true, with = function(answer) answer.sent = s.sent end}
    local waits <const> = read(s, 0)
    assert.is_true(s:is_awaited())
    s:flush()
    assert.same({items = {}, last = 0, sent = 0}, waits())
    assert.is_false(s:is_awaited())
    s:put("item", 4, "tag")
    assert.equal("tag", s.items[1].tag)
    assert.same({items = {"item"}, last = 1, sent = 1}, read(s, 0)())
  end)

  it("is read by one item after the other, until it ends or cannot be asked", function()
    local s <const>, names = filled({once = true}, 3), {}
    local problem
    local next_one <const> = stream.reader(function(after)
      names[#names + 1] = after
      if problem then return nil, problem end
      return read(s, after)()
    end, 0)
    assert.same({"item 1", "item 2"}, {next_one(), (next_one())})
    assert.equal("item 3", next_one())
    assert.same({0}, names)
    problem = {name = "EDIED"}
    local item, err = next_one()
    assert.same({nil, "EDIED"}, {item, err.name})
    problem = nil
    s:close()
    assert.is_nil((next_one()))
    assert.same({0, 3, 3}, names)
  end)
end)
