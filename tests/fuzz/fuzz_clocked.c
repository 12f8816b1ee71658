/*
 * Messages of tables with clocks (clocked.h), as they come to a home and to a node with copies. Two
 * simulated nodes have such a table; a worker of the first holds copies, of which updates are on
 * their way. An input is what kind the table is, then messages about it to the first node: which,
 * two bytes of length, its fields. Whatever they say, nothing is read beyond their bytes, and
 * another table keeps its rows.
 *
 * To make a world takes most of an input's time. Where TIDE_FUZZ_WORLD names a directory, a world serves up to 100
 * inputs of its kind, and they are written there: what fails is repeated with all files of the directory, in order.
 */
#include "fuzz.h"
#include "store/clocked/clocked.h"
#include "tide/clock.h"

enum { KEYS = 16, MESSAGES_MAX = 16, WAITS = 20000, MS = 1000000 };

static const struct kind {
    const char *consistency;
    uint8_t update, keys;
    uint32_t width;
} kinds[] = {
    {"essp:2", TIDE_UPDATE_ADD, TIDE_KEYS_DENSE, 20},
    {"ssp:1", TIDE_UPDATE_ADAGRAD, TIDE_KEYS_HASHED, 3},
    {"bsp", TIDE_UPDATE_ADD, TIDE_KEYS_DENSE, 3},
    {"vap:1", TIDE_UPDATE_ADD, TIDE_KEYS_DENSE, 3},
};
static const struct kind plain = {"sequential", TIDE_UPDATE_ADD, TIDE_KEYS_DENSE, 2};

struct world {
    struct tide_sim *sim;
    struct tide_port *ports[2];
    struct tide_node *nodes[2];
    const struct kind *kind;
    struct tide_table *clocked;
    bool ready, kept;
};

static void all_keys(uint64_t keys[KEYS]) {
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
}

static struct tide_table *create(struct world *w, const char *name, const struct kind *kind) {
    struct tide_table *table;
    struct tide_table_options o = {.name = name,
                                   .keys = kind->keys,
                                   .key_count = kind->keys == TIDE_KEYS_DENSE ? KEYS : 0,
                                   .width = kind->width,
                                   .update = kind->update,
                                   .lr = 0.1f};
    FUZZ_CHECK(tide_consistency_parse(kind->consistency, &o.consistency) == 0);
    FUZZ_CHECK(tide_table_create(w->nodes[0], &o, &table) == 0);
    return table;
}

static int worker_main(void *state) {
    struct world *w = state;
    uint64_t keys[KEYS];
    float ones[KEYS * 20], rows[KEYS * 20];
    all_keys(keys);
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    struct tide_table *other = create(w, "plain", &plain);
    w->clocked = create(w, "clocked", w->kind);
    FUZZ_CHECK(tide_table_push(other, keys, KEYS, ones, NULL) == 0);
    FUZZ_CHECK(tide_worker_begin(w->nodes[0], 0, 0) == 0);
    for (int clock = 0; clock < 2; clock++) {
        FUZZ_CHECK(tide_table_pull(w->clocked, keys, KEYS, rows, NULL) == 0);
        FUZZ_CHECK(tide_table_push(w->clocked, keys, KEYS, ones, NULL) == 0);
        FUZZ_CHECK(clock == 1 || tide_clock() == 1);
    }
    w->ready = true;
    while (tide_sleep(TIDE_SECOND) == 0) { /* until the node ends */
    }
    return 0;
}

static int reader_main(void *state) {
    struct world *w = state;
    struct tide_table *table;
    uint64_t keys[KEYS];
    float rows[KEYS * 2];
    all_keys(keys);
    FUZZ_CHECK(tide_table_find(w->nodes[1], "plain", &table) == 0);
    FUZZ_CHECK(tide_table_pull(table, keys, KEYS, rows, NULL) == 0);
    for (size_t i = 0; i < TIDE_COUNT(rows); i++) {
        FUZZ_CHECK(rows[i] == 1);
    }
    w->kept = true;
    return 0;
}

static void run(struct world *w, unsigned node, tide_fiber_main entry, const bool *done) {
    const struct tide_actor_options actor = {.type = "fuzz",
                                             .run = entry,
                                             .state = w,
                                             .role = TIDE_ROLE_COMPUTE,
                                             .stack_bytes = 1 << 20};
    FUZZ_CHECK(tide_spawn(w->nodes[node], &actor, NULL) == 0);
    for (int i = 0; i < WAITS && !*done; i++) {
        w->ports[0]->ops->pause(w->ports[0], MS);
    }
    FUZZ_CHECK(*done);
}

static void world_open(struct world *w, const struct kind *kind) {
    *w = (struct world){.kind = kind};
    FUZZ_CHECK(tide_sim_create(&(struct tide_sim_options){.seed = 1}, &w->sim) == 0);
    for (unsigned i = 0; i < TIDE_COUNT(w->nodes); i++) {
        char name[8], listen[16];
        snprintf(name, sizeof name, "n%u", i + 1);
        snprintf(listen, sizeof listen, "sim:%s", name);
        FUZZ_CHECK(tide_sim_port(w->sim, name, &w->ports[i]) == 0);
        const struct tide_node_options options = {.name = name,
                                                  .listen = listen,
                                                  .join =
                                                      i ? tide_node_endpoint(w->nodes[0]) : NULL,
                                                  .port = w->ports[i],
                                                  .workers = 1};
        FUZZ_CHECK(tide_node_create(&options, &w->nodes[i]) == 0);
    }
    while (!tide_store_synced(tide_store_of(w->nodes[1]))) {
        w->ports[0]->ops->pause(w->ports[0], MS);
    }
    run(w, 0, worker_main, &w->ready);
}

static void world_close(struct world *w) {
    tide_sim_crash(w->sim, "n1"); /* both, so that neither moves slots for the other */
    tide_sim_crash(w->sim, "n2");
    for (unsigned i = TIDE_COUNT(w->nodes); i-- > 0;) {
        tide_node_destroy(w->nodes[i], 0);
    }
    for (unsigned i = 0; i < TIDE_COUNT(w->nodes); i++) {
        w->ports[i]->ops->destroy(w->ports[i]);
    }
    tide_sim_destroy(w->sim);
}

static void post(struct world *w, uint8_t which, const uint8_t *fields, size_t size) {
    const enum tide__op op = TIDE__OP_DELTA + which % (TIDE__OP_VISIBLE - TIDE__OP_DELTA + 1);
    const bool of_a_domain = op == TIDE__OP_TICK || op == TIDE__OP_ROUND || op == TIDE__OP_ROUNDED ||
                             op == TIDE__OP_PART;
    struct tide_writer message;
    tide_writer_init(&message, NULL, 0);
    tide_write_array(&message, 1 + (size_t)tide__message_fields(op));
    tide_write_uint(&message, op);
    tide_write_uint(&message, of_a_domain ? 0 : w->clocked->id);
    tide_write_raw(&message, fields, size);
    FUZZ_CHECK(!message.error);
    FUZZ_CHECK(tide_post(w->nodes[0], tide_address_make(0, TIDE_ID_STORE), message.data,
                         message.size) == 0);
    tide_writer_release(&message);
}

/* Writes the number-th input of a world, so that it can be repeated with those before it. */
static void note(const char *directory, unsigned number, const uint8_t *data, size_t size) {
    char path[400];
    (void)snprintf(path, sizeof path, "%s/%03u", directory, number);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static struct world worlds[TIDE_COUNT(kinds)];

static void close_worlds(void) {
    for (size_t i = 0; i < TIDE_COUNT(worlds); i++) {
        if (worlds[i].sim) {
            world_close(&worlds[i]);
        }
    }
}

/* The world of an input; `served`: how many it had before, which no other kind had. */
static struct world *world_for(const uint8_t *data, size_t size) {
    static unsigned served[TIDE_COUNT(kinds)];
    static bool at_exit;
    at_exit = at_exit || atexit(close_worlds) == 0;
    const char *directory = getenv("TIDE_FUZZ_WORLD");
    const size_t kind = data[0] % TIDE_COUNT(kinds);
    struct world *w = &worlds[kind];
    if (w->sim && (!directory || served[kind] == 100)) {
        world_close(w);
        w->sim = NULL;
    }
    if (!w->sim) {
        world_open(w, &kinds[kind]);
        served[kind] = 0;
    }
    if (directory) {
        note(directory, 100 * (unsigned)kind + served[kind], data, size);
    }
    served[kind]++;
    return w;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct world *w = world_for(data, size);
    data++;
    size--;
    for (int i = 0; i < MESSAGES_MAX && size >= 3; i++) {
        const size_t said = (size_t)data[1] | (size_t)data[2] << 8,
                     fields = said < size - 3 ? said : size - 3;
        post(w, data[0], data + 3, fields);
        data += 3 + fields;
        size -= 3 + fields;
    }
    w->ports[0]->ops->pause(w->ports[0], 10 * MS);
    w->kept = false;
    run(w, 1, reader_main, &w->kept);
    return 0;
}
