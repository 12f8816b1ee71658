/*
 * Work that belongs on another thread of the node. Of a hop a short-lived actor does it, and the caller waits on its
 * fiber. A task is a message to that thread, which comes back when it has run.
 */
#include "actor/internal.h"

/* Shared by the caller and the hop; the last to leave frees it. */
struct hop {
    atomic_uint holders;
    atomic_bool done; /* release: pairs with the caller's acquire; what work wrote is seen */
    bool ran;         /* else there was no memory for its fiber, or the node ended before */
    void (*work)(void *arg);
    void (*drop)(void *arg);
    void *arg; /* NULL once the caller has it back */
    struct tide_fiber *waiter;
};

static void hop_leave(struct hop *hop) {
    if (atomic_fetch_sub_explicit(&hop->holders, 1, memory_order_acq_rel) == 1) {
        if (hop->arg) {
            hop->drop(hop->arg);
        }
        tide_free(hop);
    }
}

static int hop_run(void *state) {
    struct hop *hop = state;
    hop->work(hop->arg);
    hop->ran = true;
    return 0;
}

static void hop_release(void *state) {
    struct hop *hop = state;
    struct tide_fiber *waiter = hop->waiter;
    atomic_store_explicit(&hop->done, true, memory_order_release);
    if (waiter) {
        tide_fiber_wake(waiter);
    }
    hop_leave(hop);
}

static int never_ran(struct tide_node *node) {
    const bool stops = atomic_load_explicit(&tide_system_of(node)->stopping, memory_order_relaxed);
    return stops ? tide_fail(TIDE_ECANCELED, "the node is being ended")
                 : tide_fail(TIDE_ENOMEM, "no memory for another thread's work");
}

static int give_up(void (*drop)(void *arg), void *arg, int code) {
    drop(arg);
    return code;
}

int tide_hop(struct tide_node *node, enum tide_role role, void (*work)(void *arg), void *arg, void (*drop)(void *arg)) {
    struct hop *hop = tide_alloc_zero(1, sizeof *hop);
    if (!hop) {
        drop(arg);
        return tide_fail(TIDE_ENOMEM, "no memory for another thread's work");
    }
    *hop = (struct hop){.work = work, .drop = drop, .arg = arg, .waiter = tide_fiber_current()};
    atomic_init(&hop->holders, 2);
    struct tide_actor_options o = {
        .type = "hop", .run = hop_run, .state = hop, .release = hop_release, .role = (uint8_t)role};
    int code = tide_spawn(node, &o, NULL);
    if (code < 0) {
        tide_free(hop);
        if (code != TIDE_ECLOSED || role != TIDE_ROLE_DISK) {
            return give_up(drop, arg, code);
        }
        tide__watch_aside(work, arg); /* a node that ends has no thread left that could write for this one */
        return 0;
    }
    struct tide_port *port = tide_system_port(tide_system_of(node));
    while (code == 0 && !atomic_load_explicit(&hop->done, memory_order_acquire)) {
        if (hop->waiter) {
            code = tide_fiber_suspend(TIDE_NEVER, "another thread");
        } else {
            port->ops->pause(port, 200000);
        }
    }
    if (atomic_load_explicit(&hop->done, memory_order_acquire) && !hop->ran) {
        code = never_ran(node);
    } else if (atomic_load_explicit(&hop->done, memory_order_acquire)) {
        hop->arg = NULL; /* the hop has released it */
        code = 0;
        if (tide__scheduler) {
            tide__scheduler->acts++; /* what was done there is the caller's doing: many reads are no spin */
        }
    }
    hop_leave(hop);
    return code;
}

/* ---- tasks ---- */

void tide_task_start(struct tide_node *node, enum tide_role role, struct tide_task *task) {
    if (!node || TIDE_MUTANT(task_in_place)) {
        task->run(task);
        task->done(task);
        return;
    }
    struct tide_system *system = tide_system_of(node);
    const enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    struct message *m =
        message_create(tide__scheduler && tide__scheduler->system == system ? tide__scheduler : NULL, 0);
    tide__memory_swap(use);
    TIDE_ASSERT(m);
    m->op = OP_TASK;
    m->task = task;
    inbox_push(scheduler_of_role(system, role, 0), m);
}

void task_run(struct scheduler *s, struct message *m) {
    m->task->run(m->task);
    m->op = OP_TASK_DONE;
    inbox_push(s->system->schedulers[0], m);
}
