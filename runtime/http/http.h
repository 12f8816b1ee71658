/*
 * The plugin tide_http.so: the server behind `tide dashboard`, on libmicrohttpd. It serves its owner on loopback, or on
 * an address over TLS those who have a token or a certificate, from a thread of its own; a node never loads it.
 *
 * What it answers by itself: pages (whole files), `/api/state` (the newest state), `/api/stream` (samples as
 * server-sent events), `/healthz`. Everything else below `/api/`, and `/metrics`, goes to the program: it takes
 * requests (`next`) and answers them (`answer`). Calls, the requests below `/api/call/`, are taken apart from the
 * others, and `call_waits` notifies the program of each. Every request passes the guard (guard.h) first.
 *
 * A stream is a cursor into a ring of samples, not a queue: one piece is in flight for each, and a reader that is too
 * slow falls out of the ring and gets `event: gap`. So nothing grows with readers.
 *
 * Any thread of the program calls the functions, `close` as the last one; bytes are copied. Codes are TIDE_E...
 */
#ifndef TIDE_HTTP_H
#define TIDE_HTTP_H

#include "http/guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_http;

enum {
    TIDE_HTTP_CONNECTIONS = 64,
    TIDE_HTTP_STRANGERS = 32, /* connections of other users of this machine, of all those */
    TIDE_HTTP_STREAMS = 32,
    TIDE_HTTP_WAITING = 32, /* requests that the program has not answered */
    TIDE_HTTP_PAGES = 8,
    TIDE_HTTP_TOKENS = 256, /* of persons, the owner's besides */
    TIDE_HTTP_SERVED_AS = 255,
    TIDE_HTTP_SAMPLES = 600,          /* in the ring */
    TIDE_HTTP_RING_BYTES = 4 << 20,   /* of all its samples */
    TIDE_HTTP_STATE_BYTES = 16 << 20, /* of a state; more is refused */
    TIDE_HTTP_HEAD_MS = 5000,         /* from a connection to the end of its request's head */
    TIDE_HTTP_IDLE_MS = 15000,        /* from an answer to the next head */
    TIDE_HTTP_STALLED_S = 10          /* a connection on which nothing moves */
};

struct tide_http_options {
    const char *address;           /* numeric, only with `certificate`; NULL: 127.0.0.1 */
    uint16_t port;                 /* 0: any */
    const char *token;             /* of the owner, who has the right admin: 64 hexadecimal digits */
    const char *certificate, *key; /* PEM texts: serves over TLS; NULL: plain */
    const char *authority;         /* PEM text: certificates by it, of `cluster`, count as tokens; or NULL */
    const char *cluster;
    const char *served_as; /* origin under which a proxy serves it, at most TIDE_HTTP_SERVED_AS bytes; or NULL */
    void (*call_waits)(void *arg); /* on the library's thread, without a lock; may be NULL */
    void *arg;
};

/* A request that the program answers. Valid until it is. */
struct tide_http_request {
    uint64_t id;
    const char *method, *target;
    struct tide_http_person person;
    const char *type, *accept; /* of the headers Content-Type and Accept, cut to 63 bytes */
    const char *body;
    size_t target_size, body_size;
};

struct tide_http_stats {
    uint64_t connections, streams, requests, refused, samples, ring_bytes, gaps;
};

/* The one symbol of the plugin. `version` comes first and never moves. */
struct tide_http_plugin {
    const char *version; /* TIDE_VERSION of its build */
    /* EBUSY: the port is taken. `reason`: why it failed, for people. */
    int (*open)(const struct tide_http_options *options, struct tide_http **out, char *reason, size_t capacity);
    uint16_t (*port)(const struct tide_http *http);
    /* A file that `path` answers, without a token. Before the address is published. */
    int (*page)(struct tide_http *http, const char *path, const char *type, const void *data, size_t size);
    /* A new sample for the ring and the state of now, both JSON without line ends. ELIMIT: too large. */
    int (*publish)(struct tide_http *http, const char *sample, size_t sample_size, const char *state,
                   size_t state_size);
    /* The tokens of persons from now on, and serial numbers of certificates that count no more, one at the beginning of
     * a line; NULL: none. ELIMIT: more than TIDE_HTTP_TOKENS. */
    int (*people)(struct tide_http *http, const struct tide_http_token *tokens, size_t count, const char *revoked);
    /* The oldest request that waits, a call or another one: 1; 0: none came within `timeout_ms`. */
    int (*next)(struct tide_http *http, unsigned timeout_ms, bool call, struct tide_http_request *out);
    /* `retry_after_s` 0: no header Retry-After. ENOENT: the connection of the request is gone. */
    int (*answer)(struct tide_http *http, uint64_t id, unsigned status, const char *type, const void *data, size_t size,
                  unsigned retry_after_s);
    /* Answers all calls that wait with 503: nothing else will answer them. */
    void (*abandon_calls)(struct tide_http *http);
    void (*stats)(struct tide_http *http, struct tide_http_stats *out);
    void (*close)(struct tide_http *http);
};
#define TIDE_HTTP_PLUGIN_SYMBOL "tide_http_plugin"

#endif
