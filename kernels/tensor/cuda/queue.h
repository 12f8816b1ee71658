/* What a queue is here: three streams, and the device's note of the first bad label. */
#ifndef TIDE_CUDA_QUEUE_H
#define TIDE_CUDA_QUEUE_H

struct tide_cuda_fault { /* on the device */
    uint32_t kind;       /* enum tide_cuda_fault_kind */
    int32_t value;
    uint64_t place, limit;
};

struct tide_cuda_blas; /* products on one stream */

struct tide_cuda_queue {
    cudaStream_t work, up, down;
    cudaEvent_t point;  /* in work: where a copy beside it may start */
    cudaEvent_t landed; /* in up */
    cudaEvent_t tickets[TIDE_TICKETS];
    uint64_t ticket_count;
    struct tide_cuda_blas *blas; /* NULL until the first product */
    struct tide_cuda_fault *fault;
    char reason[200]; /* of the first failure since the last finish; "": none */
};

/* Notes a failure of the runtime; 0 or EIO, ENOMEM. */
int tide_cuda_check(struct tide_cuda_queue *queue, cudaError_t error);
/* After a launch: its error, if there is one. */
int tide_cuda_launched(struct tide_cuda_queue *queue);

/* An update, which has no queue and returns nothing, did not start: the next finish of any queue returns
 * of it. Any thread. */
void tide_cuda_not_updated(void);

/* Stands for the default stream, where work has no queue. */
struct tide_cuda_queue *tide_cuda_default_queue(void);

extern const struct tide_memory tide_cuda_memory;
extern const struct tide_numeric tide_cuda_numeric;

/* ---- products.cu ---- */
/* As struct tide_backend's gemm, `count` times, operands so many elements apart. */
struct tide_cuda_product {
    bool ta, tb;
    size_t m, n, k;
    float alpha;
    const float *a;
    size_t lda, next_a;
    const float *b;
    size_t ldb, next_b;
    float beta;
    float *c;
    size_t ldc, next_c;
    size_t count;
};
int tide_cuda_multiply(struct tide_cuda_queue *queue, const struct tide_cuda_product *p);

/* ---- cublas.cu ---- */
/* Loads the library, the first time. 0, or EUNSUPPORTED with the reason. Any thread. */
int tide_cuda_blas_load(char *reason, size_t capacity);
int tide_cuda_blas_open(struct tide_cuda_queue *queue, struct tide_cuda_blas **out);
void tide_cuda_blas_close(struct tide_cuda_blas *blas); /* NULL: nothing */
/* By the queue's, which is open. No dimension is 0, all fit an int. */
int tide_cuda_blas_multiply(struct tide_cuda_queue *queue, const struct tide_cuda_product *p);

/* ---- rows.cu ---- */
enum tide_cuda_fault_kind { TIDE_CUDA_NO_FAULT, TIDE_CUDA_LABEL, TIDE_CUDA_ID };
/* Notes the first of `ids` that is not in -1 .. limit - 1. */
int tide_cuda_check_ids(struct tide_cuda_queue *queue, enum tide_cuda_fault_kind kind, const int32_t *ids, size_t count,
                        size_t limit);

/* ---- columns.cu ---- */
enum tide_cuda_columns {
    TIDE_CUDA_PLAIN,      /* x, 0 */
    TIDE_CUDA_SHIFTED,    /* d = x - (row 0's x), d^2 */
    TIDE_CUDA_NORMED,     /* x, x ((y - mean) inv): mean and inv by column */
    TIDE_CUDA_NORMED_ROWS /* the same, mean and inv by row */
};
size_t tide_cuda_columns_scratch(size_t rows, size_t columns);
/* Two sums down each column of [rows, columns], in double: *sums is [2, columns], part of scratch.
 */
int tide_cuda_sum_columns(struct tide_cuda_queue *queue, enum tide_cuda_columns kind, size_t rows, size_t columns,
                          const float *x, const float *y, const float *mean, const float *inv, void *scratch,
                          double **sums);

#define TIDE_OPERATION(code, name, ...) int tide_cuda_##name(const struct tide_op_call *call);
#include "operations.def"
#undef TIDE_OPERATION
size_t tide_cuda_conv_scratch(enum tide_op_code code, const struct tide_op_call *call);
size_t tide_cuda_loss_scratch(const struct tide_op_call *call);
size_t tide_cuda_embed_scratch(const struct tide_op_call *call);
size_t tide_cuda_linear_xent_scratch(const struct tide_op_call *call);
size_t tide_cuda_ctc_scratch(const struct tide_op_call *call);
size_t tide_cuda_attention_scratch(const struct tide_op_call *call);
void tide_cuda_update(const struct tide_step *u, size_t n, void *w, const void *g, void *a, void *b);
double tide_cuda_norm2(size_t n, const void *x);

static inline struct tide_cuda_queue *tide_cuda_queue_of(const struct tide_op_call *call) {
    return (struct tide_cuda_queue *)call->queue;
}

#endif
