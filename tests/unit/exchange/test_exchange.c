/* Gradients among workers: every method gives everybody the sum, bit for bit the same, whatever the
 * order of arrival. */
#include "exchange/internal.h"
#include "store_world.h"

enum { LAYERS = 4, STEPS = 5, ELEMENTS = 21000, CHUNK = 1500 };

static const struct tide_exchange_matrix wide[] = {{4000, 60, 200}};
static const struct tide_exchange_matrix two[] = {{16400, 30, 40}, {17700, 20, 50}};
static const struct tide_exchange_layer layers[LAYERS] = {
    {0, 3500, NULL, 0},
    {4000, 12200, wide, 1}, /* a matrix, then a vector */
    {16384, 2500, two, 2},  /* vectors before, between and after */
    {20000, 3, NULL, 0},
};

struct meeting {
    bool varied;          /* paths change every step */
    uint8_t path, format; /* otherwise */
    uint8_t fanout;       /* of factors */
    bool settles;         /* sums of all steps count, not of each; the last one is in f32 */
    uint8_t last_path;    /* then */
    bool slow;            /* a worker lags */
    bool control_blocked; /* a script holds each node's control thread until all workers are done */
    atomic_uint ended;
    atomic_bool gave_up; /* they were not after a minute */
    uint32_t workers;
    tide_address addresses[NODES_MAX];
    atomic_uint here, connected;
    uint64_t hashes[NODES_MAX][STEPS + 1];
    struct tide_exchange_stats stats[NODES_MAX];
    double *totals[NODES_MAX]; /* of what came, if it settles */
    size_t chunk_bytes;        /* of all layers' chunks in the format */
};

static float number(uint32_t worker, uint64_t step, size_t element) {
    uint32_t words[4];
    tide_philox(worker, step, element, words);
    return (float)((double)words[0] / 4294967296.0 - 0.5);
}

static uint8_t path_of(const struct meeting *m, uint64_t step, size_t layer) {
    uint8_t path = m->varied ? (uint8_t)((step + layer) % TIDE_PATH_COUNT) : m->path;
    path = m->settles && step == STEPS ? m->last_path : path;
    return path == TIDE_PATH_FACTOR && layers[layer].matrix_count == 0 ? TIDE_PATH_PS : path;
}

static size_t rows_of(uint32_t worker, uint64_t step) {
    return (worker * 3 + (size_t)step) % 5;
} /* none, too */

/* Element (i, j) of a worker's gradient of a matrix, from its factors. */
static float product(uint32_t worker, uint64_t step, const struct tide_exchange_matrix *m, size_t i,
                     size_t j) {
    float sum = 0;
    for (size_t k = 0; k < rows_of(worker, step); k++) {
        sum += number(worker, step, m->first + k * 977 + i) *
               number(worker, step, m->first + k * 977 + 500 + j);
    }
    return sum;
}

static float gradient(uint32_t worker, uint64_t step, size_t layer, size_t element) {
    for (size_t i = 0; i < layers[layer].matrix_count; i++) {
        const struct tide_exchange_matrix *m = &layers[layer].matrices[i];
        if (element >= m->first && element < m->first + m->rows * m->columns) {
            return product(worker, step, m, (element - m->first) / m->columns,
                           (element - m->first) % m->columns);
        }
    }
    return number(worker, step, element);
}

static int offer(struct tide_exchange *x, uint32_t worker, uint64_t step, size_t layer) {
    size_t k = rows_of(worker, step);
    int code = 0;
    for (size_t i = layers[layer].matrix_count; i-- > 0 && code == 0;) {
        const struct tide_exchange_matrix *m = &layers[layer].matrices[i];
        float a[5 * 60], b[5 * 200];
        for (size_t row = 0; row < k; row++) {
            for (size_t c = 0; c < m->rows; c++) {
                a[row * m->rows + c] = number(worker, step, m->first + row * 977 + c);
            }
            for (size_t c = 0; c < m->columns; c++) {
                b[row * m->columns + c] = number(worker, step, m->first + row * 977 + 500 + c);
            }
        }
        code = tide_exchange_factors(x, layer, i, k, a, b);
    }
    return code;
}

static void multiply(struct tide_exchange *x, const struct meeting *meeting, uint64_t step,
                     size_t layer) {
    for (size_t i = 0; i < layers[layer].matrix_count; i++) {
        const struct tide_exchange_matrix *m = &layers[layer].matrices[i];
        float *out = tide_exchange_sum(x) + m->first;
        memset(out, 0, m->rows * m->columns * sizeof *out);
        for (uint32_t r = 0; r < meeting->workers; r++) {
            size_t k;
            const float *a, *b;
            tide_exchange_factors_of(x, step, layer, i, r, &k, &a, &b);
            for (size_t row = 0; row < k; row++) {
                for (size_t e = 0; e < m->rows * m->columns; e++) {
                    out[e] +=
                        a[row * m->rows + e / m->columns] * b[row * m->columns + e % m->columns];
                }
            }
        }
    }
}

static void plan_of(const struct meeting *m, uint64_t step, struct tide_exchange_plan *plan) {
    plan->epoch = step;
    for (size_t l = 0; l < LAYERS; l++) {
        plan->paths[l] = path_of(m, step, l);
        plan->formats[l] = m->settles && step == STEPS ? (uint8_t)TIDE_WIRE_F32 : m->format;
        plan->fanouts[l] = m->varied ? (uint8_t)((step + l) % 4) : m->fanout;
    }
}

static void leave(struct fiber *f, struct tide_exchange *x, uint64_t step) {
    struct meeting *m = f->arg;
    float *g = tide_exchange_gradients(x);
    for (size_t l = LAYERS; l-- > 0;) {
        for (size_t e = layers[l].first; e < layers[l].first + layers[l].count; e++) {
            g[e] = gradient(f->index, step, l, e);
        }
        if (path_of(m, step, l) == TIDE_PATH_FACTOR) {
            CHECK(f, offer(x, f->index, step, l) == 0);
        }
        CHECK(f, tide_exchange_ready(x, step, l) == 0);
        if (m->slow && tide_random_below(&f->random, 3) == 0) {
            CHECK(f, tide_sleep(tide_random_below(&f->random, 3000000)) == 0);
        }
    }
}

/* A layer has come: what every worker adds up to is what there is now. */
static void check_layer(struct fiber *f, struct tide_exchange *x, uint64_t step, size_t l) {
    struct meeting *m = f->arg;
    const float *g = tide_exchange_sum(x);
    double tolerance = m->format == TIDE_WIRE_F32 || m->format == TIDE_FORMAT_SPARSE ? 1e-5
                       : m->format == TIDE_WIRE_F16                                  ? 5e-3
                                                                                     : 4e-2;
    if (path_of(m, step, l) == TIDE_PATH_FACTOR) {
        multiply(x, m, step, l);
    }
    m->hashes[f->index][step] +=
        tide_hash(g + layers[l].first, layers[l].count * sizeof *g, l); /* in any order */
    for (size_t e = layers[l].first; e < layers[l].first + layers[l].count; e++) {
        double sum = 0;
        if (m->settles) {
            m->totals[f->index][e] += (double)g[e];
            continue;
        }
        for (uint32_t r = 0; r < m->workers; r++) {
            sum += (double)gradient(r, step, l, e);
        }
        if (!(fabs((double)g[e] - sum) <= tolerance * (1 + fabs(sum)))) {
            snprintf(f->failure, sizeof f->failure, "step %d layer %zu element %zu: %g, not %g",
                     (int)step, l, e, (double)g[e], sum);
            return;
        }
    }
}

/* Every layer once: as they come in odd steps, in their order in the others. */
static void arrive(struct fiber *f, struct tide_exchange *x, uint64_t step) {
    bool taken[LAYERS] = {false};
    for (size_t l = 0; l < LAYERS; l++) {
        while (!taken[l]) {
            size_t which = l;
            CHECK(f, step % 2 == 0 || tide_exchange_next(x, step, l, &which) == 0);
            CHECK(f, which < LAYERS && !taken[which]);
            CHECK(f, tide_exchange_need(x, step, which) == 0);
            taken[which] = true;
            check_layer(f, x, step, which);
            if (f->failure[0]) {
                return;
            }
        }
    }
}

static void step_once(struct fiber *f, struct tide_exchange *x, uint64_t step,
                      struct tide_exchange_plan *plan) {
    struct meeting *m = f->arg;
    double own[TIDE_EXCHANGE_SUMS] = {1, f->index, (double)step, 0.5}, sums[TIDE_EXCHANGE_SUMS];
    leave(f, x, step);
    if (f->failure[0]) {
        return;
    }
    plan_of(m, step + 1, plan);
    CHECK(f, tide_exchange_share(x, step, own, f->index == 0 ? plan : NULL) == 0);
    const struct tide_exchange_plan *agreed;
    CHECK(f, tide_exchange_sums(x, step, sums, &agreed) == 0);
    CHECK(f, sums[0] == m->workers && sums[1] == m->workers * (m->workers - 1) / 2.0 &&
                 sums[2] == (double)(step * m->workers) && sums[3] == 0.5 * m->workers);
    CHECK(f,
          agreed && agreed->epoch == step + 1 && memcmp(agreed->paths, plan->paths, LAYERS) == 0);
    tide_exchange_set_plan(x, agreed);
    arrive(f, x, step);
}

static struct tide_exchange *enter(struct fiber *f, struct tide_exchange_plan *plan) {
    struct meeting *m = f->arg;
    struct tide_exchange_options o = {.rank = f->index,
                                      .workers = m->workers,
                                      .elements = ELEMENTS,
                                      .layers = layers,
                                      .layer_count = LAYERS,
                                      .chunk_elements = CHUNK};
    struct tide_exchange *x = NULL;
    if (tide_exchange_create(f->node, &o, &x) != 0) {
        return NULL;
    }
    plan_of(m, 1, plan);
    tide_exchange_set_plan(x, plan);
    m->addresses[f->index] = tide_exchange_address(x);
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < m->workers) {
        tide_sleep(100000);
    }
    if (tide_exchange_connect(x, m->addresses) != 0) {
        return NULL;
    }
    atomic_fetch_add(&m->connected, 1);
    while (atomic_load(&m->connected) < m->workers) {
        tide_sleep(100000);
    }
    return x;
}

static void worker_run(struct fiber *f) {
    struct meeting *m = f->arg;
    uint8_t paths[LAYERS], formats[LAYERS], fanouts[LAYERS];
    struct tide_exchange_plan plan = {.paths = paths, .formats = formats, .fanouts = fanouts};
    struct tide_exchange *x = enter(f, &plan);
    CHECK(f, x);
    for (size_t l = 0; l < LAYERS && f->index == 0; l++) {
        for (size_t c = 0, first; c < x->layers[l].chunk_count; c++) {
            size_t count = tide__exchange_chunk(&x->layers[l], c, &first);
            bool small = layers[l].count < TIDE_EXCHANGE_LOSSY_LEAST && m->format > TIDE_WIRE_BF16;
            m->chunk_bytes += tide__exchange_size(count, small ? TIDE_WIRE_F32 : m->format);
        }
    }
    for (uint64_t step = 1; step <= STEPS && !f->failure[0]; step++) {
        step_once(f, x, step, &plan);
    }
    tide_exchange_stats(x, &m->stats[f->index]);
    tide_exchange_release(x);
    atomic_fetch_add(&m->ended, 1);
}

static int hold_control(void *state, const struct tide_message *message) {
    struct meeting *m = state;
    const uint64_t until = tide_node_now(tide_node_current()) + 60 * TIDE_SECOND;
    while (message->kind == TIDE_CAST && atomic_load(&m->ended) < m->workers && !atomic_load(&m->gave_up)) {
        usleep(1000);
        atomic_store(&m->gave_up, tide_node_now(tide_node_current()) > until);
    }
    return 0;
}

static void block_control(struct cluster *c, struct meeting *m) {
    for (unsigned i = 0; i < c->count; i++) {
        tide_address who;
        const struct tide_actor_options o = {.handle = hold_control, .state = m, .role = TIDE_ROLE_CONTROL};
        assert_int_equal(tide_spawn(c->nodes[i], &o, &who), 0);
        assert_int_equal(tide_post(c->nodes[i], who, "\xc0", 1), 0);
    }
}

static void meet(struct meeting *m, bool simulated, uint32_t workers, uint32_t nodes,
                 uint64_t seed) {
    struct cluster c;
    struct fiber fibers[NODES_MAX];
    m->workers = workers;
    open_cluster(&c, simulated, nodes, seed);
    if (m->control_blocked) {
        block_control(&c, m);
    }
    for (uint32_t r = 0; r < workers; r++) {
        start(&c, &fibers[r], r % nodes, r, worker_run, m);
    }
    finish(&c, fibers, workers);
    close_cluster(&c);
    for (uint32_t r = 1; r < workers; r++) {
        assert_memory_equal(m->hashes[r], m->hashes[0], sizeof m->hashes[0]); /* bit for bit */
    }
}

static void every_method_gives_all_the_same_sum(void **state) {
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++) {
        for (uint8_t path = 0; path < TIDE_PATH_COUNT; path++) {
            for (uint8_t format = TIDE_WIRE_F32; format <= TIDE_WIRE_BF16; format++) {
                struct meeting m = {.path = path, .format = format};
                meet(&m, true, workers, workers, 7 + workers);
            }
        }
    }
}

static void factors_reach_all_by_way_of_others(void **state) {
    (void)state;
    for (uint32_t workers = 3; workers <= NODES_MAX; workers++) {
        uint64_t first[STEPS + 1] = {0};
        uint64_t payload = 0;
        for (uint8_t fanout = 0; fanout < workers; fanout++) {
            struct meeting m = {.path = TIDE_PATH_FACTOR, .fanout = fanout, .slow = true};
            meet(&m, true, workers, workers, 3u + fanout);
            uint64_t sent = 0;
            for (uint32_t r = 0; r < workers; r++) {
                sent += m.stats[r].payload[TIDE_PATH_FACTOR];
            }
            if (fanout == 0) {
                memcpy(first, m.hashes[0], sizeof first);
                payload = sent;
            }
            assert_memory_equal(first, m.hashes[0], sizeof first);
            assert_int_equal(sent, payload); /* everybody gets everything once */
            m = (struct meeting){
                .path = TIDE_PATH_FACTOR, .fanout = fanout, .format = TIDE_FORMAT_SPARSE};
            meet(&m, true, workers, workers, 3u + fanout);
            assert_memory_equal(first, m.hashes[0], sizeof first);
        }
    }
}

static void each_step_has_another_tree_of_all(void **state) {
    (void)state;
    for (uint32_t workers = 2; workers <= 17; workers++) {
        uint32_t ranks[17];
        struct tide_exchange x = {
            .workers = workers, .members = ranks, .seat = ranks, .member_count = workers};
        for (uint32_t rank = 0; rank < workers; rank++) {
            ranks[rank] = rank;
        }
        for (uint32_t source = 0; source < workers; source++) {
            for (uint64_t step = 1; step <= 20; step++) {
                uint32_t seen = 0;
                for (uint32_t rank = 0; rank < workers; rank++) {
                    uint32_t place = tide__exchange_place(&x, source, step, rank);
                    assert_int_equal(tide__exchange_rank(&x, source, step, place), rank);
                    seen |= 1u << place;
                }
                assert_int_equal(seen, (1u << workers) - 1);
                if (workers > 2) {
                    assert_int_not_equal(tide__exchange_rank(&x, source, step, 1),
                                         tide__exchange_rank(&x, source, step + 1, 1));
                }
            }
        }
    }
}

/* Once a layer goes in f32 again, all that lossy formats had taken off has arrived. */
static void what_lossy_formats_lose_comes_later(void **state) {
    (void)state;
    for (uint8_t format = TIDE_WIRE_F16; format <= TIDE_FORMAT_ONEBIT; format++) {
        for (uint8_t last = 0; last < 2; last++) {
            for (uint32_t workers = 2; workers <= 4; workers++) {
                struct meeting m = {.path = TIDE_PATH_PS,
                                    .format = format,
                                    .settles = true,
                                    .last_path = last ? TIDE_PATH_RING : TIDE_PATH_PS};
                for (uint32_t r = 0; r < workers; r++) {
                    m.totals[r] = calloc(ELEMENTS, sizeof(double));
                }
                meet(&m, true, workers, workers, format);
                for (size_t l = 0; l < LAYERS; l++) {
                    for (size_t e = layers[l].first; e < layers[l].first + layers[l].count; e++) {
                        double sum = 0;
                        for (uint64_t n = 0; n < STEPS * workers; n++) {
                            sum += (double)gradient((uint32_t)(n % workers), 1 + n / workers, l, e);
                        }
                        if (fabs(m.totals[0][e] - sum) > 1e-4) {
                            fail_msg("format %d: element %zu: %g, not %g", format, e,
                                     m.totals[0][e], sum);
                        }
                    }
                }
                uint64_t sent = 0, whole = 0;
                for (size_t l = 0; l < LAYERS; l++) {
                    whole += 2 * (workers - 1) * 4 * layers[l].count;
                }
                for (uint32_t r = 0; r < workers; r++) {
                    sent += m.stats[r].payload[TIDE_PATH_PS] + m.stats[r].payload[TIDE_PATH_RING];
                    free(m.totals[r]);
                }
                assert_int_equal(sent, (STEPS - 1) * 2 * (workers - 1) * m.chunk_bytes + whole);
            }
        }
    }
}

static void zeros_are_left_out_and_nothing_else(void **state) {
    (void)state;
    float from[100], to[100];
    for (size_t count = 0; count <= 100; count++) {
        for (size_t i = 0; i < count; i++) {
            from[i] = i % 3 == 0 ? number(1, 2, i) : 0;
        }
        from[count / 2] = -0.0f;
        from[count / 3] = NAN;
        struct tide_blob *blob = tide__sparse_blob(from, count);
        assert_non_null(blob);
        uint8_t *exact = malloc(blob->size + 1);
        memcpy(exact, blob->data, blob->size);
        exact = realloc(exact, blob->size ? blob->size : 1);
        assert_int_equal(tide__sparse_expand(exact, blob->size, to, count), 0);
        assert_memory_equal(from, to, count * sizeof *from);
        for (size_t size = 0; size < blob->size; size++) {
            assert_int_equal(tide__sparse_expand(exact, size, to, count), TIDE_EPROTO);
        }
        if (count % 8 != 0) {
            exact[count / 8] |= 0x80; /* a value behind the last */
            assert_int_equal(tide__sparse_expand(exact, blob->size, to, count), TIDE_EPROTO);
        }
        free(exact);
        tide_blob_unref(blob);
    }
}

static void the_largest_and_the_signs_are_kept(void **state) {
    (void)state;
    enum { N = 2500 };
    float from[N], to[N];
    for (size_t i = 0; i < N; i++) {
        from[i] = number(1, 1, i);
    }
    from[7] = NAN;
    from[8] = -INFINITY;
    for (size_t i = 100; i < 140; i++) {
        from[i] = i % 2 ? 3.0f : -3.0f; /* ties: the first ones go */
    }
    static const size_t counts[] = {0, 1, 2, 99, 100, 101, 1024, 1025, N};
    for (size_t n = 0; n < TIDE_COUNT(counts); n++) {
        size_t count = counts[n], size = tide__compressed_size(count, TIDE_FORMAT_TOPK);
        uint8_t *bytes = malloc(size + 1);
        assert_int_equal(tide__compress(from, bytes, count, TIDE_FORMAT_TOPK), 0);
        assert_int_equal(tide__expand(bytes, to, count, TIDE_FORMAT_TOPK), 0);
        size_t there = 0;
        float least = INFINITY, most = 0;
        for (size_t i = 0; i < count; i++) {
            bool kept = to[i] != 0;
            there += kept;
            assert_true(!kept || to[i] == from[i] || isnan(from[i]));
            least = kept && fabsf(from[i]) < least ? fabsf(from[i]) : least;
            most = !kept && fabsf(from[i]) > most ? fabsf(from[i]) : most;
        }
        assert_true(there == size / 8 && there == (count + 99) / 100 &&
                    (there == 0 || least >= most));
        free(bytes);
        size = tide__compressed_size(count, TIDE_FORMAT_ONEBIT);
        bytes = malloc(size + 1);
        assert_int_equal(tide__compress(from, bytes, count, TIDE_FORMAT_ONEBIT), 0);
        assert_int_equal(tide__expand(bytes, to, count, TIDE_FORMAT_ONEBIT), 0);
        double sums[2] = {0, 0};
        for (size_t i = 1024; i < count; i++) { /* the first block has a NaN */
            assert_true((to[i] < 0) == (from[i] < 0));
            sums[0] += (double)from[i];
            sums[1] += (double)to[i];
        }
        assert_true(fabs(sums[0] - sums[1]) < 1e-3); /* means are kept */
        free(bytes);
    }
}

static void order_of_arrival_changes_no_bit(void **state) {
    (void)state;
    uint64_t first[STEPS + 1] = {0};
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct meeting m = {.varied = true, .slow = true};
        meet(&m, true, 4, seed % 2 ? 4 : 3, seed);
        if (seed == 1) {
            memcpy(first, m.hashes[0], sizeof first);
        }
        assert_memory_equal(first, m.hashes[0], sizeof first);
    }
}

static void methods_change_in_mid_run_on_real_threads(void **state) {
    (void)state;
    struct meeting m = {.varied = true, .slow = true}, together = {.varied = true};
    meet(&m, false, 3, 3, 0);
    meet(&together, false, 4, 2, 0); /* two workers on a node */
}

static void a_blocked_control_thread_does_not_hold_gradients_up(void **state) {
    (void)state;
    struct meeting m = {.varied = true, .control_blocked = true};
    meet(&m, false, 3, 3, 0);
    assert_false(atomic_load(&m.gave_up));
}

/* Bytes of values: 2 (P - 1) / P of a dense layer on average over the workers, (P - 1) (K (M + N) +
 * rest) of factors. */
static void bytes_are_those_of_the_formulas(void **state) {
    (void)state;
    enum { P = 4 };
    uint64_t values = 0, factors = 0, dense = 0;
    for (size_t l = 0; l < LAYERS; l++) {
        size_t rest = layers[l].count;
        values += layers[l].count;
        for (size_t i = 0; i < layers[l].matrix_count; i++) {
            const struct tide_exchange_matrix *m = &layers[l].matrices[i];
            rest -= m->rows * m->columns;
            for (uint64_t n = 0; n < STEPS * P; n++) {
                factors +=
                    (P - 1) * 4 * rows_of((uint32_t)(n % P), 1 + n / P) * (m->rows + m->columns);
            }
        }
        factors += layers[l].matrix_count ? STEPS * P * (P - 1) * 4 * rest : 0;
        dense += layers[l].matrix_count ? 0 : layers[l].count;
    }
    for (uint8_t path = 0; path < TIDE_PATH_COUNT; path++) {
        struct meeting m = {.path = path};
        meet(&m, true, P, P, 3);
        uint64_t sent[TIDE_PATH_COUNT] = {0}, frames = 0, bytes = 0;
        for (uint32_t r = 0; r < P; r++) {
            frames += m.stats[r].messages;
            bytes += m.stats[r].bytes;
            for (size_t i = 0; i < TIDE_PATH_COUNT; i++) {
                sent[i] += m.stats[r].payload[i];
            }
        }
        uint64_t all = path == TIDE_PATH_FACTOR ? dense : values;
        assert_int_equal(sent[path == TIDE_PATH_FACTOR ? TIDE_PATH_PS : path],
                         STEPS * 2 * (P - 1) * 4 * all);
        assert_int_equal(sent[TIDE_PATH_FACTOR], path == TIDE_PATH_FACTOR ? factors : 0);
        assert_true(bytes > sent[0] + sent[1] + sent[2] &&
                    bytes < sent[0] + sent[1] + sent[2] + 200 * frames);
    }
}

/* What waits for a busy link leaves by step and layer, first come first served within. */
static void the_layer_needed_first_leaves_first(void **state) {
    (void)state;
    struct tide_exchange x = {.workers = 2, .layer_count = 50};
    struct peer peers[2] = {{.x = &x}, {.x = &x}};
    x.peers = peers;
    struct tide_random random;
    tide_random_seed(&random, 1);
    for (uint32_t i = 0; i < 500; i++) {
        struct entry e = {.step = 1 + tide_random_below(&random, 2),
                          .layer = (uint32_t)tide_random_below(&random, 50),
                          .index = i};
        assert_int_equal(tide__exchange_queue(&x, 1, e), 0);
    }
    struct entry last = {0};
    for (uint32_t i = 0; i < 500; i++) {
        struct entry e = tide__exchange_pop(&peers[1]);
        assert_true(e.step > last.step ||
                    (e.step == last.step &&
                     (e.layer > last.layer || (e.layer == last.layer && e.index > last.index))) ||
                    i == 0);
        last = e;
    }
    assert_int_equal(peers[1].count, 0);
    tide_free(peers[1].heap);
}

static void foreign_bytes_are_refused(void **state) {
    (void)state;
    struct tide_exchange x = {.rank = 1, .layer_count = 1};
    struct layer l = {.matrix_count = 0};
    x.layers = &l;
    struct entry e = {.step = 3, .kind = PUSH, .format = TIDE_WIRE_BF16, .count = 2, .index = 7};
    uint8_t buffer[200];
    struct tide_writer w;
    struct incoming m;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__exchange_head(&w, &x, &e);
    assert_int_equal(tide__exchange_parse(buffer, w.size, &m),
                     TIDE_EPROTO); /* its values are missing */
    memcpy(buffer + w.size, "\1\2\3\4", 4);
    assert_int_equal(tide__exchange_parse(buffer, w.size + 4, &m), 0);
    assert_true(m.kind == PUSH && m.rank == 1 && m.step == 3 && m.index == 7 && m.size == 4);
    for (size_t cut = 0; cut < w.size + 4; cut++) {
        assert_int_equal(tide__exchange_parse(buffer, cut, &m), TIDE_EPROTO);
    }
    for (size_t at = 0; at < w.size + 4; at++) { /* none of it is read beyond its end */
        for (int value = 0; value < 256; value++) {
            uint8_t *copy = malloc(w.size + 4);
            memcpy(copy, buffer, w.size + 4);
            copy[at] = (uint8_t)value;
            (void)tide__exchange_parse(copy, w.size + 4, &m);
            free(copy);
        }
    }
    e.step = 0;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__exchange_head(&w, &x, &e);
    assert_int_equal(tide__exchange_parse(buffer, w.size + 4, &m), TIDE_EPROTO);
}

static void wrong_layers_are_refused(void **state) {
    (void)state;
    const struct tide_exchange_matrix beyond[] = {{10, 5, 5}}, crossed[] = {{0, 4, 4}, {10, 2, 2}};
    const struct tide_exchange_layer bad[] = {
        {0, 101, NULL, 0}, {101, 0, NULL, 0}, {0, 30, beyond, 1}, {0, 30, crossed, 2}};
    struct cluster c;
    open_cluster(&c, true, 1, 1);
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        struct tide_exchange_options o = {
            .workers = 2, .elements = 100, .layers = &bad[i], .layer_count = 1};
        struct tide_exchange *x;
        assert_int_equal(tide_exchange_create(c.nodes[0], &o, &x), TIDE_EINVAL);
    }
    struct tide_exchange_options none = {.workers = 2, .elements = 100};
    struct tide_exchange *x;
    assert_int_equal(tide_exchange_create(c.nodes[0], &none, &x), TIDE_EINVAL);
    close_cluster(&c);
}

/* Sums are whole when each worker has given its numbers, not when as many messages have come. */
static void numbers_of_a_worker_count_once(void **state) {
    (void)state;
    struct peer peers[3] = {0};
    bool by[2][3] = {0};
    double by_rank[2][3 * TIDE_EXCHANGE_SUMS] = {0};
    uint32_t members[3] = {0, 1, 2};
    struct tide_exchange x = {.workers = 3, .member_count = 3, .members = members, .peers = peers};
    for (unsigned i = 0; i < 2; i++) {
        x.shared[i].by = by[i];
        x.shared[i].by_rank = by_rank[i];
    }
    for (uint32_t r = 0; r < 3; r++) {
        atomic_init(&peers[r].died, UINT32_MAX);
    }
    struct incoming m = {.step = 1, .rank = 1};
    assert_int_equal(tide__exchange_take_share(&x, &m), 0);
    m.rank = 2;
    assert_int_equal(tide__exchange_take_share(&x, &m), 0);
    assert_int_equal(tide__exchange_take_share(&x, &m), TIDE_EPROTO);
    assert_int_equal(x.shared[1].got, 2);
    assert_int_equal(atomic_load(&x.shared_done), 0);
}

/* What an owner's lossy format had kept of a chunk's sum stays in the run when the chunk gets another owner. */
static void what_an_owner_kept_goes_on_with_its_gradients(void **state) {
    (void)state;
    enum { CHUNKS = 3, COUNT = 9 };
    uint32_t members[3] = {0, 1, 2};
    float *sums_kept[CHUNKS] = {0};
    struct layer l = {.count = COUNT, .chunk_count = CHUNKS, .sums_kept = sums_kept};
    struct tide_exchange x = {.workers = 3, .member_count = 3, .members = members, .layers = &l, .layer_count = 1};
    for (uint32_t c = 0; c < CHUNKS; c++) { /* as if it had owned all of them in former views */
        sums_kept[c] = tide_alloc_zero(CHUNKS, sizeof(float));
        for (size_t i = 0; i < CHUNKS; i++) {
            sums_kept[c][i] = (float)(10 * c + i);
        }
    }
    assert_int_equal(tide__exchange_hand_kept(&x, 0), 0);
    assert_true(l.keeps);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        size_t first, count = tide__exchange_chunk(&l, c, &first);
        const bool own = tide__exchange_owner(&x, 0, c) == 0;
        assert_int_equal(own, sums_kept[c] != NULL);
        for (size_t i = 0; i < count; i++) {
            assert_true(l.kept[first + i] == (own ? 0 : (float)(10 * c + i)));
        }
        tide_free(sums_kept[c]);
    }
    tide_free(l.kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_gives_all_the_same_sum),
        cmocka_unit_test(factors_reach_all_by_way_of_others),
        cmocka_unit_test(each_step_has_another_tree_of_all),
        cmocka_unit_test(what_lossy_formats_lose_comes_later),
        cmocka_unit_test(zeros_are_left_out_and_nothing_else),
        cmocka_unit_test(the_largest_and_the_signs_are_kept),
        cmocka_unit_test(order_of_arrival_changes_no_bit),
        cmocka_unit_test(methods_change_in_mid_run_on_real_threads),
        cmocka_unit_test(a_blocked_control_thread_does_not_hold_gradients_up),
        cmocka_unit_test(bytes_are_those_of_the_formulas),
        cmocka_unit_test(the_layer_needed_first_leaves_first),
        cmocka_unit_test(foreign_bytes_are_refused),
        cmocka_unit_test(wrong_layers_are_refused),
        cmocka_unit_test(numbers_of_a_worker_count_once),
        cmocka_unit_test(what_an_owner_kept_goes_on_with_its_gradients),
    };
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
