/* The worker's side: what it hands over, what it waits for, and the memory of both sides. */
#include "exchange/internal.h"

#include <stdarg.h>

enum { CHUNK_LEAST = 256, PIECES = 64, PIECE_LEAST = 1 << 12, PIECE_MOST = 1 << 19 };
enum { UNDER_WAY = 8 << 20 };

/* ---- memory ---- */

static void free_round(struct tide_exchange *x, struct layer *l, struct round *round) {
    for (size_t c = 0; round->parts && c < l->chunk_count; c++) {
        for (uint32_t r = 0; round->parts[c].from && r < x->workers; r++) {
            tide_free(round->parts[c].from[r]);
        }
        tide_free(round->parts[c].from);
        tide_free(round->parts[c].sum);
    }
    for (uint32_t r = 0; round->factors && r < x->workers; r++) {
        tide_free(round->factors[r].values);
    }
    tide_free(round->parts);
    tide_free(round->factors);
}

static void free_layer(struct layer *l) {
    for (size_t i = 0; l->staged && i < l->matrix_count; i++) {
        tide_free(l->staged[i].values);
    }
    tide_free(l->staged);
    tide_free(l->own[0].values);
    tide_free(l->own[1].values);
    tide_free(l->matrices);
    tide_free(l->kept);
    for (size_t c = 0; l->sums_kept && c < l->chunk_count; c++) {
        tide_free(l->sums_kept[c]);
    }
    tide_free(l->sums_kept);
}

static void free_plan(struct tide_exchange_plan *plan) {
    tide_free(plan->paths);
    tide_free(plan->formats);
    tide_free(plan->fanouts);
}

static void destroy(struct tide_exchange *x) {
    for (size_t i = 0; x->layers && i < x->layer_count; i++) {
        free_round(x, &x->layers[i], &x->layers[i].rounds[0]);
        free_round(x, &x->layers[i], &x->layers[i].rounds[1]);
        free_layer(&x->layers[i]);
    }
    for (uint32_t r = 0; x->peers && r < x->workers; r++) {
        tide__exchange_drop(&x->peers[r]);
        tide_free(x->peers[r].heap);
        tide_free(x->peers[r].standing.done);
        tide_free(x->peers[r].standing.of);
    }
    for (size_t i = 0; i < x->waiting_count; i++) {
        tide_message_free(x->waiting[i]);
    }
    tide_free(x->waiting);
    tide_free(x->members);
    tide_free(x->seat);
    free_plan(&x->plan);
    free_plan(&x->agreed);
    for (size_t i = 0; i < 2; i++) {
        free_plan(&x->shared[i].plan);
        tide_free(x->shared[i].by_rank);
        tide_free(x->shared[i].by);
    }
    tide_free(x->layers);
    tide_free(x->peers);
    tide_free(x->gradients);
    tide_free(x->sums);
    tide_free(x);
}

static void unref(struct tide_exchange *x) {
    /* acq_rel: the last one sees all that the other side did before it frees */
    if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) == 1) {
        destroy(x);
    }
}

static void actor_ended(void *state) {
    tide__exchange_fail(state, TIDE_EDIED, "the exchange of gradients has ended");
    unref(state);
}

static int make_plan(struct tide_exchange_plan *plan, size_t layers) {
    plan->paths = tide_alloc_zero(layers + 1, 1);
    plan->formats = tide_alloc_zero(layers + 1, 1);
    plan->fanouts = tide_alloc_zero(layers + 1, 1);
    return plan->paths && plan->formats && plan->fanouts ? 0 : TIDE_ENOMEM;
}

/* Chunks of equal size, a multiple of the workers, so that each owns as much. */
static size_t chunks_of(size_t count, uint32_t workers, size_t most) {
    size_t each = (count + workers - 1) / workers;
    if (each < CHUNK_LEAST) {
        size_t few = (count + CHUNK_LEAST - 1) / CHUNK_LEAST;
        return few > 0 ? few : 1;
    }
    return workers * ((each + most - 1) / most);
}

/* All links together are given so many bytes at most, and each one of them. */
static size_t under_way_of(const struct tide_exchange_options *o) {
    return o->under_way && o->under_way < UNDER_WAY ? o->under_way : UNDER_WAY;
}
static size_t link_most_of(const struct tide_exchange_options *o) {
    return under_way_of(o) / (o->workers > 1 ? o->workers - 1 : 1);
}

/* Values of a message: a link carries a step in PIECES of them, so that none delays the layer that is
 * needed first for a large part of it; few enough to fit into what a link is given. */
static size_t piece_of(const struct tide_exchange_options *o) {
    if (o->chunk_elements) {
        return o->chunk_elements;
    }
    size_t piece = o->elements / ((size_t)PIECES * o->workers);
    size_t fits = link_most_of(o) / sizeof(float);
    piece = piece < fits ? piece : fits;
    return piece < PIECE_LEAST ? PIECE_LEAST : piece < PIECE_MOST ? piece : PIECE_MOST;
}

static int make_layer(const struct tide_exchange_options *o, const struct tide_exchange_layer *from, struct layer *l) {
    size_t most = piece_of(o), end = from->first;
    if (from->first > o->elements || from->count > o->elements - from->first || from->matrix_count > MATRICES_MAX) {
        return tide_fail(TIDE_EINVAL, "exchange: a layer is outside of the %zu gradients, or has over %d matrices",
                         o->elements, MATRICES_MAX);
    }
    *l = (struct layer){.first = from->first,
                        .count = from->count,
                        .rest = from->count,
                        .chunk_count = chunks_of(from->count, o->workers, most),
                        .matrix_count = from->matrix_count};
    l->matrices = tide_alloc_zero(from->matrix_count + 1, sizeof *l->matrices);
    l->staged = tide_alloc_zero(from->matrix_count + 1, sizeof *l->staged);
    l->sums_kept = tide_alloc_zero(l->chunk_count, sizeof *l->sums_kept);
    if (!l->matrices || !l->staged || !l->sums_kept) {
        return TIDE_ENOMEM;
    }
    for (size_t i = 0; i < from->matrix_count; i++) {
        const struct tide_exchange_matrix *m = &from->matrices[i];
        size_t size;
        if (m->first < end || __builtin_mul_overflow(m->rows, m->columns, &size) ||
            size > from->first + from->count - m->first) {
            return tide_fail(TIDE_EINVAL, "exchange: matrix %zu is not in its layer", i + 1);
        }
        l->matrices[i] = *m;
        l->rest -= size;
        end = m->first + size;
    }
    return 0;
}

static int fill(struct tide_exchange *x, const struct tide_exchange_options *o) {
    x->layers = tide_alloc_zero(o->layer_count, sizeof *x->layers);
    x->gradients = tide_alloc_aligned(64, (o->elements * sizeof(float) + 64) & ~(size_t)63);
    x->sums = tide_alloc_aligned(64, (o->elements * sizeof(float) + 64) & ~(size_t)63);
    x->peers = tide_alloc_zero(o->workers, sizeof *x->peers);
    x->members = tide_alloc_zero(o->workers, sizeof *x->members);
    x->seat = tide_alloc_zero(o->workers, sizeof *x->seat);
    bool all = x->layers && x->gradients && x->sums && x->peers && x->members && x->seat;
    int code = all ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        memset(x->gradients, 0, o->elements * sizeof(float));
        memset(x->sums, 0, o->elements * sizeof(float));
        for (uint32_t r = 0; r < o->workers; r++) {
            x->peers[r].x = x;
            x->peers[r].rank = r;
            atomic_init(&x->peers[r].died, ALIVE);
        }
        tide__exchange_set_members(x);
    }
    for (size_t i = 0; i < o->layer_count && code == 0; i++) {
        code = make_layer(o, &o->layers[i], &x->layers[i]);
    }
    struct tide_exchange_plan *plans[] = {&x->plan, &x->agreed, &x->shared[0].plan, &x->shared[1].plan};
    for (size_t i = 0; i < TIDE_COUNT(plans) && code == 0; i++) {
        code = make_plan(plans[i], o->layer_count);
    }
    for (size_t i = 0; i < 2 && code == 0; i++) {
        x->shared[i].by_rank = tide_alloc_zero(o->workers, TIDE_EXCHANGE_SUMS * sizeof(double));
        x->shared[i].by = tide_alloc_zero(o->workers, sizeof *x->shared[i].by);
        code = x->shared[i].by_rank && x->shared[i].by ? 0 : TIDE_ENOMEM;
    }
    return code;
}

int tide_exchange_create(struct tide_node *node, const struct tide_exchange_options *o, struct tide_exchange **out) {
    if (o->workers == 0 || o->workers > TIDE_EXCHANGE_WORKERS_MAX || o->rank >= o->workers || o->layer_count == 0 ||
        o->layer_count > TIDE_EXCHANGE_LAYERS_MAX || o->elements > (size_t)1 << 40) {
        return tide_fail(TIDE_EINVAL, "exchange: worker %u of %u with %zu layers", o->rank + 1, o->workers,
                         o->layer_count);
    }
    struct tide_exchange *x = tide_alloc_zero(1, sizeof *x);
    if (!x) {
        return TIDE_ENOMEM;
    }
    x->node = node;
    x->port = tide_system_port(tide_system_of(node));
    x->rank = o->rank;
    x->under_way = under_way_of(o);
    x->link_most = link_most_of(o);
    x->piece = piece_of(o);
    x->workers = o->workers;
    x->elements = o->elements;
    x->layer_count = o->layer_count;
    int code = fill(x, o);
    atomic_store_explicit(&x->refs, 2, memory_order_relaxed);
    struct tide_actor_options actor = {.type = "exchange",
                                       .run = tide__exchange_run,
                                       .state = x,
                                       .release = actor_ended,
                                       .role =
                                           TIDE_MUTANT(exchange_on_control) ? TIDE_ROLE_CONTROL : TIDE_ROLE_EXCHANGE};
    if (code == 0) {
        code = tide_spawn(node, &actor, &x->address);
    }
    if (code < 0) {
        destroy(x);
        return code;
    }
    *out = x;
    return 0;
}

static int post(struct tide_exchange *x, struct tide_writer *w) {
    int code = w->error ? w->error : tide_post(x->node, x->address, w->data, w->size);
    tide_writer_release(w);
    return code;
}

void tide_exchange_release(struct tide_exchange *x) {
    struct tide_writer w;
    uint8_t buffer[16];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 1);
    tide_write_uint(&w, CLOSE);
    (void)post(x, &w); /* fails when the actor has ended already */
    unref(x);
}

tide_address tide_exchange_address(const struct tide_exchange *x) {
    return x->address;
}
float *tide_exchange_gradients(struct tide_exchange *x) {
    return x->gradients;
}
float *tide_exchange_sum(struct tide_exchange *x) {
    return x->sums;
}

int tide_exchange_connect(struct tide_exchange *x, const tide_address *peers) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 1 + (size_t)x->workers);
    tide_write_uint(&w, CONNECT);
    for (uint32_t r = 0; r < x->workers; r++) {
        tide_write_uint(&w, peers[r]);
    }
    return post(x, &w);
}

/* ---- failing and waiting ---- */

void tide__exchange_wake(struct tide_exchange *x) {
    /* seq_cst with the store before it and the worker's: either it sees what was stored or it is
     * woken */
    struct tide_fiber *waiter = atomic_load_explicit(&x->waiter, memory_order_seq_cst);
    if (waiter) {
        tide_fiber_wake(waiter);
    }
}

void tide__exchange_fail(struct tide_exchange *x, int code, const char *format, ...) {
    char text[sizeof x->failure];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tide_lock(&x->lock);
    bool first = atomic_load_explicit(&x->failed, memory_order_relaxed) == 0;
    if (first) {
        memcpy(x->failure, text, sizeof text);
        atomic_store_explicit(&x->failed, code, memory_order_seq_cst); /* pairs with the worker's load */
    }
    tide_unlock(&x->lock);
    tide__exchange_wake(x);
}

/* seq_cst: pairs with the actor's stores, and makes what it wrote before them visible */
static bool is_done(const atomic_uint_fast64_t *done, uint64_t step) {
    return atomic_load_explicit(done, memory_order_seq_cst) >= step;
}

/* A layer that has come and was not taken yet; layer_count: none. */
static size_t untaken(const struct tide_exchange *x, uint64_t step) {
    size_t i = 0;
    while (i < x->layer_count && (x->layers[i].taken >= step || !is_done(&x->layers[i].done, step))) {
        i++;
    }
    return i;
}

/* Until it is done, or `any` layer is there to be taken. *waited: adds the time; may be NULL. */
static int await(struct tide_exchange *x, const atomic_uint_fast64_t *done, uint64_t step, bool any, const char *why,
                 atomic_uint_fast64_t *waited) {
    int code = 0;
    uint64_t since = 0;
    atomic_store_explicit(&x->waiter, tide_fiber_current(), memory_order_seq_cst);
    while (code == 0 && !is_done(done, step) && !(any && untaken(x, step) < x->layer_count)) {
        if (atomic_load_explicit(&x->failed, memory_order_seq_cst) < 0) {
            tide_lock(&x->lock);
            code = tide_fail(atomic_load_explicit(&x->failed, memory_order_relaxed), "%s", x->failure);
            tide_unlock(&x->lock);
            break;
        }
        since = since ? since : tide_port_now(x->port);
        code = tide_fiber_suspend(TIDE_NEVER, why);
    }
    atomic_store_explicit(&x->waiter, NULL, memory_order_seq_cst);
    if (since && waited) {
        atomic_fetch_add_explicit(waited, tide_port_now(x->port) - since, memory_order_relaxed);
    }
    return code;
}

/* ---- plans ---- */

/* Whether a format can be had on a layer's path. */
static bool is_carried(const struct layer *l, uint8_t path, uint8_t format) {
    switch (format) {
    case TIDE_FORMAT_TOPK:
    case TIDE_FORMAT_ONEBIT:
        return path == TIDE_PATH_PS && l->count >= TIDE_EXCHANGE_LOSSY_LEAST;
    case TIDE_FORMAT_SPARSE:
        return path == TIDE_PATH_FACTOR;
    default:
        return true;
    }
}

void tide_exchange_set_plan(struct tide_exchange *x, const struct tide_exchange_plan *plan) {
    x->plan.epoch = plan->epoch;
    for (size_t i = 0; i < x->layer_count; i++) {
        bool factors = plan->paths[i] != TIDE_PATH_FACTOR || x->layers[i].matrix_count > 0;
        x->plan.paths[i] = factors ? plan->paths[i] : (uint8_t)TIDE_PATH_PS;
        bool carried = is_carried(&x->layers[i], x->plan.paths[i], plan->formats[i]);
        x->plan.formats[i] = carried ? plan->formats[i] : (uint8_t)TIDE_WIRE_F32;
        x->plan.fanouts[i] = plan->fanouts[i];
    }
}

const struct tide_exchange_plan *tide_exchange_get_plan(const struct tide_exchange *x) {
    return &x->plan;
}

/* ---- a step ---- */

static int reserve(float **values, size_t *room, size_t total) {
    if (total <= *room && *values) {
        return 0;
    }
    float *more = tide_alloc((total + 1) * sizeof *more);
    if (!more) {
        return TIDE_ENOMEM;
    }
    tide_free(*values);
    *values = more;
    *room = total;
    return 0;
}

int tide_exchange_factors(struct tide_exchange *x, size_t layer, size_t matrix, size_t k, const float *a,
                          const float *b) {
    if (layer >= x->layer_count || matrix >= x->layers[layer].matrix_count || k > UINT32_MAX / 2) {
        return tide_fail(TIDE_EINVAL, "exchange: %zu factors of matrix %zu in layer %zu", k, matrix + 1, layer + 1);
    }
    struct layer *l = &x->layers[layer];
    const struct tide_exchange_matrix *m = &l->matrices[matrix];
    struct staged *s = &l->staged[matrix];
    int code = reserve(&s->values, &s->room, k * (m->rows + m->columns));
    if (code == 0 && k > 0) {
        memcpy(s->values, a, k * m->rows * sizeof *a);
        memcpy(s->values + k * m->rows, b, k * m->columns * sizeof *b);
    }
    s->k = code == 0 ? k : 0;
    return code;
}

/* Calls each(values, at) for the runs of a layer's elements that are in none of its matrices. */
static void each_rest(float *values, struct layer *l, void (*each)(float *own, float **at, size_t count), float **at) {
    size_t first = l->first;
    for (size_t i = 0; i <= l->matrix_count; i++) {
        size_t end = i < l->matrix_count ? l->matrices[i].first : l->first + l->count;
        each(values + first, at, end - first);
        first = i < l->matrix_count ? end + l->matrices[i].rows * l->matrices[i].columns : end;
    }
}

static void copy_out(float *own, float **at, size_t count) {
    memcpy(*at, own, count * sizeof *own);
    *at += count;
}

static void copy_in(float *own, float **at, size_t count) {
    memcpy(own, *at, count * sizeof *own);
    *at += count;
}

static void add_in(float *own, float **at, size_t count) {
    for (size_t i = 0; i < count; i++) {
        own[i] += (*at)[i];
    }
    *at += count;
}

/* What was handed over, and the rest of the layer, as they travel. */
static int gather_own(struct tide_exchange *x, struct layer *l, struct factors *own) {
    for (size_t i = 0; i < l->matrix_count; i++) {
        own->k[i] = (uint32_t)l->staged[i].k;
    }
    own->total = tide__exchange_factor_total(l, own->k);
    int code = reserve(&own->values, &own->room, own->total);
    if (code < 0) {
        return code;
    }
    float *at = own->values;
    for (size_t i = 0; i < l->matrix_count; i++) {
        size_t size = l->staged[i].k * (l->matrices[i].rows + l->matrices[i].columns);
        if (size > 0) {
            memcpy(at, l->staged[i].values, size * sizeof *at);
        }
        at += size;
        l->staged[i].k = 0;
    }
    each_rest(x->gradients, l, copy_out, &at);
    return 0;
}

int tide_exchange_ready(struct tide_exchange *x, uint64_t step, size_t layer) {
    if (layer >= x->layer_count) {
        return tide_fail(TIDE_EINVAL, "exchange: layer %zu of %zu", layer + 1, x->layer_count);
    }
    struct layer *l = &x->layers[layer];
    l->path[step & 1] = x->plan.paths[layer];
    int code = x->plan.paths[layer] == TIDE_PATH_FACTOR ? gather_own(x, l, &l->own[step & 1]) : 0;
    if (code < 0) {
        return code;
    }
    l->ready_at = tide_port_now(x->port);
    struct tide_writer w;
    uint8_t buffer[64];
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_array(&w, 6);
    tide_write_uint(&w, READY);
    tide_write_uint(&w, step);
    tide_write_uint(&w, layer);
    tide_write_uint(&w, x->plan.paths[layer]);
    tide_write_uint(&w, x->plan.formats[layer]);
    tide_write_uint(&w, x->plan.fanouts[layer]);
    return post(x, &w);
}

int tide_exchange_share(struct tide_exchange *x, uint64_t step, const double own[TIDE_EXCHANGE_SUMS],
                        const struct tide_exchange_plan *proposal) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, 6);
    tide_write_uint(&w, SHARE);
    tide_write_uint(&w, 0);
    tide_write_uint(&w, step);
    tide_write_uint(&w, x->rank);
    tide_write_array(&w, TIDE_EXCHANGE_SUMS);
    for (size_t i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        tide_write_double(&w, own[i]);
    }
    if (proposal) {
        tide_write_array(&w, 4);
        tide_write_uint(&w, proposal->epoch);
        tide_write_binary(&w, proposal->paths, x->layer_count);
        tide_write_binary(&w, proposal->formats, x->layer_count);
        tide_write_binary(&w, proposal->fanouts, x->layer_count);
    } else {
        tide_write_nil(&w);
    }
    return post(x, &w);
}

/* Numbers of those that are members of a view: of the step's own, or of a later one. */
static void add_up(const struct tide_exchange *x, const struct sums *s, uint32_t view,
                   double sums[TIDE_EXCHANGE_SUMS]) {
    for (size_t i = 0; i < TIDE_EXCHANGE_SUMS; i++) {
        sums[i] = 0;
        for (uint32_t r = 0; r < x->workers; r++) {
            bool in = s->by[r] && tide__exchange_in(x, r, view);
            sums[i] += in ? s->by_rank[(size_t)r * TIDE_EXCHANGE_SUMS + i] : 0;
        }
    }
}

int tide_exchange_sums(struct tide_exchange *x, uint64_t step, double sums[TIDE_EXCHANGE_SUMS],
                       const struct tide_exchange_plan **agreed) {
    int code = await(x, &x->shared_done, step, false, "the sums of a step", &x->skew);
    if (code < 0) {
        return code;
    }
    const struct sums *s = &x->shared[step & 1];
    add_up(x, s, s->view, sums);
    *agreed = s->proposed ? &s->plan : NULL;
    return 0;
}

bool tide_exchange_took_part(const struct tide_exchange *x, uint64_t step, uint32_t rank) {
    return rank < x->workers && x->shared[step & 1].step == step && x->shared[step & 1].by[rank];
}

void tide_exchange_sums_of(const struct tide_exchange *x, uint64_t step, size_t layer,
                           double sums[TIDE_EXCHANGE_SUMS]) {
    add_up(x, &x->shared[step & 1], x->layers[layer].rounds[step & 1].view, sums);
}

static const struct factors *factors_of(const struct tide_exchange *x, uint64_t step, size_t layer, uint32_t rank) {
    const struct layer *l = &x->layers[layer];
    return rank == x->rank ? &l->own[step & 1] : &l->rounds[step & 1].factors[rank];
}

static bool is_in(const struct tide_exchange *x, uint64_t step, size_t layer, uint32_t rank) {
    return tide__exchange_in(x, rank, x->layers[layer].rounds[step & 1].view);
}

/* The sum of the rest, in the order of ranks. */
static void add_rest(struct tide_exchange *x, uint64_t step, size_t layer) {
    struct layer *l = &x->layers[layer];
    bool first = true;
    for (uint32_t r = 0; r < x->workers; r++) {
        if (is_in(x, step, layer, r)) {
            const struct factors *f = factors_of(x, step, layer, r);
            float *at = f->values + (f->total - l->rest);
            each_rest(x->sums, l, first ? copy_in : add_in, &at);
            first = false;
        }
    }
}

/* What was not committed may be taken back, so it may not be read. */
static int check_layer(const struct tide_exchange *x, uint64_t step, size_t layer) {
    if (layer >= x->layer_count) {
        return tide_fail(TIDE_EINVAL, "exchange: layer %zu of %zu", layer + 1, x->layer_count);
    }
    return is_done(&x->shared_done, step)
               ? 0
               : tide_fail(TIDE_EINVAL, "exchange: layers of step %llu come after its sums", (unsigned long long)step);
}

int tide_exchange_next(struct tide_exchange *x, uint64_t step, size_t layer, size_t *which) {
    int code = check_layer(x, step, layer);
    if (code == 0) {
        code = await(x, &x->layers[layer].done, step, true, "gradients", &x->waited);
    }
    if (code == 0) {
        *which = is_done(&x->layers[layer].done, step) ? layer : untaken(x, step);
    }
    return code;
}

int tide_exchange_need(struct tide_exchange *x, uint64_t step, size_t layer) {
    int code = check_layer(x, step, layer);
    if (code == 0) {
        code = await(x, &x->layers[layer].done, step, false, "gradients", &x->waited);
    }
    if (code == 0 && x->layers[layer].path[step & 1] == TIDE_PATH_FACTOR) {
        add_rest(x, step, layer);
    }
    if (code == 0) {
        x->layers[layer].taken = step;
    }
    return code;
}

int tide_exchange_flush(struct tide_exchange *x) {
    const uint64_t queued = atomic_load_explicit(&x->queued, memory_order_relaxed);
    return await(x, &x->gone, queued, false, "what others are to have", NULL);
}

void tide_exchange_factors_of(const struct tide_exchange *x, uint64_t step, size_t layer, size_t matrix, uint32_t rank,
                              size_t *k, const float **a, const float **b) {
    const struct layer *l = &x->layers[layer];
    *k = 0;
    *a = *b = NULL;
    if (!is_in(x, step, layer, rank)) {
        return;
    }
    const struct factors *f = factors_of(x, step, layer, rank);
    const float *at = f->values;
    for (size_t i = 0; i < matrix; i++) {
        at += f->k[i] * (l->matrices[i].rows + l->matrices[i].columns);
    }
    *k = f->k[matrix];
    *a = at;
    *b = at + *k * l->matrices[matrix].rows;
}

/* ---- figures ---- */

void tide_exchange_stats(const struct tide_exchange *x, struct tide_exchange_stats *out) {
    *out = (struct tide_exchange_stats){
        .messages = atomic_load_explicit(&x->messages, memory_order_relaxed),
        .bytes = atomic_load_explicit(&x->bytes, memory_order_relaxed),
        .busy_ns = atomic_load_explicit(&x->busy_ns, memory_order_relaxed),
        .waited_ns = atomic_load_explicit(&x->waited, memory_order_relaxed),
        .skew_ns = atomic_load_explicit(&x->skew, memory_order_relaxed),
    };
    for (size_t i = 0; i < TIDE_PATH_COUNT; i++) {
        out->payload[i] = atomic_load_explicit(&x->payload[i], memory_order_relaxed);
    }
}

uint64_t tide_exchange_layer_ns(const struct tide_exchange *x, size_t layer) {
    return layer < x->layer_count ? atomic_load_explicit(&x->layers[layer].took_ns, memory_order_relaxed) : 0;
}
