/*
 * Tensor operations and training steps on one thread.
 *
 * - Operations beside what bounds them: products against OpenBLAS called directly, convolutions in
 *   GFLOP/s, maps, losses and update rules in elements or bytes a second.
 * - Training steps (forward, backward, plain gradient descent) of five nets at 32 examples, in ms:
 *   the same as peers/peer_torch.py times.
 * Each row is the median of several rounds of at least 50 ms of processor time.
 */
#include "base/base.h"
#include "bench/report.h"
#include "tensor/cpu/blas.h"
#include "graph/program.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 5 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of one call. */
static double measure(void (*work)(void *arg), void *arg) {
    double rounds[ROUNDS];
    work(arg);
    for (size_t r = 0; r < ROUNDS; r++) {
        double start = seconds(), took;
        size_t calls = 0;
        do {
            work(arg);
            calls++;
            took = seconds() - start;
        } while (took < 0.05);
        rounds[r] = took / (double)calls;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_size);
    return rounds[ROUNDS / 2];
}

static float *numbers(size_t count) {
    float *x = tide_alloc_aligned(64, (count + 64) * sizeof(float));
    struct tide_random random;
    tide_random_seed(&random, 1);
    for (size_t i = 0; i < count + 64; i++) {
        x[i] = (float)(tide_random_uniform(&random) - 0.5);
    }
    return x;
}

/* ---- operations ---- */

struct bench_op {
    enum tide_op_code code;
    struct tide_op_call call;
};

static const struct tide_device *device;

static void run_op(void *arg) {
    struct bench_op *op = arg;
    if (device->functions[op->code](&op->call) != 0) {
        fprintf(stderr, "%s: %s\n", tide_op_names[op->code], tide_error_message());
        exit(1);
    }
}

static double time_op(struct bench_op *op) {
    static struct tide_attributes none;
    if (!op->call.attributes) {
        op->call.attributes = &none;
    }
    op->call.scratch = tide_alloc_aligned(64, device->scratch(op->code, &op->call) + 64);
    double took = measure(run_op, op);
    tide_free(op->call.scratch);
    return took;
}

struct gemm_arguments {
    bool ta, tb;
    size_t m, n, k;
    float *a, *b, *c;
};

static void run_gemm(void *arg) {
    struct gemm_arguments *g = arg;
    tide_blas()->sgemm(CblasRowMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans, (int)g->m,
                       (int)g->n, (int)g->k, 1, g->a, (int)(g->ta ? g->m : g->k), g->b, (int)(g->tb ? g->k : g->n), 0,
                       g->c, (int)g->n);
}

static void bench_product(bool ta, bool tb, size_t m, size_t n, size_t k) {
    struct gemm_arguments g = {ta, tb, m, n, k, numbers(m * k), numbers(k * n), numbers(m * n)};
    struct tide_attributes t = {.ta = ta, .tb = tb};
    struct bench_op op = {TIDE_OP_MM,
                          {.attributes = &t,
                           .in = {{g.a, ta ? k : m, ta ? m : k}, {g.b, tb ? n : k, tb ? k : n}},
                           .out = {{g.c, m, n}}}};
    char name[80];
    snprintf(name, sizeof(name), "mm %zu x %zu x %zu%s%s", m, n, k, ta ? " ta" : "",
             tb ? " tb" : "");
    double own = time_op(&op), blas = measure(run_gemm, &g);
    report_row(name, "GFLOP/s", 2e-9 * (double)(m * n * k) / own);
    snprintf(name, sizeof(name), "mm %zu x %zu x %zu%s%s of OpenBLAS", m, n, k, ta ? " ta" : "",
             tb ? " tb" : "");
    report_row(name, "x", blas / own);
    tide_free(g.a);
    tide_free(g.b);
    tide_free(g.c);
}

/* Few columns and few rows: where Tide's own loops take over from the library. */
static void bench_narrow(void) {
    static const size_t shapes[][3] = {{2708, 16, 1433}, {2708, 32, 1433}, {2708, 64, 1433}, {1433, 16, 2708},
                                       {8, 1433, 2708},  {32, 4096, 784},  {1, 4096, 4096}};
    for (size_t i = 0; i < TIDE_COUNT(shapes); i++) {
        bench_product(false, false, shapes[i][0], shapes[i][1], shapes[i][2]);
        bench_product(true, false, shapes[i][0], shapes[i][1], shapes[i][2]);
    }
}

static void bench_conv(uint32_t c, uint32_t o, uint32_t side, uint32_t k) {
    enum { IMAGES = 32 };
    struct tide_attributes t = {.window = {.kh = k,
                                           .kw = k,
                                           .stride = 1,
                                           .pad = k / 2,
                                           .h = side,
                                           .w = side,
                                           .c = c,
                                           .oh = side,
                                           .ow = side,
                                           .o = o}};
    size_t pixels = (size_t)IMAGES * side * side, taps = (size_t)k * k * c;
    float *x = numbers(pixels * c), *w = numbers(taps * o), *y = numbers(pixels * o);
    struct bench_op forward = {
        TIDE_OP_CONV,
        {.attributes = &t, .in = {{x, pixels, c}, {w, taps, o}}, .out = {{y, pixels, o}}}};
    struct bench_op dx = {
        TIDE_OP_CONV_DX,
        {.attributes = &t, .in = {{y, pixels, o}, {w, taps, o}}, .out = {{x, pixels, c}}}};
    struct bench_op dw = {
        TIDE_OP_CONV_DW,
        {.attributes = &t, .in = {{x, pixels, c}, {y, pixels, o}}, .out = {{w, taps, o}}}};
    double times[3] = {time_op(&forward), time_op(&dx), time_op(&dw)};
    double flops = 2e-9 * (double)(pixels * taps * o);
    static const char *const names[] = {"forward", "dx", "dw"};
    for (size_t i = 0; i < 3; i++) {
        char name[80];
        snprintf(name, sizeof(name), "conv %ux%u %u to %u at %u^2 %s", k, k, c, o, side, names[i]);
        report_row(name, "GFLOP/s", flops / times[i]);
    }
    char name[80];
    snprintf(name, sizeof(name), "conv %ux%u %u to %u at %u^2 all", k, k, c, o, side);
    report_row(name, "ms", 1e3 * (times[0] + times[1] + times[2]));
    tide_free(x);
    tide_free(w);
    tide_free(y);
}

static void bench_maps(void) {
    enum { N = 256 << 10 };
    static const enum tide_micro_code codes[] = {TIDE_MICRO_SIGMOID, TIDE_MICRO_TANH,
                                                 TIDE_MICRO_EXP, TIDE_MICRO_LOG, TIDE_MICRO_ADD};
    float *x = numbers(N), *y = numbers(N);
    for (size_t i = 0; i < TIDE_COUNT(codes); i++) {
        bool two = codes[i] == TIDE_MICRO_ADD;
        struct tide_attributes t = {.region = {.source_count = 1 + two,
                                               .micro_count = 1,
                                               .out_count = 1,
                                               .micro = {{(uint8_t)codes[i], 0, two, 0}},
                                               .out = {1 + two}}};
        struct bench_op op = {TIDE_OP_MAP,
                              {.attributes = &t, .in = {{x, 1, N}, {x, 1, N}}, .out = {{y, 1, N}}}};
        char name[40];
        snprintf(name, sizeof(name), "map %s", tide_micro_names[codes[i]]);
        report_row(name, "Gelements/s", 1e-9 * N / time_op(&op));
    }
    tide_free(x);
    tide_free(y);
}

static void bench_xent(size_t rows, size_t k) {
    float *z = numbers(rows * k), *dz = numbers(rows * k);
    int32_t *labels = tide_alloc_zero(rows, sizeof(int32_t));
    double loss[3];
    struct bench_op op = {
        TIDE_OP_XENT,
        {.in = {{z, rows, k}, {labels, rows, 1}}, .out = {{loss, 1, 3}, {dz, rows, k}}}};
    char name[40];
    snprintf(name, sizeof(name), "xent %zu x %zu", rows, k);
    report_row(name, "ms", 1e3 * time_op(&op));
    tide_free(z);
    tide_free(dz);
    tide_free(labels);
}

static void bench_norm(void) {
    enum { N = 32 * 32 * 32, C = 16 };
    float *x = numbers(N * C), *y = numbers(N * C), *v = numbers(8 * C);
    struct tide_attributes t = {
        .eps = 1e-5,
        .rate = 0.1,
        .window = {.kh = 2, .kw = 2, .stride = 2, .h = 32, .w = 32, .c = C, .oh = 16, .ow = 16}};
    struct bench_op bn = {
        TIDE_OP_BATCHNORM,
        {.attributes = &t,
         .in = {{x, N, C}, {v, 1, C}, {v + C, 1, C}, {v + 2 * C, 1, C}, {v + 3 * C, 1, C}},
         .out = {{y, N, C}, {v + 4 * C, 1, C}, {v + 5 * C, 1, C}}}};
    struct bench_op back = {
        TIDE_OP_BATCHNORM_DX,
        {.attributes = &t,
         .in = {{y, N, C}, {x, N, C}, {v, 1, C}, {v + 4 * C, 1, C}, {v + 5 * C, 1, C}},
         .out = {{y, N, C}, {v + 6 * C, 1, C}, {v + 7 * C, 1, C}}}};
    report_row("batch norm 32x32x32x16, forward and backward", "ms",
               1e3 * (time_op(&bn) + time_op(&back)));
    uint8_t *place = tide_alloc_zero(N * C, 1);
    struct bench_op pool = {
        TIDE_OP_MAXPOOL,
        {.attributes = &t, .in = {{x, N, C}}, .out = {{y, N / 4, C}, {place, N / 4, C}}}};
    struct bench_op unpool = {
        TIDE_OP_MAXPOOL_DX,
        {.attributes = &t, .in = {{y, N / 4, C}, {place, N / 4, C}}, .out = {{x, N, C}}}};
    report_row("max pool 2 of the same, forward and backward", "ms",
               1e3 * (time_op(&pool) + time_op(&unpool)));
    tide_free(x);
    tide_free(y);
    tide_free(v);
    tide_free(place);
}

static void bench_rows(void) {
    enum { V = 50000, N = 2048, W = 256 };
    float *table = numbers((size_t)V * W), *out = numbers(N * W);
    int32_t *ids = tide_alloc_zero(N, sizeof(int32_t));
    struct tide_random random;
    tide_random_seed(&random, 4);
    for (size_t i = 0; i < N; i++) {
        ids[i] = (int32_t)tide_random_below(&random, V);
    }
    struct bench_op op = {TIDE_OP_EMBED,
                          {.in = {{table, V, W}, {ids, N, 1}}, .out = {{out, N, W}}}};
    report_row("gather 2048 rows of 256", "GB/s", 1e-9 * N * W * 8 / time_op(&op));
    tide_free(table);
    tide_free(out);
    tide_free(ids);
}

struct update_arguments {
    struct tide_step u;
    size_t n;
    float *w, *g, *a, *b;
};

static void run_update(void *arg) {
    struct update_arguments *x = arg;
    device->update(&x->u, x->n, x->w, x->g, x->a, x->b);
}

static void bench_updates(void) {
    static const struct {
        const char *name;
        enum tide_rule rule;
        double bytes;
    } rules[] = {{"sgd", TIDE_RULE_SGD, 12},
                 {"momentum", TIDE_RULE_MOMENTUM, 20},
                 {"adagrad", TIDE_RULE_ADAGRAD, 20},
                 {"adam", TIDE_RULE_ADAM, 28}};
    size_t n = 20000000;
    struct update_arguments x = {
        .n = n, .w = numbers(n), .g = numbers(n), .a = numbers(n), .b = numbers(n)};
    for (size_t i = 0; i < n; i++) {
        x.a[i] = x.b[i] = 1;
    }
    for (size_t i = 0; i < TIDE_COUNT(rules); i++) {
        x.u = (struct tide_step){rules[i].rule, 1e-6, 1, 0, 0.9, 0.999, 1e-8, 10};
        double took = measure(run_update, &x);
        char name[60];
        snprintf(name, sizeof(name), "update %s, 20 M parameters", rules[i].name);
        report_row(name, "ms", 1e3 * took);
        snprintf(name, sizeof(name), "update %s", rules[i].name);
        report_row(name, "GB/s", 1e-9 * rules[i].bytes * (double)n / took);
    }
    tide_free(x.w);
    tide_free(x.g);
    tide_free(x.a);
    tide_free(x.b);
}

/* ---- nets ---- */

static struct tide_program *p;
static unsigned made;

static void check(int code) {
    if (code != 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        exit(1);
    }
}

static uint32_t weight(size_t rank, uint32_t a, uint32_t b, double bound) {
    char name[16];
    uint32_t out;
    snprintf(name, sizeof(name), "p%u", made++);
    check(tide_program_parameter(p, name, rank, (uint32_t[]){a, b},
                                 (struct tide_initial){TIDE_INITIAL_UNIFORM, bound}, &out));
    return out;
}

static uint32_t map2(enum tide_micro_code code, uint32_t a, uint32_t b) {
    uint32_t out;
    check(tide_program_map(p, code, (uint32_t[]){a, b, 0}, (double[]){0, 0, 0}, &out));
    return out;
}

static uint32_t apply(enum tide_op_code code, size_t count, const uint32_t *in,
                      struct tide_attributes t) {
    uint32_t out;
    check(tide_program_apply(p, code, in, count, &t, &out));
    return out;
}

static uint32_t dense(uint32_t x, uint32_t from, uint32_t to, bool relu) {
    uint32_t z = apply(TIDE_OP_MM, 2, (uint32_t[]){x, weight(2, from, to, 0.02)},
                       (struct tide_attributes){0});
    z = map2(TIDE_MICRO_ADD, z, weight(1, to, 0, 0));
    return relu ? map2(TIDE_MICRO_RELU, z, 0) : z;
}

static uint32_t conv(uint32_t x, uint32_t from, uint32_t to, uint32_t k, uint32_t stride) {
    struct tide_attributes t = {.window = {.kh = k, .kw = k, .stride = stride, .pad = k / 2}};
    return apply(TIDE_OP_CONV, 2, (uint32_t[]){x, weight(2, k * k * from, to, 0.1)}, t);
}

static uint32_t norm(uint32_t x, uint32_t c) {
    char name[2][16];
    uint32_t in[5] = {x, weight(1, c, 0, 0.5), weight(1, c, 0, 0), 0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(name[i], sizeof(name[i]), "s%u", made++);
        check(tide_program_state(p, name[i], 1, &c, (struct tide_initial){TIDE_INITIAL_CONSTANT, 1},
                                 &in[3 + i]));
    }
    return apply(TIDE_OP_BATCHNORM, 5, in, (struct tide_attributes){.eps = 1e-5, .rate = 0.1});
}

static uint32_t input(const char *name, enum tide_value_type type, size_t rank, uint32_t a,
                      uint32_t b, uint32_t c) {
    uint32_t out;
    check(tide_program_input(p, name, type, rank, (uint32_t[]){a, b, c}, &out));
    return out;
}

static uint32_t perceptron(uint32_t from, uint32_t hidden, unsigned layers, uint32_t to) {
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, from, 0, 0);
    for (unsigned l = 0; l < layers; l++) {
        x = dense(x, l ? hidden : from, hidden, true);
    }
    return dense(x, layers ? hidden : from, to, false);
}

static uint32_t vgg(void) {
    static const uint32_t channels[] = {3, 16, 32, 32};
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 3, 32, 32, 3), flat = 512;
    for (size_t l = 0; l < 3; l++) {
        x = map2(TIDE_MICRO_ADD, conv(x, channels[l], channels[l + 1], 3, 1),
                 weight(1, channels[l + 1], 0, 0));
        x = map2(TIDE_MICRO_RELU, x, 0);
        x = apply(TIDE_OP_MAXPOOL, 1, &x,
                  (struct tide_attributes){.window = {.kh = 2, .kw = 2, .stride = 2}});
    }
    check(tide_program_reshape(p, x, 1, &flat, &x));
    return dense(dense(dense(x, 512, 4096, true), 4096, 4096, true), 4096, 100, false);
}

static uint32_t resnet20(void) {
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 3, 32, 32, 3), c = 16;
    x = map2(TIDE_MICRO_RELU, norm(conv(x, 3, c, 3, 1), c), 0);
    for (uint32_t stage = 0; stage < 3; stage++) {
        for (uint32_t block = 0; block < 3; block++) {
            bool down = stage > 0 && block == 0;
            uint32_t to = 16u << stage;
            uint32_t h = map2(TIDE_MICRO_RELU, norm(conv(x, c, to, 3, down ? 2 : 1), to), 0);
            h = norm(conv(h, to, to, 3, 1), to);
            uint32_t s = down ? norm(conv(x, c, to, 1, 2), to) : x;
            x = map2(TIDE_MICRO_RELU, map2(TIDE_MICRO_ADD, s, h), 0);
            c = to;
        }
    }
    return dense(apply(TIDE_OP_MEAN_PIXELS, 1, &x, (struct tide_attributes){0}), 64, 10, false);
}

struct net_run {
    struct tide_run *run;
    size_t parameters;
    float *w, *g;
    uint64_t step;
};

static void run_net(void *arg) {
    struct net_run *n = arg;
    check(tide_run_step(n->run, 32, n->step++, NULL));
    struct tide_step u = {.rule = TIDE_RULE_SGD, .rate = 1e-4, .scale = 1 / 32.0};
    for (size_t i = 0; i < n->parameters; i++) {
        if (!tide_run_folded(n->run, i)) {
            struct tide_parameter_place place = tide_program_parameter_at(p, i);
            device->update(&u, place.count, n->w + place.first, n->g + place.first, NULL, NULL);
        }
    }
}

static void bench_net(const char *name, uint32_t (*build)(void), size_t columns, bool fold) {
    check(tide_program_create(name, &p));
    made = 0;
    uint32_t z = build();
    apply(TIDE_OP_XENT, 2, (uint32_t[]){z, input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0)},
          (struct tide_attributes){0});
    check(tide_program_differentiate(p, false));
    struct tide_plan *plan;
    check(tide_plan_create(p, device, &(struct tide_plan_options){0}, &plan));
    size_t elements = tide_program_parameter_keys(p) * TIDE_PARAMETER_KEY;
    struct net_run n = {.parameters = tide_program_parameter_count(p),
                        .w = numbers(elements),
                        .g = numbers(elements)};
    float *states = numbers(tide_program_state_elements(p)), *x = numbers(32 * columns);
    int32_t labels[32] = {1, 2, 3, 4};
    check(tide_run_create(plan, 1, &n.run));
    tide_program_initialise(p, 1, sizeof(float), n.w, states);
    tide_run_bind_parameters(n.run, n.w, n.g, states);
    tide_run_fold(n.run, fold ? 1e-4 : 0);
    check(tide_run_bind(n.run, "x", x));
    check(tide_run_bind(n.run, "y", labels));
    report_row(name, "ms", 1e3 * measure(run_net, &n));
    tide_run_destroy(n.run);
    tide_plan_destroy(plan);
    tide_program_destroy(p);
    tide_free(n.w);
    tide_free(n.g);
    tide_free(states);
    tide_free(x);
}

static uint32_t mlp_large(void) {
    return perceptron(784, 4096, 2, 10);
}

static uint32_t mlp_small(void) {
    return perceptron(784, 512, 1, 10);
}

static uint32_t regression(void) {
    return perceptron(4096, 0, 0, 10000);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "programs");
    device = tide_device_find("cpu");
    bool nets = argc > 1 && strcmp(argv[1], "nets") == 0,
         ops = argc > 1 && strcmp(argv[1], "ops") == 0;
    if (!nets) {
        bench_product(false, false, 32, 4096, 4096);
        bench_product(false, true, 32, 4096, 4096);
        bench_product(true, false, 4096, 4096, 32);
        bench_product(false, false, 32, 10000, 4096);
        bench_product(true, false, 4096, 10000, 32);
        bench_product(false, false, 32, 4096, 784);
        bench_product(true, false, 784, 4096, 32);
        bench_product(false, false, 1024, 1024, 1024);
        bench_narrow();
        bench_conv(3, 16, 32, 3);
        bench_conv(16, 32, 16, 3);
        bench_conv(32, 32, 8, 3);
        bench_conv(64, 64, 32, 3);
        bench_conv(64, 128, 8, 1);
        bench_maps();
        bench_xent(64, 10000);
        bench_xent(2000, 5);
        bench_norm();
        bench_rows();
        bench_updates();
    }
    if (!ops) {
        bench_net("step mlp 784-512-10", mlp_small, 784, true);
        bench_net("step mlp 784-4096-4096-10", mlp_large, 784, true);
        bench_net("step regression 4096 x 10000", regression, 4096, true);
        bench_net("step vgg-like", vgg, 3072, true);
        bench_net("step resnet-20", resnet20, 3072, true);
        bench_net("step mlp 784-4096-4096-10, gradients apart", mlp_large, 784, false);
    }
    return 0;
}
