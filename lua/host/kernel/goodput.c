/*
 * `k.goodput`, `k.best_batch`, `k.fit_goodput`, `k.noise`, `k.sizes`: the models of
 * kernels/decide/goodput.c for policies and scripts. Everything is plain tables, so views and states
 * that hold it can be recorded and replayed.
 */
#include "decide/numeric.h"

#include "lua/host/sandbox/sandbox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 4096, ROWS_MAX = 4096, NUMBERS = 7 };
enum { FIT_WORK = 12000, BEST_WORK = 2000 }; /* instructions: of a row of a fit, of a best batch */

static void charge(lua_State *L, double instructions) {
    tide__sandbox_charge(L, lua_touserdata(L, lua_upvalueindex(1)), (uint64_t)instructions);
}

static int fail(lua_State *L, const char *name) {
    return luaL_error(L, "k.%s: %s", name, tide_error_message());
}

/* A field that is a finite number; `otherwise` where it is nil. NaN: it must be there. */
static double number_field(lua_State *L, int table, const char *field, double otherwise, const char *what) {
    lua_getfield(L, table, field);
    int is_number = 1;
    const double value = lua_isnil(L, -1) ? otherwise : lua_tonumberx(L, -1, &is_number);
    if (!is_number || isnan(value) || (isinf(value) && !isinf(otherwise))) {
        luaL_error(L, "%s.%s is %s, not a finite number", what, field, luaL_typename(L, -1));
    }
    lua_pop(L, 1);
    return value;
}

/* ---- fit_goodput ---- */

/* k.fit_goodput(rows) -> {ag, bg, al, bl, an, bn, g}, loss; rows[i] = {n =, K =, m =, t_a =, t_o =,
 * weight = 1} */
static int k_fit_goodput(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    const size_t count = lua_rawlen(L, 1);
    luaL_argcheck(L, count >= 1 && count <= ROWS_MAX, 1, "1 to 4096 rows");
    charge(L, (double)count * FIT_WORK);
    struct tide_throughput_row *rows = lua_newuserdatauv(L, count * sizeof *rows, 0);
    for (size_t i = 0; i < count; i++) {
        char what[48];
        (void)snprintf(what, sizeof what, "k.fit_goodput: rows[%zu]", i + 1);
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        if (!lua_istable(L, -1)) {
            return luaL_error(L, "%s must be a table", what);
        }
        const int row = lua_gettop(L);
        rows[i].machines = number_field(L, row, "n", NAN, what);
        rows[i].slots = number_field(L, row, "K", NAN, what);
        rows[i].batch = number_field(L, row, "m", NAN, what);
        rows[i].pass_s = number_field(L, row, "t_a", NAN, what);
        rows[i].step_s = number_field(L, row, "t_o", NAN, what);
        rows[i].weight = number_field(L, row, "weight", 1, what);
        lua_pop(L, 1);
    }
    struct tide_throughput p;
    double loss;
    if (tide_goodput_fit(rows, count, &p, &loss) < 0) {
        return fail(L, "fit_goodput");
    }
    const double list[NUMBERS] = {p.ag, p.bg, p.al, p.bl, p.an, p.bn, p.g};
    lua_createtable(L, NUMBERS, 0);
    for (int i = 0; i < NUMBERS; i++) {
        lua_pushnumber(L, list[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushnumber(L, loss);
    return 2;
}

/* ---- goodput ---- */

/* What is known of a job; false: it has no model yet. */
static bool read_job(lua_State *L, int job, const char *name, struct tide_goodput_job *out) {
    char what[48];
    (void)snprintf(what, sizeof what, "k.%s: job.batch", name);
    *out = (struct tide_goodput_job){.start = 1, .max = 1, .low = 1, .high = INFINITY};
    if (lua_getfield(L, job, "batch") == LUA_TTABLE) {
        const int batch = lua_gettop(L);
        out->start = number_field(L, batch, "start", NAN, what);
        out->max = number_field(L, batch, "max", out->start, what);
        out->low = number_field(L, batch, "lo", 1, what);
        out->high = number_field(L, batch, "hi", INFINITY, what);
    } else if (lua_getfield(L, job, "request") == LUA_TTABLE) {
        out->start = out->max = number_field(L, lua_gettop(L), "batch", 1, what);
    }
    if (!(out->start >= 1 && out->max >= out->start && out->low >= 1 && out->high >= out->low)) {
        luaL_error(L, "%s requires 1 <= start <= max and 1 <= lo <= hi", what);
    }
    if (lua_getfield(L, job, "gns") == LUA_TTABLE) {
        (void)snprintf(what, sizeof what, "k.%s: job.gns", name);
        out->sqr = fmax(number_field(L, lua_gettop(L), "sqr", NAN, what), 0);
        out->var = fmax(number_field(L, lua_gettop(L), "var", NAN, what), 1e-6);
    } else {
        out->max = out->start; /* nothing says what a larger one would be worth */
    }
    if (lua_getfield(L, job, "perf") != LUA_TTABLE) {
        return false;
    }
    double x[NUMBERS];
    const int perf = lua_gettop(L);
    for (int i = 0; i < NUMBERS; i++) {
        lua_rawgeti(L, perf, i + 1);
        x[i] = lua_tonumber(L, -1);
        if (!(x[i] >= 1e-8 && x[i] < 1e9)) {
            luaL_error(L, "k.%s: job.perf must be seven numbers of 1e-8 or more", name);
        }
        lua_pop(L, 1);
    }
    out->perf = (struct tide_throughput){x[0], x[1], x[2], x[3], x[4], x[5], x[6]};
    return true;
}

struct limits {
    double min, max;
    int sizes; /* stack index of a list; 0: any */
    bool pow2;
};

static struct limits read_limits(lua_State *L, int job, bool is_known) {
    struct limits l = {.min = number_field(L, job, "min", 1, "k.goodput: job"),
                       .max = number_field(L, job, "max", INFINITY, "k.goodput: job")};
    const double seen = is_known ? number_field(L, job, "max_seen", 1, "k.goodput: job") : 0;
    l.max = fmin(l.max, fmax(fmax(2 * seen, 1), l.min)); /* an unknown size is tried by doubling */
    const int type = lua_getfield(L, job, "sizes");
    l.sizes = type == LUA_TTABLE ? lua_gettop(L) : 0;
    l.pow2 = type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "pow2") == 0;
    return l;
}

static bool is_allowed(lua_State *L, const struct limits *l, lua_Integer size) {
    if ((double)size < l->min || (double)size > l->max || (l->pow2 && (size & (size - 1)) != 0)) {
        return false;
    }
    bool is_listed = l->sizes == 0;
    const size_t count = l->sizes != 0 ? lua_rawlen(L, l->sizes) : 0;
    for (size_t i = 1; i <= count && !is_listed; i++) {
        lua_rawgeti(L, l->sizes, (lua_Integer)i);
        is_listed = lua_tointeger(L, -1) == size;
        lua_pop(L, 1);
    }
    return is_listed;
}

static double machines_of(double slots, double per_machine) {
    return per_machine > 0 ? ceil(slots / per_machine) : 1;
}

/* Goodput at a size; negative: no batch goes there. */
static double goodput_at(const struct tide_goodput_job *job, bool is_known, double slots, double per_machine) {
    struct tide_goodput_choice choice;
    if (!is_known) {
        return slots;
    }
    return tide_goodput_best(job, machines_of(slots, per_machine), slots, &choice) < 0 ? -1 : choice.goodput;
}

/* k.goodput(job, sizes, fair) -> {goodput at each size, or false: not a size of this job}, goodput
 * at `fair` slots without the job's limits. sizes.per_machine: slots of a machine; nil: one machine
 * has all. */
static int k_goodput(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    const double fair = luaL_optnumber(L, 3, 1);
    luaL_argcheck(L, fair >= 1 && fair < 1e9, 3, "the fair size is a number of slots");
    lua_settop(L, 2);
    const size_t count = lua_rawlen(L, 2);
    luaL_argcheck(L, count <= SIZES_MAX, 2, "up to 4096 sizes");
    const double per_machine = number_field(L, 2, "per_machine", 0, "k.goodput: sizes");
    struct tide_goodput_job job;
    const bool is_known = read_job(L, 1, "goodput", &job);
    const struct limits limits = read_limits(L, 1, is_known);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 1; i <= count; i++) {
        int is_integer;
        lua_rawgeti(L, 2, (lua_Integer)i);
        const lua_Integer size = lua_tointegerx(L, -1, &is_integer);
        luaL_argcheck(L, is_integer && size >= 1, 2, "sizes are whole numbers of slots");
        lua_pop(L, 1);
        double goodput = -1;
        if (is_allowed(L, &limits, size)) {
            charge(L, BEST_WORK);
            goodput = goodput_at(&job, is_known, (double)size, per_machine);
        }
        if (goodput >= 0) {
            lua_pushnumber(L, goodput);
        } else {
            lua_pushboolean(L, false);
        }
        lua_rawseti(L, -2, (lua_Integer)i);
    }
    double base = -1;
    for (double slots = fair; slots >= 1 && base < 0; slots = fmin(slots - 1, fmax(floor(job.max / job.low), 1))) {
        charge(L, BEST_WORK);
        base = goodput_at(&job, is_known, slots, per_machine);
    }
    if (base < 0) {
        return fail(L, "goodput");
    }
    lua_pushnumber(L, base);
    return 2;
}

/* k.best_batch(job, slots, machines = 1) -> {batch =, accum =, total =, goodput =, efficiency =,
 * step_s =} | nil, why */
static int k_best_batch(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    const double slots = luaL_checknumber(L, 2), machines = luaL_optnumber(L, 3, 1);
    luaL_argcheck(L, slots >= 1 && slots < 1e9 && slots == floor(slots), 2, "a number of slots");
    luaL_argcheck(L, machines >= 1 && machines <= slots, 3, "a number of machines");
    lua_settop(L, 1);
    struct tide_goodput_job job;
    struct tide_goodput_choice c = {0};
    charge(L, BEST_WORK);
    int code;
    if (read_job(L, 1, "best_batch", &job)) {
        code = tide_goodput_best(&job, machines, slots, &c);
    } else {
        code = tide_goodput_fixed(&job, slots, fmax(job.start, job.low * slots), &c.batch, &c.passes_extra);
    }
    if (code < 0) {
        lua_pushnil(L);
        lua_pushstring(L, tide_error_message());
        return 2;
    }
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"goodput", c.goodput}, {"efficiency", c.efficiency}, {"step_s", c.step_s}};
    lua_createtable(L, 0, 6);
    lua_pushinteger(L, (lua_Integer)c.batch);
    lua_setfield(L, -2, "batch");
    lua_pushinteger(L, (lua_Integer)c.passes_extra + 1);
    lua_setfield(L, -2, "accum");
    lua_pushinteger(L, (lua_Integer)(slots * c.batch * (c.passes_extra + 1)));
    lua_setfield(L, -2, "total");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && c.step_s > 0; i++) {
        lua_pushnumber(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    return 1;
}

/* ---- noise ---- */

/* k.noise(state, sample) -> state; state nil: nothing known. sample = {count =, batch =, start =,
 * sum = sum of share |g|^2, total = |sum of share g|^2, biased = false}; state.sqr, state.var. */
static int k_noise(lua_State *L) {
    static const char what[] = "k.noise: state";
    struct tide_noise noise = {0};
    luaL_checktype(L, 2, LUA_TTABLE);
    if (!lua_isnoneornil(L, 1)) {
        luaL_checktype(L, 1, LUA_TTABLE);
        noise.sums[0] = number_field(L, 1, "sqr_sum", 0, what);
        noise.sums[1] = number_field(L, 1, "var_sum", 0, what);
        noise.weight = number_field(L, 1, "weight", 0, what);
        noise.sqr = number_field(L, 1, "sqr", 0, what);
        noise.var = number_field(L, 1, "var", 0, what);
        noise.skipped = (uint64_t)fmax(number_field(L, 1, "skipped", 0, what), 0);
        lua_getfield(L, 1, "biased");
        noise.biased = lua_toboolean(L, -1);
    }
    lua_getfield(L, 2, "sum");
    lua_getfield(L, 2, "total");
    lua_getfield(L, 2, "biased");
    const struct tide_noise_sample sample = {
        .count = number_field(L, 2, "count", NAN, "k.noise: sample"),
        .batch = number_field(L, 2, "batch", NAN, "k.noise: sample"),
        .start = number_field(L, 2, "start", NAN, "k.noise: sample"),
        .local = luaL_checknumber(L, -3),
        .total = luaL_checknumber(L, -2),
        .biased = lua_toboolean(L, -1),
    };
    if (tide_noise_update(&noise, &sample) < 0) {
        return fail(L, "noise");
    }
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"sqr", noise.sqr},         {"var", noise.var},       {"sqr_sum", noise.sums[0]},
                   {"var_sum", noise.sums[1]}, {"weight", noise.weight}, {"skipped", (double)noise.skipped}};
    lua_createtable(L, 0, 7);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lua_pushnumber(L, numbers[i].value);
        lua_setfield(L, -2, numbers[i].name);
    }
    lua_pushboolean(L, noise.biased);
    lua_setfield(L, -2, "biased");
    return 1;
}

/* ---- sizes ---- */

/* Slots of each machine: {[machine] = slots} of nodes that are up, on the stack. */
static void push_machines(lua_State *L, size_t count) {
    lua_newtable(L);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        luaL_argcheck(L, lua_istable(L, -1), 1, "nodes are tables");
        const int node = lua_gettop(L);
        const double slots = number_field(L, node, "slots", NAN, "k.sizes: node");
        lua_getfield(L, node, "state");
        const bool is_up = lua_isnil(L, -1) || strcmp(luaL_checkstring(L, -1), "up") == 0;
        if (lua_getfield(L, node, "machine") == LUA_TNIL) {
            lua_pushfstring(L, "node %d", (int)i);
            lua_replace(L, -2);
        }
        if (is_up && slots >= 1) {
            lua_pushvalue(L, -1);
            lua_gettable(L, node - 1);
            const double sum = lua_tonumber(L, -1) + floor(slots);
            lua_pop(L, 1);
            lua_pushnumber(L, sum);
            lua_settable(L, node - 1);
        }
        lua_settop(L, node - 1);
    }
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* k.sizes(nodes) -> ascending sizes, with per_machine = slots of a machine: 1, 2, 4 .. of one
 * machine, then 2, 3, 4, 6, 8, 12 .. whole ones. Of machines of several sizes the commonest. */
static int k_sizes(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    const size_t count = lua_rawlen(L, 1);
    luaL_argcheck(L, count <= 65536, 1, "up to 65536 nodes");
    charge(L, 40 * (double)count);
    push_machines(L, count);
    double *slots = lua_newuserdatauv(L, (count + 1) * sizeof *slots, 0), total = 0;
    size_t machines = 0;
    for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
        slots[machines++] = lua_tonumber(L, -1);
    }
    qsort(slots, machines, sizeof *slots, ascending); /* the order of the table does not matter */
    double commonest = 0;
    for (size_t i = 0, most = 0, equal = 0; i < machines; i++) {
        equal = i > 0 && slots[i] == slots[i - 1] ? equal + 1 : 1;
        total += slots[i];
        if (equal >= most) {
            most = equal;
            commonest = slots[i];
        }
    }
    lua_createtable(L, 16, 1);
    lua_Integer at = 0;
    for (double size = 1; size <= commonest; size *= 2) {
        lua_pushinteger(L, (lua_Integer)size);
        lua_rawseti(L, -2, ++at);
    }
    if (commonest >= 1 && log2(commonest) != floor(log2(commonest))) {
        lua_pushinteger(L, (lua_Integer)commonest); /* a whole machine */
        lua_rawseti(L, -2, ++at);
    }
    for (double whole = 2, half = 3; whole * commonest <= total && commonest >= 1; whole *= 2) {
        lua_pushinteger(L, (lua_Integer)(whole * commonest));
        lua_rawseti(L, -2, ++at);
        if (half * commonest <= total) {
            lua_pushinteger(L, (lua_Integer)(half * commonest));
            lua_rawseti(L, -2, ++at);
        }
        half *= 2;
    }
    lua_pushinteger(L, (lua_Integer)commonest);
    lua_setfield(L, -2, "per_machine");
    return 1;
}

const luaL_Reg tide__k_goodput[] = {
    {"best_batch", k_best_batch}, {"fit_goodput", k_fit_goodput},
    {"goodput", k_goodput},       {"noise", k_noise},
    {"sizes", k_sizes},           {NULL, NULL},
};
