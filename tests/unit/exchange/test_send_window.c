/* What an exchange has in flight: so little that the layer needed first overtakes the others, and
 * enough to keep the link busy. */
#include "exchange/exchange.h"
#include "exchange/send_window.h"
#include "store_world.h"

/* ---- windows of links that are known ---- */

struct way { /* of one message after the other */
    double bytes_per_ns;
    uint64_t round_trip_ns; /* from the end of a message to the word that it was consumed */
    size_t most;
    struct tide__send_window window;
    uint64_t now, free_at, consumed, under_way;
    uint64_t done[4096]; /* when what is in flight will be consumed */
    size_t first, last, size;
};

static void settle(struct way *w) {
    while (w->first < w->last && w->done[w->first % TIDE_COUNT(w->done)] <= w->now) {
        w->first++;
        w->consumed += w->size;
        w->under_way -= w->size;
    }
}

/* Sends messages of a size as the window lets them leave. Returns the bytes/ns since `from` until
 * the last one is consumed. */
static double carry(struct way *w, size_t count, size_t size) {
    const uint64_t began = w->now;
    w->size = size;
    for (size_t i = 0; i < count; i++) {
        settle(w);
        size_t window =
            tide__send_window_look(&w->window, w->now, w->consumed, w->under_way, size, w->most);
        while (w->under_way > 0 && w->under_way + size > window) {
            w->now = w->done[w->first % TIDE_COUNT(w->done)];
            settle(w);
        }
        w->free_at = (w->free_at > w->now ? w->free_at : w->now) +
                     (uint64_t)((double)size / w->bytes_per_ns);
        w->done[w->last++ % TIDE_COUNT(w->done)] = w->free_at + w->round_trip_ns;
        w->under_way += size;
    }
    w->now = w->free_at + w->round_trip_ns;
    settle(w);
    return (double)(count * size) / (double)(w->now - began);
}

static struct way way(double bytes_per_s, uint64_t round_trip_ns) {
    return (struct way){.bytes_per_ns = bytes_per_s * 1e-9,
                        .round_trip_ns = round_trip_ns,
                        .most = 8 << 20,
                        .now = 1};
}

static void assert_between(double low, double value, double high) {
    if (!(low <= value && value <= high)) {
        fail_msg("%g is not in %g .. %g", value, low, high);
    }
}

static void a_window_holds_a_short_time_of_its_link(void **state) {
    (void)state;
    struct way w = way(125e6, 200000);
    (void)carry(&w, 20, 16 << 10);
    double rate = carry(&w, 2000, 16 << 10);
    assert_between(0.97 * w.bytes_per_ns, rate, w.bytes_per_ns);
    assert_between(625e3, (double)w.window.bytes, 625e3 + 2 * (double)tide_limit(exchange_window_least_bytes));
    w.bytes_per_ns /= 10; /* the link becomes slower */
    rate = carry(&w, 2000, 16 << 10);
    assert_between(0.97 * w.bytes_per_ns, rate, w.bytes_per_ns);
    assert_between((double)tide_limit(exchange_window_least_bytes), (double)w.window.bytes, 63e3 + 2 * (double)tide_limit(exchange_window_least_bytes));
    w.most = 200000;
    w.bytes_per_ns *= 100;
    (void)carry(&w, 2000, 16 << 10);
    assert_int_equal(w.window.bytes, 200000);
}

static void a_slow_link_holds_little(void **state) {
    (void)state;
    struct way w = way(2e6, 200000);
    double rate = carry(&w, 500, 16 << 10);
    assert_between(0.97 * w.bytes_per_ns, rate, w.bytes_per_ns);
    assert_between((double)tide_limit(exchange_window_least_bytes), (double)w.window.bytes, 2 * (double)tide_limit(exchange_window_least_bytes));
    rate = carry(&w, 50, 1 << 20); /* larger than the window: each alone, but for the round trip */
    assert_between(0.97 * w.bytes_per_ns, rate, w.bytes_per_ns);
}

static void a_long_way_is_filled(void **state) {
    (void)state;
    struct way w = way(125e6, 20000000); /* the least window would let 5 % through */
    (void)carry(&w, 4000, 16 << 10);
    assert_between(125e6 * 0.025, (double)w.window.bytes, 8 << 20);
    double rate = carry(&w, 20000, 16 << 10);
    assert_between(0.97 * w.bytes_per_ns, rate, w.bytes_per_ns);
}

static void what_lies_between_two_steps_does_not_count(void **state) {
    (void)state;
    struct way w = way(125e6, 200000);
    for (int step = 0; step < 200; step++) {
        (void)carry(&w, 48, 16 << 10); /* 6 ms of the link */
        w.now += 50000000;
    }
    assert_between(625e3, (double)w.window.bytes, 625e3 + 2 * (double)tide_limit(exchange_window_least_bytes));
}

/* ---- a small net, all of which could be in flight ---- */

enum { P = 3, LAYERS = 4, ELEMENTS = 900000, STEPS = 5 };

static const struct tide_exchange_layer layers[LAYERS] = {
    {0, 9000, NULL, 0}, {9000, 1000, NULL, 0}, {10000, 590000, NULL, 0}, {600000, 300000, NULL, 0}};

struct crew {
    uint8_t path;
    tide_address addresses[P];
    unsigned here, connected;
};

static struct tide_exchange *enter(struct fiber *f) {
    struct crew *crew = f->arg;
    struct tide_exchange_options o = {.rank = f->index,
                                      .workers = P,
                                      .elements = ELEMENTS,
                                      .layers = layers,
                                      .layer_count = LAYERS};
    struct tide_exchange *x = NULL;
    if (tide_exchange_create(f->node, &o, &x) != 0) {
        return NULL;
    }
    uint8_t paths[LAYERS], formats[LAYERS] = {0}, fanouts[LAYERS] = {0};
    memset(paths, crew->path, LAYERS);
    tide_exchange_set_plan(
        x, &(struct tide_exchange_plan){.paths = paths, .formats = formats, .fanouts = fanouts});
    crew->addresses[f->index] = tide_exchange_address(x);
    for (crew->here++; crew->here < P;) {
        tide_sleep(100000);
    }
    if (tide_exchange_connect(x, crew->addresses) != 0) {
        return NULL;
    }
    for (crew->connected++; crew->connected < P;) {
        tide_sleep(100000);
    }
    return x;
}

/* The upper layers are ready first; the lowest ones, while those are in flight, come first. */
static void worker_run(struct fiber *f) {
    const double own[TIDE_EXCHANGE_SUMS] = {1};
    struct tide_exchange *x = enter(f);
    CHECK(f, x);
    for (uint64_t step = 1; step <= STEPS; step++) {
        CHECK(f, tide_exchange_ready(x, step, 3) == 0 && tide_exchange_ready(x, step, 2) == 0);
        CHECK(f, tide_sleep(5000000) == 0);
        CHECK(f, tide_exchange_ready(x, step, 1) == 0 && tide_exchange_ready(x, step, 0) == 0);
        CHECK(f, tide_exchange_share(x, step, own, NULL) == 0);
        double sums[TIDE_EXCHANGE_SUMS];
        const struct tide_exchange_plan *agreed;
        CHECK(f, tide_exchange_sums(x, step, sums, &agreed) == 0);
        bool taken[LAYERS] = {false};
        for (size_t n = 0; n < LAYERS; n++) {
            size_t which, last = LAYERS;
            while (taken[--last]) {
            }
            CHECK(f, tide_exchange_next(x, step, last, &which) == 0);
            CHECK(f, n > 1 || which < 2);
            CHECK(f, tide_exchange_need(x, step, which) == 0);
            taken[which] = true;
        }
    }
    tide_exchange_release(x);
}

static void the_layer_needed_first_overtakes_those_that_left(void **state) {
    (void)state;
    static const uint8_t paths[] = {TIDE_PATH_PS, TIDE_PATH_RING};
    for (size_t i = 0; i < TIDE_COUNT(paths); i++) {
        struct cluster c;
        struct fiber fibers[P];
        struct crew crew = {.path = paths[i]};
        open_cluster(&c, true, P, 1 + i);
        tide_sim_set_nic(c.sim, NULL, 12500000); /* 100 Mbit/s: 0.4 s a step */
        for (uint32_t r = 0; r < P; r++) {
            start(&c, &fibers[r], r, r, worker_run, &crew);
        }
        finish(&c, fibers, P);
        close_cluster(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_holds_a_short_time_of_its_link),
        cmocka_unit_test(a_slow_link_holds_little),
        cmocka_unit_test(a_long_way_is_filled),
        cmocka_unit_test(what_lies_between_two_steps_does_not_count),
        cmocka_unit_test(the_layer_needed_first_overtakes_those_that_left),
    };
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
