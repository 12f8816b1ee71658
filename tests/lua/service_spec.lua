-- Actors that serve requests: what is found, checked, called and answered, and what is refused.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local fake, service

local function message(value, o)
  local m <const> = {kind = "call", right = "node", from = "d:1", call = 1, value = value}
  for k, v in pairs(o or {}) do m[k] = v end
  return m
end

-- What a request is answered with: a value, or nil and the error.
local function outcome(s, value, o)
  fake.answers, fake.errors = {}, {}
  s:handle(message(value, o))
  assert.is_true(#fake.answers + #fake.errors <= 1)
  return fake.answers[1] and fake.answers[1].value, fake.errors[1] and fake.errors[1].err
end

local function made(answers, o)
  local s <const> = {name = "a shop", answers = answers, rows = service.rows {
    sell = {"operate", what = "string", count = "count?"}, look = {"read"}, slow = {"waits"}, inner = {},
  }}
  for k, v in pairs(o or {}) do s[k] = v end
  return service.new(s)
end

before_each(function()
  fake = require "tests.lua.fresh"()
  fake.logged = {}
  fake.core.log = function(_, text) fake.logged[#fake.logged + 1] = text end
  service = require "tide.service"
end)

describe("a service", function()
  it("answers with what the function of the request returns", function()
    local s <const> = made {sell = function(r) return {sold = r.what} end, look = function() end,
                            inner = function() return nil, {code = "T0401", message = "none left"} end}
    assert.same({sold = "tea"}, outcome(s, {op = "sell", what = "tea"}))
    assert.same({}, outcome(s, {op = "look"}))
    local answer, err = outcome(s, {op = "inner"})
    assert.same({nil, "none left"}, {answer, err.message})
    assert.is_nil(fake.refused)
  end)

  it("refuses and counts what it does not know, and names what is near", function()
    local s <const> = made {look = function() error "never" end, sell = function() error "never" end}
    local _, err = outcome(s, {op = "lok"})
    assert.equal("T0116", err.code)
    assert.matches("a shop does not know the request `lok`", err.message, 1, true)
    assert.equal("did you mean `look`?", err.help)
    for i, wrong in ipairs {{}, {op = {}}, {op = 0 / 0}, "sell", 7} do
      _, err = outcome(s, wrong)
      assert.matches("does not know the request", err.message, 1, true)
      assert.equal(i + 1, fake.refused)
    end
    outcome(s, nil)
    outcome(s, {op = "slow"}) -- declared, and served by another actor
    assert.equal(8, fake.refused)
  end)

  it("refuses and counts a field that is unknown, missing or of another type", function()
    local s <const> = made {sell = function() error "never" end}
    local _, err = outcome(s, {op = "sell", waht = "tea"})
    assert.matches("`sell` is malformed: it has no field `waht`", err.message, 1, true)
    assert.equal("did you mean `what`?", err.help)
    _, err = outcome(s, {op = "sell"})
    assert.matches("`what` is missing", err.message, 1, true)
    _, err = outcome(s, {op = "sell", what = "tea", count = -1})
    assert.matches("`count` is -1, not a whole number from 0 on", err.message, 1, true)
    _, err = outcome(s, {op = "sell", what = "tea", "more"})
    assert.matches("it has no field `1`", err.message, 1, true)
    assert.equal(4, fake.refused)
  end)

  it("refuses and counts a right that does not suffice, before it looks at fields", function()
    local s <const> = made {sell = function() return {} end, look = function() return {} end, inner = function() end}
    assert.same({}, outcome(s, {op = "look"}, {right = "read"}))
    assert.same({}, outcome(s, {op = "sell", what = "tea"}, {right = "admin"}))
    for _, op in ipairs {"sell", "inner"} do
      local _, err = outcome(s, {op = op, bad = 1}, {right = "read"})
      assert.equal("T0801", err.code)
    end
    local _, err = outcome(s, {op = "inner"}, {right = "admin"})
    assert.equal("T0801", err.code)
    assert.equal(3, fake.refused)
  end)

  it("names both rights and the next command where a right does not suffice", function()
    local allowed <const>, err = service.allows(service.rows {drop = {"admin"}}, "drop", "operate")
    assert.is_nil(allowed)
    assert.equal("drop requires the right `admin`, and the connection has `operate`", err.message)
    assert.equal("use keys of that role: tide keys issue --role admin --name NAME", err.help)
  end)

  it("turns what a function raises into an error with its place", function()
    local s <const> = made {look = function() error {code = "T0401", message = "none"} end,
                            inner = function() return fake.none.field end}
    local _, err = outcome(s, {op = "look"})
    assert.same({"T0401", "none"}, {err.code, err.message})
    _, err = outcome(s, {op = "inner"})
    assert.equal("T0202", err.code)
    assert.matches("service_spec.lua", err.trace, 1, true)
  end)

  it("notes what was asked before it is done, and does not do what cannot be noted", function()
    local noted, full = {}, false
    local s <const> = made({look = function() return {} end, sell = function() return {} end}, {
      audit = function(name, _, _, row, refusal)
        noted[#noted + 1] = {name, row.right, refusal and refusal.code}
        if full then return nil, {code = "T0803", message = "full"} end
        return true
      end})
    outcome(s, {op = "sell", what = "tea"}, {right = "operate"})
    outcome(s, {op = "sell"}, {right = "read"})
    full = true
    local answer, err = outcome(s, {op = "look"})
    assert.same({nil, "full"}, {answer, err.message})
    assert.same({{"sell", "operate"}, {"sell", "operate", "T0801"}, {"look", "read"}}, noted)
  end)

  it("gives the function the sender that is known of, and drops what is nobody's", function()
    local heard = {}
    local s <const> = made({sell = function(r, who) heard[#heard + 1] = who .. r.what end}, {
      envelope = {rank = true}, from = function(r)
        if r.rank == 3 then return nil, {code = "T0801", message = "not yours"} end
        return ({"one ", "two "})[r.rank]
      end})
    outcome(s, {op = "sell", what = "tea", rank = 2})
    local answer, err = outcome(s, {op = "sell", what = "tea", rank = 7})
    assert.same({}, {answer, err})
    local refused = select(2, outcome(s, {op = "sell", what = "tea", rank = 3}))
    assert.equal("not yours", refused.message)
    assert.same({"two tea"}, heard)
  end)

  it("runs what may wait in a fiber, and answers when that is over", function()
    local held
    fake.core.fiber = function(f, ...) held = {f, ...} end
    local s <const> = made {slow = function() return {late = true} end, look = function(_, m)
      held = {service.answer, m, true, {by = "hand"}}
      return service.LATER
    end}
    assert.is_nil((outcome(s, {op = "slow"})))
    held[1](table.unpack(held, 2))
    assert.same({late = true}, fake.answers[1].value)
    assert.is_nil((outcome(s, {op = "look"})))
    held[1](table.unpack(held, 2))
    assert.same({by = "hand"}, fake.answers[1].value)
  end)

  it("says aloud what is wrong with a cast of a node, and answers none", function()
    local s <const> = made {inner = function() error {code = "T0401", message = "broken"} end,
                            look = function() return {seen = 1} end}
    assert.is_nil((outcome(s, {op = "inner"}, {kind = "cast"})))
    outcome(s, {op = "no"}, {kind = "cast"})
    outcome(s, {op = "no"}, {kind = "cast", right = "read"})
    assert.same({"a shop refused a cast: broken",
                 "a shop refused a cast: a shop does not know the request `no`"}, fake.logged)
    assert.same({seen = 1}, s:serve(message({op = "look"}, {kind = "cast"})))
  end)

  it("does not begin to serve a request that has no row", function()
    assert.error_matches(function() made {stael = function() end} end, "serves the request `stael`")
    assert.error_matches(function() service.rows {look = {"raed"}} end, "no right `raed`")
    assert.error_matches(function() service.rows {look = {what = "strnig"}} end, "no type `strnig`")
  end)

  it("loops until it is stopped or a turn says so, and hears of ends", function()
    local gone, turns = {}, 0
    local s <const> = made({look = function() return {} end}, {exited = function(m) gone[#gone + 1] = m.from end})
    fake.inbox = {{kind = "exit", from = "w:1"}, message {op = "look"}, {kind = "stop"}, message {op = "look"}}
    assert.is_nil(s:run {turn = function() turns = turns + 1 end})
    assert.same({{"w:1"}, 2, 1, 1}, {gone, turns, #fake.answers, #fake.inbox})
    assert.equal("enough", s:run {turn = function() return "enough" end})
    s.stopped = function() return true end
    fake.inbox = {{kind = "stop"}}
    assert.equal("later", s:run {wait_s = function() return 1 end, turn = function() return "later" end})
  end)
end)
