/* Every available backend against plain loops in float64; why an absent one is absent. */
#include "base/base.h"
#include "tensor/cpu/gemm.h"
#include "tensor/reference/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const float nan_value = (float)NAN;

struct shape {
    size_t m, n, k;
};

static void fill(float *data, size_t count, uint64_t seed) {
    struct tide_random random;
    tide_random_seed(&random, seed);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(2 * tide_random_uniform(&random) - 1);
    }
}

/* One product with rows longer than they need be; what lies between the rows must stay. */
static void check_product(const struct tide_backend *backend, struct shape s, bool ta, bool tb,
                          float alpha, float beta) {
    size_t lda = (ta ? s.m : s.k) + 3, ldb = (tb ? s.k : s.n) + 1, ldc = s.n + 2;
    size_t size_a = (ta ? s.k : s.m) * lda, size_b = (tb ? s.n : s.k) * ldb, size_c = s.m * ldc;
    size_t bytes_c = size_c * sizeof(float);
    float *a = calloc(size_a + 1, sizeof(float)), *b = calloc(size_b + 1, sizeof(float));
    float *c = calloc(size_c + 1, sizeof(float)), *got = calloc(size_c + 1, sizeof(float));
    fill(a, size_a, 1);
    fill(b, size_b, 2);
    fill(c, size_c, 3);
    if (beta == 0 && size_c) {
        c[0] = nan_value; /* with beta 0 the old values do not count, not even these */
    }
    float *da = backend->allocate(size_a * sizeof(float));
    float *db = backend->allocate(size_b * sizeof(float));
    float *dc = backend->allocate(bytes_c);
    assert_true(da && db && dc);
    assert_int_equal(backend->upload(da, a, size_a * sizeof(float)), 0);
    assert_int_equal(backend->upload(db, b, size_b * sizeof(float)), 0);
    assert_int_equal(backend->upload(dc, c, bytes_c), 0);
    assert_int_equal(backend->gemm(ta, tb, s.m, s.n, s.k, alpha, da, lda, db, ldb, beta, dc, ldc),
                     0);
    assert_int_equal(backend->download(got, dc, bytes_c), 0);
    /* Large ones by samples. */
    size_t stride = s.m * s.n * s.k > 10000000 ? 97 : 1;
    for (size_t e = 0; e < s.m * ldc; e += stride) {
        size_t i = e / ldc, j = e % ldc;
        if (j >= s.n) {
            assert_memory_equal(&got[e], &c[e], sizeof(float));
            continue;
        }
        double want = reference_gemm_element(ta, tb, s.k, (double)alpha, a, lda, b, ldb,
                                             (double)beta, (double)c[e], i, j);
        double bound = 1e-6 * (4 + (double)s.k); /* elements are at most 1 in size */
        if (!(fabs((double)got[e] - want) <= bound)) {
            fail_msg("%s %zux%zux%zu %d%d at %zu,%zu: %.9g, not %.9g", backend->name, s.m, s.n, s.k,
                     ta, tb, i, j, (double)got[e], want);
        }
    }
    backend->release(da);
    backend->release(db);
    backend->release(dc);
    free(a);
    free(b);
    free(c);
    free(got);
}

static void check_backend(const struct tide_backend *backend) {
    static const struct shape shapes[] = {
        {0, 0, 0},     {0, 5, 3},      {5, 0, 3},       {4, 5, 0},        {1, 1, 1},
        {1, 9, 1},     {7, 1, 13},     {2, 3, 5},       {8, 8, 8},        {17, 31, 63},
        {129, 65, 33}, {1, 1000, 200}, {513, 257, 101}, {256, 1024, 200}, {1024, 64, 700}};
    for (size_t i = 0; i < TIDE_COUNT(shapes); i++) {
        for (int t = 0; t < 4; t++) {
            check_product(backend, shapes[i], t & 1, t & 2, 1, 0);
        }
        check_product(backend, shapes[i], false, true, -0.5f, 1);
        check_product(backend, shapes[i], true, false, 2, 0.25f);
    }
}

/* NaN and infinity come through a product, and only in their row or column. */
static void check_not_finite(const struct tide_backend *backend) {
    enum { N = 40 };
    float a[N * N], b[N * N], c[N * N];
    fill(a, N * N, 4);
    fill(b, N * N, 5);
    a[3 * N + 7] = nan_value;
    b[2 * N + 5] = (float)INFINITY;
    float *da = backend->allocate(sizeof(a)), *db = backend->allocate(sizeof(b));
    float *dc = backend->allocate(sizeof(c));
    assert_int_equal(backend->upload(da, a, sizeof(a)), 0);
    assert_int_equal(backend->upload(db, b, sizeof(b)), 0);
    assert_int_equal(backend->gemm(false, false, N, N, N, 1, da, N, db, N, 0, dc, N), 0);
    assert_int_equal(backend->download(c, dc, sizeof(c)), 0);
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            assert_int_equal(isnan(c[i * N + j]) != 0, i == 3);
            assert_int_equal(isinf(c[i * N + j]) != 0, i != 3 && j == 5);
        }
    }
    backend->release(da);
    backend->release(db);
    backend->release(dc);
}

static void cpu_products_agree_with_float64(void **state) {
    (void)state;
    check_backend(tide_backend_cpu());
}

static void cpu_products_carry_nan_and_infinity(void **state) {
    (void)state;
    check_not_finite(tide_backend_cpu());
}

static void cpu_describes_itself(void **state) {
    (void)state;
    const struct tide_backend *cpu = tide_backend_cpu();
    char text[200] = "";
    assert_int_equal(cpu->abi, TIDE_KERNEL_ABI);
    assert_int_equal(cpu->size, sizeof(struct tide_backend));
    assert_string_equal(cpu->build_id, TIDE_VERSION);
    assert_int_equal(cpu->probe(text, sizeof(text)), 0);
    assert_true(strlen(text) > 0);
}

static void a_leading_dimension_shorter_than_its_row_is_refused(void **state) {
    (void)state;
    float x[16] = {0};
    const struct tide_backend *cpu = tide_backend_cpu();
    assert_int_equal(cpu->gemm(false, false, 4, 4, 4, 1, x, 3, x, 4, 0, x, 4), TIDE_EINVAL);
    assert_int_equal(cpu->gemm(false, false, 4, 4, 4, 1, x, 4, x, 3, 0, x, 4), TIDE_EINVAL);
    assert_int_equal(cpu->gemm(false, false, 4, 4, 4, 1, x, 4, x, 4, 0, x, 3), TIDE_EINVAL);
    assert_int_equal(cpu->gemm(true, false, 4, 4, 2, 1, x, 2, x, 4, 0, x, 4), TIDE_EINVAL);
    assert_int_equal(cpu->gemm(false, false, (size_t)1 << 31, 1, 1, 1, x, 1, x, 1, 0, x, 1),
                     TIDE_EINVAL);
}

static void cuda_agrees_with_float64_or_says_why_it_is_absent(void **state) {
    (void)state;
    char text[400] = "";
    const char *directory = getenv("TIDE_CUDA_DIRECTORY");
    const struct tide_backend *cuda = tide_backend_cuda(directory, text, sizeof(text));
    if (!cuda) {
        assert_true(strlen(text) > 0);
        print_message("no CUDA here: %s\n", text);
        skip();
    }
    check_backend(cuda);
    check_not_finite(cuda);
}

static void a_missing_plugin_gives_a_reason(void **state) {
    (void)state;
    char text[400] = "";
    assert_null(tide_backend_cuda("/nonexistent", text, sizeof(text)));
    assert_non_null(strstr(text, "/nonexistent/tide_cuda.so"));
}

static void a_plugin_that_is_not_ours_gives_a_reason(void **state) {
    (void)state;
    char directory[] = "/tmp/tide-backend-XXXXXX", path[64], text[400] = "";
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/tide_cuda.so", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("this is no shared object", file);
    fclose(file);
    assert_null(tide_backend_cuda(directory, text, sizeof(text)));
    assert_non_null(strstr(text, "tide_cuda.so"));
    unlink(path);
    assert_int_equal(symlink("libm.so.6", path), 0); /* resolves nowhere */
    assert_null(tide_backend_cuda(directory, text, sizeof(text)));
    assert_true(strlen(text) > 0);
    unlink(path);
    rmdir(directory);
}

static void a_path_that_is_too_long_gives_a_reason(void **state) {
    (void)state;
    char directory[5000], text[100] = "";
    memset(directory, 'x', sizeof(directory));
    directory[sizeof(directory) - 1] = 0;
    assert_null(tide_backend_cuda(directory, text, sizeof(text)));
    assert_true(strlen(text) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_products_agree_with_float64),
        cmocka_unit_test(cpu_products_carry_nan_and_infinity),
        cmocka_unit_test(cpu_describes_itself),
        cmocka_unit_test(a_leading_dimension_shorter_than_its_row_is_refused),
        cmocka_unit_test(cuda_agrees_with_float64_or_says_why_it_is_absent),
        cmocka_unit_test(a_missing_plugin_gives_a_reason),
        cmocka_unit_test(a_plugin_that_is_not_ours_gives_a_reason),
        cmocka_unit_test(a_path_that_is_too_long_gives_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
