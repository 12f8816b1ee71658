/*
 * A run: nodes join, tables are made, then chaos, in which faults happen and workers work, then
 * heal, in which nothing happens to anybody any more and everything must come to an end: every
 * operation answered, every node where it was going, every queue empty. At last every node reads
 * every key.
 *
 * Everything that concerns whole nodes is done between events, at times of the plan and every
 * 10 ms.
 */
#include "store/core/table.h"
#include "world.h"

#include <math.h>
#include <stdarg.h>

enum {
    CHECK_EVERY = 16, /* ticks */
    HEAL_WAYS = 400,  /* from node to node, beside heal_s */
    LIMITED_TIMES = 40,
};
static const uint64_t tick = 10 * MS, join_again = 250 * MS;
static const uint64_t setup_max = 30 * TIDE_SECOND;
/* More than these on average: it runs in circles. A large message that comes in small pieces is an
 * event a piece. */
static const double events_per_second = 400000, messages_per_second = 1000;

void swarm_fail(struct world *w, const char *checker, const char *format, ...) {
    struct swarm_report *r = w->report;
    if (r->failed) {
        return;
    }
    r->failed = true;
    (void)snprintf(r->checker, sizeof r->checker, "%s", checker);
    int used = snprintf(r->what, sizeof r->what, "%.6f s: ", (double)tide_sim_now(w->sim) / 1e9);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(r->what + used, sizeof r->what - (size_t)used, format, arguments);
    va_end(arguments);
}

/* The watch found it. */
static void watched(void *arg, const char *checker, const char *text) {
    swarm_fail(arg, checker, "%s", text);
}

uint64_t patience(const struct world *w, uint64_t ns) {
    return w->limited ? LIMITED_TIMES * ns : ns;
}

/* ---- nodes ---- */

unsigned nodes_in(const struct world *w, enum node_state state) {
    unsigned count = 0;
    for (unsigned i = 0; i < w->node_count; i++) {
        count += w->nodes[i]->state == state;
    }
    return count;
}

struct node *node_named(const struct world *w, const char *name) {
    for (unsigned i = w->node_count; i-- > 0;) {
        if (strcmp(w->nodes[i]->name, name) == 0) {
            return w->nodes[i];
        }
    }
    return NULL;
}

static void set_state(struct node *node, enum node_state state) {
    node->state = (uint8_t)state;
    node->since = tide_sim_now(node->world->sim);
}

/* A life of a node may be another machine: its clock began at any time and runs at its own pace. */
static void set_clock(const struct node *node) {
    struct world *w = node->world;
    const double most = option(w, SWARM_DRIFT_PPM) * 1000;
    struct tide_random random;
    if (most > 0) {
        tide_random_seed(&random, tide_mix64(w->options.seed ^ (0xc10c << 8) ^ w->node_count));
        uint64_t ahead = tide_random_below(&random, 1000000 * TIDE_SECOND);
        double drift = (2 * tide_random_uniform(&random) - 1) * most;
        tide_sim_set_clock(w->sim, node->name, ahead, (int64_t)drift);
    }
}

/* Up to four times the least, of each life of a node another. */
static uint64_t memory_cap(const struct world *w) {
    const double least = option(w, SWARM_CAP_MIB);
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(w->options.seed ^ (0x3e3 << 8) ^ w->node_count));
    return (uint64_t)(least * exp2(2 * tide_random_uniform(&random))) << 20;
}

/* Whom a new node asks; NULL: it is the controller, and asks nobody. While there is none, any
 * other. */
static const char *endpoint_to_join(const struct node *node) {
    const struct world *w = node->world;
    const struct node *asked = node_named(w, "n1");
    for (unsigned i = 0; i < w->node_count && asked->node == NULL; i++) {
        asked = w->nodes[i]->state == NODE_UP ? w->nodes[i] : asked;
    }
    return is_first(node) ? NULL : asked->node != NULL ? tide_node_endpoint(asked->node) : "sim:n1";
}

static bool node_create(struct node *node) {
    struct world *w = node->world;
    static char
        no_loop; /* the caller, that is we, lets time pass: creation does not wait for the join */
    struct tide_node_options o = {.name = node->name,
                                  .join = endpoint_to_join(node),
                                  .state = journals(w) && is_first(node) ? "state" : NULL,
                                  .workers = (unsigned)option(w, SWARM_THREADS),
                                  .queue_limit = (uint64_t)option(w, SWARM_QUEUE_KIB) << 10,
                                  .memory = memory_cap(w),
                                  .loop = &no_loop};
    set_clock(node);
    if ((journals(w) && is_first(node)) || option(w, SWARM_DISK_S) > 0) {
        tide_sim_set_disk(w->sim, node->name, &(struct tide_sim_disk){0});
    }
    int code = tide_sim_port(w->sim, node->name, &node->port);
    o.port = node->port;
    code = code < 0 ? code : tide_node_create(&o, &node->node);
    if (code < 0) {
        swarm_fail(w, "world", "%s does not start: %s", node->name, tide_error_message());
        return false;
    }
    set_state(node, NODE_JOINING);
    return true;
}

struct node *node_start(struct world *w, const char *name) {
    TIDE_ASSERT(w->node_count < NODES_MAX);
    struct node *node = tide_alloc_zero(1, sizeof *node);
    TIDE_ASSERT(node != NULL);
    node->world = w;
    (void)snprintf(node->name, sizeof node->name, "%s", name);
    w->nodes[w->node_count++] = node;
    return node_create(node) ? node : NULL;
}

static void node_end(struct node *node, enum node_state state) {
    shared_forget(node);
    set_state(node, state);
    tide_node_destroy(node->node, 0); /* its fibers may still run meanwhile, and see that it ends */
    node->node = NULL;
    node->port->ops->destroy(node->port);
    node->port = NULL;
}

void node_leave(struct node *node) {
    TIDE_ASSERT(node->state == NODE_UP);
    set_state(node, NODE_LEAVING);
    tide_net_leave(tide_net_of(node->node));
}

void node_crash(struct node *node, uint64_t restart_at) {
    node->restart_at = restart_at;
    tide_sim_crash(node->world->sim, node->name);
    node_end(node, NODE_CRASHED);
}

/* Also of those that end for want of memory, in the middle of a turn. */
static void crashed(void *arg, const char *name) {
    struct world *w = arg;
    struct node *node = node_named(w, name);
    if (node != NULL) { /* else the stranger, or the disk that all share */
        w->report->lost_nodes++;
        w->lost_too_many = w->lost_too_many || faults_lost_too_many(w);
        node->lost = true;
        node->lost_at = tide_sim_now(w->sim);
        set_state(node, NODE_CRASHED);
    } else if (saves(w)) {
        saver_crashed(w, name);
    }
}

bool may_lose(const struct world *w, const struct table *table) {
    return w->report->lost_nodes > 0 && (table->options.replicas == 0 || w->lost_too_many);
}

bool refused_for_memory(const struct world *w, int code, const char *text) {
    return code == TIDE_EBUSY && option(w, SWARM_CAP_MIB) > 0 && strstr(text, "of memory") != NULL;
}

bool node_is_lost(const struct node *node) {
    int code;
    char reason[200];
    return node->lost ||
           (node->node != NULL && tide_net_state(tide_net_of(node->node), &code, reason,
                                                 sizeof reason) == TIDE_MEMBER_DEAD);
}

/* A row on a disk that fails, or for which a full disk has no room: not at rest, when all disks work. */
static bool refused_by_disk(const struct world *w, const struct table *table, int code, const char *text) {
    const bool tiered = table != NULL && table->options.tier_disk[0] != '\0';
    return tiered && option(w, SWARM_DISK_S) > 0 && !w->looks &&
           ((code == TIDE_ELOST && strstr(text, "cannot be read from") != NULL) ||
            ((code == TIDE_EIO || code == TIDE_ENOSPC) && strstr(text, "its disk takes no rows") != NULL));
}

bool excused(const struct world *w, const struct node *node, const struct table *table, int code,
             const char *text) {
    if (node->state != NODE_UP || node_is_lost(node) || refused_for_memory(w, code, text)) {
        return true; /* it leaves, or has given up */
    }
    if (refused_by_disk(w, table, code, text)) {
        return true;
    }
    if (node->short_once && (code == TIDE_ENOMEM || strcmp(text, tide_error_name(code)) == 0)) {
        return true; /* there may have been no memory for the text */
    }
    if (table != NULL && table->options.replicas > 0) {
        return code == TIDE_ELOST && w->lost_too_many;
    }
    bool kind = code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_ECLOSED;
    for (unsigned i = 0; i < w->node_count && kind; i++) {
        if (node_is_lost(w->nodes[i]) && strstr(text, w->nodes[i]->name) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- what happens to nodes with time ---- */

static void attend_joining(struct node *node, int state, int code, const char *reason) {
    struct world *w = node->world;
    if (state == TIDE_MEMBER_UP && tide_store_synced(tide_store_of(node->node)) &&
        (w->table_count == 0 || workload_spawn(node))) {
        node->id = tide_node_id(node->node);
        node->tries = 0;
        set_state(node, NODE_UP);
    } else if (state == TIDE_MEMBER_DEAD) {
        /* A name may be taken until the others know that its former life is over, and who is not
         * a member yet has no session that would outlive a connection. */
        const bool away =
            journals(w) && (code == TIDE_EDIED || code == TIDE_ETIMEDOUT || code == TIDE_EBUSY);
        const bool cut_off = code == TIDE_ETIMEDOUT && strstr(reason, "no answer"); /* before it was connected */
        if (code != TIDE_EEXIST && code != TIDE_ECLOSED && code != TIDE_EUNREACHABLE && !away && !cut_off &&
            !refused_for_memory(w, code, reason)) {
            swarm_fail(w, "membership", "%s could not join: %s %s", node->name,
                       tide_error_name(code), reason);
        }
        node->lost = true; /* some may have taken it for a member already */
        node_end(node, NODE_CRASHED);
        node->tries++;
        node->restart_at = tide_sim_now(w->sim) + (join_again << (node->tries < 8 ? node->tries / 2 : 4));
    }
}

static void attend(struct node *node) {
    struct world *w = node->world;
    uint64_t now = tide_sim_now(w->sim);
    if (node->state == NODE_CRASHED && node->node != NULL) {
        node_end(node, NODE_CRASHED);
    }
    if (node->state == NODE_CRASHED && now >= node->restart_at && w->node_count < NODES_MAX) {
        node->state = NODE_GONE; /* the next life is another */
        struct node *next = node_start(w, node->name);
        if (next) {
            next->tries = node->tries;
        }
        return;
    }
    if (node->state == NODE_CRASHED || node->state == NODE_GONE || node->state == NODE_OFF) {
        return;
    }
    int code;
    char reason[200];
    int state = tide_net_state(tide_net_of(node->node), &code, reason, sizeof reason);
    if (state == TIDE_MEMBER_DEAD && is_first(node) && node->restart_at != 0 &&
        code == TIDE_ECLOSED) {
        node_crash(node,
                   node->restart_at); /* what it decided it could not record: it has given up */
    } else if (node->state == NODE_JOINING) {
        attend_joining(node, state, code, reason);
    } else if (state == TIDE_MEMBER_DEAD) {
        swarm_fail(w, "membership", "%s lives and was given up: %s", node->name, reason);
    } else if (node->state == NODE_UP && state != TIDE_MEMBER_UP) {
        swarm_fail(w, "membership", "%s is in state %d, which nobody asked for: %s", node->name,
                   state, reason);
    } else if (node->state == NODE_LEAVING && state == TIDE_MEMBER_LEFT && node->running == 0) {
        node_end(node, NODE_GONE);
    }
}

/* ---- time ---- */

/* Runs events until `until`; done is asked every tick. */
static bool pass_until(struct world *w, uint64_t until, bool (*done)(struct world *)) {
    for (unsigned n = 0; !w->report->failed; n++) {
        if (done != NULL && done(w)) {
            return true;
        }
        uint64_t now = tide_sim_now(w->sim), next = now + tick;
        if (now >= until) {
            return false;
        }
        if (w->faults != NULL) {
            uint64_t due = faults_next(w);
            next = due < next ? due : next;
        }
        next = next > until ? until : next;
        (void)tide_sim_run(w->sim, next > now ? next : now, NULL, NULL);
        if (w->faults != NULL) {
            faults_due(w);
        }
        for (unsigned i = 0; i < w->node_count && !w->report->failed; i++) {
            attend(w->nodes[i]);
        }
        if (w->faults != NULL && n % CHECK_EVERY == 0) {
            check_running(w);
        }
        if (tide_sim_events(w->sim) > w->event_limit) {
            swarm_fail(w, "progress", "more than %llu events: it runs in circles",
                       (unsigned long long)w->event_limit);
        }
    }
    return false;
}

bool world_pass(struct world *w, uint64_t ns) {
    (void)pass_until(w, tide_sim_now(w->sim) + ns, NULL);
    return !w->report->failed;
}

static void too_late(struct world *w, const char *what, const char *why) {
    swarm_fail(w, "progress", "%s: %s", what, why);
}

/* Whatever failed: how things stood then. */
static void describe(struct world *w) {
    size_t used = strlen(w->report->what), size = sizeof w->report->what;
    if (used + 2 < size) {
        w->report->what[used++] = '\n';
        dump(w, w->report->what + used, size - used);
    }
}

/* ---- phases ---- */

static bool all_up(struct world *w) {
    return nodes_in(w, NODE_UP) == w->node_count;
}

struct creation {
    struct world *world;
    bool done;
};

static int create_tables(void *state) {
    struct creation *c = state;
    struct world *w = c->world;
    for (unsigned t = 0; t < w->table_count; t++) {
        struct tide_table *table;
        if (tide_table_create(w->nodes[0]->node, &w->tables[t].options, &table) < 0) {
            swarm_fail(w, "world", "table %s: %s", w->tables[t].name, tide_error_message());
        }
    }
    if (clients_create_tables(w) != 0) {
        swarm_fail(w, "world", "the clients' tables: %s", tide_error_message());
    }
    c->done = true;
    return 0;
}

static bool tables_made;
static struct creation creation;

static bool all_work(struct world *w) {
    if (!creation.done) {
        return false;
    }
    if (!tables_made) {
        tables_made = true;
        for (unsigned i = 0; i < w->node_count; i++) {
            tables_made = workload_spawn(w->nodes[i]) && tables_made;
        }
    }
    return true;
}

static void set_up(struct world *w) {
    unsigned count = (unsigned)option(w, SWARM_NODES);
    unsigned tables = w->table_count;
    w->table_count = 0; /* nobody waits for them yet */
    for (unsigned i = 0; i < count && !w->report->failed; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%u", ++w->names);
        (void)node_start(w, name);
        if (i % 2) {
            tide_sim_set_slowness(w->sim, name, option(w, SWARM_SLOWNESS));
        }
    }
    uint64_t until = tide_sim_now(w->sim) + patience(w, setup_max);
    bool joined = pass_until(w, until, all_up);
    w->table_count = tables;
    if (!joined) {
        too_late(w, "setting up", "not all nodes have joined");
        return;
    }
    creation = (struct creation){.world = w};
    tables_made = false;
    struct tide_actor_options o = {
        .type = "creator", .run = create_tables, .state = &creation, .role = TIDE_ROLE_COMPUTE};
    if (tide_spawn(w->nodes[0]->node, &o, NULL) < 0) {
        swarm_fail(w, "world", "no fiber: %s", tide_error_message());
    }
    if (!pass_until(w, until, all_work)) {
        too_late(w, "setting up", "the tables are not made");
    }
}

static void chaos(struct world *w) {
    const uint64_t stretch = CHECK_EVERY * tick;
    while (tide_sim_now(w->sim) < w->chaos_end && !w->report->failed) {
        const uint64_t until = tide_sim_now(w->sim) + stretch;
        (void)pass_until(w, until < w->chaos_end ? until : w->chaos_end, NULL);
        faults_hasten(w);
    }
}

static bool is_settled(const struct world *w, char *why, size_t size) {
    if (!saver_ended(w) || !dropper_ended(w)) {
        snprintf(why, size, "the %s has not ended", saver_ended(w) ? "dropper" : "saver");
        return false;
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        if (n->state != NODE_UP && n->state != NODE_GONE &&
            (n->state != NODE_CRASHED || n->restart_at != TIDE_NEVER)) {
            snprintf(why, size, "node %s %s", n->name,
                     n->state == NODE_LEAVING ? "has not left"
                     : n->state == NODE_CRASHED ? "has not restarted" : "has not joined");
            return false;
        }
    }
    if (!clients_ended(why, size)) {
        return false;
    }
    for (unsigned i = 0; i < w->worker_count; i++) {
        const struct worker *worker = w->workers[i];
        if (!worker->ended && worker->node->state == NODE_UP) {
            snprintf(why, size, "worker %u of %s has not ended", i, worker->node->name);
            return false;
        }
    }
    return true;
}

static bool is_over(struct world *w) {
    char why[200];
    return is_settled(w, why, sizeof why) && is_quiet(w, why, sizeof why);
}

static void heal(struct world *w) {
    /* Leaving takes some round trips behind one another: where one takes long, so does healing. */
    double ways = HEAL_WAYS * option(w, SWARM_LATENCY_US) * 1e-6;
    uint64_t until = w->chaos_end + patience(w, (uint64_t)((option(w, SWARM_HEAL_S) + ways) * 1e9));
    w->healing = true;
    faults_heal(w);
    saver_heal(w);
    for (unsigned i = 0; i < w->node_count; i++) { /* the dead come back, those who should */
        struct node *n = w->nodes[i];
        if (n->state == NODE_CRASHED && n->restart_at != TIDE_NEVER) {
            n->restart_at = tide_sim_now(w->sim);
        }
    }
    (void)pass_until(w, tide_sim_now(w->sim) + 2 * TIDE_SECOND, NULL);
    w->stopping = true;
    if (!pass_until(w, until, is_over)) {
        char why[200] = "";
        if (is_settled(w, why, sizeof why)) {
            (void)is_quiet(w, why, sizeof why);
        }
        too_late(w, "the heal phase is over", why);
    }
}

/* ---- the last look ---- */

struct look { /* of one node at all keys */
    struct world *world;
    struct node *node;
    bool done;
    uint64_t *sets[TABLES_MAX]; /* one-hot; UINT64_MAX and lost: could not be read */
    uint16_t *counts[TABLES_MAX];
    bool *lost[TABLES_MAX];
};

static void seen(struct look *look, unsigned t, uint32_t number, const float *row) {
    struct world *w = look->world;
    const struct table *table = &w->tables[t];
    for (uint32_t c = 0; c < table->options.width; c++) {
        if (table->counts) {
            look->counts[t][number * COUNTING_MAX + c] = (uint16_t)row[c];
        } else if (row[c] == 1) {
            look->sets[t][number] |= UINT64_C(1) << c;
        } else if (row[c] != 0) {
            swarm_fail(w, "exactly_once", "%s, at rest: table %s key %u: coordinate %u is %g",
                       look->node->name, table->name, number, c, (double)row[c]);
        }
    }
}

/* Keys together as long as all can be read: what is wrong with one is one key's affair. */
static void look_at(struct look *look, unsigned t, const uint32_t *numbers, uint32_t count) {
    struct world *w = look->world;
    const struct table *table = &w->tables[t];
    struct tide_table *handle;
    float *rows = tide_alloc((size_t)count * table->options.width * sizeof *rows);
    uint64_t keys[BATCH_MAX];
    TIDE_ASSERT(rows != NULL && count <= BATCH_MAX);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = key_of(table, numbers[i]);
    }
    int code = tide_table_find(look->node->node, table->name, &handle);
    code = code < 0 ? code : tide_table_pull(handle, keys, count, rows, NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (code == 0) {
            seen(look, t, numbers[i], rows + (size_t)i * table->options.width);
        } else if (count > 1) {
            look_at(look, t, &numbers[i], 1);
        } else {
            look->lost[t][numbers[i]] = true;
        }
    }
    if (code < 0 && count == 1 && !excused(w, look->node, table, code, tide_error_message())) {
        swarm_fail(w, "answers", "%s, at rest: table %s key %u: %s %s", look->node->name,
                   table->name, numbers[0], tide_error_name(code), tide_error_message());
    }
    tide_free(rows);
}

static int look_main(void *state) {
    struct look *look = state;
    struct world *w = look->world;
    for (unsigned t = 0; t < w->table_count; t++) {
        const struct table *table = &w->tables[t];
        uint32_t numbers[BATCH_MAX], count = 0;
        for (uint32_t k = 0; k < table->total && !w->report->failed; k++) {
            if (table->counts || table->pushes[k] > 0) {
                numbers[count++] = k;
            }
            if (count == BATCH_MAX || (count > 0 && k + 1 == table->total)) {
                look_at(look, t, numbers, count);
                count = 0;
            }
        }
    }
    look->done = true;
    return 0;
}

static bool look_start(struct world *w, struct look *look, struct node *node) {
    *look = (struct look){.world = w, .node = node};
    for (unsigned t = 0; t < w->table_count; t++) {
        uint32_t total = w->tables[t].total;
        look->sets[t] = tide_alloc_zero(total, sizeof **look->sets);
        look->counts[t] = tide_alloc_zero(w->tables[t].counts ? (size_t)total * COUNTING_MAX : 1,
                                          sizeof **look->counts);
        look->lost[t] = tide_alloc_zero(total, sizeof **look->lost);
        TIDE_ASSERT(look->sets[t] && look->counts[t] && look->lost[t]);
    }
    struct tide_actor_options o = {
        .type = "look", .run = look_main, .state = look, .role = TIDE_ROLE_COMPUTE};
    if (tide_spawn(node->node, &o, NULL) < 0) {
        swarm_fail(w, "world", "no fiber: %s", tide_error_message());
        return false;
    }
    return true;
}

static struct look *looks;
static unsigned look_count;

static bool all_looked(struct world *w) {
    (void)w;
    for (unsigned i = 0; i < look_count; i++) {
        if (!looks[i].done) {
            return false;
        }
    }
    return true;
}

/* For check_windows. */
static void keep_rest(struct table *table, unsigned t) {
    table->rest = tide_alloc(table->total * sizeof *table->rest);
    TIDE_ASSERT(table->rest != NULL);
    for (uint32_t k = 0; k < table->total; k++) {
        table->rest[k] = look_count == 0 || looks[0].lost[t][k] ? UINT64_MAX : looks[0].sets[t][k];
    }
}

static void compare_one_hot(struct world *w, unsigned t) {
    struct table *table = &w->tables[t];
    const bool window = table->options.durability == TIDE_DURABLE_WINDOW;
    if (window) {
        keep_rest(table, t);
    }
    for (size_t i = 0; i < table->history.count; i++) {
        const struct operation *o = &table->history.list[i];
        for (unsigned n = 0; n < look_count && o->push >= 0; n++) {
            const struct look *look = &looks[n];
            bool has = (look->sets[t][o->key] >> o->push) & 1;
            const bool judged = table->shared
                                    ? is_vouched(w->workers[o->worker], table)
                                    : !may_lose(w, table) && !(window && w->report->lost_nodes > 0);
            if (o->ok && !has && !look->lost[t][o->key] && judged) {
                swarm_fail(
                    w, "exactly_once",
                    "table %s key %u: push %d of worker %u returned at %.6f s and is lost: %s "
                    "does not see it",
                    table->name, o->key, o->push, o->worker, (double)o->returned / 1e9,
                    look->node->name);
            }
        }
    }
    for (uint32_t k = 0; k < table->total; k++) {
        for (unsigned n = 1; n < look_count; n++) {
            if (!looks[0].lost[t][k] && !looks[n].lost[t][k] &&
                looks[0].sets[t][k] != looks[n].sets[t][k]) {
                swarm_fail(w, "linearizable", "at rest %s and %s see table %s key %u differently",
                           looks[0].node->name, looks[n].node->name, table->name, k);
            }
        }
    }
}

static void compare_counts(struct world *w, unsigned t) {
    const struct table *table = &w->tables[t];
    for (uint32_t i = 0; i < table->total * COUNTING_MAX; i++) {
        for (unsigned n = 0; n < look_count; n++) {
            uint16_t value = looks[n].counts[t][i];
            bool lost = looks[n].lost[t][i / COUNTING_MAX];
            bool few = value < table->acked[i] &&
                       (table->shared ? is_vouched(w->workers[i % COUNTING_MAX], table)
                                      : !may_lose(w, table));
            if (!lost && (few || value > table->issued[i])) {
                swarm_fail(
                    w, "exactly_once",
                    "table %s key %u: at rest %s sees %u pushes of worker %u; %u returned well, "
                    "%u were issued",
                    table->name, i / COUNTING_MAX, looks[n].node->name, value, i % COUNTING_MAX,
                    table->acked[i], table->issued[i]);
            }
        }
    }
}

/* Where rows were lost, keys are looked at one by one, over a few hops each. */
static uint64_t time_to_look(const struct world *w) {
    uint64_t keys = 0;
    for (unsigned t = 0; t < w->table_count; t++) {
        keys += w->tables[t].total;
    }
    return patience(w, 600 * TIDE_SECOND + keys * 8 * (uint64_t)(option(w, SWARM_LATENCY_US) * 1e3));
}

static void look_at_all(struct world *w) {
    w->looks = true;
    looks = tide_alloc_zero(w->node_count, sizeof *looks);
    TIDE_ASSERT(looks != NULL);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i]->state == NODE_UP && look_start(w, &looks[look_count], w->nodes[i])) {
            look_count++;
        }
    }
    if (!pass_until(w, tide_sim_now(w->sim) + time_to_look(w), all_looked)) {
        too_late(w, "looking at all keys", "not everybody is done");
    }
    for (unsigned t = 0; t < w->table_count && !w->report->failed; t++) {
        if (w->tables[t].counts) {
            compare_counts(w, t);
        } else {
            compare_one_hot(w, t);
        }
    }
}

/* When no fiber runs any more: those of a run that failed may not have seen all. */
static void looks_release(const struct world *w) {
    for (unsigned i = 0; i < look_count; i++) {
        for (unsigned t = 0; t < w->table_count; t++) {
            tide_free(looks[i].sets[t]);
            tide_free(looks[i].counts[t]);
            tide_free(looks[i].lost[t]);
        }
    }
    tide_free(looks);
    looks = NULL;
    look_count = 0;
}

/* ---- the run ---- */

/* The verdict is there. The controller ends first: else the others regroup whenever one is gone. */
static void release(struct world *w) {
    struct node *first = node_named(w, "n1");
    if (first != NULL && first->node != NULL) {
        node_end(first, NODE_GONE);
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i]->node != NULL) {
            node_end(w->nodes[i], NODE_GONE);
        }
    }
    looks_release(w);
    clients_release(w);
    faults_release(w);
    tide_sim_destroy(w->sim);
    workload_deinit(w);
    saver_release(w);
    for (unsigned i = 0; i < w->node_count; i++) {
        tide_free(w->nodes[i]->echo);
        tide_free(w->nodes[i]);
    }
    tide_free(w);
}

static void run(struct world *w) {
    set_up(w);
    if (w->report->failed) {
        describe(w);
        return;
    }
    w->chaos_end = tide_sim_now(w->sim) + (uint64_t)(option(w, SWARM_CHAOS_S) * 1e9);
    faults_plan(w);
    saver_start(w);
    dropper_start(w);
    clients_start(w);
    chaos(w);
    if (!w->report->failed) {
        heal(w);
    }
    if (!w->report->failed) {
        check_histories(w);
        check_messages(w);
        check_rest(w);
        check_shared(w);
    }
    if (!w->report->failed) {
        look_at_all(w);
    }
    if (!w->report->failed && clients_look(w) &&
        !pass_until(w, tide_sim_now(w->sim) + patience(w, 600 * TIDE_SECOND), clients_looked)) {
        too_late(w, "looking at what clients pushed", "it does not end");
    }
    if (!w->report->failed && any_shared(w)) { /* looks made copies */
        if (!pass_until(w, tide_sim_now(w->sim) + patience(w, setup_max), is_over)) {
            too_late(w, "having looked", "not everything is at rest again");
        }
        check_shared(w);
        check_stillness(w);
    }
    if (!w->report->failed) {
        check_windows(w);
    }
    if (!w->report->failed && restorer_start(w) &&
        !pass_until(w, tide_sim_now(w->sim) + patience(w, 600 * TIDE_SECOND), restorer_ended)) {
        too_late(w, "bringing back generations", "it does not end");
    }
    if (w->report->failed) {
        describe(w);
    }
}

static void keep_reached(struct swarm_report *report) {
    struct tide_sometimes points[SWARM_POINTS];
    const size_t count = tide__sometimes_list(points, SWARM_POINTS);
    for (size_t i = 0; i < count; i++) {
        report->reached[i] = points[i].count;
    }
}

void swarm_run(const struct swarm_options *options, struct swarm_report *report,
               void (*observe)(void *arg, const struct tide_sim_event *event), void *arg) {
    struct world *w = tide_alloc_zero(1, sizeof *w);
    TIDE_ASSERT(w != NULL);
    memset(report, 0, sizeof *report);
    w->options = *options;
    w->report = report;
    const double pieces = option(w, SWARM_PAYLOAD) / option(w, SWARM_CHUNK);
    w->event_limit = (uint64_t)((option(w, SWARM_CHAOS_S) + option(w, SWARM_HEAL_S) + 10) *
                                (events_per_second + messages_per_second * pieces));
    tide_random_seed(&w->random, tide_mix64(options->seed ^ 0x3042d));
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        TIDE_ASSERT(tide__limit_set(i, swarm_limit(options, i)) == 0);
        w->limited = w->limited || swarm_limit(options, i) != tide__limits[i].initial;
    }
    double latency = option(w, SWARM_LATENCY_US) * 1000;
    struct tide_sim_options o = {
        .seed = options->seed,
        .latency_ns_min = (uint64_t)(latency * (1 - option(w, SWARM_JITTER))),
        .latency_ns_max = (uint64_t)latency,
        .chunk_max = (size_t)option(w, SWARM_CHUNK),
        .nic_bytes_per_s = (uint64_t)(option(w, SWARM_NIC_MBIT) * 1e6 / 8)};
    TIDE_ASSERT(tide_sim_create(&o, &w->sim) == 0);
    if (observe != NULL) {
        tide_sim_observe(w->sim, observe, arg);
    }
    tide_sim_on_crash(w->sim, crashed, w);
    tide__watch_set(true, watched, w);
    tide__buggify_set(options->seed, option(w, SWARM_BUGGIFY));
    workload_init(w);
    saver_init(w);
    run(w);
    tide__buggify_set(0, 0);
    tide__watch_set(false, NULL, NULL);
    keep_reached(report);
    report->hash = tide_sim_hash(w->sim);
    report->events = tide_sim_events(w->sim);
    report->virtual_ns = tide_sim_now(w->sim);
    release(w);
}
