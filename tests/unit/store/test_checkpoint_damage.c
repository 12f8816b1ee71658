/* Checkpoints that are damaged: flipped bits, files that lost their end, generations of other tables,
 * a disk that is full. What is damaged is named, and nothing of it is restored. In the simulator. */
#include "store/core/node_store.h"
#include "checkpoint_world.h"

static void one_generation(struct cluster *c, const char *dir, uint64_t count) {
    struct saving saving = {.options = {.dir = dir, .cut = TIDE_CUT_FUZZY, .full_every = 1}};
    for (uint64_t i = 0; i < count; i++) {
        run_alone(c, 0, save_run, &saving);
        assert_int_equal(saving.info.clock, TIDE_NO_CLOCK);
    }
}

static void fill_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    for (uint64_t k = 0; k < ROWS; k++) {
        float row[WIDTH] = {(float)k, 5, 5, 5};
        CHECK(f, tide_table_push(table, &k, 1, row, NULL) == 0);
    }
}

struct files {
    char names[64][128];
    size_t count;
};

static void note_file(void *arg, const char *name) {
    struct files *files = arg;
    assert_true(files->count < 64);
    snprintf(files->names[files->count++], 128, "%s", name);
}

static void flip(struct tide_port *port, const char *path, uint64_t bit) {
    struct tide_file *file;
    uint8_t byte;
    assert_int_equal(port->ops->file_open(port, path, TIDE_FILE_READ | TIDE_FILE_WRITE, &file), 0);
    assert_int_equal(port->ops->file_read(file, &byte, 1, bit / 8), 1);
    byte = (uint8_t)(byte ^ (1u << (bit % 8)));
    assert_int_equal(port->ops->file_write(file, &byte, 1, bit / 8), 0);
    port->ops->file_close(file);
}

static int verify(struct tide_port *port, const char *dir, uint64_t generation) {
    struct tide__manifest m;
    int code = tide__generation_manifest(port, dir, generation, &m);
    code = code ? code : tide__generation_verify(port, dir, &m);
    tide__manifest_release(&m);
    return code;
}

static void every_flipped_bit_is_detected(void **state) {
    (void)state;
    struct cluster c;
    struct tide_random random;
    tide_random_seed(&random, 5);
    open_cluster(&c, true, 1, 3);
    create(&c, counters(false, false));
    run_alone(&c, 0, fill_run, NULL);
    one_generation(&c, "/tmp/k", 1);
    struct tide_port *port = c.ports[0];
    struct files files = {0};
    assert_int_equal(port->ops->file_list(port, "/tmp/k/000001", note_file, &files), 0);
    assert_int_equal(files.count, 3);
    for (size_t i = 0; i < files.count; i++) {
        char path[256];
        struct tide_file_info info;
        snprintf(path, sizeof path, "/tmp/k/000001/%s", files.names[i]);
        assert_int_equal(port->ops->file_info(port, path, &info), 0);
        for (int n = 0; n < 400; n++) {
            uint64_t bit = tide_random_below(&random, info.size * 8);
            flip(port, path, bit);
            if (verify(port, "/tmp/k", 1) != TIDE_EPROTO ||
                !strstr(tide_error_message(), "/tmp/k")) {
                fail_msg("bit %llu of %s: %s", (unsigned long long)bit, path, tide_error_message());
            }
            flip(port, path, bit);
        }
    }
    assert_int_equal(verify(port, "/tmp/k", 1), 0);
    close_cluster(&c);
}

static void wide_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "wide", &table) == 0);
    float *row = calloc(table->width, sizeof *row);
    for (uint64_t k = 0; k < table->options.key_count; k++) {
        row[k] = 1;
        CHECK(f, tide_table_push(table, &k, 1, row, NULL) == 0);
    }
    free(row);
}

/* The file as its first `size` bytes, for a look. */
static void verify_cut(struct tide_port *port, const char *path, const char *whole, size_t full,
                       size_t size) {
    const int flags = TIDE_FILE_WRITE | TIDE_FILE_TRUNCATE;
    struct tide_file *file;
    assert_int_equal(port->ops->file_open(port, path, flags, &file), 0);
    assert_int_equal(size ? port->ops->file_write(file, whole, size, 0) : 0, 0);
    port->ops->file_close(file);
    if (verify(port, "/tmp/k", 1) != TIDE_EPROTO || !strstr(tide_error_message(), "/tmp/k")) {
        fail_msg("%s cut from %zu to %zu bytes: %s", path, full, size, tide_error_message());
    }
}

/* At every boundary of the blocks that are summed, of a disk's (in what is small), and beside. */
static void a_file_cut_at_any_block_is_detected(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 3);
    create(&c, (struct tide_table_options){.name = "wide", .key_count = 8, .width = 100000});
    run_alone(&c, 0, wide_run, NULL);
    one_generation(&c, "/tmp/k", 1);
    struct tide_port *port = c.ports[0];
    struct files files = {0};
    assert_int_equal(port->ops->file_list(port, "/tmp/k/000001", note_file, &files), 0);
    size_t cuts = 0;
    for (size_t i = 0; i < files.count; i++) {
        char path[256], *whole;
        size_t full;
        snprintf(path, sizeof path, "/tmp/k/000001/%s", files.names[i]);
        assert_int_equal(tide_port_slurp(port, path, 16 << 20, &whole, &full), 0);
        const size_t step = full > TIDE__BLOCK_BYTES ? TIDE__BLOCK_BYTES : full > 4096 ? 4096 : 4;
        for (size_t size = 0; size < full; size += step) {
            for (size_t beside = size ? size - 1 : 0; beside <= size + 1 && beside < full;
                 beside++) {
                verify_cut(port, path, whole, full, beside);
                cuts++;
            }
        }
        struct tide_file *file;
        assert_int_equal(port->ops->file_open(port, path, TIDE_FILE_WRITE, &file), 0);
        assert_int_equal(port->ops->file_write(file, whole, full, 0), 0);
        port->ops->file_close(file);
        tide_free(whole);
        assert_int_equal(verify(port, "/tmp/k", 1), 0);
    }
    assert_true(files.count == 3 && cuts > 12);
    close_cluster(&c);
}

/* A newer damaged generation gives way to the one before, and is named. */
static void the_newest_whole_generation_is_restored(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 4);
    create(&c, counters(false, false));
    run_alone(&c, 0, fill_run, NULL);
    one_generation(&c, "/tmp/k", 3);
    struct tide_port *port = c.ports[0];
    flip(port, "/tmp/k/000003/counters-00001-00000.safetensors", 4000);
    assert_int_equal(port->ops->file_unlink(port, "/tmp/k/000002/MANIFEST.json"), 0);
    struct restoring r = {.dir = "/tmp/k"};
    run_alone(&c, 0, restore_run, &r);
    assert_non_null(strstr(r.text, "generation 3 is skipped"));
    assert_non_null(strstr(r.text, "counters-00001-00000.safetensors': block 1 of 1"));
    assert_null(strstr(r.text, "generation 2"));
    r = (struct restoring){.dir = "/tmp/k", .generation = 3, .wanted = TIDE_EPROTO};
    run_alone(&c, 0, restore_run, &r);
    flip(port, "/tmp/k/000001/MANIFEST.json", 8000);
    r = (struct restoring){.dir = "/tmp/k", .wanted = TIDE_EPROTO};
    run_alone(&c, 0, restore_run, &r);
    r = (struct restoring){.dir = "/tmp/none", .wanted = TIDE_ENOENT};
    run_alone(&c, 0, restore_run, &r);
    close_cluster(&c);
}

static void tables_of_other_options_are_refused(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 4);
    create(&c, counters(false, false));
    one_generation(&c, "/tmp/k", 1);
    char *text, *at;
    size_t size;
    struct tide_port *port = c.ports[0];
    assert_int_equal(tide_port_slurp(port, "/tmp/k/000001/MANIFEST.json", 1 << 20, &text, &size),
                     0);
    struct tide__manifest m;
    assert_int_equal(tide__manifest_parse(text, size, &m), 0);
    tide_free(text);
    m.tables[0].options.width = 8;
    assert_int_equal(tide__manifest_write(&m, NULL, &text, &size), 0);
    assert_int_equal(tide__file_commit(port, "/tmp/k/000001/MANIFEST.json", text, size), 0);
    struct restoring r = {.dir = "/tmp/k", .wanted = TIDE_EMISMATCH};
    run_alone(&c, 0, restore_run, &r);
    assert_non_null(strstr(r.text, "'counters' exists with other options"));
    /* another format: not read, and nothing older is taken for it */
    at = strstr(text, "\"format\":1");
    assert_non_null(at);
    at[9] = '2';
    char sum[9];
    snprintf(sum, sizeof sum, "%08x", (unsigned)tide_crc32c(0, text + 32, size - 34));
    memcpy(text + 11, sum, 8);
    assert_int_equal(tide__file_commit(port, "/tmp/k/000001/MANIFEST.json", text, size), 0);
    r = (struct restoring){.dir = "/tmp/k", .wanted = TIDE_EVERSION};
    run_alone(&c, 0, restore_run, &r);
    tide_free(text);
    tide__manifest_release(&m);
    close_cluster(&c);
}

/* A file cut at a block's end or inside one. */
static void cut_files_are_named(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 9);
    struct tide_port *port = c.ports[0];
    struct tide__blocks *b = calloc(1, sizeof *b);
    char *data = calloc(1, 3 * TIDE__BLOCK_BYTES + 100);
    const uint64_t whole = 3 * TIDE__BLOCK_BYTES + 100;
    tide__blocks_open(b, port, "/tmp/f");
    tide__blocks_write(b, data, whole);
    assert_int_equal(tide__blocks_finish(b), 0);
    assert_int_equal(tide__blocks_verify(port, "/tmp/f", whole, b->sums_size, b->sums_sum), 0);
    for (int block = 3; block >= 0; block--) {
        struct tide_file *file;
        uint64_t size = (uint64_t)block * TIDE__BLOCK_BYTES;
        assert_int_equal(
            port->ops->file_open(port, "/tmp/f", TIDE_FILE_WRITE | TIDE_FILE_TRUNCATE, &file), 0);
        assert_int_equal(size ? port->ops->file_write(file, data, size, 0) : 0, 0);
        port->ops->file_close(file);
        char text[64];
        snprintf(text, sizeof text, "block %d is cut", block + 1);
        assert_int_equal(tide__blocks_verify(port, "/tmp/f", whole, b->sums_size, b->sums_sum),
                         TIDE_EPROTO);
        assert_non_null(strstr(tide_error_message(), text));
    }
    free(data);
    free(b);
    close_cluster(&c);
}

enum { MANY = 4000, WIDE = 64 }; /* a megabyte: more than is written without a pause */

static void fill_many_run(struct fiber *f) {
    static float rows[MANY * WIDE];
    static uint64_t keys[MANY];
    struct tide_table *table;
    for (uint64_t k = 0; k < MANY; k++) {
        keys[k] = k;
    }
    CHECK(f, tide_table_find(f->node, "many", &table) == 0);
    CHECK(f, tide_table_push(table, keys, MANY, rows, NULL) == 0);
}

static void saving_names_the_full_disk(struct cluster *c) {
    struct saving saving = {.options = {.dir = "/tmp/k", .cut = TIDE_CUT_FUZZY, .full_every = 1}};
    struct fiber f;
    start(c, &f, 0, 0, save_run, &saving);
    finish(c, NULL, 0);
    assert_int_equal(saving.code, TIDE_ENOSPC);
    assert_non_null(strstr(f.failure, "no space left for '/tmp/k"));
}

static void a_disk_that_is_full_in_mid_file_is_named(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 6);
    create(&c, (struct tide_table_options){.name = "many", .key_count = MANY, .width = WIDE});
    run_alone(&c, 0, fill_many_run, NULL);
    tide_sim_set_disk(c.sim, "n1", &(struct tide_sim_disk){.capacity = 300000});
    saving_names_the_full_disk(&c);
    close_cluster(&c);
}

/* A full disk fails the generation, and leaves nothing of it. */
static void a_full_disk_fails_the_generation_alone(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 6);
    create(&c, counters(false, false));
    run_alone(&c, 0, fill_run, NULL);
    one_generation(&c, "/tmp/k", 1);
    struct tide_sim_disk disk = {.capacity = 14000};
    tide_sim_set_disk(c.sim, "n1", &disk);
    saving_names_the_full_disk(&c);
    struct files files = {0};
    assert_int_equal(c.ports[0]->ops->file_list(c.ports[0], "/tmp/k", note_file, &files), 0);
    assert_int_equal(files.count, 1);
    disk.capacity = 0;
    tide_sim_set_disk(c.sim, "n1", &disk);
    one_generation(&c, "/tmp/k", 4); /* the next is a full one, and old ones go */
    files.count = 0;
    assert_int_equal(c.ports[0]->ops->file_list(c.ports[0], "/tmp/k", note_file, &files), 0);
    assert_int_equal(files.count, 3);
    close_cluster(&c);
}

static void sums_agree_with_the_standard(void **state) {
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    assert_int_equal(tide_crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(tide__crc32c_table(0, "123456789", 9), 0xe3069283u);
    for (size_t n = 0; n < sizeof bytes; n++) {
        uint32_t sum = tide__crc32c_table(0, bytes, n);
        assert_int_equal(tide_crc32c(0, bytes, n), sum);
        assert_int_equal(tide_crc32c(tide_crc32c(0, bytes, n / 3), bytes + n / 3, n - n / 3), sum);
    }
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_the_standard),
        cmocka_unit_test(every_flipped_bit_is_detected),
        cmocka_unit_test(a_file_cut_at_any_block_is_detected),
        cmocka_unit_test(the_newest_whole_generation_is_restored),
        cmocka_unit_test(tables_of_other_options_are_refused),
        cmocka_unit_test(cut_files_are_named),
        cmocka_unit_test(a_full_disk_fails_the_generation_alone),
        cmocka_unit_test(a_disk_that_is_full_in_mid_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
