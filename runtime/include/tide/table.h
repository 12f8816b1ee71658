/* Parameter tables: pull and push. See tide.h. */
#ifndef TIDE_PUBLIC_TABLE_H
#define TIDE_PUBLIC_TABLE_H

#include "tide/table_options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tide_table;
/* Creates the table on all nodes, or finds it when one of equal options exists (EMISMATCH if they differ). Fibers. */
int tide_table_create(struct tide_node *node, const struct tide_table_options *options, struct tide_table **out);
/* The controller, when no other member is left: the names of all tables are free again. Those who still have one find
 * its rows gone. EBUSY: another member may hold rows, or this node is not the controller. Fibers. */
int tide_tables_forget(struct tide_node *node);
/* The table of that name, if it exists. Any thread. */
int tide_table_find(struct tide_node *node, const char *name, struct tide_table **out);
/* What create and find gave is not needed any more. A table that is dropped is freed when its last holder releases it.
 */
void tide_table_release(struct tide_table *table);
/* Drops the table and its rows on all nodes; its name is free at once. Operations in flight end as always, or fail
 * after a second, and new ones are refused: ECLOSED. ENOENT: there is none of that name. Fibers. */
int tide_table_drop(struct tide_node *node, const char *name);
const struct tide_table_options *tide_table_options(const struct tide_table *table);
/* The learning rate in force on this node; NaN: the table's rule has none. Any thread. */
float tide_table_rate(const struct tide_table *table);
/* Another rate, on all nodes and on those that join, kept where the cluster keeps its tables. When this returns, all
 * nodes take their steps by it: a push is applied by the rate of the node that has the row when it comes there. EINVAL:
 * the rule has no rate, or no such rate. ETIMEDOUT, EDIED: it may have been changed all the same. Fibers. */
int tide_table_set_rate(struct tide_table *table, float rate);

/* An asynchronous operation; embed it anywhere, keep it until waited for. */
struct tide_ticket {
    void *opaque[6];
};

/*
 * Pull: rows[i] = values of keys[i] (row-major, width floats each). Keys in any order, duplicates allowed.
 * Push: applies rows[i] to keys[i] by the table's update rule, in order. Local keys are read and written in place.
 * ticket NULL: waits (fibers only). Else returns when it is in flight: at once, unless 1,024 messages or 4 MiB to a
 * home are unanswered already, for which a fiber waits and any other caller gets EBUSY. `rows` of a pull must live
 * until the ticket is done; the rows of a push are copied. Per key: synchronous operations are sequentially consistent,
 * one worker's (a fiber's) operations take effect in program order. In a table with copies an operation waits for that
 * until asynchronous pulls of its keys, of the same worker, are answered. Errors: ERANGE (names key and limit; nothing
 * was done), ENAN, EFULL, EDIED, ELOST, EFENCED, ETIMEDOUT.
 */
int tide_table_pull(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                    struct tide_ticket *ticket);
int tide_table_push(struct tide_table *table, const uint64_t *keys, size_t key_count, const float *rows,
                    struct tide_ticket *ticket);
/* Only what this node holds; bit i of `hit` tells whether rows[i] was filled. Never waits. Returns the number of hits.
 */
size_t tide_table_pull_local(struct tide_table *table, const uint64_t *keys, size_t key_count, float *rows,
                             uint64_t *hit);
bool tide_ticket_done(const struct tide_ticket *ticket);
/* Waits (fibers only) and frees the ticket; returns the operation's result. Every ticket is waited for once. */
int tide_ticket_wait(struct tide_ticket *ticket);

/*
 * Brings the rows of `keys` to this node (technique "relocate"; else a no-op, counted). Ticket NULL: waits (fibers
 * only). Done means: each row was here at that moment, and what this node asked of it before has run. It does not mean
 * that it stays: another node may take it at once; then access is remote again. Errors: ERANGE, ENOMEM and EFULL (no
 * room: access stays remote), EDIED (the row, or the node that knows where it is, is gone).
 */
int tide_table_localize(struct tide_table *table, const uint64_t *keys, size_t key_count, struct tide_ticket *ticket);

/* Node that has the row of a key, as far as this node knows: its owner, if that is this node or the home is; else the
 * home. */
int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node);
/* Slot of a key, by which it has its home: the same on all nodes. */
uint32_t tide_table_slot(const struct tide_table *table, uint64_t key);

/*
 * Save: each node writes its rows; the result is one safetensors file `path` per table (keys, values, state).
 * Load: every node reads the rows it is home of; options must agree. Fibers. Errors: EIO, ENOSPC (no file is left
 * under the final name), EMISMATCH, EPROTO (damaged file; names what).
 */
int tide_table_save(struct tide_table *table, const char *path);
int tide_table_load(struct tide_table *table, const char *path);

#ifdef __cplusplus
}
#endif
#endif
