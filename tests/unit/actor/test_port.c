/* Behaviour of the port, on both of its implementations: executors, streams, files. What only
 * one has is in test_port_real.c (waking across threads, processes, stale sockets) and
 * test_port_sim.c (hash, faults). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "port_world.h"

#define EACH_WORLD(w)                                                                              \
    struct world w;                                                                                \
    for (size_t kind_ = 0; kind_ < TIDE_COUNT(world_kinds); kind_++)

/* ---- executors ---- */

struct ticker {
    struct world *w;
    uint64_t due[4];
    uint64_t late_max;
    int turns, early, hits;
    atomic_bool done;
};

static uint64_t tick(void *arg) {
    struct ticker *t = arg;
    uint64_t now = tide_port_now(t->w->ports[0]);
    t->turns++;
    if (t->turns == 1) {
        for (size_t i = 0; i < TIDE_COUNT(t->due); i++) {
            static const uint64_t after[] = {300000, 2000000, 2100000, 30000000};
            t->due[i] = now + after[i];
        }
    }
    while (t->hits < (int)TIDE_COUNT(t->due) && t->due[t->hits] <= now) {
        uint64_t late = now - t->due[t->hits++];
        t->late_max = late > t->late_max ? late : t->late_max;
    }
    if (t->hits == (int)TIDE_COUNT(t->due)) {
        atomic_store(&t->done, true);
        return TIDE_NEVER;
    }
    return t->due[t->hits];
}

static void turns_come_at_the_time_they_asked_for(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct ticker t = {.w = &w};
        struct tide_executor *e;
        assert_int_equal(w.ports[0]->ops->executor_start(
                             w.ports[0],
                             &(struct tide_executor_options){.turn = tick, .arg = &t, .core = -1},
                             &e),
                         0);
        assert_true(world_wait(&w, &t.done));
        world_sleep(&w, 5000000);
        w.ports[0]->ops->executor_stop(e);
        /* One turn each and the first; on a loaded machine deadlines may share a turn. Never one
         * that spins. */
        assert_in_range(t.turns, w.kind->real ? 2 : 4, 6);
        assert_true(w.kind->real || t.late_max < 500 * UINT64_C(1000000));
        world_close(&w);
    }
}

static uint64_t spin(void *arg) {
    struct ticker *t = arg;
    if (++t->turns == 1000) {
        atomic_store(&t->done, true);
    }
    return t->turns < 1000 ? 0 : TIDE_NEVER;
}

static void a_turn_that_returns_zero_runs_again_at_once(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct ticker t = {.w = &w};
        struct tide_executor *e;
        assert_int_equal(w.ports[0]->ops->executor_start(
                             w.ports[0],
                             &(struct tide_executor_options){.turn = spin, .arg = &t, .core = -1},
                             &e),
                         0);
        assert_true(world_wait(&w, &t.done));
        world_sleep(&w, 3000000);
        w.ports[0]->ops->executor_stop(e);
        assert_int_equal(t.turns, 1000);
        world_close(&w);
    }
}

/* ---- streams: a server that echoes (or holds back), a client that sends and compares ---- */

struct client {
    struct link *link;
    struct tide_stream *stream;
    const uint8_t *data;
    size_t total, sent, received;
    size_t pieces; /* buffers a write */
    bool started, connected, short_seen;
    bool deaf; /* refuses buffers until it has spoken */
    int spoken;
    atomic_int speak; /* so many words to nobody; it listens after the last of two */
    int writables, surplus, mismatches;
    int reason; /* as `closed` tells */
    uint8_t in[100000];
    atomic_bool closed;
};

struct link {
    struct world *w;
    struct tide_executor *executors[2]; /* client, server */
    struct tide_listener *listener;
    char endpoint[128];
    /* server */
    struct tide_stream *stream;
    uint8_t buffer[65536];
    size_t have, at;
    bool hold;    /* refuse buffers until released */
    bool hang_up; /* close as soon as accepted */
    bool refuse;  /* do not take what is accepted */
    const char *last_words; /* said before it hangs up */
    int listen_code, accepted, server_reason;
    struct tide_peer_identity peer;
    atomic_bool ready[2]; /* executors[i] is stored */
    atomic_bool listening, release, stop, stopped, server_closed;
    struct client client;
};

static void server_flush(struct link *l) {
    while (l->have > l->at) {
        struct tide_iovec iov = {l->buffer + l->at, l->have - l->at};
        ssize_t n = l->w->ports[1]->ops->stream_write(l->stream, &iov, 1);
        if (n < 0) {
            return;
        }
        l->at += (size_t)n;
        if ((size_t)n < iov.size) {
            return;
        }
    }
    l->have = l->at = 0;
}

static void server_buffer(void *arg, void **data, size_t *size) {
    struct link *l = arg;
    *data = l->buffer;
    *size = l->have > 0 || l->hold ? 0 : sizeof l->buffer;
}

static void server_received(void *arg, size_t size) {
    struct link *l = arg;
    assert_true(size > 0 && size <= sizeof l->buffer);
    l->have = size;
    server_flush(l);
}

static void server_writable(void *arg) {
    struct link *l = arg;
    server_flush(l);
    if (l->have == 0) {
        l->w->ports[1]->ops->stream_resume(l->stream);
    }
}

static void server_ended(void *arg, int reason) {
    struct link *l = arg;
    l->server_reason = reason;
    l->stream = NULL;
    atomic_store(&l->server_closed, true);
}

static const struct tide_stream_events server_events = {.buffer = server_buffer,
                                                        .received = server_received,
                                                        .writable = server_writable,
                                                        .closed = server_ended};

static void server_accepted(void *arg, struct tide_stream *stream) {
    struct link *l = arg;
    l->accepted++;
    if (l->refuse) {
        return;
    }
    l->stream = stream;
    l->w->ports[1]->ops->stream_accept(stream, &server_events, l);
    l->w->ports[1]->ops->stream_peer(stream, &l->peer);
    if (l->last_words != NULL) {
        struct tide_iovec iov = {l->last_words, strlen(l->last_words)};
        assert_int_equal(l->w->ports[1]->ops->stream_write(stream, &iov, 1), iov.size);
    }
    if (l->hang_up) {
        l->w->ports[1]->ops->stream_close(stream);
        assert_false(atomic_load(&l->server_closed)); /* never from inside a call */
    }
}

static uint64_t server_turn(void *arg) {
    struct link *l = arg;
    const struct tide_port_ops *ops = l->w->ports[1]->ops;
    if (!atomic_load(&l->ready[1])) {
        return TIDE_NEVER;
    }
    if (!atomic_load(&l->listening)) {
        l->listen_code =
            ops->listen(l->executors[1], l->w->endpoint, server_accepted, l, &l->listener);
        if (l->listen_code == 0) {
            snprintf(l->endpoint, sizeof l->endpoint, "%s", ops->listener_endpoint(l->listener));
        }
        atomic_store(&l->listening, true);
    }
    if (l->hold && atomic_load(&l->release)) {
        l->hold = false;
        if (l->stream != NULL) {
            ops->stream_resume(l->stream);
        }
    }
    if (atomic_load(&l->stop) && !atomic_load(&l->stopped)) {
        if (l->listener != NULL) {
            ops->listener_close(l->listener);
            l->listener = NULL;
        }
        if (l->stream != NULL) {
            ops->stream_close(l->stream);
            return TIDE_NEVER; /* `closed` brings the next turn */
        }
        atomic_store(&l->stopped, true);
    }
    return TIDE_NEVER;
}

static void client_send(struct client *c) {
    static struct tide_iovec iov[3000];
    while (c->sent < c->total) {
        size_t left = c->total - c->sent, count = c->pieces < left ? c->pieces : left, at = c->sent;
        for (size_t i = 0; i < count; i++) {
            size_t n = i + 1 < count ? left / count : c->total - at;
            iov[i] = (struct tide_iovec){c->data + at, n};
            at += n;
        }
        ssize_t n = c->link->w->ports[0]->ops->stream_write(c->stream, iov, count);
        if (n < 0) {
            return;
        }
        c->sent += (size_t)n;
        if ((size_t)n < left) {
            c->short_seen = true;
            return;
        }
    }
}

static void client_connected(void *arg, struct tide_stream *stream) {
    struct client *c = arg;
    assert_ptr_equal(stream, c->stream);
    assert_false(c->connected);
    c->connected = true;
    client_send(c);
}

static void client_buffer(void *arg, void **data, size_t *size) {
    struct client *c = arg;
    *data = c->in;
    *size = c->deaf ? 0 : sizeof c->in;
}

static void client_received(void *arg, size_t size) {
    struct client *c = arg;
    if (c->received + size > c->total || memcmp(c->in, c->data + c->received, size) != 0) {
        c->mismatches++;
    }
    c->received += size;
    if (c->received >= c->total) {
        c->link->w->ports[0]->ops->stream_close(c->stream);
        assert_false(atomic_load(&c->closed));
    }
}

static void client_writable(void *arg) {
    struct client *c = arg;
    c->writables++;
    c->surplus += !c->short_seen || c->sent == c->total;
    client_send(c);
}

static void client_ended(void *arg, int reason) {
    struct client *c = arg;
    assert_false(atomic_load(&c->closed)); /* once */
    c->reason = reason;
    c->stream = NULL;
    atomic_store(&c->closed, true);
}

static const struct tide_stream_events client_events = {.connected = client_connected,
                                                        .buffer = client_buffer,
                                                        .received = client_received,
                                                        .writable = client_writable,
                                                        .closed = client_ended};

static uint64_t client_turn(void *arg) {
    struct link *l = arg;
    struct client *c = &l->client;
    if (!c->started && atomic_load(&l->ready[0])) {
        c->started = true;
        assert_int_equal(l->w->ports[0]->ops->connect(l->executors[0], l->endpoint, &client_events,
                                                      c, &c->stream),
                         0);
        assert_false(c->connected);
    }
    if (c->connected && c->spoken < atomic_load(&c->speak) && c->stream != NULL) {
        struct tide_iovec iov = {"hello?", 6};
        assert_int_equal(l->w->ports[0]->ops->stream_write(c->stream, &iov, 1), iov.size);
        c->spoken++;
        if (c->spoken == 2) {
            c->deaf = false;
            l->w->ports[0]->ops->stream_resume(c->stream);
        }
        return 0;
    }
    return TIDE_NEVER;
}

/* Starts the server, waits until it listens. */
static void link_open(struct link *l, struct world *w) {
    l->w = w;
    l->client.link = l;
    l->client.pieces = 1;
    struct tide_executor_options there = {
        .name = "there", .turn = server_turn, .arg = l, .core = -1};
    assert_int_equal(w->ports[1]->ops->executor_start(w->ports[1], &there, &l->executors[1]), 0);
    atomic_store(&l->ready[1], true);
    tide_executor_wake(w->ports[1], l->executors[1]);
}

static void link_connect(struct link *l) {
    struct world *w = l->w;
    struct tide_executor_options here = {.name = "here", .turn = client_turn, .arg = l, .core = -1};
    assert_int_equal(w->ports[0]->ops->executor_start(w->ports[0], &here, &l->executors[0]), 0);
    atomic_store(&l->ready[0], true);
    tide_executor_wake(w->ports[0], l->executors[0]);
}

static void link_close(struct link *l) {
    struct world *w = l->w;
    atomic_store(&l->stop, true);
    tide_executor_wake(w->ports[1], l->executors[1]);
    assert_true(world_wait(w, &l->stopped));
    w->ports[1]->ops->executor_stop(l->executors[1]);
    if (l->executors[0] != NULL) {
        w->ports[0]->ops->executor_stop(l->executors[0]);
    }
    free(l);
    world_close(w);
}

static uint8_t *pattern(size_t size) {
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    struct tide_random random;
    tide_random_seed(&random, size);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)tide_random_next(&random);
    }
    return data;
}

static struct link *link_new(void) {
    struct link *l = calloc(1, sizeof *l);
    assert_non_null(l);
    return l;
}

static void bytes_come_back_whole_and_in_order(void **state) {
    (void)state;
    static const struct {
        size_t size, pieces;
    } cases[] = {{1, 1},        {2, 2},       {1000, 7},      {65536, 1},
                 {65537, 3000}, {1 << 20, 5}, {8 << 20, 3000}};
    EACH_WORLD(w) {
        for (size_t i = 0; i < TIDE_COUNT(cases); i++) {
            world_open(&w, &world_kinds[kind_]);
            uint8_t *data = pattern(cases[i].size);
            struct link *l = link_new();
            l->client.data = data;
            l->client.total = cases[i].size;
            link_open(l, &w);
            l->client.pieces = cases[i].pieces;
            assert_true(world_wait(&w, &l->listening));
            assert_int_equal(l->listen_code, 0);
            link_connect(l);
            assert_true(world_wait(&w, &l->client.closed));
            assert_true(world_wait(&w, &l->server_closed));
            assert_int_equal(l->client.reason, 0);
            assert_int_equal(l->server_reason, TIDE_ECLOSED);
            assert_int_equal(l->client.received, cases[i].size);
            assert_int_equal(l->client.mismatches, 0);
            assert_int_equal(l->accepted, 1);
            link_close(l);
            free(data);
        }
    }
}

static void a_reader_that_stops_makes_writes_short_until_it_resumes(void **state) {
    (void)state;
    size_t size = 32 << 20;
    uint8_t *data = pattern(size);
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct link *l = link_new();
        l->client.data = data;
        l->client.total = size;
        l->hold = true;
        link_open(l, &w);
        assert_true(world_wait(&w, &l->listening));
        link_connect(l);
        world_sleep(&w, 50000000);
        assert_false(atomic_load(&l->client.closed));
        if (!w.kind->real) { /* other threads' fields are theirs while they run */
            assert_true(l->client.short_seen);
            assert_true(l->client.sent > 0 && l->client.sent <= 4 << 20);
            assert_int_equal(l->client.writables, 0);
        }
        atomic_store(&l->release, true);
        tide_executor_wake(w.ports[1], l->executors[1]);
        assert_true(world_wait(&w, &l->client.closed));
        assert_true(l->client.short_seen);
        assert_true(l->client.writables > 0);
        assert_int_equal(l->client.surplus, 0); /* only after a short write, once each */
        assert_int_equal(l->client.received, size);
        assert_int_equal(l->client.mismatches, 0);
        link_close(l);
    }
    free(data);
}

static void the_end_of_the_peer_is_eclosed(void **state) {
    (void)state;
    for (int refuse = 0; refuse < 2; refuse++) {
        EACH_WORLD(w) {
            world_open(&w, &world_kinds[kind_]);
            struct link *l = link_new();
            l->refuse = refuse;
            l->hang_up = true;
            l->client.data = (const uint8_t *)"";
            l->client.total = 0;
            link_open(l, &w);
            assert_true(world_wait(&w, &l->listening));
            link_connect(l);
            assert_true(world_wait(&w, &l->client.closed));
            assert_true(l->client.connected);
            assert_int_equal(l->client.reason, TIDE_ECLOSED);
            if (!refuse) {
                assert_true(world_wait(&w, &l->server_closed));
                assert_int_equal(l->server_reason, 0);
                assert_true(l->peer.address[0] != '\0');
                assert_true(l->peer.local_user);
            }
            link_close(l);
        }
    }
}

/* Of TCP, the first words to nobody bring the reset, and the next ones meet it. */
static void the_last_words_of_a_peer_are_heard_by_one_who_was_speaking(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct link *l = link_new();
        l->hang_up = true;
        l->last_words = "farewell";
        l->client.deaf = true;
        l->client.data = (const uint8_t *)"farewell!"; /* one more: the end is the peer's */
        l->client.total = l->client.sent = 9;
        link_open(l, &w);
        assert_true(world_wait(&w, &l->listening));
        link_connect(l);
        assert_true(world_wait(&w, &l->server_closed));
        for (int i = 1; i <= 2; i++) {
            atomic_store(&l->client.speak, i);
            tide_executor_wake(w.ports[0], l->executors[0]);
            world_sleep(&w, 20000000);
        }
        assert_true(world_wait(&w, &l->client.closed));
        assert_int_equal(l->client.received, 8);
        assert_int_equal(l->client.mismatches, 0);
        assert_int_not_equal(l->client.reason, 0);
        link_close(l);
    }
}

static void a_connection_to_nobody_is_unreachable(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct link *l = link_new();
        link_open(l, &w);
        assert_true(world_wait(&w, &l->listening));
        /* a real address of nobody: the listener's, after its end */
        atomic_store(&l->stop, true);
        tide_executor_wake(w.ports[1], l->executors[1]);
        assert_true(world_wait(&w, &l->stopped));
        link_connect(l);
        assert_true(world_wait(&w, &l->client.closed));
        assert_false(l->client.connected);
        assert_int_equal(l->client.reason, TIDE_EUNREACHABLE);
        link_close(l);
    }
}

static void a_second_listener_on_an_address_is_refused(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct link *first = link_new(), *second = link_new();
        link_open(first, &w);
        assert_true(world_wait(&w, &first->listening));
        struct world again = w;
        snprintf(again.endpoint, sizeof again.endpoint, "%s", first->endpoint);
        link_open(second, &again);
        assert_true(world_wait(&w, &second->listening));
        assert_int_equal(second->listen_code, TIDE_EADDRINUSE);
        w.ports[1]->ops->executor_stop(second->executors[1]);
        free(second);
        link_close(first);
    }
}

/* ---- malformed endpoints ---- */

struct attempts {
    struct world *w;
    struct tide_executor *executor;
    int unexpected;
    atomic_bool go, done;
};

static uint64_t attempt(void *arg) {
    static const char *const bad[] = {
        "", "tcp", "http://x", "unix:", "unix:relative", "unix:@abstract", "bogus:1"};
    static const char *const bad_real[] = {
        "tcp:example.org:1", "tcp:127.0.0.1", "tcp:127.0.0.1:65536", "tcp:127.0.0.1:-1",
        "tcp:127.0.0.1:1x", "tcp:[::1]",     "tcp:[::1:1",          "tcp:1.2.3:4",
        "tcp:127.0.0.1:",   "sim:a",
    };
    struct attempts *a = arg;
    if (!atomic_load(&a->go) || atomic_load(&a->done)) {
        return TIDE_NEVER;
    }
    const struct tide_port_ops *ops = a->w->ports[0]->ops;
    size_t count = TIDE_COUNT(bad) + (a->w->kind->real ? TIDE_COUNT(bad_real) : 0);
    for (size_t i = 0; i < count; i++) {
        const char *endpoint = i < TIDE_COUNT(bad) ? bad[i] : bad_real[i - TIDE_COUNT(bad)];
        struct tide_stream *stream;
        struct tide_listener *listener;
        a->unexpected +=
            ops->connect(a->executor, endpoint, &client_events, a, &stream) != TIDE_EINVAL;
        a->unexpected +=
            ops->listen(a->executor, endpoint, server_accepted, a, &listener) != TIDE_EINVAL;
    }
    atomic_store(&a->done, true);
    return TIDE_NEVER;
}

static void malformed_endpoints_are_the_callers_mistake(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct attempts a = {.w = &w};
        struct tide_executor_options options = {.turn = attempt, .arg = &a, .core = -1};
        assert_int_equal(w.ports[0]->ops->executor_start(w.ports[0], &options, &a.executor), 0);
        atomic_store(&a.go, true);
        tide_executor_wake(w.ports[0], a.executor);
        assert_true(world_wait(&w, &a.done));
        w.ports[0]->ops->executor_stop(a.executor);
        assert_int_equal(a.unexpected, 0);
        world_close(&w);
    }
}

static void only_loopback_and_local_sockets_are_local(void **state) {
    (void)state;
    assert_true(tide_endpoint_is_local("unix:/run/x"));
    assert_true(tide_endpoint_is_local("tcp:127.0.0.1:1"));
    assert_true(tide_endpoint_is_local("tcp:[::1]:1"));
    assert_true(tide_endpoint_is_local("sim:a"));
    assert_false(tide_endpoint_is_local("tcp:0.0.0.0:1"));
    assert_false(tide_endpoint_is_local("tcp:[::]:1"));
    assert_false(tide_endpoint_is_local("tcp:[::1"));
    assert_false(tide_endpoint_is_local("tcp:1.127.0.0:1"));
}

/* ---- files ---- */

static void count_names(void *arg, const char *name) {
    int *seen = arg;
    seen[strcmp(name, "a") == 0 ? 0 : strcmp(name, "b") == 0 ? 1 : 2]++;
}

static void files_keep_what_is_written(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct tide_port *p = w.ports[0];
        const struct tide_port_ops *ops = p->ops;
        char directory[128], a[160], b[160], text[32] = "";
        snprintf(directory, sizeof directory, "%s/d", w.directory);
        snprintf(a, sizeof a, "%s/a", directory);
        snprintf(b, sizeof b, "%s/b", directory);
        struct tide_file *f;
        struct tide_file_info info;
        assert_int_equal(ops->file_open(p, a, TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f), TIDE_ENOENT);
        assert_int_equal(ops->file_mkdir(p, directory, 0700), 0);
        assert_int_equal(ops->file_mkdir(p, directory, 0700), 0);
        assert_int_equal(ops->file_open(p, a, TIDE_FILE_READ, &f), TIDE_ENOENT);
        assert_non_null(strstr(tide_error_message(), a));
        assert_int_equal(ops->file_open(p, a,
                                        TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE |
                                            TIDE_FILE_EXCLUSIVE,
                                        &f),
                         0);
        assert_int_equal(ops->file_write(f, "hello", 5, 3), 0);
        assert_int_equal(ops->file_sync(f), 0);
        assert_int_equal(ops->file_read(f, text, sizeof text, 0), 8);
        assert_memory_equal(text, "\0\0\0hello", 8);
        assert_int_equal(ops->file_read(f, text, sizeof text, 8), 0);
        assert_int_equal(ops->file_read(f, text, sizeof text, 1000), 0);
        ops->file_close(f);
        assert_int_equal(ops->file_open(p, a, TIDE_FILE_WRITE | TIDE_FILE_EXCLUSIVE, &f),
                         TIDE_EEXIST);
        assert_int_equal(
            ops->file_open(p, b, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_APPEND, &f), 0);
        assert_int_equal(ops->file_write(f, "x", 1, 0), 0);
        assert_int_equal(ops->file_write(f, "y", 1, 0), 0); /* appended all the same */
        ops->file_close(f);
        assert_int_equal(ops->file_info(p, b, &info), 0);
        assert_int_equal(info.size, 2);
        assert_false(info.directory);
        int seen[3] = {0};
        assert_int_equal(ops->file_list(p, directory, count_names, seen), 0);
        assert_memory_equal(seen, ((int[]){1, 1, 0}), sizeof seen);
        assert_int_equal(ops->file_rename(p, b, a), 0); /* replaces */
        assert_int_equal(ops->file_info(p, b, &info), TIDE_ENOENT);
        assert_int_equal(ops->file_open(p, a, TIDE_FILE_READ, &f), 0);
        assert_int_equal(ops->file_unlink(p, a), 0); /* lives while it is open */
        assert_int_equal(ops->file_read(f, text, sizeof text, 0), 2);
        assert_memory_equal(text, "xy", 2);
        assert_true(ops->file_write(f, "z", 1, 0) < 0); /* opened for reading */
        ops->file_close(f);
        assert_int_equal(ops->file_unlink(p, a), TIDE_ENOENT);
        assert_int_equal(ops->file_rename(p, a, b), TIDE_ENOENT);
        assert_true(ops->file_list(p, a, count_names, seen) < 0);
        assert_int_equal(ops->file_info(p, directory, &info), 0);
        assert_true(info.directory);
        if (w.kind->real) {
            assert_int_equal(rmdir(directory), 0);
        }
        world_close(&w);
    }
}

struct sweep {
    struct world *w;
    char directory[80];
    int count;
};

static void unlink_entry(void *arg, const char *name) {
    struct sweep *s = arg;
    char path[400];
    snprintf(path, sizeof path, "%s/%s", s->directory, name);
    assert_int_equal(s->w->ports[0]->ops->file_unlink(s->w->ports[0], path), 0);
    s->count++;
}

static void a_listing_may_unlink_what_it_finds(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct sweep s = {.w = &w};
        const struct tide_port_ops *ops = w.ports[0]->ops;
        snprintf(s.directory, sizeof s.directory, "%s/sweep", w.directory);
        assert_int_equal(ops->file_mkdir(w.ports[0], s.directory, 0700), 0);
        for (int i = 0; i < 20; i++) {
            char path[120];
            struct tide_file *f;
            snprintf(path, sizeof path, "%s/%d", s.directory, i);
            assert_int_equal(
                ops->file_open(w.ports[0], path, TIDE_FILE_WRITE | TIDE_FILE_CREATE, &f), 0);
            ops->file_close(f);
        }
        assert_int_equal(ops->file_list(w.ports[0], s.directory, unlink_entry, &s), 0);
        assert_int_equal(s.count, 20);
        if (w.kind->real) {
            assert_int_equal(rmdir(s.directory), 0);
        }
        world_close(&w);
    }
}

static void named_random_streams_do_not_shift_each_other(void **state) {
    (void)state;
    EACH_WORLD(w) {
        world_open(&w, &world_kinds[kind_]);
        struct tide_random a, again, b;
        tide_port_random(w.ports[0], "a", &a);
        tide_port_random(w.ports[0], "b", &b);
        tide_port_random(w.ports[0], "a", &again);
        uint64_t x = tide_random_next(&a);
        assert_true(x == tide_random_next(&again));
        assert_true(x != tide_random_next(&b));
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_come_at_the_time_they_asked_for),
        cmocka_unit_test(a_turn_that_returns_zero_runs_again_at_once),
        cmocka_unit_test(bytes_come_back_whole_and_in_order),
        cmocka_unit_test(a_reader_that_stops_makes_writes_short_until_it_resumes),
        cmocka_unit_test(the_end_of_the_peer_is_eclosed),
        cmocka_unit_test(the_last_words_of_a_peer_are_heard_by_one_who_was_speaking),
        cmocka_unit_test(a_connection_to_nobody_is_unreachable),
        cmocka_unit_test(a_second_listener_on_an_address_is_refused),
        cmocka_unit_test(malformed_endpoints_are_the_callers_mistake),
        cmocka_unit_test(only_loopback_and_local_sockets_are_local),
        cmocka_unit_test(files_keep_what_is_written),
        cmocka_unit_test(a_listing_may_unlink_what_it_finds),
        cmocka_unit_test(named_random_streams_do_not_shift_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
