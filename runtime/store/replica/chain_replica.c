/*
 * The copies' side: pushes that come down a chain, and slots that come whole to a node that begins
 * to hold a copy.
 *
 * A copy takes a push if it has the slot, if the sender's version of the group is at least the
 * highest one that came so far, and if it is not home of the slot by a newer one: what a home sends
 * that others abandoned is not applied anywhere. Numbers count the pushes of a slot: the next one is
 * applied, an earlier one is here already, a gap cannot be. What is refused is neither passed on
 * nor acknowledged.
 *
 * A new copy is appended at the end of the chain: JOIN goes down the chain behind all pushes so
 * far, and the last one then sends the slot's rows in front of it. So the new node's pushes
 * come from the same node as its rows, in order.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/rows/rules.h"
#include "store/rows/cut.h"
#include "store/slots/move.h"
#include "store/replica/replica.h"

enum { FIRST_PART = 1, LAST_PART = 2 };
enum { HEAD_BYTES = 4096 }; /* of a message of some hundred keys, its rows apart */

/* ---- on ---- */

int tide__repl_send(struct tide_table *table, const struct tide__repl_message *m) {
    const uint16_t to = tide__chain_at(m->chain, 0);
    const uint64_t rest = m->chain >> 16;
    for (uint32_t i = 0; m->kind == TIDE__REPL_JOIN && rest == 0 && i < m->count; i++) {
        const uint32_t slot = (uint32_t)tide__long_at(m->keys, i);
        int code = tide__snapshot_send(table, slot, to);
        if (code) {
            tide__replica_fail(table, slot, to);
            return code;
        }
    }
    struct tide_writer w;
    uint8_t buffer[HEAD_BYTES];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, m->kind == TIDE__REPL_ROWS ? 15 : 13);
    tide_write_uint(&w, TIDE__OP_REPL);
    tide_write_uint(&w, table->id);
    tide_write_uint(&w, m->token);
    tide_write_uint(&w, m->home);
    tide_write_uint(&w, m->kind);
    tide_write_uint(&w, rest);
    tide_write_uint(&w, m->origin);
    tide_write_uint(&w, m->sequence);
    tide_write_uint(&w, m->low);
    tide_write_typed(&w, TIDE_U64, m->keys, m->count);
    tide_write_typed(&w, TIDE_U64, m->numbers, m->count);
    tide_write_typed(&w, TIDE_U32, m->versions, m->count);
    if (m->kind == TIDE__REPL_ROWS) {
        tide_write_typed(&w, TIDE_U64, m->ids, (size_t)m->id_count * TIDE__ID_FIELDS);
        tide_write_typed(&w, TIDE_U64, m->lows, 2 * (size_t)m->low_count);
    }
    const size_t bytes = m->count * m->row_bytes;
    if (m->blob) {
        tide_write_binary_head(&w, bytes);
    } else if (m->rows) {
        tide_write_binary(&w, m->rows, bytes);
    } else {
        tide_write_nil(&w);
    }
    tide__table_count(table, TIDE__BYTES_OUT, w.size + (m->blob ? bytes : 0));
    int code = w.error ? w.error : tide__store_send(table->store, to, TIDE_LANE_STORE, true, w.data, w.size, m->blob);
    tide_writer_release(&w);
    return code;
}

static void acknowledge(struct tide_store *store, const struct tide__repl_message *m) {
    struct tide_writer w;
    uint8_t buffer[32];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__message_write(&w, TIDE__AS(ACKR, .token = m->token));
    (void)tide__store_send(store, m->home, TIDE_LANE_ANSWER, true, w.data, w.size, NULL);
    tide_writer_release(&w);
}

/* ---- pushes ---- */

static size_t wire_row(const struct tide_table *table, bool raw) {
    return raw ? table->row_floats * sizeof(float) : table->width * (table->options.wire == TIDE_WIRE_F32 ? 4u : 2u);
}

/* [ids, lows] of rows. */
static bool read_ids(struct tide_reader *r, struct tide__repl_message *m) {
    size_t ids = 0, lows = 0;
    m->ids = tide_read_typed(r, TIDE_U64, &ids);
    m->lows = tide_read_typed(r, TIDE_U64, &lows);
    bool good = !r->error && ids % TIDE__ID_FIELDS == 0 && lows % 2 == 0 && ids < UINT32_MAX && lows < UINT32_MAX;
    m->id_count = good ? (uint32_t)(ids / TIDE__ID_FIELDS) : 0;
    m->low_count = good ? (uint32_t)(lows / 2) : 0;
    for (uint32_t i = 0; i < m->id_count && good; i++) {
        good = tide__long_at(m->ids, TIDE__ID_FIELDS * (size_t)i) < TIDE_SLOT_COUNT &&
               tide__long_at(m->ids, TIDE__ID_FIELDS * (size_t)i + 1) < TIDE__NODES;
    }
    for (uint32_t i = 0; i < m->low_count && good; i++) {
        good = tide__long_at(m->lows, 2 * (size_t)i) < TIDE__NODES;
    }
    return good;
}

/* [token, home, kind, rest, origin, sequence, low, keys, numbers, versions, rows|nil]; of ROWS: ids
 * and lows before the rows */
static struct tide_table *read_repl(struct tide_store *store, struct tide__incoming *in, struct tide__repl_message *m) {
    struct tide_reader *r = &in->body;
    size_t keys = 0, numbers = 0, versions = 0, bytes = 0;
    struct tide_table *table = tide__incoming_table(store, in, tide_read_uint(&in->body));
    m->token = tide_read_uint(r);
    uint64_t home = tide_read_uint(r), kind = tide_read_uint(r);
    m->chain = tide_read_uint(r);
    uint64_t origin = tide_read_uint(r);
    m->sequence = tide_read_uint(r);
    m->low = tide_read_uint(r);
    m->keys = tide_read_typed(r, TIDE_U64, &keys);
    m->numbers = tide_read_typed(r, TIDE_U64, &numbers);
    m->versions = tide_read_typed(r, TIDE_U32, &versions);
    if (kind == TIDE__REPL_ROWS && !read_ids(r, m)) {
        return NULL;
    }
    m->rows = tide_read_nil(r) ? NULL : tide_read_binary(r, &bytes);
    if (r->error || !table || !tide__replicas_of(table) || keys == 0 || keys > UINT32_MAX / 2 || numbers != keys ||
        versions != keys || kind > TIDE__REPL_JOIN || home >= TIDE__NODES || origin >= TIDE__NODES) {
        return NULL;
    }
    m->home = (uint16_t)home;
    m->origin = (uint16_t)origin;
    m->kind = (uint8_t)kind;
    m->count = (uint32_t)keys;
    const bool has_rows = kind < TIDE__REPL_BARRIER;
    m->row_bytes = has_rows ? wire_row(table, kind != TIDE__REPL_PUSH) : 0;
    if (has_rows != (m->rows != NULL) || bytes != keys * m->row_bytes) {
        return NULL;
    }
    for (size_t i = 0; i < keys; i++) {
        uint64_t key = tide__long_at(m->keys, i);
        bool inside = kind >= TIDE__REPL_BARRIER                ? key < TIDE_SLOT_COUNT
                      : table->options.keys == TIDE_KEYS_HASHED ? true
                                                                : key < table->options.key_count;
        if (!inside) {
            return NULL;
        }
    }
    return table;
}

/* The j-th of `rows`. */
static int row_apply(struct tide_table *table, const struct tide__rows *rows, size_t j, bool raw,
                     const uint8_t *delta) {
    atomic_uint_fast64_t *word;
    uint64_t old;
    int code = tide__rows_lock(table, rows, j, true, &word, &old);
    if (code != TIDE__FOUND) {
        return code;
    }
    const bool made = tide__word_state(old) != TIDE__OWNED;
    if (made) {
        uint32_t number;
        code = tide__slab_take(&table->slab, &number);
        if (code) {
            tide__word_unlock(word, old);
            return code;
        }
        tide__row_init(&table->options, rows->keys[j], tide__slab_row(&table->slab, number), true);
        old = tide__word_owned(old, number);
    }
    float *row = tide__slab_row(&table->slab, (uint32_t)old);
    if (raw) {
        memcpy(row, delta, table->row_floats * sizeof *row);
    } else {
        tide__rule_apply(&table->options, row, delta);
    }
    tide__word_unlock(word, tide__cut_copy(table, old, made));
    return 0;
}

/* May this node's copy of the slot follow the sender? */
static bool is_current(const struct tide_table *table, uint32_t slot, uint32_t version) {
    const struct tide__replicas *replicas = tide__replicas_of(table);
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    if (TIDE_MUTANT(no_fence)) {
        return true;
    }
    return version >= replicas->slots[slot].fence && !((route & TIDE__MINE) && table->slot_versions[slot] >= version);
}

enum verdict { REFUSED, HERE, NEXT };

static enum verdict judge(struct tide_table *table, const struct tide__repl_message *m, uint32_t i, uint32_t slot) {
    struct tide__copied_slot *s = &tide__replicas_of(table)->slots[slot];
    const uint64_t number = tide__long_at(m->numbers, i);
    const uint32_t version = tide__number_at(m->versions, i);
    if (!is_current(table, slot, version) || !s->held) {
        return REFUSED;
    }
    s->fence = version > s->fence ? version : s->fence;
    if (number <= s->number) {
        return HERE;
    }
    if (m->kind < TIDE__REPL_BARRIER && number == s->number + 1) {
        return NEXT;
    }
    tide__table_count(table, TIDE__SURPRISES, 1);
    (void)tide_fail(TIDE_EPROTO, "push %llu came after %llu", (unsigned long long)number,
                    (unsigned long long)s->number);
    tide__replica_fail(table, slot, tide__store_self(table->store));
    return REFUSED;
}

/* The ids of what has changed rows that are applied now (NEXT). */
static void take_ids(struct tide_table *table, const struct tide__repl_message *m) {
    const struct tide__replicas *replicas = tide__replicas_of(table);
    for (uint32_t i = 0; i < m->low_count; i++) {
        tide__dedup_low(table->store, (uint16_t)tide__long_at(m->lows, 2 * (size_t)i),
                        tide__long_at(m->lows, 2 * (size_t)i + 1));
    }
    for (uint32_t i = 0; i < m->id_count; i++) {
        const uint32_t slot = (uint32_t)tide__long_at(m->ids, TIDE__ID_FIELDS * (size_t)i);
        const struct tide__copied_slot *s = &replicas->slots[slot];
        if (s->mark != replicas->mark_now || s->marked != NEXT) {
            continue;
        }
        const uint16_t origin = (uint16_t)tide__long_at(m->ids, TIDE__ID_FIELDS * (size_t)i + 1);
        if (tide__dedup_reserve(table, origin, 1, 1) == 0) {
            tide__dedup_add(table, slot, origin, tide__long_at(m->ids, TIDE__ID_FIELDS * (size_t)i + 2));
        } else {
            tide__replica_fail(table, slot, tide__store_self(table->store));
        }
    }
}

/* The j-th of `rows`, which is the i-th of the message. False: it is refused. */
static bool apply_one(struct tide_table *table, const struct tide__repl_message *m, uint32_t i,
                      const struct tide__rows *rows, size_t j, const uint8_t *delta) {
    const uint32_t slot = rows->slots[j];
    struct tide__copied_slot *s = &tide__replicas_of(table)->slots[slot];
    if (tide__replicas_first(tide__replicas_of(table), slot)) { /* the slot's part goes together */
        s->marked = (uint8_t)judge(table, m, i, slot);
        if (s->marked == NEXT) {
            s->number++;
            if (m->kind != TIDE__REPL_ROWS) {
                tide__dedup_add(table, slot, m->origin, m->sequence);
            }
        }
    }
    if (s->marked == NEXT && row_apply(table, rows, j, m->kind != TIDE__REPL_PUSH, delta) < 0) {
        tide__replica_fail(table, slot, tide__store_self(table->store));
        s->marked = REFUSED;
    }
    return s->marked != REFUSED;
}

/* Applies what is new: rows of floats at `deltas`, unaligned. `taken`: indices of what was not
 * refused. */
static uint32_t apply(struct tide_table *table, const struct tide__repl_message *m, const uint8_t *deltas,
                      uint32_t *taken) {
    const size_t bytes = (m->kind == TIDE__REPL_PUSH ? table->width : table->row_floats) * sizeof(float);
    struct tide__rows rows;
    uint32_t count = 0;
    tide__replicas_mark(tide__replicas_of(table));
    for (uint32_t i = 0; i < m->count; i += (uint32_t)rows.count) {
        tide__rows_ahead(table, m->keys + i * sizeof(uint64_t), NULL, m->count - i, false, &rows);
        for (uint32_t j = 0; j < rows.count; j++) {
            if (apply_one(table, m, i + j, &rows, j, deltas + (i + j) * bytes)) {
                taken[count++] = i + j;
            }
        }
    }
    if (m->kind == TIDE__REPL_ROWS) {
        take_ids(table, m);
    }
    return count;
}

/* Barriers and joiners: which of its slots follow the sender. */
static uint32_t look(struct tide_table *table, const struct tide__repl_message *m, uint32_t *taken) {
    struct tide__replicas *replicas = tide__replicas_of(table);
    uint32_t count = 0;
    tide__replicas_mark(replicas);
    for (uint32_t i = 0; i < m->count; i++) {
        const uint32_t slot = (uint32_t)tide__long_at(m->keys, i);
        if (tide__replicas_first(replicas, slot)) {
            replicas->slots[slot].marked = (uint8_t)judge(table, m, i, slot);
        }
        if (replicas->slots[slot].marked != REFUSED) {
            taken[count++] = i;
        }
    }
    return count;
}

/* What was not refused, on its own: without an acknowledgement. */
static int pass_part(struct tide_table *table, const struct tide__repl_message *m, const uint32_t *taken,
                     uint32_t count) {
    const size_t entry = 8 + 8 + 4 + m->row_bytes;
    uint8_t *memory = tide_alloc(count * entry + 1);
    if (!memory) {
        return TIDE_ENOMEM;
    }
    uint8_t *keys = memory, *numbers = keys + 8 * (size_t)count, *versions = numbers + 8 * (size_t)count,
            *rows = versions + 4 * (size_t)count;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(keys + i * 8, m->keys + (size_t)taken[i] * 8, 8);
        memcpy(numbers + i * 8, m->numbers + (size_t)taken[i] * 8, 8);
        memcpy(versions + i * 4, m->versions + (size_t)taken[i] * 4, 4);
        memcpy(rows + i * m->row_bytes, m->rows ? m->rows + taken[i] * m->row_bytes : rows, m->row_bytes);
    }
    struct tide__repl_message part = *m;
    part.token = 0;
    part.count = count;
    part.keys = keys;
    part.numbers = numbers;
    part.versions = versions;
    part.rows = m->rows ? rows : NULL;
    int code = tide__repl_send(table, &part);
    tide_free(memory);
    return code;
}

/* Short values of the wire as floats; *gives*. */
static float *widened(const struct tide_table *table, const struct tide__repl_message *m) {
    const size_t floats = m->count * (size_t)table->width;
    float *deltas = tide_alloc(floats * sizeof *deltas + 1);
    if (deltas) {
        tide__half_to_floats(m->rows, deltas, floats, table->options.wire);
    }
    return deltas;
}

int tide__replica_repl(struct tide_store *store, struct tide__incoming *in) {
    struct tide__repl_message m = {0};
    struct tide_table *table = read_repl(store, in, &m);
    if (!table) {
        return TIDE_EPROTO;
    }
    const bool is_short = m.kind == TIDE__REPL_PUSH && table->options.wire != TIDE_WIRE_F32;
    float *deltas = is_short ? widened(table, &m) : NULL;
    uint32_t *taken = tide_alloc(m.count * sizeof *taken);
    const bool has_id = m.kind < TIDE__REPL_ROWS;
    if (taken && (deltas || !is_short) && (!has_id || tide__dedup_reserve(table, m.origin, 1, m.count) == 0)) {
        tide__dedup_low(store, m.origin, m.low);
        const uint32_t count = m.kind >= TIDE__REPL_BARRIER
                                   ? look(table, &m, taken)
                                   : apply(table, &m, deltas ? (const uint8_t *)deltas : m.rows, taken);
        if (tide__chain_at(m.chain, 0) && count == m.count) {
            (void)tide__repl_send(table, &m);
        } else if (tide__chain_at(m.chain, 0) && count) {
            (void)pass_part(table, &m, taken, count);
        } else if (count == m.count && m.token) {
            acknowledge(store, &m);
        }
    } else {
        tide_log(TIDE_LOG_ERROR, tide_node_name(store->node), "no memory for copies of table '%s'", table->name);
    }
    tide_free(taken);
    tide_free(deltas);
    return 0;
}

/* ---- whole slots ---- */

struct parts {
    struct tide_table *table;
    uint32_t slot;
    uint16_t to;
    bool first;
    uint64_t *keys;
    float *rows;
    size_t count, capacity;
};

static int part_send(struct parts *p, bool last) {
    struct tide_table *table = p->table;
    struct tide_writer w;
    const struct tide__copied_slot *s = &tide__replicas_of(table)->slots[p->slot];
    size_t ids;
    uint64_t *pairs = tide__dedup_list(table, p->slot, &ids);
    tide_writer_init(&w, NULL, 0);
    tide__message_write(
        &w, TIDE__AS(SNAP, .table = table->id, .slot = p->slot,
                     .version = table->slot_versions[p->slot] > s->fence ? table->slot_versions[p->slot] : s->fence,
                     .part = (p->first ? FIRST_PART : 0u) | (last ? LAST_PART : 0u), .number = s->number,
                     .keys = TIDE__LIST(p->keys, p->count), .rows = TIDE__LIST(p->rows, p->count * table->row_floats),
                     .ids = TIDE__LIST(pairs, pairs ? 2 * ids : 0),
                     .lows = TIDE__LIST(pairs ? pairs + 2 * ids : NULL, pairs ? 2 * ids : 0)));
    w.error = pairs ? w.error : TIDE_ENOMEM;
    tide_free(pairs);
    p->first = false;
    p->count = 0;
    tide__table_count(table, TIDE__BYTES_OUT, w.size);
    return tide__store_send_writer(table->store, p->to, &w);
}

/* Rows of a part: so many bytes, and no more than the slot has. */
static size_t part_capacity(struct tide_table *table, uint32_t slot) {
    const size_t rows = tide_limit(store_replica_part_bytes) / (table->row_floats * sizeof(float));
    const uint64_t held = tide__slot_places(table, slot);
    return 1 + (held < rows ? (size_t)held : rows);
}

int tide__snapshot_send(struct tide_table *table, uint32_t slot, uint16_t to) {
    const size_t row_bytes = table->row_floats * sizeof(float);
    struct parts p = {.table = table, .slot = slot, .to = to, .first = true, .capacity = part_capacity(table, slot)};
    p.keys = tide_alloc(p.capacity * sizeof *p.keys);
    p.rows = tide_alloc(p.capacity * row_bytes);
    uint64_t *found = tide_alloc(p.capacity * sizeof *found), from = 0;
    bool more = true;
    int code = p.keys && p.rows && found ? 0 : TIDE_ENOMEM;
    while (more && !code) {
        size_t count = 0;
        code = tide__slot_keys(table, slot, from, found, p.capacity, &count, &more);
        for (size_t i = 0; i < count && !code; i++) {
            atomic_uint_fast64_t *word;
            uint64_t old;
            if (tide__row_lock(table, slot, found[i], false, &word, &old) != TIDE__FOUND) {
                continue;
            }
            if (tide__word_state(old) == TIDE__OWNED) {
                p.keys[p.count] = found[i];
                memcpy((char *)p.rows + p.count++ * row_bytes, tide__slab_row(&table->slab, (uint32_t)old), row_bytes);
            }
            tide__word_unlock(word, old);
        }
        from = count ? found[count - 1] + 1 : from;
        code = code ? code : part_send(&p, !more);
    }
    tide_free(found);
    tide_free(p.keys);
    tide_free(p.rows);
    return code;
}

static int let_go(void *arg, uint64_t key, uint64_t word, const float *row) {
    (void)arg, (void)key, (void)word, (void)row;
    return 0;
}

void tide__replica_drop(struct tide_table *table, uint32_t slot) {
    (void)tide__slot_drain(table, slot, let_go, NULL); /* another node has the rows */
    tide__dedup_drop(table, slot);
    tide__replicas_of(table)->slots[slot].held = false;
    tide__replicas_of(table)->slots[slot].number = 0;
}

void tide__replica_fail(struct tide_table *table, uint32_t slot, uint16_t node) {
    struct tide_store *store = table->store;
    const uint16_t self = tide__store_self(store);
    tide_log(TIDE_LOG_ERROR, tide_node_name(store->node),
             "the copy of slot %u of table '%s' on node %u is given up: %s", (unsigned)slot, table->name,
             (unsigned)node, tide_error_message());
    if (node == self) { /* nothing comes here any more that would drop the rows later */
        tide__replica_drop(table, slot);
        tide__replicas_of(table)->slots[slot].arriving = false;
    }
    tide__move_send(store, tide_net_controller(store->net), TIDE__OP_COPY_FAILED, table->id, table->slot_versions[slot],
                    node, &slot, 1, NULL, 0);
}

int tide__replica_snapshot(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SNAP) *m = &in->as.SNAP;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    const uint32_t slot = m->slot, version = m->version;
    const uint8_t *keys = m->keys.at, *rows = m->rows.at;
    const size_t count = m->keys.count;
    bool good = table && tide__replicas_of(table) && slot < TIDE_SLOT_COUNT && m->rows.count % table->row_floats == 0 &&
                m->rows.count / table->row_floats == count;
    for (size_t i = 0; i < count && good; i++) {
        uint64_t key = tide__long_at(keys, i);
        good = (table->options.keys == TIDE_KEYS_HASHED || key < table->options.key_count) &&
               tide__slot_of(table, key) == slot;
    }
    if (!good) {
        return TIDE_EPROTO;
    }
    struct tide__replicas *replicas = tide__replicas_of(table);
    if (!is_current(table, slot, version) || version < table->slot_versions[slot]) {
        return 0;
    }
    if (m->part & FIRST_PART) {
        tide__replica_drop(table, slot);
        replicas->slots[slot].arriving = true;
    }
    int code = 0;
    struct tide__rows ahead;
    for (size_t i = 0; i < count && !code && replicas->slots[slot].arriving; i += ahead.count) {
        tide__rows_ahead(table, keys + i * sizeof(uint64_t), NULL, count - i, false, &ahead);
        for (size_t j = 0; j < ahead.count && !code; j++) {
            code = row_apply(table, &ahead, j, true, rows + (i + j) * table->row_floats * sizeof(float));
        }
    }
    code = code < 0 ? code : tide__dedup_take(table, slot, &m->ids, &m->lows);
    replicas->slots[slot].fence = version;
    replicas->slots[slot].number = m->number;
    if (code < 0) {
        tide__replica_fail(table, slot, tide__store_self(store));
    } else if ((m->part & LAST_PART) && replicas->slots[slot].arriving) {
        replicas->slots[slot].arriving = false;
        replicas->slots[slot].held = true;
    }
    return 0;
}
