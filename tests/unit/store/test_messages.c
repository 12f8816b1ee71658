/*
 * Messages between store actors, as message.def declares them: bytes that were on the wire before messages had a
 * declaration (messages.golden.h, of simulated clusters) are read and written the same; what is cut short, has a
 * field too many or a number too large is damaged.
 */
#include "tests/unit/store_world.h"

#include "store/core/message.h"

static const struct golden {
    enum tide__op op;
    const char *hex;
} golden[] = {
#define GOLDEN(name, hex) {TIDE__OP_##name, hex},
#include "tests/unit/store/messages.golden.h"
#undef GOLDEN
};

static size_t bytes_of(const char *hex, uint8_t out[4096]) {
    size_t size = strlen(hex) / 2;
    assert_true(size <= 4096);
    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return size;
}

/* As the store actor does. */
static bool read_as(enum tide__op op, const uint8_t *data, size_t size, union tide__message *out) {
    struct tide_reader r;
    tide_reader_init(&r, data, size);
    const size_t fields = tide_read_array(&r);
    return tide_read_uint(&r) == op && !r.error && tide__message_read(op, fields, &r, out) && r.at == r.end;
}

static void bytes_of_before_are_read_and_written_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_COUNT(golden); i++) {
        uint8_t data[4096];
        union tide__message m;
        struct tide_writer w;
        const size_t size = bytes_of(golden[i].hex, data);
        if (!read_as(golden[i].op, data, size, &m)) {
            fail_msg("%s is not read", tide_store_message_name(golden[i].op));
        }
        tide_writer_init(&w, NULL, 0);
        tide__message_write(&w, golden[i].op, &m);
        if (w.error || w.size != size || memcmp(w.data, data, size) != 0) {
            fail_msg("%s is written with other bytes", tide_store_message_name(golden[i].op));
        }
        tide_writer_release(&w);
    }
}

/* TABLE, which carries a table's whole map, has 12 KiB: its fields are those of others. */
static void every_message_with_fields_has_bytes_of_before(void **state) {
    (void)state;
    for (unsigned op = 1; op < TIDE__OP_COUNT; op++) {
        bool there = tide__message_fields((enum tide__op)op) < 0 || op == TIDE__OP_TABLE;
        for (size_t i = 0; i < TIDE_COUNT(golden); i++) {
            there = there || golden[i].op == op;
        }
        if (!there) {
            fail_msg("%s has no line in messages.golden.h", tide_store_message_name(op));
        }
    }
}

static void what_is_cut_short_or_has_a_field_more_is_damaged(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_COUNT(golden); i++) {
        uint8_t data[4096];
        union tide__message m;
        size_t size = bytes_of(golden[i].hex, data);
        for (size_t cut = 0; cut < size; cut++) {
            assert_false(read_as(golden[i].op, data, cut, &m));
        }
        data[0]++; /* an array of one more */
        data[size] = 0;
        assert_false(read_as(golden[i].op, data, size + 1, &m));
    }
}

static void a_number_that_is_too_large_for_its_field_is_damaged(void **state) {
    (void)state;
    static const struct {
        enum tide__op op;
        unsigned place; /* of the field */
        uint64_t most;
    } limits[] = {{TIDE__OP_MEMBERS, 0, UINT16_MAX},
                  {TIDE__OP_TICK, 1, UINT32_MAX},
                  {TIDE__OP_DROP, 1, UINT8_MAX},
                  {TIDE__OP_SEEN, 1, UINT64_MAX}};
    for (size_t i = 0; i < TIDE_COUNT(limits); i++) {
        for (unsigned beyond = 0; beyond < 2 && limits[i].most + beyond >= limits[i].most; beyond++) {
            uint8_t data[64];
            struct tide_writer w;
            union tide__message m;
            const int fields = tide__message_fields(limits[i].op);
            tide_writer_init(&w, data, sizeof data);
            tide_write_array(&w, 1 + (size_t)fields);
            tide_write_uint(&w, limits[i].op);
            for (unsigned f = 0; f < (unsigned)fields; f++) {
                tide_write_uint(&w, f == limits[i].place ? limits[i].most + beyond : 1);
            }
            assert_int_equal(read_as(limits[i].op, w.data, w.size, &m), !beyond);
            tide_writer_release(&w);
        }
    }
}

static void nil_stands_for_a_list_that_is_not_there(void **state) {
    (void)state;
    uint8_t data[64];
    struct tide_writer w;
    union tide__message m;
    const uint32_t positions[2] = {3, 4};
    tide_writer_init(&w, data, sizeof data);
    tide__message_write(&w, TIDE__AS(PASSED, .id = 7, .node = 2, .leg = 1, .positions = TIDE__LIST(positions, 2),
                                     .terms = TIDE__LIST_NONE));
    assert_true(read_as(TIDE__OP_PASSED, w.data, w.size, &m));
    assert_null(m.PASSED.terms.at);
    assert_int_equal(m.PASSED.positions.count, 2);
    assert_int_equal(tide__number_at(m.PASSED.positions.at, 1), 4);
    tide_writer_release(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_before_are_read_and_written_the_same),
        cmocka_unit_test(every_message_with_fields_has_bytes_of_before),
        cmocka_unit_test(what_is_cut_short_or_has_a_field_more_is_damaged),
        cmocka_unit_test(a_number_that_is_too_large_for_its_field_is_damaged),
        cmocka_unit_test(nil_stands_for_a_list_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
