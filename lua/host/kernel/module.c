/*
 * core.kernel_module(bytes, path): kernels, operations and update rules of a shared object (tide/kernel.h).
 *
 * A file is loaded by its content: from a copy in memory, so that the file may be built anew while a process uses the
 * old one, and the same content is loaded once a process. Nothing is ever unloaded: a worker may be inside.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "lua/host/host.h"

#include "module.h"
#include "base/watch.h"
#include "store/rows/rules.h"

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
    const bool any = (m->kernel_count > 0 && m->kernels) || (m->operation_count > 0 && m->operations) ||
                     (m->rule_count > 0 && m->rules);
    const char *problem = any ? NULL : "it has no kernels, no operations and no update rules";
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

/* NULL, or why not. Nodes that do not have the rules load them from `path`. */
static const char *register_rules(const struct tide_kernel_module *m, const char *sha, const char *path,
                                  char text[256]) {
    int code = 0;
    for (size_t i = 0; i < m->rule_count && !code; i++) {
        code = tide_rule_register(&m->rules[i], sha, path);
    }
    snprintf(text, 256, "%s", code ? tide_error_message() : "");
    return code ? text : NULL;
}

static const char *load(const void *bytes, size_t size, const char *sha, const char *path, struct loaded **out,
                        char text[256]) {
    const char *problem = NULL;
    tide_lock(&lock);
    *out = find(sha);
    if (!*out) {
        const struct tide_kernel_module *module = NULL;
        problem = open_copy(bytes, size, &module, text);
        problem = problem ? problem : register_rules(module, sha, path, text);
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
    } else {
        problem = register_rules((*out)->module, sha, path, text);
    }
    tide_unlock(&lock);
    return problem;
}

struct module_file {
    struct tide_port *port;
    const char *path;
    char *bytes;
    size_t size;
    int code;
};

static void read_module(void *arg) {
    struct module_file *file = arg;
    file->code = tide__lua_file_read(file->port, file->path, &file->bytes, &file->size);
}

/* A table came whose rule this process does not have. The thread that serves sockets waits for one small file, once:
 * what follows in its queue is of the table. */
static int load_rule(struct tide_port *port, const char *path, const char *version) {
    char sha[65], text[256];
    struct loaded *l;
    struct module_file file = {.port = port, .path = path};
    tide__watch_aside(read_module, &file);
    char *const bytes = file.bytes;
    const size_t size = file.size;
    if (file.code < 0) {
        snprintf(text, sizeof text, "%s", tide_error_message());
        return tide_fail(TIDE_ENOENT, "%s; every node needs the module of its tables' rules at this path", text);
    }
    tide_sha256_hex(bytes, size, sha);
    const bool same = strcmp(sha, version) == 0;
    const char *problem = same ? load(bytes, size, sha, path, &l, text) : NULL;
    tide_free(bytes);
    if (!same) {
        return tide_fail(TIDE_EVERSION, "%s differs: the table was made with %.12s, this node has %.12s", path, version,
                         sha);
    }
    return problem ? tide_fail(TIDE_EUNSUPPORTED, "%s: %s", path, problem) : 0;
}

/* {{name =, default =, doc =}, ..} */
static void push_numbers(lua_State *L, const struct tide_parameter *numbers, size_t count) {
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_createtable(L, 0, 3);
        lua_pushstring(L, numbers[i].name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, numbers[i].doc);
        lua_setfield(L, -2, "doc");
        if (!numbers[i].required) {
            lua_pushnumber(L, numbers[i].number);
            lua_setfield(L, -2, "default");
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* {name = {own =, numbers =}} */
static void push_operations(lua_State *L, const struct tide_kernel_module *module) {
    lua_createtable(L, 0, (int)module->operation_count);
    for (size_t i = 0; i < module->operation_count; i++) {
        const struct tide_own_operation *o = &module->operations[i];
        lua_createtable(L, 0, 2);
        lua_pushlightuserdata(L, (void *)(uintptr_t)o);
        lua_setfield(L, -2, "own");
        push_numbers(L, o->numbers, o->number_count);
        lua_setfield(L, -2, "numbers");
        lua_setfield(L, -2, o->name);
    }
}

/* {name = {{name =, default =, doc =}, ..}} */
static void push_rules(lua_State *L, const struct tide_kernel_module *module) {
    lua_createtable(L, 0, (int)module->rule_count);
    for (size_t i = 0; i < module->rule_count; i++) {
        push_numbers(L, module->rules[i].numbers, module->rules[i].number_count);
        lua_setfield(L, -2, module->rules[i].name);
    }
}

/* core.kernel_module(bytes, path) -> {version=, sha=, kernels={name = function}, operations=, rules=}, or nil and why
 * not
 */
static int core_kernel_module(lua_State *L) {
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size), *path = luaL_checkstring(L, 2);
    char sha[65], text[256], *whole = realpath(path, NULL); /* NULL: only here is such a file */
    tide_sha256_hex(bytes, size, sha);
    struct loaded *l;
    const char *problem = load(bytes, size, sha, whole ? whole : "", &l, text);
    free(whole);
    if (problem) {
        lua_pushnil(L);
        lua_pushstring(L, problem);
        return 2;
    }
    lua_createtable(L, 0, 5);
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
    push_rules(L, l->module);
    lua_setfield(L, -2, "rules");
    return 1;
}

void tide__lua_open_module(lua_State *L) {
    tide__rule_load_by(load_rule);
    lua_pushcfunction(L, core_kernel_module);
    lua_setfield(L, -2, "kernel_module");
}
