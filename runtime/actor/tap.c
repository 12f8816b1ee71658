/*
 * Taps: samples of the messages that an actor receives, for a watcher.
 *
 * A tap belongs to the actor that opened it. While it is open the actor's slot points to it; every message that enters
 * the mailbox is counted, and as many a second as was asked for are copied (their first 512 bytes) into a ring of 128,
 * from where the watcher takes them; how long each message was queued, from its sending on this node or its arrival
 * from another one until its actor takes it, goes into a histogram. A full ring drops. Nothing is sent and nothing
 * waits, so a tap neither slows the links nor is slowed by them. Without a tap a message costs two looks at a pointer;
 * while any actor of the node has one, messages between threads also a look at the clock.
 *
 * The pointer is set and cleared, and the ring filled and emptied, under the slots_lock of the actor's scheduler; the
 * owner thread looks at the pointer without it, and again with it.
 */
#include "actor/internal.h"

#include <string.h>

enum { TAP_RING = 128 };

struct tide_tap {
    struct scheduler *scheduler;
    struct actor *actor; /* NULL: it has ended */
    uint64_t interval;   /* ns between two samples, in the long run */
    uint64_t refilled;   /* when the bucket last was */
    uint32_t tokens, tokens_max;
    struct tide_tap_counts counts;
    uint32_t first, filled; /* of the ring */
    struct tide_tap_sample ring[TAP_RING];
};

int tide_tap_open(struct tide_system *system, tide_address who, unsigned rate, struct tide_tap **out) {
    struct scheduler *s = is_local(system, who) ? scheduler_of(system, who) : NULL;
    struct tide_tap *tap = tide_alloc_zero(1, sizeof *tap);
    if (!tap) {
        return tide_fail(TIDE_ENOMEM, "out of memory for a tap");
    }
    tap->scheduler = s;
    tap->interval = TIDE_SECOND / (rate > 0 ? rate : 1);
    tap->tokens = tap->tokens_max = rate / 4 + 1;
    struct actor *actor = s ? actor_find(s, who) : NULL;
    int rc = 0;
    if (actor) {
        tide_lock(&s->slots_lock);
        /* It may have ended meanwhile, and the slot be another actor's. */
        bool alive = atomic_load_explicit(&actor->id, memory_order_acquire) == tide_address_id(who);
        bool tapped = atomic_load_explicit(&actor->tap, memory_order_relaxed);
        if (alive && !tapped) {
            tap->actor = actor;
            atomic_fetch_add_explicit(&system->taps, 1, memory_order_relaxed);
            atomic_store_explicit(&actor->tap, tap, memory_order_relaxed); /* read again under the lock */
        }
        tide_unlock(&s->slots_lock);
        rc = alive && tapped ? tide_fail(TIDE_EBUSY, "somebody else taps this actor") : 0;
    }
    if (rc == 0 && !tap->actor) {
        rc = tide_fail(TIDE_ENOENT, "no such actor on this node");
    }
    if (rc < 0) {
        tide_free(tap);
        return rc;
    }
    *out = tap;
    return 0;
}

void tide_tap_close(struct tide_tap *tap) {
    tide_lock(&tap->scheduler->slots_lock);
    if (tap->actor) {
        atomic_store_explicit(&tap->actor->tap, NULL, memory_order_relaxed);
    }
    tide_unlock(&tap->scheduler->slots_lock);
    atomic_fetch_sub_explicit(&tap->scheduler->system->taps, 1, memory_order_relaxed);
    tide_free(tap);
}

size_t tide_tap_read(struct tide_tap *tap, struct tide_tap_sample *out, size_t limit, struct tide_tap_counts *counts) {
    tide_lock(&tap->scheduler->slots_lock);
    size_t n = tap->filled < limit ? tap->filled : limit;
    for (size_t i = 0; i < n; i++) {
        out[i] = tap->ring[(tap->first + i) % TAP_RING];
    }
    tap->first = (uint32_t)((tap->first + n) % TAP_RING);
    tap->filled -= (uint32_t)n;
    *counts = tap->counts;
    counts->ended = !tap->actor;
    tide_unlock(&tap->scheduler->slots_lock);
    return n;
}

/* A bucket that holds a quarter of a second's samples and fills at the rate. */
static bool due(struct tide_tap *tap, uint64_t now) {
    uint64_t gained = (now - tap->refilled) / tap->interval;
    uint64_t room = tap->tokens_max - tap->tokens;
    tap->tokens += (uint32_t)(gained < room ? gained : room);
    tap->refilled += gained * tap->interval;
    if (tap->tokens == 0) {
        return false;
    }
    tap->tokens--;
    return true;
}

static void take(struct tide_tap *tap, uint64_t now, const struct tide_message *m) {
    tap->counts.seen++;
    if (!due(tap, now)) {
        tap->counts.passed_over++;
        return;
    }
    if (tap->filled == TAP_RING) {
        tap->counts.dropped++;
        return;
    }
    struct tide_tap_sample *sample = &tap->ring[(tap->first + tap->filled++) % TAP_RING];
    size_t size = m->size < sizeof sample->data ? m->size : sizeof sample->data;
    sample->when = now;
    sample->from = m->from;
    sample->call = m->call;
    sample->size = m->size;
    sample->captured = (uint16_t)size;
    sample->kind = m->kind;
    sample->lane = m->lane;
    if (size > 0) {
        memcpy(sample->data, m->data, size);
    }
}

void tap_message(struct scheduler *s, struct actor *actor, struct message *m) {
    if (m->queued_at == 0) { /* of this thread, or sent before the tap was opened */
        m->queued_at = tide_port_now(s->system->port);
    }
    tide_lock(&s->slots_lock);
    struct tide_tap *tap = atomic_load_explicit(&actor->tap, memory_order_relaxed);
    if (tap) {
        take(tap, s->now, &m->u.in);
    }
    tide_unlock(&s->slots_lock);
}

void tap_taken(struct actor *actor, const struct message *m) {
    struct scheduler *s = actor->scheduler;
    if (m->queued_at == 0) {
        return;
    }
    unsigned bucket = tide_wait_bucket(tide_port_now(s->system->port) - m->queued_at);
    tide_lock(&s->slots_lock);
    struct tide_tap *tap = atomic_load_explicit(&actor->tap, memory_order_relaxed);
    if (tap) {
        tap->counts.queued[bucket]++;
    }
    tide_unlock(&s->slots_lock);
}

void tap_actor_ended(struct actor *actor) {
    struct tide_tap *tap = atomic_load_explicit(&actor->tap, memory_order_relaxed);
    if (tap) {
        tap->actor = NULL;
        atomic_store_explicit(&actor->tap, NULL, memory_order_relaxed);
    }
}
