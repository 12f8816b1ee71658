/*
 * The only place of runtime/ that asks the C library or the kernel for memory. Failure leaves
 * ENOMEM in the error slot and returns NULL; a size of zero gives a pointer that may be freed, so
 * that callers need no special case.
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *checked(void *memory, size_t size) {
    if (TIDE_UNLIKELY(memory == NULL)) {
        tide_fail(TIDE_ENOMEM, "out of memory: %zu bytes", size);
    }
    return memory;
}

void *tide_alloc(size_t size) {
    return checked(malloc(size != 0 ? size : 1), size);
}

void *tide_alloc_zero(size_t count, size_t size) {
    if (count == 0 || size == 0) {
        count = size = 1;
    }
    void *memory = calloc(count, size);
    if (TIDE_UNLIKELY(memory == NULL)) {
        tide_fail(TIDE_ENOMEM, "out of memory: %zu x %zu bytes", count, size);
    }
    return memory;
}

void *tide_alloc_aligned(size_t alignment, size_t size) {
    TIDE_ASSERT(alignment != 0 && (alignment & (alignment - 1)) == 0);
    void *memory = NULL;
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    if (posix_memalign(&memory, alignment, size != 0 ? size : 1) != 0) {
        memory = NULL;
    }
    return checked(memory, size);
}

void *tide_realloc(void *memory, size_t size) {
    return checked(realloc(memory, size != 0 ? size : 1), size);
}

void tide_free(void *memory) {
    free(memory);
}

char *tide_strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = tide_alloc(size);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void *tide_map(size_t size, bool guard) {
    TIDE_ASSERT(size > 0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return checked(NULL, size);
    }
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
    if (memory != NULL) {
        TIDE_ASSERT(munmap(memory, size) == 0);
    }
}

void tide_decommit(void *memory, size_t size) {
    TIDE_ASSERT(memory != NULL);
    /* Advice: failing (a locked page) only keeps memory, and the contents were given up anyway. */
    (void)madvise(memory, size, MADV_DONTNEED);
}
