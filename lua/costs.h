/*
 * What kernels cost in the simulator: call + row x (data points of the call) on a node of speed 1,
 * one pair a kernel, and one for those without. Calibration measures the calls of a run and fits
 * the pairs. One world a process; no threads.
 */
#ifndef TIDE_LUA_COSTS_H
#define TIDE_LUA_COSTS_H

#include "host.h"

struct tide_kernel;

void tide__costs_reset(void);
/* Of all kernels that have none of their own. */
void tide__costs_set_default(double call_ns, double row_ns);
/* False: too many kernels, or too long a name. */
bool tide__costs_set(const char *kernel, double call_ns, double row_ns);
double tide__costs_of(const char *kernel, double rows);
/* From now on calls are measured by this port's clock, while none of the simulator's events runs. */
void tide__costs_calibrate(struct tide_port *clock);
struct tide_costs_watch {
    uint64_t began, events;
};
void tide__costs_begin(struct tide_costs_watch *watch);
void tide__costs_end(const struct tide_costs_watch *watch, const char *kernel, double rows);
/* Pushes {[kernel] = {call_s=, row_s=, calls=, rows=, seconds=}}. */
void tide__costs_push(lua_State *L);

#endif
