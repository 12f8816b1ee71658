/*
 * What copies of rows cost whoever pushes: without them, with a window, and strict, in turn.
 */
#ifndef BENCH_COPIED_ROWS_H
#define BENCH_COPIED_ROWS_H

#include "bench/load.h"
#include "bench/threads.h"
#include "store/replica/replica.h"

#include <math.h>

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
static pid_t home_process; /* apart from the worker's and the copies' nodes; 0: nodes are both */

/* What a key costs, beside what it costs without copies. */
enum { TIME, WORK, BUSIEST, HOME, COSTS };
static const char *const costs[COSTS] = {
    [TIME] = "time",
    [WORK] = "processor time",
    [BUSIEST] = "busiest thread",
    [HOME] = "the home's processor time",
};

static void measure(struct tide_table *table, const uint64_t *keys, size_t count,
                    enum access access, const pid_t *processes, double *rate, double *cost) {
    struct thread_times before = {.count = 0}, after = {.count = 0};
    double most;
    for (const pid_t *p = processes; *p; p++) {
        threads_add(&before, *p);
    }
    const uint64_t start = report_now();
    *rate = access == PACED_PUSH ? paced(table, keys, count)
                                 : outstanding(table, keys, count, KEYS_A_CALL, access == PUSH);
    const double pushed = *rate * (double)(report_now() - start);
    for (const pid_t *p = processes; *p; p++) {
        threads_add(&after, *p);
    }
    cost[TIME] = 1 / *rate;
    cost[WORK] = threads_worked(&before, &after, 0, &cost[BUSIEST]) / pushed;
    cost[BUSIEST] /= pushed;
    cost[HOME] = threads_worked(&before, &after, home_process, &most) / pushed;
}

/* In turn, so that a loaded machine is so for all; the medians of what each costs more than without
 * copies: in time, in processor time, which other programs disturb less, and of the busiest thread,
 * which is what bounds throughput where threads need not share processors. */
static void copied(struct tide_table *const *tables, const pid_t *processes, const char *what,
                   const uint64_t *keys, size_t count, enum access access) {
    double rates[KINDS][COPY_ROUNDS], ratios[COSTS][KINDS][COPY_ROUNDS];
    for (int round = 0; round < COPY_ROUNDS; round++) {
        double none[COSTS], cost[COSTS];
        for (int d = 0; d < KINDS; d++) {
            measure(tables[d], keys, count, access, processes, &rates[d][round], d ? cost : none);
            for (int c = 0; c < COSTS && d; c++) {
                ratios[c][d][round] = cost[c] / none[c];
            }
        }
    }
    for (int d = 0; d < KINDS; d++) {
        char text[80];
        snprintf(text, sizeof text, "%s, %s", what, kinds[d].name);
        report_row(text, "keys/s", median_of(rates[d], COPY_ROUNDS));
        for (int c = 0; d && c < (home_process ? COSTS : HOME); c++) {
            snprintf(text, sizeof text, "  %s of %s over none, median", costs[c], kinds[d].name);
            report_row(text, "x", median_of(ratios[c][d], COPY_ROUNDS));
        }
    }
}

static void copied_tables(struct tide_node *node, struct tide_table **tables) {
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
}

/* Is the key's row at `home` in all tables, and its copy at `copy`? */
static bool lies_at(struct tide_table *const *tables, uint64_t key, uint16_t home, uint16_t copy) {
    bool lies = true;
    for (int d = 0; d < KINDS; d++) {
        const uint32_t slot = tide__slot_of(tables[d], key);
        uint16_t at;
        (void)tide_table_where(tables[d], key, &at);
        lies =
            lies && at == home &&
            (d == 0 || tide__chain_at(atomic_load(&tide__replicas_of(tables[d])->chain[slot]), 0) == copy);
    }
    return lies;
}

/* Pushes to rows of two nodes, of the other one and of this one, and pulls of the latter, 64 x 100
 * keys of 100 floats: without copies, with one that follows, and with one that is waited for. All
 * processors are busy; and the same of a worker that computes. The rows of a node are 4 MB: they
 * fill a window of that many bytes, so that nearly each push has to send its row. */
static void copied_rows(struct tide_node *node, const pid_t *processes) {
    struct tide_table *tables[KINDS];
    uint64_t *keys = malloc(COPY_ROWS * sizeof *keys), *here = malloc(COPY_ROWS * sizeof *here),
             *zipf = zipf_keys(), *there;
    size_t here_count = 0, there_count;
    copied_tables(node, tables);
    for (uint64_t i = 0; i < COPY_ROWS; i++) {
        uint16_t home;
        keys[i] = i;
        (void)tide_table_where(tables[1], i, &home);
        here[here_count] = i;
        here_count += home == tide_node_id(node);
    }
    there = remote_keys(tables[1], tide_node_id(node), &there_count);
    copied(tables, processes, "paced push, Zipf(1.1) keys", zipf, ZIPF_KEYS, PACED_PUSH);
    copied(tables, processes, "paced push, all keys alike", keys, COPY_ROWS, PACED_PUSH);
    copied(tables, processes, "push, Zipf(1.1) keys", zipf, ZIPF_KEYS, PUSH);
    copied(tables, processes, "push, all keys alike", keys, COPY_ROWS, PUSH);
    copied(tables, processes, "push to another node", there, there_count, PUSH);
    copied(tables, processes, "push at home", here, here_count, PUSH);
    copied(tables, processes, "pull at home", here, here_count, PULL);
    free(keys);
    free(here);
    free(there);
    free(zipf);
}

/* A worker, the home of what it pushes and the node that has the copies, each a process of its own:
 * who pays for them. */
static void copied_apart(struct tide_node *node, const pid_t *processes, uint16_t home,
                         uint16_t copy) {
    struct tide_table *tables[KINDS];
    uint64_t *keys = malloc(COPY_ROWS * sizeof *keys), *zipf = zipf_keys();
    size_t count = 0, hot = 0;
    copied_tables(node, tables);
    for (uint64_t i = 0; i < COPY_ROWS; i++) {
        keys[count] = i;
        count += lies_at(tables, i, home, copy);
    }
    for (size_t i = 0; i < ZIPF_KEYS; i++) {
        zipf[hot] = zipf[i];
        hot += lies_at(tables, zipf[i], home, copy);
    }
    if (count == 0) {
        (void)tide_fail(TIDE_ENOENT, "no row has its home and its copy on these two nodes");
        fail_loudly("apart");
    }
    copied(tables, processes, "push apart, Zipf(1.1) keys", zipf, hot, PUSH);
    copied(tables, processes, "push apart, all keys alike", keys, count, PUSH);
    free(keys);
    free(zipf);
}

#endif
