/*
 * One key that changes its owner: its word, its arrival record, its row; the worker's part and the
 * store actor's. What is decided where: relocate.h; about what: owner.c, relocate_messages.c.
 */
#include "store/core/send.h"
#include "store/rows/rules.h"
#include "store/adaptive/zero_copy.h"
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"
#include "store/adaptive/hot_keys.h"
#include "tide/stats.h"

/* ---- words ---- */

int tide__owner_table_init(struct tide_table *table) {
    struct tide__owners *o = tide_alloc_zero(1, sizeof *o);
    if (o) {
        o->outbox.zero_copy_source = tide__zero_copy_source_create(&table->slab);
    }
    if (!o || !o->outbox.zero_copy_source) {
        tide_free(o);
        return tide_fail(TIDE_ENOMEM, "no memory for table '%s'", table->options.name);
    }
    o->outbox.zero_copy_rows = tide__zero_copy_rows(table->row_floats * sizeof(float));
    tide__slab_init(&o->arrivals, sizeof(struct tide__arrival) / sizeof(float), table->budget);
    table->parts[TIDE__PART_OWNERS] = o;
    return 0;
}

void tide__owner_table_deinit(struct tide_table *table) {
    struct tide__owners *o = tide__owners_of(table);
    if (o) {
        tide__owner_forget(table);
        tide__outbox_free(table);
        tide__zero_copy_source_close(o->outbox.zero_copy_source);
        tide_free(o->locations);
        tide__trails_free(table);
        tide__slab_deinit(&o->arrivals);
        tide_free(o);
    }
}

/* NULL: out of memory. */
atomic_uint_fast64_t *tide__key_lock(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t *old) {
    atomic_uint_fast64_t *word;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        int code;
        while ((code = tide__hashed_lock(table, key, true, 0, false, &word, old)) == TIDE_EBUSY) {
            tide_lend_core();
        }
        return code == TIDE__FOUND ? word : NULL;
    }
    word = tide__dense_words(table, slot);
    if (!word) {
        return NULL;
    }
    word += tide__place_of(table, slot, key);
    while (tide__word_lock(word, false, old)) {
        tide_lend_core();
    }
    return word;
}

/* The word of a row that is here: the workers', unless operations are in flight or it is held.
 * Then the record is not used any more. Nor is that of a cold row that nothing needs any more. */
static inline uint64_t settled(struct tide_table *table, uint64_t word) {
    const struct tide__arrival *a = tide__arrival_of(table, word);
    if (a->cold) {
        return a->wanted || a->own || a->first || a->next
                   ? word
                   : tide__word_base(word, tide__word_seen(word)) | (uint64_t)TIDE__COLD << 60 | a->place;
    }
    return !a->here || a->held || a->own
               ? word
               : tide__word_base(word, tide__word_seen(word)) | (uint64_t)TIDE__OWNED << 60 | a->row;
}

static inline uint64_t settle(struct tide_table *table, uint64_t word) {
    const uint64_t now = settled(table, word);
    if (now != word) {
        tide__arrival_free(table, word);
    }
    return now;
}

uint64_t tide__word_settled(struct tide_table *table, uint64_t word) {
    return settle(table, word);
}

int tide__row_limit(const struct tide_table *table) {
    if (tide__rows_here(table) >= table->options.key_limit) {
        return tide_fail(TIDE_EFULL, "table '%s' holds its limit of %llu keys on this node", table->name,
                         (unsigned long long)table->options.key_limit);
    }
    return 0;
}

/* A row for a locked word that has none and waits for none. */
int tide__row_place(struct tide_table *table, uint32_t slot, uint64_t *word, uint32_t row) {
    bool held = tide__route_of(table, slot) & TIDE__OWN_HOLD;
    if (!held && tide__word_handed(*word) == 0) {
        *word = tide__word_base(*word, tide__word_seen(*word)) | (uint64_t)TIDE__OWNED << 60 | row;
        return 0;
    }
    int code = tide__arrival_make(table, word, row);
    if (!code) {
        tide__arrival_of(table, *word)->here = true;
        tide__arrival_of(table, *word)->held = held;
    }
    return code;
}

/* ---- workers ---- */

bool tide__cold_arrives(struct tide_table *table, uint64_t *word, uint32_t place) {
    uint32_t number;
    if (tide__slab_take(&tide__owners_of(table)->arrivals, &number)) { /* workers have no hand */
        return false;
    }
    const uint32_t seen = tide__word_seen(*word);
    const uint32_t handed = tide__word_state(*word) == TIDE__ABSENT ? tide__word_handed(*word) : 0;
    *word = tide__word_base(*word, seen) | (uint64_t)TIDE__ARRIVING << 60 | number;
    struct tide__arrival *a = tide__arrival_of(table, *word);
    *a = (struct tide__arrival){.own = handed,
                                .row = UINT32_MAX,
                                .cold = true,
                                .place = place,
                                .owner = tide__store_self(table->store),
                                .owner_term = seen};
    a->last = &a->first;
    return true;
}

bool tide__handed_over(struct tide_table *table, uint64_t *word) {
    if (tide__word_state(*word) == TIDE__COLD && !tide__cold_arrives(table, word, (uint32_t)*word)) {
        return false;
    }
    if (tide__word_state(*word) == TIDE__ARRIVING) {
        tide__arrival_of(table, *word)->own++;
        return true;
    }
    bool room = tide__word_handed(*word) < UINT16_MAX;
    *word += room;
    return room;
}

bool tide__owner_hand_over(struct tide_table *table, atomic_uint_fast64_t *word, uint64_t old) {
    bool room = tide__handed_over(table, &old);
    tide__word_unlock(word, old);
    return room;
}

static uint64_t taken_back(struct tide_table *table, uint64_t word) {
    if (tide__word_state(word) == TIDE__ARRIVING) {
        struct tide__arrival *a = tide__arrival_of(table, word);
        a->own -= a->own > 0;
        return settled(table, word);
    }
    return tide__word_state(word) == TIDE__ABSENT && tide__word_handed(word) ? word - 1 : word;
}

uint64_t tide__taken_back(struct tide_table *table, uint64_t word) {
    const uint64_t now = taken_back(table, word);
    if (tide__word_state(word) == TIDE__ARRIVING && now != word) {
        tide__arrival_free(table, word);
    }
    return now;
}

void tide__owner_take_back(struct tide_table *table, const void *keys, const uint32_t *positions, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t key, old;
        memcpy(&key, (const char *)keys + (size_t)positions[i] * sizeof key, sizeof key);
        atomic_uint_fast64_t *word = tide__key_lock(table, tide__slot_of(table, key), key, &old);
        if (word) {
            const uint64_t now = taken_back(table, old);
            if (tide__word_state(old) == TIDE__ARRIVING && now != old) {
                tide__slab_give(&tide__owners_of(table)->arrivals, (uint32_t)old); /* not of the I/O thread */
            }
            tide__word_unlock(word, now);
        }
    }
}

const atomic_uint_fast64_t *tide__owner_word(struct tide_table *table, uint64_t key) {
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return NULL;
    }
    const uint32_t slot = tide__slot_of(table, key);
    /* acquire: with tide__dense_words */
    const atomic_uint_fast64_t *words = atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
    return words ? words + tide__place_of(table, slot, key) : NULL;
}

/* A look at the word of a key; 0: it has none. */
static uint64_t word_of(struct tide_table *table, uint64_t key) {
    uint64_t seen = 0;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        atomic_uint_fast64_t *word;
        if (tide__hashed_lock(table, key, false, 0, true, &word, &seen) == TIDE__FOUND) {
            tide__word_unlock(word, seen);
        }
        return seen;
    }
    const atomic_uint_fast64_t *word = tide__owner_word(table, key);
    return word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
}

bool tide__owner_awaits(struct tide_table *table, uint64_t key) {
    return tide__word_state(word_of(table, key)) == TIDE__ARRIVING;
}

uint16_t tide__owner_of(struct tide_table *table, uint64_t key) {
    const uint16_t self = tide__store_self(table->store);
    const uint32_t route = tide__route_of(table, tide__slot_of(table, key));
    const uint64_t seen = word_of(table, key);
    switch ((enum tide__key_state)tide__word_state(seen)) {
    case TIDE__OWNED:
    case TIDE__ARRIVING:
    case TIDE__COLD:
        return self;
    case TIDE__ABSENT:
        break;
    }
    return seen & TIDE__WORD_AWAY ? tide__word_owner(seen) : tide__route_home(route);
}

bool tide__owner_serves(struct tide_table *table, uint64_t key) {
    const uint32_t route = tide__route_of(table, tide__slot_of(table, key));
    const uint64_t seen = word_of(table, key);
    return tide__word_state(seen) == TIDE__OWNED ||
           (tide__word_state(seen) == TIDE__ABSENT && !(seen & TIDE__WORD_AWAY) &&
            (route & TIDE__FOR_WORKER) == TIDE__MINE);
}

/* ---- operations on a row ---- */

int tide__owner_run(struct tide__job *job, uint32_t index, uint64_t *word, float *row, bool made) {
    struct tide_table *table = job->table;
    const size_t floats = tide__job_floats(job);
    if (job->kind == TIDE__LOCALIZE) {
        return 0;
    }
    int code = tide__job_prepare(job);
    if (code) {
        return code;
    }
    if (job->kind == TIDE__PULL) {
        memcpy((float *)job->values->data + index * floats, row, floats * sizeof *row);
        return tide__subscribe_of(job, index);
    }
    const uint8_t *in = job->deltas ? (const uint8_t *)job->deltas : job->rows;
    in += index * floats * sizeof(float);
    tide__cut_push(table, tide__job_key_at(job, index), word, row, made, job->stamp, job->raw ? NULL : in);
    if (job->raw) {
        tide__row_put(table, row, in, job->flags);
    } else {
        tide__rule_apply(&table->options, row, in);
    }
    tide__row_changes(table, tide__job_key_at(job, index), tide__job_changer(job), made);
    if ((job->flags & TIDE__SUBSCRIBES) && tide__resubscribe(job, index)) {
        memcpy((float *)job->values->data + index * floats, row, floats * sizeof *row);
    }
    return 0;
}

static inline void one_less(struct tide_table *table, struct tide__job *job) {
    if (--job->left == 0) {
        job->next = tide__owners_of(table)->outbox.done;
        tide__owners_of(table)->outbox.done = job;
    }
}

void tide__waiter_done(struct tide_table *table, struct tide__waiter *w, int code, const char *text) {
    if (code) {
        tide__job_error(w->job, code, text, &w->index, 1);
        w->job->failed[w->index] = 1;
        w->job->failures++;
    }
    one_less(table, w->job);
}

/* [0] below 512 ns; from there on two an octave: [1] from 512 ns, [2] from 768 ns, .. */
static unsigned bucket_of(uint64_t ns) {
    if (ns < 512) {
        return 0;
    }
    const unsigned octave = 63u - (unsigned)__builtin_clzll(ns);
    const unsigned bucket = 1 + 2 * (octave - 9) + ((ns >> (octave - 1)) & 1);
    return bucket < TIDE_RELOCATE_BUCKETS ? bucket : TIDE_RELOCATE_BUCKETS - 1;
}

/* Rows that took equally long, for they were asked for together and came together. */
static void count_took(struct tide_table *table) {
    struct tide__relocate_outbox *outbox = &tide__owners_of(table)->outbox;
    const uint64_t took = outbox->took;
    if (outbox->same == 0) {
        return;
    }
    outbox->got += outbox->same;
    outbox->took_ns += outbox->same * took;
    atomic_uint_fast64_t *bucket = &tide__owners_of(table)->relocate_hist[bucket_of(took)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + outbox->same,
                          memory_order_relaxed);
    if (took > atomic_load_explicit(&tide__owners_of(table)->relocate_max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&tide__owners_of(table)->relocate_max_ns, took, memory_order_relaxed);
    }
    outbox->same = 0;
}

static inline void count_time(struct tide_table *table, const struct tide__arrival *a, uint64_t now) {
    const uint64_t took = now - a->asked_at;
    if (took != tide__owners_of(table)->outbox.took) {
        count_took(table);
        tide__owners_of(table)->outbox.took = took;
    }
    tide__owners_of(table)->outbox.same++;
}

/* Answers what waited and has all its rows. */
void tide__owner_finish(struct tide_table *table) {
    struct tide__relocate_outbox *outbox = &tide__owners_of(table)->outbox;
    tide__outbox_send(table);
    if (outbox->given) {
        tide__table_count(table, TIDE__RELOCATED_OUT, outbox->given);
        outbox->given = 0;
    }
    count_took(table);
    if (outbox->got) {
        tide__table_count(table, TIDE__RELOCATED_IN, outbox->got);
        tide__table_count(table, TIDE__RELOCATE_NS, outbox->took_ns);
        outbox->got = outbox->took_ns = 0;
    }
    while (tide__owners_of(table)->outbox.done) {
        struct tide__job *job = tide__owners_of(table)->outbox.done;
        tide__owners_of(table)->outbox.done = job->next;
        job->next = NULL;
        tide__misses_init(&job->misses);
        uint32_t *at = NULL;
        for (uint32_t i = 0; job->failures && i < job->count; i++) {
            if (job->failed[i] && (at || (at = tide_alloc(job->count * sizeof *at)))) {
                job->misses.at = at;
                at[job->misses.count++] = i;
            }
        }
        tide__job_reply(job);
        tide__job_free(table->store, job);
    }
    tide__owners_of(table)->outbox.hint = 0;
}

/* ---- giving and getting ---- */

/* It has no owner any more. */
static void send_row(struct tide_table *table, uint64_t key, uint64_t word, uint16_t to, uint32_t term, uint32_t row) {
    struct tide__kept *second;
    const float *at = tide__slab_row(&table->slab, row);
    term |= tide__cut_give(table, key, word, at, &second);
    if (TIDE_UNLIKELY(second)) {
        tide__outbox_add(table, TIDE__OP_XFER, to, 0, key, term, at, second->row);
        tide_free(second);
        tide__hand_give(&table->slab, row);
        return;
    }
    if (tide__owners_of(table)->outbox.zero_copy_rows > 0) {
        tide__outbox_zero_copy(table, to, key, term, row);
    } else {
        tide__outbox_row(table, to, key, term, at);
        tide__hand_give(&table->slab, row);
    }
}

/* The row of a locked word goes to another node. */
uint64_t tide__owner_give(struct tide_table *table, uint64_t old, const struct tide__relocation *k, uint64_t key,
                          uint16_t to, uint32_t term) {
    uint32_t handed = tide__word_handed(old), row = UINT32_MAX;
    if (tide__word_state(old) == TIDE__OWNED) {
        row = (uint32_t)old;
        handed = 0;
    } else if (tide__word_state(old) == TIDE__ARRIVING) {
        struct tide__arrival *a = tide__arrival_of(table, old);
        row = a->row;
        handed = a->own < UINT16_MAX ? a->own : UINT16_MAX;
        tide__arrival_free(table, old);
    }
    const bool none = row == UINT32_MAX;
    if (none) {
        tide__outbox_add(table, TIDE__OP_XFER, to, 0, key, term | TIDE__NO_ROW, NULL, NULL);
    } else if (TIDE_MUTANT(reloc_row_left_behind) && tide__word_state(old) == TIDE__OWNED) {
        tide__outbox_row(table, to, key, term, tide__slab_row(&table->slab, row));
        return old;
    } else {
        send_row(table, key, old, to, term, row);
    }
    if (k->home && tide__owners_of(table)->trails.count) {
        tide__trail_passed(table, key, k->self);
    } else if (!k->home) {
        const uint16_t home = tide__route_home(tide__route_of(table, tide__slot_of(table, key)));
        tide__locations_gave(table, key, to == home ? 0 : to, term & TIDE__TERM_MASK);
    }
    if (!TIDE_MUTANT(share_row_leaves_silently)) {
        tide__row_changes(table, key, 0, false); /* nodes with copies ask where it is now */
    }
    tide__owners_of(table)->outbox.given++;
    return tide__word_gone(old, k, handed);
}

/* What waits for the row of an ARRIVING word. */
static void run_waiters(struct tide_table *table, struct tide__arrival *a, uint64_t *word, float *row) {
    for (struct tide__waiter *w = TIDE_MUTANT(reloc_waiters_not_run) ? NULL : a->first, *next; w; w = next) {
        next = w->next;
        if (w->job->kind == TIDE__LOCALIZE) {
            one_less(table, w->job);
        } else {
            int code = tide__owner_run(w->job, w->index, word, row, false);
            tide__waiter_done(table, w, code, "no memory for the answer");
        }
    }
    a->first = NULL;
    a->last = &a->first;
}

void tide__arrival_fail(struct tide_table *table, struct tide__arrival *a, int code, const char *text) {
    for (struct tide__waiter *w = a->first, *next; w; w = next) {
        next = w->next;
        tide__waiter_done(table, w, code, text);
    }
    a->first = NULL;
    a->last = &a->first;
}

/* What relocate() decided about a row that came for an ARRIVING word: bytes NULL: the initial one.
 */
uint64_t tide__owner_install(struct tide_table *table, uint64_t old, uint64_t key, const struct tide__relocation *k,
                             struct tide__relocate_result r, uint32_t marks, const uint8_t *bytes, uint64_t now) {
    struct tide__arrival *a = tide__arrival_of(table, old);
    float *row = tide__slab_row(&table->slab, a->row);
    const size_t row_bytes = table->row_floats * sizeof *row;
    if (bytes) {
        memcpy(row, bytes, row_bytes);
    } else {
        tide__row_init(&table->options, key, row, true);
    }
    old = tide__cut_arrive(table, key, old, bytes ? marks : TIDE__CUT_NO_ROW, row,
                           bytes && (marks & TIDE__MARK_SPLIT) ? bytes + row_bytes : NULL);
    count_time(table, a, now);
    run_waiters(table, a, &old, row);
    if (r.act == TIDE__INSTALL_AND_GIVE) {
        return tide__owner_give(table, old, k, key, r.node, r.term);
    }
    a->here = true;
    if (k->home) {
        tide__trail_end(table, key);
    } else if (table->store->leaving) {
        tide__outbox_add(table, TIDE__OP_OFFER, tide__route_home(tide__route_of(table, tide__slot_of(table, key))), 0,
                         key, 0, NULL, NULL);
    }
    return settle(table, tide__word_base(old, k->term) | (uint64_t)TIDE__ARRIVING << 60 | (uint32_t)old);
}

uint64_t tide__owner_thaw(struct tide_table *table, uint64_t old, uint64_t key, const struct tide__relocation *k,
                          struct tide__relocate_result r, const void *bytes) {
    struct tide__arrival *a = tide__arrival_of(table, old);
    float *row = tide__slab_row(&table->slab, a->row);
    if (bytes) {
        memcpy(row, bytes, table->row_floats * sizeof *row);
        old |= TIDE__WORD_CLEAN; /* a push among what waits takes it away */
    } else {
        tide__row_init(&table->options, key, row, true);
        old = tide__cut_arrive(table, key, old, TIDE__CUT_NO_ROW, row, NULL); /* it was made: none took it before */
    }
    run_waiters(table, a, &old, row);
    if (r.act == TIDE__INSTALL_AND_GIVE) {
        return tide__owner_give(table, old, k, key, r.node, r.term);
    }
    const uint64_t clean = old & TIDE__WORD_CLEAN;
    a->cold = false;
    a->here = true;
    old = settle(table, tide__word_base(old, k->term) | (uint64_t)TIDE__ARRIVING << 60 | (uint32_t)old);
    return tide__word_state(old) == TIDE__OWNED ? old | clean : old;
}

void tide__died_text(struct tide_store *store, uint16_t node, char text[160]) {
    char name[96];
    tide__node_text(store, node, name);
    (void)snprintf(text, 160, "node %s died, and with it the row", name);
}

void tide__block_fetch(struct tide_table *table, struct tide__key_block *block, const uint8_t *keys, size_t count) {
    const bool range = table->options.slots == TIDE_SLOTS_RANGE;
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        memcpy(&key, keys + i * sizeof key, sizeof key);
        const uint32_t slot = range ? tide__slot_of(table, key) : tide__slot_spread(key);
        /* acquire: with tide__dense_words */
        atomic_uint_fast64_t *words = atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
        words = words ? words : tide__dense_words(table, slot);
        block->keys[i] = key;
        block->slots[i] = slot;
        const uint64_t place = range ? tide__place_of(table, slot, key) : key >> 12;
        block->words[i] = words ? words + place : NULL;
        __builtin_prefetch(block->words[i], 1);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t word = block->words[i] ? atomic_load_explicit(block->words[i], memory_order_acquire) : 0;
        if (tide__word_state(word) == TIDE__OWNED) {
            __builtin_prefetch(tide__slab_row(&table->slab, (uint32_t)word), 1);
        } else if (tide__word_state(word) == TIDE__ARRIVING) {
            __builtin_prefetch(tide__slab_row(&tide__owners_of(table)->arrivals, (uint32_t)word), 1);
        }
    }
}
