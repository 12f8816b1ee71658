/*
 * Techniques of keys: one call to the controller, which checks it and notifies all nodes; each keeps
 * the order with its records (hot_keys.h). The controller, which is a node like others, sends
 * it to joiners. Techniques decide about speed alone and are not recorded: a controller that was
 * started again, which is a new node, gets them from the keys' homes when its tables are there,
 * and passes on what it hears to those that joined after it.
 */
#include "store/core/options.h"
#include "store/core/send.h"
#include "store/slots/catalog.h"
#include "store/replica/replica.h"
#include "store/adaptive/hot_keys.h"
#include "tide/placement.h"
#include "tide/stats.h"

#include <math.h>

enum { TELL_KEYS = 4096 };

struct order { /* MANAGE and TECHNIQUE */
    struct tide_table *table;
    uint8_t technique;
    struct tide__share share;
    const uint8_t *nodes, *keys; /* u32, u64, unaligned; no nodes: all */
    size_t node_count, key_count;
};

static union tide__message order_message(const struct order *o) { /* MANAGE has the fields of TECHNIQUE and RECALL */
    return (union tide__message){.MANAGE = {.table = o->table->id,
                                            .technique = o->technique,
                                            .hz = o->share.hz,
                                            .threshold = (double)o->share.threshold,
                                            .clip = (double)o->share.clip,
                                            .nodes = TIDE__LIST(o->nodes, o->node_count),
                                            .keys = TIDE__LIST(o->keys, o->key_count)}};
}

static int order_check(const struct order *o) {
    const struct tide_table_options *options = &o->table->options;
    const struct tide__share *share = &o->share;
    int code = tide__hot_check(options);
    if (code) {
        return code;
    }
    if (o->technique > TIDE_INTENT) {
        return tide_fail(TIDE_EINVAL, "no technique %u", o->technique);
    }
    if (tide_technique_relocates(o->technique) && !o->table->operations->owners) {
        return tide_fail(TIDE_EUNSUPPORTED,
                         "the rows of table '%s' do not move: make it with technique relocate or "
                         "intent",
                         options->name);
    }
    if (share->hz == 0 || share->hz > 10000 || !(share->threshold >= 0) || !isfinite(share->threshold) ||
        !(share->clip >= 0) || !isfinite(share->clip)) {
        return tide_fail(TIDE_EINVAL, "rate is 1 to 10000 rounds a second, threshold and clip are not negative");
    }
    for (size_t i = 0; i < o->key_count && options->keys == TIDE_KEYS_DENSE; i++) {
        const uint64_t key = tide__long_at(o->keys, i);
        if (key >= options->key_count) {
            return tide_fail(TIDE_ERANGE, "key %llu is outside table '%s' (0..%llu)", (unsigned long long)key,
                             options->name, (unsigned long long)(options->key_count - 1));
        }
    }
    return 0;
}

static int order_read(struct tide_store *store, const union tide__message *as, struct order *o) {
    const __typeof__(as->MANAGE) *m = &as->MANAGE;
    *o = (struct order){.table = tide__table_by_id(store, m->table),
                        .technique = m->technique,
                        .share = {.hz = m->hz, .threshold = (float)m->threshold, .clip = (float)m->clip},
                        .nodes = m->nodes.at,
                        .node_count = m->nodes.count,
                        .keys = m->keys.at,
                        .key_count = m->keys.count};
    if (o->key_count > TIDE__MANAGE_KEYS_MAX) {
        return tide_fail(TIDE_EPROTO, "a damaged order about techniques");
    }
    return o->table ? order_check(o) : tide_fail(TIDE_ENOENT, "no table %u here", m->table);
}

/* ---- the controller ---- */

int tide__technique_order_call(struct tide_store *store, struct tide__incoming *in) {
    struct order o;
    if (!tide__catalog_commands(store)) {
        return tide_fail(TIDE_EREFUSED, "this node is not the controller");
    }
    int code = order_read(store, &in->as, &o);
    for (size_t i = 0; i < o.node_count && !code; i++) {
        const uint32_t node = tide__number_at(o.nodes, i);
        if (node == 0 || node >= TIDE__NODES || !tide__member_lives(store, node)) {
            code = tide_fail(TIDE_EINVAL, "node %u is no member", node);
        }
    }
    for (unsigned node = 1; node < store->members_end && !code; node++) {
        if (tide__member_lives(store, node)) {
            (void)tide__store_tell(store, (uint16_t)node, TIDE__OP_TECHNIQUE, &in->as);
        }
    }
    return code ? code : tide__nothing_answer(in->message);
}

struct told {
    struct tide__hot_table *s;
    uint64_t keys[TELL_KEYS];
    size_t count;
};

static void tell(struct told *t, enum tide__op op, uint16_t node, uint8_t technique, bool all) {
    static const uint32_t nobody = 0;
    struct order o = {.table = t->s->table,
                      .technique = technique,
                      .share = t->s->share,
                      .nodes = (const uint8_t *)&nobody,
                      .node_count = !all,
                      .keys = (const uint8_t *)t->keys,
                      .key_count = t->count};
    const union tide__message m = order_message(&o);
    (void)tide__store_tell(t->s->table->store, node, op, &m);
    t->count = 0;
}

struct telling {
    struct told *told;
    enum tide__op op;
    uint16_t node;
    uint8_t technique;
    bool all;
    uint16_t for_the_dead; /* RECALL: this node reports keys without a home, too */
};

/* Is this node to report the key to a new controller? */
static bool tells(const struct telling *t, uint64_t key) {
    const struct tide_table *table = t->told->s->table;
    const uint16_t home =
        tide__route_home(atomic_load_explicit(&table->slots[tide__slot_of(table, key)].route, memory_order_relaxed));
    const uint16_t teller = tide__member_lives(table->store, home) ? home : t->for_the_dead;
    return teller == tide__store_self(table->store);
}

static void tell_key(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, void *arg) {
    struct telling *t = arg;
    (void)s;
    if (k->technique == 1 + t->technique && k->all == t->all && (t->op != TIDE__OP_RECALL || tells(t, key))) {
        t->told->keys[t->told->count++] = key;
        if (t->told->count == TELL_KEYS) {
            tell(t->told, t->op, t->node, t->technique, t->all);
        }
    }
}

/* All orders for the table's keys at this node, or those that op RECALL reports. */
static void tell_table(struct tide_table *table, int op, uint16_t node) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct told *told = s ? tide_alloc(sizeof *told) : NULL;
    uint16_t lowest = 1;
    while (lowest < TIDE__NODES - 1 && !tide__member_lives(table->store, lowest)) {
        lowest++;
    }
    for (unsigned class = 0; told && class < 2 * (TIDE_INTENT + 1); class ++) {
        struct telling t = {.told = told,
                            .op = (enum tide__op)op,
                            .node = node,
                            .technique = (uint8_t)(class / 2),
                            .all = class % 2,
                            .for_the_dead = lowest};
        told->s = s;
        told->count = 0;
        tide__hot_each(s, tell_key, &t);
        if (told->count) {
            tell(told, (enum tide__op)op, node, t.technique, t.all);
        }
    }
    tide_free(told);
}

void tide__technique_order_tell(struct tide_store *store, uint16_t node) {
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count && node != tide__store_self(store); id++) {
        struct tide_table *table = tide__table_at(store, id);
        if (table) {
            tell_table(table, TIDE__OP_TECHNIQUE, node);
        }
    }
}

void tide__technique_order_recall(struct tide_table *table) {
    const uint16_t controller = tide_net_controller(table->store->net);
    if (controller > tide__store_self(table->store)) {
        tell_table(table, TIDE__OP_RECALL, controller);
    }
}

/* ---- nodes ---- */

/* The key's technique is this from now on. False: no room for its record. */
static bool carry_out(struct tide__hot_table *s, const struct order *o, uint64_t key, bool named, bool only_if_unknown,
                      bool *known) {
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (tide__hot_lock(s, key, true, true, &word, &old, &k) != TIDE__FOUND) {
        tide__share_count(&s->refused, 1);
        return false;
    }
    *known = k->technique != 0;
    if (!*known || !only_if_unknown) {
        k->technique = (uint8_t)(1 + o->technique);
        k->all = o->node_count == 0;
        k->wanted = o->technique == TIDE_REPLICATE && named;
        tide__hot_list(s, k, key);
    }
    tide__word_unlock(word, old);
    return true;
}

/* The same as TECHNIQUE, from homes to a new controller, and from it to those that joined after it:
 * of keys that have had no orders since. */
static void recalled(struct tide__hot_table *s, const struct order *o) {
    struct tide_store *store = s->table->store;
    struct told *told = tide_alloc(sizeof *told);
    const bool commands = tide__catalog_commands(store);
    for (size_t i = 0; told && i < o->key_count;) {
        bool known = true;
        told->s = s;
        told->count = 0;
        for (; i < o->key_count && told->count < TELL_KEYS; i++) {
            memcpy(&told->keys[told->count], o->keys + i * sizeof told->keys[0], sizeof told->keys[0]);
            if (carry_out(s, o, told->keys[told->count], o->node_count == 0, true, &known)) {
                told->count += !known;
            }
        }
        const size_t count = told->count;
        for (unsigned node = tide__store_self(store) + 1u; commands && count && node < store->members_end; node++) {
            if (tide__member_lives(store, node)) {
                told->count = count;
                tell(told, TIDE__OP_RECALL, (uint16_t)node, o->technique, o->node_count == 0);
            }
        }
    }
    tide_free(told);
}

int tide__recall_message(struct tide_store *store, struct tide__incoming *in) {
    struct order o;
    struct tide__hot_table *s = NULL;
    const bool heard = in->from == tide_net_controller(store->net) || tide__catalog_commands(store);
    int code = heard ? order_read(store, &in->as, &o) : TIDE_EREFUSED;
    code = code ? code : tide__hot_create(o.table, &s);
    if (code) {
        return code;
    }
    if (!s->ordered) {
        s->share = o.share;
    }
    recalled(s, &o);
    tide__hot_wake(s);
    return 0;
}

int tide__technique_message(struct tide_store *store, struct tide__incoming *in) {
    struct order o;
    struct tide__hot_table *s = NULL;
    int code = in->from == tide_net_controller(store->net) ? order_read(store, &in->as, &o) : TIDE_EREFUSED;
    code = code ? code : tide__hot_create(o.table, &s);
    if (code) {
        return code;
    }
    s->share = o.share;
    s->ordered = true;
    bool named = o.node_count == 0;
    for (size_t i = 0; i < o.node_count; i++) {
        named |= tide__number_at(o.nodes, i) == tide__store_self(store);
    }
    for (size_t i = 0; i < o.key_count; i++) {
        bool known;
        (void)carry_out(s, &o, tide__long_at(o.keys, i), named, false, &known);
    }
    tide__hot_wake(s);
    return 0;
}

/* ---- requesters ---- */

int tide_table_manage(struct tide_table *table, const uint64_t *keys, size_t key_count, uint8_t technique,
                      const struct tide_share_options *given) {
    static const struct tide_share_options plain = {0};
    struct tide_store *store = table->store;
    struct tide_share_options own, *options = &own;
    int code = tide__layout_read("share", given ? given : &plain, TIDE_LAYOUT(struct tide_share_options, clip), &own,
                                 sizeof own);
    if (code < 0) {
        return code;
    }
    if (!store->net) {
        return tide_fail(TIDE_EUNREACHABLE, "there is no cluster to share keys in");
    }
    uint32_t *nodes = tide_alloc((options->node_count + 1) * sizeof *nodes);
    if (!nodes) {
        return tide_fail(TIDE_ENOMEM, "no memory to manage keys of table '%s'", table->name);
    }
    for (size_t i = 0; i < options->node_count; i++) {
        nodes[i] = options->nodes[i];
    }
    struct order o = {.table = table,
                      .technique = technique,
                      .share = {.hz = options->rate ? options->rate : TIDE__SHARE_HZ,
                                .threshold = options->threshold,
                                .clip = options->clip},
                      .nodes = (const uint8_t *)nodes,
                      .node_count = options->node_count};
    for (size_t at = 0; at < key_count && !code; at += o.key_count) {
        struct tide_reply *reply = NULL;
        o.keys = (const uint8_t *)(keys + at);
        o.key_count = key_count - at < TIDE__MANAGE_KEYS_MAX ? key_count - at : TIDE__MANAGE_KEYS_MAX;
        const union tide__message m = order_message(&o);
        code = tide__store_call(tide_net_controller(store->net), TIDE__OP_MANAGE, &m,
                                tide_limit(store_operation_timeout), &reply);
        tide_reply_free(reply);
    }
    tide_free(nodes);
    return code;
}

/* ---- looks ---- */

uint8_t tide_table_technique(struct tide_table *table, uint64_t key, bool *copy) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    uint8_t technique = table->options.technique;
    *copy = false;
    if (s && tide__hot_lock(s, key, false, true, &word, &old, &k) == TIDE__FOUND) {
        technique = k->technique ? k->technique - 1 : technique;
        *copy = k->state == TIDE__COPY_HELD;
        tide__word_unlock(word, old);
    }
    return technique;
}

void tide_table_share_stats(struct tide_table *table, struct tide_share_stats *out) {
    struct tide__hot_table *s = tide__hot_of(table);
    memset(out, 0, sizeof *out);
    if (!s) {
        return;
    }
    for (unsigned i = 0; i < TIDE__STRIPES; i++) {
        out->hits += atomic_load_explicit(&s->stripes[i].hits, memory_order_relaxed);
    }
    out->keys = tide__slab_used(&s->index->slab);
    out->copies = atomic_load_explicit(&s->held, memory_order_relaxed);
    out->refused = atomic_load_explicit(&s->refused, memory_order_relaxed);
    out->updates_out = atomic_load_explicit(&s->updates_out, memory_order_relaxed);
    out->rows_in = atomic_load_explicit(&s->rows_in, memory_order_relaxed);
    out->notices_out = atomic_load_explicit(&s->notices_out, memory_order_relaxed);
    out->updates_failed = atomic_load_explicit(&s->updates_failed, memory_order_relaxed);
    out->clipped = atomic_load_explicit(&s->clipped, memory_order_relaxed);
    tide__ages_read(&s->updates, &out->unsent);
    tide__ages_read(&s->rows, &out->behind);
}
