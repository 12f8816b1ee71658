#include "costs.h"
#include "lua/host/sim/simulator.h"

#include "actor/actor.h"

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
    double call_ns, row_ns, flop_ns, byte_ns;
    struct work_sums { /* measured: of flops f, bytes b and ns y */
        double calls, y, ff, fb, bb, fy, by;
    } work;
    struct tide_port *clock;
} costs;

/* ---- virtual time ---- */

bool tide__costs_count(const struct tide_lua *host) {
    return host->port->simulated && !host->program;
}

int tide__lua_compute(lua_State *L, double ns) {
    struct tide_lua *host = tide__lua_host(L);
    if (!tide__costs_count(host) || !tide_fiber_current()) {
        return 0;
    }
    uint64_t cost = tide__simulator_cost(host->port, ns);
    uint64_t deadline = tide__lua_deadline(host, cost);
    while (cost > 0 && tide_port_now(host->port) < deadline) {
        if (tide_fiber_wait_until(deadline, "computing") == TIDE_ECANCELED || tide__lua_current(host)->cancelled) {
            return TIDE_ECANCELED;
        }
    }
    return 0;
}

void tide__lua_work(lua_State *L, struct tide_work work) {
    (void)tide__lua_resumed(L, tide__lua_compute(L, tide__costs_of_work(work)));
}

/* ---- what things cost ---- */

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
    if (!cost && costs.count < KERNELS_MAX && strlen(kernel) < NAME_BYTES) {
        cost = &costs.kernels[costs.count++];
        memcpy(cost->name, kernel, strlen(kernel) + 1);
    }
    return cost;
}

bool tide__costs_set(const char *kernel, double call_ns, double row_ns) {
    struct cost *cost = find_or_add(kernel);
    if (!cost) {
        return false;
    }
    cost->call_ns = call_ns;
    cost->row_ns = row_ns;
    cost->own = true;
    return true;
}

double tide__costs_of(const char *kernel, double rows) {
    const struct cost *cost = find(kernel);
    bool own = cost && cost->own;
    rows = rows > 0 && rows < 1e12 ? rows : 0;
    return (own ? cost->call_ns : costs.call_ns) + (own ? cost->row_ns : costs.row_ns) * rows;
}

void tide__costs_set_rates(double flop_ns, double byte_ns) {
    costs.flop_ns = flop_ns;
    costs.byte_ns = byte_ns;
}

double tide__costs_of_work(struct tide_work work) {
    return costs.flop_ns * work.flops + costs.byte_ns * work.bytes;
}

/* ---- calibration ---- */

void tide__costs_calibrate(struct tide_port *clock) {
    costs.clock = clock;
}

void tide__costs_begin(struct tide_costs_watch *watch) {
    if (costs.clock) {
        watch->events = tide__simulator_events();
        watch->began = tide_port_now(costs.clock);
    }
}

void tide__costs_end(const struct tide_costs_watch *watch, const char *kernel, double rows) {
    if (!costs.clock || watch->events != tide__simulator_events()) {
        return; /* it waited for rows of others: that is the network's time, not the kernel's */
    }
    double ns = (double)(tide_port_now(costs.clock) - watch->began);
    struct cost *cost = find_or_add(kernel);
    if (cost) {
        cost->calls += 1;
        cost->x += rows;
        cost->y += ns;
        cost->xx += rows * rows;
        cost->xy += rows * ns;
    }
}

void tide__costs_end_work(const struct tide_costs_watch *watch, struct tide_work work) {
    if (!costs.clock || watch->events != tide__simulator_events()) {
        return;
    }
    double ns = (double)(tide_port_now(costs.clock) - watch->began);
    struct work_sums *s = &costs.work;
    s->calls += 1;
    s->y += ns;
    s->ff += work.flops * work.flops;
    s->fb += work.flops * work.bytes;
    s->bb += work.bytes * work.bytes;
    s->fy += work.flops * ns;
    s->by += work.bytes * ns;
}

/* Least squares of y = flop f + byte b with both at least 0: of two unknowns the better edge where
 * the free solution leaves the quadrant. */
static void fit_work(const struct work_sums *s, double *flop, double *byte) {
    double determinant = s->ff * s->bb - s->fb * s->fb;
    bool solved = determinant > 1e-9 * s->ff * s->bb;
    *flop = solved ? (s->fy * s->bb - s->by * s->fb) / determinant : 0;
    *byte = solved ? (s->by * s->ff - s->fy * s->fb) / determinant : 0;
    if (!solved || *flop < 0 || *byte < 0) {
        bool by_flops = s->fy * s->fy * s->bb > s->by * s->by * s->ff; /* what each explains of y */
        *flop = by_flops && s->ff > 0 ? s->fy / s->ff : 0;
        *byte = !by_flops && s->bb > 0 ? s->by / s->bb : 0;
    }
}

/* Least squares of y = call + row x with both at least 0; with one size of calls only, all is due
 * to the rows. */
static void fit(const struct cost *c, double *call, double *row) {
    double spread = c->calls * c->xx - c->x * c->x;
    *row = spread > 1e-9 * c->calls * c->xx ? (c->calls * c->xy - c->x * c->y) / spread : c->x > 0 ? c->y / c->x : 0;
    *row = *row > 0 ? *row : 0;
    *call = (c->y - *row * c->x) / c->calls;
    if (*call < 0) {
        *call = 0;
        *row = c->x > 0 ? c->y / c->x : 0;
    }
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
        tide__lua_set_number(L, "call_s", call * 1e-9);
        tide__lua_set_number(L, "row_s", row * 1e-9);
        tide__lua_set_number(L, "calls", c->calls);
        tide__lua_set_number(L, "rows", c->x);
        tide__lua_set_number(L, "seconds", c->y * 1e-9);
        lua_setfield(L, -2, c->name);
    }
}

void tide__costs_push_work(lua_State *L) {
    double flop, byte;
    if (costs.work.calls == 0) {
        lua_pushnil(L);
        return;
    }
    fit_work(&costs.work, &flop, &byte);
    lua_createtable(L, 0, 4);
    tide__lua_set_number(L, "flop_s", flop * 1e-9);
    tide__lua_set_number(L, "byte_s", byte * 1e-9);
    tide__lua_set_number(L, "calls", costs.work.calls);
    tide__lua_set_number(L, "seconds", costs.work.y * 1e-9);
}
