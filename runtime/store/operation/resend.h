/* Unanswered operations go out again, to a new home, or fail (resend.c). */
#ifndef TIDE_STORE_RESEND_H
#define TIDE_STORE_RESEND_H

#include "store/core/table.h"

struct tide__job;
/* Tables with copies (failover.c). Messages with an unanswered key in a slot of `moved`, or at `node`, in
 * order; *gives* the ids, NULL: none, or out of memory. */
uint64_t *tide__pending_affected(struct tide_table *table, const uint64_t *moved, uint16_t node, size_t *count);
/* The message as a job over `data`, and the keys that are not answered; *gives* data and indices. */
bool tide__pending_again(struct tide_store *store, uint64_t id, uint8_t **data, struct tide__job *job,
                         uint32_t **indices, uint32_t *count);
void tide__pending_moved(struct tide_store *store, uint64_t id, uint32_t position, uint16_t node);
/* This node is a member no more: what waits for an answer fails. */
int tide__fenced_fail(struct tide_store *store);
/* ELOST, with the story: the slot has no home that has its rows. */
int tide__lost_fail(struct tide_table *table, uint32_t slot, uint64_t key);
void tide__pending_fenced(struct tide_store *store);
void tide__pending_fail_dropped(struct tide_table *table); /* of a table that is dropped */

#endif
