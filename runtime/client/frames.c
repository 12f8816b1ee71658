/*
 * Bytes in and out of a connection. Out: the frame that is half written, then beats and acknowledgements, then the next
 * request. In: frames are parsed where they landed; rows are copied from there to the caller's. Frames come in
 * fragments when they are larger than 256 KiB, which answers of actors alone are.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "client/inside.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { SEAL_BYTES = 16 << 10, CREDIT_FIELDS = 4 };

/* ---- out ---- */

int connection_own(struct connection *k, unsigned kind, uint64_t to, uint64_t call, const void *body, size_t size) {
    const size_t need = k->own_size + TIDE_FRAME_HEAD + size;
    if (need > k->own_capacity) {
        uint8_t *grown = tide_realloc(k->own, need * 2);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory for a frame");
        }
        k->own = grown;
        k->own_capacity = need * 2;
    }
    const bool plain = kind == TIDE_FRAME_CAST || kind == TIDE_FRAME_CALL || kind == TIDE_FRAME_CANCEL;
    const bool members = tide_address_id(to) == TIDE_ID_MEMBERS;
    const struct tide_frame frame = {
        .kind = (uint8_t)kind,
        .lane = plain && !members && kind != TIDE_FRAME_CANCEL ? TIDE_LANE_CONTROL : TIDE_LANE_SYSTEM,
        .to = to,
        .from = plain ? tide_address_make(k->self, members ? TIDE_ID_MEMBERS : OWN_ACTOR) : 0,
        .call = call};
    tide_frame_head(k->own + k->own_size, &frame, size);
    memcpy(k->own + k->own_size + TIDE_FRAME_HEAD, body, size);
    k->own_size = need;
    return 0;
}

bool connection_has_output(const struct connection *k) {
    size_t sealed = 0;
    if (k->session) {
        (void)tide__tls_output(k->session, &sealed);
    }
    return sealed > 0 || k->own_at < k->own_size || k->queue != NULL;
}

/* Bytes the socket took; 0: it is full; negative: it is broken. */
static ssize_t write_socket(struct connection *k, const void *data, size_t size) {
    const ssize_t n = send(k->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    return n < 0 ? tide_fail(TIDE_ECLOSED, "the connection to %s was lost: %s", k->endpoint, strerror(errno)) : n;
}

/* What was sealed goes first. 1: all is with the socket; 0: it is full. */
static int flush_sealed(struct connection *k) {
    size_t size;
    const uint8_t *data;
    while (k->session && (data = tide__tls_output(k->session, &size)) != NULL && size > 0) {
        const ssize_t n = write_socket(k, data, size);
        if (n <= 0) {
            return (int)n;
        }
        tide__tls_written(k->session, (size_t)n);
    }
    return 1;
}

/* As write_socket; sealed bytes count when they are in the session's output. */
static ssize_t write_some(struct connection *k, const uint8_t *data, size_t size) {
    if (!k->session) {
        return write_socket(k, data, size);
    }
    const int free_way = flush_sealed(k);
    if (free_way <= 0) {
        return free_way;
    }
    size = size < SEAL_BYTES ? size : SEAL_BYTES;
    const int rc = tide__tls_write(k->session, data, size);
    return rc < 0 ? tide_fail(rc, "%s: %s", k->endpoint, tide__tls_reason(k->session)) : (ssize_t)size;
}

static int flush_part(struct connection *k) {
    struct part *p = k->queue;
    while (p->written < p->size) {
        const ssize_t n = write_some(k, p->frame + p->written, p->size - p->written);
        if (n <= 0) {
            return (int)n;
        }
        p->written += (size_t)n;
        p->tried = true;
        p->node = k->node;
        p->incarnation = k->incarnation;
    }
    k->queue = p->next;
    if (!k->queue) {
        k->queue_tail = &k->queue;
    }
    part_written(p);
    return 1;
}

static int flush_own(struct connection *k) {
    while (k->own_at < k->own_size) {
        const ssize_t n = write_some(k, k->own + k->own_at, k->own_size - k->own_at);
        if (n <= 0) {
            return (int)n;
        }
        k->own_at += (size_t)n;
    }
    k->own_at = k->own_size = 0;
    return 1;
}

int connection_flush(struct connection *k) {
    int rc = 1;
    if (k->queue && k->queue->written > 0) {
        rc = flush_part(k);
    }
    rc = rc > 0 ? flush_own(k) : rc;
    while (rc > 0 && k->queue) {
        rc = flush_part(k);
    }
    rc = rc > 0 ? flush_sealed(k) : rc;
    return rc < 0 ? rc : 0;
}

void connection_tick(struct connection *k, uint64_t now) {
    uint8_t body[64];
    struct tide_writer w;
    if (k->received != k->told) {
        tide_writer_init(&w, body, sizeof body);
        tide_write_array(&w, CREDIT_FIELDS);
        tide_write_uint(&w, k->received);
        for (unsigned i = 1; i < CREDIT_FIELDS; i++) {
            tide_write_uint(&w, 0); /* of lanes that bring nothing to clients */
        }
        k->told = k->received;
        k->bytes_since = 0;
        (void)connection_own(k, TIDE_FRAME_CREDIT, 0, 0, w.data, w.size);
    }
    if (now >= k->beat_at) {
        k->beat_at = now + BEAT_NS;
        tide_writer_init(&w, body, sizeof body);
        tide_write_array(&w, 4);
        tide_write_uint(&w, now);
        tide_write_uint(&w, k->peer_sent);
        tide_write_uint(&w, k->peer_sent == 0 ? 0 : now - k->peer_sent_at);
        tide_write_nil(&w);
        (void)connection_own(k, TIDE_FRAME_HEARTBEAT, 0, 0, w.data, w.size);
    }
}

/* ---- in ---- */

static struct tide_member *member_place(struct tide_client *c, uint16_t id) {
    for (size_t i = 0; i < c->member_count; i++) {
        if (c->members[i].id == id) {
            return &c->members[i];
        }
    }
    for (size_t i = 0; i < c->member_count; i++) {
        if (c->members[i].state >= TIDE_MEMBER_LEFT) {
            return &c->members[i];
        }
    }
    return c->member_count < MEMBERS_MAX ? &c->members[c->member_count++] : NULL;
}

static void read_member(struct tide_client *c, struct tide_reader *r) {
    struct tide_member m;
    tide__member_read(r, &m);
    struct tide_member *place = r->error != 0 ? NULL : member_place(c, m.id);
    if (place) {
        *place = m;
    }
}

/* A cast to the members: [1, term, number, durable, base, members], or its goodbye. */
int connection_take_view(struct connection *k, const struct tide_frame *frame) {
    struct tide_client *c = k->client;
    struct tide_reader r;
    tide_reader_init(&r, frame->body, frame->body_size);
    tide_read_array(&r);
    if (tide_read_uint(&r) != VERB_VIEW) {
        return 0;
    }
    (void)tide_read_uint(&r);
    const uint64_t view = tide_read_uint(&r);
    (void)tide_read_bool(&r);
    const uint64_t base = tide_read_uint(&r);
    size_t count = tide_read_array(&r);
    if (r.error != 0) {
        return tide_fail(TIDE_EPROTO, "%s sent a damaged view", k->endpoint);
    }
    if (base == 0) {
        c->member_count = 0;
    }
    c->view = view;
    for (; count > 0 && r.error == 0; count--) {
        read_member(c, &r);
    }
    return 0;
}

static int beat_received(struct connection *k, const struct tide_frame *f) {
    struct tide_reader r;
    tide_reader_init(&r, f->body, f->body_size);
    tide_read_array(&r);
    k->peer_sent = tide_read_uint(&r);
    k->peer_sent_at = k->heard;
    return r.error;
}

static int frame_received(struct connection *k, const struct tide_frame *f);

/* A piece of a frame: `from` is the size of the whole, `call` the place. */
static int fragment_received(struct connection *k, const struct tide_frame *f) {
    struct tide_reader r;
    struct tide_frame whole;
    size_t size;
    tide_reader_init(&r, f->body, f->body_size);
    const void *data = tide_read_binary(&r, &size);
    if (f->call == 0 && !k->fragments && f->from <= ANSWER_MAX) {
        k->fragments = tide_alloc((size_t)f->from);
        k->fragments_total = (size_t)f->from;
        k->fragments_size = 0;
    }
    if (r.error || !k->fragments || f->call != k->fragments_size || size > k->fragments_total - k->fragments_size) {
        return tide_fail(TIDE_EPROTO, "%s sent a damaged fragment", k->endpoint);
    }
    memcpy(k->fragments + k->fragments_size, data, size);
    k->fragments_size += size;
    if (k->fragments_size < k->fragments_total) {
        return 0;
    }
    int rc = tide_frame_parse(k->fragments, k->fragments_total, &whole);
    if (rc == 0) {
        client_answered(k, &whole);
    }
    tide_free(k->fragments);
    k->fragments = NULL;
    return rc;
}

static int frame_received(struct connection *k, const struct tide_frame *f) {
    switch (f->kind) {
    case TIDE_FRAME_HEARTBEAT:
        return beat_received(k, f);
    case TIDE_FRAME_CREDIT:
        return 0;
    case TIDE_FRAME_HELLO:
    case TIDE_FRAME_HELLO_OK:
        return tide_fail(TIDE_EPROTO, "%s sent a second handshake", k->endpoint);
    case TIDE_FRAME_CAST:
        if (f->lane == TIDE_LANE_SYSTEM && tide_address_id(f->to) == TIDE_ID_MEMBERS) {
            return connection_take_view(k, f);
        }
        break;
    default:
        break;
    }
    k->received++;
    k->bytes_since += f->body_size;
    if (f->kind == TIDE_FRAME_FRAGMENT) {
        return fragment_received(k, f);
    }
    if (f->kind == TIDE_FRAME_REPLY || f->kind == TIDE_FRAME_ERROR) {
        client_answered(k, f);
    }
    return 0;
}

int connection_next(struct connection *k, struct tide_frame *out) {
    const size_t have = k->in_end - k->in_start;
    const uint8_t *at = k->in + k->in_start;
    const int64_t length = tide_frame_length(at, have, TIDE_FRAME_MAX);
    if (length <= 0 || (size_t)length > have) {
        return length < 0 ? (int)length : 0;
    }
    k->in_start += (size_t)length;
    const int rc = tide_frame_parse(at + 4, (size_t)length - 4, out);
    return rc != 0 ? rc : 1;
}

/* All whole frames; only once the handshake is over. */
static int take_frames(struct connection *k) {
    struct tide_frame frame;
    int rc = 1;
    while (k->up && (rc = connection_next(k, &frame)) == 1) {
        rc = frame_received(k, &frame);
        if (rc != 0) {
            return rc;
        }
    }
    if (rc < 0) {
        return rc;
    }
    if (k->in_start == k->in_end) {
        k->in_start = k->in_end = 0;
    }
    if (k->up && (k->received - k->told >= ACK_FRAMES || k->bytes_since >= ACK_BYTES)) {
        connection_tick(k, k->heard);
        return connection_flush(k);
    }
    return 0;
}

/* Room to read into, behind what is there. */
static int make_room(struct connection *k) {
    const size_t have = k->in_end - k->in_start;
    const int64_t length = tide_frame_length(k->in + k->in_start, have, TIDE_FRAME_MAX);
    if (length < 0) {
        return (int)length;
    }
    if (k->in_start > 0 && (k->in_end == k->in_size || (size_t)length > k->in_size - k->in_start)) {
        memmove(k->in, k->in + k->in_start, have);
        k->in_start = 0;
        k->in_end = have;
    }
    if ((size_t)length > k->in_size) {
        uint8_t *grown = tide_realloc(k->in, (size_t)length);
        if (!grown) {
            return tide_fail(TIDE_ENOMEM, "no memory for a frame of %lld bytes", (long long)length);
        }
        k->in = grown;
        k->in_size = (size_t)length;
    }
    return 0;
}

/* Plain bytes that have arrived; 0: none. */
static ssize_t read_some(struct connection *k, void *data, size_t size) {
    for (;;) {
        if (k->session) {
            const ssize_t n = tide__tls_read(k->session, data, size);
            if (n != 0) {
                return n < 0 ? tide_fail((int)n, "%s: %s", k->endpoint, tide__tls_reason(k->session)) : n;
            }
        }
        void *at = k->session ? tide__tls_input(k->tls) : data;
        const ssize_t n = recv(k->fd, at, k->session ? TIDE_TLS_INPUT : size, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return 0;
        }
        if (n <= 0) {
            return tide_fail(TIDE_ECLOSED, "the connection to %s was lost", k->endpoint);
        }
        if (!k->session) {
            return n;
        }
        tide__tls_feed(k->session, at, (size_t)n);
    }
}

int connection_receive(struct connection *k) {
    int rc = take_frames(k); /* behind a handshake */
    while (rc == 0) {
        rc = make_room(k);
        if (rc != 0) {
            return rc;
        }
        const size_t room = k->in_size - k->in_end;
        const ssize_t n = read_some(k, k->in + k->in_end, room);
        if (n <= 0) {
            return (int)n;
        }
        k->in_end += (size_t)n;
        k->heard = client_now(k->client);
        rc = take_frames(k);
        if (((size_t)n < room && !k->session) || !k->up) {
            return rc;
        }
    }
    return rc;
}
