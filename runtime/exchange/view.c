/*
 * Workers that die. The remaining ones agree on what the dead ones took part in, then continue without
 * them; replicas stay equal (virtual synchrony: Birman and Joseph, SOSP 1987).
 *
 * A view is named by the number of the dead. A worker that learns of a death, by a monitor or from
 * another, freezes: it accepts no gradients and no sums, drops what waits to be sent, and notifies
 * all others of the dead and of what it has. Once all remaining ones have sent this for the same
 * dead, the view holds, and all find the same from the same statements:
 *   - The newest step that any has committed (share.c) counts for all: its numbers are in the
 *     statement.
 *   - Of that step a layer's sum may be in use where it is, the parts of the dead included. So a
 *     sum that any has counts for all, and the lowest rank that has it sends it. What no worker
 *     has is added up again, without the dead; the own gradients are still there.
 *   - Of the step after it nothing is in use. All of it is done again without the dead.
 * No worker can be further, for the next step begins with the numbers of all for this one. Messages
 * carry their view, and those of former views are dropped. More deaths meanwhile begin anew.
 *
 * What lossy formats had kept of a layer is forgotten when it is done again; what the owner of a
 * chunk kept of its sums goes into its own gradients when the chunk becomes another's.
 */
#include "exchange/internal.h"

void tide__exchange_set_members(struct tide_exchange *x) {
    x->member_count = 0;
    for (uint32_t r = 0; r < x->workers; r++) {
        if (tide__exchange_in(x, r, x->view)) {
            x->seat[r] = x->member_count;
            x->members[x->member_count++] = r;
        }
    }
}

/* ---- what is had here ---- */

/* The newest step whose sum of a layer is here, and its view. */
static uint64_t newest(const struct layer *l, uint32_t *view) {
    uint64_t done = atomic_load_explicit(&l->done, memory_order_relaxed); /* the actor's own */
    *view = done > 0 ? l->rounds[done & 1].view : 0;
    return done;
}

static uint64_t committed(const struct tide_exchange *x) {
    return atomic_load_explicit(&x->shared_done, memory_order_relaxed); /* the actor's own */
}

static int stand(struct tide_exchange *x, struct standing *s) {
    if (!s->done) {
        s->done = tide_alloc_zero(x->layer_count, sizeof *s->done);
        s->of = tide_alloc_zero(x->layer_count, sizeof *s->of);
    }
    return s->done && s->of ? 0 : TIDE_ENOMEM;
}

static void write_shares(struct tide_writer *w, const struct tide_exchange *x, uint64_t step) {
    const struct sums *s = &x->shared[step & 1];
    size_t numbers = step > 0 ? (size_t)x->workers * TIDE_EXCHANGE_SUMS : 0;
    tide_write_array(w, 3);
    tide_write_uint(w, step > 0 ? s->view : 0);
    tide_write_array(w, numbers);
    for (size_t i = 0; i < numbers; i++) {
        tide_write_double(w, s->by_rank[i]);
    }
    if (step > 0) {
        tide__exchange_write_plan(w, x, s);
    } else {
        tide_write_nil(w);
    }
}

/* Records and sends what this worker has, under the coming view. */
static int tell_state(struct tide_exchange *x) {
    struct standing *own = &x->peers[x->rank].standing;
    int code = stand(x, own);
    uint8_t *dead = tide_alloc_zero(x->workers, 1);
    if (code < 0 || !dead) {
        tide_free(dead);
        return TIDE_ENOMEM;
    }
    own->view = x->view;
    own->step = committed(x);
    for (size_t i = 0; i < x->layer_count; i++) {
        own->done[i] = newest(&x->layers[i], &own->of[i]);
    }
    for (uint32_t r = 0; r < x->workers; r++) {
        dead[r] = x->peers[r].dead;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 7);
    tide_write_uint(&w, STATE);
    tide_write_uint(&w, x->view);
    tide_write_uint(&w, own->step);
    tide_write_uint(&w, x->rank);
    tide_write_binary(&w, dead, x->workers);
    tide_write_array(&w, 2 * x->layer_count);
    for (size_t i = 0; i < x->layer_count; i++) {
        tide_write_uint(&w, own->done[i]);
        tide_write_uint(&w, own->of[i]);
    }
    write_shares(&w, x, own->step);
    for (uint32_t r = 0; r < x->workers && code == 0; r++) {
        if (r != x->rank && !x->peers[r].dead) {
            code = tide__exchange_tell(x, r, &w);
        }
    }
    tide_writer_release(&w);
    tide_free(dead);
    return code;
}

/* ---- the view holds ---- */

int tide__exchange_hand_kept(struct tide_exchange *x, uint32_t layer) {
    struct layer *l = &x->layers[layer];
    for (uint32_t c = 0; c < l->chunk_count; c++) {
        if (!l->sums_kept[c] || tide__exchange_owner(x, layer, c) == x->rank) {
            continue;
        }
        if (!l->kept) {
            l->kept = tide_alloc_zero(l->count + 1, sizeof *l->kept);
            if (!l->kept) {
                return TIDE_ENOMEM;
            }
        }
        size_t first, count = tide__exchange_chunk(l, c, &first);
        for (size_t i = 0; i < count; i++) {
            l->kept[first + i] += TIDE_MUTANT(exchange_owner_forgets) ? 0 : l->sums_kept[c][i];
        }
        l->keeps = true;
        tide_free(l->sums_kept[c]);
        l->sums_kept[c] = NULL;
    }
    return 0;
}

/* A layer's step is done again in this view. */
static int redo(struct tide_exchange *x, uint32_t layer, struct round *round) {
    TIDE_SOMETIMES(exchange_round_redone);
    struct layer *l = &x->layers[layer];
    if (round->done) {
        atomic_store_explicit(&l->done, round->step - 1, memory_order_seq_cst); /* it was not used */
        x->busy_since = x->away++ == 0 ? tide_port_now(x->port) : x->busy_since;
    }
    tide__exchange_reset(x, l, round);
    if (!round->ready) {
        return 0;
    }
    if (l->kept) {
        memset(l->kept, 0, l->count * sizeof *l->kept);
    }
    for (uint32_t c = 0; c < l->chunk_count; c++) {
        tide_free(l->sums_kept[c]);
        l->sums_kept[c] = NULL;
    }
    return tide__exchange_contribute(x, layer, round);
}

static int send_factors_of(struct tide_exchange *x, uint32_t layer, const struct round *round, uint32_t source,
                           uint32_t to) {
    struct layer *l = &x->layers[layer];
    const struct factors *f = source == x->rank ? &l->own[round->step & 1] : &round->factors[source];
    size_t at = 0;
    int code = 0;
    do {
        size_t count = tide__exchange_piece(x, at, f->total);
        struct entry e = {.step = round->step,
                          .layer = layer,
                          .index = (uint32_t)at,
                          .rank = source,
                          .kind = FACTOR,
                          .format = TIDE_WIRE_F32,
                          .path = TIDE_PATH_FACTOR,
                          .count = count,
                          .blob = tide__exchange_blob(f->values + at, count, TIDE_WIRE_F32)};
        code = e.blob ? tide__exchange_queue(x, to, e) : TIDE_ENOMEM;
        at += count;
    } while (at < f->total && code == 0);
    return code;
}

/* The sum of a layer is here, and is sent to one that lacks it: as it is used. */
static int send_sum(struct tide_exchange *x, uint32_t layer, const struct round *round, uint32_t to) {
    TIDE_SOMETIMES(exchange_sum_sent_again);
    const struct layer *l = &x->layers[layer];
    int code = 0;
    for (uint32_t c = 0; round->path != TIDE_PATH_FACTOR && c < l->chunk_count && code == 0; c++) {
        struct entry e = {.step = round->step,
                          .layer = layer,
                          .index = c,
                          .kind = SUM,
                          .format = TIDE_WIRE_F32,
                          .path = TIDE_PATH_PS};
        code = tide__exchange_queue(x, to, e);
    }
    for (uint32_t r = 0; round->path == TIDE_PATH_FACTOR && r < x->workers && code == 0; r++) {
        if (r != to && tide__exchange_in(x, r, round->view)) {
            code = send_factors_of(x, layer, round, r, to);
        }
    }
    return code;
}

/* The layer's sum of the newest committed step: from the worker that has it, or anew. */
static int mend(struct tide_exchange *x, uint32_t layer, uint64_t step) {
    struct layer *l = &x->layers[layer];
    struct round *round = &l->rounds[step & 1];
    uint32_t holder = x->workers;
    for (uint32_t i = x->member_count; i-- > 0;) {
        uint32_t r = x->members[i];
        holder = x->peers[r].standing.done[layer] >= step ? r : holder;
    }
    if (holder == x->workers || TIDE_MUTANT(exchange_no_repair)) {
        return redo(x, layer, round);
    }
    int code = 0;
    for (uint32_t i = 0; i < x->member_count && code == 0; i++) {
        uint32_t r = x->members[i];
        if (x->peers[r].standing.done[layer] >= step) {
            continue;
        }
        if (r == x->rank) {
            tide__exchange_reset(x, l, round);
            round->view = TIDE_MUTANT(exchange_view_of_mender) ? x->view : x->peers[holder].standing.of[layer];
            round->holder = holder + 1;
            round->landed = round->path == TIDE_PATH_FACTOR; /* the own ones */
        } else if (holder == x->rank) {
            code = send_sum(x, layer, round, r);
        }
    }
    return code;
}

/* The numbers of the uncommitted step are sent again. */
static int share_again(struct tide_exchange *x, uint64_t step) {
    struct sums *s = &x->shared[step & 1];
    if (s->step != step) {
        return 0;
    }
    memset(s->by, 0, x->workers);
    s->view = x->view;
    s->proposed = s->proposed && s->said && x->members[0] == x->rank;
    s->got = s->said;
    s->by[x->rank] = s->said;
    int code = s->said ? tide__exchange_tell_share(x, s) : 0;
    if (tide__exchange_share_is_whole(x, s)) { /* no other worker is left */
        atomic_store_explicit(&x->shared_done, step, memory_order_seq_cst);
        tide__exchange_wake(x);
    }
    return code;
}

int tide__exchange_take_waiting(struct tide_exchange *x) {
    const struct tide_message **waiting = x->waiting;
    size_t count = x->waiting_count;
    x->waiting = NULL;
    x->waiting_count = x->waiting_room = 0;
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        code = code < 0 ? code : tide__exchange_take(x, waiting[i]);
        if (code == LATER) {
            code = tide__exchange_put_off(x, waiting[i]);
        } else {
            tide_message_free(waiting[i]);
        }
    }
    tide_free(waiting);
    return code;
}

/* All remaining workers have sent what they have. */
static int hold(struct tide_exchange *x) {
    uint64_t step = 0;
    for (uint32_t r = 0; r < x->workers; r++) {
        if (x->peers[r].dead) {
            if (tide__exchange_in(x, r, x->view)) {
                atomic_store_explicit(&x->peers[r].died, x->view, memory_order_relaxed);
            }
            continue;
        }
        uint64_t there = x->peers[r].standing.step;
        bool shortest = TIDE_MUTANT(exchange_shortest_prefix) && r > 0;
        step = shortest ? (there < step ? there : step) : there > step ? there : step;
    }
    tide__exchange_set_members(x);
    x->frozen = false;
    int code = 0;
    for (uint32_t i = 0; i < x->layer_count && code == 0; i++) {
        struct layer *l = &x->layers[i];
        struct round *next = &l->rounds[(step + 1) & 1];
        code = tide__exchange_hand_kept(x, i);
        if (code == 0 && step > 0) {
            code = mend(x, i, step);
        }
        if (code == 0 && next->step == step + 1) {
            code = redo(x, i, next);
        }
    }
    code = code < 0 ? code : share_again(x, step + 1);
    return code < 0 ? code : tide__exchange_take_waiting(x);
}

static int hold_if_all_agree(struct tide_exchange *x) {
    for (uint32_t r = 0; r < x->workers; r++) {
        if (!x->peers[r].dead && x->peers[r].standing.view != x->view) {
            return 0;
        }
    }
    return hold(x);
}

/* ---- notifications ---- */

/* More are dead than was known. */
static int freeze(struct tide_exchange *x) {
    TIDE_SOMETIMES(exchange_frozen);
    x->view = 0;
    for (uint32_t r = 0; r < x->workers; r++) {
        x->peers[r].dead = x->peers[r].dead || x->peers[r].left;
        x->view += x->peers[r].dead;
    }
    x->frozen = true;
    for (uint32_t r = 0; r < x->workers; r++) {
        tide__exchange_drop(&x->peers[r]);
        if (x->peers[r].dead) {
            tide__exchange_end_sender(&x->peers[r]);
        }
    }
    int code = tell_state(x);
    return code < 0 ? code : hold_if_all_agree(x);
}

int tide__exchange_take_exit(struct tide_exchange *x, const struct tide_message *m) {
    uint32_t r = 0;
    while (r < x->workers && x->peers[r].address != m->from) {
        r++;
    }
    if (r == x->workers || x->peers[r].dead) {
        return 0;
    }
    if (m->code == 0 && !x->frozen) {
        x->peers[r].left = true; /* what others waited for, it has sent */
        return 0;
    }
    tide_log(TIDE_LOG_INFO, tide_node_name(x->node), "exchange: worker %u goes on without %u: %.*s", x->rank + 1, r + 1,
             (int)m->size, (const char *)m->data);
    x->peers[r].dead = true;
    return freeze(x);
}

/* The committed step of another, whose numbers are not all here. */
static int adopt(struct tide_exchange *x, const struct incoming *m) {
    struct sums *s = &x->shared[m->step & 1];
    if (m->step != committed(x) + 1 || s->step != m->step || !s->said ||
        m->share_count != (size_t)x->workers * TIDE_EXCHANGE_SUMS || (m->proposes && m->plan_count != x->layer_count)) {
        return tide_fail(TIDE_EPROTO, "sums of a step that cannot be over");
    }
    struct tide_reader r = m->shares;
    for (size_t i = 0; i < m->share_count; i++) {
        s->by_rank[i] = tide_read_double(&r);
    }
    s->view = m->share_view;
    s->proposed = false;
    tide__exchange_take_plan(s, m);
    s->got = 0;
    for (uint32_t i = 0; i < x->workers; i++) {
        s->by[i] = tide__exchange_in(x, i, s->view);
        s->got += s->by[i];
    }
    atomic_store_explicit(&x->shared_done, s->step, memory_order_seq_cst);
    tide__exchange_wake(x);
    return 0;
}

int tide__exchange_take_state(struct tide_exchange *x, const struct incoming *m) {
    struct standing *s = &x->peers[m->rank].standing;
    if (m->dead_count != x->workers || m->done_count != x->layer_count) {
        return tide_fail(TIDE_EPROTO, "the state of another exchange");
    }
    if (x->peers[m->rank].dead || m->view < s->view) {
        return 0;
    }
    int code = stand(x, s);
    if (code == 0 && m->step > committed(x)) {
        code = adopt(x, m);
    }
    if (code < 0) {
        return code;
    }
    s->view = m->view;
    s->step = m->step;
    struct tide_reader r = m->done;
    for (size_t i = 0; i < x->layer_count; i++) {
        s->done[i] = tide_read_uint(&r);
        s->of[i] = (uint32_t)tide_read_uint(&r);
    }
    bool news = false;
    uint32_t dead = 0;
    for (uint32_t i = 0; i < x->workers; i++) {
        dead += m->dead[i] != 0;
        if (m->dead[i] && !x->peers[i].dead && i != x->rank) {
            x->peers[i].dead = news = true;
        }
    }
    if (dead != m->view || m->dead[x->rank]) {
        return tide_fail(TIDE_EPROTO, "a view without this worker");
    }
    return news ? freeze(x) : x->frozen ? hold_if_all_agree(x) : 0;
}

int tide__exchange_put_off(struct tide_exchange *x, const struct tide_message *m) {
    TIDE_SOMETIMES(exchange_message_put_off);
    if (x->waiting_count == x->waiting_room) {
        size_t room = x->waiting_room ? 2 * x->waiting_room : 16;
        const struct tide_message **more = tide_realloc(x->waiting, room * sizeof *more);
        if (!more) {
            tide_message_free(m);
            return TIDE_ENOMEM;
        }
        x->waiting = more;
        x->waiting_room = room;
    }
    x->waiting[x->waiting_count++] = m;
    return 0;
}
