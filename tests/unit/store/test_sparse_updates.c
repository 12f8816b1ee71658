/*
 * Updates of single columns travel as the blocks of a row that they touched. The algebra of copies
 * against a row that is summed plainly, and counters on clusters, both ports.
 */
#include "store/clocked/clocked.h"
#include "store_world.h"
#include "tide/clock.h"
#include "tide/stats.h"

enum { WIDTH_MAX = 130, KEYS = 24, WIDTH = 100, CLOCKS = 5, WORKERS = 3 };

/* ---- the algebra ---- */

struct sent { /* in flight, as whole rows */
    uint64_t number;
    float row[WIDTH_MAX];
};

struct world {
    struct tide__copy_record_shape shape;
    struct tide__copy_record *r;
    float home[WIDTH_MAX], own[WIDTH_MAX]; /* own: all that was pushed here */
    struct sent sent[64];
    size_t sent_count, home_count; /* of those sent, how many are in `home` */
    uint64_t number, applied;
};

static void push_some(struct world *w, struct tide_random *random) {
    const uint32_t width = w->shape.floats;
    float whole[WIDTH_MAX], values[4];
    uint32_t columns[4];
    if (tide_random_below(random, 8) == 0) {
        for (uint32_t i = 0; i < width; i++) {
            whole[i] = (float)tide_random_below(random, 5);
            w->own[i] += whole[i];
        }
        tide__copy_record_push(&w->shape, w->r, whole);
    } else {
        const size_t count = 1 + (size_t)tide_random_below(random, 4);
        for (size_t i = 0; i < count; i++) {
            columns[i] = (uint32_t)tide_random_below(random, width);
            values[i] = (float)tide_random_below(random, 5);
            w->own[columns[i]] += values[i];
        }
        tide__copy_record_add(&w->shape, w->r, columns, values, count);
    }
    w->r->dirty = true;
}

static void send_all(struct world *w) {
    struct sent *s = &w->sent[w->sent_count];
    const uint16_t blocks = w->r->blocks;
    if (!w->r->dirty || w->sent_count == TIDE_COUNT(w->sent)) {
        return;
    }
    struct tide_blob *rows = tide_blob_create(w->shape.floats * sizeof(float));
    assert_int_equal(tide__copy_record_send(&w->shape, w->r, blocks, ++w->number, rows, rows->data), 0);
    s->number = w->number;
    tide__blocks_spread(&w->shape, blocks, rows->data, s->row);
    tide_blob_unref(rows);
    w->sent_count++;
}

static void apply_next(struct world *w) {
    if (w->home_count < w->sent_count) {
        const struct sent *s = &w->sent[w->home_count++];
        tide__copy_record_apply(&w->shape, w->home, s->row);
        w->applied = s->number;
    }
}

static void value_is_own(const struct world *w) {
    for (uint32_t i = 0; i < w->shape.floats; i++) {
        assert_true(tide__copy_record_value(w->r)[i] == w->own[i]);
    }
}

static void algebra_holds(uint32_t width, uint64_t seed) {
    const struct tide_table_options options = {.width = width, .update = TIDE_UPDATE_ADD};
    struct world w = {.shape = tide__copy_record_shape(&options)};
    struct tide_random random;
    w.r = tide_alloc_aligned(64, tide__copy_record_bytes(&w.shape));
    tide__copy_record_init(&w.shape, w.r, 1);
    tide_random_seed(&random, seed);
    for (int step = 0; step < 120; step++) {
        switch (tide_random_below(&random, 5)) {
        case 0:
            send_all(&w);
            break;
        case 1:
            apply_next(&w);
            break;
        case 2: /* nobody else pushes: the copy shows the same after each row */
            tide__copy_record_row(&w.shape, w.r, w.home, w.applied);
            break;
        case 3: /* what the home has not applied is sent anew */
            if (tide_random_below(&random, 6) == 0) {
                w.r->dirty |= tide__copy_record_unsend(&w.shape, w.r, w.applied);
                w.sent_count = w.home_count;
            }
            break;
        default:
            push_some(&w, &random);
        }
        value_is_own(&w);
    }
    w.r->dirty |= tide__copy_record_unsend(&w.shape, w.r, w.applied);
    w.sent_count = w.home_count = 0;
    send_all(&w);
    apply_next(&w);
    assert_memory_equal(w.home, w.own, width * sizeof(float));
    tide__copy_record_drop(w.r);
    tide_free(w.r);
}

static void copies_show_and_send_what_was_added_to_columns(void **state) {
    (void)state;
    static const uint32_t widths[] = {1, 3, 15, 16, 17, 33, 100, 128, WIDTH_MAX};
    for (size_t i = 0; i < TIDE_COUNT(widths); i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            algebra_holds(widths[i], seed);
        }
    }
}

/* ---- clusters ---- */

static void adder_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "topics", &table) == 0);
    CHECK(f, tide_worker_begin(f->node, f->index, 0) == 0);
    for (int clock = 0; clock < CLOCKS; clock++) {
        for (uint64_t key = 0; key < KEYS; key++) {
            const uint32_t columns[2] = {f->index, WIDTH - 1};
            const float values[2] = {1, 2};
            CHECK(f, tide_table_add(table, key, columns, values, 2) == 0);
        }
        CHECK(f, tide_clock() > 0);
    }
    tide_worker_end();
}

static void sums_run(struct fiber *f) {
    struct tide_table *table;
    CHECK(f, tide_table_find(f->node, "topics", &table) == 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH];
        CHECK(f, tide_table_pull(table, &key, 1, row, NULL) == 0);
        for (uint32_t i = 0; i < WIDTH; i++) {
            const float sum = i < WORKERS ? CLOCKS : i == WIDTH - 1 ? 2 * CLOCKS * WORKERS : 0;
            CHECK(f, row[i] == sum);
        }
    }
}

/* Of a row of 400 bytes the first block, of eight floats, and the last one, of four. */
static void columns_add_up(bool simulated, bool leaves, uint64_t seed) {
    struct cluster c;
    open_cluster(&c, simulated, 4, seed);
    struct tide_table_options o = {.name = "topics", .width = WIDTH, .key_count = KEYS};
    assert_int_equal(tide_consistency_parse(seed % 2 ? "ssp:1" : "essp:1", &o.consistency), 0);
    create(&c, o);
    struct fiber fibers[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        start(&c, &fibers[i], i, i, adder_run, NULL);
    }
    if (leaves) {
        pause_cluster(&c, 100000 * seed);
        tide_net_leave(tide_net_of(c.nodes[3]));
    }
    finish(&c, fibers, WORKERS);
    uint64_t rows = 0, bytes = 0;
    for (unsigned n = 0; n < WORKERS; n++) {
        struct tide_staleness s;
        run_alone(&c, n, sums_run, NULL);
        tide_table_staleness(table_of(&c, n, "topics"), &s);
        rows += s.deltas_out;
        bytes += s.delta_bytes;
    }
    assert_true(rows > 0 && bytes < rows * WIDTH * sizeof(float) / 2);
    close_cluster(&c);
}

static void columns_add_up_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        columns_add_up(true, seed % 3 == 0, seed);
    }
}

static void columns_add_up_real(void **state) {
    (void)state;
    columns_add_up(false, false, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_show_and_send_what_was_added_to_columns),
        cmocka_unit_test(columns_add_up_simulated),
        cmocka_unit_test(columns_add_up_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
