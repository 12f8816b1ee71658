/*
 * Managed communication: rates and token buckets (pacer.h) by themselves, and on simulated nodes
 * what readers see of a writer's rows between its clocks when bytes are scarce. That all bounds
 * hold with it is test_clocked.c's.
 */
#include "store/core/options.h"
#include "store/clocked/pacer.h"
#include "store_world.h"
#include "tide/clock.h"
#include "tide/stats.h"

/* ---- buckets ---- */

enum { MS = 1000000 };

/* Bytes beyond rate x time, at most: what an idle link saved up. */
static uint64_t burst_of(uint64_t rate) {
    uint64_t burst = rate / (TIDE_SECOND / TIDE__PACER_BURST_NS);
    return burst > TIDE__PACER_QUANTUM_MIN ? burst : TIDE__PACER_QUANTUM_MIN;
}

static void early_bytes_stay_within_rate_and_burst(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tide_random random;
        struct tide__pacer pace = {.at = 0};
        const uint64_t rate = 100000 * seed, start = 77 * MS;
        uint64_t now = start, sent = 0, early = 0, forced = 0;
        tide_random_seed(&random, seed);
        for (int i = 0; i < 5000; i++) {
            if (i && tide_random_below(&random, 50) == 0) { /* what a clock has to send */
                uint64_t bytes = tide_random_below(&random, rate / 8);
                sent += bytes;
                forced += bytes;
            }
            uint64_t room = tide__pacer_allows(&pace, now, sent, sent, 0, rate);
            const uint64_t most = (uint64_t)((double)rate * (double)(now - start) / 1e9);
            assert_true(room == 0 || sent + room <= most + burst_of(rate) + 1);
            sent += room;
            early += room;
            now += 1 + tide_random_below(&random, 8 * MS);
        }
        const double seconds = (double)(now - start) / 1e9;
        assert_true(forced > 0 && early > 0);
        assert_true((double)sent > 0.9 * (double)rate * seconds); /* what is spare is used */
    }
}

static void nothing_is_sent_early_onto_a_backlog(void **state) {
    (void)state;
    struct tide__pacer pace = {.at = 0};
    assert_int_equal(tide__pacer_allows(&pace, MS, 0, 0, 0, 1000000), 0); /* saves up first */
    assert_true(tide__pacer_allows(&pace, 100 * MS, 0, 0, 0, 1000000) > 0);
    assert_int_equal(tide__pacer_allows(&pace, 200 * MS, 0, 0, 50000, 1000000), 0);
    assert_true(tide__pacer_allows(&pace, 300 * MS, 0, 50000, 0, 1000000) > 0);
}

/* A link of 2 MB/s that has always something to do acknowledges every 20 ms. */
static void the_rate_is_measured_from_acknowledgements(void **state) {
    (void)state;
    const uint64_t rate = 2000000;
    struct tide__pacer pace = {.at = 0};
    uint64_t now = MS, consumed = 0;
    assert_int_equal(tide__pacer_rate(&pace, 0), TIDE__PACER_RATE_FIRST);
    for (; now < 2 * TIDE_SECOND; now += 5 * MS) {
        consumed = now / (20 * MS) * (20 * MS) / 1000 * rate / 1000000;
        (void)tide__pacer_allows(&pace, now, consumed + 100000, consumed, 100000, 0);
    }
    uint64_t measured = tide__pacer_rate(&pace, 0);
    assert_true(measured >= rate / 10 * 8 && measured <= rate);
    for (uint64_t i = 0; i < 1000; i++, now += 5 * MS) { /* an idle link carries little */
        consumed += 10;
        (void)tide__pacer_allows(&pace, now, consumed, consumed, 0, 0);
    }
    assert_int_equal(tide__pacer_rate(&pace, 0), measured);
    assert_int_equal(tide__pacer_rate(&pace, 123456), 123456); /* the user's word counts */
}

/* ---- readers between clocks ---- */

enum { ROWS = 300, WIDTH = 32, CLOCKS = 6, STEPS = 80, ROW_BYTES = WIDTH * 4 + 8, RATE = 150000 };

/*
 * n1 is the home of all rows, a worker of n2 changes them, one of n3 reads. A clock takes STEPS
 * steps of 5 ms; in each the writer changes 40 rows, few of them much. The reader's error is the
 * distance of what it reads from what the writer has, summed over rows and steps.
 */
struct scene {
    float truth[ROWS][WIDTH];
    double error;
    uint64_t reads;
    atomic_uint begun;
    unsigned steps;
    uint64_t bytes, early_bytes, ns; /* of the writer's node */
};

static void meet(struct scene *scene) {
    atomic_fetch_add(&scene->begun, 1);
    while (atomic_load(&scene->begun) < 2) {
        (void)tide_sleep(100000);
    }
}

static void write_run(struct fiber *f) {
    struct scene *scene = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "rows", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, 0, 0) == 0);
    for (uint64_t key = 0; key < ROWS; key++) {
        CHECK(f, tide_table_pull(table, &key, 1, scene->truth[key], NULL) == 0);
    }
    meet(scene);
    for (unsigned step = 0; step < STEPS * CLOCKS; step++) {
        for (int i = 0; i < 40; i++) {
            uint64_t key = tide_random_below(&f->random, ROWS);
            const float size = 2.0f / (1 + (float)(key * 7 % ROWS));
            float delta[WIDTH];
            for (size_t w = 0; w < WIDTH; w++) {
                delta[w] = size * (float)(tide_random_uniform(&f->random) - 0.5);
                scene->truth[key][w] += delta[w];
            }
            CHECK(f, tide_table_push(table, &key, 1, delta, NULL) == 0);
        }
        (void)tide_sleep(5 * MS);
        if (step % STEPS == STEPS - 1) {
            CHECK(f, tide_clock() > 0);
        }
    }
    struct tide_staleness s;
    tide_table_staleness(table, &s);
    scene->bytes = s.delta_bytes;
    scene->early_bytes = s.early_bytes;
    tide_worker_end();
}

static void read_run(struct fiber *f) {
    struct scene *scene = f->arg;
    struct tide_table *table;
    float rows[ROWS][WIDTH];
    uint64_t keys[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_find(f->node, "rows", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, 1, 0) == 0);
    CHECK(f, tide_table_pull(table, keys, ROWS, rows[0], NULL) == 0);
    meet(scene);
    for (unsigned step = 0; step < STEPS * CLOCKS; step++) {
        CHECK(f, tide_table_pull(table, keys, ROWS, rows[0], NULL) == 0);
        for (size_t i = 0; i < ROWS && step >= STEPS; i++) {
            double squares = 0;
            for (size_t w = 0; w < WIDTH; w++) {
                const double d = (double)rows[i][w] - (double)scene->truth[i][w];
                squares += d * d;
            }
            scene->error += sqrt(squares);
            scene->reads++;
        }
        (void)tide_sleep(5 * MS);
        if (step % STEPS == STEPS - 1) {
            CHECK(f, tide_clock() > 0);
        }
    }
    tide_worker_end();
}

static struct scene *play(uint8_t order, uint64_t seed) {
    struct cluster c;
    struct fiber fibers[2];
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    open_cluster(&c, true, 1, seed);
    for (int i = 0; i < 2; i++) {
        add_node_with(&c, (struct tide_node_options){.no_store = true});
    }
    wait_members(&c, 3);
    struct tide_table_options o = {
        .name = "rows", .key_count = ROWS, .width = WIDTH, .init = TIDE_INIT_NORMAL, .init_a = 1};
    assert_int_equal(tide_consistency_parse("essp:1", &o.consistency), 0);
    o.send_order = order;
    o.bandwidth = order ? RATE : 0;
    create(&c, o);
    start(&c, &fibers[0], 1, 0, write_run, scene);
    start(&c, &fibers[1], 2, 0, read_run, scene);
    const uint64_t since = tide_port_now(c.ports[0]);
    finish(&c, fibers, 2);
    scene->ns = tide_port_now(c.ports[0]) - since;
    close_cluster(&c);
    return scene;
}

static void what_changed_most_is_seen_first(void **state) {
    (void)state;
    double error[4] = {0};
    for (uint64_t seed = 5; seed < 8; seed++) {
        for (uint8_t order = 0; order < 4; order++) {
            struct scene *scene = play(order, seed);
            assert_int_equal(scene->reads, ROWS * STEPS * (CLOCKS - 1));
            error[order] += scene->error / (double)scene->reads;
            free(scene);
        }
    }
    print_message("error of a row: sent at clocks %.3f, random %.3f, age %.3f, magnitude %.3f\n",
                  error[TIDE_SEND_AT_CLOCK], error[TIDE_SEND_RANDOM], error[TIDE_SEND_AGE],
                  error[TIDE_SEND_MAGNITUDE]);
    assert_true(error[TIDE_SEND_RANDOM] < 0.95 * error[TIDE_SEND_AT_CLOCK]);
    assert_true(error[TIDE_SEND_AGE] < 0.95 * error[TIDE_SEND_AT_CLOCK]);
    assert_true(error[TIDE_SEND_MAGNITUDE] < 0.85 * error[TIDE_SEND_RANDOM]);
    assert_true(error[TIDE_SEND_MAGNITUDE] < 0.85 * error[TIDE_SEND_AGE]);
}

/* A clock may have to send each row once whatever the bucket says. */
static void all_bytes_stay_within_rate_burst_and_a_clock(void **state) {
    (void)state;
    for (uint8_t order = TIDE_SEND_MAGNITUDE; order <= TIDE_SEND_RANDOM; order++) {
        struct scene *scene = play(order, 7);
        const double most = RATE * ((double)scene->ns / 1e9) + (double)burst_of(RATE) +
                            ROWS * (double)ROW_BYTES;
        assert_true(scene->early_bytes > 50000);
        assert_true(scene->early_bytes < scene->bytes);
        assert_true((double)scene->bytes <= most);
        free(scene);
    }
}

static void the_same_seed_sends_the_same(void **state) {
    (void)state;
    for (uint8_t order = TIDE_SEND_MAGNITUDE; order <= TIDE_SEND_RANDOM; order++) {
        struct scene *first = play(order, 9), *second = play(order, 9);
        assert_true(first->error == second->error && first->bytes == second->bytes &&
                    first->early_bytes == second->early_bytes && first->ns == second->ns);
        assert_memory_equal(first->truth, second->truth, sizeof first->truth);
        free(first);
        free(second);
    }
}

static void options_are_checked(void **state) {
    (void)state;
    struct tide_table_options o = {.name = "t", .key_count = 1, .width = 1};
    o.send_order = TIDE_SEND_AGE;
    assert_int_equal(tide__options_check(&o), TIDE_EINVAL); /* sequential */
    assert_int_equal(tide_consistency_parse("bsp", &o.consistency), 0);
    assert_int_equal(tide__options_check(&o), TIDE_EINVAL);
    assert_int_equal(tide_consistency_parse("ssp:3", &o.consistency), 0);
    assert_int_equal(tide__options_check(&o), 0);
    o.send_order = TIDE_SEND_AT_CLOCK;
    o.bandwidth = 1000;
    assert_int_equal(tide__options_check(&o), TIDE_EINVAL); /* for nothing */
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_bytes_stay_within_rate_and_burst),
        cmocka_unit_test(nothing_is_sent_early_onto_a_backlog),
        cmocka_unit_test(the_rate_is_measured_from_acknowledgements),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(what_changed_most_is_seen_first),
        cmocka_unit_test(all_bytes_stay_within_rate_burst_and_a_clock),
        cmocka_unit_test(the_same_seed_sends_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
