package.path = "tests/lua/?.lua;" .. package.path
local support = require "support"
local errors = require "tide.errors"

-- Every name of tide.h's error codes.
local function names_of_c()
  local file <const> = assert(io.open("runtime/include/tide/actor.h"))
  local names = {}
  for name in file:read("a"):gmatch("\n%s+TIDE_(E%u+) = %-%d+") do names[#names + 1] = name end
  file:close()
  return names
end

local function sources()
  local list = {}
  local pipe <const> = assert(io.popen("find lua runtime kernels -name '*.lua' -o -name '*.c' -o -name '*.h'"))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

describe("the catalogue of errors", function()
  it("has each field of each entry, a known family and a documented exit code", function()
    local exits <const> = {[0] = true, true, true, true, true, true, true, [130] = true}
    for code, entry in pairs(errors.catalogue) do
      assert.truthy(code:find("^T%d%d%d%d$"))
      assert.is_string(errors.families[code:sub(1, 3)], code)
      assert.is_string(entry.title)
      assert.truthy(entry.explanation:find("%.$"), code)
      assert.is_nil(entry.remedy:find("%.$"), code)
      assert.is_true(exits[entry.exit], code)
      assert.truthy(entry.name:find("^E%u+$"), code)
    end
  end)

  it("has exactly one generic code for each name of C but EINVAL's relatives", function()
    local names <const> = names_of_c()
    assert.equal(30, #names)
    for _, name in ipairs(names) do assert.is_string(errors.by_name[name], name) end
    local seen = {}
    for _, entry in pairs(errors.catalogue) do
      if entry.generic then
        assert.is_nil(seen[entry.name], entry.name)
        seen[entry.name] = true
      end
    end
  end)

  it("has every code that the source uses", function()
    for _, path in ipairs(sources()) do
      local file <const> = assert(io.open(path))
      for code in file:read("a"):gmatch('"(T%d%d%d%d)"') do
        assert.is_table(errors.catalogue[code], code .. " of " .. path)
      end
      file:close()
    end
  end)

  local function contents(find)
    local all = {}
    local pipe <const> = assert(io.popen(find))
    for path in pipe:lines() do
      if not path:find("catalogue.lua", 1, true) and not path:find("errors_spec.lua", 1, true) then
        local file <const> = assert(io.open(path))
        all[#all + 1] = file:read("a")
        file:close()
      end
    end
    pipe:close()
    return table.concat(all, "\n")
  end

  it("has no code that neither the source names nor an error of C brings", function()
    local source <const> = contents("find lua runtime kernels scripts -name '*.lua' -o -name '*.c' -o -name '*.h'")
    for code, entry in pairs(errors.catalogue) do
      assert.is_true(entry.generic or source:find(code, 1, true) ~= nil, code .. " is used nowhere")
    end
  end)

  -- A test names the code, or the error of C that brings it.
  it("has a test for each code", function()
    local tests <const> = contents("find tests -type f -name '*.lua' -o -type f -name '*.c' -o -type f -name '*.h' "
      .. "-o -type f -name '*.sh' -o -type f -name '*.py'")
    local missing = {}
    for code, entry in pairs(errors.catalogue) do
      local tested <const> = tests:find(code, 1, true) or (entry.generic and tests:find("TIDE_" .. entry.name, 1, true))
      if not tested then missing[#missing + 1] = code end
    end
    table.sort(missing)
    assert.same({}, missing)
  end)
end)

describe("errors.format", function()
  local script
  before_each(function()
    script = support.temporary("local t = {}\nfor k, v in pairs(by_node) do\n\tprint(t.x.y, k, v)\nend\n", ".lua")
  end)
  after_each(function() os.remove(script) end)

  it("shows what, where with the line and caret, the state, and the help", function()
    local err = errors.new("T0202", {
      message = "bad argument to `pairs` (table expected, got nil)", where = script .. ":2",
      where_note = "in busiest, called by decide (line 30)", state = "nothing in the cluster changed",
      help = "write `pairs(by_node or {})`",
    })
    assert.equal(table.concat({
      "error[T0202]: bad argument to `pairs` (table expected, got nil)",
      "  --> " .. script .. ":2, in busiest, called by decide (line 30)",
      "  |",
      "2 | for k, v in pairs(by_node) do",
      "  |             ^^^^^",
      "  = nothing in the cluster changed",
      "help: write `pairs(by_node or {})`; more: tide help T0202",
    }, "\n"), errors.format(err))
  end)

  it("is what tostring gives", function()
    assert.equal("error[T0601]: full\nhelp: try again later; retry_after_s says when, if it is known; "
      .. "more: tide help T0601", tostring(errors.new("T0601", "full")))
  end)

  it("puts no caret where the name occurs twice or not at all", function()
    local err = errors.new("T0202", {message = "no `k`", where = script .. ":9"})
    assert.is_nil(errors.format(err):find("9 |", 1, true))
    err = errors.new("T0202", {message = "no `t`", where = script .. ":3"})
    assert.truthy(errors.format(err):find("3 |   print(t.x.y, k, v)\n  |         ^\n", 1, true))
    err = errors.new("T0202", {message = "no `zzz`", where = script .. ":3"})
    assert.is_nil(errors.format(err):find("^", 1, true))
    local twice <const> = support.temporary("a.b = a.c\n", ".lua")
    assert.is_nil(errors.format(errors.new("T0202", {message = "no `a`", where = twice .. ":1"})):find("^^", 1, true))
    os.remove(twice)
  end)

  it("reads no file that is not Lua, and misses none", function()
    local read = {}
    local function spy(path)
      read[#read + 1] = path
      return nil
    end
    errors.format(errors.new("T0202", {message = "m", where = "/dev/zero:1"}), {read = spy})
    errors.format(errors.new("T0202", {message = "m", where = "x.lua:1"}), {read = spy})
    assert.same({"x.lua"}, read)
    local gone <const> = errors.format(errors.new("T0202", {message = "m", where = "/gone.lua:3"}))
    assert.truthy(gone:find("--> /gone.lua:3\nhelp", 1, true))
  end)

  it("names node, actor and causes of a remote error", function()
    local err = errors.from {name = "EDIED", message = "gone", node = "n2", actor = "worker mf/3",
      cause = {name = "EIO", message = "disk", node = "n3", where = "x.c:3:4"}}
    assert.equal("error[T0508]: on n2 (worker mf/3): gone\n  = because on n3: disk (x.c:3:4)\n"
      .. "help: see the log of that node; `tide status` shows which nodes are up; more: tide help T0508",
      errors.format(err))
  end)

  it("says when to retry", function()
    assert.truthy(errors.format(errors.new("T0601", {retry_after_s = 0.25})):find("try again in 0.25 s", 1, true))
  end)

  it("lets no message move the cursor", function()
    local err = errors.new("T0202", {message = "a\27[2Jb\nc", where = "x\27.lua:1", node = "\7"})
    local printed <const> = errors.format(err)
    assert.is_nil(printed:find("[\27\7]"))
    assert.truthy(printed:find("a\\x1b[2Jb\n  c", 1, true))
  end)

  it("shows the trace only when asked", function()
    local err = errors.new("T0202", {message = "m", trace = "stack traceback:\n\tx.lua:1"})
    assert.is_nil(errors.format(err):find("traceback"))
    assert.truthy(errors.format(err, {verbose = true}):find("traceback"))
  end)

  it("paints only when asked", function()
    local err = errors.new("T0202", {message = "m", where = script .. ":2"})
    assert.is_nil(errors.format(err):find("\27"))
    assert.truthy(errors.format(err, {color = true}):find("\27[1;31merror[T0202]\27[0m: m", 1, true))
  end)

  it("bounds a chain of causes that never ends", function()
    local err = errors.new("T0202", "m")
    err.cause = err
    assert.is_true(#errors.format(err) < 1000)
  end)
end)

describe("errors.from", function()
  it("splits place and message of Lua's strings", function()
    local ok, raised = pcall(load("local x = nil\nx.y = 1", "@mf.lua"))
    assert.is_false(ok)
    local err = errors.from(raised, "T0202")
    assert.equal("mf.lua:2", err.where)
    assert.equal("T0202", err.code)
    assert.equal("attempt to index a nil value (local 'x')", err.message)
  end)

  it("finds the code of a name from C", function()
    for name, code in pairs {EDIED = "T0508", EUNREACHABLE = "T0501", EBUSY = "T0601", ENAN = "T0604"} do
      local err = errors.from {name = name, message = "m"}
      assert.equal(code, err.code)
      assert.equal(name, err.name)
    end
  end)

  it("keeps a code, also one of a newer node", function()
    assert.equal("T0207", errors.from({code = "T0207", message = "m"}).code)
    local newer = errors.from {code = "T0788", name = "EIO", message = "m"}
    assert.equal("T0788", newer.code)
    assert.equal(1, errors.exit(newer))
    assert.truthy(tostring(newer):find("^error%[T0788%]: m\nhelp: more: tide help T0788$"))
  end)

  it("shows what a table holds that a script raised", function()
    local own <const> = setmetatable({}, {__tostring = function() return "mine" end})
    for message, raised in pairs {
      ["of mine (code = 7)"] = {code = 7, reason = "of mine"},
      ["m (a = {...}, code = \"x\", f = function, name = \"OWN\")"] = {message = "m", a = {1}, f = print, code = "x",
        name = "OWN"},
      ["text (3)"] = {"text", 3},
      ["an empty table was raised"] = {},
      ["a table was raised: {help = {...}, where = 5}"] = {where = 5, help = {}},
      mine = own,
    } do
      local err = errors.from(raised, "T0202")
      assert.equal(message, err.message)
      assert.equal("T0202", err.code)
      assert.is_string(errors.format(err))
    end
    local many = {}
    for i = 1, 20 do many[i] = i end
    assert.matches("and 12 more}$", errors.from(many).message)
  end)

  it("keeps what is an error already, and takes anything else", function()
    local err = errors.new("T0601")
    assert.equal(err, errors.from(err))
    assert.equal("T1099", errors.from(nil).code)
    assert.equal("T1099", errors.from(42).code)
    assert.equal("T1099", errors.from({code = 12}).code)
    assert.equal("busy", err.message)
  end)

  it("makes data that JSON takes, causes included", function()
    local cause <const> = {name = "EIO", message = "disk"}
    local data = errors.to_data(errors.from {name = "EDIED", message = "gone", cause = cause})
    local decoded = support.core.json_decode(support.core.json_encode(data))
    assert.equal("tide.error/1", decoded.schema)
    assert.equal("T0403", decoded.cause.code)
    assert.equal(5, decoded.exit)
  end)
end)

describe("the sentences", function()
  it("of each code name a next step", function()
    for code, entry in pairs(errors.catalogue) do
      local printed <const> = tostring(errors.new(code, {where = "x:1"}))
      assert.truthy(printed:find("^error%[" .. code .. "%]: "))
      assert.truthy(printed:find("\n  --> x:1\n", 1, true))
      assert.truthy(printed:find("help: " .. entry.remedy, 1, true))
    end
  end)
end)
