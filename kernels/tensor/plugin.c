/*
 * The CUDA backend as a plugin: a shared object of our own build with one entry. It is refused,
 * with the reason, when its declarations are not those of this program, and left loaded afterwards:
 * a driver's threads may run in it. NULL is an answer, not a failure: the CPU is used.
 */
#include "kernel.h"
#include "base/plugin.h"
#include "tide.h"

#include <stdio.h>
#include <string.h>

static const char file[] = "tide_cuda.so";

static const struct tide_backend *check(const struct tide_backend *backend, char *text, size_t capacity) {
    if (!backend) {
        snprintf(text, capacity, "%s: its entry gave nothing", file);
        return NULL;
    }
    /* abi and size come first and never move, so they can be read in a plugin of any age. */
    if (backend->abi != TIDE_KERNEL_ABI || backend->size != sizeof(*backend)) {
        snprintf(text, capacity, "%s: made for interface %u of %u bytes, this program has %u of %zu", file,
                 backend->abi, backend->size, TIDE_KERNEL_ABI, sizeof(*backend));
        return NULL;
    }
    if (strcmp(backend->build_id, TIDE_KERNEL_BUILD) != 0) {
        snprintf(text, capacity, "%s: of build %s, this program is %s: they come from one build", file,
                 backend->build_id, TIDE_KERNEL_BUILD);
        return NULL;
    }
    char reason[256] = "";
    if (backend->probe(reason, sizeof(reason)) != 0) {
        snprintf(text, capacity, "%s: %s", file, reason);
        return NULL;
    }
    snprintf(text, capacity, "%s", reason);
    return backend;
}

const struct tide_backend *tide_backend_cuda(const char *directory, char *text, size_t capacity) {
    void *symbol = tide__plugin_load(file, directory, "tide_backend_entry", text, capacity);
    if (!symbol) {
        return NULL;
    }
    const struct tide_backend *(*entry)(void);
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointer */
    return check(entry(), text, capacity);
}
