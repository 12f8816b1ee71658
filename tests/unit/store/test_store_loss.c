/* What a death or a departure takes with it, and what not. */
#include "store/adaptive/owner.h"
#include "store/rows/slot_index.h"
#include "store_world.h"
#include "tide/placement.h"

enum { KEYS = 64, WIDTH = 4 };

struct step { /* one operation of a node on one key */
    struct cluster *cluster;
    uint64_t key;
    uint16_t move_to; /* its slot goes there */
    int code;
    float row[WIDTH];
    char text[200];
};

static struct tide_table *the_table(struct fiber *f) {
    struct tide_table *table = NULL;
    return tide_table_find(f->node, "w", &table) == 0 ? table : NULL;
}

static void localize_run(struct fiber *f) {
    struct step *step = f->arg;
    CHECK(f, tide_table_localize(the_table(f), &step->key, 1, NULL) == 0);
}

static void push_run(struct fiber *f) {
    struct step *step = f->arg;
    const float row[WIDTH] = {1, 2, 3, 4};
    CHECK(f, tide_table_push(the_table(f), &step->key, 1, row, NULL) == 0);
}

static void move_run(struct fiber *f) {
    struct step *step = f->arg;
    struct tide_table *table = the_table(f);
    const uint32_t slot = tide__slot_of(table, step->key);
    CHECK(f, tide_table_move(table, &slot, 1, step->move_to) == 0);
}

static void pull_run(struct fiber *f) {
    struct step *step = f->arg;
    step->code = tide_table_pull(the_table(f), &step->key, 1, step->row, NULL);
    (void)snprintf(step->text, sizeof step->text, "%s", tide_error_message());
}

/* A key whose slot is at home on `node`. */
static uint64_t key_at_home(struct cluster *c, const char *name, uint16_t node) {
    struct tide_table *table = table_of(c, 0, name);
    uint64_t key = 0;
    while (tide__route_home(atomic_load(&table->slots[tide__slot_of(table, key)].route)) != node) {
        key++;
    }
    assert_true(key < KEYS);
    return key;
}

static void open_table(struct cluster *c, unsigned nodes, uint64_t seed) {
    open_cluster(c, true, nodes, seed);
    create(c, (struct tide_table_options){
                  .name = "w", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
}

static void wait_death(struct cluster *c) {
    pause_cluster(c, 5 * TIDE_SECOND);
}

/* The home has passed a pull on, and said so to its origin, when it dies; the owner, who lives, has
 * never heard of it. */
static void a_pull_that_died_with_who_passed_it_on_fails_and_does_not_wait(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 3, 1);
    struct step step = {.key = key_at_home(&c, "w", 2)};
    run_alone(&c, 2, localize_run, &step);
    struct fiber fiber;
    tide_sim_cut(c.sim, "n2", "n3", true);
    const uint64_t began = tide_sim_now(c.sim);
    start(&c, &fiber, 0, 0, pull_run, &step);
    pause_cluster(&c, 100000000);
    tide_sim_crash(c.sim, "n2");
    finish(&c, &fiber, 1);
    assert_int_equal(step.code, TIDE_EDIED);
    assert_non_null(strstr(step.text, "n2"));
    assert_true(tide_sim_now(c.sim) - began < 10 * TIDE_SECOND);
    close_cluster(&c);
}

/* The row was on n3 and n4 before its slot came to n2, which owned it then; it continued from
 * there. */
static void a_row_outlives_who_had_it_before_its_slot_moved(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 5, 1);
    struct step step = {.key = key_at_home(&c, "w", 1), .move_to = 2};
    static const unsigned before[] = {1, 2, 3, 1}, after[] = {0, 4};
    run_alone(&c, 0, push_run, &step);
    for (size_t i = 0; i < TIDE_COUNT(before); i++) {
        run_alone(&c, before[i], localize_run, &step);
    }
    run_alone(&c, 0, move_run, &step);
    for (size_t i = 0; i < TIDE_COUNT(after); i++) {
        run_alone(&c, after[i], localize_run, &step);
    }
    tide_sim_crash(c.sim, "n3");
    wait_death(&c);
    run_alone(&c, 1, pull_run, &step); /* n1 would ask n5 at once, and not the home */
    assert_int_equal(step.code, 0);
    assert_true(step.row[0] == 1 && step.row[3] == 4);
    close_cluster(&c);
}

/* Many slots of n2, that of the key first, go to n3. */
static void move_many_run(struct fiber *f) {
    const struct step *step = f->arg;
    struct tide_table *table = the_table(f);
    uint32_t slots[300] = {tide__slot_of(table, step->key)};
    size_t count = 1;
    for (uint32_t slot = 0; count < TIDE_COUNT(slots); slot++) {
        if (slot != slots[0] && tide__route_home(atomic_load(&table->slots[slot].route)) == 2) {
            slots[count++] = slot;
        }
    }
    CHECK(f, tide_table_move(table, slots, count, step->move_to) == TIDE_ELOST);
}

static void try_to_localize_run(struct fiber *f) {
    struct step *step = f->arg;
    step->code = tide_table_localize(the_table(f), &step->key, 1, NULL);
    (void)snprintf(step->text, sizeof step->text, "%s", tide_error_message());
}

static bool knows_the_death(struct cluster *c, unsigned node, uint16_t dead) {
    struct tide_member member;
    return tide_net_member(tide_net_of(c->nodes[node]), dead, &member) &&
           member.state == TIDE_MEMBER_DEAD;
}

/* The old home passed the wish of n4 on to the new one; n4 hears that it has moved after it heard of the
 * new home's death. */
static void a_wish_passed_on_to_a_dead_home_fails_and_does_not_wait(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 2), .move_to = 3};
    struct fiber fibers[2];
    tide_sim_set_pair_latency(c.sim, "n2", "n3", 50000000);
    start(&c, &fibers[0], 0, 0, move_many_run, &step);
    const struct tide_table *at_old = table_of(&c, 1, "w"), *at_origin = table_of(&c, 3, "w");
    const struct tide__slot *slot = &at_old->slots[tide__slot_of(at_old, step.key)];
    while (tide__route_home(atomic_load(&slot->route)) == 2) {
        pause_cluster(&c, 1000000);
    }
    tide_sim_cut(c.sim, "n2", "n4", true);
    start(&c, &fibers[1], 3, 1, try_to_localize_run, &step);
    pause_cluster(&c, 10000000);
    tide_sim_crash(c.sim, "n3");
    while (!knows_the_death(&c, 3, 3)) {
        pause_cluster(&c, 1000000);
    }
    slot = &at_origin->slots[slot - at_old->slots];
    assert_int_equal(tide__route_home(atomic_load(&slot->route)), 2); /* as n4 knows it */
    tide_sim_cut(c.sim, "n2", "n4", false);
    finish(&c, fibers, 2);
    assert_int_equal(step.code, TIDE_EDIED);
    assert_non_null(strstr(step.text, "n3"));
    close_cluster(&c);
}

static uint32_t route_at(struct cluster *c, unsigned node, uint32_t slot) {
    return (uint32_t)atomic_load(&table_of(c, node, "w")->slots[slot].route);
}

static void wait_while_at_n2(struct cluster *c, unsigned node, uint32_t slot) {
    while (tide__route_home(route_at(c, node, slot)) == 2) {
        pause_cluster(c, 1000000);
    }
}

static void wait_until_n3_awaits(struct cluster *c, uint32_t slot) {
    while (!(route_at(c, 2, slot) & TIDE__AWAITED)) {
        pause_cluster(c, 1000000);
    }
}

/* The slot left n2 while the wish of n4 was in flight there, and n4 has heard of that when n2 dies, the wish
 * with it. */
static void a_wish_that_died_with_a_former_home_is_repeated(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 2), .move_to = 3}, wish = {.key = step.key};
    struct fiber fibers[2];
    run_alone(&c, 0, push_run, &step);
    tide_sim_set_pair_latency(c.sim, "n2", "n4", 100000000);
    tide_sim_set_pair_latency(c.sim, "n1", "n4", 20000000);
    const uint32_t slot = tide__slot_of(table_of(&c, 0, "w"), step.key);
    start(&c, &fibers[0], 0, 0, move_run, &step);
    wait_while_at_n2(&c, 1, slot);
    start(&c, &fibers[1], 3, 1, try_to_localize_run, &wish);
    pause_cluster(&c, 1000000);
    assert_int_equal(tide__route_home(route_at(&c, 3, slot)), 2);
    wait_while_at_n2(&c, 3, slot);
    tide_sim_crash(c.sim, "n2");
    finish(&c, fibers, 2);
    assert_int_equal(wish.code, TIDE_EDIED);
    run_alone(&c, 3, pull_run, &step);
    assert_int_equal(step.code, 0);
    assert_true(step.row[0] == 1 && step.row[3] == 4);
    close_cluster(&c);
}

/* n2 has told n4 to give the row to n3, and n3 to give it to n1; what n4 was told dies with it. */
static void nobody_waits_for_what_a_dead_home_has_arranged(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 2)}, wishes[2] = {step, step};
    struct fiber fibers[2];
    run_alone(&c, 3, localize_run, &step);
    tide_sim_set_pair_latency(c.sim, "n2", "n4", 100000000);
    start(&c, &fibers[0], 2, 0, try_to_localize_run, &wishes[0]);
    pause_cluster(&c, 10000000);
    start(&c, &fibers[1], 0, 1, try_to_localize_run, &wishes[1]);
    pause_cluster(&c, 10000000);
    tide_sim_crash(c.sim, "n2");
    finish(&c, fibers, 2);
    assert_int_equal(wishes[0].code, TIDE_EDIED);
    assert_int_equal(wishes[1].code, TIDE_EDIED);
    assert_int_equal(tide__slab_used(&tide__owners_of(table_of(&c, 2, "w"))->arrivals), 0);
    close_cluster(&c);
}

/* n3 waits for a row of n4, which dies, and is to become the home of the key: what it says of the row is for
 * n2, the home so far, which others ask. */
static void a_node_that_awaits_a_slot_tells_its_home_of_a_row_that_does_not_come(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 2), .move_to = 3}, wishes[2];
    struct fiber fibers[3];
    wishes[0] = wishes[1] = (struct step){.key = step.key, .code = 1};
    run_alone(&c, 0, push_run, &step);
    run_alone(&c, 3, localize_run, &step);
    tide_sim_set_pair_latency(c.sim, "n2", "n4", 2 * TIDE_SECOND); /* it is asked to give the row to n3 */
    tide_sim_set_pair_latency(c.sim, "n1", "n3", 300000000); /* n2 is to give the slot to n3 when n3 has said yes */
    const uint32_t slot = tide__slot_of(table_of(&c, 0, "w"), step.key);
    start(&c, &fibers[0], 0, 0, move_run, &step);
    start(&c, &fibers[1], 2, 1, try_to_localize_run, &wishes[0]);
    wait_until_n3_awaits(&c, slot);
    tide_sim_crash(c.sim, "n4");
    while (wishes[0].code == 1) {
        pause_cluster(&c, 1000000);
    }
    start(&c, &fibers[2], 0, 1, try_to_localize_run, &wishes[1]);
    assert_int_equal(tide__route_home(route_at(&c, 1, slot)), 2);
    finish(&c, fibers, 3);
    assert_int_equal(wishes[0].code, TIDE_EDIED);
    assert_int_equal(wishes[1].code, TIDE_EDIED);
    assert_non_null(strstr(wishes[1].text, "n4"));
    run_alone(&c, 0, pull_run, &step);
    assert_int_equal(step.code, TIDE_EDIED);
    close_cluster(&c);
}

/* The same, when the slot has come before n2 hears it. */
static void a_row_that_its_new_home_has_given_up_is_lost(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 2), .move_to = 3}, wish = {.key = step.key};
    struct fiber fibers[2];
    run_alone(&c, 0, push_run, &step);
    run_alone(&c, 3, localize_run, &step);
    tide_sim_set_pair_latency(c.sim, "n2", "n4", 100000000);
    const uint32_t slot = tide__slot_of(table_of(&c, 0, "w"), step.key);
    start(&c, &fibers[0], 2, 0, try_to_localize_run, &wish);
    pause_cluster(&c, 10000000);
    start(&c, &fibers[1], 0, 1, move_run, &step);
    wait_until_n3_awaits(&c, slot);
    tide_sim_crash(c.sim, "n4");
    finish(&c, fibers, 2);
    assert_int_equal(wish.code, TIDE_EDIED);
    run_alone(&c, 0, pull_run, &step);
    assert_int_equal(step.code, TIDE_EDIED); /* and is not made anew */
    close_cluster(&c);
}

static bool all_slots_are_away_from_n2(struct cluster *c) {
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        bool there = false;
        for (unsigned node = 0; node < 4; node++) {
            const uint32_t route = route_at(c, node, slot);
            there |= node != 1 && (route & TIDE__MINE) && !(route & TIDE__AWAITED);
        }
        if (!there) {
            return false;
        }
    }
    return true;
}

/* n2 leaves. Its slots have left, which others are told when it has given all of its rows away; it dies
 * before. */
static void slots_that_left_a_leaver_are_known_after_its_death(void **state) {
    (void)state;
    struct cluster c;
    open_table(&c, 4, 1);
    struct step step = {.key = key_at_home(&c, "w", 3)};
    run_alone(&c, 1, localize_run, &step);
    tide_sim_set_pair_latency(c.sim, "n2", "n3", 100000000);
    tide_net_leave(tide_net_of(c.nodes[1]));
    while (!all_slots_are_away_from_n2(&c)) {
        pause_cluster(&c, 1000000);
    }
    pause_cluster(&c, 5000000); /* the controller has heard it */
    tide_sim_crash(c.sim, "n2");
    wait_death(&c);
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        const uint16_t home = tide__route_home(route_at(&c, 0, slot));
        assert_int_not_equal(home, 2);
        assert_int_equal(tide__route_home(route_at(&c, 2, slot)), home);
        assert_int_equal(tide__route_home(route_at(&c, 3, slot)), home);
    }
    close_cluster(&c);
}

/* Pulls until it may not any more. */
static void until_it_fails_run(struct fiber *f) {
    struct step *step = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "plain", &table) == 0);
    while (step->code == 0) {
        step->code = tide_table_pull(table, &step->key, 1, step->row, NULL);
    }
}

static void what_a_node_asked_before_it_left_fails_and_does_not_wait(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 3, 1);
    create(&c, (struct tide_table_options){.name = "plain", .key_count = KEYS, .width = WIDTH});
    struct step steps[2] = {{.key = key_at_home(&c, "plain", 1)},
                            {.key = key_at_home(&c, "plain", 3)}};
    struct fiber fibers[2];
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &fibers[i], 1, i, until_it_fails_run, &steps[i]);
    }
    tide_sim_set_latency(c.sim, 10000000, 10000000);
    const uint64_t began = tide_sim_now(c.sim);
    tide_net_leave(tide_net_of(c.nodes[1]));
    finish(&c, fibers, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(steps[i].code == TIDE_ECLOSED || steps[i].code == TIDE_EUNREACHABLE);
    }
    assert_true(tide_sim_now(c.sim) - began < 10 * TIDE_SECOND);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    (void)argc;
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_that_died_with_who_passed_it_on_fails_and_does_not_wait),
        cmocka_unit_test(what_a_node_asked_before_it_left_fails_and_does_not_wait),
        cmocka_unit_test(a_wish_passed_on_to_a_dead_home_fails_and_does_not_wait),
        cmocka_unit_test(a_wish_that_died_with_a_former_home_is_repeated),
        cmocka_unit_test(nobody_waits_for_what_a_dead_home_has_arranged),
        cmocka_unit_test(a_node_that_awaits_a_slot_tells_its_home_of_a_row_that_does_not_come),
        cmocka_unit_test(a_row_that_its_new_home_has_given_up_is_lost),
        cmocka_unit_test(slots_that_left_a_leaver_are_known_after_its_death),
        cmocka_unit_test(a_row_outlives_who_had_it_before_its_slot_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
