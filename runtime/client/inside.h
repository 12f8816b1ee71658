/*
 * Private to the client library: one struct for the client, its connections, operations and their parts.
 *
 * Threads. Everything is under `lock`, except what a connection is while connect.c makes it. Callers write to sockets
 * themselves; the caller that waits longest reads for all (`reading`), others wait on `changed`. One library thread
 * beats, redials, and reads what no caller waits for every BEAT_NS. So an operation costs no switch of threads.
 *
 * An operation is cut into parts, one request each. A part is in `waiting` until a connection takes it, then in the
 * connection's queue until it is written, and in `calls` until it is answered. A part whose operation has ended is
 * freed when it is written.
 *
 *   connect.c   sockets, TLS and the handshake, up to a connection that serves
 *   frames.c    bytes in and out of a connection
 *   request.c   operations and their parts
 *   map.c       slot maps: which node a part goes to
 *   runs.c      runs of the cluster
 *   calls.c     tables, rows and actors: what callers ask for
 *   client.c    life, the library's thread, waiting
 */
#ifndef TIDE_CLIENT_INSIDE_H
#define TIDE_CLIENT_INSIDE_H

#include "net/members/view.h"
#include "net/tls/tls.h"
#include "tide/client.h"
#include "wire/rows.h"

#include <pthread.h>
#include <sys/types.h>

enum {
    CONNECTIONS_MAX = 16,
    MEMBERS_MAX = 256, /* members with name and endpoint */
    CALLS = 1024,      /* buckets of unanswered parts */
    PART_BYTES = 192 << 10,
    INPUT_BYTES = 256 << 10,
    ANSWER_MAX = 64 << 20, /* bytes of one answer in fragments */
    ACK_FRAMES = 64,
    ACK_BYTES = 256 << 10,
    TEXT_BYTES = 300,
    ENDPOINTS_BYTES = 1024,
    OWN_ACTOR = 1, /* id of the sender in its frames */
};
#define MS UINT64_C(1000000)
#define BEAT_NS (100 * MS)
#define SILENCE_NS (10 * TIDE_SECOND) /* a connection without any sign of life for so long is closed */
#define RETRY_NS (20 * MS)            /* a part that was refused with EBUSY is sent again */
#define REDIAL_MIN (100 * MS)
#define REDIAL_MAX (5 * TIDE_SECOND)

enum part_state { PART_WAITING, PART_QUEUED, PART_SENT, PART_DONE };

struct part {
    struct part *next;      /* in `waiting`, or in a connection's queue */
    struct part *next_call; /* in `calls` */
    struct tide_client_op *op;
    struct connection *connection; /* QUEUED, SENT */
    uint8_t state;
    bool tried;          /* bytes of it have left, to `node` in its life `incarnation` */
    bool direct;         /* as it last left: straight to the home of its keys */
    uint16_t home, node; /* home: of all its keys by the map; 0: not known, it goes by the gateway */
    uint64_t incarnation;
    uint64_t call, sequence, retry_at;
    size_t first, count; /* its keys, in the operation's order */
    size_t size, written;
    uint8_t frame[]; /* whole, `to`, `from` and sequences set when it leaves */
};

enum op_kind { OP_OPEN, OP_PULL, OP_PUSH, OP_LOCALIZE, OP_CALL, OP_MAP };

struct tide_client_op {
    struct tide_client *client;
    struct tide_client_op *next, **place; /* among all operations */
    struct tide_client_op *next_done;
    uint8_t kind, outcome;
    bool done, reported, blocking;
    int code;
    char *text;    /* of an error; NULL */
    char *refusal; /* reason of the node's last EBUSY, or NULL */
    uint32_t retry_after_ms;
    uint64_t deadline, to;           /* `to`: of calls; 0: rows of the gateway */
    struct tide_client_table *table; /* of rows */
    float *rows;
    uint32_t *order; /* places of keys, part by part; NULL: as they are */
    size_t width, bytes;
    size_t parts_left, part_count, applied;
    struct part **parts; /* NULL entries: freed */
    uint8_t *answer;
    size_t answer_size;
};

struct tide_client_table {
    struct tide_client_table *next;
    struct tide_client *client;
    char name[64], update[16];
    uint64_t id, key_count;
    unsigned width;
    bool stale; /* the cluster has none of this number any more */
    /* map.c */
    struct client_map *map; /* NULL: not known yet */
    bool map_wanted;
    uint64_t map_at; /* no request before that time */
};

struct connection {
    struct tide_client *client;
    int fd; /* negative: down */
    bool up, wanted, control;
    struct tide_tls *tls;
    struct tide_tls_session *session;
    char endpoint[160], name[64];
    uint16_t node, self; /* ids of both ends */
    uint64_t incarnation, attempt;
    uint64_t rows; /* address of the row service; 0: it has none */
    uint64_t received, told, bytes_since;
    uint64_t heard, beat_at, peer_sent, peer_sent_at;
    uint8_t *in;
    size_t in_start, in_end, in_size;
    struct part *queue, **queue_tail;
    uint8_t *own; /* beats and credit; written between two parts */
    size_t own_size, own_at, own_capacity;
    /* an answer that comes in fragments */
    uint8_t *fragments;
    size_t fragments_size, fragments_total;
};

struct waiter;
struct tide_client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct tide_port *port;
    /* set once */
    const uint8_t *here; /* 1; a page that a fork clears */
    pid_t opener;
    int wake;
    char cluster[64], endpoints[ENDPOINTS_BYTES], keys[300];
    unsigned right, outstanding_max;
    uint64_t connect_timeout, timeout, memory, uid;
    /* any thread */
    atomic_uint interrupts;
    /* under the lock */
    bool thread_runs, closing, reading;
    int closed; /* a code: no operation can succeed any more */
    char closed_text[TEXT_BYTES];
    int epoll, done_fd; /* negative: not requested */
    uint64_t incarnation;
    uint16_t id;
    unsigned granted; /* right */
    struct connection connections[CONNECTIONS_MAX];
    struct tide_member members[MEMBERS_MAX];
    size_t member_count;
    uint64_t view;
    struct tide_client_table *tables;
    struct tide_client_op *ops, *done_first, **done_tail;
    struct tide_client_op *spent; /* of the library's own, to be freed */
    bool maps_wanted;
    struct part *waiting, **waiting_tail;
    struct part *calls[CALLS];
    unsigned outstanding;
    struct waiter *waiting_threads; /* client.c */
    uint64_t bytes, attempts, next_call, next_sequence, low;
    bool sequence_done[TIDE__ROWS_WINDOW];
    uint64_t retry_at, redial_at, redial_delay, direct_at; /* direct_at: no link to a home is dialled before */
    uint64_t connects, resent, direct, redirected;
    struct tide_random random;
};

static inline uint64_t client_now(const struct tide_client *c) {
    return tide_port_now(c->port);
}

/* ---- connect.c: without the lock ---- */
/* Dials an endpoint: a joiner (id 0), or a client that has its id. Up to an answered hello and a found row service. The
 * connection is the caller's alone. 1: k->endpoint is the controller's, which is to be dialled instead. */
int client_dial(struct connection *k, const char *endpoint, bool joins, uint64_t deadline);
void client_hang_up(struct connection *k);

/* ---- frames.c: under the lock, or on a connection of the caller's ---- */
int connection_receive(struct connection *k); /* all that has arrived; negative: it is lost */
/* 1: the next whole frame that has arrived, in place until the next read; 0: none. */
int connection_next(struct connection *k, struct tide_frame *out);
int connection_flush(struct connection *k); /* as much as the socket takes */
bool connection_has_output(const struct connection *k);
int connection_own(struct connection *k, unsigned kind, uint64_t to, uint64_t call, const void *body, size_t size);
void connection_tick(struct connection *k, uint64_t now); /* beat and acknowledgement */
int connection_take_view(struct connection *k, const struct tide_frame *frame);

/* At the end of a pull and a push: is it direct? A push has its sequence and low mark before, each cf and 8 bytes. They
 * are set when the part leaves. */
enum { DIRECT_TAIL = 1, SEQUENCES_TAIL = 18 };

/* ---- request.c: without the lock ---- */
/* Its parts are the caller's to fill in. NULL: error slot set. */
struct tide_client_op *client_op_create(struct tide_client *c, enum op_kind kind, size_t parts);
struct tide_client_op *client_op_of(struct tide_client *c, enum op_kind kind,
                                    const struct tide_writer *body); /* one part */
void client_op_destroy(struct tide_client_op *op);                   /* one that was not started */
/* *Takes* it. Waits if `out` is NULL. */
int client_op_start(struct tide_client_op *op, uint64_t timeout, struct tide_client_op **out);

/* ---- request.c: under the lock ---- */
void client_op_start_own(struct tide_client_op *op, uint64_t deadline); /* the library's: has no place, frees itself */
void client_answered(struct connection *k, const struct tide_frame *frame);
void client_dispatch(struct tide_client *c); /* waiting parts to connections */
void client_flush(struct tide_client *c);    /* what the sockets take */
void client_lost(struct connection *k, const char *why);
void client_expire(struct tide_client *c, uint64_t now);
void client_end_all(struct tide_client *c, int code, const char *text);
void client_free_all(struct tide_client *c); /* at the end: operations that their owners did not free */
void part_written(struct part *p);           /* the whole frame is with the socket */

/* ---- map.c ---- */
struct client_piece {
    uint16_t home; /* 0: of the gateway */
    size_t first, count;
};
struct client_cut {
    size_t count;                /* of pieces, at least 1 */
    uint16_t only;               /* home of all keys; 0: the gateway */
    struct client_piece *pieces; /* NULL: in the order of the keys, each as large as may be */
    uint32_t *order;             /* NULL: the order of the keys */
};
/* Cuts keys into pieces of up to `each`, by their homes in the map. Without the lock. */
int client_cut(struct tide_client_table *t, enum op_kind kind, const uint64_t *keys, size_t count, size_t each,
               struct client_cut *out);
struct client_piece client_piece_at(const struct client_cut *cut, size_t i, size_t count, size_t each);
void client_cut_release(struct client_cut *cut);
/* Under the lock. */
void client_map_want(struct tide_client_table *t); /* it may have changed */
void client_maps_ask(struct tide_client *c);
int client_map_take(struct tide_client_table *t, const void *data, size_t size);
void client_map_release(struct client_map *map);

/* ---- client.c ---- */
int client_check(const struct tide_client *c); /* ECLOSED in a child */
/* Reads, writes and waits until done(arg), under the lock. ETIMEDOUT, ECANCELED. */
int client_wait_until(struct tide_client *c, uint64_t deadline, bool (*done)(void *arg), void *arg);
void client_wake(struct tide_client *c); /* the library's thread looks */
void client_finished(struct tide_client_op *op);
/* The connection that serves rows; NULL: none at the moment. */
struct connection *client_gateway(struct tide_client *c);
struct connection *client_connection_to(struct tide_client *c, uint16_t node, bool want);
struct connection *client_home(struct tide_client *c, uint16_t node); /* that serves rows; NULL: not at the moment */
/* Is a node in this life a member? */
bool client_has_member(const struct tide_client *c, uint16_t node, uint64_t incarnation);

#endif
