/* Mailboxes and addresses where they are full, shared or used up: on the real port and in the simulator. */
#include "actor/internal.h"
#include "actor_world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t NIL[] = {0xc0};
static struct tide_node *node;
static bool simulated;
static atomic_int flag, failures;

/* Checks on other threads must not longjmp: they count. */
#define CHECK(e)                                                                                                       \
    do {                                                                                                               \
        if (!(e)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #e, tide_error_message());                         \
            atomic_fetch_add(&failures, 1);                                                                            \
        }                                                                                                              \
    } while (0)

static int open_world(void **state) {
    (void)state;
    node = world_open(simulated, 2);
    atomic_store(&flag, 0);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(node);
    return 0;
}

static tide_address spawn(struct tide_actor_options options) {
    tide_address who;
    assert_int_equal(tide_spawn(node, &options, &who), 0);
    return who;
}

static void done(void) {
    atomic_fetch_add(&flag, 1);
}

/* ---- a full mailbox ---- */

enum { KIB = 1024, BYTES_MAX = 512 * KIB };
struct load {
    uint32_t sizes[16]; /* of the messages; 0 ends them */
    uint32_t fit;       /* so many of them */
    tide_address to;
    atomic_bool may_read;
};

static int send_load(void *state) {
    const struct load *load = state;
    for (int i = 0; load->sizes[i] > 0; i++) {
        struct tide_blob *body = tide_blob_create(load->sizes[i]);
        memset(body->data, 0xc0, body->size);
        CHECK(tide_send_blob(load->to, TIDE_LANE_CONTROL, NULL, 0, body) == 0);
        tide_blob_unref(body);
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0); /* the mailbox counts it when the receiver's thread has it */
    }
    return 0;
}

static int read_load(void *state) {
    struct load *load = state;
    while (!atomic_load(&load->may_read)) {
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    }
    for (int i = 0; load->sizes[i] > 0; i++) {
        const struct tide_message *m;
        CHECK(tide_receive(TIDE_NEVER, &m) == 0);
        CHECK(m->size == load->sizes[i]);
        tide_message_free(m);
    }
    done();
    return 0;
}

static uint32_t queued(tide_address who) {
    struct tide_actor_info info[8];
    const size_t count = tide_actors(node, info, 8);
    for (size_t i = 0; i < count; i++) {
        if (info[i].address == who) {
            return info[i].mailbox_messages;
        }
    }
    return 0;
}

/* Runs on the sender's thread and counts how often actors run there while the mailbox stays full. */
static int count_turns(void *state) {
    struct load *load = state;
    while (queued(load->to) < load->fit) {
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    }
    const uint32_t before = tide__scheduler->sample;
    CHECK(tide_sleep(TIDE_SECOND / 50) == 0);
    CHECK(tide__scheduler->sample - before <= 4); /* this actor, and the sender, which comes to wait */
    atomic_store(&load->may_read, true);
    return 0;
}

static void a_sender_sleeps_until(struct load *load) {
    load->to = spawn((struct tide_actor_options){
        .run = read_load, .state = load, .role = TIDE_ROLE_COMPUTE, .messages_max = 64, .bytes_max = BYTES_MAX});
    spawn((struct tide_actor_options){.run = send_load, .state = load, .role = TIDE_ROLE_COMPUTE, .thread = 1});
    spawn((struct tide_actor_options){.run = count_turns, .state = load, .role = TIDE_ROLE_COMPUTE, .thread = 1});
    assert_true(world_wait(node, &flag, 1));
}

static void a_sender_sleeps_while_a_mailbox_is_full_by_bytes(void **state) {
    (void)state;
    static struct load load;
    load = (struct load){.fit = BYTES_MAX / (64 * KIB)};
    for (int i = 0; i < 15; i++) {
        load.sizes[i] = 64 * KIB;
    }
    a_sender_sleeps_until(&load);
}

static void a_sender_sleeps_while_its_message_does_not_fit_a_mailbox_that_is_half_empty(void **state) {
    (void)state;
    static struct load load;
    load = (struct load){.sizes = {200 * KIB, 400 * KIB, 1}, .fit = 1};
    a_sender_sleeps_until(&load);
}

/* ---- several fibers that receive ---- */

static atomic_int got;

static void receive_one(void *arg) {
    const struct tide_message *m;
    (void)arg;
    if (tide_receive(TIDE_NEVER, &m) == 0) {
        atomic_fetch_add(&got, 1);
        tide_message_free(m);
    }
}

static int two_receive(void *state) {
    (void)state;
    CHECK(tide_fiber_start(receive_one, NULL, 0, NULL) == 0);
    CHECK(tide_fiber_start(receive_one, NULL, 0, NULL) == 0);
    done();
    return tide_sleep(1000 * TIDE_SECOND);
}

static int send_two(void *state) {
    const tide_address *to = state;
    CHECK(tide_sleep(TIDE_SECOND / 100) == 0);
    CHECK(tide_send(*to, TIDE_LANE_CONTROL, NIL, sizeof NIL) == 0);
    CHECK(tide_send(*to, TIDE_LANE_CONTROL, NIL, sizeof NIL) == 0);
    return 0;
}

static void two_messages_wake_two_fibers(void **state) {
    (void)state;
    static tide_address to;
    atomic_store(&got, 0);
    to = spawn((struct tide_actor_options){.run = two_receive, .role = TIDE_ROLE_COMPUTE});
    assert_true(world_wait(node, &flag, 1));
    spawn((struct tide_actor_options){.run = send_two, .state = &to, .role = TIDE_ROLE_COMPUTE});
    assert_true(world_wait(node, &got, 2));
}

/* The newest fiber is woken for the message, and cancelled before it runs. */
static int cancel_the_woken(void *state) {
    struct tide_fiber *newest;
    (void)state;
    CHECK(tide_fiber_start(receive_one, NULL, 0, NULL) == 0);
    CHECK(tide_fiber_start(receive_one, NULL, 0, &newest) == 0);
    CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    CHECK(tide_send(tide_self(), TIDE_LANE_CONTROL, NIL, sizeof NIL) == 0);
    tide_fiber_cancel(newest);
    return tide_sleep(1000 * TIDE_SECOND);
}

static void a_cancelled_fiber_leaves_its_message_to_another(void **state) {
    (void)state;
    atomic_store(&got, 0);
    spawn((struct tide_actor_options){.run = cancel_the_woken, .role = TIDE_ROLE_COMPUTE});
    assert_true(world_wait(node, &got, 1));
}

/* ---- a message at the moment of the deadline, on each lane ---- */

static atomic_int steps; /* 1: the receiver waits and its thread is busy, 2: the message was sent */
static struct {
    tide_address receiver, busy;
    uint64_t deadline;
    uint8_t lane;
} moment;

static int receive_until(void *state) {
    const struct tide_message *m;
    (void)state;
    CHECK(tide_send(moment.busy, TIDE_LANE_CONTROL, NIL, sizeof NIL) == 0); /* it runs when this fiber waits */
    moment.deadline = tide_node_now(node) + TIDE_SECOND / 1000;
    CHECK(tide_receive(moment.deadline, &m) == 0 && m->lane == moment.lane);
    tide_message_free(m);
    done();
    return 0;
}

/* Keeps the receiver's thread until the message is there and the deadline is over. */
static int keep_busy(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CAST) {
        atomic_store(&steps, 1);
        while (atomic_load(&steps) != 2 || tide_node_now(node) <= moment.deadline) {
        }
    }
    return 0;
}

static int send_at_the_deadline(void *state) {
    (void)state;
    CHECK(tide_send(moment.receiver, moment.lane, NIL, sizeof NIL) == 0);
    atomic_store(&steps, 2);
    return 0;
}

static void a_message_at_the_deadline_is_received(void **state) {
    (void)state;
    static const uint8_t lanes[] = {TIDE_LANE_SYSTEM, TIDE_LANE_CONTROL, TIDE_LANE_BULK};
    for (int i = 0; i < 3; i++) {
        atomic_store(&steps, 0);
        moment.lane = lanes[i];
        moment.busy = spawn((struct tide_actor_options){.handle = keep_busy, .role = TIDE_ROLE_COMPUTE});
        moment.receiver = spawn((struct tide_actor_options){.run = receive_until, .role = TIDE_ROLE_COMPUTE});
        assert_true(world_wait(node, &steps, 1));
        spawn((struct tide_actor_options){.run = send_at_the_deadline, .role = TIDE_ROLE_COMPUTE, .thread = 1});
        assert_true(world_wait(node, &flag, i + 1));
    }
}

/* ---- addresses ---- */

static int ignore(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    return 0;
}

static int end_at_once(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    tide_exit(0);
    return 0;
}

static void ended(void *state) {
    (void)state;
    done();
}

/* Starts an actor that ends at once and gives its address. */
static tide_address pass_by(int times_before) {
    const tide_address who =
        spawn((struct tide_actor_options){.handle = end_at_once, .release = ended, .role = TIDE_ROLE_COMPUTE});
    assert_int_equal(tide_post(node, who, NIL, sizeof NIL), 0);
    assert_true(world_wait(node, &flag, times_before + 1));
    struct tide_actor_info info[8];
    while (tide_actors(node, info, 8) > 2) { /* until its slot is free */
        node->port->ops->pause(node->port, 1000);
    }
    return who;
}

/* A spawn that fails uses up an address too. */
static void an_address_is_never_given_again(void **state) {
    (void)state;
    enum { STEP = 1 << 16, STEPS = (1 << GENERATION_BITS) / STEP + 1 };
    const struct tide_actor_options taken = {.handle = ignore, .name = "taken", .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(node, &(struct tide_actor_options){.handle = ignore, .name = "taken"}, NULL), 0);
    const tide_address first = pass_by(0);
    for (int i = 1; i <= STEPS; i++) {
        for (int n = 1; n < STEP; n++) {
            assert_int_equal(tide_spawn(node, &taken, NULL), TIDE_EEXIST);
        }
        assert_true(pass_by(i) != first);
    }
}

static int run(const char *name, bool sim) {
#define IN_WORLD(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_sender_sleeps_while_a_mailbox_is_full_by_bytes),
        IN_WORLD(a_sender_sleeps_while_its_message_does_not_fit_a_mailbox_that_is_half_empty),
        IN_WORLD(two_messages_wake_two_fibers),
        IN_WORLD(a_cancelled_fiber_leaves_its_message_to_another),
        IN_WORLD(an_address_is_never_given_again),
    };
    const struct CMUnitTest threads[] = {IN_WORLD(a_message_at_the_deadline_is_received)}; /* they wait in their turns */
    simulated = sim;
    int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);
    if (!sim) {
        failed += cmocka_run_group_tests_name("threads", threads, NULL, NULL);
    }
    return failed;
}

int main(void) {
    int failed = run("real", false);
    failed += run("simulated", true);
    return failed + atomic_load(&failures);
}
