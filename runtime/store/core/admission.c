/*
 * Admission of operations at their origin: one token a message, for three things at one visit.
 *
 *   rate    so many operations and bytes a second (rate_operations, rate_bytes). A bucket is the time at which its
 *           next unit is due; what is taken moves it on. It may lie behind by a tenth of a second, which is how much
 *           can be taken at once after a rest. An operation of any size goes when a unit is due, and pays afterwards
 *   room    a limit for all operations of the node together (queue_limit)
 *   credit  end-to-end, of (this node, home): 1,024 messages and 4 MiB of keys and rows, in both directions
 *
 * The final answer gives the token back, of whatever origin: a forward, a queue of an arriving row or a new home use
 * what the origin has taken. So every queue behind the origin is bounded by what was admitted. Of a relocating table
 * the home is this node's own store actor, through which all its operations go.
 *
 * Credit also says how long anything has been in flight to a home, which is how fast that one is seen
 * from here: its store, the network between, and everything that queues there.
 *
 * A fiber waits in line, in the order of callers; a handler, which must not wait, gets EBUSY. An operation that is
 * larger than the whole credit goes alone. An operation takes its whole room before any home's credit, and so waits
 * for it while it holds nothing; then credit in the order of node ids. Both return without the help of any fiber: no
 * cycle of waits arises.
 *
 * A node with a memory cap grants less (net.h): its part of the credit shrinks, down to one operation
 * at a time, which goes whatever there is, so that all progress. The same holds for all homes
 * while this node itself is short. A caller that has waited in vain, and a handler at once, gets how much
 * that node uses and after how long to try again.
 */
#include "store/core/node_store.h"
#include "store/core/send.h"

#define BURST_NS (TIDE_SECOND / 10)

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

/* Lock held, but while it waits. 0, or why the fiber did not get it; then it is not in line any more. */
static int wait_in_line(struct tide_store *store, struct tide__credit *c, struct tide__admission_waiter *w,
                        const char *what) {
    struct tide__admission *a = &store->admission;
    uint64_t deadline = tide_port_now(store->port) + tide_limit(store_operation_timeout);
    int code = 0;
    while (!w->granted && !code) {
        tide_unlock(&a->lock);
        code = tide_fiber_suspend(deadline, what);
        tide_lock(&a->lock);
    }
    if (!w->granted) {
        leave_line(c, w);
        grant_lines(store, c); /* a waiter behind a large one may fit */
    } else if (code) {
        TIDE_SOMETIMES(granted_when_it_had_left);
        give(store, c, w->messages, w->bytes);
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

/* ---- tokens ---- */

uint64_t tide__bucket_take(struct tide__bucket *b, uint64_t now, double units) {
    if (b->per_second == 0) {
        return now;
    }
    const uint64_t least = now > BURST_NS ? now - BURST_NS : 0;
    const uint64_t at = b->due > least ? b->due : least;
    b->due = at + (uint64_t)(units * 1e9 / b->per_second);
    return at;
}

/* Which part of a token an operation did not get. */
struct refusal {
    enum { RATE, ROOM, CREDIT } what;
    uint16_t home;
    uint32_t messages; /* in flight */
    uint64_t bytes;
    uint64_t wait; /* RATE: ns until there is one */
};

/* Lock held, but while it waits. */
static int take_rate(struct tide_store *store, uint64_t bytes, struct refusal *r) {
    struct tide__admission *a = &store->admission;
    const struct tide__bucket before[2] = {a->rate[0], a->rate[1]};
    const uint64_t now = tide_port_now(store->port);
    uint64_t at = tide__bucket_take(&a->rate[0], now, 1);
    const uint64_t other = tide__bucket_take(&a->rate[1], now, (double)bytes);
    at = other > at ? other : at;
    if (at <= now || TIDE_MUTANT(rate_ignored)) {
        return 0;
    }
    if (!tide_fiber_current()) { /* it takes nothing */
        memcpy(a->rate, before, sizeof before);
        *r = (struct refusal){.what = RATE, .wait = at - now};
        return TIDE_EBUSY;
    }
    int code = 0;
    tide_unlock(&a->lock);
    while (!code && tide_port_now(store->port) < at) {
        code = tide_fiber_suspend(at, "the node's rate limit");
        code = code == TIDE_ETIMEDOUT ? 0 : code;
    }
    tide_lock(&a->lock);
    *r = (struct refusal){.what = RATE};
    return code;
}

/* Lock held, but while it waits. */
static int take_credit(struct tide_store *store, struct tide__credit *c, uint32_t messages, uint64_t bytes,
                       struct refusal *r) {
    const bool room = c == &store->admission.all;
    struct tide__admission_waiter w = {.fiber = tide_fiber_current(), .messages = messages, .bytes = bytes};
    if (!c) {
        return TIDE_ENOMEM;
    }
    if (take_or_stand(store, c, &w)) {
        return 0;
    }
    r->what = room ? ROOM : CREDIT;
    r->messages = c->messages;
    r->bytes = c->bytes;
    return w.fiber ? wait_in_line(store, c, &w, room ? "room in the node's queue limit" : "credit of the key's home")
                   : TIDE_EBUSY;
}

static int refuse_rate(const struct tide__admission *a, int code, uint64_t wait) {
    const uint32_t retry_ms = (uint32_t)(wait / 1000000 + 1);
    return code != TIDE_EBUSY ? tide_fail(code, "waiting for the node's rate limit: the fiber is being ended")
                              : tide_fail_busy(retry_ms,
                                               "this node may ask for %.6g operations and %.6g bytes a second (0: any "
                                               "number) and has: try again in %u ms",
                                               a->rate[0].per_second, a->rate[1].per_second, (unsigned)retry_ms);
}

static int refuse_room(const struct tide__admission *a, int code, uint64_t bytes) {
    char what[128];
    (void)snprintf(what, sizeof what, "waiting for room in the node's queue limit of %llu bytes",
                   (unsigned long long)a->all_max);
    return tide_fiber_current()
               ? tide__store_gave_up(code, what, "too little was answered")
               : tide_fail(code, "%llu bytes of this node's operations are under way; its queue limit is %llu",
                           (unsigned long long)bytes, (unsigned long long)a->all_max);
}

static int refuse_credit(struct tide_store *store, int code, const struct refusal *r) {
    const uint16_t narrow = narrowed_by(store, r->home);
    if ((code == TIDE_EBUSY || code == TIDE_ETIMEDOUT) && narrow) {
        return tide__memory_refuse(store, narrow, "one operation at a time may be under way");
    }
    char name[96], what[160];
    tide__node_text(store, r->home, name);
    (void)snprintf(what, sizeof what, "waiting for credit of node %s", name);
    return tide_fiber_current() ? tide__store_gave_up(code, what, "too little was answered")
                                : tide_fail(code,
                                            "node %s has not answered what it was asked: %u messages, "
                                            "%llu bytes are under way",
                                            name, (unsigned)r->messages, (unsigned long long)r->bytes);
}

int tide__token_take(struct tide_store *store, struct tide__token *first, uint64_t asked) {
    struct tide__admission *a = &store->admission;
    struct refusal r = {0};
    uint32_t messages = 0;
    uint64_t bytes = 0;
    for (const struct tide__token *t = first; t; t = t->next) {
        messages++;
        bytes += t->bytes;
    }
    tide_lock(&a->lock);
    int code = asked ? take_rate(store, asked, &r) : 0;
    const bool limited = !code && a->all_max > 0;
    code = limited ? take_credit(store, &a->all, messages, bytes, &r) : code;
    const bool has_room = limited && !code;
    for (struct tide__token *t = first; t && !code;) {
        uint32_t there = 0;
        uint64_t there_bytes = 0;
        r.home = t->home;
        for (const struct tide__token *same = t; same && same->home == t->home; same = same->next) {
            there++;
            there_bytes += same->bytes;
        }
        code = take_credit(store, credit_of(a, t->home), there, there_bytes, &r);
        for (; there > 0 && !code; there--, t = t->next) {
            t->held = true;
        }
    }
    for (struct tide__token *t = first; t && code; t = t->next) {
        if (t->held) {
            give(store, credit_of(a, t->home), 1, t->bytes);
        }
        t->held = false;
    }
    if (code && has_room) {
        give(store, &a->all, messages, bytes);
    }
    tide_unlock(&a->lock);
    return code == 0             ? 0
           : code == TIDE_ENOMEM ? tide_fail(code, "no memory for the credit of a node")
           : r.what == RATE      ? refuse_rate(a, code, r.wait)
           : r.what == ROOM      ? refuse_room(a, code, r.bytes)
                                 : refuse_credit(store, code, &r);
}

void tide__token_give(struct tide_store *store, struct tide__token *token) {
    struct tide__admission *a = &store->admission;
    if (!token->held) {
        return;
    }
    token->held = false;
    tide_lock(&a->lock);
    give(store, credit_of(a, token->home), 1, token->bytes);
    if (a->all_max > 0) {
        give(store, &a->all, 1, token->bytes);
    }
    tide_unlock(&a->lock);
}

void tide_store_rate(struct tide_store *store, double operations, double bytes) {
    store->admission.rate[0].per_second = operations;
    store->admission.rate[1].per_second = bytes;
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
