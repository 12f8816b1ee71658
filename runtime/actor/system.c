/* Life of an actor system: threads up, threads down in an order that leaves no thread waiting. */
#include "actor/internal.h"

#include <string.h>

unsigned tide__role_threads(const struct tide_system *system, enum tide_role role, unsigned *count) {
    const unsigned counts[] = {system->io, system->compute, system->control, system->disk, system->exchange};
    unsigned first = 0;
    for (unsigned r = 0; r < (unsigned)role; r++) {
        first += counts[r];
    }
    *count = counts[role];
    return first;
}

static enum tide_role role_of(const struct tide_system *system, unsigned thread) {
    enum tide_role role = TIDE_ROLE_IO;
    unsigned count;
    while (thread >= tide__role_threads(system, role, &count) + count) {
        role++;
    }
    return role;
}

struct tide_executor *tide_system_executor(struct tide_system *system, enum tide_role role, unsigned index) {
    unsigned count;
    unsigned first = tide__role_threads(system, role, &count);
    return count == 0 ? NULL : system->schedulers[first + index % count]->executor;
}

struct tide_port *tide_system_port(struct tide_system *system) {
    return system->port;
}

struct tide_system *tide_system_of(struct tide_node *node) {
    return node->system;
}

uint64_t tide_node_now(const struct tide_node *node) {
    return tide_port_now(node->port);
}

struct tide_node *tide_system_node(struct tide_system *system) {
    return system->node;
}

void tide_system_set_node_id(struct tide_system *system, uint16_t id) {
    atomic_store_explicit(&system->node_id, id, memory_order_relaxed);
}

void tide_system_set_route(struct tide_system *system, const struct tide_route *route) {
    system->route = *route;
    atomic_store_explicit(&system->routed, true, memory_order_release); /* with every reader of route */
}

static int start_executors(struct tide_system *system, void *loop) {
    static const char *const names[] = {"tide-io", "tide-compute", "tide-control", "tide-disk", "tide-exchange"};
    static const struct tide_serving serving[] = {[TIDE_ROLE_IO] = {.whom = "sockets"},
                                                  [TIDE_ROLE_CONTROL] = {.whom = "scripts", .files = true},
                                                  [TIDE_ROLE_EXCHANGE] = {.whom = "an exchange"}};
    for (unsigned i = 0; i < system->count; i++) {
        struct scheduler *s = system->schedulers[i];
        char name[16];
        snprintf(name, sizeof name, "%s%u", names[s->role], i);
        struct tide_executor_options options = {.name = name,
                                                .turn = scheduler_turn,
                                                .pending = scheduler_pending,
                                                .arg = s,
                                                .loop = i == 0 ? loop : NULL,
                                                .core = -1,
                                                .serves = serving[s->role].whom ? &serving[s->role] : NULL};
        int rc = system->port->ops->executor_start(system->port, &options, &s->executor);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int tide_system_create(const struct tide_system_options *options, struct tide_node *node, struct tide_system **out) {
    unsigned count = options->io + options->compute + options->control + options->disk + options->exchange;
    if (options->io == 0 || count > SCHEDULERS_MAX) {
        return tide_fail(TIDE_EINVAL, "a node has 1 to %d threads, at least one for I/O", SCHEDULERS_MAX);
    }
    struct tide_system *system = tide_alloc_zero(1, sizeof *system);
    if (!system) {
        return TIDE_ENOMEM;
    }
    system->port = options->port;
    system->node = node;
    system->io = options->io;
    system->compute = options->compute;
    system->control = options->control;
    system->disk = options->disk;
    system->exchange = options->exchange;
    snprintf(system->node_name, sizeof system->node_name, "%s", options->node_name ? options->node_name : "");
    *out = system; /* before the first spawn, which finds the system by its node */
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        rc = scheduler_create(system, i, role_of(system, i));
        system->count += rc == 0;
    }
    if (rc == 0) {
        rc = start_executors(system, options->loop);
    }
    if (rc == 0) {
        rc = registry_create(system);
    }
    if (rc < 0) {
        (void)tide_system_stop(system, 0); /* no actor has run */
        tide_system_destroy(system);
        *out = NULL;
    }
    return rc;
}

static unsigned actors_live(struct tide_system *system, bool io) {
    unsigned live = 0;
    for (unsigned i = 0; i < system->count; i++) {
        struct scheduler *s = system->schedulers[i];
        if ((s->role == TIDE_ROLE_IO) == io) {
            live += atomic_load_explicit(&s->actors_live, memory_order_acquire);
        }
    }
    return live;
}

static bool all_stopped(struct tide_system *system) {
    for (unsigned i = 0; i < system->count; i++) {
        struct scheduler *s = system->schedulers[i];
        if (s->executor && !atomic_load_explicit(&s->stopped, memory_order_acquire)) {
            return false;
        }
    }
    return true;
}

static void tell(struct tide_system *system, enum stop_phase phase, bool io, bool all) {
    for (unsigned i = 0; i < system->count; i++) {
        struct scheduler *s = system->schedulers[i];
        struct message *m = &s->stops[phase]; /* each is sent once */
        if (s->executor && (all || (s->role == TIDE_ROLE_IO) == io)) {
            m->op = OP_STOP;
            m->u.in = (struct tide_message){.code = (int32_t)phase};
            inbox_push(s, m);
        }
    }
}

static void wait_actors(struct tide_system *system, bool io, uint64_t timeout) {
    uint64_t until = tide_port_now(system->port) + timeout;
    while (actors_live(system, io) > 0 && tide_port_now(system->port) < until) {
        system->port->ops->pause(system->port, TIDE_SECOND / 2000);
    }
}

static void stop_executors(struct tide_system *system) {
    for (unsigned i = system->count; i-- > 0;) {
        if (system->schedulers[i]->executor) {
            system->port->ops->executor_stop(system->schedulers[i]->executor);
            system->schedulers[i]->executor = NULL;
        }
    }
}

bool tide_system_stop(struct tide_system *system, uint64_t timeout) {
    atomic_store_explicit(&system->stopping, true, memory_order_relaxed);
    if (system->port->crashed) {
        for (unsigned i = 0; i < system->count; i++) {
            scheduler_abandon(system->schedulers[i]);
        }
        stop_executors(system);
        return true;
    }
    for (int io = 0; io <= 1; io++) { /* those that use the store and the links end first */
        tell(system, STOP_ASK, io == 1, false);
        wait_actors(system, io == 1, timeout);
        if (actors_live(system, io == 1) > 0) {
            tell(system, STOP_KILL, io == 1, false);
            wait_actors(system, io == 1, tide_limit(actor_killed_wait));
        }
    }
    tell(system, STOP_CLOSE, false, true);
    const uint64_t until = tide_port_now(system->port) + tide_limit(actor_killed_wait);
    while (!all_stopped(system)) {
        if (tide_port_now(system->port) >= until) {
            tide_log(TIDE_LOG_ERROR, system->node_name,
                     "an actor does not return: its thread and what the node holds stay behind");
            return false;
        }
        system->port->ops->pause(system->port, TIDE_SECOND / 2000);
    }
    stop_executors(system);
    return true;
}

static void drop_inbox(struct scheduler *s) {
    struct message *m = atomic_exchange_explicit(&s->inbox, NULL, memory_order_acquire);
    while (m) {
        struct message *next = m->next;
        if (m->op != OP_WAKE && m->op != OP_STOP) { /* these are embedded */
            message_destroy(m);
        }
        m = next;
    }
}

void tide_system_destroy(struct tide_system *system) {
    for (unsigned i = 0; i < system->count; i++) {
        drop_inbox(system->schedulers[i]);
    }
    for (unsigned i = 0; i < system->count; i++) {
        scheduler_release(system->schedulers[i]);
    }
    registry_release(system);
    events_release(system);
    tide_free(system);
}
