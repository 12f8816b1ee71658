/* The actor system on the real port and in the simulator: every behaviour runs in both worlds. */
#include "actor_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t NIL[] = {0xc0};
static struct tide_node *node;
static bool simulated;
static atomic_int flag;
static atomic_int counter;

static int open_world(void **state) {
    (void)state;
    node = world_open(simulated, 2);
    atomic_store(&flag, 0);
    atomic_store(&counter, 0);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    world_close(node);
    return 0;
}

static tide_address handler(tide_handler handle, void *state, enum tide_role role) {
    tide_address who;
    assert_int_equal(
        tide_spawn(node, &(struct tide_actor_options){.handle = handle, .state = state, .role = (uint8_t)role}, &who), 0);
    return who;
}

static tide_address fiber(tide_fiber_main run, void *state, enum tide_role role) {
    tide_address who;
    assert_int_equal(
        tide_spawn(node, &(struct tide_actor_options){.run = run, .state = state, .role = (uint8_t)role}, &who), 0);
    return who;
}

static void wait_flag(int value) {
    assert_true(world_wait(node, &flag, value));
}

/* Checks on other threads must not longjmp: they count. */
static atomic_int failures;
#define CHECK(e)                                                                                                       \
    do {                                                                                                               \
        if (!(e)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #e, tide_error_message());                         \
            atomic_fetch_add(&failures, 1);                                                                            \
        }                                                                                                              \
    } while (0)

static void done(void) {
    atomic_fetch_add(&flag, 1);
}

#define PATIENCE (10 * TIDE_SECOND) /* for what must come, on a machine that may be busy */

/* ---- order ---- */

static int expect_order(void *state, const struct tide_message *m) {
    uint64_t *next = state;
    if (m->kind == TIDE_CAST) {
        struct tide_reader r;
        tide_reader_init(&r, m->data, m->size);
        CHECK(tide_read_uint(&r) == *next);
        if (++*next == 20000) {
            done();
        }
    }
    return 0;
}

static int send_numbers(void *state) {
    tide_address to = *(tide_address *)state;
    for (uint64_t i = 0; i < 20000; i++) {
        uint8_t buffer[16];
        struct tide_writer w;
        tide_writer_init(&w, buffer, sizeof buffer);
        tide_write_uint(&w, i);
        CHECK(tide_send(to, TIDE_LANE_CONTROL, w.data, w.size) == 0);
    }
    return 0;
}

static void messages_of_one_sender_arrive_in_order(void **state) {
    (void)state;
    static uint64_t next;
    static tide_address to;
    next = 0;
    to = handler(expect_order, &next, TIDE_ROLE_CONTROL);
    fiber(send_numbers, &to, TIDE_ROLE_COMPUTE);
    wait_flag(1);
}

/* ---- calls ---- */

static int echo(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CALL) {
        CHECK(tide_answer(m->from, m->call, m->data, m->size) == 0);
        CHECK(tide_answer(m->from, m->call, m->data, m->size) == TIDE_ENOENT); /* once only */
    }
    return 0;
}

static int refuse(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CALL ? tide_answer_error(m->from, m->call, TIDE_ERANGE, "key 7 is too far") : 0;
}

static int mute(void *state, const struct tide_message *m) {
    atomic_int *cancelled = state;
    if (m->kind == TIDE_CANCEL) {
        atomic_fetch_add(cancelled, 1);
    }
    return 0;
}

static int die_on_call(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CALL ? tide_fail(TIDE_ECRASHED, "lost my head") : 0;
}

static struct {
    tide_address echo, refuse, mute, dies;
} who;

static int make_calls(void *state) {
    (void)state;
    struct tide_reply *reply;
    size_t size;
    for (int i = 0; i < 1000; i++) {
        CHECK(tide_call(who.echo, "\xa3hey", 4, PATIENCE, &reply) == 0);
        CHECK(memcmp(tide_reply_data(reply, &size), "\xa3hey", 4) == 0 && size == 4);
        tide_reply_free(reply);
    }
    CHECK(tide_call(who.refuse, NIL, 1, PATIENCE, &reply) == TIDE_ERANGE);
    CHECK(strcmp(tide_error_message(), "key 7 is too far") == 0);
    CHECK(tide_call(who.mute, NIL, 1, TIDE_SECOND / 50, &reply) == TIDE_ETIMEDOUT);
    CHECK(tide_call(who.dies, NIL, 1, PATIENCE, &reply) == TIDE_EDIED);
    CHECK(strstr(tide_error_message(), "lost my head") != NULL);
    CHECK(tide_call(who.dies, NIL, 1, PATIENCE, &reply) == TIDE_EDIED); /* gone by now */
    CHECK(tide_call(tide_address_make(9, 5), NIL, 1, PATIENCE, &reply) == TIDE_EUNREACHABLE);
    done();
    return 0;
}

static void a_call_ends_in_one_of_its_distinct_ways(void **state) {
    (void)state;
    static atomic_int cancelled;
    atomic_store(&cancelled, 0);
    who.echo = handler(echo, NULL, TIDE_ROLE_IO);
    who.refuse = handler(refuse, NULL, TIDE_ROLE_COMPUTE);
    who.mute = handler(mute, &cancelled, TIDE_ROLE_IO);
    who.dies = handler(die_on_call, NULL, TIDE_ROLE_IO);
    fiber(make_calls, NULL, TIDE_ROLE_COMPUTE);
    wait_flag(1);
    assert_true(world_wait(node, &cancelled, 1)); /* the mute one learnt that nobody waits */
}

static int call_from_handler(void *state, const struct tide_message *m) {
    uint64_t *ids = state;
    switch (m->kind) {
    case TIDE_CAST:
        CHECK(tide_call_start(who.echo, NIL, 1, PATIENCE, &ids[0]) == 0);
        CHECK(tide_call_start(who.mute, NIL, 1, TIDE_SECOND / 50, &ids[1]) == 0);
        break;
    case TIDE_REPLY:
        CHECK(m->call == ids[0]);
        done();
        break;
    case TIDE_ERROR:
        CHECK(m->call == ids[1] && m->code == TIDE_ETIMEDOUT);
        done();
        break;
    default:
        break;
    }
    return 0;
}

static void a_handler_calls_without_waiting(void **state) {
    (void)state;
    static uint64_t ids[2];
    static atomic_int cancelled;
    who.echo = handler(echo, NULL, TIDE_ROLE_CONTROL);
    who.mute = handler(mute, &cancelled, TIDE_ROLE_IO);
    tide_address a = handler(call_from_handler, ids, TIDE_ROLE_IO);
    tide_post(node, a, NIL, 1);
    wait_flag(2);
}

/* ---- mailboxes ---- */

static int slow_sink(void *state) {
    (void)state;
    CHECK(tide_sleep(TIDE_SECOND / 20) == 0);
    for (int i = 0; i < 2000; i++) {
        const struct tide_message *m;
        CHECK(tide_receive(TIDE_NEVER, &m) == 0);
        struct tide_actor_info info[64];
        size_t n = tide_actors(node, info, 64);
        for (size_t k = 0; k < n; k++) {
            CHECK(info[k].mailbox_messages <= 64 + 8);
        }
        tide_message_free(m);
    }
    done();
    return 0;
}

static int deaf(void *state) {
    (void)state;
    return tide_sleep(1000 * TIDE_SECOND); /* never receives */
}

static int send_many(void *state) {
    tide_address to = *(tide_address *)state;
    for (int i = 0; i < 1000; i++) {
        CHECK(tide_send(to, TIDE_LANE_CONTROL, NIL, 1) == 0);
    }
    return 0;
}

static int overfill(void *state, const struct tide_message *m) {
    tide_address to = *(tide_address *)state;
    if (m->kind == TIDE_CAST) {
        int rc = 0;
        int sent = 0;
        while (rc == 0 && sent < 1000) {
            rc = tide_send(to, TIDE_LANE_CONTROL, NIL, 1);
            sent += rc == 0;
        }
        CHECK(rc == TIDE_EBUSY && sent == 64);
        done();
    }
    return 0;
}

static void a_full_mailbox_suspends_fibers_and_refuses_handlers(void **state) {
    (void)state;
    static tide_address to;
    struct tide_actor_options o = {.run = slow_sink, .role = TIDE_ROLE_COMPUTE, .thread = 0, .messages_max = 64};
    assert_int_equal(tide_spawn(node, &o, &to), 0);
    struct tide_actor_options s = {.run = send_many, .state = &to, .role = TIDE_ROLE_COMPUTE, .thread = 0};
    assert_int_equal(tide_spawn(node, &s, NULL), 0);
    s.thread = 0;
    assert_int_equal(tide_spawn(node, &s, NULL), 0);
    wait_flag(1);
    static tide_address full;
    struct tide_actor_options q = {.run = deaf, .role = TIDE_ROLE_IO, .messages_max = 64};
    assert_int_equal(tide_spawn(node, &q, &full), 0);
    tide_post(node, handler(overfill, &full, TIDE_ROLE_IO), NIL, 1);
    wait_flag(2);
}

static atomic_int may_read, read_so_far;

static int reads_late(void *state) {
    const struct tide_message *m;
    (void)state;
    while (!atomic_load(&may_read)) {
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    }
    while (tide_receive(TIDE_NEVER, &m) == 0) {
        const int kind = m->kind;
        tide_message_free(m);
        if (kind == TIDE_STOP) {
            break;
        }
        atomic_fetch_add(&read_so_far, kind == TIDE_CAST);
    }
    return 0;
}

static void posts_from_outside_are_bounded(void **state) {
    (void)state;
    static const uint8_t body[1000] = {0xc5, 0x03, 0xe5};
    tide_address to;
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        atomic_store(&may_read, 0);
        atomic_store(&read_so_far, 0);
        struct tide_actor_options o = {.run = reads_late, .role = TIDE_ROLE_COMPUTE,
                                       .messages_max = by_bytes ? 1000000 : 64, .bytes_max = by_bytes ? 64000 : 0};
        assert_int_equal(tide_spawn(node, &o, &to), 0);
        int sent = 0;
        for (int refused = 0; sent < 64 || refused < 100;) { /* what is in flight may count twice for a moment */
            const int rc = tide_post(node, to, body, sizeof body);
            assert_true(rc == 0 || rc == TIDE_EBUSY);
            sent += rc == 0;
            refused += rc != 0;
            assert_true(sent <= 64);
        }
        assert_int_equal(sent, 64);
        atomic_store(&may_read, 1);
        assert_true(world_wait(node, &read_so_far, 64));
        assert_int_equal(tide_post(node, to, body, sizeof body), 0);
        assert_true(world_wait(node, &read_so_far, 65));
    }
}

/* ---- monitors and links ---- */

static int crash_on_cast(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CAST ? tide_fail(TIDE_ECRASHED, "broken on purpose") : 0;
}

static int watch(void *state) {
    tide_address victim = *(tide_address *)state;
    uint64_t id;
    uint64_t gone;
    const struct tide_message *m;
    CHECK(tide_monitor(victim, &id) == 0);
    CHECK(tide_sleep(TIDE_SECOND / 100) == 0);
    CHECK(tide_send(victim, TIDE_LANE_CONTROL, NIL, 1) == 0);
    CHECK(tide_receive(TIDE_NEVER, &m) == 0);
    CHECK(m->kind == TIDE_EXIT && m->call == id && m->from == victim && m->code == TIDE_ECRASHED);
    CHECK(strcmp((const char *)m->data, "broken on purpose") == 0);
    tide_message_free(m);
    CHECK(tide_monitor(victim, &gone) == 0);
    CHECK(tide_receive(TIDE_NEVER, &m) == 0);
    CHECK(m->kind == TIDE_EXIT && m->call == gone && m->code == TIDE_EDIED);
    tide_message_free(m);
    done();
    return 0;
}

static void a_monitor_tells_who_ended_and_why(void **state) {
    (void)state;
    static tide_address victim;
    victim = handler(crash_on_cast, NULL, TIDE_ROLE_IO);
    fiber(watch, &victim, TIDE_ROLE_CONTROL);
    wait_flag(1);
}

static void count_release(void *state) {
    (void)state;
    atomic_fetch_add(&counter, 1);
}

static int sleep_long(void *state) {
    (void)state;
    int rc = tide_sleep(1000 * TIDE_SECOND);
    CHECK(rc == TIDE_ECANCELED);
    done();
    return rc;
}

static int link_and_crash(void *state) {
    tide_address peer = *(tide_address *)state;
    CHECK(tide_link(peer) == 0);
    CHECK(tide_sleep(TIDE_SECOND / 50) == 0);
    return tide_fail(TIDE_ECRASHED, "taking the linked one along");
}

static void a_crash_ends_linked_actors(void **state) {
    (void)state;
    static tide_address peer;
    struct tide_actor_options o = {.run = sleep_long, .role = TIDE_ROLE_COMPUTE, .release = count_release};
    assert_int_equal(tide_spawn(node, &o, &peer), 0);
    fiber(link_and_crash, &peer, TIDE_ROLE_CONTROL);
    wait_flag(1);
    assert_true(world_wait(node, &counter, 1)); /* its state was released */
}

static int end_normally(void *state) {
    tide_address peer = *(tide_address *)state;
    CHECK(tide_link(peer) == 0);
    CHECK(tide_sleep(TIDE_SECOND / 50) == 0);
    done();
    return 0;
}

static void a_normal_end_leaves_linked_actors_alone(void **state) {
    (void)state;
    static tide_address peer;
    static atomic_int none;
    peer = handler(mute, &none, TIDE_ROLE_IO);
    fiber(end_normally, &peer, TIDE_ROLE_CONTROL);
    wait_flag(1);
    node->port->ops->pause(node->port, TIDE_SECOND / 20);
    struct tide_actor_info info[8];
    size_t n = tide_actors(node, info, 8);
    bool alive = false;
    for (size_t i = 0; i < n; i++) {
        alive = alive || info[i].address == peer;
    }
    assert_true(alive);
}

/* ---- timers, kill, names ---- */

static int tick(void *state, const struct tide_message *m) {
    uint64_t *t = state; /* ids: 0 kept, 1 cancelled */
    if (m->kind == TIDE_CAST) {
        t[2] = tide_node_now(node); /* before: a thread may pause between two lines */
        CHECK(tide_timer_start(TIDE_SECOND / 20, &t[0]) == 0);
        CHECK(tide_timer_start(TIDE_SECOND / 100, &t[1]) == 0);
        tide_timer_cancel(t[1]);
    } else if (m->kind == TIDE_TIMER) {
        CHECK(m->call == t[0]);
        CHECK(tide_node_now(node) - t[2] >= TIDE_SECOND / 20);
        done();
    }
    return 0;
}

static void a_timer_fires_once_and_not_when_cancelled(void **state) {
    (void)state;
    static uint64_t t[3];
    tide_post(node, handler(tick, t, TIDE_ROLE_CONTROL), NIL, 1);
    wait_flag(1);
}

static int name_things(void *state) {
    tide_address other = *(tide_address *)state;
    tide_address found;
    CHECK(tide_register(node, "lamp", other) == 0);
    CHECK(tide_register(node, "lamp", tide_self()) == TIDE_EEXIST);
    CHECK(tide_register(node, "No Good", other) == TIDE_EINVAL);
    CHECK(tide_whereis(node, "lamp", &found) == 0 && found == other);
    CHECK(tide_whereis(node, "table", &found) == TIDE_ENOENT);
    CHECK(tide_kill(other, TIDE_EKILLED) == 0);
    uint64_t until = tide_node_now(node) + PATIENCE;
    while (tide_whereis(node, "lamp", &found) == 0 && tide_node_now(node) < until) {
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    }
    CHECK(tide_whereis(node, "lamp", &found) == TIDE_ENOENT); /* the name ended with its actor */
    done();
    return 0;
}

static void names_live_as_long_as_their_actor(void **state) {
    (void)state;
    static tide_address other;
    static atomic_int none;
    other = handler(mute, &none, TIDE_ROLE_IO);
    fiber(name_things, &other, TIDE_ROLE_CONTROL);
    wait_flag(1);
}

static int stubborn(void *state) {
    (void)state;
    for (;;) { /* ignores every cancellation: abandoned in the end */
        tide_sleep(TIDE_SECOND);
    }
    return 0;
}

static void a_fiber_that_ignores_its_end_is_abandoned(void **state) {
    (void)state;
    tide_address who_is;
    struct tide_actor_options o = {.run = stubborn, .role = TIDE_ROLE_COMPUTE, .release = count_release};
    assert_int_equal(tide_spawn(node, &o, &who_is), 0);
    node->port->ops->pause(node->port, TIDE_SECOND / 50);
    /* world_close must not hang; the state is released */
}

static void child_fiber(void *arg) {
    (void)arg;
    tide_sleep(TIDE_SECOND / 100);
    atomic_fetch_add(&counter, 1);
}

static int many_fibers(void *state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        CHECK(tide_fiber_start(child_fiber, NULL, 0, NULL) == 0);
    }
    while (atomic_load(&counter) < 10) {
        CHECK(tide_yield() == 0);
        CHECK(tide_sleep(TIDE_SECOND / 1000) == 0);
    }
    done();
    return 0;
}

static void an_actor_runs_further_fibers(void **state) {
    (void)state;
    fiber(many_fibers, NULL, TIDE_ROLE_COMPUTE);
    wait_flag(1);
}

/* ---- yielding ---- */

static atomic_int hogs_ready, heard_at;
static tide_address listener;

static int hear(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CAST) {
        atomic_store(&heard_at, atomic_load(&counter));
    }
    return 0;
}

static int tell_a_busy_thread(void *state) {
    (void)state;
    while (atomic_load(&hogs_ready) == 0) {
    }
    CHECK(tide_send(listener, TIDE_LANE_SYSTEM, NIL, sizeof NIL) == 0);
    atomic_store(&hogs_ready, 2);
    return 0;
}

/* Takes the thread until something was sent to it from another one, then counts how often it yields until that was
 * heard. */
static int hog(void *state) {
    (void)state;
    atomic_store(&hogs_ready, 1);
    while (atomic_load(&hogs_ready) != 2) {
    }
    for (int i = 1; i <= 100 && atomic_load(&heard_at) < 0; i++) {
        atomic_store(&counter, i);
        CHECK(tide_yield() == 0);
    }
    CHECK(atomic_load(&heard_at) >= 1 && atomic_load(&heard_at) <= 2);
    done();
    return 0;
}

static void a_fiber_that_yields_lets_a_message_of_another_thread_in(void **state) {
    (void)state;
    atomic_store(&hogs_ready, 0);
    atomic_store(&heard_at, -1);
    listener = handler(hear, NULL, TIDE_ROLE_CONTROL);
    fiber(tell_a_busy_thread, NULL, TIDE_ROLE_COMPUTE);
    fiber(hog, NULL, TIDE_ROLE_CONTROL);
    wait_flag(1);
}

static atomic_int in_step, other_turns;

static void look_at_step(void *arg) {
    (void)arg;
    CHECK(atomic_load(&in_step) == 0);
    atomic_store(&counter, 1);
}

static int count_turn(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind == TIDE_CAST) {
        CHECK(atomic_load(&in_step) == 1);
        atomic_fetch_add(&other_turns, 1);
    }
    return 0;
}

/* A step of several turns: another actor has its own meanwhile, a fiber of this one not before the step is over. */
static int step_of_turns(void *other) {
    const tide_address *to = other;
    atomic_store(&in_step, 1);
    CHECK(tide_fiber_start(look_at_step, NULL, 0, NULL) == 0);
    CHECK(tide_send(*to, TIDE_LANE_CONTROL, NIL, sizeof NIL) == 0);
    for (int i = 0; i < 5; i++) {
        CHECK(tide_yield_to_actors() == 0);
    }
    CHECK(atomic_load(&other_turns) == 1 && atomic_load(&counter) == 0);
    atomic_store(&in_step, 0);
    CHECK(tide_yield() == 0);
    CHECK(atomic_load(&counter) == 1);
    done();
    return 0;
}

static void a_yield_to_actors_keeps_other_fibers_waiting(void **state) {
    (void)state;
    static tide_address other;
    atomic_store(&other_turns, 0);
    atomic_store(&counter, 0);
    other = handler(count_turn, NULL, TIDE_ROLE_COMPUTE);
    fiber(step_of_turns, &other, TIDE_ROLE_COMPUTE);
    wait_flag(1);
}

static void wake_parent(void *parent) {
    tide_fiber_wake(parent);
}

/* Like one that is listed somewhere, has looked, and meets a latch before it suspends. */
static int yield_before_suspending(void *state) {
    (void)state;
    tide_fiber_wake(tide_fiber_current());
    CHECK(tide_yield() == 0);
    CHECK(tide_fiber_suspend(tide_node_now(node) + PATIENCE, "what came before the yield") == 0);
    CHECK(tide_fiber_start(wake_parent, tide_fiber_current(), 0, NULL) == 0);
    CHECK(tide_yield() == 0);
    CHECK(tide_fiber_suspend(tide_node_now(node) + PATIENCE, "what came during the yield") == 0);
    CHECK(tide_fiber_suspend(tide_node_now(node) + 1, "what does not come") == TIDE_ETIMEDOUT);
    done();
    return 0;
}

static void a_yield_takes_no_wake(void **state) {
    (void)state;
    fiber(yield_before_suspending, NULL, TIDE_ROLE_COMPUTE);
    wait_flag(1);
}

/* ---- supervisors ---- */

static atomic_int starts[3], runs[3];
static _Atomic(tide_address) children[3];

static int child_start(void *argument, void **state) {
    *state = argument;
    atomic_fetch_add(&starts[(uintptr_t)argument], 1);
    return 0;
}

static int child_run(void *state) {
    uintptr_t i = (uintptr_t)state;
    children[i] = tide_self();
    atomic_fetch_add(&runs[i], 1);
    const struct tide_message *m;
    int rc = tide_receive(TIDE_NEVER, &m);
    if (rc < 0) {
        return rc;
    }
    bool stop = m->kind == TIDE_STOP;
    tide_message_free(m);
    return stop ? 0 : tide_fail(TIDE_ECRASHED, "child %zu", (size_t)i);
}

/* Each child comes to run so many times, and was not started more often. */
static void expect_runs(int first, int second, int third) {
    const int expected[] = {first, second, third};
    for (int i = 0; i < 3; i++) {
        assert_true(world_wait(node, &runs[i], expected[i]));
    }
    node->port->ops->pause(node->port, TIDE_SECOND / 50);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&starts[i]), expected[i]);
    }
}

static tide_address supervise(enum tide_strategy strategy, uint32_t restarts_max) {
    static struct tide_child specs[3];
    for (uintptr_t i = 0; i < 3; i++) {
        atomic_store(&starts[i], 0);
        atomic_store(&runs[i], 0);
        specs[i] = (struct tide_child){.actor = {.run = child_run, .role = TIDE_ROLE_CONTROL},
                                       .start = child_start,
                                       .argument = (void *)i,
                                       .restart = TIDE_PERMANENT};
    }
    tide_address sv;
    struct tide_supervisor_options o = {.strategy = strategy,
                                        .restarts_max = restarts_max,
                                        .backoff = TIDE_SECOND / 1000,
                                        .children = specs,
                                        .child_count = 3,
                                        .role = TIDE_ROLE_CONTROL};
    assert_int_equal(tide_supervise(node, &o, &sv), 0);
    expect_runs(1, 1, 1);
    return sv;
}

static void crash_child(int i) {
    tide_post(node, children[i], NIL, 1);
}

static void one_for_one_restarts_the_crashed_child_only(void **state) {
    (void)state;
    supervise(TIDE_ONE_FOR_ONE, 3);
    crash_child(1);
    expect_runs(1, 2, 1);
}

static void rest_for_one_restarts_the_later_children_too(void **state) {
    (void)state;
    supervise(TIDE_REST_FOR_ONE, 3);
    crash_child(1);
    expect_runs(1, 2, 2);
}

static void all_for_one_restarts_everybody(void **state) {
    (void)state;
    supervise(TIDE_ALL_FOR_ONE, 3);
    crash_child(1);
    expect_runs(2, 2, 2);
}

/* The supervisor, or a child: they run together. */
static bool is_there(tide_address supervisor) {
    struct tide_actor_info info[16];
    size_t n = tide_actors(node, info, 16);
    bool there = false;
    for (size_t i = 0; i < n; i++) {
        there = there || info[i].address == supervisor || strcmp(info[i].type, "fiber") == 0;
    }
    return there;
}

static void too_many_restarts_end_the_supervisor(void **state) {
    (void)state;
    tide_address sv = supervise(TIDE_ONE_FOR_ONE, 2);
    crash_child(0);
    expect_runs(2, 1, 1);
    crash_child(0);
    expect_runs(3, 1, 1); /* once and two restarts */
    crash_child(0);
    uint64_t until = tide_node_now(node) + PATIENCE;
    while (is_there(sv) && tide_node_now(node) < until) {
        node->port->ops->pause(node->port, TIDE_SECOND / 1000);
    }
    assert_false(is_there(sv)); /* and its children went with it */
    assert_int_equal(atomic_load(&starts[0]), 3);
}

/* ---- remote frames without a net ---- */

static void frames_for_nobody_and_damaged_ones_are_harmless(void **state) {
    (void)state;
    struct tide_frame f = {.kind = TIDE_FRAME_CAST, .lane = TIDE_LANE_CONTROL, .to = 0xffffffffffff, .body = NIL, .body_size = 1};
    tide_system_deliver(node->system, &f, NULL, NULL, 0);
    f.kind = TIDE_FRAME_ERROR; /* a body that is not [code, text] */
    tide_system_deliver(node->system, &f, NULL, NULL, 0);
    f.kind = TIDE_FRAME_EXIT;
    f.to = TIDE_ID_REGISTRY;
    tide_system_deliver(node->system, &f, NULL, NULL, 0);
    f.kind = 15;
    tide_system_deliver(node->system, &f, NULL, NULL, 0);
}

static int run(const char *name, bool sim) {
#define IN_WORLD(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_WORLD(messages_of_one_sender_arrive_in_order),
        IN_WORLD(a_call_ends_in_one_of_its_distinct_ways),
        IN_WORLD(a_handler_calls_without_waiting),
        IN_WORLD(a_full_mailbox_suspends_fibers_and_refuses_handlers),
        IN_WORLD(posts_from_outside_are_bounded),
        IN_WORLD(a_monitor_tells_who_ended_and_why),
        IN_WORLD(a_crash_ends_linked_actors),
        IN_WORLD(a_normal_end_leaves_linked_actors_alone),
        IN_WORLD(a_timer_fires_once_and_not_when_cancelled),
        IN_WORLD(names_live_as_long_as_their_actor),
        IN_WORLD(a_fiber_that_ignores_its_end_is_abandoned),
        IN_WORLD(an_actor_runs_further_fibers),
        IN_WORLD(a_yield_takes_no_wake),
        IN_WORLD(a_yield_to_actors_keeps_other_fibers_waiting),
        IN_WORLD(one_for_one_restarts_the_crashed_child_only),
        IN_WORLD(rest_for_one_restarts_the_later_children_too),
        IN_WORLD(all_for_one_restarts_everybody),
        IN_WORLD(too_many_restarts_end_the_supervisor),
    };
    const struct CMUnitTest one_thread[] = {IN_WORLD(frames_for_nobody_and_damaged_ones_are_harmless)};
    const struct CMUnitTest threads[] = {IN_WORLD(a_fiber_that_yields_lets_a_message_of_another_thread_in)};
    simulated = sim;
    int failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);
    if (sim) { /* one thread: delivering from outside is only allowed here */
        failed += cmocka_run_group_tests_name("frames", one_thread, NULL, NULL);
    } else { /* several: one of them waits for another without giving up its turn */
        failed += cmocka_run_group_tests_name("threads", threads, NULL, NULL);
    }
    return failed;
}

int main(void) {
    int failed = run("real", false);
    failed += run("simulated", true);
    return failed + atomic_load(&failures);
}
