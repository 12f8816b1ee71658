/*
 * The plugin that replicates the controller's log: loaded when a cluster asks for it and at no other
 * time, and left loaded. A program that has raft.c linked in needs no file. It is refused, with the
 * reason, when it is of another build.
 */
#include "base/plugin.h"
#include "control/control.h"

#include <string.h>

extern const struct tide_control_plugin TIDE_CONTROL_PLUGIN __attribute__((weak));

int tide_control_replicate(const struct tide_control_host *host, const struct tide_control_state *state,
                           struct tide_control **out) {
    const struct tide_control_plugin *plugin = &TIDE_CONTROL_PLUGIN;
    if (!plugin) {
        char reason[600];
        plugin = tide__plugin_load("tide_raft.so", NULL, "tide_control_plugin_raft", reason, sizeof reason);
        if (!plugin) {
            return tide_fail(TIDE_EUNSUPPORTED,
                             "a replicated controller needs the plugin tide_raft.so, which is built "
                             "when Debian's libraft-dev is there: %s",
                             reason);
        }
    }
    if (strcmp(plugin->version, TIDE_VERSION) != 0) {
        return tide_fail(TIDE_EVERSION, "tide_raft.so is of version %s, this program is %s", plugin->version,
                         TIDE_VERSION);
    }
    return plugin->open(host, state, out);
}
