/*
 * The store room: tables, slots, rows; reached by workers in shared memory (access.c) and by other
 * nodes through the store actor (TIDE_ID_STORE) on I/O thread 0. The public half of the API is in
 * tide.h.
 */
#ifndef TIDE_STORE_H
#define TIDE_STORE_H

#include "net/net.h"
#include "tide/checkpoint.h"
#include "tide/table.h"

enum { TIDE_SLOT_COUNT = TIDE_SLOTS };

struct tide_store;

/* memory_cap: of the node's budget (base/budget.h), 0: none. */
int tide_store_create(struct tide_system *system, struct tide_net *net, uint64_t memory_cap, struct tide_store **out);
/* At most so many bytes of this node's operations are in flight at one time; 0: no limit. Before the
 * node joins. */
void tide_store_limit(struct tide_store *store, uint64_t bytes);
/* So many operations and bytes a second may this node ask of others; 0: any number. Before it joins. */
void tide_store_rate(struct tide_store *store, double operations, double bytes);
struct tide_store_queue {
    uint64_t limit, bytes, most; /* 0: there is none; now; ever */
    uint64_t waits;              /* fibers that had to wait for room */
};
void tide_store_queue(struct tide_store *store, struct tide_store_queue *out); /* any thread */
struct tide_store_memory {
    uint64_t cap, used, most, refused; /* refused: operations and requests, ever */
    enum tide_tier tier;
};
void tide_store_memory(struct tide_store *store, struct tide_store_memory *out); /* any thread */
/* The same of a run (tide_table_options.run) on this node, all 0 without a cap. Any thread. */
void tide_store_run_memory(struct tide_store *store, uint32_t run, struct tide_store_memory *out);
void tide_store_destroy(struct tide_store *store); /* after tide_system_stop */
struct tide_store *tide_store_of(struct tide_node *node);

/* Tables of this node, each to be given back by tide_table_release; returns how many there are. Any
 * thread. */
size_t tide_store_tables(struct tide_store *store, struct tide_table **out, size_t limit);
/* How many slots each node is home of, by the newest map this node knows: counts[id]. Any thread.
 */
void tide_table_homes(struct tide_table *table, uint32_t *counts, size_t limit, uint64_t *version);
/* Has the controller handed this (joined) node all tables that exist? Any thread. */
bool tide_store_synced(struct tide_store *store);
/* Abandons an operation whose caller is being ended: nothing is written to its rows any more.
 * Instead of a wait. */
void tide_ticket_abandon(struct tide_ticket *ticket);
/* "PULL" for the first element of a message to the store actor; NULL: unknown (message.c). */
const char *tide_store_message_name(uint64_t op);

#endif
