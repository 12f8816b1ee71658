/* The row service and the client library together: rows by client, rights, bad input, threads, forks, deaths. */
#include "store_world.h"

#include "store/client/rows.h"
#include "tide/client.h"
#include "tide/placement.h"
#include "tide/stats.h"
#include "wire/rows.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

enum { KEYS = 500, WIDTH = 4, MANY = 20000, WIDE = 64 };

static struct tide_client *connect_client(struct cluster *c, unsigned right) {
    struct tide_client *client;
    char endpoints[300];
    snprintf(endpoints, sizeof endpoints, "%s,%s", tide_node_endpoint(c->nodes[c->count - 1]),
             tide_node_endpoint(c->nodes[0]));
    const struct tide_client_options options = {
        .size = sizeof options, .endpoints = endpoints, .right = right, .timeout = 10 * TIDE_SECOND};
    if (tide_client_open(&options, &client) != 0) {
        fail_msg("%s", tide_client_error());
    }
    return client;
}

static struct tide_client_table *open_table(struct tide_client *client, const char *name) {
    struct tide_client_table *table;
    if (tide_client_table(client, name, 0, &table) != 0) {
        fail_msg("%s", tide_client_error());
    }
    return table;
}

static void create_tables(struct cluster *c) {
    create(c, (struct tide_table_options){.name = "sums", .key_count = KEYS, .width = WIDTH, .update = TIDE_UPDATE_ADD});
    create(c, (struct tide_table_options){.name = "wide", .key_count = MANY, .width = WIDE, .update = TIDE_UPDATE_ADD});
    create(c, (struct tide_table_options){
                  .name = "moving", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
    create(c, (struct tide_table_options){
                  .name = "hashed", .keys = TIDE_KEYS_HASHED, .width = WIDTH, .update = TIDE_UPDATE_ADD, .refuse_nan = true});
}

static void clients_push_and_pull_rows_of_all_nodes(void **state) {
    (void)state;
    static const char *const names[] = {"sums", "moving", "hashed"};
    struct cluster c;
    uint64_t keys[KEYS];
    float ones[KEYS * WIDTH], rows[KEYS * WIDTH];
    open_cluster(&c, false, 3, 1);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = (i * 7) % KEYS;
    }
    for (size_t i = 0; i < KEYS * WIDTH; i++) {
        ones[i] = (float)(i / WIDTH);
    }
    for (size_t n = 0; n < TIDE_COUNT(names); n++) {
        struct tide_client_table *table = open_table(client, names[n]);
        assert_int_equal(tide_client_width(table), WIDTH);
        for (int round = 1; round <= 3; round++) {
            assert_int_equal(tide_client_push(table, keys, KEYS, ones, 0, NULL), 0);
            if (round == 2) {
                assert_int_equal(tide_client_localize(table, keys, KEYS, 0, NULL), 0);
            }
            assert_int_equal(tide_client_pull(table, keys, KEYS, rows, 0, NULL), 0);
            for (size_t i = 0; i < KEYS * WIDTH; i++) {
                assert_true(rows[i] == ones[i] * (float)round);
            }
        }
        assert_int_equal(tide_client_pull(table, keys, 0, rows, 0, NULL), 0);
        assert_int_equal(tide_client_push(table, keys, 0, ones, 0, NULL), 0);
    }
    tide_client_close(client);
    close_cluster(&c);
}

/* More than a part, in one operation. */
static void large_operations_are_cut_into_parts(void **state) {
    (void)state;
    struct cluster c;
    uint64_t *keys = malloc(MANY * sizeof *keys);
    float *rows = malloc(MANY * WIDE * sizeof *rows), *back = calloc(MANY * WIDE, sizeof *back);
    open_cluster(&c, false, 2, 2);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    struct tide_client_table *table = open_table(client, "wide");
    for (size_t i = 0; i < MANY; i++) {
        keys[i] = MANY - 1 - i;
    }
    for (size_t i = 0; i < MANY * WIDE; i++) {
        rows[i] = (float)i;
    }
    assert_int_equal(tide_client_push(table, keys, MANY, rows, 0, NULL), 0);
    assert_int_equal(tide_client_pull(table, keys, MANY, back, 0, NULL), 0);
    assert_memory_equal(rows, back, MANY * WIDE * sizeof *rows);
    tide_client_close(client);
    close_cluster(&c);
    free(keys);
    free(rows);
    free(back);
}

static void rights_are_checked_at_the_node(void **state) {
    (void)state;
    struct cluster c;
    struct tide_client_table *table;
    struct tide_client_op *op;
    const uint64_t key = 3;
    float row[WIDTH] = {1, 1, 1, 1};
    open_cluster(&c, false, 1, 3);
    create_tables(&c);
    struct tide_client *reader = connect_client(&c, 0);
    table = open_table(reader, "sums");
    assert_int_equal(tide_client_pull(table, &key, 1, row, 0, NULL), 0);
    assert_int_equal(tide_client_push(table, &key, 1, row, 0, NULL), TIDE_EPERM);
    assert_int_equal(tide_client_localize(table, &key, 1, 0, NULL), TIDE_EPERM);
    /* what a client of another make would send */
    uint64_t rows_actor;
    uint8_t body[64];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 7);
    tide_write_uint(&w, TIDE__ROWS_PUSH);
    tide_write_uint(&w, 1);
    tide_write_typed(&w, TIDE_U64, &key, 1);
    tide_write_typed(&w, TIDE_F32, row, WIDTH);
    tide_write_uint(&w, 0);
    tide_write_uint(&w, 0);
    tide_write_uint(&w, 0);
    assert_int_equal(tide_client_find(reader, "rows", 0, &rows_actor), 0);
    assert_int_equal(tide_client_call(reader, rows_actor, w.data, w.size, 0, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), TIDE_EPERM);
    tide_client_free(op);
    tide_client_close(reader);
    close_cluster(&c);
}

static void bad_input_is_an_error_of_the_call(void **state) {
    (void)state;
    struct cluster c;
    struct tide_client_table *table;
    struct tide_client *none;
    float rows[WIDTH] = {NAN, 0, 0, 0};
    const uint64_t beyond = KEYS, key = 1;
    open_cluster(&c, false, 1, 4);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    assert_int_equal(tide_client_table(client, "absent", 0, &table), TIDE_ENOENT);
    assert_int_equal(tide_client_table(client, "No Name", 0, &table), TIDE_EINVAL);
    table = open_table(client, "sums");
    assert_int_equal(tide_client_pull(table, &beyond, 1, rows, 0, NULL), TIDE_ERANGE);
    assert_non_null(strstr(tide_client_error(), "key 500 is outside table 'sums' (0..499)"));
    assert_int_equal(tide_client_pull(table, NULL, 1, rows, 0, NULL), TIDE_EINVAL);
    assert_int_equal(tide_client_pull(table, &key, 1, NULL, 0, NULL), TIDE_EINVAL);
    assert_int_equal(tide_client_pull(table, &key, SIZE_MAX / 2, rows, 0, NULL), TIDE_ELIMIT);
    assert_int_equal(tide_client_push(open_table(client, "hashed"), &key, 1, rows, 0, NULL), TIDE_ENAN);
    struct tide_client_options o = {.size = sizeof o, .endpoints = "unix:/nonexistent/socket"};
    assert_int_equal(tide_client_open(&o, &none), TIDE_EUNREACHABLE);
    o.endpoints = "tcp:300.1.1.1:1";
    assert_int_equal(tide_client_open(&o, &none), TIDE_EINVAL);
    o.endpoints = tide_node_endpoint(c.nodes[0]);
    o.cluster = "other";
    assert_int_equal(tide_client_open(&o, &none), TIDE_EMISMATCH);
    o.size = 8;
    assert_int_equal(tide_client_open(&o, &none), TIDE_EINVAL);
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- threads ---- */

struct puller {
    struct tide_client_table *table;
    pthread_t thread;
    uint64_t first;
    int failures;
};

static void *pull_and_push(void *arg) {
    struct puller *p = arg;
    uint64_t keys[10];
    float ones[10 * WIDTH], rows[10 * WIDTH];
    for (size_t i = 0; i < 10; i++) {
        keys[i] = p->first + i;
    }
    for (size_t i = 0; i < 10 * WIDTH; i++) {
        ones[i] = 1;
    }
    for (int i = 1; i <= 200; i++) {
        p->failures += tide_client_push(p->table, keys, 10, ones, 0, NULL) != 0;
        p->failures += tide_client_pull(p->table, keys, 10, rows, 0, NULL) != 0;
        p->failures += rows[0] != (float)i || rows[10 * WIDTH - 1] != (float)i;
    }
    return NULL;
}

static void any_thread_may_call(void **state) {
    (void)state;
    struct cluster c;
    struct puller pullers[8];
    open_cluster(&c, false, 2, 5);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    for (size_t i = 0; i < TIDE_COUNT(pullers); i++) {
        pullers[i] = (struct puller){.table = open_table(client, "sums"), .first = i * 10};
        assert_int_equal(pthread_create(&pullers[i].thread, NULL, pull_and_push, &pullers[i]), 0);
    }
    for (size_t i = 0; i < TIDE_COUNT(pullers); i++) {
        pthread_join(pullers[i].thread, NULL);
        assert_int_equal(pullers[i].failures, 0);
    }
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- outstanding operations ---- */

static void operations_run_side_by_side_and_are_bounded(void **state) {
    (void)state;
    struct cluster c;
    enum { PLACES = 64 };
    struct tide_client_op *ops[PLACES], *more, *done[PLACES];
    static uint64_t keys[PLACES][100];
    static float rows[PLACES][100 * WIDE];
    open_cluster(&c, false, 2, 6);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, 0);
    struct tide_client_table *table = open_table(client, "wide");
    int refused = 0;
    for (size_t i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < 100; k++) {
            keys[i][k] = i * 100 + k;
        }
        assert_int_equal(tide_client_pull(table, keys[i], 100, rows[i], 0, &ops[i]), 0);
    }
    refused = tide_client_pull(table, keys[0], 1, rows[0], 0, &more);
    assert_int_equal(refused, TIDE_EBUSY);
    assert_true(tide_client_retry_after_ms() > 0);
    struct pollfd p = {.fd = tide_client_fd(client), .events = POLLIN};
    size_t count = 0;
    while (count < PLACES) {
        assert_true(poll(&p, 1, 5000) > 0);
        count += tide_client_done(client, done + count, PLACES - count);
    }
    for (size_t i = 0; i < PLACES; i++) {
        assert_int_equal(tide_client_wait(ops[i], 0), 0);
        tide_client_free(ops[i]);
    }
    struct tide_client_info info = {.size = sizeof info};
    assert_int_equal(tide_client_info(client, &info), 0);
    assert_int_equal(info.outstanding, 0);
    assert_int_equal(info.bytes, 0);
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- deadlines: a node that stalls ---- */

struct silent {
    atomic_int calls, casts;
};

static int count_and_keep_silent(void *state, const struct tide_message *m) {
    struct silent *silent = state;
    atomic_fetch_add(&silent->calls, m->kind == TIDE_CALL);
    atomic_fetch_add(&silent->casts, m->kind == TIDE_CAST);
    return 0;
}

struct waiter {
    struct tide_client_op *op;
    int code;
    atomic_bool over;
};

static void *wait_for_answer(void *arg) {
    struct waiter *w = arg;
    w->code = tide_client_wait(w->op, 0);
    atomic_store(&w->over, true);
    return NULL;
}

/* A wait that is interrupted leaves its operation running. */
static void interrupt_a_wait(struct tide_client *client, struct tide_client_op *op) {
    struct waiter w = {.op = op};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_answer, &w), 0);
    while (!atomic_load(&w.over)) {
        tide_client_interrupt(client);
        usleep(1000);
    }
    pthread_join(thread, NULL);
    assert_int_equal(w.code, TIDE_ECANCELED);
    assert_false(tide_client_is_done(op));
}

static int echo(void *state, const struct tide_message *m) {
    (void)state;
    return m->kind == TIDE_CALL ? tide_answer(m->from, m->call, m->data, m->size) : 0;
}

static void calls_reach_actors_that_open_to_them(void **state) {
    (void)state;
    struct cluster c;
    static struct silent silent;
    struct tide_client_op *op;
    uint64_t actor;
    size_t size;
    static uint8_t large[300 << 10] = {0xc6, 0, 4, 0xaf, 0xfb}; /* bin: answers come in fragments */
    const uint8_t body[] = {0x93, 1, 2, 3};
    open_cluster(&c, false, 2, 7);
    create_tables(&c);
    assert_int_equal(tide_spawn(c.nodes[1], &(struct tide_actor_options){.name = "silent", .handle = count_and_keep_silent, .state = &silent, .opens = TIDE_RIGHT_READ}, NULL), 0);
    assert_int_equal(tide_spawn(c.nodes[1], &(struct tide_actor_options){.name = "echo", .handle = echo, .opens = TIDE_RIGHT_READ}, NULL), 0);
    assert_int_equal(tide_spawn(c.nodes[1], &(struct tide_actor_options){.name = "closed", .handle = echo}, NULL), 0);
    struct tide_client *client = connect_client(&c, 0);
    assert_int_equal(tide_client_find(client, "nobody", 0, &actor), TIDE_ENOENT);
    assert_int_equal(tide_client_find(client, "n2/echo", 0, &actor), 0);
    assert_int_equal(tide_client_find(client, "echo", 0, &actor), 0);
    assert_int_equal(tide_client_call(client, actor, body, sizeof body, 0, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), 0);
    assert_memory_equal(tide_client_answer(op, &size), body, sizeof body);
    assert_int_equal(size, sizeof body);
    tide_client_free(op);
    assert_int_equal(tide_client_call(client, actor, large, sizeof large, 0, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), 0);
    assert_memory_equal(tide_client_answer(op, &size), large, sizeof large);
    tide_client_free(op);
    assert_int_equal(tide_client_find(client, "silent", 0, &actor), 0);
    assert_int_equal(tide_client_cast(client, actor, body, 3), TIDE_EPROTO);
    assert_int_equal(tide_client_cast(client, actor, body, sizeof body), 0);
    assert_int_equal(tide_client_call(client, actor, body, sizeof body, TIDE_SECOND / 20, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), TIDE_ETIMEDOUT);
    tide_client_free(op);
    assert_int_equal(tide_client_call(client, actor, body, sizeof body, 0, &op), 0);
    interrupt_a_wait(client, op);
    while (atomic_load(&silent.calls) < 2) {
        usleep(1000);
    }
    tide_client_free(op);
    assert_int_equal(tide_client_find(client, "closed", 0, &actor), 0);
    assert_int_equal(tide_client_call(client, actor, body, sizeof body, 0, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), TIDE_EPERM);
    tide_client_free(op);
    assert_int_equal(tide_client_call(client, actor, body, 3, 0, &op), TIDE_EPROTO);
    tide_client_close(client);
    assert_int_equal(atomic_load(&silent.calls), 2);
    assert_int_equal(atomic_load(&silent.casts), 1);
    close_cluster(&c);
}

/* ---- forks ---- */

static void a_child_does_not_use_its_parents_client(void **state) {
    (void)state;
    struct cluster c;
    const uint64_t key = 1;
    float row[WIDTH];
    open_cluster(&c, false, 1, 8);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, 0);
    struct tide_client_table *table = open_table(client, "sums"), *other;
    const pid_t child = fork();
    if (child == 0) {
        const bool right = tide_client_pull(table, &key, 1, row, 0, NULL) == TIDE_ECLOSED &&
                           strstr(tide_client_error(), "was opened by process") &&
                           tide_client_table(client, "wide", 0, &other) == TIDE_ECLOSED;
        tide_client_close(client);
        _exit(right ? 7 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(tide_client_pull(table, &key, 1, row, 0, NULL), 0);
    struct tide_client_info info = {.size = sizeof info};
    assert_int_equal(tide_client_info(client, &info), 0);
    const uint64_t connects = info.connects;
    assert_int_equal(tide_client_pull(table, &key, 1, row, 0, NULL), 0);
    assert_int_equal(tide_client_info(client, &info), 0);
    assert_int_equal(info.connects, connects);
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- a sequence is applied once ---- */

static int push_direct(struct tide_client *client, uint64_t actor, uint64_t table, uint64_t key, uint64_t sequence,
                       uint64_t low, bool direct) {
    uint8_t body[128];
    struct tide_writer w;
    struct tide_client_op *op;
    const float row[WIDTH] = {1, 1, 1, 1};
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, direct ? 8 : 7);
    tide_write_uint(&w, TIDE__ROWS_PUSH);
    tide_write_uint(&w, table);
    tide_write_typed(&w, TIDE_U64, &key, 1);
    tide_write_typed(&w, TIDE_F32, row, WIDTH);
    tide_write_uint(&w, 77);
    tide_write_uint(&w, sequence);
    tide_write_uint(&w, low);
    if (direct) {
        tide_write_bool(&w, true);
    }
    assert_int_equal(tide_client_call(client, actor, w.data, w.size, 0, &op), 0);
    const int rc = tide_client_wait(op, 0);
    tide_client_free(op);
    return rc;
}

static int push_raw(struct tide_client *client, uint64_t actor, uint64_t table, uint64_t sequence, uint64_t low) {
    return push_direct(client, actor, table, 9, sequence, low, false);
}

static uint64_t number_of(struct tide_client *client, uint64_t actor, const char *name) {
    uint8_t body[80];
    struct tide_writer w;
    struct tide_client_op *op;
    struct tide_reader r, v;
    size_t size;
    tide_writer_init(&w, body, sizeof body);
    tide_write_array(&w, 2);
    tide_write_uint(&w, TIDE__ROWS_OPEN);
    tide_write_text(&w, name);
    assert_int_equal(tide_client_call(client, actor, w.data, w.size, 0, &op), 0);
    assert_int_equal(tide_client_wait(op, 0), 0);
    const void *data = tide_client_answer(op, &size);
    tide_reader_init(&r, data, size);
    assert_true(tide_read_field(&r, "table", &v));
    const uint64_t number = tide_read_uint(&v);
    tide_client_free(op);
    return number;
}

static void a_push_that_is_sent_again_is_applied_once(void **state) {
    (void)state;
    struct cluster c;
    const uint64_t key = 9;
    float row[WIDTH];
    uint64_t actor;
    open_cluster(&c, false, 2, 9);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    assert_int_equal(tide_client_find(client, "rows", 0, &actor), 0);
    static const char *const names[] = {"sums", "moving"}; /* served at once, and by a fiber */
    for (size_t n = 0; n < TIDE_COUNT(names); n++) {
        const uint64_t table = number_of(client, actor, names[n]);
        const uint64_t base = 1000 * n;
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(push_raw(client, actor, table, base + 1, base + 1), 0);
        }
        assert_int_equal(push_raw(client, actor, table, base + 2, base + 1), 0);
        assert_int_equal(push_raw(client, actor, table, base + 1, base + 1), 0);
        assert_int_equal(push_raw(client, actor, table, base + 3, base + 3), 0);
        assert_int_equal(tide_client_pull(open_table(client, names[n]), &key, 1, row, 0, NULL), 0);
        assert_true(row[0] == 3);
        assert_int_equal(push_raw(client, actor, table, base + 2, base + 2), 0); /* still known */
        assert_int_equal(push_raw(client, actor, table, base + 3 + TIDE__ROWS_WINDOW, base + 3 + TIDE__ROWS_WINDOW), 0);
        assert_int_equal(push_raw(client, actor, table, base + 3, base + 3), TIDE_ELIMIT);
    }
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- keys go straight to their homes ---- */

static struct tide_client_info info_of(struct tide_client *client) {
    struct tide_client_info info = {.size = sizeof info};
    assert_int_equal(tide_client_info(client, &info), 0);
    return info;
}

/* Pulls and pushes rows of all nodes until the client has the map and a link to each home: `requests` of one pull go
 * straight there. */
static void wait_for_links(struct tide_client *client, struct tide_client_table *table, const uint64_t *keys,
                           size_t count, float *rows, uint64_t requests) {
    for (int tries = 0; tries < 5000; tries++) {
        const struct tide_client_info before = info_of(client);
        assert_int_equal(tide_client_pull(table, keys, count, rows, 0, NULL), 0);
        const struct tide_client_info after = info_of(client);
        if (after.direct - before.direct == requests && after.redirected == before.redirected) {
            return;
        }
        usleep(2000);
    }
    fail_msg("the keys do not go straight to %u homes", (unsigned)requests);
}

static uint64_t remote_of(struct cluster *c, const char *name) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < c->count; i++) {
        struct tide_table_stats stats;
        if (c->nodes[i]) {
            tide_table_stats(table_of(c, i, name), &stats);
            sum += stats.pulls_remote + stats.pushes_remote;
        }
    }
    return sum;
}

static void keys_go_straight_to_their_homes(void **state) {
    (void)state;
    static const char *const names[] = {"sums", "hashed", "ranged"};
    struct cluster c;
    uint64_t keys[KEYS];
    float ones[KEYS * WIDTH], rows[KEYS * WIDTH];
    open_cluster(&c, false, 3, 11);
    create_tables(&c);
    create(&c, (struct tide_table_options){.name = "ranged", .key_count = KEYS, .width = WIDTH, .slots = TIDE_SLOTS_RANGE, .update = TIDE_UPDATE_ADD});
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = (i * 167) % KEYS;
    }
    for (size_t i = 0; i < KEYS * WIDTH; i++) {
        ones[i] = (float)i;
    }
    for (size_t n = 0; n < TIDE_COUNT(names); n++) {
        struct tide_client_table *table = open_table(client, names[n]);
        wait_for_links(client, table, keys, KEYS, rows, 3);
        const uint64_t remote = remote_of(&c, names[n]);
        assert_int_equal(tide_client_push(table, keys, KEYS, ones, 0, NULL), 0);
        assert_int_equal(tide_client_pull(table, keys, KEYS, rows, 0, NULL), 0);
        assert_memory_equal(rows, ones, sizeof rows);
        const uint64_t direct = info_of(client).direct;
        assert_int_equal(tide_client_pull(table, keys, 1, rows, 0, NULL), 0);
        assert_int_equal(info_of(client).direct, direct + 1);
        assert_int_equal(tide_client_pull(table, keys, 20, rows, 0, NULL), 0); /* too few for three requests */
        assert_memory_equal(rows, ones, 20 * WIDTH * sizeof *rows);
        assert_int_equal(info_of(client).direct, direct + 1);
        assert_int_equal(tide_client_push(table, keys, KEYS, ones, 0, NULL), 0);
        assert_int_equal(remote_of(&c, names[n]) > remote, true); /* of the twenty */
    }
    /* rows that relocate stay the gateway's business */
    struct tide_client_table *moving = open_table(client, "moving");
    const uint64_t direct = info_of(client).direct;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(tide_client_pull(moving, keys, KEYS, rows, 0, NULL), 0);
    }
    assert_int_equal(info_of(client).direct, direct);
    tide_client_close(client);
    close_cluster(&c);
}

enum { MOVED = 2000 };
struct move {
    uint16_t from, to;
    const char *table;
};

/* Half of a node's slots, or all that it has. */
static void move_run(struct fiber *f) {
    const struct move *move = f->arg;
    struct tide_table *table;
    uint32_t slots[MOVED];
    uint16_t homes[TIDE_SLOT_COUNT];
    size_t count = 0;
    CHECK(f, tide_table_find(f->node, move->table, &table) == 0);
    tide_table_slot_homes(table, homes);
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT && count < MOVED; slot++) {
        if (homes[slot] == move->from) {
            slots[count++] = slot;
        }
    }
    CHECK(f, tide_table_move(table, slots, count, move->to) == 0);
    tide_table_release(table);
}

/* Pushes and pulls while slots move on request, and from a node that leaves. */
static void slots_that_move_are_found(void **state) {
    (void)state;
    static const char *const names[] = {"sums", "hashed"};
    enum { ROUNDS = 40 };
    struct cluster c;
    struct fiber fibers[TIDE_COUNT(names)];
    struct move moves[TIDE_COUNT(names)];
    struct tide_client_table *tables[TIDE_COUNT(names)];
    uint64_t keys[KEYS];
    float ones[KEYS * WIDTH], rows[KEYS * WIDTH];
    static float before[TIDE_COUNT(names)][KEYS * WIDTH];
    open_cluster(&c, false, 3, 12);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    for (size_t i = 0; i < KEYS * WIDTH; i++) {
        ones[i] = 1;
    }
    for (size_t n = 0; n < TIDE_COUNT(names); n++) {
        tables[n] = open_table(client, names[n]);
        wait_for_links(client, tables[n], keys, KEYS, rows, 3);
    }
    for (int i = 0; i < 3 * ROUNDS; i++) {
        for (size_t n = 0; i == ROUNDS && n < TIDE_COUNT(names); n++) {
            moves[n] = (struct move){.from = 2, .to = 3, .table = names[n]};
            start(&c, &fibers[n], 0, (unsigned)n, move_run, &moves[n]);
        }
        if (i == 2 * ROUNDS) {
            finish(&c, fibers, TIDE_COUNT(names));
            tide_net_leave(tide_net_of(c.nodes[2]));
        }
        for (size_t n = 0; n < TIDE_COUNT(names); n++) {
            const int code = tide_client_push(tables[n], keys, KEYS, ones, 0, NULL);
            /* sent to a node that had just left: applied once or not at all, and the client says so */
            assert_true(code == 0 || (code == TIDE_EDIED && i >= 2 * ROUNDS));
            assert_int_equal(tide_client_pull(tables[n], keys, KEYS, rows, 0, NULL), 0);
            for (size_t k = 0; k < KEYS * WIDTH; k++) {
                assert_true(rows[k] == before[n][k] + 1 || (code && rows[k] == before[n][k]));
            }
            memcpy(before[n], rows, sizeof rows);
        }
    }
    assert_true(info_of(client).redirected > 0);
    for (size_t n = 0; n < TIDE_COUNT(names); n++) {
        wait_for_links(client, tables[n], keys, KEYS, rows, 2);
    }
    tide_client_close(client);
    close_cluster(&c);
}

/* The answer to a push was lost, and its slot moves before it is sent again. */
static void a_push_is_answered_by_the_former_home_that_applied_it(void **state) {
    (void)state;
    struct cluster c;
    uint64_t actor, key = 0;
    uint16_t home = 0;
    float row[WIDTH];
    open_cluster(&c, false, 3, 13);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, TIDE_RIGHT_OPERATE);
    assert_int_equal(tide_client_find(client, "n2/rows", 0, &actor), 0);
    const uint64_t table = number_of(client, actor, "sums");
    while (tide_table_where(table_of(&c, 1, "sums"), key, &home) == 0 && home != 2) {
        key++;
    }
    assert_int_equal(push_direct(client, actor, table, key, 1, 1, true), 0);
    run_alone(&c, 0, move_run, &(struct move){.from = 2, .to = 3, .table = "sums"});
    assert_int_equal(push_direct(client, actor, table, key, 1, 1, true), 0);
    assert_int_equal(push_direct(client, actor, table, key, 2, 2, true), TIDE_EVERSION);
    assert_int_equal(push_direct(client, actor, table, key, 2, 2, false), 0);
    assert_int_equal(tide_client_pull(open_table(client, "sums"), &key, 1, row, 0, NULL), 0);
    assert_true(row[0] == 2);
    tide_client_close(client);
    close_cluster(&c);
}

/* ---- the node that serves a client goes ---- */

static void another_node_serves_when_one_goes(void **state) {
    (void)state;
    struct cluster c;
    const uint64_t key = 5;
    float row[WIDTH];
    open_cluster(&c, false, 3, 10);
    create_tables(&c);
    struct tide_client *client = connect_client(&c, 0);
    struct tide_client_table *table = open_table(client, "sums");
    struct tide_client_info info = {.size = sizeof info};
    assert_int_equal(tide_client_pull(table, &key, 1, row, 0, NULL), 0);
    assert_int_equal(tide_client_info(client, &info), 0);
    for (unsigned i = 1; i < c.count; i++) { /* the first one is the controller */
        close_node(&c, i);
        assert_int_equal(tide_client_pull(table, &key, 1, row, 0, NULL), 0);
    }
    tide_client_close(client);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    (void)argc;
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_push_and_pull_rows_of_all_nodes),
        cmocka_unit_test(large_operations_are_cut_into_parts),
        cmocka_unit_test(rights_are_checked_at_the_node),
        cmocka_unit_test(bad_input_is_an_error_of_the_call),
        cmocka_unit_test(any_thread_may_call),
        cmocka_unit_test(operations_run_side_by_side_and_are_bounded),
        cmocka_unit_test(calls_reach_actors_that_open_to_them),
        cmocka_unit_test(a_child_does_not_use_its_parents_client),
        cmocka_unit_test(a_push_that_is_sent_again_is_applied_once),
        cmocka_unit_test(keys_go_straight_to_their_homes),
        cmocka_unit_test(slots_that_move_are_found),
        cmocka_unit_test(a_push_is_answered_by_the_former_home_that_applied_it),
        cmocka_unit_test(another_node_serves_when_one_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
