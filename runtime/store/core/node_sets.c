/* See node_sets.h. */
#include "store/core/node_sets.h"

#include <string.h>

void tide__node_sets_free(struct tide__node_sets *sets) {
    for (uint32_t i = 0; i < sets->capacity; i++) {
        tide_free(sets->places[i].nodes);
    }
    tide_free(sets->places);
    *sets = (struct tide__node_sets){0};
}

static struct tide__node_set *place_of(const struct tide__node_sets *sets, uint64_t key) {
    uint32_t i = (uint32_t)tide_mix64(key) & (sets->capacity - 1);
    while (sets->places[i].nodes && sets->places[i].key != key) {
        i = (i + 1) & (sets->capacity - 1);
    }
    return &sets->places[i];
}

struct tide__node_set *tide__node_set_find(const struct tide__node_sets *sets, uint64_t key) {
    struct tide__node_set *set = sets->capacity ? place_of(sets, key) : NULL;
    return set && set->nodes ? set : NULL;
}

static int grow(struct tide__node_sets *sets) {
    const struct tide__node_sets old = *sets;
    const uint32_t capacity = old.capacity ? old.capacity * 2 : 256;
    struct tide__node_set *places = tide_alloc_zero(capacity, sizeof *places);
    if (!places) {
        return TIDE_ENOMEM;
    }
    sets->places = places;
    sets->capacity = capacity;
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.places[i].nodes) {
            *place_of(sets, old.places[i].key) = old.places[i];
        }
    }
    tide_free(old.places);
    return 0;
}

struct tide__node_set *tide__node_set_add(struct tide__node_sets *sets, uint64_t key, uint16_t node) {
    if ((sets->count + 1) * 2 > sets->capacity && grow(sets)) {
        return NULL;
    }
    struct tide__node_set *set = place_of(sets, key);
    if (set->count == set->capacity) {
        const unsigned capacity = set->capacity ? set->capacity * 2u : 4u;
        uint16_t *nodes = tide_realloc(set->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            return NULL;
        }
        sets->count += !set->nodes;
        set->key = key;
        set->nodes = nodes;
        set->capacity = (uint16_t)capacity;
    }
    set->nodes[set->count++] = node;
    return set;
}

int tide__node_set_at(const struct tide__node_set *set, uint16_t node) {
    for (unsigned i = 0; i < set->count; i++) {
        if (set->nodes[i] == node) {
            return (int)i;
        }
    }
    return -1;
}

void tide__node_set_drop(struct tide__node_sets *sets, struct tide__node_set *set) {
    const uint32_t mask = sets->capacity - 1;
    uint32_t gap = (uint32_t)(set - sets->places);
    tide_free(set->nodes);
    /* Those behind move up, so that none is hidden by the gap. */
    for (uint32_t i = (gap + 1) & mask; sets->places[i].nodes; i = (i + 1) & mask) {
        const uint32_t wanted = (uint32_t)tide_mix64(sets->places[i].key) & mask;
        if (((i - wanted) & mask) >= ((i - gap) & mask)) {
            sets->places[gap] = sets->places[i];
            gap = i;
        }
    }
    sets->places[gap] = (struct tide__node_set){0};
    sets->count--;
}
