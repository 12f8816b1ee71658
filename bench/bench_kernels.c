/*
 * Speed of the kernels on one thread over plain tables in memory: what a store adds is measured
 * elsewhere.
 *
 * - kge_steps: single examples a second, each with its own pulls and pushes (generated graphs kge
 *   and kge_small, d 100, 10 negatives).
 * - kge_batched: triples a second by the default mini-batches, d 200, and what share of that time
 *   its matrix products alone would take at the measured rate.
 * - kge_rank: triples a second, ranked on both sides among 40,000 entities, d 200.
 */
#include "base/base.h"
#include "kernels.h"
#include "bench/report.h"
#include "readers/generate.h"
#include "tests/unit/plain_rows.h"
#include "wire/wire.h"

#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct triples {
    uint32_t *ids;
    size_t count, capacity;
    uint32_t number;
};

/* Digits to ids: every tab or newline ends a number. */
static int collect(void *arg, const char *data, size_t size) {
    struct triples *t = arg;
    for (size_t i = 0; i < size; i++) {
        if (data[i] >= '0' && data[i] <= '9') {
            t->number = t->number * 10 + (uint32_t)(data[i] - '0');
            continue;
        }
        if (t->count == t->capacity) {
            return TIDE_ELIMIT;
        }
        t->ids[t->count++] = t->number;
        t->number = 0;
    }
    return 0;
}

static struct triples make_graph(uint64_t entities, uint64_t relations, uint64_t count) {
    struct triples train = {calloc(3 * count, sizeof(uint32_t)), 0, 3 * count, 0}, rest = {0};
    const struct tide_graph_input input = {entities, relations, count, 0, 0, 2};
    if (!train.ids || tide_generate_graph(&input, (struct tide_sink){&train, collect},
                                          (struct tide_sink){&rest, collect},
                                          (struct tide_sink){&rest, collect}) != 0) {
        fprintf(stderr, "no graph\n");
        exit(1);
    }
    return train;
}

struct model {
    struct plain_table entities, relations;
    struct triples triples;
};

static struct model make_model(uint64_t entities, uint64_t relations, uint64_t count, uint32_t d,
                               uint32_t relation_width) {
    struct model m;
    m.triples = make_graph(entities, relations, count);
    plain_init(&m.entities, entities, d, 0.1f, 0.01f, 1e-6f, 1);
    plain_init(&m.relations, relations, relation_width, 0.1f, 0.01f, 1e-6f, 2);
    return m;
}

static void drop_model(struct model *m) {
    plain_deinit(&m->entities);
    plain_deinit(&m->relations);
    free(m->triples.ids);
}

/* Runs a kernel over a model; returns the seconds. */
static double run(const struct tide_kernel *kernel, struct model *m, const char *model,
                  const char *mode, struct tide_result *results) {
    struct tide_argument arguments[PLAIN_ARGUMENTS_MOST];
    memset(arguments, 0, sizeof(arguments));
    plain_argument(kernel, arguments, "model")->text = model;
    plain_argument(kernel, arguments, "entities")->rows = plain_rows(&m->entities);
    plain_argument(kernel, arguments, "relations")->rows = plain_rows(&m->relations);
    plain_argument(kernel, arguments, "triples")->tensor =
        (struct tide_tensor){m->triples.ids, m->triples.count / 3, 3, TIDE_U32};
    plain_argument(kernel, arguments, "entity_count")->number = (double)m->entities.count;
    if (mode) {
        plain_argument(kernel, arguments, "mode")->text = mode;
    }
    char error[256] = "";
    double start = seconds();
    int count = kernel->run(arguments, results, error);
    double took = seconds() - start;
    if (count < 0) {
        fprintf(stderr, "%s: %s\n", kernel->name, error);
        exit(1);
    }
    return took;
}

static void bench_steps(const char *name, const char *model, uint64_t entities, uint64_t relations,
                        uint64_t count, uint32_t relation_width) {
    struct model m = make_model(entities, relations, count, 100, relation_width);
    struct tide_result results[16];
    for (int epoch = 1; epoch <= 3; epoch++) {
        double took = run(tide_kernel_find("kge_train"), &m, model, "steps", results);
        report_row(name, "examples/s", (double)count * 21 / took);
    }
    drop_model(&m);
}

static double gemm_rate(size_t m, size_t n, size_t k, bool ta, bool tb) {
    size_t size = m * k + k * n + m * n;
    float *a = calloc(size, sizeof(float)), *b = a + m * k, *c = b + k * n;
    double start = seconds(), took;
    size_t rounds = 0;
    do {
        tide_backend_cpu()->gemm(ta, tb, m, n, k, 1, a, ta ? m : k, b, tb ? k : n, 0, c, n);
        rounds++;
        took = seconds() - start;
    } while (took < 0.3);
    free(a);
    return 2e-9 * (double)(m * n * k * rounds) / took;
}

static void bench_batched(void) {
    enum { D = 200, COUNT = 40000, POOL = 512 };
    struct model m = make_model(40000, 20, COUNT, D, D);
    struct tide_result results[16];
    double forward = gemm_rate(256, POOL, D, false, true);
    double query = gemm_rate(256, D, POOL, false, false);
    double pool = gemm_rate(POOL, D, 256, true, false);
    report_row("gemm 256 x 512 x 200 nt", "GFLOP/s", forward);
    report_row("gemm 256 x 200 x 512 nn", "GFLOP/s", query);
    report_row("gemm 512 x 200 x 256 tn", "GFLOP/s", pool);
    double products = 2e-9 * 2 * COUNT * (double)POOL * D * (1 / forward + 1 / query + 1 / pool);
    for (int epoch = 1; epoch <= 2; epoch++) {
        double took = run(tide_kernel_find("kge_train"), &m, "complex", "batched", results);
        report_row("kge_batched", "triples/s", COUNT / took);
        report_row("kge_batched gemm share", "of time", products / took);
    }
    m.triples.count = (size_t)3 * 4096;
    double took = run(tide_kernel_find("kge_rank"), &m, "complex", NULL, results);
    report_row("kge_rank", "triples/s", 4096 / took);
    drop_model(&m);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "kernels");
    bench_steps("kge_steps complex d100", "complex", 10000, 50, 20000, 100);
    bench_steps("kge_steps rescal d100", "rescal", 2000, 20, 4000, 10000);
    bench_batched();
    return 0;
}
