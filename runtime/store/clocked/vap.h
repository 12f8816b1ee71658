/*
 * The value bound (consistency "vap"): what others miss of a worker's pushes is never larger than
 * the bound, in any value of a row.
 *
 *   worker   keeps for each key a ledger of its updates that some node may not see yet. A push that
 *            would take it over the bound waits; what is open is sent first. So does a clock, whose
 *            end makes the bound smaller
 *   home     sends a row at once when it changes, and TRACEs each update: when all nodes with
 *            copies have sent SEEN for the row that holds it, the origin gets VISIBLE
 *
 * What counts. A reader misses the newest of a worker's updates: those behind some cut. Updates of
 * changing sign may add up to little although a part of them does not, so the largest sum behind
 * any cut is bounded, not only the sum of all. An update that alone is larger than the bound is
 * made when nothing else of its key is unseen, and counted.
 *
 * No cycle of waits: SEEN and VISIBLE come from I/O threads, never from workers.
 */
#ifndef TIDE_STORE_VAP_H
#define TIDE_STORE_VAP_H

#include "store/clocked/clocked.h"
#include "tide/stats.h"

struct tide__vap;
int tide__vap_create(struct tide__clocked *c);
void tide__vap_destroy(struct tide__clocked *c);
double tide__vap_bound(const struct tide__clocked *c); /* of clock 0. Any thread */
void tide__vap_set_bound(struct tide__clocked *c, double bound);
void tide__vap_statistics(struct tide__clocked *c, struct tide_staleness *out);

/* ---- workers ---- */
/* May the update of a row be made? The row is latched, and the update follows at once if it may.
 * `at_home`: it acts on the row itself; `watched`: of which nodes hold copies. 1: yes, and it is
 * noted; 0: wait; or an error. */
int tide__vap_admit(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, const float *delta,
                    bool at_home, bool watched);
/* Until it may, as far as is known without the latch. Suspends. */
int tide__vap_wait(struct tide__clocked *c, struct tide__worker *worker, uint64_t key, const float *delta);
/* Until what is unseen of the worker's pushes is within the bound of its next clock. Suspends. */
int tide__vap_may_end(struct tide__sync *sync, struct tide__worker *worker);
void tide__vap_worker_ended(struct tide__clocked *c, const struct tide__worker *worker);

/* ---- what leaves; flush lock held ---- */
/* The updates of a copy that accumulated are in the DELTA of that number. Latched. */
void tide__vap_packed(struct tide__clocked *c, uint64_t key, uint64_t number);
/* Updates of rows that are at home here. */
void tide__vap_flush(struct tide__clocked *c);
/* These slots are sent to another home from now on, and what was open there has left: the old home
 * may have ended before it said VISIBLE. */
void tide__vap_retrace(struct tide__clocked *c, uint16_t home, const uint32_t *slots, size_t count);

/* ---- home; I/O ---- */
/* Updates of `origin` up to `number` are in these rows, which are here. */
void tide__vap_trace(struct tide__clocked *c, uint16_t origin, uint64_t number, const uint64_t *keys, size_t count);
void tide__vap_values_sent(struct tide__clocked *c, uint16_t node, uint64_t version);
void tide__vap_values_came(struct tide__clocked *c, uint16_t from, uint64_t version);
void tide__vap_member_gone(struct tide__clocked *c, uint16_t node);

#endif
