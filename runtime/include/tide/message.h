/*
 * Bodies of messages with msgpack-c: a packer to make them, a tree to read them.
 *
 *   struct tide_body body;
 *   tide_body_init(&body);
 *   msgpack_pack_array(&body.packer, 2);
 *   msgpack_pack_uint32(&body.packer, 7);
 *   msgpack_pack_true(&body.packer);
 *   int rc = tide_send(to, TIDE_LANE_CONTROL, body.bytes.data, body.bytes.size);
 *   tide_body_release(&body);
 *
 * and at the other end
 *
 *   struct tide_view view;
 *   int rc = tide_view_open(message->data, message->size, &view);
 *   if (rc == 0) { ... view.object ...; tide_view_release(&view); }
 *
 * A body may come from an untrusted peer: tide_view_open checks lengths, depth and counts before msgpack-c allocates by
 * them.
 */
#ifndef TIDE_PUBLIC_MESSAGE_H
#define TIDE_PUBLIC_MESSAGE_H

#include "tide/actor.h"

#include <msgpack.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A body while it is written. A msgpack_pack_* that fails without memory returns a negative number. */
struct tide_body {
    msgpack_sbuffer bytes; /* data and size are the body */
    msgpack_packer packer;
};

static inline void tide_body_init(struct tide_body *body) {
    msgpack_sbuffer_init(&body->bytes);
    msgpack_packer_init(&body->packer, &body->bytes, msgpack_sbuffer_write);
}

static inline void tide_body_release(struct tide_body *body) {
    msgpack_sbuffer_destroy(&body->bytes);
}

/*
 * Begins a request to a published group of script actors (docs/guides/embedding.md): the caller packs the `count`
 * arguments of the method behind it. The group answers with a map: `value` is what the method returned, or `err` is a
 * map with `code` and `message`.
 */
static inline void tide_body_ask(struct tide_body *body, const char *method, uint32_t count) {
    const char *const keys[] = {"op", "ask", "method", method, "count"};
    msgpack_pack_map(&body->packer, 4);
    for (unsigned i = 0; i < 5; i++) {
        msgpack_pack_str(&body->packer, strlen(keys[i]));
        msgpack_pack_str_body(&body->packer, keys[i], strlen(keys[i]));
    }
    msgpack_pack_uint32(&body->packer, count);
    msgpack_pack_str(&body->packer, 9);
    msgpack_pack_str_body(&body->packer, "arguments", 9);
    msgpack_pack_array(&body->packer, count);
}

/* One value as a tree. */
struct tide_view {
    msgpack_object object; /* its texts and byte strings point into the bytes that were opened */
    msgpack_zone zone;
    bool alive; /* zone is initialised */
};

/* Borrows the bytes for the life of the view. Errors: EPROTO (not one whole value), ELIMIT (too deep, too many values,
 * too long a text), ENOMEM. Any thread. */
int tide_view_open(const void *data, size_t size, struct tide_view *out);
/* Also of a view that could not be opened, or of zeros. */
void tide_view_release(struct tide_view *view);

#ifdef __cplusplus
}
#endif
#endif
