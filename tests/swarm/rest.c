/*
 * Nodes as they are. While everything moves: no key is owned by two nodes, nothing exceeds its
 * bound. When everything is to be at rest: nothing waits, no queue holds anything, every key has
 * one owner and its home knows it. And for a run that hangs: who waits for whom.
 */
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net/net_state.h"
#include "store/operation/drop.h"
#include "store/rows/rules.h"
#include "world.h"

#include "store/slots/move.h"
#include "tide/stats.h"

#include <stdarg.h>

static bool serves(const struct node *n) {
    return n->node != NULL && (n->state == NODE_UP || n->state == NODE_LEAVING);
}

/* ---- keys ---- */

/* The word of a key, which is 0 if the node knows nothing of it. */
static uint64_t word_of(struct tide_table *table, uint64_t key) {
    const uint32_t slot = tide__slot_of(table, key);
    if (table->options.keys == TIDE_KEYS_HASHED) {
        const struct tide__hash *hash = atomic_load(&table->slots[slot].index);
        for (uint32_t i = 0; hash != NULL && i < hash->capacity; i++) {
            if (atomic_load(&hash->entries[i].word) != 0 && hash->entries[i].key == key) {
                return atomic_load(&hash->entries[i].word);
            }
        }
        return 0;
    }
    atomic_uint_fast64_t *words = atomic_load(&table->slots[slot].index);
    return words != NULL ? atomic_load(&words[tide__place_of(table, slot, key)]) : 0;
}

static bool owns(struct tide_table *table, uint64_t key) {
    uint64_t word = word_of(table, key);
    unsigned state = tide__word_state(word);
    if (state != TIDE__ARRIVING) {
        return state == TIDE__OWNED || state == TIDE__COLD;
    }
    const struct tide__arrival *a = tide__arrival_of(table, word);
    return a->here || a->cold;
}

static void check_one_owner(struct world *w, const struct table *table, uint32_t number) {
    const struct node *owner = NULL;
    uint64_t key = key_of(table, number);
    for (unsigned i = 0; i < w->node_count; i++) {
        struct tide_table *handle;
        if (!serves(w->nodes[i]) || tide_table_find(w->nodes[i]->node, table->name, &handle) < 0 ||
            !owns(handle, key)) {
            continue;
        }
        if (owner != NULL) {
            swarm_fail(w, "one_owner", "table %s key %u: %s and %s have its row", table->name, number, owner->name,
                       w->nodes[i]->name);
        }
        owner = w->nodes[i];
    }
}

/* ---- bounds ---- */

static void release_tables(struct tide_table *const *tables, size_t count) {
    for (size_t i = 0; i < count && i < TABLES_MAX; i++) {
        tide_table_release(tables[i]);
    }
}

/* What is in flight of a node's operations is within its limit, but for one operation alone. */
static void check_queue(struct world *w, const struct node *node) {
    const uint64_t limit = (uint64_t)option(w, SWARM_QUEUE_KIB) << 10;
    const struct tide__ticket *ticket = NULL;
    uint64_t bytes = 0;
    bool alone = true;
    for (const struct tide__pending *p = tide_store_of(node->node)->pending.first; p; p = p->next) {
        bytes += p->token.bytes;
        alone = alone && (!ticket || !p->ticket || p->ticket == ticket);
        ticket = p->ticket ? p->ticket : ticket;
    }
    if (limit > 0 && bytes > limit && !alone) {
        swarm_fail(w, "memory", "%s has operations of %llu bytes under way, its limit is %llu", node->name,
                   (unsigned long long)bytes, (unsigned long long)limit);
    }
}

/* What a node with a memory cap really has, and says it has. */
static void check_memory(struct world *w, struct node *node) {
    struct tide_store *store = tide_store_of(node->node);
    struct tide_table *tables[TABLES_MAX];
    const uint64_t cap = store->budget.cap, kept = store->budget.kept - node->ballast;
    if (cap == 0) {
        return;
    }
    const uint64_t queues = tide_net_queued(tide_net_of(node->node)) +
                            tide_system_mailbox_bytes(tide_system_of(node->node)) + store->parked_bytes;
    uint64_t rows = 0;
    size_t count = tide_store_tables(store, tables, TABLES_MAX);
    for (size_t i = 0; i < count && i < TABLES_MAX; i++) {
        struct tide_table_stats stats;
        tide_table_stats(tables[i], &stats);
        rows += stats.memory_bytes;
    }
    release_tables(tables, count);
    if (kept + queues > cap) {
        swarm_fail(w, "memory", "%s has %llu bytes of tables and %llu in queues, its cap is %llu", node->name,
                   (unsigned long long)kept, (unsigned long long)queues, (unsigned long long)cap);
    }
    if (rows > kept) {
        swarm_fail(w, "memory", "%s has tables of %llu bytes and counts %llu", node->name, (unsigned long long)rows,
                   (unsigned long long)kept);
    }
}

static void check_bounds(struct world *w, struct node *node) {
    const struct tide_store *store = tide_store_of(node->node);
    check_queue(w, node);
    check_memory(w, node);
    for (const struct tide_session *s = tide_net_of(node->node)->sessions; s != NULL; s = s->next) {
        if (s->outbox.ring_frames > tide_limit(net_ring_frames) + TIDE_OUTBOX_VECTORS ||
            s->outbox.ring_bytes > tide_limit(net_ring_bytes) + TIDE_OUTBOX_UNIT) {
            swarm_fail(w, "memory", "%s keeps %zu frames, %zu bytes for n%u", node->name, s->outbox.ring_frames,
                       s->outbox.ring_bytes, s->peer->id);
        }
    }
    if (store->parked_bytes > tide_limit(store_parked_bytes)) {
        swarm_fail(w, "memory", "%s has parked %llu bytes", node->name, (unsigned long long)store->parked_bytes);
    }
    struct tide_actor_info actors[64];
    size_t count = tide_actors(node->node, actors, TIDE_COUNT(actors));
    for (size_t i = 0; i < count && i < TIDE_COUNT(actors); i++) {
        /* what comes from other nodes is bounded by their credit, not by the mailbox */
        uint32_t room = (uint32_t)option(w, SWARM_MAILBOX) + 64 * NODES_UP_MAX;
        if (strcmp(actors[i].type, "echo") == 0 && actors[i].mailbox_messages > room &&
            actors[i].mailbox_bytes > NODES_UP_MAX * (10u << 20)) {
            swarm_fail(w, "memory", "%s: %u messages wait for the echo actor", node->name, actors[i].mailbox_messages);
        }
    }
}

void check_running(struct world *w) {
    enum { KEYS = 8 };
    for (unsigned t = 0; t < w->table_count; t++) {
        const struct table *table = &w->tables[t];
        for (unsigned i = 0; i < KEYS && moves(table); i++) {
            check_one_owner(w, table, (uint32_t)tide_random_below(&w->random, table->total));
        }
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        if (serves(w->nodes[i])) {
            check_bounds(w, w->nodes[i]);
        }
    }
}

/* ---- rest ---- */

static bool say(char *why, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool say(char *why, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

/* Leases of tables with copies are asked for all the time: so many messages of each pair of nodes
 * may be in flight at rest. */
enum { LEASE_FRAMES = 64, LEASE_BYTES = LEASE_FRAMES * 256 };

static bool links_quiet(const struct world *w, const struct node *node, char *why, size_t size) {
    const bool leases = tide_store_of(node->node)->replication != NULL;
    const struct tide_net *net = tide_net_of(node->node);
    for (const struct tide_session *s = net->sessions; s != NULL; s = s->next) {
        if (s->link == NULL) {
            return say(why, size, "%s has no connection to n%u", node->name, s->peer->id);
        }
        if (s->outbox.ring_frames > (leases ? LEASE_FRAMES : 0) || (!leases && !tide__outbox_empty(&s->outbox))) {
            return say(why, size, "%s has %zu frames under way to n%u", node->name, s->outbox.ring_frames, s->peer->id);
        }
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct tide_peer *peer = w->nodes[i]->state == NODE_UP ? tide__peer(net, w->nodes[i]->id) : NULL;
        for (unsigned lane = 0; peer != NULL && lane < TIDE_LANE_COUNT; lane++) {
            uint64_t held = atomic_load(&peer->outstanding[lane]);
            if (held > (leases && lane == TIDE_LANE_STORE ? LEASE_BYTES : 0)) {
                return say(why, size, "%s misses credit of %llu bytes in lane %u from %s", node->name,
                           (unsigned long long)held, lane, w->nodes[i]->name);
            }
        }
    }
    return true;
}

static bool store_quiet(const struct node *node, char *why, size_t size) {
    struct tide_store *store = tide_store_of(node->node);
    if (store->pending.first != NULL) {
        return say(why, size, "%s has unanswered operations", node->name);
    }
    if (store->stalled != NULL || store->parked_bytes != 0) {
        return say(why, size, "%s has operations that wait for a row or a slot (%llu bytes)", node->name,
                   (unsigned long long)store->parked_bytes);
    }
    if (tide__moves_waiting(store)) {
        return say(why, size, "%s still moves slots", node->name);
    }
    const char *dropped = tide__drop_unfinished(store);
    if (dropped != NULL) {
        return say(why, size, "%s has not freed table %s, which was dropped", node->name, dropped);
    }
    struct tide_table *tables[TABLES_MAX];
    size_t count = tide_store_tables(store, tables, TABLES_MAX);
    bool quiet = true;
    for (size_t i = 0; i < count && i < TABLES_MAX && quiet; i++) {
        if (tables[i]->operations->owners && tide__slab_used(&tide__owners_of(tables[i])->arrivals) != 0) {
            quiet = say(why, size, "%s waits for %u rows of %s", node->name, tide__slab_used(&tide__owners_of(tables[i])->arrivals),
                        tables[i]->name);
        }
        quiet = quiet && shared_quiet(node, tables[i], why, size);
    }
    release_tables(tables, count);
    return quiet;
}

static bool actors_quiet(const struct node *node, char *why, size_t size) {
    const bool leases = tide_store_of(node->node)->replication != NULL;
    struct tide_actor_info actors[64];
    size_t count = tide_actors(node->node, actors, TIDE_COUNT(actors));
    for (size_t i = 0; i < count && i < TIDE_COUNT(actors); i++) {
        if (actors[i].mailbox_messages > (leases ? LEASE_FRAMES * NODES_UP_MAX : 0)) {
            return say(why, size, "%s: %u messages wait for actor %s", node->name, actors[i].mailbox_messages,
                       actors[i].type);
        }
    }
    return true;
}

static bool table_redundant(const struct world *w, const struct table *table, const struct node *n, char *why,
                            size_t size) {
    struct tide_table *handle;
    struct tide_table_health health;
    struct tide_table_stats stats;
    if (table->options.replicas == 0 || tide_table_find(n->node, table->name, &handle) < 0) {
        return true;
    }
    if (tide__replicas_of(handle)->unopened > 0) {
        return say(why, size, "%s does not serve %u slots of %s yet", n->name, tide__replicas_of(handle)->unopened,
                   handle->name);
    }
    tide_table_stats(handle, &stats);
    if (stats.unreplicated > 0) {
        return say(why, size, "%s: %llu bytes of table %s are not on their copies", n->name,
                   (unsigned long long)stats.unreplicated, handle->name);
    }
    tide_table_health(handle, &health);
    if (health.under_replicated > 0 && nodes_in(w, NODE_UP) > table->options.replicas) {
        return say(why, size, "%s misses copies of %u slots of %s", n->name, health.under_replicated, handle->name);
    }
    return true;
}

bool is_redundant(const struct world *w, char *why, size_t size) {
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        const struct tide__replication *r = n->state == NODE_UP ? tide_store_of(n->node)->replication : NULL;
        if (r != NULL && r->first != r->next) {
            return say(why, size, "%s has pushes on their way to copies", n->name);
        }
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        for (unsigned t = 0; w->nodes[i]->state == NODE_UP && t < w->table_count; t++) {
            if (!table_redundant(w, &w->tables[t], w->nodes[i], why, size)) {
                return false;
            }
        }
    }
    return true;
}

/* Does everybody believe of everybody what is true? */
static bool members_agree(const struct world *w, char *why, size_t size) {
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        for (unsigned j = 0; j < w->node_count && n->state == NODE_UP; j++) {
            const struct node *other = w->nodes[j];
            struct tide_member m;
            if (other->id == 0 || !tide_net_member(tide_net_of(n->node), other->id, &m)) {
                continue;
            }
            bool up = m.state == TIDE_MEMBER_UP, gone = m.state > TIDE_MEMBER_LEAVING;
            if ((other->state == NODE_UP && !up) || (other->state == NODE_GONE && !gone)) {
                return say(why, size, "%s takes %s (n%u) for %d", n->name, other->name, other->id, m.state);
            }
        }
    }
    return true;
}

bool is_quiet(struct world *w, char *why, size_t size) {
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        if (n->state == NODE_UP &&
            (!links_quiet(w, n, why, size) || !store_quiet(n, why, size) || !actors_quiet(n, why, size))) {
            return false;
        }
    }
    return members_agree(w, why, size) && is_redundant(w, why, size);
}

static const struct node *node_of_id(const struct world *w, uint16_t id) {
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i]->id == id && w->nodes[i]->state == NODE_UP) {
            return w->nodes[i];
        }
    }
    return NULL;
}

/* The homes agree; the home of a moving key knows its owner, and there is one. */
static void check_homes(struct world *w, const struct table *table, uint32_t number) {
    const uint64_t key = key_of(table, number);
    uint16_t home = 0;
    unsigned owners = 0;
    uint16_t owner = 0, known = 0;
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        struct tide_table *handle;
        if (n->state != NODE_UP || tide_table_find(n->node, table->name, &handle) < 0) {
            continue;
        }
        uint16_t told = tide__route_home(atomic_load(&handle->slots[tide__slot_of(handle, key)].route));
        if (home != 0 && told != home) {
            swarm_fail(w, "one_owner", "table %s key %u: %s takes n%u for its home, others n%u", table->name, number,
                       n->name, told, home);
        }
        home = told;
        owners += owns(handle, key);
        owner = owns(handle, key) ? n->id : owner;
    }
    const struct node *at_home = node_of_id(w, home);
    if (at_home == NULL) {
        if (!may_lose(w, table)) {
            swarm_fail(w, "one_owner", "table %s key %u: its home n%u is not there", table->name, number, home);
        }
        return;
    }
    struct tide_table *handle;
    TIDE_ASSERT(tide_table_find(at_home->node, table->name, &handle) == 0);
    if (!moves(table) || tide_table_where(handle, key, &known) < 0) {
        return;
    }
    bool dead = node_of_id(w, known) == NULL;
    if (owners > 1 || (!dead && owners == 1 && known != owner) || (!dead && owners == 0 && known != home) ||
        (dead && w->report->lost_nodes == 0)) {
        swarm_fail(w, "one_owner", "table %s key %u: %u nodes have its row, the last is n%u; its home %s says n%u",
                   table->name, number, owners, owner, at_home->name, known);
    }
}

const float *row_at(const struct table *table, const struct node *n, uint64_t key) {
    struct tide_table *handle;
    if (tide_table_find(n->node, table->name, &handle) < 0) {
        return NULL;
    }
    uint64_t word = word_of(handle, key);
    return tide__word_state(word) == TIDE__OWNED ? tide__slab_row(&handle->slab, (uint32_t)word) : NULL;
}

/* As nobody has ever pushed to it: a push that there was no memory for may have made it. */
static bool is_initial(const struct tide_table *table, uint64_t key, const float *row) {
    float *initial = tide_alloc(table->row_floats * sizeof *initial);
    TIDE_ASSERT(initial);
    tide__row_init(&table->options, key, initial, true);
    const bool same = memcmp(initial, row, table->row_floats * sizeof *row) == 0;
    tide_free(initial);
    return same;
}

/* Copies are where the groups say, nowhere else, and equal to their home bit for bit. */
static void check_copies(struct world *w, const struct table *table, uint32_t number) {
    const uint64_t key = key_of(table, number);
    struct tide_table *known;
    TIDE_ASSERT(tide_table_find(node_named(w, "n1")->node, table->name, &known) == 0);
    const uint32_t slot = tide__slot_of(known, key), route = atomic_load(&known->slots[slot].route);
    const uint64_t chain = atomic_load(&tide__replicas_of(known)->chain[slot]);
    const struct node *home = node_of_id(w, tide__route_home(route));
    if (home == NULL || (route & TIDE__LOST)) {
        return; /* check_homes looks at that */
    }
    const float *row = row_at(table, home, key);
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        const float *copy = n->state == NODE_UP && n != home ? row_at(table, n, key) : NULL;
        bool holds = tide__chain_has(chain, n->id) && row != NULL;
        bool may_miss = option(w, SWARM_MEMORY_S) > 0 && holds && copy == NULL && is_initial(known, key, row);
        if (n->state == NODE_UP && n != home && holds != (copy != NULL) && !may_miss) {
            swarm_fail(w, "copies", "table %s key %u: %s, home is %s: a copy is %s", table->name, number, n->name,
                       home->name, holds ? "missing" : "left over");
        }
        if (copy != NULL && row != NULL && memcmp(copy, row, known->row_floats * sizeof *row) != 0) {
            swarm_fail(w, "copies", "table %s key %u: the copy at %s differs from the row at %s", table->name, number,
                       n->name, home->name);
        }
    }
}

void check_rest(struct world *w) {
    for (unsigned t = 0; t < w->table_count; t++) {
        const struct table *table = &w->tables[t];
        for (uint32_t k = 0; k < table->total && !w->report->failed; k++) {
            if (table->counts || table->pushes[k] > 0) {
                check_homes(w, table, k);
                if (table->options.replicas > 0) {
                    check_copies(w, table, k);
                }
            }
        }
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct node *n = w->nodes[i];
        struct tide_table *tables[TABLES_MAX];
        size_t count = n->state == NODE_UP ? tide_store_tables(tide_store_of(n->node), tables, TABLES_MAX) : 0;
        for (size_t t = 0; t < count && t < TABLES_MAX; t++) {
            struct tide_table_stats stats;
            tide_table_stats(tables[t], &stats);
            if (stats.surprises > 0 && w->report->lost_nodes == 0) {
                swarm_fail(w, "fencing", "%s met %llu relocation messages of %s that cannot be", n->name,
                           (unsigned long long)stats.surprises, tables[t]->name);
            }
        }
        release_tables(tables, count);
        if (n->state == NODE_UP && atomic_load(&tide_store_of(n->node)->malformed) > 0) {
            swarm_fail(w, "session", "%s met damaged messages of tables", n->name);
        }
    }
}

/* ---- who waits for whom ---- */

/* Operations of a node that have no answer: to whom they went, and where their keys are now. */
static size_t dump_pending(const struct node *n, char *out, size_t size) {
    size_t used = 0;
    for (const struct tide__pending *p = tide_store_of(n->node)->pending.first; p != NULL && used + 300 < size;
         p = p->next) {
        used += (size_t)snprintf(out + used, size - used, "  operation %u on %s, %u of %u keys, sent to n%u", p->kind,
                                 p->table->name, p->left, p->count, p->node);
        for (unsigned i = 0; i < p->passed_count && used + 100 < size; i++) {
            used += (size_t)snprintf(out + used, size - used, ", passed on to n%u", p->passed[i]);
        }
        for (uint32_t i = 0; p->at != NULL && i < p->count && used + 100 < size; i++) {
            if (p->at[i] != 0) {
                used += (size_t)snprintf(out + used, size - used, ", key at n%u", p->at[i]);
            }
            const struct tide__owned *o = p->table->operations->owners ? p->part : NULL;
            if (p->at[i] != 0 && o != NULL && o->keys[i].way.via != 0) {
                used += (size_t)snprintf(out + used, size - used, " by n%u", o->keys[i].way.via);
            }
        }
        used += (size_t)snprintf(out + used, size - used, "\n");
    }
    return used;
}

static void dump_node(const struct node *n, char *out, size_t size) {
    size_t used = 0;
    char why[200] = "";
    (void)(links_quiet(n->world, n, why, sizeof why) && store_quiet(n, why, sizeof why));
    used += (size_t)snprintf(out, size, "%s (n%u, state %u)%s%s\n", n->name, n->id, n->state, why[0] ? ": " : "", why);
    used += used < size ? dump_pending(n, out + used, size - used) : 0;
    if (used < size) {
        (void)tide_system_waits(tide_system_of(n->node), out + used, size - used);
    }
}

/* Rows that nodes wait for, and where the home believes them. */
static size_t dump_rows(const struct world *w, char *out, size_t size) {
    size_t used = 0;
    for (unsigned t = 0; t < w->table_count; t++) {
        const struct table *table = &w->tables[t];
        for (uint32_t k = 0; k < table->total && used + 200 < size; k++) {
            for (unsigned i = 0; i < w->node_count && used + 200 < size; i++) {
                struct tide_table *handle;
                if (!serves(w->nodes[i]) || !moves(table) ||
                    tide_table_find(w->nodes[i]->node, table->name, &handle) < 0) {
                    continue;
                }
                uint64_t key = key_of(table, k), word = word_of(handle, key);
                uint32_t route = atomic_load(&handle->slots[tide__slot_of(handle, key)].route);
                bool waits = tide__word_state(word) == TIDE__ARRIVING, away = word & TIDE__WORD_AWAY;
                if (!waits && !away) {
                    continue;
                }
                const struct tide__arrival *a = waits ? tide__arrival_of(handle, word) : NULL;
                used += (size_t)snprintf(out + used, size - used,
                                         "  %s key %u at n%u: route %x, %s, term %u, owner %u of term %u, next %u of "
                                         "term %u, %s\n",
                                         table->name, k, w->nodes[i]->id, route, waits ? "waits" : "away",
                                         tide__word_seen(word), waits ? a->owner : tide__word_owner(word),
                                         waits ? a->owner_term : 0, waits ? a->next : 0, waits ? a->next_term : 0,
                                         waits && a->here ? "here" : "");
            }
        }
    }
    return used;
}

void dump(struct world *w, char *out, size_t size) {
    size_t used = dump_rows(w, out, size / 2);
    for (unsigned i = 0; i < w->node_count && used + 1 < size; i++) {
        if (w->nodes[i]->node != NULL) {
            dump_node(w->nodes[i], out + used, size - used);
            used += strlen(out + used);
        }
    }
    if (drops(w) && !w->dropper.ended && w->dropper.doing && used + 1 < size) {
        int n = snprintf(out + used, size - used, "  the dropper %s table %s\n", w->dropper.doing, w->dropper.name);
        used += n > 0 ? (size_t)n : 0;
    }
    for (unsigned i = 0; i < w->worker_count && used + 1 < size; i++) {
        const struct worker *worker = w->workers[i];
        if (!worker->ended && worker->node->state != NODE_CRASHED) {
            const struct doing *d = &worker->doing;
            int n = snprintf(out + used, size - used, "  worker %u of %s: %s %s %s %u\n", worker->index,
                             worker->node->name, d->verb, d->object, d->of, d->count);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}
