/*
 * What a home sends down the chains of its slots: pushes, rows and barriers, each numbered within
 * its slot. What is unanswered is kept, by token, until the last of the chain names it. When a group
 * changes it goes down the new chain; copies know by the number what they have. When this node is
 * home no more it is dropped: its origin sends it again, to the new home. What operations do with
 * it: strict.c.
 */
#include "store/replica/async_replication.h"
#include "store/rows/cut.h"
#include "store/slots/move.h"

enum { RING_FIRST = 256 };

/* ---- tables and stores ---- */

int tide__replicas_init(struct tide_table *table, const uint64_t *chains) {
    struct tide_store *store = table->store;
    const uint16_t self = tide__store_self(store);
    if (!store->replication) {
        store->replication = tide_alloc_zero(1, sizeof *store->replication);
    }
    table->parts[TIDE__PART_REPLICAS] =
        store->replication ? tide_alloc_zero(1, sizeof *tide__replicas_of(table)) : NULL;
    if (!tide__replicas_of(table)) {
        return tide_fail(TIDE_ENOMEM, "no memory for the copies of table '%s'", table->name);
    }
    store->replication->first = store->replication->first ? store->replication->first : 1;
    store->replication->next = store->replication->next ? store->replication->next : 1;
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint32_t route = atomic_load_explicit(&table->slots[s].route, memory_order_relaxed);
        atomic_init(&tide__replicas_of(table)->chain[s], chains ? chains[s] : 0);
        if (chains && chains[s] == TIDE__LOST_CHAIN) { /* this node joins after that */
            tide__route_set(table, s, tide__route_home(route) | TIDE__LOST);
            continue;
        }
        tide__replicas_of(table)->slots[s].held = (route & TIDE__MINE) || (chains && tide__chain_has(chains[s], self));
    }
    int code = tide__dedup_create(table);
    if (!code && table->options.durability == TIDE_DURABLE_WINDOW) {
        code = tide__async_create(table);
    }
    if (code) {
        tide__dedup_destroy(table);
        tide_free(tide__replicas_of(table));
        table->parts[TIDE__PART_REPLICAS] = NULL;
    }
    return code;
}

static void wait_free(struct tide__wait *wait) {
    tide_blob_unref(wait->job.values);
    tide_free(wait->job.copy);
    tide_free(wait->slots);
    tide_free(wait);
}

static void wait_drop(struct tide__wait *wait) {
    if (wait && --wait->left == 0) {
        wait_free(wait);
    }
}

void tide__replicas_deinit(struct tide_table *table) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    if (replicas) {
        tide__dedup_destroy(table);
        tide__rebuild_release(table);
        tide__async_destroy(table);
        tide_free(replicas);
    }
}

bool tide__replicas_idle(const struct tide_table *table) {
    const struct tide__replication *r = table->store->replication;
    if (!tide__replicas_of(table)) {
        return true;
    }
    for (uint64_t token = r ? r->first : 0; r && token < r->next; token++) {
        const struct tide__repl *repl = r->ring[token & (r->capacity - 1)];
        if (repl && repl->table == table) {
            return false;
        }
    }
    return !tide__replicas_of(table)->rebuilds && tide__async_idle(table);
}

void tide__replication_destroy(struct tide_store *store) {
    struct tide__replication *r = store->replication;
    for (uint64_t token = r ? r->first : 0; r && token < r->next; token++) {
        struct tide__repl *repl = r->ring[token & (r->capacity - 1)];
        if (repl) {
            wait_drop(repl->wait);
            tide_blob_unref(repl->rows);
            tide_free(repl);
        }
    }
    if (r) {
        tide_free(r->ring);
        tide_free(r);
    }
}

/* ---- what is unanswered ---- */

static int ring_put(struct tide__replication *r, struct tide__repl *repl) {
    if (r->next - r->first >= r->capacity) {
        uint64_t capacity = r->capacity ? r->capacity * 2 : RING_FIRST;
        struct tide__repl **ring = tide_alloc_zero(capacity, sizeof(struct tide__repl *));
        if (!ring) {
            return TIDE_ENOMEM;
        }
        for (uint64_t token = r->first; token < r->next; token++) {
            ring[token & (capacity - 1)] = r->ring[token & (r->capacity - 1)];
        }
        tide_free(r->ring);
        r->ring = ring;
        r->capacity = capacity;
    }
    repl->token = r->next++;
    r->ring[repl->token & (r->capacity - 1)] = repl;
    return 0;
}

static struct tide__repl *ring_take(struct tide__replication *r, uint64_t token) {
    if (token < r->first || token >= r->next) {
        return NULL;
    }
    struct tide__repl *repl = r->ring[token & (r->capacity - 1)];
    r->ring[token & (r->capacity - 1)] = NULL;
    while (r->first < r->next && !r->ring[r->first & (r->capacity - 1)]) {
        r->first++;
    }
    return repl;
}

static uint32_t repl_slot(const struct tide__repl *repl, uint32_t i) {
    return repl->kind >= TIDE__REPL_BARRIER ? (uint32_t)repl->keys[i] : tide__slot_of(repl->table, repl->keys[i]);
}

static void repl_free(struct tide__repl *repl) {
    if (repl) {
        tide_blob_unref(repl->rows);
        tide_free(repl);
    }
}

static struct tide_blob *rows_at(const struct tide__repl *from, const uint32_t *indices, uint32_t count) {
    if (count == from->count) {
        return tide_blob_ref(from->rows);
    }
    if (indices[count - 1] - indices[0] + 1 == count) { /* one behind the other */
        const uint32_t first = TIDE_MUTANT(copies_of_first_rows) ? 0 : indices[0];
        return tide_blob_slice(from->rows, (const char *)from->rows->data + first * from->row_bytes,
                               count * from->row_bytes);
    }
    struct tide_blob *rows = tide_blob_create(count * from->row_bytes);
    for (uint32_t i = 0; rows && i < count; i++) {
        memcpy((char *)rows->data + i * from->row_bytes, (const char *)from->rows->data + indices[i] * from->row_bytes,
               from->row_bytes);
    }
    return rows;
}

/* The ids of the slots that `repl` has a part of. */
static void ids_at(const struct tide__repl *from, struct tide__repl *repl) {
    struct tide__replicas *replicas = tide__replicas_of(from->table);
    tide__replicas_mark(replicas);
    for (uint32_t i = 0; i < repl->count; i++) {
        (void)tide__replicas_first(replicas, repl_slot(repl, i));
    }
    repl->id_count = 0;
    for (uint32_t i = 0; i < from->id_count; i++) {
        const uint64_t *id = from->ids + TIDE__ID_FIELDS * (size_t)i;
        if (replicas->slots[id[0]].mark == replicas->mark_now) {
            memcpy(repl->ids + TIDE__ID_FIELDS * (size_t)repl->id_count++, id, TIDE__ID_FIELDS * sizeof *id);
        }
    }
}

/* `count` entries at `indices`, ascending, of these (NULL: all), as one that goes down `chain` with
 * the versions that its slots have now. */
static struct tide__repl *repl_make(const struct tide__repl *from, uint64_t chain, const uint32_t *indices,
                                    uint32_t count) {
    const size_t id_fields = (size_t)from->id_count * TIDE__ID_FIELDS;
    struct tide__repl *repl = tide_alloc(sizeof *repl + (2 * (size_t)count + id_fields) * sizeof(uint64_t) +
                                         count * sizeof repl->versions[0]);
    struct tide_blob *rows = from->rows ? rows_at(from, indices, count) : NULL;
    if (!repl || (from->rows && !rows)) {
        tide_free(repl);
        tide_blob_unref(rows);
        return NULL;
    }
    *repl = *from;
    repl->chain = chain;
    repl->count = count;
    repl->rows = rows;
    repl->keys = (uint64_t *)(void *)(repl + 1);
    repl->numbers = repl->keys + count;
    repl->ids = repl->numbers + count;
    repl->versions = (uint32_t *)(void *)(repl->ids + id_fields);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = indices ? indices[i] : i;
        repl->keys[i] = from->keys[at];
        repl->numbers[i] = from->numbers[at];
        repl->versions[i] = from->table->slot_versions[repl_slot(from, at)];
    }
    if (id_fields) {
        ids_at(from, repl);
    }
    return repl;
}

static void repl_go(const struct tide__repl *repl) {
    struct tide_table *table = repl->table;
    struct tide__repl_message message = {
        .token = repl->token,
        .chain = repl->chain,
        .home = tide__store_self(table->store),
        .origin = repl->origin,
        .sequence = repl->sequence,
        .low = repl->origin < TIDE__NODES ? table->store->replication->low[repl->origin] : 0,
        .kind = repl->kind,
        .count = repl->count,
        .keys = (const uint8_t *)repl->keys,
        .numbers = (const uint8_t *)repl->numbers,
        .versions = (const uint8_t *)repl->versions,
        .rows = repl->rows ? repl->rows->data : NULL,
        .blob = repl->rows,
        .row_bytes = repl->row_bytes,
        .ids = (const uint8_t *)repl->ids,
        .id_count = repl->id_count};
    uint64_t *lows = NULL;
    if (repl->kind == TIDE__REPL_ROWS) {
        lows = tide__dedup_lows(table->store, &message.low_count);
        message.lows = (const uint8_t *)lows;
    }
    (void)tide__repl_send(table, &message); /* unreachable: its death changes the group */
    tide_free(lows);
}

/* ---- rows ---- */

/* One push to each of the keys fewer is in flight to the copies. */
static void unacked_less(struct tide_table *table, const uint64_t *keys, size_t count) {
    struct tide__rows rows;
    for (size_t i = 0; i < count; i += rows.count) {
        tide__rows_ahead(table, (const uint8_t *)(keys + i), NULL, count - i, true, &rows);
        for (size_t j = 0; j < rows.count; j++) {
            atomic_uint_fast64_t *word;
            uint64_t old;
            if (tide__rows_lock(table, &rows, j, false, &word, &old) == TIDE__FOUND) {
                const uint64_t one = tide__word_seen(old) ? UINT64_C(1) << 32 : 0;
                tide__word_unlock(word, old - one);
            }
        }
    }
}

static void slot_open(struct tide_table *table, uint32_t slot);

void tide__wait_done(struct tide__wait *wait) {
    struct tide_table *table = wait->table;
    if (--wait->left > 0) {
        return;
    }
    if (wait->opens) {
        for (uint32_t i = 0; i < wait->slot_count; i++) {
            uint8_t *opening = &tide__replicas_of(table)->slots[wait->slots[i]].opening;
            if (*opening == TIDE__OPEN_ASKED && !wait->dead) {
                slot_open(table, wait->slots[i]);
            } else if (*opening == TIDE__OPEN_ASKED) {
                *opening = TIDE__OPEN_AT;
                tide__replicas_of(table)->opens_next = 0;
            }
        }
        if (!wait->dead) {
            tide__parked_retry(table);
        }
    } else if (wait->flight) {
        tide__async_landed(table, wait->flight);
    } else if (!wait->dead) {
        tide__job_reply(&wait->job);
    }
    wait_free(wait);
}

/* *takes*; all copies have it. */
static void repl_done(struct tide__repl *repl) {
    if (repl->kind < TIDE__REPL_ROWS) {
        unacked_less(repl->table, repl->keys, repl->count);
    }
    if (repl->kind >= TIDE__REPL_BARRIER && !repl->wait) {
        tide__rebuild_joined(repl->table, (uint32_t)repl->keys[0]);
    }
    if (repl->wait) {
        tide__wait_done(repl->wait);
    }
    repl_free(repl);
}

static uint64_t chain_of(const struct tide__repl *repl, uint32_t i) {
    return atomic_load_explicit(&tide__replicas_of(repl->table)->chain[repl_slot(repl, i)], memory_order_relaxed);
}

/* `count` entries at `indices` (NULL: all) go down `chain`. */
static int send_part(const struct tide__repl *all, uint64_t chain, const uint32_t *indices, uint32_t count) {
    struct tide__replication *r = all->table->store->replication;
    struct tide__repl *repl = repl_make(all, chain, indices, count);
    int code = repl ? ring_put(r, repl) : TIDE_ENOMEM;
    if (code) {
        repl_free(repl);
        return code;
    }
    if (repl->wait) {
        repl->wait->left++;
    }
    if (chain) {
        repl_go(repl);
    } else { /* no copy is left: what is here is all there is */
        repl_done(ring_take(r, repl->token));
    }
    return 0;
}

/* Slots of several chains. */
static int send_parts(const struct tide__repl *all) {
    uint32_t *rest = tide_alloc(2 * (size_t)all->count * sizeof *rest);
    uint32_t left = all->count, *part = rest + all->count;
    for (uint32_t i = 0; rest && i < left; i++) {
        rest[i] = i;
    }
    int code = rest ? 0 : TIDE_ENOMEM;
    while (left && !code) {
        const uint64_t chain = chain_of(all, rest[0]);
        uint32_t kept = 0, in_part = 0;
        for (uint32_t i = 0; i < left; i++) {
            if (chain_of(all, rest[i]) == chain) {
                part[in_part++] = rest[i];
            } else {
                rest[kept++] = rest[i];
            }
        }
        left = kept;
        code = send_part(all, chain, part, in_part);
    }
    tide_free(rest);
    return code;
}

int tide__replicate(const struct tide__repl *all) {
    const uint64_t chain = chain_of(all, 0);
    uint32_t same = 1;
    while (same < all->count && chain_of(all, same) == chain) {
        same++;
    }
    return same == all->count ? send_part(all, chain, NULL, same) : send_parts(all);
}

int tide__replica_ack(struct tide_store *store, struct tide__incoming *in) {
    struct tide__repl *repl = store->replication ? ring_take(store->replication, in->as.ACKR.token) : NULL;
    if (repl) { /* else of a group that is no more */
        repl_done(repl);
    }
    return 0;
}

void tide__replicas_mark(struct tide__replicas *replicas) {
    if (++replicas->mark_now == 0) {
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
            replicas->slots[s].mark = 0;
        }
        replicas->mark_now = 1;
    }
}

int tide__barrier(struct tide_table *table, struct tide__wait *wait, const uint32_t *slots, uint32_t count) {
    struct tide__repl all = {.table = table, .wait = wait, .kind = TIDE__REPL_BARRIER};
    uint64_t *numbers = tide_alloc(2 * (size_t)count * sizeof *numbers);
    if (!numbers) {
        return TIDE_ENOMEM;
    }
    all.keys = numbers + count;
    all.numbers = numbers;
    for (uint32_t i = 0; i < count; i++) {
        all.keys[i] = slots[i];
        numbers[i] = tide__replicas_of(table)->slots[slots[i]].number;
    }
    all.count = count;
    int code = count ? tide__replicate(&all) : 0;
    tide_free(numbers);
    return code;
}

/* ---- changes of groups ---- */

static bool has_slot(const uint64_t *slots, uint32_t slot) {
    return slots[slot / 64] >> (slot % 64) & 1;
}

static bool has_slot_of(const uint64_t *slots, const struct tide__repl *repl) {
    bool found = false;
    for (uint32_t i = 0; i < repl->count && !found; i++) {
        found = has_slot(slots, repl_slot(repl, i));
    }
    return found;
}

/* The part of an unanswered message that is still this home's goes down the new chains. */
static void retarget(struct tide__repl *repl, const uint64_t *changed) {
    struct tide_table *table = repl->table;
    uint32_t *kept = tide_alloc(repl->count * sizeof *kept), count = 0;
    for (uint32_t i = 0; kept && i < repl->count; i++) {
        uint32_t route = atomic_load_explicit(&table->slots[repl_slot(repl, i)].route, memory_order_relaxed);
        if (route & TIDE__MINE) {
            kept[count++] = i;
        } else if (repl->kind < TIDE__REPL_ROWS) {
            unacked_less(table, &repl->keys[i], 1);
        }
    }
    struct tide__repl *part = count ? repl_make(repl, 0, kept, count) : NULL;
    bool drops = count < repl->count || !part;
    if (repl->wait) {
        repl->wait->dead |= drops;
    }
    const bool cancelled = !repl->wait && has_slot_of(changed, repl); /* with its order */
    if (count && !part && repl->kind == TIDE__REPL_ROWS) {
        tide__async_give_up(table, repl->keys, repl->count);
    }
    if (part && !cancelled) {
        (void)tide__replicate(part); /* ENOMEM: unanswered; the copies get the next push's number */
    }
    if (repl->wait) {
        tide__wait_done(repl->wait);
    }
    repl_free(part);
    tide_free(kept);
    repl_free(repl);
}

static struct tide__repl *repl_at(const struct tide_table *table, uint64_t token) {
    const struct tide__replication *r = table->store->replication;
    struct tide__repl *repl = token < r->first ? NULL : r->ring[token & (r->capacity - 1)];
    return repl && repl->table == table ? repl : NULL;
}

void tide__replicas_retarget(struct tide_table *table, const uint64_t *changed) {
    struct tide__replication *r = table->store->replication;
    /* What goes again has its place behind all others. So of each slot of which anything goes again
     * all goes again, or the slot's pushes and barriers would change their order. */
    uint64_t slots[TIDE_SLOT_COUNT / 64];
    memcpy(slots, changed, sizeof slots);
    for (bool more = !TIDE_MUTANT(retarget_alone); more;) {
        more = false;
        for (uint64_t token = r->first; token < r->next; token++) {
            const struct tide__repl *repl = repl_at(table, token);
            for (uint32_t i = 0; repl && has_slot_of(slots, repl) && i < repl->count; i++) {
                const uint32_t slot = repl_slot(repl, i);
                more |= !has_slot(slots, slot);
                slots[slot / 64] |= UINT64_C(1) << (slot % 64);
            }
        }
    }
    for (uint64_t token = r->first, end = r->next; token < end; token++) {
        const struct tide__repl *repl = repl_at(table, token);
        if (repl && has_slot_of(slots, repl)) {
            retarget(ring_take(r, token), changed);
        }
    }
}

static void slot_open(struct tide_table *table, uint32_t slot) {
    tide__replicas_of(table)->slots[slot].opening = TIDE__OPEN;
    tide__replicas_of(table)->unopened--;
    tide__route_clear(table, slot, TIDE__AWAITED);
}

/* Slots whose old home can serve nothing any more: is everything at those that follow? */
static void open_due(struct tide_table *table) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    const uint64_t now = tide_port_now(table->store->port);
    if (now < replicas->opens_next) {
        return;
    }
    struct tide__wait *wait = tide_alloc_zero(1, sizeof *wait);
    uint32_t *slots = tide_alloc(TIDE_SLOT_COUNT * sizeof *slots), count = 0;
    if (!wait || !slots) {
        tide_free(wait);
        tide_free(slots);
        return;
    }
    replicas->opens_next = TIDE_NEVER;
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        const bool waits = replicas->slots[s].opening == TIDE__OPEN_AT;
        const uint64_t at = waits ? replicas->open_at[s] : TIDE_NEVER;
        if (at <= now) {
            replicas->slots[s].opening = TIDE__OPEN_ASKED;
            slots[count++] = s;
        } else if (at < replicas->opens_next) {
            replicas->opens_next = at;
        }
    }
    if (count == 0) {
        tide_free(wait);
        tide_free(slots);
        return;
    }
    wait->table = table;
    wait->left = 1;
    wait->opens = true;
    wait->slots = slots;
    wait->slot_count = count;
    wait->dead = tide__barrier(table, wait, slots, count) != 0;
    tide__wait_done(wait);
}

void tide__replicas_advance(struct tide_table *table) {
    if (tide__replicas_of(table)->unopened) {
        open_due(table);
    }
    tide__rebuild_advance(table);
}

int tide__replica_join(struct tide_table *table, uint32_t slot, bool joins) {
    uint64_t entry[2] = {slot, tide__replicas_of(table)->slots[slot].number};
    const struct tide__repl join = {.table = table,
                                    .kind = joins ? TIDE__REPL_JOIN : TIDE__REPL_BARRIER,
                                    .count = 1,
                                    .keys = &entry[0],
                                    .numbers = &entry[1]};
    return tide__replicate(&join);
}
