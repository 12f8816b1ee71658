/*
 * One foreign msgpack value as a tree, decoded by msgpack-c after the pre-scan has bounded it. For
 * control paths that want a tree, and as the second opinion in fuzzing. The data path reads with
 * the cursor instead.
 */
#ifndef TIDE_WIRE_VALUE_H
#define TIDE_WIRE_VALUE_H

#include "wire/wire.h"

#include <msgpack/object.h>
#include <msgpack/zone.h>

struct tide_value {
    msgpack_object object; /* strings, binaries and exts point into the decoded bytes */
    msgpack_zone zone;
    bool alive; /* zone is initialised */
};

/* Borrows the bytes for the life of the value. Errors: EPROTO, ELIMIT (tide_scan's), ENOMEM. */
int tide_value_decode(const void *data, size_t size, struct tide_value *out);
void tide_value_release(struct tide_value *value); /* also of a failed decode or a zeroed struct */

#endif
