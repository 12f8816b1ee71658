-- The sandbox: every attack that is known ends cleanly and soon, and nothing in it depends on the machine.
local core = require "tide.core"

local cases = {}
local function case(name, f) cases[#cases + 1] = {name, f} end

local BUDGET <const> = {instructions = 10000000, seconds = 0.1}
local MEMORY <const> = 16 << 20
local SLOW <const> = os.getenv "TIDE_SLOW_MACHINE" and 40 or 20 -- a deadline of 0.1 s is met within this many of it

local function load(source, memory, budget)
  local s = assert(core.sandbox(memory or MEMORY))
  local began = os.clock()
  local bytes, fault = s:load(source, "=policy", budget or BUDGET)
  local took = os.clock() - began
  return bytes and core.plain_decode(bytes), fault, took, s
end

-- The source may not end by itself: it is over its budget, and the state serves no more.
local function attack(name, source, kinds)
  case("stopped: " .. name, function()
    local _, fault, took, s = load(source)
    assert(fault, "it ended by itself")
    assert((kinds or {budget = true, memory = true})[fault.kind], fault.kind .. ": " .. fault.message)
    assert(took < 0.1 * SLOW, ("it took %.2f s"):format(took))
    local usage = s:usage()
    assert(usage.memory_peak_bytes <= 2 * MEMORY, "memory " .. usage.memory_peak_bytes)
    if fault.kind ~= "error" then
      local again, why = s:load("return {}", "=policy", BUDGET)
      assert(not again and why.message:find "earlier step")
    end
  end)
end

-- It must end with an error a script can see, without harm.
local function refused(name, source, pattern)
  case("refused: " .. name, function()
    local _, fault, took = load(source)
    assert(fault and (fault.kind == "error" or fault.kind == "shape"), fault and fault.kind .. " " .. fault.message or "it passed")
    assert(fault.message:find(pattern, 1, true), fault.message)
    assert(took < 0.1 * SLOW)
  end)
end

local function gives(name, source, want)
  case(name, function()
    local got, fault = load(source)
    assert(got, fault and fault.kind .. ": " .. fault.message)
    assert(core.plain_encode(got) == core.plain_encode(want),
      "got " .. tostring(core.json_encode {tostring(got.x or got[1])}))
  end)
end

attack("infinite loop", "while true do end")
attack("pcall in a loop", "while true do pcall(function() while true do end end) end")
attack("pcall of pcall", "local function f() while true do pcall(f) end end f()")
attack("loop in a coroutine, resumed in a loop", [[
  while true do coroutine.resume(coroutine.create(function() while true do end end)) end]])
attack("short coroutines for ever", [[
  while true do coroutine.resume(coroutine.create(function() end)) end]])
attack("xpcall whose handler loops", "while true do xpcall(error, function() while true do end end) end")
attack("xpcall over budget whose handler loops",
  "xpcall(function() while true do end end, function() while true do end end)")
attack("wrap with a looping __close", [[
  local f = coroutine.wrap(function()
    local x <close> = setmetatable({}, {__close = function() while true do end end})
    while true do end
  end)
  while true do pcall(f) end]])
attack("__close that loops", [[
  while true do pcall(function()
    local x <close> = setmetatable({}, {__close = function() while true do end end})
    error "x"
  end) end]])
attack("__index that loops", [[
  local t = setmetatable({}, {__index = function() while true do end end}) local x = t.y]])
attack("sort comparator that loops", [[table.sort({3, 2, 1}, function() while true do end end)]])
attack("gsub callback that loops in pcall", [[
  while true do pcall(string.gsub, "aaaa", "a", function() while true do end end) end]])
attack("sort in pcall in a coroutine", [[
  while true do
    local co = coroutine.wrap(function() pcall(table.sort, {2, 1, 3}, function() while true do end end) end)
    pcall(co)
  end]])
attack("catastrophic pattern", [[return {(("a"):rep(30000)):find("a-a-a-a-b")}]])
attack("catastrophic pattern over long text", [[return {(("x"):rep(200000)):find(".-.-.-b")}]])
attack("greedy pattern", [[return {(("a"):rep(200000)):match("a*a*a*a*b")}]])
attack("balance pattern in a loop", [[local s = ("("):rep(200000) while true do s:find("%b()") end]])
attack("patterns inside pcall", [[while true do pcall(string.find, ("a"):rep(30000), "a-a-a-a-b") end]])
attack("plain find of a long needle", [[
  local s, n = ("a"):rep(1 << 19), ("a"):rep(1 << 18) .. "b" while true do s:find(n, 1, true) end]])
attack("concat in a loop", [[local t = {} for i = 1, 1000 do t[i] = ("x"):rep(1000) end while true do table.concat(t) end]])
attack("upper of long strings in a loop", [[local s = ("x"):rep(1 << 20) while true do s:upper() end]])
attack("format of long strings in a loop", [[local s = ("x"):rep(1 << 19) while true do ("%s"):format(s) end]])
attack("gsub over long strings in a loop", [[local s = ("x"):rep(1 << 17) while true do s:gsub("x", "y") end]])
attack("tonumber of long strings", [[local s = ("1"):rep(1 << 20) while true do tonumber(s) end]])
attack("comparison of long strings", [[
  local a, b = ("x"):rep(1000000) .. "a", ("x"):rep(1000000) .. "b" while true do local _ = a < b end]])
attack("insert at the front of a long list", [[
  local t = {} for i = 1, 100000 do t[i] = i end while true do table.insert(t, 1, 0) end]])
attack("unpack in a loop", [[local t = {} for i = 1, 100000 do t[i] = i end while true do select("#", table.unpack(t)) end]])
attack("pairs over a big table in a loop", [[
  local t = {} for i = 1, 20000 do t["k" .. i] = i end while true do for _ in pairs(t) do break end end]])
attack("memory: tables", "local t = {} for i = 1, 1e9 do t[i] = {} end", {memory = true, budget = true})
attack("memory: tables in pcall", "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = {i} end end) end")
attack("memory: many long strings", [[local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000000) .. i end]],
  {memory = true, budget = true, error = true})
attack("memory: doubling strings in pcall", [[
  local s = ("x"):rep(1 << 20) while true do pcall(function() s = s .. s end) end]])
attack("memory: closures", "local f for i = 1, 1e9 do local g = f f = function() return g end end")
attack("memory: coroutines", "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end")
attack("deep recursion in a loop", "while true do pcall(function() local function f() return 1 + f() end f() end) end")

refused("string.rep of nothing, very often", [[return {("").rep("", 1 << 40)}]], "repeated more than")
refused("string.rep of much", [[return {("x"):rep(1 << 40)}]], "more than 1 MiB")
refused("table.move of many", [[table.move({}, 1, 1 << 40, 2)]], "too many elements")
refused("insert into a table that says it is long", [[
  table.insert(setmetatable({}, {__len = function() return 1 << 40 end}), 1, 2, 3)]], "wrong number")
refused("sort with a C comparator", [[table.sort({3, 2, 1}, rawequal)]], "Lua function expected")
refused("__gc", [[setmetatable({}, {__gc = function() while true do end end})]], "__gc")
refused("__gc as a placeholder", [[setmetatable({}, {__gc = false})]], "__gc")
refused("weak tables", [[setmetatable({}, {__mode = "k"})]], "__mode")
refused("poisoning the metatable of strings", [[getmetatable("").__index = function() end]], "attempt to index")
refused("bytecode", "\27Lua", "attempt to load a binary chunk")
refused("pairs over keys without an order", [[for _ in pairs {[{}] = 1} do end]], "keys have no order")
refused("%p", [[return {("%p"):format({})}]], "address")
refused("yield out of the policy", [[coroutine.yield(1)]], "outside a coroutine")
refused("no table", [[return 1]], "returns no table")
refused("a syntax error tells its line", "return {\n  x = = 1\n}", "policy:2:")
refused("an error tells its line", "local a\nreturn {x = a.b}", "policy:2:")
refused("an object as an error", [[error({})]], "an error object that is a table")
refused("an error object whose __tostring loops", [[
  error(setmetatable({}, {__tostring = function() while true do end end}))]], "an error object that is a table")
gives("an error in the handler of xpcall is its result", [[
  local ok = xpcall(error, function() error "in the handler" end) return {x = ok}]], {x = false})
gives("math.random(0) is any integer", "return {x = math.type(math.random(0))}", {x = "integer"})
refused("error without a value", "error()", "an error without a value")
refused("deep nesting of the source", "return " .. ("("):rep(60000) .. "1" .. (")"):rep(60000), "overflow")
attack("a source whose compilation is quadratic", "local a local x = " .. ("a or "):rep(25000) .. "1 return {}")
attack("a source of many elseifs", "local a if a then " .. ("elseif a then "):rep(9000) .. "end return {}")
refused("a source that is too long", "return {" .. ("1, "):rep(50000) .. "}", "a policy may have")
refused("recursion through gsub", [[
  local function f(s) return (s:gsub(".", f)) end f("x")]], "stack overflow")
refused("recursion through sort", [[
  local function f() table.sort({1, 2, 3}, f) end f()]], "stack overflow")
refused("recursion through __tostring", [[
  local t = {} setmetatable(t, {__tostring = function(x) return tostring(x) end}) return {tostring(t)}]], "stack overflow")
refused("nested wraps", [[
  local function f(n) return coroutine.wrap(function() return f(n + 1) end)() end f(1)]], "stack overflow")
refused("a pattern that recurses deeply", [[return {(("a"):rep(1000)):match(("(a)"):rep(30) .. ("a?"):rep(1000))}]],
  "pattern too complex")
refused("a pattern that is malformed", [[return {("a"):find("[a")}]], "missing ']'")
refused("a pattern that ends early", [[return {("a"):find("%")}]], "ends with '%'")
refused("a cycle in the table that leaves", [[local t = {} t.t = t return t]], "contains itself")

case("absent: what reaches out, runs code or depends on the machine", function()
  local got = assert(load [[
    local absent = {}
    for _, name in ipairs {"load", "loadfile", "loadstring", "dofile", "require", "package", "debug", "io", "os",
      "collectgarbage", "next", "utf8", "tide", "arg", "newproxy"} do absent[name] = _G[name] == nil end
    absent.dump, absent.pack, absent.close = string.dump == nil, string.pack == nil, coroutine.close == nil
    absent.seed = math.randomseed == nil
    return absent]])
  for name, value in pairs(got) do assert(value == true, name) end
end)

gives("addresses do not show", [[
  local a, b = {}, function() end
  return {tostring(a), ("%s"):format(a), tostring(b), tostring(print):find("0x") == nil, tostring({}) ~= tostring(a)}]],
  {"table: #1", "table: #1", "function: #2", true, true})
gives("pairs has one order", [[
  local t, keys = {z = 1, a = 2, [10] = 3, [-1] = 4, [2.5] = 5, [true] = 6, [1] = 7, [2] = 8}, {}
  for key in pairs(t) do keys[#keys + 1] = tostring(key) end
  return keys]], {"1", "2", "true", "-1", "2.5", "10", "a", "z"})
gives("pairs lets the loop remove and change", [[
  local t, seen = {a = 1, b = 2, c = 3}, 0
  for key in pairs(t) do t[key] = nil if key == "a" then t.b = nil end seen = seen + 1 end
  return {seen}]], {2})
gives("xpcall hands over results and errors", [[
  local a = table.pack(xpcall(function(x, y) return x + y, "two" end, print, 1, 2))
  local b = table.pack(xpcall(error, function(e) return "handled " .. tostring(e), 2 end, "e"))
  return {a[1], a[2], a[3], b[1], b[2], b[3]}]], {true, 3, "two", false, "handled e", 2})
gives("coroutines work", [[
  local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
  local _, x = coroutine.resume(co, 1)
  local _, y = coroutine.resume(co, 10)
  local ok, why = coroutine.resume(co)
  local list = {}
  for v in coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) do list[#list + 1] = v end
  local caught, message = pcall(coroutine.wrap(function() error "inner" end))
  return {x, y, ok, why, list, caught, message:find "inner" ~= nil, coroutine.isyieldable()}]],
  {2, 20, false, "cannot resume dead coroutine", {1, 2, 3}, false, true, false})
gives("patterns work as in Lua", [==[
  local out = {}
  local function add(...) for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...))) end end
  add(("hello world"):find("o w"), ("hello"):find("l"), ("hello"):find("xyz"), ("a.b"):find(".", 1, true))
  add(("key = value"):match("^(%w+)%s*=%s*(%w+)$"))
  add(("  trim  "):match("^%s*(.-)%s*$"), ("abc"):match("()b()"), ("f(a(b)c)d"):match("%b()"))
  add(("THE (quick) fox"):find("%((%a+)%)"), ("hello hello"):match("(%w+) %1"), ("x"):match("y?x"))
  add(("THE quick"):gsub("%f[%a]%a+", "<%0>"))
  add(("abc"):gsub("%w", "%0%0"), ("abc"):gsub("", "-"), ("hello world"):gsub("o", {o = "0"}), ("abc"):gsub("b", "%%"))
  add(("x=1, y=2"):gsub("(%w)=(%w)", function(a, b) return b .. a end))
  for a, b in ("k1=v1;k2=v2"):gmatch("(%w+)=(%w+)") do add(a, b) end
  for w in ("one two"):gmatch("%a*") do add("[" .. w .. "]") end
  add(("]-^"):match("[]%-^]+"), ("09az"):match("[0-9a-z]+"), ("ab]"):match("[^]]+"), ("abc"):sub(-2), ("abc"):byte(1, -1))
  add(("a-b"):gsub("%-", "+"), ("aXb"):match("%u"), ("aaa"):match("a-$"), ("aaa"):match("^a+$"), (("x"):rep(3, ",")))
  return out]==], (function()
    local out = {}
    local function add(...) for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...))) end end
    add(("hello world"):find("o w"), ("hello"):find("l"), ("hello"):find("xyz"), ("a.b"):find(".", 1, true))
    add(("key = value"):match("^(%w+)%s*=%s*(%w+)$"))
    add(("  trim  "):match("^%s*(.-)%s*$"), ("abc"):match("()b()"), ("f(a(b)c)d"):match("%b()"))
    add(("THE (quick) fox"):find("%((%a+)%)"), ("hello hello"):match("(%w+) %1"), ("x"):match("y?x"))
    add(("THE quick"):gsub("%f[%a]%a+", "<%0>"))
    add(("abc"):gsub("%w", "%0%0"), ("abc"):gsub("", "-"), ("hello world"):gsub("o", {o = "0"}), ("abc"):gsub("b", "%%"))
    add(("x=1, y=2"):gsub("(%w)=(%w)", function(a, b) return b .. a end))
    for a, b in ("k1=v1;k2=v2"):gmatch("(%w+)=(%w+)") do add(a, b) end
    for w in ("one two"):gmatch("%a*") do add("[" .. w .. "]") end
    add(("]-^"):match("[]%-^]+"), ("09az"):match("[0-9a-z]+"), ("ab]"):match("[^]]+"), ("abc"):sub(-2), ("abc"):byte(1, -1))
    add(("a-b"):gsub("%-", "+"), ("aXb"):match("%u"), ("aaa"):match("a-$"), ("aaa"):match("^a+$"), (("x"):rep(3, ",")))
    return out
  end)())

case("random patterns match as Lua's do", function()
  local rng = core.random(11)
  local function pick(list) return list[1 + math.tointeger(rng:below(#list))] end
  local pieces = {"a", "b", ".", "%a", "%d", "[ab]", "[^a]", "[a-c]", "(a)", "(", ")", "()", "a*", "b-", ".+", "a?", "%b()",
    "%f[%a]", "%1", "^", "$", "%", "[", "-", "%%", "[%a_]"}
  local subjects = {"", "a", "ab", "aabb", "a(b)c", "1a2b", "abcabc", "_a%", "b-a^$"}
  local patterns, list = {}, {}
  for i = 1, 2000 do
    local p = {}
    for j = 1, 1 + math.tointeger(rng:below(5)) do p[j] = pick(pieces) end
    patterns[i] = {pick(subjects), table.concat(p)}
    list[i] = ("{%q, %q}"):format(patterns[i][1], patterns[i][2])
  end
  local source = "local out = {} for i, p in ipairs {" .. table.concat(list, ",") .. [[} do
    local found = table.pack(pcall(string.find, p[1], p[2]))
    local subbed = table.pack(pcall(string.gsub, p[1], p[2], "<%0>"))
    local parts = {tostring(found[1]), tostring(subbed[1])}
    for j = 2, found[1] and found.n or 1 do parts[#parts + 1] = tostring(found[j]) end
    for j = 2, subbed[1] and subbed.n or 1 do parts[#parts + 1] = tostring(subbed[j]) end
    out[i] = table.concat(parts, "|")
  end return out]]
  local got, fault = load(source, MEMORY, {instructions = 100000000, seconds = 20})
  assert(got, fault and fault.message)
  local want = assert(_G.load(source))()
  for i = 1, #patterns do
    assert(got[i] == want[i], ("%q on %q: %s, Lua says %s"):format(patterns[i][2], patterns[i][1], got[i], want[i]))
  end
end)

gives("table functions work", [[
  local t = {5, 2, 8, 1}
  table.sort(t)
  local d = {5, 2, 8, 1}
  table.sort(d, function(a, b) return a > b end)
  table.insert(t, 9) table.insert(t, 1, 0)
  local gone, last = table.remove(t, 2), table.remove(t)
  local nothing = table.remove({})
  return {table.concat(t, " "), table.concat(d, " "), gone, last, nothing == nil,
    table.concat(table.move({1, 2, 3}, 1, 3, 2), ","), select("#", table.unpack({1, 2, 3})), table.pack(1, nil, 3).n}]],
  {"0 2 5 8", "8 5 2 1", 1, 9, true, "1,1,2,3", 3, 3})

local POLICY <const> = [[return {
  init = function(params, saved) return {n = params.n + (saved and saved.n or 0)} end,
  decide = function(st, view, k)
    st.n = st.n + 1
    print("deciding", st.n)
    return {n = st.n, r = view.rng(), m = math.random(100), per = k.line({1, 2}, {2, 4}).per, x = view.x}
  end,
  export = function(st) return {n = st.n} end,
}]]

case("init, decide, export: state stays inside, random numbers come from the seed", function()
  local function run()
    local s = assert(core.sandbox(MEMORY))
    local described = core.plain_decode(assert(s:load(POLICY, "=policy", BUDGET)))
    assert(described.init == true and described.decide == true)
    assert(s:init(core.plain_encode {n = 1}, core.plain_encode {n = 10}, 5, BUDGET))
    local out = {}
    for i = 1, 3 do out[i] = assert(s:decide(core.plain_encode {x = i}, 100 + i, BUDGET)) end
    assert(s:usage().log == "deciding\t14\n", s:usage().log)
    out[4] = assert(s:export(BUDGET))
    return out
  end
  local a, b = run(), run()
  for i = 1, 4 do assert(a[i] == b[i]) end
  local plan = core.plain_decode(a[2])
  assert(plan.n == 13 and plan.x == 2 and plan.per == 2 and plan.m >= 1 and plan.m <= 100)
  assert(core.plain_decode(a[4]).n == 14)
end)

case("a plan that cannot travel is told, and an over-long log is cut", function()
  local s = assert(core.sandbox(MEMORY))
  assert(s:load([[return {init = function() return 1 end, decide = function(st, view)
    for i = 1, 10000 do print("line", i) end
    return {batch = {[7] = view.rng}} end}]], "=policy", BUDGET))
  assert(s:init(core.plain_encode {}, nil, 1, BUDGET))
  local plan, fault = s:decide(core.plain_encode {}, 1, BUDGET)
  assert(not plan and fault.message:find("plan.batch[7] is a function", 1, true), fault.message)
  assert(#s:usage().log == 4096)
end)

case("kernels are charged: an expensive one ends the step", function()
  local s = assert(core.sandbox(MEMORY))
  assert(s:load([[return {init = function() return 1 end, decide = function(st, view, k)
    local c = {}
    for i = 1, 60 do c[i] = {} for j = 1, 60 do c[i][j] = (i * j) % 7 end end
    while true do pcall(k.assign, c) end end}]], "=policy", BUDGET))
  assert(s:init(core.plain_encode {}, nil, 1, BUDGET))
  local plan, fault = s:decide(core.plain_encode {}, 1, BUDGET)
  assert(not plan and fault.kind == "budget", fault and fault.message)
end)

-- `k` is there only in decide.
local function decide(body, view)
  local s = assert(core.sandbox(MEMORY))
  assert(s:load("return {init = function() return {} end, decide = function(st, view, k) " .. body .. " end}", "=policy", BUDGET))
  assert(s:init(core.plain_encode({}), nil, 1, BUDGET))
  local began <const> = os.clock()
  local bytes, fault = s:decide(core.plain_encode(view or {}), 1, BUDGET)
  assert(os.clock() - began < 0.1 * SLOW)
  assert(s:usage().memory_peak_bytes <= 2 * MEMORY)
  return bytes and core.plain_decode(bytes), fault
end

case("lines: endless learning, endless ids and metatables on the view end as everything else does", function()
  local _, fault = decide "local l = k.lines{} local w = {{id = 1, examples = 1, seconds = 1}} while true do l:learn(w) end"
  assert(fault.kind == "budget", fault.message)
  _, fault = decide "local l, n = k.lines{}, 0 local w = {} for i = 1, 60000 do w[i] = {id = i} end while true do l:learn(w) end"
  assert(fault.kind == "budget", fault.message)
  _, fault = decide "local keep = {} while true do local l = k.lines{} l:line(65535) keep[#keep + 1] = l end"
  assert(fault.kind == "memory", fault.message)
  _, fault = decide "local l = k.lines{} while true do pcall(l.learn, l, {1}) end"
  assert(fault.kind == "budget", fault.message)
  local got = decide [[
    local l = k.lines{}
    local trap = setmetatable({id = 1}, {__index = function() error "code of the view runs" end})
    l:learn(setmetatable({trap}, {__len = function() return 1 << 40 end, __index = error}))
    return {meta = getmetatable(l), own = pcall(setmetatable, l, {})} ]]
  assert(got.meta == false and got.own == false)
end)

case("random bytes as source never crash", function()
  local rng = core.random(3)
  local words = {"local", "function", "end", "return", "{", "}", "(", ")", "=", "..", "'a'", "1e9", "while", "do", "true",
    "pcall", "coroutine.wrap", "setmetatable", "x", ",", ".", "[", "]", "for", "in", "pairs", "if", "then", "goto", "::x::",
    "<close>", "error", "string.rep", "#", "-", "not", "nil", "table.sort", "math.random", "\0", "\255", "\n"}
  for _ = 1, 1500 do
    local t = {}
    for i = 1, 1 + math.tointeger(rng:below(30)) do t[i] = words[1 + math.tointeger(rng:below(#words))] end
    load(table.concat(t, " "), 1 << 20, {instructions = 100000, seconds = 0.05})
  end
end)

case("plain values: round trip, one form, every cut and flip is refused or read, never a crash", function()
  local value = {1, 2.5, "x", {a = {[-3] = true, [1 << 40] = false, [0.5] = "h"}}, z = {}, y = math.huge}
  local bytes = assert(core.plain_encode(value))
  assert(core.plain_encode(assert(core.plain_decode(bytes))) == bytes)
  local other = {} -- the same, made in another order
  other.y, other.z = math.huge, {}
  other[4] = {a = {[0.5] = "h", [1 << 40] = false, [-3] = true}}
  other[3], other[2], other[1] = "x", 2.5, 1
  assert(core.plain_encode(other) == bytes)
  for i = 0, #bytes - 1 do assert(not core.plain_decode(bytes:sub(1, i))) end
  local rng = core.random(9)
  for _ = 1, 5000 do
    local at = 1 + math.tointeger(rng:below(#bytes))
    local flipped = bytes:sub(1, at - 1) .. string.char(math.tointeger(rng:below(256))) .. bytes:sub(at + 1)
    local back = core.plain_decode(flipped)
    if back ~= nil then core.plain_encode(back) end
  end
  local nested = {}
  for _ = 1, 40 do nested = {nested} end
  local none, err = core.plain_encode(nested)
  assert(not none and err.message:find "nested")
  none, err = core.plain_encode {a = {b = {1, print}}}
  assert(not none and err.message:find("value.a.b[2] is a function", 1, true), err.message)
end)

return cases
