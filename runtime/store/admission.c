/*
 * Admission of operations at their origin: end-to-end credit of (this node, home).
 *
 * Whoever starts an operation takes credit for its messages, 1,024 of them and 4 MiB (keys and
 * rows, in both directions) a home, and the final answer returns it, whoever gives that answer: a
 * forward, a queue of an arriving row or a new home use the credit that the origin has taken. So
 * every queue behind the origin is bounded by what was admitted. Of a relocating table the home is
 * this node's own store actor, through which all its operations go.
 *
 * It also knows how long anything has been under way to a home, which is how fast that one is seen
 * from here: its store, the network between, and everything that queues there.
 *
 * A fiber waits in line; a handler, which must not wait, is told EBUSY. An operation that is larger
 * than the whole credit goes alone. An operation on several homes takes their credit in the order
 * of node ids, and credit returns without the help of any fiber: nobody waits in a circle.
 */
#include "store/store_internal.h"

struct tide__admission_waiter {
    struct tide__admission_waiter *next;
    struct tide_fiber *fiber;
    uint64_t bytes;
    uint32_t messages;
    bool granted;
};

void tide__admission_init(struct tide__admission *a) {
    a->messages_max = TIDE__HOME_MESSAGES;
    a->bytes_max = TIDE__HOME_BYTES;
}

void tide__admission_deinit(struct tide__admission *a) {
    for (size_t i = 0; i < TIDE_COUNT(a->pages); i++) {
        tide_free(a->pages[i]);
        a->pages[i] = NULL;
    }
}

/* Lock held. NULL: out of memory. */
static struct tide__home_credit *credit_of(struct tide__admission *a, uint16_t home) {
    struct tide__home_credit *page = a->pages[home >> 8];
    if (!page) {
        page = a->pages[home >> 8] = tide_alloc_zero(256, sizeof *page);
    }
    return page ? &page[home & 255] : NULL;
}

/* Lock held. */
static bool fits(const struct tide__admission *a, const struct tide__home_credit *c,
                 uint32_t messages, uint64_t bytes) {
    return c->messages == 0 ||
           (c->messages + messages <= a->messages_max && c->bytes + bytes <= a->bytes_max);
}

/* Lock held. */
static void use_credit(struct tide_store *store, struct tide__home_credit *c, uint32_t messages,
                       uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    c->since = c->messages == 0 ? tide_port_now(store->port) : c->since;
    c->messages += messages;
    c->bytes += bytes;
    a->bytes_most = c->bytes > a->bytes_most ? c->bytes : a->bytes_most;
}

/* Lock held: whoever waits first goes first. The wake happens under the lock, without which no
 * waiter leaves. */
static void grant(struct tide_store *store, struct tide__home_credit *c) {
    struct tide__admission_waiter *w;
    while ((w = c->first) != NULL && fits(&store->admission, c, w->messages, w->bytes)) {
        c->first = w->next;
        use_credit(store, c, w->messages, w->bytes);
        w->granted = true;
        tide_fiber_wake(w->fiber);
    }
}

/* Lock held. */
static void leave_line(struct tide__home_credit *c, const struct tide__admission_waiter *w) {
    struct tide__admission_waiter **at = &c->first;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
}

static int wait_in_line(struct tide_store *store, struct tide__home_credit *c,
                        struct tide__admission_waiter *w, uint16_t home) {
    struct tide__admission *a = &store->admission;
    uint64_t deadline = tide_port_now(store->port) + TIDE_CALL_TIMEOUT;
    int code = 0;
    bool granted = false;
    while (!granted && !code) {
        code = tide_fiber_suspend(deadline, "credit of the key's home");
        tide_lock(&a->lock);
        granted = w->granted;
        if (!granted && code) {
            leave_line(c, w);
            grant(store, c); /* who stood behind a large one may fit */
        }
        tide_unlock(&a->lock);
    }
    if (granted && code) {
        tide__admission_return(store, home, w->messages, w->bytes);
    }
    if (code) {
        char name[96];
        tide__node_text(store, home, name);
        return tide_fail(code, "waiting for credit of node %s: %s", name,
                         code == TIDE_ETIMEDOUT ? "it has answered too little for 30 s"
                                                : "the fiber is being ended");
    }
    return 0;
}

int tide__admission_take(struct tide_store *store, uint16_t home, uint32_t messages,
                         uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    TIDE_ASSERT(messages > 0);
    struct tide__admission_waiter w = {
        .fiber = tide_fiber_current(), .messages = messages, .bytes = bytes};
    tide_lock(&a->lock);
    struct tide__home_credit *c = credit_of(a, home);
    bool now = c && !c->first && fits(a, c, messages, bytes);
    if (now) {
        use_credit(store, c, messages, bytes);
    } else if (c && w.fiber) {
        struct tide__admission_waiter **end = &c->first;
        while (*end) {
            end = &(*end)->next;
        }
        *end = &w;
        a->waits++;
    }
    uint32_t messages_there = c ? c->messages : 0;
    uint64_t bytes_there = c ? c->bytes : 0;
    tide_unlock(&a->lock);
    if (!c) {
        return tide_fail(TIDE_ENOMEM, "no memory for the credit of a node");
    }
    if (now) {
        return 0;
    }
    if (!w.fiber) {
        char name[96];
        tide__node_text(store, home, name);
        return tide_fail(TIDE_EBUSY, "node %s has not answered what it was asked: %u messages, "
                                     "%llu bytes are under way",
                         name, (unsigned)messages_there, (unsigned long long)bytes_there);
    }
    return wait_in_line(store, c, &w, home);
}

void tide__admission_return(struct tide_store *store, uint16_t home, uint32_t messages,
                            uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    struct tide__home_credit *c = credit_of(a, home);
    TIDE_ASSERT(c && c->messages >= messages && c->bytes >= bytes);
    c->messages -= messages;
    c->bytes -= bytes;
    if (c->messages == 0) {
        c->waited_ns += tide_port_now(store->port) - c->since;
    }
    grant(store, c);
    tide_unlock(&a->lock);
}

uint64_t tide__admission_waited(struct tide_store *store, uint16_t home) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    const struct tide__home_credit *page = a->pages[home >> 8], *c = page ? &page[home & 255] : NULL;
    uint64_t ns = c ? c->waited_ns : 0;
    ns += c && c->messages > 0 ? tide_port_now(store->port) - c->since : 0;
    tide_unlock(&a->lock);
    return ns;
}
