/*
 * What the C of a package uses of the program that loads it, besides tide/kernel.h: memory, random streams, the
 * processor's instruction set and the reading of checked arguments. A package links nothing: the program has these.
 */
#ifndef TIDE_PUBLIC_PACKAGE_H
#define TIDE_PUBLIC_PACKAGE_H

#include "tide/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Elements of tensors, and of typed arrays in messages (ext codes of MessagePack). */
enum tide_ext {
    TIDE_F32 = 1,
    TIDE_F64,
    TIDE_F16,
    TIDE_BF16,
    TIDE_I32,
    TIDE_I64,
    TIDE_U64,
    TIDE_U8,
    TIDE_U32,
    TIDE_U16
};

struct tide_kernel;
struct tide_argument;

/* ---- Memory. NULL on failure, with ENOMEM set. Any thread. ---- */
void *tide_alloc(size_t size);
void *tide_alloc_zero(size_t count, size_t size);
void *tide_realloc(void *memory, size_t size);
void tide_free(void *memory); /* of any of the above; NULL is fine */
/* Aligned to cache lines, for megabytes that a call of a kernel takes and gives back. */
void *tide_workspace_alloc(size_t size);
void tide_workspace_free(void *workspace);

/* ---- Random: xoshiro256++ streams; the same numbers on every machine. ---- */
struct tide_random {
    uint64_t s[4];
};
void tide_random_seed(struct tide_random *random, uint64_t seed);
uint64_t tide_random_next(struct tide_random *random);
double tide_random_uniform(struct tide_random *random);                 /* [0, 1) */
uint64_t tide_random_below(struct tide_random *random, uint64_t limit); /* unbiased; limit > 0 */
uint64_t tide_mix64(uint64_t x);                                        /* splitmix64 finaliser: a bijection */

/* ---- The instruction set of kernels: the widest of the processor, or a narrower one that TIDE_ISA names. ---- */
enum tide_isa {
    TIDE_ISA_PLAIN,
    TIDE_ISA_AVX2,   /* with FMA and F16C */
    TIDE_ISA_AVX512, /* F, BW, DQ and VL */
};
extern enum tide_isa tide_isa; /* constant */

/* ---- Arguments of a kernel. `error` is the kernel's; functions that fail have written the reason. ---- */
/* Writes the reason and returns the code. */
int tide_kernel_fail(char *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A number argument, or its default, as a whole number within [least, most]; else EINVAL naming it. */
int tide_kernel_whole(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                      uint64_t least, uint64_t most, uint64_t *out, char *error);
/* A number argument, or its default; EINVAL unless finite and >= 0. */
int tide_kernel_weight(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       float *out, char *error);
/* Which of `choices` (count of them) a text argument is; choice 0 when not given. */
int tide_kernel_choice(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       const char *const *choices, size_t count, size_t *out, char *error);

#ifdef __cplusplus
}
#endif
#endif
