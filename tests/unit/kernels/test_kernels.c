/* The kernels of knowledge graph embeddings against float64 loops, central differences and brute
 * force. */
#include "tensor/reference/reference.h"
#include "tests/unit/kge_setting.h"

/* ---- help ---- */

static double *doubles(const float *x, size_t count) {
    double *out = calloc(count + 1, sizeof(double));
    for (size_t i = 0; i < count; i++) {
        out[i] = (double)x[i];
    }
    return out;
}

/* |a - b| relative to the longer of the two vectors. */
static void expect_close(const float *got, const double *want, size_t count, double tolerance) {
    double apart = 0, length = 1e-30;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)got[i] - want[i];
        assert_true(isfinite(got[i]));
        apart += difference * difference;
        length += want[i] * want[i];
    }
    if (sqrt(apart) > tolerance * sqrt(length) + 1e-12) {
        fail_msg("relative error %g of %zu values", sqrt(apart / length), count);
    }
}

/* ---- single examples ---- */

struct example {
    int model;
    size_t d;
    bool label;
    double *s, *r, *o;
};

static double example_loss(const struct example *e) {
    double score = reference_kge_score(e->model, e->d, e->s, e->r, e->o);
    return reference_softplus(e->label ? -score : score);
}

static double *example_gradient(const struct example *e, double *gs, double *gr, double *go) {
    double score = reference_kge_score(e->model, e->d, e->s, e->r, e->o);
    double slope = reference_sigmoid(score) - (e->label ? 1 : 0);
    reference_kge_derive(e->model, e->d, e->s, e->r, e->o, slope, gs, gr, go);
    return gs;
}

/* The reference's gradient against central differences, in at most 40 places. */
static void check_differences(const struct example *e, double *values, const double *gradient,
                              size_t count) {
    size_t stride = count > 40 ? count / 40 : 1;
    for (size_t i = 0; i < count; i += stride) {
        double old = values[i], step = 1e-4;
        values[i] = old + step;
        double above = example_loss(e);
        values[i] = old - step;
        double below = example_loss(e);
        values[i] = old;
        double difference = (above - below) / (2 * step);
        assert_true(fabs(difference - gradient[i]) <= 1e-6 * (1e-2 + fabs(gradient[i])));
    }
}

static void check_example(enum kge_model model, size_t d, bool label) {
    size_t wide = kge_relation_width(model, d);
    struct plain_table values, out;
    /* Scores of about 1 in size, so that the loss is curved there. */
    plain_init(&values, 1, (uint32_t)(2 * d + wide), 0, (float)pow((double)d, -1.0 / 3), 0, d + 7);
    plain_init(&out, 1, (uint32_t)(2 * d + wide), 0, 0, 0, 0);
    float *s = values.rows, *o = s + d, *r = o + d;
    float *gs = out.rows, *go = gs + d, *gr = go + d;
    double penalty = 0;
    float loss = kge_step(model, d, s, r, o, label, 0, 0, gs, gr, go, &penalty);
    struct example e = {(int)model, d, label, doubles(s, d), doubles(r, wide), doubles(o, d)};
    double *ds = calloc(d, sizeof(double)), *dr = calloc(wide, sizeof(double));
    double *dd = calloc(d, sizeof(double));
    example_gradient(&e, ds, dr, dd);
    check_differences(&e, e.s, ds, d);
    check_differences(&e, e.r, dr, wide);
    check_differences(&e, e.o, dd, d);
    assert_true(penalty == 0);
    assert_true(fabs((double)loss - example_loss(&e)) < 1e-5 * (1 + example_loss(&e)));
    expect_close(gs, ds, d, 1e-4);
    expect_close(gr, dr, wide, 1e-4);
    expect_close(go, dd, d, 1e-4);
    /* L2: gradient += gamma x. */
    kge_step(model, d, s, r, o, label, 0.5f, 0.25f, gs, gr, go, &penalty);
    double want = 0;
    for (size_t i = 0; i < d; i++) {
        ds[i] += 0.5 * e.s[i];
        dd[i] += 0.5 * e.o[i];
        want += 0.5 * (e.s[i] * e.s[i] + e.o[i] * e.o[i]);
    }
    for (size_t i = 0; i < wide; i++) {
        dr[i] += 0.25 * e.r[i];
        want += 0.25 * e.r[i] * e.r[i];
    }
    expect_close(gs, ds, d, 1e-4);
    expect_close(gr, dr, wide, 1e-4);
    expect_close(go, dd, d, 1e-4);
    assert_true(fabs(penalty - want) < 1e-4 * want);
    plain_deinit(&values);
    plain_deinit(&out);
    free(e.s);
    free(e.r);
    free(e.o);
    free(ds);
    free(dr);
    free(dd);
}

static void complex_gradients_agree_with_differences(void **state) {
    (void)state;
    static const size_t sizes[] = {2, 6, 14, 16, 100, 200, 514};
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        check_example(KGE_COMPLEX, sizes[i], true);
        check_example(KGE_COMPLEX, sizes[i], false);
    }
}

static void rescal_gradients_agree_with_differences(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 2, 7, 16, 100, 513};
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        check_example(KGE_RESCAL, sizes[i], true);
        check_example(KGE_RESCAL, sizes[i], false);
    }
}

static void large_scores_neither_overflow_nor_lose_the_loss(void **state) {
    (void)state;
    float s[2] = {1000, 0}, r[2] = {1000, 0}, o[2] = {1000, 0}, g[3][2];
    double penalty = 0;
    float lost = kge_step(KGE_COMPLEX, 2, s, r, o, false, 0, 0, g[0], g[1], g[2], &penalty);
    assert_true(lost == 1e9f && g[0][0] == 1e6f);
    float won = kge_step(KGE_COMPLEX, 2, s, r, o, true, 0, 0, g[0], g[1], g[2], &penalty);
    assert_true(won == 0 && g[0][0] == 0);
}

static void row_losses_agree_with_float64(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 7, 8, 9, 64, 520, 1003};
    static const float scales[] = {0.1f, 3, 40, 1e4f};
    for (size_t i = 0; i < TIDE_COUNT(counts) * TIDE_COUNT(scales) * 2; i++) {
        bool softmax = i % 2;
        size_t count = counts[i / 2 % TIDE_COUNT(counts)];
        struct plain_table t;
        plain_init(&t, 1, (uint32_t)count + 1, 0, scales[i / 2 / TIDE_COUNT(counts)], 0, i);
        double *scores = doubles(t.rows, count + 1), *want = calloc(count + 1, sizeof(double)), own;
        double loss = reference_kge_row(softmax, scores[count], scores, count, 7.5, &own, want);
        struct kge_loss_row row = softmax ? kge_softmax(t.rows[count], t.rows, count, 7.5f)
                                          : kge_logistic(t.rows[count], t.rows, count, 7.5f);
        assert_true(fabs(row.loss - loss) <= 2e-5 * fabs(loss) + 1e-6);
        assert_true(fabs((double)row.own - own) <= 1e-5 * fabs(own) + 1e-12);
        expect_close(t.rows, want, count, 1e-5);
        plain_deinit(&t);
        free(scores);
        free(want);
    }
}

/* ---- mini-batches ---- */

struct reference_batch {
    int model;
    size_t d, wide, pool_count;
    const uint64_t *pool;
    const struct plain_table *entities, *relations;
    bool softmax, cubic;
    double weight, gamma_e, gamma_r;
    double *e, *r, *ge, *gr; /* all rows and their gradients */
    double loss, penalty;
};

static void reference_penalty(struct reference_batch *b, size_t width, double gamma,
                              const double *x, double *g) {
    for (size_t i = 0; i < width; i++) {
        size_t pair = i < width / 2 ? i + width / 2 : i - width / 2;
        double length = b->cubic ? hypot(x[i], x[pair]) : 1;
        b->penalty += gamma * length * x[i] * x[i];
        g[i] += gamma * length * x[i] * (b->cubic ? 3 : 1);
    }
}

static void reference_side(struct reference_batch *b, const uint32_t *t, bool object) {
    double scores[64], out[64], own;
    size_t keys[64], count = 0;
    uint32_t truth = t[object ? 2 : 0];
    double *r = b->r + t[1] * b->wide, *gr = b->gr + t[1] * b->wide;
    double *s = b->e + t[0] * b->d, *o = b->e + t[2] * b->d;
    double *gs = b->ge + t[0] * b->d, *go = b->ge + t[2] * b->d;
    for (size_t j = 0; j < b->pool_count; j++) {
        if (b->pool[j] != truth) {
            double *other = b->e + b->pool[j] * b->d;
            keys[count] = b->pool[j];
            scores[count++] = object ? reference_kge_score(b->model, b->d, s, r, other)
                                     : reference_kge_score(b->model, b->d, other, r, o);
        }
    }
    double score = reference_kge_score(b->model, b->d, s, r, o);
    b->loss += reference_kge_row(b->softmax, score, scores, count, b->weight, &own, out);
    reference_kge_derive(b->model, b->d, s, r, o, own, gs, gr, go);
    for (size_t j = 0; j < count; j++) {
        double *other = b->e + keys[j] * b->d, *gother = b->ge + keys[j] * b->d;
        if (object) {
            reference_kge_derive(b->model, b->d, s, r, other, out[j], gs, gr, gother);
        } else {
            reference_kge_derive(b->model, b->d, other, r, o, out[j], gother, gr, go);
        }
    }
}

static void reference_triple(struct reference_batch *b, const uint32_t *t) {
    reference_side(b, t, true);
    reference_side(b, t, false);
    reference_penalty(b, b->d, b->gamma_e, b->e + t[0] * b->d, b->ge + t[0] * b->d);
    reference_penalty(b, b->d, b->gamma_e, b->e + t[2] * b->d, b->ge + t[2] * b->d);
    reference_penalty(b, b->wide, b->gamma_r, b->r + t[1] * b->wide, b->gr + t[1] * b->wide);
}

/* One batch of all triples into gradient-collecting tables, of 30 entities and 4 relations. The
 * pool is drawn again from the same stream; the log of the first pull, which begins with it,
 * confirms it. */
static void check_batch(const char *model, uint32_t d, const uint32_t *ids, size_t count,
                        size_t negatives, bool softmax, bool cubic, double gamma) {
    struct setting s;
    struct tide_result results[16];
    setting_init(&s, "kge_train", model, d, 30, 4, 0);
    s.entities.log = calloc(256, sizeof(uint64_t));
    s.entities.log_capacity = 256;
    set_triples(&s, "triples", ids, count);
    set_number(&s, "negatives", (double)negatives);
    set_number(&s, "batch", (double)count);
    set_text(&s, "loss", softmax ? "softmax" : "logistic");
    set_text(&s, "penalty", cubic ? "n3" : "l2");
    set_number(&s, "weight", 3);
    set_number(&s, "gamma_e", gamma);
    set_number(&s, "gamma_r", 2 * gamma);
    set_number(&s, "seed", 5);
    int n = run(&s, results);
    assert_true(n > 0);
    assert_int_equal(s.entities.pulls, 1);
    assert_int_equal(s.relations.pushes, 1);
    /* The pool: the distinct draws of the same stream, after the draws of the shuffle. */
    struct tide_random random;
    uint64_t pool[64];
    size_t pool_count = 0;
    tide_random_seed(&random, 5);
    for (size_t i = 0; i < count; i++) {
        tide_random_below(&random, i + 1);
    }
    for (size_t i = 0; i < negatives; i++) {
        uint64_t key = tide_random_below(&random, 30);
        bool seen = false;
        for (size_t j = 0; j < pool_count; j++) {
            seen = seen || pool[j] == key;
        }
        if (!seen) {
            assert_int_equal(s.entities.log[pool_count], key);
            pool[pool_count++] = key;
        }
    }
    size_t wide = s.relations.width;
    struct reference_batch b = {.model = strcmp(model, "rescal") == 0,
                                .d = d,
                                .wide = wide,
                                .pool_count = pool_count,
                                .pool = pool,
                                .entities = &s.entities,
                                .relations = &s.relations,
                                .softmax = softmax,
                                .cubic = cubic,
                                .gamma_e = gamma,
                                .gamma_r = 2 * gamma,
                                .weight =
                                    softmax ? 30.0 / (double)pool_count : 3.0 / (double)pool_count,
                                .e = doubles(s.entities.rows, 30 * d),
                                .r = doubles(s.relations.rows, 4 * wide),
                                .ge = calloc(30 * d, sizeof(double)),
                                .gr = calloc(4 * wide, sizeof(double))};
    for (size_t i = 0; i < count; i++) {
        reference_triple(&b, ids + 3 * i);
    }
    expect_close(s.entities.sums, b.ge, 30 * d, 1e-5);
    expect_close(s.relations.sums, b.gr, 4 * wide, 1e-5);
    assert_true(fabs(plain_result(results, n, "loss") - b.loss) < 1e-5 * b.loss);
    assert_true(fabs(plain_result(results, n, "penalty") - b.penalty) <= 1e-5 * b.penalty);
    assert_true(plain_result(results, n, "examples") == (double)count);
    free(b.e);
    free(b.r);
    free(b.ge);
    free(b.gr);
    setting_deinit(&s);
}

/* Subject equal to object, twice the same triple, entities that are drawn as well. */
static const uint32_t batch_ids[] = {0, 0, 1, 1, 1, 0, 2, 2, 2, 0, 0, 1, 7, 3, 9, 11, 0, 12};

static void batch_gradients_are_the_sums_of_the_triples(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 14, 100};
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        for (int kind = 0; kind < 4; kind++) {
            check_batch("complex", sizes[i], batch_ids, 6, 20, kind & 1, kind & 2, 0.1);
        }
    }
    check_batch("rescal", 7, batch_ids, 6, 20, true, false, 0.1);
    check_batch("rescal", 16, batch_ids, 6, 20, false, false, 0);
}

static void a_batch_of_one_triple_is_the_triple(void **state) {
    (void)state;
    check_batch("complex", 10, batch_ids, 1, 3, true, false, 0);
    check_batch("complex", 10, batch_ids + 6, 1, 3, false, false, 0.2);
    check_batch("rescal", 5, batch_ids, 1, 3, false, false, 0.2);
}

/* Steps of one triple add up to what the formulas say for the triples they pulled; so do batches
 * (above). */
static void steps_push_the_gradient_of_each_example(void **state) {
    (void)state;
    static const char *const models[] = {"complex", "rescal"};
    for (int model = 0; model < 2; model++) {
        struct setting s;
        struct tide_result results[16];
        enum { D = 12, N = 4 };
        setting_init(&s, "kge_train", models[model], D, 30, 4, 0);
        s.entities.log = calloc(256, sizeof(uint64_t));
        s.entities.log_capacity = 256;
        set_triples(&s, "triples", batch_ids + 12, 1); /* 7, 3, 9 */
        set_text(&s, "mode", "steps");
        set_number(&s, "negatives", N);
        set_number(&s, "gamma_e", 0);
        set_number(&s, "gamma_r", 0);
        int n = run(&s, results);
        assert_int_equal(plain_result(results, n, "steps"), 1 + 2 * N);
        assert_int_equal(s.entities.pulls, 1 + 2 * N);
        assert_int_equal(s.entities.pushes, 1 + 2 * N);
        assert_int_equal(s.relations.pushed_keys, 1 + 2 * N);
        double *e = doubles(s.entities.rows, 30 * D);
        double *r = doubles(s.relations.rows, 4 * s.relations.width);
        double *ge = calloc(30 * D, sizeof(double)), loss = 0;
        double *gr = calloc(4 * (size_t)s.relations.width, sizeof(double));
        for (size_t i = 0; i < 1 + 2 * N; i++) {
            uint64_t subject = s.entities.log[2 * i], object = s.entities.log[2 * i + 1];
            assert_true(i == 0 || i % 2 == 1 ? subject == 7 : object == 9);
            size_t wide = s.relations.width;
            struct example x = {model, D, i == 0, e + subject * D, r + 3 * wide, e + object * D};
            loss += example_loss(&x);
            example_gradient(&x, ge + subject * D, gr + 3 * wide, ge + object * D);
        }
        expect_close(s.entities.sums, ge, 30 * D, 1e-5);
        expect_close(s.relations.sums, gr, 4 * (size_t)s.relations.width, 1e-5);
        assert_true(fabs(plain_result(results, n, "loss") - loss) < 1e-5 * loss);
        free(e);
        free(r);
        free(ge);
        free(gr);
        setting_deinit(&s);
    }
}

/* ---- whole passes ---- */

static void training_learns_and_repeats_bit_by_bit(void **state) {
    (void)state;
    static const char *const modes[] = {"batched", "steps"};
    uint32_t *ids = ring();
    for (int mode = 0; mode < 2; mode++) {
        float *rows[2];
        for (int time = 0; time < 2; time++) {
            struct setting s;
            struct tide_result results[16];
            setting_init(&s, "kge_train", "complex", 20, 50, 2, 0.1f);
            set_triples(&s, "triples", ids, PASS);
            set_text(&s, "mode", modes[mode]);
            set_number(&s, "negatives", 10);
            set_number(&s, "batch", 32);
            double first = 0, last = 0;
            for (int epoch = 1; epoch <= 15; epoch++) {
                set_number(&s, "seed", epoch);
                int n = run(&s, results);
                assert_int_equal(plain_result(results, n, "examples"), PASS);
                last = plain_result(results, n, "loss");
                first = epoch == 1 ? last : first;
            }
            assert_true(last < 0.5 * first);
            rows[time] = s.entities.rows;
            s.entities.rows = NULL;
            setting_deinit(&s);
        }
        assert_memory_equal(rows[0], rows[1], 50 * 20 * sizeof(float));
        free(rows[0]);
        free(rows[1]);
    }
    free(ids);
}

static void an_epoch_makes_few_large_calls(void **state) {
    (void)state;
    struct setting s;
    struct tide_result results[16];
    uint32_t *ids = ring();
    setting_init(&s, "kge_train", "complex", 4, 50, 2, 0.1f);
    set_triples(&s, "triples", ids, PASS);
    set_number(&s, "batch", 64);
    set_number(&s, "first", 10);
    set_number(&s, "count", 200);
    int n = run(&s, results);
    assert_int_equal(plain_result(results, n, "steps"), 4);
    assert_int_equal(plain_result(results, n, "calls"), 16);
    assert_int_equal(s.entities.pulls + s.relations.pulls, 8);
    assert_int_equal(s.entities.pushes + s.relations.pushes, 8);
    set_number(&s, "count", 0);
    n = run(&s, results);
    assert_int_equal(plain_result(results, n, "calls"), 0);
    setting_deinit(&s);
    free(ids);
}

static void a_failing_table_ends_the_pass_with_nothing_under_way(void **state) {
    (void)state;
    uint32_t *ids = ring();
    static const char *const modes[] = {"batched", "steps"};
    for (uint64_t after = 1; after <= 14; after++) {
        struct setting s;
        struct tide_result results[16];
        setting_init(&s, "kge_train", "complex", 4, 50, 2, 0.1f);
        set_triples(&s, "triples", ids, PASS);
        set_number(&s, "batch", 64);
        set_text(&s, "mode", modes[after % 2]);
        if (after % 4 < 2) {
            s.entities.fail_after = after / 2 + 1;
        } else {
            s.relations.fail_after = after / 2 + 1;
        }
        assert_int_equal(run(&s, results), TIDE_EDIED);
        assert_non_null(strstr(s.error, "the owner died"));
        setting_deinit(&s);
    }
    free(ids);
}

static void expect_refusal(struct setting *s, int code, const char *text) {
    struct tide_result results[16];
    assert_int_equal(run(s, results), code);
    assert_non_null(strstr(s->error, text));
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    struct setting s;
    uint32_t ids[] = {0, 0, 1, 2, 1, 50};
    setting_init(&s, "kge_train", "complex", 4, 50, 2, 0.1f);
    set_triples(&s, "triples", ids, 2);
    expect_refusal(&s, TIDE_ERANGE, "triple 1: entity 50");
    ids[5] = 1;
    ids[1] = 2;
    expect_refusal(&s, TIDE_ERANGE, "triple 0: relation 2");
    ids[1] = 0;
    set_number(&s, "first", 3);
    expect_refusal(&s, TIDE_EINVAL, "first");
    set_number(&s, "first", 1);
    set_number(&s, "count", 2);
    expect_refusal(&s, TIDE_EINVAL, "count");
    set_number(&s, "count", -1);
    set_number(&s, "negatives", 1.5);
    expect_refusal(&s, TIDE_EINVAL, "negatives");
    set_number(&s, "negatives", (double)NAN);
    expect_refusal(&s, TIDE_EINVAL, "negatives");
    set_number(&s, "negatives", 5);
    set_number(&s, "gamma_e", -1);
    expect_refusal(&s, TIDE_EINVAL, "gamma_e");
    set_number(&s, "gamma_e", 0);
    set_text(&s, "mode", "steps");
    set_text(&s, "penalty", "n3");
    expect_refusal(&s, TIDE_EINVAL, "batched");
    set_text(&s, "mode", "batched");
    set_text(&s, "penalty", "l2");
    set_text(&s, "loss", "hinge");
    expect_refusal(&s, TIDE_EINVAL, "\"softmax\", \"logistic\"");
    set_text(&s, "loss", "softmax");
    set_text(&s, "model", "transe");
    expect_refusal(&s, TIDE_EINVAL, "transe");
    set_text(&s, "model", "rescal");
    expect_refusal(&s, TIDE_EMISMATCH, "need 16");
    set_text(&s, "model", "complex");
    plain_argument(s.kernel, s.arguments, "entities")->rows.width = 5;
    expect_refusal(&s, TIDE_EINVAL, "even");
    setting_deinit(&s);
}

/* ---- ranking ---- */

enum { CANDIDATES = 50, RELATIONS = 3, RANK_D = 6 };

/* Small whole numbers: every sum is exact, ties are many. */
static void coarse(struct plain_table *t, uint64_t seed) {
    struct tide_random random;
    tide_random_seed(&random, seed);
    for (size_t i = 0; i < t->count * t->width; i++) {
        t->rows[i] = (float)tide_random_below(&random, 3) - 1;
    }
}

struct rank_sums {
    double mrr, hits1, hits3, hits10, rank;
};

static void add_reference_rank(struct rank_sums *sums, double rank) {
    sums->mrr += 1 / rank;
    sums->hits1 += rank <= 1;
    sums->hits3 += rank <= 3;
    sums->hits10 += rank <= 10;
    sums->rank += rank;
}

static bool is_known(const uint32_t *known, size_t count, uint32_t s, uint32_t r, uint32_t o) {
    for (size_t i = 0; i < count; i++) {
        if (known[3 * i] == s && known[3 * i + 1] == r && known[3 * i + 2] == o) {
            return true;
        }
    }
    return false;
}

static void brute_force(const struct setting *s, int model, const uint32_t *ids, size_t count,
                        const uint32_t *known, size_t known_count, struct rank_sums sums[2]) {
    size_t d = s->entities.width, wide = s->relations.width;
    double *e = doubles(s->entities.rows, CANDIDATES * d);
    double *r = doubles(s->relations.rows, RELATIONS * wide);
    memset(sums, 0, 2 * sizeof(*sums));
    for (size_t i = 0; i < 2 * count; i++) {
        const uint32_t *t = ids + 3 * (i / 2);
        double scores[CANDIDATES];
        bool skip[CANDIDATES], none[CANDIDATES] = {false};
        for (uint32_t c = 0; c < CANDIDATES; c++) {
            uint32_t subject = i % 2 ? c : t[0], object = i % 2 ? t[2] : c;
            scores[c] =
                reference_kge_score(model, d, e + subject * d, r + t[1] * wide, e + object * d);
            skip[c] = is_known(known, known_count, subject, t[1], object);
        }
        size_t truth = i % 2 ? t[0] : t[2];
        add_reference_rank(&sums[0], reference_rank(scores, skip, CANDIDATES, truth));
        add_reference_rank(&sums[1], reference_rank(scores, none, CANDIDATES, truth));
    }
    free(e);
    free(r);
}

static void expect_sums(const struct tide_result *results, int n, const char *prefix,
                        const struct rank_sums *want) {
    static const char *const names[] = {"mrr", "hits1", "hits3", "hits10", "rank"};
    const double values[] = {want->mrr, want->hits1, want->hits3, want->hits10, want->rank};
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
        double got = plain_result(results, n, name);
        if (!(fabs(got - values[i]) < 1e-9 * (1 + values[i]))) {
            fail_msg("%s: %.12g, not %.12g", name, got, values[i]);
        }
    }
}

static void make_triples(uint32_t *ids, size_t count, uint64_t seed) {
    struct tide_random random;
    tide_random_seed(&random, seed);
    for (size_t i = 0; i < count; i++) {
        ids[3 * i] = (uint32_t)tide_random_below(&random, CANDIDATES);
        ids[3 * i + 1] = (uint32_t)tide_random_below(&random, RELATIONS);
        ids[3 * i + 2] = (uint32_t)tide_random_below(&random, CANDIDATES);
    }
}

/* Ties, NaN rows, duplicate entities, duplicate known triples, truths that are not known. */
static void ranks_agree_with_brute_force(void **state) {
    (void)state;
    enum { COUNT = 80, KNOWN = 900 };
    static const char *const models[] = {"complex", "rescal"};
    uint32_t known[3 * KNOWN], *ids = known;
    for (int trial = 0; trial < 12; trial++) {
        struct setting s;
        struct tide_result results[16];
        struct rank_sums want[2];
        int model = trial % 2;
        setting_init(&s, "kge_rank", models[model], RANK_D, CANDIDATES, RELATIONS, 0);
        if (trial < 8) {
            coarse(&s.entities, (uint64_t)trial);
            coarse(&s.relations, (uint64_t)trial + 100);
        }
        memcpy(s.entities.rows + 5 * RANK_D, s.entities.rows + 6 * RANK_D, RANK_D * sizeof(float));
        if (trial >= 4) {
            s.entities.rows[20 * RANK_D + 1] = (float)NAN;
            s.entities.rows[21 * RANK_D + 4] = (float)NAN;
        }
        make_triples(known, KNOWN, (uint64_t)trial);
        memcpy(known + 3 * (KNOWN - 30), known, 90 * sizeof(uint32_t));
        set_triples(&s, "triples", ids, COUNT);
        size_t skipped = trial % 3 == 1 ? 40 : 0; /* then some ranked triples are not known */
        set_triples(&s, "known", known + 3 * skipped, KNOWN - skipped);
        int n = run(&s, results);
        assert_true(n > 0);
        assert_int_equal(plain_result(results, n, "count"), 2 * COUNT);
        brute_force(&s, model, ids, COUNT, known + 3 * skipped, KNOWN - skipped, want);
        expect_sums(results, n, "", &want[0]);
        expect_sums(results, n, "raw_", &want[1]);
        assert_true(fabs(plain_result(results, n, "object_mrr") +
                         plain_result(results, n, "subject_mrr") - want[0].mrr) < 1e-9);
        setting_deinit(&s);
    }
}

static void equal_scores_give_the_mean_rank(void **state) {
    (void)state;
    enum { MANY = 9001, D = 200 }; /* two chunks and a remainder of each tile */
    struct setting s;
    struct tide_result results[16];
    setting_init(&s, "kge_rank", "complex", D, MANY, 1, 0);
    for (size_t e = 1; e < MANY; e++) { /* the same arbitrary row everywhere */
        memcpy(s.entities.rows + e * D, s.entities.rows, D * sizeof(float));
    }
    const uint32_t ids[] = {0, 0, 9000, 17, 0, 8191, 8192, 0, 3};
    set_triples(&s, "triples", ids, 3);
    int n = run(&s, results);
    assert_true(plain_result(results, n, "raw_rank") == 6 * (MANY + 1) / 2.0);
    assert_true(plain_result(results, n, "rank") == 6 * (MANY + 1) / 2.0);
    assert_int_equal(s.entities.pulled_keys, 6 + MANY); /* the table once, and the triples' own */
    setting_deinit(&s);
}

static void parts_of_a_ranking_add_up(void **state) {
    (void)state;
    enum { COUNT = 70 };
    struct setting s;
    struct tide_result all[16], part[16];
    uint32_t ids[3 * COUNT];
    make_triples(ids, COUNT, 3);
    setting_init(&s, "kge_rank", "complex", RANK_D, CANDIDATES, RELATIONS, 0);
    set_triples(&s, "triples", ids, COUNT);
    set_triples(&s, "known", ids, COUNT);
    int n = run(&s, all);
    assert_int_equal(n, 13);
    double sums[16] = {0};
    for (int i = 0; i < 3; i++) {
        static const double firsts[] = {0, 30, 30}, counts[] = {30, 0, 40};
        set_number(&s, "first", firsts[i]);
        set_number(&s, "count", counts[i]);
        assert_int_equal(run(&s, part), n);
        for (int j = 0; j < n; j++) {
            sums[j] += part[j].value;
        }
    }
    for (int j = 0; j < n; j++) {
        assert_true(fabs(sums[j] - all[j].value) < 1e-9);
    }
    setting_deinit(&s);
}

static void a_ranking_ends_when_a_table_fails(void **state) {
    (void)state;
    uint32_t ids[30];
    make_triples(ids, 10, 3);
    for (uint64_t after = 1; after <= 3; after++) {
        struct setting s;
        struct tide_result results[16];
        setting_init(&s, "kge_rank", "complex", 4, 20000, RELATIONS, 0);
        set_triples(&s, "triples", ids, 10);
        s.entities.fail_after = after;
        assert_int_equal(run(&s, results), TIDE_EDIED);
        setting_deinit(&s);
    }
}

/* ---- neighbours and the registry ---- */

static void nearest_rows_are_found_in_order(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    struct plain_table t;
    struct tide_argument arguments[PLAIN_ARGUMENTS_MOST];
    struct tide_result results[16];
    const struct tide_kernel *kernel = tide_kernel_find("nearest_rows");
    char error[256];
    plain_init(&t, COUNT, 10, 0, 1, 0, 1);
    const float *own = t.rows + 40 * 10;
    for (size_t j = 0; j < 10; j++) {
        t.rows[4999 * 10 + j] = 3 * own[j];
        t.rows[7 * 10 + j] = own[j] + (j == 0 ? 0.01f : 0);
        t.rows[100 * 10 + j] = 0;
        t.rows[101 * 10 + j] = j ? own[j] : (float)NAN;
    }
    memset(arguments, 0, sizeof(arguments));
    plain_argument(kernel, arguments, "rows")->rows = plain_rows(&t);
    plain_argument(kernel, arguments, "key")->number = 40;
    assert_int_equal(kernel->run(arguments, results, error), 16);
    assert_int_equal(plain_result(results, 16, "key1"), 4999);
    assert_int_equal(plain_result(results, 16, "key2"), 7);
    for (int i = 0; i < 7; i++) {
        assert_true(results[2 * i + 1].value >= results[2 * i + 3].value);
    }
    plain_argument(kernel, arguments, "limit")->number = 1;
    assert_int_equal(kernel->run(arguments, results, error), 2);
    plain_argument(kernel, arguments, "key")->number = COUNT;
    assert_int_equal(kernel->run(arguments, results, error), TIDE_EINVAL);
    plain_deinit(&t);
}

static void kernels_are_listed_and_documented(void **state) {
    (void)state;
    size_t count = 0;
    for (; tide_kernel_at(count); count++) {
        const struct tide_kernel *k = tide_kernel_at(count);
        assert_ptr_equal(tide_kernel_find(k->name), k);
        assert_true(strlen(k->doc) > 0 && k->parameter_count > 0);
        for (size_t i = 0; i < k->parameter_count; i++) {
            assert_true(strlen(k->parameters[i].doc) > 0);
            for (size_t j = 0; j < i; j++) {
                assert_string_not_equal(k->parameters[i].name, k->parameters[j].name);
            }
        }
    }
    assert_true(count >= 3);
    assert_null(tide_kernel_find("no_such_kernel"));
    assert_null(tide_kernel_at(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complex_gradients_agree_with_differences),
        cmocka_unit_test(rescal_gradients_agree_with_differences),
        cmocka_unit_test(large_scores_neither_overflow_nor_lose_the_loss),
        cmocka_unit_test(row_losses_agree_with_float64),
        cmocka_unit_test(batch_gradients_are_the_sums_of_the_triples),
        cmocka_unit_test(a_batch_of_one_triple_is_the_triple),
        cmocka_unit_test(steps_push_the_gradient_of_each_example),
        cmocka_unit_test(training_learns_and_repeats_bit_by_bit),
        cmocka_unit_test(an_epoch_makes_few_large_calls),
        cmocka_unit_test(a_failing_table_ends_the_pass_with_nothing_under_way),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(ranks_agree_with_brute_force),
        cmocka_unit_test(equal_scores_give_the_mean_rank),
        cmocka_unit_test(parts_of_a_ranking_add_up),
        cmocka_unit_test(a_ranking_ends_when_a_table_fails),
        cmocka_unit_test(nearest_rows_are_found_in_order),
        cmocka_unit_test(kernels_are_listed_and_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
