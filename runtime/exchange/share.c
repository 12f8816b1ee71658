/* Sums of a step: a few numbers of every worker, and the plan of the next step from the first one.
 * A worker that has them all has committed the step: then its layers' sums may be used. */
#include "exchange/internal.h"

int tide__exchange_tell(struct tide_exchange *x, uint32_t rank, const struct tide_writer *w) {
    int code = w->error ? w->error : tide_send(x->peers[rank].address, TIDE_LANE_CONTROL, w->data, w->size);
    atomic_fetch_add_explicit(&x->messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->bytes, TIDE_FRAME_HEAD + w->size, memory_order_relaxed);
    bool gone = code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_ECLOSED;
    return gone ? 0 : code; /* its exit will arrive */
}

bool tide__exchange_share_is_whole(const struct tide_exchange *x, const struct sums *s) {
    uint32_t of = 0;
    for (uint32_t r = 0; r < x->workers; r++) {
        of += tide__exchange_in(x, r, s->view);
    }
    return s->step > 0 && s->got == of;
}

/* EPROTO: that step cannot be in flight. */
static int open_share(struct tide_exchange *x, uint64_t step, struct sums **out) {
    struct sums *s = &x->shared[step & 1];
    *out = s;
    if (s->step == step) {
        return 0;
    }
    if (step != (s->step == 0 ? (step & 1 ? 1 : 2) : s->step + 2) ||
        (s->step && !tide__exchange_share_is_whole(x, s))) {
        return tide_fail(TIDE_EPROTO, "sums of a step that is not under way");
    }
    s->step = step;
    s->view = x->view;
    s->got = 0;
    s->said = s->proposed = false;
    memset(s->by, 0, x->workers);
    return 0;
}

void tide__exchange_take_plan(struct sums *s, const struct incoming *m) {
    if (m->proposes) {
        s->plan.epoch = m->epoch;
        memcpy(s->plan.paths, m->paths, m->plan_count);
        memcpy(s->plan.formats, m->formats, m->plan_count);
        memcpy(s->plan.fanouts, m->fanouts, m->plan_count);
        s->proposed = true;
    }
}

int tide__exchange_take_share(struct tide_exchange *x, const struct incoming *m) {
    struct sums *s;
    int code = open_share(x, m->step, &s);
    if (code < 0) {
        return code;
    }
    if ((s->by[m->rank] && !TIDE_MUTANT(exchange_share_twice)) ||
        (m->proposes && (m->rank != x->members[0] || m->plan_count != x->layer_count))) {
        return tide_fail(TIDE_EPROTO, "numbers of worker %u twice, or its plan of %zu layers", m->rank + 1,
                         m->plan_count);
    }
    memcpy(s->by_rank + (size_t)m->rank * TIDE_EXCHANGE_SUMS, m->sums, sizeof m->sums);
    tide__exchange_take_plan(s, m);
    s->by[m->rank] = true;
    s->got++;
    if (tide__exchange_share_is_whole(x, s)) {
        atomic_store_explicit(&x->shared_done, s->step, memory_order_seq_cst); /* pairs with the worker's load */
        tide__exchange_wake(x);
    }
    return 0;
}

void tide__exchange_write_plan(struct tide_writer *w, const struct tide_exchange *x, const struct sums *s) {
    if (!s->proposed) {
        tide_write_nil(w);
        return;
    }
    tide_write_array(w, 4);
    tide_write_uint(w, s->plan.epoch);
    tide_write_binary(w, s->plan.paths, x->layer_count);
    tide_write_binary(w, s->plan.formats, x->layer_count);
    tide_write_binary(w, s->plan.fanouts, x->layer_count);
}

int tide__exchange_tell_share(struct tide_exchange *x, const struct sums *s) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 6);
    tide_write_uint(&w, SHARE);
    tide_write_uint(&w, x->view);
    tide_write_uint(&w, s->step);
    tide_write_uint(&w, x->rank);
    tide_write_array(&w, TIDE_EXCHANGE_SUMS);
    for (size_t i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        tide_write_double(&w, s->by_rank[(size_t)x->rank * TIDE_EXCHANGE_SUMS + i]);
    }
    if (x->members[0] == x->rank) {
        tide__exchange_write_plan(&w, x, s);
    } else {
        tide_write_nil(&w);
    }
    int code = 0;
    for (uint32_t i = 0; i < x->member_count && code == 0; i++) {
        if (x->members[i] != x->rank) {
            code = tide__exchange_tell(x, x->members[i], &w);
        }
    }
    tide_writer_release(&w);
    return code;
}

/* The worker's own. */
int tide__exchange_worker_share(struct tide_exchange *x, const struct incoming *m) {
    int code = tide__exchange_take_share(x, m);
    struct sums *s = &x->shared[m->step & 1];
    s->said = true;
    return code < 0 ? code : tide__exchange_tell_share(x, s);
}
