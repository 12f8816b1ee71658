/* The control store: its state, its entries, and the journal under every truncation and flipped
 * byte. */
#include "control/control.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int outcome;

static void done(void *arg, int code) {
    (void)arg;
    outcome = code;
}

static int put(struct tide_control *c, const char *key, const char *value) {
    outcome = 1;
    c->ops->put(c, &(struct tide_control_put){key, value, value ? strlen(value) : 0}, 1, done,
                NULL);
    return outcome;
}

static const char *value_of(const struct tide_control_state *state, const char *key) {
    static char text[64];
    const struct tide_control_pair *pair = tide_control_get(state, key);
    if (!pair) {
        return NULL;
    }
    memcpy(text, pair->value, pair->size);
    text[pair->size] = 0;
    return text;
}

/* ---- the state ---- */

static void keys_are_kept_in_order_and_found_by_prefix(void **unused) {
    (void)unused;
    struct tide_control *c;
    assert_int_equal(tide_control_open(NULL, NULL, "t", &c), 0);
    uint64_t term;
    assert_int_equal(c->ops->campaign(c, &term), 0);
    assert_int_equal(term, 1);
    assert_int_equal(put(c, "member/2", "b"), 0);
    assert_int_equal(put(c, "member/1", "a"), 0);
    assert_int_equal(put(c, "view", "7"), 0);
    assert_int_equal(put(c, "member/2", "bb"), 0);
    const struct tide_control_pair *pair = tide_control_list(&c->state, "member/", NULL);
    assert_string_equal(pair->key, "member/1");
    pair = tide_control_list(&c->state, "member/", pair);
    assert_string_equal(pair->key, "member/2");
    assert_int_equal(pair->size, 2);
    assert_null(tide_control_list(&c->state, "member/", pair));
    assert_null(tide_control_list(&c->state, "table/", NULL));
    assert_int_equal(put(c, "member/1", NULL), 0);
    assert_null(tide_control_get(&c->state, "member/1"));
    assert_int_equal(c->state.count, 2);
    assert_int_equal(c->state.bytes, strlen("member/2") + 2 + strlen("view") + 1);
    c->ops->destroy(c);
}

static int apply(struct tide_control_state *state, uint64_t term, uint64_t index,
                 const struct tide_control_put *puts, size_t count, size_t cut) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_entry_write(&w, term, index, puts, count);
    int code = tide_control_apply(state, w.data, w.size - cut);
    tide_writer_release(&w);
    return code;
}

static void an_entry_that_does_not_follow_changes_nothing(void **unused) {
    (void)unused;
    struct tide_control_state state = {0};
    const struct tide_control_put one = {"a", "1", 1}, other = {"a", "2", 1}, bad = {"", "3", 1};
    const struct tide_control_put half[] = {{"b", "4", 1}, {"", "5", 1}};
    assert_int_equal(apply(&state, 2, 1, &one, 1, 0), 0);
    assert_int_equal(apply(&state, 2, 1, &other, 1, 0), TIDE_EPROTO); /* a second time */
    assert_int_equal(apply(&state, 2, 3, &other, 1, 0), TIDE_EPROTO); /* a gap */
    assert_int_equal(apply(&state, 1, 2, &other, 1, 0), TIDE_EPROTO); /* an older term */
    assert_int_equal(apply(&state, 2, 2, &other, 1, 1), TIDE_EPROTO); /* cut off */
    assert_int_equal(apply(&state, 2, 2, &bad, 1, 0), TIDE_EPROTO);
    assert_int_equal(apply(&state, 2, 2, half, 2, 0), TIDE_EPROTO); /* no half of it either */
    assert_int_equal(state.count, 1);
    assert_int_equal(state.index, 1);
    assert_string_equal(value_of(&state, "a"), "1");
    assert_int_equal(apply(&state, 3, 2, &other, 1, 0), 0);
    assert_string_equal(value_of(&state, "a"), "2");
    tide_control_state_release(&state);
}

/* ---- the journal ---- */

struct disk {
    struct tide_port *port;
    char directory[64], path[96];
};

static int open_disk(void **state) {
    struct disk *d = calloc(1, sizeof *d);
    strcpy(d->directory, "/tmp/tide-control-XXXXXX");
    assert_non_null(mkdtemp(d->directory));
    snprintf(d->path, sizeof d->path, "%s/control.journal", d->directory);
    assert_int_equal(tide_port_real_create(1, &d->port), 0);
    *state = d;
    return 0;
}

static int close_disk(void **state) {
    struct disk *d = *state;
    char path[96];
    unlink(d->path);
    snprintf(path, sizeof path, "%s/lock", d->directory);
    unlink(path);
    rmdir(d->directory);
    d->port->ops->destroy(d->port);
    free(d);
    return 0;
}

static struct tide_control *open_journal(struct disk *d) {
    struct tide_control *c = NULL;
    if (tide_control_open(d->port, d->directory, "t", &c)) {
        fail_msg("%s", tide_error_message());
    }
    return c;
}

static size_t read_all(struct disk *d, uint8_t **data) {
    struct tide_file_info info;
    struct tide_file *file;
    assert_int_equal(d->port->ops->file_info(d->port, d->path, &info), 0);
    assert_int_equal(d->port->ops->file_open(d->port, d->path, TIDE_FILE_READ, &file), 0);
    *data = malloc(info.size + 1);
    assert_int_equal(d->port->ops->file_read(file, *data, info.size, 0), info.size);
    d->port->ops->file_close(file);
    return info.size;
}

static void write_all(struct disk *d, const uint8_t *data, size_t size) {
    struct tide_file *file;
    int flags = TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE;
    assert_int_equal(d->port->ops->file_open(d->port, d->path, flags, &file), 0);
    assert_int_equal(d->port->ops->file_write(file, data, size, 0), 0);
    d->port->ops->file_close(file);
}

/* Ten decisions in two terms: number i puts "n" = i. Leaves the file. */
static void ten_decisions(struct disk *d) {
    struct tide_control *c = open_journal(d);
    uint64_t term;
    char text[8];
    assert_int_equal(c->ops->campaign(c, &term), 0);
    for (int i = 1; i <= 10; i++) {
        if (i == 6) {
            assert_int_equal(c->ops->campaign(c, &term), 0);
        }
        snprintf(text, sizeof text, "%d", i);
        assert_int_equal(put(c, "n", text), 0);
    }
    assert_int_equal(term, 2);
    c->ops->destroy(c);
}

static void a_reopened_journal_has_every_decision_and_a_higher_term(void **state) {
    struct disk *d = *state;
    ten_decisions(d);
    struct tide_control *c = open_journal(d);
    uint64_t term;
    assert_string_equal(value_of(&c->state, "n"), "10");
    assert_int_equal(c->state.index, 12);
    assert_int_equal(c->ops->campaign(c, &term), 0);
    assert_int_equal(term, 3);
    c->ops->destroy(c);
}

static void a_torn_end_costs_the_last_decision_alone(void **state) {
    struct disk *d = *state;
    uint8_t *data;
    ten_decisions(d);
    size_t size = read_all(d, &data);
    uint64_t before = 0;
    for (size_t cut = 0; cut <= size; cut++) {
        struct tide_control_state s;
        size_t good;
        int code = tide_control_journal_parse(data, cut, &s, &good);
        if (code) {
            assert_int_equal(before, 0); /* not even the first record is whole */
            continue;
        }
        assert_true(s.index >= before && s.index <= before + 1 && good <= cut);
        before = s.index;
        tide_control_state_release(&s);
    }
    assert_int_equal(before, 12);
    write_all(d, data, size - 3);
    struct tide_control *c = open_journal(d);
    assert_string_equal(value_of(&c->state, "n"), "9");
    assert_int_equal(put(c, "n", "11"), 0); /* goes where the torn one was */
    c->ops->destroy(c);
    c = open_journal(d);
    assert_string_equal(value_of(&c->state, "n"), "11");
    c->ops->destroy(c);
    free(data);
}

static void a_flipped_bit_is_refused_unless_it_looks_like_a_torn_end(void **state) {
    struct disk *d = *state;
    uint8_t *data;
    ten_decisions(d);
    size_t size = read_all(d, &data);
    unsigned refused = 0, torn = 0;
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct tide_control_state s;
            size_t good;
            data[at] ^= (uint8_t)(1u << bit);
            int code = tide_control_journal_parse(data, size, &s, &good);
            data[at] ^= (uint8_t)(1u << bit);
            if (code) {
                refused++;
            } else if (good < size) {
                assert_int_equal(s.index, 11); /* the last record and no other */
                assert_string_equal(value_of(&s, "n"), "9");
                torn++;
                tide_control_state_release(&s);
            } else {
                assert_true(at >= 12 && at < 16); /* the unused word of the header */
                tide_control_state_release(&s);
            }
        }
    }
    assert_true(refused > torn && torn > 0);
    data[8] = 9;
    write_all(d, data, size);
    struct tide_control *c;
    assert_int_equal(tide_control_open(d->port, d->directory, "t", &c), TIDE_EVERSION);
    assert_non_null(strstr(tide_error_message(), "version 9"));
    free(data);
}

static void two_processes_cannot_have_one_journal(void **state) {
    struct disk *d = *state;
    struct tide_control *c = open_journal(d), *other;
    assert_int_equal(tide_control_open(d->port, d->directory, "t", &other), TIDE_EBUSY);
    c->ops->destroy(c);
    c = open_journal(d);
    c->ops->destroy(c);
}

static void a_journal_stays_small(void **state) {
    struct disk *d = *state;
    struct tide_control *c = open_journal(d);
    char big[4096] = {0};
    uint64_t term;
    assert_int_equal(c->ops->campaign(c, &term), 0);
    memset(big, 'x', sizeof big - 1);
    for (int i = 0; i < 400; i++) {
        big[0] = (char)('a' + i % 26);
        assert_int_equal(put(c, "big", big), 0);
    }
    c->ops->destroy(c);
    struct tide_file_info info;
    assert_int_equal(d->port->ops->file_info(d->port, d->path, &info), 0);
    assert_true(info.size < 400 << 10);
    c = open_journal(d);
    assert_int_equal(c->state.index, 401);
    assert_int_equal(tide_control_get(&c->state, "big")->size, sizeof big - 1);
    c->ops->destroy(c);
}

/* A disk that is full, or gone. */
static int failing_sync(struct tide_file *file) {
    (void)file;
    return tide_fail(TIDE_EFULL, "no space");
}

static void a_decision_that_cannot_be_written_is_the_last(void **state) {
    struct disk *d = *state;
    struct tide_control *c = open_journal(d);
    const struct tide_port_ops *good = d->port->ops;
    struct tide_port_ops bad = *good;
    uint64_t term;
    bad.file_sync = failing_sync;
    assert_int_equal(c->ops->campaign(c, &term), 0);
    d->port->ops = &bad;
    assert_int_equal(put(c, "n", "1"), TIDE_EFULL);
    d->port->ops = good;
    assert_null(tide_control_get(&c->state, "n"));
    assert_int_equal(put(c, "n", "2"), TIDE_ECLOSED);
    c->ops->destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_kept_in_order_and_found_by_prefix),
        cmocka_unit_test(an_entry_that_does_not_follow_changes_nothing),
        cmocka_unit_test_setup_teardown(a_reopened_journal_has_every_decision_and_a_higher_term,
                                        open_disk, close_disk),
        cmocka_unit_test_setup_teardown(a_torn_end_costs_the_last_decision_alone, open_disk,
                                        close_disk),
        cmocka_unit_test_setup_teardown(a_flipped_bit_is_refused_unless_it_looks_like_a_torn_end,
                                        open_disk, close_disk),
        cmocka_unit_test_setup_teardown(two_processes_cannot_have_one_journal, open_disk,
                                        close_disk),
        cmocka_unit_test_setup_teardown(a_journal_stays_small, open_disk, close_disk),
        cmocka_unit_test_setup_teardown(a_decision_that_cannot_be_written_is_the_last, open_disk,
                                        close_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
