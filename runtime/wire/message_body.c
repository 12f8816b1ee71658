/*
 * Decodes through msgpack-c. The scan comes first because msgpack-c allocates by the announced
 * counts: six bytes may ask it for gigabytes. After the scan its memory is at most a first chunk
 * plus one object per value.
 */
#include "tide/message.h"

#include "wire/wire.h"

int tide_view_open(const void *data, size_t size, struct tide_view *out) {
    *out = (struct tide_view){.alive = false};
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
    tide_view_release(out);
    if (result == MSGPACK_UNPACK_NOMEM_ERROR) {
        return tide_fail(TIDE_ENOMEM, "out of memory while decoding %zu bytes", size);
    }
    return tide_fail(TIDE_EPROTO, "byte %zu: not one whole msgpack value", offset);
}

void tide_view_release(struct tide_view *view) {
    if (view->alive) {
        msgpack_zone_destroy(&view->zone);
    }
    *view = (struct tide_view){.alive = false};
}
