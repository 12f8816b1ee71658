/* What both ports share: named random streams, the reading of endpoints and of whole files. */
#include "port/port.h"

#include <string.h>

void tide_port_random(struct tide_port *port, const char *name, struct tide_random *out) {
    TIDE_ASSERT(port && name);
    tide_random_seed(out, tide_hash(name, strlen(name), port->seed));
}

bool tide_endpoint_is_local(const char *endpoint) {
    static const char *const prefixes[] = {"unix:", "sim:", "tcp:127.", "tcp:localhost:", "tcp:[::1]:"};
    for (size_t i = 0; i < TIDE_COUNT(prefixes); i++) {
        if (strncmp(endpoint, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

int tide_port_slurp(struct tide_port *port, const char *path, size_t limit, char **out, size_t *size) {
    struct tide_file_info info;
    struct tide_file *file = NULL;
    *out = NULL;
    int code = port->ops->file_info(port, path, &info);
    code = code ? code : port->ops->file_open(port, path, TIDE_FILE_READ, &file);
    if (code) {
        return code;
    }
    if (info.size > limit) {
        code = tide_fail(TIDE_ELIMIT, "'%s' has %llu bytes, over %zu", path, (unsigned long long)info.size, limit);
    }
    char *data = code ? NULL : tide_alloc((size_t)info.size + 1);
    if (!code && !data) {
        code = tide_fail(TIDE_ENOMEM, "no memory to read '%s'", path);
    }
    if (!code) {
        ssize_t got = port->ops->file_read(file, data, (size_t)info.size, 0);
        *size = got < 0 ? 0 : (size_t)got;
        data[*size] = 0;
        code = got < 0 ? (int)got : 0;
    }
    port->ops->file_close(file);
    if (code) {
        tide_free(data);
        return code;
    }
    *out = data;
    return 0;
}
