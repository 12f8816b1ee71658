/* Messages to store actors, of this node and of others: see send.h. */
#include "store/core/node_store.h"
#include "store/core/send.h"

void tide__node_text(struct tide_store *store, uint16_t node, char out[96]) {
    if (store->net) {
        tide_net_name(store->net, node, out);
    } else {
        (void)snprintf(out, 96, "%u", (unsigned)node);
    }
}

static int send(struct tide_store *store, uint16_t node, bool prepaid, const struct tide_outgoing *prototype) {
    struct tide_outgoing message = *prototype;
    message.to = tide_address_make(node, TIDE_ID_STORE);
    message.from = tide_address_make(tide__store_self(store), TIDE_ID_STORE);
    message.kind = TIDE_FRAME_CAST;
    if (node == 0) {
        return tide_fail(TIDE_EUNREACHABLE, "no node");
    }
    if (node == tide__store_self(store)) {
        TIDE_ASSERT(!message.scattered); /* no row goes from a node to itself */
        return tide_send_blob(message.to, message.lane, message.data, message.size, message.tail);
    }
    return tide_system_send(store->system, &message, prepaid);
}

int tide__store_send(struct tide_store *store, uint16_t node, enum tide_lane lane, bool prepaid, const void *data,
                     size_t size, struct tide_blob *tail) {
    const struct tide_outgoing message = {.data = data, .size = (uint32_t)size, .tail = tail, .lane = (uint8_t)lane};
    return send(store, node, prepaid, &message);
}

int tide__store_send_in_line(struct tide_store *store, uint16_t node, const void *data, size_t size,
                             struct tide_blob *tail) {
    const struct tide_outgoing message = {
        .data = data, .size = (uint32_t)size, .tail = tail, .lane = TIDE_LANE_STORE, .in_line = true};
    return send(store, node, true, &message);
}

int tide__store_send_scattered(struct tide_store *store, uint16_t node, const void *data, size_t size,
                               struct tide_blob *tail) {
    const struct tide_outgoing message = {
        .data = data, .size = (uint32_t)size, .tail = tail, .lane = TIDE_LANE_STORE, .scattered = true};
    return send(store, node, true, &message);
}

int tide__store_send_writer(struct tide_store *store, uint16_t node, struct tide_writer *w) {
    int code = w->error ? w->error : tide__store_send(store, node, TIDE_LANE_STORE, true, w->data, w->size, NULL);
    tide_writer_release(w);
    return code;
}

int tide__store_post(struct tide_store *store, enum tide__op op, const union tide__message *m) {
    struct tide_writer w;
    uint8_t buffer[32];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    const int code = w.error ? w.error : tide_post(store->node, tide_address_make(0, TIDE_ID_STORE), w.data, w.size);
    tide_writer_release(&w);
    return code;
}

int tide__store_tell(struct tide_store *store, uint16_t node, enum tide__op op, const union tide__message *m) {
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    return tide__store_send_writer(store, node, &w);
}

int tide__store_call(uint16_t node, enum tide__op op, const union tide__message *m, uint64_t timeout,
                     struct tide_reply **out) {
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    const int code =
        w.error ? w.error : tide_call(tide_address_make(node, TIDE_ID_STORE), w.data, w.size, timeout, out);
    tide_writer_release(&w);
    return code;
}

int tide__nothing_answer(const struct tide_message *message) {
    static const uint8_t nil = 0xc0;
    (void)tide_answer(message->from, message->call, &nil, sizeof nil);
    return 0;
}

int tide__store_gave_up(int code, const char *what, const char *missing) {
    return code == TIDE_ETIMEDOUT ? tide_fail(code, "%s: %s in %g s", what, missing,
                                              (double)tide_limit(store_operation_timeout) / (double)TIDE_SECOND)
                                  : tide_fail(code, "%s: the fiber is being ended", what);
}
