/*
 * Messages that move keys between nodes (HAND, XFER, STAY, LOST), what happens to keys when their slot
 * changes its home, when this node leaves, and when another dies.
 */
#include "store/core/send.h"
#include "store/operation/inbox.h"
#include "store/rows/rules.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/owner.h"
#include "store/adaptive/zero_copy.h"

/* ---- messages ---- */

struct columns {
    const uint8_t *keys, *terms, *rows;
    size_t count;
};

static uint64_t key_in(const struct columns *c, size_t i) {
    return tide__long_at(c->keys, i);
}

static uint32_t term_in(const struct columns *c, size_t i) {
    return tide__number_at(c->terms, i);
}

/* The table of a message about keys. NULL: it is damaged. */
static struct tide_table *columns_open(struct tide_store *store, struct tide__incoming *in, uint32_t id,
                                       const struct tide__array *keys, const struct tide__array *terms,
                                       struct columns *c) {
    struct tide_table *table = tide__incoming_table(store, in, id);
    bool good = table && table->operations->owners && keys->count > 0 && terms->count == keys->count;
    *c = (struct columns){.keys = keys->at, .terms = terms->at, .count = keys->count};
    for (size_t i = 0; good && table->options.keys == TIDE_KEYS_DENSE && i < c->count; i++) {
        good = key_in(c, i) < table->options.key_count;
    }
    if (good) {
        tide__owners_of(table)->outbox.hint = c->count;
    }
    return good ? table : NULL;
}

/* How many rows come with a key: none, one, or with it its second version. */
static size_t rows_of(uint32_t term) {
    return term & TIDE__NO_ROW ? 0 : term & TIDE__MARK_SPLIT ? 2 : 1;
}

static bool rows_open(const struct tide_table *table, const struct tide__array *rows, struct columns *c) {
    size_t wanted = c->count;
    uint32_t marks = 0;
    c->rows = rows->at;
    for (size_t i = 0; i < c->count; i++) {
        marks |= term_in(c, i);
    }
    for (size_t i = 0; rows_of(marks) != 1 && i < c->count; i++) {
        wanted += rows_of(term_in(c, i)) - 1;
    }
    return wanted * table->row_floats == rows->count;
}

static void not_taken(const struct tide_table *table, uint64_t key) {
    TIDE_SOMETIMES(row_not_taken);
    tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
             "the row of key %llu of table '%s' is lost on arrival: %s", (unsigned long long)key, table->name,
             tide_error_message());
}

/* This node waits for an announced row that it did not request, or requests no more. */
static void expect(struct tide_table *table, uint64_t key, uint64_t *word, struct tide__relocation *k) {
    if (tide__await(table, word, k, tide_port_now(table->store->port))) {
        not_taken(table, key);
    } else {
        k->state = TIDE__COMING;
    }
}

static void on_hand(struct tide_table *table, uint16_t from, uint16_t node, const struct columns *c) {
    TIDE_SOMETIMES(owner_hands_a_row_over);
    struct tide__key_block block;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t key, old;
        uint32_t slot;
        atomic_uint_fast64_t *word = tide__block_lock(table, &block, c->keys, i, c->count, &key, &slot, &old);
        if (!word) {
            continue;
        }
        if (tide__word_state(old) == TIDE__COLD && !tide__cold_arrives(table, &old, (uint32_t)old)) {
            not_taken(table, key);
            tide__word_unlock(word, old);
            continue;
        }
        struct tide__relocation k = tide__key_view(table, slot, old);
        struct tide__relocate_event event = {TIDE__EVENT_HAND, node, term_in(c, i) & TIDE__TERM_MASK};
        if (tide__is_unasked(&k, event) && !tide__member_gone(table->store, from)) {
            expect(table, key, &old, &k);
        }
        struct tide__relocate_result r = tide__relocate(&k, event);
        if (r.act == TIDE__GIVE) {
            old = tide__owner_give(table, old, &k, key, r.node, r.term);
        } else if (r.act == TIDE__NOTED) {
            tide__arrival_of(table, old)->next = r.node;
            tide__arrival_of(table, old)->next_by = from;
            tide__arrival_of(table, old)->next_term = r.term;
            if (k.cold) {
                tide__tiered_of(table)->want(table, slot, key, old);
            }
        } else if (r.act == TIDE__SURPRISE) {
            tide__table_count(table, TIDE__SURPRISES, 1);
        }
        tide__word_unlock(word, old);
    }
}

static void on_xfer(struct tide_table *table, uint16_t from, const struct columns *c) {
    const uint64_t now = tide_port_now(table->store->port);
    const size_t row_bytes = table->row_floats * sizeof(float);
    const bool dead = table->store->told_dead[from];
    const uint8_t *row = c->rows;
    struct tide__key_block block;
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t term = term_in(c, i);
        const uint8_t *bytes = term & TIDE__NO_ROW ? NULL : row;
        row += rows_of(term) * row_bytes;
        uint64_t key, old;
        uint32_t slot;
        atomic_uint_fast64_t *word = tide__block_lock(table, &block, c->keys, i, c->count, &key, &slot, &old);
        if (!word) {
            continue;
        }
        struct tide__relocation k = tide__key_view(table, slot, old);
        struct tide__relocate_event event = {TIDE__EVENT_XFER, 0, term & TIDE__TERM_MASK};
        if (!dead && tide__is_unasked(&k, event)) {
            expect(table, key, &old, &k);
        }
        struct tide__relocate_result r = tide__relocate(&k, event);
        if (!dead && (r.act == TIDE__INSTALL || r.act == TIDE__INSTALL_AND_GIVE)) {
            old = tide__owner_install(table, old, key, &k, r, term, bytes, now);
        } else {
            tide__table_count(table, TIDE__SURPRISES, 1);
        }
        tide__word_unlock(word, old);
    }
}

/* The new home of a slot learns one key of it. True: its row is here. */
static bool slot_key(struct tide_table *table, uint32_t slot, uint64_t key, uint32_t marked, uint16_t owner,
                     const uint8_t *bytes) {
    const uint32_t term = marked & TIDE__TERM_MASK;
    uint64_t old;
    atomic_uint_fast64_t *word = tide__key_lock(table, slot, key, &old);
    if (!word) {
        return false;
    }
    struct tide__relocation k = tide__key_view(table, slot, old);
    if (bytes && k.state == TIDE__COMING) { /* asked for before the slot came */
        struct tide__relocate_result r = tide__relocate(&k, (struct tide__relocate_event){TIDE__EVENT_XFER, 0, term});
        k.owner = k.self;
        if (r.act == TIDE__INSTALL) {
            old = tide__owner_install(table, old, key, &k, r, marked, bytes, tide_port_now(table->store->port));
        } else {
            tide__table_count(table, TIDE__SURPRISES, 1);
        }
    } else if (bytes && k.state == TIDE__GONE) {
        uint32_t row, handed = tide__word_handed(old);
        uint64_t placed = tide__word_base(old, term) | handed;
        if (tide__slab_take(&table->slab, &row) || tide__row_place(table, slot, &placed, row)) {
            not_taken(table, key);
        } else {
            const size_t size = table->row_floats * sizeof(float);
            float *at = tide__slab_row(&table->slab, row);
            memcpy(at, bytes, size);
            old = tide__cut_arrive(table, key, placed, marked, at, marked & TIDE__MARK_SPLIT ? bytes + size : NULL);
        }
    } else if (tide__word_state(old) == TIDE__COLD) {
        tide__table_count(table, TIDE__SURPRISES, owner != k.self || term != k.term);
    } else if (k.state == TIDE__COMING) {
        tide__arrival_of(table, old)->owner = owner;
        tide__arrival_of(table, old)->owner_term = term;
    } else if (k.state == TIDE__GONE && owner != k.self && tide__term_newer(term, k.term)) {
        old =
            tide__word_bare(old, term) | tide__word_handed(old) | (owner ? TIDE__WORD_AWAY | (uint32_t)owner << 16 : 0);
    } else if (k.state == TIDE__GONE && owner != k.self && owner != 0 && term == k.term) {
        old = tide__word_bare(old, term) | tide__word_handed(old) | TIDE__WORD_AWAY |
              (uint32_t)owner << 16; /* this node had it last */
    } else if (k.state == TIDE__GONE && owner == k.self && tide__term_newer(term, k.term) &&
               !TIDE_MUTANT(given_up_is_anew)) {
        k.owner_term = term; /* it gave the row up, of which the old home has not heard */
        expect(table, key, &old, &k);
    } else if (k.state == TIDE__GONE && owner == k.self) {
        tide__table_count(table, TIDE__SURPRISES, 1);
    }
    k = tide__key_view(table, slot, old);
    tide__word_unlock(word, old);
    return k.state == TIDE__HELD || (k.cold && !k.next);
}

/* A column of numbers, foreign bytes. */
static uint32_t number_in(const struct tide__array *n, size_t i) {
    return tide__number_at(n->at, i);
}

/* Is there one trail of nodes for each of `keys` keys? */
static bool good_trails(const struct tide__array *trails, size_t keys) {
    size_t at = 0;
    for (size_t i = 0; i < keys; i++) {
        uint32_t length = at < trails->count ? number_in(trails, at++) : UINT16_MAX;
        if (length >= UINT16_MAX / 4 || (length && trails->count - at < length + 1u)) {
            return false;
        }
        for (uint32_t j = 0; j < length; j++) {
            uint32_t node = number_in(trails, at + 1 + j);
            if (node == 0 || node > UINT16_MAX) {
                return false;
            }
        }
        at += length ? length + 1u : 0;
    }
    return at == trails->count;
}

/* The way of a key; `at` is at its trail. What it says comes after. A row that is here, for this
 * node got it before the slot, is at the end of its way. */
static size_t slot_trail(struct tide_table *table, uint64_t key, bool here, const struct tide__array *trails,
                         size_t at) {
    const uint32_t length = number_in(trails, at++);
    if (length == 0) {
        return at;
    }
    if (here && !TIDE_MUTANT(move_trail_of_row_here)) {
        return at + 1 + length;
    }
    const uint32_t last = number_in(trails, at++);
    tide__trail_end(table, key);
    for (uint32_t i = 0; i < length; i++) {
        tide__trail_add(table, key, (uint16_t)number_in(trails, at++), (last - (length - 1 - i)) & TIDE__TERM_MASK, 0);
    }
    tide__loss_examine(table, key);
    return at;
}

static void on_slot_keys(struct tide_table *table, uint32_t slot, const struct columns *c,
                         const struct tide__array *owners, const struct tide__array *trails) {
    const uint8_t *row = c->rows;
    size_t at = 0;
    for (size_t i = 0; i < c->count; i++) {
        const uint32_t term = term_in(c, i);
        const uint64_t key = key_in(c, i);
        const uint8_t *bytes = term & TIDE__NO_ROW ? NULL : row;
        row += rows_of(term) * table->row_floats * sizeof(float);
        if (tide__slot_of(table, key) == slot) {
            const uint16_t owner = (uint16_t)number_in(owners, i);
            const bool here = slot_key(table, slot, key, term, owner, bytes);
            at = slot_trail(table, key, here, trails, at);
        } else { /* its trail is as good as none */
            at += number_in(trails, at) ? number_in(trails, at) + 2u : 1u;
        }
    }
}

static int finished(struct tide_table *table) {
    tide__owner_finish(table);
    return 0;
}

int tide__hand_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.HAND) *m = &in->as.HAND;
    struct columns c;
    struct tide_table *table = m->node ? columns_open(store, in, m->table, &m->keys, &m->terms, &c) : NULL;
    if (!table) {
        return TIDE_EPROTO;
    }
    on_hand(table, in->from, m->node, &c);
    return finished(table);
}

int tide__xfer_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.XFER) *m = &in->as.XFER;
    struct columns c;
    struct tide_table *table = columns_open(store, in, m->table, &m->keys, &m->terms, &c);
    if (!table || !rows_open(table, &m->rows, &c)) {
        return TIDE_EPROTO;
    }
    on_xfer(table, in->from, &c);
    return finished(table);
}

int tide__lost_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.LOST) *m = &in->as.LOST;
    struct columns c;
    struct tide_table *table = m->node ? columns_open(store, in, m->table, &m->keys, &m->terms, &c) : NULL;
    if (!table) {
        return TIDE_EPROTO;
    }
    store->told_dead[m->node] = true;
    for (size_t i = 0; i < c.count; i++) {
        tide__loss_lost(table, key_in(&c, i), m->node, term_in(&c, i) & TIDE__TERM_MASK);
    }
    return finished(table);
}

int tide__failed_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.FAILED) *m = &in->as.FAILED;
    struct columns c;
    struct tide_table *table = m->node ? columns_open(store, in, m->table, &m->keys, &m->terms, &c) : NULL;
    if (!table) {
        return TIDE_EPROTO;
    }
    for (size_t i = 0; i < c.count; i++) {
        tide__loss_failed(table, key_in(&c, i), m->node, term_in(&c, i) & TIDE__TERM_MASK);
    }
    return finished(table);
}

int tide__stay_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.STAY) *m = &in->as.STAY;
    struct columns c;
    struct tide_table *table = m->how ? columns_open(store, in, m->table, &m->keys, &m->terms, &c) : NULL;
    if (!table) {
        return TIDE_EPROTO;
    }
    for (size_t i = 0; i < c.count; i++) {
        tide__owner_stays(table, key_in(&c, i));
        if (m->how == TIDE__STAY_COPY) {
            tide__intent_copy(table, key_in(&c, i));
        }
    }
    return finished(table);
}

int tide__slot_keys_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.SLOT_KEYS) *m = &in->as.SLOT_KEYS;
    struct columns c;
    struct tide_table *table = columns_open(store, in, m->table, &m->keys, &m->terms, &c);
    if (!table || m->owners.count != c.count || !good_trails(&m->trails, c.count) || m->slot >= TIDE_SLOT_COUNT ||
        !(tide__route_of(table, m->slot) & TIDE__AWAITED) || !rows_open(table, &m->rows, &c)) {
        return TIDE_EPROTO;
    }
    on_slot_keys(table, m->slot, &c, &m->owners, &m->trails);
    return finished(table);
}

/* ---- whole slots ---- */

int tide__key_list_add(struct tide__key_list *list, uint64_t key) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        uint64_t *grown = tide_realloc(list->at, capacity * sizeof *grown);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory to list %zu keys", capacity);
        }
        list->at = grown;
        list->capacity = capacity;
    }
    list->at[list->count++] = key;
    return 0;
}

static bool says_something(uint64_t word) {
    return (word & ~(TIDE__WORD_PRESENT | TIDE__WORD_LOCK)) != 0;
}

int tide__keys_of_slot(struct tide_table *table, uint32_t number, struct tide__key_list *list) {
    struct tide__slot *slot = &table->slots[number];
    int code = 0;
    list->count = 0;
    if (table->options.keys == TIDE_KEYS_HASHED) {
        tide_lock(&slot->latch);
        struct tide__hash *hash = atomic_load_explicit(&slot->index, memory_order_relaxed);
        for (uint32_t i = 0; hash && i < hash->capacity && !code; i++) {
            uint64_t word = atomic_load_explicit(&hash->entries[i].word, memory_order_relaxed);
            code = says_something(word) ? tide__key_list_add(list, hash->entries[i].key) : 0;
        }
        tide_unlock(&slot->latch);
        return code;
    }
    /* acquire: with tide__dense_words */
    atomic_uint_fast64_t *words = atomic_load_explicit(&slot->index, memory_order_acquire);
    for (uint64_t place = 0; words && place < table->places_max && !code; place++) {
        uint64_t word = atomic_load_explicit(&words[place], memory_order_relaxed);
        code = says_something(word) ? tide__key_list_add(list, tide__key_of(table, number, place)) : 0;
    }
    return code;
}

/* Calls `each` with every such key, its word locked; it returns the word's new value. */
static int each_key(struct tide_table *table, uint32_t slot, struct tide__key_list *list,
                    uint64_t (*each)(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg),
                    void *arg) {
    int code = tide__keys_of_slot(table, slot, list);
    for (size_t i = 0; i < list->count && !code; i++) {
        uint64_t old;
        atomic_uint_fast64_t *word = tide__key_lock(table, slot, list->at[i], &old);
        if (word) {
            tide__word_unlock(word, each(table, slot, list->at[i], old, arg));
        }
    }
    return code;
}

/* ---- a slot leaves for another home ---- */

struct departing {
    struct tide_writer keys, terms, owners, trails, rows; /* columns */
    size_t count, trail_count;
    uint16_t to;
};

static void depart_column(struct departing *d, uint64_t key, uint32_t term, uint32_t owner) {
    uint8_t *k = tide_write_reserve(&d->keys, sizeof key), *t = tide_write_reserve(&d->terms, sizeof term),
            *o = tide_write_reserve(&d->owners, sizeof owner);
    if (k && t && o) {
        memcpy(k, &key, sizeof key);
        memcpy(t, &term, sizeof term);
        memcpy(o, &owner, sizeof owner);
        d->count++;
    }
}

static void depart_number(struct departing *d, uint32_t number) {
    uint8_t *out = tide_write_reserve(&d->trails, sizeof number);
    if (out) {
        memcpy(out, &number, sizeof number);
        d->trail_count++;
    }
}

/* Behind depart_column: the way of the key. */
static void depart_trail(struct tide_table *table, struct departing *d, uint64_t key) {
    const struct tide__trail *trail = tide__trail_of(table, key);
    depart_number(d, trail ? trail->count : 0);
    if (trail) {
        depart_number(d, trail->last_term);
        for (uint16_t i = 0; i < trail->count; i++) {
            depart_number(d, tide__trail_nodes(trail)[i]);
        }
    }
    tide__trail_end(table, key);
}

static void depart_row(struct tide_table *table, struct departing *d, uint64_t key, uint64_t word, uint32_t row) {
    const size_t bytes = table->row_floats * sizeof(float);
    const float *at = tide__slab_row(&table->slab, row);
    struct tide__kept *second;
    uint32_t marks = tide__cut_give(table, key, word, at, &second);
    uint8_t *out = tide_write_reserve(&d->rows, second ? 2 * bytes : bytes);
    if (out) {
        memcpy(out, at, bytes);
        if (second) {
            memcpy(out + bytes, second->row, bytes);
        }
        depart_column(d, key, tide__term_next(tide__word_seen(word)) | marks, d->to);
        depart_trail(table, d, key);
    }
    tide_free(second);
    tide__slab_give(&table->slab, row);
}

/* The route has changed: this node is not home any more. */
static uint64_t depart_key(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    struct departing *d = arg;
    const uint32_t seen = tide__word_seen(word);
    (void)slot;
    switch ((enum tide__key_state)tide__word_state(word)) {
    case TIDE__OWNED:
        depart_row(table, d, key, word, (uint32_t)word);
        return tide__word_bare(word, seen);
    case TIDE__ARRIVING: {
        struct tide__arrival *a = tide__arrival_of(table, word);
        if (!a->here) { /* it continues to wait, as any node */
            depart_column(d, key, a->owner_term | TIDE__NO_ROW, a->owner);
            depart_trail(table, d, key);
            a->owner = a->cold ? a->owner : 0;
            return word;
        }
        uint32_t handed = a->own < UINT16_MAX ? a->own : UINT16_MAX;
        depart_row(table, d, key, word, a->row);
        tide__arrival_free(table, word);
        return tide__word_bare(word, seen) | handed;
    }
    case TIDE__COLD: /* the row stays on this disk: this node owns it, as one that had asked for it */
        depart_column(d, key, seen | TIDE__NO_ROW, tide__store_self(table->store));
        depart_trail(table, d, key);
        return word;
    case TIDE__ABSENT:
        break;
    }
    bool away = (word & TIDE__WORD_AWAY) && !TIDE_MUTANT(move_directory_left_behind);
    if (away || seen) {
        depart_column(d, key, seen | TIDE__NO_ROW, away ? tide__word_owner(word) : 0);
        depart_trail(table, d, key);
    }
    return tide__word_bare(word, seen) | tide__word_handed(word);
}

int tide__owner_depart(struct tide_table *table, uint32_t slot, uint16_t to) {
    struct tide__key_list list = {0};
    struct departing d = {.to = to};
    struct tide_writer *columns[] = {&d.keys, &d.terms, &d.owners, &d.trails, &d.rows};
    for (size_t i = 0; i < TIDE_COUNT(columns); i++) {
        tide_writer_init(columns[i], NULL, 0);
    }
    int code = each_key(table, slot, &list, depart_key, &d);
    for (size_t i = 0; i < TIDE_COUNT(columns) && !code; i++) {
        code = columns[i]->error;
    }
    if (!code && d.count) {
        code = tide__store_tell(
            table->store, to,
            TIDE__AS(SLOT_KEYS, .table = table->id, .slot = slot, .keys = TIDE__LIST(d.keys.data, d.count),
                     .terms = TIDE__LIST(d.terms.data, d.count), .owners = TIDE__LIST(d.owners.data, d.count),
                     .trails = TIDE__LIST(d.trails.data, d.trail_count),
                     .rows = TIDE__LIST(d.rows.data, d.rows.size / sizeof(float))));
    }
    if (code) { /* nothing can be taken back: rows and directory of this slot are lost */
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node),
                 "a slot of table '%s' could not be handed over: %s", table->name, tide_error_message());
    }
    for (size_t i = 0; i < TIDE_COUNT(columns); i++) {
        tide_writer_release(columns[i]);
    }
    tide_free(list.at);
    return 0;
}

/* Each key of a slot that waits for its row, or has one that is not the workers' yet. */
static void each_arrival(struct tide_table *table, uint32_t slot,
                         uint64_t (*each)(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word,
                                          void *arg)) {
    struct tide__key_list list = {0};
    if (tide__slab_used(&tide__owners_of(table)->arrivals) > 0 && each_key(table, slot, &list, each, NULL)) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(table->store->node), "no memory: keys of a slot stay slow");
    }
    tide_free(list.at);
}

static uint64_t release_key(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    (void)slot;
    (void)key;
    (void)arg;
    if (tide__word_state(word) == TIDE__ARRIVING) {
        tide__arrival_of(table, word)->held = false;
        return tide__word_settled(table, word);
    }
    return word;
}

void tide__owner_release_slot(struct tide_table *table, uint32_t slot) {
    each_arrival(table, slot, release_key);
}

static uint64_t wish_again(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    const uint16_t home = tide__route_home(tide__route_of(table, slot));
    (void)arg;
    if (tide__word_state(word) == TIDE__ARRIVING && !tide__arrival_of(table, word)->here &&
        !tide__arrival_of(table, word)->cold && !tide__member_gone(table->store, home) &&
        !TIDE_MUTANT(wish_not_repeated)) {
        tide__outbox_add(table, TIDE__OP_LOC, home, tide__arrival_of(table, word)->intended ? TIDE__INTENDED : 0, key,
                         tide__word_seen(word), NULL, NULL);
    }
    return word;
}

void tide__owner_wish_again(struct tide_table *table, uint32_t slot) {
    each_arrival(table, slot, wish_again);
}

static uint64_t clear_key(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    (void)slot;
    (void)arg;
    float *row = NULL;
    switch ((enum tide__key_state)tide__word_state(word)) {
    case TIDE__OWNED:
        row = tide__slab_row(&table->slab, (uint32_t)word);
        word &= ~TIDE__WORD_CLEAN;
        break;
    case TIDE__ARRIVING: {
        struct tide__arrival *a = tide__arrival_of(table, word);
        row = a->here ? tide__slab_row(&table->slab, a->row) : NULL;
        if (a->cold) {
            tide__tiered_of(table)->forget(table, a->place);
            a->place = TIDE__PLACE_INITIAL;
        }
        break;
    }
    case TIDE__COLD:
        tide__tiered_of(table)->forget(table, (uint32_t)word);
        word |= TIDE__PLACE_INITIAL;
        break;
    case TIDE__ABSENT:
        break;
    }
    if (row) { /* the owner of a key does not change */
        tide__row_init(&table->options, key, row, true);
    }
    return word;
}

void tide__owner_clear(struct tide_table *table, uint32_t slot) {
    tide__cut_vanish(table);
    struct tide__key_list list = {0};
    (void)each_key(table, slot, &list, clear_key, NULL);
    tide_free(list.at);
}

static uint64_t forget_key(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    (void)slot;
    (void)key;
    (void)arg;
    struct tide__waiter *w = NULL, *next;
    if (tide__word_state(word) == TIDE__ARRIVING) {
        w = tide__arrival_of(table, word)->first;
        tide__arrival_of(table, word)->first = NULL;
    }
    for (; w; w = next) {
        next = w->next;
        struct tide__job *job = w->job; /* w lies in it */
        if (--job->left == 0) {
            tide__job_free(table->store, job);
        }
    }
    return word;
}

void tide__owner_forget(struct tide_table *table) {
    struct tide__key_list list = {0};
    for (uint32_t slot = 0; slot < TIDE_SLOT_COUNT; slot++) {
        (void)each_key(table, slot, &list, forget_key, NULL);
    }
    tide_free(list.at);
}

/* ---- this node leaves ---- */

struct leaving {
    bool offer, any;
};

static uint64_t leave_key(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word, void *arg) {
    struct leaving *l = arg;
    if (tide__word_state(word) == TIDE__ABSENT) {
        return word;
    }
    l->any = true;
    const struct tide__relocation k = tide__key_view(table, slot, word);
    if (l->offer && (k.state == TIDE__HELD || (k.cold && !k.next))) {
        tide__outbox_add(table, TIDE__OP_OFFER, tide__route_home(tide__route_of(table, slot)), 0, key, 0, NULL, NULL);
    }
    return word;
}

bool tide__owner_leave(struct tide_store *store, bool offer) {
    struct leaving l = {.offer = offer};
    struct tide__key_list list = {0};
    unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        const bool looks = table && table->operations->owners;
        for (uint32_t slot = 0; looks && slot < TIDE_SLOT_COUNT && (offer || !l.any); slot++) {
            uint32_t route = tide__route_of(table, slot);
            if (route & TIDE__MINE) {
                l.any = true; /* its rows go with it */
            } else if (!tide__member_gone(store, tide__route_home(route))) {
                (void)each_key(table, slot, &list, leave_key, &l);
            }
        }
        if (table && table->operations->owners) {
            tide__outbox_send(table);
        }
    }
    tide_free(list.at);
    return !l.any;
}

bool tide__owner_idle(const struct tide_table *table) {
    const struct tide__owners *o = tide__owners_of(table);
    return !o || (tide__slab_used(&o->arrivals) == 0 && !o->outbox.first && !o->outbox.done &&
                  !tide__zero_copy_source_busy(o->outbox.zero_copy_source));
}
