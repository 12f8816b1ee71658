/*
 * Durability window: pushes are answered before the copies have them, within a bound of time and of
 * bytes; what a death then loses is within it, and told; nothing is doubled, and nothing is lost
 * without a death. Pushes are one-hot rows, so that every one can be read. Seeded, in the simulator;
 * `--seeds N` for more, `--first N`.
 */
#include "store/core/options.h"
#include "seeded.h"
#include "store_world.h"

#include "store/replica/async_replication_internal.h"
#include "tide/stats.h"

enum { KEYS = 6, FIBERS = 6, PUSHES = 10, WIDTH = FIBERS * PUSHES, OPS = PUSHES * KEYS };
#define MS UINT64_C(1000000)
#define WINDOW (40 * MS)

struct push {
    uint64_t key, returned; /* TIDE_NEVER: it failed, or nobody knows */
    unsigned place;
};

struct worker {
    struct fiber fiber;
    struct push pushes[OPS];
    unsigned count;
    bool dies; /* its node is killed */
    uint64_t seed, pause_max;
};

struct world {
    struct cluster c, lost; /* lost.running: workers on nodes that crash: nobody waits for them */
    struct worker workers[FIBERS];
    unsigned nodes, victim; /* nodes: no victim */
    uint64_t seed;
    unsigned lost_updates;
};

static void failed(const struct world *w, const char *what) {
    fail_msg("seed %llu: %s", (unsigned long long)w->seed, what);
}

/* False: one failed that must not. */
static bool land(const struct worker *w, struct tide_ticket *tickets, struct push **in_flight,
                 unsigned count) {
    bool good = true;
    for (unsigned i = 0; i < count; i++) {
        const int code = tide_ticket_wait(&tickets[i]);
        in_flight[i]->returned = code ? TIDE_NEVER : tide_node_now(w->fiber.node);
        good &= code == 0 || w->dies;
    }
    return good;
}

static void worker_run(struct fiber *f) {
    struct worker *w = f->arg;
    struct tide_table *table;
    struct tide_ticket tickets[4];
    struct push *in_flight[4];
    static float rows[FIBERS][4][WIDTH];
    unsigned flying = 0, used[KEYS] = {0};
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    tide_random_seed(&f->random, w->seed * 1000 + f->index);
    while (w->count < OPS / 2) {
        uint64_t key = tide_random_below(&f->random, KEYS);
        if (used[key] == PUSHES) {
            continue;
        }
        struct push *push = &w->pushes[w->count++];
        float *row = rows[f->index][flying];
        *push = (struct push){key, TIDE_NEVER, f->index * PUSHES + used[key]++};
        memset(row, 0, sizeof rows[0][0]);
        row[push->place] = 1;
        in_flight[flying] = push;
        int code = tide_table_push(table, &push->key, 1, row, &tickets[flying]);
        CHECK(f, code == 0 || w->dies);
        flying += code == 0;
        if (flying == TIDE_COUNT(tickets) || key % 2) {
            CHECK(f, land(w, tickets, in_flight, flying));
            flying = 0;
        }
        (void)tide_sleep(tide_random_below(&f->random, w->pause_max));
    }
    CHECK(f, land(w, tickets, in_flight, flying));
}

static void begin(struct world *w, uint64_t seed, unsigned nodes, unsigned victim, bool dies,
                  bool simulated) {
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->nodes = nodes;
    w->victim = victim;
    open_cluster(&w->c, simulated, nodes, seed);
    create(&w->c, (struct tide_table_options){.name = "hot",
                                              .key_count = KEYS,
                                              .width = WIDTH,
                                              .replicas = (uint8_t)(1 + seed % 2),
                                              .update = seed % 3 ? TIDE_UPDATE_ADD : TIDE_UPDATE_SGD,
                                              .lr = -1,
                                              .durability = TIDE_DURABLE_WINDOW,
                                              .window_ns = WINDOW});
    for (unsigned i = 0; i < FIBERS; i++) {
        struct worker *worker = &w->workers[i];
        worker->seed = seed;
        worker->pause_max = 12 * MS;
        worker->dies = i % nodes == victim;
        start(&w->c, &worker->fiber, i % nodes, i, worker_run, worker);
        if (worker->dies && dies) {
            worker->fiber.cluster = &w->lost;
            atomic_fetch_add(&w->lost.running, 1);
            atomic_fetch_sub(&w->c.running, 1);
        }
    }
}

/* ---- the verdict ---- */

/* What is there, on every node that is left: each push at most once. What was answered and is not
 * there was lost. */
static void final_run(struct fiber *f) {
    struct world *w = f->arg;
    struct tide_table *table;
    float rows[KEYS][WIDTH];
    struct tide_table_stats stats;
    unsigned lost_updates = 0;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        CHECK(f, tide_table_pull(table, &key, 1, rows[key], NULL) == 0);
        for (unsigned i = 0; i < WIDTH; i++) {
            CHECK(f, rows[key][i] == 0 || rows[key][i] == 1);
        }
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t first = TIDE_NEVER, last = 0;
        for (unsigned i = 0; i < FIBERS; i++) {
            for (unsigned j = 0; j < w->workers[i].count; j++) {
                const struct push *p = &w->workers[i].pushes[j];
                if (p->key != key || p->returned == TIDE_NEVER || rows[key][p->place] == 1) {
                    continue;
                }
                CHECK(f, w->victim < w->nodes); /* else nobody died */
                first = p->returned < first ? p->returned : first;
                last = p->returned > last ? p->returned : last;
                lost_updates += w->workers[i].fiber.node == f->node;
                w->lost_updates++;
            }
        }
        CHECK(f, last == 0 || last - first <= WINDOW + 10 * MS); /* and the way of an answer */
    }
    tide_table_stats(table, &stats);
    if (lost_updates > stats.lost_updates) {
        snprintf(f->failure, sizeof f->failure, "%u answered pushes were lost, %llu were told",
                 lost_updates, (unsigned long long)stats.lost_updates);
    }
    CHECK(f, w->victim < w->nodes || stats.lost_updates == 0);
    CHECK(f, stats.unreplicated == 0 && stats.unreplicated_most <= stats.unreplicated_bound);
}

static bool raw_row(struct tide_table *table, uint64_t key, float row[WIDTH]) {
    atomic_uint_fast64_t *word;
    uint64_t old;
    memset(row, 0, WIDTH * sizeof *row);
    if (tide__row_lock(table, tide__slot_of(table, key), key, false, &word, &old) != TIDE__FOUND) {
        return false;
    }
    bool there = tide__word_state(old) == TIDE__OWNED;
    if (there) {
        memcpy(row, tide__slab_row(&table->slab, (uint32_t)old), WIDTH * sizeof *row);
    }
    tide__word_unlock(word, old);
    return there;
}

/* All that hold a row hold the same. */
static void copies_are_equal(const struct world *w) {
    for (uint64_t key = 0; key < KEYS; key++) {
        float rows[2][WIDTH];
        unsigned held = 0;
        for (unsigned n = 0; n < w->nodes; n++) {
            if (n != w->victim && w->c.nodes[n] &&
                raw_row(table_of((struct cluster *)&w->c, n, "hot"), key, rows[held > 0])) {
                held++;
                if (held > 1 && memcmp(rows[0], rows[1], sizeof rows[0]) != 0) {
                    failed(w, "a copy differs from its owner");
                }
            }
        }
        if (held == 1) {
            failed(w, "a row has no copy");
        }
    }
}

static bool is_whole(struct world *w) {
    struct tide_table_health health;
    bool whole = true;
    for (unsigned n = 0; n < w->nodes; n++) {
        if (n != w->victim) {
            tide_table_health(table_of(&w->c, n, "hot"), &health);
            whole &= !health.under_replicated && !health.lost_count;
        }
    }
    return whole;
}

static void end_world(struct world *w) {
    for (int i = 0; i < 60000 && atomic_load(&w->c.running) > 0; i++) {
        pause_cluster(&w->c, MS);
    }
    if (atomic_load(&w->c.running) > 0) {
        failed(w, "workers do not end");
    }
    for (unsigned i = 0; i < FIBERS; i++) {
        if (w->workers[i].fiber.failure[0]) {
            failed(w, w->workers[i].fiber.failure);
        }
    }
    pause_cluster(&w->c, w->victim < w->nodes ? 4000 * MS : 500 * MS);
    for (int i = 0; i < 5000 && !is_whole(w); i++) {
        pause_cluster(&w->c, MS);
    }
    pause_cluster(&w->c, 300 * MS);
    const unsigned before = w->lost_updates;
    for (unsigned n = 0; n < w->nodes; n++) {
        struct fiber f;
        if (n == w->victim) {
            continue;
        }
        w->lost_updates = before;
        start(&w->c, &f, n, 0, final_run, w);
        for (int i = 0; i < 20000 && atomic_load(&w->c.running) > 0; i++) {
            pause_cluster(&w->c, MS);
        }
        if (f.failure[0] || atomic_load(&w->c.running) > 0) {
            failed(w, f.failure[0] ? f.failure : "the last look does not end");
        }
    }
    copies_are_equal(w);
    close_cluster(&w->c);
}

/* ---- tests ---- */

static void nothing_is_lost_without_a_death(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(8); seed++) {
        struct world w;
        begin(&w, seed, 3 + seed % 2, 9, false, true);
        for (unsigned i = 0; i < 15 && seed % 2; i++) {
            const char *const names[] = {"n1", "n2", "n3"};
            pause_cluster(&w.c, 7 * MS);
            tide_sim_reset(w.c.sim, names[i % 3], names[(i + 1 + i / 3 % 2) % 3]);
        }
        end_world(&w);
    }
}

static void nothing_is_lost_on_real_threads(void **state) {
    (void)state;
    struct world w;
    begin(&w, 2, 3, 9, false, false);
    end_world(&w);
}

static void a_death_loses_what_was_at_risk_and_that_is_told(void **state) {
    (void)state;
    unsigned lost_updates = 0;
    for (uint64_t seed = seed_first; seed <= seeds(20); seed++) {
        struct world w;
        const char *const names[] = {"n1", "n2", "n3", "n4"};
        const unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, victim, true, true);
        pause_cluster(&w.c, (20 + seed * 7 % 150) * MS);
        tide_sim_crash(w.c.sim, names[victim]);
        end_world(&w);
        lost_updates += w.lost_updates;
    }
    assert_true(lost_updates > 0 || seeds_wanted); /* or it is no window */
}

/* What is pushed between two parts of a shipment is in one of them, or in the next shipment, and so is
 * its id: who takes over knows it. */
static void shipments_in_parts_double_nothing(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(20); seed++) {
        struct world w;
        const char *const names[] = {"n1", "n2", "n3", "n4"};
        const unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, victim, true, true);
        unlikely_begins("window_in_parts", seed, 0.5);
        pause_cluster(&w.c, (20 + seed * 11 % 150) * MS);
        tide_sim_crash(w.c.sim, names[victim]);
        end_world(&w);
        unlikely_ends();
    }
}

static void who_leaves_loses_nothing(void **state) {
    (void)state;
    for (uint64_t seed = seed_first; seed <= seeds(8); seed++) {
        struct world w;
        const unsigned victim = 1 + (unsigned)(seed % 3);
        begin(&w, seed, 4, victim, false, true);
        pause_cluster(&w.c, (20 + seed * 13 % 100) * MS);
        tide_net_leave(tide_net_of(w.c.nodes[victim]));
        int code, left = TIDE_MEMBER_UP;
        for (int i = 0; i < 30000 && left != TIDE_MEMBER_LEFT; i++) {
            char reason[200];
            pause_cluster(&w.c, MS);
            left = tide_net_state(tide_net_of(w.c.nodes[victim]), &code, reason, sizeof reason);
        }
        if (left != TIDE_MEMBER_LEFT) {
            failed(&w, "it does not come to leave");
        }
        end_world(&w);
        if (w.lost_updates) {
            failed(&w, "answered pushes are lost, and nobody died");
        }
    }
}

/* The home ships no more when nothing has changed for a while: whatever is pushed around that time
 * goes to the copies too. */
static void now_and_then_run(struct fiber *f) {
    struct tide_table *table;
    struct tide_table_stats stats;
    uint64_t key = 0;
    uint16_t home = 0;
    const float row[WIDTH] = {1};
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    while (tide_table_where(table, key, &home) == 0 && home != 1) {
        key++;
    }
    CHECK(f, home == 1);
    for (uint64_t pause = 3 * WINDOW; pause < 6 * WINDOW; pause += WINDOW / 20) {
        CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
        (void)tide_sleep(pause);
        CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
        (void)tide_sleep(8 * WINDOW);
        tide_table_stats(table, &stats);
        CHECK(f, stats.unreplicated == 0);
    }
}

static void what_is_pushed_now_and_then_is_shipped(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){.name = "hot",
                                           .key_count = 100,
                                           .width = WIDTH,
                                           .replicas = 1,
                                           .durability = TIDE_DURABLE_WINDOW,
                                           .window_ns = WINDOW});
    pause_cluster(&c, 250 * MS); /* leases */
    run_alone(&c, 0, now_and_then_run, NULL);
    close_cluster(&c);
}

/* ---- the bound ---- */

struct cut_off {
    struct cluster *c;
    uint64_t key; /* at home on the first node */
    unsigned answered, answered_late;
    bool healed;
    float *row;
    size_t keys_a_call;
};

static void pusher_run(struct fiber *f) {
    struct cut_off *cut = f->arg;
    struct tide_table *table;
    uint64_t keys[64];
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    const uint64_t begun = tide_node_now(f->node);
    size_t at = 0;
    for (size_t k = 0; k < table->options.key_count && at < cut->keys_a_call; k++) {
        uint16_t home;
        CHECK(f, tide_table_where(table, k, &home) == 0);
        if (home == 1) {
            keys[at++] = k;
        }
    }
    CHECK(f, at == cut->keys_a_call);
    while (!cut->healed) {
        CHECK(f, tide_table_push(table, keys, at, cut->row, NULL) == 0);
        if (!cut->healed) {
            cut->answered++;
            cut->answered_late += tide_node_now(f->node) > begun + WINDOW + WINDOW / 2;
        }
        (void)tide_sleep(MS);
    }
}

/* A home is cut off from its copies: how many pushes it answers. */
static struct cut_off push_cut_off(size_t keys_a_call, uint32_t width, uint64_t window_ns,
                                   uint64_t window_bytes, struct tide_table_stats *stats) {
    struct cluster c;
    struct fiber f;
    struct cut_off cut = {.keys_a_call = keys_a_call, .row = calloc(keys_a_call * width, 4)};
    open_cluster(&c, true, 3, 3);
    create(&c, (struct tide_table_options){.name = "hot",
                                           .key_count = 2000,
                                           .width = width,
                                           .replicas = 1,
                                           .durability = TIDE_DURABLE_WINDOW,
                                           .window_ns = window_ns,
                                           .window_bytes = window_bytes});
    cut.c = &c;
    pause_cluster(&c, 250 * MS); /* leases */
    tide_sim_partition(c.sim, "n1", "n2", true);
    tide_sim_partition(c.sim, "n1", "n3", true);
    start(&c, &f, 0, 0, pusher_run, &cut);
    pause_cluster(&c, 200 * MS);
    tide_table_stats(table_of(&c, 0, "hot"), stats);
    cut.healed = true;
    tide_sim_partition(c.sim, "n1", "n2", false);
    tide_sim_partition(c.sim, "n1", "n3", false);
    finish(&c, &f, 1);
    free(cut.row);
    close_cluster(&c);
    return cut;
}

static void pushes_wait_when_the_window_is_over(void **state) {
    (void)state;
    struct tide_table_stats stats;
    struct cut_off cut = push_cut_off(1, WIDTH, WINDOW, 0, &stats);
    assert_true(cut.answered >= 5); /* before the copies have them */
    assert_int_equal(cut.answered_late, 0);
    assert_true(stats.unreplicated > 0);
}

static void pushes_wait_when_so_many_bytes_are_at_risk(void **state) {
    (void)state;
    struct tide_table_stats stats;
    const size_t call = 9 * 1000 * sizeof(float); /* more than half a window: it is shipped at once */
    struct cut_off cut = push_cut_off(9, 1000, TIDE_SECOND, TIDE_WINDOW_BYTES_MIN, &stats);
    assert_in_range(cut.answered, 2, 3);
    assert_in_range(stats.unreplicated, TIDE_WINDOW_BYTES_MIN, TIDE_WINDOW_BYTES_MIN + 2 * call);
}

/* ---- what others send ---- */

struct damage {
    uint64_t id[TIDE__ID_FIELDS], low[2];
    size_t id_fields, low_fields;
};

static void send_rows(struct fiber *f, struct tide_table *table, const struct damage *d) {
    const uint64_t key = 0, number = 1;
    const uint32_t version = 1;
    const float row[WIDTH] = {7};
    const uint64_t head[] = {table->id, 1, 1, TIDE__REPL_ROWS, 0, 1, 1, 0};
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 15);
    tide_write_uint(&w, TIDE__OP_REPL);
    for (size_t i = 0; i < TIDE_COUNT(head); i++) {
        tide_write_uint(&w, head[i]);
    }
    tide_write_typed(&w, TIDE_U64, &key, 1);
    tide_write_typed(&w, TIDE_U64, &number, 1);
    tide_write_typed(&w, TIDE_U32, &version, 1);
    tide_write_typed(&w, TIDE_U64, d->id, d->id_fields);
    tide_write_typed(&w, TIDE_U64, d->low, d->low_fields);
    tide_write_binary(&w, row, sizeof row);
    CHECK(f, tide_send(tide_address_make(2, TIDE_ID_STORE), TIDE_LANE_STORE, w.data, w.size) == 0);
    tide_writer_release(&w);
}

static void damaged_run(struct fiber *f) {
    struct cluster *c = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    static const struct damage bad[] = {
        {{TIDE_SLOTS, 1, 1}, {1, 1}, TIDE__ID_FIELDS, 2}, /* no such slot */
        {{0, TIDE__NODES, 1}, {1, 1}, TIDE__ID_FIELDS, 2}, /* no such node */
        {{0, 1, 1}, {UINT64_MAX, 1}, TIDE__ID_FIELDS, 2},
        {{0, 1, 1}, {1, 1}, 2, 2}, /* half an id */
        {{0, 1, 1}, {1, 1}, TIDE__ID_FIELDS, 1},
    };
    struct tide_store *store = tide_store_of(c->nodes[1]);
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        send_rows(f, table, &bad[i]);
    }
    (void)tide_sleep(20 * MS);
    CHECK(f, atomic_load(&store->malformed) == TIDE_COUNT(bad));
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 3);
    tide_write_uint(&w, TIDE__OP_SAFE);
    tide_write_uint(&w, table->id + 1);
    tide_write_uint(&w, 0);
    CHECK(f, tide_send(tide_address_make(2, TIDE_ID_STORE), TIDE_LANE_STORE, w.data, w.size) == 0);
    tide_writer_release(&w);
    (void)tide_sleep(20 * MS);
    CHECK(f, atomic_load(&store->malformed) == TIDE_COUNT(bad)); /* the table may have been dropped: no damage */
}

/* Two nodes with a table whose pushes are answered within a window. */
static void open_two(struct cluster *c) {
    open_cluster(c, true, 2, 1);
    create(c, (struct tide_table_options){.name = "hot",
                                          .key_count = KEYS,
                                          .width = WIDTH,
                                          .replicas = 1,
                                          .durability = TIDE_DURABLE_WINDOW});
}

static void damaged_shipments_are_refused(void **state) {
    (void)state;
    struct cluster c;
    open_two(&c);
    run_alone(&c, 0, damaged_run, &c);
    close_cluster(&c);
}

static void windows_that_make_no_sense_are_refused(void **state) {
    (void)state;
    const struct tide_table_options good = {
        .name = "t", .key_count = 1, .width = 1, .replicas = 1, .durability = TIDE_DURABLE_WINDOW};
    struct tide_table_options bad[6];
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].replicas = 0;
    bad[1].window_ns = TIDE_WINDOW_NS_MIN - 1;
    bad[2].window_ns = TIDE_WINDOW_NS_MAX + 1;
    bad[3].window_bytes = TIDE_WINDOW_BYTES_MIN - 1;
    bad[4].window_bytes = TIDE_WINDOW_BYTES_MAX + 1;
    bad[5].durability = TIDE_DURABLE_STRICT;
    bad[5].window_ns = WINDOW;
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(tide__options_check(&bad[i]), TIDE_EINVAL);
    }
    struct tide_table_options fine = good;
    assert_int_equal(tide__options_check(&fine), 0);
    assert_int_equal(fine.window_ns, 50 * MS);
    assert_int_equal(fine.window_bytes, 64 << 20);
}

/* What was answered behind a shipment is not safe with it: a death loses it, and its origin has to hear of that. */
static void what_is_answered_behind_a_shipment_is_at_risk(void **state) {
    (void)state;
    struct cluster c;
    open_two(&c);
    struct tide_table *table = table_of(&c, 0, "hot");
    struct tide__async_replication *a = tide__replicas_of(table)->async;
    assert_true(tide__lost_updates_given(table, 2, 5));
    struct tide__flight *flight = calloc(1, sizeof *flight + a->peer_count * sizeof flight->given[0]);
    tide__lost_updates_mark_given(a, flight);
    assert_true(tide__lost_updates_given(table, 2, 3));
    tide__lost_updates_given_safe(a, flight);
    assert_int_equal(a->peers[2].given_safe, 5);
    tide__lost_updates_all_safe(a);
    assert_int_equal(a->peers[2].given_safe, 8);
    free(flight);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_without_a_death),
        cmocka_unit_test(nothing_is_lost_on_real_threads),
        cmocka_unit_test(a_death_loses_what_was_at_risk_and_that_is_told),
        cmocka_unit_test(shipments_in_parts_double_nothing),
        cmocka_unit_test(who_leaves_loses_nothing),
        cmocka_unit_test(what_is_pushed_now_and_then_is_shipped),
        cmocka_unit_test(pushes_wait_when_the_window_is_over),
        cmocka_unit_test(pushes_wait_when_so_many_bytes_are_at_risk),
        cmocka_unit_test(damaged_shipments_are_refused),
        cmocka_unit_test(windows_that_make_no_sense_are_refused),
        cmocka_unit_test(what_is_answered_behind_a_shipment_is_at_risk),
    };
    program = argv[0];
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    seeded_options(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
