/* Stackful switches: a stack with a guard page and the saved registers of code that runs on it. Notifies sanitizers and
 * valgrind of every switch, so that they see stacks and not garbage. */
#ifndef TIDE_CONTEXT_H
#define TIDE_CONTEXT_H

#include "base/base.h"

struct context_stack {
    struct context_stack *next; /* of a free list; lives at the top of the stack itself */
    void *memory;
    size_t size;
    unsigned valgrind_id;
};

struct context {
    void *stack_pointer;
    struct context_stack *stack; /* NULL: the thread's own */
#ifdef TIDE_ASAN
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
#ifdef TIDE_TSAN
    void *tsan_fiber;
#endif
#if !defined(__x86_64__)
    void *ucontext;
#endif
};

struct context_stack *context_stack_create(size_t size);
void context_stack_destroy(struct context_stack *stack);

/* The context of code that already runs (a thread's own stack). */
void context_init_thread(struct context *context);
/* First switch to it calls entry(arg) on `stack`; entry never returns, it switches away with `last` set. */
void context_init(struct context *context, struct context_stack *stack, void (*entry)(void *), void *arg);
void context_deinit(struct context *context);
/* Suspends `from`, continues `to`. `last`: `from` will never be continued. */
void context_switch(struct context *from, struct context *to, bool last);
/* To be called first thing on a fresh stack. */
void context_started(struct context *self, struct context *from);

#endif
