/* A dictionary from names to 0, 1, ... by first appearance; private to the text readers. */
#ifndef TIDE_CPU_NAMES_H
#define TIDE_CPU_NAMES_H

#include "readers/text.h"

/* Open addressing with linear probing, at most half full; a slot keeps half of the hash, so that
 * almost every probe of another name ends without touching the pool. */
struct tide_dictionary {
    struct tide_names names; /* invariant: offsets has count + 1 entries once count > 0 */
    size_t pool_size, pool_capacity, offset_capacity;
    struct tide_dictionary_slot {
        uint32_t index; /* + 1; 0: free */
        uint32_t hash;
    } * slots;
    size_t slot_count; /* 0 or a power of two */
};

/* The number of the name, new or not. ENOMEM, ELIMIT. */
int tide_dictionary_add(struct tide_dictionary *d, const char *name, size_t size, uint32_t *index);
/* Whether it has the name. */
bool tide_dictionary_find(const struct tide_dictionary *d, const char *name, size_t size, uint32_t *index);
/* *gives* the names (shrunk to size) and releases the rest. */
void tide_dictionary_finish(struct tide_dictionary *d, struct tide_names *out);
void tide_dictionary_release(struct tide_dictionary *d);

/* Makes room for `need` elements in a growing array, doubling. ENOMEM. */
int tide_array_grow(void *array_pointer, size_t *capacity, size_t need, size_t element_size);

#endif
