/* A node: port, actor system, net and, in libtide, the store, put together and taken apart in order. */
#include "node.h"

#include "net/net.h"

#include <string.h>

enum { JOIN_TIMEOUT_S = 10, PAUSE_NS = 500000 };

/* ---- life ---- */

/* Others of this machine must not be able to put sockets there, or to connect. */
static int private_directory(struct tide_port *port, const char *path) {
    struct tide_file_info info;
    int rc = port->ops->file_mkdir(port, path, 0700);
    rc = rc < 0 ? rc : port->ops->file_info(port, path, &info);
    if (rc < 0) {
        return rc;
    }
    if (info.owner != port->ops->user(port) || (info.mode & 077) != 0) {
        return tide_fail(TIDE_EPERM, "%s must belong to you with mode 0700: others could pose as your nodes", path);
    }
    return 0;
}

/* $XDG_RUNTIME_DIR/tide/CLUSTER/NAME-xxxx.sock, else /tmp/tide-<uid>/CLUSTER/...: directories 0700, checked. */
static int default_listen(struct tide_port *port, const struct tide_node_options *o, char *out, size_t size) {
    char directory[128];
    const char *runtime = port->ops->environment(port, "XDG_RUNTIME_DIR");
    if (port->simulated) {
        snprintf(out, size, "sim:%s-%llx", o->name != NULL ? o->name : "node",
                 (unsigned long long)port->ops->entropy(port));
        return 0;
    }
    if (runtime != NULL && runtime[0] == '/' && strlen(runtime) < 64) {
        snprintf(directory, sizeof directory, "%s/tide", runtime);
    } else {
        snprintf(directory, sizeof directory, "/tmp/tide-%u", port->ops->user(port));
    }
    int rc = private_directory(port, directory);
    if (rc < 0) {
        return rc;
    }
    size_t used = strlen(directory);
    snprintf(directory + used, sizeof directory - used, "/%s", o->cluster != NULL ? o->cluster : "local");
    rc = private_directory(port, directory);
    snprintf(out, size, "unix:%s/%s-%08x.sock", directory, o->name != NULL ? o->name : "node",
             (unsigned)port->ops->entropy(port));
    return rc;
}

static int wait_joined(struct tide_node *node) {
    uint64_t until = tide_port_now(node->port) + JOIN_TIMEOUT_S * TIDE_SECOND;
    for (;;) {
        int code;
        char reason[200];
        int state = tide_net_state(node->net, &code, reason, sizeof reason);
        if (state == TIDE_MEMBER_UP) {
            return 0;
        }
        if (state == TIDE_MEMBER_DEAD || state == TIDE_MEMBER_LEFT) {
            return tide_fail(code < 0 ? code : TIDE_EUNREACHABLE, "%s", reason);
        }
        if (tide_port_now(node->port) > until) {
            return tide_fail(TIDE_ETIMEDOUT, "not a member after %d s: %s", JOIN_TIMEOUT_S, reason);
        }
        node->port->ops->pause(node->port, PAUSE_NS);
    }
}

static int build(struct tide_node *node, const struct tide_node_options *o) {
    char listen[200] = "";
    int rc = tide_memory_cap_check(o->memory, node->port->ops->memory_total(node->port));
    if (rc == 0 && o->listen == NULL && !o->client) { /* a client has no listener */
        rc = default_listen(node->port, o, listen, sizeof listen);
    }
    struct tide_system_options so = {.port = node->port,
                                     .node_name = o->name,
                                     .io = 1,
                                     .compute = o->client ? 0 : o->workers,
                                     .control = 1,
                                     .disk = o->client ? 0 : 1,
                                     .loop = o->loop};
    rc = rc < 0 ? rc : tide_system_create(&so, node, &node->system);
    struct tide_net_options no = {.cluster = o->cluster != NULL ? o->cluster : "local",
                                  .name = o->name,
                                  .listen = o->client           ? NULL
                                            : o->listen != NULL ? o->listen
                                                                : listen,
                                  .join = o->join,
                                  .state = o->state,
                                  .controllers = o->controllers,
                                  .workers = (uint16_t)so.compute,
                                  .store = tide__node_stores && !o->no_store && !o->client,
                                  .client = o->client};
    rc = rc < 0 ? rc : tide_net_create(node->system, &no, &node->net);
    rc = rc < 0 ? rc : tide__node_store_create(node, o);
    rc = rc < 0 ? rc : tide_net_join(node->net);
    return rc < 0 || o->loop != NULL ? rc : wait_joined(node);
}

static void take_apart(struct tide_node *node, uint64_t timeout) {
    struct tide_error_slot slot = {0}; /* the caller reads why creation failed, not what tidying up met */
    struct tide_error_slot *previous = tide__error_slot_swap(&slot);
    if (node->system != NULL && !tide_system_stop(node->system, timeout)) {
        tide__error_slot_swap(previous);
        return; /* somebody's thread still uses it all */
    }
    if (node->net != NULL) {
        tide_net_close(node->net);
    }
    if (node->store != NULL) {
        tide__node_store_destroy(node);
    }
    if (node->net != NULL) {
        tide_net_destroy(node->net);
    }
    if (node->system != NULL) {
        tide_system_destroy(node->system);
    }
    if (node->owns_port) {
        node->port->ops->destroy(node->port);
    }
    tide__error_slot_swap(previous);
    tide_free(node);
}

static int check(const struct tide_node_options *o) {
    if ((o->cluster != NULL && !tide_identifier_valid(o->cluster)) ||
        (o->name != NULL && !tide_identifier_valid(o->name))) {
        return tide_fail(TIDE_EINVAL, "cluster and node names are lower-case letters, digits and . _ -, at most 63");
    }
    if (o->client && o->join == NULL) {
        return tide_fail(TIDE_EINVAL, "a client needs the endpoint of a member to join");
    }
    if (!(o->rate_operations >= 0 && o->rate_operations < 1e18 && o->rate_bytes >= 0 &&
          o->rate_bytes < 1e18)) {
        return tide_fail(TIDE_EINVAL, "rate limits are 0 (none) or so many operations and bytes a second");
    }
    if (o->workers > 200) {
        return tide_fail(TIDE_EINVAL, "%u compute threads are more than the 200 a node can have", o->workers);
    }
    return 0;
}

int tide_node_create(const struct tide_node_options *options, struct tide_node **out) {
    int rc = check(options);
    if (rc < 0) {
        return rc;
    }
    struct tide_node *node = tide_alloc_zero(1, sizeof *node);
    if (node == NULL) {
        return TIDE_ENOMEM;
    }
    snprintf(node->name, sizeof node->name, "%s", options->name != NULL ? options->name : "");
    if (options->port != NULL) {
        node->port = (struct tide_port *)(uintptr_t)options->port;
    } else {
        rc = tide_port_real_create(options->seed, &node->port);
        node->owns_port = rc == 0;
    }
    rc = rc < 0 ? rc : build(node, options);
    if (rc < 0) {
        take_apart(node, 0);
        return rc;
    }
    *out = node;
    return 0;
}

void tide_node_destroy(struct tide_node *node, uint64_t timeout) {
    if (node == NULL) {
        return;
    }
    int code;
    char reason[200];
    uint64_t until = tide_port_now(node->port) + timeout;
    if (!node->port->crashed) {
        tide_net_leave(node->net);
        int state = tide_net_state(node->net, &code, reason, sizeof reason);
        while (state != TIDE_MEMBER_LEFT && state != TIDE_MEMBER_DEAD && tide_port_now(node->port) < until) {
            node->port->ops->pause(node->port, PAUSE_NS);
            state = tide_net_state(node->net, &code, reason, sizeof reason);
        }
    }
    take_apart(node, timeout);
}
