/*
 * The coordinator of a checkpoint: a fiber of any member. Its rounds are calls to the store actors
 * of all members (node_part.h), one after the other; those that take long are begun on all nodes
 * first and then collected. The manifest, last, makes the generation count.
 */
#include "store/checkpoint/checkpoint.h"
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/rows/rules.h"

#include "store/checkpoint/node_part.h"
#include "store/core/clock.h"
#include "tide/placement.h"
#include "tide/stats.h"

#define COLLECT_NS (3600 * TIDE_SECOND) /* writing a part takes as long as the disk does */
enum { KEEP_DEFAULT = 3, KEEP_LEAST = 2, FULL_EVERY_DEFAULT = 8, MEMBERS_MAX = 4096 };

struct tide_checkpoint {
    struct tide_store *store;
    char dir[TIDE__GENERATION_DIR_MAX];
    uint32_t keep, full_every;
    uint64_t timeout;
    struct tide__manifest manifest;
    struct tide_checkpoint_info info;
    size_t told;     /* nodes of the manifest that have received it */
    bool asked_full; /* a node asks for a full one */
    uint32_t sequence, fastest, worker_count;
    uint32_t domain;  /* whose clocks are cut */
    bool several;     /* workers of several are there, and none was asked for */
    uint32_t digits;  /* of sequences, that rows in flight may carry */
    uint64_t last_id; /* of all nodes; 0: they differ, or there is none */
};

uint32_t tide__cut_clock_told(void) {
    const struct tide__worker *worker = tide__worker_current();
    /* acquire: with the announcement, before this node's workers can pass */
    return worker ? atomic_load_explicit(&worker->domain->cut_clock, memory_order_acquire) : TIDE_NO_CLOCK;
}

static struct tide_port *port_of(const struct tide_checkpoint *c) {
    return c->store->port;
}

/* ---- on the disk thread ---- */

/* What a coordinator has its disk thread do: the caller's thread, which has other fibers, never
 * waits for a disk. It needs nothing of the coordinator, which may end meanwhile. */
struct disk_step {
    struct tide_port *port;
    int (*run)(const struct disk_step *step);
    char dir[TIDE__GENERATION_DIR_MAX];
    uint64_t generation;
    uint32_t keep;
    char *manifest; /* to be committed */
    size_t manifest_size;
    int code;
    char why[500];
};

static void step_run(void *arg) {
    struct disk_step *step = arg;
    step->code = step->run(step);
    if (step->code) {
        (void)snprintf(step->why, sizeof step->why, "%s", tide_error_message());
    }
}

static void step_drop(void *arg) {
    struct disk_step *step = arg;
    tide_free(step->manifest);
    tide_free(step);
}

/* *takes* the manifest's text, or NULL. ECANCELED: the caller is being ended, and does not wait for
 * what the step does. */
static int on_disk(const struct tide_checkpoint *c, int (*run)(const struct disk_step *step), char *manifest,
                   size_t manifest_size) {
    struct disk_step *step = tide_alloc_zero(1, sizeof *step);
    if (!step) {
        tide_free(manifest);
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    step->port = port_of(c);
    step->run = run;
    (void)snprintf(step->dir, sizeof step->dir, "%s", c->dir);
    step->generation = c->manifest.generation;
    step->keep = c->keep;
    step->manifest = manifest;
    step->manifest_size = manifest_size;
    int code = tide_hop(c->store->node, TIDE_ROLE_DISK, step_run, step, step_drop);
    if (code) {
        return code;
    }
    code = step->code ? tide_fail(step->code, "%s", step->why) : 0;
    step_drop(step);
    return code;
}

/* The directory of all generations, and its name in the one above. */
static int make_top(const struct disk_step *step) {
    char above[TIDE__GENERATION_DIR_MAX];
    struct tide_port *port = step->port;
    (void)snprintf(above, sizeof above, "%s", step->dir);
    size_t length = strlen(above);
    while (length > 1 && above[length - 1] == '/') {
        above[--length] = 0;
    }
    char *slash = strrchr(above, '/');
    if (!slash) {
        (void)snprintf(above, sizeof above, ".");
    } else {
        slash[slash == above] = 0;
    }
    int code = port->ops->file_mkdir(port, step->dir, 0777);
    return code ? code : port->ops->directory_sync(port, above);
}

static int make_directory(const struct disk_step *step) {
    char path[TIDE__PATH_MAX];
    struct tide_port *port = step->port;
    tide__generation_path(step->dir, step->generation, path);
    int code = port->ops->file_mkdir(port, path, 0777);
    code = code ? code : port->ops->directory_sync(port, step->dir);
    return code == TIDE_ENOSPC ? tide_fail(code, "no space left for '%s'", path) : code;
}

static int remove_directory(const struct disk_step *step) {
    (void)tide__generation_remove(step->port, step->dir, step->generation); /* what stays is no generation */
    return 0;
}

static bool in_chain(const struct tide__manifest *m, uint64_t generation) {
    for (size_t i = 0; i < m->chain_count; i++) {
        if (m->chain[i] == generation) {
            return true;
        }
    }
    return false;
}

/* Keeps the newest committed generations and what they are built on; whatever else is older than
 * the newest goes, the newest of it first, as far as that is certain. Nothing goes as long as a
 * manifest cannot be read: its base is unknown. */
static void prune(const struct disk_step *step) {
    uint64_t *numbers;
    size_t count;
    if (tide__generation_list(step->port, step->dir, &numbers, &count)) {
        return;
    }
    bool *stays = tide_alloc_zero(count + 1, sizeof *stays);
    uint32_t kept = 0;
    bool known = true;
    for (size_t i = 0; i < count && stays; i++) {
        struct tide__manifest m;
        stays[i] = stays[i] || numbers[i] > step->generation;
        if (kept == step->keep) {
            continue;
        }
        int code = tide__generation_manifest(step->port, step->dir, numbers[i], &m);
        if (code) {
            known = known && (code == TIDE_ENOENT || code == TIDE_EPROTO); /* none, or damaged */
            continue;
        }
        kept++;
        for (size_t j = 0; j < count; j++) {
            stays[j] = stays[j] || in_chain(&m, numbers[j]);
        }
        tide__manifest_release(&m);
    }
    bool goes_on = stays && (known || TIDE_MUTANT(unread_pruned));
    for (size_t i = 0; i < count && goes_on; i++) {
        goes_on =
            stays[i] || tide__generation_remove(step->port, step->dir, numbers[i]) || TIDE_MUTANT(base_pruned_first);
    }
    tide_free(stays);
    tide_free(numbers);
}

static int commit(const struct disk_step *step) {
    char name[TIDE__PATH_MAX + 16];
    tide__manifest_path(step->dir, step->generation, name);
    int code = tide__file_commit(step->port, name, step->manifest, step->manifest_size);
    if (!code) {
        prune(step);
    }
    return code;
}

/* ---- calls ---- */

/* To a node; *gives* the answer. */
static int call(struct tide_checkpoint *c, uint32_t node, enum tide__op op, const union tide__message *m,
                uint64_t timeout, struct tide_reply **out) {
    const int code = tide__store_call((uint16_t)node, op, m, timeout, out);
    if (code) {
        char name[96], why[350];
        tide__node_text(c->store, (uint16_t)node, name);
        (void)snprintf(why, sizeof why, "%s", tide_error_message());
        return tide_fail(code, "checkpoint on node %s: %s", name, why);
    }
    return 0;
}

static int call_all(struct tide_checkpoint *c, enum tide__op op, const union tide__message *m) {
    int code = 0;
    for (size_t i = 0; i < c->manifest.node_count && !code; i++) {
        struct tide_reply *reply;
        code = call(c, c->manifest.nodes[i], op, m, tide_limit(store_operation_timeout), &reply);
        if (!code) {
            tide_reply_free(reply);
        }
    }
    return code;
}

static void tell_abort(struct tide_checkpoint *c) {
    /* a node that is not notified takes part in no other */
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    for (size_t i = 0; i < c->told; i++) {
        struct tide_writer w;
        uint8_t buffer[32];
        tide_writer_init(&w, buffer, sizeof buffer);
        tide__message_write(&w, TIDE__AS(CUT_ABORT, .id = c->manifest.id));
        (void)tide_send(tide_address_make((uint16_t)c->manifest.nodes[i], TIDE_ID_STORE), TIDE_LANE_STORE, w.data,
                        w.size);
        tide_writer_release(&w);
    }
    (void)tide__memory_swap(use);
    c->told = 0;
}

/* ---- participants ---- */

static int list_members(struct tide_checkpoint *c, uint32_t **out, size_t *count) {
    struct tide_member *members = tide_alloc(MEMBERS_MAX * sizeof *members);
    uint32_t *nodes = tide_alloc(MEMBERS_MAX * sizeof *nodes);
    *out = NULL;
    *count = 0;
    if (!members || !nodes) {
        tide_free(members);
        tide_free(nodes);
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    uint64_t view;
    size_t got = tide_net_members(c->store->net, members, MEMBERS_MAX, &view);
    for (size_t i = 0; i < got && i < MEMBERS_MAX; i++) {
        if (members[i].state == TIDE_MEMBER_UP || members[i].state == TIDE_MEMBER_LEAVING) {
            nodes[(*count)++] = members[i].id;
        }
    }
    c->manifest.view = view;
    tide_free(members);
    *out = nodes;
    return 0;
}

static bool same_members(struct tide_checkpoint *c) {
    uint32_t *nodes;
    size_t count;
    uint64_t view = c->manifest.view;
    if (list_members(c, &nodes, &count)) {
        return false;
    }
    bool same = count == c->manifest.node_count && memcmp(nodes, c->manifest.nodes, count * sizeof *nodes) == 0;
    c->manifest.view = view;
    tide_free(nodes);
    return same;
}

/* ---- rounds ---- */

static void note_clocks(struct tide_checkpoint *c, struct tide_reader *r) {
    struct tide__manifest *m = &c->manifest;
    size_t count = 0, clocks_count = 0;
    const void *workers = tide_read_typed(r, TIDE_U32, &count);
    const void *clocks = tide_read_typed(r, TIDE_U32, &clocks_count);
    if (r->error || clocks_count != count || count == 0) {
        return;
    }
    const size_t all = m->worker_count + count;
    uint32_t *grown = tide_realloc(m->workers, all * sizeof *grown);
    m->workers = grown ? grown : m->workers;
    uint32_t *grown_clocks = tide_realloc(m->clocks, all * sizeof *grown);
    m->clocks = grown_clocks ? grown_clocks : m->clocks;
    if (!grown || !grown_clocks) {
        return;
    }
    memcpy(m->workers + m->worker_count, workers, count * sizeof *grown);
    memcpy(m->clocks + m->worker_count, clocks, count * sizeof *grown);
    m->worker_count = all;
}

/* The fields of a node's answer, up to the first. */
static struct tide_reader open_reply(const struct tide_reply *reply) {
    size_t size;
    struct tide_reader r;
    const void *data = tide_reply_data(reply, &size);
    tide_reader_init(&r, data, size);
    (void)tide_read_array(&r);
    return r;
}

static int ask(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest;
    c->fastest = TIDE_NO_CLOCK;
    const uint32_t wanted = c->domain;
    for (size_t i = 0; i < m->node_count; i++) {
        struct tide_reply *reply;
        int code = call(c, m->nodes[i], TIDE__AS(CUT_ASK, .id = m->id, .domain = wanted),
                        tide_limit(store_operation_timeout), &reply);
        if (code) {
            return code;
        }
        c->told = i + 1;
        struct tide_reader r = open_reply(reply);
        uint64_t sequence = tide_read_uint(&r);
        c->digits |= (uint32_t)tide_read_uint(&r);
        uint64_t last = tide_read_uint(&r);
        c->asked_full |= tide_read_bool(&r);
        uint64_t clock = tide_read_uint(&r), domain = tide_read_uint(&r);
        c->several |= tide_read_bool(&r);
        note_clocks(c, &r);
        c->sequence = sequence > c->sequence ? (uint32_t)sequence : c->sequence;
        c->last_id = i == 0 || c->last_id == last ? last : 0;
        if (clock != TIDE_NO_CLOCK) {
            c->several |= c->fastest != TIDE_NO_CLOCK && domain != c->domain;
            c->domain = (uint32_t)domain;
            c->fastest = c->fastest == TIDE_NO_CLOCK || clock > c->fastest ? (uint32_t)clock : c->fastest;
        }
        tide_reply_free(reply);
        if (r.error) {
            return tide_fail(TIDE_EPROTO, "node %u answers with something else", m->nodes[i]);
        }
    }
    return 0;
}

static int decide_cut(struct tide_checkpoint *c, uint8_t cut) {
    struct tide__manifest *m = &c->manifest;
    const bool clocked = c->fastest != TIDE_NO_CLOCK && c->fastest > 0 && !c->several;
    if (cut == TIDE_CUT_CLOCK && c->several) {
        return tide_fail(TIDE_EINVAL, "a cut by clock is of one run: several have workers, so have the "
                                      "run itself save, or cut fuzzily");
    }
    if (cut == TIDE_CUT_CLOCK && c->fastest == TIDE_NO_CLOCK) {
        return tide_fail(TIDE_EINVAL, "a cut by clock needs workers that count clocks; there are none");
    }
    bool by_clock = cut == TIDE_CUT_CLOCK || (cut == TIDE_CUT_AUTO && clocked);
    m->clock = by_clock ? c->fastest + 2 : TIDE_NO_CLOCK;
    return 0;
}

/* Builds on the newest generation if all nodes wrote that one last, and the same nodes did. */
static int decide_chain(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest, newest = {0};
    uint64_t *numbers;
    size_t count, i = 0;
    int code = tide__generation_list(port_of(c), c->dir, &numbers, &count);
    if (code) {
        return code;
    }
    m->generation = count ? numbers[0] + 1 : 1;
    m->full = true;
    while (i < count && tide__generation_manifest(port_of(c), c->dir, numbers[i], &newest)) {
        i++;
    }
    bool fits = i < count && (newest.id == c->last_id || TIDE_MUTANT(chain_of_another)) && c->last_id != 0 &&
                !c->asked_full && newest.chain_count < c->full_every && newest.node_count == m->node_count &&
                memcmp(newest.nodes, m->nodes, m->node_count * sizeof *m->nodes) == 0;
    if (fits) {
        m->full = false;
        m->chain_count = newest.chain_count;
        memcpy(m->chain, newest.chain, sizeof m->chain);
    }
    m->chain[m->chain_count++] = m->generation;
    tide__manifest_release(&newest);
    tide_free(numbers);
    return 0;
}

/* The next one whose last digit no row in flight has: of a node that is new, or was not notified of
 * the last ones, rows come before it is notified of this one, and would pass for taken. All digits are
 * in use only when fifteen generations in a row have failed, each before another node was notified. */
static void choose_sequence(struct tide_checkpoint *c) {
    unsigned tries = 0;
    do {
        c->sequence++;
    } while (++tries < 16 && (c->digits >> (c->sequence & 15u) & 1u) && !TIDE_MUTANT(sequence_digit_in_use));
}

static int tell(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest;
    char path[TIDE__PATH_MAX];
    uint32_t *ids = tide_alloc((m->table_count + 1) * sizeof *ids);
    if (!ids) {
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    size_t count = 0;
    const unsigned entered = tide__tables_enter(c->store);
    for (unsigned id = 1; id < TIDE__TABLES_MAX && count < m->table_count; id++) {
        struct tide_table *table = tide__table_at(c->store, id);
        if (table && !atomic_load(&table->closing) && strcmp(table->name, m->tables[count].name) == 0) {
            ids[count++] = table->id;
        }
    }
    tide__tables_leave(c->store, entered);
    tide__generation_path(c->dir, m->generation, path);
    const int code =
        call_all(c, TIDE__AS(CUT_TELL, .id = m->id, .sequence = c->sequence, .clock = m->clock, .domain = c->domain,
                             .full = m->full, .dir = TIDE__LIST(path, strlen(path)), .tables = TIDE__LIST(ids, count),
                             .nodes = TIDE__LIST(m->nodes, m->node_count)));
    tide_free(ids);
    return code;
}

static int settle(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest;
    if (m->clock == TIDE_NO_CLOCK) {
        return 0; /* the workers' clocks are those before the start */
    }
    m->worker_count = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        struct tide_reply *reply;
        int code = call(c, m->nodes[i], TIDE__AS(CUT_SETTLE, .id = m->id), c->timeout, &reply);
        if (code == TIDE_ETIMEDOUT) {
            return tide_fail(code, "no cut: after %llu s not every worker has passed clock %u",
                             (unsigned long long)(c->timeout / TIDE_SECOND), m->clock);
        }
        if (code) {
            return code;
        }
        struct tide_reader r = open_reply(reply);
        note_clocks(c, &r);
        tide_reply_free(reply);
    }
    return 0;
}

static int add_file(struct tide__manifest *m, struct tide_reader *r) {
    char name[64];
    struct tide__manifest_file file;
    bool good = tide_read_array(r) == 6;
    tide_read_text(r, name, sizeof name);
    tide_read_text(r, file.name, sizeof file.name);
    file.rows = tide_read_uint(r);
    file.size = tide_read_uint(r);
    file.sums_size = tide_read_uint(r);
    file.sums_sum = (uint32_t)tide_read_uint(r);
    size_t t = 0;
    while (t < m->table_count && strcmp(m->tables[t].name, name) != 0) {
        t++;
    }
    if (!good || r->error || t == m->table_count) {
        return tide_fail(TIDE_EPROTO, "a node tells of files that make no sense");
    }
    struct tide__manifest_table *table = &m->tables[t];
    struct tide__manifest_file *files = tide_realloc(table->files, (table->file_count + 1) * sizeof *files);
    if (!files) {
        return tide_fail(TIDE_ENOMEM, "no memory for a manifest");
    }
    table->files = files;
    files[table->file_count++] = file;
    return 0;
}

static int collect(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest;
    int code = 0;
    for (size_t i = 0; i < m->node_count && !code; i++) {
        struct tide_reply *reply;
        code = call(c, m->nodes[i], TIDE__AS(CUT_COLLECT, .id = m->id), COLLECT_NS, &reply);
        if (code) {
            return code;
        }
        struct tide_reader r = open_reply(reply);
        m->bytes += tide_read_uint(&r);
        m->rows += tide_read_uint(&r);
        size_t files = tide_read_array(&r);
        for (size_t j = 0; j < files && !code; j++) {
            code = add_file(m, &r);
        }
        tide_reply_free(reply);
    }
    return code;
}

/* ---- start ---- */

static int list_tables(struct tide_checkpoint *c) {
    struct tide__manifest *m = &c->manifest;
    struct tide_table *tables[TIDE__TABLES_MAX];
    size_t count = tide_store_tables(c->store, tables, TIDE__TABLES_MAX);
    int code = 0;
    m->tables = tide_alloc_zero(count + 1, sizeof *m->tables);
    for (size_t i = 0; i < count && !m->tables; i++) {
        tide_table_release(tables[i]);
    }
    if (!m->tables) {
        return tide_fail(TIDE_ENOMEM, "no memory for a manifest");
    }
    for (size_t i = 0; i < count; i++) {
        struct tide__manifest_table *t = &m->tables[i];
        struct tide_table_health health = {0};
        if (tables[i]->operations->groups) {
            tide_table_health(tables[i], &health);
        }
        if (health.lost_count && !code) { /* later generations would push out those that have them */
            code =
                tide_fail(TIDE_ELOST, "%u slots of table '%s' are lost", (unsigned)health.lost_count, tables[i]->name);
        }
        (void)snprintf(t->name, sizeof t->name, "%s", tables[i]->name);
        t->options = tables[i]->made;
        t->rate = tide__learning_rate(&tables[i]->options);
        t->options.name = t->name;
        t->map_version = atomic_load_explicit(&tables[i]->map_version, memory_order_relaxed);
        tide_table_release(tables[i]);
    }
    m->table_count = count;
    return code;
}

/* What waits in copies of shared keys is to be in the rows. */
static int flush_copies(struct tide_store *store) {
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    int code = 0;
    for (unsigned id = 1; id <= count && !code; id++) {
        const unsigned entered = tide__tables_enter(store);
        struct tide_table *table = tide__table_at(store, id);
        table = table && !atomic_load(&table->closing) ? table : NULL;
        if (table) {
            tide__table_hold(table);
        }
        tide__tables_leave(store, entered);
        code = table ? tide_table_flush(table) : 0;
        tide_table_release(table);
    }
    return code;
}

static int write_parts(struct tide_checkpoint *c, uint8_t cut) {
    struct tide__manifest *m = &c->manifest;
    int code = flush_copies(c->store);
    code = code ? code : list_members(c, &m->nodes, &m->node_count);
    code = code ? code : ask(c);
    code = code ? code : list_tables(c);
    code = code ? code : decide_cut(c, cut);
    code = code ? code : decide_chain(c);
    choose_sequence(c);
    code = code ? code : tell(c);
    code = code ? code : call_all(c, TIDE__AS(CUT_OPEN, .id = c->manifest.id));
    /* a sync may take long: not while workers stand at the gate */
    code = code ? code : on_disk(c, make_directory, NULL, 0);
    code = code ? code : settle(c);
    if (!code && TIDE_MUTANT(manifest_before_shards)) {
        char *text, name[TIDE__PATH_MAX + 16];
        size_t size;
        tide__manifest_path(c->dir, m->generation, name);
        if (tide__manifest_write(m, c->store, &text, &size) == 0) {
            (void)tide__file_commit(port_of(c), name, text, size);
            tide_free(text);
        }
    }
    code = code ? code : call_all(c, TIDE__AS(CUT_WALK, .id = c->manifest.id));
    code = code ? code : collect(c);
    if (!code && !same_members(c)) {
        code = tide_fail(TIDE_EBUSY, "nodes came or went while the checkpoint was written");
    }
    return code;
}

void tide__checkpoint_forget(struct tide_checkpoint *c) {
    tide__manifest_release(&c->manifest);
    tide_free(c);
}

void tide_checkpoint_abort(struct tide_checkpoint *c) {
    tell_abort(c);
    if (c->manifest.generation) {
        (void)on_disk(c, remove_directory, NULL, 0);
    }
    tide__checkpoint_forget(c);
}

int tide_checkpoint_start(struct tide_node *node, const struct tide_checkpoint_options *given,
                          struct tide_checkpoint **out) {
    struct tide_store *store = tide_store_of(node);
    struct tide_checkpoint_options own, *o = &own;
    *out = NULL;
    int code =
        tide__layout_read("checkpoint", given, TIDE_LAYOUT(struct tide_checkpoint_options, domain), &own, sizeof own);
    if (code < 0) {
        return code;
    }
    if (!store || !store->net || !store->port || !tide_fiber_current()) {
        return tide_fail(TIDE_EINVAL, "a checkpoint is written by a fiber of a node with a store");
    }
    if (!o->dir || !o->dir[0] || strlen(o->dir) + 16 >= TIDE__GENERATION_DIR_MAX) {
        return tide_fail(TIDE_EINVAL, "a checkpoint needs a directory");
    }
    struct tide_checkpoint *c = tide_alloc_zero(1, sizeof *c);
    if (!c) {
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    c->store = store;
    (void)snprintf(c->dir, sizeof c->dir, "%s", o->dir);
    c->keep = o->keep == 0 ? KEEP_DEFAULT : o->keep < KEEP_LEAST ? KEEP_LEAST : o->keep;
    c->full_every = o->full_every == 0                     ? FULL_EVERY_DEFAULT
                    : o->full_every > TIDE__INCREMENTS_MAX ? TIDE__INCREMENTS_MAX
                                                           : o->full_every;
    c->domain = o->domain;
    c->timeout = o->timeout ? o->timeout : 60 * TIDE_SECOND;
    c->manifest.id = store->port->ops->entropy(store->port) | 1u;
    c->manifest.cut_wall_ns = store->port->ops->wall(store->port);
    (void)snprintf(c->manifest.program, sizeof c->manifest.program, "%s", TIDE_VERSION);
    code = on_disk(c, make_top, NULL, 0);
    code = code ? code : write_parts(c, o->cut);
    if (code) {
        char text[500];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        tide_checkpoint_abort(c);
        return tide_fail(code, "%s", text);
    }
    c->told = 0; /* the nodes are done with it */
    c->info = tide__manifest_info(&c->manifest);
    c->info.committed = false;
    *out = c;
    return 0;
}

const struct tide_checkpoint_info *tide_checkpoint_get(const struct tide_checkpoint *c) {
    return &c->info;
}

/* ---- commit ---- */

int tide_checkpoint_commit(struct tide_checkpoint *c, const void *job, size_t job_size) {
    struct tide__manifest *m = &c->manifest;
    char *text = NULL;
    size_t size = 0;
    int code = 0;
    if (job) {
        m->job = tide_alloc(job_size + 1);
        m->job_size = m->job ? job_size : 0;
        code = m->job ? 0 : tide_fail(TIDE_ENOMEM, "no memory for a manifest");
    }
    if (m->job) {
        memcpy(m->job, job, job_size);
    }
    m->wall_ns = port_of(c)->ops->wall(port_of(c));
    code = code ? code : tide__manifest_write(m, c->store, &text, &size);
    code = code ? code : on_disk(c, commit, text, size);
    if (code && code != TIDE_ECANCELED) {
        char why[500];
        (void)snprintf(why, sizeof why, "%s", tide_error_message());
        tide_checkpoint_abort(c);
        return tide_fail(code, "%s", why);
    }
    tide__checkpoint_forget(c); /* ECANCELED: the disk thread commits it yet */
    return code;
}
