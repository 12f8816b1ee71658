/* What people watch: taps on actors and events, on the real port and in the simulator; messages as text. */
#include "actor_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct tide_node *node;
static bool simulated;
static atomic_int handled, failures;

#define CHECK(e)                                                                                                       \
    do {                                                                                                               \
        if (!(e)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #e, tide_error_message());                         \
            atomic_fetch_add(&failures, 1);                                                                            \
        }                                                                                                              \
    } while (0)

static int open_world(void **state) {
    (void)state;
    node = world_open(simulated, 1);
    atomic_store(&handled, 0);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(node);
    return 0;
}

/* ---- taps ---- */

static int count(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CAST) {
        atomic_fetch_add(&handled, 1);
        return m->size == 1 ? tide_fail(TIDE_ECRASHED, "told to") : 0; /* nil */
    }
    return 0;
}

static tide_address counter(void) {
    tide_address who;
    struct tide_actor_options o = {.handle = count, .role = TIDE_ROLE_CONTROL};
    assert_int_equal(tide_spawn(node, &o, &who), 0);
    return who;
}

struct batch {
    tide_address to;
    int count;
    size_t size; /* of each: a binary; 0: nil, which ends the actor */
};

static int send_batch(void *state) {
    const struct batch *batch = state;
    static uint8_t body[2000];
    for (int i = 0; i < batch->count; i++) {
        struct tide_writer w;
        tide_writer_init(&w, body, sizeof body);
        if (batch->size == 0) {
            tide_write_nil(&w);
        } else {
            tide_write_binary_head(&w, batch->size);
            CHECK(tide_write_reserve(&w, batch->size) != NULL);
        }
        CHECK(tide_send(batch->to, TIDE_LANE_CONTROL, w.data, w.size) == 0);
    }
    return 0;
}

static void deliver(struct batch batch) {
    int before = atomic_load(&handled);
    struct batch *order = malloc(sizeof *order);
    assert_non_null(order);
    *order = batch;
    tide_address sender;
    struct tide_actor_options o = {.run = send_batch, .state = order, .release = free, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &o, &sender), 0);
    assert_true(world_wait(node, &handled, before + batch.count));
}

static void a_tap_counts_all_messages_and_copies_the_beginning_of_some(void **state) {
    (void)state;
    tide_address who = counter();
    struct tide_tap *tap;
    struct tide_tap_sample samples[128];
    struct tide_tap_counts counts;
    deliver((struct batch){who, 10, 100}); /* nobody looks */
    assert_int_equal(tide_tap_open(node->system, who, 20, &tap), 0);
    deliver((struct batch){who, 500, 1000});
    size_t got = tide_tap_read(tap, samples, 128, &counts);
    assert_int_equal(counts.seen, 500);
    assert_true(got >= 1 && counts.dropped == 0 && got + counts.passed_over == 500);
    assert_false(counts.ended);
    assert_int_equal(samples[0].size, 1003);
    assert_int_equal(samples[0].captured, TIDE_TAP_BYTES);
    assert_int_equal(samples[0].kind, TIDE_CAST);
    assert_int_equal(samples[0].lane, TIDE_LANE_CONTROL);
    assert_memory_equal(samples[0].data, "\xc5\x03\xe8", 3); /* binary of 1,000 */
    assert_int_equal(tide_tap_read(tap, samples, 128, &counts), 0);
    tide_tap_close(tap);
    deliver((struct batch){who, 10, 100}); /* nobody looks any more */
}

/* Holds the messages behind the first one up: until all are sent, and 3 ms more. In the simulator nothing is sent, and
 * no time passes, while a handler runs. */
static atomic_bool all_sent;

static int hold_up(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CAST && atomic_load(&handled) == 0 && !simulated) {
        while (!atomic_load(&all_sent)) {
        }
        uint64_t until = tide_port_now(node->port) + 3000000;
        while (tide_port_now(node->port) < until) {
        }
    }
    atomic_fetch_add(&handled, m->kind == TIDE_CAST);
    return 0;
}

static int send_and_say_so(void *state) {
    int code = send_batch(state);
    atomic_store(&all_sent, true);
    return code;
}

static void a_tap_counts_how_long_messages_are_queued(void **state) {
    (void)state;
    tide_address who, sender;
    struct tide_tap *tap;
    struct tide_tap_counts counts;
    struct batch batch = {.count = 20, .size = 10};
    struct tide_actor_options slow = {.handle = hold_up, .role = TIDE_ROLE_CONTROL};
    struct tide_actor_options o = {.run = send_and_say_so, .state = &batch, .role = TIDE_ROLE_COMPUTE};
    atomic_store(&all_sent, false);
    assert_int_equal(tide_spawn(node, &slow, &who), 0);
    assert_int_equal(tide_tap_open(node->system, who, 1, &tap), 0);
    batch.to = who;
    assert_int_equal(tide_spawn(node, &o, &sender), 0);
    assert_true(world_wait(node, &handled, 20));
    (void)tide_tap_read(tap, NULL, 0, &counts);
    uint64_t all = 0, long_ones = 0;
    for (unsigned i = 0; i < TIDE_WAIT_BUCKETS; i++) {
        all += counts.queued[i];
        long_ones += i > tide_wait_bucket(2000000) ? counts.queued[i] : 0; /* from 2,048 us on */
    }
    assert_int_equal(all, 20);
    assert_true(simulated || long_ones >= 19);
    tide_tap_close(tap);
}

static void a_tap_that_nobody_reads_drops_and_goes_on(void **state) {
    (void)state;
    tide_address who = counter();
    struct tide_tap *tap;
    struct tide_tap_sample samples[128];
    struct tide_tap_counts counts;
    assert_int_equal(tide_tap_open(node->system, who, 1000000, &tap), 0);
    deliver((struct batch){who, 3000, 10});
    assert_int_equal(tide_tap_read(tap, samples, 128, &counts), 128);
    assert_int_equal(counts.seen, 3000);
    assert_true(counts.dropped > 0 && counts.dropped + counts.passed_over + 128 == 3000);
    tide_tap_close(tap);
}

static void a_tap_says_that_its_actor_has_ended_and_leaves_the_next_one_alone(void **state) {
    (void)state;
    tide_address who = counter();
    struct tide_tap *tap, *second;
    struct tide_tap_sample samples[8];
    struct tide_tap_counts counts;
    assert_int_equal(tide_tap_open(node->system, who, 100, &tap), 0);
    assert_int_equal(tide_tap_open(node->system, who, 100, &second), TIDE_EBUSY);
    deliver((struct batch){who, 1, 0});
    uint64_t until = tide_port_now(node->port) + 10 * TIDE_SECOND;
    size_t got = 0;
    do {
        node->port->ops->pause(node->port, 200000);
        got += tide_tap_read(tap, samples, 8, &counts);
    } while (!counts.ended && tide_port_now(node->port) < until);
    assert_true(counts.ended);
    assert_int_equal(got, 1); /* what ended it was seen */
    tide_address next = counter(); /* perhaps in the same slot */
    deliver((struct batch){next, 100, 10});
    (void)tide_tap_read(tap, samples, 8, &counts);
    assert_int_equal(counts.seen, 1);
    tide_tap_close(tap);
    assert_int_equal(tide_tap_open(node->system, who, 100, &second), TIDE_ENOENT);
    assert_int_equal(tide_tap_open(node->system, next, 100, &second), 0);
    tide_tap_close(second);
}

/* ---- events ---- */

static void the_newest_events_are_kept_in_order(void **state) {
    (void)state;
    struct tide_event events[600];
    size_t before = tide_events(node->system, 0, events, 600);
    assert_int_equal(before, 0);
    for (int i = 1; i <= 700; i++) {
        tide_event_add(node->system, "test", "number %d", i);
    }
    assert_int_equal(tide_events(node->system, 0, events, 600), 512);
    assert_int_equal(events[0].number, 700 - 512 + 1);
    assert_int_equal(events[511].number, 700);
    assert_string_equal(events[511].text, "number 700");
    assert_string_equal(events[511].kind, "test");
    assert_int_equal(tide_events(node->system, 698, events, 600), 2);
    assert_int_equal(tide_events(node->system, 0, events, 3), 3);
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    tide_event_add(node->system, "a kind that is far too long", "%s", text);
    assert_int_equal(tide_events(node->system, 700, events, 1), 1);
    assert_int_equal(strlen(events[0].text), sizeof events[0].text - 1);
}

/* ---- messages as text ---- */

static void described(const char *bytes, size_t size, const char *text) {
    char out[200];
    size_t length = tide_describe(bytes, size, out, sizeof out);
    assert_string_equal(out, text);
    assert_int_equal(length, strlen(text));
}
#define DESCRIBED(bytes, text) described(bytes, sizeof(bytes) - 1, text)

static void messages_are_described_as_far_as_they_go(void **state) {
    (void)state;
    DESCRIBED("\xc0", "nil");
    DESCRIBED("\x82\xa2op\xa6status\xa1n\x03", "{op = \"status\", n = 3}");
    DESCRIBED("\x94\x01\xff\xc3\xcb\x3f\xf8\0\0\0\0\0\0", "[1, -1, true, 1.5]");
    DESCRIBED("\x92\x90\x80", "[[], {}]");
    DESCRIBED("\x93\xc4\x02zz\xc7\x10\x07" "0123456789abcdef" "\xd6\x01" "1234", "[<2 bytes>, u64[2], f32[1]]");
    DESCRIBED("\x92\x01\xc6\0\0\x10\0zz", "[1, <4096 bytes>..."); /* cut short */
    DESCRIBED("\x92\x01\xc8\x10\0\x01zz", "[1, f32[1024]...");
    DESCRIBED("\xdd\0\xff\0\0\x01\x02", "[1, 2...");
    DESCRIBED("\xd9\x0aseven", "\"seven...\"...");
    DESCRIBED("\x91\xc1", "[...");
    DESCRIBED("\x91\xce\x01", "[...");
    DESCRIBED("", "...");
    DESCRIBED("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
    char deep[40], out[30];
    memset(deep, '\x91', sizeof deep);
    char text[200];
    (void)tide_describe(deep, sizeof deep, text, sizeof text);
    assert_string_equal(text, "[[[[[[[[[[[[[[[[[...");
    (void)tide_describe("\xd9\x20" "abcdefghijklmnopqrstuvwxyzabcdef", 34, out, sizeof out);
    assert_string_equal(out, "\"abcdefghijklmnopqrstuvwxy...");
}

static int run(const char *name, bool sim) {
#define IN_WORLD(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_tap_counts_all_messages_and_copies_the_beginning_of_some),
        IN_WORLD(a_tap_counts_how_long_messages_are_queued),
        IN_WORLD(a_tap_that_nobody_reads_drops_and_goes_on),
        IN_WORLD(a_tap_says_that_its_actor_has_ended_and_leaves_the_next_one_alone),
        IN_WORLD(the_newest_events_are_kept_in_order),
    };
    simulated = sim;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest text[] = {cmocka_unit_test(messages_are_described_as_far_as_they_go)};
    int failed = run("real", false) + run("simulated", true);
    failed += cmocka_run_group_tests_name("text", text, NULL, NULL);
    return failed + atomic_load(&failures);
}
