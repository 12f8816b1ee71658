/* The devices that run operations on this machine, and what operations are called. */
#include "tensor/isa.h"
#include "kernel.h"
#include "operation.h"
#include "tide.h"

#include <stdatomic.h>
#include <string.h>

#define SET(isa)                                                                                                       \
    extern const tide_op_function tide__op_functions_##isa[TIDE_OP_COUNT];                                             \
    size_t tide__op_scratch_##isa(enum tide_op_code code, const struct tide_op_call *call);                            \
    void tide__op_update_##isa(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b);         \
    double tide__op_norm2_##isa(size_t n, const void *x);
SET(plain)
SET(reference)
#define DEVICE(text, isa, bytes)                                                                                       \
    {                                                                                                                  \
        .name = text, .element = (bytes), .functions = tide__op_functions_##isa, .scratch = tide__op_scratch_##isa,    \
        .update = tide__op_update_##isa, .norm2 = tide__op_norm2_##isa                                                 \
    }
static const struct tide_device plain = DEVICE("cpu-plain", plain, sizeof(float));
static const struct tide_device reference = DEVICE("reference", reference, sizeof(double));

#if defined(__x86_64__)
SET(avx2)
SET(avx512)
static const struct tide_device avx2 = DEVICE("cpu-avx2", avx2, sizeof(float));
static const struct tide_device avx512 = DEVICE("cpu-avx512", avx512, sizeof(float));

static const struct tide_device *wide(const char *name) {
    bool any = strcmp(name, "cpu") == 0;
    if (tide_isa >= TIDE_ISA_AVX512 && (any || strcmp(name, avx512.name) == 0)) {
        return &avx512;
    }
    if (tide_isa >= TIDE_ISA_AVX2 && (any || strcmp(name, avx2.name) == 0)) {
        return &avx2;
    }
    return NULL;
}
#else
static const struct tide_device *wide(const char *name) {
    (void)name;
    return NULL;
}
#endif

static const struct tide_device *cuda(void) {
    static const struct tide_device *_Atomic found; /* asking the driver takes long */
    const struct tide_device *device = atomic_load_explicit(&found, memory_order_acquire);
    if (!device) {
        char reason[256] = "";
        const struct tide_backend *backend = tide_backend_cuda(NULL, reason, sizeof(reason));
        if (!backend) {
            tide_fail(TIDE_EUNSUPPORTED, "no CUDA device can be used here: %s", reason);
            return NULL;
        }
        device = backend->device;
        atomic_store_explicit(&found, device, memory_order_release); /* with the load above */
    }
    return device;
}

const struct tide_device *tide_device_find(const char *name) {
    const struct tide_device *device = wide(name);
    if (device) {
        return device;
    }
    if (strcmp(name, "cpu") == 0 || strcmp(name, plain.name) == 0) {
        return &plain;
    }
    if (strcmp(name, reference.name) == 0) {
        return &reference;
    }
    if (strcmp(name, "cuda") == 0) {
        return cuda();
    }
    tide_fail(TIDE_ENOENT, "no device is named \"%s\" here: cpu, cpu-plain, cpu-avx2, cpu-avx512, cuda, reference",
              name);
    return NULL;
}

unsigned tide_rule_states(enum tide_rule rule) {
    return rule == TIDE_RULE_SGD ? 0 : rule < TIDE_RULE_ADAM ? 1 : 2;
}

const char *const tide_op_names[TIDE_OP_COUNT + 1] = {
#define TIDE_OPERATION(code, name, ...) #name,
#include "operations.def"
#undef TIDE_OPERATION
    "reshape",
};

const struct tide_op_traits tide_op_traits[TIDE_OP_COUNT] = {
#define TIDE_OPERATION(code, name, in, out, integers, flags, ...) {in, out, integers, flags},
#include "operations.def"
#undef TIDE_OPERATION
    {1, 1, 1, 0},
};

const char *const tide_micro_names[TIDE_MICRO_COUNT + 1] = {
    "neg",  "abs", "sqr", "sqrt", "rsqrt", "recip", "exp", "log", "log1p", "sigmoid", "tanh", "relu",   "softplus",
    "sign", "erf", "add", "sub",  "mul",   "div",   "min", "max", "eq",    "gt",      "ge",   "select",
};
