/* The net room as nodes see it: joining, messages, credit, refusals, ends; on both ports. */
#include "net/hello.h"
#include "net_raw.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static struct tide_hello good_hello(void) {
    struct tide_hello h = {.version = TIDE_PROTOCOL,
                           .cluster = "a",
                           .name = "n",
                           .to = "",
                           .incarnation = 7,
                           .workers = 2,
                           .store = true,
                           .pid = 12,
                           .endpoint = "unix:/tmp/x"};
    return h;
}

/* ---- clusters: actors to talk to ---- */

struct echo {
    atomic_uint casts;
    atomic_uint_fast64_t bytes;
};

static int echo_handle(void *state, const struct tide_message *m) {
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

static tide_address spawn_echo(struct tide_node *node, struct echo *echo) {
    tide_address address;
    int rc = tide_spawn(node,
                        &(struct tide_actor_options){.name = "echo",
                                                     .type = "echo",
                                                     .handle = echo_handle,
                                                     .state = echo,
                                                     .role = TIDE_ROLE_COMPUTE,
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

static int call_once(struct caller *c, const struct tide_writer *w) {
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

static int caller_run(void *state) {
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

static void start_caller(struct tide_node *node, struct caller *c) {
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

static int await_caller(struct world *w, struct caller *c) {
    uint64_t until = world_now(w) + 20 * TIDE_SECOND;
    while (atomic_load(&c->result) == 1 && world_now(w) < until) {
        world_pause(w, 200000);
    }
    return atomic_load(&c->result);
}

static int call(struct world *w, struct tide_node *node, tide_address to, size_t size) {
    struct caller c = {.to = to, .size = size};
    start_caller(node, &c);
    return await_caller(w, &c);
}

static bool is_simulated(void **state) {
    return *state != NULL;
}

/* What must come is waited for: a second of virtual time, or as long as a busy machine may take. */
static uint64_t soon(const struct world *w) {
    return w->sim != NULL ? TIDE_SECOND : 15 * TIDE_SECOND;
}

/* Waits until `id` has `member_state` in node's view; how long it took, or TIDE_NEVER. */
static uint64_t await_member(struct tide_node *node, uint16_t id, int member_state,
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
    return rc;
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

static void credit_stops_a_fast_sender_at_the_window(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 6);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct slow slow = {0};
    tide_address to;
    assert_int_equal(tide_spawn(&w.nodes[0],
                                &(struct tide_actor_options){.type = "slow",
                                                             .run = slow_run,
                                                             .state = &slow,
                                                             .role = TIDE_ROLE_COMPUTE,
                                                             .bytes_max = 64 << 20},
                                &to),
                     0);
    struct flood flood = {.to = tide_address_make(1, tide_address_id(to)), .total = 400};
    assert_int_equal(tide_spawn(&w.nodes[1],
                                &(struct tide_actor_options){.type = "flood",
                                                             .run = flood_run,
                                                             .state = &flood,
                                                             .role = TIDE_ROLE_COMPUTE},
                                NULL),
                     0);
    uint64_t until = world_now(&w) + 400 * MS;
    while (world_now(&w) < until) {
        world_pause(&w, MS);
    }
    assert_in_range(atomic_load(&flood.sent), 10,
                    16); /* 1 MiB of 64 KiB messages with their heads */
    struct tide_link_info info;
    assert_int_equal(tide_net_links(w.nodes[1].net, &info, 1), 1);
    assert_in_range(info.credit_used[TIDE_LANE_CONTROL], 900 << 10, 1 << 20);
    assert_true(info.queue_bytes <= 1 << 20);
    atomic_store(&slow.go, true);
    until = world_now(&w) + 10 * TIDE_SECOND;
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

/* ---- refusals ---- */

static void a_taken_name_is_refused(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 7);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    struct tide_node *node = &w.nodes[w.count];
    struct tide_port *port;
    assert_int_equal(world_port(&w, "other", &port), 0);
    *node = (struct tide_node){.port = port, .world = &w, .name = "other"};
    struct tide_system_options so = {.port = port, .node_name = "n2", .io = 1};
    assert_int_equal(tide_system_create(&so, node, &node->system), 0);
    w.count++;
    char listen[100];
    snprintf(listen, sizeof listen, is_simulated(state) ? "sim:other%s" : "unix:%s/other.sock",
             w.directory);
    struct tide_net_options no = {.cluster = "test",
                                  .name = "n2",
                                  .listen = listen,
                                  .join = tide_net_endpoint(w.nodes[0].net)};
    assert_int_equal(tide_net_create(node->system, &no, &node->net), 0);
    tide_net_join(node->net);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_DEAD);
    int code;
    char reason[200];
    world_state(node, &code, reason);
    assert_int_equal(code, TIDE_EEXIST);
    assert_string_equal(reason, "the name 'n2' is taken in cluster 'test'");
    world_close(&w);
}

static void another_cluster_is_refused_with_both_names(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 8);
    assert_non_null(world_add(&w, "c0"));
    struct tide_node *node;
    assert_int_equal(
        world_start(&w, "n2", true, "b", tide_net_endpoint(w.nodes[0].net), false, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_DEAD);
    int code;
    char reason[200];
    world_state(node, &code, reason);
    assert_int_equal(code, TIDE_EMISMATCH);
    assert_string_equal(reason, "peer belongs to cluster 'test', not 'b'");
    world_close(&w);
}

static void joining_where_nobody_listens_fails_with_the_endpoint(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 9);
    struct tide_node *node;
    const char *nobody = is_simulated(state) ? "sim:nobody" : "unix:/tmp/tide-nobody-listens.sock";
    assert_int_equal(world_start(&w, "n2", true, "test", nobody, false, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_DEAD);
    int code;
    char reason[200];
    world_state(node, &code, reason);
    assert_int_equal(code, TIDE_EUNREACHABLE);
    assert_non_null(strstr(reason, nobody));
    world_close(&w);
}

static void listening_needs_a_free_local_address(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 10);
    assert_non_null(world_add(&w, "c0"));
    struct tide_node *node = &w.nodes[1];
    assert_int_equal(world_port(&w, "n2", &node->port), 0);
    struct tide_system_options so = {.port = node->port, .node_name = "n2", .io = 1};
    assert_int_equal(tide_system_create(&so, node, &node->system), 0);
    w.count++;
    struct tide_net_options no = {.cluster = "test", .listen = "tcp:0.0.0.0:0"};
    assert_int_equal(tide_net_create(node->system, &no, &node->net), TIDE_EPERM);
    assert_non_null(strstr(tide_error_message(), "Unix sockets and loopback only"));
    no.listen = tide_net_endpoint(w.nodes[0].net);
    assert_int_equal(tide_net_create(node->system, &no, &node->net), TIDE_EADDRINUSE);
    world_close(&w);
}

static size_t hello_frame(uint8_t *out, const struct tide_hello *h) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__hello_write(&w, h);
    struct tide_frame f = {.kind = TIDE_FRAME_HELLO, .lane = TIDE_LANE_SYSTEM};
    tide_frame_head(out, &f, w.size);
    memcpy(out + TIDE_FRAME_HEAD, w.data, w.size);
    size_t size = TIDE_FRAME_HEAD + w.size;
    tide_writer_release(&w);
    return size;
}

static void another_version_is_told_so(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 11);
    assert_non_null(world_add(&w, "c0"));
    struct raw r = {0};
    struct tide_hello h = good_hello();
    h.version = TIDE_PROTOCOL + 1;
    r.out_size = hello_frame(r.out, &h);
    assert_true(raw_talk(&w, &r, soon(&w)));
    struct tide_frame f;
    int code;
    char text[200];
    assert_true(r.in_size > TIDE_FRAME_HEAD);
    assert_int_equal(tide_frame_parse(r.in + 4, r.in_size - 4, &f), 0);
    assert_int_equal(f.kind, TIDE_FRAME_ERROR);
    assert_int_equal(tide__refusal_parse(f.body, f.body_size, &code, text, sizeof text), 0);
    assert_int_equal(code, TIDE_EVERSION);
    assert_string_equal(text, "peer speaks protocol 2, this node speaks 3");
    raw_end(&r);
    world_close(&w);
}

static void garbage_closes_the_connection_and_harms_nobody(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 12);
    assert_non_null(world_add(&w, "c0"));
    for (int kind = 0; kind < (is_simulated(state) ? 1 : 4);
         kind++) { /* a simulated machine has one port */
        struct raw r = {0};
        struct tide_hello h = good_hello();
        strcpy(h.cluster, "test");
        if (kind == 0) { /* not a frame */
            strcpy((char *)r.out, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            r.out_size = strlen((char *)r.out);
        } else if (kind == 1) { /* hello too long */
            r.out[0] = 0x01;
            r.out[1] = 0x08;
            r.out_size = 2000;
        } else if (kind == 2) { /* a frame that is no hello */
            struct tide_frame f = {
                .kind = TIDE_FRAME_CALL, .lane = TIDE_LANE_CONTROL, .to = 1, .from = 2, .call = 3};
            tide_frame_head(r.out, &f, 1);
            r.out[TIDE_FRAME_HEAD] = 0xc0;
            r.out_size = TIDE_FRAME_HEAD + 1;
        } else { /* a good hello, then bytes that are not msgpack */
            r.out_size = hello_frame(r.out, &h);
            struct tide_frame f = {.kind = TIDE_FRAME_CAST,
                                   .lane = TIDE_LANE_CONTROL,
                                   .to = tide_address_make(1, TIDE_ID_MEMBERS),
                                   .from = 2};
            tide_frame_head(r.out + r.out_size, &f, 3);
            memcpy(r.out + r.out_size + TIDE_FRAME_HEAD, "\xc1\xc1\xc1", 3);
            r.out_size += TIDE_FRAME_HEAD + 3;
        }
        assert_true(raw_talk(&w, &r, soon(&w)));
        raw_end(&r);
    }
    assert_non_null(world_add(&w, "later"));
    world_close(&w);
}

static void half_a_hello_is_closed_after_five_seconds(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 13);
    assert_non_null(world_add(&w, "c0"));
    struct raw r = {0};
    struct tide_hello h = good_hello();
    r.out_size = hello_frame(r.out, &h) / 2;
    uint64_t began = world_now(&w);
    assert_true(raw_talk(&w, &r, 8 * TIDE_SECOND));
    assert_in_range((world_now(&w) - began) / MS, 4900, 5500);
    raw_end(&r);
    world_close(&w);
}

static void a_frame_in_anothers_name_is_refused(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 24);
    assert_non_null(world_add(&w, "c0"));
    struct echo echo = {0};
    tide_address to = spawn_echo(&w.nodes[0], &echo);
    struct raw r = {0};
    struct tide_hello h = good_hello();
    strcpy(h.cluster, "test");
    r.out_size = hello_frame(r.out, &h);
    static const uint16_t senders[] = {2, 0, 9, 2}; /* it is n2 */
    for (unsigned i = 0; i < TIDE_COUNT(senders); i++) {
        struct tide_frame f = {.kind = TIDE_FRAME_CAST, .lane = TIDE_LANE_CONTROL, .to = to};
        f.from = senders[i] == 0 ? TIDE_NOBODY : tide_address_make(senders[i], 77);
        tide_frame_head(r.out + r.out_size, &f, 1);
        r.out[r.out_size + TIDE_FRAME_HEAD] = 0xc0;
        r.out_size += TIDE_FRAME_HEAD + 1;
    }
    assert_true(raw_talk(&w, &r, soon(&w)));
    for (uint64_t until = world_now(&w) + soon(&w);
         atomic_load(&echo.casts) < 2 && world_now(&w) < until;) {
        world_pause(&w, MS);
    }
    world_pause(&w, 20 * MS);
    assert_int_equal(atomic_load(&echo.casts), 2);
    raw_end(&r);
    world_close(&w);
}

static int connect_to(struct world *w) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/c0.sock", w->directory);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        return -1;
    }
    return fd;
}

/* Did the node close it? One that it keeps open is waited for as long as `ms`. */
static bool is_closed(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&p, 1, ms) == 1 && read(fd, &byte, 1) == 0;
}

/* Until the node has noticed that some went, and keeps one more. */
static int connect_until_kept(struct world *w) {
    uint64_t until = world_now(w) + soon(w);
    int fd = connect_to(w);
    while (is_closed(fd, 200) && world_now(w) < until) {
        close(fd);
        fd = connect_to(w);
    }
    assert_false(is_closed(fd, 0));
    return fd;
}

static void the_65th_stranger_is_turned_away(void **state) {
    (void)state;
    struct world w;
    world_open(&w, false, 25);
    assert_non_null(world_add(&w, "c0"));
    int fds[66];
    for (unsigned i = 0; i < 65; i++) {
        fds[i] = connect_to(&w);
        assert_true(fds[i] >= 0);
    }
    assert_true(is_closed(fds[64], 15000));
    assert_false(is_closed(fds[63], 200));
    close(fds[0]); /* one goes: there is room for another */
    fds[65] = connect_until_kept(&w);
    for (unsigned i = 1; i < 65; i++) {
        close(fds[i]);
    }
    int last = connect_until_kept(&w); /* beside fds[65]: two others have been let go */
    close(fds[65]);
    assert_non_null(world_add(&w, "n2"));
    close(last);
    world_close(&w);
}

static void another_user_is_refused_on_a_unix_socket(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip(); /* nobody else can be played */
    }
    struct world w;
    world_open(&w, false, 26);
    assert_non_null(world_add(&w, "c0"));
    char path[128];
    snprintf(path, sizeof path, "%s/c0.sock", w.directory);
    assert_int_equal(chmod(w.directory, 0755), 0); /* what keeps others out before it comes to it */
    assert_int_equal(chmod(path, 0777), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(65534) != 0) {
            _exit(2);
        }
        int fd = connect_to(&w);
        _exit(fd < 0 ? 3 : is_closed(fd, 15000) ? 0 : 4);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    world_close(&w);
}

static void a_dial_without_an_answer_ends_after_three_seconds(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 27);
    assert_non_null(world_add(&w, "c0"));
    tide_sim_pause(w.sim, "c0", 20 * TIDE_SECOND);
    struct tide_node *node;
    uint64_t began = world_now(&w);
    assert_int_equal(
        world_start(&w, "n2", true, "test", tide_net_endpoint(w.nodes[0].net), false, &node), 0);
    assert_int_equal(world_await(node, TIDE_MEMBER_UP), TIDE_MEMBER_DEAD);
    assert_in_range((world_now(&w) - began) / MS, 2900, 3300);
    int code;
    char reason[200];
    world_state(node, &code, reason);
    assert_int_equal(code, TIDE_ETIMEDOUT);
    assert_string_equal(reason, "no connection to sim:c0: no answer");
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
    tide_address to = spawn_echo(&w.nodes[1], &echo);
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
    tide_sim_pause(w.sim, "c0", 600 * MS); /* the controller's own standstill is nobody's death */
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

static void the_same_seed_gives_the_same_events(void **state) {
    (void)state;
    uint64_t first = run_for_hash(21);
    assert_true(first == run_for_hash(21));
    assert_true(first != run_for_hash(22));
}

static void quiet(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)arg;
    (void)level;
    if (getenv("TIDE_TEST_LOG") != NULL) {
        fprintf(stderr, "[%s] %s\n", node, text);
    }
}

#define REAL(test)                                                                                 \
    { #test " (real)", test, NULL, NULL, NULL }
#define SIMULATED(test)                                                                            \
    { #test " (simulated)", test, NULL, NULL, (void *)"sim" }
#define BOTH(test) REAL(test), SIMULATED(test)

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(nodes_join_and_everybody_reaches_everybody),
        BOTH(joiners_at_the_same_time_all_come_up),
        BOTH(join_through_any_member_leads_to_the_controller),
        BOTH(large_messages_pass_both_ways_and_nobody_is_suspected),
        BOTH(a_message_over_the_limit_is_refused_at_its_origin),
        BOTH(credit_stops_a_fast_sender_at_the_window),
        BOTH(a_taken_name_is_refused),
        BOTH(another_cluster_is_refused_with_both_names),
        BOTH(joining_where_nobody_listens_fails_with_the_endpoint),
        BOTH(listening_needs_a_free_local_address),
        BOTH(another_version_is_told_so),
        BOTH(garbage_closes_the_connection_and_harms_nobody),
        BOTH(a_frame_in_anothers_name_is_refused),
        cmocka_unit_test(the_65th_stranger_is_turned_away),
        cmocka_unit_test(another_user_is_refused_on_a_unix_socket),
        cmocka_unit_test(a_dial_without_an_answer_ends_after_three_seconds),
        SIMULATED(half_a_hello_is_closed_after_five_seconds),
        BOTH(a_node_that_leaves_is_left_everywhere),
        BOTH(leaving_waits_for_evacuation),
        BOTH(the_end_of_the_controller_in_order_ends_the_cluster),
        BOTH(a_client_talks_to_members_and_is_none),
        cmocka_unit_test(kill_minus_nine_is_noticed_by_the_end_of_the_connection),
        cmocka_unit_test(a_crash_is_declared_everywhere_and_calls_end_with_edied),
        cmocka_unit_test(the_crash_of_the_controller_is_told_to_members),
        cmocka_unit_test(a_short_pause_survives_and_a_long_one_does_not),
        cmocka_unit_test(two_that_cannot_reach_each_other_do_not_both_stay),
        cmocka_unit_test(the_same_seed_gives_the_same_events),
    };
    tide_log_set(TIDE_LOG_DEBUG, quiet, NULL);
    const char *only = getenv("TIDE_TEST_ONLY");
    if (only != NULL) {
        cmocka_set_test_filter(only);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
