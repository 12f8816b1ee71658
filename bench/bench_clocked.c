/*
 * Tables with clocks, in the shape of the figures published for Bosen: 10,000 rows of 100 floats,
 * per clock and thread 50,000 reads of one element of a random row, 50,000 increments of one
 * element, 5,000 of a whole row, then clock() and the first read of the next clock. Two nodes in
 * one process over a Unix socket: one is the home of all rows, the workers are on the other, so
 * every row is a copy. Medians over clocks; operations in time of the thread's processor, clocks in
 * real time, and what of it the worker's own thread computed (the rest it waited, or others ran).
 *
 * What a second thread costs the first: in each clock thread 0 does its work alone, then both do
 * theirs on the same table. The medians of the ratios are of neighbouring moments, so they say it
 * on a busy machine too.
 */
#include "bench/report.h"
#include "store/core/table.h"
#include "tide/clock.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    ROWS = 10000,
    WIDTH = 100,
    GETS = 50000,
    INCS = 50000,
    DENSE = 5000,
    CLOCKS = 15,
    THREADS_MAX = 2
};

struct costs { /* ns an operation */
    double get[CLOCKS], inc[CLOCKS], dense[CLOCKS];
};

struct bench {
    struct tide_node *node;
    const char *table;
    unsigned threads, number;
    bool turns; /* thread 0 alone, then all */
    atomic_uint *met, *done;
    unsigned meetings;
    struct costs costs, alone;
    double clock[CLOCKS], own[CLOCKS];
};

static void fail_loudly(const char *what) {
    fprintf(stderr, "bench_clocked: %s: %s\n", what, tide_error_message());
    exit(1);
}

static double gets(struct tide_table *table, struct tide_random *random, float *sink) {
    uint64_t since = report_time_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < GETS; i++) {
        const float *row;
        struct tide_table_read read;
        uint64_t key = tide_random_next(random) % ROWS;
        if (tide_table_read_begin(table, key, &row, &read)) {
            fail_loudly("read");
        }
        *sink += row[key % WIDTH];
        tide_table_read_end(&read);
    }
    return (double)(report_time_of(CLOCK_THREAD_CPUTIME_ID) - since) / GETS;
}

static double incs(struct tide_table *table, struct tide_random *random) {
    uint64_t since = report_time_of(CLOCK_THREAD_CPUTIME_ID);
    const float one = 1;
    for (int i = 0; i < INCS; i++) {
        uint64_t key = tide_random_next(random) % ROWS;
        uint32_t column = (uint32_t)(key % WIDTH);
        if (tide_table_add(table, key, &column, &one, 1)) {
            fail_loudly("add");
        }
    }
    return (double)(report_time_of(CLOCK_THREAD_CPUTIME_ID) - since) / INCS;
}

static double dense(struct tide_table *table, struct tide_random *random) {
    uint64_t since = report_time_of(CLOCK_THREAD_CPUTIME_ID);
    float ones[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        ones[i] = 1;
    }
    for (int i = 0; i < DENSE; i++) {
        uint64_t key = tide_random_next(random) % ROWS;
        if (tide_table_push(table, &key, 1, ones, NULL)) {
            fail_loudly("push");
        }
    }
    return (double)(report_time_of(CLOCK_THREAD_CPUTIME_ID) - since) / DENSE;
}

static void work(struct costs *costs, int i, struct tide_table *table, struct tide_random *random,
                 float *sink) {
    costs->get[i] = gets(table, random, sink);
    costs->inc[i] = incs(table, random);
    costs->dense[i] = dense(table, random);
}

/* All threads come here before one continues. */
static void meet(struct bench *b) {
    b->meetings++;
    atomic_fetch_add(b->met, 1);
    while (atomic_load(b->met) < b->meetings * b->threads) {
        (void)tide_sleep(50000);
    }
}

static int worker_main(void *state) {
    struct bench *b = state;
    struct tide_table *table;
    struct tide_random random;
    float sink = 0;
    tide_random_seed(&random, b->number);
    if (tide_table_find(b->node, b->table, &table) || tide_worker_begin(b->node, b->number, 0)) {
        fail_loudly("begin");
    }
    meet(b);
    (void)gets(table, &random, &sink); /* the copies come */
    for (int i = 0; i < CLOCKS; i++) {
        if (b->turns) {
            meet(b);
            if (b->number == 0) {
                (void)tide_sleep(20 * TIDE_SECOND / 1000); /* what the clock sent is there */
                (void)gets(table, &random, &sink);         /* as warm as it is for both */
                work(&b->alone, i, table, &random, &sink);
            }
            meet(b);
        }
        work(&b->costs, i, table, &random, &sink);
        uint64_t since = report_time_of(CLOCK_MONOTONIC),
                 own = report_time_of(CLOCK_THREAD_CPUTIME_ID), key = tide_random_next(&random) % ROWS;
        float row[WIDTH];
        if (tide_clock() < 0 || tide_table_pull(table, &key, 1, row, NULL)) {
            fail_loudly("clock");
        }
        b->clock[i] = (double)(report_time_of(CLOCK_MONOTONIC) - since) / 1e6;
        b->own[i] = (double)(report_time_of(CLOCK_THREAD_CPUTIME_ID) - own) / 1e6;
        sink += row[0];
    }
    tide_worker_end();
    atomic_fetch_add(b->done, 1);
    return sink == 0.5f; /* never: the sums are of whole numbers */
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, CLOCKS, sizeof *values, by_value);
    return values[CLOCKS / 2];
}

static void row(const char *model, unsigned threads, const char *of, const char *unit,
                double value) {
    char what[80];
    snprintf(what, sizeof what, "%s, %u thread%s: %s", model, threads, threads > 1 ? "s" : "", of);
    report_row(what, unit, value);
}

static void report_costs(struct bench *b, const char *model) {
    row(model, b->threads, "get", "ns", median(b->costs.get));
    row(model, b->threads, "increment of 1", "ns", median(b->costs.inc));
    row(model, b->threads, "increment of 100", "ns", median(b->costs.dense));
    row(model, b->threads, "clock + first pull", "ms", median(b->clock));
    row(model, b->threads, "of it the worker's own", "ms", median(b->own));
}

static double ratio(const double *together, const double *alone) {
    double ratios[CLOCKS];
    for (int i = 0; i < CLOCKS; i++) {
        ratios[i] = together[i] / alone[i];
    }
    return median(ratios);
}

static void report_ratios(struct bench *b, const char *model) {
    row(model, b->threads, "against alone: get", "x", ratio(b->costs.get, b->alone.get));
    row(model, b->threads, "increment of 1", "x", ratio(b->costs.inc, b->alone.inc));
    row(model, b->threads, "increment of 100", "x", ratio(b->costs.dense, b->alone.dense));
}

struct made {
    struct tide_node *node;
    const struct tide_table_options *options;
    atomic_uint done;
};

static int create_main(void *state) {
    struct made *made = state;
    struct tide_table *table;
    if (tide_table_create(made->node, made->options, &table)) {
        fail_loudly("create");
    }
    atomic_store(&made->done, 1);
    return 0;
}

static void spawn(struct tide_node *node, tide_fiber_main run, void *state, unsigned thread) {
    struct tide_actor_options actor = {.type = "bench",
                                       .run = run,
                                       .state = state,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .thread = (uint8_t)thread,
                                       .stack_bytes = 1 << 20};
    if (tide_spawn(node, &actor, NULL)) {
        fail_loudly("spawn");
    }
}

static void run(struct tide_node *home, struct tide_node *node, const char *model,
                unsigned threads, bool turns) {
    static unsigned tables;
    char name[32];
    snprintf(name, sizeof name, "w%u", tables++);
    struct tide_table_options options = {.name = name, .key_count = ROWS, .width = WIDTH};
    if (tide_consistency_parse(model, &options.consistency)) {
        fail_loudly("model");
    }
    struct made made = {.node = home, .options = &options};
    spawn(home, create_main, &made, 0);
    while (!atomic_load(&made.done)) {
        usleep(1000);
    }
    atomic_uint met = 0, done = 0;
    struct bench *benches = calloc(threads, sizeof *benches);
    for (unsigned i = 0; i < threads; i++) {
        benches[i] = (struct bench){.node = node,
                                    .table = name,
                                    .threads = threads,
                                    .number = i,
                                    .turns = turns,
                                    .met = &met,
                                    .done = &done};
        spawn(node, worker_main, &benches[i], i);
    }
    while (atomic_load(&done) < threads) {
        usleep(1000);
    }
    (turns ? report_ratios : report_costs)(&benches[0], model);
    free(benches);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "clocked");
    char directory[] = "/tmp/tide-bench-XXXXXX", listen[2][128];
    if (!mkdtemp(directory)) {
        return 1;
    }
    struct tide_node *home, *node;
    struct tide_node_options options = {.cluster = "bench", .workers = 1};
    for (int i = 0; i < 2; i++) {
        snprintf(listen[i], sizeof listen[i], "unix:%s/%d", directory, i);
    }
    options.name = "home";
    options.listen = listen[0];
    if (tide_node_create(&options, &home)) {
        fail_loudly("node");
    }
    options.name = "workers";
    options.listen = listen[1];
    options.join = listen[0];
    options.workers = THREADS_MAX;
    options.no_store = true;
    if (tide_node_create(&options, &node)) {
        fail_loudly("node");
    }
    while (!tide_store_synced(tide_store_of(node))) {
        usleep(1000);
    }
    static const char *const models[] = {"essp:0", "essp:2", "ssp:0", "ssp:2"};
    for (size_t m = 0; m < TIDE_COUNT(models); m++) {
        for (unsigned threads = 1; threads <= THREADS_MAX; threads++) {
            run(home, node, models[m], threads, false);
        }
    }
    run(home, node, "essp:2", THREADS_MAX, true);
    tide_node_destroy(node, TIDE_SECOND);
    tide_node_destroy(home, TIDE_SECOND);
    rmdir(directory);
    return 0;
}
