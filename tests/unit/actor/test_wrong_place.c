/* Calls that are made where they cannot be: each says so, and nothing ends. */
#include "tide.h"
#include "actor/actor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void says(const char *call) {
    const char *text = tide_error_message();
    if (strncmp(text, call, strlen(call)) != 0) {
        fail_msg("the text is \"%s\", and not of %s", text, call);
    }
}

static void calls_outside_of_actors_return_einval_with_a_text(void **state) {
    (void)state;
    static const uint8_t nil = 0xc0;
    struct tide_reply *reply = NULL;
    const struct tide_message *message;
    struct tide_fiber *fiber;
    uint64_t id;
#define REFUSED(name, arguments)                                                                   \
    do {                                                                                           \
        tide_fail(TIDE_ENOENT, "of before");                                                       \
        assert_int_equal(name arguments, TIDE_EINVAL);                                          \
        says(#name);                                                                               \
    } while (0)
    REFUSED(tide_send, (1, TIDE_LANE_CONTROL, &nil, sizeof nil));
    REFUSED(tide_call, (1, &nil, sizeof nil, TIDE_SECOND, &reply));
    assert_null(reply);
    REFUSED(tide_call_start, (1, &nil, sizeof nil, TIDE_SECOND, &id));
    REFUSED(tide_answer, (1, 1, &nil, sizeof nil));
    REFUSED(tide_answer_error, (1, 1, TIDE_EREFUSED, "no"));
    REFUSED(tide_receive, (TIDE_NEVER, &message));
    REFUSED(tide_sleep, (1));
    REFUSED(tide_yield, ());
    REFUSED(tide_monitor, (1, &id));
    REFUSED(tide_link, (1));
    REFUSED(tide_kill, (1, TIDE_EKILLED));
    REFUSED(tide_interrupt, (1));
    char text[8];
    REFUSED(tide_look, (1, text, sizeof text));
    REFUSED(tide_timer_start, (1, &id));
    REFUSED(tide_fiber_start, (NULL, NULL, 0, &fiber));
#undef REFUSED
}

static void calls_without_a_result_do_nothing_there_and_say_so(void **state) {
    (void)state;
#define IGNORED(name, ...)                                                                         \
    do {                                                                                           \
        tide_fail(TIDE_ENOENT, "of before");                                                       \
        name(__VA_ARGS__);                                                                         \
        says(#name);                                                                               \
    } while (0)
    IGNORED(tide_exit, 0);
    IGNORED(tide_open, TIDE_RIGHT_READ);
    IGNORED(tide_trap_exits, true);
    IGNORED(tide_demonitor, 1);
    IGNORED(tide_unlink, 1);
    IGNORED(tide_timer_cancel, 1);
#undef IGNORED
    tide_call_cancel(1);
    assert_int_equal(tide_self(), TIDE_NOBODY);
    says("tide_self");
    assert_null(tide_node_current());
    assert_int_equal(tide_worker_clock(), -1);
    assert_int_equal(tide_clock(), TIDE_EINVAL);
}

/* ---- a handler ---- */

struct outcome {
    atomic_int calls; /* refused with EINVAL and a text */
    atomic_bool done;
};

static int waits_in_a_handler(void *state, const struct tide_message *message) {
    struct outcome *o = state;
    struct tide_reply *reply;
    const struct tide_message *next;
    o->calls += tide_call(message->to, message->data, message->size, TIDE_SECOND, &reply) == TIDE_EINVAL &&
                strstr(tide_error_message(), "only a fiber can wait") != NULL;
    o->calls += tide_receive(TIDE_NEVER, &next) == TIDE_EINVAL && strstr(tide_error_message(), "by a handler");
    o->calls += tide_sleep(1) == TIDE_EINVAL && strstr(tide_error_message(), "tide_sleep");
    o->calls += tide_yield() == TIDE_EINVAL && strstr(tide_error_message(), "tide_yield");
    o->calls += tide_send(message->to, TIDE_LANE_COUNT, message->data, message->size) == TIDE_EINVAL;
    o->done = true;
    return 0;
}

static void a_handler_that_waits_is_told_that_only_fibers_can(void **state) {
    (void)state;
    static struct outcome outcome;
    static const uint8_t nil = 0xc0;
    struct tide_node *node;
    tide_address address;
    assert_int_equal(tide_node_create(&(struct tide_node_options){.cluster = "wrong-place"}, &node), 0);
    const struct tide_actor_options options = {.type = "test", .handle = waits_in_a_handler, .state = &outcome};
    assert_int_equal(tide_spawn(node, &options, &address), 0);
    assert_int_equal(tide_post(node, address, &nil, sizeof nil), 0);
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 60000 && !outcome.done; i++) {
        (void)nanosleep(&pause, NULL);
    }
    assert_true(outcome.done);
    assert_int_equal(outcome.calls, 5);
    tide_node_destroy(node, TIDE_SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_outside_of_actors_return_einval_with_a_text),
        cmocka_unit_test(calls_without_a_result_do_nothing_there_and_say_so),
        cmocka_unit_test(a_handler_that_waits_is_told_that_only_fibers_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
