/* Shared keys: their records, and what workers do with copies; see hot_keys.h. */
#include "store/adaptive/hot_keys.h"
#include "store/core/options.h"
#include "store/core/table_drop.h"
#include "store/rows/rules.h"
#include "store/rows/slot_index.h"

enum {
    COPY_BYTES = 1 << 30,
    WAIT_NS = 100000,
    DENSE_KEYS = 1 << 24, /* of larger tables the index would be too large for a few hot keys */
    AHEAD = 8,
    FETCHED = 4096, /* of a record; processors fetch the rest by themselves */
    LINE = 64,
};

/* ---- making ---- */

/* Of one push that waits for its row. */
static uint64_t queued_bytes(const struct tide__hot_table *s) {
    return sizeof(struct tide__queued) + s->table->width * sizeof(float);
}

void tide__hot_queued_free(struct tide__hot_table *s, struct tide__queued *queued) {
    atomic_fetch_sub_explicit(&s->queued_bytes, queued_bytes(s), memory_order_relaxed);
    tide_budget_drop(s->table->budget, queued_bytes(s));
    tide_free(queued);
}

int tide__hot_create(struct tide_table *table, struct tide__hot_table **out) {
    *out = tide__hot_of(table);
    int code = *out ? 0 : tide__hot_check(&table->options);
    if (!*out && !code && atomic_load(&table->closing)) {
        code = tide__table_dropped(table);
    }
    if (*out || code) {
        return code;
    }
    struct tide__hot_table *s = tide_alloc_aligned(_Alignof(struct tide__hot_table), sizeof *s);
    if (!s) {
        return tide_fail(TIDE_ENOMEM, "no memory for the shared keys of '%s'", table->name);
    }
    memset(s, 0, sizeof *s);
    s->table = table;
    s->shape = tide__copy_record_shape(&table->options);
    s->share.hz = TIDE__SHARE_HZ;
    struct tide_table_options index = {.name = table->name, .keys = TIDE_KEYS_HASHED};
    if (table->options.keys == TIDE_KEYS_DENSE && table->options.key_count <= DENSE_KEYS) {
        index.keys = TIDE_KEYS_DENSE;
        index.slots = table->options.slots;
        index.key_count = table->options.key_count;
    }
    index.width = (uint32_t)((sizeof(struct tide__hot_key) + tide__copy_record_bytes(&s->shape)) / sizeof(float));
    code = tide__table_make(table->store, 0, &index, NULL, NULL, &s->index);
    code = code ? code : tide__subscriptions_create(s);
    code = code ? code : tide__hot_start(s);
    if (code) {
        tide__subscriptions_destroy(s);
        tide__table_destroy(s->index);
        tide_free(s);
        return code;
    }
    tide_lock(&table->store->pending.lock); /* see remote.c: is_overtaken */
    atomic_store_explicit(&tide__hot_part(table)->face.shared, s, memory_order_release); /* with tide__hot_of */
    tide_unlock(&table->store->pending.lock);
    *out = s;
    return 0;
}

void tide__hot_destroy(struct tide_table *table) {
    struct tide__hot_table *s = tide__hot_of(table);
    if (!s) {
        return;
    }
    const uint32_t end = s->index->slab.next;
    for (uint32_t i = 0; i < end; i++) {
        struct tide__hot_key *k = (void *)tide__slab_row(&s->index->slab, i);
        if (atomic_load_explicit(&tide__hot_copy(k)->in_use, memory_order_relaxed)) {
            tide__copy_record_drop(tide__hot_copy(k));
            while (k->queued) {
                struct tide__queued *next = k->queued->next;
                tide__hot_queued_free(s, k->queued);
                k->queued = next;
            }
        }
    }
    tide__subscriptions_destroy(s);
    tide__table_destroy(s->index);
    tide__flush_callers_free(s);
    tide_free(s->work);
    tide_free(s);
}

void tide__hot_table(struct tide_table *table) {
    struct tide__hot_table *s;
    const uint8_t technique = table->options.technique;
    if ((technique == TIDE_REPLICATE || technique == TIDE_INTENT) && table->store->net && tide__hot_create(table, &s)) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
                 "keys of table '%s' are not shared on this node: %s", table->name, tide_error_message());
    }
}

/* ---- records ---- */

static inline uint64_t filter_bit(uint64_t key, atomic_uint_fast64_t **word, struct tide__hot_table *s) {
    const uint64_t mixed = tide_mix64(key ^ UINT64_C(0x9e3779b97f4a7c15));
    *word = &s->filter[mixed >> 54];
    return UINT64_C(1) << (mixed & 63);
}

int tide__hot_lock(struct tide__hot_table *s, uint64_t key, bool create, bool patient, atomic_uint_fast64_t **word,
                   uint64_t *old, struct tide__hot_key **k) {
    atomic_uint_fast64_t *place;
    const uint64_t bit = filter_bit(key, &place, s);
    /* seq_cst, with the epochs: see tide__hot_synchronize */
    if (!create && !(atomic_load(place) & bit)) {
        return TIDE__NOT_FOUND;
    }
    int code = tide__index_lock(s->index, key, create, patient, word, old);
    if (code != TIDE__FOUND) {
        return code;
    }
    if (TIDE_UNLIKELY(tide__word_state(*old) != TIDE__OWNED)) {
        const uint64_t limit = s->table->options.cache_bytes ? s->table->options.cache_bytes : COPY_BYTES;
        uint32_t number;
        code = !create ? TIDE__NOT_FOUND
               : tide__slab_used(&s->index->slab) >= limit / s->index->slab.stride
                   ? tide_fail(TIDE_EFULL, "table '%s' has as many shared keys here as fit", s->table->name)
                   : tide__slab_take(&s->index->slab, &number);
        if (code) {
            tide__word_unlock(*word, *old);
            return code;
        }
        *k = (void *)tide__slab_row(&s->index->slab, number);
        memset(*k, 0, sizeof **k);
        tide__copy_record_init(&s->shape, tide__hot_copy(*k), key);
        *old = tide__word_owned(*old, number);
        atomic_fetch_or(place, bit);
        return TIDE__FOUND;
    }
    *k = (void *)tide__slab_row(&s->index->slab, (uint32_t)*old);
    return TIDE__FOUND;
}

void tide__hot_release(struct tide__hot_table *s, atomic_uint_fast64_t *word, uint64_t old) {
    struct tide__hot_key *k = (void *)tide__slab_row(&s->index->slab, (uint32_t)old);
    tide__copy_record_drop(tide__hot_copy(k));
    tide__slab_give(&s->index->slab, (uint32_t)old);
    tide__word_unlock(word, old & TIDE__WORD_PRESENT);
}

void tide__hot_each(struct tide__hot_table *s,
                    void (*each)(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, void *arg),
                    void *arg) {
    tide_lock(&s->index->slab.lock);
    const uint32_t end = s->index->slab.next;
    tide_unlock(&s->index->slab.lock);
    for (uint32_t i = 0; i < end; i++) {
        struct tide__hot_key *at = (void *)tide__slab_row(&s->index->slab, i), *k;
        struct tide__copy_record *r = tide__hot_copy(at);
        atomic_uint_fast64_t *word;
        uint64_t old;
        /* acquire: with tide__copy_record_init */
        if (!atomic_load_explicit(&r->in_use, memory_order_acquire)) {
            continue;
        }
        const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
        if (tide__hot_lock(s, key, false, true, &word, &old, &k) == TIDE__FOUND) {
            if (k == at) {
                each(s, k, key, arg);
            }
            tide__word_unlock(word, old);
        }
    }
}

void tide__hot_list(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key) {
    if (k->listed) {
        return;
    }
    tide_lock(&s->lock);
    if (s->work_count == s->work_capacity) {
        size_t capacity = s->work_capacity ? s->work_capacity * 2 : 256;
        /* Eight bytes beside a record of hundreds that we got. */
        s->work = tide_realloc_vital(s->work, capacity * sizeof *s->work);
        s->work_capacity = capacity;
    }
    s->work[s->work_count++] = key;
    tide_unlock(&s->lock);
    k->listed = true;
}

void tide__hot_wake(struct tide__hot_table *s) {
    if (atomic_load_explicit(&s->awake, memory_order_relaxed) || atomic_exchange(&s->awake, true)) {
        return;
    }
    static const uint8_t nil = 0xc0;
    if (!s->fiber || tide_post(s->table->store->node, s->fiber, &nil, sizeof nil)) {
        atomic_store(&s->awake, false);
    }
}

/* ---- epochs ---- */

/*
 * An operation is inside from before it looks for records until it has been sent. A change of a
 * record so that it must not be overlooked changes it and then waits: first for those that are
 * inside in the other epoch, then for this one's (as sleepable RCU does: one that read the epoch
 * and had not counted itself yet is in one of them). The counters and the filter are seq_cst:
 * either the operation sees the record, or it is seen inside.
 */
static unsigned enter(struct tide__hot_table *s) {
    const unsigned bank = atomic_load_explicit(&s->epoch, memory_order_relaxed) & 1;
    atomic_fetch_add(&s->stripes[tide__stripe()].inside[bank], 1);
    return bank;
}

static void leave(struct tide__hot_table *s, unsigned stripe, unsigned bank) {
    /* release: what was sent is registered */
    atomic_fetch_sub_explicit(&s->stripes[stripe].inside[bank], 1, memory_order_release);
}

static bool anybody_inside(struct tide__hot_table *s, unsigned bank) {
    unsigned sum = 0;
    for (unsigned i = 0; i < TIDE__STRIPES; i++) {
        sum += atomic_load(&s->stripes[i].inside[bank]);
    }
    return sum != 0;
}

int tide__hot_synchronize(struct tide__hot_table *s) {
    for (int turn = 0; turn < 2; turn++) {
        const unsigned bank = atomic_fetch_add(&s->epoch, 1) & 1;
        while (anybody_inside(s, bank)) {
            int code = tide_sleep(WAIT_NS);
            if (code) {
                return code;
            }
        }
    }
    return 0;
}

/* ---- workers ---- */

enum served { SERVED, ELSEWHERE, NOT_YET };

static bool queue_is_full(struct tide__hot_table *s, size_t count) {
    const uint64_t queued = atomic_load_explicit(&s->queued_bytes, memory_order_relaxed);
    return queued > 0 && queued + count * queued_bytes(s) > tide_limit(store_home_bytes) &&
           !TIDE_MUTANT(share_queue_unbounded);
}

/* A little, for what other nodes are to send. Of a table that is dropped nothing comes any more. */
static int rest(struct tide__hot_table *s) {
    if (atomic_load(&s->table->closing) && !TIDE_MUTANT(drop_waiter_untold)) {
        return tide__table_dropped(s->table);
    }
    return tide_sleep(WAIT_NS);
}

/* Before a push looks for records: those that wait for rows are few enough. Larger ones go alone. */
static int wait_for_queue(struct tide__hot_table *s, size_t count) {
    struct tide_port *port = s->table->store->port;
    uint64_t until = 0;
    int code = 0;
    while (!code && queue_is_full(s, count)) {
        until = until ? until : tide_port_now(port) + tide_limit(store_operation_timeout);
        if (!tide_fiber_current() || tide_port_now(port) > until) {
            return tide_fail_busy(tide_tier_retry_ms(TIDE_TIER_CALM),
                                  "pushes of %llu bytes to table '%s' wait for copies of its rows",
                                  (unsigned long long)atomic_load(&s->queued_bytes), s->table->name);
        }
        code = rest(s);
    }
    return code;
}

/* Latched, COMING: the push waits for the row. Sums are made of what adds up as it is. */
static int queue(struct tide__hot_table *s, struct tide__hot_key *k, const void *delta) {
    const size_t bytes = s->table->width * sizeof(float);
    if (k->queued && s->shape.floats == s->table->width) {
        tide__row_add(k->queued->delta, delta, s->table->width);
        return 0;
    }
    struct tide__queued *queued = tide_alloc(sizeof *queued + bytes);
    if (!queued) {
        return tide_fail(TIDE_ENOMEM, "no memory to keep a push to table '%s'", s->table->name);
    }
    tide__share_count(&s->queued_bytes, queued_bytes(s));
    tide_budget_keep(s->table->budget, queued_bytes(s));
    queued->next = NULL;
    memcpy(queued->delta, delta, bytes);
    *(k->queued ? &k->queued_last->next : &k->queued) = queued;
    k->queued_last = queued;
    return 0;
}

int tide__hot_push(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, const void *delta) {
    struct tide__copy_record *r = tide__hot_copy(k);
    int code = 0;
    if (k->state == TIDE__COPY_COMING) {
        code = queue(s, k, delta);
    } else {
        tide__copy_record_push(&s->shape, r, delta);
        r->dirty = true;
        tide__hot_list(s, k, key);
    }
    if (!code && !k->unsent_ns) {
        k->unsent_ns = tide_port_now(s->table->store->port);
    }
    return code;
}

static uint64_t key_of(const struct tide__pass *pass, size_t at) {
    uint64_t key;
    memcpy(&key, (const char *)pass->keys + at * sizeof key, sizeof key);
    return key;
}

/* Ahead of serve(): words of the index, then records of the next keys, so that their ways from
 * memory overlap. A record is large (two rows and more), and nodes that share a processor push
 * each other's out of its caches. */
static void fetch_ahead(const struct tide__hot_table *s, const struct tide__pass *pass, size_t from,
                        enum tide__kind kind) {
    const struct tide_table *index = s->index;
    const size_t left = pass->count - from, count = left < AHEAD ? left : AHEAD;
    const size_t all = index->width * sizeof(float);
    const size_t read =
        sizeof(struct tide__hot_key) + sizeof(struct tide__copy_record) + s->table->width * sizeof(float);
    const size_t used = kind == TIDE__PUSH ? all : read, bytes = used < FETCHED ? used : FETCHED;
    atomic_uint_fast64_t *words[AHEAD];
    if (index->options.keys == TIDE_KEYS_HASHED) {
        return; /* where its words are is known under a latch */
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = key_of(pass, pass->index ? pass->index[from + i] : from + i);
        const uint32_t slot = tide__slot_of(index, key);
        /* acquire: with tide__dense_words */
        words[i] = atomic_load_explicit(&index->slots[slot].index, memory_order_acquire);
        words[i] = words[i] ? words[i] + tide__place_of(index, slot, key) : NULL;
        __builtin_prefetch(words[i], 1);
    }
    for (size_t i = 0; i < count; i++) {
        /* acquire: the arena was set before the word's release */
        const uint64_t word = words[i] ? atomic_load_explicit(words[i], memory_order_acquire) : 0;
        if (tide__word_state(word) == TIDE__OWNED) {
            const char *record = (const char *)tide__slab_row(&index->slab, (uint32_t)word);
            for (size_t at = 0; at < bytes; at += LINE) {
                __builtin_prefetch(record + at, 1);
            }
        }
    }
}

/* enum served, or an error. */
static int serve(struct tide__hot_table *s, const struct tide__pass *pass, size_t i, enum tide__kind kind) {
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    const size_t width = s->table->width;
    const uint64_t key = key_of(pass, i);
    uint64_t old;
    int code = tide__hot_lock(s, key, false, true, &word, &old, &k);
    if (code != TIDE__FOUND) {
        return ELSEWHERE;
    }
    code = ELSEWHERE;
    if (k->state != TIDE__COPY_NONE && kind == TIDE__PUSH) {
        code = tide__hot_push(s, k, key, pass->in + i * width * sizeof(float));
        code = code ? code : SERVED;
    } else if (k->state == TIDE__COPY_HELD) {
        memcpy(pass->out + i * width, tide__copy_record_value(tide__hot_copy(k)), width * sizeof(float));
        code = SERVED;
    } else if (k->state == TIDE__COPY_COMING && !TIDE_MUTANT(share_queue_passed) &&
               (k->queued || (k->giving_up && !TIDE_MUTANT(share_give_up_overtaken)))) {
        code = NOT_YET; /* a push of this node is not at the owner */
    }
    tide__word_unlock(word, old);
    return code;
}

/* The keys that copies do not have, in `left`. NOT_YET (pull): begin again later. */
static int serve_all(struct tide__hot_table *s, const struct tide__pass *pass, enum tide__kind kind,
                     struct tide__misses *left) {
    uint64_t hits = 0;
    for (size_t i = 0; i < pass->count; i++) {
        const size_t at = pass->index ? pass->index[i] : i;
        if (i % AHEAD == 0 && pass->count > 1) {
            fetch_ahead(s, pass, i, kind);
        }
        int code = serve(s, pass, at, kind);
        code = code == ELSEWHERE ? tide__misses_add(left, at) : code;
        if (code) {
            return code;
        }
    }
    hits = pass->count - left->count;
    tide__share_count(&s->stripes[tide__stripe()].hits, hits);
    tide__table_count(s->table, kind == TIDE__PULL ? TIDE__PULLS_LOCAL : TIDE__PUSHES_LOCAL, hits);
    if (hits && kind == TIDE__PUSH) {
        tide__hot_wake(s);
    }
    return 0;
}

/* What went to other nodes and should not have had to. */
static void ask_for_copies(struct tide__hot_table *s, const struct tide__pass *pass) {
    const bool all = s->table->options.technique == TIDE_REPLICATE;
    bool any = false;
    for (size_t i = 0; i < pass->misses->count; i++) {
        struct tide__hot_key *k;
        atomic_uint_fast64_t *word;
        const uint64_t key = key_of(pass, pass->misses->at[i]);
        uint64_t old;
        int code = tide__hot_lock(s, key, all, true, &word, &old, &k);
        if (code == TIDE__FOUND) {
            k->wanted |= all && !k->technique;
            if (k->state == TIDE__COPY_NONE && k->wanted) {
                tide__hot_list(s, k, key);
                any = true;
            }
            tide__word_unlock(word, old);
        } else if (code < 0) {
            tide__share_count(&s->refused, 1);
        }
    }
    if (any) {
        tide__hot_wake(s);
    }
}

int tide__hot_operate(struct tide__hot_table *s, struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *t,
                      bool wait) {
    const size_t count = pass->count;
    const uint32_t *index = pass->index;
    int code = kind == TIDE__PUSH ? wait_for_queue(s, count) : 0;
    if (code) {
        return code;
    }
    do {
        struct tide__misses left;
        bool sent;
        const unsigned stripe = tide__stripe(), bank = enter(s);
        tide__misses_init(&left);
        pass->count = count;
        pass->index = index;
        code = serve_all(s, pass, kind, &left);
        if (TIDE_BUGGIFY(shared_late) && tide_fiber_current()) {
            (void)tide_sleep(TIDE_SECOND / 1000);
        }
        if (!code && left.count) {
            pass->index = left.at;
            pass->count = left.count;
            code = tide__pass_run(pass, kind, t, false, &sent);
            ask_for_copies(s, pass);
        }
        leave(s, stripe, bank);
        tide__misses_release(&left);
        if (code == NOT_YET) {
            int slept = tide_fiber_current()
                            ? rest(s)
                            : tide_fail(TIDE_EBUSY, "a copy of a row of table '%s' is on its way", s->table->name);
            code = slept ? slept : NOT_YET;
        }
    } while (code == NOT_YET);
    if (wait) {
        int result = tide__ticket_wait(t);
        code = code ? code : result;
    }
    return code;
}

/* ---- looks ---- */

bool tide__hot_read(struct tide_table *table, uint64_t key, float *out) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (!s || tide__hot_lock(s, key, false, true, &word, &old, &k) != TIDE__FOUND) {
        return false;
    }
    const bool held = k->state == TIDE__COPY_HELD;
    if (held) {
        memcpy(out, tide__copy_record_value(tide__hot_copy(k)), table->width * sizeof *out);
    }
    tide__word_unlock(word, old);
    return held;
}

bool tide__hot_stays(struct tide_table *table, uint64_t key) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (!s || tide__hot_lock(s, key, false, true, &word, &old, &k) != TIDE__FOUND) {
        return false;
    }
    const bool stays = k->technique == 1 + TIDE_STATIC || k->technique == 1 + TIDE_REPLICATE;
    tide__word_unlock(word, old);
    return stays;
}
