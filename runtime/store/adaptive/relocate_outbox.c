/* Messages about keys that change their owner, gathered per destination; trails. See owner.h. */
#include "store/core/send.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/zero_copy.h"
#include "store/adaptive/owner.h"

enum { KEYS_MAX = 1 << 17 };

static void message_free(struct tide__outbox_message *p) {
    tide_free(p->keys);
    tide_blob_unref(p->rows);
    tide_free(p);
}

static struct tide__outbox_message *message_make(struct tide_table *table, int op, uint16_t to, uint16_t about,
                                                 bool lent) {
    size_t hint = tide__owners_of(table)->outbox.hint < 16 ? 16 : tide__owners_of(table)->outbox.hint;
    hint = hint < KEYS_MAX ? hint : KEYS_MAX;
    struct tide__outbox_message *p = tide_alloc_zero(1, sizeof *p);
    uint64_t *keys = p ? tide_alloc(hint * (sizeof *keys + sizeof(uint32_t))) : NULL;
    if (!keys) {
        tide_free(p);
        return NULL;
    }
    p->op = (uint8_t)op;
    p->to = to;
    p->about = about;
    p->lent = lent;
    p->keys = keys;
    p->terms = (uint32_t *)(void *)(keys + hint);
    p->capacity = hint;
    p->next = tide__owners_of(table)->outbox.first;
    tide__owners_of(table)->outbox.first = p;
    return p;
}

/* As a job of kind LOC or OFFER. */
static void write_wish(struct tide_table *table, const struct tide__outbox_message *p, struct tide_writer *w) {
    tide_write_array(w, tide__job_fields(table, p->op));
    tide_write_uint(w, p->op);
    tide_write_uint(w, table->id);
    tide_write_uint(w, 0);
    tide_write_uint(w, atomic_load_explicit(&table->map_version, memory_order_relaxed));
    tide_write_uint(w, tide__store_self(table->store));
    tide_write_uint(w, 0);
    tide_write_uint(w, p->about);
    if (tide__job_has_terms(table, p->op)) {
        tide_write_typed(w, TIDE_U32, p->terms, p->count);
    }
    tide_write_nil(w);
    tide_write_typed(w, TIDE_U64, p->keys, p->count);
}

static void write_keys(const struct tide_table *table, const struct tide__outbox_message *p, struct tide_writer *w) {
    const struct tide__array keys = TIDE__LIST(p->keys, p->count), terms = TIDE__LIST(p->terms, p->count);
    if (p->op == TIDE__OP_INTENT) {
        tide__message_write(
            w, TIDE__AS(INTENT, .table = table->id, .origin = tide__store_self(table->store), .keys = keys));
    } else if (p->op == TIDE__OP_XFER) {
        tide__message_write(w, TIDE__AS(XFER, .table = table->id, .keys = keys, .terms = terms,
                                        .rows = TIDE__LIST_HEAD_OF(p->row_count * table->row_floats)));
    } else { /* LOST, FAILED and STAY have the fields of HAND */
        const union tide__message m = {.HAND = {.table = table->id, .node = p->about, .keys = keys, .terms = terms}};
        tide__message_write(w, (enum tide__op)p->op, &m);
    }
}

static void message_send(struct tide_table *table, struct tide__outbox_message *p) {
    struct tide_store *store = table->store;
    struct tide_writer w;
    uint8_t buffer[512];
    tide_writer_init(&w, buffer, sizeof buffer);
    if (p->op == TIDE__OP_LOC || p->op == TIDE__OP_OFFER) {
        write_wish(table, p, &w);
    } else {
        write_keys(table, p, &w);
        if (p->rows && !p->lent) {
            p->rows->size = p->row_count * table->row_floats * sizeof(float);
        }
    }
    const bool hands = p->op == TIDE__OP_HAND || p->op == TIDE__OP_XFER;
    const enum tide_lane lane = hands && TIDE_MUTANT(reloc_hand_overtakes) ? TIDE_LANE_CONTROL : TIDE_LANE_STORE;
    int code = w.error   ? w.error
               : p->lent ? tide__store_send_scattered(store, p->to, w.data, w.size, p->rows)
                         : tide__store_send(store, p->to, lane, true, w.data, w.size, p->rows);
    if (code) { /* to a node that is gone: its waiters and its rows are gone with it */
        tide_log(TIDE_LOG_DEBUG, tide_node_name(store->node), "%zu keys of table '%s' were not moved: %s", p->count,
                 table->name, tide_error_message());
    }
    tide__table_count(table, TIDE__MESSAGES_OUT, 1);
    tide__table_count(table, TIDE__BYTES_OUT, w.size + (p->rows ? p->rows->size : 0));
    tide_writer_release(&w);
}

void tide__outbox_send(struct tide_table *table) {
    while (tide__owners_of(table)->outbox.first) {
        struct tide__outbox_message *p = tide__owners_of(table)->outbox.first;
        tide__owners_of(table)->outbox.first = p->next;
        message_send(table, p);
        message_free(p);
    }
}

static struct tide__outbox_message *find(struct tide_table *table, int op, uint16_t to, uint16_t about, bool lent) {
    for (struct tide__outbox_message *p = tide__owners_of(table)->outbox.first; p; p = p->next) {
        if (p->op == op && p->to == to && p->about == about && p->lent == lent) {
            return p;
        }
    }
    return message_make(table, op, to, about, lent);
}

static bool grow(struct tide__outbox_message *p) {
    size_t capacity = p->capacity * 2;
    uint64_t *keys = tide_alloc(capacity * (sizeof *keys + sizeof(uint32_t)));
    if (keys) {
        uint32_t *terms = (uint32_t *)(void *)(keys + capacity);
        memcpy(keys, p->keys, p->count * sizeof *keys);
        memcpy(terms, p->terms, p->count * sizeof *terms);
        tide_free(p->keys);
        p->keys = keys;
        p->terms = terms;
        p->capacity = capacity;
    }
    return keys;
}

static bool add_row(struct tide_table *table, struct tide__outbox_message *p, const float *row) {
    const size_t bytes = table->row_floats * sizeof *row;
    if (!p->rows) {
        size_t most = tide_limit(store_relocation_bytes) / bytes + 1, hint = tide__owners_of(table)->outbox.hint;
        p->row_capacity = hint == 0 ? 16 : hint < most ? hint : most;
        p->rows = tide_blob_create((p->row_capacity + 1) * bytes); /* a last second version fits */
    }
    if (p->rows) {
        memcpy((char *)p->rows->data + p->row_count++ * bytes, row, bytes);
    }
    return p->rows;
}

/* It goes now: order between outbox of one message does not matter. The next one of its kind, or NULL. */
static struct tide__outbox_message *send_full(struct tide_table *table, struct tide__outbox_message *full) {
    const struct tide__outbox_message was = *full;
    struct tide__outbox_message **at = &tide__owners_of(table)->outbox.first;
    while (*at != full) {
        at = &(*at)->next;
    }
    *at = full->next;
    message_send(table, full);
    message_free(full);
    return message_make(table, was.op, was.to, was.about, was.lent);
}

static void not_moved(const struct tide_table *table, uint64_t key) {
    tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node), "no memory to move key %llu of table '%s'",
             (unsigned long long)key, table->name);
}

void tide__outbox_add(struct tide_table *table, int op, uint16_t to, uint16_t about, uint64_t key, uint32_t term,
                      const float *row, const float *second) {
    struct tide__outbox_message *p = find(table, op, to, about, false);
    if (p && (p->count == KEYS_MAX || (row && p->rows && p->row_count >= p->row_capacity))) {
        p = send_full(table, p);
    }
    if (!p || (p->count == p->capacity && !grow(p)) || (row && !add_row(table, p, row)) ||
        (second && !add_row(table, p, second))) {
        not_moved(table, key);
        return;
    }
    p->keys[p->count] = key;
    p->terms[p->count++] = term;
}

void tide__outbox_zero_copy(struct tide_table *table, uint16_t to, uint64_t key, uint32_t term, uint32_t row) {
    struct tide__outbox_message *p = find(table, TIDE__OP_XFER, to, 0, true);
    if (p && p->row_count >= tide__owners_of(table)->outbox.zero_copy_rows) {
        p = send_full(table, p);
    }
    if (p && !p->rows) {
        p->rows = tide__zero_copy_create(tide__owners_of(table)->outbox.zero_copy_source);
    }
    if (!p || (p->count == p->capacity && !grow(p)) || !p->rows) {
        not_moved(table, key);
        tide__hand_give(&table->slab, row);
        return;
    }
    tide__zero_copy_add(p->rows, row);
    p->row_count++;
    p->keys[p->count] = key;
    p->terms[p->count++] = term;
}

void tide__outbox_free(struct tide_table *table) {
    while (tide__owners_of(table)->outbox.first) {
        struct tide__outbox_message *p = tide__owners_of(table)->outbox.first;
        tide__owners_of(table)->outbox.first = p->next;
        message_free(p);
    }
}

/* ---- trails: open addressing, linear probing, deletion by moving back ---- */

static size_t place_of(const struct tide__trails *t, uint64_t key) {
    size_t i = (size_t)tide_mix64(key) & (t->capacity - 1);
    while (t->places[i].count && t->places[i].key != key) {
        i = (i + 1) & (t->capacity - 1);
    }
    return i;
}

static bool trails_grow(struct tide__trails *t) {
    struct tide__trails bigger = {.capacity = t->capacity ? t->capacity * 2 : 64, .count = t->count};
    bigger.places = tide_alloc_zero(bigger.capacity, sizeof *bigger.places);
    if (!bigger.places) {
        return false;
    }
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->places[i].count) {
            bigger.places[place_of(&bigger, t->places[i].key)] = t->places[i];
        }
    }
    tide_free(t->places);
    *t = bigger;
    return true;
}

static bool trail_grow(struct tide__trail *trail) {
    uint16_t capacity = trail->capacity ? (uint16_t)(2 * trail->capacity) : 4 * TIDE__TRAIL_FEW;
    uint16_t *many = trail->count < UINT16_MAX / 4 ? tide_alloc(capacity * sizeof *many) : NULL;
    if (!many) {
        return false;
    }
    memcpy(many, tide__trail_nodes(trail), trail->count * sizeof *many);
    if (trail->capacity) {
        tide_free(trail->nodes.many);
    }
    trail->nodes.many = many;
    trail->capacity = capacity;
    return true;
}

/* The first `count` nodes go. */
static void forget(struct tide__trail *trail, uint16_t count) {
    uint16_t *nodes = trail->capacity ? trail->nodes.many : trail->nodes.few;
    trail->count = (uint16_t)(trail->count - count);
    memmove(nodes, nodes + count, trail->count * sizeof *nodes);
}

/* The place of the newest entry of `node`, or UINT16_MAX. */
static uint16_t find_node(const struct tide__trail *trail, uint16_t node) {
    const uint16_t *nodes = tide__trail_nodes(trail);
    for (uint16_t i = trail->count; i-- > 0;) {
        if (nodes[i] == node) {
            return i;
        }
    }
    return UINT16_MAX;
}

void tide__trail_add(struct tide_table *table, uint64_t key, uint16_t from, uint32_t term, uint16_t to) {
    struct tide__trails *t = &tide__owners_of(table)->trails;
    if ((t->count + 1) * 4 > t->capacity * 3 && !trails_grow(t)) {
        return; /* a death on this way is found out by time-out only */
    }
    struct tide__trail *trail = &t->places[place_of(t, key)];
    t->count += trail->count == 0;
    trail->key = key;
    uint16_t again = find_node(trail, to);
    if (again != UINT16_MAX) { /* a second request: it has had its row */
        forget(trail, again);
    }
    if (trail->count == (trail->capacity ? trail->capacity : TIDE__TRAIL_FEW) && !trail_grow(trail)) {
        forget(trail, 1);
    }
    uint16_t *nodes = trail->capacity ? trail->nodes.many : trail->nodes.few;
    nodes[trail->count++] = from;
    trail->last_term = term;
}

bool tide__trail_awaits(const struct tide_table *table, uint64_t key, uint16_t node, uint32_t seen) {
    const struct tide__trail *trail = tide__trail_of(table, key);
    const uint16_t at = trail ? find_node(trail, node) : UINT16_MAX;
    return at != UINT16_MAX && tide__term_newer(tide__trail_term(trail, at), seen) && !TIDE_MUTANT(wish_granted_twice);
}

void tide__trail_passed(struct tide_table *table, uint64_t key, uint16_t node) {
    struct tide__trails *t = &tide__owners_of(table)->trails;
    struct tide__trail *trail = t->count ? &t->places[place_of(t, key)] : NULL;
    uint16_t at = trail && trail->count ? find_node(trail, node) : UINT16_MAX;
    if (at == UINT16_MAX || at + 1 == trail->count) { /* it is the owner, or gives to the owner */
        tide__trail_end(table, key);
    } else {
        forget(trail, (uint16_t)(at + 1));
    }
}

void tide__trail_cut(struct tide_table *table, uint64_t key, uint16_t count) {
    struct tide__trails *t = &tide__owners_of(table)->trails;
    struct tide__trail *trail = t->capacity ? &t->places[place_of(t, key)] : NULL;
    if (count == 0) {
        tide__trail_end(table, key);
    } else if (trail && trail->count > count) {
        trail->last_term = tide__trail_term(trail, count - 1u);
        trail->count = count;
    }
}

const struct tide__trail *tide__trail_of(const struct tide_table *table, uint64_t key) {
    const struct tide__trails *t = &tide__owners_of(table)->trails;
    const struct tide__trail *trail = t->capacity ? &t->places[place_of(t, key)] : NULL;
    return trail && trail->count ? trail : NULL;
}

void tide__trail_end(struct tide_table *table, uint64_t key) {
    struct tide__trails *t = &tide__owners_of(table)->trails;
    if (t->count == 0) {
        return;
    }
    const size_t mask = t->capacity - 1;
    size_t hole = place_of(t, key);
    if (t->places[hole].count == 0) {
        return;
    }
    t->count--;
    if (t->places[hole].capacity) {
        tide_free(t->places[hole].nodes.many);
    }
    for (size_t i = (hole + 1) & mask; t->places[i].count; i = (i + 1) & mask) {
        size_t wanted = (size_t)tide_mix64(t->places[i].key) & mask;
        if (((i - wanted) & mask) >= ((i - hole) & mask)) {
            t->places[hole] = t->places[i];
            hole = i;
        }
    }
    t->places[hole].count = t->places[hole].capacity = 0;
}

void tide__trails_free(struct tide_table *table) {
    struct tide__trails *t = &tide__owners_of(table)->trails;
    for (size_t i = 0; i < t->capacity; i++) {
        if (t->places[i].count && t->places[i].capacity) {
            tide_free(t->places[i].nodes.many);
        }
    }
    tide_free(t->places);
}
