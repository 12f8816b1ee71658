/*
 * Tables of a node: their objects, options, look-up and statistics; the store itself. A table lives
 * until it is dropped (table_drop.c) and no holder is left, or the store ends. How all nodes
 * come to have the same tables: catalog.c.
 */
#include "store/core/send.h"
#include "store/core/options.h"
#include "store/core/table_drop.h"
#include "store/rows/rules.h"
#include "store/core/key_counts.h"
#include "store/core/technique.h"
#include "store/rows/cut.h"
#include "tide/stats.h"

/* ---- tables ---- */

int tide__table_make(struct tide_store *store, uint32_t id, const struct tide_table_options *options,
                     const uint16_t *homes, const uint64_t *chains, struct tide_table **out) {
    struct tide_table_options resolved = *options;
    int code = tide__rule_resolve(store->port, &resolved);
    if (code) {
        return code;
    }
    struct tide_table *table = tide_alloc_aligned(_Alignof(struct tide_table), sizeof *table);
    if (!table) {
        return tide_fail(TIDE_ENOMEM, "no memory for table '%s'", options->name);
    }
    memset(table, 0, sizeof *table);
    table->store = store;
    table->options = resolved;
    (void)snprintf(table->name, sizeof table->name, "%s", options->name);
    table->options.name = table->name;
    table->made = table->options;
    (void)snprintf(table->why[0], sizeof table->why[0], "pull %s", table->name);
    (void)snprintf(table->why[1], sizeof table->why[1], "push %s", table->name);
    table->id = id;
    table->width = options->width;
    table->row_floats = tide__row_floats(&resolved);
    table->places_max = (options->key_count + TIDE_SLOT_COUNT - 1) / TIDE_SLOT_COUNT;
    code = tide__run_take_table(store, table);
    if (code) {
        tide_free(table);
        return code;
    }
    tide__slab_init(&table->slab, table->row_floats, table->budget);
    uint16_t self = tide__store_self(store);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home = homes ? homes[s] : self;
        atomic_init(&table->slots[s].route, home == self ? home | TIDE__MINE : home);
    }
    table->parked_end = &table->parked;
    table->heat = tide__heat_create();
    code = table->heat ? 0 : tide_fail(TIDE_ENOMEM, "no memory for table '%s'", options->name);
    for (size_t i = 0; store->techniques[i] && !code; i++) { /* relocating: sees the tier, which comes before */
        code = store->techniques[i]->table_create ? store->techniques[i]->table_create(table, chains) : 0;
    }
    if (code) {
        tide__table_event(table, TIDE__TABLE_FREED);
        tide__heat_destroy(table->heat);
        tide__run_give_table(table);
        tide_free(table);
        return code;
    }
    tide_budget_keep(table->budget, sizeof *table);
    *out = table;
    return 0;
}

void tide__table_destroy(struct tide_table *table) {
    if (table) {
        tide_budget_drop(table->budget,
                         sizeof *table + atomic_load_explicit(&table->index_bytes, memory_order_relaxed));
        tide__table_event(table, TIDE__TABLE_FREED);
        tide__slots_deinit(table);
        tide__cut_deinit(table);
        tide__slab_deinit(&table->slab);
        tide__heat_destroy(table->heat);
        tide__run_give_table(table);
        tide_free(table);
    }
}

void tide__table_publish(struct tide_store *store, struct tide_table *table) {
    const unsigned place = table->id & (TIDE__TABLES_MAX - 1);
    TIDE_ASSERT(place > 0);
    atomic_store_explicit(&store->tables[place], table, memory_order_release); /* pairs with the look-ups below */
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    if (count < place) {
        atomic_store_explicit(&store->table_count, place, memory_order_release);
    }
}

struct tide_table *tide__table_by_id(struct tide_store *store, uint64_t id) {
    struct tide_table *table = id <= UINT32_MAX ? tide__table_at(store, id & (TIDE__TABLES_MAX - 1)) : NULL;
    return table && (table->id == id || TIDE_MUTANT(drop_life_ignored)) ? table : NULL;
}

static bool may_be_found(const struct tide_table *table) {
    return table && atomic_load_explicit(&table->ready, memory_order_acquire) &&
           !atomic_load_explicit(&table->closing, memory_order_relaxed);
}

/* Held. */
static struct tide_table *find(struct tide_store *store, const char *name) {
    const unsigned entered = tide__tables_enter(store);
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    struct tide_table *found = NULL;
    for (unsigned id = 1; id <= count && !found; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (may_be_found(table) && strcmp(table->name, name) == 0) {
            tide__table_hold(table);
            found = table;
        }
    }
    tide__tables_leave(store, entered);
    return found;
}

int tide_table_find(struct tide_node *node, const char *name, struct tide_table **out) {
    struct tide_store *store = tide_store_of(node);
    *out = store && name ? find(store, name) : NULL;
    return *out ? 0 : tide_fail(TIDE_ENOENT, "no table '%s'", name ? name : "");
}

const struct tide_table_options *tide_table_options(const struct tide_table *table) {
    return &table->made;
}

static int create_here(struct tide_store *store, const struct tide_table_options *options, struct tide_table **out) {
    unsigned id = atomic_load_explicit(&store->table_count, memory_order_relaxed) + 1;
    if (id >= TIDE__TABLES_MAX) {
        return tide_fail(TIDE_EFULL, "a node holds at most %d tables", TIDE__TABLES_MAX - 1);
    }
    int code = tide__memory_admit_table_here(store, options);
    code = code ? code : tide__table_make(store, id, options, NULL, NULL, out);
    if (!code) {
        tide__table_hold(*out);
        atomic_store(&(*out)->ready, true);
        tide__table_publish(store, *out);
    }
    return code;
}

static int same_or_mismatch(struct tide_table *table, const struct tide_table_options *options,
                            struct tide_table **out) {
    const int code = tide__options_agree(&table->made, options);
    if (code) {
        tide_table_release(table);
        return code;
    }
    *out = table;
    return 0;
}

int tide__ask_controller(struct tide_store *store, enum tide__op op, const union tide__message *m, bool patient) {
    const uint64_t until = tide_port_now(store->port) + tide_limit(store_operation_timeout);
    int code;
    for (;;) {
        struct tide_reply *reply = NULL;
        uint16_t controller = tide_net_controller(store->net);
        code = controller == 0 ? tide_fail(TIDE_EUNREACHABLE, "no controller is known")
                               : tide__store_call(controller, op, m, tide_limit(store_operation_timeout), &reply);
        tide_reply_free(reply);
        const bool away = code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_EBUSY;
        const bool again = (away && tide_net_durable(store->net)) || (patient && code == TIDE_EBUSY);
        if (!again || tide_port_now(store->port) >= until) {
            break;
        }
        code = tide_sleep(TIDE_SECOND / (patient ? 50 : 20));
        if (code) {
            break;
        }
    }
    return code;
}

/* CREATE: a controller finds what was decided, so asking twice makes one table. */
static int ask_to_create(struct tide_store *store, const struct tide_table_options *options) {
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__options_write(&w, options);
    const int code =
        w.error ? w.error : tide__ask_controller(store, TIDE__AS(CREATE, .options = TIDE__LIST(w.data, w.size)), false);
    tide_writer_release(&w);
    return tide__memory_told(code);
}

int tide_tables_forget(struct tide_node *node) {
    struct tide_store *store = tide_store_of(node);
    struct tide_reply *reply = NULL;
    if (!store || !store->net) {
        return tide_fail(TIDE_EUNSUPPORTED, "this node has no cluster whose tables could be forgotten");
    }
    const int code = tide__store_call(tide__store_self(store), TIDE__AS(FORGET, .none = 0),
                                      tide_limit(store_operation_timeout), &reply);
    tide_reply_free(reply);
    return code;
}

int tide__table_create_in(struct tide_store *store, const struct tide_table_options *given, struct tide_table **out) {
    struct tide_table_options options;
    int code =
        tide__layout_read("table", given, TIDE_LAYOUT(struct tide_table_options, tier_disk), &options, sizeof options);
    code = code ? code : tide__rule_resolve(store->port, &options);
    code = code ? code : tide__options_check(&options);
    if (code) {
        return code;
    }
    struct tide_table *table = find(store, options.name);
    if (table) {
        return same_or_mismatch(table, &options, out);
    }
    if (!store->net) {
        return options.replicas
                   ? tide_fail(TIDE_ENOREPLICA, "table '%s' requires copies, and there is no cluster", options.name)
                   : create_here(store, &options, out);
    }
    code = ask_to_create(store, &options);
    if (code == TIDE_EREFUSED && strstr(tide_error_message(), "other options")) {
        return tide_fail(TIDE_EMISMATCH, "%s", tide_error_message());
    }
    if (code) {
        return code;
    }
    table = find(store, options.name);
    return table ? same_or_mismatch(table, &options, out)
                 : tide_fail(TIDE_EPROTO, "the controller did not hand out table '%s'", options.name);
}

int tide_table_create(struct tide_node *node, const struct tide_table_options *options, struct tide_table **out) {
    struct tide_store *store = tide_store_of(node);
    return store ? tide__table_create_in(store, options, out) : tide_fail(TIDE_ECLOSED, "this node has no store");
}

/* ---- what one can ask of a table ---- */

static uint64_t total(const struct tide_table *table, enum tide__counter counter) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < TIDE__STRIPES; i++) {
        sum += atomic_load_explicit(&table->stripes[i].value[counter], memory_order_relaxed);
    }
    return sum;
}

void tide_table_stats(struct tide_table *table, struct tide_table_stats *out) {
    *out = (struct tide_table_stats){
        .pulls_local = total(table, TIDE__PULLS_LOCAL),
        .pulls_remote = total(table, TIDE__PULLS_REMOTE),
        .pushes_local = total(table, TIDE__PUSHES_LOCAL),
        .pushes_remote = total(table, TIDE__PUSHES_REMOTE),
        .served_pulls = total(table, TIDE__SERVED_PULLS),
        .served_pushes = total(table, TIDE__SERVED_PUSHES),
        .queued = total(table, TIDE__QUEUED),
        .forwarded = total(table, TIDE__FORWARDED),
        .messages_out = total(table, TIDE__MESSAGES_OUT),
        .bytes_out = total(table, TIDE__BYTES_OUT),
        .bytes_in = total(table, TIDE__BYTES_IN),
        .not_finite = total(table, TIDE__NOT_FINITE),
        .rows = tide__slab_used(&table->slab),
        .memory_bytes = tide__slab_bytes(&table->slab) + sizeof *table +
                        atomic_load_explicit(&table->index_bytes, memory_order_relaxed),
        .localized = total(table, TIDE__LOCALIZED),
        .localize_noop = total(table, TIDE__LOCALIZE_NOOP),
        .relocated_in = total(table, TIDE__RELOCATED_IN),
        .relocated_out = total(table, TIDE__RELOCATED_OUT),
        .relocate_ns_sum = total(table, TIDE__RELOCATE_NS),
        .location_used = total(table, TIDE__LOCATION_USED),
        .location_stale = total(table, TIDE__LOCATION_STALE),
        .surprises = total(table, TIDE__SURPRISES),
        .not_admitted = total(table, TIDE__NOT_ADMITTED),
        .evicted = total(table, TIDE__EVICTED),
        .expired = total(table, TIDE__EXPIRED),
    };
    TIDE__EACH_TECHNIQUE(table->store, table_stats, table, out);
}

uint32_t tide_table_slot(const struct tide_table *table, uint64_t key) {
    return tide__slot_of(table, key);
}

void tide_table_homes(struct tide_table *table, uint32_t *counts, size_t limit, uint64_t *version) {
    memset(counts, 0, limit * sizeof *counts);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home = tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
        if (home < limit) {
            counts[home]++;
        }
    }
    if (version) {
        *version = atomic_load_explicit(&table->map_version, memory_order_relaxed);
    }
}

size_t tide_store_tables(struct tide_store *store, struct tide_table **out, size_t limit) {
    size_t found = 0;
    const unsigned entered = tide__tables_enter(store);
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (may_be_found(table)) {
            if (found < limit) {
                tide__table_hold(table);
                out[found] = table;
            }
            found++;
        }
    }
    tide__tables_leave(store, entered);
    return found;
}

/* ---- the store ---- */

/* A joiner learns its id later than it makes its store. */
uint16_t tide__store_learn_self(struct tide_store *store) {
    unsigned self = 0;
    if (store->node) {
        self = store->net ? tide_net_self(store->net) : tide_node_id(store->node);
        atomic_store_explicit(&store->self, self, memory_order_relaxed);
    }
    return (uint16_t)self;
}

bool tide__store_is_controller(struct tide_store *store) {
    return store->net && tide_net_controls(store->net) && tide__store_self(store) != 0;
}

bool tide_store_synced(struct tide_store *store) {
    return atomic_load_explicit(&store->synced, memory_order_acquire); /* pairs with the handler of SYNCED */
}

/* The store actor looks at the member, 0: at all: it may send and set timers. Any thread. */
void tide__store_look_at(struct tide_store *store, uint16_t id) {
    if (tide__store_post(store, TIDE__AS(MEMBERS, .node = id)) != 0) {
        atomic_store_explicit(&store->members_missed, true, memory_order_relaxed);
    }
}

void tide__store_look(struct tide_store *store) {
    tide__store_look_at(store, 0);
}

struct tide_store *tide_store_of(struct tide_node *node) {
    return node->store;
}
