/*
 * Latency of a client: bench_client CLUSTER TABLE [PULLS]. Pulls 100 rows of random keys of a dense table, one
 * operation outstanding, and prints the percentiles in microseconds; then keys a second with 64 outstanding.
 *
 * bench_client CLUSTER TABLE PULLS RATE [RIGHT]: RATE keys a second, each pull timed from when it was due; beside
 * training: bench/lookups.sh. RIGHT 1, the default: read, by the lane of lookups; 2: operate.
 */
#include "tide/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { KEYS = 100, PLACES = 64 };

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t state = 88172645463325252u;

static void draw(uint64_t *keys, uint64_t limit) {
    for (int i = 0; i < KEYS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys[i] = state % limit;
    }
}

static void check(int code) {
    if (code < 0) {
        fprintf(stderr, "%s\n", tide_client_error());
        exit(1);
    }
}

static void at_rate(struct tide_client_table *table, double rate, size_t pulls, float *rows, uint64_t *times) {
    uint64_t keys[KEYS], due = now() + 1000000;
    for (size_t i = 0; i < pulls; i++, due += (uint64_t)(KEYS * 1e9 / rate)) {
        const struct timespec t = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        draw(keys, tide_client_key_count(table));
        check(tide_client_pull(table, keys, KEYS, rows, 0, NULL));
        times[i] = now() - due;
    }
    qsort(times, pulls, sizeof *times, compare);
    printf("keys_s %.0f p50_ms %.3f p99_ms %.3f most_ms %.3f\n", rate, (double)times[pulls / 2] / 1e6,
           (double)times[pulls * 99 / 100] / 1e6, (double)times[pulls - 1] / 1e6);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench_client CLUSTER TABLE [PULLS [RATE [RIGHT]]]\n");
        return 2;
    }
    const size_t pulls = argc > 3 ? strtoul(argv[3], NULL, 10) : 20000;
    const struct tide_client_options options = {
        .size = sizeof options, .cluster = argv[1], .right = argc > 5 ? (unsigned)atoi(argv[5]) : 0};
    struct tide_client *client;
    struct tide_client_table *table;
    check(tide_client_open(&options, &client));
    check(tide_client_table(client, argv[2], 0, &table));
    const size_t floats = (size_t)KEYS * tide_client_width(table);
    const uint64_t limit = tide_client_key_count(table);
    static uint64_t keys[PLACES][KEYS];
    float *rows = calloc(PLACES * floats, sizeof *rows);
    uint64_t *times = calloc(pulls, sizeof *times);
    if (argc > 4) {
        at_rate(table, atof(argv[4]), pulls, rows, times);
        tide_client_close(client);
        free(rows);
        free(times);
        return 0;
    }
    for (size_t i = 0; i < pulls; i++) {
        draw(keys[0], limit);
        const uint64_t began = now();
        check(tide_client_pull(table, keys[0], KEYS, rows, 0, NULL));
        times[i] = now() - began;
    }
    qsort(times, pulls, sizeof *times, compare);
    printf("c_p50_us %.1f c_p99_us %.1f", (double)times[pulls / 2] / 1e3, (double)times[pulls * 99 / 100] / 1e3);
    struct tide_client_op *ops[PLACES] = {0};
    const uint64_t began = now();
    for (size_t i = 0; i < pulls + PLACES; i++) {
        const size_t at = i % PLACES;
        if (ops[at]) {
            check(tide_client_wait(ops[at], 0));
            tide_client_free(ops[at]);
            ops[at] = NULL;
        }
        if (i < pulls) {
            draw(keys[at], limit);
            check(tide_client_pull(table, keys[at], KEYS, rows + at * floats, 0, &ops[at]));
        }
    }
    printf(" c_keys_s %.0f\n", (double)pulls * KEYS / ((double)(now() - began) / 1e9));
    tide_client_close(client);
    free(rows);
    free(times);
    return 0;
}
