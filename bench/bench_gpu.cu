/*
 * CUDA kernels on a GPU, beside what bounds them: elementwise operations, reductions and update
 * rules against the copy bandwidth of the same run (a copy of 256 MiB reads and writes each byte),
 * products against cuBLAS called directly, convolutions in GFLOP/s, copies of pinned memory. Each
 * row is the median of several rounds. Numeric tools for decisions, transfers included, against one
 * core of the CPU, once each. Without a device: 77, with the reason.
 */
#include "bench/report.h"
#include "tensor/cuda/gpu.h"
#include "kernel.h"
extern "C" {
#include "decide/numeric.h"
}

#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 7, CALLS = 20, ELEMENTS = 64 << 20 };

extern "C" const struct tide_backend *tide_backend_entry(void);
static const struct tide_device *device;
static struct tide_cuda_queue *queue;
static double copied; /* bytes a second, read and written */

static void check(bool fine, const char *what) {
    if (!fine) {
        fprintf(stderr, "bench_gpu: %s\n", what);
        exit(1);
    }
}

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Seconds of one call on the stream. */
static double measure(cudaStream_t stream, void (*work)(void *arg), void *arg) {
    float rounds[ROUNDS];
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess, "events");
    for (int i = 0; i < 3; i++) {
        work(arg);
    }
    for (int r = 0; r < ROUNDS; r++) {
        cudaEventRecord(begin, stream);
        for (int i = 0; i < CALLS; i++) {
            work(arg);
        }
        cudaEventRecord(end, stream);
        check(cudaEventSynchronize(end) == cudaSuccess, "a kernel failed");
        cudaEventElapsedTime(&rounds[r], begin, end);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    qsort(rounds, ROUNDS, sizeof(rounds[0]), by_size);
    return 1e-3 * (double)rounds[ROUNDS / 2] / CALLS;
}

/* Numbers in [0, 1), on the device. */
static float *numbers(size_t n) {
    float *host = (float *)malloc(n * sizeof(float));
    float *there = (float *)tide_cuda_memory.allocate(n * sizeof(float));
    check(host && there, "no memory");
    for (size_t i = 0; i < n; i++) {
        host[i] = (float)((i * 2654435761u >> 8) & 0xffff) / 65536.0f;
    }
    check(tide_cuda_memory.upload(NULL, there, host, n * sizeof(float)) == 0, "an upload failed");
    free(host);
    return there;
}

static void report_bytes(const char *name, double bytes, double seconds) {
    char row[96];
    report_row(name, "GB/s", 1e-9 * bytes / seconds);
    snprintf(row, sizeof(row), "%s, of the copy's", name);
    report_row(row, "x", bytes / seconds / copied);
}

/* ---- copies ---- */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
    cudaMemcpyKind kind;
};

static void run_copy(void *arg) {
    const struct copy *c = (const struct copy *)arg;
    cudaMemcpyAsync(c->to, c->from, c->bytes, c->kind, queue->work);
}

static void bench_copies(void) {
    const size_t bytes = (size_t)ELEMENTS * sizeof(float);
    float *a = numbers(ELEMENTS), *b = numbers(ELEMENTS);
    void *host = NULL;
    check(cudaMallocHost(&host, bytes) == cudaSuccess, "no pinned memory");
    struct copy inside = {b, a, bytes, cudaMemcpyDeviceToDevice};
    struct copy up = {a, host, bytes, cudaMemcpyHostToDevice};
    struct copy down = {host, a, bytes, cudaMemcpyDeviceToHost};
    copied = 2 * (double)bytes / measure(queue->work, run_copy, &inside);
    report_row("copy on the device, read and written", "GB/s", 1e-9 * copied);
    report_row("copy up, pinned", "GB/s",
               1e-9 * (double)bytes / measure(queue->work, run_copy, &up));
    report_row("copy down, pinned", "GB/s",
               1e-9 * (double)bytes / measure(queue->work, run_copy, &down));
    cudaFreeHost(host);
    tide_cuda_memory.release(a);
    tide_cuda_memory.release(b);
}

/* ---- operations ---- */

struct bench_op {
    enum tide_op_code code;
    struct tide_attributes attributes;
    struct tide_op_call call;
};

static void run_op(void *arg) {
    struct bench_op *op = (struct bench_op *)arg;
    check(device->functions[op->code](&op->call) == 0, tide_op_names[op->code]);
}

static double time_op(struct bench_op *op) {
    op->call.attributes = &op->attributes;
    op->call.queue = queue;
    op->call.scratch = tide_cuda_memory.allocate(device->scratch(op->code, &op->call));
    double seconds = measure(queue->work, run_op, op);
    tide_cuda_memory.release(op->call.scratch);
    return seconds;
}

static void set(struct tide_operand *operand, void *data, size_t rows, size_t columns) {
    operand->data = data;
    operand->rows = rows;
    operand->columns = columns;
}

/* A chain of `micros` operations on x and, from the second source, a full or a row operand. */
static void bench_map(const char *name, const uint8_t *codes, size_t micros, bool row, float *a,
                      float *b, float *c) {
    const size_t columns = 4096, rows = ELEMENTS / columns;
    struct bench_op op = {};
    struct tide_region *region = &op.attributes.region;
    op.code = TIDE_OP_MAP;
    region->source_count = 2;
    region->kind[1] = row ? TIDE_SOURCE_ROW : TIDE_SOURCE_FULL;
    region->micro_count = (uint8_t)micros;
    region->out_count = 1;
    for (size_t i = 0; i < micros; i++) {
        region->micro[i].code = codes[i];
        region->micro[i].a = (uint8_t)(i == 0 ? 0 : i + 1);
        region->micro[i].b = 1;
    }
    region->out[0] = (uint8_t)(micros + 1);
    set(&op.call.in[0], a, rows, columns);
    set(&op.call.in[1], b, row ? 1 : rows, columns);
    set(&op.call.out[0], c, rows, columns);
    const double bytes = (row ? 8.0 : 12.0) * ELEMENTS;
    report_bytes(name, bytes, time_op(&op));
}

static void bench_maps(void) {
    static const uint8_t add[] = {TIDE_MICRO_ADD}, bias[] = {TIDE_MICRO_ADD, TIDE_MICRO_RELU};
    static const uint8_t gate[] = {TIDE_MICRO_ADD, TIDE_MICRO_SIGMOID, TIDE_MICRO_MUL};
    static const uint8_t eight[] = {TIDE_MICRO_MUL, TIDE_MICRO_ADD, TIDE_MICRO_MAX, TIDE_MICRO_SQR,
                                    TIDE_MICRO_SUB, TIDE_MICRO_MIN, TIDE_MICRO_ABS, TIDE_MICRO_MUL};
    float *a = numbers(ELEMENTS), *b = numbers(ELEMENTS), *c = numbers(ELEMENTS);
    bench_map("map a + b", add, 1, false, a, b, c);
    bench_map("map relu(a + bias)", bias, 2, true, a, b, c);
    bench_map("map b sigmoid(a + b)", gate, 3, false, a, b, c);
    bench_map("map of eight", eight, 8, false, a, b, c);
    tide_cuda_memory.release(a);
    tide_cuda_memory.release(b);
    tide_cuda_memory.release(c);
}

/* Operations that read `reads` and write `writes` arrays of the whole size. */
static void bench_pass(const char *name, struct bench_op *op, double arrays) {
    report_bytes(name, arrays * sizeof(float) * ELEMENTS, time_op(op));
}

static void bench_passes(void) {
    const size_t columns = 1024, rows = ELEMENTS / columns;
    float *x = numbers(ELEMENTS), *y = numbers(ELEMENTS), *dx = numbers(ELEMENTS);
    float *small[5];
    for (int i = 0; i < 5; i++) {
        small[i] = numbers(rows > columns ? rows : columns);
    }
    struct bench_op norm = {}, soft = {}, drop = {}, layer = {};
    norm.code = TIDE_OP_BATCHNORM;
    norm.attributes.eps = layer.attributes.eps = 1e-5;
    set(&norm.call.in[0], x, rows, columns);
    for (int i = 1; i < 5; i++) {
        set(&norm.call.in[i], small[i - 1], 1, columns);
    }
    set(&norm.call.out[0], y, rows, columns);
    set(&norm.call.out[1], small[4], 1, columns);
    set(&norm.call.out[2], small[4], 1, columns);
    bench_pass("batch norm (2 reads, 1 write)", &norm, 3);
    layer = norm;
    layer.code = TIDE_OP_LAYERNORM;
    set(&layer.call.out[1], small[2], rows, 1);
    set(&layer.call.out[2], small[3], rows, 1);
    bench_pass("layer norm (1 read, 1 write)", &layer, 2);
    soft.code = TIDE_OP_SOFTMAX;
    set(&soft.call.in[0], x, rows, columns);
    set(&soft.call.out[0], dx, rows, columns);
    bench_pass("softmax of 1024 (1 read, 1 write)", &soft, 2);
    drop = soft;
    drop.code = TIDE_OP_DROPOUT;
    drop.attributes.keep = 0.5;
    bench_pass("dropout", &drop, 2);
    for (int i = 0; i < 5; i++) {
        tide_cuda_memory.release(small[i]);
    }
    tide_cuda_memory.release(x);
    tide_cuda_memory.release(y);
    tide_cuda_memory.release(dx);
}

/* ---- update rules ---- */

struct bench_update {
    struct tide_step step;
    float *w, *g, *a, *b;
};

static void run_update(void *arg) {
    const struct bench_update *u = (const struct bench_update *)arg;
    device->update(&u->step, ELEMENTS, u->w, u->g, u->a, u->b);
}

static void bench_updates(void) {
    static const struct {
        const char *name;
        enum tide_rule rule;
        double arrays; /* read or written */
    } rules[] = {{"sgd", TIDE_RULE_SGD, 3},         {"momentum", TIDE_RULE_MOMENTUM, 5},
                 {"adagrad", TIDE_RULE_ADAGRAD, 5}, {"rmsprop", TIDE_RULE_RMSPROP, 5},
                 {"adam", TIDE_RULE_ADAM, 7},       {"adamw", TIDE_RULE_ADAMW, 7}};
    struct bench_update u = {};
    u.w = numbers(ELEMENTS);
    u.g = numbers(ELEMENTS);
    u.a = numbers(ELEMENTS);
    u.b = numbers(ELEMENTS);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        u.step = {rules[i].rule, 1e-4, 1, 1e-4, 0.9, 0.999, 1e-8, 10};
        double seconds = measure(NULL, run_update, &u); /* updates go to the default stream */
        report_bytes(rules[i].name, rules[i].arrays * sizeof(float) * ELEMENTS, seconds);
    }
    tide_cuda_memory.release(u.w);
    tide_cuda_memory.release(u.g);
    tide_cuda_memory.release(u.a);
    tide_cuda_memory.release(u.b);
}

/* ---- products and convolutions ---- */

typedef cublasStatus_t (*create_function)(cublasHandle_t *);
typedef cublasStatus_t (*stream_function)(cublasHandle_t, cudaStream_t);
typedef cublasStatus_t (*gemm_function)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const float *, const float *, int, const float *,
                                        int, const float *, float *, int);
static cublasHandle_t handle;
static gemm_function gemm;

static void open_cublas(void) {
    void *library = dlopen("libcublas.so.13", RTLD_NOW);
    library = library ? library : dlopen("libcublas.so.12", RTLD_NOW);
    check(library != NULL, "no cuBLAS");
    create_function create = (create_function)dlsym(library, "cublasCreate_v2");
    stream_function set_stream = (stream_function)dlsym(library, "cublasSetStream_v2");
    gemm = (gemm_function)dlsym(library, "cublasSgemm_v2");
    check(create && set_stream && gemm && create(&handle) == CUBLAS_STATUS_SUCCESS &&
              set_stream(handle, queue->work) == CUBLAS_STATUS_SUCCESS,
          "cuBLAS does not start");
}

static void run_cublas(void *arg) {
    const struct tide_op_call *c = &((struct bench_op *)arg)->call;
    const float one = 1, none = 0;
    const int n = (int)c->out[0].columns, m = (int)c->out[0].rows, k = (int)c->in[0].columns;
    gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, (const float *)c->in[1].data, n,
         (const float *)c->in[0].data, k, &none, (float *)c->out[0].data, n);
}

static void bench_product(size_t m, size_t n, size_t k) {
    char row[96];
    struct bench_op op = {};
    op.code = TIDE_OP_MM;
    set(&op.call.in[0], numbers(m * k), m, k);
    set(&op.call.in[1], numbers(k * n), k, n);
    set(&op.call.out[0], numbers(m * n), m, n);
    const double own = time_op(&op), theirs = measure(queue->work, run_cublas, &op);
    snprintf(row, sizeof(row), "mm %zu x %zu x %zu", m, n, k);
    report_row(row, "GFLOP/s", 2e-9 * (double)m * (double)n * (double)k / own);
    snprintf(row, sizeof(row), "mm %zu x %zu x %zu, of cuBLAS", m, n, k);
    report_row(row, "x", theirs / own);
    tide_cuda_memory.release(op.call.in[0].data);
    tide_cuda_memory.release(op.call.in[1].data);
    tide_cuda_memory.release(op.call.out[0].data);
}

static void bench_conv(uint32_t c, uint32_t o, uint32_t side) {
    enum { IMAGES = 64 };
    static const enum tide_op_code codes[] = {TIDE_OP_CONV, TIDE_OP_CONV_DX, TIDE_OP_CONV_DW};
    const size_t pixels = (size_t)IMAGES * side * side;
    float *x = numbers(pixels * c), *w = numbers((size_t)9 * c * o), *y = numbers(pixels * o);
    for (int i = 0; i < 3; i++) {
        char row[96];
        struct bench_op op = {};
        op.code = codes[i];
        op.attributes.window = {3, 3, 1, 1, side, side, c, side, side, o};
        const bool dx = i == 1, dw = i == 2;
        set(&op.call.in[0], dx ? y : x, pixels, dx ? o : c);
        set(&op.call.in[1], dw ? y : w, dw ? pixels : (size_t)9 * c, o);
        set(&op.call.out[0], dx ? x : dw ? w : y, dw ? (size_t)9 * c : pixels, dx ? c : o);
        snprintf(row, sizeof(row), "%s 3x3 %u -> %u at %u^2", tide_op_names[codes[i]], c, o, side);
        report_row(row, "GFLOP/s", 18e-9 * (double)pixels * c * o / time_op(&op));
    }
    tide_cuda_memory.release(x);
    tide_cuda_memory.release(w);
    tide_cuda_memory.release(y);
}

/* ---- numeric tools ---- */

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report_decision(const char *name, double here, double there) {
    char row[96];
    report_row(name, "ms", 1e3 * there);
    snprintf(row, sizeof(row), "%s, the CPU over it", name);
    report_row(row, "x", here / there);
}

static double number_of(size_t i) {
    return (double)((i * 2654435761u >> 8) & 0xffff) / 65536;
}

static void bench_knapsack(void) {
    enum { ROWS = 200, CHOICES = 16, CAPACITY = 1 << 20 };
    static double value[ROWS * CHOICES], best[CAPACITY + 1];
    static uint64_t sizes[CHOICES];
    static size_t pick[ROWS];
    double took[2];
    for (size_t i = 0; i < ROWS * CHOICES; i++) {
        value[i] = number_of(i);
    }
    for (size_t j = 0; j < CHOICES; j++) {
        sizes[j] = 1000 * (j + 1);
    }
    for (int there = 0; there < 2; there++) {
        const struct tide_knapsack p = {value, sizes, ROWS, CHOICES, CAPACITY, there ? device : NULL};
        const double began = seconds_now();
        check(tide_knapsack(&p, pick, best) == 0, "a knapsack");
        took[there] = seconds_now() - began;
    }
    report_decision("knapsack 200 x 16, capacity 2^20", took[0], took[1]);
}

int main(int argc, char **argv) {
    char text[256] = "";
    void *opened = NULL;
    const struct tide_backend *backend = tide_backend_entry();
    report_init(argc, argv, "gpu");
    if (backend->probe(text, sizeof(text)) != 0) {
        fprintf(stderr, "bench_gpu: no device: %s\n", text);
        return 77;
    }
    fprintf(stderr, "# %s\n", text);
    device = backend->device;
    check(tide_cuda_memory.open(&opened) == 0, "no queue");
    queue = (struct tide_cuda_queue *)opened;
    open_cublas();
    bench_copies();
    bench_maps();
    bench_passes();
    bench_updates();
    bench_product(1024, 1024, 1024);
    bench_product(4096, 4096, 4096);
    bench_product(32, 4096, 4096);
    bench_product(600, 192, 64);
    bench_conv(16, 32, 32);
    bench_conv(64, 64, 32);
    bench_conv(128, 128, 16);
    bench_knapsack();
    tide_cuda_memory.close(queue);
    return 0;
}
