/* Matrix products: the library is loaded by the first wide one, with one thread and a core of this processor; narrow ones
 * are computed without it, within the error that the order of their sums allows. */
#include "base/base.h"
#include "tensor/cpu/blas.h"
#include "tensor/cpu/gemm.h"
#include "tide.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_mapped(void) {
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        found |= strstr(line, "libopenblas") != NULL;
    }
    fclose(maps);
    return found;
}

static unsigned threads(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(tasks);
    return count;
}

enum { MOST = 1400 };

static int product_of(size_t rows, size_t columns) {
    enum { TERMS = 100, WIDEST = 64 };
    static float a[MOST * TERMS], b[TERMS * WIDEST], c[MOST * WIDEST];
    for (size_t i = 0; i < MOST * TERMS; i++) {
        a[i] = 2;
        b[i % (TERMS * WIDEST)] = 3;
    }
    const int code = tide_cpu_gemm(false, false, rows, columns, TERMS, 1, a, TERMS, b, columns, 0, c, columns);
    return code == 0 && c[0] == 600 && c[rows * columns - 1] == 600 ? 0 : 1;
}

static int product(void) {
    return product_of(64, 64);
}

/* Each in a process that has not loaded it. */
static int in_child(int (*body)(void)) {
    const pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        _exit(body());
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int loads_late(void) {
    const unsigned before = threads();
    if (is_mapped()) {
        return 1;
    }
    if (product() != 0 || !is_mapped()) {
        return 2;
    }
    if (threads() != before) {
        return 3;
    }
    return getenv("OPENBLAS_NUM_THREADS") == NULL ? 0 : 4;
}

static void it_is_loaded_by_the_first_product_and_starts_no_threads(void **state) {
    (void)state;
    unsetenv("OPENBLAS_NUM_THREADS");
    unsetenv("OPENBLAS_CORETYPE");
    assert_int_equal(in_child(loads_late), 0);
}

static int stays_away(void) {
    return product_of(MOST, 16) != 0 ? 1 : is_mapped() ? 2 : 0;
}

static void a_product_with_few_columns_does_not_load_it(void **state) {
    (void)state;
    assert_int_equal(in_child(stays_away), 0);
}

struct shape {
    size_t m, n, k;
};

/* One element in float64, and the sum of its magnitudes. */
static double plain(const float *a, size_t row, size_t term_a, const float *b, size_t column, size_t term_b, size_t k,
                    double *size) {
    double sum = 0;
    for (size_t x = 0; x < k; x++) {
        const double one = (double)a[row + x * term_a] * (double)b[column + x * term_b];
        sum += one;
        *size += fabs(one);
    }
    return sum;
}

static void check_narrow(const struct shape *s, bool ta, bool tb, float alpha, float beta) {
    enum { GAP = 3, DEPTH = 128 };
    const size_t lda = (ta ? s->m : s->k) + GAP, ldb = (tb ? s->k : s->n) + GAP, ldc = s->n + GAP;
    float *a = malloc(lda * (ta ? s->k : s->m) * sizeof(float)), *b = malloc(ldb * (tb ? s->n : s->k) * sizeof(float));
    float *c = malloc(ldc * s->m * sizeof(float));
    struct tide_random random;
    tide_random_seed(&random, 5);
    for (size_t i = 0; i < lda * (ta ? s->k : s->m); i++) {
        a[i] = (float)(2 * tide_random_uniform(&random) - 1);
    }
    for (size_t i = 0; i < ldb * (tb ? s->n : s->k); i++) {
        b[i] = (float)(2 * tide_random_uniform(&random) - 1);
    }
    for (size_t i = 0; i < ldc * s->m; i++) {
        c[i] = beta == 0 ? NAN : 7;
    }
    assert_int_equal(tide_cpu_gemm(ta, tb, s->m, s->n, s->k, alpha, a, lda, b, ldb, beta, c, ldc), 0);
    const double depth = s->k < DEPTH ? (double)s->k : DEPTH, parts = (double)s->k / DEPTH;
    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < ldc; j++) {
            const double got = (double)c[i * ldc + j];
            if (j >= s->n) {
                assert_true(i + 1 == s->m || (beta == 0 ? isnan(got) : got == 7)); /* between rows: untouched */
                continue;
            }
            double size = 0;
            const double sum = plain(a, ta ? i : i * lda, ta ? lda : 1, b, tb ? j * ldb : j, tb ? 1 : ldb, s->k, &size);
            const double want = (double)alpha * sum + 7 * (double)beta;
            const double bound = (depth + parts + 3) * 0x1p-24 * (fabs((double)alpha) * size + 7 * (double)beta);
            if (!(fabs(got - want) <= bound)) {
                fail_msg("%zu x %zu x %zu%s%s: element %zu, %zu is %.9g, not %.9g (bound %.3g)", s->m, s->n, s->k,
                         ta ? " ta" : "", tb ? " tb" : "", i, j, got, want, bound);
            }
        }
    }
    free(a);
    free(b);
    free(c);
}

static void narrow_products_agree_with_float64(void **state) {
    (void)state;
    /* Whole and partial tiles of rows and of columns; sums of one part and of several. */
    static const struct shape shapes[] = {{1000, 16, 137}, {137, 16, 1000}, {333, 32, 450}, {210, 48, 700},
                                          {131, 64, 1030}, {4100, 16, 32},  {1, 600, 300},  {2, 1433, 130},
                                          {4, 530, 257},   {5, 1040, 128},  {13, 333, 400}, {32, 20, 7000}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (unsigned t = 0; t < 4; t++) {
            check_narrow(&shapes[i], t & 1, t & 2, 1, 0);
            check_narrow(&shapes[i], t & 1, t & 2, -0.5f, 1);
            check_narrow(&shapes[i], t & 1, t & 2, 2, 0.25f);
        }
    }
}

/* As a release does that takes this processor for an old one. */
static int is_mistaken(void) {
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    if (!dlopen("libopenblas.so.0", RTLD_NOW)) {
        return 77;
    }
    unsetenv("OPENBLAS_CORETYPE");
    const struct tide_blas *blas = tide_blas();
    if (!blas || product() != 0) {
        return 1;
    }
    return strcmp(blas->core, "Haswell") == 0 || strcmp(blas->core, "SkylakeX") == 0 ? 0 : 2;
}

static int is_told(void) {
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    const struct tide_blas *blas = tide_blas();
    return !blas || product() != 0                ? 1
           : strcmp(blas->core, "Prescott") == 0 ? 0
                                                  : 2;
}

static void its_core_is_what_the_processor_has_unless_the_environment_names_one(void **state) {
    (void)state;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        skip();
    }
    const int code = in_child(is_mistaken);
    if (code == 77) {
        skip();
    }
    assert_int_equal(code, 0);
    assert_int_equal(in_child(is_told), 0);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_loaded_by_the_first_product_and_starts_no_threads),
        cmocka_unit_test(a_product_with_few_columns_does_not_load_it),
        cmocka_unit_test(its_core_is_what_the_processor_has_unless_the_environment_names_one),
        cmocka_unit_test(narrow_products_agree_with_float64), /* the last: it loads the library in this process */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
