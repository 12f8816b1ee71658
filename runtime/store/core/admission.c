/*
 * Admission of operations at their origin: end-to-end credit of (this node, home).
 *
 * The caller that starts an operation takes credit for its messages, 1,024 of them and 4 MiB (keys and
 * rows, in both directions) a home, and the final answer returns it, of whatever origin: a
 * forward, a queue of an arriving row or a new home use the credit that the origin has taken. So
 * every queue behind the origin is bounded by what was admitted. Of a relocating table the home is
 * this node's own store actor, through which all its operations go.
 *
 * It also knows how long anything has been in flight to a home, which is how fast that one is seen
 * from here: its store, the network between, and everything that queues there.
 *
 * A fiber waits in line; a handler, which must not wait, gets EBUSY. An operation that is larger
 * than the whole credit goes alone. An operation on several homes takes their credit in the order
 * of node ids, and credit returns without the help of any fiber: no cycle of waits arises.
 *
 * A node with a memory cap grants less (net.h): its part of the credit shrinks, down to one operation
 * at a time, which goes whatever there is, so that all progress. The same holds for all homes
 * while this node itself is short. A caller that has waited in vain, and a handler at once, gets how much
 * that node uses and after how long to try again.
 *
 * A node may have a limit for all of its operations together (queue_limit). An operation takes its
 * whole share of that before any home's credit, and so waits for it while it holds nothing.
 */
#include "store/core/node_store.h"
#include "store/core/send.h"

struct tide__admission_waiter {
    struct tide__admission_waiter *next;
    struct tide_fiber *fiber;
    uint64_t bytes;
    uint32_t messages;
    bool granted;
};

void tide__admission_init(struct tide__admission *a) {
    a->messages_max = (uint32_t)tide_limit(store_home_messages);
    a->bytes_max = tide_limit(store_home_bytes);
}

void tide__admission_deinit(struct tide__admission *a) {
    for (size_t i = 0; i < TIDE_COUNT(a->pages); i++) {
        tide_free(a->pages[i]);
        a->pages[i] = NULL;
    }
}

/* Lock held. NULL: out of memory. */
static struct tide__credit *credit_of(struct tide__admission *a, uint16_t home) {
    struct tide__credit *page = a->pages[home >> 8];
    if (!page) {
        page = a->pages[home >> 8] = tide_alloc_zero(256, sizeof *page);
    }
    return page ? &page[home & 255] : NULL;
}

/* Lock held. */
static uint64_t granted(const struct tide__admission *a, const struct tide__credit *c) {
    const uint64_t withheld = a->withheld > c->withheld ? a->withheld : c->withheld;
    return TIDE_MUTANT(memory_cap_ignored) ? UINT64_MAX : UINT64_MAX - withheld;
}

/* Lock held. */
static bool fits(const struct tide__admission *a, const struct tide__credit *c, uint32_t messages, uint64_t bytes) {
    const bool all = c == &a->all;
    const uint64_t bytes_max = all ? a->all_max : tide_net_scaled(a->bytes_max, granted(a, c));
    return c->messages == 0 || ((all || c->messages + messages <= a->messages_max) && c->bytes + bytes <= bytes_max) ||
           (all && TIDE_MUTANT(queue_unbounded));
}

/* Lock held. */
static void use_credit(struct tide_store *store, struct tide__credit *c, uint32_t messages, uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    uint64_t *most = c == &a->all ? &a->all_most : &a->bytes_most;
    c->since = c->messages == 0 ? tide_port_now(store->port) : c->since;
    c->messages += messages;
    c->bytes += bytes;
    *most = c->bytes > *most ? c->bytes : *most;
    TIDE_ASSERT(c->messages > 0 && c->messages >= messages && c->bytes >= bytes);
}

/* Lock held: the first waiter goes first. The wake happens under the lock, without which no
 * waiter leaves. */
static void grant_lines(struct tide_store *store, struct tide__credit *c) {
    struct tide__admission_waiter *w;
    while ((w = c->first) && fits(&store->admission, c, w->messages, w->bytes)) {
        c->first = w->next;
        use_credit(store, c, w->messages, w->bytes);
        w->granted = true;
        tide_fiber_wake(w->fiber);
    }
    TIDE_ASSERT(c->messages > 0 || c->bytes == 0);
}

/* Lock held. */
static void give(struct tide_store *store, struct tide__credit *c, uint32_t messages, uint64_t bytes) {
    TIDE_ASSERT(c && c->messages >= messages && c->bytes >= bytes);
    c->messages -= messages;
    c->bytes -= bytes;
    if (c->messages == 0) {
        c->waited_ns += tide_port_now(store->port) - c->since;
    }
    grant_lines(store, c);
}

/* Lock held. */
static void leave_line(struct tide__credit *c, const struct tide__admission_waiter *w) {
    struct tide__admission_waiter **at = &c->first;
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
}

/* 0, or why the fiber did not get what it waited for; then it is not in line any more. */
static int wait_in_line(struct tide_store *store, struct tide__credit *c, struct tide__admission_waiter *w,
                        const char *what) {
    struct tide__admission *a = &store->admission;
    uint64_t deadline = tide_port_now(store->port) + tide_limit(store_operation_timeout);
    int code = 0;
    bool granted = false;
    while (!granted && !code) {
        code = tide_fiber_suspend(deadline, what);
        tide_lock(&a->lock);
        granted = w->granted;
        if (!granted && code) {
            leave_line(c, w);
            grant_lines(store, c); /* a waiter behind a large one may fit */
        } else if (granted && code) {
            TIDE_SOMETIMES(granted_when_it_had_left);
            give(store, c, w->messages, w->bytes);
        }
        tide_unlock(&a->lock);
    }
    return code;
}

/* Lock held. True: it has the credit; else a fiber is in line. */
static bool take_or_stand(struct tide_store *store, struct tide__credit *c, struct tide__admission_waiter *w) {
    struct tide__admission *a = &store->admission;
    if (!c->first && fits(a, c, w->messages, w->bytes)) {
        use_credit(store, c, w->messages, w->bytes);
        return true;
    }
    if (w->fiber) {
        struct tide__admission_waiter **end = &c->first;
        while (*end) {
            end = &(*end)->next;
        }
        TIDE_SOMETIMES(operation_waits_in_line);
        *end = w;
        *(c == &a->all ? &a->all_waits : &a->waits) += 1;
    }
    return false;
}

void tide__admission_granted(struct tide_store *store, uint16_t home, uint64_t grant) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    struct tide__credit *c = credit_of(a, home);
    if (c) { /* else nothing was ever in flight there */
        c->withheld = UINT64_MAX - grant;
        if (!TIDE_MUTANT(memory_grant_unheard)) {
            grant_lines(store, c);
        }
    }
    tide_unlock(&a->lock);
}

void tide__admission_own(struct tide_store *store, uint64_t grant) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    a->withheld = UINT64_MAX - grant;
    for (unsigned page = 0; page < TIDE_COUNT(a->pages); page++) {
        for (unsigned i = 0; a->pages[page] && i < 256; i++) {
            grant_lines(store, &a->pages[page][i]);
        }
    }
    tide_unlock(&a->lock);
}

/* The node that is so short of memory that it grants operations to `home` one by one: that or this
 * one; 0: neither. */
static uint16_t narrowed_by(struct tide_store *store, uint16_t home) {
    struct tide_memory_report of_home, own;
    if (!store->net) {
        return 0;
    }
    tide_net_memory(store->net, home, &of_home);
    tide_net_memory(store->net, tide__store_self(store), &own);
    return of_home.tier > TIDE_TIER_CALM ? home : own.tier > TIDE_TIER_CALM ? tide__store_self(store) : 0;
}

int tide__admission_take(struct tide_store *store, uint16_t home, uint32_t messages, uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    TIDE_ASSERT(messages > 0);
    struct tide__admission_waiter w = {.fiber = tide_fiber_current(), .messages = messages, .bytes = bytes};
    tide_lock(&a->lock);
    struct tide__credit *c = credit_of(a, home);
    bool now = c && take_or_stand(store, c, &w);
    uint32_t messages_there = c ? c->messages : 0;
    uint64_t bytes_there = c ? c->bytes : 0;
    tide_unlock(&a->lock);
    if (!c) {
        return tide_fail(TIDE_ENOMEM, "no memory for the credit of a node");
    }
    if (now) {
        return 0;
    }
    int code = w.fiber ? wait_in_line(store, c, &w, "credit of the key's home") : TIDE_EBUSY;
    const uint16_t narrow = narrowed_by(store, home);
    if ((code == TIDE_EBUSY || code == TIDE_ETIMEDOUT) && narrow) {
        return tide__memory_refuse(store, narrow, "one operation at a time may be under way");
    }
    if (code) {
        char name[96], what[160];
        tide__node_text(store, home, name);
        (void)snprintf(what, sizeof what, "waiting for credit of node %s", name);
        return w.fiber ? tide__store_gave_up(code, what, "too little was answered")
                       : tide_fail(code,
                                   "node %s has not answered what it was asked: %u messages, "
                                   "%llu bytes are under way",
                                   name, (unsigned)messages_there, (unsigned long long)bytes_there);
    }
    return 0;
}

void tide__admission_return(struct tide_store *store, uint16_t home, uint32_t messages, uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    give(store, credit_of(a, home), messages, bytes);
    if (a->all_max > 0) {
        give(store, &a->all, messages, bytes);
    }
    tide_unlock(&a->lock);
}

int tide__admission_enter(struct tide_store *store, uint32_t messages, uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    if (a->all_max == 0) {
        return 0;
    }
    struct tide__admission_waiter w = {.fiber = tide_fiber_current(), .messages = messages, .bytes = bytes};
    tide_lock(&a->lock);
    bool now = take_or_stand(store, &a->all, &w);
    uint64_t there = a->all.bytes;
    tide_unlock(&a->lock);
    if (now) {
        return 0;
    }
    if (!w.fiber) {
        return tide_fail(TIDE_EBUSY,
                         "%llu bytes of this node's operations are under way; its queue limit is "
                         "%llu",
                         (unsigned long long)there, (unsigned long long)a->all_max);
    }
    int code = wait_in_line(store, &a->all, &w, "room in the node's queue limit");
    char what[128];
    (void)snprintf(what, sizeof what, "waiting for room in the node's queue limit of %llu bytes",
                   (unsigned long long)a->all_max);
    return code ? tide__store_gave_up(code, what, "too little was answered") : 0;
}

void tide__admission_leave(struct tide_store *store, uint32_t messages, uint64_t bytes) {
    struct tide__admission *a = &store->admission;
    if (a->all_max > 0) {
        tide_lock(&a->lock);
        give(store, &a->all, messages, bytes);
        tide_unlock(&a->lock);
    }
}

void tide_store_limit(struct tide_store *store, uint64_t bytes) {
    store->admission.all_max = bytes;
}

void tide_store_queue(struct tide_store *store, struct tide_store_queue *out) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    *out = (struct tide_store_queue){
        .limit = a->all_max, .bytes = a->all.bytes, .most = a->all_most, .waits = a->all_waits};
    tide_unlock(&a->lock);
}

uint64_t tide__admission_waited(struct tide_store *store, uint16_t home) {
    struct tide__admission *a = &store->admission;
    tide_lock(&a->lock);
    const struct tide__credit *page = a->pages[home >> 8], *c = page ? &page[home & 255] : NULL;
    uint64_t ns = c ? c->waited_ns : 0;
    ns += c && c->messages > 0 ? tide_port_now(store->port) - c->since : 0;
    tide_unlock(&a->lock);
    return ns;
}
