/* What only the simulator has: the run's hash, and faults. Two nodes talk: `a` sends a numbered
 * byte every millisecond to `b`, which keeps what it got. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "port/port.h"

#include <string.h>

enum { MS = 1000000 };

struct talker {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_stream *stream;
    bool connected, closed;
    int reason, turns;
    uint8_t next;
    uint64_t last_turn, closed_at, gap_max;
};

struct hearer {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_listener *listener;
    struct tide_stream *stream;
    uint8_t heard[4096], buffer[64];
    size_t count;
    bool closed;
    int reason;
    uint64_t closed_at;
};

struct pair {
    struct tide_sim *sim;
    struct talker a;
    struct hearer b;
};

static void a_connected(void *arg, struct tide_stream *stream) {
    (void)stream;
    ((struct talker *)arg)->connected = true;
}

static void a_buffer(void *arg, void **data, size_t *size) {
    static uint8_t sink[16];
    (void)arg;
    *data = sink;
    *size = sizeof sink;
}

static void nothing_received(void *arg, size_t size) {
    (void)arg;
    (void)size;
}

static void nothing_writable(void *arg) {
    (void)arg;
}

static void a_closed(void *arg, int reason) {
    struct talker *a = arg;
    a->closed = true;
    a->reason = reason;
    a->stream = NULL;
    a->closed_at = tide_port_now(a->port);
}

static const struct tide_stream_events a_events = {.connected = a_connected,
                                                   .buffer = a_buffer,
                                                   .received = nothing_received,
                                                   .writable = nothing_writable,
                                                   .closed = a_closed};

static uint64_t a_turn(void *arg) {
    struct talker *a = arg;
    uint64_t now = tide_port_now(a->port);
    if (a->turns++ == 0) {
        assert_int_equal(a->port->ops->connect(a->executor, "sim:b", &a_events, a, &a->stream), 0);
    } else if (now - a->last_turn > a->gap_max) {
        a->gap_max = now - a->last_turn;
    }
    a->last_turn = now;
    if (a->connected && !a->closed) {
        struct tide_iovec iov = {&a->next, 1};
        if (a->port->ops->stream_write(a->stream, &iov, 1) == 1) {
            a->next++;
        }
    }
    return now + MS;
}

static void b_buffer(void *arg, void **data, size_t *size) {
    struct hearer *b = arg;
    *data = b->buffer;
    *size = sizeof b->buffer;
}

static void b_received(void *arg, size_t size) {
    struct hearer *b = arg;
    assert_true(b->count + size <= sizeof b->heard);
    memcpy(b->heard + b->count, b->buffer, size);
    b->count += size;
}

static void b_closed(void *arg, int reason) {
    struct hearer *b = arg;
    b->closed = true;
    b->reason = reason;
    b->stream = NULL;
    b->closed_at = tide_port_now(b->port);
}

static const struct tide_stream_events b_events = {
    .buffer = b_buffer, .received = b_received, .writable = nothing_writable, .closed = b_closed};

static void b_accepted(void *arg, struct tide_stream *stream) {
    struct hearer *b = arg;
    b->stream = stream;
    b->port->ops->stream_accept(stream, &b_events, b);
}

static uint64_t b_turn(void *arg) {
    struct hearer *b = arg;
    if (b->listener == NULL) {
        assert_int_equal(b->port->ops->listen(b->executor, "sim:b", b_accepted, b, &b->listener),
                         0);
    }
    return TIDE_NEVER;
}

static void pair_open(struct pair *p, uint64_t seed) {
    memset(p, 0, sizeof *p);
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &p->sim), 0);
    assert_int_equal(tide_sim_port(p->sim, "a", &p->a.port), 0);
    assert_int_equal(tide_sim_port(p->sim, "b", &p->b.port), 0);
    struct tide_executor_options b = {.turn = b_turn, .arg = &p->b, .core = -1};
    assert_int_equal(p->b.port->ops->executor_start(p->b.port, &b, &p->b.executor), 0);
    tide_sim_run(p->sim, MS, NULL, NULL);
    struct tide_executor_options a = {.turn = a_turn, .arg = &p->a, .core = -1};
    assert_int_equal(p->a.port->ops->executor_start(p->a.port, &a, &p->a.executor), 0);
}

static void run_until_ms(struct pair *p, uint64_t ms) {
    tide_sim_run(p->sim, ms * MS, NULL, NULL);
}

/* Leaves everything as it is, as a crash of the test would: the simulator frees what its nodes
 * left. */
static void pair_abandon(struct pair *p) {
    p->a.port->ops->destroy(p->a.port);
    p->b.port->ops->destroy(p->b.port);
    tide_sim_destroy(p->sim);
}

static void heard_in_order(const struct pair *p) {
    for (size_t i = 0; i < p->b.count; i++) {
        assert_int_equal(p->b.heard[i], i % 256);
    }
}

static void the_same_seed_gives_the_same_hash_and_another_another(void **state) {
    (void)state;
    uint64_t hashes[4], events[4];
    static const uint64_t seeds[] = {7, 7, 8, 9};
    for (size_t i = 0; i < TIDE_COUNT(seeds); i++) {
        struct pair p;
        pair_open(&p, seeds[i]);
        run_until_ms(&p, 300);
        hashes[i] = tide_sim_hash(p.sim);
        events[i] = tide_sim_events(p.sim);
        heard_in_order(&p);
        assert_in_range(p.b.count, 290, 300);
        pair_abandon(&p);
    }
    assert_true(hashes[0] == hashes[1] && events[0] == events[1] && events[0] > 900);
    assert_true(hashes[0] != hashes[2] && hashes[2] != hashes[3]);
}

static void a_crash_ends_the_streams_of_the_peers_and_nothing_else_runs(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 1);
    run_until_ms(&p, 50);
    assert_true(p.a.connected && p.b.count > 40);
    tide_sim_crash(p.sim, "b");
    size_t count = p.b.count;
    run_until_ms(&p, 100);
    assert_true(p.a.closed);
    assert_int_equal(p.a.reason, TIDE_ECLOSED);
    assert_true(p.a.closed_at <= 51 * MS);
    assert_false(p.b.closed);
    assert_int_equal(p.b.count, count);
    struct tide_executor *e;
    assert_true(p.b.port->ops->executor_start(
                    p.b.port, &(struct tide_executor_options){.turn = b_turn, .arg = &p.b}, &e) !=
                0);
    /* its owner may still hold what it had */
    p.b.port->ops->stream_close(p.b.stream);
    p.b.port->ops->listener_close(p.b.listener);
    p.b.port->ops->executor_stop(p.b.executor);
    run_until_ms(&p, 150);
    assert_false(p.b.closed);
    pair_abandon(&p);
}

static void a_node_that_starts_again_finds_its_files_and_listens_anew(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 1);
    run_until_ms(&p, 10);
    struct tide_file *f;
    const struct tide_port_ops *ops = p.b.port->ops;
    assert_int_equal(ops->file_open(p.b.port, "/tmp/x", TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f), 0);
    assert_int_equal(ops->file_write(f, "abc", 3, 0), 0);
    assert_int_equal(ops->file_sync(f), 0);
    assert_int_equal(ops->directory_sync(p.b.port, "/tmp"), 0);
    ops->file_close(f);
    tide_sim_crash(p.sim, "b");
    uint64_t old_seed = p.b.port->seed;
    ops->destroy(p.b.port);
    memset(&p.b, 0, sizeof p.b);
    assert_int_equal(tide_sim_port(p.sim, "b", &p.b.port), 0);
    assert_true(p.b.port->seed != old_seed);
    struct tide_file_info info;
    assert_int_equal(ops->file_info(p.b.port, "/tmp/x", &info), 0);
    assert_int_equal(info.size, 3);
    assert_int_equal(ops->file_info(p.a.port, "/tmp/x", &info), TIDE_ENOENT); /* another node's */
    struct tide_executor_options b = {.turn = b_turn, .arg = &p.b, .core = -1};
    assert_int_equal(ops->executor_start(p.b.port, &b, &p.b.executor), 0);
    run_until_ms(&p, 20);
    memset(&p.a.connected, 0, sizeof p.a.connected);
    p.a.turns = 0; /* connects again */
    p.a.closed = false;
    p.a.next = 0;
    run_until_ms(&p, 60);
    assert_true(p.b.count > 30);
    heard_in_order(&p);
    pair_abandon(&p);
}

static void a_partition_holds_bytes_until_it_heals(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 3);
    run_until_ms(&p, 50);
    tide_sim_partition(p.sim, "a", "b", true);
    tide_sim_partition(p.sim, "b", "a", true); /* the same one */
    size_t count = p.b.count;
    run_until_ms(&p, 100);
    assert_int_equal(p.b.count, count);
    assert_false(p.a.closed || p.b.closed);
    tide_sim_partition(p.sim, "a", "b", false);
    run_until_ms(&p, 110);
    assert_in_range(p.b.count, 105, 110); /* everything since */
    heard_in_order(&p);
    /* the end of a stream is held too */
    tide_sim_partition(p.sim, "a", "b", true);
    tide_sim_crash(p.sim, "a");
    run_until_ms(&p, 300);
    assert_false(p.b.closed);
    tide_sim_partition(p.sim, "a", "b", false);
    run_until_ms(&p, 310);
    assert_true(p.b.closed);
    assert_int_equal(p.b.reason, TIDE_ECLOSED);
    pair_abandon(&p);
}

static void a_connection_into_a_partition_fails_after_a_second(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 3);
    tide_sim_partition(p.sim, "a", "b", true);
    run_until_ms(&p, 990);
    assert_false(p.a.closed);
    run_until_ms(&p, 1010);
    assert_true(p.a.closed && !p.a.connected);
    assert_int_equal(p.a.reason, TIDE_ETIMEDOUT);
    pair_abandon(&p);
}

static void a_paused_node_stands_still_and_goes_on(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 4);
    run_until_ms(&p, 50);
    tide_sim_pause(p.sim, "a", 100 * MS);
    size_t count = p.b.count;
    run_until_ms(&p, 149);
    assert_true(p.b.count <= count + 1);
    run_until_ms(&p, 200);
    assert_true(p.b.count > count + 40);
    assert_true(p.a.gap_max >= 99 * MS && p.a.gap_max <= 102 * MS);
    assert_false(p.a.closed);
    /* the receiver paused: nothing is handed over, nothing is lost */
    tide_sim_pause(p.sim, "b", 100 * MS);
    count = p.b.count;
    run_until_ms(&p, 299);
    assert_int_equal(p.b.count, count);
    run_until_ms(&p, 310);
    assert_true(p.b.count >= count + 100);
    heard_in_order(&p);
    pair_abandon(&p);
}

static void a_one_way_cut_lets_the_other_direction_through(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 3);
    run_until_ms(&p, 50);
    tide_sim_cut(p.sim, "b", "a", true); /* a's bytes still arrive */
    size_t count = p.b.count;
    run_until_ms(&p, 100);
    assert_in_range(p.b.count, count + 49, count + 51);
    tide_sim_cut(p.sim, "a", "b", true);
    count = p.b.count;
    run_until_ms(&p, 150);
    assert_in_range(p.b.count, count, count + 1);
    tide_sim_cut(p.sim, "a", "b", false);
    run_until_ms(&p, 160);
    assert_in_range(p.b.count, 155, 160);
    heard_in_order(&p);
    pair_abandon(&p);
}

/* Over many seeds: what is heard is always a beginning of what was sent, and sometimes not all. */
static void a_reset_loses_some_end_of_what_was_sent_and_both_learn_of_it(void **state) {
    (void)state;
    unsigned lost = 0, apart = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct pair p;
        pair_open(&p, seed);
        tide_sim_set_latency(p.sim, 3 * MS, 9 * MS);
        run_until_ms(&p, 60);
        size_t sent = p.a.next;
        tide_sim_reset(p.sim, "a", "b");
        tide_sim_reset(p.sim, "b", "a"); /* what is broken stays so */
        run_until_ms(&p, 120);
        assert_true(p.a.closed && p.b.closed);
        assert_true(p.a.reason == TIDE_ECLOSED && p.b.reason == TIDE_ECLOSED);
        assert_true(p.b.count <= sent);
        heard_in_order(&p);
        lost += p.b.count < sent;
        apart += p.a.closed_at != p.b.closed_at;
        pair_abandon(&p);
    }
    assert_in_range(lost, 5, 40);
    assert_in_range(apart, 30, 40);
}

/* One byte a millisecond over cards of 100 bytes a second: 10 ms each, one after the other. */
static void network_cards_take_one_segment_after_the_other(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p, 3);
    run_until_ms(&p, 20);
    tide_sim_set_nic(p.sim, NULL, 100);
    size_t count = p.b.count;
    run_until_ms(&p, 220);
    assert_in_range(p.b.count, count + 18, count + 21);
    tide_sim_set_nic(p.sim, "b", 0); /* the sender's alone is as slow */
    count = p.b.count;
    run_until_ms(&p, 420);
    assert_in_range(p.b.count, count + 18, count + 21);
    heard_in_order(&p);
    pair_abandon(&p);
}

static void note_time(void *arg) {
    struct pair *p = arg;
    p->b.closed_at = tide_sim_now(p->sim);
}

static void count_event(void *arg, const struct tide_sim_event *event) {
    uint64_t *seen = arg;
    assert_true(event->number > seen[0] && event->time >= seen[1]);
    seen[0] = event->number;
    seen[1] = event->time;
    seen[2] = event->hash;
}

static void calls_come_at_their_time_and_observers_see_every_event(void **state) {
    (void)state;
    struct pair p;
    uint64_t seen[3] = {0};
    pair_open(&p, 3);
    tide_sim_observe(p.sim, count_event, seen);
    tide_sim_at(p.sim, 30 * MS, note_time, &p);
    tide_sim_at(p.sim, 900 * MS, note_time, &p); /* never due: freed with the world */
    run_until_ms(&p, 29);
    assert_int_equal(p.b.closed_at, 0);
    run_until_ms(&p, 40);
    assert_int_equal(p.b.closed_at, 30 * MS);
    assert_true(seen[0] == tide_sim_events(p.sim) && seen[2] == tide_sim_hash(p.sim));
    tide_sim_set_slowness(p.sim, "later", 3);
    struct tide_port *later;
    assert_int_equal(tide_sim_port(p.sim, "later", &later), 0);
    assert_int_equal(tide_sim_cost(later, 1000), 3000);
    assert_int_equal(tide_sim_cost(p.a.port, 1000), 1000);
    assert_true(tide_sim_runs(p.sim, "a") && !tide_sim_runs(p.sim, "nobody"));
    later->ops->destroy(later);
    pair_abandon(&p);
}

static void files_that_a_node_lacks_are_read_from_the_input(void **state) {
    (void)state;
    struct tide_port *input, *port;
    struct tide_sim *sim;
    struct tide_file *f;
    struct tide_file_info info;
    char bytes[8] = {0};
    assert_int_equal(tide_port_real_create(1, &input), 0);
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.input = input}, &sim), 0);
    assert_int_equal(tide_sim_port(sim, "a", &port), 0);
    const struct tide_port_ops *ops = port->ops;
    assert_int_equal(ops->file_info(port, "/proc/self/comm", &info), 0);
    assert_int_equal(ops->file_open(port, "/proc/self/comm", TIDE_FILE_READ, &f), 0);
    assert_int_equal(ops->file_read(f, bytes, 4, 0), 4);
    assert_memory_equal(bytes, "test", 4);
    ops->file_close(f);
    assert_int_equal(ops->file_open(port, "/no/such", TIDE_FILE_READ, &f), TIDE_ENOENT);
    /* writing stays inside */
    int flags = TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_EXCLUSIVE;
    assert_int_equal(ops->file_open(port, "/tmp/tide-sim-only", flags, &f), 0);
    ops->file_close(f);
    assert_int_equal(input->ops->file_info(input, "/tmp/tide-sim-only", &info), TIDE_ENOENT);
    port->ops->destroy(port);
    tide_sim_destroy(sim);
    input->ops->destroy(input);
}

static bool never(void *arg) {
    (void)arg;
    return false;
}

struct alarm { /* an executor that wants to be woken every second of its clock */
    struct tide_port *port;
    uint64_t asked, late_max, first, last;
    unsigned turns;
};

static uint64_t alarm_turn(void *arg) {
    struct alarm *a = arg;
    uint64_t now = tide_port_now(a->port);
    assert_true(now >= a->asked && (a->turns == 0 || now > a->last));
    if (a->turns++ == 0) {
        a->first = now;
    } else if (now - a->asked > a->late_max) {
        a->late_max = now - a->asked;
    }
    a->last = now;
    return a->asked = now + TIDE_SECOND;
}

static void clocks_that_differ_show_and_wake_by_their_own_time(void **state) {
    static const struct {
        uint64_t ahead;
        int64_t ppb;
        unsigned turns;
    } cases[] = {{0, 0, 1001},
                 {5 * TIDE_SECOND, 0, 1001},
                 {12345678901, 1000000, 1002},
                 {1, -1000000, 1000},
                 {UINT64_C(77777777777777), 9999999, 1011},
                 {3, -9999999, 991},
                 {0, 1, 1001}};
    (void)state;
    struct tide_sim *sim;
    struct alarm alarms[TIDE_COUNT(cases)] = {0};
    struct tide_executor *executors[TIDE_COUNT(cases)];
    struct tide_sim_options o = {.seed = 1};
    assert_int_equal(tide_sim_create(&o, &sim), 0);
    for (unsigned i = 0; i < TIDE_COUNT(cases); i++) {
        char name[8];
        snprintf(name, sizeof name, "n%u", i);
        tide_sim_set_clock(sim, name, cases[i].ahead, cases[i].ppb);
        assert_int_equal(tide_sim_port(sim, name, &alarms[i].port), 0);
        struct tide_executor_options e = {.turn = alarm_turn, .arg = &alarms[i], .core = -1};
        assert_int_equal(
            alarms[i].port->ops->executor_start(alarms[i].port, &e, &executors[i]), 0);
    }
    tide_sim_run(sim, 1000 * TIDE_SECOND + MS, NULL, NULL);
    for (unsigned i = 0; i < TIDE_COUNT(cases); i++) {
        assert_true(alarms[i].first >= cases[i].ahead && alarms[i].first < cases[i].ahead + MS);
        assert_int_equal(alarms[i].turns, cases[i].turns);
        assert_true(alarms[i].late_max <= 1);
        alarms[i].port->ops->executor_stop(executors[i]);
        alarms[i].port->ops->destroy(alarms[i].port);
    }
    tide_sim_destroy(sim);
}

static void no_two_lives_of_any_nodes_draw_the_same(void **state) {
    enum { NODES = 40, LIVES = 4 };
    uint64_t seeds[NODES * LIVES];
    (void)state;
    struct tide_sim *sim;
    struct tide_sim_options o = {.seed = 4};
    assert_int_equal(tide_sim_create(&o, &sim), 0);
    for (unsigned i = 0; i < NODES * LIVES; i++) {
        char name[8];
        struct tide_port *port;
        snprintf(name, sizeof name, "n%u", 1 + i % NODES);
        assert_int_equal(tide_sim_port(sim, name, &port), 0);
        seeds[i] = port->seed;
        port->ops->destroy(port);
        for (unsigned k = 0; k < i; k++) {
            assert_true(seeds[k] != seeds[i]);
        }
    }
    tide_sim_destroy(sim);
}

static void a_world_without_events_ends_the_run(void **state) {
    (void)state;
    struct tide_sim *sim;
    assert_int_equal(tide_sim_create(NULL, &sim), 0);
    assert_false(tide_sim_run(sim, TIDE_NEVER, never, NULL));
    assert_false(tide_sim_run(sim, 5 * MS, never, NULL));
    assert_true(tide_sim_now(sim) == 5 * MS);
    struct tide_port *port;
    assert_int_equal(tide_sim_port(sim, "a", &port), 0);
    assert_true(port->simulated);
    struct tide_process *process;
    assert_int_equal(port->ops->process_start(NULL, &(struct tide_process_options){0}, &process),
                     TIDE_EUNSUPPORTED);
    port->ops->destroy(port);
    tide_sim_destroy(sim);
    assert_int_equal(
        tide_sim_create(&(struct tide_sim_options){.latency_ns_min = 2, .latency_ns_max = 1}, &sim),
        TIDE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_hash_and_another_another),
        cmocka_unit_test(a_crash_ends_the_streams_of_the_peers_and_nothing_else_runs),
        cmocka_unit_test(a_node_that_starts_again_finds_its_files_and_listens_anew),
        cmocka_unit_test(a_partition_holds_bytes_until_it_heals),
        cmocka_unit_test(a_connection_into_a_partition_fails_after_a_second),
        cmocka_unit_test(a_paused_node_stands_still_and_goes_on),
        cmocka_unit_test(a_one_way_cut_lets_the_other_direction_through),
        cmocka_unit_test(a_reset_loses_some_end_of_what_was_sent_and_both_learn_of_it),
        cmocka_unit_test(network_cards_take_one_segment_after_the_other),
        cmocka_unit_test(calls_come_at_their_time_and_observers_see_every_event),
        cmocka_unit_test(files_that_a_node_lacks_are_read_from_the_input),
        cmocka_unit_test(clocks_that_differ_show_and_wake_by_their_own_time),
        cmocka_unit_test(no_two_lives_of_any_nodes_draw_the_same),
        cmocka_unit_test(a_world_without_events_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
