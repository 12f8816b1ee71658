/*
 * Loading OpenBLAS. It reads the environment once, while it is loaded: how many threads to start
 * and which core to take. The process's own environment is not written, because other threads may
 * be reading it: `environ` points for the time of the loading to a copy with the two names, which
 * stays allocated.
 */
#include "tensor/cpu/blas.h"
#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

static struct tide_blas blas;
static char reason[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The core that fits this processor where `core` makes nothing of its vector units; else NULL. */
static const char *better_core(const char *core) {
#if defined(__x86_64__)
    static const char *const without_avx2[] = {
        "Katmai", "Coppermine",   "Northwood", "Prescott",    "Banias",    "Atom",       "Core2",
        "Penryn", "Dunnington",   "Nehalem",   "Nano",        "Athlon",    "Opteron",    "Barcelona",
        "Bobcat", "Opteron_SSE3", "Generic",   "Sandybridge", "Bulldozer", "Piledriver", "Steamroller"};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(without_avx2) / sizeof(without_avx2[0]); i++) {
        if (strcasecmp(core, without_avx2[i]) == 0) {
            bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512cd");
            return wide ? "SkylakeX" : "Haswell";
        }
    }
#endif
    (void)core;
    return NULL;
}

/* A copy of the environment with `text` ("NAME=value") first, so that it is what is found. */
static char **environment_with(char **old, char *text) {
    size_t count = 0;
    while (old && old[count]) {
        count++;
    }
    char **copy = tide_alloc_zero(count + 2, sizeof(char *));
    if (copy) {
        copy[0] = text;
        if (count) {
            memcpy(copy + 1, old, count * sizeof(char *));
        }
    }
    return copy;
}

/* ISO C has no cast from object to function pointer. */
static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof(symbol));
    return symbol;
}

/* Has the library choose its core anew, as the environment at hand says. */
static void choose_core(void *library, const char *core) {
    static char text[64];
    void (*quit)(void), (*init)(void);
    if (!find(library, "gotoblas_dynamic_quit", &quit) || !find(library, "gotoblas_dynamic_init", &init)) {
        return; /* built for one core: that one it is */
    }
    (void)snprintf(text, sizeof(text), "OPENBLAS_CORETYPE=%s", core);
    char **own = environ, **with = environment_with(own, text);
    if (with) {
        environ = with;
        quit();
        init();
        environ = own;
        tide_free(with);
    }
}

static void load(void) {
    static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
    char **own = environ, **with = environment_with(own, one_thread);
    if (with) {
        environ = with;
    }
    void *library = dlopen(TIDE_BLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    environ = own;
    tide_free(with);
    if (!library || !find(library, "cblas_sgemm", &blas.sgemm) || !find(library, "cblas_dgemm", &blas.dgemm) ||
        !find(library, "cblas_sgemv", &blas.sgemv) || !find(library, "dsyevr_", &blas.dsyevr)) {
        (void)snprintf(reason, sizeof(reason), "%s", dlerror());
        blas.sgemm = NULL;
        return;
    }
    void (*set_threads)(int);
    char *(*text)(void);
    blas.core = "";
    blas.config = "CBLAS";
    if (find(library, "openblas_set_num_threads", &set_threads)) {
        set_threads(1); /* also if another library had loaded it */
    }
    if (find(library, "openblas_get_corename", &text)) {
        const char *better = getenv("OPENBLAS_CORETYPE") ? NULL : better_core(text());
        if (better) {
            choose_core(library, better);
        }
        blas.core = text();
    }
    if (find(library, "openblas_get_config", &text)) {
        blas.config = text();
    }
}

const struct tide_blas *tide_blas(void) {
    (void)pthread_once(&once, load);
    if (!blas.sgemm) {
        tide_fail(TIDE_EUNSUPPORTED, "matrix products need OpenBLAS: %s", reason);
        return NULL;
    }
    return &blas;
}
