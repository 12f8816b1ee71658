/*
 * Actors: slots, spawning, ending. A slot is reused under its next generation, and no more after its last one: an
 * address is given once in the life of a node, and that of an ended actor finds none.
 */
#include "actor/internal.h"

#include <string.h>

enum { STACK_DEFAULT = 256 << 10 };

/* ---- slots ---- */

static struct actor *slot_take(struct scheduler *s) {
    struct actor *actor = NULL;
    tide_lock(&s->slots_lock);
    if (s->free_slot != 0) {
        uint32_t index = s->free_slot;
        actor = &s->chunks[index / SLOT_CHUNK][index % SLOT_CHUNK];
        s->free_slot = actor->next_free;
    } else if (s->slot_count < SLOT_CHUNK * SLOT_CHUNKS_MAX) {
        uint32_t index = s->slot_count;
        struct actor *chunk = s->chunks[index / SLOT_CHUNK];
        if (!chunk) {
            chunk = tide_map(SLOT_CHUNK * sizeof(struct actor), false);
            /* release: pairs with actor_find on other threads */
            __atomic_store_n(&s->chunks[index / SLOT_CHUNK], chunk, __ATOMIC_RELEASE);
        }
        if (chunk) {
            actor = &chunk[index % SLOT_CHUNK];
            actor->index = index;
            __atomic_store_n(&s->slot_count, index + 1, __ATOMIC_RELEASE);
        }
    }
    tide_unlock(&s->slots_lock);
    return actor;
}

void actor_slot_return(struct scheduler *s, struct actor *actor) {
    TIDE_ASSERT(!actor->fibers && !actor->senders.head && !actor->timers && !actor->open_calls);
    tide_lock(&s->slots_lock);
    tide_free(actor->name);
    actor->name = NULL;
    atomic_store_explicit(&actor->posted_messages, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->posted_bytes, 0, memory_order_relaxed);
    tap_actor_ended(actor);
    actor->generation++;
    if (actor->generation < tide_limit(actor_generations) ||
        TIDE_MUTANT(address_reused)) { /* else the slot is used up */
        actor->next_free = s->free_slot;
        s->free_slot = actor->index;
    }
    tide_unlock(&s->slots_lock);
}

static void actor_init(struct scheduler *s, struct actor *actor, const struct tide_actor_options *o) {
    uint32_t index = actor->index;
    TIDE_ASSERT(actor->generation < tide_limit(actor_generations)); /* else an old address would find this one */
    uint32_t generation = actor->generation & ((1u << GENERATION_BITS) - 1);
    actor->scheduler = s;
    actor->handle = o->handle;
    actor->run = o->run;
    actor->state = o->state;
    actor->release = o->release;
    actor->interrupt = o->interrupt;
    actor->look = o->look;
    actor->type = o->type ? o->type : (o->run ? "fiber" : "handler");
    actor->messages_max = o->messages_max != 0 ? o->messages_max : (uint32_t)tide_limit(actor_mailbox_messages);
    actor->bytes_max = o->bytes_max != 0 ? o->bytes_max : (uint32_t)tide_limit(actor_mailbox_bytes);
    actor->stack_bytes = (uint32_t)(o->stack_bytes != 0 ? o->stack_bytes : STACK_DEFAULT);
    actor->exit_reason = 0;
    actor->bulk_debt = actor->share = 0;
    actor->traps = actor->killed = actor->exiting = false;
    atomic_store_explicit(&actor->handled, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->handling_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->refused, 0, memory_order_relaxed);
    actor->opens = o->opens;
    actor->lifecycle = ACTOR_LIVE;
    /* release: pairs with actor_find */
    atomic_store_explicit(&actor->id, (uint64_t)s->index << 40 | (uint64_t)generation << INDEX_BITS | index,
                          memory_order_release);
    atomic_fetch_add_explicit(&s->actors_live, 1, memory_order_relaxed);
}

/* ---- spawning ---- */

struct scheduler *scheduler_of_role(struct tide_system *system, enum tide_role role, unsigned thread) {
    const enum tide_role roles[] = {role <= TIDE_ROLE_EXCHANGE ? role : TIDE_ROLE_CONTROL, TIDE_ROLE_CONTROL,
                                    TIDE_ROLE_IO};
    unsigned first = 0, count = 0;
    for (unsigned i = 0; count == 0; i++) {
        first = tide__role_threads(system, roles[i], &count);
    }
    return system->schedulers[first + thread % count];
}

static void fiber_main(void *arg) {
    struct actor *actor = arg;
    actor->exit_reason = actor->run(actor->state);
}

static int start_fiber(struct scheduler *s, struct actor *actor) {
    struct tide_fiber *fiber;
    int rc = fiber_create(s, actor, fiber_main, actor, actor->stack_bytes, &fiber);
    if (rc == 0) {
        fiber->main = true;
    }
    return rc;
}

static void spawn_failed(struct scheduler *s, struct actor *actor) {
    atomic_store_explicit(&actor->id, 0, memory_order_release);
    actor->lifecycle = ACTOR_FREE;
    atomic_fetch_sub_explicit(&s->actors_live, 1, memory_order_relaxed);
    actor_slot_return(s, actor);
}

int tide_spawn(struct tide_node *node, const struct tide_actor_options *given, tide_address *out) {
    struct tide_system *system = tide_system_of(node);
    struct tide_actor_options own, *o = &own;
    int code = tide__layout_read("actor", given, TIDE_LAYOUT(struct tide_actor_options, opens), &own, sizeof own);
    if (code < 0) {
        return code;
    }
    if ((o->handle != NULL) == (o->run != NULL)) {
        return tide_fail(TIDE_EINVAL, "an actor has either a handler or a fiber main function");
    }
    if (atomic_load_explicit(&system->stopping, memory_order_relaxed)) {
        return tide_fail(TIDE_ECLOSED, "the node is stopping");
    }
    struct scheduler *s = scheduler_of_role(system, (enum tide_role)o->role, o->thread);
    struct actor *actor = slot_take(s);
    if (!actor) {
        return tide_fail(TIDE_ENOMEM, "no room for another actor");
    }
    actor_init(s, actor, o);
    tide_address address = actor_address(actor);
    if (o->name) {
        int rc = tide_register(node, o->name, address);
        if (rc < 0) {
            spawn_failed(s, actor);
            return rc;
        }
    }
    if (o->link != TIDE_NOBODY) {
        signal_send(tide__scheduler, OP_LINK, address, o->link, 0, 0, NULL);
        signal_send(tide__scheduler, OP_LINK, o->link, address, 0, 0, NULL);
    }
    if (out) {
        *out = address;
    }
    if (!o->run) {
        return 0;
    }
    if (s == tide__scheduler) {
        scheduler_start_fiber(s, actor);
        return 0;
    }
    struct message *m = message_create(NULL, 0);
    if (!m) {
        spawn_failed(s, actor);
        return tide_fail(TIDE_ENOMEM, "out of memory while spawning");
    }
    m->op = OP_START;
    m->u.in = (struct tide_message){.to = address};
    inbox_push(s, m);
    return 0;
}

/* Stacks come from the owner's pool, so the fiber is made on the owner's thread. */
void scheduler_start_fiber(struct scheduler *s, struct actor *actor) {
    if (start_fiber(s, actor) < 0) {
        actor_end(s, actor, TIDE_ENOMEM, "no memory for the fiber's stack");
        return;
    }
    tide_fiber_wake(actor->fibers);
}

/* ---- ending ---- */

void actor_kill(struct scheduler *s, struct actor *actor, int reason, const char *text) {
    if (actor->lifecycle != ACTOR_LIVE || actor->killed) {
        return;
    }
    actor->killed = true;
    if (!actor->exiting) {
        actor->exit_reason = reason;
    }
    if (!actor->run || !actor->fibers) {
        if (s->current != actor) { /* else it ends when its handler returns */
            actor_end(s, actor, reason, text);
        }
        return;
    }
    for (struct tide_fiber *f = actor->fibers; f; f = f->next) {
        tide_fiber_wake(f); /* every suspension now answers ECANCELED */
    }
}

static void drop_queue(struct scheduler *s, struct queue *queue) {
    struct message *m = queue->head;
    *queue = (struct queue){0};
    while (m) {
        struct message *next = m->next;
        if (m->u.in.kind == TIDE_CALL) {
            signal_send(s, OP_REPLY, m->u.in.from, m->u.in.to, m->u.in.call, TIDE_EDIED, "the actor ended");
        }
        message_destroy(m);
        m = next;
    }
}

void actor_end(struct scheduler *s, struct actor *actor, int reason, const char *text) {
    if (actor->lifecycle != ACTOR_LIVE) {
        return;
    }
    TIDE_ASSERT(!actor->fibers);
    actor->lifecycle = ACTOR_ENDING;
    tide_address address = actor_address(actor);
    if (actor->name) {
        registry_remove(s->system, address);
    }
    for (struct open_call *c = actor->open_calls; c;) {
        struct open_call *next = c->next;
        signal_send(s, OP_REPLY, c->from, address, c->call, TIDE_EDIED, text[0] != 0 ? text : "the actor ended");
        tide_free(c);
        c = next;
    }
    actor->open_calls = NULL;
    drop_queue(s, &actor->urgent);
    drop_queue(s, &actor->normal);
    drop_queue(s, &actor->bulk);
    calls_of_actor_end(s, actor);
    while (actor->timers) {
        struct actor_timer *next = actor->timers->next;
        timer_disarm(s, &actor->timers->timer);
        tide_free(actor->timers);
        actor->timers = next;
    }
    relations_end(s, actor, reason, text);
    mailbox_end(actor);
    if (actor->release) {
        actor->release(actor->state);
    }
    atomic_store_explicit(&actor->mailbox_messages, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->mailbox_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->id, 0, memory_order_release);
    actor->lifecycle = ACTOR_FREE;
    atomic_fetch_sub_explicit(&s->actors_live, 1, memory_order_release); /* with tide_system_stop's acquire */
    if (!actor->scheduled) { /* else it is still in the run queue: returned when it comes up */
        actor_slot_return(s, actor);
    }
}

/* ---- calls at the wrong place ---- */

int tide__outside(const char *call) {
    return tide_fail(TIDE_EINVAL, "%s: it was called outside of actors; from there messages go by tide_post", call);
}

int tide__no_fiber(const char *call) {
    return tide_fail(TIDE_EINVAL, "%s: only a fiber can wait, and it was called %s", call,
                     !tide__scheduler || !tide__scheduler->current ? "outside of actors" : "by a handler");
}

void tide_open(enum tide_right right) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_open");
        return;
    }
    s->current->opens = (uint8_t)right;
}

void tide_exit(int reason) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_exit");
        return;
    }
    s->current->exiting = true;
    s->current->exit_reason = reason;
}

int tide_kill(tide_address who, int reason) {
    if (!tide__scheduler) {
        return tide__outside("tide_kill");
    }
    signal_send(tide__scheduler, OP_KILL, who, TIDE_NOBODY, 0, reason == 0 ? TIDE_EKILLED : reason, "killed");
    return 0;
}

tide_address tide_self(void) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_self");
        return TIDE_NOBODY;
    }
    return actor_address(s->current);
}

void tide_refused(void) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_refused");
        return;
    }
    atomic_fetch_add_explicit(&s->current->refused, 1, memory_order_relaxed);
}

struct tide_node *tide_node_current(void) {
    return !tide__scheduler ? NULL : tide__scheduler->system->node;
}

void tide_trap_exits(bool on) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_trap_exits");
        return;
    }
    s->current->traps = on;
}

/* ---- introspection ---- */

/* If the fiber continues meanwhile, the parts may be of two waits. They are for display only. */
static void describe_wait(struct tide_fiber *fiber, const char *why, struct tide_actor_info *info) {
    const unsigned node = atomic_load_explicit(&fiber->waits_node, memory_order_relaxed),
                   clock = atomic_load_explicit(&fiber->waits_clock, memory_order_relaxed);
    const uint64_t key = atomic_load_explicit(&fiber->waits_key, memory_order_relaxed);
    char row[64] = "", of[32] = "";
    tide_text_copy(info->waits_for, 48, why);
    if (node != 0 && clock != UINT32_MAX) {
        snprintf(of, sizeof of, " at clock %u", clock);
    }
    if (node != 0) {
        const size_t used = strlen(info->waits_for);
        snprintf(row, sizeof row, ", key %llu of n%u", (unsigned long long)key, node);
        snprintf(info->waits_for + used, sizeof info->waits_for - used, "%s%s", row, of);
    }
    info->waits_since = atomic_load_explicit(&fiber->waits_since, memory_order_relaxed);
}

static void describe(struct actor *actor, struct tide_actor_info *info) {
    *info = (struct tide_actor_info){
        .address = actor_address(actor),
        .messages_handled = atomic_load_explicit(&actor->handled, memory_order_relaxed),
        .messages_refused = atomic_load_explicit(&actor->refused, memory_order_relaxed),
        .handling_ns = atomic_load_explicit(&actor->handling_ns, memory_order_relaxed),
        .mailbox_messages = atomic_load_explicit(&actor->mailbox_messages, memory_order_relaxed),
        .mailbox_bytes = atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed),
        .role = actor->scheduler->role,
        .thread = actor->scheduler->index,
        .fiber = actor->run,
    };
    if (actor->name) {
        tide_text_copy(info->name, sizeof info->name, actor->name);
    }
    tide_text_copy(info->type, sizeof info->type, actor->type);
    struct tide_fiber *fiber = __atomic_load_n(&actor->fibers, __ATOMIC_ACQUIRE);
    const char *why = !fiber ? NULL : atomic_load_explicit(&fiber->waits_for, memory_order_relaxed);
    if (why) {
        describe_wait(fiber, why, info);
    }
}

size_t tide_actors(struct tide_node *node, struct tide_actor_info *out, size_t limit) {
    struct tide_system *system = tide_system_of(node);
    size_t found = 0;
    for (unsigned t = 0; t < system->count; t++) {
        struct scheduler *s = system->schedulers[t];
        uint32_t count = __atomic_load_n(&s->slot_count, __ATOMIC_ACQUIRE);
        for (uint32_t i = 1; i < count; i++) {
            tide_lock(&s->slots_lock);
            struct actor *actor = &s->chunks[i / SLOT_CHUNK][i % SLOT_CHUNK];
            if (atomic_load_explicit(&actor->id, memory_order_acquire) != 0) {
                if (found < limit) {
                    describe(actor, &out[found]);
                }
                found++;
            }
            tide_unlock(&s->slots_lock);
        }
    }
    return found;
}

size_t tide_slow_handlers(struct tide_node *node, struct tide_slow_handler *out, size_t limit) {
    struct tide_system *system = tide_system_of(node);
    size_t count = 0;
    for (unsigned t = 0; t < system->count; t++) {
        struct scheduler *s = system->schedulers[t];
        tide_lock(&s->slots_lock);
        for (unsigned i = 0; i < s->slow.count && count < limit; i++) {
            out[count++] = s->slow.entries[i];
        }
        tide_unlock(&s->slots_lock);
    }
    return count;
}

uint64_t tide_system_mailbox_bytes(struct tide_system *system) {
    uint64_t bytes = 0;
    for (unsigned t = 0; t < system->count; t++) {
        struct scheduler *s = system->schedulers[t];
        uint32_t count = __atomic_load_n(&s->slot_count, __ATOMIC_ACQUIRE);
        for (uint32_t i = 1; i < count; i++) {
            tide_lock(&s->slots_lock);
            const struct actor *actor = &s->chunks[i / SLOT_CHUNK][i % SLOT_CHUNK];
            if (atomic_load_explicit(&actor->id, memory_order_acquire) != 0) {
                bytes += atomic_load_explicit(&actor->mailbox_bytes, memory_order_relaxed);
            }
            tide_unlock(&s->slots_lock);
        }
    }
    return bytes;
}
