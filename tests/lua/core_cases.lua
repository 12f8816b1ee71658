-- What `tide.core` does wherever it is: cases for the fakes of the specs (core_spec.lua) and for the real one
-- (tests/unit/lua/test_core_cases.c). A spec that a fake satisfies means something only while both pass the same cases.
-- A case names the functions that it uses: a fake may lack them, and never has them otherwise.
local core = require "tide.core"

local cases = {}
local function case(name, functions, f) cases[#cases + 1] = {name, f, functions} end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b and math.type(a) == math.type(b) end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end

-- nil, err with a name of the C library's errors and a text.
local function refuses(name, value, err)
  assert(value == nil, "it does not fail")
  assert(type(err) == "table" and type(err.message) == "string" and #err.message > 0, "no error with a text")
  assert(not name or err.name == name, ("error %s, not %s"):format(tostring(err.name), tostring(name)))
end

local VALUES <const> = {7, -1, 0.5, "text \"quoted\"\n\tand é", true, false, {1, 2, 3}, {a = 1, b = {c = {}, d = "x"}},
                        {list = {{n = 1}, {n = 2}}}}

case("values travel as messages", {"encode", "decode"}, function()
  for _, value in ipairs(VALUES) do assert(same(value, core.decode(core.encode(value))), tostring(value)) end
end)

case("a decoded message is a value of its own", {"encode", "decode"}, function()
  local value = {list = {1}}
  local bytes <const> = core.encode(value)
  assert(type(bytes) == "string")
  value.list[1] = 2
  assert(core.decode(bytes).list[1] == 1)
  assert(core.decode(bytes) ~= core.decode(bytes))
end)

case("values travel as JSON, keys sorted", {"json_encode", "json_decode"}, function()
  for _, value in ipairs(VALUES) do assert(same(value, core.json_decode(core.json_encode(value))), tostring(value)) end
  local text <const> = core.json_encode {b = 1, a = {true, "x"}}
  assert(text == '{"a":[true,"x"],"b":1}', text)
end)

case("what is no JSON is refused", {"json_decode"}, function()
  for _, text in ipairs {"", "{", "[1,]", "{\"a\":}", "1 2", "\"open", "nul", "{1:2}"} do
    refuses("EPROTO", core.json_decode(text))
  end
end)

case("a sum of pieces is that of the whole, and is read once", {"sha256_sum"}, function()
  local sum <const> = core.sha256_sum()
  sum:add "on"
  sum:add ""
  sum:add "e"
  assert(sum:hex() == core.sha256 "one")
  assert(not pcall(sum.hex, sum) and not pcall(sum.add, sum, "x") and not pcall(sum.add, {}, "x"))
  core.sha256_sum()
end)

case("sums are 64 hexadecimal digits of the bytes alone", {"sha256"}, function()
  local one <const>, other <const> = core.sha256 "one", core.sha256 "other"
  assert(#one == 64 and one:find "^[0-9a-f]+$")
  assert(one == core.sha256 "one" and one ~= other and #core.sha256 "" == 64)
end)

case("random numbers follow from the seed, and lie below their bound", {"random"}, function()
  local a <const>, b <const>, c <const>, differs = core.random(5), core.random(5), core.random(6), false
  for n = 1, 200 do
    local x <const> = a:below(n)
    assert(math.type(x) == "integer" and x >= 0 and x < n, x)
    assert(x == b:below(n))
    differs = c:below(n) ~= x or differs
  end
  assert(differs)
  assert(a:below(1) == 0)
end)

case("a generator's state is a text that it goes on from", {"random"}, function()
  local a <const>, b <const> = core.random(5), core.random(9)
  a:below(10)
  local state <const> = a:state()
  assert(type(state) == "string" and #state > 0)
  b:restore(state)
  for _ = 1, 20 do assert(a:below(1000) == b:below(1000)) end
end)

case("clocks do not go back", {"now", "wall"}, function()
  local now <const>, wall <const> = core.now(), core.wall()
  assert(type(now) == "number" and type(wall) == "number" and wall > 1.6e9)
  assert(core.now() >= now and core.wall() >= wall)
end)

case("a file that is not there is nil and why", {"file_read"}, function()
  local value, err = core.file_read "/no/such/file"
  assert(value == nil)
  if err then refuses("ENOENT", value, err) end
end)

case("a kernel that is not there is an error that names it", {"kernel"}, function()
  local ok <const>, err = pcall(core.kernel, "no_such_kernel")
  assert(not ok and err.message:find("no_such_kernel", 1, true), tostring(err))
end)

case("kernels say what they take", {"kernels"}, function()
  local list <const> = core.kernels()
  assert(#list > 0)
  for _, kernel in ipairs(list) do
    assert(type(kernel.name) == "string" and type(kernel.doc) == "string" and #kernel.parameters > 0)
    for _, p in ipairs(kernel.parameters) do
      assert(type(p.name) == "string" and type(p.type) == "string" and type(p.doc) == "string")
      assert(type(p.required) == "boolean")
    end
  end
end)

case("embedded modules are texts, others are nil", {"embedded"}, function()
  assert(core.embedded "tide.text":find("return text", 1, true))
  assert(core.embedded "no.such.module" == nil)
end)

case("checkpoints of a directory that is not there are nil and why", {"checkpoint_list"}, function()
  refuses("ENOENT", core.checkpoint_list "/no/such/directory")
end)

case("the terminal has its fields", {"terminal"}, function()
  local t <const> = core.terminal()
  for _, name in ipairs {"stdin", "stdout", "stderr", "utf8"} do assert(type(t[name]) == "boolean", name) end
  assert(math.type(t.width) == "integer" and t.width > 0)
end)

case("the program says what it is", {"build"}, function()
  local build <const> = core.build()
  assert(type(core.version) == "string" and type(build.compiler) == "string" and build.lua:find "^Lua 5%.4")
  assert(type(build.cuda.available) == "boolean")
end)

case("interrupts are counted", {"interrupted"}, function() assert(math.type(core.interrupted()) == "integer") end)

case("a program is simulated or not", {"simulated"}, function() assert(core.simulated() == false) end)

return cases
