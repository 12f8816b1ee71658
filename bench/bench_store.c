/*
 * The store. Local rows: one thread on 20,000 keys (5,000 for 1000 floats), shuffled lists of 100
 * keys a call, beside a copy of random rows of the same size in the same run, in time of that
 * thread's processor. With --net unix|tcp: two processes, remote rows: 64 calls outstanding x 100
 * keys, and synchronous pulls of one key; rows that are relocated; copies of hot keys, and of rows
 * for the case of a death; --only strict|relocation|copies|remote: one of these groups.
 */
#include "bench/bare_stream.h"
#include "bench/report.h"
#include "store/owner.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LISTS = 4096, KEYS_A_CALL = 100, OUTSTANDING = 64 };
#define MEASURE_NS UINT64_C(400000000)

/* Keys a second of `keys_a_call` keys and `calls` since `start`; 0 until enough was measured. Looks
 * at the clock only now and then. */
static double rate_since(uint64_t start, uint64_t calls, size_t keys_a_call) {
    if (calls % (keys_a_call > 1 ? 64 : 1024)) {
        return 0;
    }
    uint64_t elapsed = report_processor_time() - start;
    return elapsed < MEASURE_NS ? 0 : (double)(calls * keys_a_call) / (double)elapsed * 1e9;
}

static void fail_loudly(const char *what) {
    fprintf(stderr, "bench_store: %s: %s\n", what, tide_error_message());
    exit(1);
}

/* ---- local ---- */

static uint64_t *key_lists(size_t lists, size_t keys_a_call, uint64_t key_count) {
    uint64_t *keys = malloc(lists * keys_a_call * sizeof *keys);
    struct tide_random random;
    tide_random_seed(&random, 1);
    for (size_t i = 0; i < lists * keys_a_call; i++) {
        keys[i] = tide_random_below(&random, key_count);
    }
    return keys;
}

static double copy_rows(const uint64_t *lists, size_t keys_a_call, uint64_t key_count, size_t width,
                        bool in) {
    float *table = calloc(key_count * width, sizeof *table),
          *rows = calloc(keys_a_call * width, sizeof *rows);
    memset(table, 1, key_count * width * sizeof *table);
    uint64_t start = report_processor_time();
    double rate = 0;
    for (size_t i = 0; rate == 0; i++) {
        const uint64_t *list = lists + i % LISTS * keys_a_call;
        for (size_t j = 0; j < keys_a_call; j++) {
            float *row = table + list[j] * width, *mine = rows + j * width;
            memcpy(in ? row : mine, in ? mine : row, width * sizeof *row);
        }
        rate = rate_since(start, i + 1, keys_a_call);
    }
    free(table);
    free(rows);
    return rate;
}

static double run_local(struct tide_table *table, const uint64_t *lists, size_t keys_a_call,
                        bool in) {
    float *rows = calloc(keys_a_call * table->width, sizeof *rows);
    uint64_t start = report_processor_time();
    double rate = 0;
    for (size_t i = 0; rate == 0; i++) {
        const uint64_t *list = lists + i % LISTS * keys_a_call;
        int code = in ? tide_table_push(table, list, keys_a_call, rows, 0, NULL)
                      : tide_table_pull(table, list, keys_a_call, rows, NULL);
        if (code) {
            fail_loudly("local");
        }
        rate = rate_since(start, i + 1, keys_a_call);
    }
    free(rows);
    return rate;
}

static void local_rows(size_t width, size_t keys_a_call) {
    struct tide_store *store;
    struct tide_table *table;
    const uint64_t key_count = width == 1000 ? 5000 : 20000;
    struct tide_table_options options = {
        .name = "w", .key_count = key_count, .width = (uint32_t)width};
    if (tide__store_create_bare(&store) || tide__table_create_in(store, &options, &table)) {
        fail_loudly("create");
    }
    uint64_t *lists = key_lists(LISTS, keys_a_call, key_count);
    float *ones = calloc(width, sizeof *ones);
    for (uint64_t key = 0; key < key_count; key++) {
        (void)tide_table_push(table, &key, 1, ones, 0, NULL);
    }
    for (int in = 0; in < 2; in++) {
        char what[80];
        snprintf(what, sizeof what, "local %s, %zu floats, %zu keys a call", in ? "push" : "pull",
                 width, keys_a_call);
        double rate = run_local(table, lists, keys_a_call, in);
        report_row(what, "keys/s", rate);
        double copied = copy_rows(lists, keys_a_call, key_count, width, in);
        snprintf(what, sizeof what, "  copy %s random rows, %zu floats", in ? "to" : "of", width);
        report_row(what, "keys/s", copied);
    }
    free(ones);
    free(lists);
    tide_store_destroy(store);
}

/* ---- remote ---- */

struct remote {
    struct tide_node *node;
    const char *only; /* group of rows; NULL: all */
    atomic_int done;
};

static bool over_tcp; /* else Unix sockets */
static pid_t server;  /* the process of the other node */
static int to_server; /* names of tables whose rows it is to take back, a line each */

static int compare_times(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Keys whose home is not this node. */
static uint64_t *remote_keys(struct tide_table *table, uint16_t self, size_t *count) {
    uint64_t key_count = table->options.key_count, *keys = malloc(key_count * sizeof *keys);
    *count = 0;
    for (uint64_t key = 0; key < key_count; key++) {
        uint16_t home;
        (void)tide_table_where(table, key, &home);
        if (home != self) {
            keys[(*count)++] = key;
        }
    }
    return keys;
}

static double outstanding(struct tide_table *table, const uint64_t *keys, size_t count,
                          size_t keys_a_call, bool in) {
    const size_t floats = keys_a_call * table->width;
    struct tide_ticket tickets[OUTSTANDING];
    float *rows = calloc(OUTSTANDING * floats, sizeof *rows);
    uint64_t *lists = key_lists(LISTS, keys_a_call, count), start = report_now(), ended = 0,
             begun = 0;
    for (size_t i = 0; i < LISTS * keys_a_call; i++) {
        lists[i] = keys[lists[i]];
    }
    while (report_now() - start < 2 * MEASURE_NS || ended < begun) {
        bool more = report_now() - start < 2 * MEASURE_NS;
        if (begun - ended == OUTSTANDING || !more) {
            if (tide_ticket_wait(&tickets[ended % OUTSTANDING])) {
                fail_loudly("remote");
            }
            ended++;
        }
        if (more) {
            const uint64_t *list = lists + begun % LISTS * keys_a_call;
            float *mine = rows + begun % OUTSTANDING * floats;
            struct tide_ticket *ticket = &tickets[begun % OUTSTANDING];
            int code = in ? tide_table_push(table, list, keys_a_call, mine, 0, ticket)
                          : tide_table_pull(table, list, keys_a_call, mine, ticket);
            if (code) {
                fail_loudly("remote start");
            }
            begun++;
        }
    }
    double rate = (double)(ended * keys_a_call) / (double)(report_now() - start) * 1e9;
    free(lists);
    free(rows);
    return rate;
}

/* ---- a worker that computes ---- */

enum { PACED_KEYS = 160, PACED_OUTSTANDING = 4 };
static volatile double computed;

static void compute(uint64_t steps) {
    double x = computed;
    for (uint64_t i = 0; i < steps; i++) {
        x = x * 0.9999999 + 1e-7;
    }
    computed = x;
}

/* Steps that take a processor one millisecond. */
static uint64_t steps_a_millisecond(void) {
    enum { STEPS = 1 << 20, TIMES = 9 };
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TIMES; i++) {
        const uint64_t start = report_processor_time();
        compute(STEPS);
        const uint64_t took = report_processor_time() - start;
        least = took < least ? took : least;
    }
    return STEPS * UINT64_C(1000000) / (least + 1);
}

/* Keys a second of a worker that computes for a millisecond, then pushes 64 KB, and has up to four
 * pushes under way meanwhile. */
static double paced(struct tide_table *table, const uint64_t *keys, size_t count) {
    static uint64_t steps;
    steps = steps ? steps : steps_a_millisecond();
    struct tide_ticket tickets[PACED_OUTSTANDING];
    float *rows = calloc((size_t)PACED_KEYS * table->width, sizeof *rows);
    uint64_t *lists = key_lists(LISTS, PACED_KEYS, count), start = report_now(), begun = 0;
    for (size_t i = 0; i < (size_t)LISTS * PACED_KEYS; i++) {
        lists[i] = keys[lists[i]];
    }
    while (report_now() - start < 2 * MEASURE_NS) {
        struct tide_ticket *ticket = &tickets[begun % PACED_OUTSTANDING];
        compute(steps);
        if ((begun >= PACED_OUTSTANDING && tide_ticket_wait(ticket)) ||
            tide_table_push(table, lists + begun % LISTS * PACED_KEYS, PACED_KEYS, rows, 0,
                            ticket)) {
            fail_loudly("paced");
        }
        begun++;
    }
    for (uint64_t i = 0; i < PACED_OUTSTANDING && i < begun; i++) {
        if (tide_ticket_wait(&tickets[i])) {
            fail_loudly("paced");
        }
    }
    const double rate = (double)(begun * PACED_KEYS) / (double)(report_now() - start) * 1e9;
    free(lists);
    free(rows);
    return rate;
}

static void one_by_one(struct tide_table *table, const uint64_t *keys, size_t count) {
    enum { CALLS = 10000 };
    uint64_t *times = malloc(CALLS * sizeof *times);
    float row[1000];
    for (size_t i = 0; i < CALLS; i++) {
        uint64_t start = report_now();
        if (tide_table_pull(table, &keys[i * 7919 % count], 1, row, NULL)) {
            fail_loudly("remote pull");
        }
        times[i] = report_now() - start;
    }
    qsort(times, CALLS, sizeof *times, compare_times);
    report_row("remote sync pull, 100 floats, 1 key, p50", "us", (double)times[CALLS / 2] / 1e3);
    report_row("remote sync pull, 100 floats, 1 key, p99", "us",
               (double)times[CALLS * 99 / 100] / 1e3);
    free(times);
}

/* All rows of the table are at the other node again. */
static void send_back(struct tide_table *table, const uint64_t *keys, size_t count) {
    const struct timespec pause = {.tv_nsec = 1000000};
    dprintf(to_server, "%s\n", table->name);
    for (size_t i = 0; i < count; i++) {
        uint16_t owner = 0;
        while (tide_table_where(table, keys[i], &owner) == 0 &&
               owner == tide_node_id(table->store->node)) {
            nanosleep(&pause, NULL);
        }
    }
}

struct moved {
    double rate, gets, gives; /* bytes a second; ns of processor a byte, here and there */
};

/* `calls` of them, one after the other. */
static struct moved move_here(struct tide_table *table, const uint64_t *keys, size_t keys_a_call,
                              size_t calls, uint64_t *times) {
    const size_t row_bytes = table->width * sizeof(float);
    const uint64_t here = processor_time_of(getpid()), there = processor_time_of(server),
                   begun = report_now();
    for (size_t i = 0; i < calls; i++) {
        const uint64_t start = report_now();
        if (tide_table_localize(table, keys + i * keys_a_call, keys_a_call, NULL)) {
            fail_loudly("localize");
        }
        times[i] = report_now() - start;
    }
    const double bytes = (double)(calls * keys_a_call * row_bytes),
                 seconds = (double)(report_now() - begun) / 1e9;
    qsort(times, calls, sizeof *times, compare_times);
    return (struct moved){.rate = bytes / seconds,
                          .gets = (double)(processor_time_of(getpid()) - here) / bytes,
                          .gives = (double)(processor_time_of(server) - there) / bytes};
}

static double median_of(double *values, size_t count) {
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double smaller = values[j];
            values[j] = values[j - 1];
            values[j - 1] = smaller;
        }
    }
    return values[count / 2];
}

/* Rows go back and come again, to where such rows were before: the first touch of memory costs more
 * than anything else. Beside what a bare stream carries before and after, in turn; medians. */
static void move_again(struct tide_table *table, const uint64_t *keys, size_t keys_a_call,
                       size_t calls, uint64_t *times) {
    enum { ROUNDS = 5, FIGURES = 5 };
    static const char *const names[FIGURES][2] = {
        {"  again, to where such rows were before", "keys/s"},
        {"  a bare stream of bodies of that size", "MB/s"},
        {"  rows moved, over a bare stream", "x"},
        {"  processor time to get, a bare stream over it", "x"},
        {"  processor time to give, a bare stream over it", "x"}};
    double figures[FIGURES][ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        send_back(table, keys, calls * keys_a_call);
        const size_t body = keys_a_call * table->width * sizeof(float);
        const struct bare before = bare_stream(over_tcp, body, MEASURE_NS / 2);
        const struct moved m = move_here(table, keys, keys_a_call, calls, times);
        const struct bare after = bare_stream(over_tcp, body, MEASURE_NS / 2);
        const double bare = (before.rate + after.rate) / 2;
        figures[0][i] = m.rate / (double)body * (double)keys_a_call;
        figures[1][i] = bare / 1e6;
        figures[2][i] = m.rate / bare;
        figures[3][i] = (before.gets + after.gets) / 2 / m.gets;
        figures[4][i] = (before.gives + after.gives) / 2 / m.gives;
    }
    for (int i = 0; i < FIGURES; i++) {
        report_row(names[i][0], names[i][1], median_of(figures[i], ROUNDS));
    }
}

/* Rows come here: `keys_a_call` at a time, waiting after each call. Every key moves once; large
 * ones go back and come again. */
static void relocation(struct tide_node *node, uint32_t width, size_t keys_a_call) {
    struct tide_table *table;
    char name[32], what[80];
    snprintf(name, sizeof name, "r%u_%zu", width, keys_a_call);
    const size_t most = keys_a_call == 1 ? 5000 : 50000;
    struct tide_table_options options = {
        .name = name, .key_count = 2 * most + 8192, .width = width, .technique = TIDE_RELOCATE};
    if (tide_table_create(node, &options, &table)) {
        fail_loudly("create");
    }
    size_t count;
    uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
    struct tide_random random;
    tide_random_seed(&random, 7);
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)tide_random_below(&random, i + 1);
        uint64_t key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
    float *ones = calloc(count * width, sizeof *ones);
    if (tide_table_push(table, keys, count, ones, 0, NULL)) {
        fail_loudly("fill");
    }
    free(ones);
    const size_t calls = most / keys_a_call;
    uint64_t *times = malloc(calls * sizeof *times);
    struct moved moved = move_here(table, keys, keys_a_call, calls, times);
    if (keys_a_call == 1) {
        snprintf(what, sizeof what, "relocate 1 key, %u floats, p50", width);
        report_row(what, "us", (double)times[calls / 2] / 1e3);
    } else {
        snprintf(what, sizeof what, "relocate %zu keys a call, %u floats", keys_a_call, width);
        report_row(what, "keys/s", moved.rate / (double)(width * sizeof(float)));
        report_row("  the median call", "keys/s",
                   (double)keys_a_call / (double)times[calls / 2] * 1e9);
    }
    if (keys_a_call * width * sizeof(float) > 1 << 20) {
        move_again(table, keys, keys_a_call, calls, times);
    }
    free(times);
    free(keys);
}

/* Copies of hot keys whose rows are at the other node, and keys that come because somebody intends
 * to use them: from the call until the row is here. */
static void shared_rows(struct tide_node *node, uint32_t width) {
    enum { HOT = 1000, ONE_BY_ONE = 400 };
    struct tide_table *table, *intended;
    char what[80];
    struct tide_table_options options = {
        .name = width == 10 ? "hot10" : "hot100", .key_count = 20000, .width = width};
    if (tide_table_create(node, &options, &table)) {
        fail_loudly("create");
    }
    options.name = width == 10 ? "intent10" : "intent100";
    options.technique = TIDE_INTENT;
    if (tide_table_create(node, &options, &intended)) {
        fail_loudly("create");
    }
    size_t count;
    uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
    const uint16_t here = tide_node_id(node);
    const struct tide_share_options share = {.nodes = &here, .node_count = 1};
    struct tide_share_stats stats = {0};
    if (tide_table_manage(table, keys, HOT, TIDE_REPLICATE, &share)) {
        fail_loudly("manage");
    }
    for (int i = 0; i < 5000 && stats.copies < HOT; i++) {
        (void)tide_sleep(1000000);
        tide_table_share_stats(table, &stats);
    }
    for (int in = 0; in < 2; in++) {
        snprintf(what, sizeof what, "copies, %s, %u floats, 64 x 100 keys", in ? "push" : "pull",
                 width);
        report_row(what, "keys/s", outstanding(table, keys, HOT, KEYS_A_CALL, in));
    }
    uint64_t times[ONE_BY_ONE], localized[ONE_BY_ONE];
    if (tide_worker_begin(node, 0, 0)) {
        fail_loudly("worker");
    }
    for (size_t i = 0; i < ONE_BY_ONE; i++) { /* in turn, so that a loaded machine is so for both */
        uint64_t start = report_now();
        float row[100];
        uint64_t hit = 0;
        if (tide_table_localize(intended, keys + ONE_BY_ONE + i, 1, NULL)) {
            fail_loudly("localize");
        }
        localized[i] = report_now() - start;
        start = report_now();
        if (tide_table_intent(intended, keys + i, 1, 0, 1)) {
            fail_loudly("intent");
        }
        while (!tide_table_pull_local(intended, keys + i, 1, row, &hit)) {
            /* meanwhile, for the processor's sake */
            if (tide_table_pull(intended, keys + i, 1, row, NULL)) {
                fail_loudly("pull");
            }
        }
        times[i] = report_now() - start;
    }
    tide_worker_end();
    qsort(times, ONE_BY_ONE, sizeof *times, compare_times);
    snprintf(what, sizeof what, "intent to row here, 1 key, %u floats, p50", width);
    report_row(what, "us", (double)times[ONE_BY_ONE / 2] / 1e3);
    qsort(localized, ONE_BY_ONE, sizeof *localized, compare_times);
    report_row("  over a localize of such a key, p50", "x",
               (double)times[ONE_BY_ONE / 2] / (double)localized[ONE_BY_ONE / 2]);
    free(keys);
}

/* ---- copies ---- */

enum { COPY_ROUNDS = 3, COPY_ROWS = 20000, COPY_WIDTH = 100, ZIPF_KEYS = 1 << 17 };
static const struct {
    const char *name;
    uint8_t durability;
    uint64_t window_bytes; /* 0: as many as there are by default */
} kinds[] = {{"no copies", TIDE_DURABLE_NONE, 0},
             {"window", TIDE_DURABLE_WINDOW, 0},
             {"window of 4 MiB", TIDE_DURABLE_WINDOW, 4 << 20},
             {"strict", TIDE_DURABLE_STRICT, 0}};
enum { KINDS = TIDE_COUNT(kinds) };

/* As many of each key as Zipf(1.1) has it, in places that have nothing to do with its home. */
static uint64_t *zipf_keys(void) {
    uint64_t *keys = malloc(ZIPF_KEYS * sizeof *keys);
    double sum = 0, at = 0;
    for (int i = 1; i <= COPY_ROWS; i++) {
        sum += pow(i, -1.1);
    }
    for (uint64_t i = 0, place = 0; i < COPY_ROWS; i++) {
        at += pow((double)(i + 1), -1.1) / sum * ZIPF_KEYS;
        while (place < ZIPF_KEYS && ((double)place < at || i + 1 == COPY_ROWS)) {
            keys[place++] = i * 7919 % COPY_ROWS;
        }
    }
    return keys;
}

enum access { PULL, PUSH, PACED_PUSH };
static clockid_t server_clock; /* processor time of the other node */

static double processor_times(void) {
    return (double)(report_time_of(CLOCK_PROCESS_CPUTIME_ID) + report_time_of(server_clock));
}

static void report_ratio(const char *what, int kind, const double *ratios) {
    char text[80];
    double sorted[COPY_ROUNDS];
    memcpy(sorted, ratios, sizeof sorted);
    snprintf(text, sizeof text, "  %s of %s over none, median", what, kinds[kind].name);
    report_row(text, "x", median_of(sorted, COPY_ROUNDS));
}

/* In turn, so that a loaded machine is so for all; the medians of what each takes longer than
 * without copies, and of what more of both nodes' processors, which other programs disturb less. */
static void copied(struct tide_table *const *tables, const char *what, const uint64_t *keys,
                   size_t count, enum access access) {
    double rates[KINDS][COPY_ROUNDS], times[KINDS][COPY_ROUNDS], work[KINDS][COPY_ROUNDS];
    for (int round = 0; round < COPY_ROUNDS; round++) {
        for (int d = 0; d < KINDS; d++) {
            const uint64_t start = report_now();
            const double worked = processor_times();
            rates[d][round] = access == PACED_PUSH ? paced(tables[d], keys, count)
                                                   : outstanding(tables[d], keys, count,
                                                                 KEYS_A_CALL, access == PUSH);
            times[d][round] = rates[0][round] / rates[d][round];
            work[d][round] =
                (processor_times() - worked) / (rates[d][round] * (double)(report_now() - start));
        }
    }
    for (int round = 0; round < COPY_ROUNDS; round++) {
        for (int d = KINDS; d-- > 0;) {
            work[d][round] /= work[0][round];
        }
    }
    for (int d = 0; d < KINDS; d++) {
        char text[80];
        snprintf(text, sizeof text, "%s, %s", what, kinds[d].name);
        report_row(text, "keys/s", median_of(rates[d], COPY_ROUNDS));
        if (d) {
            report_ratio("time", d, times[d]);
            report_ratio("processor time", d, work[d]);
        }
    }
}

/* Pushes to rows of two nodes, of the other one and of this one, and pulls of the latter, 64 x 100
 * keys of 100 floats: without copies, with one that follows, and with one that is waited for. All
 * processors are busy; and the same of a worker that computes. The rows of a node are 4 MB: they
 * fill a window of that many bytes, so that nearly each push has to send its row. */
static void copied_rows(struct tide_node *node) {
    struct tide_table *tables[KINDS];
    uint64_t *keys = malloc(COPY_ROWS * sizeof *keys), *here = malloc(COPY_ROWS * sizeof *here),
             *zipf = zipf_keys(), *there;
    size_t here_count = 0, there_count;
    for (int d = 0; d < KINDS; d++) {
        char name[16];
        snprintf(name, sizeof name, "copies%d", d);
        struct tide_table_options options = {.name = name,
                                             .key_count = COPY_ROWS,
                                             .width = COPY_WIDTH,
                                             .replicas = d > 0,
                                             .durability = kinds[d].durability,
                                             .window_bytes = kinds[d].window_bytes};
        if (tide_table_create(node, &options, &tables[d])) {
            fail_loudly("create");
        }
    }
    for (uint64_t i = 0; i < COPY_ROWS; i++) {
        uint16_t home;
        keys[i] = i;
        (void)tide_table_where(tables[1], i, &home);
        here[here_count] = i;
        here_count += home == tide_node_id(node);
    }
    there = remote_keys(tables[1], tide_node_id(node), &there_count);
    copied(tables, "paced push, Zipf(1.1) keys", zipf, ZIPF_KEYS, PACED_PUSH);
    copied(tables, "paced push, all keys alike", keys, COPY_ROWS, PACED_PUSH);
    copied(tables, "push, Zipf(1.1) keys", zipf, ZIPF_KEYS, PUSH);
    copied(tables, "push, all keys alike", keys, COPY_ROWS, PUSH);
    copied(tables, "push to another node", there, there_count, PUSH);
    copied(tables, "push at home", here, here_count, PUSH);
    copied(tables, "pull at home", here, here_count, PULL);
    free(keys);
    free(here);
    free(there);
    free(zipf);
}

static void relocations(struct tide_node *node) {
    relocation(node, 10, 1);
    relocation(node, 100, 1);
    relocation(node, 10, 1000);
    relocation(node, 100, 1000);
    relocation(node, 1000, 1000);
}

static void shared(struct tide_node *node) {
    shared_rows(node, 10);
    shared_rows(node, 100);
}

static void remote_accesses(struct tide_node *node) {
    static const uint32_t widths[] = {10, 100};
    for (size_t w = 0; w < TIDE_COUNT(widths); w++) {
        struct tide_table *table;
        char name[16], what[80];
        snprintf(name, sizeof name, "w%u", widths[w]);
        struct tide_table_options options = {.name = name, .key_count = 20000, .width = widths[w]};
        if (tide_table_create(node, &options, &table)) {
            fail_loudly("create");
        }
        size_t count;
        uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
        float *ones = calloc(count * widths[w], sizeof *ones);
        if (tide_table_push(table, keys, count, ones, 0, NULL)) {
            fail_loudly("fill");
        }
        free(ones);
        for (int in = 0; in < 2; in++) {
            snprintf(what, sizeof what, "remote %s, %u floats, 64 x 100 keys", in ? "push" : "pull",
                     widths[w]);
            report_row(what, "keys/s", outstanding(table, keys, count, KEYS_A_CALL, in));
        }
        if (widths[w] == 100) {
            one_by_one(table, keys, count);
            report_row("remote pull, 100 floats, 64 x 1 key", "keys/s",
                       outstanding(table, keys, count, 1, false));
        }
        free(keys);
    }
}

static const struct {
    const char *name;
    void (*run)(struct tide_node *node);
} groups[] = {{"strict", copied_rows},
              {"relocation", relocations},
              {"copies", shared},
              {"remote", remote_accesses}};

static int remote_main(void *state) {
    struct remote *remote = state;
    for (size_t i = 0; i < TIDE_COUNT(groups); i++) {
        if (!remote->only || strcmp(remote->only, groups[i].name) == 0) {
            groups[i].run(remote->node);
        }
    }
    atomic_store(&remote->done, 1);
    return 0;
}

struct errand {
    struct tide_node *node;
    char table[64];
};

/* The rows that are at home here come back. */
static int take_back(void *state) {
    struct errand *errand = state;
    struct tide_table *table;
    uint64_t keys[1000];
    size_t count = 0;
    if (tide_table_find(errand->node, errand->table, &table)) {
        fail_loudly("find");
    }
    for (uint64_t key = 0; key <= table->options.key_count; key++) {
        const bool end = key == table->options.key_count;
        if (!end && (tide__route_of(table, tide__slot_of(table, key)) & TIDE__MINE)) {
            keys[count++] = key;
        }
        if ((end || count == TIDE_COUNT(keys)) && count) {
            if (tide_table_localize(table, keys, count, NULL)) {
                fail_loudly("localize");
            }
            count = 0;
        }
    }
    free(errand);
    return 0;
}

/* Until `release` ends; it names tables whose rows are to come back. */
static int serve(const char *join, int release) {
    struct tide_node *node;
    struct tide_node_options options = {
        .cluster = "bench", .name = "server", .join = join, .workers = 1};
    if (tide_node_create(&options, &node)) {
        fprintf(stderr, "bench_store: server: %s\n", tide_error_message());
        return 1;
    }
    FILE *errands = fdopen(release, "r");
    struct errand *errand = malloc(sizeof *errand);
    while (fgets(errand->table, sizeof errand->table, errands)) {
        const struct tide_actor_options actor = {
            .type = "errand", .run = take_back, .state = errand, .role = TIDE_ROLE_COMPUTE};
        tide_address address;
        errand->table[strcspn(errand->table, "\n")] = 0;
        errand->node = node;
        if (tide_spawn(node, &actor, &address)) {
            fail_loudly("spawn");
        }
        errand = malloc(sizeof *errand);
    }
    free(errand);
    tide_node_destroy(node, TIDE_SECOND);
    return 0;
}

static int remote_rows(const char *net, const char *only, const char *program) {
    char directory[] = "/tmp/tide-bench-XXXXXX", listen[128] = "tcp:127.0.0.1:0";
    if (!mkdtemp(directory)) {
        return 1;
    }
    over_tcp = strcmp(net, "unix") != 0;
    if (!over_tcp) {
        snprintf(listen, sizeof listen, "unix:%s/socket", directory);
    }
    struct remote remote = {.only = only};
    struct tide_node_options options = {
        .cluster = "bench", .name = "origin", .listen = listen, .workers = 1};
    if (tide_node_create(&options, &remote.node)) {
        fail_loudly("node");
    }
    int release[2];
    if (pipe(release)) {
        return 1;
    }
    to_server = release[1];
    server = fork();
    if (server == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", release[0]);
        close(release[1]);
        execl(program, program, "--serve", tide_node_endpoint(remote.node), number, (char *)NULL);
        _exit(1);
    }
    close(release[0]);
    if (clock_getcpuclockid(server, &server_clock)) {
        return 1;
    }
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 5000; i++) { /* until it is a member */
        struct tide_member member;
        struct tide_net *tide_net_of(struct tide_node *);
        if (tide_net_member(tide_net_of(remote.node), 2, &member) &&
            member.state == TIDE_MEMBER_UP) {
            break;
        }
        nanosleep(&pause, NULL);
    }
    struct tide_actor_options actor = {.type = "bench",
                                       .run = remote_main,
                                       .state = &remote,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .stack_bytes = 1 << 20};
    tide_address address;
    if (tide_spawn(remote.node, &actor, &address)) {
        fail_loudly("spawn");
    }
    while (!atomic_load(&remote.done)) {
        nanosleep(&pause, NULL);
    }
    close(release[1]);
    int status;
    waitpid(server, &status, 0);
    tide_node_destroy(remote.node, TIDE_SECOND);
    unlink(listen + 5);
    rmdir(directory);
    return 0;
}

int main(int argc, char **argv) {
    report_init(argc, argv, "store");
    if (argc > 3 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2], atoi(argv[3]));
    }
    if (argc > 3 && strcmp(argv[1], "--stream") == 0) {
        return bare_stream_write(atoi(argv[2]), strtoull(argv[3], NULL, 10));
    }
    const char *net = NULL, *only = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        net = strcmp(argv[i], "--net") == 0 ? argv[i + 1] : net;
        only = strcmp(argv[i], "--only") == 0 ? argv[i + 1] : only;
    }
    if (net) {
        return remote_rows(net, only, argv[0]);
    }
    local_rows(10, 100);
    local_rows(10, 1);
    local_rows(100, 100);
    local_rows(1000, 100);
    return 0;
}
