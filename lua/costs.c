#include "costs.h"
#include "simulator.h"

#include <string.h>

enum { KERNELS_MAX = 64, NAME_BYTES = 64 };

struct cost {
    char name[NAME_BYTES];
    double call_ns, row_ns;
    bool own; /* set, not only measured */
    /* measured: sums of rows x and ns y */
    double calls, x, y, xx, xy;
};

static struct {
    struct cost kernels[KERNELS_MAX];
    size_t count;
    double call_ns, row_ns;
    struct tide_port *clock;
} costs;

void tide__costs_reset(void) {
    memset(&costs, 0, sizeof costs);
}

void tide__costs_set_default(double call_ns, double row_ns) {
    costs.call_ns = call_ns;
    costs.row_ns = row_ns;
}

static struct cost *find(const char *kernel) {
    for (size_t i = 0; i < costs.count; i++) {
        if (strcmp(costs.kernels[i].name, kernel) == 0) {
            return &costs.kernels[i];
        }
    }
    return NULL;
}

static struct cost *find_or_add(const char *kernel) {
    struct cost *cost = find(kernel);
    if (cost == NULL && costs.count < KERNELS_MAX && strlen(kernel) < NAME_BYTES) {
        cost = &costs.kernels[costs.count++];
        memcpy(cost->name, kernel, strlen(kernel) + 1);
    }
    return cost;
}

bool tide__costs_set(const char *kernel, double call_ns, double row_ns) {
    struct cost *cost = find_or_add(kernel);
    if (cost == NULL) {
        return false;
    }
    cost->call_ns = call_ns;
    cost->row_ns = row_ns;
    cost->own = true;
    return true;
}

double tide__costs_of(const char *kernel, double rows) {
    const struct cost *cost = find(kernel);
    bool own = cost != NULL && cost->own;
    rows = rows > 0 && rows < 1e12 ? rows : 0;
    return (own ? cost->call_ns : costs.call_ns) + (own ? cost->row_ns : costs.row_ns) * rows;
}

/* ---- calibration ---- */

void tide__costs_calibrate(struct tide_port *clock) {
    costs.clock = clock;
}

void tide__costs_begin(struct tide_costs_watch *watch) {
    if (costs.clock != NULL) {
        watch->events = tide__simulator_events();
        watch->began = tide_port_now(costs.clock);
    }
}

void tide__costs_end(const struct tide_costs_watch *watch, const char *kernel, double rows) {
    if (costs.clock == NULL || watch->events != tide__simulator_events()) {
        return; /* it waited for rows of others: that is the network's time, not the kernel's */
    }
    double ns = (double)(tide_port_now(costs.clock) - watch->began);
    struct cost *cost = find_or_add(kernel);
    if (cost != NULL) {
        cost->calls += 1;
        cost->x += rows;
        cost->y += ns;
        cost->xx += rows * rows;
        cost->xy += rows * ns;
    }
}

/* Least squares of y = call + row x with both at least 0; with one size of calls only, all is due
 * to the rows. */
static void fit(const struct cost *c, double *call, double *row) {
    double spread = c->calls * c->xx - c->x * c->x;
    *row = spread > 1e-9 * c->calls * c->xx ? (c->calls * c->xy - c->x * c->y) / spread
           : c->x > 0                       ? c->y / c->x
                                            : 0;
    *row = *row > 0 ? *row : 0;
    *call = (c->y - *row * c->x) / c->calls;
    if (*call < 0) {
        *call = 0;
        *row = c->x > 0 ? c->y / c->x : 0;
    }
}

static void set_number(lua_State *L, const char *key, double value) {
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

void tide__costs_push(lua_State *L) {
    lua_createtable(L, 0, (int)costs.count);
    for (size_t i = 0; i < costs.count; i++) {
        const struct cost *c = &costs.kernels[i];
        double call, row;
        if (c->calls == 0) {
            continue;
        }
        fit(c, &call, &row);
        lua_createtable(L, 0, 5);
        set_number(L, "call_s", call * 1e-9);
        set_number(L, "row_s", row * 1e-9);
        set_number(L, "calls", c->calls);
        set_number(L, "rows", c->x);
        set_number(L, "seconds", c->y * 1e-9);
        lua_setfield(L, -2, c->name);
    }
}
