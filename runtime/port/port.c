/* What both ports share: named random streams and the reading of endpoints. */
#include "port/port.h"

#include <string.h>

void tide_port_random(struct tide_port *port, const char *name, struct tide_random *out) {
    TIDE_ASSERT(port != NULL && name != NULL);
    tide_random_seed(out, tide_hash(name, strlen(name), port->seed));
}

bool tide_endpoint_is_local(const char *endpoint) {
    static const char *const prefixes[] = {"unix:", "sim:", "tcp:127.", "tcp:[::1]:"};
    for (size_t i = 0; i < TIDE_COUNT(prefixes); i++) {
        if (strncmp(endpoint, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}
