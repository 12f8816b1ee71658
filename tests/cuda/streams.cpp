/*
 * Streams of the emulation: lists of work that run when somebody waits for them, which is as late
 * as a device may be. An event is a place in a stream; who waits for it makes that stream run up to
 * there. The default stream waits for all others and is never behind.
 */
#include "cuda/emulated.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The device does one thing at a time, for whichever thread. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
struct turn {
    turn() { pthread_mutex_lock(&lock); }
    ~turn() { pthread_mutex_unlock(&lock); }
};

struct item {
    struct item *next;
    void (*run)(void *arg);
    void (*drop)(void *arg);
    void *arg;
};

struct emulated_stream {
    struct emulated_stream *next;
    struct item *first, **last;
    uint64_t put, done; /* items so far */
    bool running;
};

struct emulated_event {
    struct emulated_stream *stream; /* NULL: never recorded, or on the default stream */
    uint64_t place;                 /* items of the stream before it */
};

static struct emulated_stream *streams;
static thread_local cudaError_t last; /* what cudaGetLastError tells, once */

static void run_to(struct emulated_stream *stream, uint64_t place) {
    if (stream->running && stream->done < place) {
        fprintf(stderr, "emulated device: streams wait for each other\n");
        abort();
    }
    while (stream->done < place) {
        struct item *item = stream->first;
        stream->first = item->next;
        if (!stream->first) {
            stream->last = &stream->first;
        }
        stream->running = true;
        item->run(item->arg);
        stream->running = false;
        stream->done++;
        item->drop(item->arg);
        free(item);
    }
}

static void run_all(void) {
    for (struct emulated_stream *s = streams; s; s = s->next) {
        run_to(s, s->put);
    }
}

void emulated_queue(cudaStream_t stream, void (*run)(void *), void (*drop)(void *), void *arg) {
    turn own;
    if (!stream) {
        run_all();
        run(arg);
        drop(arg);
        return;
    }
    struct item *item = (struct item *)malloc(sizeof(*item));
    *item = {NULL, run, drop, arg};
    *stream->last = item;
    stream->last = &item->next;
    stream->put++;
}

/* ---- memory ---- */

static uint64_t allocations;

extern "C" uint64_t emulated_allocations(void) {
    return allocations;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    turn own;
    allocations++;
    *memory = malloc(bytes);
    if (*memory) {
        memset(*memory, 0xff, bytes); /* NaN: nobody may count on zeros */
    }
    return *memory ? cudaSuccess : (last = cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *memory) {
    turn own;
    run_all();
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned flags) {
    (void)host, (void)bytes, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *host) {
    (void)host;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    turn own;
    (void)kind;
    run_all();
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind;
    emulated_later(stream, [=] { memcpy(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream) {
    emulated_later(stream, [=] { memset(memory, byte, bytes); });
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreate(cudaStream_t *out) {
    turn own;
    struct emulated_stream *stream = (struct emulated_stream *)calloc(1, sizeof(*stream));
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    *out = stream;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    turn own;
    run_to(stream, stream->put);
    struct emulated_stream **at = &streams;
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    turn own;
    run_to(stream, stream->put);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)flags;
    struct emulated_stream *other = event->stream;
    const uint64_t place = event->place;
    if (other) {
        emulated_later(stream, [=] { run_to(other, place); });
    }
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = (struct emulated_event *)calloc(1, sizeof(**event));
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    turn own;
    event->stream = stream;
    event->place = stream ? stream->put : 0;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    turn own;
    const bool over = !event->stream || event->stream->done >= event->place;
    return over ? cudaSuccess : (last = cudaErrorNotReady); /* as CUDA does */
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    turn own;
    if (event->stream) {
        run_to(event->stream, event->place);
    }
    return cudaSuccess;
}

/* ---- the device ---- */

cudaError_t cudaGetLastError(void) {
    const cudaError_t was = last;
    last = cudaSuccess;
    return was;
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the emulation";
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *device, int index) {
    *device = {"emulated", 0, index, 0};
    return cudaSuccess;
}
