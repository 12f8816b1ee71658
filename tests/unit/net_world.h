/* Several nodes (port, actor system, net; no store) in one process, on either port, for tests of
 * the net room. */
#ifndef NET_WORLD_H
#define NET_WORLD_H

#include "net/net.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef WORLD_NODES
#define WORLD_NODES 8
#endif

struct world {
    struct tide_sim *sim; /* NULL: real */
    char directory[64];
    struct tide_node nodes[WORLD_NODES];
    unsigned count;
    const char *keys;       /* of the nodes that start next; with `input` in the simulator; NULL: none */
    uint64_t silence;        /* that the first node asks for; 0: the default */
    uint8_t right;           /* enum tide_right that clients which start next ask for; 0: admin */
    struct tide_port *input; /* set before world_open_reading */
    unsigned controllers; /* so many hold the log; set between open and the first start */
};

static inline void world_open(struct world *w, bool simulated, uint64_t seed) {
    memset(w, 0, sizeof *w);
    if (simulated) {
        if (tide_sim_create(&(struct tide_sim_options){.seed = seed}, &w->sim) != 0) {
            abort();
        }
    } else {
        strcpy(w->directory, "/tmp/tide-net-XXXXXX");
        if (mkdtemp(w->directory) == NULL) {
            abort();
        }
    }
}

/* Simulated, over a port from which nodes read files. */
static inline void world_open_reading(struct world *w, uint64_t seed, struct tide_port *input) {
    memset(w, 0, sizeof *w);
    w->input = input;
    if (tide_sim_create(&(struct tide_sim_options){.seed = seed, .input = input}, &w->sim) != 0) {
        abort();
    }
}

static inline int world_port(struct world *w, const char *name, struct tide_port **out) {
    return w->sim != NULL ? tide_sim_port(w->sim, name, out) : tide_port_real_create(7, out);
}

static inline void world_pause(struct world *w, uint64_t ns) {
    w->nodes[0].port->ops->pause(w->nodes[0].port, ns);
}

static inline uint64_t world_now(struct world *w) {
    return tide_port_now(w->nodes[0].port);
}

static inline int world_state(struct tide_node *node, int *code, char reason[200]) {
    return tide_net_state(node->net, code, reason, 200);
}

/* Waits until the node's own state is `state`, or is final; the state it got. */
static inline int world_await(struct tide_node *node, int state) {
    int code;
    char reason[200];
    uint64_t until = tide_port_now(node->port) + 15 * TIDE_SECOND;
    int now = world_state(node, &code, reason);
    while (now != state && now < TIDE_MEMBER_LEFT && tide_port_now(node->port) < until) {
        node->port->ops->pause(node->port, 200000);
        now = world_state(node, &code, reason);
    }
    return now;
}

/* Starts a node; join NULL: the controller. `name` is its socket and its simulated machine too. */
static inline int world_start(struct world *w, const char *name, bool give_name,
                              const char *cluster, const char *join, bool client,
                              struct tide_node **out) {
    struct tide_node *node = &w->nodes[w->count];
    char listen[128];
    snprintf(node->name, sizeof node->name, "%s", name);
    snprintf(listen, sizeof listen, w->sim != NULL ? "sim:%s%s" : "unix:%s/%s.sock",
             w->sim != NULL ? "" : w->directory, name);
    int rc = world_port(w, name, &node->port);
    struct tide_system_options so = {
        .port = node->port, .node_name = name, .io = 1, .compute = 1, .control = 1};
    rc = rc != 0 ? rc : tide_system_create(&so, node, &node->system);
    if (rc != 0) {
        abort();
    }
    w->count++;
    *out = node;
    struct tide_net_options no = {.cluster = cluster,
                                  .name = give_name ? name : NULL,
                                  .listen = client ? NULL : listen,
                                  .join = join,
                                  .keys = w->keys,
                                  .silence = join == NULL ? w->silence : 0,
                                  .right = w->right,
                                  .workers = 1,
                                  .store = true,
                                  .controllers = join == NULL ? w->controllers : 0,
                                  .client = client};
    rc = tide_net_create(node->system, &no, &node->net);
    return rc != 0 ? rc : tide_net_join(node->net);
}

/* A node that is up when this returns; NULL if it did not come up. */
static inline struct tide_node *world_add(struct world *w, const char *name) {
    struct tide_node *node;
    int rc = world_start(w, name, true, w->keys != NULL ? "lab" : "test",
                         w->count == 0 ? NULL : tide_net_endpoint(w->nodes[0].net), false, &node);
    if (rc != 0 || world_await(node, TIDE_MEMBER_UP) != TIDE_MEMBER_UP) {
        char reason[200];
        int code;
        fprintf(stderr, "%s: %d %s\n", name, world_state(node, &code, reason), reason);
        return NULL;
    }
    return node;
}

static inline void world_close(struct world *w) {
    for (unsigned i = w->count; i-- > 0;) {
        struct tide_node *node = &w->nodes[i];
        tide_system_stop(node->system, TIDE_SECOND);
        if (node->net != NULL) {
            tide_net_destroy(node->net);
        }
        tide_system_destroy(node->system);
        node->port->ops->destroy(node->port);
    }
    if (w->sim != NULL) {
        tide_sim_destroy(w->sim);
    } else {
        char path[128];
        for (unsigned i = 0; i < w->count; i++) {
            snprintf(path, sizeof path, "%s/%s.sock", w->directory, w->nodes[i].name);
            unlink(path);
        }
        rmdir(w->directory);
    }
}

#endif
