package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local show = require "tide.show"
local view = require "tide.show.table_view"

local ROWS <const> = {
  {name = "n1", bytes = 3 * 1024, state = "up", note = "a long note that will have to be cut"},
  {name = "node-with-long-name", bytes = 12, state = "down"},
  {name = "n3", state = "up", note = "ünï"},
}
local COLUMNS <const> = {
  {key = "name"}, {key = "bytes", title = "memory", format = "size"}, {key = "state"}, {key = "note"},
}

describe("table_view", function()
  it("aligns text to the left and figures to the right", function()
    assert.same({
      "name                 memory  state  note",
      "n1                    3 KiB  up     a long note that will have to be cut",
      "node-with-long-name    12 B  down   -",
      "n3                        -  up     ünï",
    }, view.lines(ROWS, COLUMNS, {width = 100, unicode = true}))
  end)

  it("cuts the widest cells to the width, never the key", function()
    local lines = view.lines(ROWS, COLUMNS, {width = 50, unicode = true})
    assert.equal("n1                    3 KiB  up     a long note t…", lines[2])
    for _, line in ipairs(lines) do assert.is_true(utf8.len(line) <= 50) end
    lines = view.lines(ROWS, COLUMNS, {width = 10, unicode = false})
    assert.truthy(lines[3]:find("^node%-with%-long%-name "))
    assert.truthy(lines[2]:find("~", 1, true))
  end)

  it("cuts text and titles before numbers", function()
    local rows <const> = {{run = "r-1", state = "stopped", reports = 227, loss = 0.0110527, options = "--steps 300"}}
    local lines <const> = view.lines(rows, {{key = "run"}, {key = "state"}, {key = "reports"}, {key = "loss"},
      {key = "options"}}, {width = 39, unicode = true})
    assert.same({"run  state   repor…       loss  options", "r-1  stopp…     227  0.0110527  --step…"}, lines)
  end)

  it("prints plain records with exact values", function()
    local rows = {{name = "a\tb\nc", bytes = 0.1, state = true}, {name = "x", bytes = 3072}}
    assert.same({"a\\x09b\\x0ac\t0.1\ttrue\t", "x\t3072\t\t"}, view.plain_lines(rows, COLUMNS))
    assert.equal(1 / 3, tonumber(view.plain_lines({{v = 1 / 3}}, {{key = "v"}})[1]))
  end)

  it("prints JSON lines with schema and all fields", function()
    local line = view.json_lines({{name = "n", extra = 1}}, "tide.node/1", support.core.json_encode)[1]
    assert.equal('{"extra":1,"name":"n","schema":"tide.node/1"}', line)
  end)

  it("prints a header alone for no rows", function()
    assert.same({"name  memory  state  note"}, view.lines({}, COLUMNS))
    assert.same({}, view.plain_lines({}, COLUMNS))
  end)

  it("selects by an expression that can do nothing else", function()
    local function names(expression)
      local kept, err = view.where(ROWS, COLUMNS, expression)
      if not kept then return err.message end
      local list = {}
      for i, row in ipairs(kept) do list[i] = row.name end
      return table.concat(list, " ")
    end
    assert.equal("n1 n3", names "state == 'up'")
    assert.equal("n1", names "bytes and bytes > 1e3")
    assert.equal("n3", names "not bytes")
    assert.equal("n1 n3", names "find(name, '^n%d')")
    assert.truthy(names("os.exit()"):find("no field `os`", 1, true))
    assert.equal("n1 node-with-long-name", names "bytes > 3") -- what lacks the field is none of those
    assert.truthy(names("name > 3"):find("attempt to compare", 1, true))
    assert.truthy(names("1)"):find("--where `1)`", 1, true))
    assert.truthy(names("(function() while true do end end)()"):find("takes too long", 1, true))
    assert.truthy(names("(function() x = 1 end)()"):find("cannot assign", 1, true))
  end)

  it("sorts numbers from the largest and text from A, stably, missing ones last", function()
    local function names(key, reversed)
      local list = {}
      for i, row in ipairs(assert(view.sort(ROWS, COLUMNS, key, reversed))) do list[i] = row.name end
      return table.concat(list, " ")
    end
    assert.equal("n1 node-with-long-name n3", names "bytes")
    assert.equal("n3 node-with-long-name n1", names("bytes", true))
    assert.equal("node-with-long-name n1 n3", names "state")
    assert.equal("n1 n3 node-with-long-name", names "name")
    local _, err = view.sort(ROWS, COLUMNS, "byts")
    assert.equal("did you mean `bytes`?", err.help)
  end)
end)

describe("show", function()
  it("prints scalars", function()
    assert.equal("3", show(3))
    assert.equal("0.333333", show(1 / 3))
    assert.equal('"a\\n\\"b\\x1b"', show 'a\n"b\27')
    assert.equal("nil", show(nil))
    assert.equal("<function>", show(print))
  end)

  it("prints maps in order, arrays, cycles and depth", function()
    local t = {b = 2, a = 1, [1] = "x", ["odd key"] = true}
    assert.equal('{[1] = "x", a = 1, b = 2, ["odd key"] = true}', show(t))
    assert.equal("{1, 2, 3}", show {1, 2, 3})
    local cycle = {}
    cycle.me = cycle
    assert.equal("{me = <1>}", show(cycle))
    assert.equal("{{{{{...}}}}}", (show {{{{{{}, 1}}}}}))
  end)

  it("prints arrays of equal records as a table", function()
    assert.equal("n   v\n1  10\n2  20", show {{n = 1, v = 10}, {n = 2, v = 20}})
  end)

  it("is bounded", function()
    local long = {}
    for i = 1, 1000 do long[i] = ("x"):rep(300) end
    local printed <const> = show(long)
    assert.truthy(printed:find("... 950 more", 1, true))
    assert.truthy(printed:find('"... 100 more', 1, true))
    assert.is_true(#printed < 66000)
    local function nest(depth)
      local t = {}
      for i = 1, 50 do t[i] = depth > 0 and nest(depth - 1) or i end
      return t
    end
    assert.is_true(#show(nest(2)) < 66000)
  end)

  it("runs no metamethod of a table", function()
    local trap = setmetatable({1}, {
      __index = function() error "index" end, __len = function() error "len" end, __pairs = function() error "p" end,
      __tostring = function() error "tostring" end,
    })
    assert.equal("{1}", show(trap))
  end)

  it("prints userdata by its summary", function()
    assert.truthy(show(io.stdout):find("^file %("))
  end)
end)
