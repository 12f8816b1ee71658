/* Tables whose rows are on a disk too (store/tier): every state of a row with each thing that can happen to it. */
#include "checkpoint_world.h"

#include <sys/stat.h>

#include "store/core/options.h"
#include "store/tier/tier.h"
#include "tide/placement.h"
#include "tide/stats.h"

enum { COUNT = 3000, COLUMNS = 32, AT_ONCE = 100, LIMITED = 1000 };

static struct tide_table_options tiered(const struct cluster *c, const char *name) {
    struct tide_table_options o = {.name = name, .key_count = COUNT, .width = COLUMNS, .init = TIDE_INIT_NORMAL, .init_a = 1, .seed = 3};
    o.tier_memory = tide__tier_memory_least(&o) + 64 * 200;
    snprintf(o.tier_disk, sizeof o.tier_disk, "%s", c->sim ? "/tmp" : c->directory);
    return o;
}

static void key_list(uint64_t first, uint64_t *keys, size_t count) {
    for (size_t i = 0; i < count; i++) {
        keys[i] = (first + i) % COUNT;
    }
}

/* Adds 1 to every row, some at a time. */
static void push_all(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    static float ones[AT_ONCE * COLUMNS];
    uint64_t keys[AT_ONCE];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    for (uint64_t first = 0; first < COUNT; first += AT_ONCE) {
        key_list(first, keys, AT_ONCE);
        CHECK(f, tide_table_push(table, keys, AT_ONCE, ones, NULL) == 0);
    }
    tide_table_release(table);
}

/* Adds 1 to a third of the rows, one by one, or to the other two thirds. */
static void push_part(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    const bool third = *(const bool *)f->arg;
    float ones[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        ones[i] = 1;
    }
    for (uint64_t key = 0; key < COUNT; key++) {
        CHECK(f, (key % 3 == 0) != third || tide_table_push(table, &key, 1, ones, NULL) == 0);
    }
    tide_table_release(table);
}

/* Every row is the initial one, and *arg more. */
static void check_all(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    const int more = *(const int *)f->arg;
    float rows[AT_ONCE * COLUMNS];
    float initial[COLUMNS];
    uint64_t keys[AT_ONCE];
    for (uint64_t first = 0; first < COUNT; first += AT_ONCE) {
        key_list(first * 7, keys, AT_ONCE);
        CHECK(f, tide_table_pull(table, keys, AT_ONCE, rows, NULL) == 0);
        for (size_t i = 0; i < AT_ONCE; i++) {
            tide__row_init(&table->options, keys[i], initial, false);
            for (int m = 0; m < more; m++) {
                for (size_t j = 0; j < COLUMNS; j++) {
                    initial[j] += 1;
                }
            }
            CHECK(f, memcmp(initial, rows + i * COLUMNS, sizeof initial) == 0);
        }
    }
    tide_table_release(table);
}

/* What the places, the words and the rows say of each other. The store is at rest. */
static void places_agree(struct tide_table *table) {
    struct tide__tier *tier = tide__tier_of(table);
    uint64_t live = 0;
    for (uint32_t i = 0; i < TIDE__TIER_SEGMENTS; i++) {
        live += tier->segments[i] ? tier->segments[i]->live : 0;
    }
    assert_int_equal(live, tier->live);
    uint64_t cold = 0, backs = 0;
    for (uint64_t key = 0; key < COUNT; key++) {
        uint64_t word;
        atomic_uint_fast64_t *at = tide__tier_word(table, key, &word);
        if (at) {
            tide__word_unlock(at, word);
            if (tide__word_state(word) == TIDE__COLD && (uint32_t)word != TIDE__PLACE_INITIAL) {
                float row[COLUMNS];
                cold++;
                assert_int_equal(tide__tier_read(table, (uint32_t)word, key, row), 0);
            }
        }
    }
    for (uint32_t row = 0; row < tier->rows_capacity; row++) {
        backs += tier->back[row] != TIDE__PLACE_NONE;
    }
    assert_int_equal(live, cold + backs);
    assert_int_equal(tide__slab_used(&tide__owners_of(table)->arrivals), 0);
}

static void rows_freeze_and_come_back(bool simulated, unsigned nodes, uint8_t technique, uint8_t keys) {
    struct cluster c;
    open_cluster(&c, simulated, nodes, 5);
    struct tide_table_options options = tiered(&c, "cold");
    options.technique = technique;
    options.keys = keys;
    create(&c, options);
    for (int round = 0; round < 3; round++) {
        struct fiber fibers[NODES_MAX];
        start(&c, &fibers[0], 0, 0, push_all, NULL);
        finish(&c, fibers, 1);
        int more = round + 1;
        for (unsigned i = 0; i < nodes; i++) {
            start(&c, &fibers[i], i, i, check_all, &more);
        }
        finish(&c, fibers, nodes);
    }
    pause_cluster(&c, 100000000);
    uint64_t cold = 0;
    for (unsigned i = 0; i < nodes; i++) {
        struct tide_table *table = table_of(&c, i, "cold");
        struct tide_table_stats s;
        tide_table_stats(table, &s);
        cold += s.cold_rows;
        assert_true(s.thawed > 0 && s.frozen > 0 && s.disk_bytes > 0);
        assert_int_equal(s.surprises, 0);
        const uint64_t most = atomic_load(&tide__tiered_of(table)->rows_most);
        assert_true(s.rows <= most + most / 8 + 2 && s.rows < COUNT / 4);
        places_agree(table);
        tide_table_release(table);
    }
    assert_true(cold > COUNT / 2);
    close_cluster(&c);
}

static void rows_freeze_and_come_back_in_the_simulator(void **state) {
    (void)state;
    rows_freeze_and_come_back(true, 1, TIDE_STATIC, TIDE_KEYS_DENSE);
    rows_freeze_and_come_back(true, 3, TIDE_STATIC, TIDE_KEYS_DENSE);
    rows_freeze_and_come_back(true, 3, TIDE_RELOCATE, TIDE_KEYS_HASHED);
}

static void rows_freeze_and_come_back_on_a_disk(void **state) {
    (void)state;
    rows_freeze_and_come_back(false, 2, TIDE_STATIC, TIDE_KEYS_HASHED);
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_tier_readers, 1), 0); /* a thread that reads one after the other */
    rows_freeze_and_come_back(false, 1, TIDE_STATIC, TIDE_KEYS_HASHED);
    assert_int_equal(
        tide__limit_set(TIDE_LIMIT_store_tier_readers, tide__limits[TIDE_LIMIT_store_tier_readers].initial), 0);
}

/* Records of rows that changed are garbage. Files take a third more than the rows in use, and some segments. */
static void segments_that_are_mostly_garbage_are_emptied(void **state) {
    (void)state;
    enum { SEGMENT = 16 << 10, ROUNDS = 3, OPEN = 2, SPARE = 4 };
    struct cluster c;
    bool third = false;
    int more = ROUNDS + 1;
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_tier_segment_bytes, SEGMENT), 0);
    open_cluster(&c, true, 1, 5);
    create(&c, tiered(&c, "cold"));
    run_alone(&c, 0, push_all, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        run_alone(&c, 0, push_part, &third);
    }
    pause_cluster(&c, 1000000000);
    struct tide_table *table = table_of(&c, 0, "cold");
    const struct tide__tier *tier = tide__tier_of(table);
    struct tide_table_stats s;
    tide_table_stats(table, &s);
    assert_true(s.compacted > 0);
    assert_true(tier->segments_count * tier->per_segment <=
                tier->live + tier->live / 3 + (OPEN + SPARE) * tier->per_segment);
    assert_int_equal(s.disk_bytes, tier->segments_count * SEGMENT);
    places_agree(table);
    third = true;
    for (int round = 0; round < ROUNDS; round++) {
        run_alone(&c, 0, push_part, &third);
    }
    run_alone(&c, 0, check_all, &more);
    tide_table_release(table);
    close_cluster(&c);
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_tier_segment_bytes,
                                     tide__limits[TIDE_LIMIT_store_tier_segment_bytes].initial), 0);
}

/* ---- directories, and disks that fail ---- */

struct attempt {
    struct tide_table_options options;
    int code;
    char text[600];
};

static void attempt_run(struct fiber *f) {
    struct attempt *a = f->arg;
    struct tide_table *table;
    a->code = tide_table_create(f->node, &a->options, &table);
    snprintf(a->text, sizeof a->text, "%s", a->code ? tide_error_message() : "");
    if (!a->code) {
        tide_table_release(table);
    }
}

static void refused(struct cluster *c, struct tide_table_options options, int code, const char *part) {
    struct attempt a = {.options = options};
    run_alone(c, 0, attempt_run, &a);
    if (a.code != code || !strstr(a.text, part)) {
        fail_msg("%s (%d), not %s (%d)", a.text, a.code, part, code);
    }
}

static void what_does_not_fit_is_refused_by_name(void **state) {
    (void)state;
    struct cluster c;
    char path[100], cat[400];
    open_cluster(&c, false, 2, 1);
    struct tide_table_options options = tiered(&c, "cold"), o = options;
    o.replicas = 1;
    refused(&c, o, TIDE_EUNSUPPORTED, "replicas");
    o = options;
    o.technique = TIDE_INTENT;
    refused(&c, o, TIDE_EUNSUPPORTED, "a technique other than");
    o = options;
    o.technique = TIDE_REPLICATE;
    refused(&c, o, TIDE_EUNSUPPORTED, "a technique other than");
    o = options;
    o.consistency.model = TIDE_BSP;
    refused(&c, o, TIDE_EUNSUPPORTED, "a consistency other than");
    o = options;
    o.keys = TIDE_KEYS_HASHED;
    o.key_limit = 10;
    o.evict = TIDE_EVICT_LFU;
    refused(&c, o, TIDE_EUNSUPPORTED, "keys that are admitted, expire or are evicted");
    o = options;
    o.tier_memory = 100;
    refused(&c, o, TIDE_EINVAL, "`memory` is 100 bytes");
    o = options;
    o.tier_disk[0] = '\0';
    refused(&c, o, TIDE_EINVAL, "needs `disk`");
    o = options;
    snprintf(o.tier_disk, sizeof o.tier_disk, "%s/nowhere", c.directory);
    refused(&c, o, TIDE_ENOENT, "mkdir -p");

    snprintf(path, sizeof path, "%s/cold-n2", c.directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(cat, sizeof cat, "echo mine > %s/OWNER", path);
    assert_int_equal(system(cat), 0);
    refused(&c, options, TIDE_EMISMATCH, "belongs to another program: mine");
    pause_cluster(&c, 300000000); /* the refused table has gone, and left the directory as it was */
    snprintf(cat, sizeof cat, "printf 'tide tier 1\ncluster c\ntable cold-n2\nnode n\n' > %s/OWNER && touch %s/00000007.seg", path, path);
    assert_int_equal(system(cat), 0);
    refused(&c, options, TIDE_EMISMATCH, "belongs to another table: tide tier 1 cluster c table cold-n2 node n. Choose");
    pause_cluster(&c, 300000000);
    snprintf(cat, sizeof cat, "test -e %s/00000007.seg", path);
    assert_int_equal(system(cat), 0);
    snprintf(cat, sizeof cat, "printf 'tide tier 1\ncluster other\ntable cold\nnode n2\n' > %s/OWNER && touch %s/00000007.seg", path, path);
    assert_int_equal(system(cat), 0);
    create(&c, options); /* what a process that was killed left is emptied, of whatever cluster it was */
    snprintf(cat, sizeof cat, "! test -e %s/00000007.seg", path);
    assert_int_equal(system(cat), 0);
    close_cluster(&c);
}

static void drop_run(struct fiber *f) {
    CHECK(f, tide_table_drop(f->node, "cold") == 0);
}

static void a_dropped_table_leaves_nothing(void **state) {
    (void)state;
    struct cluster c;
    char command[200];
    struct fiber fibers[2];
    open_cluster(&c, false, 2, 1);
    for (int life = 0; life < 2; life++) {
        create(&c, tiered(&c, "cold"));
        start(&c, &fibers[0], 0, 0, push_all, NULL);
        finish(&c, fibers, 1);
        struct tide_table *held = table_of(&c, 0, "cold"); /* by the creation: all of it goes with the last */
        tide_table_release(held);
        tide_table_release(held);
        run_alone(&c, 0, drop_run, NULL);
        snprintf(command, sizeof command, "test -z \"$(ls -d %s/cold-* 2>/dev/null)\"", c.directory);
        int tries = 0;
        while (system(command) != 0 && tries++ < 2000) {
            pause_cluster(&c, 1000000);
        }
        assert_true(tries < 2000);
    }
    close_cluster(&c);
}

/* Any row whose place is on the disk. */
static uint64_t some_cold_key(struct tide_table *table) {
    for (uint64_t key = 0; key < COUNT; key++) {
        uint64_t word;
        atomic_uint_fast64_t *at = tide__tier_word(table, key, &word);
        if (at) {
            tide__word_unlock(at, word);
        }
        if (at && tide__word_state(word) == TIDE__COLD) {
            return key;
        }
    }
    fail_msg("no row is cold");
    return 0;
}

struct lost {
    uint64_t key;
    char path[TIDE__TIER_PATH + 40];
};

static void pull_lost(struct fiber *f) {
    const struct lost *lost = f->arg;
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    float row[COLUMNS];
    for (int again = 0; again < 2; again++) {
        char what[100];
        CHECK(f, tide_table_pull(table, &lost->key, 1, row, NULL) == TIDE_ELOST);
        snprintf(what, sizeof what, "key %llu of table 'cold'", (unsigned long long)lost->key);
        CHECK(f, strstr(tide_error_message(), what) && strstr(tide_error_message(), lost->path) &&
                     strstr(tide_error_message(), "at offset"));
        for (size_t i = 0; i < COLUMNS; i++) {
            row[i] = 1;
        }
        CHECK(f, tide_table_push(table, &lost->key, 1, row, NULL) == TIDE_ELOST);
    }
    tide_table_release(table);
}

static void a_row_that_cannot_be_read_is_an_error_not_an_initial_row(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[1];
    struct lost lost;
    open_cluster(&c, true, 1, 5);
    create(&c, tiered(&c, "cold"));
    start(&c, &fibers[0], 0, 0, push_all, NULL);
    finish(&c, fibers, 1);
    pause_cluster(&c, 100000000);
    struct tide_table *table = table_of(&c, 0, "cold");
    struct tide__tier *tier = tide__tier_of(table);
    lost.key = some_cold_key(table);
    uint64_t word;
    atomic_uint_fast64_t *lost_at = tide__tier_word(table, lost.key, &word);
    tide__word_unlock(lost_at, word);
    struct tide__segment *segment = tide__segment_at(tier, (uint32_t)word);
    tide__segment_path(tier, segment, lost.path);
    const uint64_t at = tide__record_offset(tier, (uint32_t)word % tier->per_segment) + 40;
    char byte;
    assert_int_equal(c.ports[0]->ops->file_read(segment->file, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(c.ports[0]->ops->file_write(segment->file, &byte, 1, at), 0);
    run_alone(&c, 0, pull_lost, &lost);
    byte ^= 1; /* the disk comes to itself */
    assert_int_equal(c.ports[0]->ops->file_write(segment->file, &byte, 1, at), 0);
    int more = 1;
    run_alone(&c, 0, check_all, &more);
    places_agree(table);
    tide_table_release(table);
    close_cluster(&c);
}

/* A disk without room: rows that are on it are read, pushes to new keys are refused, and it all continues after. */
struct refusal {
    int code;
    uint64_t key; /* the first whose push was refused */
};

static void push_until_full(struct fiber *f) {
    struct refusal *refusal = f->arg;
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    float ones[COLUMNS], row[COLUMNS], initial[COLUMNS];
    int code = 0;
    uint64_t key = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        ones[i] = 1;
    }
    for (; key < COUNT && !code; key += !code) {
        code = tide_table_push(table, &key, 1, ones, NULL);
    }
    CHECK(f, code == refusal->code && strstr(tide_error_message(), "its disk takes no rows"));
    for (uint64_t k = 0; k < key; k++) {
        tide__row_init(&table->options, k, initial, false);
        CHECK(f, tide_table_pull(table, &k, 1, row, NULL) == 0);
        CHECK(f, row[0] > initial[0] + 0.5f);
    }
    refusal->key = key;
    tide_table_release(table);
}

static void push_rest(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    float ones[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        ones[i] = 1;
    }
    for (uint64_t key = ((struct refusal *)f->arg)->key; key < COUNT; key++) {
        CHECK(f, tide_table_push(table, &key, 1, ones, NULL) == 0);
    }
    tide_table_release(table);
}

static void a_disk_refuses_new_rows_and_loses_none(struct tide_sim_disk disk, int code, uint64_t least) {
    struct cluster c;
    struct refusal refusal = {.code = code};
    open_cluster(&c, true, 1, 5);
    create(&c, tiered(&c, "cold"));
    tide_sim_set_disk(c.sim, "n1", &disk);
    run_alone(&c, 0, push_until_full, &refusal);
    assert_true(refusal.key > least && refusal.key < COUNT);
    disk = (struct tide_sim_disk){.capacity = 0};
    tide_sim_set_disk(c.sim, "n1", &disk);
    pause_cluster(&c, 2000000000);
    run_alone(&c, 0, push_rest, &refusal);
    int more = 1;
    run_alone(&c, 0, check_all, &more);
    pause_cluster(&c, 100000000);
    struct tide_table *table = table_of(&c, 0, "cold");
    places_agree(table);
    tide_table_release(table);
    close_cluster(&c);
}

static void a_full_disk_refuses_new_rows_and_loses_none(void **state) {
    (void)state;
    a_disk_refuses_new_rows_and_loses_none((struct tide_sim_disk){.capacity = 160 << 10}, TIDE_ENOSPC, 500);
}

/* As one that was mounted read-only after an error: it is read, and takes no write. */
static void a_disk_that_takes_no_writes_refuses_new_rows_and_loses_none(void **state) {
    (void)state;
    a_disk_refuses_new_rows_and_loses_none((struct tide_sim_disk){.write_error = 1}, TIDE_EIO, 100);
}

static void a_table_is_refused_by_a_disk_that_takes_no_writes(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 5);
    struct tide_sim_disk disk = {.write_error = 1};
    tide_sim_set_disk(c.sim, "n1", &disk);
    refused(&c, tiered(&c, "cold"), TIDE_EIO, "no second tier in '/tmp' on node n1");
    pause_cluster(&c, 300000000);
    disk.write_error = 0;
    tide_sim_set_disk(c.sim, "n1", &disk);
    create(&c, tiered(&c, "cold"));
    close_cluster(&c);
}

/* A push beyond the limit is refused, wherever the rows are: most of them are on the disk. */
static void push_to_the_limit(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    float ones[COLUMNS], row[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        ones[i] = 1;
    }
    for (uint64_t key = 0; key < LIMITED; key++) {
        CHECK(f, tide_table_push(table, &key, 1, ones, NULL) == 0);
    }
    for (uint64_t key = LIMITED; key < LIMITED + 50; key++) {
        CHECK(f, tide_table_push(table, &key, 1, ones, NULL) == TIDE_EFULL);
    }
    for (uint64_t key = 0; key < LIMITED; key++) {
        CHECK(f, tide_table_push(table, &key, 1, ones, NULL) == 0);
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
    }
    tide_table_release(table);
}

static void a_limit_counts_the_rows_that_are_on_the_disk(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table_stats s;
    open_cluster(&c, true, 1, 5);
    struct tide_table_options options = tiered(&c, "cold");
    options.keys = TIDE_KEYS_HASHED;
    options.key_count = 0;
    options.key_limit = LIMITED;
    create(&c, options);
    run_alone(&c, 0, push_to_the_limit, NULL);
    struct tide_table *table = table_of(&c, 0, "cold");
    tide_table_stats(table, &s);
    assert_true(s.cold_rows > LIMITED / 2);
    tide_table_release(table);
    close_cluster(&c);
}

static void push_wide(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    const size_t width = table->options.width;
    float *ones = malloc(width * sizeof *ones);
    for (size_t i = 0; i < width; i++) {
        ones[i] = 1;
    }
    for (uint64_t key = 0; key < table->options.key_count; key++) {
        CHECK(f, tide_table_push(table, &key, 1, ones, NULL) == 0);
    }
    free(ones);
    tide_table_release(table);
}

/* A node whose cap is less than the table's memory: rows go to the disk, and no push is refused. */
static void the_cap_of_a_node_bounds_the_rows_in_memory(void **state) {
    (void)state;
    enum { WIDE = 2048, ROWS_PUSHED = 5000 };
    struct cluster c;
    struct tide_table_stats s;
    memset(&c, 0, sizeof c);
    strcpy(c.directory, "/tmp/tide-store-XXXXXX");
    assert_non_null(mkdtemp(c.directory));
    assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = 5}, &c.sim), 0);
    add_node_with(&c, (struct tide_node_options){.memory = TIDE_MEMORY_CAP_MIN});
    struct tide_table_options options = tiered(&c, "cold");
    options.key_count = ROWS_PUSHED;
    options.width = WIDE;
    options.tier_memory = 4 * TIDE_MEMORY_CAP_MIN;
    create(&c, options);
    run_alone(&c, 0, push_wide, NULL);
    struct tide_table *table = table_of(&c, 0, "cold");
    tide_table_stats(table, &s);
    assert_true(s.cold_rows > 0 && s.rows * WIDE * sizeof(float) < TIDE_MEMORY_CAP_MIN);
    tide_table_release(table);
    close_cluster(&c);
}

/* ---- rows that are brought up ahead ---- */

struct ahead {
    bool intent;
    uint64_t keys[AT_ONCE];
    uint64_t reads; /* while the rows were pulled */
};

static void bring_up(struct fiber *f) {
    struct ahead *ahead = f->arg;
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    struct tide_table_stats before, after;
    float rows[AT_ONCE * COLUMNS];
    CHECK(f, tide_worker_begin(f->node, 0, 0) >= 0);
    CHECK(f, (ahead->intent ? tide_table_intent(table, ahead->keys, AT_ONCE, 1, 2)
                            : tide_table_localize(table, ahead->keys, AT_ONCE, NULL)) == 0);
    (void)tide_sleep(TIDE_SECOND);
    for (unsigned i = 0; i < f->cluster->count; i++) {
        struct tide_table *at = table_of(f->cluster, i, "cold");
        tide_table_stats(at, &before);
        ahead->reads -= before.thawed;
        tide_table_release(at);
    }
    CHECK(f, tide_table_pull(table, ahead->keys, AT_ONCE, rows, NULL) == 0);
    for (unsigned i = 0; i < f->cluster->count; i++) {
        struct tide_table *at = table_of(f->cluster, i, "cold");
        tide_table_stats(at, &after);
        ahead->reads += after.thawed;
        tide_table_release(at);
    }
    tide_worker_end();
    tide_table_release(table);
}

/* A pull of rows that were on the disk when they were announced reads none. Static tables: rows stay at their homes. */
static void rows_are_brought_up_ahead(void **state) {
    (void)state;
    for (unsigned nodes = 1; nodes <= 2; nodes++) {
        for (int intent = 0; intent < 2; intent++) {
            for (uint8_t technique = TIDE_STATIC; technique <= TIDE_RELOCATE; technique++) {
                struct cluster c;
                struct ahead ahead = {.intent = intent};
                open_cluster(&c, true, nodes, 5);
                struct tide_table_options options = tiered(&c, "cold");
                options.technique = technique;
                options.tier_memory += 400 * (COLUMNS * sizeof(float) + 5) + (nodes - 1) * (128 << 10);
                create(&c, options);
                run_alone(&c, 0, push_all, NULL);
                pause_cluster(&c, 100000000);
                struct tide_table *table = table_of(&c, 0, "cold");
                size_t count = 0;
                for (uint64_t key = 0; key < COUNT && count < AT_ONCE; key++) {
                    uint16_t owner;
                    const bool local = tide_table_where(table, key, &owner) == 0 && owner == tide_node_id(c.nodes[0]);
                    ahead.keys[count] = key;
                    count += local || intent || technique == TIDE_RELOCATE;
                }
                assert_int_equal(count, AT_ONCE);
                run_alone(&c, 0, bring_up, &ahead);
                assert_int_equal(ahead.reads, 0);
                tide_table_release(table);
                close_cluster(&c);
            }
        }
    }
}

/* All rows of the other node in one call: more than memory has room for. */
static void localize_others(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    uint64_t keys[COUNT];
    size_t count = 0;
    for (uint64_t key = 0; key < COUNT; key++) {
        uint16_t owner;
        keys[count] = key;
        count += tide_table_where(table, key, &owner) == 0 && owner != tide_node_id(f->node);
    }
    CHECK(f, tide_table_localize(table, keys, count, NULL) == 0);
    tide_table_release(table);
}

/* Rows in flight take the memory of both nodes, and each waits for rows that the other has to read. */
static void nodes_that_wait_for_rows_of_each_other_read_beyond_their_memory(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[2];
    int more = 1;
    open_cluster(&c, true, 2, 5);
    struct tide_table_options options = tiered(&c, "cold");
    options.technique = TIDE_RELOCATE;
    create(&c, options);
    run_alone(&c, 0, push_all, NULL);
    for (unsigned i = 0; i < 2; i++) {
        start(&c, &fibers[i], i, i, localize_others, NULL);
    }
    finish(&c, fibers, 2);
    run_alone(&c, 0, check_all, &more);
    close_cluster(&c);
}

/* ---- operations that come straight ---- */

struct straight {
    uint64_t keys[AT_ONCE]; /* at home on node 2, rows of node 3 */
    size_t count;
    uint64_t cold; /* one of them, whose row is on the disk */
};

static void localize_all(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    uint64_t keys[AT_ONCE];
    for (uint64_t first = 0; first < COUNT; first += AT_ONCE) {
        key_list(first, keys, AT_ONCE);
        CHECK(f, tide_table_localize(table, keys, AT_ONCE, NULL) == 0);
    }
    tide_table_release(table);
}

static void push_some(struct fiber *f) {
    const struct straight *s = f->arg;
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    float ones[AT_ONCE * COLUMNS];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_push(table, s->keys, s->count, ones, NULL) == 0);
    tide_table_release(table);
}

/* The row is read while the pull is in flight. */
static void push_and_pull(struct fiber *f) {
    const struct straight *s = f->arg;
    struct tide_table *table = table_of(f->cluster, f->index, "cold");
    struct tide_ticket ticket;
    float ones[COLUMNS], row[COLUMNS], initial[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) {
        ones[i] = 1;
    }
    tide__row_init(&table->options, s->cold, initial, false);
    CHECK(f, tide_table_push(table, &s->cold, 1, ones, &ticket) == 0);
    (void)tide_sleep(5000000);
    CHECK(f, tide_table_pull(table, &s->cold, 1, row, NULL) == 0);
    CHECK(f, fabsf(row[0] - initial[0] - 3) < 0.001f);
    CHECK(f, tide_ticket_wait(&ticket) == 0);
    tide_table_release(table);
}

static void a_pull_that_comes_straight_does_not_overtake_a_push_to_a_cold_row(void **state) {
    (void)state;
    struct cluster c;
    struct straight s = {.count = 0};
    open_cluster(&c, true, 3, 5);
    struct tide_table_options options = tiered(&c, "cold");
    options.technique = TIDE_RELOCATE;
    create(&c, options);
    struct tide_table *table = table_of(&c, 0, "cold"), *owner = table_of(&c, 2, "cold");
    for (uint64_t key = 0; key < COUNT && s.count < AT_ONCE; key++) {
        uint16_t home;
        assert_int_equal(tide_table_where(table, key, &home), 0);
        s.keys[s.count] = key;
        s.count += home == tide_node_id(c.nodes[1]);
    }
    struct fiber fibers[1];
    start(&c, &fibers[0], 2, 2, localize_all, NULL);
    finish(&c, fibers, 1);
    run_alone(&c, 0, push_some, &s); /* node 1 learns where the rows are */
    start(&c, &fibers[0], 2, 2, push_all, NULL);
    finish(&c, fibers, 1);
    pause_cluster(&c, 100000000);
    size_t cold = 0;
    for (size_t i = 0; i < s.count; i++) {
        uint64_t word;
        atomic_uint_fast64_t *at = tide__tier_word(owner, s.keys[i], &word);
        tide__word_unlock(at, word);
        s.cold = tide__word_state(word) == TIDE__COLD ? s.keys[i] : s.cold;
        cold += tide__word_state(word) == TIDE__COLD;
    }
    assert_true(cold > 0);
    tide_sim_set_latency(c.sim, 20000000, 20000000);
    struct tide_table_stats before, after;
    tide_table_stats(table, &before);
    run_alone(&c, 0, push_and_pull, &s);
    tide_table_stats(table, &after);
    assert_int_equal(after.location_used - before.location_used, 2);
    tide_table_release(owner);
    tide_table_release(table);
    close_cluster(&c);
}

/* ---- generations ---- */

/* A program that starts again with less memory for its rows. */
static void rows_come_back_to_a_table_with_less_memory(void **state) {
    (void)state;
    struct cluster c;
    struct tide_table_stats s;
    char dir[] = "/tmp/tide-tier-XXXXXX", command[100];
    int more = 1;
    assert_non_null(mkdtemp(dir));
    struct saving saving = {.options = {.dir = dir, .keep = 2}};
    struct restoring restoring = {.dir = dir};
    for (int life = 0; life < 2; life++) {
        open_cluster(&c, false, 1, 5);
        struct tide_table_options options = tiered(&c, "cold");
        options.tier_memory *= life == 0 ? 20 : 1;
        create(&c, options);
        if (life == 0) {
            run_alone(&c, 0, push_all, NULL);
            run_alone(&c, 0, save_run, &saving);
        } else {
            run_alone(&c, 0, restore_run, &restoring);
            run_alone(&c, 0, check_all, &more);
        }
        struct tide_table *table = table_of(&c, 0, "cold");
        tide_table_stats(table, &s);
        assert_true(life == 0 ? s.cold_rows == 0 : s.cold_rows > COUNT / 2);
        tide_table_release(table);
        close_cluster(&c);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void a_generation_has_the_rows_that_are_on_the_disk(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[1];
    char dir[100];
    open_cluster(&c, false, 2, 5);
    snprintf(dir, sizeof dir, "%s/generations", c.directory);
    struct saving saving = {.options = {.dir = dir, .keep = 2}};
    struct restoring restoring = {.dir = dir};
    create(&c, tiered(&c, "cold"));
    for (int round = 0; round < 2; round++) { /* the second one is incremental */
        start(&c, &fibers[0], 0, 0, push_all, NULL);
        finish(&c, fibers, 1);
        run_alone(&c, 0, save_run, &saving);
    }
    start(&c, &fibers[0], 0, 0, push_all, NULL);
    finish(&c, fibers, 1);
    run_alone(&c, 0, restore_run, &restoring);
    int more = 2;
    start(&c, &fibers[0], 1, 1, check_all, &more);
    finish(&c, fibers, 1);
    pause_cluster(&c, 100000000);
    for (unsigned i = 0; i < 2; i++) {
        struct tide_table *table = table_of(&c, i, "cold");
        places_agree(table);
        tide_table_release(table);
    }
    close_cluster(&c);
}

/* A push to a row that was read from the disk makes it another version, also while a generation is written. */
static void pushes_while_a_generation_is_written_are_frozen(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[2];
    open_cluster(&c, true, 2, 5);
    struct saving saving = {.options = {.dir = "/shared", .cut = TIDE_CUT_FUZZY, .keep = 2}};
    tide_sim_share(c.sim, "/shared");
    create(&c, tiered(&c, "cold"));
    run_alone(&c, 0, push_all, NULL);
    for (int more = 2; more < 5; more++) {
        start(&c, &fibers[0], 0, 0, push_all, NULL);
        start(&c, &fibers[1], 1, 1, save_run, &saving);
        finish(&c, fibers, 2);
        run_alone(&c, 0, check_all, &more);
    }
    close_cluster(&c);
}

/* Most of them wait for room in memory, and are made while the generation is written, which may not have them. */
static void rows_made_during_a_generation_are_in_the_next(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fibers[2];
    int more = 1;
    open_cluster(&c, true, 2, 5);
    struct saving saving = {.options = {.dir = "/shared", .cut = TIDE_CUT_FUZZY, .keep = 2}};
    struct restoring restoring = {.dir = "/shared"};
    tide_sim_share(c.sim, "/shared");
    create(&c, tiered(&c, "cold"));
    start(&c, &fibers[0], 0, 0, push_all, NULL);
    start(&c, &fibers[1], 1, 1, save_run, &saving);
    finish(&c, fibers, 2);
    run_alone(&c, 0, save_run, &saving);
    run_alone(&c, 0, push_all, NULL);
    run_alone(&c, 0, restore_run, &restoring);
    run_alone(&c, 0, check_all, &more);
    close_cluster(&c);
}

/* Cold rows of one pull, a millisecond each. */
static void pull_scattered(struct fiber *f) {
    struct tide_table *table = table_of(f->cluster, 0, "cold");
    float rows[AT_ONCE * COLUMNS];
    uint64_t keys[AT_ONCE];
    for (uint64_t i = 0; i < AT_ONCE; i++) {
        keys[i] = i * (COUNT / AT_ONCE);
    }
    const uint64_t begun = tide_node_now(f->node);
    CHECK(f, tide_table_pull(table, keys, AT_ONCE, rows, NULL) == 0);
    *(uint64_t *)f->arg = tide_node_now(f->node) - begun;
    tide_table_release(table);
}

static void rows_are_read_side_by_side(void **state) {
    (void)state;
    enum { READ_NS = 1000000 };
    struct cluster c;
    struct tide_table_stats before, after;
    uint64_t took = 0;
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_tier_rows, 200), 0);
    open_cluster(&c, true, 1, 5);
    struct tide_table_options options = tiered(&c, "cold");
    options.tier_memory = 4 << 20;
    create(&c, options);
    run_alone(&c, 0, push_all, NULL);
    pause_cluster(&c, 100000000);
    struct tide_table *table = table_of(&c, 0, "cold");
    tide_table_stats(table, &before);
    const struct tide_sim_disk slow = {.read_ns_min = READ_NS, .read_ns_max = READ_NS};
    tide_sim_set_disk(c.sim, "n1", &slow);
    run_alone(&c, 0, pull_scattered, &took);
    tide_table_stats(table, &after);
    tide_table_release(table);
    const uint64_t rows = after.thawed - before.thawed;
    assert_true(rows > AT_ONCE / 2);
    assert_true(took >= READ_NS && took < rows / 4 * READ_NS);
    close_cluster(&c);
    assert_int_equal(tide__limit_set(TIDE_LIMIT_store_tier_rows, tide__limits[TIDE_LIMIT_store_tier_rows].initial), 0);
}

int main(int argc, char **argv) {
    (void)signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_freeze_and_come_back_in_the_simulator),
        cmocka_unit_test(rows_freeze_and_come_back_on_a_disk),
        cmocka_unit_test(segments_that_are_mostly_garbage_are_emptied),
        cmocka_unit_test(what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(a_dropped_table_leaves_nothing),
        cmocka_unit_test(a_row_that_cannot_be_read_is_an_error_not_an_initial_row),
        cmocka_unit_test(a_full_disk_refuses_new_rows_and_loses_none),
        cmocka_unit_test(a_disk_that_takes_no_writes_refuses_new_rows_and_loses_none),
        cmocka_unit_test(a_table_is_refused_by_a_disk_that_takes_no_writes),
        cmocka_unit_test(a_limit_counts_the_rows_that_are_on_the_disk),
        cmocka_unit_test(the_cap_of_a_node_bounds_the_rows_in_memory),
        cmocka_unit_test(rows_are_brought_up_ahead),
        cmocka_unit_test(nodes_that_wait_for_rows_of_each_other_read_beyond_their_memory),
        cmocka_unit_test(a_pull_that_comes_straight_does_not_overtake_a_push_to_a_cold_row),
        cmocka_unit_test(rows_come_back_to_a_table_with_less_memory),
        cmocka_unit_test(a_generation_has_the_rows_that_are_on_the_disk),
        cmocka_unit_test(pushes_while_a_generation_is_written_are_frozen),
        cmocka_unit_test(rows_made_during_a_generation_are_in_the_next),
        cmocka_unit_test(rows_are_read_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
