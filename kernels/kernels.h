/* The kernels of this build; registry.c lists them. */
#ifndef TIDE_KERNELS_H
#define TIDE_KERNELS_H

#include "kernel.h"

extern const struct tide_kernel tide_kernel_cosine_nearest;
extern const struct tide_kernel tide_kernel_cosine_pairs;
extern const struct tide_kernel tide_kernel_dense_columns;
extern const struct tide_kernel tide_kernel_eigen;
extern const struct tide_kernel tide_kernel_kge_rank;
extern const struct tide_kernel tide_kernel_kge_train;
extern const struct tide_kernel tide_kernel_matrix_columns;
extern const struct tide_kernel tide_kernel_mf_error;
extern const struct tide_kernel tide_kernel_mf_loss;
extern const struct tide_kernel tide_kernel_mf_sgd_block;
extern const struct tide_kernel tide_kernel_nearest_rows;
extern const struct tide_kernel tide_kernel_product;
extern const struct tide_kernel tide_kernel_rows_restore;
extern const struct tide_kernel tide_kernel_sgns_train;
extern const struct tide_kernel tide_kernel_vector_add;
extern const struct tide_kernel tide_kernel_vector_dot;
extern const struct tide_kernel tide_kernel_vector_put;
extern const struct tide_kernel tide_kernel_vector_times;

#endif
