package.path = "tests/lua/?.lua;" .. package.path
require "support"
local core = require "tide.core"
local history = require "tide.console.history"
local names = require "tide.console.names"
local prompt = require "tide.console.prompt"
local render = require "tide.console.render"
local targets = require "tide.console.targets"

local MEMBERS <const> = {
  {id = 1, name = "c0", state = "up", workers = 0, store = false},
  {id = 2, name = "n1", state = "up", workers = 1, store = true},
  {id = 3, name = "n2", state = "up", workers = 2, store = false},
  {id = 4, name = "n3", state = "dead", workers = 1, store = true},
  {id = 5, name = "n10", state = "up", workers = 1, store = true},
}

local function resolved(expression)
  local list, err = targets.resolve(expression, MEMBERS, 1)
  if not list then return nil, err end
  local found = {}
  for i, member in ipairs(list) do found[i] = member.name end
  return table.concat(found, " ")
end

describe("targets", function()
  it("choose nodes that are up by role, name and range, n2 before n10", function()
    assert.equal("c0 n1 n2 n10", resolved "@all")
    assert.equal("n1 n2 n10", resolved "@role:worker")
    assert.equal("n1 n10", resolved "@role:server")
    assert.equal("c0", resolved "@role:controller")
    assert.equal("n2", resolved "@n2")
    assert.equal("n1 n2", resolved "@n[1-5]")
    assert.equal("n1 n10", resolved "@n1,@n10")
  end)
  it("refuse what names nobody, and say what is near", function()
    local list, err = resolved "@n3"
    assert.is_nil(list)
    assert.equal("T0105", err.code)
    list, err = resolved "@role:wrker"
    assert.is_nil(list)
    assert.truthy(err.message:find("no role `wrker`", 1, true))
    assert.is_nil((resolved "@a b"))
  end)
  it("are taken off the front of a line", function()
    assert.same({"@all", "1+1"}, {targets.split "@all 1+1"})
    assert.same({"@n[2-5]", ""}, {targets.split "  @n[2-5]"})
    assert.is_nil((targets.split "x = 1"))
  end)
  it("merge equal answers, the largest group first, and name the others", function()
    assert.equal("n1 n3: 2\nn2: 3\nn4:\na\nb", targets.merge {
      {node = "n1", status = "ok", text = "2"}, {node = "n2", status = "ok", text = "3"},
      {node = "n3", status = "ok", text = "2"}, {node = "n4", status = "ok", text = "a\nb"}})
  end)
end)

describe("a block", function()
  it("is complete as an expression or a chunk, asks for more when it ends too soon, else is wrong", function()
    for _, block in ipairs {"1", "x = 1", "for i = 1, 2 do end", "return 1, 2", "f 'x'"} do
      assert.equal("complete", prompt.state(block), block)
    end
    for _, block in ipairs {"for i = 1, 2 do", "f(", "x =", "{1, 2", "if x then", "[[a"} do
      assert.equal("more", prompt.state(block), block)
    end
    for _, block in ipairs {"for for", "x = = 1", ")", "x y z"} do assert.equal("wrong", prompt.state(block), block) end
  end)
  it("is the prompt's own when it begins with a backslash or a question mark, or ends in one", function()
    assert.same({"command", "q"}, {prompt.classify "\\q"})
    assert.same({"help", "policy.swap"}, {prompt.classify "?policy.swap"})
    assert.same({"help", "policy.swap"}, {prompt.classify "policy.swap?"})
    assert.same({"source", "top"}, {prompt.classify "??top"})
    assert.same({"lua", "time(function() return 1+1 end)"}, {prompt.classify "%time 1+1"})
    assert.same({"lua", "x = 5 % 2"}, {prompt.classify "x = 5 % 2"})
  end)
end)

describe("tab", function()
  it("inserts what all candidates share, else shows them", function()
    assert.equal("de", (prompt.tab({start = 2, candidates = {"node", "nodes"}}, 80)))
    local insert, shown = prompt.tab({start = 4, candidates = {"node", "nodes"}}, 80)
    assert.is_nil(insert)
    assert.equal("node   nodes", shown)
    assert.same({n = 2, nil, "top(o?)"}, table.pack(prompt.tab({candidates = {}, hint = "top(o?)"}, 80)))
  end)
end)

describe("names", function()
  local source <const> = table.concat({
    "---Puts it there.", "---@param ref string a file", "---@param o? {guard?: table, scope?: string} what else",
    "---@return table answer", "function calls.swap(ref, o) return o end", "local function hidden() end",
    "function core.now() end --> seconds"}, "\n")

  it("reads signatures, texts and options from annotations", function()
    local entry = names.parse(source, "calls", "")[1]
    assert.equal("swap", entry.name)
    assert.equal("Puts it there.", entry.doc)
    assert.equal("ref", entry.params[1].name)
    assert.same({{name = "guard", type = "table"}, {name = "scope", type = "string"}}, entry.params[2].fields)
    assert.same({"table answer"}, entry.returns)
    assert.same({"seconds"}, names.parse(source, "core", "core.")[1].returns)
  end)

  it("completes by raw access alone: no metamethod of a value runs", function()
    core.embedded = core.embedded or function() return nil end
    local touched = false
    local function touch() touched = true end
    names.load {trap = setmetatable({alpha = 1, alpine = 2}, {__index = touch, __pairs = touch, __len = touch})}
    local found = names.complete("trap.al", 7, {budget_s = 1, members = {}})
    assert.same({"alpha", "alpine"}, found.candidates)
    assert.is_false(touched)
    assert.same({"trap"}, names.complete("x = tra", 7, {budget_s = 1}).candidates)
    assert.same({"n1", "n10", "n2"}, names.complete("@n", 2, {budget_s = 1, members = MEMBERS}).candidates)
  end)
end)

describe("history", function()
  it("keeps no line that begins with a blank or seems to hold a secret", function()
    assert.is_true(history.keeps "x = 1")
    for _, line in ipairs {"", " x", "Password = 1", "my_token", "the secret"} do
      assert.is_false(history.keeps(line))
    end
  end)
  it("lies in the user's state directory", function()
    local function only_home(name) return name == "HOME" and "/h" or nil end
    assert.equal("/h/.local/state/tide/history.jsonl", history.path(only_home))
    assert.equal("/s/tide/history.jsonl", history.path(function(n) return n == "XDG_STATE_HOME" and "/s" or "/h" end))
    assert.is_nil(history.path(function() return nil end))
  end)
end)

describe("results", function()
  it("become bars from their least to their greatest number", function()
    assert.equal("▁▅█", render.spark({0, 0.5, 1}, true))
    assert.equal("_=#", render.spark({0, 0.5, 1}, false))
    assert.equal("▁▁", render.spark({3, 3}, true))
  end)
  it("become JSON with cycles and functions named", function()
    local cycle = {name = "x"}
    cycle.me = cycle
    local json = render.data(table.pack(cycle))
    assert.same({value = {name = "x", me = "<...>"}}, core.json_decode(json))
    assert.same({value = {1, "<function>"}}, core.json_decode((render.data(table.pack(1, print)))))
    assert.is_nil((render.data(table.pack())))
  end)
end)
