/* The net room as nodes see it: joining, messages, credit, ends; on both ports. */
#include "net_echo.h"
#include "base/limits.h"
#include "net/link/peer.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- clusters: tests that run on both ports (state != NULL: simulated) ---- */

static void nodes_join_and_everybody_reaches_everybody(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 1);
    static const char *const names[] = {"c0", "n2", "n3", "n4", "n5"};
    struct echo echoes[5] = {0};
    tide_address address[5];
    for (unsigned i = 0; i < 5; i++) {
        assert_non_null(world_add(&w, names[i]));
        address[i] = spawn_echo(&w.nodes[i], &echoes[i]);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(tide_net_self(w.nodes[i].net), i + 1);
        assert_true(await_member(&w.nodes[i], 5, TIDE_MEMBER_UP, soon(&w)) != TIDE_NEVER);
        struct tide_member members[8];
        uint64_t view;
        assert_int_equal(tide_net_members(w.nodes[i].net, members, 8, &view), 5);
        assert_string_equal(members[2].name, "n3");
        for (unsigned k = 0; k < 5; k++) {
            if (k != i) {
                assert_int_equal(call(&w, &w.nodes[i], address[k], 100), 0);
            }
        }
    }
    world_close(&w);
}

static void joiners_at_the_same_time_all_come_up(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 2);
    assert_non_null(world_add(&w, "c0"));
    static const char *const names[] = {"a", "b", "d", "e"};
    struct tide_node *nodes[4];
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(world_start(&w, names[i], true, "test", tide_net_endpoint(w.nodes[0].net),
                                     false, &nodes[i]),
                         0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(world_await(nodes[i], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    }
    world_close(&w);
}

static void join_through_any_member_leads_to_the_controller(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 3);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct tide_node *n3;
    assert_int_equal(
        world_start(&w, "third", false, "test", tide_net_endpoint(w.nodes[1].net), false, &n3), 0);
    assert_int_equal(world_await(n3, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    struct tide_member m;
    assert_true(tide_net_member(n3->net, 3, &m));
    assert_string_equal(m.name, "n3"); /* the default */
    assert_true(tide_net_member(n3->net, 1, &m));
    assert_string_equal(m.name, "c0");
    assert_int_equal(tide_net_controller(n3->net), 1);
    world_close(&w);
}

static void large_messages_pass_both_ways_and_nobody_is_suspected(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 4);
    struct echo echoes[2] = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    tide_address a = spawn_echo(&w.nodes[0], &echoes[0]), b = spawn_echo(&w.nodes[1], &echoes[1]);
    struct caller there = {.to = b, .size = 8 << 20, .calls = 5},
                  back = {.to = a, .size = 8 << 20, .calls = 5};
    start_caller(&w.nodes[0], &there);
    start_caller(&w.nodes[1], &back);
    assert_int_equal(await_caller(&w, &there), 0);
    assert_int_equal(await_caller(&w, &back), 0);
    struct tide_link_info info;
    assert_int_equal(tide_net_links(w.nodes[0].net, &info, 1), 1);
    assert_true(info.bytes_in > 80 << 20 && info.bytes_out > 80 << 20);
    assert_true(info.round_trip_ns < 100 * MS);
    assert_true(await_member(&w.nodes[0], 2, TIDE_MEMBER_UP, MS) != TIDE_NEVER);
    world_close(&w);
}

static void a_message_over_the_limit_is_refused_at_its_origin(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 5);
    struct echo echo = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_int_equal(call(&w, &w.nodes[1], spawn_echo(&w.nodes[0], &echo), 17 << 20), TIDE_ELIMIT);
    assert_int_equal(call(&w, &w.nodes[1], tide_address_make(9, 77), 1), TIDE_EUNREACHABLE);
    world_close(&w);
}

/* ---- credit ---- */

struct flood {
    tide_address to;
    atomic_uint sent;
    unsigned total;
    atomic_int ended; /* 0 or an error; 1: not yet */
};

static int flood_run(void *state) {
    struct flood *f = state;
    static const uint8_t zeros[65536];
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_binary(&w, zeros, sizeof zeros);
    int rc = 0;
    for (unsigned i = 0; i < f->total && rc == 0; i++) {
        rc = tide_send(f->to, TIDE_LANE_CONTROL, w.data, w.size);
        atomic_fetch_add(&f->sent, rc == 0);
    }
    tide_writer_release(&w);
    atomic_store(&f->ended, rc);
    return 0;
}

struct slow {
    atomic_bool go;
    atomic_uint received;
};

static int slow_run(void *state) {
    struct slow *s = state;
    while (!atomic_load(&s->go)) {
        if (tide_sleep(5 * MS) != 0) {
            return 0;
        }
    }
    const struct tide_message *m;
    while (tide_receive(tide_node_now(tide_node_current()) + TIDE_SECOND, &m) == 0) {
        atomic_fetch_add(&s->received, m->kind == TIDE_CAST);
        tide_message_free(m);
    }
    return 0;
}

/* From the second node to an actor of the first that takes nothing yet. */
static void flood_until_full(struct world *w, struct slow *slow, struct flood *flood) {
    const struct tide_actor_options takes = {.type = "slow",
                                             .run = slow_run,
                                             .state = slow,
                                             .role = TIDE_ROLE_COMPUTE,
                                             .bytes_max = 64 << 20};
    const struct tide_actor_options sends = {
        .type = "flood", .run = flood_run, .state = flood, .role = TIDE_ROLE_COMPUTE};
    tide_address to;
    assert_int_equal(tide_spawn(&w->nodes[0], &takes, &to), 0);
    flood->to = tide_address_make(1, tide_address_id(to));
    atomic_init(&flood->ended, 1);
    assert_int_equal(tide_spawn(&w->nodes[1], &sends, NULL), 0);
    uint64_t until = world_now(w) + 400 * MS;
    while (world_now(w) < until) {
        world_pause(w, MS);
    }
}

static void credit_stops_a_fast_sender_at_the_window(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct slow slow = {0};
    struct flood flood = {.total = 400};
    flood_until_full(&w, &slow, &flood);
    assert_in_range(atomic_load(&flood.sent), 10,
                    16); /* 1 MiB of 64 KiB messages with their heads */
    struct tide_link_info info;
    assert_int_equal(tide_net_links(w.nodes[1].net, &info, 1), 1);
    assert_in_range(info.credit_used[TIDE_LANE_CONTROL], 900 << 10, 1 << 20);
    assert_true(info.queue_bytes <= 1 << 20);
    atomic_store(&slow.go, true);
    uint64_t until = world_now(&w) + 10 * TIDE_SECOND;
    while (atomic_load(&slow.received) < flood.total && world_now(&w) < until) {
        world_pause(&w, MS);
    }
    assert_int_equal(atomic_load(&slow.received), flood.total);
    until = world_now(&w) + 400 * MS;
    do { /* the rest of the credit comes home with a beat */
        world_pause(&w, 10 * MS);
        tide_net_links(w.nodes[1].net, &info, 1);
    } while (info.credit_used[TIDE_LANE_CONTROL] != 0 && world_now(&w) < until);
    assert_int_equal(info.credit_used[TIDE_LANE_CONTROL], 0);
    world_close(&w);
}

/* Leases, ten a second, are always in flight where the round trip is long. */
static void small_messages_in_flight_do_not_hold_back_one_of_a_window(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct tide_peer *peer = tide__peer(w.nodes[1].net, 1);
    const size_t window = tide_limit(net_window_store_bytes);
    tide__peer_charge(peer, TIDE_LANE_STORE, 1000);
    assert_int_equal(tide__peer_admit(peer, TIDE_LANE_STORE, window, 0, NULL), 0);
    assert_int_equal(tide__peer_admit(peer, TIDE_LANE_STORE, 1000, 0, NULL), TIDE_EBUSY);
    tide__peer_credit(peer, TIDE_LANE_STORE, window);
    tide__peer_charge(peer, TIDE_LANE_STORE, window / 16);
    assert_int_equal(tide__peer_admit(peer, TIDE_LANE_STORE, window, 0, NULL), TIDE_EBUSY);
    tide__peer_credit(peer, TIDE_LANE_STORE, window / 16 + 1000);
    world_close(&w);
}

struct patient {
    struct tide_peer *peer;
    atomic_uint asked, woken;
};

static int wait_for_a_window(void *state) {
    struct patient *p = state;
    while (tide__peer_admit(p->peer, TIDE_LANE_STORE, tide_limit(net_window_store_bytes), 0, tide_fiber_current())) {
        atomic_fetch_add(&p->asked, 1);
        (void)tide_fiber_suspend(TIDE_NEVER, "link credit");
        atomic_fetch_add(&p->woken, 1);
    }
    return 0;
}

static void credit_that_is_too_little_wakes_no_waiter(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    const size_t window = tide_limit(net_window_store_bytes);
    struct patient p = {.peer = tide__peer(w.nodes[1].net, 1)};
    tide__peer_charge(p.peer, TIDE_LANE_STORE, window);
    const struct tide_actor_options waits = {.run = wait_for_a_window, .state = &p, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(&w.nodes[1], &waits, NULL), 0);
    while (atomic_load(&p.asked) == 0) {
        world_pause(&w, MS);
    }
    for (unsigned i = 0; i < 50; i++) {
        tide__peer_credit(p.peer, TIDE_LANE_STORE, 1000);
        world_pause(&w, MS);
    }
    assert_int_equal(atomic_load(&p.woken), 0);
    tide__peer_credit(p.peer, TIDE_LANE_STORE, window - 50 * 1000);
    while (atomic_load(&p.woken) == 0) {
        world_pause(&w, MS);
    }
    world_close(&w);
}

static void who_waits_for_credit_when_its_own_node_has_left_is_told(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct slow slow = {0};
    struct flood flood = {.total = 400};
    flood_until_full(&w, &slow, &flood);
    assert_int_equal(atomic_load(&flood.ended), 1);
    tide_net_leave(w.nodes[1].net);
    const uint64_t until = world_now(&w) + 2 * soon(&w);
    while (atomic_load(&flood.ended) == 1 && world_now(&w) < until) {
        world_pause(&w, MS);
    }
    assert_int_equal(atomic_load(&flood.ended), TIDE_EUNREACHABLE);
    world_close(&w);
}

/* ---- ends ---- */

struct watch {
    struct tide_member_watch watch;
    atomic_uint seen[16]; /* bit per state, by id */
};

static void watch_changed(void *arg, const struct tide_member *m) {
    struct watch *w = arg;
    if (m->id < 16) {
        atomic_fetch_or(&w->seen[m->id], 1u << m->state);
    }
}

static void a_node_that_leaves_is_left_everywhere(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 14);
    struct watch watch = {.watch = {.changed = watch_changed, .arg = &watch}};
    assert_non_null(world_add(&w, "c0"));
    tide_net_watch(w.nodes[0].net, &watch.watch);
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_net_leave(w.nodes[1].net);
    assert_int_equal(world_await(&w.nodes[1], TIDE_MEMBER_LEFT), TIDE_MEMBER_LEFT);
    assert_true(await_member(&w.nodes[0], 2, TIDE_MEMBER_LEFT, soon(&w)) != TIDE_NEVER);
    assert_true(await_member(&w.nodes[2], 2, TIDE_MEMBER_LEFT, soon(&w)) != TIDE_NEVER);
    assert_int_equal(atomic_load(&watch.seen[1]), 1u << TIDE_MEMBER_UP);
    assert_int_equal(atomic_load(&watch.seen[2]), 1u << TIDE_MEMBER_JOINING | 1u << TIDE_MEMBER_UP |
                                                      1u << TIDE_MEMBER_LEAVING |
                                                      1u << TIDE_MEMBER_LEFT);
    assert_int_equal(call(&w, &w.nodes[2], tide_address_make(2, 77), 1), TIDE_EUNREACHABLE);
    assert_non_null(world_add(&w, "n2")); /* the name is free again, the id is not */
    assert_int_equal(tide_net_self(w.nodes[3].net), 4);
    world_close(&w);
}

/* Stands for the store of the controller: moves everything off a leaving member, when told to. */
struct evacuation {
    struct tide_member_watch watch;
    struct tide_net *net;
    atomic_bool ready;
    atomic_uint asked;
};

static void evacuate(void *arg, const struct tide_member *m) {
    struct evacuation *e = arg;
    if (m->state == TIDE_MEMBER_LEAVING) {
        atomic_store(&e->asked, m->id);
        if (atomic_load(&e->ready)) {
            tide_net_evacuated(e->net, m->id); /* from inside a watcher */
        }
    }
}

static void leaving_waits_for_evacuation(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 23);
    assert_non_null(world_add(&w, "c0"));
    struct evacuation e = {.watch = {.changed = evacuate, .arg = &e}, .net = w.nodes[0].net};
    tide_net_watch(e.net, &e.watch);
    tide_net_expect_evacuation(e.net);
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_net_leave(w.nodes[1].net);
    assert_true(await_member(&w.nodes[2], 2, TIDE_MEMBER_LEAVING, soon(&w)) != TIDE_NEVER);
    assert_true(await_member(&w.nodes[2], 2, TIDE_MEMBER_LEFT, 300 * MS) == TIDE_NEVER);
    assert_int_equal(atomic_load(&e.asked), 2);
    atomic_store(&e.ready, true);
    tide_net_leave(w.nodes[2].net);
    assert_int_equal(world_await(&w.nodes[2], TIDE_MEMBER_LEFT), TIDE_MEMBER_LEFT);
    assert_true(await_member(&w.nodes[0], 3, TIDE_MEMBER_LEFT, soon(&w)) != TIDE_NEVER);
    world_close(&w);
}

static void the_end_of_the_controller_in_order_ends_the_cluster(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 15);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_net_leave(w.nodes[0].net);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(world_await(&w.nodes[i], TIDE_MEMBER_LEFT), TIDE_MEMBER_LEFT);
    }
    world_close(&w);
}

static void a_client_talks_to_members_and_is_none(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 16);
    struct echo echo = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    echo_opens = TIDE_RIGHT_READ;
    tide_address to = spawn_echo(&w.nodes[1], &echo);
    echo_opens = 0;
    struct tide_node *client;
    assert_int_equal(
        world_start(&w, "console", false, "test", tide_net_endpoint(w.nodes[1].net), true, &client),
        0);
    assert_int_equal(world_await(client, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    assert_true(tide_net_self(client->net) >= 0x8000);
    assert_int_equal(call(&w, client, to, 1000), 0);
    struct tide_member members[8];
    assert_int_equal(tide_net_members(w.nodes[0].net, members, 8, NULL), 2);
    tide_net_leave(client->net);
    assert_int_equal(world_await(client, TIDE_MEMBER_LEFT), TIDE_MEMBER_LEFT);
    world_close(&w);
}

/* The other process: joins when it is told where, and lives until it is killed. */
static void live_until_killed(int told) {
    char endpoint[160] = {0};
    if (read(told, endpoint, sizeof endpoint - 1) <= 0) {
        _exit(1);
    }
    struct world w = {0}; /* in the directory of the other's sockets, so that it can tidy up */
    struct tide_node *node;
    snprintf(w.directory, sizeof w.directory, "%.*s", (int)(strrchr(endpoint, '/') - endpoint - 5),
             endpoint + 5);
    if (world_start(&w, "victim", true, "test", endpoint, false, &node) != 0) {
        _exit(1);
    }
    for (;;) {
        pause();
    }
}

static void kill_minus_nine_is_noticed_by_the_end_of_the_connection(void **state) {
    (void)state;
    int tell[2];
    assert_int_equal(pipe(tell), 0);
    pid_t child = fork(); /* before this process has threads */
    if (child == 0) {
        live_until_killed(tell[0]);
    }
    struct world w;
    world_open(&w, false, 1);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    const char *endpoint = tide_net_endpoint(w.nodes[0].net);
    assert_int_equal(write(tell[1], endpoint, strlen(endpoint)), strlen(endpoint));
    assert_true(await_member(&w.nodes[1], 3, TIDE_MEMBER_UP, soon(&w)) != TIDE_NEVER);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(await_member(&w.nodes[1], 3, TIDE_MEMBER_DEAD, soon(&w)) != TIDE_NEVER);
    struct tide_member m;
    assert_true(tide_net_member(w.nodes[1].net, 3, &m));
    assert_string_equal(m.reason, "connection lost (process ended?)");
    assert_int_equal(m.pid, child);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(tell[0]);
    close(tell[1]);
    char path[128];
    snprintf(path, sizeof path, "%s/victim.sock", w.directory);
    assert_int_equal(unlink(path), 0);
    world_close(&w);
}

/* ---- simulated faults ---- */

static void a_crash_is_declared_everywhere_and_calls_end_with_edied(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 17);
    static const char *const names[] = {"c0", "n2", "n3", "n4"};
    for (unsigned i = 0; i < 4; i++) {
        assert_non_null(world_add(&w, names[i]));
    }
    struct slow never = {0};
    tide_address to;
    assert_int_equal(
        tide_spawn(&w.nodes[1],
                   &(struct tide_actor_options){.type = "mute", .run = slow_run, .state = &never},
                   &to),
        0);
    struct caller c[3];
    memset(c, 0, sizeof c);
    static const unsigned callers[] = {0, 2, 3};
    for (unsigned i = 0; i < 3; i++) {
        c[i].to = tide_address_make(2, tide_address_id(to));
        start_caller(&w.nodes[callers[i]], &c[i]);
    }
    world_pause(&w, 300 * MS);
    uint64_t crashed = world_now(&w);
    tide_sim_crash(w.sim, "n2");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(await_caller(&w, &c[i]), TIDE_EDIED);
        assert_true(c[i].ended - crashed < 1 * TIDE_SECOND);
        assert_string_equal(c[i].text, "node n2 died: connection lost (process ended?)");
        assert_true(await_member(&w.nodes[callers[i]], 2, TIDE_MEMBER_DEAD, MS) != TIDE_NEVER);
    }
    world_close(&w);
}

static void the_crash_of_the_controller_is_told_to_members(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 18);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct tide_node *n2 = &w.nodes[1];
    tide_sim_crash(w.sim, "c0");
    int code;
    char reason[200];
    uint64_t until = tide_port_now(n2->port) + 2 * TIDE_SECOND;
    while (world_state(n2, &code, reason) == TIDE_MEMBER_UP && tide_port_now(n2->port) < until) {
        n2->port->ops->pause(n2->port, MS);
    }
    assert_int_equal(world_state(n2, &code, reason), TIDE_MEMBER_DEAD);
    assert_int_equal(code, TIDE_EDIED);
    assert_non_null(strstr(reason, "controller is gone"));
    world_close(&w);
}

static void a_short_pause_survives_and_a_long_one_does_not(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 19);
    static const char *const names[] = {"c0", "n2", "n3"};
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(world_add(&w, names[i]));
    }
    world_pause(&w, 2 * TIDE_SECOND);
    tide_sim_pause(w.sim, "n3", 400 * MS);
    world_pause(&w, 2 * TIDE_SECOND);
    assert_true(await_member(&w.nodes[0], 3, TIDE_MEMBER_UP, MS) != TIDE_NEVER);
    assert_int_equal(world_await(&w.nodes[2], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    tide_sim_pause(w.sim, "c0", 600 * MS); /* the controller's own stall is nobody's death */
    world_pause(&w, 2 * TIDE_SECOND);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(world_await(&w.nodes[i], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    }
    tide_sim_pause(w.sim, "n3", 5 * TIDE_SECOND);
    uint64_t took = await_member(&w.nodes[1], 3, TIDE_MEMBER_DEAD, 4 * TIDE_SECOND);
    assert_true(took < 3 * TIDE_SECOND);
    struct tide_member m;
    assert_true(tide_net_member(w.nodes[1].net, 3, &m));
    assert_non_null(strstr(m.reason, "no heartbeat for"));
    world_pause(&w, 6 * TIDE_SECOND);
    assert_int_equal(world_await(&w.nodes[2], TIDE_MEMBER_DEAD),
                     TIDE_MEMBER_DEAD); /* it learns of it, and stops */
    world_close(&w);
}

static void two_that_cannot_reach_each_other_do_not_both_stay(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 20);
    static const char *const names[] = {"c0", "n2", "n3"};
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(world_add(&w, names[i]));
    }
    tide_sim_partition(w.sim, "n2", "n3", true);
    assert_true(await_member(&w.nodes[0], 3, TIDE_MEMBER_DEAD, 6 * TIDE_SECOND) != TIDE_NEVER);
    assert_int_equal(world_await(&w.nodes[2], TIDE_MEMBER_DEAD), TIDE_MEMBER_DEAD);
    assert_int_equal(world_await(&w.nodes[1], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    world_close(&w);
}

static uint64_t run_for_hash(uint64_t seed) {
    struct world w;
    world_open(&w, true, seed);
    struct echo echo = {0};
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    tide_address to = spawn_echo(&w.nodes[2], &echo);
    assert_int_equal(call(&w, &w.nodes[1], to, 700000), 0);
    tide_sim_crash(w.sim, "n3");
    world_pause(&w, 2 * TIDE_SECOND);
    uint64_t hash = tide_sim_hash(w.sim);
    world_close(&w);
    return hash;
}

/* Others have heard of it first, and ask this node to send there. */
static void what_is_for_a_member_that_no_view_has_named_waits_for_it(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    tide_sim_set_pair_latency(w.sim, "c0", "n2", 100 * MS);
    struct tide_node *n3;
    struct tide_member member;
    assert_int_equal(
        world_start(&w, "n3", true, "test", tide_net_endpoint(w.nodes[0].net), false, &n3), 0);
    struct echo echo = {0};
    const tide_address to = spawn_echo(n3, &echo);
    while (!tide_net_member(w.nodes[0].net, 3, &member)) {
        world_pause(&w, MS / 10);
    }
    assert_false(tide_net_member(w.nodes[1].net, 3, &member));
    static const uint8_t nil = 0xc0;
    struct tide_outgoing message = {.to = tide_address_make(3, tide_address_id(to)),
                                    .data = &nil,
                                    .size = 1,
                                    .kind = TIDE_FRAME_CAST,
                                    .lane = TIDE_LANE_STORE};
    assert_int_equal(tide_system_send(w.nodes[1].system, &message, true), 0);
    message.to = tide_address_make(7, tide_address_id(to)); /* who never comes */
    assert_int_equal(tide_system_send(w.nodes[1].system, &message, true), 0);
    const uint64_t until = world_now(&w) + 5 * TIDE_SECOND;
    while (world_now(&w) < until) {
        world_pause(&w, 10 * MS);
    }
    assert_true(tide_net_member(w.nodes[1].net, 3, &member));
    assert_int_equal(atomic_load(&echo.casts), 1);
    world_close(&w);
}

static void the_same_seed_gives_the_same_events(void **state) {
    (void)state;
    uint64_t first = run_for_hash(21);
    assert_true(first == run_for_hash(21));
    assert_true(first != run_for_hash(22));
}
int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(nodes_join_and_everybody_reaches_everybody),
        BOTH(joiners_at_the_same_time_all_come_up),
        BOTH(join_through_any_member_leads_to_the_controller),
        BOTH(large_messages_pass_both_ways_and_nobody_is_suspected),
        BOTH(a_message_over_the_limit_is_refused_at_its_origin),
        BOTH(credit_stops_a_fast_sender_at_the_window),
        BOTH(small_messages_in_flight_do_not_hold_back_one_of_a_window),
        BOTH(credit_that_is_too_little_wakes_no_waiter),
        BOTH(who_waits_for_credit_when_its_own_node_has_left_is_told),
        BOTH(a_node_that_leaves_is_left_everywhere),
        BOTH(leaving_waits_for_evacuation),
        BOTH(the_end_of_the_controller_in_order_ends_the_cluster),
        BOTH(a_client_talks_to_members_and_is_none),
        cmocka_unit_test(kill_minus_nine_is_noticed_by_the_end_of_the_connection),
        cmocka_unit_test(a_crash_is_declared_everywhere_and_calls_end_with_edied),
        cmocka_unit_test(the_crash_of_the_controller_is_told_to_members),
        cmocka_unit_test(a_short_pause_survives_and_a_long_one_does_not),
        cmocka_unit_test(two_that_cannot_reach_each_other_do_not_both_stay),
        cmocka_unit_test(what_is_for_a_member_that_no_view_has_named_waits_for_it),
        cmocka_unit_test(the_same_seed_gives_the_same_events),
    };
    net_tests_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
