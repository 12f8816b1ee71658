/*
 * The store actor: operations that come as messages, from other nodes and from this node's workers
 * while a fence holds them. Runs on I/O thread 0 and never waits: an operation whose row is locked
 * for long goes to the `stalled` queue (and then every later one behind it, so order is kept); an
 * operation on a slot whose rows are still in flight is `parked` until they are here; an operation
 * on a slot that lives elsewhere is forwarded to its home.
 *
 * Bytes of other nodes are checked before they are used: a message that is not well formed is
 * answered with an error if its id could be read, else counted and dropped. A key out of range
 * never reaches a row.
 */
#include "store/operation/shard.h"
#include "store/core/load.h"
#include "store/core/send.h"
#include "store/operation/resend.h"
#include "store/rows/slot_index.h"

enum { REPLY_BYTES_MAX = 12 << 20 };

/* What the walk and the answer needed; the job may be processed again after it. */
static void job_reset(struct tide__job *job) {
    tide_blob_unref(job->values);
    job->values = NULL;
    tide_free(job->deltas);
    job->deltas = NULL;
    tide_free(job->fresh);
    job->fresh = NULL;
    job->fresh_count = 0;
    tide__misses_release(&job->misses);
    job->at = 0;
}

void tide__job_free(struct tide_store *store, struct tide__job *job) {
    job_reset(job);
    store->parked_bytes -= job->copy_bytes;
    tide_free(job->copy);
    tide_free(job->waiters);
    tide_free(job->failed);
    tide_free(job);
}

/* ---- answers ---- */

static void reply_error(struct tide_store *store, uint16_t origin, uint64_t id, int code, const char *text,
                        const struct tide__job *job, const uint32_t *indices, size_t count) {
    struct tide_writer w;
    uint8_t buffer[256];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 7);
    tide_write_uint(&w, TIDE__OP_REPLY);
    tide_write_uint(&w, id);
    tide_write_int(&w, code);
    tide_write_text(&w, text);
    if (job) {
        tide_write_typed_head(&w, TIDE_U32, count);
        uint8_t *out = tide_write_reserve(&w, count * 4);
        for (size_t i = 0; out && i < count; i++) {
            uint32_t position = tide__job_position_at(job, indices ? indices[i] : i);
            memcpy(out + i * 4, &position, 4);
        }
    } else {
        tide_write_nil(&w);
    }
    tide_write_uint(&w, count);
    tide_write_nil(&w);
    if (!w.error) {
        (void)tide__store_send(store, origin, TIDE_LANE_ANSWER, true, w.data, w.size, NULL);
    }
    tide_writer_release(&w);
}

void tide__job_error(const struct tide__job *job, int code, const char *text, const uint32_t *indices, size_t count) {
    struct tide_store *store = job->table->store;
    if (job->id == 0) {
        return;
    }
    if (job->origin == tide__store_self(store)) {
        uint32_t *positions = tide_alloc((count ? count : 1) * sizeof *positions);
        for (size_t i = 0; positions && i < count; i++) {
            positions[i] = tide__job_position_at(job, indices ? indices[i] : i);
        }
        if (positions) {
            tide__pending_answer(store, 0, job->id, code, text, positions, count, TIDE_F32, NULL, 0);
        }
        tide_free(positions);
        return;
    }
    reply_error(store, job->origin, job->id, code, text, job, indices, count);
}

/* Which keys of a job an answer is for, in order: neither misses nor, of those that have rows to go
 * back and those that have none, the others. */
struct answered {
    const struct tide__job *job;
    bool fresh;
    size_t next, next_miss;
};

/* UINT32_MAX: there are no more. */
static uint32_t next_answered(struct answered *a) {
    const struct tide__job *job = a->job;
    while (a->next < job->count) {
        const size_t i = a->next++;
        if (a->next_miss < job->misses.count && job->misses.at[a->next_miss] == i) {
            a->next_miss++;
        } else if (!job->fresh || job->fresh[i] == a->fresh) {
            return (uint32_t)i;
        }
    }
    return UINT32_MAX;
}

/* The positions of `done` keys into the message; their rows are closed up over the gaps. */
static const uint8_t *write_answered(struct answered *a, size_t done, float *values, struct tide_writer *w) {
    const size_t floats = tide__job_floats(a->job);
    tide_write_typed_head(w, TIDE_U32, done);
    uint8_t *out = tide_write_reserve(w, done * 4);
    for (size_t to = 0; out && to < done; to++) {
        const uint32_t i = next_answered(a), position = tide__job_position_at(a->job, i);
        memcpy(out + to * 4, &position, 4);
        if (values && to != i) {
            memmove(values + to * floats, values + i * floats, floats * sizeof *values);
        }
    }
    return out;
}

/* For `done` keys of the job; values: their rows go back, row i at i. */
static void reply(struct tide__job *job, size_t done, struct tide_blob *values) {
    struct tide_store *store = job->table->store;
    const size_t floats = tide__job_floats(job);
    if (done == 0) {
        return;
    }
    struct tide_writer w;
    uint8_t buffer[128];
    tide_writer_init(&w, buffer, sizeof buffer);
    const bool unreplicated = job->kind == TIDE__PUSH && job->table->operations->groups &&
                              job->origin != tide__store_self(store) &&
                              job->table->operations->at_risk(job->table, job->origin, done, true);
    tide_write_array(&w, unreplicated ? 8 : 7);
    tide_write_uint(&w, TIDE__OP_REPLY);
    tide_write_uint(&w, job->id);
    tide_write_int(&w, 0);
    tide_write_nil(&w);
    const uint8_t *positions = job->positions;
    if (done == job->count && !positions) {
        tide_write_nil(&w);
    } else {
        struct answered answered = {.job = job, .fresh = values};
        positions = write_answered(&answered, done, values ? values->data : NULL, &w);
    }
    if (job->origin == tide__store_self(store)) {
        if (!w.error) { /* before anything else is written: positions lie in the writer */
            tide__pending_answer(store, 0, job->id, 0, NULL, positions, done, TIDE_F32, values ? values->data : NULL,
                                 floats * sizeof(float));
        }
        tide_writer_release(&w);
        return;
    }
    tide_write_uint(&w, done);
    if (values) {
        const uint8_t code = tide__job_code(job);
        if (code != TIDE_F32) {
            tide__floats_to_half(values->data, values->data, done * floats, job->table->options.wire);
        }
        values->size = done * tide__job_wire_row(job);
        tide_write_typed_head(&w, code, done * floats);
    } else {
        tide_write_nil(&w);
    }
    if (unreplicated) {
        tide_write_uint(&w, job->table->id);
    }
    if (!w.error) {
        (void)tide__store_send(store, job->origin, TIDE_LANE_ANSWER, true, w.data, w.size, values);
    }
    tide__table_count(job->table, TIDE__MESSAGES_OUT, 1);
    tide__table_count(job->table, TIDE__BYTES_OUT, w.size + (values ? values->size : 0));
    tide_writer_release(&w);
}

void tide__job_reply(struct tide__job *job) {
    const size_t done = job->count - job->misses.count;
    if (job->kind == TIDE__PUSH) {
        reply(job, done - job->fresh_count, NULL);
        reply(job, job->fresh_count, job->values);
    } else {
        reply(job, done, job->values);
    }
}

/* ---- what is not served here ---- */

/* The keys of `job` at `indices`, as a message like the one it came in. */
static int write_part(const struct tide__job *job, unsigned hops, const uint32_t *indices, const uint32_t *terms,
                      size_t count, struct tide_writer *w) {
    const size_t row = tide__job_wire_row(job);
    const bool ids = job->table->operations->groups;
    tide_write_array(w, tide__job_fields(job->table, job->kind));
    tide_write_uint(w, job->kind);
    tide_write_uint(w, job->table->id);
    tide_write_uint(w, job->id);
    tide_write_uint(w, ids ? job->map_version : atomic_load_explicit(&job->table->map_version, memory_order_relaxed));
    tide_write_uint(w, job->origin);
    tide_write_uint(w, hops);
    tide_write_uint(w, job->flags);
    if (job->kind == TIDE__PUSH) {
        tide_write_uint(w, job->stamp);
    }
    if (ids) {
        const uint64_t numbers[2] = {job->sequence, job->low};
        tide_write_typed(w, TIDE_U64, numbers, 2);
    } else if (job->kind == TIDE__LOC) {
        tide_write_typed_head(w, TIDE_U32, count);
        uint8_t *seen = tide_write_reserve(w, count * 4);
        for (size_t i = 0; seen && i < count; i++) {
            memcpy(seen + i * 4, job->terms + (size_t)indices[i] * 4, 4);
        }
    } else if (terms) {
        tide_write_typed(w, TIDE_U32, terms, count);
    } else if (tide__job_has_terms(job->table, job->kind)) {
        tide_write_nil(w);
    }
    const bool all = count == job->count;
    if (all && !job->positions) {
        tide_write_nil(w);
    } else {
        tide_write_typed_head(w, TIDE_U32, count);
        uint8_t *positions = tide_write_reserve(w, count * 4);
        for (size_t i = 0; positions && i < count; i++) {
            uint32_t position = tide__job_position_at(job, indices[i]);
            memcpy(positions + i * 4, &position, 4);
        }
    }
    tide_write_typed_head(w, TIDE_U64, count);
    uint8_t *keys = tide_write_reserve(w, count * 8);
    if (keys && all) {
        memcpy(keys, job->keys, count * 8);
    }
    for (size_t i = 0; keys && !all && i < count; i++) {
        memcpy(keys + i * 8, job->keys + (size_t)indices[i] * 8, 8);
    }
    if (job->kind == TIDE__PUSH) {
        tide_write_typed_head(w, tide__job_code(job), count * tide__job_floats(job));
        uint8_t *rows = tide_write_reserve(w, count * row);
        for (size_t i = 0; rows && i < count; i++) {
            memcpy(rows + i * row, job->rows + (size_t)indices[i] * row, row);
        }
    }
    return w->error;
}

/* "Your map is old": the new homes of the slots of these keys. */
void tide__job_tell_map(const struct tide__job *job, const uint32_t *indices, size_t count, uint16_t home) {
    struct tide_table *table = job->table;
    uint32_t slots[256], homes[256], versions[256];
    size_t found = 0;
    for (size_t i = 0; i < count && found < TIDE_COUNT(slots); i++) {
        uint32_t slot = tide__slot_of(table, tide__job_key_at(job, indices[i]));
        bool known = false;
        for (size_t j = 0; j < found && !known; j++) {
            known = slots[j] == slot;
        }
        if (!known) {
            slots[found] = slot;
            homes[found] = home;
            versions[found++] = table->slot_versions[slot];
        }
    }
    (void)tide__store_tell(table->store, job->origin,
                           TIDE__AS(MAP, .table = table->id, .id = job->id, .passed_on = home,
                                    .slots = TIDE__LIST(slots, found), .homes = TIDE__LIST(homes, found),
                                    .versions = TIDE__LIST(versions, found)));
}

int tide__job_pass(const struct tide__job *job, const uint32_t *indices, const uint32_t *terms, size_t count,
                   uint16_t to) {
    struct tide_store *store = job->table->store;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    int code = tide__member_gone(store, to) ? TIDE_EDIED : write_part(job, job->hops + 1u, indices, terms, count, &w);
    if (!code) { /* prepaid: the origin's credit covers every leg */
        code = tide__store_send(store, to, TIDE_LANE_STORE, true, w.data, w.size, NULL);
    }
    tide_writer_release(&w);
    return code;
}

static void forward(const struct tide__job *job, const uint32_t *indices, size_t count, uint16_t home) {
    struct tide_table *table = job->table;
    struct tide_store *store = table->store;
    char name[96], text[160];
    tide__node_text(store, home, name);
    if (job->hops + 1 >= TIDE__HOPS_MAX) {
        (void)snprintf(text, sizeof text, "an operation was passed on %d times", TIDE__HOPS_MAX);
        tide__job_error(job, TIDE_EREFUSED, text, indices, count);
        return;
    }
    int code = tide__job_pass(job, indices, NULL, count, home);
    if (code && table->operations->groups) { /* its death will change the group */
        tide__job_park(job, indices, count);
        return;
    }
    if (code) {
        (void)snprintf(text, sizeof text, "node %s %s", name, code == TIDE_EDIED ? "died" : "cannot be reached");
        tide__job_error(job, code, text, indices, count);
        return;
    }
    tide__table_count(table, TIDE__FORWARDED, job->own ? 0 : count);
    if (job->origin == tide__store_self(store) && table->operations->groups) {
        for (size_t i = 0; i < count; i++) {
            tide__pending_moved(store, job->id, tide__job_position_at(job, indices[i]), home);
        }
    } else if (job->origin == tide__store_self(store)) {
        tide__pending_passed_on(store, job->id, home);
    } else if (!table->operations->groups) { /* of groups the controller notifies */
        tide__job_tell_map(job, indices, count, home);
    }
}

/* A copy of a part of the job that waits on its own. NULL: out of memory or over the limit. */
struct tide__job *tide__job_detach(const struct tide__job *job, const uint32_t *indices, size_t count) {
    struct tide_store *store = job->table->store;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    struct tide__job *part = tide_alloc_zero(1, sizeof *part);
    if (!part || write_part(job, job->hops, indices, NULL, count, &w) ||
        store->parked_bytes + w.size > tide_limit(store_parked_bytes)) {
        tide_free(part);
        tide_writer_release(&w);
        return NULL;
    }
    const int parsed = tide__job_parse(w.data, w.size, store, part);
    TIDE_ASSERT(parsed == 0); /* we wrote it */
    part->copy = w.data;      /* no initial buffer: it is on the heap */
    part->copy_bytes = w.size;
    part->own = job->own || job->returned;
    part->returned = job->returned;
    part->queued_once = true;
    store->parked_bytes += w.size;
    return part;
}

void tide__job_park(const struct tide__job *job, const uint32_t *indices, size_t count) {
    struct tide_table *table = job->table;
    struct tide__job *part = tide__job_detach(job, indices, count);
    if (!part) {
        tide__job_error(job, TIDE_EBUSY, "too many operations wait for slots on the move", indices, count);
        if (table->operations->owners && job->own && job->kind != TIDE__LOCALIZE) {
            table->operations->take_back(table, job->keys, indices, count);
        }
        return;
    }
    *table->parked_end = part;
    table->parked_end = &part->next;
    if (!job->queued_once) {
        tide__table_count(table, TIDE__QUEUED, count);
    }
}

enum { PARKED = 0, DROPPED = UINT16_MAX };

/* Does an operation wait for a group that this node has not received yet? */
static bool waits_for_group(const struct tide__job *job, uint16_t to) {
    const struct tide_table *table = job->table;
    return table->operations->groups &&
           (tide__member_gone(table->store, to) ||
            job->map_version > atomic_load_explicit(&table->map_version, memory_order_relaxed));
}

/* Where a missed key of a job goes: a node, or one of these. Of a table with copies nothing is
 * passed on for an origin that has not received the new home: it resends all that is unanswered,
 * in order, when it does, and what went from here could come there before an earlier one.
 */
static uint16_t destination(const struct tide__job *job, uint32_t index) {
    const struct tide_table *table = job->table;
    uint32_t slot = tide__slot_of(table, tide__job_key_at(job, index));
    uint32_t route = atomic_load_explicit(&table->slots[slot].route, memory_order_relaxed);
    if ((route & TIDE__MINE) || (job->own && (route & TIDE__OWN_HOLD)) ||
        waits_for_group(job, tide__route_home(route))) {
        return PARKED;
    }
    const bool again = table->operations->groups && job->origin != tide__store_self(table->store) &&
                       job->map_version < table->slot_versions[slot];
    return again && !TIDE_MUTANT(passed_on_early) ? DROPPED : tide__route_home(route);
}

/* Parks and forwards the misses; keys of one destination go together, in order. */
static void dispatch_misses(const struct tide__job *job, const struct tide__misses *m) {
    uint32_t *rest = tide_alloc(2 * m->count * sizeof *rest);
    if (!rest) {
        tide__job_error(job, TIDE_ENOMEM, "no memory to pass an operation on", m->at, m->count);
        return;
    }
    uint32_t *part = rest + m->count;
    size_t left = m->count;
    memcpy(rest, m->at, left * sizeof *rest);
    while (left) {
        uint16_t to = destination(job, rest[0]);
        size_t in_part = 0, kept = 0;
        for (size_t i = 0; i < left; i++) {
            if (destination(job, rest[i]) == to) {
                part[in_part++] = rest[i];
            } else {
                rest[kept++] = rest[i];
            }
        }
        left = kept;
        if (to == PARKED) {
            tide__job_park(job, part, in_part);
        } else if (to != DROPPED) {
            forward(job, part, in_part, to);
        }
    }
    tide_free(rest);
}

static bool is_lost(const struct tide_table *table, uint64_t key) {
    const struct tide__slot *slot = &table->slots[tide__slot_of(table, key)];
    return atomic_load_explicit(&slot->route, memory_order_relaxed) & TIDE__LOST;
}

void tide__job_pass_misses(struct tide__job *job, const uint32_t *indices, size_t count) {
    uint32_t *at = tide_alloc(2 * count * sizeof *at), *lost = at + count;
    size_t kept = 0, lost_count = 0;
    for (size_t i = 0; at && i < count; i++) {
        if (is_lost(job->table, tide__job_key_at(job, indices[i]))) {
            lost[lost_count++] = indices[i];
        } else {
            at[kept++] = indices[i];
        }
    }
    if (!at) {
        tide__job_error(job, TIDE_ENOMEM, "no memory to pass an operation on", indices, count);
    }
    if (lost_count) {
        const uint64_t key = tide__job_key_at(job, lost[0]);
        (void)tide__lost_fail(job->table, tide__slot_of(job->table, key), key);
        tide__job_error(job, TIDE_ELOST, tide_error_message(), lost, lost_count);
    }
    if (kept) {
        struct tide__misses misses = {.at = at, .count = kept};
        dispatch_misses(job, &misses);
    }
    tide_free(at);
}

/* ---- execution ---- */

int tide__job_prepare(struct tide__job *job) {
    if (job->kind == TIDE__PULL && !job->values) {
        job->values = tide_blob_create(job->count * tide__job_floats(job) * sizeof(float));
        return job->values ? 0 : TIDE_ENOMEM;
    }
    if (job->kind == TIDE__PUSH && tide__job_code(job) != TIDE_F32 && !job->deltas) {
        const size_t floats = job->count * tide__job_floats(job);
        job->deltas = tide_alloc(floats * sizeof *job->deltas);
        if (!job->deltas) {
            return TIDE_ENOMEM;
        }
        tide__half_to_floats(job->rows, job->deltas, floats, job->table->options.wire);
    }
    return 0;
}

int tide__job_make_fresh(struct tide__job *job) {
    if (job->fresh) {
        return 0;
    }
    job->values = tide_blob_create(job->count * tide__job_floats(job) * sizeof(float));
    job->fresh = job->values ? tide_alloc_zero(job->count, 1) : NULL;
    if (!job->fresh) {
        tide_blob_unref(job->values);
        job->values = NULL;
    }
    return job->fresh ? 0 : TIDE_ENOMEM;
}

/* After the push: the rows that others have changed since its origin read them. */
static void read_fresh(struct tide__job *job) {
    struct tide_table *table = job->table;
    uint32_t *at = tide_alloc(job->count * sizeof *at);
    size_t count = 0;
    struct answered pushed = {.job = job};
    for (uint32_t i = 0; at && (i = next_answered(&pushed)) != UINT32_MAX;) {
        if (tide__hot_face(table)->subscribe(job, i) > 0) {
            at[count++] = i;
        }
    }
    struct tide__misses misses;
    struct tide__pass pass = {.table = table,
                              .keys = job->keys,
                              .index = at,
                              .count = count,
                              .out = job->values ? job->values->data : NULL,
                              .mask = TIDE__FOR_FOREIGN,
                              .raw = job->raw,
                              .patient = true,
                              .stamp = TIDE_NO_CLOCK,
                              .misses = &misses};
    tide__misses_init(&misses);
    const int code = count ? tide__pass_pull(&pass) : 0;
    TIDE_ASSERT(!code && misses.count == 0); /* they have just been pushed to, by this thread */
    tide_free(at);
}

/* 0: all of it is executed, answered, parked or in flight. EBUSY: a row is locked; call again with
 * the same job. */
static int process(struct tide__job *job) {
    struct tide_table *table = job->table;
    if (TIDE_BUGGIFY(row_busy)) {
        return TIDE_EBUSY;
    }
    if (job->at == 0) {
        tide__misses_init(&job->misses);
    }
    int code = tide__job_prepare(job);
    struct tide__pass pass = {.table = table,
                              .keys = job->keys,
                              .count = job->count,
                              .at = job->at,
                              .out = job->values ? job->values->data : NULL,
                              .in = job->deltas ? (const uint8_t *)job->deltas : job->rows,
                              .mask = job->own ? TIDE__FOR_OWN : TIDE__FOR_FOREIGN,
                              .raw = job->raw,
                              .flags = job->flags,
                              .changer = tide__job_changer(job),
                              .patient = false,
                              .stamp = job->stamp,
                              .misses = &job->misses};
    const bool subscribes = job->flags & TIDE__SUBSCRIBES;
    if (!code && subscribes && job->kind == TIDE__PULL) {
        code = tide__hot_face(table)->subscribe(job, TIDE__ALL_KEYS);
    }
    if (!code) {
        code = job->kind == TIDE__PULL ? tide__pass_pull(&pass) : tide__pass_push(&pass);
        job->at = pass.at;
    }
    if (code == TIDE_EBUSY) {
        return code;
    }
    if (code) {
        tide__job_error(job, code, tide_error_message(), NULL, job->count);
    } else {
        tide__table_count(table, job->kind == TIDE__PULL ? TIDE__SERVED_PULLS : TIDE__SERVED_PUSHES,
                          job->origin == tide__store_self(table->store) ? 0 : job->count - job->misses.count);
        if (subscribes && job->kind == TIDE__PUSH) {
            read_fresh(job);
        }
        if (job->misses.count) {
            /* before the reply moves the rows; positions are read from the message */
            dispatch_misses(job, &job->misses);
        }
        tide__job_reply(job);
    }
    if (job->own && !job->queued_once) {
        /* release: as in tide__strict_job */
        atomic_fetch_add_explicit(&table->self_handled, 1, memory_order_release);
    }
    return 0;
}

void tide__retry_later(struct tide_store *store, uint64_t delay) {
    uint64_t id;
    if (!store->timer_set && tide_timer_start(TIDE_MUTANT(retry_at_once) ? 0 : delay, &id) == 0) {
        store->timer_set = true;
    }
}

static void stall(struct tide_store *store, struct tide__job *job) {
    TIDE_SOMETIMES(job_stalled);
    *store->stalled_end = job;
    store->stalled_end = &job->next;
    tide__retry_later(store, tide_limit(store_retry));
}

void tide__stalled_retry(struct tide_store *store) {
    while (store->stalled) {
        struct tide__job *job = store->stalled;
        if (process(job) == TIDE_EBUSY) {
            tide__retry_later(store, tide_limit(store_retry));
            return;
        }
        store->stalled = job->next;
        if (!store->stalled) {
            store->stalled_end = &store->stalled;
        }
        tide__job_free(store, job);
    }
    TIDE_ASSERT(store->stalled_end == &store->stalled);
}

/* What is parked has been looked at before all that is stalled came: it goes first. */
static void parked_before_stalled(struct tide_store *store, struct tide__job *first, struct tide__job **end) {
    TIDE_SOMETIMES(parked_jobs_resumed);
    if (TIDE_MUTANT(move_parked_last)) {
        *store->stalled_end = first;
        store->stalled_end = end;
    } else {
        store->stalled_end = store->stalled ? store->stalled_end : end;
        *end = store->stalled;
        store->stalled = first;
    }
    tide__stalled_retry(store);
}

/* Operations that came back go first, whenever they were parked: those that wait for them on the
 * same key (location_cache.h) were called after them. */
static struct tide__job *returned_first(struct tide__job *job) {
    struct tide__job *returned = NULL, *others = NULL;
    struct tide__job **returned_end = &returned, **others_end = &others;
    for (; job; job = job->next) {
        if (job->returned && !TIDE_MUTANT(returned_in_line)) {
            *returned_end = job;
            returned_end = &job->next;
        } else {
            *others_end = job;
            others_end = &job->next;
        }
    }
    *others_end = NULL;
    *returned_end = others;
    return returned;
}

void tide__parked_retry(struct tide_table *table) {
    struct tide__job *job = table->parked, **end = table->parked_end, *next;
    table->parked = NULL;
    table->parked_end = &table->parked;
    if (job && table->operations->in_line) {
        parked_before_stalled(table->store, job, end);
        return;
    }
    for (job = returned_first(job); job; job = next) {
        next = job->next;
        job->next = NULL;
        tide__table_job(job);
        tide__job_free(table->store, job);
    }
}

/* ---- messages ---- */

static bool keys_in_range(const struct tide__job *job, uint64_t *bad) {
    if (job->table->options.keys == TIDE_KEYS_HASHED) {
        return true;
    }
    for (size_t i = 0; i < job->count; i++) {
        if (tide__job_key_at(job, i) >= job->table->options.key_count) {
            *bad = tide__job_key_at(job, i);
            return false;
        }
    }
    return true;
}

static void answer_refusal(struct tide_store *store, const struct tide__job *job, int code, const char *text) {
    if (job->origin != 0 && job->id != 0) {
        reply_error(store, job->origin, job->id, code, text, NULL, NULL, 0);
    }
}

static int refuse(struct tide_store *store, const struct tide__job *job, int code, const char *text) {
    answer_refusal(store, job, code, text);
    return TIDE_EPROTO;
}

/* What tables with groups, and those with owners, say more. False: it is damaged. */
static bool read_extra(struct tide_reader *r, struct tide__job *job, size_t *terms) {
    if (job->table->operations->groups) {
        size_t count = 0;
        const uint8_t *numbers = tide_read_typed(r, TIDE_U64, &count);
        if (!numbers || count != 2) {
            return false;
        }
        memcpy(&job->sequence, numbers, sizeof job->sequence);
        memcpy(&job->low, numbers + 8, sizeof job->low);
    } else if (tide__job_has_terms(job->table, job->kind) && (job->kind == TIDE__LOC || !tide_read_nil(r))) {
        job->terms = tide_read_typed(r, TIDE_U32, terms);
        return job->terms;
    }
    return true;
}

int tide__job_parse(const void *body, size_t size, struct tide_store *store, struct tide__job *job) {
    struct tide_reader r;
    tide_reader_init(&r, body, size);
    size_t fields = tide_read_array(&r), positions = 0, terms = 0, count = 0, values = 0;
    uint64_t kind = tide_read_uint(&r), table_id = tide_read_uint(&r);
    job->id = tide_read_uint(&r);
    uint64_t map_version = tide_read_uint(&r);
    uint64_t origin = tide_read_uint(&r), hops = tide_read_uint(&r);
    uint64_t flags = tide_read_uint(&r);
    job->flags = (uint8_t)(flags & TIDE__FLAGS);
    job->raw = flags & TIDE__RAW;
    uint64_t stamp = kind == TIDE__PUSH ? tide_read_uint(&r) : TIDE_NO_CLOCK;
    job->stamp = (uint32_t)stamp;
    job->map_version = (uint32_t)map_version;
    job->origin = origin <= UINT16_MAX ? (uint16_t)origin : 0;
    job->kind = (uint8_t)kind;
    job->hops = hops < TIDE__HOPS_MAX ? (uint8_t)hops : TIDE__HOPS_MAX;
    job->table = tide__table_by_id(store, table_id);
    char text[160];
    if (!r.error && !job->table) {
        (void)snprintf(text, sizeof text, "no table with id %llu here", (unsigned long long)table_id);
        TIDE_SOMETIMES(operation_on_a_dropped_table);
        answer_refusal(store, job, TIDE_ENOENT, text); /* dropped while it was in flight */
        return TIDE_ENOENT;
    }
    const bool whole = !r.error && fields == tide__job_fields(job->table, kind) && read_extra(&r, job, &terms);
    job->positions = tide_read_nil(&r) ? NULL : tide_read_typed(&r, TIDE_U32, &positions);
    job->keys = tide_read_typed(&r, TIDE_U64, &count);
    if (!whole || r.error || count == 0 || count > UINT32_MAX / 2 || (job->positions && positions != count) ||
        (job->terms && terms != count) || stamp > TIDE_NO_CLOCK || flags > TIDE__FLAGS || hops >= TIDE__HOPS_MAX ||
        origin == 0 || origin > UINT16_MAX) {
        return refuse(store, job, TIDE_EPROTO, "a damaged operation");
    }
    job->count = (uint32_t)count;
    if (kind == TIDE__PUSH) {
        job->rows = tide_read_typed(&r, tide__job_code(job), &values);
        if (r.error || values % tide__job_floats(job) != 0 || values / tide__job_floats(job) != count) {
            return refuse(store, job, TIDE_EPROTO, "rows do not match the keys");
        }
    } else if (kind != TIDE__PULL && !job->table->operations->owners) {
        return refuse(store, job, TIDE_EREFUSED, "this table does not relocate");
    } else if (kind == TIDE__PULL && count > REPLY_BYTES_MAX / (tide__job_floats(job) * sizeof(float)) + 1) {
        return refuse(store, job, TIDE_ELIMIT, "more rows than fit an answer");
    }
    uint64_t bad;
    if (!keys_in_range(job, &bad)) {
        (void)snprintf(text, sizeof text, "key %llu is outside table '%s' (0..%llu)", (unsigned long long)bad,
                       job->table->name, (unsigned long long)(job->table->options.key_count - 1));
        return refuse(store, job, TIDE_ERANGE, text);
    }
    return 0;
}

void tide__table_job(struct tide__job *job) {
    const bool done = job->table->operations->job(job);
    TIDE_ASSERT(done); /* not in line: a row's holder is about to release it */
}

static int operation(struct tide_store *store, uint16_t from, const struct tide_message *message) {
    struct tide__job job;
    memset(&job, 0, offsetof(struct tide__job, misses));
    job.copy = NULL;
    job.copy_bytes = 0;
    tide__misses_init(&job.misses);
    const int parsed = tide__job_parse(message->data, message->size, store, &job);
    if (parsed) {
        return parsed;
    }
    job.blob = tide_message_blob(message);
    job.from = from;
    job.own = from == tide__store_self(store) && job.hops == 0 && job.origin == from;
    if (job.origin != tide__store_self(store)) {
        tide__load_served(&job);
    }
    tide__table_count(job.table, TIDE__BYTES_IN, message->size);
    if (job.origin != tide__store_self(store) && tide__memory_admit_job(&job)) {
        tide__job_error(&job, TIDE_EBUSY, tide_error_message(), NULL, job.count);
        if (!TIDE_MUTANT(memory_refused_applied)) {
            return 0;
        }
        job.id = 0; /* it gets no answer any more */
    }
    if (job.table->operations->job(&job)) {
        job_reset(&job);
        return 0;
    }
    /* It has to wait for a row: keep the message and start it over or continue where the walk stopped.
     */
    struct tide__job *kept = tide_alloc(sizeof *kept);
    uint8_t *copy = tide_alloc(message->size);
    if (!kept || !copy) {
        tide__job_error(&job, TIDE_ENOMEM, "no memory to queue an operation", NULL, job.count);
        job_reset(&job);
        tide_free(kept);
        tide_free(copy);
        return 0;
    }
    memcpy(copy, message->data, message->size);
    memcpy(kept, &job, sizeof job);
    if (job.misses.at == job.misses.small) {
        kept->misses.at = kept->misses.small;
    }
    kept->blob = NULL;
    kept->copy = copy;
    kept->copy_bytes = message->size;
    store->parked_bytes += message->size;
    kept->positions = job.positions ? copy + (job.positions - message->data) : NULL;
    kept->keys = copy + (job.keys - message->data);
    kept->rows = job.rows ? copy + (job.rows - message->data) : NULL;
    stall(store, kept);
    return 0;
}

int tide__operation_message(struct tide_store *store, struct tide__incoming *in) {
    const bool own = in->from == tide__store_self(store);
    const uint64_t began = own ? 0 : tide_port_now(store->port);
    const int code = operation(store, in->from, in->message);
    if (!own) {
        tide__load_busy(store, began);
    }
    return code;
}

/* ---- plain tables ---- */

bool tide__plain_job(struct tide__job *job) {
    return !job->table->store->stalled && process(job) != TIDE_EBUSY;
}

static const struct tide__operations plain = {.in_line = true, .walk = tide__walk, .job = tide__plain_job};

static int plain_create(struct tide_table *table, const uint64_t *chains) {
    (void)chains;
    table->operations = &plain;
    return 0;
}

const struct tide__technique tide__plain = {.name = "plain", .table_create = plain_create};

void tide__shard_release(struct tide_store *store) {
    while (store->stalled) {
        struct tide__job *job = store->stalled;
        store->stalled = job->next;
        tide__job_free(store, job);
    }
    unsigned count = atomic_load(&store->table_count);
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        while (table && table->parked) {
            struct tide__job *job = table->parked;
            table->parked = job->next;
            tide__job_free(store, job);
        }
    }
}
