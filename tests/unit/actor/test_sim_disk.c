/* What a simulated disk keeps over a crash, and how it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "port/port.h"

#include <string.h>

enum { BLOCK = 4096, BLOCKS = 8, SEEDS = 200 };

struct disk {
    struct tide_sim *sim;
    struct tide_port *port;
    unsigned crashes;
};

static void count_crash(void *arg, const char *node) {
    assert_string_equal(node, "a");
    ((struct disk *)arg)->crashes++;
}

static void disk_open(struct disk *d, uint64_t seed) {
    *d = (struct disk){0};
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &d->sim), 0);
    assert_int_equal(tide_sim_port(d->sim, "a", &d->port), 0);
    tide_sim_on_crash(d->sim, count_crash, d);
}

static void disk_close(struct disk *d) {
    d->port->ops->destroy(d->port);
    tide_sim_destroy(d->sim);
}

static void new_life(struct disk *d) {
    d->port->ops->destroy(d->port);
    assert_int_equal(tide_sim_port(d->sim, "a", &d->port), 0);
}

static struct tide_file *file(struct disk *d, const char *path) {
    struct tide_file *f;
    assert_int_equal(
        d->port->ops->file_open(d->port, path,
                                TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f),
        0);
    return f;
}

static bool exists(struct disk *d, const char *path) {
    struct tide_file_info info;
    return d->port->ops->file_info(d->port, path, &info) == 0;
}

static void fill(struct disk *d, struct tide_file *f, uint8_t byte) {
    uint8_t bytes[BLOCKS * BLOCK];
    memset(bytes, byte, sizeof bytes);
    assert_int_equal(d->port->ops->file_write(f, bytes, sizeof bytes, 0), 0);
}

static int save(struct disk *d, const char *path, uint8_t byte, bool sync) {
    const struct tide_port_ops *ops = d->port->ops;
    struct tide_file *f;
    int code = ops->file_open(d->port, "/tmp/new", TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f);
    if (code < 0) {
        return code;
    }
    uint8_t bytes[3 * BLOCK];
    memset(bytes, byte, sizeof bytes);
    code = ops->file_write(f, bytes, sizeof bytes, 0);
    code = code == 0 && sync ? ops->file_sync(f) : code;
    ops->file_close(f);
    return code == 0 ? ops->file_rename(d->port, "/tmp/new", path) : code;
}

static void blocks_that_are_not_synced_are_kept_lost_or_torn(void **state) {
    (void)state;
    unsigned kept = 0, lost = 0, torn = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct disk d;
        disk_open(&d, seed);
        struct tide_file *f = file(&d, "/tmp/x");
        fill(&d, f, 1);
        assert_int_equal(d.port->ops->file_sync(f), 0);
        assert_int_equal(d.port->ops->directory_sync(d.port, "/tmp"), 0);
        fill(&d, f, 2);
        d.port->ops->file_close(f);
        tide_sim_crash(d.sim, "a");
        new_life(&d);
        uint8_t bytes[BLOCKS * BLOCK];
        f = file(&d, "/tmp/x");
        assert_int_equal(d.port->ops->file_read(f, bytes, sizeof bytes, 0), sizeof bytes);
        d.port->ops->file_close(f);
        for (size_t b = 0; b < BLOCKS; b++) {
            const uint8_t *block = bytes + b * BLOCK, *old = memchr(block, 1, BLOCK);
            size_t fresh = old ? (size_t)(old - block) : BLOCK;
            assert_int_equal(fresh % 512, 0);
            for (size_t i = 0; i < BLOCK; i++) {
                assert_int_equal(block[i], i < fresh ? 2 : 1);
            }
            kept += fresh == BLOCK;
            lost += fresh == 0;
            torn += fresh > 0 && fresh < BLOCK;
        }
        disk_close(&d);
    }
    assert_true(kept > SEEDS && lost > SEEDS && torn > SEEDS);
}

static void what_is_synced_and_renamed_survives_and_nothing_else_must(void **state) {
    (void)state;
    unsigned unnamed = 0, damaged = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct disk d;
        disk_open(&d, seed);
        d.port->ops->file_close(file(&d, "/tmp/nobody"));
        assert_int_equal(save(&d, "/home/good", 3, true), 0);
        assert_int_equal(save(&d, "/home/bad", 4, false), 0);
        tide_sim_crash(d.sim, "a");
        assert_int_equal(d.port->ops->file_rename(d.port, "/home/good", "/home/x"), TIDE_EIO);
        new_life(&d);
        uint8_t bytes[3 * BLOCK], wanted[3 * BLOCK];
        memset(wanted, 3, sizeof wanted);
        struct tide_file *f = file(&d, "/home/good");
        assert_int_equal(d.port->ops->file_read(f, bytes, sizeof bytes, 0), sizeof bytes);
        assert_memory_equal(bytes, wanted, sizeof bytes);
        d.port->ops->file_close(f);
        memset(wanted, 4, sizeof wanted);
        f = file(&d, "/home/bad");
        damaged += d.port->ops->file_read(f, bytes, sizeof bytes, 0) != sizeof bytes ||
                   memcmp(bytes, wanted, sizeof bytes) != 0;
        d.port->ops->file_close(f);
        unnamed += !exists(&d, "/tmp/nobody");
        disk_close(&d);
    }
    assert_true(unnamed > SEEDS / 4 && unnamed < SEEDS * 3 / 4);
    assert_true(damaged > SEEDS / 2);
}

static void a_directory_that_was_not_synced_may_vanish_with_what_is_in_it(void **state) {
    (void)state;
    unsigned vanished = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct disk d;
        disk_open(&d, seed);
        assert_int_equal(d.port->ops->file_mkdir(d.port, "/tmp/made", 0700), 0);
        assert_int_equal(d.port->ops->file_mkdir(d.port, "/tmp/firm", 0700), 0);
        assert_int_equal(save(&d, "/tmp/made/x", 1, true), 0);
        if (seed % 2) {
            assert_int_equal(d.port->ops->directory_sync(d.port, "/tmp"), 0);
        }
        tide_sim_crash(d.sim, "a");
        new_life(&d);
        assert_int_equal(exists(&d, "/tmp/made"), exists(&d, "/tmp/made/x"));
        assert_true(seed % 2 == 0 || exists(&d, "/tmp/made"));
        vanished += !exists(&d, "/tmp/made");
        disk_close(&d);
    }
    assert_true(vanished > 0);
}

static void a_failed_sync_loses_what_it_was_to_keep(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct disk d;
        disk_open(&d, seed);
        const struct tide_port_ops *ops = d.port->ops;
        struct tide_file *f = file(&d, "/tmp/x");
        fill(&d, f, 1);
        assert_int_equal(ops->file_sync(f), 0);
        assert_int_equal(ops->directory_sync(d.port, "/tmp"), 0);
        fill(&d, f, 2);
        tide_sim_set_disk(d.sim, "a", &(struct tide_sim_disk){.sync_error = 1});
        assert_int_equal(ops->file_sync(f), TIDE_EIO);
        tide_sim_set_disk(d.sim, "a", &(struct tide_sim_disk){0});
        uint8_t byte;
        assert_int_equal(ops->file_read(f, &byte, 1, 7), 1);
        assert_int_equal(byte, 2);
        assert_int_equal(ops->file_sync(f), 0); /* says so, and yet */
        ops->file_close(f);
        tide_sim_crash(d.sim, "a");
        new_life(&d);
        f = file(&d, "/tmp/x");
        assert_int_equal(ops->file_read(f, &byte, 1, 7), 1);
        assert_int_equal(byte, 1);
        ops->file_close(f);
        disk_close(&d);
    }
}

static void errors_a_full_disk_and_damage_happen_when_asked_for(void **state) {
    (void)state;
    struct disk d;
    disk_open(&d, 1);
    const struct tide_port_ops *ops = d.port->ops;
    struct tide_file *f = file(&d, "/tmp/x");
    uint8_t bytes[BLOCK] = {0};
    struct tide_file_info info;
    tide_sim_set_disk(d.sim, NULL, &(struct tide_sim_disk){.write_error = 1, .read_error = 1});
    assert_int_equal(ops->file_write(f, bytes, 1, 0), TIDE_EIO);
    assert_int_equal(ops->file_read(f, bytes, 1, 0), TIDE_EIO);
    assert_int_equal(ops->file_rename(d.port, "/tmp/x", "/tmp/y"), TIDE_EIO);
    tide_sim_set_disk(d.sim, "a", &(struct tide_sim_disk){.capacity = 2 * BLOCK});
    assert_int_equal(ops->file_write(f, bytes, BLOCK, 0), 0);
    assert_int_equal(ops->file_write(f, bytes, BLOCK, BLOCK), 0);
    assert_int_equal(ops->file_write(f, bytes, 1, 2 * BLOCK), TIDE_ENOSPC);
    assert_int_equal(ops->file_write(f, bytes, BLOCK, BLOCK), 0); /* within what it has */
    assert_false(tide_sim_flip(d.sim, "a", "/tmp/none"));
    assert_true(tide_sim_flip(d.sim, "a", NULL));
    unsigned set = 0;
    for (uint64_t at = 0; at < 2 * BLOCK; at += BLOCK) {
        assert_int_equal(ops->file_read(f, bytes, BLOCK, at), BLOCK);
        for (size_t i = 0; i < BLOCK; i++) {
            set += (unsigned)__builtin_popcount(bytes[i]);
        }
    }
    assert_int_equal(set, 1);
    assert_true(tide_sim_truncate(d.sim, "a", "/tmp/x"));
    assert_int_equal(ops->file_info(d.port, "/tmp/x", &info), 0);
    assert_true(info.size < 2 * BLOCK);
    ops->file_close(f);
    disk_close(&d);
}

/* The old file or the new one, whole, wherever the node crashes, if the writer syncs. */
static void a_crash_within_an_operation_never_harms_who_syncs_before_renaming(void **state) {
    (void)state;
    unsigned crashed = 0, finished = 0, mixed = 0;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        bool careful = seed % 2;
        struct disk d;
        disk_open(&d, seed);
        assert_int_equal(save(&d, "/home/x", 1, true), 0);
        tide_sim_set_disk(d.sim, "a", &(struct tide_sim_disk){.crash = 0.3});
        bool saved = save(&d, "/home/x", 2, careful) == 0;
        assert_int_equal(d.crashes, !saved);
        assert_int_equal(d.port->crashed, !saved);
        crashed += !saved;
        finished += saved;
        tide_sim_crash(d.sim, "a");
        new_life(&d);
        uint8_t bytes[3 * BLOCK];
        struct tide_file *f = file(&d, "/home/x");
        bool whole = d.port->ops->file_read(f, bytes, sizeof bytes, 0) == sizeof bytes;
        for (size_t i = 0; i < sizeof bytes && whole; i++) {
            whole = bytes[i] == bytes[0] && (!saved || !careful || bytes[i] == 2);
        }
        d.port->ops->file_close(f);
        assert_true(whole || !careful);
        mixed += !whole;
        disk_close(&d);
    }
    assert_true(crashed > SEEDS && finished > SEEDS / 2 && mixed > 10);
}

/* ---- a disk that nodes share ---- */

static void write_byte(struct tide_port *port, const char *path, uint8_t byte, bool sync) {
    struct tide_file *f;
    assert_int_equal(port->ops->file_open(port, path, TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f), 0);
    assert_int_equal(port->ops->file_write(f, &byte, 1, 0), 0);
    assert_true(!sync || port->ops->file_sync(f) == 0);
    port->ops->file_close(f);
}

static int read_byte(struct tide_port *port, const char *path) {
    struct tide_file *f;
    uint8_t byte = 0;
    if (port->ops->file_open(port, path, TIDE_FILE_READ, &f) < 0) {
        return -1;
    }
    assert_int_equal(port->ops->file_read(f, &byte, 1, 0), 1);
    port->ops->file_close(f);
    return byte;
}

static void all_nodes_reach_what_one_writes_to_a_shared_disk(void **state) {
    (void)state;
    struct tide_sim *sim;
    struct tide_port *a, *b;
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = 3}, &sim), 0);
    assert_int_equal(tide_sim_port(sim, "a", &a), 0);
    assert_int_equal(tide_sim_port(sim, "b", &b), 0);
    tide_sim_share(sim, "/pool");
    assert_int_equal(a->ops->file_mkdir(a, "/pool/x", 0700), 0);
    write_byte(a, "/pool/x/f", 7, false);
    write_byte(a, "/tmp/f", 8, false);
    write_byte(a, "/poolside", 9, false); /* another name that begins so */
    assert_int_equal(read_byte(b, "/pool/x/f"), 7);
    assert_int_equal(read_byte(b, "/tmp/f"), -1);
    assert_int_equal(read_byte(b, "/poolside"), -1);
    assert_int_equal(b->ops->file_rename(b, "/pool/x/f", "/pool/x/g"), 0);
    assert_int_equal(read_byte(a, "/pool/x/g"), 7);
    struct tide_file *kept;
    assert_int_equal(a->ops->file_open(a, "/pool/x/g", TIDE_FILE_WRITE, &kept), 0);
    tide_sim_crash(sim, "a");
    assert_int_equal(read_byte(b, "/pool/x/g"), 7); /* the server did not crash */
    assert_int_equal(a->ops->file_write(kept, "x", 1, 0), TIDE_EIO);
    a->ops->file_close(kept);
    assert_int_equal(b->ops->file_mkdir(b, "/pool/y", 0700), 0);
    write_byte(b, "/pool/y/kept", 5, true);
    assert_int_equal(b->ops->directory_sync(b, "/pool"), 0);
    assert_int_equal(b->ops->directory_sync(b, "/pool/y"), 0);
    assert_int_equal(b->ops->file_open(b, "/pool/y/kept", TIDE_FILE_WRITE, &kept), 0);
    for (unsigned crashes = 0; crashes < 2; crashes++) { /* it is there again at once */
        tide_sim_crash(sim, "/pool");
        assert_int_equal(b->ops->file_write(kept, "x", 1, 0), TIDE_EIO);
        assert_int_equal(b->ops->file_sync(kept), TIDE_EIO);
        b->ops->file_close(kept);
        assert_int_equal(read_byte(b, "/pool/y/kept"), 5);
        assert_int_equal(b->ops->file_open(b, "/pool/y/kept", TIDE_FILE_WRITE, &kept), 0);
        assert_int_equal(b->ops->file_write(kept, "\5", 1, 0), 0);
    }
    b->ops->file_close(kept);
    tide_sim_set_disk(sim, "/pool", &(struct tide_sim_disk){.write_error = 1});
    assert_int_equal(b->ops->file_unlink(b, "/pool/y/kept"), TIDE_EIO);
    write_byte(b, "/tmp/own", 1, false);
    a->ops->destroy(a);
    b->ops->destroy(b);
    tide_sim_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_that_are_not_synced_are_kept_lost_or_torn),
        cmocka_unit_test(what_is_synced_and_renamed_survives_and_nothing_else_must),
        cmocka_unit_test(a_directory_that_was_not_synced_may_vanish_with_what_is_in_it),
        cmocka_unit_test(a_failed_sync_loses_what_it_was_to_keep),
        cmocka_unit_test(errors_a_full_disk_and_damage_happen_when_asked_for),
        cmocka_unit_test(a_crash_within_an_operation_never_harms_who_syncs_before_renaming),
        cmocka_unit_test(all_nodes_reach_what_one_writes_to_a_shared_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
