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

static struct part *part_of(const struct tide_writer *w) {
    struct part *p = w->error ? NULL : part_create(w->size);
    if (p) {
        memcpy(p->frame + TIDE_FRAME_HEAD, w->data, w->size);
    }
    return p;
}

/* [verb, table, keys] and of a push [.., rows, client, sequence, low]. */
static struct part *encode(const struct tide_client_table *t, unsigned verb, const uint64_t *keys, const float *rows,
                           size_t first, size_t count) {
    const size_t floats = rows ? count * t->width : 0;
    struct part *p = part_create(HEADS_MAX + count * sizeof *keys + floats * sizeof *rows + SEQUENCES_TAIL);
    struct tide_writer w;
    if (!p) {
        return NULL;
    }
    tide_writer_init(&w, p->frame + TIDE_FRAME_HEAD, p->size - TIDE_FRAME_HEAD);
    tide_write_array(&w, rows ? 7 : 3);
    tide_write_uint(&w, verb);
    tide_write_uint(&w, t->id);
    tide_write_typed(&w, TIDE_U64, count ? keys + first : NULL, count);
    if (rows) {
        tide_write_typed(&w, TIDE_F32, rows + first * t->width, floats);
        tide_write_uint(&w, t->client->uid);
        uint8_t *tail = tide_write_reserve(&w, SEQUENCES_TAIL);
        if (tail) {
            tail[0] = tail[9] = 0xcf;
        }
    }
    TIDE_ASSERT(!w.owned); /* HEADS_MAX suffices */
    if (w.error != 0) {
        tide_free(p);
        return NULL;
    }
    p->size = TIDE_FRAME_HEAD + w.size;
    p->first = first;
    p->count = count;
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

static int rows_start(struct tide_client_table *t, enum op_kind kind, unsigned verb, const uint64_t *keys, size_t count,
                      float *out, const float *in, uint64_t timeout, struct tide_client_op **op) {
    struct tide_client *c = t->client;
    const size_t row_bytes = t->width * sizeof(float);
    const size_t fit = PART_BYTES / (row_bytes + sizeof *keys), each = fit ? fit : 1;
    const size_t parts = count == 0 ? 1 : (count + each - 1) / each;
    if (count > c->memory / (row_bytes + sizeof *keys)) {
        return tide_fail(TIDE_ELIMIT, "%zu rows of table '%s' are more than the client's memory of %llu bytes", count,
                         t->name, (unsigned long long)c->memory);
    }
    const int rc = check_keys(t, keys, count);
    if (rc != 0) {
        return rc;
    }
    struct tide_client_op *o = client_op_create(c, kind, parts);
    if (!o) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < parts; i++) {
        const size_t first = i * each;
        o->parts[i] = encode(t, verb, keys, in, first, count - first < each ? count - first : each);
        if (!o->parts[i]) {
            client_op_destroy(o);
            return TIDE_ENOMEM;
        }
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
    struct tide_client_op *o = client_op_create(c, kind, 1);
    if (!o) {
        return TIDE_ENOMEM;
    }
    o->parts[0] = part_of(body);
    if (!o->parts[0]) {
        client_op_destroy(o);
        return TIDE_ENOMEM;
    }
    o->to = to;
    o->bytes = body->size;
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
