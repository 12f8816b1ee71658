/*
 * Rounds: one question to every node, done when all that live have answered. Answers come behind
 * what was sent before, so they also say that it was applied.
 *
 *   join    A node whose first worker begins is to be waited for from now on. Each home counts it
 *           in at the highest clock it has announced and sends that clock; the worker begins at the
 *           highest of all, so nothing that was announced becomes untrue.
 *   settle  What this node pushed is applied at the homes; rows that changed there came here.
 */
#include "store/core/send.h"
#include "store/clocked/clocked.h"
#include "tide/clock.h"

static int ask(struct tide__sync *sync, uint16_t node, uint64_t id, enum tide__round kind) {
    return tide__sync_tell_in_line(sync, node, TIDE__AS(ROUND, .domain = sync->run->number, .id = id, .kind = kind));
}

/* Fibers, one at a time on a node. */
static int round_begin(struct tide__sync *sync) {
    for (;;) {
        tide_lock(&sync->round_lock);
        bool mine = !sync->round_runs;
        sync->round_runs = true;
        tide_unlock(&sync->round_lock);
        if (mine) {
            return 0;
        }
        int code = tide_sleep(TIDE_SECOND / 10000);
        if (code) {
            return code;
        }
    }
}

static bool round_done(struct tide__sync *sync) {
    tide_lock(&sync->round_lock);
    bool done = sync->round_missing == 0;
    tide_unlock(&sync->round_lock);
    return done;
}

static int round_run(struct tide__sync *sync, enum tide__round kind, uint32_t *clock) {
    struct tide__waiting waiting;
    tide_lock(&sync->round_lock);
    const uint64_t id = ++sync->rounds;
    sync->round_clock = 0;
    sync->round_missing = 0;
    for (struct tide__party *p = atomic_load_explicit(&sync->peers, memory_order_acquire); p;
         p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) {
        bool lost = atomic_load_explicit(&p->lost, memory_order_relaxed);
        p->round = lost ? 0 : id;
        sync->round_missing += !lost;
    }
    tide_unlock(&sync->round_lock);
    int code = 0;
    for (struct tide__party *p = atomic_load_explicit(&sync->peers, memory_order_acquire); p && !code;
         p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) {
        if (__atomic_load_n(&p->round, __ATOMIC_RELAXED) == id) {
            code = ask(sync, p->id, id, kind);
            code = TIDE_MUTANT(round_unasked) ? 0 : code;
        }
    }
    tide__sync_wait_begin(sync, &waiting);
    while (!code && !round_done(sync)) {
        code = tide_fiber_suspend(TIDE_NEVER, "clocks of other nodes");
    }
    tide__sync_wait_end(sync, &waiting);
    *clock = sync->round_clock > *clock ? sync->round_clock : *clock;
    return code;
}

static void round_end(struct tide__sync *sync) {
    tide_lock(&sync->round_lock);
    sync->round_runs = false;
    sync->round_missing = 0;
    tide_unlock(&sync->round_lock);
}

int tide__round(struct tide__sync *sync, enum tide__round kind, uint32_t *clock) {
    int code = round_begin(sync);
    if (code) {
        return code;
    }
    tide__flush_lock(sync);
    uint32_t ticked = sync->ticked;
    tide__flush_unlock(sync);
    if (kind == TIDE__ROUND_JOIN && ticked != TIDE_NO_CLOCK) { /* a neighbour works: be no slower */
        *clock = *clock > ticked ? *clock : ticked;
        round_end(sync);
        return 0;
    }
    code = round_run(sync, kind, clock);
    if (kind == TIDE__ROUND_JOIN) {
        tide__flush_lock(sync);
        tide__tick_send(sync, code ? TIDE_NO_CLOCK : *clock); /* requesters wait no more */
        tide__flush_unlock(sync);
    }
    if (!code && kind == TIDE__ROUND_SETTLE) {
        atomic_fetch_add_explicit(&sync->settled, 1, memory_order_relaxed);
    }
    round_end(sync);
    return code;
}

int tide__settle(struct tide__sync *sync) {
    uint32_t clock = 0;
    tide__flush_lock(sync);
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        tide__flush_table(c);
    }
    tide__flush_unlock(sync);
    return tide__round(sync, TIDE__ROUND_SETTLE, &clock);
}

int tide_settle(void) {
    struct tide_node *node = tide_node_current();
    struct tide_store *store = node && tide_fiber_current() ? tide_store_of(node) : NULL;
    if (!store) {
        return tide_fail(TIDE_EINVAL, "settle: not on a fiber of a node with a store");
    }
    const struct tide__worker *worker = tide__worker_current();
    struct tide__run *domain = tide__run_hold(store, worker ? worker->domain->number : 0);
    struct tide__sync *sync = domain ? tide__sync_of(domain) : NULL;
    const int code = !domain ? TIDE_ENOMEM : sync ? tide__settle(sync) : 0;
    if (domain) {
        tide__run_release(domain);
    }
    return code;
}

/* ---- answers ---- */

static uint32_t count_in(struct tide__sync *sync, struct tide__party *peer) {
    const uint32_t clock = sync->announced;
    if (peer->tick != TIDE_NO_CLOCK) {
        return clock;
    }
    peer->tick = clock;
    peer->joins = true;
    tide__known_update(sync); /* its worker, which continues when all have answered, looks at that */
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT && c->forwarded; s++) {
            struct tide__tick_forward *forward = tide__tick_forward(c, s, peer->id, false);
            if (forward) {
                forward->tick = clock;
            }
        }
    }
    return clock;
}

static void bring_up_to_date(struct tide__sync *sync) {
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        tide__changed_send(c, TIDE_SLOT_COUNT);
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT && c->forwarded; s++) {
            if (c->tick_forwards[s]) {
                tide__changed_send(c, s);
            }
        }
    }
}

/* No table with these clocks may be here yet: all the same it answers. */
int tide__round_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ROUND) *m = &in->as.ROUND;
    struct tide__run *run = tide__run_find(store, m->domain);
    struct tide__sync *sync = run ? tide__sync_of(run) : NULL;
    struct tide__party *peer = sync ? tide__party(sync, in->from) : NULL;
    uint32_t clock = 0;
    if (peer && m->kind == TIDE__ROUND_JOIN) {
        clock = count_in(sync, peer);
    } else if (peer && m->kind == TIDE__ROUND_SETTLE) {
        bring_up_to_date(sync);
    }
    const union tide__message answer = {.ROUNDED = {.domain = m->domain, .id = m->id, .clock = clock}};
    (void)(sync ? tide__sync_tell(sync, in->from, TIDE__OP_ROUNDED, &answer)
                : tide__store_tell(store, in->from, TIDE__OP_ROUNDED, &answer));
    return 0;
}

static void answered(struct tide__sync *sync, uint16_t from, uint64_t id, uint32_t clock) {
    struct tide__party *peer = tide__party(sync, from);
    tide_lock(&sync->round_lock);
    if (peer && peer->round && (id == 0 || peer->round == id)) {
        __atomic_store_n(&peer->round, 0, __ATOMIC_RELAXED);
        sync->round_missing -= sync->round_missing > 0;
        sync->round_clock = clock > sync->round_clock ? clock : sync->round_clock;
    }
    tide_unlock(&sync->round_lock);
    tide__sync_wake(sync);
}

int tide__round_answer(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ROUNDED) *m = &in->as.ROUNDED;
    struct tide__sync *sync = tide__clocks_of(store, in, m->domain);
    if (sync && m->id && m->clock < TIDE_NO_CLOCK) {
        answered(sync, in->from, m->id, m->clock);
    }
    return 0;
}

void tide__round_member_gone(struct tide__sync *sync, uint16_t node) {
    answered(sync, node, 0, 0);
}
