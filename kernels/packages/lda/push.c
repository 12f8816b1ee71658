/*
 * lda_push: adds what a worker has changed in rows of a table: single columns where few of a row
 * have changed and the table takes them, else whole rows of differences.
 */
#include "lda.h"

#include <string.h>

enum { ROWS, FIRST, BEFORE, AFTER, PARAMETERS };
enum { BATCH_FLOATS = 1 << 18, FEW = 8 }; /* a row of which less than one column in so many has changed */
static const struct tide_parameter parameters[PARAMETERS] = {
    [ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "table with update \"add\""},
    [FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "key of the first row"},
    [BEFORE] = {"before", TIDE_TENSOR, 1, true, 0, "rows as they were pulled"},
    [AFTER] = {"after", TIDE_TENSOR, 1, true, 0, "rows as they are to be, but for what others do"},
};

const struct tide_kernel tide_kernel_lda_push;

struct push {
    const struct tide_rows *table;
    size_t width;
    float *batch, *values; /* whole rows of differences; of one row, single columns */
    uint64_t *keys;
    uint32_t *columns;
    size_t batched, room;
    uint64_t bytes, singles, whole;
};

static int flush(struct push *p) {
    int code = p->batched > 0 ? p->table->push(p->table->table, p->keys, p->batched, p->batch) : 0;
    p->batched = 0;
    return code;
}

static int push_row(struct push *p, uint64_t key, const float *before, const float *after) {
    size_t count = 0;
    for (size_t k = 0; k < p->width; k++) {
        const float change = after[k] - before[k];
        if (change < 0 || change > 0) {
            p->columns[count] = (uint32_t)k;
            p->values[count++] = change;
        }
    }
    if (count == 0) {
        return 0;
    }
    if (p->table->add && count * FEW < p->width) {
        p->singles += count;
        p->bytes += count * (sizeof(float) + sizeof(uint32_t));
        return p->table->add(p->table->table, key, p->columns, p->values, count);
    }
    float *row = p->batch + p->batched * p->width;
    memset(row, 0, p->width * sizeof *row);
    for (size_t i = 0; i < count; i++) {
        row[p->columns[i]] = p->values[i];
    }
    p->keys[p->batched++] = key;
    p->whole++;
    p->bytes += p->width * sizeof(float);
    return p->batched == p->room ? flush(p) : 0;
}

static int run(const struct tide_argument *a, struct tide_result *results, char *error) {
    const struct tide_tensor *before = &a[BEFORE].tensor, *after = &a[AFTER].tensor;
    struct push p = {.table = &a[ROWS].rows, .width = a[ROWS].rows.width};
    uint64_t first;
    int code = tide_kernel_whole(&tide_kernel_lda_push, a, FIRST, 0, UINT64_MAX, &first, error);
    if (code == 0 && (before->columns != p.width || after->columns != p.width || before->rows != after->rows)) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "before and after: not as many rows of %zu numbers", p.width);
    }
    if (code) {
        return code;
    }
    p.room = BATCH_FLOATS / p.width + 1;
    p.room = p.room < before->rows + 1 ? p.room : before->rows + 1;
    p.batch = tide_alloc(p.room * p.width * sizeof *p.batch);
    p.values = tide_alloc(p.width * sizeof *p.values);
    p.columns = tide_alloc(p.width * sizeof *p.columns);
    p.keys = tide_alloc(p.room * sizeof *p.keys);
    if (!p.batch || !p.values || !p.columns || !p.keys) {
        code = tide_kernel_fail(error, TIDE_ENOMEM, "no memory for %zu rows", p.room);
    }
    for (size_t i = 0; i < before->rows && code == 0; i++) {
        code = push_row(&p, first + i, (const float *)before->data + i * p.width,
                        (const float *)after->data + i * p.width);
    }
    code = code ? code : flush(&p);
    tide_free(p.batch);
    tide_free(p.values);
    tide_free(p.columns);
    tide_free(p.keys);
    results[0] = (struct tide_result){"bytes", (double)p.bytes};
    results[1] = (struct tide_result){"columns", (double)p.singles};
    results[2] = (struct tide_result){"rows", (double)p.whole};
    results[3] = (struct tide_result){"count", (double)before->rows};
    return code ? code : 4;
}

const struct tide_kernel tide_kernel_lda_push = {"lda_push", "Adds to rows of a table what has changed in them.",
                                                 parameters, PARAMETERS, run};
