/*
 * `k`: the numeric tools of numeric.h for policies (in a sandbox) and scripts (tide.k). Arrays are
 * Lua arrays of numbers; working memory is Lua's, so it counts against a sandbox's cap and nothing
 * leaks when an error is raised. In a sandbox each call charges about what it computes to the
 * budget, before it computes it.
 */
#include "decide/numeric.h"

#include "operation.h"
#include "lua/host/sandbox/sandbox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 1 << 22 };

/* The sandbox to charge; NULL in scripts. */
static struct tide_sandbox *owner(lua_State *L) {
    return lua_touserdata(L, lua_upvalueindex(1));
}

static void charge(lua_State *L, double work) {
    tide__sandbox_charge(L, owner(L), work < 1e15 ? (uint64_t)(work / 4) + 10 : UINT64_C(1) << 60);
}

static void *scratch(lua_State *L, size_t count, size_t size) {
    luaL_checkstack(L, 8, "numeric tools");
    if (count > ELEMENTS_MAX) {
        luaL_error(L, "more than %d numbers", ELEMENTS_MAX);
    }
    void *memory = lua_newuserdatauv(L, (count + 1) * size, 0);
    memset(memory, 0, (count + 1) * size);
    return memory;
}

static int fail(lua_State *L, const char *name) {
    return luaL_error(L, "k.%s: %s", name, tide_error_message());
}

/* Does a device take the work off the CPU? Then what the device computes is not charged. */
static bool elsewhere(const struct tide_device *device) {
    return device && device->numeric;
}

/* The device named at `index`; nil: NULL, the CPU. */
static const struct tide_device *check_device(lua_State *L, int index, const char *name) {
    if (lua_isnoneornil(L, index)) {
        return NULL;
    }
    if (lua_type(L, index) != LUA_TSTRING) {
        luaL_error(L, "k.%s: a device is a name such as \"cuda\", not a %s", name, luaL_typename(L, index));
    }
    const struct tide_device *device = tide_device_find(lua_tostring(L, index));
    if (!device) {
        fail(L, name);
    }
    return device;
}

/* The array at `index` as doubles; `name` and `what` for the error. Infinity only where `infinite`.
 */
static double *check_numbers(lua_State *L, int index, size_t *count, const char *what, bool infinite) {
    if (!lua_istable(L, index)) {
        luaL_error(L, "%s must be a list of numbers, not a %s", what, luaL_typename(L, index));
    }
    *count = lua_rawlen(L, index);
    charge(L, (double)*count);
    double *numbers = scratch(L, *count, sizeof *numbers);
    for (size_t i = 0; i < *count; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        int is_number;
        numbers[i] = lua_tonumberx(L, -1, &is_number);
        if (!is_number || isnan(numbers[i]) || (!infinite && isinf(numbers[i]))) {
            luaL_error(L, "%s[%d] is %s, not a finite number", what, (int)i + 1,
                       is_number ? "not finite" : luaL_typename(L, -1));
        }
        lua_pop(L, 1);
    }
    return numbers;
}

/* A list of equally long lists, row-major. */
static double *check_matrix(lua_State *L, int index, size_t *rows, size_t *columns, const char *what, bool infinite) {
    char name[64];
    if (!lua_istable(L, index)) {
        luaL_error(L, "%s must be a list of rows, not a %s", what, luaL_typename(L, index));
    }
    *rows = lua_rawlen(L, index);
    lua_rawgeti(L, index, 1);
    *columns = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
    lua_pop(L, 1);
    if (*rows == 0 || *columns == 0 || *rows > ELEMENTS_MAX / *columns) {
        luaL_error(L, "%s must have 1 to %d numbers", what, ELEMENTS_MAX);
    }
    double *matrix = scratch(L, *rows * *columns, sizeof *matrix);
    for (size_t i = 0; i < *rows; i++) {
        size_t count;
        (void)snprintf(name, sizeof name, "%.40s[%zu]", what, i + 1);
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        const double *row = check_numbers(L, lua_gettop(L), &count, name, infinite);
        if (count != *columns) {
            luaL_error(L, "%s has %d numbers, the first row has %d", name, (int)count, (int)*columns);
        }
        memcpy(matrix + i * *columns, row, count * sizeof *row);
        lua_pop(L, 2);
    }
    return matrix;
}

static void push_numbers(lua_State *L, const double *numbers, size_t count) {
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushnumber(L, numbers[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* ---- fits ---- */

/* k.line(x, y) -> {at=, per=} */
static int k_line(lua_State *L) {
    size_t n, m;
    double *x = check_numbers(L, 1, &n, "k.line: x", false), *y = check_numbers(L, 2, &m, "k.line: y", false);
    if (n != m) {
        return luaL_error(L, "k.line: %d x and %d y", (int)n, (int)m);
    }
    double at, per;
    if (tide_fit_line(x, y, n, &at, &per) < 0) {
        return fail(L, "line");
    }
    lua_createtable(L, 0, 4);
    lua_pushnumber(L, at);
    lua_setfield(L, -2, "at");
    lua_pushnumber(L, per);
    lua_setfield(L, -2, "per");
    return 1;
}

static int linear_fit(lua_State *L, const char *name, bool nonnegative) {
    size_t rows, columns, count;
    double *a = check_matrix(L, 1, &rows, &columns, "A", false), *y = check_numbers(L, 2, &count, "y", false);
    if (count != rows || columns > 256) {
        return luaL_error(L, "k.%s: A has %d rows and %d columns (up to 256), y %d numbers", name, (int)rows,
                          (int)columns, (int)count);
    }
    double work = (double)rows * (double)columns * (double)columns;
    charge(L, nonnegative ? work * (double)(3 * columns + 10) : 2 * work);
    double *c = scratch(L, columns, sizeof *c);
    int code =
        nonnegative ? tide_fit_nonnegative(a, y, rows, columns, c) : tide_fit_least_squares(a, y, rows, columns, c);
    if (code < 0) {
        return fail(L, name);
    }
    push_numbers(L, c, columns);
    return 1;
}

/* k.least_squares(A, y) -> coefficients */
static int k_least_squares(lua_State *L) {
    return linear_fit(L, "least_squares", false);
}

/* k.nnls(A, y) -> coefficients >= 0 */
static int k_nnls(lua_State *L) {
    return linear_fit(L, "nnls", true);
}

struct callback {
    lua_State *L;
    int function, error; /* stack indices */
    size_t parameters, residuals;
    const double *p;
    double *r;
};

/* Protected: a Lua error must not jump over the frames of the fit. Arguments: the callback, its
 * function. */
static int evaluate_residuals(lua_State *L) {
    struct callback *c = lua_touserdata(L, 1);
    push_numbers(L, c->p, c->parameters);
    lua_call(L, 1, 1);
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != c->residuals) {
        return luaL_error(L, "k.fit: residuals() must always give %d numbers", (int)c->residuals);
    }
    for (size_t i = 0; i < c->residuals; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        c->r[i] = lua_tonumber(L, -1);
        if (!isfinite(c->r[i])) {
            return luaL_error(L, "k.fit: residual %d is not a finite number", (int)i + 1);
        }
        lua_pop(L, 1);
    }
    return 0;
}

static int call_residuals(void *arg, const double *p, double *r) {
    struct callback *c = arg;
    c->p = p;
    c->r = r;
    lua_pushcfunction(c->L, evaluate_residuals);
    lua_pushlightuserdata(c->L, c);
    lua_pushvalue(c->L, c->function);
    if (lua_pcall(c->L, 2, 0, 0) == LUA_OK) {
        return 0;
    }
    lua_replace(c->L, c->error);
    return -1;
}

static double *bounds(lua_State *L, const char *field, size_t count, double otherwise) {
    size_t given;
    lua_getfield(L, 1, field);
    if (lua_isnil(L, -1)) {
        double *b = scratch(L, count, sizeof *b);
        for (size_t i = 0; i < count; i++) {
            b[i] = otherwise;
        }
        return b;
    }
    double *b = check_numbers(L, lua_gettop(L), &given, field, true);
    if (given != count) {
        luaL_error(L, "k.fit: %s has %d numbers, start has %d", field, (int)given, (int)count);
    }
    return b;
}

/* k.fit{residuals = function(p) return list end, start =, low =, high =, evaluations =} -> {p=,
 * error=, evaluations=} */
static int k_fit(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    struct callback c = {.L = L, .function = 2, .error = 3};
    lua_getfield(L, 1, "residuals");
    luaL_argcheck(L, lua_isfunction(L, 2), 1, "residuals must be a function");
    lua_pushnil(L);
    lua_getfield(L, 1, "start");
    double *p = check_numbers(L, 4, &c.parameters, "start", false);
    double *low = bounds(L, "low", c.parameters, -INFINITY), *high = bounds(L, "high", c.parameters, INFINITY);
    lua_getfield(L, 1, "evaluations");
    lua_Integer most = luaL_optinteger(L, -1, 200 * ((lua_Integer)c.parameters + 1));
    lua_pushvalue(L, 2);
    push_numbers(L, p, c.parameters);
    lua_call(L, 1, 1);
    luaL_argcheck(L, lua_istable(L, -1), 1, "residuals must return a list");
    c.residuals = lua_rawlen(L, -1);
    luaL_checkstack(L, 16, "k.fit");
    double error = 0;
    int evaluations = 0;
    const struct tide_fit_problem problem = {.residuals = call_residuals,
                                             .arg = &c,
                                             .residual_count = c.residuals,
                                             .parameter_count = c.parameters,
                                             .low = low,
                                             .high = high,
                                             .evaluations_max = most > 0 && most < 100000 ? (int)most : 100000};
    int code = tide_fit_bounded(&problem, p, &error, &evaluations);
    charge(L, (double)c.residuals * (double)c.parameters * (double)(evaluations + 1));
    if (code < 0 && !lua_isnil(L, 3)) {
        lua_pushvalue(L, 3);
        return lua_error(L);
    }
    if (code < 0) {
        return fail(L, "fit");
    }
    lua_createtable(L, 0, 3);
    push_numbers(L, p, c.parameters);
    lua_setfield(L, -2, "p");
    lua_pushnumber(L, error);
    lua_setfield(L, -2, "error");
    lua_pushinteger(L, evaluations);
    lua_setfield(L, -2, "evaluations");
    return 1;
}

/* ---- splits and assignments ---- */

static lua_Integer integer_field(lua_State *L, int index, const char *name, lua_Integer otherwise, int worker) {
    int is_integer = 1;
    lua_getfield(L, index, name);
    lua_Integer value = lua_isnil(L, -1) ? otherwise : lua_tointegerx(L, -1, &is_integer);
    lua_pop(L, 1);
    if (!is_integer || value < 0) {
        luaL_error(L, "k.minmax_split: cost[%d].%s must be an integer of 0 or more", worker, name);
    }
    return value;
}

static void read_cost(lua_State *L, int index, struct tide_split_cost *cost, lua_Integer total, int worker) {
    if (!lua_istable(L, index)) {
        luaL_error(L, "k.minmax_split: cost[%d] is a %s, not {at =, per =} or a list of times", worker,
                   luaL_typename(L, index));
    }
    size_t count = lua_rawlen(L, index);
    if (count > 0) {
        double *times = check_numbers(L, index, &count, "k.minmax_split: times", false); /* stays on the stack */
        for (size_t i = 1; i < count; i++) {
            if (times[i] < times[i - 1]) {
                luaL_error(L, "k.minmax_split: the times of cost[%d] decrease", worker);
            }
        }
        cost->times = times;
        cost->time_count = count;
    } else {
        lua_getfield(L, index, "at");
        lua_getfield(L, index, "per");
        cost->at = luaL_optnumber(L, -2, 0);
        cost->per = luaL_optnumber(L, -1, NAN);
        lua_pop(L, 2);
    }
    lua_Integer most = cost->times && (lua_Integer)count < total ? (lua_Integer)count : total;
    cost->min = (uint64_t)integer_field(L, index, "min", 0, worker);
    cost->max = (uint64_t)integer_field(L, index, "max", most, worker);
    cost->max = cost->max < (uint64_t)most ? cost->max : (uint64_t)most;
    if (cost->min > cost->max) {
        luaL_error(L, "k.minmax_split: cost[%d] allows no number of units", worker);
    }
}

/* k.minmax_split(total, cost) -> {share=, seconds=} */
static int k_minmax_split(lua_State *L) {
    lua_Integer total = luaL_checkinteger(L, 1);
    luaL_argcheck(L, total >= 0, 1, "the total must not be negative");
    luaL_checktype(L, 2, LUA_TTABLE);
    size_t n = lua_rawlen(L, 2);
    luaL_argcheck(L, n >= 1 && n <= 65536, 2, "1 to 65536 costs");
    charge(L, 70.0 * 8 * (double)n);
    struct tide_split_cost *costs = scratch(L, n, sizeof *costs);
    uint64_t *share = scratch(L, n, sizeof *share);
    lua_createtable(L, 0, 0); /* keeps tables of times alive */
    int kept = lua_gettop(L);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        int top = lua_gettop(L);
        read_cost(L, top, &costs[i], total, (int)i + 1);
        if (lua_gettop(L) > top) {
            lua_rawseti(L, kept, (lua_Integer)i + 1);
        }
        lua_settop(L, kept);
    }
    double seconds;
    if (tide_split_minmax((uint64_t)total, costs, n, share, &seconds) < 0) {
        return fail(L, "minmax_split");
    }
    lua_createtable(L, 0, 2);
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)share[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "share");
    lua_pushnumber(L, seconds);
    lua_setfield(L, -2, "seconds");
    return 1;
}

/* k.assign(cost) -> column of each row, total; math.huge forbids a pair */
static int k_assign(lua_State *L) {
    size_t rows, columns;
    double *cost = check_matrix(L, 1, &rows, &columns, "k.assign: cost", true), total;
    charge(L, (double)rows * (double)rows * (double)columns);
    for (size_t i = 0; i < rows * columns; i++) {
        if (cost[i] == -INFINITY) {
            return luaL_error(L, "k.assign: a cost is -inf");
        }
    }
    size_t *pick = scratch(L, rows, sizeof *pick);
    if (tide_assign(cost, rows, columns, pick, &total) < 0) {
        return fail(L, "assign");
    }
    lua_createtable(L, (int)rows, 0);
    for (size_t i = 0; i < rows; i++) {
        lua_pushinteger(L, (lua_Integer)pick[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnumber(L, total);
    return 2;
}

/* k.knapsack(rows, sizes, capacity, device = nil) -> option of each row (0: nothing), {best value
 * of capacity 1..}, value */
static int k_knapsack(lua_State *L) {
    size_t rows, options, count;
    lua_settop(L, 4);
    const struct tide_device *device = check_device(L, 4, "knapsack");
    double *value = check_matrix(L, 1, &rows, &options, "k.knapsack: rows", true);
    double *given = check_numbers(L, 2, &count, "k.knapsack: sizes", false);
    lua_Integer capacity = luaL_checkinteger(L, 3);
    luaL_argcheck(L, capacity >= 0, 3, "the capacity must not be negative");
    if (count != options) {
        return luaL_error(L, "k.knapsack: %d sizes, but rows of %d", (int)count, (int)options);
    }
    charge(L, elsewhere(device) ? (double)rows * (double)options + (double)capacity
                                : (double)rows * (double)options * (double)(capacity + 1));
    uint64_t *sizes = scratch(L, options, sizeof *sizes);
    for (size_t i = 0; i < options; i++) {
        if (given[i] < 0 || given[i] != floor(given[i]) || given[i] > 1e15) {
            return luaL_error(L, "k.knapsack: size %d is not a whole number", (int)i + 1);
        }
        sizes[i] = (uint64_t)given[i];
    }
    for (size_t i = 0; i < rows * options; i++) {
        if (value[i] == INFINITY) {
            return luaL_error(L, "k.knapsack: a value is infinite");
        }
    }
    size_t *pick = scratch(L, rows, sizeof *pick);
    double *best = scratch(L, (size_t)capacity + 1, sizeof *best);
    const struct tide_knapsack problem = {value, sizes, rows, options, (uint64_t)capacity, device};
    if (tide_knapsack(&problem, pick, best) < 0) {
        return fail(L, "knapsack");
    }
    lua_createtable(L, (int)rows, 0);
    for (size_t i = 0; i < rows; i++) {
        lua_pushinteger(L, pick[i] == SIZE_MAX ? 0 : (lua_Integer)pick[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    push_numbers(L, best + 1, (size_t)capacity);
    lua_pushnumber(L, best[capacity]);
    return 3;
}

/* k.makespan(weights, capacity) -> machine of each weight, span, lower bound */
static int k_makespan(lua_State *L) {
    size_t n, m;
    double *weight = check_numbers(L, 1, &n, "k.makespan: weights", false);
    double *capacity = check_numbers(L, 2, &m, "k.makespan: capacity", false), span, bound;
    for (size_t i = 0; i < n; i++) {
        luaL_argcheck(L, weight[i] >= 0, 1, "weights must not be negative");
    }
    for (size_t j = 0; j < m; j++) {
        luaL_argcheck(L, capacity[j] > 0, 2, "capacities must be positive");
    }
    size_t steps = 200000 + 20 * n;
    charge(L, (double)n * (double)m + (double)steps);
    uint32_t *home = scratch(L, n, sizeof *home);
    if (tide_makespan(weight, n, capacity, m, steps, home, &span, &bound) < 0) {
        return fail(L, "makespan");
    }
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushinteger(L, (lua_Integer)home[i] + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushnumber(L, span);
    lua_pushnumber(L, bound);
    return 3;
}

/* ---- helpers ---- */

/* k.ewma(old, new, weight) -> mean that forgets; old nil: new */
static int k_ewma(lua_State *L) {
    double new_value = luaL_checknumber(L, 2), weight = luaL_checknumber(L, 3);
    luaL_argcheck(L, weight >= 0 && weight <= 1, 3, "a weight is between 0 and 1");
    lua_pushnumber(L, lua_isnil(L, 1) ? new_value : luaL_checknumber(L, 1) * (1 - weight) + new_value * weight);
    return 1;
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* k.quantile(list, q) -> value, interpolated between neighbours; nil of an empty list */
static int k_quantile(lua_State *L) {
    size_t count;
    double *numbers = check_numbers(L, 1, &count, "k.quantile: list", true), q = luaL_checknumber(L, 2);
    luaL_argcheck(L, q >= 0 && q <= 1, 2, "a quantile is between 0 and 1");
    if (count == 0) {
        return 0;
    }
    charge(L, 20.0 * (double)count);
    qsort(numbers, count, sizeof *numbers, ascending);
    double place = q * (double)(count - 1);
    size_t low = (size_t)place, high = low + 1 < count ? low + 1 : low;
    double share = place - (double)low;
    lua_pushnumber(L, share > 0 ? numbers[low] + share * (numbers[high] - numbers[low]) : numbers[low]);
    return 1;
}

/* k.hysteresis(old, new, gain) -> whether going from cost old to cost new pays: old > gain * new */
static int k_hysteresis(lua_State *L) {
    lua_pushboolean(L, luaL_checknumber(L, 1) > luaL_checknumber(L, 3) * luaL_checknumber(L, 2));
    return 1;
}

/* k.rounds(share, received, sizes, capacity) -> {granted size or 0}: which jobs run in this round so that
 * time received goes towards the shares: by share / received, greedily until the capacity is used
 * (Narayanan et al., Gavel, section 5) */
static int k_rounds(lua_State *L) {
    size_t n, others, sizes_count;
    double *share = check_numbers(L, 1, &n, "k.rounds: share", false);
    double *received = check_numbers(L, 2, &others, "k.rounds: received", false);
    double *sizes = check_numbers(L, 3, &sizes_count, "k.rounds: sizes", false), left = luaL_checknumber(L, 4);
    if (others != n || sizes_count != n) {
        return luaL_error(L, "k.rounds: share, received and sizes must be of one length");
    }
    charge(L, (double)n * (double)n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += received[i];
    }
    double *granted = scratch(L, n, sizeof *granted);
    bool *seen = scratch(L, n, sizeof *seen);
    for (size_t round = 0; round < n; round++) {
        size_t best = n;
        double best_priority = 0;
        for (size_t i = 0; i < n; i++) {
            double fraction = sum > 0 ? received[i] / sum : 0;
            double priority = share[i] <= 0 ? -1 : fraction > 0 ? share[i] / fraction : INFINITY;
            if (!seen[i] && priority > best_priority) {
                best = i;
                best_priority = priority;
            }
        }
        if (best == n) {
            break;
        }
        seen[best] = true;
        if (sizes[best] <= left) {
            granted[best] = sizes[best];
            left -= sizes[best];
        }
    }
    push_numbers(L, granted, n);
    return 1;
}

void tide__lua_push_numeric(lua_State *L, struct tide_sandbox *s) {
    static const luaL_Reg functions[] = {{"assign", k_assign},     {"ewma", k_ewma},
                                         {"fit", k_fit},           {"hysteresis", k_hysteresis},
                                         {"knapsack", k_knapsack}, {"least_squares", k_least_squares},
                                         {"line", k_line},         {"lines", tide__k_lines},
                                         {"makespan", k_makespan}, {"minmax_split", k_minmax_split},
                                         {"nnls", k_nnls},         {"quantile", k_quantile},
                                         {"rounds", k_rounds},     {NULL, NULL}};
    luaL_newlibtable(L, functions);
    lua_pushlightuserdata(L, s);
    luaL_setfuncs(L, functions, 1);
    lua_pushlightuserdata(L, s);
    luaL_setfuncs(L, tide__k_goodput, 1);
}
