/*
 * The plugin that replicates the controller's log: loaded when a cluster asks for it and at no other
 * time, and left loaded. A program that has raft.c linked in needs no file. It is refused, with the
 * reason, when it is of another build.
 */
#include "control/control.h"

#include <dlfcn.h>
#include <string.h>

#ifndef TIDE_PLUGIN_DIRECTORY
#define TIDE_PLUGIN_DIRECTORY "/usr/lib/tide"
#endif

extern const struct tide_control_plugin TIDE_CONTROL_PLUGIN __attribute__((weak));

/* Where the program's run path says, which a build and an installation set; else where plugins are
 * installed. */
static void *load(void) {
    void *library = dlopen("tide_raft.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        library = dlopen(TIDE_PLUGIN_DIRECTORY "/tide_raft.so", RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

int tide_control_replicate(const struct tide_control_host *host, const struct tide_control_state *state,
                           struct tide_control **out) {
    const struct tide_control_plugin *plugin = &TIDE_CONTROL_PLUGIN;
    if (!plugin) {
        void *library = load();
        void *symbol = library ? dlsym(library, "tide_control_plugin_raft") : NULL;
        if (!symbol) {
            const char *reason = dlerror();
            return tide_fail(TIDE_EUNSUPPORTED,
                             "a replicated controller needs the plugin tide_raft.so, which is built "
                             "when Debian's libraft-dev is there: %s",
                             reason ? reason : "it cannot be loaded");
        }
        plugin = symbol;
    }
    if (strcmp(plugin->version, TIDE_VERSION) != 0) {
        return tide_fail(TIDE_EVERSION, "tide_raft.so is of version %s, this program is %s", plugin->version,
                         TIDE_VERSION);
    }
    return plugin->open(host, state, out);
}
