/*
 * The value bound, checked by what readers miss.
 *
 * Worker w pushes eighths of either sign to column w of random rows, and the checker knows their
 * sums. So a reader that holds a row can tell what it misses of w: never more than w's bound in
 * that clock, or one update that alone is larger. Nothing else runs while the row is held, in the
 * simulator.
 */
#include "store/core/options.h"
#include "store/clocked/vap.h"
#include "store_world.h"
#include "tide/clock.h"
#include "tide/stats.h"

enum { WORKERS_MAX = 8, ROWS = 12, STRIDE = 331 };

struct pushes { /* of a worker to a key, as the checker knows them */
    double sum;
    double under_way; /* may have happened or not */
    double excess;    /* the last one, if it was larger than the bound; else 0 */
};

struct job {
    unsigned workers;
    int clocks, steps; /* pushes in a clock */
    double bound;
    bool flat, checks_reads;
    uint64_t seed;
    atomic_uint begun, ended;
    double limit[WORKERS_MAX]; /* the loosest of clock 0 that may be in force for a worker */
    uint32_t clock[WORKERS_MAX];
    struct pushes pushed[WORKERS_MAX][ROWS];
    atomic_uint_fast64_t values, violations;
    double closest; /* the most anybody missed, in bounds */
    char text[250];
};

static double bound_of(const struct job *job, unsigned w) {
    return job->flat ? job->limit[w] : job->limit[w] / sqrt((double)job->clock[w] + 1);
}

static void check_row(struct job *job, unsigned reader, unsigned row, const float *values) {
    for (unsigned w = 0; w < job->workers; w++) {
        const struct pushes *p = &job->pushed[w][row];
        const double bound = bound_of(job, w), missed = fabs(p->sum - (double)values[w]),
                     missed_then = fabs(p->sum + p->under_way - (double)values[w]),
                     least = missed < missed_then ? missed : missed_then,
                     most = bound > p->excess ? bound : p->excess;
        job->values++;
        job->closest = least / most > job->closest ? least / most : job->closest;
        if (least > most * (1 + 1e-6) || (w == reader && least > 0)) {
            if (job->violations++ == 0) {
                snprintf(job->text, sizeof job->text,
                         "worker %u misses %g of worker %u in row %u: bound %g at clock %u", reader,
                         least, w, row, most, job->clock[w]);
            }
        }
    }
}

static void read_some(struct fiber *f, struct job *job, struct tide_table *table, int count) {
    for (int i = 0; i < count && !f->failure[0]; i++) {
        const unsigned row = (unsigned)tide_random_below(&f->random, ROWS);
        const float *values;
        struct tide_table_read read;
        CHECK(f, tide_table_read_begin(table, row * STRIDE, &values, &read) == 0);
        if (job->checks_reads) {
            check_row(job, f->index, row, values);
        }
        tide_table_read_end(&read);
    }
}

static void note_limit(struct job *job, unsigned w, struct tide_table *table) {
    struct tide_consistency c;
    tide_table_consistency(table, &c);
    job->limit[w] = c.bound > job->limit[w] ? c.bound : job->limit[w];
}

static void push_one(struct fiber *f, struct job *job, struct tide_table *table) {
    const unsigned w = f->index, row = (unsigned)tide_random_below(&f->random, ROWS);
    const uint64_t key = row * STRIDE;
    float delta[WORKERS_MAX] = {0};
    struct pushes *p = &job->pushed[w][row];
    const bool large = tide_random_below(&f->random, 24) == 0;
    const double eighths = (double)(1 + tide_random_below(&f->random, large ? 24 : 4)),
                 d = tide_random_below(&f->random, 2) ? eighths / 8 : -eighths / 8;
    delta[w] = (float)d;
    p->under_way = d;
    CHECK(f, tide_table_push(table, &key, 1, delta, NULL) == 0);
    note_limit(job, w, table);
    p->under_way = 0;
    p->sum += d;
    p->excess = fabs(d) > bound_of(job, w) ? fabs(d) : 0;
}

static void worker_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "bounded", &table) == 0);
    tide_random_seed(&f->random, job->seed * 100 + f->index);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    const uint32_t first = tide__worker_stamp();
    job->clock[f->index] = first;
    note_limit(job, f->index, table);
    atomic_fetch_add(&job->begun, 1);
    while (atomic_load(&job->begun) < job->workers) {
        (void)tide_sleep(100000);
    }
    for (int clock = 0; clock < job->clocks && !f->failure[0]; clock++) {
        for (int step = 0; step < job->steps && !f->failure[0]; step++) {
            push_one(f, job, table);
            read_some(f, job, table, job->checks_reads ? 16 : 2);
            if (tide_random_below(&f->random, 3) == 0) {
                (void)tide_sleep(tide_random_below(&f->random, 200000));
            }
        }
        struct tide_consistency before;
        tide_table_consistency(table, &before);
        CHECK(f, tide_clock() == (int)first + clock + 1);
        job->clock[f->index] = first + (uint32_t)clock + 1;
        job->limit[f->index] = before.bound;
        note_limit(job, f->index, table);
        for (unsigned row = 0; row < ROWS; row++) {
            job->pushed[f->index][row].excess = 0; /* all of it has been seen */
        }
    }
    tide_worker_end();
    atomic_fetch_add(&job->ended, 1);
}

static void totals_run(struct fiber *f) {
    const struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "bounded", &table) == 0);
    for (uint64_t row = 0; row < ROWS; row++) {
        const uint64_t key = row * STRIDE;
        float values[WORKERS_MAX];
        CHECK(f, tide_table_pull(table, &key, 1, values, NULL) == 0);
        for (unsigned w = 0; w < job->workers && !f->failure[0]; w++) {
            if ((double)values[w] != job->pushed[w][row].sum) {
                snprintf(f->failure, sizeof f->failure, "row %u holds %g of worker %u, not %g",
                         (unsigned)row, (double)values[w], w, job->pushed[w][row].sum);
            }
        }
    }
}

/* ---- runs ---- */

struct faults {
    bool leaves, joins, resets, dies, changes_bound, evicts, hashed;
};

static void bound_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "bounded", &table) == 0);
    struct tide_consistency c;
    tide_table_consistency(table, &c);
    for (int i = 0; i < 60 && atomic_load(&job->ended) == 0; i++) {
        c.bound = (double)(1 + tide_random_below(&f->random, 16)) / 4;
        CHECK(f, tide_table_set_consistency(table, &c) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 2000000));
        struct tide_consistency other = c;
        other.flat = !c.flat;
        CHECK(f, tide_table_set_consistency(table, &other) == TIDE_EUNSUPPORTED);
    }
}

static void disturb(struct cluster *c, const struct faults *faults, struct tide_random *random) {
    static const char *const names[] = {"n1", "n2", "n3", "n4"};
    if (faults->leaves) {
        pause_cluster(c, tide_random_below(random, 2000000));
        tide_net_leave(tide_net_of(c->nodes[3]));
    }
    if (faults->joins) {
        pause_cluster(c, tide_random_below(random, 1000000));
        add_node(c);
    }
    for (int i = 0; i < 6 && faults->resets; i++) {
        unsigned a = (unsigned)tide_random_below(random, 4),
                 b = (a + 1 + (unsigned)tide_random_below(random, 3)) % 4;
        pause_cluster(c, tide_random_below(random, 1000000));
        tide_sim_reset(c->sim, names[a], names[b]);
        tide_sim_pause(c->sim, names[b], tide_random_below(random, 1000000));
    }
}

static void create_bounded(struct cluster *c, const char *consistency,
                           const struct faults *faults) {
    struct tide_table_options o = {.name = "bounded", .width = WORKERS_MAX};
    o.keys = faults->hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE;
    o.key_count = faults->hashed ? 0 : ROWS * STRIDE;
    if (faults->evicts) {
        o.cache_bytes = 1024;
        o.unsubscribe_after = 1;
    }
    assert_int_equal(tide_consistency_parse(consistency, &o.consistency), 0);
    create(c, o);
}

/* Of the last run, of all nodes. */
static struct tide_staleness cost;

static struct job run(bool simulated, const char *consistency, const struct faults *faults,
                      uint64_t seed) {
    struct cluster c;
    const unsigned nodes = faults->leaves || faults->resets ? 4 : 3, workers = 6;
    struct tide_consistency parsed;
    assert_int_equal(tide_consistency_parse(consistency, &parsed), 0);
    struct job job = {.workers = workers,
                      .clocks = 6,
                      .steps = 20,
                      .bound = parsed.bound,
                      .flat = parsed.flat,
                      .checks_reads = simulated,
                      .seed = seed};
    struct fiber fibers[WORKERS_MAX], changer = {.index = 0};
    struct tide_random random;
    tide_random_seed(&random, seed);
    open_cluster(&c, simulated, faults->dies ? 2 : nodes, seed);
    if (faults->dies) {
        add_node_with(&c, (struct tide_node_options){.no_store = true});
        wait_members(&c, 3);
    }
    create_bounded(&c, consistency, faults);
    for (unsigned i = 0; i < workers; i++) {
        start(&c, &fibers[i], faults->dies && i < 5 ? i % 2 : i % 3, i, worker_run, &job);
    }
    if (faults->changes_bound) {
        start(&c, &changer, 0, 50, bound_run, &job);
    }
    disturb(&c, faults, &random);
    if (faults->dies) {
        while (atomic_load(&job.begun) < workers || job.clock[5] < 1) {
            pause_cluster(&c, 10000);
        }
        pause_cluster(&c, tide_random_below(&random, 500000));
        tide_sim_crash(c.sim, "n3");
        assert_int_equal(atomic_load(&job.ended), 0);
        atomic_fetch_sub(&c.running, 1);
    }
    finish(&c, fibers, faults->dies ? workers - 1 : workers);
    if (changer.failure[0]) {
        fail_msg("%s", changer.failure);
    }
    if (job.violations) {
        fail_msg("%s, seed %llu: %llu violations in %llu values; first: %s", consistency,
                 (unsigned long long)seed, (unsigned long long)job.violations,
                 (unsigned long long)job.values, job.text);
    }
    memset(&cost, 0, sizeof cost);
    for (unsigned n = 0; n < 2; n++) {
        struct tide_staleness s;
        tide_table_staleness(table_of(&c, n, "bounded"), &s);
        cost.all.stops += s.all.stops;
        cost.all.stopped_ns += s.all.stopped_ns;
        cost.excess += s.excess;
        cost.confirm_bytes += s.confirm_bytes;
        if (!faults->dies) {
            run_alone(&c, n, totals_run, &job);
        }
    }
    close_cluster(&c);
    return job;
}

/* So many by default, fewer under a sanitizer, which is slow; TIDE_TEST_SEEDS of a longer search
 * multiplies them. */
static uint64_t seeds(uint64_t count) {
    const char *times = getenv("TIDE_TEST_SEEDS");
#ifdef __SANITIZE_ADDRESS__
    count = (count + 3) / 4;
#endif
    return times ? count * strtoull(times, NULL, 10) : count;
}

static const char *const bounds[] = {"vap:0.5:flat", "vap:1", "vap:3", "vap:0.01"};

static void nobody_misses_more_than_the_bound(void **state) {
    (void)state;
    uint64_t values = 0;
    for (uint64_t seed = 1; seed <= seeds(6); seed++) {
        for (size_t b = 0; b < TIDE_COUNT(bounds); b++) {
            const struct faults none = {.hashed = seed % 3 == 0};
            const struct job job = run(true, bounds[b], &none, seed);
            values += job.values;
            assert_true(cost.all.stops > 0 && cost.all.stopped_ns > 0 && cost.confirm_bytes > 0);
            assert_true(b == 2 || cost.excess > 0);
            if (b < 2) { /* and the bound is used up: it is not kept by being late for nothing */
                assert_true(job.closest > 0.9);
            }
        }
    }
    print_message("%llu values checked\n", (unsigned long long)values);
    assert_true(values > 100000);
}

static void bound_holds_while_slots_move(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(8); seed++) {
        const struct faults faults = {.leaves = true, .hashed = seed % 3 == 0};
        (void)run(true, bounds[seed % 3], &faults, seed);
    }
}

static void bound_holds_when_nodes_join_and_connections_break(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(8); seed++) {
        const struct faults faults = {.joins = true, .resets = true};
        (void)run(true, bounds[seed % 3], &faults, seed);
    }
}

static void bound_holds_over_the_living(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(8); seed++) {
        const struct faults faults = {.dies = true};
        (void)run(true, bounds[seed % 3], &faults, seed);
    }
}

static void bound_holds_while_it_changes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(8); seed++) {
        const struct faults faults = {.changes_bound = true};
        (void)run(true, seed % 2 ? "vap:1" : "vap:1:flat", &faults, seed);
    }
}

static void bound_holds_when_copies_are_evicted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= seeds(8); seed++) {
        const struct faults faults = {.evicts = true, .hashed = seed % 3 == 0};
        (void)run(true, bounds[seed % 3], &faults, seed);
    }
}

static void nothing_is_lost_and_nobody_waits_for_ever_on_threads(void **state) {
    (void)state;
    for (size_t b = 0; b < TIDE_COUNT(bounds); b++) {
        const struct faults none = {.hashed = b % 2 == 0};
        (void)run(false, bounds[b], &none, b + 1);
    }
}

/* ---- what cannot be bounded ---- */

static void other_rules_are_refused(void **state) {
    (void)state;
    static const uint8_t updates[] = {TIDE_UPDATE_ADD, TIDE_UPDATE_SGD, TIDE_UPDATE_ASSIGN,
                                      TIDE_UPDATE_ADAGRAD, TIDE_UPDATE_ADAM};
    for (size_t u = 0; u < TIDE_COUNT(updates); u++) {
        struct tide_table_options o = {
            .name = "w", .key_count = 1, .width = 1, .update = updates[u], .lr = 0.1f};
        assert_int_equal(tide_consistency_parse("vap:1", &o.consistency), 0);
        assert_int_equal(tide__options_check(&o), u < 2 ? 0 : TIDE_EINVAL);
        o.update = TIDE_UPDATE_ADD;
        o.consistency.bound = NAN;
        assert_int_equal(tide__options_check(&o), TIDE_EINVAL);
    }
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_rules_are_refused),
        cmocka_unit_test(nobody_misses_more_than_the_bound),
        cmocka_unit_test(bound_holds_while_slots_move),
        cmocka_unit_test(bound_holds_when_nodes_join_and_connections_break),
        cmocka_unit_test(bound_holds_over_the_living),
        cmocka_unit_test(bound_holds_while_it_changes),
        cmocka_unit_test(bound_holds_when_copies_are_evicted),
        cmocka_unit_test(nothing_is_lost_and_nobody_waits_for_ever_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
