/*
 * Tables with clocks on nodes that are short of memory: what a worker calls may fail with ENOMEM, and is
 * done by calling again; nobody waits for ever for a message that was not sent, no update is lost and
 * no clock is told before its updates.
 *
 * Worker w adds 1 to column w of every row once a clock, as in test_clocked.c, a row at a time: a
 * refused push of one row has changed nothing.
 */
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"

enum { WORKERS = 6, ROWS = 12, CLOCKS = 8, NODES = 3, SEEDS = 2 };

struct job {
    uint32_t staleness;
    bool bounded;
    atomic_uint begun;
    atomic_uint first[WORKERS];
    atomic_uint_fast64_t refused;
    atomic_bool scarce; /* real nodes */
};

/* Calls again until there is memory; other failures are the test's. */
#define PERSIST(f, job, call)                                                                      \
    do {                                                                                           \
        int code_;                                                                                 \
        while ((code_ = (call)) == TIDE_ENOMEM) {                                                  \
            atomic_fetch_add(&(job)->refused, 1);                                                  \
            (void)tide_sleep(10000);                                                               \
        }                                                                                          \
        CHECK(f, code_ >= 0);                                                                      \
    } while (0)

static void check_row(struct fiber *f, struct job *job, const float *row, uint32_t clock,
                      bool pushed) {
    for (unsigned w = 0; w < WORKERS && job->bounded; w++) {
        const uint32_t first = atomic_load(&job->first[w]);
        const float least = (float)clock - (float)job->staleness - (float)first,
                    own = (float)(clock - first) + (pushed ? 1 : 0);
        if (w == f->index ? row[w] != own : row[w] < least) {
            snprintf(f->failure, sizeof f->failure, "worker %u at clock %u sees %g of worker %u",
                     f->index, clock, (double)row[w], w);
        }
    }
}

static void worker_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    float one[WORKERS] = {0}, row[WORKERS];
    one[f->index] = 1;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    PERSIST(f, job, tide_worker_begin(f->node, f->index, 0));
    atomic_store(&job->first[f->index], tide__worker_stamp());
    atomic_fetch_add(&job->begun, 1);
    while (atomic_load(&job->begun) < WORKERS) {
        (void)tide_sleep(100000);
    }
    const uint32_t first = tide__worker_stamp();
    for (uint32_t clock = first; clock < first + CLOCKS && !f->failure[0]; clock++) {
        for (uint64_t key = 0; key < ROWS && !f->failure[0]; key++) {
            PERSIST(f, job, tide_table_pull(table, &key, 1, row, NULL));
            check_row(f, job, row, clock, false);
            PERSIST(f, job, tide_table_push(table, &key, 1, one, NULL));
            PERSIST(f, job, tide_table_pull(table, &key, 1, row, NULL));
            check_row(f, job, row, clock, true);
        }
        PERSIST(f, job, tide_clock());
    }
    tide_worker_end();
}

static void totals_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[WORKERS];
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        for (unsigned w = 0; w < WORKERS; w++) {
            CHECK(f, row[w] == CLOCKS);
        }
    }
}

static void create_counters(struct cluster *c, const char *consistency, struct job *job) {
    struct tide_table_options o = {.name = "counters", .width = WORKERS, .key_count = ROWS};
    assert_int_equal(tide_consistency_parse(consistency, &o.consistency), 0);
    job->staleness = o.consistency.staleness;
    job->bounded = o.consistency.model != TIDE_ASYNC && o.consistency.model != TIDE_VAP;
    create(c, o);
}

static void all_work(struct cluster *c, struct job *job) {
    struct fiber fibers[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        start(c, &fibers[i], i % NODES, i, worker_run, job);
    }
    finish(c, fibers, WORKERS);
    assert_true(atomic_load(&job->refused) > 0);
}

static const char *const models[] = {"bsp",    "ssp:0",     "ssp:2",  "essp:0",
                                     "essp:2", "async:1ms", "vap:20"};

static void short_of_memory(const char *consistency, uint64_t seed) {
    static const char *const names[NODES] = {"n1", "n2", "n3"};
    struct cluster c;
    struct job job = {.staleness = 0};
    open_cluster(&c, true, NODES, seed);
    create_counters(&c, consistency, &job);
    for (unsigned n = 0; n < NODES; n++) {
        tide_sim_set_memory(c.sim, names[n], &(struct tide_sim_memory){.asked = 0.2});
    }
    all_work(&c, &job);
    for (unsigned n = 0; n < NODES; n++) {
        tide_sim_set_memory(c.sim, names[n], &(struct tide_sim_memory){0});
    }
    run_alone(&c, 0, totals_run, NULL);
    close_cluster(&c);
}

static void workers_that_get_no_memory_lose_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (size_t m = 0; m < TIDE_COUNT(models); m++) {
            short_of_memory(models[m], seed);
        }
    }
}

/* ---- real threads ---- */

static struct job *real_job;

/* Of what workers ask for every fifth is refused. */
static bool refuse(enum tide_memory_use use) {
    static _Thread_local unsigned asked;
    return use == TIDE_MEMORY_ASKED && atomic_load(&real_job->scarce) && tide_fiber_current() &&
           ++asked % 5 == 0;
}

static void workers_that_get_no_memory_lose_nothing_real(void **state) {
    (void)state;
    for (size_t m = 0; m < TIDE_COUNT(models); m++) {
        struct cluster c;
        struct job job = {.staleness = 0};
        real_job = &job;
        tide__memory_refuses = refuse; /* before there are threads */
        open_cluster(&c, false, NODES, 1);
        create_counters(&c, models[m], &job);
        atomic_store(&job.scarce, true);
        all_work(&c, &job);
        atomic_store(&job.scarce, false);
        run_alone(&c, 0, totals_run, NULL);
        close_cluster(&c);
        tide__memory_refuses = NULL;
    }
}

/* ---- a bound that is not told to all ---- */

static void change_run(struct fiber *f) {
    struct tide_table *table;
    struct tide_consistency c;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    tide_table_consistency(table, &c);
    c.staleness = 7;
    tide_sim_set_memory(f->cluster->sim, "n1", &(struct tide_sim_memory){.asked = 1});
    (void)tide_sleep(1000); /* it counts from the next turn on */
    int code = tide_table_set_consistency(table, &c);
    tide_sim_set_memory(f->cluster->sim, "n1", &(struct tide_sim_memory){0});
    (void)tide_sleep(1000);
    CHECK(f, code == TIDE_ENOMEM);
    CHECK(f, tide_table_set_consistency(table, &c) == 0);
}

static void who_changes_a_bound_hears_that_it_was_not_told(void **state) {
    (void)state;
    struct cluster c;
    struct job job = {.staleness = 0};
    open_cluster(&c, true, NODES, 1);
    create_counters(&c, "essp:2", &job);
    run_alone(&c, 0, change_run, NULL);
    pause_cluster(&c, 50000000);
    for (unsigned n = 0; n < NODES; n++) {
        struct tide_consistency now;
        tide_table_consistency(table_of(&c, n, "counters"), &now);
        assert_int_equal(now.staleness, 7);
    }
    close_cluster(&c);
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_that_get_no_memory_lose_nothing),
        cmocka_unit_test(workers_that_get_no_memory_lose_nothing_real),
        cmocka_unit_test(who_changes_a_bound_hears_that_it_was_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
