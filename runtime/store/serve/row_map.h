/* Rows by key, filled once and then only read: open addressing, at most three quarters full, rows behind each other. */
#ifndef TIDE_STORE_ROW_MAP_H
#define TIDE_STORE_ROW_MAP_H

#include "base/base.h"

enum { TIDE__MAP_NONE, TIDE__MAP_GONE, TIDE__MAP_ROW };
struct tide__row_map {
    atomic_uint refs; /* versions that have it */
    uint32_t width;
    size_t capacity, used; /* places; of them in use */
    size_t live;           /* keys with a row */
    size_t rows, room;     /* rows, also of keys that are gone since; how many there is memory for */
    uint64_t *keys;
    uint32_t *at; /* 0: free; 1: the key is gone; else 2 + its row */
    float *values;
};
struct tide__row_map *tide__row_map_create(uint32_t width); /* NULL: out of memory; one reference */
void tide__row_map_unref(struct tide__row_map *map);        /* may be NULL */
/* The key has this row from now on; NULL: it is gone. ENOMEM. */
int tide__row_map_put(struct tide__row_map *map, uint64_t key, const float *row);
/* TIDE__MAP_...; *row is set for a row. */
int tide__row_map_get(const struct tide__row_map *map, uint64_t key, const float **row);
/* Puts all rows of `from`, except of keys that `except` has (NULL: none); `gone`: and what is gone. ENOMEM. */
int tide__row_map_add(struct tide__row_map *map, const struct tide__row_map *from, const struct tide__row_map *except,
                      bool gone);
/* A copy, deleted keys and their rows included: no key is hashed. NULL: out of memory. One reference. */
struct tide__row_map *tide__row_map_clone(const struct tide__row_map *from);
uint64_t tide__row_map_bytes(const struct tide__row_map *map);

#endif
