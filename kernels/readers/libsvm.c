/* Reading LibSVM text; see libsvm.h. */
#include "readers/libsvm.h"

#include "base/base.h"
#include "readers/fields.h"
#include "names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t INDEX_MOST = UINT32_MAX - 1;
/* So many columns are taken without a word, 64 MiB of numbers; of more, each entry stands for at most so many. */
static const uint32_t COLUMNS_TRUSTED = 1 << 24, COLUMNS_AN_ENTRY = 64;

/* Where something was seen, for errors that are known later. */
struct place {
    const char *name;
    size_t line, column;
};

struct part_room { /* capacities of a part's arrays */
    size_t offsets, indices, values, labels, tasks;
};

struct tide_libsvm_reader {
    struct tide_libsvm_options options;
    struct tide_libsvm out; /* indices as in the text until finish */
    struct part_room room;
    size_t part_count;
    struct tide_fields text;
    double *names; /* options.classes: the labels as written, of all parts */
    size_t name_count, name_capacity;
    bool zero; /* an index 0 occurred */
    uint32_t largest;
    struct place largest_at;
};

static int add_entry(struct tide_libsvm_reader *r, uint32_t index, float value) {
    struct tide_sparse *part = &r->out.parts[r->part_count - 1];
    size_t count = part->offsets[part->rows + 1];
    int code = tide_array_grow(&part->indices, &r->room.indices, count + 1, sizeof *part->indices);
    code = code ? code : tide_array_grow(&part->values, &r->room.values, count + 1, sizeof *part->values);
    if (code == 0) {
        part->indices[count] = index;
        part->values[count] = value;
        part->offsets[part->rows + 1]++;
    }
    return code;
}

static int read_entry(struct tide_libsvm_reader *r, const struct tide_fields_line *line, const char *word, size_t size,
                      int64_t *before) {
    uint64_t index;
    float value;
    const char *colon = memchr(word, ':', size);
    if (!colon || !tide_text_count(word, (size_t)(colon - word), INDEX_MOST, &index)) {
        return tide_fields_refuse(&r->text, line, word, "index:value with an index below 2^32 - 1",
                                  "write each entry as index:value");
    }
    if (!tide_text_number(colon + 1, size - (size_t)(colon - word) - 1, &value)) {
        return tide_fields_refuse(
            &r->text, line, colon + 1, "a finite value that a 32-bit float holds",
            "correct it, scale it (whole numbers over 16777216 would be rounded), or leave it out");
    }
    if (index == 0 && r->options.base == 1) {
        return tide_fields_refuse(&r->text, line, word, "an index from 1 (base = 1)",
                                  "say base = 0 if indices begin at 0");
    }
    if ((int64_t)index <= *before) {
        return tide_fields_refuse(&r->text, line, word, "an index above the one before it",
                                  "sort the entries of a line and merge equal indices");
    }
    *before = (int64_t)index;
    r->zero = r->zero || index == 0;
    if (index > r->largest || !r->largest_at.name) {
        r->largest = (uint32_t)index;
        r->largest_at = (struct place){r->text.name, r->text.line, (size_t)(word - line->start) + 1};
    }
    return add_entry(r, (uint32_t)index, value);
}

static int begin_row(struct tide_libsvm_reader *r, float label) {
    struct tide_sparse *part = &r->out.parts[r->part_count - 1];
    float **labels = &r->out.labels[r->part_count - 1];
    int code = tide_array_grow(&part->offsets, &r->room.offsets, part->rows + 2, sizeof *part->offsets);
    code = code ? code : tide_array_grow(labels, &r->room.labels, part->rows + 1, sizeof **labels);
    if (code == 0) {
        part->offsets[part->rows + 1] = part->offsets[part->rows];
        (*labels)[part->rows] = label;
    }
    return code;
}

static int add_name(struct tide_libsvm_reader *r, double label) {
    int code = tide_array_grow(&r->names, &r->name_capacity, r->name_count + 1, sizeof *r->names);
    if (code == 0) {
        r->names[r->name_count++] = label;
    }
    return code;
}

static int add_task(struct tide_libsvm_reader *r, const struct tide_fields_line *line, const char *word, size_t size) {
    size_t row = r->out.parts[r->part_count - 1].rows;
    uint32_t **tasks = &r->out.tasks[r->part_count - 1];
    uint64_t task;
    if (!tide_text_count(word + 4, size - 4, UINT32_MAX, &task)) {
        return tide_fields_refuse(&r->text, line, word, "qid:N, a number below 2^32", "number the tasks");
    }
    int code = tide_array_grow(tasks, &r->room.tasks, row + 1, sizeof **tasks);
    if (code == 0) {
        (*tasks)[row] = (uint32_t)task;
    }
    return code;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Are there two labels that differ as written, and not as f32? */
static int check_names(struct tide_libsvm_reader *r) {
    if (r->name_count > 0) { /* of none there is no memory */
        qsort(r->names, r->name_count, sizeof *r->names, by_size);
    }
    for (size_t i = 1; i < r->name_count; i++) {
        const double a = r->names[i - 1], b = r->names[i];
        if (a < b && (float)a >= (float)b) {
            return tide_fail(TIDE_EPROTO,
                             "%s: expected classes that 32-bit floats tell apart, found %.17g and "
                             "%.17g; number the classes from 0",
                             r->text.name, a, b);
        }
    }
    return 0;
}

static int read_line(void *reader, struct tide_fields_line *line) {
    struct tide_libsvm_reader *r = reader;
    const char *word, *start = line->start;
    size_t length;
    double written;
    const size_t size = (size_t)(line->end - start);
    const char *comment = size > 0 ? memchr(start, '#', size) : NULL;
    line->end = comment && comment < line->end ? comment : line->end;
    if (!tide_fields_next(line, &word, &length)) {
        return 0;
    }
    if (!tide_text_double(word, length, &written)) {
        return tide_fields_refuse(&r->text, line, word, "one finite number as label",
                                  "lines of several labels are not read");
    }
    float label;
    if (tide_narrow_f32(written, &label) != TIDE_NARROW_FITS) {
        return tide_fields_refuse(&r->text, line, word, "a label that a 32-bit float holds",
                                  "whole numbers over 16777216 would be rounded; number classes from 0, scale numbers");
    }
    int code = begin_row(r, label);
    code = code || !r->options.classes ? code : add_name(r, written);
    int64_t before = -1;
    bool task = false;
    for (bool first = true; code == 0 && tide_fields_next(line, &word, &length); first = false) {
        if (first && length > 4 && memcmp(word, "qid:", 4) == 0) {
            r->out.queries++;
            code = r->options.tasks ? add_task(r, line, word, length) : 0;
            task = true;
            continue;
        }
        code = read_entry(r, line, word, length, &before);
    }
    if (code == 0 && r->options.tasks && !task) {
        code = tide_fields_refuse(&r->text, line, start, "qid:N behind the label: the number of the task",
                                  "give each line one, or read the data without tasks");
    }
    r->out.parts[r->part_count - 1].rows += code == 0;
    return code;
}

/* ---- the stream ---- */

int tide_libsvm_open(struct tide_libsvm_options options, struct tide_libsvm_reader **out) {
    struct tide_libsvm_reader *r = tide_alloc_zero(1, sizeof *r);
    if (!r) {
        return TIDE_ENOMEM;
    }
    r->options = options;
    r->text = (struct tide_fields){.no_such = "this is no LibSVM file", .read = read_line, .reader = r};
    *out = r;
    return 0;
}

void tide_libsvm_close(struct tide_libsvm_reader *r) {
    if (r) {
        tide_libsvm_release(&r->out);
        tide_fields_release(&r->text);
        tide_free(r->names);
        tide_free(r);
    }
}

int tide_libsvm_begin(struct tide_libsvm_reader *r, const char *name) {
    if (r->part_count == TIDE_LIBSVM_PARTS) {
        return tide_fail(TIDE_EINVAL, "libsvm: more than %d texts", TIDE_LIBSVM_PARTS);
    }
    struct tide_sparse *part = &r->out.parts[r->part_count++];
    r->room = (struct part_room){0};
    tide_fields_begin(&r->text, name);
    int code = tide_array_grow(&part->offsets, &r->room.offsets, 1, sizeof *part->offsets);
    if (code == 0) {
        part->offsets[0] = 0;
    }
    return code;
}

int tide_libsvm_feed(struct tide_libsvm_reader *r, const char *data, size_t size) {
    return tide_fields_feed(&r->text, data, size);
}

int tide_libsvm_end(struct tide_libsvm_reader *r) {
    int code = tide_fields_end(&r->text);
    if (code == 0 && r->out.parts[r->part_count - 1].rows == 0) {
        code = tide_fail(TIDE_EPROTO,
                         "%s: line %zu: column 1: expected an example, found the end; "
                         "each line is `label index:value ...`",
                         r->text.name, r->text.line + 1);
    }
    return code;
}

/* Everything that has a number a column would be as large as a mistaken index says. */
static int check_columns(const struct tide_libsvm_reader *r) {
    const struct tide_libsvm *data = &r->out;
    uint64_t entries = 0;
    for (size_t p = 0; p < r->part_count; p++) {
        entries += data->parts[p].offsets[data->parts[p].rows];
    }
    if (r->options.columns != 0 || data->columns <= COLUMNS_TRUSTED || data->columns / COLUMNS_AN_ENTRY < entries) {
        return 0;
    }
    return tide_fail(TIDE_EPROTO,
                     "%s: line %zu: column %zu: index '%u' is far beyond the %llu entries of the data; "
                     "if it is right, say columns = %u or more",
                     r->largest_at.name, r->largest_at.line, r->largest_at.column, r->largest,
                     (unsigned long long)entries, data->columns);
}

int tide_libsvm_finish(struct tide_libsvm_reader *r, struct tide_libsvm *out) {
    struct tide_libsvm *data = &r->out;
    data->base = r->options.base >= 0 ? (uint32_t)r->options.base : !r->zero;
    data->columns = r->largest_at.name ? r->largest - data->base + 1 : 0;
    if (r->options.columns != 0 && data->columns > r->options.columns) {
        return tide_fail(TIDE_EPROTO,
                         "%s: line %zu: column %zu: expected an index of %u columns "
                         "counted from %u, found '%u'; say columns = %u or more",
                         r->largest_at.name, r->largest_at.line, r->largest_at.column, r->options.columns, data->base,
                         r->largest, data->columns);
    }
    int code = check_columns(r);
    code = code == 0 ? check_names(r) : code;
    if (code != 0) {
        return code;
    }
    data->columns = r->options.columns != 0 ? r->options.columns : data->columns;
    for (size_t p = 0; p < r->part_count && data->base == 1; p++) {
        const struct tide_sparse *part = &data->parts[p];
        for (uint64_t i = 0; i < part->offsets[part->rows]; i++) {
            part->indices[i]--;
        }
    }
    *out = *data;
    *data = (struct tide_libsvm){0};
    return 0;
}

void tide_libsvm_release(struct tide_libsvm *data) {
    for (size_t i = 0; i < TIDE_LIBSVM_PARTS; i++) {
        tide_free(data->parts[i].offsets);
        tide_free(data->parts[i].indices);
        tide_free(data->parts[i].values);
        tide_free(data->labels[i]);
        tide_free(data->tasks[i]);
    }
    *data = (struct tide_libsvm){0};
}

/* ---- classes ---- */

static int compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int tide_libsvm_classes(const struct tide_libsvm *data, float **classes, size_t *count) {
    size_t all = 0, distinct = 0;
    for (size_t p = 0; p < TIDE_LIBSVM_PARTS; p++) {
        all += data->parts[p].rows;
    }
    float *sorted = tide_alloc((all + 1) * sizeof *sorted);
    if (!sorted) {
        return TIDE_ENOMEM;
    }
    for (size_t p = 0, at = 0; p < TIDE_LIBSVM_PARTS; p++) {
        size_t rows = data->parts[p].rows;
        if (rows > 0) {
            memcpy(sorted + at, data->labels[p], rows * sizeof *sorted);
        }
        at += rows;
    }
    qsort(sorted, all, sizeof *sorted, compare);
    for (size_t i = 0; i < all; i++) {
        if (i == 0 || sorted[i] > sorted[distinct - 1]) {
            sorted[distinct++] = sorted[i];
        }
    }
    if (distinct > TIDE_LIBSVM_CLASSES_MOST) {
        tide_free(sorted);
        return tide_fail(TIDE_ELIMIT,
                         "%zu different labels are more than %d classes; read them as "
                         "numbers (labels = \"number\")",
                         distinct, TIDE_LIBSVM_CLASSES_MOST);
    }
    *classes = sorted;
    *count = distinct;
    return 0;
}

size_t tide_libsvm_class(const float *classes, size_t count, float label) {
    const float *found = bsearch(&label, classes, count, sizeof *classes, compare);
    TIDE_ASSERT(found);
    return (size_t)(found - classes);
}
