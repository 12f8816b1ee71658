/*
 * A channel: a stream of the port, plain or under TLS, with the port's events upwards in both cases. Plain, it costs a
 * look at a pointer; under TLS `connected` comes when the handshake is over, `received` has plain bytes, and a
 * connection that fails its handshake is closed with a code and a reason. I/O thread 0, as the stream's.
 */
#ifndef TIDE_NET_CHANNEL_H
#define TIDE_NET_CHANNEL_H

#include "net/tls/tls.h"

struct tide_channel {
    struct tide_port *port;
    struct tide_stream *stream;
    struct tide_tls_session *session; /* NULL: plain */
    struct tide_tls *tls;
    const struct tide_stream_events *events;
    void *arg;
    size_t owed; /* of the bytes to be written next: sealed, but not yet with the socket */
    bool established, closed, accepts;
    int code; /* why it was closed here, or 0 */
};

/* Whose process is at the other end. `who`: its certificate; NULL: plain, or not known yet. */
struct tide_channel_peer {
    struct tide_peer_identity stream;
    const struct tide_identity *who;
};

/* tls NULL: plain. The channel stays where it is until `closed`. */
int tide__channel_connect(struct tide_channel *channel, struct tide_port *port, struct tide_executor *executor,
                          const char *endpoint, struct tide_tls *tls, const struct tide_stream_events *events,
                          void *arg);
/* Inside `accepted`, as stream_accept. ENOMEM. */
int tide__channel_accept(struct tide_channel *channel, struct tide_port *port, struct tide_stream *stream,
                         struct tide_tls *tls, const struct tide_stream_events *events, void *arg);
/* As stream_write. */
ssize_t tide__channel_write(struct tide_channel *channel, const struct tide_iovec *vectors, size_t count);
void tide__channel_close(struct tide_channel *channel);
void tide__channel_peer(const struct tide_channel *channel, struct tide_channel_peer *out);
const char *tide__channel_reason(const struct tide_channel *channel); /* NULL: TLS had no part in its end */
void tide__channel_release(struct tide_channel *channel);             /* after `closed` */

#endif
