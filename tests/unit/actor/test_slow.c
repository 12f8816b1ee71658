/* The watchdog names the actors that hold a thread on which others wait. */
#include "tide.h"
#include "actor/actor.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "actor_world.h"

static atomic_int done;

static void hold(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int hold_by_message(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    hold(2);
    atomic_fetch_add(&done, 1);
    return 0;
}

static int hold_by_fiber(void *state) {
    (void)state;
    hold(120);
    (void)tide_sleep(1);
    atomic_fetch_add(&done, 1);
    return 0;
}

static int send_two(void *state) {
    static const uint8_t nil = 0xc0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tide_send(*(tide_address *)state, TIDE_LANE_CONTROL, &nil, sizeof nil), 0);
    }
    return 0;
}

static void start(struct tide_node *node, struct tide_actor_options o, tide_address *out) {
    assert_int_equal(tide_spawn(node, &o, out), 0);
}

static void slow_actors_are_counted_by_type_where_others_wait(void **state) {
    (void)state;
    struct tide_node *node = world_open(false, 1);
    tide_address handler;
    atomic_store(&done, 0);
    start(node, (struct tide_actor_options){.type = "slow", .handle = hold_by_message, .role = TIDE_ROLE_IO}, &handler);
    start(node, (struct tide_actor_options){.type = "sender", .run = send_two, .state = &handler}, NULL);
    start(node, (struct tide_actor_options){.type = "fiber", .run = hold_by_fiber, .role = TIDE_ROLE_CONTROL}, NULL);
    start(node, (struct tide_actor_options){.type = "worker", .run = hold_by_fiber, .role = TIDE_ROLE_COMPUTE}, NULL);
    assert_true(world_wait(node, &done, 4));
    struct tide_slow_handler slow[32];
    const size_t count = tide_slow_handlers(node, slow, 32);
    unsigned seen = 0;
    for (size_t i = 0; i < count; i++) {
        assert_string_not_equal(slow[i].type, "worker"); /* its thread is its own */
        if (strcmp(slow[i].type, "slow") == 0) {
            assert_int_equal(slow[i].role, TIDE_ROLE_IO);
            assert_int_equal(slow[i].count, 2);
            assert_true(slow[i].longest_ns >= 2000000 && slow[i].total_ns >= 4000000);
            seen++;
        } else if (strcmp(slow[i].type, "fiber") == 0) {
            assert_int_equal(slow[i].role, TIDE_ROLE_CONTROL);
            assert_true(slow[i].longest_ns >= 120000000);
            seen++;
        }
    }
    assert_int_equal(seen, 2);
    world_close(node);
}

static int end_at_once(void *state) {
    (void)state;
    hold(2);
    atomic_fetch_add(&done, 1);
    return 0;
}

static void types_beyond_eight_are_counted_together(void **state) {
    (void)state;
    static char types[20][8];
    struct tide_node *node = world_open(false, 1);
    atomic_store(&done, 0);
    for (int i = 0; i < 20; i++) {
        snprintf(types[i], sizeof types[i], "type%d", i);
        start(node, (struct tide_actor_options){.type = types[i], .run = end_at_once, .role = TIDE_ROLE_IO}, NULL);
    }
    assert_true(world_wait(node, &done, 20));
    struct tide_slow_handler slow[32];
    size_t count;
    uint64_t all;
    do { /* the last fiber is counted after its end */
        all = 0;
        count = tide_slow_handlers(node, slow, 32);
        for (size_t i = 0; i < count; i++) {
            all += slow[i].count;
        }
        node->port->ops->pause(node->port, 200000);
    } while (all < 20);
    assert_int_equal(count, 8);
    assert_string_equal(slow[7].type, "others");
    assert_int_equal(slow[7].count, 13);
    world_close(node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_actors_are_counted_by_type_where_others_wait),
        cmocka_unit_test(types_beyond_eight_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
