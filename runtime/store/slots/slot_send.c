/*
 * Slots leave their home: rows and SLOT_DONE of one after the other, see move.c.
 *
 * A home of a table that relocates forwards operations to the owners of keys, and its HAND follows
 * them on the same lane. A new home's HAND, and what it forwards, come another way, and may reach
 * an owner first: then the row would leave before an operation that its caller issued before it
 * asked for the row. So slots are closed before they leave. Of a closed slot operations on and
 * localizes of rows that are elsewhere wait here, as at a home that awaits its rows; all members are
 * asked behind what went out before, and when they have answered, no operation is in flight to an
 * owner, and no localize of the new home in flight to here. What waited goes to the new home, behind the
 * slot. tests/models/slot.pml has all of it.
 */
#include "store/core/send.h"
#include "store/operation/shard.h"
#include "store/slots/move.h"

struct slot_send { /* at the old home */
    struct slot_send *next;
    struct tide_table *table;
    uint32_t version, count, at, in_flight;
    uint32_t closed;                    /* of a table that relocates: slots[at .. closed) are */
    struct tide__flush_barrier barrier; /* asked when the last of them was closed */
    uint16_t to;
    uint64_t *keys; /* rows taken out of the slab and not yet sent; never dropped while the new home
                       lives */
    float *rows;
    uint32_t *marks;            /* of each row, see cut.h */
    struct tide_writer seconds; /* versions of the split ones */
    size_t packed, capacity, turn_bytes, in_flight_bytes;
    uint32_t *bytes; /* of the rows of each slot that has left */
    uint32_t slots[];
};

static void slot_send_free(struct slot_send *slot_send) {
    tide_free(slot_send->keys);
    tide_free(slot_send->marks);
    tide_writer_release(&slot_send->seconds);
    tide_free(slot_send->rows);
    tide_free(slot_send->bytes);
    tide_free(slot_send);
}

void tide__slot_send_begin(struct tide_store *store, struct tide_table *table, uint32_t version, uint16_t to,
                           const uint8_t *slots, size_t count) {
    if (store->member_state[to] > 1 + TIDE_MEMBER_LEAVING) {
        return; /* the order is older than the death: the slots stay, and are planned anew */
    }
    struct slot_send *d = tide_alloc_zero(1, sizeof *d + count * sizeof d->slots[0]);
    const size_t row_bytes = table->row_floats * sizeof(float),
                 capacity = tide_limit(store_move_message_bytes) / row_bytes + 1;
    uint64_t *keys = tide_alloc(capacity * sizeof *keys);
    float *rows = tide_alloc(capacity * row_bytes);
    uint32_t *marks = tide_alloc(capacity * sizeof *marks);
    uint32_t *bytes = tide_alloc((count + 1) * sizeof *bytes);
    if (!d || !keys || !rows || !marks || !bytes) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "no memory to hand slots over");
        tide_free(d);
        tide_free(keys);
        tide_free(rows);
        tide_free(marks);
        tide_free(bytes);
        return;
    }
    *d = (struct slot_send){.table = table,
                            .version = version,
                            .count = (uint32_t)count,
                            .to = to,
                            .keys = keys,
                            .rows = rows,
                            .marks = marks,
                            .capacity = capacity,
                            .bytes = bytes};
    for (size_t i = 0; i < count; i++) {
        memcpy(&d->slots[i], slots + i * sizeof d->slots[i], sizeof d->slots[i]);
    }
    struct slot_send **end = &store->moves->sends;
    while (*end) {
        end = &(*end)->next;
    }
    *end = d;
}

bool tide__slot_sends_has(const struct tide_store *store, const struct tide_table *table) {
    const struct slot_send *d = store->moves->sends;
    while (d && d->table != table) {
        d = d->next;
    }
    return d;
}

static int ship(struct slot_send *d) {
    if (d->packed == 0) {
        return 0;
    }
    const size_t floats = d->table->row_floats;
    int code = tide__store_tell(
        d->table->store, d->to,
        TIDE__AS(ROWS, .table = d->table->id, .slot = d->slots[d->at], .keys = TIDE__LIST(d->keys, d->packed),
                 .rows = TIDE__LIST(d->rows, d->packed * floats), .marks = TIDE__LIST(d->marks, d->packed),
                 .seconds = TIDE__LIST(d->seconds.data, d->seconds.size / sizeof(float))));
    if (!code) {
        d->packed = 0;
        d->seconds.size = 0;
    }
    return code;
}

static int pack(void *arg, uint64_t key, uint64_t word, const float *row) {
    struct slot_send *d = arg;
    const size_t bytes = d->table->row_floats * sizeof(float);
    void *place = NULL;
    struct tide__kept *second;
    int code = d->packed == d->capacity ? ship(d) : 0;
    /* Place for a second version is made first: a row that cannot leave now is not given. */
    if (!code && !(place = tide_write_reserve(&d->seconds, bytes))) {
        d->seconds.error = 0;
        code = TIDE_ENOMEM;
    }
    if (code) {
        return code;
    }
    d->keys[d->packed] = key;
    memcpy(d->rows + d->packed * d->table->row_floats, row, bytes);
    d->marks[d->packed] = tide__cut_give(d->table, key, word, row, &second);
    d->packed++;
    if (second) {
        memcpy(place, second->row, bytes);
    } else {
        d->seconds.size -= bytes;
    }
    tide_free(second);
    return 0;
}

int tide__slot_say(struct tide_table *table, uint16_t to, enum tide__op op, uint32_t slot, uint32_t version,
                   uint16_t lost_to) {
    const union tide__message m = {
        .SLOT_DONE = {.table = table->id, .slot = slot, .version = version, .lost_to = lost_to}};
    return tide__store_tell(table->store, to, op, &m);
}

/* 1: it has left before. The slot's route changes before its rows leave: from then on workers and messages go to the
 * new home, which knows that the rows are coming. Out of memory: the rest leaves at the next try; the new home waits
 * for SLOT_DONE. */
static int depart_slot(struct slot_send *d, uint32_t slot) {
    TIDE_SOMETIMES(slot_departs);
    struct tide_table *table = d->table;
    uint16_t lost_to = 0;
    if (table->slot_versions[slot] >= d->version) {
        return 1; /* it left, and that was announced: a new controller repeats the order */
    }
    if (tide__route_of(table, slot) & TIDE__MINE) {
        (void)tide__slot_event(table, TIDE__SLOT_LEAVES, slot, d->to);
        tide__routes_begin(table);
        tide__route_set(table, slot, d->to);
        table->slot_versions[slot] = d->version;
        tide__raise_version(table, d->version);
        tide__routes_end(table);
    } else if (tide__route_home(tide__route_of(table, slot)) != d->to) {
        lost_to = tide__route_home(tide__route_of(table, slot)); /* it left for a node that died */
    }
    int code = lost_to ? 1 : tide__slot_event(table, TIDE__SLOT_SENDS_ROWS, slot, d->to);
    code = code == 0 ? tide__slot_drain(table, slot, pack, d) : code > 0 ? 0 : code;
    code = code ? code : ship(d);
    code = code || lost_to ? code : tide__slot_event(table, TIDE__SLOT_LEFT, slot, d->to);
    (void)tide__slot_event(table, TIDE__SLOT_FORGOTTEN, slot, 0);
    if (code) {
        return code;
    }
    return tide__slot_say(table, d->to, TIDE__OP_SLOT_DONE, slot, d->version, lost_to);
}

/* Departs the next slot. What its rows take is what their slab has less of then: nearly, for workers use it too. */
static int depart_next(struct slot_send *d) {
    struct tide_table *table = d->table;
    const unsigned before = tide__slab_used(&table->slab);
    int code = depart_slot(d, d->slots[d->at]);
    if (code < 0) {
        return code;
    }
    const unsigned after = tide__slab_used(&table->slab);
    const uint64_t bytes = after < before ? (uint64_t)(before - after) * table->row_floats * 4 : 0;
    d->bytes[d->at++] = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
    d->turn_bytes += bytes;
    d->in_flight_bytes += code == 0 ? d->bytes[d->at - 1] : 0;
    d->in_flight += code == 0;
    return 0;
}

/* ---- slots that are closed ---- */

static bool settled(const struct tide_table *table, uint32_t slot) {
    return !(tide__route_of(table, slot) & (TIDE__AWAITED | TIDE__OWN_HOLD | TIDE__WORKER_HOLD));
}

/* The next slots: what goes to owners of their keys waits here from now on. */
static void close_next(struct tide_store *store, struct slot_send *d) {
    struct tide_table *table = d->table;
    const uint32_t ahead = (uint32_t)tide_limit(store_move_slots);
    const uint32_t most = d->count - d->at < ahead ? d->count : d->at + ahead;
    tide__routes_begin(table);
    while (d->closed < most && settled(table, d->slots[d->closed])) {
        const uint32_t slot = d->slots[d->closed++], route = tide__route_of(table, slot);
        if (route & TIDE__MINE) {
            tide__route_set(table, slot, route | TIDE__CLOSED);
        }
    }
    tide__routes_end(table);
    if (d->closed > d->at) {
        tide__flush_barrier_ask(store, &d->barrier);
    }
}

static void reopen(struct slot_send *d) {
    TIDE_SOMETIMES(departing_slot_opened_again);
    tide__routes_begin(d->table);
    for (uint32_t i = d->at; i < d->closed; i++) {
        const uint32_t route = tide__route_of(d->table, d->slots[i]);
        tide__route_set(d->table, d->slots[i], route & ~TIDE__CLOSED);
    }
    tide__routes_end(d->table);
    tide__parked_retry(d->table);
}

/* Has all that this node sent to owners of keys of the next slot been dealt with? */
static bool is_closed(struct tide_store *store, struct slot_send *d) {
    if (!d->table->operations->owners || TIDE_MUTANT(slot_not_closed)) {
        return true;
    }
    if (d->at == d->closed) {
        close_next(store, d);
    }
    return d->at < d->closed && tide__flush_barrier_came(store, &d->barrier);
}

void tide__slot_sends_advance(struct tide_store *store) {
    struct slot_send *d = store->moves->sends;
    if (!d) {
        return;
    }
    const uint32_t first = d->at;
    d->turn_bytes = 0; /* a slot goes in one turn; between turns operations are served */
    while (d->at < d->count && d->in_flight < tide_limit(store_move_slots) &&
           d->turn_bytes < tide_limit(store_move_turn_bytes) && d->in_flight_bytes < tide_limit(store_move_bytes)) {
        if (!settled(d->table, d->slots[d->at]) || !is_closed(store, d) || TIDE_BUGGIFY(departure_pauses) ||
            depart_next(d)) {
            break;
        }
    }
    if (d->table->operations->owners && d->at > first) {
        tide__parked_retry(d->table); /* what waited for these slots to leave */
    }
    tide__store_event(store, TIDE__STORE_SLOTS_LEFT);
    if (d->at == d->count && d->in_flight == 0) {
        store->moves->sends = d->next;
        slot_send_free(d);
    }
}

void tide__slot_sends_flushed(struct tide_store *store, uint16_t from, uint64_t turn) {
    for (struct slot_send *d = store->moves->sends; d; d = d->next) {
        tide__flush_barrier_hear(&d->barrier, from, turn);
    }
    tide__slot_sends_advance(store);
}

void tide__slot_send_came(struct tide_store *store, const struct tide_table *table, uint32_t slot) {
    for (struct slot_send *d = store->moves->sends; d; d = d->next) {
        for (uint32_t i = 0; i < d->at && d->table == table; i++) {
            if (d->slots[i] == slot && d->in_flight > 0) {
                d->in_flight--;
                d->in_flight_bytes -= d->bytes[i];
                return;
            }
        }
    }
}

/* ---- events ---- */

void tide__slot_sends_end(struct tide_store *store, uint16_t to) {
    for (struct slot_send **place = &store->moves->sends; *place;) {
        struct slot_send *d = *place;
        if (d->to == to) {
            *place = d->next;
            reopen(d);
            slot_send_free(d);
        } else {
            place = &d->next;
        }
    }
}

void tide__slot_sends_release(struct tide_store *store) {
    while (store->moves->sends) {
        struct slot_send *next = store->moves->sends->next;
        slot_send_free(store->moves->sends);
        store->moves->sends = next;
    }
}
