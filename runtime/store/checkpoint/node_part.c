/* See node_part.h. All of it runs in the store actor, on I/O thread 0, but the walk. */
#include "store/rows/forget.h"
#include "store/checkpoint/node_part.h"
#include "store/core/send.h"

#include "store/clocked/clocked.h"
#include "store/checkpoint/walk.h"

enum { TABLES_MAX = TIDE__TABLES_MAX, NODES_MAX = 4096, WORKERS_MAX = 4096 };

enum stage { ASKED, TOLD, WALKING, WRITTEN };

struct tide__generation {
    uint64_t id;
    enum stage stage;
    bool gone;          /* aborted, or its coordinator ended: ends as soon as nothing runs */
    bool walker_wanted; /* to mark the rows; there was no memory for it yet */
    tide_address coordinator;
    uint64_t monitor;
    uint32_t clock;           /* of the cut; TIDE_NO_CLOCK: fuzzy */
    struct tide__run *domain; /* whose clocks are cut, held; NULL: none */
    uint16_t *nodes;          /* all that write; bit of `walks` by position: it has said that it walks */
    size_t node_count;
    bool *walks;
    struct tide__walk *walk;
    /* an answer that is due later: SETTLE or COLLECT; call 0: none */
    tide_address from;
    uint64_t call;
    int waits;
};

/* *takes* `domain`. The gate of the former one opens. */
static void domain_set(struct tide__generation *g, struct tide__run *domain) {
    if (g->domain) {
        atomic_store_explicit(&g->domain->cut_clock, TIDE_NO_CLOCK, memory_order_release);
        tide__clocks_gate(g->domain, TIDE_NO_CLOCK);
        tide__run_release(g->domain);
    }
    g->domain = domain;
}

static void gate(struct tide__generation *g, uint32_t clock) {
    if (g->domain) {
        tide__clocks_gate(g->domain, clock);
    }
}

static void generation_free(struct tide_store *store) {
    struct tide__generation *g = store->generation;
    store->generation = NULL;
    domain_set(g, NULL);
    tide__walk_destroy(g->walk);
    tide_free(g->nodes);
    tide_free(g->walks);
    tide_free(g);
}

void tide__generations_destroy(struct tide_store *store) {
    if (store->generation) {
        generation_free(store);
    }
}

static void answer_writer(tide_address from, uint64_t call, struct tide_writer *w) {
    if (w->error) {
        (void)tide_answer_error(from, call, TIDE_ENOMEM, "no memory for an answer");
    } else {
        (void)tide_answer(from, call, w->data, w->size);
    }
    tide_writer_release(w);
}

/* ---- workers ---- */

static void write_clocks(struct tide__generation *g, struct tide_writer *w, uint32_t most) {
    static const struct tide__worker_clock none[1];
    struct tide__worker_clock *clocks = tide_alloc(WORKERS_MAX * sizeof *clocks);
    size_t count = clocks && g->domain ? tide__clocks_list(g->domain, clocks, WORKERS_MAX) : 0;
    const struct tide__worker_clock *from = clocks ? clocks : none;
    count = count < WORKERS_MAX ? count : WORKERS_MAX;
    tide_write_typed_head(w, TIDE_U32, count);
    for (size_t i = 0; i < count; i++) {
        void *out = tide_write_reserve(w, sizeof from[i].worker);
        if (out) {
            memcpy(out, &from[i].worker, sizeof from[i].worker);
        }
    }
    tide_write_typed_head(w, TIDE_U32, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t clock = from[i].clock < most ? from[i].clock : most;
        void *out = tide_write_reserve(w, sizeof clock);
        if (out) {
            memcpy(out, &clock, sizeof clock);
        }
    }
    tide_free(clocks);
}

/* Every worker has passed the cut, and what it pushed before is answered. In this order: a worker
 * that passes in between pushes nothing of before any more. In tables with clocks nothing is
 * answered: the rows that are here hold what all workers pushed before. */
static bool settled(struct tide_store *store, const struct tide__generation *g) {
    return g->clock == TIDE_NO_CLOCK ||
           (tide__node_clock(g->domain) >= g->clock && !tide__pending_stamped(store, g->domain->number, g->clock) &&
            (tide__clocked_settled(g->domain, g->clock) || TIDE_MUTANT(ticks_not_awaited)));
}

/* ---- the walk ---- */

struct walker {
    struct tide_store *store;
    struct tide__walk *walk;
    uint64_t id;
};

static int walker_main(void *state) {
    struct walker *walker = state;
    struct tide_writer w;
    uint8_t buffer[32];
    tide__walk_run(walker->walk);
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, TIDE__AS(CUT_WROTE, .id = walker->id));
    /* the store keeps the generation until its end is announced */
    (void)tide__memory_swap(TIDE_MEMORY_VITAL);
    int code = tide_send(tide_address_make(0, TIDE_ID_STORE), TIDE_LANE_STORE, w.data, w.size);
    tide_writer_release(&w);
    return code;
}

static int start_walker(struct tide_store *store, struct tide__generation *g) {
    struct walker *walker = tide_alloc(sizeof *walker);
    if (!walker) {
        return tide_fail(TIDE_ENOMEM, "no memory for the writer of a checkpoint");
    }
    *walker = (struct walker){.store = store, .walk = g->walk, .id = g->id};
    struct tide_actor_options options = {
        .type = "checkpoint", .run = walker_main, .state = walker, .release = tide_free, .role = TIDE_ROLE_DISK};
    tide_address address;
    int code = tide_spawn(store->node, &options, &address);
    if (code) {
        tide_free(walker);
    }
    return code;
}

/* ---- aborting ---- */

static void give_up(struct tide_store *store) {
    struct tide__generation *g = store->generation;
    if (g->gone) {
        return;
    }
    g->gone = true;
    if (g->monitor) {
        tide_demonitor(g->monitor);
    }
    gate(g, TIDE_NO_CLOCK);
    if (g->call) {
        (void)tide_answer_error(g->from, g->call, TIDE_ECANCELED, "the checkpoint was given up");
        g->call = 0;
    }
    if (g->stage == TOLD) { /* some rows are split: all are marked, then it is as if never begun */
        atomic_store_explicit(&g->walk->aborted, true, memory_order_relaxed);
        for (size_t t = 0; t < g->walk->table_count; t++) {
            tide__cut_walk(g->walk->tables[t], true);
        }
        g->stage = WALKING;
        g->walker_wanted = start_walker(store, g) != 0;
    } else if (g->stage == WALKING) {
        atomic_store_explicit(&g->walk->aborted, true, memory_order_relaxed);
    } else {
        generation_free(store);
    }
}

static void generation_give_up(struct tide_store *store) {
    if (store->generation && !store->generation->gone) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "the checkpoint is given up for want of memory");
        give_up(store);
    }
}

void tide__generation_exit(struct tide_store *store, uint64_t monitor) {
    if (store->generation && store->generation->monitor == monitor && monitor) {
        store->generation->monitor = 0;
        give_up(store);
    }
}

/* ---- rounds ---- */

/* Rows went away since the last generation: it cannot be built upon. */
static bool rows_removed(struct tide_store *store) {
    bool any = store->tables_removed;
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        any = any || (table && (atomic_load_explicit(&table->rows_removed, memory_order_relaxed) ||
                                (tide__forget_of(table) && tide__forget_gone_lost(table))));
    }
    return any;
}

/* Bit d: rows that leave here, or have left, say that a generation took them whose number ends in d
 * (modulo 16); 0 is what those of a new table say. */
static uint32_t digits_in_use(struct tide_store *store) {
    uint32_t digits = 1;
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_acquire);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table) {
            uint64_t cut = atomic_load_explicit(&table->cut, memory_order_relaxed);
            digits |= 1u << tide__cut_sequence(cut);
        }
    }
    return digits;
}

/* The generation that a round is about. NULL: ECANCELED. */
static struct tide__generation *generation_of(struct tide_store *store, uint64_t id) {
    struct tide__generation *g = store->generation;
    if (!g || g->id != id || g->gone) {
        tide_fail(TIDE_ECANCELED, "this node has given the checkpoint up");
        return NULL;
    }
    return g;
}

int tide__cut_ask_call(struct tide_store *store, struct tide__incoming *in) {
    const struct tide_message *message = in->message;
    const uint32_t wanted = in->as.CUT_ASK.domain;
    if (in->as.CUT_ASK.id == 0) {
        return tide_fail(TIDE_EPROTO, "a checkpoint without a number");
    }
    if (store->generation) {
        return tide_fail(TIDE_EBUSY, "another checkpoint is being written");
    }
    struct tide__generation *g = tide_alloc_zero(1, sizeof *g);
    if (!g) {
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    g->id = in->as.CUT_ASK.id;
    g->coordinator = message->from;
    store->generation = g;
    int code = tide_monitor(message->from, &g->monitor);
    if (code) {
        generation_free(store);
        return code;
    }
    bool several = false;
    struct tide__run *domain = wanted ? tide__run_find(store, wanted) : tide__domain_at_work(store, &several);
    domain_set(g, domain ? tide__run_hold(store, domain->number) : NULL);
    const uint32_t clock = domain ? tide__clocks_hold(domain, 2) : TIDE_NO_CLOCK;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 9);
    tide_write_uint(&w, store->cut_sequence);
    tide_write_uint(&w, digits_in_use(store));
    tide_write_uint(&w, store->cut_last);
    tide_write_bool(&w, rows_removed(store));
    tide_write_uint(&w, clock);
    tide_write_uint(&w, domain ? domain->number : 0);
    tide_write_bool(&w, several);
    write_clocks(g, &w, TIDE_NO_CLOCK);
    answer_writer(message->from, message->call, &w);
    return 0;
}

static bool copy_nodes(struct tide__generation *g, const uint8_t *nodes, size_t count) {
    g->nodes = tide_alloc((count + 1) * sizeof *g->nodes);
    g->walks = tide_alloc_zero(count + 1, sizeof *g->walks);
    for (size_t i = 0; i < count && g->nodes && g->walks; i++) {
        g->nodes[i] = (uint16_t)tide__number_at(nodes, i);
    }
    g->node_count = count;
    return g->nodes && g->walks;
}

/* Do stamps of this domain say what of the table is before the cut? */
static bool has_clocks_of(const struct tide_table *table, const struct tide__run *domain) {
    return table->domain == domain || (table->options.domain == 0 && !tide__clocked_part(table));
}

int tide__cut_tell_call(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.CUT_TELL) *m = &in->as.CUT_TELL;
    struct tide__generation *g = generation_of(store, m->id);
    if (!g) {
        return TIDE_ECANCELED;
    }
    if (g->stage != ASKED || m->dir.count >= TIDE__GENERATION_DIR_MAX || m->tables.count > TABLES_MAX ||
        m->nodes.count > NODES_MAX) {
        return tide_fail(TIDE_EPROTO, "a damaged announcement of a cut");
    }
    const size_t table_count = m->tables.count, node_count = m->nodes.count;
    const bool full = m->full;
    if (!full && rows_removed(store)) {
        return tide_fail(TIDE_EBUSY, "rows were cleared while a checkpoint began");
    }
    if (!copy_nodes(g, m->nodes.at, node_count)) {
        return tide_fail(TIDE_ENOMEM, "no memory for a checkpoint");
    }
    if (!g->domain || g->domain->number != m->domain) { /* no worker of it is here */
        struct tide__run *domain = tide__run_hold(store, m->domain);
        if (!domain) {
            return TIDE_ENOMEM;
        }
        domain_set(g, domain);
    }
    int code = tide__walk_create(store, table_count, &g->walk);
    for (size_t t = 0; t < table_count && !code; t++) {
        const uint32_t id = tide__number_at(m->tables.at, t);
        g->walk->tables[t] = tide__table_by_id(store, id);
        code = g->walk->tables[t] ? tide__cut_init(g->walk->tables[t])
                                  : tide_fail(TIDE_ENOENT, "no table with id %u here", id);
    }
    if (code) {
        return code;
    }
    (void)snprintf(g->walk->dir, sizeof g->walk->dir, "%.*s", (int)m->dir.count, (const char *)m->dir.at);
    atomic_store_explicit(&g->walk->others_left, (unsigned)(node_count ? node_count - 1 : 0), memory_order_relaxed);
    g->clock = m->clock;
    g->stage = TOLD;
    store->cut_sequence = m->sequence;
    store->tables_removed = false;
    for (size_t t = 0; t < table_count; t++) { /* a table dropped from here on fails the generation */
        atomic_store_explicit(&g->walk->tables[t]->rows_removed, false, memory_order_relaxed);
        tide__cut_tell(g->walk->tables[t], m->sequence,
                       has_clocks_of(g->walk->tables[t], g->domain) ? g->clock : TIDE_NO_CLOCK, full);
    }
    /* release: pairs with tide__cut_clock_told; before the gate is moved on */
    atomic_store_explicit(&g->domain->cut_clock, g->clock, memory_order_release);
    gate(g, g->clock);
    return tide__nothing_answer(in->message);
}

int tide__cut_walk_call(struct tide_store *store, struct tide__incoming *in) {
    struct tide__generation *g = generation_of(store, in->as.CUT_WALK.id);
    if (!g) {
        return TIDE_ECANCELED;
    }
    if (g->stage != TOLD) {
        return tide_fail(TIDE_EPROTO, "a checkpoint's rounds are out of order");
    }
    bool known = true;
    for (size_t t = 0; t < g->walk->table_count; t++) {
        known &= !tide__forget_of(g->walk->tables[t]) || tide__forget_gone_begin(g->walk->tables[t]);
    }
    if (!known) { /* the next one is full, as after each that failed */
        return tide_fail(TIDE_EBUSY, "more keys went than a node notes while a checkpoint began");
    }
    for (size_t t = 0; t < g->walk->table_count; t++) {
        tide__cut_walk(g->walk->tables[t], false);
    }
    g->stage = WALKING;
    int code = start_walker(store, g);
    if (code) {
        g->walker_wanted = true;
        return code;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i] != tide__store_self(store)) {
            (void)tide__store_tell(store, g->nodes[i], TIDE__AS(CUT_WALKING, .id = g->id));
        }
    }
    return tide__nothing_answer(in->message);
}

int tide__cut_open_call(struct tide_store *store, struct tide__incoming *in) {
    struct tide__generation *g = generation_of(store, in->as.CUT_OPEN.id);
    if (!g) {
        return TIDE_ECANCELED;
    }
    gate(g, TIDE_NO_CLOCK);
    return tide__nothing_answer(in->message);
}

/* generation_advance answers. */
static int wait_for(struct tide_store *store, const struct tide__incoming *in, uint64_t id) {
    struct tide__generation *g = generation_of(store, id);
    if (!g) {
        return TIDE_ECANCELED;
    }
    if (g->stage == ASKED) {
        return tide_fail(TIDE_EPROTO, "a checkpoint's rounds are out of order");
    }
    g->from = in->message->from;
    g->call = in->message->call;
    g->waits = in->op;
    return 0;
}

int tide__cut_settle_call(struct tide_store *store, struct tide__incoming *in) {
    return wait_for(store, in, in->as.CUT_SETTLE.id);
}

int tide__cut_collect_call(struct tide_store *store, struct tide__incoming *in) {
    return wait_for(store, in, in->as.CUT_COLLECT.id);
}

/* One more node that the walk does not wait for: it walks, or it has gone before it said so. */
static void wait_no_more(struct tide__generation *g, uint16_t node, bool gone) {
    for (size_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i] == node && !g->walks[i]) {
            g->walks[i] = true;
            if (gone) {
                atomic_store_explicit(&g->walk->others_gone, true, memory_order_relaxed);
            }
            /* release: the rows that came before; pairs with wait_for_others of walk.c */
            atomic_fetch_sub_explicit(&g->walk->others_left, 1, memory_order_release);
        }
    }
}

static void generation_member(struct tide_store *store, const struct tide_member *member) {
    struct tide__generation *g = store->generation;
    const bool gone = member->state == TIDE_MEMBER_DEAD || member->state == TIDE_MEMBER_LEFT;
    if (g && g->walk && gone && !TIDE_MUTANT(walks_awaited_of_gone)) {
        wait_no_more(g, member->id, true);
    }
}

int tide__cut_abort_message(struct tide_store *store, struct tide__incoming *in) {
    if (store->generation && store->generation->id == in->as.CUT_ABORT.id) { /* else it was aborted */
        give_up(store);
    }
    return 0;
}

int tide__cut_wrote_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__generation *g = store->generation;
    if (g && g->id == in->as.CUT_WROTE.id && in->from == tide__store_self(store) && g->stage == WALKING) {
        g->stage = WRITTEN;
        store->cut_last = g->walk->code ? 0 : g->id;
    }
    return 0;
}

int tide__cut_walking_message(struct tide_store *store, struct tide__incoming *in) {
    if (store->generation && store->generation->id == in->as.CUT_WALKING.id) {
        wait_no_more(store->generation, in->from, false);
    }
    return 0;
}

static void answer_collect(struct tide_store *store, const struct tide__generation *g) {
    struct tide__walk *walk = g->walk;
    if (walk->code) {
        (void)tide_answer_error(g->from, g->call, walk->code, walk->text);
        return;
    }
    struct tide_writer w;
    (void)store;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 3);
    tide_write_uint(&w, walk->bytes);
    tide_write_uint(&w, walk->rows);
    tide_write_array(&w, walk->file_count);
    tide_write_raw(&w, walk->files.data, walk->files.size);
    answer_writer(g->from, g->call, &w);
}

static bool generation_advance(struct tide_store *store) {
    struct tide__generation *g = store->generation;
    if (g->walker_wanted) {
        g->walker_wanted = start_walker(store, g) != 0;
    }
    if (g->call && g->waits == TIDE__OP_CUT_SETTLE && settled(store, g)) {
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide_write_array(&w, 2);
        write_clocks(g, &w, g->clock);
        answer_writer(g->from, g->call, &w);
        g->call = 0;
    }
    if (g->stage == WRITTEN && (g->gone || (g->call && g->waits == TIDE__OP_CUT_COLLECT))) {
        if (g->call) {
            answer_collect(store, g);
            tide_demonitor(g->monitor);
        }
        generation_free(store);
        return false;
    }
    return g->walker_wanted || (g->call && g->waits == TIDE__OP_CUT_SETTLE);
}

/* ---- as a technique (technique.h) ---- */

static uint64_t end_of_turn(struct tide_store *store) {
    return store->generation && generation_advance(store) ? TIDE_SECOND / 1000 : 0;
}

static void store_event(struct tide_store *store, enum tide__store_event event) {
    if (event == TIDE__STORE_MEMORY_FULL) {
        generation_give_up(store);
    }
}

static bool table_works(struct tide_table *table, enum tide__table_work work) {
    return work == TIDE__WORK_IN_FLIGHT && table->store->generation;
}

const struct tide__technique tide__checkpoints = {
    .name = "checkpoints",
    .store_event = store_event,
    .member_changed = generation_member,
    .end_of_turn = end_of_turn,
    .table_works = table_works,
};
