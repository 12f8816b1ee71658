/*
 * The memory cap of a node: what is counted, when a tier begins and ends, what is refused then, how
 * whoever is refused hears of it, and that everything gets on and goes back to normal.
 */
#include "store/core/node_store.h"
#include "tests/unit/store_world.h"

#include "net/link/memory_credit.h"
#include "net/link/peer.h"
#include "net/net_state.h"
#include "tide/placement.h"

enum { KEYS = 600, WIDTH = 16, BATCH = 8, FIBERS = 6, ROUNDS = 20 };
static const uint64_t cap = TIDE_MEMORY_CAP_MIN;

static struct tide_budget *budget_of(struct cluster *c, unsigned node) {
    return &tide_store_of(c->nodes[node])->budget;
}

/* Something uses up the node's memory to so many percent of its cap; what it is does not matter. */
static uint64_t fill(struct cluster *c, unsigned node, unsigned percent) {
    struct tide_budget *b = budget_of(c, node);
    uint64_t full = b->cap / 100 * percent, used = tide_budget_used(b);
    assert_true(full > used);
    tide_budget_keep(b, full - used);
    return full - used;
}

/* Until `viewer` has heard that `node` is in that tier. */
static void wait_tier(struct cluster *c, unsigned viewer, unsigned node, enum tide_tier tier) {
    struct tide_store *store = tide_store_of(c->nodes[viewer]);
    uint16_t id = tide_node_id(c->nodes[node]);
    for (int tries = 0; tide__memory_tier(store, id) != tier; tries++) {
        assert_true(tries < 20000);
        pause_cluster(c, 1000000);
    }
}

static void open_capped(struct cluster *c, bool simulated, unsigned nodes, uint64_t seed) {
    open_cluster(c, simulated, 0, seed);
    for (unsigned i = 0; i < nodes; i++) {
        add_node_with(c, (struct tide_node_options){.memory = cap});
    }
    wait_members(c, nodes);
}

static void nothing_is_held(struct cluster *c, unsigned node) {
    struct tide__admission *a = &tide_store_of(c->nodes[node])->admission;
    tide_lock(&a->lock);
    for (unsigned page = 0; page < TIDE_COUNT(a->pages); page++) {
        for (unsigned i = 0; a->pages[page] && i < 256; i++) {
            struct tide__credit *credit = &a->pages[page][i];
            assert_true(credit->messages == 0 && credit->bytes == 0 && !credit->first);
        }
    }
    tide_unlock(&a->lock);
}

/* ---- the budget alone ---- */

static void a_tier_ends_below_where_it_begins(void **state) {
    (void)state;
    struct tide_budget b = {.cap = 1000};
    static const struct {
        uint64_t used;
        enum tide_tier tier;
    } steps[] = {{0, TIDE_TIER_CALM},    {799, TIDE_TIER_CALM},   {800, TIDE_TIER_TIGHT},
                 {760, TIDE_TIER_TIGHT}, {749, TIDE_TIER_CALM},   {900, TIDE_TIER_NARROW},
                 {850, TIDE_TIER_NARROW}, {849, TIDE_TIER_TIGHT}, {1000, TIDE_TIER_OVER},
                 {950, TIDE_TIER_OVER},  {949, TIDE_TIER_FULL},   {10, TIDE_TIER_CALM}};
    for (size_t i = 0; i < TIDE_COUNT(steps); i++) {
        assert_int_equal(tide_budget_look(&b, steps[i].used), steps[i].tier);
    }
    assert_int_equal(b.most, 1000);
    tide_budget_keep(&b, 940);
    (void)tide_budget_look(&b, 0);
    assert_null(tide_budget_lacking(&b, 10));
    assert_ptr_equal(tide_budget_lacking(&b, 11), &b);
    tide_budget_drop(&b, 940);
    assert_int_equal(tide_budget_used(&b), 0);
    struct tide_budget none = {0};
    tide_budget_keep(&none, 5);
    assert_int_equal(tide_budget_used(&none), 0);
    assert_null(tide_budget_lacking(&none, UINT64_MAX));
}

static void caps_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct tide_node *node;
    struct tide_node_options options = {.memory = 1 << 20, .listen = "tcp:127.0.0.1:0"};
    assert_int_equal(tide_node_create(&options, &node), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "1.0 MiB is too small: a node needs at least 32"));
    options.memory = UINT64_C(1) << 60;
    assert_int_equal(tide_node_create(&options, &node), TIDE_EINVAL);
    assert_non_null(strstr(tide_error_message(), "this machine has"));
    assert_int_equal(tide_memory_cap_check(0, 1), 0);
    assert_int_equal(tide_memory_cap_check(cap, 0), 0);
}

static void damaged_words_on_memory_are_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t fields[4];
        unsigned count;
        int code;
    } words[] = {{{1, 5, 100, 7}, 4, 0},
                 {{4, UINT64_MAX, UINT64_MAX, UINT64_MAX}, 4, 0},
                 {{5, 5, 100, 7}, 4, TIDE_EPROTO},
                 {{1, 5, 0, 7}, 4, TIDE_EPROTO},
                 {{1, 5, 100, 0}, 3, TIDE_EPROTO}};
    for (size_t i = 0; i < TIDE_COUNT(words); i++) {
        struct tide_net net = {0};
        struct tide_peer peer = {.net = &net};
        struct tide_writer w;
        struct tide_reader r;
        uint8_t bytes[64];
        tide__memory_forget(&peer);
        tide_writer_init(&w, bytes, sizeof bytes);
        for (unsigned k = 0; k < words[i].count; k++) {
            tide_write_uint(&w, words[i].fields[k]);
        }
        tide_reader_init(&r, w.data, w.size);
        assert_int_equal(tide__memory_read(&peer, &r), words[i].code);
        assert_int_equal(atomic_load(&peer.memory_cap), words[i].code ? 0 : words[i].fields[2]);
        tide_writer_release(&w);
    }
    assert_int_equal(tide_net_scaled(1000, UINT64_MAX), 1000);
    assert_int_equal(tide_net_scaled(1000, 0), 0);
    assert_int_equal(tide_net_scaled(8 << 20, 13 << 19), 4 << 20); /* half of all windows */
}

/* ---- rows ---- */

struct growth {
    struct cluster *c;
    unsigned home; /* index of the node whose keys are pushed */
    uint64_t keys[KEYS];
    size_t count;
    unsigned pushed[KEYS]; /* acknowledged */
    unsigned refused;
};

/* Keys of one home, as the map says. */
static void find_keys(struct growth *g, struct tide_table *table) {
    for (uint64_t key = 0; g->count + BATCH <= KEYS && key < 4 * KEYS; key++) {
        uint16_t home;
        assert_int_equal(tide_table_where(table, key, &home), 0);
        if (home == tide_node_id(g->c->nodes[g->home])) {
            g->keys[g->count++] = key;
        }
    }
    g->count -= g->count % BATCH;
}

static void push_all(struct fiber *f) {
    struct growth *g = f->arg;
    struct tide_table *table;
    float ones[BATCH * WIDTH];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (size_t at = 0; at < g->count; at += BATCH) {
        int code = tide_table_push(table, g->keys + at, BATCH, ones, NULL);
        CHECK(f, code == 0 || code == TIDE_EBUSY);
        if (code == TIDE_EBUSY) {
            CHECK(f, tide_error_retry_after_ms() > 0);
            CHECK(f, strstr(tide_error_message(), "of its 32.0 MiB of memory") != NULL);
            CHECK(f, strstr(tide_error_message(), "more rows of table 't'") != NULL);
        }
        g->refused += code != 0;
        for (unsigned i = 0; i < BATCH; i++) {
            g->pushed[at + i] += code == 0;
        }
    }
}

static void pull_all(struct fiber *f) {
    struct growth *g = f->arg;
    struct tide_table *table;
    static float rows[KEYS * WIDTH];
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    CHECK(f, tide_table_pull(table, g->keys, g->count, rows, NULL) == 0);
    for (size_t i = 0; i < g->count * WIDTH; i++) {
        CHECK(f, rows[i] == (float)g->pushed[i / WIDTH]);
    }
}

/* From another node, then from the home's own workers. */
static void refused_whole(bool simulated, struct tide_table_options options, uint64_t seed) {
    for (unsigned from = 0; from < 2; from++) {
        struct cluster c;
        struct growth g = {.c = &c, .home = 1};
        open_capped(&c, simulated, 3, seed);
        options.name = "t";
        options.width = WIDTH;
        create(&c, options);
        find_keys(&g, table_of(&c, 0, "t"));
        const size_t all = g.count;
        assert_true(all >= 8 * BATCH);
        g.count = all / 2 / BATCH * BATCH;
        run_alone(&c, from, push_all, &g);
        assert_int_equal(g.refused, 0);
        uint64_t ballast = fill(&c, 1, 97);
        wait_tier(&c, 0, 1, TIDE_TIER_FULL);
        g.count = all;
        run_alone(&c, from, push_all, &g); /* rows that are there take more */
        assert_true(g.refused > 0 && g.refused < all / BATCH);
        assert_int_equal(g.pushed[0], 2);
        run_alone(&c, 2, pull_all, &g); /* what was refused did not happen, not even in part */
        tide_budget_drop(budget_of(&c, 1), ballast);
        wait_tier(&c, 0, 1, TIDE_TIER_CALM);
        const unsigned refused = g.refused;
        run_alone(&c, from, push_all, &g);
        assert_int_equal(g.refused, refused);
        run_alone(&c, 2, pull_all, &g);
        struct tide_store_memory memory;
        tide_store_memory(tide_store_of(c.nodes[1]), &memory);
        assert_true(memory.cap == cap && memory.refused >= refused && memory.used < cap / 2);
        nothing_is_held(&c, from);
        close_cluster(&c);
    }
}

static void rows_over_the_cap_are_refused_whole_simulated(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        refused_whole(true, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, seed);
        refused_whole(true, (struct tide_table_options){.key_count = 4 * KEYS}, seed);
        refused_whole(true, (struct tide_table_options){.key_count = 4 * KEYS, .replicas = 1}, seed);
        refused_whole(
            true,
            (struct tide_table_options){.key_count = 4 * KEYS, .technique = TIDE_RELOCATE}, seed);
    }
}

static void rows_over_the_cap_are_refused_whole_real(void **state) {
    (void)state;
    refused_whole(false, (struct tide_table_options){.keys = TIDE_KEYS_HASHED}, 1);
    refused_whole(false, (struct tide_table_options){.key_count = 4 * KEYS}, 1);
}

static void push_until_taken(struct fiber *f) {
    struct growth *g = f->arg;
    struct tide_table *table;
    float ones[WIDTH];
    for (size_t i = 0; i < WIDTH; i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (size_t at = 0; at < g->count; at++) {
        while (!g->pushed[at]) {
            int code = tide_table_push(table, &g->keys[at], 1, ones, NULL);
            CHECK(f, code == 0 || code == TIDE_EBUSY);
            g->refused += code != 0;
            g->pushed[at] += code == 0;
            (void)tide_sleep(code ? tide_error_retry_after_ms() * (TIDE_SECOND / 1000) : 0);
        }
    }
}

/* A full home leaves, far from who pushes: its refusals are in flight when those pushes have gone
 * out again, to the next home, which takes them: before the same is tried again. */
static void a_push_that_went_to_the_next_home_is_not_refused_by_the_last(void **state) {
    (void)state;
    unsigned refused = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        struct cluster c;
        struct fiber fiber;
        struct growth g = {.c = &c, .home = 1};
        int code, left = TIDE_MEMBER_UP;
        char reason[200];
        open_capped(&c, true, 4, seed);
        create(&c, (struct tide_table_options){
                       .name = "t", .key_count = 4 * KEYS, .width = WIDTH, .replicas = 1});
        find_keys(&g, table_of(&c, 0, "t"));
        fill(&c, 1, 97);
        wait_tier(&c, 2, 1, TIDE_TIER_FULL);
        tide_sim_set_pair_latency(c.sim, "n2", "n3", TIDE_SECOND / 5);
        start(&c, &fiber, 2, 0, push_until_taken, &g);
        pause_cluster(&c, seed * TIDE_SECOND / 20);
        tide_net_leave(tide_net_of(c.nodes[1]));
        finish(&c, &fiber, 1);
        refused += g.refused;
        while (left != TIDE_MEMBER_LEFT) {
            pause_cluster(&c, 1000000);
            left = tide_net_state(tide_net_of(c.nodes[1]), &code, reason, sizeof reason);
        }
        run_alone(&c, 3, pull_all, &g);
        nothing_is_held(&c, 2);
        close_cluster(&c);
    }
    assert_true(refused > 0);
}

/* ---- operations ---- */

static void push_run(struct fiber *f) {
    struct tide_table *table;
    struct tide_ticket tickets[4];
    float ones[BATCH * WIDTH];
    uint64_t keys[BATCH];
    for (size_t i = 0; i < TIDE_COUNT(ones); i++) {
        ones[i] = 1;
    }
    CHECK(f, tide_table_find(f->node, "t", &table) == 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned k = 0; k < 4; k++) {
            for (unsigned i = 0; i < BATCH; i++) {
                keys[i] = tide_random_below(&f->random, KEYS);
            }
            CHECK(f, tide_table_push(table, keys, BATCH, ones, &tickets[k]) == 0);
        }
        for (unsigned k = 0; k < 4; k++) {
            CHECK(f, tide_ticket_wait(&tickets[k]) == 0);
        }
    }
}

static void sum_run(struct fiber *f) {
    sum_rows(f, "t", KEYS, WIDTH);
}

static void a_tight_home_gets_one_operation_at_a_time_and_all_get_on(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct cluster c;
        struct fiber fibers[FIBERS];
        double sum = 0;
        open_capped(&c, true, 3, seed);
        create(&c, (struct tide_table_options){.name = "t", .key_count = KEYS, .width = WIDTH});
        run_alone(&c, 1, sum_run, &sum);
        uint64_t ballast = fill(&c, 1, 85);
        wait_tier(&c, 0, 1, TIDE_TIER_TIGHT);
        struct tide_store *store = tide_store_of(c.nodes[0]);
        const uint16_t home = tide_node_id(c.nodes[1]);
        /* as a handler would */
        struct tide__token one = {.home = home, .bytes = 100}, two = one;
        assert_int_equal(tide__token_take(store, &one, 0), 0);
        assert_int_equal(tide__token_take(store, &two, 0), TIDE_EBUSY);
        assert_int_equal(tide_error_retry_after_ms(), 100);
        assert_non_null(strstr(tide_error_message(), "try again in 100 ms"));
        tide__token_give(store, &one);
        tide_lock(&store->admission.lock);
        store->admission.bytes_most = 0;
        tide_unlock(&store->admission.lock);
        for (unsigned i = 0; i < FIBERS; i++) {
            start(&c, &fibers[i], 0, i, push_run, NULL);
        }
        finish(&c, fibers, FIBERS);
        run_alone(&c, 2, sum_run, &sum);
        assert_true(sum == 1.0 * FIBERS * ROUNDS * 4 * BATCH * WIDTH);
        assert_true(store->admission.waits > 0);
        tide_budget_drop(budget_of(&c, 1), ballast);
        wait_tier(&c, 0, 1, TIDE_TIER_CALM);
        assert_int_equal(tide__token_take(store, &one, 0), 0);
        assert_int_equal(tide__token_take(store, &two, 0), 0);
        tide__token_give(store, &one);
        tide__token_give(store, &two);
        nothing_is_held(&c, 0);
        close_cluster(&c);
    }
}

/* Whoever stands in line when the home is out of trouble continues then, though no operation ends. */
static void take_two(struct fiber *f) {
    struct tide_store *store = tide_store_of(f->node);
    const uint16_t home = *(uint16_t *)f->arg;
    struct tide__token one = {.home = home, .bytes = 10}, two = one;
    CHECK(f, tide__token_take(store, &one, 0) == 0);
    CHECK(f, tide__token_take(store, &two, 0) == 0);
    tide__token_give(store, &one);
    tide__token_give(store, &two);
}

static void who_waits_for_a_tight_home_goes_on_when_it_has_room(void **state) {
    (void)state;
    struct cluster c;
    struct fiber fiber;
    open_capped(&c, true, 2, 1);
    uint64_t ballast = fill(&c, 1, 85);
    uint16_t home = tide_node_id(c.nodes[1]);
    wait_tier(&c, 0, 1, TIDE_TIER_TIGHT);
    start(&c, &fiber, 0, 0, take_two, &home);
    pause_cluster(&c, TIDE_SECOND);
    assert_int_equal(atomic_load(&c.running), 1);
    tide_budget_drop(budget_of(&c, 1), ballast);
    wait_tier(&c, 0, 1, TIDE_TIER_CALM);
    pause_cluster(&c, TIDE_SECOND / 10);
    assert_int_equal(atomic_load(&c.running), 0);
    finish(&c, &fiber, 1);
    nothing_is_held(&c, 0);
    close_cluster(&c);
}

/* ---- messages ---- */

enum { MESSAGE = 256 << 10, MESSAGES = 60 };

struct reader {
    tide_address address;
    unsigned expected, got;
    bool may_read;
};

static int read_main(void *state) {
    struct reader *r = state;
    while (!r->may_read) {
        (void)tide_sleep(TIDE_SECOND / 100);
    }
    while (r->got < r->expected) {
        const struct tide_message *message;
        int code = tide_receive(TIDE_NEVER, &message);
        if (code) {
            return code;
        }
        r->got++;
        tide_message_free(message);
    }
    return 0;
}

static void send_run(struct fiber *f) {
    const struct reader *r = f->arg;
    static const uint8_t bytes[MESSAGE - 16];
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_binary(&w, bytes, sizeof bytes);
    for (unsigned i = 0; i < MESSAGES; i++) {
        CHECK(f, tide_send(r->address, TIDE_LANE_BULK, w.data, w.size) == 0);
    }
    tide_writer_release(&w);
}

/* Four nodes send all they may to one that does not read: that is their grant, and not the windows of
 * four links, which are as much as its cap. */
static void what_others_send_stays_within_the_grants(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct cluster c;
        struct fiber fibers[4];
        struct reader reader = {.expected = 4 * MESSAGES};
        open_capped(&c, true, 5, seed);
        pause_cluster(&c, TIDE_SECOND / 5); /* all have heard of the grants */
        struct tide_actor_options options = {.type = "reader",
                                             .run = read_main,
                                             .state = &reader,
                                             .role = TIDE_ROLE_COMPUTE,
                                             .bytes_max = 1 << 30};
        assert_int_equal(tide_spawn(c.nodes[0], &options, &reader.address), 0);
        reader.address = tide_address_make(tide_node_id(c.nodes[0]), reader.address);
        for (unsigned i = 0; i < 4; i++) {
            start(&c, &fibers[i], i + 1, i, send_run, &reader);
        }
        uint64_t most = 0;
        for (unsigned i = 0; i < 2000; i++) {
            pause_cluster(&c, 1000000);
            uint64_t now = tide_system_mailbox_bytes(tide_system_of(c.nodes[0])) +
                           tide_net_queued(tide_net_of(c.nodes[0]));
            most = now > most ? now : most;
        }
        assert_int_equal(atomic_load(&c.running), 4);
        assert_true(most >= 4 * (MESSAGE - 16) && most < cap / 10 + 4 * (MESSAGE + 100));
        reader.may_read = true;
        finish(&c, fibers, 4);
        pause_cluster(&c, TIDE_SECOND);
        assert_int_equal(reader.got, reader.expected);
        close_cluster(&c);
    }
}

/* ---- rows that move, tables, members ---- */

static void localize_run(struct fiber *f) {
    struct tide_table *table;
    uint64_t keys[KEYS];
    for (unsigned i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    CHECK(f, tide_table_find(f->node, "r", &table) == 0);
    int code = tide_table_localize(table, keys, KEYS, NULL);
    *(int *)f->arg = code;
    CHECK(f, code == 0 || tide_error_retry_after_ms() > 0);
}

static void move_run(struct fiber *f) {
    struct tide_table *table;
    uint16_t homes[TIDE_SLOTS], to = *(uint16_t *)f->arg;
    uint32_t slot = 0;
    CHECK(f, tide_table_find(f->node, "s", &table) == 0);
    tide_table_slot_homes(table, homes);
    while (homes[slot] == to) {
        slot++;
    }
    CHECK(f, tide_table_move(table, &slot, 1, to) == TIDE_EBUSY);
    CHECK(f, tide_error_retry_after_ms() > 0);
    CHECK(f, strstr(tide_error_message(), "it takes no slots") != NULL);
}

static void create_refused(struct fiber *f) {
    struct tide_table *table;
    struct tide_table_options options = {.name = "more", .key_count = 10, .width = 4};
    CHECK(f, tide_table_create(f->node, &options, &table) == TIDE_EBUSY);
    CHECK(f, strstr(tide_error_message(), "node n2") != NULL);
    CHECK(f, strstr(tide_error_message(), "no room for another table, 'more'") != NULL);
    CHECK(f, tide_error_retry_after_ms() > 0);
}

static void what_would_fill_a_node_further_is_refused_tier_by_tier(void **state) {
    (void)state;
    struct cluster c;
    int code = 0;
    open_capped(&c, true, 3, 1);
    uint16_t id = tide_node_id(c.nodes[1]);
    create(&c, (struct tide_table_options){
                   .name = "r", .key_count = KEYS, .width = WIDTH, .technique = TIDE_RELOCATE});
    create(&c, (struct tide_table_options){.name = "s", .key_count = KEYS, .width = WIDTH});
    uint64_t first = fill(&c, 1, 92);
    wait_tier(&c, 0, 1, TIDE_TIER_NARROW);
    run_alone(&c, 1, localize_run, &code);
    assert_int_equal(code, TIDE_EBUSY);
    run_alone(&c, 2, localize_run, &code); /* another has room for them */
    assert_int_equal(code, 0);
    run_alone(&c, 2, move_run, &id);
    uint64_t second = fill(&c, 1, 97);
    wait_tier(&c, 0, 1, TIDE_TIER_FULL);
    run_alone(&c, 2, create_refused, NULL);
    uint64_t third = fill(&c, 0, 101); /* the controller */
    wait_tier(&c, 2, 0, TIDE_TIER_OVER);
    struct tide_port *port;
    struct tide_node *node;
    assert_int_equal(tide_sim_port(c.sim, "n9", &port), 0);
    struct tide_node_options joiner = {
        .name = "n9", .listen = "sim:n9", .join = tide_node_endpoint(c.nodes[0]), .port = port};
    assert_int_equal(tide_node_create(&joiner, &node), TIDE_EBUSY);
    assert_non_null(strstr(tide_error_message(), "takes no more members"));
    tide_budget_drop(budget_of(&c, 0), third);
    tide_budget_drop(budget_of(&c, 1), first + second);
    wait_tier(&c, 2, 0, TIDE_TIER_CALM);
    wait_tier(&c, 0, 1, TIDE_TIER_CALM);
    run_alone(&c, 1, localize_run, &code);
    assert_int_equal(code, 0);
    assert_int_equal(tide_node_create(&joiner, &node), 0);
    tide_node_destroy(node, TIDE_SECOND);
    port->ops->destroy(port);
    struct tide_event events[64];
    size_t count = tide_events(tide_system_of(c.nodes[1]), 0, events, TIDE_COUNT(events));
    unsigned of_memory = 0;
    for (size_t i = 0; i < count; i++) {
        of_memory += strcmp(events[i].kind, "memory") == 0;
    }
    assert_true(of_memory >= 3);
    close_cluster(&c);
}

/* ---- runs ---- */

enum { RUN = 7, RUN_WIDTH = 256, RUN_ROWS = 4096 };
static const uint64_t run_cap = UINT64_C(2) << 20, granule = 64 << 10;

/* Rows of the run until no more are taken, at whichever node; another run has room for all. */
static void fill_run(struct fiber *f) {
    struct tide_table *own, *other;
    float row[RUN_WIDTH] = {1};
    uint64_t taken = 0, refused = 0;
    CHECK(f, tide_table_find(f->node, "own", &own) == 0);
    CHECK(f, tide_table_find(f->node, "other", &other) == 0);
    for (uint64_t key = 0; key < RUN_ROWS && !f->failure[0]; key++) {
        const int code = tide_table_push(own, &key, 1, row, NULL);
        CHECK(f, code == 0 || code == TIDE_EBUSY);
        taken += code == 0;
        if (code == TIDE_EBUSY && refused++ == 0) {
            CHECK(f, strstr(tide_error_message(), "run 7 uses") && strstr(tide_error_message(), "of its 2.0 MiB"));
        }
        CHECK(f, tide_table_push(other, &key, 1, row, NULL) == 0);
    }
    CHECK(f, refused > 0 && taken > RUN_ROWS / 4); /* two nodes of 2 MiB have room for some 3,700 */
    CHECK(f, tide_table_push(own, &(uint64_t){0}, 1, row, NULL) == 0); /* it is there */
    tide_table_release(own);
    tide_table_release(other);
}

static void create_for_run(struct fiber *f) {
    struct tide_table_options *o = f->arg;
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, o, &table) == 0);
    tide_table_release(table);
}

static void create_beyond(struct fiber *f) {
    struct tide_table_options o = {.name = "more", .keys = TIDE_KEYS_HASHED, .width = 1, .run = RUN,
                                   .run_memory = run_cap};
    struct tide_table *table;
    CHECK(f, tide_table_create(f->node, &o, &table) == TIDE_EBUSY);
    CHECK(f, strstr(tide_error_message(), "there is no room for another table, 'more'") != NULL);
    o.run_memory = 1000;
    CHECK(f, tide_table_create(f->node, &o, &table) == TIDE_EINVAL);
    o.run_memory = run_cap;
    o.run = 0;
    CHECK(f, tide_table_create(f->node, &o, &table) == TIDE_EINVAL);
}

static void drop_own(struct fiber *f) {
    CHECK(f, tide_table_drop(f->node, "own") == 0);
}

static void a_run_has_a_budget_of_its_own(void **state) {
    (void)state;
    struct cluster c;
    open_cluster(&c, true, 2, 3);
    struct tide_table_options o = {.name = "own", .keys = TIDE_KEYS_HASHED, .width = RUN_WIDTH, .run = RUN,
                                   .domain = RUN, .run_memory = run_cap};
    run_alone(&c, 0, create_for_run, &o);
    o = (struct tide_table_options){
        .name = "other", .keys = TIDE_KEYS_HASHED, .width = RUN_WIDTH, .run = RUN + 1, .domain = RUN + 1};
    run_alone(&c, 0, create_for_run, &o);
    run_alone(&c, 1, fill_run, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct tide_store_memory memory;
        tide_store_run_memory(tide_store_of(c.nodes[i]), RUN, &memory);
        assert_int_equal(memory.cap, run_cap);
        assert_in_range(memory.used, run_cap / 2, run_cap + 2 * granule);
        assert_true(memory.refused > 0 && memory.most >= memory.used);
        tide_store_run_memory(tide_store_of(c.nodes[i]), RUN + 1, &memory);
        assert_int_equal(memory.cap, 0);
    }
    run_alone(&c, 0, create_beyond, NULL);
    run_alone(&c, 0, drop_own, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct tide_store_memory memory = {.used = 1};
        for (unsigned tries = 0; memory.used && tries < 3000; tries++) {
            pause_cluster(&c, 1000000);
            tide_store_run_memory(tide_store_of(c.nodes[i]), RUN, &memory);
        }
        assert_int_equal(memory.used, 0);
    }
    close_cluster(&c);
}

int main(int argc, char **argv) {
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tier_ends_below_where_it_begins),
        cmocka_unit_test(caps_that_make_no_sense_are_refused),
        cmocka_unit_test(damaged_words_on_memory_are_refused),
        cmocka_unit_test(rows_over_the_cap_are_refused_whole_simulated),
        cmocka_unit_test(rows_over_the_cap_are_refused_whole_real),
        cmocka_unit_test(a_push_that_went_to_the_next_home_is_not_refused_by_the_last),
        cmocka_unit_test(a_tight_home_gets_one_operation_at_a_time_and_all_get_on),
        cmocka_unit_test(who_waits_for_a_tight_home_goes_on_when_it_has_room),
        cmocka_unit_test(what_others_send_stays_within_the_grants),
        cmocka_unit_test(what_would_fill_a_node_further_is_refused_tier_by_tier),
        cmocka_unit_test(a_run_has_a_budget_of_its_own),
    };
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
