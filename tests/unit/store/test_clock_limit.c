/*
 * How far a worker that only pushes gets ahead of the slowest one: as far as the least bound of the
 * tables says that it used since it began; also when another table comes as the workers begin. Both
 * ports.
 */
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"

enum { LOOSE_S = 3, PATIENCE = 2000, TICK_NS = 1000000 };

struct limit {
    atomic_uint begun, clock; /* of the fast worker */
    uint64_t begin_ns;        /* after another table is made; 0: none is */
};

static struct tide_table *used(struct fiber *f, const char *name) {
    struct tide_table *table = NULL;
    if (tide_table_find(f->node, name, &table) && !f->failure[0]) {
        snprintf(f->failure, sizeof f->failure, "no table '%s'", name);
    }
    return table;
}

static void begin(struct fiber *f, struct limit *limit) {
    (void)tide_sleep(limit->begin_ns);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    atomic_fetch_add(&limit->begun, 1);
    while (atomic_load(&limit->begun) < 2) {
        (void)tide_sleep(TICK_NS / 500); /* it continues at once */
    }
}

static void push_and_clock(struct fiber *f, struct limit *limit, struct tide_table *table) {
    const uint64_t key = 1;
    const float one = 1;
    CHECK(f, tide_table_push(table, &key, 1, &one, NULL) == 0);
    const int clock = tide_clock();
    CHECK(f, clock > 0);
    atomic_store(&limit->clock, (unsigned)clock);
}

static void fast_run(struct fiber *f) {
    struct limit *limit = f->arg;
    begin(f, limit);
    for (int i = 0; i <= LOOSE_S && !f->failure[0]; i++) {
        push_and_clock(f, limit, used(f, "loose"));
    }
    for (int i = 0; i < 2 && !f->failure[0]; i++) {
        push_and_clock(f, limit, used(f, "exact"));
    }
    tide_worker_end();
}

static bool reaches(struct limit *limit, unsigned clock) {
    for (int i = 0; i < PATIENCE && atomic_load(&limit->clock) < clock; i++) {
        (void)tide_sleep(10 * TICK_NS);
    }
    return atomic_load(&limit->clock) == clock;
}

/* It stays at clock 0 until the other one is as far ahead as it may be, then ends one clock after
 * the other. */
static void slow_run(struct fiber *f) {
    struct limit *limit = f->arg;
    begin(f, limit);
    CHECK(f, reaches(limit, LOOSE_S + 1)); /* 'exact' is none of its business so far */
    (void)tide_sleep(20 * TICK_NS);
    CHECK(f, atomic_load(&limit->clock) == LOOSE_S + 1); /* it is now */
    for (int clock = 1; clock <= LOOSE_S; clock++) {
        CHECK(f, tide_clock() == clock);
    }
    (void)tide_sleep(20 * TICK_NS);
    CHECK(f, atomic_load(&limit->clock) == LOOSE_S + 1);
    CHECK(f, tide_clock() == LOOSE_S + 1);
    CHECK(f, reaches(limit, LOOSE_S + 2));
    tide_worker_end();
}

/* Each node that hears of it tells the others what it knows of its own workers. */
static void make_another_run(struct fiber *f) {
    struct tide_table_options o = {.name = "later", .width = 1, .key_count = 8};
    CHECK(f, tide_consistency_parse("ssp:3", &o.consistency) == 0);
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &o, &table) == 0);
}

static void limit_holds(bool simulated, uint64_t seed, uint64_t begin_ns) {
    struct cluster c;
    open_cluster(&c, simulated, 2, seed);
    static const char *const tables[][2] = {{"exact", "bsp"}, {"loose", "ssp:3"}};
    for (size_t i = 0; i < TIDE_COUNT(tables); i++) {
        struct tide_table_options o = {.name = tables[i][0], .width = 1, .key_count = 8};
        assert_int_equal(tide_consistency_parse(tables[i][1], &o.consistency), 0);
        create(&c, o);
    }
    struct limit limit = {.begin_ns = begin_ns};
    struct fiber fibers[3];
    if (begin_ns != 0) {
        start(&c, &fibers[2], 0, 2, make_another_run, NULL);
    }
    start(&c, &fibers[0], 0, 0, fast_run, &limit);
    start(&c, &fibers[1], 1, 1, slow_run, &limit);
    finish(&c, fibers, begin_ns != 0 ? 3 : 2);
    close_cluster(&c);
}

static void only_tables_that_a_worker_uses_hold_it_up_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        limit_holds(true, seed, 0);
    }
}

static void a_table_that_comes_as_workers_begin_frees_nobody(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        limit_holds(true, seed, seed * 10000);
    }
}

static void only_tables_that_a_worker_uses_hold_it_up_real(void **state) {
    (void)state;
    limit_holds(false, 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_tables_that_a_worker_uses_hold_it_up_simulated),
        cmocka_unit_test(a_table_that_comes_as_workers_begin_frees_nobody),
        cmocka_unit_test(only_tables_that_a_worker_uses_hold_it_up_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
