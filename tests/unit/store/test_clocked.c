/*
 * Tables with clocks: the promises of their models, checked by a table of counters.
 *
 * Worker w adds 1 to column w of every row once a clock. So a pull at clock c must show, in column
 * w of any row, at least c - s for each worker w that lives, and the reader's own pushes exactly;
 * bsp: exactly c. Nothing ever shows more than was pushed.
 */
#include "store/core/options.h"
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"
#include "tide/stats.h"

enum { WORKERS_MAX = 16, ROWS = 48, PULLS = 3, BURST = 100 };
/* Rows that the simulated runs check, at least; under a sanitizer, which is slow, a fifth. */
#ifdef __SANITIZE_ADDRESS__
enum { BURSTS = 4, ROWS_CHECKED = 2000000 };
#else
enum { BURSTS = 20, ROWS_CHECKED = 10000000 };
#endif

struct job {
    const char *table;
    const char *consistency;
    uint32_t s_start;
    bool exact, bounded, moves_s;
    int clocks;
    uint64_t seed; /* of the workers' choices */
    unsigned workers, writers; /* those from `writers` on only read */
    uint64_t slow_ns;          /* worker 0 sleeps that long in each clock */
    uint64_t pause_ns;         /* most that workers sleep now and then */
    int bursts;                /* of reads in place, behind each pull */
    atomic_uint begun, ended;
    atomic_uint clock[WORKERS_MAX]; /* of the checker, not of the system */
    atomic_uint first[WORKERS_MAX]; /* clock at which it began */
    atomic_bool dead[WORKERS_MAX];
    atomic_uint_fast64_t reads, rows, violations; /* values and rows that were checked */
    atomic_uint bound_now; /* moves_s: the newest */
    char text[200];
};

static void violation(struct job *job, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (atomic_fetch_add(&job->violations, 1) == 0) {
        vsnprintf(job->text, sizeof job->text, format, list);
    }
    va_end(list);
}

/* `bound`: the loosest in force in this clock. */
static void check_row(struct job *job, const struct fiber *f, uint64_t key, const float *row,
                      uint32_t clock, uint32_t bound, float own) {
    for (unsigned w = 0; w < job->writers; w++) {
        float first = (float)atomic_load(&job->first[w]);
        float pushed = (float)atomic_load(&job->clock[w]) + 1 - first;
        float least = (float)clock - (float)bound - first;
        if (atomic_load(&job->begun) < job->workers || atomic_load(&job->dead[w])) {
            least = 0;
        }
        if (w == f->index) {
            if (row[w] != own) {
                violation(job, "worker %u at clock %u reads its own %g as %g in key %llu", w, clock,
                          (double)own, (double)row[w], (unsigned long long)key);
            }
        } else if (job->exact && !atomic_load(&job->dead[w])
                       ? row[w] != (float)clock - first
                       : row[w] > pushed || (job->bounded && row[w] < least)) {
            violation(job, "worker %u at clock %u (bound %u) sees %g of worker %u in key %llu",
                      f->index, clock, bound, (double)row[w], w, (unsigned long long)key);
        }
        atomic_fetch_add_explicit(&job->reads, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&job->rows, 1, memory_order_relaxed);
}

/* Rows read in place while others continue; `pushed` of `keys` were pushed in this clock. */
static void read_in_place(struct fiber *f, struct job *job, struct tide_table *table,
                          const uint64_t *keys, size_t pushed, uint32_t clock, uint32_t first) {
    for (int i = 0; i < job->bursts * BURST && !f->failure[0]; i++) {
        const size_t at = (size_t)tide_random_below(&f->random, ROWS);
        const float *row;
        struct tide_table_read read;
        if (i % BURST == 0) {
            (void)tide_yield();
        }
        CHECK(f, tide_table_read_begin(table, keys[at], &row, &read) == 0);
        check_row(job, f, keys[at], row, clock, job->s_start,
                  (float)(clock - first) + (at < pushed ? 1 : 0));
        tide_table_read_end(&read);
    }
}

static void worker_clocks(struct fiber *f, struct job *job, struct tide_table *table,
                          uint32_t first) {
    uint64_t keys[ROWS];
    float ones[ROWS * WORKERS_MAX] = {0}, rows[ROWS * WORKERS_MAX];
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i * 37;
        ones[i * WORKERS_MAX + f->index] = 1;
    }
    for (uint32_t clock = first; clock < first + (uint32_t)job->clocks && !f->failure[0]; clock++) {
        uint32_t bound = atomic_load(&job->bound_now);
        size_t pushed = 0;
        shuffle(&f->random, keys, ROWS);
        for (int pull = 0; pull < PULLS; pull++) {
            size_t part = 1 + tide_random_below(&f->random, ROWS - 1),
                   at = tide_random_below(&f->random, ROWS + 1 - part);
            uint32_t before = atomic_load(&job->bound_now);
            CHECK(f, tide_table_pull(table, keys + at, part, rows, NULL) == 0);
            uint32_t after = atomic_load(&job->bound_now);
            bound = before > bound ? before : bound;
            bound = after > bound ? after : bound;
            for (size_t i = 0; i < part; i++) {
                check_row(job, f, keys[at + i], rows + i * WORKERS_MAX, clock, bound,
                          (float)(clock - first) + (at + i < pushed ? 1 : 0));
            }
            read_in_place(f, job, table, keys, pushed, clock, first);
            size_t more = pull + 1 == PULLS ? ROWS - pushed
                                            : tide_random_below(&f->random, ROWS - pushed + 1);
            atomic_store(&job->clock[f->index], clock);
            if (f->index < job->writers) {
                CHECK(f, tide_table_push(table, keys + pushed, more, ones, NULL) == 0);
            }
            pushed += more;
            if (tide_random_below(&f->random, 4) == 0) {
                (void)tide_sleep(tide_random_below(&f->random, job->pause_ns));
            }
        }
        if (f->index == 0 && job->slow_ns) {
            (void)tide_sleep(job->slow_ns);
        }
        CHECK(f, tide_clock() == (int)clock + 1);
    }
}

static void worker_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, job->table, &table) == 0);
    tide_random_seed(&f->random, job->seed * 100 + f->index);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    uint32_t first = tide__worker_stamp();
    atomic_store(&job->clock[f->index], first - 1);
    atomic_store(&job->first[f->index], first);
    atomic_fetch_add(&job->begun, 1);
    while (atomic_load(&job->begun) < job->workers) {
        (void)tide_sleep(100000);
    }
    worker_clocks(f, job, table, first);
    tide_worker_end();
    atomic_fetch_add(&job->ended, 1);
}

/* So many by default; TIDE_TEST_SEEDS of a longer search multiplies them. */
static uint64_t seeds(uint64_t count) {
    const char *times = getenv("TIDE_TEST_SEEDS");
    return times ? count * strtoull(times, NULL, 10) : count;
}

static struct job job_of(const char *consistency, int clocks, unsigned workers) {
    struct tide_consistency c;
    assert_int_equal(tide_consistency_parse(consistency, &c), 0);
    struct job job = {.table = "counters",
                      .consistency = consistency,
                      .s_start = c.staleness,
                      .exact = c.model == TIDE_BSP,
                      .bounded = c.model != TIDE_ASYNC,
                      .clocks = clocks,
                      .pause_ns = 300000,
                      .workers = workers,
                      .writers = workers};
    atomic_store(&job.bound_now, c.staleness);
    return job;
}

/* Where the model can, and by some seeds, rows are sent early; then clocks last long enough. */
static void create_counters(struct cluster *c, struct job *job, bool hashed) {
    struct tide_table_options o = {.name = "counters", .width = WORKERS_MAX};
    o.keys = hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE;
    o.key_count = hashed ? 0 : ROWS * 37;
    assert_int_equal(tide_consistency_parse(job->consistency, &o.consistency), 0);
    if (o.consistency.model == TIDE_SSP || o.consistency.model == TIDE_ESSP) {
        o.send_order = (uint8_t)(job->seed % (TIDE_SEND_RANDOM + 1));
    }
    job->pause_ns = o.send_order && c->sim ? 6000000 : job->pause_ns;
    create(c, o);
}

static void totals_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, job->table, &table) == 0);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t key = i * 37;
        float row[WORKERS_MAX];
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        for (unsigned w = 0; w < job->writers && !f->failure[0]; w++) {
            if (row[w] != (float)job->clocks) {
                snprintf(f->failure, sizeof f->failure, "key %llu has %g of worker %u, not %d",
                         (unsigned long long)key, (double)row[w], w, job->clocks);
            }
        }
    }
}

static void verdict(const struct job *job, uint64_t seed) {
    if (atomic_load(&job->violations)) {
        fail_msg("%s, seed %llu: %llu violations in %llu reads; first: %s", job->consistency,
                 (unsigned long long)seed, (unsigned long long)atomic_load(&job->violations),
                 (unsigned long long)atomic_load(&job->reads), job->text);
    }
}

static uint64_t early_rows(struct cluster *c, unsigned nodes) {
    uint64_t rows = 0;
    for (unsigned n = 0; n < nodes; n++) {
        struct tide_staleness s;
        tide_table_staleness(table_of(c, n, "counters"), &s);
        rows += s.early_rows;
    }
    return rows;
}

/* By every other seed the updates of a clock leave in parts of a few rows, behind the worker; by
 * the others the node's other threads continue where a fiber yields. */
static void by_parts(bool simulated, uint64_t seed) {
    if (simulated) {
        unlikely_begins(seed % 2 ? "yield_ends_turn" : "clock_in_parts", seed, 0.5);
    }
}

static uint64_t counters_hold(bool simulated, const char *consistency, uint64_t seed,
                              uint64_t *early) {
    struct cluster c;
    const unsigned workers = 6;
    open_cluster(&c, simulated, 3, seed);
    struct job job = job_of(consistency, simulated ? 12 : 15, workers);
    job.seed = seed;
    create_counters(&c, &job, seed % 3 == 0);
    job.slow_ns = seed % 2 ? 500000 : 0;
    job.bursts = simulated && !job.exact ? BURSTS : 0; /* bsp: rows are not read in place */
    struct fiber fibers[WORKERS_MAX];
    by_parts(simulated, seed);
    for (unsigned i = 0; i < workers; i++) {
        start(&c, &fibers[i], i % 3, i, worker_run, &job);
    }
    finish(&c, fibers, workers);
    if (simulated) {
        unlikely_ends();
    }
    verdict(&job, seed);
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, totals_run, &job);
    }
    *early += early_rows(&c, 3);
    close_cluster(&c);
    return atomic_load(&job.rows);
}

static const char *const models[] = {"bsp",    "ssp:0",  "ssp:2",    "essp:0",
                                     "essp:2", "essp:5", "async:1ms"};

static void bounds_hold_simulated(void **state) {
    (void)state;
    uint64_t rows = 0, early = 0;
    for (uint64_t seed = 1; seed <= seeds(4); seed++) {
        for (size_t m = 0; m < TIDE_COUNT(models); m++) {
            rows += counters_hold(true, models[m], seed, &early);
        }
    }
    print_message("%llu reads of rows checked, each against 6 workers; %llu rows sent early\n",
                  (unsigned long long)rows, (unsigned long long)early);
    assert_true(rows > ROWS_CHECKED && early > 1000);
}

static void bounds_hold_real(void **state) {
    (void)state;
    uint64_t early = 0;
    for (size_t m = 0; m < TIDE_COUNT(models); m++) {
        counters_hold(false, models[m], 1, &early);
    }
}

/* ---- faults: pauses, broken connections, slots that move, nodes that join and die ---- */

struct faults {
    bool leaves, joins, resets, changes_bound;
};

static void bound_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, job->table, &table) == 0);
    struct tide_consistency c;
    tide_table_consistency(table, &c);
    tide_random_seed(&f->random, job->seed * 100 + f->index);
    for (int i = 0; i < 60 && atomic_load(&job->ended) == 0; i++) {
        c.model = tide_random_below(&f->random, 2) ? TIDE_SSP : TIDE_ESSP;
        c.staleness = (uint32_t)tide_random_below(&f->random, 5);
        uint32_t known = atomic_load(&job->bound_now); /* in force from some moment on */
        while (c.staleness > known &&
               !atomic_compare_exchange_weak(&job->bound_now, &known, c.staleness)) {
        }
        CHECK(f, tide_table_set_consistency(table, &c) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 2000000));
        struct tide_consistency other = {.model = TIDE_BSP};
        CHECK(f, tide_table_set_consistency(table, &other) == TIDE_EUNSUPPORTED);
    }
}

/* Once everything has arrived, the same is in force everywhere: also where the table came later. */
static void all_agree(struct cluster *c, bool fourth_left) {
    struct tide_consistency first, other;
    pause_cluster(c, 50000000);
    tide_table_consistency(table_of(c, 0, "counters"), &first);
    for (unsigned n = 1; n < c->count; n++) {
        if (n == 3 && fourth_left) {
            continue;
        }
        tide_table_consistency(table_of(c, n, "counters"), &other);
        assert_int_equal(first.model, other.model);
        assert_int_equal(first.staleness, other.staleness);
    }
}

static uint64_t faults_hold(const char *consistency, const struct faults *faults, uint64_t seed) {
    struct cluster c;
    const unsigned nodes = 4, workers = 6;
    open_cluster(&c, true, nodes, seed);
    struct job job = job_of(consistency, 12, workers);
    job.seed = seed;
    create_counters(&c, &job, seed % 3 == 0);
    struct fiber fibers[WORKERS_MAX], changers[2];
    by_parts(true, seed);
    for (unsigned i = 0; i < workers; i++) { /* node 4 has none: it leaves */
        start(&c, &fibers[i], i % 3, i, worker_run, &job);
    }
    for (unsigned i = 0; i < TIDE_COUNT(changers) && faults->changes_bound; i++) {
        start(&c, &changers[i], i, 50 + i, bound_run, &job);
    }
    struct tide_random random;
    tide_random_seed(&random, seed);
    if (faults->leaves) {
        pause_cluster(&c, tide_random_below(&random, 2000000));
        tide_net_leave(tide_net_of(c.nodes[3]));
    }
    if (faults->joins) {
        pause_cluster(&c, tide_random_below(&random, 1000000));
        add_node(&c);
    }
    for (int i = 0; i < 6 && faults->resets; i++) {
        static const char *const names[] = {"n1", "n2", "n3", "n4"};
        unsigned a = (unsigned)tide_random_below(&random, 4),
                 b = (a + 1 + (unsigned)tide_random_below(&random, 3)) % 4;
        pause_cluster(&c, tide_random_below(&random, 1000000));
        tide_sim_reset(c.sim, names[a], names[b]);
        tide_sim_pause(c.sim, names[b], tide_random_below(&random, 1000000));
    }
    finish(&c, fibers, workers);
    if (faults->changes_bound) {
        finish(&c, changers, TIDE_COUNT(changers));
        all_agree(&c, faults->leaves);
    }
    unlikely_ends();
    verdict(&job, seed);
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, totals_run, &job);
    }
    close_cluster(&c);
    return atomic_load(&job.reads);
}

static const char *const faulty_models[] = {"bsp", "ssp:1", "essp:0", "essp:2"};

static void bounds_hold_while_slots_move(void **state) {
    (void)state;
    const struct faults faults = {.leaves = true};
    for (uint64_t seed = 1; seed <= seeds(2); seed++) {
        for (size_t m = 0; m < TIDE_COUNT(faulty_models); m++) {
            faults_hold(faulty_models[m], &faults, seed);
        }
    }
}

/* A row that left the new home before its answer to the fence, and came after it. */
static void a_row_that_comes_late_hides_no_own_update(void **state) {
    (void)state;
    faults_hold("essp:2", &(struct faults){.leaves = true}, 659);
}

/* The old home gave the slot away before it heard that these workers begin, the new home got it
 * after. */
static void who_begins_while_a_slot_moves_is_waited_for(void **state) {
    (void)state;
    faults_hold("ssp:1", &(struct faults){.leaves = true}, 123);
}

/* A new home told of clocks before these workers sent to it, and of none after. */
static void what_a_new_home_told_too_early_is_told_again(void **state) {
    (void)state;
    faults_hold("essp:2", &(struct faults){.leaves = true}, 51);
}

static void bounds_hold_when_nodes_join_and_connections_break(void **state) {
    (void)state;
    const struct faults faults = {.joins = true, .resets = true};
    for (uint64_t seed = 1; seed <= seeds(3); seed++) {
        for (size_t m = 0; m < TIDE_COUNT(faulty_models); m++) {
            faults_hold(faulty_models[m], &faults, seed);
        }
    }
}

/* Workers of a node without rows die with it: nobody waits for them, and what they closed stays. */
static void survivors_hold(const char *consistency, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, true, 2, seed);
    add_node_with(&c, (struct tide_node_options){.no_store = true});
    wait_members(&c, 3);
    struct job job = job_of(consistency, 12, 5);
    job.seed = seed;
    create_counters(&c, &job, false);
    struct fiber fibers[5];
    struct tide_random random;
    by_parts(true, seed);
    tide_random_seed(&random, seed);
    for (unsigned i = 0; i < 5; i++) {
        start(&c, &fibers[i], i < 4 ? i % 2 : 2, i, worker_run, &job);
    }
    while (atomic_load(&job.begun) < 5 || atomic_load(&job.clock[4]) + 1 < 2) {
        pause_cluster(&c, 10000);
    }
    pause_cluster(&c, tide_random_below(&random, 500000));
    atomic_store(&job.dead[4], true);
    tide_sim_crash(c.sim, "n3");
    assert_int_equal(atomic_load(&job.ended), 0);
    atomic_fetch_sub(&c.running, 1);
    finish(&c, fibers, 4);
    unlikely_ends();
    verdict(&job, seed);
    assert_int_equal(atomic_load(&job.ended), 4);
    close_cluster(&c);
}

static void bounds_hold_over_the_living(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(3); seed++) {
        for (size_t m = 0; m < TIDE_COUNT(faulty_models); m++) {
            survivors_hold(faulty_models[m], seed);
        }
    }
}

static void bounds_hold_while_they_and_the_model_change(void **state) {
    (void)state;
    static const struct faults faults[] = {{.changes_bound = true},
                                           {.changes_bound = true, .leaves = true},
                                           {.changes_bound = true, .joins = true, .resets = true}};
    for (uint64_t seed = 1; seed <= seeds(3); seed++) {
        for (size_t i = 0; i < TIDE_COUNT(faults); i++) {
            faults_hold("essp:2", &faults[i], seed);
            faults_hold("ssp:2", &faults[i], seed);
        }
    }
}

/* ---- copies come and go ---- */

static void bounds_hold_when_copies_are_evicted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(2); seed++) {
        struct cluster c;
        open_cluster(&c, true, 3, seed);
        struct tide_table_options o = {.name = "counters",
                                       .width = WORKERS_MAX,
                                       .key_count = ROWS * 37,
                                       .cache_bytes = 4096,
                                       .unsubscribe_after = 1};
        assert_int_equal(tide_consistency_parse("essp:2", &o.consistency), 0);
        create(&c, o);
        struct job job = job_of("essp:2", 12, 6);
        job.seed = seed;
        struct fiber fibers[6];
        job.writers = 1;
        for (unsigned i = 0; i < 6; i++) {
            start(&c, &fibers[i], i % 3, i, worker_run, &job);
        }
        finish(&c, fibers, 6);
        verdict(&job, seed);
        run_alone(&c, 0, totals_run, &job);
        struct tide_staleness s;
        tide_table_staleness(table_of(&c, 1, "counters"), &s);
        assert_true(s.evicted > 0 && s.copies < ROWS && s.all.over == 0 && s.all.under == 0);
        assert_true(s.all.mean <= -1 && s.all.mean >= -3 && s.all.hits > 0 && s.all.fetches > 0);
        struct tide_worker_staleness of[4]; /* by worker: they end, what they saw stays */
        assert_int_equal(tide_table_worker_staleness(table_of(&c, 1, "counters"), of, 4), 2);
        assert_true(of[0].worker == 1 && of[1].worker == 4);
        assert_true(of[0].clocks == 12 && of[1].clocks == 12 && s.all.clocks == 24);
        assert_true(of[0].hits && of[1].hits && of[0].hits + of[1].hits == s.all.hits);
        assert_true(of[0].waited_ns + of[1].waited_ns == s.all.waited_ns);
        close_cluster(&c);
    }
}

/* ---- bsp to the bit ---- */

enum { EXACT_KEYS = 40, EXACT_WIDTH = 3, EXACT_CLOCKS = 6, EXACT_WORKERS = 5 };

struct exact {
    uint64_t seed; /* of timing */
    atomic_uint begun, ended;
};

static void exact_run(struct fiber *f) {
    struct exact *exact = f->arg;
    struct tide_table *table;
    struct tide_random work; /* what a worker computes does not depend on timing */
    CHECK(f, tide_table_find(f->node, "exact", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    tide_random_seed(&work, f->index);
    tide_random_seed(&f->random, exact->seed * 100 + f->index);
    atomic_fetch_add(&exact->begun, 1);
    while (atomic_load(&exact->begun) < EXACT_WORKERS) {
        (void)tide_sleep(100000);
    }
    for (int clock = 0; clock < EXACT_CLOCKS; clock++) {
        for (int i = 0; i < 20; i++) {
            uint64_t key = tide_random_below(&work, EXACT_KEYS);
            float row[EXACT_WIDTH];
            CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
            for (int j = 0; j < EXACT_WIDTH; j++) {
                row[j] = (float)tide_random_uniform(&work) - 0.3f * row[j];
            }
            CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
            if (tide_random_below(&f->random, 3) == 0) {
                (void)tide_sleep(tide_random_below(&f->random, 200000));
            }
        }
        CHECK(f, tide_clock() >= 0);
    }
    tide_worker_end();
    atomic_fetch_add(&exact->ended, 1);
}

static float exact_rows[EXACT_KEYS * EXACT_WIDTH];

static void exact_read(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "exact", &table) == 0);
    for (uint64_t key = 0; key < EXACT_KEYS; key++) {
        CHECK(f, tide_table_pull(table, &key, 1, exact_rows + key * EXACT_WIDTH, NULL) == 0);
    }
}

static void exact_values(unsigned nodes, uint64_t seed, uint8_t update, bool leaves, float *out) {
    struct cluster c;
    open_cluster(&c, true, nodes, seed);
    struct tide_table_options o = {.name = "exact",
                                   .width = EXACT_WIDTH,
                                   .key_count = EXACT_KEYS,
                                   .update = update,
                                   .lr = 0.1f};
    assert_int_equal(tide_consistency_parse("bsp:reproducible", &o.consistency), 0);
    create(&c, o);
    struct exact exact = {.seed = seed};
    struct fiber fibers[EXACT_WORKERS];
    const unsigned with_workers = leaves ? nodes - 1 : nodes;
    for (unsigned i = 0; i < EXACT_WORKERS; i++) {
        start(&c, &fibers[i], i % with_workers, i, exact_run, &exact);
    }
    if (leaves) {
        tide_net_leave(tide_net_of(c.nodes[nodes - 1]));
    }
    finish(&c, fibers, EXACT_WORKERS);
    run_alone(&c, 0, exact_read, NULL);
    memcpy(out, exact_rows, sizeof exact_rows);
    close_cluster(&c);
}

static void bsp_is_the_same_to_the_bit_on_any_nodes_and_timing(void **state) {
    (void)state;
    static const uint8_t updates[] = {TIDE_UPDATE_ADD, TIDE_UPDATE_ADAGRAD, TIDE_UPDATE_ADAM,
                                      TIDE_UPDATE_MOMENTUM};
    for (size_t u = 0; u < TIDE_COUNT(updates); u++) {
        float first[EXACT_KEYS * EXACT_WIDTH], again[EXACT_KEYS * EXACT_WIDTH];
        exact_values(1, 1, updates[u], false, first);
        exact_values(3, 2, updates[u], false, again);
        assert_memory_equal(first, again, sizeof first);
        exact_values(4, 3, updates[u], true, again);
        assert_memory_equal(first, again, sizeof first);
    }
}

/* ---- update rules on copies ---- */

static void rules_run(struct fiber *f) {
    const uint64_t keys[4] = {0, 1, 2, 3};
    const char *const names[2] = {"clocked", "plain"};
    struct tide_table *tables[2];
    float rows[2][12];
    for (int t = 0; t < 2; t++) {
        CHECK(f, tide_table_find(f->node, names[t], &tables[t]) == 0);
    }
    CHECK(f, tide_worker_begin(f->node, 0, 0) == 0);
    for (int clock = 0; clock < 5; clock++) {
        for (int i = 0; i < 6; i++) {
            float row[12];
            for (int j = 0; j < 12; j++) {
                row[j] = (float)tide_random_uniform(&f->random);
            }
            for (int t = 0; t < 2; t++) {
                CHECK(f, tide_table_push(tables[t], keys, 4, row, NULL) == 0);
            }
        }
        for (int t = 0; t < 2; t++) { /* own writes at once */
            CHECK(f, tide_table_pull(tables[t], keys, 4, rows[t], NULL) == 0);
        }
        for (int j = 0; j < 12; j++) {
            CHECK(f, fabsf(rows[0][j] - rows[1][j]) < 1e-4f);
        }
        CHECK(f, tide_clock() >= 0);
    }
    tide_worker_end();
    CHECK(f,
          tide_table_pull(tables[0], keys, 4, rows[0], NULL) == 0); /* no worker: from the homes */
    for (int j = 0; j < 12; j++) {
        CHECK(f, fabsf(rows[0][j] - rows[1][j]) < 1e-4f);
    }
}

static void rules_act_on_copies_as_at_home(void **state) {
    (void)state;
    static const uint8_t updates[] = {TIDE_UPDATE_ADD, TIDE_UPDATE_ASSIGN, TIDE_UPDATE_SGD,
                                      TIDE_UPDATE_ADAGRAD};
    for (size_t u = 0; u < TIDE_COUNT(updates); u++) {
        struct cluster c;
        open_cluster(&c, true, 3, u + 1);
        struct tide_table_options o = {.name = "plain",
                                       .width = 3,
                                       .key_count = 4,
                                       .update = updates[u],
                                       .lr = 0.1f,
                                       .init = TIDE_INIT_NORMAL,
                                       .init_a = 1};
        create(&c, o);
        o.name = "clocked";
        assert_int_equal(tide_consistency_parse("essp:1", &o.consistency), 0);
        create(&c, o);
        run_alone(&c, 0, rules_run, NULL);
        close_cluster(&c);
    }
}

/* ---- damaged messages ---- */

static atomic_uint damage_lines;

static void count_damage(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)arg, (void)level, (void)node;
    if (strstr(text, "damaged message")) {
        atomic_fetch_add(&damage_lines, 1);
    }
}

/* [op, table, 1]: no message of tables with clocks has a number alone after its table. */
static void damaged_run(struct fiber *f) {
    static const uint64_t ops[] = {TIDE__OP_DELTA, TIDE__OP_ASK,   TIDE__OP_VALUE,       TIDE__OP_FRESH,
                                   TIDE__OP_UNSUB, TIDE__OP_BOUND, TIDE__OP_TICK_FORWARD};
    struct cluster *c = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "clocked", &table) == 0);
    (void)tide_sleep(20000000);
    for (size_t i = 0; i < TIDE_COUNT(ops); i++) {
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide_write_array(&w, 3);
        tide_write_uint(&w, ops[i]);
        tide_write_uint(&w, table->id);
        tide_write_uint(&w, 1);
        CHECK(f, tide_send(tide_address_make(2, TIDE_ID_STORE), TIDE_LANE_STORE, w.data, w.size) == 0);
        tide_writer_release(&w);
    }
    (void)tide_sleep(20000000);
    CHECK(f, atomic_load(&tide_store_of(c->nodes[1])->malformed) == TIDE_COUNT(ops));
    CHECK(f, atomic_load(&damage_lines) == TIDE_COUNT(ops));
}

static void a_damaged_message_is_counted_and_logged(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table_options o = {.name = "clocked", .key_count = 16, .width = 4};
    open_cluster(&c, true, 2, 1);
    assert_int_equal(tide_consistency_parse("essp:1", &o.consistency), 0);
    create(&c, o);
    tide_log_set(TIDE_LOG_WARN, count_damage, NULL);
    run_alone(&c, 0, damaged_run, &c);
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    close_cluster(&c);
}

/* ---- options ---- */

static void consistency_is_read_and_printed(void **state) {
    (void)state;
    static const char *const good[] = {"sequential", "bsp",     "bsp:reproducible",
                                       "ssp:3",      "essp:60", "async:50ms",
                                       "vap:0.01",   "vap:2:flat"};
    static const char *const bad[] = {"",         "ssp",          "ssp:",  "ssp:-1", "ssp:61",
                                      "ssp:3x",   "essp:3:4",     "bsp:3", "vap",    "async:0ms",
                                      "async:50", "sequential:1", "bs",    "vap:0",  "vap:-1",
                                      "vap:x",    "vap:1:sharp",  "vap:1x", "vap:inf", "vap:1e999"};
    struct tide_consistency c;
    char text[TIDE_CONSISTENCY_TEXT];
    for (size_t i = 0; i < TIDE_COUNT(good); i++) {
        assert_int_equal(tide_consistency_parse(good[i], &c), 0);
        tide_consistency_print(&c, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(tide_consistency_parse(bad[i], &c), TIDE_EINVAL);
    }
    struct tide_table_options o = {
        .name = "w", .key_count = 1, .width = 1, .technique = TIDE_RELOCATE};
    assert_int_equal(tide_consistency_parse("essp:2", &o.consistency), 0);
    assert_int_equal(tide__options_check(&o), TIDE_EINVAL);
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consistency_is_read_and_printed),
        cmocka_unit_test(a_damaged_message_is_counted_and_logged),
        cmocka_unit_test(rules_act_on_copies_as_at_home),
        cmocka_unit_test(bsp_is_the_same_to_the_bit_on_any_nodes_and_timing),
        cmocka_unit_test(bounds_hold_when_copies_are_evicted),
        cmocka_unit_test(bounds_hold_while_slots_move),
        cmocka_unit_test(a_row_that_comes_late_hides_no_own_update),
        cmocka_unit_test(who_begins_while_a_slot_moves_is_waited_for),
        cmocka_unit_test(what_a_new_home_told_too_early_is_told_again),
        cmocka_unit_test(bounds_hold_when_nodes_join_and_connections_break),
        cmocka_unit_test(bounds_hold_over_the_living),
        cmocka_unit_test(bounds_hold_while_they_and_the_model_change),
        cmocka_unit_test(bounds_hold_simulated),
        cmocka_unit_test(bounds_hold_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
