/*
 * Worlds for tests of the port: the same behaviour runs on real sockets (Unix and TCP) and in the
 * simulator. A world has two executors, `here` and `there`, which are threads of one real port or
 * two simulated nodes. A test says what each does in its turns and waits for a flag.
 */
#ifndef TIDE_TEST_PORT_WORLD_H
#define TIDE_TEST_PORT_WORLD_H

#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct world_kind {
    const char *name;
    const char *endpoint; /* to listen on; a Unix socket lies in the directory */
    bool real;
};

static const struct world_kind world_kinds[] = {
    {"unix", "unix:", true},
    {"tcp", "tcp:127.0.0.1:0", true},
    {"sim", "sim:there", false},
};

struct world {
    const struct world_kind *kind;
    struct tide_sim *sim;
    struct tide_port *ports[2]; /* here, there; real: twice the same */
    char directory[64];         /* real: of the test alone; simulated: /tmp */
    char endpoint[128];
};

static inline void world_open_seed(struct world *w, const struct world_kind *kind, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->kind = kind;
    if (kind->real) {
        snprintf(w->directory, sizeof w->directory, "/tmp/tide-port-XXXXXX");
        assert_non_null(mkdtemp(w->directory));
        assert_int_equal(tide_port_real_create(seed, &w->ports[0]), 0);
        w->ports[1] = w->ports[0];
    } else {
        snprintf(w->directory, sizeof w->directory, "/tmp");
        assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &w->sim), 0);
        assert_int_equal(tide_sim_port(w->sim, "here", &w->ports[0]), 0);
        assert_int_equal(tide_sim_port(w->sim, "there", &w->ports[1]), 0);
    }
    snprintf(w->endpoint, sizeof w->endpoint, "%s", kind->endpoint);
    if (strncmp(kind->endpoint, "unix:", 5) == 0) {
        snprintf(w->endpoint, sizeof w->endpoint, "unix:%s/socket", w->directory);
    }
}

static inline void world_open(struct world *w, const struct world_kind *kind) {
    world_open_seed(w, kind, 1);
}

static inline void world_close(struct world *w) {
    w->ports[0]->ops->destroy(w->ports[0]);
    if (w->kind->real) {
        assert_int_equal(rmdir(w->directory), 0); /* and so nothing is left in it */
    } else {
        w->ports[1]->ops->destroy(w->ports[1]);
        tide_sim_destroy(w->sim);
    }
}

static inline bool flag_is_set(void *arg) {
    return atomic_load((atomic_bool *)arg);
}

/* Real threads: until the flag is set; 10 s at most. */
static inline void wait_flag(atomic_bool *flag) {
    for (int i = 0; i < 10000 && !atomic_load(flag); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(atomic_load(flag));
}

/* Until the flag is set; 20 s at most. */
static inline bool world_wait(struct world *w, atomic_bool *flag) {
    if (!w->kind->real) {
        return tide_sim_run(w->sim, tide_sim_now(w->sim) + 20 * TIDE_SECOND, flag_is_set, flag);
    }
    for (int i = 0; i < 20000 && !atomic_load(flag); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return atomic_load(flag);
}

static inline void world_sleep(struct world *w, uint64_t ns) {
    if (w->kind->real) {
        nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / TIDE_SECOND),
                                     .tv_nsec = (long)(ns % TIDE_SECOND)},
                  NULL);
    } else {
        tide_sim_run(w->sim, tide_sim_now(w->sim) + ns, NULL, NULL);
    }
}

#endif
