/*
 * The mailbox of the store actor (TIDE_ID_STORE, I/O thread 0): what comes is checked, distinguished
 * and handed to the file that knows what to do. A message that cannot be read is counted and
 * logged, the first few times; it never ends the actor.
 */
#include "store/core/table_drop.h"
#include "store/operation/inbox.h"
#include "store/operation/resend.h"
#include "store/core/catalog.h"
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
    const struct tide_table *pushed = in->fields == 8 ? tide__table_by_id(store, tide_read_uint(r)) : NULL;
    bool whole = !positions && count == 0 && code < 0; /* refused as a whole */
    bool unreplicated = pushed && pushed->replicas && pushed->options.durability == TIDE_DURABLE_WINDOW;
    bool known = rows_code == TIDE_F32 || rows_code == TIDE_F16 || rows_code == TIDE_BF16;
    if (r->error || code > 0 || code < INT32_MIN || (positions && positions_count != count) || !known ||
        unreplicated != (in->fields == 8) || (rows && (count == 0 || rows_size % count != 0))) {
        tide__pending_refused(store, id, TIDE_EPROTO, "a damaged answer");
        return TIDE_EPROTO;
    }
    if (unreplicated) {
        pushed->operations->taken(tide__table_by_id(store, pushed->id), from, (size_t)count);
    }
    if (whole) {
        tide__pending_refused(store, id, (int)code, text);
        return 0;
    }
    return tide__pending_answer(store, from, id, (int)code, text, positions, (size_t)count, rows_code, rows,
                                rows ? rows_size / (size_t)count : 0);
}

/* Another controller: it has no notifications that the former one got. */
static void look_for_commander(struct tide_store *store) {
    uint64_t commander = tide_net_term(store->net);
    if (store->commander != commander) {
        store->commander = commander;
        TIDE__EACH_TECHNIQUE(store, commander, store);
    }
}

/* Techniques are notified last to first; see store.c. */
static void on_member(struct tide_store *store, const struct tide_member *member) {
    if (store->member_state[member->id] == 1 + member->state) {
        return;
    }
    store->member_state[member->id] = (uint8_t)(1 + member->state);
    if (member->id >= store->members_end && member->id < TIDE__NODES) {
        store->members_end = member->id + 1u;
    }
    tide__catalog_member(store, member);
    tide__pressure_member(store, member->id);
    TIDE__EACH_TECHNIQUE_BACK(store, member, store, member);
    TIDE__EACH_TECHNIQUE_BACK(store, settle, store, member);
}

int tide__members_message(struct tide_store *store, struct tide__incoming *in) {
    tide__pressure_begin(store);
    look_for_commander(store);
    (void)tide__catalog_commands(store); /* perhaps since now, or no more */
    const uint16_t id = in->as.MEMBERS.node;
    bool missed = atomic_exchange_explicit(&store->members_missed, false, memory_order_relaxed);
    /* When its own state changes a node looks at all members: those gone before it came are not announced. */
    bool all = missed || id == 0 || id == tide__store_self(store);
    struct tide_member members[8];
    size_t got;
    if (!all && tide_net_member(store->net, id, members)) {
        on_member(store, members);
    }
    while (all && (got = tide_net_news(store->net, store->member_state, members, TIDE_COUNT(members))) > 0) {
        for (size_t i = 0; i < got; i++) {
            on_member(store, &members[i]);
        }
    }
    if (atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
        tide__pending_fenced(store); /* also what a worker sent before its links were closed */
    }
    TIDE__EACH_TECHNIQUE(store, news, store);
    if (tide__catalog_commands(store)) {
        tide__catalog_resume(store);
        TIDE__EACH_TECHNIQUE(store, plan_resume, store);
        TIDE__EACH_TECHNIQUE(store, plan_advance, store);
    }
    return 0;
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

static void on_call(struct tide_store *store, const struct tide_message *message) {
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

static void on_timer(struct tide_store *store, uint64_t id) {
    if (store->drop_timer && id == store->drop_timer) {
        store->drop_timer = 0;
        return;
    }
    bool taken = tide__pressure_timer(store, id);
    for (size_t i = 0; store->techniques[i] && !taken; i++) {
        taken = store->techniques[i]->timer && store->techniques[i]->timer(store, id);
    }
    store->timer_set = store->timer_set && taken;
}

/* After each message and timer. */
static void rest(struct tide_store *store) {
    tide__stalled_retry(store);
    for (size_t i = 0; store->techniques[i]; i++) {
        const uint64_t again = store->techniques[i]->rest ? store->techniques[i]->rest(store) : 0;
        if (again) {
            tide__retry_later(store, again);
        }
    }
    const uint64_t drops = tide__drop_advance(store);
    tide__runs_sweep(store);
    if (drops && !store->drop_timer && tide_timer_start(drops, &store->drop_timer)) {
        store->drop_timer = 0; /* the next message looks */
    }
}

int tide__shard_handle(void *state, const struct tide_message *message) {
    struct tide_store *store = state;
    switch (message->kind) {
    case TIDE_CAST:
        tide__cast_handle(store, message, tide_address_node(message->from));
        break;
    case TIDE_CALL:
        on_call(store, message);
        break;
    case TIDE_TIMER:
        on_timer(store, message->call);
        break;
    case TIDE_EXIT:
        TIDE__EACH_TECHNIQUE(store, exit, store, message->call);
        break;
    default:
        break;
    }
    rest(store);
    return 0;
}
