/* The table of relocate.h: what a node does with a key when something happens to it. */
#include "store/relocate.h"
#include "base/base.h"

static struct tide__relocate_result act(enum tide__relocate_act what) {
    return (struct tide__relocate_result){.act = (uint8_t)what};
}

static bool here_by_default(const struct tide__relocation *key) {
    return key->home && key->state == TIDE__GONE && key->owner == key->self;
}

static struct tide__relocate_result operation(const struct tide__relocation *key) {
    if (key->state == TIDE__HELD || here_by_default(key)) {
        return act(TIDE__RUN);
    }
    if (key->state == TIDE__COMING && !TIDE_MUTANT(reloc_requester_forwards)) {
        return act(TIDE__QUEUE);
    }
    struct tide__relocate_result r = act(key->home ? TIDE__TO_OWNER : TIDE__TO_HOME);
    r.node = key->home ? key->owner : 0;
    return r;
}

/* The home records `node` as owner, before anything is sent. */
static struct tide__relocate_result record(struct tide__relocation *key, uint16_t node,
                                           enum tide__relocate_act what) {
    struct tide__relocate_result r = act(what);
    r.to = key->owner;
    r.node = node;
    if (!TIDE_MUTANT(reloc_home_records_late)) {
        key->owner = node;
    }
    r.term = key->owner_term = tide__term_next(key->owner_term);
    return r;
}

static struct tide__relocate_result localize(struct tide__relocation *key) {
    if (key->state == TIDE__HELD || here_by_default(key)) {
        return act(TIDE__HERE);
    }
    if (key->state == TIDE__COMING) {
        return act(TIDE__QUEUE);
    }
    key->state = TIDE__COMING;
    key->next = 0;
    return key->home ? record(key, key->self, TIDE__SEND_HAND) : act(TIDE__ASK);
}

static struct tide__relocate_result loc(struct tide__relocation *key, uint16_t node) {
    if (!key->home) {
        return act(TIDE__TO_HOME);
    }
    if (key->owner == node) {
        return act(TIDE__DROP);
    }
    if (key->owner ==
        0) { /* it became home while it waits: nobody has the row, it was never made */
        if (node != key->self) {
            return record(key, node, TIDE__GIVE);
        }
        struct tide__relocate_result r = record(key, node, TIDE__INSTALL);
        key->term = r.term;
        key->state = TIDE__HELD;
        return r;
    }
    if (key->owner != key->self) {
        if (node == key->self && key->state == TIDE__GONE) {
            return localize(key);
        }
        return record(key, node, TIDE__SEND_HAND);
    }
    if (key->state != TIDE__COMING) {
        key->state = TIDE__GONE;
        return record(key, node, TIDE__GIVE);
    }
    if (key->next) {
        return act(TIDE__SURPRISE); /* then the owner of record were that successor */
    }
    struct tide__relocate_result r = record(key, node, TIDE__NOTED);
    key->next = node;
    key->next_term = r.term;
    return r;
}

static struct tide__relocate_result hand(struct tide__relocation *key, uint16_t node,
                                         uint32_t term) {
    if (!tide__term_newer(term, key->term)) {
        return act(TIDE__DROP);
    }
    struct tide__relocate_result r = act(TIDE__GIVE);
    r.node = node;
    r.term = term;
    if (key->state == TIDE__HELD) {
        if (term != tide__term_next(key->term)) {
            return act(TIDE__SURPRISE);
        }
        key->state = TIDE__GONE;
        return r;
    }
    if (term == tide__term_next(key->term)) {
        return act(TIDE__DROP); /* given already: a duplicate */
    }
    if (key->state == TIDE__COMING && !key->next) {
        key->next = node;
        key->next_term = term;
        r.act = TIDE__NOTED;
        return r;
    }
    bool again = key->state == TIDE__COMING && key->next == node && key->next_term == term;
    return act(again ? TIDE__DROP : TIDE__SURPRISE);
}

static struct tide__relocate_result xfer(struct tide__relocation *key, uint32_t term) {
    if (key->state != TIDE__COMING || !tide__term_newer(term, key->term)) {
        return act(TIDE__DROP);
    }
    struct tide__relocate_result r = act(TIDE__INSTALL);
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

static struct tide__relocate_result offer(struct tide__relocation *key, uint16_t node) {
    if (!key->home) {
        return act(TIDE__TO_HOME);
    }
    return key->owner == node && key->owner != key->self && key->state == TIDE__GONE
               ? localize(key)
               : act(TIDE__DROP);
}

static struct tide__relocate_result lost(struct tide__relocation *key) {
    if (key->state != TIDE__COMING) {
        return act(TIDE__DROP);
    }
    struct tide__relocate_result r = act(TIDE__FAILED);
    r.node = key->next;
    key->state = TIDE__GONE;
    key->next = 0;
    return r;
}

struct tide__relocate_result tide__relocate(struct tide__relocation *key,
                                            struct tide__relocate_event event) {
    switch (event.kind) {
    case TIDE__EVENT_OPERATION:
        return operation(key);
    case TIDE__EVENT_LOCALIZE:
        return localize(key);
    case TIDE__EVENT_LOC:
        return loc(key, event.node);
    case TIDE__EVENT_HAND:
        return hand(key, event.node, event.term);
    case TIDE__EVENT_XFER:
        return xfer(key, event.term);
    case TIDE__EVENT_OFFER:
        return offer(key, event.node);
    case TIDE__EVENT_LOST:
        return lost(key);
    default:
        return act(TIDE__SURPRISE);
    }
}
