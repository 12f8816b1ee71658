/* Tables with clocks: who waits for what, and continues when it is there. */
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"

enum { KEYS = 1000 };

static void create_table(struct cluster *c, const char *name, const char *consistency,
                         uint8_t update) {
    struct tide_table_options o = {
        .name = name, .width = 1, .key_count = KEYS, .update = update, .lr = 0.1f};
    assert_int_equal(tide_consistency_parse(consistency, &o.consistency), 0);
    create(c, o);
}

/* Two keys whose home is another node; none: 0, 0. */
static void keys_elsewhere(struct tide_table *table, uint64_t keys[2]) {
    const struct tide__clocked *c = tide__clocked_part(table);
    size_t found = 0;
    keys[0] = keys[1] = 0;
    for (uint64_t key = 0; key < KEYS && found < 2; key++) {
        if (tide__via(c, tide__slot_of(table, key)) != tide__store_self(table->store)) {
            keys[found++] = key;
        }
    }
}

/* ---- a pull that meets a latch (real threads: in the simulator nobody is met) ---- */

struct meeting {
    atomic_uint begun;
    atomic_bool ticks, over;
};

static void meeting_begin(struct fiber *f, struct meeting *m) {
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    atomic_fetch_add(&m->begun, 1);
    while (atomic_load(&m->begun) < 2) {
        (void)tide_sleep(100000);
    }
}

/* Waits for the clock of the first key, of which it hears while it stands at the latch of the
 * other. */
static void reader_run(struct fiber *f) {
    struct meeting *m = f->arg;
    struct tide_table *table;
    uint64_t keys[2];
    float rows[2];
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    keys_elsewhere(table, keys);
    meeting_begin(f, m);
    CHECK(f, tide_table_pull(table, keys, 2, rows, NULL) == 0);
    CHECK(f, tide_clock() == 1);
    CHECK(f, tide_table_pull(table, keys, 2, rows, NULL) == 0);
    atomic_store(&m->over, true);
    tide_worker_end();
}

static void ticker_run(struct fiber *f) {
    struct meeting *m = f->arg;
    meeting_begin(f, m);
    while (!atomic_load(&m->ticks)) {
        (void)tide_sleep(100000);
    }
    CHECK(f, tide_clock() == 1);
    while (!atomic_load(&m->over)) { /* its end would be news, too */
        (void)tide_sleep(100000);
    }
    tide_worker_end();
}

static void wait_for_waiter(struct fiber *f, const char *what) {
    for (bool there = false; !there; (void)tide_sleep(50000)) {
        struct tide_actor_info info[32];
        size_t got = tide_actors(f->node, info, 32);
        for (size_t i = 0; i < got && i < 32; i++) {
            there = there || strcmp(info[i].waits_for, what) == 0;
        }
    }
}

static void nothing(void *arg) {
    (void)arg;
}

static void latch_run(struct fiber *f) {
    struct meeting *m = f->arg;
    struct tide_table *table;
    uint64_t keys[2], old;
    atomic_uint_fast64_t *word;
    struct tide__copy_record *copy;
    CHECK(f, tide_table_find(f->node, "counters", &table) == 0);
    struct tide__clocked *c = tide__clocked_part(table);
    keys_elsewhere(table, keys);
    CHECK(f, keys[1] > keys[0]);
    char pull[100];
    snprintf(pull, sizeof pull, "pull counters, key %llu of n2 at clock 1",
             (unsigned long long)keys[0]);
    wait_for_waiter(f, pull);
    CHECK(f, tide__copy_lock(c, keys[1], false, true, &word, &old, &copy) == TIDE__FOUND);
    tide__sync_wake(tide__clocked_part(table)->sync); /* any news: it looks again */
    wait_for_waiter(f, "yield");
    atomic_store(&m->ticks, true);
    while (atomic_load(&c->floor[tide__slot_of(table, keys[0])]) < 1) {
        (void)tide_sleep(50000);
    }
    /* behind what the I/O thread does at the news: it wakes; and the reader yields once more */
    int code = tide_hop(f->node, TIDE_ROLE_IO, nothing, NULL, nothing);
    wait_for_waiter(f, "yield");
    tide__word_unlock(word, old);
    CHECK(f, code == 0);
}

static void a_pull_that_meets_a_latch_hears_of_news(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, false, 2, 1);
    create_table(&c, "counters", "essp:0", TIDE_UPDATE_ADD);
    struct meeting meeting = {.begun = 0};
    struct fiber fibers[3];
    start(&c, &fibers[0], 0, 0, reader_run, &meeting);
    start(&c, &fibers[1], 0, 1, latch_run, &meeting); /* on another thread */
    start(&c, &fibers[2], 1, 2, ticker_run, &meeting);
    finish(&c, fibers, 3);
    close_cluster(&c);
}

/* ---- a push that waits for the row another one asked for ---- */

struct sums {
    atomic_uint begun, pushed;
    atomic_bool ahead, pushing;
};

/* 0 pushes at clock 0, whose row 1 then pushes to at clock 2; 2, at the home, ends its clock when
 * both have it. */
static void sums_run(struct fiber *f) {
    struct sums *s = f->arg;
    struct tide_table *table;
    uint64_t keys[2];
    float one = 1, row;
    CHECK(f, tide_table_find(f->node, "sums", &table) == 0);
    keys_elsewhere(table, keys);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    atomic_fetch_add(&s->begun, 1);
    while (atomic_load(&s->begun) < 3) {
        (void)tide_sleep(1000);
    }
    if (f->index == 1) {
        CHECK(f, tide_clock() == 1 && tide_clock() == 2);
        atomic_store(&s->ahead, true);
    }
    const atomic_bool *flag = f->index == 0 ? &s->ahead : &s->pushing;
    while (!atomic_load(flag)) {
        (void)tide_sleep(1000);
    }
    if (f->index < 2) {
        if (f->index == 0) {
            (void)tide_sleep(TIDE_SECOND / 100); /* all that was told has come: no other news */
        }
        atomic_store(&s->pushing, true);
        CHECK(f, tide_table_push(table, keys, 1, &one, NULL) == 0);
        atomic_fetch_add(&s->pushed, 1);
    }
    while (atomic_load(&s->pushed) < 2) {
        (void)tide_sleep(1000);
    }
    if (f->index == 1) {
        CHECK(f, tide_table_pull(table, keys, 1, &row, NULL) == 0 && row != 0);
    } else {
        CHECK(f, tide_clock() == 1);
        CHECK(f, f->index == 2 || tide_clock() == 2);
    }
    tide_worker_end();
}

static void who_waits_for_anothers_request_asks_for_its_own_clock(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 1);
    create_table(&c, "sums", "ssp:1", TIDE_UPDATE_ADAGRAD);
    struct sums sums = {.begun = 0};
    struct fiber fibers[3];
    for (unsigned i = 0; i < 3; i++) {
        start(&c, &fibers[i], i / 2, i, sums_run, &sums);
    }
    finish(&c, fibers, 3);
    close_cluster(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_that_meets_a_latch_hears_of_news),
        cmocka_unit_test(who_waits_for_anothers_request_asks_for_its_own_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
