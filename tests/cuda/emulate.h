/* The emulated device, as tests see it. */
#ifndef TIDE_EMULATE_H
#define TIDE_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In which threads of a block, and blocks, run. */
enum emulated_order { EMULATED_FORWARDS, EMULATED_BACKWARDS, EMULATED_MIXED, EMULATED_ORDERS };
void tide_emulated_order(enum emulated_order order);
uint64_t emulated_allocations(void); /* of device memory so far */

/* What emulated.h uses. */
void emulated_run(unsigned blocks, unsigned threads, size_t shared, bool meet, void (*body)(void *),
                  void *arg);
void emulated_barrier(void);
double emulated_across(double value, unsigned mask);
void *emulated_shared(void);
void emulated_fresh(void *memory, size_t bytes, uint64_t *block);

#endif
