/* See gone.h. Sorted by key, and of one key the latest place only. */
#include "store/checkpoint/gone.h"

#include <stdlib.h>

enum { KEYS_AT_ONCE = 1024 };

int tide__gone_each(const struct tide__saved *s, int (*each)(void *arg, const uint64_t *keys, size_t count),
                    void *arg) {
    const struct tide_safetensor *t = tide_safetensors_find(&s->header, "gone");
    int code = t && (t->dtype != TIDE_DTYPE_U64 || t->rank != 1)
                   ? tide_fail(TIDE_EPROTO, "'%s': tensor 'gone' is not U64 of one dimension", s->path)
                   : 0;
    for (uint64_t i = 0; t && !code && i < t->shape[0]; i += KEYS_AT_ONCE) {
        uint64_t keys[KEYS_AT_ONCE];
        const size_t count = t->shape[0] - i < KEYS_AT_ONCE ? (size_t)(t->shape[0] - i) : KEYS_AT_ONCE;
        code = tide__saved_bytes(s, keys, count * sizeof *keys, s->header.data + t->begin + i * sizeof *keys);
        code = code ? code : each(arg, keys, count);
    }
    return code;
}

struct adding {
    struct tide__gone *gone;
    uint64_t place;
};

static int add(void *arg, const uint64_t *keys, size_t count) {
    const struct adding *adding = arg;
    struct tide__gone *gone = adding->gone;
    if (gone->count + count > gone->capacity) {
        const size_t capacity = (gone->count + count) * 2;
        struct tide__gone_key *at = tide_realloc(gone->at, capacity * sizeof *at);
        if (!at) {
            return tide_fail(TIDE_ENOMEM, "no memory for %zu keys that are gone", gone->count + count);
        }
        gone->at = at;
        gone->capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) {
        gone->at[gone->count++] = (struct tide__gone_key){keys[i], adding->place};
    }
    return 0;
}

int tide__gone_read(struct tide__gone *gone, struct tide_port *port, const char *path, uint64_t place) {
    struct adding adding = {gone, place};
    struct tide__saved saved;
    int code = tide__saved_open(port, path, &saved);
    if (!code) {
        code = tide__gone_each(&saved, add, &adding);
        tide__saved_close(&saved);
    }
    return code;
}

static int compare(const void *a, const void *b) {
    const struct tide__gone_key *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->place < y->place ? -1 : x->place > y->place;
}

void tide__gone_sort(struct tide__gone *gone) {
    size_t kept = 0;
    if (gone->count) {
        qsort(gone->at, gone->count, sizeof *gone->at, compare);
    }
    for (size_t i = 0; i < gone->count; i++) {
        if (i + 1 == gone->count || gone->at[i + 1].key != gone->at[i].key) {
            gone->at[kept++] = gone->at[i];
        }
    }
    gone->count = kept;
}

bool tide__gone_after(const struct tide__gone *gone, uint64_t key, uint64_t place) {
    size_t low = 0, high = gone->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (gone->at[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < gone->count && gone->at[low].key == key && gone->at[low].place > place;
}

void tide__gone_release(struct tide__gone *gone) {
    tide_free(gone->at);
    *gone = (struct tide__gone){0};
}
