/* Programs as objects: errors, events, layout, memory, evaluation, texts. */
#include "graph_world.h"

#include <pthread.h>

/* ---- allocations are counted: the linker puts these before base.h's (tests/CMakeLists.txt) ----
 */

static atomic_uint_fast64_t allocations; /* threads of a test allocate too */
void *__real_tide_alloc(size_t size);
void *__real_tide_alloc_zero(size_t count, size_t size);
void *__real_tide_alloc_aligned(size_t alignment, size_t size);
void *__real_tide_realloc(void *memory, size_t size);
void *__wrap_tide_alloc(size_t size);
void *__wrap_tide_alloc_zero(size_t count, size_t size);
void *__wrap_tide_alloc_aligned(size_t alignment, size_t size);
void *__wrap_tide_realloc(void *memory, size_t size);

void *__wrap_tide_alloc(size_t size) {
    allocations++;
    return __real_tide_alloc(size);
}

void *__wrap_tide_alloc_zero(size_t count, size_t size) {
    allocations++;
    return __real_tide_alloc_zero(count, size);
}

void *__wrap_tide_alloc_aligned(size_t alignment, size_t size) {
    allocations++;
    return __real_tide_alloc_aligned(alignment, size);
}

void *__wrap_tide_realloc(void *memory, size_t size) {
    allocations++;
    return __real_tide_realloc(memory, size);
}

/* ---- errors ---- */

static void refused(int code, const char *expected) {
    assert_int_equal(code, TIDE_EINVAL);
    if (!strstr(tide_error_message(), expected)) {
        fail_msg("\"%s\" is not in \"%s\"", expected, tide_error_message());
    }
}

static int try2(enum tide_op_code code, uint32_t a, uint32_t b, struct tide_attributes t) {
    uint32_t out;
    return tide_program_apply(p, code, (uint32_t[]){a, b}, 2, &t, &out);
}

static int try1(enum tide_op_code code, uint32_t a, struct tide_attributes t) {
    uint32_t out;
    return tide_program_apply(p, code, &a, 1, &t, &out);
}

static int try_map(uint32_t a, uint32_t b) {
    uint32_t out;
    return tide_program_map(p, TIDE_MICRO_ADD, (uint32_t[]){a, b}, (double[]){0, 0}, &out);
}

static void shape_errors_name_layer_shapes_and_line(void **cmocka_state) {
    (void)cmocka_state;
    const struct tide_attributes none = {0};
    uint32_t out, dims[2] = {3, 0};
    begin("wrong");
    layer("input", "in", "net.lua:1");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 1568, 0, 0),
             image = input("i", TIDE_VALUE_FLOAT, 3, 8, 8, 3);
    uint32_t y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    layer("relu", "act", "net.lua:8");
    uint32_t h = map2(TIDE_MICRO_RELU, x, TIDE_NO_VALUE);
    layer("linear", "fc1", "net.lua:9");
    uint32_t w = parameter("w", 2, 1600, 256, zero), v = parameter("v", 1, 7, 0, zero);
    refused(
        try2(TIDE_OP_MM, h, w, none),
        "net.lua:9: linear \"fc1\": mm of [B x 1568], w [1600 x 256]: 1568 and 1600 must be equal "
        "(the first comes from relu at net.lua:8)");
    refused(try2(TIDE_OP_MM, w, x, none), "the right operand must be of constant size");
    refused(try2(TIDE_OP_MM, v, w, none), "a product needs matrices");
    refused(try2(TIDE_OP_MM, x, y, none), "operand 2 does not hold real numbers");
    refused(try2(TIDE_OP_BMM, x, x, none), "pairs of matrices need the same leading dims");
    refused(try_map(x, v), "add of x [B x 1568], v [7]: the shapes must be equal");
    refused(try_map(x, y), "does not hold real numbers");
    refused(try_map(TIDE_NO_VALUE, TIDE_NO_VALUE), "of constants alone");
    refused(try2(TIDE_OP_CONV, x, w, window(3, 1, 1)),
            "images are [B x height x width x channels]");
    refused(try2(TIDE_OP_CONV, image, w, window(3, 1, 1)),
            "the weight's rows must be 3 x 3 x 3 = 27");
    refused(try2(TIDE_OP_CONV, image, w, window(3, 0, 1)), "a window of 3 x 3 with stride 0");
    refused(try2(TIDE_OP_CONV, image, w, window(3, 1, 3)), "3 of padding is not possible");
    refused(try1(TIDE_OP_MAXPOOL, image, window(9, 1, 0)),
            "the window of 9 x 9 is larger than the image");
    refused(try1(TIDE_OP_MAXPOOL, image, window(16, 1, 8)), "is not possible");
    refused(try1(TIDE_OP_MEAN_PIXELS, x, none), "images are");
    refused(try1(TIDE_OP_SLICE, x, (struct tide_attributes){.first = 1560, .count = 9}),
            "columns 1561 .. 1569 are outside of it");
    refused(try1(TIDE_OP_ROW_SUMS, y, none), "does not hold real numbers");
    refused(try2(TIDE_OP_CONCAT, x, image, none), "all dims but the last must be equal");
    refused(try2(TIDE_OP_XENT, x, x, none), "the second operand must be an index, one label a row");
    refused(try2(TIDE_OP_MSE, x, image, none), "values and targets must have one shape");
    refused(try2(TIDE_OP_EMBED, v, y, none),
            "an embedding needs a table [rows x width] and an index");
    refused(try1(TIDE_OP_DROPOUT, x, none), "the share that is kept must be above 0");
    refused(try1(TIDE_OP_BATCHNORM, x, none), "batchnorm takes 5 operands, not 1");
    refused(try1(TIDE_OP_SOFTMAX, 999, none), "operand 1 is no value of this program");
    refused(tide_program_reshape(p, x, 1, dims, &out), "another number of elements");
    refused(tide_program_input(p, "x", TIDE_VALUE_FLOAT, 1, dims, &out),
            "two values are named \"x\"");
    refused(tide_program_parameter(p, "z", 2, dims, zero, &out), "\"z\": dim 2 is 0");
    refused(tide_program_parameter(p, "z", 0, dims, zero, &out), "needs at least one dim");
    refused(tide_program_differentiate(p, false), "the program has no loss");
    op1(TIDE_OP_SUM_LOSS, map2(TIDE_MICRO_SQR, x, TIDE_NO_VALUE));
    expect(tide_program_differentiate(p, false));
    refused(tide_program_differentiate(p, false), "is differentiated already");
    refused(tide_program_input(p, "late", TIDE_VALUE_FLOAT, 1, dims, &out), "comes too late");
    tide_program_destroy(p);
}

static void what_is_missing_at_run_time_is_named(void **cmocka_state) {
    (void)cmocka_state;
    begin("run");
    layer("linear", "fc", "net.lua:3");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, 4, 0, 0),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    op2(TIDE_OP_XENT, op2(TIDE_OP_MM, x, parameter("w", 2, 4, 3, uniform)), y);
    expect(tide_program_differentiate(p, false));
    struct work w = start("cpu", (struct tide_plan_options){0});
    float rows[8] = {0};
    int32_t labels[2] = {0, 3};
    refused(tide_run_bind(w.run, "w", rows), "program run has no input \"w\"");
    expect(tide_run_bind(w.run, "x", rows));
    refused(tide_run_step(w.run, 2, 0, NULL), "input \"y\" is not bound");
    expect(tide_run_bind(w.run, "y", labels));
    refused(tide_run_step(w.run, 2, 0, NULL), "net.lua:3: example 2 has label 3, outside 0..2");
    labels[1] = -1;
    expect(tide_run_step(w.run, 2, 0, NULL));
    assert_float_equal(tide_run_loss(w.run).count, 1, 0); /* label -1 does not count */
    expect(tide_run_step(w.run, 0, 0, NULL));             /* nor does an empty batch harm */
    assert_float_equal(tide_run_loss(w.run).count, 0, 0);
    stop(&w);
    tide_program_destroy(p);
}

/* ---- events, memory, evaluation ---- */

struct seen {
    char text[200];
    int fail_at; /* the event that is refused; 0: none */
    int count;
};

static int on_need(void *arg, uint32_t l) {
    struct seen *s = arg;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, "need %s, ", tide_program_layer_at(p, l).name);
    return ++s->count == s->fail_at ? TIDE_ECANCELED : 0;
}

static int on_ready(void *arg, uint32_t l) {
    struct seen *s = arg;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, "ready %s, ",
             tide_program_layer_at(p, l).name);
    return ++s->count == s->fail_at ? TIDE_ECANCELED : 0;
}

static void small_net(void) {
    begin("small");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 3, 8, 8, 1),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    layer("conv", "conv1", "");
    uint32_t z = batchnorm(conv(x, parameter("k", 2, 9, 16, uniform), 3, 1), "n", 16);
    layer("linear", "fc1", "");
    z = map2(TIDE_MICRO_TANH, dense(flat(z, 1024), "w1", "b1", 1024, 32), TIDE_NO_VALUE);
    z = apply(TIDE_OP_DROPOUT, 1, &z, (struct tide_attributes){.keep = 0.5});
    layer("linear", "fc2", "");
    z = dense(z, "w2", "b2", 32, 5);
    expect(tide_program_output(p, "logits", z));
    op2(TIDE_OP_XENT, z, y);
    expect(tide_program_differentiate(p, false));
}

/* Inputs and labels for it. */
static struct batch small_batch(uint32_t rows) {
    struct batch b = {.rows = rows};
    add_input(&b, "x", false, 64);
    add_input(&b, "y", true, 1);
    return b;
}

static void layers_are_needed_upwards_and_ready_downwards(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    struct work w = start("cpu", (struct tide_plan_options){0});
    struct batch b = small_batch(4);
    bind(&w, &b);
    struct seen seen = {.text = ""};
    struct tide_run_hooks hooks = {.arg = &seen, .need = on_need, .ready = on_ready};
    expect(tide_run_step(w.run, 4, 0, &hooks));
    assert_string_equal(seen.text,
                        "need conv1, need fc1, need fc2, ready fc2, ready fc1, ready conv1, ");
    seen = (struct seen){.fail_at = 4};
    assert_int_equal(tide_run_step(w.run, 4, 0, &hooks), TIDE_ECANCELED);
    assert_string_equal(seen.text, "need conv1, need fc1, need fc2, ready fc2, ");
    stop(&w);
    release(&b);
    tide_program_destroy(p);
}

static int on_work(void *arg, struct tide_work work) {
    struct tide_work *sum = arg;
    sum->flops += work.flops;
    sum->bytes += work.bytes;
    return 0;
}

/* Products and convolutions of four rows, by hand; the rest of the net comes on top, and is little. */
static void the_work_of_a_step_is_counted(void **cmocka_state) {
    (void)cmocka_state;
    struct tide_op_call call = {.attributes = &(struct tide_attributes){.ta = true},
                                .in = {{NULL, 7, 3}, {NULL, 7, 5}},
                                .out = {{NULL, 3, 5}}};
    struct tide_work work = tide_op_work(TIDE_OP_MM, &call, 4);
    assert_float_equal(work.flops, 2 * 7 * 3 * 5, 0);
    assert_float_equal(work.bytes, 4 * (7 * 3 + 7 * 5 + 3 * 5), 0);
    call.accumulate = true; /* what is added to is read, too */
    assert_float_equal(tide_op_work(TIDE_OP_MM, &call, 4).bytes, work.bytes + 4 * 3 * 5, 0);
    work = tide_update_work(TIDE_RULE_MOMENTUM, 10, 4);
    assert_float_equal(work.bytes, 5 * 10 * 4, 0);
    small_net();
    struct work w = start("cpu", (struct tide_plan_options){0});
    struct batch b = small_batch(4);
    bind(&w, &b);
    struct tide_work sum = {0, 0};
    struct tide_run_hooks hooks = {.arg = &sum, .work = on_work};
    expect(tide_run_step(w.run, 4, 0, &hooks));
    double products = 2 * (2. * 4 * 64 * 16 * 9) + 3 * (2. * 4 * 1024 * 32) + 3 * (2. * 4 * 32 * 5);
    assert_true(sum.flops > products && sum.flops < 1.2 * products);
    assert_true(sum.bytes > 4. * 1024 * 32 * 4 && sum.bytes < 4. * 1024 * 32 * 4 * 3);
    stop(&w);
    release(&b);
    tide_program_destroy(p);
}

struct factors {
    float sum[1024 * 32];
    size_t parameter, calls;
};

static int on_factors(void *arg, size_t index, const struct tide_operand *a,
                      const struct tide_operand *b) {
    struct factors *f = arg;
    f->parameter = index;
    f->calls++;
    assert_true(a->rows == 4 && b->rows == 4 && a->columns == 1024 && b->columns == 32);
    for (size_t k = 0; k < a->rows; k++) {
        for (size_t e = 0; e < (size_t)1024 * 32; e++) {
            f->sum[e] += ((const float *)a->data)[k * 1024 + e / 32] *
                         ((const float *)b->data)[k * 32 + e % 32];
        }
    }
    return 0;
}

static void a_gradient_is_offered_as_factors_instead(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    struct work w = start("cpu", (struct tide_plan_options){0});
    struct batch b = small_batch(4);
    bind(&w, &b);
    expect(tide_run_step(w.run, 4, 0, NULL));
    const struct tide_parameter_place place = find("w1");
    float *own = (float *)w.gradients + place.first;
    float *plain = malloc(place.count * sizeof(float));
    memcpy(plain, own, place.count * sizeof(float));
    memset(own, 0, place.count * sizeof(float));
    struct factors *f = calloc(1, sizeof(*f));
    struct tide_run_hooks hooks = {.arg = f, .factors = on_factors};
    for (size_t i = 0; i < tide_program_parameter_count(p); i++) {
        if (tide_program_parameter_at(p, i).first == place.first) {
            expect(tide_run_offer_factors(w.run, i, true));
        }
    }
    expect(tide_run_step(w.run, 4, 0, &hooks));
    assert_int_equal(f->calls, 1);
    assert_string_equal(tide_program_parameter_at(p, f->parameter).name, "w1");
    for (size_t e = 0; e < place.count; e++) {
        assert_true(fabsf(own[e]) <= 0); /* the product was not made */
        assert_true(fabsf(f->sum[e] - plain[e]) <= 1e-5f);
    }
    assert_int_equal(tide_run_offer_factors(w.run, 0, true), TIDE_EUNSUPPORTED); /* a convolution */
    free(plain);
    free(f);
    stop(&w);
    release(&b);
    tide_program_destroy(p);
}

/* A layer is a range of keys: matrix first, its vectors behind, the next layer at a new key. */
static void parameters_of_a_layer_lie_together(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    assert_int_equal(tide_program_layer_count(p), 3);
    size_t key = 0;
    for (size_t l = 0; l < 3; l++) {
        struct tide_layer_place place = tide_program_layer_at(p, l);
        assert_int_equal(place.first_key, key);
        key += place.key_count;
    }
    assert_int_equal(key, tide_program_parameter_keys(p));
    assert_int_equal(tide_program_layer_at(p, 1).key_count, 33); /* 1024 x 32 and 32 */
    assert_int_equal(find("w1").first, 1024);
    assert_int_equal(find("b1").first, 1024 + 1024 * 32);
    assert_int_equal(find("k").first, 0);
    tide_program_destroy(p);
}

static void a_step_of_a_size_seen_before_allocates_nothing(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    struct work w = start("cpu", (struct tide_plan_options){0});
    struct batch b = small_batch(16);
    bind(&w, &b);
    expect(tide_run_step(w.run, 16, 0, NULL));
    struct tide_plan_figures f = tide_plan_figures(w.plan);
    size_t bytes = tide_run_arena_bytes(w.run);
    assert_int_equal(bytes, 16 * f.row_bytes + f.fixed_bytes + 64); /* and what the input's place may be aligned by */
    assert_true(f.row_bytes < f.row_bytes_without_reuse);
    uint64_t before = allocations;
    assert_true(before > 0);
    for (size_t rows = 16; rows > 0; rows--) {
        expect(tide_run_step(w.run, rows, rows, NULL));
    }
    assert_int_equal(allocations, before);
    assert_int_equal(tide_run_arena_bytes(w.run), bytes);
    stop(&w);
    release(&b);
    tide_program_destroy(p);
}

static void evaluation_neither_drops_nor_moves_statistics(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    struct work w = start("cpu", (struct tide_plan_options){.kind = TIDE_PLAN_EVALUATE});
    struct work t = start("cpu", (struct tide_plan_options){0});
    struct batch b = small_batch(6);
    bind(&w, &b);
    bind(&t, &b);
    size_t elements = tide_program_state_elements(p), rows, columns;
    float *before = malloc(elements * sizeof(float));
    memcpy(before, w.states, elements * sizeof(float));
    double first = loss_at(&w, &b);
    float logits[30];
    const float *out = tide_run_output(w.run, "logits", &rows, &columns);
    assert_true(rows == 6 && columns == 5);
    memcpy(logits, out, sizeof(logits));
    double second = loss_at(&w, &b);
    assert_true(first <= second && first >= second);
    assert_memory_equal(logits, tide_run_output(w.run, "logits", &rows, &columns), sizeof(logits));
    assert_memory_equal(before, w.states, elements * sizeof(float));
    double trained = loss_at(&t, &b);
    assert_true(fabs(trained - first) > 1e-3); /* dropout and batch statistics make a difference */
    assert_memory_not_equal(before, t.states, elements * sizeof(float));
    struct tide_plan_figures f = tide_plan_figures(w.plan), g = tide_plan_figures(t.plan);
    assert_true(f.operations * 2 < g.operations);
    free(before);
    stop(&w);
    stop(&t);
    release(&b);
    tide_program_destroy(p);
}

struct runner {
    struct work w;
    const struct batch *b;
    double loss;
};

static void *run_steps(void *arg) {
    struct runner *r = arg;
    for (size_t step = 0; step < 20; step++) {
        expect(tide_run_step(r->w.run, r->b->rows, step, NULL));
        struct tide_step u = {.rule = TIDE_RULE_SGD, .rate = 0.1, .scale = 0.1};
        r->w.device->update(&u, r->w.elements, r->w.parameters, r->w.gradients, NULL, NULL);
    }
    r->loss = tide_run_loss(r->w.run).sum;
    return NULL;
}

/* Runs of one plan share nothing that is written: threads give what one after the other gives. */
static void a_plan_serves_several_threads(void **cmocka_state) {
    (void)cmocka_state;
    small_net();
    struct runner r[3];
    struct batch b = small_batch(4);
    struct tide_plan *own[3];
    for (size_t i = 0; i < 3; i++) {
        r[i] = (struct runner){start("cpu", (struct tide_plan_options){0}), &b, 0};
        own[i] = r[i].w.plan;
        tide_run_destroy(r[i].w.run);
        expect(tide_run_create(r[0].w.plan, 42, &r[i].w.run));
        tide_run_bind_parameters(r[i].w.run, r[i].w.parameters, r[i].w.gradients, r[i].w.states);
        bind(&r[i].w, &b);
    }
    (void)run_steps(&r[2]);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_steps, &r[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_true(r[i].loss <= r[2].loss && r[i].loss >= r[2].loss);
        assert_memory_equal(r[i].w.parameters, r[2].w.parameters, r[i].w.elements * sizeof(float));
    }
    for (size_t i = 3; i-- > 0;) {
        r[i].w.plan = own[i];
        stop(&r[i].w);
    }
    release(&b);
    tide_program_destroy(p);
}

static void programs_are_printed_and_known_by_what_they_compute(void **cmocka_state) {
    (void)cmocka_state;
    uint64_t ids[2];
    char *text = NULL, *dot = NULL, *plan_text = NULL;
    for (int i = 0; i < 2; i++) {
        small_net();
        ids[i] = tide_program_id(p);
        if (i == 0) {
            tide_program_destroy(p);
        }
    }
    assert_true(ids[0] == ids[1]);
    expect(tide_program_print(p, &text));
    assert_non_null(
        strstr(text, "[B x 8 x 8 x 16] = conv(x [B x 8 x 8 x 1], k [9 x 16])  -- conv1"));
    assert_non_null(strstr(text, "backward\n"));
    expect(tide_program_dot(p, &dot));
    assert_non_null(strstr(dot, "digraph \"small\""));
    struct work w = start("cpu", (struct tide_plan_options){0});
    expect(tide_plan_explain(w.plan, &plan_text));
    assert_non_null(strstr(plan_text, "  ready fc2\n"));
    tide_free(text);
    tide_free(dot);
    tide_free(plan_text);
    stop(&w);
    tide_program_destroy(p);
    begin("small");
    (void)input("x", TIDE_VALUE_FLOAT, 3, 8, 8, 1);
    assert_true(tide_program_id(p) != ids[0]);
    tide_program_destroy(p);
}

static void initial_values_depend_on_seed_name_and_index_alone(void **cmocka_state) {
    (void)cmocka_state;
    static float a[1024], c[1024];
    static double d[1024];
    begin("initial");
    parameter("u", 1, 500, 0, uniform);
    parameter("n", 1, 500, 0, (struct tide_initial){TIDE_INITIAL_NORMAL, 2});
    tide_program_initialise(p, 3, sizeof(float), a, c);
    tide_program_initialise(p, 3, sizeof(double), d, c);
    double mean = 0, square = 0, most = 0;
    for (size_t i = 0; i < 500; i++) {
        assert_true(fabs((double)a[i] - d[i]) <= 0 && fabs(d[i]) <= 0.5);
        most = fabs(d[i]) > most ? fabs(d[i]) : most;
        mean += d[512 + i] / 500;
        square += d[512 + i] * d[512 + i] / 500;
    }
    assert_true(most > 0.49 && fabs(mean) < 0.3 && square > 3.2 && square < 4.8);
    tide_program_initialise(p, 4, sizeof(float), c, c);
    assert_memory_not_equal(a, c, 500 * sizeof(float));
    tide_program_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_errors_name_layer_shapes_and_line),
        cmocka_unit_test(what_is_missing_at_run_time_is_named),
        cmocka_unit_test(layers_are_needed_upwards_and_ready_downwards),
        cmocka_unit_test(the_work_of_a_step_is_counted),
        cmocka_unit_test(a_gradient_is_offered_as_factors_instead),
        cmocka_unit_test(parameters_of_a_layer_lie_together),
        cmocka_unit_test(a_step_of_a_size_seen_before_allocates_nothing),
        cmocka_unit_test(evaluation_neither_drops_nor_moves_statistics),
        cmocka_unit_test(a_plan_serves_several_threads),
        cmocka_unit_test(programs_are_printed_and_known_by_what_they_compute),
        cmocka_unit_test(initial_values_depend_on_seed_name_and_index_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
