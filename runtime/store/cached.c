/* The algebra of copies; see cached.h. */
#include "store/cached.h"

struct tide__cached_shape tide__cached_shape(const struct tide_table_options *options) {
    bool steps = options->update == TIDE_UPDATE_ADAGRAD && options->consistency.model != TIDE_BSP;
    uint32_t sums = steps ? options->width : 0;
    return (struct tide__cached_shape){.options = options, .floats = options->width + sums};
}

size_t tide__cached_bytes(const struct tide__cached_shape *shape) {
    size_t bytes = sizeof(struct tide__cached) + 2 * shape->floats * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

void tide__cached_init(const struct tide__cached_shape *shape, struct tide__cached *r,
                        uint64_t key) {
    memset(r, 0, tide__cached_bytes(shape));
    atomic_store_explicit(&r->key, key, memory_order_relaxed);
    atomic_store_explicit(&r->in_use, true, memory_order_release); /* pairs with the evictor */
}

static void confirm(struct tide__cached *r, uint64_t number) {
    while (r->sent && r->sent->number <= number) {
        struct tide__sent *next = r->sent->next;
        tide_free(r->sent);
        r->sent = next;
    }
    r->sent_last = r->sent ? r->sent_last : NULL;
}

void tide__cached_confirm(struct tide__cached *r, uint64_t number) {
    confirm(r, number);
}

void tide__cached_drop(struct tide__cached *r) {
    confirm(r, UINT64_MAX);
    atomic_store_explicit(&r->in_use, false, memory_order_relaxed);
}

static void add(float *to, const void *delta, size_t count) {
    const struct tide_table_options plain = {.update = TIDE_UPDATE_ADD, .width = (uint32_t)count};
    tide__rule_apply(&plain, to, delta);
}

/* What a delta does to a row, here or at home. */
static void act(const struct tide__cached_shape *shape, float *row, const void *delta) {
    if (shape->floats > shape->options->width) {
        add(row, delta, shape->floats);
    } else {
        tide__rule_apply(shape->options, row, delta);
    }
}

void tide__cached_apply(const struct tide__cached_shape *shape, float *row, const void *delta) {
    act(shape, row, delta);
}

void tide__cached_push(const struct tide__cached_shape *shape, struct tide__cached *r,
                        const void *delta, float *scratch) {
    float *value = tide__cached_value(r), *acc = tide__cached_acc(shape, r);
    switch (shape->options->update) {
    case TIDE_UPDATE_ASSIGN:
        memcpy(acc, delta, shape->floats * sizeof *acc);
        memcpy(value, delta, shape->floats * sizeof *value);
        break;
    case TIDE_UPDATE_ADAGRAD: /* the step is taken from the sums as they are known here */
        memcpy(scratch, value, shape->floats * sizeof *scratch);
        tide__rule_apply(shape->options, value, delta);
        for (uint32_t i = 0; i < shape->floats; i++) {
            acc[i] += value[i] - scratch[i];
        }
        break;
    case TIDE_UPDATE_ADAM:
        add(acc, delta, shape->floats);
        break;
    default:
        add(acc, delta, shape->floats);
        tide__rule_apply(shape->options, value, delta);
    }
}

const float *tide__cached_send(const struct tide__cached_shape *shape, struct tide__cached *r,
                                uint64_t number) {
    const size_t bytes = shape->floats * sizeof(float);
    struct tide__sent *sent = tide_alloc(sizeof *sent + bytes);
    if (!sent) {
        return NULL;
    }
    sent->next = NULL;
    sent->number = number;
    memcpy(sent->delta, tide__cached_acc(shape, r), bytes);
    memset(tide__cached_acc(shape, r), 0, bytes);
    *(r->sent ? &r->sent_last->next : &r->sent) = sent;
    r->sent_last = sent;
    r->dirty = false;
    return sent->delta;
}

bool tide__cached_unsend(const struct tide__cached_shape *shape, struct tide__cached *r,
                         uint64_t number) {
    const bool assigns = shape->options->update == TIDE_UPDATE_ASSIGN;
    float *acc = tide__cached_acc(shape, r);
    struct tide__sent **first = &r->sent, *last = NULL;
    while (*first && (*first)->number <= number) {
        last = *first;
        first = &last->next;
    }
    struct tide__sent *behind = *first;
    const bool any = behind != NULL;
    *first = NULL;
    r->sent_last = last;
    for (const struct tide__sent *s = behind; s; s = s->next) {
        if (!assigns) {
            add(acc, s->delta, shape->floats);
        } else if (!r->dirty) { /* the last one counts, and acc is younger than all */
            memcpy(acc, s->delta, shape->floats * sizeof *acc);
        }
    }
    while (behind) {
        struct tide__sent *next = behind->next;
        tide_free(behind);
        behind = next;
    }
    return any;
}

void tide__cached_row(const struct tide__cached_shape *shape, struct tide__cached *r,
                       const void *row, uint64_t number) {
    float *value = tide__cached_value(r);
    memcpy(value, row, shape->floats * sizeof *value);
    if (!TIDE_MUTANT(ring_entry_twice)) {
        confirm(r, number);
    }
    for (const struct tide__sent *s = r->sent; s && shape->options->update != TIDE_UPDATE_ADAM;
         s = s->next) {
        act(shape, value, s->delta);
    }
    if (r->dirty && shape->options->update != TIDE_UPDATE_ADAM) {
        act(shape, value, tide__cached_acc(shape, r));
    }
    r->valid = true;
}
