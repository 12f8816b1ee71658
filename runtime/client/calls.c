/*
 * What callers ask for: tables and their rows, actors. Arguments are checked here, cut into parts and encoded;
 * request.c does the rest.
 */
#include "client/inside.h"

#include <string.h>

enum { HEADS_MAX = 40 }; /* bytes of a request without keys, rows and sequences */

/* ---- rows ---- */

/* A part with its frame; `size` bytes of body. */
static struct part *part_create(size_t size) {
    struct part *p = tide_alloc(sizeof *p + TIDE_FRAME_HEAD + size);
    if (p) {
        *p = (struct part){.size = TIDE_FRAME_HEAD + size};
    } else {
        (void)tide_fail(TIDE_ENOMEM, "no memory for a request of %zu bytes", size);
    }
    return p;
}

struct tide_client_op *client_op_of(struct tide_client *c, enum op_kind kind, const struct tide_writer *body) {
    struct tide_client_op *op = body->error ? NULL : client_op_create(c, kind, 1);
    if (op) {
        op->parts[0] = part_create(body->size);
        op->bytes = body->size;
    }
    if (op && !op->parts[0]) {
        client_op_destroy(op);
        return NULL;
    }
    if (op) {
        memcpy(op->parts[0]->frame + TIDE_FRAME_HEAD, body->data, body->size);
    }
    return op;
}

/* Values of `size` bytes each, in the order of `order`. */
static void gather(struct tide_writer *w, enum tide_ext type, const void *values, size_t size, const uint32_t *order,
                   size_t first, size_t count, size_t per_element) {
    const uint8_t *from = values;
    if (!order || count == 0) {
        tide_write_typed(w, type, count ? from + first * size : NULL, count * per_element);
        return;
    }
    tide_write_typed_head(w, type, count * per_element);
    uint8_t *to = tide_write_reserve(w, count * size);
    for (size_t i = 0; to && i < count; i++) {
        memcpy(to + i * size, from + order[first + i] * size, size);
    }
}

/* [verb, table, keys], of a push [.., rows, client, sequence, low], and of both whether it is direct. */
static struct part *encode(const struct tide_client_table *t, unsigned verb, const uint64_t *keys, const float *rows,
                           const uint32_t *order, const struct client_piece *piece) {
    const size_t count = piece->count, row_bytes = t->width * sizeof *rows;
    const bool may_be_direct = verb != TIDE__ROWS_LOCALIZE;
    struct part *p =
        part_create(HEADS_MAX + count * (sizeof *keys + (rows ? row_bytes : 0)) + SEQUENCES_TAIL + DIRECT_TAIL);
    struct tide_writer w;
    if (!p) {
        return NULL;
    }
    tide_writer_init(&w, p->frame + TIDE_FRAME_HEAD, p->size - TIDE_FRAME_HEAD);
    tide_write_array(&w, (rows ? 7u : 3u) + may_be_direct);
    tide_write_uint(&w, verb);
    tide_write_uint(&w, t->id);
    gather(&w, TIDE_U64, keys, sizeof *keys, order, piece->first, count, 1);
    if (rows) {
        gather(&w, TIDE_F32, rows, row_bytes, order, piece->first, count, t->width);
        tide_write_uint(&w, t->client->uid);
        uint8_t *tail = tide_write_reserve(&w, SEQUENCES_TAIL);
        if (tail) {
            tail[0] = tail[9] = 0xcf;
        }
    }
    if (may_be_direct) {
        tide_write_bool(&w, false);
    }
    TIDE_ASSERT(!w.owned); /* HEADS_MAX suffices */
    if (w.error != 0) {
        tide_free(p);
        return NULL;
    }
    p->size = TIDE_FRAME_HEAD + w.size;
    p->first = piece->first;
    p->count = count;
    p->home = piece->home;
    return p;
}

static int check_keys(const struct tide_client_table *t, const uint64_t *keys, size_t count) {
    if (count > 0 && !keys) {
        return tide_fail(TIDE_EINVAL, "%zu keys, and no array of them", count);
    }
    for (size_t i = 0; t->key_count > 0 && i < count; i++) {
        if (keys[i] >= t->key_count) {
            return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s' (0..%llu)", (unsigned long long)keys[i],
                             t->name, (unsigned long long)(t->key_count - 1));
        }
    }
    return 0;
}

static int check_rows(const struct tide_client_table *t, const float *rows, size_t count) {
    return count > 0 && !rows ? tide_fail(TIDE_EINVAL, "table '%s': no array of rows", t->name) : 0;
}

/* The operation with all its parts. */
static int rows_create(struct tide_client_table *t, enum op_kind kind, unsigned verb, const uint64_t *keys,
                       size_t count, const float *in, size_t each, struct tide_client_op **out) {
    struct client_cut cut;
    int rc = client_cut(t, kind, keys, count, each, &cut);
    struct tide_client_op *o = rc != 0 ? NULL : client_op_create(t->client, kind, cut.count);
    rc = rc != 0 || o ? rc : TIDE_ENOMEM;
    for (size_t i = 0; rc == 0 && i < cut.count; i++) {
        const struct client_piece piece = client_piece_at(&cut, i, count, each);
        o->parts[i] = encode(t, verb, keys, in, cut.order, &piece);
        rc = o->parts[i] ? 0 : TIDE_ENOMEM;
    }
    if (rc != 0 && o) {
        client_op_destroy(o);
    } else if (rc == 0) {
        o->order = cut.order;
        cut.order = NULL;
        *out = o;
    }
    client_cut_release(&cut);
    return rc;
}

static int rows_start(struct tide_client_table *t, enum op_kind kind, unsigned verb, const uint64_t *keys, size_t count,
                      float *out, const float *in, uint64_t timeout, struct tide_client_op **op) {
    struct tide_client *c = t->client;
    struct tide_client_op *o = NULL;
    const size_t row_bytes = t->width * sizeof(float);
    const size_t fit = PART_BYTES / (row_bytes + sizeof *keys), each = fit ? fit : 1;
    if (count > c->memory / (row_bytes + sizeof *keys)) {
        return tide_fail(TIDE_ELIMIT, "%zu rows of table '%s' are more than the client's memory of %llu bytes", count,
                         t->name, (unsigned long long)c->memory);
    }
    int rc = check_keys(t, keys, count);
    rc = rc != 0 ? rc : rows_create(t, kind, verb, keys, count, in, each, &o);
    if (rc != 0) {
        return rc;
    }
    o->table = t;
    o->rows = out;
    o->width = t->width;
    o->bytes = count * ((kind == OP_LOCALIZE ? 0 : row_bytes) + sizeof *keys);
    return client_op_start(o, timeout, op);
}

int tide_client_pull(struct tide_client_table *table, const uint64_t *keys, size_t count, float *rows, uint64_t timeout,
                     struct tide_client_op **op) {
    int rc = client_check(table->client);
    rc = rc != 0 ? rc : check_rows(table, rows, count);
    return rc != 0 ? rc : rows_start(table, OP_PULL, TIDE__ROWS_PULL, keys, count, rows, NULL, timeout, op);
}

static int check_right(struct tide_client *c) {
    pthread_mutex_lock(&c->lock);
    const unsigned granted = c->granted;
    pthread_mutex_unlock(&c->lock);
    return granted >= TIDE_RIGHT_OPERATE
               ? 0
               : tide_fail(TIDE_EPERM, "to push takes the right operate; this client has %s", tide_right_name(granted));
}

int tide_client_push(struct tide_client_table *table, const uint64_t *keys, size_t count, const float *rows,
                     uint64_t timeout, struct tide_client_op **op) {
    static const float none;
    int rc = client_check(table->client);
    rc = rc != 0 ? rc : check_rows(table, rows, count);
    rc = rc != 0 ? rc : check_right(table->client);
    return rc != 0 ? rc
                   : rows_start(table, OP_PUSH, TIDE__ROWS_PUSH, keys, count, NULL, rows ? rows : &none, timeout, op);
}

int tide_client_localize(struct tide_client_table *table, const uint64_t *keys, size_t count, uint64_t timeout,
                         struct tide_client_op **op) {
    const int rc = client_check(table->client);
    return rc != 0 ? rc : rows_start(table, OP_LOCALIZE, TIDE__ROWS_LOCALIZE, keys, count, NULL, NULL, timeout, op);
}

/* One part with this body; `to` 0: the row service. */
static int call_start(struct tide_client *c, enum op_kind kind, uint64_t to, const struct tide_writer *body,
                      uint64_t timeout, struct tide_client_op **op) {
    struct tide_client_op *o = client_op_of(c, kind, body);
    if (!o) {
        return TIDE_ENOMEM;
    }
    o->to = to;
    return client_op_start(o, timeout, op);
}

/* Starts a call of one part and waits; the operation is the caller's then, also with an error. */
static int call_and_wait(struct tide_client *c, enum op_kind kind, uint64_t to, const struct tide_writer *body,
                         uint64_t timeout, struct tide_client_op **op) {
    *op = NULL;
    const int rc = call_start(c, kind, to, body, timeout, op);
    return rc != 0 ? rc : tide_client_wait(*op, timeout ? timeout : c->timeout);
}

static int read_table(const struct tide_client_op *op, struct tide_client_table *t) {
    struct tide_reader r, v;
    tide_reader_init(&r, op->answer, op->answer_size);
    bool whole = tide_read_field(&r, "table", &v);
    t->id = tide_read_uint(&v);
    whole = whole && tide_read_field(&r, "width", &v);
    t->width = (unsigned)tide_read_uint(&v);
    whole = whole && tide_read_field(&r, "count", &v);
    t->key_count = tide_read_uint(&v);
    whole = whole && tide_read_field(&r, "update", &v);
    tide_read_text(&v, t->update, sizeof t->update);
    return whole && t->width > 0
               ? 0
               : tide_fail(TIDE_EPROTO, "the node described table '%s' in a way unknown here", t->name);
}

static struct tide_client_table *known_table(struct tide_client *c, const char *name) {
    struct tide_client_table *t;
    pthread_mutex_lock(&c->lock);
    for (t = c->tables; t && (t->stale || strcmp(t->name, name) != 0); t = t->next) {
    }
    pthread_mutex_unlock(&c->lock);
    return t;
}

int tide_client_table(struct tide_client *c, const char *name, uint64_t timeout, struct tide_client_table **out) {
    int rc = client_check(c);
    if (rc == 0 && (!name || !tide_identifier_valid(name))) {
        rc = tide_fail(TIDE_EINVAL, "a table's name is lower-case letters, digits and . _ -, at most 63");
    }
    *out = rc != 0 ? NULL : known_table(c, name);
    if (rc != 0 || *out) {
        return rc;
    }
    uint8_t buffer[96];
    struct tide_writer w;
    struct tide_client_op *op;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 2);
    tide_write_uint(&w, TIDE__ROWS_OPEN);
    tide_write_text(&w, name);
    rc = call_and_wait(c, OP_OPEN, 0, &w, timeout, &op);
    struct tide_client_table *t = rc != 0 ? NULL : tide_alloc_zero(1, sizeof *t);
    if (t) {
        t->client = c;
        snprintf(t->name, sizeof t->name, "%s", name);
        rc = read_table(op, t);
    } else {
        rc = rc != 0 ? rc : TIDE_ENOMEM;
    }
    tide_client_free(op);
    if (rc != 0) {
        tide_free(t);
        return rc;
    }
    pthread_mutex_lock(&c->lock);
    t->next = c->tables;
    c->tables = t;
    client_map_want(t);
    client_dispatch(c);
    client_flush(c);
    pthread_mutex_unlock(&c->lock);
    *out = t;
    return 0;
}

unsigned tide_client_width(const struct tide_client_table *table) {
    return table->width;
}

uint64_t tide_client_key_count(const struct tide_client_table *table) {
    return table->key_count;
}

const char *tide_client_update(const struct tide_client_table *table) {
    return table->update;
}

/* ---- actors ---- */

static int ask_registry(struct tide_client *c, uint16_t node, const char *name, uint64_t timeout, uint64_t *actor) {
    uint8_t buffer[80];
    struct tide_writer w;
    struct tide_client_op *op;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_text(&w, name);
    const int rc = call_and_wait(c, OP_CALL, tide_address_make(node, TIDE_ID_REGISTRY), &w, timeout, &op);
    if (rc == 0) {
        struct tide_reader r;
        tide_reader_init(&r, op->answer, op->answer_size);
        *actor = tide_read_uint(&r);
    }
    tide_client_free(op);
    return rc;
}

/* Living members, the gateway first; of this name, if one is given. */
static size_t list_nodes(struct tide_client *c, const char *name, size_t name_size, uint16_t *nodes, size_t limit) {
    size_t count = 0;
    pthread_mutex_lock(&c->lock);
    struct connection *gateway = client_gateway(c);
    for (size_t i = 0; i < c->member_count && count < limit; i++) {
        const struct tide_member *m = &c->members[i];
        const bool named = !name || (strlen(m->name) == name_size && memcmp(m->name, name, name_size) == 0);
        if (m->state == TIDE_MEMBER_UP && named) {
            nodes[count++] = m->id;
            if (gateway && m->id == gateway->node) {
                nodes[count - 1] = nodes[0];
                nodes[0] = m->id;
            }
        }
    }
    pthread_mutex_unlock(&c->lock);
    return count;
}

int tide_client_find(struct tide_client *c, const char *name, uint64_t timeout, uint64_t *actor) {
    uint16_t nodes[CONNECTIONS_MAX - 2];
    int rc = client_check(c);
    if (rc != 0) {
        return rc;
    }
    const char *slash = strchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    if (!tide_identifier_valid(last)) {
        return tide_fail(TIDE_EINVAL, "'%s' is no name of an actor: NAME, or NODE/NAME", name);
    }
    const size_t count =
        list_nodes(c, slash ? name : NULL, slash ? (size_t)(slash - name) : 0, nodes, sizeof nodes / sizeof *nodes);
    rc = tide_fail(TIDE_ENOENT, slash ? "no node is called as '%s' says" : "no actor is called '%s'", name);
    for (size_t i = 0; i < count && rc != 0; i++) {
        rc = ask_registry(c, nodes[i], last, timeout, actor);
        if (rc != 0 && rc != TIDE_ENOENT) {
            return rc;
        }
    }
    return rc != 0 && count > 0 ? tide_fail(rc, "no actor is called '%s' in this cluster", name) : rc;
}

int tide_client_call(struct tide_client *c, uint64_t actor, const void *body, size_t size, uint64_t timeout,
                     struct tide_client_op **op) {
    int rc = client_check(c);
    if (rc == 0 && (size == 0 || size > TIDE_FRAME_MAX / 2 || tide_address_node(actor) == 0)) {
        rc = tide_fail(TIDE_EINVAL, "a call has an actor and a body of one msgpack value, up to 8 MiB");
    }
    rc = rc != 0 ? rc : tide_scan(body, size);
    if (rc != 0) {
        return rc;
    }
    const struct tide_writer w = {.data = (uint8_t *)(uintptr_t)body, .size = size};
    return call_start(c, OP_CALL, actor, &w, timeout, op);
}

int tide_client_cast(struct tide_client *c, uint64_t actor, const void *body, size_t size) {
    int rc = client_check(c);
    rc = rc != 0 ? rc : tide_scan(body, size);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&c->lock);
    struct connection *k = client_connection_to(c, tide_address_node(actor), true);
    rc = c->closed ? tide_fail(c->closed, "%s", c->closed_text)
         : !k      ? tide_fail(TIDE_EUNREACHABLE, "no connection to node %u", (unsigned)tide_address_node(actor))
         : k->own_size + size > c->memory ? tide_fail_busy(1, "too much waits to be written")
                                          : connection_own(k, TIDE_FRAME_CAST, actor, 0, body, size);
    if (rc == 0 && connection_flush(k) != 0) {
        client_wake(c);
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}
