/*
 * Operations: cut into parts, sent, answered, sent again. A pull may be sent any number of times. A push is sent again
 * only to the incarnation of the node that had it, which applies a sequence once; if that is gone its outcome is
 * unknown. A call is never sent again.
 */
#include "client/inside.h"

#include <string.h>

enum { SEQUENCES_TAIL = 18 /* two u64 behind the rows: cf + 8 bytes each */ };

static void op_destroy(struct tide_client_op *op);
static void op_time_out(struct tide_client_op *op);
static void op_unlink(struct tide_client_op *op);

/* ---- parts ---- */

static struct part **bucket(struct tide_client *c, uint64_t call) {
    return &c->calls[call % CALLS];
}

static void calls_add(struct tide_client *c, struct part *p) {
    struct part **at = bucket(c, p->call);
    p->next_call = *at;
    *at = p;
}

static struct part *calls_take(struct tide_client *c, uint64_t call) {
    for (struct part **at = bucket(c, call); *at; at = &(*at)->next_call) {
        if ((*at)->call == call) {
            struct part *p = *at;
            *at = p->next_call;
            return p;
        }
    }
    return NULL;
}

static void waiting_add(struct tide_client *c, struct part *p) {
    p->state = PART_WAITING;
    p->next = NULL;
    *c->waiting_tail = p;
    c->waiting_tail = &p->next;
}

static void unlink_part(struct part **first, struct part ***tail, const struct part *p) {
    struct part **at = first;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    if (!*at) {
        *tail = at;
    }
}

/* The client will not send it again: the node may forget it. */
static void sequence_end(struct tide_client *c, uint64_t sequence) {
    if (sequence == 0) {
        return;
    }
    c->sequence_done[sequence % TIDE__ROWS_WINDOW] = true;
    while (c->low < c->next_sequence && c->sequence_done[c->low % TIDE__ROWS_WINDOW]) {
        c->sequence_done[c->low % TIDE__ROWS_WINDOW] = false;
        c->low++;
    }
}

/* Its operation needs it no more. One that is half written stays in its queue. */
static void part_drop(struct tide_client *c, struct part *p) {
    sequence_end(c, p->sequence);
    p->sequence = 0;
    p->op = NULL;
    if (p->state == PART_WAITING) {
        unlink_part(&c->waiting, &c->waiting_tail, p);
    } else if (p->state == PART_QUEUED || p->state == PART_SENT) {
        (void)calls_take(c, p->call);
    }
    if (p->state == PART_QUEUED && p->written > 0) {
        return;
    }
    if (p->state == PART_QUEUED) {
        unlink_part(&p->connection->queue, &p->connection->queue_tail, p);
    }
    tide_free(p);
}

void part_written(struct part *p) {
    p->state = PART_SENT;
    if (!p->op) {
        tide_free(p);
    }
}

/* ---- operations ---- */

static void op_end(struct tide_client_op *op, int code, const char *text, uint32_t retry_after_ms) {
    if (op->done) {
        return;
    }
    struct tide_client *c = op->client;
    bool tried = op->applied > 0;
    for (size_t i = 0; i < op->part_count; i++) {
        if (op->parts[i]) {
            tried = tried || op->parts[i]->tried;
            part_drop(c, op->parts[i]);
            op->parts[i] = NULL;
        }
    }
    op->done = true;
    op->rows = NULL;
    op->code = code;
    op->text = code != 0 && text ? tide_strdup(text) : NULL;
    op->retry_after_ms = retry_after_ms;
    op->outcome = code == 0 ? TIDE_CLIENT_APPLIED : tried ? TIDE_CLIENT_UNKNOWN : TIDE_CLIENT_NONE;
    c->outstanding--;
    c->bytes -= op->bytes;
    client_finished(op);
}

/* Refused whole, by a node that applied nothing of it. */
static bool is_rejection(int code) {
    return code == TIDE_EINVAL || code == TIDE_ERANGE || code == TIDE_ENAN || code == TIDE_EPERM ||
           code == TIDE_ENOENT || code == TIDE_EMISMATCH || code == TIDE_EPROTO;
}

static void part_failed(struct tide_client *c, struct part *p, int code, const char *text) {
    struct tide_client_op *op = p->op;
    if (code == TIDE_EBUSY && op->kind != OP_CALL) { /* nothing of it was done */
        p->retry_at = client_now(c) + RETRY_NS;
        tide_free(op->refusal);
        op->refusal = tide_strdup(text);
        c->retry_at = p->retry_at < c->retry_at ? p->retry_at : c->retry_at;
        p->tried = false;
        waiting_add(c, p);
        return;
    }
    if (is_rejection(code)) {
        p->tried = false;
    }
    if (code == TIDE_ENOENT && op->table) { /* of the next one that is opened by this name */
        op->table->stale = true;
    }
    for (size_t i = 0; i < op->part_count; i++) {
        if (op->parts[i] == p) {
            op->parts[i] = NULL;
        }
    }
    const bool tried = p->tried;
    sequence_end(c, p->sequence);
    tide_free(p);
    op->applied += tried; /* perhaps */
    op_end(op, code, text, 0);
}

static int take_rows(struct tide_client_op *op, const struct part *p, struct tide_reader *r) {
    size_t floats;
    const void *rows = tide_read_typed(r, TIDE_F32, &floats);
    if (r->error || floats != p->count * op->width) {
        return tide_fail(TIDE_EPROTO, "the node answered with the wrong number of rows");
    }
    if (floats) {
        memcpy(op->rows + p->first * op->width, rows, floats * sizeof(float));
    }
    return 0;
}

static int take_answer(struct tide_client_op *op, const struct part *p, const struct tide_frame *f) {
    struct tide_reader r;
    tide_reader_init(&r, f->body, f->body_size);
    if (op->kind == OP_PULL) {
        return take_rows(op, p, &r);
    }
    if (op->kind != OP_CALL && op->kind != OP_OPEN) {
        return 0;
    }
    const int rc = tide_scan(f->body, f->body_size);
    op->answer = rc != 0 ? NULL : tide_alloc(f->body_size);
    if (!op->answer) {
        return rc != 0 ? rc : tide_fail(TIDE_ENOMEM, "no memory for an answer of %u bytes", (unsigned)f->body_size);
    }
    memcpy(op->answer, f->body, f->body_size);
    op->answer_size = f->body_size;
    return 0;
}

void client_answered(struct connection *k, const struct tide_frame *f) {
    struct tide_client *c = k->client;
    struct part *p = calls_take(c, f->call);
    if (!p) {
        return; /* too late */
    }
    if (p->connection != k || p->state != PART_SENT) { /* no answer of what has not left */
        calls_add(c, p);
        return;
    }
    struct tide_client_op *op = p->op;
    p->state = PART_DONE;
    if (f->kind == TIDE_FRAME_ERROR) {
        struct tide_reader r;
        char text[TEXT_BYTES];
        tide_reader_init(&r, f->body, f->body_size);
        tide_read_array(&r);
        const int64_t code = tide_read_int(&r);
        size_t size;
        const char *at = tide_read_string(&r, &size);
        snprintf(text, sizeof text, "%.*s", (int)(r.error ? 0 : size < sizeof text ? size : sizeof text), at ? at : "");
        part_failed(c, p, code < 0 && code >= INT32_MIN ? (int)code : TIDE_EPROTO, text);
        return;
    }
    const int rc = take_answer(op, p, f);
    if (rc != 0) {
        part_failed(c, p, rc, tide_error_message());
        return;
    }
    for (size_t i = 0; i < op->part_count; i++) {
        if (op->parts[i] == p) {
            op->parts[i] = NULL;
        }
    }
    sequence_end(c, p->sequence);
    tide_free(p);
    op->applied++;
    if (--op->parts_left == 0) {
        op_end(op, 0, NULL, 0);
    }
}

/* ---- leaving ---- */

static void store_be64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

/* A push gets its sequence when it first leaves. False: too many are unanswered. */
static bool number_push(struct tide_client *c, struct part *p) {
    if (p->sequence == 0) {
        if (c->next_sequence - c->low >= TIDE__ROWS_WINDOW) {
            return false;
        }
        p->sequence = c->next_sequence++;
    }
    uint8_t *tail = p->frame + p->size - SEQUENCES_TAIL;
    store_be64(tail + 1, p->sequence);
    store_be64(tail + 10, c->low);
    return true;
}

static struct connection *connection_of(struct tide_client *c, const struct tide_client_op *op) {
    return op->to == 0 ? client_gateway(c) : client_connection_to(c, tide_address_node(op->to), true);
}

static void leave(struct tide_client *c, struct part *p, struct connection *k) {
    const struct tide_frame frame = {.kind = TIDE_FRAME_CALL,
                                     .lane = TIDE_LANE_CONTROL,
                                     .to = p->op->to ? p->op->to : k->rows,
                                     .from = tide_address_make(k->self, OWN_ACTOR),
                                     .call = p->call = ++c->next_call};
    tide_frame_head(p->frame, &frame, p->size - TIDE_FRAME_HEAD);
    c->resent += p->tried;
    p->written = 0;
    p->state = PART_QUEUED;
    p->connection = k;
    p->next = NULL;
    *k->queue_tail = p;
    k->queue_tail = &p->next;
    calls_add(c, p);
}

/* What was under way to a life of a node that is over. False: it is ended. */
static bool may_leave_again(const struct part *p, const struct connection *k) {
    struct tide_client_op *op = p->op;
    if (!p->tried || op->kind == OP_PULL || op->kind == OP_OPEN || op->kind == OP_LOCALIZE ||
        (op->kind == OP_PUSH && p->incarnation == k->incarnation)) {
        return true;
    }
    op_end(op, TIDE_EDIED, "the node that had the push is gone: it was applied once or not at all", 0);
    return false;
}

/* Sends what it can of the parts that wait. False: one of them ended its operation, which changed the list. */
static bool dispatch_some(struct tide_client *c, uint64_t now) {
    struct part *next;
    c->retry_at = TIDE_NEVER;
    for (struct part *p = c->waiting; p; p = next) {
        next = p->next;
        if (p->retry_at > now) {
            c->retry_at = p->retry_at < c->retry_at ? p->retry_at : c->retry_at;
            continue;
        }
        struct connection *k = connection_of(c, p->op);
        if (k && !may_leave_again(p, k)) {
            return false;
        }
        if (k && (p->op->kind != OP_PUSH || number_push(c, p))) {
            unlink_part(&c->waiting, &c->waiting_tail, p);
            leave(c, p, k);
        }
    }
    return true;
}

void client_dispatch(struct tide_client *c) {
    const uint64_t now = client_now(c);
    while (!dispatch_some(c, now)) {
    }
}

void client_lost(struct connection *k, const char *why) {
    struct tide_client *c = k->client;
    while (k->queue && !k->queue->op) { /* half written, and nobody's */
        struct part *p = k->queue;
        k->queue = p->next;
        tide_free(p);
    }
    for (size_t i = 0; i < CALLS; i++) {
        struct part *p = c->calls[i], *next;
        for (; p; p = next) {
            next = p->next_call;
            if (p->connection != k) {
                continue;
            }
            (void)calls_take(c, p->call);
            if (p->op->kind == OP_CALL && p->tried) {
                p->state = PART_DONE;
                part_failed(c, p, TIDE_EDIED, why);
                next = c->calls[i]; /* others of the operation went with it */
            } else {
                waiting_add(c, p);
            }
        }
    }
    k->queue = NULL;
    k->queue_tail = &k->queue;
}

void client_expire(struct tide_client *c, uint64_t now) {
    struct tide_client_op *op = c->ops, *next;
    for (; op; op = next) {
        next = op->next;
        if (!op->done && now >= op->deadline) {
            op_time_out(op);
        }
    }
}

void client_end_all(struct tide_client *c, int code, const char *text) {
    for (struct tide_client_op *op = c->ops, *next; op; op = next) {
        next = op->next;
        if (!op->done) {
            op_end(op, code, text, 0);
        }
    }
}

void client_free_all(struct tide_client *c) {
    while (c->ops) {
        struct tide_client_op *op = c->ops;
        op_unlink(op);
        op_destroy(op);
    }
}

/* ---- starting ---- */

static bool has_place(void *arg) {
    struct tide_client *c = arg;
    return c->outstanding < c->outstanding_max || c->closed != 0;
}

static int admit(struct tide_client *c, size_t bytes, uint64_t deadline, bool waits) {
    if (bytes > c->memory) {
        return tide_fail(TIDE_ELIMIT, "an operation of %zu bytes; the client's memory is %llu", bytes,
                         (unsigned long long)c->memory);
    }
    const int rc = waits ? client_wait_until(c, deadline, has_place, c) : 0;
    if (rc != 0) {
        return rc;
    }
    if (c->closed) {
        return tide_fail(c->closed, "%s", c->closed_text);
    }
    if (!has_place(c) || c->bytes + bytes > c->memory) {
        return tide_fail_busy(1, "%u operations of %llu bytes are outstanding; wait for one of them", c->outstanding,
                              (unsigned long long)c->bytes);
    }
    return 0;
}

static struct tide_client_op *op_create(struct tide_client *c, enum op_kind kind, size_t parts) {
    struct tide_client_op *op = tide_alloc_zero(1, sizeof *op);
    struct part **list = tide_alloc_zero(parts, sizeof *list);
    if (!op || !list) {
        tide_free(op);
        tide_free(list);
        (void)tide_fail(TIDE_ENOMEM, "no memory for an operation of %zu parts", parts);
        return NULL;
    }
    op->client = c;
    op->kind = (uint8_t)kind;
    op->parts = list;
    op->part_count = op->parts_left = parts;
    return op;
}

static void op_time_out(struct tide_client_op *op) {
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "no answer before the deadline%s%s", op->refusal ? "; the node refused: " : "",
             op->refusal ? op->refusal : "");
    op_end(op, TIDE_ETIMEDOUT, text, 0);
}

static void op_destroy(struct tide_client_op *op) {
    tide_free(op->refusal);
    for (size_t i = 0; i < op->part_count; i++) {
        tide_free(op->parts[i]);
    }
    tide_free(op->parts);
    tide_free(op->text);
    tide_free(op->answer);
    tide_free(op);
}

static bool op_is_done(void *arg) {
    return ((struct tide_client_op *)arg)->done;
}

/* The operation's code, its text in the error slot. */
static int op_result(const struct tide_client_op *op) {
    if (op->code == TIDE_EBUSY) {
        return tide_fail_busy(op->retry_after_ms, "%s", op->text ? op->text : "EBUSY");
    }
    return op->code == 0 ? 0 : tide_fail(op->code, "%s", op->text ? op->text : tide_error_name(op->code));
}

static void op_link(struct tide_client *c, struct tide_client_op *op) {
    op->next = c->ops;
    op->place = &c->ops;
    if (op->next) {
        op->next->place = &op->next;
    }
    c->ops = op;
    c->outstanding++;
    c->bytes += op->bytes;
}

static void op_unlink(struct tide_client_op *op) {
    *op->place = op->next;
    if (op->next) {
        op->next->place = op->place;
    }
}

static void done_remove(struct tide_client *c, const struct tide_client_op *op) {
    for (struct tide_client_op **at = &c->done_first; *at; at = &(*at)->next_done) {
        if (*at == op) {
            *at = op->next_done;
            if (!*at) {
                c->done_tail = at;
            }
            return;
        }
    }
}

void tide_client_free(struct tide_client_op *op) {
    if (!op || client_check(op->client) != 0) {
        return;
    }
    struct tide_client *c = op->client;
    pthread_mutex_lock(&c->lock);
    op->blocking = true; /* of no interest to tide_client_done */
    op_end(op, TIDE_ECANCELED, "the operation was freed before it ended", 0);
    done_remove(c, op);
    op_unlink(op);
    pthread_mutex_unlock(&c->lock);
    op_destroy(op);
}

/* *Takes* the operation. */
static int start(struct tide_client_op *op, uint64_t timeout, struct tide_client_op **out) {
    struct tide_client *c = op->client;
    pthread_mutex_lock(&c->lock);
    op->deadline = client_now(c) + (timeout ? timeout : c->timeout);
    op->blocking = out == NULL;
    int rc = admit(c, op->bytes, op->deadline, op->blocking);
    if (rc != 0) {
        pthread_mutex_unlock(&c->lock);
        op_destroy(op);
        return rc;
    }
    op_link(c, op);
    for (size_t i = 0; i < op->part_count; i++) {
        op->parts[i]->op = op;
        waiting_add(c, op->parts[i]);
    }
    client_dispatch(c);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *k = &c->connections[i];
        if (k->up && connection_flush(k) != 0) {
            client_wake(c); /* which finds the connection lost */
        }
    }
    if (out) {
        *out = op;
        pthread_mutex_unlock(&c->lock);
        return 0;
    }
    rc = client_wait_until(c, op->deadline, op_is_done, op);
    if (rc == TIDE_ETIMEDOUT) {
        op_time_out(op);
    } else if (rc != 0) {
        op_end(op, rc, tide_error_message(), 0);
    }
    rc = op_result(op);
    op_unlink(op);
    pthread_mutex_unlock(&c->lock);
    op_destroy(op);
    return rc;
}

int tide_client_wait(struct tide_client_op *op, uint64_t timeout) {
    struct tide_client *c = op->client;
    int rc = client_check(c);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&c->lock);
    const uint64_t until = timeout ? client_now(c) + timeout : op->deadline;
    rc = client_wait_until(c, until < op->deadline ? until : op->deadline, op_is_done, op);
    if (rc == TIDE_ETIMEDOUT && client_now(c) >= op->deadline) {
        op_time_out(op);
    }
    rc = op->done ? op_result(op) : rc;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

bool tide_client_is_done(const struct tide_client_op *op) {
    struct tide_client *c = op->client;
    if (client_check(c) != 0) {
        return true;
    }
    pthread_mutex_lock(&c->lock);
    const bool done = op->done;
    pthread_mutex_unlock(&c->lock);
    return done;
}

const void *tide_client_answer(const struct tide_client_op *op, size_t *size) {
    const bool has = tide_client_is_done(op) && op->answer;
    *size = has ? op->answer_size : 0;
    return has ? op->answer : NULL;
}

int tide_client_outcome(const struct tide_client_op *op) {
    return tide_client_is_done(op) ? op->outcome : TIDE_CLIENT_UNKNOWN;
}

/* ---- requests ---- */

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
    uint8_t head[64];
    struct tide_writer w;
    const size_t key_bytes = count * sizeof *keys, row_bytes = rows ? count * t->width * sizeof *rows : 0;
    const size_t rows_head = rows ? 6 + 9 + SEQUENCES_TAIL : 0;
    tide_writer_init(&w, head, sizeof head);
    tide_write_array(&w, rows ? 7 : 3);
    tide_write_uint(&w, verb);
    tide_write_uint(&w, t->id);
    tide_write_typed_head(&w, TIDE_U64, count);
    struct part *p = part_create(w.size + key_bytes + (rows ? rows_head + row_bytes : 0));
    if (!p) {
        return NULL;
    }
    uint8_t *at = p->frame + TIDE_FRAME_HEAD;
    memcpy(at, w.data, w.size);
    at += w.size;
    if (count) {
        memcpy(at, keys + first, key_bytes);
    }
    at += key_bytes;
    if (rows) {
        const uint32_t size = (uint32_t)row_bytes;
        const uint8_t ext[] = {
            0xc9, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, TIDE_F32};
        memcpy(at, ext, sizeof ext);
        at += sizeof ext;
        if (row_bytes) {
            memcpy(at, rows + first * t->width, row_bytes);
        }
        at += row_bytes;
        at[0] = at[9] = at[18] = 0xcf;
        store_be64(at + 1, t->client->uid);
    }
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
    struct tide_client_op *o = op_create(c, kind, parts);
    if (!o) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < parts; i++) {
        const size_t first = i * each;
        o->parts[i] = encode(t, verb, keys, in, first, count - first < each ? count - first : each);
        if (!o->parts[i]) {
            op_destroy(o);
            return TIDE_ENOMEM;
        }
    }
    o->table = t;
    o->rows = out;
    o->width = t->width;
    o->bytes = count * ((kind == OP_LOCALIZE ? 0 : row_bytes) + sizeof *keys);
    return start(o, timeout, op);
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
    struct tide_client_op *o = op_create(c, kind, 1);
    if (!o) {
        return TIDE_ENOMEM;
    }
    o->parts[0] = part_of(body);
    if (!o->parts[0]) {
        op_destroy(o);
        return TIDE_ENOMEM;
    }
    o->to = to;
    o->bytes = body->size;
    return start(o, timeout, op);
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
        const struct member *m = &c->members[i];
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
