/* Moments of a change of homes that seeds come to too rarely: what is in flight between two nodes
 * is held back until others have acted. Each test is for one rule, which a planted mistake leaves
 * out. */
#include "store_world.h"

#include "store/adaptive/owner.h"
#include "store/replica/replica.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { KEYS = 4096 };
#define MS UINT64_C(1000000)

static struct tide_store *store_of(struct cluster *c, uint16_t id) {
    return tide_store_of(c->nodes[id - 1]);
}

static uint32_t route_at(struct cluster *c, uint16_t id, uint64_t key) {
    struct tide_table *table = table_of(c, id - 1u, "t");
    return (uint32_t)atomic_load(&table->slots[tide__slot_of(table, key)].route);
}

static uint16_t home_at(struct cluster *c, uint16_t id, uint64_t key) {
    return tide__route_home(route_at(c, id, key));
}

/* A key of that home; with `copy`, one whose only copy is there. */
static uint64_t key_on(struct cluster *c, uint16_t home, uint16_t copy) {
    const struct tide_table *table = table_of(c, 0, "t");
    for (uint64_t key = 0; key < KEYS; key++) {
        const uint32_t slot = tide__slot_of(table, key);
        if (home_at(c, 1, key) == home &&
            (!copy || atomic_load(&tide__replicas_of(table)->chain[slot]) == copy)) {
            return key;
        }
    }
    fail_msg("no key of node %u", home);
    return 0;
}

#define WAIT_UNTIL(c, condition)                                                                   \
    do {                                                                                           \
        int tries = 0;                                                                             \
        while (!(condition) && tries++ < 50000) {                                                  \
            pause_cluster(c, MS / 10);                                                             \
        }                                                                                          \
        if (!(condition)) {                                                                        \
            fail_msg("line %d: it does not come to %s", __LINE__, #condition);                     \
        }                                                                                          \
    } while (0)

/* A worker that does one thing when it is told to, then the next. */
struct steps {
    uint64_t key;
    atomic_int told, done;
    float value;      /* that the last pull showed */
    atomic_int shown; /* it was answered */
};

static void step_wait(struct steps *s, int step) {
    while (atomic_load(&s->told) < step) {
        (void)tide_sleep(MS / 10);
    }
}

static void step(struct cluster *c, struct steps *s, int number) {
    atomic_store(&s->told, number);
    WAIT_UNTIL(c, atomic_load(&s->done) >= number);
}

/* Two pushes, one after the other and without waiting for an answer; then what the row is. */
static void push_twice_run(struct fiber *f) {
    struct steps *s = f->arg;
    struct tide_table *table;
    struct tide_ticket tickets[2];
    const float values[2] = {1, 2};
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (int i = 0; i < 2; i++) {
        step_wait(s, i + 1);
        CHECK(f, tide_table_push(table, &s->key, 1, &values[i], &tickets[i]) == 0);
        atomic_store(&s->done, i + 1);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(f, tide_ticket_wait(&tickets[i]) == 0);
    }
    CHECK(f, tide_table_pull(table, &s->key, 1, &s->value, NULL) == 0);
}

static void push_run(struct fiber *f) {
    struct steps *s = f->arg;
    struct tide_table *table;
    const float one = 1;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_push(table, &s->key, 1, &one, NULL) == 0);
}

static void pull_run(struct fiber *f) {
    struct steps *s = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_pull(table, &s->key, 1, &s->value, NULL) == 0);
    atomic_store(&s->shown, 1);
}

static void move_run(struct fiber *f) {
    struct steps *s = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    const uint32_t slot = tide__slot_of(table, s->key);
    CHECK(f, tide_table_move(table, &slot, 1, 3) == 0);
}

static void localize_run(struct fiber *f) {
    struct steps *s = f->arg;
    struct tide_table *table;
    const float one = 1;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_localize(table, &s->key, 1, NULL) == 0);
    CHECK(f, tide_table_push(table, &s->key, 1, &one, NULL) == 0);
}

/* Node 2 is home of nothing any more. */
static void empty_run(struct fiber *f) {
    struct tide_table *table;
    uint32_t slots[TIDE_SLOT_COUNT];
    size_t count = 0;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        slots[count] = slot;
        count += tide__route_home((uint32_t)atomic_load(&table->slots[slot].route)) == 2;
    }
    CHECK(f, tide_table_move(table, slots, count, 4) == 0);
}

static bool has_left(struct cluster *c, uint16_t id) {
    int code;
    char reason[200];
    return tide_net_state(tide_net_of(c->nodes[id - 1]), &code, reason, sizeof reason) ==
           TIDE_MEMBER_LEFT;
}

/* Node 2 leaves, and its successor, node 3, has heard of it: node 2 itself has not, nor node 4. */
static void begin_change(struct cluster *c, struct tide_table_options options, uint64_t *key) {
    open_cluster(c, true, 4, 1);
    options.name = "t";
    options.key_count = KEYS;
    options.width = 1;
    options.replicas = 1;
    create(c, options);
    *key = key_on(c, 2, 3);
    pause_cluster(c, TIDE_SECOND); /* leases are there */
    tide_sim_set_latency(c->sim, 10 * MS, 10 * MS);
    tide_net_leave(tide_net_of(c->nodes[1]));
    WAIT_UNTIL(c, home_at(c, 1, *key) == 3);
    tide_sim_cut(c->sim, "n1", "n2", true);
    tide_sim_cut(c->sim, "n3", "n2", true);
    tide_sim_cut(c->sim, "n1", "n4", true);
    WAIT_UNTIL(c, home_at(c, 3, *key) == 3);
    assert_int_equal(home_at(c, 2, *key), 2);
    assert_int_equal(home_at(c, 4, *key), 2);
}

static void old_home_hears(struct cluster *c, uint64_t key) {
    tide_sim_cut(c->sim, "n3", "n2", false);
    tide_sim_cut(c->sim, "n1", "n2", false);
    WAIT_UNTIL(c, home_at(c, 2, key) == 3);
}

static bool is_open(struct cluster *c, uint64_t key) {
    struct tide_table *table = table_of(c, 2, "t");
    return tide__replicas_of(table)->slots[tide__slot_of(table, key)].opening == TIDE__OPEN;
}

/* A push comes to the old home before that hears, and is dropped; the next one of its worker comes
 * after. Would that be passed on, it would be there before the first. */
static void an_old_home_passes_on_nothing_of_who_has_not_heard(void **state) {
    (void)state;
    struct cluster c;
    struct steps s = {0};
    struct fiber fiber;
    begin_change(&c, (struct tide_table_options){.update = TIDE_UPDATE_ASSIGN}, &s.key);
    start(&c, &fiber, 3, 0, push_twice_run, &s);
    step(&c, &s, 1);
    pause_cluster(&c, 15 * MS);
    old_home_hears(&c, s.key);
    step(&c, &s, 2);
    pause_cluster(&c, 25 * MS);
    WAIT_UNTIL(&c, is_open(&c, s.key));
    pause_cluster(&c, MS);
    tide_sim_cut(c.sim, "n1", "n4", false);
    finish(&c, &fiber, 1);
    assert_true(s.value == 2);
    close_cluster(&c);
}

/* A row at a home that goes, with a push that its copies do not get any more: who would see it
 * there would miss it at the next home. */
static void a_home_that_goes_shows_nothing_that_its_successor_lacks(void **state) {
    (void)state;
    struct cluster c;
    struct steps s = {0}, early = {0}, late = {0};
    struct fiber pushing, pulling, last;
    begin_change(&c,
                 (struct tide_table_options){.durability = TIDE_DURABLE_WINDOW,
                                             .window_ns = 50 * MS,
                                             .window_bytes = 1 << 20},
                 &s.key);
    early.key = late.key = s.key;
    start(&c, &pushing, 3, 0, push_run, &s);
    pause_cluster(&c, 15 * MS);
    start(&c, &pulling, 3, 1, pull_run, &early);
    pause_cluster(&c, 30 * MS);
    old_home_hears(&c, s.key);
    WAIT_UNTIL(&c, is_open(&c, s.key));
    const bool seen = atomic_load(&early.shown) && early.value == 1;
    start(&c, &last, 0, 0, pull_run, &late);
    WAIT_UNTIL(&c, atomic_load(&late.shown));
    assert_true(!seen || late.value == 1);
    tide_sim_cut(c.sim, "n1", "n4", false);
    finish(&c, &pushing, 1);
    finish(&c, &pulling, 1);
    run_alone(&c, 0, pull_run, &late);
    assert_true(late.value == 1);
    close_cluster(&c);
}

/* A node that leaves gives a row back, which takes longer than everything else: nobody may take it
 * for lost. */
static void a_row_on_its_way_from_who_leaves_is_waited_for(void **state) {
    (void)state;
    struct cluster c;
    struct steps s = {0};
    open_cluster(&c, true, 4, 1);
    create(&c, (struct tide_table_options){
                   .name = "t", .key_count = KEYS, .width = 1, .technique = TIDE_RELOCATE});
    s.key = key_on(&c, 3, 0);
    run_alone(&c, 0, empty_run, NULL);
    run_alone(&c, 1, localize_run, &s);
    tide_sim_set_latency(c.sim, 10 * MS, 10 * MS);
    tide_net_leave(tide_net_of(c.nodes[1]));
    WAIT_UNTIL(&c, tide__slab_used(&tide__owners_of(table_of(&c, 2, "t"))->arrivals) > 0); /* it asks for the row */
    tide_sim_cut(c.sim, "n2", "n3", true);
    pause_cluster(&c, 400 * MS);
    tide_sim_cut(c.sim, "n2", "n3", false);
    WAIT_UNTIL(&c, has_left(&c, 2));
    run_alone(&c, 3, pull_run, &s);
    assert_true(s.value == 1);
    close_cluster(&c);
}

/* A push waits for the rows of its slot, the next one of its worker for an operation before it,
 * whose row is locked. When the slot comes, the first is first. */
static void what_waits_for_a_slot_is_before_what_waits_for_a_row(void **state) {
    (void)state;
    struct cluster c;
    struct steps s = {0}, other = {0};
    struct fiber moving, pushing, stalling;
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){
                   .name = "t", .key_count = KEYS, .width = 1, .update = TIDE_UPDATE_ASSIGN});
    s.key = key_on(&c, 2, 0);
    other.key = key_on(&c, 3, 0);
    run_alone(&c, 0, push_run, &s);
    tide_sim_cut(c.sim, "n2", "n3", true);
    start(&c, &moving, 0, 0, move_run, &s);
    WAIT_UNTIL(&c, (route_at(&c, 3, s.key) & TIDE__AWAITED) &&
                       !(route_at(&c, 3, s.key) & TIDE__OWN_HOLD));
    start(&c, &pushing, 2, 0, push_twice_run, &s);
    step(&c, &s, 1);
    struct tide_table *table = table_of(&c, 2, "t");
    WAIT_UNTIL(&c, table->parked != NULL);
    atomic_uint_fast64_t *word;
    uint64_t old;
    assert_int_equal(
        tide__row_lock(table, tide__slot_of(table, other.key), other.key, true, &word, &old),
        TIDE__FOUND);
    start(&c, &stalling, 0, 1, push_run, &other);
    WAIT_UNTIL(&c, store_of(&c, 3)->stalled != NULL);
    step(&c, &s, 2);
    pause_cluster(&c, MS);
    tide_sim_cut(c.sim, "n2", "n3", false);
    WAIT_UNTIL(&c, !(route_at(&c, 3, s.key) & TIDE__AWAITED));
    tide__word_unlock(word, old);
    finish(&c, &pushing, 1);
    finish(&c, &stalling, 1);
    finish(&c, &moving, 1);
    assert_true(s.value == 2);
    close_cluster(&c);
}

/* Two keys of node 2 whose only copies are on node 3; when that leaves, node 1 gets copies of their
 * slots, and the controller hears of the first one's before the second one has joined. */
static void keys_of_two_reports(struct cluster *c, uint64_t *keys) {
    const struct tide_table *table = table_of(c, 0, "t");
    enum { EARLY = 300 };
    unsigned count = 0;
    for (uint64_t key = 0; key < KEYS; key++) { /* dense by hash: a slot each, in order */
        if (home_at(c, 1, key) == 2 && atomic_load(&tide__replicas_of(table)->chain[key]) == 3) {
            assert_int_equal(tide__slot_of(table, key), key);
            keys[0] = count++ == EARLY ? key : keys[0];
            keys[1] = key;
        }
    }
    assert_true(count > 550); /* as many join at a time, and some are left */
}

static void push_both_run(struct fiber *f) {
    struct tide_ticket tickets[2];
    struct tide_table *table;
    const uint64_t *keys = f->arg;
    const float ones[2] = {1, 1};
    float rows[2];
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_push(table, keys, 2, ones, &tickets[0]) == 0);
    CHECK(f, tide_table_push(table, keys + 1, 1, ones, &tickets[1]) == 0);
    CHECK(f, tide_ticket_wait(&tickets[0]) == 0 && tide_ticket_wait(&tickets[1]) == 0);
    CHECK(f, tide_table_pull(table, keys, 2, rows, NULL) == 0);
    CHECK(f, rows[0] == 1 && rows[1] == 2);
}

/* A push of two slots goes again because the group of the first one changes, another of the second
 * slot alone does not. When the second one's group changes, both go to a copy that has neither. */
static void pushes_that_go_again_keep_their_order(void **state) {
    (void)state;
    struct cluster c;
    struct fiber pushing;
    uint64_t keys[2] = {0};
    open_cluster(&c, true, 3, 1);
    create(&c,
           (struct tide_table_options){.name = "t", .key_count = KEYS, .width = 1, .replicas = 1});
    keys_of_two_reports(&c, keys);
    struct tide__replicas *home = tide__replicas_of(table_of(&c, 1, "t")),
                          *copy = tide__replicas_of(table_of(&c, 0, "t"));
    pause_cluster(&c, TIDE_SECOND);
    tide_sim_set_latency(c.sim, 10 * MS, 10 * MS);
    tide_net_leave(tide_net_of(c.nodes[2]));
    WAIT_UNTIL(&c, tide__chain_count(atomic_load(&home->chain[keys[1]])) == 2);
    pause_cluster(&c, 2 * MS);
    start(&c, &pushing, 1, 0, push_both_run, keys);
    WAIT_UNTIL(&c, copy->slots[keys[1]].held);
    assert_int_equal(copy->slots[keys[0]].number + copy->slots[keys[1]].number, 0);
    tide_sim_cut(c.sim, "n3", "n1", true);
    WAIT_UNTIL(&c, atomic_load(&home->chain[keys[0]]) == 1);
    assert_int_equal(tide__chain_count(atomic_load(&home->chain[keys[1]])), 2);
    WAIT_UNTIL(&c, atomic_load(&home->chain[keys[1]]) == 1);
    pause_cluster(&c, 50 * MS);
    tide_sim_cut(c.sim, "n3", "n1", false);
    finish(&c, &pushing, 1);
    struct tide_table_stats stats;
    tide_table_stats(table_of(&c, 0, "t"), &stats);
    assert_int_equal(stats.surprises, 0);
    close_cluster(&c);
}

/* A slot that node 2 has sent to node 4, behind nodes 1 and 3, and the controller has not heard of;
 * or none. */
static uint32_t slot_that_joins(struct cluster *c) {
    static const uint64_t before[] = {1 | 3 << 16, 3 | 1 << 16}, joins = UINT64_C(4) << 32;
    const struct tide__replicas *home = tide__replicas_of(table_of(c, 1, "t"));
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        const uint64_t chain = atomic_load(&home->chain[slot]);
        if (home_at(c, 1, slot) == 2 &&
            (chain == (before[0] | joins) || chain == (before[1] | joins))) {
            return slot;
        }
    }
    return TIDE_SLOT_COUNT;
}

/* Does the controller count on a copy of node 4 that is not there? */
static bool counts_on_nothing(struct cluster *c) {
    const struct tide__replicas *told = tide__replicas_of(table_of(c, 0, "t")),
                                *copy = tide__replicas_of(table_of(c, 3, "t"));
    bool any = false;
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT && !any; slot++) {
        any = tide__chain_has(atomic_load(&told->chain[slot]), 4) && home_at(c, 1, slot) == 2 &&
              !copy->slots[slot].held;
    }
    return any;
}

/* Node 4, the only one without them, gets copies from node 3, which dies then. It hears of the death
 * before node 2, the home, and lets the slots go; node 2 says that it has joined, and the controller
 * has ordered that it joins again. */
static void who_has_joined_and_let_go_is_not_counted_on(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 4, 1);
    create(&c,
           (struct tide_table_options){.name = "t", .key_count = KEYS, .width = 1, .replicas = 2});
    const struct tide__replicas *told = tide__replicas_of(table_of(&c, 0, "t")),
                                *copy = tide__replicas_of(table_of(&c, 3, "t"));
    pause_cluster(&c, TIDE_SECOND);
    tide_sim_set_latency(c.sim, 10 * MS, 10 * MS);
    tide_net_leave(tide_net_of(c.nodes[2]));
    WAIT_UNTIL(&c, slot_that_joins(&c) < TIDE_SLOT_COUNT);
    const uint32_t slot = slot_that_joins(&c);
    /* JOINs have come to their end, and the home has not said of the last ones that it knows */
    pause_cluster(&c, 65 * MS);
    tide_sim_cut(c.sim, "n1", "n2", true);
    tide_sim_cut(c.sim, "n4", "n2", true);
    tide_sim_crash(c.sim, "n3");
    WAIT_UNTIL(&c, !tide__chain_has(atomic_load(&copy->chain[slot]), 3));
    assert_int_equal(atomic_load(&told->chain[slot]), 1);
    tide_sim_cut(c.sim, "n4", "n2", false);
    pause_cluster(&c, 15 * MS);
    tide_sim_cut(c.sim, "n1", "n2", false);
    for (int i = 0; i < 1000; i++) {
        pause_cluster(&c, MS / 10);
        if (counts_on_nothing(&c)) {
            fail_msg("the controller counts on copies that are not there");
        }
    }
    WAIT_UNTIL(&c, tide__chain_count(atomic_load(&told->chain[slot])) == 2);
    close_cluster(&c);
}

/* A worker of the former home reads in place; one of another node pushes, and then it tells. */
struct stale {
    uint64_t key;
    atomic_bool pushed, over;
};

static void push_and_tell_run(struct fiber *f) {
    struct stale *s = f->arg;
    struct tide_table *table;
    const float one = 1;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_push(table, &s->key, 1, &one, NULL) == 0);
    atomic_store(&s->pushed, true);
}

static void read_run(struct fiber *f) {
    struct stale *s = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    while (!atomic_load(&s->over)) {
        const bool pushed = atomic_load(&s->pushed);
        float value;
        const int rc = tide_table_pull(table, &s->key, 1, &value, NULL);
        CHECK(f, rc == 0 || atomic_load(&s->over)); /* its node leaves as soon as it can */
        CHECK(f, rc < 0 || value == 1 || !pushed);
        (void)tide_sleep(MS / 2);
    }
}

/* A key of node 2, as the controller has told; or none. */
static uint64_t key_with_chain(struct cluster *c, uint64_t chain) {
    const struct tide_table *told = table_of(c, 0, "t");
    uint64_t key = 0;
    while (key < KEYS &&
           (home_at(c, 1, key) != 2 || atomic_load(&tide__replicas_of(told)->chain[key]) != chain)) {
        key++; /* dense by hash: a slot each */
    }
    return key;
}

/* Node 2 leaves, and has not heard that node 3 is home in its place; that one dies, and node 4
 * takes over. What node 4 granted to node 3 has run out by then; what both granted to node 2 has
 * not. */
static void a_home_before_the_last_serves_nothing_stale(void **state) {
    (void)state;
    struct cluster c;
    struct stale s = {0};
    struct fiber reading, pushing;
    open_cluster(&c, true, 5, 1);
    create(&c,
           (struct tide_table_options){.name = "t", .key_count = KEYS, .width = 1, .replicas = 2});
    const struct tide_table *told = table_of(&c, 0, "t");
    const struct tide__replicas *last = tide__replicas_of(table_of(&c, 3, "t"));
    pause_cluster(&c, TIDE_SECOND);
    tide_sim_set_latency(c.sim, 10 * MS, 10 * MS);
    tide_net_leave(tide_net_of(c.nodes[1]));
    WAIT_UNTIL(&c, key_with_chain(&c, 3 | 4 << 16 | UINT64_C(5) << 32) < KEYS);
    s.key = key_with_chain(&c, 3 | 4 << 16 | UINT64_C(5) << 32);
    start(&c, &reading, 1, 0, read_run, &s);
    WAIT_UNTIL(&c, last->slots[s.key].fence ==
                       told->slot_versions[s.key]); /* the home asks whether all is there */
    tide_sim_cut(c.sim, "n3", "n4", true);
    tide_sim_cut(c.sim, "n2", "n1", true);
    pause_cluster(&c, 150 * MS);
    tide_sim_cut(c.sim, "n2", "n1", false);
    WAIT_UNTIL(&c, home_at(&c, 1, s.key) == 3);
    static const char *const others[] = {"n1", "n4", "n5"};
    for (unsigned i = 0; i < TIDE_COUNT(others); i++) {
        tide_sim_cut(c.sim, others[i], "n2", true);
    }
    tide_sim_crash(c.sim, "n3");
    WAIT_UNTIL(&c, home_at(&c, 4, s.key) == 4);
    start(&c, &pushing, 4, 0, push_and_tell_run, &s);
    WAIT_UNTIL(&c, last->slots[s.key].opening == TIDE__OPEN && atomic_load(&s.pushed));
    pause_cluster(&c, 100 * MS);
    for (unsigned i = 0; i < TIDE_COUNT(others); i++) {
        tide_sim_cut(c.sim, others[i], "n2", false);
    }
    atomic_store(&s.over, true);
    finish(&c, &reading, 1);
    finish(&c, &pushing, 1);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    program = argv[0];
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_home_passes_on_nothing_of_who_has_not_heard),
        cmocka_unit_test(a_home_that_goes_shows_nothing_that_its_successor_lacks),
        cmocka_unit_test(a_row_on_its_way_from_who_leaves_is_waited_for),
        cmocka_unit_test(what_waits_for_a_slot_is_before_what_waits_for_a_row),
        cmocka_unit_test(pushes_that_go_again_keep_their_order),
        cmocka_unit_test(who_has_joined_and_let_go_is_not_counted_on),
        cmocka_unit_test(a_home_before_the_last_serves_nothing_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
