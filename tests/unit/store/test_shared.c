/* Keys with copies on several nodes: every push once, one's own at once, equal in the end, silent
 * then; on real sockets and in the simulator, with connections that break, nodes that leave and
 * die. */
#include "store/rows/rules.h"
#include "store_world.h"

#include "store/adaptive/hot_keys.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { KEYS = 48, WIDTH = 4, EACH = 2, ROUNDS = 30, FEW = 6 };

struct work {
    uint8_t technique; /* of the table */
    bool manages;      /* techniques change meanwhile */
    bool moves;        /* and rows, where they may */
    atomic_int pushed[KEYS];
    atomic_bool stop;
    atomic_int done;
    uint64_t seed;
    const char *path;
};

static const uint64_t all_keys[KEYS] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
    24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47};

static void share_run(struct fiber *f) {
    struct tide_table *table;
    struct work *w = f->arg;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_manage(table, all_keys, KEYS / 2, TIDE_REPLICATE, NULL) == 0);
    (void)w;
}

/* Pushes ones, and reads what it pushed itself. Keys of index modulo the number of fibers are
 * nobody else's. */
static void push_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    int own[KEYS] = {0};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int round = 0; round < ROUNDS && !f->failure[0]; round++) {
        uint64_t keys[FEW];
        float ones[FEW * WIDTH], rows[FEW * WIDTH];
        struct tide_ticket push, pull;
        for (int i = 0; i < FEW * WIDTH; i++) {
            ones[i] = 1;
        }
        for (int i = 0; i < FEW; i++) {
            keys[i] = tide_random_below(&f->random, KEYS);
            own[keys[i]]++;
            atomic_fetch_add(&w->pushed[keys[i]], 1);
        }
        CHECK(f, tide_table_push(table, keys, FEW, ones, &push) == 0);
        CHECK(f, tide_table_pull(table, keys, FEW, rows, &pull) == 0);
        CHECK(f, tide_ticket_wait(&pull) == 0);
        CHECK(f, tide_ticket_wait(&push) == 0);
        for (int i = 0; i < FEW; i++) {
            CHECK(f, rows[i * WIDTH] == rows[i * WIDTH + WIDTH - 1]);
            CHECK(f, rows[i * WIDTH] >= (float)own[keys[i]]);
        }
        if (w->moves && tide_random_below(&f->random, 3) == 0) {
            CHECK(f, tide_table_localize(table, keys, FEW, NULL) == 0);
        }
        if (w->manages && tide_random_below(&f->random, 6) == 0) {
            const uint8_t technique =
                tide_random_below(&f->random, 2) ? TIDE_REPLICATE : w->technique;
            CHECK(f, tide_table_manage(table, keys, FEW, technique, NULL) == 0);
        }
        if (tide_random_below(&f->random, 3)) {
            (void)tide_sleep(tide_random_below(&f->random, 4000000));
        }
    }
}

/* Every node reads all that was pushed, once the rounds have come by. */
static void sums_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    float rows[KEYS * WIDTH];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_flush(table) == 0);
    for (int look = 0; look < 2000; look++) {
        bool same = true;
        CHECK(f, tide_table_pull(table, all_keys, KEYS, rows, NULL) == 0);
        for (int i = 0; i < KEYS; i++) {
            for (int j = 0; j < WIDTH; j++) {
                CHECK(f, rows[i * WIDTH + j] <= (float)w->pushed[i]);
                same &= rows[i * WIDTH + j] == (float)w->pushed[i];
            }
        }
        if (same) {
            return;
        }
        (void)tide_sleep(1000000);
    }
    for (int i = 0; i < KEYS; i++) {
        if (rows[i * WIDTH] != (float)w->pushed[i]) {
            bool copy;
            uint8_t technique = tide_table_technique(table, (uint64_t)i, &copy);
            snprintf(f->failure, sizeof f->failure, "key %d has %g of %d (technique %d, copy %d)",
                     i, (double)rows[i * WIDTH], w->pushed[i], technique, copy);
            return;
        }
    }
}

/* ---- pushes that wait for rows ---- */

/* By steps of adagrad, so that pushes do not add up before they are taken: each of them waits. */
enum { WIDE = 16384, WIDE_KEYS = 32, WIDE_PUSHES = 16 };

static void wide_push_run(struct fiber *f) {
    struct tide_table *table;
    float *row = malloc(WIDE * sizeof *row);
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    for (size_t i = 0; i < WIDE; i++) {
        row[i] = 1;
    }
    for (uint64_t key = f->index; key < WIDE_KEYS; key += 2) {
        for (int push = 0; push < WIDE_PUSHES; push++) {
            CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
        }
    }
    free(row);
    CHECK(f, tide_table_flush(table) == 0);
}

static void wide_sum_run(struct fiber *f) {
    struct tide_table *table;
    float *row = malloc(WIDE * sizeof *row), least = 0;
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    for (int push = 1; push <= WIDE_PUSHES; push++) {
        least -= 1 / sqrtf((float)push);
    }
    for (uint64_t key = 0; key < WIDE_KEYS; key++) {
        row[0] = 0;
        for (int look = 0; look < 2000 && row[0] > least * 0.999f;
             look++) { /* its copy hears of it */
            (void)tide_sleep(1000000);
            CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        }
        CHECK(f, fabsf(row[0] - least) < 1e-3f && row[WIDE - 1] == row[0]);
    }
    free(row);
}

static void wide_manage_run(struct fiber *f) {
    struct tide_table *table;
    uint64_t keys[WIDE_KEYS];
    for (uint64_t i = 0; i < WIDE_KEYS; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    CHECK(f, tide_table_manage(table, keys, WIDE_KEYS, TIDE_REPLICATE, NULL) == 0);
}

/* Rows take long to come, sixteen at a time: 128 pushes of 64 KiB would wait for those, and 4 MiB
 * do. */
static void pushes_that_wait_for_rows_are_few(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[2];
    open_cluster(&c, true, 3, 7);
    create(&c, (struct tide_table_options){.name = "wide",
                                           .key_count = WIDE_KEYS,
                                           .width = WIDE,
                                           .technique = TIDE_STATIC,
                                           .update = TIDE_UPDATE_ADAGRAD,
                                           .lr = 1});
    tide_sim_set_latency(c.sim, TIDE_SECOND / 20, TIDE_SECOND / 20);
    run_alone(&c, 0, wide_manage_run, NULL);
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &fibers[i], 1, i, wide_push_run, NULL);
    }
    uint64_t most = 0;
    for (unsigned i = 0; i < 3000; i++) {
        pause_cluster(&c, 1000000);
        const struct tide__hot_table *s = tide__hot_of(table_of(&c, 1, "wide"));
        const uint64_t now = s ? atomic_load(&s->queued_bytes) : 0;
        most = now > most ? now : most;
    }
    finish(&c, fibers, 2);
    run_alone(&c, 2, wide_sum_run, NULL);
    assert_true(most > tide_limit(store_home_bytes) / 2 && most <= tide_limit(store_home_bytes) + 2 * (WIDE * 4 + 64));
    assert_int_equal(atomic_load(&tide__hot_of(table_of(&c, 1, "wide"))->queued_bytes), 0);
    close_cluster(&c);
}

static uint64_t messages(struct cluster *c) {
    uint64_t sum = 0;
    for (unsigned n = 0; n < c->count; n++) {
        struct tide_table_stats t;
        struct tide_share_stats s;
        if (c->nodes[n] && (!c->sim || tide_sim_runs(c->sim, tide_node_name(c->nodes[n])))) {
            tide_table_stats(table_of(c, n, "w"), &t);
            tide_table_share_stats(table_of(c, n, "w"), &s);
            sum += t.messages_out + s.notices_out + s.updates_out + s.rows_in;
        }
    }
    return sum;
}

static void nothing_moves_at_rest(struct cluster *c) {
    uint64_t before = 0, after = 1;
    for (int i = 0; i < 100 && before != after; i++) { /* the last notices */
        before = messages(c);
        pause_cluster(c, 30000000);
        after = messages(c);
    }
    assert_int_equal(before, after);
    pause_cluster(c, c->sim ? 10 * TIDE_SECOND : TIDE_SECOND / 5);
    assert_int_equal(messages(c), after);
}

/* Connections break and hosts stall while they work. */
static void trouble(struct cluster *c, uint64_t seed) {
    char a[8], b[8];
    for (unsigned i = 0; i < 6; i++) {
        snprintf(a, sizeof a, "n%u", 1 + (unsigned)((seed + i) % 3));
        snprintf(b, sizeof b, "n%u", 1 + (unsigned)((seed + i + 1) % 3));
        pause_cluster(c, 5000000 + 1000000 * (seed % 7));
        tide_sim_reset(c->sim, a, b);
        if (i % 3 == 2) {
            tide_sim_pause(c->sim, b, 40000000);
        }
    }
}

static void pushes_add_up(bool simulated, struct tide_table_options options, struct work *w) {
    struct cluster c;
    open_cluster(&c, simulated, 3, w->seed);
    options.name = "w";
    options.width = WIDTH;
    options.technique = w->technique;
    create(&c, options);
    if (w->technique != TIDE_REPLICATE) {
        run_alone(&c, (unsigned)(w->seed % 3), share_run, w);
    }
    struct fiber fibers[3 * EACH];
    for (unsigned i = 0; i < 3 * EACH; i++) {
        start(&c, &fibers[i], i % 3, i, push_run, w);
    }
    if (simulated) {
        trouble(&c, w->seed);
    }
    finish(&c, fibers, 3 * EACH);
    struct fiber readers[3];
    for (unsigned i = 0; i < 3; i++) {
        start(&c, &readers[i], i, i, sums_run, w);
    }
    finish(&c, readers, 3);
    nothing_moves_at_rest(&c);
    uint64_t hits = 0;
    for (unsigned n = 0; n < 3; n++) {
        struct tide_share_stats s;
        struct tide_table_stats t;
        tide_table_share_stats(table_of(&c, n, "w"), &s);
        tide_table_stats(table_of(&c, n, "w"), &t);
        hits += s.hits;
        assert_int_equal(s.updates_failed, 0);
        assert_int_equal(t.surprises, 0);
        assert_true(s.unsent.max_ns >= s.unsent.mean_ns && s.behind.max_ns >= s.behind.mean_ns);
    }
    assert_true(hits > 0);
    close_cluster(&c);
}

static void copies_take_every_push_once_and_become_equal_real(void **state) {
    (void)state;
    pushes_add_up(false, (struct tide_table_options){.key_count = KEYS}, &(struct work){.seed = 1});
    pushes_add_up(false, (struct tide_table_options){.key_count = KEYS},
                  &(struct work){.seed = 2, .technique = TIDE_REPLICATE});
    pushes_add_up(
        false, (struct tide_table_options){.keys = TIDE_KEYS_HASHED},
        &(struct work){.seed = 3, .technique = TIDE_RELOCATE, .manages = true, .moves = true});
}

static void copies_take_every_push_once_and_become_equal_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        pushes_add_up(true,
                      (struct tide_table_options){.key_count = KEYS, .slots = TIDE_SLOTS_RANGE},
                      &(struct work){.seed = seed});
        pushes_add_up(true, (struct tide_table_options){.key_count = KEYS},
                      &(struct work){.seed = seed, .technique = TIDE_REPLICATE});
    }
}

static void techniques_change_while_pushes_go_on(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        pushes_add_up(true, (struct tide_table_options){.key_count = KEYS},
                      &(struct work){.seed = seed, .manages = true});
        pushes_add_up(
            true,
            (struct tide_table_options){.keys = seed % 2 ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE,
                                        .key_count = KEYS},
            &(struct work){
                .seed = seed, .technique = TIDE_RELOCATE, .manages = true, .moves = true});
    }
}

/* One key whose copies come and go all the time. */
static void toggle_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    const uint64_t keys[2] = {5, 6};
    const struct tide_share_options fast = {.rate = 10000};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int i = 0; !atomic_load(&w->stop); i++) {
        CHECK(f,
              tide_table_manage(table, keys, 2, i % 2 ? w->technique : TIDE_REPLICATE, &fast) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 2000000));
    }
}

enum { EAGER = 6, EAGER_PUSHES = 150 };

/* Each has a column of its own, and knows exactly what is in it. */
static void eager_pushes(struct fiber *f) {
    struct tide_table *table;
    const uint64_t keys[2] = {5, 6};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int own = 1; own <= EAGER_PUSHES && !f->failure[0]; own++) {
        float rows[2 * EAGER] = {0};
        struct tide_ticket push;
        rows[f->index] = rows[EAGER + f->index] = 1;
        CHECK(f, tide_table_push(table, keys, 2, rows, &push) == 0);
        CHECK(f, tide_table_pull(table, keys, 2, rows, NULL) == 0);
        if (rows[f->index] != (float)own || rows[EAGER + f->index] != (float)own) {
            snprintf(f->failure, sizeof f->failure, "%g and %g of %d", (double)rows[f->index],
                     (double)rows[EAGER + f->index], own);
        }
        CHECK(f, tide_ticket_wait(&push) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 150000));
    }
}

static void eager_run(struct fiber *f) {
    struct work *w = f->arg;
    eager_pushes(f);
    if (atomic_fetch_add(&w->done, 1) + 1 == EAGER) {
        atomic_store(&w->stop, true);
    }
}

static void all_saw_all_run(struct fiber *f) {
    struct tide_table *table;
    const uint64_t keys[2] = {5, 6};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_flush(table) == 0);
    for (int i = 0; i < 2 * EAGER; i++) {
        float rows[2 * EAGER] = {0};
        for (int look = 0; look < 2000 && rows[i] != EAGER_PUSHES; look++) {
            CHECK(f, tide_table_pull(table, keys, 2, rows, NULL) == 0);
            (void)tide_sleep(1000000);
        }
        CHECK(f, rows[i] == EAGER_PUSHES);
    }
}

/* What is unlikely at `site` happens: operations are late between the look for copies and the way
 * to the owner, or the owner has no room for a subscription. */
static void copies_come_and_go(bool simulated, const char *site, struct work *w) {
    struct cluster c;
    open_cluster(&c, simulated, 3, w->seed);
    create(&c, (struct tide_table_options){
                   .name = "w", .key_count = KEYS, .width = EAGER, .technique = w->technique});
    struct fiber fibers[EAGER + 1];
    if (simulated) {
        unlikely_begins(site, w->seed, 0.2);
    }
    for (unsigned i = 0; i < EAGER; i++) {
        start(&c, &fibers[i], i % 3, i, eager_run, w);
    }
    start(&c, &fibers[EAGER], (unsigned)w->seed % 3, EAGER, toggle_run, w);
    finish(&c, fibers, EAGER + 1);
    if (simulated) {
        unlikely_ends();
    }
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, all_saw_all_run, w);
    }
    close_cluster(&c);
}

static void a_worker_sees_its_pushes_while_copies_come_and_go(void **state) {
    (void)state;
    copies_come_and_go(false, NULL, &(struct work){.seed = 1});
    copies_come_and_go(false, NULL, &(struct work){.seed = 2, .technique = TIDE_RELOCATE});
    static const char *const sites[] = {"shared_late", "subscription_refused", "row_kept_back"};
    for (uint64_t seed = 1; seed <= 36; seed++) {
        const char *site = sites[seed % TIDE_COUNT(sites)];
        copies_come_and_go(true, site, &(struct work){.seed = seed});
        copies_come_and_go(true, site, &(struct work){.seed = seed, .technique = TIDE_RELOCATE});
    }
}

/* Nobody looks for copies before the first keys are shared, and some are late to notice. */
static void copies_begin_while_pushes_are_on_their_way(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster c;
        struct work w = {.seed = seed, .technique = seed % 2 ? TIDE_STATIC : TIDE_RELOCATE};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = KEYS, .width = WIDTH, .technique = w.technique});
        struct fiber fibers[3 * EACH + 1];
        unlikely_begins("remote_late", seed, 0.2);
        for (unsigned i = 0; i < 3 * EACH; i++) {
            start(&c, &fibers[i], i % 3, i, push_run, &w);
        }
        pause_cluster(&c, seed * 500000);
        start(&c, &fibers[3 * EACH], 0, 3 * EACH, share_run, &w);
        finish(&c, fibers, 3 * EACH + 1);
        unlikely_ends();
        for (unsigned n = 0; n < 3; n++) {
            run_alone(&c, n, sums_run, &w);
        }
        close_cluster(&c);
    }
}

/* ---- leaving ---- */

static void a_node_leaves(bool simulated, struct work *w) {
    struct cluster c;
    open_cluster(&c, simulated, 3, w->seed);
    create(&c, (struct tide_table_options){
                   .name = "w", .key_count = KEYS, .width = WIDTH, .technique = w->technique});
    run_alone(&c, 0, share_run, w);
    struct fiber fibers[3 * EACH];
    for (unsigned i = 0; i < 3 * EACH; i++) {
        start(&c, &fibers[i], i % 3, i, push_run, w);
    }
    finish(&c, fibers, 3 * EACH); /* its last updates are not sent yet */
    tide_net_leave(tide_net_of(c.nodes[2]));
    int state = TIDE_MEMBER_UP, code;
    char reason[200];
    for (int i = 0; i < 20000 && state != TIDE_MEMBER_LEFT; i++) {
        pause_cluster(&c, 1000000);
        state = tide_net_state(tide_net_of(c.nodes[2]), &code, reason, sizeof reason);
    }
    assert_int_equal(state, TIDE_MEMBER_LEFT);
    close_node(&c, 2);
    for (unsigned i = 0; i < 2 * EACH; i++) { /* its slots have new homes, and copies know it */
        start(&c, &fibers[i], i % 2, 10 + i, push_run, w);
    }
    finish(&c, fibers, 2 * EACH);
    struct fiber readers[2];
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &readers[i], i, i, sums_run, w);
    }
    finish(&c, readers, 2);
    close_cluster(&c);
}

static void a_leaver_sends_what_its_copies_have_first(void **state) {
    (void)state;
    a_node_leaves(false, &(struct work){.seed = 1});
    for (uint64_t seed = 1; seed <= 4; seed++) {
        a_node_leaves(true, &(struct work){.seed = seed});
        a_node_leaves(true,
                      &(struct work){.seed = seed, .technique = TIDE_RELOCATE, .moves = true});
    }
}

/* Slots go round while all push, and nobody leaves. */
static void movers_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t slots[4] = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3};
        int code = tide_table_move(table, slots, 4, (uint16_t)(1 + (i + w->seed) % 3));
        CHECK(f, code == 0 || code == TIDE_EBUSY);
        (void)tide_sleep(3000000);
    }
}

static void copies_follow_slots_that_move(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct cluster c;
        struct work w = {.seed = seed, .technique = seed % 2 ? TIDE_STATIC : TIDE_RELOCATE};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = 4096, .width = WIDTH, .technique = w.technique});
        run_alone(&c, 0, share_run, &w);
        struct fiber fibers[7];
        for (unsigned i = 0; i < 6; i++) {
            start(&c, &fibers[i], i % 3, i, push_run, &w);
        }
        start(&c, &fibers[6], 0, 6, movers_run, &w);
        finish(&c, fibers, 7);
        for (unsigned n = 0; n < 3; n++) {
            run_alone(&c, n, sums_run, &w);
        }
        nothing_moves_at_rest(&c);
        close_cluster(&c);
    }
}

/* ---- death ---- */

static void survivors_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    while (!atomic_load(&w->stop)) {
        const uint64_t key = tide_random_below(&f->random, KEYS / 2);
        uint16_t home;
        CHECK(f, tide_table_where(table, key, &home) == 0);
        if (home != 3) { /* of the dead one's keys nothing is promised */
            CHECK(f, tide_table_push(table, &key, 1, (float[WIDTH]){1, 1, 1, 1}, NULL) == 0);
            atomic_fetch_add(&w->pushed[key], 1);
        }
        (void)tide_sleep(300000);
    }
}

/* The victim pushes halves, of which any number may arrive. */
static void victim_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    while (!atomic_load(&w->stop)) {
        const uint64_t key = tide_random_below(&f->random, KEYS / 2);
        const float part[WIDTH] = {1.0f / 1024, 1.0f / 1024, 1.0f / 1024, 1.0f / 1024};
        (void)tide_table_push(table, &key, 1, part, NULL);
        (void)tide_sleep(300000);
    }
}

static void survivors_sums_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_flush(table) == 0);
    for (uint64_t key = 0; key < KEYS / 2; key++) {
        uint16_t home;
        float row[WIDTH];
        CHECK(f, tide_table_where(table, key, &home) == 0);
        /* no copy outlives its row */
        CHECK(f, home != 3 || tide_table_pull(table, &key, 1, row, NULL) == TIDE_EDIED);
        for (int look = 0; home != 3; look++) {
            CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
            if (floorf(row[0]) == (float)w->pushed[key]) {
                break;
            }
            if (look == 2000) {
                snprintf(f->failure, sizeof f->failure, "key %llu has %g of %d",
                         (unsigned long long)key, (double)row[0], w->pushed[key]);
                return;
            }
            (void)tide_sleep(1000000);
        }
    }
}

static void a_death_takes_only_what_the_dead_had_not_sent(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct cluster c;
        struct work w = {.seed = seed};
        open_cluster(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "w", .key_count = KEYS, .width = WIDTH});
        run_alone(&c, 0, share_run, &w);
        struct fiber fibers[3];
        for (unsigned i = 0; i < 3; i++) {
            start(&c, &fibers[i], i, i, i < 2 ? survivors_run : victim_run, &w);
        }
        pause_cluster(&c, 60000000 + seed * 3000000);
        tide_sim_crash(c.sim, "n3");
        pause_cluster(&c, 3 * TIDE_SECOND);
        atomic_store(&w.stop, true);
        atomic_fetch_sub(&c.running, 1); /* the victim's fiber ended with it */
        finish(&c, fibers, 2);
        run_alone(&c, 0, survivors_sums_run, &w);
        run_alone(&c, 1, survivors_sums_run, &w);
        nothing_moves_at_rest(&c);
        close_cluster(&c);
    }
}

static void take_odd_keys_run(struct fiber *f) {
    struct tide_table *table;
    uint64_t keys[KEYS / 2];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (uint64_t i = 0; i < KEYS / 2; i++) {
        keys[i] = 2 * i + 1;
    }
    CHECK(f, tide_table_localize(table, keys, KEYS / 2, NULL) == 0);
}

struct waiting {
    uint64_t ns;    /* until copies were made, or given up */
    unsigned fewer; /* copies than keys that live elsewhere */
};

static void copy_all_run(struct fiber *f) {
    struct waiting *waiting = f->arg;
    struct tide_table *table;
    unsigned lost = 0;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_manage(table, all_keys, KEYS, TIDE_REPLICATE, NULL) == 0);
    const uint64_t began = tide_port_now(table->store->port);
    (void)tide_sleep(10000000); /* a round has begun */
    CHECK(f, tide_table_flush(table) == 0);
    waiting->ns = tide_port_now(table->store->port) - began;
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH];
        bool copy = false;
        uint16_t owner;
        (void)tide_table_technique(table, key, &copy);
        const int code = tide_table_pull(table, &key, 1, row, NULL);
        CHECK(f, code == 0 || code == TIDE_EDIED);
        CHECK(f, code == 0 || !copy);
        lost += code != 0;
        waiting->fewer += code == 0 && !copy && tide_table_where(table, key, &owner) == 0 &&
                          owner != tide__store_self(table->store);
    }
    CHECK(f, lost >= KEYS / 2);
}

/* Each of them fails for itself: nobody has to find out by asking for fewer and fewer. */
static void rows_that_are_lost_do_not_delay_the_copies_of_others(void **state) {
    (void)state;
    struct cluster c;
    struct waiting waiting = {.fewer = 0};
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){
                   .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
    run_alone(&c, 2, take_odd_keys_run, NULL);
    tide_sim_crash(c.sim, "n3");
    pause_cluster(&c, 5 * TIDE_SECOND);
    tide_sim_set_pair_latency(c.sim, "n1", "n2", 40000000);
    run_alone(&c, 1, copy_all_run, &waiting);
    assert_int_equal(waiting.fewer, 0);
    assert_true(waiting.ns < TIDE_SECOND);
    close_cluster(&c);
}

/* ---- how far copies are behind ---- */

enum { ANSWER_MS = 40, LARGE = 32 * 1024 };

static void hot_push_run(struct fiber *f) {
    struct tide_table *table;
    static const float rows[2 * LARGE] = {1};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int push = 0; push < 1500; push++) {
        CHECK(f, tide_table_push(table, all_keys, 2, rows, NULL) == 0);
        (void)tide_sleep(2000000);
    }
}

/* How long copies of two keys that both nodes push to are behind, in the mean. */
static uint64_t behind_ms(uint32_t width) {
    struct cluster c;
    struct fiber fibers[2];
    uint64_t most = 0;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){.name = "w", .key_count = KEYS, .width = width});
    run_alone(&c, 0, share_run, NULL);
    tide_sim_set_pair_latency(c.sim, "n1", "n2", ANSWER_MS * UINT64_C(1000000) / 2);
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &fibers[i], i, i, hot_push_run, NULL);
    }
    finish(&c, fibers, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct tide_share_stats s;
        tide_table_share_stats(table_of(&c, i, "w"), &s);
        most = s.behind.mean_ns > most ? s.behind.mean_ns : most;
    }
    close_cluster(&c);
    return most / 1000000;
}

/* A round of two keys waits for two answers, and that was no work to rest from; but it was if their
 * rows are large. */
static void copies_rest_for_what_moved_not_for_answers(void **state) {
    (void)state;
    assert_in_range(behind_ms(WIDTH), ANSWER_MS, 4 * ANSWER_MS);
    assert_in_range(behind_ms(LARGE), 5 * ANSWER_MS, 12 * ANSWER_MS);
}

/* Rows that came for copies of keys that both nodes push to, and keys that were asked for. */
static void count_rows(uint64_t *rows, uint64_t *asked) {
    struct cluster c;
    struct fiber fibers[2];
    *rows = *asked = 0;
    open_cluster(&c, true, 2, 1);
    create(&c, (struct tide_table_options){.name = "w", .key_count = KEYS, .width = LARGE});
    run_alone(&c, 0, share_run, NULL);
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &fibers[i], i, i, hot_push_run, NULL);
    }
    finish(&c, fibers, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct tide_share_stats s;
        struct tide_table_stats stats;
        tide_table_share_stats(table_of(&c, i, "w"), &s);
        tide_table_stats(table_of(&c, i, "w"), &stats);
        *rows += s.rows_in;
        *asked += stats.pulls_remote;
    }
    close_cluster(&c);
}

static void a_row_that_others_changed_comes_with_the_answer_to_an_update(void **state) {
    (void)state;
    uint64_t rows, asked;
    count_rows(&rows, &asked);
    assert_true(rows > 100 && asked < rows / 2);
    unlikely_begins("row_kept_back", 1, 1);
    count_rows(&rows, &asked);
    unlikely_ends();
    assert_true(rows > 100 && asked == rows);
}

/* ---- rules, files, options ---- */

enum { STEPS = 20 };

/* The only one that pushes: its copy takes the steps that the owner would. */
static void steps_run(struct fiber *f) {
    struct tide_table *table;
    const uint64_t keys[] = {0, 1, 2, 3, 4, 5};
    float rows[6 * 2], deltas[6 * 2], model[6 * 4] = {0};
    bool copy = false;
    CHECK(f, tide_table_find(f->node, "steps", &table) == 0);
    CHECK(f, tide_table_manage(table, keys, 6, TIDE_REPLICATE, NULL) == 0);
    CHECK(f, tide_table_pull(table, keys, 6, rows, NULL) == 0);
    const struct tide_table_options *o = tide_table_options(table);
    for (int i = 0; i < 6; i++) {
        tide__row_init(o, keys[i], model + i * 4, true);
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 12; i++) {
            deltas[i] = (float)tide_random_below(&f->random, 1000) / 500 - 1;
        }
        CHECK(f, tide_table_push(table, keys, 6, deltas, NULL) == 0);
        CHECK(f, tide_table_pull(table, keys, 6, rows, NULL) == 0);
        for (int i = 0; i < 6; i++) {
            tide__rule_apply(o, model + i * 4, deltas + i * 2);
            CHECK(f, fabsf(rows[i * 2] - model[i * 4]) < 1e-4f);
            CHECK(f, fabsf(rows[i * 2 + 1] - model[i * 4 + 1]) < 1e-4f);
        }
        (void)tide_sleep(tide_random_below(&f->random, 30000000));
    }
    CHECK(f, tide_table_flush(table) == 0);
    for (int i = 0; i < 6; i++) {
        CHECK(f, tide_table_technique(table, keys[i], &copy) == TIDE_REPLICATE);
        float row[4];
        CHECK(f, tide__operate_plain(table, TIDE__PULL, true, keys + i, 1, row, NULL) == 0);
        for (int j = 0; j < 4; j++) { /* at the owner, with the sums */
            CHECK(f, fabsf(row[j] - model[i * 4 + j]) < 1e-3f);
        }
    }
}

static void a_copy_takes_the_steps_of_adagrad_as_its_owner_would(void **state) {
    (void)state;
    for (int simulated = 0; simulated < 2; simulated++) {
        struct cluster c;
        open_cluster(&c, simulated, 3, 4);
        create(&c, (struct tide_table_options){.name = "steps",
                                               .key_count = KEYS,
                                               .width = 2,
                                               .init = TIDE_INIT_NORMAL,
                                               .init_a = 1,
                                               .update = TIDE_UPDATE_ADAGRAD,
                                               .lr = 0.1f,
                                               .sum_init = 0.1f});
        run_alone(&c, 1, steps_run, NULL);
        close_cluster(&c);
    }
}

static void file_run(struct fiber *f) {
    struct work *w = f->arg;
    struct tide_table *table;
    float rows[KEYS * WIDTH];
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    for (int i = 0; i < KEYS * WIDTH; i++) {
        rows[i] = 1;
    }
    CHECK(f, tide_table_pull(table, all_keys, KEYS, rows, NULL) == 0);
    (void)tide_sleep(100000000); /* copies are here */
    for (int i = 0; i < KEYS * WIDTH; i++) {
        rows[i] = 1;
    }
    CHECK(f, tide_table_push(table, all_keys, KEYS, rows, NULL) == 0);
    CHECK(f, tide_table_save(table, w->path) == 0);
    CHECK(f, tide_table_push(table, all_keys, KEYS, rows, NULL) == 0);
    CHECK(f, tide_table_load(table, w->path) == 0);
    for (int i = 0; i < KEYS; i++) {
        w->pushed[i] = 1;
    }
}

static void a_file_has_what_copies_had_and_copies_get_what_is_read(void **state) {
    (void)state;
    struct cluster c;
    char path[120];
    open_cluster(&c, false, 3, 1);
    snprintf(path, sizeof path, "%s/rows", c.directory);
    struct work w = {.path = path};
    create(&c, (struct tide_table_options){
                   .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_REPLICATE});
    run_alone(&c, 1, file_run, &w);
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, sums_run, &w);
    }
    close_cluster(&c);
}

static void refusals_run(struct fiber *f) {
    struct tide_table *table;
    const uint64_t key = 1, far = KEYS;
    const uint16_t nobody = 77;
    const struct tide_share_options elsewhere = {.nodes = &nobody, .node_count = 1};
    const struct tide_share_options negative = {.threshold = -1};
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_manage(table, &far, 1, TIDE_REPLICATE, NULL) == TIDE_ERANGE);
    CHECK(f, tide_table_manage(table, &key, 1, TIDE_RELOCATE, NULL) == TIDE_EUNSUPPORTED);
    CHECK(f, tide_table_manage(table, &key, 1, 9, NULL) == TIDE_EINVAL);
    CHECK(f, tide_table_manage(table, &key, 1, TIDE_REPLICATE, &elsewhere) == TIDE_EINVAL);
    CHECK(f, tide_table_manage(table, &key, 1, TIDE_REPLICATE, &negative) == TIDE_EINVAL);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"clocks", "safe", "adam"};
        static const char *const words[] = {"clocks", "replicas", "adam"};
        CHECK(f, tide_table_find(f->node, names[i], &table) == 0);
        CHECK(f, tide_table_manage(table, &key, 1, TIDE_REPLICATE, NULL) == TIDE_EUNSUPPORTED);
        CHECK(f, strstr(tide_error_message(), words[i]) != NULL);
    }
    struct tide_table_options o = {.name = "no",
                                   .key_count = KEYS,
                                   .width = 1,
                                   .technique = TIDE_REPLICATE,
                                   .update = TIDE_UPDATE_ADAM};
    CHECK(f, tide_table_create(f->node, &o, &table) == TIDE_EUNSUPPORTED);
}

static void what_does_not_go_with_copies_is_refused(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){.name = "w", .key_count = KEYS, .width = WIDTH});
    create(&c, (struct tide_table_options){.name = "clocks",
                                           .key_count = KEYS,
                                           .width = 1,
                                           .consistency = {.model = TIDE_BSP}});
    create(&c, (struct tide_table_options){
                   .name = "safe", .key_count = KEYS, .width = 1, .replicas = 1});
    create(&c,
           (struct tide_table_options){
               .name = "adam", .key_count = KEYS, .width = 1, .update = TIDE_UPDATE_ADAM, .lr = 1});
    run_alone(&c, 1, refusals_run, NULL);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_that_wait_for_rows_are_few),
        cmocka_unit_test(copies_take_every_push_once_and_become_equal_real),
        cmocka_unit_test(copies_take_every_push_once_and_become_equal_simulated),
        cmocka_unit_test(techniques_change_while_pushes_go_on),
        cmocka_unit_test(a_worker_sees_its_pushes_while_copies_come_and_go),
        cmocka_unit_test(copies_begin_while_pushes_are_on_their_way),
        cmocka_unit_test(a_leaver_sends_what_its_copies_have_first),
        cmocka_unit_test(copies_follow_slots_that_move),
        cmocka_unit_test(a_death_takes_only_what_the_dead_had_not_sent),
        cmocka_unit_test(rows_that_are_lost_do_not_delay_the_copies_of_others),
        cmocka_unit_test(copies_rest_for_what_moved_not_for_answers),
        cmocka_unit_test(a_row_that_others_changed_comes_with_the_answer_to_an_update),
        cmocka_unit_test(a_copy_takes_the_steps_of_adagrad_as_its_owner_would),
        cmocka_unit_test(a_file_has_what_copies_had_and_copies_get_what_is_read),
        cmocka_unit_test(what_does_not_go_with_copies_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
