/*
 * Calls: a question with an id, a deadline and exactly one end: a reply, the callee's error, its death, no route,
 * the deadline, or cancellation by the caller. The callee keeps a record of each call it has not answered, so that
 * its own end answers them all.
 */
#include "actor/internal.h"

#include <string.h>

/* ---- the caller's side ---- */

static struct pending_call **chain(struct scheduler *s, uint64_t id) {
    return &s->calls[tide_mix64(id) & (s->call_capacity - 1)];
}

static int calls_grow(struct scheduler *s) {
    uint32_t capacity = s->call_capacity == 0 ? 64 : s->call_capacity * 2;
    struct pending_call **table = tide_alloc_zero(capacity, sizeof(struct pending_call *));
    if (!table) {
        return TIDE_ENOMEM;
    }
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        struct pending_call *call = s->calls[i];
        while (call) {
            struct pending_call *next = call->next;
            struct pending_call **head = &table[tide_mix64(call->id) & (capacity - 1)];
            call->next = *head;
            *head = call;
            call = next;
        }
    }
    tide_free(s->calls);
    s->calls = table;
    s->call_capacity = capacity;
    return 0;
}

static void call_remove(struct scheduler *s, struct pending_call *call) {
    struct pending_call **at = chain(s, call->id);
    while (*at != call) {
        TIDE_ASSERT(*at);
        at = &(*at)->next;
    }
    *at = call->next;
    s->call_count--;
    timer_disarm(s, &call->deadline);
}

static struct pending_call *call_find(struct scheduler *s, uint64_t id) {
    if (s->call_capacity == 0) {
        return NULL;
    }
    struct pending_call *call = *chain(s, id);
    while (call && call->id != id) {
        call = call->next;
    }
    return call;
}

static int call_open(struct scheduler *s, struct pending_call *call, tide_address to, const void *data, size_t size) {
    if (s->call_count >= s->call_capacity && calls_grow(s) < 0) {
        return TIDE_ENOMEM;
    }
    call->id = ++s->next_id;
    call->caller = actor_address(s->current);
    call->callee = to;
    call->next = *chain(s, call->id);
    *chain(s, call->id) = call;
    s->call_count++;
    int rc = actor_send(to, TIDE_CALL, TIDE_LANE_CONTROL, call->id, data, size, NULL);
    if (rc < 0 && !call->done) {
        call_remove(s, call);
    }
    return call->done ? 0 : rc;
}

void calls_complete(struct scheduler *s, struct message *m) {
    struct pending_call *call = call_find(s, m->u.in.call);
    if (!call || tide_address_id(call->caller) != tide_address_id(m->u.in.to) ||
        (m->u.in.right != TIDE_RIGHT_NONE && !TIDE_MUTANT(answer_of_any_client) &&
         tide_address_node(call->callee) != tide_address_node(m->u.in.from))) {
        message_destroy(m); /* late: cancelled or timed out; or a client answers what another was asked */
        return;
    }
    call_remove(s, call);
    if (call->fiber) {
        call->answer = m;
        call->done = true;
        tide_fiber_wake(call->fiber);
        return;
    }
    tide_free(call);
    m->op = OP_MESSAGE;
    m->u.in.lane = TIDE_LANE_ANSWER;
    scheduler_dispatch(s, m);
}

static void fail(struct scheduler *s, struct pending_call *call, int code, const char *text) {
    signal_send(s, OP_REPLY, call->caller, call->callee, call->id, code, text);
}

void calls_node_down(struct scheduler *s, uint16_t node, int code, const char *text) {
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        for (struct pending_call *call = s->calls[i]; call; call = call->next) {
            if (tide_address_node(call->callee) == node) {
                fail(s, call, code, text);
            }
        }
    }
}

static uint32_t count_calls(const struct scheduler *s) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        for (const struct pending_call *call = s->calls[i]; call; call = call->next) {
            count++;
        }
    }
    return count;
}

void calls_of_actor_end(struct scheduler *s, struct actor *actor) {
    if (!actor->calls) {
        return;
    }
    actor->calls = false;
    uint64_t id = tide_address_id(actor_address(actor));
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        struct pending_call **at = &s->calls[i];
        while (*at) {
            struct pending_call *call = *at;
            if (call->fiber || tide_address_id(call->caller) != id) {
                at = &call->next;
                continue;
            }
            *at = call->next;
            s->call_count--;
            timer_disarm(s, &call->deadline);
            signal_send(s, OP_CANCEL, call->callee, call->caller, call->id, 0, NULL);
            tide_free(call);
        }
    }
    TIDE_INVARIANT(count_calls(s) == s->call_count);
}

static int answer_to_error(struct message *m) {
    int code = m->u.in.code;
    tide_fail(code, "%.*s", (int)m->u.in.size, (const char *)m->u.in.data);
    message_destroy(m);
    return code;
}

int tide_call(tide_address to, const void *data, size_t size, uint64_t timeout, struct tide_reply **out) {
    struct scheduler *s = tide__scheduler;
    *out = NULL;
    if (!s || !s->current_fiber) {
        return tide__no_fiber("tide_call");
    }
    struct pending_call call = {.fiber = s->current_fiber};
    uint64_t now = tide_port_now(s->system->port);
    uint64_t deadline = timeout > TIDE_NEVER - 1 - now ? TIDE_NEVER : now + timeout;
    int rc = call_open(s, &call, to, data, size);
    while (rc == 0 && !call.done) {
        rc = tide_fiber_suspend(deadline, "call");
    }
    if (!call.done) {
        if (rc == TIDE_ETIMEDOUT || rc == TIDE_ECANCELED) {
            if (call_find(s, call.id)) { /* not yet removed by call_open */
                call_remove(s, &call);
            }
            signal_send(s, OP_CANCEL, to, call.caller, call.id, 0, NULL);
        }
        return rc == TIDE_ETIMEDOUT ? tide_fail(rc, "no answer from %u:%llu within %.3g s", tide_address_node(to),
                                                (unsigned long long)tide_address_id(to), (double)timeout / 1e9)
                                    : rc;
    }
    if (call.answer->u.in.kind == TIDE_ERROR) {
        return answer_to_error(call.answer);
    }
    *out = (struct tide_reply *)(void *)call.answer;
    return 0;
}

const void *tide_reply_data(const struct tide_reply *reply, size_t *size) {
    const struct message *m = (const struct message *)(const void *)reply;
    *size = m->u.in.size;
    return m->u.in.data;
}

void tide_reply_free(struct tide_reply *reply) {
    if (reply) {
        message_destroy((struct message *)(void *)reply);
    }
}

static void start_deadline(struct scheduler *s, struct timer *timer) {
    struct pending_call *call = TIDE_CONTAINER(timer, struct pending_call, deadline);
    signal_send(s, OP_CANCEL, call->callee, call->caller, call->id, 0, NULL);
    fail(s, call, TIDE_ETIMEDOUT, "no answer within the deadline");
}

int tide_call_start(tide_address to, const void *data, size_t size, uint64_t timeout, uint64_t *id) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        return tide__outside("tide_call_start");
    }
    struct pending_call *call = tide_alloc_zero(1, sizeof *call);
    if (!call) {
        return TIDE_ENOMEM;
    }
    call->deadline.fire = start_deadline;
    s->current->calls = true;
    int rc = call_open(s, call, to, data, size);
    if (rc < 0) {
        tide_free(call);
        return rc;
    }
    if (timeout < TIDE_NEVER) {
        timer_arm(s, &call->deadline, tide_port_now(s->system->port) + timeout);
    }
    *id = call->id;
    return 0;
}

void tide_call_cancel(uint64_t id) {
    struct scheduler *s = tide__scheduler;
    struct pending_call *call = !s ? NULL : call_find(s, id);
    if (call && !call->fiber) {
        signal_send(s, OP_CANCEL, call->callee, call->caller, call->id, 0, NULL);
        call_remove(s, call);
        tide_free(call);
    }
}

/* ---- the callee's side ---- */

void open_call_add(struct actor *actor, const struct tide_message *message) {
    struct open_call *open =
        tide_alloc_vital(sizeof *open); /* or its caller may never be notified of this actor's end */
    *open = (struct open_call){.next = actor->open_calls, .from = message->from, .call = message->call};
    actor->open_calls = open;
}

static struct open_call **open_call_at(struct actor *actor, tide_address from, uint64_t call) {
    struct open_call **at = &actor->open_calls;
    while (*at && ((*at)->call != call || (*at)->from != from)) {
        at = &(*at)->next;
    }
    return at;
}

bool open_call_take(struct actor *actor, tide_address from, uint64_t call) {
    struct open_call **at = open_call_at(actor, from, call), *open = *at;
    if (!open) {
        return false;
    }
    *at = open->next;
    tide_free(open);
    return true;
}

static int not_open(void) {
    return tide_fail(TIDE_ENOENT, "this call was answered, was cancelled, or never came");
}

int tide_answer(tide_address from, uint64_t call, const void *data, size_t size) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        return tide__outside("tide_answer");
    }
    if (!*open_call_at(s->current, from, call)) {
        return not_open();
    }
    if (!is_local(s->system, from)) {
        struct tide_outgoing out = {.to = from,
                                    .from = actor_address(s->current),
                                    .call = call,
                                    .data = data,
                                    .size = (uint32_t)size,
                                    .kind = TIDE_FRAME_REPLY,
                                    .lane = TIDE_LANE_ANSWER,
                                    .prepaid = true};
        int rc = outgoing_post(s->system, &out);
        if (rc != TIDE_ENOMEM) { /* it may be answered again */
            (void)open_call_take(s->current, from, call);
        }
        return rc;
    }
    struct scheduler *target = scheduler_of(s->system, from);
    struct message *m = message_create(s, size);
    if (!m) {
        return TIDE_ENOMEM;
    }
    if (size > 0) {
        memcpy(message_bytes(m), data, size);
    }
    (void)open_call_take(s->current, from, call);
    m->op = OP_REPLY;
    m->u.in = (struct tide_message){.from = actor_address(s->current),
                                    .to = from,
                                    .call = call,
                                    .data = message_bytes(m),
                                    .size = (uint32_t)size,
                                    .kind = TIDE_REPLY,
                                    .lane = TIDE_LANE_ANSWER};
    if (target == s) {
        calls_complete(s, m);
    } else {
        inbox_push(target, m);
    }
    return 0;
}

int tide_answer_error(tide_address from, uint64_t call, int code, const char *text) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        return tide__outside("tide_answer_error");
    }
    if (!open_call_take(s->current, from, call)) {
        return not_open();
    }
    /* Death and no route are said by the runtime alone: a callee that passes them on has refused. */
    if (code >= 0 || code == TIDE_EDIED || code == TIDE_EUNREACHABLE) {
        code = TIDE_EREFUSED;
    }
    signal_send(s, OP_REPLY, from, actor_address(s->current), call, code, text);
    return 0;
}
