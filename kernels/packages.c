/*
 * Kernels of packages (kernels/packages): known by name from lists that the build makes. The first use of a kernel
 * loads its package's plugin, which stays loaded; a program that has the package linked in needs no file.
 */
#include "kernel.h"

#include "actor/actor.h"
#include "base/base.h"
#include "base/plugin.h"

/* packages.def, which the build writes, is PACKAGE(name), the package's kernels.def and END, for each package. */
#define TIDE_KERNEL(kernel) #kernel,
#define PACKAGE(package) static const char *const package##_kernels[] = {
#define END                                                                                                            \
    }                                                                                                                  \
    ;
#include "packages.def"
#undef TIDE_KERNEL
#undef PACKAGE
#undef END

#define TIDE_KERNEL(kernel)
#define END
#define PACKAGE(package)                                                                                               \
    extern const struct tide_kernel_module *tide_package_##package(const struct tide_kernel_host *)                    \
        __attribute__((weak));
#include "packages.def"
#undef PACKAGE

static struct package {
    const char *name;
    const char *const *kernels;
    size_t kernel_count;
    const struct tide_kernel_module *(*linked)(const struct tide_kernel_host *); /* NULL: a plugin */
    const struct tide_kernel_module *module;                                     /* under lock; NULL: not loaded */
} packages[] = {
#define PACKAGE(package) {#package, package##_kernels, TIDE_COUNT(package##_kernels), tide_package_##package, NULL},
#include "packages.def"
#undef PACKAGE
};

static struct tide_lock lock;

static int give_way(void) {
    return tide_fiber_current() ? tide_yield() : 0;
}

const struct tide_kernel_host tide_kernel_host = {.abi = TIDE_KERNEL_ABI, .yield = give_way};

/* Its module, or NULL and the reason in the error slot. */
static const struct tide_kernel_module *load(struct package *p) {
    char file[80], symbol[80], reason[400];
    (void)snprintf(file, sizeof file, "tide_%s.so", p->name);
    (void)snprintf(symbol, sizeof symbol, "tide_package_%s", p->name);
    const struct tide_kernel_module *(*entry)(const struct tide_kernel_host *) = p->linked;
    if (!entry) {
        *(void **)&entry = tide__plugin_load(file, NULL, symbol, reason, sizeof reason);
    }
    if (!entry) {
        (void)tide_fail(TIDE_EUNSUPPORTED, "the package %s is not installed whole: %s", p->name, reason);
        return NULL;
    }
    const struct tide_kernel_module *module = entry(&tide_kernel_host);
    if (module->abi != TIDE_KERNEL_ABI || strcmp(module->version, TIDE_VERSION) != 0) {
        (void)tide_fail(TIDE_EVERSION, "%s is of version %s, this program is %s", file, module->version, TIDE_VERSION);
        return NULL;
    }
    return module;
}

static const struct tide_kernel_module *module_of(struct package *p) {
    tide_lock(&lock);
    p->module = p->module ? p->module : load(p);
    const struct tide_kernel_module *module = p->module;
    tide_unlock(&lock);
    return module;
}

const struct tide_kernel *tide_kernel_of_packages(const char *name) {
    for (size_t i = 0; i < TIDE_COUNT(packages); i++) {
        struct package *p = &packages[i];
        for (size_t k = 0; k < p->kernel_count; k++) {
            if (strcmp(p->kernels[k], name) == 0) {
                const struct tide_kernel_module *module = module_of(p);
                return module ? &module->kernels[k] : NULL;
            }
        }
    }
    (void)tide_fail(TIDE_ENOENT, "no kernel is named `%s`", name);
    return NULL;
}

const struct tide_kernel *tide_kernel_of_packages_at(size_t index) {
    for (size_t i = 0; i < TIDE_COUNT(packages); i++) {
        const struct tide_kernel_module *module = module_of(&packages[i]);
        if (module && index < packages[i].kernel_count) {
            return &module->kernels[index];
        }
        index -= module ? packages[i].kernel_count : 0; /* one that is not installed has none */
    }
    return NULL;
}
