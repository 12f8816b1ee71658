/* Requests for rows, by a worker or on an intent, and where rows are. A look at what is here costs no message. */
#include "store/adaptive/hot_keys.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/owner.h"

enum { BLOCK = 32 };

/* Which of the keys from..end - 1 are not owned: what is (a look without a lock) costs no message.
 */
static void look(struct tide_table *table, bool shared, const uint64_t *keys, size_t from, size_t end,
                 struct tide__misses *misses) {
    atomic_uint_fast64_t *at[BLOCK];
    for (size_t i = from; i < end; i++) {
        const uint32_t slot = tide__slot_of(table, keys[i]);
        atomic_uint_fast64_t *words = table->options.keys == TIDE_KEYS_DENSE
                                          ? atomic_load_explicit(&table->slots[slot].index, memory_order_acquire)
                                          : NULL;
        at[i - from] = words ? words + tide__place_of(table, slot, keys[i]) : NULL;
        __builtin_prefetch(at[i - from]);
    }
    for (size_t i = from; i < end; i++) {
        const uint64_t word = at[i - from] ? atomic_load_explicit(at[i - from], memory_order_acquire) : 0;
        if (tide__word_state(word) != TIDE__OWNED && !(shared && tide__hot_stays(table, keys[i]))) {
            misses->at[misses->count++] = (uint32_t)i;
        }
    }
}

int tide_table_localize(struct tide_table *table, const uint64_t *keys, size_t key_count, struct tide_ticket *ticket) {
    struct tide__ticket waited, *t = ticket ? (struct tide__ticket *)(void *)ticket : &waited;
    tide__ticket_init(t, table, TIDE__LOCALIZE, NULL);
    int code = tide__check_keys(table, keys, key_count);
    if (code || key_count == 0) {
        return code;
    }
    const bool moves = tide_technique_relocates(table->options.technique);
    if (!table->operations->owners ||
        (!moves && !tide__tiered_of(table))) { /* with a tier: rows at home here come to memory */
        tide__table_count(table, TIDE__LOCALIZE_NOOP, key_count);
        return 0;
    }
    tide__store_yield(table->store);
    const bool shared = tide__hot_of(table);
    struct tide__misses misses;
    tide__misses_init(&misses);
    code = tide__misses_reserve(&misses, key_count);
    for (size_t i = 0; i < key_count && !code; i += BLOCK) {
        look(table, shared, keys, i, key_count - i < BLOCK ? key_count : i + BLOCK, &misses);
    }
    tide__table_count(table, TIDE__LOCALIZED, key_count);
    if (!code && misses.count && moves && tide_budget_tier(&table->store->budget) >= TIDE_TIER_NARROW) {
        code = tide__memory_refuse(table->store, tide__store_self(table->store),
                                   "no rows come here that could be elsewhere");
    }
    if (!code && misses.count) {
        struct tide__pass pass = {.table = table, .keys = keys, .count = key_count, .misses = &misses};
        code = tide__remote_start(&pass, TIDE__LOCALIZE, t);
        if (!ticket) {
            int result = tide__ticket_wait(t);
            code = code ? code : result;
        }
    }
    tide__misses_release(&misses);
    return code;
}

int tide__table_intended(struct tide_table *table, const uint64_t *keys, size_t count, struct tide_ticket *ticket) {
    struct tide__ticket *t = (struct tide__ticket *)(void *)ticket;
    struct tide__misses misses;
    tide__ticket_init(t, table, TIDE__LOCALIZE, NULL);
    tide__misses_init(&misses);
    int code = tide__misses_reserve(&misses, count);
    for (size_t i = 0; i < count && !code; i++) {
        misses.at[misses.count++] = (uint32_t)i;
    }
    if (!code) {
        struct tide__pass pass = {
            .table = table, .keys = keys, .count = count, .flags = TIDE__INTENDED, .misses = &misses};
        code = tide__remote_start(&pass, TIDE__LOCALIZE, t);
    }
    tide__misses_release(&misses);
    return code;
}

int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node) {
    if (table->options.keys == TIDE_KEYS_DENSE && key >= table->options.key_count) {
        return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s' (0..%llu)", (unsigned long long)key, table->name,
                         (unsigned long long)(table->options.key_count - 1));
    }
    const struct tide__slot *slot = &table->slots[tide__slot_of(table, key)];
    *node = table->operations->owners ? tide__owner_of(table, key)
                                      : tide__route_home(atomic_load_explicit(&slot->route, memory_order_relaxed));
    return 0;
}
