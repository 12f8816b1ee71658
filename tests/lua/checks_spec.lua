package.path = "tests/lua/?.lua;" .. package.path
require "support"
local checks = require "tide.checks"
local declared = require "tide.declared"
local manual = require "tide.manual"
local names = require "tide.console.names"
local roles = require "tide.console.roles"
local rows = require "tide.console.rows"

---@type tide.declared[]
local ROWS <const> = {
  {name = "count", type = "integer", min = 1, max = 8, default = 2, doc = "how many"},
  {name = "share", type = "number", min = 0, max = 1, doc = "of all"},
  {name = "every", type = "duration", above = 0, doc = "time between two"},
  {name = "memory", type = "size", min = 1 << 20, doc = "bytes"},
  {name = "how", type = "string", choices = {"read", "write"}, doc = "which way"},
  {name = "what", type = "string|function", doc = "an expression or a function"},
  {name = "only", type = "boolean", doc = "nothing else"},
}

describe("records from files", function()
  local TYPES <const> = {at = "time", n = "number", words = "strings", error = {code = "string"}}

  it("may lack fields, and have others", function()
    assert.is_nil(checks.odd_field({}, TYPES))
    assert.is_nil(checks.odd_field({at = 1.5, n = 1, words = {"a"}, error = {code = "T0101", n = 1}, more = {}}, TYPES))
  end)

  it("are refused by a field of another type, or a time that no date has", function()
    for _, case in ipairs {{"at", "noon"}, {"at", 1e300}, {"at", -1}, {"at", 0 / 0}, {"n", "1"}, {"words", "a"},
                           {"words", {"a", 1}}, {"error", "T0101"}, {"error", {code = 101}}} do
      assert.equal(case[1], checks.odd_field({[case[1]] = case[2]}, TYPES))
    end
  end)
end)

describe("options from one declaration", function()
  it("are read in their units, with defaults", function()
    assert.same({count = 2}, checks.read("f", ROWS))
    assert.same({count = 3, every = 0.25, memory = 2 << 20, how = "read", only = false},
      checks.read("f", ROWS, {count = 3.0, every = "250ms", memory = "2MiB", how = "read", only = false}))
    assert.equal("integer", math.type(checks.read("f", ROWS, {count = 3.0}).count))
  end)

  it("refuse what does not fit: what, where, and what would", function()
    for _, case in ipairs {
      {{count = 0}, "T0113", "f: `count` is 0, not a whole number from 1 to 8"},
      {{share = 0 / 0}, "T0113", "f: `share` is " .. tostring(0 / 0) .. ", not a number from 0 to 1"},
      {{count = "3"}, "T0113", "f: `count` is the string \"3\", not a whole number from 1 to 8"},
      {{every = 0}, "T0113", "f: `every` is 0, not a time such as \"30s\" above 0 s"},
      {{every = "soon"}, "T0113",
       "f: `every` is the string \"soon\", not a duration: write 250us, 20ms, 30s, 5m or 2h"},
      {{memory = 5}, "T0113", "f: `memory` is 5, not a size such as \"64MiB\" from 1 MiB on"},
      {{how = "wirte"}, "T0105", "f: `how` is the string \"wirte\", not read or write", "did you mean `write`?"},
      {{what = 1}, "T0113", "f: `what` is 1, not a string or a function"},
      {{only = 1}, "T0113", "f: `only` is 1, not true or false"},
      {{cuont = 1}, "T0115", "f has no field `cuont`", "did you mean `count`?"},
      {{zzzzzzz = 1}, "T0115", "f has no field `zzzzzzz`", "there are count every how memory only share what"},
      {"x", "T0113", "f requires a table of fields"},
    } do
      local values <const>, err = checks.read("f", ROWS, case[1])
      assert.is_nil(values)
      assert.same({case[2], case[3], case[4]}, {err.code, err.message, err.help})
    end
    local _, err = checks.read("f", {{name = "dir", type = "string", required = true, doc = "where"}}, {})
    assert.same({"T0103", "f requires `dir`: where"}, {err.code, err.message})
    _, err = checks.read("100%s", ROWS, {["%d"] = 1}, "T0203")
    assert.equal("T0203", err.code)
  end)

  it("are annotations, and words of a command line", function()
    assert.equal('---@class tide.x\n---@field count? integer how many\n'
      .. '---@field share? number of all\n---@field every? string|number time between two\n'
      .. '---@field memory? string|integer bytes\n'
      .. '---@field how? "read"|"write" which way\n'
      .. "---@field what? string|function an expression or a function\n---@field only? boolean nothing else\n",
      checks.annotation("tide.x", ROWS))
    assert.same({"--workers", "0", "--no-store", "--rate-bytes", "5"},
      declared.words(declared.node, {workers = 0, no_store = true, rate_bytes = 5, name = "n1"}))
    assert.same({"--slots", "2", "--sizes", "1,4"},
      declared.words(declared.submit, {slots = 2, sizes = {1, 4}, priority = 3}, {priority = true}))
  end)
end)

describe("calls at the console", function()
  local called
  local functions <const> = setmetatable({}, {__index = function(_, name)
    return function(...) called = {name, ...} end
  end})
  local bound <const> = rows.bound("", functions)

  it("get checked arguments, and options with their defaults", function()
    bound.top {node = "n1"}
    assert.same({"top", {node = "n1", sort = "handling_s", limit = 20}}, called)
    bound.watch("1 + 1", {every = "500ms", count = 3})
    assert.same({"watch", "1 + 1", {every = 0.5, count = 3}}, called)
    bound.why()
    assert.same({"why"}, called)
    for _, case in ipairs {
      {bound.on, {"@all"}, "on: `code` is nothing, not a string"},
      {bound.time, {3}, "`f` is 3, not a function"},
      {bound.log, {{level = "wran"}}, "not debug, info, warn or error"},
      {bound.hist, {{1}, {bins = 0}}, "`bins` is 0, not a whole number from 1 to 100"},
    } do
      local ok <const>, err = pcall(case[1], table.unpack(case[2]))
      assert.is_false(ok)
      assert.truthy(err.message:find(case[3], 1, true), err.message)
    end
  end)

  it("have each a function, a right, and a page of their own", function()
    local page <const> = {}
    for _, entry in ipairs(manual.console()) do page[entry.name] = entry end
    for _, row in ipairs(rows.list) do
      assert.is_true(roles.is(row.right), row.name)
      assert.equal(#row.arguments + (row.options and 1 or 0), #page[row.name].params, row.name)
      assert.truthy(page[row.name].doc:find(row.doc, 1, true), row.name)
    end
    assert.truthy(names.help("top"):find("top({sort=, node=, limit=})", 1, true), names.help "top")
    assert.same({"limit=", "node=", "sort="}, names.complete("top{", 4, {budget_s = 1}).candidates)
    assert.truthy(manual.help("json"):find("tide.json.encode(value)", 1, true)) -- the page, not the call of its name
    assert.truthy(names.help("policy.swap"):find("Role operate", 1, true))
  end)
end)
