-- Groups of cells of a matrix: what is asked for ahead of them, and in which clock they come.
package.path = "lua/?.lua;lua/?/init.lua;./?.lua;" .. package.path

local groups

---Stands for a tensor: `n` consecutive numbers from `first`.
local function tensor(first, n)
  local t = {first = first}
  for i = 1, n do t[i] = first + i - 1 end
  function t.slice(_, from, count) return tensor(t[from] or first + from - 1, count) end
  return t
end

setup(function()
  local fake <const> = require "tests.lua.fresh"()
  groups = require "tide.data.groups"
  -- 25 cells in groups of `size`, whose g-th uses the columns 2 g and 2 g + 1
  function fake.core.matrix_groups(_, o)
    local count <const> = (25 + o.size - 1) // o.size
    local offsets = {}
    for i = 1, count + 1 do offsets[i] = 2 * (i - 1) end
    return {cells = tensor(0, 25), values = tensor(0, 25)}, tensor(0, 2 * count), offsets
  end
end)

---Goes through an epoch; what happened, in order.
local function run(o)
  local log, w = {}, {rank = 1, seed = 3, clocks = o.clocks or 0}
  function w.clock()
    w.clocks = w.clocks + 1
    return w.clocks
  end
  function w.intent(_, _, keys, clock) log[#log + 1] = ("intent %d for %d"):format(keys[1], clock) end
  o.columns = {localize = function(_, keys)
    log[#log + 1] = "localize " .. keys[1]
    return {wait = function()
      if o.fails then return nil, "the owner died" end
      log[#log + 1] = "wait " .. keys[1]
      return true
    end}
  end}
  o.part, o.rows, o.cols, o.order = {}, 5, 20, o.order or "columnwise"
  for group in groups.new(w, o):epoch(1) do
    log[#log + 1] = ("group %d, %d cells"):format(group.col_keys[1], #group.values)
  end
  return table.concat(log, "; "), w.clocks
end

describe("groups of cells", function()
  it("localizes the columns of so many groups ahead, and waits for those of the next", function()
    assert.equal("localize 0; localize 2; wait 0; group 0, 10 cells; localize 4; wait 2; group 2, 10 cells; wait 4; "
      .. "group 4, 5 cells", (run {size = 10, ahead = 1, fetch = "localize"}))
  end)

  it("intends them for the clock of their group, and ends a clock after each", function()
    local log <const>, clocks <const> = run {size = 10, ahead = 2, fetch = "intent", clocks = 7}
    assert.equal("intent 0 for 7; intent 2 for 8; intent 4 for 9; group 0, 10 cells; group 2, 10 cells; "
      .. "group 4, 5 cells", log)
    assert.equal(10, clocks)
  end)

  it("asks for nothing where rows stay", function()
    local log <const>, clocks <const> = run {size = 20, order = "plain"}
    assert.equal("group 0, 20 cells; group 2, 5 cells", log)
    assert.equal(0, clocks)
  end)

  it("says that columns did not come", function()
    assert.has_error(function() run {size = 10, fetch = "localize", fails = true} end, "the owner died")
  end)

  it("refuses orders, ways and sizes that are none", function()
    for _, o in ipairs {{order = "rowwise"}, {fetch = "ask"}, {size = 0}, {size = 1.5}, {ahead = -1}} do
      assert.is_false((pcall(run, o)))
    end
  end)
end)
