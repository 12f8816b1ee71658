/*
 * Which tables there are. The controller's store actor decides ids and homes and hands tables out
 * in two rounds: in the first every node makes the table, in the second it may be found. So whoever
 * can see a table may use it at once: no node is asked for rows of a table it does not have. A node
 * that joins gets all tables before it is `synced`.
 *
 *   creator --CREATE (call)--> controller --TABLE ready=0--> all --TABLE_DONE--> controller --TABLE
 * ready=1--> all
 *   --TABLE_DONE--> controller --answer--> creator
 *
 * A table that is dropped goes in two rounds as well (operation/drop.c): CLOSE, and when nothing of it is
 * in flight at any node, DROP. Then its place may be given to another table, under the next life.
 *
 *   requester --DROP_TABLE (call)-->  controller --DROP stage--> all --DROPPED stage--> controller
 *
 * A change of a table that stands (its learning rate) goes in one round, TABLE ready=1 with the new value.
 *
 * A table and every change of its map are recorded (tide_net_record) before they are announced.
 * A controller that was started again, or a member that becomes it, reads them back and goes
 * through both rounds anew with every table: nodes that have it say so. One that leads no more
 * forgets them.
 */
#include "store/slots/catalog.h"
#include "store/slots/groups.h"
#include "store/slots/learning_rate.h"
#include "store/slots/move.h"
#include "store/core/options.h"
#include "store/core/send.h"
#include "store/core/tiered.h"
#include "store/rows/slot_index.h"

enum { HOMES_BYTES = TIDE_SLOT_COUNT * 2 };

struct tide__caller {
    struct tide__caller *next;
    tide_address from;
    uint64_t call;
};

int tide__catalog_create(struct tide_store *store) {
    store->catalog = tide_alloc_zero(1, sizeof *store->catalog);
    return store->catalog ? 0 : tide_fail(TIDE_ENOMEM, "no memory for the catalog of tables");
}

static void release_entries(struct tide__catalog *catalog);

void tide__catalog_destroy(struct tide_store *store) {
    struct tide__catalog *catalog = store->catalog;
    if (catalog) {
        release_entries(catalog);
    }
    tide_free(catalog);
}

/* ---- homes ---- */

static bool may_be_home(const struct tide_member *m) {
    return m->state == TIDE_MEMBER_UP && m->store && m->id < 0x8000;
}

/* Ids of nodes that may be home of slots, ascending; *gives* the array. */
int tide__catalog_homes(struct tide_store *store, uint16_t **out, size_t *count) {
    uint64_t view;
    size_t all = tide_net_members(store->net, NULL, 0, &view) + 8;
    struct tide_member *members = tide_alloc(all * sizeof *members);
    uint16_t *ids = tide_alloc(all * sizeof *ids);
    *count = 0;
    if (!members || !ids) {
        tide_free(members);
        tide_free(ids);
        return TIDE_ENOMEM;
    }
    size_t got = tide_net_members(store->net, members, all, &view);
    for (size_t i = 0; i < got && i < all; i++) {
        if (may_be_home(&members[i])) {
            ids[(*count)++] = members[i].id;
        }
    }
    tide_free(members);
    *out = ids;
    return 0;
}

static int choose_homes(struct tide_store *store, struct tide__catalog_entry *entry) {
    uint16_t *ids;
    size_t count;
    int code = tide__catalog_homes(store, &ids, &count);
    if (code) {
        return code;
    }
    for (size_t s = 0; s < TIDE_SLOT_COUNT && count; s++) {
        size_t which = entry->options.slots == TIDE_SLOTS_RANGE ? s * count / TIDE_SLOT_COUNT : s % count;
        entry->homes[s] = ids[which];
        entry->versions[s] = 1;
    }
    if (entry->options.replicas && count > 0) {
        tide__groups_choose(entry, ids, count);
    }
    tide_free(ids);
    if (entry->options.replicas && count == 1) {
        return tide_fail(TIDE_ENOREPLICA, "table '%s' requires copies of its rows, and no second node holds parameters",
                         entry->name);
    }
    return count ? 0 : tide_fail(TIDE_EUNREACHABLE, "no member of this cluster may hold parameters");
}

/* ---- controller: handing out ---- */

static int record(struct tide_store *store, const struct tide__catalog_entry *entry);

static bool bit(const uint8_t *bits, uint16_t i) {
    return bits[i / 8] >> (i % 8) & 1;
}

static void set_bit(uint8_t *bits, uint16_t i, bool value) {
    bits[i / 8] = (uint8_t)((bits[i / 8] & ~(1u << (i % 8))) | (unsigned)value << (i % 8));
}

static void send_table(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node, bool ready) {
    struct tide_writer options;
    uint8_t buffer[512];
    tide_writer_init(&options, buffer, sizeof buffer);
    tide__options_write(&options, &entry->options);
    const int code =
        options.error
            ? options.error
            : tide__store_tell(
                  store, node,
                  TIDE__AS(TABLE, .table = entry->id, .ready = ready, .options = TIDE__LIST(options.data, options.size),
                           .version = entry->version, .homes = TIDE__LIST(entry->homes, HOMES_BYTES),
                           .versions = TIDE__LIST(entry->versions, TIDE_SLOT_COUNT),
                           .chains = TIDE__LIST(entry->chains, entry->options.replicas ? TIDE_SLOT_COUNT : 0),
                           .rate = (double)entry->rate, .changes = entry->changes,
                           .change = entry->phase == TIDE__CATALOG_CHANGE));
    tide_writer_release(&options);
    if (code) {
        tide_log(TIDE_LOG_WARN, tide_node_name(store->node), "table '%s' could not be sent to node %u: %s", entry->name,
                 (unsigned)node, tide_error_message());
    }
}

static void start_round(struct tide_store *store, struct tide__catalog_entry *entry, enum tide__catalog_phase phase) {
    entry->phase = phase;
    for (unsigned node = 1; node < store->members_end; node++) {
        if (tide__member_lives(store, node)) {
            set_bit(entry->waiting, (uint16_t)node, true);
            entry->waiting_count++;
        }
    }
    for (unsigned node = 1; node < store->members_end; node++) {
        if (bit(entry->waiting, (uint16_t)node)) {
            send_table(store, entry, (uint16_t)node, phase != TIDE__CATALOG_PREPARE);
        }
    }
}

static void send_drop(struct tide_store *store, const struct tide__catalog_entry *entry, uint16_t node) {
    (void)tide__store_tell(store, node, /* or it is gone soon */
                           TIDE__AS(DROP, .table = entry->id, .stage = entry->phase == TIDE__CATALOG_CLOSE ? 1 : 2));
}

static void start_drop(struct tide_store *store, struct tide__catalog_entry *entry, enum tide__catalog_phase phase) {
    memset(entry->waiting, 0, sizeof entry->waiting);
    entry->waiting_count = 0;
    entry->phase = phase;
    entry->begun = true;
    for (unsigned node = 1; node < store->members_end; node++) {
        if (tide__member_lives(store, node)) {
            set_bit(entry->waiting, (uint16_t)node, true);
            entry->waiting_count++;
        }
    }
    for (unsigned node = 1; node < store->members_end; node++) {
        if (bit(entry->waiting, (uint16_t)node)) {
            send_drop(store, entry, (uint16_t)node);
        }
    }
}

static void answer_callers(struct tide__catalog_entry *entry) {
    const bool gone = entry->phase == TIDE__CATALOG_GONE; /* waiters are of a drop */
    for (struct tide__caller **at = &entry->callers; *at;) {
        struct tide__caller *caller = *at;
        if (!gone && !bit(entry->has, tide_address_node(caller->from))) {
            at = &caller->next;
            continue;
        }
        struct tide_writer w;
        uint8_t buffer[16];
        tide_writer_init(&w, buffer, sizeof buffer);
        tide_write_uint(&w, entry->id);
        (void)tide_answer(caller->from, caller->call, w.data, w.size);
        tide_writer_release(&w);
        *at = caller->next;
        tide_free(caller);
    }
}

static void round_ended(struct tide_store *store, struct tide__catalog_entry *entry) {
    if (entry->waiting_count == 0 && entry->phase == TIDE__CATALOG_PREPARE) {
        start_round(store, entry, TIDE__CATALOG_COMMIT);
    }
    if (entry->waiting_count == 0 &&
        (entry->phase == TIDE__CATALOG_COMMIT || (entry->phase == TIDE__CATALOG_CHANGE && entry->begun))) {
        entry->phase = TIDE__CATALOG_READY;
    }
    if (entry->waiting_count == 0 && entry->phase == TIDE__CATALOG_CLOSE && entry->begun) {
        start_drop(store, entry, TIDE__CATALOG_DROP);
    }
    if (entry->waiting_count == 0 && entry->phase == TIDE__CATALOG_DROP) {
        entry->phase = TIDE__CATALOG_GONE;
        memset(entry->has, 0, sizeof entry->has);
        (void)record(store, entry);
    }
    if (entry->phase == TIDE__CATALOG_READY || entry->phase == TIDE__CATALOG_GONE) {
        answer_callers(entry);
    }
}

/* ---- controller: command ---- */

static void release_entries(struct tide__catalog *catalog) {
    while (catalog->entries) {
        struct tide__catalog_entry *e = catalog->entries;
        catalog->entries = e->next;
        while (e->callers) {
            struct tide__caller *caller = e->callers;
            e->callers = caller->next;
            tide_free(caller);
        }
        tide_free(e);
    }
    catalog->last_place = 0;
}

/* Waiters for a table retry at the next controller. */
static void step_down(struct tide_store *store) {
    struct tide__catalog *catalog = store->catalog;
    for (struct tide__catalog_entry *e = catalog->entries; e; e = e->next) {
        for (const struct tide__caller *caller = e->callers; caller; caller = caller->next) {
            (void)tide_answer_error(caller->from, caller->call, TIDE_EBUSY, "this node is the controller no more");
        }
    }
    release_entries(catalog);
    tide__plan_release(store);
    catalog->term = 0;
}

static int load(struct tide_store *store) {
    struct tide__catalog *catalog = store->catalog;
    const struct tide_control_state *state = tide_net_recorded(store->net);
    const struct tide_control_pair *pair = NULL;
    while ((pair = tide_control_list(state, "table/", pair))) {
        struct tide__catalog_entry *entry = tide_alloc_zero(1, sizeof *entry);
        int code = entry ? tide__catalog_read(entry, pair) : TIDE_ENOMEM;
        if (code) {
            tide_free(entry);
            return code;
        }
        entry->next = catalog->entries;
        catalog->entries = entry;
        const uint32_t place = tide__catalog_place(entry->id);
        catalog->last_place = place > catalog->last_place ? place : catalog->last_place;
    }
    return tide__plan_load(store);
}

/* Both rounds with every table, and what was pending when the former controller ended. */
static void begin(struct tide_store *store) {
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->phase == TIDE__CATALOG_PREPARE) {
            start_round(store, e, TIDE__CATALOG_PREPARE);
        } else if (e->phase == TIDE__CATALOG_CLOSE) {
            start_drop(store, e, TIDE__CATALOG_CLOSE);
        }
    }
    tide__plan_begin(store);
}

bool tide__catalog_commands(struct tide_store *store) {
    bool controls = tide__store_is_controller(store);
    uint64_t term = controls ? tide_net_term(store->net) : 0;
    if (store->catalog->term != 0 && store->catalog->term != term) {
        step_down(store);
    }
    if (!controls || store->catalog->term == term) {
        return controls;
    }
    int code = load(store);
    if (code) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "the recorded tables cannot be taken over: %s",
                 tide_error_message());
        release_entries(store->catalog);
        tide__plan_release(store);
        return false;
    }
    store->catalog->term = term;
    begin(store);
    return true;
}

/* ---- controller: CREATE ---- */

static struct tide__catalog_entry *find(struct tide__catalog *catalog, const char *name) {
    for (struct tide__catalog_entry *e = catalog->entries; e; e = e->next) {
        if (strcmp(e->name, name) == 0) {
            return e;
        }
    }
    return NULL;
}

static int add_entry(struct tide_store *store, const struct tide_table_options *options,
                     struct tide__catalog_entry **out) {
    struct tide__catalog *catalog = store->catalog;
    struct tide__catalog_entry **at = &catalog->entries;
    while (*at && (*at)->phase != TIDE__CATALOG_GONE) {
        at = &(*at)->next;
    }
    struct tide__catalog_entry *former = *at; /* in whose place it comes */
    if (!former && catalog->last_place + 1 >= TIDE__TABLES_MAX) {
        return tide_fail(TIDE_EFULL, "a cluster holds at most %d tables", TIDE__TABLES_MAX - 1);
    }
    struct tide__catalog_entry *entry = tide_alloc_zero(1, sizeof *entry);
    if (!entry) {
        return tide_fail(TIDE_ENOMEM, "no memory for table '%s'", options->name);
    }
    entry->options = *options;
    (void)snprintf(entry->name, sizeof entry->name, "%s", options->name);
    entry->options.name = entry->name;
    entry->rate = options->lr;
    entry->version = 1;
    int code = choose_homes(store, entry);
    if (code) {
        tide_free(entry);
        return code;
    }
    if (former) {
        entry->id = former->id + TIDE__TABLES_MAX; /* the next life; they are 4 million */
        *at = former->next;
        tide_free(former);
    } else {
        entry->id = ++catalog->last_place;
    }
    entry->phase = TIDE__CATALOG_RECORD;
    entry->next = catalog->entries;
    catalog->entries = entry;
    *out = entry;
    return 0;
}

struct recording {
    struct tide_store *store;
    uint32_t id;
};

struct tide__catalog_entry *tide__catalog_entry_of(const struct tide_store *store, uint64_t id) {
    struct tide__catalog_entry *entry = store->catalog->entries;
    while (entry && entry->id != id) {
        entry = entry->next;
    }
    return entry;
}

/* A new table may be handed out, a change announced. */
static void recorded(void *arg, int code) {
    struct recording r = *(struct recording *)arg;
    tide_free(arg);
    struct tide__catalog_entry *entry = tide__catalog_entry_of(r.store, r.id);
    if (!code && entry &&
        (entry->phase == TIDE__CATALOG_RECORD || entry->phase == TIDE__CATALOG_CHANGE ||
         entry->phase == TIDE__CATALOG_CLOSE)) {
        entry->recorded = true;
        tide__store_look(r.store);
    }
}

void tide__catalog_resume(struct tide_store *store) {
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->phase == TIDE__CATALOG_RECORD && e->recorded) {
            start_round(store, e, TIDE__CATALOG_PREPARE);
            round_ended(store, e);
        } else if (e->phase == TIDE__CATALOG_CHANGE && e->recorded && !e->begun) {
            e->begun = true;
            start_round(store, e, TIDE__CATALOG_CHANGE);
            round_ended(store, e);
        } else if (e->phase == TIDE__CATALOG_CLOSE && e->recorded && !e->begun) {
            start_drop(store, e, TIDE__CATALOG_CLOSE);
            round_ended(store, e);
        }
    }
}

static int record(struct tide_store *store, const struct tide__catalog_entry *entry) {
    struct recording *r = tide_alloc(sizeof *r);
    struct tide_writer w;
    char key[TIDE__CATALOG_KEY_BYTES];
    tide__catalog_write(entry, &w, key);
    int code = r ? w.error : TIDE_ENOMEM;
    if (code) {
        tide_free(r);
    } else {
        *r = (struct recording){store, entry->id};
        tide_net_record(store->net, &(struct tide_control_put){key, w.data, w.size}, 1, recorded, r);
    }
    tide_writer_release(&w);
    return code;
}

static int enlist(struct tide_store *store, struct tide__catalog_entry *entry, const struct tide_message *message) {
    struct tide__caller *caller = tide_alloc(sizeof *caller);
    const uint16_t node = tide_address_node(message->from);
    if (!caller) {
        return tide_fail(TIDE_ENOMEM, "no memory for a caller");
    }
    *caller =
        (struct tide__caller){.next = entry->callers,
                              .call = message->call,
                              .from = node ? message->from : tide_address_make(tide__store_self(store), message->from)};
    entry->callers = caller;
    return 0;
}

int tide__catalog_change(struct tide_store *store, struct tide__catalog_entry *entry,
                         const struct tide_message *message) {
    int code = enlist(store, entry, message);
    if (!code) {
        entry->changes++;
        entry->phase = TIDE__CATALOG_CHANGE;
        entry->recorded = entry->begun = false;
        code = record(store, entry);
    }
    return code;
}

/* It is dropped, and its name may be given anew. Recorded first, else a controller that is started
 * again hands it out again. */
static int retire(struct tide_store *store, struct tide__catalog_entry *entry) {
    (void)snprintf(entry->name, sizeof entry->name, "?");
    entry->phase = TIDE__CATALOG_CLOSE;
    entry->recorded = entry->begun = false;
    entry->waiting_count = 0;
    memset(entry->waiting, 0, sizeof entry->waiting);
    return record(store, entry);
}

int tide__drop_call(struct tide_store *store, struct tide__incoming *in) {
    char name[64];
    if (!tide__text_copy(&in->as.DROP_TABLE.name, name, sizeof name)) {
        return tide_fail(TIDE_EPROTO, "a damaged request to drop a table");
    }
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EBUSY, "this node is not the controller");
    }
    struct tide__catalog_entry *entry = find(store->catalog, name);
    if (!entry) {
        return tide_fail(TIDE_ENOENT, "no table '%s'", name);
    }
    if (entry->phase != TIDE__CATALOG_READY || tide__plan_has(store, entry->id) || store->moves->recording > 0) {
        return tide_fail(TIDE_EBUSY, "table '%s' is being made, or its slots are on the move", name);
    }
    int code = enlist(store, entry, in->message);
    return code ? code : retire(store, entry);
}

int tide__forget_call(struct tide_store *store, struct tide__incoming *in) {
    const uint16_t self = tide__store_self(store);
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EBUSY, "this node is not the controller");
    }
    for (unsigned node = 1; node < store->members_end; node++) {
        if (node != self && tide__member_lives(store, node)) {
            char name[96];
            tide__node_text(store, (uint16_t)node, name);
            return tide_fail(TIDE_EBUSY, "node %s may hold rows of them", name);
        }
    }
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        struct tide_table *table = tide__table_by_id(store, e->id);
        if (e->phase < TIDE__CATALOG_CLOSE) {
            (void)retire(store, e);
        }
        if (table) {
            atomic_store_explicit(&table->ready, false, memory_order_relaxed);
        }
    }
    return tide__nothing_answer(in->message);
}

int tide__create_call(struct tide_store *store, struct tide__incoming *in) {
    const struct tide_message *message = in->message;
    struct tide_reader body;
    tide_reader_init(&body, in->as.CREATE.options.at, in->as.CREATE.options.count);
    struct tide_table_options options;
    char name[64];
    int code = tide__options_read(&body, &options, name);
    if (code) {
        return code;
    }
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EBUSY, "this node is not the controller");
    }
    struct tide__catalog_entry *entry = find(store->catalog, name);
    bool fresh = !entry;
    code = fresh ? tide__memory_admit_table(store, name) : tide__options_agree(&entry->options, &options);
    if (code) {
        return code;
    }
    struct tide__caller *caller = tide_alloc(sizeof *caller);
    if (!caller) {
        return tide_fail(TIDE_ENOMEM, "no memory for a caller");
    }
    code = fresh ? add_entry(store, &options, &entry) : 0;
    if (code) {
        tide_free(caller);
        return code;
    }
    uint16_t node = tide_address_node(message->from);
    *caller =
        (struct tide__caller){.next = entry->callers,
                              .call = message->call,
                              .from = node ? message->from : tide_address_make(tide__store_self(store), message->from)};
    entry->callers = caller;
    if (fresh) {
        return record(store, entry);
    }
    if (entry->phase == TIDE__CATALOG_READY && !bit(entry->has, tide_address_node(caller->from))) {
        send_table(store, entry, tide_address_node(caller->from), true); /* it just joined: its answer releases it */
    }
    round_ended(store, entry);
    return 0;
}

/* ---- every node: KEYS and CLEAR, for save and load ---- */

static struct tide_table *table_of_call(struct tide_store *store, uint32_t id) {
    struct tide_table *table = tide__table_by_id(store, id);
    if (!table) {
        tide_fail(TIDE_ENOENT, "no such table here");
    }
    return table;
}

/* [slot, from] -> [next slot, next from, keys]: keys with a row here, slot by slot, ascending
 * within a slot. */
int tide__keys_call(struct tide_store *store, struct tide__incoming *in) {
    enum { KEYS_MAX = 32768 };
    const struct tide_message *message = in->message;
    struct tide_table *table = table_of_call(store, in->as.KEYS.table);
    uint64_t slot = in->as.KEYS.slot, from = in->as.KEYS.from;
    if (!table) {
        return TIDE_ENOENT;
    }
    uint64_t *keys = tide_alloc(KEYS_MAX * sizeof *keys);
    size_t count = 0;
    int code = keys ? 0 : TIDE_ENOMEM;
    while (!code && slot < TIDE_SLOT_COUNT && count < KEYS_MAX) {
        size_t got = 0;
        bool more = false;
        uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
        if ((route & TIDE__FOR_FOREIGN) == TIDE__MINE || table->operations->owners) {
            code = tide__slot_keys(table, (uint32_t)slot, from, keys + count, KEYS_MAX - count, &got, &more);
        }
        count += got;
        from = more ? keys[count - 1] + 1 : 0;
        slot += !more;
        if (more) {
            break;
        }
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 3);
    tide_write_uint(&w, slot);
    tide_write_uint(&w, from);
    tide_write_typed(&w, TIDE_U64, keys, count);
    code = code ? code : w.error ? w.error : tide_answer(message->from, message->call, w.data, w.size);
    tide_writer_release(&w);
    tide_free(keys);
    return code == TIDE_ENOENT ? 0 : code; /* ENOENT: the caller is gone */
}

int tide__clear_call(struct tide_store *store, struct tide__incoming *in) {
    struct tide_table *table = table_of_call(store, in->as.CLEAR.table);
    if (!table) {
        return TIDE_ENOENT;
    }
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        if (tide__slot_event(table, TIDE__SLOT_CLEARED, slot, 0) == 0) {
            (void)tide__slot_drain(table, slot, NULL, NULL);
        }
        (void)tide__slot_event(table, TIDE__SLOT_FORGOTTEN, slot, 0);
    }
    return tide__nothing_answer(in->message);
}

/* ---- nodes: TABLE, TABLE_DONE ---- */

static int install(struct tide_store *store, uint32_t id, const struct tide_table_options *options, uint64_t version,
                   const uint8_t *homes_bytes, const uint8_t *versions, const uint8_t *chains_bytes) {
    uint16_t homes[TIDE_SLOT_COUNT];
    uint64_t chains[TIDE_SLOT_COUNT];
    struct tide_table *table;
    if (tide__catalog_place(id) == 0 || tide__table_at(store, tide__catalog_place(id))) {
        return tide_fail(TIDE_EPROTO, "table id %u", id);
    }
    memcpy(homes, homes_bytes, sizeof homes);
    if (chains_bytes) {
        memcpy(chains, chains_bytes, sizeof chains);
    }
    int code = tide__table_make(store, id, options, homes, chains_bytes ? chains : NULL, &table);
    if (!code) {
        memcpy(table->slot_versions, versions, sizeof table->slot_versions);
        atomic_store_explicit(&table->map_version, version, memory_order_relaxed);
        tide__table_publish(store, table);
        tide__table_event(table, TIDE__TABLE_BEGINS);
    }
    return code;
}

static void made(struct tide_store *store, uint32_t id, bool ready, int code, uint64_t changes, const char *why) {
    (void)tide__store_tell(store, tide_net_controller(store->net),
                           TIDE__AS(TABLE_DONE, .table = id, .ready = ready, .code = code, .changes = changes,
                                    .why = {.at = why, .count = strlen(why)}));
}

int tide__catalog_table(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.TABLE) *m = &in->as.TABLE;
    if (in->from != tide_net_controller(store->net)) {
        return 0;
    }
    struct tide_table_options options;
    char name[64];
    struct tide_reader r;
    tide_reader_init(&r, m->options.at, m->options.count);
    int code = tide__options_read(&r, &options, name);
    const bool ready = m->ready;
    if (!code && m->chains.count != (options.replicas ? TIDE_SLOT_COUNT : 0)) {
        code = tide_fail(TIDE_EPROTO, "no groups of copies");
    }
    if (!code && !tide__learning_rate_fits(m->rate)) {
        code = tide_fail(TIDE_EPROTO, "no such learning rate");
    }
    if (code || m->homes.count != HOMES_BYTES || m->versions.count != TIDE_SLOT_COUNT) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "a damaged table description: %s", tide_error_message());
        return 0;
    }
    struct tide_table *table = tide__table_by_id(store, m->table);
    if (!table) { /* a joiner takes what is there */
        code = ready ? 0 : tide__memory_admit_table_here(store, &options);
        code = code ? code
                    : install(store, m->table, &options, m->version, m->homes.at, m->versions.at,
                              m->chains.count ? m->chains.at : NULL);
        table = code ? NULL : tide__table_by_id(store, m->table);
    }
    if (table) {
        tide__learning_rate_take(table, (float)m->rate);
    }
    if (table && ready && !atomic_load_explicit(&table->ready, memory_order_relaxed)) {
        tide__table_event(table, TIDE__TABLE_READY);
    } else if (table && ready && !m->change) { /* a new controller announces it again, for all nodes have it now */
        tide__table_event(table, TIDE__TABLE_REANNOUNCED);
    }
    if (table && ready) {
        atomic_store_explicit(&table->ready, true, memory_order_release); /* pairs with find of table.c */
    }
    if (table && tide__tiered_of(table) && !ready &&
        tide__tiered_of(table)->opening) { /* the answer follows when the disk was checked */
        tide__tiered_of(table)->asked = true;
        tide__tiered_of(table)->changes = m->changes;
        return 0;
    }
    code = table && tide__tiered_of(table) && !ready ? tide__tiered_of(table)->refused : code;
    made(store, m->table, ready, code, m->changes, code ? tide_error_message() : "");
    if (code && ready) {
        char why[400];
        (void)snprintf(why, sizeof why, "this node cannot make table '%s', which the others have: %s", name,
                       tide_error_message());
        tide_net_fail(store->net, code, why);
    }
    return 0;
}

void tide__catalog_made(struct tide_store *store, uint32_t id, int code, uint64_t changes, const char *why) {
    made(store, id, false, code, changes, why);
}

void tide__catalog_welcomed(struct tide_store *store, uint16_t node) {
    (void)tide__store_tell(store, node, TIDE__AS(SYNCED, .none = 0));
}

int tide__catalog_synced(struct tide_store *store, struct tide__incoming *in) {
    (void)in;
    atomic_store_explicit(&store->synced, true, memory_order_release); /* pairs with tide_store_synced */
    return 0;
}

/* A node could not make the table: no node gets it. */
static void refuse(struct tide_store *store, struct tide__catalog_entry *entry, uint16_t node, int code,
                   const struct tide__array *why) {
    char name[96], text[640], cap[24];
    tide__node_text(store, node, name);
    if (code == TIDE_EBUSY && entry->options.run_memory > 0) {
        (void)snprintf(text, sizeof text,
                       "on node %s run %u uses its %s of memory: there is no room for another table, "
                       "'%s'",
                       name, entry->options.run, tide_bytes_text(entry->options.run_memory, cap), entry->name);
    } else {
        (void)snprintf(text, sizeof text, "node %s could not make table '%s': %.*s", name, entry->name,
                       why->count ? (int)(why->count < 480 ? why->count : 480) : 40,
                       why->count ? (const char *)why->at : tide_error_name(code));
    }
    (void)retire(store, entry);
    while (entry->callers) {
        struct tide__caller *caller = entry->callers;
        entry->callers = caller->next;
        (void)tide_answer_error(caller->from, caller->call, code, text);
        tide_free(caller);
    }
}

int tide__catalog_done(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.TABLE_DONE) *m = &in->as.TABLE_DONE;
    const uint16_t from = in->from;
    const bool ready = m->ready;
    const int64_t code = m->code;
    const uint64_t changes = m->changes;
    struct tide__catalog_entry *entry = tide__catalog_commands(store) ? tide__catalog_entry_of(store, m->table) : NULL;
    if (!entry || entry->phase >= TIDE__CATALOG_CLOSE) {
        return 0;
    }
    if (code < 0 && !ready) {
        refuse(store, entry, from, code > INT32_MIN ? (int)code : TIDE_EREFUSED, &m->why);
        return 0;
    }
    if (ready) { /* one that joined and cannot make it ends */
        set_bit(entry->has, from, code == 0);
    }
    if (bit(entry->waiting, from) && ready == (entry->phase != TIDE__CATALOG_PREPARE) && changes == entry->changes) {
        set_bit(entry->waiting, from, false);
        entry->waiting_count--;
    }
    round_ended(store, entry);
    tide__plan_advance(store);
    return 0;
}

int tide__catalog_dropped(struct tide_store *store, struct tide__incoming *in) {
    const uint16_t from = in->from;
    const uint32_t id = in->as.DROPPED.table, stage = in->as.DROPPED.stage;
    struct tide__catalog_entry *entry = tide__catalog_commands(store) ? tide__catalog_entry_of(store, id) : NULL;
    const uint64_t now = !entry || !entry->begun               ? 0
                         : entry->phase == TIDE__CATALOG_CLOSE ? 1
                         : entry->phase == TIDE__CATALOG_DROP  ? 2
                                                               : 0;
    if (now == 0 || stage != now || !bit(entry->waiting, from)) {
        return 0; /* of an earlier round, or an earlier controller's */
    }
    set_bit(entry->waiting, from, false);
    entry->waiting_count--;
    round_ended(store, entry);
    tide__plan_advance(store);
    return 0;
}

/* ---- members ---- */

static void welcome(struct tide_store *store, uint16_t node) {
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        if (e->phase >= TIDE__CATALOG_CLOSE || e->phase == TIDE__CATALOG_RECORD) {
            continue; /* of the latter it will hear like all others */
        }
        bool round = e->phase != TIDE__CATALOG_READY && (e->phase != TIDE__CATALOG_CHANGE || e->begun);
        if (round && !bit(e->waiting, node)) {
            set_bit(e->waiting, node, true);
            e->waiting_count++;
        }
        send_table(store, e, node, e->phase != TIDE__CATALOG_PREPARE);
    }
}

void tide__catalog_member(struct tide_store *store, const struct tide_member *member) {
    if (!tide__catalog_commands(store)) {
        return;
    }
    if (member->state == TIDE_MEMBER_UP) {
        welcome(store, member->id);
        return;
    }
    if (member->state != TIDE_MEMBER_DEAD && member->state != TIDE_MEMBER_LEFT) {
        return;
    }
    for (struct tide__catalog_entry *e = store->catalog->entries; e; e = e->next) {
        for (struct tide__caller **at = &e->callers; *at;) {
            struct tide__caller *caller = *at;
            if (tide_address_node(caller->from) == member->id) {
                *at = caller->next;
                tide_free(caller);
            } else {
                at = &caller->next;
            }
        }
        if (bit(e->waiting, member->id)) {
            set_bit(e->waiting, member->id, false);
            e->waiting_count--;
            round_ended(store, e);
        }
    }
}
