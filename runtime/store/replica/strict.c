/*
 * The home of slots with copies: operations run here one after another, in the store actor, those of
 * this node's workers too. A push is applied, numbered within its slot, and sent down the chain of
 * copies; it is answered when the last copy has it. A pull is answered at once if nothing of its
 * rows is in flight to the copies and the leases hold; else with the values it found, when a
 * barrier behind all that went before has come back: what a reader sees cannot be lost.
 *
 * A push that comes a second time (its id is known) is answered like such a pull: behind the first
 * copy of it, never before.
 *
 * With durability window pushes are applied in the same way, or by workers in place, and their rows
 * shipped later (async_replication.h).
 */
#include "store/rows/rules.h"
#include "store/replica/async_replication.h"
#include "store/rows/cut.h"

enum { UNACKED_MAX = 0xfff000, KEPT_TIMES = 16 };

/* An answer for the keys at `indices`. NULL: out of memory, and said so. */
static struct tide__wait *wait_make(const struct tide__job *job, const uint32_t *indices, uint32_t count) {
    const bool all = count == job->count && !job->positions; /* of the message: nothing to name */
    struct tide__wait *wait = tide_alloc_zero(1, sizeof *wait);
    uint32_t *positions = all ? NULL : tide_alloc(count * sizeof *positions);
    if (!wait || (!positions && !all)) {
        tide_free(wait);
        tide_free(positions);
        tide__job_error(job, TIDE_ENOMEM, "no memory for an answer", indices, count);
        return NULL;
    }
    for (uint32_t i = 0; i < count && !all; i++) {
        positions[i] = tide__job_position_at(job, indices[i]);
    }
    wait->table = job->table;
    wait->left = 1;
    wait->job.table = job->table;
    wait->job.id = job->id;
    wait->job.origin = job->origin;
    wait->job.kind = job->kind;
    wait->job.raw = job->raw;
    wait->job.flags = job->flags;
    wait->job.count = count;
    wait->job.copy = (uint8_t *)positions;
    wait->job.positions = wait->job.copy;
    tide__misses_init(&wait->job.misses);
    return wait;
}

/* A row for every key of a push, before any of them changes. Its words are fetched: nothing is to
 * be done for most. */
static int rows_reserve(struct tide_table *table, const struct tide__job *job, const uint32_t *indices,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t key = tide__job_key_at(job, indices[i]);
        const uint32_t slot = tide__slot_of(table, key);
        atomic_uint_fast64_t *word;
        uint64_t old;
        bool full = table->options.key_limit && tide__slab_used(&table->slab) >= table->options.key_limit;
        int code = tide__row_lock(table, slot, key, !full, &word, &old);
        if (code == TIDE__FOUND && tide__word_state(old) == TIDE__OWNED) {
            tide__word_unlock(word, old);
            if (tide__word_seen(old) > UNACKED_MAX) {
                return tide_fail(TIDE_EBUSY, "too many pushes to one key wait for its copies");
            }
            continue;
        }
        if (code == TIDE__FOUND) {
            uint32_t row = 0;
            code = full ? TIDE_EFULL : tide__slab_take(&table->slab, &row);
            if (!code) {
                tide__row_init(&table->options, key, tide__slab_row(&table->slab, row), true);
                old = tide__cut_arrive(table, key, tide__word_owned(old, row), TIDE__CUT_NO_ROW, NULL, NULL);
            }
            tide__word_unlock(word, old);
        }
        if (full) {
            return tide_fail(TIDE_EFULL, "table '%s' holds its limit of %llu keys on this node", table->name,
                             (unsigned long long)table->options.key_limit);
        }
        if (code < 0) {
            return code;
        }
    }
    return 0;
}

/* The push's rows as they came, one after another; room for their keys and numbers. */
static struct tide__repl *push_entries(struct tide__job *job, const uint32_t *indices, uint32_t count) {
    const struct tide__repl head = {.table = job->table,
                                    .origin = job->origin,
                                    .sequence = job->sequence,
                                    .kind = job->raw ? TIDE__REPL_RAW : TIDE__REPL_PUSH,
                                    .row_bytes = tide__job_wire_row(job)};
    const size_t bytes = count * head.row_bytes;
    /* of the message itself, unless that would keep much more than its rows */
    const bool kept = count == job->count && job->blob && job->blob->size <= KEPT_TIMES * bytes;
    struct tide__repl *all = tide_alloc(sizeof *all + count * (2 * sizeof(uint64_t)));
    struct tide_blob *rows = kept ? tide_blob_slice(job->blob, job->rows, bytes) : tide_blob_create(bytes);
    if (!all || !rows) {
        tide_free(all);
        tide_blob_unref(rows);
        return NULL;
    }
    *all = head;
    all->rows = rows;
    all->keys = (uint64_t *)(void *)(all + 1);
    all->numbers = all->keys + count;
    for (uint32_t i = 0; i < count && !kept; i++) {
        memcpy((char *)rows->data + i * head.row_bytes, job->rows + indices[i] * head.row_bytes, head.row_bytes);
    }
    all->count = count;
    return all;
}

/* The j-th of `rows`. */
static void row_push(struct tide__job *job, uint32_t index, const struct tide__rows *rows, size_t j) {
    struct tide_table *table = job->table;
    const size_t floats = tide__job_floats(job);
    const uint8_t *delta =
        (job->deltas ? (const uint8_t *)job->deltas : job->rows) + (size_t)index * floats * sizeof(float);
    atomic_uint_fast64_t *word;
    uint64_t old;
    int code = tide__rows_lock(table, rows, j, false, &word, &old);
    TIDE_ASSERT(code == TIDE__FOUND && tide__word_state(old) == TIDE__OWNED); /* reserved */
    float *row = tide__slab_row(&table->slab, (uint32_t)old);
    tide__cut_push(table, rows->keys[j], &old, row, false, job->stamp, job->raw ? NULL : delta);
    if (job->raw) {
        memcpy(row, delta, floats * sizeof *row);
    } else {
        tide__rule_apply(&table->options, row, delta);
    }
    const uint64_t one = UINT64_C(1) << 32;
    tide__word_unlock(word, tide__replicas_of(table)->async ? tide__async_note(table, rows->keys[j], old) : old + one);
}

/* A push that is new to its slots: its ids, its rows, and (`all`: strict) what the copies get. */
static void rows_push(struct tide__job *job, const uint32_t *indices, uint32_t count, struct tide__repl *all) {
    struct tide_table *table = job->table;
    struct tide__replicas *replicas = tide__replicas_of(table);
    struct tide__rows rows;
    tide__replicas_mark(replicas);
    for (uint32_t i = 0; i < count; i += (uint32_t)rows.count) {
        tide__rows_ahead(table, job->keys, indices + i, count - i, false, &rows);
        for (uint32_t j = 0; j < rows.count; j++) {
            struct tide__copied_slot *slot = &replicas->slots[rows.slots[j]];
            if (tide__replicas_first(replicas, rows.slots[j])) {
                slot->number += all != NULL;
                tide__dedup_add(table, rows.slots[j], job->origin, job->sequence);
            }
            if (all) {
                all->keys[i + j] = rows.keys[j];
                all->numbers[i + j] = slot->number;
            }
            row_push(job, indices[i + j], &rows, j);
        }
    }
}

/* What of a push is new here: the keys at `fresh_at`; `known_slots` have it. All that are asked
 * about are answered, unless their origin waits no more. */
struct sorted {
    uint32_t waits, fresh, known; /* counts */
    const uint32_t *wait_at, *fresh_at;
    uint32_t *known_slots;
    uint32_t *memory;
    bool reserved; /* they have rows, all of them */
};

/* Room for all that a push changes here. */
static int push_reserve(struct tide__job *job, const struct sorted *s) {
    struct tide_table *table = job->table;
    int code = tide__job_prepare(job);
    code = code ? code : tide__dedup_reserve(table, job->origin, 1, s->fresh);
    return code || s->reserved ? code : rows_reserve(table, job, s->fresh_at, s->fresh);
}

/* Durability window: the rows are listed, and go to the copies later. */
static int push_unreplicated(struct tide__job *job, const struct sorted *s) {
    struct tide_table *table = job->table;
    tide__async_begin(table);
    int code = push_reserve(job, s);
    code = code ? code : tide__async_reserve(table, s->fresh);
    if (!code) {
        rows_push(job, s->fresh_at, s->fresh, NULL);
    }
    tide__async_noted(table);
    return code;
}

static int push_fresh(struct tide__job *job, const struct sorted *s, struct tide__wait *wait) {
    int code = push_reserve(job, s);
    struct tide__repl *all = code ? NULL : push_entries(job, s->fresh_at, s->fresh);
    if (!all) {
        return code ? code : tide_fail(TIDE_ENOMEM, "no memory for copies of a push");
    }
    rows_push(job, s->fresh_at, s->fresh, all);
    all->wait = wait;
    code = tide__replicate(all);
    tide_blob_unref(all->rows);
    tide_free(all);
    return code;
}

/* ENOMEM. */
static int sort_push(const struct tide__job *job, const uint32_t *indices, uint32_t count, struct sorted *s) {
    struct tide_table *table = job->table;
    const struct tide__replicas *replicas = tide__replicas_of(table);
    const enum tide__id_state state = tide__dedup_look(table, job->origin, job->sequence);
    if (state == TIDE__ID_OVER) {
        return 0;
    }
    s->waits = count;
    s->wait_at = indices;
    if (state == TIDE__ID_FRESH) {
        s->fresh = count;
        s->fresh_at = indices;
        return 0;
    }
    uint32_t *fresh = s->memory = tide_alloc(2 * (size_t)count * sizeof *fresh);
    if (!fresh) {
        return tide_fail(TIDE_ENOMEM, "no memory for a push");
    }
    s->fresh_at = fresh;
    s->known_slots = fresh + count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = tide__slot_of(table, tide__job_key_at(job, indices[i]));
        struct tide__copied_slot *at = &tide__replicas_of(table)->slots[slot];
        if (at->mark != replicas->mark_now) {
            fresh[s->fresh++] = indices[i];
        } else if (at->marked) {
            at->marked = false;
            s->known_slots[s->known++] = slot;
        }
    }
    return 0;
}

/* Durability window: the answer for these keys waits until all that is listed by now is with the
 * copies. */
static int wait_for_copies(const struct tide__job *job, const uint32_t *indices, uint32_t count,
                           struct tide__wait *wait) {
    struct tide_table *table = job->table;
    wait->slots = tide_alloc((count + 1) * sizeof *wait->slots);
    if (!wait->slots) {
        return tide_fail(TIDE_ENOMEM, "no memory for an answer");
    }
    tide__replicas_mark(tide__replicas_of(table));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = tide__slot_of(table, tide__job_key_at(job, indices[i]));
        if (tide__replicas_first(tide__replicas_of(table), slot)) {
            wait->slots[wait->slot_count++] = slot;
        }
    }
    wait->left++;
    tide__async_wait(table, wait);
    return 0;
}

/* The answer waits for the copies; unless the table is of durability window, what is new is applied
 * now. */
static int push_waits(struct tide__job *job, const struct sorted *s, struct tide__wait *wait) {
    if (tide__replicas_of(job->table)->async) {
        return wait_for_copies(job, s->wait_at, s->waits, wait);
    }
    int code = s->fresh ? push_fresh(job, s, wait) : 0;
    return code ? code : tide__barrier(job->table, wait, s->known_slots, s->known);
}

/* What of a push is new is applied; the answer waits as long as the table's durability requires. */
static void push_sorted(struct tide__job *job, const struct sorted *s) {
    struct tide_table *table = job->table;
    const bool window = tide__replicas_of(table)->async;
    int code = window ? push_unreplicated(job, s) : 0;
    const bool open = window && !code && tide__async_open(table);
    if (open && s->waits == job->count) {
        tide__job_reply(job);
        return;
    }
    struct tide__wait *wait = code ? NULL : wait_make(job, s->wait_at, s->waits);
    code = wait && !open ? push_waits(job, s, wait) : code;
    if (code) {
        tide__job_error(job, code, tide_error_message(), s->wait_at, s->waits);
    }
    if (wait) {
        wait->dead |= code != 0;
        if (TIDE_MUTANT(early_ack) && !wait->dead) {
            tide__job_reply(&wait->job);
            wait->dead = true;
        }
        tide__wait_done(wait);
    }
}

static void strict_push(struct tide__job *job, const uint32_t *indices, uint32_t count, bool reserved) {
    struct sorted s = {.reserved = reserved};
    int code = sort_push(job, indices, count, &s);
    if (code) {
        tide__job_error(job, code, tide_error_message(), indices, count);
    } else if (s.waits) {
        push_sorted(job, &s);
    }
    tide_free(s.memory);
}

/* Values into the answer, and the slots that have to be asked about by a barrier. */
static uint32_t pull_values(struct tide__wait *wait, const struct tide__job *job, const uint32_t *indices,
                            uint32_t count, uint32_t *slots) {
    struct tide_table *table = job->table;
    const size_t floats = tide__job_floats(job);
    uint32_t asked = 0;
    uint64_t deadline = TIDE_NEVER;
    tide__replicas_mark(tide__replicas_of(table));
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t key = tide__job_key_at(job, indices[i]);
        const uint32_t slot = tide__slot_of(table, key);
        float *out = (float *)wait->job.values->data + i * floats;
        atomic_uint_fast64_t *word;
        uint64_t old = 0;
        int code = tide__row_lock(table, slot, key, false, &word, &old);
        if (code == TIDE__FOUND && tide__word_state(old) == TIDE__OWNED) {
            memcpy(out, tide__slab_row(&table->slab, (uint32_t)old), floats * sizeof *out);
        } else {
            tide__row_init(&table->options, key, out, job->raw);
        }
        if (code == TIDE__FOUND) {
            tide__word_unlock(word, old);
        }
        uint64_t until = tide__lease_deadline(table, slot);
        deadline = until < deadline ? until : deadline;
        if (tide__word_seen(old) && !tide__replicas_of(table)->async &&
            tide__replicas_first(tide__replicas_of(table), slot)) {
            slots[asked++] = slot;
        }
    }
    if (tide_port_now(table->store->port) < deadline) {
        return asked;
    }
    asked = 0;
    tide__replicas_mark(tide__replicas_of(table));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = tide__slot_of(table, tide__job_key_at(job, indices[i]));
        if (tide__replicas_first(tide__replicas_of(table), slot)) {
            slots[asked++] = slot;
        }
    }
    return asked;
}

static bool any_goes(const struct tide__job *job, const uint32_t *indices, uint32_t count) {
    bool any = false;
    for (uint32_t i = 0; i < count && !any; i++) {
        const uint64_t key = tide__job_key_at(job, indices[i]);
        any = tide__async_goes(job->table, tide__slot_of(job->table, key));
    }
    return any;
}

static void strict_pull(const struct tide__job *job, const uint32_t *indices, uint32_t count) {
    struct tide__wait *wait = wait_make(job, indices, count);
    uint32_t *slots = wait ? tide_alloc(count * sizeof *slots) : NULL;
    if (wait) {
        wait->job.values = tide_blob_create(count * tide__job_floats(job) * sizeof(float));
    }
    int code = TIDE_ENOMEM;
    if (slots && wait->job.values) {
        uint32_t asked = pull_values(wait, job, indices, count, slots);
        code = tide__barrier(job->table, wait, slots, asked);
    }
    if (!code && tide__replicas_of(job->table)->async && any_goes(job, indices, count)) {
        tide__async_begin(job->table);
        code = wait_for_copies(job, indices, count, wait);
    }
    if (wait && code) {
        tide__job_error(job, code, "no memory for an answer", indices, count);
        wait->dead = true;
    }
    if (wait) {
        tide__wait_done(wait);
    }
    tide_free(slots);
}

/* And may one more push to it be in flight? Only this thread takes it away, or has one more. */
static bool has_row(const struct tide__rows *rows, size_t j) {
    /* relaxed: a user of the row locks it */
    const uint64_t word = rows->words[j] ? atomic_load_explicit(rows->words[j], memory_order_relaxed) : 0;
    return tide__word_state(word) == TIDE__OWNED && tide__word_seen(word) <= UNACKED_MAX;
}

void tide__strict_job(struct tide__job *job) {
    struct tide_table *table = job->table;
    struct tide_store *store = table->store;
    const uint32_t mask = job->own ? TIDE__FOR_OWN : TIDE__FOR_FOREIGN;
    uint32_t *served = tide_alloc(2 * (size_t)job->count * sizeof *served), count = 0, missed = 0;
    tide__dedup_low(store, job->origin, job->low);
    tide__misses_init(&job->misses);
    bool dead = job->origin != tide__store_self(store) && tide__member_gone(store, job->origin);
    uint32_t *misses = served ? served + job->count : NULL;
    bool reserved = true;
    struct tide__rows rows;
    for (uint32_t i = 0; misses && i < job->count && !dead; i += (uint32_t)rows.count) {
        tide__rows_ahead(table, job->keys + i * sizeof(uint64_t), NULL, job->count - i, job->kind == TIDE__PUSH, &rows);
        for (uint32_t j = 0; j < rows.count; j++) {
            const uint32_t route = atomic_load_explicit(&table->slots[rows.slots[j]].route, memory_order_relaxed);
            if ((route & mask) == TIDE__MINE) {
                served[count++] = i + j;
                reserved = reserved && has_row(&rows, j);
            } else {
                misses[missed++] = i + j;
            }
        }
    }
    if (!misses) {
        tide__job_error(job, TIDE_ENOMEM, "no memory for an operation", NULL, job->count);
    } else if (missed) {
        tide__job_pass_misses(job, misses, missed);
    }
    if (count) {
        tide__table_count(table, job->kind == TIDE__PULL ? TIDE__SERVED_PULLS : TIDE__SERVED_PUSHES,
                          job->origin == tide__store_self(store) ? 0 : count);
        if (job->kind == TIDE__PULL) {
            strict_pull(job, served, count);
        } else {
            strict_push(job, served, count, reserved);
        }
    }
    if (job->own && !job->queued_once) {
        /* release: what it did before; pairs with the acquire of tide__pass_pull */
        atomic_fetch_add_explicit(&table->self_handled, 1, memory_order_release);
    }
    tide_free(served);
}
