/*
 * Durability window: a push is answered once it is at its home, and its row follows to the copies.
 *
 * Workers of the home push in place; a row that changes is listed once, until it is shipped. Once
 * or twice a window, as late as what the last shipments took allows, all listed rows go down their
 * chains: slot by slot, in parts, one a turn of the loop, each row as it is then, numbered and
 * acknowledged like the pushes of a strict table, with the ids of the operations in them: so copies
 * of a slot hold what its home held at some moment, and a push that is sent again after a death is
 * applied once.
 *
 * The bound. `safe` is the latest time for which is known: all that was answered before is on the
 * copies. While that is less than a window ago, less than `window_bytes` of rows are listed or on
 * their way, and the leases hold, the table is open: pushes are answered at once. Else each waits
 * until the copies have it, as in a strict table. So what a death of the home loses was answered
 * within one window, and is less than that many bytes of rows and one call of each worker.
 *
 * What was lost is reported. A home counts the pushes it answers to each origin, and reports how many of
 * them are safe; when it dies, the others are lost (tide_table_stats.lost_updates): as many, or
 * fewer.
 *
 * A home that is to leave on purpose is closed first (tide__async_tighten), and nothing is lost.
 * What it applies from then on the next home may get from the origins again, in another order: so
 * pulls of the slots that go wait for the copies too, and what they show stays.
 *
 * I/O thread 0 unless marked.
 */
#ifndef TIDE_STORE_ASYNC_REPLICATION_H
#define TIDE_STORE_ASYNC_REPLICATION_H

#include "store/replica/replica.h"
#include "tide/stats.h"

struct tide__async_replication; /* of a table; NULL: it is not of durability window */
struct tide__flight;

int tide__async_create(struct tide_table *table); /* ENOMEM */
void tide__async_destroy(struct tide_table *table);
bool tide__async_idle(const struct tide_table *table); /* nothing is listed or in flight */

/* ---- workers ---- */
/* A pass that pushes in place begins; false: the table is closed. *guard: for the end. */
bool tide__async_enter(struct tide_table *table, unsigned *guard);
void tide__async_leave(struct tide_table *table, unsigned guard);
/* How many slots are about to go to another home; in the high half: how many ever were. What was
 * read in place may be shown if the low half was 0 before, and all is the same afterwards. */
uint64_t tide__async_going(const struct tide_table *table);
/* The row of a locked word changes: its word afterwards, in *word. ENOMEM. */
int tide__async_list(struct tide_table *table, uint64_t key, uint64_t *word);

/* ---- the home ---- */
/* Room for a push of `count` keys, so that the next cannot fail. ENOMEM. */
int tide__async_reserve(struct tide_table *table, uint32_t count);
/* The same as tide__async_list; it counts from tide__async_noted on. */
uint64_t tide__async_note(struct tide_table *table, uint64_t key, uint64_t word);
void tide__async_noted(struct tide_table *table);
/* A push is about to be applied, or an answer is to wait. */
void tide__async_begin(struct tide_table *table);
/* May pushes be answered that are not on the copies? */
bool tide__async_open(struct tide_table *table);
/* The slot is about to go: nothing of it may be shown that is not with the copies. */
bool tide__async_goes(const struct tide_table *table, uint32_t slot);
/* The operation is answered when all that is listed is with the copies; unless a slot of it goes to
 * another home first: then its origin sends it there. One message of `wait` is this. */
void tide__async_wait(struct tide_table *table, struct tide__wait *wait);
/* Everything that is listed goes down the chains, or behind what is going. */
void tide__async_ship(struct tide_table *table);
/* Copies that cannot be sent what they lack of these keys are rebuilt. */
void tide__async_give_up(struct tide_table *table, const uint64_t *keys, size_t count);
/* Everything of the flight is with the copies, or dropped. *takes* it. */
void tide__async_landed(struct tide_table *table, struct tide__flight *flight);
/* The slot is about to go to another home: no push to the table and no pull of the slot is answered
 * from now on before what it is about is with the copies, until the slot's group changes. False:
 * workers are still at it, or memory is short: retry. */
bool tide__async_tighten(struct tide_table *table, uint32_t slot);
/* The slot's group and route have changed; `goes`: this node was home, and is no more. */
void tide__async_regroup(struct tide_table *table, uint32_t slot, bool goes);
/* Is it the timer of a table? Then what it is for is done. */
bool tide__async_timer(struct tide_store *store, uint64_t timer);

/* ---- reports ---- */
/* `count` pushes of another node are answered. True: the answer says so (on_reply). */
bool tide__lost_updates_given(struct tide_table *table, uint16_t origin, size_t count);
/* At that node: `home` answered them. */
void tide__lost_updates_taken(struct tide_table *table, uint16_t home, size_t count);
tide__handler tide__lost_updates_safe; /* SAFE */
void tide__lost_updates_member(struct tide_store *store, const struct tide_member *member);
void tide__lost_updates_stats(struct tide_table *table, struct tide_table_stats *out); /* any thread */

#endif
