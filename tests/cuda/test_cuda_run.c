/* Runs on a device with memory of its own, on the emulation or (TIDE_ON_GPU) a GPU: what travels when, in which order, and
 * what is said when something is wrong. And that the emulation sees the mistakes it is there for.
 */
#ifdef TIDE_EMULATED
#include "cuda/emulate.h"
#include "cuda/planted.h"
#endif
#include "graph_world.h"

enum { LAYERS = 40, WIDTH = 6, ROWS = 5 }; /* more layers than notices that are kept */

static void deep_net(void) {
    char name[3][16];
    begin("deep");
    uint32_t x = input("x", TIDE_VALUE_FLOAT, 1, WIDTH, 0, 0),
             y = input("y", TIDE_VALUE_INDEX, 0, 0, 0, 0);
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name[0], sizeof(name[0]), "fc%d", i);
        snprintf(name[1], sizeof(name[1]), "w%d", i);
        snprintf(name[2], sizeof(name[2]), "b%d", i);
        layer("linear", name[0], "deep.lua:7");
        uint32_t z = op2(TIDE_OP_MM, x, parameter(name[1], 2, WIDTH, WIDTH, uniform));
        x = map2(TIDE_MICRO_TANH, map2(TIDE_MICRO_ADD, z, parameter(name[2], 1, WIDTH, 0, one)),
                 TIDE_NO_VALUE);
    }
    expect(tide_program_output(p, "last", x));
    op2(TIDE_OP_XENT, x, y);
    expect(tide_program_differentiate(p, false));
}

static struct batch deep_batch(struct work *w) {
    struct batch b = {.rows = ROWS};
    add_input(&b, "x", false, WIDTH);
    add_input(&b, "y", true, 1);
    bind(w, &b);
    return b;
}

/* ---- events ---- */

struct seen {
    struct work *w;
    uint32_t needed[LAYERS], ready[LAYERS];
    size_t need_count, ready_count, factor_count;
    size_t fail_at; /* of the readies; SIZE_MAX: none */
    float gradients[LAYERS], factors[LAYERS];
};

/* The layer's parameters arrive now, and not before. */
static int on_need(void *arg, uint32_t l) {
    struct seen *s = arg;
    struct tide_layer_place place = tide_program_layer_at(p, l);
    float *w = (float *)s->w->parameters + place.first_key * TIDE_PARAMETER_KEY;
    for (size_t e = 0; e < (size_t)WIDTH * WIDTH; e++) {
        w[e] = 0.1f * (float)((e * 7 + l) % 11) - 0.4f;
    }
    s->needed[s->need_count++] = l;
    return 0;
}

static int on_ready(void *arg, uint32_t l) {
    struct seen *s = arg;
    struct tide_layer_place place = tide_program_layer_at(p, l);
    const float *g = (float *)s->w->gradients + place.first_key * TIDE_PARAMETER_KEY;
    for (size_t e = 0; e < (size_t)WIDTH * WIDTH; e++) {
        s->gradients[l] += g[e] * (float)(e + 1);
    }
    s->ready[s->ready_count] = l;
    return s->ready_count++ == s->fail_at ? TIDE_ECANCELED : 0;
}

static int on_factors(void *arg, size_t parameter, const struct tide_operand *a,
                      const struct tide_operand *b) {
    struct seen *s = arg;
    uint32_t l = tide_program_parameter_at(p, parameter).layer;
    assert_true(a->rows == ROWS && b->rows == ROWS && a->columns == WIDTH && b->columns == WIDTH);
    for (size_t k = 0; k < ROWS; k++) {
        for (size_t e = 0; e < (size_t)WIDTH * WIDTH; e++) {
            s->factors[l] += (float)(e + 1) * ((const float *)a->data)[k * WIDTH + e / WIDTH] *
                             ((const float *)b->data)[k * WIDTH + e % WIDTH];
        }
    }
    s->factor_count++;
    return 0;
}

/* One step, parameters and gradients by way of the host. */
static struct seen staged_step(const char *device, bool factors) {
    struct work w = start(device, (struct tide_plan_options){0});
    struct batch b = deep_batch(&w);
    struct seen seen = {.w = &w, .fail_at = SIZE_MAX};
    struct tide_run_hooks hooks = {
        .arg = &seen, .need = on_need, .ready = on_ready, .factors = on_factors};
    tide_run_stage(w.run, w.parameters, w.gradients);
    for (size_t i = 0; factors && i < tide_program_parameter_count(p); i++) {
        if (tide_program_parameter_at(p, i).rows > 1) {
            expect(tide_run_offer_factors(w.run, i, true));
        }
    }
    expect(tide_run_step(w.run, ROWS, 1, &hooks));
    release(&b);
    stop(&w);
    return seen;
}

static void layers_travel_in_the_order_of_the_list(void **state) {
    (void)state;
    deep_net();
    struct seen here = staged_step("cpu", false), away = staged_step("cuda", false);
    assert_int_equal(away.need_count, LAYERS);
    assert_int_equal(away.ready_count, LAYERS);
    assert_memory_equal(here.needed, away.needed, sizeof(here.needed));
    assert_memory_equal(here.ready, away.ready, sizeof(here.ready));
    for (size_t l = 0; l < LAYERS; l++) {
        assert_float_equal(here.gradients[l], away.gradients[l],
                           1e-6f + 1e-5f * fabsf(here.gradients[l]));
    }
    assert_true(fabsf(here.gradients[LAYERS - 1]) > 1e-3f);
    tide_program_destroy(p);
}

static void factors_come_to_the_host(void **state) {
    (void)state;
    deep_net();
    struct seen plain = staged_step("cpu", false), away = staged_step("cuda", true);
    assert_int_equal(away.factor_count, LAYERS);
    for (size_t l = 0; l < LAYERS; l++) {
        assert_float_equal(plain.gradients[l], away.factors[l],
                           1e-6f + 1e-4f * fabsf(plain.gradients[l]));
    }
    tide_program_destroy(p);
}

static void a_hook_ends_the_step_and_the_next_one_works(void **state) {
    (void)state;
    deep_net();
    struct work w = start("cuda", (struct tide_plan_options){0});
    struct batch b = deep_batch(&w);
    struct seen seen = {.w = &w, .fail_at = 3};
    struct tide_run_hooks hooks = {.arg = &seen, .ready = on_ready};
    tide_run_stage(w.run, w.parameters, w.gradients);
    assert_int_equal(tide_run_step(w.run, ROWS, 1, &hooks), TIDE_ECANCELED);
    assert_int_equal(seen.ready_count, 4);
    seen = (struct seen){.w = &w, .fail_at = SIZE_MAX};
    expect(tide_run_step(w.run, ROWS, 1, &hooks));
    assert_int_equal(seen.ready_count, LAYERS);
    release(&b);
    stop(&w);
    tide_program_destroy(p);
}

/* ---- mistakes, memory, evaluation ---- */

static void a_bad_label_is_named_at_the_end_of_the_step(void **state) {
    (void)state;
    deep_net();
    struct work w = start("cuda", (struct tide_plan_options){0});
    struct batch b = deep_batch(&w);
    b.in[1].i32[3] = WIDTH;
    assert_int_equal(tide_run_step(w.run, ROWS, 1, NULL), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(),
                           "program deep: example 4 has label 6, outside 0..5 (-1 leaves it out)"));
    b.in[1].i32[3] = -1;
    expect(tide_run_step(w.run, ROWS, 1, NULL)); /* and it is over */
    release(&b);
    stop(&w);
    tide_program_destroy(p);
}

#ifdef TIDE_EMULATED
static void a_step_of_a_size_seen_before_takes_no_memory(void **state) {
    (void)state;
    deep_net();
    struct work w = start("cuda", (struct tide_plan_options){0});
    struct batch b = deep_batch(&w);
    expect(tide_run_step(w.run, ROWS, 1, NULL));
    uint64_t before = emulated_allocations();
    assert_true(before > 0);
    for (size_t rows = 0; rows <= ROWS; rows++) {
        expect(tide_run_step(w.run, rows, rows, NULL));
    }
    assert_int_equal(emulated_allocations(), before);
    release(&b);
    stop(&w);
    tide_program_destroy(p);
}
#endif

static void outputs_and_losses_are_those_of_the_cpu(void **state) {
    (void)state;
    deep_net();
    float last[2][ROWS * WIDTH];
    double sums[2];
    static const char *const names[] = {"cpu", "cuda"};
    for (size_t d = 0; d < 2; d++) {
        struct work w = start(names[d], (struct tide_plan_options){.kind = TIDE_PLAN_EVALUATE});
        struct batch b = deep_batch(&w);
        size_t rows, columns;
        expect(tide_run_step(w.run, ROWS, 0, NULL));
        memcpy(last[d], tide_run_output(w.run, "last", &rows, &columns), sizeof(last[d]));
        assert_true(rows == ROWS && columns == WIDTH);
        sums[d] = tide_run_loss(w.run).sum;
        release(&b);
        stop(&w);
    }
    assert_true(fabs(sums[0] - sums[1]) < 1e-5 * sums[0]);
    for (size_t e = 0; e < ROWS * WIDTH; e++) {
        assert_float_equal(last[0][e], last[1][e], 1e-6f);
    }
    tide_program_destroy(p);
}

#ifdef TIDE_EMULATED
/* ---- the emulation itself ---- */

static void the_emulation_sees_a_missing_barrier(void **state) {
    (void)state;
    float right[EMULATED_ORDERS], wrong[EMULATED_ORDERS];
    for (int order = 0; order < EMULATED_ORDERS; order++) {
        tide_emulated_order((enum emulated_order)order);
        right[order] = planted_neighbours(true);
        wrong[order] = planted_neighbours(false);
    }
    tide_emulated_order(EMULATED_FORWARDS);
    assert_memory_equal(&right[0], &right[1], sizeof(float));
    assert_memory_equal(&right[0], &right[2], sizeof(float));
    assert_memory_not_equal(&wrong[0], &wrong[1], sizeof(float));
}

static void the_emulation_sees_a_missing_wait(void **state) {
    (void)state;
    assert_float_equal(planted_copy(true), 3.0f, 0);
    assert_true(isnan(planted_copy(false)));
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_travel_in_the_order_of_the_list),
        cmocka_unit_test(factors_come_to_the_host),
        cmocka_unit_test(a_hook_ends_the_step_and_the_next_one_works),
        cmocka_unit_test(a_bad_label_is_named_at_the_end_of_the_step),
        cmocka_unit_test(outputs_and_losses_are_those_of_the_cpu),
#ifdef TIDE_EMULATED
        cmocka_unit_test(a_step_of_a_size_seen_before_takes_no_memory),
        cmocka_unit_test(the_emulation_sees_a_missing_barrier),
        cmocka_unit_test(the_emulation_sees_a_missing_wait),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
