/* One line of figures a row; with --json one JSON object a line. */
#ifndef TIDE_BENCH_REPORT_H
#define TIDE_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
        printf("{\"schema\":\"tide.bench/1\",\"bench\":\"%s\",\"row\":\"%s\",\"unit\":\"%s\",\"value\":%.6g}\n",
               report_bench, what, unit, value);
    } else {
        printf("%-10s %-48s %12.4g %s\n", report_bench, what, value, unit);
    }
    fflush(stdout);
}

#endif
