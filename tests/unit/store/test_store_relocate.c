/* Rows that move to who localizes them, on real sockets and in the simulator: fights, order,
 * leaving, deaths, files. */
#include "store/adaptive/owner.h"
#include "store/rows/slot_index.h"
#include "store_world.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { KEYS = 240, WIDTH = 4, LIST = 40, ROUNDS = 10, EACH = 2 };

static uint64_t key_at(const struct tide_table *table, uint64_t i) {
    return table->options.keys == TIDE_KEYS_HASHED ? tide_mix64(i + 1) : i;
}

static void some_keys(struct fiber *f, const struct tide_table *table, uint64_t *keys, size_t n,
                      uint64_t count) {
    for (size_t i = 0; i < n; i++) {
        keys[i] = key_at(table, tide_random_below(&f->random, count));
    }
}

/* ---- fights ---- */

struct fight {
    atomic_int rounds_left, rounds_done; /* as in sums: below 0 until told otherwise */
    unsigned owners_wrong;
};

struct flights { /* of a round */
    struct tide_ticket pushes[KEYS / LIST], moves[KEYS / LIST];
    bool pushed[KEYS / LIST], moved[KEYS / LIST];
};

static void fight_calls(struct fiber *f, struct tide_table *table, struct flights *flights) {
    uint64_t keys[KEYS], wanted[LIST];
    float ones[LIST * WIDTH], rows[LIST * WIDTH];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = key_at(table, i);
    }
    shuffle(&f->random, keys, KEYS);
    for (size_t l = 0; l < KEYS / LIST; l++) {
        some_keys(f, table, wanted, LIST, KEYS);
        memcpy(wanted, keys + l * LIST, LIST / 2 * sizeof *keys); /* half of what comes next */
        CHECK(f, tide_table_localize(table, wanted, LIST, l % 3 ? &flights->moves[l] : NULL) == 0);
        flights->moved[l] = l % 3;
        CHECK(f, tide_table_push(table, keys + l * LIST, LIST, ones,
                                 l % 2 ? &flights->pushes[l] : NULL) == 0);
        flights->pushed[l] = l % 2;
        if (l % 3 == 2) {
            CHECK(f, tide_table_pull(table, keys + l * LIST, LIST, rows, NULL) == 0);
            for (size_t i = 0; i < LIST * WIDTH; i++) {
                CHECK(f, rows[i] == rows[i / WIDTH * WIDTH] && rows[i] >= 1);
            }
        }
    }
}

/* Waits for all it has begun, also when its node has left and they fail. */
static void fight_round(struct fiber *f, struct tide_table *table) {
    struct flights flights = {0};
    fight_calls(f, table, &flights);
    int code = 0;
    for (size_t l = 0; l < KEYS / LIST; l++) {
        int moved = flights.moved[l] ? tide_ticket_wait(&flights.moves[l]) : 0;
        int pushed = flights.pushed[l] ? tide_ticket_wait(&flights.pushes[l]) : 0;
        code = code ? code : moved ? moved : pushed;
    }
    CHECK(f, code == 0);
}

static void fight_run(struct fiber *f) {
    struct fight *fight = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "fight", &table) == 0);
    for (int i = 0; !f->failure[0]; i++) {
        int left = atomic_load(&fight->rounds_left);
        if (left >= 0 && i >= left) {
            atomic_fetch_add(&fight->rounds_done, i);
            return;
        }
        fight_round(f, table);
        (void)tide_sleep(tide_random_below(&f->random, 50000)); /* or simulated time stalls */
    }
}

static void fight_sums_run(struct fiber *f) {
    struct fight *fight = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "fight", &table) == 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, (uint64_t[]){key_at(table, i)}, 1, row, NULL) == 0);
        for (int j = 0; j < WIDTH && !f->failure[0]; j++) {
            if (row[j] != (float)atomic_load(&fight->rounds_done)) {
                snprintf(f->failure, sizeof f->failure, "key %llu has %g, not %d",
                         (unsigned long long)i, (double)row[j], atomic_load(&fight->rounds_done));
            }
        }
    }
}

/* At rest each key has one owner, and its home knows it. */
static void owners_agree(struct cluster *c, const char *name) {
    for (uint64_t i = 0; i < KEYS; i++) {
        unsigned owners = 0;
        uint16_t owner = 0, said, home = 0;
        for (unsigned n = 0; n < c->count; n++) {
            if (!c->nodes[n]) {
                continue;
            }
            struct tide_table *table = table_of(c, n, name);
            uint64_t key = key_at(table, i);
            assert_int_equal(tide_table_where(table, key, &said), 0);
            if (said == tide_node_id(c->nodes[n])) {
                owners++;
                owner = said;
            }
            home = tide__route_home(table->slots[tide__slot_of(table, key)].route);
        }
        assert_int_equal(owners, 1);
        struct tide_table *there = table_of(c, home - 1u, name);
        assert_int_equal(tide_table_where(there, key_at(there, i), &said), 0);
        assert_int_equal(said, owner);
    }
}

static void nothing_is_left(struct cluster *c, const char *name) {
    uint64_t in = 0, out = 0;
    for (unsigned n = 0; n < c->count; n++) {
        struct tide_table_stats s;
        if (c->nodes[n]) {
            tide_table_stats(table_of(c, n, name), &s);
            assert_int_equal(s.surprises, 0);
            assert_int_equal(tide__slab_used(&tide__owners_of(table_of(c, n, name))->arrivals), 0);
            in += s.relocated_in;
            out += s.relocated_out;
            assert_true(s.relocated_in == 0 || s.relocate_ns_sum / s.relocated_in > 0);
            assert_true(s.relocate_ns_max <= s.relocate_ns_sum);
        }
    }
    assert_true(in > 0 && out > 0);
}

static void nodes_fight(bool simulated, struct tide_table_options options, unsigned nodes,
                        uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, nodes, seed);
    options.name = "fight";
    options.width = WIDTH;
    options.technique = TIDE_RELOCATE;
    create(&c, options);
    struct fight fight = {.rounds_left = ROUNDS};
    struct fiber fibers[4 * EACH];
    for (unsigned i = 0; i < nodes * EACH; i++) {
        start(&c, &fibers[i], i % nodes, i, fight_run, &fight);
    }
    finish(&c, fibers, nodes * EACH);
    nothing_is_left(&c, "fight");
    owners_agree(&c, "fight");
    for (unsigned n = 0; n < nodes; n++) {
        run_alone(&c, n, fight_sums_run, &fight);
    }
    close_cluster(&c);
}

static void no_push_is_lost_when_nodes_fight_for_keys_real(void **state) {
    (void)state;
    nodes_fight(false, (struct tide_table_options){.key_count = KEYS}, 3, 1);
    nodes_fight(false, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, 4, 1);
}

static void no_push_is_lost_when_nodes_fight_for_keys_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        nodes_fight(true, (struct tide_table_options){.key_count = KEYS, .slots = TIDE_SLOTS_RANGE},
                    3 + seed % 2, seed);
        nodes_fight(true, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, 3, seed);
    }
}

/* ---- one key, one-hot rows: every push is visible exactly once, in order ---- */

enum { HOT_FIBERS = 6, HOT_PUSHES = 10, HOT_WIDTH = HOT_FIBERS * HOT_PUSHES, HOT_OPS = 60 };

struct hot_op {
    uint64_t invoked, returned, set;
    int push;
};
struct hot {
    struct hot_op ops[HOT_FIBERS * HOT_OPS + 1];
    atomic_uint count;
};

static void hot_run(struct fiber *f) {
    struct hot *hot = f->arg;
    struct tide_table *table;
    const uint64_t key = 0;
    int pushes = 0;
    CHECK(f, tide_table_find(f->node, "hot", &table) == 0);
    for (int i = 0; i < HOT_OPS && !f->failure[0]; i++) {
        struct hot_op op = {.push = -1};
        struct tide_ticket move;
        float row[HOT_WIDTH] = {0};
        bool moves = tide_random_below(&f->random, 2), waits = tide_random_below(&f->random, 2);
        if (moves) {
            CHECK(f, tide_table_localize(table, &key, 1, waits ? NULL : &move) == 0);
        }
        if (pushes < HOT_PUSHES && tide_random_below(&f->random, 2)) {
            op.push = (int)f->index * HOT_PUSHES + pushes++;
            row[op.push] = 1;
        }
        op.invoked = tide_node_now(f->node);
        CHECK(f, (op.push >= 0 ? tide_table_push(table, &key, 1, row, NULL)
                               : tide_table_pull(table, &key, 1, row, NULL)) == 0);
        op.returned = tide_node_now(f->node);
        for (int j = 0; j < HOT_WIDTH && op.push < 0; j++) {
            CHECK(f, row[j] == 0 || row[j] == 1);
            op.set |= row[j] == 1 ? UINT64_C(1) << j : 0;
        }
        hot->ops[atomic_fetch_add(&hot->count, 1)] = op;
        if (moves && !waits) {
            CHECK(f, tide_ticket_wait(&move) == 0);
        }
        if (tide_random_below(&f->random, 4) == 0) {
            (void)tide_sleep(tide_random_below(&f->random, 200000));
        }
    }
}

/* NULL: linearizable. The nodes' clocks are one clock here. */
static const char *hot_verdict(const struct hot *hot) {
    const unsigned n = hot->count;
    for (unsigned i = 0; i < n; i++) {
        const struct hot_op *pull = &hot->ops[i];
        for (unsigned j = 0; j < n && pull->push < 0; j++) {
            const struct hot_op *other = &hot->ops[j];
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
        }
    }
    return NULL;
}

static void one_key_is_linearizable(bool simulated, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 3, seed);
    create(&c,
           (struct tide_table_options){
               .name = "hot", .key_count = 4096, .width = HOT_WIDTH, .technique = TIDE_RELOCATE});
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
    nothing_is_left(&c, "hot");
    hot->ops[hot->count++] = (struct hot_op){UINT64_MAX - 1, UINT64_MAX, 0, -1}; /* saw nothing */
    assert_non_null(hot_verdict(hot)); /* the checker itself */
    free(hot);
    close_cluster(&c);
}

static void synchronous_operations_on_a_moving_key_are_linearizable(void **state) {
    (void)state;
    one_key_is_linearizable(false, 1);
    for (uint64_t seed = 1; seed <= 15; seed++) {
        one_key_is_linearizable(true, seed);
    }
}

/* ---- asynchronous order ---- */

enum { ORDER_KEYS = 24, ORDER_STEPS = 30, ORDER_FIBERS = 6 };

static void order_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "order", &table) == 0);
    struct tide_ticket *tickets = calloc(3 * ORDER_STEPS, sizeof *tickets);
    float *seen = calloc(ORDER_STEPS * ORDER_KEYS, sizeof *seen);
    uint64_t keys[ORDER_KEYS], wanted[ORDER_KEYS];
    for (uint64_t i = 0; i < ORDER_KEYS; i++) {
        keys[i] = f->index * ORDER_KEYS + i; /* nobody else writes them, but all want them */
    }
    for (int round = 0; round < 6; round++) {
        for (int step = 0; step < ORDER_STEPS; step++) {
            float values[ORDER_KEYS];
            for (int i = 0; i < ORDER_KEYS; i++) {
                values[i] = (float)(round * 1000 + step + 1);
            }
            some_keys(f, table, wanted, ORDER_KEYS, ORDER_FIBERS * ORDER_KEYS);
            memcpy(wanted, keys + step % 8, 8 * sizeof *keys);
            CHECK(f, tide_table_push(table, keys, ORDER_KEYS, values, &tickets[3 * step]) == 0);
            memset(values, 0, sizeof values); /* the rows of an asynchronous push were copied */
            CHECK(f, tide_table_localize(table, wanted, step % 3 ? 4 : ORDER_KEYS,
                                         &tickets[3 * step + 1]) == 0);
            CHECK(f, tide_table_pull(table, keys, ORDER_KEYS, seen + step * ORDER_KEYS,
                                     &tickets[3 * step + 2]) == 0);
        }
        for (int t = 0; t < 3 * ORDER_STEPS; t++) {
            CHECK(f, tide_ticket_wait(&tickets[t]) == 0);
        }
        for (int i = 0; i < ORDER_STEPS * ORDER_KEYS && !f->failure[0]; i++) {
            CHECK(f, seen[i] == (float)(round * 1000 + i / ORDER_KEYS + 1));
        }
    }
    free(tickets);
    free(seen);
}

/* Slots of these keys go round while all push. */
static void order_mover_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "order", &table) == 0);
    while (atomic_load(&f->cluster->running) > 1 && !f->failure[0]) {
        uint32_t slots[ORDER_FIBERS * ORDER_KEYS];
        const uint32_t count = 1 + (uint32_t)tide_random_below(&f->random, TIDE_COUNT(slots));
        for (uint32_t key = 0; key < count; key++) {
            slots[key] = tide__slot_of(table, key);
        }
        const uint16_t to = (uint16_t)(1 + tide_random_below(&f->random, 3));
        int code = tide_table_move(table, slots, count, to);
        CHECK(f, code == 0 || code == TIDE_EBUSY);
    }
}

enum order_change { SLOTS_STAY, NODES_LEAVE, SLOTS_MOVE };

static void order_is_kept(bool simulated, uint64_t seed, enum order_change change) {
    struct cluster c;
    open_cluster(&c, simulated, change == NODES_LEAVE ? 5 : 3, seed);
    create(&c, (struct tide_table_options){.name = "order",
                                           .key_count = ORDER_FIBERS * ORDER_KEYS,
                                           .width = 1,
                                           .technique = TIDE_RELOCATE,
                                           .update = TIDE_UPDATE_ASSIGN});
    struct fiber fibers[ORDER_FIBERS + 1];
    for (unsigned i = 0; i < ORDER_FIBERS; i++) {
        start(&c, &fibers[i], i % 3, i, order_run, NULL);
    }
    if (change == SLOTS_MOVE && simulated) { /* the controller's word overtakes what was sent before */
        tide_sim_set_pair_latency(c.sim, "n2", "n3", (seed % 4) * 1000000);
    }
    if (change == SLOTS_MOVE) {
        start(&c, &fibers[ORDER_FIBERS], (unsigned)(seed % 3), ORDER_FIBERS, order_mover_run, NULL);
    }
    for (unsigned n = 3; n < 5 && change == NODES_LEAVE; n++) {
        tide_net_leave(tide_net_of(c.nodes[n]));
        pause_cluster(&c, 1000000);
    }
    finish(&c, fibers, ORDER_FIBERS + (change == SLOTS_MOVE));
    nothing_is_left(&c, "order");
    close_cluster(&c);
}

static void asynchronous_operations_on_moving_keys_keep_program_order(void **state) {
    (void)state;
    order_is_kept(false, 1, SLOTS_STAY);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        order_is_kept(true, seed, SLOTS_STAY);
    }
}

static void asynchronous_order_is_kept_while_slots_move_too(void **state) {
    (void)state;
    order_is_kept(false, 1, NODES_LEAVE);
    order_is_kept(false, 1, SLOTS_MOVE);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        order_is_kept(true, seed, NODES_LEAVE);
        order_is_kept(true, seed, SLOTS_MOVE);
    }
}

/* ---- leaving ---- */

static void leave_during_a_fight(bool simulated, struct tide_table_options options, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 4, seed);
    options.name = "fight";
    options.width = WIDTH;
    options.technique = TIDE_RELOCATE;
    create(&c, options);
    struct fight fight = {.rounds_left = -1}, short_fight = {.rounds_left = 4};
    struct fiber fibers[2 * EACH + 2];
    for (unsigned i = 0; i < 2 * EACH; i++) {
        start(&c, &fibers[i], i % 2, i, fight_run, &fight);
    }
    for (unsigned i = 0; i < 2; i++) { /* the leavers own rows of all homes */
        start(&c, &fibers[2 * EACH + i], 2 + i, 2 * EACH + i, fight_run, &short_fight);
    }
    pause_cluster(&c, 5000000);
    tide_net_leave(tide_net_of(c.nodes[2]));
    pause_cluster(&c, 2000000);
    tide_net_leave(tide_net_of(c.nodes[3]));
    for (unsigned n = 2; n < 4; n++) {
        int state = TIDE_MEMBER_UP, code;
        char reason[200];
        for (int i = 0; i < 20000 && state != TIDE_MEMBER_LEFT; i++) {
            pause_cluster(&c, 1000000);
            state = tide_net_state(tide_net_of(c.nodes[n]), &code, reason, sizeof reason);
        }
        if (state != TIDE_MEMBER_LEFT) {
            fail_msg("n%u does not get away, seed %llu", n + 1, (unsigned long long)seed);
        }
    }
    pause_cluster(&c, 5000000);
    atomic_store(&fight.rounds_left, 0);
    finish(&c, fibers, 2 * EACH); /* the leavers' own workers may have met an end of their node */
    atomic_fetch_add(&fight.rounds_done, atomic_load(&short_fight.rounds_done));
    for (unsigned n = 2; n < 4; n++) {
        struct tide_table_stats stats;
        tide_table_stats(table_of(&c, n, "fight"), &stats);
        assert_int_equal(stats.rows, 0);
        close_node(&c, n);
    }
    nothing_is_left(&c, "fight");
    owners_agree(&c, "fight");
    for (unsigned n = 0; n < 2; n++) {
        if (!fibers[2 * EACH].failure[0] && !fibers[2 * EACH + 1].failure[0]) {
            run_alone(&c, n, fight_sums_run, &fight);
        }
    }
    close_cluster(&c);
}

static void nodes_leave_during_a_fight_and_take_nothing_with_them(void **state) {
    (void)state;
    leave_during_a_fight(false, (struct tide_table_options){.key_count = KEYS}, 1);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        leave_during_a_fight(true, (struct tide_table_options){.key_count = KEYS}, seed);
        leave_during_a_fight(true, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, seed);
    }
}

/* ---- death ---- */

struct death {
    atomic_bool owned, crashed;
    atomic_int died;
};

/* Owns a share of all keys, then dies. */
static void victim_run(struct fiber *f) {
    struct death *death = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    uint64_t keys[KEYS / 2];
    for (uint64_t i = 0; i < KEYS / 2; i++) {
        keys[i] = 2 * i;
    }
    CHECK(f, tide_table_localize(table, keys, KEYS / 2, NULL) == 0);
    atomic_store(&death->owned, true);
}

/* All at once, and fights for the victim's rows until they are dead. */
static void mourner_run(struct fiber *f) {
    struct death *death = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    float row[WIDTH] = {1, 1, 1, 1};
    for (int i = 0; !atomic_load(&death->crashed) || i % 50; i++) {
        struct tide_ticket tickets[3];
        uint64_t keys[8];
        some_keys(f, table, keys, 8, KEYS);
        int codes[3] = {tide_table_localize(table, keys, 8, &tickets[0]),
                        tide_table_push(table, keys, 1, row, &tickets[1]),
                        tide_table_pull(table, keys + 1, 1, row, &tickets[2])};
        for (int t = 0; t < 3; t++) {
            int code = codes[t] ? codes[t] : tide_ticket_wait(&tickets[t]);
            if (code && code != TIDE_EUNREACHABLE &&
                (code != TIDE_EDIED || !strstr(tide_error_message(), "n3"))) {
                snprintf(f->failure, sizeof f->failure, "%s", tide_error_message());
                return;
            }
            atomic_fetch_add(&death->died, code == TIDE_EDIED);
        }
        (void)tide_sleep(100000);
    }
}

/* Every key answers or says who died; localize too. */
static void after_run(struct fiber *f) {
    struct death *death = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    int dead = 0, alive = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH] = {1};
        int pulled = tide_table_pull(table, &key, 1, row, NULL);
        CHECK(f, pulled == 0 || (pulled == TIDE_EDIED && strstr(tide_error_message(), "n3")));
        int moved = tide_table_localize(table, &key, 1, NULL);
        CHECK(f, moved == pulled);
        CHECK(f, tide_table_push(table, &key, 1, row, NULL) == pulled);
        dead += pulled != 0;
        alive += pulled == 0;
    }
    CHECK(f, dead > 0 && alive > 0);
    atomic_fetch_add(&death->died, dead);
}

static void a_death_in_a_fight(bool simulated, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, simulated ? 3 : 2, seed);
    create(&c, (struct tide_table_options){
                   .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
    struct death death = {0};
    struct fiber fibers[5];
    pid_t pid = 0;
    if (simulated) {
        run_alone(&c, 2, victim_run, &death);
    } else {
        pid = fork();
        if (pid == 0) {
            execl(program, program, "--serve", tide_node_endpoint(c.nodes[0]), (char *)NULL);
            _exit(1);
        }
        wait_members(&c, 3);
        pause_cluster(&c, 300000000); /* it localizes by itself */
    }
    for (unsigned i = 0; i < 4; i++) {
        start(&c, &fibers[i], i % 2, i, mourner_run, &death);
    }
    if (simulated) {
        start(&c, &fibers[4], 2, 4, mourner_run, &death);
    }
    pause_cluster(&c, 3000000 + seed * 100000);
    if (simulated) {
        tide_sim_crash(c.sim, "n3");
    } else {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    pause_cluster(&c, 50000000);
    atomic_store(&death.crashed, true);
    if (simulated) {
        atomic_fetch_sub(&c.running, 1); /* the victim's fiber ended with it */
    }
    finish(&c, fibers, 4);
    run_alone(&c, 0, after_run, &death);
    if (simulated) {
        run_alone(&c, 1, after_run, &death);
    }
    assert_true(atomic_load(&death.died) > 0);
    close_cluster(&c);
}

static void a_death_fails_what_the_node_owned_and_nothing_hangs_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        a_death_in_a_fight(true, seed);
    }
}

static void a_death_fails_what_the_node_owned_and_nothing_hangs_real(void **state) {
    (void)state;
    a_death_in_a_fight(false, 1);
}

static int serve_main(void *state) {
    struct tide_node *node = state;
    struct tide_table *table;
    while (tide_table_find(node, "w", &table)) {
        (void)tide_sleep(1000000);
    }
    do {
        uint64_t keys[KEYS / 2];
        for (uint64_t i = 0; i < KEYS / 2; i++) {
            keys[i] = 2 * i;
        }
        (void)tide_table_localize(table, keys, KEYS / 2, NULL);
    } while (tide_sleep(100000) == 0);
    return 0;
}

static int serve(const char *join) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct tide_node *node;
    struct tide_node_options options = {.name = "n3", .join = join, .workers = 1};
    if (tide_node_create(&options, &node)) {
        return 1;
    }
    struct tide_actor_options actor = {.type = "victim",
                                       .run = serve_main,
                                       .state = node,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .stack_bytes = 1 << 20};
    if (tide_spawn(node, &actor, NULL)) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

/* ---- plain use ---- */

static void use_run(struct fiber *f) {
    struct tide_table *table, *fixed;
    CHECK(f, tide_table_find(f->node, "w", &table) == 0);
    CHECK(f, tide_table_find(f->node, "fixed", &fixed) == 0);
    const uint16_t self = tide_node_id(f->node);
    uint64_t keys[KEYS], hit[KEYS / 64 + 1];
    uint16_t where;
    static float rows[KEYS * WIDTH];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
        for (int j = 0; j < WIDTH; j++) {
            rows[i * WIDTH + (uint64_t)j] = (float)i;
        }
    }
    struct tide_table_stats before, after;
    CHECK(f,
          tide_table_push(table, keys, KEYS / 2, rows, NULL) == 0); /* the rest stays initial */
    CHECK(f, tide_table_pull_local(table, keys, KEYS, rows, hit) < KEYS);
    CHECK(f, tide_table_localize(table, keys, KEYS, NULL) == 0);
    CHECK(f, tide_table_pull_local(table, keys, KEYS, rows, hit) == KEYS);
    tide_table_stats(table, &before);
    CHECK(f, tide_table_localize(table, keys, KEYS, NULL) == 0); /* nothing to do, no message */
    CHECK(f, tide_table_pull(table, keys, KEYS, rows, NULL) == 0);
    tide_table_stats(table, &after);
    CHECK(f, after.pulls_local == before.pulls_local + KEYS);
    CHECK(f, after.pulls_remote == before.pulls_remote);
    CHECK(f, after.relocated_in == before.relocated_in && before.relocated_in > 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        CHECK(f, rows[i * WIDTH] == (i < KEYS / 2 ? (float)i : 0));
        CHECK(f, tide_table_where(table, i, &where) == 0 && where == self);
    }
    /* Adagrad's sum came along: a second equal push moves the value by less. */
    CHECK(f, tide_table_localize(table, (uint64_t[]){KEYS}, 1, NULL) == TIDE_ERANGE);
    CHECK(f, tide_table_localize(table, keys, 0, NULL) == 0);
    uint64_t twice[4] = {7, 7, 9, 7};
    CHECK(f, tide_table_localize(table, twice, 4, NULL) == 0);
    CHECK(f, tide_table_localize(fixed, keys, KEYS, NULL) == 0);
    tide_table_stats(fixed, &after);
    CHECK(f, after.localize_noop == KEYS && after.relocated_in == 0);
}

static void state_run(struct fiber *f) {
    struct tide_table *table;
    const uint64_t key = 11;
    const float one = 1;
    float before, value;
    CHECK(f, tide_table_find(f->node, "ada", &table) == 0);
    CHECK(f, tide_table_pull(table, &key, 1, &before, NULL) == 0);
    CHECK(f, tide_table_localize(table, &key, 1, NULL) == 0);
    CHECK(f, tide_table_push(table, &key, 1, &one, NULL) == 0);
    CHECK(f, tide_table_pull(table, &key, 1, &value, NULL) == 0);
    float *steps = f->arg;
    steps[f->index] = before - value;
}

static void localized_rows_are_served_in_place_with_their_state(void **state) {
    (void)state;
    for (int simulated = 0; simulated < 2; simulated++) {
        struct cluster c;
        open_cluster(&c, simulated, 3, 5);
        create(&c, (struct tide_table_options){
                       .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
        create(&c, (struct tide_table_options){.name = "fixed", .key_count = KEYS, .width = WIDTH});
        create(&c, (struct tide_table_options){.name = "ada",
                                               .key_count = KEYS,
                                               .width = 1,
                                               .technique = TIDE_RELOCATE,
                                               .update = TIDE_UPDATE_ADAGRAD,
                                               .lr = 1});
        run_alone(&c, 1, use_run, NULL);
        float steps[3][1];
        for (unsigned n = 0; n < 3; n++) {
            run_alone(&c, n, state_run, steps[n]);
        }
        for (int n = 0; n < 3; n++) { /* Duchi et al. (2011): the n-th equal step is 1 / sqrt(n) */
            assert_true(fabsf(steps[n][0] - 1 / sqrtf((float)n + 1)) < 1e-5f);
        }
        close_cluster(&c);
    }
}

/* ---- files ---- */

struct files {
    char path[100];
    float rows[KEYS * WIDTH];
};

static void save_run(struct fiber *f) {
    struct files *files = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "fight", &table) == 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        float row[WIDTH] = {(float)i, 1, 2, 3};
        uint64_t key = key_at(table, i);
        CHECK(f, tide_table_push(table, &key, 1, row, NULL) == 0);
        CHECK(f, i % 3 || tide_table_localize(table, &key, 1, NULL) == 0);
        CHECK(f, tide_table_pull(table, &key, 1, files->rows + i * WIDTH, NULL) == 0);
    }
    CHECK(f, tide_table_save(table, files->path) == 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = key_at(table, i);
        CHECK(f, tide_table_push(table, &key, 1, (float[WIDTH]){9, 9, 9, 9}, NULL) == 0);
    }
}

static void load_run(struct fiber *f) {
    struct files *files = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "fight", &table) == 0);
    CHECK(f, tide_table_load(table, files->path) == 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, (uint64_t[]){key_at(table, i)}, 1, row, NULL) == 0);
        CHECK(f, memcmp(row, files->rows + i * WIDTH, sizeof row) == 0);
    }
}

static void rows_away_from_home_are_saved_and_loaded(void **state) {
    (void)state;
    for (int hashed = 0; hashed < 2; hashed++) {
        struct cluster c;
        struct files *files = calloc(1, sizeof *files);
        open_cluster(&c, false, 3, 1);
        create(&c, (struct tide_table_options){.name = "fight",
                                               .keys = hashed ? TIDE_KEYS_HASHED : TIDE_KEYS_DENSE,
                                               .key_count = hashed ? 0 : KEYS,
                                               .width = WIDTH,
                                               .technique = TIDE_RELOCATE});
        snprintf(files->path, sizeof files->path, "%s/table", c.directory);
        run_alone(&c, 2, save_run, files);
        run_alone(&c, 1, load_run, files);
        free(files);
        close_cluster(&c);
    }
}

int main(int argc, char **argv) {
    program = argv[0];
    if (argc > 2 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2]);
    }
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(localized_rows_are_served_in_place_with_their_state),
        cmocka_unit_test(no_push_is_lost_when_nodes_fight_for_keys_real),
        cmocka_unit_test(no_push_is_lost_when_nodes_fight_for_keys_simulated),
        cmocka_unit_test(synchronous_operations_on_a_moving_key_are_linearizable),
        cmocka_unit_test(asynchronous_operations_on_moving_keys_keep_program_order),
        cmocka_unit_test(asynchronous_order_is_kept_while_slots_move_too),
        cmocka_unit_test(nodes_leave_during_a_fight_and_take_nothing_with_them),
        cmocka_unit_test(a_death_fails_what_the_node_owned_and_nothing_hangs_simulated),
        cmocka_unit_test(a_death_fails_what_the_node_owned_and_nothing_hangs_real),
        cmocka_unit_test(rows_away_from_home_are_saved_and_loaded),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
