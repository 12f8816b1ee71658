/*
 * Programs as mathematics: derivatives by differences, fusion and memory reuse against the plain
 * list, and whole training runs against figures computed elsewhere in float64.
 */
#include "graph_world.h"

#ifdef TIDE_EMULATED
enum { SEEDS = 30 };
#else
enum { SEEDS = 300 };
#endif

/* Central differences in float64 against the program's gradients: every parameter and float input,
 * up to 12 elements of each. Returns the worst relative error. */
static double gradient_error(struct batch *b) {
    struct work w = start("reference", (struct tide_plan_options){0});
    bind(&w, b);
    (void)loss_at(&w, b);
    double *saved = malloc((w.elements + 1) * sizeof(double)), worst = 0;
    memcpy(saved, w.gradients, w.elements * sizeof(double));
    double *x = w.parameters;
    const double eps = 1e-5;
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        struct tide_parameter_place place = tide_program_parameter_at(p, i);
        size_t stride = place.count / 12 + 1;
        for (size_t e = place.first; e < place.first + place.count; e += stride) {
            double old = x[e];
            x[e] = old + eps;
            double up = loss_at(&w, b);
            x[e] = old - eps;
            double slope = (up - loss_at(&w, b)) / (2 * eps);
            x[e] = old;
            double error = fabs(slope - saved[e]) / (1e-3 + fabs(slope) + fabs(saved[e]));
            worst = error > worst ? error : worst;
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        char name[24];
        size_t rows, columns;
        snprintf(name, sizeof(name), "d:%s", b->in[i].name);
        (void)loss_at(&w, b);
        const double *d = b->in[i].index ? NULL : tide_run_output(w.run, name, &rows, &columns);
        size_t n = d ? rows * columns : 0;
        double *g = malloc((n + 1) * sizeof(double));
        if (d) {
            memcpy(g, d, n * sizeof(double));
        }
        for (size_t e = 0; e < n; e += n / 12 + 1) {
            double old = b->in[i].f64[e];
            b->in[i].f64[e] = old + eps;
            double up = loss_at(&w, b);
            b->in[i].f64[e] = old - eps;
            double slope = (up - loss_at(&w, b)) / (2 * eps);
            b->in[i].f64[e] = old;
            double error = fabs(slope - g[e]) / (1e-3 + fabs(slope) + fabs(g[e]));
            worst = error > worst ? error : worst;
        }
        free(g);
    }
    free(saved);
    stop(&w);
    return worst;
}

/* The weighted sum of squares of z as the loss, so that gradients differ from place to place. */
static void finish(uint32_t z) {
    op1(TIDE_OP_SUM_LOSS, map2(TIDE_MICRO_MUL, map2(TIDE_MICRO_SQR, z, TIDE_NO_VALUE), z));
    expect(tide_program_differentiate(p, true));
}

static void check_gradient(const char *what, struct batch *b) {
    double error = gradient_error(b);
    if (!(error < 1e-6)) {
        fail_msg("gradient of %s: relative error %.3g", what, error);
    }
    release(b);
    tide_program_destroy(p);
}

static void every_micro_operation_has_its_derivative(void **cmocka_state) {
    (void)cmocka_state;
    for (unsigned code = 0; code < TIDE_MICRO_COUNT; code++) {
        for (unsigned form = 0; form < 4; form++) { /* full, row, column, constant operand */
            begin(tide_micro_names[code]);
            uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 5, 0, 0);
            uint32_t y = form == 0   ? input("y", TIDE_VALUE_FLOAT, 1, 5, 0, 0)
                         : form == 1 ? parameter("y", 1, 5, 0, (struct tide_initial){0, 0.7})
                         : form == 2 ? input("y", TIDE_VALUE_FLOAT, 1, 1, 0, 0)
                                     : TIDE_NO_VALUE;
            uint32_t z = tide_micro_arity(code) == 1 ? map2(code, x, TIDE_NO_VALUE)
                         : form % 2                  ? map(code, x, y, x)
                                                     : map(code, map2(TIDE_MICRO_ADD, x, x), y, x);
            finish(map2(TIDE_MICRO_ADD, z, x));
            struct batch b = {.rows = 3};
            add_input(&b, "x", false, 5);
            if (form == 0 || form == 2) {
                add_input(&b, "y", false, form == 0 ? 5 : 1);
            }
            check_gradient(tide_micro_names[code], &b);
        }
    }
}

static void products_have_their_derivatives(void **cmocka_state) {
    (void)cmocka_state;
    for (int t = 0; t < 2; t++) {
        begin("mm");
        uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 4, 0, 0);
        uint32_t w = t ? parameter("w", 2, 6, 4, uniform) : parameter("w", 2, 4, 6, uniform);
        finish(apply(TIDE_OP_MM, 2, (uint32_t[]){x, w},
                     (struct tide_attributes){.tb = t, .alpha = 0.5}));
        struct batch b = {.rows = 3};
        add_input(&b, "x", false, 4);
        check_gradient("mm", &b);
    }
    for (int t = 0; t < 4; t++) {
        begin("bmm");
        bool ta = t & 1, tb = t & 2;
        uint32_t a = input("a", TIDE_VALUE_FLOAT, 2, ta ? 4 : 3, ta ? 3 : 4, 0);
        uint32_t c = input("c", TIDE_VALUE_FLOAT, 2, tb ? 5 : 4, tb ? 4 : 5, 0);
        finish(apply(TIDE_OP_BMM, 2, (uint32_t[]){a, c},
                     (struct tide_attributes){.ta = ta, .tb = tb}));
        struct batch b = {.rows = 2};
        add_input(&b, "a", false, 12);
        add_input(&b, "c", false, 20);
        check_gradient("bmm", &b);
    }
}

static void images_have_their_derivatives(void **cmocka_state) {
    (void)cmocka_state;
    for (int what = 0; what < 6; what++) {
        begin("image");
        uint32_t x = input("x", TIDE_VALUE_FLOAT, 3, 5, 6, 3), z = x;
        switch (what) {
        case 0:
            z = conv(x, parameter("k", 2, 27, 4, uniform), 3, 1);
            break;
        case 1:
            z = conv(x, parameter("k", 2, 27, 4, uniform), 3, 2);
            break;
        case 2:
            z = apply(TIDE_OP_MAXPOOL, 1, &x, window(2, 2, 0));
            break;
        case 3:
            z = apply(TIDE_OP_AVGPOOL, 1, &x, window(3, 2, 1));
            break;
        case 4:
            z = op1(TIDE_OP_MEAN_PIXELS, x);
            break;
        default:
            z = batchnorm(x, "bn", 3);
            break;
        }
        finish(z);
        struct batch b = {.rows = 2};
        add_input(&b, "x", false, 90);
        check_gradient("an image operation", &b);
    }
}

static void rows_have_their_derivatives(void **cmocka_state) {
    (void)cmocka_state;
    for (int what = 0; what < 12; what++) {
        begin("rows");
        uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 6, 0, 0), z = x;
        uint32_t gamma = parameter("gamma", 1, 6, 0, uniform),
                 beta = parameter("beta", 1, 6, 0, one);
        struct batch b = {.rows = 4};
        add_input(&b, "x", false, 6);
        switch (what) {
        case 0:
            z = apply(TIDE_OP_LAYERNORM, 3, (uint32_t[]){x, gamma, beta},
                      (struct tide_attributes){.eps = 1e-5});
            break;
        case 1:
            z = op1(TIDE_OP_SOFTMAX, x);
            break;
        case 2:
            z = op1(TIDE_OP_ROW_SUMS, x);
            break;
        case 3:
            z = op1(TIDE_OP_COLUMN_SUMS, x);
            break;
        case 4:
            z = apply(TIDE_OP_SLICE, 1, &x, (struct tide_attributes){.first = 2, .count = 3});
            break;
        case 5:
            z = op2(TIDE_OP_CONCAT, x, map2(TIDE_MICRO_SQR, x, TIDE_NO_VALUE));
            break;
        case 6:
            z = apply(TIDE_OP_DROPOUT, 1, &x, (struct tide_attributes){.keep = 0.5});
            break;
        case 7:
            z = op2(TIDE_OP_EMBED, parameter("table", 2, 3, 5, uniform),
                    input("ids", TIDE_VALUE_INDEX, 1, 2, 0, 0));
            add_input(&b, "ids", true, 2);
            break;
        case 8: /* rows by each example's index: of numbers, of rows of two; added up again */
            add_input(&b, "i", true, 7);
            z = op2(TIDE_OP_EMBED, x, input("i", TIDE_VALUE_INDEX, 1, 7, 0, 0));
            break;
        case 9:
            add_input(&b, "i", true, 1);
            expect(tide_program_reshape(p, x, 2, (uint32_t[]){3, 2}, &z));
            z = op2(TIDE_OP_EMBED, z, input("i", TIDE_VALUE_INDEX, 0, 0, 0, 0));
            break;
        case 10:
            add_input(&b, "i", true, 3);
            expect(tide_program_reshape(p, x, 2, (uint32_t[]){3, 2}, &z));
            z = apply(TIDE_OP_EMBED_DW, 2,
                      (uint32_t[]){z, input("i", TIDE_VALUE_INDEX, 1, 3, 0, 0)},
                      (struct tide_attributes){.n = 4});
            break;
        default: { /* a view in the middle */
            uint32_t dims[2] = {2, 3};
            expect(tide_program_reshape(p, map2(TIDE_MICRO_EXP, x, TIDE_NO_VALUE), 2, dims, &z));
            z = flat(map2(TIDE_MICRO_MUL, z, z), 6);
            break;
        }
        }
        finish(z);
        check_gradient("an operation on rows", &b);
    }
}

static uint32_t ranked(uint32_t x, uint32_t a, uint32_t b, uint32_t c) {
    uint32_t dims[3] = {a, b, c}, out = 0;
    expect(tide_program_reshape(p, x, c ? 3 : 2, dims, &out));
    return out;
}

static void sequences_have_their_derivatives(void **cmocka_state) {
    (void)cmocka_state;
    for (int what = 0; what < 11; what++) {
        begin("sequences");
        uint32_t x = input("x", TIDE_VALUE_FLOAT, 2, 4, 6, 0), z = x;
        struct batch b = {.rows = 3};
        add_input(&b, "x", false, 24);
        switch (what) {
        case 0: /* columns of one value, heads of queries that share keys, and lengths */
        case 1: {
            uint32_t parts[4];
            const struct tide_attributes cut[] = {{.first = 0, .count = 4}, {.first = 4, .count = 2}};
            for (size_t i = 0; i < 2; i++) {
                parts[i] = apply(TIDE_OP_SLICE, 1, &x, cut[i]);
            }
            parts[2] = map2(TIDE_MICRO_SQR, parts[1], TIDE_NO_VALUE);
            parts[3] = input("i", TIDE_VALUE_INDEX, 0, 0, 0, 0);
            add_input(&b, "i", true, 1);
            for (size_t e = 0; e < b.rows; e++) {
                b.in[1].i32[e] = (int32_t)e + 1;
            }
            z = apply(TIDE_OP_ATTENTION, 4, parts,
                      (struct tide_attributes){
                          .heads = 2, .kv_heads = 1, .causal = what == 1, .alpha = 0.7});
            break;
        }
        case 2:
            z = apply(TIDE_OP_ROTARY, 1, &x, (struct tide_attributes){.k = 6, .rate = 100});
            break;
        case 3:
            z = apply(TIDE_OP_ROTARY, 1, &x,
                      (struct tide_attributes){.k = 2, .rate = 100, .tb = true});
            break;
        case 4:
            z = op1(TIDE_OP_LOG_SOFTMAX, x);
            break;
        case 5:
            z = apply(TIDE_OP_CUMSUM, 1, &x, (struct tide_attributes){.first = 0});
            break;
        case 6:
            z = apply(TIDE_OP_REDUCE, 1, &x, (struct tide_attributes){.first = 1});
            break;
        case 7:
            z = ranked(x, 4, 1, 6);
            z = apply(TIDE_OP_EXPAND, 1, &z, (struct tide_attributes){.first = 1, .count = 3});
            break;
        case 8:
            z = ranked(x, 4, 3, 2);
            z = apply(TIDE_OP_PERMUTE, 1, &z, (struct tide_attributes){.n = 2 | 0 << 2 | 1 << 4});
            break;
        case 9:
            z = apply(TIDE_OP_TOPK, 1, &x, (struct tide_attributes){.count = 2});
            break;
        default:
            z = map2(TIDE_MICRO_MUL, x,
                     apply(TIDE_OP_ONE_HOT, 1,
                           (uint32_t[]){input("i", TIDE_VALUE_INDEX, 1, 4, 0, 0)},
                           (struct tide_attributes){.count = 6}));
            add_input(&b, "i", true, 4);
            break;
        }
        finish(z);
        check_gradient("an operation on sequences", &b);
    }
}

/* One column of a value that is computed, added to all columns of another: it is read densely, so it is no view. */
static void a_column_of_another_value_is_added_to_all(void **cmocka_state) {
    (void)cmocka_state;
    begin("column");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 3, 0, 0), y = map2(TIDE_MICRO_SQR, x, TIDE_NO_VALUE);
    uint32_t first = apply(TIDE_OP_SLICE, 1, &y, (struct tide_attributes){.first = 1, .count = 1});
    finish(map2(TIDE_MICRO_ADD, x, first));
    struct batch b = {.rows = 4};
    add_input(&b, "x", false, 3);
    double loss[2];
    for (size_t i = 0; i < 2; i++) {
        struct work w = start(FAST, (struct tide_plan_options){.no_fusion = i == 1, .no_reuse = i == 1});
        bind(&w, &b);
        loss[i] = loss_at(&w, &b);
        stop(&w);
    }
    assert_true(fabs(loss[0] - loss[1]) <= 1e-5 * fabs(loss[1]));
    check_gradient("a column", &b);
}

static void losses_have_their_derivatives(void **cmocka_state) {
    (void)cmocka_state;
    for (int code = TIDE_OP_XENT; code <= TIDE_OP_HINGE; code++) {
        begin("loss");
        bool labels = code == TIDE_OP_XENT;
        uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 3, 0, 0);
        uint32_t t = labels ? input("t", TIDE_VALUE_INDEX, 0, 0, 0, 0)
                            : input("t", TIDE_VALUE_FLOAT, 1, 3, 0, 0);
        op2((enum tide_op_code)code, map2(TIDE_MICRO_SQR, x, TIDE_NO_VALUE), t);
        expect(tide_program_differentiate(p, true));
        struct batch b = {.rows = 5};
        add_input(&b, "x", false, 3);
        add_input(&b, "t", labels, labels ? 1 : 3);
        /* Targets of element losses are inputs too, but what the loss owes them is not defined. */
        if (!labels) {
            struct work w = start("reference", (struct tide_plan_options){0});
            size_t rows, columns;
            bind(&w, &b);
            (void)loss_at(&w, &b);
            assert_null(tide_run_output(w.run, "d:t", &rows, &columns));
            stop(&w);
        }
        check_gradient(tide_op_names[code], &b);
    }
}

/* x used twice, a parameter used twice, and a parameter whose gradient another one shares. */
static void values_used_several_times_add_up(void **cmocka_state) {
    (void)cmocka_state;
    begin("shared");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 4, 0, 0), w = parameter("w", 2, 4, 4, uniform);
    uint32_t a = parameter("a", 1, 4, 0, uniform), c = parameter("c", 1, 4, 0, uniform);
    uint32_t h = map2(TIDE_MICRO_TANH, op2(TIDE_OP_MM, x, w), TIDE_NO_VALUE);
    uint32_t z = map2(TIDE_MICRO_ADD, op2(TIDE_OP_MM, h, w), map2(TIDE_MICRO_ADD, h, x));
    finish(map2(TIDE_MICRO_ADD, z, map2(TIDE_MICRO_ADD, a, c)));
    struct batch b = {.rows = 3};
    add_input(&b, "x", false, 4);
    check_gradient("shared values", &b);
}

/* Where a function jumps, its derivative cannot agree with differences: a checker that is content
 * there sees nothing. */
static void the_checker_sees_a_gradient_that_is_wrong(void **cmocka_state) {
    (void)cmocka_state;
    begin("planted");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 4, 0, 0);
    uint32_t step = map2(TIDE_MICRO_GT, x, TIDE_NO_VALUE); /* 0 up to 0.5, 1 above */
    op1(TIDE_OP_SUM_LOSS, map2(TIDE_MICRO_MUL, map2(TIDE_MICRO_SQR, x, TIDE_NO_VALUE), step));
    expect(tide_program_differentiate(p, true));
    struct batch b = {.rows = 2};
    add_input(&b, "x", false, 4);
    b.in[0].f64[0] = 0.7;
    assert_true(gradient_error(&b) < 1e-6);
    b.in[0].f64[0] = 0.5;
    assert_true(gradient_error(&b) > 1e-3);
    release(&b);
    tide_program_destroy(p);
}

/* ---- random programs: fused, planned in place, against one operation at a time ---- */

static void random_program(struct tide_random *random) {
    begin("random");
    uint32_t values[40], count = 0, w = 6;
    values[count++] = input("x", TIDE_VALUE_FLOAT, 1, w, 0, 0);
    values[count++] = input("y", TIDE_VALUE_FLOAT, 1, w, 0, 0);
    uint32_t bias = parameter("bias", 1, w, 0, uniform), matrix = parameter("m", 2, w, w, uniform);
    while (count < 25) {
        uint32_t a = values[tide_random_below(random, count)];
        uint32_t b = values[tide_random_below(random, count)], made = a;
        static const enum tide_micro_code codes[] = {TIDE_MICRO_ADD, TIDE_MICRO_SUB, TIDE_MICRO_MUL,
                                                     TIDE_MICRO_MAX, TIDE_MICRO_MIN};
        switch (tide_random_below(random, 9)) {
        case 0:
            made = map2(TIDE_MICRO_ADD, a, bias);
            break;
        case 1:
            made = map2(TIDE_MICRO_TANH, op2(TIDE_OP_MM, a, matrix), TIDE_NO_VALUE);
            break;
        case 2:
            made = map2(TIDE_MICRO_SIGMOID, a, TIDE_NO_VALUE);
            break;
        case 3:
            made = map2(TIDE_MICRO_MUL, a, op1(TIDE_OP_ROW_SUMS, op1(TIDE_OP_SOFTMAX, b)));
            break;
        case 4:
            made = map2(TIDE_MICRO_SUB, TIDE_NO_VALUE, map2(TIDE_MICRO_TANH, a, TIDE_NO_VALUE));
            break;
        default:
            made = map2(TIDE_MICRO_TANH, map2(codes[tide_random_below(random, 5)], a, b),
                        TIDE_NO_VALUE);
            break;
        }
        values[count++] = made;
    }
    expect(tide_program_output(p, "last", values[count - 1]));
    op1(TIDE_OP_SUM_LOSS, map2(TIDE_MICRO_SQR, values[count - 1], TIDE_NO_VALUE));
    op1(TIDE_OP_SUM_LOSS, values[count - 3]);
    expect(tide_program_differentiate(p, true));
}

static void random_programs_agree_fused_or_not(void **cmocka_state) {
    (void)cmocka_state;
    size_t regions[2] = {0, 0}, bytes[2] = {0, 0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct tide_random random;
        tide_random_seed(&random, seed);
        random_program(&random);
        struct batch b = {.rows = 1 + (size_t)tide_random_below(&random, 9)};
        add_input(&b, "x", false, 6);
        add_input(&b, "y", false, 6);
        struct work w[3] = {
            start(FAST, (struct tide_plan_options){0}),
            start(FAST, (struct tide_plan_options){.no_reuse = true}),
            start(FAST, (struct tide_plan_options){.no_fusion = true, .no_reuse = true})};
        double loss[3];
        for (size_t i = 0; i < 3; i++) {
            bind(&w[i], &b);
            loss[i] = loss_at(&w[i], &b);
        }
        /* Reuse changes no bit; fusion may round a product and a sum once, not twice. */
        assert_true(loss[0] <= loss[1] && loss[0] >= loss[1]);
        assert_memory_equal(w[0].gradients, w[1].gradients, w[0].elements * sizeof(float));
        assert_true(fabs(loss[0] - loss[2]) <= 1e-5 * (1 + fabs(loss[2])));
        for (size_t e = 0; e < w[0].elements; e++) {
            double a = (double)((float *)w[0].gradients)[e],
                   c = (double)((float *)w[2].gradients)[e];
            if (!(fabs(a - c) <= 1e-4 * (1 + fabs(c)))) {
                fail_msg("seed %zu, gradient %zu: %g fused, %g not", (size_t)seed, e, a, c);
            }
        }
        for (size_t i = 0; i < 2; i++) {
            struct tide_plan_figures f = tide_plan_figures(w[i == 0 ? 0 : 2].plan);
            regions[i] += f.regions;
            bytes[i] += f.row_bytes;
        }
        for (size_t i = 0; i < 3; i++) {
            stop(&w[i]);
        }
        release(&b);
        tide_program_destroy(p);
    }
    assert_true(regions[0] * 2 < regions[1]); /* it does fuse, */
    assert_true(bytes[0] * 2 < bytes[1]);     /* and reuse */
}

/* ---- whole nets against figures computed in float64 elsewhere ---- */

static double golden(uint32_t i, uint32_t s, double scale) {
    uint32_t x = i * 2654435761u + s * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(float)(scale * (((x >> 8) & 0xffff) / 65536.0 * 0.2 - 0.1));
}

struct golden_parameter {
    const char *name;
    uint32_t number;
    double scale;
    double norm; /* of the gradient at step 0 */
};

static void set(const struct work *w, size_t e, double x) {
    if (w->device->element == sizeof(float)) {
        ((float *)w->parameters)[e] = (float)x;
    } else {
        ((double *)w->parameters)[e] = x;
    }
}

static void set_golden(const struct work *w, const struct golden_parameter *g) {
    struct tide_parameter_place place = find(g->name);
    for (size_t i = 0; i < place.rows; i++) {
        for (size_t o = 0; o < place.columns; o++) {
            set(w, place.first + i * place.columns + o,
                golden((uint32_t)(o * place.rows + i), g->number, g->scale));
        }
    }
}

/* 256 examples of `columns` numbers around their label's mean. */
static void make_golden_data(size_t columns, double *f64, float *f32, int32_t *labels) {
    for (size_t n = 0; n < 256; n++) {
        labels[n] = (int32_t)(n % 10);
        for (size_t j = 0; j < columns; j++) {
            double x = 5 * golden((uint32_t)(n * columns + j), 11, 1) +
                       5 * golden((uint32_t)((size_t)labels[n] * columns + j), 12, 1);
            f32[n * columns + j] = (float)x;
            f64[n * columns + j] = (double)(float)x;
        }
    }
}

struct golden_run {
    size_t columns, batch;
    double rate;
    const double *losses;
    const struct golden_parameter *parameters;
    size_t parameter_count;
};

static void train_golden(const struct golden_run *g, const char *device,
                         struct tide_plan_options options, bool fold, size_t steps) {
    struct work w = start(device, options);
    double *f64 = malloc(256 * g->columns * sizeof(double));
    float *f32 = malloc(256 * g->columns * sizeof(float));
    int32_t labels[256];
    make_golden_data(g->columns, f64, f32, labels);
    for (size_t i = 0; i < g->parameter_count; i++) {
        if (g->parameters[i].number > 0) {
            set_golden(&w, &g->parameters[i]);
        }
    }
    give(&w);
    tide_run_fold(w.run, fold ? g->rate : 0);
    for (size_t t = 0; t < steps; t++) {
        size_t first = t * g->batch % 256;
        expect(tide_run_bind(w.run, "x",
                             w.device->element == 8 ? (const void *)(f64 + first * g->columns)
                                                    : (const void *)(f32 + first * g->columns)));
        expect(tide_run_bind(w.run, "y", labels + first));
        expect(tide_run_step(w.run, g->batch, t, NULL));
        struct tide_run_loss loss = tide_run_loss(w.run);
        double mean = loss.sum / loss.count;
        if (!(fabs(mean - g->losses[t]) <= 2e-5 * g->losses[t])) {
            fail_msg("%s, step %zu: loss %.7g, not %.7g", device, t, mean, g->losses[t]);
        }
        for (size_t i = 0; t == 0 && !fold && i < g->parameter_count; i++) {
            struct tide_parameter_place place = find(g->parameters[i].name);
            double norm = sqrt(w.device->norm2(place.count, (char *)w.on.gradients +
                                                                place.first * w.device->element)) /
                          loss.count;
            if (!(fabs(norm - g->parameters[i].norm) <= 1e-4 * norm)) {
                fail_msg("%s: gradient of %s has norm %.6g, not %.6g", device, place.name, norm,
                         g->parameters[i].norm);
            }
        }
        struct tide_step u = {.rule = TIDE_RULE_SGD, .rate = g->rate, .scale = 1 / loss.count};
        for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
            struct tide_parameter_place place = tide_program_parameter_at(p, i);
            size_t at = place.first * w.device->element;
            if (!tide_run_folded(w.run, i)) {
                w.device->update(&u, place.count, (char *)w.on.parameters + at,
                                 (char *)w.on.gradients + at, NULL, NULL);
            }
        }
    }
    free(f64);
    free(f32);
    stop(&w);
}

static void on_all_devices(const struct golden_run *g, size_t reference_steps) {
#ifdef TIDE_EMULATED /* slow */
    static const char *const devices[] = {FAST};
    const size_t steps = 1, folded = 2;
#else
    static const char *const devices[] = {"cpu-plain", "cpu-avx2", "cpu-avx512", "cuda"};
    const size_t steps = 8, folded = 8;
    train_golden(g, FAST, (struct tide_plan_options){.no_fusion = true, .no_reuse = true}, false,
                 steps);
#endif
    for (size_t d = 0; d < TIDE_COUNT(devices); d++) {
        if (device_named(devices[d])) {
            train_golden(g, devices[d], (struct tide_plan_options){0}, false, steps);
        }
    }
    train_golden(g, FAST, (struct tide_plan_options){0}, true, folded);
#ifdef TIDE_EMULATED
    (void)reference_steps;
#else
    train_golden(g, "reference", (struct tide_plan_options){0}, false, reference_steps);
#endif
}

static uint32_t relu(uint32_t x) {
    return map2(TIDE_MICRO_RELU, x, TIDE_NO_VALUE);
}

static void the_perceptron_trains_as_it_should(void **cmocka_state) {
    (void)cmocka_state;
    begin("l1");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 784, 0, 0),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    layer("linear", "fc1", "");
    uint32_t h = relu(dense(x, "w1", "b1", 784, 512));
    layer("linear", "fc2", "");
    op2(TIDE_OP_XENT, dense(h, "w2", "b2", 512, 10), y);
    expect(tide_program_differentiate(p, false));
    static const double losses[] = {2.448784, 1.896250, 1.258574, 0.874494,
                                    0.598713, 0.448150, 0.359333, 0.298396};
    static const struct golden_parameter parameters[] = {{"w1", 1, 1, 2.40824},
                                                         {"b1", 0, 0, 0.162402},
                                                         {"w2", 2, 1, 2.17435},
                                                         {"b2", 0, 0, 0.0866858}};
    const struct golden_run g = {784, 32, 0.1, losses, parameters, TIDE_COUNT(parameters)};
    on_all_devices(&g, 2);
    tide_program_destroy(p);
}

static uint32_t conv_block(uint32_t x, const char *k, const char *b, uint32_t from, uint32_t to) {
    uint32_t z = conv(x, parameter(k, 2, 9 * from, to, zero), 3, 1);
    z = relu(map2(TIDE_MICRO_ADD, z, parameter(b, 1, to, 0, zero)));
    return apply(TIDE_OP_MAXPOOL, 1, &z, window(2, 2, 0));
}

static void the_convolutional_net_trains_as_it_should(void **cmocka_state) {
    (void)cmocka_state;
    begin("l2");
    uint32_t z = input("x", TIDE_VALUE_FLOAT, 3, 32, 32, 3),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    z = conv_block(z, "c1", "b1", 3, 16);
    z = conv_block(z, "c2", "b2", 16, 32);
    z = flat(conv_block(z, "c3", "b3", 32, 32), 512);
    z = relu(dense(z, "w4", "b4", 512, 64));
    op2(TIDE_OP_XENT, dense(z, "w5", "b5", 64, 10), y);
    expect(tide_program_differentiate(p, false));
    static const double losses[] = {2.318238, 2.324290, 2.356724, 2.328241,
                                    2.333141, 2.307652, 2.300512, 2.323488};
    static const struct golden_parameter parameters[] = {{"c1", 1, 2, 0.337905},
                                                         {"c2", 2, 2, 0.347789},
                                                         {"c3", 3, 2, 0.350310},
                                                         {"w4", 4, 1, 0.656068},
                                                         {"w5", 5, 1, 0.514447}};
    const struct golden_run g = {3072, 16, 0.05, losses, parameters, TIDE_COUNT(parameters)};
    on_all_devices(&g, 1);
    tide_program_destroy(p);
}

static void the_residual_net_trains_as_it_should(void **cmocka_state) {
    (void)cmocka_state;
    begin("l3");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 3, 32, 32, 3),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    uint32_t q = relu(batchnorm(conv(x, parameter("k0", 2, 27, 16, zero), 3, 1), "n0", 16));
    uint32_t h = relu(batchnorm(conv(q, parameter("ka", 2, 144, 16, zero), 3, 1), "na", 16));
    h = batchnorm(conv(h, parameter("kb", 2, 144, 16, zero), 3, 1), "nb", 16);
    q = relu(map2(TIDE_MICRO_ADD, q, h));
    h = relu(batchnorm(conv(q, parameter("kc", 2, 144, 32, zero), 3, 2), "nc", 32));
    h = batchnorm(conv(h, parameter("kd", 2, 288, 32, zero), 3, 1), "nd", 32);
    uint32_t s = batchnorm(conv(q, parameter("kp", 2, 16, 32, zero), 1, 2), "np", 32);
    q = op1(TIDE_OP_MEAN_PIXELS, relu(map2(TIDE_MICRO_ADD, s, h)));
    op2(TIDE_OP_XENT, dense(q, "w", "b", 32, 10), y);
    expect(tide_program_differentiate(p, false));
    static const double losses[] = {2.578119, 2.508518, 2.594574, 2.382785,
                                    2.596291, 2.449889, 2.410783, 2.452434};
    static const struct golden_parameter parameters[] = {
        {"k0", 1, 2, 0.312515}, {"ka", 2, 2, 0.230030}, {"kb", 3, 2, 0.200345},
        {"kc", 4, 2, 0.160947}, {"kd", 5, 2, 0.130515}, {"kp", 6, 2, 0.135274},
        {"w", 7, 4, 0.820567}};
    const struct golden_run g = {3072, 16, 0.05, losses, parameters, TIDE_COUNT(parameters)};
    on_all_devices(&g, 1);
    tide_program_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_micro_operation_has_its_derivative),
        cmocka_unit_test(products_have_their_derivatives),
        cmocka_unit_test(images_have_their_derivatives),
        cmocka_unit_test(rows_have_their_derivatives),
        cmocka_unit_test(sequences_have_their_derivatives),
        cmocka_unit_test(a_column_of_another_value_is_added_to_all),
        cmocka_unit_test(losses_have_their_derivatives),
        cmocka_unit_test(values_used_several_times_add_up),
        cmocka_unit_test(the_checker_sees_a_gradient_that_is_wrong),
        cmocka_unit_test(random_programs_agree_fused_or_not),
        cmocka_unit_test(the_perceptron_trains_as_it_should),
        cmocka_unit_test(the_convolutional_net_trains_as_it_should),
        cmocka_unit_test(the_residual_net_trains_as_it_should),
    };
#ifdef TIDE_EMULATED
    cmocka_set_skip_filter("*derivative*"); /* mathematics: of no device */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
