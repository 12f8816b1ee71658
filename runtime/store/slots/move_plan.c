/*
 * The controller's side of slot moves: batches that empty a LEAVING member or that were requested
 * for (move_request.c), the map for all nodes, and the moment at which nothing goes by the old
 * home any more. What nodes do: move.c.
 *
 * The old home of a requested batch stays. Would such a slot come back to it while an operation that
 * it has forwarded is still in flight, a later one that goes to it directly could overtake the
 * first. So a requested batch ends, and its slots may move again, only when every member has said
 * that nothing goes by the old map.
 *
 * A batch is recorded before its new home is ordered to expect it, and its end with the new map. So a
 * controller that was started again knows the unfinished batches, and notifies the new homes once more:
 * a home that has it reports its progress.
 */
#include "store/core/send.h"
#include "store/slots/groups.h"
#include "store/slots/move.h"

struct round {             /* a MAP that was sent to all */
    uint32_t number;       /* 0: not yet */
    uint32_t answers_left; /* MAP_DONE of (member, table) */
    uint8_t *awaited;      /* how many tables each member still owes an answer for: u16 by id */
};

struct batch { /* at the controller */
    struct batch *next;
    uint32_t table, version, count;
    uint16_t from, to;
    bool told;      /* recorded, and the new home knows */
    bool requested; /* no leaver's: ends with a round of its own */
    bool arrived;   /* requested: the new home has it, and that is recorded or being so */
    struct round round;
    struct tide__request *request; /* the requester; NULL: a leaver's, or of an earlier controller */
    uint32_t slots[];
};

struct leaver { /* at the controller */
    struct leaver *next;
    uint16_t id;
    bool drained; /* it owns nothing whose home is elsewhere */
    bool told;    /* that no node can take its slots */
    struct round round;
};

static void leaver_free(struct leaver *leaver) {
    tide_free(leaver->round.awaited);
    tide_free(leaver);
}

static void batch_free(struct tide_store *store, struct batch *b, int code) {
    if (b->request) {
        tide__request_part(store, b->request, code, b->to);
    }
    tide_free(b->round.awaited);
    tide_free(b);
}

static struct batch **find_batch(struct tide_store *store, uint32_t table, uint32_t version) {
    struct batch **place = &store->moves->batches;
    while (*place && ((*place)->table != table || (*place)->version != version)) {
        place = &(*place)->next;
    }
    return *place ? place : NULL;
}

bool tide__plan_has(const struct tide_store *store, uint32_t table) {
    const struct batch *b = store->moves->batches;
    while (b && b->table != table) {
        b = b->next;
    }
    return b;
}

static struct leaver *find_leaver(const struct tide_store *store, uint16_t id) {
    struct leaver *leaver = store->moves->leavers;
    while (leaver && leaver->id != id) {
        leaver = leaver->next;
    }
    return leaver;
}

/* ---- recording ---- */

static void tell_batch(struct tide_store *store, struct batch *b) {
    b->told = true;
    tide__move_send(store, b->to, TIDE__OP_EXPECT, b->table, b->version, b->from, b->slots, b->count, NULL, 0);
}

void tide__plan_resume(struct tide_store *store) {
    for (struct batch *b = store->moves->batches; b && store->moves->recording == 0; b = b->next) {
        /* It may be up before this store has looked and sent it the tables: then it looks soon. */
        const bool looked = store->member_state[b->to] > 1 + TIDE_MEMBER_JOINING;
        if (!b->told && (looked || TIDE_MUTANT(joiner_told_early))) {
            tell_batch(store, b);
        }
    }
}

void tide__plan_recorded(struct tide_store *store, int code) {
    store->moves->recording--;
    if (!code && store->moves->recording == 0) {
        tide__store_look(store);
    }
}

static void recorded(void *arg, int code) {
    tide__plan_recorded(arg, code);
}

static void batch_key(const struct batch *b, char key[TIDE__CATALOG_KEY_BYTES]) {
    (void)snprintf(key, TIDE__CATALOG_KEY_BYTES, "batch/%05u/%010u", (unsigned)b->table, (unsigned)b->version);
}

/* A batch begins, has arrived, or ends: it goes with its table's map, both or none. */
static int record(struct tide_store *store, const struct tide__catalog_entry *entry, const struct batch *b,
                  bool stays) {
    char table_key[TIDE__CATALOG_KEY_BYTES], key[TIDE__CATALOG_KEY_BYTES];
    struct tide_writer table, w;
    tide__catalog_write(entry, &table, table_key);
    batch_key(b, key);
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 4);
    tide_write_uint(&w, b->from);
    tide_write_uint(&w, b->to);
    tide_write_typed(&w, TIDE_U32, b->slots, b->count);
    tide_write_bool(&w, b->requested);
    int code = table.error ? table.error : w.error;
    if (!code) {
        const struct tide_control_put puts[] = {{table_key, table.data, table.size},
                                                {key, stays ? w.data : NULL, w.size}};
        store->moves->recording++;
        tide_net_record(store->net, puts, 2, recorded, store);
    }
    tide_writer_release(&table);
    tide_writer_release(&w);
    return code;
}

static int read_batch(const struct tide_control_pair *pair, struct batch **out) {
    unsigned table, version;
    size_t count = 0;
    struct tide_reader r;
    tide_reader_init(&r, pair->value, pair->size);
    (void)tide_read_array(&r);
    uint64_t from = tide_read_uint(&r), to = tide_read_uint(&r);
    const uint8_t *slots = tide_read_typed(&r, TIDE_U32, &count);
    bool requested = tide_read_bool(&r);
    if (r.error || from >= 0x8000 || to >= 0x8000 || count > TIDE_SLOT_COUNT ||
        sscanf(pair->key, "batch/%10u/%10u", &table, &version) != 2) {
        return tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", pair->key);
    }
    struct batch *b = tide_alloc_zero(1, sizeof *b + TIDE_SLOT_COUNT * sizeof b->slots[0]);
    if (!b) {
        return TIDE_ENOMEM;
    }
    b->table = table;
    b->version = version;
    b->from = (uint16_t)from;
    b->to = (uint16_t)to;
    b->count = (uint32_t)count;
    b->requested = requested;
    memcpy(b->slots, slots, count * sizeof b->slots[0]);
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->slots[i] >= TIDE_SLOT_COUNT) {
            tide_free(b);
            return tide_fail(TIDE_EPROTO, "the recorded '%s' is damaged", pair->key);
        }
    }
    *out = b;
    return 0;
}

int tide__plan_load(struct tide_store *store) {
    const struct tide_control_state *state = tide_net_recorded(store->net);
    const struct tide_control_pair *pair = NULL;
    while ((pair = tide_control_list(state, "batch/", pair))) {
        struct batch *b = NULL;
        int code = read_batch(pair, &b);
        if (code) {
            return code;
        }
        b->next = store->moves->batches;
        store->moves->batches = b;
    }
    return 0;
}

/* ---- planning ---- */

int tide__plan_batch(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t from, uint16_t to,
                     const uint16_t *plan, struct tide__request *request) {
    struct batch *b = tide_alloc_zero(1, sizeof *b + TIDE_SLOT_COUNT * sizeof b->slots[0]);
    if (!b) {
        return TIDE_ENOMEM;
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        if (plan[s] == to && entry->homes[s] == from) {
            b->slots[b->count++] = s;
        }
    }
    if (b->count == 0) {
        tide_free(b);
        return 0;
    }
    b->table = entry->id;
    b->version = ++entry->version;
    b->from = from;
    b->to = to;
    b->requested = request;
    b->next = store->moves->batches;
    store->moves->batches = b;
    int code = record(store, entry, b, true);
    if (code) {
        store->moves->batches = b->next;
        tide_free(b);
    } else if (request) {
        b->request = request;
        tide__request_begins(request);
    }
    return code;
}

void tide__plan_moving(const struct tide_store *store, uint32_t table, bool moving[TIDE_SLOT_COUNT]) {
    for (const struct batch *b = store->moves->batches; b; b = b->next) {
        for (uint32_t i = 0; i < b->count && b->table == table; i++) {
            moving[b->slots[i]] = true;
        }
    }
}

/* Gives the slots of a table at `from` to the other homes, the one with the fewest first. 1: there
 * are moves. */
static int plan_table(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t from,
                      const uint16_t *targets, size_t target_count) {
    uint16_t *plan = tide_alloc_zero(TIDE_SLOT_COUNT, sizeof *plan);
    uint32_t *load = tide_alloc_zero(target_count + 1, sizeof *load);
    bool any = false, planned[TIDE_SLOT_COUNT] = {false};
    int code = plan && load ? 0 : TIDE_ENOMEM;
    for (const struct batch *b = store->moves->batches; b; b = b->next) {
        for (uint32_t i = 0; i < b->count && b->table == entry->id; i++) {
            planned[b->slots[i]] = true;
            /* In flight to a node that now leaves: they continue from there. */
            any = any || (b->to == from && !TIDE_MUTANT(leave_before_arrivals));
        }
    }
    bool plans = false; /* pending work is checked often, and mostly all is planned */
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && !plans; s++) {
        const bool here = entry->homes[s] == from;
        any |= here;
        plans = here && !planned[s];
    }
    for (size_t t = 0; t < target_count && plans && !code; t++) {
        for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
            load[t] += entry->homes[s] == targets[t];
        }
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && plans && !code; s++) {
        if (entry->homes[s] != from || planned[s]) {
            continue;
        }
        size_t least = 0;
        for (size_t t = 1; t < target_count; t++) {
            least = load[t] < load[least] ? t : least;
        }
        plan[s] = targets[least];
        load[least]++;
    }
    for (size_t t = 0; t < target_count && plans && !code; t++) {
        code = tide__plan_batch(store, entry, from, targets[t], plan, NULL);
    }
    tide_free(plan);
    tide_free(load);
    return code < 0 ? code : any;
}

/* Of the slots of `b`, or of all. With a round: to be answered when nothing goes by an older map any
 * more. */
static void send_map(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node, uint32_t round,
                     const struct batch *b) {
    const uint32_t count = b ? b->count : TIDE_SLOT_COUNT;
    uint32_t slots[TIDE_SLOT_COUNT], homes[TIDE_SLOT_COUNT], versions[TIDE_SLOT_COUNT];
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = b ? b->slots[i] : i;
        homes[i] = entry->homes[slots[i]];
        versions[i] = entry->versions[slots[i]];
    }
    (void)tide__store_tell(store, node,
                           TIDE__AS(MAP, .table = entry->id, .id = round ? tide_net_term(store->net) : 0,
                                    .round = round, .slots = TIDE__LIST(slots, count),
                                    .homes = TIDE__LIST(homes, count), .versions = TIDE__LIST(versions, count)));
}

/* Every node must know the new homes, and have nothing in flight by the old ones, before the old
 * home may end (of all tables) or get the slots of `b` back. */
static void tell_all(struct tide_store *store, struct round *round, const struct batch *b) {
    round->awaited = tide_alloc_zero(0x8000 * 2, 1);
    if (!round->awaited) {
        return; /* tried again at the next event */
    }
    round->number = ++store->moves->rounds;
    uint16_t owed;
    for (unsigned node = 1; node < store->members_end; node++) {
        if (!tide__member_lives(store, node)) {
            continue;
        }
        owed = 0;
        for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
            if (b ? e->id == b->table : tide__catalog_stands(e)) {
                send_map(store, e, (uint16_t)node, round->number, b);
                owed++;
            }
        }
        memcpy(round->awaited + 2 * node, &owed, sizeof owed);
        round->answers_left += owed;
    }
}

/* A table answers every round up to the newest it was notified of, so also those of other tables'
 * batches. */
static void answered(struct round *round, uint16_t node, bool all) {
    uint16_t owed, drop;
    if (round->awaited && node < 0x8000) {
        memcpy(&owed, round->awaited + 2 * node, sizeof owed);
        drop = all ? owed : owed > 0;
        owed = (uint16_t)(owed - drop);
        memcpy(round->awaited + 2 * node, &owed, sizeof owed);
        round->answers_left -= drop;
    }
}

void tide__plan_answered(struct tide_store *store, uint16_t node, uint32_t table, uint32_t number) {
    const bool all = number == 0;
    for (struct leaver *l = store->moves->leavers; l; l = l->next) {
        if (all || l->round.number == number || TIDE_MUTANT(leave_any_answer)) {
            answered(&l->round, node, all);
        }
    }
    for (struct batch *b = store->moves->batches; b; b = b->next) {
        if (all || (b->round.number == number && b->table == table)) {
            answered(&b->round, node, all);
        }
    }
}

static bool is_home(const struct tide_store *store, uint16_t node) {
    bool any = false;
    for (const struct tide__catalog_entry *e = store->catalog->entries; e && !any; e = e->next) {
        for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT && !any; slot++) {
            any = tide__catalog_stands(e) && e->homes[slot] == node;
        }
    }
    return any;
}

/* True: it is evacuated. */
static bool leaver_advance(struct tide_store *store, struct leaver *leaver) {
    if (TIDE_MUTANT(leave_at_once)) {
        return true;
    }
    if (leaver->round.number) {
        return leaver->round.answers_left == 0 || TIDE_MUTANT(leave_without_answers);
    }
    uint16_t *targets = NULL;
    size_t count = 0;
    if (tide__catalog_homes(store, &targets, &count)) {
        return false;
    }
    bool waits = false, holds = false;
    count = tide__memory_prefer(store, targets, count);
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->phase == TIDE__CATALOG_GONE) {
            continue;
        }
        if (!tide__catalog_stands(e)) {
            waits = true; /* its creation ends soon; then its slots are planned */
        } else if (e->options.replicas) {
            waits |= tide__groups_busy(store, e, leaver->id);
            holds |= count == 0;
        } else if (count > 0) {
            waits |= plan_table(store, e, leaver->id, targets, count) != 0;
        } else {
            holds = true;
        }
    }
    tide_free(targets);
    if (holds && is_home(store, leaver->id) && !tide_net_is_to_end(store->net, leaver->id)) {
        /* Its rows would be lost. It stays while its grace lasts: another node may come. */
        if (!leaver->told) {
            tide_log(TIDE_LOG_WARN, tide_node_name(store->node),
                     "node %u is to leave and nobody can take its slots: it waits for another node",
                     (unsigned)leaver->id);
        }
        leaver->told = waits = true;
    }
    if (!waits && (leaver->drained || holds || TIDE_MUTANT(leave_undrained))) {
        tell_all(store, &leaver->round, NULL);
    }
    return leaver->round.number && leaver->round.answers_left == 0;
}

static void tell_everybody(struct tide_store *store, struct tide__catalog_entry *entry) {
    entry->tell = false;
    for (unsigned node = 1; node < store->members_end; node++) {
        if (tide__member_lives(store, node)) {
            send_map(store, entry, (uint16_t)node, 0, NULL);
        }
    }
}

/* Requested batches that have arrived are announced, and end when no node goes by the old map. */
static void batches_advance(struct tide_store *store) {
    for (struct batch **place = &store->moves->batches; *place;) {
        struct batch *b = *place;
        if (b->arrived && !b->round.number) {
            tell_all(store, &b->round, b);
        }
        if (!b->round.number || b->round.answers_left > 0) {
            place = &b->next;
            continue;
        }
        *place = b->next;
        struct tide__catalog_entry *entry = tide__catalog_entry_of(store, b->table);
        if (entry) {
            (void)record(store, entry, b, false); /* no memory: the next controller resends */
        }
        batch_free(store, b, 0);
    }
}

void tide__plan_advance(struct tide_store *store) {
    if (store->moves->recording > 0 || store->moves->planning || !tide__catalog_commands(store)) {
        return; /* it is called again when that is done */
    }
    store->moves->planning = true;
    tide__groups_plan(store);
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->tell && !e->options.replicas) {
            tell_everybody(store, e);
        }
    }
    batches_advance(store);
    for (struct leaver **place = &store->moves->leavers; *place;) {
        struct leaver *leaver = *place;
        bool gone = !tide__member_lives(store, leaver->id);
        if (!gone && !leaver_advance(store, leaver)) {
            place = &leaver->next;
            continue;
        }
        *place = leaver->next;
        if (!gone) {
            tide_net_evacuated(store->net, leaver->id);
        }
        leaver_free(leaver);
    }
    store->moves->planning = false;
}

void tide__plan_drained(struct tide_store *store, uint16_t node) {
    struct leaver *leaver = find_leaver(store, node);
    if (leaver) {
        leaver->drained = true;
    }
}

void tide__plan_expected(struct tide_store *store, uint32_t table, uint32_t version) {
    struct batch **place = find_batch(store, table, version);
    if (place) {
        struct batch *b = *place;
        tide__move_send(store, b->from, TIDE__OP_MOVE, b->table, b->version, b->to, b->slots, b->count, NULL, 0);
    }
}

/* lost: slot | node << 16 of slots that did not come and whose rows died with that node. */
void tide__plan_moved(struct tide_store *store, uint32_t table, uint32_t version, const uint8_t *lost,
                      size_t lost_count) {
    struct batch **place = find_batch(store, table, version);
    struct tide__catalog_entry *entry = tide__catalog_entry_of(store, table);
    if (!place || !entry || (*place)->arrived) {
        return;
    }
    struct batch *b = *place;
    /* Nodes whose operations the old home passed on may know the new one: the way back is a newer version. */
    const uint32_t back = lost_count > 0 ? ++entry->version : 0;
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t slot = b->slots[i];
        uint16_t home = b->to;
        for (size_t j = 0; j < lost_count; j++) {
            const uint32_t gone = tide__number_at(lost, j);
            home = (gone & 0xffff) == slot ? (uint16_t)(gone >> 16) : home;
        }
        if (entry->versions[slot] < b->version) {
            entry->homes[slot] = home;
            entry->versions[slot] = home == b->to ? b->version : back;
        }
    }
    b->arrived = true;
    if (b->requested) {
        (void)record(store, entry, b, true); /* no memory: the next controller resends */
        return;
    }
    *place = b->next;
    entry->tell |= !tide__member_lives(store, b->from); /* no orderly end of the move will notify the others */
    (void)record(store, entry, b, false);               /* no memory: the next controller resends */
    batch_free(store, b, 0);
}

static void add_leaver(struct tide_store *store, uint16_t id) {
    struct leaver *leaver = find_leaver(store, id) ? NULL : tide_alloc_zero(1, sizeof *leaver);
    if (leaver) {
        leaver->id = id;
        leaver->next = store->moves->leavers;
        store->moves->leavers = leaver;
    }
}

/* No node was notified which of its slots had moved: that was to be at the end of its leave. */
static void tell_for_leaver(struct tide_store *store, uint16_t id) {
    const struct leaver *leaver = find_leaver(store, id);
    const bool untold = leaver && leaver->round.number == 0 && !TIDE_MUTANT(leaver_died_untold);
    for (struct tide__catalog_entry *e = store->catalog->entries; e && untold; e = e->next) {
        e->tell = true;
    }
}

void tide__plan_member(struct tide_store *store, const struct tide_member *member) {
    if (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT) {
        tell_for_leaver(store, member->id);
        for (struct batch **place = &store->moves->batches; *place;) { /* of a live leaver they are planned anew */
            struct batch *b = *place;
            struct tide__catalog_entry *entry = tide__catalog_entry_of(store, b->table);
            if (b->to == member->id && !b->arrived) {
                *place = b->next;
                if (entry) {
                    (void)record(store, entry, b, false);
                }
                batch_free(store, b, TIDE_ELOST);
            } else {
                place = &b->next;
            }
        }
        tide__plan_answered(store, member->id, 0, 0);
    }
    if (member->state == TIDE_MEMBER_LEAVING) {
        add_leaver(store, member->id);
    }
    tide__plan_advance(store);
}

void tide__plan_begin(struct tide_store *store) {
    for (unsigned node = 1; node < store->members_end; node++) {
        if (store->member_state[node] == 1 + TIDE_MEMBER_LEAVING) {
            add_leaver(store, (uint16_t)node);
        }
    }
}

void tide__plan_release(struct tide_store *store) {
    struct tide__moves *m = store->moves;
    while (m->batches) {
        struct batch *next = m->batches->next;
        batch_free(store, m->batches, TIDE_ECLOSED);
        m->batches = next;
    }
    while (m->leavers) {
        struct leaver *next = m->leavers->next;
        leaver_free(m->leavers);
        m->leavers = next;
    }
}
