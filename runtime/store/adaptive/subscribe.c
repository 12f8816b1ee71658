/*
 * The nodes with copies of this node's rows (hot_keys.h), as the owner knows them: a node subscribes with
 * a pull for a copy, and is notified once when another node changes the row or the row leaves; what it
 * pulls then subscribes it again. So does what it pushes: if the row has been changed, it comes
 * with the answer, and nothing is left to be sent or pulled. So nothing has to be cancelled or
 * handed on with a row: a node that has dropped its copy does not pull, and one notice too many
 * costs a pull.
 *
 * A subscription is made before the row is read and the row is changed under its latch. A change is
 * in what the subscriber reads, or finds the subscription.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/rows/slot_index.h"
#include "store/adaptive/intent.h"
#include "store/core/node_sets.h"
#include "store/adaptive/hot_keys.h"

#include <stdlib.h>

enum { MARKS = 1 << 16, KEYS_MAX = 1 << 20, NOTICE_KEYS = 4096 };

/*
 * A set of nodes has those that wait for a change first; behind them the fired ones, which are to
 * be notified. Its stamp: the first change without a notice to those; 0: the key is not in `fired`.
 */
struct tide__subscriptions {
    atomic_uchar marks[MARKS]; /* of keys with waiting nodes, by hash; 255 stays. Any thread */
    struct tide_lock lock;     /* of the rest */
    struct tide__node_sets sets;
    uint64_t *fired; /* keys with fired nodes, or that had some */
    size_t fired_count, fired_capacity;
};

int tide__subscriptions_create(struct tide__hot_table *s) {
    s->subscriptions = tide_alloc_zero(1, sizeof *s->subscriptions);
    return s->subscriptions ? 0 : tide_fail(TIDE_ENOMEM, "no memory for the subscriptions of '%s'", s->table->name);
}

void tide__subscriptions_destroy(struct tide__hot_table *s) {
    struct tide__subscriptions *subs = s->subscriptions;
    if (subs) {
        tide__node_sets_free(&subs->sets);
        tide_free(subs->fired);
    }
    tide_free(subs);
}

/* ---- under the lock ---- */

static atomic_uchar *mark_of(struct tide__subscriptions *subs, uint64_t key) {
    return &subs->marks[tide_mix64(key) >> 48];
}

static void mark(struct tide__subscriptions *subs, uint64_t key, int change) {
    atomic_uchar *at = mark_of(subs, key);
    const unsigned now = atomic_load_explicit(at, memory_order_relaxed);
    if (now < UINT8_MAX) {
        atomic_store_explicit(at, (unsigned char)(now + (unsigned)change), memory_order_relaxed);
    }
}

/* The node at `at`, behind those that wait, does so too. */
static void await_change(struct tide__subscriptions *subs, struct tide__node_set *set, unsigned at) {
    const uint16_t node = set->nodes[at];
    set->nodes[at] = set->nodes[set->first];
    set->nodes[set->first] = node;
    if (set->first++ == 0) {
        mark(subs, set->key, 1);
    }
}

static int add(struct tide__subscriptions *subs, uint64_t key, uint16_t node) {
    struct tide__node_set *set = tide__node_set_find(&subs->sets, key);
    if (set && tide__node_set_at(set, node) >= 0) {
        return 0; /* a fired one will be notified, and pulls again then */
    }
    if (!set && subs->sets.count >= KEYS_MAX) {
        return TIDE_EFULL;
    }
    set = tide__node_set_add(&subs->sets, key, node);
    if (!set) {
        return TIDE_ENOMEM;
    }
    await_change(subs, set, set->count - 1u);
    return 0;
}

/* The origin of a push reads the row now, if it has missed a change and there is room for the row:
 * what it was not notified of yet, it need not be. */
static bool renew(struct tide__subscriptions *subs, struct tide__job *job, uint64_t key) {
    struct tide__node_set *set = tide__node_set_find(&subs->sets, key);
    const int at = set ? tide__node_set_at(set, job->origin) : -1;
    if ((at >= 0 && at < set->first) || tide__job_make_fresh(job)) {
        return false;
    }
    if (TIDE_MUTANT(share_fresh_unsubscribed)) {
        return true;
    }
    if (at < 0) {
        return add(subs, key, job->origin) == 0;
    }
    await_change(subs, set, (unsigned)at);
    return true;
}

/* Fires all but `except`. True: the fiber has something to send. */
static bool fire(struct tide__subscriptions *subs, struct tide__node_set *sub, uint16_t except, uint64_t now) {
    unsigned kept = 0;
    if (sub->first == 0) {
        return false;
    }
    for (unsigned i = 0; i < sub->first && except; i++) {
        if (sub->nodes[i] == except) {
            sub->nodes[i] = sub->nodes[0];
            sub->nodes[0] = except;
            kept = 1;
            break;
        }
    }
    if (kept == sub->first) {
        return false;
    }
    if (!sub->stamp) {
        if (subs->fired_count == subs->fired_capacity) {
            size_t capacity = subs->fired_capacity ? subs->fired_capacity * 2 : 256;
            /* Eight bytes beside a subscription that we got. */
            subs->fired = tide_realloc_vital(subs->fired, capacity * sizeof *subs->fired);
            subs->fired_capacity = capacity;
        }
        subs->fired[subs->fired_count++] = sub->key;
    }
    if (sub->first == sub->count) { /* the first ones since all were notified, or read it */
        sub->stamp = now;
    }
    sub->first = (uint16_t)kept;
    if (!kept) {
        mark(subs, sub->key, -1);
    }
    return true;
}

/* ---- owners ---- */

static int no_room(int code, const struct tide_table *table) {
    TIDE_SOMETIMES(subscription_refused);
    return tide_fail(code, "no room for more copies of rows of table '%s'", table->name);
}

static int subscribe(struct tide_table *table, uint64_t key, uint16_t node) {
    struct tide__hot_table *s;
    int code = tide__hot_create(table, &s);
    if (code) {
        return code;
    }
    tide_lock(&s->subscriptions->lock);
    code = add(s->subscriptions, key, node);
    tide_unlock(&s->subscriptions->lock);
    /* with tide__row_changes: a row that is being made, which a pull reads without a latch */
    atomic_fetch_add_explicit(&tide__hot_part(table)->face.made_or_subscribed, 1, memory_order_acq_rel);
    return code ? no_room(code, table) : 0;
}

int tide__subscribe_job(const struct tide__job *job) {
    struct tide_table *table = job->table;
    int code = TIDE_BUGGIFY(subscription_refused) ? no_room(TIDE_EFULL, table) : 0;
    for (size_t i = 0; i < job->count && !code; i++) {
        const uint64_t key = tide__job_key_at(job, i);
        const uint32_t route =
            atomic_load_explicit(&table->slots[tide__slot_of(table, key)].route, memory_order_relaxed);
        code = (route & TIDE__FOR_FOREIGN) == TIDE__MINE ? subscribe(table, key, job->origin) : 0;
    }
    return code;
}

int tide__subscribe_of(const struct tide__job *job, uint32_t index) {
    return job->flags & TIDE__SUBSCRIBES ? subscribe(job->table, tide__job_key_at(job, index), job->origin) : 0;
}

bool tide__resubscribe(struct tide__job *job, uint32_t index) {
    struct tide_table *table = job->table;
    struct tide__hot_table *s = tide__hot_of(table);
    if (!s || job->origin == tide__store_self(table->store) || TIDE_BUGGIFY(row_kept_back)) {
        return false;
    }
    tide_lock(&s->subscriptions->lock);
    const bool fresh = renew(s->subscriptions, job, tide__job_key_at(job, index));
    tide_unlock(&s->subscriptions->lock);
    if (fresh) {
        job->fresh[index] = 1;
        job->fresh_count++;
    }
    return fresh;
}

void tide__hot_changed(struct tide__hot_table *s, uint64_t key, uint16_t changer) {
    struct tide__subscriptions *subs = s->subscriptions;
    if (TIDE_LIKELY(!atomic_load_explicit(mark_of(subs, key), memory_order_relaxed))) {
        return;
    }
    bool any = false;
    tide_lock(&subs->lock);
    struct tide__node_set *sub = tide__node_set_find(&subs->sets, key);
    if (sub) {
        any = fire(subs, sub, TIDE_MUTANT(share_all_are_changers) ? sub->nodes[0] : changer,
                   tide_port_now(s->table->store->port));
    }
    tide_unlock(&subs->lock);
    if (any) {
        tide__hot_wake(s);
    }
}

void tide__hot_slot_left(struct tide_table *table, uint32_t slot) {
    struct tide__hot_table *s = tide__hot_of(table);
    bool any = false;
    tide__interest_slot_left(table, slot);
    if (!s || TIDE_MUTANT(share_slot_leaves_silently)) {
        return;
    }
    tide_lock(&s->subscriptions->lock);
    for (uint32_t i = 0; i < s->subscriptions->sets.capacity; i++) {
        struct tide__node_set *sub = &s->subscriptions->sets.places[i];
        if (sub->nodes && tide__slot_of(table, sub->key) == slot) {
            any |= fire(s->subscriptions, sub, 0, tide_port_now(table->store->port));
        }
    }
    tide_unlock(&s->subscriptions->lock);
    if (any) {
        tide__hot_wake(s);
    }
}

void tide__subscriptions_member_gone(struct tide__hot_table *s, uint16_t node) {
    struct tide__subscriptions *subs = s->subscriptions;
    tide_lock(&subs->lock);
    for (uint32_t i = 0; i < subs->sets.capacity; i++) {
        struct tide__node_set *sub = &subs->sets.places[i];
        const int at = sub->nodes ? tide__node_set_at(sub, node) : -1;
        if (at >= 0 && at < sub->first) { /* a fired one is notified in vain, and then forgotten */
            sub->nodes[at] = sub->nodes[sub->first - 1];
            sub->nodes[sub->first - 1] = sub->nodes[sub->count - 1];
            sub->first--;
            sub->count--;
            mark(subs, sub->key, sub->first ? 0 : -1);
        }
    }
    tide_unlock(&subs->lock);
}

/* ---- notices ---- */

struct notice {
    uint64_t key, age_us;
    uint16_t node;
};

static int by_node(const void *a, const void *b) {
    const struct notice *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return (x->key > y->key) - (x->key < y->key);
}

/* What was fired, in a list of its own; *gives*. NULL: nothing, or no memory for now. */
static struct notice *take(struct tide__hot_table *s, size_t *count) {
    struct tide__subscriptions *subs = s->subscriptions;
    size_t total = 0;
    *count = 0;
    tide_lock(&subs->lock);
    const uint64_t now = tide_port_now(s->table->store->port); /* after all that fired */
    for (size_t i = 0; i < subs->fired_count; i++) {
        const struct tide__node_set *sub = tide__node_set_find(&subs->sets, subs->fired[i]);
        total += sub ? (size_t)(sub->count - sub->first) : 0;
    }
    struct notice *notices = total ? tide_alloc(total * sizeof *notices) : NULL;
    const bool room = notices || !total;
    for (size_t i = 0; room && i < subs->fired_count; i++) {
        struct tide__node_set *sub = tide__node_set_find(&subs->sets, subs->fired[i]);
        if (!sub) {
            continue;
        }
        for (unsigned n = sub->first; n < sub->count; n++) {
            notices[(*count)++] =
                (struct notice){.key = sub->key, .age_us = (now - sub->stamp) / 1000, .node = sub->nodes[n]};
        }
        sub->count = sub->first;
        sub->stamp = 0;
        if (sub->count == 0) {
            tide__node_set_drop(&subs->sets, sub);
        }
    }
    subs->fired_count = room ? 0 : subs->fired_count;
    tide_unlock(&subs->lock);
    return notices;
}

static void send_to(struct tide__hot_table *s, const struct notice *notices, size_t count) {
    uint64_t keys[NOTICE_KEYS], ages[NOTICE_KEYS];
    for (size_t i = 0; i < count; i++) {
        keys[i] = notices[i].key;
        ages[i] = notices[i].age_us;
    }
    tide__share_count(&s->notices_out, count);
    /* What cannot be sent was to a node that is gone. */
    (void)tide__store_tell(
        s->table->store, notices->node,
        TIDE__AS(NOTICE, .table = s->table->id, .keys = TIDE__LIST(keys, count), .ages = TIDE__LIST(ages, count)));
}

void tide__notices_send(struct tide__hot_table *s) {
    size_t count;
    struct notice *notices = take(s, &count);
    if (notices) {
        qsort(notices, count, sizeof *notices, by_node);
    }
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && n < NOTICE_KEYS && notices[i + n].node == notices[i].node;) {
            n++;
        }
        send_to(s, notices + i, n);
    }
    tide_free(notices);
}

int tide__notice_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.NOTICE) *m = &in->as.NOTICE;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    struct tide__hot_table *s = table ? tide__hot_of(table) : NULL;
    if (!table || m->keys.count != m->ages.count) {
        return TIDE_EPROTO;
    }
    const uint64_t now = tide_port_now(store->port);
    for (size_t i = 0; s && i < m->keys.count; i++) {
        struct tide__hot_key *k;
        atomic_uint_fast64_t *word;
        uint64_t old, key = tide__long_at(m->keys.at, i), age = tide__long_at(m->ages.at, i);
        if (tide__hot_lock(s, key, false, true, &word, &old, &k) == TIDE__FOUND) {
            if (k->state != TIDE__COPY_NONE) {
                const uint64_t since = now - (age < now / 1000 ? age * 1000 : now - 1);
                k->unseen_ns = k->unseen_ns && k->unseen_ns < since ? k->unseen_ns : since;
                tide__hot_list(s, k, key);
            }
            tide__word_unlock(word, old);
        }
    }
    if (s) {
        tide__hot_wake(s);
    }
    return 0;
}
