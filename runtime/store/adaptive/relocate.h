/*
 * The relocation protocol of one key at one node, as a pure function: no rows, no messages, no
 * clock. The node (owner.c) and the tests call the same code.
 *
 * Every key has a home and exactly one owner, or its row is on the way between two. The home
 * numbers the changes of owner (terms) and records the new owner *before* anything is sent. A
 * requester is ARRIVING before its LOC leaves, so whatever reaches it early waits there. See
 * docs/internals/relocation.md.
 */
#ifndef TIDE_STORE_RELOCATE_H
#define TIDE_STORE_RELOCATE_H

#include "base/base.h"

enum { TIDE__TERM_MASK = 0xffffff }; /* terms are serial numbers of 24 bits */

enum tide__relocate_state { TIDE__GONE, TIDE__HELD, TIDE__COMING };

struct tide__relocation {
    uint16_t self;
    bool home;           /* this node is home of the key's slot */
    bool cold;           /* COMING: from the disk of this node, which has the row under `term` */
    uint8_t state;       /* enum tide__relocate_state: the row is not here, here, asked for */
    uint32_t term;       /* highest term under which this node had the key */
    uint16_t owner;      /* home: owner of record; 0: none yet, its initial row is made on demand */
    uint32_t owner_term; /* home: its term */
    uint16_t next;       /* COMING: the next owner of the row, 0: it stays */
    uint32_t next_term;
};

enum tide__relocate_kind {
    TIDE__EVENT_OPERATION, /* node sent it to this node as the home; 0: called here, or to the owner */
    TIDE__EVENT_LOCALIZE,  /* this node requests the key */
    TIDE__EVENT_LOC,       /* node requests the key */
    TIDE__EVENT_HAND,      /* give it to node under term */
    TIDE__EVENT_XFER,      /* the row, under term */
    TIDE__EVENT_OFFER,     /* node leaves and returns the key */
    TIDE__EVENT_LOST,      /* the row will not come */
    TIDE__EVENT_STAY,      /* this node asked on an intent: the row stays where it is */
    TIDE__EVENT_THAW,      /* the row was read from the disk of this node */
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
    TIDE__NOTED,            /* the row is forwarded when it comes */
    TIDE__FAILED,           /* LOST: everything that waits fails, and the home is notified */
    TIDE__STAYS,            /* STAY: everything that waits goes to where the row is */
    TIDE__DROP,             /* a duplicate or stale */
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

static inline struct tide__relocate_result tide__act(enum tide__relocate_act what) {
    return (struct tide__relocate_result){.act = (uint8_t)what};
}

static inline bool tide__here_by_default(const struct tide__relocation *key) {
    return key->home && key->state == TIDE__GONE && key->owner == key->self;
}

/*
 * What a home passes on goes to the owner of record, also when the home itself waits for the row: it may
 * be that it asked for it by a former home, which passed earlier operations of the same worker on to
 * that owner. And a former home forwards what was sent to the home, also when it has
 * the row, which may be about to go to that owner.
 */
static inline struct tide__relocate_result tide__on_operation(const struct tide__relocation *key, bool asks_home) {
    const bool in_the_end = key->home && (key->owner == key->self || key->owner == 0);
    if (!asks_home || in_the_end || TIDE_MUTANT(home_keeps_operations)) {
        if (key->state == TIDE__HELD || tide__here_by_default(key)) {
            return tide__act(TIDE__RUN);
        }
        if (key->state == TIDE__COMING && !TIDE_MUTANT(reloc_requester_forwards)) {
            return tide__act(TIDE__QUEUE);
        }
    }
    struct tide__relocate_result r = tide__act(key->home ? TIDE__TO_OWNER : TIDE__TO_HOME);
    r.node = key->home ? key->owner : 0;
    return r;
}

/* The home records `node` as owner, before anything is sent. */
static inline struct tide__relocate_result tide__record(struct tide__relocation *key, uint16_t node,
                                                        enum tide__relocate_act what) {
    struct tide__relocate_result r = tide__act(what);
    r.to = key->owner;
    r.node = node;
    if (!TIDE_MUTANT(reloc_home_records_late)) {
        key->owner = node;
    }
    r.term = key->owner_term = tide__term_next(key->owner_term);
    return r;
}

static inline struct tide__relocate_result tide__on_localize(struct tide__relocation *key) {
    if (key->state == TIDE__HELD || tide__here_by_default(key)) {
        return tide__act(TIDE__HERE);
    }
    if (key->state == TIDE__COMING) {
        return tide__act(TIDE__QUEUE);
    }
    key->state = TIDE__COMING;
    key->next = 0;
    return key->home ? tide__record(key, key->self, TIDE__SEND_HAND) : tide__act(TIDE__ASK);
}

static inline struct tide__relocate_result tide__on_loc(struct tide__relocation *key, uint16_t node) {
    if (!key->home) {
        return tide__act(TIDE__TO_HOME);
    }
    if (key->owner == node) {
        return tide__act(TIDE__DROP);
    }
    if (key->owner == 0) { /* it became home while it waits: no node has the row, it was never made */
        if (node != key->self) {
            return tide__record(key, node, TIDE__GIVE);
        }
        struct tide__relocate_result r = tide__record(key, node, TIDE__INSTALL);
        key->term = r.term;
        key->state = TIDE__HELD;
        return r;
    }
    if (key->owner != key->self) {
        if (node == key->self && key->state == TIDE__GONE) {
            return tide__on_localize(key);
        }
        if (node == key->self && key->next) {
            return tide__act(TIDE__DROP); /* it came a long way round: the slot has answered it */
        }
        return tide__record(key, node, TIDE__SEND_HAND);
    }
    if (key->state != TIDE__COMING) {
        key->state = TIDE__GONE;
        return tide__record(key, node, TIDE__GIVE);
    }
    if (key->next) {
        return tide__act(TIDE__SURPRISE); /* then the owner of record were that successor */
    }
    struct tide__relocate_result r = tide__record(key, node, TIDE__NOTED);
    key->next = node;
    key->next_term = r.term;
    return r;
}

/* Is this HAND or XFER about a row that comes though this node does not wait for it? It abandoned it when a
 * home died that had forwarded its localize, or its localize was granted twice. It is to wait. */
static inline bool tide__is_unasked(const struct tide__relocation *key, struct tide__relocate_event event) {
    const bool given = event.kind == TIDE__EVENT_HAND && event.term == tide__term_next(key->term);
    return key->state == TIDE__GONE && !tide__here_by_default(key) && !given &&
           tide__term_newer(event.term, key->term) && !TIDE_MUTANT(row_unasked_dropped);
}

static inline struct tide__relocate_result tide__on_hand(struct tide__relocation *key, uint16_t node, uint32_t term) {
    if (!tide__term_newer(term, key->term)) {
        return tide__act(TIDE__DROP);
    }
    struct tide__relocate_result r = tide__act(TIDE__GIVE);
    r.node = node;
    r.term = term;
    if (key->state == TIDE__HELD) {
        if (term != tide__term_next(key->term)) {
            return tide__act(TIDE__SURPRISE);
        }
        key->state = TIDE__GONE;
        return r;
    }
    if (key->cold && (key->next || term != tide__term_next(key->term))) {
        return tide__act(key->next == node && key->next_term == term ? TIDE__DROP : TIDE__SURPRISE);
    }
    if (term == tide__term_next(key->term) && !key->cold) {
        return tide__act(TIDE__DROP); /* given already: a duplicate */
    }
    if (key->state == TIDE__COMING && !key->next) {
        key->next = node;
        key->next_term = term;
        r.act = TIDE__NOTED;
        return r;
    }
    bool again = key->state == TIDE__COMING && key->next == node && key->next_term == term;
    return tide__act(again ? TIDE__DROP : TIDE__SURPRISE);
}

/* The row is here, under `term`. */
static inline struct tide__relocate_result tide__here(struct tide__relocation *key, uint32_t term) {
    struct tide__relocate_result r = tide__act(TIDE__INSTALL);
    key->term = term;
    key->state = TIDE__HELD;
    if (key->next && key->next_term == tide__term_next(term) && !TIDE_MUTANT(reloc_keeps_noted)) {
        r.act = TIDE__INSTALL_AND_GIVE;
        r.node = key->next;
        r.term = key->next_term;
        key->state = TIDE__GONE;
    }
    key->next = 0;
    return r;
}

static inline struct tide__relocate_result tide__on_xfer(struct tide__relocation *key, uint32_t term) {
    if (key->state != TIDE__COMING || key->cold || !tide__term_newer(term, key->term)) {
        return tide__act(TIDE__DROP);
    }
    return tide__here(key, term);
}

/* It was here all the time: under the term that it had. */
static inline struct tide__relocate_result tide__on_thaw(struct tide__relocation *key) {
    if (key->state != TIDE__COMING || !key->cold) {
        return tide__act(TIDE__SURPRISE);
    }
    key->cold = false;
    return tide__here(key, key->term);
}

static inline struct tide__relocate_result tide__on_offer(struct tide__relocation *key, uint16_t node) {
    if (!key->home) {
        return tide__act(TIDE__TO_HOME);
    }
    return key->owner == node && key->owner != key->self && key->state == TIDE__GONE ? tide__on_localize(key)
                                                                                     : tide__act(TIDE__DROP);
}

static inline struct tide__relocate_result tide__on_lost(struct tide__relocation *key) {
    if (key->state != TIDE__COMING || key->cold) {
        return tide__act(TIDE__DROP);
    }
    key->state = TIDE__GONE;
    key->next = 0;
    return tide__act(TIDE__FAILED);
}

/* Each localize has one answer: none but STAY comes for this one. */
static inline struct tide__relocate_result tide__on_stay(struct tide__relocation *key) {
    if (key->state != TIDE__COMING || key->cold || key->next) {
        return tide__act(TIDE__SURPRISE);
    }
    key->state = TIDE__GONE;
    return tide__act(TIDE__STAYS);
}

/* Changes *key as the event demands; what is left to do is the result. Inlined: most callers know
 * what kind of event it is. */
static inline __attribute__((always_inline)) struct tide__relocate_result
tide__relocate(struct tide__relocation *key, struct tide__relocate_event event) {
    switch (event.kind) {
    case TIDE__EVENT_OPERATION:
        return tide__on_operation(key, event.node != 0);
    case TIDE__EVENT_LOCALIZE:
        return tide__on_localize(key);
    case TIDE__EVENT_LOC:
        return tide__on_loc(key, event.node);
    case TIDE__EVENT_HAND:
        return tide__on_hand(key, event.node, event.term);
    case TIDE__EVENT_XFER:
        return tide__on_xfer(key, event.term);
    case TIDE__EVENT_OFFER:
        return tide__on_offer(key, event.node);
    case TIDE__EVENT_LOST:
        return tide__on_lost(key);
    case TIDE__EVENT_STAY:
        return tide__on_stay(key);
    case TIDE__EVENT_THAW:
        return tide__on_thaw(key);
    default:
        return tide__act(TIDE__SURPRISE);
    }
}

#endif
