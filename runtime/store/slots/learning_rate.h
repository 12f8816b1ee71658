/* Changes of the learning rate of a table in use (learning_rate.c). */
#ifndef TIDE_STORE_LEARNING_RATE_H
#define TIDE_STORE_LEARNING_RATE_H

#include "store/core/table.h"

void tide__learning_rate_take(struct tide_table *table, float rate);
bool tide__learning_rate_fits(double rate); /* finite, in single precision */

#endif
