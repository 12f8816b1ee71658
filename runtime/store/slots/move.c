/*
 * Slots change their home. The controller takes every slot off a member that is LEAVING, and those
 * that were requested elsewhere, in batches (table, from, to):
 *
 *   controller --EXPECT--> new home: it awaits the slots, operations on them queue there (EXPECTED
 *       back)
 *   controller --MOVE--> old home (slot_send.c): slot by slot it changes its route, sends the rows
 *       and SLOT_DONE in one turn, and forwards what still comes; the ordered store lane puts every
 *       forwarded operation behind the rows
 *   new home --MOVED--> controller, when it has all
 *   controller --MAP--> all, when all batches of the member (or the one that was asked for) are
 *       done; MAP_DONE comes back when no operation goes by an old home any more; then the member
 *       is evacuated, or the slots may move again
 *
 * Origins (fence). An origin that learns of a new home (by MAP, or because it is the new home)
 * sends nothing to it while it has unanswered operations: workers hand operations on the slot to
 * their own store actor (WORKER_HOLD), which parks them (OWN_HOLD). When everything up to the
 * change is answered the parked ones go out in order; when no worker's message is left in the
 * actor's mailbox, and the rows are here if this node is the new home, workers route for themselves
 * again. So the operations of one worker on one key keep their order.
 *
 * Tables with copies go another way (groups.c, failover.c). In others what dies with a node is lost
 * and said so: slots whose rows were in flight from or to a dead node keep it as their home, and
 * operations on them fail with EDIED.
 */
#include "store/slots/move.h"
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/operation/shard.h"
#include "store/slots/groups.h"

struct tide__fence { /* an origin's */
    struct tide__fence *next;
    uint64_t sequence; /* operations up to here may go the old way */
    bool ready;        /* they are answered; waits for the mailbox */
    uint32_t count;
    uint32_t slots[]; /* UINT32_MAX: a newer fence has it */
};

/* Of a table. */
struct part {
    struct tide__fence *fences;
    uint32_t map_round, map_rounds; /* rounds of MAP that wait for MAP_DONE: the first, how many */
    uint32_t map_term;              /* of the controller that asks */
};

struct slot_receive { /* at the new home */
    struct slot_receive *next;
    struct tide_table *table;
    uint32_t version, count, left;
    uint16_t from;
    uint32_t lost_count;
    uint32_t *lost; /* slots that will not come: slot | node they died with << 16 */
    uint32_t slots[];
};

static struct part *part_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_SLOTS];
}

int tide__moves_create(struct tide_store *store) {
    store->moves = tide_alloc_zero(1, sizeof *store->moves);
    return store->moves ? 0 : tide_fail(TIDE_ENOMEM, "no memory for slot moves");
}

static void slot_receive_free(struct slot_receive *slot_receive) {
    tide_free(slot_receive->lost);
    tide_free(slot_receive);
}

void tide__moves_destroy(struct tide_store *store) {
    struct tide__moves *m = store->moves;
    while (m && m->receives) {
        struct slot_receive *next = m->receives->next;
        slot_receive_free(m->receives);
        m->receives = next;
    }
    if (m) {
        tide__slot_sends_release(store);
        tide__plan_release(store);
        tide__groups_release(store);
    }
    tide_free(store->drain);
    tide_free(m);
}

/* Are slots of the table in flight to or from this node? */
static bool has_moves(const struct tide_store *store, const struct tide_table *table) {
    const struct slot_receive *a = store->moves->receives;
    while (a && a->table != table) {
        a = a->next;
    }
    return a || tide__slot_sends_has(store, table);
}

bool tide__moves_waiting(const struct tide_store *store) {
    return store->moves->fences > 0 || store->moves->sends || store->moves->answers > 0 ||
           (store->leaving && !store->drained);
}

/* ---- routes ---- */

/* Pending lock held, `changes` bumped before. */
void tide__route_set(struct tide_table *table, uint32_t slot, uint32_t route) {
    TIDE_ASSERT(slot < TIDE_SLOT_COUNT);
    /* release: `changes` and the slot's rows before the route; pairs with the acquires of passes */
    atomic_store_explicit(&table->slots[slot].route, route, memory_order_release);
}

/* `changes` moves before and after: a reader in between, and routes both old and new, finds
 * it changed. */
void tide__routes_begin(struct tide_table *table) {
    tide_lock(&table->store->pending.lock);
    atomic_fetch_add_explicit(&table->changes, 1, memory_order_release); /* pairs with the acquire in remote_start */
}

void tide__routes_end(struct tide_table *table) {
    atomic_fetch_add_explicit(&table->changes, 1, memory_order_release); /* pairs with the acquire in remote_start */
    tide_unlock(&table->store->pending.lock);
}

void tide__raise_version(struct tide_table *table, uint32_t version) {
    if (atomic_load_explicit(&table->map_version, memory_order_relaxed) < version) {
        atomic_store_explicit(&table->map_version, version, memory_order_relaxed);
    }
}

void tide__route_clear(struct tide_table *table, uint32_t slot, uint32_t flags) {
    tide__routes_begin(table);
    tide__route_set(table, slot, tide__route_of(table, slot) & ~flags);
    tide__routes_end(table);
}

/* ---- messages of slots ---- */

void tide__move_send(struct tide_store *store, uint16_t to, enum tide__op op, uint32_t table, uint32_t version,
                     uint16_t node, const uint32_t *slots, size_t count, const uint32_t *lost, size_t lost_count) {
    const union tide__message m = {.MOVE = {.table = table,
                                            .version = version,
                                            .node = node,
                                            .slots = TIDE__LIST(slots, count),
                                            .lost = TIDE__LIST(lost, lost_count)}};
    if (tide__store_tell(store, to, op, &m)) {
        tide_log(TIDE_LOG_WARN, tide_node_name(store->node), "a slot move was not told to node %u: %s", (unsigned)to,
                 tide_error_message());
    }
}

/* ---- fences ---- */

/* A newer fence has the slot. */
static void fences_forget(struct tide_table *table, const struct tide__fence *newer) {
    uint64_t slots[TIDE_SLOT_COUNT / 64] = {0};
    for (uint32_t i = 0; i < newer->count; i++) {
        slots[newer->slots[i] / 64] |= UINT64_C(1) << (newer->slots[i] % 64);
    }
    for (struct tide__fence *f = part_of(table)->fences; f; f = f->next) {
        for (uint32_t j = 0; j < f->count; j++) {
            const uint32_t slot = f->slots[j];
            const bool is = slot != UINT32_MAX && (slots[slot / 64] >> (slot % 64) & 1);
            f->slots[j] = is ? UINT32_MAX : slot;
        }
    }
}

/* The new homes of slots, from one moment on. `awaited`: this node is the new home and the rows are
 * in flight. */
static int change_homes(struct tide_table *table, const uint8_t *slots, const uint8_t *homes, uint16_t home,
                        const uint8_t *versions, uint32_t version, size_t count, bool awaited) {
    const uint16_t self = tide__store_self(table->store);
    struct tide__fence *fence = tide_alloc_zero(1, sizeof *fence + count * sizeof fence->slots[0]);
    if (!fence) {
        return TIDE_ENOMEM;
    }
    tide__routes_begin(table);
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = tide__number_at(slots, i), new_version = versions ? tide__number_at(versions, i) : version;
        uint16_t to = homes ? (uint16_t)tide__number_at(homes, i) : home;
        if (new_version <= table->slot_versions[slot] || (to == self && !awaited)) {
            continue; /* stale */
        }
        table->slot_versions[slot] = new_version;
        tide__raise_version(table, new_version);
        fence->slots[fence->count++] = slot;
        tide__route_set(table, slot,
                        to | (awaited ? TIDE__MINE : 0) |
                            (awaited && !TIDE_MUTANT(move_rows_not_awaited) ? TIDE__AWAITED : 0) | TIDE__OWN_HOLD |
                            TIDE__WORKER_HOLD);
    }
    fence->sequence = table->store->pending.sequence;
    tide__routes_end(table);
    if (fence->count == 0) {
        tide_free(fence);
        return 0;
    }
    fences_forget(table, fence);
    fence->next = part_of(table)->fences;
    part_of(table)->fences = fence;
    table->store->moves->fences++;
    tide__table_event(table, TIDE__TABLE_ROUTES_CHANGED);
    return 0;
}

int tide__fence_workers(struct tide_table *table, const uint32_t *slots, size_t count) {
    TIDE_SOMETIMES(fence_set);
    struct tide__fence *fence = tide_alloc_zero(1, sizeof *fence + count * sizeof fence->slots[0]);
    if (!fence) {
        return TIDE_ENOMEM;
    }
    memcpy(fence->slots, slots, count * sizeof *slots);
    fence->count = (uint32_t)count;
    fences_forget(table, fence);
    fence->ready = true; /* what went the old way has gone out again */
    fence->next = part_of(table)->fences;
    part_of(table)->fences = fence;
    table->store->moves->fences++;
    return 0;
}

static void clear_flag(struct tide_table *table, const struct tide__fence *fence, uint32_t flag) {
    for (uint32_t i = 0; i < fence->count; i++) {
        if (fence->slots[i] != UINT32_MAX) {
            tide__route_set(table, fence->slots[i], tide__route_of(table, fence->slots[i]) & ~flag);
        }
    }
}

/* Nothing that workers handed over is left to run here: their messages are handled, and none of the
 * fence's slots still keeps some parked for its rows, or stalled behind a locked one. */
static bool is_drained(const struct tide_table *table, const struct tide__fence *fence) {
    bool awaited = false;
    for (uint32_t i = 0; i < fence->count && !awaited && !TIDE_MUTANT(slot_move_order); i++) {
        awaited = fence->slots[i] != UINT32_MAX && (tide__route_of(table, fence->slots[i]) & TIDE__AWAITED);
    }
    return !awaited && !table->store->stalled &&
           atomic_load_explicit(&table->self_sent, memory_order_relaxed) ==
               atomic_load_explicit(&table->self_handled, memory_order_relaxed);
}

static void each_slot(struct tide_table *table, const struct tide__fence *fence, enum tide__slot_event event) {
    for (uint32_t i = 0; i < fence->count; i++) {
        if (fence->slots[i] != UINT32_MAX) {
            (void)tide__slot_event(table, event, fence->slots[i], 0);
        }
    }
    tide__table_event(table, TIDE__TABLE_SLOTS_DONE);
}

/* True: the fence is gone. */
static bool fence_advance(struct tide_table *table, struct tide__fence *fence) {
    if (TIDE_BUGGIFY(fence_later)) {
        return false;
    }
    if (!fence->ready &&
        (TIDE_MUTANT(move_fence_ignored) || !tide__pending_before(table->store, table, fence->sequence))) {
        tide__routes_begin(table);
        clear_flag(table, fence, TIDE__OWN_HOLD);
        tide__routes_end(table);
        fence->ready = true;
        each_slot(table, fence, TIDE__SLOT_SETTLED);
        tide__parked_retry(table);
        each_slot(table, fence, TIDE__SLOT_OPENED);
    }
    if (!fence->ready) {
        return false;
    }
    tide__routes_begin(table);
    /* Workers of a relocating table hand everything to the store actor in any case. */
    bool drained = table->operations->owners || is_drained(table, fence);
    if (drained) {
        clear_flag(table, fence, TIDE__WORKER_HOLD);
    }
    tide__routes_end(table);
    return drained;
}

static void fences_advance(struct tide_table *table) {
    struct part *part = part_of(table);
    for (struct tide__fence **place = &part->fences; *place;) {
        struct tide__fence *fence = *place;
        if (fence_advance(table, fence)) {
            *place = fence->next;
            tide_free(fence);
            table->store->moves->fences--;
        } else {
            place = &fence->next;
        }
    }
    if (!part->fences && part->map_rounds > 0 && !tide__pending_at_leaver(table) &&
        !tide__table_works(table, TIDE__WORK_OLD_HOMES)) {
        table->store->moves->answers--;
        for (; part->map_rounds > 0; part->map_rounds--) {
            tide__move_send(table->store, tide_net_controller(table->store->net), TIDE__OP_MAP_DONE, table->id,
                            part->map_round++, 0, &part->map_term, 1, NULL, 0);
        }
    }
}

/* Each round has a leaver of its own, which may end when this node has answered: an answer to an earlier round, or to
 * a former controller, does not count for it. */
int tide__move_map(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.MAP) *m = &in->as.MAP;
    const size_t count = m->slots.count;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    if (!table || !tide__are_slots(&m->slots) || m->homes.count != count || m->versions.count != count) {
        return TIDE_EPROTO;
    }
    const uint32_t round = m->round, term = (uint32_t)m->id;
    if (m->id && m->passed_on) {
        tide__pending_passed_on(store, m->id, m->passed_on);
    }
    if (!table->operations->groups) { /* ENOMEM: the old home forwards */
        (void)change_homes(table, m->slots.at, m->homes.at, 0, m->versions.at, 0, count, false);
    }
    for (size_t i = 0; i < count; i++) {
        (void)tide__slot_event(table, TIDE__SLOT_HOME_ANNOUNCED, tide__number_at(m->slots.at, i), 0);
    }
    tide__table_event(table, TIDE__TABLE_SLOTS_DONE);
    if (round && in->from == tide_net_controller(store->net)) {
        struct part *part = part_of(table);
        if (part->map_rounds > 0 && part->map_term != term) {
            part->map_rounds = 0; /* of a former controller: no waiter */
            store->moves->answers--;
        }
        store->moves->answers += part->map_rounds == 0;
        part->map_round = part->map_rounds == 0 ? round : part->map_round;
        part->map_rounds = round - part->map_round + 1; /* each table is notified of all */
        part->map_term = term;
    }
    fences_advance(table);
    return 0;
}

/* ---- the new home ---- */

/* All slots of an arrival are here, or will not come. */
static void receive_over(struct tide_store *store, const struct slot_receive *a) {
    struct tide_member from = {.id = a->from};
    bool known = tide_net_member(store->net, a->from, &from);
    tide_event_add(tide_system_of(store->node), "slots", "%u slots of table %s came from %s to %s%s",
                   (unsigned)a->count, a->table->name, known ? from.name : "a node that is gone",
                   tide_node_name(store->node),
                   a->lost_count > 0                   ? ": some died with a node"
                   : from.state == TIDE_MEMBER_LEAVING ? ": it leaves"
                                                       : ": they were moved");
    tide__move_send(store, tide_net_controller(store->net), TIDE__OP_MOVED, a->table->id, a->version, a->from, a->slots,
                    a->count, a->lost, a->lost_count);
}

static struct slot_receive *find_receive(struct tide_store *store, const struct tide_table *table, uint32_t version) {
    struct slot_receive *a = store->moves->receives;
    while (a && (a->table != table || a->version != version)) {
        a = a->next;
    }
    return a;
}

uint16_t tide__slot_comes_from(const struct tide_table *table, uint32_t slot) {
    for (const struct slot_receive *a = table->store->moves->receives; a; a = a->next) {
        for (uint32_t i = 0; a->table == table && i < a->count; i++) {
            if (a->slots[i] == slot) {
                return a->from;
            }
        }
    }
    return tide__store_self(table->store);
}

static void expected(struct tide_store *store, const struct slot_receive *a) {
    tide__move_send(store, tide_net_controller(store->net), TIDE__OP_EXPECTED, a->table->id, a->version, a->from,
                    a->slots, a->count, NULL, 0);
}

/* A controller that took over sends the order again. Then the move may be in progress, or over, or have
 * failed with the old home's death; or there was no order before that death. */
static void on_expect(struct tide_store *store, struct tide_table *table, uint32_t version, uint16_t from,
                      const uint8_t *slots, size_t count) {
    struct slot_receive *known = find_receive(store, table, version);
    if (known) {
        expected(store, known);
        return;
    }
    const bool gone = store->member_state[from] > 1 + TIDE_MEMBER_LEAVING;
    struct slot_receive *a = tide_alloc_zero(1, sizeof *a + count * sizeof a->slots[0]);
    uint32_t *lost = tide_alloc((count + 1) * sizeof *lost);
    if (!a || !lost ||
        (!gone && change_homes(table, slots, NULL, tide__store_self(store), NULL, version, count, true))) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "no memory to take over slots");
        tide_free(a);
        tide_free(lost);
        return;
    }
    *a = (struct slot_receive){.next = store->moves->receives,
                               .table = table,
                               .version = version,
                               .count = (uint32_t)count,
                               .from = from,
                               .lost = lost};
    for (size_t i = 0; i < count; i++) {
        a->slots[i] = tide__number_at(slots, i);
        uint32_t route = tide__route_of(table, a->slots[i]);
        a->left += (route & TIDE__AWAITED) != 0;
        if (!(route & TIDE__MINE)) {
            a->lost[a->lost_count++] = a->slots[i] | (uint32_t)tide__route_home(route) << 16;
        }
    }
    expected(store, a);
    if (a->left == 0) {
        receive_over(store, a);
        slot_receive_free(a);
        return;
    }
    store->moves->receives = a;
}

static void slot_is_here(struct tide_store *store, struct tide_table *table, uint32_t slot, uint16_t lost_to) {
    uint32_t route = tide__route_of(table, slot);
    if (!(route & TIDE__AWAITED)) {
        return;
    }
    tide__routes_begin(table);
    if (lost_to) {
        tide__route_set(table, slot, lost_to | (route & (TIDE__OWN_HOLD | TIDE__WORKER_HOLD)));
    } else {
        tide__route_set(table, slot, route & ~TIDE__AWAITED);
    }
    tide__routes_end(table);
    for (struct slot_receive **place = &store->moves->receives; *place; place = &(*place)->next) {
        struct slot_receive *a = *place;
        uint32_t i = 0;
        while (i < a->count && (a->table != table || a->slots[i] != slot)) {
            i++;
        }
        if (i == a->count || a->left == 0) {
            continue;
        }
        if (lost_to) {
            a->lost[a->lost_count++] = slot | (uint32_t)lost_to << 16;
        }
        if (--a->left == 0) {
            *place = a->next;
            receive_over(store, a);
            slot_receive_free(a);
        }
        break;
    }
    tide__store_yield(store); /* workers see the new route before what waited has run */
    if (!TIDE_MUTANT(move_parked_forgotten)) {
        tide__parked_retry(table);
    }
    (void)tide__slot_event(table, TIDE__SLOT_ARRIVED, slot, 0);
    fences_advance(table);
}

int tide__rows_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ROWS) *m = &in->as.ROWS;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    const size_t count = m->keys.count;
    size_t split = 0;
    bool good = table && m->marks.count == count && m->slot < TIDE_SLOT_COUNT &&
                m->rows.count % table->row_floats == 0 && m->rows.count / table->row_floats == count &&
                (tide__route_of(table, m->slot) & TIDE__AWAITED);
    for (size_t i = 0; i < count && good; i++) {
        const uint64_t key = tide__long_at(m->keys.at, i);
        good = (table->options.keys == TIDE_KEYS_HASHED || key < table->options.key_count) &&
               tide__slot_of(table, key) == m->slot;
        split += (tide__number_at(m->marks.at, i) & TIDE__MARK_SPLIT) != 0;
    }
    if (!good || m->seconds.count != split * table->row_floats) {
        return TIDE_EPROTO;
    }
    struct tide__misses misses;
    tide__misses_init(&misses);
    struct tide__pass pass = {.table = table,
                              .keys = m->keys.at,
                              .count = count,
                              .in = m->rows.at,
                              .mask = TIDE__MINE,
                              .raw = true,
                              .patient = true,
                              .marks = m->marks.at,
                              .seconds = m->seconds.at,
                              .misses = &misses};
    int code = tide__pass_push(&pass);
    if (code) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "rows of table '%s' are lost on arrival: %s", table->name,
                 tide_error_message());
    }
    tide__misses_release(&misses);
    return 0;
}

void tide__moves_advance(struct tide_store *store) {
    tide__slot_sends_advance(store);
    tide__store_event(store, TIDE__STORE_SLOTS_ADVANCE);
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count && (store->moves->fences || store->moves->answers); id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table && (part_of(table)->fences || part_of(table)->map_rounds > 0)) {
            fences_advance(table);
        }
    }
    if (store->leaving && !store->drained) {
        tide__drain_advance(store);
    }
}

/* The table of what the controller orders. NULL: damaged, or of a controller that is none any more. */
static struct tide_table *ordered(struct tide_store *store, struct tide__incoming *in, uint32_t id,
                                  const struct tide__array *slots) {
    struct tide_table *table = tide__incoming_table(store, in, id);
    in->useless = in->useless || in->from != tide_net_controller(store->net);
    return !in->useless && tide__are_slots(slots) ? table : NULL;
}

/* The table of a message to the controller. NULL: damaged, or this node is not the controller. */
static struct tide_table *reported(struct tide_store *store, struct tide__incoming *in, uint32_t id,
                                   const struct tide__array *slots) {
    struct tide_table *table = tide__incoming_table(store, in, id);
    in->useless = in->useless || !tide__catalog_commands(store);
    return !in->useless && tide__are_slots(slots) ? table : NULL;
}

static int advanced(struct tide_store *store) {
    tide__plan_advance(store);
    tide__moves_advance(store);
    return 0;
}

int tide__expect_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.EXPECT) *m = &in->as.EXPECT;
    struct tide_table *table = ordered(store, in, m->table, &m->slots);
    if (!table) {
        return TIDE_EPROTO;
    }
    on_expect(store, table, m->version, m->node, m->slots.at, m->slots.count);
    return advanced(store);
}

int tide__move_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.MOVE) *m = &in->as.MOVE;
    struct tide_table *table = ordered(store, in, m->table, &m->slots);
    if (!table) {
        return TIDE_EPROTO;
    }
    tide__slot_send_begin(store, table, m->version, m->node, m->slots.at, m->slots.count);
    return advanced(store);
}

int tide__expected_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.EXPECTED) *m = &in->as.EXPECTED;
    if (!reported(store, in, m->table, &m->slots)) {
        return TIDE_EPROTO;
    }
    tide__plan_expected(store, m->table, m->version);
    return advanced(store);
}

int tide__moved_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.MOVED) *m = &in->as.MOVED;
    if (!reported(store, in, m->table, &m->slots)) {
        return TIDE_EPROTO;
    }
    tide__plan_moved(store, m->table, m->version, m->lost.at, m->lost.count);
    return advanced(store);
}

/* Its slot is a term: not what a former controller asked. */
int tide__map_done_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.MAP_DONE) *m = &in->as.MAP_DONE;
    static const struct tide__array none;
    if (!reported(store, in, m->table, &none)) {
        return TIDE_EPROTO;
    }
    if (m->version > 0 && m->slots.count == 1 &&
        tide__number_at(m->slots.at, 0) == (uint32_t)tide_net_term(store->net)) {
        tide__plan_answered(store, in->from, m->table, m->version);
    }
    return advanced(store);
}

int tide__drained_message(struct tide_store *store, struct tide__incoming *in) {
    if (tide__catalog_commands(store)) {
        tide__plan_drained(store, in->from);
        tide__plan_advance(store);
    }
    return 0;
}

int tide__slot_here_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SLOT_HERE) *m = &in->as.SLOT_HERE;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    if (!table || m->slot >= TIDE_SLOT_COUNT) {
        return TIDE_EPROTO;
    }
    tide__slot_send_came(store, table, m->slot);
    return 0;
}

int tide__slot_done_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SLOT_DONE) *m = &in->as.SLOT_DONE;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    if (!table || m->slot >= TIDE_SLOT_COUNT) {
        return TIDE_EPROTO;
    }
    slot_is_here(store, table, m->slot, m->lost_to);
    (void)tide__slot_say(table, in->from, TIDE__OP_SLOT_HERE, m->slot, 0, 0);
    return 0;
}

/* A dead or departed node: what it should have sent will not come, what it should have taken stays.
 */
static void member_gone(struct tide_store *store, uint16_t id) {
    struct tide__moves *m = store->moves;
    for (struct slot_receive *a = m->receives, *next; a; a = next) {
        next = a->next;
        if (a->from != id) {
            continue;
        }
        for (uint32_t i = 0, count = a->count; i < count; i++) {
            uint32_t slot = a->slots[i];
            bool last = a->left == 1 && (tide__route_of(a->table, slot) & TIDE__AWAITED);
            slot_is_here(store, a->table, slot, id);
            if (last) {
                break; /* the arrival is gone */
            }
        }
    }
    tide__slot_sends_end(store, id);
}

static void on_member(struct tide_store *store, const struct tide_member *member) {
    if (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT) {
        member_gone(store, member->id);
    }
}

void tide__moves_settle(struct tide_store *store, const struct tide_member *member) {
    if (tide__catalog_commands(store)) {
        tide__groups_member(store, member);
    }
    if (member->state == TIDE_MEMBER_LEAVING && member->id == tide__store_self(store)) {
        store->leaving = true;
    }
    if (tide__catalog_commands(store)) {
        tide__plan_member(store, member);
    }
    tide__moves_advance(store);
}

static uint64_t end_of_turn(struct tide_store *store) {
    if (!tide__moves_waiting(store)) {
        return 0;
    }
    tide__moves_advance(store);
    return TIDE_SECOND / 1000;
}

static int table_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    table->parts[TIDE__PART_SLOTS] = tide_alloc_zero(1, sizeof(struct part));
    return part_of(table) ? 0 : tide_fail(TIDE_ENOMEM, "no memory for table '%s'", table->name);
}

static void table_event(struct tide_table *table, enum tide__table_event event) {
    struct part *part = part_of(table);
    if (part && event == TIDE__TABLE_FREED) {
        while (part->fences) {
            struct tide__fence *next = part->fences->next;
            tide_free(part->fences);
            part->fences = next;
        }
        tide_free(part);
    }
}

static bool table_works(struct tide_table *table, enum tide__table_work work) {
    return work == TIDE__WORK_IN_FLIGHT &&
           (part_of(table)->fences || part_of(table)->map_rounds > 0 || has_moves(table->store, table));
}

const struct tide__technique tide__slots = {
    .name = "slots",
    .member_changed = on_member,
    .end_of_turn = end_of_turn,
    .table_create = table_create,
    .table_event = table_event,
    .table_works = table_works,
};
