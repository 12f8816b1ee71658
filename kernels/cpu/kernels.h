/* The kernels of this build; registry.c lists them. */
#ifndef TIDE_KERNELS_H
#define TIDE_KERNELS_H

#include "kernel.h"

extern const struct tide_kernel tide_kernel_kge_train;
extern const struct tide_kernel tide_kernel_kge_rank;
extern const struct tide_kernel tide_kernel_nearest_rows;

#endif
