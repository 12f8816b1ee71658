/*
 * Three nodes hold what the controller decides, and the one that leads crashes, is cut off or
 * stalls: at every decision it records and at moments that seeds draw, in the simulator, with
 * rows pushed, a table made, a node leaving and one joining. Another one continues: views never
 * differ under one number, terms rise, no table and no slot move that was told is lost, no push
 * lost or doubled, and what an old controller still says changes nothing.
 */
enum { VIEWS_MAX = 512, WORK_KEYS = 300 };

#include "net/link/peer.h"
#include "net/members/members.h"
#include "control_world.h"
#include "store/core/store.h"

#include <stdlib.h>

/* n1, n2, n3 hold the log and no rows. */
enum { NODES = 7, HOLDERS = 3, LEAVER = 5, LATE = 6 };
enum { JOINS = 40 }; /* moments of a join */

struct tide_net *tide_net_of(struct tide_node *node);

struct cluster {
    struct tide_sim *sim;
    struct tide_port *ports[NODES];
    struct tide_node *nodes[NODES];
    struct views views;
    uint64_t terms[NODES]; /* the highest that each obeyed */
    unsigned controllers;  /* of the first node, as it begins */
    const char *state;     /* directory of the holders, which all nodes reach; NULL: none */
};

/* ---- the leader ends at a put ---- */

enum moment { BEFORE, AFTER, RECORDED, NEVER };

static struct {
    struct tide_sim *sim;
    const struct tide_control_ops *plain;
    struct tide_control_ops ops;
    enum moment moment;
    unsigned puts, at; /* the put, counted from 1, that is the last */
    bool crashed;
    tide_control_done done;
    void *arg;
} breaking;

static void crash_first(void) {
    breaking.crashed = true;
    tide_sim_crash(breaking.sim, "n1");
}

static void recorded(void *arg, int code) {
    (void)arg;
    if (!breaking.crashed) {
        crash_first();
    }
    breaking.done(breaking.arg, code);
}

static void breaking_put(struct tide_control *control, const struct tide_control_put *puts,
                         size_t count, tide_control_done done, void *arg) {
    bool last = ++breaking.puts == breaking.at;
    if (last && breaking.moment == BEFORE) {
        crash_first();
    }
    if (last && breaking.moment == RECORDED) {
        breaking.done = done;
        breaking.arg = arg;
        breaking.plain->put(control, puts, count, recorded, NULL);
    } else {
        breaking.plain->put(control, puts, count, done, arg);
    }
    if (last && breaking.moment == AFTER) {
        crash_first();
    }
}

static void break_at(struct cluster *c, enum moment moment, unsigned at) {
    struct tide_control *control = tide_net_of(c->nodes[0])->control;
    memset(&breaking, 0, sizeof breaking);
    breaking.sim = c->sim;
    breaking.plain = control->ops;
    breaking.ops = *control->ops;
    breaking.ops.put = breaking_put;
    breaking.moment = moment;
    breaking.at = at;
    control->ops = &breaking.ops;
}

/* ---- a cluster ---- */

static bool runs(struct cluster *c, unsigned i) {
    return c->nodes[i] != NULL && !c->ports[i]->crashed;
}

static struct tide_net *net_of(struct cluster *c, unsigned i) {
    return tide_net_of(c->nodes[i]);
}

static bool belongs(struct cluster *c, unsigned i) {
    int code;
    char reason[200];
    return runs(c, i) &&
           tide_net_state(net_of(c, i), &code, reason, sizeof reason) < TIDE_MEMBER_LEFT;
}

/* One content a number, at whoever is a member; and nobody obeys a lower term than before. */
static void look_at_views(struct cluster *c) {
    for (unsigned i = 0; i < NODES; i++) {
        if (!belongs(c, i)) {
            continue;
        }
        views_look(&c->views, net_of(c, i), i + 1);
        uint64_t term = tide_net_term(net_of(c, i));
        if (term < c->terms[i]) {
            fail_msg("n%u obeys term %llu after %llu", i + 1, (unsigned long long)term,
                     (unsigned long long)c->terms[i]);
        }
        c->terms[i] = term;
    }
}

static void go_on(struct cluster *c, uint64_t ns) {
    uint64_t until = tide_sim_now(c->sim) + ns;
    while (tide_sim_now(c->sim) < until) {
        tide_sim_run(c->sim, tide_sim_now(c->sim) + MS, NULL, NULL);
        look_at_views(c);
    }
}

static void end_node(struct cluster *c, unsigned i) {
    if (c->nodes[i] != NULL) {
        tide_node_destroy(c->nodes[i], 0);
        c->ports[i]->ops->destroy(c->ports[i]);
        c->nodes[i] = NULL;
        c->ports[i] = NULL;
    }
}

static int start_node(struct cluster *c, unsigned i, const char *join) {
    char name[8], listen[16];
    snprintf(name, sizeof name, "n%u", i + 1);
    snprintf(listen, sizeof listen, "sim:n%u", i + 1);
    assert_int_equal(tide_sim_port(c->sim, name, &c->ports[i]), 0);
    struct tide_node_options o = {.cluster = "s",
                                  .name = name,
                                  .listen = listen,
                                  .join = join,
                                  .controllers = join == NULL ? c->controllers : 0,
                                  .state = i < HOLDERS ? c->state : NULL,
                                  .no_store = i < HOLDERS,
                                  .workers = 1,
                                  .port = c->ports[i]};
    int code = tide_node_create(&o, &c->nodes[i]);
    if (code != 0) {
        c->nodes[i] = NULL;
        c->ports[i]->ops->destroy(c->ports[i]);
        c->ports[i] = NULL;
    }
    return code;
}

/* By a member that holds rows and stays, which knows where the controller is. */
static void start_patiently(struct cluster *c, unsigned i) {
    for (unsigned tries = 0; start_node(c, i, "sim:n4") != 0; tries++) {
        if (tries == 100) {
            fail_msg("n%u: %s", i + 1, tide_error_message());
        }
        go_on(c, 100 * MS);
    }
}

static void start_all(struct cluster *c, uint64_t seed, unsigned controllers, const char *state) {
    memset(c, 0, sizeof *c);
    c->controllers = controllers;
    c->state = state;
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &c->sim), 0);
    tide_sim_share(c->sim, "/shared");
    for (unsigned i = 0; i < LATE; i++) {
        if (start_node(c, i, i == 0 ? NULL : "sim:n1") != 0) {
            fail_msg("n%u: %s", i + 1, tide_error_message());
        }
    }
}

static void await_durable(struct cluster *c) {
    for (unsigned tries = 0; !tide_net_durable(net_of(c, LATE - 1)); tries++) {
        assert_true(tries < 1000);
        go_on(c, 10 * MS);
    }
}

static void open_cluster(struct cluster *c, uint64_t seed) {
    start_all(c, seed, HOLDERS, NULL);
    await_durable(c);
}

static void close_cluster(struct cluster *c) {
    for (unsigned i = NODES; i-- > 0;) {
        end_node(c, i);
    }
    tide_sim_destroy(c->sim);
}

/* Whose term is the highest of those that command; NODES: nobody does. */
static unsigned leader(struct cluster *c) {
    unsigned found = NODES;
    for (unsigned i = 0; i < NODES; i++) {
        if (belongs(c, i) && net_of(c, i)->controls &&
            (found == NODES || net_of(c, i)->term > net_of(c, found)->term)) {
            found = i;
        }
    }
    return found;
}

static void await_leader_but(struct cluster *c, unsigned other) {
    for (unsigned tries = 0; leader(c) == NODES || leader(c) == other; tries++) {
        if (tries == 6000) {
            fail_msg("nobody commands");
        }
        go_on(c, MS);
    }
}

static unsigned state_at(struct cluster *c, unsigned node, const char *name) {
    return views_state_of(net_of(c, node), name);
}

static void await_state(struct cluster *c, const char *name, unsigned state) {
    for (unsigned i = 0; i < NODES; i++) {
        for (unsigned tries = 0; belongs(c, i) && state_at(c, i, name) != state; tries++) {
            if (tries == 4000) {
                fail_msg("%s is %u at n%u, not %u", name, state_at(c, i, name), i + 1, state);
            }
            go_on(c, 5 * MS);
        }
    }
}

static void cut(struct cluster *c, unsigned node, bool off) {
    for (unsigned i = 0; i < NODES; i++) {
        char a[8], b[8];
        snprintf(a, sizeof a, "n%u", node + 1);
        snprintf(b, sizeof b, "n%u", i + 1);
        if (i != node && c->nodes[i] != NULL) {
            tide_sim_partition(c->sim, a, b, off);
        }
    }
}

/* ---- what runs on it ---- */

static void begin(struct cluster *c, struct work *w, const char *table) {
    work_begin(w, c->nodes[3], table, 0);
}

static void finish(struct cluster *c, struct work *w) {
    atomic_store(&w->go, true);
    for (unsigned i = 0; i < 8000 && !atomic_load(&w->done); i++) {
        go_on(c, 5 * MS);
    }
    work_judge(w);
}

/* Every node has the table, and the same homes for its slots. */
static void same_homes(struct cluster *c, const char *name) {
    uint32_t first[16] = {0}, counts[16];
    uint64_t version;
    bool any = false;
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_table *table;
        if (!belongs(c, i)) {
            continue;
        }
        if (tide_table_find(c->nodes[i], name, &table) != 0) {
            fail_msg("n%u has no table %s", i + 1, name);
        }
        memset(counts, 0, sizeof counts);
        tide_table_homes(table, counts, 16, &version);
        if (!any) {
            memcpy(first, counts, sizeof first);
            any = true;
        }
        assert_memory_equal(first, counts, sizeof counts);
    }
}

/* A table, a node that leaves under load, another table, a node that joins. `fault` strikes when
 * the first three are in flight. */
static void life(struct cluster *c, void (*fault)(struct cluster *c, struct tide_random *random),
                 struct tide_random *random) {
    struct work a, b;
    begin(c, &a, "a");
    go_on(c, tide_random_below(random, 20 * MS) + MS);
    tide_net_leave(net_of(c, LEAVER));
    go_on(c, tide_random_below(random, 10 * MS) + MS);
    begin(c, &b, "b");
    if (fault != NULL) {
        fault(c, random);
    }
    await_state(c, "n6", TIDE_MEMBER_LEFT);
    end_node(c, LEAVER);
    start_patiently(c, LATE);
    await_state(c, "n7", TIDE_MEMBER_UP);
    finish(c, &a);
    finish(c, &b);
    go_on(c, 3 * TIDE_SECOND); /* the dead are declared so, and ends told */
    same_homes(c, "a");
    same_homes(c, "b");
    unsigned commands = 0;
    for (unsigned i = 0; i < NODES; i++) {
        commands += belongs(c, i) && net_of(c, i)->controls;
    }
    assert_int_equal(commands, 1);
}

static void the_log_is_held_by_the_first_three(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 1);
    go_on(&c, 100 * MS); /* that all of it is committed is told by the next beat */
    uint16_t ids[8];
    struct tide_control *control = net_of(&c, 0)->control;
    assert_int_equal(leader(&c), 0);
    assert_int_equal(control->ops->holders(control, ids, 8), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ids[i], i + 1);
        assert_int_equal(net_of(&c, i)->control->state.index, control->state.index);
    }
    assert_null(net_of(&c, 3)->control);
    close_cluster(&c);
}

static void a_controller_that_crashes_at_any_decision_is_replaced(void **unused) {
    (void)unused;
    unsigned puts = 1, lives = 0;
    for (unsigned at = 0; at <= puts; at++) {
        for (int moment = BEFORE; moment <= RECORDED && (at > 0 || moment == BEFORE); moment++) {
            struct cluster c;
            struct tide_random random;
            tide_random_seed(&random, 7);
            open_cluster(&c, 7);
            break_at(&c, (enum moment)moment, at);
            life(&c, NULL, &random);
            assert_true(at == 0 || breaking.crashed);
            assert_true(at == 0 ? leader(&c) == 0 : leader(&c) != 0);
            puts = at == 0 ? breaking.puts : puts;
            close_cluster(&c);
            lives++;
        }
    }
    assert_true(puts > 5);
    print_message("%u decisions, %u lives\n", puts, lives);
}

/* ---- at any time ---- */

static void crash_leader(struct cluster *c, struct tide_random *random) {
    go_on(c, tide_random_below(random, 60 * MS));
    unsigned old = leader(c);
    char name[8];
    snprintf(name, sizeof name, "n%u", old + 1);
    tide_sim_crash(c->sim, name);
    await_leader_but(c, old);
}

/* Shorter or longer than it takes to be declared dead. */
static void cut_leader(struct cluster *c, struct tide_random *random) {
    go_on(c, tide_random_below(random, 60 * MS));
    unsigned old = leader(c);
    cut(c, old, true);
    await_leader_but(c, old);
    go_on(c, tide_random_below(random, 2) == 0 ? 200 * MS : 6 * TIDE_SECOND);
    assert_false(net_of(c, old)->controls); /* it heard nobody, and knows by itself */
    cut(c, old, false);
    go_on(c, TIDE_SECOND);
}

static void pause_leader(struct cluster *c, struct tide_random *random) {
    go_on(c, tide_random_below(random, 60 * MS));
    unsigned old = leader(c);
    char name[8];
    snprintf(name, sizeof name, "n%u", old + 1);
    tide_sim_pause(c->sim, name, 800 * MS + tide_random_below(random, TIDE_SECOND));
    await_leader_but(c, old);
    go_on(c, 2 * TIDE_SECOND);
}

static void with_seeds(void (*fault)(struct cluster *c, struct tide_random *random)) {
    const char *rounds = getenv("TIDE_TEST_ROUNDS");
    unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 12;
    for (unsigned seed = 1; seed <= count; seed++) {
        struct cluster c;
        struct tide_random random;
        tide_random_seed(&random, seed);
        open_cluster(&c, seed);
        uint64_t term = net_of(&c, 0)->term;
        life(&c, fault, &random);
        assert_true(net_of(&c, 3)->term > term);
        close_cluster(&c);
    }
}

static void a_controller_that_crashes_at_any_time_is_replaced(void **unused) {
    (void)unused;
    with_seeds(crash_leader);
}

static void a_controller_that_is_cut_off_steps_down_and_comes_back(void **unused) {
    (void)unused;
    with_seeds(cut_leader);
}

static void a_controller_that_stands_still_is_replaced_and_obeys(void **unused) {
    (void)unused;
    with_seeds(pause_leader);
}

/* ---- single behaviours ---- */

/* What a controller that was replaced, and does not know it, would still send. */
static void a_view_of_an_older_term_changes_nothing(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 3);
    uint64_t old_term = net_of(&c, 0)->term;
    tide_sim_pause(c.sim, "n1", 700 * MS); /* too short to be declared dead */
    await_leader_but(&c, 0);
    go_on(&c, 2 * TIDE_SECOND);
    struct tide_net *from = net_of(&c, 0), *to = net_of(&c, 3);
    assert_false(from->controls);
    assert_true(to->term > old_term);
    uint64_t before = to->view, new_term = from->term;
    struct known *victim = tide__members_find(from, tide_net_self(net_of(&c, 4)));
    struct tide_member kept = victim->member;
    struct tide_writer w;
    from->term = old_term;
    from->view = before + 1;
    victim->member.state = TIDE_MEMBER_DEAD;
    tide_writer_init(&w, NULL, 0);
    tide__members_write_view(from, &w);
    tide__members_cast(from, tide__peer(from, tide_net_self(to))->link, &w);
    tide_writer_release(&w);
    victim->member = kept;
    from->term = new_term;
    from->view = before;
    tide_sim_run(c.sim, tide_sim_now(c.sim) + 20 * MS, NULL, NULL);
    assert_int_equal(to->view, before);
    assert_int_equal(to->term, new_term);
    assert_int_equal(state_at(&c, 3, "n5"), TIDE_MEMBER_UP);
    close_cluster(&c);
}

/* Nothing is decided and everything else continues; with one of them back decisions do too. */
static void without_a_majority_decisions_wait(void **unused) {
    (void)unused;
    struct cluster c;
    struct work a, b;
    open_cluster(&c, 4);
    begin(&c, &a, "a");
    go_on(&c, 50 * MS);
    cut(&c, 0, true);
    cut(&c, 1, true);
    go_on(&c, 2 * TIDE_SECOND);
    assert_int_equal(leader(&c), NODES);
    unsigned pushes = a.pushes;
    begin(&c, &b, "b");
    go_on(&c, TIDE_SECOND);
    assert_true(a.pushes > pushes && b.pushes == 0);
    cut(&c, 1, false);
    await_leader_but(&c, 0);
    go_on(&c, TIDE_SECOND);
    finish(&c, &a);
    finish(&c, &b);
    close_cluster(&c);
}

static void a_controller_that_leaves_hands_over_and_is_replaced_as_holder(void **unused) {
    (void)unused;
    struct cluster c;
    struct work a;
    open_cluster(&c, 5);
    begin(&c, &a, "a");
    go_on(&c, 20 * MS);
    tide_net_leave(net_of(&c, 0));
    await_state(&c, "n1", TIDE_MEMBER_LEFT);
    go_on(&c, TIDE_SECOND);
    end_node(&c, 0);
    assert_true(leader(&c) < HOLDERS);
    uint16_t ids[8];
    struct tide_control *control = net_of(&c, leader(&c))->control;
    assert_int_equal(control->ops->holders(control, ids, 8), 3);
    finish(&c, &a);
    same_homes(&c, "a");
    close_cluster(&c);
}

/* One after the other, until holders of rows hold the log: each is replaced as holder first. */
static void replicate(void *arg) {
    struct tide_net *net = *(struct tide_net **)arg;
    assert_int_equal(tide_net_replicate(net, HOLDERS), 0);
    assert_true(tide_net_replicate(net, HOLDERS) < 0);
}

/* What it had decided alone begins the log, and another one leads. */
static void a_controller_that_was_alone_shares_its_log_and_hands_over(void **unused) {
    (void)unused;
    for (unsigned seed = 1; seed <= 6; seed++) {
        struct cluster c;
        struct tide_random random;
        struct work a;
        tide_random_seed(&random, seed);
        start_all(&c, seed, 0, NULL);
        begin(&c, &a, "before");
        go_on(&c, 100 * MS);
        struct tide_net **net = tide_alloc(sizeof(struct tide_net *));
        assert_non_null(net);
        *net = net_of(&c, 0);
        assert_int_equal(tide_hop(c.nodes[0], TIDE_ROLE_IO, replicate, net, tide_free), 0);
        tide_free(net);
        await_leader_but(&c, 0);
        life(&c, seed % 2 == 0 ? crash_leader : NULL, &random);
        finish(&c, &a);
        same_homes(&c, "before");
        close_cluster(&c);
    }
}

static void crash_all_holders(struct cluster *c, struct tide_random *random) {
    for (unsigned i = 0; i < HOLDERS; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%u", i + 1);
        tide_sim_crash(c->sim, name);
        go_on(c, tide_random_below(random, 2) == 0 ? 0 : tide_random_below(random, 400 * MS));
    }
    go_on(c, tide_random_below(random, TIDE_SECOND));
    for (unsigned i = 0; i < HOLDERS; i++) {
        end_node(c, i);
    }
}

static void start_holders_again(struct cluster *c) {
    for (unsigned i = 0; i < HOLDERS; i++) {
        if (start_node(c, i, i == 0 ? NULL : "sim:n1") != 0) {
            fail_msg("n%u does not come back: %s", i + 1, tide_error_message());
        }
    }
}

/* Each begins as another node, from what the three had on disk; rows and workers continue meanwhile. */
static void controllers_that_all_ended_go_on_from_their_logs(void **unused) {
    (void)unused;
    for (unsigned seed = 1; seed <= 8; seed++) {
        struct cluster c;
        struct tide_random random;
        struct work a, b;
        tide_random_seed(&random, seed);
        start_all(&c, seed, HOLDERS, "/shared/log");
        await_durable(&c);
        begin(&c, &a, "a");
        go_on(&c, tide_random_below(&random, 100 * MS));
        tide_net_leave(net_of(&c, LEAVER));
        go_on(&c, tide_random_below(&random, 50 * MS));
        for (unsigned deaths = 0; deaths < 2; deaths++) {
            const uint64_t term = net_of(&c, 3)->term;
            crash_all_holders(&c, &random);
            start_holders_again(&c);
            for (unsigned tries = 0; net_of(&c, 3)->term == term; tries++) {
                assert_true(tries < 1000);
                go_on(&c, 5 * MS);
            }
            go_on(&c, TIDE_SECOND + tide_random_below(&random, TIDE_SECOND));
            uint16_t ids[8];
            struct tide_control *control = net_of(&c, leader(&c))->control;
            assert_int_equal(control->ops->holders(control, ids, 8), HOLDERS);
        }
        begin(&c, &b, "b");
        await_state(&c, "n6", TIDE_MEMBER_LEFT);
        end_node(&c, LEAVER);
        start_patiently(&c, LATE);
        await_state(&c, "n7", TIDE_MEMBER_UP);
        finish(&c, &a);
        finish(&c, &b);
        same_homes(&c, "a");
        same_homes(&c, "b");
        close_cluster(&c);
    }
}

/* One of three logs may be behind. */
static void a_minority_of_the_logs_is_refused(void **unused) {
    (void)unused;
    struct cluster c;
    struct tide_random random;
    tide_random_seed(&random, 1);
    start_all(&c, 1, HOLDERS, "/shared/log");
    await_durable(&c);
    struct tide_port *disk = c.ports[3];
    crash_all_holders(&c, &random);
    assert_int_equal(disk->ops->file_unlink(disk, "/shared/log/holder-00001.log"), 0);
    assert_int_equal(disk->ops->file_unlink(disk, "/shared/log/holder-00003.log"), 0);
    assert_int_equal(start_node(&c, 0, NULL), TIDE_EBUSY);
    assert_non_null(strstr(tide_error_message(), "a majority is needed"));
    close_cluster(&c);
}

/* It asks while nobody commands, and waits for whoever does next. */
static void who_joins_while_there_is_no_controller_waits_for_one(void **unused) {
    (void)unused;
    for (unsigned seed = 1; seed <= 8; seed++) {
        struct cluster c;
        struct tide_random random;
        tide_random_seed(&random, seed);
        open_cluster(&c, seed);
        go_on(&c, tide_random_below(&random, 100 * MS));
        tide_sim_crash(c.sim, "n1");
        go_on(&c, tide_random_below(&random, 100 * MS));
        assert_int_equal(leader(&c), NODES);
        if (start_node(&c, LATE, "sim:n4") != 0) {
            fail_msg("seed %u: %s", seed, tide_error_message());
        }
        await_state(&c, "n7", TIDE_MEMBER_UP);
        close_cluster(&c);
    }
}

static void crash_n1(void *arg) {
    struct cluster *c = arg;
    if (!c->ports[0]->crashed) {
        tide_sim_crash(c->sim, "n1");
    }
}

/* One that is up, under that name, at every node. */
static void one_member(struct cluster *c, const char *name) {
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_member members[32];
        uint64_t view;
        size_t got = belongs(c, i) ? tide_net_members(net_of(c, i), members, 32, &view) : 0;
        unsigned up = 0, all = 0;
        for (size_t m = 0; m < got; m++) {
            all += strcmp(members[m].name, name) == 0;
            up += strcmp(members[m].name, name) == 0 && members[m].state == TIDE_MEMBER_UP;
        }
        assert_true(got == 0 || (up == 1 && all == 1));
    }
}

static uint64_t join(uint64_t seed, enum moment moment, unsigned put, uint64_t after) {
    struct cluster c;
    open_cluster(&c, seed);
    go_on(&c, 100 * MS);
    const uint64_t began = tide_sim_now(c.sim);
    if (after != 0) {
        tide_sim_at(c.sim, began + after, crash_n1, &c);
    } else {
        break_at(&c, moment, put);
    }
    if (start_node(&c, LATE, "sim:n4") != 0) {
        fail_msg("seed %llu, moment %d of put %u, after %llu: %s", (unsigned long long)seed, moment, put,
                 (unsigned long long)after, tide_error_message());
    }
    const uint64_t took = tide_sim_now(c.sim) - began;
    await_state(&c, "n7", TIDE_MEMBER_UP);
    one_member(&c, "n7");
    close_cluster(&c);
    return took;
}

/* At both of its decisions, and at any time between: the joiner has no id yet, or one of which only
 * the log tells, or a view. */
static void who_joins_while_the_controller_dies_joins_with_the_next(void **unused) {
    (void)unused;
    const uint64_t took = join(1, NEVER, 0, 0);
    for (unsigned put = 1; put <= 2; put++) {
        for (int moment = BEFORE; moment < NEVER; moment++) {
            (void)join(put, (enum moment)moment, put, 0);
        }
    }
    for (unsigned i = 1; i <= JOINS; i++) {
        (void)join(i, NEVER, 0, i * took / JOINS);
    }
}

static void a_client_finds_the_next_controller(void **unused) {
    (void)unused;
    for (unsigned seed = 1; seed <= 8; seed++) {
        struct cluster c;
        open_cluster(&c, seed);
        struct tide_port *port;
        struct tide_node *client;
        assert_int_equal(tide_sim_port(c.sim, "console", &port), 0);
        struct tide_node_options o = {.cluster = "s", .join = "sim:n4", .client = true, .port = port};
        assert_int_equal(tide_node_create(&o, &client), 0);
        assert_int_equal(tide_net_controller(tide_net_of(client)), 1);
        if (seed % 2 == 0) { /* a connection to another member is there already, or not */
            go_on(&c, 200 * MS);
        }
        tide_sim_crash(c.sim, "n1");
        await_leader_but(&c, 0);
        start_patiently(&c, LATE);
        await_state(&c, "n7", TIDE_MEMBER_UP);
        for (unsigned tries = 0; views_state_of(tide_net_of(client), "n7") != TIDE_MEMBER_UP; tries++) {
            if (tries == 1000) {
                fail_msg("seed %u: the client does not hear of n7", seed);
            }
            go_on(&c, 5 * MS);
        }
        assert_int_equal(tide_net_controller(tide_net_of(client)), tide_net_self(net_of(&c, leader(&c))));
        tide_node_destroy(client, 0);
        port->ops->destroy(port);
        close_cluster(&c);
    }
}

static void a_client_that_finds_nobody_ends(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 9);
    struct tide_port *port;
    struct tide_node *client;
    assert_int_equal(tide_sim_port(c.sim, "console", &port), 0);
    struct tide_node_options o = {.cluster = "s", .join = "sim:n4", .client = true, .port = port};
    assert_int_equal(tide_node_create(&o, &client), 0);
    for (unsigned i = 0; i < LATE; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%u", i + 1);
        tide_sim_crash(c.sim, name);
    }
    go_on(&c, 20 * TIDE_SECOND);
    int code;
    char reason[200];
    assert_int_equal(tide_net_state(tide_net_of(client), &code, reason, sizeof reason), TIDE_MEMBER_DEAD);
    tide_node_destroy(client, 0);
    port->ops->destroy(port);
    close_cluster(&c);
}

static void controllers_may_end_one_after_the_other(void **unused) {
    (void)unused;
    struct cluster c;
    struct work a;
    open_cluster(&c, 6);
    begin(&c, &a, "a");
    for (unsigned i = 0; i < HOLDERS; i++) {
        unsigned old = leader(&c);
        if (old >= HOLDERS) {
            break; /* it holds rows */
        }
        char name[8];
        snprintf(name, sizeof name, "n%u", old + 1);
        tide_sim_crash(c.sim, name);
        await_leader_but(&c, old);
        await_state(&c, name, TIDE_MEMBER_DEAD);
        go_on(&c, 3 * TIDE_SECOND);
        uint16_t ids[8];
        struct tide_control *control = net_of(&c, leader(&c))->control;
        assert_int_equal(control->ops->holders(control, ids, 8), 3);
    }
    finish(&c, &a);
    same_homes(&c, "a");
    close_cluster(&c);
}

int main(int argc, char **argv) {
    if (argc > 1) { /* those whose name it matches */
        cmocka_set_test_filter(argv[1]);
    }
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_is_held_by_the_first_three),
        cmocka_unit_test(a_controller_that_crashes_at_any_decision_is_replaced),
        cmocka_unit_test(a_controller_that_crashes_at_any_time_is_replaced),
        cmocka_unit_test(a_controller_that_is_cut_off_steps_down_and_comes_back),
        cmocka_unit_test(a_controller_that_stands_still_is_replaced_and_obeys),
        cmocka_unit_test(a_view_of_an_older_term_changes_nothing),
        cmocka_unit_test(without_a_majority_decisions_wait),
        cmocka_unit_test(a_controller_that_leaves_hands_over_and_is_replaced_as_holder),
        cmocka_unit_test(controllers_may_end_one_after_the_other),
        cmocka_unit_test(a_controller_that_was_alone_shares_its_log_and_hands_over),
        cmocka_unit_test(controllers_that_all_ended_go_on_from_their_logs),
        cmocka_unit_test(a_minority_of_the_logs_is_refused),
        cmocka_unit_test(who_joins_while_there_is_no_controller_waits_for_one),
        cmocka_unit_test(who_joins_while_the_controller_dies_joins_with_the_next),
        cmocka_unit_test(a_client_finds_the_next_controller),
        cmocka_unit_test(a_client_that_finds_nobody_ends),
    };
    return cmocka_run_group_tests_name("quorum", tests, NULL, NULL);
}
