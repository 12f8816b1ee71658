/*
 * Faults: when each kind happens is drawn before the run, whom it hits when it happens. What a
 * fault takes away comes back: cuts heal and pauses end well within the silence that the detector
 * of failures grants, and there is one of them at a time, so that nobody is declared dead who
 * lives. Crashes alone lose something; the first node, the controller, crashes only where it keeps
 * a journal, and always comes back. In most runs no more nodes are lost at one time than every
 * table with copies survives.
 */
#include "world.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { FAULTS_MAX = 512, UNDOES_MAX = 64 };

static const uint64_t silence_max = 400 * MS, pause_max = 500 * MS, calm_after = 3 * TIDE_SECOND;
static const uint64_t idle_kept = TIDE_SECOND; /* so long nothing happens before the next fault */
static const double latency_max_us = 150000, reckless_share = 0.2;

struct planned {
    uint64_t at;
    uint8_t option;
};

struct undo {
    uint64_t at; /* 0: empty */
    uint8_t option;
    unsigned a, b; /* nodes */
    unsigned client;
    bool dies;     /* memory: it may have ended */
};

struct faults {
    struct planned list[FAULTS_MAX];
    unsigned count, next;
    struct undo undoes[UNDOES_MAX];
    uint64_t silent_until;
    struct tide_port *stranger;
    struct tide_executor *executor;
    struct stranger {
        struct faults *faults;
        struct tide_stream *stream;
        uint8_t sink[256];
    } visitor;
    char target[200]; /* endpoint the stranger is to dial */
    bool reckless;    /* crashes ask nobody */
    unsigned losses;  /* since all rows had their copies */
    struct tide_random random, shortages, ballasts, successions, visits, disks;
};

void fault_note(struct world *w, const char *format, ...) {
    size_t used = strlen(w->report->faults);
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(w->report->faults + used, sizeof w->report->faults - used, "%.3f s %s\n",
                   (double)tide_sim_now(w->sim) / 1e9, text);
    w->report->fault_count++;
}

/* ---- the plan ---- */

static int by_time(const void *a, const void *b) {
    const struct planned *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1)
                          : (x->option > y->option) - (x->option < y->option);
}

/* Bursts of work lie around faults, and a few by themselves. */
static void plan_bursts(struct world *w) {
    struct faults *f = w->faults;
    uint64_t start = tide_sim_now(w->sim), last = 0;
    static const uint64_t apart = 800 * MS;
    for (uint64_t t = start; t < w->chaos_end && w->burst_count < BURSTS_MAX; t += apart) {
        bool near = t == start || chance(&w->random, 0.05);
        for (unsigned i = 0; i < f->count; i++) {
            near = near || (f->list[i].at >= t && f->list[i].at < t + apart);
        }
        if (near && (last == 0 || t > last)) {
            w->bursts[w->burst_count++] = last = t;
        }
    }
}

void faults_plan(struct world *w) {
    struct faults *f = tide_alloc_zero(1, sizeof *f);
    TIDE_ASSERT(f != NULL);
    w->faults = f;
    tide_random_seed(&f->random, tide_mix64(w->options.seed ^ 0xfa017));
    f->reckless = chance(&f->random, reckless_share) && !keeps_all(w);
    tide_random_seed(&f->shortages, tide_mix64(w->options.seed ^ 0x5407));
    tide_random_seed(&f->ballasts, tide_mix64(w->options.seed ^ 0xba11a57));
    tide_random_seed(&f->visits, tide_mix64(w->options.seed ^ 0x715175));
    tide_random_seed(&f->disks, tide_mix64(w->options.seed ^ 0xd15c5));
    tide_random_seed(&f->successions, tide_mix64(w->options.seed ^ 0x5cce));
    uint64_t start = tide_sim_now(w->sim);
    for (unsigned o = 0; o < SWARM_OPTIONS; o++) {
        const bool is_fault = swarm_option_is_fault(o) || o == SWARM_BALLAST_S;
        if (!is_fault || o == SWARM_BUGGIFY || option(w, o) == 0) {
            continue;
        }
        struct tide_random random;
        tide_random_seed(&random, tide_mix64(w->options.seed ^ tide_mix64(0xfa017 + o)));
        double at = (double)start;
        while (f->count < FAULTS_MAX) {
            at += -log1p(-tide_random_uniform(&random)) * option(w, o) * 1e9;
            if (at >= (double)w->chaos_end) {
                break;
            }
            f->list[f->count++] = (struct planned){(uint64_t)at, (uint8_t)o};
        }
    }
    qsort(f->list, f->count, sizeof f->list[0], by_time);
    plan_bursts(w);
}

uint64_t faults_next(const struct world *w) {
    const struct faults *f = w->faults;
    uint64_t next = f->next < f->count && !w->healing ? f->list[f->next].at : TIDE_NEVER;
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        if (f->undoes[i].at != 0 && f->undoes[i].at < next) {
            next = f->undoes[i].at;
        }
    }
    return next;
}

/* ---- stretches in which nothing happens ---- */

/* When what is planned continues. Between two silences there is to be a calm: it is not cut short. */
static uint64_t next_due(const struct world *w) {
    const uint64_t now = tide_sim_now(w->sim);
    uint64_t due = faults_next(w) < w->chaos_end ? faults_next(w) : w->chaos_end;
    for (unsigned i = 0; i < w->burst_count; i++) {
        if (w->bursts[i] + BURST_SPREAD > now && w->bursts[i] < due) {
            due = w->bursts[i];
        }
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        due = n->state == NODE_CRASHED && n->restart_at < due ? n->restart_at : due;
    }
    return w->faults->silent_until > now ? now : due;
}

static bool is_idle(struct world *w) {
    char why[200];
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        if (n->state != NODE_UP && n->state != NODE_GONE &&
            (n->state != NODE_CRASHED || n->node != NULL)) {
            return false;
        }
    }
    for (unsigned i = 0; i < w->worker_count; i++) {
        const struct worker *worker = w->workers[i];
        if (worker->node->state == NODE_UP && !worker->ended && !worker->rests) {
            return false;
        }
    }
    return saver_ended(w) && is_quiet(w, why, sizeof why);
}

void faults_hasten(struct world *w) {
    struct faults *f = w->faults;
    const uint64_t now = tide_sim_now(w->sim), due = next_due(w);
    if (due < now + idle_kept + 500 * MS || !is_idle(w)) {
        return;
    }
    const uint64_t by = due - now - idle_kept;
    for (unsigned i = f->next; i < f->count; i++) {
        f->list[i].at -= by;
    }
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        f->undoes[i].at -= f->undoes[i].at != 0 ? by : 0;
    }
    for (unsigned i = 0; i < w->burst_count; i++) {
        w->bursts[i] -= w->bursts[i] > now ? by : 0;
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        struct node *n = w->nodes[i];
        n->restart_at -= n->state == NODE_CRASHED && n->restart_at != TIDE_NEVER ? by : 0;
    }
    w->chaos_end -= by;
}

/* ---- one fault ---- */

static bool is_member(const struct node *n) {
    return n->state == NODE_UP || n->state == NODE_LEAVING || n->state == NODE_JOINING;
}

/* A node in its place in the list, or UINT_MAX. */
static unsigned pick(struct world *w, bool up, bool first, unsigned other) {
    unsigned chosen = UINT_MAX;
    uint64_t seen = 0;
    for (unsigned i = 0; i < w->node_count; i++) {
        bool fits = up ? w->nodes[i]->state == NODE_UP : is_member(w->nodes[i]);
        fits = fits && (first || !is_first(w->nodes[i]));
        if (fits && i != other && tide_random_below(&w->faults->random, ++seen) == 0) {
            chosen = i;
        }
    }
    return chosen;
}

static void undo_later(struct world *w, struct undo undo, uint64_t after) {
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        if (w->faults->undoes[i].at == 0) {
            undo.at = tide_sim_now(w->sim) + after;
            w->faults->undoes[i] = undo;
            return;
        }
    }
    TIDE_ASSERT(false);
}

static bool undo_room(const struct world *w) {
    unsigned used = 0;
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        used += w->faults->undoes[i].at != 0;
    }
    return used + 2 * NODES_UP_MAX < UNDOES_MAX;
}

static double usual_slowness(const struct world *w, const struct node *node) {
    /* every second node is slower than the others */
    return node->name[strlen(node->name) - 1] % 2 ? 1 : option(w, SWARM_SLOWNESS);
}

static void set_latency(struct world *w, double times) {
    double most = option(w, SWARM_LATENCY_US) * times;
    most = most > latency_max_us ? latency_max_us : most;
    double least = most * (1 - option(w, SWARM_JITTER));
    tide_sim_set_latency(w->sim, (uint64_t)(least * 1000), (uint64_t)(most * 1000));
}

static bool silence(struct world *w, uint64_t lasts) {
    uint64_t now = tide_sim_now(w->sim);
    if (now < w->faults->silent_until) {
        return false;
    }
    w->faults->silent_until = now + lasts + calm_after;
    return true;
}

static void partition(struct world *w, uint64_t lasts) {
    struct faults *f = w->faults;
    bool link = chance(&f->random, 0.4), oneway = chance(&f->random, 0.4);
    unsigned a = pick(w, false, true, UINT_MAX), b = pick(w, false, true, a);
    if (a == UINT_MAX || b == UINT_MAX || !silence(w, lasts)) {
        return;
    }
    if (link) {
        tide_sim_cut(w->sim, w->nodes[a]->name, w->nodes[b]->name, true);
        if (!oneway) {
            tide_sim_cut(w->sim, w->nodes[b]->name, w->nodes[a]->name, true);
        }
        undo_later(w, (struct undo){.option = SWARM_PARTITION_S, .a = a, .b = b}, lasts);
        fault_note(w, "cut %s%s%s for %.3f s", w->nodes[a]->name, oneway ? ">" : "-",
                   w->nodes[b]->name, (double)lasts / 1e9);
        return;
    }
    for (unsigned i = 0; i < w->node_count; i++) { /* `a` from all others */
        if (i != a && is_member(w->nodes[i])) {
            tide_sim_cut(w->sim, w->nodes[a]->name, w->nodes[i]->name, true);
            if (!oneway) {
                tide_sim_cut(w->sim, w->nodes[i]->name, w->nodes[a]->name, true);
            }
            undo_later(w, (struct undo){.option = SWARM_PARTITION_S, .a = a, .b = i}, lasts);
        }
    }
    fault_note(w, "cut %s%sall for %.3f s", w->nodes[a]->name, oneway ? ">" : "-",
               (double)lasts / 1e9);
}

static void reset(struct world *w) {
    unsigned a = pick(w, false, true, UINT_MAX), b = pick(w, false, true, a);
    if (a != UINT_MAX && b != UINT_MAX) {
        tide_sim_reset(w->sim, w->nodes[a]->name, w->nodes[b]->name);
        fault_note(w, "reset %s-%s", w->nodes[a]->name, w->nodes[b]->name);
    }
}

static void slow(struct world *w) {
    struct faults *f = w->faults;
    unsigned a = pick(w, false, true, UINT_MAX);
    double usual = a != UINT_MAX ? usual_slowness(w, w->nodes[a]) : 1;
    double most = option(w, SWARM_CHUNK) / 10; /* or it could not take in what comes */
    double times = exp(tide_random_uniform(&f->random) * log(100));
    times = usual * times > most ? most : usual * times;
    uint64_t lasts = between(&f->random, 100 * MS, 5000 * MS);
    if (a != UINT_MAX && undo_room(w) && times > usual) {
        tide_sim_set_slowness(w->sim, w->nodes[a]->name, times);
        undo_later(w, (struct undo){.option = SWARM_SLOW_S, .a = a}, lasts);
        fault_note(w, "%s %.0f times slower for %.1f s", w->nodes[a]->name, times,
                   (double)lasts / 1e9);
    }
}

static void garbage(struct world *w);

/* How many nodes may be lost at one time; without tables with copies, any. */
static unsigned losses_max(const struct world *w) {
    unsigned most = UINT_MAX;
    for (unsigned t = 0; t < w->table_count; t++) {
        unsigned copies = w->tables[t].options.replicas;
        most = copies > 0 && copies < most ? copies : most;
    }
    return most;
}

/* Is every death known to the controller? */
static bool deaths_known(const struct world *w) {
    const struct node *controller = node_named(w, "n1");
    if (controller->state != NODE_UP) {
        return false;
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        struct tide_member m;
        const struct node *n = w->nodes[i];
        if (n->lost && n->id != 0 && tide_net_member(tide_net_of(controller->node), n->id, &m) &&
            m.state != TIDE_MEMBER_DEAD) {
            return false;
        }
    }
    return true;
}

bool faults_lost_too_many(const struct world *w) {
    return w->faults != NULL && w->faults->losses > losses_max(w);
}

/* Nodes that live and may still end of what they were short of. */
static unsigned mortal(const struct world *w) {
    unsigned count = 0;
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        const struct undo *u = &w->faults->undoes[i];
        count += u->at != 0 && u->dies && !w->nodes[u->a]->lost;
    }
    return count;
}

/* May one more node be lost? */
static bool may_lose_one(struct world *w) {
    struct faults *f = w->faults;
    char why[200];
    if (nodes_in(w, NODE_UP) <= 2 || w->node_count + NODES_UP_MAX >= NODES_MAX) {
        return false;
    }
    if (f->losses > 0 && deaths_known(w) && is_redundant(w, why, sizeof why)) {
        f->losses = mortal(w);
    }
    return f->losses < losses_max(w) || f->reckless;
}

static void crash(struct world *w) {
    struct faults *f = w->faults;
    const unsigned a = pick(w, false, false, UINT_MAX);
    const bool back = chance(&f->random, 0.7);
    const uint64_t at = tide_sim_now(w->sim) + between(&f->random, 0, 20 * TIDE_SECOND);
    if (a == UINT_MAX || !may_lose_one(w)) {
        return;
    }
    f->losses++;
    fault_note(w, "%s crashes", w->nodes[a]->name);
    node_crash(w->nodes[a], back ? at : TIDE_NEVER);
}

/* For a while some allocations of a node fail: most times those that its workers' calls make, now
 * and then those without which it cannot continue, and then it is as lost as one that crashes. */
static void shortage(struct world *w) {
    struct tide_random *random = &w->faults->shortages;
    const unsigned a = (unsigned)tide_random_below(random, w->node_count);
    struct node *node = w->nodes[a];
    struct tide_sim_memory memory = {.asked = exp(-tide_random_uniform(random) * log(1000))};
    const bool dies = chance(random, 0.2), back = chance(random, 0.7);
    const uint64_t lasts = between(random, 50 * MS, 3000 * MS);
    const uint64_t at = tide_sim_now(w->sim) + between(random, 0, 20 * TIDE_SECOND);
    if (node->state != NODE_UP || !undo_room(w) || (dies && (is_first(node) || !may_lose_one(w)))) {
        return;
    }
    if (dies) {
        w->faults->losses++;
        memory.vital = memory.asked;
        node->restart_at = back ? at : TIDE_NEVER;
    }
    node->short_once = true;
    tide_sim_set_memory(w->sim, node->name, &memory);
    undo_later(w, (struct undo){.option = SWARM_MEMORY_S, .a = a, .dies = dies}, lasts);
    fault_note(w, "%s gets no memory, %.1f %% of the time, for %.1f s%s", node->name,
               100 * memory.asked, (double)lasts / 1e9, dies ? ", and may end of it" : "");
}

/* It may have ended, and has not. */
static void spare(struct world *w, const struct node *node) {
    if (!node->lost && w->faults->losses > 0) {
        w->faults->losses--;
    }
}

/* For a while a node's memory is nearly all used up: by whatever, its budget only knows how much.
 */
static void ballast(struct world *w) {
    struct tide_random *random = &w->faults->ballasts;
    const unsigned a = (unsigned)tide_random_below(random, w->node_count);
    struct node *node = w->nodes[a];
    const double share = 0.75 + 0.27 * tide_random_uniform(random);
    const uint64_t lasts = between(random, 50 * MS, 4000 * MS);
    if (node->state != NODE_UP || node->ballast > 0 || !undo_room(w)) {
        return;
    }
    struct tide_budget *budget = &tide_store_of(node->node)->budget;
    const uint64_t full = (uint64_t)(share * (double)budget->cap), used = tide_budget_used(budget);
    node->ballast = full > used ? full - used : 0;
    tide_budget_keep(budget, node->ballast);
    undo_later(w, (struct undo){.option = SWARM_BALLAST_S, .a = a}, lasts);
    fault_note(w, "%s uses %.0f %% of its memory for %.1f s", node->name, 100 * share,
               (double)lasts / 1e9);
}

static void less(struct node *node) {
    if (node->node != NULL) {
        tide_budget_drop(&tide_store_of(node->node)->budget, node->ballast);
    }
    node->ballast = 0;
}

static void enough(struct world *w, const struct node *node, bool dies) {
    static const struct tide_sim_memory memory = {0};
    tide_sim_set_memory(w->sim, node->name, &memory);
    if (dies) {
        spare(w, node);
    }
}

/* The controller crashes, now or within one of the next changes of its journal; or these fail, and
 * it gives up. It is started again with what it has recorded. */
static void succession(struct world *w) {
    struct tide_random *random = &w->faults->successions;
    struct node *node = node_named(w, "n1");
    const uint64_t how = tide_random_below(random, 3), lasts = between(random, 50 * MS, 3000 * MS);
    const uint64_t at = tide_sim_now(w->sim) + between(random, 0, 5 * TIDE_SECOND);
    unsigned a = w->node_count;
    if (node->state != NODE_UP || !undo_room(w) || !may_lose_one(w)) {
        return;
    }
    w->faults->losses++;
    node->restart_at = at;
    if (how == 0) {
        fault_note(w, "the controller crashes");
        node_crash(node, at);
        return;
    }
    const struct tide_sim_disk disk = {.crash = how == 1 ? 0.3 : 0,
                                       .write_error = how == 2 ? 0.3 : 0,
                                       .sync_error = how == 2 ? 0.3 : 0};
    tide_sim_set_disk(w->sim, node->name, &disk);
    while (w->nodes[--a] != node) {
    }
    undo_later(w, (struct undo){.option = SWARM_CONTROLLER_S, .a = a, .dies = true}, lasts);
    fault_note(w, "changes of the controller's journal %s, for %.1f s",
               how == 1 ? "end in a crash" : "fail", (double)lasts / 1e9);
}

static void journal_works(struct world *w, const struct node *node) {
    tide_sim_set_disk(w->sim, node->name, &(struct tide_sim_disk){0});
    spare(w, node);
}

/* For a while a node's disk fails, is full, writes parts, or is slow. */
static void disk_fails(struct world *w) {
    struct tide_random *random = &w->faults->disks;
    const unsigned a = (unsigned)tide_random_below(random, w->node_count);
    const struct node *node = w->nodes[a];
    const double share = exp(-tide_random_uniform(random) * log(100)); /* of its operations */
    const uint64_t lasts = between(random, 50 * MS, 3000 * MS), how = tide_random_below(random, 5);
    static const char *const names[] = {"fails to read", "fails to write", "is full", "writes parts",
                                        "is slow"};
    const struct tide_sim_disk disk = {.read_error = how == 0 ? share : 0,
                                       .write_error = how == 1 ? share : 0,
                                       .capacity = how == 2 ? 1 + tide_random_below(random, 64 << 10)
                                                            : 0,
                                       .torn_write = how == 3 ? share : 0,
                                       .read_ns_min = how == 4 ? MS : 0,
                                       .read_ns_max = how == 4 ? 50 * MS : 0};
    if (node->state != NODE_UP || !undo_room(w)) {
        return;
    }
    tide_sim_set_disk(w->sim, node->name, &disk);
    undo_later(w, (struct undo){.option = SWARM_DISK_S, .a = a}, lasts);
    fault_note(w, "the disk of %s %s, %.0f %% of the time, for %.1f s", node->name, names[how],
               100 * share, (double)lasts / 1e9);
}

static void happen(struct world *w, enum swarm_option kind) {
    struct faults *f = w->faults;
    unsigned a;
    uint64_t lasts;
    switch (kind) {
    case SWARM_RESET_S:
        reset(w);
        break;
    case SWARM_PARTITION_S:
        lasts = between(&f->random, 20 * MS, silence_max);
        if (undo_room(w)) {
            partition(w, lasts);
        }
        break;
    case SWARM_PAUSE_S:
        a = pick(w, false, true, UINT_MAX);
        lasts = between(&f->random, 10 * MS, pause_max);
        if (a != UINT_MAX && silence(w, lasts)) {
            tide_sim_pause(w->sim, w->nodes[a]->name, lasts);
            fault_note(w, "%s stands still for %.3f s", w->nodes[a]->name, (double)lasts / 1e9);
        }
        break;
    case SWARM_SLOW_S:
        slow(w);
        break;
    case SWARM_DELAY_S:
        lasts = between(&f->random, 100 * MS, 5000 * MS);
        if (undo_room(w)) {
            double times = exp(tide_random_uniform(&f->random) * log(100));
            set_latency(w, times);
            undo_later(w, (struct undo){.option = SWARM_DELAY_S}, lasts);
            fault_note(w, "latency x%.1f for %.1f s", times, (double)lasts / 1e9);
        }
        break;
    case SWARM_GARBAGE_S:
        garbage(w);
        break;
    case SWARM_CLIENT_S:
        if (undo_room(w) && clients_fault(w, &f->visits, &a, &lasts)) {
            undo_later(w, (struct undo){.option = SWARM_CLIENT_S, .client = a}, lasts);
        }
        break;
    case SWARM_LEAVE_S:
        a = pick(w, true, false, UINT_MAX);
        if (a != UINT_MAX && nodes_in(w, NODE_UP) > 3 && nodes_in(w, NODE_LEAVING) < 2) {
            fault_note(w, "%s leaves", w->nodes[a]->name);
            node_leave(w->nodes[a]);
        }
        break;
    case SWARM_JOIN_S:
        if (nodes_in(w, NODE_UP) + nodes_in(w, NODE_JOINING) < NODES_UP_MAX &&
            w->node_count + NODES_UP_MAX < NODES_MAX) {
            char name[16];
            (void)snprintf(name, sizeof name, "n%u", ++w->names);
            fault_note(w, "%s joins", name);
            (void)node_start(w, name);
        }
        break;
    case SWARM_CRASH_S:
        crash(w);
        break;
    case SWARM_MEMORY_S:
        shortage(w);
        break;
    case SWARM_BALLAST_S:
        ballast(w);
        break;
    case SWARM_FLIP_S:
        saver_flip(w);
        break;
    case SWARM_CONTROLLER_S:
        succession(w);
        break;
    case SWARM_DISK_S:
        disk_fails(w);
        break;
    default:
        break;
    }
}

static void undo(struct world *w, const struct undo *u) {
    const char *a = w->nodes[u->a]->name, *b = w->nodes[u->b]->name;
    if (u->option == SWARM_PARTITION_S) {
        tide_sim_cut(w->sim, a, b, false);
        tide_sim_cut(w->sim, b, a, false);
    } else if (u->option == SWARM_SLOW_S) {
        tide_sim_set_slowness(w->sim, a, usual_slowness(w, w->nodes[u->a]));
    } else if (u->option == SWARM_MEMORY_S) {
        enough(w, w->nodes[u->a], u->dies);
    } else if (u->option == SWARM_BALLAST_S) {
        less(w->nodes[u->a]);
    } else if (u->option == SWARM_CLIENT_S) {
        clients_heal(w, u->client);
    } else if (u->option == SWARM_CONTROLLER_S) {
        journal_works(w, w->nodes[u->a]);
    } else if (u->option == SWARM_DISK_S) {
        tide_sim_set_disk(w->sim, a, &(struct tide_sim_disk){0});
    } else {
        set_latency(w, 1);
    }
}

void faults_due(struct world *w) {
    struct faults *f = w->faults;
    uint64_t now = tide_sim_now(w->sim);
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        if (f->undoes[i].at != 0 && f->undoes[i].at <= now) {
            f->undoes[i].at = 0;
            undo(w, &f->undoes[i]);
        }
    }
    while (!w->healing && f->next < f->count && f->list[f->next].at <= now) {
        happen(w, f->list[f->next++].option);
    }
}

void faults_heal(struct world *w) {
    struct faults *f = w->faults;
    for (unsigned i = 0; i < UNDOES_MAX; i++) {
        if (f->undoes[i].at != 0) {
            f->undoes[i].at = 0;
            undo(w, &f->undoes[i]);
        }
    }
    set_latency(w, 1);
}

/* ---- a stranger who talks nonsense ---- */

static void stranger_connected(void *arg, struct tide_stream *stream) {
    struct faults *f = ((struct stranger *)arg)->faults;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)tide_random_next(&f->random);
    }
    if (chance(&f->random, 0.5)) { /* a length that could be one, so that they read on */
        bytes[0] = (uint8_t)tide_random_below(&f->random, 200);
        bytes[1] = bytes[2] = bytes[3] = 0;
    }
    struct tide_iovec iov = {bytes, 1 + (size_t)tide_random_below(&f->random, sizeof bytes)};
    (void)f->stranger->ops->stream_write(stream, &iov, 1);
    if (chance(&f->random, 0.5)) {
        f->stranger->ops->stream_close(stream);
    }
}

static void stranger_buffer(void *arg, void **data, size_t *size) {
    *data = ((struct stranger *)arg)->sink;
    *size = sizeof((struct stranger *)arg)->sink;
}

static void stranger_received(void *arg, size_t size) {
    (void)arg;
    (void)size;
}

static void stranger_writable(void *arg) {
    (void)arg;
}

static void stranger_closed(void *arg, int reason) {
    (void)reason;
    ((struct stranger *)arg)->stream = NULL;
}

static uint64_t stranger_turn(void *arg) {
    static const struct tide_stream_events events = {.connected = stranger_connected,
                                                     .buffer = stranger_buffer,
                                                     .received = stranger_received,
                                                     .writable = stranger_writable,
                                                     .closed = stranger_closed};
    struct faults *f = arg;
    if (f->target[0] != 0 && f->visitor.stream == NULL) {
        (void)f->stranger->ops->connect(f->executor, f->target, &events, &f->visitor,
                                        &f->visitor.stream);
        f->target[0] = 0;
    }
    return TIDE_NEVER;
}

static void garbage(struct world *w) {
    struct faults *f = w->faults;
    unsigned a = pick(w, true, true, UINT_MAX);
    if (a == UINT_MAX || f->visitor.stream != NULL) {
        return;
    }
    if (f->stranger == NULL) {
        struct tide_executor_options o = {.turn = stranger_turn, .arg = f, .core = -1};
        f->visitor.faults = f;
        TIDE_ASSERT(tide_sim_port(w->sim, "stranger", &f->stranger) == 0);
        TIDE_ASSERT(f->stranger->ops->executor_start(f->stranger, &o, &f->executor) == 0);
    }
    (void)snprintf(f->target, sizeof f->target, "%s", tide_node_endpoint(w->nodes[a]->node));
    tide_executor_wake(f->stranger, f->executor);
    fault_note(w, "a stranger talks nonsense to %s", w->nodes[a]->name);
}

void faults_release(struct world *w) {
    struct faults *f = w->faults;
    if (f != NULL && f->stranger != NULL) {
        tide_sim_crash(w->sim, "stranger"); /* its stream may be open */
        f->stranger->ops->executor_stop(f->executor);
        f->stranger->ops->destroy(f->stranger);
    }
    tide_free(f);
}
