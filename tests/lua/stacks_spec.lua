-- Stacks as text: the line of the script that counts, and what is added to findings.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
require "tests.lua.fresh"()
local stacks = require "tide.cluster.stacks"

local function fiber(...) return {frames = {...}} end
local function lua(where, name) return {kind = "lua", where = where, name = name} end
local function native(name) return {kind = "native", name = name} end

describe("the line that an actor is at", function()
  it("is the innermost one of the script, with the operation that it is in", function()
    assert.equal("a.lua:3", stacks.line {fiber(lua("a.lua:3", "f"), lua("a.lua:9"), lua "tide/run/worker.lua:1")})
    assert.equal("a.lua:3 in matmul", stacks.line {fiber(native "matmul", lua("a.lua:3", "f"))})
    assert.equal("a.lua:3 in receive", stacks.line {fiber(native "receive", lua "tide/run/mail.lua:7", lua "a.lua:3")})
  end)

  it("is of a later fiber when the first has none, and nothing when there is none", function()
    assert.equal("b.lua:1", stacks.line {fiber(lua "tide/cluster/agent.lua:1"), fiber(lua "b.lua:1")})
    assert.is_nil(stacks.line {fiber(lua "tide/cluster/agent.lua:1")})
    assert.is_nil(stacks.line(nil))
  end)
end)

describe("findings", function()
  local list = {}
  for rank = 1, 5 do list[rank] = {run = "u", rank = rank, fibers = {fiber(lua("a.lua:" .. rank))}} end
  list[1].fibers[1].waits_for = "receive"

  it("get the line of the worker that is the cause", function()
    local finding = {uid = "u", rank = 4, evidence = {}}
    stacks.add_lines({finding}, list)
    assert.same({"worker 4 is at a.lua:4"}, finding.evidence)
  end)

  it("get those of a few workers that compute, of their own run", function()
    local finding, other = {uid = "u", evidence = {}}, {uid = "v", evidence = {}}
    stacks.add_lines({finding, other}, list)
    assert.same({"worker 2 is at a.lua:2", "worker 3 is at a.lua:3", "worker 4 is at a.lua:4"}, finding.evidence)
    assert.same({}, other.evidence)
  end)
end)
