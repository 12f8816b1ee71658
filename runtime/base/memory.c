/*
 * The only place of runtime/ that asks the C library or the kernel for memory. Failure leaves
 * ENOMEM in the error slot and returns NULL, or ends the process where the runtime cannot continue
 * (TIDE_MEMORY_VITAL); a size of zero gives a pointer that may be freed, so that callers need no
 * special case.
 */
#include "base/base.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* More than this comes from a request, which can be rejected. */
enum { VITAL_MAX = 1 << 20 };

enum { LINE_BYTES = 64 }; /* of the caches; malloc aligns to a quarter: an address fits before the next */

/* Bytes at the end of a heap, and of a block that is mapped apart. */
enum { KEPT_BYTES = 16 << 20, MAPPED_BYTES = 8 << 20 };

void tide__memory_keep(void) {
#if defined(__GLIBC__)
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
#endif
}

bool (*tide__memory_refuses)(enum tide_memory_use use);
static _Thread_local enum tide_memory_use current_use;

/* AddressSanitizer keeps for an address what it knew of what was mapped there before: the stack of
 * a fiber that never came to its end leaves it forbidden. */
#ifdef TIDE_ASAN
void __asan_unpoison_memory_region(void const volatile *address, size_t size);
static void forget_what_was_here(const void *memory, size_t size) {
    __asan_unpoison_memory_region(memory, size);
}
#else
static void forget_what_was_here(const void *memory, size_t size) {
    (void)memory;
    (void)size;
}
#endif

enum tide_memory_use tide__memory_swap(enum tide_memory_use use) {
    enum tide_memory_use before = current_use;
    current_use = use;
    return before;
}

static bool is_refused(void) {
    return TIDE_UNLIKELY(tide__memory_refuses) && tide__memory_refuses(current_use);
}

static void end_without(size_t size) {
    fprintf(stderr, "tide: out of memory: %zu bytes, without which this process cannot go on\n", size);
    fflush(stderr);
    abort();
}

void tide__memory_needed(size_t size) {
    if (current_use == TIDE_MEMORY_VITAL) {
        end_without(size);
    }
}

static void *checked(void *memory, size_t size) {
    if (TIDE_LIKELY(memory)) {
        return memory;
    }
    if (size <= VITAL_MAX) {
        tide__memory_needed(size);
    }
    tide_fail(TIDE_ENOMEM, "out of memory: %zu bytes", size);
    return NULL;
}

void *tide_alloc(size_t size) {
    return checked(is_refused() ? NULL : malloc(size != 0 ? size : 1), size);
}

void *tide_alloc_zero(size_t count, size_t size) {
    if (count == 0 || size == 0) {
        count = size = 1;
    }
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        bytes = SIZE_MAX;
    }
    return checked(is_refused() ? NULL : calloc(count, size), bytes);
}

void *tide_alloc_aligned(size_t alignment, size_t size) {
    TIDE_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
    void *memory = NULL;
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    if (is_refused() || posix_memalign(&memory, alignment, size != 0 ? size : 1) != 0) {
        memory = NULL;
    }
    return checked(memory, size);
}

/* The address of malloc's block lies before what is aligned. */
void *tide_workspace_alloc(size_t size) {
    size_t bytes;
    if (__builtin_add_overflow(size, LINE_BYTES, &bytes)) {
        bytes = SIZE_MAX;
    }
    char *block = tide_alloc(bytes);
    if (!block) {
        return NULL;
    }
    char *workspace = block + LINE_BYTES - (uintptr_t)block % LINE_BYTES;
    memcpy(workspace - sizeof block, &block, sizeof block);
    return workspace;
}

void tide_workspace_free(void *workspace) {
    char *block = NULL;
    if (workspace) {
        memcpy(&block, (char *)workspace - sizeof block, sizeof block);
    }
    tide_free(block);
}

void *tide_realloc(void *memory, size_t size) {
    return checked(is_refused() ? NULL : realloc(memory, size != 0 ? size : 1), size);
}

void *tide_alloc_vital(size_t size) {
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    void *memory = tide_alloc_zero(1, size);
    tide__memory_swap(use);
    if (!memory) {
        end_without(size);
    }
    return memory;
}

void *tide_realloc_vital(void *memory, size_t size) {
    enum tide_memory_use use = tide__memory_swap(TIDE_MEMORY_VITAL);
    memory = tide_realloc(memory, size);
    tide__memory_swap(use);
    if (!memory) {
        end_without(size);
    }
    return memory;
}

void tide_free(void *memory) {
    free(memory);
}

char *tide_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = tide_alloc(size);
    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

void *tide_map(size_t size, bool guard) {
    TIDE_ASSERT(size > 0);
    if (is_refused()) {
        return checked(NULL, size);
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return checked(NULL, size);
    }
    forget_what_was_here(memory, size);
    if (guard) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        TIDE_ASSERT(size > page);
        if (mprotect(memory, page, PROT_NONE) != 0) { /* the kernel's limit on mappings */
            munmap(memory, size);
            return checked(NULL, size);
        }
    }
    return memory;
}

void tide_unmap(void *memory, size_t size) {
    if (memory) {
        TIDE_ASSERT(munmap(memory, size) == 0);
    }
}
