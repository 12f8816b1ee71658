/* For tests of controllers in the simulator: views that members believe, and work that continues. */
#ifndef CONTROL_WORLD_H
#define CONTROL_WORLD_H

#include "tide.h"
#include "net/net_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* VIEWS_MAX, WORK_KEYS: of the test that includes this. */

struct views {
    struct {
        uint64_t number, hash;
    } seen[VIEWS_MAX];
    size_t count;
};

/* Fails when `net`, of node `id`, believes something else than another under the same number. Who
 * was told that it has left knows no more: it is not asked. */
static inline void views_look(struct views *views, struct tide_net *net, unsigned id) {
    struct tide_member members[32];
    uint64_t number = 0, hash = 0;
    int code;
    char reason[200];
    if (tide_net_state(net, &code, reason, sizeof reason) >= TIDE_MEMBER_LEFT) {
        return;
    }
    size_t count = tide_net_members(net, members, 32, &number);
    for (size_t m = 0; m < count; m++) {
        if (members[m].state <= TIDE_MEMBER_LEAVING) {
            hash = tide_mix64(hash ^ members[m].id ^ (uint64_t)members[m].state << 32);
        }
    }
    size_t at = 0;
    while (at < views->count && views->seen[at].number != number) {
        at++;
    }
    if (at == views->count && number > 0) {
        assert_true(views->count < VIEWS_MAX);
        views->seen[views->count].number = number;
        views->seen[views->count++].hash = hash;
    } else if (number > 0 && views->seen[at].hash != hash) {
        fail_msg("n%u: another view %llu", id, (unsigned long long)number);
    }
}

/* State of the newest member of a name, as `net` knows; DEAD + 1: it knows none. */
static inline unsigned views_state_of(struct tide_net *net, const char *name) {
    struct tide_member members[32];
    uint64_t view;
    size_t count = tide_net_members(net, members, 32, &view);
    unsigned state = TIDE_MEMBER_DEAD + 1;
    for (size_t i = 0; i < count; i++) {
        state = strcmp(members[i].name, name) == 0 ? members[i].state : state;
    }
    return state;
}

/* ---- a worker that pushes until it is told to stop ---- */

struct work {
    struct tide_node *node;
    const char *table;
    uint8_t replicas;
    atomic_bool go, done; /* go: stop after this push */
    unsigned pushes;
    char failure[300];
};

#define TRY(w, e)                                                                                  \
    do {                                                                                           \
        if ((e) < 0) {                                                                             \
            snprintf((w)->failure, sizeof(w)->failure, "%s: %.150s", #e, tide_error_message());    \
            atomic_store(&(w)->done, true);                                                        \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

/* Makes a table, waiting for a controller if there is none, and pushes 1 to every key. */
static inline int work_run(void *arg) {
    struct work *w = arg;
    struct tide_table_options o = {
        .name = w->table, .key_count = WORK_KEYS, .width = 1, .replicas = w->replicas};
    struct tide_table *table;
    uint64_t keys[WORK_KEYS];
    float ones[WORK_KEYS];
    for (unsigned i = 0; i < WORK_KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    TRY(w, tide_table_create(w->node, &o, &table));
    do {
        TRY(w, tide_table_push(table, keys, WORK_KEYS, ones, NULL));
        w->pushes++;
        TRY(w, tide_sleep(2 * MS));
    } while (!atomic_load(&w->go));
    float rows[WORK_KEYS];
    TRY(w, tide_table_pull(table, keys, WORK_KEYS, rows, NULL));
    for (unsigned i = 0; i < WORK_KEYS; i++) {
        if (rows[i] != (float)w->pushes) {
            snprintf(w->failure, sizeof w->failure, "key %u holds %g after %u pushes", i, rows[i],
                     w->pushes);
        }
    }
    atomic_store(&w->done, true);
    return 0;
}

static inline void work_begin(struct work *w, struct tide_node *node, const char *table,
                              uint8_t replicas) {
    *w = (struct work){.node = node, .table = table, .replicas = replicas};
    struct tide_actor_options o = {.type = "work",
                                   .run = work_run,
                                   .state = w,
                                   .role = TIDE_ROLE_COMPUTE,
                                   .stack_bytes = 1 << 20};
    assert_int_equal(tide_spawn(node, &o, NULL), 0);
}

/* After its end, `done` or not. */
static inline void work_judge(const struct work *w) {
    if (!atomic_load(&w->done) || w->failure[0] != 0) {
        fail_msg("table %s: %s after %u pushes", w->table,
                 w->failure[0] != 0 ? w->failure : "not done", w->pushes);
    }
    assert_true(w->pushes > 0);
}

#endif
