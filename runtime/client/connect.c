/*
 * From an endpoint to a connection that serves: socket, TLS, hello, the first view, the address of the row service. All
 * of it blocks, at most until a deadline, in slices between which the caller's other connections are kept alive.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include "client/inside.h"
#include "net/link/hello.h"
#include "port/real.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MS = 50 };

/* Waits for the socket, and beats on the other connections meanwhile. */
static int await(struct connection *k, short events, uint64_t deadline) {
    struct tide_client *c = k->client;
    for (;;) {
        struct pollfd p = {.fd = k->fd, .events = events};
        uint64_t now = client_now(c);
        const uint64_t left_ms = now < deadline ? (deadline - now) / MS + 1 : 0;
        const int n = poll(&p, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
        if (n > 0) {
            return 0;
        }
        now = client_now(c);
        if (now >= deadline) {
            return tide_fail(TIDE_ETIMEDOUT, "no answer from %s", k->endpoint);
        }
        pthread_mutex_lock(&c->lock);
        const bool closing = c->closing;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            struct connection *other = &c->connections[i];
            if (other->up && connection_receive(other) == 0) {
                connection_tick(other, now);
                (void)connection_flush(other);
            }
        }
        pthread_mutex_unlock(&c->lock);
        if (closing) {
            return tide_fail(TIDE_ECLOSED, "the client is being closed");
        }
    }
}

/* Without certificates the listener is a process of this user, or root's. */
static int check_owner(const struct connection *k) {
    struct sockaddr_storage theirs, ours;
    socklen_t size = sizeof theirs, own_size = sizeof ours;
    uint32_t uid = 0;
    bool known = false;
    memset(&theirs, 0, sizeof theirs);
    memset(&ours, 0, sizeof ours);
    if (getpeername(k->fd, (struct sockaddr *)&theirs, &size) == 0 && theirs.ss_family == AF_UNIX) {
        struct ucred credentials;
        socklen_t length = sizeof credentials;
        known = getsockopt(k->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
        uid = credentials.uid;
    } else {
        known = getsockname(k->fd, (struct sockaddr *)&ours, &own_size) == 0 &&
                tide__real_owner(&theirs, &ours, true, &uid);
    }
    if (!known) {
        return tide_fail(TIDE_EPERM, "%s: nobody can tell whose the listener is", k->endpoint);
    }
    return uid == 0 || uid == geteuid()
               ? 0
               : tide_fail(TIDE_EPERM, "%s: the listener belongs to another user", k->endpoint);
}

static int connect_socket(struct connection *k, uint64_t deadline) {
    struct tide_real_address address;
    int rc = tide__real_address_parse(k->endpoint, &address);
    if (rc != 0) {
        return rc;
    }
    k->fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (k->fd < 0) {
        rc = tide__real_fail(errno, "connecting to", k->endpoint);
    } else if (connect(k->fd, (struct sockaddr *)&address.storage, address.size) != 0) {
        rc = errno == EINPROGRESS || errno == EAGAIN
                 ? 0
                 : tide_fail(TIDE_EUNREACHABLE, "no connection to %s: %s", k->endpoint, strerror(errno));
    }
    tide__real_address_release(&address);
    rc = rc != 0 ? rc : await(k, POLLOUT, deadline);
    int error = 0;
    socklen_t size = sizeof error;
    if (rc == 0 && (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)) {
        rc = tide_fail(TIDE_EUNREACHABLE, "no connection to %s: %s", k->endpoint, strerror(error));
    }
    const int on = 1;
    (void)setsockopt(k->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* no harm to other sockets */
    return rc;
}

static int start_tls(struct connection *k, uint64_t deadline) {
    struct tide_client *c = k->client;
    if (c->keys[0] == 0) {
        return tide_fail(TIDE_EPERM, "%s is on another machine, and this client has no keys", k->endpoint);
    }
    int rc = tide__tls_open(c->port, c->keys, c->cluster, &k->tls);
    if (rc == 0 && !(k->session = tide__tls_begin(k->tls, false))) {
        rc = tide_fail(TIDE_ENOMEM, "out of memory for a TLS connection");
    }
    while (rc == 0) {
        const int done = tide__tls_handshake(k->session);
        rc = done < 0 ? tide_fail(done, "%s: %s", k->endpoint, tide__tls_reason(k->session)) : connection_flush(k);
        if (rc != 0 || done == 1) {
            break;
        }
        rc = await(k, POLLIN, deadline);
        const ssize_t n = rc != 0 ? 0 : recv(k->fd, tide__tls_input(k->tls), TIDE_TLS_INPUT, 0);
        if (rc == 0 && n <= 0) {
            rc = tide_fail(TIDE_ECLOSED, "%s closed the connection before it answered", k->endpoint);
        }
        if (rc == 0) {
            tide__tls_feed(k->session, tide__tls_input(k->tls), (size_t)n);
        }
    }
    return rc;
}

static int write_hello(struct connection *k, bool joins) {
    struct tide_client *c = k->client;
    struct tide_hello hello = {.version = TIDE_PROTOCOL,
                               .incarnation = c->incarnation,
                               .id = joins ? 0 : c->id,
                               .client = true,
                               .right = (uint8_t)c->right,
                               .pid = (int32_t)c->opener,
                               .attempt = joins ? 0 : k->attempt,
                               .to_incarnation = joins ? 0 : k->incarnation};
    snprintf(hello.cluster, sizeof hello.cluster, "%s", c->cluster);
    snprintf(hello.to, sizeof hello.to, "%s", joins ? "" : k->name);
    uint8_t body[TIDE_FRAME_HELLO_MAX];
    struct tide_writer w;
    tide_writer_init(&w, body, sizeof body);
    tide__hello_write(&w, &hello);
    const int rc = connection_own(k, TIDE_FRAME_HELLO, 0, 0, w.data, w.size);
    tide_writer_release(&w);
    return rc;
}

/* Waits for the next frame, which stays in place until the next read. */
static int next_frame(struct connection *k, uint64_t deadline, struct tide_frame *out) {
    int found;
    while ((found = connection_next(k, out)) == 0) {
        int rc = connection_flush(k);
        rc = rc != 0 ? rc : await(k, POLLIN, deadline);
        rc = rc != 0 ? rc : connection_receive(k);
        if (rc != 0) {
            return rc;
        }
    }
    return found < 0 ? found : 0;
}

static int check_name(const struct connection *k, const char *name) {
    const struct tide_identity *who = k->session ? tide__tls_peer(k->session) : NULL;
    if (!who || who->right != TIDE_RIGHT_NODE || strcmp(who->name, "*") == 0 || strcmp(who->name, name) == 0) {
        return 0;
    }
    return tide_fail(TIDE_EPERM, "the keys of who answers are of node '%s', and it says that it is '%s'", who->name,
                     name);
}

static int refused(const struct connection *k, const struct tide_frame *f) {
    int code;
    char text[200];
    const int rc = tide__refusal_parse(f->body, f->body_size, &code, text, sizeof text);
    if (rc == 0 && code == TIDE_EVERSION) {
        return tide_fail(code,
                         "%s is of another version than this client, which speaks protocol %u (%s): install "
                         "libtide-client0 and python3-tide of the version that the cluster runs",
                         k->endpoint, TIDE_PROTOCOL, text);
    }
    return rc != 0 ? rc : tide_fail(code, "%s refused: %s", k->endpoint, text);
}

/* 1: ask the controller, whose endpoint it leaves in `k`. */
static int welcomed(struct connection *k, bool joins, const struct tide_frame *f) {
    struct tide_client *c = k->client;
    struct tide_welcome w;
    int rc = tide__welcome_parse(f->body, f->body_size, &w);
    if (rc == 0 && c->cluster[0] != 0 && strcmp(c->cluster, w.cluster) != 0) {
        rc = tide_fail(TIDE_EMISMATCH, "%s belongs to cluster '%s', not '%s'", k->endpoint, w.cluster, c->cluster);
    }
    rc = rc != 0 ? rc : check_name(k, w.name);
    if (rc != 0) {
        return rc;
    }
    if (joins && w.assigned_id == 0) {
        snprintf(k->endpoint, sizeof k->endpoint, "%s", w.controller);
        return w.controller[0] ? 1 : tide_fail(TIDE_EUNREACHABLE, "the cluster has no controller at the moment");
    }
    if (!joins && w.id != k->node) {
        return tide_fail(TIDE_EMISMATCH, "another node listens at %s", k->endpoint);
    }
    pthread_mutex_lock(&c->lock);
    if (joins) {
        memcpy(c->cluster, w.cluster, sizeof c->cluster);
        c->id = w.assigned_id;
        c->granted = w.right;
        c->view = 0;
        k->attempt = 0;
    }
    k->self = c->id;
    pthread_mutex_unlock(&c->lock);
    k->node = w.id;
    k->incarnation = w.incarnation;
    memcpy(k->name, w.name, sizeof k->name);
    return 0;
}

/* Asks the node's registry for its row service, and takes the view that a joiner is sent. */
static int settle(struct connection *k, bool joins, uint64_t deadline) {
    static const uint8_t rows[] = {0xa4, 'r', 'o', 'w', 's'};
    static const uint8_t lookups[] = {0xa7, 'l', 'o', 'o', 'k', 'u', 'p', 's'};
    pthread_mutex_lock(&k->client->lock);
    const bool reads = k->client->granted == TIDE_RIGHT_READ;
    pthread_mutex_unlock(&k->client->lock);
    const uint8_t *name = reads ? lookups : rows;
    const size_t size = reads ? sizeof lookups : sizeof rows;
    bool viewed = !joins, answered = false;
    int rc = connection_own(k, TIDE_FRAME_CALL, tide_address_make(k->node, TIDE_ID_REGISTRY), 1, name, size);
    while (rc == 0 && !(viewed && answered)) {
        struct tide_frame f;
        rc = next_frame(k, deadline, &f);
        if (rc != 0 || f.kind == TIDE_FRAME_HEARTBEAT || f.kind == TIDE_FRAME_CREDIT) {
            continue;
        }
        if (f.kind == TIDE_FRAME_CAST && tide_address_id(f.to) == TIDE_ID_MEMBERS) {
            pthread_mutex_lock(&k->client->lock);
            rc = connection_take_view(k, &f);
            pthread_mutex_unlock(&k->client->lock);
            viewed = true;
            continue;
        }
        k->received++;
        if ((f.kind == TIDE_FRAME_REPLY || f.kind == TIDE_FRAME_ERROR) && f.call == 1) {
            struct tide_reader r;
            tide_reader_init(&r, f.body, f.body_size);
            k->rows = f.kind == TIDE_FRAME_REPLY ? tide_read_uint(&r) : 0;
            answered = true;
        }
    }
    return rc;
}

int client_dial(struct connection *k, const char *endpoint, bool joins, uint64_t deadline) {
    struct tide_frame f;
    char at[160]; /* which may be k's own */
    snprintf(at, sizeof at, "%s", endpoint);
    memcpy(k->endpoint, at, sizeof k->endpoint);
    k->in = tide_alloc(INPUT_BYTES);
    k->in_size = INPUT_BYTES;
    k->queue_tail = &k->queue;
    int rc = !k->in ? tide_fail(TIDE_ENOMEM, "no memory for a connection") : connect_socket(k, deadline);
    if (rc == 0) {
        rc = tide_endpoint_is_local(at) ? check_owner(k) : start_tls(k, deadline);
    }
    rc = rc != 0 ? rc : write_hello(k, joins);
    rc = rc != 0 ? rc : next_frame(k, deadline, &f);
    if (rc == 0) {
        rc = f.kind == TIDE_FRAME_HELLO_OK ? welcomed(k, joins, &f)
             : f.kind == TIDE_FRAME_ERROR  ? refused(k, &f)
                                           : tide_fail(TIDE_EPROTO, "%s does not speak Tide's protocol", at);
    }
    rc = rc != 0 ? rc : settle(k, joins, deadline);
    if (rc != 0) {
        client_hang_up(k);
    }
    k->heard = client_now(k->client);
    return rc;
}

/* A forked child may send nothing: the parent shares the socket. */
void client_hang_up(struct connection *k) {
    if (k->fd >= 0 && k->up && client_check(k->client) == 0) {
        static const uint8_t goodbye[] = {0x91, VERB_GOODBYE};
        if (k->queue == NULL || k->queue->written == 0) { /* between two frames */
            k->queue = NULL;
            (void)connection_own(k, TIDE_FRAME_CAST, tide_address_make(k->node, TIDE_ID_MEMBERS), 0, goodbye,
                                 sizeof goodbye);
            (void)connection_flush(k);
        }
    }
    tide__tls_end(k->session);
    tide__tls_close(k->tls);
    if (k->fd >= 0) {
        close(k->fd);
    }
    tide_free(k->in);
    tide_free(k->own);
    tide_free(k->fragments);
    k->fd = -1;
    k->up = false;
    k->session = NULL;
    k->tls = NULL;
    k->in = k->own = k->fragments = NULL;
    k->in_start = k->in_end = 0;
    k->own_size = k->own_at = k->own_capacity = k->fragments_size = k->fragments_total = 0;
    k->received = k->told = k->bytes_since = 0;
    k->peer_sent = 0;
    k->queue = NULL;
    k->queue_tail = &k->queue;
}
