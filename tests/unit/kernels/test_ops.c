/* Operations: every instruction set and device of this machine against plain loops in float64; and,
 * as test_cuda_ops, the CUDA kernels on an emulated device. */
#include "op_world.h"

static void on_devices(const struct op_case *c, bool planted) {
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        op_check(c, device, planted);
    }
}

static const size_t sizes[] = {0, 1, 3, 17, 64, 513};

/* The next pair of rows and columns: all sizes by all but 0, then a wide one. */
static bool next_shape(size_t *at, size_t *rows, size_t *columns) {
    const size_t wide = TIDE_COUNT(sizes) - 1, pairs = TIDE_COUNT(sizes) * wide;
    *rows = *at < pairs ? sizes[*at / wide] : 3;
    *columns = *at < pairs ? sizes[1 + *at % wide] : 1500;
    return (*at)++ <= pairs;
}

/* ---- regions ---- */

static struct op_case one_micro(unsigned code, size_t rows, size_t columns) {
    struct op_case c = {.what = tide_micro_names[code],
                        .code = TIDE_OP_MAP,
                        .out_count = 1,
                        .in_count = tide_micro_arity(code),
                        .out = {{rows, columns, 0, 0, 0}},
                        .eps = 4};
    struct tide_region *region = &c.attributes.region;
    region->source_count = (uint8_t)c.in_count;
    region->micro_count = region->out_count = 1;
    region->micro[0] =
        (struct tide_micro){(uint8_t)code, 0, c.in_count > 1, c.in_count > 2 ? 2 : 0};
    region->out[0] = region->source_count;
    for (size_t i = 0; i < c.in_count; i++) {
        c.in[i] = (struct op_shape){rows, columns, OP_FLOAT, 0, code == TIDE_MICRO_LOG1P};
    }
    return c;
}

static void micro_operations_are_within_4_ulp(void **state) {
    (void)state;
    for (unsigned code = 0; code < TIDE_MICRO_COUNT; code++) {
        for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
            struct op_case c = one_micro(code, sizes[i], 17);
            on_devices(&c, false);
        }
        struct op_case c = one_micro(code, 1, 4097);
        on_devices(&c, true);
    }
}

/* sigmoid(x * row + column) - 0.5 max x, and the product itself: all kinds of sources, two stores.
 */
static struct op_case mixed_region(size_t rows, size_t columns) {
    struct op_case c = {.what = "mixed region",
                        .code = TIDE_OP_MAP,
                        .in_count = 3,
                        .out_count = 2,
                        .in = {{rows, columns, 0, 0, 0}, {1, columns, 0, 0, 0}, {rows, 1, 0, 0, 0}},
                        .out = {{rows, columns, 0, 0, 0}, {rows, columns, 0, 0, 0}},
                        .eps = 8,
                        .of = OF_ALL};
    c.attributes.region = (struct tide_region){
        .source_count = 4,
        .micro_count = 5,
        .out_count = 2,
        .kind = {TIDE_SOURCE_FULL, TIDE_SOURCE_ROW, TIDE_SOURCE_COLUMN, TIDE_SOURCE_CONSTANT},
        .constant = {0, 0, 0, 0.5},
        .micro = {{TIDE_MICRO_MUL, 0, 1, 0},
                  {TIDE_MICRO_ADD, 4, 2, 0},
                  {TIDE_MICRO_SIGMOID, 5, 0, 0},
                  {TIDE_MICRO_SUB, 6, 3, 0},
                  {TIDE_MICRO_MAX, 7, 0, 0}},
        .out = {8, 4}};
    return c;
}

static void regions_broadcast_rows_columns_and_constants(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
        for (size_t j = 1; j < TIDE_COUNT(sizes); j++) {
            struct op_case c = mixed_region(sizes[i], sizes[j]);
            on_devices(&c, false);
        }
    }
    struct op_case c = mixed_region(3, 4097);
    on_devices(&c, false);
}

static void a_region_may_write_over_its_source(void **state) {
    (void)state;
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        struct op_case c = mixed_region(67, 50);
        c.out_count = c.attributes.region.out_count = 1;
        struct op_run run;
        op_prepare(&run, &c, device, false);
        free(run.call[0].out[0].data);
        run.call[0].out[0].data = run.call[0].in[0].data;
        assert_int_equal(op_call(device, TIDE_OP_MAP, &run.call[0]), 0);
        assert_int_equal(tide_device_find("reference")->functions[TIDE_OP_MAP](&run.call[1]), 0);
        op_compare(&run, &c, 0, device->name);
        run.call[0].out[0].data = NULL;
        op_release(&run, &c);
    }
}

/* ---- products and convolutions ---- */

static void products_agree(void **state) {
    (void)state;
    for (size_t n = 0; n < 5; n++) {
        for (size_t k = 0; k < 5; k++) {
            for (size_t t = 0; t < 4; t++) {
                size_t N = sizes[n], K = sizes[k], M = sizes[(n + k + t) % 5];
                struct op_case c = {.what = "mm",
                                    .code = TIDE_OP_MM,
                                    .in_count = 2,
                                    .out_count = 1,
                                    .out = {{N, M, 0, 0, 0}},
                                    .eps = 2 * (double)K + 2,
                                    .of = OF_SUM,
                                    .accumulate = t == 3};
                c.attributes.ta = t & 1;
                c.attributes.tb = t & 2;
                c.attributes.alpha = t == 2 ? -0.5 : 0;
                c.in[0] =
                    t & 1 ? (struct op_shape){K, N, 0, 0, 0} : (struct op_shape){N, K, 0, 0, 0};
                c.in[1] =
                    t & 2 ? (struct op_shape){M, K, 0, 0, 0} : (struct op_shape){K, M, 0, 0, 0};
                on_devices(&c, false);
                size_t g = 3; /* the same, three at a time */
                c.code = TIDE_OP_BMM;
                c.what = "bmm";
                c.accumulate = false;
                c.attributes.alpha = 0;
                c.attributes.n = (uint32_t)c.in[0].rows;
                c.in[0].rows *= g;
                c.in[1].rows *= g;
                c.out[0].rows *= g;
                on_devices(&c, false);
            }
        }
    }
}

struct conv_shape {
    size_t images;
    uint32_t h, w, c, o, k, stride, pad;
};

static const struct conv_shape conv_shapes[] = {
    {0, 5, 5, 3, 16, 3, 1, 1},  {2, 1, 1, 1, 1, 1, 1, 0},    {3, 7, 5, 3, 16, 3, 1, 1},
    {2, 8, 8, 16, 32, 3, 2, 1}, {2, 9, 7, 16, 48, 3, 1, 1},  {2, 6, 6, 5, 7, 3, 1, 1},
    {1, 28, 28, 1, 6, 5, 1, 2}, {2, 9, 9, 16, 17, 3, 2, 0},  {2, 8, 8, 32, 16, 1, 1, 0},
    {2, 8, 8, 16, 32, 1, 2, 0}, {2, 11, 13, 4, 64, 5, 3, 2}, {1, 33, 17, 32, 32, 3, 1, 1},
    {2, 4, 4, 17, 16, 2, 1, 1}, {1, 4, 19, 80, 16, 3, 1, 1}, {2, 12, 40, 16, 16, 3, 1, 1},
    {1, 9, 9, 64, 64, 3, 1, 1}, {2, 3, 4, 3, 5, 2, 2, 4}};

static struct tide_window window_of(const struct conv_shape *s) {
    return (struct tide_window){.kh = s->k,
                                .kw = s->k,
                                .stride = s->stride,
                                .pad = s->pad,
                                .h = s->h,
                                .w = s->w,
                                .c = s->c,
                                .o = s->o,
                                .oh = (s->h + 2 * s->pad - s->k) / s->stride + 1,
                                .ow = (s->w + 2 * s->pad - s->k) / s->stride + 1};
}

static void convolutions_agree(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_COUNT(conv_shapes); i++) {
        struct tide_window w = window_of(&conv_shapes[i]);
        size_t taps = (size_t)w.kh * w.kw * w.c, cells = conv_shapes[i].images * w.oh * w.ow;
        const struct op_shape x = {conv_shapes[i].images * w.h * w.w, w.c, 0, 0, 0},
                              g = {cells, w.o, 0, 0, 0}, k = {taps, w.o, 0, 0, 0};
        struct op_case c = {.what = "conv",
                            .code = TIDE_OP_CONV,
                            .attributes = {.window = w},
                            .in_count = 2,
                            .out_count = 1,
                            .in = {x, k},
                            .out = {g},
                            .eps = 2 * (double)taps,
                            .of = OF_SUM};
        on_devices(&c, false);
        struct op_case dx = {.what = "conv_dx",
                             .code = TIDE_OP_CONV_DX,
                             .attributes = {.window = w},
                             .in_count = 2,
                             .out_count = 1,
                             .in = {g, k},
                             .out = {x},
                             .eps = 2 * (double)taps * w.o,
                             .of = OF_SUM};
        on_devices(&dx, false);
        struct op_case dw = {.what = "conv_dw",
                             .code = TIDE_OP_CONV_DW,
                             .attributes = {.window = w},
                             .in_count = 2,
                             .out_count = 1,
                             .in = {x, g},
                             .out = {k},
                             .eps = 2 * (double)cells,
                             .of = OF_SUM,
                             .accumulate = i % 2};
        on_devices(&dw, false);
    }
}

static void pools_agree(void **state) {
    (void)state;
    static const struct conv_shape shapes[] = {{0, 4, 4, 3, 0, 2, 2, 0},
                                               {2, 6, 6, 5, 0, 2, 2, 0},
                                               {2, 7, 9, 17, 0, 3, 2, 1},
                                               {1, 5, 5, 64, 0, 3, 1, 1},
                                               {3, 4, 4, 1, 0, 4, 4, 0}};
    for (size_t i = 0; i < TIDE_COUNT(shapes); i++) {
        struct tide_window w = window_of(&shapes[i]);
        const struct op_shape x = {shapes[i].images * w.h * w.w, w.c, 0, 0, 0},
                              y = {shapes[i].images * w.oh * w.ow, w.c, 0, 0, 0};
        struct op_shape place = y;
        place.type = OP_BYTES;
        place.below = w.kh * w.kw;
        struct op_case c = {.what = "maxpool",
                            .code = TIDE_OP_MAXPOOL,
                            .attributes = {.window = w},
                            .in_count = 1,
                            .out_count = 2,
                            .in = {x},
                            .out = {y, place}};
        on_devices(&c, false);
        on_devices(&c, true);
        struct op_case avg = {.what = "avgpool",
                              .code = TIDE_OP_AVGPOOL,
                              .attributes = {.window = w},
                              .in_count = 1,
                              .out_count = 1,
                              .in = {x},
                              .out = {y},
                              .eps = 16,
                              .of = OF_SUM};
        on_devices(&avg, false);
        struct op_case back = {.what = "avgpool_dx",
                               .code = TIDE_OP_AVGPOOL_DX,
                               .attributes = {.window = w},
                               .in_count = 1,
                               .out_count = 1,
                               .in = {y},
                               .out = {x},
                               .eps = 16,
                               .of = OF_SUM};
        on_devices(&back, false);
        if (w.pad == 0) { /* any place is a cell of the image */
            struct op_case dx = {.what = "maxpool_dx",
                                 .code = TIDE_OP_MAXPOOL_DX,
                                 .attributes = {.window = w},
                                 .in_count = 2,
                                 .out_count = 1,
                                 .in = {y, place},
                                 .out = {x},
                                 .eps = 16,
                                 .of = OF_SUM};
            on_devices(&dx, false);
        }
    }
}

/* ---- normalisation, softmax, losses ---- */

static void normalisations_agree(void **state) {
    (void)state;
    for (size_t at = 0, n, k; next_shape(&at, &n, &k);) {
        if (n > 0) {
            const struct op_shape x = {n, k, 0, 0, 0}, row = {1, k, 0, 0, 0}, one = {1, k, 0, 0, 1};
            const struct op_shape per = {n, 1, 0, 0, 0}, some = {n, 1, 0, 0, 1};
            struct op_case eval = {.what = "batchnorm_eval",
                                   .code = TIDE_OP_BATCHNORM_EVAL,
                                   .attributes = {.eps = 1e-5},
                                   .in_count = 5,
                                   .out_count = 1,
                                   .in = {x, one, row, row, one},
                                   .out = {x},
                                   .eps = 32,
                                   .of = OF_ALL};
            on_devices(&eval, false);
            struct op_case dx = {.what = "batchnorm_dx",
                                 .code = TIDE_OP_BATCHNORM_DX,
                                 .in_count = 5,
                                 .out_count = 3,
                                 .in = {x, x, one, row, one},
                                 .out = {x, row, row},
                                 .eps = 400,
                                 .of = OF_ALL};
            on_devices(&dx, false);
            struct op_case back = {.what = "layernorm_dx",
                                   .code = TIDE_OP_LAYERNORM_DX,
                                   .in_count = 5,
                                   .out_count = 3,
                                   .in = {x, x, one, per, some},
                                   .out = {x, row, row},
                                   .eps = 400,
                                   .of = OF_ALL};
            on_devices(&back, false);
            struct op_case layer = {.what = "layernorm",
                                    .code = TIDE_OP_LAYERNORM,
                                    .attributes = {.eps = 1e-3},
                                    .in_count = 3,
                                    .out_count = 3,
                                    .in = {x, one, row},
                                    .out = {x, per, per},
                                    .eps = 400,
                                    .of = OF_ALL};
            on_devices(&layer, false);
            struct op_case batch = {.what = "batchnorm",
                                    .code = TIDE_OP_BATCHNORM,
                                    .attributes = {.eps = 1e-3, .rate = 0.1},
                                    .in_count = 5,
                                    .out_count = 3,
                                    .in = {x, one, row, row, one},
                                    .out = {x, row, row},
                                    .eps = 400,
                                    .of = OF_ALL};
            on_devices(&batch, false);
        }
    }
}

static void check_running_statistics(const struct tide_device *device) {
    float x[8] = {1, 10, 2, 20, 3, 30, 4, 40}, gamma[2] = {1, 1}, beta[2] = {0, 0};
    float mean[2] = {0, 0}, var[2] = {1, 1}, y[8], m[2], inv[2], scratch[64];
    struct tide_attributes attributes = {.eps = 1e-5, .rate = 0.1};
    struct tide_op_call call = {
        .attributes = &attributes,
        .scratch = scratch,
        .in = {{x, 4, 2}, {gamma, 1, 2}, {beta, 1, 2}, {mean, 1, 2}, {var, 1, 2}},
        .out = {{y, 4, 2}, {m, 1, 2}, {inv, 1, 2}}};
    assert_int_equal(op_call(device, TIDE_OP_BATCHNORM, &call), 0);
    assert_float_equal(mean[0], 0.25f, 1e-6f);
    assert_float_equal(mean[1], 2.5f, 1e-5f);
    assert_float_equal(var[0], 0.9f + 0.1f * 5 / 3, 1e-6f); /* unbiased */
    assert_float_equal(m[1], 25, 1e-5f);
}

static void batch_norm_moves_the_running_statistics(void **state) {
    (void)state;
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        check_running_statistics(device);
    }
}

static void check_linear_xent(size_t n, size_t k, struct op_shape labels, struct op_shape loss) {
    for (int tb = 0; tb < 2; tb++) {
        const size_t m = 5;
        const struct op_shape x = {n, m, OP_FLOAT, 0, false}, w = {tb ? k : m, tb ? m : k, OP_FLOAT, 0, false};
        struct op_case linear = {.what = "linear_xent",
                                 .code = TIDE_OP_LINEAR_XENT,
                                 .in_count = 3,
                                 .out_count = 3,
                                 .in = {x, w, labels},
                                 .out = {loss, x, w},
                                 .attributes = {.tb = tb == 1},
                                 .eps = 64,
                                 .of = OF_ALL};
        if (k == 1) { /* of one class the gradient is 0 but for rounding */
            continue;
        }
        on_devices(&linear, false);
        linear.in_count = 4;
        linear.in[3] = (struct op_shape){n, 1, OP_FLOAT, 0, true};
        linear.attributes.smoothing = 0.1;
        on_devices(&linear, false);
    }
}

/* 16 MiB hold 419 rows of 10,000 logits: the third chunk has fewer. Memory does not grow with the rows. */
static void linear_xent_goes_by_chunks(void **state) {
    (void)state;
    const size_t n = 900, k = 10000, m = 3;
    const struct op_shape x = {n, m, OP_FLOAT, 0, false}, w = {m, k, OP_FLOAT, 0, false};
    struct op_case c = {.what = "linear_xent",
                        .code = TIDE_OP_LINEAR_XENT,
                        .in_count = 3,
                        .out_count = 3,
                        .in = {x, w, {n, 1, OP_IDS, (uint32_t)k, 0}},
                        .out = {{1, 3, OP_DOUBLE, 0, 0}, x, w},
                        .eps = 64,
                        .of = OF_ALL};
    on_devices(&c, false);
    c.attributes.count = 1; /* the loss alone */
    c.out_count = 1;
    on_devices(&c, false);
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        const struct tide_attributes none = {0};
        struct tide_op_call call = {.attributes = &none, .in = {{NULL, 1 << 20, 64}, {NULL, 64, 50000}}};
        const size_t bytes = device->scratch(TIDE_OP_LINEAR_XENT, &call);
        assert_in_range(bytes, 1 << 20, 17 << 20);
    }
}

static void softmax_and_losses_agree(void **state) {
    (void)state;
    for (size_t at = 0, n, k; next_shape(&at, &n, &k);) {
        const struct op_shape z = {n, k, 0, 0, 0}, labels = {n, 1, OP_IDS, (uint32_t)k, 0};
        const struct op_shape loss = {1, 3, OP_DOUBLE, 0, 0};
        struct op_case soft = {.what = "softmax",
                               .code = TIDE_OP_SOFTMAX,
                               .in_count = 1,
                               .out_count = 1,
                               .in = {z},
                               .out = {z},
                               .eps = 8};
        on_devices(&soft, false);
        struct op_case dx = {.what = "softmax_dx",
                             .code = TIDE_OP_SOFTMAX_DX,
                             .in_count = 2,
                             .out_count = 1,
                             .in = {z, z},
                             .out = {z},
                             .eps = 64,
                             .of = OF_ALL};
        on_devices(&dx, false);
        struct op_case xent = {.what = "xent",
                               .code = TIDE_OP_XENT,
                               .in_count = 2,
                               .out_count = 2,
                               .in = {z, labels},
                               .out = {loss, z},
                               .eps = 8,
                               .of = OF_ALL};
        on_devices(&xent, false);
        if (k > 1) { /* of one class the gradient is 0 but for rounding */
            xent.in_count = 3;
            xent.in[2] = (struct op_shape){n, 1, OP_FLOAT, 0, true};
            xent.attributes.smoothing = 0.1;
            xent.eps = 16;
            on_devices(&xent, false);
        }
        check_linear_xent(n, k, labels, loss);
        for (int code = TIDE_OP_SIGMOID_XENT; code <= TIDE_OP_SUM_LOSS; code++) {
            struct op_case c = {.what = tide_op_names[code],
                                .code = (enum tide_op_code)code,
                                .in_count = 2,
                                .out_count = 2,
                                .in = {z, z},
                                .out = {loss, z},
                                .eps = 32,
                                .of = OF_ALL};
            on_devices(&c, false);
        }
    }
}

static void labels_outside_their_range_are_refused(void **state) {
    (void)state;
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        float z[8] = {0}, dz[8];
        double loss[3];
        int32_t labels[2] = {3, 4};
        const struct tide_attributes none = {0};
        struct tide_op_call call = {.attributes = &none,
                                    .in = {{z, 2, 4}, {labels, 2, 1}},
                                    .out = {{loss, 1, 3}, {dz, 2, 4}}};
        assert_int_equal(op_call(device, TIDE_OP_XENT, &call), TIDE_EINVAL);
        assert_non_null(strstr(tide_error_message(), "example 2 has label 4, outside 0..3"));
        labels[1] = -2;
        assert_int_equal(op_call(device, TIDE_OP_XENT, &call), TIDE_EINVAL);
        assert_int_equal(
            op_call(device, TIDE_OP_EMBED,
                    &(struct tide_op_call){.attributes = &none,
                                           .in = {{z, 2, 4}, {labels, 2, 1}},
                                           .out = {{dz, 2, 4}}}),
            TIDE_EINVAL);
        assert_non_null(strstr(tide_error_message(), "index 1 is 3, outside 0..1"));
    }
}

/* A row that does not count is left out whatever it holds, and is no NaN in the gradient. */
static void rows_of_weight_0_are_left_out(void **state) {
    (void)state;
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        float z[6] = {NAN, INFINITY, 1, 1, 1, 1}, weights[3] = {0, 2, 1}, dz[6];
        double loss[3];
        int32_t labels[3] = {0, 1, -1};
        const struct tide_attributes smooth = {.smoothing = 0.2};
        struct tide_op_call call = {.attributes = &smooth,
                                    .in = {{z, 3, 2}, {labels, 3, 1}, {weights, 3, 1}},
                                    .out = {{loss, 1, 3}, {dz, 3, 2}}};
        assert_int_equal(op_call(device, TIDE_OP_XENT, &call), 0);
        assert_true(fabs(loss[0] - 2 * log(2)) < 1e-6);
        assert_true(fabs(loss[1] - 2) < 1e-9);
        assert_float_equal(dz[0], 0, 0);
        assert_float_equal(dz[1], 0, 0);
        assert_float_equal(dz[2], 0.8f, 1e-6f);
        assert_float_equal(dz[3], -0.8f, 1e-6f);
        assert_float_equal(dz[4], 0, 0);
    }
}

/* ---- rows and columns ---- */

static void rows_and_columns_agree(void **state) {
    (void)state;
    for (size_t at = 0, n, k; next_shape(&at, &n, &k);) {
        const struct op_shape x = {n, k, 0, 0, 0}, per = {n, 1, 0, 0, 0}, row = {1, k, 0, 0, 0};
        const struct op_shape ids = {n, 1, OP_IDS, 17, 0}, table = {17, k, 0, 0, 0};
        const struct op_shape two = {n, k + 17, 0, 0, 0}, rest = {n, 17, 0, 0, 0};
        const struct op_shape image = {n * 6, k, 0, 0, 0};
        const struct op_shape own = {n, 5, OP_IDS, 6, 0}, some = {n * 5, k, 0, 0, 0};
        const struct op_case cases[] = {
            {"row_sums", TIDE_OP_ROW_SUMS, {0}, 1, 1, {x}, {per}, 4, OF_SUM, false},
            {"column_sums", TIDE_OP_COLUMN_SUMS, {0}, 1, 1, {x}, {row}, 4, OF_SUM, false},
            {"mean_pixels",
             TIDE_OP_MEAN_PIXELS,
             {.group = 6},
             1,
             1,
             {image},
             {x},
             4,
             OF_SUM,
             false},
            {"mean_pixels_dx",
             TIDE_OP_MEAN_PIXELS_DX,
             {.group = 6},
             1,
             1,
             {x},
             {image},
             2,
             0,
             false},
            {"embed", TIDE_OP_EMBED, {0}, 2, 1, {table, ids}, {x}, 0, 0, false},
            {"embed_dw",
             TIDE_OP_EMBED_DW,
             {0},
             2,
             1,
             {x, ids},
             {table},
             (double)n + 2,
             OF_SUM,
             false},
            {"gather", TIDE_OP_EMBED, {.n = 6}, 2, 1, {image, own}, {some}, 0, 0, false},
            {"scatter", TIDE_OP_EMBED_DW, {.n = 6}, 2, 1, {some, own}, {image}, 7, OF_SUM, false},
            {"slice",
             TIDE_OP_SLICE,
             {.first = 9, .count = (uint32_t)k},
             1,
             1,
             {two},
             {x},
             0,
             0,
             false},
            {"slice_dx", TIDE_OP_SLICE_DX, {.first = 9}, 1, 1, {x}, {two}, 0, 0, false},
            {"concat", TIDE_OP_CONCAT, {0}, 2, 1, {x, rest}, {two}, 0, 0, false},
            {"dropout", TIDE_OP_DROPOUT, {.keep = 0.6, .id = 2}, 1, 1, {x}, {x}, 2, 0, false},
        };
        for (size_t c = 0; c < TIDE_COUNT(cases); c++) {
            on_devices(&cases[c], false);
        }
    }
}

struct attention_shape {
    size_t examples;
    uint32_t n, m, heads, kv_heads, d;
};

static void attention_agrees(void **state) {
    (void)state;
    static const struct attention_shape shapes[] = {{0, 3, 3, 1, 1, 4},   {2, 1, 1, 1, 1, 1},    {3, 5, 7, 4, 2, 8},
                                                    {1, 70, 70, 2, 2, 5}, {2, 17, 33, 6, 3, 16}, {1, 9, 4, 2, 1, 64},
#ifndef TIDE_EMULATED
                                                    {1, 130, 1100, 2, 1, 32}
#endif
    };
    for (size_t i = 0; i < 4 * TIDE_COUNT(shapes); i++) {
        const struct attention_shape *s = &shapes[i / 4];
        const struct op_shape q = {s->examples * s->n, s->heads * s->d, 0, 0, 0};
        const struct op_shape k = {s->examples * s->m, s->kv_heads * s->d, 0, 0, 0};
        const struct op_shape sums = {s->examples * s->n, s->heads, 0, 0, true};
        const struct op_shape lengths = {s->examples, 1, OP_IDS, s->m + 1, true};
        const bool cut = i & 2;
        struct op_case c = {.what = "attention",
                            .code = TIDE_OP_ATTENTION,
                            .attributes = {.n = s->n,
                                           .m = s->m,
                                           .heads = s->heads,
                                           .kv_heads = s->kv_heads,
                                           .causal = i & 1,
                                           .alpha = 1 / sqrt(s->d)},
                            .in_count = cut ? 4 : 3,
                            .out_count = 2,
                            .in = {q, k, k, lengths},
                            .out = {q, sums},
                            .eps = 32,
                            .of = OF_ALL};
        on_devices(&c, false);
        struct op_case dx = {.what = "attention_dx",
                             .code = TIDE_OP_ATTENTION_DX,
                             .attributes = c.attributes,
                             .in_count = cut ? 7 : 6,
                             .out_count = 3,
                             .in = {q, k, k, q, q, sums, lengths},
                             .out = {q, k, k},
                             .eps = 256,
                             .of = OF_ALL};
        on_devices(&dx, false);
    }
}

static void sequences_agree(void **state) {
    (void)state;
    static const uint32_t steps[] = {1, 3, 70};
    for (size_t i = 0; i < 4 * TIDE_COUNT(steps); i++) {
        const size_t b = i % 4;
        const uint32_t n = 6, k = steps[i / 4];
        const struct op_shape x = {b * n, k, 0, 0, 0}, one = {b, k, 0, 0, 0}, ids = {b * n, 1, OP_IDS, 4, 0};
        const struct op_shape places = {b * n, 1, OP_IDS, 1000, true}, wide = {b * n, 8 * k, 0, 0, 0};
        const struct op_shape best = {b * n, k < 3 ? 1 : 3, 0, 0, 0}, hot = {b * n, 4, 0, 0, 0};
        const struct op_shape best_ids = {best.rows, best.columns, OP_IDS, 0, 0};
        const struct op_shape turned = {b * 2 * k, 3, 0, 0, 0};
        const struct tide_attributes axis = {.n = n, .k = k}, back = {.n = n, .k = k, .ta = true};
        const struct tide_attributes halves = {.n = n, .k = 8, .rate = 1e4};
        const struct tide_attributes pairs = {.n = n, .k = 8, .rate = 1e4, .ta = true, .tb = true};
        const struct op_case cases[] = {
            {"cumsum", TIDE_OP_CUMSUM, axis, 1, 1, {x}, {x}, 4, OF_SUM, false},
            {"cumsum back", TIDE_OP_CUMSUM, back, 1, 1, {x}, {x}, 4, OF_SUM, false},
            {"expand", TIDE_OP_EXPAND, axis, 1, 1, {one}, {x}, 0, 0, false},
            {"reduce", TIDE_OP_REDUCE, axis, 1, 1, {x}, {one}, 4, OF_SUM, false},
            {"rotary", TIDE_OP_ROTARY, halves, 1, 1, {wide}, {wide}, 8, OF_ALL, false},
            {"rotary of positions", TIDE_OP_ROTARY, pairs, 2, 1, {wide, places}, {wide}, 8, OF_ALL, false},
            {"log_softmax", TIDE_OP_LOG_SOFTMAX, {0}, 1, 1, {x}, {x}, 16, OF_ALL, false},
            {"topk", TIDE_OP_TOPK, {0}, 1, 2, {x}, {best, best_ids}, 0, 0, false},
            {"one_hot", TIDE_OP_ONE_HOT, {.count = 4}, 1, 1, {ids}, {hot}, 0, 0, false},
            {"permute", /* [2, 3, k] -> [k, 2, 3], if rows are seen so */
             TIDE_OP_PERMUTE,
             {.n = 2 | 0 << 2 | 1 << 4, .window = {.h = 2, .w = 3, .c = k}},
             1,
             1,
             {x},
             {turned},
             0,
             0,
             false},
        };
        for (size_t c = 0; c < TIDE_COUNT(cases); c++) {
            on_devices(&cases[c], false);
        }
    }
}

static void ctc_agrees(void **state) {
    (void)state;
    for (size_t examples = 0; examples < 4; examples++) {
        for (uint32_t n = 1; n <= 13; n += 4) {
            const struct op_shape z = {examples * n, 5, 0, 0, 0}, labels = {examples, 3, OP_CLASSES, 4, true};
            const struct op_shape frames = {examples, 1, OP_IDS, n + 1, true}, loss = {1, 3, OP_DOUBLE, 0, 0};
            struct op_case c = {.what = "ctc",
                                .code = TIDE_OP_CTC,
                                .attributes = {.n = n},
                                .in_count = examples % 2 ? 3 : 2,
                                .out_count = 2,
                                .in = {z, labels, frames},
                                .out = {loss, z},
                                .eps = 32,
                                .of = OF_ALL};
            on_devices(&c, false);
        }
    }
}

static void the_largest_are_found_among_nan_and_equals(void **state) {
    (void)state;
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        float x[6] = {1, 3, NAN, 3, -INFINITY, 2}, y[4];
        int32_t ids[4];
        struct tide_op_call call = {.in = {{x, 1, 6}}, .out = {{y, 1, 4}, {ids, 1, 4}}};
        assert_int_equal(op_call(device, TIDE_OP_TOPK, &call), 0);
        const int32_t want[4] = {2, 1, 3, 5};
        assert_memory_equal(ids, want, sizeof(want));
        assert_true(isnan(y[0]) && y[1] >= 3 && y[2] >= 3 && y[3] <= 2);
    }
}

/* A column of a wider array, one number a row. */
static void a_region_reads_a_column_of_a_wider_array(void **state) {
    (void)state;
    enum { N = 200, WIDE = 5 };
    struct tide_attributes attributes = {.region = {.source_count = 2,
                                                    .micro_count = 1,
                                                    .out_count = 1,
                                                    .kind = {TIDE_SOURCE_FULL, TIDE_SOURCE_COLUMN},
                                                    .micro = {{TIDE_MICRO_MUL, 0, 1, 0}},
                                                    .out = {2}}};
    for (size_t w = 1; w <= 40; w += 39) {
        float *x = malloc(N * w * sizeof(float)), *y = malloc(N * w * sizeof(float)), column[N * WIDE];
        double *x64 = malloc(N * w * sizeof(double)), *y64 = malloc(N * w * sizeof(double)), column64[N * WIDE];
        for (size_t e = 0; e < N * w; e++) {
            x64[e] = (double)(x[e] = (float)(e % 7) + 1.0f);
        }
        for (size_t e = 0; e < N * WIDE; e++) {
            column64[e] = (double)(column[e] = (float)e);
        }
        struct tide_op_call call = {.attributes = &attributes,
                                    .in = {{.data = x64, .rows = N, .columns = w},
                                           {.data = column64 + 3, .rows = N, .columns = 1, .stride = WIDE}},
                                    .out = {{.data = y64, .rows = N, .columns = w}}};
        assert_int_equal(tide_device_find("reference")->functions[TIDE_OP_MAP](&call), 0);
        call.in[0].data = x;
        call.in[1].data = column + 3;
        call.out[0].data = y;
        const struct tide_device *device;
        for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
            memset(y, 0xff, N * w * sizeof(float));
            assert_int_equal(op_call(device, TIDE_OP_MAP, &call), 0);
            for (size_t e = 0; e < N * w; e++) {
                const float wanted = x[e] * column[e / w * WIDE + 3];
                if (!(fabsf(y[e] - wanted) <= 0) || !(fabs(y64[e] - (double)wanted) <= 0)) {
                    fail_msg("%s, width %zu, element %zu: %g, not %g", device->name, w, e, (double)y[e],
                             (double)wanted);
                }
            }
        }
        free(x);
        free(y);
        free(x64);
        free(y64);
    }
}

/* Rows of lists: with -1, without any, long ones, a row listed twice; dense and with strides. */
static void rows_of_lists_agree(void **state) {
    (void)state;
    int32_t rows[] = {3, -1, 0, 5, 5, 2, 1};
    int32_t starts[] = {0, 0, 1, 3, 3, 8, 40, 42};
    int32_t dx_starts[] = {0, 2, 2, 3, 5, 5, 6, 7};
    int32_t dx_rows[] = {0, 4, 4, 1, 5, 5, 3};
    enum { N = 7, MOST = 45 };
    for (size_t w = 1; w <= 70; w += 23) {
        for (size_t stride = w; stride <= w + 5; stride += 5) {
            float *x = malloc(8 * stride * sizeof(float)), *y = malloc(N * stride * sizeof(float));
            double *x64 = malloc(8 * stride * sizeof(double)),
                   *y64 = malloc(N * stride * sizeof(double));
            int32_t *winners[2] = {malloc(8 * w * sizeof(int32_t)), malloc(8 * w * sizeof(int32_t))};
            int32_t list[MOST], other[8 * 70];
            for (size_t e = 0; e < 8 * stride; e++) {
                x64[e] = (double)(x[e] = (float)((int)(e * 2654435761u >> 20) % 64) / 8.0f);
            }
            for (size_t k = 0; k < MOST; k++) {
                list[k] = (int32_t)(k * 5 % 8);
            }
            for (size_t e = 0; e < 8 * w; e++) {
                other[e] = (int32_t)(e % N);
            }
            for (enum tide_op_code code = TIDE_OP_GATHER; code <= TIDE_OP_GATHER_MAX_DX; code++) {
                bool dx = code == TIDE_OP_GATHER_MAX_DX;
                struct tide_op_call call = {
                    .in = {{.data = x64, .rows = 8, .columns = w, .stride = stride},
                           {.data = code == TIDE_OP_GATHER ? rows : starts,
                            .rows = N + (code != TIDE_OP_GATHER), .columns = 1},
                           {.data = list, .rows = MOST, .columns = 1}},
                    .out = {{.data = y64, .rows = N, .columns = w, .stride = stride},
                            {.data = winners[0], .rows = N, .columns = w}}};
                if (code == TIDE_OP_GATHER) {
                    call.in[2].data = NULL;
                }
                if (code != TIDE_OP_GATHER_MAX) {
                    call.out[1].data = NULL;
                }
                if (dx) {
                    call.in[1] = (struct tide_operand){.data = other, .rows = 8, .columns = w};
                    call.in[2] = (struct tide_operand){
                        .data = dx_starts, .rows = N + 1, .columns = 1};
                    call.in[3] = (struct tide_operand){
                        .data = dx_rows, .rows = N, .columns = 1};
                }
                assert_int_equal(tide_device_find("reference")->functions[code](&call), 0);
                call.in[0].data = x;
                call.out[0].data = y;
                call.out[1].data = code == TIDE_OP_GATHER_MAX ? winners[1] : NULL;
                const struct tide_device *device;
                for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
                    memset(y, 0xff, N * stride * sizeof(float));
                    assert_int_equal(op_call(device, code, &call), 0);
                    for (size_t e = 0; e < N * w; e++) {
                        size_t at = e / w * stride + e % w;
                        if (!(fabs((double)y[at] - y64[at]) <= 1e-5 * (1 + fabs(y64[at])))) {
                            fail_msg("%s on %s, width %zu, element %zu: %g, not %g",
                                     tide_op_names[code], device->name, w, e, (double)y[at],
                                     y64[at]);
                        }
                    }
                    if (code == TIDE_OP_GATHER_MAX) {
                        assert_memory_equal(winners[0], winners[1], N * w * sizeof(int32_t));
                    }
                }
            }
            free(x);
            free(y);
            free(x64);
            free(y64);
            free(winners[0]);
            free(winners[1]);
        }
    }
}

static void dropout_keeps_the_share_it_is_told(void **state) {
    (void)state;
    enum { N = 100000 };
    float *x = malloc(N * sizeof(float)), *y = malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) {
        x[i] = 1;
    }
    struct tide_attributes attributes = {.keep = 0.75, .id = 1};
    size_t kept[2] = {0, 0}, both = 0;
    for (uint64_t step = 0; step < 2; step++) {
        struct tide_op_call call = {.attributes = &attributes,
                                    .in = {{x, N, 1}},
                                    .out = {{y, N, 1}},
                                    .seed = 9,
                                    .step = step};
        assert_int_equal(op_call(op_device(0), TIDE_OP_DROPOUT, &call), 0);
        for (size_t i = 0; i < N; i++) {
            kept[step] += y[i] > 0;
            both += step == 1 && y[i] > 0 && x[i] > 1;
            x[i] = y[i] > 0 ? 2 : 1;
        }
    }
    assert_in_range(kept[0], 74000, 76000);
    assert_in_range(kept[1], 74000, 76000);
    assert_in_range(both, 55000, 57500); /* another mask at each step: 0.75^2 */
    free(x);
    free(y);
}

/* ---- update rules ---- */

static void update_rules_agree(void **state) {
    (void)state;
    enum { N = 1003 };
    const struct tide_device *reference = tide_device_find("reference");
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        for (int rule = 0; rule < TIDE_RULE_COUNT; rule++) {
            float w[N], g[N], a[N] = {0}, b[N] = {0};
            static double rw[N], rg[N], ra[N], rb[N];
            struct tide_random random;
            tide_random_seed(&random, 3);
            for (size_t i = 0; i < N; i++) {
                w[i] = (float)tide_random_uniform(&random);
                rw[i] = (double)w[i];
                ra[i] = rb[i] = 0;
            }
            for (uint64_t step = 1; step <= 5; step++) {
                struct tide_step u = {
                    (enum tide_rule)rule, 0.05, 0.25, 0.01, 0.9, 0.99, 1e-8, step};
                for (size_t i = 0; i < N; i++) {
                    g[i] = (float)(tide_random_uniform(&random) - 0.5);
                    rg[i] = (double)g[i];
                }
                op_update(device, &u, N, w, g, a, b);
                reference->update(&u, N, rw, rg, ra, rb);
            }
            for (size_t i = 0; i < N; i++) {
                if (!(fabs((double)w[i] - rw[i]) < 2e-5)) {
                    fail_msg("rule %d on %s at %zu: %.9g, not %.9g", rule, device->name, i,
                             (double)w[i], rw[i]);
                }
            }
        }
    }
}

static void norms_add_up(void **state) {
    (void)state;
    float x[5000];
    for (size_t i = 0; i < TIDE_COUNT(x); i++) {
        x[i] = (float)(i % 7);
    }
    double want = 0;
    for (size_t i = 0; i < TIDE_COUNT(x); i++) {
        want += (double)(x[i] * x[i]);
    }
    const struct tide_device *device;
    for (size_t d = 0; (device = op_device(d)) != NULL; d++) {
        assert_true(fabs(op_norm2(device, TIDE_COUNT(x), x) - want) < 1e-6 * want);
        x[17] = NAN;
        assert_true(isnan(op_norm2(device, TIDE_COUNT(x), x)));
        x[17] = 17 % 7;
    }
}

static void unknown_devices_are_not_found(void **state) {
    (void)state;
    assert_null(tide_device_find("abacus"));
    assert_non_null(tide_device_find("cpu"));
    assert_string_equal(tide_device_find("cpu-plain")->name, "cpu-plain");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_operations_are_within_4_ulp),
        cmocka_unit_test(regions_broadcast_rows_columns_and_constants),
        cmocka_unit_test(a_region_may_write_over_its_source),
        cmocka_unit_test(products_agree),
        cmocka_unit_test(convolutions_agree),
        cmocka_unit_test(pools_agree),
        cmocka_unit_test(normalisations_agree),
        cmocka_unit_test(batch_norm_moves_the_running_statistics),
        cmocka_unit_test(linear_xent_goes_by_chunks),
        cmocka_unit_test(softmax_and_losses_agree),
        cmocka_unit_test(labels_outside_their_range_are_refused),
        cmocka_unit_test(rows_of_weight_0_are_left_out),
        cmocka_unit_test(rows_and_columns_agree),
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(sequences_agree),
        cmocka_unit_test(ctc_agrees),
        cmocka_unit_test(the_largest_are_found_among_nan_and_equals),
        cmocka_unit_test(a_region_reads_a_column_of_a_wider_array),
        cmocka_unit_test(rows_of_lists_agree),
        cmocka_unit_test(dropout_keeps_the_share_it_is_told),
        cmocka_unit_test(update_rules_agree),
        cmocka_unit_test(norms_add_up),
        cmocka_unit_test(unknown_devices_are_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
