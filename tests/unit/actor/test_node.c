/*
 * The life of nodes in one process: started and stopped often, in every order, on a host's loop,
 * and when joining fails. Run under ASan and valgrind this tells what is not given back;
 * descriptors and threads are counted here.
 *
 * TIDE_TEST_ROUNDS, if set, is the percentage of the rounds that are made: valgrind is slow.
 */
#include "tide.h"
#include "base/base.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#include <uv.h>

static char directory[64];

static int rounds(int all) {
    const char *percent = getenv("TIDE_TEST_ROUNDS");
    int some = percent != NULL ? all * atoi(percent) / 100 : all;
    return some < 2 ? 2 : some;
}

static unsigned count_entries(const char *path) {
    unsigned count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

struct counts {
    unsigned descriptors, threads;
};

static struct counts count(void) {
    return (struct counts){count_entries("/proc/self/fd"), count_entries("/proc/self/task")};
}

/* A thread that was joined may stay visible for a moment. */
static void expect_counts(struct counts before) {
    struct counts now = count();
    for (int i = 0;
         i < 200 && (now.threads > before.threads || now.descriptors > before.descriptors); i++) {
        usleep(5000);
        now = count();
    }
    assert_int_equal(now.descriptors, before.descriptors);
    assert_int_equal(now.threads, before.threads);
}

static struct tide_node *make(const char *name, const char *join) {
    struct tide_node *node = NULL;
    struct tide_node_options o = {.cluster = "life", .name = name, .join = join, .workers = 1};
    if (tide_node_create(&o, &node) != 0) {
        print_message("%s: %s\n", name, tide_error_message());
        fail();
    }
    return node;
}

/* ---- actors that are there when their node ends ---- */

/* Ends when it is asked to; the stubborn one must be killed when the time for an orderly end is
 * over. */
static int receiver(void *state) {
    (void)state;
    const struct tide_message *message = NULL;
    int rc = tide_receive(TIDE_NEVER, &message);
    tide_message_free(message);
    return rc;
}

static int sleeper(void *state) {
    (void)state;
    return tide_sleep(3600 * TIDE_SECOND);
}

static int caller(void *state) {
    tide_address silent;
    struct tide_reply *reply = NULL;
    memcpy(&silent, state, sizeof silent);
    int rc = tide_call(silent, "\xc0", 1, 3600 * TIDE_SECOND, &reply);
    tide_reply_free(reply);
    return rc;
}

static int mute(void *state, const struct tide_message *message) {
    uint64_t id;
    (void)state;
    if (message->kind == TIDE_CAST) {
        (void)tide_timer_start(3600 * TIDE_SECOND, &id);
    } else if (message->kind == TIDE_STOP) {
        tide_exit(0);
    }
    return 0; /* never answers */
}

static void spawn(struct tide_node *node, struct tide_actor_options options, tide_address *out) {
    assert_int_equal(tide_spawn(node, &options, out), 0);
}

static void populate(struct tide_node *node, bool stubborn) {
    tide_address silent, *where = malloc(sizeof *where);
    assert_non_null(where);
    spawn(node,
          (struct tide_actor_options){.name = "mute", .handle = mute, .role = TIDE_ROLE_CONTROL},
          &silent);
    assert_int_equal(tide_post(node, silent, "\xc0", 1), 0);
    spawn(node,
          (struct tide_actor_options){.run = stubborn ? sleeper : receiver,
                                      .role = TIDE_ROLE_COMPUTE},
          NULL);
    *where = silent;
    spawn(node,
          (struct tide_actor_options){
              .run = caller, .state = where, .release = free, .role = TIDE_ROLE_CONTROL},
          NULL);
    struct tide_lua_options lua = {.source = "require 'tide.core'.receive()",
                                   .chunk = "@waits.lua",
                                   .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn_lua(node, &lua, NULL), 0);
}

#define SHORTLY (TIDE_SECOND / 50)

/* ---- tests ---- */

static void a_node_starts_and_stops_a_thousand_times(void **state) {
    (void)state;
    tide_node_destroy(make("first", NULL), 0); /* what is made once in a process is made now */
    struct counts before = count();
    for (int i = rounds(1000); i > 0; i--) {
        struct tide_node *node = make("again", NULL);
        if (i % 10 == 0) {
            populate(node, i % 50 == 0);
        }
        tide_node_destroy(node, i % 50 == 0 ? SHORTLY : TIDE_SECOND);
    }
    expect_counts(before);
}

static void two_nodes_join_and_leave_fifty_times(void **state) {
    (void)state;
    struct counts before = count();
    struct tide_node *stays = make("c0", NULL);
    for (int i = rounds(50); i > 0; i--) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i % 3);
        struct tide_node *node = make(name, tide_node_endpoint(stays));
        if (i % 2 == 0) {
            populate(node, false);
        }
        tide_node_destroy(node, 5 * TIDE_SECOND);
    }
    tide_node_destroy(stays, TIDE_SECOND);
    expect_counts(before);
}

static void the_controller_may_go_first(void **state) {
    (void)state;
    struct counts before = count();
    for (int i = rounds(20); i > 0; i--) {
        struct tide_node *controller = make("c0", NULL);
        struct tide_node *node = make("n1", tide_node_endpoint(controller));
        populate(node, i % 4 == 0);
        tide_node_destroy(controller, i % 2 == 0 ? TIDE_SECOND : 0);
        tide_node_destroy(node, i % 3 == 0 ? SHORTLY : 0);
    }
    expect_counts(before);
}

static void joins_that_fail_give_everything_back(void **state) {
    (void)state;
    struct tide_node *controller = make("c0", NULL), *node = NULL;
    const char *endpoint = tide_node_endpoint(controller);
    char nobody[120];
    snprintf(nobody, sizeof nobody, "unix:%s/nobody", directory);
    const struct {
        struct tide_node_options options;
        int code;
    } cases[] = {
        {{.cluster = "life", .name = "x", .join = nobody, .workers = 1}, TIDE_EUNREACHABLE},
        {{.cluster = "other", .name = "x", .join = endpoint, .workers = 1}, TIDE_EMISMATCH},
        {{.cluster = "life", .name = "c0", .join = endpoint, .workers = 1}, TIDE_EEXIST},
        {{.cluster = "life", .name = "x", .listen = endpoint, .workers = 1}, TIDE_EADDRINUSE},
        {{.cluster = "life", .name = "x", .listen = "somewhere", .workers = 1}, TIDE_EINVAL},
        {{.cluster = "life", .name = "x", .listen = "tcp:0.0.0.0:0", .workers = 1}, TIDE_EPERM},
        {{.cluster = "life", .name = "No Name"}, TIDE_EINVAL},
        {{.cluster = "life", .name = "x", .client = true}, TIDE_EINVAL},
        {{.cluster = "life", .name = "x", .workers = 100000}, TIDE_EINVAL},
    };
    const size_t case_count = sizeof cases / sizeof cases[0];
    struct counts before = count();
    for (int i = rounds(50); i > 0; i--) {
        for (size_t c = 0; c < case_count; c++) {
            assert_int_equal(tide_node_create(&cases[c].options, &node), cases[c].code);
            assert_true(strlen(tide_error_message()) > 10);
        }
    }
    expect_counts(before);
    tide_node_destroy(controller, TIDE_SECOND);
}

static void stop_loop(uv_timer_t *timer) {
    uv_stop(timer->loop);
}

static void run_loop_for(uv_loop_t *loop, uint64_t ms) {
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, stop_loop, ms, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static void a_host_starts_and_stops_nodes_on_its_loop_fifty_times(void **state) {
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct tide_node *controller = make("c0", NULL);
    run_loop_for(&loop, 1);
    struct counts before = count();
    for (int i = rounds(50); i > 0; i--) {
        struct tide_node *node = NULL;
        struct tide_node_options o = {
            .cluster = "life", .name = "hosted", .workers = 1, .loop = &loop};
        o.join = i % 2 == 0 ? tide_node_endpoint(controller) : NULL;
        assert_int_equal(tide_node_create(&o, &node), 0);
        if (i % 3 != 0) { /* else it is destroyed before its loop ran once */
            populate(node, false);
            run_loop_for(&loop, (uint64_t)(i % 20));
        }
        tide_node_destroy(node, 5 * TIDE_SECOND);
        uv_run(&loop, UV_RUN_DEFAULT); /* ends when the node's handles have closed */
        assert_false(uv_loop_alive(&loop));
    }
    expect_counts(before);
    tide_node_destroy(controller, TIDE_SECOND);
    assert_int_equal(uv_loop_close(&loop), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Takes all that there is, from large blocks to the smallest. */
static void exhaust_memory(void) {
    const struct rlimit limit = {0};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2) {
        void **block, **last = NULL;
        while ((block = malloc(bytes)) != NULL) {
            *block = last;
            last = block;
        }
    }
}

/* Starting a fiber takes memory: those of a node's own actors run before there is none. */
static void await_fibers(struct tide_node *node) {
    struct tide_actor_info actors[16];
    bool all = false;
    while (!all) {
        const size_t count = tide_actors(node, actors, TIDE_COUNT(actors));
        all = count <= TIDE_COUNT(actors);
        for (size_t i = 0; i < count && all; i++) {
            all = !actors[i].fiber || actors[i].waits_for[0] != '\0';
        }
        usleep(1000);
    }
}

static void a_node_ends_without_any_memory(void **state) {
    (void)state;
#ifdef RUNNING_ON_VALGRIND
    if (RUNNING_ON_VALGRIND) {
        return; /* it needs memory itself */
    }
#endif
    const pid_t child = fork();
    if (child == 0) {
        struct tide_node_options options = {.cluster = "life", .workers = 1};
        struct tide_node *node;
        if (tide_node_create(&options, &node) != 0) {
            _exit(2);
        }
        alarm(20); /* it ends by SIGALRM if it hangs */
        await_fibers(node);
        exhaust_memory();
        tide_node_destroy(node, SHORTLY);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
#endif

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/tide-node-XXXXXX");
    return mkdtemp(directory) != NULL ? setenv("XDG_RUNTIME_DIR", directory, 1) : -1;
}

static int remove_directory(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/tide/life", directory); /* sockets are gone with their nodes */
    int rc = rmdir(path);
    snprintf(path, sizeof path, "%s/tide/other", directory);
    rc |= rmdir(path);
    snprintf(path, sizeof path, "%s/tide", directory);
    return rc | rmdir(path) | rmdir(directory);
}

int main(void) {
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL); /* joins and departures are no news here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_starts_and_stops_a_thousand_times),
        cmocka_unit_test(two_nodes_join_and_leave_fifty_times),
        cmocka_unit_test(the_controller_may_go_first),
        cmocka_unit_test(joins_that_fail_give_everything_back),
        cmocka_unit_test(a_host_starts_and_stops_nodes_on_its_loop_fifty_times),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(a_node_ends_without_any_memory),
#endif
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
