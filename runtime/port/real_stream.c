/*
 * Streams and listeners: our own non-blocking sockets, watched by uv_poll (level triggered), read
 * and written directly because the layer above requires the number of bytes of a write. Reads are
 * asked for all the time, writability only after a short write. A stream ends in two steps:
 * `finish` takes the socket away at once, and the loop delivers `closed` before its next turn, so
 * that no owner is called from inside its own call. The struct is freed when both `closed` was
 * delivered and libuv has released the handle.
 *
 * When much has gone through a Unix socket, the side that connected offers rings (real_ring.c): a
 * descriptor that travels with some bytes, which an older peer ignores. A side that
 * takes them writes there at once, the other side when it has read what came before
 * through the socket. Each says in its ring after which byte of the socket the ring continues. From
 * then on a byte in the socket is a bell that wakes the reader of a ring, or the writer of a full
 * one, and the socket's end is the stream's. An executor that is awake looks at its rings by
 * itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4, struct ucred */
#endif
#include "port/real.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* So many reads or accepts a wake-up at most: one busy peer does not hold the others. */
enum { BURST_MAX = 32 };
/* Unsent bytes in the kernel beyond which it reports a socket as full: what waits is ours to
 * order by priority. */
enum { UNSENT_BYTES_MAX = 256 * 1024 };
enum { UNANSWERED_MS_MAX = 5000 };   /* then the kernel gives the connection up */
enum { RINGS_AFTER = 256 * 1024 };   /* bytes */
enum { RINGS_MAX = 32 };             /* of an executor: 256 KiB each */
#define LOOK_NS (TIDE_SECOND / 1000) /* polling interval of a side that cannot hear a bell */

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

/* sendmsg takes our vectors as they are. */
_Static_assert(sizeof(struct tide_iovec) == sizeof(struct iovec) &&
                   offsetof(struct tide_iovec, data) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct tide_iovec, size) == offsetof(struct iovec, iov_len),
               "struct tide_iovec is a struct iovec");

struct tide_stream {
    struct tide_executor *executor;
    const struct tide_stream_events *events; /* NULL: accepted, not taken yet */
    void *arg;
    uv_poll_t poll;
    int fd;   /* -1: finished */
    int mask; /* what the poll watches for */
    int reason;
    bool connecting;
    bool reading;    /* false between a refused buffer and resume */
    bool want_write; /* the last write was short */
    bool broken;     /* what is written is dropped; reading comes to the end */
    bool handle_open;
    bool delivered;
    struct tide_stream *closing_next;
    /* rings */
    bool is_unix, outgoing, offered;
    bool writes_ring, reads_ring;
    bool dozing;                    /* the peer was notified */
    bool ends;                      /* the socket has: what is in the ring is the last, and `reason` is reported then */
    int offer;                      /* travels with the next bytes; -1: none */
    uint64_t socket_out, socket_in; /* bytes of the stream through the socket */
    struct tide_ring_end ring;
    struct tide_stream *rings_next, **rings_at;
};

struct tide_listener {
    struct tide_executor *executor;
    void (*accepted)(void *arg, struct tide_stream *stream);
    void *arg;
    uv_poll_t poll;
    int fd;
    int spare; /* released for a moment to reject a connection when descriptors have run out */
    bool is_unix;
    bool closed;
    dev_t device; /* of our socket file: another's in its place is not ours to unlink */
    ino_t inode;
    char endpoint[160];
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void free_when_done(struct tide_stream *s) {
    if (s->delivered && !s->handle_open) {
        tide_free(s);
    }
}

static void on_stream_handle_closed(uv_handle_t *handle) {
    struct tide_stream *s = handle->data;
    s->handle_open = false;
    free_when_done(s);
}

/* The peer has gone. What it sent before is still here to be read, and may say why it went: the
 * end is found by reading, behind it. */
static bool is_gone(int error_number) {
    return error_number == EPIPE || error_number == ECONNRESET || error_number == ETIMEDOUT;
}

/* ---- rings ---- */

static void rings_join(struct tide_stream *s) {
    struct tide_executor *e = s->executor;
    s->rings_next = e->rings_first;
    s->rings_at = &e->rings_first;
    if (s->rings_next) {
        s->rings_next->rings_at = &s->rings_next;
    }
    e->rings_first = s;
    e->rings_count++;
    s->dozing = true; /* as the rings begin */
}

/* The memory of the rings is the peer's now, or unused. */
static void close_offer(struct tide_stream *s) {
    if (s->offer >= 0) {
        close(s->offer);
        s->offer = -1;
    }
}

static void rings_leave(struct tide_stream *s) {
    struct tide_executor *e = s->executor;
    close_offer(s);
    if (!s->ring.rings) {
        return;
    }
    if (e->rings_next == s) {
        e->rings_next = s->rings_next;
    }
    *s->rings_at = s->rings_next;
    if (s->rings_next) {
        s->rings_next->rings_at = s->rings_at;
    }
    e->rings_count--;
    tide__rings_drop(&s->ring);
}

static void rings_offer(struct tide_stream *s) {
    if (s->is_unix && s->outgoing && !s->offered && s->executor->rings_count < RINGS_MAX &&
        s->socket_out + s->socket_in >= RINGS_AFTER) {
        s->offered = true;
        if (tide__rings_make(&s->ring, &s->offer)) {
            rings_join(s);
        }
    }
}

/* *Takes* a descriptor that came with bytes of the peer. */
static void rings_take(struct tide_stream *s, int fd) {
    if (!s->outgoing && !s->ring.rings && s->executor->rings_count < RINGS_MAX && tide__rings_take(&s->ring, fd)) {
        rings_join(s);
        tide__ring_begin(&s->ring, s->socket_out);
        s->writes_ring = true;
    }
    close(fd);
}

/* Has the peer's part that came through the socket been read? Then its ring is next. */
static bool turns_to_ring(struct tide_stream *s) {
    uint64_t begins;
    if (!s->reads_ring && s->ring.rings && tide__ring_begins(&s->ring, &begins) && s->socket_in >= begins) {
        s->reads_ring = true;
        if (!s->writes_ring) { /* not before: until then a bell would lie behind unread bytes */
            tide__ring_begin(&s->ring, s->socket_out);
            s->writes_ring = true;
        }
    }
    return s->reads_ring;
}

/* Wakes the peer. If there is no room for another one, enough bells are in flight. */
static void ring_bell(struct tide_stream *s) {
    if (send(s->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && is_gone(errno)) {
        s->broken = true;
    }
}

/* What is in the socket of a stream whose bytes come through a ring: bells, or the end. */
static void hear_bells(struct tide_stream *s) {
    char bells[64];
    const ssize_t n = recv(s->fd, bells, sizeof bells, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        s->ends = true;
        s->reason = n == 0 ? TIDE_ECLOSED : tide__error_from_errno(-errno);
    }
}

/* Takes the socket away; `closed` follows from the loop. Only the first reason counts. */
static void finish(struct tide_stream *s, int reason) {
    if (s->fd < 0) {
        return;
    }
    /* The handle first: libuv removes the descriptor's number from its epoll set, which may be
     * another's after close. */
    if (s->handle_open) {
        uv_close((uv_handle_t *)&s->poll, on_stream_handle_closed);
    }
    rings_leave(s);
    close(s->fd);
    s->fd = -1;
    s->reason = reason;
    s->closing_next = NULL;
    *s->executor->closing_last = s;
    s->executor->closing_last = &s->closing_next;
}

void tide__real_streams_deliver_closed(struct tide_executor *e) {
    /* A snapshot: what a callback finishes waits for the next round. */
    struct tide_stream *s = e->closing_first;
    e->closing_first = NULL;
    e->closing_last = &e->closing_first;
    while (s) {
        struct tide_stream *next = s->closing_next;
        TIDE_ASSERT(e->streams_open > 0);
        e->streams_open--;
        s->delivered = true;
        if (s->events) {
            s->events->closed(s->arg, s->reason);
        }
        free_when_done(s);
        s = next;
    }
}

static void update_mask(struct tide_stream *s) {
    if (s->fd < 0) {
        return;
    }
    bool read = s->reads_ring ? !s->ends : s->reading && !s->connecting;
    bool write = s->connecting || (s->want_write && !s->writes_ring);
    int mask = (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);
    if (mask == s->mask) {
        return;
    }
    s->mask = mask;
    int code = mask == 0 ? uv_poll_stop(&s->poll) : uv_poll_start(&s->poll, mask, on_poll);
    TIDE_ASSERT(code == 0);
}

/* Takes fd (closes it on failure). */
static int stream_create(struct tide_executor *e, int fd, int family, bool connecting, struct tide_stream **out) {
    struct tide_stream *s = tide_alloc_zero(1, sizeof *s);
    if (!s) {
        close(fd);
        return TIDE_ENOMEM;
    }
    int code = uv_poll_init(e->loop, &s->poll, fd);
    if (code != 0) {
        close(fd);
        tide_free(s);
        return tide__real_fail(-code, "watching", "a socket");
    }
    s->poll.data = s;
    s->executor = e;
    s->fd = fd;
    s->is_unix = family == AF_UNIX;
    s->connecting = s->outgoing = connecting;
    s->offer = -1;
    s->reading = true;
    s->handle_open = true;
    e->streams_open++;
    *out = s;
    return 0;
}

static void tune(int fd, int family) {
    if (family != AF_UNIX) {
        int on = 1, limit = UNSENT_BYTES_MAX, timeout = UNANSWERED_MS_MAX;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof limit);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    }
}

/* ---- reading and writing ---- */

/* Room for a descriptor that comes or goes with bytes. */
union control {
    struct cmsghdr head; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void take_descriptors(struct tide_stream *s, struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        const bool rights = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
        for (size_t at = CMSG_LEN(0); rights && at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
            int fd;
            memcpy(&fd, (const char *)c + at, sizeof fd);
            rings_take(s, fd);
        }
    }
}

/* Bytes that were read; 0: none now; else why there will be no more. */
static ssize_t read_socket(struct tide_stream *s, void *data, size_t size) {
    union control control;
    struct iovec iov = {data, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (s->is_unix) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
    }
    ssize_t n;
    do {
        n = recvmsg(s->fd, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return n == 0 ? TIDE_ECLOSED : errno == EAGAIN ? 0 : tide__error_from_errno(-errno);
    }
    take_descriptors(s, &message);
    uint64_t begins;
    s->socket_in += (uint64_t)n;
    if (s->ring.rings && tide__ring_begins(&s->ring, &begins) && s->socket_in > begins) {
        n -= (ssize_t)(s->socket_in - begins); /* bells */
        s->socket_in = begins;
    }
    return n;
}

static ssize_t read_ring(struct tide_stream *s, void *data, size_t size) {
    bool wake = false;
    const ssize_t n = tide__ring_read(&s->ring, data, size, &wake);
    if (wake) {
        ring_bell(s);
    }
    return n == 0 && s->ends ? s->reason : n;
}

/* Reads until there is no more now, the owner stops reading, or the burst is over. */
static void receive(struct tide_stream *s) {
    for (int i = 0; i < BURST_MAX && s->fd >= 0 && s->reading; i++) {
        void *data = NULL;
        size_t size = 0;
        s->events->buffer(s->arg, &data, &size);
        if (s->fd < 0) {
            return; /* closed by its owner */
        }
        if (size == 0) {
            s->reading = false;
            return;
        }
        const bool ring = turns_to_ring(s);
        const ssize_t n = ring ? read_ring(s, data, size) : read_socket(s, data, size);
        if (n < 0 && !ring && turns_to_ring(s)) { /* it began before it ended */
            s->ends = true;
            s->reason = (int)n;
            continue;
        }
        if (n < 0) {
            finish(s, (int)n);
            return;
        }
        if (n > 0) {
            s->events->received(s->arg, (size_t)n);
        }
        if (s->fd >= 0 && (size_t)n < size && ring == turns_to_ring(s)) {
            return; /* drained; should more have come meanwhile, the poll or a look says so */
        }
    }
}

/* On loopback, connecting to a free port of the ephemeral range can meet itself (simultaneous
 * open). */
static bool is_self_connected(int fd) {
    struct sockaddr_storage ours, theirs;
    socklen_t our_size = sizeof ours, their_size = sizeof theirs;
    memset(&ours, 0, sizeof ours);
    memset(&theirs, 0, sizeof theirs);
    return getsockname(fd, (struct sockaddr *)&ours, &our_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &their_size) == 0 && ours.ss_family != AF_UNIX &&
           our_size == their_size && memcmp(&ours, &theirs, our_size) == 0;
}

/* A connection that cannot be made is "unreachable", nothing listens there, whatever the kernel's reason. But a Unix
 * listener whose backlog is full is there, and busy; and where the network is down the listener may be there: no answer
 * is no refusal. */
static int connect_reason(int error_number) {
    if (error_number == ENETUNREACH || error_number == EHOSTUNREACH || error_number == ENETDOWN ||
        error_number == EHOSTDOWN) {
        return TIDE_ETIMEDOUT;
    }
    int code = tide__error_from_errno(-error_number);
    bool own_fault = code == TIDE_ENOMEM || code == TIDE_EACCES || code == TIDE_EMFILE || code == TIDE_ELIMIT ||
                     code == TIDE_ETIMEDOUT || code == TIDE_EBUSY;
    return own_fault ? code : TIDE_EUNREACHABLE;
}

static void on_connected(struct tide_stream *s) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (error == 0 && is_self_connected(s->fd)) {
        error = ECONNREFUSED;
    }
    if (error != 0) {
        finish(s, connect_reason(error));
        return;
    }
    s->connecting = false;
    s->events->connected(s->arg, s);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct tide_stream *s = poll->data;
    TIDE_ASSERT(s->fd >= 0 && s->events);
    tide__real_awake(s->executor);
    if (status < 0) {
        s->mask = 0; /* libuv has stopped the handle: an error waits on the socket, and reading
                        finds it */
    }
    if (s->connecting) {
        on_connected(s);
    } else if (status < 0 && !s->reading && !s->reads_ring) {
        finish(s, TIDE_ECLOSED);
    } else {
        if (s->reads_ring) {
            hear_bells(s);
        }
        if (status < 0 || (events & UV_READABLE) != 0) {
            receive(s);
        }
        if (s->fd >= 0 && (events & UV_WRITABLE) != 0 && s->want_write) {
            s->want_write = false;
            s->events->writable(s->arg);
        }
    }
    update_mask(s);
}

static bool can_read_ring(struct tide_stream *s) {
    return s->reading && turns_to_ring(s) && (s->ends || tide__ring_has_bytes(&s->ring));
}

static bool can_write_ring(const struct tide_stream *s) {
    return s->want_write && s->writes_ring && tide__ring_has_room(&s->ring);
}

void tide__real_streams_look(struct tide_executor *e) {
    for (struct tide_stream *s = e->rings_first; s; s = e->rings_next) {
        e->rings_next = s->rings_next; /* whatever a callback closes */
        if (s->dozing) {
            s->dozing = false;
            tide__rings_sleep(&s->ring, false, false);
        }
        if (can_read_ring(s)) {
            tide__real_awake(e);
            receive(s);
        }
        if (s->fd >= 0 && can_write_ring(s)) {
            s->want_write = false;
            s->events->writable(s->arg);
        }
        update_mask(s);
    }
}

uint64_t tide__real_streams_doze(struct tide_executor *e, uint64_t next) {
    for (struct tide_stream *s = e->rings_first; s; s = s->rings_next) {
        s->dozing = true;
        tide__rings_sleep(&s->ring, s->reading, s->want_write && s->writes_ring);
    }
    for (struct tide_stream *s = e->rings_first; s; s = s->rings_next) {
        if (can_read_ring(s) || can_write_ring(s)) {
            return 0;
        }
        if (s->want_write && s->writes_ring && !s->reads_ring && !s->reading) {
            const uint64_t soon = tide_port_now(e->port) + LOOK_NS;
            next = soon < next ? soon : next;
        }
    }
    return next;
}

static size_t size_of(const struct tide_iovec *iov, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += iov[i].size;
    }
    return size;
}

/* As many bytes as the socket takes now, at most IOV_MAX vectors; 0 also when the peer has gone. */
static ssize_t write_socket(struct tide_stream *s, const struct tide_iovec *iov, size_t count) {
    union control control = {0};
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    rings_offer(s);
    if (s->offer >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(c), &s->offer, sizeof s->offer);
    }
    ssize_t n;
    do {
        n = sendmsg(s->fd, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && is_gone(errno)) {
        s->broken = true;
        return 0;
    }
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS) {
        return tide__real_fail(errno, "writing to", "a stream");
    }
    if (n > 0) {
        close_offer(s);
    }
    s->socket_out += n > 0 ? (uint64_t)n : 0;
    return n > 0 ? n : 0;
}

static ssize_t write_ring(struct tide_stream *s, const struct tide_iovec *iov, size_t count) {
    bool wake = false;
    const ssize_t n = tide__ring_write(&s->ring, iov, count, &wake);
    if (wake) {
        ring_bell(s);
    }
    return n;
}

ssize_t tide__real_stream_write(struct tide_stream *s, const struct tide_iovec *iov, size_t count) {
    tide__real_check_thread(s->executor);
    if (s->fd < 0) {
        return tide_fail(TIDE_ECLOSED, "the connection is closed");
    }
    const size_t all = size_of(iov, count);
    size_t taken = 0;
    while (!s->connecting && !s->broken && !s->ends && count > 0) {
        size_t batch = count < IOV_MAX ? count : IOV_MAX, wanted = size_of(iov, batch);
        const ssize_t n = s->writes_ring ? write_ring(s, iov, batch) : write_socket(s, iov, batch);
        if (n < 0) {
            finish(s, (int)n);
            return n;
        }
        taken += (size_t)n;
        if ((size_t)n < wanted) {
            break;
        }
        iov += batch;
        count -= batch;
    }
    if (s->broken || s->ends) {
        return (ssize_t)all;
    }
    if (count > 0) {
        s->want_write = true;
        update_mask(s);
    }
    return (ssize_t)taken;
}

void tide__real_stream_resume(struct tide_stream *s) {
    tide__real_check_thread(s->executor);
    s->reading = true;
    update_mask(s);
}

void tide__real_stream_close(struct tide_stream *s) {
    tide__real_check_thread(s->executor);
    if (s->fd < 0) { /* its end was in flight already, and this side requested it, too */
        s->reason = 0;
    }
    finish(s, 0);
}

void tide__real_stream_peer(struct tide_stream *s, struct tide_peer_identity *out) {
    memset(out, 0, sizeof *out);
    struct tide_real_address address;
    memset(&address, 0, sizeof address);
    address.size = sizeof address.storage;
    if (s->fd < 0 || getpeername(s->fd, (struct sockaddr *)&address.storage, &address.size) != 0) {
        snprintf(out->address, sizeof out->address, "closed");
        return;
    }
    if (address.storage.ss_family != AF_UNIX) {
        tide__real_address_print(&address, out->address, sizeof out->address);
        if (tide_endpoint_is_local(out->address)) {
            struct sockaddr_storage ours;
            socklen_t length = sizeof ours;
            memset(&ours, 0, sizeof ours);
            out->local_user = getsockname(s->fd, (struct sockaddr *)&ours, &length) == 0 &&
                              tide__real_owner(&address.storage, &ours, s->outgoing, &out->uid);
        }
        return;
    }
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(s->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
        out->local_user = true;
        out->uid = credentials.uid;
        snprintf(out->address, sizeof out->address, "unix:uid=%u,pid=%d", (unsigned)credentials.uid,
                 (int)credentials.pid);
    } else {
        snprintf(out->address, sizeof out->address, "unix:");
    }
}

/* ---- connecting and listening ---- */

int tide__real_connect(struct tide_executor *e, const char *endpoint, const struct tide_stream_events *events,
                       void *arg, struct tide_stream **out) {
    tide__real_check_thread(e);
    struct tide_real_address address;
    const int parsed = tide__real_address_parse(endpoint, &address);
    if (parsed == TIDE_EINVAL) {
        tide__real_address_release(&address);
        return parsed;
    }
    int family = address.storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        const int error = errno;
        tide__real_address_release(&address);
        return tide__real_fail(error, "connecting to", endpoint);
    }
    tune(fd, family);
    struct tide_stream *s;
    int code = stream_create(e, fd, family, true, &s);
    if (code != 0) {
        tide__real_address_release(&address);
        return code;
    }
    s->events = events;
    s->arg = arg;
    *out = s;
    if (parsed != 0) { /* its directory is gone, or closed to us: reported through `closed` */
        finish(s, parsed == TIDE_ENOENT ? TIDE_EUNREACHABLE : parsed);
        return 0;
    }
    const bool failed =
        connect(fd, (const struct sockaddr *)&address.storage, address.size) != 0 && errno != EINPROGRESS;
    const int error = errno;
    tide__real_address_release(&address);
    if (failed) {
        finish(s, connect_reason(error)); /* reported like any later failure: through `closed` */
    } else {
        update_mask(s); /* also when connected at once: `connected` comes from the loop */
    }
    return 0;
}

void tide__real_stream_accept(struct tide_stream *s, const struct tide_stream_events *events, void *arg) {
    TIDE_ASSERT(!s->events && events);
    s->events = events;
    s->arg = arg;
}

/* No descriptor is free: the connection would stay in the backlog and keep the poll spinning. It
 * is refused. */
static void refuse_one(struct tide_listener *l) {
    if (l->spare >= 0) {
        close(l->spare);
        int fd = accept(l->fd, NULL, NULL);
        if (fd >= 0) {
            close(fd);
        }
        l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    tide_log(TIDE_LOG_ERROR, NULL, "%s: out of file descriptors, a connection was refused", l->endpoint);
}

static void on_accept(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tide_listener *l = poll->data;
    tide__real_awake(l->executor);
    for (int i = 0; i < BURST_MAX && !l->closed; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                refuse_one(l);
            }
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            return;
        }
        const int family = l->is_unix ? AF_UNIX : AF_INET;
        tune(fd, family);
        struct tide_stream *s;
        if (stream_create(l->executor, fd, family, false, &s) != 0) {
            continue; /* the peer sees its connection end */
        }
        l->accepted(l->arg, s);
        if (!s->events) {
            finish(s, 0);
        } else {
            update_mask(s);
        }
    }
}

static void on_listener_handle_closed(uv_handle_t *handle) {
    tide_free(handle->data);
}

int tide__real_listen(struct tide_executor *e, const char *endpoint,
                      void (*accepted)(void *arg, struct tide_stream *stream), void *arg, struct tide_listener **out) {
    tide__real_check_thread(e);
    struct tide_real_address address;
    int code = tide__real_address_parse(endpoint, &address);
    struct tide_listener *l = code == 0 ? tide_alloc_zero(1, sizeof *l) : NULL;
    if (!l) {
        tide__real_address_release(&address);
        return code != 0 ? code : TIDE_ENOMEM;
    }
    int fd = tide__real_address_listen(&address, endpoint);
    tide__real_address_release(&address);
    if (fd < 0) {
        tide_free(l);
        return fd;
    }
    l->executor = e;
    l->accepted = accepted;
    l->arg = arg;
    l->fd = fd;
    l->is_unix = address.storage.ss_family == AF_UNIX;
    struct stat info;
    if (l->is_unix && lstat(endpoint + 5, &info) == 0) {
        l->device = info.st_dev;
        l->inode = info.st_ino;
    }
    if (l->is_unix) {
        (void)snprintf(l->endpoint, sizeof l->endpoint, "%s", endpoint);
    } else { /* with the port chosen for 0 */
        address.size = sizeof address.storage;
        (void)getsockname(fd, (struct sockaddr *)&address.storage, &address.size);
        tide__real_address_print(&address, l->endpoint, sizeof l->endpoint);
    }
    code = uv_poll_init(e->loop, &l->poll, fd);
    if (code != 0) {
        close(fd);
        tide_free(l);
        return tide__real_fail(-code, "listening on", endpoint);
    }
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->poll.data = l;
    code = uv_poll_start(&l->poll, UV_READABLE, on_accept);
    TIDE_ASSERT(code == 0);
    *out = l;
    return 0;
}

const char *tide__real_listener_endpoint(struct tide_listener *l) {
    return l->endpoint;
}

void tide__real_listener_close(struct tide_listener *l) {
    tide__real_check_thread(l->executor);
    TIDE_ASSERT(!l->closed);
    l->closed = true;
    struct stat info;
    if (l->is_unix && lstat(l->endpoint + 5, &info) == 0 && info.st_dev == l->device && info.st_ino == l->inode) {
        (void)unlink(l->endpoint + 5);
    }
    uv_close((uv_handle_t *)&l->poll, on_listener_handle_closed);
    close(l->fd);
    if (l->spare >= 0) {
        close(l->spare);
    }
}
