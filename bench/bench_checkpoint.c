/*
 * Checkpoints under load: one node, two workers that push rows of Zipf(1.1) keys and end a clock
 * every 100 pushes, at most 4 clocks apart, while generations are written to a directory (--dir,
 * default /tmp). The longest time of one push of 100 keys with and without a checkpoint, by the
 * clock (which on a shared machine shows the others as well) and of the thread's processor (which
 * shows what it spins), what a checkpoint a minute costs in throughput, and how much smaller an
 * incremental generation is. --rows N, of 64 floats each (default 400,000: 102 MB; 4,000,000 are a
 * gigabyte).
 */
#include "actor/actor.h"
#include "bench/report.h"
#include "tide.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    WIDTH = 64,
    KEYS_A_CALL = 100,
    CALLS_A_CLOCK = 100,
    WORKERS = 2,
    STALENESS = 4,
    SAMPLES = 1 << 22
};

static struct {
    struct tide_node *node;
    struct tide_table *table;
    uint64_t rows, *keys; /* samples */
    atomic_uint_fast64_t calls, longest_ns, longest_busy_ns;
    atomic_int clocks[WORKERS];
    atomic_bool stop;
    atomic_uint running;
    char dir[256];
} bench = {.rows = 400000};

static void raise_to(atomic_uint_fast64_t *longest, uint64_t took) {
    if (took > atomic_load_explicit(longest, memory_order_relaxed)) {
        atomic_store_explicit(longest, took, memory_order_relaxed);
    }
}

static void fail_loudly(const char *what) {
    fprintf(stderr, "bench_checkpoint: %s: %s\n", what, tide_error_message());
    exit(1);
}

/* Ranks by inversion of the distribution function, scattered over the keys. */
static void draw_keys(void) {
    double *sum = malloc((bench.rows + 1) * sizeof *sum), total = 0;
    struct tide_random random;
    tide_random_seed(&random, 1);
    bench.keys = malloc(SAMPLES * sizeof *bench.keys);
    for (uint64_t r = 0; r < bench.rows; r++) {
        total += pow((double)(r + 1), -1.1);
        sum[r] = total;
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        double x = tide_random_uniform(&random) * total;
        uint64_t low = 0, high = bench.rows - 1;
        while (low < high) {
            uint64_t middle = (low + high) / 2;
            if (sum[middle] < x) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        bench.keys[i] = low * UINT64_C(7919) % bench.rows;
    }
    free(sum);
}

static int fill_main(void *state) {
    float *rows = calloc(1000 * WIDTH, sizeof *rows);
    uint64_t keys[1000];
    (void)state;
    for (uint64_t k = 0; k < bench.rows; k += 1000) {
        size_t count = bench.rows - k < 1000 ? (size_t)(bench.rows - k) : 1000;
        for (size_t i = 0; i < count; i++) {
            keys[i] = k + i;
        }
        if (tide_table_push(bench.table, keys, count, rows, 0, NULL)) {
            fail_loudly("fill");
        }
    }
    free(rows);
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

static int worker_main(void *state) {
    const uint32_t number = (uint32_t)(uintptr_t)state;
    float *rows = calloc(KEYS_A_CALL * WIDTH, sizeof *rows);
    size_t at = number * (SAMPLES / WORKERS);
    if (tide_worker_begin(bench.node, number, 0)) {
        fail_loudly("begin");
    }
    for (unsigned i = 1; !atomic_load_explicit(&bench.stop, memory_order_relaxed); i++) {
        uint64_t began = report_now(), busy = report_processor_time();
        if (tide_table_push(bench.table, bench.keys + at, KEYS_A_CALL, rows, 0, NULL)) {
            fail_loudly("push");
        }
        raise_to(&bench.longest_ns, report_now() - began);
        raise_to(&bench.longest_busy_ns, report_processor_time() - busy);
        atomic_fetch_add_explicit(&bench.calls, 1, memory_order_relaxed);
        at = (at + KEYS_A_CALL) % (SAMPLES - KEYS_A_CALL);
        if (i % CALLS_A_CLOCK == 0) {
            int clock = tide_clock();
            if (clock < 0) {
                fail_loudly("clock");
            }
            atomic_store(&bench.clocks[number], clock);
            while (clock > atomic_load(&bench.clocks[1 - number]) + STALENESS &&
                   !atomic_load_explicit(&bench.stop, memory_order_relaxed)) {
                (void)tide_sleep(50000);
            }
        }
    }
    free(rows);
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

struct saved {
    struct tide_checkpoint_info info;
    double seconds;
};

static int save_main(void *state) {
    struct saved *saved = state;
    const struct tide_checkpoint_options options = {.dir = bench.dir, .cut = TIDE_CUT_AUTO};
    struct tide_checkpoint *c;
    uint64_t began = report_now();
    if (tide_checkpoint_start(bench.node, &options, &c)) {
        fail_loudly("checkpoint");
    }
    saved->info = *tide_checkpoint_get(c);
    if (tide_checkpoint_commit(c, NULL, 0)) {
        fail_loudly("commit");
    }
    saved->seconds = (double)(report_now() - began) / 1e9;
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

static int create_main(void *state) {
    const struct tide_table_options options = {
        .name = "w", .key_count = bench.rows, .width = WIDTH};
    (void)state;
    if (tide_table_create(bench.node, &options, &bench.table)) {
        fail_loudly("create");
    }
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

static void spawn(tide_fiber_main run, void *state, uint8_t role, unsigned thread) {
    const struct tide_actor_options options = {.type = "bench",
                                               .run = run,
                                               .state = state,
                                               .role = role,
                                               .thread = (uint8_t)thread,
                                               .stack_bytes = 1 << 20};
    atomic_fetch_add(&bench.running, 1);
    if (tide_spawn(bench.node, &options, NULL)) {
        fail_loudly("spawn");
    }
}

static void wait_running(unsigned count) {
    while (atomic_load(&bench.running) > count) {
        usleep(1000);
    }
}

static void alone(tide_fiber_main run, void *state) {
    spawn(run, state, TIDE_ROLE_CONTROL, 0);
    wait_running(0);
}

/* Calls a second and the longest of them while `seconds` pass, or while a checkpoint is written. */
static double watch(double seconds, struct saved *saved, double *longest_ms, double *busy_ms) {
    atomic_store(&bench.longest_ns, 0);
    atomic_store(&bench.longest_busy_ns, 0);
    uint64_t calls = atomic_load(&bench.calls), began = report_now();
    if (saved) {
        spawn(save_main, saved, TIDE_ROLE_CONTROL, 0);
        wait_running(WORKERS);
    } else {
        usleep((useconds_t)(seconds * 1e6));
    }
    double took = (double)(report_now() - began) / 1e9;
    *longest_ms = (double)atomic_load(&bench.longest_ns) / 1e6;
    *busy_ms = (double)atomic_load(&bench.longest_busy_ns) / 1e6;
    return (double)(atomic_load(&bench.calls) - calls) / took;
}

static void under_load(void) {
    static const char *const names[] = {"full", "incremental, 5 s of pushes later"};
    for (unsigned w = 0; w < WORKERS; w++) {
        spawn(worker_main, (void *)(uintptr_t)w, TIDE_ROLE_COMPUTE, w);
    }
    for (int i = 0; i < 2; i++) {
        struct saved saved = {0};
        char what[80];
        double quiet_ms, longest_ms, quiet_busy_ms, busy_ms;
        double rate = watch(5, NULL, &quiet_ms, &quiet_busy_ms),
               during = watch(0, &saved, &longest_ms, &busy_ms);
        snprintf(what, sizeof what, "%s: time to write", names[i]);
        report_row(what, "s", saved.seconds);
        snprintf(what, sizeof what, "%s: bytes", names[i]);
        report_row(what, "MB", (double)saved.info.bytes / 1e6);
        report_row("  longest push of 100 keys before", "ms", quiet_ms);
        report_row("  longest push of 100 keys meanwhile", "ms", longest_ms);
        report_row("  the same of the processor, before", "ms", quiet_busy_ms);
        report_row("  the same of the processor, meanwhile", "ms", busy_ms);
        report_row("  throughput meanwhile / before", "", during / rate);
        report_row("  loss at one a minute", "%",
                   (rate - during) * saved.seconds / rate / 60 * 100);
    }
    atomic_store(&bench.stop, true);
    wait_running(0);
}

static int touch_main(void *state) {
    const size_t count = *(const size_t *)state;
    float row[WIDTH] = {0};
    for (uint64_t k = 0; count == 0 && k < bench.rows; k += 100) {
        (void)tide_table_push(bench.table, &k, 1, row, 0, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        (void)tide_table_push(bench.table, bench.keys + i % SAMPLES, 1, row, 0, NULL);
    }
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

/* `count` pushes of Zipf keys, or 0: every hundredth row; then a generation. */
static void incremental(const char *what, size_t count) {
    struct saved saved = {0};
    alone(touch_main, &count);
    alone(save_main, &saved);
    report_row(what, "",
               (double)saved.info.bytes / (double)(bench.rows * (WIDTH * sizeof(float) + 8)));
}

int main(int argc, char **argv) {
    const char *base = "/tmp";
    report_init(argc, argv, "checkpoint");
    for (int i = 1; i + 1 < argc; i++) {
        bench.rows = strcmp(argv[i], "--rows") == 0 ? strtoull(argv[i + 1], NULL, 10) : bench.rows;
        base = strcmp(argv[i], "--dir") == 0 ? argv[i + 1] : base;
    }
    snprintf(bench.dir, sizeof bench.dir, "%s/tide-bench-checkpoint-%d", base, (int)getpid());
    draw_keys();
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    const struct tide_node_options options = {.cluster = "bench", .workers = WORKERS};
    if (tide_node_create(&options, &bench.node)) {
        fail_loudly("node");
    }
    alone(create_main, NULL);
    alone(fill_main, NULL);
    under_load();
    struct saved before = {0};
    alone(save_main, &before);
    incremental("bytes / full: 1 % of the rows pushed", 0);
    incremental("bytes / full: a quarter as many pushes as rows", bench.rows / 4);
    incremental("bytes / full: as many pushes as rows", bench.rows);
    tide_node_destroy(bench.node, TIDE_SECOND);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", bench.dir);
    return system(command);
}
