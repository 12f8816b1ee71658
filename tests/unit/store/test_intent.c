/* Intents: the window in which they are acted on; rows come to who alone intends to use them,
 * several have copies; sums stay right while that continues, slots move and nodes die. */
#include "store_world.h"

#include "store/adaptive/intent.h"
#include "tide/clock.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { KEYS = 64, WIDTH = 2, CLOCKS = 60, FEW = 8, AHEAD = 12 };

/* The quantile by its definition. */
static uint32_t exact(double mean) {
    double term = exp(-mean), sum = term;
    uint32_t k = 0;
    for (; sum < 0.9999; sum += term) {
        term *= mean / ++k;
    }
    return k;
}

static void the_window_is_a_quantile_of_the_clocks_of_two_rounds(void **state) {
    (void)state;
    const double rates[] = {1, 10, 25, 100, 300};
    const uint32_t windows[] = {9, 39, 78, 255, 693};
    for (size_t i = 0; i < TIDE_COUNT(rates); i++) {
        assert_int_equal(tide__action_timer_clocks(rates[i]), windows[i]);
    }
    for (double m = 1; m < 300; m *= 1.01) {
        assert_true(abs((int)tide__action_timer_clocks(m) - (int)exact(2 * m)) <= 1);
    }
}

static void the_window_follows_the_workers_pace(void **state) {
    (void)state;
    struct tide__action_timer w;
    tide__action_timer_init(&w, 5);
    assert_int_equal(tide__action_timer_round(&w, 5),
                     39); /* 10 clocks a round, until it is known better */
    assert_int_equal(tide__action_timer_round(&w, 5), 39);    /* no progress, no news */
    assert_int_equal(tide__action_timer_round(&w, 105), 255); /* at once up to what was seen */
    for (uint32_t clock = 106; clock < 306; clock++) {
        (void)tide__action_timer_round(&w, clock);
    }
    assert_int_equal(tide__action_timer_round(&w, 306), 9); /* and slowly down */
}

/* ---- sums ---- */

struct work {
    bool shared; /* all intend to use the same keys */
    uint64_t seed;
    atomic_int pushed[KEYS];
    atomic_uint local, all; /* accesses in the second half */
};

static void choose(const struct work *w, unsigned index, uint32_t clock, uint64_t keys[FEW]) {
    for (uint32_t i = 0; i < FEW; i++) {
        const uint64_t mixed = tide_mix64(clock * 100u + i + 1);
        keys[i] = w->shared ? (mixed + clock % 3 * index) % KEYS
                            : (mixed % (KEYS / 4) + KEYS / 4 * ((index + clock / 30) % 4)) % KEYS;
    }
}

static void worker_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    float ones[FEW * WIDTH], rows[FEW * WIDTH];
    int own[KEYS] = {0};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    for (int i = 0; i < FEW * WIDTH; i++) {
        ones[i] = 1;
    }
    for (uint32_t clock = 0; clock < CLOCKS && !f->failure[0]; clock++) {
        uint64_t keys[FEW], hit;
        for (uint32_t c = clock ? clock + AHEAD : 0; c <= clock + AHEAD; c++) {
            choose(w, f->index, c, keys);
            CHECK(f, tide_table_intent(table, keys, FEW, c, c + 2) == 0);
        }
        (void)tide_sleep(2000000);
        choose(w, f->index, clock, keys);
        if (clock >= CLOCKS / 2) {
            hit = 0;
            const size_t here = tide_table_pull_local(table, keys, FEW, rows, &hit);
            atomic_fetch_add(&w->local, (unsigned)here);
            atomic_fetch_add(&w->all, FEW);
        }
        CHECK(f, tide_table_push(table, keys, FEW, ones, NULL) == 0);
        for (int i = 0; i < FEW; i++) {
            own[keys[i]]++;
            atomic_fetch_add(&w->pushed[keys[i]], 1);
        }
        CHECK(f, tide_table_pull(table, keys, FEW, rows, NULL) == 0);
        for (int i = 0; i < FEW; i++) {
            CHECK(f,
                  rows[i * WIDTH] == rows[i * WIDTH + 1] && rows[i * WIDTH] >= (float)own[keys[i]]);
        }
        CHECK(f, tide_clock() == (int)clock + 1);
    }
    tide_worker_end();
}

static void sums_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_flush(table) == 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {-1, -1};
        for (int look = 0; look < 2000 && row[0] != (float)w->pushed[key]; look++) {
            CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
            CHECK(f, row[0] <= (float)w->pushed[key]);
            (void)tide_sleep(1000000);
        }
        if (row[0] != (float)w->pushed[key]) {
            snprintf(f->failure, sizeof f->failure, "key %llu has %g of %d",
                     (unsigned long long)key, (double)row[0], w->pushed[key]);
            return;
        }
    }
}

/* Workers have ended: nobody is interested, no copies are left, and nothing is sent. */
static void nothing_is_left(struct cluster *c) {
    for (unsigned n = 0; n < c->count; n++) {
        if (!c->nodes[n]) {
            continue;
        }
        struct tide_table *table = table_of(c, n, "w");
        struct tide_share_stats s = {.copies = 1};
        for (int i = 0; i < 20000 && (s.copies || s.keys); i++) {
            tide_table_share_stats(table, &s);
            pause_cluster(c, 1000000);
        }
        assert_int_equal(s.copies, 0);
        assert_int_equal(s.keys, 0);
        assert_int_equal(s.updates_failed, 0);
    }
    uint64_t before[NODES_MAX] = {0};
    for (int turn = 0; turn < 2; turn++) {
        for (unsigned n = 0; n < c->count; n++) {
            struct tide_table_stats t;
            if (c->nodes[n]) {
                tide_table_stats(table_of(c, n, "w"), &t);
                assert_int_equal(t.surprises, 0);
                assert_true(!turn || before[n] == t.messages_out);
                before[n] = t.messages_out;
            }
        }
        pause_cluster(c, TIDE_SECOND / 5);
    }
}

static void workers_intend(bool simulated, struct work *w, uint8_t technique, bool leaving) {
    struct cluster c;
    open_cluster(&c, simulated, leaving ? 4 : 3, w->seed);
    create(&c, (struct tide_table_options){.name = "w",
                                           .keys = w->seed % 2 ? TIDE_KEYS_DENSE : TIDE_KEYS_HASHED,
                                           .key_count = KEYS,
                                           .width = WIDTH,
                                           .technique = technique});
    struct fiber fibers[3];
    for (unsigned i = 0; i < 3; i++) {
        start(&c, &fibers[i], i, i, worker_run, w);
    }
    if (leaving) {
        pause_cluster(&c, 40000000);
        tide_net_leave(tide_net_of(c.nodes[3]));
    }
    if (simulated) {
        tide_sim_reset(c.sim, "n1", "n2");
        pause_cluster(&c, 30000000);
        tide_sim_reset(c.sim, "n3", "n1");
    }
    finish(&c, fibers, 3);
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, sums_run, w);
    }
    nothing_is_left(&c);
    close_cluster(&c);
}

static void what_workers_intend_to_use_is_at_hand_and_sums_stay_right(void **state) {
    (void)state;
    workers_intend(false, &(struct work){.seed = 1}, TIDE_INTENT, false);
    workers_intend(false, &(struct work){.seed = 2, .shared = true}, TIDE_INTENT, false);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct work alone = {.seed = seed}, shared = {.seed = seed, .shared = true};
        workers_intend(true, &alone, TIDE_INTENT, false);
        workers_intend(true, &shared, TIDE_INTENT, false);
        workers_intend(true, &(struct work){.seed = seed, .shared = true}, TIDE_RELOCATE, false);
        /* broken connections take their part */
        assert_true(atomic_load(&alone.local) * 100 >= atomic_load(&alone.all) * 85);
        assert_true(atomic_load(&shared.local) * 100 >= atomic_load(&shared.all) * 85);
    }
}

static void homes_may_move_meanwhile(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        workers_intend(true, &(struct work){.seed = seed, .shared = seed % 2}, TIDE_INTENT, true);
    }
}

/* ---- the rule ---- */

static void intend_run(struct fiber *f) {
    const uint64_t key = 7;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_intent(table, &key, 1, 0, 2) == TIDE_EINVAL);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    CHECK(f,
          tide_table_intent(table, &key, 1, 1000000, 1000001) == 0); /* far off: nothing happens */
    CHECK(f, tide_table_intent(table, (uint64_t[]){KEYS}, 1, 0, 1) == TIDE_ERANGE);
    CHECK(f, tide_table_intent(table, &key, 1, 0, 1 + f->index) == 0);
    (void)tide_sleep(300000000);
    float row[WIDTH];
    uint64_t hit = 0;
    CHECK(f, tide_table_pull_local(table, &key, 1, row, &hit) == 1); /* own or copy */
    (void)tide_sleep(300000000);
    CHECK(f, tide_clock() == 1); /* the intent of fiber 0 ends */
    (void)tide_sleep(500000000);
    uint16_t owner;
    bool copy;
    CHECK(f, tide_table_where(table, key, &owner) == 0);
    CHECK(f, tide_table_technique(table, key, &copy) == TIDE_INTENT && !copy);
    CHECK(f, (owner == tide_node_id(f->node)) == (f->index == 1)); /* the last one owns it */
}

static void one_owns_two_share_and_the_last_owns(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_INTENT});
        struct fiber fibers[2];
        start(&c, &fibers[0], (unsigned)(seed % 3), 0, intend_run, NULL);
        start(&c, &fibers[1], (unsigned)((seed + 1) % 3), 1, intend_run, NULL);
        finish(&c, fibers, 2);
        close_cluster(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_is_a_quantile_of_the_clocks_of_two_rounds),
        cmocka_unit_test(the_window_follows_the_workers_pace),
        cmocka_unit_test(what_workers_intend_to_use_is_at_hand_and_sums_stay_right),
        cmocka_unit_test(homes_may_move_meanwhile),
        cmocka_unit_test(one_owns_two_share_and_the_last_owns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
