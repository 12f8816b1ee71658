/*
 * JSON text to msgpack and back, for files and consoles; never on the data path. The only user of
 * jansson.
 */
#ifndef TIDE_WIRE_JSON_H
#define TIDE_WIRE_JSON_H

#include "wire/wire.h"

enum {
    TIDE_JSON_MAX = 16 << 20,      /* bytes of text, in and out */
    TIDE_JSON_ITEMS_MAX = 1 << 20, /* values in one text */
};

/*
 * Appends one msgpack value; objects keep the order of their keys. Any JSON value at the top.
 * Errors: EPROTO with line and column (bad syntax, a key twice, bad UTF-8, a zero character, a
 * number out of range of int64 or double), ELIMIT (length, depth, values), ENOMEM.
 */
int tide_json_to_msgpack(const char *text, size_t size, struct tide_writer *w);

/*
 * *gives* compact, zero-terminated text with sorted keys, to be freed with tide_free; `out_size`
 * (may be NULL) is its length. NaN and infinities become null, typed arrays arrays of numbers,
 * integer keys text, integers above INT64_MAX reals. Binaries and other exts have no JSON form.
 * Errors: EPROTO (damaged bytes, a key twice, bad UTF-8), EUNSUPPORTED, ELIMIT, ENOMEM.
 */
int tide_json_from_msgpack(const void *data, size_t size, char **out, size_t *out_size);

#endif
