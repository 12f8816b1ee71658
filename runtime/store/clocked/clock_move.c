/*
 * Slots of tables with clocks that change their home.
 *
 * A node n continues to send what concerns slot g to the old home H1, which forwards it to the new
 * one, H2, in order: DELTAs, requests, and n's ticks for g. Once n has the move it holds its
 * updates of g back and sends FENCE by the old way; H2's answer, FENCED, comes back by the same
 * way. Then everything n sent to H1 is applied at H2, and everything H1 sent to n has come. n sends
 * what accumulated straight to H2, then ROUTE(g): from there on its own ticks count for g at H2.
 * Until then they do not: H2 has a forward for (g, n) with n's clock as it came by H1. What H2 announced of
 * clocks meanwhile, n did not take, for rows of H1 might still come: behind ROUTE H2 sends it again.
 *
 * Which slots n sends straight to a home is declared to it: by ROUTE for all of them when the table
 * is made, so that a home knows at least all nodes that it must wait for.
 */
#include "store/operation/inbox.h"
#include "store/clocked/clock_move.h"

#include "store/rows/cut.h"
#include "store/clocked/vap.h"

/* ---- FENCE ---- */

static void fence_send(struct tide__clocked *c, enum tide__op op, uint16_t to, const uint32_t *path, size_t hops,
                       uint16_t home, const uint32_t *slots, const uint64_t *numbers, size_t count) {
    const union tide__message m = {.FENCE = {.table = c->table->id,
                                             .path = TIDE__LIST(path, hops),
                                             .home = home,
                                             .slots = TIDE__LIST(slots, count),
                                             .numbers = TIDE__LIST(numbers, numbers ? count : 0)}};
    if (op == TIDE__OP_FENCE && hops == 1) { /* our own: behind what our workers sent */
        (void)tide__sync_tell_in_line(c->sync, to, op, &m);
    } else {
        (void)tide__sync_tell(c->sync, to, op, &m); /* FENCED has the same fields */
    }
}

enum { HOPS_MAX = 16 };

/* Slots from..end - 1 whose home is not where this node sends them: FENCE for them. */
void tide__clocked_routes_changed(struct tide_table *table, uint32_t from, uint32_t end) {
    struct tide__clocked *c = tide__clocked_part(table);
    if (!c) {
        return;
    }
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(table->store);
    const uint32_t path[1] = {self};
    for (uint32_t first = from; first < end; first++) {
        uint32_t slots[TIDE_SLOT_COUNT];
        size_t count = 0;
        const uint16_t via = tide__via(c, first);
        for (uint32_t s = first; s < end; s++) {
            uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
            if (tide__via(c, s) == via && via != tide__route_home(route) && via != self && !(route & TIDE__AWAITED) &&
                !atomic_load_explicit(&c->shifting[s], memory_order_relaxed)) {
                slots[count++] = s;
            }
            if (s == first && count == 0) {
                break;
            }
        }
        if (count == 0) {
            continue;
        }
        tide__flush_lock(sync); /* no thread is packing updates of these slots now */
        for (size_t i = 0; i < count; i++) {
            atomic_store_explicit(&c->shifting[slots[i]], 1, memory_order_release);
        }
        uint32_t route = atomic_load_explicit(&table->slots[first].route, memory_order_relaxed);
        fence_send(c, TIDE__OP_FENCE, tide__party_lost(sync, via) ? tide__route_home(route) : via, path, 1, 0, slots,
                   NULL, count);
        tide__flush_unlock(sync); /* before any tick of a clock whose updates are held back */
    }
}

struct fence {
    uint32_t path[HOPS_MAX];
    size_t hops, count;
    const uint8_t *slots, *numbers;
    uint16_t home;
};

/* A question has no home and no numbers, an answer both. */
static bool read_fence(const union tide__message *as, struct fence *f) {
    const __typeof__(as->FENCE) *m = &as->FENCE;
    f->hops = m->path.count;
    f->home = m->home;
    f->slots = m->slots.at;
    f->count = m->slots.count;
    f->numbers = m->numbers.at;
    bool good = f->hops < HOPS_MAX && tide__are_slots(&m->slots) && m->numbers.count == (m->home ? f->count : 0);
    for (size_t i = 0; good && i < f->hops; i++) {
        f->path[i] = tide__number_at(m->path.at, i);
        good = f->path[i] != 0 && f->path[i] <= UINT16_MAX;
    }
    return good;
}

static void departed_end(struct tide__clocked *c, uint32_t slot) {
    struct tide__sync *sync = c->sync;
    bool used = false;
    for (struct tide__party *p = atomic_load(&sync->peers); p && !used; p = p->next) {
        used = !p->gone && tide__declared(c, p->id, slot);
    }
    if (c->departed[slot] && !used) {
        c->departed[slot] = 0;
        c->departed_count--;
    }
}

int tide__fence_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__clocked *c = tide__clocked_of(store, in, in->as.FENCE.table);
    struct fence f;
    if (!c || !read_fence(&in->as, &f) || f.hops == 0) {
        return TIDE_EPROTO;
    }
    tide__user_add(c, 0);
    const uint16_t origin = (uint16_t)f.path[0];
    for (size_t i = 0; i < f.count; i++) {
        const uint32_t slot = tide__number_at(f.slots, i);
        if (tide__slot_here(c, slot)) {
            uint64_t number = tide__slot_applied(c, slot, origin);
            fence_send(c, TIDE__OP_FENCED, (uint16_t)f.path[f.hops - 1], f.path, f.hops - 1, tide__store_self(store),
                       &slot, &number, 1);
            continue;
        }
        const uint16_t to = tide__home_of(c, slot);
        if (to == 0) { /* its rows are coming; the answer waits for them */
            tide__hold(c, in->from,
                       TIDE__AS(FENCE, .table = c->table->id, .path = TIDE__LIST(f.path, f.hops),
                                .slots = TIDE__LIST(&slot, 1)));
            continue;
        }
        f.path[f.hops] = tide__store_self(store);
        fence_send(c, TIDE__OP_FENCE, to, f.path, f.hops + 1, 0, &slot, NULL, 1);
        if (in->from == origin) { /* nothing more of it comes this way */
            tide__declare(c, origin, slot, false);
            departed_end(c, slot);
        }
    }
    return 0;
}

/* The generation that is being written, if there is one, fails: a slot changes its home, and
 * updates that come by another way are distinguished no more, or come after the walk. */
static void no_cut(struct tide_table *table) {
    if (tide__cut_phase(atomic_load_explicit(&table->cut, memory_order_relaxed)) != TIDE__CUT_IDLE) {
        tide__cut_vanish(table);
    }
}

struct fenced {
    struct tide__clocked *c;
    uint64_t number; /* of the last of our messages that was applied */
};

/* A copy whose slot is sent elsewhere from now: what was not applied is to be sent again. What was
 * stays in the ring: a row that left the new home before the answer to the fence, on its own way,
 * may still come, and need not hold it. */
static void resend(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word, uint64_t old) {
    const struct fenced *fenced = arg;
    struct tide__clocked *c = fenced->c;
    if (TIDE_MUTANT(fence_confirms)) {
        tide__copy_record_confirm(r, fenced->number);
    }
    if (tide__copy_record_unsend(&c->shape, r, fenced->number)) {
        no_cut(c->table);
        if (!r->dirty) {
            tide__dirty_add(c, r, old);
        }
    }
    r->asked = false; /* waiters ask the new home: the old one may have ended with the request */
    tide__word_unlock(word, old);
}

/* This node is the home now: what the copy has accumulated meets the row. */
static void fold(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word, uint64_t old) {
    const struct fenced *fenced = arg;
    struct tide__clocked *c = fenced->c;
    const uint64_t key = atomic_load_explicit(&r->key, memory_order_relaxed);
    bool more = tide__copy_record_unsend(&c->shape, r, fenced->number) || r->dirty;
    if (more && tide__home_apply(c, key, tide__copy_record_acc(&c->shape, r), r->newest, 0)) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(c->table->store->node), "an update of table '%s' is lost: %s",
                 c->table->name, tide_error_message());
    }
    tide__copy_free(c, word, old);
}

int tide__fenced_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__clocked *c = tide__clocked_of(store, in, in->as.FENCED.table);
    struct fence f;
    if (!c || !read_fence(&in->as, &f) || f.home == 0) {
        return TIDE_EPROTO;
    }
    tide__user_add(c, 0);
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(store), home = f.home;
    const size_t count = f.count;
    uint32_t mine[TIDE_SLOT_COUNT];
    for (size_t i = 0; i < count; i++) {
        mine[i] = tide__number_at(f.slots, i);
    }
    if (f.hops) {
        uint64_t passed_on[TIDE_SLOT_COUNT];
        memcpy(passed_on, f.numbers, count * sizeof passed_on[0]);
        fence_send(c, TIDE__OP_FENCED, (uint16_t)f.path[f.hops - 1], f.path, f.hops - 1, home, mine, passed_on, count);
        return 0;
    }
    tide__flush_lock(sync);
    for (size_t i = 0; i < count; i++) {
        struct fenced fenced = {.c = c, .number = tide__long_at(f.numbers, i)};
        /* release: a worker that sees the new way sees `shifting` too, while copies are folded */
        atomic_store_explicit(&c->via[mine[i]], home, memory_order_release);
        tide__copy_index_slot(c, mine[i], home == self ? fold : resend, &fenced);
        if (home == self) {
            tide__floor_raise(&c->floor[mine[i]], c->announced[mine[i]]);
        }
        /* pairs with home_lock of worker.c */
        atomic_store_explicit(&c->shifting[mine[i]], 0, memory_order_release);
    }
    tide__flush_table(c);
    tide__route_send(c, home, false, mine, count);
    tide__vap_retrace(c, home, mine, count);
    tide__flush_unlock(sync);
    tide__table_floor_update(c);
    tide__sync_wake(sync);
    for (size_t i = 0; i < count; i++) { /* they may have moved on */
        tide__clocked_routes_changed(c->table, mine[i], mine[i] + 1);
    }
    return 0;
}

/* ---- the old home ---- */

void tide__clocked_departs(struct tide_table *table, uint32_t slot, uint16_t to) {
    struct tide__clocked *c = tide__clocked_part(table);
    if (!c) {
        return;
    }
    no_cut(table);
    tide__user_add(c, 0);
    struct tide__sync *sync = c->sync;
    tide__flush_lock(sync);
    c->straight = tide__via(c, slot) == tide__store_self(table->store);
    if (c->straight) { /* workers: to copies from now on; pairs with home_lock of worker.c */
        atomic_store_explicit(&c->via[slot], to, memory_order_release);
        tide__declare(c, tide__store_self(table->store), slot, false);
    }
    tide__flush_unlock(sync);
}

struct outgoing_watches {
    uint64_t *keys, *versions, *changed;
    uint32_t *counts, *nodes;
    size_t key_count, node_count, changed_count;
};

static int gather_watches(struct tide__clocked *c, uint32_t slot, struct outgoing_watches *o) {
    const struct tide__watches *w = &c->watches[slot];
    size_t nodes = 0;
    for (uint32_t i = 0; i < w->capacity; i++) {
        nodes += w->places[i].nodes ? w->places[i].count : 0;
    }
    o->keys = tide_alloc((w->count + 1) * sizeof *o->keys);
    o->counts = tide_alloc((w->count + 1) * sizeof *o->counts);
    o->nodes = tide_alloc((nodes + 1) * sizeof *o->nodes);
    o->versions = tide_alloc((nodes + 1) * sizeof *o->versions);
    if (!o->keys || !o->counts || !o->nodes || !o->versions) {
        return TIDE_ENOMEM;
    }
    for (uint32_t i = 0; i < w->capacity; i++) {
        const struct tide__watch *watch = &w->places[i];
        if (!watch->nodes) {
            continue;
        }
        o->keys[o->key_count] = watch->key;
        o->counts[o->key_count++] = watch->count;
        for (uint16_t n = 0; n < watch->count; n++) {
            o->nodes[o->node_count] = watch->nodes[n].node;
            o->versions[o->node_count++] = watch->nodes[n].version;
        }
    }
    o->changed = tide__take_changed(c, slot, &o->changed_count);
    return o->changed ? 0 : TIDE_ENOMEM;
}

/* The rows have been sent. */
int tide__clocked_departed(struct tide_table *table, uint32_t slot, uint16_t to) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide__sync *sync = c ? c->sync : NULL;
    const uint16_t self = tide__store_self(table->store);
    if (!c) {
        return 0;
    }
    struct outgoing_watches o = {.keys = NULL};
    uint32_t nodes[1024], ticks[1024];
    uint64_t numbers[1024];
    size_t count = 0;
    for (struct tide__party *p = atomic_load(&sync->peers); p && count < TIDE_COUNT(nodes); p = p->next) {
        if (p->gone || (p->id == self && c->straight)) {
            continue;
        }
        const struct tide__tick_forward *forward = tide__tick_forward(c, slot, p->id, false);
        nodes[count] = p->id;
        ticks[count] = forward ? forward->tick : p->tick;
        numbers[count++] = tide__slot_applied(c, slot, p->id);
    }
    int code = gather_watches(c, slot, &o);
    code = code ? code
                : tide__sync_tell(sync, to,
                                  TIDE__AS(SLOT_CLOCKS, .table = table->id, .slot = slot, .version = c->version,
                                           .clock = c->announced[slot], .nodes = TIDE__LIST(nodes, count),
                                           .ticks = TIDE__LIST(ticks, count), .numbers = TIDE__LIST(numbers, count),
                                           .keys = TIDE__LIST(o.keys, o.key_count),
                                           .counts = TIDE__LIST(o.counts, o.key_count),
                                           .watchers = TIDE__LIST(o.nodes, o.node_count),
                                           .versions = TIDE__LIST(o.versions, o.node_count),
                                           .changed = TIDE__LIST(o.changed, o.changed_count)));
    tide_free(o.keys);
    tide_free(o.counts);
    tide_free(o.nodes);
    tide_free(o.versions);
    tide_free(o.changed);
    if (code) {
        return code;
    }
    tide__staged_depart(c, slot, to);
    tide__watches_clear(&c->watches[slot]);
    while (c->tick_forwards[slot]) {
        tide__tick_forward_end(c, slot, c->tick_forwards[slot]->at[0].node);
    }
    c->departed_count += c->departed[slot] == 0;
    c->departed[slot] = to;
    c->untold[slot] = true;
    c->untold_count++;
    departed_end(c, slot);
    return 0;
}

void tide__clocked_tell_moves(struct tide_store *store) {
    const uint16_t self = tide__store_self(store);
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__clocked *c = table ? tide__clocked_part(table) : NULL;
        uint32_t slots[TIDE_SLOT_COUNT], homes[TIDE_SLOT_COUNT], versions[TIDE_SLOT_COUNT];
        size_t found = 0;
        for (uint32_t s = 0; c && c->untold_count && s < TIDE_SLOT_COUNT; s++) {
            if (c->untold[s]) {
                c->untold[s] = false;
                c->untold_count--;
                slots[found] = s;
                homes[found] = tide__home_of(c, s);
                versions[found++] = table->slot_versions[s];
            }
        }
        if (found) { /* requests that waited here continue */
            tide__ask_again(c);
        }
        for (struct tide__party *p = found ? atomic_load(&c->sync->peers) : NULL; p; p = p->next) {
            if (!p->gone && p->id != self) {
                (void)tide__sync_tell(c->sync, p->id,
                                      TIDE__AS(MAP, .table = id, .slots = TIDE__LIST(slots, found),
                                               .homes = TIDE__LIST(homes, found),
                                               .versions = TIDE__LIST(versions, found)));
            }
        }
    }
}

/* ---- the new home ---- */

static void take_over_watches(struct tide__clocked *c, const struct tide__array *keys, const void *counts,
                              const void *nodes, const struct tide__array *versions) {
    size_t at = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const uint64_t key = tide__long_at(keys->at, i);
        for (uint32_t n = 0; n < tide__number_at(counts, i) && at < versions->count; n++, at++) {
            (void)tide__watch_add(c, key, (uint16_t)tide__number_at(nodes, at), tide__long_at(versions->at, at));
        }
    }
}

static bool keys_of_slot(const struct tide_table *table, const struct tide__array *keys, uint32_t slot) {
    bool good = true;
    for (size_t i = 0; good && i < keys->count; i++) {
        const uint64_t key = tide__long_at(keys->at, i);
        good = (table->options.keys == TIDE_KEYS_HASHED || key < table->options.key_count) &&
               tide__slot_of(table, key) == slot;
    }
    return good;
}

int tide__slot_clocks_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SLOT_CLOCKS) *m = &in->as.SLOT_CLOCKS;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    const uint32_t s = m->slot, clock = m->clock;
    if (!c || s >= TIDE_SLOT_COUNT || clock == TIDE_NO_CLOCK || m->ticks.count != m->nodes.count ||
        m->numbers.count != m->nodes.count || m->counts.count != m->keys.count ||
        m->versions.count != m->watchers.count || !(atomic_load(&c->table->slots[s].route) & TIDE__AWAITED) ||
        !keys_of_slot(c->table, &m->keys, s) || !keys_of_slot(c->table, &m->changed, s)) {
        return TIDE_EPROTO;
    }
    tide__user_add(c, 0);
    bool old_home_listed = false;
    c->version = c->version > m->version ? c->version : m->version;
    c->announced[s] = clock;
    c->announced_most = clock > c->announced_most ? clock : c->announced_most;
    c->pushed[s] = false; /* not that this node knew */
    for (size_t i = 0; i < m->nodes.count; i++) {
        const uint16_t node = (uint16_t)tide__number_at(m->nodes.at, i);
        old_home_listed = old_home_listed || node == in->from;
        if (!tide__declared(c, node, s)) {
            struct tide__tick_forward *forward = tide__tick_forward(c, s, node, true);
            forward->tick = tide__tick_forward_clock(c, node, tide__number_at(m->ticks.at, i), clock);
            forward->number = tide__long_at(m->numbers.at, i);
        }
    }
    if (!old_home_listed) {
        tide__declare(c, in->from, s, true);
    }
    struct tide__sync *sync = c->sync;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        if (!p->gone && !tide__declared(c, p->id, s) && !tide__tick_forward(c, s, p->id, false)) {
            tide__tick_forward(c, s, p->id, true)->tick = p->tick == TIDE_NO_CLOCK ? TIDE_NO_CLOCK : clock;
        }
    }
    c->departed_count -= c->departed[s] != 0;
    c->departed[s] = 0;
    take_over_watches(c, &m->keys, m->counts.at, m->watchers.at, &m->versions);
    for (size_t i = 0; i < m->changed.count; i++) {
        tide__mark_changed(c, tide__long_at(m->changed.at, i));
    }
    return 0;
}

/* A slot's rows are here: what waited for them. */
void tide__clocked_arrived(struct tide_table *table, uint32_t slot) {
    struct tide__clocked *c = tide__clocked_part(table);
    if (!c) {
        return;
    }
    no_cut(table);
    tide__user_add(c, 0); /* as far as the former home knew */
    struct tide__held *held = c->held;
    c->held = NULL;
    c->held_end = &c->held;
    while (held) {
        struct tide__held *next = held->next;
        const struct tide_message message = {.data = held->body, .size = (uint32_t)held->size};
        table->store->parked_bytes -= held->size;
        tide__cast_handle(table->store, &message, held->from);
        tide_free(held);
        held = next;
    }
    tide__clocked_routes_changed(table, slot, slot + 1);
    tide__slot_advance(c, slot);
}

bool tide__clocked_uses_old_homes(struct tide_table *table) {
    struct tide__clocked *c = tide__clocked_part(table);
    for (uint32_t s = 0; c && s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        if (tide__via(c, s) != tide__route_home(route)) {
            return true;
        }
    }
    return false;
}

/* What was in flight from a dead home is lost: fetch again. */
static void forget_row(void *arg, struct tide__copy_record *r, atomic_uint_fast64_t *word, uint64_t old) {
    (void)arg;
    r->valid = false;
    r->subscribed = false;
    r->asked = false;
    tide__word_unlock(word, old);
}

void tide__clock_move_member_gone(struct tide__clocked *c, uint16_t node) {
    const uint32_t path[1] = {tide__store_self(c->table->store)};
    c->used = c->used_by_all = true; /* ticks_changed follows */
    tide__staged_drop(c, node);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&c->table->slots[s].route, memory_order_relaxed);
        departed_end(c, s);
        if (tide__via(c, s) != node) {
            continue;
        }
        tide__copy_index_slot(c, s, forget_row, NULL);
        if (atomic_load_explicit(&c->shifting[s], memory_order_relaxed) &&
            tide__route_home(route) != node) { /* the fence went down with it */
            fence_send(c, TIDE__OP_FENCE, tide__route_home(route), path, 1, 0, &s, NULL, 1);
        }
    }
    tide__clocked_routes_changed(c->table, 0, TIDE_SLOT_COUNT);
}
