/* Finding the plugins of this build: modules that are loaded when something asks for them, and stay loaded. */
#include "base/plugin.h"
#include "base/base.h"

#include <dlfcn.h>

static void *load(const char *path, char *reason, size_t size) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        tide_text_copy(reason, size, why ? why : path);
    }
    return library;
}

void *tide__plugin_load(const char *file, const char *directory, const char *symbol, char *reason, size_t size) {
    char path[4096], by_run_path[256] = "", there[256] = "";
    const int length = snprintf(path, sizeof path, "%s/%s", directory ? directory : TIDE_PLUGIN_DIRECTORY, file);
    if (length < 0 || (size_t)length >= sizeof path) {
        tide_text_copy(reason, size, "the plugin's path is too long");
        return NULL;
    }
    void *library = directory ? NULL : load(file, by_run_path, sizeof by_run_path);
    library = library ? library : load(path, there, sizeof there);
    void *entry = library ? dlsym(library, symbol) : NULL;
    if (!library) {
        (void)snprintf(reason, size, "%s%s%s", by_run_path, directory ? "" : "; ", there);
    } else if (!entry) {
        (void)snprintf(reason, size, "%s: no %s in it", file, symbol);
    }
    return entry;
}
