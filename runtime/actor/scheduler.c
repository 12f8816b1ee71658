/*
 * A scheduler's turn: take the inbox whole, fire timers, let runnable actors handle up to 64 messages each (fewer
 * where they take long), and, on an I/O thread, let the route write what gathered. Runs on its executor's thread only.
 */
#include "actor/internal.h"

#include <string.h>

enum { BUDGET_NS = 200000, SAMPLE_EVERY = 16, LOOK_EVERY = 8 /* a power of two */ };

_Thread_local struct scheduler *tide__scheduler;

struct scheduler *scheduler_of(struct tide_system *system, tide_address to) {
    unsigned thread = (unsigned)(to >> 40) & 0xff;
    return thread < system->count ? system->schedulers[thread] : NULL;
}

bool is_local(const struct tide_system *system, tide_address who) {
    uint16_t node = tide_address_node(who);
    return node == 0 || node == atomic_load_explicit(&system->node_id, memory_order_relaxed);
}

tide_address actor_address(const struct actor *actor) {
    uint64_t node = atomic_load_explicit(&actor->scheduler->system->node_id, memory_order_relaxed);
    return node << 48 | atomic_load_explicit(&actor->id, memory_order_relaxed);
}

struct actor *actor_find(struct scheduler *s, tide_address who) {
    uint32_t index = (uint32_t)who & ((1u << INDEX_BITS) - 1);
    struct actor *chunk = __atomic_load_n(&s->chunks[index / SLOT_CHUNK], __ATOMIC_ACQUIRE); /* with slot_take */
    if (!chunk) {
        return NULL;
    }
    struct actor *actor = &chunk[index % SLOT_CHUNK];
    /* acquire: pairs with the release in actor_init of a spawn from another thread */
    uint64_t id = atomic_load_explicit(&actor->id, memory_order_acquire);
    return id != 0 && id == tide_address_id(who) ? actor : NULL;
}

struct actor *actor_at(const struct scheduler *s, uint32_t index) {
    struct actor *chunk = __atomic_load_n(&s->chunks[index / SLOT_CHUNK], __ATOMIC_ACQUIRE); /* with slot_take */
    struct actor *actor = chunk ? &chunk[index % SLOT_CHUNK] : NULL;
    return actor && atomic_load_explicit(&actor->id, memory_order_acquire) != 0 ? actor : NULL;
}

/* ---- inbox ---- */

void inbox_push(struct scheduler *target, struct message *message) {
    if (TIDE_UNLIKELY(atomic_load_explicit(&target->system->taps, memory_order_relaxed) > 0) &&
        message->op == OP_MESSAGE) {
        message->queued_at = tide_port_now(target->system->port);
    }
    struct message *old = atomic_load_explicit(&target->inbox, memory_order_relaxed);
    do {
        message->next = old;
        /* release: pairs with the acquire in drain_inbox */
    } while (!atomic_compare_exchange_weak_explicit(&target->inbox, &old, message, memory_order_seq_cst,
                                                    memory_order_relaxed));
    if (!old && !(TIDE_MUTANT(inbox_not_woken) &&
                  message->op == OP_WAKE)) { /* the sender that found it empty wakes; later ones need not */
        tide_executor_wake(target->system->port, target->executor);
    }
}

bool scheduler_pending(void *arg) {
    struct scheduler *s = arg;
    return atomic_load_explicit(&s->inbox, memory_order_seq_cst);
}

static void drain_inbox(struct scheduler *s) {
    if (!atomic_load_explicit(&s->inbox, memory_order_relaxed)) {
        return;
    }
    struct message *newest = atomic_exchange_explicit(&s->inbox, NULL, memory_order_acq_rel);
    struct message *oldest = NULL;
    while (newest) {
        struct message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct message *next = oldest->next;
        if (next) {
            __builtin_prefetch(next->next);
        }
        scheduler_dispatch(s, oldest);
        oldest = next;
    }
}

/* ---- mailboxes ---- */

static void queue_push(struct queue *queue, struct message *message) {
    message->next = NULL;
    if (!queue->tail) {
        queue->head = message;
    } else {
        queue->tail->next = message;
    }
    queue->tail = message;
}

static struct message *queue_pop(struct queue *queue) {
    struct message *message = queue->head;
    if (message) {
        queue->head = message->next;
        if (!queue->head) {
            queue->tail = NULL;
        }
    }
    return message;
}

static void counter_add(atomic_uint *counter, uint32_t amount) { /* owner thread writes, others read */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount, memory_order_relaxed);
}

void wake_receiver(struct actor *actor) {
    for (struct tide_fiber *f = actor->fibers; f; f = f->next) {
        if (f->receiving) {
            f->receiving = TIDE_MUTANT(receiver_woken_twice); /* the next message is for the next fiber */
            tide_fiber_wake(f);
            return;
        }
    }
}

void mailbox_push(struct scheduler *s, struct actor *actor, struct message *message) {
    uint8_t lane = message->u.in.lane;
    if (TIDE_UNLIKELY(atomic_load_explicit(&actor->tap, memory_order_relaxed))) {
        tap_message(s, actor, message);
    }
    queue_push(lane == TIDE_LANE_SYSTEM ? &actor->urgent
               : lane == TIDE_LANE_BULK ? &actor->bulk
                                        : &actor->normal,
               message);
    counter_add(&actor->mailbox_messages, 1);
    counter_add(&actor->mailbox_bytes, message->u.in.size);
    if (!actor->run) {
        actor_schedule(s, actor);
        return;
    }
    wake_receiver(actor);
}

static struct message *pop_next(struct actor *actor) {
    struct message *m = queue_pop(&actor->urgent);
    if (m) {
        return m;
    }
    if (actor->normal.head && (!actor->bulk.head || actor->bulk_debt < 8)) {
        actor->bulk_debt = (uint8_t)(!actor->bulk.head ? 0 : actor->bulk_debt + 1);
        return queue_pop(&actor->normal);
    }
    actor->bulk_debt = 0;
    return queue_pop(&actor->bulk);
}

struct message *mailbox_pop(struct actor *actor) {
    struct message *m = pop_next(actor);
    if (TIDE_UNLIKELY(m && atomic_load_explicit(&actor->tap, memory_order_relaxed))) {
        tap_taken(actor, m);
    }
    return m;
}

/* At most half full, an empty one always: senders that wait continue only here, so that they do not take turns at the
 * brim. */
static bool mailbox_is_half(const struct actor *actor) {
    return atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed) <= actor->messages_max / 2 &&
           atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed) <= actor->bytes_max / 2;
}

/* A sender is woken only when it finds room: else it would wait again at once, without end. */
bool mailbox_can_continue(const struct actor *actor, const struct message *sender) {
    return (mailbox_is_half(actor) && mailbox_has_room(actor, sender->u.in.size)) ||
           (TIDE_MUTANT(room_by_messages) &&
            atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed) <= actor->messages_max / 2);
}

static void wake_sender(struct message *sender) {
    tide_fiber_wake(sender->fiber);
    message_destroy(sender);
}

/* Those that find no room yet stay in line. Cold, as `queued`: inlined they cost each message a frame. */
__attribute__((noinline, cold)) static void wake_senders(struct actor *actor) {
    struct queue waiting = actor->senders;
    struct message *sender;
    actor->senders = (struct queue){0};
    while ((sender = queue_pop(&waiting))) {
        if (mailbox_can_continue(actor, sender)) {
            wake_sender(sender);
        } else {
            queue_push(&actor->senders, sender);
        }
    }
}

void mailbox_end(struct actor *actor) {
    struct message *sender;
    while ((sender = queue_pop(&actor->senders))) {
        wake_sender(sender);
    }
}

static void wait_for_room(struct scheduler *s, struct message *sender) {
    struct actor *actor = actor_find(s, sender->u.in.to);
    if (!actor || mailbox_can_continue(actor, sender)) {
        wake_sender(sender);
    } else {
        queue_push(&actor->senders, sender);
    }
}

__attribute__((noinline, cold)) static uint32_t queued(const struct actor *actor) {
    const struct queue *const queues[] = {&actor->urgent, &actor->normal, &actor->bulk};
    uint32_t count = 0;
    for (unsigned i = 0; i < TIDE_COUNT(queues); i++) {
        for (const struct message *m = queues[i]->head; m; m = m->next) {
            count++;
        }
    }
    return count;
}

/* Called when a message has left the mailbox: counts it out and wakes senders once there is room for half. */
void mailbox_handled(struct actor *actor, size_t bytes) {
    TIDE_ASSERT(atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed) > 0);
    TIDE_ASSERT(atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed) >= bytes);
    counter_add(&actor->mailbox_messages, (uint32_t)-1);
    counter_add(&actor->mailbox_bytes, (uint32_t) - (int32_t)bytes);
    atomic_store_explicit(&actor->handled, atomic_load_explicit(&actor->handled, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (TIDE_UNLIKELY(actor->senders.head != NULL) && mailbox_is_half(actor) && !TIDE_MUTANT(flow_room_not_told)) {
        wake_senders(actor);
    }
    TIDE_INVARIANT(atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed) >= queued(actor));
}

/* ---- dispatch of what the inbox and local senders hand over ---- */

/* Called once the mailbox counts the message, or it is gone: a look at both counts may find it twice, never missing. */
static void posted_arrived(struct actor *actor, size_t size) {
    atomic_fetch_sub_explicit(&actor->posted_messages, 1, memory_order_release);
    atomic_fetch_sub_explicit(&actor->posted_bytes, (unsigned)size, memory_order_release);
}

static void deliver(struct scheduler *s, struct message *m) {
    struct actor *actor = actor_find(s, m->u.in.to);
    const bool live = actor && actor->lifecycle == ACTOR_LIVE, posted = m->posted && actor;
    const size_t size = m->u.in.size;
    if (live && actor_opens_to(actor, m->u.in.right)) {
        mailbox_push(s, actor, m);
        if (TIDE_UNLIKELY(posted)) {
            posted_arrived(actor, size);
        }
        return;
    }
    if (posted) {
        posted_arrived(actor, size);
    }
    if (m->u.in.kind == TIDE_CALL && live) {
        signal_send(s, OP_REPLY, m->u.in.from, m->u.in.to, m->u.in.call, TIDE_EPERM,
                    "this actor does not open to a client's right");
    } else if (m->u.in.kind == TIDE_CALL) {
        TIDE_SOMETIMES(call_to_ended_actor);
        signal_send(s, OP_REPLY, m->u.in.from, m->u.in.to, m->u.in.call, TIDE_EDIED, "no such actor");
    }
    message_destroy(m);
}

static void cancel_received(struct scheduler *s, struct message *m) {
    struct actor *actor = actor_find(s, m->u.in.to);
    if (!actor || !open_call_take(actor, m->u.in.from, m->u.in.call)) {
        message_destroy(m);
        return;
    }
    TIDE_SOMETIMES(call_cancelled);
    m->op = OP_MESSAGE;
    m->u.in.kind = TIDE_CANCEL;
    m->u.in.lane = TIDE_LANE_CONTROL;
    mailbox_push(s, actor, m);
}

static void each_actor(struct scheduler *s, void (*visit)(struct scheduler *, struct actor *, const struct message *),
                       const struct message *m) {
    uint32_t count = __atomic_load_n(&s->slot_count, __ATOMIC_ACQUIRE); /* spawns from other threads continue */
    for (uint32_t i = count; i-- > 0;) { /* newest first: children before their parents */
        struct actor *actor = actor_at(s, i);
        if (actor && actor->lifecycle == ACTOR_LIVE) {
            visit(s, actor, m);
        }
    }
}

static void visit_node_down(struct scheduler *s, struct actor *actor, const struct message *m) {
    relations_node_down(s, actor, (uint16_t)m->u.in.call, m->u.in.code, (const char *)m->u.in.data);
}

static void visit_stop(struct scheduler *s, struct actor *actor, const struct message *m) {
    if (m->u.in.code != STOP_ASK) {
        actor_kill(s, actor, TIDE_EKILLED, "the node stops");
        return;
    }
    struct message *stop = message_create(s, 0);
    if (!stop) {
        return; /* the next phase kills it */
    }
    stop->u.in = (struct tide_message){.to = actor_address(actor), .kind = TIDE_STOP, .lane = TIDE_LANE_SYSTEM};
    mailbox_push(s, actor, stop);
}

void scheduler_dispatch(struct scheduler *s, struct message *m) {
    struct actor *actor;
    switch ((enum message_op)m->op) {
    case OP_MESSAGE:
        deliver(s, m);
        return;
    case OP_WAKE:
        fiber_make_ready(s, m->fiber);
        return;
    case OP_OUTGOING:
        s->system->route.send(s->system->route.arg, &m->u.out);
        return;
    case OP_REPLY:
        calls_complete(s, m);
        return;
    case OP_MONITOR:
    case OP_DEMONITOR:
    case OP_LINK:
    case OP_UNLINK:
    case OP_EXIT:
        relation_signal(s, m);
        return;
    case OP_CANCEL:
        cancel_received(s, m);
        return;
    case OP_ROOM:
        wait_for_room(s, m);
        return;
    case OP_TASK:
        task_run(s, m);
        return;
    case OP_TASK_DONE:
        m->task->done(m->task);
        break;
    case OP_KILL:
        actor = actor_find(s, m->u.in.to);
        if (actor) {
            actor_kill(s, actor, m->u.in.code, "killed");
        }
        break;
    case OP_START:
        actor = actor_find(s, m->u.in.to);
        if (actor) {
            scheduler_start_fiber(s, actor);
        }
        break;
    case OP_NODE_DOWN:
        calls_node_down(s, (uint16_t)m->u.in.call, m->u.in.code, (const char *)m->u.in.data);
        each_actor(s, visit_node_down, m);
        break;
    case OP_STOP:
        s->stop = (uint8_t)m->u.in.code;
        if (s->stop < STOP_CLOSE) {
            each_actor(s, visit_stop, m);
        }
        return; /* embedded */
    }
    message_destroy(m);
}

/* ---- running actors ---- */

void actor_schedule(struct scheduler *s, struct actor *actor) {
    if (actor->scheduled) {
        return;
    }
    struct run_list *list = &s->run[actor->share > 0 ? RUN_SHARE : RUN_IN_TURN];
    actor->scheduled = true;
    actor->run_next = NULL;
    if (!list->tail) {
        list->head = actor;
    } else {
        list->tail->run_next = actor;
    }
    list->tail = actor;
}

bool scheduler_has_actors(const struct scheduler *s) {
    return s->run[RUN_SHARE].head || s->run[RUN_IN_TURN].head;
}

static struct actor *take_first(struct run_list *list) {
    struct actor *actor = list->head;
    list->head = actor->run_next;
    if (!list->head) {
        list->tail = NULL;
    }
    return actor;
}

static uint64_t turn_time(const struct scheduler *s) {
    return tide_port_now(s->system->port) + s->spent;
}

/* Actors with a share run first, as long as the others that wait are not owed time: three times what one with a share
 * of 25 % took. Cold: out of the path of a message where there are none. */
__attribute__((noinline, cold)) static void run_by_share(struct scheduler *s) {
    const bool others = s->run[RUN_IN_TURN].head && (s->owed > 0 || !s->run[RUN_SHARE].head);
    struct run_list *list = &s->run[others || TIDE_MUTANT(share_ignored) ? RUN_IN_TURN : RUN_SHARE];
    list = list->head ? list : &s->run[RUN_SHARE];
    if (!list->head) {
        s->owed = 0;
        return;
    }
    struct actor *actor = take_first(list);
    const unsigned share = actor->share;
    const uint64_t began = turn_time(s);
    actor_activate(s, actor);
    const uint64_t took = turn_time(s) - began;
    s->owed = !s->run[RUN_IN_TURN].head ? 0
              : share > 0               ? s->owed + took * (100 - share) / share
              : took < s->owed          ? s->owed - took
                                        : 0;
}

void tide_actor_share(unsigned percent) {
    struct scheduler *s = tide__scheduler;
    TIDE_ASSERT(s && s->current && percent > 0 && percent <= 100);
    s->current->share = (uint8_t)percent;
}

void tide_turn_spent(uint64_t ns) {
    if (tide__scheduler) {
        tide__scheduler->spent += ns;
    }
}

static void handle_one(struct scheduler *s, struct actor *actor, struct message *m) {
    const struct tide_message *in = &m->u.in;
    size_t bytes = in->size;
    bool stop = in->kind == TIDE_STOP;
    if (in->kind == TIDE_CALL) {
        open_call_add(actor, in);
    }
    const bool own = atomic_load_explicit(&actor->id, memory_order_relaxed) <= TIDE_ID_STORE; /* of the runtime */
    if (!own) {
        (void)tide__memory_swap(TIDE_MEMORY_ASKED);
    }
    const bool timed = in->kind == TIDE_TIMER;
    const uint64_t acts = s->acts;
    int rc = actor->handle(actor->state, in);
    if (TIDE_WATCHED && timed) {
        watch_timer(s, actor, acts);
    }
    if (!own) {
        (void)tide__memory_swap(TIDE_MEMORY_VITAL); /* the turn's */
    }
    message_destroy(m);
    mailbox_handled(actor, bytes);
    slow_lap(s, actor->type);
    if (rc < 0) {
        actor_end(s, actor, rc, tide_error_message());
    } else if (actor->exiting) {
        actor_end(s, actor, actor->exit_reason, "");
    } else if (stop) {
        actor_end(s, actor, 0, "");
    } else if (actor->killed) {
        actor_end(s, actor, actor->exit_reason, "killed");
    }
}

/* Ended, and perhaps already another actor: the slot may have been taken again by a spawn from another thread. */
static bool is_gone(const struct actor *actor, uint64_t id) {
    return atomic_load_explicit(&actor->id, memory_order_relaxed) != id;
}

static bool is_over_budget(const struct scheduler *s) {
    return tide_port_now(s->system->port) - s->now + s->spent > BUDGET_NS;
}

/* Of an actor whose messages take long others do not wait for 64; of the store's, each may. */
static void run_handler(struct scheduler *s, struct actor *actor, uint64_t id) {
    const int between = id == TIDE_ID_STORE ? 0 : LOOK_EVERY - 1;
    for (int i = 1; i <= (int)tide_limit(actor_activation_messages) && !s->yielded; i++) {
        struct message *m = mailbox_pop(actor);
        if (!m) {
            return;
        }
        handle_one(s, actor, m);
        if (is_gone(actor, id)) {
            return;
        }
        s->yielded = (i & between) == 0 && is_over_budget(s);
    }
    if (mailbox_has_message(actor)) {
        actor_schedule(s, actor);
    }
}

static void fiber_over(struct scheduler *s, struct actor *actor, struct tide_fiber *fiber) {
    struct tide_fiber **at = &actor->fibers;
    while (*at != fiber) {
        at = &(*at)->next;
    }
    __atomic_store_n(at, fiber->next, __ATOMIC_RELEASE); /* read by tide_actors */
    char text[sizeof fiber->error.text];
    memcpy(text, fiber->error.text, sizeof text);
    bool main = fiber->main;
    fiber_recycle(s, fiber);
    if (main) { /* children are cancelled; the actor ends with the last of them */
        actor->exiting = true;
        if (actor->fibers) {
            actor_kill(s, actor, actor->exit_reason, text);
        }
    }
    if (!actor->fibers) {
        actor_end(s, actor, actor->exit_reason, actor->exit_reason == 0 ? "" : text);
    }
}

static void run_fibers(struct scheduler *s, struct actor *actor, uint64_t id) {
    struct tide_fiber *fiber = actor->ready_head;
    struct tide_fiber *last = actor->ready_tail; /* those that become ready meanwhile run next time */
    while (fiber) {
        actor->ready_head = fiber->ready_next;
        if (!actor->ready_head) {
            actor->ready_tail = NULL;
        }
        bool stop = fiber == last;
        fiber_resume(s, fiber);
        slow_lap(s, actor->type);
        if (fiber->ended) {
            fiber_over(s, actor, fiber);
        }
        if (is_gone(actor, id)) {
            return;
        }
        if (stop || actor->preempted) {
            actor->preempted = false;
            break;
        }
        fiber = actor->ready_head;
    }
    if (actor->ready_head) {
        actor_schedule(s, actor);
    }
}

void actor_activate(struct scheduler *s, struct actor *actor) {
    actor->scheduled = false;
    if (actor->lifecycle != ACTOR_LIVE) { /* it ended while it queued */
        actor_slot_return(s, actor);
        return;
    }
    bool sampled = ++s->sample % SAMPLE_EVERY == 0;
    uint64_t traced = trace_now(s);
    uint64_t began = traced != 0 || !sampled ? traced : tide_port_now(s->system->port);
    uint64_t id = atomic_load_explicit(&actor->id, memory_order_relaxed);
    s->current = actor;
    if (!actor->run) {
        run_handler(s, actor, id);
    } else {
        run_fibers(s, actor, id);
    }
    s->current = NULL;
    if (TIDE_UNLIKELY(traced != 0) && !is_gone(actor, id)) {
        trace_activation(s, actor, traced);
    }
    if (sampled && !is_gone(actor, id)) {
        uint64_t spent = (tide_port_now(s->system->port) - began) * SAMPLE_EVERY;
        atomic_store_explicit(&actor->handling_ns,
                              atomic_load_explicit(&actor->handling_ns, memory_order_relaxed) + spent,
                              memory_order_relaxed);
    }
}

/* What others have sent is looked at every actor_inbox_activations, and after one that yielded: it may have taken
 * milliseconds, and a cancel may be waiting for it. */
static void run_actors(struct scheduler *s) {
    const unsigned most = (unsigned)tide_limit(actor_turn_activations);
    const unsigned every = (unsigned)tide_limit(actor_inbox_activations);
    for (unsigned i = 1, look = every; i <= most && scheduler_has_actors(s); i++) {
        if (TIDE_UNLIKELY(s->run[RUN_SHARE].head || s->owed > 0)) {
            run_by_share(s);
        } else {
            actor_activate(s, take_first(&s->run[RUN_IN_TURN]));
        }
        if (i == look || s->yielded) {
            look = i + every;
            const bool others_first = s->yielded && TIDE_BUGGIFY(yield_ends_turn); /* threads of the simulator */
            s->yielded = false;
            drain_inbox(s);
            if (s->slow.exact > 0) {
                slow_begin(s);
            }
            if (others_first || is_over_budget(s)) {
                return;
            }
        }
    }
}

static uint64_t end_of_turn(struct scheduler *s) {
    message_pool_flush(s);
    uint64_t next = s->heap_size > 0 ? s->heap[1]->when : TIDE_NEVER;
    if (s->role == TIDE_ROLE_IO && atomic_load_explicit(&s->system->routed, memory_order_acquire)) {
        uint64_t flush = s->system->route.flush(s->system->route.arg);
        next = flush < next ? flush : next;
        if (s->stop == STOP_CLOSE && !s->closed) {
            s->closed = !s->system->route.close || s->system->route.close(s->system->route.arg);
            next = 0;
        }
    } else if (s->stop == STOP_CLOSE) {
        s->closed = true;
    }
    if (s->closed) {
        atomic_store_explicit(&s->stopped, true, memory_order_release); /* with tide_system_stop */
        return TIDE_NEVER;
    }
    return scheduler_has_actors(s) ? 0 : next;
}

uint64_t scheduler_turn(void *arg) {
    struct scheduler *s = arg;
    struct scheduler *previous = tide__scheduler; /* the simulator runs all nodes on one thread */
    tide__scheduler = s;
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    s->now = tide_port_now(s->system->port);
    s->spent = 0;
    const bool worked =
        scheduler_pending(s) || scheduler_has_actors(s) || (s->heap_size > 0 && s->heap[1]->when <= s->now);
    drain_inbox(s);
    timers_fire(s, s->now);
    slow_begin(s);
    run_actors(s);
    slow_end(s);
    uint64_t next = end_of_turn(s);
    if (TIDE_WATCHED) {
        watch_turn(s, worked, next);
    }
    TIDE_ASSERT(!s->current && !s->current_fiber);
    tide__memory_swap(use);
    tide__scheduler = previous;
    return next;
}

int scheduler_create(struct tide_system *system, unsigned index, enum tide_role role) {
    struct scheduler *s = tide_alloc_aligned(64, sizeof *s);
    if (!s) {
        return TIDE_ENOMEM;
    }
    memset(s, 0, sizeof *s);
    s->system = system;
    s->index = (uint8_t)index;
    s->role = (uint8_t)role;
    slow_init(s);
    s->slot_count = 1; /* index 0 is no actor */
    context_init_thread(&s->main_context);
    s->chunks = tide_map(SLOT_CHUNKS_MAX * sizeof(struct actor *), false);
    if (!s->chunks) {
        tide_free(s);
        return TIDE_ENOMEM;
    }
    system->schedulers[index] = s;
    return 0;
}

static void visit_abandon(struct scheduler *s, struct actor *actor, const struct message *m) {
    (void)m;
    while (actor->fibers) {
        struct tide_fiber *fiber = actor->fibers;
        actor->fibers = fiber->next;
        fiber_recycle(s, fiber);
    }
    actor_end(s, actor, TIDE_EKILLED, "the node crashed");
}

void scheduler_abandon(struct scheduler *s) {
    struct scheduler *previous = tide__scheduler;
    tide__scheduler = s;
    each_actor(s, visit_abandon, NULL);
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        s->calls[i] = NULL; /* they lived on the fibers' stacks */
    }
    tide__scheduler = previous;
}

void scheduler_release(struct scheduler *s) {
    fibers_release(s);
    for (uint32_t i = 0; i * SLOT_CHUNK < s->slot_count; i++) {
        if (s->chunks[i]) {
            tide_unmap(s->chunks[i], SLOT_CHUNK * sizeof(struct actor));
        }
    }
    tide_unmap(s->chunks, SLOT_CHUNKS_MAX * sizeof(struct actor *));
    for (uint32_t i = 0; i < s->call_capacity; i++) {
        TIDE_ASSERT(!s->calls[i]);
    }
    tide_free(s->calls);
    tide_free(s->ring);
    tide_free(atomic_load_explicit(&s->look, memory_order_relaxed));
    tide_free(s->heap);
    message_pool_release(s);
    tide_free(s);
}
