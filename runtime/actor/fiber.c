/*
 * Fibers: the blocking actors' stacks. A fiber suspends by switching to its scheduler and is resumed on the same
 * thread; a wake from any thread is one atomic exchange, plus a push of the fiber's own embedded message when it
 * slept on another thread. State: RUNNING -> SUSPENDED by the owner, anything -> WOKEN by a waker. Only what suspends
 * takes a wake: one that comes while the fiber runs or yields stays for the next suspension.
 */
#include "actor/internal.h"

enum { KILL_PATIENCE = 1000 };

static struct context_stack *take_stack(struct scheduler *s, size_t size) {
    for (struct context_stack **at = &s->free_stacks; *at; at = &(*at)->next) {
        if ((*at)->size == size) {
            struct context_stack *stack = *at;
            *at = stack->next;
            s->free_stack_count--;
            return stack;
        }
    }
    return context_stack_create(size);
}

static void put_stack(struct scheduler *s, struct context_stack *stack) {
    if (s->free_stack_count >= tide_limit(actor_stacks_kept)) {
        context_stack_destroy(stack);
        return;
    }
    stack->next = s->free_stacks;
    s->free_stacks = stack;
    s->free_stack_count++;
}

static void back_to_scheduler(struct tide_fiber *fiber, bool last) {
    struct scheduler *s = fiber->actor->scheduler;
    context_switch(&fiber->context, &s->main_context, last);
}

/* After a suspension. acquire: pairs with every wake before this moment; none is lost, the fiber re-checks what it
 * waits for. */
static void take_wake(struct tide_fiber *fiber) {
    atomic_exchange_explicit(&fiber->state, FIBER_RUNNING, memory_order_acq_rel);
    atomic_store_explicit(&fiber->waits_node, 0, memory_order_relaxed);
}

static void fiber_entry(void *arg) {
    struct tide_fiber *fiber = arg;
    context_started(&fiber->context, &fiber->actor->scheduler->main_context);
    take_wake(fiber); /* that which started it */
    fiber->run(fiber->arg);
    fiber->ended = true;
    back_to_scheduler(fiber, true);
    TIDE_ASSERT(false && "an ended fiber was resumed");
}

static void deadline_fire(struct scheduler *s, struct timer *timer) {
    (void)s;
    struct tide_fiber *fiber = TIDE_CONTAINER(timer, struct tide_fiber, deadline);
    fiber->timed_out = true;
    tide_fiber_wake(fiber);
}

int fiber_create(struct scheduler *s, struct actor *actor, void (*run)(void *), void *arg, size_t stack_bytes,
                 struct tide_fiber **out) {
    struct tide_fiber *fiber = s->free_fibers;
    if (fiber) {
        s->free_fibers = fiber->next;
    } else {
        fiber = tide_alloc_zero(1, sizeof *fiber);
        if (!fiber) {
            return TIDE_ENOMEM;
        }
    }
    struct context_stack *stack = take_stack(s, stack_bytes);
    if (!stack) {
        fiber->next = s->free_fibers;
        s->free_fibers = fiber;
        return TIDE_ENOMEM;
    }
    fiber->actor = actor;
    fiber->run = run;
    fiber->arg = arg;
    fiber->deadline = (struct timer){.fire = deadline_fire};
    fiber->wake.op = OP_WAKE;
    fiber->wake.fiber = fiber;
    fiber->ended = fiber->receiving = fiber->main = fiber->timed_out = fiber->cancelled = false;
    fiber->cancelled_suspends = 0;
    fiber->number = ++s->fiber_count;
    fiber->idle_for = NULL;
    fiber->labelled = 0;
    fiber->title[0] = 0;
    fiber->local = NULL;
    fiber->memory = TIDE_MEMORY_ASKED;
    fiber->error.code = 0;
    fiber->error.text[0] = 0;
    atomic_store_explicit(&fiber->waits_for, NULL, memory_order_relaxed);
    context_init(&fiber->context, stack, fiber_entry, fiber);
    fiber->next = actor->fibers;
    __atomic_store_n(&actor->fibers, fiber, __ATOMIC_RELEASE); /* read by tide_actors */
    /* release: a late wake meant for the previous owner may come from any thread and reads fiber->actor */
    atomic_store_explicit(&fiber->state, FIBER_SUSPENDED, memory_order_release);
    *out = fiber;
    return 0;
}

static void local_end(struct tide_fiber *fiber) {
    struct tide_fiber_local *local = fiber->local;
    fiber->local = NULL;
    if (local) {
        local->end(local);
    }
}

void fiber_recycle(struct scheduler *s, struct tide_fiber *fiber) {
    timer_disarm(s, &fiber->deadline);
    local_end(fiber);
    TIDE_ASSERT(fiber->deadline.position == 0 && !fiber->local);
    struct context_stack *stack = fiber->context.stack;
    context_deinit(&fiber->context);
    put_stack(s, stack);
    fiber->actor = NULL;
    /* A wake in flight finds RUNNING, leaves WOKEN, and the next owner starts from SUSPENDED. */
    atomic_store_explicit(&fiber->state, FIBER_RUNNING, memory_order_relaxed);
    fiber->next = s->free_fibers;
    s->free_fibers = fiber;
}

void fibers_release(struct scheduler *s) {
    while (s->free_fibers) {
        struct tide_fiber *next = s->free_fibers->next;
        tide_free(s->free_fibers);
        s->free_fibers = next;
    }
    while (s->free_stacks) {
        struct context_stack *next = s->free_stacks->next;
        context_stack_destroy(s->free_stacks);
        s->free_stacks = next;
    }
}

static bool is_ready(const struct actor *actor, const struct tide_fiber *fiber) {
    const struct tide_fiber *ready = actor->ready_head;
    while (ready && ready != fiber) {
        ready = ready->ready_next;
    }
    return ready;
}

void fiber_make_ready(struct scheduler *s, struct tide_fiber *fiber) {
    struct actor *actor = fiber->actor;
    if (!actor) {
        TIDE_SOMETIMES(wake_of_an_ended_fiber);
        return;
    }
    TIDE_INVARIANT(!is_ready(actor, fiber));
    fiber->ready_next = NULL;
    if (!actor->ready_tail) {
        actor->ready_head = fiber;
    } else {
        actor->ready_tail->ready_next = fiber;
    }
    actor->ready_tail = fiber;
    actor_schedule(s, actor);
}

void fiber_resume(struct scheduler *s, struct tide_fiber *fiber) {
    timer_disarm(s, &fiber->deadline);
    atomic_store_explicit(&fiber->waits_for, NULL, memory_order_relaxed);
    s->current_fiber = fiber;
    struct tide_error_slot *previous = tide__error_slot_swap(&fiber->error);
    enum tide_memory_use use = tide__memory_swap(fiber->memory);
    context_switch(&s->main_context, &fiber->context, false);
    TIDE_ASSERT(s->current_fiber == fiber && fiber->actor == s->current);
    fiber->memory = tide__memory_swap(use);
    tide__error_slot_swap(previous);
    s->current_fiber = NULL;
}

struct tide_fiber *tide_fiber_current(void) {
    return !tide__scheduler ? NULL : tide__scheduler->current_fiber;
}

struct tide_fiber_local *tide_fiber_local(void) {
    struct tide_fiber *fiber = tide_fiber_current();
    return !fiber ? NULL : fiber->local;
}

void tide_fiber_set_local(struct tide_fiber_local *local) {
    struct tide_fiber *fiber = tide_fiber_current();
    TIDE_ASSERT(fiber);
    local_end(fiber);
    fiber->local = local;
}

/* A killed or cancelled fiber that suspends again and again is abandoned: its stack is never continued. */
static int killed_suspend(struct tide_fiber *fiber) {
    TIDE_SOMETIMES(suspended_when_ended);
    if (++fiber->cancelled_suspends > KILL_PATIENCE) {
        fiber->ended = true;
        back_to_scheduler(fiber, false);
    }
    return tide_fail(TIDE_ECANCELED, fiber->cancelled ? "cancelled" : "the actor is being ended");
}

void tide_fiber_expect(uint64_t key, uint32_t clock, uint16_t node) {
    struct tide_fiber *fiber = tide_fiber_current();
    TIDE_ASSERT(fiber);
    atomic_store_explicit(&fiber->waits_key, key, memory_order_relaxed);
    atomic_store_explicit(&fiber->waits_clock, clock, memory_order_relaxed);
    atomic_store_explicit(&fiber->waits_node, node, memory_order_relaxed);
}

int tide_fiber_suspend(uint64_t deadline, const char *why) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current_fiber) {
        return tide__no_fiber(why);
    }
    struct tide_fiber *fiber = s->current_fiber;
    struct actor *actor = fiber->actor;
    if (actor->killed || fiber->cancelled) {
        return killed_suspend(fiber);
    }
    if (TIDE_WATCHED && watch_suspend(s, fiber, why)) {
        return tide_fail(TIDE_ECANCELED, "spinning"); /* found: it may never leave its loop else */
    }
    int expected = FIBER_RUNNING;
    /* acquire on failure: pairs with the waker's exchange, its writes are visible when this fiber continues */
    if (!atomic_compare_exchange_strong_explicit(&fiber->state, &expected, FIBER_SUSPENDED, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        take_wake(fiber);
        watch_resumed(s, fiber);
        return 0;
    }
    fiber->timed_out = false;
    if (deadline != TIDE_NEVER) {
        timer_arm(s, &fiber->deadline, deadline);
    }
    atomic_store_explicit(&fiber->waits_for, why, memory_order_relaxed);
    atomic_store_explicit(&fiber->waits_since, s->now, memory_order_relaxed);
    uint64_t began = trace_now(s);
    back_to_scheduler(fiber, false);
    take_wake(fiber);
    watch_resumed(s, fiber);
    if (TIDE_UNLIKELY(began != 0)) {
        trace_fiber(fiber, began, why);
    }
    if (actor->killed || fiber->cancelled) {
        return killed_suspend(fiber);
    }
    if (fiber->timed_out) {
        fiber->timed_out = false;
        return tide_fail(TIDE_ETIMEDOUT, "time ran out while waiting for %s", why);
    }
    return 0;
}

const char *tide_fiber_waits(const struct tide_fiber *fiber) {
    const bool waits = atomic_load_explicit(&fiber->state, memory_order_relaxed) == FIBER_SUSPENDED;
    return waits ? atomic_load_explicit(&fiber->waits_for, memory_order_relaxed) : NULL;
}

void tide_fiber_wake(struct tide_fiber *fiber) {
    struct scheduler *s = tide__scheduler;
    if (s && s->current_fiber != fiber) {
        s->acts++;
    }
    /* acq_rel: what the waker wrote before is seen by the fiber after it resumes */
    if (atomic_exchange_explicit(&fiber->state, FIBER_WOKEN, memory_order_acq_rel) != FIBER_SUSPENDED) {
        return;
    }
    struct scheduler *owner = fiber->actor->scheduler; /* stable: a suspended fiber has its actor */
    if (s == owner) {
        fiber_make_ready(owner, fiber);
    } else {
        inbox_push(owner, &fiber->wake);
    }
}

void tide_fiber_cancel(struct tide_fiber *fiber) {
    TIDE_ASSERT(tide__scheduler && fiber->actor == tide__scheduler->current);
    fiber->cancelled = true;
    tide_fiber_wake(fiber);
}

/* Puts the fiber before the other ready ones of its actor, all of which wait for the actor's next activation. */
static void fiber_stays_first(struct tide_fiber *fiber) {
    struct actor *actor = fiber->actor;
    fiber->ready_next = actor->ready_head;
    actor->ready_head = fiber;
    if (!actor->ready_tail) {
        actor->ready_tail = fiber;
    }
    actor->preempted = true;
}

static int yield(bool to_actors, const char *name) {
    struct tide_fiber *fiber = tide_fiber_current();
    if (!fiber) {
        return tide__no_fiber(name);
    }
    if (fiber->actor->killed || fiber->cancelled) {
        return killed_suspend(fiber);
    }
    /* The state stays as it is, not SUSPENDED: a wake from elsewhere does not queue it a second time. A yielding fiber
     * may be about to suspend, after it has checked the condition of that wake. */
    if (to_actors && !TIDE_MUTANT(fibers_preempted)) {
        fiber_stays_first(fiber);
    } else {
        fiber_make_ready(fiber->actor->scheduler, fiber);
    }
    fiber->actor->scheduler->yielded = true;
    atomic_store_explicit(&fiber->waits_for, "yield", memory_order_relaxed);
    back_to_scheduler(fiber, false);
    if (TIDE_MUTANT(yield_takes_wake)) {
        take_wake(fiber);
    }
    return fiber->actor->killed || fiber->cancelled ? killed_suspend(fiber) : 0;
}

int tide_yield(void) {
    return yield(false, "tide_yield");
}

int tide_yield_to_actors(void) {
    return yield(true, "tide_yield_to_actors");
}

int tide_fiber_wait_until(uint64_t until, const char *why) {
    struct scheduler *s = tide__scheduler;
    const bool later = until > tide_port_now(s->system->port);
    const int rc = tide_fiber_suspend(until, why);
    s->acts += rc == TIDE_ETIMEDOUT && later;
    return rc;
}

int tide_sleep(uint64_t duration) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current_fiber) {
        return tide__no_fiber("tide_sleep");
    }
    uint64_t now = tide_port_now(s->system->port);
    uint64_t until = duration > TIDE_NEVER - 1 - now ? TIDE_NEVER - 1 : now + duration;
    for (;;) {
        int rc = tide_fiber_wait_until(until, "sleep");
        if (rc == TIDE_ETIMEDOUT) {
            return 0;
        }
        if (rc < 0) {
            return rc;
        }
    }
}

int tide_fiber_start(void (*run)(void *arg), void *arg, size_t stack_bytes, struct tide_fiber **out) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        return tide__outside("tide_fiber_start");
    }
    struct tide_fiber *fiber;
    int rc = fiber_create(s, s->current, run, arg, stack_bytes == 0 ? s->current->stack_bytes : stack_bytes, &fiber);
    if (rc < 0) {
        return rc;
    }
    tide_fiber_wake(fiber);
    if (out) {
        *out = fiber;
    }
    return 0;
}
