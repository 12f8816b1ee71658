/* What the files of the exchange share.
 *
 * Threads: the worker's fiber calls the public functions, the actor's fibers do the rest. Gradients
 * and factors of a layer are the worker's until it posts READY, the actor's until it stores
 * done[layer], then the worker's again. */
#ifndef TIDE_EXCHANGE_INTERNAL_H
#define TIDE_EXCHANGE_INTERNAL_H

#include "actor/actor.h"
#include "exchange/exchange.h"
#include "exchange/send_window.h"

enum message_kind { PUSH, SUM, REDUCE, GATHER, FACTOR, SHARE, STATE, READY, CONNECT, CLOSE, KIND_COUNT };

/* A message between workers, as it was read and bounded by itself; not yet compared with the layers
 * here. */
struct incoming {
    uint8_t kind, format, fanout;
    uint32_t view, rank, layer, index;
    uint64_t step; /* STATE: the last one whose sums are complete there */
    size_t k_count;
    uint32_t k[16];
    const void *values; /* unaligned */
    size_t size;        /* their bytes */
    double sums[TIDE_EXCHANGE_SUMS];
    bool proposes;
    uint64_t epoch;
    const uint8_t *paths, *formats, *fanouts; /* plan_count each */
    size_t plan_count;
    /* STATE */
    const uint8_t *dead;       /* by rank */
    size_t dead_count;         /* of ranks, living ones too */
    struct tide_reader done;   /* of each layer: step, view */
    size_t done_count;         /* of layers */
    struct tide_reader shares; /* of all ranks in `step`, if it is not 0 */
    size_t share_count;        /* numbers */
    uint32_t share_view;
};
enum { MATRICES_MAX = (int)TIDE_COUNT(((struct incoming *)0)->k) };
/* EPROTO: not a message of ours. Points into the bytes. */
int tide__exchange_parse(const void *data, size_t size, struct incoming *out);

struct part {     /* a chunk of a dense layer in one step */
    float **from; /* by rank: what came and waits for its turn in the sum */
    float *sum;   /* of the ranks before `next` */
    uint32_t next;
};

struct factors { /* a layer's, of one rank in one step: of each matrix A then B, then the rest */
    float *values;
    size_t room, total, got;
    uint32_t k[MATRICES_MAX];
    bool begun;
};

struct staged { /* what the worker hands over of a matrix in one step: A, then B */
    float *values;
    size_t room, k;
};

struct round {     /* a layer in one step */
    uint64_t step; /* 0: none yet */
    bool ready, done;
    uint8_t path, format, fanout;
    uint32_t view;           /* whose members its sum is over */
    uint32_t holder;         /* rank + 1 of the worker that has the sum and sends it, after a death; else 0 */
    size_t landed;           /* chunks, or ranks of factors */
    struct part *parts;      /* by chunk */
    struct factors *factors; /* by rank, but the own */
};

struct layer {
    size_t first, count, rest, chunk_count;
    size_t matrix_count;
    struct tide_exchange_matrix *matrices;
    struct round rounds[2];    /* by parity: a peer is at most one step ahead */
    struct staged *staged;     /* by matrix; the worker's */
    struct factors own[2];     /* by parity; filled by the worker before READY */
    uint8_t path[2];           /* by parity; the worker's */
    uint64_t taken;            /* step for which `need` has returned; the worker's */
    float *kept;               /* count: what lossy formats took off the own gradients, or NULL */
    bool keeps;                /* some of it is not 0 */
    float **sums_kept;         /* by chunk of the own ones: off their sums; NULL: none yet */
    uint64_t ready_at;         /* written by the worker before READY */
    atomic_uint_fast64_t done; /* step */
    atomic_uint_fast64_t took_ns;
};

struct entry {           /* of a peer's queue */
    uint64_t key, order; /* lower first; order: as they came */
    uint64_t step;
    uint32_t layer, index;
    uint32_t rank; /* source of factors */
    uint8_t kind, format, path, fanout;
    struct tide_blob *blob; /* shared; NULL: the chunk of the gradients as it is when its turn comes */
    size_t count;
};

struct standing {   /* what a worker announced at the notification of a death */
    uint32_t view;  /* 0: nothing yet */
    uint64_t step;  /* whose sums it has of all */
    uint64_t *done; /* by layer: the newest step whose sum it has */
    uint32_t *of;   /* by layer: over the members of this view */
};

struct peer {
    struct tide_exchange *x;
    tide_address address;
    uint32_t rank;
    atomic_uint died; /* the first view that it is no member of; ALIVE. Read by the worker, to whom it
                         makes no difference when that changes: of what it asks, views are older */
    bool dead;        /* known to be, but perhaps not agreed upon */
    bool left;        /* it ended in order: nothing of it is missing */
    struct standing standing;
    struct entry *heap;
    size_t count, room;
    struct tide__send_window window;
    struct tide_fiber *sender; /* NULL: it has ended */
    bool waits;
};

#define ALIVE UINT32_MAX

struct sums { /* what a step's workers share */
    uint64_t step;
    uint32_t view; /* whose members they are of */
    uint32_t got;
    bool said;       /* the own ones are there */
    bool *by;        /* by rank: there */
    double *by_rank; /* workers x TIDE_EXCHANGE_SUMS */
    bool proposed;
    struct tide_exchange_plan plan;
};

struct tide_exchange {
    atomic_uint refs;
    struct tide_node *node;
    struct tide_port *port;
    tide_address address;
    uint32_t rank, workers;
    size_t under_way, link_most; /* bytes, all links together and each one, at most */
    size_t piece;                /* values of a message, at most; the same on all workers */
    size_t elements, layer_count;
    struct layer *layers;
    float *gradients, *sums; /* elements each: the own ones, and what they add up to */
    /* worker */
    struct tide_exchange_plan plan, agreed;
    /* actor */
    struct peer *peers;
    struct sums shared[2];
    uint32_t view;            /* how many have died, as far as is known */
    uint32_t *members, *seat; /* of the view that holds: ranks in order; by rank: its place there */
    uint32_t member_count;
    bool frozen; /* the view does not hold yet: messages wait */
    const struct tide_message **waiting;
    size_t waiting_count, waiting_room;
    uint64_t orders;
    bool connected, closing;
    unsigned senders;
    struct tide_fiber *main;
    size_t away; /* layers that have left and not come back */
    uint64_t busy_since;
    /* any thread */
    atomic_uint_fast64_t shared_done;  /* step */
    atomic_uint_fast64_t queued, gone; /* entries for peers; of which sent or dropped */
    _Atomic(struct tide_fiber *) waiter;
    atomic_int failed;     /* code; the text was written before */
    struct tide_lock lock; /* of failure */
    char failure[300];
    atomic_uint_fast64_t messages, bytes, busy_ns, waited, skew, payload[TIDE_PATH_COUNT];
};

/* Bytes of a value in a format whose values all have as many. */
static inline size_t tide__exchange_width(uint8_t format) {
    return format == TIDE_WIRE_F32 ? 4 : 2;
}
/* Place of a rank, or rank of a place, in the tree by which the factors of `source` go in a step;
 * place 0 is the source, the others change with the step. Below place i are
 * i * fanout + 1 .. (i + 1) * fanout. */
static inline uint32_t tide__exchange_place(const struct tide_exchange *x, uint32_t source, uint64_t step,
                                            uint32_t rank) {
    uint32_t count = x->member_count, others = count - 1;
    uint32_t turn = (uint32_t)(step % (others ? others : 1));
    uint32_t away = (x->seat[rank] + count - x->seat[source] - 1) % count;
    return rank == source ? 0 : 1 + (away + others - turn) % others;
}
static inline uint32_t tide__exchange_rank(const struct tide_exchange *x, uint32_t source, uint64_t step,
                                           uint32_t place) {
    uint32_t count = x->member_count, others = count - 1;
    return place == 0 ? source : x->members[(x->seat[source] + 1 + (uint32_t)((place - 1 + step) % others)) % count];
}

/* Whether the sums of a view have a rank's part. */
static inline bool tide__exchange_in(const struct tide_exchange *x, uint32_t rank, uint32_t view) {
    return atomic_load_explicit(&x->peers[rank].died, memory_order_relaxed) > view;
}
static inline uint32_t tide__exchange_owner(const struct tide_exchange *x, size_t layer, size_t chunk) {
    return x->members[(layer + chunk) % x->member_count];
}
/* Chunk c of a layer: *first within the layer. */
static inline size_t tide__exchange_chunk(const struct layer *l, size_t c, size_t *first) {
    *first = l->count * c / l->chunk_count;
    return l->count * (c + 1) / l->chunk_count - *first;
}
static inline size_t tide__exchange_factor_total(const struct layer *l, const uint32_t *k) {
    size_t total = l->rest;
    for (size_t i = 0; i < l->matrix_count; i++) {
        total += (size_t)k[i] * (l->matrices[i].rows + l->matrices[i].columns);
    }
    return total;
}

/* ---- exchange.c ---- */
void tide__exchange_fail(struct tide_exchange *x, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tide__exchange_wake(struct tide_exchange *x); /* the worker, if it waits */

/* ---- flow.c: the actor ---- */
int tide__exchange_run(void *state);
/* Forgets what came of a layer's sum; what the own worker said of it stays. */
void tide__exchange_reset(struct tide_exchange *x, struct layer *l, struct round *round);
/* Sends what the sum needs from here, the worker having said that it is ready. */
int tide__exchange_contribute(struct tide_exchange *x, uint32_t layer, struct round *round);
/* Takes in a message. LATER: it must wait until a view holds. */
enum { LATER = 1 };
int tide__exchange_take(struct tide_exchange *x, const struct tide_message *message);

/* ---- share.c: sums of a step ---- */
int tide__exchange_worker_share(struct tide_exchange *x, const struct incoming *m);
/* The plan of the next step, if the message has one. */
void tide__exchange_take_plan(struct sums *s, const struct incoming *m);
int tide__exchange_take_share(struct tide_exchange *x, const struct incoming *m);
/* Sends all members the own numbers of a step. */
int tide__exchange_tell_share(struct tide_exchange *x, const struct sums *s);
void tide__exchange_write_plan(struct tide_writer *w, const struct tide_exchange *x, const struct sums *s);
bool tide__exchange_share_is_whole(const struct tide_exchange *x, const struct sums *s);
/* Sends to a worker, unless it is gone. */
int tide__exchange_tell(struct tide_exchange *x, uint32_t rank, const struct tide_writer *w);

/* ---- view.c: the participants ---- */
/* Members of the view that holds: all that are not dead. */
void tide__exchange_set_members(struct tide_exchange *x);
/* What this worker kept of sums of chunks that are another's now becomes part of its own gradients. */
int tide__exchange_hand_kept(struct tide_exchange *x, uint32_t layer);
int tide__exchange_take_exit(struct tide_exchange *x, const struct tide_message *m);
int tide__exchange_take_state(struct tide_exchange *x, const struct incoming *m);
/* *takes* the message, also when it fails. */
int tide__exchange_put_off(struct tide_exchange *x, const struct tide_message *m);
int tide__exchange_take_waiting(struct tide_exchange *x);

/* ---- queue.c ---- */
/* *takes* the entry's blob, also when it fails. */
int tide__exchange_queue(struct tide_exchange *x, uint32_t to, struct entry entry);
struct entry tide__exchange_pop(struct peer *peer); /* the next to leave; there must be one */
int tide__exchange_start_senders(struct tide_exchange *x);
void tide__exchange_end_senders(struct tide_exchange *x); /* notifies them; they end when their queues are empty */
void tide__exchange_drop(struct peer *peer);
void tide__exchange_end_sender(struct peer *peer);

/* ---- codec.c ---- */
size_t tide__exchange_size(size_t count, uint8_t format); /* bytes of values on the wire */
/* Bytes of tide__exchange_size; of lossy formats ENOMEM. */
int tide__exchange_encode(const float *from, void *to, size_t count, uint8_t format);
/* EPROTO: places out of order or beyond count. */
int tide__exchange_decode(const void *from, float *to, size_t count, uint8_t format);
struct tide_blob *tide__exchange_blob(const float *from, size_t count, uint8_t format);
/* Head of the message of an entry; the values follow as its tail. */
void tide__exchange_head(struct tide_writer *w, const struct tide_exchange *x, const struct entry *e);

/* Values of a message of factors, which begins at `got` of `total`. */
static inline size_t tide__exchange_piece(const struct tide_exchange *x, size_t got, size_t total) {
    return total - got < x->piece ? total - got : x->piece;
}

/* ---- compress.c ---- */
size_t tide__compressed_size(size_t count, uint8_t format);
int tide__compress(const float *from, uint8_t *to, size_t count, uint8_t format);   /* ENOMEM */
int tide__expand(const uint8_t *from, float *to, size_t count, uint8_t format);     /* EPROTO */
struct tide_blob *tide__sparse_blob(const float *from, size_t count);               /* ENOMEM: NULL */
int tide__sparse_expand(const uint8_t *from, size_t size, float *to, size_t count); /* EPROTO */
/* The values as they travel, with what was kept of earlier ones added, and what this loses kept:
 * `kept` has count elements. ENOMEM: NULL. */
struct tide_blob *tide__exchange_blob_keeping(const float *from, float *kept, size_t count, uint8_t format);

#endif
