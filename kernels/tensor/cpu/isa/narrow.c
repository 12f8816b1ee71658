/*
 * Products with few columns or few rows. A matrix library copies both operands into blocks first, which takes longer
 * than such a product. Here a tile of sums stays in registers while the terms stream by, read where they lie.
 *
 * A sum runs over k in order, DEPTH terms at a time. Its error is at most min(k, DEPTH) + k / DEPTH + 2 epsilons of the
 * sum of magnitudes, and where multiply and add are one operation its bits do not depend on the registers' width.
 */
#include "tensor/cpu/gemm.h"
#include "tensor/cpu/isa/isa.h"

/* Rows of a tile with one and with two registers of columns. */
#if defined(__AVX512F__)
enum { ROWS_ONE = 14, ROWS_TWO = 12 };
#elif defined(__AVX2__)
enum { ROWS_ONE = 8, ROWS_TWO = 6 };
#else
enum { ROWS_ONE = 8, ROWS_TWO = 4 };
#endif
/* OUTER: terms of all tiles before further terms. ACROSS: likewise where each term lies in a page of its own, so that
 * the processor can follow them; AHEAD: floats from a tile of a transposed `a` to the line that is prefetched. */
enum { FEW = 4, DEPTH = 128, OUTER = 1024, ACROSS = 16, AHEAD = 32 };

/* c = alpha sum + beta c for the first terms; later ones are added. */
TIDE_INLINE tide_vec merged(const struct tide_product *p, bool first, tide_vec sum, tide_vec c) {
    sum *= p->alpha;
    if (!first) {
        sum += c;
    } else if (p->beta != 0) {
        sum += p->beta * c;
    }
    return sum;
}

/* Terms k .. k + count - 1 of rows i .. i + rows - 1 and q registers of columns from j. Rows before `from` and the
 * first `old` columns are done already. */
TIDE_INLINE void tile(const struct tide_product *p, bool ta, size_t rows, size_t q, size_t k, size_t count, size_t i,
                      size_t from, size_t j, size_t old) {
    const size_t lda = p->lda;
    const float *a = p->a + (ta ? k * lda + i : i * lda + k), *b = p->b + k * p->ldb + j;
    tide_vec sum[ROWS_ONE][2];
    TIDE_UNROLLED
    for (size_t r = 0; r < rows; r++) {
        sum[r][0] = sum[r][1] = (tide_vec){0};
    }
    for (size_t x = 0; x < count; x++, b += p->ldb) {
        if (ta) {
            __builtin_prefetch(a + x * lda + AHEAD);
        }
        const tide_vec b0 = VECC(b), b1 = q > 1 ? VECC(b + TIDE_LANES) : b0;
        TIDE_UNROLLED
        for (size_t r = 0; r < rows; r++) {
            const float value = ta ? a[x * lda + r] : a[r * lda + x];
            sum[r][0] += value * b0;
            if (q > 1) {
                sum[r][1] += value * b1;
            }
        }
    }
    TIDE_UNROLLED
    for (size_t r = 0; r < rows; r++) {
        float *c = p->c + (i + r) * p->ldc + j;
        if (i + r < from) {
            continue;
        }
        const tide_vec first = merged(p, k == 0, sum[r][0], VECC(c));
        memcpy(c + old, (const float *)&first + old, (TIDE_LANES - old) * sizeof(float));
        if (q > 1) {
            VEC(c + TIDE_LANES) = merged(p, k == 0, sum[r][1], VECC(c + TIDE_LANES));
        }
    }
}

/* The terms of rows i .. i + rows - 1 and the columns from j on; returns how many columns those were. */
TIDE_INLINE size_t terms(const struct tide_product *p, bool ta, size_t rows, size_t q, size_t k, size_t end, size_t i,
                         size_t from, size_t j) {
    const size_t left = p->n - j, old = left < TIDE_LANES ? TIDE_LANES - left : 0;
    for (; k < end; k += DEPTH) {
        const size_t count = end - k < DEPTH ? end - k : DEPTH;
        if (old > 0) {
            tile(p, ta, rows, 1, k, count, i, from, j - old, old);
        } else {
            tile(p, ta, rows, q, k, count, i, from, j, 0);
        }
    }
    return q * TIDE_LANES;
}

/* Terms k .. end - 1 of rows i .. i + rows - 1. */
TIDE_INLINE void strip(const struct tide_product *p, bool ta, size_t rows, size_t k, size_t end, size_t i,
                       size_t from) {
    for (size_t j = 0; j < p->n;) {
        j += p->n - j >= 2 * TIDE_LANES ? terms(p, ta, rows, 2, k, end, i, from, j)
                                        : terms(p, ta, rows, 1, k, end, i, from, j);
    }
}

/* All rows: many at a time, or a few, or one by one; the last ones reach back over rows that are done. */
TIDE_INLINE void all_rows(const struct tide_product *p, bool ta, size_t k, size_t end) {
    const size_t most = p->n < 2 * TIDE_LANES ? ROWS_ONE : ROWS_TWO;
    const size_t rows = p->m >= most ? most : p->m >= FEW ? FEW : 1;
    for (size_t i = 0; i < p->m; i += rows) {
        const size_t at = p->m - i < rows ? p->m - rows : i;
        if (rows == 1) {
            strip(p, ta, 1, k, end, at, i);
        } else if (rows == FEW) {
            strip(p, ta, FEW, k, end, at, i);
        } else if (rows == ROWS_TWO) {
            strip(p, ta, ROWS_TWO, k, end, at, i);
        } else {
            strip(p, ta, ROWS_ONE, k, end, at, i);
        }
    }
}

void OP(narrow)(const struct tide_product *p) {
    const size_t outer = p->ta || p->m < p->n ? ACROSS : OUTER;
    for (size_t k = 0; k < p->k; k += outer) {
        const size_t end = p->k - k < outer ? p->k : k + outer;
        p->ta ? all_rows(p, true, k, end) : all_rows(p, false, k, end);
    }
}
