/*
 * The state of the control store: a sorted array of keys with their values, changed by entries. A
 * few keys a node and a table, changed by decisions of the controller: simplicity counts, not
 * speed.
 */
#include "control/control.h"

#include <string.h>

void tide_control_state_release(struct tide_control_state *state) {
    for (size_t i = 0; i < state->count; i++) {
        tide_free(state->pairs[i].key);
        tide_free(state->pairs[i].value);
    }
    tide_free(state->pairs);
    *state = (struct tide_control_state){0};
}

/* Of the first key that is not below `key`. */
static size_t position(const struct tide_control_state *state, const char *key) {
    size_t low = 0, high = state->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(state->pairs[middle].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct tide_control_pair *tide_control_get(const struct tide_control_state *state, const char *key) {
    size_t at = position(state, key);
    return at < state->count && strcmp(state->pairs[at].key, key) == 0 ? &state->pairs[at] : NULL;
}

const struct tide_control_pair *tide_control_list(const struct tide_control_state *state, const char *prefix,
                                                  const struct tide_control_pair *last) {
    size_t at = last ? (size_t)(last - state->pairs) + 1 : position(state, prefix);
    bool found = at < state->count && strncmp(state->pairs[at].key, prefix, strlen(prefix)) == 0;
    return found ? &state->pairs[at] : NULL;
}

static void remove_at(struct tide_control_state *state, size_t at) {
    struct tide_control_pair *pair = &state->pairs[at];
    state->bytes -= pair->size + strlen(pair->key);
    tide_free(pair->key);
    tide_free(pair->value);
    state->count--;
    memmove(pair, pair + 1, (state->count - at) * sizeof *pair);
}

/* Keys ascend, and `bytes` is what they and their values have. */
static bool is_whole(const struct tide_control_state *state) {
    size_t bytes = 0;
    bool sorted = true;
    for (size_t i = 0; i < state->count; i++) {
        sorted = sorted && (i == 0 || strcmp(state->pairs[i - 1].key, state->pairs[i].key) < 0);
        bytes += state->pairs[i].size + strlen(state->pairs[i].key);
    }
    return sorted && bytes == state->bytes && state->count <= state->capacity;
}

static int make_room(struct tide_control_state *state) {
    if (state->count < state->capacity) {
        return 0;
    }
    size_t capacity = state->capacity == 0 ? 16 : 2 * state->capacity;
    struct tide_control_pair *grown = tide_realloc(state->pairs, capacity * sizeof *grown);
    if (!grown) {
        return TIDE_ENOMEM;
    }
    state->pairs = grown;
    state->capacity = capacity;
    return 0;
}

static int set(struct tide_control_state *state, const char *key, const void *value, size_t size) {
    size_t at = position(state, key);
    bool there = at < state->count && strcmp(state->pairs[at].key, key) == 0;
    if (!value) {
        if (there) {
            remove_at(state, at);
        }
        return 0;
    }
    void *copy = tide_alloc(size + 1);
    char *name = there ? state->pairs[at].key : tide_strdup(key);
    if (!copy || !name || (!there && make_room(state) != 0)) {
        tide_free(copy);
        if (!there) {
            tide_free(name);
        }
        return TIDE_ENOMEM;
    }
    memcpy(copy, value, size);
    struct tide_control_pair *pair = &state->pairs[at];
    if (there) {
        state->bytes -= pair->size;
        tide_free(pair->value);
    } else {
        memmove(pair + 1, pair, (state->count - at) * sizeof *pair);
        state->count++;
        state->bytes += strlen(key);
    }
    *pair = (struct tide_control_pair){.key = name, .value = copy, .size = size};
    state->bytes += size;
    return 0;
}

/* ---- entries ---- */

void tide_control_entry_write(struct tide_writer *w, uint64_t term, uint64_t index, const struct tide_control_put *puts,
                              size_t count) {
    tide_write_array(w, 2 + 2 * count);
    tide_write_uint(w, term);
    tide_write_uint(w, index);
    for (size_t i = 0; i < count; i++) {
        TIDE_ASSERT(strlen(puts[i].key) < TIDE_CONTROL_KEY_MAX);
        tide_write_text(w, puts[i].key);
        if (!puts[i].value) {
            tide_write_nil(w);
        } else {
            tide_write_binary(w, puts[i].value, puts[i].size);
        }
    }
}

void tide_control_snapshot_write(struct tide_writer *w, const struct tide_control_state *state) {
    tide_write_array(w, 2 + 2 * state->count);
    tide_write_uint(w, state->term);
    tide_write_uint(w, state->index);
    for (size_t i = 0; i < state->count; i++) {
        tide_write_text(w, state->pairs[i].key);
        tide_write_binary(w, state->pairs[i].value, state->pairs[i].size);
    }
}

struct pairs {
    struct tide_reader reader;
    char key[TIDE_CONTROL_KEY_MAX];
    const void *value;
    size_t size, left;
};

/* False: no more, or damaged. */
static bool next_pair(struct pairs *p) {
    if (p->left == 0 || p->reader.error != 0) {
        return false;
    }
    p->left--;
    tide_read_text(&p->reader, p->key, sizeof p->key);
    p->value = NULL;
    p->size = 0;
    if (!tide_read_nil(&p->reader)) {
        p->value = tide_read_binary(&p->reader, &p->size);
    }
    if (p->reader.error == 0 && (p->key[0] == 0 || p->size > TIDE_CONTROL_VALUE_MAX)) {
        p->reader.error = TIDE_EPROTO;
    }
    return p->reader.error == 0;
}

/* Opens an entry and looks through all of it, so that half of a damaged one is never applied. */
static int open_entry(struct pairs *p, const void *entry, size_t size, uint64_t *term, uint64_t *index) {
    *p = (struct pairs){0};
    tide_reader_init(&p->reader, entry, size);
    size_t fields = tide_read_array(&p->reader);
    *term = tide_read_uint(&p->reader);
    *index = tide_read_uint(&p->reader);
    if (p->reader.error != 0 || fields < 2 || fields % 2 != 0) {
        return tide_fail(TIDE_EPROTO, "no entry of a control store");
    }
    p->left = (fields - 2) / 2;
    struct pairs look = *p;
    size_t bytes = 0;
    while (next_pair(&look)) {
        bytes += look.size + strlen(look.key);
    }
    if (look.reader.error != 0 || look.reader.at != look.reader.end) {
        return tide_fail(TIDE_EPROTO, "a damaged entry of a control store");
    }
    return bytes > TIDE_CONTROL_STATE_MAX ? tide_fail(TIDE_ELIMIT, "an entry of %zu bytes in a control store", bytes)
                                          : 0;
}

static int apply_pairs(struct tide_control_state *state, struct pairs *p) {
    while (next_pair(p)) {
        if (state->bytes + p->size > TIDE_CONTROL_STATE_MAX) {
            return tide_fail(TIDE_ELIMIT, "a control store of more than %d MiB", TIDE_CONTROL_STATE_MAX >> 20);
        }
        int error = set(state, p->key, p->value, p->size);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int tide_control_apply(struct tide_control_state *state, const void *entry, size_t size) {
    struct pairs p;
    uint64_t term, index;
    int error = open_entry(&p, entry, size, &term, &index);
    if (error != 0) {
        return error;
    }
    if ((index != state->index + 1 && !TIDE_MUTANT(entry_skipped)) || term < state->term || term == 0) {
        return tide_fail(TIDE_EPROTO, "entry %llu of term %llu after entry %llu of term %llu",
                         (unsigned long long)index, (unsigned long long)term, (unsigned long long)state->index,
                         (unsigned long long)state->term);
    }
    error = apply_pairs(state, &p);
    if (error == 0) {
        state->term = term;
        state->index = index;
    }
    TIDE_INVARIANT(is_whole(state));
    return error;
}

int tide_control_restore(struct tide_control_state *state, const void *snapshot, size_t size) {
    struct pairs p;
    struct tide_control_state fresh = {0};
    int error = open_entry(&p, snapshot, size, &fresh.term, &fresh.index);
    error = error != 0 ? error : apply_pairs(&fresh, &p);
    if (error != 0) {
        tide_control_state_release(&fresh);
        return error;
    }
    tide_control_state_release(state);
    *state = fresh;
    TIDE_INVARIANT(is_whole(state));
    return 0;
}
