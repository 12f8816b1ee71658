/* XXH3-64 for tables and integrity of our own bytes, and the rule of identifiers. Identities are
 * SHA-256: digest.c. */
#include "base/base.h"

#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <xxhash.h>
#pragma GCC diagnostic pop

uint64_t tide_hash(const void *data, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size, seed);
}

bool tide_identifier_valid(const char *name) {
    if (!name) {
        return false;
    }
    size_t length = 0;
    for (; name[length] != '\0'; length++) {
        char c = name[length];
        bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool inner = c == '.' || c == '_' || c == '-';
        if (length >= 63 || !(alphanumeric || (inner && length > 0))) {
            return false;
        }
    }
    return length > 0;
}
