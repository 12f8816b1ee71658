/*
 * Supervisors: an event handler linked to its children. A child's end is a message; the strategy decides which children
 * are stopped and started again; too many restarts in a period end the supervisor, which is its own supervisor's
 * business.
 */
#include "actor/internal.h"

#include <string.h>

enum child_state { CHILD_DOWN, CHILD_UP, CHILD_STOPPING };

struct child {
    struct tide_child spec;
    tide_address address;
    uint8_t state;
    bool wanted; /* to be started in the pending round */
};

struct supervisor {
    struct tide_node *node;
    enum tide_strategy strategy;
    uint32_t restarts_max, restarts;
    uint64_t period, period_began, backoff, next_backoff;
    uint64_t round_timer; /* 0: no round is pending */
    size_t child_count;
    struct child children[];
};

static void supervisor_release(void *state) {
    struct supervisor *sv = state;
    for (size_t i = 0; i < sv->child_count; i++) {
        const struct tide_actor_options *o = &sv->children[i].spec.actor;
        if (!sv->children[i].spec.start && o->release) {
            o->release(o->state);
        }
    }
    tide_free(sv);
}

static int start_child(struct supervisor *sv, struct child *child) {
    struct tide_actor_options options = child->spec.actor;
    options.link = tide_self();
    if (child->spec.start) {
        int rc = child->spec.start(child->spec.argument, &options.state);
        if (rc < 0) {
            return rc;
        }
    } else {
        options.release = NULL; /* the state lives as long as the supervisor */
    }
    int rc = tide_spawn(sv->node, &options, &child->address);
    if (rc < 0 && child->spec.start && options.release) {
        options.release(options.state);
    }
    if (rc == 0) {
        child->state = CHILD_UP;
    }
    return rc;
}

static bool anyone(const struct supervisor *sv, enum child_state state) {
    for (size_t i = 0; i < sv->child_count; i++) {
        if (sv->children[i].state == state) {
            return true;
        }
    }
    return false;
}

/* Starts the requested children, in order, once all that had to stop have stopped. */
static int start_round(struct supervisor *sv) {
    if (anyone(sv, CHILD_STOPPING) || sv->round_timer != 0) {
        return 0;
    }
    for (size_t i = 0; i < sv->child_count; i++) {
        struct child *child = &sv->children[i];
        if (child->wanted && child->state == CHILD_DOWN) {
            child->wanted = false;
            int rc = start_child(sv, child);
            if (rc < 0) {
                return rc;
            }
        }
    }
    return 0;
}

static void stop_child(struct child *child) {
    if (child->state == CHILD_UP) {
        child->state = CHILD_STOPPING;
        tide_kill(child->address, TIDE_EKILLED);
    }
}

static int count_restart(struct supervisor *sv) {
    uint64_t now = tide_node_now(sv->node);
    if (now - sv->period_began > sv->period) {
        sv->period_began = now;
        sv->restarts = 0;
        sv->next_backoff = 0;
    }
    if (++sv->restarts > sv->restarts_max) {
        return tide_fail(TIDE_ECRASHED, "more than %u restarts within %.3g s", sv->restarts_max,
                         (double)sv->period / 1e9);
    }
    if (sv->next_backoff > 0 && sv->round_timer == 0) {
        int rc = tide_timer_start(sv->next_backoff, &sv->round_timer);
        if (rc < 0) {
            return rc;
        }
    }
    uint64_t next = sv->next_backoff == 0 ? sv->backoff : sv->next_backoff * 2;
    sv->next_backoff = next > 5 * TIDE_SECOND ? 5 * TIDE_SECOND : next;
    return 0;
}

static int child_ended(struct supervisor *sv, const struct tide_message *m) {
    size_t i = 0;
    while (i < sv->child_count && (tide_address_id(sv->children[i].address) != tide_address_id(m->from) ||
                                   sv->children[i].state == CHILD_DOWN)) {
        i++;
    }
    if (i == sv->child_count) {
        return 0;
    }
    struct child *child = &sv->children[i];
    bool asked = child->state == CHILD_STOPPING;
    child->state = CHILD_DOWN;
    if (asked) {
        return start_round(sv);
    }
    if (child->spec.restart == TIDE_TEMPORARY || (child->spec.restart == TIDE_TRANSIENT && m->code == 0)) {
        return 0;
    }
    int rc = count_restart(sv);
    if (rc < 0) {
        return rc;
    }
    child->wanted = true;
    if (sv->strategy != TIDE_ONE_FOR_ONE) {
        size_t first = sv->strategy == TIDE_ALL_FOR_ONE ? 0 : i + 1;
        for (size_t k = sv->child_count; k-- > first;) {
            if (sv->children[k].state != CHILD_DOWN) {
                sv->children[k].wanted = true;
                stop_child(&sv->children[k]);
            }
        }
    }
    return start_round(sv);
}

static int supervisor_handle(void *state, const struct tide_message *m) {
    struct supervisor *sv = state;
    switch (m->kind) {
    case TIDE_CAST: /* posted by tide_supervise: the first start */
        tide_trap_exits(true);
        return start_round(sv);
    case TIDE_TIMER:
        sv->round_timer = 0;
        return start_round(sv);
    case TIDE_EXIT:
        return child_ended(sv, m);
    case TIDE_STOP:
        for (size_t i = sv->child_count; i-- > 0;) {
            stop_child(&sv->children[i]);
        }
        return 0;
    default:
        return 0;
    }
}

/* Child `i` of an array whose elements may be those of another version's header: `actor` at their end has the size. */
static int read_child(const struct tide_supervisor_options *o, size_t i, struct tide_child *out) {
    const size_t first = TIDE_LAYOUT(struct tide_child, actor.opens), stride = o->child_size ? o->child_size : first;
    if (stride < first) {
        return tide_fail(TIDE_EINVAL, "supervisor options: %zu is no size of struct tide_child", stride);
    }
    const struct tide_child *given = (const void *)((const char *)o->children + i * stride);
    memcpy(out, given, offsetof(struct tide_child, actor));
    return tide__layout_read("actor", &given->actor, TIDE_LAYOUT(struct tide_actor_options, opens), &out->actor,
                             sizeof out->actor);
}

int tide_supervise(struct tide_node *node, const struct tide_supervisor_options *given, tide_address *out) {
    struct tide_supervisor_options own, *o = &own;
    int rc =
        tide__layout_read("supervisor", given, TIDE_LAYOUT(struct tide_supervisor_options, link), &own, sizeof own);
    if (rc < 0) {
        return rc;
    }
    struct supervisor *sv = tide_alloc_zero(1, sizeof *sv + o->child_count * sizeof(struct child));
    if (!sv) {
        return TIDE_ENOMEM;
    }
    sv->node = node;
    sv->strategy = o->strategy;
    sv->restarts_max = o->restarts_max != 0 ? o->restarts_max : 3;
    sv->period = o->period != 0 ? o->period : 5 * TIDE_SECOND;
    sv->backoff = o->backoff != 0 ? o->backoff : TIDE_SECOND / 10;
    sv->child_count = o->child_count;
    for (size_t i = 0; i < o->child_count && rc == 0; i++) {
        sv->children[i].wanted = true;
        rc = read_child(o, i, &sv->children[i].spec);
    }
    tide_address address;
    rc = rc < 0 ? rc
                : tide_spawn(node,
                             &(struct tide_actor_options){.name = o->name,
                                                          .type = "supervisor",
                                                          .handle = supervisor_handle,
                                                          .state = sv,
                                                          .release = supervisor_release,
                                                          .role = o->role,
                                                          .link = o->link},
                             &address);
    if (rc < 0) {
        tide_free(sv);
        return rc;
    }
    static const uint8_t nil[] = {0xc0};
    rc = tide_post(node, address, nil, sizeof nil);
    if (out) {
        *out = address;
    }
    return rc;
}
