/* Whether intents are acted on: blocks, trials and verdicts of one worker, by a clock of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"
#include "store/trial.h"

#define MS UINT64_C(1000000)

struct worker {
    struct tide__trial trial;
    uint32_t clock, ahead;
    uint64_t now, keys, act_ns, rest_ns;
    unsigned acted, left; /* clocks */
    bool will[64];        /* is the intent for this clock acted on? */
};

static void intend(struct worker *w, uint32_t begin) {
    w->will[begin % 64] = tide__trial_intent(&w->trial, w->clock, begin, begin + 1, w->keys);
}

static void run(struct worker *w, uint32_t clocks) {
    w->acted = w->left = 0;
    for (uint32_t i = 0; i < clocks; i++) {
        if (w->clock == 0) {
            for (uint32_t c = 0; c < w->ahead; c++) {
                intend(w, c);
            }
        }
        intend(w, w->clock + w->ahead);
        const bool acts = w->will[w->clock % 64];
        w->now += acts ? w->act_ns : w->rest_ns;
        w->acted += acts;
        w->left += !acts;
        tide__trial_clock(&w->trial, w->clock, w->now);
        w->clock++;
    }
}

static struct worker make(uint64_t act_ns, uint64_t rest_ns) {
    return (struct worker){
        .now = 5, .keys = 10000, .ahead = 4, .act_ns = act_ns, .rest_ns = rest_ns};
}

static void rows_stay_where_they_are_if_that_is_quicker(void **state) {
    (void)state;
    struct worker w = make(70 * MS, 50 * MS);
    run(&w, 64);
    assert_true(w.trial.rests);
    run(&w, 100);
    assert_int_equal(w.acted, 0);
}

static void intents_are_acted_on_if_that_is_quicker_or_makes_no_difference(void **state) {
    (void)state;
    const uint64_t rest[] = {50, 49, 60, 90};
    for (size_t i = 0; i < TIDE_COUNT(rest); i++) {
        struct worker w = make(50 * MS, rest[i] * MS);
        run(&w, 64);
        assert_false(w.trial.rests);
        run(&w, 100);
        assert_int_equal(w.left, 0);
    }
}

static void trials_cost_little_in_the_long_run(void **state) {
    (void)state;
    struct worker w = make(50 * MS, 90 * MS);
    run(&w, 10000);
    assert_true(w.left < 100);
    w = make(90 * MS, 50 * MS);
    run(&w, 10000);
    assert_true(w.acted < 200);
}

static void a_trial_ends_when_resting_takes_twice_as_long(void **state) {
    (void)state;
    struct worker w = make(50 * MS, 1000 * MS);
    run(&w, 200);
    assert_in_range(w.left, 1, 8); /* of one block, and what was said ahead */
    assert_false(w.trial.rests);
}

static void a_verdict_is_looked_at_again(void **state) {
    (void)state;
    struct worker w = make(70 * MS, 50 * MS);
    run(&w, 64);
    assert_true(w.trial.rests);
    w.rest_ns = 120 * MS; /* the network is slower now */
    run(&w, 600);
    assert_false(w.trial.rests);
    w.rest_ns = 30 * MS;
    run(&w, 1200);
    assert_true(w.trial.rests);
}

static void a_pause_is_no_verdict(void **state) {
    (void)state;
    for (uint32_t at = 32; at < 52; at++) {
        struct worker w = make(60 * MS, 50 * MS);
        run(&w, at);
        w.now += 3000 * MS; /* somebody measured the model meanwhile */
        run(&w, 100);
        const uint32_t in_rest = at / 4 == 10 || at / 4 == 12;
        assert_true(w.trial.rests || in_rest);
    }
}

static void few_keys_are_not_worth_a_trial(void **state) {
    (void)state;
    struct worker w = make(70 * MS, 50 * MS);
    w.keys = 100;
    run(&w, 1000);
    assert_int_equal(w.left, 0);
}

static void blocks_last_fifty_milliseconds_and_longer_than_what_is_said_ahead(void **state) {
    (void)state;
    struct worker w = make(MS / 10, MS / 10);
    run(&w, 64);
    assert_int_equal(w.trial.block, 512);
    w = make(100 * MS, 100 * MS);
    w.ahead = 40;
    run(&w, 64);
    assert_int_equal(w.trial.block, 64);
}

static void a_long_intent_is_acted_on_in_any_case(void **state) {
    (void)state;
    struct worker w = make(70 * MS, 50 * MS);
    run(&w, 64);
    assert_true(w.trial.rests);
    assert_true(tide__trial_intent(&w.trial, w.clock, w.clock, w.clock + 100, 1));
    assert_false(tide__trial_intent(&w.trial, w.clock, w.clock, w.clock + 1, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_stay_where_they_are_if_that_is_quicker),
        cmocka_unit_test(intents_are_acted_on_if_that_is_quicker_or_makes_no_difference),
        cmocka_unit_test(trials_cost_little_in_the_long_run),
        cmocka_unit_test(a_trial_ends_when_resting_takes_twice_as_long),
        cmocka_unit_test(a_verdict_is_looked_at_again),
        cmocka_unit_test(a_pause_is_no_verdict),
        cmocka_unit_test(few_keys_are_not_worth_a_trial),
        cmocka_unit_test(blocks_last_fifty_milliseconds_and_longer_than_what_is_said_ahead),
        cmocka_unit_test(a_long_intent_is_acted_on_in_any_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
