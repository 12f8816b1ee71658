/* Small help for kernels: reading checked arguments and giving reasons. */
#ifndef TIDE_KERNEL_ARGUMENTS_H
#define TIDE_KERNEL_ARGUMENTS_H

#include "kernel.h"
#include "wire/wire.h"

enum { KERNEL_ERROR_SIZE = 256 };

/* Writes the reason and returns the code. */
int tide_kernel_fail(char *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A number argument, or its default, as a whole number within [least, most]; else EINVAL naming it.
 */
int tide_kernel_whole(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                      uint64_t least, uint64_t most, uint64_t *out, char *error);
/* A number argument, or its default; EINVAL unless finite and >= 0. */
int tide_kernel_weight(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       float *out, char *error);
/* A tensor of triples: n x 3 u32 (or 3 n x 1); *count = n. */
int tide_kernel_triples(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                        size_t *count, char *error);
/* Which of `choices` (count of them) a text argument is; choice 0 when not given. */
int tide_kernel_choice(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                       const char *const *choices, size_t count, size_t *out, char *error);

#endif
