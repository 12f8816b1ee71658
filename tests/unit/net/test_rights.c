/* What clients may send: every kind of frame, to every kind of target, of every right; what actors open to. */
#include "net/link/hello.h"
#include "net_echo.h"
#include "net_raw.h"

#include "wire/wire.h"

static size_t frame_into(uint8_t *out, unsigned kind, unsigned lane, tide_address to, uint64_t call, const void *body,
                         size_t size) {
    struct tide_frame f = {.kind = (uint8_t)kind, .lane = (uint8_t)lane, .to = to, .call = call};
    tide_frame_head(out, &f, size);
    memcpy(out + TIDE_FRAME_HEAD, body, size);
    return TIDE_FRAME_HEAD + size;
}

static size_t hello_into(uint8_t *out, enum tide_right right, uint64_t incarnation) {
    struct tide_hello h = {.version = TIDE_PROTOCOL,
                           .cluster = "test",
                           .incarnation = incarnation,
                           .client = true,
                           .pid = 1,
                           .right = (uint8_t)right};
    uint8_t body[TIDE_FRAME_HELLO_MAX];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide__hello_write(&w, &h);
    size_t size = frame_into(out, TIDE_FRAME_HELLO, TIDE_LANE_SYSTEM, 0, 0, w.data, w.size);
    tide_writer_release(&w);
    return size;
}

static int ignore(void *state, const struct tide_message *m) {
    (void)state, (void)m;
    return 0;
}

/* These worlds have no store: something else has to have its address. */
static void take_place_of_store(struct tide_node *node) {
    tide_address address;
    assert_int_equal(tide_spawn(node, &(struct tide_actor_options){.handle = ignore}, &address), 0);
    assert_int_equal(tide_address_id(address), TIDE_ID_STORE);
}

/* One client that says hello and then one frame; whether the node closed the connection for it. */
static bool is_cut(struct world *w, enum tide_right right, unsigned kind, unsigned lane, tide_address to, uint64_t call,
                   const void *body, size_t size) {
    static uint64_t incarnation = 1000;
    struct raw r = {0};
    r.out_size = hello_into(r.out, right, ++incarnation);
    r.out_size += frame_into(r.out + r.out_size, kind, lane, to, call, body, size);
    bool cut = raw_talk(w, &r, 20 * MS);
    raw_leave(w, &r);
    raw_end(&r);
    return cut;
}

static void clients_send_what_is_for_clients_and_nothing_else(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 51);
    struct echo closed = {0};
    assert_non_null(world_add(&w, "c0"));
    take_place_of_store(&w.nodes[0]);
    assert_non_null(world_add(&w, "n2"));
    tide_address victim = spawn_echo(&w.nodes[0], &closed);
    static const uint8_t nil[] = {0xc0}, view[] = {0x94, 1, 0xcf, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0x90};
    static const uint8_t exit_body[] = {0x92, 0xd1, 0xd8, 0xd8, 0xa1, 'x'}; /* [-10024, "x"] */
    const tide_address store = tide_address_make(1, TIDE_ID_STORE), members = tide_address_make(1, TIDE_ID_MEMBERS);
    for (unsigned right = TIDE_RIGHT_READ; right <= TIDE_RIGHT_ADMIN; right++) {
        for (unsigned kind = 0; kind < TIDE_FRAME_KIND_COUNT; kind++) {
            const bool ends = kind == TIDE_FRAME_EXIT;
            const bool talks = kind == TIDE_FRAME_CAST || kind == TIDE_FRAME_CALL || kind == TIDE_FRAME_REPLY ||
                               kind == TIDE_FRAME_CANCEL || kind == TIDE_FRAME_MONITOR ||
                               kind == TIDE_FRAME_DEMONITOR;
            if (kind == TIDE_FRAME_ERROR || kind == TIDE_FRAME_CREDIT || kind == TIDE_FRAME_HEARTBEAT) {
                continue; /* bodies of their own: the link's decoders are theirs to test */
            }
            const void *body = ends ? (const void *)exit_body : nil;
            const size_t size = ends ? sizeof exit_body : sizeof nil;
            const bool cut = is_cut(&w, right, kind, TIDE_LANE_CONTROL, victim, ends ? TIDE_EXIT_KILLS : 7, body, size);
            if (cut == talks) {
                fail_msg("right %u, kind %u: %s", right, kind, cut ? "cut" : "passes");
            }
            assert_true(is_cut(&w, right, kind, TIDE_LANE_STORE, store, 7, body, size));
            if (kind != TIDE_FRAME_CALL && talks) { /* whoever asks for the list of members gets it */
                assert_true(is_cut(&w, right, TIDE_FRAME_CAST, TIDE_LANE_SYSTEM, members, 0, view, sizeof view));
            }
        }
    }
    assert_int_equal(atomic_load(&closed.casts), 0); /* nothing came through */
    assert_int_equal(call(&w, &w.nodes[1], victim, 100), 0);
    assert_true(await_member(&w.nodes[1], 1, TIDE_MEMBER_UP, MS) != TIDE_NEVER);
    world_close(&w);
}

static void a_hello_has_the_right_of_its_kind(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 52);
    assert_non_null(world_add(&w, "c0"));
    static const uint8_t rights[] = {TIDE_RIGHT_NONE, TIDE_RIGHT_NODE, 5, 200};
    for (size_t i = 0; i < TIDE_COUNT(rights); i++) {
        struct raw r = {0};
        r.out_size = hello_into(r.out, rights[i], 77 + i);
        assert_true(raw_talk(&w, &r, soon(&w)));
        raw_end(&r);
    }
    world_close(&w);
}

struct opener {
    enum tide_right right;
};

static int open_and_answer(void *state, const struct tide_message *m) {
    struct opener *o = state;
    if (m->kind == TIDE_CAST) { /* from the test */
        tide_open(o->right);
        return 0;
    }
    static const uint8_t names[] = {'0', '1', '2', '3', '4'};
    uint8_t body[] = {0xa1, names[m->right]};
    return m->kind == TIDE_CALL ? tide_answer(m->from, m->call, body, sizeof body) : 0;
}

struct asker {
    tide_address to;
    atomic_int result;
    uint8_t right; /* as the other side saw it */
};

static int ask(void *state) {
    struct asker *a = state;
    struct tide_reply *reply = NULL;
    static const uint8_t nil = 0xc0;
    int rc = tide_call(a->to, &nil, 1, 5 * TIDE_SECOND, &reply);
    if (rc == 0) {
        size_t size;
        a->right = (uint8_t)(((const uint8_t *)tide_reply_data(reply, &size))[1] - '0');
        tide_reply_free(reply);
    }
    atomic_store(&a->result, rc);
    return 0;
}

static int result_of(struct world *w, struct tide_node *node, tide_address to, uint8_t *right) {
    struct asker a = {.to = to};
    atomic_init(&a.result, 1);
    assert_int_equal(tide_spawn(node, &(struct tide_actor_options){.run = ask, .state = &a}, NULL), 0);
    uint64_t until = world_now(w) + 10 * TIDE_SECOND;
    while (atomic_load(&a.result) == 1 && world_now(w) < until) {
        world_pause(w, MS);
    }
    *right = a.right;
    return atomic_load(&a.result);
}

static void an_actor_opens_to_a_right_and_to_greater_ones(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 53);
    assert_non_null(world_add(&w, "c0"));
    take_place_of_store(&w.nodes[0]);
    assert_non_null(world_add(&w, "n2"));
    tide_address at[TIDE_RIGHT_NODE];
    static struct opener openers[TIDE_RIGHT_NODE];
    for (unsigned opens = 0; opens < TIDE_RIGHT_NODE; opens++) { /* 0: to nodes only */
        openers[opens].right = opens;
        tide_address address;
        struct tide_actor_options o = {.handle = open_and_answer, .state = &openers[opens]};
        assert_int_equal(tide_spawn(&w.nodes[0], &o, &address), 0);
        at[opens] = tide_address_make(1, tide_address_id(address));
        static const uint8_t nil = 0xc0;
        assert_int_equal(tide_post(&w.nodes[0], address, &nil, 1), 0);
    }
    uint8_t seen;
    for (unsigned right = TIDE_RIGHT_READ; right <= TIDE_RIGHT_ADMIN; right++) {
        struct tide_node *client;
        w.right = (uint8_t)right;
        char name[16];
        snprintf(name, sizeof name, "client%u", right);
        assert_int_equal(world_start(&w, name, false, "test", tide_net_endpoint(w.nodes[0].net), true, &client), 0);
        assert_int_equal(world_await(client, TIDE_MEMBER_UP), TIDE_MEMBER_UP);
        assert_int_equal(tide_net_right(client->net), right);
        for (unsigned opens = 0; opens < TIDE_RIGHT_NODE; opens++) {
            const bool may = opens != 0 && right >= opens;
            assert_int_equal(result_of(&w, client, at[opens], &seen), may ? 0 : TIDE_EPERM);
            assert_int_equal(seen, may ? right : 0);
        }
    }
    for (unsigned opens = 0; opens < TIDE_RIGHT_NODE; opens++) { /* a node is no client */
        assert_int_equal(result_of(&w, &w.nodes[1], at[opens], &seen), 0);
        assert_int_equal(seen, TIDE_RIGHT_NONE);
    }
    world_close(&w);
}

/* A well-formed frame that kills, from an address of the client's own: its node is the first client, n32768. */
static void a_client_kills_nobody(void **state) {
    struct world w;
    struct echo echo = {0};
    world_open(&w, is_simulated(state), 54);
    assert_non_null(world_add(&w, "c0"));
    take_place_of_store(&w.nodes[0]);
    assert_non_null(world_add(&w, "n2"));
    static const uint8_t body[] = {0x92, 0xd1, 0xd8, 0xd8, 0xa1, 'x'}; /* [-10024, "x"] */
    struct tide_frame f = {.kind = TIDE_FRAME_EXIT,
                           .lane = TIDE_LANE_CONTROL,
                           .to = spawn_echo(&w.nodes[0], &echo),
                           .from = tide_address_make(32768, 9),
                           .call = TIDE_EXIT_KILLS};
    struct raw r = {0};
    r.out_size = hello_into(r.out, TIDE_RIGHT_ADMIN, 800);
    tide_frame_head(r.out + r.out_size, &f, sizeof body);
    memcpy(r.out + r.out_size + TIDE_FRAME_HEAD, body, sizeof body);
    r.out_size += TIDE_FRAME_HEAD + sizeof body;
    const bool cut = raw_talk(&w, &r, 20 * MS);
    assert_int_equal(call(&w, &w.nodes[1], f.to, 100), 0);
    assert_true(cut);
    raw_end(&r);
    world_close(&w);
}

struct keeper {
    tide_address from;
    atomic_uint_fast64_t call; /* that waits for its answer; 0: none */
};

/* Keeps a call until it is told to answer. */
static int keep_call(void *state, const struct tide_message *m) {
    struct keeper *k = state;
    static const uint8_t right_one[] = {0xa1, '7'};
    if (m->kind == TIDE_CALL) {
        k->from = m->from;
        atomic_store(&k->call, m->call);
        return 0;
    }
    return m->kind == TIDE_CAST ? tide_answer(k->from, atomic_load(&k->call), right_one, sizeof right_one) : 0;
}

/* A client that has guessed a call's number and its caller's address, both small numbers. */
static void a_client_answers_no_call_to_others(void **state) {
    struct world w;
    world_open(&w, is_simulated(state), 55);
    assert_non_null(world_add(&w, "c0"));
    take_place_of_store(&w.nodes[0]);
    assert_non_null(world_add(&w, "n2"));
    struct keeper keeper = {0};
    tide_address kept;
    struct tide_actor_options o = {.handle = keep_call, .state = &keeper};
    assert_int_equal(tide_spawn(&w.nodes[1], &o, &kept), 0);
    struct asker a = {.to = tide_address_make(2, tide_address_id(kept))};
    atomic_init(&a.result, 1);
    assert_int_equal(tide_spawn(&w.nodes[0], &(struct tide_actor_options){.run = ask, .state = &a}, NULL), 0);
    while (atomic_load(&keeper.call) == 0) {
        world_pause(&w, MS);
    }
    static const uint8_t wrong_one[] = {0xa1, '3'};
    struct raw r = {0};
    r.out_size = hello_into(r.out, TIDE_RIGHT_ADMIN, 900);
    r.out_size += frame_into(r.out + r.out_size, TIDE_FRAME_REPLY, TIDE_LANE_ANSWER, keeper.from,
                             atomic_load(&keeper.call), wrong_one, sizeof wrong_one);
    assert_false(raw_talk(&w, &r, 20 * MS)); /* it may be late: no reason to cut it off */
    assert_int_equal(atomic_load(&a.result), 1);
    static const uint8_t nil = 0xc0;
    assert_int_equal(tide_post(&w.nodes[1], kept, &nil, 1), 0);
    uint64_t until = world_now(&w) + soon(&w);
    while (atomic_load(&a.result) == 1 && world_now(&w) < until) {
        world_pause(&w, MS);
    }
    assert_int_equal(atomic_load(&a.result), 0);
    assert_int_equal(a.right, 7);
    raw_leave(&w, &r);
    raw_end(&r);
    world_close(&w);
}

int main(void) {
    net_tests_begin();
    const struct CMUnitTest tests[] = {
        SIMULATED(clients_send_what_is_for_clients_and_nothing_else),
        BOTH(a_hello_has_the_right_of_its_kind),
        BOTH(an_actor_opens_to_a_right_and_to_greater_ones),
        SIMULATED(a_client_kills_nobody),
        SIMULATED(a_client_answers_no_call_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
