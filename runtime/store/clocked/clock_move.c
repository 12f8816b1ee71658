/*
 * Slots of tables with clocks that change their home.
 *
 * A node n goes on sending what concerns slot g to the old home H1, which passes it on to the new
 * one, H2, in order: DELTAs, requests, and n's ticks for g. Once n knows of the move it holds its
 * updates of g back and sends FENCE by the old way; H2's answer, FENCED, comes back by the same
 * way. Then everything n sent to H1 is applied at H2, and everything H1 sent to n has come. n sends
 * what accumulated straight to H2, then ROUTE(g): from there on its own ticks count for g at H2.
 * Until then they do not: H2 has a forward for (g, n) with n's clock as it came by H1. What H2 told of
 * clocks meanwhile, n did not take, for rows of H1 might still come: behind ROUTE H2 tells it again.
 *
 * Which slots n sends straight to a home is declared to it: by ROUTE for all of them when the table
 * is made, so that a home knows of nobody less than of those it must wait for.
 */
#include "store/clocked/clock_move.h"

#include "store/rows/cut.h"
#include "store/clocked/vap.h"

/* ---- FENCE ---- */

static void fence_send(struct tide__clocked *c, int op, uint16_t to, const uint32_t *path, size_t hops, uint16_t home,
                       const uint32_t *slots, const uint64_t *numbers, size_t count) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 6);
    tide_write_uint(&w, (uint64_t)op);
    tide_write_uint(&w, c->table->id);
    tide_write_typed(&w, TIDE_U32, path, hops);
    tide_write_uint(&w, home);
    tide_write_typed(&w, TIDE_U32, slots, count);
    tide_write_typed(&w, TIDE_U64, numbers, numbers ? count : 0);
    if (op == TIDE__OP_FENCE && hops == 1) { /* our own: behind what our workers sent */
        (void)tide__sync_send_in_line(c->sync, to, &w, NULL);
    } else {
        (void)tide__sync_send(c->sync, to, &w);
    }
}

enum { HOPS_MAX = 16 };

/* Slots from..end - 1 whose home is not where this node sends them: FENCE for them. */
void tide__clocked_routes_changed(struct tide_table *table, uint32_t from, uint32_t end) {
    struct tide__clocked *c = table->clocked;
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
        tide__flush_lock(sync); /* nobody is packing updates of these slots now */
        for (size_t i = 0; i < count; i++) {
            atomic_store_explicit(&c->shifting[slots[i]], 1, memory_order_release);
        }
        uint32_t route = atomic_load_explicit(&table->slots[first].route, memory_order_relaxed);
        fence_send(c, TIDE__OP_FENCE, tide__party_lost(sync, via) ? tide__route_home(route) : via, path, 1, 0, slots,
                   NULL, count);
        tide__flush_unlock(sync); /* before any tick of a clock whose updates are held back */
    }
}

static bool read_fence(struct tide_reader *r, uint32_t *path, size_t *hops, uint64_t *home, const uint8_t **slots,
                       const uint8_t **numbers, size_t *count) {
    size_t numbers_count = 0;
    const uint8_t *steps = tide_read_typed(r, TIDE_U32, hops);
    *home = tide_read_uint(r);
    *slots = tide__read_slots(r, count);
    *numbers = tide_read_typed(r, TIDE_U64, &numbers_count);
    /* a question has no home and no numbers, an answer both */
    if (r->error || *hops >= HOPS_MAX || *home > UINT16_MAX || numbers_count != (*home ? *count : 0)) {
        r->error = TIDE_EPROTO;
        return false;
    }
    for (size_t i = 0; i < *hops; i++) {
        path[i] = tide__number_at(steps, i);
        if (path[i] == 0 || path[i] > UINT16_MAX) {
            r->error = TIDE_EPROTO;
            return false;
        }
    }
    return true;
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

static void on_fence(struct tide__clocked *c, uint16_t from, struct tide_reader *r) {
    uint32_t path[HOPS_MAX];
    uint64_t home;
    size_t hops = 0, count = 0;
    const uint8_t *slots, *numbers;
    if (!read_fence(r, path, &hops, &home, &slots, &numbers, &count) || hops == 0) {
        return;
    }
    const uint16_t origin = (uint16_t)path[0];
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = tide__number_at(slots, i);
        if (tide__slot_here(c, slot)) {
            uint64_t number = tide__slot_applied(c, slot, origin);
            fence_send(c, TIDE__OP_FENCED, (uint16_t)path[hops - 1], path, hops - 1, tide__store_self(c->table->store),
                       &slot, &number, 1);
            continue;
        }
        const uint16_t to = tide__home_of(c, slot);
        path[hops] = tide__store_self(c->table->store);
        if (to == 0) { /* its rows are coming; the answer waits for them */
            struct tide_writer w;
            tide_writer_init(&w, NULL, 0);
            tide_write_array(&w, 6);
            tide_write_uint(&w, TIDE__OP_FENCE);
            tide_write_uint(&w, c->table->id);
            tide_write_typed(&w, TIDE_U32, path, hops);
            tide_write_uint(&w, 0);
            tide_write_typed(&w, TIDE_U32, &slot, 1);
            tide_write_typed(&w, TIDE_U64, NULL, 0);
            (void)(w.error ? w.error : tide__hold(c, from, w.data, w.size));
            tide_writer_release(&w);
            continue;
        }
        fence_send(c, TIDE__OP_FENCE, to, path, hops + 1, 0, &slot, NULL, 1);
        if (from == origin) { /* nothing more of it comes this way */
            tide__declare(c, origin, slot, false);
            departed_end(c, slot);
        }
    }
}

/* The generation that is being written, if there is one, fails: a slot changes its home, and
 * updates that come by another way are told apart no more, or come after the walk. */
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
    r->asked = false; /* whoever waits asks the new home: the old one may have ended with the request */
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

static void on_fenced(struct tide__clocked *c, struct tide_reader *r) {
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(c->table->store);
    uint32_t path[HOPS_MAX], mine[TIDE_SLOT_COUNT];
    uint64_t home;
    size_t hops = 0, count = 0;
    const uint8_t *slots, *numbers;
    if (!read_fence(r, path, &hops, &home, &slots, &numbers, &count) || home == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        mine[i] = tide__number_at(slots, i);
    }
    if (hops) {
        uint64_t passed_on[TIDE_SLOT_COUNT];
        memcpy(passed_on, numbers, count * sizeof passed_on[0]);
        fence_send(c, TIDE__OP_FENCED, (uint16_t)path[hops - 1], path, hops - 1, (uint16_t)home, mine, passed_on,
                   count);
        return;
    }
    tide__flush_lock(sync);
    for (size_t i = 0; i < count; i++) {
        struct fenced fenced = {.c = c};
        memcpy(&fenced.number, numbers + i * 8, sizeof fenced.number);
        /* release: a worker that sees the new way sees `shifting` too, while copies are folded */
        atomic_store_explicit(&c->via[mine[i]], (unsigned short)home, memory_order_release);
        tide__copy_index_slot(c, mine[i], home == self ? fold : resend, &fenced);
        if (home == self) {
            tide__floor_raise(&c->floor[mine[i]], c->announced[mine[i]]);
        }
        /* pairs with home_lock of worker.c */
        atomic_store_explicit(&c->shifting[mine[i]], 0, memory_order_release);
    }
    tide__flush_table(c);
    tide__route_send(c, (uint16_t)home, false, mine, count);
    tide__vap_retrace(c, (uint16_t)home, mine, count);
    tide__flush_unlock(sync);
    tide__table_floor_update(c);
    tide__sync_wake(sync);
    for (size_t i = 0; i < count; i++) { /* they may have moved on */
        tide__clocked_routes_changed(c->table, mine[i], mine[i] + 1);
    }
}

/* ---- the old home ---- */

void tide__clocked_departs(struct tide_table *table, uint32_t slot, uint16_t to) {
    struct tide__clocked *c = table->clocked;
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
    struct tide__clocked *c = table->clocked;
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
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 13);
    tide_write_uint(&w, TIDE__OP_SLOT_CLOCKS);
    tide_write_uint(&w, table->id);
    tide_write_uint(&w, slot);
    tide_write_uint(&w, c->version);
    tide_write_uint(&w, c->announced[slot]);
    tide_write_typed(&w, TIDE_U32, nodes, count);
    tide_write_typed(&w, TIDE_U32, ticks, count);
    tide_write_typed(&w, TIDE_U64, numbers, count);
    tide_write_typed(&w, TIDE_U64, o.keys, o.key_count);
    tide_write_typed(&w, TIDE_U32, o.counts, o.key_count);
    tide_write_typed(&w, TIDE_U32, o.nodes, o.node_count);
    tide_write_typed(&w, TIDE_U64, o.versions, o.node_count);
    tide_write_typed(&w, TIDE_U64, o.changed, o.changed_count);
    if (code) {
        tide_writer_release(&w);
    } else {
        code = tide__sync_send(sync, to, &w);
    }
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
        struct tide__clocked *c = table ? table->clocked : NULL;
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
        if (found) { /* requests that waited here go on */
            tide__ask_again(c);
        }
        for (struct tide__party *p = found ? atomic_load(&c->sync->peers) : NULL; p; p = p->next) {
            struct tide_writer w;
            tide_writer_init(&w, NULL, 0);
            tide_write_array(&w, 8);
            tide_write_uint(&w, TIDE__OP_MAP);
            tide_write_uint(&w, id);
            tide_write_uint(&w, 0);
            tide_write_uint(&w, 0);
            tide_write_uint(&w, 0);
            tide_write_typed(&w, TIDE_U32, slots, found);
            tide_write_typed(&w, TIDE_U32, homes, found);
            tide_write_typed(&w, TIDE_U32, versions, found);
            if (p->gone || p->id == self) {
                tide_writer_release(&w);
            } else {
                (void)tide__sync_send(c->sync, p->id, &w);
            }
        }
    }
}

/* ---- the new home ---- */

static void take_over_changed(struct tide__clocked *c, const uint8_t *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        memcpy(&key, keys + i * 8, 8);
        tide__mark_changed(c, key);
    }
}

static void take_over_watches(struct tide__clocked *c, const uint8_t *keys, const uint8_t *counts, size_t key_count,
                              const uint8_t *nodes, const uint8_t *versions, size_t node_count) {
    size_t at = 0;
    for (size_t i = 0; i < key_count; i++) {
        uint64_t key;
        memcpy(&key, keys + i * 8, 8);
        for (uint32_t n = 0; n < tide__number_at(counts, i) && at < node_count; n++, at++) {
            uint64_t version;
            memcpy(&version, versions + at * 8, 8);
            (void)tide__watch_add(c, key, (uint16_t)tide__number_at(nodes, at), version);
        }
    }
}

/* [slot, version, clock, nodes, ticks, numbers, keys, counts, watchers, versions, changed] */
static void on_slot_clocks(struct tide__clocked *c, uint16_t from, struct tide_reader *r) {
    size_t count = 0, ticks_count = 0, numbers_count = 0, keys_count = 0, counts_count = 0, watchers_count = 0,
           versions_count = 0, changed_count = 0;
    uint64_t slot = tide_read_uint(r), version = tide_read_uint(r), clock = tide_read_uint(r);
    const uint8_t *nodes = tide_read_typed(r, TIDE_U32, &count);
    const uint8_t *ticks = tide_read_typed(r, TIDE_U32, &ticks_count);
    const uint8_t *numbers = tide_read_typed(r, TIDE_U64, &numbers_count);
    const uint8_t *keys = tide_read_typed(r, TIDE_U64, &keys_count);
    const uint8_t *counts = tide_read_typed(r, TIDE_U32, &counts_count);
    const uint8_t *watchers = tide_read_typed(r, TIDE_U32, &watchers_count);
    const uint8_t *versions = tide_read_typed(r, TIDE_U64, &versions_count);
    const uint8_t *changed = tide_read_typed(r, TIDE_U64, &changed_count);
    bool good = !r->error && slot < TIDE_SLOT_COUNT && clock < TIDE_NO_CLOCK && ticks_count == count &&
                numbers_count == count && counts_count == keys_count && versions_count == watchers_count &&
                (atomic_load(&c->table->slots[slot].route) & TIDE__AWAITED);
    for (size_t i = 0; good && i < keys_count + changed_count; i++) {
        uint64_t key;
        memcpy(&key, i < keys_count ? keys + i * 8 : changed + (i - keys_count) * 8, 8);
        good = (c->table->options.keys == TIDE_KEYS_HASHED || key < c->table->options.key_count) &&
               tide__slot_of(c->table, key) == slot;
    }
    if (!good) {
        r->error = TIDE_EPROTO;
        return;
    }
    const uint32_t s = (uint32_t)slot;
    bool old_home_listed = false;
    c->version = c->version > version ? c->version : version;
    c->announced[s] = (uint32_t)clock;
    c->announced_most = clock > c->announced_most ? (uint32_t)clock : c->announced_most;
    c->pushed[s] = false; /* not that this node knew */
    for (size_t i = 0; i < count; i++) {
        const uint16_t node = (uint16_t)tide__number_at(nodes, i);
        old_home_listed = old_home_listed || node == from;
        if (!tide__declared(c, node, s)) {
            struct tide__tick_forward *forward = tide__tick_forward(c, s, node, true);
            forward->tick = tide__tick_forward_clock(c, node, tide__number_at(ticks, i), (uint32_t)clock);
            memcpy(&forward->number, numbers + i * 8, 8);
        }
    }
    if (!old_home_listed) {
        tide__declare(c, from, s, true);
    }
    struct tide__sync *sync = c->sync;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        if (!p->gone && !tide__declared(c, p->id, s) && !tide__tick_forward(c, s, p->id, false)) {
            tide__tick_forward(c, s, p->id, true)->tick = p->tick == TIDE_NO_CLOCK ? TIDE_NO_CLOCK : (uint32_t)clock;
        }
    }
    c->departed_count -= c->departed[s] != 0;
    c->departed[s] = 0;
    take_over_watches(c, keys, counts, keys_count, watchers, versions, watchers_count);
    take_over_changed(c, changed, changed_count);
}

/* A slot's rows are here: what waited for them. */
void tide__clocked_arrived(struct tide_table *table, uint32_t slot) {
    struct tide__clocked *c = table->clocked;
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
        struct tide__incoming in = {.message = &message, .from = held->from};
        tide_reader_init(&in.body, held->body, held->size);
        in.fields = tide_read_array(&in.body);
        in.op = (uint16_t)tide_read_uint(&in.body);
        table->store->parked_bytes -= held->size;
        (void)tide__clocked_message(table->store, &in); /* it was whole when it came */
        tide_free(held);
        held = next;
    }
    tide__clocked_routes_changed(table, slot, slot + 1);
    tide__slot_advance(c, slot);
}

/* ---- events ---- */

void tide__clock_move_message(struct tide__clocked *c, uint16_t from, int op, struct tide_reader *r) {
    if (op != TIDE__OP_ROUTE) { /* which also tells of a table that is new */
        tide__user_add(c, 0);
    }
    switch (op) {
    case TIDE__OP_ROUTE:
        tide__route_message(c, from, r);
        break;
    case TIDE__OP_FENCE:
        on_fence(c, from, r);
        break;
    case TIDE__OP_FENCED:
        on_fenced(c, r);
        break;
    case TIDE__OP_SLOT_CLOCKS:
        on_slot_clocks(c, from, r);
        break;
    default:
        r->error = TIDE_EPROTO;
    }
}

bool tide__clocked_moves_go_on(struct tide_table *table) {
    struct tide__clocked *c = table->clocked;
    for (uint32_t s = 0; c && s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        if (tide__via(c, s) != tide__route_home(route)) {
            return true;
        }
    }
    return false;
}

/* What was on its way from a dead home is lost: fetch anew. */
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
