/* Checkpoints: a cut by clocks holds exactly what each worker pushed before its clock, while rows
 * are pushed to and move; generations build on each other; crashes leave the newest. On real
 * sockets and in the simulator. */
#include "store/core/node_store.h"
#include "checkpoint_world.h"

#include "store/core/clock.h"
#include "tide/clock.h"
#include "tide/stats.h"

enum { WORKERS = 4 };
#if defined(__SANITIZE_THREAD__)
enum { SLOWER = 4 }; /* fewer seeds */
#else
enum { SLOWER = 1 };
#endif

struct job {
    atomic_bool stop;
    atomic_uint clocks[WORKERS];
    bool hashed, relocate, async, single;
};

static int push_singly(struct tide_table *table, const uint64_t *keys, size_t count,
                       uint32_t column, float step) {
    int code = 0;
    for (size_t i = 0; i < count && !code; i++) {
        code = tide_table_add(table, keys[i], &column, &step, 1);
    }
    return code;
}

/* Once a clock worker w adds 1 to coordinate w of every row it is responsible for: key k with
 * k % 3 == clock % 3 would move the sum, so all rows get it. */
static void worker_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    uint64_t keys[ROWS];
    float *rows = calloc(ROWS, WIDTH * sizeof *rows);
    for (uint64_t k = 0; k < ROWS; k++) {
        keys[k] = k;
    }
    /* where others count clocks already it begins at theirs, and makes up for what it missed */
    float step = 1 + (float)tide_worker_clock();
    for (; !atomic_load(&job->stop); step = 1) {
        for (uint64_t k = 0; k < ROWS; k++) {
            rows[k * WIDTH + f->index] = step;
        }
        size_t half = (size_t)tide_random_below(&f->random, ROWS);
        shuffle(&f->random, keys, ROWS);
        if (job->relocate) {
            (void)tide_table_localize(table, keys, 40, NULL);
        }
        struct tide_ticket ticket;
        int code = job->single
                       ? push_singly(table, keys, half, f->index, step)
                       : tide_table_push(table, keys, half, rows, job->async ? &ticket : NULL);
        if (code == 0) {
            code = tide_table_push(table, keys + half, ROWS - half, rows, NULL);
        }
        if (code == 0 && job->async) {
            code = tide_clock() < 0; /* the first half may be in flight */
            code = tide_ticket_wait(&ticket) || code;
        } else if (code == 0) {
            code = tide_clock() < 0;
        }
        if (code) {
            snprintf(f->failure, sizeof f->failure, "push: %s", tide_error_message());
            break;
        }
        atomic_fetch_add(&job->clocks[f->index], 1);
        (void)tide_sleep(tide_random_below(&f->random, 200000));
    }
    free(rows);
}

/* However long their threads take to begin. */
static void wait_all_count(struct cluster *c, struct job *job) {
    for (unsigned w = 0; w < WORKERS; w++) {
        for (int i = 0; i < 60000 && atomic_load(&job->clocks[w]) == 0; i++) {
            pause_cluster(c, 1000000);
        }
        assert_true(atomic_load(&job->clocks[w]) > 0);
    }
}

/* The coordinator's disk gets what the others wrote on theirs: the shared directory of a cluster.
 */
static void copy_entry_path(struct tide_port *from, struct tide_port *to, const char *path) {
    char *text;
    size_t size;
    if (tide_port_slurp(from, path, 64 << 20, &text, &size) == 0) {
        struct tide_file *file;
        assert_int_equal(to->ops->file_open(to, path,
                                            TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE,
                                            &file),
                         0);
        assert_int_equal(to->ops->file_write(file, text, size, 0), 0);
        to->ops->file_close(file);
        tide_free(text);
    }
}

struct copying {
    struct tide_port *from, *to;
    char path[512];
};

static void copy_entry(void *arg, const char *name) {
    struct copying *c = arg;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", c->path, name);
    copy_entry_path(c->from, c->to, path);
}

static void make_shared(struct cluster *c, const char *dir) {
    uint64_t *numbers;
    size_t count;
    if (!c->sim || tide__generation_list(c->ports[0], dir, &numbers, &count)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        for (unsigned n = 1; n < c->count; n++) {
            struct copying copying = {.from = c->ports[n], .to = c->ports[0]};
            snprintf(copying.path, sizeof copying.path, "%s/%06llu", dir,
                     (unsigned long long)numbers[i]);
            (void)c->ports[n]->ops->file_list(c->ports[n], copying.path, copy_entry, &copying);
        }
    }
    tide_free(numbers);
}

/* The simulator's nodes have a disk each: all get the directory. */
static void make_directories(struct cluster *c, const char *dir, uint64_t up_to) {
    for (unsigned n = 0; c->sim && n < c->count; n++) {
        assert_int_equal(c->ports[n]->ops->file_mkdir(c->ports[n], dir, 0700), 0);
        for (uint64_t g = 1; g <= up_to; g++) {
            char path[600];
            snprintf(path, sizeof path, "%s/%06llu", dir, (unsigned long long)g);
            if (n > 0) {
                assert_int_equal(c->ports[n]->ops->file_mkdir(c->ports[n], path, 0700), 0);
            }
        }
        assert_int_equal(c->ports[n]->ops->directory_sync(c->ports[n], dir), 0);
        assert_int_equal(c->ports[n]->ops->directory_sync(c->ports[n], "/tmp"), 0);
    }
}

struct looking {
    uint32_t clock;
    unsigned workers;
};

static void look_run(struct fiber *f) {
    struct looking *l = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    for (uint64_t k = 0; k < ROWS; k++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, &k, 1, row, NULL) == 0);
        for (unsigned w = 0; w < WIDTH; w++) {
            if (row[w] != (w < l->workers ? (float)l->clock : 0)) {
                snprintf(f->failure, sizeof f->failure, "key %u, worker %u: %g at clock %u",
                         (unsigned)k, w, (double)row[w], l->clock);
                return;
            }
        }
    }
}

/* Several checkpoints under load, then each is restored onto another number of nodes. */
static void cut_is_exact(bool simulated, uint64_t seed, struct job job, const char *consistency) {
    struct cluster c;
    struct fiber fibers[WORKERS], saver;
    struct tide_table_options options = counters(job.hashed, job.relocate);
    struct saving saving = {.options = {.cut = TIDE_CUT_CLOCK, .keep = 9, .full_every = 3}};
    uint32_t clocks[5] = {0};
    char dir[128];
    enum { GENERATIONS = 4 };
    open_cluster(&c, simulated, 3, seed);
    snprintf(dir, sizeof dir, "%s/ckpt", simulated ? "/tmp" : c.directory);
    make_directories(&c, dir, GENERATIONS);
    saving.options.dir = dir;
    if (consistency) {
        assert_int_equal(tide_consistency_parse(consistency, &options.consistency), 0);
    }
    create(&c, options);
    for (unsigned w = 0; w < WORKERS; w++) {
        start(&c, &fibers[w], 1 + w % 2, w, worker_run, &job);
    }
    wait_all_count(&c, &job);
    for (unsigned g = 0; g < GENERATIONS; g++) {
        pause_cluster(&c, 3000000);
        start(&c, &saver, 0, 77, save_run, &saving);
        while (atomic_load(&c.running) > WORKERS) {
            pause_cluster(&c, 1000000);
        }
        assert_string_equal(saver.failure, "");
        assert_int_equal(saving.info.generation, g + 1);
        assert_int_equal(saving.info.full, g == 0 || g == 3);
        clocks[g + 1] = saving.info.clock;
        assert_true(g == 0 || clocks[g + 1] > clocks[g]);
    }
    atomic_store(&job.stop, true);
    finish(&c, fibers, WORKERS);
    /* parts of the last clocks are in flight to tables with clocks */
    pause_cluster(&c, 100000000);
    make_shared(&c, dir);
    add_node(&c);
    wait_members(&c, 4);
    for (uint64_t g = GENERATIONS; g >= 1; g--) {
        struct restoring r = {.dir = dir, .generation = g};
        run_alone(&c, 0, restore_run, &r);
        assert_int_equal(r.clock, clocks[g]);
        struct looking l = {.clock = r.clock, .workers = WORKERS};
        run_alone(&c, (unsigned)g % 4, look_run, &l);
    }
    close_cluster(&c);
}

static void a_cut_by_clocks_is_exact(void **state) {
    (void)state;
    cut_is_exact(false, 1, (struct job){.async = false}, NULL);
    cut_is_exact(false, 2, (struct job){.hashed = true, .relocate = true, .async = true}, NULL);
}

static void a_cut_by_clocks_is_exact_under_seeds(void **state) {
    (void)state;
    const char *asked = getenv("TIDE_TEST_SEEDS");
    const uint64_t seeds = asked ? strtoull(asked, NULL, 10) : 12 / SLOWER;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        cut_is_exact(true, seed,
                     (struct job){.hashed = seed & 1, .relocate = seed & 2, .async = seed & 4},
                     NULL);
    }
}

/* Two workers of a node share copies, up to three clocks apart: what they push before and after
 * the cut leaves apart. */
static const char *const models[] = {"ssp:2", "essp:1", "bsp", "async", "ssp:0", "vap:1"};

static void a_cut_of_rows_with_clocks_is_exact(void **state) {
    (void)state;
    cut_is_exact(false, 1, (struct job){.hashed = false}, "ssp:3");
    cut_is_exact(false, 2, (struct job){.hashed = true}, "bsp");
}

static void a_cut_of_rows_with_clocks_is_exact_under_seeds(void **state) {
    (void)state;
    const char *asked = getenv("TIDE_TEST_SEEDS");
    const uint64_t seeds = asked ? strtoull(asked, NULL, 10) : 12 / SLOWER;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const char *model = models[seed % TIDE_COUNT(models)];
        if (seed % 3 != 0) {
            unlikely_begins("clock_in_parts", seed, 0.5);
        }
        cut_is_exact(true, seed, (struct job){.hashed = seed / 2 & 1, .single = seed / 4 & 1},
                     model);
        unlikely_ends();
    }
}

/* ---- copies ---- */

/* The one node is gone, and rows have all their copies. */
static void wait_whole_without(struct cluster *c, unsigned gone) {
    struct tide_table_health health = {.under_replicated = 1};
    struct tide_member member = {.state = TIDE_MEMBER_UP};
    for (int i = 0; i < 20000 && member.state < TIDE_MEMBER_LEFT; i++) {
        pause_cluster(c, 1000000);
        assert_true(tide_net_member(tide_net_of(c->nodes[0]), (uint16_t)(gone + 1), &member));
    }
    assert_true(member.state >= TIDE_MEMBER_LEFT);
    for (int i = 0; i < 20000 && health.under_replicated; i++) {
        pause_cluster(c, 1000000);
        tide_table_health(table_of(c, 0, "counters"), &health);
    }
    assert_int_equal(health.under_replicated + health.lost_count, 0);
}

/* Rows with copies; after two generations a home is killed and copies become homes, or it hands its
 * slots on while a generation is written. */
static void cut_is_exact_with_copies(uint64_t seed) {
    enum { GENERATIONS = 5, VICTIM = 2 };
    struct cluster c;
    struct fiber fibers[WORKERS], saver;
    struct job job = {.async = seed & 1};
    struct saving saving = {.options = {.cut = TIDE_CUT_CLOCK, .keep = 9, .full_every = 8}};
    struct tide_table_options options = counters(seed & 2, false);
    uint32_t clocks[GENERATIONS + 1] = {0};
    uint64_t numbers[GENERATIONS + 1] = {0}; /* one that failed early has none */
    const bool leaves = seed % 3 == 0;
    saving.options.dir = "/tmp/ckpt";
    open_cluster(&c, true, 4, seed);
    make_directories(&c, "/tmp/ckpt", GENERATIONS);
    options.replicas = (uint8_t)(1 + seed / 2 % 2);
    create(&c, options);
    for (unsigned w = 0; w < WORKERS; w++) {
        start(&c, &fibers[w], w % 2, w, worker_run, &job);
    }
    wait_all_count(&c, &job);
    for (unsigned g = 1; g <= GENERATIONS; g++) {
        pause_cluster(&c, 3000000);
        start(&c, &saver, 0, 77, save_run, &saving);
        if (g == 3 && leaves) {
            pause_cluster(&c, 1 + tide_random_below(&fibers[0].random, 1000000));
            tide_net_leave(tide_net_of(c.nodes[VICTIM]));
        }
        while (atomic_load(&c.running) > WORKERS) {
            pause_cluster(&c, 100000);
        }
        clocks[g] = saver.failure[0] ? 0 : saving.info.clock;
        numbers[g] = saving.info.generation;
        assert_true(clocks[g] || (g == 3 && leaves));
        if (clocks[g] && !(g == 3 && leaves)) {
            assert_int_equal(saving.info.full, g == 1 || g == 3u + leaves);
        }
        if (g == 2) {
            make_shared(&c, "/tmp/ckpt");
        }
        if (g == 2 && !leaves) {
            tide_sim_crash(c.sim, "n3");
        }
        if (g == 2 + (unsigned)leaves) {
            wait_whole_without(&c, VICTIM);
        }
    }
    atomic_store(&job.stop, true);
    finish(&c, fibers, WORKERS);
    make_shared(&c, "/tmp/ckpt");
    for (uint64_t g = GENERATIONS; g >= 1; g--) {
        struct restoring r = {.dir = "/tmp/ckpt", .generation = numbers[g]};
        if (clocks[g]) {
            run_alone(&c, 0, restore_run, &r);
            assert_int_equal(r.clock, clocks[g]);
            struct looking l = {.clock = r.clock, .workers = WORKERS};
            run_alone(&c, (unsigned)g % 2, look_run, &l);
        }
    }
    close_cluster(&c);
}

/* All rows get one push; then they only move, without rest. */
static void move_run(struct fiber *f) {
    struct job *job = f->arg;
    struct tide_table *table;
    uint64_t keys[ROWS];
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    for (uint64_t k = 0; k < ROWS; k++) {
        float row[WIDTH] = {0};
        keys[k] = k;
        row[f->index] = 1;
        CHECK(f, tide_table_push(table, &k, 1, row, NULL) == 0);
    }
    atomic_fetch_add(&job->clocks[f->index], 1);
    while (!atomic_load(&job->stop)) {
        shuffle(&f->random, keys, ROWS);
        CHECK(f, tide_table_localize(table, keys, ROWS / 3, NULL) == 0);
        (void)tide_sleep(tide_random_below(&f->random, 20000));
    }
}

static void save_alone(struct cluster *c, struct saving *saving) {
    struct fiber saver;
    const int others = atomic_load(&c->running);
    start(c, &saver, 0, 77, save_run, saving);
    while (atomic_load(&c->running) > others) {
        pause_cluster(c, 100000);
    }
    assert_string_equal(saver.failure, "");
}

/* Nobody pushes while the generations are written: a row that is in flight from a node whose walk
 * has not come to it, to one whose walk has passed, must be in one of their files. Before, `empty`
 * generations are written, and then a node joins. */
static void rows_only_move(uint64_t seed, unsigned empty) {
    enum { GENERATIONS = 4 };
    struct cluster c;
    struct fiber fibers[WORKERS];
    struct job job = {.relocate = true};
    struct saving saving = {.options = {.cut = TIDE_CUT_FUZZY, .keep = 9, .full_every = 1}};
    open_cluster(&c, true, 3, seed);
    make_directories(&c, "/tmp/ckpt", empty + GENERATIONS);
    saving.options.dir = "/tmp/ckpt";
    create(&c, counters(false, true));
    for (unsigned g = 0; g < empty; g++) {
        save_alone(&c, &saving);
    }
    if (empty) {
        add_node(&c);
        pause_cluster(&c, TIDE_SECOND);
        make_directories(&c, "/tmp/ckpt", empty + GENERATIONS);
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        start(&c, &fibers[w], 1 + w % (c.count - 1), w, move_run, &job);
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        while (atomic_load(&job.clocks[w]) == 0) {
            pause_cluster(&c, 1000000);
        }
    }
    for (unsigned g = 0; g < GENERATIONS; g++) {
        save_alone(&c, &saving);
    }
    atomic_store(&job.stop, true);
    finish(&c, fibers, WORKERS);
    make_shared(&c, "/tmp/ckpt");
    for (uint64_t g = GENERATIONS; g >= 1; g--) {
        struct restoring r = {.dir = "/tmp/ckpt", .generation = empty + g};
        struct looking l = {.clock = 1, .workers = WORKERS};
        run_alone(&c, 0, restore_run, &r);
        run_alone(&c, (unsigned)g % 3, look_run, &l);
    }
    close_cluster(&c);
}

/* What it had said to another was still in flight when it died. */
static void a_generation_does_not_wait_for_who_has_gone(void **state) {
    (void)state;
    struct cluster c;
    struct fiber saver;
    struct saving saving = {.options = {.dir = "/tmp/ckpt", .cut = TIDE_CUT_FUZZY, .keep = 9}};
    open_cluster(&c, true, 3, 1);
    make_directories(&c, "/tmp/ckpt", 1);
    create(&c, counters(false, true));
    tide_sim_cut(c.sim, "n3", "n2", true);
    start(&c, &saver, 0, 77, save_run, &saving);
    pause_cluster(&c, 100000000);
    assert_int_equal(atomic_load(&c.running), 1);
    tide_sim_crash(c.sim, "n3");
    pause_cluster(&c, 20 * TIDE_SECOND);
    assert_int_equal(atomic_load(&c.running), 0);
    assert_int_equal(saving.code, TIDE_EBUSY);
    assert_non_null(strstr(saver.failure, "nodes went while the checkpoint was written"));
    close_cluster(&c);
}

static void rows_that_only_move_are_in_every_full_generation(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12 / SLOWER; seed++) {
        rows_only_move(seed, 0);
    }
}

/* Its rows come with the digit 0, which the sixteenth generation would have had. */
static void rows_of_a_node_that_joined_are_in_the_sixteenth_generation(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12 / SLOWER; seed++) {
        rows_only_move(seed, 15);
    }
}

static void a_cut_of_rows_with_copies_is_exact(void **state) {
    (void)state;
    const char *asked = getenv("TIDE_TEST_SEEDS");
    const uint64_t seeds = asked ? strtoull(asked, NULL, 10) : 12 / SLOWER;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        cut_is_exact_with_copies(seed);
    }
}

/* ---- crashes ---- */

enum { SAVES = 12 };

/* What a crashed process held is gone with it; here it stays, and is no leak of the program. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
static void ignore_leaks(bool on) {
    (on ? __lsan_disable : __lsan_enable)();
}
#else
static void ignore_leaks(bool on) {
    (void)on;
}
#endif

struct saves {
    uint64_t generation; /* the newest that was acknowledged */
    uint32_t clock;
    atomic_uint attempts;
};

/* One after the other, whatever happens. */
static void save_many_run(struct fiber *f) {
    struct saves *s = f->arg;
    for (unsigned i = 0; i < SAVES; i++) {
        const struct tide_checkpoint_options options = {.dir = "/tmp/ckpt",
                                                        .cut = TIDE_CUT_CLOCK,
                                                        .keep = 2,
                                                        .full_every = 3,
                                                        .timeout = TIDE_SECOND};
        struct tide_checkpoint *c;
        if (tide_checkpoint_start(f->node, &options, &c) == 0) {
            const struct tide_checkpoint_info info = *tide_checkpoint_get(c);
            if (tide_checkpoint_commit(c,
                                       "\x81\xa1"
                                       "a\x07",
                                       4) == 0) {
                s->generation = info.generation;
                s->clock = info.clock;
            }
        }
        atomic_fetch_add(&s->attempts, 1);
        (void)tide_sleep(TIDE_SECOND / 1000);
    }
}

static void count_crash(void *arg, const char *node) {
    (void)node;
    *(bool *)arg = true;
}

/* Disks that fail, and a crash within one of their operations: what is restored is the newest
 * generation that was acknowledged, or one that was about to be, and nothing newer is damaged. */
static void crash_and_restore(uint64_t seed, unsigned *crashes, unsigned *found) {
    struct cluster c, again;
    struct fiber fibers[WORKERS], saver;
    struct job job = {.hashed = seed & 1, .relocate = seed & 2, .async = seed & 4};
    struct saves saves = {0};
    bool crashed = false;
    open_cluster(&c, true, 2, seed);
    ignore_leaks(true);
    make_directories(&c, "/tmp/ckpt", SAVES + 1);
    create(&c, counters(job.hashed, job.relocate));
    tide_sim_on_crash(c.sim, count_crash, &crashed);
    const char *victim = seed & 8 ? "n1" : "n2";
    const struct tide_sim_disk disk = {.write_error = seed % 5 == 0 ? 0.01 : 0,
                                       .sync_error = seed % 5 == 0 ? 0.02 : 0,
                                       .crash = seed % 7 == 0 ? 0 : 0.01,
                                       .sync_ns_min = 10000,
                                       .sync_ns_max = 2000000};
    for (unsigned w = 0; w < WORKERS; w++) {
        start(&c, &fibers[w], w % 2, w, worker_run, &job);
    }
    tide_sim_set_disk(c.sim, victim, &disk);
    start(&c, &saver, 0, 77, save_many_run, &saves);
    while (!crashed && atomic_load(&saves.attempts) < SAVES) {
        pause_cluster(&c, 1000000);
    }
    *crashes += crashed;
    atomic_store(&job.stop, true);
    tide_sim_set_disk(c.sim, victim, &(struct tide_sim_disk){0});
    for (unsigned i = c.count; i-- > 0;) {
        close_node(&c, i);
    }
    for (unsigned i = 0; i < c.count; i++) {
        c.ports[i]->ops->destroy(c.ports[i]);
    }
    ignore_leaks(false);
    again = (struct cluster){.sim = c.sim};
    strcpy(again.directory, c.directory);
    for (unsigned i = 0; i < 1 + seed % 3 || i < 2; i++) {
        add_node(&again);
    }
    wait_members(&again, again.count);
    make_shared(&again, "/tmp/ckpt");
    struct restoring r = {.dir = "/tmp/ckpt"};
    struct fiber f;
    start(&again, &f, 0, 0, restore_run, &r);
    finish(&again, NULL, 0);
    if (r.code && (saves.generation || r.code != TIDE_ENOENT)) {
        fail_msg("seed %u: generation %u was acknowledged: %s", (unsigned)seed,
                 (unsigned)saves.generation, r.text);
    }
    if (r.code == 0) {
        assert_string_equal(f.failure, "");
        if (r.text[0] || r.found < saves.generation || r.clock < saves.clock) {
            fail_msg("seed %u: restored %u, acknowledged %u; %s", (unsigned)seed, (unsigned)r.found,
                     (unsigned)saves.generation, r.text);
        }
        struct looking l = {.clock = r.clock, .workers = WORKERS};
        run_alone(&again, again.count - 1, look_run, &l);
        ++*found;
    }
    close_cluster(&again);
}

static void crashes_leave_the_newest_generation(void **state) {
    (void)state;
    const char *asked = getenv("TIDE_TEST_SEEDS");
    const uint64_t seeds = asked ? strtoull(asked, NULL, 10) : 40 / SLOWER;
    unsigned crashes = 0, found = 0;
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        crash_and_restore(seed, &crashes, &found);
    }
    assert_true(crashes > seeds / 3 && found > seeds / 3);
    tide_log_set(TIDE_LOG_INFO, NULL, NULL);
}

/* ---- removals of which the disk does not say that they are done ---- */

static const struct tide_port_ops *disk;

static int sync_all_but_second(struct tide_port *port, const char *path) {
    return strstr(path, "/000002") ? tide_fail(TIDE_EIO, "the disk does not answer")
                                   : disk->directory_sync(port, path);
}

/* Two chains, each of a full one and an increment: of the first chain nothing is kept. */
static void save_two_chains_run(struct fiber *f) {
    struct saving s = {
        .options = {.dir = "/shared/ckpt", .cut = TIDE_CUT_FUZZY, .keep = 2, .full_every = 2}};
    struct fiber saver = {.node = f->node, .arg = &s};
    struct tide_port *port = tide_store_of(f->node)->port;
    struct tide_port_ops failing = *port->ops;
    failing.directory_sync = sync_all_but_second;
    disk = port->ops;
    for (uint64_t generation = 1; generation <= 4; generation++) {
        port->ops = generation == 4 ? &failing : disk;
        save_run(&saver);
        CHECK(f, s.code == 0 && s.info.generation == generation);
        CHECK(f, s.info.full == (generation % 2 == 1));
    }
    port->ops = disk;
}

/* The second one's manifest may come back with a crash: then the first, on which it is built, must
 * be there. */
static void what_may_come_back_keeps_what_it_is_built_on(void **state) {
    (void)state;
    unsigned back = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct cluster c;
        struct tide_file_info info;
        open_cluster(&c, true, 1, seed);
        tide_sim_share(c.sim, "/shared");
        create(&c, counters(false, false));
        run_alone(&c, 0, save_two_chains_run, NULL);
        tide_sim_crash(c.sim, "/shared");
        const struct tide_port_ops *ops = c.ports[0]->ops;
        if (ops->file_info(c.ports[0], "/shared/ckpt/000002/MANIFEST.json", &info) == 0) {
            struct restoring r = {.dir = "/shared/ckpt", .generation = 2};
            run_alone(&c, 0, restore_run, &r);
            back++;
        }
        close_cluster(&c);
    }
    assert_true(back > 0);
}

/* Removing a generation of which the disk does not say that its manifest is gone: a crash may bring
 * the manifest back, and then all that it stands for is there. */
static void what_may_come_back_stays_whole(void **state) {
    (void)state;
    static const char *const files[] = {"/tmp/k/000001/MANIFEST.json", "/tmp/k/000001/rows"};
    unsigned back = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct tide_sim *sim;
        struct tide_port *port;
        struct tide_file_info info;
        assert_int_equal(tide_sim_create(&(struct tide_sim_options){.seed = seed}, &sim), 0);
        assert_int_equal(tide_sim_port(sim, "a", &port), 0);
        assert_int_equal(port->ops->file_mkdir(port, "/tmp/k", 0700), 0);
        assert_int_equal(port->ops->file_mkdir(port, "/tmp/k/000001", 0700), 0);
        for (size_t i = 0; i < TIDE_COUNT(files); i++) {
            assert_int_equal(tide__file_commit(port, files[i], "x", 1), 0);
        }
        assert_int_equal(port->ops->directory_sync(port, "/tmp/k"), 0);
        assert_int_equal(port->ops->directory_sync(port, "/tmp"), 0);
        tide_sim_set_disk(sim, "a", &(struct tide_sim_disk){.sync_error = 1});
        tide__generation_remove(port, "/tmp/k", 1);
        tide_sim_crash(sim, "a");
        port->ops->destroy(port);
        assert_int_equal(tide_sim_port(sim, "a", &port), 0);
        if (port->ops->file_info(port, files[0], &info) == 0) {
            back++;
            assert_int_equal(port->ops->file_info(port, files[1], &info), 0);
        }
        port->ops->destroy(port);
        tide_sim_destroy(sim);
    }
    assert_true(back > 0);
}

/* ---- what a restore brings back, and nothing else ---- */

static float pulled(struct fiber *f, struct tide_table *table, uint64_t key) {
    float row[WIDTH] = {-1};
    if (tide_table_pull(table, &key, 1, row, NULL) != 0) {
        snprintf(f->failure, sizeof f->failure, "%s", tide_error_message());
    }
    return row[0];
}

static int push_one(struct tide_table *table, uint64_t key) {
    const float row[WIDTH] = {1};
    return tide_table_push(table, &key, 1, row, NULL);
}

/* A table that was dropped before the save, rows and a learning rate of after it. */
static void restore_all_run(struct fiber *f) {
    struct saving s = {.options = {.dir = "/shared/ckpt", .cut = TIDE_CUT_FUZZY, .keep = 9, .full_every = 2}};
    struct restoring r = {.dir = "/shared/ckpt"};
    struct fiber saver = {.node = f->node, .arg = &s}, restorer = {.node = f->node, .arg = &r};
    struct tide_table_options hashed = counters(true, false), dropped = counters(false, false);
    struct tide_table *table, *other;
    hashed.update = TIDE_UPDATE_SGD;
    hashed.lr = 1;
    hashed.key_limit = ROWS;
    dropped.name = "dropped";
    CHECK(f, tide_table_create(f->node, &hashed, &table) == 0);
    CHECK(f, tide_table_create(f->node, &dropped, &other) == 0);
    CHECK(f, push_one(table, 7) == 0 && push_one(other, 7) == 0);
    tide_table_release(other);
    save_run(&saver);
    CHECK(f, s.code == 0 && s.info.full);
    CHECK(f, tide_table_drop(f->node, "dropped") == 0);
    CHECK(f, tide_table_set_rate(table, 2) == 0);
    CHECK(f, push_one(table, 7) == 0);
    save_run(&saver);
    CHECK(f, s.code == 0 && s.info.full); /* rows are gone: it builds on none */
    CHECK(f, tide_table_set_rate(table, 5) == 0);
    CHECK(f, push_one(table, 7) == 0 && push_one(table, 8) == 0);
    restore_run(&restorer);
    CHECK(f, r.found == 2 && restorer.failure[0] == 0);
    CHECK(f, tide_table_find(f->node, "dropped", &other) == TIDE_ENOENT);
    CHECK(f, tide_table_rate(table) == 2);
    CHECK(f, pulled(f, table, 7) == -3 && pulled(f, table, 8) == 0); /* by steps of 1 and 2 */
    tide_table_release(table);
}

static void a_restore_brings_back_what_was_saved_and_nothing_else(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 1);
    tide_sim_share(c.sim, "/shared");
    run_alone(&c, 0, restore_all_run, NULL);
    close_cluster(&c);
}

/* A row that one directory's generation took is not in the other's, whose next generation has to be a full one. */
static void two_directories_run(struct fiber *f) {
    static const char *const dirs[] = {"/shared/one", "/shared/other", "/shared/one"};
    struct tide_table_options options = counters(false, false);
    struct restoring r = {.dir = "/shared/one"};
    struct fiber restorer = {.node = f->node, .arg = &r};
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &options, &table) == 0);
    for (uint64_t i = 0; i < TIDE_COUNT(dirs); i++) {
        struct saving s = {.options = {.dir = dirs[i], .cut = TIDE_CUT_FUZZY, .keep = 9, .full_every = 9}};
        struct fiber saver = {.node = f->node, .arg = &s};
        CHECK(f, push_one(table, i) == 0);
        save_run(&saver);
        CHECK(f, s.code == 0);
    }
    restore_run(&restorer);
    CHECK(f, r.found == 2 && restorer.failure[0] == 0);
    for (uint64_t i = 0; i < TIDE_COUNT(dirs); i++) {
        CHECK(f, pulled(f, table, i) == 1);
    }
    tide_table_release(table);
}

static void generations_in_two_directories_have_all_rows_each(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 1);
    tide_sim_share(c.sim, "/shared");
    run_alone(&c, 0, two_directories_run, NULL);
    close_cluster(&c);
}

/* Tables of a run come back as those of another: its clocks are those of its own workers. */
static void restore_as_run(struct fiber *f) {
    struct saving s = {.options = {.dir = "/shared/ckpt", .cut = TIDE_CUT_FUZZY, .keep = 9}};
    struct fiber saver = {.node = f->node, .arg = &s};
    const struct tide__restore_as as = {.job = "job", .run = "job-4", .number = 4};
    struct tide_table_options options = counters(false, false);
    struct tide_table *table, *other;
    struct tide_restored restored;
    options.name = "job-3.rows";
    options.run = options.domain = 3;
    CHECK(f, tide_table_create(f->node, &options, &table) == 0);
    options.name = "job-34.rows"; /* no run's: it only is called so */
    options.run = options.domain = 0;
    CHECK(f, tide_table_create(f->node, &options, &other) == 0);
    tide_table_release(other);
    CHECK(f, push_one(table, 7) == 0);
    tide_table_release(table);
    save_run(&saver);
    CHECK(f, tide__checkpoint_restore_as(f->node, "/shared/ckpt", 0, &as, &restored) == 0);
    tide_restored_release(&restored);
    CHECK(f, tide_table_find(f->node, "job-4.rows", &table) == 0);
    CHECK(f, table->options.run == 4 && table->options.domain == 4 && pulled(f, table, 7) == 1);
    tide_table_release(table);
    CHECK(f, tide_table_find(f->node, "job-44.rows", &table) == TIDE_ENOENT);
}

static void tables_come_back_as_those_of_the_run_that_resumes(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 1, 1);
    tide_sim_share(c.sim, "/shared");
    run_alone(&c, 0, restore_as_run, NULL);
    close_cluster(&c);
}

int main(int argc, char **argv) {
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_by_clocks_is_exact),
        cmocka_unit_test(a_cut_by_clocks_is_exact_under_seeds),
        cmocka_unit_test(a_cut_of_rows_with_clocks_is_exact),
        cmocka_unit_test(a_cut_of_rows_with_clocks_is_exact_under_seeds),
        cmocka_unit_test(a_generation_does_not_wait_for_who_has_gone),
        cmocka_unit_test(rows_that_only_move_are_in_every_full_generation),
        cmocka_unit_test(rows_of_a_node_that_joined_are_in_the_sixteenth_generation),
        cmocka_unit_test(a_cut_of_rows_with_copies_is_exact),
        cmocka_unit_test(crashes_leave_the_newest_generation),
        cmocka_unit_test(what_may_come_back_keeps_what_it_is_built_on),
        cmocka_unit_test(what_may_come_back_stays_whole),
        cmocka_unit_test(a_restore_brings_back_what_was_saved_and_nothing_else),
        cmocka_unit_test(generations_in_two_directories_have_all_rows_each),
        cmocka_unit_test(tables_come_back_as_those_of_the_run_that_resumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
