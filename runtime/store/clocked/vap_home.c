/* The value bound at the homes: which updates every copy holds; see vap.h. I/O thread. */
#include "store/clocked/vap_internal.h"

/* ---- messages ---- */

static void confirm_tell(struct tide__clocked *c, uint16_t to, bool in_line, enum tide__op op,
                         const union tide__message *m) {
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, op, m);
    atomic_fetch_add_explicit(&c->vap->confirm_bytes, w.size, memory_order_relaxed);
    (void)(in_line ? tide__sync_send_in_line(c->sync, to, &w, NULL) : tide__sync_send(c->sync, to, &w));
}

void tide__vap_trace_send(struct tide__clocked *c, uint16_t to, uint16_t origin, uint64_t number, const uint64_t *keys,
                          size_t count) {
    const size_t most = tide_limit(store_clock_chunk_bytes) / sizeof *keys + 1;
    for (size_t at = 0, part; at < count; at += part) {
        part = count - at < most ? count - at : most;
        confirm_tell(c, to, true, /* behind its DELTAs */
                     TIDE__AS(TRACE, .table = c->table->id, .origin = origin, .number = number,
                              .keys = TIDE__LIST(keys + at, part)));
    }
}

static void visible_send(struct tide__clocked *c, uint16_t origin, uint64_t number, const uint64_t *keys,
                         size_t count) {
    confirm_tell(c, origin, false,
                 TIDE__AS(VISIBLE, .table = c->table->id, .number = number, .keys = TIDE__LIST(keys, count)));
}

/* ---- which node has seen what ---- */

static struct tide__seer *seer(struct tide__vap *v, uint16_t node) {
    struct tide__seer *s = v->seers;
    while (s && s->node != node) {
        s = s->next;
    }
    if (!s) {
        s = tide_alloc_vital(sizeof *s); /* forty bytes a node; without it a bound would not hold */
        s->node = node;
        s->next = v->seers;
        v->seers = s;
    }
    return s;
}

void tide__vap_values_sent(struct tide__clocked *c, uint16_t node, uint64_t version) {
    if (c->vap) {
        seer(c->vap, node)->sent = version;
    }
}

void tide__vap_values_came(struct tide__clocked *c, uint16_t from, uint64_t version) {
    if (c->vap) {
        confirm_tell(c, from, false, TIDE__AS(SEEN, .table = c->table->id, .version = version));
    }
}

/* ---- traces ---- */

static bool all_saw(struct tide__clocked *c, const struct tide__trace *t) {
    struct tide__sync *sync = c->sync;
    for (size_t i = 0; i < t->node_count; i++) {
        if (seer(c->vap, t->nodes[i].node)->seen < t->nodes[i].version && !tide__party_lost(sync, t->nodes[i].node)) {
            return false;
        }
    }
    return true;
}

static void traces_look(struct tide__clocked *c) {
    struct tide__vap *v = c->vap;
    v->traces_end = &v->traces;
    while (*v->traces_end) {
        struct tide__trace *t = *v->traces_end;
        if (!all_saw(c, t)) {
            v->traces_end = &t->next;
            continue;
        }
        *v->traces_end = t->next;
        visible_send(c, t->origin, t->number, t->keys, t->key_count);
        tide_free(t);
    }
}

/* Marks the nodes with copies of these rows that have not seen the newest; how many there are. */
static size_t mark(struct tide__clocked *c, uint16_t origin, const uint64_t *keys, size_t count) {
    struct tide__sync *sync = c->sync;
    size_t marked = 0;
    for (size_t k = 0; k < count; k++) {
        const struct tide__watch *watch = tide__watch_find(c, keys[k], false);
        for (uint16_t i = 0; watch && i < watch->count; i++) {
            struct tide__seer *s = seer(c->vap, watch->nodes[i].node);
            if (!s->marked && s->node != origin && s->seen < s->sent && !tide__party_lost(sync, s->node)) {
                s->marked = true;
                marked++;
            }
        }
    }
    return marked;
}

void tide__vap_trace(struct tide__clocked *c, uint16_t origin, uint64_t number, const uint64_t *keys, size_t count) {
    struct tide__vap *v = c->vap;
    if (!v || count == 0) {
        return;
    }
    tide__changed_send(c, TIDE_SLOT_COUNT);
    for (size_t i = 0; i < count && c->forwarded; i++) {
        const uint32_t slot = tide__slot_of(c->table, keys[i]);
        if (c->tick_forwards[slot]) {
            tide__changed_send(c, slot);
        }
    }
    const size_t nodes = mark(c, origin, keys, count);
    if (nodes == 0 || TIDE_MUTANT(vap_visible_early)) {
        for (struct tide__seer *s = v->seers; s; s = s->next) {
            s->marked = false;
        }
        visible_send(c, origin, number, keys, count);
        return;
    }
    /* Smaller than the message; without it the origin would wait for ever. */
    struct tide__trace *t = tide_alloc_vital(sizeof *t + nodes * sizeof t->nodes[0] + count * sizeof *keys);
    *t = (struct tide__trace){.origin = origin, .number = number, .key_count = count};
    for (struct tide__seer *s = v->seers; s; s = s->next) {
        if (s->marked) {
            s->marked = false;
            t->nodes[t->node_count].node = s->node;
            t->nodes[t->node_count++].version = s->sent;
        }
    }
    t->keys = (uint64_t *)(void *)&t->nodes[t->node_count];
    memcpy(t->keys, keys, count * sizeof *keys);
    *v->traces_end = t;
    v->traces_end = &t->next;
}

/* Keys of slots that are not here: held (0) until their rows come, or on to their home. */
static void trace_elsewhere(struct tide__clocked *c, uint16_t from, uint16_t origin, uint64_t number, uint64_t *keys,
                            size_t count) {
    while (count) {
        const uint16_t to = tide__home_of(c, tide__slot_of(c->table, keys[0]));
        uint64_t part[256];
        size_t in_part = 0, kept = 0;
        for (size_t i = 0; i < count; i++) {
            if (in_part < TIDE_COUNT(part) && tide__home_of(c, tide__slot_of(c->table, keys[i])) == to) {
                part[in_part++] = keys[i];
            } else {
                keys[kept++] = keys[i];
            }
        }
        count = kept;
        if (to) {
            tide__vap_trace_send(c, to, origin, number, part, in_part);
            continue;
        }
        tide__hold(c, from,
                   TIDE__AS(TRACE, .table = c->table->id, .origin = origin, .number = number,
                            .keys = TIDE__LIST(part, in_part)));
    }
}

static struct tide__clocked *vap_of(struct tide_store *store, struct tide__incoming *in, uint32_t id) {
    struct tide__clocked *c = tide__clocked_of(store, in, id);
    return c && c->vap ? c : NULL;
}

int tide__trace_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.TRACE) *m = &in->as.TRACE;
    struct tide__clocked *c = vap_of(store, in, m->table);
    const size_t count = m->keys.count;
    size_t here = 0, elsewhere = 0;
    bool good = c && m->origin;
    uint64_t *keys = good ? tide_alloc((2 * count + 1) * sizeof *keys) : NULL;
    uint64_t *others = keys ? keys + count : NULL;
    for (size_t i = 0; keys && i < count; i++) {
        const uint64_t key = tide__long_at(m->keys.at, i);
        if (c->table->options.keys == TIDE_KEYS_DENSE && key >= c->table->options.key_count) {
            good = false;
        } else if (tide__slot_here(c, tide__slot_of(c->table, key))) {
            keys[here++] = key;
        } else {
            others[elsewhere++] = key;
        }
    }
    if (good && keys) {
        tide__vap_trace(c, m->origin, m->number, keys, here);
        trace_elsewhere(c, in->from, m->origin, m->number, others, elsewhere);
    }
    tide_free(keys);
    return good ? 0 : TIDE_EPROTO;
}

int tide__seen_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__clocked *c = vap_of(store, in, in->as.SEEN.table);
    if (!c) {
        return TIDE_EPROTO;
    }
    struct tide__seer *s = seer(c->vap, in->from);
    if (in->as.SEEN.version > s->seen) {
        s->seen = in->as.SEEN.version;
        traces_look(c);
    }
    return 0;
}

int tide__visible_message(struct tide_store *store, struct tide__incoming *in) {
    struct tide__clocked *c = vap_of(store, in, in->as.VISIBLE.table);
    if (!c) {
        return TIDE_EPROTO;
    }
    tide__vap_visible(c, in->as.VISIBLE.number, &in->as.VISIBLE.keys);
    return 0;
}

void tide__vap_member_gone(struct tide__clocked *c, uint16_t node) {
    if (!c->vap) {
        return;
    }
    c->vap->traces_end = &c->vap->traces;
    while (*c->vap->traces_end) {
        struct tide__trace *t = *c->vap->traces_end;
        if (t->origin == node) {
            *c->vap->traces_end = t->next;
            tide_free(t);
        } else {
            c->vap->traces_end = &t->next;
        }
    }
    traces_look(c);
}

void tide__traces_free(struct tide__vap *v) {
    while (v->traces) {
        struct tide__trace *next = v->traces->next;
        tide_free(v->traces);
        v->traces = next;
    }
    while (v->seers) {
        struct tide__seer *next = v->seers->next;
        tide_free(v->seers);
        v->seers = next;
    }
}
