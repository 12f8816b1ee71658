/* Single examples of kge_train while rows are in flight: who is sent for, who waits, who draws. */
#include "tests/unit/kge_setting.h"
#include "tests/unit/plain_sampler.h"

/* A table whose rows another worker takes as soon as a group has been sent for; a triple's own two
 * stay until the next group is. */
static struct {
    bool here[50];
    uint64_t own_away, drawn_away, at; /* pulled rows that were elsewhere; pulls */
} moving;

enum { DRAWN = 3, EXAMPLES = 1 + 2 * DRAWN };

static int moving_localize(void *table, const uint64_t *keys, size_t count, void *handle) {
    for (size_t i = 0; i < TIDE_COUNT(moving.here) && count > 2; i++) {
        moving.here[i] = false;
    }
    for (size_t i = 0; i < count && count == 2; i++) {
        moving.here[keys[i]] = true;
    }
    ((struct plain_handle *)handle)->table = table;
    ((struct plain_table *)table)->open++;
    return 0;
}

static int moving_pull_start(void *table, const uint64_t *keys, size_t count, float *rows,
                             void *handle) {
    const size_t example = moving.at++ % EXAMPLES;
    for (size_t i = 0; i < count; i++) {
        const bool own = example == 0 || example % 2 == (i == 0);
        *(own ? &moving.own_away : &moving.drawn_away) += !moving.here[keys[i]];
    }
    return plain_pull_start(table, keys, count, rows, handle);
}

static void the_entities_of_a_triple_are_sent_for_again(void **state) {
    (void)state;
    struct setting s;
    struct tide_result results[16];
    uint32_t *ids = ring();
    setting_init(&s, "kge_train", "complex", 4, TIDE_COUNT(moving.here), 2, 0.1f);
    set_triples(&s, "triples", ids, PASS);
    set_text(&s, "mode", "steps");
    set_number(&s, "negatives", DRAWN);
    memset(&moving, 0, sizeof moving);
    struct tide_rows *rows = &plain_argument(s.kernel, s.arguments, "entities")->rows;
    rows->localize_start = moving_localize;
    rows->pull_start = moving_pull_start;
    (void)run(&s, results);
    assert_int_equal(moving.at, PASS * EXAMPLES);
    assert_int_equal(moving.own_away, 0);
    assert_true(moving.drawn_away > 0);
    assert_int_equal(s.entities.open, 0);
    setting_deinit(&s);
    free(ids);
}

/* A table of which entity 0 takes as long as three triples to come, and is gone then. */
static struct {
    bool coming;
    uint64_t pulls, ready; /* it is here when so many pulls were made */
    uint64_t asked, waits, localized;
} far;

struct far_handle {
    struct plain_table *table;
    uint64_t ready;
};

static int far_localize(void *table, const uint64_t *keys, size_t count, void *handle) {
    const bool its = count == 2 && (keys[0] == 0 || keys[1] == 0);
    struct far_handle *h = handle;
    *h = (struct far_handle){.table = table};
    if (its && !far.coming) {
        far.ready = far.pulls + 3 * EXAMPLES;
        far.asked++;
    }
    h->ready = its ? far.ready : 0;
    far.coming = its ? far.pulls < far.ready : far.coming;
    far.localized += count;
    h->table->open++;
    return 0;
}

static bool far_done(const void *handle) {
    return far.pulls >= ((const struct far_handle *)handle)->ready;
}

static int far_wait(void *handle) {
    far.waits += !far_done(handle);
    return plain_wait(handle);
}

static int far_pull_start(void *table, const uint64_t *keys, size_t count, float *rows,
                          void *handle) {
    struct far_handle *h = handle;
    int error = plain_pull_start(table, keys, count, rows, handle);
    h->ready = 0;
    far.pulls++;
    return error;
}

static void far_setting(struct setting *s, uint32_t *ids) {
    setting_init(s, "kge_train", "complex", 4, TIDE_COUNT(moving.here), 2, 0.1f);
    set_triples(s, "triples", ids, PASS);
    set_text(s, "mode", "steps");
    set_number(s, "negatives", DRAWN);
    memset(&far, 0, sizeof far);
    struct tide_rows *rows = &plain_argument(s->kernel, s->arguments, "entities")->rows;
    rows->localize_start = far_localize;
    rows->pull_start = far_pull_start;
    rows->done = far_done;
    rows->wait = far_wait;
}

static void a_triple_whose_entities_are_away_lets_others_go_first(void **state) {
    (void)state;
    struct setting s;
    struct tide_result results[16];
    uint32_t *ids = ring();
    far_setting(&s, ids);
    int n = run(&s, results);
    assert_int_equal(plain_result(results, n, "examples"), PASS);
    assert_int_equal(far.pulls, PASS * EXAMPLES);
    assert_true(far.asked > 0);
    assert_true(far.waits <= 2); /* the last triples have no others */
    setting_deinit(&s);
    free(ids);
}

static struct plain_sampler sampler;

static void sample(struct setting *s, uint64_t most) {
    sampler = (struct plain_sampler){.last = 49, .kinds = 2, .most = most};
    plain_argument(s->kernel, s->arguments, "sampler")->draws = plain_draws(&sampler);
}

static void negatives_come_from_a_sampler_which_sends_for_them_itself(void **state) {
    (void)state;
    struct setting s;
    struct tide_result results[16];
    uint32_t *ids = ring();
    for (int intended = 0; intended < 2; intended++) {
        far_setting(&s, ids);
        sample(&s, UINT64_MAX);
        set_number(&s, "intended", intended);
        (void)run(&s, results);
        assert_int_equal(sampler.announced, PASS * 2 * DRAWN);
        assert_int_equal(sampler.taken, PASS * 2 * DRAWN);
        assert_int_equal(sampler.open, 0);
        assert_true(intended ? far.localized == 0 : far.localized < PASS * 2 * (2 + DRAWN));
        setting_deinit(&s);
    }
    far_setting(&s, ids);
    sample(&s, 100);
    assert_int_equal(run(&s, results), TIDE_EDIED);
    assert_int_equal(sampler.open, 0);
    setting_deinit(&s);
    free(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_entities_of_a_triple_are_sent_for_again),
        cmocka_unit_test(a_triple_whose_entities_are_away_lets_others_go_first),
        cmocka_unit_test(negatives_come_from_a_sampler_which_sends_for_them_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
