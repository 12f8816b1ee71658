/*
 * Intents (AdaPM: Renz-Wieland et al., 2022): workers say which keys they will use in which of
 * their clocks, and the rows are at hand then.
 *
 *   worker   tide_table_intent (intent.c): queued, never waits
 *   node     a fiber of each table acts on intents whose first clock is close (action_timer.c), and notifies
 *            the home of a key when the first interest of this node begins and the last one ends
 *   home     knows which nodes are interested (interest.c): the only one is to own the row, several
 *            have copies (hot_keys.h), and the one that is left is to own it again
 *
 * Mostly one node alone requests a key that it does not have. So its interest travels as a localize:
 * the node waits for the row (ARRIVING), and LOC says that it is of an intent. If the home has it
 * so, the row is in flight after one message, as for any LOC; else it answers STAY, what waited
 * goes to the owner, and the node makes a copy if it is advised to. A node that has the row, or waits
 * for it already, announces its interest by INTENT.
 *
 * What the home says later is advice: a node that is to own a row localizes it, one that is to have
 * a copy makes one, in the ordinary ways. So nothing of this is needed for values to be right; what
 * is lost or said twice while slots move and nodes die costs speed only. A node notifies the new home
 * of a slot anew; nothing is sent when nothing begins or ends.
 */
#ifndef TIDE_STORE_INTENT_H
#define TIDE_STORE_INTENT_H

#include "store/core/clock.h"
#include "store/adaptive/hot_keys.h"
#include "tide/placement.h"

/* ---- action_timer.c: when to act (AdaPM, section 4.3) ---- */
struct tide__action_timer { /* of a worker */
    double rate;            /* clocks a round, smoothed; rounds without a clock do not count */
    uint32_t seen;          /* its clock at the last round */
};
void tide__action_timer_init(struct tide__action_timer *window, uint32_t clock);
/* A round: how many clocks ahead intents are acted on. */
uint32_t tide__action_timer_round(struct tide__action_timer *window, uint32_t clock);
/* The 0.9999-quantile of a Poisson distribution of mean 2 m. */
uint32_t tide__action_timer_clocks(double m);

tide__handler tide__intent_message, tide__intent_done_message, tide__advice_message;

/* ---- intent.c: nodes ---- */
enum { TIDE__INTENT_KEYS_MAX = 1 << 22 }; /* queued on a node, of a table */
/* The table's fiber is to end, for the table goes; has it? */
void tide__intents_end(struct tide_table *table);
bool tide__intents_ended(struct tide_table *table);
void tide__intents_destroy(struct tide_table *table);
/* Does an intent on the key last? I/O. */
bool tide__intent_lasts(const struct tide_table *table, uint64_t key);
/* The home advises this node to have a copy. I/O. */
void tide__intent_copy(struct tide_table *table, uint64_t key);

/* ---- interest.c: homes, and what goes between. I/O ---- */
enum tide__advice { TIDE__ADVISE_OWN, TIDE__ADVISE_COPY };
/* A node begins to be interested in a key of this home; what that comes to, but for an owner. */
enum tide__rule { TIDE__RULE_NONE, TIDE__RULE_OWN, TIDE__RULE_COPY };
enum tide__rule tide__interest_begins(struct tide_table *table, uint64_t key, uint16_t node, uint16_t owner);
/* DONE of this node, to the home of their slot. */
void tide__interest_done(struct tide_table *table, uint16_t home, const uint64_t *keys, size_t count);
void tide__interest_member_gone(struct tide_table *table, uint16_t node);
void tide__interest_slot_left(struct tide_table *table, uint32_t slot);

/* As tide_table_localize, asynchronous, but the homes of the keys decide what is to come. */
int tide__table_intended(struct tide_table *table, const uint64_t *keys, size_t count, struct tide_ticket *ticket);

#endif
