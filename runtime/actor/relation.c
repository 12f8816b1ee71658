/*
 * Monitors and links. Each side keeps a record; what crosses threads and nodes are signals that the owner of the
 * target applies in order. The end of an actor sends one EXIT to every watcher and linked peer, wherever they are;
 * the end of a node is turned into the same EXITs for every actor that had a relation with an actor there.
 */
#include "actor/internal.h"

static int relation_add(struct actor *actor, enum relation_kind kind, tide_address peer, uint64_t id) {
    struct relation *r = tide_alloc(sizeof *r);
    if (!r) {
        return TIDE_ENOMEM;
    }
    *r = (struct relation){.next = actor->relations, .peer = peer, .id = id, .kind = (uint8_t)kind};
    actor->relations = r;
    return 0;
}

/* Addresses of this node may carry node 0 (made before the node had its id) or the id. */
static bool same(const struct actor *actor, tide_address a, tide_address b) {
    const struct tide_system *system = actor->scheduler->system;
    return a == b || (tide_address_id(a) == tide_address_id(b) && is_local(system, a) && is_local(system, b));
}

static bool relation_take(struct actor *actor, enum relation_kind kind, tide_address peer, uint64_t id) {
    for (struct relation **at = &actor->relations; *at; at = &(*at)->next) {
        struct relation *r = *at;
        if (r->kind == kind && r->id == id && (peer == TIDE_NOBODY || same(actor, r->peer, peer))) {
            *at = r->next;
            tide_free(r);
            return true;
        }
    }
    return false;
}

static void exit_received(struct scheduler *s, struct actor *actor, struct message *m) {
    bool link = m->u.in.call == 0;
    if (!relation_take(actor, link ? LINKED : WATCHES, link ? m->u.in.from : TIDE_NOBODY, m->u.in.call)) {
        message_destroy(m); /* demonitored or unlinked meanwhile */
        return;
    }
    if (link && !actor->traps) {
        if (m->u.in.code != 0) {
            actor_kill(s, actor, m->u.in.code, (const char *)m->u.in.data);
        }
        message_destroy(m);
        return;
    }
    m->op = OP_MESSAGE;
    m->u.in.kind = TIDE_EXIT;
    m->u.in.lane = TIDE_LANE_CONTROL;
    mailbox_push(s, actor, m);
}

void relation_signal(struct scheduler *s, struct message *m) {
    struct actor *actor = actor_find(s, m->u.in.to);
    tide_address from = m->u.in.from;
    uint64_t id = m->u.in.call;
    if (!actor || actor->lifecycle != ACTOR_LIVE || (m->op != OP_EXIT && !actor_opens_to(actor, m->u.in.right))) {
        if (m->op == OP_MONITOR || m->op == OP_LINK) {
            signal_send(s, OP_EXIT, from, m->u.in.to, id, TIDE_EDIED, "no such actor");
        }
        message_destroy(m);
        return;
    }
    switch ((enum message_op)m->op) {
    case OP_EXIT:
        exit_received(s, actor, m);
        return;
    case OP_MONITOR:
    case OP_LINK:
        if (relation_add(actor, m->op == OP_LINK ? LINKED : WATCHED_BY, from, id) < 0) {
            signal_send(s, OP_EXIT, from, m->u.in.to, id, TIDE_ENOMEM, "no memory for the monitor");
        }
        break;
    case OP_DEMONITOR:
        relation_take(actor, WATCHED_BY, from, id);
        break;
    case OP_UNLINK:
        relation_take(actor, LINKED, from, 0);
        break;
    default:
        TIDE_ASSERT(false && "not a relation signal");
    }
    message_destroy(m);
}

void relations_end(struct scheduler *s, struct actor *actor, int reason, const char *text) {
    tide_address self = actor_address(actor);
    while (actor->relations) {
        struct relation *r = actor->relations;
        actor->relations = r->next;
        if (r->kind == WATCHES) {
            signal_send(s, OP_DEMONITOR, r->peer, self, r->id, 0, NULL);
        } else {
            signal_send(s, OP_EXIT, r->peer, self, r->kind == LINKED ? 0 : r->id, reason, text);
        }
        tide_free(r);
    }
    TIDE_ASSERT(!actor->relations);
}

void relations_node_down(struct scheduler *s, struct actor *actor, uint16_t node, int code, const char *text) {
    struct relation **at = &actor->relations;
    while (*at) {
        struct relation *r = *at;
        if (tide_address_node(r->peer) != node) {
            at = &r->next;
        } else if (r->kind == WATCHED_BY) {
            *at = r->next;
            tide_free(r);
        } else { /* the signal takes the record away */
            signal_send(s, OP_EXIT, actor_address(actor), r->peer, r->kind == LINKED ? 0 : r->id, code, text);
            at = &r->next;
        }
    }
}

bool tide_is_watched(char *label, size_t size) {
    const struct actor *self = tide__scheduler->current;
    for (const struct relation *r = self->relations; r; r = r->next) {
        if (r->kind != WATCHES) {
            return true;
        }
    }
    actor_label(self, label, size);
    return false;
}

/* NULL: `call` was made outside of actors, and that is said. */
static struct actor *self_actor(const char *call) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside(call);
        return NULL;
    }
    return s->current;
}

int tide_monitor(tide_address who, uint64_t *id) {
    struct actor *self = self_actor("tide_monitor");
    if (!self) {
        return TIDE_EINVAL;
    }
    uint64_t monitor = ++tide__scheduler->next_id;
    int rc = relation_add(self, WATCHES, who, monitor);
    if (rc < 0) {
        return rc;
    }
    signal_send(tide__scheduler, OP_MONITOR, who, actor_address(self), monitor, 0, NULL);
    *id = monitor;
    return 0;
}

void tide_demonitor(uint64_t id) {
    struct actor *self = self_actor("tide_demonitor");
    for (struct relation *r = !self ? NULL : self->relations; r; r = r->next) {
        if (r->kind == WATCHES && r->id == id) {
            signal_send(tide__scheduler, OP_DEMONITOR, r->peer, actor_address(self), id, 0, NULL);
            relation_take(self, WATCHES, TIDE_NOBODY, id);
            return;
        }
    }
}

int tide_link(tide_address who) {
    struct actor *self = self_actor("tide_link");
    if (!self) {
        return TIDE_EINVAL;
    }
    int rc = relation_add(self, LINKED, who, 0);
    if (rc == 0) {
        signal_send(tide__scheduler, OP_LINK, who, actor_address(self), 0, 0, NULL);
    }
    return rc;
}

void tide_unlink(tide_address who) {
    struct actor *self = self_actor("tide_unlink");
    if (self && relation_take(self, LINKED, who, 0)) {
        signal_send(tide__scheduler, OP_UNLINK, who, actor_address(self), 0, 0, NULL);
    }
}
