/*
 * What a node's operations on rows of others may have in flight, by messages and bytes (admission.c)
 * and by time (rate.c). A fiber without credit waits.
 */
#ifndef TIDE_STORE_ADMISSION_H
#define TIDE_STORE_ADMISSION_H

#include "base/base.h"

struct tide_store;

/* ---- admission.c ---- */

struct tide__credit {  /* under the lock: of a home, or of all together */
    uint32_t messages; /* in flight */
    uint64_t bytes;
    uint64_t since, waited_ns;            /* since when something is in flight; how long it was before that */
    struct tide__admission_waiter *first; /* in line */
    uint64_t withheld;                    /* UINT64_MAX less the home's grant */
};
struct tide__admission {
    struct tide_lock lock;
    struct tide__credit *pages[256]; /* by node id */
    uint64_t waits, bytes_most;      /* fibers that had to wait; most in flight to one home */
    uint32_t messages_max;           /* of a home */
    uint64_t bytes_max;
    uint64_t withheld;       /* of every home, by this node itself */
    struct tide__credit all; /* of whole operations, on whatever homes; with a limit only */
    uint64_t all_max;        /* 0: no limit; written before anything is in flight */
    uint64_t all_most, all_waits;
};
void tide__admission_init(struct tide__admission *admission);
void tide__admission_deinit(struct tide__admission *admission);
/* Credit for an operation's messages to `home`; a fiber waits for it. EBUSY: not a fiber. ETIMEDOUT,
 * ECANCELED. Any thread. */
int tide__admission_take(struct tide_store *store, uint16_t home, uint32_t messages, uint64_t bytes);
void tide__admission_return(struct tide_store *store, uint16_t home, uint32_t messages, uint64_t bytes);
/* Room for all of an operation within the node's queue limit, before any home's credit: a caller that waits
 * here holds nothing. It returns with the credit of the homes, or by leave, where none was taken.
 * Errors as above. Any thread. */
int tide__admission_enter(struct tide_store *store, uint32_t messages, uint64_t bytes);
void tide__admission_leave(struct tide_store *store, uint32_t messages, uint64_t bytes);
/* The home grants so many bytes over all lanes now, or this node itself of what it sends. */
void tide__admission_granted(struct tide_store *store, uint16_t home, uint64_t grant);
void tide__admission_own(struct tide_store *store, uint64_t grant);
/* How long something has been in flight to `home`, ns since the start. Any thread. */
uint64_t tide__admission_waited(struct tide_store *store, uint16_t home);

/* ---- rate.c ---- */
struct tide__bucket {
    double per_second; /* 0: no limit; written before the node joins */
    uint64_t due;      /* of the next token; under the lock */
};
struct tide__rate {
    struct tide_lock lock;
    struct tide__bucket operations, bytes;
};
/* An operation on rows of other nodes. A fiber waits for its turn; EBUSY: not a fiber. ECANCELED.
 * Any thread. */
int tide__rate_take(struct tide_store *store, uint64_t bytes);

#endif
