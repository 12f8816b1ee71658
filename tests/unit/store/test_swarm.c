/* Swarm testing itself: options that stay as drawn, runs that repeat, and checkers that find what
 * they are for: a checker that cannot fail proves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/swarm/world.h"

static void options_are_the_seeds_and_a_pin_moves_no_other(void **state) {
    (void)state;
    struct swarm_options a, b, c;
    assert_int_equal(swarm_draw(7, "swarm", &a), 0);
    assert_int_equal(swarm_draw(7, "swarm", &b), 0);
    assert_int_equal(swarm_draw(8, "swarm", &c), 0);
    assert_memory_equal(a.value, b.value, sizeof a.value);
    assert_memory_not_equal(a.value, c.value, sizeof a.value);
    assert_int_equal(swarm_pin(&b, "keys=17"), 0);
    assert_true(b.value[SWARM_KEYS] == 17);
    b.value[SWARM_KEYS] = a.value[SWARM_KEYS];
    assert_memory_equal(a.value, b.value, sizeof a.value);
    assert_int_equal(swarm_draw(7, "calm", &a), 0);
    for (unsigned i = 0; i < SWARM_OPTIONS; i++) {
        assert_true(!swarm_option_is_fault(i) || a.value[i] == 0);
    }
    static const char *const bad[] = {"keys",   "keys=",      "keys=x", "keys=1.5",  "keys=0",
                                      "keyz=1", "nodes=1000", "=1",     "reset_s=-1"};
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_int_equal(swarm_pin(&a, bad[i]), TIDE_EINVAL);
    }
    assert_int_equal(swarm_draw(7, "storm", &a), TIDE_EINVAL);
}

static void run_seed(uint64_t seed, const char *profile, const char *set,
                     struct swarm_report *report) {
    struct swarm_options o;
    assert_int_equal(swarm_draw(seed, profile, &o), 0);
    assert_int_equal(swarm_pin(&o, "chaos_s=12"), 0);
    assert_true(set == NULL || swarm_pin(&o, set) == 0);
    swarm_run(&o, report, NULL, NULL);
}

static void a_seed_does_the_same_again_and_another_does_not(void **state) {
    (void)state;
    static struct swarm_report a, b, c;
    run_seed(3, "swarm", NULL, &a);
    run_seed(3, "swarm", NULL, &b);
    run_seed(4, "swarm", NULL, &c);
    assert_true(a.hash == b.hash && a.events == b.events && a.operations == b.operations);
    assert_string_equal(a.faults, b.faults);
    assert_true(a.hash != c.hash);
}

/* Few bursts and faults are all that happens: the time between them need not be waited for. */
static void what_is_planned_comes_earlier_where_nothing_happens(void **state) {
    (void)state;
    static struct swarm_report r;
    struct swarm_options o;
    assert_int_equal(swarm_draw(3, "calm", &o), 0);
    assert_int_equal(swarm_pin(&o, "leave_s=30"), 0);
    assert_int_equal(swarm_pin(&o, "latency_us=100"), 0);
    swarm_run(&o, &r, NULL, NULL);
    assert_false(r.failed);
    assert_true(r.fault_count > 0 && r.operations > 0);
    assert_true(r.virtual_ns < 25 * TIDE_SECOND);
}

static void some_seeds_of_each_profile_pass(void **state) {
    (void)state;
    static const char *const profiles[] = {"calm", "swarm", "elastic", "shared", "disk", "journal"};
    static struct swarm_report r;
    for (size_t p = 0; p < TIDE_COUNT(profiles); p++) {
        for (uint64_t seed = 10; seed < 13; seed++) {
            run_seed(seed, profiles[p], NULL, &r);
            if (r.failed) {
                fail_msg("seed %d of %s: %s: %s", (int)seed, profiles[p], r.checker, r.what);
            }
            assert_true(r.operations > 0);
            assert_int_equal(r.fault_count > 0, p > 0);
        }
    }
}

/* ---- the checkers ---- */

static struct swarm_report verdict;

/* What check_histories says of operations on one key, of a table whose keys are shared or not;
 * `lossy`: the workers' node counts an update that did not arrive. */
static const char *judge_table(const struct operation *operations, size_t count, bool shared,
                               bool lossy) {
    struct world *w = tide_alloc_zero(1, sizeof *w);
    assert_non_null(w);
    struct node node = {.world = w, .forgot = {lossy}};
    struct worker worker = {.world = w, .node = &node};
    for (unsigned i = 0; i < 8; i++) {
        w->workers[i] = &worker;
    }
    w->tables[0].shared = shared;
    memset(&verdict, 0, sizeof verdict);
    w->report = &verdict;
    assert_int_equal(tide_sim_create(NULL, &w->sim), 0);
    w->table_count = 1;
    for (size_t i = 0; i < count; i++) {
        size_t at;
        history_add(w, &w->tables[0], &operations[i], &at);
    }
    check_histories(w);
    tide_sim_destroy(w->sim);
    tide_free(w->tables[0].history.list);
    tide_free(w);
    return verdict.failed ? verdict.checker : "";
}

static const char *judge(const struct operation *operations, size_t count) {
    return judge_table(operations, count, false, false);
}

#define PUSH(who, number, began, ended, coordinate)                                                \
    {.worker = who, .step = number, .invoked = began, .returned = ended, .push = coordinate, .ok = true}
#define PULL(who, number, began, ended, shown)                                                     \
    {.worker = who, .step = number, .invoked = began, .returned = ended, .push = -1, .set = shown, .ok = true}

static void histories_that_can_be_are_accepted(void **state) {
    (void)state;
    const struct operation list[] = {PUSH(1, 1, 10, 20, 0), PUSH(2, 1, 15, 40, 1),
                                     PULL(3, 1, 18, 30, 1), PULL(3, 2, 31, 50, 3),
                                     PULL(1, 2, 21, 25, 1)};
    assert_string_equal(judge(list, TIDE_COUNT(list)), "");
    const struct operation failed[] = {
        {.worker = 1, .step = 1, .invoked = 10, .returned = TIDE_NEVER, .push = 0},
        PULL(2, 1, 20, 30, 0), PULL(2, 2, 40, 50, 1)}; /* it happened later */
    assert_string_equal(judge(failed, TIDE_COUNT(failed)), "");
}

static void histories_that_cannot_be_are_found(void **state) {
    (void)state;
    const struct operation missed[] = {PUSH(1, 1, 10, 20, 0), PULL(2, 1, 21, 30, 0)};
    assert_string_equal(judge(missed, 2), "linearizable");
    const struct operation foreseen[] = {PUSH(1, 1, 40, 50, 0), PULL(2, 1, 21, 30, 1)};
    assert_string_equal(judge(foreseen, 2), "linearizable");
    const struct operation back[] = {PUSH(1, 1, 10, 90, 0), PULL(2, 1, 20, 30, 1),
                                     PULL(3, 1, 40, 50, 0)};
    assert_string_equal(judge(back, 3), "linearizable");
    const struct operation apart[] = {PUSH(1, 1, 10, 90, 0), PUSH(2, 1, 10, 90, 1),
                                      PULL(3, 1, 20, 60, 1), PULL(4, 1, 20, 60, 2)};
    assert_string_equal(judge(apart, 4), "linearizable");
    const struct operation before[] = {PUSH(1, 1, 10, 20, 0), PUSH(2, 1, 30, 90, 1),
                                       PULL(3, 1, 15, 60, 2)};
    assert_string_equal(judge(before, 3), "linearizable");
    const struct operation unread[] = {PUSH(1, 1, 10, 90, 0), PULL(1, 2, 20, 80, 0)};
    assert_string_equal(judge(unread, 2), "order");
    const struct operation own_later[] = {PULL(1, 1, 10, 90, 1), PUSH(1, 2, 20, 80, 0)};
    assert_string_equal(judge(own_later, 2), "order");
    const struct operation overtaken[] = {PUSH(1, 1, 10, 90, 0), PUSH(1, 2, 11, 90, 1),
                                          PULL(2, 1, 20, 80, 2)};
    assert_string_equal(judge(overtaken, 3), "order");
}

/* The rules at the head of check.c, as they stand there: each pull with each other operation. */
static bool is_possible(const struct operation *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            const struct operation *a = &list[i], *b = &list[j];
            const bool early = a->ok && a->returned < b->invoked;
            const bool issued = a->ok && a->worker == b->worker && a->step < b->step;
            const uint64_t has = a->push >= 0 ? b->set >> a->push & 1 : 0;
            if (b->push < 0 && a->push >= 0) {
                const bool later = a->worker == b->worker && a->step > b->step;
                if ((!has && (early || issued)) || (has && (a->invoked > b->returned || later))) {
                    return false;
                }
            } else if (b->push < 0 && a != b) {
                const uint64_t lost = a->set & ~b->set;
                if (lost && (early || (b->set & ~a->set))) {
                    return false;
                }
            }
            const bool before = a->push >= 0 && b->push >= 0 && (early || issued);
            for (size_t k = 0; k < count && before; k++) {
                if (list[k].push < 0 && (list[k].set >> b->push & 1) &&
                    !(list[k].set >> a->push & 1)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Of eight operations on a key, drawn: pulls show what was pushed before some moment while they
 * ran, and now and then one push more or fewer. */
static size_t draw_history(struct tide_random *random, struct operation list[8]) {
    uint64_t moments[8] = {0};
    unsigned pushes = 0;
    for (size_t i = 0; i < 8; i++) {
        const uint64_t began = 1 + tide_random_below(random, 100);
        moments[i] = began + tide_random_below(random, 40);
        list[i] = (struct operation){.worker = (uint16_t)tide_random_below(random, 3),
                                     .invoked = began,
                                     .returned = moments[i] + tide_random_below(random, 40),
                                     .step = (uint32_t)began,
                                     .ok = true,
                                     .push = -1};
        if (tide_random_below(random, 2) == 0) {
            list[i].push = (int8_t)pushes;
        }
        pushes += list[i].push >= 0;
    }
    for (size_t i = 0; i < 8; i++) {
        for (size_t j = 0; j < 8 && list[i].push < 0; j++) {
            const bool seen = list[j].push >= 0 && moments[j] < moments[i];
            list[i].set |= seen ? UINT64_C(1) << list[j].push : 0;
        }
        if (list[i].push < 0 && pushes > 0 && tide_random_below(random, 12) == 0) {
            list[i].set ^= UINT64_C(1) << tide_random_below(random, pushes);
        }
    }
    return 8;
}

static void the_quick_checks_find_what_all_pairs_show(void **state) {
    (void)state;
    struct tide_random random;
    unsigned possible = 0;
    tide_random_seed(&random, 7);
    for (unsigned round = 0; round < 4000; round++) {
        struct operation list[8];
        const size_t count = draw_history(&random, list);
        const bool is = is_possible(list, count);
        if (is != (judge(list, count)[0] == 0)) {
            fail_msg("history %u is %spossible, and the checkers say '%s'", round, is ? "" : "im",
                     verdict.what);
        }
        possible += is;
    }
    assert_in_range(possible, 500, 3500); /* of both there are many */
}

static void of_shared_keys_workers_must_see_their_own_pushes_alone(void **state) {
    (void)state;
    const struct operation apart[] = {PUSH(1, 1, 10, 20, 0), PUSH(2, 1, 10, 20, 1),
                                      PULL(1, 2, 30, 40, 1), PULL(2, 2, 30, 40, 2)};
    assert_string_equal(judge_table(apart, 4, true, false), "");
    assert_string_equal(judge(apart, 4), "linearizable");
    const struct operation unread[] = {PUSH(1, 1, 10, 20, 0), PULL(1, 2, 30, 40, 0)};
    assert_string_equal(judge_table(unread, 2, true, false), "order");
    assert_string_equal(judge_table(unread, 2, true, true), "");
    const struct operation foreseen[] = {PUSH(1, 1, 40, 50, 0), PULL(2, 1, 21, 30, 1)};
    assert_string_equal(judge_table(foreseen, 2, true, true), "linearizable");
    const struct operation overtaken[] = {PUSH(1, 1, 10, 20, 0), PUSH(1, 2, 30, 40, 1),
                                          PULL(2, 1, 50, 60, 2)};
    assert_string_equal(judge_table(overtaken, 3, true, false), "order");
}

static void a_run_that_fails_says_where_and_how_the_nodes_stand(void **state) {
    (void)state;
    static struct swarm_report r;
    run_seed(5, "calm", "latency_us=12000000", &r); /* nobody can join in time */
    assert_true(r.failed);
    assert_true(strlen(r.checker) > 0);
    assert_non_null(strstr(r.what, "n1 (n"));
}

static void ignore(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)arg;
    (void)level;
    (void)node;
    (void)text;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_the_seeds_and_a_pin_moves_no_other),
        cmocka_unit_test(a_seed_does_the_same_again_and_another_does_not),
        cmocka_unit_test(what_is_planned_comes_earlier_where_nothing_happens),
        cmocka_unit_test(some_seeds_of_each_profile_pass),
        cmocka_unit_test(histories_that_can_be_are_accepted),
        cmocka_unit_test(histories_that_cannot_be_are_found),
        cmocka_unit_test(the_quick_checks_find_what_all_pairs_show),
        cmocka_unit_test(of_shared_keys_workers_must_see_their_own_pushes_alone),
        cmocka_unit_test(a_run_that_fails_says_where_and_how_the_nodes_stand),
    };
    tide_log_set(TIDE_LOG_ERROR, ignore, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
