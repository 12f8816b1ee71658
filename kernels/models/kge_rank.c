/*
 * kge_rank: ranks of true entities among all, both sides of each triple, raw and filtered (Bordes
 * et al., NeurIPS 2013, section 4.2). Rank = 1 + better ones + half of the ties; NaN is worse than
 * every number and ties with NaN.
 *
 * Scores of blocks of queries against chunks of entities are matrix products. A product may round
 * differently in different places of a matrix, so it only decides what is clearly better or worse;
 * whatever lies within the rounding bound of the true one's score, and whatever is known and to be
 * left out, is scored again by one plain loop. Hence ties are exact and the ranks do not depend on
 * the BLAS library or on how entities fall into chunks.
 *
 * Memory: 2 d floats per triple of the call, two chunks of entities, the known triples twice. Each
 * call pulls the entity table once, the next chunk while one is compared.
 */
#include "base/base.h"
#include "arguments.h"
#include "tensor/cpu/gemm.h"
#include "kernels.h"
#include "models/kge.h"
#include "tensor/cpu/vector.h"

#include <stdlib.h>

enum { QUERIES = 256, TILE = 1024, CHUNK = 8 * TILE };

enum { MODEL, ENTITIES, RELATIONS, TRIPLES, KNOWN, FIRST, COUNT, ENTITY_COUNT, PARAMETER_COUNT };

static const struct tide_parameter parameters[PARAMETER_COUNT] = {
    [MODEL] = {"model", TIDE_TEXT, 0, false, 0, "\"complex\" (default) or \"rescal\""},
    [ENTITIES] = {"entities", TIDE_ROWS, 0, true, 0, "table: d values an entity"},
    [RELATIONS] = {"relations", TIDE_ROWS, 0, true, 0, "table: d values a relation, rescal d * d"},
    [TRIPLES] = {"triples", TIDE_TENSOR, TIDE_U32, true, 0, "n x 3: the subject, relation, object to rank"},
    [KNOWN] = {"known", TIDE_TENSOR, TIDE_U32, false, 0,
               "m x 3: true triples that do not count as mistakes (train, valid and test)"},
    [FIRST] = {"first", TIDE_NUMBER, 0, false, 0, "first triple of this call, from 0"},
    [COUNT] = {"count", TIDE_NUMBER, 0, false, -1, "triples of this call; -1: to the end"},
    [ENTITY_COUNT] = {"entity_count", TIDE_NUMBER, 0, true, 0, "candidates: 0 .. entity_count-1"},
};

/* A known triple seen from one side: fixed entity and relation, and the entity that answers. */
struct known {
    uint32_t fixed, relation, answer;
};

struct query {
    uint32_t truth;
    float own, length;
    uint64_t better, tied;             /* of all other entities */
    uint64_t known_better, known_tied; /* the known ones among them */
    const struct known *next, *end;    /* known answers, rising, not yet met */
};

struct ranking {
    enum kge_model model;
    size_t width;
    struct tide_rows entities, relations;
    const uint32_t *triples, *known_triples;
    size_t first, count, known_count;
    uint64_t entity_count;
    struct known *known_objects, *known_subjects;
    float *vectors;        /* 2 count x width: query 2 i asks for the object of triple i, 2 i + 1 for the
                              subject */
    struct query *queries; /* 2 count */
    float *chunks[2], *scores;
    uint64_t *keys[2];
    uint32_t *near;
};

/* ---- queries ---- */

static int known_compare(const void *left, const void *right) {
    const struct known *a = left, *b = right;
    if (a->fixed != b->fixed) {
        return a->fixed < b->fixed ? -1 : 1;
    }
    if (a->relation != b->relation) {
        return a->relation < b->relation ? -1 : 1;
    }
    return a->answer < b->answer ? -1 : a->answer > b->answer;
}

/* Sorts and drops duplicates; returns how many stay. */
static size_t known_sort(struct known *list, size_t count) {
    qsort(list, count, sizeof(*list), known_compare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || known_compare(&list[kept - 1], &list[i]) != 0) {
            list[kept++] = list[i];
        }
    }
    return kept;
}

static const struct known *known_lower(const struct known *list, size_t count, struct known key) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (known_compare(&list[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return list + low;
}

static void query_known(struct query *query, const struct known *list, size_t count, uint32_t fixed,
                        uint32_t relation) {
    query->next = known_lower(list, count, (struct known){fixed, relation, 0});
    query->end = known_lower(list, count, (struct known){fixed, relation, UINT32_MAX});
}

/* Pulls the rows of up to `most` triples at a time and folds them into queries with their own
 * scores. */
static int make_queries(struct ranking *r, const size_t known_kept[2]) {
    size_t d = r->width, wide = r->relations.width;
    size_t most = ((size_t)1 << 22) / (wide + 2 * d) + 1; /* 16 MiB of rows */
    most = most < QUERIES ? most : QUERIES;
    uint64_t *keys = tide_alloc(3 * most * sizeof(*keys));
    float *rows = tide_workspace_alloc(most * (2 * d + wide) * sizeof(float));
    int error = keys && rows ? 0 : TIDE_ENOMEM;
    for (size_t base = 0; base < r->count && !error; base += most) {
        size_t count = r->count - base < most ? r->count - base : most;
        const uint32_t *triples = r->triples + 3 * (r->first + base);
        for (size_t i = 0; i < count; i++) {
            keys[2 * i] = triples[3 * i];
            keys[2 * i + 1] = triples[3 * i + 2];
            keys[2 * most + i] = triples[3 * i + 1];
        }
        float *relations = rows + 2 * d * most;
        error = r->entities.pull(r->entities.table, keys, 2 * count, rows);
        error = error ? error : r->relations.pull(r->relations.table, keys + 2 * most, count, relations);
        for (size_t i = 0; i < count && !error; i++) {
            const float *s = rows + 2 * i * d, *o = s + d, *relation = relations + i * wide;
            const uint32_t *t = triples + 3 * i;
            struct query *query = &r->queries[2 * (base + i)];
            float *vector = r->vectors + 2 * (base + i) * d;
            kge_toward_object(r->model, d, s, relation, vector);
            kge_toward_subject(r->model, d, relation, o, vector + d);
            query[0] = (struct query){.truth = t[2], .own = kge_dot(d, vector, o)};
            query[1] = (struct query){.truth = t[0], .own = kge_dot(d, vector + d, s)};
            query[0].length = sqrtf(kge_dot(d, vector, vector));
            query[1].length = sqrtf(kge_dot(d, vector + d, vector + d));
            query_known(&query[0], r->known_objects, known_kept[0], t[0], t[1]);
            query_known(&query[1], r->known_subjects, known_kept[1], t[2], t[1]);
        }
    }
    tide_free(keys);
    tide_workspace_free(rows);
    return error;
}

/* ---- comparison ---- */

/* Counts scores above `high` and lists the indices of those that are neither above `high` nor below
 * `low`; NaN is listed. Returns the count; *near_count grows. */
TIDE_BODY size_t scan_body(const float *scores, size_t count, float low, float high, uint32_t *near,
                           size_t *near_count) {
    tide_v8i above = {0};
    size_t i = 0, total = 0, listed = *near_count;
    for (; i + 32 <= count; i += 32) {
        tide_v8i open = {0};
        for (size_t j = 0; j < 32; j += 8) {
            tide_v8 v = TIDE_V8C(scores + i + j);
            tide_v8i more = v > high;
            above -= more;
            open |= ~(more | (v < low));
        }
        if (((open[0] | open[1]) | (open[2] | open[3])) | ((open[4] | open[5]) | (open[6] | open[7]))) {
            for (size_t j = i; j < i + 32; j++) {
                if (!(scores[j] > high) && !(scores[j] < low)) {
                    near[listed++] = (uint32_t)j;
                }
            }
        }
    }
    for (int j = 0; j < 8; j++) {
        total += (size_t)above[j];
    }
    for (; i < count; i++) {
        if (scores[i] > high) {
            total++;
        } else if (!(scores[i] < low)) {
            near[listed++] = (uint32_t)i;
        }
    }
    *near_count = listed;
    return total;
}

TIDE_VECTOR_FUNCTION(size_t, scan,
                     (const float *scores, size_t count, float low, float high, uint32_t *near, size_t *near_count),
                     (scores, count, low, high, near, near_count))

static void judge(float score, float own, uint64_t *better, uint64_t *tied) {
    if (isnan(own)) {
        *better += isnan(score) == 0;
        *tied += isnan(score) != 0;
    } else {
        *better += score > own;
        *tied += score == own;
    }
}

/* One query against the tile of entities base .. base + count - 1; `longest` bounds the length of
 * their rows. */
static void compare(struct ranking *r, size_t q, const float *scores, const float *rows, uint64_t base, size_t count,
                    float longest) {
    struct query *query = &r->queries[q];
    size_t d = r->width, near_count = 0;
    const float *vector = r->vectors + q * d;
    /* Two sums of d products differ by at most 2 d 2^-24 |q| |e|; a little more for the lengths'
     * own rounding. */
    float slack = 2.1f * (float)(d + 8) * 0x1p-24f * query->length * longest + 1e-37f;
    query->better += scan(scores, count, query->own - slack, query->own + slack, r->near, &near_count);
    for (size_t i = 0; i < near_count; i++) {
        if (base + r->near[i] != query->truth) {
            float score = kge_dot(d, vector, rows + r->near[i] * d);
            judge(score, query->own, &query->better, &query->tied);
        }
    }
    for (; query->next < query->end && query->next->answer < base + count; query->next++) {
        if (query->next->answer != query->truth) {
            float score = kge_dot(d, vector, rows + (query->next->answer - base) * d);
            judge(score, query->own, &query->known_better, &query->known_tied);
        }
    }
}

static int compare_chunk(struct ranking *r, const float *rows, uint64_t base, size_t count) {
    size_t d = r->width;
    for (size_t tile = 0; tile < count; tile += TILE) {
        size_t width = count - tile < TILE ? count - tile : TILE;
        const float *tile_rows = rows + tile * d;
        float longest = 0;
        for (size_t i = 0; i < width; i++) {
            float square = kge_dot(d, tile_rows + i * d, tile_rows + i * d);
            longest = square <= longest ? longest : square; /* NaN sticks until a number follows */
            if (isnan(square)) {
                longest = INFINITY; /* nothing is clear then: all are scored again */
                break;
            }
        }
        longest = sqrtf(longest);
        for (size_t q = 0; q < 2 * r->count; q += QUERIES) {
            size_t height = 2 * r->count - q < QUERIES ? 2 * r->count - q : QUERIES;
            int error = tide_cpu_gemm(false, true, height, width, d, 1, r->vectors + q * d, d, tile_rows, d, 0,
                                      r->scores, width);
            if (error) {
                return error;
            }
            for (size_t i = 0; i < height; i++) {
                compare(r, q + i, r->scores + i * width, tile_rows, base + tile, width, longest);
            }
        }
    }
    return 0;
}

static int fetch(struct ranking *r, int side, uint64_t base, size_t *count, void *handle) {
    uint64_t left = r->entity_count - base;
    *count = left < CHUNK ? (size_t)left : CHUNK;
    for (size_t i = 0; i < *count; i++) {
        r->keys[side][i] = base + i;
    }
    return r->entities.pull_start(r->entities.table, r->keys[side], *count, r->chunks[side], handle);
}

static int compare_all(struct ranking *r) {
    _Alignas(16) uint8_t handles[2][64];
    size_t counts[2];
    int error = fetch(r, 0, 0, &counts[0], handles[0]);
    int side = 0;
    for (uint64_t base = 0; base < r->entity_count && !error; base += CHUNK, side = !side) {
        error = r->entities.wait(handles[side]);
        bool more = !error && base + CHUNK < r->entity_count;
        if (more) {
            error = fetch(r, !side, base + CHUNK, &counts[!side], handles[!side]);
            more = !error;
        }
        error = error ? error : compare_chunk(r, r->chunks[side], base, counts[side]);
        if (error && more) {
            r->entities.wait(handles[!side]);
        }
    }
    return error;
}

/* ---- the kernel ---- */

static int ranking_init(struct ranking *r) {
    size_t d = r->width;
    r->known_objects = tide_alloc((r->known_count + 1) * sizeof(struct known));
    r->known_subjects = tide_alloc((r->known_count + 1) * sizeof(struct known));
    r->vectors = tide_workspace_alloc((2 * r->count * d + 16) * sizeof(float));
    r->queries = tide_alloc((2 * r->count + 1) * sizeof(struct query));
    r->scores = tide_workspace_alloc((size_t)QUERIES * TILE * sizeof(float));
    r->near = tide_alloc(TILE * sizeof(uint32_t));
    for (int i = 0; i < 2; i++) {
        r->chunks[i] = tide_workspace_alloc((size_t)CHUNK * d * sizeof(float));
        r->keys[i] = tide_alloc(CHUNK * sizeof(uint64_t));
    }
    return r->known_objects && r->known_subjects && r->vectors && r->queries && r->scores && r->near && r->chunks[0] &&
                   r->chunks[1] && r->keys[0] && r->keys[1]
               ? 0
               : TIDE_ENOMEM;
}

static void ranking_deinit(struct ranking *r) {
    tide_free(r->known_objects);
    tide_free(r->known_subjects);
    tide_workspace_free(r->vectors);
    tide_free(r->queries);
    tide_workspace_free(r->scores);
    tide_free(r->near);
    for (int i = 0; i < 2; i++) {
        tide_workspace_free(r->chunks[i]);
        tide_free(r->keys[i]);
    }
}

static int rank_all(struct ranking *r) {
    int error = ranking_init(r);
    if (error || r->count == 0) {
        return error;
    }
    for (size_t i = 0; i < r->known_count; i++) {
        const uint32_t *t = r->known_triples + 3 * i;
        r->known_objects[i] = (struct known){t[0], t[1], t[2]};
        r->known_subjects[i] = (struct known){t[2], t[1], t[0]};
    }
    const size_t kept[2] = {known_sort(r->known_objects, r->known_count),
                            known_sort(r->known_subjects, r->known_count)};
    error = make_queries(r, kept);
    return error ? error : compare_all(r);
}

enum {
    ALL,
    MRR,
    HITS1,
    HITS3,
    HITS10,
    RANK,
    RAW_MRR,
    RAW_HITS1,
    RAW_HITS3,
    RAW_HITS10,
    RAW_RANK,
    OBJECT_MRR,
    SUBJECT_MRR,
    RESULT_COUNT
};

/* Adds one rank to the five sums that start at `sums`. */
static void add_rank(struct tide_result *sums, double rank) {
    sums[0].value += 1 / rank;
    sums[1].value += rank <= 1;
    sums[2].value += rank <= 3;
    sums[3].value += rank <= 10;
    sums[4].value += rank;
}

static void sum_up(const struct ranking *r, struct tide_result *results) {
    static const char *const names[RESULT_COUNT] = {"count",    "mrr",        "hits1",      "hits3",     "hits10",
                                                    "rank",     "raw_mrr",    "raw_hits1",  "raw_hits3", "raw_hits10",
                                                    "raw_rank", "object_mrr", "subject_mrr"};
    for (int i = 0; i < RESULT_COUNT; i++) {
        results[i] = (struct tide_result){names[i], 0};
    }
    for (size_t i = 0; i < 2 * r->count; i++) {
        const struct query *q = &r->queries[i];
        double raw = 1 + (double)q->better + (double)q->tied / 2;
        double rank = 1 + (double)(q->better - q->known_better) + (double)(q->tied - q->known_tied) / 2;
        add_rank(&results[MRR], rank);
        add_rank(&results[RAW_MRR], raw);
        results[i % 2 ? SUBJECT_MRR : OBJECT_MRR].value += 1 / rank;
        results[ALL].value += 1;
    }
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    const struct tide_kernel *k = &tide_kernel_kge_rank;
    struct ranking r;
    memset(&r, 0, sizeof(r));
    r.entities = arguments[ENTITIES].rows;
    r.relations = arguments[RELATIONS].rows;
    r.width = r.entities.width;
    r.triples = arguments[TRIPLES].tensor.data;
    size_t triples = 0;
    int code = kge_model_of(&arguments[MODEL], &r.model, error);
    code = code ? code : kge_widths(r.model, &r.entities, &r.relations, error);
    code = code ? code : tide_kernel_triples(k, arguments, TRIPLES, &triples, error);
    code = code ? code : kge_part(k, arguments, FIRST, COUNT, triples, &r.first, &r.count, error);
    code = code ? code : tide_kernel_whole(k, arguments, ENTITY_COUNT, 1, UINT32_MAX, &r.entity_count, error);
    code = code ? code : kge_check(r.triples, r.first, r.count, r.entity_count, r.relations.key_count, error);
    if (!code && arguments[KNOWN].given) {
        r.known_triples = arguments[KNOWN].tensor.data;
        code = tide_kernel_triples(k, arguments, KNOWN, &r.known_count, error);
        code = code ? code : kge_check(r.known_triples, 0, r.known_count, r.entity_count, 0, error);
    }
    if (code) {
        return code;
    }
    code = rank_all(&r);
    if (!code) {
        sum_up(&r, results);
    }
    ranking_deinit(&r);
    return code ? tide_kernel_fail(error, code, "ranking: %.200s",
                                   code == TIDE_ENOMEM ? "out of memory" : tide_error_message())
                : RESULT_COUNT;
}

const struct tide_kernel tide_kernel_kge_rank = {
    "kge_rank",
    "Ranks both sides of triples among all entities; results are sums, so that parts add up. "
    "Bordes et al., NeurIPS 2013, section 4.2; ties count half.",
    parameters, PARAMETER_COUNT, run};
