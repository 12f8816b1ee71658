/* One line of figures a row; with --json one JSON object a line. */
#ifndef TIDE_BENCH_REPORT_H
#define TIDE_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *report_bench;
static bool report_json;

static inline void report_init(int argc, char **argv, const char *bench) {
    report_bench = bench;
    for (int i = 1; i < argc; i++) {
        report_json = report_json || strcmp(argv[i], "--json") == 0;
    }
}

static inline void report_row(const char *what, const char *unit, double value) {
    if (report_json) {
        printf("{\"schema\":\"tide.bench/"
               "1\",\"bench\":\"%s\",\"row\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}\n",
               report_bench, what, unit, value);
    } else {
        printf("%-10s %-48s %12.4g %s\n", report_bench, what, value, unit);
    }
    fflush(stdout);
}

/* ns of a clock. */
static inline uint64_t report_time_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t report_now(void) {
    return report_time_of(CLOCK_MONOTONIC);
}

/* Of the calling thread. */
static inline uint64_t report_processor_time(void) {
    return report_time_of(CLOCK_THREAD_CPUTIME_ID);
}

#endif
