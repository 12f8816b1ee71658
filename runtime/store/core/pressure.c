/*
 * What a node does about its memory budget (base/budget.h). The store actor looks at it from time to
 * time: sums up what waits in queues, announces its grants to peers, and by its tier
 *
 *   tight   grants one operation at a time, to others and to itself;
 *   narrow  localizes nothing; the controller gives it no slots and no copies, homes send none;
 *   full    makes no more rows; gives the checkpoint up that is being written;
 *   over    takes no more members, if it is the controller.
 *
 * A grant is a tenth of the cap, shared by all other members, so that what they may have in flight
 * together is known before any of it comes. A run's budget on the node is a part of it, with a cap of
 * its own. Rows are counted as they are made. A push that would
 * make too many is refused whole, before anything of it was done; what cannot be refused (rows that
 * move, copies, updates of clocks) is counted and moves the tier.
 */
#include "store/core/send.h"
#include "store/core/tiered.h"
#include "store/rows/slot_index.h"
#include "store/core/clock.h"
#include "store/operation/shard.h"

enum { GRANT_PART = 10, NEWS_PART = 64 };

void tide_store_memory(struct tide_store *store, struct tide_store_memory *out) {
    const struct tide_budget *b = &store->budget;
    *out = (struct tide_store_memory){.cap = b->cap,
                                      .used = tide_budget_used(b),
                                      .most = atomic_load_explicit(&b->most, memory_order_relaxed),
                                      .refused = atomic_load_explicit(&b->refused, memory_order_relaxed),
                                      .tier = tide_budget_tier(b)};
}

enum tide_tier tide__memory_tier(struct tide_store *store, uint16_t node) {
    struct tide_memory_report report = {0};
    if (node == tide__store_self(store)) {
        return tide_budget_tier(&store->budget);
    }
    if (store->net) {
        tide_net_memory(store->net, node, &report);
    }
    return report.tier;
}

int tide__memory_refuse(struct tide_store *store, uint16_t node, const char *what) {
    struct tide_memory_report report = {
        .used = tide_budget_used(&store->budget), .cap = store->budget.cap, .tier = tide_budget_tier(&store->budget)};
    char name[96], who[104];
    if (node != tide__store_self(store)) {
        tide_net_memory(store->net, node, &report);
    }
    tide__node_text(store, node, name);
    (void)snprintf(who, sizeof who, "node %s", name);
    atomic_fetch_add_explicit(&store->budget.refused, 1, memory_order_relaxed);
    return tide_net_memory_refuse(who, &report, what);
}

/* The same for a budget of this node (budget.h): its own, or a run's. */
static int refuse_of(struct tide_store *store, const struct tide_budget *budget, const char *what) {
    const uint16_t self = tide__store_self(store);
    if (!budget->parent) {
        return tide__memory_refuse(store, self, what);
    }
    struct tide__run *run = TIDE_CONTAINER(budget, struct tide__run, budget);
    const struct tide_memory_report report = {.used = tide_budget_used(budget), .cap = budget->cap};
    char name[96], who[128];
    tide__node_text(store, self, name);
    (void)snprintf(who, sizeof who, "on node %s run %u", name, run->number);
    atomic_fetch_add_explicit(&run->budget.refused, 1, memory_order_relaxed);
    return tide_net_memory_refuse(who, &report, what);
}

int tide__memory_told(int code) {
    return code == TIDE_EBUSY ? tide_fail_busy(tide_tier_retry_ms(TIDE_TIER_NARROW), "%s", tide_error_message()) : code;
}

/* ---- rows ---- */

/* Bytes that a push to the key would ask for: at home, and never touched. */
static uint64_t growth(struct tide_table *table, uint64_t key, uint32_t mask, uint64_t *rows) {
    const uint32_t number = tide__slot_of(table, key);
    struct tide__slot *slot = &table->slots[number];
    uint64_t old = 0, index = 0;
    /* acquire: as in a pass */
    if ((atomic_load_explicit(&slot->route, memory_order_acquire) & mask) != TIDE__MINE) {
        return 0;
    }
    if (table->options.keys == TIDE_KEYS_HASHED) {
        atomic_uint_fast64_t *word;
        const int code = tide__hashed_lock(table, key, false, 0, false, &word, &old);
        if (code == TIDE__FOUND) {
            tide__word_unlock(word, old);
        } else if (code == TIDE_EBUSY) {
            return 0; /* it is in use: it has a row */
        }
        index = 2 * sizeof(struct tide__entry);
    } else {
        atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_acquire);
        old = words ? atomic_load_explicit(words + tide__place_of(table, number, key), memory_order_relaxed) : 0;
        index = words ? 0 : table->places_max * sizeof *words;
    }
    const bool absent = tide__word_state(old) == TIDE__ABSENT && !(old & TIDE__WORD_AWAY);
    *rows += absent;
    return absent ? index : 0;
}

/* Of `count` keys, at positions `index` (NULL: all). */
static int admit_rows(struct tide_table *table, const void *keys, const uint32_t *index, size_t count, uint32_t mask) {
    struct tide_store *store = table->store;
    const struct tide_budget *budget = table->budget;
    const uint64_t row = table->slab.stride;
    uint64_t rows = 0, bytes = 0;
    if (tide__tiered_of(table) && tide__tier_short(table)) {
        tide__tiered_of(table)->hold_rows(table);
    }
    if (!tide_budget_lacking(budget, count * (row + table->places_max * sizeof(uint64_t)))) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        memcpy(&key, (const char *)keys + (size_t)(index ? index[i] : i) * sizeof key, sizeof key);
        bytes += growth(table, key, mask, &rows);
    }
    const uint64_t spare = tide__slab_spare(&table->slab);
    bytes += rows > spare && !tide__tiered_of(table) ? (rows - spare) * row
                                                     : 0; /* with a tier they wait until others are frozen */
    if (table->options.evict && tide__slab_used(&table->slab) >= table->options.key_limit) {
        return 0; /* others make room */
    }
    const struct tide_budget *lacking =
        rows && (bytes || !tide__tiered_of(table)) ? tide_budget_lacking(budget, bytes) : NULL;
    if (!lacking) {
        return 0;
    }
    char what[160];
    (void)snprintf(what, sizeof what, "%llu more rows of table '%s' would be too much", (unsigned long long)rows,
                   table->name);
    return refuse_of(store, lacking, what);
}

int tide__memory_admit_rows(const struct tide__pass *pass) {
    return admit_rows(pass->table, pass->keys, pass->index, pass->count, pass->mask);
}

int tide__memory_admit_job(const struct tide__job *job) {
    /* What a copy has in it already is an update that its workers have seen. */
    const bool asked = job->kind == TIDE__PUSH && !(job->flags & TIDE__OF_COPY);
    int code = asked ? admit_rows(job->table, job->keys, NULL, job->count, TIDE__FOR_FOREIGN) : 0;
    return TIDE_MUTANT(memory_rows_unbounded) ? 0 : code;
}

/* ---- tables, slots and copies: the controller ---- */

int tide__memory_admit_table(struct tide_store *store, const char *name) {
    for (unsigned node = 1; node < store->members_end; node++) {
        struct tide_memory_report report;
        if (!tide__member_lives(store, node)) {
            continue;
        }
        tide_net_memory(store->net, (uint16_t)node, &report);
        const uint64_t least = report.used + sizeof(struct tide_table);
        if (report.tier >= TIDE_TIER_FULL || (report.cap > 0 && least > report.cap)) {
            char what[100];
            (void)snprintf(what, sizeof what, "there is no room for another table, '%s'", name);
            return tide__memory_refuse(store, (uint16_t)node, what);
        }
    }
    return 0;
}

int tide__memory_admit_table_here(struct tide_store *store, const struct tide_table_options *options) {
    const struct tide__run *run = options->run ? tide__run_find(store, options->run) : NULL;
    const struct tide_budget *budget = run ? &run->budget : NULL;
    const bool lacks = budget && budget->cap > 0 && tide_budget_used(budget) + sizeof(struct tide_table) > budget->cap;
    char what[100];
    (void)snprintf(what, sizeof what, "there is no room for another table, '%s'", options->name);
    return lacks ? refuse_of(store, budget, what) : 0;
}

bool tide__memory_takes_rows(struct tide_store *store, uint16_t node) {
    return tide__memory_tier(store, node) < TIDE_TIER_NARROW;
}

size_t tide__memory_prefer(struct tide_store *store, uint16_t *nodes, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        kept += tide__memory_takes_rows(store, nodes[i]);
    }
    for (size_t i = 0, to = 0; kept > 0 && i < count; i++) {
        if (tide__memory_takes_rows(store, nodes[i])) {
            nodes[to++] = nodes[i];
        }
    }
    return kept > 0 ? kept : count;
}

/* ---- looking ---- */

static uint64_t queued(struct tide_store *store) {
    return tide_net_queued(store->net) + tide_system_mailbox_bytes(store->system) + store->parked_bytes;
}

static uint64_t others_up(struct tide_store *store) {
    uint64_t count = 0;
    for (unsigned node = 1; node < store->members_end; node++) {
        count +=
            store->member_state[node] == 1 + TIDE_MEMBER_UP || store->member_state[node] == 1 + TIDE_MEMBER_JOINING;
    }
    return count > 1 ? count - 1 : 1;
}

static void announce(struct tide_store *store, enum tide_tier before, enum tide_tier tier) {
    TIDE_SOMETIMES(memory_tier_changed);
    static const char *const what[] = {"it is out of trouble", "it grants one operation at a time",
                                       "no rows come here any more that could be elsewhere",
                                       "its tables make no more rows, and checkpoints are given up",
                                       "it is over its cap, and nobody may join it"};
    char used[24], cap[24];
    tide_bytes_text(tide_budget_used(&store->budget), used);
    tide_bytes_text(store->budget.cap, cap);
    tide_log(tier >= TIDE_TIER_FULL && tier > before ? TIDE_LOG_ERROR
             : tier > before                         ? TIDE_LOG_WARN
                                                     : TIDE_LOG_INFO,
             tide_node_name(store->node), "memory: %s of %s are in use: %s", used, cap, what[tier]);
    tide_event_add(tide_system_of(store->node), "memory", "node %s uses %s of its %s of memory: %s",
                   tide_node_name(store->node), used, cap, what[tier]);
}

static bool differs_much(uint64_t a, uint64_t b, uint64_t part) {
    return (a > b ? a - b : b - a) > part;
}

static void tell(struct tide_store *store, enum tide_tier tier) {
    struct tide__pressure *p = &store->pressure;
    const uint64_t cap = store->budget.cap;
    const struct tide_memory_report report = {.used = tide_budget_used(&store->budget),
                                              .cap = cap,
                                              .grant = tier > TIDE_TIER_CALM ? 0 : cap / GRANT_PART / p->others,
                                              .tier = tier};
    if (report.grant != p->told.grant || report.tier != p->told.tier || p->told.cap == 0 ||
        differs_much(report.used, p->told.used, cap / NEWS_PART)) {
        p->told = report;
        tide_net_report_memory(store->net, &report);
        tide__admission_own(store, report.grant);
    }
}

static void look(struct tide_store *store) {
    const enum tide_tier before = tide_budget_tier(&store->budget);
    const enum tide_tier tier = tide_budget_look(&store->budget, queued(store));
    tell(store, tier);
    if (tier != before) {
        announce(store, before, tier);
        tide__store_look(store); /* the controller may plan again, or not */
    }
    if (tier >= TIDE_TIER_FULL) {
        tide__store_event(store, TIDE__STORE_MEMORY_FULL);
    }
}

static void look_later(struct tide_store *store) {
    store->pressure.runs = tide_timer_start(tide_limit(store_pressure_look), &store->pressure.timer) == 0;
}

/* Another node's word is another. I/O thread. */
static void heard(void *arg, uint16_t node) {
    struct tide_store *store = arg;
    struct tide_memory_report report;
    tide_net_memory(store->net, node, &report);
    tide__admission_granted(store, node, report.grant);
    if (tide_net_controls(store->net)) {
        tide__store_look(store);
    }
}

void tide__pressure_member(struct tide_store *store, uint16_t node) {
    struct tide_memory_report report;
    tide_net_memory(store->net, node, &report);
    if (report.cap > 0) { /* it said so before this store could hear it */
        tide__admission_granted(store, node, report.grant);
    }
    if (store->pressure.runs) {
        store->pressure.others = others_up(store);
    }
}

void tide__pressure_watch(struct tide_store *store) {
    tide_net_watch_memory(store->net, heard, store);
}

void tide__pressure_begin(struct tide_store *store) {
    if (store->budget.cap > 0 && !store->pressure.runs && store->net) {
        store->pressure.others = others_up(store);
        look(store);
        look_later(store);
    }
}

bool tide__pressure_timer(struct tide_store *store, uint64_t id) {
    if (!store->pressure.runs || store->pressure.timer != id) {
        return false;
    }
    look(store);
    look_later(store);
    return true;
}
