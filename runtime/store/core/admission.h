/*
 * What a node's operations on rows of others may have in flight: a token of each message, taken at the door and given
 * back at its end (admission.c). A fiber that gets none waits.
 */
#ifndef TIDE_STORE_ADMISSION_H
#define TIDE_STORE_ADMISSION_H

#include "base/base.h"

struct tide_store;

struct tide__token {          /* of a message */
    struct tide__token *next; /* of the same operation, in the order of homes; while they are taken */
    uint32_t bytes;           /* keys and rows, in both directions */
    uint16_t home;
    bool held;
};

struct tide__credit {  /* under the lock: of a home, or of all together */
    uint32_t messages; /* in flight */
    uint64_t bytes;
    uint64_t since, waited_ns;            /* since when something is in flight; how long it was before that */
    struct tide__admission_waiter *first; /* in line */
    uint64_t withheld;                    /* UINT64_MAX less the home's grant */
};
struct tide__bucket {
    double per_second; /* 0: no limit; written before the node joins */
    uint64_t due;      /* of the next unit; under the lock */
};
struct tide__admission {
    struct tide_lock lock;
    struct tide__bucket rate[2];     /* operations, bytes */
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
/*
 * Takes the tokens of an operation, all or none; those of one home lie together. A fiber waits; a caller that is none
 * gets EBUSY, and when to try again if that is known. ETIMEDOUT, ECANCELED. `asked`: bytes by which the operation
 * counts in the node's rate; 0: it did before. Any thread.
 */
int tide__token_take(struct tide_store *store, struct tide__token *first, uint64_t asked);
void tide__token_give(struct tide_store *store, struct tide__token *token); /* if it is held */
/* The home grants so many bytes over all lanes now, or this node itself of what it sends. */
void tide__admission_granted(struct tide_store *store, uint16_t home, uint64_t grant);
void tide__admission_own(struct tide_store *store, uint64_t grant);
/* How long something has been in flight to `home`, ns since the start. Any thread. */
uint64_t tide__admission_waited(struct tide_store *store, uint16_t home);
/* Takes units. Returns when they may go: `now`, or before, if at once. */
uint64_t tide__bucket_take(struct tide__bucket *bucket, uint64_t now, double units);

#endif
