/* Controllers on real disks: the thread that serves sockets never waits for a file once its node runs. */
#define _GNU_SOURCE /* pthread_getname_np */
#include "net/net.h"
#include "port/port.h"
#include "tide.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { NODES = 3, TABLES = 40 };
#define MS UINT64_C(1000000)

struct tide_net *tide_net_of(struct tide_node *node);

static struct {
    char directory[32];
    struct tide_port *ports[NODES];
    struct tide_node *nodes[NODES];
    struct tide_port_ops ops;
    const struct tide_port_ops *plain;
    atomic_uint on_disk, on_io;
    atomic_int made;
    char first[80];
} world;

static void note(const char *what) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strncmp(name, "tide-disk", 9) == 0) {
        atomic_fetch_add(&world.on_disk, 1);
    } else if (strncmp(name, "tide-io", 7) == 0 && atomic_fetch_add(&world.on_io, 1) == 0) {
        (void)snprintf(world.first, sizeof world.first, "%s on %s", what, name);
    }
}

static int noted_open(struct tide_port *port, const char *path, int flags, struct tide_file **out) {
    note("open");
    return world.plain->file_open(port, path, flags, out);
}

static int noted_write(struct tide_file *file, const void *data, size_t size, uint64_t offset) {
    note("write");
    return world.plain->file_write(file, data, size, offset);
}

static int noted_sync(struct tide_file *file) {
    note("sync");
    return world.plain->file_sync(file);
}

static int noted_rename(struct tide_port *port, const char *from, const char *to) {
    note("rename");
    return world.plain->file_rename(port, from, to);
}

static int noted_directory_sync(struct tide_port *port, const char *path) {
    note("directory sync");
    return world.plain->directory_sync(port, path);
}

static void start(unsigned i, unsigned controllers) {
    char name[8], listen[48], state[48];
    snprintf(name, sizeof name, "n%u", i + 1);
    snprintf(listen, sizeof listen, "unix:%s/%s", world.directory, name);
    snprintf(state, sizeof state, "%s/state", world.directory);
    assert_int_equal(tide_port_real_create(i + 1, &world.ports[i]), 0);
    if (i == 0) { /* the same for all, and other nodes' threads read it */
        world.plain = world.ports[i]->ops;
        world.ops = *world.plain;
        world.ops.file_open = noted_open;
        world.ops.file_write = noted_write;
        world.ops.file_sync = noted_sync;
        world.ops.file_rename = noted_rename;
        world.ops.directory_sync = noted_directory_sync;
    }
    world.ports[i]->ops = &world.ops;
    const struct tide_node_options o = {.name = name,
                                        .listen = listen,
                                        .join = i > 0 ? tide_node_endpoint(world.nodes[0]) : NULL,
                                        .state = i == 0 || controllers > 0 ? state : NULL,
                                        .controllers = i == 0 ? controllers : 0,
                                        .no_store = i > 0,
                                        .workers = 1,
                                        .port = world.ports[i]};
    if (tide_node_create(&o, &world.nodes[i]) < 0) {
        fail_msg("%s: %s", name, tide_error_message());
    }
}

/* Each table is a decision. */
static int make_tables(void *state) {
    for (int i = 0; i < TABLES; i++) {
        char name[16];
        struct tide_table *table;
        snprintf(name, sizeof name, "t%d", i);
        const struct tide_table_options o = {.name = name, .keys = TIDE_KEYS_DENSE, .key_count = 10, .width = 2};
        const int code = tide_table_create(state, &o, &table);
        if (code < 0) {
            fprintf(stderr, "%s\n", tide_error_message());
            atomic_store(&world.made, code);
            return code;
        }
        tide_table_release(table);
        atomic_fetch_add(&world.made, 1);
    }
    return 0;
}

static void decide_much(unsigned nodes, unsigned controllers) {
    memset(&world, 0, sizeof world);
    strcpy(world.directory, "/tmp/tide-disk-XXXXXX");
    assert_non_null(mkdtemp(world.directory));
    for (unsigned i = 0; i < nodes; i++) {
        start(i, controllers);
    }
    while (!tide_net_durable(tide_net_of(world.nodes[0]))) {
        world.plain->pause(world.ports[0], MS);
    }
    assert_int_equal(
        tide_spawn(world.nodes[0],
                   &(struct tide_actor_options){.run = make_tables, .state = world.nodes[0], .role = TIDE_ROLE_COMPUTE},
                   NULL),
        0);
    while (atomic_load(&world.made) >= 0 && atomic_load(&world.made) < TABLES) {
        world.plain->pause(world.ports[0], MS);
    }
    assert_int_equal(atomic_load(&world.made), TABLES);
    for (unsigned i = nodes; i-- > 0;) {
        tide_node_destroy(world.nodes[i], TIDE_SECOND);
        world.plain->destroy(world.ports[i]);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", world.directory);
    assert_int_equal(system(command), 0);
    assert_true(atomic_load(&world.on_disk) >= TABLES);
    if (atomic_load(&world.on_io) > 0) {
        fail_msg("%u file operations on I/O threads, the first: %s", atomic_load(&world.on_io), world.first);
    }
}

static void a_journal_is_written_by_the_disk_thread(void **state) {
    (void)state;
    decide_much(1, 0);
}

static void a_replicated_log_is_written_by_the_disk_thread(void **state) {
    (void)state;
    decide_much(NODES, NODES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_is_written_by_the_disk_thread),
        cmocka_unit_test(a_replicated_log_is_written_by_the_disk_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
