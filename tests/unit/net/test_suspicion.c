/*
 * Who is taken for dead, in the simulator: a node that says nothing for good, within a second where
 * machines are calm; nobody who lives because it, or whoever watches it, stalls for a moment,
 * a link is broken, or the machine is a busy one. With TIDE_MUTANT in the environment a rule of the
 * detector is left out (a build with mutants), and a test must fail.
 */
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/net_state.h"

#include "net_world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

enum { NODES = 5 };

static const char *const names[NODES] = {"c0", "n2", "n3", "n4", "n5"};

/* Longer than anybody is waited for. A node that stalls for good cannot be ended. */
#define SILENCE (25 * TIDE_SECOND)

static void close_after_silence(struct world *w) {
    world_pause(w, SILENCE);
    world_close(w);
}

static void open_calm(struct world *w, uint64_t seed, unsigned nodes) {
    world_open(w, true, seed);
    for (unsigned i = 0; i < nodes; i++) {
        assert_non_null(world_add(w, names[i]));
    }
    world_pause(w, 2 * TIDE_SECOND);
}

static unsigned state_of(struct world *w, unsigned at, unsigned of) {
    struct tide_member m;
    assert_true(tide_net_member(w->nodes[at].net, (uint16_t)(of + 1), &m));
    return m.state;
}

static void all_live(struct world *w) {
    for (unsigned i = 0; i < w->count; i++) {
        for (unsigned k = 0; k < w->count; k++) {
            if (state_of(w, i, k) != TIDE_MEMBER_UP) {
                fail_msg("%s has taken %s for dead", names[i], names[k]);
            }
        }
    }
}

/* Until the controller has declared `of` dead. */
static uint64_t time_to_death(struct world *w, unsigned of) {
    const uint64_t begun = tide_sim_now(w->sim);
    while (state_of(w, 0, of) != TIDE_MEMBER_DEAD) {
        assert_true(tide_sim_now(w->sim) - begun < 20 * TIDE_SECOND);
        tide_sim_run(w->sim, tide_sim_now(w->sim) + MS, NULL, NULL);
    }
    return tide_sim_now(w->sim) - begun;
}

static void a_silent_node_is_noticed_within_a_second(void **unused) {
    (void)unused;
    uint64_t slowest = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world w;
        open_calm(&w, seed, 3 + (unsigned)seed % 3);
        world_pause(&w, tide_mix64(seed) % (200 * MS));
        tide_sim_pause(w.sim, names[2], SILENCE);
        const uint64_t took = time_to_death(&w, 2);
        slowest = took > slowest ? took : slowest;
        for (unsigned i = 0; i < w.count; i++) {
            assert_int_equal(state_of(&w, 0, i), i == 2 ? TIDE_MEMBER_DEAD : TIDE_MEMBER_UP);
        }
        close_after_silence(&w);
    }
    print_message("after at most %.3f s\n", (double)slowest / 1e9);
    assert_true(slowest <= TIDE_SECOND);
}

/* Nobody can say more of it than the one other node: that takes longer. */
static void the_only_other_node_is_given_more_time(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 2, 2);
    tide_sim_pause(w.sim, "n2", 1500 * MS);
    world_pause(&w, 3 * TIDE_SECOND);
    all_live(&w);
    tide_sim_pause(w.sim, "n2", SILENCE);
    assert_true(time_to_death(&w, 1) < 3500 * MS);
    close_after_silence(&w);
}

/* Who reads what came meanwhile before it looks at its clock would suspect nobody anyway: hence the
 * seeds. */
static void who_stood_still_suspects_nobody_for_it(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const unsigned who = seed % 2;
        struct world w;
        open_calm(&w, seed, 4);
        tide_sim_pause(w.sim, names[who], who == 0 ? 3 * TIDE_SECOND : 500 * MS);
        const uint64_t until = tide_sim_now(w.sim) + 5 * TIDE_SECOND;
        while (tide_sim_now(w.sim) < until) {
            tide_sim_run(w.sim, tide_sim_now(w.sim) + MS / 10, NULL, NULL);
            for (struct tide_session *s = w.nodes[who].net->sessions; s != NULL; s = s->next) {
                assert_int_equal(s->suspect_since, 0);
            }
        }
        all_live(&w);
        world_close(&w);
    }
}

static void cut(struct world *w, unsigned a, unsigned b, bool off) {
    tide_sim_partition(w->sim, names[a], names[b], off);
}

/* Others hear it, and say so when they are asked. */
static void a_broken_link_to_the_controller_is_no_death(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 4, 5);
    cut(&w, 0, 2, true);
    world_pause(&w, 2 * TIDE_SECOND);
    cut(&w, 0, 2, false);
    world_pause(&w, 3 * TIDE_SECOND);
    all_live(&w);
    world_close(&w);
}

/* Two accuse it, and the controller hears it. */
static void an_accused_that_is_heard_refutes_its_death(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 5, 4);
    cut(&w, 1, 3, true);
    cut(&w, 2, 3, true);
    world_pause(&w, 3500 * MS);
    assert_non_null(w.nodes[0].net->reports);
    cut(&w, 1, 3, false);
    cut(&w, 2, 3, false);
    world_pause(&w, 4 * TIDE_SECOND);
    all_live(&w);
    assert_null(w.nodes[0].net->reports);
    world_close(&w);
}

/* Each stall is longer than the last one, as on a machine that gets busy; at rest it forgets. */
static void a_machine_on_which_nodes_stand_still_is_learned(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 6, 4);
    for (uint64_t ms = 400; ms <= 1600; ms = ms * 3 / 2) {
        tide_sim_pause(w.sim, ms % 4 ? "n2" : "n3", ms * MS);
        world_pause(&w, 4 * TIDE_SECOND);
        all_live(&w);
    }
    world_pause(&w, 120 * TIDE_SECOND);
    tide_sim_pause(w.sim, "n4", SILENCE);
    assert_true(time_to_death(&w, 3) <= TIDE_SECOND);
    close_after_silence(&w);
}

/* However busy it was: what is granted has a bound. */
static void a_silent_node_of_a_busy_machine_is_noticed_too(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 7, 4);
    for (uint64_t ms = 400; ms <= 1600; ms = ms * 3 / 2) {
        tide_sim_pause(w.sim, "n3", ms * MS);
        world_pause(&w, 4 * TIDE_SECOND);
    }
    tide_sim_pause(w.sim, "n2", SILENCE);
    assert_true(time_to_death(&w, 1) < 3500 * MS);
    close_after_silence(&w);
}

/* Most of them at one time: that is the machine, or this node's cable, more likely than deaths. */
static void when_most_are_silent_all_are_given_more_time(void **unused) {
    (void)unused;
    struct world w;
    open_calm(&w, 8, 4);
    tide_sim_pause(w.sim, "n3", 1300 * MS);
    tide_sim_pause(w.sim, "n4", 1300 * MS);
    world_pause(&w, 4 * TIDE_SECOND);
    all_live(&w);
    for (unsigned i = 1; i < 4; i++) {
        cut(&w, 0, i, true);
    }
    world_pause(&w, 1500 * MS);
    for (unsigned i = 1; i < 4; i++) {
        cut(&w, 0, i, false);
    }
    world_pause(&w, 4 * TIDE_SECOND);
    all_live(&w);
    world_close(&w);
}

/* The first node alone was told of it: those that join it are. */
static void a_cut_within_the_silence_that_was_asked_for_is_no_death(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct world w;
        world_open(&w, true, seed);
        w.silence = 10 * TIDE_SECOND;
        for (unsigned i = 0; i < 4; i++) {
            assert_non_null(world_add(&w, names[i]));
        }
        const unsigned who = seed % 4;
        uint64_t sessions[NODES] = {0};
        for (unsigned i = 0; i < 4; i++) {
            struct tide_peer *peer = i == who ? NULL : tide__peer(w.nodes[who].net, (uint16_t)(i + 1));
            sessions[i] = peer ? peer->session->id : 0;
        }
        for (unsigned off = 2; off-- > 0;) {
            for (unsigned i = 0; i < 4; i++) {
                if (i != who) {
                    cut(&w, who, i, off);
                }
            }
            world_pause(&w, seed * TIDE_SECOND);
        }
        all_live(&w);
        for (unsigned i = 0; i < 4; i++) { /* and it continues with the sessions that it had */
            struct tide_peer *peer = i == who ? NULL : tide__peer(w.nodes[who].net, (uint16_t)(i + 1));
            assert_true(!peer || peer->session->id == sessions[i]);
        }
        tide_sim_pause(w.sim, names[2], SILENCE);
        const uint64_t took = time_to_death(&w, 2);
        assert_true(took > 9 * TIDE_SECOND);
        close_after_silence(&w);
    }
}

/* Its members have ended the sessions with it; it comes back as the client that it was, and sees what has become of
 * the cluster meanwhile. */
static void a_client_that_stalled_attaches_anew(void **unused) {
    (void)unused;
    struct world w;
    struct tide_node *client;
    int code;
    char reason[200];
    open_calm(&w, 9, 3);
    assert_int_equal(world_start(&w, "console", false, "test", tide_net_endpoint(w.nodes[1].net), true, &client), 0);
    assert_int_equal(world_await(client, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    const uint16_t id = tide_net_self(client->net);
    tide_sim_pause(w.sim, "console", 12 * TIDE_SECOND);
    tide_sim_crash(w.sim, names[2]);
    world_pause(&w, 14 * TIDE_SECOND);
    assert_true(tide_net_sessions_lost(client->net) > 0);
    assert_int_equal(world_state(client, &code, reason), TIDE_MEMBER_UP);
    assert_int_equal(tide_net_self(client->net), id);
    assert_int_equal(state_of(&w, 3, 0), TIDE_MEMBER_UP);
    assert_int_equal(state_of(&w, 3, 1), TIDE_MEMBER_UP);
    assert_int_equal(state_of(&w, 3, 2), TIDE_MEMBER_DEAD);
    for (unsigned i = 0; i < 2; i++) { /* and once its network is back */
        tide_sim_partition(w.sim, names[0], "console", i == 0);
        tide_sim_partition(w.sim, names[1], "console", i == 0);
        world_pause(&w, 25 * TIDE_SECOND);
    }
    assert_int_equal(world_state(client, &code, reason), TIDE_MEMBER_UP);
    tide_sim_crash(w.sim, names[0]); /* but it does not wait for a controller whose process is gone */
    assert_int_equal(world_await(client, TIDE_MEMBER_DEAD), TIDE_MEMBER_DEAD);
    world_close(&w);
}

int main(void) {
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_node_is_noticed_within_a_second),
        cmocka_unit_test(the_only_other_node_is_given_more_time),
        cmocka_unit_test(who_stood_still_suspects_nobody_for_it),
        cmocka_unit_test(a_broken_link_to_the_controller_is_no_death),
        cmocka_unit_test(an_accused_that_is_heard_refutes_its_death),
        cmocka_unit_test(a_machine_on_which_nodes_stand_still_is_learned),
        cmocka_unit_test(a_silent_node_of_a_busy_machine_is_noticed_too),
        cmocka_unit_test(when_most_are_silent_all_are_given_more_time),
        cmocka_unit_test(a_cut_within_the_silence_that_was_asked_for_is_no_death),
        cmocka_unit_test(a_client_that_stalled_attaches_anew),
    };
    return cmocka_run_group_tests_name("suspicion", tests, NULL, NULL);
}
