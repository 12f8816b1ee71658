/*
 * Clocks at a home. A node's TICK(c) comes behind every update of its workers with a stamp below c,
 * on the lane they came by, so the minimum over the nodes' ticks is the clock of a slot: its rows
 * hold every push of a smaller stamp. When it rises, rows that changed go to holders of copies,
 * FRESH follows them to every node, and parked requests are answered. A slot whose updates still
 * come by another way from some node has a forward for it (clock_move.c).
 */
#include "store/clocked/clock_move.h"

static uint32_t route_of(const struct tide__clocked *c, uint32_t slot) {
    return atomic_load_explicit(&c->table->slots[slot].route, memory_order_relaxed);
}

bool tide__slot_here(const struct tide__clocked *c, uint32_t slot) {
    return (route_of(c, slot) & TIDE__FOR_FOREIGN) == TIDE__MINE;
}

/* Slots of this node, a bit each. Their routes lie far apart, and every clock asks for all. */
static const uint64_t *slots_here(struct tide__clocked *c) {
    const uint64_t changes = atomic_load_explicit(&c->table->changes, memory_order_acquire);
    if (!c->here_known || c->here_changes != changes) {
        memset(c->here, 0, sizeof c->here);
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
            c->here[s / 64] |= (uint64_t)tide__slot_here(c, s) << (s % 64);
        }
        c->announced_least = 0;
        c->here_changes = changes;
        c->here_known = true;
    }
    return c->here;
}

uint16_t tide__home_of(const struct tide__clocked *c, uint32_t slot) {
    uint32_t route = route_of(c, slot);
    return route & TIDE__MINE ? 0 : tide__route_home(route);
}

/* ---- the clock of a slot ---- */

/* TIDE_NO_CLOCK: no worker. */
static uint32_t least_of_parties(struct tide__clocked *c, uint32_t slot) {
    struct tide__sync *sync = c->sync;
    uint32_t least = TIDE_NO_CLOCK;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        const struct tide__tick_forward *forward =
            slot < TIDE_SLOT_COUNT ? tide__tick_forward(c, slot, p->id, false) : NULL;
        uint32_t tick = forward && !TIDE_MUTANT(tick_before_route) ? forward->tick : p->tick;
        least = !p->gone && tick < least ? tick : least;
    }
    return least;
}

static uint32_t least_tick(struct tide__clocked *c, uint32_t slot) {
    uint32_t least = least_of_parties(c, slot);
    return least == TIDE_NO_CLOCK ? atomic_load(&c->sync->closed) : least;
}

static bool settled(struct tide__clocked *c, uint32_t clock) {
    bool all = !tide__undeclared(c) && !c->held && !tide__staged_below(c, clock) &&
               least_of_parties(c, TIDE_SLOT_COUNT) >= clock;
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && all && c->forwarded; s++) {
        all = !c->tick_forwards[s] || least_of_parties(c, s) >= clock;
    }
    return all;
}

bool tide__clocked_settled(struct tide__run *domain, uint32_t clock) {
    const struct tide__sync *sync = tide__sync_of(domain);
    unsigned place = 0;
    struct tide__clocked *c = sync ? tide__clocked_next(sync, &place) : NULL;
    while (c && settled(c, clock)) {
        c = tide__clocked_next(sync, &place);
    }
    return !c;
}

uint32_t tide__slot_clock(struct tide__clocked *c, uint32_t slot) {
    return tide__undeclared(c) ? 0 : least_tick(c, slot);
}

uint64_t tide__slot_applied(struct tide__clocked *c, uint32_t slot, uint16_t node) {
    const struct tide__tick_forward *forward = tide__tick_forward(c, slot, node, false);
    const struct tide__party *peer = tide__party(c->sync, node);
    return forward ? forward->number : peer ? peer->applied : 0;
}

/* ---- FRESH ---- */

/* `pushed`: what changed until then went to all holders of copies. */
static void fresh_to(struct tide__clocked *c, uint16_t node, uint32_t clock, uint32_t any, bool pushed,
                     const uint64_t slots[TIDE_SLOT_COUNT / 64]) {
    (void)tide__sync_tell(c->sync, node,
                          TIDE__AS(FRESH, .table = c->table->id, .clock = clock,
                                   .applied = tide__slot_applied(c, any, node), .pushed = pushed,
                                   .slots = TIDE__LIST(slots, TIDE_SLOT_COUNT / 8)));
}

static void fresh_send(struct tide__clocked *c, uint32_t clock, uint32_t any, bool pushed,
                       const uint64_t slots[TIDE_SLOT_COUNT / 64]) {
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(c->table->store);
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        if (!p->gone && p->id != self && tide__is_user(c, p->id)) {
            fresh_to(c, p->id, clock, any, pushed, slots);
        }
    }
}

void tide__fresh_tell(struct tide__clocked *c, uint16_t node, const uint8_t *slots, size_t count) {
    bool told[TIDE_SLOT_COUNT] = {false};
    for (size_t i = 0; i < count && node != tide__store_self(c->table->store); i++) {
        const uint32_t first = tide__number_at(slots, i), clock = c->announced[first];
        uint64_t same[TIDE_SLOT_COUNT / 64] = {0};
        if (told[first] || clock == 0 || !tide__slot_here(c, first)) {
            continue;
        }
        for (size_t k = i; k < count; k++) {
            const uint32_t s = tide__number_at(slots, k);
            if (c->announced[s] == clock && c->pushed[s] == c->pushed[first] && tide__slot_here(c, s)) {
                told[s] = true;
                same[s / 64] |= UINT64_C(1) << (s % 64);
            }
        }
        fresh_to(c, node, clock, first, c->pushed[first], same);
    }
}

static bool has(const uint8_t *slots, uint32_t slot) {
    return slots[slot / 8] >> (slot % 8) & 1;
}

int tide__fresh_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.FRESH) *m = &in->as.FRESH;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    const uint8_t *slots = m->slots.at;
    if (!c || m->slots.count != TIDE_SLOT_COUNT / 8) {
        return TIDE_EPROTO;
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        if (!slots[s / 8]) {
            s |= 7; /* none of these eight */
            continue;
        }
        if (has(slots, s) && tide__via(c, s) == in->from) {
            if (atomic_load_explicit(&c->confirmed[s], memory_order_relaxed) < m->applied) {
                atomic_store_explicit(&c->confirmed[s], m->applied, memory_order_relaxed);
            }
            /* first: a reader that finds `floor` higher than this asks */
            if (m->pushed || TIDE_MUTANT(fresh_of_fetched)) {
                tide__floor_raise(&c->pushed_floor[s], m->clock);
            }
            tide__floor_raise(&c->floor[s], m->clock);
        }
    }
    tide__table_floor_update(c);
    tide__sync_wake(c->sync);
    return 0;
}

/* ---- clocks rise ---- */

static bool none_above(const uint32_t announced[TIDE_SLOT_COUNT], uint32_t most) {
    uint32_t s = 0;
    while (s < TIDE_SLOT_COUNT && announced[s] <= most) {
        s++;
    }
    return s == TIDE_SLOT_COUNT;
}

static void announce(struct tide__clocked *c, uint32_t clock, uint32_t slot, uint64_t slots[TIDE_SLOT_COUNT / 64]) {
    struct tide__sync *sync = c->sync;
    const uint16_t self = tide__store_self(c->table->store);
    const bool pushes = tide__is_eager(c);
    if (TIDE_MUTANT(fresh_before_values)) {
        fresh_send(c, clock, slot, pushes, slots);
    }
    if (pushes) {
        tide__changed_send(c, slot);
    }
    for (uint32_t w = 0; w < TIDE_SLOT_COUNT / 64; w++) {
        for (uint64_t left = slots[w]; left; left &= left - 1) {
            const uint32_t s = w * 64 + (uint32_t)__builtin_ctzll(left);
            c->announced[s] = clock > c->announced[s] ? clock : c->announced[s];
            c->pushed[s] = pushes;
            if (tide__via(c, s) == self) {
                tide__floor_raise(&c->floor[s], clock);
            }
        }
    }
    c->announced_most = clock > c->announced_most ? clock : c->announced_most;
    TIDE_INVARIANT(none_above(c->announced, c->announced_most));
    sync->announced = clock > sync->announced ? clock : sync->announced;
    if (!TIDE_MUTANT(fresh_before_values)) {
        fresh_send(c, clock, slot, pushes, slots);
    }
}

static bool announce_one(struct tide__clocked *c, uint32_t slot) {
    const uint32_t clock = tide__slot_here(c, slot) ? least_tick(c, slot) : 0;
    if (clock <= c->announced[slot]) {
        return false;
    }
    uint64_t one[TIDE_SLOT_COUNT / 64] = {0};
    one[slot / 64] = UINT64_C(1) << (slot % 64);
    announce(c, clock, slot, one);
    return true;
}

void tide__slot_advance(struct tide__clocked *c, uint32_t slot) {
    if (!tide__undeclared(c)) {
        if (c->model == TIDE_BSP) {
            tide__staged_commit(c);
        }
        (void)announce_one(c, slot);
    }
    tide__ask_again(c); /* also for requests while the rows were in flight */
}

/* Of the slots `of`, those here that go by their own clock and whose clock has risen. False: none. */
static bool find_risen(struct tide__clocked *c, uint32_t clock, const uint64_t of[TIDE_SLOT_COUNT / 64],
                       uint64_t risen[TIDE_SLOT_COUNT / 64]) {
    const uint64_t *here = slots_here(c);
    uint64_t any = 0;
    if (clock <= c->announced_least) {
        return false;
    }
    const bool all = clock > c->announced_most && !c->forwarded; /* as mostly */
    for (uint32_t w = 0; w < TIDE_SLOT_COUNT / 64; w++) {
        risen[w] = all ? here[w] & of[w] : 0;
        for (uint64_t left = all ? 0 : here[w] & of[w]; left; left &= left - 1) {
            const uint32_t s = w * 64 + (uint32_t)__builtin_ctzll(left);
            const bool forwarded = c->tick_forwards[s];
            risen[w] |= (uint64_t)(c->announced[s] < clock && !forwarded) << (s % 64);
        }
        any |= risen[w];
    }
    return any != 0;
}

/* `slots`: count of them; NULL: all. */
static void advance(struct tide__clocked *c, const uint8_t *slots, size_t count) {
    if (tide__undeclared(c)) {
        return;
    }
    const uint32_t clock = least_tick(c, TIDE_SLOT_COUNT);
    if (!c->used && !c->vap) { /* a new worker begins as if it had been notified */
        struct tide__sync *sync = c->sync;
        sync->announced = clock > sync->announced ? clock : sync->announced;
        return;
    }
    if (c->model == TIDE_BSP) {
        tide__staged_commit(c);
    }
    uint64_t risen[TIDE_SLOT_COUNT / 64], of[TIDE_SLOT_COUNT / 64];
    memset(of, slots ? 0 : 0xff, sizeof of);
    for (uint32_t i = 0; i < count && slots; i++) {
        const uint32_t s = tide__number_at(slots, i);
        of[s / 64] |= UINT64_C(1) << (s % 64);
    }
    bool any = find_risen(c, clock, of, risen);
    if (any) {
        announce(c, clock, TIDE_SLOT_COUNT, risen);
        if (!slots && !c->forwarded) {
            c->announced_least = clock;
        }
    }
    for (uint32_t i = 0; i < count && c->forwarded; i++) {
        const uint32_t s = slots ? tide__number_at(slots, i) : i;
        any |= c->tick_forwards[s] && announce_one(c, s);
    }
    if (any) {
        tide__ask_again(c);
        tide__table_floor_update(c);
    }
}

/* Ticks or members changed: clocks rise, and their waiters are served. */
static void clocks_advance(struct tide__clocked *c) {
    advance(c, NULL, TIDE_SLOT_COUNT);
}

void tide__user_add(struct tide__clocked *c, uint16_t node) {
    const bool rested = !c->used;
    c->used = true;
    c->used_by_all |= node == 0;
    c->users[node / 8] = (uint8_t)(c->users[node / 8] | 1U << (node % 8));
    if (rested) {
        clocks_advance(c);
        tide__sync_wake(c->sync);
    }
}

void tide__slots_advance(struct tide__clocked *c, const uint8_t *slots, size_t count) {
    advance(c, slots, count);
    tide__sync_wake(c->sync);
}

void tide__known_update(struct tide__sync *sync) {
    uint32_t known = TIDE_NO_CLOCK;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        known = !p->gone && p->tick < known ? p->tick : known;
    }
    atomic_store_explicit(&sync->known, known, memory_order_release); /* pairs with clock_may_end */
}

void tide__ticks_changed(struct tide__sync *sync) {
    tide__known_update(sync);
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        clocks_advance(c);
    }
    tide__sync_wake(sync);
}

int tide__tick_message(struct tide_store *store, struct tide__incoming *in) {
    const uint32_t clock = in->as.TICK.clock, highest = in->as.TICK.highest;
    struct tide__sync *sync = tide__clocks_of(store, in, in->as.TICK.domain);
    if (!sync) {
        return 0;
    }
    struct tide__party *peer = tide__party(sync, in->from);
    peer->tick = clock;
    peer->joins = false;
    if (atomic_load(&sync->closed) < highest) {
        atomic_store(&sync->closed, highest);
    }
    unsigned place = 0;
    for (struct tide__clocked *c = tide__clocked_next(sync, &place); c; c = tide__clocked_next(sync, &place)) {
        if (c->departed_count) {
            tide__tick_pass_on(c, in->from, clock);
        }
    }
    tide__ticks_changed(sync);
    return 0;
}

/* ---- ASK ---- */

static void park(struct tide__clocked *c, uint16_t node, uint32_t need, const uint64_t *keys, size_t count) {
    struct tide__asked *a = tide_alloc_vital(sizeof *a + count * sizeof *keys);
    *a = (struct tide__asked){.next = c->asked, .node = node, .need = need, .count = (uint32_t)count};
    memcpy(a->keys, keys, count * sizeof *keys);
    c->asked = a;
}

static void pass_on(struct tide__clocked *c, uint16_t to, uint16_t origin, uint32_t need, const uint64_t *keys,
                    size_t count) {
    (void)tide__sync_tell(
        c->sync, to,
        TIDE__AS(ASK, .table = c->table->id, .origin = origin, .need = need, .keys = TIDE__LIST(keys, count)));
}

/* What becomes of a key: -1 - home elsewhere (0: in flight), 0: parked, else 1 + clock it has. */
static int64_t verdict(const struct tide__clocked *c, uint64_t key, uint32_t need) {
    const uint32_t slot = tide__slot_of(c->table, key);
    if (!tide__slot_here(c, slot)) {
        return -1 - (int64_t)tide__home_of(c, slot);
    }
    bool enough = c->announced[slot] >= need;
    return enough ? 1 + (int64_t)c->announced[slot] : 0;
}

static void ask_serve(struct tide__clocked *c, uint16_t node, uint32_t need, uint64_t *keys, size_t count) {
    uint64_t *part = tide_alloc_vital((count + 1) * sizeof *part); /* no more than the message */
    while (count) {
        const int64_t what = verdict(c, keys[0], need);
        const uint32_t slot = tide__slot_of(c->table, keys[0]);
        const uint64_t applied = tide__slot_applied(c, slot, node);
        size_t in_part = 0, kept = 0;
        for (size_t i = 0; i < count; i++) {
            const uint32_t of = tide__slot_of(c->table, keys[i]);
            bool same = verdict(c, keys[i], need) == what && (what <= 0 || tide__slot_applied(c, of, node) == applied);
            if (same) {
                part[in_part++] = keys[i];
            } else {
                keys[kept++] = keys[i];
            }
        }
        count = kept;
        if (what > 0) {
            tide__values_send(c, node, (uint32_t)(what - 1), applied, part, in_part, true);
            tide__table_count(c->table, TIDE__SERVED_PULLS, in_part);
        } else if (what >= -1) { /* later: its clock rises, or its rows come */
            park(c, node, need, part, in_part);
        } else {
            pass_on(c, (uint16_t)(-what - 1), node, need, part, in_part);
        }
    }
    tide_free(part);
}

void tide__ask_again(struct tide__clocked *c) {
    struct tide__asked *a = c->asked;
    c->asked = NULL;
    while (a) {
        struct tide__asked *next = a->next;
        ask_serve(c, a->node, a->need, a->keys, a->count);
        tide_free(a);
        a = next;
    }
}

int tide__ask_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ASK) *m = &in->as.ASK;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    const size_t count = m->keys.count;
    bool good = c && m->origin && m->need <= INT32_MAX;
    for (size_t i = 0; good && c->table->options.keys == TIDE_KEYS_DENSE && i < count; i++) {
        good = tide__long_at(m->keys.at, i) < c->table->options.key_count;
    }
    uint64_t *keys = good ? tide_alloc((count + 1) * sizeof *keys) : NULL;
    for (size_t i = 0; keys && i < count; i++) {
        keys[i] = tide__long_at(m->keys.at, i);
    }
    if (keys) { /* else there is no memory */
        tide__table_count(c->table, TIDE__BYTES_IN, in->message->size);
        tide__user_add(c, m->origin);
        ask_serve(c, m->origin, m->need, keys, count);
    }
    tide_free(keys);
    return good ? 0 : TIDE_EPROTO;
}
