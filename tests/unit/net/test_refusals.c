/* What a node refuses: names, versions, strangers, what is damaged; on both ports. */
#include "net/link/hello.h"
#include "net_echo.h"
#include "net_raw.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct tide_hello good_hello(void) {
    struct tide_hello h = {.version = TIDE_PROTOCOL,
                           .cluster = "a",
                           .name = "n",
                           .to = "",
                           .incarnation = 7,
                           .workers = 2,
                           .store = true,
                           .pid = 12,
                           .endpoint = "unix:/tmp/x",
                           .right = TIDE_RIGHT_NODE};
    return h;
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
    *node = (struct tide_node){.port = port, .name = "other"};
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
    struct tide_net_options no = {.cluster = "test", .listen = "tcp:10.1.2.3:7700"};
    assert_int_equal(tide_net_create(node->system, &no, &node->net), TIDE_EPERM);
    assert_non_null(strstr(tide_error_message(), "`tide keys init` makes them"));
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
    char expected[80]; /* as the peer sees it */
    (void)snprintf(expected, sizeof expected, "peer speaks protocol %u, this node speaks %u", TIDE_PROTOCOL,
                   TIDE_PROTOCOL + 1);
    assert_string_equal(text, expected);
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
int main(void) {
    const struct CMUnitTest tests[] = {
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
    };
    net_tests_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
