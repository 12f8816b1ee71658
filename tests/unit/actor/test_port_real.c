/* What only the real port has: waking across threads, a host's loop, socket files, children,
 * signals. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "port_world.h"

#include "port/reads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <uv.h>

/* ---- waking ---- */

struct inbox {
    struct tide_port *port;
    _Atomic long posted;
    _Atomic long seen;
    uv_loop_t *stop_at_20000; /* the host's loop to leave, or NULL */
    int turns;
};

static uint64_t take(void *arg) {
    struct inbox *inbox = arg;
    inbox->turns++;
    /* acquire: pairs with the release in the poster, through the executor's state */
    atomic_store(&inbox->seen, atomic_load_explicit(&inbox->posted, memory_order_acquire));
    for (volatile int spin = 0; spin < 2000; spin++) { /* the moment in which a wake can get lost */
    }
    if (inbox->stop_at_20000 != NULL && atomic_load(&inbox->seen) == 20000) {
        uv_stop(inbox->stop_at_20000);
    }
    return TIDE_NEVER;
}

static bool has_more(void *arg) {
    struct inbox *inbox = arg;
    return atomic_load(&inbox->posted) != atomic_load(&inbox->seen);
}

static bool wait_for(_Atomic long *value, long wanted) {
    for (int i = 0; i < 200000; i++) {
        if (atomic_load(value) >= wanted) {
            return true;
        }
        if (i > 1000) {
            nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        }
    }
    return false;
}

/* Posts with relaxed stores: whatever order is needed, the port provides. Every post waits until
 * it is seen, so each meets the executor on its way to sleep, asleep, or on its way up. */
static void no_wake_is_lost(void **state) {
    (void)state;
    struct tide_port *port;
    assert_int_equal(tide_port_real_create(1, &port), 0);
    for (int with_pending = 0; with_pending < 2; with_pending++) {
        struct inbox inbox = {.port = port};
        struct tide_executor_options options = {
            .turn = take, .arg = &inbox, .pending = with_pending ? has_more : NULL, .core = -1};
        struct tide_executor *e;
        assert_int_equal(port->ops->executor_start(port, &options, &e), 0);
        for (long i = 1; i <= 3000; i++) {
            atomic_store_explicit(&inbox.posted, i, memory_order_relaxed);
            tide_executor_wake(port, e);
            assert_true(wait_for(&inbox.seen, i));
            for (volatile long spin = 0; spin < i % 200 * 20; spin++) {
            }
        }
        port->ops->executor_stop(e);
    }
    port->ops->destroy(port);
}

struct poster {
    struct tide_port *port;
    struct tide_executor *executor;
    struct inbox *inbox;
};

static void *post_many(void *arg) {
    struct poster *p = arg;
    for (int i = 0; i < 20000; i++) {
        atomic_fetch_add_explicit(&p->inbox->posted, 1, memory_order_relaxed);
        tide_executor_wake(p->port, p->executor);
    }
    return NULL;
}

static void many_threads_wake_one_executor(void **state) {
    (void)state;
    struct inbox inbox = {0};
    struct poster p = {.inbox = &inbox};
    assert_int_equal(tide_port_real_create(1, &p.port), 0);
    struct tide_executor_options options = {
        .turn = take, .pending = has_more, .arg = &inbox, .core = 0};
    assert_int_equal(p.port->ops->executor_start(p.port, &options, &p.executor), 0);
    pthread_t threads[3];
    for (size_t i = 0; i < TIDE_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &p), 0);
    }
    for (size_t i = 0; i < TIDE_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(wait_for(&inbox.seen, 60000));
    p.port->ops->executor_stop(p.executor);
    p.port->ops->destroy(p.port);
}

static double cpu_seconds(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void an_idle_executor_uses_no_processor_time(void **state) {
    (void)state;
    struct inbox inbox = {0};
    struct tide_port *port;
    assert_int_equal(tide_port_real_create(1, &port), 0);
    struct tide_executor_options options = {
        .turn = take, .pending = has_more, .arg = &inbox, .core = -1};
    struct tide_executor *e;
    assert_int_equal(port->ops->executor_start(port, &options, &e), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_true(cpu_seconds() - before < 0.003);
    port->ops->executor_stop(e);
    assert_int_equal(inbox.turns, 1);
    port->ops->destroy(port);
}

static void executors_start_and_stop_a_hundred_times(void **state) {
    (void)state;
    struct tide_port *port;
    assert_int_equal(tide_port_real_create(1, &port), 0);
    for (int i = 0; i < 100; i++) {
        struct inbox inbox = {0};
        struct tide_executor_options options = {.turn = take, .arg = &inbox, .core = -1};
        struct tide_executor *e;
        assert_int_equal(port->ops->executor_start(port, &options, &e), 0);
        if (i % 2 == 0) {
            tide_executor_wake(port, e);
        }
        port->ops->executor_stop(e);
    }
    port->ops->destroy(port);
}

static void an_executor_runs_on_a_hosts_loop(void **state) {
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct inbox inbox = {.stop_at_20000 = &loop};
    struct poster p = {.inbox = &inbox};
    assert_int_equal(tide_port_real_create(1, &p.port), 0);
    struct tide_executor_options options = {
        .turn = take, .pending = has_more, .arg = &inbox, .loop = &loop, .core = -1};
    assert_int_equal(p.port->ops->executor_start(p.port, &options, &p.executor), 0);
    assert_int_equal(inbox.turns, 0); /* only inside the loop */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_many, &p), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(atomic_load(&inbox.seen), 20000);
    pthread_join(thread, NULL);
    p.port->ops->executor_stop(p.executor);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* nothing of ours keeps the loop alive */
    assert_int_equal(uv_loop_close(&loop), 0);
    p.port->ops->destroy(p.port);
}

/* ---- what runs on the executor's thread ---- */

struct errand {
    struct tide_port *port;
    struct tide_executor *executor;
    void (*run)(struct errand *errand);
    const void *input;
    struct tide_listener *listener;
    struct tide_process *process;
    int code, exit_status, signal, fired;
    atomic_bool go, done, ended;
};

static uint64_t errand_turn(void *arg) {
    struct errand *errand = arg;
    if (atomic_load(&errand->go)) {
        atomic_store(&errand->go, false);
        errand->run(errand);
        atomic_store(&errand->done, true);
    }
    return TIDE_NEVER;
}

static void errands_open(struct errand *errand) {
    memset(errand, 0, sizeof *errand);
    assert_int_equal(tide_port_real_create(1, &errand->port), 0);
    struct tide_executor_options options = {.turn = errand_turn, .arg = errand, .core = -1};
    assert_int_equal(errand->port->ops->executor_start(errand->port, &options, &errand->executor),
                     0);
}

static int errand_do(struct errand *errand, void (*run)(struct errand *errand), const void *input) {
    errand->run = run;
    errand->input = input;
    atomic_store(&errand->done, false);
    atomic_store(&errand->go, true);
    tide_executor_wake(errand->port, errand->executor);
    wait_flag(&errand->done);
    return errand->code;
}

static void errands_close(struct errand *errand) {
    errand->port->ops->executor_stop(errand->executor);
    errand->port->ops->destroy(errand->port);
}

/* ---- socket files ---- */

static void ignore_stream(void *arg, struct tide_stream *stream) {
    (void)arg;
    (void)stream;
}

static void do_listen(struct errand *errand) {
    errand->code = errand->port->ops->listen(errand->executor, errand->input, ignore_stream, errand,
                                             &errand->listener);
}

static void do_unlisten(struct errand *errand) {
    errand->port->ops->listener_close(errand->listener);
    errand->code = 0;
}

static void a_stale_socket_file_is_replaced_and_another_file_is_not(void **state) {
    (void)state;
    char directory[] = "/tmp/tide-port-XXXXXX", endpoint[64], *path = endpoint + 5;
    assert_non_null(mkdtemp(directory));
    snprintf(endpoint, sizeof endpoint, "unix:%s/s", directory);
    struct errand errand;
    errands_open(&errand);

    /* what a killed node leaves behind: bound, and nobody listens */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    assert_int_equal(errand_do(&errand, do_listen, endpoint), 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(errand_do(&errand, do_unlisten, NULL), 0);
    assert_int_equal(stat(path, &info), -1); /* unlinked */

    /* a plain file of that name is somebody's data */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(errand_do(&errand, do_listen, endpoint), TIDE_EADDRINUSE);
    assert_int_equal(unlink(path), 0);

    /* a file that took our socket's place is not ours to remove */
    assert_int_equal(errand_do(&errand, do_listen, endpoint), 0);
    assert_int_equal(unlink(path), 0);
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(errand_do(&errand, do_unlisten, NULL), 0);
    assert_int_equal(unlink(path), 0);
    errands_close(&errand);
    assert_int_equal(rmdir(directory), 0);
}

/* ---- children and signals ---- */

static void on_ended(void *arg, int exit_status, int signal_number) {
    struct errand *errand = arg;
    errand->exit_status = exit_status;
    errand->signal = signal_number;
    atomic_store(&errand->ended, true);
}

static void do_start(struct errand *errand) {
    struct tide_process_options options = *(const struct tide_process_options *)errand->input;
    options.ended = on_ended;
    options.arg = errand;
    atomic_store(&errand->ended, false);
    errand->code = errand->port->ops->process_start(errand->executor, &options, &errand->process);
}

static void do_signal(struct errand *errand) {
    errand->code = errand->port->ops->process_signal(errand->process, *(const int *)errand->input);
}

static void do_release(struct errand *errand) {
    errand->port->ops->process_release(errand->process);
}

static void a_child_ends_with_its_status_and_writes_its_output(void **state) {
    (void)state;
    char directory[] = "/tmp/tide-port-XXXXXX", path[64], text[64] = "";
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/out", directory);
    struct errand errand;
    errands_open(&errand);
    const char *const argv[] = {"sh", "-c", "echo $TIDE_TEST; echo err >&2; exit 7", NULL};
    const char *const env[] = {"TIDE_TEST=value", NULL};
    struct tide_process_options options = {
        .argv = argv, .env = env, .output = path, .dies_with_parent = true};
    for (int i = 0; i < 2; i++) { /* the second appends */
        assert_int_equal(errand_do(&errand, do_start, &options), 0);
        assert_true(errand.port->ops->process_id(errand.process) > 1);
        wait_flag(&errand.ended);
        assert_int_equal(errand.exit_status, 7);
        assert_int_equal(errand.signal, 0);
        int number = SIGTERM;
        assert_int_equal(errand_do(&errand, do_signal, &number), TIDE_ENOENT);
        errand_do(&errand, do_release, NULL);
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 20);
    fclose(file);
    assert_string_equal(text, "value\nerr\nvalue\nerr\n");
    assert_int_equal(unlink(path), 0);
    errands_close(&errand);
    assert_int_equal(rmdir(directory), 0);
}

static void a_signal_ends_a_child(void **state) {
    (void)state;
    struct errand errand;
    errands_open(&errand);
    const char *const argv[] = {"sleep", "100", NULL};
    struct tide_process_options options = {.argv = argv};
    assert_int_equal(errand_do(&errand, do_start, &options), 0);
    int number = SIGTERM;
    assert_int_equal(errand_do(&errand, do_signal, &number), 0);
    wait_flag(&errand.ended);
    assert_int_equal(errand.signal, SIGTERM);
    errand_do(&errand, do_release, NULL);
    errands_close(&errand);
}

static void a_child_dies_with_the_thread_that_started_it(void **state) {
    (void)state;
    struct errand errand;
    errands_open(&errand);
    const char *const argv[] = {"sleep", "100", NULL};
    struct tide_process_options options = {.argv = argv, .dies_with_parent = true};
    assert_int_equal(errand_do(&errand, do_start, &options), 0);
    pid_t pid = errand.port->ops->process_id(errand.process);
    struct tide_process *process = errand.process;
    const struct tide_port_ops *ops = errand.port->ops;
    errands_close(&errand);
    assert_true(atomic_load(&errand.ended) && errand.exit_status == -1 && errand.signal == 0); /* unknown from here on */
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid); /* hangs if the child lives on */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ops->process_release(process);
}

static void a_program_that_cannot_start_is_an_error(void **state) {
    (void)state;
    struct errand errand;
    errands_open(&errand);
    static const char *const programs[][2] = {
        {"/nonexistent/program", NULL}, {"tide-no-such-program", NULL}, {"/tmp", NULL}};
    static const int codes[] = {TIDE_ENOENT, TIDE_ENOENT, TIDE_EACCES};
    for (size_t i = 0; i < TIDE_COUNT(programs); i++) {
        struct tide_process_options options = {.argv = programs[i]};
        assert_int_equal(errand_do(&errand, do_start, &options), codes[i]);
    }
    const char *const none[] = {NULL};
    assert_int_equal(errand_do(&errand, do_start, &(struct tide_process_options){.argv = none}),
                     TIDE_EINVAL);
    const char *const argv[] = {"true", NULL};
    struct tide_process_options options = {.argv = argv, .output = "/nonexistent/out"};
    assert_int_equal(errand_do(&errand, do_start, &options), TIDE_ENOENT);
    errands_close(&errand);
}

static void signals_are_counted_and_two_at_once_are_one(void **state) {
    (void)state;
    int last;
    tide_port_signals(true);
    const unsigned before = tide_port_signalled(&last);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGTERM);
    }
    assert_int_equal(tide_port_signalled(&last), before + 1);
    assert_int_equal(last, SIGTERM);
    usleep(250000);
    kill(getpid(), SIGHUP);
    assert_int_equal(tide_port_signalled(&last), before + 2);
    assert_int_equal(last, SIGHUP);
    tide_port_signals(false);
}

static void what_nohup_ignores_stays_ignored(void **state) {
    (void)state;
    int last;
    signal(SIGHUP, SIG_IGN);
    tide_port_signals(true);
    const unsigned before = tide_port_signalled(&last);
    kill(getpid(), SIGHUP);
    assert_int_equal(tide_port_signalled(&last), before);
    tide_port_signals(false);
    kill(getpid(), SIGHUP);
    signal(SIGHUP, SIG_DFL);
}

/* In a child, whose only thread does not look at anything. Returns its exit status. */
static int ended_by_limit(const struct tide_signal_limit *limit, int signal_number, unsigned times) {
    const pid_t child = fork();
    if (child == 0) {
        int last;
        struct tide_signal_limit own = *limit;
        tide_port_signals(true);
        own.count += tide_port_signalled(&last);
        tide_port_signal_limit(&own);
        for (unsigned i = 0; i < times; i++) {
            usleep(210000); /* a signal that comes sooner after another is the same one */
            kill(getpid(), signal_number);
        }
        for (;;) {
        }
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_process_that_looks_at_nothing_is_ended_by_signals(void **state) {
    (void)state;
    struct tide_signal_limit limit = {.count = 2, .killed = "", .unheeded = "", .code = 77};
    assert_int_equal(ended_by_limit(&limit, SIGINT, 2), 77);
    limit.count = 100;
    limit.patience_ns = TIDE_SECOND / 10;
    assert_int_equal(ended_by_limit(&limit, SIGTERM, 1), 77);
}

static void the_process_knows_its_memory_and_environment(void **state) {
    (void)state;
    struct tide_port *port;
    assert_int_equal(tide_port_real_create(0, &port), 0);
    assert_true(port->seed != 0 && !port->simulated);
    assert_true(port->ops->entropy(port) != port->ops->entropy(port));
    assert_true(port->ops->memory_resident(port) > 100000);
    struct tide_machine machine;
    port->ops->machine(port, &machine);
    assert_true(machine.processors >= 1);
    assert_int_equal(strlen(machine.id), 36);
    assert_non_null(port->ops->environment(port, "PATH"));
    assert_null(port->ops->environment(port, "TIDE_NO_SUCH_NAME"));
    uint64_t now = port->ops->now(port);
    assert_true(port->ops->now(port) >= now);
    assert_true(port->ops->wall(port) > UINT64_C(1700000000) * TIDE_SECOND);
    port->ops->destroy(port);
}

/* More reads than the ring has room for, some at once; one goes beyond the end of the file. */
static void reads_in_flight_are_done_each_once(void **state) {
    (void)state;
    enum { NUMBERS = 4096, COUNT = 200, ROOM = 16 };
    struct tide_port *port;
    struct tide_file *file;
    struct tide_read reads[COUNT], *done[ROOM];
    uint32_t numbers[NUMBERS], got[COUNT][4];
    unsigned begun = 0, ended = 0, short_ones = 0;
    char path[] = "/tmp/tide-reads-XXXXXX";
    assert_int_equal(tide_port_real_create(0, &port), 0);
    struct tide_reads *ring = tide_reads_create(port, ROOM);
    if (!ring) {
        port->ops->destroy(port);
        skip(); /* no io_uring */
    }
    close(mkstemp(path));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        numbers[i] = i * 7;
    }
    assert_int_equal(port->ops->file_open(port, path, TIDE_FILE_READ | TIDE_FILE_WRITE, &file), 0);
    assert_int_equal(port->ops->file_write(file, numbers, sizeof numbers, 0), 0);
    while (ended < COUNT) {
        for (; begun < COUNT && begun - ended < ROOM; begun++) {
            const uint64_t offset = begun + 1 == COUNT ? sizeof numbers - 4 : begun * 64;
            reads[begun] = (struct tide_read){
                .file = file, .data = got[begun], .size = sizeof got[begun], .offset = offset, .got = -1};
            tide_reads_begin(ring, &reads[begun]);
        }
        const size_t count = tide_reads_wait(ring, done, ROOM);
        assert_true(count > 0);
        for (size_t i = 0; i < count; i++, ended++) {
            const unsigned place = (unsigned)(done[i] - reads);
            assert_true(place < COUNT && done[i]->size > 0);
            done[i]->size = 0; /* once */
            short_ones += done[i]->got == 4;
            assert_true(done[i]->got == sizeof got[0] || place + 1 == COUNT);
            assert_int_equal(got[place][0], numbers[done[i]->offset / 4]);
        }
    }
    assert_int_equal(short_ones, 1);
    reads[0] = (struct tide_read){.file = file, .data = got[0], .size = sizeof got[0]};
    tide_reads_begin(ring, &reads[0]); /* the end waits for it */
    tide_reads_destroy(ring);
    assert_int_equal(reads[0].got, sizeof got[0]);
    port->ops->file_close(file);
    unlink(path);
    port->ops->destroy(port);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_in_flight_are_done_each_once),
        cmocka_unit_test(no_wake_is_lost),
        cmocka_unit_test(many_threads_wake_one_executor),
        cmocka_unit_test(an_idle_executor_uses_no_processor_time),
        cmocka_unit_test(executors_start_and_stop_a_hundred_times),
        cmocka_unit_test(an_executor_runs_on_a_hosts_loop),
        cmocka_unit_test(a_stale_socket_file_is_replaced_and_another_file_is_not),
        cmocka_unit_test(a_child_ends_with_its_status_and_writes_its_output),
        cmocka_unit_test(a_signal_ends_a_child),
        cmocka_unit_test(a_child_dies_with_the_thread_that_started_it),
        cmocka_unit_test(a_program_that_cannot_start_is_an_error),
        cmocka_unit_test(signals_are_counted_and_two_at_once_are_one),
        cmocka_unit_test(what_nohup_ignores_stays_ignored),
        cmocka_unit_test(a_process_that_looks_at_nothing_is_ended_by_signals),
        cmocka_unit_test(the_process_knows_its_memory_and_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
