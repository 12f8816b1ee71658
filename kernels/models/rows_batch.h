/*
 * What kernels share that pull the distinct rows of a mini-batch once and push what changed: a map
 * from keys to positions in the batch, and transfers that are in flight.
 */
#ifndef TIDE_KERNEL_ROWS_BATCH_H
#define TIDE_KERNEL_ROWS_BATCH_H

#include "base/base.h"
#include "kernel.h"

/* Key to index, emptied by counting up `now`. */
struct tide_key_index {
    uint64_t *keys;
    uint32_t *values, *stamps;
    uint32_t now;
    size_t mask;
};

/* For up to `most` keys at a time. ENOMEM; release in any case. */
static inline int tide_key_index_init(struct tide_key_index *index, size_t most) {
    size_t size = 16;
    while (size < 2 * most) {
        size *= 2;
    }
    index->mask = size - 1;
    index->now = 0;
    index->keys = tide_alloc(size * sizeof(*index->keys));
    index->values = tide_alloc(size * sizeof(*index->values));
    index->stamps = tide_alloc_zero(size, sizeof(*index->stamps));
    return index->keys && index->values && index->stamps ? 0 : TIDE_ENOMEM;
}

static inline void tide_key_index_release(struct tide_key_index *index) {
    tide_free(index->keys);
    tide_free(index->values);
    tide_free(index->stamps);
}

/* The index of `key`; a new key gets *count and is appended to `list`. */
static inline uint32_t tide_key_index_of(struct tide_key_index *index, uint64_t key, uint64_t *list, size_t *count) {
    size_t at = tide_mix64(key) & index->mask;
    while (index->stamps[at] == index->now) {
        if (index->keys[at] == key) {
            return index->values[at];
        }
        at = (at + 1) & index->mask;
    }
    index->stamps[at] = index->now;
    index->keys[at] = key;
    index->values[at] = (uint32_t)*count;
    list[(*count)++] = key;
    return index->values[at];
}

/* An asynchronous pull or push. */
struct tide_transfer {
    _Alignas(16) uint8_t handle[64];
    bool open;
    int (*wait)(void *handle);
    bool (*done)(const void *handle);
};

static inline int tide_transfer_wait(struct tide_transfer *transfers, size_t count) {
    int error = 0;
    for (size_t i = 0; i < count; i++) {
        if (transfers[i].open) {
            transfers[i].open = false;
            int code = transfers[i].wait(transfers[i].handle);
            error = error ? error : code;
        }
    }
    return error;
}

/* True: wait would not suspend. */
static inline bool tide_transfer_done(const struct tide_transfer *transfer) {
    return !transfer->open || transfer->done(transfer->handle);
}

static inline int tide_transfer_pull(struct tide_transfer *transfer, const struct tide_rows *rows, const uint64_t *keys,
                                     size_t count, float *values) {
    transfer->wait = rows->wait;
    transfer->done = rows->done;
    int error = rows->pull_start(rows->table, keys, count, values, transfer->handle);
    transfer->open = error == 0;
    return error;
}

/* Nothing, where rows stay. */
static inline int tide_transfer_localize(struct tide_transfer *transfer, const struct tide_rows *rows,
                                         const uint64_t *keys, size_t count) {
    transfer->wait = rows->wait;
    transfer->done = rows->done;
    int error = rows->localize_start ? rows->localize_start(rows->table, keys, count, transfer->handle) : 0;
    transfer->open = rows->localize_start && error == 0;
    return error;
}

static inline int tide_transfer_push(struct tide_transfer *transfer, const struct tide_rows *rows, const uint64_t *keys,
                                     size_t count, const float *values) {
    transfer->wait = rows->wait;
    transfer->done = rows->done;
    int error = rows->push_start(rows->table, keys, count, values, transfer->handle);
    transfer->open = error == 0;
    return error;
}

/* Room for rows, aligned to cache lines and with a margin for vectors that read past the end. Free it by
 * tide_workspace_free. */
static inline float *tide_batch_floats(size_t rows, size_t width) {
    return tide_workspace_alloc((rows * width + 16) * sizeof(float));
}

#endif
