/* The matrix library: there when somebody multiplies, with one thread and a core of this processor. */
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

static int product(void) {
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    float c[4];
    const int code = tide_cpu_gemm(false, false, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    return code == 0 && c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50 ? 0 : 1;
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
        cmocka_unit_test(its_core_is_what_the_processor_has_unless_the_environment_names_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
