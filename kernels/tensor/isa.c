#include "tensor/isa.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum tide_isa tide_isa;

static const char *const names[] = {[TIDE_ISA_PLAIN] = "plain", [TIDE_ISA_AVX2] = "avx2", [TIDE_ISA_AVX512] = "avx512"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static enum tide_isa widest(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return TIDE_ISA_PLAIN;
    }
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? TIDE_ISA_AVX512 : TIDE_ISA_AVX2;
#else
    return TIDE_ISA_PLAIN;
#endif
}

/* The set that TIDE_ISA names; NAMES if it names none, `otherwise` without the variable. */
static unsigned named(unsigned otherwise) {
    const char *name = getenv("TIDE_ISA");
    unsigned i = 0;
    while (name && i < NAMES && strcmp(name, names[i]) != 0) {
        i++;
    }
    return name ? i : otherwise;
}

__attribute__((constructor)) static void choose(void) {
    unsigned chosen = named(NAMES);
    tide_isa = widest();
    if (chosen < (unsigned)tide_isa) {
        tide_isa = (enum tide_isa)chosen;
    }
}

int tide_isa_check(void) {
    unsigned chosen = named(TIDE_ISA_PLAIN);
    if (chosen == NAMES) {
        return tide_fail(TIDE_EINVAL, "TIDE_ISA is \"%s\": it takes plain, avx2 or avx512", getenv("TIDE_ISA"));
    }
    if (chosen > (unsigned)widest()) {
        return tide_fail(TIDE_EUNSUPPORTED, "TIDE_ISA is %s, and this processor has %s", names[chosen],
                         names[widest()]);
    }
    return 0;
}
