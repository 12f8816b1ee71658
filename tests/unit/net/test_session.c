/* Sessions: connections break under load, actors notice nothing; on both ports. And mistakes are
 * planted in the session layer, which the same checks must find. */
#include "net/net_state.h"
#include "net/link/hello.h"
#include "net/link/link.h"
#include "net/link/peer.h"
#include "net/link/session.h"
#include "net_raw.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS TIDE_MILLISECOND

#if defined(__SANITIZE_THREAD__)
enum { SEEDS = 10, MISTAKE_SEEDS = 10, SEVER_ROUNDS = 20 };
#elif defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 60, MISTAKE_SEEDS = 30, SEVER_ROUNDS = 20 };
#else
enum { SEEDS = 200, MISTAKE_SEEDS = 60, SEVER_ROUNDS = 60 };
#endif

enum { NODES = 3, SMALL = 400, CALLS = 120, HUGE_MESSAGES = 2, HUGE_BYTES = 8 << 20 };

/* ---- the load: streams of numbered messages between all pairs ---- */

enum stream_kind { CASTS, CALLS_OUT, HUGE_CASTS, STREAM_KINDS };

/* One a pair and kind: sender and receiver each touch their own half. */
struct stream {
    struct load *load;
    uint8_t kind;
    unsigned number, total;
    tide_address to;
    struct tide_random random;
    uint8_t *bytes; /* of the sender's; here because a crashed node frees nothing */
    struct tide_writer writer;
    atomic_uint sent; /* sender */
    atomic_int error;
    atomic_uint next, wrong; /* receiver: number awaited; out of order, twice or damaged */
};

/* Monitors an actor of another node that ends while the load runs. */
struct watcher {
    tide_address whom;
    atomic_uint heard;
};

struct load {
    struct world world;
    struct watcher watchers[NODES];
    uint64_t lives[NODES]; /* how long who is monitored lives */
    struct stream streams[NODES * NODES * STREAM_KINDS];
    unsigned count;
    unsigned small, calls, huge;
    char found[160]; /* the first thing that is wrong */
};

static uint8_t fill_of(unsigned number, unsigned sequence) {
    return (uint8_t)(number * 37 + sequence * 11 + 1);
}

static int receive_one(void *state, const struct tide_message *m) {
    struct load *load = state;
    if (m->kind != TIDE_CAST && m->kind != TIDE_CALL) {
        return 0;
    }
    struct tide_reader r;
    tide_reader_init(&r, m->data, m->size);
    size_t size = 0;
    size_t fields = tide_read_array(&r);
    uint64_t number = tide_read_uint(&r), sequence = tide_read_uint(&r);
    const uint8_t *bytes = tide_read_binary(&r, &size);
    if (r.error != 0 || fields != 3 || number >= load->count) {
        atomic_fetch_add(&load->streams[0].wrong, 1);
        return 0;
    }
    struct stream *s = &load->streams[number];
    uint8_t fill = fill_of((unsigned)number, (unsigned)sequence);
    bool right = sequence == atomic_load(&s->next);
    right = right && (size == 0 || (bytes[0] == fill && memcmp(bytes, bytes + 1, size - 1) == 0));
    atomic_fetch_add(right ? &s->next : &s->wrong, 1);
    return m->kind == TIDE_CALL ? tide_answer(m->from, m->call, m->data, m->size) : 0;
}

static size_t draw_size(struct stream *s) {
    if (s->kind == HUGE_CASTS) {
        return HUGE_BYTES - 100 + (size_t)tide_random_below(&s->random, 200);
    }
    uint64_t of_hundred = tide_random_below(&s->random, 100);
    uint64_t limit = of_hundred < 90 ? 300 : of_hundred < 98 ? 20000 : 700000;
    return 1 + (size_t)tide_random_below(&s->random, limit);
}

static int send_one(struct stream *s, const struct tide_writer *w) {
    if (s->kind != CALLS_OUT) {
        return tide_send(s->to, s->kind == CASTS ? TIDE_LANE_CONTROL : TIDE_LANE_BULK, w->data,
                         w->size);
    }
    struct tide_reply *reply;
    int rc = tide_call(s->to, w->data, w->size, 60 * TIDE_SECOND, &reply);
    if (rc == 0) {
        size_t size;
        const void *data = tide_reply_data(reply, &size);
        rc = size == w->size && memcmp(data, w->data, size) == 0 ? 0 : TIDE_EMISMATCH;
        tide_reply_free(reply);
    }
    return rc;
}

static int send_all(void *state) {
    struct stream *s = state;
    int rc = 0;
    for (unsigned i = 0; i < s->total && rc == 0; i++) {
        size_t size = draw_size(s);
        memset(s->bytes, fill_of(s->number, i), size);
        struct tide_writer *w = &s->writer;
        tide_writer_init(w, NULL, 0);
        tide_write_array(w, 3);
        tide_write_uint(w, s->number);
        tide_write_uint(w, i);
        tide_write_binary(w, s->bytes, size);
        rc = send_one(s, w);
        tide_writer_release(w);
        atomic_fetch_add(&s->sent, rc == 0);
    }
    atomic_store(&s->error, rc);
    return 0;
}

static void add_stream(struct load *load, unsigned from, unsigned to, tide_address address,
                       enum stream_kind kind, uint64_t seed) {
    struct stream *s = &load->streams[load->count];
    s->load = load;
    s->bytes = malloc(HUGE_BYTES + 100);
    tide_writer_init(&s->writer, NULL, 0);
    s->kind = (uint8_t)kind;
    s->number = load->count;
    s->to = tide_address_make(tide_net_self(load->world.nodes[to].net), tide_address_id(address));
    s->total = kind == CASTS ? load->small : kind == CALLS_OUT ? load->calls : load->huge;
    tide_random_seed(&s->random, tide_mix64(seed + load->count));
    load->count++;
    struct tide_actor_options options = {
        .type = "sender", .run = send_all, .state = s, .role = TIDE_ROLE_COMPUTE};
    if (tide_spawn(&load->world.nodes[from], &options, NULL) != 0) {
        abort();
    }
}

static int live_for_a_while(void *state) {
    return tide_sleep(*(const uint64_t *)state);
}

static int watch_one(void *state) {
    struct watcher *watcher = state;
    uint64_t id;
    if (tide_monitor(watcher->whom, &id) != 0) {
        return 0;
    }
    const struct tide_message *m;
    while (tide_receive(TIDE_NEVER, &m) == 0) {
        atomic_fetch_add(&watcher->heard, m->kind == TIDE_EXIT && m->call == id);
        tide_message_free(m);
    }
    return 0;
}

static void add_watcher(struct load *load, unsigned at, uint64_t seed) {
    struct watcher *watcher = &load->watchers[at];
    unsigned other = (at + 1) % NODES;
    load->lives[at] = tide_mix64(seed + 77 * at) % (40 * MS);
    struct tide_actor_options mortal = {.type = "mortal",
                                        .run = live_for_a_while,
                                        .state = &load->lives[at],
                                        .role = TIDE_ROLE_COMPUTE};
    tide_address whom;
    assert_int_equal(tide_spawn(&load->world.nodes[other], &mortal, &whom), 0);
    watcher->whom =
        tide_address_make(tide_net_self(load->world.nodes[other].net), tide_address_id(whom));
    struct tide_actor_options options = {
        .type = "watcher", .run = watch_one, .state = watcher, .role = TIDE_ROLE_COMPUTE};
    assert_int_equal(tide_spawn(&load->world.nodes[at], &options, NULL), 0);
}

static void load_begin(struct load *load, bool simulated, uint64_t seed) {
    static const char *const names[NODES] = {"c0", "n2", "n3"};
    memset(load, 0, sizeof *load);
    load->small = SMALL;
    load->calls = CALLS;
    load->huge = seed % 4 == 0 ? HUGE_MESSAGES : 0;
    world_open(&load->world, simulated, seed);
    for (unsigned i = 0; i < NODES; i++) {
        assert_non_null(world_add(&load->world, names[i]));
    }
    tide_address receivers[NODES];
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_actor_options options = {.type = "receiver",
                                             .handle = receive_one,
                                             .state = load,
                                             .role = TIDE_ROLE_COMPUTE,
                                             .messages_max = 1 << 20,
                                             .bytes_max = 256 << 20};
        assert_int_equal(tide_spawn(&load->world.nodes[i], &options, &receivers[i]), 0);
    }
    for (unsigned i = 0; i < NODES; i++) {
        add_watcher(load, i, seed);
        for (unsigned k = 0; k < NODES; k++) {
            for (unsigned kind = 0; kind < STREAM_KINDS && i != k; kind++) {
                bool sends = kind != HUGE_CASTS || (k == (i + 1) % NODES && load->huge > 0);
                if (sends) {
                    add_stream(load, i, k, receivers[k], kind, seed);
                }
            }
        }
    }
}

static void load_end(struct load *load) {
    world_close(&load->world);
    for (unsigned i = 0; i < load->count; i++) {
        tide_writer_release(&load->streams[i].writer);
        free(load->streams[i].bytes);
    }
    free(load);
}

static bool load_done(const struct load *load) {
    for (unsigned i = 0; i < load->count; i++) {
        const struct stream *s = &load->streams[i];
        if (atomic_load(&s->sent) < s->total || atomic_load(&s->next) < s->total) {
            return false;
        }
    }
    for (unsigned i = 0; i < NODES; i++) {
        if (atomic_load(&load->watchers[i].heard) == 0) {
            return false;
        }
    }
    return true;
}

/* ---- the checks ---- */

static bool found(struct load *load, const char *what, unsigned where) {
    if (load->found[0] == 0) {
        snprintf(load->found, sizeof load->found, "%s (%u)", what, where);
    }
    return false;
}

static bool check_streams(struct load *load) {
    for (unsigned i = 0; i < load->count; i++) {
        const struct stream *s = &load->streams[i];
        if (atomic_load(&s->wrong) > 0) {
            return found(load, "a message out of order, twice or damaged", i);
        }
        if (atomic_load(&s->error) != 0) {
            return found(load, "a send or call failed", i);
        }
    }
    for (unsigned i = 0; i < NODES; i++) {
        if (atomic_load(&load->watchers[i].heard) > 1) {
            return found(load, "an end that was told twice", i);
        }
    }
    return true;
}

/* Simulated only: looks into the nodes. */
static bool check_rings(struct load *load, bool empty) {
    for (unsigned i = 0; i < NODES; i++) {
        const struct tide_session *s = load->world.nodes[i].net->sessions;
        unsigned sessions = 0;
        for (; s != NULL; s = s->next) {
            sessions += !s->over;
            if (s->outbox.ring_bytes > tide_limit(net_ring_bytes) ||
                s->outbox.ring_frames > tide_limit(net_ring_frames)) {
                return found(load, "a ring over its bound", i);
            }
            if (empty && (s->outbox.ring_frames != 0 || s->outbox.queued_bytes != 0)) {
                return found(load, "a ring that is not trimmed", i);
            }
        }
        if (sessions != NODES - 1) {
            return found(load, "a session is gone", i);
        }
    }
    return true;
}

static bool check_members(struct load *load) {
    for (unsigned i = 0; i < NODES; i++) {
        for (uint16_t id = 1; id <= NODES; id++) {
            struct tide_member m;
            if (!tide_net_member(load->world.nodes[i].net, id, &m) || m.state != TIDE_MEMBER_UP) {
                return found(load, "a member is not up", i);
            }
        }
    }
    return true;
}

static bool check_credit(struct load *load) {
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_link_info info[NODES];
        size_t count = tide_net_links(load->world.nodes[i].net, info, NODES);
        for (size_t k = 0; k < count && k < NODES; k++) {
            for (unsigned lane = 0; lane < TIDE_LANE_COUNT; lane++) {
                if (info[k].credit_used[lane] != 0) {
                    return found(load, "credit that did not come back", i);
                }
            }
        }
    }
    return true;
}

static uint64_t resumed, resent; /* over all runs */

static void count_resumed(struct load *load) {
    for (unsigned i = 0; i < NODES; i++) {
        for (const struct tide_session *s = load->world.nodes[i].net->sessions; s != NULL;
             s = s->next) {
            resumed += s->resumed;
            resent += s->resent;
        }
    }
}

/* Breaks connections at seeded moments while the load runs. True: all is right. */
static bool run_with_resets(uint64_t seed, char what[160]) {
    struct load *load = malloc(sizeof *load);
    load_begin(load, true, seed);
    struct world *w = &load->world;
    struct tide_random random;
    tide_random_seed(&random, tide_mix64(seed ^ 0x5e55));
    unsigned resets = (unsigned)tide_random_below(&random, 30);
    uint64_t span = seed % 3 == 0 ? 400000 : 4000000; /* often in the middle of a handshake */
    uint64_t until = world_now(w) + 60 * TIDE_SECOND;
    bool right = true;
    while (right && !load_done(load) && world_now(w) < until) {
        world_pause(w, 1 + tide_random_below(&random, span));
        if (resets > 0) {
            unsigned a = (unsigned)tide_random_below(&random, NODES);
            unsigned b = (a + 1 + (unsigned)tide_random_below(&random, NODES - 1)) % NODES;
            tide_sim_reset(w->sim, w->nodes[a].name, w->nodes[b].name);
            resets--;
        }
        right = check_streams(load) && check_rings(load, false);
    }
    if (right && !load_done(load)) {
        right = found(load, "the load did not end", 0);
    }
    if (right) {
        world_pause(w, 1500 * MS); /* a link that broke last is up again, and all is told */
        right = check_streams(load) && check_rings(load, true) && check_members(load) &&
                check_credit(load);
    }
    snprintf(what, 160, "%s", load->found);
    count_resumed(load);
    load_end(load);
    return right;
}

static void resets_under_load_are_invisible(void **state) {
    (void)state;
    const char *one = getenv("TIDE_TEST_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + (one != NULL ? 1 : SEEDS); seed++) {
        char what[160];
        if (!run_with_resets(seed, what)) {
            fail_msg("seed %llu: %s (TIDE_TEST_SEED=%llu)", (unsigned long long)seed, what,
                     (unsigned long long)seed);
        }
    }
    print_message("%llu resumptions, %llu frames written again\n", (unsigned long long)resumed,
                  (unsigned long long)resent);
    assert_true(one != NULL || (resumed > 10 * SEEDS && resent > 100 * SEEDS));
}

static void a_planted_mistake_is_found(void **state) {
    tide__session_mistake = *(const int *)*state;
    unsigned caught = 0;
    char what[160] = "", last[160] = "";
    for (uint64_t seed = 1; seed <= MISTAKE_SEEDS && caught == 0; seed++) {
        if (!run_with_resets(seed, what)) {
            caught++;
            memcpy(last, what, sizeof last);
        }
    }
    tide__session_mistake = MISTAKE_NONE;
    print_message("mistake %d: %s\n", *(const int *)*state, last);
    assert_int_equal(caught, 1);
}

/* ---- who comes in another's name ---- */

static int count_casts(void *state, const struct tide_message *m) {
    atomic_fetch_add((atomic_uint *)state, m->kind == TIDE_CAST);
    return 0;
}

static size_t frame_into(uint8_t *out, enum tide_frame_kind kind, unsigned lane, tide_address to,
                         tide_address from, const void *body, size_t size) {
    struct tide_frame f = {.kind = (uint8_t)kind, .lane = (uint8_t)lane, .to = to, .from = from};
    tide_frame_head(out, &f, size);
    memcpy(out + TIDE_FRAME_HEAD, body, size);
    return TIDE_FRAME_HEAD + size;
}

/* c0 and n2 are there; a stranger calls itself n2 of another incarnation, with a cast behind it. */
static unsigned casts_of_an_impostor(bool simulated, uint64_t incarnation, uint64_t session) {
    struct world w;
    world_open(&w, simulated, 31);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    world_pause(&w, 200 * MS);
    atomic_uint casts = 0;
    tide_address to;
    struct tide_actor_options options = {.type = "count", .handle = count_casts, .state = &casts};
    assert_int_equal(tide_spawn(&w.nodes[0], &options, &to), 0);
    struct tide_hello h = {.version = TIDE_PROTOCOL,
                           .cluster = "test",
                           .name = "n2",
                           .incarnation = incarnation,
                           .id = 2,
                           .pid = 1,
                           .endpoint = "unix:/tmp/x",
                           .session = session,
                           .attempt = 1000,
                           .right = TIDE_RIGHT_NODE};
    uint8_t body[TIDE_FRAME_HELLO_MAX];
    struct tide_writer writer;
    tide_writer_init(&writer, body, sizeof body);
    tide__hello_write(&writer, &h);
    struct raw r = {0};
    r.out_size =
        frame_into(r.out, TIDE_FRAME_HELLO, TIDE_LANE_SYSTEM, 0, 0, writer.data, writer.size);
    tide_writer_release(&writer);
    r.out_size +=
        frame_into(r.out + r.out_size, TIDE_FRAME_CAST, TIDE_LANE_CONTROL,
                   tide_address_make(1, tide_address_id(to)), tide_address_make(2, 99), "\xc0", 1);
    raw_talk(&w, &r, 300 * MS);
    raw_end(&r);
    unsigned seen = atomic_load(&casts);
    world_close(&w);
    return seen;
}

static void frames_of_another_incarnation_are_refused(void **state) {
    bool simulated = *state != NULL;
    assert_int_equal(casts_of_an_impostor(simulated, 12345, 0), 0);
    assert_int_equal(casts_of_an_impostor(simulated, 12345, 777), 0);
}

static void a_planted_trust_in_any_incarnation_is_found(void **state) {
    (void)state;
    tide__session_mistake = MISTAKE_ANY_INCARNATION;
    unsigned seen = casts_of_an_impostor(true, 12345, 0);
    tide__session_mistake = MISTAKE_NONE;
    assert_int_equal(seen, 1);
}

/* ---- the real port: connections are cut from inside ---- */

/* On the I/O thread: closes the sockets of all links, as if the network had. */
static int sever(void *state, const struct tide_message *m) {
    struct tide_node *node = state;
    if (m->kind == TIDE_CAST) {
        for (struct tide_link *link = node->net->links; link != NULL; link = link->next) {
            if (link->state == LINK_UP) {
                node->port->ops->stream_close(link->channel.stream);
            }
        }
    }
    return 0;
}

static void severed_connections_under_load_are_invisible(void **state) {
    (void)state;
    struct load *load = malloc(sizeof *load);
    load_begin(load, false, 4);
    struct world *w = &load->world;
    tide_address knives[NODES];
    for (unsigned i = 0; i < NODES; i++) {
        struct tide_actor_options options = {
            .type = "knife", .handle = sever, .state = &w->nodes[i], .role = TIDE_ROLE_IO};
        assert_int_equal(tide_spawn(&w->nodes[i], &options, &knives[i]), 0);
    }
    struct tide_random random;
    tide_random_seed(&random, 9);
    uint64_t until = world_now(w) + 60 * TIDE_SECOND;
    for (unsigned i = 0; i < SEVER_ROUNDS || (!load_done(load) && world_now(w) < until); i++) {
        if (i < SEVER_ROUNDS) {
            unsigned at = (unsigned)tide_random_below(&random, NODES);
            assert_int_equal(tide_post(&w->nodes[at], knives[at], "\xc0", 1), 0);
        }
        world_pause(w, MS + tide_random_below(&random, 8 * MS));
        if (!check_streams(load)) {
            fail_msg("%s", load->found);
        }
    }
    assert_true(load_done(load));
    until = world_now(w) + 5 * TIDE_SECOND;
    do {
        world_pause(w, 20 * MS);
        load->found[0] = 0;
    } while (!check_credit(load) && world_now(w) < until);
    assert_string_equal(load->found, "");
    assert_true(check_streams(load) && check_members(load));
    load_end(load);
}

/* ---- losses ---- */

static void a_session_that_cannot_be_resumed_is_the_death_of_the_node(void **state) {
    (void)state;
    struct world w;
    world_open(&w, true, 41);
    assert_non_null(world_add(&w, "c0"));
    assert_non_null(world_add(&w, "n2"));
    assert_non_null(world_add(&w, "n3"));
    struct tide_session *s = tide__peer(w.nodes[2].net, 2)->session;
    s->id++; /* n3 remembers another one than n2 */
    tide_sim_reset(w.sim, "n2", "n3");
    world_pause(&w, 4 * TIDE_SECOND);
    struct tide_member m2, m3;
    assert_true(tide_net_member(w.nodes[0].net, 2, &m2));
    assert_true(tide_net_member(w.nodes[0].net, 3, &m3));
    assert_true((m2.state == TIDE_MEMBER_DEAD) != (m3.state == TIDE_MEMBER_DEAD));
    world_close(&w);
}

static void a_crash_between_resets_is_declared_within_a_second(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS && seed <= 20; seed++) {
        struct load *load = malloc(sizeof *load);
        load_begin(load, true, seed);
        struct world *w = &load->world;
        for (unsigned i = 0; i < 10; i++) {
            world_pause(w, 500000 + 100000 * seed);
            tide_sim_reset(w->sim, "n2", "n3");
            tide_sim_reset(w->sim, "c0", i % 2 ? "n2" : "n3");
        }
        tide_sim_crash(w->sim, "n3");
        struct tide_member m[2];
        uint64_t crashed = world_now(w);
        do {
            world_pause(w, MS);
            assert_true(tide_net_member(w->nodes[0].net, 3, &m[0]));
            assert_true(tide_net_member(w->nodes[1].net, 3, &m[1]));
            assert_true(world_now(w) - crashed < TIDE_SECOND);
        } while (m[0].state != TIDE_MEMBER_DEAD || m[1].state != TIDE_MEMBER_DEAD);
        assert_string_equal(m[1].reason, "connection lost (process ended?)");
        world_pause(w, TIDE_SECOND);
        assert_int_equal(world_await(&w->nodes[1], TIDE_MEMBER_UP), TIDE_MEMBER_UP);
        load_end(load);
    }
}

static void quiet(void *arg, enum tide_level level, const char *node, const char *text) {
    (void)arg;
    (void)level;
    if (getenv("TIDE_TEST_LOG") != NULL) {
        fprintf(stderr, "[%s] %s\n", node, text);
    }
}

int main(void) {
    static int early = MISTAKE_RESUME_EARLY, late = MISTAKE_RESUME_LATE,
               untrimmed = MISTAKE_NEVER_TRIM, forgetful = MISTAKE_FORGET_FRAGMENTS;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resets_under_load_are_invisible),
        {"mistake: resume one early", a_planted_mistake_is_found, NULL, NULL, &early},
        {"mistake: resume one late", a_planted_mistake_is_found, NULL, NULL, &late},
        {"mistake: ring never trimmed", a_planted_mistake_is_found, NULL, NULL, &untrimmed},
        {"mistake: fragments forgotten", a_planted_mistake_is_found, NULL, NULL, &forgetful},
        {"impostor (real)", frames_of_another_incarnation_are_refused, NULL, NULL, NULL},
        {"impostor (simulated)", frames_of_another_incarnation_are_refused, NULL, NULL, "sim"},
        cmocka_unit_test(a_planted_trust_in_any_incarnation_is_found),
        cmocka_unit_test(severed_connections_under_load_are_invisible),
        cmocka_unit_test(a_crash_between_resets_is_declared_within_a_second),
        cmocka_unit_test(a_session_that_cannot_be_resumed_is_the_death_of_the_node),
    };
    tide_log_set(TIDE_LOG_DEBUG, quiet, NULL);
    const char *only = getenv("TIDE_TEST_ONLY");
    if (only != NULL) {
        cmocka_set_test_filter(only);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
