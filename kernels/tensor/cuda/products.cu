/* Matrix products: what is checked and what is empty; the rest is cublas.cu's. */
#include "tensor/cuda/gpu.h"

/* A product over nothing: c = beta c. */
static __global__ void scale_kernel(size_t rows, size_t columns, float beta, float *c, size_t ldc,
                                    size_t count, size_t next) {
    const size_t one = rows * columns;
    for (size_t e = gpu_thread(); e < count * one; e += gpu_stride()) {
        float *at = c + e / one * next + e % one / columns * ldc + e % columns;
        *at = beta > 0.0f || beta < 0.0f ? beta * *at : 0.0f;
    }
}

static bool too_large(size_t x) {
    return x > INT_MAX;
}

int tide_cuda_multiply(struct tide_cuda_queue *queue, const struct tide_cuda_product *p) {
    const size_t columns_a = p->ta ? p->m : p->k, columns_b = p->tb ? p->k : p->n;
    if (too_large(p->m) || too_large(p->n) || too_large(p->k) || too_large(p->lda) ||
        too_large(p->ldb) || too_large(p->ldc) || too_large(p->count) ||
        (p->k && (p->lda < columns_a || p->ldb < columns_b)) || (p->m && p->ldc < p->n)) {
        return TIDE_EINVAL;
    }
    if (p->m == 0 || p->n == 0 || p->count == 0) {
        return 0;
    }
    if (p->k == 0) {
        return GPU_EACH(scale_kernel, gpu_blocks(p->m * p->n * p->count), queue, p->m, p->n,
                        p->beta, p->c, p->ldc, p->count, p->next_c);
    }
    int code = queue->blas ? 0 : tide_cuda_blas_open(queue, &queue->blas);
    return code == 0 ? tide_cuda_blas_multiply(queue, p) : code;
}

int tide_cuda_mm(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const struct tide_operand *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
    struct tide_cuda_product p = {};
    p.ta = t->ta;
    p.tb = t->tb;
    p.m = c->rows;
    p.n = c->columns;
    p.k = t->ta ? a->rows : a->columns;
    p.alpha = t->alpha > 0 || t->alpha < 0 ? (float)t->alpha : 1.0f;
    p.a = (const float *)a->data;
    p.lda = tide_operand_stride(a);
    p.b = (const float *)b->data;
    p.ldb = tide_operand_stride(b);
    p.beta = call->accumulate ? 1.0f : 0.0f;
    p.c = (float *)c->data;
    p.ldc = tide_operand_stride(c);
    p.count = 1;
    return tide_cuda_multiply(tide_cuda_queue_of(call), &p);
}

/* in[0] has g n rows of k columns, in[1] g k rows of m columns, before ta and tb. */
int tide_cuda_bmm(const struct tide_op_call *call) {
    const struct tide_attributes *t = call->attributes;
    const struct tide_operand *a = &call->in[0], *b = &call->in[1], *c = &call->out[0];
    struct tide_cuda_product p = {};
    p.ta = t->ta;
    p.tb = t->tb;
    p.m = t->ta ? a->columns : t->n;
    p.n = c->columns;
    p.k = t->ta ? t->n : a->columns;
    p.alpha = 1.0f;
    p.a = (const float *)a->data;
    p.lda = a->columns;
    p.next_a = t->n * a->columns;
    p.b = (const float *)b->data;
    p.ldb = b->columns;
    p.next_b = (t->tb ? c->columns : p.k) * b->columns;
    p.c = (float *)c->data;
    p.ldc = c->columns;
    p.next_c = p.m * c->columns;
    p.count = p.m ? c->rows / p.m : 0;
    return tide_cuda_multiply(tide_cuda_queue_of(call), &p);
}
