/* Tables in files: saved, loaded onto another number of nodes, and what is damaged refused. */
#include "store_world.h"

enum { FILE_KEYS = 900, FILE_WIDTH = 3 };

struct files {
    const char *path, *copy;
    struct tide_table_options options;
    float rows[FILE_KEYS * FILE_WIDTH];
};

static void file_keys(const struct files *files, uint64_t *keys) {
    for (uint64_t i = 0; i < FILE_KEYS; i++) {
        keys[i] = files->options.keys == TIDE_KEYS_HASHED ? tide_mix64(i + 1) : i;
    }
}

static void save_run(struct fiber *f) {
    struct files *files = f->arg;
    struct tide_table *table;
    uint64_t keys[FILE_KEYS];
    CHECK(f, tide_table_create(f->node, &files->options, &table) == 0);
    file_keys(files, keys);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < FILE_KEYS; i++) {
            float row[FILE_WIDTH] = {(float)i, (float)(round + 1), 0.5f};
            if (i % 3 != 1 || files->options.init == TIDE_INIT_ZERO) { /* some stay untouched */
                CHECK(f, tide_table_push(table, keys + i, 1, row, NULL) == 0);
            }
        }
    }
    CHECK(f, tide_table_pull(table, keys, FILE_KEYS, files->rows, NULL) == 0);
    CHECK(f, tide_table_save(table, files->path) == 0);
    CHECK(f, tide_table_save(table, "/nowhere/at/all") < 0);
}

static void load_run(struct fiber *f) {
    struct files *files = f->arg;
    struct tide_table *table;
    uint64_t keys[FILE_KEYS];
    static float rows[FILE_KEYS * FILE_WIDTH];
    CHECK(f, tide_table_create(f->node, &files->options, &table) == 0);
    file_keys(files, keys);
    float junk[FILE_WIDTH] = {5, 5, 5};
    CHECK(f, tide_table_push(table, keys + 1, 1, junk, NULL) ==
                 0); /* replaced by what the file says */
    CHECK(f, tide_table_load(table, files->path) == 0);
    CHECK(f, tide_table_pull(table, keys, FILE_KEYS, rows, NULL) == 0);
    CHECK(f, memcmp(rows, files->rows, sizeof rows) == 0);
    CHECK(f, tide_table_save(table, files->copy) == 0);
    struct tide_table_options other = files->options;
    other.name = "other";
    other.update = other.update == TIDE_UPDATE_SGD ? TIDE_UPDATE_ADD : TIDE_UPDATE_SGD;
    CHECK(f, tide_table_create(f->node, &other, &table) == 0);
    CHECK(f, tide_table_load(table, files->path) == TIDE_EMISMATCH);
    other = files->options;
    other.name = "wide";
    other.width++;
    CHECK(f, tide_table_create(f->node, &other, &table) == 0);
    CHECK(f, tide_table_load(table, files->path) == TIDE_EMISMATCH);
    CHECK(f, tide_table_load(table, "/nowhere/at/all") == TIDE_ENOENT);
}

static void tables_are_saved_and_loaded(struct tide_table_options options) {
    struct cluster a, b;
    struct files *files = calloc(1, sizeof *files);
    char path[128], copy[128];
    open_cluster(&a, false, 3, 1);
    snprintf(path, sizeof path, "%s/table.safetensors", a.directory);
    snprintf(copy, sizeof copy, "%s/copy.safetensors", a.directory);
    options.name = "kept";
    options.width = FILE_WIDTH;
    *files = (struct files){.path = path, .copy = copy, .options = options};
    run_alone(&a, 1, save_run, files);
    open_cluster(&b, false, 2, 1);
    run_alone(&b, 1, load_run, files);
    char *x, *y;
    size_t x_size, y_size;
    assert_int_equal(tide_port_slurp(b.ports[0], path, SIZE_MAX, &x, &x_size), 0);
    assert_int_equal(tide_port_slurp(b.ports[0], copy, SIZE_MAX, &y, &y_size), 0);
    assert_int_equal(x_size, y_size);
    assert_memory_equal(x, y, x_size); /* who held the rows does not show; state is in it too */
    tide_free(x);
    tide_free(y);
    free(files);
    close_cluster(&b);
    close_cluster(&a);
}

static void tables_are_saved_and_loaded_onto_another_number_of_nodes(void **state) {
    (void)state;
    tables_are_saved_and_loaded((struct tide_table_options){.key_count = FILE_KEYS,
                                                            .update = TIDE_UPDATE_ADAM,
                                                            .lr = 0.1f,
                                                            .init = TIDE_INIT_NORMAL,
                                                            .init_a = 1,
                                                            .seed = 3});
    tables_are_saved_and_loaded((struct tide_table_options){.key_count = FILE_KEYS,
                                                            .update = TIDE_UPDATE_MOMENTUM,
                                                            .lr = 0.1f,
                                                            .beta1 = 0.7f});
    tables_are_saved_and_loaded(
        (struct tide_table_options){.key_count = FILE_KEYS}); /* complete: no keys in the file */
    tables_are_saved_and_loaded((struct tide_table_options){.keys = TIDE_KEYS_HASHED,
                                                            .update = TIDE_UPDATE_ADAGRAD,
                                                            .lr = 0.1f,
                                                            .init = TIDE_INIT_UNIFORM,
                                                            .init_b = 1});
}

static void damage_run(struct fiber *f) {
    struct files *files = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &files->options, &table) == 0);
    CHECK(f, tide_table_load(table, files->path) < 0);
    CHECK(f, tide_table_load(table, files->copy) == 0);
}

static void a_damaged_file_is_refused_before_anything_changes(void **state) {
    (void)state;
    struct cluster c;
    struct files *files = calloc(1, sizeof *files);
    char path[128], copy[128];
    open_cluster(&c, false, 1, 1);
    snprintf(path, sizeof path, "%s/cut", c.directory);
    snprintf(copy, sizeof copy, "%s/whole", c.directory);
    *files =
        (struct files){.path = copy,
                       .copy = path,
                       .options = {.name = "kept", .width = FILE_WIDTH, .keys = TIDE_KEYS_HASHED}};
    run_alone(&c, 0, save_run, files);
    char *data;
    size_t size;
    struct tide_port *port = c.ports[0];
    assert_int_equal(tide_port_slurp(port, copy, SIZE_MAX, &data, &size), 0);
    files->path = path;
    files->copy = copy;
    for (size_t cut = 0; cut < size; cut += 1 + size / 40) {
        struct tide_file *file;
        assert_int_equal(
            port->ops->file_open(port, path,
                                 TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE, &file),
            0);
        assert_int_equal(port->ops->file_write(file, data, cut, 0), 0);
        port->ops->file_close(file);
        run_alone(&c, 0, damage_run, files);
    }
    tide_free(data);
    free(files);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_saved_and_loaded_onto_another_number_of_nodes),
        cmocka_unit_test(a_damaged_file_is_refused_before_anything_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
