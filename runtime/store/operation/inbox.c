/*
 * The mailbox of the store actor (TIDE_ID_STORE, I/O thread 0): what comes is checked, told apart
 * and handed to the file that knows what to do. A message that cannot be read is counted and
 * logged, the first few times; it never ends the actor.
 */
#include "store/replica/async_replication.h"
#include "store/clocked/clocked.h"
#include "store/checkpoint/node_part.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/location_cache.h"
#include "store/slots/move.h"
#include "store/adaptive/hot_keys.h"

enum { LOGGED_MAX = 10 };

static void malformed(struct tide_store *store, uint16_t from, const char *what) {
    uint64_t before = atomic_fetch_add_explicit(&store->malformed, 1, memory_order_relaxed);
    if (before < LOGGED_MAX) {
        tide_log(TIDE_LOG_WARN, store->node ? tide_node_name(store->node) : "",
                 "store: damaged %s from node %u", what, (unsigned)from);
    }
}

/* ---- messages ---- */

/* [op, id, code, text|nil, positions|nil, count, rows|nil]; pushes that are at risk: table */
static void on_reply(struct tide_store *store, uint16_t from, size_t fields,
                     struct tide_reader *r) {
    size_t positions_count = 0, text_size = 0, rows_size = 0;
    int rows_code = TIDE_F32;
    char text[300] = "";
    uint64_t id = tide_read_uint(r);
    int64_t code = tide_read_int(r);
    if (!tide_read_nil(r)) {
        const char *at = tide_read_string(r, &text_size);
        (void)snprintf(text, sizeof text, "%.*s", (int)(text_size < 299 ? text_size : 299),
                       at ? at : "");
    }
    const void *positions =
        tide_read_nil(r) ? NULL : tide_read_typed(r, TIDE_U32, &positions_count);
    uint64_t count = tide_read_uint(r);
    const void *rows = tide_read_nil(r) ? NULL : tide_read_ext(r, &rows_code, &rows_size);
    const struct tide_table *pushed =
        fields == 8 ? tide__table_by_id(store, tide_read_uint(r)) : NULL;
    bool whole = !positions && count == 0 && code < 0; /* refused as a whole */
    bool at_risk = pushed && pushed->replicas && pushed->replicas->at_risk;
    bool known = rows_code == TIDE_F32 || rows_code == TIDE_F16 || rows_code == TIDE_BF16;
    if (r->error || code > 0 || code < INT32_MIN || (positions && positions_count != count) ||
        !known || at_risk != (fields == 8) || (rows && (count == 0 || rows_size % count != 0))) {
        malformed(store, from, "answer");
        tide__pending_refused(store, id, TIDE_EPROTO, "a damaged answer");
        return;
    }
    if (at_risk) {
        tide__at_risk_taken(tide__table_by_id(store, pushed->id), from, (size_t)count);
    }
    if (whole) {
        tide__pending_refused(store, id, (int)code, text);
    } else {
        tide__pending_answer(store, from, id, (int)code, text, positions, (size_t)count, rows_code,
                             rows, rows ? rows_size / (size_t)count : 0);
    }
}

/* [op, id, node, leg, positions, terms|nil] */
static void on_passed(struct tide_store *store, uint16_t from, struct tide_reader *r) {
    size_t count = 0, term_count = 0;
    uint64_t id = tide_read_uint(r), node = tide_read_uint(r), leg = tide_read_uint(r);
    const void *positions = tide_read_typed(r, TIDE_U32, &count);
    const void *terms = tide_read_nil(r) ? NULL : tide_read_typed(r, TIDE_U32, &term_count);
    if (r->error || node == 0 || node > UINT16_MAX || leg >= TIDE__HOPS_MAX ||
        (terms && term_count != count)) {
        malformed(store, from, "note on an operation");
        return;
    }
    if (terms) {
        tide__locations_told(store, id, (uint16_t)node, positions, terms, count);
    }
    const struct tide__way way = {.via = from, .leg = (uint16_t)leg};
    tide__pending_at(store, id, way, (uint16_t)node, positions, count);
}

/* Another controller: it has not heard what the former one was told. */
static void look_for_commander(struct tide_store *store) {
    uint64_t commander = tide_net_term(store->net);
    if (store->commander != commander) {
        store->commander = commander;
        tide__drain_again(store);
    }
}

static void on_member(struct tide_store *store, const struct tide_member *member) {
    if (store->member_state[member->id] != 1 + member->state) {
        store->member_state[member->id] = (uint8_t)(1 + member->state);
        if (member->id >= store->members_end && member->id < 0x8000) {
            store->members_end = member->id + 1u;
        }
        tide__catalog_member(store, member);
        tide__clocked_member(store, member);
        tide__shared_member(store, member);
        tide__at_risk_member(store, member);
        tide__generation_member(store, member);
        tide__pressure_member(store, member->id);
        tide__move_member(store, member);
    }
}

static void on_members(struct tide_store *store, struct tide_reader *r) {
    tide__pressure_begin(store);
    look_for_commander(store);
    (void)tide__catalog_commands(store); /* perhaps since now, or no more */
    uint64_t id = tide_read_uint(r);
    bool missed = atomic_exchange_explicit(&store->members_missed, false, memory_order_relaxed);
    /* With news of itself a node looks at all: who was gone before it came is told to nobody. */
    bool all = missed || r->error || id == 0 || id == tide__store_self(store);
    struct tide_member members[8];
    size_t got;
    if (!all && tide_net_member(store->net, (uint16_t)id, members)) {
        on_member(store, members);
    }
    while (all && (got = tide_net_news(store->net, store->member_state, members,
                                       TIDE_COUNT(members))) > 0) {
        for (size_t i = 0; i < got; i++) {
            on_member(store, &members[i]);
        }
    }
    if (atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
        tide__pending_fenced(store); /* also what a worker sent before its links were closed */
    }
    tide__groups_tell(store);
    if (tide__catalog_commands(store)) {
        tide__catalog_resume(store);
        tide__plan_resume(store);
        tide__plan_advance(store);
    }
}

static void on_cast(struct tide_store *store, const struct tide_message *message) {
    uint16_t from = tide_address_node(message->from), self = tide__store_self(store);
    from = from ? from : self;
    struct tide_reader r;
    tide_reader_init(&r, message->data, message->size);
    size_t fields = tide_read_array(&r);
    uint64_t op = tide_read_uint(&r);
    if (r.error || fields == 0) {
        malformed(store, from, "message");
        return;
    }
    switch (op) {
    case TIDE__OP_PULL:
    case TIDE__OP_PUSH:
    case TIDE__OP_LOCALIZE:
    case TIDE__OP_LOC:
    case TIDE__OP_OFFER: {
        const uint64_t began = from == self ? 0 : tide_port_now(store->port);
        tide__operation(store, from, message);
        if (from != self) {
            tide__load_busy(store, began);
        }
        break;
    }
    case TIDE__OP_REPLY:
        on_reply(store, from, fields, &r);
        break;
    case TIDE__OP_HAND:
    case TIDE__OP_XFER:
    case TIDE__OP_STAY:
    case TIDE__OP_LOST:
    case TIDE__OP_FAILED:
    case TIDE__OP_SLOT_KEYS:
        tide__owner_message(store, from, (int)op, &r);
        break;
    case TIDE__OP_PASSED:
        on_passed(store, from, &r);
        break;
    case TIDE__OP_MAP:
        tide__move_map(store, from, &r);
        break;
    case TIDE__OP_TABLE:
        if (from == tide_net_controller(store->net)) {
            tide__catalog_table(store, &r);
        }
        break;
    case TIDE__OP_SYNCED:
        atomic_store_explicit(&store->synced, true,
                              memory_order_release); /* pairs with tide_store_synced */
        break;
    case TIDE__OP_DROP:
        if (from == tide_net_controller(store->net)) {
            tide__drop_message(store, &r);
        }
        break;
    case TIDE__OP_DROPPED:
        tide__catalog_dropped(store, from, &r);
        break;
    case TIDE__OP_TABLE_DONE:
        tide__catalog_done(store, from, &r);
        break;
    case TIDE__OP_MEMBERS:
        on_members(store, &r);
        break;
    case TIDE__OP_TECHNIQUE:
    case TIDE__OP_RECALL:
        tide__manage_message(store, from, (int)op, &r);
        break;
    case TIDE__OP_INTENT:
    case TIDE__OP_DONE:
        tide__interest_message(store, (int)op, &r);
        break;
    case TIDE__OP_ADVICE:
        tide__advice_message(store, &r);
        break;
    case TIDE__OP_NOTICE:
        tide__notice_message(store, &r);
        break;
    case TIDE__OP_SHARE_FLUSH:
        tide__shared_flush_ended(store, from, &r);
        break;
    case TIDE__OP_CUT_ABORT:
    case TIDE__OP_CUT_WALKING:
    case TIDE__OP_CUT_WROTE:
        tide__generation_cast(store, from, (int)op, &r);
        break;
    case TIDE__OP_REPL:
        tide__copy_repl(store, from, &r);
        break;
    case TIDE__OP_ACKR:
        tide__replica_ack(store, &r);
        break;
    case TIDE__OP_SNAP:
        tide__copy_snapshot(store, &r);
        break;
    case TIDE__OP_LEASE_ASK:
        tide__lease_asked(store, from, &r);
        break;
    case TIDE__OP_LEASE:
        tide__lease_granted(store, from, &r);
        break;
    case TIDE__OP_SAFE:
        tide__at_risk_safe(store, from, &r);
        break;
    case TIDE__OP_GROUPS:
        tide__failover_groups(store, message, &r);
        break;
    default:
        if (op >= TIDE__OP_DELTA && op <= TIDE__OP_VISIBLE) {
            tide__clocked_message(store, from, (int)op, message, &r);
        } else if (op >= TIDE__OP_MAP_DONE && op < TIDE__OP_CUT_ASK) {
            tide__move_message(store, from, (int)op, &r);
        } else {
            malformed(store, from, "message");
        }
    }
}

int tide__shard_handle(void *state, const struct tide_message *message) {
    struct tide_store *store = state;
    switch (message->kind) {
    case TIDE_CAST:
        on_cast(store, message);
        break;
    case TIDE_CALL: {
        struct tide_reader r;
        tide_reader_init(&r, message->data, message->size);
        (void)tide_read_array(&r);
        tide__catalog_call(store, message, &r);
        break;
    }
    case TIDE_TIMER:
        if (store->drop_timer && message->call == store->drop_timer) {
            store->drop_timer = 0;
        } else if (store->replication && store->replication->beating &&
            message->call == store->replication->beat) {
            tide__lease_beat(store);
        } else if (!tide__at_risk_timer(store, message->call) &&
                   !tide__pressure_timer(store, message->call)) {
            store->timer_set = false;
        }
        break;
    case TIDE_EXIT:
        tide__generation_exit(store, message->call);
        break;
    default:
        break;
    }
    tide__stalled_retry(store);
    tide__locations_retry(store);
    if (tide__moves_waiting(store)) {
        tide__moves_advance(store);
        tide__retry_later(store, TIDE_SECOND / 1000);
    }
    if (store->generation && tide__generation_advance(store)) {
        tide__retry_later(store, TIDE_SECOND / 1000);
    }
    const uint64_t drops = tide__drop_advance(store);
    if (drops && !store->drop_timer && tide_timer_start(drops, &store->drop_timer)) {
        store->drop_timer = 0; /* the next message looks */
    }
    const uint64_t again = tide__managed_send(store);
    if (again) {
        tide__retry_later(store, again);
    }
    return 0;
}
