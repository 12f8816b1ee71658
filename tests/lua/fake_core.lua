-- A stand-in for `tide.core` under stock Lua: enough of it for the command line's tests, and no cluster.
--
-- What a test wants to differ it writes into the table: `fake.terminal_is`, `fake.interrupts`.

local find = require "packages"

local fake = {
  version = "0.1.0", interrupts = 0, stopped = 0, time = 0, members_are = {}, node_is = nil,
  terminal_is = {stdin = false, stdout = false, stderr = false, width = 100, utf8 = true},
}

local ESCAPES <const> = {['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r"}

local function quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

---Keys come sorted, as from jansson; an empty table is an object.
fake.checkpoints = {
  {generation = 2, committed = true, full = false, cut = "clock", clock = 9, rows = 3, bytes = 400, wall_s = 1.5,
   base = 1, chain = 2, nodes = 2, tables = 1, program = "0.1.0"},
  {generation = 1, committed = false, problem = "'ckpt/000001/MANIFEST.json' is missing: it was never finished"},
}

function fake.checkpoint_list(dir)
  if dir ~= "ckpt" then return nil, {name = "ENOENT", message = "no such directory"} end
  local list = {}
  for i, g in ipairs(fake.checkpoints) do
    list[i] = {}
    for k, v in pairs(g) do list[i][k] = v end
  end
  return list
end

function fake.checkpoint_verify(_, generation)
  if fake.damage and generation == 2 then return nil, {name = "EPROTO", message = fake.damage} end
  return true
end

function fake.harden() return true end
function fake.person() end
function fake.embedded(name)
  local path <const> = find(name)
  local file <close> = path and io.open(path) or nil
  return file and file:read "a" or nil
end
function fake.alarm() end
function fake.interrupt_limit() end
function fake.heed() end
function fake.node_run() return nil, {message = "there is no node"} end
function fake.kernels()
  return {{name = "add_rows", doc = "Adds rows. A paper, section 2; this takes more than one line.",
           parameters = {{name = "rows", type = "table", required = true, doc = "the table"},
                         {name = "scale", type = "number", required = false, default = 0.5, doc = "of each"},
                         {name = "at", type = "u64", required = false, doc = "which"}}}}
end

function fake.json_encode(value)
  local kind <const> = type(value)
  if kind == "string" then return quote(value) end
  if kind == "number" then
    return math.type(value) == "integer" and tostring(value) or ("%.17g"):format(value)
  end
  if kind ~= "table" then
    assert(kind == "nil" or kind == "boolean", "cannot travel: " .. kind)
    return kind == "nil" and "null" or tostring(value)
  end
  local parts = {}
  if #value > 0 then
    for i, item in ipairs(value) do parts[i] = fake.json_encode(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  local keys = {}
  for k in pairs(value) do keys[#keys + 1] = assert(type(k) == "string" and k, "keys are strings") end
  table.sort(keys)
  for i, k in ipairs(keys) do parts[i] = quote(k) .. ":" .. fake.json_encode(value[k]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local decode -- forward: values contain values

local function skip(s, at) return s:find("[^ \t\r\n]", at) or #s + 1 end

local UNESCAPE <const> = {n = "\n", t = "\t", r = "\r", b = "\b", f = "\f"}

local function decode_string(s, at)
  local close = at
  repeat
    close = assert(s:find('"', close + 1, true), "open string")
    local slashes <const> = #s:sub(at + 1, close - 1):match("\\*$")
  until slashes % 2 == 0
  local body <const> = s:sub(at + 1, close - 1):gsub("\\(.)(%x?%x?%x?%x?)", function(c, hex)
    if c == "u" then return utf8.char(tonumber(hex, 16)) end
    return (UNESCAPE[c] or c) .. hex
  end)
  return body, close + 1
end

local function decode_items(s, at, close, item)
  at = skip(s, at + 1)
  if s:sub(at, at) == close then return at + 1 end
  while true do
    at = skip(s, item(at))
    local mark <const> = s:sub(at, at)
    if mark == close then return at + 1 end
    assert(mark == ",", "expected , or " .. close)
    at = skip(s, at + 1)
  end
end

decode = function(s, at)
  at = skip(s, at)
  local first <const> = s:sub(at, at)
  local out = {}
  if first == "{" then
    return out, decode_items(s, at, "}", function(from)
      assert(s:sub(from, from) == '"', "expected a key")
      local key, after = decode_string(s, from)
      after = skip(s, after)
      assert(s:sub(after, after) == ":", "expected :")
      out[key], after = decode(s, after + 1)
      return after
    end)
  end
  if first == "[" then
    return out, decode_items(s, at, "]", function(from)
      local value, after = decode(s, from)
      out[#out + 1] = value
      return after
    end)
  end
  if first == '"' then return decode_string(s, at) end
  for word, value in pairs {["true"] = true, ["false"] = false} do
    if s:sub(at, at + #word - 1) == word then return value, at + #word end
  end
  if s:sub(at, at + 3) == "null" then return nil, at + 4 end
  local number <const> = assert(s:match("^-?[%d.]+[eE]?[+-]?%d*", at), "expected a value")
  return assert(tonumber(number), "bad number"), at + #number
end

function fake.json_decode(s)
  local ok, value, after = pcall(decode, s, 1)
  if ok and skip(s, after) > #s then return value end
  return nil, {name = "EPROTO", message = ok and "something follows the value" or tostring(value)}
end

function fake.terminal() return fake.terminal_is end
function fake.watch_interrupts() end
function fake.interrupted() return fake.interrupts end
function fake.build()
  return {compiler = "gcc 12.2", lua = "Lua 5.4.4", cuda = {available = false, reason = "not built"}}
end
function fake.simulated() return false, true end
function fake.sim_net() end

function fake.sim_open(world)
  fake.world = world
  return true
end
function fake.sim_files() return {} end
function fake.sim_report()
  return {seed = fake.world.seed, virtual_s = 0.5, events = 7, faults = 0, faults_missed = 0, flows = 0,
    hash = ("0"):rep(16)}
end
function fake.sim_close() fake.world = nil end
function fake.node_stop() fake.stopped = fake.stopped + 1 end
function fake.members() return fake.members_are end
function fake.node() return fake.node_is end
function fake.wall() return 1790000000 + fake.time end
function fake.now() return fake.time end
function fake.sleep(s) fake.time = fake.time + s end

dofile "tests/lua/fake_limits.lua" (fake)
dofile "tests/lua/fake_options.lua" (fake)

return fake
