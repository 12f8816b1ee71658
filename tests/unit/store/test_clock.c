/* Clocks of workers and of their node. */
#include "store/core/clock.h"
#include "store_world.h"
#include "tide/clock.h"

struct seen {
    struct tide__clock_watch watch;
    struct tide_lock lock;
    uint32_t changes[400];
    unsigned count, ended;
    bool overlapped;
    atomic_bool inside;
};

static void ended(void *arg, struct tide__worker *worker) {
    struct seen *seen = arg;
    tide_lock(&seen->lock);
    seen->ended += worker->clock == tide__worker_stamp();
    tide_unlock(&seen->lock);
}

static void changed(void *arg, uint32_t clock) {
    struct seen *seen = arg;
    bool inside = atomic_exchange(&seen->inside, true);
    tide_lock(&seen->lock);
    seen->overlapped |= inside;
    seen->changes[seen->count++] = clock;
    tide_unlock(&seen->lock);
    atomic_store(&seen->inside, false);
}

struct gate {
    atomic_uint begun;
    unsigned workers;
};

enum { CLOCKS = 50 };

static void clock_run(struct fiber *f) {
    struct gate *gate = f->arg;
    CHECK(f, tide__worker_stamp() == TIDE_NO_CLOCK);
    CHECK(f, tide_clock() == TIDE_EINVAL);
    CHECK(f, tide_worker_begin(f->node, f->index, 3) == 0);
    CHECK(f, tide_worker_begin(f->node, f->index, 3) == TIDE_EINVAL);
    atomic_fetch_add(&gate->begun, 1);
    while (atomic_load(&gate->begun) < gate->workers) {
        CHECK(f, tide_yield() == 0);
    }
    for (int i = 0; i < CLOCKS; i++) {
        CHECK(f, tide__worker_stamp() == 3u + (unsigned)i);
        CHECK(f, tide_clock() == 4 + i);
        if (tide_random_below(&f->random, 3) == 0) {
            CHECK(f, tide_yield() == 0);
        }
    }
    if (f->index % 2) {
        tide_worker_end();
        CHECK(f, tide__worker_stamp() == TIDE_NO_CLOCK);
    } /* else the fiber's end does it */
}

static void node_clock_is_the_slowest_workers(bool simulated) {
    struct cluster c;
    open_cluster(&c, simulated, 1, 1);
    struct tide_store *store = tide_store_of(c.nodes[0]);
    struct seen seen = {.watch = {.interval_ended = ended, .changed = changed, .arg = &seen}};
    struct tide__run *domain = tide__run_find(store, 0);
    tide__clock_watch(domain, &seen.watch);
    assert_int_equal(tide__node_clock(domain), TIDE_NO_CLOCK);
    struct fiber fibers[4];
    struct gate gate = {.workers = 4};
    for (unsigned i = 0; i < 4; i++) {
        start(&c, &fibers[i], 0, i, clock_run, &gate);
    }
    finish(&c, fibers, 4);
    for (int i = 0; i < 1000; i++) { /* fibers that end say so after their last word */
        tide_lock(&seen.lock);
        bool over = seen.count && seen.changes[seen.count - 1] == TIDE_NO_CLOCK;
        tide_unlock(&seen.lock);
        if (over) {
            break;
        }
        pause_cluster(&c, 1000000);
    }
    assert_int_equal(seen.ended, 4 * CLOCKS);
    assert_false(seen.overlapped);
    assert_int_equal(seen.changes[0], 3);
    for (unsigned i = 1; i < seen.count; i++) {
        assert_true(seen.changes[i] > seen.changes[i - 1]);
    }
    assert_int_equal(seen.changes[seen.count - 1], TIDE_NO_CLOCK);
    assert_true(seen.changes[seen.count - 2] <= 3 + CLOCKS);
    struct tide__worker_clock clocks[1];
    assert_int_equal(tide__worker_clocks(store, domain, clocks, 1), 0);
    close_cluster(&c);
}

static void node_clock_is_the_slowest_workers_real(void **state) {
    (void)state;
    node_clock_is_the_slowest_workers(false);
}

static void node_clock_is_the_slowest_workers_simulated(void **state) {
    (void)state;
    node_clock_is_the_slowest_workers(true);
}

/* ---- domains ---- */

enum { SLOW = 5, FAST = 6 };
struct two {
    atomic_bool done;
    atomic_uint begun;
};

/* A worker of the slow domain, and two of the fast one, which read what both have pushed. */
static void domain_run(struct fiber *f) {
    struct two *two = f->arg;
    const uint32_t domain = f->index == 0 ? SLOW : FAST;
    struct tide_table *table;
    float one = 1, row;
    CHECK(f, tide_table_find(f->node, domain == SLOW ? "slow" : "fast", &table) == 0);
    CHECK(f, tide_worker_begin_in(f->node, domain, f->index, 0) == 0);
    atomic_fetch_add(&two->begun, 1);
    while (atomic_load(&two->begun) < 3) {
        (void)tide_sleep(100000);
    }
    const uint32_t first = tide__worker_stamp();
    for (int i = 0; i < CLOCKS && domain == FAST; i++) {
        const uint64_t key = f->index, others = 3 - f->index;
        CHECK(f, tide_table_push(table, &key, 1, &one, NULL) == 0);
        CHECK(f, tide_clock() == (int)first + i + 1);
        CHECK(f, tide_table_pull(table, &others, 1, &row, NULL) == 0);
        CHECK(f, (int)row == i + 1);
    }
    const uint64_t key = 0;
    CHECK(f, tide_table_push(table, &key, 1, &one, NULL) == 0);
    if (domain == SLOW) { /* in its first interval until the others are done */
        struct tide_table *other;
        CHECK(f, tide_table_find(f->node, "fast", &other) == 0);
        while (atomic_load(&two->begun) < 5) {
            CHECK(f, tide_yield() == 0);
            (void)tide_sleep(100000);
        }
        CHECK(f, tide__worker_stamp() == first);
        /* to it the table is sequential */
        CHECK(f, tide_table_push(other, &(uint64_t){9}, 1, &one, NULL) == 0);
        CHECK(f, tide_table_pull(other, &(uint64_t){9}, 1, &row, NULL) == 0 && (int)row == 1);
        CHECK(f, tide__push_stamp(other) == TIDE_NO_CLOCK && tide__push_stamp(table) == first);
        tide_table_release(other);
    }
    CHECK(f, tide_clock() == (int)tide__worker_stamp());
    tide_worker_end();
    atomic_fetch_add(&two->begun, 1);
    tide_table_release(table);
}

static void drop_run(struct fiber *f) {
    CHECK(f, tide_table_drop(f->node, "slow") == 0);
    CHECK(f, tide_table_drop(f->node, "fast") == 0);
}

static void domains_are_apart(bool simulated) {
    struct cluster c;
    open_cluster(&c, simulated, 2, 2);
    struct tide_table_options o = {.keys = TIDE_KEYS_DENSE, .key_count = 100, .width = 1};
    assert_int_equal(tide_consistency_parse("bsp", &o.consistency), 0);
    for (uint32_t run = SLOW; run <= FAST; run++) {
        o.name = run == SLOW ? "slow" : "fast";
        o.run = o.domain = run;
        struct creation creation = {.options = o};
        run_alone(&c, 0, create_run, &creation);
        tide_table_release(creation.table);
    }
    struct fiber fibers[3];
    struct two two = {.begun = 0};
    for (unsigned i = 0; i < 3; i++) {
        start(&c, &fibers[i], i == 2, i, domain_run, &two);
    }
    finish(&c, fibers, 3);
    start(&c, &fibers[0], 0, 0, drop_run, NULL);
    finish(&c, fibers, 1);
    for (unsigned node = 0; node < 2; node++) { /* nothing of a run stays */
        struct tide_store *store = tide_store_of(c.nodes[node]);
        unsigned tries = 0;
        while ((tide__run_find(store, SLOW) || tide__run_find(store, FAST)) && tries++ < 3000) {
            pause_cluster(&c, 1000000);
        }
        assert_null(tide__run_find(store, SLOW));
        assert_null(tide__run_find(store, FAST));
    }
    close_cluster(&c);
}

static void domains_are_apart_real(void **state) {
    (void)state;
    domains_are_apart(false);
}

static void domains_are_apart_simulated(void **state) {
    (void)state;
    domains_are_apart(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_clock_is_the_slowest_workers_real),
        cmocka_unit_test(node_clock_is_the_slowest_workers_simulated),
        cmocka_unit_test(domains_are_apart_real),
        cmocka_unit_test(domains_are_apart_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
