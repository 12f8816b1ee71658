/*
 * What bench_vertex is compared with: the child-sum Tree-LSTM, the chain LSTM and the Tree-FC written by
 * hand on OpenBLAS and loops that compilers vectorise, level by level, with the same plan of a batch, the
 * same deferred products and plain gradient descent. One thread; buffers are made once.
 */
#ifndef TIDE_BENCH_VERTEX_LOOP_H
#define TIDE_BENCH_VERTEX_LOOP_H

#include "graph/levels.h"

enum loop_model { LOOP_TREE, LOOP_CHAIN, LOOP_FC };

struct loop;

/* classes: of the classifier; trees and chains. */
struct loop *loop_create(enum loop_model model, uint32_t words, size_t width, size_t classes,
                         size_t vertices_max);
void loop_destroy(struct loop *l);
/* Forward, backward and an update of everything by `rate` times the gradient of the sum. Returns the
 * summed loss. `levels` has the lists of children and parents, inputs "word" and "label". */
double loop_step(struct loop *l, const struct tide_levels *levels, float rate);

#endif
