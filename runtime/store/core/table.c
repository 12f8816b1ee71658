/*
 * Tables of a node: their objects, options, look-up and statistics; the store itself. A table lives
 * until it is dropped (table_drop.c) and nobody holds it any more, or the store ends. How all nodes
 * come to have the same tables: catalog.c.
 */
#include "store/replica/async_replication.h"
#include "store/clocked/clocked.h"
#include "store/checkpoint/node_part.h"
#include "store/core/key_counts.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/hot_keys.h"

#define WINDOW_NS (TIDE_SECOND / 20)
enum { WINDOW_BYTES = 64 << 20 };
enum { KEY_COUNT_MAX_LOG2 = 48, STORE_MESSAGES_MAX = 1 << 20, STORE_BYTES_MAX = 1 << 30 };

/* ---- options ---- */

static int bad_options(const struct tide_table_options *o, const char *what) {
    return tide_fail(TIDE_EINVAL, "table '%s': %s", o->name ? o->name : "", what);
}

static float or_default(float value, float otherwise) {
    return value == 0.0f ? otherwise : value;
}

static int check_durability(struct tide_table_options *o) {
    if (o->replicas > TIDE_REPLICAS_MAX) {
        return bad_options(o, "replicas is 0, 1 or 2");
    }
    if (o->durability == TIDE_DURABLE_DEFAULT) {
        o->durability = o->replicas ? TIDE_DURABLE_STRICT : TIDE_DURABLE_NONE;
    }
    if ((o->durability == TIDE_DURABLE_NONE) != (o->replicas == 0)) {
        return bad_options(o, o->replicas ? "durability none has no copies: replicas = 0"
                                          : "this durability needs replicas = 1 or 2");
    }
    if (o->durability != TIDE_DURABLE_WINDOW) {
        if (o->window_ns || o->window_bytes) {
            return bad_options(o, "window_ns and window_bytes are of durability window");
        }
    } else {
        o->window_ns = o->window_ns ? o->window_ns : WINDOW_NS;
        o->window_bytes = o->window_bytes ? o->window_bytes : WINDOW_BYTES;
        if (o->window_ns < TIDE_WINDOW_NS_MIN || o->window_ns > TIDE_WINDOW_NS_MAX) {
            return bad_options(o, "a window is 4 ms to 10 s long");
        }
        if (o->window_bytes < TIDE_WINDOW_BYTES_MIN || o->window_bytes > TIDE_WINDOW_BYTES_MAX) {
            return bad_options(o, "a window has 64 KiB to 1 GiB");
        }
    }
    if (o->replicas && o->technique != TIDE_STATIC) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "table '%s': rows that relocate have no copies in this version: either "
                         "technique static or replicas 0",
                         o->name);
    }
    return 0;
}

int tide__options_check(struct tide_table_options *o) {
    if (!o->name || !tide_identifier_valid(o->name)) {
        return bad_options(o, "the name is no identifier");
    }
    if (o->keys > TIDE_KEYS_HASHED || o->slots > TIDE_SLOTS_RANGE || o->init > TIDE_INIT_XAVIER ||
        o->update > TIDE_UPDATE_ADAM || o->wire > TIDE_WIRE_BF16 || o->technique > TIDE_INTENT ||
        o->durability > TIDE_DURABLE_WINDOW) {
        return bad_options(o, "unknown keys, slots, init, update, wire, technique or durability");
    }
    if (o->width == 0 || o->width > TIDE__WIDTH_MAX) {
        return tide_fail(TIDE_EINVAL, "table '%s': width %u is not in 1..%d", o->name, o->width,
                         TIDE__WIDTH_MAX);
    }
    if (o->keys == TIDE_KEYS_DENSE &&
        (o->key_count == 0 || o->key_count > UINT64_C(1) << KEY_COUNT_MAX_LOG2)) {
        return bad_options(o, "a dense table needs key_count in 1..2^48");
    }
    if (o->init == TIDE_INIT_XAVIER && !(o->init_a + o->init_b > 0)) {
        return bad_options(o, "xavier needs fan-in and fan-out");
    }
    if (!(o->init_a - o->init_a == 0) || !(o->init_b - o->init_b == 0) || !(o->lr - o->lr == 0)) {
        return bad_options(o, "init_a, init_b and lr must be finite");
    }
    if (o->keys == TIDE_KEYS_HASHED) {
        o->slots = TIDE_SLOTS_HASH;
        o->key_count = 0;
    } else {
        o->key_limit = 0;
    }
    int code = check_durability(o);
    if (code) {
        return code;
    }
    if (o->update == TIDE_UPDATE_ADAGRAD) {
        o->epsilon = or_default(o->epsilon, 1e-10f);
    } else if (o->update == TIDE_UPDATE_ADAM) {
        o->beta1 = or_default(o->beta1, 0.9f);
        o->beta2 = or_default(o->beta2, 0.999f);
        o->epsilon = or_default(o->epsilon, 1e-8f);
        if (!(o->beta1 > 0 && o->beta1 < 1 && o->beta2 > 0 && o->beta2 < 1)) {
            return bad_options(o, "adam's beta1 and beta2 lie between 0 and 1");
        }
    }
    code = tide__consistency_check(o);
    return code || (o->technique != TIDE_REPLICATE && o->technique != TIDE_INTENT)
               ? code
               : tide__shared_check(o);
}

bool tide__options_equal(const struct tide_table_options *a, const struct tide_table_options *b) {
    const float x[] = {a->init_a, a->init_b, a->lr, a->beta1, a->beta2, a->epsilon, a->sum_init};
    const float y[] = {b->init_a, b->init_b, b->lr, b->beta1, b->beta2, b->epsilon, b->sum_init};
    return strcmp(a->name, b->name) == 0 && a->keys == b->keys && a->slots == b->slots &&
           a->init == b->init && a->update == b->update && a->wire == b->wire &&
           a->refuse_nan == b->refuse_nan && a->technique == b->technique &&
           a->key_count == b->key_count && a->key_limit == b->key_limit && a->width == b->width &&
           a->seed == b->seed && a->replicas == b->replicas &&
           a->durability == b->durability && a->window_ns == b->window_ns &&
           a->window_bytes == b->window_bytes && memcmp(x, y, sizeof x) == 0 &&
           tide__consistency_equal(a, b);
}

void tide__options_write(struct tide_writer *w, const struct tide_table_options *o) {
    const float floats[] = {o->init_a, o->init_b,  o->lr,      o->beta1,
                            o->beta2,  o->epsilon, o->sum_init};
    tide_write_array(w, o->window_ns ? 18 : 16);
    tide_write_text(w, o->name);
    tide_write_uint(w, o->keys);
    tide_write_uint(w, o->slots);
    tide_write_uint(w, o->init);
    tide_write_uint(w, o->update);
    tide_write_uint(w, o->wire);
    tide_write_uint(w, o->technique);
    tide_write_uint(w, o->replicas);
    tide_write_uint(w, o->durability);
    if (o->window_ns) {
        tide_write_uint(w, o->window_ns);
        tide_write_uint(w, o->window_bytes);
    }
    tide_write_bool(w, o->refuse_nan);
    tide_write_uint(w, o->key_count);
    tide_write_uint(w, o->key_limit);
    tide_write_uint(w, o->width);
    tide_write_uint(w, o->seed);
    tide_write_typed(w, TIDE_F32, floats, TIDE_COUNT(floats));
    tide__consistency_write(w, o);
}

static uint8_t small(struct tide_reader *r) {
    uint64_t value = tide_read_uint(r);
    return value < UINT8_MAX ? (uint8_t)value : UINT8_MAX;
}

int tide__options_read(struct tide_reader *r, struct tide_table_options *o, char name[64]) {
    memset(o, 0, sizeof *o);
    const size_t fields = tide_read_array(r);
    if (fields != 16 && fields != 18) {
        return tide_fail(TIDE_EPROTO, "table options: not a list of 16 or 18");
    }
    tide_read_text(r, name, 64);
    o->name = name;
    o->keys = small(r);
    o->slots = small(r);
    o->init = small(r);
    o->update = small(r);
    o->wire = small(r);
    o->technique = small(r);
    o->replicas = small(r);
    o->durability = small(r);
    if (fields == 18) {
        o->window_ns = tide_read_uint(r);
        o->window_bytes = tide_read_uint(r);
    }
    o->refuse_nan = tide_read_bool(r);
    o->key_count = tide_read_uint(r);
    o->key_limit = tide_read_uint(r);
    uint64_t width = tide_read_uint(r);
    o->width = width <= TIDE__WIDTH_MAX ? (uint32_t)width : 0;
    o->seed = tide_read_uint(r);
    size_t count = 0;
    float floats[7] = {0};
    const void *data = tide_read_typed(r, TIDE_F32, &count);
    if (r->error || count != TIDE_COUNT(floats)) {
        return tide_fail(TIDE_EPROTO, "table options are damaged");
    }
    memcpy(floats, data, sizeof floats);
    o->init_a = floats[0];
    o->init_b = floats[1];
    o->lr = floats[2];
    o->beta1 = floats[3];
    o->beta2 = floats[4];
    o->epsilon = floats[5];
    o->sum_init = floats[6];
    int code = tide__consistency_read(r, o);
    return code ? code : tide__options_check(o);
}

/* ---- tables ---- */

int tide__table_make(struct tide_store *store, uint32_t id,
                     const struct tide_table_options *options, const uint16_t *homes,
                     const uint64_t *chains, struct tide_table **out) {
    struct tide_table *table = tide_alloc_aligned(_Alignof(struct tide_table), sizeof *table);
    if (!table) {
        return tide_fail(TIDE_ENOMEM, "no memory for table '%s'", options->name);
    }
    memset(table, 0, sizeof *table);
    table->store = store;
    table->options = *options;
    (void)snprintf(table->name, sizeof table->name, "%s", options->name);
    table->options.name = table->name;
    (void)snprintf(table->why[0], sizeof table->why[0], "pull %s", table->name);
    (void)snprintf(table->why[1], sizeof table->why[1], "push %s", table->name);
    table->id = id;
    table->width = options->width;
    table->row_floats =
        options->width + (uint32_t)tide__rule_state(options->update, options->width);
    table->places_max = (options->key_count + TIDE_SLOT_COUNT - 1) / TIDE_SLOT_COUNT;
    tide__slab_init(&table->slab, table->row_floats, &store->budget);
    uint16_t self = tide__store_self(store);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home = homes ? homes[s] : self;
        atomic_init(&table->slots[s].route, home == self ? home | TIDE__MINE : home);
    }
    table->parked_end = &table->parked;
    table->relocates = tide_technique_relocates(options->technique) && store->system;
    table->heat = tide__heat_create();
    int code = !table->heat ? tide_fail(TIDE_ENOMEM, "no memory for table '%s'", options->name)
               : table->relocates ? tide__owner_table_init(table)
                                  : tide__clocked_create(table);
    if (!code && options->replicas && store->system) {
        code = tide__replicas_init(table, chains);
    }
    if (code) {
        tide__heat_destroy(table->heat);
        tide_free(table);
        return code;
    }
    tide_budget_keep(&store->budget, sizeof *table);
    *out = table;
    return 0;
}

void tide__index_counts(struct tide_table *table, int64_t bytes) {
    struct tide_budget *budget = &table->store->budget;
    if (bytes < 0) {
        tide_budget_drop(budget, (uint64_t)-bytes);
    } else {
        tide_budget_keep(budget, (uint64_t)bytes);
    }
    atomic_fetch_add_explicit(&table->index_bytes, (uint64_t)bytes, memory_order_relaxed);
}

void tide__table_destroy(struct tide_table *table) {
    if (table) {
        tide_budget_drop(&table->store->budget,
                         sizeof *table +
                             atomic_load_explicit(&table->index_bytes, memory_order_relaxed));
        tide__clocked_destroy(table);
        tide__intents_destroy(table);
        tide__interest_destroy(table);
        tide__shared_destroy(table);
        tide__moves_table_release(table);
        tide__owner_table_deinit(table);
        tide__replicas_deinit(table);
        tide__slots_deinit(table);
        tide__cut_deinit(table);
        tide__slab_deinit(&table->slab);
        tide__heat_destroy(table->heat);
        tide_free(table);
    }
}

void tide__table_publish(struct tide_store *store, struct tide_table *table) {
    const unsigned place = table->id & (TIDE__TABLES_MAX - 1);
    TIDE_ASSERT(place > 0);
    atomic_store_explicit(&store->tables[place], table,
                          memory_order_release); /* pairs with the look-ups below */
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    if (count < place) {
        atomic_store_explicit(&store->table_count, place, memory_order_release);
    }
}

struct tide_table *tide__table_by_id(struct tide_store *store, uint64_t id) {
    struct tide_table *table =
        id <= UINT32_MAX ? tide__table_at(store, id & (TIDE__TABLES_MAX - 1)) : NULL;
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
    return &table->options;
}

static int create_here(struct tide_store *store, const struct tide_table_options *options,
                       struct tide_table **out) {
    unsigned id = atomic_load_explicit(&store->table_count, memory_order_relaxed) + 1;
    if (id >= TIDE__TABLES_MAX) {
        return tide_fail(TIDE_EFULL, "a node holds at most %d tables", TIDE__TABLES_MAX - 1);
    }
    int code = tide__table_make(store, id, options, NULL, NULL, out);
    if (!code) {
        tide__table_hold(*out);
        atomic_store(&(*out)->ready, true);
        tide__table_publish(store, *out);
    }
    return code;
}

static int same_or_mismatch(struct tide_table *table, const struct tide_table_options *options,
                            struct tide_table **out) {
    if (!tide__options_equal(&table->options, options)) {
        tide_table_release(table);
        return tide_fail(TIDE_EMISMATCH, "table '%s' exists with other options", options->name);
    }
    *out = table;
    return 0;
}

/* CREATE. While the controller is away, and another one or the same is to come, it is waited for: it
 * finds what was decided, so asking twice makes one table. */
static int ask_controller(struct tide_store *store, const struct tide_table_options *options) {
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 2);
    tide_write_uint(&w, TIDE__OP_CREATE);
    tide__options_write(&w, options);
    const uint64_t until = tide_port_now(store->port) + TIDE_CALL_TIMEOUT;
    int code = w.error;
    while (!code) {
        struct tide_reply *reply = NULL;
        uint16_t controller = tide_net_controller(store->net);
        code = controller == 0 ? tide_fail(TIDE_EUNREACHABLE, "no controller is known")
                               : tide_call(tide_address_make(controller, TIDE_ID_STORE), w.data,
                                           w.size, TIDE_CALL_TIMEOUT, &reply);
        tide_reply_free(reply);
        bool away = (code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_EBUSY) &&
                    tide_net_durable(store->net) && tide_port_now(store->port) < until;
        if (!away) {
            break;
        }
        code = tide_sleep(TIDE_SECOND / 20);
    }
    tide_writer_release(&w);
    return tide__memory_told(code);
}

int tide_tables_forget(struct tide_node *node) {
    struct tide_store *store = tide_store_of(node);
    struct tide_writer w;
    uint8_t buffer[16];
    struct tide_reply *reply = NULL;
    if (!store || !store->net) {
        return tide_fail(TIDE_EUNSUPPORTED, "this node has no cluster whose tables could be forgotten");
    }
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 1);
    tide_write_uint(&w, TIDE__OP_FORGET);
    int code = tide_call(tide_address_make(tide__store_self(store), TIDE_ID_STORE), w.data, w.size,
                         TIDE_CALL_TIMEOUT, &reply);
    tide_reply_free(reply);
    tide_writer_release(&w);
    return code;
}

int tide__table_create_in(struct tide_store *store, const struct tide_table_options *given,
                          struct tide_table **out) {
    struct tide_table_options options = *given;
    int code = tide__options_check(&options);
    if (code) {
        return code;
    }
    struct tide_table *table = find(store, options.name);
    if (table) {
        return same_or_mismatch(table, &options, out);
    }
    if (!store->net) {
        return options.replicas ? tide_fail(TIDE_ENOREPLICA,
                                            "table '%s' wants copies, and there is no cluster",
                                            options.name)
                                : create_here(store, &options, out);
    }
    code = ask_controller(store, &options);
    if (code == TIDE_EREFUSED && strstr(tide_error_message(), "other options")) {
        return tide_fail(TIDE_EMISMATCH, "table '%s' exists with other options", options.name);
    }
    if (code) {
        return code;
    }
    table = find(store, options.name);
    return table
               ? same_or_mismatch(table, &options, out)
               : tide_fail(TIDE_EPROTO, "the controller did not hand out table '%s'", options.name);
}

int tide_table_create(struct tide_node *node, const struct tide_table_options *options,
                      struct tide_table **out) {
    struct tide_store *store = tide_store_of(node);
    return store ? tide__table_create_in(store, options, out)
                 : tide_fail(TIDE_ECLOSED, "this node has no store");
}

/* ---- what one can ask of a table ---- */

/* The first threads have a stripe each, which nobody else writes; all later ones share the last. */
unsigned tide__stripe(void) {
    static atomic_uint threads;
    static _Thread_local unsigned mine; /* 1 + stripe */
    if (TIDE_UNLIKELY(!mine)) {
        unsigned number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
        mine = 1 + (number < TIDE__STRIPES - 1 ? number : TIDE__STRIPES - 1);
    }
    return mine - 1;
}

void tide__table_count(struct tide_table *table, enum tide__counter counter, uint64_t amount) {
    unsigned stripe = tide__stripe();
    tide__stripe_add(stripe, &table->stripes[stripe].value[counter], amount);
}

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
        .relocate_ns_max = atomic_load_explicit(&table->relocate_max_ns, memory_order_relaxed),
        .location_used = total(table, TIDE__LOCATION_USED),
        .location_stale = total(table, TIDE__LOCATION_STALE),
        .surprises = total(table, TIDE__SURPRISES),
    };
    for (size_t i = 0; i < TIDE_RELOCATE_BUCKETS; i++) {
        out->relocate_hist[i] =
            atomic_load_explicit(&table->relocate_hist[i], memory_order_relaxed);
    }
    tide__at_risk_stats(table, out);
}

int tide_table_where(struct tide_table *table, uint64_t key, uint16_t *node) {
    if (table->options.keys == TIDE_KEYS_DENSE && key >= table->options.key_count) {
        return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s' (0..%llu)",
                         (unsigned long long)key, table->name,
                         (unsigned long long)(table->options.key_count - 1));
    }
    if (table->relocates) {
        *node = tide__owner_of(table, key);
        return 0;
    }
    *node = tide__route_home(
        atomic_load_explicit(&table->slots[tide__slot_of(table, key)].route, memory_order_relaxed));
    return 0;
}

uint32_t tide_table_slot(const struct tide_table *table, uint64_t key) {
    return tide__slot_of(table, key);
}

void tide_table_homes(struct tide_table *table, uint32_t *counts, size_t limit, uint64_t *version) {
    memset(counts, 0, limit * sizeof *counts);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        uint16_t home =
            tide__route_home(atomic_load_explicit(&table->slots[s].route, memory_order_relaxed));
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
    return atomic_load_explicit(&store->synced,
                                memory_order_acquire); /* pairs with the handler of SYNCED */
}

int tide__store_create_bare(struct tide_store **out) {
    struct tide_store *store = tide_alloc_zero(1, sizeof *store);
    if (!store) {
        return tide_fail(TIDE_ENOMEM, "no memory for the store");
    }
    atomic_init(&store->self, 1);
    atomic_init(&store->synced, true);
    atomic_init(&store->cut_clock, TIDE_NO_CLOCK);
    store->stalled_end = &store->stalled;
    int code = tide__clocks_create(store);
    if (code) {
        tide_free(store);
        return code;
    }
    tide__admission_init(&store->admission);
    *out = store;
    return 0;
}

/* The store actor looks at the member, 0: at all: it may send and set timers. Any thread. */
static void post_member(struct tide_store *store, uint16_t id) {
    uint8_t body[16];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 2);
    tide_write_uint(&w, TIDE__OP_MEMBERS);
    tide_write_uint(&w, id);
    if (tide_post(store->node, tide_address_make(0, TIDE_ID_STORE), w.data, w.size) != 0) {
        atomic_store_explicit(&store->members_missed, true, memory_order_relaxed);
    }
    tide_writer_release(&w);
}

void tide__store_look(struct tide_store *store) {
    post_member(store, 0);
}

/* I/O thread 0. */
static void member_changed(void *arg, const struct tide_member *member) {
    struct tide_store *store = arg;
    bool gone = member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT;
    if (gone && member->id == tide__store_self(store)) {
        atomic_store_explicit(&store->fenced,
                              member->state == TIDE_MEMBER_DEAD ? TIDE_EFENCED : TIDE_ECLOSED,
                              memory_order_relaxed);
        tide__pending_fenced(store);
    } else if (member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT) {
        char text[256];
        (void)snprintf(text, sizeof text, "node %s (%u) %s: %s", member->name, (unsigned)member->id,
                       member->state == TIDE_MEMBER_DEAD ? "died" : "left", member->reason);
        tide__pending_node_gone(store, member->id, text);
    }
    post_member(store, member->id);
}

struct tide_store *tide_store_of(struct tide_node *node) {
    return node->store;
}

int tide_store_create(struct tide_system *system, struct tide_net *net, uint64_t memory_cap,
                      struct tide_store **out) {
    struct tide_store *store;
    int code = tide__store_create_bare(&store);
    if (code) {
        return code;
    }
    store->system = system;
    store->net = net;
    store->budget.cap = memory_cap;
    store->port = tide_system_port(system);
    tide_port_random(store->port, "store.yield", &store->yields);
    store->node = tide_system_node(system);
    atomic_store(&store->self, 0);
    const uint16_t self = tide__store_self(store); /* 0: it joins, and waits for its tables */
    atomic_store(&store->synced, !net || (self != 0 && tide_net_controller(net) == self));
    struct tide_actor_options options = {.type = "store",
                                         .handle = tide__shard_handle,
                                         .state = store,
                                         .role = TIDE_ROLE_IO,
                                         .messages_max = STORE_MESSAGES_MAX,
                                         .bytes_max = STORE_BYTES_MAX};
    tide_address address;
    code = tide__catalog_create(store);
    code = code ? code : tide__moves_create(store);
    code = code ? code : tide_spawn(store->node, &options, &address);
    if (code) {
        tide_store_destroy(store);
        return code;
    }
    TIDE_ASSERT(tide_address_id(address) == TIDE_ID_STORE);
    if (net) {
        store->watch = (struct tide_member_watch){.changed = member_changed, .arg = store};
        tide_net_watch(net, &store->watch);
        tide__pressure_watch(store);
        tide_net_expect_evacuation(net);
        tide__store_look(store);
    }
    *out = store;
    return 0;
}

void tide_store_destroy(struct tide_store *store) {
    if (!store) {
        return;
    }
    tide__pending_deinit(store);
    tide__admission_deinit(&store->admission);
    tide__shard_release(store);
    tide__replication_destroy(store);
    tide__drop_release(store);
    unsigned count = atomic_load(&store->table_count);
    for (unsigned id = 1; id <= count; id++) {
        tide__table_destroy(tide__table_at(store, id));
    }
    tide__catalog_destroy(store);
    tide__moves_destroy(store);
    tide_free(store->drain);
    tide__sync_destroy(store);
    tide__generations_destroy(store);
    tide__clocks_destroy(store);
    tide_free(store);
}
