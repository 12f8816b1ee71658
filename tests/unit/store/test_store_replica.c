/*
 * Tables with copies: what is acknowledged is neither lost nor doubled when nodes die, are taken
 * for dead, are cut off or leave; readers see no past; copies are equal to their owners bit for
 * bit. Pushes are one-hot rows, so that every one can be read. Seeded, in the simulator; `--seeds
 * N` for more, `--first N`.
 */
#include "seeded.h"
#include "store_world.h"

#include "store/replica/replica.h"
#include "tide/stats.h"

enum { KEYS = 6, FIBERS = 8, PUSHES = 7, WIDTH = FIBERS * PUSHES, OPS = 40, ASYNC_MAX = 4 };
#define USUAL_PAUSE UINT64_C(30000000)
_Static_assert(WIDTH <= 64, "a set is 64 bits");

static bool real_threads; /* instead of the simulator */

struct op {
    uint64_t invoked, returned; /* returned: TIDE_NEVER: it failed, or nobody knows */
    uint64_t key;
    int push;      /* coordinate; -1: a pull */
    uint64_t set;  /* pull: the coordinates seen */
    uint64_t mine; /* pull: what this worker had pushed before, acknowledged or not */
};

struct history {
    struct op ops[FIBERS][OPS];
    unsigned count[FIBERS];
    bool hashed;
    unsigned victims; /* nodes whose operations may fail: a bit each */
    uint64_t pause_max, seed;
};

static uint64_t key_of(const struct history *h, uint64_t i) {
    return h->hashed ? tide_mix64(i + 1) : i;
}

struct flight { /* an asynchronous push */
    struct tide_ticket ticket;
    struct op *op;
    float row[WIDTH];
};

/* By worker: those on nodes that crash do not come to free anything. */
static struct flight flights_of[FIBERS][ASYNC_MAX];

static bool may_fail(const struct fiber *f, const struct history *h) {
    return h->victims >> (tide_node_id(f->node) - 1) & 1;
}

static void pull_op(struct fiber *f, struct tide_table *table, struct history *h, struct op *op) {
    float row[WIDTH] = {0};
    op->invoked = tide_node_now(f->node);
    int code = tide_table_pull(table, &op->key, 1, row, NULL);
    CHECK(f, code == 0 || may_fail(f, h));
    op->returned = code ? TIDE_NEVER : tide_node_now(f->node);
    for (int j = 0; j < WIDTH && !code; j++) {
        CHECK(f, row[j] == 0 || row[j] == 1);
        op->set |= row[j] == 1 ? UINT64_C(1) << j : 0;
    }
}

static void land(struct fiber *f, const struct history *h, struct flight *flight) {
    int code = tide_ticket_wait(&flight->ticket);
    CHECK(f, code == 0 || may_fail(f, h));
    flight->op->returned = code ? TIDE_NEVER : tide_node_now(f->node);
}

static void worker_run(struct fiber *f) {
    struct history *h = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    tide_random_seed(&f->random, h->seed * 1000 + f->index);
    struct flight *flights = flights_of[f->index];
    unsigned in_flight = 0;
    int pushes[KEYS] = {0};
    uint64_t mine[KEYS] = {0};
    for (int i = 0; i < OPS && !f->failure[0]; i++) {
        struct op *op = &h->ops[f->index][h->count[f->index]];
        uint64_t k = tide_random_below(&f->random, KEYS);
        *op = (struct op){.key = key_of(h, k), .push = -1, .returned = TIDE_NEVER};
        if (pushes[k] < PUSHES && tide_random_below(&f->random, 2)) {
            op->push = (int)f->index * PUSHES + pushes[k]++;
            struct flight *flight = &flights[in_flight++];
            *flight = (struct flight){.op = op};
            flight->row[op->push] = 1;
            op->invoked = tide_node_now(f->node);
            h->count[f->index]++;
            int code = tide_table_push(table, &op->key, 1, flight->row, &flight->ticket);
            CHECK(f, code == 0 || may_fail(f, h));
            mine[k] |= code ? 0 : UINT64_C(1) << op->push;
            in_flight -= code != 0;
        } else {
            op->mine = mine[k];
            h->count[f->index]++;
            pull_op(f, table, h, op);
        }
        bool all = in_flight == ASYNC_MAX || tide_random_below(&f->random, 3) == 0;
        for (unsigned n = 0; all && n < in_flight; n++) {
            land(f, h, &flights[n]);
        }
        in_flight = all ? 0 : in_flight;
        if (tide_random_below(&f->random, 3) == 0) {
            (void)tide_sleep(tide_random_below(&f->random, h->pause_max));
        }
    }
    for (unsigned n = 0; n < in_flight; n++) {
        land(f, h, &flights[n]);
    }
}

/* ---- the verdict ---- */

static const char *pull_verdict(const struct op *pull, const struct op **ops, size_t n) {
    if (pull->mine & ~pull->set) {
        return "a pull misses what its own worker pushed before";
    }
    for (size_t j = 0; j < n; j++) {
        const struct op *other = ops[j];
        uint64_t bit = other->push >= 0 ? UINT64_C(1) << other->push : 0;
        if (bit && other->returned < pull->invoked && !(pull->set & bit)) {
            return "a pull misses a push that was acknowledged before it began";
        }
        if (bit && other->invoked > pull->returned && (pull->set & bit)) {
            return "a pull has a push that began after it";
        }
        if (bit) {
            continue;
        }
        if (other->returned < pull->invoked && (other->set & ~pull->set)) {
            return "a pull misses what an earlier pull saw";
        }
        if (other->returned != TIDE_NEVER && (other->set & ~pull->set) &&
            (pull->set & ~other->set)) {
            return "two pulls saw pushes in different orders";
        }
    }
    return NULL;
}

static const char *verdict(const struct history *h) {
    static const struct op *ops[FIBERS * OPS];
    for (uint64_t k = 0; k < KEYS; k++) {
        size_t n = 0;
        for (int w = 0; w < FIBERS; w++) {
            for (unsigned i = 0; i < h->count[w]; i++) {
                if (h->ops[w][i].key == key_of(h, k)) {
                    ops[n++] = &h->ops[w][i];
                }
            }
        }
        for (size_t i = 0; i < n; i++) {
            const char *wrong = ops[i]->push < 0 && ops[i]->returned != TIDE_NEVER
                                    ? pull_verdict(ops[i], ops, n)
                                    : NULL;
            if (wrong) {
                return wrong;
            }
        }
    }
    return NULL;
}

/* What is there at the end: every acknowledged push, once. */
static void final_run(struct fiber *f) {
    struct history *h = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (uint64_t k = 0; k < KEYS; k++) {
        struct op op = {.key = key_of(h, k), .push = -1};
        pull_op(f, table, h, &op);
        for (int w = 0; w < FIBERS; w++) {
            for (unsigned i = 0; i < h->count[w]; i++) {
                const struct op *other = &h->ops[w][i];
                bool acknowledged =
                    other->push >= 0 && other->key == op.key && other->returned != TIDE_NEVER;
                if (acknowledged && !(op.set >> other->push & 1)) {
                    snprintf(f->failure, sizeof f->failure,
                             "worker %d's push %d to key %llu, acknowledged at %llu us, is gone", w,
                             other->push, (unsigned long long)k,
                             (unsigned long long)other->returned / 1000);
                }
            }
        }
    }
}

/* ---- the world ---- */

struct world {
    struct cluster c, lost; /* lost.running: workers on nodes that crash: nobody waits for them */
    struct history *h;
    struct fiber fibers[FIBERS];
    struct tide_random random;
    unsigned nodes, crashes;
    bool dead[NODES_MAX];
    uint64_t seed;
};

static const char *name_of(unsigned node) {
    static const char *const names[] = {"n1", "n2", "n3", "n4", "n5"};
    return names[node];
}

static void failed(const struct world *w, const char *what) {
    fail_msg("seed %llu: %s", (unsigned long long)w->seed, what);
}

/* Workers run; those on nodes in `crashes` are not waited for. */
static void begin(struct world *w, uint64_t seed, unsigned nodes, uint8_t replicas,
                  unsigned victims, unsigned crashes, uint64_t pause_max) {
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->nodes = nodes;
    w->crashes = crashes;
    tide_random_seed(&w->random, seed * 77 + 5);
    open_cluster(&w->c, !real_threads, nodes, seed);
    w->h = calloc(1, sizeof *w->h);
    w->h->hashed = seed % 3 == 0;
    w->h->victims = victims;
    w->h->pause_max = pause_max;
    w->h->seed = seed;
    struct tide_table_options options = {.name = "hot", .width = WIDTH, .replicas = replicas};
    options.keys = w->h->hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE;
    options.key_count = w->h->hashed ? 0 : KEYS;
    options.update = seed % 5 == 1 ? TIDE_UPDATE_SGD : TIDE_UPDATE_ADD;
    options.lr = -1;
    create(&w->c, options);
    for (unsigned i = 0; i < FIBERS; i++) {
        unsigned node = i % nodes;
        start(&w->c, &w->fibers[i], node, i, worker_run, w->h);
        if (crashes >> node & 1) {
            w->fibers[i].cluster = &w->lost;
            atomic_fetch_add(&w->lost.running, 1);
            atomic_fetch_sub(&w->c.running, 1);
        }
    }
}

static struct tide_table_health health_of(struct world *w, unsigned node) {
    struct tide_table_health health;
    tide_table_health(table_of(&w->c, node, "hot"), &health);
    return health;
}

/* The row as this node has it; false: it has none. */
static bool raw_row(struct tide_table *table, uint64_t key, float row[WIDTH]) {
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (tide__row_lock(table, tide__slot_of(table, key), key, false, &word, &old) != TIDE__FOUND) {
        return false;
    }
    bool there = tide__word_state(old) == TIDE__OWNED;
    if (there) {
        memcpy(row, tide__slab_row(&table->slab, (uint32_t)old), WIDTH * sizeof *row);
    }
    tide__word_unlock(word, old);
    return there;
}

/* Copies of all slots are where the groups say, and equal; nothing else is left anywhere. */
static void copies_are_equal(struct world *w) {
    for (uint64_t k = 0; k < KEYS; k++) {
        const uint64_t key = key_of(w->h, k);
        struct tide_table *known = table_of(&w->c, 0, "hot");
        const uint32_t slot = tide__slot_of(known, key);
        const uint16_t home = tide__route_home(atomic_load(&known->slots[slot].route));
        const uint64_t chain = atomic_load(&tide__replicas_of(known)->chain[slot]);
        float rows[2][WIDTH] = {{0}};
        bool at_home = raw_row(table_of(&w->c, home - 1u, "hot"), key, rows[0]);
        for (unsigned n = 0; n < w->nodes; n++) {
            if (w->dead[n] || n + 1 == home) {
                continue;
            }
            bool here = raw_row(table_of(&w->c, n, "hot"), key, rows[1]);
            bool holds = tide__chain_has(chain, (uint16_t)(n + 1));
            if (here != (holds && at_home)) {
                failed(w, holds ? "a copy is missing" : "a copy is left over");
            }
            if (here && memcmp(rows[0], rows[1], sizeof rows[0]) != 0) {
                failed(w, "a copy differs from its owner");
            }
        }
    }
}

/* Everybody who crashed is known to be dead. */
static bool deaths_are_known(struct world *w) {
    bool known = true;
    for (unsigned n = 0; n < w->nodes; n++) {
        struct tide_member m;
        assert_true(tide_net_member(tide_net_of(w->c.nodes[0]), (uint16_t)(n + 1), &m));
        known &= !(w->crashes >> n & 1) || m.state == TIDE_MEMBER_DEAD;
    }
    return known;
}

/* All end, nothing is lost, redundancy is whole again. */
static void end_world(struct world *w, bool whole) {
    for (int i = 0; i < 60000 && atomic_load(&w->c.running) > 0; i++) {
        pause_cluster(&w->c, 1000000);
    }
    if (atomic_load(&w->c.running) > 0) {
        for (unsigned n = 0; n < w->nodes; n++) {
            struct tide_actor_info info[32];
            size_t got = w->dead[n] ? 0 : tide_actors(w->c.nodes[n], info, 32);
            for (size_t i = 0; i < got && i < 32; i++) {
                print_error("n%u %s waits for '%s', mailbox %u\n", n + 1, info[i].type,
                            info[i].waits_for, info[i].mailbox_messages);
            }
        }
        failed(w, "workers do not end");
    }
    for (unsigned i = 0; i < FIBERS; i++) {
        if (w->fibers[i].failure[0]) {
            failed(w, w->fibers[i].failure);
        }
    }
    const char *wrong = verdict(w->h);
    if (wrong) {
        failed(w, wrong);
    }
    for (int i = 0; i < 5000 && (!deaths_are_known(w) || health_of(w, 0).under_replicated); i++) {
        pause_cluster(&w->c, 1000000);
    }
    struct tide_table_health health = health_of(w, 0);
    if (health.lost_count || (whole && health.under_replicated)) {
        failed(w, health.lost_count ? "slots are lost" : "copies are missing");
    }
    pause_cluster(&w->c, 300000000);
    for (unsigned n = 0; n < w->nodes; n++) {
        if (!w->dead[n]) {
            struct fiber f;
            start(&w->c, &f, n, 0, final_run, w->h);
            for (int i = 0; i < 20000 && atomic_load(&w->c.running) > 0; i++) {
                pause_cluster(&w->c, 1000000);
            }
            if (f.failure[0] || atomic_load(&w->c.running) > 0) {
                failed(w, f.failure[0] ? f.failure : "the last look does not end");
            }
        }
    }
    copies_are_equal(w);
    free(w->h);
    close_cluster(&w->c);
}

static void some_time(struct world *w, uint64_t max_ns) {
    pause_cluster(&w->c, 1000000 + tide_random_below(&w->random, max_ns));
}

static unsigned some_node(struct world *w) { /* not the controller */
    return 1 + (unsigned)tide_random_below(&w->random, w->nodes - 1);
}

/* ---- tests ---- */

static void pushes_reach_their_copies_without_faults(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(10); seed++) {
        struct world w;
        begin(&w, seed, 3 + seed % 2, (uint8_t)(1 + seed % 2), 0, 0, 3000000);
        end_world(&w, true);
    }
}

static void pushes_reach_their_copies_on_real_threads(void **state) {
    (void)state;
    real_threads = true;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct world w;
        begin(&w, seed, 3, (uint8_t)seed, 0, 0, 3000000);
        end_world(&w, true);
    }
    real_threads = false;
}

static void a_crash_loses_and_doubles_nothing(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(24); seed++) {
        struct world w;
        unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, (uint8_t)(1 + seed % 2), 1u << victim, 1u << victim, USUAL_PAUSE);
        some_time(&w, 200000000);
        w.dead[victim] = true;
        tide_sim_crash(w.c.sim, name_of(victim));
        end_world(&w, true);
    }
}

static void two_crashes_with_two_copies_lose_nothing(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(16); seed++) {
        struct world w;
        unsigned first = 1 + (unsigned)(seed % 4),
                 second = 1 + (unsigned)((seed + 1 + seed / 4 % 3) % 4);
        unsigned both = 1u << first | 1u << second;
        begin(&w, seed, 5, 2, both, both, USUAL_PAUSE);
        some_time(&w, 100000000);
        w.dead[first] = w.dead[second] = true;
        tide_sim_crash(w.c.sim, name_of(first));
        if (seed % 3) {
            some_time(&w, seed % 3 == 1 ? 3000000 : 1500000000);
        }
        tide_sim_crash(w.c.sim, name_of(second));
        end_world(&w, true);
    }
}

/* Declared dead while it stalls; when it continues it serves nothing stale. */
static void who_is_taken_for_dead_serves_nothing_stale(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(24); seed++) {
        struct world w;
        unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, (uint8_t)(1 + seed % 2), 1u << victim, 0, 300000000);
        some_time(&w, 300000000);
        tide_sim_pause(w.c.sim, name_of(victim),
                       1000000 + tide_random_below(&w.random, 6000000000));
        w.dead[victim] = true; /* perhaps; it is not looked at */
        end_world(&w, false);
    }
}

/* Cut off from some or all: the ones that stay decide. */
static void who_is_cut_off_serves_nothing_stale(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(24); seed++) {
        struct world w;
        unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, (uint8_t)(1 + seed % 2), 0xe, 0, 300000000);
        some_time(&w, 200000000);
        unsigned cut = 1 + (unsigned)tide_random_below(&w.random, 15);
        for (unsigned n = 0; n < 4; n++) {
            if (n != victim && (cut >> n & 1)) {
                tide_sim_partition(w.c.sim, name_of(victim), name_of(n), true);
            }
        }
        some_time(&w, seed % 2 ? 600000000 : 5000000000);
        for (unsigned n = 0; n < 4; n++) {
            if (n != victim && (cut >> n & 1)) {
                tide_sim_partition(w.c.sim, name_of(victim), name_of(n), false);
            }
        }
        for (unsigned n = 1; n < 4; n++) {
            w.dead[n] = true; /* perhaps */
        }
        for (int i = 0; i < 20000 && atomic_load(&w.c.running) > 0; i++) {
            pause_cluster(&w.c, 1000000);
        }
        for (unsigned n = 1; n < 4; n++) {
            struct tide_member m;
            assert_true(tide_net_member(tide_net_of(w.c.nodes[0]), (uint16_t)(n + 1), &m));
            w.dead[n] = m.state != TIDE_MEMBER_UP;
        }
        end_world(&w, false);
    }
}

static void broken_connections_lose_and_double_nothing(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(10); seed++) {
        struct world w;
        begin(&w, seed, 4, (uint8_t)(1 + seed % 2), 0, 0, USUAL_PAUSE);
        for (int i = 0; i < 20; i++) {
            unsigned a = some_node(&w), b = some_node(&w);
            some_time(&w, 10000000);
            tide_sim_reset(w.c.sim, name_of(a), name_of(a == b ? 0 : b));
        }
        end_world(&w, true);
    }
}

/* Every second one stalls now and then, for longer than its leases and not long enough to be
 * given up: it hears late that it is home no more. */
static void who_leaves_hands_its_slots_and_copies_on(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(24); seed++) {
        struct world w;
        unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, (uint8_t)(1 + seed % 2), 1u << victim, 0,
              seed % 4 == 1 ? 20000000 : 120000000);
        some_time(&w, 100000000);
        tide_net_leave(tide_net_of(w.c.nodes[victim]));
        int code, left = TIDE_MEMBER_UP;
        for (int i = 0; i < 30000 && left != TIDE_MEMBER_LEFT; i++) {
            char reason[200];
            if (seed % 2 && tide_random_below(&w.random, 30) == 0 && i < 300) {
                tide_sim_pause(w.c.sim, name_of(victim),
                               tide_random_below(&w.random, seed % 4 == 1 ? 60000000 : 400000000));
            }
            pause_cluster(&w.c, 1000000);
            left = tide_net_state(tide_net_of(w.c.nodes[victim]), &code, reason, sizeof reason);
        }
        if (left != TIDE_MEMBER_LEFT) {
            failed(&w, "it does not come to leave");
        }
        w.dead[victim] = true;
        end_world(&w, true);
    }
}

/* Has a node that stays got a copy of a slot of `home`, behind that of `leaver`, before the others
 * have heard of it? */
static bool joins_behind(struct world *w, unsigned home, unsigned leaver) {
    struct tide_table *known = table_of(&w->c, 0, "hot");
    bool any = false;
    for (uint64_t k = 0; k < KEYS && !any; k++) {
        const uint32_t slot = tide__slot_of(known, key_of(w->h, k));
        const uint64_t chain = atomic_load(&tide__replicas_of(known)->chain[slot]);
        bool fits = tide__route_home(atomic_load(&known->slots[slot].route)) == home + 1 &&
                    tide__chain_has(chain, (uint16_t)(leaver + 1));
        for (unsigned n = 0; n < w->nodes && fits && !any; n++) {
            any = n != home && n != leaver && !tide__chain_has(chain, (uint16_t)(n + 1)) &&
                  tide__replicas_of(table_of(&w->c, n, "hot"))->slots[slot].held;
        }
    }
    return any;
}

static void wait_left(struct world *w, unsigned node) {
    int code, left = TIDE_MEMBER_UP;
    char reason[200];
    for (int i = 0; i < 30000 && left != TIDE_MEMBER_LEFT; i++) {
        pause_cluster(&w->c, 1000000);
        left = tide_net_state(tide_net_of(w->c.nodes[node]), &code, reason, sizeof reason);
    }
    if (left != TIDE_MEMBER_LEFT) {
        failed(w, "it does not come to leave");
    }
    w->dead[node] = true;
}

/* A home and a copy of it leave, and stall while pushes are in flight through them to the
 * copies that take their places. The next home has what did not reach those: unless the old one
 * sends it again first, a push is missing there. */
static void two_that_leave_take_no_push_with_them(void **state) {
    (void)state;
    unsigned met = 0;
    for (uint64_t seed = seed_first; seed <= seeds(24); seed++) {
        struct world w;
        const unsigned home = 1 + (unsigned)(seed % 4), leaver = 1 + (unsigned)((seed + 1) % 4);
        begin(&w, seed, 5, 2, 1u << home | 1u << leaver, 0, 1000000);
        some_time(&w, 5000000);
        tide_net_leave(tide_net_of(w.c.nodes[home]));
        tide_net_leave(tide_net_of(w.c.nodes[leaver]));
        bool meets = false;
        for (int i = 0; i < 4000 && !meets; i++) {
            pause_cluster(&w.c, 20000);
            meets = joins_behind(&w, home, leaver);
        }
        met += meets;
        tide_sim_pause(w.c.sim, name_of(home), 500000000);
        tide_sim_pause(w.c.sim, name_of(leaver), 500000000);
        wait_left(&w, home);
        wait_left(&w, leaver);
        for (unsigned n = 0; n < w.nodes; n++) {
            struct tide_table_stats stats;
            tide_table_stats(table_of(&w.c, n, "hot"), &stats);
            if (stats.surprises > 0) {
                failed(&w, "a push did not come to a copy");
            }
        }
        end_world(&w, true);
    }
    assert_true(met > 0);
}

/* ---- messages of many keys ---- */

enum { MANY = 200, ROUNDS = 4 };
struct many {
    uint64_t seed;
    float last[MANY]; /* of each key: what it was assigned last */
};

/* All keys in any order, each twice: the homes send them down many chains, in pieces. */
static void many_run(struct fiber *f) {
    struct many *many = f->arg;
    static uint64_t keys[2 * MANY];
    static float rows[ROUNDS][2 * MANY][WIDTH];
    struct tide_table *table;
    struct tide_ticket tickets[ROUNDS];
    CHECK(f, tide_table_find(f->node, "many", &table) == 0);
    tide_random_seed(&f->random, many->seed);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 2 * MANY; i++) {
            const uint64_t j = tide_random_below(&f->random, i + 1);
            keys[i] = keys[j];
            keys[j] = i % MANY;
        }
        for (unsigned i = 0; i < 2 * MANY; i++) {
            rows[round][i][0] = many->last[keys[i]] = (float)(round * 2 * MANY + i + 1);
        }
        CHECK(f, tide_table_push(table, keys, 2 * MANY, rows[round][0], &tickets[round]) == 0);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        CHECK(f, tide_ticket_wait(&tickets[round]) == 0);
    }
}

static void a_push_of_many_keys_is_the_same_on_all_copies(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(6); seed++) {
        struct cluster c;
        struct many many = {.seed = seed};
        const unsigned copies = 1 + (unsigned)(seed % 2);
        open_cluster(&c, true, 4, seed);
        create(&c, (struct tide_table_options){.name = "many",
                                               .key_count = MANY,
                                               .width = WIDTH,
                                               .replicas = (uint8_t)copies,
                                               .update = TIDE_UPDATE_ASSIGN});
        run_alone(&c, (unsigned)(seed % 4), many_run, &many);
        for (uint64_t key = 0; key < MANY; key++) {
            unsigned held = 0;
            for (unsigned n = 0; n < 4; n++) {
                float row[WIDTH];
                if (raw_row(table_of(&c, n, "many"), key, row)) {
                    assert_true(row[0] == many.last[key]);
                    held++;
                }
            }
            assert_int_equal(held, 1 + copies);
        }
        close_cluster(&c);
    }
}

/* ---- what an old home says ---- */

static void stale_run(struct fiber *f) {
    struct world *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        const uint32_t slot = tide__slot_of(table, key), version = 1;
        const uint16_t home = tide__route_home(atomic_load(&table->slots[slot].route));
        struct tide_table *there = table_of(&w->c, home - 1u, "hot");
        if (there->slot_versions[slot] == 1) {
            continue; /* its home is the first one */
        }
        const uint64_t number = tide__replicas_of(there)->slots[slot].number + 1;
        float row[WIDTH] = {5};
        struct tide_writer m;
        tide_writer_init(&m, NULL, 0);
        tide_write_array(&m, 13);
        tide_write_uint(&m, TIDE__OP_REPL);
        const uint64_t head[] = {table->id, 1, 1, TIDE__REPL_PUSH, 0, 1, TIDE_NEVER - 1, 0};
        for (size_t i = 0; i < TIDE_COUNT(head); i++) {
            tide_write_uint(&m, head[i]);
        }
        tide_write_typed(&m, TIDE_U64, &key, 1);
        tide_write_typed(&m, TIDE_U64, &number, 1);
        tide_write_typed(&m, TIDE_U32, &version, 1);
        tide_write_binary(&m, row, sizeof row);
        CHECK(f, tide_send(tide_address_make(home, TIDE_ID_STORE), TIDE_LANE_STORE, m.data,
                           m.size) == 0);
        tide_writer_release(&m);
        (void)tide_sleep(TIDE_SECOND / 100);
        CHECK(f, tide__replicas_of(there)->slots[slot].number == number - 1);
    }
}

static void what_an_old_home_sends_is_not_applied(void **state) {
    (void)state;
    struct world w;
    begin(&w, 1, 4, 1, 1u << 1, 1u << 1, USUAL_PAUSE);
    some_time(&w, 50000000);
    w.dead[1] = true;
    tide_sim_crash(w.c.sim, name_of(1));
    /* When its workers are done, nobody but an old home raises a slot's number. */
    while (!deaths_are_known(&w) || health_of(&w, 0).under_replicated ||
           atomic_load(&w.c.running) > 0) {
        pause_cluster(&w.c, 1000000);
    }
    run_alone(&w.c, 0, stale_run, &w);
    end_world(&w, true);
}

/* ---- copies that join ---- */

struct joining { /* of a slot each */
    uint32_t slots[2];
    uint16_t nodes[2];
};

static void joining_run(struct fiber *f) {
    const struct joining *joining = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (size_t i = 0; i < 2; i++) {
        tide__rebuild_order(table, UINT32_MAX, joining->nodes[i],
                            (const uint8_t *)&joining->slots[i], 1);
    }
}

static uint64_t chain_at(struct cluster *c, unsigned node, uint32_t slot) {
    return atomic_load(&tide__replicas_of(table_of(c, node, "hot"))->chain[slot]);
}

/* A slot of n2 that has no copy on `node`. */
static uint32_t slot_without(struct cluster *c, uint16_t node) {
    struct tide_table *table = table_of(c, 1, "hot");
    uint32_t slot = 0;
    while (tide__route_home(atomic_load(&table->slots[slot].route)) != 2 ||
           tide__chain_has(chain_at(c, 1, slot), node)) {
        slot++;
        assert_true(slot < TIDE_SLOT_COUNT);
    }
    return slot;
}

static void who_cannot_join_holds_up_no_other(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 4, 1);
    create(&c, (struct tide_table_options){
                   .name = "hot", .key_count = KEYS, .width = WIDTH, .replicas = 1});
    struct joining joining = {{slot_without(&c, 4), slot_without(&c, 3)}, {4, 3}};
    tide_sim_cut(c.sim, "n2", "n4", true);
    run_alone(&c, 1, joining_run, &joining);
    pause_cluster(&c, TIDE_SECOND / 20);
    assert_true(tide__chain_has(chain_at(&c, 1, joining.slots[0]), 4));
    assert_true(tide__chain_has(chain_at(&c, 1, joining.slots[1]), 3));
    tide_sim_cut(c.sim, "n2", "n4", false);
    close_cluster(&c);
}

/* ---- more deaths than copies ---- */

static void lost_run(struct fiber *f) {
    struct tide_table *table;
    unsigned lost = 0;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (uint64_t key = 0; key < 12; key++) {
        float row = 1;
        int code = tide_table_push(table, &key, 1, &row, NULL);
        CHECK(f, code == 0 || (code == TIDE_ELOST && strstr(tide_error_message(), "'hot'")));
        lost += code == TIDE_ELOST;
    }
    CHECK(f, lost > 0 && lost < 12);
}

static void more_deaths_than_copies_lose_slots_and_say_so(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table_health health = {0};
    open_cluster(&c, true, 3, 1);
    create(&c,
           (struct tide_table_options){.name = "hot", .key_count = 12, .width = 1, .replicas = 1});
    tide_sim_crash(c.sim, "n2");
    tide_sim_crash(c.sim, "n3");
    for (int i = 0; i < 20000 && !health.lost_count; i++) {
        pause_cluster(&c, 1000000);
        tide_table_health(table_of(&c, 0, "hot"), &health);
    }
    assert_true(health.lost_count > 0 && health.lost_count < TIDE_SLOTS / 2);
    pause_cluster(&c, TIDE_SECOND);
    run_alone(&c, 0, lost_run, NULL);
    close_cluster(&c);
}

struct witness {
    struct tide_net *net;
    uint16_t id;
};

static bool is_told_of_death(void *arg) {
    const struct witness *w = arg;
    struct tide_member m;
    return tide_net_member(w->net, w->id, &m) && m.state == TIDE_MEMBER_DEAD;
}

/* From the first moment on, not when the groups have changed: those come later. */
static void a_copy_of_the_dead_counts_for_nothing(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct cluster c;
        struct tide_table_health health;
        open_cluster(&c, true, 4, 1);
        create(&c, (struct tide_table_options){
                       .name = "hot", .key_count = 12, .width = 1, .replicas = 1});
        struct witness w = {tide_net_of(c.nodes[i]), 4};
        tide_sim_crash(c.sim, "n4");
        tide_table_health(table_of(&c, i, "hot"), &health);
        assert_int_equal(health.under_replicated, 0); /* who knows? */
        const uint64_t until = tide_sim_now(c.sim) + 20 * TIDE_SECOND;
        assert_true(tide_sim_run(c.sim, until, is_told_of_death, &w));
        tide_table_health(table_of(&c, i, "hot"), &health);
        assert_int_equal(health.under_replicated, TIDE_SLOTS / 2); /* its own, and its copies */
        close_cluster(&c);
    }
}

static void ends_run(struct fiber *f) {
    const uint16_t ids[] = {2, 3};
    tide_net_ends(tide_net_of(f->node), ids, TIDE_COUNT(ids)); /* one thread: as on the I/O thread */
}

static void said(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)level;
    if (strstr(text, "died") || strstr(text, "lost")) {
        print_error("%s says: %s\n", node, text);
        ++*(unsigned *)arg;
    }
}

/* Not after deaths: who ended it said so before. */
static void a_cluster_that_ends_loses_no_slots(void **state) {
    (void)state;
    struct cluster c;
    struct tide_member n2 = {.state = TIDE_MEMBER_UP}, n3 = n2;
    unsigned complaints = 0;
    open_cluster(&c, true, 3, 1);
    create(&c,
           (struct tide_table_options){.name = "hot", .key_count = 12, .width = 1, .replicas = 1});
    run_alone(&c, 0, ends_run, NULL);
    tide_log_set(TIDE_LOG_WARN, said, &complaints);
    tide_sim_crash(c.sim, "n2");
    tide_sim_crash(c.sim, "n3");
    for (int i = 0; i < 20000 && (n2.state < TIDE_MEMBER_LEFT || n3.state < TIDE_MEMBER_LEFT); i++) {
        pause_cluster(&c, 1000000);
        assert_true(tide_net_member(tide_net_of(c.nodes[0]), 2, &n2));
        assert_true(tide_net_member(tide_net_of(c.nodes[0]), 3, &n3));
    }
    pause_cluster(&c, TIDE_SECOND);
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    assert_int_equal(n2.state, TIDE_MEMBER_LEFT);
    assert_int_equal(n3.state, TIDE_MEMBER_LEFT);
    assert_int_equal(complaints, 0);
    close_cluster(&c);
}

/* The way of an answer belongs to the lease: whoever holds one counts from when it asked, so that the grant outlives
 * the lease however late the answer came. */
static void a_lease_ends_before_its_grant(void **state) {
    (void)state;
    struct cluster c;
    unsigned leases = 0;
    open_cluster(&c, true, 3, 1);
    tide_sim_set_latency(c.sim, 10000000, 40000000);
    create(&c,
           (struct tide_table_options){.name = "hot", .key_count = 12, .width = 1, .replicas = 1});
    for (unsigned i = 0; i < 40; i++) {
        pause_cluster(&c, 17000000);
        for (uint16_t holder = 1; holder <= 3; holder++) {
            for (uint16_t granter = 1; granter <= 3; granter++) {
                const struct tide_store *one = tide_store_of(c.nodes[holder - 1]);
                const uint64_t until = atomic_load(&one->replication->lease_until[granter]);
                leases += until > 0;
                assert_true(until <= tide__lease_over(tide_store_of(c.nodes[granter - 1]), holder));
            }
        }
    }
    assert_true(leases > 40);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_reach_their_copies_without_faults),
        cmocka_unit_test(pushes_reach_their_copies_on_real_threads),
        cmocka_unit_test(a_crash_loses_and_doubles_nothing),
        cmocka_unit_test(a_push_of_many_keys_is_the_same_on_all_copies),
        cmocka_unit_test(what_an_old_home_sends_is_not_applied),
        cmocka_unit_test(who_cannot_join_holds_up_no_other),
        cmocka_unit_test(more_deaths_than_copies_lose_slots_and_say_so),
        cmocka_unit_test(a_copy_of_the_dead_counts_for_nothing),
        cmocka_unit_test(a_cluster_that_ends_loses_no_slots),
        cmocka_unit_test(a_lease_ends_before_its_grant),
        cmocka_unit_test(two_crashes_with_two_copies_lose_nothing),
        cmocka_unit_test(who_is_taken_for_dead_serves_nothing_stale),
        cmocka_unit_test(who_is_cut_off_serves_nothing_stale),
        cmocka_unit_test(broken_connections_lose_and_double_nothing),
        cmocka_unit_test(who_leaves_hands_its_slots_and_copies_on),
        cmocka_unit_test(two_that_leave_take_no_push_with_them),
    };
    program = argv[0];
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    seeded_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
