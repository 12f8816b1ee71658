/* Tables of several nodes, on real sockets and in the simulator: sums, order, moves, deaths. */
#include "store/core/node_store.h"
#include "store/core/technique.h"
#include "store_world.h"
#include "tide/placement.h"
#include "tide/stats.h"

/* ---- sums ---- */

enum { SUM_KEYS = 600, SUM_WIDTH = 5, SUM_LIST = 100, SUM_ROUNDS = 12, SUM_FIBERS = 4 };

struct sums {
    const char *table;
    uint64_t (*key)(uint64_t i);
    atomic_int rounds_left; /* of each fiber; below 0: until told otherwise */
    atomic_int rounds_done;
};

static uint64_t plain_key(uint64_t i) {
    return i;
}

static uint64_t mixed_key(uint64_t i) {
    return tide_mix64(i + 1);
}

/* Pushes one to every key, in lists of shuffled keys; every second list asynchronously. */
static void sum_round(struct fiber *f, struct tide_table *table, const struct sums *sums) {
    uint64_t keys[SUM_KEYS];
    float ones[SUM_LIST * SUM_WIDTH], rows[SUM_LIST * SUM_WIDTH];
    struct tide_ticket tickets[SUM_KEYS / SUM_LIST];
    for (uint64_t i = 0; i < SUM_KEYS; i++) {
        keys[i] = sums->key(i);
    }
    for (size_t i = 0; i < SUM_LIST * SUM_WIDTH; i++) {
        ones[i] = 1;
    }
    shuffle(&f->random, keys, SUM_KEYS);
    for (size_t l = 0; l < SUM_KEYS / SUM_LIST; l++) {
        struct tide_ticket *ticket = l % 2 ? &tickets[l] : NULL;
        CHECK(f, tide_table_push(table, keys + l * SUM_LIST, SUM_LIST, ones, ticket) == 0);
    }
    CHECK(f, tide_table_pull(table, keys, SUM_LIST, rows, NULL) == 0);
    for (size_t i = 0; i < SUM_LIST; i++) {
        for (size_t j = 1; j < SUM_WIDTH; j++) {
            CHECK(f, rows[i * SUM_WIDTH + j] == rows[i * SUM_WIDTH]);
        }
    }
    for (size_t l = 1; l < SUM_KEYS / SUM_LIST; l += 2) {
        CHECK(f, tide_ticket_wait(&tickets[l]) == 0);
    }
}

static void sum_run(struct fiber *f) {
    struct sums *sums = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, sums->table, &table) == 0);
    for (int i = 0; !f->failure[0]; i++) {
        int left = atomic_load(&sums->rounds_left);
        if (left >= 0 && i >= left) {
            atomic_fetch_add(&sums->rounds_done, i);
            return;
        }
        sum_round(f, table, sums);
    }
}

static void sums_check(struct fiber *f) {
    struct sums *sums = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, sums->table, &table) == 0);
    for (uint64_t i = 0; i < SUM_KEYS; i++) {
        float row[SUM_WIDTH];
        CHECK(f, tide_table_pull(table, (uint64_t[]){sums->key(i)}, 1, row, NULL) == 0);
        for (int j = 0; j < SUM_WIDTH && !f->failure[0]; j++) {
            if (row[j] != (float)atomic_load(&sums->rounds_done)) {
                snprintf(f->failure, sizeof f->failure, "key %llu has %g, not %d",
                         (unsigned long long)sums->key(i), (double)row[j],
                         atomic_load(&sums->rounds_done));
            }
        }
    }
}

static void sums_are_exact(bool simulated, struct tide_table_options options, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    options.name = "sums";
    options.width = SUM_WIDTH;
    create(&c, options);
    struct sums sums = {.table = "sums",
                        .key = options.keys == TIDE_KEYS_HASHED ? mixed_key : plain_key,
                        .rounds_left = SUM_ROUNDS};
    struct fiber fibers[3 * SUM_FIBERS];
    for (unsigned i = 0; i < 3 * SUM_FIBERS; i++) {
        start(&c, &fibers[i], i % 3, i, sum_run, &sums);
    }
    finish(&c, fibers, 3 * SUM_FIBERS);
    for (unsigned n = 0; n < 3; n++) {
        run_alone(&c, n, sums_check, &sums);
    }
    struct tide_table_stats stats;
    tide_table_stats(table_of(&c, 1, "sums"), &stats);
    assert_true(stats.pushes_local > 0 && stats.pushes_remote > 0 && stats.served_pushes > 0 &&
                stats.served_pulls > 0);
    assert_int_equal(stats.forwarded + stats.queued, 0);
    assert_true(stats.rows > 0 && stats.rows < SUM_KEYS);
    close_cluster(&c);
}

static void sums_of_many_fibers_are_exact_real(void **state) {
    (void)state;
    sums_are_exact(false, (struct tide_table_options){.key_count = SUM_KEYS}, 1);
    sums_are_exact(false, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, 1);
}

static void sums_of_many_fibers_are_exact_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        sums_are_exact(
            true, (struct tide_table_options){.key_count = SUM_KEYS, .slots = TIDE_SLOTS_RANGE},
            seed);
        sums_are_exact(true,
                       (struct tide_table_options){.keys = TIDE_KEYS_HASHED, .wire = TIDE_WIRE_F16},
                       seed);
    }
}

/* ---- sequential consistency per key, by one-hot rows ---- */

enum {
    HOT_KEYS = 3,
    HOT_FIBERS = 6,
    HOT_PUSHES = 10,
    HOT_WIDTH = HOT_FIBERS * HOT_PUSHES,
    HOT_OPS = 60
};

struct hot_op {
    uint64_t invoked, returned;
    uint64_t key;
    int push;     /* coordinate, or -1: a pull */
    uint64_t set; /* pull: bits of the coordinates seen */
};

struct hot {
    struct hot_op ops[HOT_FIBERS][HOT_OPS];
    unsigned count[HOT_FIBERS];
};
_Static_assert(HOT_WIDTH <= 64, "a set is 64 bits");

static void hot_run(struct fiber *f) {
    struct hot *hot = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    int pushes[HOT_KEYS] = {0};
    for (int i = 0; i < HOT_OPS && !f->failure[0]; i++) {
        struct hot_op *op = &hot->ops[f->index][hot->count[f->index]++];
        float row[HOT_WIDTH] = {0};
        op->key = tide_random_below(&f->random, HOT_KEYS);
        op->push = -1;
        if (pushes[op->key] < HOT_PUSHES && tide_random_below(&f->random, 2)) {
            op->push = (int)f->index * HOT_PUSHES + pushes[op->key]++;
            row[op->push] = 1;
        }
        op->invoked = tide_node_now(f->node);
        if (op->push >= 0) {
            CHECK(f, tide_table_push(table, &op->key, 1, row, NULL) == 0);
        } else {
            CHECK(f, tide_table_pull(table, &op->key, 1, row, NULL) == 0);
        }
        op->returned = tide_node_now(f->node);
        for (int j = 0; j < HOT_WIDTH && op->push < 0; j++) {
            CHECK(f, row[j] == 0 || row[j] == 1);
            op->set |= row[j] == 1 ? UINT64_C(1) << j : 0;
        }
        if (tide_random_below(&f->random, 4) == 0) {
            (void)tide_sleep(tide_random_below(&f->random, 200000));
        }
    }
}

/* NULL: fine. The clocks of the nodes are one clock here, so real time counts: linearizable. */
static const char *hot_verdict(const struct hot *hot) {
    enum { ALL = HOT_FIBERS * HOT_OPS };
    static const struct hot_op *ops[ALL];
    for (uint64_t key = 0; key < HOT_KEYS; key++) {
        size_t n = 0;
        for (int w = 0; w < HOT_FIBERS; w++) {
            for (unsigned i = 0; i < hot->count[w]; i++) {
                if (hot->ops[w][i].key == key) {
                    ops[n++] = &hot->ops[w][i];
                }
            }
        }
        for (size_t i = 0; i < n; i++) {
            const struct hot_op *pull = ops[i];
            for (size_t j = 0; j < n && pull->push < 0; j++) {
                const struct hot_op *other = ops[j];
                uint64_t bit = other->push >= 0 ? UINT64_C(1) << other->push : 0;
                if (bit && other->returned < pull->invoked && !(pull->set & bit)) {
                    return "a pull misses a push that was acknowledged before it began";
                }
                if (bit && other->invoked > pull->returned && (pull->set & bit)) {
                    return "a pull has a push that began after it";
                }
                if (!bit && other->returned < pull->invoked && (other->set & ~pull->set)) {
                    return "a pull misses what an earlier pull saw";
                }
                if (!bit && (other->set & ~pull->set) && (pull->set & ~other->set)) {
                    return "two pulls saw pushes in different orders";
                }
                for (size_t k = 0; bit && (pull->set & bit) && k < n; k++) {
                    if (ops[k]->push >= 0 && ops[k]->returned < other->invoked &&
                        !(pull->set >> ops[k]->push & 1)) {
                        return "a pull has a push but not one that was acknowledged before that "
                               "began";
                    }
                }
            }
        }
    }
    return NULL;
}

static void synchronous_operations_are_linearizable(bool simulated, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    create(&c,
           (struct tide_table_options){.name = "hot", .key_count = HOT_KEYS, .width = HOT_WIDTH});
    struct hot *hot = calloc(1, sizeof *hot);
    struct fiber fibers[HOT_FIBERS];
    for (unsigned i = 0; i < HOT_FIBERS; i++) {
        start(&c, &fibers[i], i % 3, i, hot_run, hot);
    }
    finish(&c, fibers, HOT_FIBERS);
    const char *verdict = hot_verdict(hot);
    if (verdict) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, verdict);
    }
    /* The checker itself: a planted fault must be seen. */
    for (int w = 0; w < HOT_FIBERS; w++) {
        struct hot_op *last = &hot->ops[w][hot->count[w] - 1];
        if (last->push < 0 && last->set) {
            uint64_t set = last->set;
            last->set &= set - 1;
            last->invoked = last->returned = UINT64_MAX - 1;
            assert_non_null(hot_verdict(hot));
            last->set = set;
            break;
        }
    }
    free(hot);
    close_cluster(&c);
}

static void synchronous_operations_are_linearizable_real(void **state) {
    (void)state;
    synchronous_operations_are_linearizable(false, 1);
}

static void synchronous_operations_are_linearizable_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        synchronous_operations_are_linearizable(true, seed);
    }
}

/* ---- asynchronous operations of one worker keep their order ---- */

enum { ORDER_KEYS = 30, ORDER_STEPS = 40 };

static void order_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "order", &table) == 0);
    struct tide_ticket *tickets = calloc(2 * ORDER_STEPS, sizeof *tickets);
    float *seen = calloc(ORDER_STEPS * ORDER_KEYS, sizeof *seen);
    uint64_t keys[ORDER_KEYS];
    for (uint64_t i = 0; i < ORDER_KEYS; i++) {
        keys[i] = f->index * ORDER_KEYS + i; /* nobody else writes them */
    }
    const int rounds = f->arg ? *(const int *)f->arg : 5;
    for (int round = 0; round < rounds; round++) {
        for (int step = 0; step < ORDER_STEPS; step++) {
            float values[ORDER_KEYS];
            for (int i = 0; i < ORDER_KEYS; i++) {
                values[i] = (float)(round * 1000 + step + 1);
            }
            CHECK(f, tide_table_push(table, keys, ORDER_KEYS, values, &tickets[2 * step]) == 0);
            memset(values, 0, sizeof values); /* the rows of an asynchronous push were copied */
            for (uint64_t idle = f->arg ? tide_random_below(&f->random, 20) : 0; idle > 0; idle--) {
                (void)tide_yield(); /* slots come and go meanwhile */
            }
            CHECK(f, tide_table_pull(table, keys, ORDER_KEYS, seen + step * ORDER_KEYS,
                                     &tickets[2 * step + 1]) == 0);
        }
        for (int t = 0; t < 2 * ORDER_STEPS; t++) {
            CHECK(f, tide_ticket_wait(&tickets[t]) == 0);
        }
        for (int i = 0; i < ORDER_STEPS * ORDER_KEYS && !f->failure[0]; i++) {
            CHECK(f, seen[i] == (float)(round * 1000 + i / ORDER_KEYS + 1));
        }
    }
    free(tickets);
    free(seen);
}

static void asynchronous_operations_keep_program_order(bool simulated, uint64_t seed,
                                                       bool leaving) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    create(&c, (struct tide_table_options){.name = "order",
                                           .key_count = 9 * ORDER_KEYS,
                                           .width = 1,
                                           .update = TIDE_UPDATE_ASSIGN});
    struct fiber fibers[6];
    for (unsigned i = 0; i < 6; i++) {
        start(&c, &fibers[i], i % (leaving ? 2 : 3), i, order_run, NULL);
    }
    if (leaving) {
        tide_net_leave(tide_net_of(c.nodes[2]));
    }
    finish(&c, fibers, 6);
    close_cluster(&c);
}

static void asynchronous_operations_keep_program_order_real(void **state) {
    (void)state;
    asynchronous_operations_keep_program_order(false, 1, false);
}

static void asynchronous_operations_keep_program_order_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        asynchronous_operations_keep_program_order(true, seed, false);
    }
}

static void asynchronous_operations_keep_program_order_while_slots_move(void **state) {
    (void)state;
    asynchronous_operations_keep_program_order(false, 1, true);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        asynchronous_operations_keep_program_order(true, seed, true);
    }
}

/*
 * Workers of the new home itself, while the slots come to it: what they handed over before the rows
 * were here runs before what they do in place. The nodes' threads run in between (mutant
 * slot_move_order).
 */
static void slots_that_come_are_no_shortcut(void **state) {
    (void)state;
    int rounds = 25; /* longer than the slots take */
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct cluster c;
        open_cluster(&c, true, 2, seed);
        create(&c, (struct tide_table_options){.name = "order",
                                               .key_count = 9 * ORDER_KEYS,
                                               .width = 1,
                                               .update = TIDE_UPDATE_ASSIGN});
        struct fiber fibers[6];
        for (unsigned i = 0; i < 6; i++) {
            start(&c, &fibers[i], 0, i, order_run, &rounds);
        }
        tide_net_leave(tide_net_of(c.nodes[1]));
        finish(&c, fibers, 6);
        close_cluster(&c);
    }
}

/* ---- leaving ---- */

static void leaving_moves_slots(bool simulated, struct tide_table_options options, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    options.name = "sums";
    options.width = SUM_WIDTH;
    create(&c, options);
    struct sums sums = {.table = "sums",
                        .key = options.keys == TIDE_KEYS_HASHED ? mixed_key : plain_key,
                        .rounds_left = -1};
    struct fiber fibers[2 * SUM_FIBERS + 1];
    for (unsigned i = 0; i < 2 * SUM_FIBERS; i++) {
        start(&c, &fibers[i], i % 2, i, sum_run, &sums);
    }
    pause_cluster(&c, 5000000);
    uint32_t counts[8];
    uint64_t version;
    tide_table_homes(table_of(&c, 0, "sums"), counts, 8, &version);
    assert_true(counts[3] > 1300 && version == 1);
    tide_net_leave(tide_net_of(c.nodes[2]));
    int state = TIDE_MEMBER_UP;
    for (int i = 0; i < 30000 && state != TIDE_MEMBER_LEFT; i++) {
        int code;
        char reason[200];
        pause_cluster(&c, 1000000);
        state = tide_net_state(tide_net_of(c.nodes[2]), &code, reason, sizeof reason);
    }
    assert_int_equal(state, TIDE_MEMBER_LEFT);
    pause_cluster(&c, 5000000);
    atomic_store(&sums.rounds_left, 0);
    finish(&c, fibers, 2 * SUM_FIBERS);
    struct tide_table_stats stats;
    tide_table_stats(table_of(&c, 2, "sums"), &stats);
    assert_int_equal(stats.rows, 0);
    uint64_t forwarded = stats.forwarded;
    close_node(&c, 2);
    tide_table_homes(table_of(&c, 0, "sums"), counts, 8, &version);
    assert_int_equal(counts[3], 0);
    assert_int_equal(counts[1] + counts[2], TIDE_SLOT_COUNT);
    assert_true(counts[1] > 2000 && counts[2] > 2000 && version > 1);
    for (unsigned n = 0; n < 2; n++) {
        run_alone(&c, n, sums_check, &sums);
    }
    assert_true(forwarded > 0 || !simulated); /* stale routes were met and passed on */
    close_cluster(&c);
}

static void leaving_moves_slots_and_nothing_is_lost_under_load_real(void **state) {
    (void)state;
    leaving_moves_slots(false, (struct tide_table_options){.key_count = SUM_KEYS}, 1);
    leaving_moves_slots(false, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, 1);
}

static void leaving_moves_slots_and_nothing_is_lost_under_load_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        leaving_moves_slots(
            true, (struct tide_table_options){.key_count = SUM_KEYS, .slots = TIDE_SLOTS_RANGE},
            seed);
        leaving_moves_slots(true, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, seed);
    }
}

/* ---- death ---- */

struct death {
    atomic_bool crashed;
    int sync_code, async_code, later_code;
    char sync_text[300], later_text[300];
};

static void death_run(struct fiber *f) {
    struct death *death = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    uint64_t keys[300];
    float rows[300];
    for (uint64_t i = 0; i < 300; i++) {
        keys[i] = i;
    }
    for (int i = 0; i < 100000 && !death->sync_code; i++) { /* until the death shows */
        death->sync_code = tide_table_pull(table, keys, 300, rows, NULL);
        if (death->sync_code) {
            snprintf(death->sync_text, sizeof death->sync_text, "%s", tide_error_message());
        }
    }
    while (death->sync_code == TIDE_EUNREACHABLE &&
           death->later_code != TIDE_EDIED) { /* cut off, not yet declared dead */
        (void)tide_sleep(TIDE_SECOND / 100);
        death->later_code = tide_table_pull(table, keys, 300, rows, NULL);
        snprintf(death->sync_text, sizeof death->sync_text, "%s", tide_error_message());
    }
    struct tide_ticket ticket;
    CHECK(f, tide_table_push(table, keys, 300, rows, &ticket) == 0);
    death->async_code = tide_ticket_wait(&ticket);
    death->later_code = tide_table_pull(table, keys, 300, rows, NULL);
    snprintf(death->later_text, sizeof death->later_text, "%s", tide_error_message());
}

static void a_death_fails_operations(struct cluster *c,
                                     void (*kill_node)(struct cluster *c, pid_t pid), pid_t pid) {
    create(c, (struct tide_table_options){.name = "w", .key_count = 300, .width = 1});
    struct death death = {0};
    struct fiber f;
    start(c, &f, 0, 0, death_run, &death);
    pause_cluster(c, 20000000);
    kill_node(c, pid);
    finish(c, &f, 1);
    assert_true(death.sync_code == TIDE_EDIED || death.sync_code == TIDE_EUNREACHABLE);
    assert_int_equal(death.async_code, TIDE_EDIED);
    assert_int_equal(death.later_code, TIDE_EDIED);
    if (!strstr(death.later_text, "n3 (3)") || !strstr(death.sync_text, "n3")) {
        fail_msg("'%s', '%s' do not name the node", death.sync_text, death.later_text);
    }
}

static void crash_simulated(struct cluster *c, pid_t pid) {
    (void)pid;
    tide_sim_crash(c->sim, "n3");
}

static void crash_real(struct cluster *c, pid_t pid) {
    (void)c;
    kill(pid, SIGKILL);
}

static void a_crash_fails_operations_and_names_the_node_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct cluster c;
        open_cluster(&c, true, 3, seed);
        a_death_fails_operations(&c, crash_simulated, 0);
        close_cluster(&c);
    }
}

static int serve(const char *join) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct tide_node *node;
    struct tide_node_options options = {.name = "n3", .join = join, .workers = 1};
    if (tide_node_create(&options, &node)) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

static void a_crash_fails_operations_and_names_the_node_real(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, false, 2, 1);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "--serve", tide_node_endpoint(c.nodes[0]), (char *)NULL);
        _exit(1);
    }
    wait_members(&c, 3);
    a_death_fails_operations(&c, crash_real, pid);
    waitpid(pid, NULL, 0);
    close_cluster(&c);
}

/* ---- creation ---- */

static void create_together_run(struct fiber *f) {
    struct creation *creation = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &creation->options, &table) == 0);
    float one[2] = {1, 1};
    uint64_t keys[200];
    for (uint64_t i = 0; i < 200; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_pull(table, keys, 2, (float[4]){0}, NULL) ==
                 0); /* usable at once, everywhere */
    for (int i = 0; i < 200; i++) {
        CHECK(f, tide_table_push(table, keys + i, 1, one, NULL) == 0);
    }
    struct tide_table_options other = creation->options;
    other.seed = 99;
    CHECK(f, tide_table_create(f->node, &other, &table) == TIDE_EMISMATCH);
    other.width = 0;
    CHECK(f, tide_table_create(f->node, &other, &table) == TIDE_EINVAL);
    CHECK(f, tide_table_find(f->node, "nothing", &table) == TIDE_ENOENT);
}

static void joined_later_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "together", &table) == 0);
    uint64_t keys[200];
    float rows[400];
    for (uint64_t i = 0; i < 200; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_pull(table, keys, 200, rows, NULL) == 0);
    for (int i = 0; i < 400; i++) {
        CHECK(f, rows[i] == 6);
    }
}

static void tables_are_created_once(bool simulated) {
    struct cluster c;
    open_cluster(&c, simulated, 3, 4);
    struct creation creation = {.options = {.name = "together", .key_count = 200, .width = 2}};
    struct fiber fibers[6];
    for (unsigned i = 0; i < 6; i++) {
        start(&c, &fibers[i], i % 3, i, create_together_run, &creation);
    }
    finish(&c, fibers, 6);
    for (unsigned n = 0; n < 3; n++) {
        struct tide_table *tables[4];
        assert_int_equal(tide_store_tables(tide_store_of(c.nodes[n]), tables, 4), 1);
    }
    add_node(&c);
    wait_members(&c, 4);
    run_alone(&c, 3, joined_later_run, NULL);
    close_cluster(&c);
}

static void tables_are_created_once_and_reach_late_joiners(void **state) {
    (void)state;
    tables_are_created_once(false);
    tables_are_created_once(true);
}

/* ---- learning rates ---- */

enum { RATE_KEYS = 200, RATE_CHANGES = 8 };
static const struct tide_table_options paced = {
    .name = "paced", .key_count = RATE_KEYS, .width = 1, .update = TIDE_UPDATE_SGD, .lr = 1};

/* Who asks while somebody else's change is told waits for it. */
static void rates_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &paced, &table) == 0);
    for (int i = 0; i < RATE_CHANGES; i++) {
        CHECK(f, tide_table_set_rate(table, 0.125f * (float)(1 + tide_random_below(&f->random, 8))) == 0);
        CHECK(f, tide_table_rate(table) > 0);
    }
    tide_table_release(table);
}

static void push_everywhere(struct fiber *f, struct tide_table *table, float expected) {
    uint64_t keys[RATE_KEYS];
    float ones[RATE_KEYS], rows[RATE_KEYS];
    for (uint64_t i = 0; i < RATE_KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    CHECK(f, tide_table_push(table, keys, RATE_KEYS, ones, NULL) == 0);
    CHECK(f, tide_table_pull(table, keys, RATE_KEYS, rows, NULL) == 0);
    for (int i = 0; i < RATE_KEYS; i++) {
        CHECK(f, rows[i] == expected);
    }
}

static void rate_set_run(struct fiber *f) {
    struct tide_table *table, *sums;
    const struct tide_table_options plain = {.name = "plain", .key_count = 1, .width = 1};
    CHECK(f, tide_table_create(f->node, &paced, &table) == 0); /* equal is what it was made with */
    CHECK(f, tide_table_set_rate(table, 0.25f) == 0);
    push_everywhere(f, table, -0.25f); /* every home has heard */
    CHECK(f, tide_table_set_rate(table, -1) == TIDE_EINVAL);
    CHECK(f, tide_table_set_rate(table, NAN) == TIDE_EINVAL);
    CHECK(f, tide_table_set_rate(table, INFINITY) == TIDE_EINVAL);
    CHECK(f, tide_table_create(f->node, &plain, &sums) == 0);
    CHECK(f, tide_table_set_rate(sums, 1) == TIDE_EINVAL);
    CHECK(f, isnan(tide_table_rate(sums)));
    CHECK(f, tide_table_options(table)->lr == 1);
}

static void rate_joined_run(struct fiber *f) {
    struct tide_table *table;
    uint32_t slots[TIDE_SLOT_COUNT];
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        slots[s] = s;
    }
    CHECK(f, tide_table_create(f->node, &paced, &table) == 0);
    CHECK(f, tide_table_rate(table) == 0.25f);
    CHECK(f, tide_table_move(table, slots, TIDE_SLOT_COUNT, tide_node_id(f->node)) == 0);
    push_everywhere(f, table, -0.5f); /* by the joiner's own rate */
}

static void another_rate_reaches_all(bool simulated, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    struct fiber fibers[6];
    for (unsigned i = 0; i < 6; i++) {
        start(&c, &fibers[i], i % 3, i, rates_run, NULL);
    }
    finish(&c, fibers, 6);
    const float rate = tide_table_rate(table_of(&c, 0, "paced"));
    for (unsigned n = 1; n < 3; n++) {
        assert_true(tide_table_rate(table_of(&c, n, "paced")) == rate);
    }
    run_alone(&c, 2, rate_set_run, NULL);
    add_node(&c);
    wait_members(&c, 4);
    run_alone(&c, 3, rate_joined_run, NULL);
    close_cluster(&c);
}

static void another_rate_reaches_all_and_those_that_join(void **state) {
    (void)state;
    another_rate_reaches_all(false, 1);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        another_rate_reaches_all(true, seed);
    }
}

static void a_node_without_a_store_is_home_of_nothing(void **state) {
    (void)state;
    struct cluster c;
    memset(&c, 0, sizeof c);
    strcpy(c.directory, "/tmp/tide-store-XXXXXX");
    assert_non_null(mkdtemp(c.directory));
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = 1}, &c.sim), 0);
    add_node_with(&c, (struct tide_node_options){.no_store = true});
    add_node(&c);
    wait_members(&c, 2);
    create(&c,
           (struct tide_table_options){.name = "sums", .key_count = SUM_KEYS, .width = SUM_WIDTH});
    uint32_t counts[4];
    tide_table_homes(table_of(&c, 0, "sums"), counts, 4, NULL);
    assert_int_equal(counts[2], TIDE_SLOT_COUNT);
    struct sums sums = {.table = "sums", .key = plain_key, .rounds_left = 3};
    run_alone(&c, 0, sum_run, &sums);
    run_alone(&c, 1, sums_check, &sums);
    close_cluster(&c);
}

/* ---- bad messages ---- */

static void hostile_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    tide_address there = tide_address_make(2, TIDE_ID_STORE),
                 here = tide_address_make(1, TIDE_ID_STORE);
    for (unsigned op = 0; op <= TIDE__OP_COUNT; op++) {
        for (size_t shape = 0; shape < 300; shape++) {
            uint8_t body[200];
            struct tide_writer w;
            tide_writer_init(&w, body, sizeof body);
            size_t fields = 1 + tide_random_below(&f->random, 11);
            tide_write_array(&w, fields);
            tide_write_uint(&w, op);
            for (size_t i = 1; i < fields; i++) {
                static const uint64_t numbers[] = {0,    1,     2,     3,          4095,
                                                   4096, 65535, 65536, UINT32_MAX, UINT64_MAX};
                const uint64_t keys[3] = {1, 5000, UINT64_MAX};
                const uint32_t slots[3] = {0, 7, (uint32_t)tide_random_below(&f->random, 5000)};
                switch (tide_random_below(&f->random, 7)) {
                case 0:
                    tide_write_nil(&w);
                    break;
                case 1:
                    tide_write_uint(&w, TIDE__RAW);
                    break;
                case 2:
                    tide_write_typed(&w, TIDE_U64, keys, tide_random_below(&f->random, 4));
                    break;
                case 3:
                    tide_write_typed(&w, TIDE_U32, slots, tide_random_below(&f->random, 4));
                    break;
                case 4:
                    tide_write_typed(&w, TIDE_F32, slots, tide_random_below(&f->random, 4));
                    break;
                default:
                    tide_write_uint(
                        &w,
                        i == 1 ? 1 : numbers[tide_random_below(&f->random, TIDE_COUNT(numbers))]);
                }
            }
            size_t size = tide_random_below(&f->random, 4)
                              ? w.size
                              : tide_random_below(&f->random, w.size + 1);
            /* Not what only a controller that lost its mind would say: it is believed. */
            bool believed = op == TIDE__OP_EXPECT || op == TIDE__OP_MOVE || op == TIDE__OP_TABLE ||
                            op == TIDE__OP_MAP || op == TIDE__OP_GROUPS ||
                            op == TIDE__OP_REBUILD;
            if (!believed) {
                /* What is no msgpack ends a link before the store sees it; inside a node there is
                 * no link. */
                CHECK(f,
                      tide_send(size == w.size ? there : here, TIDE_LANE_STORE, w.data, size) == 0);
            }
            struct tide_reply *reply = NULL;
            if (shape % 10 == 0 && op != TIDE__OP_CREATE &&
                tide_call(size == w.size ? there : here, w.data, size, TIDE_SECOND / 100, &reply) ==
                    0) {
                tide_reply_free(reply);
            }
            tide_writer_release(&w);
        }
    }
}

/* A key out of range in a message of another node: an error comes back, and no row is touched. */
static void out_of_range_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    struct tide_store *store = tide_store_of(f->node);
    uint64_t unknown = atomic_load(&store->replies_unknown);
    uint64_t key = 300;
    float row = 1;
    struct tide_writer w;
    uint8_t body[128];
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, table->operations->groups ? 12 : 11);
    tide_write_uint(&w, TIDE__PUSH);
    tide_write_uint(&w, table->id);
    tide_write_uint(&w, 77);
    tide_write_uint(&w, 1);
    tide_write_uint(&w, 1);
    tide_write_uint(&w, 0);
    tide_write_uint(&w, 0);
    tide_write_uint(&w, TIDE_NO_CLOCK);
    if (table->operations->groups) {
        tide_write_typed(&w, TIDE_U64, (uint64_t[2]){77, 1}, 2);
    }
    tide_write_nil(&w);
    tide_write_typed(&w, TIDE_U64, &key, 1);
    tide_write_typed(&w, TIDE_F32, &row, 1);
    CHECK(f, tide_send(tide_address_make(2, TIDE_ID_STORE), TIDE_LANE_STORE, w.data, w.size) == 0);
    for (int i = 0; i < 10000 && atomic_load(&store->replies_unknown) == unknown; i++) {
        (void)tide_sleep(TIDE_SECOND / 1000);
    }
    CHECK(f, atomic_load(&store->replies_unknown) ==
                 unknown + 1); /* the answer: to an operation we do not know */
}

/* As long as a name may be. */
#define LONG_NAME "a23456789_123456789_123456789_123456789_123456789_123456789_123"

/* A name that is too long, or has a zero inside, is no shorter table's. */
static void no_other_table_is_dropped_run(struct fiber *f) {
    const struct {
        const char *name;
        size_t size;
    } names[] = {{LONG_NAME "_and_more", sizeof LONG_NAME "_and_more" - 1}, {"v\0w", 3}};
    for (size_t i = 0; i < TIDE_COUNT(names); i++) {
        uint8_t data[128];
        struct tide_writer w;
        struct tide_reply *reply = NULL;
        tide_writer_init(&w, data, sizeof data);
        tide__message_write(&w, TIDE__AS(DROP_TABLE, .name = TIDE__LIST(names[i].name, names[i].size)));
        CHECK(f, tide_call(tide_address_make(1, TIDE_ID_STORE), w.data, w.size, TIDE_SECOND, &reply) == TIDE_EPROTO);
        tide_reply_free(reply);
        tide_writer_release(&w);
    }
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, LONG_NAME, &table) == 0);
}

static void the_table_still_works_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "v", &table) == 0);
    for (uint64_t key = 0; key < 300; key++) {
        float row = 1;
        CHECK(f, tide_table_push(table, &key, 1, &row, NULL) == 0);
        CHECK(f, tide_table_pull(table, &key, 1, &row, NULL) == 0);
        CHECK(f, row == 1);
    }
}

static void damaged_messages_are_answered_or_dropped(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct cluster c;
        tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
        open_cluster(&c, true, 2, seed);
        create(&c,
               (struct tide_table_options){.name = "w",
                                           .key_count = 300,
                                           .width = 1,
                                           .replicas = seed > 4,
                                           .technique = seed % 2 || seed > 4 ? TIDE_STATIC
                                                                             : TIDE_RELOCATE,
                                           .consistency = {.model = seed == 1   ? TIDE_ESSP
                                                                    : seed == 3 ? TIDE_BSP
                                                                                : TIDE_SEQUENTIAL}});
        create(&c, (struct tide_table_options){.name = "v", .key_count = 300, .width = 1});
        create(&c, (struct tide_table_options){.name = LONG_NAME, .key_count = 300, .width = 1});
        run_alone(&c, 0, no_other_table_is_dropped_run, NULL);
        run_alone(&c, 0, out_of_range_run, NULL);
        run_alone(&c, 0, hostile_run, NULL);
        run_alone(&c, 0, the_table_still_works_run, NULL);
        close_cluster(&c);
        tide_log_set(TIDE_LOG_INFO, NULL, NULL);
    }
}

int main(int argc, char **argv) {
    program = argv[0];
    if (argc > 2 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_created_once_and_reach_late_joiners),
        cmocka_unit_test(another_rate_reaches_all_and_those_that_join),
        cmocka_unit_test(a_node_without_a_store_is_home_of_nothing),
        cmocka_unit_test(sums_of_many_fibers_are_exact_real),
        cmocka_unit_test(sums_of_many_fibers_are_exact_simulated),
        cmocka_unit_test(synchronous_operations_are_linearizable_real),
        cmocka_unit_test(synchronous_operations_are_linearizable_simulated),
        cmocka_unit_test(asynchronous_operations_keep_program_order_real),
        cmocka_unit_test(asynchronous_operations_keep_program_order_simulated),
        cmocka_unit_test(slots_that_come_are_no_shortcut),
        cmocka_unit_test(leaving_moves_slots_and_nothing_is_lost_under_load_real),
        cmocka_unit_test(leaving_moves_slots_and_nothing_is_lost_under_load_simulated),
        cmocka_unit_test(asynchronous_operations_keep_program_order_while_slots_move),
        cmocka_unit_test(a_crash_fails_operations_and_names_the_node_simulated),
        cmocka_unit_test(a_crash_fails_operations_and_names_the_node_real),
        cmocka_unit_test(damaged_messages_are_answered_or_dropped),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
