/*
 * Operations: cut into parts, sent, answered, sent again. A pull may be sent any number of times. A push is sent again
 * only to the incarnation of the node that had it, which applies a sequence once; if that is gone its outcome is
 * unknown. A call is never sent again. A part whose home is known goes there, and by the gateway while no link to the
 * home is up.
 */
#include "client/inside.h"

#include <string.h>

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
    if (op->kind == OP_MAP) {
        op->next_done = c->spent;
        c->spent = op;
        return;
    }
    c->outstanding--;
    c->bytes -= op->bytes;
    client_finished(op);
}

/* It was answered, or fails for good. */
static void part_end(struct tide_client *c, struct part *p) {
    struct tide_client_op *op = p->op;
    for (size_t i = 0; i < op->part_count; i++) {
        if (op->parts[i] == p) {
            op->parts[i] = NULL;
        }
    }
    sequence_end(c, p->sequence);
    tide_free(p);
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
    if (code == TIDE_EVERSION && p->direct) { /* redirected: its slots have moved, and nothing of it was done */
        TIDE_SOMETIMES(client_redirected);
        c->redirected++;
        client_map_want(op->table);
        p->home = 0;
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
    op->applied += p->tried; /* perhaps */
    part_end(c, p);
    op_end(op, code, text, 0);
}

static int take_rows(struct tide_client_op *op, const struct part *p, struct tide_reader *r) {
    size_t floats;
    const void *rows = tide_read_typed(r, TIDE_F32, &floats);
    if (r->error || floats != p->count * op->width) {
        return tide_fail(TIDE_EPROTO, "the node answered with the wrong number of rows");
    }
    if (floats && !op->order) {
        memcpy(op->rows + p->first * op->width, rows, floats * sizeof(float));
    }
    const size_t row_bytes = op->width * sizeof(float);
    for (size_t i = 0; op->order && i < p->count; i++) {
        memcpy(op->rows + op->order[p->first + i] * op->width, (const uint8_t *)rows + i * row_bytes, row_bytes);
    }
    return 0;
}

static int take_answer(struct tide_client_op *op, const struct part *p, const struct tide_frame *f) {
    struct tide_reader r;
    tide_reader_init(&r, f->body, f->body_size);
    if (op->kind == OP_PULL) {
        return take_rows(op, p, &r);
    }
    if (op->kind == OP_MAP) {
        return client_map_take(op->table, f->body, f->body_size);
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
    part_end(c, p);
    op->applied++;
    if (--op->parts_left == 0) {
        op_end(op, 0, NULL, 0);
    }
}

/* ---- leaving ---- */

static void store64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

/* A push gets its sequence when it first leaves. False: too many are unanswered. */
static bool number_push(struct tide_client *c, struct part *p) {
    if (p->sequence == 0 || TIDE_MUTANT(client_sequence_anew)) {
        if (c->next_sequence - c->low >= TIDE__ROWS_WINDOW) {
            return false;
        }
        p->sequence = c->next_sequence++;
    }
    uint8_t *tail = p->frame + p->size - SEQUENCES_TAIL - DIRECT_TAIL;
    store64(tail + 1, p->sequence);
    store64(tail + 10, c->low);
    return true;
}

/* Of a push that has left before, the node that had it: only that node has a record of it. */
static struct connection *connection_of(struct tide_client *c, struct part *p) {
    const struct tide_client_op *op = p->op;
    if (op->to != 0) {
        return client_connection_to(c, tide_address_node(op->to), true);
    }
    if (op->kind == OP_PUSH && p->tried && !TIDE_MUTANT(client_push_elsewhere)) {
        return client_home(c, p->node);
    }
    struct connection *k = p->home ? client_home(c, p->home) : NULL;
    p->direct = k != NULL;
    if (p->home && !k && !client_has_member(c, p->home, 0)) {
        client_map_want(op->table);
    }
    return k ? k : client_gateway(c);
}

static void leave(struct tide_client *c, struct part *p, struct connection *k) {
    const struct tide_frame frame = {.kind = TIDE_FRAME_CALL,
                                     .lane = TIDE_LANE_CONTROL,
                                     .to = p->op->to ? p->op->to : k->rows,
                                     .from = tide_address_make(k->self, OWN_ACTOR),
                                     .call = p->call = ++c->next_call};
    tide_frame_head(p->frame, &frame, p->size - TIDE_FRAME_HEAD);
    if (p->op->kind == OP_PULL || p->op->kind == OP_PUSH) {
        p->frame[p->size - DIRECT_TAIL] = p->direct ? 0xc3 : 0xc2;
    }
    if (p->tried && p->op->kind == OP_PUSH) {
        TIDE_SOMETIMES(client_push_sent_again);
    }
    c->direct += p->direct;
    c->resent += p->tried;
    p->written = 0;
    p->state = PART_QUEUED;
    p->connection = k;
    p->next = NULL;
    *k->queue_tail = p;
    k->queue_tail = &p->next;
    calls_add(c, p);
}

/* A push in flight to a life of a node that is over. True: its operation has ended. */
static bool is_orphan(struct tide_client *c, const struct part *p) {
    if (p->op->kind != OP_PUSH || !p->tried || client_has_member(c, p->node, p->incarnation)) {
        return false; /* a call that has left never waits again */
    }
    TIDE_SOMETIMES(client_push_orphaned);
    op_end(p->op, TIDE_EDIED, "the node that had the push is gone: it was applied once or not at all", 0);
    return true;
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
        if (is_orphan(c, p)) {
            return false;
        }
        struct connection *k = connection_of(c, p);
        if (k && (p->op->kind != OP_PUSH || number_push(c, p))) {
            unlink_part(&c->waiting, &c->waiting_tail, p);
            leave(c, p, k);
        }
    }
    return true;
}

static void free_spent(struct tide_client *c) {
    while (c->spent) {
        struct tide_client_op *op = c->spent;
        c->spent = op->next_done;
        op_unlink(op);
        client_op_destroy(op);
    }
}

void client_dispatch(struct tide_client *c) {
    const uint64_t now = client_now(c);
    free_spent(c);
    while (!dispatch_some(c, now)) {
    }
    if (c->maps_wanted) {
        client_maps_ask(c);
        while (!dispatch_some(c, now)) {
        }
    }
}

void client_flush(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *k = &c->connections[i];
        if (k->up && connection_flush(k) != 0) {
            client_wake(c); /* which finds the connection lost */
        }
    }
}

void client_lost(struct connection *k, const char *why) {
    struct tide_client *c = k->client;
    while (k->queue && !k->queue->op) { /* half written, without an operation */
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
        client_op_destroy(op);
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

struct tide_client_op *client_op_create(struct tide_client *c, enum op_kind kind, size_t parts) {
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
    TIDE_SOMETIMES(client_deadline_passed);
    snprintf(text, sizeof text, "no answer before the deadline%s%s", op->refusal ? "; the node refused: " : "",
             op->refusal ? op->refusal : "");
    op_end(op, TIDE_ETIMEDOUT, text, 0);
}

void client_op_destroy(struct tide_client_op *op) {
    tide_free(op->refusal);
    for (size_t i = 0; i < op->part_count; i++) {
        tide_free(op->parts[i]);
    }
    tide_free(op->parts);
    tide_free(op->order);
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
    for (size_t i = 0; i < op->part_count; i++) {
        op->parts[i]->op = op;
        waiting_add(c, op->parts[i]);
    }
}

void client_op_start_own(struct tide_client_op *op, uint64_t deadline) {
    op->deadline = deadline;
    op->blocking = true;
    op_link(op->client, op);
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
    client_op_destroy(op);
}

int client_op_start(struct tide_client_op *op, uint64_t timeout, struct tide_client_op **out) {
    struct tide_client *c = op->client;
    pthread_mutex_lock(&c->lock);
    op->deadline = client_now(c) + (timeout ? timeout : c->timeout);
    op->blocking = out == NULL;
    int rc = admit(c, op->bytes, op->deadline, op->blocking);
    if (rc != 0) {
        pthread_mutex_unlock(&c->lock);
        client_op_destroy(op);
        return rc;
    }
    c->outstanding++;
    c->bytes += op->bytes;
    op_link(c, op);
    client_dispatch(c);
    client_flush(c);
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
    client_op_destroy(op);
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
