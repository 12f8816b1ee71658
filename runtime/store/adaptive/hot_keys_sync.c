/*
 * The rounds of a table's copies (hot_keys.h): a fiber of the node, on the thread of the store actor.
 *
 * A round takes the keys that workers, notices and intents have listed. What accumulated in copies
 * is pushed to the owners first, and answered, before any row is pulled; where others changed a
 * row, it comes with the answer (subscribe.c). So every row that comes has in it all that this node
 * ever sent, and what its workers pushed since is added to it again (copy_record.c). The next round
 * begins no sooner than 1/hz later, nor before this one has been followed by a rest of several
 * times the work in it, a second at most, and only when there is something to do.
 */
#include "store/core/send.h"
#include "store/core/table_drop.h"
#include "store/operation/inbox.h"
#include "store/rows/slot_index.h"
#include "store/adaptive/intent.h"
#include "tide/stats.h"

#include <math.h>

enum {
    LOOK_NS = 200000,
    REST = 4,                 /* after a round, in times the work in it: rounds leave most of the links to others */
    REST_MAX_NS = 1000000000, /* a long round waited for a stalled node */
    REST_BYTES = 128 * 1024,  /* of rows: take about as long as the answers are waited for */
};

struct batch {
    struct tide__hot_table *s;
    size_t count, most;
    uint64_t *keys;
    uint64_t *since; /* updates: since when they waited; rows: since when they are newer */
    uint64_t *newer; /* updates: since when the row is newer; 0: as far as is known it is not */
    int *fates;
    struct tide_blob *blob; /* of the rows: updates are kept in it until they are answered */
    float *rows;            /* to be sent; a row that comes with the answer takes its update's place */
};

static int batch_init(struct batch *b, struct tide__hot_table *s) {
    const size_t row = s->shape.floats * sizeof *b->rows;
    const size_t most = tide_limit(store_copy_batch_bytes) / row;
    const size_t keys = tide_limit(store_copy_batch_keys);
    *b = (struct batch){.s = s, .most = most < 1 ? 1 : most > keys ? keys : most};
    b->keys = tide_alloc(b->most * sizeof *b->keys);
    b->since = tide_alloc(b->most * sizeof *b->since);
    b->newer = tide_alloc(b->most * sizeof *b->newer);
    b->fates = tide_alloc(b->most * sizeof *b->fates);
    b->blob = tide_blob_create(b->most * row);
    b->rows = b->blob ? b->blob->data : NULL;
    return b->keys && b->since && b->newer && b->fates && b->rows
               ? 0
               : tide_fail(TIDE_ENOMEM, "no memory for the copies of table '%s'", s->table->name);
}

static void batch_release(struct batch *b) {
    tide_free(b->keys);
    tide_free(b->since);
    tide_free(b->newer);
    tide_free(b->fates);
    tide_blob_unref(b->blob);
}

static uint64_t now_of(const struct tide__hot_table *s) {
    return tide_port_now(s->table->store->port);
}

static void age_add(struct tide__ages *ages, uint64_t age) {
    tide__share_count(&ages->count, 1);
    tide__share_count(&ages->sum_ns, age);
    if (age > atomic_load_explicit(&ages->max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&ages->max_ns, age, memory_order_relaxed);
    }
}

void tide__ages_read(const struct tide__ages *ages, struct tide_share_age *out) {
    const uint64_t count = atomic_load_explicit(&ages->count, memory_order_relaxed);
    const uint64_t sum = atomic_load_explicit(&ages->sum_ns, memory_order_relaxed);
    *out = (struct tide_share_age){.mean_ns = count ? sum / count : 0,
                                   .max_ns = atomic_load_explicit(&ages->max_ns, memory_order_relaxed)};
}

/* The owner, or the node that knew it, is gone: a retry would be useless. */
static bool is_gone(int code) {
    return code == TIDE_EDIED || code == TIDE_ELOST || code == TIDE_EUNREACHABLE || code == TIDE_EFENCED ||
           code == TIDE_ECLOSED;
}

/* A pull or push of the fiber: waits. flags: enum tide__operation_flags. fates: of each key (enum
 * tide__fate), also after an error; may be NULL. *sent: what was not served in place is done, or
 * failed at the other end. */
static int exchange(struct tide__hot_table *s, enum tide__kind kind, uint8_t flags, const uint64_t *keys, size_t count,
                    float *rows, int *fates, bool *sent) {
    struct tide__ticket ticket;
    struct tide__misses misses;
    *sent = false;
    tide__ticket_init(&ticket, s->table, kind, rows);
    tide__misses_init(&misses);
    ticket.fates = fates;
    for (size_t i = 0; fates && i < count; i++) {
        fates[i] = TIDE__FATE_HERE;
    }
    struct tide__pass pass = {.table = s->table,
                              .keys = keys,
                              .count = count,
                              .out = rows,
                              .in = (const uint8_t *)rows,
                              .mask = TIDE__FOR_WORKER,
                              .raw = flags & TIDE__RAW,
                              .flags = flags,
                              .changer = flags & TIDE__OF_COPY ? tide__store_self(s->table->store) : 0,
                              .hands_over = true,
                              .patient = true,
                              .stamp = TIDE_NO_CLOCK,
                              .misses = &misses};
    int code = TIDE_BUGGIFY(exchange_refused) ? tide_fail(TIDE_EBUSY, "no room for a message about copies")
                                              : tide__pass_run(&pass, kind, &ticket, true, sent);
    for (size_t i = 0; fates && i < misses.count; i++) { /* perhaps without an answer */
        int *fate = &fates[misses.at[i]];
        *fate = *fate == TIDE__FATE_HERE ? code : *fate;
    }
    for (size_t i = code && !*sent ? pass.at : count; fates && i < count; i++) { /* not looked at */
        fates[i] = code;
    }
    tide__misses_release(&misses);
    return code;
}

static uint8_t flags_of(const struct tide__hot_table *s) {
    return s->shape.floats > s->table->width ? TIDE__RAW : 0;
}

/* The record, latched; NULL: there is none. */
static struct tide__hot_key *lock(struct tide__hot_table *s, uint64_t key, atomic_uint_fast64_t **word, uint64_t *old) {
    struct tide__hot_key *k;
    return tide__hot_lock(s, key, false, true, word, old, &k) == TIDE__FOUND ? k : NULL;
}

/* Latched. What it holds is forgotten; operations go to the owner again. */
static void forget(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key) {
    tide__copy_record_drop(tide__hot_copy(k));
    tide__copy_record_init(&s->shape, tide__hot_copy(k), key);
    k->state = TIDE__COPY_NONE;
    k->ends = false;
    k->unseen_ns = k->unsent_ns = 0;
    if (!k->wanted) { /* to be released */
        tide__hot_list(s, k, key);
    }
    atomic_fetch_sub_explicit(&s->held, 1, memory_order_relaxed);
}

/* ---- rows that come ---- */

/* Latched: a row came, which has all that was sent. */
static void install(struct batch *b, struct tide__hot_key *k, uint64_t key, const float *row) {
    struct tide__hot_table *s = b->s;
    struct tide__copy_record *r = tide__hot_copy(k);
    struct tide__queued *queued = NULL;
    if (k->state == TIDE__COPY_COMING) {
        queued = k->queued;
        k->queued = k->queued_last = NULL;
        k->state = TIDE__COPY_HELD;
    }
    tide__copy_record_row(&s->shape, r, row, UINT64_MAX);
    k->unseen_ns = TIDE_MUTANT(share_notice_overtaken) ? 0 : k->unseen_ns;
    while (queued) {
        struct tide__queued *next = queued->next;
        (void)tide__hot_push(s, k, key, queued->delta);
        tide__hot_queued_free(s, queued);
        queued = next;
    }
    if (k->unseen_ns || k->ends) {
        tide__hot_list(s, k, key);
    }
}

/* Is the row itself here? Then workers use it; also if it came while the pull waited for it. */
static bool is_own(const struct batch *b, size_t i, uint64_t key) {
    uint16_t owner;
    return b->fates[i] == TIDE__FATE_HERE ||
           (!TIDE_MUTANT(share_copy_beside_row) && tide_table_where(b->s->table, key, &owner) == 0 &&
            owner == tide__store_self(b->s->table->store));
}

/* Latched: the i-th row is the key's; newer than its copy since `since` (0: unknown). */
static void row_came(struct batch *b, struct tide__hot_key *k, uint64_t key, size_t i, uint64_t since, uint64_t now) {
    struct tide__hot_table *s = b->s;
    k->ends |= is_own(b, i, key);
    tide__share_count(&s->rows_in, 1);
    if (since) {
        age_add(&s->rows, now - since);
    }
    install(b, k, key, b->rows + i * s->shape.floats);
}

/* ---- updates ---- */

static float largest(const float *values, size_t count) {
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fabsf(values[i]) > most ? fabsf(values[i]) : most;
    }
    return most;
}

/* NuPS, section 5.1: an update of many workers' steps is cut to a multiple of the mean length.
 * True: it was cut, and the copy has more than the owner gets. */
static bool clip(struct tide__hot_table *s, float *update) {
    double sum = 0;
    for (uint32_t i = 0; i < s->table->width; i++) {
        sum += (double)update[i] * (double)update[i];
    }
    double norm = sqrt(sum);
    const double limit = s->norm_count ? s->share.clip * s->norm_sum / (double)s->norm_count : 0;
    const bool cut = s->share.clip > 0 && s->norm_count >= TIDE__CLIP_SAMPLES && norm > limit;
    for (uint32_t i = 0; i < s->table->width && cut; i++) {
        update[i] *= (float)(limit / norm);
    }
    norm = cut ? limit : norm;
    if (isfinite(norm)) {
        s->norm_sum += norm;
        s->norm_count++;
    }
    tide__share_count(&s->clipped, cut);
    return cut;
}

/* Latched, of the i-th key: what it pushed is answered, or was never sent. */
static void update_answered(struct batch *b, struct tide__hot_key *k, size_t i, bool sent, uint64_t now) {
    struct tide__hot_table *s = b->s;
    struct tide__copy_record *r = tide__hot_copy(k);
    const int fate = b->fates[i];
    uint64_t newer = TIDE_MUTANT(share_news_forgotten) ? 0 : b->newer[i];
    if (fate < 0 && !sent && !TIDE_MUTANT(share_update_dropped)) {
        (void)tide__copy_record_unsend(&s->shape, r, 0);
        r->dirty = true;
        k->unsent_ns = b->since[i];
        tide__hot_list(s, k, b->keys[i]);
    } else {
        tide__copy_record_confirm(r, UINT64_MAX);
        age_add(&s->updates, now - b->since[i]);
        tide__share_count(&s->updates_failed, fate < 0);
        newer = newer || fate >= 0 ? newer : now; /* perhaps not at all there: the row decides */
    }
    if (fate == TIDE__FATE_ROW) {
        row_came(b, k, b->keys[i], i, newer, now);
    } else if (newer) {
        k->unseen_ns = newer;
        tide__hot_list(s, k, b->keys[i]);
    }
}

static void updates_answered(struct batch *b, bool sent) {
    const uint64_t now = now_of(b->s);
    for (size_t i = 0; i < b->count; i++) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = lock(b->s, b->keys[i], &word, &old);
        TIDE_ASSERT(k); /* records stay */
        update_answered(b, k, i, sent, now);
        tide__word_unlock(word, old);
    }
}

static int updates_send(struct batch *b) {
    struct tide__hot_table *s = b->s;
    const uint8_t raw = flags_of(s);
    bool sent;
    if (b->count == 0) {
        return 0;
    }
    const uint8_t flags = (uint8_t)(raw | (raw ? TIDE__SUMS : 0) | TIDE__OF_COPY | TIDE__SUBSCRIBES);
    int code = exchange(s, TIDE__PUSH, flags, b->keys, b->count, b->rows, b->fates, &sent);
    tide__share_count(&s->updates_out, b->count);
    updates_answered(b, sent);
    b->count = 0;
    return code && !sent ? code : code == TIDE_ECANCELED ? code : 0;
}

/* Latched, HELD and dirty. False: it waits for more, or for memory. */
static bool update_pack(struct batch *b, struct tide__hot_key *k, uint64_t key, bool all) {
    struct tide__hot_table *s = b->s;
    struct tide__copy_record *r = tide__hot_copy(k);
    const bool due = all || k->ends || !(s->share.threshold > 0) || now_of(s) - k->unsent_ns >= TIDE__SHARE_HOLD_NS ||
                     largest(tide__copy_record_acc(&s->shape, r), s->table->width) >= s->share.threshold;
    float *row = b->rows + b->count * s->shape.floats;
    if (!due || tide__copy_record_send(&s->shape, r, s->shape.all, ++s->number, b->blob, row)) {
        return false;
    }
    r->dirty = false;
    if (clip(s, row)) {
        k->unseen_ns = k->unseen_ns ? k->unseen_ns : now_of(s);
    }
    b->since[b->count] = k->unsent_ns;
    b->newer[b->count] = k->unseen_ns;
    b->keys[b->count++] = key;
    k->unsent_ns = k->unseen_ns = 0; /* what comes from here on is seen next time */
    return true;
}

/* `all`: what is below the threshold too. */
static int updates(struct batch *b, const uint64_t *keys, size_t count, bool all) {
    struct tide__hot_table *s = b->s;
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = lock(s, keys[i], &word, &old);
        if (!k) {
            continue;
        }
        k->listed = false;
        if (k->state == TIDE__COPY_HELD && tide__hot_copy(k)->dirty && !update_pack(b, k, keys[i], all)) {
            tide__hot_list(s, k, keys[i]);
        }
        tide__word_unlock(word, old);
        if (b->count == b->most) {
            int failed = updates_send(b);
            code = code ? code : failed;
        }
    }
    int failed = updates_send(b);
    return code ? code : failed;
}

/* ---- rows ---- */

/* A push that waited goes the ordinary way; what there is no room for now is tried again. */
static int push_now(struct tide__hot_table *s, uint64_t key, struct tide__queued *queued) {
    bool sent;
    int code = exchange(s, TIDE__PUSH, 0, &key, 1, queued->delta, NULL, &sent);
    while ((code == TIDE_EBUSY || code == TIDE_ENOMEM) && !sent) {
        const int slept = tide_sleep(LOOK_NS);
        code = slept ? slept : exchange(s, TIDE__PUSH, 0, &key, 1, queued->delta, NULL, &sent);
    }
    tide__share_count(&s->updates_failed, code != 0);
    return code;
}

/* Pushes that waited for a row that does not come go the ordinary way, and what came after them.
 * Until all have arrived no pull of this node may pass them. */
static int give_up(struct tide__hot_table *s, uint64_t key) {
    int code = 0;
    for (bool more = true; more && !code;) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = lock(s, key, &word, &old);
        TIDE_ASSERT(k);
        struct tide__queued *queued = k->queued;
        k->queued = k->queued_last = NULL;
        k->giving_up = more = queued;
        if (!more) {
            forget(s, k, key);
        }
        tide__word_unlock(word, old);
        while (queued) {
            struct tide__queued *next = queued->next;
            code = push_now(s, key, queued) == TIDE_ECANCELED ? TIDE_ECANCELED : code;
            tide__hot_queued_free(s, queued);
            queued = next;
        }
    }
    return code;
}

/* One key's row did not come. */
static int row_failed(struct tide__hot_table *s, uint64_t key, uint64_t since, int code) {
    atomic_uint_fast64_t *word;
    uint64_t old;
    struct tide__hot_key *k = lock(s, key, &word, &old);
    TIDE_ASSERT(k);
    const bool coming = k->state == TIDE__COPY_COMING;
    if (!coming && is_gone(code)) {
        tide__share_count(&s->updates_failed, tide__hot_copy(k)->dirty);
        forget(s, k, key);
    } else if (!coming) {
        k->unseen_ns = k->unseen_ns ? k->unseen_ns : since;
        tide__hot_list(s, k, key);
    }
    tide__word_unlock(word, old);
    return coming ? give_up(s, key) : 0;
}

/* A call that could not begin, perhaps for one key's sake, is made again by halves: that key does
 * not keep the others back. */
static int fetch(struct batch *b, size_t first, size_t count) {
    struct tide__hot_table *s = b->s;
    bool sent;
    int code = exchange(s, TIDE__PULL, (uint8_t)(flags_of(s) | TIDE__SUBSCRIBES), b->keys + first, count, b->rows,
                        b->fates, &sent);
    if (code == TIDE_ECANCELED) {
        return code;
    }
    if (code && !sent && count > 1) {
        code = fetch(b, first, count / 2);
        return code ? code : fetch(b, first + count / 2, count - count / 2);
    }
    const uint64_t now = now_of(s);
    for (size_t i = 0; i < count; i++) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = b->fates[i] >= 0 ? lock(s, b->keys[first + i], &word, &old) : NULL;
        if (k) { /* records stay */
            row_came(b, k, b->keys[first + i], i, b->since[first + i], now);
            tide__word_unlock(word, old);
        }
    }
    code = 0;
    for (size_t i = 0; i < count && !code; i++) { /* these may wait */
        if (b->fates[i] < 0) {
            code = row_failed(s, b->keys[first + i], b->since[first + i], b->fates[i]);
        }
    }
    return code;
}

static int fetch_all(struct batch *b) {
    const int code = b->count ? fetch(b, 0, b->count) : 0;
    b->count = 0;
    return code;
}

/* Copies of keys that have none: see hot_keys.h. */
static int join(struct batch *b) {
    struct tide__hot_table *s = b->s;
    struct tide_store *store = s->table->store;
    if (b->count == 0) {
        return 0;
    }
    for (size_t i = 0; i < b->count; i++) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = lock(s, b->keys[i], &word, &old);
        TIDE_ASSERT(k);
        k->state = TIDE__COPY_COMING;
        atomic_fetch_add_explicit(&s->held, 1, memory_order_relaxed);
        tide__word_unlock(word, old);
    }
    int code = TIDE_MUTANT(share_unsynchronized) ? 0 : tide__hot_synchronize(s);
    const uint64_t newest = tide__pending_newest(store);
    while (!code && !TIDE_MUTANT(share_pending_ignored) && tide__pending_older(store, s->table, newest)) {
        code = tide_sleep(LOOK_NS);
    }
    return code ? code : fetch_all(b);
}

/* ---- rounds ---- */

enum need { NOTHING, ROW, COPY, RELEASE };

/* Latched, after the updates. */
static enum need need_of(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key) {
    const struct tide__copy_record *r = tide__hot_copy(k);
    const bool leaving = s->table->store->leaving;
    uint16_t owner;
    if (k->state == TIDE__COPY_NONE) {
        return !k->wanted && !k->technique ? RELEASE
               : k->wanted && !leaving && tide_table_where(s->table, key, &owner) == 0 &&
                       owner != tide__store_self(s->table->store)
                   ? COPY
                   : NOTHING;
    }
    k->ends |= !k->wanted || leaving;
    if (k->ends && ((!r->dirty && r->sent_count == 0) || TIDE_MUTANT(share_forgets_unsent))) {
        forget(s, k, key);
    } else if (k->ends) {
        tide__hot_list(s, k, key);
    } else if (k->unseen_ns) {
        return ROW;
    }
    return NOTHING;
}

static int look(struct batch *b, const uint64_t *keys, size_t count, enum need what) {
    struct tide__hot_table *s = b->s;
    int code = 0;
    for (size_t i = 0; i < count && !code; i++) {
        atomic_uint_fast64_t *word;
        uint64_t old;
        struct tide__hot_key *k = lock(s, keys[i], &word, &old);
        if (!k) {
            continue;
        }
        const enum need need = need_of(s, k, keys[i]);
        if (need == RELEASE && !k->listed) {
            tide__hot_release(s, word, old);
            continue;
        }
        if (need == what) {
            b->since[b->count] = k->unseen_ns;
            b->keys[b->count++] = keys[i];
            k->unseen_ns = 0; /* what comes from here on is seen next time */
        }
        tide__word_unlock(word, old);
        if (b->count == b->most) {
            code = what == ROW ? fetch_all(b) : join(b);
        }
    }
    return code ? code : what == ROW ? fetch_all(b) : join(b);
}

static int run_round(struct tide__hot_table *s) {
    const uint64_t flush = s->flush_wanted;
    struct batch b;
    tide_lock(&s->lock);
    uint64_t *keys = s->work;
    const size_t count = s->work_count;
    s->work = NULL;
    s->work_count = s->work_capacity = 0;
    tide_unlock(&s->lock);
    tide__notices_send(s);
    int code = batch_init(&b, s);
    if (!code) {
        const int failed = updates(&b, keys, count, flush > s->flush_done);
        code = failed == TIDE_ECANCELED ? failed : 0;
        code = code ? code : look(&b, keys, count, ROW);
        code = code ? code : look(&b, keys, count, COPY);
        if (!failed && !code && flush > s->flush_done) {
            s->flush_done = flush;
            struct tide_store *store = s->table->store;
            code = tide__store_tell(store, tide__store_self(store), TIDE__AS(SHARE_FLUSH, .table = s->table->id));
        }
    } else { /* for later */
        for (size_t i = 0; i < count; i++) {
            atomic_uint_fast64_t *word;
            uint64_t old;
            struct tide__hot_key *k = lock(s, keys[i], &word, &old);
            if (k) {
                k->listed = false;
                tide__hot_list(s, k, keys[i]);
                tide__word_unlock(word, old);
            }
        }
        code = 0;
    }
    batch_release(&b);
    tide_free(keys);
    return code;
}

/* Until `deadline`, or a flush of the table is requested. */
static int wait(uint64_t deadline, bool *woken) {
    const struct tide_message *message;
    int code = tide_receive(deadline, &message);
    if (code == TIDE_ETIMEDOUT) {
        return 0;
    }
    if (code) {
        return code;
    }
    code = message->kind == TIDE_STOP ? TIDE_ECLOSED : 0;
    tide_message_free(message);
    *woken = true;
    return code;
}

static uint64_t rows_moved(const struct tide__hot_table *s) {
    return atomic_load_explicit(&s->updates_out, memory_order_relaxed) +
           atomic_load_explicit(&s->rows_in, memory_order_relaxed);
}

/* After a round that took `elapsed_ns`. How much of that was work follows from what it moved: a round of
 * few bytes waits for answers, and copies that rested for it would be behind for nothing. */
static uint64_t rest_of(const struct tide__hot_table *s, uint64_t elapsed_ns, uint64_t rows) {
    const double bytes = (double)rows * (double)s->shape.floats * sizeof(float);
    const double work_ns = (double)elapsed_ns * bytes / (bytes + REST_BYTES);
    const double rest_ns = REST * work_ns;
    return rest_ns < REST_MAX_NS ? (uint64_t)rest_ns : REST_MAX_NS;
}

static int fiber_main(void *state) {
    struct tide__hot_table *s = state;
    uint64_t next = 0;
    bool work = false;
    int code = 0;
    (void)tide__memory_swap(TIDE_MEMORY_VITAL); /* copies that are not brought up to date are wrong */
    while (!code) {
        bool woken = work;
        code = wait(work ? next : TIDE_NEVER, &woken);
        while (!code && now_of(s) < next && s->flush_wanted == s->flush_done) {
            code = wait(next, &woken);
        }
        if (code) {
            break;
        }
        atomic_store(&s->awake, false); /* before the list is taken */
        const uint64_t began = now_of(s), moved = rows_moved(s);
        s->in_round = true;
        code = run_round(s);
        s->in_round = false;
        const uint64_t ended = now_of(s), rest = rest_of(s, ended - began, rows_moved(s) - moved);
        next = began + TIDE_SECOND / s->share.hz;
        next = ended + rest > next ? ended + rest : next;
        tide_lock(&s->lock);
        work = s->work_count > 0 || s->flush_wanted > s->flush_done;
        tide_unlock(&s->lock);
    }
    return 0;
}

struct tide__flush_caller {
    struct tide__flush_caller *next;
    tide_address from;
    uint64_t call, wanted;
};

static void fiber_ended(void *state) {
    struct tide__hot_table *s = state;
    atomic_store_explicit(&s->ended, true, memory_order_release); /* pairs with tide__hot_ended */
}

int tide__hot_start(struct tide__hot_table *s) {
    struct tide_actor_options options = {
        .type = "copies", .run = fiber_main, .state = s, .release = fiber_ended, .role = TIDE_ROLE_IO};
    return tide_spawn(s->table->store->node, &options, &s->fiber);
}

void tide__hot_end(struct tide_table *table) {
    struct tide__hot_table *s = tide__hot_of(table);
    if (s) {
        (void)tide_kill(s->fiber, TIDE_EKILLED);
        while (s->callers) {
            struct tide__flush_caller *caller = s->callers;
            s->callers = caller->next;
            (void)tide__table_dropped(table);
            (void)tide_answer_error(caller->from, caller->call, TIDE_ECLOSED, tide_error_message());
            tide_free(caller);
        }
    }
}

bool tide__hot_ended(struct tide_table *table) {
    struct tide__hot_table *s = tide__hot_of(table);
    return !s || atomic_load_explicit(&s->ended, memory_order_acquire);
}

/* ---- flushing ---- */

int tide__hot_flush_call(struct tide_store *store, struct tide__incoming *in) {
    const struct tide_message *message = in->message;
    struct tide_table *table = tide__incoming_table(store, in, in->as.SHARE_FLUSH.table);
    struct tide__hot_table *s = table ? tide__hot_of(table) : NULL;
    if (!s) { /* or this node does not have the table yet */
        return tide__nothing_answer(message);
    }
    struct tide__flush_caller *caller = tide_alloc(sizeof *caller);
    if (!caller) {
        return tide_fail(TIDE_ENOMEM, "no memory to flush table '%s'", table->name);
    }
    *caller = (struct tide__flush_caller){
        .next = s->callers, .from = message->from, .call = message->call, .wanted = ++s->flush_wanted};
    s->callers = caller;
    tide__hot_wake(s);
    return 0;
}

/* The fiber to the store actor, which alone may answer what it was called. */
int tide__hot_flush_ended(struct tide_store *store, struct tide__incoming *in) {
    static const uint8_t nil = 0xc0;
    struct tide_table *table = tide__incoming_table(store, in, in->as.SHARE_FLUSH.table);
    struct tide__hot_table *s = table ? tide__hot_of(table) : NULL;
    if (!s || in->from != tide__store_self(store)) {
        return TIDE_EPROTO;
    }
    for (struct tide__flush_caller **at = &s->callers; *at;) {
        struct tide__flush_caller *caller = *at;
        if (caller->wanted > s->flush_done) {
            at = &caller->next;
            continue;
        }
        *at = caller->next;
        (void)tide_answer(caller->from, caller->call, &nil, sizeof nil);
        tide_free(caller);
    }
    return 0;
}

void tide__flush_callers_free(struct tide__hot_table *s) {
    while (s->callers) {
        struct tide__flush_caller *next = s->callers->next;
        tide_free(s->callers);
        s->callers = next;
    }
}

/* ---- members ---- */

struct listing {
    uint64_t stale_ns; /* they may be older than is known, since then; 0: no */
};

static void list_copy(struct tide__hot_table *s, struct tide__hot_key *k, uint64_t key, void *arg) {
    const struct listing *listing = arg;
    if (k->state != TIDE__COPY_NONE) {
        k->unseen_ns = k->unseen_ns ? k->unseen_ns : listing->stale_ns;
        tide__hot_list(s, k, key);
    }
}

static void list_copies(struct tide__hot_table *s, bool stale) {
    struct listing listing = {.stale_ns = stale ? now_of(s) : 0};
    tide__hot_each(s, list_copy, &listing);
    tide__hot_wake(s);
}

bool tide__hot_gone(struct tide_store *store) {
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    bool gone = true;
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__hot_table *s = table ? tide__hot_of(table) : NULL;
        if (s && atomic_load_explicit(&s->held, memory_order_relaxed) > 0) {
            list_copies(s, false);
            gone = TIDE_MUTANT(share_leaves_unsent);
        }
    }
    return gone;
}

void tide__hot_member(struct tide_store *store, const struct tide_member *member) {
    const unsigned count = atomic_load_explicit(&store->table_count, memory_order_relaxed);
    if (member->state != TIDE_MEMBER_DEAD && member->state != TIDE_MEMBER_LEFT) {
        return;
    }
    for (unsigned id = 1; id <= count; id++) {
        struct tide_table *table = tide__table_at(store, id);
        struct tide__hot_table *s = table ? tide__hot_of(table) : NULL;
        if (table) {
            tide__interest_member_gone(table, member->id);
        }
        if (s) { /* the node that sent notices may have been the dead one */
            tide__subscriptions_member_gone(s, member->id);
            list_copies(s, !TIDE_MUTANT(share_outlives_owner));
        }
    }
}
