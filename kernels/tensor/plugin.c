/*
 * The CUDA backend as a plugin: a shared object of our own build with one entry. It is refused,
 * with the reason, when its declarations are not those of this program, and left loaded afterwards:
 * a driver's threads may run in it. NULL is an answer, not a failure: the CPU goes on.
 */
#include "kernel.h"
#include "tide.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef TIDE_PLUGIN_DIRECTORY
#define TIDE_PLUGIN_DIRECTORY "/usr/lib/tide"
#endif

static const struct tide_backend *check(const struct tide_backend *backend, const char *path, char *text,
                                        size_t capacity) {
    if (!backend) {
        snprintf(text, capacity, "%s: its entry gave nothing", path);
        return NULL;
    }
    /* abi and size come first and never move, so they can be read in a plugin of any age. */
    if (backend->abi != TIDE_KERNEL_ABI || backend->size != sizeof(*backend)) {
        snprintf(text, capacity, "%s: made for interface %u of %u bytes, this program has %u of %zu", path,
                 backend->abi, backend->size, TIDE_KERNEL_ABI, sizeof(*backend));
        return NULL;
    }
    if (strcmp(backend->build_id, TIDE_KERNEL_BUILD) != 0) {
        snprintf(text, capacity, "%s: of build %s, this program is %s: they come from one build", path,
                 backend->build_id, TIDE_KERNEL_BUILD);
        return NULL;
    }
    char reason[256] = "";
    if (backend->probe(reason, sizeof(reason)) != 0) {
        snprintf(text, capacity, "%s: %s", path, reason);
        return NULL;
    }
    snprintf(text, capacity, "%s", reason);
    return backend;
}

const struct tide_backend *tide_backend_cuda(const char *directory, char *text, size_t capacity) {
    char path[4096] = "tide_cuda.so"; /* where the program's run path says */
    void *library = directory ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int length =
        library ? 0 : snprintf(path, sizeof(path), "%s/tide_cuda.so", directory ? directory : TIDE_PLUGIN_DIRECTORY);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        snprintf(text, capacity, "the plugin's path is too long");
        return NULL;
    }
    if (!library) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        const char *reason = dlerror();
        snprintf(text, capacity, "%s", reason ? reason : path);
        return NULL;
    }
    void *symbol = dlsym(library, "tide_backend_entry");
    if (!symbol) {
        snprintf(text, capacity, "%s: no tide_backend_entry in it", path);
        dlclose(library);
        return NULL;
    }
    const struct tide_backend *(*entry)(void);
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from object to function pointer */
    return check(entry(), path, text, capacity);
}
