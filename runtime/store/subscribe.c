/*
 * Who has copies of the rows of this node (shared.h), as the owner knows it: a node subscribes with a
 * pull for a copy, and is told once when somebody else changes the row or the row leaves; what it
 * pulls then subscribes it again. So nothing has to be cancelled or handed on with a row: a node that
 * has dropped its copy does not pull, and one notice too many costs a pull.
 *
 * A subscription is made before the row is read and the row is changed under its latch. A change is in
 * what the subscriber reads, or finds the subscription.
 */
#include "store/shared.h"

#include <stdlib.h>

enum { MARKS = 1 << 16, KEYS_MAX = 1 << 20, NOTICE_KEYS = 4096 };

struct subscription {
    uint64_t key;
    uint64_t changed_ns; /* first change that the fired ones were not told of */
    uint16_t *nodes;     /* those that wait for a change, then the fired ones; NULL: an empty place */
    uint16_t waiting, count, capacity;
};

struct tide__subscriptions {
    atomic_uchar marks[MARKS]; /* of keys with waiting nodes, by hash; 255 stays. Any thread */
    struct tide_lock lock;     /* of the rest */
    struct subscription *places;
    uint32_t capacity, count;
    uint64_t *fired; /* keys with fired nodes */
    size_t fired_count, fired_capacity;
};

int tide__subscriptions_create(struct tide__shared *s) {
    s->subscriptions = tide_alloc_zero(1, sizeof *s->subscriptions);
    return s->subscriptions ? 0
                            : tide_fail(TIDE_ENOMEM, "no memory for the subscriptions of '%s'",
                                        s->table->name);
}

void tide__subscriptions_destroy(struct tide__shared *s) {
    struct tide__subscriptions *subs = s->subscriptions;
    for (uint32_t i = 0; subs && i < subs->capacity; i++) {
        tide_free(subs->places[i].nodes);
    }
    if (subs) {
        tide_free(subs->places);
        tide_free(subs->fired);
    }
    tide_free(subs);
}

/* ---- the set; under the lock ---- */

static struct subscription *find(const struct tide__subscriptions *subs, uint64_t key) {
    uint32_t i = (uint32_t)tide_mix64(key) & (subs->capacity - 1);
    while (subs->places[i].nodes && subs->places[i].key != key) {
        i = (i + 1) & (subs->capacity - 1);
    }
    return &subs->places[i];
}

static int grow(struct tide__subscriptions *subs) {
    struct tide__subscriptions old = {.places = subs->places, .capacity = subs->capacity};
    const uint32_t capacity = old.capacity ? old.capacity * 2 : 256;
    struct subscription *places = tide_alloc_zero(capacity, sizeof *places);
    if (!places) {
        return TIDE_ENOMEM;
    }
    subs->places = places;
    subs->capacity = capacity;
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.places[i].nodes) {
            *find(subs, old.places[i].key) = old.places[i];
        }
    }
    tide_free(old.places);
    return 0;
}

/* The ones behind move up, so that none is hidden by the gap. */
static void drop(struct tide__subscriptions *subs, struct subscription *gone) {
    const uint32_t mask = subs->capacity - 1;
    uint32_t gap = (uint32_t)(gone - subs->places);
    tide_free(gone->nodes);
    for (uint32_t i = (gap + 1) & mask; subs->places[i].nodes; i = (i + 1) & mask) {
        const uint32_t wanted = (uint32_t)tide_mix64(subs->places[i].key) & mask;
        if (((i - wanted) & mask) >= ((i - gap) & mask)) {
            subs->places[gap] = subs->places[i];
            gap = i;
        }
    }
    subs->places[gap] = (struct subscription){0};
    subs->count--;
}

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

static int add(struct tide__subscriptions *subs, uint64_t key, uint16_t node) {
    if ((subs->count + 1) * 2 > subs->capacity && grow(subs)) {
        return TIDE_ENOMEM;
    }
    struct subscription *sub = find(subs, key);
    if (!sub->nodes && subs->count >= KEYS_MAX) {
        return TIDE_EFULL;
    }
    for (unsigned i = 0; i < sub->count; i++) {
        if (sub->nodes[i] == node) { /* a fired one will be told, and pulls again then */
            return 0;
        }
    }
    if (sub->count == sub->capacity) {
        const unsigned capacity = sub->capacity ? sub->capacity * 2u : 4u;
        uint16_t *nodes = tide_realloc(sub->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            return TIDE_ENOMEM;
        }
        subs->count += sub->nodes == NULL;
        sub->key = key;
        sub->nodes = nodes;
        sub->capacity = (uint16_t)capacity;
    }
    if (sub->waiting < sub->count) {
        sub->nodes[sub->count] = sub->nodes[sub->waiting];
    }
    sub->count++;
    sub->nodes[sub->waiting] = node;
    if (sub->waiting++ == 0) {
        mark(subs, key, 1);
    }
    return 0;
}

/* Fires all but `except`. True: the fiber has something to tell. */
static bool fire(struct tide__subscriptions *subs, struct subscription *sub, uint16_t except,
                 uint64_t now) {
    unsigned kept = 0;
    if (sub->waiting == 0) {
        return false;
    }
    for (unsigned i = 0; i < sub->waiting && except; i++) {
        if (sub->nodes[i] == except) {
            sub->nodes[i] = sub->nodes[0];
            sub->nodes[0] = except;
            kept = 1;
            break;
        }
    }
    if (kept == sub->waiting) {
        return false;
    }
    if (sub->waiting == sub->count) { /* the first ones since they were told last */
        if (subs->fired_count == subs->fired_capacity) {
            size_t capacity = subs->fired_capacity ? subs->fired_capacity * 2 : 256;
            uint64_t *grown = tide_realloc(subs->fired, capacity * sizeof *grown);
            TIDE_ASSERT(grown); /* eight bytes beside a subscription that we got */
            subs->fired = grown;
            subs->fired_capacity = capacity;
        }
        subs->fired[subs->fired_count++] = sub->key;
        sub->changed_ns = now;
    }
    sub->waiting = (uint16_t)kept;
    if (!kept) {
        mark(subs, sub->key, -1);
    }
    return true;
}

/* ---- owners ---- */

static int subscribe(struct tide_table *table, uint64_t key, uint16_t node) {
    struct tide__shared *s;
    int code = tide__shared_create(table, &s);
    if (code) {
        return code;
    }
    tide_lock(&s->subscriptions->lock);
    code = add(s->subscriptions, key, node);
    tide_unlock(&s->subscriptions->lock);
    atomic_thread_fence(memory_order_seq_cst); /* with tide__row_changes of a row that is made */
    return code ? tide_fail(code, "no room for more copies of rows of table '%s'", table->name) : 0;
}

int tide__subscribe_job(const struct tide__job *job) {
    struct tide_table *table = job->table;
    int code = 0;
    for (size_t i = 0; i < job->count && !code; i++) {
        const uint64_t key = tide__job_key_at(job, i);
        const uint32_t route = atomic_load_explicit(
            &table->slots[tide__slot_of(table, key)].route, memory_order_relaxed);
        code = (route & TIDE__FOR_FOREIGN) == TIDE__MINE ? subscribe(table, key, job->origin) : 0;
    }
    return code;
}

int tide__subscribe_of(const struct tide__job *job, uint32_t index) {
    return job->flags & TIDE__SUBSCRIBES
               ? subscribe(job->table, tide__job_key_at(job, index), job->origin)
               : 0;
}

void tide__shared_changed(struct tide__shared *s, uint64_t key, uint16_t changer) {
    struct tide__subscriptions *subs = s->subscriptions;
    if (TIDE_LIKELY(!atomic_load_explicit(mark_of(subs, key), memory_order_relaxed))) {
        return;
    }
    bool any = false;
    tide_lock(&subs->lock);
    struct subscription *sub = find(subs, key);
    if (sub->nodes) {
        any = fire(subs, sub, changer, tide_port_now(s->table->store->port));
    }
    tide_unlock(&subs->lock);
    if (any) {
        tide__shared_wake(s);
    }
}

void tide__subscribed_slot_left(struct tide_table *table, uint32_t slot) {
    struct tide__shared *s = tide__shared_of(table);
    bool any = false;
    if (!s) {
        return;
    }
    tide_lock(&s->subscriptions->lock);
    for (uint32_t i = 0; i < s->subscriptions->capacity; i++) {
        struct subscription *sub = &s->subscriptions->places[i];
        if (sub->nodes && tide__slot_of(table, sub->key) == slot) {
            any |= fire(s->subscriptions, sub, 0, tide_port_now(table->store->port));
        }
    }
    tide_unlock(&s->subscriptions->lock);
    if (any) {
        tide__shared_wake(s);
    }
}

void tide__subscriptions_member_gone(struct tide__shared *s, uint16_t node) {
    struct tide__subscriptions *subs = s->subscriptions;
    tide_lock(&subs->lock);
    for (uint32_t i = 0; i < subs->capacity; i++) { /* it is told, which fails, and forgotten */
        if (subs->places[i].nodes) {
            struct subscription *sub = &subs->places[i];
            for (unsigned n = 0; n < sub->waiting; n++) {
                if (sub->nodes[n] == node) {
                    sub->nodes[n] = sub->nodes[sub->waiting - 1];
                    sub->nodes[sub->waiting - 1] = sub->nodes[sub->count - 1];
                    sub->waiting--;
                    sub->count--;
                    mark(subs, sub->key, sub->waiting ? 0 : -1);
                    break;
                }
            }
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
static struct notice *take(struct tide__shared *s, size_t *count) {
    struct tide__subscriptions *subs = s->subscriptions;
    const uint64_t now = tide_port_now(s->table->store->port);
    size_t total = 0;
    *count = 0;
    tide_lock(&subs->lock);
    for (size_t i = 0; i < subs->fired_count; i++) {
        const struct subscription *sub = find(subs, subs->fired[i]);
        total += sub->nodes ? (size_t)(sub->count - sub->waiting) : 0;
    }
    struct notice *notices = total ? tide_alloc(total * sizeof *notices) : NULL;
    for (size_t i = 0; notices && i < subs->fired_count; i++) {
        struct subscription *sub = find(subs, subs->fired[i]);
        if (!sub->nodes) {
            continue;
        }
        for (unsigned n = sub->waiting; n < sub->count; n++) {
            notices[(*count)++] = (struct notice){
                .key = sub->key, .age_us = (now - sub->changed_ns) / 1000, .node = sub->nodes[n]};
        }
        sub->count = sub->waiting;
        if (sub->count == 0) {
            drop(subs, sub);
        }
    }
    subs->fired_count = notices || !total ? 0 : subs->fired_count;
    tide_unlock(&subs->lock);
    return notices;
}

static void send_to(struct tide__shared *s, const struct notice *notices, size_t count) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 4);
    tide_write_uint(&w, TIDE__OP_NOTICE);
    tide_write_uint(&w, s->table->id);
    tide_write_typed_head(&w, TIDE_U64, count);
    uint8_t *keys = tide_write_reserve(&w, count * sizeof notices->key);
    for (size_t i = 0; keys && i < count; i++) {
        memcpy(keys + i * sizeof notices->key, &notices[i].key, sizeof notices->key);
    }
    tide_write_typed_head(&w, TIDE_U64, count);
    uint8_t *ages = tide_write_reserve(&w, count * sizeof notices->age_us);
    for (size_t i = 0; ages && i < count; i++) {
        memcpy(ages + i * sizeof notices->age_us, &notices[i].age_us, sizeof notices->age_us);
    }
    tide__stripe_add(&s->notices_out, count);
    /* What cannot be sent was to a node that is gone. */
    (void)tide__store_send_writer(s->table->store, notices->node, &w);
}

void tide__notices_send(struct tide__shared *s) {
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

/* [table, keys, ages]; the op is read. */
void tide__notice_message(struct tide_store *store, struct tide_reader *r) {
    size_t count = 0, ages_count = 0;
    struct tide_table *table = tide__table_by_id(store, tide_read_uint(r));
    const uint8_t *keys = tide_read_typed(r, TIDE_U64, &count);
    const uint8_t *ages = tide_read_typed(r, TIDE_U64, &ages_count);
    struct tide__shared *s = table ? tide__shared_of(table) : NULL;
    if (r->error || count != ages_count) {
        atomic_fetch_add_explicit(&store->malformed, 1, memory_order_relaxed);
        return;
    }
    const uint64_t now = tide_port_now(store->port);
    for (size_t i = 0; s && i < count; i++) {
        struct tide__shared_key *k;
        atomic_uint_fast64_t *word;
        uint64_t old, key, age;
        memcpy(&key, keys + i * sizeof key, sizeof key);
        memcpy(&age, ages + i * sizeof age, sizeof age);
        if (tide__shared_lock(s, key, false, true, &word, &old, &k) == TIDE__FOUND) {
            if (k->state != TIDE__COPY_NONE) {
                const uint64_t since = now - (age < now / 1000 ? age * 1000 : now - 1);
                k->unseen_ns = k->unseen_ns && k->unseen_ns < since ? k->unseen_ns : since;
                tide__shared_list(s, k, key);
            }
            tide__word_unlock(word, old);
        }
    }
    if (s) {
        tide__shared_wake(s);
    }
}
