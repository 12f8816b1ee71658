/*
 * Tracing: what threads ran and what fibers waited for, as spans in a ring of each thread.
 *
 * Off, it costs one load an activation and a suspension. On, a span is 64 bytes behind a lock that
 * only a reader ever contends for. A full ring drops its oldest spans. A fiber's spans bear its
 * number; its identity is in a label of its own, repeated often enough that the ring always holds
 * one beside the spans it keeps.
 */
#include "actor/internal.h"

#include <string.h>

enum { NAME_BYTES = 40 };

struct event { /* a label if it never ends */
    uint64_t begin, end;
    uint32_t fiber; /* 0: the thread itself */
    uint32_t lane;  /* of the fiber */
    char name[NAME_BYTES];
};
_Static_assert(sizeof(struct event) == 64, "one cache line");

struct trace {
    struct tide_lock lock;
    uint64_t count; /* of all events ever; the newest `capacity` of them are kept */
    uint64_t first; /* of this recording */
    size_t capacity;
    struct event events[];
};

static void append(struct trace *trace, uint32_t fiber, uint32_t lane, uint64_t begin, uint64_t end, const char *name) {
    struct event *e = &trace->events[trace->count++ % trace->capacity];
    e->begin = begin;
    e->end = end;
    e->fiber = fiber;
    e->lane = lane;
    snprintf(e->name, sizeof e->name, "%s", name);
}

void actor_label(const struct actor *actor, char *out, size_t size) {
    for (const struct tide_fiber *f = actor->fibers; f; f = f->next) {
        if (f->title[0] != 0) {
            snprintf(out, size, "%s", f->title);
            return;
        }
    }
    struct tide_lock *lock = &actor->scheduler->slots_lock;
    tide_lock(lock);
    if (actor->name) {
        snprintf(out, size, "%s", actor->name);
    } else {
        snprintf(out, size, "%s %u", actor->type, (unsigned)actor->index);
    }
    tide_unlock(lock);
}

/* Never 0: simulations begin there. */
static uint64_t clock_of(const struct scheduler *s) {
    uint64_t now = tide_port_now(s->system->port);
    return now != 0 ? now : 1;
}

uint64_t trace_now(struct scheduler *s) {
    /* acquire: with tide_trace_start */
    return atomic_load_explicit(&s->trace, memory_order_acquire) ? clock_of(s) : 0;
}

void trace_activation(struct scheduler *s, const struct actor *actor, uint64_t began) {
    struct trace *trace = atomic_load_explicit(&s->trace, memory_order_acquire);
    if (!trace) {
        return;
    }
    char label[NAME_BYTES];
    actor_label(actor, label, sizeof label);
    tide_lock(&trace->lock);
    append(trace, 0, 0, began, clock_of(s), label);
    tide_unlock(&trace->lock);
}

void trace_fiber(struct tide_fiber *fiber, uint64_t began, const char *name) {
    struct scheduler *s = fiber->actor->scheduler;
    struct trace *trace = atomic_load_explicit(&s->trace, memory_order_acquire);
    if (!trace) {
        return;
    }
    uint64_t now = clock_of(s);
    tide_lock(&trace->lock);
    if (fiber->labelled <= trace->first || trace->count - fiber->labelled >= trace->capacity / 2) {
        char label[NAME_BYTES];
        actor_label(fiber->actor, label, sizeof label);
        append(trace, fiber->number, 0, began, TIDE_NEVER, label);
        fiber->labelled = trace->count;
    }
    append(trace, fiber->number, 0, began, now, name);
    tide_unlock(&trace->lock);
}

void tide_trace_beside(unsigned lane, uint64_t began, const char *name) {
    struct tide_fiber *fiber = tide_fiber_current();
    struct scheduler *s = tide__scheduler;
    struct trace *trace = fiber ? atomic_load_explicit(&s->trace, memory_order_acquire) : NULL;
    if (!trace) {
        return;
    }
    uint64_t now = clock_of(s);
    tide_lock(&trace->lock);
    append(trace, fiber->number, lane, began, TIDE_NEVER, name);
    append(trace, fiber->number, lane, began, now, name);
    tide_unlock(&trace->lock);
}

void tide_trace_title(const char *title) {
    struct tide_fiber *fiber = tide_fiber_current();
    TIDE_ASSERT(fiber);
    snprintf(fiber->title, sizeof fiber->title, "%s", title);
}

uint64_t tide_trace_begin(void) {
    return tide_fiber_current() ? trace_now(tide__scheduler) : 0;
}

void tide_trace_end(uint64_t began, const char *name) {
    if (began != 0) {
        trace_fiber(tide_fiber_current(), began, name);
    }
}

/* ---- from outside ---- */

/* The ring is made once and stays: a thread may be about to write into it. */
static struct trace *ring_of(struct scheduler *s, size_t events) {
    if (!s->ring) {
        s->ring = tide_alloc(sizeof *s->ring + events * sizeof(struct event));
        if (s->ring) {
            *s->ring = (struct trace){.capacity = events};
        }
    }
    return s->ring;
}

int tide_trace_start(struct tide_system *system, size_t events) {
    TIDE_ASSERT(events >= 2);
    for (unsigned i = 0; i < system->count; i++) {
        if (!ring_of(system->schedulers[i], events)) {
            return tide_fail(TIDE_ENOMEM, "no memory for a trace of %zu events a thread", events);
        }
    }
    for (unsigned i = 0; i < system->count; i++) {
        struct scheduler *s = system->schedulers[i];
        tide_lock(&s->ring->lock);
        s->ring->first = s->ring->count;
        tide_unlock(&s->ring->lock);
        atomic_store_explicit(&s->trace, s->ring, memory_order_release);
    }
    return 0;
}

void tide_trace_stop(struct tide_system *system) {
    for (unsigned i = 0; i < system->count; i++) {
        atomic_store_explicit(&system->schedulers[i]->trace, NULL, memory_order_relaxed);
    }
}

size_t tide_trace_read(struct tide_system *system, unsigned thread, uint64_t *from, struct tide_span *out, size_t max) {
    struct trace *trace = thread < system->count ? system->schedulers[thread]->ring : NULL;
    size_t count = 0;
    if (!trace) {
        return 0;
    }
    tide_lock(&trace->lock);
    uint64_t kept = trace->count - trace->first < trace->capacity ? trace->first : trace->count - trace->capacity;
    for (*from = *from < kept ? kept : *from; *from < trace->count && count < max; ++*from) {
        const struct event *e = &trace->events[*from % trace->capacity];
        struct tide_span *span = &out[count++];
        span->begin = e->begin;
        span->end = e->end;
        span->fiber = e->fiber;
        span->lane = e->lane;
        memcpy(span->name, e->name, sizeof e->name);
    }
    tide_unlock(&trace->lock);
    return count;
}

unsigned tide_trace_thread(const struct tide_system *system, unsigned thread, enum tide_role *role) {
    if (thread < system->count) {
        *role = (enum tide_role)system->schedulers[thread]->role;
    }
    return system->count;
}
