/*
 * The controller decides the groups of slots with copies: at creation, balanced; when a node died,
 * the next of the chain becomes home; when copies are missing, or a member leaves, another node
 * gets the slot first and is counted in when the home says that it has it. Each change has a number
 * of its own and goes to all members. A slot without a live member is lost, and stays so.
 */
#include "store/core/send.h"
#include "store/slots/move.h"
#include "store/slots/groups.h"

static bool stays(const struct tide_store *store, uint16_t node) {
    return store->member_state[node] == 1 + TIDE_MEMBER_UP;
}

void tide__groups_choose(struct tide__catalog_entry *entry, const uint16_t *nodes, size_t count) {
    for (size_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        size_t home = 0;
        while (nodes[home] != entry->homes[s]) {
            home++;
        }
        /* The copies of one home lie with all others in turn. */
        size_t turn = entry->options.slots == TIDE_SLOTS_RANGE ? s : s / count;
        entry->chains[s] = 0;
        for (size_t i = 0; i < entry->options.replicas && i + 1 < count; i++) {
            size_t step = 1 + (turn + i) % (count - 1);
            entry->chains[s] = tide__chain_append(entry->chains[s], nodes[(home + step) % count]);
        }
    }
}

/* ---- telling ---- */

struct news {
    uint32_t count;
    uint32_t slots[TIDE_SLOT_COUNT];
};

struct told { /* once it is recorded */
    struct told *next;
    struct tide_store *store;
    struct tide_writer groups;
};

static void told_free(struct told *told) {
    if (told) {
        tide_writer_release(&told->groups);
    }
    tide_free(told);
}

/* Perhaps outside of the store actor, which alone may send. */
static void recorded(void *arg, int code) {
    struct told *told = arg;
    struct tide_store *store = told->store;
    if (code) {
        told_free(told);
        tide__plan_recorded(store, code);
        return;
    }
    struct told **end = &store->moves->told;
    while (*end) {
        end = &(*end)->next;
    }
    *end = told;
    tide__store_look(store);
}

void tide__groups_tell(struct tide_store *store) {
    const bool commands = tide__catalog_commands(store); /* else another one announces it */
    struct told *told;
    while ((told = store->moves->told)) {
        store->moves->told = told->next;
        for (uint16_t node = 1; node < store->members_end && commands; node++) {
            if (tide__member_lives(store, node)) {
                (void)tide__store_send(store, node, TIDE_LANE_STORE, true, told->groups.data, told->groups.size, NULL);
            }
        }
        told_free(told);
        tide__plan_recorded(store, 0); /* nothing is planned on what was not announced */
    }
}

void tide__groups_release(struct tide_store *store) {
    struct told *told;
    while ((told = store->moves->told)) {
        store->moves->told = told->next;
        told_free(told);
    }
}

/* *takes* told, also when it fails. */
static int record(struct tide_store *store, const struct tide__catalog_entry *entry, struct told *told) {
    struct tide_writer w;
    char key[TIDE__CATALOG_KEY_BYTES];
    tide__catalog_write(entry, &w, key);
    int code = !told || w.error || told->groups.error ? TIDE_ENOMEM : 0;
    if (code) {
        told_free(told);
    } else {
        store->moves->recording++;
        tide_net_record(store->net, &(struct tide_control_put){key, w.data, w.size}, 1, recorded, told);
    }
    tide_writer_release(&w);
    return code;
}

/* Recorded before it is announced. What could not be sent is sent again to all at the next
 * event (entry->tell). */
static void tell(struct tide_store *store, struct tide__catalog_entry *entry, const struct news *news, uint16_t cause) {
    struct told *told = tide_alloc_zero(1, sizeof *told);
    uint32_t *homes = tide_alloc((news->count + 1) * (2 * sizeof(uint32_t) + sizeof(uint64_t)));
    if (!homes || !told) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "no memory to tell the groups of table '%s'",
                 entry->name);
        entry->tell = true;
        tide_free(homes);
        tide_free(told);
        return;
    }
    uint32_t *versions = homes + news->count;
    uint64_t *chains = (uint64_t *)(void *)(versions + news->count);
    entry->version++;
    for (uint32_t i = 0; i < news->count; i++) {
        const uint32_t s = news->slots[i];
        entry->versions[s] = entry->version;
        entry->settling[s] = TIDE__UNSETTLED;
        homes[i] = entry->homes[s];
        versions[i] = entry->version;
        memcpy(&chains[i], &entry->chains[s], sizeof chains[i]);
    }
    struct tide_writer *w = &told->groups;
    told->store = store;
    tide_writer_init(w, NULL, 0);
    tide__message_write(w, TIDE__AS(GROUPS, .table = entry->id, .cause = cause,
                                    .slots = TIDE__LIST(news->slots, news->count),
                                    .homes = TIDE__LIST(homes, news->count), .chains = TIDE__LIST(chains, news->count),
                                    .versions = TIDE__LIST(versions, news->count)));
    entry->tell |= record(store, entry, told) != 0;
    tide_free(homes);
}

/* ---- deaths ---- */

/* True: the slot's group changes. */
static bool bury(struct tide_store *store, struct tide__catalog_entry *entry, uint32_t s, uint16_t dead) {
    const bool was_home = entry->homes[s] == dead;
    const bool joins = entry->joining[s] && (was_home || entry->joining[s] == dead);
    if (entry->chains[s] == TIDE__LOST_CHAIN || (!was_home && !joins && !tide__chain_has(entry->chains[s], dead))) {
        return false;
    }
    entry->joining[s] = 0;
    entry->chains[s] = tide__chain_without(entry->chains[s], dead);
    uint16_t next = tide__chain_at(entry->chains[s], 0);
    while (was_home && next && !tide__member_lives(store, next)) { /* died with it */
        entry->chains[s] = tide__chain_without(entry->chains[s], next);
        next = tide__chain_at(entry->chains[s], 0);
    }
    if (was_home && next) {
        entry->homes[s] = next;
        entry->chains[s] = tide__chain_without(entry->chains[s], next);
    } else if (was_home) {
        entry->chains[s] = TIDE__LOST_CHAIN;
    }
    return true;
}

static void member_gone(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t dead) {
    struct news *news = tide_alloc_zero(1, sizeof *news);
    uint32_t lost = 0;
    for (uint32_t s = 0; news && s < TIDE_SLOT_COUNT; s++) {
        if (bury(store, entry, s, dead)) {
            news->slots[news->count++] = s;
            lost += entry->chains[s] == TIDE__LOST_CHAIN;
        }
    }
    if (!news) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "no memory to regroup table '%s'", entry->name);
        return;
    }
    if (lost) {
        tide_log(TIDE_LOG_WARN, tide_node_name(store->node),
                 "%u slots of table '%s' are lost: node %u died, and no copy was left", (unsigned)lost, entry->name,
                 (unsigned)dead);
    }
    tell(store, entry, news, dead); /* also without slots: what was sent there goes out again */
    tide_free(news);
}

/* A controller that was started again does not know which node got what, and which was about to join:
 * all slots get a new number. */
static void tell_anew(struct tide_store *store, struct tide__catalog_entry *entry) {
    struct news *news = tide_alloc_zero(1, sizeof *news);
    if (!news) {
        return; /* tried again at the next event */
    }
    entry->tell = false;
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        const uint64_t chain = entry->chains[s] == TIDE__LOST_CHAIN ? 0 : entry->chains[s];
        for (unsigned i = 0; tide__chain_at(chain, i); i++) {
            if (!tide__member_lives(store, tide__chain_at(chain, i))) {
                (void)bury(store, entry, s, tide__chain_at(chain, i));
            }
        }
        if (!tide__member_lives(store, entry->homes[s])) {
            (void)bury(store, entry, s, entry->homes[s]);
        }
        entry->joining[s] = 0;
        news->slots[news->count++] = s;
    }
    tell(store, entry, news, 0);
    tide_free(news);
}

/* ---- rebuilding and leaving ---- */

struct survey {            /* of one table */
    const uint16_t *nodes; /* that may hold rows, stay, and have made the table; ascending */
    size_t count;
    uint32_t *load; /* slots each is in the group of, once counted */
    bool counted;
};

static void add_load(struct survey *survey, uint16_t node) {
    size_t low = 0, high = survey->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        low = survey->nodes[middle] < node ? middle + 1 : low;
        high = survey->nodes[middle] < node ? high : middle;
    }
    if (low < survey->count && survey->nodes[low] == node) {
        survey->load[low]++;
    }
}

/* Only when a member is to be chosen: most plans find nothing to do. */
static void count_load(struct survey *survey, const struct tide__catalog_entry *entry) {
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && !survey->counted; s++) {
        const uint64_t chain = entry->chains[s] == TIDE__LOST_CHAIN ? 0 : entry->chains[s];
        add_load(survey, entry->homes[s]);
        add_load(survey, entry->joining[s]);
        for (unsigned i = 0; tide__chain_at(chain, i); i++) {
            add_load(survey, tide__chain_at(chain, i));
        }
    }
    survey->counted = true;
}

/* must: its home leaves, and does not wait for memory. */
static uint16_t choose_new(struct tide_store *store, const struct tide__catalog_entry *entry, uint32_t s,
                           struct survey *survey, bool must) {
    size_t best = SIZE_MAX;
    count_load(survey, entry);
    for (size_t i = 0; i < survey->count; i++) {
        const uint16_t node = survey->nodes[i];
        if ((must || tide__memory_takes_rows(store, node)) && node != entry->homes[s] &&
            !tide__chain_has(entry->chains[s], node) && (best == SIZE_MAX || survey->load[i] < survey->load[best])) {
            best = i;
        }
    }
    if (best == SIZE_MAX) {
        return 0;
    }
    survey->load[best]++;
    return survey->nodes[best];
}

/* The slot's group as it should be with its members. True: it changes now. *joiner: the node that is to get
 * a copy first.
 *
 * A home that stays sends what is unanswered down its new chain; one that goes cannot. So it goes
 * only when nothing is left of the time before its chain changed: a push that was in flight
 * through a node that is in the chain no more would be missing behind it. */
static bool plan_slot(struct tide_store *store, struct tide__catalog_entry *entry, uint32_t s, struct survey *survey,
                      uint16_t *joiner, bool *settles) {
    const bool home_stays = stays(store, entry->homes[s]);
    const size_t wanted = entry->options.replicas + (home_stays ? 0u : 1u);
    const size_t possible = survey->count - (home_stays && survey->count ? 1u : 0u);
    const size_t target = wanted < possible ? wanted : possible;
    uint64_t good = 0, chain = entry->chains[s];
    *joiner = 0;
    if (chain == TIDE__LOST_CHAIN || entry->joining[s]) {
        return false;
    }
    for (unsigned i = 0; tide__chain_at(chain, i); i++) {
        uint16_t node = tide__chain_at(chain, i);
        good = stays(store, node) ? tide__chain_append(good, node) : good;
    }
    if (tide__chain_count(good) < target) {
        if (tide__chain_count(chain) == TIDE__CHAIN_MAX) {
            entry->chains[s] = good; /* room for the successors of leavers */
            return true;
        }
        *joiner = choose_new(store, entry, s, survey, !home_stays);
        return false;
    }
    if (good != chain) {
        entry->chains[s] = good;
        return true;
    }
    if (home_stays || !good || (entry->settling[s] != TIDE__SETTLED && !TIDE_MUTANT(not_settled))) {
        *settles = !home_stays && good && entry->settling[s] == TIDE__UNSETTLED;
        return false;
    }
    entry->homes[s] = tide__chain_at(good, 0);
    entry->chains[s] = tide__chain_without(good, entry->homes[s]);
    return true;
}

enum { CALM = 256 };

/* What is to be done about slots: the joiner, or (0) whether a report is due when all is where it
 * should be. */
struct orders {
    uint16_t joiners[TIDE_SLOT_COUNT];
    bool settles[TIDE_SLOT_COUNT];
    uint32_t slots[TIDE_SLOT_COUNT]; /* of those of one message */
    struct news news;
    struct group { /* there are few, and of most nothing is to be done */
        uint64_t chain;
        uint16_t home;
    } calm[CALM];
};

static bool has_order(const struct orders *orders, uint32_t s) {
    return orders->joiners[s] != 0 || orders->settles[s];
}

static size_t place_of(const struct tide__catalog_entry *entry, uint32_t s) {
    const uint64_t chain = entry->chains[s];
    return (entry->homes[s] + 5 * (chain & 0xffff) + 7 * (chain >> 16)) % CALM;
}

static bool is_calm(const struct orders *orders, const struct tide__catalog_entry *entry, uint32_t s) {
    const struct group *calm = &orders->calm[place_of(entry, s)];
    return entry->joining[s] || (calm->home == entry->homes[s] && calm->chain == entry->chains[s]);
}

/* Of a slot whose home stays nothing counts but its group: the next like it needs no thought. */
static void note_calm(const struct tide_store *store, struct orders *orders, const struct tide__catalog_entry *entry,
                      uint32_t s) {
    const bool planned = orders->news.count && orders->news.slots[orders->news.count - 1] == s;
    if (!planned && !has_order(orders, s) && stays(store, entry->homes[s])) {
        orders->calm[place_of(entry, s)] = (struct group){entry->chains[s], entry->homes[s]};
    }
}

/* The home of slot `first` gets the order for it, and for all others of which it is to do the same. */
static void order(struct tide_store *store, struct tide__catalog_entry *entry, struct orders *orders, uint32_t first) {
    const uint16_t home = entry->homes[first], node = orders->joiners[first];
    size_t count = 0;
    for (uint32_t s = first; s < TIDE_SLOT_COUNT; s++) {
        if (entry->homes[s] != home || !has_order(orders, s) || orders->joiners[s] != node) {
            continue;
        }
        orders->slots[count++] = s;
        orders->joiners[s] = 0;
        orders->settles[s] = false;
        if (node) {
            entry->joining[s] = node;
        } else {
            entry->settling[s] = TIDE__SETTLING;
        }
    }
    tide__move_send(store, home, TIDE__OP_REBUILD, entry->id, entry->version, node, orders->slots, count, NULL, 0);
}

static void plan_entry(struct tide_store *store, struct tide__catalog_entry *entry, const uint16_t *members,
                       size_t member_count) {
    struct orders *orders = tide_alloc_zero(1, sizeof *orders);
    uint16_t *nodes = tide_alloc((member_count + 1) * sizeof *nodes);
    struct survey survey = {.nodes = nodes, .load = tide_alloc_zero(member_count + 1, sizeof *survey.load)};
    for (size_t i = 0; nodes && i < member_count; i++) {
        nodes[survey.count] = members[i];
        survey.count += tide__catalog_has(entry, members[i]);
    }
    if (entry->tell) {
        tell_anew(store, entry);
    }
    const bool memory = orders && nodes && survey.load; /* else at the next event */
    bool any = false;
    for (uint32_t s = 0; memory && s < TIDE_SLOT_COUNT; s++) {
        if (is_calm(orders, entry, s)) {
            continue;
        }
        if (plan_slot(store, entry, s, &survey, &orders->joiners[s], &orders->settles[s])) {
            orders->news.slots[orders->news.count++] = s;
        }
        any |= has_order(orders, s);
        note_calm(store, orders, entry, s);
    }
    if (memory && orders->news.count) {
        tell(store, entry, &orders->news, 0);
    }
    /* Orders follow announcements: if one is still being recorded, they are made again after. */
    any = any && store->moves->recording == 0;
    for (uint32_t s = 0; any && s < TIDE_SLOT_COUNT; s++) {
        if (has_order(orders, s) && tide__member_lives(store, entry->homes[s])) {
            order(store, entry, orders, s);
        }
    }
    tide_free(survey.load);
    tide_free(nodes);
    tide_free(orders);
}

void tide__groups_plan(struct tide_store *store) {
    uint16_t *nodes = NULL;
    size_t count = 0;
    bool any = false;
    for (struct tide__catalog_entry *e = store->catalog->entries; e && !any; e = e->next) {
        any = e->options.replicas && tide__catalog_stands(e);
    }
    if (!any || tide__catalog_homes(store, &nodes, &count)) {
        return;
    }
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->options.replicas && tide__catalog_stands(e)) {
            plan_entry(store, e, nodes, count);
        }
    }
    tide_free(nodes);
}

void tide__groups_member(struct tide_store *store, const struct tide_member *member) {
    if (!tide__member_lives(store, tide__store_self(store)) || tide_net_is_to_end(store->net, member->id)) {
        return; /* the cluster ends */
    }
    const bool planning = store->moves->planning; /* nothing is planned before all are buried */
    store->moves->planning = true;
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->options.replicas && e->phase < TIDE__CATALOG_CLOSE &&
            (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT)) {
            member_gone(store, e, member->id);
        }
    }
    store->moves->planning = planning;
}

/* A slot's group with `node` in another part, if what is said of it, as of `version`, fits; false: it
 * does not. */
typedef bool (*regroup)(struct tide_store *store, struct tide__catalog_entry *entry, uint32_t s, uint32_t version,
                        uint16_t from, uint16_t node);

static void regroup_slots(struct tide_store *store, uint16_t from, uint32_t table, uint32_t version, uint16_t node,
                          const uint8_t *slots, size_t count, regroup change) {
    struct tide__catalog_entry *entry = tide__catalog_entry_of(store, table);
    struct news *news = entry && entry->options.replicas ? tide_alloc_zero(1, sizeof *news) : NULL;
    for (size_t i = 0; news && i < count; i++) {
        const uint32_t s = tide__number_at(slots, i);
        if (change(store, entry, s, version, from, node)) {
            news->slots[news->count++] = s;
        }
    }
    if (news && news->count) {
        tell(store, entry, news, 0);
    }
    tide_free(news);
}

/* The report may be of an order that is older than the last change of the group: a joiner of that
 * one has released the slot on the change, and joins once more. */
static bool has_joined(struct tide_store *store, struct tide__catalog_entry *entry, uint32_t s, uint32_t version,
                       uint16_t from, uint16_t node) {
    const bool old = entry->versions[s] > version && !TIDE_MUTANT(joined_before);
    if (old || entry->homes[s] != from || entry->joining[s] != node || !tide__member_lives(store, node)) {
        return false;
    }
    entry->joining[s] = 0;
    entry->chains[s] = tide__chain_append(entry->chains[s], node);
    return true;
}

static bool has_failed(struct tide_store *store, struct tide__catalog_entry *entry, uint32_t s, uint32_t version,
                       uint16_t from, uint16_t node) {
    (void)store;
    (void)version; /* if it has joined again since, it joins once more */
    (void)from;
    if (entry->chains[s] == TIDE__LOST_CHAIN || entry->homes[s] == node ||
        (entry->joining[s] != node && !tide__chain_has(entry->chains[s], node))) {
        return false;
    }
    entry->joining[s] = 0;
    entry->chains[s] = tide__chain_without(entry->chains[s], node);
    return true;
}

void tide__groups_rebuilt(struct tide_store *store, uint16_t from, uint32_t table, uint32_t version, uint16_t node,
                          const uint8_t *slots, size_t count) {
    struct tide__catalog_entry *entry = tide__catalog_entry_of(store, table);
    for (size_t i = 0; node == 0 && entry && i < count; i++) {
        const uint32_t s = tide__number_at(slots, i);
        if (entry->homes[s] == from && entry->versions[s] <= version) { /* else it has changed since */
            entry->settling[s] = TIDE__SETTLED;
        }
    }
    if (node) {
        regroup_slots(store, from, table, version, node, slots, count, has_joined);
    }
}

void tide__groups_copy_failed(struct tide_store *store, uint32_t table, uint16_t node, const uint8_t *slots,
                              size_t count) {
    regroup_slots(store, 0, table, 0, node, slots, count, has_failed);
}

bool tide__groups_busy(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node) {
    uint16_t *nodes = NULL;
    size_t count = 0;
    bool busy = false;
    if (tide__catalog_homes(store, &nodes, &count)) {
        return true;
    }
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT && !busy && count; s++) {
        busy = entry->chains[s] != TIDE__LOST_CHAIN &&
               (entry->homes[s] == node || tide__chain_has(entry->chains[s], node));
    }
    tide_free(nodes);
    return busy;
}
