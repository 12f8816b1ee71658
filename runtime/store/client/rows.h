/*
 * The row service: the actor `rows` of a node, by which clients, which are no members, read and write rows. Store
 * messages stay among members. The node is the origin of the operations: relocation, failover and admission see no
 * difference from a worker's.
 *
 * A request whose rows all lie here is served in the turn in which it arrives. For any other a fiber waits, of which
 * there are at most ROWS_FIBERS; further requests are refused whole with EBUSY.
 *
 * Pushes are applied exactly once while this node lives: each has a sequence of its client, and what is sent again gets
 * the answer of the first one. A node keeps answers of at most ROWS_CLIENTS clients, for 10 minutes.
 *
 * A client that has the table's map of slots sends keys to their home itself (`direct`). A home that has given a slot
 * away meanwhile redirects: it answers EVERSION and does nothing of the request. A push that it has applied before is
 * answered as it was, wherever its slots are now.
 *
 * Lookups have an actor of their own, `lookups`, which clients of the right `read` use: the same requests without
 * pushes. So a lookup waits neither behind other clients' operations nor behind the store's turn: the actor runs first
 * on its thread for a share of the time (store_lookup_share), up to a rate (store_lookup_rate), beyond which it answers
 * EBUSY with a time. Pulls of such a client are not ordered against pushes.
 *
 * Rights: read for open, map and pull, operate for push and localize.
 */
#ifndef TIDE_STORE_CLIENT_ROWS_H
#define TIDE_STORE_CLIENT_ROWS_H

#include "store/core/store.h"

enum { ROWS_FIBERS = 512, ROWS_CLIENTS = 1024, ROWS_BYTES = 64 << 20 };

/* Starts both, after the store. ENOMEM, EEXIST. */
int tide_rows_create(struct tide_node *node, struct tide_store *store);

/* A request that was read, pointing into its bytes. */
struct tide__rows_request {
    unsigned verb; /* enum tide__rows_verb */
    char name[64]; /* OPEN */
    uint64_t table, client, sequence, low;
    const void *keys, *rows; /* unaligned */
    size_t key_count, row_floats;
    bool direct;
};
/* Reads foreign bytes; EPROTO. Pure. */
int tide__rows_parse(const void *data, size_t size, struct tide__rows_request *out);

#endif
