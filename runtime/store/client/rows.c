/*
 * The row service (rows.h). One actor on I/O thread 0, where routes change: what is looked at here does not change
 * before it is used. Its first fiber receives; each request whose rows may lie elsewhere has a fiber of its own.
 */
#include "store/client/rows.h"

#include "store/checkpoint/save.h"
#include "store/clocked/clocked.h"
#include "store/core/table_drop.h"
#include "store/rows/rules.h"
#include "store/rows/slot_index.h"
#include "store/core/technique.h"
#include "wire/rows.h"
#include "tide/placement.h"

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) tide_alloc(size)
#define uthash_free(memory, size) tide_free(memory)
#include <uthash.h>

enum {
    STACK_BYTES = 64 << 10,
    EXT_HEAD = 6,
    ALIGNED = 8,
    RETRY_MS = 20,
    LOOKUP_BYTES = 16 << 20,
    REQUESTS_TURN = 8 /* after which others of the thread may run */
};

struct operation;

/* A push by its sequence: being applied, or answered. */
struct answer {
    uint64_t sequence;
    struct operation *pending; /* NULL: answered with `code` */
    int code;
};

struct pusher { /* a client that pushed */
    uint64_t id, low, used_at;
    unsigned pending;
    struct answer answers[TIDE__ROWS_WINDOW]; /* at sequence modulo their number; sequence 0: none */
    UT_hash_handle hh;
};

struct service {
    struct tide_store *store;
    struct pusher *pushers;
    bool lookups; /* the actor `lookups` */
    unsigned fibers;
    uint64_t bytes;           /* of requests that fibers work on */
    struct tide__bucket rate; /* lookups: of keys */
};

/* A request that a fiber works on. Its keys and rows follow. */
struct operation {
    struct service *service;
    struct tide_table *table; /* held */
    struct answer *answer;    /* of a push with a sequence; NULL */
    struct pusher *pusher;
    tide_address from;
    uint64_t call;
    size_t key_count, bytes;
    unsigned verb;
    float *rows;
    uint64_t keys[];
};

/* ---- reading ---- */

int tide__rows_parse(const void *data, size_t size, struct tide__rows_request *out) {
    static const uint8_t fields[] = {[TIDE__ROWS_OPEN] = 2,
                                     [TIDE__ROWS_PULL] = 3,
                                     [TIDE__ROWS_PUSH] = 7,
                                     [TIDE__ROWS_LOCALIZE] = 3,
                                     [TIDE__ROWS_MAP] = 2};
    struct tide_reader r;
    *out = (struct tide__rows_request){0};
    tide_reader_init(&r, data, size);
    const size_t count = tide_read_array(&r);
    const uint64_t verb = tide_read_uint(&r);
    const bool known = !r.error && verb > 0 && verb < TIDE_COUNT(fields);
    const bool may_be_direct = verb == TIDE__ROWS_PULL || verb == TIDE__ROWS_PUSH;
    if (!known || (count != fields[verb] && !(may_be_direct && count == fields[verb] + 1u))) {
        return tide_fail(TIDE_EPROTO, "the row service does not know this request");
    }
    out->verb = (unsigned)verb;
    if (verb == TIDE__ROWS_OPEN) {
        tide_read_text(&r, out->name, sizeof out->name);
    } else {
        out->table = tide_read_uint(&r);
    }
    if (verb == TIDE__ROWS_PULL || verb == TIDE__ROWS_PUSH || verb == TIDE__ROWS_LOCALIZE) {
        out->keys = tide_read_typed(&r, TIDE_U64, &out->key_count);
    }
    if (verb == TIDE__ROWS_PUSH) {
        out->rows = tide_read_typed(&r, TIDE_F32, &out->row_floats);
        out->client = tide_read_uint(&r);
        out->sequence = tide_read_uint(&r);
        out->low = tide_read_uint(&r);
        if (out->client && (out->sequence == 0 || out->low > out->sequence)) {
            r.error = TIDE_EPROTO;
        }
    }
    if (count > fields[verb]) {
        out->direct = tide_read_bool(&r);
    }
    return r.error || r.at != r.end ? tide_fail(TIDE_EPROTO, "a damaged request to the row service") : 0;
}

/* ---- answering ---- */

static void answer_code(tide_address from, uint64_t call, int code, const char *text) {
    static const uint8_t nil = 0xc0;
    if (code) {
        (void)tide_answer_error(from, call, code, text);
    } else {
        (void)tide_answer(from, call, &nil, sizeof nil);
    }
}

/* Rows of an answer, aligned, behind room for the head that says what they are. */
static float *rows_create(size_t floats) {
    uint8_t *base = tide_alloc(ALIGNED + floats * sizeof(float));
    return base ? (float *)(void *)(base + ALIGNED) : NULL;
}

static void rows_free(float *rows) {
    if (rows) {
        tide_free((uint8_t *)rows - ALIGNED);
    }
}

static void answer_rows(tide_address from, uint64_t call, float *rows, size_t floats) {
    const uint32_t size = (uint32_t)(floats * sizeof(float));
    uint8_t *head = (uint8_t *)rows - EXT_HEAD;
    head[0] = 0xc9; /* ext, with a length of 32 bits */
    for (int i = 0; i < 4; i++) {
        head[1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
    head[5] = TIDE_F32;
    (void)tide_answer(from, call, head, EXT_HEAD + size);
}

/* Number of a table as clients have it: another table that has the same id, such as of a cluster that was started anew,
 * has another one. */
static uint64_t number_of(const struct tide_table *table) {
    return table->id | tide_hash(table->name, strlen(table->name), 0) << 32;
}

/* "factors" for "mf-1.factors"? */
static bool is_short_for(const char *name, const char *full) {
    const size_t size = strlen(name), whole = strlen(full);
    return whole > size && full[whole - size - 1] == '.' && strcmp(full + whole - size, name) == 0;
}

/* By its name, or by that without the run's where only one is meant. Held. ENOENT. */
static int find_table(struct service *s, const char *name, struct tide_table **out) {
    struct tide_table *tables[TIDE__TABLES_MAX];
    char text[240] = "";
    size_t found = 0, at = 0;
    if (tide_table_find(s->store->node, name, out) == 0) {
        return 0;
    }
    const size_t count = tide_store_tables(s->store, tables, TIDE_COUNT(tables));
    for (size_t i = 0; i < count; i++) {
        struct tide_table *table = tables[i];
        if (!is_short_for(name, table->name)) {
            tide_table_release(table);
        } else if (found++ == 0) {
            *out = table;
            at = (size_t)snprintf(text, sizeof text, "%s", table->name);
        } else {
            at += at < sizeof text ? (size_t)snprintf(text + at, sizeof text - at, ", %s", table->name) : 0;
            tide_table_release(table);
        }
    }
    if (found > 1) {
        tide_table_release(*out);
        return tide_fail(TIDE_ENOENT, "several tables are called '%s': %s", name, text);
    }
    return found == 1 ? 0 : tide_fail(TIDE_ENOENT, "no table '%s'; tide tables lists them", name);
}

/* Whether the table lets clients do this (its option `clients`). Nodes may. */
static int allows(const struct tide_table *table, const struct tide_message *m, unsigned verb) {
    const bool is_client = m->right != TIDE_RIGHT_NONE && m->right != TIDE_RIGHT_NODE;
    const bool changes = verb == TIDE__ROWS_PUSH || verb == TIDE__ROWS_LOCALIZE;
    if (is_client && table->options.clients == TIDE_CLIENTS_NONE) {
        return tide_fail(TIDE_EPERM, "table '%s' is closed to clients (clients = \"none\")", table->name);
    }
    if (is_client && changes && table->options.clients == TIDE_CLIENTS_READ) {
        return tide_fail(TIDE_EPERM, "table '%s' lets clients read alone (clients = \"read\")", table->name);
    }
    return 0;
}

static void answer_open(struct service *s, const struct tide_message *m, const char *name) {
    struct tide_table *table;
    if (find_table(s, name, &table)) {
        (void)tide_answer_error(m->from, m->call, TIDE_ENOENT, tide_error_message());
        return;
    }
    if (allows(table, m, TIDE__ROWS_OPEN)) {
        (void)tide_answer_error(m->from, m->call, TIDE_EPERM, tide_error_message());
        tide_table_release(table);
        return;
    }
    uint8_t buffer[256];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_map(&w, 7);
    tide_write_text(&w, "name");
    tide_write_text(&w, table->name);
    tide_write_text(&w, "version");
    tide_write_uint(&w, TIDE__ROWS_VERSION);
    tide_write_text(&w, "table");
    tide_write_uint(&w, number_of(table));
    tide_write_text(&w, "width");
    tide_write_uint(&w, table->width);
    tide_write_text(&w, "keys");
    tide_write_text(&w, table->options.keys == TIDE_KEYS_DENSE ? "dense" : "hashed");
    tide_write_text(&w, "count");
    tide_write_uint(&w, table->options.keys == TIDE_KEYS_DENSE ? table->options.key_count : 0);
    tide_write_text(&w, "update");
    tide_write_text(&w, tide__rule_name(&table->options));
    (void)tide_answer(m->from, m->call, w.data, w.size);
    tide_writer_release(&w);
    tide_table_release(table);
}

/* May clients go to the homes of keys by themselves? Not where the row may be with another node than its home, or have
 * copies that a client would read past its own pushes. A push to a table with copies against loss goes by a gateway: it
 * survives the home's death, and so the push is applied once. */
static bool is_mapped(struct tide_table *table) {
    return !table->operations->owners && !tide__hot_of(table);
}

static void answer_map(struct tide_table *table, const struct tide_message *m) {
    uint8_t buffer[128];
    uint16_t homes[TIDE_SLOT_COUNT];
    struct tide_writer w;
    tide_table_slot_homes(table, homes);
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_map(&w, 5);
    tide_write_text(&w, "version");
    tide_write_uint(&w, atomic_load_explicit(&table->map_version, memory_order_relaxed));
    tide_write_text(&w, "slots");
    tide_write_uint(&w, table->options.keys == TIDE_KEYS_HASHED    ? TIDE__SLOTS_BY_HASH
                        : table->options.slots == TIDE_SLOTS_RANGE ? TIDE__SLOTS_BY_RANGE
                                                                   : TIDE__SLOTS_SPREAD);
    tide_write_text(&w, "pulls");
    tide_write_bool(&w, is_mapped(table));
    tide_write_text(&w, "pushes");
    tide_write_bool(&w, is_mapped(table) && !table->operations->groups);
    tide_write_text(&w, "homes");
    tide_write_typed(&w, TIDE_U16, homes, is_mapped(table) ? TIDE_SLOT_COUNT : 0);
    if (w.error) {
        (void)tide_answer_error(m->from, m->call, w.error, "no memory for a map of slots");
    } else {
        (void)tide_answer(m->from, m->call, w.data, w.size);
    }
    tide_writer_release(&w);
}

/* ---- what a client has pushed ---- */

static void forget_pusher(struct service *s, struct pusher *p) {
    HASH_DEL(s->pushers, p);
    tide_free(p);
}

/* Drops clients that have not pushed for long; if there are too many, the one that pushed longest ago. */
static bool make_place(struct service *s, uint64_t now) {
    struct pusher *p, *next, *oldest = NULL;
    HASH_ITER(hh, s->pushers, p, next) {
        if (p->pending == 0 && now - p->used_at >= tide_limit(store_answers_kept)) {
            forget_pusher(s, p);
        } else if (p->pending == 0 && (!oldest || p->used_at < oldest->used_at)) {
            oldest = p;
        }
    }
    if (HASH_COUNT(s->pushers) < ROWS_CLIENTS) {
        return true;
    }
    if (oldest) {
        forget_pusher(s, oldest);
    }
    return oldest != NULL;
}

/* NULL: error slot set. */
static struct pusher *find_pusher(struct service *s, uint64_t id) {
    const uint64_t now = tide_port_now(s->store->port);
    struct pusher *p = NULL;
    HASH_FIND(hh, s->pushers, &id, sizeof id, p);
    if (!p) {
        if (HASH_COUNT(s->pushers) >= ROWS_CLIENTS && !make_place(s, now)) {
            (void)tide_fail(TIDE_EBUSY, "%d clients push to this node at one time", ROWS_CLIENTS);
            return NULL;
        }
        p = tide_alloc_zero(1, sizeof *p);
        if (!p) {
            return NULL;
        }
        p->id = id;
        HASH_ADD(hh, s->pushers, id, sizeof p->id, p);
    }
    p->used_at = now;
    return p;
}

/* The place of a push that is to be applied. NULL: it was answered, or an answer follows. */
static struct answer *begin_push(struct service *s, const struct tide_message *m, const struct tide__rows_request *q,
                                 struct pusher **owner) {
    struct pusher *p = find_pusher(s, q->client);
    if (!p) {
        (void)tide_answer_error(m->from, m->call, TIDE_EBUSY, tide_error_message());
        return NULL;
    }
    p->low = q->low > p->low ? q->low : p->low;
    struct answer *a = &p->answers[q->sequence % TIDE__ROWS_WINDOW];
    if (a->sequence == q->sequence && a->pending) { /* sent again: the later call is answered */
        (void)tide_answer_error(a->pending->from, a->pending->call, TIDE_ECLOSED, "it was sent again");
        a->pending->from = m->from;
        a->pending->call = m->call;
        return NULL;
    }
    if (a->sequence == q->sequence && !TIDE_MUTANT(rows_push_twice)) {
        answer_code(m->from, m->call, a->code, a->code ? tide_error_name(a->code) : NULL);
        return NULL;
    }
    if (a->pending && a->sequence < q->sequence) { /* one that the client has abandoned */
        (void)tide_answer_error(m->from, m->call, TIDE_EBUSY, "an earlier push of this client is not done");
        return NULL;
    }
    if (q->sequence < p->low || a->sequence > q->sequence) {
        (void)tide_answer_error(m->from, m->call, TIDE_ELIMIT, "a push that a later one has overtaken");
        return NULL;
    }
    a->sequence = 0;
    *owner = p;
    return a;
}

/* EBUSY: nothing was applied, and the same sequence may come again. */
static void end_push(struct answer *a, uint64_t sequence, int code) {
    a->pending = NULL;
    a->code = code;
    a->sequence = code == TIDE_EBUSY ? 0 : sequence;
}

/* ---- operations ---- */

static bool is_owned(struct tide_table *table, uint32_t slot, uint64_t key) {
    atomic_uint_fast64_t *words = atomic_load_explicit(&table->slots[slot].index, memory_order_acquire);
    return words && tide__word_state(atomic_load_explicit(&words[tide__place_of(table, slot, key)],
                                                          memory_order_acquire)) == TIDE__OWNED;
}

/* Does the operation end without waiting for anything? Keys were checked. */
static bool is_here(struct tide_table *table, unsigned verb, const uint64_t *keys, size_t count) {
    const bool hashed = table->options.keys == TIDE_KEYS_HASHED;
    if (verb == TIDE__ROWS_LOCALIZE || table->operations->groups || tide__hot_of(table) ||
        (table->operations->owners && hashed) || (tide__clocked_part(table) && verb == TIDE__ROWS_PUSH)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = tide__slot_of(table, keys[i]);
        if (table->operations->owners ? !is_owned(table, slot, keys[i])
                                      : (tide__route_of(table, slot) & TIDE__FOR_WORKER) != TIDE__MINE) {
            return false;
        }
    }
    return true;
}

/* Is this node the home of all keys, also of slots whose rows are still in flight to it? */
static int check_homes(const struct tide_table *table, const uint64_t *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!(tide__route_of(table, tide__slot_of(table, keys[i])) & TIDE__FOR_FOREIGN)) {
            return tide_fail(TIDE_EVERSION, "the slot of key %llu has moved; ask for the table's map",
                             (unsigned long long)keys[i]);
        }
    }
    return 0;
}

static int operate(struct operation *op) {
    switch (op->verb) {
    case TIDE__ROWS_PULL:
        return tide_table_pull(op->table, op->keys, op->key_count, op->rows, NULL);
    case TIDE__ROWS_PUSH:
        return tide_table_push(op->table, op->keys, op->key_count, op->rows, NULL);
    default:
        return tide_table_localize(op->table, op->keys, op->key_count, NULL);
    }
}

static void operation_free(struct operation *op) {
    tide_table_release(op->table);
    rows_free(op->rows);
    tide_free(op);
}

/* A home that died is no death of the row service: waiters learn that rows are lost. */
static int told_code(int code) {
    return code == TIDE_EDIED || code == TIDE_EUNREACHABLE ? TIDE_ELOST : code;
}

static void operation_run(struct operation *op) {
    const uint64_t sequence = op->answer ? op->answer->sequence : 0;
    const int code = told_code(operate(op));
    if (op->answer) {
        end_push(op->answer, sequence, code);
    }
    if (code == 0 && op->verb == TIDE__ROWS_PULL) {
        answer_rows(op->from, op->call, op->rows, op->key_count * op->table->width);
    } else {
        answer_code(op->from, op->call, code, tide_error_message());
    }
}

static void operation_main(void *arg) {
    struct operation *op = arg;
    struct service *s = op->service;
    operation_run(op);
    if (op->pusher) {
        op->pusher->pending--;
    }
    s->fibers--;
    s->bytes -= op->bytes;
    operation_free(op);
}

static int check(const struct tide_table *table, const struct tide__rows_request *q) {
    const size_t row_bytes = table->width * sizeof(float);
    if (q->key_count > 1 && q->key_count * row_bytes > TIDE__ROWS_BYTES_MAX) {
        return tide_fail(TIDE_ELIMIT, "%zu rows of %zu bytes; a request has up to %d bytes of rows", q->key_count,
                         row_bytes, TIDE__ROWS_BYTES_MAX);
    }
    if (q->verb == TIDE__ROWS_PUSH && q->row_floats != q->key_count * table->width) {
        return tide_fail(TIDE_EMISMATCH, "%zu values for %zu rows of table '%s', which have %u each", q->row_floats,
                         q->key_count, table->name, (unsigned)table->width);
    }
    return 0;
}

/* The request with keys and rows of its own; *gives*. */
static int operation_create(struct service *s, struct tide_table *table, const struct tide_message *m,
                            const struct tide__rows_request *q, struct operation **out) {
    const size_t key_bytes = q->key_count * sizeof(uint64_t);
    const bool has_rows = q->verb != TIDE__ROWS_LOCALIZE;
    struct operation *op = tide_alloc(sizeof *op + key_bytes);
    float *rows = has_rows ? rows_create(q->key_count * table->width) : NULL;
    if (!op || (has_rows && !rows)) {
        tide_free(op);
        rows_free(rows);
        return tide_fail(TIDE_ENOMEM, "no memory for %zu rows", q->key_count);
    }
    *op = (struct operation){.service = s,
                             .table = table,
                             .from = m->from,
                             .call = m->call,
                             .key_count = q->key_count,
                             .verb = q->verb,
                             .rows = rows,
                             .bytes = key_bytes + (has_rows ? q->key_count * table->width * sizeof(float) : 0)};
    tide__table_hold(table);
    if (key_bytes) {
        memcpy(op->keys, q->keys, key_bytes);
    }
    if (q->verb == TIDE__ROWS_PUSH && q->row_floats) {
        memcpy(rows, q->rows, q->row_floats * sizeof(float));
    }
    *out = op;
    const int code = tide__check_keys(table, op->keys, op->key_count);
    if (code) {
        operation_free(op);
    }
    return code;
}

/* A fiber does it; *takes* the operation if it answers 0. */
static int start_fiber(struct service *s, struct operation *op) {
    if (s->fibers >= ROWS_FIBERS || (s->fibers > 0 && s->bytes + op->bytes > ROWS_BYTES)) {
        return tide_fail_busy(RETRY_MS, "%u requests of clients wait on this node for rows of others", s->fibers);
    }
    const int code = tide_fiber_start(operation_main, op, STACK_BYTES, NULL);
    if (code == 0) {
        s->fibers++;
        s->bytes += op->bytes;
    }
    return code;
}

static int serve(struct service *s, const struct tide_message *m, const struct tide__rows_request *q) {
    struct operation *op = NULL;
    struct tide_table *table = tide__table_by_id(s->store, (uint32_t)q->table);
    if (!table || !atomic_load_explicit(&table->ready, memory_order_acquire) || number_of(table) != q->table) {
        return tide_fail(TIDE_ENOENT, "the table is gone: open it again by its name");
    }
    int code = allows(table, m, q->verb);
    if (code == 0 && q->verb == TIDE__ROWS_MAP) {
        answer_map(table, m);
        return 0;
    }
    code = code ? code : check(table, q);
    code = code ? code : operation_create(s, table, m, q, &op);
    if (code) {
        return code;
    }
    if (q->verb == TIDE__ROWS_PUSH && q->client && !(q->direct && TIDE_MUTANT(rows_homes_first))) {
        op->answer = begin_push(s, m, q, &op->pusher);
        if (!op->answer) {
            operation_free(op);
            return 0;
        }
        op->answer->sequence = q->sequence;
    }
    code = q->direct ? check_homes(table, op->keys, op->key_count) : 0;
    if (code == 0 && is_here(table, q->verb, op->keys, op->key_count)) {
        operation_run(op);
        operation_free(op);
        return 0;
    }
    code = code ? code : start_fiber(s, op);
    if (code == 0 && op->answer) {
        op->answer->pending = op;
        op->pusher->pending++;
    } else if (code && op->answer) {
        end_push(op->answer, q->sequence, TIDE_EBUSY);
    }
    if (code) {
        operation_free(op);
    }
    return code;
}

/* ---- the actor ---- */

/* Takes the keys of a lookup from the node's rate. */
static int take_rate(struct service *s, size_t keys) {
    const struct tide__bucket before = s->rate;
    const uint64_t now = tide_port_now(s->store->port), at = tide__bucket_take(&s->rate, now, (double)keys);
    if (at > now) {
        s->rate = before;
        const uint32_t retry_ms = (uint32_t)((at - now) / 1000000 + 1);
        return tide_fail_busy(retry_ms,
                              "lookups at this node have used their rate (store_lookup_rate): try again in "
                              "%u ms",
                              (unsigned)retry_ms);
    }
    return 0;
}

static int permit(struct service *s, const struct tide_message *m, const struct tide__rows_request *q) {
    const bool changes = q->verb == TIDE__ROWS_PUSH || q->verb == TIDE__ROWS_LOCALIZE;
    if (s->lookups && changes) {
        return tide_fail(TIDE_EPERM, "the actor `lookups` serves pulls; the actor `rows` takes pushes");
    }
    if (s->lookups && q->verb == TIDE__ROWS_PULL && take_rate(s, q->key_count)) {
        return TIDE_EBUSY;
    }
    const bool may = m->right == TIDE_RIGHT_NONE || m->right >= (changes ? TIDE_RIGHT_OPERATE : TIDE_RIGHT_READ);
    return may || TIDE_MUTANT(rows_read_pushes)
               ? 0
               : tide_fail(TIDE_EPERM,
                           "to %s takes the right operate; this client has read: connect with "
                           "right \"operate\"",
                           q->verb == TIDE__ROWS_PUSH ? "push" : "localize");
}

static void on_call(struct service *s, const struct tide_message *m) {
    struct tide__rows_request q;
    int code = tide__rows_parse(m->data, m->size, &q);
    code = code ? code : permit(s, m, &q);
    if (code == 0 && q.verb == TIDE__ROWS_OPEN) {
        answer_open(s, m, q.name);
    } else if (code == 0) {
        code = serve(s, m, &q);
    }
    if (code) {
        (void)tide_answer_error(m->from, m->call, code, tide_error_message());
    }
}

static int service_main(void *state) {
    struct service *s = state;
    const struct tide_message *m;
    bool stops = false;
    if (s->lookups) {
        tide_actor_share((unsigned)tide_limit(store_lookup_share));
    }
    for (unsigned i = 1; !stops && tide_receive(TIDE_NEVER, &m) == 0; i++) {
        stops = m->kind == TIDE_STOP;
        if (m->kind == TIDE_CALL) {
            on_call(s, m);
        }
        tide_message_free(m);
        if (i % REQUESTS_TURN == 0) {
            (void)tide_yield();
        }
    }
    while (s->fibers > 0 && tide_sleep(TIDE_SECOND / 100) == 0) {
        /* they end by their answers, or when the actor is killed */
    }
    return 0;
}

static void service_release(void *state) {
    struct service *s = state;
    struct pusher *p, *next;
    HASH_ITER(hh, s->pushers, p, next) {
        forget_pusher(s, p);
    }
    tide_free(s);
}

static int create(struct tide_node *node, struct tide_store *store, bool lookups) {
    struct service *s = tide_alloc_zero(1, sizeof *s);
    tide_address address;
    if (!s) {
        return TIDE_ENOMEM;
    }
    s->store = store;
    s->lookups = lookups;
    s->rate.per_second = (double)tide_limit(store_lookup_rate);
    const struct tide_actor_options options = {.name = lookups ? "lookups" : "rows",
                                               .type = lookups ? "lookups" : "rows",
                                               .run = service_main,
                                               .state = s,
                                               .release = service_release,
                                               .bytes_max = lookups ? LOOKUP_BYTES : ROWS_BYTES,
                                               .role = TIDE_ROLE_IO,
                                               .opens = TIDE_RIGHT_READ};
    const int code = tide_spawn(node, &options, &address);
    if (code) {
        service_release(s);
    }
    return code;
}

int tide_rows_create(struct tide_node *node, struct tide_store *store) {
    const int code = create(node, store, false);
    return code ? code : create(node, store, true);
}
