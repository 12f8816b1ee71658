/*
 * Rings between two processes of one machine: bytes come through whole and in order, sleepers are
 * woken once, and a stream meets peers that know nothing of rings, offer something else, end, or
 * write nonsense where both can write.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "port/real.h"
#include "port_world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- the rings alone ---- */

static void both_ends(struct tide_ring_end *maker, struct tide_ring_end *taker) {
    int fd = -1;
    assert_true(tide__rings_make(maker, &fd));
    assert_true(tide__rings_take(taker, fd));
    close(fd);
}

static void bytes_go_round_the_ring(void **state) {
    (void)state;
    enum { MOST = 100000, ROUNDS = 2000 };
    struct tide_ring_end ends[2];
    static uint8_t out[MOST], in[MOST];
    struct tide_random random;
    tide_random_seed(&random, 1);
    both_ends(&ends[0], &ends[1]);
    for (int from = 0; from < 2; from++) {
        uint64_t written = 0, read = 0;
        unsigned short_writes = 0;
        for (int round = 0; round < ROUNDS; round++) {
            const size_t size = 1 + (size_t)tide_random_below(&random, MOST);
            const size_t cut = (size_t)tide_random_below(&random, size);
            for (size_t i = 0; i < size; i++) {
                out[i] = (uint8_t)((written + i) * 31 >> 3);
            }
            const struct tide_iovec iov[2] = {{out, cut}, {out + cut, size - cut}};
            bool wake;
            ssize_t n = tide__ring_write(&ends[from], iov, 2, &wake);
            assert_true(n >= 0 && (size_t)n <= size);
            written += (size_t)n;
            short_writes += (size_t)n < size;
            n = tide__ring_read(&ends[1 - from], in, tide_random_below(&random, MOST), &wake);
            assert_true(n >= 0);
            for (ssize_t i = 0; i < n; i++) {
                assert_int_equal(in[i], (uint8_t)((read + (uint64_t)i) * 31 >> 3));
            }
            read += (uint64_t)n;
            assert_true(tide__ring_has_bytes(&ends[1 - from]) == (read < written));
        }
        assert_true(short_writes > ROUNDS / 100 && read > MOST);
    }
    tide__rings_drop(&ends[0]);
    tide__rings_drop(&ends[1]);
}

static void who_sleeps_is_woken_once(void **state) {
    (void)state;
    struct tide_ring_end ends[2];
    static uint8_t bytes[1 << 20];
    const struct tide_iovec one = {bytes, 1}, all = {bytes, sizeof bytes};
    bool wake;
    both_ends(&ends[0], &ends[1]);
    assert_int_equal(tide__ring_write(&ends[0], &one, 1, &wake), 1);
    assert_true(wake); /* it has not looked yet */
    assert_int_equal(tide__ring_write(&ends[0], &one, 1, &wake), 1);
    assert_false(wake);
    tide__rings_sleep(&ends[1], true, false);
    const ssize_t room = tide__ring_write(&ends[0], &all, 1, &wake);
    assert_true(room > 0 && room < (ssize_t)sizeof bytes && wake);
    assert_int_equal(tide__ring_write(&ends[0], &one, 1, &wake), 0);
    assert_false(wake);
    assert_false(tide__ring_has_room(&ends[0]));
    tide__rings_sleep(&ends[0], false, true);
    assert_int_equal(tide__ring_read(&ends[1], bytes, 10, &wake), 10);
    assert_false(wake); /* room for a few bytes is none to wake for */
    assert_int_equal(tide__ring_read(&ends[1], bytes, sizeof bytes, &wake), room + 2 - 10);
    assert_true(wake && tide__ring_has_room(&ends[0]));
    tide__rings_drop(&ends[0]);
    tide__rings_drop(&ends[1]);
}

/* ---- a stream that echoes, and a peer that is made by hand ---- */

struct echo {
    struct tide_port *port;
    struct tide_executor *executor;
    struct tide_listener *listener;
    struct tide_stream *stream;
    char directory[64], endpoint[128];
    uint8_t buffer[65536];
    size_t have, at, received;
    int reason, hangs_up; /* hangs_up: the peer's descriptor, closed within the write of `large` */
    ssize_t taken;
    atomic_bool writes, begun, listens, stop, stopped, closed;
};

static void echo_flush(struct echo *e) {
    while (e->stream && e->at < e->have) {
        const struct tide_iovec iov = {e->buffer + e->at, e->have - e->at};
        const ssize_t n = e->port->ops->stream_write(e->stream, &iov, 1);
        if (n <= 0) {
            return;
        }
        e->at += (size_t)n;
    }
    e->have = e->at = 0;
}

static void echo_buffer(void *arg, void **data, size_t *size) {
    struct echo *e = arg;
    *data = e->buffer;
    *size = e->have ? 0 : sizeof e->buffer;
}

static void echo_received(void *arg, size_t size) {
    struct echo *e = arg;
    e->have = size;
    e->received += size;
    echo_flush(e);
}

static void echo_writable(void *arg) {
    struct echo *e = arg;
    echo_flush(e);
    if (e->have == 0 && e->stream) {
        e->port->ops->stream_resume(e->stream);
    }
}

static void echo_closed(void *arg, int reason) {
    struct echo *e = arg;
    e->stream = NULL;
    e->reason = reason;
    atomic_store(&e->closed, true);
}

static const struct tide_stream_events echo_events = {.buffer = echo_buffer,
                                                      .received = echo_received,
                                                      .writable = echo_writable,
                                                      .closed = echo_closed};

static void echo_accepted(void *arg, struct tide_stream *stream) {
    struct echo *e = arg;
    e->stream = stream;
    e->port->ops->stream_accept(stream, &echo_events, e);
}

static const char large[8 << 20]; /* more than a ring holds */

static uint64_t echo_turn(void *arg) {
    struct echo *e = arg;
    const struct tide_port_ops *ops = e->port->ops;
    if (atomic_load(&e->writes)) {
        const struct tide_iovec iov = {large, sizeof large};
        close(e->hangs_up);
        e->taken = ops->stream_write(e->stream, &iov, 1);
        atomic_store(&e->writes, false);
    }
    if (atomic_load(&e->begun) && !e->listener && !atomic_load(&e->stop)) {
        assert_int_equal(ops->listen(e->executor, e->endpoint, echo_accepted, e, &e->listener), 0);
        atomic_store(&e->listens, true);
    }
    if (atomic_load(&e->stop) && !atomic_load(&e->stopped)) {
        if (e->stream) {
            ops->stream_close(e->stream);
            return TIDE_NEVER; /* `closed` brings the next turn */
        }
        ops->listener_close(e->listener);
        atomic_store(&e->stopped, true);
    }
    return TIDE_NEVER;
}

static struct echo *echo_open(void) {
    struct echo *e = calloc(1, sizeof *e);
    assert_non_null(e);
    strcpy(e->directory, "/tmp/tide-rings-XXXXXX");
    assert_non_null(mkdtemp(e->directory));
    snprintf(e->endpoint, sizeof e->endpoint, "unix:%s/socket", e->directory);
    assert_int_equal(tide_port_real_create(1, &e->port), 0);
    const struct tide_executor_options options = {
        .name = "echo", .turn = echo_turn, .arg = e, .core = -1};
    assert_int_equal(e->port->ops->executor_start(e->port, &options, &e->executor), 0);
    atomic_store(&e->begun, true);
    tide_executor_wake(e->port, e->executor);
    wait_flag(&e->listens);
    return e;
}

static void echo_close(struct echo *e) {
    atomic_store(&e->stop, true);
    tide_executor_wake(e->port, e->executor);
    wait_flag(&e->stopped);
    e->port->ops->executor_stop(e->executor);
    e->port->ops->destroy(e->port);
    assert_int_equal(rmdir(e->directory), 0);
    free(e);
}

/* The peer that connected: as the stream that offers, made by hand. */
static int peer_open(const struct echo *e) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%.64s/socket", e->directory);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends one byte with descriptors; takes them. */
static void peer_offers(int socket, char byte, const int *fds, size_t count) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof *fds)};
    control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                    .cmsg_type = SCM_RIGHTS,
                                    .cmsg_len = CMSG_LEN(count * sizeof *fds)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, count * sizeof *fds);
    assert_int_equal(sendmsg(socket, &message, 0), 1);
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static void peer_offer(int socket, char byte, int fd) {
    peer_offers(socket, byte, &fd, 1);
}

static size_t open_descriptors(void) {
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* Through the socket there and back. */
static void peer_echoes(int fd, const char *text) {
    char back[64];
    size_t got = 0;
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    while (got < strlen(text)) {
        const ssize_t n = recv(fd, back + got, strlen(text) - got, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_memory_equal(back, text, strlen(text));
}

static size_t ring_receive(int fd, struct tide_ring_end *end, char *data, size_t size) {
    size_t got = 0;
    for (int i = 0; i < 20000 && got < size; i++) {
        bool wake;
        const ssize_t n = tide__ring_read(end, data + got, size - got, &wake);
        assert_true(n >= 0);
        got += (size_t)n;
        if (wake) {
            assert_int_equal(send(fd, "", 1, 0), 1);
        }
        if (n == 0) {
            usleep(1000);
        }
    }
    return got;
}

static void ring_send(int fd, struct tide_ring_end *end, const char *text) {
    const struct tide_iovec iov = {text, strlen(text)};
    bool wake;
    assert_int_equal(tide__ring_write(end, &iov, 1, &wake), strlen(text));
    if (wake) {
        assert_int_equal(send(fd, "", 1, 0), 1);
    }
}

/* A peer whose rings the stream has taken; both write there. */
static int peer_with_rings(struct echo *e, struct tide_ring_end *end, int *memory) {
    const int fd = peer_open(e);
    int offered;
    uint64_t begins = 0;
    char byte = 0;
    assert_true(tide__rings_make(end, &offered));
    *memory = dup(offered);
    peer_offer(fd, 'a', offered);
    for (int i = 0; i < 20000 && !tide__ring_begins(end, &begins); i++) {
        usleep(1000);
    }
    assert_int_equal(begins, 0); /* it had written nothing when it took them */
    tide__ring_begin(end, 1);
    assert_int_equal(ring_receive(fd, end, &byte, 1), 1);
    assert_int_equal(byte, 'a');
    return fd;
}

static void both_sides_go_on_in_the_rings(void **state) {
    (void)state;
    struct echo *e = echo_open();
    struct tide_ring_end end;
    int memory;
    const int fd = peer_with_rings(e, &end, &memory);
    char back[16];
    for (int round = 0; round < 100; round++) {
        ring_send(fd, &end, "through the ring");
        assert_int_equal(ring_receive(fd, &end, back, sizeof back), sizeof back);
        assert_memory_equal(back, "through the ring", sizeof back);
        if (round % 20 == 0) {
            usleep(30000); /* it sleeps */
        }
    }
    close(memory);
    close(fd);
    wait_flag(&e->closed);
    assert_int_equal(e->reason, TIDE_ECLOSED);
    tide__rings_drop(&end);
    echo_close(e);
}

static void the_end_lies_behind_the_last_byte_of_the_ring(void **state) {
    (void)state;
    struct echo *e = echo_open();
    struct tide_ring_end end;
    int memory;
    const int fd = peer_with_rings(e, &end, &memory);
    static const char last[100000];
    const struct tide_iovec iov = {last, sizeof last};
    bool wake;
    usleep(30000); /* it sleeps, and no bell is heard */
    assert_int_equal(tide__ring_write(&end, &iov, 1, &wake), sizeof last);
    close(fd);
    wait_flag(&e->closed);
    assert_int_equal(e->reason, TIDE_ECLOSED);
    assert_int_equal(e->received, 1 + sizeof last);
    close(memory);
    tide__rings_drop(&end);
    echo_close(e);
}

static void what_goes_to_a_peer_that_hangs_up_counts_once(void **state) {
    (void)state;
    struct echo *e = echo_open();
    struct tide_ring_end end;
    int memory;
    e->hangs_up = peer_with_rings(e, &end, &memory);
    usleep(30000);                        /* the stream has heard its last bell */
    tide__rings_sleep(&end, true, false); /* so the write rings, and finds nobody there */
    atomic_store(&e->writes, true);
    tide_executor_wake(e->port, e->executor);
    wait_flag(&e->closed);
    assert_int_equal(e->taken, sizeof large);
    close(memory);
    tide__rings_drop(&end);
    echo_close(e);
}

static void nonsense_in_the_ring_ends_the_stream(void **state) {
    (void)state;
    for (int at = 0; at < 2; at++) {
        struct echo *e = echo_open();
        struct tide_ring_end end;
        int memory;
        const int fd = peer_with_rings(e, &end, &memory);
        char back;
        ring_send(fd, &end, "c");
        assert_int_equal(ring_receive(fd, &end, &back, 1), 1);
        /* the words by which both say how far they are */
        uint8_t *bytes = mmap(NULL, 1024, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        assert_ptr_not_equal(bytes, MAP_FAILED);
        memset(bytes + 16, at ? 0xff : 0x55, 1024 - 16);
        assert_int_equal(send(fd, "", 1, 0), 1);
        wait_flag(&e->closed);
        assert_int_equal(e->reason, TIDE_EPROTO);
        (void)munmap(bytes, 1024);
        close(memory);
        close(fd);
        tide__rings_drop(&end);
        echo_close(e);
    }
}

static int sealed(size_t size, unsigned seals) {
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void descriptors_of_something_else_are_dropped(void **state) {
    (void)state;
    struct echo *e = echo_open();
    struct tide_ring_end end;
    const int fd = peer_open(e);
    int rings, unsealed;
    assert_true(tide__rings_make(&end, &rings));
    const off_t size = lseek(rings, 0, SEEK_END);
    const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    unsealed = sealed((size_t)size, 0);
    const int offers[] = {open("/dev/null", O_RDWR), unsealed, sealed(4096, seals),
                          sealed((size_t)size, seals)};
    for (size_t i = 0; i < TIDE_COUNT(offers); i++) {
        char byte;
        peer_offer(fd, 'b', offers[i]);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        assert_int_equal(byte, 'b');
        peer_echoes(fd, "through the socket");
    }
    const size_t open_before = open_descriptors();
    const int several[] = {open("/dev/null", O_RDWR), open("/dev/null", O_RDWR),
                           open("/dev/null", O_RDWR)};
    peer_offers(fd, 'b', several, 3);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    assert_int_equal(open_descriptors(), open_before); /* none is kept */
    close(rings);
    tide__rings_drop(&end);
    close(fd);
    echo_close(e);
}

/* ---- a stream that connects to a peer which knows nothing of rings ---- */

struct speaker {
    struct echo *e; /* its port and executor */
    const char *endpoint;
    struct tide_stream *stream;
    size_t sent, received;
    uint8_t in[65536];
    unsigned wrong;
    atomic_bool started, closed;
};

enum { SPOKEN = 4 << 20 };

static uint8_t spoken_at(size_t at) {
    return (uint8_t)(at * 7 >> 4);
}

static void speak(struct speaker *s) {
    static uint8_t out[10000];
    while (s->stream && s->sent < SPOKEN) {
        const size_t size = SPOKEN - s->sent < sizeof out ? SPOKEN - s->sent : sizeof out;
        for (size_t i = 0; i < size; i++) {
            out[i] = spoken_at(s->sent + i);
        }
        const struct tide_iovec iov = {out, size};
        const ssize_t n = s->e->port->ops->stream_write(s->stream, &iov, 1);
        s->sent += n > 0 ? (size_t)n : 0;
        if (n < (ssize_t)size) {
            return;
        }
    }
}

static void speaker_connected(void *arg, struct tide_stream *stream) {
    (void)stream;
    speak(arg);
}

static void speaker_buffer(void *arg, void **data, size_t *size) {
    struct speaker *s = arg;
    *data = s->in;
    *size = sizeof s->in;
}

static void speaker_received(void *arg, size_t size) {
    struct speaker *s = arg;
    for (size_t i = 0; i < size; i++) {
        s->wrong += s->in[i] != spoken_at(s->received + i);
    }
    s->received += size;
    if (s->received == SPOKEN) {
        s->e->port->ops->stream_close(s->stream);
    }
}

static void speaker_writable(void *arg) {
    speak(arg);
}

static void speaker_closed(void *arg, int reason) {
    struct speaker *s = arg;
    (void)reason;
    s->stream = NULL;
    atomic_store(&s->closed, true);
}

static const struct tide_stream_events speaker_events = {.connected = speaker_connected,
                                                         .buffer = speaker_buffer,
                                                         .received = speaker_received,
                                                         .writable = speaker_writable,
                                                         .closed = speaker_closed};

static uint64_t speaker_turn(void *arg) {
    struct speaker *s = arg;
    if (atomic_load(&s->started) && !s->stream && s->sent == 0) {
        assert_int_equal(
            s->e->port->ops->connect(s->e->executor, s->endpoint, &speaker_events, s, &s->stream),
            0);
    }
    return TIDE_NEVER;
}

/* Echoes what comes on an accepted socket; how many descriptors came with it. */
static unsigned echo_by_hand(int fd, bool looks) {
    static char bytes[65536];
    unsigned offers = 0;
    for (;;) {
        char control[64];
        struct iovec iov = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = looks ? control : NULL,
                                 .msg_controllen = looks ? sizeof control : 0};
        const ssize_t n = recvmsg(fd, &message, 0);
        if (n <= 0) {
            return offers;
        }
        for (struct cmsghdr *c = looks ? CMSG_FIRSTHDR(&message) : NULL; c;
             c = CMSG_NXTHDR(&message, c)) {
            int offered;
            memcpy(&offered, CMSG_DATA(c), sizeof offered);
            close(offered);
            offers++;
        }
        for (ssize_t at = 0; at < n;) {
            const ssize_t out = send(fd, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
            if (out <= 0) {
                return offers;
            }
            at += out;
        }
    }
}

static void who_knows_no_rings_goes_on_by_the_socket(void **state) {
    (void)state;
    for (int looks = 0; looks < 2; looks++) {
        struct echo e = {.directory = "/tmp/tide-rings-XXXXXX"};
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        assert_non_null(mkdtemp(e.directory));
        snprintf(e.endpoint, sizeof e.endpoint, "unix:%s/socket", e.directory);
        snprintf(address.sun_path, sizeof address.sun_path, "%.64s/socket", e.directory);
        const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(tide_port_real_create(1, &e.port), 0);
        struct speaker *s = calloc(1, sizeof *s);
        assert_non_null(s);
        s->e = &e;
        s->endpoint = e.endpoint;
        const struct tide_executor_options options = {
            .name = "speaker", .turn = speaker_turn, .arg = s, .core = -1};
        assert_int_equal(e.port->ops->executor_start(e.port, &options, &e.executor), 0);
        atomic_store(&s->started, true);
        tide_executor_wake(e.port, e.executor);
        const int fd = accept(listener, NULL, NULL);
        assert_true(fd >= 0);
        assert_int_equal(echo_by_hand(fd, looks), looks); /* one offer, if it looks for it */
        wait_flag(&s->closed);
        assert_int_equal(s->received, SPOKEN);
        assert_int_equal(s->wrong, 0);
        close(fd);
        close(listener);
        (void)unlink(address.sun_path);
        e.port->ops->executor_stop(e.executor);
        e.port->ops->destroy(e.port);
        assert_int_equal(rmdir(e.directory), 0);
        free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_round_the_ring),
        cmocka_unit_test(who_sleeps_is_woken_once),
        cmocka_unit_test(both_sides_go_on_in_the_rings),
        cmocka_unit_test(the_end_lies_behind_the_last_byte_of_the_ring),
        cmocka_unit_test(what_goes_to_a_peer_that_hangs_up_counts_once),
        cmocka_unit_test(nonsense_in_the_ring_ends_the_stream),
        cmocka_unit_test(descriptors_of_something_else_are_dropped),
        cmocka_unit_test(who_knows_no_rings_goes_on_by_the_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
