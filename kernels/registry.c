/* The kernels by name: a table fixed when the library is built, then those of packages. */
#include "kernels.h"

#include <string.h>

static const struct tide_kernel *const kernels[] = {
    &tide_kernel_cosine_nearest, &tide_kernel_cosine_pairs, &tide_kernel_dense_columns,  &tide_kernel_eigen,
    &tide_kernel_kge_rank,       &tide_kernel_kge_train,    &tide_kernel_matrix_columns, &tide_kernel_mf_error,
    &tide_kernel_mf_loss,        &tide_kernel_mf_sgd_block, &tide_kernel_nearest_rows,   &tide_kernel_product,
    &tide_kernel_rows_restore,   &tide_kernel_sgns_train,   &tide_kernel_vector_add,     &tide_kernel_vector_dot,
    &tide_kernel_vector_put,     &tide_kernel_vector_times,
};

enum { COUNT = sizeof(kernels) / sizeof(kernels[0]) };

const struct tide_kernel *tide_kernel_at(size_t index) {
    return index < COUNT ? kernels[index] : tide_kernel_of_packages_at(index - COUNT);
}

const struct tide_kernel *tide_kernel_find(const char *name) {
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(kernels[i]->name, name) == 0) {
            return kernels[i];
        }
    }
    return tide_kernel_of_packages(name);
}
