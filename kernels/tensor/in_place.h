/* Operations as devices run them that compute in the host's memory, whatever their element. */
#ifndef TIDE_TENSOR_IN_PLACE_H
#define TIDE_TENSOR_IN_PLACE_H

#include "tensor/own.h"
#include "tide.h"

/* An operation of a module. */
static inline int tide_own_in_place(const struct tide_op_call *call, size_t element, bool backward) {
    char error[TIDE_KERNEL_ERROR_BYTES];
    const int code = tide_own_run(call, element, backward, NULL, error);
    return code == 0 ? 0
                     : tide_fail(TIDE_EINVAL, "%s of %s: %s", backward ? "backward" : "forward",
                                 call->attributes->own->name, error);
}

static inline size_t tide_ctc_examples(const struct tide_op_call *call, size_t *labels) {
    const size_t examples = call->in[0].rows / call->attributes->n;
    *labels = examples ? call->in[1].rows * call->in[1].columns / examples : 0;
    return examples;
}

static inline int tide_ctc_check(const struct tide_op_call *call) {
    const int32_t *labels = call->in[1].data, *frames = call->in[2].data;
    size_t most;
    const size_t k = call->in[0].columns, examples = tide_ctc_examples(call, &most);
    for (size_t i = 0; i < examples * most; i++) {
        if (labels[i] < -1 || labels[i] == 0 || labels[i] >= (int64_t)k) {
            return tide_fail(TIDE_EINVAL, "example %zu has label %d, outside 1..%zu (-1 ends them, 0 is the blank)",
                             i / most + 1, labels[i], k - 1);
        }
    }
    for (size_t b = 0; frames && b < examples; b++) {
        if (frames[b] < 0 || (uint32_t)frames[b] > call->attributes->n) {
            return tide_fail(TIDE_EINVAL, "example %zu has %d frames, outside 0..%u", b + 1, frames[b],
                             call->attributes->n);
        }
    }
    return 0;
}

/* CTC of all examples; `example` is what TIDE_CTC (ctc.h) defines for the element. */
static inline int tide_ctc_in_place(const struct tide_op_call *call, size_t element,
                                    double (*example)(size_t frames, size_t k, const int32_t *labels, size_t count,
                                                      const void *logits, void *slopes, double *scratch)) {
    size_t most;
    const size_t n = call->attributes->n, k = call->in[0].columns, examples = tide_ctc_examples(call, &most);
    const int32_t *labels = call->in[1].data, *frames = call->in[2].data;
    double *loss = call->out[0].data;
    int code = tide_ctc_check(call);
    loss[0] = loss[1] = loss[2] = 0;
    for (size_t b = 0; code == 0 && b < examples; b++, labels += most) {
        const char *logits = (const char *)call->in[0].data + b * n * k * element;
        char *slopes = (char *)call->out[1].data + b * n * k * element;
        const size_t own = frames ? (size_t)frames[b] : n;
        size_t count = 0;
        while (count < most && labels[count] >= 0) {
            count++;
        }
        const double one = example(own, k, labels, count, logits, slopes, call->scratch);
        memset(slopes + own * k * element, 0, (n - own) * k * element);
        loss[0] += one < 0 ? 0 : one;
        loss[1] += one < 0 ? 0 : 1;
    }
    return code;
}

#endif
