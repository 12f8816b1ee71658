/* Lua actors on a real node: messages, errors that reach monitors, fibers, cancelling, preemption,
 * tables, life. */
#include "lua/host/host.h"

#include <dirent.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct tide_node *node;
static char directory[] = "/tmp/tide-test-XXXXXX";

static int setup(void **state) {
    (void)state;
    char listen[100];
    if (!mkdtemp(directory)) {
        return -1;
    }
    (void)snprintf(listen, sizeof listen, "unix:%s/n.sock", directory);
    struct tide_node_options o = {
        .cluster = "test", .name = "alone", .listen = listen, .workers = 1, .seed = 1};
    return tide_node_create(&o, &node);
}

static int teardown(void **state) {
    (void)state;
    tide_node_destroy(node, TIDE_SECOND);
    char path[100];
    (void)snprintf(path, sizeof path, "%s/n.sock", directory);
    (void)unlink(path);
    return rmdir(directory);
}

struct script {
    struct tide_lua_outcome outcome;
    sem_t ended;
};

static void script_ended(struct tide_lua_outcome *outcome) {
    (void)sem_post(&TIDE_CONTAINER(outcome, struct script, outcome)->ended);
}

/* Runs a chunk as an actor until it ends; its exit code, the text in outcome.text. */
static int run_on(enum tide_role role, const char *chunk, struct script *script) {
    *script = (struct script){.outcome = {.ended = script_ended, .code = TIDE_ECRASHED}};
    (void)sem_init(&script->ended, 0, 0);
    struct tide_lua_options o = {.source = chunk, .chunk = "@test.lua", .role = (uint8_t)role};
    int code = tide__lua_spawn(node, &o, &script->outcome, NULL);
    if (code == 0) {
        while (sem_wait(&script->ended) != 0) {
        }
        code = script->outcome.code;
    }
    (void)sem_destroy(&script->ended);
    tide_free(script->outcome.data);
    return code;
}

static void lua_on(enum tide_role role, const char *chunk) {
    static const char prelude[] =
        "local core = require 'tide.core'\n"
        "local function start(source, o) o = o or {} o.source = 'local core = require "
        "\"tide.core\" ' .. source\n"
        "  o.chunk = o.chunk or '@child.lua' return assert(core.spawn(o)) end\n"
        "local function fails(pattern, f, ...) local ok, err = pcall(f, ...)\n"
        "  assert(not ok, 'should have failed: ' .. pattern)\n"
        "  assert(tostring(err):find(pattern, 1, true), tostring(err)) end ";
    struct script script;
    char *text = malloc(sizeof prelude + strlen(chunk));
    assert_non_null(text);
    memcpy(text, prelude, sizeof prelude);
    strcat(text, chunk);
    int code = run_on(role, text, &script);
    free(text);
    if (code != 0) {
        fail_msg("%s: %s", tide_error_name(code), script.outcome.text);
    }
}

static void lua(const char *chunk) {
    lua_on(TIDE_ROLE_CONTROL, chunk);
    lua_on(TIDE_ROLE_COMPUTE, chunk);
}

static void two_actors_exchange_messages(void **state) {
    (void)state;
    lua("local echo = start [[ while true do local m = core.receive()\n"
        "    if m.kind == 'call' then core.answer(m, {got = m.value, from = m.from})\n"
        "    elseif m.kind == 'cast' then core.send(m.from, m.value * 2)\n"
        "    else return end end ]]\n"
        "for i = 1, 200 do\n"
        "  local v = assert(core.call(echo, {n = i, t = core.tensor('f32', {i})}))\n"
        "  assert(v.got.n == i and v.got.t[1] == i and v.from == core.self()) end\n"
        "for i = 1, 200 do assert(core.send(echo, i)) end\n"
        "for i = 1, 200 do local m = core.receive(5) assert(m.kind == 'cast' and m.value == 2 * i "
        "and m.from == echo) end\n"
        "core.kill(echo)");
}

static void the_argument_and_the_name_reach_the_actor(void **state) {
    (void)state;
    lua("local a = start([[ local arg = ... core.send(arg.to, {arg.x.y, core.whereis 'child' == "
        "core.self()})\n"
        "    core.receive() ]], {name = 'child', argument = {to = core.self(), x = {y = 5}}})\n"
        "local m = core.receive(5) assert(m.value[1] == 5 and m.value[2] == true)\n"
        "local t, err = core.spawn {source = '', chunk = '@x', name = 'child'} assert(not t and "
        "err.name == 'EEXIST')\n"
        "local id = core.monitor(a) core.kill(a) local e = core.receive(5)\n"
        "assert(e.kind == 'exit' and e.call == id and e.from == a and e.name == 'EKILLED', "
        "e.name)\n"
        "t, err = core.whereis 'child'\n"
        "assert(not t and err.name == 'ENOENT')\n"
        "fails('argument.f: a function cannot travel', core.spawn, {source = '', argument = {f = "
        "print}})");
}

static void a_script_error_reaches_the_monitor_with_its_line(void **state) {
    (void)state;
    lua("local a = start('\\n\\nlocal function inner() local x = nil; x.y = 1 end core.receive() "
        "inner()')\n"
        "core.monitor(a) core.send(a, 1) local e = core.receive(5)\n"
        "assert(e.kind == 'exit' and e.name == 'ECRASHED', e.name)\n"
        "assert(e.text:find('^child.lua:3: ') and e.text:find 'inner' and e.text:find 'traceback', "
        "e.text)\n"
        "local b = start 'this is no Lua' core.monitor(b) e = core.receive(5)\n"
        "assert(e.name == 'ECRASHED' or e.name == 'EDIED' or e.code < 0, e.name)\n"
        "local c = start 'error {name = \"EMINE\", message = \"own table\"}' core.monitor(c) e = "
        "core.receive(5)\n"
        "assert(e.code < 0)");
}

static struct {
    atomic_uint lines;
    char text[2000];
} logged;

static void keep_line(void *arg, enum tide_level level, const char *name, const char *text) {
    (void)arg;
    if (level == TIDE_LOG_WARN && strcmp(name, "alone") == 0) {
        (void)snprintf(logged.text, sizeof logged.text, "%s", text);
        atomic_fetch_add(&logged.lines, 1);
    }
}

static void an_error_that_ends_an_actor_is_logged_if_no_other_is_told(void **state) {
    (void)state;
    tide_log_set(TIDE_LOG_WARN, keep_line, NULL);
    lua_on(TIDE_ROLE_CONTROL, "start('core.title \"bird\" error \"no wings\"', {name = 'one'})\n"
                              "while core.whereis 'one' do core.sleep(0.001) end");
    assert_int_equal(atomic_load(&logged.lines), 1);
    assert_non_null(strstr(logged.text, "actor bird (child.lua) ended with an error, and no actor monitors it: "
                                        "child.lua:1: no wings"));
    lua_on(TIDE_ROLE_CONTROL, "start('this is no Lua', {name = 'two'})\n"
                              "while core.whereis 'two' do core.sleep(0.001) end");
    assert_int_equal(atomic_load(&logged.lines), 2);
    assert_non_null(strstr(logged.text, "actor two (child.lua)"));
    /* told: a monitor, a link; no error: killed; the program that runs a script is told by its outcome */
    lua("core.trap_exits(true)\n"
        "local a = start 'core.receive() error \"no legs\"' core.monitor(a) core.send(a, 1)\n"
        "assert(core.receive(5).kind == 'exit')\n"
        "start('error \"no tail\"', {link = true}) assert(core.receive(5).kind == 'exit')\n"
        "a = start('core.receive()', {name = 'three'}) core.kill(a)\n"
        "while core.whereis 'three' do core.sleep(0.001) end");
    struct script script;
    assert_int_equal(run_on(TIDE_ROLE_CONTROL, "error 'no beak'", &script), TIDE_ECRASHED);
    tide_log_set(TIDE_LOG_INFO, NULL, NULL);
    assert_int_equal(atomic_load(&logged.lines), 2);
}

static void failures_of_calls_are_told_apart(void **state) {
    (void)state;
    lua("local a = start [[ while true do local m = core.receive()\n"
        "    if m.value == 'refuse' then core.answer_error(m, {name = 'EBUSY', code = 'T0601', "
        "message = 'come back later',\n"
        "      where = 'child.lua:9', node = 'far'})\n"
        "    elseif m.value == 'text' then core.answer_error(m, 'plain words')\n"
        "    elseif m.value == 'die' then error 'dead' end end ]]\n"
        "local v, err = core.call(a, 'refuse') assert(v == nil and err.refused)\n"
        "assert(err.name == 'EBUSY' and err.code == 'T0601' and err.message == 'come back later' "
        "and\n"
        "  err.where == 'child.lua:9' and err.node == 'far', tostring(err))\n"
        "v, err = core.call(a, 'text') assert(err.name == 'EREFUSED' and err.message == 'plain "
        "words')\n"
        "v, err = core.call(a, 'silence', 0.05) assert(err.name == 'ETIMEDOUT')\n"
        "v, err = core.call(a, 'die') assert(err.name == 'EDIED', tostring(err))\n"
        "v, err = core.call('77:1234', 1) assert(err.name == 'EUNREACHABLE', err.name)\n"
        "assert(err.where:find '^test.lua:%d+$', err.where)");
}

static void receive_times_out_and_sleep_sleeps(void **state) {
    (void)state;
    lua("local t = core.now() local m, err = core.receive(0.02) assert(m == nil and err == nil)\n"
        "assert(core.now() - t >= 0.02) t = core.now() core.sleep(0.02) assert(core.now() - t >= "
        "0.02)\n"
        "m, err = core.receive(0) assert(m == nil and err == nil) core.sleep(0)\n"
        "fails('0 seconds or more', core.sleep, -1) assert(core.wall() > 1.6e9)");
}

static void fibers_run_side_by_side_in_one_state(void **state) {
    (void)state;
    lua("local log, hs, begun = {}, {}, 0\n"
        "for i = 1, 20 do hs[i] = core.fiber(function(a, b) begun = begun + 1 core.sleep(0.03) "
        "assert(begun == 20) log[#log + 1] = a return a, b, a + b end, i, 2) end\n"
        "for i = 1, 20 do local ok, a, b, c = core.fiber_wait(hs[i]) assert(ok == true and a == i "
        "and b == 2 and c == i + 2) end\n"
        "assert(#log == 20)\n"
        "local again = {core.fiber_wait(hs[3])} assert(again[2] == 3)\n"
        "local h = core.fiber(function() core.sleep(10) end)\n"
        "local ok, err = core.fiber_wait(h, 0.02) assert(ok == nil and err.name == 'ETIMEDOUT') "
        "core.fiber_cancel(h)\n"
        "local e = core.fiber(function() error 'boom' end) ok, err = core.fiber_wait(e)\n"
        "assert(ok == nil and err.message == 'boom' and err.where:find '^test.lua:%d+$' and "
        "err.trace)\n"
        "e = core.fiber(function() error({name = 'EMINE', message = 'm'}) end) ok, err = "
        "core.fiber_wait(e)\n"
        "assert(ok == nil and err.name == 'EMINE')\n"
        "fails('fiber', core.fiber_wait, {})");
}

static void fibers_collect_garbage_under_each_other(void **state) {
    (void)state;
    lua("local hs = {} for i = 1, 30 do hs[i] = core.fiber(function()\n"
        "  local keep = {} for j = 1, 40 do keep[j] = {j, tostring(j)}\n"
        "    local co = coroutine.wrap(function() core.sleep(0) coroutine.yield(j) end) "
        "assert(co() == j)\n"
        "    if j % 8 == 0 then collectgarbage 'step' end end\n"
        "  for j = 1, 40 do assert(keep[j][1] == j and keep[j][2] == tostring(j)) end return #keep "
        "end) end\n"
        "for i = 1, 30 do local ok, n = core.fiber_wait(hs[i]) assert(ok and n == 40, tostring(n)) "
        "end\n"
        "hs = nil collectgarbage() collectgarbage()");
}

static void a_cancelled_fiber_ends_even_inside_pcall(void **state) {
    (void)state;
    lua("local seen = 0\n"
        "local h = core.fiber(function() while true do pcall(function() seen = seen + 1 "
        "core.sleep(100) end) end end)\n"
        "core.sleep(0.01) core.fiber_cancel(h) local ok, err = core.fiber_wait(h, 5)\n"
        "assert(ok == nil and err.name == 'ECANCELED', tostring(err)) assert(seen == 1)\n"
        "local w = core.fiber(function() local inner = core.fiber(function() core.sleep(50) end)\n"
        "  return core.fiber_wait(inner) end) core.sleep(0.01) core.fiber_cancel(w)\n"
        "ok, err = core.fiber_wait(w, 5) assert(ok == nil and err.name == 'ECANCELED')");
}

static void a_script_that_ends_takes_its_fibers_along(void **state) {
    (void)state;
    lua("local a = start [[ for i = 1, 10 do core.fiber(function() while true do pcall(core.sleep, "
        "100) end end) end\n"
        "    core.fiber(function() core.receive() end) core.sleep(0.01) ]]\n"
        "core.monitor(a) local e = core.receive(5) assert(e.kind == 'exit' and e.code == 0, "
        "e.name)");
}

static void an_endless_loop_does_not_stop_the_control_thread(void **state) {
    (void)state;
    lua_on(TIDE_ROLE_CONTROL, "local a = start [[ while true do end ]]\n"
                              "local b = start [[ local co = coroutine.wrap(function() while true "
                              "do pcall(function() end) end end) co() ]]\n"
                              "local echo = start [[ while true do local m = core.receive() "
                              "core.answer(m, m.value) end ]]\n"
                              "for i = 1, 20 do assert(core.call(echo, i, 5) == i) end\n"
                              "core.monitor(a) core.monitor(b) core.kill(a) core.kill(b)\n"
                              "for i = 1, 2 do local e = core.receive(5) assert(e.kind == 'exit' "
                              "and e.name == 'EKILLED', e.name) end\n"
                              "core.kill(echo)");
}

static void a_killed_actor_ends_although_it_catches_errors(void **state) {
    (void)state;
    lua("local a = start [[ while true do pcall(function() while true do core.receive() end end) "
        "end ]]\n"
        "local b = start([[ while true do pcall(core.sleep, 1) end ]], {role = 'compute'})\n"
        "core.sleep(0.01) core.monitor(a) core.monitor(b) core.kill(a) core.kill(b)\n"
        "for i = 1, 2 do local e = core.receive(5) assert(e and e.kind == 'exit' and e.name == "
        "'EKILLED') end");
}

static void a_killed_actor_does_not_go_on_when_the_fiber_that_it_waits_for_has_ended(void **state) {
    (void)state;
    lua("local a = start [[ local m = core.receive() local f = core.fiber(core.sleep, 100)\n"
        "  core.fiber_wait(f) core.answer(m, 'goes on') core.sleep(100) ]]\n"
        "local answer, err\n"
        "local f = core.fiber(function() answer, err = core.call(a, 1, 5) end)\n"
        "core.sleep(0.01) core.kill(a) core.fiber_wait(f)\n"
        "assert(not answer and err.name == 'EDIED', answer or err.name)");
}

static void what_a_receiver_waits_for_does_not_wait_for_room_in_its_mailbox(void **state) {
    (void)state;
    lua("local full = start([[ core.sleep(100) ]], {role = 'compute'})\n"
        "local sent, tried, seen = 0, 0\n"
        "local f = core.fiber(function() while true do core.send(full, 1) tried = tried + 1 end end)\n"
        "repeat seen = tried core.sleep(0.01) until tried == seen and tried > 0\n"
        "local g = core.fiber(function() for _ = 1, 10000 do core.send(full, 1, 'answer') sent = sent + 1 end end)\n"
        "core.fiber_wait(g, 20) assert(sent == 10000, sent)\n"
        "core.fiber_cancel(f) core.kill(full)");
}

static void a_stack_shows_what_waits_loops_and_is_in_native_code(void **state) {
    (void)state;
#ifdef TIDE_TSAN
    skip(); /* it holds signals back until a thread waits: one that loops hears none */
#endif
    lua_on(TIDE_ROLE_CONTROL,
           "local function frames(a) local f = assert(core.stack(a)) return f[1].frames, f[1].waits_for end\n"
           "local function ends(a) core.monitor(a) core.kill(a)\n"
           "  repeat core.interrupt(a) local m = core.receive(0.02) until m and m.kind == 'exit' end\n"
           "local rests = start 'local function f()\\n core.receive()\\nend f() f()'\n"
           "local f, waits = frames(rests)\n"
           "assert(waits == 'receive' and f[1].name == 'receive' and f[1].kind == 'native')\n"
           "assert(f[2].where == 'child.lua:2' and f[2].name == 'f' and f[3].where == 'child.lua:3')\n"
           "local loops = start('local function f()\\n while true do\\n f = f\\n end end f() f()',\n"
           "  {role = 'compute'})\n"
           "for _ = 1, 3 do\n"
           "  f, waits = frames(loops)\n"
           "  assert(not waits and f[1].name == 'f' and f[1].where:find '^child.lua:[23]$' and f[1].kind == 'lua')\n"
           "  assert(f[2].where == 'child.lua:4')\n"
           "end\n"
           "local behind = start('core.receive()', {role = 'compute'})\n" /* it does not get the thread */
           "assert(not core.stack(behind))\n"
           "ends(loops)\n"
           "assert(frames(behind)[1].name == 'receive')\n"
           "local inner = start('local c = coroutine.wrap(function()\\n while true do end end)\\n c()',\n"
           "  {role = 'compute'})\n"
           "f = frames(inner)\n"
           "assert(f[1].where == 'child.lua:2' and f[#f].where == 'child.lua:3')\n"
           "ends(inner)\n"
           "local native = start('os.execute \"sleep 1\"\\ncore.receive()', {role = 'compute'})\n"
           "f, waits = frames(native)\n"
           "assert(not waits and f[1].kind == 'native' and f[1].name == 'execute' and f[2].where == 'child.lua:1')\n"
           "for _, a in ipairs {rests, behind, native} do core.monitor(a) core.kill(a) core.receive() end\n"
           "local gone, err = core.stack(rests) assert(not gone and err.name == 'ENOENT')\n"
           "local store for _, a in ipairs(core.actors()) do store = a.type == 'store' and a.address or store end\n"
           "gone, err = core.stack(store) assert(not gone and err.message:find 'no Lua actor')\n"
           "f = assert(core.stack(core.self())) assert(f[1].frames[2].where:find '^test.lua')");
}

static void links_and_traps_work_from_lua(void **state) {
    (void)state;
    lua("core.trap_exits(true) local a = start([[ core.receive() error 'broken' ]], {link = true}) "
        "core.send(a, 1)\n"
        "local e = core.receive(5) assert(e.kind == 'exit' and e.from == a and e.text:find "
        "'broken')\n"
        "assert(core.register 'me-too') assert(core.whereis 'me-too' == core.self())\n"
        "local t, err = core.register 'Not Valid' assert(not t)");
}

static void os_exit_is_refused_in_actors(void **state) {
    (void)state;
    lua("fails('os.exit would end the whole node', os.exit, 0)");
}

static unsigned open_files(void) {
    DIR *list = opendir("/proc/self/fd");
    unsigned count = 0;
    while (list && readdir(list)) {
        count++;
    }
    (void)closedir(list);
    return count;
}

/* The worker's thread does not come back to its scheduler before the disk's thread is done. */
static void a_fiber_that_is_cancelled_when_the_disk_is_done_leaves_no_file(void **state) {
    (void)state;
    char chunk[1000], path[64];
    const unsigned before = open_files();
    (void)snprintf(path, sizeof path, "%s/blocks", directory);
    (void)snprintf(chunk, sizeof chunk,
                   "local file, block = core.block_file('%s'), core.tensor('f32', {1, 2})\n"
                   "local f = core.fiber(function() file:write(block, 0) end)\n"
                   "core.fiber_wait(core.fiber(function() end))\n"
                   "local until_s = core.now() + 0.05 while core.now() < until_s do end\n"
                   "core.fiber_cancel(f) core.fiber_wait(f) file:close()",
                   path);
    lua_on(TIDE_ROLE_COMPUTE, chunk);
    for (int i = 0; i < 2000 && open_files() > before; i++) { /* the disk's thread was late, and drops it */
        (void)usleep(1000);
    }
    (void)unlink(path);
    assert_int_equal(open_files(), before);
}

static void the_node_describes_itself(void **state) {
    (void)state;
    lua("local n = core.node() assert(n.name == 'alone' and n.cluster == 'test' and n.id == 1 and "
        "n.controller == 1)\n"
        "local m = core.members() assert(#m == 1 and m[1].name == 'alone' and m[1].state == 'up' "
        "and m[1].store)\n"
        "local found for _, a in ipairs(core.actors()) do if a.address == core.self() then found = "
        "a end end\n"
        "assert(found and found.type == 'lua') assert(#core.links() == 0) assert(core.rss() > "
        "1e6)\n"
        "fails('only the program', core.node_start, {})");
}

static void keys_are_localized(void **state) {
    (void)state;
    lua("local m = assert(core.table {name = 'moving', keys = {'dense', 100}, width = 2, technique "
        "= 'relocate'})\n"
        "local s = assert(core.table {name = 'still', keys = {'dense', 100}, width = 2})\n"
        "assert(m.spec.technique == 'relocate' and s.spec.technique == 'static')\n"
        "local before = m:stats().localized local noop = s:stats().localize_noop\n"
        "assert(m:localize {1, 2} == true) local k = m:localize({3}, {async = true})\n"
        "assert(k:wait() == true and m:where(3) == 1)\n"
        "assert(m:stats().localized == before + 3 and m:stats().localize_noop == 0)\n"
        "assert(s:localize {1}) assert(s:stats().localize_noop == noop + 1)\n"
        "local r, err = m:localize {100} assert(not r and err.name == 'ERANGE')\n"
        "assert(m:slot(0) ~= m:slot(1) and m:slot(99) < 4096 and s:slot(7) == m:slot(7))\n"
        "fails('no key of the table', m.slot, m, 100) fails('no key of the table', m.slot, m, -1)\n"
        "fails('technique', core.table, {name = 'x', keys = {'dense', 1}, width = 1, technique = "
        "'teleport'})");
}

static void tables_are_pulled_and_pushed(void **state) {
    (void)state;
    lua("local t = assert(core.table {name = 'w', keys = {'dense', 100}, width = 3, init = 'zero', "
        "update = 'add'})\n"
        "assert(t.name == 'w' and t.width == 3 and t.spec.keys[1] == 'dense' and t.spec.keys[2] == "
        "100)\n"
        "assert(core.table_find 'w' == t) local before = t:pull({5})[1]\n"
        "assert(t:push({5, 7}, core.tensor('f32', {1, 2, 3, 4, 5, 6}, 3)))\n"
        "local r = t:pull {5, 7, 5} assert(r:rows() == 3 and r[1] == before + 1 and r[9] == r[3])\n"
        "local k = t:pull({5}, {async = true}) local rows = assert(k:wait()) assert(rows[1] == "
        "before + 1 and k:done())\n"
        "fails('already', k.wait, k)\n"
        "local into = core.tensor('f32', 1, 3) assert(t:pull({5}, {into = into}) == into and "
        "into[1] == before + 1)\n"
        "for i = 1, 100 do t:push(core.tensor('u64', {i % 100}), core.tensor('f32', 1, 3), {async "
        "= true}) end\n"
        "local p = t:push({1}, core.tensor('f32', 1, 3), {async = true}) assert(p:wait() == true)\n"
        "local l, hits = t:pull_local {1, 2} assert(#l == 6 and #hits == 2 and t:where(1) == 1)\n"
        "local x, err = pcall(t.pull, t, {100}) assert(not x and err.name == 'ERANGE' and "
        "err.message:find 'key 100', tostring(err))\n"
        "x, err = pcall(t.push, t, {3, 101}, {{1, 2, 3}, {4, 5, 6}}) assert(not x and err.name == "
        "'ERANGE' and err.message:find 'key 101')\n"
        "x, err = pcall(t.push, t, {100}, {1, 2, 3}, {async = true}) assert(not x and err.name == "
        "'ERANGE')\n"
        "before = t:pull({3, 4}):totable() t:push({3, 4}, {{1, 2, 3}, {4, 5, 6}}) t:push({4}, {1, "
        "1, "
        "1})\n"
        "local after = t:pull {3, 4} for i = 1, 6 do assert(after[i] == before[i] + i + (i > 3 and "
        "1 "
        "or 0)) end\n"
        "fails('want 2 rows, not 1', t.push, t, {1, 2}, {{1, 2, 3}}) fails('row 2 is not an array "
        "of "
        "3 numbers', t.push, t, {1, 2}, {{1, 2, 3}, {1}})\n"
        "fails('want 3 numbers, not 2', t.push, t, {1}, {1, 2}) fails('number 2 of row 1 is nil', "
        "t.push, t, {1}, {{1, nil, 3}}) fails('number 1 of row 1 is boolean', t.push, t, {1}, "
        "{true, 2, 3})\n"
        "fails('must be an f32 tensor', t.push, t, {1}, core.tensor('f32', 2)) fails('key 1', "
        "t.pull, t, {-1})\n"
        "assert(t:stats().rows > 0 and next(t:homes())) assert(core.tables()[1].name == 'w')\n"
        "fails('unknown field', core.table, {name = 'x', keyz = 1}) fails('needs a name', "
        "core.table, {})\n"
        "x, err = core.table {name = 'w', keys = {'dense', 5}, width = 3} assert(not x and "
        "err.name == 'EMISMATCH')\n"
        "x, err = core.table_find 'none' assert(not x and err.name == 'ENOENT')");
}

static void options_of_tables_are_rows_of_one_list(void **state) {
    (void)state;
    lua("local t = assert(core.table {name = 'o', keys = {'hashed', 50, admit_after = 3, evict = 'lfu'}, width = 2,\n"
        "  init = {'uniform', 0, 0.5}, update = {'momentum', lr = 0.5, momentum = 0.25}, slots = 'hash',\n"
        "  refuse_nan = true, clients = 'read', seed = 7})\n"
        "local s = t.spec\n"
        "assert(s.keys[1] == 'hashed' and s.keys[2] == 50 and s.keys.admit_after == 3 and s.keys.evict == 'lfu')\n"
        "assert(s.init[1] == 'uniform' and s.init[2] == 0 and s.init[3] == 0.5 and #s.init == 3)\n"
        "assert(s.update[1] == 'momentum' and s.update.lr == 0.5 and s.update.momentum == 0.25)\n"
        "assert(s.refuse_nan == true and s.clients == 'read' and s.bandwidth == 0 and s.seed == 7)\n"
        "assert(s.durability == 'none' and s.replicas == 0 and s.run == nil)\n"
        "assert(core.table(s) == t, 'what a handle tells makes the same table')\n"
        "local rows = core.table_options() assert(#rows > 5)\n"
        "for _, row in ipairs(rows) do\n"
        "  assert(s[row.name] ~= nil and #row.doc > 0, row.name)\n"
        "  fails(row.name, core.table, {name = 'x', keys = {'dense', 1}, width = 1, [row.name] = {}})\n"
        "end\n"
        "fails('out of range', core.table, {name = 'x', keys = {'dense', 1.5}, width = 1})\n"
        "fails('out of range', core.table, {name = 'x', keys = {'dense', 1}, width = 1, replicas = 256})\n"
        "fails('unknown field', core.table, {name = 'x', key_count = 1, width = 1})");
}

static void children_are_started_signalled_and_reported(void **state) {
    (void)state;
    lua("local p = assert(core.process({'/bin/sh', '-c', 'exit 3'})) assert(p:pid() > 1)\n"
        "for i = 1, 500 do if p:ended() then break end core.sleep(0.01) end\n"
        "local e = p:ended() assert(e and e.status == 3 and e.signal == 0)\n"
        "local q = assert(core.process {'/bin/sleep', '100'}) assert(q:ended() == nil) "
        "assert(q:signal(15))\n"
        "for i = 1, 500 do if q:ended() then break end core.sleep(0.01) end "
        "assert(q:ended().signal == 15)\n"
        "local x, err = q:signal(15) assert(not x)\n"
        "x, err = core.process {'/no/such/program'} assert(not x and err.name == 'ENOENT', "
        "tostring(err))\n"
        "fails('no program', core.process, {}) fails('argument 2', core.process, {'a', {}})");
}

static void a_thousand_lua_actors_start_and_stop(void **state) {
    (void)state;
    lua_on(
        TIDE_ROLE_CONTROL,
        "for round = 1, 50 do local as = {}\n"
        "  for i = 1, 20 do as[i] = start([[ local n = ... if n % 3 == 0 then error 'x' end\n"
        "      core.fiber(function() core.sleep(10) end) if n % 3 == 1 then core.receive() end "
        "]],\n"
        "      {argument = i, role = i % 2 == 0 and 'compute' or 'control'}) core.monitor(as[i]) "
        "end\n"
        "  for i = 1, 20 do if i % 3 == 1 then core.kill(as[i]) end end\n"
        "  for i = 1, 20 do local e = assert(core.receive(20)) assert(e.kind == 'exit') end end");
}

static void the_program_starts_a_node_runs_scripts_and_stops_it(void **state) {
    (void)state;
    static const char chunk[] =
        "local core, listen = require 'tide.core', ...\n"
        "assert(core.node() == nil and core.interrupted() == 0)\n"
        "assert(core.node_start {cluster = 'second', name = 'p', listen = listen, workers = 0})\n"
        "local t, err = core.node_start {} assert(t == nil and err.name == 'EEXIST')\n"
        "local r = assert(core.node_run('local a = ... return {a.x + 1, a.t}', '@s.lua',\n"
        "  {x = 1, t = core.tensor('f32', {1.5})})) assert(r[1] == 2 and r[2][1] == 1.5)\n"
        "assert(core.node_run('return', '@s.lua') == nil)\n"
        "t, err = core.node_run('\\n error \"bad\"', '@s.lua')\n"
        "assert(t == nil and err.message == 'bad' and err.where == 's.lua:2' and err.trace, "
        "tostring(err))\n"
        "t, err = core.node_run('error {name = \"EMINE\", code = \"T0001\", message = \"m\"}')\n"
        "assert(t == nil and err.name == 'EMINE' and err.code == 'T0001', err.name)\n"
        "t, err = core.node_run('no Lua', '@s.lua') assert(t == nil and err.where == 's.lua:1')\n"
        "os.execute 'kill -TERM $PPID'\n"
        "for i = 1, 500 do if core.interrupted() > 0 then break end core.sleep(0.01) end\n"
        "assert(core.interrupted() == 1)\n"
        "assert(core.node_stop(1)) assert(core.node() == nil)\n"
        "assert(not pcall(core.node_run, 'return'))";
    struct tide_port *port;
    struct tide_lua *host;
    char listen[100];
    (void)snprintf(listen, sizeof listen, "unix:%s/p.sock", directory);
    assert_int_equal(tide_port_real_create(2, &port), 0);
    assert_int_equal(tide__lua_create(NULL, port, false, &host), 0);
    assert_int_equal(tide__lua_load(host->L, chunk, strlen(chunk), "=test"), LUA_OK);
    lua_pushstring(host->L, listen);
    if (lua_pcall(host->L, 1, 0, 0) != LUA_OK) {
        fail_msg("%s", luaL_tolstring(host->L, -1, NULL));
    }
    tide__lua_destroy(host);
    port->ops->destroy(port);
    (void)unlink(listen + strlen("unix:"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_actors_exchange_messages),
        cmocka_unit_test(the_argument_and_the_name_reach_the_actor),
        cmocka_unit_test(a_script_error_reaches_the_monitor_with_its_line),
        cmocka_unit_test(an_error_that_ends_an_actor_is_logged_if_no_other_is_told),
        cmocka_unit_test(failures_of_calls_are_told_apart),
        cmocka_unit_test(receive_times_out_and_sleep_sleeps),
        cmocka_unit_test(fibers_run_side_by_side_in_one_state),
        cmocka_unit_test(fibers_collect_garbage_under_each_other),
        cmocka_unit_test(a_cancelled_fiber_ends_even_inside_pcall),
        cmocka_unit_test(a_script_that_ends_takes_its_fibers_along),
        cmocka_unit_test(an_endless_loop_does_not_stop_the_control_thread),
        cmocka_unit_test(a_killed_actor_ends_although_it_catches_errors),
        cmocka_unit_test(a_killed_actor_does_not_go_on_when_the_fiber_that_it_waits_for_has_ended),
        cmocka_unit_test(what_a_receiver_waits_for_does_not_wait_for_room_in_its_mailbox),
        cmocka_unit_test(a_stack_shows_what_waits_loops_and_is_in_native_code),
        cmocka_unit_test(links_and_traps_work_from_lua),
        cmocka_unit_test(os_exit_is_refused_in_actors),
        cmocka_unit_test(a_fiber_that_is_cancelled_when_the_disk_is_done_leaves_no_file),
        cmocka_unit_test(the_node_describes_itself),
        cmocka_unit_test(tables_are_pulled_and_pushed),
        cmocka_unit_test(options_of_tables_are_rows_of_one_list),
        cmocka_unit_test(keys_are_localized),
        cmocka_unit_test(children_are_started_signalled_and_reported),
        cmocka_unit_test(the_program_starts_a_node_runs_scripts_and_stops_it),
        cmocka_unit_test(a_thousand_lua_actors_start_and_stop),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
