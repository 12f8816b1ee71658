/* Clusters of nodes in one process, on real sockets or in the simulator, for tests of tables. */
#ifndef TIDE_TESTS_STORE_WORLD_H
#define TIDE_TESTS_STORE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/core/table.h"

#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct tide_net *tide_net_of(struct tide_node *node);

/* Not every test needs every one. */
#define HELPER __attribute__((unused)) static

/* ---- a cluster in one process ---- */

enum { NODES_MAX = 5 };
HELPER const char *program;

struct cluster {
    struct tide_sim *sim;
    struct tide_port *ports[NODES_MAX];
    struct tide_node *nodes[NODES_MAX];
    char directory[64];
    unsigned count;
    atomic_int running; /* fibers */
};

HELPER void pause_cluster(struct cluster *c, uint64_t ns) {
    c->ports[0]->ops->pause(c->ports[0], ns);
}

static inline struct tide_node *add_node_with(struct cluster *c, struct tide_node_options options) {
    char name[16], listen[128];
    unsigned i = c->count++;
    snprintf(name, sizeof name, "n%u", i + 1);
    if (c->sim) {
        assert_int_equal(tide_sim_port(c->sim, name, &c->ports[i]), 0);
        snprintf(listen, sizeof listen, "sim:%s", name);
    } else {
        assert_int_equal(tide_port_real_create(i + 1, &c->ports[i]), 0);
        snprintf(listen, sizeof listen, "unix:%s/%s", c->directory, name);
    }
    options.name = name;
    options.listen = listen;
    options.join = i ? tide_node_endpoint(c->nodes[0]) : NULL;
    options.port = c->ports[i];
    options.workers = options.no_store ? 1 : 2;
    if (tide_node_create(&options, &c->nodes[i])) {
        fail_msg("node %s: %s", name, tide_error_message());
    }
    return c->nodes[i];
}

HELPER struct tide_node *add_node(struct cluster *c) {
    return add_node_with(c, (struct tide_node_options){0});
}

static void wait_members(struct cluster *c, unsigned count);

HELPER void open_cluster(struct cluster *c, bool simulated, unsigned nodes, uint64_t seed) {
#ifdef __SANITIZE_THREAD__
    if (simulated) {
        skip(); /* one thread: nothing can race, and all of it is slow */
    }
#endif
    memset(c, 0, sizeof *c);
    strcpy(c->directory, "/tmp/tide-store-XXXXXX");
    assert_non_null(mkdtemp(c->directory));
    if (simulated) {
        assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &c->sim), 0);
    }
    for (unsigned i = 0; i < nodes; i++) {
        add_node(c);
    }
    wait_members(c, nodes);
}

static inline void close_node(struct cluster *c, unsigned i) {
    if (c->nodes[i]) {
        tide_node_destroy(c->nodes[i], TIDE_SECOND);
        c->nodes[i] = NULL;
    }
}

HELPER void close_cluster(struct cluster *c) {
    for (unsigned i = c->count; i-- > 0;) {
        close_node(c, i);
    }
    for (unsigned i = 0; i < c->count; i++) {
        c->ports[i]->ops->destroy(c->ports[i]);
    }
    if (c->sim) {
        tide_sim_destroy(c->sim);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", c->directory);
    assert_int_equal(system(command), 0);
}

/* Everybody sees `count` members that are up and has the tables. */
static inline void wait_members(struct cluster *c, unsigned count) {
    for (int tries = 0; tries < 20000; tries++) {
        bool all = true;
        for (unsigned i = 0; i < c->count && all; i++) {
            struct tide_member members[16];
            uint64_t view;
            unsigned up = 0;
            if (!c->nodes[i]) {
                continue;
            }
            size_t got = tide_net_members(tide_net_of(c->nodes[i]), members, 16, &view);
            for (size_t m = 0; m < got; m++) {
                up += members[m].state == TIDE_MEMBER_UP;
            }
            all = up == count && tide_store_synced(tide_store_of(c->nodes[i]));
        }
        if (all) {
            return;
        }
        pause_cluster(c, 1000000);
    }
    fail_msg("not %u members", count);
}

/* ---- fibers ---- */

struct fiber {
    struct cluster *cluster;
    struct tide_node *node;
    void (*run)(struct fiber *fiber);
    struct tide_random random;
    unsigned index;
    void *arg;
    char failure[300];
};

static int fiber_main(void *state) {
    struct fiber *f = state;
    f->run(f);
    atomic_fetch_sub(&f->cluster->running, 1);
    return 0;
}

HELPER void start(struct cluster *c, struct fiber *f, unsigned node, unsigned index,
                  void (*run)(struct fiber *), void *arg) {
    *f = (struct fiber){
        .cluster = c, .node = c->nodes[node], .run = run, .index = index, .arg = arg};
    tide_random_seed(&f->random, 100 + index);
    atomic_fetch_add(&c->running, 1);
    struct tide_actor_options options = {.type = "worker",
                                         .run = fiber_main,
                                         .state = f,
                                         .role = TIDE_ROLE_COMPUTE,
                                         .thread = (uint8_t)index,
                                         .stack_bytes = 1 << 20};
    assert_int_equal(tide_spawn(c->nodes[node], &options, NULL), 0);
}

HELPER void finish(struct cluster *c, struct fiber *fibers, size_t count) {
    for (int i = 0; i < 60000 && atomic_load(&c->running) > 0; i++) {
        pause_cluster(c, 1000000);
    }
    if (atomic_load(&c->running) > 0) {
        for (unsigned n = 0; n < c->count; n++) {
            struct tide_actor_info info[32];
            size_t got = c->nodes[n] ? tide_actors(c->nodes[n], info, 32) : 0;
            for (size_t i = 0; i < got && i < 32; i++) {
                print_error("n%u %s waits for '%s', mailbox %u\n", n + 1, info[i].type,
                            info[i].waits_for, info[i].mailbox_messages);
            }
        }
        fail_msg("fibers do not end");
    }
    for (size_t i = 0; i < count; i++) {
        if (fibers[i].failure[0]) {
            fail_msg("fiber %zu: %s", i, fibers[i].failure);
        }
    }
}

#define CHECK(f, condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            snprintf((f)->failure, sizeof(f)->failure, "line %d: %s (%s)", __LINE__, #condition,   \
                     tide_error_message());                                                        \
            return;                                                                                \
        }                                                                                          \
    } while (0)

HELPER void run_alone(struct cluster *c, unsigned node, void (*run)(struct fiber *), void *arg) {
    struct fiber f;
    start(c, &f, node, 0, run, arg);
    finish(c, &f, 1);
}

/* The sum over the values of all rows, into the double that is the fiber's argument. */
HELPER void sum_rows(struct fiber *f, const char *name, uint64_t count, uint32_t width) {
    struct tide_table *table;
    double *sum = f->arg;
    float *rows = malloc(count * width * sizeof *rows);
    uint64_t *keys = malloc(count * sizeof *keys);
    for (uint64_t i = 0; i < count; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_find(f->node, name, &table) == 0);
    CHECK(f, tide_table_pull(table, keys, count, rows, NULL) == 0);
    *sum = 0;
    for (uint64_t i = 0; i < count * width; i++) {
        *sum += (double)rows[i];
    }
    free(rows);
    free(keys);
}

struct creation {
    struct tide_table_options options;
    struct tide_table *table;
};

static inline void create_run(struct fiber *f) {
    struct creation *creation = f->arg;
    CHECK(f, tide_table_create(f->node, &creation->options, &creation->table) == 0);
}

HELPER void create(struct cluster *c, struct tide_table_options options) {
    struct creation creation = {.options = options};
    run_alone(c, 0, create_run, &creation);
}

HELPER struct tide_table *table_of(struct cluster *c, unsigned node, const char *name) {
    struct tide_table *table;
    assert_int_equal(tide_table_find(c->nodes[node], name, &table), 0);
    return table;
}

HELPER void shuffle(struct tide_random *random, uint64_t *keys, size_t count) {
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)tide_random_below(random, i + 1);
        uint64_t key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
}

/* What is unlikely at `site`, TIDE_BUGGIFY(site), happens from now on with that probability, and by
 * the seed at other places. */
static inline void unlikely_begins(const char *site, uint64_t seed, double probability) {
    do {
        seed += 100;
        tide__buggify_set(seed, 1);
    } while (!tide__buggify_hit(site));
    tide__buggify_set(seed, probability);
}

static inline void unlikely_ends(void) {
    tide__buggify_set(0, 0);
}

#endif
