/*
 * Interrupting an actor whose fiber computes and looks at nothing. The port makes the actor's thread
 * run `interrupted` in the middle of whatever it does; if that is a fiber of the actor meant, the
 * actor's own function is called, which can do no more than a signal's handler: note it somewhere.
 */
#include "actor/internal.h"

/* On the thread of a scheduler, in its code or an actor's. */
static void interrupted(void) {
    struct scheduler *s = tide__scheduler;
    const struct tide_fiber *fiber = s ? s->current_fiber : NULL;
    struct actor *actor = fiber ? fiber->actor : NULL;
    if (actor && actor->interrupt) {
        uint64_t id = atomic_load_explicit(&s->interrupted, memory_order_acquire);
        if (id != 0 && id == atomic_load_explicit(&actor->id, memory_order_relaxed)) {
            atomic_store_explicit(&s->interrupted, 0, memory_order_relaxed);
            actor->interrupt(actor->state);
        }
    }
}

int tide_interrupt(tide_address who) {
    struct scheduler *own = tide__scheduler;
    if (!own) {
        return tide__outside("tide_interrupt");
    }
    struct scheduler *s = is_local(own->system, who) ? scheduler_of(own->system, who) : NULL;
    if (!s || !actor_find(s, who)) {
        return tide_fail(TIDE_ENOENT, "no such actor here");
    }
    struct tide_port *port = s->system->port;
    atomic_store_explicit(&s->interrupted, tide_address_id(who), memory_order_release);
    return port->ops->executor_interrupt(s->executor, interrupted);
}
