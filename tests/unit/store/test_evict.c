/* Tables that forget: admission, eviction against the least frequently used by formula, expiry, and what stays of a key
 * that has gone: nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/core/clock.h"
#include "store/core/node_store.h"
#include "store/core/options.h"
#include "store/operation/access.h"
#include "store/rows/cut.h"
#include "store/rows/forget.h"
#include "tide/stats.h"

#include <math.h>
#include <pthread.h>

static struct tide_store *open_store(void) {
    struct tide_store *store;
    assert_int_equal(tide__store_create_bare(&store), 0);
    return store;
}

static struct tide_table *make(struct tide_store *store, struct tide_table_options options) {
    struct tide_table *table;
    options.name = "w";
    options.keys = TIDE_KEYS_HASHED;
    options.width = options.width ? options.width : 1;
    const int code = tide__table_create_in(store, &options, &table);
    if (code) {
        fail_msg("%s", tide_error_message());
    }
    return table;
}

static struct tide_table_stats stats_of(struct tide_table *table) {
    struct tide_table_stats stats;
    tide_table_stats(table, &stats);
    return stats;
}

static void push(struct tide_table *table, uint64_t key) {
    static const float one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(tide_table_push(table, &key, 1, one, NULL), 0);
}

static float value(struct tide_table *table, uint64_t key) {
    float row[8];
    assert_int_equal(tide_table_pull(table, &key, 1, row, NULL), 0);
    return row[0];
}

static bool has_row(struct tide_table *table, uint64_t key) {
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (tide__hashed_lock(table, key, TIDE__ENTRY_NONE, 0, true, &word, &old) != TIDE__FOUND) {
        return false;
    }
    tide__word_unlock(word, old);
    return tide__word_state(old) == TIDE__OWNED;
}

static void a_key_is_admitted_by_its_nth_push(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = 100, .admit_after = 3});
    for (int i = 0; i < 5; i++) {
        push(table, 7);
        const float want[] = {0, 0, 1, 2, 3};
        assert_true(value(table, 7) == want[i]);
    }
    assert_int_equal(stats_of(table).not_admitted, 2);
    assert_int_equal(stats_of(table).rows, 1);
    tide_store_destroy(store);
}

static void without_eviction_the_limit_refuses_what_is_admitted(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = 1, .admit_after = 2});
    const float one = 1;
    push(table, 1);
    push(table, 1);
    push(table, 2);
    assert_int_equal(tide_table_push(table, (uint64_t[]){2}, 1, &one, NULL), TIDE_EFULL);
    tide_store_destroy(store);
}

static void an_evicted_key_is_a_new_key(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table =
        make(store, (struct tide_table_options){.key_limit = 1, .evict = TIDE_EVICT_LFU, .update = TIDE_UPDATE_ADAGRAD,
                                                .lr = 1, .sum_init = 1});
    push(table, 1);
    const float first = value(table, 1);
    for (int i = 0; has_row(table, 1); i++) {
        push(table, 2);
        assert_true(i < 20);
    }
    assert_int_equal(stats_of(table).rows, 1);
    assert_int_equal(stats_of(table).evicted, 1);
    assert_true(value(table, 1) == 0);
    for (int i = 0; !has_row(table, 1); i++) {
        push(table, 1);
        assert_true(i < 40);
    }
    assert_true(value(table, 1) == first); /* with a new sum of squares */
    tide_store_destroy(store);
}

static void the_less_used_one_goes(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = 2, .evict = TIDE_EVICT_LFU});
    for (int i = 0; i < 50; i++) {
        push(table, 1);
    }
    push(table, 2);
    for (int i = 0; i < 3; i++) {
        push(table, 3);
    }
    assert_true(has_row(table, 1) && !has_row(table, 2) && has_row(table, 3));
    tide_store_destroy(store);
}

/* All keys that are left are found, wherever those between were taken out. */
static void entries_move_up_when_one_goes(void **state) {
    (void)state;
    enum { KEYS = 4000 };
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    uint64_t *keys = malloc(KEYS * sizeof *keys);
    size_t count = 0;
    for (uint64_t i = 0; count < KEYS; i++) { /* all of slot 5 */
        if (tide_mix64(i) >> 52 == 5) {
            keys[count++] = i;
        }
    }
    for (size_t i = 0; i < KEYS; i++) {
        push(table, keys[i]);
    }
    atomic_store(&tide__forget_of(table)->epoch, TIDE__USE_EPOCHS + 1);
    for (size_t i = 0; i < KEYS; i += 3) {
        (void)value(table, keys[i]); /* a pull is a use */
    }
    tide__forget_expire(table, 5);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(has_row(table, keys[i]), i % 3 == 0);
    }
    assert_int_equal(stats_of(table).expired, KEYS - (KEYS + 2) / 3);
    const struct tide__hash *hash = atomic_load(&table->slots[5].index);
    assert_int_equal(hash->count, (KEYS + 2) / 3);
    free(keys);
    tide_store_destroy(store);
}

static void a_row_expires_after_its_time_and_not_before(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    const uint32_t slot = (uint32_t)(tide_mix64(1) >> 52);
    atomic_store(&tide__forget_of(table)->epoch, 65530); /* epochs begin anew at 65536 */
    push(table, 1);
    atomic_store(&tide__forget_of(table)->epoch, (65530 + TIDE__USE_EPOCHS) & 65535);
    tide__forget_expire(table, slot);
    assert_true(has_row(table, 1));
    atomic_store(&tide__forget_of(table)->epoch, (65530 + TIDE__USE_EPOCHS + 1) & 65535);
    tide__forget_expire(table, slot);
    assert_false(has_row(table, 1));
    atomic_store(&tide__forget_of(table)->epoch, 100);
    push(table, 1);
    atomic_store(&tide__forget_of(table)->epoch, 90); /* the clock of another node is behind */
    tide__forget_expire(table, slot);
    assert_true(has_row(table, 1));
    tide_store_destroy(store);
}

/* Assigned rows have no use record of their own: they are used now, and not in epoch 0. */
static void an_assigned_row_does_not_expire_at_once(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    const uint64_t key = 1;
    float row[2];
    atomic_store(&tide__forget_of(table)->epoch, 1000);
    assert_int_equal(tide__operate_plain(table, TIDE__PULL, true, &key, 1, row, NULL), 0);
    row[0] = 5;
    assert_int_equal(tide__operate_plain(table, TIDE__PUSH, true, &key, 1, NULL, row), 0);
    tide__forget_expire(table, (uint32_t)(tide_mix64(key) >> 52));
    assert_true(has_row(table, key) && value(table, key) == 5);
    tide_store_destroy(store);
}

/* A generation that has not come to a row has it all the same. */
static void what_goes_during_a_generation_is_kept_for_it(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    const uint32_t slot = (uint32_t)(tide_mix64(1) >> 52);
    push(table, 1);
    assert_int_equal(tide__cut_init(table), 0);
    tide__cut_tell(table, 1, TIDE_NO_CLOCK, true);
    tide__cut_walk(table, false);
    atomic_store(&tide__forget_of(table)->epoch, TIDE__USE_EPOCHS + 1);
    tide__forget_expire(table, slot);
    assert_false(has_row(table, 1));
    struct tide__kept *kept = tide__cut_kept(table, slot);
    assert_non_null(kept);
    assert_true(kept->key == 1 && kept->row[0] == 1);
    tide_free(kept);
    tide__cut_end(table);
    tide_store_destroy(store);
}

/* A generation names the keys that went before its walk; the next one those that went since. */
static void keys_that_went_are_named_once(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    size_t count = 0;
    assert_int_equal(tide__cut_init(table), 0);
    for (uint64_t key = 1; key <= 2; key++) {
        push(table, key);
        atomic_fetch_add(&tide__forget_of(table)->epoch, TIDE__USE_EPOCHS + 1);
        tide__forget_expire(table, (uint32_t)(tide_mix64(key) >> 52));
        if (key == 1) {
            assert_true(tide__forget_gone_begin(table));
        }
    }
    uint64_t *gone = tide__forget_gone_take(table, &count);
    assert_int_equal(count, 1);
    assert_int_equal(gone[0], 1);
    tide_free(gone);
    assert_null(tide__forget_gone_take(table, &count));
    assert_true(tide__forget_gone_begin(table));
    gone = tide__forget_gone_take(table, &count);
    assert_int_equal(count, 1);
    assert_int_equal(gone[0], 2);
    tide_free(gone);
    assert_false(tide__forget_gone_lost(table));
    tide_store_destroy(store);
}

/* A generation of changes that does not know all keys that went does not begin: restored, they would be back. */
static void a_generation_of_changes_knows_all_keys_that_went(void **state) {
    (void)state;
    const struct tide_limit *limit = &tide__limits[TIDE_LIMIT_store_forget_gone_keys];
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_forget_gone_keys, limit->least), 0);
    assert_int_equal(tide__cut_init(table), 0);
    for (uint32_t full = 0; full < 2; full++) {
        tide__cut_tell(table, full + 1, TIDE_NO_CLOCK, full);
        push(table, 1);
        atomic_fetch_add(&tide__forget_of(table)->epoch, TIDE__USE_EPOCHS + 1);
        tide__forget_expire(table, (uint32_t)(tide_mix64(1) >> 52));
        assert_true(tide__forget_gone_lost(table));
        assert_int_equal(tide__forget_gone_begin(table), full);
        assert_true(tide__forget_gone_begin(table)); /* none went since */
        tide__cut_walk(table, false);
        tide_free(tide__cut_kept(table, (uint32_t)(tide_mix64(1) >> 52)));
        tide__cut_end(table);
    }
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_forget_gone_keys, limit->initial), 0);
    tide_store_destroy(store);
}

/* An entry that moves to before the place that a walk has come to is looked at once more. */
static void a_walk_misses_no_entry_that_moves(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.unused_ns = TIDE_UNUSED_NS_MIN});
    for (uint64_t key = 0; key < 1 << 20; key++) { /* all of slot 5 */
        if (tide_mix64(key) >> 52 == 5) {
            push(table, key);
        }
    }
    struct tide__hash *hash = atomic_load(&table->slots[5].index);
    size_t moved = 0;
    for (uint32_t i = 0; i + 1 < hash->capacity; i++) {
        uint64_t word;
        if (!atomic_load(&hash->entries[i].word) || !atomic_load(&hash->entries[i + 1].word)) {
            continue;
        }
        const uint64_t next = hash->entries[i + 1].key; /* not looked at yet */
        hash->walked = i + 1;
        assert_int_equal(tide__word_lock(&hash->entries[i].word, false, &word), 0);
        tide__hashed_remove(hash, &hash->entries[i]);
        const uint32_t at = (uint32_t)(tide__hashed_find(hash, next) - hash->entries);
        assert_true(at >= hash->walked);
        moved += at == i;
    }
    assert_true(moved > 0);
    tide_store_destroy(store);
}

/* ---- the least frequently used, by formula ---- */

/* Numbers 1 .. n by Zipf's law of exponent s. */
struct zipf {
    double *sums;
    uint64_t n;
};

static struct zipf zipf_make(uint64_t n, double s) {
    struct zipf z = {.sums = malloc((n + 1) * sizeof *z.sums), .n = n};
    z.sums[0] = 0;
    for (uint64_t i = 1; i <= n; i++) {
        z.sums[i] = z.sums[i - 1] + pow((double)i, -s);
    }
    return z;
}

static uint64_t zipf_draw(const struct zipf *z, struct tide_random *random) {
    const double at = tide_random_uniform(random) * z->sums[z->n];
    uint64_t low = 0, high = z->n;
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        if (z->sums[middle] <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

/* Independent draws: of C keys that have rows, LFU's are the most popular ones, so H(C, s) / H(N, s) of the draws meet
 * a row. */
static void hits_come_near_the_least_frequently_used(void **state) {
    (void)state;
    const bool whole = getenv("TIDE_EVICT_WHOLE");
    const uint64_t keys = whole ? 30000000 : 300000, limit = whole ? 1000000 : 10000;
    const uint64_t pushes = whole ? 100000000 : 2000000;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = limit, .evict = TIDE_EVICT_LFU});
    struct zipf z = zipf_make(keys, 0.99);
    struct tide_random random;
    tide_random_seed(&random, 1);
    uint64_t hits = 0, counted = 0, memory = 0;
    for (uint64_t i = 0; i < pushes; i++) {
        const uint64_t key = tide_mix64(zipf_draw(&z, &random));
        if (i == pushes / 2) {
            memory = stats_of(table).memory_bytes;
        }
        if (i >= pushes / 2) {
            hits += has_row(table, key);
            counted++;
        }
        push(table, key);
    }
    const double rate = (double)hits / (double)counted, lfu = z.sums[limit] / z.sums[keys];
    const struct tide_table_stats stats = stats_of(table);
    print_message("hits %.4f, LFU %.4f, memory %llu then %llu bytes, evicted %llu\n", rate, lfu,
                  (unsigned long long)memory, (unsigned long long)stats.memory_bytes,
                  (unsigned long long)stats.evicted);
    assert_true(rate >= 0.98 * lfu);
    assert_true(stats.rows <= limit);
    assert_true((double)stats.memory_bytes <= 1.02 * (double)memory);
    free(z.sums);
    tide_store_destroy(store);
}

/* The popular keys are others from one moment on: they have rows soon. */
static void what_was_popular_once_makes_room(void **state) {
    (void)state;
    enum { KEYS = 100000, LIMIT = 2000, PUSHES = 400000 };
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = LIMIT, .evict = TIDE_EVICT_LFU});
    struct zipf z = zipf_make(KEYS, 0.99);
    struct tide_random random;
    tide_random_seed(&random, 1);
    uint64_t hits = 0, counted = 0;
    for (uint64_t i = 0; i < 3 * PUSHES; i++) {
        const uint64_t key = tide_mix64(zipf_draw(&z, &random) + (i < PUSHES ? 0 : KEYS));
        if (i >= 2 * PUSHES) {
            hits += has_row(table, key);
            counted++;
        }
        push(table, key);
    }
    const double rate = (double)hits / (double)counted, lfu = z.sums[LIMIT] / z.sums[KEYS];
    print_message("hits %.4f, LFU %.4f after a change\n", rate, lfu);
    assert_true(rate >= 0.85 * lfu);
    free(z.sums);
    tide_store_destroy(store);
}

static void the_same_pushes_keep_the_same_keys(void **state) {
    (void)state;
    uint64_t digests[2];
    for (int run = 0; run < 2; run++) {
        struct tide_store *store = open_store();
        struct tide_table *table =
            make(store, (struct tide_table_options){.key_limit = 100, .admit_after = 2, .evict = TIDE_EVICT_LFU});
        struct zipf z = zipf_make(1000, 0.8);
        struct tide_random random;
        tide_random_seed(&random, 7);
        for (int i = 0; i < 20000; i++) {
            push(table, zipf_draw(&z, &random));
        }
        digests[run] = 0;
        for (uint64_t key = 1; key <= 1000; key++) {
            digests[run] = tide_mix64(digests[run] + (uint64_t)value(table, key));
        }
        free(z.sums);
        tide_store_destroy(store);
    }
    assert_true(digests[0] == digests[1]);
}

/* ---- options ---- */

static void refused(struct tide_table_options options, int code, const char *text) {
    struct tide_store *store = open_store();
    struct tide_table *table;
    options.name = "w";
    options.width = 1;
    assert_int_equal(tide__table_create_in(store, &options, &table), code);
    if (!strstr(tide_error_message(), text)) {
        fail_msg("%s", tide_error_message());
    }
    tide_store_destroy(store);
}

static void what_does_not_work_together_is_refused_by_name(void **state) {
    (void)state;
    const struct tide_table_options lfu = {.keys = TIDE_KEYS_HASHED, .key_limit = 10, .evict = TIDE_EVICT_LFU};
    struct tide_table_options o = lfu;
    o.technique = TIDE_RELOCATE;
    refused(o, TIDE_EUNSUPPORTED, "technique static");
    o = lfu;
    o.replicas = 1;
    refused(o, TIDE_EUNSUPPORTED, "replicas = 0");
    o = lfu;
    o.consistency.model = TIDE_BSP;
    refused(o, TIDE_EUNSUPPORTED, "sequential");
    o = lfu;
    o.key_limit = 0;
    refused(o, TIDE_EINVAL, "need a limit");
    o = lfu;
    o.keys = TIDE_KEYS_DENSE;
    o.key_count = 10;
    refused(o, TIDE_EINVAL, "hashed");
    o = lfu;
    o.admit_after = 16;
    refused(o, TIDE_EINVAL, "2 to 15");
    o = lfu;
    o.unused_ns = 5;
    refused(o, TIDE_EINVAL, "1 second");
}

static void options_pass_the_wire(void **state) {
    (void)state;
    struct tide_table_options o = {.name = "w", .keys = TIDE_KEYS_HASHED, .width = 3, .key_limit = 10, .admit_after = 4,
                                   .unused_ns = 2 * TIDE_UNUSED_NS_MIN, .evict = TIDE_EVICT_LFU},
                              back;
    char name[64];
    for (uint32_t run = 0; run < 2; run++) {
        o.run = run;
        assert_int_equal(tide__options_check(&o), 0);
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide__options_write(&w, &o);
        struct tide_reader r;
        tide_reader_init(&r, w.data, w.size);
        assert_int_equal(tide__options_read(&r, &back, name), 0);
        assert_int_equal(tide__options_agree(&o, &back), 0);
        assert_true(back.run == run && back.admit_after == 4 && back.evict == TIDE_EVICT_LFU);
        back.key_limit = 9; /* a limit does not shrink */
        assert_int_equal(tide__options_agree(&o, &back), TIDE_EMISMATCH);
        assert_non_null(strstr(tide_error_message(), "the limit of keys is 10, not 9"));
        tide_writer_release(&w);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 30000, SHARED = 400 };

static void *push_some(void *arg) {
    struct tide_table *table = arg;
    struct tide_random random;
    tide_random_seed(&random, (uint64_t)(uintptr_t)&random);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t key = tide_random_below(&random, SHARED);
        push(table, key);
        const float row = value(table, key + 1);
        assert_true(row >= 0 && row <= (float)THREADS * ROUNDS);
    }
    return NULL;
}

static void threads_evict_what_others_use(void **state) {
    (void)state;
    struct tide_store *store = open_store();
    struct tide_table *table = make(store, (struct tide_table_options){.key_limit = 50, .evict = TIDE_EVICT_LFU});
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, push_some, table), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    uint64_t rows = 0;
    for (uint64_t key = 0; key < SHARED; key++) {
        rows += has_row(table, key);
    }
    assert_int_equal(rows, stats_of(table).rows);
    assert_true(rows <= 50 + THREADS);
    tide_store_destroy(store);
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_admitted_by_its_nth_push),
        cmocka_unit_test(without_eviction_the_limit_refuses_what_is_admitted),
        cmocka_unit_test(an_evicted_key_is_a_new_key),
        cmocka_unit_test(the_less_used_one_goes),
        cmocka_unit_test(entries_move_up_when_one_goes),
        cmocka_unit_test(a_row_expires_after_its_time_and_not_before),
        cmocka_unit_test(an_assigned_row_does_not_expire_at_once),
        cmocka_unit_test(what_goes_during_a_generation_is_kept_for_it),
        cmocka_unit_test(keys_that_went_are_named_once),
        cmocka_unit_test(a_generation_of_changes_knows_all_keys_that_went),
        cmocka_unit_test(a_walk_misses_no_entry_that_moves),
        cmocka_unit_test(hits_come_near_the_least_frequently_used),
        cmocka_unit_test(what_was_popular_once_makes_room),
        cmocka_unit_test(the_same_pushes_keep_the_same_keys),
        cmocka_unit_test(what_does_not_work_together_is_refused_by_name),
        cmocka_unit_test(options_pass_the_wire),
        cmocka_unit_test(threads_evict_what_others_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
