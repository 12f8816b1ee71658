/*
 * Sending and receiving: the local path (a mailbox or another thread's inbox), the remote path (the route, behind
 * admission by credit), and what links hand over from other nodes.
 */
#include "actor/internal.h"

#include <string.h>

enum { BODY_COPY_MAX = 1024, BODY_MAX = 64 << 20, TEXT_MAX = 4000 };

/* ---- outgoing ---- */

int outgoing_post(struct tide_system *system, const struct tide_outgoing *prototype) {
    if (!atomic_load_explicit(&system->routed, memory_order_acquire)) {
        return tide_fail(TIDE_EUNREACHABLE, "this node is not connected to others");
    }
    struct scheduler *s = tide__scheduler && tide__scheduler->system == system ? tide__scheduler : NULL;
    if (s) {
        s->acts++;
    }
    struct message *m = message_create(s, prototype->size);
    if (!m) {
        return TIDE_ENOMEM;
    }
    if (prototype->size > 0) {
        memcpy(message_bytes(m), prototype->data, prototype->size);
    }
    m->op = OP_OUTGOING;
    m->u.out = *prototype;
    m->u.out.next = NULL;
    m->u.out.data = message_bytes(m);
    if (prototype->tail) {
        tide_blob_ref(prototype->tail);
    }
    struct scheduler *io = system->schedulers[0];
    if (s == io && !prototype->in_line) {
        system->route.send(system->route.arg, &m->u.out);
    } else {
        inbox_push(io, m);
    }
    return 0;
}

static int admit(struct tide_system *system, const struct tide_outgoing *m) {
    size_t bytes = TIDE_FRAME_HEAD + tide_outgoing_body(m);
    struct tide_fiber *fiber = tide_fiber_current();
    for (;;) {
        int rc = system->route.admit(system->route.arg, tide_address_node(m->to), (enum tide_lane)m->lane, bytes,
                                     m->window, fiber);
        if (rc != TIDE_EBUSY || !fiber) {
            return rc;
        }
        TIDE_SOMETIMES(sender_waits_for_credit);
        rc = tide_fiber_suspend(TIDE_NEVER, "link credit");
        if (rc < 0) {
            return rc;
        }
    }
}

int tide_system_send(struct tide_system *system, const struct tide_outgoing *prototype, bool prepaid) {
    if (!prepaid) {
        if (!atomic_load_explicit(&system->routed, memory_order_acquire)) {
            return tide_fail(TIDE_EUNREACHABLE, "this node is not connected to others");
        }
        int rc = admit(system, prototype);
        if (rc < 0) {
            return rc;
        }
    }
    struct tide_outgoing m = *prototype;
    m.prepaid = prepaid;
    int rc = outgoing_post(system, &m);
    if (rc < 0 && !prepaid && system->route.refund && !TIDE_MUTANT(refund_forgotten)) {
        system->route.refund(system->route.arg, tide_address_node(m.to), (enum tide_lane)m.lane,
                             TIDE_FRAME_HEAD + tide_outgoing_body(&m));
    }
    return rc;
}

/* ---- local ---- */

static void hand_over(struct scheduler *target, struct message *m) {
    if (target == tide__scheduler) {
        scheduler_dispatch(target, m);
    } else {
        inbox_push(target, m);
    }
}

/* Neither credit nor room in a mailbox: its receiver may wait for it, and its sender must not wait in turn. */
static bool never_waits(uint8_t lane) {
    return lane == TIDE_LANE_SYSTEM || lane == TIDE_LANE_ANSWER;
}

/* Waits in a fiber, refuses in a handler. 0 also when the target is gone: then the message disappears. */
static int wait_for_room(struct scheduler *target, tide_address to, size_t size) {
    struct actor *actor = actor_find(target, to);
    struct scheduler *s = tide__scheduler;
    while (actor && !mailbox_has_room(actor, size) && actor != s->current) { /* a send to oneself never blocks */
        if (!s->current_fiber) {
            return tide_fail(TIDE_EBUSY, "the mailbox of %u:%llu is full", tide_address_node(to),
                             (unsigned long long)tide_address_id(to));
        }
        struct message *m = message_create(s, 0);
        if (!m) {
            return TIDE_ENOMEM;
        }
        m->op = OP_ROOM;
        m->fiber = s->current_fiber;
        m->u.in = (struct tide_message){.to = to, .size = (uint32_t)size};
        hand_over(target, m);
        TIDE_SOMETIMES(sender_waits_for_room);
        int rc = tide_fiber_suspend(TIDE_NEVER, "room in a mailbox");
        if (rc < 0) {
            return rc;
        }
        actor = actor_find(target, to);
    }
    return 0;
}

static int send_local(tide_address to, uint8_t kind, uint8_t lane, uint64_t call, const void *data, size_t size,
                      struct tide_blob *tail) {
    struct scheduler *s = tide__scheduler;
    struct scheduler *target = scheduler_of(s->system, to);
    if (!target) {
        return kind == TIDE_CALL ? tide_fail(TIDE_EDIED, "no such actor") : 0;
    }
    size_t total = size + (tail ? tail->size : 0);
    int rc = never_waits(lane) ? 0 : wait_for_room(target, to, total);
    if (rc < 0) {
        return rc;
    }
    const bool share = size == 0 && tail; /* the whole body: as it is */
    struct message *m = message_create(s, share ? 0 : total);
    if (!m) {
        return TIDE_ENOMEM;
    }
    unsigned char *bytes = share ? tail->data : message_bytes(m);
    if (share) {
        m->owner = tide_blob_ref(tail);
    }
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    if (size > 0 && tail) {
        memcpy(bytes + size, tail->data, tail->size);
    }
    m->u.in = (struct tide_message){.from = s->current ? actor_address(s->current) : TIDE_NOBODY,
                                    .to = to,
                                    .call = call,
                                    .data = bytes,
                                    .size = (uint32_t)total,
                                    .kind = kind,
                                    .lane = lane};
    s->acts++;
    hand_over(target, m);
    return 0;
}

static int send_within(tide_address to, uint8_t kind, uint8_t lane, uint64_t call, const void *data, size_t size,
                       struct tide_blob *tail, uint32_t window) {
    struct scheduler *s = tide__scheduler;
    if (!s) {
        return tide__outside("tide_send");
    }
    if (lane >= TIDE_LANE_COUNT) {
        return tide_fail(TIDE_EINVAL, "tide_send: there is no lane %u", (unsigned)lane);
    }
    if (size + (tail ? tail->size : 0) > BODY_MAX) {
        return tide_fail(TIDE_ELIMIT, "a message of %zu bytes is over the limit of %d MiB",
                         size + (tail ? tail->size : 0), BODY_MAX >> 20);
    }
    if (is_local(s->system, to)) {
        return send_local(to, kind, lane, call, data, size, tail);
    }
    struct tide_outgoing m = {.to = to,
                              .from = s->current ? actor_address(s->current) : TIDE_NOBODY,
                              .call = call,
                              .data = data,
                              .tail = tail,
                              .size = (uint32_t)size,
                              .kind = kind == TIDE_CALL ? TIDE_FRAME_CALL : TIDE_FRAME_CAST,
                              .lane = lane,
                              .window = window};
    return tide_system_send(s->system, &m, never_waits(lane));
}

int actor_send(tide_address to, uint8_t kind, uint8_t lane, uint64_t call, const void *data, size_t size,
               struct tide_blob *tail) {
    return send_within(to, kind, lane, call, data, size, tail, 0);
}

int tide_send_blob_within(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail,
                          uint32_t window) {
    return send_within(to, TIDE_CAST, (uint8_t)lane, 0, data, size, tail, window);
}

int tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size) {
    return actor_send(to, TIDE_CAST, (uint8_t)lane, 0, data, size, NULL);
}

int tide_send_blob(tide_address to, enum tide_lane lane, const void *data, size_t size, struct tide_blob *tail) {
    return actor_send(to, TIDE_CAST, (uint8_t)lane, 0, data, size, tail);
}

/* For a message from outside: it waits where the mailbox does not count it yet. */
static int reserve_room(struct scheduler *target, tide_address to, size_t size, bool *posted) {
    int rc = 0;
    tide_lock(&target->slots_lock); /* no other actor takes the slot meanwhile */
    struct actor *actor = actor_find(target, to);
    if (actor) {
        /* What is posted first: a message that moves on between the two looks is counted twice, not missed. */
        const uint64_t on_way = atomic_load_explicit(&actor->posted_messages, memory_order_acquire);
        const uint64_t bytes_on_way = atomic_load_explicit(&actor->posted_bytes, memory_order_acquire);
        const uint64_t messages = on_way + atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed);
        const uint64_t bytes = bytes_on_way + atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed);
        if (messages > 0 && (messages >= actor->messages_max || bytes + size > actor->bytes_max)) {
            rc = tide_fail(TIDE_EBUSY, "the mailbox of %u:%llu is full", tide_address_node(to),
                           (unsigned long long)tide_address_id(to));
        } else {
            atomic_fetch_add_explicit(&actor->posted_messages, 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&actor->posted_bytes, (unsigned)size, memory_order_relaxed);
            *posted = true;
        }
    }
    tide_unlock(&target->slots_lock);
    return rc;
}

int tide_post(struct tide_node *node, tide_address to, const void *data, size_t size) {
    struct tide_system *system = tide_system_of(node);
    if (size > BODY_MAX) {
        return tide_fail(TIDE_ELIMIT, "a message of %zu bytes is over the limit of %d MiB", size, BODY_MAX >> 20);
    }
    if (!is_local(system, to)) {
        struct tide_outgoing out = {.to = to,
                                    .data = data,
                                    .size = (uint32_t)size,
                                    .kind = TIDE_FRAME_CAST,
                                    .lane = TIDE_LANE_CONTROL,
                                    .prepaid = true};
        return outgoing_post(system, &out);
    }
    struct scheduler *target = scheduler_of(system, to);
    struct message *m = !target ? NULL : message_create(NULL, size);
    if (!m) {
        return !target ? tide_fail(TIDE_ENOENT, "no such actor") : TIDE_ENOMEM;
    }
    memcpy(message_bytes(m), data, size);
    m->u.in = (struct tide_message){
        .to = to, .data = message_bytes(m), .size = (uint32_t)size, .kind = TIDE_CAST, .lane = TIDE_LANE_CONTROL};
    if (!tide__scheduler) { /* what the node's own threads say they bound themselves */
        const int rc = reserve_room(target, to, size, &m->posted);
        if (rc < 0) {
            message_destroy(m);
            return rc;
        }
    }
    inbox_push(target, m);
    return 0;
}

/* ---- receive ---- */

int tide_receive(uint64_t deadline, const struct tide_message **out) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current_fiber) {
        return tide__no_fiber("tide_receive");
    }
    struct tide_fiber *fiber = s->current_fiber;
    struct actor *actor = fiber->actor;
    for (;;) {
        struct message *m = mailbox_pop(actor);
        if (m) {
            mailbox_handled(actor, m->u.in.size);
            s->acts++;
            if (m->u.in.kind == TIDE_CALL) {
                open_call_add(actor, &m->u.in);
            }
            *out = &m->u.in;
            return 0;
        }
        fiber->receiving = true;
        int rc = tide_fiber_suspend(deadline, "receive");
        fiber->receiving = false;
        if (rc < 0 && !(rc == TIDE_ETIMEDOUT && mailbox_has_message(actor))) {
            TIDE_SOMETIMES(receive_timed_out);
            if (mailbox_has_message(actor)) { /* this fiber may have been woken for it */
                TIDE_SOMETIMES(receiver_passes_its_wake_on);
                wake_receiver(actor);
            }
            return rc;
        }
    }
}

/* ---- signals ---- */

static enum tide_frame_kind signal_frame(enum message_op op) {
    switch (op) {
    case OP_REPLY:
        return TIDE_FRAME_ERROR;
    case OP_MONITOR:
        return TIDE_FRAME_MONITOR;
    case OP_DEMONITOR:
        return TIDE_FRAME_DEMONITOR;
    case OP_LINK:
        return TIDE_FRAME_LINK;
    case OP_UNLINK:
        return TIDE_FRAME_UNLINK;
    case OP_CANCEL:
        return TIDE_FRAME_CANCEL;
    default:
        return TIDE_FRAME_EXIT;
    }
}

static void signal_remote(struct scheduler *s, enum message_op op, tide_address to, tide_address from, uint64_t call,
                          int code, const char *text) {
    uint8_t buffer[700];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    if (op == OP_REPLY || op == OP_EXIT || op == OP_KILL) {
        tide_write_array(&w, 2);
        tide_write_int(&w, code);
        tide_write_string(&w, text, strnlen(text, TEXT_MAX));
    } else {
        tide_write_nil(&w);
    }
    struct tide_outgoing out = {.to = to,
                                .from = from,
                                .call = op == OP_KILL ? TIDE_EXIT_KILLS : call,
                                .data = w.data,
                                .size = (uint32_t)w.size,
                                .code = code,
                                .kind = (uint8_t)signal_frame(op),
                                .lane = op == OP_REPLY ? TIDE_LANE_ANSWER : TIDE_LANE_CONTROL,
                                .prepaid = true};
    if (outgoing_post(s->system, &out) < 0 && (op == OP_MONITOR || op == OP_LINK)) {
        signal_send(s, OP_EXIT, from, to, call, TIDE_EUNREACHABLE, "no connection to that node");
    }
    tide_writer_release(&w);
}

static void send_signal(struct scheduler *s, enum message_op op, tide_address to, tide_address from, uint64_t call,
                        int code, const char *text) {
    if (!is_local(s->system, to)) {
        signal_remote(s, op, to, from, call, code, text);
        return;
    }
    struct scheduler *target = scheduler_of(s->system, to);
    size_t size = strnlen(text, TEXT_MAX);
    struct message *m = !target ? NULL : message_create(s, size + 1);
    if (!m) {
        return;
    }
    memcpy(message_bytes(m), text, size);
    message_bytes(m)[size] = 0;
    m->op = (uint8_t)op;
    m->u.in = (struct tide_message){.from = from,
                                    .to = to,
                                    .call = call,
                                    .data = message_bytes(m),
                                    .size = (uint32_t)size,
                                    .code = code,
                                    .kind = op == OP_REPLY ? TIDE_ERROR : TIDE_EXIT,
                                    .lane = TIDE_LANE_CONTROL};
    bool relation = op == OP_MONITOR || op == OP_DEMONITOR || op == OP_LINK || op == OP_UNLINK;
    if (relation && target == tide__scheduler) { /* at once: a message sent next must not overtake it */
        scheduler_dispatch(target, m);
    } else { /* through the own inbox too: a chain of exits must not become a recursion */
        inbox_push(target, m);
    }
}

/* A waiter for one, of an end or an answer, would wait for ever. */
void signal_send(struct scheduler *s, enum message_op op, tide_address to, tide_address from, uint64_t call, int code,
                 const char *text) {
    TIDE_ASSERT(s);
    s->acts++;
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    send_signal(s, op, to, from, call, code, !text ? "" : text);
    tide__memory_swap(use);
}

/* ---- from other nodes ---- */

static enum message_op frame_op(const struct tide_frame *f) {
    switch (f->kind) {
    case TIDE_FRAME_CAST:
    case TIDE_FRAME_CALL:
        return OP_MESSAGE;
    case TIDE_FRAME_REPLY:
    case TIDE_FRAME_ERROR:
        return OP_REPLY;
    case TIDE_FRAME_EXIT:
        return f->call == TIDE_EXIT_KILLS ? OP_KILL : OP_EXIT;
    case TIDE_FRAME_MONITOR:
        return OP_MONITOR;
    case TIDE_FRAME_DEMONITOR:
        return OP_DEMONITOR;
    case TIDE_FRAME_LINK:
        return OP_LINK;
    case TIDE_FRAME_UNLINK:
        return OP_UNLINK;
    case TIDE_FRAME_CANCEL:
        return OP_CANCEL;
    default:
        return OP_OUTGOING; /* not for actors */
    }
}

static struct message *from_frame(struct scheduler *s, const struct tide_frame *f, struct tide_blob *owner) {
    const uint8_t *body = f->body;
    size_t size = f->body_size;
    int64_t code = 0;
    if (f->kind == TIDE_FRAME_ERROR || f->kind == TIDE_FRAME_EXIT) {
        struct tide_reader r;
        tide_reader_init(&r, body, size);
        tide_read_array(&r);
        code = tide_read_int(&r);
        body = (const uint8_t *)tide_read_string(&r, &size);
        if (r.error != 0 || code > 0 || code < INT32_MIN) {
            return NULL;
        }
    }
    bool share = owner && size > BODY_COPY_MAX;
    struct message *m = message_create(s, share ? 0 : size + 1);
    if (!m) {
        return NULL;
    }
    if (share) {
        m->owner = tide_blob_ref(owner);
    } else {
        memcpy(message_bytes(m), body, size);
        message_bytes(m)[size] = 0; /* texts of errors and exits are used as C strings */
        body = message_bytes(m);
    }
    static const uint8_t kinds[] = {[TIDE_FRAME_CALL] = TIDE_CALL,
                                    [TIDE_FRAME_REPLY] = TIDE_REPLY,
                                    [TIDE_FRAME_ERROR] = TIDE_ERROR,
                                    [TIDE_FRAME_EXIT] = TIDE_EXIT};
    m->op = (uint8_t)frame_op(f);
    m->u.in = (struct tide_message){.from = f->from,
                                    .to = f->to,
                                    .call = f->call,
                                    .data = body,
                                    .size = (uint32_t)size,
                                    .code = (int32_t)code,
                                    .kind = f->kind < sizeof kinds ? kinds[f->kind] : TIDE_CAST,
                                    .lane = f->lane};
    return m;
}

void tide_system_deliver(struct tide_system *system, const struct tide_frame *frame, struct tide_blob *owner,
                         struct tide_credit_account *account, uint8_t right) {
    struct scheduler *target = scheduler_of(system, frame->to);
    struct scheduler *io = system->schedulers[0];
    if (frame_op(frame) == OP_OUTGOING || frame->lane >= TIDE_LANE_COUNT) {
        return;
    }
    struct scheduler *previous = tide__scheduler;
    tide__scheduler = io;
    target = !target ? io : target;
    struct message *m = from_frame(io, frame, owner);
    if (m) {
        m->u.in.right = right;
        if (account) {
            atomic_fetch_add_explicit(&account->refs, 1, memory_order_relaxed);
            m->account = account;
            m->credit_bytes = (uint32_t)(TIDE_FRAME_HEAD + frame->body_size);
        }
        hand_over(target, m);
        if (target == io && system->port->simulated) { /* a real loop takes a turn after its events anyway */
            tide_executor_wake(system->port, io->executor);
        }
    }
    tide__scheduler = previous;
}

void tide_system_node_down(struct tide_system *system, uint16_t node, int code, const char *reason) {
    for (unsigned t = 0; t < system->count; t++) {
        size_t size = strnlen(reason, 400);
        struct message *m = message_create(NULL, size + 1);
        if (!m) {
            continue;
        }
        memcpy(message_bytes(m), reason, size);
        message_bytes(m)[size] = 0;
        m->op = OP_NODE_DOWN;
        m->u.in = (struct tide_message){.call = node, .code = code, .data = message_bytes(m)};
        inbox_push(system->schedulers[t], m);
    }
}

void tide_system_fail_call(struct tide_system *system, const struct tide_outgoing *m, int code, const char *reason) {
    struct scheduler *previous = tide__scheduler;
    tide__scheduler = system->schedulers[0];
    if (m->kind == TIDE_FRAME_CALL) {
        signal_send(tide__scheduler, OP_REPLY, m->from, m->to, m->call, code, reason);
    } else if (m->kind == TIDE_FRAME_MONITOR || m->kind == TIDE_FRAME_LINK) {
        signal_send(tide__scheduler, OP_EXIT, m->from, m->to, m->call, code, reason);
    }
    tide__scheduler = previous;
}
