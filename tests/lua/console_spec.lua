package.path = "tests/lua/?.lua;" .. package.path
require "support"
local client = require "tide.console.client"
local core = require "tide.core"
local curve = require "tide.console.curve"
local events = require "tide.cluster.events"
local histogram = require "tide.console.histogram"
local history = require "tide.console.history"
local annotations = require "tide.annotations"
local names = require "tide.console.names"
local prompt = require "tide.console.prompt"
local render = require "tide.console.render"
local roles = require "tide.console.roles"
local targets = require "tide.console.targets"

local MEMBERS <const> = {
  {id = 1, name = "c0", state = "up", workers = 0, store = false},
  {id = 2, name = "n1", state = "up", workers = 1, store = true},
  {id = 3, name = "n2", state = "up", workers = 2, store = false},
  {id = 4, name = "n3", state = "dead", workers = 1, store = true},
  {id = 5, name = "n10", state = "up", workers = 1, store = true},
}

local CLUSTER <const> = {
  controller = 1,
  jobs = function() return {mf = {n1 = true, n10 = true}, kge = {n2 = true}} end,
  has_actor = function(node, name) return name == "agent" or name == "mine" and node == "n2" end,
}

local function resolved(expression)
  local list, err = targets.resolve(expression, MEMBERS, CLUSTER)
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
  it("are the nodes of a job's workers, and those that have an actor", function()
    assert.equal("n1 n10", resolved "@job:mf")
    assert.equal("n1 n2 n10", resolved "@job:mf,@job:kge")
    assert.equal("n1 n2 n10", resolved "@actor:agent") -- not the controller: it runs no consoles
    assert.equal("n2", resolved "@actor:mine")
    assert.equal("n10", resolved "@actor:n10/agent")
    local list, err = resolved "@job:mff"
    assert.is_nil(list)
    assert.truthy(err.message:find("no job of this name", 1, true))
    assert.truthy(err.help:find("`mf`", 1, true))
    assert.is_nil((resolved "@actor:nobody"))
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

describe("curves", function()
  local function lines_of(value, o)
    local at = {}
    for i = 1, #value do at[i] = #value - i end
    local shown <const> = getmetatable(curve.of("m", at, value, 4)).__console(curve.of("m", at, value, 4), o)
    local lines = {}
    for line in (shown .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
    return lines
  end
  it("go from the oldest to the newest value, with the greatest above and the least below", function()
    local lines = lines_of({1, 2, 3, 4}, {width = 34, utf8 = false})
    assert.equal("m 4, from 3 s ago to 0 s ago", lines[1])
    assert.equal(5, #lines)
    assert.truthy(lines[2]:find "^ +4 +%*+$")
    assert.truthy(lines[5]:find "^ +1 %*+$")
    assert.equal(13 + 20, #lines[2])
  end)
  it("are braille where that can be shown, and leave out what is no number", function()
    local lines = lines_of({1, 0 / 0, 1, math.huge, 5, 1}, {width = 60, utf8 = true})
    assert.truthy(lines[1]:find "^m 1, ")
    assert.truthy(lines[2]:find("\u{2800}") == nil and lines[2]:find "[\u{2800}-\u{28ff}]")
    for _, line in ipairs(lines) do assert.is_true(utf8.len(line) <= 60) end
  end)
  it("of one value, or of the same again and again, are no division by nothing", function()
    assert.same({"m 7"}, lines_of({7}, {width = 80, utf8 = true}))
    assert.equal(5, #lines_of({7, 7, 7}, {width = 80, utf8 = true}))
    assert.is_nil(getmetatable(curve.of("m", {1}, {0 / 0})))
  end)
end)

describe("roles", function()
  local calls = 0
  local function call() calls = calls + 1 return "done" end
  local handle <const> = {name = "w", width = 4, spec = {}, push = call, pull = call}
  local all <const> = {policy = {list = call, swap = call, check = call}, node = {name = "n1"}, os = os,
    string = string, math = math, table = table, utf8 = utf8, coroutine = coroutine, core = {}, require = call,
    load = call, pcall = pcall, error = error, nodes = call,
    tables = setmetatable({}, {__index = function() return handle end})}
  local function describe_handle() return "described" end
  local function evaluate(role, code)
    return pcall(assert(load("return " .. code, "=line", "t", roles.globals(all, role, describe_handle))))
  end
  local function refused(role, code, needed)
    local ok, err = evaluate(role, code)
    assert.is_false(ok, code)
    assert.equal("T0801", err.code)
    assert.truthy(err.message:find("needs role " .. needed, 1, true), err.message)
  end

  it("let lesser sessions look, and refuse by name what needs more", function()
    assert.same({true, "done"}, {evaluate("read", "nodes()")})
    assert.same({true, "done"}, {evaluate("read", "policy.list()")})
    refused("read", "policy.swap 'batching/boa'", "operate")
    assert.same({true, "done"}, {evaluate("operate", "policy.swap 'batching/boa'")})
    for _, role in ipairs {"read", "operate"} do
      for _, name in ipairs {"core", "require 'tide.core'", "load 'return 1'"} do refused(role, name, "admin") end
    end
    assert.equal(all, roles.globals(all, "admin", describe_handle))
  end)
  it("steer runs from operate on, and let everybody look at them", function()
    local steered <const> = setmetatable({state = "running"}, {__index = {stop = call, log = call, table = call}})
    all.run = function() return steered end
    assert.same({true, "running"}, {evaluate("read", "run(1).state")})
    assert.same({true, "done"}, {evaluate("read", "run(1):log()")})
    refused("read", "run(1):stop()", "operate")
    assert.same({true, "done"}, {evaluate("operate", "run(1):stop()")})
    refused("operate", "run(1):table 'x'", "admin")
  end)
  it("show tables without what changes them", function()
    assert.same({true, "done"}, {evaluate("read", "tables.w:pull{1}")})
    assert.same({true, 4}, {evaluate("read", "tables.w.width")})
    refused("operate", "tables.w:push({1}, {{1}})", "admin")
    assert.same({true, nil}, {evaluate("read", "tables.w.nosuch")})
  end)
  it("leave nothing of the whole libraries within reach", function()
    assert.same({true, nil}, {evaluate("read", "os.execute or os.remove or os.exit")})
    assert.same({true, nil}, {evaluate("read", "string.dump")})
    assert.is_true((evaluate("read", "pcall(function() string.rep = 1 end)")))
    assert.equal("function", type(string.rep))
    assert.same({true, "read"}, {evaluate("read", "(function() x = 'read' return x end)()")})
    assert.is_nil(rawget(all, "x"))
  end)
end)

describe("events", function()
  it("of several nodes are one list, in which the same thing stands once", function()
    local rows <const> = events.merge {
      {node = "n2", events = {{number = 1, time = 10.2, kind = "node", text = "node n3 died"},
                              {number = 2, time = 40, kind = "node", text = "node n3 died"}}},
      {node = "n1", events = {{number = 7, time = 10, kind = "node", text = "node n3 died"},
                              {number = 8, time = 10, kind = "run", text = "job mf started"},
                              {number = 9, time = 12, kind = "run", text = "job mf started"}}},
    }
    local found = {}
    for i, row in ipairs(rows) do found[i] = ("%g %s %s"):format(row.time, row.node, row.text) end
    assert.same({"10 n1 node n3 died", "10 n1 job mf started", "12 n1 job mf started", "40 n2 node n3 died"}, found)
  end)
end)

describe("histograms", function()
  local function drawn(h) return getmetatable(h).__console(h, {utf8 = false}) end

  it("of numbers leave out what is none and draw the rest in bins of equal width", function()
    local h <const> = histogram.of_numbers({1, 2, 2, 5, 0 / 0, 1 / 0, "x"}, 2)
    assert.same({{label = "<= 3", count = 3}, {label = "<= 5", count = 1}}, h.buckets)
    assert.equal(4, h.count)
    assert.truthy(drawn(h):find("half <= 3, 99 %% <= 5"))
    assert.same({{label = "<= 7", count = 3}}, histogram.of_numbers({7, 7, 7}, 12).buckets)
    assert.equal("numbers: 0 numbers", drawn(histogram.of_numbers({}, 12)))
  end)
  it("of tables are sums over nodes, from the first to the last bucket that is not empty", function()
    local ask <const> = targets.ask_all
    local counts = {}
    for i = 1, 28 do counts[i] = 0 end
    counts[2], counts[12] = 3, 1
    finally(function() targets.ask_all = ask end)
    targets.ask_all = function() return {n1 = {pull = counts}, n2 = {pull = counts}, n3 = {}} end
    local h <const> = histogram.of_table("w", "pull")
    assert.equal(8, h.count)
    assert.equal(11, #h.buckets)
    assert.same({label = "< 2 us", count = 6}, h.buckets[1])
    assert.same({label = "< 2.05 ms", count = 2}, h.buckets[11])
    assert.equal(0, histogram.of_table("w", "staleness").count)
    assert.is_false((pcall(histogram.of_table, "w", "pul")))
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
  it("gives the value of its last line, where Lua reads that as a statement of its own", function()
    local blocks = require "tide.console.block"
    local function value(source) return assert(blocks.compile(source, {f = function(x) return x end, g = 3}))() end
    assert.equal(3, value "x = 1\ny = 2\nx + y")
    assert.equal(7, value "x = 7\nf(x)")
    assert.equal(5, value "x = 2\nf(\n5)")
    assert.is_nil((value "x = f\n(g)")) -- a call, as in a file
    assert.equal(4, value "x = 4 return x")
    assert.equal(nil, (blocks.compile "x = 1\ny z"))
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
    local entry = annotations.parse(source, "calls", "")[1]
    assert.equal("swap", entry.name)
    assert.equal("Puts it there.", entry.doc)
    assert.equal("ref", entry.params[1].name)
    assert.same({{name = "guard", type = "table"}, {name = "scope", type = "string"}}, entry.params[2].fields)
    assert.same({"table answer"}, entry.returns)
    assert.same({"seconds"}, annotations.parse(source, "core", "core.")[1].returns)
  end)

  it("completes by raw access alone: no metamethod of a value runs", function()
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

describe("output", function()
  local function messages_of(pieces)
    local said, printed = {}, {}
    core.sha256, core.interrupted = function() return ("0"):rep(64) end, function() return 0 end
    local c <const> = client.new {role = "read", live = function() end, say = function(line) said[#said + 1] = line end,
      print = function(piece) printed[#printed + 1] = piece return true end}
    c.pieces = 0
    for _, n in ipairs(pieces) do
      c:take({kind = "cast", right = "node", value = {op = "console.output", id = 1, sequence = n, text = "x"}}, 1)
    end
    local result <const> = c:take({kind = "cast", right = "node", value = {op = "console.result", id = 1, status = "ok",
      pieces = 4}}, 1)
    assert.equal("ok", result.status)
    assert.equal(#pieces, #printed)
    return said
  end

  it("that was lost with a connection is missed", function()
    assert.same({}, messages_of {1, 2, 3, 4})
    assert.equal(1, #messages_of {1, 2, 4})
    assert.equal(1, #messages_of {1, 2, 3})
    assert.equal(1, #messages_of {})
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
