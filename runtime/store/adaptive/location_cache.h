/*
 * Location caches of tables that relocate: at an origin that is not home of a key, where the key was
 * last, so that operations on it go straight there (two messages) instead of by the home (three).
 *
 * The order of one origin's operations on one key requires that they go one way, which is FIFO on every
 * hop. So the way changes only when nothing that went the old way is unanswered (the *fence*; model:
 * tests/models/reloc.pml). The last operation decides: when it has run, so have those before it.
 *
 *   - Operations that go straight name the term under which the owner has the row. It runs them
 *     while it has the row under that term; once it has given the row away it returns all of them,
 *     also when it gets the row back: no later one runs before an earlier one.
 *   - Returned operations go by the home, in the order in which they come back. Until the last one
 *     has left, later operations wait in the store actor. So the answer is late, never wrong.
 *   - LOC goes to the home, and must not overtake an operation that went straight: a localize
 *     waits until these are answered, and later operations wait behind it.
 *   - Nothing goes straight to a node that is not up: what a leaver does not own it must not get.
 *
 * Memory is bounded: one entry a place, 65,536 places a table at most. An entry with an unanswered
 * operation keeps its place; a key that finds none goes by its home, whose way needs no entry.
 *
 * The functions on one entry are pure, as relocate.h's are: the node and the tests share them.
 * I/O thread 0.
 */
#ifndef TIDE_STORE_LOCATION_CACHE_H
#define TIDE_STORE_LOCATION_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide__location {
    uint64_t key;
    uint64_t last;  /* of own operations on the key, the one that left last; 0: none, and no entry
                       unless the node is known */
    uint32_t parts; /* straight: how often the key is in `last`, which may go and come back in several
                       messages; less those that were dealt with */
    uint32_t term;  /* under which `node` has the row */
    uint16_t node;  /* owner as last heard; 0: not known */
    bool straight;  /* the way in use */
    bool stale;     /* straight: one came back */
    bool closing;   /* straight: later operations wait until `last` is answered */
    bool waited;    /* and some do */
    bool used;      /* the place was of use since another key wanted it */
};

/* In the following `answered`: the operation `last` is. `may`: `node` is up, and this node is not home. */

/* Must an own operation, or a localize of a key that is not here, wait? Ends a way that is not in use. */
bool tide__location_waits(struct tide__location *entry, bool answered, bool may, bool localize);
/* Operation `id` leaves, or the key once more if it has it several times: to the node that is returned,
 * or by the home if that is 0. */
uint16_t tide__location_way(struct tide__location *entry, uint64_t id, bool answered, bool may);
/* An operation that went straight came back. */
void tide__location_returned(struct tide__location *entry);
/* It has left by the home, or has run here; once for each time that it went. True: what waits may look
 * again. */
bool tide__location_resent(struct tide__location *entry, uint64_t id);
/* The home said, or this node gave the row: it is at `node` under `term`; 0: at the home. */
void tide__location_learn(struct tide__location *entry, uint16_t node, uint32_t term);

/* ---- places ---- */

struct tide_table;
struct tide_store;
struct tide__job;

struct tide__locations; /* of a table; made with the first entry */

void tide__locations_prefetch(struct tide_table *table, uint64_t key);
/* Is anything of this node in flight to an owner, straight? If not, no operation has to wait. */
bool tide__locations_in_use(const struct tide_table *table);
/* Must an own operation wait, before anything else is decided about it? `gone`: the row is not here. */
bool tide__locations_wait(struct tide_table *table, const struct tide__job *job, uint64_t key, bool home, bool gone);
/* An operation of this node leaves for the home, or for the node that is returned, under *term. */
uint16_t tide__locations_way(struct tide_table *table, const struct tide__job *job, uint64_t key, uint32_t *term);
/* A returned operation was dealt with. */
void tide__locations_resent(struct tide_table *table, const struct tide__job *job, uint64_t key);
/* This node, which is not home, gave the row to `node`. */
void tide__locations_gave(struct tide_table *table, uint64_t key, uint16_t node, uint32_t term);
/* An own operation came back from the node that sent it. False: it was answered meanwhile, with that node's death. */
bool tide__locations_returned(struct tide__job *job);
/* Operations that waited for an answer look again. */
void tide__locations_retry(struct tide_store *store);

#endif
