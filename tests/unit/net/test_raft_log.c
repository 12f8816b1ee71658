/* The logs of controllers on disk: what is read of them again, whole, torn, damaged, overruled, or of
 * processes that live. */
#include "control/raft_log.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DECISIONS = 6 };

static struct tide_port *port;
static char directory[64];

static int open_disk(void **unused) {
    (void)unused;
    strcpy(directory, "/tmp/tide-raft_log-XXXXXX");
    assert_non_null(mkdtemp(directory));
    return tide_port_real_create(7, &port);
}

static void unlink_entry(void *arg, const char *name) {
    char path[200];
    (void)arg;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    (void)unlink(path);
}

static int close_disk(void **unused) {
    (void)unused;
    (void)port->ops->file_list(port, directory, unlink_entry, NULL);
    (void)rmdir(directory);
    port->ops->destroy(port);
    return 0;
}

/* Decision number i of a term puts "n" = i. */
static void decide(struct tide_raft_log *h, uint64_t term, unsigned i) {
    char text[8];
    snprintf(text, sizeof text, "%u", i);
    struct tide_control_put put = {.key = "n", .value = text, .size = strlen(text)};
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_entry_write(&w, 1, i, &put, 1);
    assert_int_equal(tide_raft_log_append(h, term, TIDE_RAFT_LOG_DECISION, w.data, w.size), 0);
    tide_writer_release(&w);
    assert_int_equal(tide_raft_log_sync(h), 0);
}

/* A log that begins empty at index 10, of term 1. */
static struct tide_raft_log *begin(uint16_t id, const uint16_t *voters, size_t count) {
    struct tide_raft_log *h;
    struct tide_writer w;
    struct tide_raft_log_start start = {.index = 10, .term = 1, .voter_count = count};
    memcpy(start.voters, voters, count * sizeof *voters);
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, &(struct tide_control_state){0});
    start.state = w.data;
    start.size = w.size;
    assert_int_equal(tide_raft_log_open(port, directory, id, &h), 0);
    assert_int_equal(tide_raft_log_begin(h, &start, false), 0);
    tide_writer_release(&w);
    return h;
}

static void write_log(uint16_t id, const uint16_t *voters, size_t count, unsigned decisions) {
    struct tide_raft_log *h = begin(id, voters, count);
    for (unsigned i = 1; i <= decisions; i++) {
        decide(h, 1, i);
    }
    tide_raft_log_close(h);
}

/* The last decision in a state; 0: none. */
static unsigned last_of(const struct tide_control_state *state) {
    const struct tide_control_pair *pair = tide_control_get(state, "n");
    return pair != NULL ? (unsigned)((const char *)pair->value)[0] - '0' : 0;
}

static unsigned recovered(uint64_t *index) {
    struct tide_raft_logs all;
    assert_int_equal(tide_raft_logs_open(port, directory, "t", &all), 0);
    const unsigned last = last_of(&all.state);
    *index = all.index;
    tide_raft_logs_release(port, &all);
    return last;
}

static const uint16_t alone[] = {7}, three[] = {7, 8, 9};

static void an_empty_directory_is_a_first_start(void **unused) {
    (void)unused;
    uint64_t index;
    assert_int_equal(recovered(&index), 0);
    assert_int_equal(index, 0);
}

static void what_was_appended_is_there_again(void **unused) {
    (void)unused;
    uint64_t index;
    write_log(7, alone, 1, DECISIONS);
    assert_int_equal(recovered(&index), DECISIONS);
    assert_int_equal(index, 10 + DECISIONS);
    write_log(7, alone, 1, 2); /* another life of that id begins anew */
    assert_int_equal(recovered(&index), 2);
}

static size_t read_file(uint8_t *data, size_t size) {
    char path[200];
    snprintf(path, sizeof path, "%s/holder-00007.log", directory);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size = fread(data, 1, size, f);
    fclose(f);
    return size;
}

static void a_torn_end_costs_the_entries_that_it_tears(void **unused) {
    (void)unused;
    static uint8_t data[4096];
    write_log(7, alone, 1, DECISIONS);
    const size_t size = read_file(data, sizeof data);
    unsigned most = 0;
    for (size_t end = 16; end <= size; end++) {
        struct tide_raft_log_content log;
        size_t good;
        assert_int_equal(tide_raft_log_parse(data, end, &log, &good), 0);
        assert_true(good <= end && last_of(&log.state) >= most && last_of(&log.state) <= most + 1);
        most = last_of(&log.state);
        assert_int_equal(log.index, log.voter_count > 0 ? 10 + most : 0);
        tide_raft_log_content_release(&log);
    }
    assert_int_equal(most, DECISIONS);
}

static void a_flipped_bit_is_refused_unless_it_looks_like_a_torn_end(void **unused) {
    (void)unused;
    static uint8_t data[4096];
    write_log(7, alone, 1, DECISIONS);
    const size_t size = read_file(data, sizeof data);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        struct tide_raft_log_content log;
        size_t good;
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (tide_raft_log_parse(data, size, &log, &good) == 0) {
            const bool padding = bit >= 8 * 12 && bit < 8 * 16;
            assert_true(padding || last_of(&log.state) == DECISIONS - 1);
            tide_raft_log_content_release(&log);
        }
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void the_furthest_of_a_majority_counts(void **unused) {
    (void)unused;
    uint64_t index;
    write_log(7, three, 3, 2);
    write_log(8, three, 3, 5);
    assert_int_equal(recovered(&index), 5);
    struct tide_raft_log *h = begin(9, three, 3); /* shorter, and of a later term */
    decide(h, 1, 1);
    decide(h, 2, 2);
    tide_raft_log_close(h);
    assert_int_equal(recovered(&index), 2);
    assert_int_equal(index, 12);
}

static void an_entry_that_is_overruled_has_no_effect(void **unused) {
    (void)unused;
    uint64_t index;
    struct tide_raft_log *h = begin(7, alone, 1);
    for (unsigned i = 1; i <= 5; i++) {
        decide(h, 1, i);
    }
    tide_raft_log_truncate(h, 13);
    decide(h, 2, 3);
    tide_raft_log_close(h);
    assert_int_equal(recovered(&index), 3);
    assert_int_equal(index, 13);
}

static void a_snapshot_takes_the_place_of_what_is_in_it(void **unused) {
    (void)unused;
    struct tide_control_state state = {0};
    uint64_t index;
    struct tide_raft_log *h = begin(7, alone, 1);
    for (unsigned i = 1; i <= 4; i++) {
        decide(h, 1, i);
    }
    state.term = 1;
    state.index = 3;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, &state);
    struct tide_raft_log_start start = {
        .index = 13, .term = 1, .voters = {7}, .voter_count = 1, .state = w.data, .size = w.size};
    assert_int_equal(tide_raft_log_begin(h, &start, true), 0);
    decide(h, 1, 5);
    tide_raft_log_close(h);
    assert_int_equal(recovered(&index), 5);
    assert_int_equal(index, 15);
    h = begin(7, alone, 1);
    decide(h, 1, 1);
    assert_int_equal(tide_raft_log_begin(h, &start, false), 0); /* of another node: nothing stays */
    tide_raft_log_close(h);
    assert_int_equal(recovered(&index), 0);
    assert_int_equal(index, 13);
    tide_writer_release(&w);
}

static void a_minority_or_a_living_process_is_refused(void **unused) {
    (void)unused;
    struct tide_raft_logs all;
    write_log(7, three, 3, 3);
    assert_int_equal(tide_raft_logs_open(port, directory, "t", &all), TIDE_EBUSY);
    struct tide_raft_log *lives = begin(8, three, 3);
    assert_int_equal(tide_raft_logs_open(port, directory, "t", &all), TIDE_EBUSY);
    tide_raft_log_close(lives);
    assert_int_equal(tide_raft_logs_open(port, directory, "t", &all), 0);
    assert_int_equal(all.count, 2);
    struct tide_raft_logs second;
    assert_int_equal(tide_raft_logs_open(port, directory, "t", &second), TIDE_EBUSY);
    tide_raft_logs_remove(port, directory, &all);
    tide_raft_logs_release(port, &all);
    uint64_t index;
    assert_int_equal(recovered(&index), 0);
}

#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, open_disk, close_disk)

int main(void) {
    tide_log_set(TIDE_LOG_ERROR + 1, NULL, NULL);
    const struct CMUnitTest tests[] = {
        ON_DISK(an_empty_directory_is_a_first_start),
        ON_DISK(what_was_appended_is_there_again),
        ON_DISK(a_torn_end_costs_the_entries_that_it_tears),
        ON_DISK(a_flipped_bit_is_refused_unless_it_looks_like_a_torn_end),
        ON_DISK(the_furthest_of_a_majority_counts),
        ON_DISK(an_entry_that_is_overruled_has_no_effect),
        ON_DISK(a_snapshot_takes_the_place_of_what_is_in_it),
        ON_DISK(a_minority_or_a_living_process_is_refused),
    };
    return cmocka_run_group_tests_name("raft_log", tests, NULL, NULL);
}
