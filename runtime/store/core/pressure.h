/* The node's memory budget: what it rejects, and what other nodes report of theirs (pressure.c). */
#ifndef TIDE_STORE_PRESSURE_H
#define TIDE_STORE_PRESSURE_H

#include "base/budget.h"
#include "store/core/store.h"

struct tide__job;
struct tide__pass;

struct tide__pressure { /* I/O thread */
    bool runs;
    uint64_t timer;  /* of the next look */
    uint64_t others; /* members that share the grant */
    struct tide_memory_report told;
};
/* Looks from time to time from now on, if there is a cap; the store actor. */
void tide__pressure_begin(struct tide_store *store);
void tide__pressure_watch(struct tide_store *store);                 /* of other nodes; before this one joins */
void tide__pressure_member(struct tide_store *store, uint16_t node); /* its state is new */
bool tide__pressure_timer(struct tide_store *store, uint64_t id);    /* false: another's */
/* EBUSY: node, use, cap, what is refused, and after how long to try again. */
int tide__memory_refuse(struct tide_store *store, uint16_t node, const char *what);
/* EBUSY: its run has no room for another table on this node. Where tables are made. */
int tide__memory_admit_table_here(struct tide_store *store, const struct tide_table_options *options);
/* A node said no for now, in an answer, which has no room for a time: the code. */
int tide__memory_told(int code);
/* May the pass make the rows that it would? EBUSY: nothing of it was done. */
int tide__memory_admit_rows(const struct tide__pass *pass);
/* The same of a push of another node. */
int tide__memory_admit_job(const struct tide__job *job);
enum tide_tier tide__memory_tier(struct tide_store *store, uint16_t node);
/* EBUSY: some member has no room for another table. The controller. */
int tide__memory_admit_table(struct tide_store *store, const char *name);
bool tide__memory_takes_rows(struct tide_store *store, uint16_t node);
/* Those of the nodes that take rows come first; how many, or all if none does: rows of a member that
 * leaves have to go somewhere. */
size_t tide__memory_prefer(struct tide_store *store, uint16_t *nodes, size_t count);

#endif
