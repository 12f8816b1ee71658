/*
 * Blocks and threads of the emulation. Threads that may meet are contexts: each runs to the next
 * meeting, in the order the test chose, before any continues. That a thread ends while others wait,
 * and that threads of a kernel without meetings meet, ends the process: both are mistakes that real
 * devices answer with anything at all.
 */
#include "emulate.h"
#include "actor/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 256, STACK_BYTES = 64 << 10, SHARED_BYTES = 48 << 10 };

struct index {
    unsigned x;
};
struct index emulated_thread, emulated_block, emulated_grid;

static struct {
    enum emulated_order order;
    struct context main, threads[THREADS_MAX];
    struct context_stack *stacks[THREADS_MAX];
    unsigned count, current;
    bool ended[THREADS_MAX];
    bool running, meet;
    void (*body)(void *arg);
    void *arg;
    double brought[2][THREADS_MAX];
    unsigned exchanges[THREADS_MAX];
    uint64_t block; /* a new number for each, from 1 */
    size_t shared_bytes;
    _Alignas(16) unsigned char shared[SHARED_BYTES];
} world;

void tide_emulated_order(enum emulated_order order) {
    world.order = order;
}

static void broken(const char *what) {
    fprintf(stderr, "emulated device: %s (block %u, thread %u)\n", what, emulated_block.x,
            emulated_thread.x);
    abort();
}

/* The i-th of n in the chosen order: from the first, from the last, or from the middle outwards. */
static unsigned pick(unsigned i, unsigned n) {
    switch (world.order) {
    case EMULATED_BACKWARDS:
        return n - 1 - i;
    case EMULATED_MIXED:
        return (unsigned)(((uint64_t)i * 97 + 41) % n); /* n has no factor 97 */
    default:
        return i;
    }
}

static void enter(unsigned thread) {
    world.current = emulated_thread.x = thread;
}

static void thread_entry(void *arg) {
    (void)arg;
    context_started(&world.threads[world.current], &world.main);
    for (;;) { /* a stack serves block after block */
        world.body(world.arg);
        world.ended[world.current] = true;
        context_switch(&world.threads[world.current], &world.main, false);
    }
}

static void start_threads(unsigned count) {
    for (unsigned t = 0; t < count; t++) {
        if (!world.stacks[t]) {
            world.stacks[t] = context_stack_create(STACK_BYTES);
            if (!world.stacks[t]) {
                broken("no memory for a stack");
            }
            context_init(&world.threads[t], world.stacks[t], thread_entry, NULL);
        }
        world.ended[t] = false;
        world.exchanges[t] = 0;
    }
}

static void run_together(void) {
    start_threads(world.count);
    for (unsigned left = world.count; left > 0;) {
        unsigned ended = 0;
        for (unsigned i = 0; i < world.count; i++) {
            enter(pick(i, world.count));
            context_switch(&world.main, &world.threads[world.current], false);
            ended += world.ended[world.current];
        }
        if (ended != 0 && ended != world.count) {
            broken("a thread ended while others of its block wait for it");
        }
        left -= ended;
    }
}

void emulated_run(unsigned blocks, unsigned threads, size_t shared, bool meet, void (*body)(void *),
                  void *arg) {
    context_init_thread(&world.main); /* whichever thread this is */
    if (world.running || threads > THREADS_MAX || shared > SHARED_BYTES || blocks == 0) {
        broken("a launch that no device would take");
    }
    world.running = true;
    world.count = threads;
    world.body = body;
    world.arg = arg;
    world.meet = meet;
    world.shared_bytes = shared;
    emulated_grid.x = blocks;
    for (unsigned b = 0; b < blocks; b++) {
        emulated_block.x = blocks % 97 ? pick(b, blocks) : b;
        world.block++;
        memset(world.shared, 0xff, shared);
        if (meet) {
            run_together();
            continue;
        }
        for (unsigned t = 0; t < threads; t++) {
            enter(pick(t, threads));
            body(arg);
        }
    }
    world.running = false;
}

void emulated_barrier(void) {
    if (!world.meet) {
        broken("threads meet in a kernel that was started as if they did not");
    }
    context_switch(&world.threads[world.current], &world.main, false);
}

double emulated_across(double value, unsigned mask) {
    const unsigned own = world.current, turn = world.exchanges[own]++ % 2;
    world.brought[turn][own] = value;
    emulated_barrier();
    if ((own ^ mask) / 32 != own / 32 || (own ^ mask) >= world.count) {
        broken("an exchange beyond the group");
    }
    return world.brought[turn][own ^ mask];
}

void *emulated_shared(void) {
    return world.shared;
}

void emulated_fresh(void *memory, size_t bytes, uint64_t *block) {
    if (*block != world.block) {
        *block = world.block;
        memset(memory, 0xff, bytes);
    }
}

/* At exit: so that the leak checker has nothing to say. */
__attribute__((destructor)) static void end(void) {
    for (unsigned t = 0; t < THREADS_MAX; t++) {
        if (world.stacks[t]) {
            context_deinit(&world.threads[t]);
            context_stack_destroy(world.stacks[t]);
        }
    }
}
