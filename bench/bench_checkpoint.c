/*
 * Checkpoints under load: one node, two workers that in turn push and pull 100 rows of Zipf(1.1)
 * keys and end a clock every 100 calls, at most 4 clocks apart, while generations are written to a
 * directory (--dir, default /tmp). A period of --seconds (default 10; 60 is a checkpoint a minute)
 * goes by, with one generation begun in the middle of it, for a full one and for an incremental
 * one. Told is how long pushes, pulls and ends of clocks took while it was written and otherwise,
 * in the same period; what the period lost in throughput; and, which holds on a shared machine too,
 * the processor time that workers took for a call and all other threads took together. At last, how
 * much smaller incremental generations are. --rows N, of 64 floats each (default 400,000: 102 MB;
 * 4,000,000 are a gigabyte); --hashed: keys in a hashed table.
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
    SAMPLES = 1 << 22,
    BUCKETS = 400, /* 16 an octave from 1 us on: an answer is 4.4 % too long at most */
    BUCKETS_AN_OCTAVE = 16
};

enum kind { PUSH, PULL, CLOCK, KINDS };
static const char *const kind_names[] = {"push", "pull", "end of a clock"};

/* One worker's thread writes, the main thread reads. */
struct times {
    atomic_uint_fast64_t buckets[BUCKETS], longest_ns, longest_busy_ns;
};

static struct worker {
    struct times times[2][KINDS]; /* [a checkpoint is in flight] */
    atomic_uint_fast64_t calls, busy_ns;
} workers[WORKERS];

static struct {
    struct tide_node *node;
    struct tide_table *table;
    uint64_t rows, *keys; /* samples */
    double seconds;
    atomic_int clocks[WORKERS];
    atomic_bool stop, under_way;
    atomic_uint running;
    bool hashed;
    char dir[256];
} bench = {.rows = 400000, .seconds = 10};

static void raise_to(atomic_uint_fast64_t *longest, uint64_t took) {
    if (took > atomic_load_explicit(longest, memory_order_relaxed)) {
        atomic_store_explicit(longest, took, memory_order_relaxed);
    }
}

static void note(struct times *times, uint64_t took, uint64_t busy) {
    double octaves = log2((double)(took < 1000 ? 1000 : took) / 1000);
    size_t bucket = (size_t)(octaves * BUCKETS_AN_OCTAVE);
    atomic_fetch_add_explicit(&times->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1], 1,
                              memory_order_relaxed);
    raise_to(&times->longest_ns, took);
    raise_to(&times->longest_busy_ns, busy);
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
        if (tide_table_push(bench.table, keys, count, rows, NULL)) {
            fail_loudly("fill");
        }
    }
    free(rows);
    atomic_fetch_sub(&bench.running, 1);
    return 0;
}

/* One call of a worker, timed. */
static void timed(struct worker *w, enum kind kind, const uint64_t *keys, float *rows, int *clock) {
    uint64_t began = report_now(), busy = report_processor_time();
    bool under_way = atomic_load_explicit(&bench.under_way, memory_order_relaxed);
    int code = kind == PUSH   ? tide_table_push(bench.table, keys, KEYS_A_CALL, rows, NULL)
               : kind == PULL ? tide_table_pull(bench.table, keys, KEYS_A_CALL, rows, NULL)
                              : (*clock = tide_clock());
    if (code < 0) {
        fail_loudly(kind_names[kind]);
    }
    busy = report_processor_time() - busy;
    atomic_fetch_add_explicit(&w->busy_ns, busy, memory_order_relaxed);
    /* begun before or ended after counts as meanwhile */
    under_way |= atomic_load_explicit(&bench.under_way, memory_order_relaxed);
    note(&w->times[under_way][kind], report_now() - began, busy);
}

static int worker_main(void *state) {
    const uint32_t number = (uint32_t)(uintptr_t)state;
    struct worker *w = &workers[number];
    float *deltas = calloc(KEYS_A_CALL * WIDTH, sizeof *deltas),
          *rows = calloc(KEYS_A_CALL * WIDTH, sizeof *rows);
    size_t at = number * (SAMPLES / WORKERS);
    int clock = 0;
    if (tide_worker_begin(bench.node, number, 0)) {
        fail_loudly("begin");
    }
    for (unsigned i = 1; !atomic_load_explicit(&bench.stop, memory_order_relaxed); i++) {
        timed(w, i % 2 ? PUSH : PULL, bench.keys + at, i % 2 ? deltas : rows, NULL);
        atomic_fetch_add_explicit(&w->calls, 1, memory_order_relaxed);
        at = (at + KEYS_A_CALL) % (SAMPLES - KEYS_A_CALL);
        if (i % CALLS_A_CLOCK == 0) {
            timed(w, CLOCK, NULL, NULL, &clock);
            atomic_store(&bench.clocks[number], clock);
            while (clock > atomic_load(&bench.clocks[1 - number]) + STALENESS &&
                   !atomic_load_explicit(&bench.stop, memory_order_relaxed)) {
                (void)tide_sleep(50000);
            }
        }
    }
    free(deltas);
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
    const struct tide_table_options options = {.name = "w",
                                               .keys = bench.hashed ? TIDE_KEYS_HASHED
                                                                    : TIDE_KEYS_DENSE,
                                               .key_count = bench.hashed ? 0 : bench.rows,
                                               .width = WIDTH};
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

/* ---- a period with one checkpoint ---- */

static uint64_t calls_made(void) {
    uint64_t sum = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
        sum += atomic_load(&workers[w].calls);
    }
    return sum;
}

static uint64_t workers_busy(void) {
    uint64_t sum = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
        sum += atomic_load(&workers[w].busy_ns);
    }
    return sum;
}

/* A stretch of time, or the sum of several. */
struct stretch {
    double seconds, calls, busy, process; /* busy: of workers in calls; process: of all threads */
};

static struct stretch now(void) {
    return (struct stretch){.seconds = (double)report_now() / 1e9,
                            .calls = (double)calls_made(),
                            .busy = (double)workers_busy() / 1e9,
                            .process = (double)report_time_of(CLOCK_PROCESS_CPUTIME_ID) / 1e9};
}

static void add_since(struct stretch *sum, const struct stretch *since) {
    const struct stretch to = now();
    sum->seconds += to.seconds - since->seconds;
    sum->calls += to.calls - since->calls;
    sum->busy += to.busy - since->busy;
    sum->process += to.process - since->process;
}

static void quiet(double seconds, struct stretch *sum) {
    const struct stretch begin = now();
    usleep((useconds_t)(seconds * 1e6));
    add_since(sum, &begin);
}

static void forget_times(void) {
    for (unsigned w = 0; w < WORKERS; w++) {
        for (int k = 0; k < 2 * KINDS; k++) {
            struct times *t = &workers[w].times[k / KINDS][k % KINDS];
            atomic_store(&t->longest_ns, 0);
            atomic_store(&t->longest_busy_ns, 0);
            for (size_t i = 0; i < BUCKETS; i++) {
                atomic_store(&t->buckets[i], 0);
            }
        }
    }
}

/* The end of the bucket below which `share` of the times of all workers lie, in us. */
static double quantile(bool under_way, enum kind kind, double share) {
    double all = 0, seen = 0;
    for (size_t i = 0; i < WORKERS * BUCKETS; i++) {
        all +=
            (double)atomic_load(&workers[i / BUCKETS].times[under_way][kind].buckets[i % BUCKETS]);
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (unsigned w = 0; w < WORKERS; w++) {
            seen += (double)atomic_load(&workers[w].times[under_way][kind].buckets[i]);
        }
        if (seen >= all * share) {
            return exp2((double)(i + 1) / BUCKETS_AN_OCTAVE);
        }
    }
    return 0;
}

static void report_times(bool under_way) {
    for (enum kind kind = 0; kind < KINDS; kind++) {
        static const double shares[] = {0.5, 0.99, 0.999};
        char what[80];
        uint64_t longest = 0, longest_busy = 0;
        for (unsigned w = 0; w < WORKERS; w++) {
            const struct times *t = &workers[w].times[under_way][kind];
            uint64_t wall = atomic_load(&t->longest_ns), busy = atomic_load(&t->longest_busy_ns);
            longest = wall > longest ? wall : longest;
            longest_busy = busy > longest_busy ? busy : longest_busy;
        }
        const char *when = under_way ? "meanwhile" : "otherwise";
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            snprintf(what, sizeof what, "  %s, %s: p%g", kind_names[kind], when, shares[i] * 100);
            report_row(what, "us", quantile(under_way, kind, shares[i]));
        }
        snprintf(what, sizeof what, "  %s, %s: longest", kind_names[kind], when);
        report_row(what, "us", (double)longest / 1e3);
        snprintf(what, sizeof what, "  %s, %s: longest of processor", kind_names[kind], when);
        report_row(what, "us", (double)longest_busy / 1e3);
    }
}

static void period(const char *name) {
    struct saved saved = {0};
    struct stretch without = {0}, with = {0};
    char what[80];
    forget_times();
    quiet(bench.seconds / 2, &without);
    const struct stretch begin = now();
    atomic_store(&bench.under_way, true);
    spawn(save_main, &saved, TIDE_ROLE_CONTROL, 0);
    wait_running(WORKERS);
    atomic_store(&bench.under_way, false);
    add_since(&with, &begin);
    double rest = bench.seconds / 2 - with.seconds;
    quiet(rest > 0 ? rest : 0, &without);
    const double rate = without.calls / without.seconds, took = with.seconds + without.seconds,
                 others = (without.process - without.busy) / without.seconds;
    snprintf(what, sizeof what, "%s: time to write", name);
    report_row(what, "s", saved.seconds);
    snprintf(what, sizeof what, "%s: bytes", name);
    report_row(what, "MB", (double)saved.info.bytes / 1e6);
    report_times(false);
    report_times(true);
    report_row("  throughput meanwhile / otherwise", "", with.calls / with.seconds / rate);
    report_row("  period", "s", took);
    report_row("  throughput lost in the period", "%",
               (1 - (with.calls + without.calls) / (rate * took)) * 100);
    report_row("  the same at one a minute", "%",
               (1 - with.calls / (rate * with.seconds)) * with.seconds / 60 * 100);
    report_row("  processor time of a call, meanwhile / otherwise", "",
               with.busy / with.calls / (without.busy / without.calls));
    report_row("  processor time of the other threads for it", "s",
               with.process - with.busy - others * with.seconds);
}

static void under_load(void) {
    for (unsigned w = 0; w < WORKERS; w++) {
        spawn(worker_main, (void *)(uintptr_t)w, TIDE_ROLE_COMPUTE, w);
    }
    struct stretch warm_up = {0};
    quiet(1, &warm_up);
    period("full");
    period("incremental");
    atomic_store(&bench.stop, true);
    wait_running(0);
}

static int touch_main(void *state) {
    const size_t count = *(const size_t *)state;
    float row[WIDTH] = {0};
    for (uint64_t k = 0; count == 0 && k < bench.rows; k += 100) {
        (void)tide_table_push(bench.table, &k, 1, row, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        (void)tide_table_push(bench.table, bench.keys + i % SAMPLES, 1, row, NULL);
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
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bench.rows = strcmp(argv[i], "--rows") == 0 ? strtoull(value, NULL, 10) : bench.rows;
        bench.seconds = strcmp(argv[i], "--seconds") == 0 ? strtod(value, NULL) : bench.seconds;
        bench.hashed |= strcmp(argv[i], "--hashed") == 0;
        base = strcmp(argv[i], "--dir") == 0 ? value : base;
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
