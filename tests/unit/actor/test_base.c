/* The ground floor: error slots, memory, lock, random streams against published vectors,
 * hashing, log, names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/base.h"

#include <errno.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <pthread.h>
#include <string.h>

static void a_failure_leaves_code_and_text(void **state) {
    (void)state;
    assert_int_equal(tide_fail(TIDE_ENOENT, "no table \"%s\"", "w"), TIDE_ENOENT);
    assert_string_equal(tide_error_message(), "no table \"w\"");
    /* its own text as an argument */
    tide_fail(TIDE_EIO, "saving: %s", tide_error_message());
    assert_string_equal(tide_error_message(), "saving: no table \"w\"");
}

static void a_long_failure_text_is_cut(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    tide_fail(TIDE_EIO, "%s", text);
    assert_int_equal(strlen(tide_error_message()), sizeof((struct tide_error_slot *)0)->text - 1);
}

static void each_slot_keeps_its_own_story(void **state) {
    (void)state;
    struct tide_error_slot slot = {0};
    tide_fail(TIDE_EIO, "thread");
    assert_null(tide__error_slot_swap(&slot));
    assert_string_equal(tide_error_message(), "");
    tide_fail(TIDE_EBUSY, "fiber");
    assert_ptr_equal(tide__error_slot_swap(NULL), &slot);
    assert_string_equal(tide_error_message(), "thread");
    assert_string_equal(slot.text, "fiber");
    assert_int_equal(slot.code, TIDE_EBUSY);
}

static void every_code_has_its_name(void **state) {
    (void)state;
    assert_string_equal(tide_error_name(TIDE_EINVAL), "EINVAL");
    assert_string_equal(tide_error_name(TIDE_EBUSY), "EBUSY");
    assert_string_equal(tide_error_name(TIDE_EMISMATCH), "EMISMATCH");
    assert_string_equal(tide_error_name(TIDE_EADDRINUSE), "EADDRINUSE");
    assert_string_equal(tide_error_name(TIDE_ECRASHED), "ECRASHED");
    assert_string_equal(tide_error_name(-1), "E?");
    assert_string_equal(tide_error_name(TIDE_ENOREPLICA), "ENOREPLICA");
    assert_string_equal(tide_error_name(TIDE_EMFILE), "EMFILE");
    assert_string_equal(tide_error_name(TIDE_EMFILE - 1), "E?");
}

static void codes_of_the_system_become_ours(void **state) {
    (void)state;
    assert_int_equal(tide__error_from_errno(-ENOSPC), TIDE_ENOSPC);
    assert_int_equal(tide__error_from_errno(-EIO), TIDE_EIO);
    assert_int_equal(tide__error_from_errno(-EADDRINUSE), TIDE_EADDRINUSE);
    assert_int_equal(tide__error_from_errno(-ECONNREFUSED), TIDE_EUNREACHABLE);
    assert_int_equal(tide__error_from_errno(-ECONNRESET), TIDE_ECLOSED);
    assert_int_equal(tide__error_from_errno(-4095), TIDE_ECLOSED); /* UV_EOF */
    assert_int_equal(tide__error_from_errno(-EXDEV), TIDE_EIO);    /* one we have no word for */
    assert_int_equal(tide__error_from_errno(TIDE_EPROTO), TIDE_EPROTO);
    assert_int_equal(tide__error_from_errno(0), 0);
}

/* Sanitizers abort on a refused allocation unless told otherwise. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

static void memory_that_cannot_be_had_is_an_error(void **state) {
    (void)state;
    tide_fail(0, "%s", "");
    assert_null(tide_alloc_zero(SIZE_MAX / 2, 4));
    assert_non_null(strstr(tide_error_message(), "out of memory"));
    volatile size_t huge = SIZE_MAX / 2;
    assert_null(tide_alloc(huge));
    void *nothing = tide_alloc(0);
    assert_non_null(nothing);
    tide_free(nothing);
    tide_free(NULL);
}

static size_t heap_bytes(void) {
#if defined(__GLIBC__)
    return mallinfo2().arena; /* 0 under the sanitizers, whose malloc is another */
#else
    return 0;
#endif
}

static void aligned_memory_is_aligned(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *memory = tide_alloc_aligned(alignment, 100);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % alignment, 0);
        tide_free(memory);
    }
}

/* What small blocks in between keep apart is used again: kernels take and give back megabytes in
 * every call. */
static void workspaces_do_not_grow_the_heap(void **state) {
    (void)state;
    enum { ROUNDS = 100, FEW = 4, BYTES = 1 << 20 };
    void *kept[ROUNDS][FEW], *workspaces[FEW];
    size_t after_first = 0;
    tide__memory_keep();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < FEW; i++) {
            workspaces[i] = tide_workspace_alloc(BYTES);
            assert_non_null(workspaces[i]);
            assert_int_equal((uintptr_t)workspaces[i] % 64, 0);
            memset(workspaces[i], round, BYTES);
            kept[round][i] = tide_alloc(24 + 16 * (size_t)i);
        }
        for (int i = 0; i < FEW; i++) {
            tide_workspace_free(workspaces[i]);
        }
        after_first = round == 0 ? heap_bytes() : after_first;
    }
    assert_true(heap_bytes() - after_first < 2 * FEW * BYTES);
    for (int i = 0; i < ROUNDS * FEW; i++) {
        tide_free(kept[i / FEW][i % FEW]);
    }
    volatile size_t huge = SIZE_MAX - 8;
    assert_null(tide_workspace_alloc(huge));
    tide_workspace_free(NULL);
}


enum { LOCK_THREADS = 3, LOCK_ROUNDS = 20000 };
static struct tide_lock counter_lock;
static long counter;

static void *count(void *arg) {
    for (int i = 0; i < LOCK_ROUNDS; i++) {
        tide_lock(&counter_lock);
        counter++;
        tide_unlock(&counter_lock);
    }
    return arg;
}

static void the_lock_excludes(void **state) {
    (void)state;
    pthread_t threads[LOCK_THREADS];
    counter = 0;
    for (int i = 0; i < LOCK_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < LOCK_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(counter, LOCK_THREADS * LOCK_ROUNDS);
}

/* xoshiro256++ from state 1, 2, 3, 4: the authors' C code. */
static void streams_match_the_published_generator(void **state) {
    (void)state;
    struct tide_random random = {{1, 2, 3, 4}};
    assert_true(tide_random_next(&random) == UINT64_C(41943041));
    assert_true(tide_random_next(&random) == UINT64_C(58720359));
    assert_true(tide_random_next(&random) == UINT64_C(3588806011781223));
    assert_true(tide_mix64(UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0xe220a8397b1dcdaf));
}

/* Known answers of the Random123 distribution for philox4x32-10. */
static void philox_matches_the_known_answers(void **state) {
    (void)state;
    uint32_t out[4];
    tide_philox(0, 0, 0, out);
    assert_memory_equal(out, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
    tide_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    assert_memory_equal(out, ((uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}), 16);
    tide_philox(UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88),
                UINT64_C(0x0370734413198a2e), out);
    assert_memory_equal(out, ((uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}), 16);
}

static void draws_below_a_limit_are_even(void **state) {
    (void)state;
    struct tide_random random;
    tide_random_seed(&random, 1);
    int seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t x = tide_random_below(&random, 7);
        assert_true(x < 7);
        seen[x]++;
    }
    double sum = 0;
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 9500, 10500); /* sd 93 */
    }
    for (int i = 0; i < 10000; i++) {
        double u = tide_random_uniform(&random);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4800 && sum < 5200);
    assert_true(tide_random_below(&random, 1) == 0);
}

static void hashes_match_the_standards(void **state) {
    (void)state;
    char hex[65];
    tide_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    tide_sha256_hex(NULL, 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    struct tide_sha256 *sum = tide_sha256_begin();
    tide_sha256_add(sum, "a", 1);
    tide_sha256_add(sum, "bc", 2);
    tide_sha256_hex_of(sum, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    tide_sha256_drop(tide_sha256_begin());
    tide_sha256_drop(NULL);
    assert_true(tide_hash(NULL, 0, 0) == UINT64_C(0x2d06800538d394c2)); /* XXH3-64 of nothing */
    assert_true(tide_hash("abc", 3, 1) != tide_hash("abc", 3, 2));
}

static void identifiers_follow_the_rule(void **state) {
    (void)state;
    static const char *const good[] = {"a", "0", "n1", "a.b_c-d", "w0"};
    static const char *const bad[] = {"", "A", ".a", "-a", "_a", "a b", "a/b", "\xc3\xa4", "a\n"};
    for (size_t i = 0; i < TIDE_COUNT(good); i++) {
        assert_true(tide_identifier_valid(good[i]));
    }
    for (size_t i = 0; i < TIDE_COUNT(bad); i++) {
        assert_false(tide_identifier_valid(bad[i]));
    }
    char name[65];
    memset(name, 'a', sizeof name);
    name[63] = '\0';
    assert_true(tide_identifier_valid(name));
    name[63] = 'a';
    name[64] = '\0';
    assert_false(tide_identifier_valid(name));
    assert_false(tide_identifier_valid(NULL));
}

struct record {
    int count;
    enum tide_level level;
    char text[1100];
};

static void keep(void *arg, enum tide_level level, const char *node, const char *text) {
    struct record *record = arg;
    assert_string_equal(node, "n1");
    record->count++;
    record->level = level;
    snprintf(record->text, sizeof record->text, "%s", text);
}

static void a_log_record_is_one_line_at_or_above_the_level(void **state) {
    (void)state;
    struct record record = {0};
    tide_log_set(TIDE_LOG_WARN, keep, &record);
    tide_log(TIDE_LOG_INFO, "n1", "unheard");
    assert_int_equal(record.count, 0);
    tide_log(TIDE_LOG_ERROR, "n1", "peer says \"%s\"", "x\nERROR forged\033[2J");
    assert_int_equal(record.count, 1);
    assert_int_equal(record.level, TIDE_LOG_ERROR);
    assert_string_equal(record.text, "peer says \"x ERROR forged?[2J\"");
    tide_log_set(TIDE_LOG_INFO, NULL, NULL);
}

static void the_newest_log_records_are_kept(void **state) {
    (void)state;
    static struct tide_log_line lines[TIDE_LOG_KEPT + 1];
    struct record record = {0};
    tide_log_set(TIDE_LOG_WARN, keep, &record);
    for (int i = 0; i < TIDE_LOG_KEPT + 9; i++) {
        tide_log(i % 2 == 0 ? TIDE_LOG_WARN : TIDE_LOG_ERROR, "n1", "line %d%0500d", i, 0);
        tide_log(TIDE_LOG_INFO, "n1", "unheard");
    }
    assert_int_equal(tide_log_recent(lines, TIDE_LOG_KEPT + 1), TIDE_LOG_KEPT);
    for (int i = 0; i < TIDE_LOG_KEPT; i++) {
        char begins[20];
        int n = snprintf(begins, sizeof begins, "line %d0", i + 9);
        assert_memory_equal(lines[i].text, begins, (size_t)n);
        assert_int_equal(strlen(lines[i].text), sizeof lines[i].text - 1);
        assert_int_equal(lines[i].level, (i + 9) % 2 == 0 ? TIDE_LOG_WARN : TIDE_LOG_ERROR);
        assert_true(i == 0 || lines[i].number == lines[i - 1].number + 1);
    }
    assert_int_equal(tide_log_recent(lines, 2), 2);
    assert_memory_equal(lines[1].text, "line 264", 8);
    tide_log_set(TIDE_LOG_INFO, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_leaves_code_and_text),
        cmocka_unit_test(a_long_failure_text_is_cut),
        cmocka_unit_test(each_slot_keeps_its_own_story),
        cmocka_unit_test(every_code_has_its_name),
        cmocka_unit_test(codes_of_the_system_become_ours),
        cmocka_unit_test(memory_that_cannot_be_had_is_an_error),
        cmocka_unit_test(aligned_memory_is_aligned),
        cmocka_unit_test(workspaces_do_not_grow_the_heap),
        cmocka_unit_test(the_lock_excludes),
        cmocka_unit_test(streams_match_the_published_generator),
        cmocka_unit_test(philox_matches_the_known_answers),
        cmocka_unit_test(draws_below_a_limit_are_even),
        cmocka_unit_test(hashes_match_the_standards),
        cmocka_unit_test(identifiers_follow_the_rule),
        cmocka_unit_test(a_log_record_is_one_line_at_or_above_the_level),
        cmocka_unit_test(the_newest_log_records_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
