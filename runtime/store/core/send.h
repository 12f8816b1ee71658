/* Messages to the store actors of other nodes (send.c). */
#ifndef TIDE_STORE_SEND_H
#define TIDE_STORE_SEND_H

#include "store/core/message.h"
#include "store/core/store.h"

/*
 * Sends to a store actor; tail may be NULL (*shares*). When it fails:
 *   a worker's call       gets the error, and takes back what it had noted
 *   a handler, or a fiber or a lock's holder that says so (TIDE_MEMORY_VITAL)
 *                         has memory up to 1 MiB, or its process ends; clocked.c ends it above, too.
 *                         So it may ignore the code: what is left are nodes that are gone, of which
 *                         all are notified (on_member), and answers of more than 1 MiB
 *   a worker that says that a window is half full (async_replication.c)
 *                         need not: the window's timer comes anyway
 */
int tide__store_send(struct tide_store *store, uint16_t node, enum tide_lane lane, bool prepaid, const void *data,
                     size_t size, struct tide_blob *tail);
/* Prepaid, on lane store, and in order with what other threads send so: a message of the I/O thread
 * would overtake theirs otherwise. */
int tide__store_send_in_line(struct tide_store *store, uint16_t node, const void *data, size_t size,
                             struct tide_blob *tail);
/* Prepaid, on lane store, to another node; the tail is scattered (actor.h). */
int tide__store_send_scattered(struct tide_store *store, uint16_t node, const void *data, size_t size,
                               struct tide_blob *tail);
int tide__store_send_writer(struct tide_store *store, uint16_t node, struct tide_writer *writer); /* and releases it */
/* A whole message (TIDE__AS), prepaid, on lane store. */
int tide__store_tell(struct tide_store *store, uint16_t node, enum tide__op op, const union tide__message *m);
/* A whole message to the store actor of this node. Any thread; ENOMEM. */
int tide__store_post(struct tide_store *store, enum tide__op op, const union tide__message *m);
/* Calls a store actor. *gives* the answer. */
int tide__store_call(uint16_t node, enum tide__op op, const union tide__message *m, uint64_t timeout,
                     struct tide_reply **out);
int tide__nothing_answer(const struct tide_message *message); /* of a call; 0 */
/* Fails with the code that ended a wait for store_operation_timeout: "WHAT: MISSING in 30 s", or that the fiber ends.
 */
int tide__store_gave_up(int code, const char *what, const char *missing);

void tide__node_text(struct tide_store *store, uint16_t node, char out[96]); /* "n3 (3)" */

#endif
