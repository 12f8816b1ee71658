/*
 * Decodes through msgpack-c. The scan comes first because msgpack-c allocates by the announced
 * counts: six bytes may ask it for gigabytes. After the scan its memory is at most a first chunk
 * plus one object per value.
 */
#include "wire/value.h"

#include <msgpack/unpack.h>

int tide_value_decode(const void *data, size_t size, struct tide_value *out) {
    *out = (struct tide_value){.alive = false};
    int rc = tide_scan(data, size);
    if (rc != 0) {
        return rc;
    }
    if (!msgpack_zone_init(&out->zone, MSGPACK_ZONE_CHUNK_SIZE)) {
        return tide_fail(TIDE_ENOMEM, "out of memory while decoding %zu bytes", size);
    }
    out->alive = true;
    size_t offset = 0;
    msgpack_unpack_return result = msgpack_unpack(data, size, &offset, &out->zone, &out->object);
    if (result == MSGPACK_UNPACK_SUCCESS && offset == size) {
        return 0;
    }
    tide_value_release(out);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
        return tide_fail(TIDE_ENOMEM, "out of memory while decoding %zu bytes", size);
    }
    return tide_fail(TIDE_EPROTO, "byte %zu: not one whole msgpack value", offset);
}

void tide_value_release(struct tide_value *value) {
    if (value->alive) {
        msgpack_zone_destroy(&value->zone);
    }
    *value = (struct tide_value){.alive = false};
}
