/*
 * The actor of an exchange: takes in what peers and the own worker say, adds up, passes on.
 *
 * Sums are made in a fixed order: by rank where a chunk has an owner, from the owner's successor
 * round to the owner in a ring. What comes before its turn is kept. A message of a step that cannot
 * be in flight is an error of the protocol: no worker begins step t + 1 before it has everything of
 * step t, so only t and t + 1 meet here. Sums do not overwrite the own gradients: when a worker
 * dies they are needed again (view.c).
 */
#include "exchange/internal.h"

static uint64_t now(const struct tide_exchange *x) {
    return tide_port_now(x->port);
}

/* Layers travel side by side, each on a lane of its own. */
static void trace_layer(const struct tide_exchange *x, const struct layer *l) {
    if (tide_trace_begin() != 0) {
        char name[40];
        const unsigned number = (unsigned)(l - x->layers) + 1;
        snprintf(name, sizeof name, "layer %u travels", number);
        tide_trace_beside(number, l->ready_at, name);
    }
}

static void land(struct tide_exchange *x, struct layer *l, struct round *round, size_t of) {
    if (++round->landed < of) {
        return;
    }
    round->done = true;
    uint64_t at = now(x);
    trace_layer(x, l);
    atomic_store_explicit(&l->took_ns, at > l->ready_at ? at - l->ready_at : 0, memory_order_relaxed);
    if (--x->away == 0) {
        atomic_fetch_add_explicit(&x->busy_ns, at > x->busy_since ? at - x->busy_since : 0, memory_order_relaxed);
    }
    atomic_store_explicit(&l->done, round->step, memory_order_seq_cst); /* pairs with the worker's load */
    tide__exchange_wake(x);
}

/* ---- rounds ---- */

void tide__exchange_reset(struct tide_exchange *x, struct layer *l, struct round *round) {
    round->done = false;
    round->view = x->view;
    round->holder = 0;
    round->landed = 0;
    for (size_t c = 0; c < l->chunk_count; c++) {
        struct part *part = &round->parts[c];
        for (uint32_t r = 0; part->from && r < x->workers; r++) {
            tide_free(part->from[r]);
            part->from[r] = NULL;
        }
        tide_free(part->sum);
        part->sum = NULL;
        part->next = 0;
    }
    for (uint32_t r = 0; r < x->workers; r++) {
        round->factors[r].begun = false;
        round->factors[r].got = 0;
    }
}

static int open_round(struct tide_exchange *x, struct layer *l, struct round *round, uint64_t step) {
    if (!round->parts) {
        round->parts = tide_alloc_zero(l->chunk_count, sizeof *round->parts);
        round->factors = tide_alloc_zero(x->workers, sizeof *round->factors);
        if (!round->parts || !round->factors) {
            return TIDE_ENOMEM;
        }
    }
    round->step = step;
    round->ready = false;
    tide__exchange_reset(x, l, round);
    return 0;
}

/* The round of a step; opens it when it is the next. EPROTO: that step cannot be in flight. */
static int find_round(struct tide_exchange *x, struct layer *l, uint64_t step, struct round **out) {
    struct round *round = &l->rounds[step & 1];
    *out = round;
    if (round->step == step) {
        return 0;
    }
    if (step != (round->step == 0 ? (step & 1 ? 1 : 2) : round->step + 2) || (round->step && !round->done)) {
        return tide_fail(TIDE_EPROTO, "step %llu is not under way", (unsigned long long)step);
    }
    return open_round(x, l, round, step);
}

/* ---- dense: chunks ---- */

struct place { /* a chunk of a layer in a round */
    struct layer *l;
    struct round *round;
    uint32_t layer, chunk;
    float *own, *sum; /* its gradients here, and what they add up to */
    size_t count;
};

static struct place place_of(struct tide_exchange *x, uint32_t layer, struct round *round, uint32_t chunk) {
    struct place p = {.l = &x->layers[layer], .round = round, .layer = layer, .chunk = chunk};
    size_t first;
    p.count = tide__exchange_chunk(p.l, chunk, &first);
    p.own = x->gradients + p.l->first + first;
    p.sum = x->sums + p.l->first + first;
    return p;
}

static int send_chunk(struct tide_exchange *x, const struct place *p, uint8_t kind, uint8_t format, uint32_t to,
                      struct tide_blob *blob) {
    struct entry e = {.step = p->round->step,
                      .layer = p->layer,
                      .index = p->chunk,
                      .kind = kind,
                      .format = format,
                      .path = kind == PUSH || kind == SUM ? TIDE_PATH_PS : TIDE_PATH_RING,
                      .blob = blob,
                      .count = p->count};
    return tide__exchange_queue(x, to, e);
}

/* The sum of a chunk as it travels, which its owner takes as well. *gives* the blob. */
static struct tide_blob *settle(const struct place *p, const float *sum, uint8_t format) {
    float **kept = &p->l->sums_kept[p->chunk];
    if (!*kept && format != TIDE_WIRE_F32) {
        *kept = tide_alloc_zero(p->count + 1, sizeof **kept);
        if (!*kept) {
            return NULL;
        }
    }
    struct tide_blob *blob = *kept && !TIDE_MUTANT(exchange_error_dropped)
                                 ? tide__exchange_blob_keeping(sum, *kept, p->count, format)
                                 : tide__exchange_blob(sum, p->count, format);
    if (blob) {
        (void)tide__exchange_decode(blob->data, p->sum, p->count, format); /* our own bytes */
    }
    return blob;
}

static void add(float *restrict sum, const float *restrict more, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sum[i] += more[i];
    }
}

/* The next worker of the ring. */
static uint32_t successor(const struct tide_exchange *x, uint32_t rank) {
    return x->members[(x->seat[rank] + 1) % x->member_count];
}

/* Owner: adds up what is there in the order of ranks; sends the complete sum to all. */
static int gather_sum(struct tide_exchange *x, struct place *p) {
    struct part *part = &p->round->parts[p->chunk];
    for (; part->next < x->workers; part->next++) {
        bool own = part->next == x->rank;
        if (!tide__exchange_in(x, part->next, p->round->view)) {
            continue;
        }
        float *more = own ? p->own : part->from ? part->from[part->next] : NULL;
        if (own ? !p->round->ready : !more) {
            return 0;
        }
        if (!part->sum) {
            part->sum = own ? tide_alloc((p->count + 1) * sizeof *more) : more;
            if (!part->sum) {
                return TIDE_ENOMEM;
            }
            if (own) {
                memcpy(part->sum, more, p->count * sizeof *more);
            }
        } else {
            add(part->sum, more, p->count);
            tide_free(own ? NULL : more);
        }
        if (!own) {
            part->from[part->next] = NULL;
        }
    }
    struct tide_blob *blob = settle(p, part->sum, p->round->format);
    tide_free(part->sum);
    part->sum = NULL;
    int code = blob ? 0 : TIDE_ENOMEM;
    for (uint32_t i = 0; i < x->member_count && code == 0; i++) {
        if (x->members[i] != x->rank) {
            code = send_chunk(x, p, SUM, p->round->format, x->members[i], tide_blob_ref(blob));
        }
    }
    tide_blob_unref(blob);
    land(x, p->l, p->round, p->l->chunk_count);
    return code;
}

/* A partial sum is here and the own gradient is ready: adds it and passes it on, or ends the first
 * round. */
static int pass_partial(struct tide_exchange *x, struct place *p, uint8_t format) {
    struct part *part = &p->round->parts[p->chunk];
    float *sum = part->sum;
    part->sum = NULL;
    add(sum, p->own, p->count);
    bool last = tide__exchange_owner(x, p->layer, p->chunk) == x->rank;
    struct tide_blob *blob = last ? settle(p, sum, format) : tide__exchange_blob(sum, p->count, format);
    tide_free(sum);
    if (!blob) {
        return TIDE_ENOMEM;
    }
    int code = send_chunk(x, p, last ? GATHER : REDUCE, format, successor(x, x->rank), blob);
    if (last) {
        land(x, p->l, p->round, p->l->chunk_count);
    }
    return code;
}

/* *gives* the values of a message. */
static int decoded(const struct incoming *m, size_t count, float **out) {
    float *values = tide_alloc((count + 1) * sizeof *values);
    int code = values ? tide__exchange_decode(m->values, values, count, m->format) : TIDE_ENOMEM;
    if (code < 0) {
        tide_free(values);
        return code;
    }
    *out = values;
    return 0;
}

static int take_push(struct tide_exchange *x, const struct incoming *m, struct place *p) {
    struct part *part = &p->round->parts[p->chunk];
    if (tide__exchange_owner(x, p->layer, p->chunk) != x->rank || part->next > m->rank ||
        (part->from && part->from[m->rank])) {
        return tide_fail(TIDE_EPROTO, "an unexpected gradient");
    }
    if (!part->from) {
        part->from = tide_alloc_zero(x->workers, sizeof *part->from);
        if (!part->from) {
            return TIDE_ENOMEM;
        }
    }
    int code = decoded(m, p->count, &part->from[m->rank]);
    return code < 0 ? code : gather_sum(x, p);
}

static int take_reduce(struct tide_exchange *x, const struct incoming *m, struct place *p) {
    struct part *part = &p->round->parts[p->chunk];
    if (successor(x, m->rank) != x->rank) {
        return tide_fail(TIDE_EPROTO, "a partial sum from the wrong side");
    }
    if (part->sum) {
        return tide_fail(TIDE_EPROTO, "a second partial sum");
    }
    int code = decoded(m, p->count, &part->sum);
    if (code < 0) {
        return code;
    }
    p->round->format = m->format;
    return p->round->ready ? pass_partial(x, p, m->format) : 0;
}

/* The values of a message, to be passed on. */
static struct tide_blob *copied(const struct incoming *m) {
    struct tide_blob *blob = tide_blob_create(m->size);
    if (blob && m->size > 0) {
        memcpy(blob->data, m->values, m->size);
    }
    return blob;
}

/* The sum of a chunk has come. */
static int take_sum(struct tide_exchange *x, const struct incoming *m, struct place *p) {
    if (!p->round->ready || p->round->landed >= p->l->chunk_count) {
        return tide_fail(TIDE_EPROTO, "a sum before its time");
    }
    int code = tide__exchange_decode(m->values, p->sum, p->count, m->format);
    uint32_t owner = tide__exchange_owner(x, p->layer, p->chunk), next = successor(x, x->rank);
    if (code == 0 && m->kind == GATHER && next != owner) {
        struct tide_blob *blob = copied(m);
        code = blob ? send_chunk(x, p, GATHER, m->format, next, blob) : TIDE_ENOMEM;
    }
    if (code < 0) {
        return code;
    }
    land(x, p->l, p->round, p->l->chunk_count);
    return 0;
}

/* All send a layer of a step by the same path, or sums would lack parts that came by another. */
static int refuse_path(const struct round *round, bool factors) {
    return round->ready && (round->path == TIDE_PATH_FACTOR) != factors
               ? tide_fail(TIDE_EPROTO, "%s of a layer that travels otherwise", factors ? "factors" : "a chunk")
               : 0;
}

static int take_chunk(struct tide_exchange *x, const struct incoming *m, struct round *round) {
    const struct layer *l = &x->layers[m->layer];
    int code = refuse_path(round, false);
    if (code < 0) {
        return code;
    }
    if (m->index >= l->chunk_count) {
        return tide_fail(TIDE_EPROTO, "chunk %u of %zu", m->index, l->chunk_count);
    }
    struct place p = place_of(x, m->layer, round, m->index);
    if (m->size != tide__exchange_size(p.count, m->format)) {
        return tide_fail(TIDE_EPROTO, "a chunk of %zu bytes, not of %zu values", m->size, p.count);
    }
    return m->kind == PUSH ? take_push(x, m, &p) : m->kind == REDUCE ? take_reduce(x, m, &p) : take_sum(x, m, &p);
}

/* ---- factors ---- */

/* Queues a piece of factors to the workers that get it from this one. *takes* the blob, also when it fails. */
static int hand_down(struct tide_exchange *x, struct entry e, struct tide_blob *blob) {
    TIDE_SOMETIMES(exchange_factors_handed_down);
    uint32_t fanout = e.fanout ? e.fanout : x->member_count;
    uint64_t first = (uint64_t)tide__exchange_place(x, e.rank, e.step, x->rank) * fanout + 1;
    int code = blob ? 0 : TIDE_ENOMEM;
    for (uint64_t p = first; p < first + fanout && p < x->member_count && code == 0; p++) {
        e.blob = tide_blob_ref(blob);
        code = tide__exchange_queue(x, tide__exchange_rank(x, e.rank, e.step, (uint32_t)p), e);
    }
    tide_blob_unref(blob);
    return code;
}

/* Whose turn it is to bring the factors of a message here. */
static uint32_t bringer(const struct tide_exchange *x, const struct incoming *m, const struct round *round) {
    if (round->holder) {
        return round->holder - 1;
    }
    if (x->peers[m->rank].dead) {
        return m->rank;
    }
    uint32_t place = tide__exchange_place(x, m->rank, m->step, x->rank);
    uint32_t fanout = m->fanout ? m->fanout : x->member_count;
    return tide__exchange_rank(x, m->rank, m->step, (place - 1) / fanout);
}

static int pass_factors(struct tide_exchange *x, const struct incoming *m, size_t count) {
    if (m->fanout == 0) {
        return 0;
    }
    uint32_t place = tide__exchange_place(x, m->rank, m->step, x->rank);
    if ((uint64_t)place * m->fanout + 1 >= x->member_count) {
        return 0;
    }
    struct entry e = {.step = m->step,
                      .layer = m->layer,
                      .index = m->index,
                      .rank = m->rank,
                      .kind = FACTOR,
                      .format = m->format,
                      .path = TIDE_PATH_FACTOR,
                      .fanout = m->fanout,
                      .count = count};
    return hand_down(x, e, copied(m));
}

/* Factors of one rank are all there. */
static void land_factors(struct tide_exchange *x, struct layer *l, struct round *round) {
    size_t of = 0;
    for (uint32_t r = 0; r < x->workers; r++) {
        of += tide__exchange_in(x, r, round->view);
    }
    land(x, l, round, of);
}

static int take_factors(struct tide_exchange *x, const struct incoming *m, struct round *round) {
    struct layer *l = &x->layers[m->layer];
    struct factors *f = &round->factors[m->rank];
    int code = refuse_path(round, true);
    if (code < 0) {
        return code;
    }
    if (m->k_count != l->matrix_count) {
        return tide_fail(TIDE_EPROTO, "factors of %zu matrices, not %zu", m->k_count, l->matrix_count);
    }
    if (!f->begun) {
        size_t total = tide__exchange_factor_total(l, m->k);
        if (total > f->room || !f->values) {
            if (total > SIZE_MAX / 64) {
                return tide_fail(TIDE_EPROTO, "factors of %zu values", total);
            }
            tide_free(f->values);
            f->values = tide_alloc((total + 1) * sizeof *f->values);
            f->room = f->values ? total : 0;
            if (!f->values) {
                return TIDE_ENOMEM;
            }
        }
        memcpy(f->k, m->k, sizeof f->k);
        f->total = total;
        f->begun = true;
    }
    bool sparse = m->format == TIDE_FORMAT_SPARSE;
    size_t count = tide__exchange_piece(x, f->got, f->total);
    if (memcmp(f->k, m->k, m->k_count * sizeof *m->k) != 0 || m->index != f->got ||
        (!sparse && m->size != tide__exchange_size(count, m->format))) {
        return tide_fail(TIDE_EPROTO, "factors that do not follow each other");
    }
    float *to = f->values + f->got;
    code = sparse ? tide__sparse_expand(m->values, m->size, to, count)
                  : tide__exchange_decode(m->values, to, count, m->format);
    f->got += count;
    code = code < 0 ? code : pass_factors(x, m, count);
    if (code == 0 && f->got == f->total) {
        land_factors(x, l, round);
    }
    return code;
}

/* Own factors, rounded as they travel. Empty ones travel too: the others wait for them. */
static int send_factors(struct tide_exchange *x, uint32_t layer, struct round *round) {
    bool sparse = round->format == TIDE_FORMAT_SPARSE;
    struct factors *own = &x->layers[layer].own[round->step & 1];
    size_t at = 0;
    int code = 0;
    do {
        size_t count = tide__exchange_piece(x, at, own->total);
        struct tide_blob *blob = sparse ? tide__sparse_blob(own->values + at, count)
                                        : tide__exchange_blob(own->values + at, count, round->format);
        if (!blob) {
            return TIDE_ENOMEM;
        }
        if (!sparse) { /* as the others get them */
            (void)tide__exchange_decode(blob->data, own->values + at, count, round->format);
        }
        struct entry e = {.step = round->step,
                          .layer = layer,
                          .index = (uint32_t)at,
                          .rank = x->rank,
                          .kind = FACTOR,
                          .format = round->format,
                          .path = TIDE_PATH_FACTOR,
                          .fanout = round->fanout,
                          .count = count};
        code = hand_down(x, e, blob);
        at += count;
    } while (at < own->total && code == 0);
    land_factors(x, &x->layers[layer], round);
    return code;
}

/* ---- what the own worker says ---- */

/* What lossy formats have kept of the own gradients: room for it, or all of it into them. */
static int mind_kept(struct tide_exchange *x, struct layer *l, const struct round *round) {
    bool lossy = round->path == TIDE_PATH_PS && round->format != TIDE_WIRE_F32;
    if (lossy && !l->kept) {
        l->kept = tide_alloc_zero(l->count + 1, sizeof *l->kept);
        if (!l->kept) {
            return TIDE_ENOMEM;
        }
    }
    if (!lossy && l->keeps) {
        if (!TIDE_MUTANT(exchange_kept_lost)) {
            add(x->gradients + l->first, l->kept, l->count);
        }
        memset(l->kept, 0, l->count * sizeof *l->kept);
    }
    l->keeps = lossy;
    return 0;
}

static int start_chunks(struct tide_exchange *x, uint32_t layer, struct round *round) {
    struct layer *l = &x->layers[layer];
    int code = mind_kept(x, l, round);
    for (uint32_t c = 0; c < l->chunk_count && code == 0; c++) {
        struct place p = place_of(x, layer, round, c);
        uint32_t owner = tide__exchange_owner(x, layer, c);
        if (x->member_count == 1 || (round->path == TIDE_PATH_PS && owner == x->rank)) {
            code = gather_sum(x, &p);
        } else if (round->path == TIDE_PATH_PS) {
            code = send_chunk(x, &p, PUSH, round->format, owner, NULL);
        } else if (successor(x, owner) == x->rank) {
            code = send_chunk(x, &p, REDUCE, round->format, successor(x, x->rank), NULL);
        } else if (round->parts[c].sum) {
            code = pass_partial(x, &p, round->format);
        }
    }
    return code;
}

/* Nothing has come before the own part that travels another way. */
static int check_early(const struct tide_exchange *x, const struct layer *l, const struct round *round) {
    int code = 0;
    for (uint32_t r = 0; r < x->workers && code == 0; r++) {
        code = round->factors[r].begun ? refuse_path(round, true) : 0;
    }
    for (size_t c = 0; c < l->chunk_count && code == 0; c++) {
        const struct part *part = &round->parts[c];
        bool came = part->sum;
        for (uint32_t r = 0; r < x->workers && part->from && !came; r++) {
            came = part->from[r];
        }
        code = came ? refuse_path(round, false) : 0;
    }
    return code;
}

int tide__exchange_contribute(struct tide_exchange *x, uint32_t layer, struct round *round) {
    int code = check_early(x, &x->layers[layer], round);
    if (code < 0) {
        return code;
    }
    return round->path == TIDE_PATH_FACTOR ? send_factors(x, layer, round) : start_chunks(x, layer, round);
}

static int worker_ready(struct tide_exchange *x, struct tide_reader *r) {
    uint64_t step = tide_read_uint(r);
    uint32_t layer = (uint32_t)tide_read_uint(r);
    struct layer *l = &x->layers[layer];
    struct round *round;
    int code = find_round(x, l, step, &round);
    if (code < 0) {
        return code;
    }
    round->path = (uint8_t)tide_read_uint(r);
    round->format = (uint8_t)tide_read_uint(r);
    round->fanout = (uint8_t)tide_read_uint(r);
    round->ready = true;
    if (x->away++ == 0) {
        x->busy_since = l->ready_at;
    }
    return tide__exchange_contribute(x, layer, round);
}

/* ---- the mailbox ---- */

static int connect_peers(struct tide_exchange *x, struct tide_reader *r) {
    int code = 0;
    for (uint32_t i = 0; i < x->workers && code == 0; i++) {
        x->peers[i].address = tide_read_uint(r);
        uint64_t id;
        if (i != x->rank) {
            code = tide_monitor(x->peers[i].address, &id);
        }
    }
    x->connected = true;
    code = code < 0 ? code : tide__exchange_start_senders(x);
    return code < 0 ? code : tide__exchange_take_waiting(x);
}

/* LATER: it must wait. */
static int from_worker(struct tide_exchange *x, const struct tide_message *message) {
    struct tide_reader r;
    tide_reader_init(&r, message->data, message->size);
    (void)tide_read_array(&r);
    uint64_t kind = tide_read_uint(&r);
    if (kind == CONNECT) {
        return connect_peers(x, &r);
    }
    if (x->frozen) {
        return LATER;
    }
    if (kind == READY) {
        return worker_ready(x, &r);
    }
    struct incoming m;
    int code = tide__exchange_parse(message->data, message->size, &m);
    return code < 0 ? code : tide__exchange_worker_share(x, &m);
}

/* Values of a layer. */
static int take_values(struct tide_exchange *x, const struct tide_message *message, const struct incoming *m) {
    if (m->layer >= x->layer_count) {
        return tide_fail(TIDE_EPROTO, "layer %u of %zu", m->layer, x->layer_count);
    }
    struct round *round;
    int code = find_round(x, &x->layers[m->layer], m->step, &round);
    if (code < 0) {
        return code;
    }
    uint32_t from = m->kind == FACTOR ? bringer(x, m, round) : m->rank;
    if (x->peers[from].address != message->from) {
        return tide_fail(TIDE_EPROTO, "values from a worker whose turn it is not");
    }
    return m->kind == FACTOR ? take_factors(x, m, round) : take_chunk(x, m, round);
}

/* LATER: it must wait. */
static int from_peer(struct tide_exchange *x, const struct tide_message *message) {
    struct incoming m;
    int code = x->connected ? tide__exchange_parse(message->data, message->size, &m) : LATER;
    if (code != 0) {
        return code;
    }
    bool known = m.rank < x->workers && m.rank != x->rank;
    if (!known || (m.kind != FACTOR && x->peers[m.rank].address != message->from)) {
        return tide_fail(TIDE_EPROTO, "no worker of this job");
    }
    if (m.kind == STATE) {
        return tide__exchange_take_state(x, &m);
    }
    if (m.view < x->view && !TIDE_MUTANT(exchange_late_counts)) {
        return 0; /* what it was part of is done without it, or again */
    }
    if (m.view > x->view) {
        return tide_fail(TIDE_EPROTO, "a view that this worker has not agreed to");
    }
    return x->frozen ? LATER : m.kind == SHARE ? tide__exchange_take_share(x, &m) : take_values(x, message, &m);
}

int tide__exchange_take(struct tide_exchange *x, const struct tide_message *m) {
    return m->from == TIDE_NOBODY ? from_worker(x, m) : from_peer(x, m);
}

static bool is_close(const struct tide_message *m) {
    struct tide_reader r;
    tide_reader_init(&r, m->data, m->size);
    return m->kind == TIDE_CAST && m->from == TIDE_NOBODY && tide_read_array(&r) == 1 && tide_read_uint(&r) == CLOSE;
}

/* *takes* the message. */
static void handle(struct tide_exchange *x, const struct tide_message *m) {
    int code = 0;
    if (m->kind == TIDE_EXIT) {
        code = tide__exchange_take_exit(x, m);
    } else if (m->kind == TIDE_CAST && atomic_load_explicit(&x->failed, memory_order_relaxed) == 0) {
        code = tide__exchange_take(x, m);
    }
    if (code == LATER) {
        code = tide__exchange_put_off(x, m);
    } else {
        tide_message_free(m);
    }
    if (code < 0) {
        tide__exchange_fail(x, code, "%s", tide_error_message());
    }
}

int tide__exchange_run(void *state) {
    if (TIDE_WATCHED && !tide__watch_serves()) {
        tide__watch_found("blocks", "an exchange runs on a thread that scripts may block");
    }
    struct tide_exchange *x = state;
    x->main = tide_fiber_current();
    bool over = false;
    int code = 0;
    while (!over) {
        const struct tide_message *m;
        code = tide_receive(TIDE_NEVER, &m);
        if (code < 0) {
            break;
        }
        over = is_close(m) || m->kind == TIDE_STOP;
        if (over) {
            tide_message_free(m);
        } else {
            handle(x, m);
        }
    }
    tide__exchange_end_senders(x);
    while (code == 0 && x->senders > 0) { /* what others still wait for */
        code = tide_fiber_suspend(TIDE_NEVER, "the last messages");
    }
    return code == TIDE_ECANCELED ? code : 0;
}
