/* Workers that die in mid-exchange: whenever that is, replicas of those that are left stay equal
 * bit for bit, and are what the parts that are in make of them. */
#include "exchange/internal.h"
#include "store_world.h"

enum {
    P = 4,
    LAYERS = 3,
    STEPS = 3,
    ELEMENTS = 3072,
    ROWS = 30,
    COLUMNS = 40,
    MATRIX = 1100,
    K = 3
};

static const struct tide_exchange_matrix wide[] = {{MATRIX, ROWS, COLUMNS}};
static const struct tide_exchange_layer layers[LAYERS] = {
    {0, 700, NULL, 0}, {1024, 1300, wide, 1}, {2400, 5, NULL, 0}};

struct replica {
    float w[ELEMENTS], gradients[ELEMENTS];
    float a[K * ROWS], b[K * COLUMNS];
};

struct training {
    uint8_t path, format, fanout;
    tide_address addresses[P];
    unsigned here, connected;
    struct replica replicas[P];
    unsigned masks[P][STEPS + 1][LAYERS]; /* who is in a sum, as each worker sees it */
    bool dies[P];                         /* it is to */
    bool dead[P], over[P];
};

/* ---- crashes: what the doomed sends from some message on does not leave ---- */

static struct {
    struct training *training;
    unsigned left[P];   /* messages that leave a worker, then it dies */
    unsigned cut[P][P]; /* messages that leave it for another one */
    unsigned sent[P];
    bool lost[P]; /* something that it sent: it will die soon */
} fate;

static void die(struct training *t, unsigned r) {
    if (!t->dead[r]) {
        t->dead[r] = true;
        assert_int_equal(tide_kill(t->addresses[r], TIDE_EKILLED), 0);
    }
}

/* Whether the message leaves; kills the sender when its time has come. */
static bool leaves(tide_address to) {
    struct training *t = fate.training;
    for (unsigned r = 0; t && r < P; r++) {
        if (t->dies[r] && t->addresses[r] == tide_self()) {
            unsigned target = 0;
            while (target < P && t->addresses[target] != to) {
                target++;
            }
            if (fate.left[r] == 0) {
                die(t, r);
            }
            if (t->dead[r] || (target < P && fate.cut[r][target] == 0)) {
                fate.lost[r] = true;
                return false;
            }
            fate.left[r]--;
            fate.sent[r]++;
            fate.cut[r][target < P ? target : r]--;
        }
    }
    return true;
}

int __real_tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size);
int __wrap_tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size);
int __wrap_tide_send(tide_address to, enum tide_lane lane, const void *data, size_t size) {
    return leaves(to) ? __real_tide_send(to, lane, data, size) : 0;
}

int __real_tide_send_blob_within(tide_address to, enum tide_lane lane, const void *data,
                                 size_t size, struct tide_blob *tail, uint32_t window);
int __wrap_tide_send_blob_within(tide_address to, enum tide_lane lane, const void *data,
                                 size_t size, struct tide_blob *tail, uint32_t window);
int __wrap_tide_send_blob_within(tide_address to, enum tide_lane lane, const void *data,
                                 size_t size, struct tide_blob *tail, uint32_t window) {
    return leaves(to) ? __real_tide_send_blob_within(to, lane, data, size, tail, window) : 0;
}

/* ---- a replica ---- */

static float number(uint32_t worker, uint64_t step, size_t element) {
    uint32_t words[4];
    tide_philox(worker, step, element, words);
    return (float)((double)words[0] / 4294967296.0 - 0.5);
}

/* The gradient depends on the parameters: replicas that differ once differ for good. */
static void compute(struct replica *r, uint32_t worker, uint64_t step) {
    for (size_t e = 0; e < ELEMENTS; e++) {
        r->gradients[e] = number(worker, step, e) + 0.25f * r->w[e];
    }
    for (size_t i = 0; i < K * ROWS; i++) {
        r->a[i] = number(worker, step, 10000 + i) + 0.1f * r->w[MATRIX + i];
    }
    for (size_t i = 0; i < K * COLUMNS; i++) {
        r->b[i] = number(worker, step, 20000 + i);
    }
    memset(r->gradients + MATRIX, 0, ROWS * COLUMNS * sizeof(float));
    for (size_t k = 0; k < K; k++) {
        for (size_t e = 0; e < ROWS * COLUMNS; e++) {
            r->gradients[MATRIX + e] +=
                r->a[k * ROWS + e / COLUMNS] * r->b[k * COLUMNS + e % COLUMNS];
        }
    }
}

static void apply(float *w, const float *sum, size_t l, unsigned count) {
    for (size_t e = layers[l].first; e < layers[l].first + layers[l].count; e++) {
        w[e] -= 0.1f * sum[e] / (float)count;
    }
}

static void add_product(float *out, size_t k, const float *a, const float *b) {
    for (size_t row = 0; row < k; row++) {
        for (size_t e = 0; e < ROWS * COLUMNS; e++) {
            out[MATRIX + e] += a[row * ROWS + e / COLUMNS] * b[row * COLUMNS + e % COLUMNS];
        }
    }
}

/* What those in the masks of a worker make of the parameters, one after the other. */
static void reference(const struct training *t, const unsigned masks[STEPS + 1][LAYERS], float *w) {
    static struct replica each[P];
    memset(each, 0, sizeof each);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t r = 0; r < P; r++) {
            memcpy(each[r].w, w, ELEMENTS * sizeof *w);
            compute(&each[r], r, step);
        }
        for (size_t l = 0; l < LAYERS; l++) {
            float sum[ELEMENTS] = {0};
            bool first = true;
            for (uint32_t r = 0; r < P; r++) {
                for (size_t e = 0; e < ELEMENTS && (masks[step][l] >> r & 1); e++) {
                    bool matrix = e >= MATRIX && e < MATRIX + ROWS * COLUMNS;
                    if (!matrix || t->path != TIDE_PATH_FACTOR) {
                        sum[e] = first ? each[r].gradients[e] : sum[e] + each[r].gradients[e];
                    }
                }
                first = first && !(masks[step][l] >> r & 1);
                if (t->path == TIDE_PATH_FACTOR && l == 1 && (masks[step][l] >> r & 1)) {
                    add_product(sum, K, each[r].a, each[r].b);
                }
            }
            apply(w, sum, l, (unsigned)__builtin_popcount(masks[step][l]));
        }
    }
}

/* ---- a worker ---- */

static int take_layer(struct fiber *f, struct tide_exchange *x, uint64_t step, size_t l) {
    struct training *t = f->arg;
    double sums[TIDE_EXCHANGE_SUMS];
    int code = tide_exchange_need(x, step, l);
    if (code < 0) {
        return code;
    }
    float *sum = tide_exchange_sum(x);
    if (t->path == TIDE_PATH_FACTOR && l == 1) {
        memset(sum + MATRIX, 0, ROWS * COLUMNS * sizeof *sum);
        for (uint32_t r = 0; r < P; r++) {
            size_t k;
            const float *a, *b;
            tide_exchange_factors_of(x, step, l, 0, r, &k, &a, &b);
            add_product(sum, k, a, b);
        }
    }
    tide_exchange_sums_of(x, step, l, sums);
    t->masks[f->index][step][l] = (unsigned)sums[0];
    apply(t->replicas[f->index].w, sum, l, (unsigned)__builtin_popcount((unsigned)sums[0]));
    return 0;
}

static int take(struct fiber *f, struct tide_exchange *x, uint64_t step) {
    double sums[TIDE_EXCHANGE_SUMS];
    const struct tide_exchange_plan *agreed;
    bool taken[LAYERS] = {false};
    int code = tide_exchange_sums(x, step, sums, &agreed);
    for (size_t l = 0; l < LAYERS && code == 0; l++) {
        while (!taken[l] && code == 0) {
            size_t which = l;
            code = tide_exchange_next(x, step, l, &which);
            code = code < 0 ? code : take_layer(f, x, step, which);
            taken[which] = true;
            if (tide_random_below(&f->random, 4) == 0) {
                tide_sleep(tide_random_below(&f->random, 200000));
            }
        }
    }
    return code;
}

static int give(struct fiber *f, struct tide_exchange *x, uint64_t step) {
    struct training *t = f->arg;
    struct replica *r = &t->replicas[f->index];
    compute(r, f->index, step);
    int code = 0;
    for (size_t l = LAYERS; l-- > 0 && code == 0;) {
        const struct tide_exchange_layer *layer = &layers[l];
        memcpy(tide_exchange_gradients(x) + layer->first, r->gradients + layer->first,
               layer->count * sizeof(float));
        if (l == 1 && t->path == TIDE_PATH_FACTOR) {
            code = tide_exchange_factors(x, l, 0, K, r->a, r->b);
        }
        code = code < 0 ? code : tide_exchange_ready(x, step, l);
        if (tide_random_below(&f->random, 3) == 0) {
            tide_sleep(tide_random_below(&f->random, 300000));
        }
    }
    const double own[TIDE_EXCHANGE_SUMS] = {1u << f->index, 1, 0, 0};
    return code < 0 ? code : tide_exchange_share(x, step, own, NULL);
}

static struct tide_exchange *enter(struct fiber *f) {
    struct training *t = f->arg;
    struct tide_exchange_options o = {.rank = f->index,
                                      .workers = P,
                                      .elements = ELEMENTS,
                                      .layers = layers,
                                      .layer_count = LAYERS,
                                      .chunk_elements = 400};
    struct tide_exchange *x = NULL;
    if (tide_exchange_create(f->node, &o, &x) != 0) {
        return NULL;
    }
    uint8_t paths[LAYERS], formats[LAYERS], fanouts[LAYERS];
    memset(paths, t->path, LAYERS);
    memset(formats, t->format, LAYERS);
    memset(fanouts, t->fanout, LAYERS);
    struct tide_exchange_plan plan = {.paths = paths, .formats = formats, .fanouts = fanouts};
    tide_exchange_set_plan(x, &plan);
    t->addresses[f->index] = tide_exchange_address(x);
    for (t->here++; t->here < P;) {
        tide_sleep(100000);
    }
    if (tide_exchange_connect(x, t->addresses) != 0) {
        return NULL;
    }
    for (t->connected++; t->connected < P;) {
        tide_sleep(100000);
    }
    return x;
}

static bool all_over(const struct training *t) {
    bool all = true;
    for (unsigned r = 0; r < P; r++) {
        all = all && (t->dead[r] || t->over[r]);
    }
    return all;
}

static void worker_run(struct fiber *f) {
    struct training *t = f->arg;
    struct tide_exchange *x = enter(f);
    CHECK(f, x);
    int code = 0;
    for (uint64_t step = 1; step <= STEPS && code == 0; step++) {
        code = step > 1 ? take(f, x, step - 1) : 0;
        code = code < 0 ? code : give(f, x, step);
    }
    code = code < 0 ? code : take(f, x, STEPS);
    CHECK(f, code == 0 || t->dead[f->index]);
    for (t->over[f->index] = true; !all_over(t);) { /* all have the last step */
        tide_sleep(100000);
    }
    tide_exchange_release(x);
}

/* Who has lost a message does not live long. */
static void killer_run(struct fiber *f) {
    struct training *t = f->arg;
    while (!all_over(t) && !t->dead[f->index]) {
        tide_sleep(100000);
        if (fate.lost[f->index]) {
            tide_sleep(tide_random_below(&f->random, 3000000));
            die(t, f->index);
        }
    }
}

/* Runs it. Returns how many messages worker `counted` sent. */
static unsigned train(struct training *t, uint64_t seed, unsigned counted) {
    struct cluster c;
    struct fiber fibers[2 * P];
    unsigned count = P;
    fate.training = t;
    fate.sent[counted] = 0;
    open_cluster(&c, true, P, seed);
    for (uint32_t r = 0; r < P; r++) {
        start(&c, &fibers[r], r, r, worker_run, t);
        tide_random_seed(&fibers[r].random, seed * P + r);
        if (t->dies[r]) {
            start(&c, &fibers[count++], r, r, killer_run, t);
        }
    }
    finish(&c, fibers, count);
    close_cluster(&c);
    fate.training = NULL;
    return fate.sent[counted];
}

/* Those that are left are equal, and are what the same parts make elsewhere. */
static void check(const struct training *t, const char *what, unsigned n) {
    uint32_t first = 0;
    while (t->dead[first]) {
        first++;
    }
    for (uint32_t r = first; r < P; r++) {
        if (!t->dead[r] &&
            (memcmp(t->masks[r], t->masks[first], sizeof t->masks[r]) != 0 ||
             memcmp(t->replicas[r].w, t->replicas[first].w, sizeof t->replicas[r].w) != 0)) {
            fail_msg("%s, message %u: workers %u and %u differ", what, n, first + 1, r + 1);
        }
    }
    if (t->format != TIDE_WIRE_F32) {
        return;
    }
    float w[ELEMENTS] = {0};
    reference(t, t->masks[first], w);
    for (size_t e = 0; e < ELEMENTS; e++) {
        float is = t->replicas[first].w[e];
        bool exact = t->path != TIDE_PATH_RING; /* its order of adding up is another */
        if (exact ? memcmp(&is, &w[e], sizeof is) != 0 : fabsf(is - w[e]) > 1e-4f) {
            fail_msg("%s, message %u: element %zu is %.9g, not %.9g", what, n, e, (double)is,
                     (double)w[e]);
        }
    }
}

static struct training *fresh(uint8_t path, uint8_t fanout, uint8_t format) {
    static struct training t;
    t = (struct training){.path = path, .fanout = fanout, .format = format};
    memset(fate.lost, 0, sizeof fate.lost);
    memset(fate.left, 0xff, sizeof fate.left);
    memset(fate.cut, 0xff, sizeof fate.cut);
    return &t;
}

static const struct {
    const char *name;
    uint8_t path, fanout;
} ways[] = {{"ps", TIDE_PATH_PS, 0},
            {"ring", TIDE_PATH_RING, 0},
            {"factors", TIDE_PATH_FACTOR, 0},
            {"passed factors", TIDE_PATH_FACTOR, 1}};

/* A crash before each message of the run, of each worker in turn. */
static void a_crash_at_any_message_leaves_the_others_equal(void **state) {
    (void)state;
    for (size_t way = 0; way < TIDE_COUNT(ways); way++) {
        struct training *t = fresh(ways[way].path, ways[way].fanout, TIDE_WIRE_F32);
        t->dies[1] = true; /* but never does: its messages are counted */
        unsigned all = train(t, 1, 1);
        check(t, ways[way].name, 0);
        assert_true(all > 20 && !t->dead[1]);
        for (unsigned n = 0; n < all; n++) {
            unsigned q = n % P;
            t = fresh(ways[way].path, ways[way].fanout, TIDE_WIRE_F32);
            t->dies[q] = true;
            fate.left[q] = n;
            (void)train(t, 1 + n / P % 3, q);
            check(t, ways[way].name, n);
        }
    }
}

/* What a dead worker has sent reaches some and others not; a second one dies meanwhile. */
static void two_deaths_and_lost_messages_leave_the_others_equal(void **state) {
    (void)state;
    struct tide_random random;
    tide_random_seed(&random, 7);
    for (unsigned n = 0; n < 240; n++) {
        size_t way = n % TIDE_COUNT(ways);
        bool lossy = n % 3 == 0;
        struct training *t =
            fresh(ways[way].path, ways[way].fanout, lossy ? TIDE_WIRE_BF16 : TIDE_WIRE_F32);
        unsigned q = (unsigned)tide_random_below(&random, P), with = n % 2 ? 2 : 1;
        for (unsigned i = 0; i < with; i++) {
            unsigned dying = (q + i * (1 + (unsigned)tide_random_below(&random, P - 1))) % P;
            t->dies[dying] = true;
            fate.left[dying] = 5 + (unsigned)tide_random_below(&random, 50);
            for (unsigned r = 0; r < P; r++) {
                fate.cut[dying][r] = (unsigned)tide_random_below(&random, 25);
            }
        }
        (void)train(t, n, q);
        check(t, ways[way].name, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_at_any_message_leaves_the_others_equal),
        cmocka_unit_test(two_deaths_and_lost_messages_leave_the_others_equal),
    };
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
