/* The algebra of copies; see copy_record.h. */
#include "store/rows/copy_record.h"
#include "store/rows/rules.h"

enum { BLOCKS = 16 };

struct tide__copy_record_shape tide__copy_record_shape(const struct tide_table_options *options) {
    bool steps = options->update == TIDE_UPDATE_ADAGRAD && options->consistency.model != TIDE_BSP;
    uint32_t sums = steps ? options->width : 0;
    struct tide__copy_record_shape shape = {.options = options, .floats = options->width + sums};
    while (shape.floats > (size_t)BLOCKS << shape.shift) {
        shape.shift++;
    }
    const uint32_t blocks = (shape.floats + (1u << shape.shift) - 1) >> shape.shift;
    shape.all = (uint16_t)((1u << blocks) - 1);
    return shape;
}

/* ---- blocks ---- */

/* The next block of a set, taken out of it: its first float in a row, *floats* how many it has. */
static uint32_t block_next(const struct tide__copy_record_shape *shape, uint16_t *blocks, uint32_t *floats) {
    const uint32_t first = (uint32_t)__builtin_ctz(*blocks) << shape->shift;
    const uint32_t rest = shape->floats - first, most = 1u << shape->shift;
    *floats = rest < most ? rest : most;
    *blocks = (uint16_t)(*blocks & (*blocks - 1));
    return first;
}

size_t tide__blocks_floats(const struct tide__copy_record_shape *shape, uint16_t blocks) {
    size_t sum = 0;
    if (blocks == shape->all) {
        return shape->floats;
    }
    while (blocks) {
        uint32_t floats;
        (void)block_next(shape, &blocks, &floats);
        sum += floats;
    }
    return sum;
}

void tide__blocks_spread(const struct tide__copy_record_shape *shape, uint16_t blocks, const void *packed, float *row) {
    const char *at = packed;
    memset(row, 0, shape->floats * sizeof *row);
    while (blocks) {
        uint32_t floats, first = block_next(shape, &blocks, &floats);
        memcpy(row + first, at, floats * sizeof *row);
        at += floats * sizeof *row;
    }
}

size_t tide__copy_record_bytes(const struct tide__copy_record_shape *shape) {
    size_t bytes = sizeof(struct tide__copy_record) + 2 * shape->floats * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

void tide__copy_record_init(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, uint64_t key) {
    memset(r, 0, tide__copy_record_bytes(shape));
    atomic_store_explicit(&r->key, key, memory_order_relaxed);
    atomic_store_explicit(&r->in_use, true, memory_order_release); /* pairs with the evictor */
}

void tide__copy_record_confirm(struct tide__copy_record *r, uint64_t number) {
    uint16_t count = 0;
    while (count < r->sent_count && r->sent[count].number <= number) {
        tide_blob_unref(r->sent[count++].rows);
    }
    if (count) {
        r->sent_count = (uint16_t)(r->sent_count - count);
        memmove(r->sent, r->sent + count, r->sent_count * sizeof *r->sent);
    }
}

void tide__copy_record_drop(struct tide__copy_record *r) {
    tide__copy_record_confirm(r, UINT64_MAX);
    tide_free(r->sent);
    r->sent = NULL;
    r->sent_capacity = 0;
    atomic_store_explicit(&r->in_use, false, memory_order_relaxed);
}

static void add(float *to, const void *delta, size_t count) {
    const struct tide_table_options plain = {.update = TIDE_UPDATE_ADD, .width = (uint32_t)count};
    tide__rule_apply(&plain, to, delta);
}

/* What a delta does to a row, here or at home. */
static void act(const struct tide__copy_record_shape *shape, float *row, const void *delta) {
    if (shape->floats > shape->options->width) {
        add(row, delta, shape->floats);
    } else {
        tide__rule_apply(shape->options, row, delta);
    }
}

static void add_sent(const struct tide__copy_record_shape *shape, float *row, const struct tide__sent *sent) {
    uint16_t blocks = sent->blocks;
    const float *delta = sent->delta;
    if (blocks == shape->all) {
        add(row, delta, shape->floats);
        return;
    }
    while (blocks) {
        uint32_t floats, first = block_next(shape, &blocks, &floats);
        add(row + first, delta, floats);
        delta += floats;
    }
}

static void act_sent(const struct tide__copy_record_shape *shape, float *row, const struct tide__sent *sent) {
    if (sent->blocks == shape->all) {
        act(shape, row, sent->delta);
    } else { /* rule add */
        add_sent(shape, row, sent);
    }
}

void tide__copy_record_apply(const struct tide__copy_record_shape *shape, float *row, const void *delta) {
    act(shape, row, delta);
}

void tide__copy_record_push(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                            const void *delta) {
    float *value = tide__copy_record_value(r), *acc = tide__copy_record_acc(shape, r);
    r->blocks = shape->all;
    switch (shape->options->update) {
    case TIDE_UPDATE_ASSIGN:
        memcpy(acc, delta, shape->floats * sizeof *acc);
        memcpy(value, delta, shape->floats * sizeof *value);
        break;
    case TIDE_UPDATE_ADAGRAD: /* the step is taken from the sums as they are known here */
        tide__adagrad_apply(shape->options, value, delta, acc);
        break;
    default:
        add(acc, delta, shape->floats);
        if (!tide__rule_is_serial(shape->options)) {
            tide__rule_apply(shape->options, value, delta);
        }
    }
}

void tide__copy_record_add(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                           const uint32_t *columns, const float *values, size_t count) {
    float *value = tide__copy_record_value(r), *acc = tide__copy_record_acc(shape, r);
    for (size_t i = 0; i < count; i++) {
        value[columns[i]] += values[i];
        acc[columns[i]] += values[i];
        r->blocks = (uint16_t)(r->blocks | 1u << (columns[i] >> shape->shift));
    }
}

static int ring_grow(struct tide__copy_record *r) {
    const size_t capacity = r->sent_capacity ? r->sent_capacity * (size_t)2 : 2;
    if (capacity > UINT16_MAX) {
        return TIDE_ELIMIT; /* the home does not answer: what accumulates waits here */
    }
    struct tide__sent *grown = tide_realloc(r->sent, capacity * sizeof *grown);
    if (!grown) {
        return TIDE_ENOMEM;
    }
    r->sent = grown;
    r->sent_capacity = (uint16_t)capacity;
    return 0;
}

int tide__copy_record_send(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, uint16_t blocks,
                           uint64_t number, struct tide_blob *rows, float *delta) {
    float *acc = tide__copy_record_acc(shape, r), *to = delta;
    if (r->sent_count == r->sent_capacity && ring_grow(r)) {
        return TIDE_ENOMEM;
    }
    for (uint16_t left = blocks; left;) {
        uint32_t floats = shape->floats, first = 0;
        if (left == shape->all) {
            left = 0;
        } else {
            first = block_next(shape, &left, &floats);
        }
        memcpy(to, acc + first, floats * sizeof *to);
        memset(acc + first, 0, floats * sizeof *to);
        to += floats;
    }
    r->sent[r->sent_count++] =
        (struct tide__sent){.number = number, .delta = delta, .rows = tide_blob_ref(rows), .blocks = blocks};
    r->blocks = 0;
    r->dirty = false;
    return 0;
}

bool tide__copy_record_unsend(const struct tide__copy_record_shape *shape, struct tide__copy_record *r,
                              uint64_t number) {
    const bool assigns = shape->options->update == TIDE_UPDATE_ASSIGN;
    float *acc = tide__copy_record_acc(shape, r);
    uint16_t kept = 0;
    while (kept < r->sent_count && r->sent[kept].number <= number) {
        kept++;
    }
    const bool any = kept < r->sent_count;
    for (uint32_t i = kept; i < r->sent_count; i++) {
        if (!assigns) {
            add_sent(shape, acc, &r->sent[i]);
            r->blocks = (uint16_t)(r->blocks | r->sent[i].blocks);
        } else if (!r->dirty) { /* the last one counts, and acc is younger than all */
            memcpy(acc, r->sent[i].delta, shape->floats * sizeof *acc);
            r->blocks = shape->all;
        }
        tide_blob_unref(r->sent[i].rows);
    }
    r->sent_count = kept;
    return any;
}

void tide__copy_record_row(const struct tide__copy_record_shape *shape, struct tide__copy_record *r, const void *row,
                           uint64_t number) {
    float *value = tide__copy_record_value(r);
    memcpy(value, row, shape->floats * sizeof *value);
    if (!TIDE_MUTANT(ring_entry_twice)) {
        tide__copy_record_confirm(r, number);
    }
    const bool acts = !tide__rule_is_serial(shape->options);
    for (uint32_t i = 0; acts && i < r->sent_count; i++) {
        act_sent(shape, value, &r->sent[i]);
    }
    if (acts && r->dirty) {
        act(shape, value, tide__copy_record_acc(shape, r));
    }
    r->valid = true;
}
