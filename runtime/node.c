/* A node: port, actor system, net and, in libtide, the store, put together and taken apart in order. */
#include "node.h"

#include "net/net.h"
#include "net/tls/keys.h"
#include "port/run_directory.h"

#include <string.h>

enum { JOIN_TIMEOUT_S = 10, PAUSE_NS = 500000 };

/* ---- life ---- */

/* A private Unix socket in the run directory; for a cluster on other machines the address of this one that leads there.
 */
static int default_listen(struct tide_port *port, const struct tide_node_options *o, const char *cluster, char *out,
                          size_t size) {
    const char *name = o->name ? o->name : "node";
    if (port->simulated) {
        snprintf(out, size, "sim:%s-%llx", name, (unsigned long long)port->ops->entropy(port));
        return 0;
    }
    if (o->join && !tide_endpoint_is_local(o->join)) {
        return port->ops->address_towards(port, o->join, out, size);
    }
    return tide_run_socket(port, cluster, name, out, size);
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
    char cluster[64];
    int rc = tide_memory_cap_check(o->memory, node->port->ops->memory_total(node->port));
    /* a client that only knows an endpoint says no name */
    snprintf(cluster, sizeof cluster, "%s", o->cluster ? o->cluster : o->client ? "" : "local");
    if (!o->cluster && rc == 0 && o->keys) {
        rc = tide_keys_cluster(node->port, o->keys, cluster);
    }
    if (rc == 0 && !o->listen && !o->client) { /* a client has no listener */
        rc = default_listen(node->port, o, cluster, listen, sizeof listen);
    }
    struct tide_system_options so = {.port = node->port,
                                     .node_name = o->name,
                                     .io = 1,
                                     .compute = o->client ? 0 : o->workers,
                                     .control = 1,
                                     .disk = o->client ? 0 : 1,
                                     .exchange = o->client || o->workers == 0 ? 0 : 1,
                                     .loop = o->loop};
    rc = rc < 0 ? rc : tide_system_create(&so, node, &node->system);
    struct tide_net_options no = {.cluster = cluster,
                                  .name = o->name,
                                  .listen = o->client   ? NULL
                                            : o->listen ? o->listen
                                                        : listen,
                                  .join = o->join,
                                  .state = o->state,
                                  .controllers = o->controllers,
                                  .keys = o->keys,
                                  .silence = o->silence,
                                  .right = (uint8_t)o->right,
                                  .workers = (uint16_t)so.compute,
                                  .store = tide__node_stores && !o->no_store && !o->client,
                                  .client = o->client};
    rc = rc < 0 ? rc : tide_net_create(node->system, &no, &node->net);
    rc = rc < 0 ? rc : tide__node_store_create(node, o);
    rc = rc < 0 ? rc : tide_net_join(node->net);
    return rc < 0 || o->loop ? rc : wait_joined(node);
}

static void take_apart(struct tide_node *node, uint64_t timeout) {
    if (node->port) {
        node->port->watch = NULL;
    }
    struct tide_error_slot slot = {0}; /* the caller reads why creation failed, not what tidying up met */
    struct tide_error_slot *previous = tide__error_slot_swap(&slot);
    if (node->system && !tide_system_stop(node->system, timeout)) {
        tide__error_slot_swap(previous);
        return; /* another thread still uses it all */
    }
    if (node->net) {
        tide_net_close(node->net);
    }
    if (node->store) {
        tide__node_store_destroy(node);
    }
    if (node->net) {
        tide_net_destroy(node->net);
    }
    if (node->system) {
        tide_system_destroy(node->system);
    }
    if (node->owns_port) {
        node->port->ops->destroy(node->port);
    }
    tide__error_slot_swap(previous);
    tide_free(node);
}

/* Of the simulator, between two events. */
static void watch(void *arg) {
    struct tide_node *node = arg;
    tide_system_watch(node->system);
    if (TIDE_WATCHED) {
        tide__net_watch(node->net);
    }
}

static int check(const struct tide_node_options *o) {
    if ((o->cluster && !tide_identifier_valid(o->cluster)) || (o->name && !tide_identifier_valid(o->name))) {
        return tide_fail(TIDE_EINVAL, "cluster and node names are lower-case letters, digits and . _ -, at most 63");
    }
    if (o->client && !o->join) {
        return tide_fail(TIDE_EINVAL, "a client needs the endpoint of a member to join");
    }
    if (!(o->rate_operations >= 0 && o->rate_operations < 1e18 && o->rate_bytes >= 0 && o->rate_bytes < 1e18)) {
        return tide_fail(TIDE_EINVAL, "rate limits are 0 (none) or so many operations and bytes a second");
    }
    if (o->workers > 200) {
        return tide_fail(TIDE_EINVAL, "%u compute threads are more than the 200 a node can have", o->workers);
    }
    return 0;
}

int tide_lookup(struct tide_node *node, const char *name, tide_address *out) {
    enum { NODES_MAX = 4096 };
    int code = tide_whereis(node, name, out);
    if (code != TIDE_ENOENT || strchr(name, '/')) {
        return code;
    }
    struct tide_member *members = tide_alloc(NODES_MAX * sizeof *members);
    uint64_t view;
    const size_t known = members ? tide_net_members(node->net, members, NODES_MAX, &view) : 0;
    for (size_t i = 0; i < known && i < NODES_MAX && code == TIDE_ENOENT; i++) {
        char there[160];
        (void)snprintf(there, sizeof there, "%s/%s", members[i].name, name);
        if (members[i].state == TIDE_MEMBER_UP && members[i].id != tide_net_self(node->net)) {
            code = tide_whereis(node, there, out);
            const bool away = code == TIDE_EUNREACHABLE || code == TIDE_EDIED || code == TIDE_ETIMEDOUT;
            code = away ? TIDE_ENOENT : code;
        }
    }
    tide_free(members);
    return code == TIDE_ENOENT ? tide_fail(code, "no node of the cluster has an actor named '%s'", name) : code;
}

int tide_node_create(const struct tide_node_options *given, struct tide_node **out) {
    struct tide_node_options own, *options = &own;
    int rc = tide__layout_read("node", given, TIDE_LAYOUT(struct tide_node_options, rate_bytes), &own, sizeof own);
    rc = rc < 0 ? rc : check(options);
    if (rc < 0) {
        return rc;
    }
    struct tide_node *node = tide_alloc_zero(1, sizeof *node);
    if (!node) {
        return TIDE_ENOMEM;
    }
    snprintf(node->name, sizeof node->name, "%s", options->name ? options->name : "");
    if (options->port) {
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
    node->port->watch = watch;
    node->port->watch_arg = node;
    *out = node;
    return 0;
}

void tide_node_destroy(struct tide_node *node, uint64_t timeout) {
    if (!node) {
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
