/* Actors with a share of their thread's time, by simulated work: first up to the share, not beyond it while others wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/actor_world.h"

enum { MESSAGES = 4000, WORK_NS = 100000 };

static uint8_t NIL[] = {0xc0};
struct busy {
    unsigned share;
    uint64_t handled;
    struct busy *until; /* NULL: until it has handled MESSAGES */
    atomic_int over;
};

static int work(void *state, const struct tide_message *m) {
    struct busy *b = state;
    if (m->kind == TIDE_STOP) {
        return 0;
    }
    if (b->share && b->handled == 0) {
        tide_actor_share(b->share);
    }
    tide_turn_spent(WORK_NS);
    b->handled++;
    if (b->until ? !atomic_load(&b->until->over) : b->handled < MESSAGES) {
        return tide_send(tide_self(), TIDE_LANE_CONTROL, NIL, sizeof NIL);
    }
    atomic_store(&b->over, 1);
    return 0;
}

static void begin(struct tide_node *node, struct busy *b) {
    const struct tide_actor_options options = {.type = "busy", .handle = work, .state = b, .role = TIDE_ROLE_IO};
    tide_address address;
    assert_int_equal(tide_spawn(node, &options, &address), 0);
    assert_int_equal(tide_post(node, address, NIL, sizeof NIL), 0);
}

static void an_actor_with_a_share_takes_no_more(void **state) {
    (void)state;
    struct tide_node *node = world_open(true, 0);
    static struct busy others, first;
    others = (struct busy){0};
    first = (struct busy){.share = 25, .until = &others};
    begin(node, &first);
    begin(node, &others);
    assert_true(world_wait(node, &others.over, 1));
    assert_in_range(first.handled, MESSAGES / 3 - MESSAGES / 50, MESSAGES / 3 + MESSAGES / 50);
    world_close(node);
}

static void alone_it_has_all(void **state) {
    (void)state;
    struct tide_node *node = world_open(true, 0);
    static struct busy first;
    first = (struct busy){.share = 1};
    begin(node, &first);
    assert_true(world_wait(node, &first.over, 1));
    world_close(node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_actor_with_a_share_takes_no_more),
        cmocka_unit_test(alone_it_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
