/* Lua values as msgpack and back, tensors, JSON, kernels' arguments, files: what needs a state but
 * no node. */
#include "lua/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct tide_port *port;
static struct tide_lua *host;

static int setup(void **state) {
    (void)state;
    return tide_port_real_create(1, &port) == 0 && tide__lua_create(NULL, port, false, &host) == 0
               ? 0
               : -1;
}

static int teardown(void **state) {
    (void)state;
    tide__lua_destroy(host);
    port->ops->destroy(port);
    return 0;
}

/* Runs a chunk with `core`, `same` (deep comparison) and `fails(pattern, f, ...)` at hand. */
static void lua(const char *chunk) {
    static const char prelude[] =
        "local core = require 'tide.core'\n"
        "local function same(a, b)\n"
        "  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b and math.type(a) == "
        "math.type(b) end\n"
        "  for k, v in pairs(a) do if not same(v, b[k]) then return false end end\n"
        "  for k in pairs(b) do if a[k] == nil then return false end end\n"
        "  return true end\n"
        "local function fails(pattern, f, ...)\n"
        "  local ok, err = pcall(f, ...)\n"
        "  assert(not ok, 'should have failed: ' .. pattern)\n"
        "  assert(tostring(err):find(pattern, 1, true), tostring(err)) end\n"
        "local function both(v) return core.decode(core.encode(v)) end\n";
    lua_State *L = host->L;
    char *text = malloc(sizeof prelude + strlen(chunk));
    assert_non_null(text);
    memcpy(text, prelude, sizeof prelude);
    strcat(text, chunk);
    lua_pushcfunction(L, tide__lua_traceback);
    int status = tide__lua_load(L, text, strlen(text), "=test");
    free(text);
    if (status == LUA_OK) {
        status = lua_pcall(L, 0, 0, lua_gettop(L) - 1);
    }
    if (status != LUA_OK) {
        fail_msg("%s", luaL_tolstring(L, -1, NULL));
    }
    lua_settop(L, 0);
}

static void scalars_survive_a_round_trip(void **state) {
    (void)state;
    lua("for _, v in ipairs {true, false, 0, 1, -1, 127, 128, 255, 256, -32, -33, 65535, 65536, 1 "
        "<< 31, 1 << 32,\n"
        "    math.maxinteger, math.mininteger, 0.0, -0.5, 1e300, math.huge, '', 'x', "
        "('y'):rep(31), ('y'):rep(32),\n"
        "    ('z'):rep(70000), '\\0\\255'} do assert(same(both(v), v), tostring(v)) end\n"
        "assert(both(nil) == nil) local nan = both(0/0) assert(nan ~= nan)\n"
        "assert(math.type(both(2.0)) == 'float' and math.type(both(2)) == 'integer')");
}

static void nested_tables_survive_a_round_trip(void **state) {
    (void)state;
    lua("local v = {1, 'two', {three = 3, list = {{}, {4.5}}}, false} assert(same(both(v), v))\n"
        "assert(same(both {}, {}))\n"
        "local deep = {} local t = deep for i = 1, 15 do t.d = {} t = t.d end "
        "assert(same(both(deep), deep))\n"
        "local big = {} for i = 1, 60000 do big[i] = i end assert(#both(big) == 60000)");
}

static void tensors_survive_a_round_trip_with_type_and_shape(void **state) {
    (void)state;
    lua("for _, ty in ipairs {'f32', 'f64', 'i32', 'i64', 'u64', 'u8', 'u32', 'u16'} do\n"
        "  for _, n in ipairs {0, 1, 3, 1000} do\n"
        "    local t = core.tensor(ty, n) for i = 1, n do t[i] = i % 200 end\n"
        "    local b = both({a = t}).a assert(b:type() == ty and b:rows() == n and b:columns() == "
        "1)\n"
        "    for i = 1, n do assert(b[i] == t[i]) end end end\n"
        "local m = core.tensor('f32', {1, 2, 3, 4, 5, 6}, 3) local b = both {m, x = nil}\n"
        "assert(b[1]:rows() == 2 and b[1]:columns() == 3 and b[1][6] == 6)\n"
        "assert(same(both {['@columns'] = 2, other = 1}, {['@columns'] = 2, other = 1}))");
}

static void narrow_floats_become_f32(void **state) {
    (void)state;
    lua("local h = core.decode('\\xd6\\x03\\x00\\x3c\\x00\\xc0') assert(h:type() == 'f32' and h[1] "
        "== 1 and h[2] == -2)\n"
        "local s = core.decode('\\xd6\\x03\\x01\\x00\\xff\\x7b') assert(s[1] == 2^-24 and s[2] == "
        "65504)\n"
        "local i = core.decode('\\xd6\\x03\\x00\\x7c\\x01\\x7e') assert(i[1] == math.huge and i[2] "
        "~= i[2])\n"
        "local b = core.decode('\\xd6\\x04\\x80\\x3f\\x40\\xc0') assert(b[1] == 1 and b[2] == -3)");
}

static void refusals_name_the_path_of_the_field(void **state) {
    (void)state;
    lua("fails('value.params[3].f: a function cannot travel', core.encode, {params = {1, 2, {f = "
        "print}}})\n"
        "fails('value: a function cannot travel', core.encode, print)\n"
        "fails('value.u: this userdata cannot travel', core.encode, {u = io.stdout})\n"
        "fails('value.t: a thread cannot travel', core.encode, {t = coroutine.create(print)})\n"
        "fails('value.m: table mixes array elements and string keys', core.encode, {m = {1, 2, x = "
        "3}})\n"
        "fails('number key', core.encode, {m = {[7] = 1}}) fails('number key', core.encode, {[1.5] "
        "= 1})\n"
        "fails('keys must be strings', core.encode, {[true] = 1})\n"
        "local c = {} c.a = {c} fails('value.a[1]: table contains itself', core.encode, c)\n"
        "local d = {} local t = d for i = 1, 17 do t.d = {} t = t.d end fails('nested more than 16 "
        "deep', core.encode, d)\n"
        "fails('string of more than 1 MiB', core.encode, ('x'):rep((1 << 20) + 1))\n"
        "local big = {} for i = 1, 70000 do big[i] = i end fails('too many values', core.encode, "
        "big)\n"
        "fails('16 MiB', core.encode, core.tensor('u8', 17 << 20))\n"
        "local many = {} for i = 1, 20 do many[i] = ('x'):rep(1 << 20) end fails('16 MiB', "
        "core.encode, many)");
}

static void a_shared_table_that_is_no_cycle_travels(void **state) {
    (void)state;
    lua("local s = {1} local v = both {s, s} assert(v[1][1] == 1 and v[2][1] == 1)");
}

static void damaged_bytes_are_refused_with_a_reason(void **state) {
    (void)state;
    lua("for _, bytes in ipairs {'', '\\xc1', '\\x92\\x01', '\\x81\\xa1', "
        "'\\xdb\\xff\\xff\\xff\\xff', '\\xdd\\x00\\xff\\xff\\xff',\n"
        "    '\\xdf\\x00\\x00\\xff\\xff', '\\x01\\x02', '\\x81\\xc0\\x01', '\\x81\\x90\\x01', "
        "'\\xc7\\x03\\x01abc', '\\xd4\\x63a',\n"
        "    '\\x82\\xa8@columns\\x00\\xa5@data\\xd6\\x01\\0\\0\\0\\0', "
        "'\\x82\\xa8@columns\\x02\\xa5@data\\xd6\\x01\\0\\0\\0\\0'} do\n"
        "  local v, err = core.decode(bytes)\n"
        "  assert(v == nil and (err.name == 'EPROTO' or err.name == 'ELIMIT') and #err.message > "
        "5, bytes) end\n"
        "local v, err = core.decode(('\\x91'):rep(40) .. '\\x01') assert(not v and err.name == "
        "'ELIMIT')\n"
        "v, err = core.decode(('\\x91'):rep(16) .. '\\x01') assert(v)\n"
        "v, err = core.decode(('\\x91'):rep(16) .. '\\x90') assert(not v and err.name == 'ELIMIT')\n"
        "v, err = core.decode('\\xdc\\xff\\xff' .. ('\\x01'):rep(65535)) assert(#v == 65535)\n"
        "v, err = core.decode('\\xdd\\x00\\x01\\x00\\x00' .. ('\\x01'):rep(65536)) assert(not v "
        "and err.name == 'ELIMIT')");
}

static void mutated_bytes_never_crash_and_never_grow(void **state) {
    (void)state;
    lua("local seed = core.encode {a = {1, -2, 3.5, 'text', true, core.tensor('u64', {1, 2, 3})},\n"
        "  m = core.tensor('f32', 2, 2), n = {x = {y = {z = 'w'}}}}\n"
        "local r = core.random(7) local good = 0\n"
        "for i = 1, 20000 do\n"
        "  local b = {seed:byte(1, -1)}\n"
        "  for j = 1, 1 + r:below(4) do b[1 + r:below(#b)] = r:below(256) end\n"
        "  local v, err = core.decode(string.char(table.unpack(b, 1, 1 + r:below(#b))))\n"
        "  if not err then good = good + 1 else assert(err.name == 'EPROTO' or err.name == "
        "'ELIMIT') end\n"
        "end\n"
        "assert(good > 0) collectgarbage() assert(collectgarbage 'count' < 20000)");
}

static void tensor_elements_are_checked(void **state) {
    (void)state;
    lua("local t = core.tensor('f32', 3) t[1] = 1.5 t[3] = 2 assert(t[1] == 1.5 and t[2] == 0 and "
        "#t == 3)\n"
        "fails('index 4 is outside 1..3', function() return t[4] end)\n"
        "fails('index 0 is outside', function() t[0] = 1 end)\n"
        "fails('cannot hold', function() t[1] = 'x' end) fails('cannot hold', function() t[1] = "
        "nil end)\n"
        "local u = core.tensor('u8', {1, 255}) fails('does not fit', function() u[1] = 256 end)\n"
        "fails('does not fit', function() u[1] = -1 end) fails('cannot hold 1.5', function() u[1] "
        "= 1.5 end)\n"
        "fails('unknown tensor type', core.tensor, 'f16', 3) fails('too large', core.tensor, "
        "'f64', 1 << 40, 1 << 30)\n"
        "fails('negative', core.tensor, 'f64', -1) fails('do not fill', core.tensor, 'f32', {1, 2, "
        "3}, 2)\n"
        "fails('index', function() return t['1'] + 1 end == nil and error or function() return "
        "t[1.5] end)\n"
        "assert(t.nothing == nil) fails('tensor', t.rows, {})\n"
        "local n = 0 for i, v in pairs(core.tensor('i32', {5, 6})) do n = n + i * v end assert(n "
        "== 17)");
}

static void tensor_methods_compute(void **state) {
    (void)state;
    lua("local t = core.tensor('f64', {3, 1, 2, 6, 5, 4}, 2)\n"
        "assert(t:sum() == 21 and t:min() == 1 and t:max() == 6 and t:rows() == 3 and t:columns() "
        "== 2)\n"
        "assert(same(t:totable(), {3.0, 1.0, 2.0, 6.0, 5.0, 4.0}))\n"
        "local c = t:copy() c:fill(7) assert(c:sum() == 42 and t:sum() == 21)\n"
        "local f = core.tensor('u64', 3, 1):fill(5, 2) assert(f[1] == 5 and f[2] == 7 and f[3] == 9)\n"
        "assert(core.tensor('u8', {1, 2}):bytes() == '\\1\\2')\n"
        "local i = core.tensor('i64', {1, 2}) assert(math.type(i:sum()) == 'integer')\n"
        "assert(core.tensor('f32', 0):min() == nil and core.tensor('f32', 0):sum() == 0)\n"
        "assert(tostring(t) == 'f64[3 x 2]\\n  {3, 1}\\n  {2, 6}\\n  {5, 4}')\n"
        "fails('does not fit', core.tensor, 'u64', {-1})");
}

static void slices_share_storage_and_keep_it_alive(void **state) {
    (void)state;
    lua("local s do local t = core.tensor('f32', {1, 2, 3, 4, 5, 6}, 2) s = t:slice(2, 2) s[1] = "
        "30 assert(t[3] == 30)\n"
        "fails('outside', t.slice, t, 3, 2) fails('outside', t.slice, t, 0, 1) fails('outside', "
        "t.slice, t, 5, 0)\n"
        "assert(#t:slice(4, 0) == 0) s = s:slice(2) end\n"
        "do local t = core.tensor('u64', 4, 2) local u = core.tensor('u64', {1, 2, 3, 4}, 2)\n"
        "assert(t:put(2, u) == t and t[2] == 0 and t[3] == 1 and t[6] == 4 and t[7] == 0)\n"
        "assert(t:put(5, u:slice(1, 0)) == t) fails('outside', t.put, t, 4, u)\n"
        "fails('outside', t.put, t, 0, u) fails('has other rows', t.put, t, 1, core.tensor('u64', 1, 1))\n"
        "fails('has other rows', t.put, t, 1, core.tensor('u32', 1, 2)) end\n"
        "for i = 1, 100 do collectgarbage() local x = core.tensor('f32', 100) end\n"
        "assert(s:rows() == 1 and s[1] == 5 and s[2] == 6)");
}

static void a_number_that_does_not_fit_another_type_is_an_error(void **state) {
    (void)state;
    lua("local function of(ty, v) return core.tensor(ty, {0, v}) end\n"
        "local function no(from, v, to) fails('row 2: ', function() of(from, v):convert(to) end) end\n"
        "no('f64', 1e300, 'f32') no('f64', -1e39, 'f32') no('f64', 16777217, 'f32') no('i32', 16777217, 'f32')\n"
        "no('u32', 4294967295, 'f32') no('i64', (1 << 53) + 1, 'f64') no('i64', -1, 'u64') no('i64', 1 << 31, 'i32')\n"
        "no('f64', 1.5, 'i64') no('f64', 0 / 0, 'i64') no('f32', -1, 'u8') no('u32', 65536, 'u16') no('f64', 2^63, 'i64')\n"
        "local exact = {{'f64', 16777218, 'f32'}, {'i64', 1 << 62, 'f32'}, {'f64', 0.5, 'f32'}, {'f64', 1 / 0, 'f32'},\n"
        "  {'i64', -(1 << 62), 'f64'}, {'f64', -2147483648, 'i32'}, {'f32', 255, 'u8'}, {'i64', math.mininteger, 'f64'}}\n"
        "for _, e in ipairs(exact) do assert(of(e[1], e[2]):convert(e[3])[2] == e[2], e[2]) end\n"
        "assert(of('f64', 0.1):convert 'f32':text(2) == '0.1') assert(of('f64', 0.1):text(2) == '0.1')\n"
        "assert(of('f64', 1e30):convert 'f32':text(2) == '1e+30')\n" /* measured, not counted */
        "local large = of('u64', math.maxinteger) large:add(large)\n"
        "assert(large:text(2) == '18446744073709551614' and large[2] == 2.0^64 and large:max() > 0 and large:sum() > 0)\n"
        "fails('does not fit', large.convert, large, 'i32') fails('does not fit', large.convert, large, 'i64')\n"
        "fails('rounded', large.convert, large, 'f64')\n"
        "fails('cannot hold 1e+300', core.tensor, 'f32', {1e300})\n"
        "assert(table.concat(core.words 'The \xe2\x80\x9e\xc3\x84pfel\xe2\x80\x9c, don\\x27t', '|') == "
        "'the|\xc3\xa4pfel|don\\x27t')\n"
        "assert(of('f64', 0 / 0):text(2) == 'nan' and of('f32', -1 / 0):text(2) == '-inf')");
}

static void tensors_add_and_f64_splits_into_f32_exactly(void **state) {
    (void)state;
    lua("local a = core.tensor('u16', {1, 65535}) assert(a:add(core.tensor('u16', {2, 2})) == a and a[1] == 3 and "
        "a[2] == 1)\n"
        "assert(core.tensor('i64', {-3}):add(core.tensor('i64', {1}))[1] == -2)\n"
        "assert(core.tensor('i32', {-3}):add(core.tensor('i32', {1}))[1] == -2)\n"
        "assert(core.tensor('f64', {0.1}):add(core.tensor('f64', {0.2}))[1] == 0.1 + 0.2)\n"
        "fails('another type or size', a.add, a, core.tensor('u32', 2)) fails('another type', a.add, a, "
        "core.tensor('u16', 3))\n"
        "fails('does not fit', function() a[1] = 65536 end)\n"
        "local near = core.tensor('f32', 1 << 16):uniform(1, 1e8, 1e8 + 8)\n" /* floats there are 8 apart */
        "assert(near:max() == 1e8 and near:min() == 1e8)\n"
        "local rng, x = core.random(7), core.tensor('f64', 3000)\n"
        "for i = 1, #x do x[i] = (rng:uniform() - 0.5) * 2.0 ^ (rng:below(180) - 60) end\n"
        "x[1], x[2], x[3] = 0, math.pi, 1 + 2.0 ^ -52\n"
        "local parts = x:split() assert(parts:type() == 'f32' and parts:rows() == 3000 and parts:columns() == 3)\n"
        "assert(core.joined(parts):bytes() == x:bytes())\n"
        "x[9] = 1 / 0 fails('no exact form', x.split, x) x[9] = 1e300 fails('element 9', x.split, x)\n"
        "fails('no f64', a.split, a) fails('three numbers', core.joined, core.tensor('f32', 4))");
}

static void shuffles_are_permutations_that_depend_on_the_seed_alone(void **state) {
    (void)state;
    lua("local function make() local t = core.tensor('i32', 100, 3) for i = 0, 299 do t[i + 1] = i "
        "// 3 end return t end\n"
        "local a, b, c = make():shuffle(1), make():shuffle(1), make():shuffle(2)\n"
        "assert(a:bytes() == b:bytes() and a:bytes() ~= c:bytes())\n"
        "local seen = {} for r = 1, 100 do local x = a:slice(r, 1) assert(x[1] == x[2] and x[2] == "
        "x[3]) seen[x[1]] = true end\n"
        "for i = 0, 99 do assert(seen[i]) end");
}

static void json_round_trips_and_bad_text_names_the_place(void **state) {
    (void)state;
    lua("local v = {b = {1, 2.5, 'x', true}, a = {c = 'd'}}\n"
        "assert(core.json_encode(v) == '{\"a\":{\"c\":\"d\"},\"b\":[1,2.5,\"x\",true]}')\n"
        "assert(same(core.json_decode(core.json_encode(v)), v))\n"
        "local x, err = core.json_decode('{\"a\": }') assert(x == nil and err.name == 'EPROTO' and "
        "err.message:find '1')\n"
        "fails('function cannot travel', core.json_encode, {f = print})");
}

static void files_are_written_whole_and_read_back(void **state) {
    (void)state;
    char directory[] = "/tmp/tide-test-XXXXXX", chunk[1000];
    assert_non_null(mkdtemp(directory));
    (void)snprintf(
        chunk, sizeof chunk,
        "local d = '%s' assert(core.mkdir(d .. '/a')) assert(core.mkdir(d .. '/a'))\n"
        "assert(core.file_write(d .. '/a/f', 'one\\0two')) assert(core.file_read(d .. '/a/f') == "
        "'one\\0two')\n"
        "assert(core.file_write(d .. '/a/f', '')) assert(core.file_read(d .. '/a/f') == '')\n"
        "local l = core.file_list(d .. '/a') assert(#l == 1 and l[1] == 'f')\n"
        "local t, err = core.file_read(d .. '/no') assert(t == nil and err.name == 'ENOENT')\n"
        "t, err = core.file_read(d) assert(t == nil)\n"
        "t, err = core.file_write(d .. '/no/f', 'x') assert(t == nil and #core.file_list(d) == 1)\n"
        "assert(core.file_remove(d .. '/a/f')) t, err = core.file_remove(d .. '/a/f') assert(not "
        "t)\n"
        "assert(#core.file_read('/proc/self/stat') > 20)\n"
        "os.remove(d .. '/a') os.remove(d)",
        directory);
    lua(chunk);
    assert_int_equal(access(directory, F_OK), -1);
}

static void errors_print_their_place_and_message(void **state) {
    (void)state;
    lua("local t, err = core.decode '' assert(err.where == 'test:2' or err.where:find '^test:', "
        "err.where)\n"
        "assert(tostring(err):find '^test:%d+: ') assert(err.code == nil)");
}

static void actor_functions_outside_of_actors_say_so(void **state) {
    (void)state;
    lua("fails('only an actor', core.send, '1:2', 3) fails('only an actor', core.receive)\n"
        "fails('not an address', core.send, 'x', 3) fails('not an address', core.send, '1:', 3)\n"
        "fails('not an address', core.send, '70000:1', 3) fails('only an actor', core.fiber, "
        "print)\n"
        "assert(core.node() == nil) fails('no node runs', core.members)");
}

static void kernels_refuse_wrong_arguments_by_name(void **state) {
    (void)state;
    lua("local all = core.kernels() fails('no kernel is named', core.kernel, 'nothing')\n"
        "for _, k in ipairs(all) do\n"
        "  assert(#k.doc > 0 and #k.parameters > 0) local run = core.kernel(k.name)\n"
        "  fails(\"no parameter is named 'misspelt'\", run, {misspelt = 1})\n"
        "  for _, p in ipairs(k.parameters) do\n"
        "    if p.required then fails('is missing', run, {}) end\n"
        "    fails(\"'\" .. p.name .. \"' is\", function()\n"
        "      local a = {[p.name] = p.type == 'string' and 5 or print}\n"
        "      for _, q in ipairs(k.parameters) do if q == p then break end\n"
        "        if q.required then error(\"'\" .. p.name .. \"' is behind another\") end end\n"
        "      run(a) end)\n"
        "  end end");
}

static void coroutines_nest_within_their_limit(void **state) {
    (void)state;
    lua("local function nest(n) if n == 0 then return 'ok' end return coroutine.wrap(nest)(n - 1) "
        "end\n"
        "assert(nest(30) == 'ok')\n"
        "local function deep() local co = coroutine.wrap(function()\n"
        "    local x <close> = setmetatable({}, {__close = function() deep() end}) error 'x' end) "
        "co() end\n"
        "fails('', deep)\n"
        "local function closes(n) if n == 0 then return end local co = "
        "coroutine.create(function()\n"
        "    local x <close> = setmetatable({}, {__close = function() closes(n - 1) end}) "
        "coroutine.yield() end)\n"
        "  coroutine.resume(co) local ok, err = coroutine.close(co) if not ok then error(err, 0) "
        "end end\n"
        "closes(20) fails('', closes, 5000)\n"
        "local g = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) error {mine = b} "
        "end)\n"
        "assert(g(1) == 2) local ok, err = pcall(g, 5) assert(not ok and err.mine == 5)");
}

static void bytecode_is_not_loaded_as_a_chunk(void **state) {
    (void)state;
    static const char bytecode[] = "\x1bLua";
    assert_int_not_equal(tide__lua_load(host->L, bytecode, sizeof bytecode, "=x"), LUA_OK);
    lua_settop(host->L, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_survive_a_round_trip),
        cmocka_unit_test(nested_tables_survive_a_round_trip),
        cmocka_unit_test(tensors_survive_a_round_trip_with_type_and_shape),
        cmocka_unit_test(narrow_floats_become_f32),
        cmocka_unit_test(tensors_add_and_f64_splits_into_f32_exactly),
        cmocka_unit_test(a_number_that_does_not_fit_another_type_is_an_error),
        cmocka_unit_test(refusals_name_the_path_of_the_field),
        cmocka_unit_test(a_shared_table_that_is_no_cycle_travels),
        cmocka_unit_test(damaged_bytes_are_refused_with_a_reason),
        cmocka_unit_test(mutated_bytes_never_crash_and_never_grow),
        cmocka_unit_test(tensor_elements_are_checked),
        cmocka_unit_test(tensor_methods_compute),
        cmocka_unit_test(slices_share_storage_and_keep_it_alive),
        cmocka_unit_test(shuffles_are_permutations_that_depend_on_the_seed_alone),
        cmocka_unit_test(json_round_trips_and_bad_text_names_the_place),
        cmocka_unit_test(files_are_written_whole_and_read_back),
        cmocka_unit_test(errors_print_their_place_and_message),
        cmocka_unit_test(actor_functions_outside_of_actors_say_so),
        cmocka_unit_test(kernels_refuse_wrong_arguments_by_name),
        cmocka_unit_test(coroutines_nest_within_their_limit),
        cmocka_unit_test(bytecode_is_not_loaded_as_a_chunk),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
