/*
 * The controller ends, at any moment, and is started again: in the simulator, with a crash before,
 * within and after every write of its journal. Views never differ under one number, nothing that
 * was acknowledged is forgotten, no slot has two homes, and what an old controller still says
 * changes nothing.
 */
enum { VIEWS_MAX = 256, WORK_KEYS = 500 };

#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/members/members.h"
#include "control_world.h"
#include "store/replica/replica.h"
#include "store/adaptive/hot_keys.h"
#include "tide/placement.h"
#include "tide/stats.h"

#include <stdlib.h>

enum { NODES = 5 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 4 }; /* fewer lives with copies */
#else
enum { SLOWER = 1 };
#endif

struct tide_net *tide_net_of(struct tide_node *node);

/* ---- a disk that ends its node ---- */

enum moment { BEFORE, TORN, AFTER, NEVER };

static struct {
    struct tide_sim *sim;
    const struct tide_port_ops *plain;
    struct tide_port_ops ops;
    enum moment moment;
    unsigned writes, at; /* the write, counted from 1, that is the last */
    bool crashed;
} disk;

static int crash(void) {
    disk.crashed = true;
    tide_sim_crash(disk.sim, "n1");
    return tide_fail(TIDE_ECLOSED, "the node has crashed");
}

static int breaking_write(struct tide_file *file, const void *data, size_t size, uint64_t offset) {
    if (disk.crashed) {
        return TIDE_ECLOSED;
    }
    bool last = ++disk.writes == disk.at;
    if (last && disk.moment == BEFORE) {
        return crash();
    }
    int code =
        disk.plain->file_write(file, data, last && disk.moment == TORN ? size / 2 : size, offset);
    return code == 0 && last && disk.moment == TORN ? crash() : code;
}

static int breaking_sync(struct tide_file *file) {
    if (disk.crashed || (disk.writes >= disk.at && disk.moment == AFTER)) {
        return disk.crashed ? TIDE_ECLOSED : crash();
    }
    return disk.plain->file_sync(file);
}

/* ---- a cluster: n1 decides and holds nothing, the others hold rows ---- */

struct cluster {
    struct tide_sim *sim;
    struct tide_port *ports[NODES];
    struct tide_node *nodes[NODES];
    struct views views;
    unsigned restarts;
};

static void look_at_views(struct cluster *c) {
    for (unsigned i = 0; i < NODES; i++) {
        if (c->nodes[i] != NULL && !c->ports[i]->crashed) {
            views_look(&c->views, tide_net_of(c->nodes[i]), i + 1);
        }
    }
}

static int start_node(struct cluster *c, unsigned i) {
    char name[8], listen[16];
    snprintf(name, sizeof name, "n%u", i + 1);
    snprintf(listen, sizeof listen, "sim:n%u", i + 1);
    assert_int_equal(tide_sim_port(c->sim, name, &c->ports[i]), 0);
    if (i == 0) {
        disk.plain = c->ports[0]->ops;
        disk.ops = *disk.plain;
        disk.ops.file_write = breaking_write;
        disk.ops.file_sync = breaking_sync;
        disk.crashed = false;
        c->ports[0]->ops = &disk.ops;
    }
    struct tide_node_options o = {.cluster = "s",
                                  .name = name,
                                  .listen = listen,
                                  .join = i > 0 ? "sim:n1" : NULL,
                                  .state = i == 0 ? "state" : NULL,
                                  .no_store = i == 0,
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

static void end_node(struct cluster *c, unsigned i) {
    if (c->nodes[i] != NULL) {
        tide_node_destroy(c->nodes[i], 0);
        c->ports[i]->ops->destroy(c->ports[i]);
        c->nodes[i] = NULL;
        c->ports[i] = NULL;
    }
}

/* Time passes; a controller that crashed is there again 300 ms later. */
static void go_on(struct cluster *c, uint64_t ns) {
    uint64_t until = tide_sim_now(c->sim) + ns;
    while (tide_sim_now(c->sim) < until) {
        tide_sim_run(c->sim, tide_sim_now(c->sim) + MS, NULL, NULL);
        look_at_views(c);
        if (c->nodes[0] != NULL && c->ports[0]->crashed) {
            end_node(c, 0);
            tide_sim_run(c->sim, tide_sim_now(c->sim) + 300 * MS, NULL, NULL);
            c->restarts++;
            disk.moment = NEVER;
            if (start_node(c, 0) != 0) {
                fail_msg("the controller did not start again: %s", tide_error_message());
            }
        }
    }
}

static void open_cluster(struct cluster *c, uint64_t seed, enum moment moment, unsigned at) {
    memset(c, 0, sizeof *c);
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &c->sim), 0);
    memset(&disk, 0, sizeof disk);
    disk.sim = c->sim;
    disk.moment = moment;
    disk.at = at;
}

static void close_cluster(struct cluster *c) {
    for (unsigned i = NODES; i-- > 0;) {
        end_node(c, i);
    }
    tide_sim_destroy(c->sim);
}

/* A crash of the controller may meet its first start, or a join: both are tried again. */
static void start_patiently(struct cluster *c, unsigned i) {
    for (unsigned tries = 0; c->nodes[i] == NULL; tries++) {
        if (start_node(c, i) == 0) {
            break;
        }
        if (tries == 60) {
            fail_msg("n%u: %s", i + 1, tide_error_message());
        }
        if (i == 0) {
            c->restarts++;
            disk.moment = NEVER;
        }
        go_on(c, 100 * MS);
    }
}

static unsigned state_at(struct cluster *c, unsigned node, const char *name) {
    return views_state_of(tide_net_of(c->nodes[node]), name);
}

static void await_state(struct cluster *c, const char *name, unsigned state) {
    for (unsigned i = 0; i < NODES; i++) {
        unsigned tries = 0;
        while (c->nodes[i] != NULL && state_at(c, i, name) != state) {
            if (++tries == 4000) {
                fail_msg("%s is %u at n%u, not %u", name, state_at(c, i, name), i + 1, state);
            }
            go_on(c, 5 * MS);
        }
    }
}

/* ---- what runs on it ---- */

static void begin(struct cluster *c, struct work *w, const char *table, uint8_t replicas) {
    work_begin(w, c->nodes[1], table, replicas);
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
    uint32_t first[8] = {0}, counts[8];
    uint64_t version;
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_table *table;
        if (c->nodes[i] == NULL) {
            continue;
        }
        assert_int_equal(tide_table_find(c->nodes[i], name, &table), 0);
        memset(counts, 0, sizeof counts);
        tide_table_homes(table, counts, 8, &version);
        if (i == 0) {
            memcpy(first, counts, sizeof first);
        }
        assert_memory_equal(first, counts, sizeof counts);
    }
}

/* Joins, a table, a node that leaves under load, another table. Returns how often the journal was
 * written. */
static unsigned life(uint64_t seed, enum moment moment, unsigned at) {
    struct cluster c;
    struct work a, b;
    open_cluster(&c, seed, moment, at);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    begin(&c, &a, "a", 0);
    go_on(&c, 20 * MS);
    tide_net_leave(tide_net_of(c.nodes[3]));
    go_on(&c, 5 * MS);
    begin(&c, &b, "b", 0);
    await_state(&c, "n4", TIDE_MEMBER_LEFT);
    end_node(&c, 3);
    start_patiently(&c, 4);
    await_state(&c, "n5", TIDE_MEMBER_UP);
    finish(&c, &a);
    finish(&c, &b);
    go_on(&c, 100 * MS);
    same_homes(&c, "a");
    same_homes(&c, "b");
    assert_int_equal(c.restarts, moment == NEVER ? 0 : 1);
    /* Writes: header, snapshot, the first term, decisions. A write that was not synced may be lost. */
    bool first_led = moment != NEVER && at > 3, perhaps = at == 3 && moment == AFTER;
    uint64_t term = tide_net_term(tide_net_of(c.nodes[1]));
    assert_true(term == 1u + first_led || (perhaps && term == 2));
    unsigned writes = disk.writes;
    close_cluster(&c);
    return writes;
}

static void a_controller_that_crashes_at_any_write_goes_on(void **unused) {
    (void)unused;
    unsigned writes = life(1, NEVER, 0), lives = 0;
    assert_true(writes > 10);
    for (unsigned at = 1; at <= writes; at++) {
        for (int moment = BEFORE; moment <= AFTER; moment++) {
            life(at, (enum moment)moment, at);
            lives++;
        }
    }
    print_message("%u writes, %u crashes\n", writes, lives);
}

static void crash_now(void *unused) {
    (void)unused;
    if (!disk.crashed) {
        (void)crash();
    }
}

/* Twice at a time that the seed draws, with everything that life does in flight. */
static void a_controller_that_crashes_at_any_time_goes_on(void **unused) {
    (void)unused;
    const char *rounds = getenv("TIDE_TEST_ROUNDS");
    unsigned count = rounds ? (unsigned)atoi(rounds) : 60;
    for (unsigned seed = 1; seed <= count; seed++) {
        struct cluster c;
        struct work a, b;
        struct tide_random random;
        tide_random_seed(&random, seed);
        open_cluster(&c, seed, NEVER, 0);
        for (unsigned i = 0; i < 4; i++) {
            start_patiently(&c, i);
        }
        uint64_t first = tide_sim_now(c.sim) + tide_random_below(&random, 60 * MS);
        tide_sim_at(c.sim, first, crash_now, NULL);
        tide_sim_at(c.sim, first + 300 * MS + tide_random_below(&random, 60 * MS), crash_now, NULL);
        begin(&c, &a, "a", 0);
        go_on(&c, 10 * MS);
        tide_net_leave(tide_net_of(c.nodes[3]));
        go_on(&c, 10 * MS);
        begin(&c, &b, "b", 0);
        await_state(&c, "n4", TIDE_MEMBER_LEFT);
        end_node(&c, 3);
        start_patiently(&c, 4);
        await_state(&c, "n5", TIDE_MEMBER_UP);
        go_on(&c, TIDE_SECOND);
        finish(&c, &a);
        finish(&c, &b);
        same_homes(&c, "a");
        same_homes(&c, "b");
        assert_true(c.restarts >= 1);
        assert_int_equal(tide_net_term(tide_net_of(c.nodes[1])), 1 + c.restarts);
        close_cluster(&c);
    }
}

static void restart_controller(struct cluster *c) {
    (void)crash();
    go_on(c, 500 * MS);
    assert_int_equal(c->restarts, 1);
}

/* Members that look for the controller reach the one that was started in its place, and it them, at
 * the same moment: what is meant for the former one must not end a session with the new one. */
static void nobody_dies_of_a_restart_of_the_controller(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct cluster c;
        open_cluster(&c, seed, NEVER, 0);
        tide_sim_set_latency(c.sim, MS, 200 * MS);
        for (unsigned i = 0; i < 4; i++) {
            start_patiently(&c, i);
        }
        await_state(&c, "n4", TIDE_MEMBER_UP);
        restart_controller(&c);
        go_on(&c, TIDE_SECOND);
        for (unsigned i = 1; i < 4; i++) {
            char name[8];
            snprintf(name, sizeof name, "n%u", i + 1);
            if (state_at(&c, 0, name) != TIDE_MEMBER_UP) {
                fail_msg("seed %llu: %s is %u", (unsigned long long)seed, name,
                         state_at(&c, 0, name));
            }
        }
        close_cluster(&c);
    }
}

enum { EVERYWHERE = 100, MANAGED = 150, RATE = 7 };

/* Keys below EVERYWHERE have copies on all nodes, those below MANAGED at this one. */
static int manage_run(void *arg) {
    struct work *w = arg;
    struct tide_table_options o = {
        .name = w->table, .key_count = WORK_KEYS, .width = 1, .technique = TIDE_RELOCATE};
    struct tide_table *table;
    const uint16_t here = tide_node_id(w->node);
    const struct tide_share_options all = {.rate = RATE},
                                    named = {.rate = RATE, .nodes = &here, .node_count = 1};
    uint64_t keys[MANAGED];
    for (unsigned i = 0; i < MANAGED; i++) {
        keys[i] = i;
    }
    TRY(w, tide_table_create(w->node, &o, &table));
    TRY(w, tide_table_manage(table, keys, EVERYWHERE, TIDE_REPLICATE, &all));
    TRY(w, tide_table_manage(table, keys + EVERYWHERE, MANAGED - EVERYWHERE, TIDE_REPLICATE,
                             &named));
    atomic_store(&w->done, true);
    return 0;
}

/* What the node knows is what was ordered, and it has the copies that it is to have. */
static bool knows_techniques(struct tide_node *node, const char *name) {
    struct tide_table *table;
    unsigned known = 0, copies = 0;
    if (tide_table_find(node, name, &table)) {
        return false;
    }
    for (uint64_t key = 0; key < WORK_KEYS; key++) {
        bool copy;
        const bool replicate = tide_table_technique(table, key, &copy) == TIDE_REPLICATE;
        assert_false(replicate && key >= MANAGED);
        assert_false(copy && key >= EVERYWHERE);
        known += replicate;
        copies += copy;
    }
    return known == MANAGED && copies == EVERYWHERE && tide__hot_of(table)->share.hz == RATE;
}

/* The joiner may be there before the controller has heard of the techniques itself. */
static void who_joins_after_a_restart_of_the_controller_learns_techniques(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster c;
        struct work w = {.table = "m"};
        open_cluster(&c, seed, NEVER, 0);
        for (unsigned i = 0; i < 4; i++) {
            start_patiently(&c, i);
        }
        w.node = c.nodes[1];
        struct tide_actor_options o = {.type = "manage",
                                       .run = manage_run,
                                       .state = &w,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .stack_bytes = 1 << 20};
        assert_int_equal(tide_spawn(w.node, &o, NULL), 0);
        for (unsigned i = 0; i < 4000 && !atomic_load(&w.done); i++) {
            go_on(&c, 5 * MS);
        }
        if (!atomic_load(&w.done) || w.failure[0] != 0) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, w.failure);
        }
        tide_sim_set_latency(c.sim, MS, 60 * MS);
        (void)crash();
        go_on(&c, 2 * MS);
        assert_int_equal(c.restarts, 1);
        start_patiently(&c, 4);
        await_state(&c, "n5", TIDE_MEMBER_UP);
        for (unsigned tries = 0; !knows_techniques(c.nodes[4], "m"); tries++) {
            if (tries == 2000) {
                fail_msg("seed %llu: n5 does not know the techniques", (unsigned long long)seed);
            }
            go_on(&c, 5 * MS);
        }
        close_cluster(&c);
    }
}

/* The one that dials, the higher id, has given the session up; the lowest, which dials nobody, asks.
 */
static void who_was_declared_dead_hears_it_from_a_restarted_controller(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 5, NEVER, 0);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    restart_controller(&c);
    tide__session_end(tide__peer(tide_net_of(c.nodes[0]), 2)->session, "given up");
    int code;
    char reason[200];
    unsigned tries = 0;
    while (tide_net_state(tide_net_of(c.nodes[1]), &code, reason, sizeof reason) !=
           TIDE_MEMBER_DEAD) {
        assert_true(++tries < 600);
        go_on(&c, 5 * MS);
    }
    assert_non_null(strstr(reason, "declared dead"));
    close_cluster(&c);
}

/* A view of an older term, as a controller that was replaced and knows nothing of it would send it.
 */
static void a_view_of_an_older_term_changes_nothing(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 3, NEVER, 0);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    restart_controller(&c);
    struct tide_net *from = tide_net_of(c.nodes[0]), *to = tide_net_of(c.nodes[1]);
    uint64_t before = to->view;
    assert_int_equal(to->term, 2);
    struct known *victim = tide__members_find(from, tide_net_self(tide_net_of(c.nodes[2])));
    for (uint64_t term = 1; term <= 2; term++) { /* and of the right one: the same view is obeyed */
        struct tide_member kept = victim->member;
        struct tide_writer w;
        from->term = term;
        from->view = before + 1;
        victim->member.state = TIDE_MEMBER_DEAD;
        tide_writer_init(&w, NULL, 0);
        tide__members_write_view(from, &w);
        tide__members_cast(from, tide__peer(from, tide_net_self(to))->link, &w);
        tide_writer_release(&w);
        victim->member = kept;
        tide_sim_run(c.sim, tide_sim_now(c.sim) + 20 * MS, NULL, NULL);
        assert_true(term == 1 ? to->view == before : to->view > before);
        assert_int_equal(state_at(&c, 1, "n3"), term == 1 ? TIDE_MEMBER_UP : TIDE_MEMBER_DEAD);
    }
    close_cluster(&c);
}

static void cut(struct cluster *c, bool off) {
    static const char *const others[] = {"n2", "n3", "n4"};
    for (unsigned i = 0; i < 3; i++) {
        tide_sim_partition(c->sim, "n1", others[i], off);
    }
}

/* It is the controller that nobody hears, not the others that are dead: both continue when it is back.
 */
static void a_controller_that_is_cut_off_declares_nobody_dead(void **unused) {
    (void)unused;
    struct cluster c;
    struct work a, b;
    open_cluster(&c, 4, NEVER, 0);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    begin(&c, &a, "a", 0);
    go_on(&c, 50 * MS);
    uint64_t view = tide_net_of(c.nodes[1])->view;
    cut(&c, true);
    go_on(&c, 8 * TIDE_SECOND);
    assert_true(tide_net_of(c.nodes[1])->away);
    unsigned pushes = a.pushes;
    begin(&c, &b, "b", 0); /* waits */
    go_on(&c, TIDE_SECOND);
    assert_true(a.pushes > pushes && b.pushes == 0);
    cut(&c, false);
    go_on(&c, 2 * TIDE_SECOND);
    finish(&c, &a);
    finish(&c, &b);
    assert_false(tide_net_of(c.nodes[1])->away);
    assert_int_equal(tide_net_of(c.nodes[1])->view, view);
    assert_int_equal(tide_net_of(c.nodes[1])->term, 1);
    close_cluster(&c);
}

/* Each of the two reports the other; nobody else agrees, and the break ends before one of them has
 * to go. */
static void the_word_of_one_member_about_another_is_not_enough(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 6, NEVER, 0);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    uint64_t view = tide_net_of(c.nodes[1])->view;
    tide_sim_partition(c.sim, "n2", "n3", true);
    go_on(&c, 3 * TIDE_SECOND);
    assert_non_null(tide_net_of(c.nodes[0])->reports);
    tide_sim_partition(c.sim, "n2", "n3", false);
    go_on(&c, 5 * TIDE_SECOND);
    assert_null(tide_net_of(c.nodes[0])->reports);
    assert_int_equal(tide_net_of(c.nodes[1])->view, view);
    close_cluster(&c);
}

/* What died while nobody decided is declared dead by the next controller, and the living are not.
 */
static void a_new_controller_finds_out_who_died_meanwhile(void **unused) {
    (void)unused;
    struct cluster c;
    open_cluster(&c, 5, NEVER, 0);
    for (unsigned i = 0; i < 4; i++) {
        start_patiently(&c, i);
    }
    tide_sim_crash(c.sim, "n4");
    restart_controller(&c);
    end_node(&c, 3);
    await_state(&c, "n4", TIDE_MEMBER_DEAD);
    assert_int_equal(state_at(&c, 1, "n3"), TIDE_MEMBER_UP);
    start_patiently(&c, 3); /* under its name, as another node */
    await_state(&c, "n4", TIDE_MEMBER_UP);
    close_cluster(&c);
}

/* ---- copies ---- */

/* Homes and chains are the same everywhere, nobody dead is in one, no copy is missing. */
static void same_groups(struct cluster *c, const char *name, uint16_t dead) {
    struct tide_table *tables[NODES] = {NULL};
    struct tide_table_health health;
    for (unsigned i = 0; i < NODES; i++) {
        if (c->nodes[i] != NULL) {
            assert_int_equal(tide_table_find(c->nodes[i], name, &tables[i]), 0);
        }
    }
    tide_table_health(tables[0], &health);
    assert_int_equal(health.lost_count + health.under_replicated, 0);
    for (uint32_t s = 0; s < TIDE_SLOT_COUNT; s++) {
        const uint32_t home = tide__route_home(atomic_load(&tables[0]->slots[s].route));
        const uint64_t chain = atomic_load(&tide__replicas_of(tables[0])->chain[s]);
        assert_true(home != dead && !tide__chain_has(chain, dead));
        for (unsigned i = 1; i < NODES; i++) {
            if (tables[i] != NULL) {
                const uint16_t id = tide_net_self(tide_net_of(c->nodes[i]));
                assert_int_equal(tide__route_home(atomic_load(&tables[i]->slots[s].route)), home);
                assert_true(atomic_load(&tide__replicas_of(tables[i])->chain[s]) == chain);
                assert_int_equal(tide__replicas_of(tables[i])->slots[s].held,
                                 home == id || tide__chain_has(chain, id));
            }
        }
    }
}

/* A home dies, its copies take over and are rebuilt, and a member leaves; the controller crashes at
 * a write, or (NEVER) at a time. */
static unsigned life_with_copies(uint64_t seed, enum moment moment, unsigned at) {
    struct cluster c;
    struct work a;
    struct tide_random random;
    tide_random_seed(&random, seed);
    open_cluster(&c, seed, moment, at);
    for (unsigned i = 0; i < NODES; i++) {
        start_patiently(&c, i);
    }
    begin(&c, &a, "a", (uint8_t)(1 + seed % 2));
    go_on(&c, 20 * MS);
    uint64_t last = 0;
    if (moment == NEVER && at) {
        last = tide_sim_now(c.sim) + tide_random_below(&random, 2 * TIDE_SECOND);
        tide_sim_at(c.sim, last, crash_now, NULL);
    }
    const uint16_t dead = tide_net_self(tide_net_of(c.nodes[2]));
    tide_sim_crash(c.sim, "n3");
    go_on(&c, tide_random_below(&random, TIDE_SECOND));
    end_node(&c, 2);
    if (seed % 4 == 0) {
        tide_net_leave(tide_net_of(c.nodes[4]));
        await_state(&c, "n5", TIDE_MEMBER_LEFT);
        end_node(&c, 4);
    }
    await_state(&c, "n3", TIDE_MEMBER_DEAD);
    finish(&c, &a);
    while (tide_sim_now(c.sim) < last + TIDE_SECOND) {
        go_on(&c, 10 * MS);
    }
    struct tide_table *table;
    assert_int_equal(tide_table_find(c.nodes[1], "a", &table), 0);
    struct tide_table_health health = {.under_replicated = 1};
    for (unsigned i = 0; i < 2000 && health.under_replicated; i++) {
        go_on(&c, 5 * MS);
        tide_table_health(table, &health);
    }
    go_on(&c, TIDE_SECOND);
    same_groups(&c, "a", dead);
    unsigned writes = disk.writes;
    close_cluster(&c);
    return writes;
}

static void groups_survive_a_controller_that_crashes_at_any_write(void **unused) {
    (void)unused;
    unsigned writes = life_with_copies(1, NEVER, 0), lives = 0;
    assert_true(writes > 10);
    for (unsigned at = 3; at <= writes; at += SLOWER) {
        life_with_copies(at, (enum moment)(at % NEVER), at);
        lives++;
    }
    print_message("%u writes, %u crashes\n", writes, lives);
}

static void groups_survive_a_controller_that_crashes_at_any_time(void **unused) {
    (void)unused;
    const char *rounds = getenv("TIDE_TEST_ROUNDS");
    unsigned count = rounds ? (unsigned)atoi(rounds) : 12 / SLOWER;
    for (unsigned seed = 1; seed <= count; seed++) {
        life_with_copies(seed, NEVER, 1);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) { /* those whose name it matches */
        cmocka_set_test_filter(argv[1]);
    }
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_controller_that_crashes_at_any_write_goes_on),
        cmocka_unit_test(nobody_dies_of_a_restart_of_the_controller),
        cmocka_unit_test(
            who_was_declared_dead_hears_it_from_a_restarted_controller),
        cmocka_unit_test(a_controller_that_crashes_at_any_time_goes_on),
        cmocka_unit_test(groups_survive_a_controller_that_crashes_at_any_write),
        cmocka_unit_test(groups_survive_a_controller_that_crashes_at_any_time),
        cmocka_unit_test(who_joins_after_a_restart_of_the_controller_learns_techniques),
        cmocka_unit_test(a_view_of_an_older_term_changes_nothing),
        cmocka_unit_test(a_controller_that_is_cut_off_declares_nobody_dead),
        cmocka_unit_test(the_word_of_one_member_about_another_is_not_enough),
        cmocka_unit_test(a_new_controller_finds_out_who_died_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
