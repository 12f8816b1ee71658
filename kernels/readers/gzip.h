/* Unpacking gzip (RFC 1952) by zlib: a stream piece by piece, or a buffer at once. Any thread. */
#ifndef TIDE_GZIP_H
#define TIDE_GZIP_H

#include "readers/generate.h"

#include <stdbool.h>

/* Whether bytes begin as gzip does. */
bool tide_gzip_is(const void *data, size_t size);

struct tide_gunzip; /* a stream; several members in a row are one text */
/* *gives*; ENOMEM. */
int tide_gunzip_create(struct tide_gunzip **out);
void tide_gunzip_destroy(struct tide_gunzip *gunzip); /* NULL allowed */
/* The next bytes; what they unpack to goes to the sink in pieces of at most 256 KiB. EINVAL:
 * damaged; or the sink's code. */
int tide_gunzip_feed(struct tide_gunzip *gunzip, const void *data, size_t size, struct tide_sink sink);
/* After the last bytes. EINVAL: the text is cut short. */
int tide_gunzip_end(const struct tide_gunzip *gunzip);

/* *gives* (tide_free) the unpacked bytes. EINVAL: damaged; ELIMIT: more than limit bytes. */
int tide_gzip_unpack(const void *data, size_t size, size_t limit, uint8_t **out, size_t *out_size);

#endif
