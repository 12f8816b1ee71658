/* Spans of threads and fibers: what is in them, what a small ring keeps, and reading while they are written. */
#include "actor_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE = 4096, SMALL = 64, READ = 100 };

static bool is_simulated(void **state) {
    return *state != NULL;
}

struct sleeper {
    atomic_int naps, done;
    int most; /* 0: until it is ended */
};

static int nap(void *state) {
    struct sleeper *s = state;
    tide_trace_title("sleeper");
    while (s->most == 0 || atomic_load(&s->naps) < s->most) {
        uint64_t began = tide_trace_begin();
        if (tide_sleep(20000) < 0) {
            return TIDE_ECANCELED;
        }
        tide_trace_beside(3, began, "beside");
        tide_trace_end(began, "outer \"quoted\" name, of which only the first 39 bytes are kept");
        atomic_fetch_add(&s->naps, 1);
    }
    atomic_store(&s->done, 1);
    return 0;
}

static void spawn(struct tide_node *node, struct sleeper *s) {
    struct tide_actor_options o = {.run = nap, .state = s, .type = "nap", .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
}

struct found {
    unsigned sleeps, outers, besides, labels, activations;
    uint64_t last_end;
};

/* Everything of the compute thread. A label stands before the first span of its fiber. */
static struct found read_all(struct tide_node *node) {
    struct found f = {0};
    struct tide_span spans[READ];
    uint64_t from = 0;
    size_t count;
    while ((count = tide_trace_read(node->system, 1, &from, spans, READ)) > 0) {
        for (size_t i = 0; i < count; i++) {
            const struct tide_span *s = &spans[i];
            if (s->end == TIDE_NEVER) {
                f.labels += s->lane == 0 && strcmp(s->name, "sleeper") == 0;
                continue;
            }
            assert_true(s->begin <= s->end);
            f.last_end = s->end;
            f.sleeps += s->fiber != 0 && strcmp(s->name, "sleep") == 0;
            f.outers += s->lane == 0 && strcmp(s->name, "outer \"quoted\" name, of which only the ") == 0;
            f.besides += s->lane == 3 && strcmp(s->name, "beside") == 0;
            f.activations += s->fiber == 0 && strcmp(s->name, "sleeper") == 0;
        }
    }
    return f;
}

static void waits_and_named_spans_are_recorded(void **state) {
    struct tide_node *node = world_open(is_simulated(state), 1);
    struct sleeper s = {.most = 10};
    assert_int_equal(tide_trace_start(node->system, LARGE), 0);
    spawn(node, &s);
    assert_true(world_wait(node, &s.done, 1));
    tide_trace_stop(node->system);
    struct found f = read_all(node);
    assert_int_equal(f.sleeps, 10);
    assert_int_equal(f.outers, 10);
    assert_int_equal(f.besides, 10);
    assert_int_equal(f.labels, 1);
    assert_true(f.activations >= 10);

    struct sleeper quiet = {.most = 3}; /* nothing is recorded now */
    spawn(node, &quiet);
    assert_true(world_wait(node, &quiet.done, 1));
    assert_int_equal(read_all(node).sleeps, 10);

    assert_int_equal(tide_trace_start(node->system, LARGE), 0); /* forgets */
    assert_int_equal(read_all(node).sleeps, 0);
    struct sleeper again = {.most = 2};
    spawn(node, &again);
    assert_true(world_wait(node, &again.done, 1));
    tide_trace_stop(node->system);
    f = read_all(node);
    assert_int_equal(f.sleeps, 2);
    assert_int_equal(f.labels, 1);
    world_close(node);
}

static void a_full_ring_keeps_the_newest_and_who_they_are(void **state) {
    struct tide_node *node = world_open(is_simulated(state), 1);
    struct sleeper s = {.most = 200};
    assert_int_equal(tide_trace_start(node->system, SMALL), 0);
    spawn(node, &s);
    assert_true(world_wait(node, &s.done, 1));
    tide_trace_stop(node->system);
    struct tide_span spans[SMALL + 1];
    uint64_t from = 0;
    assert_int_equal(tide_trace_read(node->system, 1, &from, spans, SMALL + 1), SMALL);
    assert_true(from > SMALL);
    struct found f = read_all(node);
    assert_true(f.labels >= 1);
    assert_true(f.outers >= 10 && f.outers < 20);
    world_close(node);
}

static void spans_are_read_while_they_are_written(void **state) {
    struct tide_node *node = world_open(is_simulated(state), 1);
    struct sleeper s = {0};
    spawn(node, &s);
    assert_int_equal(tide_trace_start(node->system, SMALL), 0);
    struct tide_span spans[SMALL];
    uint64_t from = 0, seen = 0;
    for (unsigned round = 0; round < 200; round++) {
        size_t count = tide_trace_read(node->system, 1, &from, spans, SMALL);
        for (size_t i = 0; i < count; i++) {
            assert_true(memchr(spans[i].name, 0, sizeof spans[i].name) != NULL);
        }
        seen += count;
        node->port->ops->pause(node->port, 100000);
    }
    assert_true(seen > 0);
    world_close(node);
}

static void threads_are_counted(void **state) {
    struct tide_node *node = world_open(is_simulated(state), 2);
    enum tide_role role;
    assert_int_equal(tide_trace_thread(node->system, 0, &role), 4);
    assert_int_equal(role, TIDE_ROLE_IO);
    assert_int_equal(tide_trace_thread(node->system, 3, &role), 4);
    assert_int_equal(role, TIDE_ROLE_CONTROL);
    struct tide_span span;
    uint64_t from = 0;
    assert_int_equal(tide_trace_read(node->system, 0, &from, &span, 1), 0); /* never started */
    assert_int_equal(tide_trace_read(node->system, 9, &from, &span, 1), 0);
    world_close(node);
}

#define BOTH(test)                                                                                                     \
    {#test, test, NULL, NULL, NULL}, {#test " simulated", test, NULL, NULL, (void *)1}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(waits_and_named_spans_are_recorded),
        BOTH(a_full_ring_keeps_the_newest_and_who_they_are),
        BOTH(spans_are_read_while_they_are_written),
        BOTH(threads_are_counted),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
