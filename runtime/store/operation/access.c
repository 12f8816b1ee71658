/*
 * Access to rows: the walk that workers (on their own thread) and the store actor (for others)
 * share, and the door of an operation. The public pull and push: access/access.c.
 *
 * A pass visits keys in blocks so that the misses of one key overlap those of the next: slots of
 * the whole block, then key words, then rows are prefetched before the first row is locked. Local
 * rows are read and written under the lock bit of their key word; no allocation, no shared counter,
 * no message. What is not served here is listed and goes to remote.c after the walk: two passes a
 * call.
 *
 * A slot's route is read again after the word is locked: a move of a slot changes the
 * route first and locks every word after, so a row is never touched once it has left. A row without
 * a word needs no lock to be read: it has its initial value if the slot was still served after the
 * word was seen empty.
 *
 * Order within a call: once a key was missed, keys count as missed when any route changed since the
 * pass began, so that a later duplicate cannot overtake an earlier one.
 */
#include "store/core/table_drop.h"
#include "store/operation/resend.h"
#include "store/rows/rules.h"
#include "store/core/clock.h"
#include "store/core/key_counts.h"
#include "store/core/technique.h"
#include "store/core/tiered.h"
#include "store/rows/cut.h"
#include "store/rows/forget.h"

#include <math.h>

enum { BLOCK = 32, LINE = 64, LINES_AHEAD = 4 };

/* ---- misses ---- */

int tide__misses_reserve(struct tide__misses *misses, size_t count) {
    if (count > misses->capacity) {
        uint32_t *at = tide_alloc(count * sizeof *at);
        if (!at) {
            return tide_fail(TIDE_ENOMEM, "no memory to list %zu keys", count);
        }
        misses->at = at;
        misses->capacity = count;
    }
    return 0;
}

int tide__misses_add(struct tide__misses *misses, size_t position) {
    if (misses->count == misses->capacity) {
        bool small = misses->at == misses->small;
        size_t capacity = misses->capacity * 4;
        uint32_t *grown = tide_realloc(small ? NULL : misses->at, capacity * sizeof *grown);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory to list %zu keys of other nodes", misses->count);
        }
        if (small) {
            memcpy(grown, misses->small, sizeof misses->small);
        }
        misses->at = grown;
        misses->capacity = capacity;
    }
    misses->at[misses->count++] = (uint32_t)position;
    return 0;
}

/* ---- one block ---- */

struct block {
    size_t count;
    uint64_t keys[BLOCK];
    uint32_t positions[BLOCK];
    struct tide__slot *slots[BLOCK];
    atomic_uint_fast64_t *words[BLOCK]; /* dense; NULL: the slot was never touched */
};

static inline void prefetch_row(const struct tide_table *table, atomic_uint_fast64_t *at, size_t bytes) {
    uint64_t word = atomic_load_explicit(at, memory_order_acquire); /* the arena was set before the word's release */
    if (tide__word_state(word) == TIDE__OWNED) {
        const char *row = (const char *)tide__slab_row(&table->slab, (uint32_t)word);
        for (size_t line = 0; line < bytes && line < LINES_AHEAD * LINE; line += LINE) {
            __builtin_prefetch(row + line, 1);
        }
        __builtin_prefetch(row + bytes - 1, 1);
    }
}

static void gather(const struct tide__pass *pass, struct block *b, bool create) {
    struct tide_table *table = pass->table;
    size_t left = pass->count - pass->at;
    b->count = left < BLOCK ? left : BLOCK;
    for (size_t j = 0; j < b->count; j++) {
        uint32_t position = pass->index ? pass->index[pass->at + j] : (uint32_t)(pass->at + j);
        uint64_t key;
        memcpy(&key, (const char *)pass->keys + (size_t)position * sizeof key, sizeof key);
        struct tide__slot *slot = &table->slots[tide__slot_of(table, key)];
        __builtin_prefetch(slot);
        b->positions[j] = position;
        b->keys[j] = key;
        b->slots[j] = slot;
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return;
    }
    for (size_t j = 0; j < b->count; j++) {
        uint32_t number = (uint32_t)(b->slots[j] - table->slots);
        /* acquire: pairs with the release of tide__dense_words */
        atomic_uint_fast64_t *words = atomic_load_explicit(&b->slots[j]->index, memory_order_acquire);
        if (!words && create) {
            words = tide__dense_words(table, number);
        }
        b->words[j] = words ? words + tide__place_of(table, number, b->keys[j]) : NULL;
        if (left > 1) {
            __builtin_prefetch(b->words[j], 1);
        }
    }
    if (b->count > 1) {
        for (size_t j = 0; j < b->count; j++) {
            if (b->words[j]) {
                prefetch_row(table, b->words[j], table->row_floats * sizeof(float));
            }
        }
    }
}

static inline bool served(const struct tide__pass *pass, const struct tide__slot *slot) {
    /* acquire: pairs with the release of a route, so that `changes` below is at least as new */
    uint32_t route = atomic_load_explicit(&slot->route, memory_order_acquire);
    if (TIDE_UNLIKELY((route & pass->mask) != TIDE__MINE)) {
        return false;
    }
    return TIDE_LIKELY(pass->misses->count == 0) ||
           atomic_load_explicit(&pass->table->changes, memory_order_relaxed) == pass->changes;
}

static bool at_limit(const struct tide_table *table) {
    return table->options.key_limit && tide__rows_here(table) >= table->options.key_limit;
}

static int full(const struct tide_table *table) {
    return tide_fail(TIDE_EFULL, "table '%s' holds its limit of %llu keys on this node", table->name,
                     (unsigned long long)table->options.key_limit);
}

/*
 * The key's word, locked: FOUND; NOT_FOUND (pull: initial values, not locked); MISSED (served
 * elsewhere); REFUSED (push: dropped, the table forgets); EBUSY; ENOMEM.
 */
static inline __attribute__((always_inline)) int lock_key(const struct tide__pass *pass, const struct block *b,
                                                          size_t j, bool create, atomic_uint_fast64_t **word,
                                                          uint64_t *old) {
    if (!served(pass, b->slots[j])) {
        return TIDE__MISSED;
    }
    if (TIDE_UNLIKELY(pass->table->options.keys == TIDE_KEYS_HASHED)) {
        const unsigned how = !create                        ? TIDE__ENTRY_NONE
                             : tide__forget_of(pass->table) ? (pass->raw ? TIDE__ENTRY_MAKE : TIDE__ENTRY_ADMIT)
                             /* At the limit no entry is made either, or refused keys would fill the index. */
                             : at_limit(pass->table) ? TIDE__ENTRY_NONE
                                                     : TIDE__ENTRY_MAKE;
        return tide__hashed_lock(pass->table, b->keys[j], how, pass->mask, pass->patient, word, old);
    }
    *word = b->words[j];
    if (TIDE_UNLIKELY(!*word)) {
        if (create) {
            return tide_fail(TIDE_ENOMEM, "no memory for the index of table '%s'", pass->table->name);
        }
        return TIDE__NOT_FOUND;
    }
    if (!create) {
        /* acquire: a slot that comes back has its route set after its words */
        uint64_t seen = atomic_load_explicit(*word, memory_order_acquire);
        if (!(seen & (TIDE__WORD_STATE | TIDE__WORD_LOCK))) { /* ABSENT, and it is not made */
            return served(pass, b->slots[j]) ? TIDE__NOT_FOUND : TIDE__MISSED;
        }
    }
    if (tide__word_lock(*word, pass->patient, old)) {
        return TIDE_EBUSY;
    }
    if (TIDE_UNLIKELY(!served(pass, b->slots[j]))) {
        tide__word_unlock(*word, *old);
        return TIDE__MISSED;
    }
    return TIDE__FOUND;
}

/*
 * The same in a table that relocates: the owner of the key serves it, wherever its home is. FOUND
 * with a word that is not OWNED: at home, and never touched. MISSED: counted in the word,
 * so that the key cannot become the workers' before the store actor has seen this operation.
 */
static inline int lock_moving(const struct tide__pass *pass, const struct block *b, size_t j, bool create,
                              atomic_uint_fast64_t **word, uint64_t *old) {
    struct tide_table *table = pass->table;
    for (;;) {
        /* acquire: a slot that comes here has its route set after its words */
        uint32_t route = atomic_load_explicit(&b->slots[j]->route, memory_order_acquire);
        bool home = (route & pass->mask) == TIDE__MINE;
        int code = TIDE__FOUND;
        if (TIDE_UNLIKELY(table->options.keys == TIDE_KEYS_HASHED)) {
            bool make = home ? create && !at_limit(table) : pass->hands_over;
            code = tide__hashed_lock(table, b->keys[j], make, 0, pass->patient, word, old);
            if (code == TIDE__NOT_FOUND) {
                uint32_t now = atomic_load_explicit(&b->slots[j]->route, memory_order_acquire);
                if ((now & pass->mask) == TIDE__MINE) {
                    return code;
                }
                if (!pass->hands_over) {
                    return TIDE__MISSED;
                }
                continue;
            }
            if (code != TIDE__FOUND) {
                return code;
            }
        } else {
            *word = b->words[j];
            if (TIDE_UNLIKELY(!*word)) {
                return tide_fail(TIDE_ENOMEM, "no memory for the index of table '%s'", table->name);
            }
            if (tide__word_lock(*word, pass->patient, old)) {
                return TIDE_EBUSY;
            }
        }
        if (TIDE_LIKELY(tide__word_state(*old) == TIDE__OWNED)) {
            return TIDE__FOUND;
        }
        route = atomic_load_explicit(&b->slots[j]->route, memory_order_acquire); /* under the lock */
        if ((route & pass->mask) == TIDE__MINE && tide__word_state(*old) == TIDE__ABSENT && !(*old & TIDE__WORD_AWAY) &&
            (uint32_t)*old == 0 && !(create && tide__tier_full(table))) {
            return TIDE__FOUND;
        }
        if (!pass->hands_over) {
            tide__word_unlock(*word, *old);
            return TIDE__MISSED;
        }
        if (table->operations->hand_over(table, *word, *old)) {
            return TIDE__MISSED;
        }
        if (!tide_fiber_current()) { /* 65535 operations wait for this key */
            return tide_fail(TIDE_EBUSY, "too many operations wait for one key");
        }
        (void)tide_yield();
    }
}

typedef float float4 __attribute__((vector_size(16), aligned(1), may_alias));

static inline void copy_eight(float *to, const float *from) {
    float4 low = *(const float4 *)(const void *)from;
    float4 high = *(const float4 *)(const void *)(from + 4);
    *(float4 *)(void *)to = low;
    *(float4 *)(void *)(to + 4) = high;
}

static inline void copy_floats(float *to, const float *from, size_t count) {
    if (count < 8) {
        for (size_t i = 0; i < count; i++) {
            memcpy(to + i, from + i, sizeof *to);
        }
    } else if (count > 256) {
        memcpy(to, from, count * sizeof *to);
    } else {
        for (size_t i = 0; i + 8 <= count; i += 8) {
            copy_eight(to + i, from + i);
        }
        copy_eight(to + count - 8, from + count - 8); /* for a loop over the rest */
    }
}

static inline __attribute__((always_inline)) int pass_pull(struct tide__pass *pass, const bool moving,
                                                           const bool copied) {
    struct tide_table *table = pass->table;
    const size_t width = pass->raw ? table->row_floats : table->width;
    pass->changes = atomic_load_explicit(&table->changes, memory_order_acquire); /* see `served` */
    while (pass->at < pass->count) {
        struct block b;
        gather(pass, &b, moving);
        for (size_t j = 0; j < b.count; j++) {
            atomic_uint_fast64_t *word;
            uint64_t old = 0;
            float *out = pass->out + b.positions[j] * width;
            int code =
                moving ? lock_moving(pass, &b, j, false, &word, &old) : lock_key(pass, &b, j, false, &word, &old);
            if (copied && code > 0) {
                const uint32_t slot = (uint32_t)(b.slots[j] - table->slots);
                (void)table->operations->row_event(pass, TIDE__ROW_READ, slot, b.keys[j], NULL, NULL);
                if (code == TIDE__FOUND && tide__word_seen(old) && /* not at its copies yet */
                    table->options.durability == TIDE_DURABLE_STRICT) {
                    tide__word_unlock(word, old);
                    code = TIDE__MISSED;
                }
            }
            if (TIDE_LIKELY(code == TIDE__FOUND)) {
                if (TIDE_LIKELY(tide__word_state(old) == TIDE__OWNED)) {
                    if (TIDE_UNLIKELY(tide__forget_of(table))) {
                        tide__use_pull(table, tide__slab_row(&table->slab, (uint32_t)old));
                    }
                    copy_floats(out, tide__slab_row(&table->slab, (uint32_t)old), width);
                    tide__word_unlock(word, moving ? old | TIDE__WORD_TOUCHED : old);
                } else {
                    tide__word_unlock(word, old);
                    tide__row_init(&table->options, b.keys[j], out, pass->raw);
                }
            } else if (code == TIDE__NOT_FOUND) {
                tide__row_init(&table->options, b.keys[j], out, pass->raw);
            } else if (code != TIDE__MISSED || (code = tide__misses_add(pass->misses, b.positions[j])) != 0) {
                return code;
            }
            pass->at++;
        }
        tide__store_yield(table->store);
    }
    return 0;
}

int tide__pass_miss_all(struct tide__pass *pass) {
    int code = 0;
    pass->misses->count = 0;
    for (pass->at = 0; pass->at < pass->count && !code; pass->at++) {
        code = tide__misses_add(pass->misses, pass->index ? pass->index[pass->at] : pass->at);
    }
    return code;
}

/* A row for a locked word without one. */
static int make_row(struct tide_table *table, uint64_t key, uint64_t *old) {
    if (!tide__forget_of(table) && at_limit(table)) {
        return full(table);
    }
    uint32_t row;
    int code = tide__slab_take(&table->slab, &row);
    if (code) {
        return code;
    }
    if (!TIDE_MUTANT(evicted_row_returns)) {
        tide__row_init(&table->options, key, tide__slab_row(&table->slab, row), true);
    }
    if (TIDE_UNLIKELY(tide__forget_of(table))) {
        tide__use_begin(table, tide__slab_row(&table->slab, row), (uint32_t)*old);
    }
    *old = tide__word_owned(*old, row);
    tide__tier_made(table);
    return 0;
}

/* A row that came with its slot, see cut.h. */
static uint64_t arrived(struct tide__pass *pass, uint32_t position, uint64_t key, uint64_t word, const float *row) {
    uint32_t marks;
    const uint8_t *second = NULL;
    memcpy(&marks, pass->marks + position * sizeof marks, sizeof marks);
    if (marks & TIDE__MARK_SPLIT) {
        second = pass->seconds;
        pass->seconds += pass->table->row_floats * sizeof(float);
    }
    return tide__cut_arrive(pass->table, key, word, marks, row, second);
}

static inline __attribute__((always_inline)) int pass_push(struct tide__pass *pass, const bool moving,
                                                           const bool copied) {
    struct tide_table *table = pass->table;
    const size_t row_bytes = (pass->raw ? table->row_floats : table->width) * sizeof(float);
    const bool watches = table->operations->watches;
    pass->changes = atomic_load_explicit(&table->changes, memory_order_acquire); /* see `served` */
    while (pass->at < pass->count) {
        struct block b;
        gather(pass, &b, true);
        for (size_t j = 0; j < b.count; j++) {
            atomic_uint_fast64_t *word;
            uint64_t old = 0;
            int code = moving ? lock_moving(pass, &b, j, true, &word, &old) : lock_key(pass, &b, j, true, &word, &old);
            if (TIDE_LIKELY(code == TIDE__FOUND)) {
                uint64_t now = old;
                const bool made = tide__word_state(old) != TIDE__OWNED;
                if (TIDE_UNLIKELY(made)) {
                    code = make_row(table, b.keys[j], &now);
                    if (code < 0) {
                        tide__word_unlock(word, old);
                        return code;
                    }
                }
                if (copied) {
                    const uint32_t slot = (uint32_t)(b.slots[j] - table->slots);
                    code = table->operations->row_event(pass, TIDE__ROW_CHANGES, slot, b.keys[j], &now, NULL);
                }
                if (TIDE_UNLIKELY(code < 0)) {
                    tide__word_unlock(word, now);
                    return code;
                }
                float *row = tide__slab_row(&table->slab, (uint32_t)now);
                const uint8_t *delta = pass->in + b.positions[j] * row_bytes;
                if (TIDE_UNLIKELY(pass->marks)) {
                    memcpy(row, delta, row_bytes);
                    now = arrived(pass, b.positions[j], b.keys[j], now, row);
                    tide__word_unlock(word, now);
                    pass->at++;
                    continue;
                }
                tide__cut_push(table, b.keys[j], &now, row, made, pass->stamp, pass->raw ? NULL : delta);
                if (TIDE_UNLIKELY(pass->raw)) {
                    tide__row_put(table, row, delta, pass->flags);
                    if (TIDE_UNLIKELY(tide__forget_of(table)) &&
                        tide__use_of(table, row) == 0) { /* an assigned row has none */
                        tide__use_begin(table, row, 1);
                    }
                } else {
                    tide__rule_apply(&table->options, row, delta);
                    if (TIDE_UNLIKELY(tide__forget_of(table))) {
                        tide__use_push(table, row);
                    }
                }
                if (TIDE_UNLIKELY(watches) && (now & TIDE__WORD_WATCHED)) {
                    (void)table->operations->row_event(pass, TIDE__ROW_CHANGED, 0, b.keys[j], &now, delta);
                }
                tide__row_changes(table, b.keys[j], pass->changer, made);
                tide__word_unlock(word, moving ? now | TIDE__WORD_TOUCHED : now);
            } else if (code == TIDE__NOT_FOUND) {
                return full(table);
            } else if (code == TIDE__REFUSED) {
                tide__table_count(table, TIDE__NOT_ADMITTED, 1);
            } else if (code != TIDE__MISSED || (code = tide__misses_add(pass->misses, b.positions[j])) != 0) {
                return code;
            }
            pass->at++;
        }
        tide__store_yield(table->store);
    }
    return 0;
}

int tide__walk(struct tide__pass *pass, enum tide__kind kind) {
    return kind == TIDE__PULL ? pass_pull(pass, false, false) : pass_push(pass, false, false);
}

int tide__walk_owned(struct tide__pass *pass, enum tide__kind kind) {
    return kind == TIDE__PULL ? pass_pull(pass, true, false) : pass_push(pass, true, false);
}

int tide__walk_copied(struct tide__pass *pass, enum tide__kind kind) {
    return kind == TIDE__PULL ? pass_pull(pass, false, true) : pass_push(pass, false, true);
}

int tide__pass_pull(struct tide__pass *pass) {
    return pass->table->operations->walk(pass, TIDE__PULL);
}

int tide__pass_push(struct tide__pass *pass) {
    return pass->table->operations->walk(pass, TIDE__PUSH);
}

/* ---- calls ---- */

int tide__check_keys(const struct tide_table *table, const uint64_t *keys, size_t count) {
    if (TIDE_UNLIKELY(atomic_load_explicit(&table->closing, memory_order_relaxed))) {
        return tide__table_dropped(table);
    }
    if (count > UINT32_MAX / 2) {
        return tide_fail(TIDE_ELIMIT, "%zu keys in one call on table '%s'", count, table->name);
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        return 0;
    }
    const uint64_t limit = table->options.key_count;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad |= keys[i] >= limit;
    }
    for (size_t i = 0; bad && i < count; i++) {
        if (keys[i] >= limit) {
            return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s' (0..%llu)", (unsigned long long)keys[i],
                             table->name, (unsigned long long)(limit - 1));
        }
    }
    return 0;
}

/* Whether all numbers are finite, also where they arrive: a half-precision wire rounds large ones to infinity. */
static bool arrives_finite(const struct tide_table *table, const float *numbers, size_t count) {
    const float beyond_f16 = 65520, beyond_bf16 = 0x1.FFp127F; /* the least that is rounded so */
    if (table->options.wire == TIDE_WIRE_F32) {
        return tide__all_finite(numbers, count);
    }
    const float beyond = table->options.wire == TIDE_WIRE_F16 ? beyond_f16 : beyond_bf16;
    bool fits = true;
    for (size_t i = 0; i < count; i++) {
        fits &= fabsf(numbers[i]) < beyond; /* no NaN is */
    }
    return fits;
}

/* Counts rows with a NaN or infinity; ENAN where the table refuses them. */
static int check_rows(struct tide_table *table, const uint64_t *keys, size_t count, const float *rows) {
    if (TIDE_LIKELY(arrives_finite(table, rows, count * table->width))) {
        return 0;
    }
    uint64_t bad = 0;
    size_t first = 0;
    for (size_t i = count; i-- > 0;) {
        if (!arrives_finite(table, rows + i * table->width, table->width)) {
            bad++;
            first = i;
        }
    }
    tide__table_count(table, TIDE__NOT_FINITE, bad);
    if (table->options.refuse_nan) {
        return tide_fail(TIDE_ENAN, "the row pushed to key %llu of table '%s' has a NaN or infinity%s",
                         (unsigned long long)keys[first], table->name,
                         tide__all_finite(rows + first * table->width, table->width) ? " in the `wire` of the table"
                                                                                     : "");
    }
    return 0;
}

void tide__pass_take_back(const struct tide__pass *pass, const uint32_t *positions, size_t count) {
    const struct tide__operations *o = pass->table->operations;
    if (o->owners && pass->hands_over && count) {
        o->take_back(pass->table, pass->keys, positions, count);
    }
}

int tide__pass_run(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *t, bool wait, bool *sent) {
    struct tide_table *table = pass->table;
    struct tide__misses *misses = pass->misses;
    int code = kind == TIDE__PULL ? tide__pass_pull(pass) : tide__pass_push(pass);
    *sent = false;
    tide__table_count(table, kind == TIDE__PULL ? TIDE__PULLS_LOCAL : TIDE__PUSHES_LOCAL, pass->at - misses->count);
    if (code) {
        tide__pass_take_back(pass, misses->at, misses->count);
    } else if (misses->count) {
        code = tide__remote_start(pass, kind, t);
        *sent = code == 0;
        if (wait) {
            int result = tide__ticket_wait(t); /* also after an error: what was sent must not answer into our stack */
            code = code ? code : result;
        }
    }
    return code;
}

int tide__operation_enter(struct tide_table *table, enum tide__kind kind, bool raw, const uint64_t *keys, size_t count,
                          const float *in) {
    int code = tide__check_keys(table, keys, count);
    if (!code && kind == TIDE__PUSH && !raw) {
        code = check_rows(table, keys, count, in);
    }
    if (!code && TIDE_UNLIKELY(table->operations->enter)) {
        code = table->operations->enter(table, keys, count);
    }
    if (!code && kind == TIDE__PUSH && TIDE_UNLIKELY(tide_budget_counts(table->budget))) {
        const struct tide__pass whole = tide__pass_of_worker(table, keys, count, NULL, NULL, NULL);
        code = tide__memory_admit_rows(&whole);
    }
    if (!code) {
        tide__store_yield(table->store);
    }
    return code;
}

int tide__operate_plain(struct tide_table *table, enum tide__kind kind, bool raw, const uint64_t *keys, size_t count,
                        float *out, const float *in) {
    struct tide__ticket ticket;
    tide__ticket_init(&ticket, table, kind, out);
    int code = tide__operation_enter(table, kind, raw, keys, count, in);
    if (code) {
        return code;
    }
    bool sent;
    struct tide__misses misses;
    tide__misses_init(&misses);
    struct tide__pass pass = tide__pass_of_worker(table, keys, count, out, in, &misses);
    pass.raw = raw;
    pass.flags = raw ? TIDE__RAW : 0;
    pass.stamp = kind == TIDE__PUSH && !raw ? tide__push_stamp(table) : TIDE_NO_CLOCK;
    code = tide__pass_run(&pass, kind, &ticket, true, &sent);
    tide__misses_release(&misses);
    return code;
}
