/* Small help for kernels: reading checked arguments and giving reasons. */
#ifndef TIDE_KERNEL_ARGUMENTS_H
#define TIDE_KERNEL_ARGUMENTS_H

#include "kernel.h"
#include "tide/package.h"
#include "wire/wire.h"

enum { KERNEL_ERROR_SIZE = 256 };

/* A tensor of triples: n x 3 u32 (or 3 n x 1); *count = n. */
int tide_kernel_triples(const struct tide_kernel *kernel, const struct tide_argument *arguments, size_t index,
                        size_t *count, char *error);

#endif
