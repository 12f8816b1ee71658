/* Option structs of programs that were compiled with another version's header: their size says what they know. */
#include "base/base.h"
#include "tide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct first_layout {
    size_t size;
    uint32_t a;
    uint8_t b;
};
struct later_layout {
    size_t size;
    uint32_t a;
    uint8_t b;
    uint64_t c;
};
enum { FIRST = TIDE_LAYOUT(struct first_layout, b) };

static void older_programs_have_the_default_of_what_they_do_not_know(void **state) {
    (void)state;
    struct {
        struct first_layout options;
        uint64_t behind;
    } old = {.options = {.a = 5, .b = 6}, .behind = UINT64_MAX};
    struct later_layout out;
    for (size_t size = 0; size <= sizeof old.options; size += sizeof old.options) {
        old.options.size = size;
        assert_int_equal(tide__layout_read("test", &old, FIRST, &out, sizeof out), 0);
        assert_true(out.a == 5 && out.b == 6 && out.c == 0 && out.size == sizeof out);
    }
}

static void newer_programs_may_leave_what_is_not_known_here(void **state) {
    (void)state;
    struct later_layout new = {.size = sizeof new, .a = 5};
    struct first_layout out;
    assert_int_equal(tide__layout_read("test", &new, FIRST, &out, sizeof out), 0);
    assert_int_equal(out.a, 5);
    new.c = 1;
    assert_int_equal(tide__layout_read("test", &new, FIRST, &out, sizeof out), TIDE_EVERSION);
    assert_non_null(strstr(tide_error_message(), "older than the program"));
}

static void a_size_that_is_none_is_refused(void **state) {
    (void)state;
    struct first_layout given = {.size = 7}, out;
    assert_int_equal(tide__layout_read("test", &given, FIRST, &out, sizeof out), TIDE_EINVAL);
    given.size = (size_t)1 << 40;
    assert_int_equal(tide__layout_read("test", &given, FIRST, &out, sizeof out), TIDE_EINVAL);
}

static int nothing(void *state, const struct tide_message *message) {
    (void)state;
    (void)message;
    return 0;
}

/* Each call reads by the size: what is set behind all that this library knows is refused by all of them. */
static void every_call_reads_by_the_size(void **state) {
    (void)state;
    struct tide_node *node;
    tide_address address;
    assert_int_equal(tide_node_create(&(struct tide_node_options){TIDE_NODE_OPTIONS_INIT, .cluster = "sizes"}, &node), 0);
    struct {
        struct tide_node_options options;
        uint64_t later;
    } of_node = {.options = {.size = sizeof of_node}, .later = 1};
    struct {
        struct tide_actor_options options;
        uint64_t later;
    } of_actor = {.options = {.size = sizeof of_actor, .handle = nothing}, .later = 1};
    struct {
        struct tide_child child;
        uint64_t later;
    } children[2] = {{.child.actor = {.size = sizeof of_actor, .handle = nothing}, .later = 1}};
    struct {
        struct tide_supervisor_options options;
        uint64_t later;
    } of_supervisor = {.options = {.size = sizeof of_supervisor}, .later = 1};
    struct {
        struct tide_lua_options options;
        uint64_t later;
    } of_lua = {.options = {.size = sizeof of_lua, .source = ""}, .later = 1};
    struct tide_node *other;
    assert_int_equal(tide_node_create(&of_node.options, &other), TIDE_EVERSION);
    assert_int_equal(tide_spawn(node, &of_actor.options, &address), TIDE_EVERSION);
    assert_int_equal(tide_supervise(node, &of_supervisor.options, &address), TIDE_EVERSION);
    assert_int_equal(tide_spawn_lua(node, &of_lua.options, &address), TIDE_EVERSION);
    const struct tide_supervisor_options o = {.child_size = sizeof children[0], .children = &children[0].child,
                                              .child_count = 2};
    assert_int_equal(tide_supervise(node, &o, &address), TIDE_EVERSION);
    children[0].later = 0; /* of a newer program that sets nothing new: an array of larger children is walked all the same */
    children[1] = children[0];
    children[1].child.actor.name = "larger";
    assert_int_equal(tide_supervise(node, &o, &address), 0);
    const uint64_t until = tide_node_now(node) + 20 * TIDE_SECOND;
    while (tide_whereis(node, "larger", &address) < 0) {
        assert_true(tide_node_now(node) < until);
    }
    tide_node_destroy(node, TIDE_SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_programs_have_the_default_of_what_they_do_not_know),
        cmocka_unit_test(newer_programs_may_leave_what_is_not_known_here),
        cmocka_unit_test(a_size_that_is_none_is_refused),
        cmocka_unit_test(every_call_reads_by_the_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
