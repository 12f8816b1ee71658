/*
 * Keys that change their owner, between relocate_in.c (one key), owner.c (operations), relocate_messages.c
 * (moves) and relocate_outbox.c (what goes out, and what a home remembers of where keys went).
 */
#ifndef TIDE_STORE_OWNER_H
#define TIDE_STORE_OWNER_H

#include "store/core/technique.h"
#include "store/core/tiered.h"
#include "store/rows/cut.h"
#include "store/adaptive/relocate.h"
#include "store/operation/shard.h"

#define TIDE__NO_ROW 0x80000000u /* in a term on the wire: the row is the initial one, or none */

extern const struct tide__technique tide__relocating;
tide__handler tide__hand_message, tide__xfer_message, tide__lost_message, tide__failed_message, tide__stay_message,
    tide__slot_keys_message;
tide__handler tide__passed_message; /* PASSED (location_cache.c) */

int tide__owner_table_init(struct tide_table *table);
void tide__owner_table_deinit(struct tide_table *table);
/* Worker: operations that were counted as handed over will not be sent after all. */
void tide__owner_take_back(struct tide_table *table, const void *keys, const uint32_t *positions, size_t count);
/* Works on an operation on a table that relocates: nothing of it is left to do when it returns. */
void tide__owner_job(struct tide__job *job);
/* All of a slot that this node was home of goes to `to`; its route is changed already. */
int tide__owner_depart(struct tide_table *table, uint32_t slot, uint16_t to);
/* Own operations on the slot may run again: its rows are the workers'. */
void tide__owner_release_slot(struct tide_table *table, uint32_t slot);
/* No operation waits any more for an answer from a former home of the slot. A row that still does not come was
 * requested from one that died, perhaps before it forwarded the localize: it is requested again. The present
 * home knows whether it heard that before. */
void tide__owner_wish_again(struct tide_table *table, uint32_t slot);
/* A node died: its rows, and those in flight from it, are lost. */
void tide__owner_member_gone(struct tide_store *store, uint16_t node);
/* This node leaves: rows whose home is elsewhere go home. True: none is left. */
bool tide__owner_leave(struct tide_store *store, bool offer);
/* Does no row of the table, and nothing about one, come to this node or leave it? */
bool tide__owner_idle(const struct tide_table *table);
/* Rows become initial ones. */
void tide__owner_clear(struct tide_table *table, uint32_t slot);
/* Worker: state of a key as far as this node knows; the owner. */
uint16_t tide__owner_of(struct tide_table *table, uint64_t key);
/* Worker: an access finds the row here and has not to wait for its arrival. */
bool tide__owner_serves(struct tide_table *table, uint64_t key);
/* The word of a key of a dense table, where it stays; NULL: none yet. */
const atomic_uint_fast64_t *tide__owner_word(struct tide_table *table, uint64_t key);
/* Releases the count of an operation; true: the word (locked) may be served by workers. */
bool tide__owner_hand_over(struct tide_table *table, atomic_uint_fast64_t *word, uint64_t old);

/* Keys, terms and rows of one message. */
struct tide__outbox_message {
    struct tide__outbox_message *next;
    uint64_t *keys;
    uint32_t *terms;
    struct tide_blob *rows;                          /* a copy, or, if `lent`, a zero_copy send (zero_copy.h) */
    size_t count, capacity, row_count, row_capacity; /* rows: room for one more than that */
    uint16_t to, about;
    uint8_t op;
    bool lent;
};
struct tide__relocate_outbox {
    struct tide__outbox_message *first; /* the newest */
    struct tide__zero_copy_source *zero_copy_source;
    size_t zero_copy_rows;        /* of a message whose rows are lent; 0: they are copied */
    struct tide__job *done;       /* waited for rows and have them; answered at the end of the message */
    size_t hint;                  /* keys of the message in hand */
    uint64_t given, got, took_ns; /* rows of the message in hand, not counted yet */
    uint64_t same, took;          /* of them, those that took this long, and are not in `got` yet */
};

/*
 * Trails. A home that sends HAND does not hear whether the row arrived. It remembers, for each key
 * on the move, through whose hands it was to go before those of the owner of record, so that a
 * death on the way can be sent to the waiting nodes (lost_rows.c). A node that requests it again has had its
 * row: what was before it is forgotten. So is what was before the home when the row comes home.
 */
enum { TIDE__TRAIL_FEW = 4 };
struct tide__trail {
    uint64_t key;
    uint16_t count;     /* 0: empty place */
    uint16_t capacity;  /* of `many`; 0: few */
    uint32_t last_term; /* of the last node; terms are consecutive */
    union {             /* nodes, oldest first */
        uint16_t few[TIDE__TRAIL_FEW];
        uint16_t *many;
    } nodes;
};
struct tide__trails {
    struct tide__trail *places;
    size_t capacity, count;
};

struct tide__owners {           /* of a table */
    atomic_bool in_doubt;       /* a node that may have had rows of it died */
    struct tide__slab arrivals; /* struct tide__arrival */
    atomic_uint_fast64_t relocate_max_ns, relocate_hist[TIDE_RELOCATE_BUCKETS]; /* the I/O thread writes */
    /* I/O thread */
    struct tide__relocate_outbox outbox; /* what goes out at the end of a message */
    struct tide__trails trails;          /* home: through whose hands keys went */
    struct tide__locations *locations;   /* location_cache.h; NULL: nothing to remember */
    bool look_again;                     /* parked operations that wait for others: some have been answered */
};
/* How a key of an unanswered message came to where it is: the node that forwarded it last, as which leg; 0: none. */
struct tide__way {
    uint16_t via, leg;
};
/* Part of an unanswered message; pending lock held. */
struct tide__owned {
    uint64_t sent;   /* sequence when its first key left this node; 0: none has */
    bool waited_for; /* operations in the store actor are (location_cache.h) */
    struct tide__owned_key {
        uint64_t key;
        struct tide__way way;
    } keys[];
};
/* Keys (by position in the message; unaligned u32) were passed on to `node`. */
void tide__pending_at(struct tide_store *store, uint64_t id, struct tide__way way, uint16_t node, const void *positions,
                      size_t count);

/* NULL: the table's rows do not relocate. */
static inline struct tide__owners *tide__owners_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_OWNERS];
}

/* What a STAY says beside that. */
enum tide__stay { TIDE__STAY_REMOTE = 1, TIDE__STAY_COPY };

/*
 * What is to be sent when the message in hand is dealt with: one message for each (op, node,
 * about). `about`: HAND: the new owner; LOST: the dead node; LOC: flags; STAY: enum tide__stay.
 * row: NULL, or row_floats floats, copied; second: NULL, or its second version (cut.h), copied.
 */
void tide__outbox_add(struct tide_table *table, int op, uint16_t to, uint16_t about, uint64_t key, uint32_t term,
                      const float *row, const float *second);
/* The same, of the newest message and without a row: most keys of a message go the way of the one
 * before. */
static inline void tide__outbox_key(struct tide_table *table, int op, uint16_t to, uint16_t about, uint64_t key,
                                    uint32_t term) {
    struct tide__outbox_message *p = tide__owners_of(table)->outbox.first;
    if (TIDE_UNLIKELY(!p || p->op != op || p->to != to || p->about != about || p->count == p->capacity)) {
        tide__outbox_add(table, op, to, about, key, term, NULL, NULL);
        return;
    }
    p->keys[p->count] = key;
    p->terms[p->count++] = term;
}
/* XFER with its row, which is sent from where it lies: *takes* it. Only if there are zero_copy_rows. */
void tide__outbox_zero_copy(struct tide_table *table, uint16_t to, uint64_t key, uint32_t term, uint32_t row);
/* XFER with its row, copied. */
static inline void tide__outbox_row(struct tide_table *table, uint16_t to, uint64_t key, uint32_t term,
                                    const float *row) {
    struct tide__outbox_message *p = tide__owners_of(table)->outbox.first;
    if (TIDE_UNLIKELY(!p || p->op != TIDE__OP_XFER || p->to != to || p->lent || p->count == p->capacity ||
                      p->row_count >= p->row_capacity)) {
        tide__outbox_add(table, TIDE__OP_XFER, to, 0, key, term, row, NULL);
        return;
    }
    memcpy((float *)p->rows->data + p->row_count++ * table->row_floats, row, table->row_floats * sizeof *row);
    p->keys[p->count] = key;
    p->terms[p->count++] = term;
}
void tide__outbox_send(struct tide_table *table);
void tide__outbox_free(struct tide_table *table);

static inline const uint16_t *tide__trail_nodes(const struct tide__trail *trail) {
    return trail->capacity ? trail->nodes.many : trail->nodes.few;
}
static inline uint32_t tide__trail_term(const struct tide__trail *trail, unsigned i) {
    return (trail->last_term - (trail->count - 1u - i)) & TIDE__TERM_MASK;
}
/* The row is to go from `from`, which has it or gets it under `term`, to `to`. */
void tide__trail_add(struct tide_table *table, uint64_t key, uint16_t from, uint32_t term, uint16_t to);
/* Is the row to go, or in flight, or gone through `node`, under a later term than the
 * last that it knew of? */
bool tide__trail_awaits(const struct tide_table *table, uint64_t key, uint16_t node, uint32_t seen);
/* The row has come to `node`: its former owners are forgotten, and `node` itself. */
void tide__trail_passed(struct tide_table *table, uint64_t key, uint16_t node);
void tide__trail_cut(struct tide_table *table, uint64_t key, uint16_t count); /* the oldest stay */
void tide__trail_end(struct tide_table *table, uint64_t key);
const struct tide__trail *tide__trail_of(const struct tide_table *table, uint64_t key); /* or NULL */
void tide__trails_free(struct tide_table *table);

/* ---- relocate_messages.c ---- */
struct tide__key_list {
    uint64_t *at; /* tide_free it */
    size_t count, capacity;
};
int tide__key_list_add(struct tide__key_list *list, uint64_t key);
/* The keys of a slot whose words say anything. What words say may change after. */
int tide__keys_of_slot(struct tide_table *table, uint32_t number, struct tide__key_list *list);
/* The table ends: operations that still wait for rows are freed. */
void tide__owner_forget(struct tide_table *table);

/* ---- lost_rows.c ---- */
/* Keys of a slot whose home has died: notifies their waiters here. */
void tide__loss_home(struct tide_table *table, uint32_t slot, uint16_t dead);
void tide__loss_lost(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term);
void tide__loss_failed(struct tide_table *table, uint64_t key, uint16_t dead, uint32_t term);
/* As a new home: notifies waiters of known deaths. */
void tide__loss_examine(struct tide_table *table, uint64_t key);

/* ---- owner.c, relocate_in.c ---- */
/* Is the row in flight to this node, as far as it knows, or here and not the workers' yet? */
bool tide__owner_awaits(struct tide_table *table, uint64_t key);
/* The row of a key that was asked for on an intent stays where it is. */
void tide__owner_stays(struct tide_table *table, uint64_t key);

/* ---- relocate_in.c ---- */
struct tide__waiter {
    struct tide__waiter *next;
    struct tide__job *job;
    uint32_t index; /* of the key in the job */
};

struct tide__arrival { /* state ARRIVING */
    struct tide__waiter *first, **last;
    uint64_t asked_at;
    uint32_t own; /* operations of workers in the mailbox; under the word's lock */
    uint32_t row; /* taken before the row is asked for */
    uint32_t owner_term, next_term;
    uint16_t owner, next, next_by; /* next_by: the sender of that */
    bool here;                     /* the row is here, but not the workers' yet */
    bool held;                     /* ... before the slot's fence is lifted */
    bool intended;                 /* asked for on an intent: STAY may come instead */
    bool cold;                     /* comes from the disk of this node, place `place`; there is no `row` */
    bool wanted;                   /* cold: it is being read, or is to be */
    bool ahead;                    /* cold: a localize or an intent requires it, before it is used */
    uint32_t place;
};

static inline struct tide__arrival *tide__arrival_of(const struct tide_table *table, uint64_t word) {
    return (struct tide__arrival *)(void *)tide__slab_row(&tide__owners_of(table)->arrivals, (uint32_t)word);
}
static inline void tide__arrival_free(struct tide_table *table, uint64_t word) {
    tide__hand_give(&tide__owners_of(table)->arrivals, (uint32_t)word);
}
/* Of a row that stays here: with its flags for checkpoints. */
static inline uint64_t tide__word_base(uint64_t old, uint32_t seen) {
    return (old & (TIDE__WORD_PRESENT | TIDE__WORD_TAKEN | TIDE__WORD_DIRTY)) | (uint64_t)seen << 32;
}
static inline uint64_t tide__word_bare(uint64_t old, uint32_t seen) {
    return (old & TIDE__WORD_PRESENT) | (uint64_t)seen << 32;
}

atomic_uint_fast64_t *tide__key_lock(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t *old);
static inline struct tide__relocation tide__key_view(struct tide_table *table, uint32_t slot, uint64_t word) {
    const uint16_t self = tide__store_self(table->store);
    struct tide__relocation k = {
        .self = self, .home = tide__route_of(table, slot) & TIDE__MINE, .term = tide__word_seen(word)};
    k.owner = k.home ? self : 0;
    k.owner_term = k.term;
    switch ((enum tide__key_state)tide__word_state(word)) {
    case TIDE__OWNED:
        k.state = TIDE__HELD;
        break;
    case TIDE__ARRIVING: {
        const struct tide__arrival *a = tide__arrival_of(table, word);
        k.state = a->here ? TIDE__HELD : TIDE__COMING;
        k.cold = a->cold;
        if (!a->here) {
            k.owner = a->owner;
            k.owner_term = a->owner_term;
            k.next = a->next;
            k.next_term = a->next_term;
        }
        break;
    }
    case TIDE__COLD:
        k.state = TIDE__COMING;
        k.cold = true;
        break;
    case TIDE__ABSENT:
        if (word & TIDE__WORD_AWAY) {
            k.owner = tide__word_owner(word);
        }
        break;
    }
    return k;
}
/* The row is not here. */
static inline uint64_t tide__word_gone(uint64_t old, const struct tide__relocation *k, uint32_t handed) {
    if (k->home && k->owner != k->self && k->owner != 0) {
        return tide__word_bare(old, k->owner_term) | TIDE__WORD_AWAY | (uint32_t)k->owner << 16 | handed;
    }
    return tide__word_bare(old, k->term) | handed;
}
/* An arrival record for a locked word without a row. */
static inline int tide__arrival_make(struct tide_table *table, uint64_t *word, uint32_t row) {
    uint32_t number;
    int code = tide__hand_take(&tide__owners_of(table)->arrivals, &number);
    if (code) {
        return code;
    }
    const uint32_t handed = tide__word_handed(*word);
    *word = tide__word_base(*word, tide__word_seen(*word)) | (uint64_t)TIDE__ARRIVING << 60 | number;
    struct tide__arrival *a = tide__arrival_of(table, *word);
    *a = (struct tide__arrival){.own = handed, .row = row};
    a->last = &a->first;
    return 0;
}
/* The row of a locked word is on the disk, at `place`: operations queue from now on until it is read. Any thread;
 * false: out of memory. */
bool tide__cold_arrives(struct tide_table *table, uint64_t *word, uint32_t place);
/* As tide__owner_install, of a row that was read from the disk; bytes NULL: the initial one. The word, OWNED and CLEAN
 * if the row is as it was read. */
uint64_t tide__owner_thaw(struct tide_table *table, uint64_t old, uint64_t key, const struct tide__relocation *k,
                          struct tide__relocate_result r, const void *bytes);
/* What waits for the row fails. */
void tide__arrival_fail(struct tide_table *table, struct tide__arrival *a, int code, const char *text);
int tide__row_limit(const struct tide_table *table); /* EFULL */
static inline int tide__row_take(struct tide_table *table, uint32_t *row) {
    const int code = TIDE_UNLIKELY(table->options.key_limit) ? tide__row_limit(table) : 0;
    return code ? code : tide__hand_take(&table->slab, row);
}
int tide__row_place(struct tide_table *table, uint32_t slot, uint64_t *word, uint32_t row);
/* A row is to come to a locked word that has none: it has a place. */
static inline int tide__await(struct tide_table *table, uint64_t *word, const struct tide__relocation *k,
                              uint64_t now) {
    uint32_t row;
    int code = tide__row_take(table, &row);
    if (code) {
        return code;
    }
    code = tide__arrival_make(table, word, row);
    if (code) {
        tide__slab_give(&table->slab, row);
        return code;
    }
    struct tide__arrival *a = tide__arrival_of(table, *word);
    a->asked_at = now;
    a->owner = k->home ? k->owner : 0;
    a->owner_term = k->home ? k->owner_term : 0;
    return 0;
}
/* One operation of a worker more, or less, in flight to the store actor; the word is locked. False:
 * there are too many. */
bool tide__handed_over(struct tide_table *table, uint64_t *word);
uint64_t tide__taken_back(struct tide_table *table, uint64_t word);
/* `word`: locked, of the row; `made`: for this operation. */
int tide__owner_run(struct tide__job *job, uint32_t index, uint64_t *word, float *row, bool made);
void tide__waiter_done(struct tide_table *table, struct tide__waiter *w, int code, const char *text);
void tide__owner_finish(struct tide_table *table);
uint64_t tide__owner_give(struct tide_table *table, uint64_t old, const struct tide__relocation *k, uint64_t key,
                          uint16_t to, uint32_t term);
uint64_t tide__owner_install(struct tide_table *table, uint64_t old, uint64_t key, const struct tide__relocation *k,
                             struct tide__relocate_result r, uint32_t marks, const uint8_t *bytes, uint64_t now);
void tide__died_text(struct tide_store *store, uint16_t node, char text[160]);

/* The keys of a message one after the other: i = 0 .. count - 1, none left out. */
enum { TIDE__BLOCK_KEYS = 32 };
struct tide__key_block { /* what is being fetched from memory; of dense tables */
    atomic_uint_fast64_t *words[TIDE__BLOCK_KEYS];
    uint64_t keys[TIDE__BLOCK_KEYS];
    uint32_t slots[TIDE__BLOCK_KEYS];
};
/* The words of the next keys, then their rows. */
void tide__block_fetch(struct tide_table *table, struct tide__key_block *block, const uint8_t *keys, size_t count);
/* Key i of `keys` (u64, unaligned), and its locked word; NULL: out of memory. */
static inline atomic_uint_fast64_t *tide__block_lock(struct tide_table *table, struct tide__key_block *block,
                                                     const uint8_t *keys, size_t i, size_t count, uint64_t *key,
                                                     uint32_t *slot, uint64_t *old) {
    if (TIDE_UNLIKELY(table->options.keys == TIDE_KEYS_HASHED)) {
        memcpy(key, keys + i * sizeof *key, sizeof *key);
        *slot = tide__slot_of(table, *key);
        return tide__key_lock(table, *slot, *key, old);
    }
    const size_t at = i % TIDE__BLOCK_KEYS;
    if (at == 0) {
        tide__block_fetch(table, block, keys + i * sizeof *key,
                          count - i < TIDE__BLOCK_KEYS ? count - i : TIDE__BLOCK_KEYS);
    }
    *key = block->keys[at];
    *slot = block->slots[at];
    atomic_uint_fast64_t *word = block->words[at];
    while (word && tide__word_lock(word, false, old)) {
        tide_pause();
    }
    return word;
}
uint64_t tide__word_settled(struct tide_table *table, uint64_t word);

#endif
