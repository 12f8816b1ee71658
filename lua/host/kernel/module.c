/*
 * core.kernel_module(path): kernels of a shared object (tide/kernel.h), as functions.
 *
 * A file is loaded by its content: from a copy in memory, so that the file may be built anew while a process uses the
 * old one, and the same content is loaded once a process. Nothing is ever unloaded: a worker may be inside.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "lua/host/host.h"

#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct loaded {
    struct loaded *next;
    char sha[65];
    const struct tide_kernel_module *module;
};

static struct tide_lock lock;
static struct loaded *all; /* under lock */

/* ---- what a module says of itself, checked ---- */

static const char *check_kernel(const struct tide_kernel *k, char text[256]) {
    if (!k->name || !tide_identifier_valid(k->name)) {
        return "a kernel has a name of lower-case letters, digits and . _ -";
    }
    if (!k->run || !k->doc || k->parameter_count > TIDE_KERNEL_PARAMETERS_MAX ||
        (k->parameter_count > 0 && !k->parameters)) {
        snprintf(text, 256, "kernel %s needs `run`, `doc` and at most %d parameters", k->name,
                 TIDE_KERNEL_PARAMETERS_MAX);
        return text;
    }
    for (size_t i = 0; i < k->parameter_count; i++) {
        const struct tide_parameter *p = &k->parameters[i];
        if (!p->name || !p->doc || (unsigned)p->type > TIDE_DRAWS) {
            snprintf(text, 256, "parameter %zu of kernel %s needs a name, a doc and a type", i + 1, k->name);
            return text;
        }
        if (p->type == TIDE_TENSOR && p->element != 0 && strcmp(tide__lua_tensor_type_name(p->element), "?") == 0) {
            snprintf(text, 256, "parameter '%s' of kernel %s: no tensor has elements of type %d", p->name, k->name,
                     p->element);
            return text;
        }
    }
    return NULL;
}

static const char *check_operation(const struct tide_own_operation *o, char text[256]) {
    if (!o->name || !tide_identifier_valid(o->name)) {
        return "an operation has a name of lower-case letters, digits and . _ -";
    }
    if (!o->doc || !o->shape || !o->forward || o->in_count == 0 || o->in_count > TIDE_OWN_OPERANDS ||
        o->out_count == 0 || o->out_count > TIDE_OWN_RESULTS || o->number_count > TIDE_OWN_NUMBERS ||
        (o->number_count > 0 && !o->numbers)) {
        snprintf(
            text, 256,
            "operation %s needs `doc`, `shape`, `forward`, 1 to %d operands, 1 to %d results and at most %d numbers",
            o->name, TIDE_OWN_OPERANDS, TIDE_OWN_RESULTS, TIDE_OWN_NUMBERS);
        return text;
    }
    for (size_t i = 0; i < o->number_count; i++) {
        if (!o->numbers[i].name || !o->numbers[i].doc || o->numbers[i].type != TIDE_NUMBER) {
            snprintf(text, 256, "number %zu of operation %s needs a name, a doc and the type TIDE_NUMBER", i + 1,
                     o->name);
            return text;
        }
    }
    return NULL;
}

static const char *check_module(const struct tide_kernel_module *m, char text[256]) {
    if (!m) {
        return "its tide_kernel_module refuses";
    }
    if (m->abi != TIDE_KERNEL_ABI) {
        snprintf(text, 256, "it was built for version %u of tide/kernel.h, this is version %u: build it again", m->abi,
                 TIDE_KERNEL_ABI);
        return text;
    }
    const bool any = (m->kernel_count > 0 && m->kernels) || (m->operation_count > 0 && m->operations);
    const char *problem = any ? NULL : "it has no kernels and no operations";
    for (size_t i = 0; !problem && i < m->operation_count; i++) {
        problem = check_operation(&m->operations[i], text);
    }
    for (size_t i = 0; !problem && i < m->kernel_count; i++) {
        problem = check_kernel(&m->kernels[i], text);
    }
    return problem;
}

/* ---- loading ---- */

static const char *last_failure(const char *shown, char text[256]) {
    const char *reason = dlerror();
    const char *rest = reason ? strstr(reason, ": ") : NULL; /* behind the name of the copy */
    snprintf(text, 256, "%s: %s", shown,
             rest && strncmp(reason, "/proc/self/fd/", 14) == 0 ? rest + 2
             : reason                                           ? reason
                                                                : "?");
    return text;
}

/* NULL, or why not. */
static const char *open_copy(const void *bytes, size_t size, const struct tide_kernel_module **out, char text[256]) {
    const int fd = memfd_create("tide-kernel", MFD_CLOEXEC);
    char path[40];
    size_t written = 0;
    while (fd >= 0 && written < size) {
        const ssize_t n = write(fd, (const char *)bytes + written, size - written);
        if (n < 0 && errno != EINTR) {
            break;
        }
        written += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0 || written < size) {
        snprintf(text, 256, "it could not be copied to memory: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return text;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *problem = handle ? NULL : last_failure("it is no shared object that can be loaded", text);
    close(fd);
    if (problem) {
        return problem;
    }
    const struct tide_kernel_module *(*entry)(const struct tide_kernel_host *);
    *(void **)&entry = dlsym(handle, "tide_kernel_module");
    if (!entry) {
        return "it has no function tide_kernel_module (tide/kernel.h)";
    }
    *out = entry(&tide_kernel_host);
    return check_module(*out, text);
}

static struct loaded *find(const char *sha) {
    struct loaded *l = all;
    while (l && strcmp(l->sha, sha) != 0) {
        l = l->next;
    }
    return l;
}

static const char *load(const void *bytes, size_t size, const char *sha, struct loaded **out, char text[256]) {
    const char *problem = NULL;
    tide_lock(&lock);
    *out = find(sha);
    if (!*out) {
        const struct tide_kernel_module *module = NULL;
        problem = open_copy(bytes, size, &module, text);
        struct loaded *l = problem ? NULL : tide_alloc_zero(1, sizeof *l);
        if (l) {
            snprintf(l->sha, sizeof l->sha, "%s", sha);
            l->module = module;
            l->next = all;
            all = l;
        } else if (!problem) {
            problem = "out of memory";
        }
        *out = l;
    }
    tide_unlock(&lock);
    return problem;
}

/* {name = {own =, numbers = {{name =, default =, doc =}, ..}}} */
static void push_operations(lua_State *L, const struct tide_kernel_module *module) {
    lua_createtable(L, 0, (int)module->operation_count);
    for (size_t i = 0; i < module->operation_count; i++) {
        const struct tide_own_operation *o = &module->operations[i];
        lua_createtable(L, 0, 2);
        lua_pushlightuserdata(L, (void *)(uintptr_t)o);
        lua_setfield(L, -2, "own");
        lua_createtable(L, (int)o->number_count, 0);
        for (size_t k = 0; k < o->number_count; k++) {
            lua_createtable(L, 0, 3);
            lua_pushstring(L, o->numbers[k].name);
            lua_setfield(L, -2, "name");
            lua_pushstring(L, o->numbers[k].doc);
            lua_setfield(L, -2, "doc");
            if (!o->numbers[k].required) {
                lua_pushnumber(L, o->numbers[k].number);
                lua_setfield(L, -2, "default");
            }
            lua_rawseti(L, -2, (lua_Integer)k + 1);
        }
        lua_setfield(L, -2, "numbers");
        lua_setfield(L, -2, o->name);
    }
}

/* core.kernel_module(bytes) -> {version=, sha=, kernels={name = function}, operations=}, or nil and why not */
static int core_kernel_module(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    char sha[65], text[256];
    tide_sha256_hex(bytes, size, sha);
    struct loaded *l;
    const char *problem = load(bytes, size, sha, &l, text);
    if (problem) {
        lua_pushnil(L);
        lua_pushstring(L, problem);
        return 2;
    }
    lua_createtable(L, 0, 3);
    lua_pushstring(L, l->sha);
    lua_setfield(L, -2, "sha");
    lua_pushstring(L, l->module->version ? l->module->version : "");
    lua_setfield(L, -2, "version");
    lua_createtable(L, 0, (int)l->module->kernel_count);
    for (size_t i = 0; i < l->module->kernel_count; i++) {
        tide__lua_push_kernel(L, &l->module->kernels[i]);
        lua_setfield(L, -2, l->module->kernels[i].name);
    }
    lua_setfield(L, -2, "kernels");
    push_operations(L, l->module);
    lua_setfield(L, -2, "operations");
    return 1;
}

void tide__lua_open_module(lua_State *L) {
    lua_pushcfunction(L, core_kernel_module);
    lua_setfield(L, -2, "kernel_module");
}
