/*
 * Interrupting an actor whose fiber computes and looks at nothing: to end it, and to see what it does. The port makes
 * the actor's thread run `interrupted` in the middle of whatever it does; if that is a fiber of the actor meant, the
 * actor's own function is called, which can do no more than a signal's handler.
 *
 * A look (tide_look) goes to the thread as a short-lived actor first: while that runs, the actor asked about rests. If
 * the thread does not reach it, it is interrupted, and the actor writes as soon as it can (TIDE_LOOK_ASKS). At last the
 * signal handler writes what it can (TIDE_LOOK_FORCED), for the actor may be in native code. The first of them claims
 * the ticket and writes; a thread has one look at a time.
 */
#include "actor/internal.h"

#include <string.h>

enum { LOOK_BYTES = 16384, PHASES = 4 };
enum look_phase { LOOK_IDLE, LOOK_ASKED, LOOK_WRITTEN_TO, LOOK_DONE };
static const uint64_t step_ns = TIDE_SECOND / 200, asks_ns = TIDE_SECOND / 20, forced_ns = TIDE_SECOND / 5,
                      given_up_ns = TIDE_SECOND / 2;

struct look {
    atomic_bool taken;           /* by the fiber that asks; acquire and release: what follows is its own */
    atomic_bool forced;          /* the handler is not to wait any longer */
    atomic_uint_fast64_t ticket; /* a multiple of PHASES, and the phase; release: `who`, or what was written, is seen */
    tide_address who;
    int size; /* of the text, or an error */
    char text[LOOK_BYTES];
};

/* On the thread of `s`: the requested actor describes what it does, unless another call is at it. */
static void look_answer(struct scheduler *s, enum tide_look_how how) {
    struct look *look = atomic_load_explicit(&s->look, memory_order_acquire);
    uint64_t ticket = look ? atomic_load_explicit(&look->ticket, memory_order_acquire) : 0;
    if (ticket % PHASES != LOOK_ASKED ||
        !atomic_compare_exchange_strong_explicit(&look->ticket, &ticket, ticket - LOOK_ASKED + LOOK_WRITTEN_TO,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        return;
    }
    struct actor *actor = actor_find(s, look->who);
    const bool runs = s->current_fiber && s->current_fiber->actor == actor;
    look->size = !actor ? TIDE_ENOENT
                 : !actor->look
                     ? TIDE_EUNSUPPORTED
                     : actor->look(actor->state, runs ? how : TIDE_LOOK_RESTS, look->text, sizeof look->text);
    atomic_store_explicit(&look->ticket, ticket - LOOK_ASKED + (look->size == TIDE_EBUSY ? LOOK_ASKED : LOOK_DONE),
                          memory_order_release);
}

void tide_look_here(void) {
    struct scheduler *s = tide__scheduler;
    if (s) {
        look_answer(s, TIDE_LOOK_RESTS);
    }
}

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
    struct look *look = actor ? atomic_load_explicit(&s->look, memory_order_acquire) : NULL;
    if (look) { /* a fiber runs, so any other requested actor is idle */
        look_answer(s, atomic_load_explicit(&look->forced, memory_order_relaxed) ? TIDE_LOOK_FORCED : TIDE_LOOK_ASKS);
    }
}

static int find_thread(tide_address who, const char *call, struct scheduler **out) {
    struct scheduler *own = tide__scheduler;
    if (!own) {
        return tide__outside(call);
    }
    *out = is_local(own->system, who) ? scheduler_of(own->system, who) : NULL;
    return *out && actor_find(*out, who) ? 0 : tide_fail(TIDE_ENOENT, "no such actor here");
}

int tide_interrupt(tide_address who) {
    struct scheduler *s;
    int code = find_thread(who, "tide_interrupt", &s);
    if (code < 0) {
        return code;
    }
    atomic_store_explicit(&s->interrupted, tide_address_id(who), memory_order_release);
    return s->system->port->ops->executor_interrupt(s->executor, interrupted);
}

/* ---- looks ---- */

static struct look *look_of(struct scheduler *s) {
    struct look *look = atomic_load_explicit(&s->look, memory_order_acquire), *before = NULL;
    if (!look && (look = tide_alloc_zero(1, sizeof *look)) &&
        !atomic_compare_exchange_strong_explicit(&s->look, &before, look, memory_order_acq_rel, memory_order_acquire)) {
        tide_free(look);
        look = before;
    }
    return look;
}

static int visit(void *state) {
    (void)state;
    look_answer(tide__scheduler, TIDE_LOOK_RESTS);
    return 0;
}

static int send_visitor(struct scheduler *s) {
    unsigned count;
    const unsigned first = tide__role_threads(s->system, s->role, &count);
    const struct tide_actor_options o = {
        .type = "look", .run = visit, .role = s->role, .thread = (uint8_t)(s->index - first)};
    return tide_spawn(s->system->node, &o, NULL);
}

/* Until the text is there: visits, then interrupts. */
static int wait_for_text(struct scheduler *s, struct look *look) {
    struct tide_port *port = s->system->port;
    const uint64_t since = tide_port_now(port);
    int code = send_visitor(s);
    while (code == 0 && atomic_load_explicit(&look->ticket, memory_order_acquire) % PHASES != LOOK_DONE) {
        const uint64_t spent = tide_port_now(port) - since;
        if (spent >= given_up_ns) {
            return tide_fail(TIDE_ETIMEDOUT, "the actor's thread does not answer");
        }
        if (spent >= asks_ns && !port->simulated) {
            atomic_store_explicit(&look->forced, spent >= forced_ns, memory_order_relaxed);
            (void)port->ops->executor_interrupt(s->executor, interrupted);
        }
        code = tide_fiber_suspend(tide_port_now(port) + step_ns, "look");
        code = code == TIDE_ETIMEDOUT ? 0 : code;
    }
    return code;
}

/* It has no writer any more. */
static void withdraw(struct look *look) {
    uint64_t ticket = atomic_load_explicit(&look->ticket, memory_order_acquire);
    while (ticket % PHASES == LOOK_ASKED || ticket % PHASES == LOOK_WRITTEN_TO) { /* the latter: for microseconds */
        if (ticket % PHASES == LOOK_WRITTEN_TO) {
            ticket = atomic_load_explicit(&look->ticket, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(&look->ticket, &ticket, ticket - LOOK_ASKED,
                                                         memory_order_acq_rel, memory_order_acquire)) {
            return;
        }
    }
}

int tide_look(tide_address who, char *out, size_t size) {
    struct scheduler *s;
    int code = tide_fiber_current() ? find_thread(who, "tide_look", &s) : tide__no_fiber("tide_look");
    if (code < 0) {
        return code;
    }
    struct look *look = look_of(s);
    if (!look) {
        return tide_fail(TIDE_ENOMEM, "no memory for a look");
    }
    while (atomic_exchange_explicit(&look->taken, true, memory_order_acquire)) {
        code = tide_fiber_suspend(tide_port_now(s->system->port) + step_ns, "look");
        if (code < 0 && code != TIDE_ETIMEDOUT) {
            return code;
        }
    }
    look->who = who;
    atomic_store_explicit(&look->forced, false, memory_order_relaxed);
    const uint64_t before = atomic_load_explicit(&look->ticket, memory_order_relaxed);
    atomic_store_explicit(&look->ticket, before - before % PHASES + PHASES + LOOK_ASKED, memory_order_release);
    code = wait_for_text(s, look);
    withdraw(look);
    if (code == 0) {
        code = look->size >= 0 ? look->size
                               : tide_fail(look->size, look->size == TIDE_EUNSUPPORTED
                                                           ? "it is no Lua actor: it handles messages, and has no stack"
                                                           : "the actor has ended");
    }
    if (code > 0) {
        code = code < (int)size ? code : (int)size;
        memcpy(out, look->text, (size_t)code);
    }
    atomic_store_explicit(&look->taken, false, memory_order_release);
    return code;
}

struct tide_thread_look tide_look_at_thread(char *out, size_t size) {
    struct scheduler *s = tide__scheduler;
    struct actor *actor = s && s->current_fiber ? s->current_fiber->actor : NULL;
    struct tide_thread_look found = {.node = s ? s->system->node_name : NULL, .actor = actor ? actor->type : NULL};
    if (actor && actor->look) {
        found.size = actor->look(actor->state, TIDE_LOOK_FORCED, out, size);
    }
    return found;
}
