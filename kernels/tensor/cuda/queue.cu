/*
 * Memory of the device, and queues of work on it. Work runs on one stream; copies beside it on one
 * stream each way, tied to it by events. The streams are of the kind that the default stream waits
 * for and blocks, which gives the queue NULL its meaning.
 *
 * Without a driver or a device the module's probe says so and nothing here is called.
 */
#include "tensor/cuda/gpu.h"

#include <stdio.h>
#include <stdlib.h>

int tide_cuda_check(struct tide_cuda_queue *queue, cudaError_t error) {
    if (error == cudaSuccess) {
        return 0;
    }
    if (queue && !queue->reason[0]) {
        snprintf(queue->reason, sizeof(queue->reason), "CUDA: %s", cudaGetErrorString(error));
    }
    cudaGetLastError(); /* or the next launch is blamed for it */
    return error == cudaErrorMemoryAllocation ? TIDE_ENOMEM : TIDE_EIO;
}

int tide_cuda_launched(struct tide_cuda_queue *queue) {
    return tide_cuda_check(queue, cudaGetLastError());
}

static bool not_updated;

void tide_cuda_not_updated(void) {
    __atomic_store_n(&not_updated, true, __ATOMIC_RELAXED);
}

struct tide_cuda_queue *tide_cuda_default_queue(void) {
    static struct tide_cuda_queue queue; /* stream 0, and an unread reason */
    return &queue;
}

static void *allocate(size_t bytes) {
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return memory;
}

static void release(void *memory) {
    cudaFree(memory);
}

static void pin(void *host, size_t bytes) {
    if (bytes > 0 && cudaHostRegister(host, bytes, cudaHostRegisterDefault) != cudaSuccess) {
        cudaGetLastError(); /* pinned already, or too much of it: copies are slower, that is all */
    }
}

static void unpin(void *host) {
    if (cudaHostUnregister(host) != cudaSuccess) {
        cudaGetLastError();
    }
}

static void close_queue(void *queue_) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    if (!queue) {
        return;
    }
    cudaStream_t streams[] = {queue->work, queue->up, queue->down};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i]) {
            cudaStreamSynchronize(streams[i]);
        }
    }
    tide_cuda_blas_close(queue->blas);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (streams[i]) {
            cudaStreamDestroy(streams[i]);
        }
    }
    cudaEvent_t events[] = {queue->point, queue->landed};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i]) {
            cudaEventDestroy(events[i]);
        }
    }
    for (size_t i = 0; i < TIDE_TICKETS; i++) {
        if (queue->tickets[i]) {
            cudaEventDestroy(queue->tickets[i]);
        }
    }
    cudaFree(queue->fault);
    free(queue);
}

static cudaError_t open_parts(struct tide_cuda_queue *queue) {
    const unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    cudaError_t error = cudaStreamCreate(&queue->work);
    error = error == cudaSuccess ? cudaStreamCreate(&queue->up) : error;
    error = error == cudaSuccess ? cudaStreamCreate(&queue->down) : error;
    error = error == cudaSuccess ? cudaEventCreateWithFlags(&queue->point, flags) : error;
    error = error == cudaSuccess ? cudaEventCreateWithFlags(&queue->landed, flags) : error;
    for (size_t i = 0; i < TIDE_TICKETS && error == cudaSuccess; i++) {
        error = cudaEventCreateWithFlags(&queue->tickets[i], flags);
    }
    void *fault = NULL;
    error = error == cudaSuccess ? cudaMalloc(&fault, sizeof(*queue->fault)) : error;
    queue->fault = (struct tide_cuda_fault *)fault;
    return error == cudaSuccess
               ? cudaMemsetAsync(queue->fault, 0, sizeof(*queue->fault), queue->work)
               : error;
}

static int open_queue(void **out) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)calloc(1, sizeof(*queue));
    if (!queue) {
        return TIDE_ENOMEM;
    }
    int code = tide_cuda_check(queue, open_parts(queue));
    if (code != 0) {
        close_queue(queue);
        cudaGetLastError();
        return code;
    }
    *out = queue;
    return 0;
}

/* On a stream of the queue; without a queue done on return, after all that was queued before. */
static int copy(struct tide_cuda_queue *queue, cudaStream_t stream, void *to, const void *from,
                size_t bytes, enum cudaMemcpyKind kind) {
    if (bytes == 0) {
        return 0;
    }
    return tide_cuda_check(queue, queue ? cudaMemcpyAsync(to, from, bytes, kind, stream)
                                        : cudaMemcpy(to, from, bytes, kind));
}

static int upload(void *queue_, void *to, const void *host, size_t bytes) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    return copy(queue, queue ? queue->work : NULL, to, host, bytes, cudaMemcpyHostToDevice);
}

static int download(void *queue_, void *host, const void *from, size_t bytes) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    return copy(queue, queue ? queue->work : NULL, host, from, bytes, cudaMemcpyDeviceToHost);
}

static int upload_beside(void *queue_, void *to, const void *host, size_t bytes) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    int code = copy(queue, queue->up, to, host, bytes, cudaMemcpyHostToDevice);
    if (code == 0) {
        code = tide_cuda_check(queue, cudaEventRecord(queue->landed, queue->up));
    }
    return code == 0 ? tide_cuda_check(queue, cudaStreamWaitEvent(queue->work, queue->landed, 0))
                     : code;
}

static int take_ticket(struct tide_cuda_queue *queue, cudaStream_t stream, uint64_t *ticket) {
    *ticket = queue->ticket_count++;
    return tide_cuda_check(queue, cudaEventRecord(queue->tickets[*ticket % TIDE_TICKETS], stream));
}

static int download_beside(void *queue_, void *host, const void *from, size_t bytes,
                           uint64_t *ticket) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    int code = tide_cuda_check(queue, cudaEventRecord(queue->point, queue->work));
    if (code == 0) {
        code = tide_cuda_check(queue, cudaStreamWaitEvent(queue->down, queue->point, 0));
    }
    if (code == 0) {
        code = copy(queue, queue->down, host, from, bytes, cudaMemcpyDeviceToHost);
    }
    return code == 0 ? take_ticket(queue, queue->down, ticket) : code;
}

static int mark(void *queue_, uint64_t *ticket) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    return take_ticket(queue, queue->work, ticket);
}

static int over(void *queue_, uint64_t ticket, bool wait) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    if (ticket >= queue->ticket_count || ticket + TIDE_TICKETS < queue->ticket_count) {
        return TIDE_EINVAL;
    }
    cudaEvent_t event = queue->tickets[ticket % TIDE_TICKETS];
    cudaError_t error = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); /* no failure, but remembered like one */
        return 0;
    }
    return error == cudaSuccess ? 1 : tide_cuda_check(queue, error);
}

static int explain(const struct tide_cuda_fault *fault, char *text, size_t capacity) {
    const bool label = fault->kind == TIDE_CUDA_LABEL;
    snprintf(text, capacity,
             label ? "example %llu has label %d, outside 0..%llu (-1 leaves it out)"
                   : "index %llu is %d, outside 0..%llu (-1: zeros)",
             (unsigned long long)fault->place + 1, fault->value,
             (unsigned long long)fault->limit - 1);
    return TIDE_EINVAL;
}

static int finish(void *queue_, char *text, size_t capacity) {
    struct tide_cuda_queue *queue = (struct tide_cuda_queue *)queue_;
    struct tide_cuda_fault fault = {};
    int code = download(queue, &fault, queue->fault, sizeof(fault));
    if (code == 0) {
        code = tide_cuda_check(queue, cudaStreamSynchronize(queue->work));
    }
    if (code == 0) {
        code = tide_cuda_check(queue, cudaStreamSynchronize(queue->up));
    }
    if (code == 0) {
        code = tide_cuda_check(queue, cudaStreamSynchronize(queue->down));
    }
    if (code == 0 && fault.kind != TIDE_CUDA_NO_FAULT) { /* also behind another failure */
        code = tide_cuda_check(
            queue, cudaMemsetAsync(queue->fault, 0, sizeof(*queue->fault), queue->work));
    }
    if (__atomic_exchange_n(&not_updated, false, __ATOMIC_RELAXED) && !queue->reason[0]) {
        snprintf(queue->reason, sizeof(queue->reason), "an update did not start on the device");
    }
    if (code == 0 && !queue->reason[0] && fault.kind != TIDE_CUDA_NO_FAULT) {
        return explain(&fault, text, capacity);
    }
    if (queue->reason[0]) {
        snprintf(text, capacity, "%s", queue->reason);
        queue->reason[0] = 0;
        return code != 0 ? code : TIDE_EIO;
    }
    return code;
}

const struct tide_memory tide_cuda_memory = {
    allocate,      release,         pin,  unpin, open_queue, close_queue, upload, download,
    upload_beside, download_beside, mark, over,  finish};
