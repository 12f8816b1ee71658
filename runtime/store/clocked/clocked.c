/* Tables with clocks: what a table and a store keep for them, floors, waiters, statistics. */
#include "store/clocked/clocked.h"
#include "store/core/options.h"
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/operation/inbox.h"
#include "store/clocked/vap.h"
#include "tide/clock.h"
#include "tide/stats.h"

#include <math.h>

/* ---- the store ---- */

struct tide__sync *tide__sync_next(struct tide_store *store, const struct tide__sync *sync) {
    struct tide__run *run = sync ? atomic_load(&sync->run->next) : atomic_load(&store->runs);
    while (run && !tide__sync_of(run)) {
        run = atomic_load(&run->next);
    }
    return run ? tide__sync_of(run) : NULL;
}

static struct tide__party *peer_add(struct tide__sync *sync, uint16_t id) {
    struct tide__party *peer = tide_alloc_zero(1, sizeof *peer);
    if (!peer) {
        return NULL;
    }
    peer->id = id;
    peer->tick = TIDE_NO_CLOCK;
    struct tide__party *before = NULL, *at = atomic_load(&sync->peers);
    while (at && at->id < id) {
        before = at;
        at = at->next;
    }
    peer->next = at;
    if (before) {
        __atomic_store_n(&before->next, peer, __ATOMIC_RELEASE); /* read by tide__party_lost */
    } else {
        atomic_store_explicit(&sync->peers, peer, memory_order_release);
    }
    return peer;
}

struct tide__party *tide__party(struct tide__sync *sync, uint16_t id) {
    struct tide__party *p = atomic_load_explicit(&sync->peers, memory_order_acquire);
    while (p && p->id < id) {
        p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE);
    }
    return p && p->id == id ? p : NULL;
}

bool tide__party_lost(struct tide__sync *sync, uint16_t id) {
    struct tide__party *p = tide__party(sync, id);
    return p && atomic_load_explicit(&p->lost, memory_order_relaxed);
}

/* Takes part in clocks: a member that is up, and no client. */
static bool takes_part(unsigned state, unsigned id) {
    return (state == 1 + TIDE_MEMBER_UP || state == 1 + TIDE_MEMBER_LEAVING) && id < 0x8000;
}

static int begins(void *arg, uint32_t *clock) {
    return tide__round(arg, TIDE__ROUND_JOIN, clock);
}

static void left(void *arg) { /* there is no caller for the error */
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    (void)tide__settle(arg);
    (void)tide__memory_swap(use);
}

static int may_end(void *arg, struct tide__worker *worker) {
    struct tide__sync *sync = arg;
    const uint64_t since = tide_port_now(sync->store->port);
    int code = tide__clock_may_end(sync, worker);
    worker->waited_ns = tide_port_now(sync->store->port) - since;
    return code ? code : tide__vap_may_end(sync, worker);
}

static void ended(void *arg, struct tide__worker *worker) {
    struct tide__sync *sync = arg;
    tide__bsp_free(worker);
    tide__staleness_release(worker);
    const unsigned entered = tide__tables_enter(sync->store);
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        tide__vap_worker_ended(c, worker);
    }
    tide__tables_leave(sync->store, entered);
}

static void interval_ended(void *arg, struct tide__worker *worker) {
    struct tide__sync *sync = arg;
    tide__bsp_send(sync, worker);
    tide__staleness_clock(worker, worker->waited_ns);
    worker->bound_serial = atomic_load_explicit(&sync->serial, memory_order_acquire);
}

static int sync_create(struct tide__run *domain) {
    struct tide_store *store = domain->store;
    struct tide__sync *sync = tide_alloc_zero(1, sizeof *sync);
    if (!sync) {
        return tide_fail(TIDE_ENOMEM, "no memory for clocks");
    }
    sync->store = store;
    sync->run = domain;
    sync->ticked = TIDE_NO_CLOCK;
    sync->watch = (struct tide__clock_watch){.begins = begins,
                                             .may_end = may_end,
                                             .left = left,
                                             .ended = ended,
                                             .interval_ended = interval_ended,
                                             .changed = tide__clock_changed,
                                             .arg = sync};
    for (unsigned id = 1; id < 0x8000; id++) {
        if (takes_part(store->member_state[id], id) && !peer_add(sync, (uint16_t)id)) {
            return TIDE_ENOMEM;
        }
    }
    const uint16_t self = tide__store_self(store);
    if (!tide__party(sync, self) && !peer_add(sync, self)) {
        return TIDE_ENOMEM;
    }
    atomic_store_explicit(&domain->sync, sync, memory_order_release); /* pairs with tide__sync_of */
    tide__clock_watch(domain, &sync->watch);
    return 0;
}

void tide__sync_destroy(struct tide__run *domain) {
    struct tide__sync *sync = tide__sync_of(domain);
    struct tide__party *p = sync ? atomic_load(&sync->peers) : NULL;
    while (p) {
        struct tide__party *next = p->next;
        tide_free(p);
        p = next;
    }
    tide_free(sync ? atomic_load(&sync->early_send) : NULL);
    tide_free(sync);
}

static void for_tables(struct tide__sync *sync, void (*each)(struct tide__clocked *c, uint16_t node), uint16_t node) {
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        each(c, node);
    }
}

static void introduce(struct tide__clocked *c, uint16_t node) {
    if (atomic_load_explicit(&c->table->ready, memory_order_relaxed)) {
        tide__declare_to(c, node, true);
    }
}

static void member_of(struct tide__sync *sync, const struct tide_member *member) {
    struct tide__party *p = tide__party(sync, member->id);
    if (takes_part(1u + member->state, member->id)) {
        if (!p && peer_add(sync, member->id)) {
            tide__tick_tell(sync, member->id);
            for_tables(sync, introduce, member->id);
        }
        return;
    }
    if (p && !p->gone && (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT)) {
        p->gone = !TIDE_MUTANT(dead_worker_counted);
        atomic_store_explicit(&p->lost, true, memory_order_relaxed);
        for_tables(sync, tide__clock_move_member_gone, member->id);
        for_tables(sync, tide__vap_member_gone, member->id);
        tide__round_member_gone(sync, member->id);
        tide__ticks_changed(sync);
        tide__sync_wake(sync);
    }
}

void tide__clocked_member(struct tide_store *store, const struct tide_member *member) {
    struct tide__sync *sync = member->id < 0x8000 ? tide__sync_next(store, NULL) : NULL;
    for (; sync; sync = tide__sync_next(store, sync)) {
        member_of(sync, member);
    }
}

/* What a handler sends, or the holder of the flush lock, is sent, or the process ends: clocks, rows
 * and answers with a waiter are sent once. If a message does not arrive all the same, it
 * is dead, and what that means is the business of tide__clocked_member. */
static int send(struct tide__sync *sync, uint16_t node, bool in_line, struct tide_writer *w, struct tide_blob *rows) {
    struct tide_store *store = sync->store;
    const bool own = node == tide__store_self(store);
    tide__early_send_note(sync, node, w->size + (rows ? rows->size : 0));
    if (own && rows) {
        tide_write_raw(w, rows->data, rows->size);
    }
    int code = w->error;
    if (!code && own) {
        code = tide_post(store->node, tide_address_make(0, TIDE_ID_STORE), w->data, w->size);
    } else if (!code && in_line) {
        code = tide__store_send_in_line(store, node, w->data, w->size, rows);
    } else if (!code) {
        code = tide__store_send(store, node, TIDE_LANE_STORE, true, w->data, w->size, rows);
    }
    if (code == TIDE_ENOMEM) {
        tide__memory_needed(w->size + (rows ? rows->size : 0));
    }
    tide_writer_release(w);
    return code;
}

int tide__sync_send(struct tide__sync *sync, uint16_t node, struct tide_writer *w) {
    return send(sync, node, false, w, NULL);
}

int tide__sync_send_in_line(struct tide__sync *sync, uint16_t node, struct tide_writer *w, struct tide_blob *rows) {
    return send(sync, node, true, w, rows);
}

static int tell(struct tide__sync *sync, uint16_t node, bool in_line, enum tide__op op, const union tide__message *m) {
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    return send(sync, node, in_line, &w, NULL);
}

int tide__sync_tell(struct tide__sync *sync, uint16_t node, enum tide__op op, const union tide__message *m) {
    return tell(sync, node, false, op, m);
}

int tide__sync_tell_in_line(struct tide__sync *sync, uint16_t node, enum tide__op op, const union tide__message *m) {
    return tell(sync, node, true, op, m);
}

/* ---- waiters ---- */

void tide__sync_wait_begin(struct tide__sync *sync, struct tide__waiting *waiting) {
    waiting->fiber = tide_fiber_current();
    tide_lock(&sync->lock);
    waiting->next = sync->waiting;
    waiting->back = &sync->waiting;
    if (waiting->next) {
        waiting->next->back = &waiting->next;
    }
    sync->waiting = waiting;
    tide_unlock(&sync->lock);
}

void tide__sync_wait_end(struct tide__sync *sync, struct tide__waiting *waiting) {
    tide_lock(&sync->lock);
    *waiting->back = waiting->next;
    if (waiting->next) {
        waiting->next->back = waiting->back;
    }
    tide_unlock(&sync->lock);
}

void tide__sync_wake(struct tide__sync *sync) {
    tide_lock(&sync->lock);
    for (struct tide__waiting *w = sync->waiting; w; w = w->next) {
        tide_fiber_wake(w->fiber);
    }
    tide_unlock(&sync->lock);
}

/* ---- floors ---- */

void tide__table_floor_update(struct tide__clocked *c) {
    const uint32_t before = atomic_load_explicit(&c->table_floor, memory_order_relaxed);
    uint32_t least = UINT32_MAX;
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && least > before; s++) { /* floors do not fall */
        uint32_t floor = atomic_load_explicit(&c->floor[s], memory_order_relaxed);
        least = floor < least ? floor : least;
    }
    atomic_store_explicit(&c->table_floor, least, memory_order_release); /* as the floors */
}

/* ---- a table ---- */

int tide__clocked_create(struct tide_table *table) {
    struct tide_store *store = table->store;
    const struct tide_consistency *o = &table->options.consistency;
    if (!store->system || o->model == TIDE_SEQUENTIAL) {
        return 0;
    }
    int code = tide__sync_of(table->domain) ? 0 : sync_create(table->domain);
    if (!code && table->options.send_order) {
        code = tide__early_send_create(tide__sync_of(table->domain));
    }
    struct tide__clocked *c = tide_alloc_aligned(_Alignof(struct tide__clocked), sizeof *c);
    if (!c || code) {
        tide_free(c);
        return tide_fail(TIDE_ENOMEM, "no memory for the clocks of table '%s'", table->name);
    }
    memset(c, 0, sizeof *c);
    c->table = table;
    c->sync = tide__sync_of(table->domain);
    atomic_init(&c->model, o->model);
    c->shape = tide__copy_record_shape(&table->options);
    c->held_end = &c->held;
    atomic_init(&c->age_ms, o->age_ms);
    atomic_init(&c->staleness, o->staleness);
    for (size_t i = 0; i < TIDE__BOUNDS; i++) {
        c->bounds[i].staleness = o->staleness;
    }
    struct tide_table_options index = {.name = table->name,
                                       .keys = table->options.keys,
                                       .slots = table->options.slots,
                                       .key_count = table->options.key_count,
                                       .run = table->options.run,
                                       .domain = table->options.domain,
                                       .run_memory = table->options.run_memory};
    index.width = (uint32_t)(tide__copy_record_bytes(&c->shape) / sizeof(float));
    code = tide__vap_create(c);
    code = code ? code : tide__table_make(store, 0, &index, NULL, NULL, &c->index);
    if (code) {
        tide__vap_destroy(c);
        tide_free(c);
        return code;
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        atomic_init(&c->via[s], tide__route_home(route));
    }
    table->parts[TIDE__PART_CLOCKS] = c;
    return 0;
}

static void forget_copy(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word, uint64_t old) {
    (void)arg;
    tide__copy_record_drop(r);
    tide__word_unlock(word, old);
}

void tide__clocked_destroy(struct tide_table *table) {
    struct tide__clocked *c = tide__clocked_part(table);
    if (!c) {
        return;
    }
    tide__copy_index_slot(c, TIDE_SLOT_COUNT, forget_copy, NULL);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        tide__watches_clear(&c->watches[s]);
        tide_free(c->tick_forwards[s]);
    }
    while (c->declared) {
        struct tide__declared *next = c->declared->next;
        tide_free(c->declared);
        c->declared = next;
    }
    while (c->asked) {
        struct tide__asked *next = c->asked->next;
        tide_free(c->asked);
        c->asked = next;
    }
    while (c->held) {
        struct tide__held *next = c->held->next;
        tide_free(c->held);
        c->held = next;
    }
    tide__staged_free(c);
    tide__vap_destroy(c);
    tide__staleness_free(c);
    tide__table_destroy(c->index);
    tide_free(c->dirty.at);
    tide__leaving_free(&c->leaving);
    tide_free(c->changed.at);
    tide_free(c);
}

/* ---- messages ---- */

/* Both fetch or are pushed the same rows and promise the same. */
static bool may_become(uint8_t from, uint8_t to) {
    return from == to || ((from == TIDE_SSP || from == TIDE_ESSP) && (to == TIDE_SSP || to == TIDE_ESSP));
}

struct tide__clocked *tide__clocked_of(struct tide_store *store, struct tide__incoming *in, uint32_t id) {
    const struct tide_table *table = tide__incoming_table(store, in, id);
    struct tide__clocked *c = table ? tide__clocked_part(table) : NULL;
    in->useless = in->useless || (c && !tide__party(c->sync, in->from)); /* a client */
    return in->useless ? NULL : c;
}

struct tide__sync *tide__clocks_of(struct tide_store *store, struct tide__incoming *in, uint32_t domain) {
    struct tide__run *run = tide__run_find(store, domain);
    struct tide__sync *sync = run ? tide__sync_of(run) : NULL;
    /* of tables that are about to be announced to this node, or gone; or a client's */
    in->useless = !sync || !tide__party(sync, in->from);
    return in->useless ? NULL : sync;
}

/* Of changes that several nodes make at once all take the same. */
int tide__bound_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.BOUND) *m = &in->as.BOUND;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c || m->model > TIDE_VAP || !may_become(c->model, m->model) || m->staleness > TIDE_STALENESS_MAX ||
        m->age > TIDE__AGE_MS_MAX || (c->vap && !(isfinite(m->bound) && m->bound > 0))) {
        return TIDE_EPROTO;
    }
    if (m->change <= atomic_load(&c->change)) {
        return 0;
    }
    atomic_store(&c->change, m->change);
    if (c->vap) {
        tide__vap_set_bound(c, m->bound);
    }
    struct tide__sync *sync = c->sync;
    tide_lock(&c->bound_lock);
    memmove(c->bounds, c->bounds + 1, (TIDE__BOUNDS - 1) * sizeof c->bounds[0]);
    uint64_t serial = atomic_fetch_add_explicit(&sync->serial, 1, memory_order_release) + 1;
    c->bounds[TIDE__BOUNDS - 1] = (struct tide__bound){.serial = serial, .staleness = m->staleness};
    atomic_store_explicit(&c->staleness, m->staleness, memory_order_relaxed);
    atomic_store_explicit(&c->serial, serial, memory_order_release); /* pairs with worker.c */
    tide_unlock(&c->bound_lock);
    atomic_store_explicit(&c->age_ms, m->age, memory_order_relaxed);
    atomic_store(&c->model, m->model);
    tide__sync_wake(sync);
    return 0;
}

/* ---- bounds ---- */

void tide_table_consistency(const struct tide_table *table, struct tide_consistency *out) {
    const struct tide__clocked *c = tide__clocked_part(table);
    *out = table->options.consistency;
    if (c) {
        out->model = c->model;
        out->staleness = atomic_load_explicit(&c->staleness, memory_order_relaxed);
        out->age_ms = atomic_load_explicit(&c->age_ms, memory_order_relaxed);
        out->bound = c->vap ? tide__vap_bound(c) : 0;
    }
}

static int bound_send(struct tide__clocked *c, uint16_t to, uint64_t change, const struct tide_consistency *bound) {
    return tide__sync_tell(c->sync, to,
                           TIDE__AS(BOUND, .table = c->table->id, .change = change, .model = bound->model,
                                    .staleness = bound->staleness, .age = bound->age_ms, .bound = bound->bound));
}

void tide__bound_tell(struct tide__clocked *c, uint16_t to) {
    const uint64_t change = atomic_load(&c->change);
    struct tide_consistency now;
    if (change) {
        tide_table_consistency(c->table, &now);
        (void)bound_send(c, to, change, &now); /* a handler */
    }
}

/* Higher than any that this node has seen or made; the node's number makes it one of its own. */
static uint64_t next_change(struct tide__clocked *c) {
    uint64_t issued = atomic_load(&c->issued), next;
    do {
        const uint64_t seen = atomic_load(&c->change), last = seen > issued ? seen : issued;
        next = ((last >> 16) + 1) << 16 | tide__store_self(c->table->store);
    } while (!atomic_compare_exchange_weak(&c->issued, &issued, next));
    return next;
}

int tide_table_set_consistency(struct tide_table *table, const struct tide_consistency *given) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide_table_options o = table->options;
    o.consistency = *given;
    if (!may_become(table->options.consistency.model, given->model) ||
        given->reproducible != table->options.consistency.reproducible ||
        given->flat != table->options.consistency.flat) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "table '%s' keeps its model of consistency: only ssp and essp change into "
                         "each other",
                         table->name);
    }
    int code = tide__consistency_check(&o);
    if (code) {
        return code;
    }
    struct tide__sync *sync = c ? c->sync : NULL;
    const uint64_t change = c ? next_change(c) : 0;
    for (struct tide__party *p = c ? atomic_load(&sync->peers) : NULL; p;
         p = __atomic_load_n(&p->next, __ATOMIC_ACQUIRE)) {
        const int sent = bound_send(c, p->id, change, &o.consistency);
        code = code ? code : sent; /* some have heard: the next change overrules this one */
    }
    return code;
}

/* ---- statistics ---- */

void tide_table_staleness(struct tide_table *table, struct tide_staleness *out) {
    struct tide__clocked *c = tide__clocked_part(table);
    memset(out, 0, sizeof *out);
    if (!c) {
        return;
    }
    tide__staleness_sum(c, &out->all);
    out->copies = tide__slab_used(&c->index->slab);
    out->copy_bytes = out->copies * c->index->slab.stride;
    out->evicted = atomic_load_explicit(&c->evicted, memory_order_relaxed);
    out->values_in = atomic_load_explicit(&c->values_in, memory_order_relaxed);
    out->values_out = atomic_load_explicit(&c->values_out, memory_order_relaxed);
    out->deltas_out = atomic_load_explicit(&c->deltas_out, memory_order_relaxed);
    out->value_bytes = atomic_load_explicit(&c->value_bytes, memory_order_relaxed);
    out->answer_bytes = atomic_load_explicit(&c->answer_bytes, memory_order_relaxed);
    out->delta_bytes = atomic_load_explicit(&c->delta_bytes, memory_order_relaxed);
    out->early_rows = atomic_load_explicit(&c->early_rows, memory_order_relaxed);
    out->early_bytes = atomic_load_explicit(&c->early_bytes, memory_order_relaxed);
    if (c->vap) {
        tide__vap_statistics(c, out);
    }
}
