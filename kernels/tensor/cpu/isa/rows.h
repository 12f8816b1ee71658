/* Loops over a row that several operations have, written to become vector code. */
#ifndef TIDE_KERNEL_ROWS_H
#define TIDE_KERNEL_ROWS_H

#include "tensor/cpu/isa/isa.h"

/* The largest of n numbers; -infinity of none. NaN is passed over. */
TIDE_INLINE float tide_row_max(size_t n, const float *x) {
    float lanes[16], most = -INFINITY;
    for (size_t l = 0; l < 16; l++) {
        lanes[l] = -INFINITY;
    }
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (size_t l = 0; l < 16; l++) {
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
        }
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (size_t l = 0; l < 16; l++) {
        most = lanes[l] > most ? lanes[l] : most;
    }
    return most;
}

TIDE_INLINE void tide_row_scale(size_t n, float by, float *x) {
    TIDE_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        x[i] *= by;
    }
}

#endif
