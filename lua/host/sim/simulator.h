/*
 * The simulated world of the program `tide-sim`: one at a time, open between core.sim_open and
 * core.sim_close. While it is open, nodes that start in this process are simulated ones.
 *
 * Nodes are made and taken apart between events only: a request for one from inside (a script's
 * tide.cluster, a fault) leaves a request, which tide__simulator_run handles.
 */
#ifndef TIDE_LUA_SIMULATOR_H
#define TIDE_LUA_SIMULATOR_H

#include "lua/host/host.h"

bool tide__simulator_open(void);
int tide__simulator_port(const char *name, struct tide_port **out);
/* Lets virtual time pass until done(arg). EDIED when nothing can happen any more. */
int tide__simulator_run(bool (*done)(void *arg), void *arg);
/* Takes the nodes apart that core.sim_node has made and that still run. */
void tide__simulator_end_nodes(void);
/* ns that this node takes for what a node of speed 1 does in `ns`; 0 outside the simulator. */
uint64_t tide__simulator_cost(const struct tide_port *port, double ns);
uint64_t tide__simulator_events(void);
/* Whether a node has crashed in this process: what its fibers held is never freed. */
bool tide__simulator_lost_memory(void);

#endif
