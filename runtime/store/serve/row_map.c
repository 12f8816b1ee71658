#include "store/serve/row_map.h"

#include <string.h>

enum { PLACES_FIRST = 64, FREE = 0, GONE = 1, ROW = 2 };

struct tide__row_map *tide__row_map_create(uint32_t width) {
    struct tide__row_map *map = tide_alloc_zero(1, sizeof *map);
    if (map) {
        atomic_init(&map->refs, 1);
        map->width = width;
    }
    return map;
}

void tide__row_map_unref(struct tide__row_map *map) {
    /* acq_rel: the one that frees it comes after all others */
    if (map && atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) == 1) {
        tide_free(map->keys);
        tide_free(map->at);
        tide_free(map->values);
        tide_free(map);
    }
}

static size_t place_of(const struct tide__row_map *map, uint64_t key) {
    size_t i = tide_mix64(key) & (map->capacity - 1);
    while (map->at[i] != FREE && map->keys[i] != key) {
        i = (i + 1) & (map->capacity - 1);
    }
    return i;
}

static int grow_places(struct tide__row_map *map) {
    struct tide__row_map old = {.keys = map->keys, .at = map->at, .capacity = map->capacity};
    const size_t capacity = old.capacity ? 2 * old.capacity : PLACES_FIRST;
    uint64_t *keys = tide_alloc(capacity * sizeof *keys);
    uint32_t *at = tide_alloc_zero(capacity, sizeof *at);
    if (!keys || !at) {
        tide_free(keys);
        tide_free(at);
        return TIDE_ENOMEM;
    }
    map->keys = keys;
    map->at = at;
    map->capacity = capacity;
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.at[i] != FREE) {
            const size_t to = place_of(map, old.keys[i]);
            map->keys[to] = old.keys[i];
            map->at[to] = old.at[i];
        }
    }
    tide_free(old.keys);
    tide_free(old.at);
    return 0;
}

static int grow_rows(struct tide__row_map *map) {
    const size_t room = map->room ? map->room + map->room / 2 : PLACES_FIRST;
    float *values = room < UINT32_MAX - ROW ? tide_realloc(map->values, room * map->width * sizeof *values) : NULL;
    if (!values) {
        return TIDE_ENOMEM;
    }
    map->values = values;
    map->room = room;
    return 0;
}

int tide__row_map_put(struct tide__row_map *map, uint64_t key, const float *row) {
    int code = (map->used + 1) * 4 > map->capacity * 3 ? grow_places(map) : 0;
    code = code || map->rows < map->room || !row ? code : grow_rows(map);
    if (code) {
        return tide_fail(code, "no memory for the rows of a reader");
    }
    const size_t i = place_of(map, key);
    map->used += map->at[i] == FREE;
    map->keys[i] = key;
    map->live -= map->at[i] >= ROW;
    map->live += row != NULL;
    if (!row) {
        map->at[i] = GONE; /* its row, if it had one, stays unused */
        return 0;
    }
    if (map->at[i] < ROW) {
        map->at[i] = ROW + (uint32_t)map->rows++;
    }
    memcpy(map->values + (size_t)(map->at[i] - ROW) * map->width, row, map->width * sizeof *row);
    return 0;
}

int tide__row_map_get(const struct tide__row_map *map, uint64_t key, const float **row) {
    const size_t i = map && map->capacity ? place_of(map, key) : 0;
    if (!map || !map->capacity || map->at[i] == FREE) {
        return TIDE__MAP_NONE;
    }
    if (map->at[i] == GONE) {
        return TIDE__MAP_GONE;
    }
    *row = map->values + (size_t)(map->at[i] - ROW) * map->width;
    return TIDE__MAP_ROW;
}

int tide__row_map_add(struct tide__row_map *map, const struct tide__row_map *from, const struct tide__row_map *except,
                      bool gone) {
    int code = 0;
    for (size_t i = 0; from && i < from->capacity && !code; i++) {
        const float *row = NULL;
        if (from->at[i] == FREE || (from->at[i] == GONE && !gone) ||
            tide__row_map_get(except, from->keys[i], &row) != TIDE__MAP_NONE) {
            continue;
        }
        row = from->at[i] == GONE ? NULL : from->values + (size_t)(from->at[i] - ROW) * map->width;
        code = tide__row_map_put(map, from->keys[i], row);
    }
    return code;
}

struct tide__row_map *tide__row_map_clone(const struct tide__row_map *from) {
    struct tide__row_map *map = tide__row_map_create(from->width);
    const size_t row_bytes = from->width * sizeof *from->values;
    if (!map || !from->capacity) {
        return map;
    }
    map->keys = tide_alloc(from->capacity * sizeof *map->keys);
    map->at = tide_alloc(from->capacity * sizeof *map->at);
    map->values = tide_alloc((from->room ? from->room : 1) * row_bytes);
    if (!map->keys || !map->at || !map->values) {
        tide__row_map_unref(map);
        return NULL;
    }
    memcpy(map->keys, from->keys, from->capacity * sizeof *map->keys);
    memcpy(map->at, from->at, from->capacity * sizeof *map->at);
    if (from->rows > 0) {
        memcpy(map->values, from->values, from->rows * row_bytes);
    }
    map->capacity = from->capacity;
    map->used = from->used;
    map->live = from->live;
    map->rows = from->rows;
    map->room = from->room;
    return map;
}

uint64_t tide__row_map_bytes(const struct tide__row_map *map) {
    return map ? sizeof *map + map->capacity * (sizeof *map->keys + sizeof *map->at) +
                     map->room * map->width * sizeof *map->values
               : 0;
}
