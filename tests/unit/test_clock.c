/* Clocks of workers and of their node. */
#include "store/core/clock.h"
#include "store_world.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_clock_is_the_slowest_workers_real),
        cmocka_unit_test(node_clock_is_the_slowest_workers_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
