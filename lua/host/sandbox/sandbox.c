/* Sandboxes: creation, budgets, steps; see sandbox.h. `core.sandbox` at the end. */
#include "sandbox.h"

#include <string.h>

#define METATABLE "tide.sandbox"
#define SLICE UINT64_C(2000000) /* ns */
/* Instructions below which a missed deadline is the machine's fault: it was busy with others. */
#define GUILTY UINT64_C(10000)
#define REFUSAL                                                                                                        \
    UINT64_C(200000) /* instructions that an allocation costs which is refused: a full collection                      \
                      */

static const char state_key, functions_key; /* addresses are registry keys of the sandbox */

struct tide_sandbox *tide__sandbox_of(lua_State *L) {
    struct tide_sandbox **owner; /* a sandbox or a host; of both, `self` is first */
    memcpy(&owner, lua_getextraspace(L), sizeof owner);
    return *owner ? *owner : tide__console_limits(tide__lua_host(L));
}

/* ---- memory ---- */

/* Lua collects everything after the first refusal and retries. A state that is over its memory
 * gets a little more: it ends within a hook's distance, and a collection for each allocation until
 * then would take seconds. */
static bool allowed(struct tide_sandbox *s, size_t old_size, size_t size, bool string) {
    if (size <= old_size) {
        return true;
    }
    if (string && size > TIDE_SANDBOX_STRING_MAX + 64) {
        s->used += REFUSAL;
        return false;
    }
    size_t more = size - old_size;
    if (more <= s->memory_max && s->memory <= s->memory_max - more) {
        s->refused = false;
        return true;
    }
    if (s->over == TIDE_SANDBOX_MEMORY) {
        return more <= s->memory_max && s->memory + more <= 2 * s->memory_max;
    }
    s->used += REFUSAL;
    if (s->refused) {
        s->over = TIDE_SANDBOX_MEMORY;
    }
    s->refused = true;
    return false;
}

static void *allocate(void *ud, void *memory, size_t old_size, size_t size) {
    struct tide_sandbox *s = ud;
    bool string = !memory && old_size == LUA_TSTRING; /* without memory it is the kind of object */
    size_t had = memory ? old_size : 0;
    if (size == 0) {
        s->memory -= had;
        tide_free(memory);
        return NULL;
    }
    if (!allowed(s, had, size, string)) {
        return NULL;
    }
    void *grown = tide_realloc(memory, size);
    if (grown) {
        s->memory = s->memory - had + size;
        s->memory_peak = s->memory > s->memory_peak ? s->memory : s->memory_peak;
    }
    return grown;
}

/* ---- budget ---- */

static void look_at_clock(struct tide_sandbox *s) {
    if (s->port->simulated) {
        return;
    }
    uint64_t now = tide_port_now(s->port);
    if (now >= s->deadline && s->used >= GUILTY) {
        s->over = TIDE_SANDBOX_TIME;
        return;
    }
    if (now - s->slice >= SLICE && tide_fiber_current()) {
        int code = tide_yield();
        s->resumed = code < 0 ? code : s->resumed;
        if (code < 0 && s->self != s && s->over == TIDE_SANDBOX_WITHIN) { /* a console's: it is not read later */
            s->over = TIDE_SANDBOX_CANCELLED;
        }
        s->slice = tide_port_now(s->port);
        s->deadline += s->deadline == TIDE_NEVER ? 0 : s->slice - now; /* others' time is not its own */
        s->started += s->slice - now;
    }
}

void tide__sandbox_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    struct tide_sandbox *s = tide__sandbox_of(L);
    s->used += s->every;
    if (s->over == TIDE_SANDBOX_WITHIN) {
        if (s->used > s->limit) {
            s->over = TIDE_SANDBOX_INSTRUCTIONS;
        } else {
            look_at_clock(s);
        }
    }
    if (s->over != TIDE_SANDBOX_WITHIN) {
        lua_sethook(L, tide__sandbox_hook, LUA_MASKCOUNT, 1);
        if (lua_isyieldable(L)) {
            lua_yield(L, 0);
            return;
        }
        luaL_error(L, "over budget");
    }
}

void tide__sandbox_charge(lua_State *L, struct tide_sandbox *s, uint64_t instructions) {
    if (!s || s->building) {
        return;
    }
    s->used += instructions;
    if (s->over == TIDE_SANDBOX_WITHIN && s->used > s->limit) {
        s->over = TIDE_SANDBOX_INSTRUCTIONS;
    } else if (s->over == TIDE_SANDBOX_WITHIN && s->self != s) { /* no limit ends a long match */
        look_at_clock(s);
    }
    if (s->over != TIDE_SANDBOX_WITHIN) {
        lua_sethook(L, tide__sandbox_hook, LUA_MASKCOUNT, 1);
        luaL_error(L, "over budget");
    }
}

/* ---- compiling ---- */

enum { PIECE = 256 }; /* bytes between two looks: 65 ms of compiling at worst with 4 KiB */

struct pieces {
    const char *at;
    size_t left;
    struct tide_sandbox *s;
};

static const char *next_piece(lua_State *L, void *arg, size_t *size) {
    struct pieces *p = arg;
    struct tide_sandbox *s = p->s;
    const char *piece = p->at;
    *size = p->left < PIECE ? p->left : PIECE;
    p->at += *size;
    p->left -= *size;
    s->used += *size;
    if (s->over == TIDE_SANDBOX_WITHIN && s->used > s->limit) {
        s->over = TIDE_SANDBOX_INSTRUCTIONS;
    } else if (s->over == TIDE_SANDBOX_WITHIN) {
        look_at_clock(s);
    }
    if (s->over != TIDE_SANDBOX_WITHIN) {
        luaL_error(L, "over budget");
    }
    return piece;
}

int tide__sandbox_compile(lua_State *L, struct tide_sandbox *s, const char *source, size_t size, const char *chunk) {
    struct pieces pieces = {source, size, s};
    return lua_load(L, next_piece, &pieces, chunk, "t");
}

/* ---- states ---- */

static int build(lua_State *L) {
    return tide__sandbox_environment(L);
}

static int sandbox_init(struct tide_sandbox *s) {
    s->building = true;
    s->self = s;
    s->every = TIDE_SANDBOX_HOOK;
    s->L = lua_newstate(allocate, s);
    if (!s->L) {
        return tide_fail(TIDE_ENOMEM, "out of memory for a sandbox");
    }
    memcpy(lua_getextraspace(s->L), &s, sizeof s);
    lua_pushcfunction(s->L, build);
    int status = lua_pcall(s->L, 0, 0, 0);
    s->building = false;
    if (status != LUA_OK) {
        lua_close(s->L);
        s->L = NULL;
        return tide_fail(TIDE_ENOMEM, "out of memory for a sandbox");
    }
    return 0;
}

/* ---- steps ---- */

static const char *over_text(const struct tide_sandbox *s, char *text, size_t size) {
    switch (s->over) {
    case TIDE_SANDBOX_MEMORY:
        (void)snprintf(text, size, "it needs more than its %zu MiB of memory", s->memory_max >> 20);
        break;
    case TIDE_SANDBOX_TIME:
        (void)snprintf(text, size, "it takes longer than its %.0f ms", (double)(s->deadline - s->started) / 1e6);
        break;
    default:
        (void)snprintf(text, size, "it takes more than its %llu instructions", (unsigned long long)s->limit);
    }
    return text;
}

/* On the sandbox's own stack: text and trace of the error object 1 that coroutine 2 left. No
 * metamethod runs: nothing counts here any more. Light userdata: it yielded. */
static int describe_error(lua_State *L) {
    if (lua_islightuserdata(L, 1)) {
        lua_pushliteral(L, "a yield outside of a coroutine");
    } else if (lua_type(L, 1) == LUA_TNIL) {
        lua_pushliteral(L, "an error without a value");
    } else if (lua_type(L, 1) == LUA_TSTRING || lua_type(L, 1) == LUA_TNUMBER) {
        lua_pushvalue(L, 1);
    } else {
        lua_pushfstring(L, "an error object that is a %s", luaL_typename(L, 1));
    }
    luaL_traceback(L, lua_tothread(L, 2), lua_tostring(L, -1), 0);
    return 2;
}

/* Pushes {kind=, message=, trace=} on the host's stack. */
static void push_fault(lua_State *L, const char *kind, const char *message, const char *trace) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, message);
    lua_setfield(L, -2, "message");
    if (trace) {
        lua_pushstring(L, trace);
        lua_setfield(L, -2, "trace");
    }
}

static void begin(struct tide_sandbox *s, uint64_t instructions, uint64_t ns) {
    s->used = 0;
    s->limit = instructions;
    s->started = s->slice = tide_port_now(s->port);
    s->deadline = ns == TIDE_NEVER || s->port->simulated ? TIDE_NEVER : s->started + ns;
    s->over = TIDE_SANDBOX_WITHIN;
    s->refused = false;
    s->resumed = 0;
    s->log_size = 0;
}

static int new_thread(lua_State *L) {
    lua_newthread(L);
    return 1;
}

/* The error of a step that ended in one: nil and a fault on L's stack. */
static void push_error(lua_State *L, struct tide_sandbox *s, lua_State *co, int status) {
    lua_settop(s->L, 1); /* the coroutine */
    if (status == LUA_YIELD) {
        lua_pushlightuserdata(s->L, co); /* no script can raise one */
    } else {
        lua_xmove(co, s->L, 1);
    }
    lua_pushcfunction(s->L, describe_error);
    lua_insert(s->L, 1);
    lua_insert(s->L, 2); /* the error before its coroutine */
    bool described = lua_pcall(s->L, 2, 2, 0) == LUA_OK;
    lua_pushnil(L);
    push_fault(L, "error", described ? lua_tostring(s->L, -2) : "an error without room for its text",
               described ? lua_tostring(s->L, -1) : NULL);
}

/* Runs the function with `arguments` on top of the sandbox's stack in a coroutine, which becomes
 * the only thing there. 0: its results are on *out's stack; else nil and a fault are on L's, and
 * the state is broken. */
static int run(lua_State *L, struct tide_sandbox *s, int arguments, lua_State **out, int *results) {
    lua_pushcfunction(s->L, new_thread);
    if (lua_pcall(s->L, 0, 1, 0) != LUA_OK) {
        s->broken = true;
        lua_pushnil(L);
        push_fault(L, "memory", "there is no memory for a step", NULL);
        return TIDE_ENOMEM;
    }
    lua_State *co = lua_tothread(s->L, -1);
    lua_insert(s->L, 1);
    lua_xmove(s->L, co, arguments + 1);
    lua_sethook(co, tide__sandbox_hook, LUA_MASKCOUNT, TIDE_SANDBOX_HOOK);
    s->step = co;
    int status = lua_resume(co, NULL, arguments, results);
    s->step = NULL;
    s->ns = tide_port_now(s->port) - s->started;
    if (s->over == TIDE_SANDBOX_WITHIN && s->used > s->limit) {
        s->over = TIDE_SANDBOX_INSTRUCTIONS;
    }
    if (s->over == TIDE_SANDBOX_WITHIN && status == LUA_OK) {
        *out = co;
        return 0;
    }
    s->broken = true;
    if (s->over == TIDE_SANDBOX_WITHIN) {
        push_error(L, s, co, status);
        return TIDE_ECRASHED;
    }
    char text[100];
    lua_pushnil(L);
    push_fault(L, s->over == TIDE_SANDBOX_MEMORY ? "memory" : "budget", over_text(s, text, sizeof text), NULL);
    return TIDE_ELIMIT;
}

static struct tide_sandbox *check(lua_State *L) {
    struct tide_sandbox *s = luaL_checkudata(L, 1, METATABLE);
    if (!s->L) {
        luaL_error(L, "this sandbox is closed");
    }
    if (s->step) {
        luaL_error(L, "this sandbox is in a step");
    }
    return s;
}

/* Budget of one step: {instructions=, seconds=} at `index`; seconds absent: no deadline. */
static void begin_from(lua_State *L, struct tide_sandbox *s, int index) {
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "instructions");
    lua_getfield(L, index, "seconds");
    lua_Number instructions = luaL_checknumber(L, -2);
    uint64_t ns = tide__lua_duration(L, lua_gettop(L), TIDE_NEVER);
    luaL_argcheck(L, instructions >= 1 && instructions <= 1e15, index, "instructions: 1 or more");
    lua_pop(L, 2);
    begin(s, (uint64_t)instructions, ns);
}

/* After a step: raises when the actor was cancelled meanwhile. */
static int finish(lua_State *L, struct tide_sandbox *s, int pushed) {
    if (s->L) {
        lua_settop(s->L, 0);
    }
    (void)tide__lua_resumed(L, s->resumed);
    return pushed;
}

/* ---- in the sandbox, protected: what comes before and after the script's code ---- */

struct bytes {
    const char *data;
    size_t size;
};

struct entry { /* of a step: pushes the function and its arguments */
    const char *function;
    struct bytes arguments[2];
    int argument_count;
    bool state_first, random, kernels;
};

/* view.jobs gets its index view.job, and so on: the same objects by id. */
static void add_indices(lua_State *L, int view) {
    static const char *const lists[][2] = {{"jobs", "job"},       {"nodes", "node"},   {"workers", "worker"},
                                           {"servers", "server"}, {"tables", "table"}, {"tensors", "tensor"},
                                           {"chunks", "chunk"}};
    for (size_t i = 0; i < TIDE_COUNT(lists); i++) {
        lua_Integer count = 0;
        bool free = lua_getfield(L, view, lists[i][1]) == LUA_TNIL;
        if (lua_getfield(L, view, lists[i][0]) == LUA_TTABLE && free) {
            lua_newtable(L);
            while (lua_rawgeti(L, -2, ++count) == LUA_TTABLE) {
                lua_getfield(L, -1, "id");
                lua_insert(L, -2);
                if (lua_isinteger(L, -2)) {
                    lua_rawset(L, -3);
                } else {
                    lua_pop(L, 2);
                }
            }
            lua_pop(L, 1);
            lua_setfield(L, view, lists[i][1]);
        }
        lua_settop(L, view);
    }
}

static int enter(lua_State *L) {
    const struct entry *e = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
    lua_getfield(L, 1, e->function);
    lua_remove(L, 1);
    if (e->state_first) {
        lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
    }
    for (int i = 0; i < e->argument_count; i++) {
        if (!e->arguments[i].data) {
            lua_pushnil(L);
        } else if (tide__plain_decode(L, e->arguments[i].data, e->arguments[i].size) < 0) {
            return luaL_error(L, "the argument is no plain value");
        }
    }
    if (e->random) {
        lua_pushcfunction(L, tide__sandbox_random);
        lua_setfield(L, -2, "rng");
        add_indices(L, lua_gettop(L));
    }
    if (e->kernels) {
        tide__lua_push_numeric(L, tide__sandbox_of(L));
    }
    return lua_gettop(L);
}

/* Enters `e` and runs it. 0 and the coroutine, or nil and a fault on L's stack. */
static int step(lua_State *L, struct tide_sandbox *s, struct entry *e, lua_State **co, int *results) {
    if (s->broken) {
        lua_pushnil(L);
        push_fault(L, "error", "an earlier step has failed: this state is not used any more", NULL);
        return TIDE_EINVAL;
    }
    lua_pushcfunction(s->L, enter);
    lua_pushlightuserdata(s->L, e);
    s->building = true;
    bool entered = lua_pcall(s->L, 1, LUA_MULTRET, 0) == LUA_OK;
    s->building = false;
    if (!entered) {
        s->broken = true;
        lua_pushnil(L);
        push_fault(L, "memory", "its arguments do not fit into its memory", NULL);
        return TIDE_ENOMEM;
    }
    return run(L, s, lua_gettop(s->L) - 1, co, results);
}

/* Pushes what the step returned first as bytes, or nil and a fault. */
static int give_result(lua_State *L, lua_State *co, int results, const char *what, bool functions, size_t items_max,
                       size_t bytes_max) {
    struct tide_plain out = {.functions = functions, .items_max = items_max, .bytes_max = bytes_max};
    if (results == 0) {
        lua_pushnil(co);
        results = 1;
    }
    int code = tide__plain_encode(co, lua_gettop(co) - results + 1, &out);
    if (code < 0) {
        char text[300];
        tide_free(out.data);
        (void)snprintf(text, sizeof text, "%s%s: only numbers, strings, booleans and tables of them travel", what,
                       out.reason);
        lua_pushnil(L);
        push_fault(L, code == TIDE_ELIMIT ? "shape" : "error", text, NULL);
        return 2;
    }
    return tide__plain_push(L, &out);
}

/* ---- methods ---- */

/* Keeps the functions of the policy table: what the script does to it later changes nothing. */
static int keep_functions(lua_State *L) {
    static const char *const names[] = {"init", "decide", "export"};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_createtable(L, 0, 3);
    for (size_t i = 0; i < TIDE_COUNT(names); i++) {
        lua_pushstring(L, names[i]);
        lua_rawget(L, 1);
        if (lua_type(L, -1) == LUA_TFUNCTION) {
            tide__sandbox_of(L)->exports = i == 2;
            lua_setfield(L, -2, names[i]);
        } else {
            lua_pop(L, 1);
        }
    }
    lua_rawsetp(L, LUA_REGISTRYINDEX, &functions_key);
    return 0;
}

/* s:load(source, chunk, budget) -> what the chunk returned as bytes (functions as true) | nil,
 * fault */
static int sandbox_load(lua_State *L) {
    struct tide_sandbox *s = check(L);
    size_t size;
    const char *source = luaL_checklstring(L, 2, &size), *chunk = luaL_checkstring(L, 3);
    begin_from(L, s, 4);
    lua_settop(s->L, 0);
    const size_t most = s->port->simulated ? TIDE_SANDBOX_SOURCE_MAX_SIMULATED : TIDE_SANDBOX_SOURCE_MAX;
    if (s->broken || size > most) {
        char why[80];
        (void)snprintf(why, sizeof why, "the source has %zu bytes; a policy may have %zu", size, most);
        lua_pushnil(L);
        push_fault(L, "error", s->broken ? "an earlier step has failed" : why, NULL);
        return 2;
    }
    int status = tide__sandbox_compile(s->L, s, source, size, chunk);
    if (status != LUA_OK && s->over != TIDE_SANDBOX_WITHIN && s->over != TIDE_SANDBOX_MEMORY) {
        char text[100];
        s->broken = true;
        s->ns = tide_port_now(s->port) - s->started;
        lua_pushnil(L);
        push_fault(L, "budget", over_text(s, text, sizeof text), NULL);
        return finish(L, s, 2);
    }
    if (status != LUA_OK) {
        s->broken = true;
        lua_pushnil(L);
        push_fault(L, status == LUA_ERRMEM ? "memory" : "error", lua_tostring(s->L, -1), NULL);
        return finish(L, s, 2);
    }
    lua_State *co = NULL;
    int results = 0;
    if (run(L, s, 0, &co, &results) < 0) {
        return finish(L, s, 2);
    }
    if (results == 0 || lua_type(co, lua_gettop(co) - results + 1) != LUA_TTABLE) {
        s->broken = true;
        lua_pushnil(L);
        push_fault(L, "error", "the file returns no table", NULL);
        return finish(L, s, 2);
    }
    int pushed = give_result(L, co, results, "policy", true, 100000, TIDE_SANDBOX_STRING_MAX);
    lua_settop(co, lua_gettop(co) - results + 1);
    lua_xmove(co, s->L, 1);
    lua_pushcfunction(s->L, keep_functions);
    lua_insert(s->L, -2);
    s->broken = lua_pcall(s->L, 1, 0, 0) != LUA_OK || pushed != 1;
    return finish(L, s, pushed);
}

static int keep_state(lua_State *L) {
    lua_settop(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
    return 0;
}

static struct bytes bytes_at(lua_State *L, int index) {
    struct bytes b = {0};
    if (!lua_isnoneornil(L, index)) {
        b.data = luaL_checklstring(L, index, &b.size);
    }
    return b;
}

/* s:init(params, saved, seed, budget) -> true | nil, fault */
static int sandbox_init_step(lua_State *L) {
    struct tide_sandbox *s = check(L);
    struct entry e = {.function = "init", .arguments = {bytes_at(L, 2), bytes_at(L, 3)}, .argument_count = 2};
    tide_random_seed(&s->random, (uint64_t)luaL_checkinteger(L, 4));
    begin_from(L, s, 5);
    lua_State *co = NULL;
    int results = 0;
    if (step(L, s, &e, &co, &results) < 0) {
        return finish(L, s, 2);
    }
    if (results == 0) {
        lua_pushnil(co);
        results = 1;
    }
    lua_settop(co, lua_gettop(co) - results + 1);
    lua_xmove(co, s->L, 1);
    lua_pushcfunction(s->L, keep_state);
    lua_insert(s->L, -2);
    s->broken = lua_pcall(s->L, 1, 0, 0) != LUA_OK;
    lua_pushboolean(L, 1);
    return finish(L, s, 1);
}

/* s:decide(view, seed, budget) -> plan as bytes | nil, fault */
static int sandbox_decide(lua_State *L) {
    struct tide_sandbox *s = check(L);
    struct entry e = {.function = "decide",
                      .arguments = {bytes_at(L, 2)},
                      .argument_count = 1,
                      .state_first = true,
                      .random = true,
                      .kernels = true};
    tide_random_seed(&s->random, (uint64_t)luaL_checkinteger(L, 3));
    begin_from(L, s, 4);
    lua_State *co = NULL;
    int results = 0;
    if (step(L, s, &e, &co, &results) < 0) {
        return finish(L, s, 2);
    }
    return finish(L, s, give_result(L, co, results, "plan", false, 200000, 1 << 23));
}

/* s:export(budget) -> exported state as bytes (nil without such a function) | nil, fault */
static int sandbox_export(lua_State *L) {
    struct tide_sandbox *s = check(L);
    struct entry e = {.function = "export", .state_first = true};
    begin_from(L, s, 2);
    if (!s->exports) {
        lua_pushnil(L);
        return 1;
    }
    lua_State *co = NULL;
    int results = 0;
    if (step(L, s, &e, &co, &results) < 0) {
        return finish(L, s, 2);
    }
    return finish(L, s, give_result(L, co, results, "export", false, 200000, TIDE_SANDBOX_STRING_MAX));
}

/* s:usage() -> {instructions=, seconds=, memory_bytes=, memory_peak_bytes=, log=} of the last step
 */
static int sandbox_usage(lua_State *L) {
    struct tide_sandbox *s = luaL_checkudata(L, 1, METATABLE);
    lua_createtable(L, 0, 5);
    tide__lua_set_integer(L, "instructions", s->used);
    lua_pushnumber(L, (lua_Number)s->ns / 1e9);
    lua_setfield(L, -2, "seconds");
    tide__lua_set_integer(L, "memory_bytes", s->memory);
    tide__lua_set_integer(L, "memory_peak_bytes", s->memory_peak);
    lua_pushlstring(L, s->log, s->log_size);
    lua_setfield(L, -2, "log");
    return 1;
}

static int sandbox_close(lua_State *L) {
    struct tide_sandbox *s = luaL_checkudata(L, 1, METATABLE);
    if (s->L && !s->step) {
        lua_close(s->L);
        s->L = NULL;
    }
    return 0;
}

/* core.sandbox(memory_bytes) -> sandbox | nil, err */
static int core_sandbox(lua_State *L) {
    lua_Integer memory = luaL_checkinteger(L, 1);
    luaL_argcheck(L, memory >= 1 << 18, 1, "a sandbox needs 256 KiB");
    struct tide_sandbox *s = lua_newuserdatauv(L, sizeof *s, 0);
    memset(s, 0, sizeof *s);
    s->port = tide__lua_host(L)->port;
    s->memory_max = (size_t)memory;
    luaL_setmetatable(L, METATABLE);
    int code = sandbox_init(s);
    return code < 0 ? tide__lua_failure(L, code) : 1;
}

void tide__lua_open_sandbox(lua_State *L) {
    static const luaL_Reg methods[] = {{"load", sandbox_load},
                                       {"init", sandbox_init_step},
                                       {"decide", sandbox_decide},
                                       {"export", sandbox_export},
                                       {"usage", sandbox_usage},
                                       {"close", sandbox_close},
                                       {NULL, NULL}};
    if (luaL_newmetatable(L, METATABLE)) {
        luaL_newlib(L, methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, sandbox_close);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, sandbox_close);
        lua_setfield(L, -2, "__close");
    }
    lua_pop(L, 1);
    lua_pushcfunction(L, core_sandbox);
    lua_setfield(L, -2, "sandbox");
    tide__lua_push_numeric(L, NULL);
    lua_setfield(L, -2, "k");
}
