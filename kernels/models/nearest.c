/*
 * nearest_rows: the keys whose rows point in the direction of one key's row (cosine), for a look at
 * a trained table. Reads the whole table once, in chunks, the next one in flight while one is
 * compared. Rows of length 0 and rows with a NaN are left out; of equal scores the smaller key
 * comes first.
 */
#include "base/base.h"
#include "arguments.h"
#include "kernels.h"
#include "models/kge.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 4096, MOST = 8 /* two results each */ };

enum { ROWS, KEY, COUNT, LIMIT, PARAMETER_COUNT };

static const struct tide_parameter parameters[PARAMETER_COUNT] = {
    [ROWS] = {"rows", TIDE_ROWS, 0, true, 0, "the table"},
    [KEY] = {"key", TIDE_NUMBER, 0, true, 0, "whose neighbours"},
    [COUNT] = {"count", TIDE_NUMBER, 0, false, 0, "candidates are the keys 0 .. count-1; 0: all keys of a dense table"},
    [LIMIT] = {"limit", TIDE_NUMBER, 0, false, MOST, "how many neighbours, 1 to 8"},
};

struct nearest {
    struct tide_rows rows;
    uint64_t key, count, limit;
    float *own, *chunks[2];
    uint64_t *keys[2];
    double scores[MOST];
    uint64_t found[MOST];
    size_t size;
};

static void offer(struct nearest *n, uint64_t key, double score) {
    if (n->size == n->limit && !(score > n->scores[n->size - 1])) {
        return;
    }
    size_t at = n->size < n->limit ? n->size++ : n->size - 1;
    for (; at > 0 && score > n->scores[at - 1]; at--) {
        n->scores[at] = n->scores[at - 1];
        n->found[at] = n->found[at - 1];
    }
    n->scores[at] = score;
    n->found[at] = key;
}

static void compare(struct nearest *n, uint64_t base, size_t count, const float *rows) {
    size_t d = n->rows.width;
    double own = sqrt((double)kge_dot(d, n->own, n->own));
    for (size_t i = 0; i < count; i++) {
        const float *row = rows + i * d;
        double length = sqrt((double)kge_dot(d, row, row));
        double score = (double)kge_dot(d, n->own, row) / (own * length);
        if (base + i != n->key && isfinite(score)) {
            offer(n, base + i, score);
        }
    }
}

static int fetch(struct nearest *n, int side, uint64_t base, size_t *count, void *handle) {
    *count = n->count - base < CHUNK ? (size_t)(n->count - base) : CHUNK;
    for (size_t i = 0; i < *count; i++) {
        n->keys[side][i] = base + i;
    }
    return n->rows.pull_start(n->rows.table, n->keys[side], *count, n->chunks[side], handle);
}

static int search(struct nearest *n) {
    _Alignas(16) uint8_t handles[2][64];
    size_t counts[2];
    int side = 0, error = n->rows.pull(n->rows.table, &n->key, 1, n->own);
    error = error ? error : fetch(n, 0, 0, &counts[0], handles[0]);
    for (uint64_t base = 0; base < n->count && !error; base += CHUNK, side = !side) {
        error = n->rows.wait(handles[side]);
        if (!error && base + CHUNK < n->count) {
            error = fetch(n, !side, base + CHUNK, &counts[!side], handles[!side]);
        }
        if (!error) {
            compare(n, base, counts[side], n->chunks[side]);
        }
    }
    return error;
}

static int run(const struct tide_argument *arguments, struct tide_result *results, char *error) {
    static const char *const names[2 * MOST] = {"key1", "score1", "key2", "score2", "key3", "score3", "key4", "score4",
                                                "key5", "score5", "key6", "score6", "key7", "score7", "key8", "score8"};
    const struct tide_kernel *k = &tide_kernel_nearest_rows;
    struct nearest n;
    memset(&n, 0, sizeof(n));
    n.rows = arguments[ROWS].rows;
    int code = tide_kernel_whole(k, arguments, COUNT, 0, 1ull << 53, &n.count, error);
    if (!code && n.count == 0) {
        n.count = n.rows.key_count;
    }
    if (!code && n.count == 0) {
        code = tide_kernel_fail(error, TIDE_EINVAL, "count: a hashed table needs it");
    }
    code = code ? code : tide_kernel_whole(k, arguments, KEY, 0, n.count - 1, &n.key, error);
    code = code ? code : tide_kernel_whole(k, arguments, LIMIT, 1, MOST, &n.limit, error);
    if (code) {
        return code;
    }
    size_t row = (size_t)n.rows.width * sizeof(float);
    n.own = tide_workspace_alloc(row);
    bool enough = n.own;
    for (int i = 0; i < 2; i++) {
        n.chunks[i] = tide_workspace_alloc(CHUNK * row);
        n.keys[i] = tide_alloc(CHUNK * sizeof(uint64_t));
        enough = enough && n.chunks[i] && n.keys[i];
    }
    code = enough ? search(&n) : TIDE_ENOMEM;
    tide_workspace_free(n.own);
    for (int i = 0; i < 2; i++) {
        tide_workspace_free(n.chunks[i]);
        tide_free(n.keys[i]);
    }
    if (code) {
        return tide_kernel_fail(error, code, "nearest: %.200s",
                                code == TIDE_ENOMEM ? "out of memory" : tide_error_message());
    }
    for (size_t i = 0; i < n.size; i++) {
        results[2 * i] = (struct tide_result){names[2 * i], (double)n.found[i]};
        results[2 * i + 1] = (struct tide_result){names[2 * i + 1], n.scores[i]};
    }
    return (int)(2 * n.size);
}

const struct tide_kernel tide_kernel_nearest_rows = {
    "nearest_rows", "The rows nearest to one row by cosine, best first: key1, score1, key2, ...", parameters,
    PARAMETER_COUNT, run};
