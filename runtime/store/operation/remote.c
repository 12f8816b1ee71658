/*
 * Operations on keys of other nodes, at their origin: grouping by destination, admission,
 * registration (pending.c), sending. Waiting for the answers: ticket.c.
 *
 * One message a node and call (cut at 4 MiB of keys and rows in either direction).
 */
#include "store/core/send.h"
#include "store/operation/resend.h"
#include "store/rows/slot_index.h"
#include "store/core/clock.h"
#include "store/operation/shard.h"

enum { HEAD_BYTES = 96, NODES_SMALL = 64, MESSAGES_MAX = 65000 };

/* ---- grouping ---- */

struct request { /* an outgoing message; apart from its entry, which may end at any moment once
                    registered */
    struct request *next;
    struct tide__pending *pending; /* until registered */
    uint64_t id;
    struct tide_writer body;
    struct tide_blob *tail;
    uint16_t node;
    /* Tables with copies: all of the message, body and rows, because it is kept; and where its
     * sequence is in it. */
    struct tide_blob *whole;
    size_t ids_at;
    uint8_t buffer[]; /* of the body */
};

static void request_free(struct tide_store *store, struct request *r) {
    if (r->pending) { /* never registered */
        tide__token_give(store, &r->pending->token);
        tide__pending_unused(&store->pending, r->pending);
    }
    tide_writer_release(&r->body);
    tide_blob_unref(r->tail);
    tide_blob_unref(r->whole);
    tide_free(r);
}

static void requests_free(struct tide_store *store, struct request *r) {
    while (r) {
        struct request *next = r->next;
        request_free(store, r);
        r = next;
    }
}

static uint8_t wire_code(const struct tide_table *table, bool raw) {
    return raw || table->options.wire == TIDE_WIRE_F32 ? TIDE_F32
           : table->options.wire == TIDE_WIRE_F16      ? TIDE_F16
                                                       : TIDE_BF16;
}

static size_t wire_row(const struct tide__pass *pass) {
    const struct tide_table *table = pass->table;
    return (pass->raw ? table->row_floats : table->width) * (wire_code(table, pass->raw) == TIDE_F32 ? 4u : 2u);
}

static int write_rows(struct request *r, const struct tide__pass *pass, const uint32_t *positions, size_t count) {
    struct tide_table *table = pass->table;
    const size_t floats = pass->raw ? table->row_floats : table->width, bytes = wire_row(pass);
    const uint8_t code = wire_code(table, pass->raw);
    tide_write_typed_head(&r->body, code, count * floats);
    r->tail = r->whole ? NULL : tide_blob_create(count * bytes);
    char *rows = r->tail ? r->tail->data : r->whole ? tide_write_reserve(&r->body, count * bytes) : NULL;
    if (!rows) {
        return tide_fail(TIDE_ENOMEM, "no memory for %zu rows to push", count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = pass->in + (size_t)positions[i] * floats * 4;
        char *out = rows + i * bytes;
        if (code == TIDE_F32) {
            memcpy(out, row, bytes);
        } else {
            tide__floats_to_half(row, out, floats, table->options.wire);
        }
    }
    return 0;
}

/* One message for `count` keys at `positions` of the call. */
static int make_request(const struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket, uint16_t node,
                        const uint32_t *positions, size_t count, struct request **out) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    const struct tide__operations *o = table->operations;
    const bool groups = o->groups, traced = o->owners || groups;
    struct tide__pending *p;
    const size_t at_bytes = traced ? count * sizeof p->at[0] : 0;
    const size_t part_at = (sizeof *p + count * sizeof p->index[0] + at_bytes + 7) / 8 * 8;
    p = tide_alloc(part_at + o->part_bytes + count * o->part_key_bytes);
    const size_t row_bytes = groups && kind == TIDE__PUSH ? wire_row(pass) : 0;
    const size_t body_bytes = HEAD_BYTES + count * (sizeof(uint64_t) + row_bytes);
    struct request *r = tide_alloc(sizeof *r + (groups ? 0 : body_bytes));
    struct tide_blob *whole = groups ? tide_blob_create(body_bytes) : NULL;
    if (!p || !r || (groups && !whole) || tide__pending_reserve(&store->pending, &r->id)) {
        tide_free(p);
        tide_free(r);
        tide_blob_unref(whole);
        return TIDE_ENOMEM;
    }
    r->next = NULL;
    r->tail = NULL;
    r->whole = whole;
    *p = (struct tide__pending){.id = r->id,
                                .table = table,
                                .ticket = ticket,
                                .count = (uint32_t)count,
                                .left = (uint32_t)count,
                                .node = node,
                                .kind = (uint8_t)kind,
                                .raw = pass->raw,
                                .subscribes = pass->flags & TIDE__SUBSCRIBES,
                                .stamp = pass->stamp,
                                .domain = tide__worker_domain()};
    memcpy(p->index, positions, count * sizeof *positions);
    p->part = memset((char *)p + part_at, 0, o->part_bytes);
    if (traced) {
        p->at = (uint16_t *)(void *)(p->index + count);
        for (size_t i = 0; i < count; i++) {
            p->at[i] = node;
        }
        p->out = groups && node != tide__store_self(store) ? (uint32_t)count : 0;
    }
    r->pending = p;
    r->node = node;
    *out = r;
    struct tide_writer *w = &r->body;
    tide_writer_init(w, whole ? whole->data : r->buffer, body_bytes);
    tide_write_array(w, tide__job_fields(table, kind));
    tide_write_uint(w, kind);
    tide_write_uint(w, table->id);
    tide_write_uint(w, r->id);
    tide_write_uint(w, atomic_load_explicit(&table->map_version, memory_order_relaxed));
    tide_write_uint(w, tide__store_self(store));
    tide_write_uint(w, 0);
    tide_write_uint(w, pass->flags);
    if (kind == TIDE__PUSH) {
        tide_write_uint(w, pass->stamp);
    }
    if (groups) {
        tide_write_typed_head(w, TIDE_U64, 2);
        r->ids_at = w->size;
        (void)tide_write_reserve(w, 2 * sizeof(uint64_t)); /* known when it is enlisted */
    } else if (tide__job_has_terms(table, kind)) {
        tide_write_nil(w);
    }
    tide_write_nil(w);
    tide_write_typed_head(w, TIDE_U64, count);
    p->keys_at = (uint32_t)w->size;
    char *keys = tide_write_reserve(w, count * sizeof(uint64_t));
    for (size_t i = 0; keys && i < count; i++) {
        memcpy(keys + i * 8, (const char *)pass->keys + (size_t)positions[i] * 8, 8);
    }
    if (keys && o->begins) {
        o->begins(p, keys, pass->async);
    }
    int code = kind == TIDE__PUSH ? write_rows(r, pass, positions, count) : 0;
    if (whole) {
        TIDE_ASSERT(w->error || w->data == whole->data); /* it had room for all of it */
        whole->size = w->size;
        p->message = tide_blob_ref(whole);
    }
    return code ? code : w->error ? tide_fail(w->error, "no memory for a message of %zu keys", count) : 0;
}

static size_t keys_a_message(const struct tide__pass *pass, enum tide__kind kind) {
    const size_t floats = pass->raw ? pass->table->row_floats : pass->table->width;
    return kind == TIDE__LOCALIZE ? tide_limit(store_localize_keys)
                                  : tide_limit(store_message_bytes) / (floats * sizeof(float) + 16) + 1;
}

/* See group(), of a table that relocates: all to the own store actor, which alone knows where a key
 * is to be had. */
static int group_own(const struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket,
                     struct request **out) {
    const struct tide__misses *m = pass->misses;
    const uint16_t self = tide__store_self(pass->table->store);
    const size_t most = keys_a_message(pass, kind);
    int code = 0;
    for (size_t at = 0; at < m->count && !code; at += most) {
        const size_t count = m->count - at < most ? m->count - at : most;
        code = make_request(pass, kind, ticket, self, m->at + at, count, out);
        out = *out ? &(*out)->next : out;
    }
    return code;
}

/* `order`: the misses, those of one bucket together, else in their order. */
static void by_bucket(const uint8_t *bucket, size_t count, uint32_t *order) {
    uint32_t start[TIDE__BUCKETS + 1] = {0};
    for (size_t i = 0; i < count; i++) {
        start[bucket[i] + 1]++;
    }
    for (unsigned b = 0; b < TIDE__BUCKETS; b++) {
        start[b + 1] += start[b];
    }
    for (size_t i = 0; i < count; i++) {
        order[start[bucket[i]]++] = (uint32_t)i;
    }
}

struct routed { /* the misses of a pass */
    uint16_t *node, highest;
    uint8_t *bucket;
    bool differ, stale; /* buckets; a key is served here now */
};

/* ELOST. */
static int route_misses(const struct tide__pass *pass, enum tide__kind kind, struct routed *r) {
    struct tide_table *table = pass->table;
    const struct tide__misses *m = pass->misses;
    const uint16_t self = tide__store_self(table->store);
    uint8_t (*bucket)(const struct tide_table *, uint32_t) = kind == TIDE__PUSH ? table->operations->bucket : NULL;
    for (size_t i = 0; i < m->count && !r->stale; i++) {
        uint64_t key;
        memcpy(&key, (const char *)pass->keys + (size_t)m->at[i] * 8, 8);
        const uint32_t slot = tide__slot_of(table, key);
        /* acquire: pairs with the release of a route, for `changes` */
        uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_acquire);
        if (TIDE_UNLIKELY(route & TIDE__LOST)) {
            return tide__lost_fail(table, slot, key);
        }
        r->stale = (route & TIDE__FOR_WORKER) == TIDE__MINE && !table->operations->groups;
        bool own = route & (TIDE__WORKER_HOLD | TIDE__MINE);
        r->node[i] = own ? self : tide__route_home(route);
        r->highest = r->node[i] > r->highest ? r->node[i] : r->highest;
        r->bucket[i] = bucket ? bucket(table, slot) : 0;
        r->differ |= r->bucket[i] != r->bucket[0];
    }
    return 0;
}

/* Messages for the misses of a pass. *stale: a route changed meanwhile, or a key is served here
 * now. */
static int group(const struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket, struct request **out,
                 bool *stale) {
    const struct tide__misses *m = pass->misses;
    if (pass->table->operations->owners) {
        return group_own(pass, kind, ticket, out);
    }
    uint32_t small[NODES_SMALL] = {0}, *start = small;
    struct routed routed = {.stale = false};
    uint32_t *order = tide_alloc(m->count * (2 * sizeof *order + sizeof routed.node[0] + 1));
    struct request **end = out;
    if (!order) {
        return tide_fail(TIDE_ENOMEM, "no memory to group %zu keys", m->count);
    }
    uint32_t *misses = order + m->count;
    routed.node = (uint16_t *)(void *)(misses + m->count);
    routed.bucket = (uint8_t *)(routed.node + m->count);
    int code = route_misses(pass, kind, &routed);
    const uint16_t *node = routed.node, highest = routed.highest;
    *stale = routed.stale;
    if (highest + 2 > NODES_SMALL) {
        start = tide_alloc_zero(highest + 2u, sizeof *start);
        code = code || start ? code : TIDE_ENOMEM;
    }
    if (code || *stale) {
        goto out;
    }
    for (size_t i = 0; i < m->count; i++) { /* counting sort: stable, so duplicates keep their order */
        start[node[i] + 1]++;
    }
    for (unsigned n = 0; n <= highest; n++) {
        start[n + 1] += start[n];
    }
    if (routed.differ) {
        by_bucket(routed.bucket, m->count, misses);
    }
    for (size_t k = 0; k < m->count; k++) {
        const size_t i = routed.differ ? misses[k] : k;
        order[start[node[i]]++] = m->at[i]; /* start[n] becomes the end of n's keys */
    }
    const size_t most = keys_a_message(pass, kind);
    for (unsigned n = 0, at = 0; n <= highest && !code; n++) {
        while (at < start[n] && !code) {
            size_t count = start[n] - at < most ? start[n] - at : most;
            code = make_request(pass, kind, ticket, (uint16_t)n, order + at, count, end);
            end = *end ? &(*end)->next : end;
            at += (unsigned)count;
        }
    }
out:
    if (start != small) {
        tide_free(start);
    }
    tide_free(order);
    return code;
}

/* Keys and rows of a message, in both directions. */
static uint32_t bytes_of(const struct request *r, const struct tide__pass *pass) {
    const struct tide_table *table = pass->table;
    size_t row = (pass->raw ? table->row_floats : table->width) * sizeof(float);
    const bool brings = r->pending->kind == TIDE__PULL || r->pending->subscribes;
    size_t answer = brings ? r->pending->count * row : 0;
    return (uint32_t)(r->body.size + (r->tail ? r->tail->size : 0) + answer);
}

/* The tokens of all messages of a call; they are in the order of their nodes. */
static int admit(const struct tide__pass *pass, struct request *requests, uint64_t asked) {
    for (struct request *r = requests; r; r = r->next) {
        r->pending->token = (struct tide__token){
            .next = r->next ? &r->next->pending->token : NULL, .bytes = bytes_of(r, pass), .home = r->node};
    }
    return tide__token_take(pass->table->store, &requests->pending->token, asked);
}

/* Keys of the table are shared since the pass began. Sharing happens under the lock of
 * the pending table: what is registered before is answered before the first copy is made. */
static bool is_overtaken(const struct tide__pass *pass) {
    return pass->unshared && tide__hot_of(pass->table) && !TIDE_MUTANT(share_first_copies);
}

/* From here on the entries may be answered. False: routes changed, or it was overtaken; nothing was
 * registered. */
static bool enlist(const struct tide__pass *pass, struct tide__ticket *ticket, struct request *requests,
                   uint64_t changes, size_t *count) {
    struct tide_table *table = pass->table;
    struct tide__pending_table *t = &table->store->pending;
    const uint16_t self = tide__store_self(table->store);
    *count = 0;
    for (struct request *r = requests; r; r = r->next) {
        ++*count;
    }
    atomic_store_explicit(&ticket->state, *count + 1, memory_order_relaxed); /* one for ourselves while we send */
    tide_lock(&t->lock);
    if (is_overtaken(pass) ||
        (!table->operations->owners && atomic_load_explicit(&table->changes, memory_order_relaxed) != changes)) {
        tide_unlock(&t->lock);
        atomic_store_explicit(&ticket->state, 0, memory_order_relaxed);
        return false;
    }
    for (struct request *r = requests; r; r = r->next) {
        struct tide__pending *p = r->pending;
        p->sequence = ++t->sequence;
        p->prev = t->last;
        *(t->last ? &t->last->next : &t->first) = p;
        t->last = p;
        t->by_slot[(uint32_t)p->id] = p;
        if (r->node == self) { /* tide__pass_pull reads it without the lock */
            atomic_fetch_add_explicit(&table->self_sent, 1, memory_order_relaxed);
        }
        if (r->whole) {
            const uint64_t ids[2] = {p->sequence, t->first->sequence};
            memcpy((char *)r->whole->data + r->ids_at, ids, sizeof ids);
        }
        r->pending = NULL;
    }
    tide_unlock(&t->lock);
    return true;
}

static void fail_request(const struct tide__pass *pass, const struct request *r, int code) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    char name[96], text[700];
    tide__node_text(store, r->node, name);
    if (code == TIDE_EDIED) {
        (void)snprintf(text, sizeof text, "node %s died", name);
    } else if (code == TIDE_EUNREACHABLE) {
        (void)snprintf(text, sizeof text, "no route to node %s", name);
    } else {
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
    }
    if (r->node == tide__store_self(store)) {
        tide_lock(&store->pending.lock);
        atomic_fetch_sub_explicit(&table->self_sent, 1, memory_order_relaxed);
        tide_unlock(&store->pending.lock);
    }
    if (table->operations->groups && (code == TIDE_EDIED || code == TIDE_EUNREACHABLE)) {
        return; /* the group will change, and it goes out again */
    }
    struct tide__pending *p = tide__pending_take(&store->pending, r->id);
    if (p) {
        tide__pass_take_back(pass, p->index, p->count);
        tide__pending_fail(store, p, code, text);
    }
}

/* What is registered from now on is not looked through any more when a node goes, this one
 * included. */
static int why_not(struct tide_store *store, uint16_t node) {
    tide_lock(&store->pending.lock);
    const bool fenced =
        atomic_load_explicit(&store->fenced, memory_order_relaxed) != 0 && !TIDE_MUTANT(begun_when_fenced);
    const bool gone = tide__pending_is_gone(&store->pending, node);
    tide_unlock(&store->pending.lock);
    return fenced ? tide__fenced_fail(store) : gone ? TIDE_EDIED : 0;
}

static void send_requests(const struct tide__pass *pass, struct request *requests) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    uint64_t messages = 0, bytes = 0;
    for (struct request *r = requests; r; r = r->next) {
        int code = why_not(store, r->node);
        if (!code) {
            code = tide__store_send(store, r->node, TIDE_LANE_STORE, false, r->body.data, r->whole ? 0 : r->body.size,
                                    r->whole ? r->whole : r->tail);
        }
        if (code) {
            fail_request(pass, r, code);
        }
        messages++;
        bytes += r->body.size + (r->tail ? r->tail->size : 0);
    }
    tide__table_count(table, TIDE__MESSAGES_OUT, messages);
    tide__table_count(table, TIDE__BYTES_OUT, bytes);
}

/* Routes changed between the walk and the registration: what has come here meanwhile is done here.
 */
static int walk_again(struct tide__pass *pass, enum tide__kind kind) {
    TIDE_SOMETIMES(operation_walks_again);
    struct tide__misses left;
    tide__misses_init(&left);
    struct tide__pass again = *pass;
    again.index = pass->misses->at;
    again.count = pass->misses->count;
    again.at = 0;
    again.misses = &left;
    int code = kind == TIDE__PULL ? tide__pass_pull(&again) : tide__pass_push(&again);
    tide__table_count(pass->table, kind == TIDE__PULL ? TIDE__PULLS_LOCAL : TIDE__PUSHES_LOCAL, again.at - left.count);
    memcpy(pass->misses->at, left.at, left.count * sizeof *left.at);
    pass->misses->count = left.count;
    tide__misses_release(&left);
    return code;
}

int tide__remote_start(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *ticket) {
    struct tide_table *table = pass->table;
    struct tide_store *store = table->store;
    if (!store->system) {
        return tide_fail(TIDE_EUNREACHABLE, "table '%s' is of this process only", table->name);
    }
    const size_t floats = pass->raw ? table->row_floats : table->width;
    uint64_t asked = pass->misses->count * (sizeof(uint64_t) + (kind == TIDE__LOCALIZE ? 0 : floats * sizeof(float)));
    for (;;) {
        tide__store_yield(store); /* between the local pass and the remote one */
        if (TIDE_BUGGIFY(remote_late) && tide_fiber_current()) {
            (void)tide_sleep(TIDE_SECOND / 1000);
        }
        struct request *requests = NULL;
        bool stale = false;
        uint64_t changes = atomic_load_explicit(&table->changes, memory_order_acquire); /* before the routes are read */
        int code = group(pass, kind, ticket, &requests, &stale);
        size_t messages = 0;
        if (!code && !stale) {
            code = admit(pass, requests, asked);
            asked = 0;
        }
        if (!code && !stale && enlist(pass, ticket, requests, changes, &messages)) {
            if (kind != TIDE__LOCALIZE) {
                tide__table_count(table, kind == TIDE__PULL ? TIDE__PULLS_REMOTE : TIDE__PUSHES_REMOTE,
                                  pass->misses->count);
            }
            send_requests(pass, requests);
            requests_free(store, requests);
            tide__ticket_finish(ticket, 0, NULL);
            return 0;
        }
        requests_free(store, requests);
        code = code ? code : is_overtaken(pass) ? TIDE__OVERTAKEN : 0;
        if (code) {
            tide__pass_take_back(pass, pass->misses->at, pass->misses->count);
        }
        code = code ? code : walk_again(pass, kind);
        if (code || pass->misses->count == 0) {
            return code;
        }
    }
}
