/*
 * The relocation protocol of one key at one node, as a pure function: no rows, no messages, no
 * clock. The node (owner.c) and the tests call the same code.
 *
 * Every key has a home and exactly one owner, or its row is on the way between two. The home
 * numbers the changes of owner (terms) and records the new owner *before* anything is sent. A
 * requester is ARRIVING before its LOC leaves, so whatever reaches it early waits there. See
 * section "Relocation" of docs/architecture.md.
 */
#ifndef TIDE_STORE_RELOCATE_H
#define TIDE_STORE_RELOCATE_H

#include <stdbool.h>
#include <stdint.h>

enum { TIDE__TERM_MASK = 0xffffff }; /* terms are serial numbers of 24 bits */

enum tide__relocate_state { TIDE__GONE, TIDE__HELD, TIDE__COMING };

struct tide__relocation {
    uint16_t self;
    bool home;      /* this node is home of the key's slot */
    uint8_t state;  /* enum tide__relocate_state: the row is not here, here, asked for */
    uint32_t term;  /* highest term under which this node had the key */
    uint16_t owner; /* home: owner of record; 0: nobody yet, its initial row is made on demand */
    uint32_t owner_term; /* home: its term */
    uint16_t next;       /* COMING: to whom the row goes on, 0: it stays */
    uint32_t next_term;
};

enum tide__relocate_kind {
    TIDE__EVENT_OPERATION,
    TIDE__EVENT_LOCALIZE, /* this node wants the key */
    TIDE__EVENT_LOC,      /* node wants the key */
    TIDE__EVENT_HAND,     /* give it to node under term */
    TIDE__EVENT_XFER,     /* the row, under term */
    TIDE__EVENT_OFFER,    /* node wants to be rid of the key */
    TIDE__EVENT_LOST,     /* the row will not come */
};
struct tide__relocate_event {
    uint8_t kind;
    uint16_t node;
    uint32_t term;
};

enum tide__relocate_act {
    TIDE__RUN,              /* operation: here and now */
    TIDE__QUEUE,            /* operation, localize: waits for the row */
    TIDE__TO_HOME,          /* operation, LOC: pass it on to the home */
    TIDE__TO_OWNER,         /* operation: pass it on to node */
    TIDE__HERE,             /* localize: nothing to do */
    TIDE__ASK,              /* localize: waits; send LOC to the home */
    TIDE__GIVE,             /* send the row to node under term */
    TIDE__SEND_HAND,        /* send HAND(new owner `node`, term) to `to`; a localize waits */
    TIDE__INSTALL,          /* the row is here (XFER; LOC: make the initial one) */
    TIDE__INSTALL_AND_GIVE, /* run what waits, then send the row on to node under term */
    TIDE__NOTED,            /* the row goes on when it comes */
    TIDE__FAILED,           /* LOST: everything that waits fails, and the home is told */
    TIDE__DROP,             /* a duplicate or old news */
    TIDE__SURPRISE,         /* cannot happen under the protocol: count it */
};
struct tide__relocate_result {
    uint8_t act;
    uint16_t node, to;
    uint32_t term;
};

/* Is term a after term b? */
static inline bool tide__term_newer(uint32_t a, uint32_t b) {
    return ((a - b - 1u) & TIDE__TERM_MASK) < TIDE__TERM_MASK / 2;
}
static inline uint32_t tide__term_next(uint32_t term) {
    return (term + 1u) & TIDE__TERM_MASK;
}

/* Changes *key as the event demands; what is left to do is the result. */
struct tide__relocate_result tide__relocate(struct tide__relocation *key,
                                            struct tide__relocate_event event);

#endif
