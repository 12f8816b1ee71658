/* Actors that answer and actors that call them, waiting for members, and tests on both ports. */
#ifndef NET_ECHO_H
#define NET_ECHO_H

#include "net_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

struct echo {
    atomic_uint casts;
    atomic_uint_fast64_t bytes;
};

static inline int echo_handle(void *state, const struct tide_message *m) {
    struct echo *echo = state;
    if (m->kind == TIDE_CALL) {
        return tide_answer(m->from, m->call, m->data, m->size);
    }
    if (m->kind == TIDE_CAST) {
        atomic_fetch_add(&echo->bytes, m->size);
        atomic_fetch_add(&echo->casts, 1);
    }
    return 0;
}

static uint8_t echo_opens; /* enum tide_right of clients that it answers; 0: none */

static inline tide_address spawn_echo(struct tide_node *node, struct echo *echo) {
    tide_address address;
    int rc = tide_spawn(node,
                        &(struct tide_actor_options){.name = "echo",
                                                     .type = "echo",
                                                     .handle = echo_handle,
                                                     .state = echo,
                                                     .role = TIDE_ROLE_COMPUTE,
                                                     .opens = echo_opens,
                                                     .bytes_max = 64 << 20},
                        &address);
    assert_int_equal(rc, 0);
    return tide_address_make(tide_net_self(node->net), tide_address_id(address));
}

struct caller {
    tide_address to;
    size_t size;
    uint64_t timeout;
    unsigned calls;
    atomic_int result; /* 1: not yet */
    char text[200];
    uint64_t ended;
    struct tide_node *node;
};

static inline int call_once(struct caller *c, const struct tide_writer *w) {
    struct tide_reply *reply;
    int rc = tide_call(c->to, w->data, w->size, c->timeout, &reply);
    if (rc < 0) {
        snprintf(c->text, sizeof c->text, "%s", tide_error_message());
        return rc;
    }
    size_t size;
    const void *data = tide_reply_data(reply, &size);
    rc = size == w->size && memcmp(data, w->data, size) == 0 ? 0 : TIDE_EMISMATCH;
    tide_reply_free(reply);
    return rc;
}

static inline int caller_run(void *state) {
    struct caller *c = state;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    uint8_t *body = malloc(c->size + 1);
    for (size_t i = 0; i < c->size; i++) {
        body[i] = (uint8_t)(i * 31 >> 3);
    }
    tide_write_typed(&w, TIDE_U8, body, c->size);
    int rc = 0;
    for (unsigned i = 0; i < c->calls && rc == 0; i++) {
        rc = call_once(c, &w);
    }
    tide_writer_release(&w);
    free(body);
    c->ended = tide_node_now(c->node);
    atomic_store(&c->result, rc);
    return 0;
}

static inline void start_caller(struct tide_node *node, struct caller *c) {
    atomic_init(&c->result, 1);
    c->node = node;
    c->timeout = c->timeout != 0 ? c->timeout : 10 * TIDE_SECOND;
    c->calls = c->calls != 0 ? c->calls : 1;
    int rc =
        tide_spawn(node,
                   &(struct tide_actor_options){
                       .type = "caller", .run = caller_run, .state = c, .role = TIDE_ROLE_COMPUTE},
                   NULL);
    assert_int_equal(rc, 0);
}

static inline int await_caller(struct world *w, struct caller *c) {
    uint64_t until = world_now(w) + 20 * TIDE_SECOND;
    while (atomic_load(&c->result) == 1 && world_now(w) < until) {
        world_pause(w, 200000);
    }
    return atomic_load(&c->result);
}

static inline int call(struct world *w, struct tide_node *node, tide_address to, size_t size) {
    struct caller c = {.to = to, .size = size};
    start_caller(node, &c);
    return await_caller(w, &c);
}

static inline bool is_simulated(void **state) {
    return *state != NULL;
}

/* What must come is waited for: a second of virtual time, or as long as a busy machine may take. */
static inline uint64_t soon(const struct world *w) {
    return w->sim != NULL ? TIDE_SECOND : 15 * TIDE_SECOND;
}

/* Waits until `id` has `member_state` in node's view; how long it took, or TIDE_NEVER. */
static inline uint64_t await_member(struct tide_node *node, uint16_t id, int member_state,
                                    uint64_t limit) {
    struct tide_member m;
    uint64_t began = tide_port_now(node->port);
    while (tide_port_now(node->port) - began < limit) {
        if (tide_net_member(node->net, id, &m) && m.state == member_state) {
            return tide_port_now(node->port) - began;
        }
        node->port->ops->pause(node->port, MS);
    }
    return TIDE_NEVER;
}

static inline void quiet(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)arg;
    (void)level;
    if (getenv("TIDE_TEST_LOG") != NULL) {
        fprintf(stderr, "[%s] %s\n", node, text);
    }
}

/* Before cmocka_run_group_tests: TIDE_TEST_LOG shows the log, TIDE_TEST_ONLY is a pattern of tests.
 */
static inline void net_tests_begin(void) {
    tide_log_set(TIDE_LOG_DEBUG, quiet, NULL);
    const char *only = getenv("TIDE_TEST_ONLY");
    if (only != NULL) {
        cmocka_set_test_filter(only);
    }
}

/* Of a test that is given whether it is simulated. */
#define REAL(test)                                                                                 \
    { #test " (real)", test, NULL, NULL, NULL }
#define SIMULATED(test)                                                                            \
    { #test " (simulated)", test, NULL, NULL, (void *)"sim" }
#define BOTH(test) REAL(test), SIMULATED(test)

#endif
