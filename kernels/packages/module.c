/*
 * The plugin of a package, built once a package: TIDE_PACKAGE is its name, TIDE_PACKAGE_KERNELS its kernels.def. A
 * kernel is a constant tide_kernel_NAME in one of the package's files.
 */
#include "tide/kernel.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ENTRY JOIN(tide_package_, TIDE_PACKAGE)

#define TIDE_KERNEL(name) extern const struct tide_kernel tide_kernel_##name;
#include TIDE_PACKAGE_KERNELS
#undef TIDE_KERNEL

static const struct tide_kernel *const kernels[] = {
#define TIDE_KERNEL(name) &tide_kernel_##name,
#include TIDE_PACKAGE_KERNELS
#undef TIDE_KERNEL
};

enum { COUNT = sizeof kernels / sizeof kernels[0] };

const struct tide_kernel_module *ENTRY(const struct tide_kernel_host *host);

const struct tide_kernel_module *ENTRY(const struct tide_kernel_host *host) {
    static struct tide_kernel copies[COUNT];
    static const struct tide_kernel_module module = {
        .abi = TIDE_KERNEL_ABI, .version = TIDE_VERSION, .kernels = copies, .kernel_count = COUNT};
    (void)host;
    for (int i = 0; i < COUNT; i++) {
        copies[i] = *kernels[i];
    }
    return &module;
}
