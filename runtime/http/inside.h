/* What the files of the plugin share: the server, its ring of samples, its requests. */
#ifndef TIDE_HTTP_INSIDE_H
#define TIDE_HTTP_INSIDE_H

#include "http/guard.h"
#include "http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>

/* A piece of a stream, shared by the ring and by the streams that are sending it. */
struct piece {
    size_t holders; /* under the server's lock */
    uint64_t number;
    size_t size, data, data_size; /* of text; of the JSON in it */
    char text[];
};

struct page {
    char path[64], type[64];
    struct MHD_Response *response;
};

/* A connection that has not sent its request yet, or has been answered: it has until `deadline`. */
struct connection {
    struct connection *next, *previous;
    int socket;
    uint64_t deadline; /* ms; UINT64_MAX: a request is pending */
    bool stranger;     /* of another user */
};

struct stream {
    struct stream *next, *previous;
    struct tide_http *http;
    struct MHD_Connection *connection;
    struct piece *piece; /* in flight */
    size_t sent;         /* bytes of it */
    uint64_t number;     /* of the last sample taken */
    uint64_t state;      /* version of the last state taken */
    uint64_t judged;     /* the newest sample when its request was judged last: a token may end meanwhile */
    bool asleep;         /* suspended until there are samples */
};

/* From the first byte of a request to the end of its answer. */
struct request {
    struct request *next; /* waiting for the program */
    struct MHD_Connection *connection;
    struct connection *owner;
    uint64_t id;
    char *target;
    size_t target_size;
    char method[8], type[64], accept[64];
    struct tide_http_person person;
    char *body;
    size_t body_size;
    bool judged, overflow, taken, waits; /* waits: suspended, in the list */
    bool call;                           /* below /api/call/ */
    struct MHD_Response *answer;
    unsigned status;
};

struct tide_http {
    struct MHD_Daemon *daemon;
    uint16_t port;
    void (*call_waits)(void *arg);
    void *arg;

    pthread_mutex_t lock; /* of everything below: the program adds pages while the library's thread serves */
    struct page pages[TIDE_HTTP_PAGES];
    size_t page_count;
    const char *open[TIDE_HTTP_PAGES + 2];
    char host[64], host_name[32], served_as[TIDE_HTTP_SERVED_AS + 1];
    struct tide_http_token tokens[TIDE_HTTP_TOKENS + 1]; /* the owner's first */
    size_t token_count;
    char *revoked;       /* NULL: nothing is */
    char cluster[64];    /* whose certificates count; "": none do */
    bool secure, far;    /* far: on an address of other machines, where every peer is unknown */
    pthread_cond_t news; /* a request waits */
    bool closing;
    struct piece *ring[TIDE_HTTP_SAMPLES]; /* by number modulo its length */
    uint64_t first, last;                  /* numbers in the ring; last < first: empty */
    size_t ring_bytes;
    struct piece *state; /* number: its version */
    struct stream *streams;
    struct connection *connections;
    struct request *waiting, **waiting_end;
    size_t stream_count, waiting_count;
    size_t strangers;    /* connections of other users */
    bool stranger_comes; /* the connection that is being accepted is one of them */
    uint64_t request_id;
    uint64_t wrong_since, wrong_until, wrong_delay; /* of tokens, ms */
    unsigned wrong;
    struct tide_http_stats stats;
};

uint64_t tide__http_now(void); /* ms, monotonic */

/* ---- server.c ---- */
/* The guard's status of a request, with the headers of its connection, as of now, and who it is from. Under the lock,
 * on the library's thread. */
int tide__http_judge(struct tide_http *http, struct MHD_Connection *connection, const struct tide_http_head *request,
                     struct tide_http_person *who, const char **why);

/* ---- certificate.c ---- */
/* Who the certificate of a connection is for, if the authority made it for this cluster and it is valid now. Under the
 * lock. */
bool tide__http_certificate(struct tide_http *http, struct MHD_Connection *connection, struct tide_http_person *out);
/* When a certificate is not valid any more, seconds since 1970; negative: the text is none. */
int64_t tide__http_valid_until(const char *pem);

/* ---- stream.c ---- */
/* A stream: samples after `after`. NULL: there are too many. Under the lock. */
struct MHD_Response *tide__http_stream(struct tide_http *http, struct MHD_Connection *connection, uint64_t after);
void tide__http_wake(struct tide_http *http); /* all streams; under the lock */
void tide__http_drop(struct piece *piece);    /* under the lock */
int tide__http_publish(struct tide_http *http, const char *sample, size_t sample_size, const char *state,
                       size_t state_size);

#endif
