/*
 * A clock with many rows: the worker continues while they leave part by part, and what clocks promise
 * stays. Both ports. Worker w adds 1 to column w of every row once a clock.
 */
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"
#include "tide/stats.h"

enum { NODES = 2, ROWS = 3000, WIDTH = 32, CLOCKS = 8, S = 2 };

struct parts {
    atomic_uint begun;
    unsigned behind; /* clocks that had not left whole when the worker continued; worker 0's */
};

static uint64_t sent(struct tide_table *table) {
    struct tide_staleness s;
    tide_table_staleness(table, &s);
    return s.deltas_out;
}

static void check_rows(struct fiber *f, const float *rows, int clock) {
    for (size_t i = 0; i < ROWS; i++) {
        const float own = rows[i * WIDTH + f->index], other = rows[i * WIDTH + 1 - f->index];
        CHECK(f, own == (float)clock);
        CHECK(f, other >= (float)(clock - S) && other <= CLOCKS);
    }
}

static void worker_run(struct fiber *f) {
    struct parts *parts = f->arg;
    struct tide_table *table;
    uint64_t *keys = malloc(ROWS * sizeof *keys), copies = 0;
    float *ones = calloc(ROWS * WIDTH, sizeof *ones), *rows = malloc(ROWS * WIDTH * sizeof *rows);
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
        ones[i * WIDTH + f->index] = 1;
        copies +=
            tide__via(tide__clocked_part(table), tide__slot_of(table, i)) != tide__store_self(table->store);
    }
    CHECK(f, copies * WIDTH * sizeof(float) > tide_limit(store_clock_chunk_bytes)); /* more than one part */
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    atomic_fetch_add(&parts->begun, 1);
    while (atomic_load(&parts->begun) < NODES) {
        (void)tide_sleep(100000);
    }
    for (int clock = 0; clock < CLOCKS && !f->failure[0]; clock++) {
        CHECK(f, tide_table_pull(table, keys, ROWS, rows, NULL) == 0);
        check_rows(f, rows, clock);
        CHECK(f, tide_table_push(table, keys, ROWS, ones, NULL) == 0);
        CHECK(f, tide_clock() == clock + 1);
        if (f->index == 0 && sent(table) < copies * (uint64_t)(clock + 1)) {
            parts->behind++;
        }
    }
    tide_worker_end();
    free(keys);
    free(ones);
    free(rows);
}

static void sums_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        CHECK(f, row[0] == CLOCKS && row[1] == CLOCKS);
    }
}

static void promises_hold(bool simulated, const char *consistency, uint64_t seed) {
    struct cluster c;
    struct parts parts = {.behind = 0};
    open_cluster(&c, simulated, NODES, seed);
    struct tide_table_options o = {.name = "wide", .width = WIDTH, .key_count = ROWS};
    assert_int_equal(tide_consistency_parse(consistency, &o.consistency), 0);
    create(&c, o);
    struct fiber fibers[NODES];
    for (unsigned i = 0; i < NODES; i++) {
        start(&c, &fibers[i], i, i, worker_run, &parts);
    }
    finish(&c, fibers, NODES);
    if (simulated) { /* elsewhere the other thread may have been faster */
        assert_int_equal(parts.behind, CLOCKS);
    }
    run_alone(&c, 0, sums_run, NULL);
    close_cluster(&c);
}

static void a_worker_goes_on_while_its_clock_leaves_simulated(void **state) {
    (void)state;
    promises_hold(true, "essp:2", 1);
    promises_hold(true, "ssp:2", 2);
}

static void a_worker_goes_on_while_its_clock_leaves_real(void **state) {
    (void)state;
    promises_hold(false, "essp:2", 1);
    promises_hold(false, "ssp:2", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_goes_on_while_its_clock_leaves_simulated),
        cmocka_unit_test(a_worker_goes_on_while_its_clock_leaves_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
