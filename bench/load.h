/* Workers that pull and push as fast as they can, or compute in between. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/report.h"
#include "store/adaptive/owner.h"

#include <stdlib.h>

enum { LISTS = 4096, KEYS_A_CALL = 100, OUTSTANDING = 64 };
#define MEASURE_NS UINT64_C(400000000)

static void fail_loudly(const char *what) {
    fprintf(stderr, "bench_%s: %s: %s\n", report_bench, what, tide_error_message());
    exit(1);
}

static uint64_t *key_lists(size_t lists, size_t keys_a_call, uint64_t key_count) {
    uint64_t *keys = malloc(lists * keys_a_call * sizeof *keys);
    struct tide_random random;
    tide_random_seed(&random, 1);
    for (size_t i = 0; i < lists * keys_a_call; i++) {
        keys[i] = tide_random_below(&random, key_count);
    }
    return keys;
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
            int code = in ? tide_table_push(table, list, keys_a_call, mine, ticket)
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
 * pushes in flight meanwhile. */
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
            tide_table_push(table, lists + begun % LISTS * PACED_KEYS, PACED_KEYS, rows,
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

#endif
