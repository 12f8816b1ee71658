/* Where rows lie: homes of slots and their moves, techniques of single keys, intents. See tide.h. */
#ifndef TIDE_PUBLIC_PLACEMENT_H
#define TIDE_PUBLIC_PLACEMENT_H

#include "tide/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Home of each slot by the newest map this node knows: homes[TIDE_SLOTS]. Any thread. */
void tide_table_slot_homes(struct tide_table *table, uint16_t *homes);
/*
 * Gives slots (0..TIDE_SLOTS-1) of a table to `node` while all continue to work; those that are there already stay. The
 * controller plans and records it. Returns when all are there and nothing goes by their old homes any more. Tables with
 * replicas are refused: their controller places the copies. All slots are moved, or none is: EINVAL (no such slot; no
 * node of that id that is up and holds rows), EBUSY (one of them is on the move already), ENOENT (a slot's home died),
 * EREFUSED. Or it began: ELOST (`node` died meanwhile, and with it the rows that had reached it), EDIED (the controller
 * did: one that keeps its state continues with it), ETIMEDOUT (after 600 s; the move continues).
 * Fibers.
 */
int tide_table_move(struct tide_table *table, const uint32_t *slots, size_t slot_count, uint16_t node);
/*
 * Techniques of single keys. Copies of shared keys (techniques replicate and intent) are read and written by the
 * workers of their node in place. In rounds, what accumulated there goes to the owners of the rows and rows that
 * changed come back: a worker sees its own pushes at once and those of others somewhat later, in no common order, and
 * when pushes end, all copies become equal. An update that was not sent yet is lost when its node dies (not
 * when it leaves). Rules add, sgd and adagrad; tables without clocks and without replicas: else EUNSUPPORTED.
 */
#define TIDE_SHARE_OPTIONS_INIT .size = sizeof(struct tide_share_options)
struct tide_share_options {
    size_t size;           /* of this struct (tide/actor.h); 0: its first layout */
    const uint16_t *nodes; /* replicate: nodes with copies; none named: all, those that join later too */
    size_t node_count;
    /* of the table's shared keys: */
    uint32_t rate;   /* rounds a second at most; 0: 100 */
    float threshold; /* an update waits until its largest entry is this, at most 1 s */
    float clip; /* an update longer than so many times the mean one is cut to that, after 1,000 updates; 0: none is */
};
/* Notifies all nodes; done means notified, not carried out. options NULL: defaults. Fibers. ERANGE, EINVAL,
 * EUNSUPPORTED. */
int tide_table_manage(struct tide_table *table, const uint64_t *keys, size_t key_count, uint8_t technique,
                      const struct tide_share_options *options);
/* The technique of a key, as this node knows; *copy: it has a copy now. Any thread. */
uint8_t tide_table_technique(struct tide_table *table, uint64_t key, bool *copy);
/* What was pushed to copies before is at the owners when this returns. Fibers. */
int tide_table_flush(struct tide_table *table);

/*
 * The calling worker will use the keys in its clocks clock_begin .. clock_end - 1 (techniques intent and relocate; else
 * a no-op, counted with those of localize). Never waits; when that is near, rows come here or copies are made. Nothing
 * depends on it but speed. EBUSY: too many are queued, the access will be remote. EINVAL: no worker. ERANGE.
 */
int tide_table_intent(struct tide_table *table, const uint64_t *keys, size_t key_count, uint32_t clock_begin,
                      uint32_t clock_end);

#ifdef __cplusplus
}
#endif
#endif
