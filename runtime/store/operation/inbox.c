/*
 * Messages to the store actor: what comes is checked, distinguished and handed to the file that knows
 * what to do. A message that cannot be read is counted and logged, the first few times; it never ends
 * the actor.
 */
#include "store/operation/inbox.h"
#include "store/operation/shard.h"

enum { LOGGED_MAX = 10 };

static void damaged(struct tide_store *store, const struct tide__incoming *in) {
    uint64_t before = atomic_fetch_add_explicit(&store->malformed, 1, memory_order_relaxed);
    if (before < LOGGED_MAX) {
        tide_log(TIDE_LOG_WARN, store->node ? tide_node_name(store->node) : "",
                 "store: damaged message%s%s from node %u", in->op ? " " : "",
                 in->op ? tide_store_message_name(in->op) : "", (unsigned)in->from);
    }
}

struct tide_table *tide__incoming_table(struct tide_store *store, struct tide__incoming *in, uint64_t id) {
    struct tide_table *table = tide__table_by_id(store, id);
    in->useless = !table && !in->body.error;
    if (in->useless) {
        TIDE_SOMETIMES(message_of_a_dropped_table);
    }
    return table;
}

/* ---- messages ---- */

/* [op, id, code, text|nil, positions|nil, count, rows|nil]; pushes that are at risk: table */
int tide__reply_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide_reader *r = &in->body;
    const uint16_t from = in->from;
    size_t positions_count = 0, text_size = 0, rows_size = 0;
    int rows_code = TIDE_F32;
    char text[300] = "";
    uint64_t id = tide_read_uint(r);
    int64_t code = tide_read_int(r);
    if (!tide_read_nil(r)) {
        const char *at = tide_read_string(r, &text_size);
        (void)snprintf(text, sizeof text, "%.*s", (int)(text_size < 299 ? text_size : 299), at ? at : "");
    }
    const void *positions = tide_read_nil(r) ? NULL : tide_read_typed(r, TIDE_U32, &positions_count);
    uint64_t count = tide_read_uint(r);
    const void *rows = tide_read_nil(r) ? NULL : tide_read_ext(r, &rows_code, &rows_size);
    struct tide_table *pushed = in->fields == 8 ? tide__table_by_id(store, tide_read_uint(r)) : NULL;
    bool whole = !positions && count == 0 && code < 0; /* refused as a whole */
    bool unreplicated = pushed && pushed->operations->groups && pushed->options.durability == TIDE_DURABLE_WINDOW;
    bool known = rows_code == TIDE_F32 || rows_code == TIDE_F16 || rows_code == TIDE_BF16;
    if (r->error || code > 0 || code < INT32_MIN || (positions && positions_count != count) || !known ||
        unreplicated != (in->fields == 8) || (rows && (count == 0 || rows_size % count != 0))) {
        tide__pending_refused(store, id, TIDE_EPROTO, "a damaged answer");
        return TIDE_EPROTO;
    }
    if (unreplicated) {
        (void)pushed->operations->at_risk(pushed, from, (size_t)count, false);
    }
    if (whole) {
        tide__pending_refused(store, id, (int)code, text);
        return 0;
    }
    return tide__pending_answer(store, from, id, (int)code, text, positions, (size_t)count, rows_code, rows,
                                rows ? rows_size / (size_t)count : 0);
}

/* Reads op and fields. NULL: damaged, or no such message. */
static tide__handler *read_message(struct tide_store *store, struct tide__incoming *in, bool call) {
    tide_reader_init(&in->body, in->message->data, in->message->size);
    in->fields = tide_read_array(&in->body);
    const uint64_t op = tide_read_uint(&in->body);
    if (in->body.error || op == TIDE__OP_NONE || op >= TIDE__OP_COUNT) {
        return NULL;
    }
    in->op = (uint16_t)op;
    tide__handler *handler = call ? store->handlers[op].call : store->handlers[op].cast;
    return handler && tide__message_read((enum tide__op)op, in->fields, &in->body, &in->as) ? handler : NULL;
}

void tide__cast_handle(struct tide_store *store, const struct tide_message *message, uint16_t from) {
    struct tide__incoming in = {.message = message, .from = from ? from : tide__store_self(store)};
    tide__handler *handler = read_message(store, &in, false);
    if ((!handler || handler(store, &in) == TIDE_EPROTO) && !in.useless) {
        damaged(store, &in);
    }
}

void tide__call_handle(struct tide_store *store, const struct tide_message *message) {
    struct tide__incoming in = {.message = message, .from = tide_address_node(message->from)};
    tide__handler *handler = read_message(store, &in, true);
    const int code = handler ? handler(store, &in)
                             : tide_fail(TIDE_EPROTO, "the store cannot read this request%s%s", in.op ? ": " : "",
                                         in.op ? tide_store_message_name(in.op) : "");
    if (!handler) {
        damaged(store, &in);
    }
    if (code < 0) {
        (void)tide_answer_error(message->from, message->call, code, tide_error_message());
    }
}
