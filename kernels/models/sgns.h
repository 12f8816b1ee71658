/* The step of skip-gram with negative sampling, apart so that tests can compare it. */
#ifndef TIDE_CPU_SGNS_H
#define TIDE_CPU_SGNS_H

#include <stddef.h>
#include <stdint.h>

/*
 * One context word against its targets (Mikolov et al., NIPS 2013, eq. 4): input v of `width`
 * floats, output rows u_x = outputs + targets[x] * width; target 0 has label 1, the others 0.
 * u_x += alpha g_x v, v += sum of alpha g_x u_x with the old v, g = label - sigmoid(v.u), where a
 * sigmoid beyond +-6 is 0 or 1. `scratch`: width floats. Returns the loss before the step:
 * -log sigmoid(v.u_0) - sum log sigmoid(-v.u_x).
 */
double sgns_step(size_t width, float alpha, float *v, float *outputs, const uint32_t *targets, size_t target_count,
                 float *scratch);

#endif
