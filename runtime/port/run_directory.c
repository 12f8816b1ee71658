/* Where a user's clusters are found; see run_directory.h. */
#include "port/run_directory.h"

#include <stdatomic.h>
#include <string.h>

static const uint64_t still_ns = 60 * TIDE_SECOND; /* longer than a process takes from its directory to its socket */

enum { RUNTIME_BYTES_MAX = 63, SOCKET_BYTES_MAX = 107, PATH_BYTES = 256 };

/* Why this directory cannot hold a user's clusters; NULL: it can. */
static const char *why_not(struct tide_port *port, const char *path) {
    struct tide_file_info info;
    struct tide_error_slot slot = {0}, *previous = tide__error_slot_swap(&slot);
    int code = port->ops->file_info(port, path, &info);
    tide__error_slot_swap(previous);
    return path[0] != '/'                        ? "is not an absolute path"
           : strlen(path) > RUNTIME_BYTES_MAX    ? "is longer than 63 bytes"
           : code != 0 || !info.directory        ? "is no directory"
           : info.owner != port->ops->user(port) ? "belongs to another user"
           : (info.mode & 0700) != 0700          ? "may not be written"
                                                 : NULL;
}

int tide_run_directory(struct tide_port *port, char *out, size_t size) {
    static atomic_bool told;
    const char *runtime = port->ops->environment(port, "XDG_RUNTIME_DIR");
    const char *problem = runtime && runtime[0] != 0 ? why_not(port, runtime) : "";
    int length = !problem ? snprintf(out, size, "%s/tide", runtime)
                          : snprintf(out, size, "/tmp/tide-%u", (unsigned)port->ops->user(port));
    if (problem && problem[0] != 0 && !atomic_exchange_explicit(&told, true, memory_order_relaxed)) {
        tide_log(TIDE_LOG_WARN, NULL, "XDG_RUNTIME_DIR=%.200s %s: %s is used", runtime, problem, out);
    }
    return length > 0 && (size_t)length < size ? 0 : tide_fail(TIDE_ELIMIT, "%s: too long", out);
}

int tide_private_directory(struct tide_port *port, const char *path, bool make) {
    struct tide_file_info info;
    int code = make ? port->ops->file_mkdir(port, path, 0700) : 0;
    code = code < 0 ? code : port->ops->file_info(port, path, &info);
    if (code < 0) {
        return code;
    }
    if (info.link || !info.directory || info.owner != port->ops->user(port) || (info.mode & 077) != 0) {
        return tide_fail(TIDE_EACCES, "%s must be a directory of yours with mode 0700: others could pose as your nodes",
                         path);
    }
    return 0;
}

int tide_run_socket(struct tide_port *port, const char *cluster, const char *node, char *out, size_t size) {
    char path[PATH_BYTES];
    int code = tide_run_directory(port, path, sizeof path);
    code = code < 0 ? code : tide_private_directory(port, path, true);
    const size_t used = strlen(path);
    if (code == 0) {
        (void)snprintf(path + used, sizeof path - used, "/%s", cluster);
        code = tide_private_directory(port, path, true);
    }
    const unsigned drawn = (unsigned)port->ops->entropy(port);
    const bool fits = strlen(path) + strlen(node) + sizeof "/-xxxxxxxx.sock" - 1 <= SOCKET_BYTES_MAX;
    (void)snprintf(out, size, "unix:%s/%s%s%08x.sock", path, fits ? node : "", fits ? "-" : "", drawn);
    return code;
}

struct sweep {
    struct tide_port *port;
    const char *path;
    bool lives;
};

static void sweep_entry(void *arg, const char *name) {
    struct sweep *sweep = arg;
    static const char suffix[] = ".sock";
    const size_t length = strlen(name);
    char path[PATH_BYTES];
    if (length < sizeof suffix || strcmp(name + length - (sizeof suffix - 1), suffix) != 0) {
        return;
    }
    const int written = snprintf(path, sizeof path, "%s/%s", sweep->path, name);
    if (written < 0 || (size_t)written >= sizeof path || tide_socket_is_live(path)) {
        sweep->lives = true;
    } else {
        (void)sweep->port->ops->file_unlink(sweep->port, path);
    }
}

int tide_run_sweep(struct tide_port *port, const char *path) {
    struct tide_file_info info;
    struct sweep sweep = {.port = port, .path = path};
    int code = tide_private_directory(port, path, false);
    code = code < 0 ? code : port->ops->file_info(port, path, &info);
    if (code < 0 || port->ops->wall(port) < info.modified_ns + still_ns) {
        return code < 0 ? code : 0;
    }
    code = port->ops->file_list(port, path, sweep_entry, &sweep);
    return code < 0 ? code : !sweep.lives;
}
