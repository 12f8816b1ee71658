/*
 * The real port: clocks, entropy, environment, and the table of operations. The loop is in
 * real_executor.c, sockets in real_stream.c and real_address.c, files in real_file.c, children and
 * signals in real_process.c.
 */
#include "port/real.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    TIDE_ASSERT(clock_gettime(id, &t) == 0);
    return (uint64_t)t.tv_sec * TIDE_SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t real_now(struct tide_port *port) {
    (void)port;
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t real_wall(struct tide_port *port) {
    (void)port;
    return clock_ns(CLOCK_REALTIME);
}

static uint64_t log_clock(void) {
    return clock_ns(CLOCK_REALTIME);
}

static uint64_t real_entropy(struct tide_port *port) {
    (void)port;
    uint64_t value = 0;
    ssize_t n;
    do {
        n = getrandom(&value, sizeof value, 0);
    } while (n < 0 && errno == EINTR);
    TIDE_ASSERT(n == (ssize_t)sizeof value); /* up to 256 bytes are never cut short */
    return value;
}

static uint32_t real_user(struct tide_port *port) {
    (void)port;
    return (uint32_t)geteuid();
}

static int real_pid(struct tide_port *port) {
    (void)port;
    return (int)getpid();
}

static void real_pause(struct tide_port *port, uint64_t ns) {
    struct tide_real_port *real = (struct tide_real_port *)port;
    if (real->hosted) {
        uv_run(real->hosted, UV_RUN_NOWAIT);
    }
    struct timespec t = {.tv_sec = (time_t)(ns / TIDE_SECOND), .tv_nsec = (long)(ns % TIDE_SECOND)};
    (void)nanosleep(&t, NULL);
}

static uint64_t real_executor_occupy(struct tide_executor *executor, uint64_t ns) {
    (void)executor;
    struct timespec t = {.tv_sec = (time_t)(ns / TIDE_SECOND), .tv_nsec = (long)(ns % TIDE_SECOND)};
    (void)nanosleep(&t, NULL);
    return 0;
}

static void real_destroy(struct tide_port *port) {
    tide_free(port);
}

static void real_machine(struct tide_port *port, struct tide_machine *out) {
    (void)port;
    uint64_t memory, milli;
    tide__real_limits(&memory, &milli);
    *out = (struct tide_machine){.processors = uv_available_parallelism()};
    if (milli / 1000 < out->processors) {
        out->processors = milli < 2000 ? 1 : (unsigned)(milli / 1000);
    }
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (fscanf(file, "%39s", out->id) != 1) {
            out->id[0] = 0;
        }
        (void)fclose(file);
    }
}

/* The machine's, or less where a control group says so. */
static uint64_t real_memory_total(struct tide_port *port) {
    (void)port;
    uint64_t group, milli;
    const uint64_t machine = uv_get_total_memory();
    tide__real_limits(&group, &milli);
    return group < machine ? group : machine;
}

static uint64_t real_memory_resident(struct tide_port *port) {
    (void)port;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) {
        return 0;
    }
    unsigned long long total = 0, resident = 0;
    int fields = fscanf(file, "%llu %llu", &total, &resident);
    (void)fclose(file);
    return fields == 2 ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static const char *real_environment(struct tide_port *port, const char *name) {
    (void)port;
    return getenv(name);
}

int tide__real_fail(int error_number, const char *what, const char *subject) {
    char text[128];
    /* strerror_r comes in two shapes, strerror is not for threads; libuv's is thread-safe and
     * the same everywhere. */
    uv_strerror_r(-error_number, text, sizeof text);
    return tide_fail(tide__error_from_errno(-error_number), "%s %s: %s", what, subject, text);
}

static const struct tide_port_ops real_ops = {
    .now = real_now,
    .wall = real_wall,
    .entropy = real_entropy,
    .destroy = real_destroy,
    .pause = real_pause,
    .executor_occupy = real_executor_occupy,
    .executor_start = tide__real_executor_start,
    .executor_wake = tide__real_executor_wake,
    .executor_interrupt = tide__real_executor_interrupt,
    .executor_stop = tide__real_executor_stop,
    .listen = tide__real_listen,
    .listener_endpoint = tide__real_listener_endpoint,
    .listener_close = tide__real_listener_close,
    .connect = tide__real_connect,
    .stream_accept = tide__real_stream_accept,
    .stream_write = tide__real_stream_write,
    .stream_resume = tide__real_stream_resume,
    .stream_close = tide__real_stream_close,
    .stream_peer = tide__real_stream_peer,
    .address_towards = tide__real_address_towards,
    .file_open = tide__real_file_open,
    .file_read = tide__real_file_read,
    .file_write = tide__real_file_write,
    .file_sync = tide__real_file_sync,
    .file_close = tide__real_file_close,
    .file_info = tide__real_file_info,
    .file_rename = tide__real_file_rename,
    .directory_sync = tide__real_directory_sync,
    .file_unlink = tide__real_file_unlink,
    .file_mkdir = tide__real_file_mkdir,
    .file_list = tide__real_file_list,
    .process_start = tide__real_process_start,
    .process_signal = tide__real_process_signal,
    .process_id = tide__real_process_id,
    .process_release = tide__real_process_release,
    .machine = real_machine,
    .memory_resident = real_memory_resident,
    .memory_total = real_memory_total,
    .user = real_user,
    .pid = real_pid,
    .process_state = tide__real_process_state,
    .environment = real_environment,
};

int tide_port_real_create(uint64_t seed, struct tide_port **out) {
    struct tide_real_port *real = tide_alloc_zero(1, sizeof *real);
    if (!real) {
        return TIDE_ENOMEM;
    }
    struct tide_port *port = &real->base;
    port->ops = &real_ops;
    port->seed = seed != 0 ? seed : real_entropy(port);
    tide__log_set_clock(log_clock);
    *out = port;
    return 0;
}
