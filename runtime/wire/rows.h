/*
 * Requests to the actor `rows` of each node with a store (store/client/rows.c), from clients (client/) and from any
 * program that speaks the protocol (docs/internals/protocol.md). A request is a call whose body is an array; its first
 * element is the request's number.
 */
#ifndef TIDE_WIRE_ROWS_H
#define TIDE_WIRE_ROWS_H

#include "base/base.h"

enum {
    TIDE__ROWS_VERSION = 2,         /* sent by OPEN; a later one only adds requests and fields */
    TIDE__ROWS_BYTES_MAX = 1 << 20, /* of the rows in one request or answer; one row may be larger */
    TIDE__ROWS_WINDOW = 256,        /* pushes of one client that may be unanswered, by sequence */
};

enum tide__rows_verb {
    TIDE__ROWS_OPEN = 1, /* [1, name of a table] -> map: name, version, table, width, keys, count, update */
    TIDE__ROWS_PULL,     /* [2, table, keys u64, direct] -> rows f32 */
    TIDE__ROWS_PUSH,     /* [3, table, keys u64, rows f32, client, sequence, low, direct] -> nil. A sequence is applied
                            once;     all below `low` are answered at the client. Client 0: as a call, at most once */
    TIDE__ROWS_LOCALIZE, /* [4, table, keys u64] -> nil: the rows are brought to this node */
    TIDE__ROWS_MAP,      /* [5, table] -> map: version, slots, pulls, pushes, homes u16 (of each slot) */
};
/* `direct` may be absent (false). True: only if this node is the home of all keys, else EVERSION, and nothing of
 * the request is done. */

/* ---- slots: which part of a table a key is in ---- */
enum { TIDE__SLOT_BITS = 12 };
enum tide__slots_by { TIDE__SLOTS_BY_HASH, TIDE__SLOTS_SPREAD, TIDE__SLOTS_BY_RANGE };
static inline uint32_t tide__slot_hashed(uint64_t key) { /* hashed tables */
    return (uint32_t)(tide_mix64(key) >> (64 - TIDE__SLOT_BITS));
}
static inline uint32_t tide__slot_spread(uint64_t key) { /* dense, TIDE_SLOTS_HASH */
    return (uint32_t)(key + (((key >> TIDE__SLOT_BITS) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - TIDE__SLOT_BITS))) &
           ((1u << TIDE__SLOT_BITS) - 1);
}
static inline uint32_t tide__slot_in_range(uint64_t key, uint64_t key_count) { /* dense, TIDE_SLOTS_RANGE */
    return (uint32_t)((key << TIDE__SLOT_BITS) / key_count);
}

#endif
