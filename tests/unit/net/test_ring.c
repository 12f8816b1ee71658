/*
 * Clusters that are too large for links all to all, in the simulator: who is linked, that messages
 * make the links they need, and that deaths are found and the living left alone as in small ones.
 */
#define WORLD_NODES 128
#include "net/net_state.h"
#include "control/control.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net_world.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

extern const struct tide_control_plugin TIDE_CONTROL_PLUGIN __attribute__((weak));

enum { NODES = 100, SEEDS = 2 };

static void name_of(unsigned i, char name[16]) {
    snprintf(name, 16, "n%u", i + 1); /* nodes[i] gets id i + 1, as they are started in order */
}

static void start(struct world *w) {
    char name[16];
    struct tide_node *node;
    name_of(w->count, name);
    const char *join = w->count == 0 ? NULL : tide_net_endpoint(w->nodes[0].net);
    assert_int_equal(world_start(w, name, true, "test", join, false, &node), 0);
}

static void await_up(struct world *w, unsigned first) {
    for (unsigned i = first; i < w->count; i++) {
        if (world_await(&w->nodes[i], TIDE_MEMBER_UP) != TIDE_MEMBER_UP) {
            char reason[200];
            int code;
            fail_msg("n%u: %d %s", i + 1, world_state(&w->nodes[i], &code, reason), reason);
        }
    }
}

static void fill(struct world *w, unsigned count) {
    while (w->count < count) {
        start(w);
        await_up(w, w->count - 1);
    }
    world_pause(w, TIDE_SECOND);
}

static void open_ring(struct world *w, uint64_t seed, unsigned count) {
    world_open(w, true, seed);
    fill(w, count);
}

static bool is_linked(struct tide_node *node, uint16_t id) {
    const struct tide_peer *peer = tide__peer(node->net, id);
    return peer != NULL && peer->link != NULL && peer->link->state == LINK_UP;
}

static unsigned count_links(struct tide_node *node) {
    unsigned count = 0;
    for (const struct tide_link *link = node->net->links; link != NULL; link = link->next) {
        count += link->state == LINK_UP;
    }
    return count;
}

/* How node i sees member `id`; 255: not at all. */
static int seen(struct world *w, unsigned i, uint16_t id) {
    struct tide_member m;
    return tide_net_member(w->nodes[i].net, id, &m) ? m.state : 255;
}

/* Crashed, or no member any more. */
static bool is_gone(const struct world *w, unsigned i) {
    return w->nodes[i].port->crashed || w->nodes[i].net->finished;
}

/* Until all who live see `id` in this state; what it took, or TIDE_NEVER. */
static uint64_t await_everywhere(struct world *w, uint16_t id, int state, uint64_t limit) {
    uint64_t began = world_now(w);
    for (unsigned i = 0; i < w->count; i++) {
        while (i != id - 1u && !is_gone(w, i) && seen(w, i, id) != state) {
            if (world_now(w) - began >= limit) {
                return TIDE_NEVER;
            }
            world_pause(w, 5 * MS);
        }
    }
    return world_now(w) - began;
}

static void all_up_but(struct world *w, const uint16_t *gone, unsigned count) {
    for (unsigned i = 0; i < w->count; i++) {
        bool expected = true;
        for (unsigned k = 0; k < count; k++) {
            expected = expected && gone[k] != i + 1;
        }
        int code;
        char reason[200];
        if (expected && world_state(&w->nodes[i], &code, reason) != TIDE_MEMBER_UP) {
            fail_msg("n%u is not up: %s", i + 1, reason);
        }
    }
}

/* Every living node is linked with the RING_REACH nearest on both sides, and knows them. */
static void ring_is_closed(struct world *w) {
    for (unsigned i = 0; i < w->count; i++) {
        struct tide_net *net = w->nodes[i].net;
        if (is_gone(w, i)) {
            continue;
        }
        assert_int_equal(net->neighbour_count, RING_NEIGHBOURS);
        for (unsigned k = 0; k < RING_NEIGHBOURS; k++) {
            if (!is_linked(&w->nodes[i], net->neighbours[k])) {
                fail_msg("n%u is not linked with its neighbour n%u", i + 1,
                         (unsigned)net->neighbours[k]);
            }
        }
        assert_true(i == 0 || is_linked(&w->nodes[i], 1));
    }
}

static void crash(struct world *w, uint16_t id) {
    char name[16];
    name_of(id - 1u, name);
    tide_sim_crash(w->sim, name);
}

static void cut(struct world *w, uint16_t a, uint16_t b, bool is_cut) {
    char names[2][16];
    name_of(a - 1u, names[0]);
    name_of(b - 1u, names[1]);
    tide_sim_partition(w->sim, names[0], names[1], is_cut);
}

static void cut_off(struct world *w, uint16_t id, bool is_cut) {
    for (uint16_t other = 1; other <= w->count; other++) {
        if (other != id) {
            cut(w, id, other, is_cut);
        }
    }
}

static void pause_node(struct world *w, uint16_t id, uint64_t duration) {
    char name[16];
    name_of(id - 1u, name);
    tide_sim_pause(w->sim, name, duration);
}

/* ---- who is linked ---- */

static void nodes_are_linked_with_neighbours_and_the_controller(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 1, NODES);
    ring_is_closed(&w);
    assert_int_equal(count_links(&w.nodes[0]), NODES - 1);
    for (unsigned i = 64; i < NODES - 8; i++) { /* those before were linked all to all */
        assert_in_range(count_links(&w.nodes[i]), RING_NEIGHBOURS + 1, RING_NEIGHBOURS + 5);
    }
    /* n20 and n40 were linked when there were few, and are no neighbours. */
    assert_true(is_linked(&w.nodes[39], 20));
    uint64_t before = tide__peer(w.nodes[39].net, 20)->link->bytes_in;
    world_pause(&w, 2 * TIDE_SECOND);
    assert_int_equal(tide__peer(w.nodes[39].net, 20)->link->bytes_in, before);
    assert_true(tide__peer(w.nodes[39].net, 38)->link->bytes_in > 20 * 10);
    world_close(&w);
}

static void nodes_that_start_at_once_all_come_up(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world w;
        world_open(&w, true, seed);
        while (w.count < NODES) {
            start(&w);
        }
        await_up(&w, 0);
        world_pause(&w, TIDE_SECOND);
        ring_is_closed(&w);
        all_up_but(&w, NULL, 0);
        world_close(&w);
    }
}

/* ---- messages ---- */

struct talk {
    tide_address to;
    int result; /* 1: not yet */
    uint64_t ended;
    char text[160];
    struct tide_node *node;
};

static const uint8_t nil[] = {0xc0};

static int answer(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CALL ? tide_answer(m->from, m->call, nil, sizeof nil) : 0;
}

static int mute(void *state, const struct tide_message *m) {
    (void)state;
    (void)m;
    return 0;
}

static tide_address spawn(struct tide_node *node, int (*handle)(void *, const struct tide_message *)) {
    tide_address address;
    struct tide_actor_options o = {.type = "t", .handle = handle};
    assert_int_equal(tide_spawn(node, &o, &address), 0);
    return tide_address_make(tide_net_self(node->net), tide_address_id(address));
}

static int talk_run(void *state) {
    struct talk *t = state;
    struct tide_reply *reply = NULL;
    t->result = tide_call(t->to, nil, sizeof nil, 20 * TIDE_SECOND, &reply);
    if (t->result == 0) {
        tide_reply_free(reply);
    } else {
        snprintf(t->text, sizeof t->text, "%s", tide_error_message());
    }
    t->ended = tide_node_now(t->node);
    return 0;
}

static void say(struct tide_node *node, struct talk *t, tide_address to) {
    *t = (struct talk){.to = to, .result = 1, .node = node};
    struct tide_actor_options o = {.type = "talk", .run = talk_run, .state = t};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
}

static int await_talk(struct world *w, const struct talk *t) {
    uint64_t until = world_now(w) + 25 * TIDE_SECOND;
    while (t->result == 1 && world_now(w) < until) {
        world_pause(w, MS);
    }
    return t->result;
}

/* In both directions: the higher one dials, the lower one knocks; and both at the same moment. */
static void a_message_makes_the_link_it_needs(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 3, NODES);
    static const uint16_t pairs[][2] = {{70, 85}, {86, 71}, {72, 87}, {73, 88}, {74, 89}};
    struct talk talks[2 * TIDE_COUNT(pairs)];
    for (unsigned i = 0; i < TIDE_COUNT(pairs); i++) {
        struct tide_node *a = &w.nodes[pairs[i][0] - 1], *b = &w.nodes[pairs[i][1] - 1];
        assert_false(is_linked(a, pairs[i][1]));
        tide_address at_a = spawn(a, answer), at_b = spawn(b, answer);
        uint64_t began = world_now(&w);
        say(a, &talks[2 * i], at_b);
        if (i >= 2) {
            say(b, &talks[2 * i + 1], at_a);
            assert_int_equal(await_talk(&w, &talks[2 * i + 1]), 0);
        }
        assert_int_equal(await_talk(&w, &talks[2 * i]), 0);
        assert_true(talks[2 * i].ended - began < 20 * MS);
        assert_true(is_linked(a, pairs[i][1]) && is_linked(b, pairs[i][0]));
    }
    world_pause(&w, 5 * TIDE_SECOND); /* silence on such a link is nobody's death */
    all_up_but(&w, NULL, 0);
    assert_true(is_linked(&w.nodes[69], 85));
    world_close(&w);
}

/* ---- deaths ---- */

static void a_crash_is_declared_everywhere_within_a_second(void **unused) {
    (void)unused;
    for (uint64_t seed = 10; seed < 10 + SEEDS; seed++) {
        struct world w;
        open_ring(&w, seed, NODES);
        struct talk talks[3];
        static const unsigned callers[] = {0, 81, 96}; /* the controller, a neighbour, a stranger */
        tide_address to = spawn(&w.nodes[79], mute);
        for (unsigned i = 0; i < 3; i++) {
            say(&w.nodes[callers[i]], &talks[i], to);
        }
        world_pause(&w, 300 * MS);
        crash(&w, 80);
        uint64_t crashed = world_now(&w);
        assert_true(await_everywhere(&w, 80, TIDE_MEMBER_DEAD, TIDE_SECOND) != TIDE_NEVER);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(await_talk(&w, &talks[i]), TIDE_EDIED);
            assert_true(talks[i].ended - crashed < TIDE_SECOND);
            assert_non_null(strstr(talks[i].text, "node n80 died"));
        }
        world_pause(&w, TIDE_SECOND);
        ring_is_closed(&w);
        static const uint16_t gone[] = {80};
        all_up_but(&w, gone, 1);
        world_close(&w);
    }
}

/* A node with all its neighbours: nobody is left who listened to its beats but the controller. */
static void a_whole_neighbourhood_that_crashes_is_found(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 20, NODES);
    uint16_t gone[9];
    for (unsigned i = 0; i < 9; i++) {
        gone[i] = (uint16_t)(70 + i);
        crash(&w, gone[i]);
    }
    for (unsigned i = 0; i < 9; i++) {
        assert_true(await_everywhere(&w, gone[i], TIDE_MEMBER_DEAD, TIDE_SECOND) != TIDE_NEVER);
    }
    world_pause(&w, TIDE_SECOND);
    ring_is_closed(&w);
    all_up_but(&w, gone, 9);
    world_close(&w);
}

static void a_node_that_is_cut_off_dies_and_no_other(void **unused) {
    (void)unused;
    for (uint64_t seed = 30; seed < 30 + SEEDS; seed++) {
        struct world w;
        open_ring(&w, seed, NODES);
        cut_off(&w, 90, true);
        /* 2 s of silence are granted, and beats and looks come every 0.5 and 0.25 s */
        assert_true(await_everywhere(&w, 90, TIDE_MEMBER_DEAD, 7 * TIDE_SECOND / 2) != TIDE_NEVER);
        world_pause(&w, 6 * TIDE_SECOND);
        cut_off(&w, 90, false);
        world_pause(&w, 3 * TIDE_SECOND);
        ring_is_closed(&w);
        static const uint16_t gone[] = {90};
        all_up_but(&w, gone, 1);
        assert_int_equal(world_await(&w.nodes[89], TIDE_MEMBER_DEAD), TIDE_MEMBER_DEAD);
        world_close(&w);
    }
}

/* The others hear it: one broken link has 5 s to heal. */
static void one_broken_link_may_heal(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 40, NODES);
    cut(&w, 60, 62, true);
    cut(&w, 80, 81, true);
    world_pause(&w, 6 * TIDE_SECOND);
    cut(&w, 60, 62, false);
    world_pause(&w, 6 * TIDE_SECOND); /* 80 and 81 cannot both stay */
    assert_int_equal(seen(&w, 0, 60), TIDE_MEMBER_UP);
    assert_int_equal(seen(&w, 0, 62), TIDE_MEMBER_UP);
    assert_true((seen(&w, 0, 80) == TIDE_MEMBER_DEAD) != (seen(&w, 0, 81) == TIDE_MEMBER_DEAD));
    uint16_t gone = seen(&w, 0, 80) == TIDE_MEMBER_DEAD ? 80 : 81;
    all_up_but(&w, &gone, 1);
    world_close(&w);
}

/* A link that was made for a message is watched while something waits there. */
static void a_broken_link_between_strangers_is_noticed_when_it_is_used(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 41, NODES);
    tide_address to = spawn(&w.nodes[94], answer);
    struct talk talk;
    say(&w.nodes[74], &talk, to);
    assert_int_equal(await_talk(&w, &talk), 0);
    world_pause(&w, 100 * MS); /* until all is acknowledged */
    cut(&w, 75, 95, true);
    world_pause(&w, 12 * TIDE_SECOND);
    all_up_but(&w, NULL, 0);
    say(&w.nodes[74], &talk, to);
    assert_int_equal(await_talk(&w, &talk), TIDE_EDIED);
    world_close(&w);
}

static void a_short_pause_is_survived_and_a_long_one_is_not(void **unused) {
    (void)unused;
    for (uint64_t seed = 50; seed < 50 + SEEDS; seed++) {
        struct world w;
        open_ring(&w, seed, NODES);
        pause_node(&w, 77, 1500 * MS);
        pause_node(&w, 30, 1500 * MS);
        world_pause(&w, 4 * TIDE_SECOND);
        all_up_but(&w, NULL, 0);
        pause_node(&w, 77, 8 * TIDE_SECOND); /* who was irregular is given more time */
        assert_true(await_everywhere(&w, 77, TIDE_MEMBER_DEAD, 6 * TIDE_SECOND) != TIDE_NEVER);
        world_pause(&w, 6 * TIDE_SECOND);
        static const uint16_t gone[] = {77};
        all_up_but(&w, gone, 1);
        assert_int_equal(world_await(&w.nodes[76], TIDE_MEMBER_DEAD), TIDE_MEMBER_DEAD);
        world_close(&w);
    }
}

/* ---- coming and going ---- */

static void who_leaves_is_left_everywhere_and_the_ring_closes(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 60, NODES);
    for (uint16_t id = 50; id < 56; id++) {
        tide_net_leave(w.nodes[id - 1].net);
    }
    for (uint16_t id = 50; id < 56; id++) {
        assert_true(await_everywhere(&w, id, TIDE_MEMBER_LEFT, 2 * TIDE_SECOND) != TIDE_NEVER);
    }
    world_pause(&w, TIDE_SECOND);
    ring_is_closed(&w);
    world_close(&w);
}

static void nodes_join_while_others_crash(void **unused) {
    (void)unused;
    for (uint64_t seed = 70; seed < 70 + SEEDS; seed++) {
        struct world w;
        open_ring(&w, seed, NODES);
        static const uint16_t gone[] = {97, 99, 100, 2}; /* newcomers' neighbours to be */
        for (unsigned i = 0; i < 4; i++) {
            start(&w);
            crash(&w, gone[i]);
            start(&w);
        }
        await_up(&w, NODES);
        for (unsigned i = 0; i < 4; i++) {
            assert_true(await_everywhere(&w, gone[i], TIDE_MEMBER_DEAD, TIDE_SECOND) != TIDE_NEVER);
        }
        world_pause(&w, 2 * TIDE_SECOND);
        ring_is_closed(&w);
        all_up_but(&w, gone, 4);
        world_close(&w);
    }
}

/* ---- rest: who was not watched comes to be ---- */

static bool rests(struct tide_node *node, uint16_t id) {
    const struct tide_peer *peer = tide__peer(node->net, id);
    return peer != NULL && peer->session != NULL && peer->session->resting;
}

/* n21 and n39, which were linked when the cluster was small and had nothing to say for long, become
 * neighbours, and so do others at their sides. */
static void leave_between(struct world *w, uint16_t gone[17]) {
    world_pause(w, 10 * TIDE_SECOND);
    assert_true(is_linked(&w->nodes[38], 21) && rests(&w->nodes[38], 21) && rests(&w->nodes[20], 39));
    for (unsigned i = 0; i < 17; i++) {
        gone[i] = (uint16_t)(22 + i);
        tide_net_leave(w->nodes[gone[i] - 1].net);
    }
}

static void a_new_neighbour_is_judged_from_now_on(void **unused) {
    (void)unused;
    for (uint64_t seed = 90; seed < 90 + SEEDS; seed++) {
        struct world w;
        uint16_t gone[18];
        open_ring(&w, seed, NODES);
        leave_between(&w, gone);
        world_pause(&w, 3 * TIDE_SECOND);
        assert_false(rests(&w.nodes[38], 21) || rests(&w.nodes[20], 39));
        pause_node(&w, 39, 1500 * MS);
        world_pause(&w, 5 * TIDE_SECOND);
        all_up_but(&w, gone, 17);
        ring_is_closed(&w);
        gone[17] = 39; /* and it is watched */
        cut_off(&w, 39, true);
        assert_true(await_everywhere(&w, 39, TIDE_MEMBER_DEAD, 4 * TIDE_SECOND) != TIDE_NEVER);
        world_pause(&w, 4 * TIDE_SECOND);
        all_up_but(&w, gone, 18);
        world_close(&w);
    }
}

/* The controller's views do not reach n39, which does not know who listens to it now. */
static void who_does_not_know_its_new_neighbours_beats_for_them(void **unused) {
    (void)unused;
    for (uint64_t seed = 95; seed < 95 + SEEDS; seed++) {
        struct world w;
        uint16_t gone[17];
        open_ring(&w, seed, NODES);
        leave_between(&w, gone);
        tide_sim_cut(w.sim, "n1", "n39", true);
        world_pause(&w, 6 * TIDE_SECOND); /* it waits longer for a controller */
        assert_int_equal(seen(&w, 20, 38), TIDE_MEMBER_LEFT);
        assert_int_not_equal(seen(&w, 38, 38), TIDE_MEMBER_LEFT);
        tide_sim_cut(w.sim, "n1", "n39", false);
        world_pause(&w, 4 * TIDE_SECOND);
        all_up_but(&w, gone, 17);
        ring_is_closed(&w);
        world_close(&w);
    }
}

/* It is linked with all, has heard nothing of most for long, and watches them from now on. */
static void a_new_controller_takes_nobody_for_dead_who_rested(void **unused) {
    (void)unused;
    if (&TIDE_CONTROL_PLUGIN == NULL) {
        skip(); /* built without libraft */
    }
    for (uint64_t seed = 98; seed < 98 + SEEDS; seed++) {
        struct world w;
        world_open(&w, true, seed);
        w.controllers = 3;
        fill(&w, 80);
        world_pause(&w, 10 * TIDE_SECOND);
        assert_true(tide_net_durable(w.nodes[79].net));
        assert_true(rests(&w.nodes[1], 40) && rests(&w.nodes[2], 40));
        crash(&w, 1);
        assert_true(await_everywhere(&w, 1, TIDE_MEMBER_DEAD, 5 * TIDE_SECOND) != TIDE_NEVER);
        world_pause(&w, 6 * TIDE_SECOND);
        uint16_t gone[3] = {1, 70, 45};
        all_up_but(&w, gone, 1);
        crash(&w, gone[1]);
        assert_true(await_everywhere(&w, gone[1], TIDE_MEMBER_DEAD, TIDE_SECOND) != TIDE_NEVER);
        cut_off(&w, gone[2], true);
        assert_true(await_everywhere(&w, gone[2], TIDE_MEMBER_DEAD, 4 * TIDE_SECOND) != TIDE_NEVER);
        world_pause(&w, 3 * TIDE_SECOND);
        all_up_but(&w, gone, 3);
        world_close(&w);
    }
}

/* Across the border between both kinds of clusters, up and down. */
static void a_cluster_that_shrinks_is_linked_all_to_all_again(void **unused) {
    (void)unused;
    struct world w;
    open_ring(&w, 80, 80);
    assert_false(is_linked(&w.nodes[69], 50));
    for (uint16_t id = 72; id <= 80; id++) {
        crash(&w, id);
    }
    for (uint16_t id = 2; id < 10; id++) {
        tide_net_leave(w.nodes[id - 1].net);
    }
    world_pause(&w, 4 * TIDE_SECOND);
    for (uint16_t a = 10; a < 72; a++) {
        for (uint16_t b = 10; b < 72; b++) {
            assert_true(a == b || is_linked(&w.nodes[a - 1], b));
        }
        assert_int_equal(world_await(&w.nodes[a - 1], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
    }
    world_close(&w);
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_linked_with_neighbours_and_the_controller),
        cmocka_unit_test(nodes_that_start_at_once_all_come_up),
        cmocka_unit_test(a_message_makes_the_link_it_needs),
        cmocka_unit_test(a_crash_is_declared_everywhere_within_a_second),
        cmocka_unit_test(a_whole_neighbourhood_that_crashes_is_found),
        cmocka_unit_test(a_node_that_is_cut_off_dies_and_no_other),
        cmocka_unit_test(one_broken_link_may_heal),
        cmocka_unit_test(a_broken_link_between_strangers_is_noticed_when_it_is_used),
        cmocka_unit_test(a_short_pause_is_survived_and_a_long_one_is_not),
        cmocka_unit_test(who_leaves_is_left_everywhere_and_the_ring_closes),
        cmocka_unit_test(nodes_join_while_others_crash),
        cmocka_unit_test(a_new_neighbour_is_judged_from_now_on),
        cmocka_unit_test(who_does_not_know_its_new_neighbours_beats_for_them),
        cmocka_unit_test(a_new_controller_takes_nobody_for_dead_who_rested),
        cmocka_unit_test(a_cluster_that_shrinks_is_linked_all_to_all_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
