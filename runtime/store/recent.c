/*
 * Which pushes a slot has had: the ids (origin, sequence) of those that were applied to it and may
 * come again. An origin repeats an operation until it is answered, and says with each message which
 * is the oldest it still waits for: ids below that low-water mark are dropped, so the memory is
 * that of what is unanswered in the cluster. A push below the mark is a straggler of an answered
 * one.
 *
 * An id stands for all keys that one message has in the slot: they are applied together. Ids go
 * where the rows go, with the marks they were pruned by.
 */
#include "store/replica.h"

enum { FIRST = 8, HIGHEST = 1 };

struct id {
    uint64_t sequence;
    uint16_t origin;
    uint16_t flags; /* HIGHEST: no earlier entry of the origin has a higher sequence */
};
struct tide__recent {
    uint32_t count, capacity;
    struct id ids[];
};

void tide__recent_low(struct tide_store *store, uint16_t origin, uint64_t low) {
    struct tide__replication *r = store->replication;
    if (origin < TIDE__NODES && r->low[origin] < low) {
        r->low[origin] = low;
        r->origins = origin >= r->origins ? origin + 1u : r->origins;
    }
}

enum tide__id_state tide__recent_look(const struct tide_table *table, uint32_t slot,
                                      uint16_t origin, uint64_t sequence) {
    const struct tide__recent *recent = table->replicas->recent[slot];
    if (TIDE_MUTANT(no_id_check)) {
        return TIDE__ID_FRESH;
    }
    if (origin >= TIDE__NODES || sequence < table->store->replication->low[origin]) {
        return TIDE__ID_OVER;
    }
    for (uint32_t i = recent ? recent->count : 0; i-- > 0;) {
        const struct id *id = &recent->ids[i];
        if (id->origin != origin) {
            continue;
        }
        if (id->sequence == sequence) {
            return TIDE__ID_KNOWN;
        }
        if ((id->flags & HIGHEST) && id->sequence < sequence) {
            break; /* and so are all before it */
        }
    }
    return TIDE__ID_FRESH;
}

static void prune(struct tide_store *store, struct tide__recent *recent) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < recent->count; i++) {
        if (recent->ids[i].sequence >= store->replication->low[recent->ids[i].origin]) {
            recent->ids[kept++] = recent->ids[i];
        }
    }
    recent->count = kept;
}

static int grow(struct tide_table *table, uint32_t slot, uint32_t capacity) {
    struct tide__recent *old = table->replicas->recent[slot];
    struct tide__recent *grown = tide_realloc(old, sizeof *grown + capacity * sizeof grown->ids[0]);
    if (!grown) {
        return tide_fail(TIDE_ENOMEM, "no memory for operation ids of table '%s'", table->name);
    }
    grown->count = old ? grown->count : 0;
    grown->capacity = capacity;
    table->replicas->recent[slot] = grown;
    return 0;
}

int tide__recent_reserve(struct tide_table *table, uint32_t slot) {
    struct tide__recent *recent = table->replicas->recent[slot];
    if (recent && recent->count == recent->capacity) {
        prune(table->store, recent);
    }
    if (recent && recent->count <= recent->capacity / 2) {
        return 0;
    }
    return recent && recent->count < recent->capacity
               ? 0
               : grow(table, slot, recent ? recent->capacity * 2 : FIRST);
}

void tide__recent_add(struct tide_table *table, uint32_t slot, uint16_t origin, uint64_t sequence) {
    struct tide__recent *recent = table->replicas->recent[slot];
    TIDE_ASSERT(recent && recent->count < recent->capacity);
    bool highest = true;
    for (uint32_t i = recent->count; i-- > 0;) {
        const struct id *id = &recent->ids[i];
        if (id->origin == origin && (id->flags & HIGHEST)) {
            highest = id->sequence < sequence;
            break;
        }
    }
    recent->ids[recent->count++] =
        (struct id){.sequence = sequence, .origin = origin, .flags = highest ? HIGHEST : 0};
}

void tide__recent_write(const struct tide_table *table, uint32_t slot, struct tide_writer *w) {
    struct tide__recent *recent = table->replicas->recent[slot];
    if (recent) {
        prune(table->store, recent);
    }
    const size_t count = recent ? recent->count : 0;
    tide_write_typed_head(w, TIDE_U64, 2 * count);
    uint8_t *ids = tide_write_reserve(w, 2 * count * 8);
    for (size_t i = 0; ids && i < count; i++) {
        const uint64_t pair[2] = {recent->ids[i].origin, recent->ids[i].sequence};
        memcpy(ids + i * sizeof pair, pair, sizeof pair);
    }
    tide_write_typed_head(w, TIDE_U64, 2 * count);
    uint8_t *lows = tide_write_reserve(w, 2 * count * 8);
    for (size_t i = 0; lows && i < count; i++) {
        const uint16_t origin = recent->ids[i].origin;
        const uint64_t pair[2] = {origin, table->store->replication->low[origin]};
        memcpy(lows + i * sizeof pair, pair, sizeof pair);
    }
}

int tide__recent_read(struct tide_table *table, uint32_t slot, struct tide_reader *r) {
    size_t count = 0, lows_count = 0;
    const uint8_t *ids = tide_read_typed(r, TIDE_U64, &count);
    const uint8_t *lows = tide_read_typed(r, TIDE_U64, &lows_count);
    if (r->error || count % 2 || lows_count % 2 || count > UINT32_MAX / 2) {
        return tide_fail(TIDE_EPROTO, "damaged operation ids");
    }
    tide__recent_drop(table, slot);
    int code = grow(table, slot, (uint32_t)(count / 2) + FIRST);
    for (size_t i = 0; i < lows_count / 2 && !code; i++) {
        uint64_t pair[2];
        memcpy(pair, lows + i * sizeof pair, sizeof pair);
        tide__recent_low(table->store, pair[0] < TIDE__NODES ? (uint16_t)pair[0] : UINT16_MAX,
                         pair[1]);
    }
    for (size_t i = 0; i < count / 2 && !code; i++) {
        uint64_t pair[2];
        memcpy(pair, ids + i * sizeof pair, sizeof pair);
        if (pair[0] < TIDE__NODES) {
            tide__recent_add(table, slot, (uint16_t)pair[0], pair[1]);
        }
    }
    return code;
}

uint64_t *tide__recent_lows(const struct tide_store *store, uint32_t *count) {
    const uint64_t *low = store->replication->low;
    uint32_t found = 0;
    *count = 0;
    const uint32_t origins = store->replication->origins;
    for (uint32_t origin = 0; origin < origins; origin++) {
        found += low[origin] != 0;
    }
    uint64_t *pairs = found ? tide_alloc(2 * found * sizeof *pairs) : NULL;
    for (uint32_t origin = 0; pairs && origin < origins; origin++) {
        if (low[origin]) {
            pairs[2 * *count] = origin;
            pairs[2 * *count + 1] = low[origin];
            ++*count;
        }
    }
    return pairs;
}

void tide__recent_drop(struct tide_table *table, uint32_t slot) {
    tide_free(table->replicas->recent[slot]);
    table->replicas->recent[slot] = NULL;
}
