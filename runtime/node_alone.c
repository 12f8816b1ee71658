/*
 * libtide-actor: actors and messages, no store. In a cluster whose other nodes have tables, members ask each other's
 * store actors about them. Here an actor stands in for it: it is home of no slots and has no rows, so what is asked of
 * every member is done at once. What only a store could do is refused.
 */
#include "node.h"

#include "actor/actor.h"
#include "net/net.h"
#include "store/core/message.h"
#include "tide/table_options.h"

const bool tide__node_stores = false;

struct stand_in {
    struct tide_node *node;
    uint64_t cut, last_cut; /* checkpoint: id of the one that is being written, of the last one that was */
    uint16_t *nodes;        /* that write it */
    size_t node_count;
};

static void tell(const struct stand_in *s, uint16_t to, enum tide__op op, const union tide__message *m) {
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    const struct tide_outgoing message = {.to = tide_address_make(to, TIDE_ID_STORE),
                                          .from = tide_address_make(tide_net_self(s->node->net), TIDE_ID_STORE),
                                          .kind = TIDE_FRAME_CAST,
                                          .lane = TIDE_LANE_STORE,
                                          .data = w.data,
                                          .size = (uint32_t)w.size};
    if (!w.error) { /* else, or when it is gone, its requester times out */
        (void)tide_system_send(s->node->system, &message, true);
    }
    tide_writer_release(&w);
}

static void on_cast(const struct stand_in *s, enum tide__op op, const union tide__message *m, uint16_t from) {
    if (op == TIDE__OP_TABLE) {
        tell(s, from,
             TIDE__AS(TABLE_DONE, .table = m->TABLE.table, .ready = m->TABLE.ready, .changes = m->TABLE.changes,
                      .why = {.at = ""}));
    } else if (op == TIDE__OP_DROP) {
        tell(s, from, TIDE__AS(DROPPED, .table = m->DROP.table, .stage = m->DROP.stage));
    } else if (op == TIDE__OP_MAP && m->MAP.round) { /* then id is the controller's term */
        const uint32_t term = (uint32_t)m->MAP.id;
        tell(s, from,
             TIDE__AS(MAP_DONE, .table = m->MAP.table, .version = m->MAP.round, .slots = TIDE__LIST(&term, 1)));
    } else if (op == TIDE__OP_FLUSH) {
        tell(s, from, TIDE__AS(FLUSHED, .turn = m->FLUSH.turn));
    } else if (op == TIDE__OP_ROUND) {
        tell(s, from, TIDE__AS(ROUNDED, .domain = m->ROUND.domain, .id = m->ROUND.id));
    }
}

static void note_cut(struct stand_in *s, const union tide__message *m) {
    const struct tide__array *nodes = &m->CUT_TELL.nodes;
    tide_free(s->nodes);
    s->nodes = tide_alloc((nodes->count + 1) * sizeof *s->nodes);
    s->node_count = s->nodes ? nodes->count : 0;
    s->cut = m->CUT_TELL.id;
    for (size_t i = 0; i < s->node_count; i++) {
        s->nodes[i] = (uint16_t)tide__number_at(nodes->at, i);
    }
}

/* No untaken row comes from here. */
static void walk_cut(const struct stand_in *s) {
    for (size_t i = 0; i < s->node_count; i++) {
        if (s->nodes[i] != tide_net_self(s->node->net)) {
            tell(s, s->nodes[i], TIDE__AS(CUT_WALKING, .id = s->cut));
        }
    }
}

static void release(void *state) {
    struct stand_in *s = state;
    tide_free(s->nodes);
    tide_free(s);
}

/* False: it takes a store. */
static bool answer(struct stand_in *s, enum tide__op op, const union tide__message *m, struct tide_writer *w) {
    switch (op) {
    case TIDE__OP_KEYS:
        tide_write_array(w, 3);
        tide_write_uint(w, TIDE_SLOTS);
        tide_write_uint(w, 0);
        tide_write_typed(w, TIDE_U64, NULL, 0);
        return true;
    case TIDE__OP_CUT_ASK:
        tide_write_array(w, 9);
        tide_write_uint(w, 0);
        tide_write_uint(w, 0);
        tide_write_uint(w, s->last_cut);
        tide_write_bool(w, false);
        tide_write_uint(w, TIDE_NO_CLOCK);
        tide_write_uint(w, 0);
        tide_write_bool(w, false);
        tide_write_typed(w, TIDE_U32, NULL, 0);
        tide_write_typed(w, TIDE_U32, NULL, 0);
        return true;
    case TIDE__OP_CUT_SETTLE:
        tide_write_array(w, 2);
        tide_write_typed(w, TIDE_U32, NULL, 0);
        tide_write_typed(w, TIDE_U32, NULL, 0);
        return true;
    case TIDE__OP_CUT_COLLECT:
        s->last_cut = s->cut;
        tide_write_array(w, 3);
        tide_write_uint(w, 0);
        tide_write_uint(w, 0);
        tide_write_array(w, 0);
        return true;
    case TIDE__OP_CUT_WALK:
        walk_cut(s);
        tide_write_nil(w);
        return true;
    case TIDE__OP_CUT_OPEN:
    case TIDE__OP_CLEAR:
    case TIDE__OP_SHARE_FLUSH:
        tide_write_nil(w);
        return true;
    case TIDE__OP_CUT_TELL:
        note_cut(s, m);
        tide_write_nil(w);
        return true;
    default:
        return false;
    }
}

static void on_call(struct stand_in *s, enum tide__op op, const union tide__message *m,
                    const struct tide_message *message) {
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    if (!answer(s, op, m, &w)) {
        (void)tide_answer_error(message->from, message->call, TIDE_EUNSUPPORTED,
                                "this node runs libtide-actor, which has no tables: the first node of a cluster with "
                                "tables needs libtide");
    } else if (!w.error) {
        (void)tide_answer(message->from, message->call, w.data, w.size);
    }
    tide_writer_release(&w);
}

static int handle(void *state, const struct tide_message *message) {
    struct tide_reader r;
    tide_reader_init(&r, message->data, message->size);
    const size_t fields = tide_read_array(&r);
    const uint64_t op = tide_read_uint(&r);
    union tide__message m;
    const bool known = !r.error && op != TIDE__OP_NONE && op < TIDE__OP_COUNT &&
                       tide__message_fields((enum tide__op)op) >= 0 &&
                       tide__message_read((enum tide__op)op, fields, &r, &m);
    if (message->kind == TIDE_CAST && known) {
        on_cast(state, (enum tide__op)op, &m, tide_address_node(message->from));
    } else if (message->kind == TIDE_CALL) {
        on_call(state, known ? (enum tide__op)op : TIDE__OP_NONE, &m, message);
    }
    return 0;
}

int tide__node_store_create(struct tide_node *node, const struct tide_node_options *o) {
    if (o->memory > 0 || o->queue_limit > 0 || o->rate_operations > 0 || o->rate_bytes > 0) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "memory, queue_limit and rates are about tables, which libtide-actor has not: "
                         "link with libtide");
    }
    struct stand_in *s = tide_alloc_zero(1, sizeof *s);
    if (!s) {
        return TIDE_ENOMEM;
    }
    s->node = node;
    tide_address address;
    const struct tide_actor_options options = {
        .type = "store", .handle = handle, .state = s, .release = release, .role = TIDE_ROLE_IO};
    const int code = tide_spawn(node, &options, &address);
    TIDE_ASSERT(code < 0 || tide_address_id(address) == TIDE_ID_STORE);
    if (code < 0) {
        tide_free(s);
    }
    return code;
}

void tide__node_store_destroy(struct tide_node *node) {
    (void)node;
}
