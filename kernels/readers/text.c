/*
 * Lines, names and triples from text in memory. Memory is bounded by the result: the text is never
 * copied, except each name once.
 */
#include "readers/text.h"

#include "base/base.h"
#include "names.h"

#include <string.h>
#include <strings.h>

/* ---- lines ---- */

void tide_lines_init(struct tide_lines *lines, const struct tide_text *text) {
    const char *at = text->size > 0 ? text->data : "";
    const char *end = at + text->size;
    const char *zero = text->size > 0 ? memchr(at, 0, text->size) : NULL;
    if (text->size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3;
    }
    *lines = (struct tide_lines){.text = text, .at = at, .end = end, .zero = zero ? zero : end};
}

static bool is_blank(const char *line, size_t size) {
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == '\t' || line[size - 1] == '\r')) {
        size--;
    }
    return size == 0;
}

int tide_lines_next(struct tide_lines *lines, const char **line, size_t *size) {
    while (lines->at != lines->end) {
        const char *start = lines->at;
        const char *stop = memchr(start, '\n', (size_t)(lines->end - start));
        lines->at = stop ? stop + 1 : lines->end;
        lines->number += 1;
        if (TIDE_UNLIKELY(lines->zero < lines->at)) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected text, found a NUL byte", lines->text->name,
                             lines->number);
        }
        stop = stop ? stop : lines->end;
        *size = (size_t)(stop - start);
        if (*size > 0 && stop[-1] == '\r') {
            *size -= 1;
        }
        *line = start;
        if (!is_blank(start, *size)) {
            return 1;
        }
    }
    return 0;
}

const char *tide_text_known(const char *line, size_t size) {
    static const struct {
        const char *start, *known;
    } forms[] = {
        {"%%MatrixMarket", "MatrixMarket"},
        {"<!doctype", "this is a page of the web: was it the file that was downloaded?"},
        {"<html", "this is a page of the web: was it the file that was downloaded?"},
        {"<?xml", "this is XML: write its text a document a line"},
        {"{\"", "this is JSON: write its text a document a line, or say `format = \"text\"`"},
        {"[{\"", "this is JSON: write its text a document a line, or say `format = \"text\"`"},
        {"version https://git-lfs", "this is a pointer of Git LFS: `git lfs pull` fetches the file"},
    };
    for (size_t i = 0; i < TIDE_COUNT(forms); i++) {
        const size_t length = strlen(forms[i].start);
        if (size >= length && strncasecmp(line, forms[i].start, length) == 0) {
            return forms[i].known;
        }
    }
    return NULL;
}

/* ---- names ---- */

int tide_array_grow(void *array_pointer, size_t *capacity, size_t need, size_t element_size) {
    void **array = array_pointer;
    size_t wanted = *capacity < 64 ? 64 : *capacity;
    size_t bytes;
    if (need <= *capacity) {
        return 0;
    }
    while (wanted < need) {
        wanted *= 2;
    }
    if (__builtin_mul_overflow(wanted, element_size, &bytes)) {
        return tide_fail(TIDE_ENOMEM, "out of memory: %zu x %zu bytes", wanted, element_size);
    }
    void *grown = tide_realloc(*array, bytes);
    if (!grown) {
        return TIDE_ENOMEM;
    }
    *array = grown;
    *capacity = wanted;
    return 0;
}

static void slot_put(struct tide_dictionary_slot *slots, size_t count, struct tide_dictionary_slot slot) {
    size_t at = slot.hash & (count - 1);
    while (slots[at].index != 0) {
        at = (at + 1) & (count - 1);
    }
    slots[at] = slot;
}

static int dictionary_rehash(struct tide_dictionary *d) {
    size_t count = d->slot_count ? 2 * d->slot_count : 256;
    struct tide_dictionary_slot *slots = tide_alloc_zero(count, sizeof *slots);
    if (!slots) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < d->slot_count; i++) {
        if (d->slots[i].index != 0) {
            slot_put(slots, count, d->slots[i]);
        }
    }
    tide_free(d->slots);
    d->slots = slots;
    d->slot_count = count;
    return 0;
}

static int dictionary_append(struct tide_dictionary *d, const char *name, size_t size) {
    size_t *offsets;
    if (d->names.count >= UINT32_MAX - 1) {
        return tide_fail(TIDE_ELIMIT, "more than %zu names", d->names.count);
    }
    int rc = tide_array_grow(&d->names.offsets, &d->offset_capacity, d->names.count + 2, sizeof *d->names.offsets);
    rc = rc != 0 ? rc : tide_array_grow(&d->names.pool, &d->pool_capacity, d->pool_size + size + 1, 1);
    if (rc != 0) {
        return rc;
    }
    memcpy(d->names.pool + d->pool_size, name, size);
    d->names.pool[d->pool_size + size] = 0;
    offsets = d->names.offsets + d->names.count;
    offsets[0] = d->pool_size;
    d->pool_size += size + 1;
    offsets[1] = d->pool_size;
    d->names.count += 1;
    return 0;
}

/* The slot that has the name, or where it belongs. */
static size_t dictionary_slot(const struct tide_dictionary *d, const char *name, size_t size, uint32_t hash) {
    size_t at = hash & (d->slot_count - 1);
    for (; d->slots[at].index != 0; at = (at + 1) & (d->slot_count - 1)) {
        const size_t *offsets = d->names.offsets + d->slots[at].index - 1;
        if (d->slots[at].hash == hash && offsets[1] - offsets[0] - 1 == size &&
            memcmp(d->names.pool + offsets[0], name, size) == 0) {
            break;
        }
    }
    return at;
}

bool tide_dictionary_find(const struct tide_dictionary *d, const char *name, size_t size, uint32_t *index) {
    if (d->slot_count == 0) {
        return false;
    }
    size_t at = dictionary_slot(d, name, size, (uint32_t)tide_hash(name, size, 0));
    *index = d->slots[at].index - 1;
    return d->slots[at].index != 0;
}

int tide_dictionary_add(struct tide_dictionary *d, const char *name, size_t size, uint32_t *index) {
    if (d->names.count >= d->slot_count / 2) {
        int rc = dictionary_rehash(d);
        if (rc != 0) {
            return rc;
        }
    }
    uint32_t hash = (uint32_t)tide_hash(name, size, 0);
    size_t at = dictionary_slot(d, name, size, hash);
    if (d->slots[at].index != 0) {
        *index = d->slots[at].index - 1;
        return 0;
    }
    int rc = dictionary_append(d, name, size);
    if (rc == 0) {
        *index = (uint32_t)(d->names.count - 1);
        d->slots[at] = (struct tide_dictionary_slot){*index + 1, hash};
    }
    return rc;
}

void tide_dictionary_finish(struct tide_dictionary *d, struct tide_names *out) {
    *out = d->names;
    if (out->count > 0) { /* shrinking cannot fail; if it does, the larger memory stays */
        char *pool = tide_realloc(out->pool, d->pool_size);
        out->pool = pool ? pool : out->pool;
    }
    d->names = (struct tide_names){0};
    tide_dictionary_release(d);
}

void tide_dictionary_release(struct tide_dictionary *d) {
    tide_free(d->names.pool);
    tide_free(d->names.offsets);
    tide_free(d->slots);
    *d = (struct tide_dictionary){0};
}

/* ---- triples ---- */

void tide_triples_release(struct tide_triples *triples) {
    for (size_t i = 0; i < TIDE_TRIPLE_PARTS; i++) {
        tide_free(triples->parts[i]);
    }
    tide_free(triples->entities.pool);
    tide_free(triples->entities.offsets);
    tide_free(triples->relations.pool);
    tide_free(triples->relations.offsets);
    *triples = (struct tide_triples){0};
}

/* A text's rows while they are read. */
struct triples_reader {
    struct tide_dictionary entities, relations;
    size_t entity_count, relation_count; /* with ids: largest + 1 */
    const char *largest_in;              /* the text and the line of the largest id */
    size_t largest_line;
    bool ids;
};

struct field {
    const char *at;
    size_t size;
};

/* Splits at tabs; fields beyond the third are counted only. */
static size_t split_fields(const char *line, size_t size, struct field fields[3]) {
    const char *end = line + size;
    size_t count = 0;
    if (size == 0) {
        return 0;
    }
    for (;;) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        if (count < 3) {
            fields[count] = (struct field){line, (size_t)((tab ? tab : end) - line)};
        }
        count++;
        if (!tab) {
            return count;
        }
        line = tab + 1;
    }
}

static bool parse_id(const struct field *field, uint32_t *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < field->size; i++) {
        if (field->at[i] < '0' || field->at[i] > '9') {
            return false;
        }
        value = 10 * value + (uint64_t)(field->at[i] - '0');
        if (value >= UINT32_MAX) {
            return false;
        }
    }
    *out = (uint32_t)value;
    return field->size > 0;
}

static int read_row(struct triples_reader *r, const struct tide_lines *lines, const struct field fields[3],
                    uint32_t row[3]) {
    for (size_t i = 0; i < 3; i++) {
        bool relation = i == 1;
        if (r->ids) {
            size_t *count = relation ? &r->relation_count : &r->entity_count;
            if (!parse_id(&fields[i], &row[i])) {
                return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a 0-based id, found '%.*s'", lines->text->name,
                                 lines->number, (int)(fields[i].size < 40 ? fields[i].size : 40), fields[i].at);
            }
            if (row[i] >= r->entity_count && row[i] >= r->relation_count) {
                r->largest_in = lines->text->name;
                r->largest_line = lines->number;
            }
            *count = row[i] >= *count ? (size_t)row[i] + 1 : *count;
            continue;
        }
        if (fields[i].size == 0) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected a name in field %zu, found ''", lines->text->name,
                             lines->number, i + 1);
        }
        int rc = tide_dictionary_add(relation ? &r->relations : &r->entities, fields[i].at, fields[i].size, &row[i]);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int read_part(struct triples_reader *r, const struct tide_text *text, uint32_t **rows, size_t *row_count) {
    struct tide_lines lines;
    const char *line;
    size_t size, capacity = 0;
    int more;
    tide_lines_init(&lines, text);
    while ((more = tide_lines_next(&lines, &line, &size)) > 0) {
        struct field fields[3];
        size_t found = split_fields(line, size, fields);
        if (found != 3) {
            return tide_fail(TIDE_EPROTO, "%s: line %zu: expected 3 tab-separated fields, found %zu", text->name,
                             lines.number, found);
        }
        if (*row_count >= UINT32_MAX - 1) {
            return tide_fail(TIDE_ELIMIT, "%s: more than %zu rows", text->name, *row_count);
        }
        int rc = tide_array_grow(rows, &capacity, *row_count + 1, 3 * sizeof **rows);
        rc = rc != 0 ? rc : read_row(r, &lines, fields, *rows + 3 * *row_count);
        if (rc != 0) {
            return rc;
        }
        *row_count += 1;
    }
    return more;
}

/* ---- what is odd about them ---- */

/* A set of rows of three numbers, as indices of an array of rows. */
struct row_set {
    uint32_t *slots; /* index + 1; 0: free */
    size_t mask;
};

static int row_set_create(struct row_set *set, size_t rows) {
    size_t count = 64;
    while (count < 2 * rows) {
        count *= 2;
    }
    set->slots = tide_alloc_zero(count, sizeof *set->slots);
    set->mask = count - 1;
    return set->slots ? 0 : TIDE_ENOMEM;
}

/* Whether an equal row is in the set; if not, `add` puts it there. */
static bool row_set_has(struct row_set *set, const uint32_t *rows, const uint32_t *row, uint32_t index, bool add) {
    size_t at = (size_t)tide_hash(row, 3 * sizeof *row, 0) & set->mask;
    for (; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (memcmp(rows + 3 * (size_t)(set->slots[at] - 1), row, 3 * sizeof *row) == 0) {
            return true;
        }
    }
    if (add) {
        set->slots[at] = index + 1;
    }
    return false;
}

/* Counts what makes a test of a model mean less than it seems. */
static int count_oddities(struct tide_triples *t) {
    struct row_set set = {0};
    const uint32_t *train = t->parts[0];
    uint8_t *seen = tide_alloc_zero(t->entities.count + t->relations.count + 1, 1);
    int rc = seen ? row_set_create(&set, t->counts[0]) : TIDE_ENOMEM;
    if (rc == 0) {
        uint8_t *relation_seen = seen + t->entities.count;
        for (size_t i = 0; i < t->counts[0]; i++) {
            const uint32_t *row = train + 3 * i;
            t->repeated += row_set_has(&set, train, row, (uint32_t)i, true);
            seen[row[0]] = seen[row[2]] = relation_seen[row[1]] = 1;
        }
        for (size_t p = 1; p < TIDE_TRIPLE_PARTS; p++) {
            for (size_t i = 0; i < t->counts[p]; i++) {
                const uint32_t *row = t->parts[p] + 3 * i;
                t->leaked[p] += row_set_has(&set, train, row, 0, false);
                t->unseen += !seen[row[0]];
                seen[row[0]] = 1;
                t->unseen += !seen[row[2]];
                seen[row[2]] = 1;
                t->unseen_relations += !relation_seen[row[1]];
                relation_seen[row[1]] = 1;
            }
        }
    }
    tide_free(set.slots);
    tide_free(seen);
    return rc;
}

/* An id makes rows of all ids below it. */
static int check_ids(const struct triples_reader *r, const struct tide_triples *t) {
    const size_t rows = t->counts[0] + t->counts[1] + t->counts[2];
    const size_t largest = r->entity_count > r->relation_count ? r->entity_count : r->relation_count;
    return tide_text_claim_fits(r->entity_count + r->relation_count, rows)
               ? 0
               : tide_fail(TIDE_EPROTO,
                           "%s: line %zu: expected ids from 0 on without large gaps, found %zu among %zu triples; "
                           "number them from 0, or read them as names (ids = false)",
                           r->largest_in, r->largest_line, largest - 1, rows);
}

int tide_text_triples(const struct tide_text *texts, size_t text_count, bool ids, struct tide_triples *out) {
    struct triples_reader r = {.ids = ids};
    *out = (struct tide_triples){0};
    if (text_count == 0 || text_count > TIDE_TRIPLE_PARTS) {
        return tide_fail(TIDE_EINVAL, "triples: %zu texts; 1 to %d are read", text_count, TIDE_TRIPLE_PARTS);
    }
    int rc = 0;
    for (size_t i = 0; i < text_count && rc == 0; i++) {
        rc = read_part(&r, &texts[i], &out->parts[i], &out->counts[i]);
    }
    rc = rc == 0 && ids ? check_ids(&r, out) : rc;
    if (rc == 0) {
        tide_dictionary_finish(&r.entities, &out->entities);
        tide_dictionary_finish(&r.relations, &out->relations);
        if (ids) {
            out->entities.count = r.entity_count;
            out->relations.count = r.relation_count;
        }
        snprintf(out->note, sizeof out->note, "%zu entities, %zu relations; rows: train %zu, valid %zu, test %zu",
                 out->entities.count, out->relations.count, out->counts[0], out->counts[1], out->counts[2]);
        rc = count_oddities(out);
        if (rc == 0) {
            return 0;
        }
    }
    tide_dictionary_release(&r.entities);
    tide_dictionary_release(&r.relations);
    tide_triples_release(out);
    return rc;
}
