-- State machines, and the life of a run as one.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path
require "tests.lua.fresh"()
local machine = require "tide.machine"
local text = require "tide.text"

local function door()
  return {
    name = "a door", first = "closed", order = {"closed", "open", "gone"},
    groups = {there = {"closed", "open"}},
    rows = {
      closed = {push = {"open", "creak"}, burn = "gone"},
      open = {pull = "closed", push = "open", burn = "gone"},
      gone = {},
    },
  }
end

describe("a state machine", function()
  local function made()
    local owner <const> = {heard = {}}
    function owner:creak(how) table.insert(self.heard, ("%s, %s"):format(how, self.door.state)); return "creaked" end
    owner.door = machine.new(machine.define(door()), owner)
    return owner.door, owner
  end

  it("follows its table, and does what that says in the next state", function()
    local m, owner = made()
    assert.equal("closed", m.state)
    assert.equal("creaked", m:fire("push", "slowly"))
    assert.same({"slowly, open"}, owner.heard)
    m:fire "push"
    assert.equal("open", m.state)
    m:fire "pull"
    assert.equal("closed", m.state)
  end)

  it("refuses an event that the state does not list, with both names, and stays", function()
    local m <const> = made()
    assert.error_matches(function() m:fire "pull" end, "a door: state `closed` has no event `pull`", 1, true)
    assert.equal("closed", m.state)
    assert.same({true, false}, {m:may "push", m:may "pull"})
    m:fire "burn"
    for _, event in ipairs(machine.events(m.definition)) do assert.is_false(m:may(event)) end
  end)

  it("knows states by name and by group", function()
    local m <const> = made()
    assert.same({true, false, true}, {m:is "closed", m:is "open", m:is "there"})
    m:fire "burn"
    assert.same({true, false}, {m:is "gone", m:is "there"})
    assert.error_matches(function() m:is "ajar" end, "no state `ajar`")
  end)

  it("does not begin with a table that names what is not there", function()
    local function refused(pattern, change)
      local d <const> = door()
      change(d)
      assert.error_matches(function() machine.new(machine.define(d), {creak = print}) end, pattern)
    end
    refused("leads to `ajar`, which is no state", function(d) d.rows.open.pull = "ajar" end)
    refused("state `gone` has no row", function(d) d.rows.gone = nil end)
    refused("state `ajar` is not in the order", function(d) d.rows.ajar = {} end)
    refused("`ajar` of group `there` is no state", function(d) d.groups.there[1] = "ajar" end)
    refused("the action `squeak` of `pull` is no method", function(d) d.rows.open.pull = {"closed", "squeak"} end)
  end)

  it("is drawn as a table", function()
    assert.equal([[
| in state | on | it becomes |
|---|---|---|
| closed | `push` | open |
| closed | `burn` | gone |
| open | `pull` | closed |
| open | `push` | open |
| open | `burn` | gone |
| gone | | |
]], machine.drawn(machine.define(door())))
  end)
end)

describe("the life of a run", function()
  local states <const> = require "tide.run.states"

  local function read(path)
    local file <close> = assert(io.open(path))
    return file:read "a"
  end

  it("is drawn in its page as it is", function()
    local page <const> = read "docs/internals/run-life.md"
    assert.is_truthy(page:find(machine.drawn(states), 1, true), "docs/internals/run-life.md: the table of states is\n"
      .. machine.drawn(states))
    for _, state in ipairs(states.order) do assert.is_truthy(page:find("| `" .. state .. "` |", 1, true), state) end
    for _, event in ipairs(machine.events(states)) do
      assert.is_truthy(page:find("\n| `" .. event .. "` |", 1, true), "docs/internals/run-life.md: " .. event)
    end
  end)

  it("comes from every state that has not ended to an end, by what may happen at any time", function()
    for _, state in ipairs(states.order) do
      local row <const> = states.rows[state]
      local over <const> = states.sets.over[state]
      if not over or state == "finished" then assert.equal("failed", row.fail[1], state) end
      assert.is_table(row.stop, state) -- a run may be stopped at any time
    end
    local reached, open = {starting = true}, {"starting"}
    while open[1] do
      for _, to in pairs(states.rows[table.remove(open)]) do
        if not reached[to[1]] then reached[to[1]], open[#open + 1] = true, to[1] end
      end
    end
    assert.same(#states.order, #text.sorted_keys(reached))
  end)

  it("has no event in its table that nothing fires, and fires none that is not there", function()
    local fired, files = {}, io.popen "find lua/tide/run -name '*.lua'"
    for path in files:lines() do
      local source <const> = path:find "states%.lua$" and "" or read(path)
      for call in source:gmatch "life:fire%s*(%b())" do
        for event in call:gmatch '"([%l_]+)"' do fired[event] = true end
      end
      for event in source:gmatch 'life:fire "([%l_]+)"' do fired[event] = true end
    end
    files:close()
    local known <const> = {}
    for _, event in ipairs(machine.events(states)) do known[event] = true end
    assert.same(text.sorted_keys(known), text.sorted_keys(fired))
  end)
end)
