/*
 * By which way nodes send what concerns the slots of a home (see clock_move.c for the whole): what they
 * declared (ROUTE), and tick_forwards, for those whose updates still come by an old home.
 */
#include "store/clocked/clock_move.h"

/* ---- tick_forwards and declarations ---- */

struct tide__tick_forward *tide__tick_forward(struct tide__clocked *c, uint32_t slot, uint16_t node, bool create) {
    struct tide__tick_forwards *d = slot < TIDE_SLOT_COUNT ? c->tick_forwards[slot] : NULL;
    for (uint32_t i = 0; d && i < d->count; i++) {
        if (d->at[i].node == node) {
            return &d->at[i];
        }
    }
    if (!create) {
        return NULL;
    }
    const uint32_t count = d ? d->count : 0;
    /* Sixteen bytes; without it a clock would lie. */
    struct tide__tick_forwards *grown = tide_realloc_vital(d, sizeof *d + (count + 1) * sizeof d->at[0]);
    c->forwarded += count == 0;
    grown->count = count + 1;
    grown->at[count] = (struct tide__tick_forward){.node = node};
    c->tick_forwards[slot] = grown;
    return &grown->at[count];
}

void tide__tick_forward_end(struct tide__clocked *c, uint32_t slot, uint16_t node) {
    struct tide__tick_forwards *d = c->tick_forwards[slot];
    for (uint32_t i = 0; d && i < d->count; i++) {
        if (d->at[i].node == node) {
            d->at[i] = d->at[--d->count];
            break;
        }
    }
    if (d && d->count == 0) {
        tide_free(d);
        c->tick_forwards[slot] = NULL;
        c->forwarded--;
    }
}

uint32_t tide__tick_forward_clock(struct tide__clocked *c, uint16_t node, uint32_t told, uint32_t announced) {
    const struct tide__party *party = tide__party(c->sync, node);
    const bool works = party && party->tick != TIDE_NO_CLOCK && !TIDE_MUTANT(joiner_by_old_home);
    return told == TIDE_NO_CLOCK && works ? announced : told;
}

static struct tide__declared *declared_of(struct tide__clocked *c, uint16_t node) {
    struct tide__declared *d = c->declared;
    while (d && d->node != node) {
        d = d->next;
    }
    return d;
}

bool tide__declared(struct tide__clocked *c, uint16_t node, uint32_t slot) {
    const struct tide__declared *d = declared_of(c, node);
    return d && (d->slots[slot / 64] >> (slot % 64) & 1);
}

bool tide__undeclared(struct tide__clocked *c) {
    struct tide__sync *sync = c->sync;
    for (struct tide__party *p = atomic_load(&sync->peers); p; p = p->next) {
        if (!p->gone && !declared_of(c, p->id)) {
            return true;
        }
    }
    return false;
}

void tide__declare(struct tide__clocked *c, uint16_t node, uint32_t slot, bool straight) {
    struct tide__declared *d = declared_of(c, node);
    if (!d) {
        /* Half a kilobyte a node and table; without it a clock would lie. */
        d = tide_alloc_vital(sizeof *d);
        d->node = node;
        d->next = c->declared;
        c->declared = d;
    }
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    d->slots[slot / 64] = straight ? d->slots[slot / 64] | bit : d->slots[slot / 64] & ~bit;
}

/* Flush lock held: behind every update that was sent. */
void tide__route_send(struct tide__clocked *c, uint16_t to, bool answer, const uint32_t *slots, size_t count) {
    (void)tide__sync_tell_in_line(c->sync, to,
                                  TIDE__AS(ROUTE, .table = c->table->id, .clock = c->sync->ticked,
                                           .number = c->sync->number, .answer = answer,
                                           .slots = TIDE__LIST(slots, count)));
}

void tide__declare_to(struct tide__clocked *c, uint16_t to, bool answer) {
    struct tide__sync *sync = c->sync;
    uint32_t slots[TIDE_SLOT_COUNT];
    size_t count = 0;
    tide__flush_lock(sync);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        if (tide__via(c, s) == to && !atomic_load_explicit(&c->shifting[s], memory_order_relaxed)) {
            slots[count++] = s;
        }
    }
    tide__route_send(c, to, answer, slots, count);
    tide__flush_unlock(sync);
}

void tide__clocked_ready(struct tide_table *table) {
    struct tide__clocked *c = tide__clocked_part(table);
    struct tide__sync *sync = c ? c->sync : NULL;
    for (struct tide__party *p = c ? atomic_load(&sync->peers) : NULL; p; p = p->next) {
        if (!p->gone) {
            tide__declare_to(c, p->id, true);
        }
    }
}

/* ---- ROUTE ---- */

int tide__route_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ROUTE) *m = &in->as.ROUTE;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c || !tide__are_slots(&m->slots)) {
        return TIDE_EPROTO;
    }
    const uint16_t from = in->from;
    const uint8_t *slots = m->slots.at;
    const size_t count = m->slots.count;
    uint32_t clock = m->clock;
    const bool first = !declared_of(c, from);
    struct tide__party *party = tide__party(c->sync, from);
    if (party->joins && !TIDE_MUTANT(joiner_forgotten)) { /* said before its first tick */
        clock = party->tick;
    }
    const bool risen = party->tick != clock;
    party->tick = clock;
    /* What it sent here came before; what it sent by another way was applied, or is sent again. */
    party->applied = party->applied > m->number ? party->applied : m->number;
    tide__declare(c, from, 0, tide__declared(c, from, 0));
    for (size_t i = 0; i < count; i++) {
        tide__declare(c, from, tide__number_at(slots, i), true);
        tide__tick_forward_end(c, tide__number_at(slots, i), from);
    }
    for (uint32_t s = 0; first && s < TIDE_SLOT_COUNT; s++) { /* by a home of before */
        if (tide__slot_here(c, s) && !tide__declared(c, from, s) && !tide__tick_forward(c, s, from, false)) {
            tide__tick_forward(c, s, from, true)->tick = clock == TIDE_NO_CLOCK ? TIDE_NO_CLOCK : c->announced[s];
        }
    }
    if (!TIDE_MUTANT(fresh_untold)) {
        tide__fresh_tell(c, from, slots, count);
    }
    if (m->answer) {
        tide__bound_tell(c, from); /* it knows how the table was made, not what changed since */
        tide__declare_to(c, from, false);
    }
    if (c->departed_count) {
        tide__tick_pass_on(c, from, clock);
    }
    if (first || risen) {
        tide__ticks_changed(c->sync);
    } else { /* a node that leaves says so of one slot after the other */
        tide__slots_advance(c, slots, count);
    }
    return 0;
}

/* ---- ticks in flight to a new home ---- */

static void tick_forward(struct tide__clocked *c, uint16_t origin, uint32_t clock, uint16_t to, const uint32_t *slots,
                         size_t count) {
    (void)tide__sync_tell(c->sync, to,
                          TIDE__AS(TICK_FORWARD, .table = c->table->id, .origin = origin, .clock = clock,
                                   .slots = TIDE__LIST(slots, count)));
}

void tide__tick_pass_on(struct tide__clocked *c, uint16_t node, uint32_t clock) {
    uint32_t slots[TIDE_SLOT_COUNT];
    uint8_t done[TIDE_SLOT_COUNT] = {0};
    for (uint32_t first = 0; first < TIDE_SLOT_COUNT; first++) {
        size_t count = 0;
        for (uint32_t s = first; c->departed[first] && !done[first] && s < TIDE_SLOT_COUNT; s++) {
            if (c->departed[s] == c->departed[first]) {
                done[s] = s != first;
                if (tide__declared(c, node, s)) {
                    slots[count++] = s;
                }
            }
        }
        if (count) {
            tick_forward(c, node, clock, c->departed[first], slots, count);
        }
    }
}

int tide__tick_forwarded(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.TICK_FORWARD) *m = &in->as.TICK_FORWARD;
    struct tide__clocked *c = tide__clocked_of(store, in, m->table);
    if (!c || m->origin == 0 || !tide__are_slots(&m->slots)) {
        return TIDE_EPROTO;
    }
    for (size_t i = 0; i < m->slots.count; i++) {
        const uint32_t slot = tide__number_at(m->slots.at, i);
        if (!tide__slot_here(c, slot)) {
            tick_forward(c, m->origin, m->clock, tide__home_of(c, slot), &slot, 1);
        } else if (!tide__declared(c, m->origin, slot)) {
            tide__tick_forward(c, slot, m->origin, true)->tick =
                tide__tick_forward_clock(c, m->origin, m->clock, c->announced[slot]);
        }
    }
    tide__slots_advance(c, m->slots.at, m->slots.count);
    return 0;
}
