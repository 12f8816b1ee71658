/* The tier of a table: its directory, its bounds of memory, and its turn in the store actor. See tier.h. */
#include "store/slots/catalog.h"
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/tier/tier.h"
#include "tide/stats.h"

#include <stdlib.h>

enum { ROWS_LEAST = 8, OWNER_BYTES = 512, TEXT_BYTES = 1500 };
static const char owner_begins[] = "tide tier 1\n";
#define OPEN_NS (5 * TIDE_SECOND)

/* ---- bounds ---- */

/* Bytes of a row in memory, with the tier's arrays per row. */
static uint64_t row_bytes(const struct tide_table *table) {
    return table->slab.stride + sizeof(uint32_t) + sizeof(uint8_t);
}

static uint64_t buffers(const struct tide__tier *tier) {
    return 3 * (uint64_t)tier->block_bytes + (uint64_t)tier->reads_most * tier->read_bytes;
}

/* Bytes of the tier's buffers and of its arrays per row, as they are allocated. */
static uint64_t side_bytes(const struct tide__tier *tier) {
    return buffers(tier) + tier->rows_first * (sizeof *tier->back + sizeof *tier->warmth);
}

/* Sets the bounds of rows in memory: `memory` without the index and the buffers. */
static void bound(struct tide__tier *tier) {
    struct tide_table *table = tier->table;
    const uint64_t others = buffers(tier) + atomic_load_explicit(&table->index_bytes, memory_order_relaxed);
    const uint64_t memory = table->options.tier_memory;
    uint64_t rows = memory > others ? (memory - others) / row_bytes(table) : 0;
    if (tide__tier_short(table)) {
        const uint64_t made = tide__slab_bytes(&table->slab) / table->slab.stride; /* the slab does not grow */
        rows = rows < made ? rows : made;
    }
    rows -= rows > 8 * (uint64_t)table->slab.hand_rows ? table->slab.hand_rows : 0;
    rows = rows < ROWS_LEAST ? ROWS_LEAST : rows;
    rows -= rows / 16; /* the reserve */
    rows = rows < tide_limit(store_tier_rows) ? rows : tide_limit(store_tier_rows);
    rows = rows < tier->rows_capacity - tier->rows_reserve ? rows : tier->rows_capacity - tier->rows_reserve;
    atomic_store_explicit(&tier->face.rows_most, (unsigned)rows, memory_order_relaxed);
    atomic_store_explicit(&tier->face.rows_wake, (unsigned)(rows - rows / 10 - 1), memory_order_relaxed);
}

/* ---- the directory ---- */

static int directory_error(const struct tide__tier *tier, int code, const char *what) {
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof text, "%s", what);
    return tide_fail(code, "table '%s': no second tier in '%s' on node %s: %s", tier->table->name,
                     tier->table->options.tier_disk, tide_node_name(tier->table->store->node), text);
}

static void owner_text(const struct tide__tier *tier, char out[OWNER_BYTES]) {
    const struct tide_store *store = tier->table->store;
    (void)snprintf(out, OWNER_BYTES, "%scluster %s\ntable %s\nnode %s\n", owner_begins,
                   store->net ? tide_net_cluster(store->net) : "", tier->table->name, tide_node_name(store->node));
}

/* Did a tier write the file, perhaps only its beginning before a crash? */
static bool is_of_a_tier(const char *there, size_t size) {
    bool same = true;
    for (size_t i = 0; i < size && i < sizeof owner_begins - 1 && same; i++) {
        same = there[i] == owner_begins[i] || there[i] == '\0';
    }
    return same;
}

/* Does it name this table and node, as far as a crash has left the lines? The cluster may differ: its process holds the
 * lock no more, and its rows ended with it. */
static bool is_of_the_table(const struct tide__tier *tier, const char *there) {
    char wanted[OWNER_BYTES];
    const char *table = strstr(there, "\ntable ");
    (void)snprintf(wanted, sizeof wanted, "\ntable %s\nnode %s\n", tier->table->name,
                   tide_node_name(tier->table->store->node));
    const size_t left = table ? strlen(table) : 0, all = strlen(wanted);
    return strncmp(table ? table : "", wanted, left < all ? left : all) == 0;
}

/* An owner's file on one line. */
static void owner_line(const char *there, char out[OWNER_BYTES]) {
    (void)snprintf(out, OWNER_BYTES, "%s", there);
    for (char *at = out; (at = strchr(at, '\n')); *at = at[1] ? ' ' : '\0') {
    }
}

/* The directory of a table that is in use, of another table or of another program, is left as it is. */
static int own(struct tide__tier *tier) {
    struct tide_port *port = tier->port;
    char path[TIDE__TIER_PATH + 40], wanted[OWNER_BYTES], there[OWNER_BYTES] = "", text[TEXT_BYTES];
    (void)snprintf(path, sizeof path, "%s/OWNER", tier->path);
    owner_text(tier, wanted);
    int code = port->ops->file_open(
        port, path, TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_LOCK | TIDE_FILE_PRIVATE,
        &tier->owner);
    if (code == TIDE_EBUSY) {
        return directory_error(tier, code,
                               "another process, or a table that was dropped, still has it. Try again, or "
                               "choose another `disk`");
    }
    if (code) {
        return directory_error(tier, code, tide_error_message());
    }
    const ssize_t got = port->ops->file_read(tier->owner, there, sizeof there - 1, 0);
    if (got < 0) {
        return directory_error(tier, (int)got, tide_error_message());
    }
    there[got] = '\0';
    const bool foreign = !is_of_a_tier(there, (size_t)got);
    if (foreign || !is_of_the_table(tier, there)) {
        owner_line(there, wanted);
        (void)snprintf(text, sizeof text, "%s belongs to another %s: %s. Choose another `disk`%s%s", tier->path,
                       foreign ? "program" : "table", wanted, foreign ? "" : ", or, if no process uses it: rm -r ",
                       foreign ? "" : tier->path);
        port->ops->file_close(tier->owner); /* and nothing of it is removed */
        tier->owner = NULL;
        return directory_error(tier, TIDE_EMISMATCH, text);
    }
    code = port->ops->file_write(tier->owner, wanted, strlen(wanted), 0);
    code = code ? code : port->ops->file_sync(tier->owner);
    return code ? directory_error(tier, code, tide_error_message()) : 0;
}

struct leftovers {
    char names[64][32];
    size_t count;
};

static void leftover(void *arg, const char *name) {
    struct leftovers *l = arg;
    const size_t length = strlen(name);
    if (l->count < TIDE_COUNT(l->names) && length > 4 && length < sizeof l->names[0] &&
        strcmp(name + length - 4, ".seg") == 0) {
        (void)snprintf(l->names[l->count++], sizeof l->names[0], "%s", name);
    }
}

/* Segments of an earlier life of the table. */
static int empty(struct tide__tier *tier) {
    struct tide_port *port = tier->port;
    struct leftovers l;
    int code = 0;
    do {
        l.count = 0;
        code = port->ops->file_list(port, tier->path, leftover, &l);
        for (size_t i = 0; i < l.count && !code; i++) {
            char path[TIDE__TIER_PATH + 40];
            (void)snprintf(path, sizeof path, "%s/%s", tier->path, l.names[i]);
            code = port->ops->file_unlink(port, path);
        }
    } while (!code && l.count == TIDE_COUNT(l.names));
    return code ? directory_error(tier, code, tide_error_message()) : 0;
}

int tide__tier_open(struct tide__tier *tier) {
    struct tide_port *port = tier->port;
    struct tide_file_info info;
    const char *disk = tier->table->options.tier_disk;
    if (port->ops->file_info(port, disk, &info) || !info.directory) {
        char text[400];
        (void)snprintf(text, sizeof text, "there is no such directory. Make it on each node: mkdir -p %s", disk);
        return directory_error(tier, TIDE_ENOENT, text);
    }
    (void)snprintf(tier->path, sizeof tier->path, "%s/%s-%s", disk, tier->table->name,
                   tide_node_name(tier->table->store->node));
    int code = port->ops->file_mkdir(port, tier->path, 0700);
    code = code ? directory_error(tier, code, tide_error_message()) : own(tier);
    return code ? code : empty(tier);
}

/* ---- life ---- */

bool tide__tier_wake(struct tide__tier *tier) {
    const bool good = atomic_exchange_explicit(&tier->face.woken, true, memory_order_relaxed) ||
                      tide__store_post(tier->table->store, TIDE__AS(TIER, .table = tier->table->id)) == 0;
    if (!good) {
        atomic_store_explicit(&tier->face.woken, false, memory_order_relaxed);
    }
    return good;
}

static void wake(struct tide_table *table) {
    (void)tide__tier_wake(tide__tier_of(table)); /* after an error the next row retries */
}

void tide__tier_again(struct tide__tier *tier) {
    tier->again = true;
    wake(tier->table);
}

/* The budget of the node, or of the run, has no room for another row: new rows wait until others are frozen. */
static void hold_rows(struct tide_table *table) {
    const unsigned used = tide__slab_used(&table->slab), rows = used > ROWS_LEAST ? used : ROWS_LEAST;
    if (rows < atomic_load_explicit(&tide__tiered_of(table)->rows_most, memory_order_relaxed)) {
        atomic_store_explicit(&tide__tiered_of(table)->rows_most, rows, memory_order_relaxed);
        wake(table);
    }
}

void tide__tier_count(struct tide__tier *tier) {
    const uint64_t rows = tier->cold + tier->anew.count;
    atomic_store_explicit(&tier->face.aside, rows > tier->taken ? rows - tier->taken : 0, memory_order_relaxed);
}

static void forget_cold(struct tide_table *table, uint32_t place) {
    struct tide__tier *tier = tide__tier_of(table);
    tide__place_forget(tier, place);
    tier->cold -= place != TIDE__PLACE_INITIAL && tier->cold > 0;
    tide__tier_count(tier);
}

/* Runs on the disk thread, or on the caller's where release() has no node. */
static void remove_files(struct tide_task *task) {
    struct tide__tier *tier = ((struct tide__work *)(void *)task)->tier;
    struct tide_port *port = tier->port;
    char path[TIDE__TIER_PATH + 40];
    for (uint32_t i = 0; tier->segments && i < TIDE__TIER_SEGMENTS; i++) {
        struct tide__segment *segment = tier->segments[i];
        if (segment && segment->file) {
            port->ops->file_close(segment->file);
        }
    }
    if (tier->owner) {
        (void)(port->crashed ? 0 : empty(tier)); /* with files whose removal has failed before */
        (void)snprintf(path, sizeof path, "%s/OWNER", tier->path);
        (void)(port->crashed ? 0 : port->ops->file_unlink(port, path));
        port->ops->file_close(tier->owner);
        (void)(port->crashed ? 0 : port->ops->file_unlink(port, tier->path));
    }
}

static void wants_free(struct tide__want *want) {
    for (struct tide__want *next; want; want = next) {
        next = want->next;
        tide_free(want);
    }
}

static void free_tier(struct tide_task *task) {
    struct tide__tier *tier = ((struct tide__work *)(void *)task)->tier;
    for (uint32_t i = 0; tier->segments && i < TIDE__TIER_SEGMENTS; i++) {
        tide_free(tier->segments[i]);
    }
    if (tier->segments) {
        tide_unmap(tier->segments, TIDE__TIER_SEGMENTS * sizeof(void *));
    }
    for (uint32_t i = 0; tier->reading && i < tier->reads_most; i++) {
        wants_free(tier->reading[i].wants); /* of a read in flight when the node ended */
        tide_free(tier->reading[i].data);
    }
    tide_free(tier->reading);
    tide_free(tier->back);
    tide_free(tier->warmth);
    tide_free(tier->freeze.data);
    tide_free(tier->freeze.puts);
    tide_free(tier->compact.data);
    tide_free(tier->compact.puts);
    tide_free(tier->scan_data);
    tide_free(tier);
}

/* Removes the directory. node NULL: now; else on the disk thread. */
static void release(struct tide__tier *tier, struct tide_node *node) {
    tide__readers_stop(tier);
    tier->open.task = (struct tide_task){.run = remove_files, .done = free_tier};
    tier->open.tier = tier;
    tide_task_start(node, TIDE_ROLE_DISK, &tier->open.task);
}

static int allocate(struct tide__tier *tier) {
    struct tide_table *table = tier->table;
    const uint64_t rows = table->options.tier_memory / row_bytes(table) + 2 * ROWS_LEAST;
    tier->rows_capacity = rows < UINT32_MAX / 2 ? (uint32_t)rows : UINT32_MAX / 2;
    tier->rows_reserve = tier->rows_capacity / 16 + 1;
    tier->rows_capacity += tier->rows_capacity / 8 + 2 * TIDE__HAND_ROWS; /* rows in the slab's hand */
    tier->rows_first = tier->rows_capacity;
    tier->back = tide_alloc(tier->rows_capacity * sizeof *tier->back);
    tier->warmth = tide_alloc_zero(tier->rows_capacity, 1);
    tier->segments = tide_map(TIDE__TIER_SEGMENTS * sizeof(void *), false);
    tier->scan_data = tide_alloc_aligned(TIDE__TIER_BLOCK, tier->block_bytes);
    tier->reading = tide_alloc_zero(tier->reads_most, sizeof *tier->reading);
    int code = tide__stream_init(tier, &tier->freeze, tide__freeze_done);
    code = code ? code : tide__stream_init(tier, &tier->compact, tide__compact_done);
    if (code || !tier->back || !tier->warmth || !tier->segments || !tier->scan_data || !tier->reading) {
        return tide_fail(TIDE_ENOMEM, "no memory for the second tier of table '%s'", table->name);
    }
    for (uint32_t i = 0; i < tier->rows_capacity; i++) {
        tier->back[i] = TIDE__PLACE_NONE;
    }
    tide__reads_init(tier);
    return 0;
}

static void start_readers(struct tide__tier *tier) {
    if (tide__readers_start(tier) != 0) {
        tide_log(TIDE_LOG_WARN, tide_node_name(tier->table->store->node),
                 "table '%s' has fewer threads that read its rows than it should: %s", tier->table->name,
                 tide_error_message());
    }
}

static int table_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    if (!table->options.tier_disk[0]) {
        return 0;
    }
    if (!table->store->system) {
        return tide_fail(TIDE_EUNSUPPORTED, "table '%s': `disk` needs a node that runs", table->name);
    }
    struct tide__tier *tier = tide_alloc_zero(1, sizeof *tier);
    if (!tier) {
        return tide_fail(TIDE_ENOMEM, "no memory for the second tier of table '%s'", table->name);
    }
    tier->table = table;
    tier->port = table->store->port;
    tier->face.wake = wake;
    tier->face.hold_rows = hold_rows;
    tier->face.want = tide__tier_want;
    tier->face.forget = forget_cold;
    tier->victim = TIDE__PLACE_NONE;
    tier->finished_last = &tier->finished;
    tide__tier_layout(tier, table->row_floats, table->options.tier_memory);
    int code = allocate(tier);
    if (!code && !table->store->net) { /* on a fiber of a worker, which may block */
        code = tide__tier_open(tier);
        tier->opened = true;
        start_readers(tier);
    }
    if (code) {
        char text[900];
        (void)snprintf(text, sizeof text, "%s", tide_error_message());
        release(tier, NULL);
        return tide_fail(code, "%s", text);
    }
    tier->face.opening = !tier->opened;
    table->parts[TIDE__PART_TIER] = &tier->face;
    tide_budget_keep(table->budget, side_bytes(tier));
    bound(tier);
    atomic_fetch_add_explicit(&table->store->tiered, 1, memory_order_relaxed);
    return 0;
}

static void opened(struct tide__tier *tier, struct tide__work *work);

static void begin_open(struct tide__tier *tier) {
    tier->opens_again = false;
    tier->open = (struct tide__work){.kind = TIDE__WORK_OPEN, .done = opened};
    tide__work_begin(tier, &tier->open);
}

static void opened(struct tide__tier *tier, struct tide__work *work) {
    struct tide_table *table = tier->table;
    if (work->code == TIDE_EBUSY && tide_port_now(tier->port) < tier->open_until) {
        tier->opens_again = true; /* a dropped table of this name is about to release the directory */
        return;
    }
    tier->opened = work->code == 0;
    if (tier->opened) {
        start_readers(tier);
    }
    tier->face.opening = false;
    tier->face.refused = work->code;
    if (work->code) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node), "%s", work->text);
        tier->error = work->code;
        tier->error_until = UINT64_MAX;
        (void)snprintf(tier->error_text, sizeof tier->error_text, "%s", work->text);
    }
    if (tier->face.asked) {
        tide__catalog_made(table->store, table->id, work->code, tier->face.changes, work->text);
    }
}

static void begins(struct tide__tier *tier) {
    tier->open_until = tide_port_now(tier->port) + OPEN_NS;
    begin_open(tier);
}

static void freed(struct tide_table *table, struct tide__tier *tier) {
    wants_free(tier->wants.first);
    wants_free(tier->anew.first);
    wants_free(tier->later.first);
    table->parts[TIDE__PART_TIER] = NULL;
    tide_budget_drop(table->budget, side_bytes(tier));
    atomic_fetch_sub_explicit(&table->store->tiered, 1, memory_order_relaxed);
    release(tier, table->dropping ? table->store->node : NULL);
}

static void table_event(struct tide_table *table, enum tide__table_event event) {
    struct tide__tier *tier = tide__tier_of(table);
    if (tier && event == TIDE__TABLE_BEGINS) {
        begins(tier);
    } else if (tier && event == TIDE__TABLE_FREED) {
        freed(table, tier);
    }
}

static bool table_works(struct tide_table *table, enum tide__table_work work) {
    const struct tide__tier *tier = tide__tier_of(table);
    return work == TIDE__WORK_IN_FLIGHT && tier &&
           (tier->outstanding > 0 || tier->wants.first || tier->anew.first || tier->later.first);
}

/* ---- turns ---- */

static void tell(struct tide__tier *tier) {
    const uint64_t values[TIDE__TIER_STATS] = {
        [TIDE__TIER_COLD] = tier->cold,
        [TIDE__TIER_BYTES] = tier->segments_count * (tier->per_segment / tier->per_unit) * (uint64_t)tier->unit_bytes,
        [TIDE__TIER_FROZEN] = tier->frozen,
        [TIDE__TIER_THAWED] = tier->thawed,
        [TIDE__TIER_MOVED] = tier->moved};
    for (size_t i = 0; i < TIDE__TIER_STATS; i++) {
        atomic_store_explicit(&tier->stats[i], values[i], memory_order_relaxed);
    }
}

/* Returns the ns until the next turn; 0: at the next event. */
static uint64_t turn(struct tide__tier *tier) {
    const uint64_t now = tide_port_now(tier->port);
    tier->again = tier->rests = false;
    if (tier->error && now >= tier->error_until) {
        tier->error = 0; /* the next write is a retry */
    }
    bound(tier);
    if (tier->opens_again) {
        begin_open(tier);
    }
    tide__work_finish(tier);
    tide__hand_step(tier);
    tide__thaw_step(tier);
    const bool hand_rests = tier->rests || (tier->freezing && tide__hand_rests(tier));
    if (tier->freezing && !tier->freeze.busy && !hand_rests) {
        tide__tier_again(tier); /* new rows need room */
    }
    tide__compact_step(tier);
    tell(tier);
    const bool waits = tier->opens_again || hand_rests || tier->error || tier->later.first || now < tier->compact_at;
    return waits ? TIDE__TIER_RETRY_NS : 0;
}

int tide__tier_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide_table *table = tide__table_by_id(store, in->as.TIER.table);
    if (in->from != tide__store_self(store)) {
        return TIDE_EPROTO;
    }
    if (table && tide__tiered_of(table)) {
        atomic_store_explicit(&tide__tiered_of(table)->woken, false, memory_order_relaxed);
        tide__tier_of(table)->again = true;
    }
    return 0;
}

static uint64_t end_of_turn(struct tide_store *store) {
    uint64_t again = 0;
    const unsigned count = atomic_load_explicit(&store->tiered, memory_order_relaxed)
                               ? atomic_load_explicit(&store->table_count, memory_order_relaxed)
                               : 0;
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__tier *tier = table ? tide__tier_of(table) : NULL;
        const bool full =
            tier && !tier->due && tier->opened && !tier->freeze.busy &&
            tide__slab_used(&table->slab) >= atomic_load_explicit(&tier->face.rows_wake, memory_order_relaxed);
        if (tier && (full || tier->again || (tier->due && tide_port_now(store->port) >= tier->due))) {
            const uint64_t wait = turn(tier);
            tier->due = wait ? tide_port_now(store->port) + wait : 0;
        }
        if (tier && tier->due) {
            again = TIDE__TIER_RETRY_NS;
        }
    }
    return again;
}

static void table_stats(struct tide_table *table, struct tide_table_stats *out) {
    const struct tide__tier *tier = tide__tier_of(table);
    if (tier) {
        out->cold_rows = atomic_load_explicit(&tier->stats[TIDE__TIER_COLD], memory_order_relaxed);
        out->disk_bytes = atomic_load_explicit(&tier->stats[TIDE__TIER_BYTES], memory_order_relaxed);
        out->frozen = atomic_load_explicit(&tier->stats[TIDE__TIER_FROZEN], memory_order_relaxed);
        out->thawed = atomic_load_explicit(&tier->stats[TIDE__TIER_THAWED], memory_order_relaxed);
        out->compacted = atomic_load_explicit(&tier->stats[TIDE__TIER_MOVED], memory_order_relaxed);
    }
}

const struct tide__technique tide__tiering = {
    .name = "tier",
    .end_of_turn = end_of_turn,
    .table_create = table_create,
    .table_event = table_event,
    .table_works = table_works,
    .table_stats = table_stats,
};
