/*
 * Context switches. On x86-64 a switch saves the six callee-saved registers and the floating point control words and
 * exchanges stack pointers (about 2 ns); elsewhere ucontext does it (it also saves the signal mask, two system calls).
 */
#include "actor/context.h"

#include <string.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(a, b) 0u
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#ifdef TIDE_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(void const volatile *address, size_t size);
#endif
#ifdef TIDE_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

struct context_stack *context_stack_create(size_t size) {
    char *memory = tide_map(size, true);
    if (!memory) {
        return NULL;
    }
    struct context_stack *stack = (struct context_stack *)(void *)(memory + size - sizeof *stack);
    *stack = (struct context_stack){.memory = memory, .size = size};
    stack->valgrind_id = VALGRIND_STACK_REGISTER(memory, memory + size);
    return stack;
}

void context_stack_destroy(struct context_stack *stack) {
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
    tide_unmap(stack->memory, stack->size);
}

#if defined(__x86_64__)
void tide__switch(void **save, void *load);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl tide__switch\n"
        ".hidden tide__switch\n"
        ".type tide__switch,@function\n"
        "tide__switch:\n"
        "  endbr64\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  subq $8, %rsp\n"
        "  stmxcsr (%rsp)\n"
        "  fnstcw 4(%rsp)\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  ldmxcsr (%rsp)\n"
        "  fldcw 4(%rsp)\n"
        "  addq $8, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size tide__switch,.-tide__switch\n"
        /* First code on a fresh stack: r12 = entry, r13 = argument. */
        ".p2align 4\n"
        ".globl tide__start\n"
        ".hidden tide__start\n"
        ".type tide__start,@function\n"
        "tide__start:\n"
        "  .cfi_startproc\n"
        "  .cfi_undefined rip\n"
        "  movq %r13, %rdi\n"
        "  callq *%r12\n"
        "  ud2\n"
        "  .cfi_endproc\n"
        ".size tide__start,.-tide__start\n");
void tide__start(void);

static void prepare(struct context *context, void (*entry)(void *), void *arg) {
    uintptr_t top = (uintptr_t)context->stack & ~(uintptr_t)15;
    uint64_t *frame = (uint64_t *)top - 10;
    uint32_t control[2] = {0x1f80, 0x037f}; /* the ABI's default of mxcsr and of the x87 control word */
    memcpy(&frame[0], control, sizeof control);
    frame[1] = 0;                        /* r15 */
    frame[2] = 0;                        /* r14 */
    frame[3] = (uint64_t)(uintptr_t)arg; /* r13 */
    void (*start)(void) = tide__start;
    memcpy(&frame[4], &entry, sizeof entry); /* r12 */
    frame[5] = 0;                            /* rbx */
    frame[6] = 0;                            /* rbp: ends frame pointer chains */
    memcpy(&frame[7], &start, sizeof start); /* return address; the stack is then 16-aligned at `call` */
    frame[8] = 0;
    frame[9] = 0;
    context->stack_pointer = frame;
}

static void leave(struct context *from, struct context *to) {
    tide__switch(&from->stack_pointer, to->stack_pointer);
}

static void release_machine(struct context *context) {
    context->stack_pointer = NULL;
}
#else
#include <ucontext.h>

struct machine {
    ucontext_t context;
    void (*entry)(void *);
    void *arg;
};

/* Not drawn for by the simulator, so that builds for sanitizers do what others do. */
static struct machine *machine_create(void) {
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_TOOL);
    struct machine *m = tide_alloc_zero(1, sizeof *m);
    tide__memory_swap(use);
    TIDE_ASSERT(m);
    return m;
}

static void trampoline(unsigned high, unsigned low) {
    struct machine *m = (struct machine *)(((uintptr_t)high << 16 << 16) | (uintptr_t)low);
    m->entry(m->arg);
}

static void prepare(struct context *context, void (*entry)(void *), void *arg) {
    struct machine *m = machine_create();
    context->ucontext = m;
    m->entry = entry;
    m->arg = arg;
    getcontext(&m->context);
    m->context.uc_stack.ss_sp = context->stack->memory;
    m->context.uc_stack.ss_size = (size_t)((char *)context->stack - (char *)context->stack->memory);
    uintptr_t address = (uintptr_t)m;
    makecontext(&m->context, (void (*)(void))trampoline, 2, (unsigned)(address >> 16 >> 16), (unsigned)address);
}

static void leave(struct context *from, struct context *to) {
    if (!from->ucontext) {
        from->ucontext = machine_create();
    }
    swapcontext(&((struct machine *)from->ucontext)->context, &((struct machine *)to->ucontext)->context);
}

static void release_machine(struct context *context) {
    tide_free(context->ucontext);
    context->ucontext = NULL;
}
#endif

void context_init_thread(struct context *context) {
    *context = (struct context){0};
}

void context_init(struct context *context, struct context_stack *stack, void (*entry)(void *), void *arg) {
    *context = (struct context){.stack = stack};
#ifdef TIDE_ASAN
    context->bottom = stack->memory;
    context->size = stack->size;
    __asan_unpoison_memory_region(stack->memory, (size_t)((char *)stack - (char *)stack->memory));
#endif
#ifdef TIDE_TSAN
    context->tsan_fiber = __tsan_create_fiber(0);
#endif
    prepare(context, entry, arg);
}

void context_deinit(struct context *context) {
#ifdef TIDE_TSAN
    if (context->tsan_fiber && context->stack) {
        __tsan_destroy_fiber(context->tsan_fiber);
    }
    context->tsan_fiber = NULL;
#endif
    release_machine(context);
}

void context_switch(struct context *from, struct context *to, bool last) {
    (void)last;
#ifdef TIDE_TSAN
    if (!from->stack) {
        from->tsan_fiber = __tsan_get_current_fiber();
    }
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
#ifdef TIDE_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom, to->size);
#endif
    leave(from, to);
#ifdef TIDE_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void context_started(struct context *self, struct context *from) {
    (void)self;
    (void)from;
#ifdef TIDE_ASAN
    const void *bottom = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (!from->stack) { /* learn the thread's own stack for the way back */
        from->bottom = bottom;
        from->size = size;
    }
#endif
}
