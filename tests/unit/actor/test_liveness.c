/* The watch: what breaks a rule of liveness in a simulated run is found, and named; what does not is left alone. */
#include "actor/internal.h"
#include "actor_world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct tide_node *node;
static struct {
    unsigned count;
    char checker[32], text[600];
} found;

static void verdict(void *arg, const char *checker, const char *text) {
    (void)arg;
    if (found.count++ == 0) {
        tide_text_copy(found.checker, sizeof found.checker, checker);
        tide_text_copy(found.text, sizeof found.text, text);
    }
}

static int open_world(void **state) {
    (void)state;
    node = world_open(true, 2);
    memset(&found, 0, sizeof found);
    tide__watch_set(true, verdict, NULL);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(node);
    return 0;
}

static void pass(uint64_t ns) {
    node->port->ops->pause(node->port, ns);
}

static void run(int (*main)(void *state)) {
    struct tide_actor_options o = {.type = "tested", .run = main, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
    pass(TIDE_SECOND);
}

static int spin(void *state) {
    (void)state;
    int code = 0;
    while (code == 0) {
        tide_fiber_wake(tide_fiber_current());
        code = tide_fiber_suspend(TIDE_NEVER, "nothing");
    }
    return code;
}

static void a_fiber_that_is_woken_for_nothing_is_found_and_stopped(void **state) {
    (void)state;
    run(spin);
    assert_string_equal(found.checker, "spin");
    assert_non_null(strstr(found.text, "actor tested"));
    assert_non_null(strstr(found.text, "'nothing'"));
}

static int poll(void *state) {
    (void)state;
    for (int i = 0; i < 1000 && tide_fiber_suspend(tide_port_now(node->port), "a time that is over") != TIDE_ECANCELED;
         i++) {
    }
    return 0;
}

static void a_deadline_that_is_set_again_at_once_is_found(void **state) {
    (void)state;
    run(poll);
    assert_string_equal(found.checker, "spin");
}

static int wait_slowly(void *state) {
    (void)state;
    for (int i = 0; i < 1000; i++) {
        (void)tide_fiber_suspend(tide_port_now(node->port) + TIDE_SECOND / 2000, "a while");
    }
    return 0;
}

static void a_fiber_that_looks_now_and_then_is_left_alone(void **state) {
    (void)state;
    run(wait_slowly);
    assert_int_equal(found.count, 0);
}

/* As a simulated worker that calls one short kernel after the other. */
static int compute_shortly(void *state) {
    (void)state;
    for (int i = 0; i < 1000; i++) {
        (void)tide_fiber_wait_until(tide_port_now(node->port) + TIDE_SECOND / 100000, "computing");
    }
    return 0;
}

static void a_fiber_that_waits_for_short_times_is_left_alone(void **state) {
    (void)state;
    run(compute_shortly);
    assert_int_equal(found.count, 0);
}

static int again(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_STOP ? 0 : tide_timer_start(0, NULL);
}

static void a_timer_that_only_starts_the_next_is_found(void **state) {
    (void)state;
    struct tide_actor_options o = {.type = "tested", .handle = again, .role = TIDE_ROLE_COMPUTE};
    tide_address who;
    static const uint8_t nil[] = {0xc0};
    assert_int_equal(tide_spawn(node, &o, &who), 0);
    assert_int_equal(tide_post(node, who, nil, sizeof nil), 0);
    pass(TIDE_SECOND / 100);
    assert_string_equal(found.checker, "timer");
}

static int receive(void *state) {
    (void)state;
    const struct tide_message *m;
    const int code = tide_receive(TIDE_NEVER, &m);
    if (code == 0) {
        tide_message_free(m);
    }
    return code;
}

/* As if its wake-up had been lost. */
static void a_message_that_nobody_takes_is_found(void **state) {
    (void)state;
    run(receive);
    assert_int_equal(found.count, 0);
    struct scheduler *s = tide_system_of(node)->schedulers[1];
    struct actor *actor = &s->chunks[0][1];
    struct message *m = message_create(NULL, 0);
    assert_string_equal(actor->type, "tested");
    m->u.in = (struct tide_message){.kind = TIDE_CAST, .lane = TIDE_LANE_CONTROL};
    actor->normal.head = actor->normal.tail = m;
    atomic_store(&actor->mailbox_messages, 1);
    tide_system_watch(tide_system_of(node));
    assert_string_equal(found.checker, "unreceived");
    wake_receiver(actor);
}

static void waits_are_told_by_fiber(void **state) {
    (void)state;
    char text[2000];
    run(receive);
    assert_true(tide_system_waits(tide_system_of(node), text, sizeof text) > 0);
    assert_non_null(strstr(text, "of actor tested"));
    assert_non_null(strstr(text, "waits for 'receive'"));
}

static uint64_t reached(const char *name) {
    struct tide_sometimes points[256];
    const size_t count = tide__sometimes_list(points, TIDE_COUNT(points));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(points[i].name, name) == 0) {
            return points[i].count;
        }
    }
    return UINT64_MAX;
}

static int receive_in_time(void *state) {
    (void)state;
    const struct tide_message *m;
    (void)tide_receive(tide_port_now(node->port) + TIDE_SECOND / 1000, &m);
    return 0;
}

static void rare_branches_are_listed_and_counted_while_watched(void **state) {
    (void)state;
    const uint64_t before = reached("receive_timed_out");
    assert_int_equal(reached("unknown"), UINT64_MAX);
    assert_int_not_equal(before, UINT64_MAX);
    run(receive_in_time);
    assert_int_equal(reached("receive_timed_out"), before + 1);
    tide__watch_set(false, NULL, NULL);
    run(receive_in_time);
    assert_int_equal(reached("receive_timed_out"), before + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_fiber_that_is_woken_for_nothing_is_found_and_stopped),
        TEST(a_deadline_that_is_set_again_at_once_is_found),
        TEST(a_fiber_that_looks_now_and_then_is_left_alone),
        TEST(a_fiber_that_waits_for_short_times_is_left_alone),
        TEST(a_timer_that_only_starts_the_next_is_found),
        TEST(a_message_that_nobody_takes_is_found),
        TEST(waits_are_told_by_fiber),
        TEST(rare_branches_are_listed_and_counted_while_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
