/*
 * What computing costs in the simulator, on a node of speed 1. A kernel: call + row x (data points
 * of the call), one pair a kernel, and one for those without. An operation of a program, an update,
 * a product: flop x (arithmetic operations) + byte x (bytes of its operands), one pair for all.
 * Calibration measures the calls of a run and fits the pairs. One world a process; no threads.
 */
#ifndef TIDE_LUA_COSTS_H
#define TIDE_LUA_COSTS_H

#include "lua/host/host.h"
#include "operation.h"

struct tide_kernel;

/* Whether computing takes virtual time here: on simulated nodes, not in the script itself. */
bool tide__costs_count(const struct tide_lua *host);
/* If so, the calling fiber continues when its node has computed for so many ns of a node of speed 1.
 * ECANCELED, which is for tide__lua_resumed, as this raises nothing. */
int tide__lua_compute(lua_State *L, double ns);
/* The same for so much work; raises. */
void tide__lua_work(lua_State *L, struct tide_work work);

void tide__costs_reset(void);
/* Of all kernels that have none of their own. */
void tide__costs_set_default(double call_ns, double row_ns);
/* False: too many kernels, or too long a name. */
bool tide__costs_set(const char *kernel, double call_ns, double row_ns);
double tide__costs_of(const char *kernel, double rows);
void tide__costs_set_rates(double flop_ns, double byte_ns);
double tide__costs_of_work(struct tide_work work);
/* From now on calls are measured by this port's clock, while none of the simulator's events runs. */
void tide__costs_calibrate(struct tide_port *clock);
struct tide_costs_watch {
    uint64_t began, events;
};
void tide__costs_begin(struct tide_costs_watch *watch);
void tide__costs_end(const struct tide_costs_watch *watch, const char *kernel, double rows);
void tide__costs_end_work(const struct tide_costs_watch *watch, struct tide_work work);
/* Pushes {flop_s=, byte_s=, calls=, seconds=}, or nil: nothing of the kind was measured. */
void tide__costs_push_work(lua_State *L);
/* Pushes {[kernel] = {call_s=, row_s=, calls=, rows=, seconds=}}. */
void tide__costs_push(lua_State *L);

#endif
