/* See async_replication.h. lost_updates.c counts what was answered and what was lost. */
#include "store/core/send.h"
#include "store/replica/async_replication_internal.h"

#include <stdlib.h>

#define SEEN_ONE (UINT64_C(1) << 32) /* of a key word: the row is listed */
#define TIGHT_ONE_MORE ((UINT64_C(1) << 32) + 1)
/* A part is small enough to be in the caches still when it is sent and applied. */
enum { PART_MAX = 8 << 20, FIRST_ROOM = 256 };
enum { IDLE_WINDOWS = 4, WAY_FORGOTTEN = 8 /* shipments until a long way is forgotten */ };

/* Of those that began at this home and were at it all the time. */
static bool still_ours(const struct tide__async_replication *a, const struct tide__wait *wait) {
    bool ours = true;
    for (uint32_t i = 0; i < wait->slot_count && ours; i++) {
        ours = a->lost_at[wait->slots[i]] <= wait->losses;
    }
    return ours;
}

static void waits_end(struct tide__async_replication *a, struct tide__wait *waits, bool answered) {
    for (struct tide__wait *next; waits; waits = next) {
        next = waits->next;
        waits->dead |= !answered || !still_ours(a, waits);
        tide__wait_done(waits);
    }
}

int tide__async_create(struct tide_table *table) {
    struct tide__async_replication *a = tide_alloc_aligned(_Alignof(struct tide__async_replication), sizeof *a);
    if (!a) {
        return tide_fail(TIDE_ENOMEM, "no memory for the window of table '%s'", table->name);
    }
    memset(a, 0, sizeof *a);
    a->flights_end = &a->flights;
    tide__replicas_of(table)->async = a;
    return 0;
}

void tide__async_destroy(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    if (!a) {
        return;
    }
    while (a->flights) {
        struct tide__flight *next = a->flights->next;
        waits_end(a, a->flights->waits, false);
        tide_free(a->flights);
        a->flights = next;
    }
    waits_end(a, a->waits, false);
    if (a->ships && --a->ships->left == 0) { /* else with the last message of it */
        tide_free(a->ships);
    }
    for (unsigned i = 0; i < TIDE_COUNT(a->lists); i++) {
        tide_free(a->lists[i].keys);
    }
    tide_free(a->gathered);
    tide_free(a->peers);
    tide_free(a);
}

static size_t row_bytes(const struct tide_table *table) {
    return table->row_floats * sizeof(float);
}

static uint64_t chain_at(const struct tide_table *table, uint32_t slot) {
    return atomic_load_explicit(&tide__replicas_of(table)->chain[slot], memory_order_relaxed);
}

/* ---- lists ---- */

/* Lock held. */
static int list_grow(struct tide__risk_list *list, uint32_t room) {
    uint32_t capacity = list->capacity ? list->capacity : FIRST_ROOM;
    while (capacity < room) {
        capacity *= 2;
    }
    uint64_t *keys = tide_realloc(list->keys, capacity * sizeof *keys);
    if (!keys) {
        return tide_fail(TIDE_ENOMEM, "no memory to list rows that copies lack");
    }
    list->keys = keys;
    list->capacity = capacity;
    return 0;
}

static int list_add(struct tide_table *table, struct tide__risk_list *list, uint64_t key) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    int code = 0;
    tide_lock(&list->lock);
    if (list->count == list->capacity) {
        code = list_grow(list, list->count + 1);
    }
    if (!code) {
        list->keys[list->count++] = key;
        atomic_fetch_add_explicit(&a->bytes, row_bytes(table), memory_order_relaxed);
    }
    tide_unlock(&list->lock);
    return code;
}

int tide__async_list(struct tide_table *table, uint64_t key, uint64_t *word) {
    if (TIDE_LIKELY(tide__word_seen(*word))) {
        return 0;
    }
    int code = list_add(table, &tide__replicas_of(table)->async->lists[tide__stripe()], key);
    *word |= code ? 0 : SEEN_ONE;
    return code;
}

uint64_t tide__async_going(const struct tide_table *table) {
    const struct tide__async_replication *a = tide__replicas_of(table)->async;
    /* acquire: pairs with tide__async_regroup, before which the slot got its new route. Of a row
     * that changed since a slot is about to go that is seen too, by the lock of its word. */
    return a ? atomic_load_explicit(&a->going, memory_order_acquire) : 0;
}

bool tide__async_enter(struct tide_table *table, unsigned *guard) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    *guard = tide__stripe();
    /* sequentially consistent, both: the closer of the table sees this pass, or the pass sees it
     * closed (tide__async_tighten) */
    atomic_fetch_add(&a->lists[*guard].passing, 1);
    const uint64_t until = atomic_load(&a->until);
    const bool open = tide_port_now(table->store->port) < until &&
                      atomic_load_explicit(&a->bytes, memory_order_relaxed) < table->options.window_bytes;
    if (!open && !TIDE_MUTANT(window_unbounded)) {
        atomic_fetch_sub(&a->lists[*guard].passing, 1);
        return false;
    }
    return true;
}

/* Of rows that are not in flight: those in flight are not faster for more, small shipments behind
 * it. */
static bool is_half_full(const struct tide_table *table) {
    const struct tide__async_replication *a = tide__replicas_of(table)->async;
    return atomic_load_explicit(&a->bytes, memory_order_relaxed) >=
           atomic_load_explicit(&a->flying, memory_order_relaxed) + table->options.window_bytes / 2;
}

void tide__async_leave(struct tide_table *table, unsigned guard) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    atomic_fetch_sub(&a->lists[guard].passing, 1);
    if (is_half_full(table) && !atomic_exchange_explicit(&a->hurried, true, memory_order_relaxed)) {
        (void)tide__store_tell(table->store, tide__store_self(table->store),
                               TIDE__AS(SAFE, .table = table->id)); /* else: the timer */
    }
}

int tide__async_reserve(struct tide_table *table, uint32_t count) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    struct tide__risk_list *list = &a->lists[TIDE__STRIPES];
    tide_lock(&list->lock);
    int code = list->count + count > list->capacity ? list_grow(list, list->count + count) : 0;
    tide_unlock(&list->lock);
    return code;
}

uint64_t tide__async_note(struct tide_table *table, uint64_t key, uint64_t word) {
    if (!tide__word_seen(word)) {
        struct tide__async_replication *a = tide__replicas_of(table)->async;
        struct tide__risk_list *list = &a->lists[TIDE__STRIPES];
        TIDE_ASSERT(list->count < list->capacity); /* reserved */
        list->keys[list->count++] = key;
        a->noted += row_bytes(table);
        word |= SEEN_ONE;
    }
    return word;
}

void tide__async_noted(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    if (a->noted) {
        atomic_fetch_add_explicit(&a->bytes, a->noted, memory_order_relaxed);
        a->noted = 0;
    }
    if (is_half_full(table)) {
        tide__async_ship(table);
    }
}

/* ---- open or not ---- */

static void ship_all(struct tide_table *table);

static bool anything_listed(struct tide__async_replication *a) {
    bool any = false;
    for (unsigned i = 0; i < TIDE_COUNT(a->lists) && !any; i++) {
        tide_lock(&a->lists[i].lock);
        any = a->lists[i].count > 0;
        tide_unlock(&a->lists[i].lock);
    }
    return any;
}

static void look_again(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const uint64_t now = tide_port_now(table->store->port); /* before the lists are looked at */
    if (!a->flights && !anything_listed(a)) {
        a->safe = now;
        tide__lost_updates_all_safe(a);
    }
    if (now >= a->leases_looked + tide_limit(store_leases_look) || now >= a->leases) {
        a->leases_looked = now;
        a->leases = tide__lenders_deadline(table);
    }
    const uint64_t end = a->safe + table->options.window_ns;
    const bool goes = (uint32_t)atomic_load_explicit(&a->going, memory_order_relaxed) > 0;
    /* without ticks no thread would ship what workers list */
    const bool ticks = a->ticking || TIDE_MUTANT(window_idles_open);
    atomic_store(&a->until, goes || !ticks ? 0 : end < a->leases ? end : a->leases);
}

/* Between two shipments. The later one must have landed a window after the earlier one left: the
 * longer rows wait, the more pushes to one go as one. What is left is for two ways. */
static uint64_t period(const struct tide_table *table) {
    const uint64_t window = table->options.window_ns, way = 2 * tide__replicas_of(table)->async->way;
    return way > window / 2 ? window / 2 : way < window / 8 ? window - window / 8 : window - way;
}

static void tick_later(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    a->ticking = tide_timer_start(period(table), &a->timer) == 0;
}

void tide__async_begin(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const uint64_t now = tide_port_now(table->store->port);
    if (!a->ticking) {
        a->busy_at = now;
        tick_later(table);
    }
    if (now >= atomic_load(&a->until)) {
        look_again(table);
    }
}

bool tide__async_open(struct tide_table *table) {
    const struct tide__async_replication *a = tide__replicas_of(table)->async;
    return TIDE_MUTANT(window_unbounded) ||
           (tide_port_now(table->store->port) < atomic_load(&a->until) &&
            atomic_load_explicit(&a->bytes, memory_order_relaxed) < table->options.window_bytes);
}

/* No worker begins to push in place; false: some are still at it. */
static bool close_passes(struct tide__async_replication *a) {
    bool none = true;
    atomic_store(&a->until, 0); /* see tide__async_enter */
    for (unsigned i = 0; i < TIDE__STRIPES && none; i++) {
        none = atomic_load(&a->lists[i].passing) == 0;
    }
    return none;
}

bool tide__async_goes(const struct tide_table *table, uint32_t slot) {
    const struct tide__async_replication *a = tide__replicas_of(table)->async;
    return a->tight[slot] && !TIDE_MUTANT(window_shows_ahead);
}

bool tide__async_tighten(struct tide_table *table, uint32_t slot) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    if (TIDE_MUTANT(window_leaves_open)) {
        return true;
    }
    if (!a->tight[slot]) {
        a->tight[slot] = true;
        atomic_fetch_add_explicit(&a->going, TIGHT_ONE_MORE, memory_order_relaxed);
    }
    if (!close_passes(a)) {
        return false;
    }
    ship_all(table);
    return !a->ships && !anything_listed(a); /* else memory is short */
}

void tide__async_regroup(struct tide_table *table, uint32_t slot, bool goes) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    if (a->tight[slot]) {
        a->tight[slot] = false;
        atomic_fetch_sub_explicit(&a->going, 1, memory_order_release); /* see tide__async_going */
    }
    a->leases = 0; /* other nodes grant them */
    a->ordered = false;
    if (goes) {
        a->lost_at[slot] = ++a->losses;
    }
}

/* ---- rows go ---- */

/* All listed keys; *whole: really all. Their number. */
static size_t gather(struct tide__async_replication *a, bool *whole) {
    size_t count = 0;
    *whole = true;
    for (unsigned i = 0; i < TIDE_COUNT(a->lists); i++) {
        struct tide__risk_list *list = &a->lists[i];
        tide_lock(&list->lock);
        const size_t wanted = 2 * (count + list->count);
        if (wanted > a->gathered_room) {
            uint64_t *grown = tide_realloc(a->gathered, 2 * wanted * sizeof *grown);
            a->gathered = grown ? grown : a->gathered;
            a->gathered_room = grown ? 2 * wanted : a->gathered_room;
        }
        if (list->count && wanted <= a->gathered_room) {
            memcpy(a->gathered + count, list->keys, list->count * sizeof *list->keys);
            count += list->count;
            list->count = 0;
        } else {
            *whole &= list->count == 0;
        }
        tide_unlock(&list->lock);
    }
    return count;
}

/* Slots of one chain one behind the other: what is shipped together goes one way. Where a chain has
 * changed since, or memory was short, more messages go than need be. */
static void order_slots(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    uint64_t *places = tide_alloc(TIDE_SLOT_COUNT * sizeof *places);
    for (uint32_t s = 0; places && s < TIDE_SLOT_COUNT; s++) {
        places[s] = (chain_at(table, s) & UINT32_MAX) * TIDE_SLOT_COUNT + s;
    }
    if (places) {
        qsort(places, TIDE_SLOT_COUNT, sizeof *places, tide__key_compare);
    }
    for (uint32_t i = 0; i < TIDE_SLOT_COUNT; i++) {
        a->order[i] = (uint16_t)(places ? places[i] % TIDE_SLOT_COUNT : i);
    }
    a->ordered = true;
    tide_free(places);
}

static uint16_t first_copy(const struct tide_table *table, uint32_t slot) {
    return tide__chain_at(chain_at(table, slot), 0);
}

/* Those of a slot together: `sorted`, and where each slot ends in `ends`. How many slots. */
static uint32_t group(struct tide_table *table, size_t count) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    uint32_t slots = 0, at = 0;
    if (!a->ordered) {
        order_slots(table);
    }
    for (size_t i = 0; i < count; i++) {
        a->places[tide__slot_of(table, a->gathered[i])]++;
    }
    for (uint32_t i = 0; i < TIDE_SLOT_COUNT; i++) {
        const uint32_t slot = a->order[i], listed = a->places[slot];
        if (listed) {
            a->places[slot] = at;
            at += listed;
            a->slots[slots] = slot;
            a->ends[slots++] = at;
        }
    }
    a->sorted = a->gathered + count;
    for (size_t i = 0; i < count; i++) {
        a->sorted[a->places[tide__slot_of(table, a->gathered[i])]++] = a->gathered[i];
    }
    for (uint32_t i = 0; i < slots; i++) {
        a->places[a->slots[i]] = 0;
    }
    return slots;
}

/* The listed row of the j-th key, if this node is its home, into `out` unless that is NULL; it is
 * listed no more. */
static bool take_row(struct tide_table *table, const struct tide__rows *rows, size_t j, void *out) {
    const uint32_t route = atomic_load_explicit(&table->slots[rows->slots[j]].route, memory_order_relaxed);
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (tide__rows_lock(table, rows, j, false, &word, &old) != TIDE__FOUND) {
        return false;
    }
    const bool goes = (route & TIDE__MINE) && tide__word_state(old) == TIDE__OWNED && tide__word_seen(old);
    if (goes && out) {
        memcpy(out, tide__slab_row(&table->slab, (uint32_t)old), row_bytes(table));
    }
    tide__word_unlock(word, goes ? old & ~TIDE__WORD_SEEN : old);
    return goes;
}

void tide__async_give_up(struct tide_table *table, const uint64_t *keys, size_t count) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    tide__replicas_mark(replicas);
    for (size_t i = 0; i < count; i++) {
        struct tide__rows rows;
        tide__rows_ahead(table, (const uint8_t *)(keys + i), NULL, 1, true, &rows);
        const uint32_t slot = rows.slots[0];
        const uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
        uint64_t chain = chain_at(table, slot);
        (void)take_row(table, &rows, 0, NULL);
        for (; (route & TIDE__MINE) && tide__replicas_first(replicas, slot) && chain; chain >>= 16) {
            tide__replica_fail(table, slot, (uint16_t)chain);
        }
    }
}

/* `count` keys, of whole slots. */
static int ship_part(struct tide_table *table, const uint64_t *keys, size_t count, struct tide__wait *wait) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    const size_t bytes = row_bytes(table), ids = tide__dedup_untold(table);
    struct tide__repl all = {.table = table,
                             .wait = wait,
                             .kind = TIDE__REPL_ROWS,
                             .row_bytes = bytes,
                             .rows = tide_blob_create(count * bytes)};
    uint64_t *memory = tide_alloc((2 * count + TIDE__ID_FIELDS * ids + 1) * sizeof *memory);
    int code = all.rows && memory && count * bytes <= PART_MAX
                   ? 0
                   : tide_fail(TIDE_ENOMEM, "no memory for rows that copies lack");
    all.keys = memory;
    all.numbers = memory + count;
    all.ids = memory + 2 * count;
    tide__replicas_mark(replicas);
    struct tide__rows rows;
    for (size_t i = 0; i < count && !code; i += rows.count) {
        tide__rows_ahead(table, (const uint8_t *)(keys + i), NULL, count - i, false, &rows);
        for (size_t j = 0; j < rows.count; j++) {
            if (take_row(table, &rows, j, (char *)all.rows->data + all.count * bytes)) {
                struct tide__copied_slot *slot = &replicas->slots[rows.slots[j]];
                slot->number += tide__replicas_first(replicas, rows.slots[j]);
                all.numbers[all.count] = slot->number;
                all.keys[all.count++] = rows.keys[j];
            }
        }
    }
    if (!code && all.count) {
        all.rows->size = all.count * bytes;
        all.id_count = tide__dedup_tell(table, all.ids);
        code = tide__replicate(&all);
    }
    tide_free(memory);
    tide_blob_unref(all.rows);
    return code;
}

static void ship_or_give_up(struct tide_table *table, const uint64_t *keys, size_t count) {
    if (ship_part(table, keys, count, tide__replicas_of(table)->async->ships)) {
        tide__async_give_up(table, keys, count);
    }
}

/* The next part of the shipment in flight. A slot's rows go in one message, with the ids of
 * what has changed them. */
static void next_part(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const size_t most = TIDE_BUGGIFY(window_in_parts) ? 1 : tide_limit(store_window_part_bytes) / row_bytes(table) + 1,
                 first = a->shipped;
    const uint16_t copy = first_copy(table, a->slots[a->slot_at]);
    do {
        a->shipped = a->ends[a->slot_at++];
    } while (a->slot_at < a->slot_count && a->ends[a->slot_at] - first <= most &&
             first_copy(table, a->slots[a->slot_at]) == copy);
    ship_or_give_up(table, a->sorted + first, a->shipped - first);
}

static void shipped(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    struct tide__wait *wait = a->ships;
    const bool whole = wait->flight->whole;
    a->ships = NULL;
    if (whole) {
        tide__dedup_told(table);
    }
    tide__wait_done(wait);
    if (whole && is_half_full(table)) {
        tide__async_ship(table);
    }
}

/* A part a turn of the loop, so that it leaves before the next is made: no thread waits for all of
 * them, and what is sent is in the caches still. */
static void ship_on(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    bool more = a->slot_at < a->slot_count;
    if (more) {
        next_part(table);
        more = a->slot_at < a->slot_count;
    }
    const uint64_t pause = TIDE_BUGGIFY(window_in_parts) ? TIDE_SECOND / 500 : 0;
    while (more && tide_timer_start(pause, &a->ship_timer)) { /* no memory for it */
        next_part(table);
        more = a->slot_at < a->slot_count;
    }
    if (!more) {
        shipped(table);
    }
}

/* All that is listed, at once. */
static void ship_all(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    for (int times = 0; times < 2 && (a->ships || anything_listed(a)); times++) {
        if (!a->ships) {
            tide__async_ship(table);
        }
        while (a->ships && a->slot_at < a->slot_count) {
            next_part(table);
        }
        if (a->ships) {
            tide_timer_cancel(a->ship_timer);
            shipped(table);
        }
    }
}

void tide__async_ship(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const uint64_t bytes = atomic_load_explicit(&a->bytes, memory_order_relaxed);
    if (a->ships) {
        return; /* what is listed now goes behind that */
    }
    struct tide__flight *flight = tide_alloc_zero(1, sizeof *flight + a->peer_count * sizeof flight->given[0]);
    struct tide__wait *wait = flight ? tide_alloc_zero(1, sizeof *wait) : NULL;
    if (!wait) { /* it stays listed: with the next tick */
        tide_free(flight);
        return;
    }
    flight->at = tide_port_now(table->store->port); /* what is answered by now is listed */
    tide__lost_updates_mark_given(a, flight);
    tide__dedup_telling(table);
    atomic_store_explicit(&a->hurried, false, memory_order_relaxed);
    const size_t count = gather(a, &flight->whole);
    if (bytes > atomic_load_explicit(&a->bytes_most, memory_order_relaxed)) {
        atomic_store_explicit(&a->bytes_most, bytes, memory_order_relaxed);
    }
    flight->bytes = count * row_bytes(table);
    atomic_fetch_add_explicit(&a->flying, flight->bytes, memory_order_relaxed);
    *a->flights_end = flight;
    a->flights_end = &flight->next;
    flight->waits = a->waits;
    a->waits = NULL;
    a->missed = false;
    wait->table = table;
    wait->left = 1;
    wait->flight = flight;
    a->ships = wait;
    a->shipped = 0;
    a->slot_at = 0;
    a->slot_count = group(table, count);
    ship_on(table);
}

void tide__async_wait(struct tide_table *table, struct tide__wait *wait) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    wait->losses = a->losses;
    wait->next = a->waits;
    a->waits = wait;
    if (!a->flights) { /* else with those that wait then */
        tide__async_ship(table);
    }
}

static void waits_again(struct tide__async_replication *a, struct tide__wait *waits) {
    struct tide__wait **end = &a->waits;
    while (*end) {
        end = &(*end)->next;
    }
    *end = waits;
}

void tide__async_landed(struct tide_table *table, struct tide__flight *flight) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const uint64_t way = tide_port_now(table->store->port) - flight->at, known = a->way - a->way / WAY_FORGOTTEN;
    a->way = way > known ? way : known;
    atomic_fetch_sub_explicit(&a->flying, flight->bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&a->bytes, flight->bytes, memory_order_relaxed);
    flight->landed = true;
    bool whole = true;
    while (a->flights && a->flights->landed) {
        flight = a->flights;
        whole = flight->whole;
        a->flights = flight->next;
        a->flights_end = a->flights ? a->flights_end : &a->flights;
        if (whole) {
            a->safe = flight->at > a->safe ? flight->at : a->safe;
            tide__lost_updates_given_safe(a, flight);
            waits_end(a, flight->waits, true);
        } else { /* for lack of memory: with the next tick */
            waits_again(a, flight->waits);
        }
        tide_free(flight);
    }
    look_again(table);
    if ((a->waits || (a->missed && anything_listed(a))) && !a->flights && whole) {
        tide__async_ship(table);
    }
}

static void tick(struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    const uint64_t now = tide_port_now(table->store->port);
    const bool busy = anything_listed(a) || a->waits;
    a->busy_at = busy || a->flights ? now : a->busy_at;
    a->missed = busy && a->flights;
    if (busy && !a->flights) {
        tide__async_ship(table);
    }
    a->ticking = false;
    if (now < a->busy_at + IDLE_WINDOWS * table->options.window_ns || !close_passes(a) || anything_listed(a)) {
        tick_later(table);
    } /* else the next push comes to the store actor, and starts it again */
    look_again(table);
    tide__lost_updates_tell(table);
}

bool tide__async_timer(struct tide_store *store, uint64_t timer) {
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__async_replication *a = table && tide__replicas_of(table) ? tide__replicas_of(table)->async : NULL;
        if (a && a->ships && a->ship_timer == timer) {
            ship_on(table);
            return true;
        }
        if (a && a->ticking && a->timer == timer) {
            tick(table);
            return true;
        }
    }
    return false;
}

bool tide__async_idle(const struct tide_table *table) {
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    return !a || (!anything_listed(a) && !a->waits && !a->flights && !a->ships);
}
