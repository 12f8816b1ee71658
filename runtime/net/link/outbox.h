/*
 * What waits to be written to one peer, in which order it goes, and what was written but may have
 * to be written again.
 *
 * One queue a lane. A *batch* is what one gather takes out of them: a list of iovecs of about one
 * fragment's size; the next batch is gathered when the last one is written completely, so that a
 * system frame that arrives meanwhile waits for at most one fragment.
 *
 * A batch is kept until the peer has acknowledged all its frames: small bodies as a copy of the
 * bytes written, large ones as the messages themselves. The kept batches are the *ring*; when it is
 * full nothing more is gathered from the lanes until acknowledgements come. Frames are numbered
 * from 1 in the order they are gathered; the number is nowhere on the wire. The link's own frames
 * have none and are not kept. Pure: knows no socket.
 */
#ifndef TIDE_NET_OUTBOX_H
#define TIDE_NET_OUTBOX_H

#include "actor/actor.h"
#include "base/limits.h"

enum {
    TIDE_OUTBOX_UNIT = 256 << 10, /* largest frame on the wire; what is larger goes in fragments */
    TIDE_OUTBOX_VECTORS = 128,
    TIDE_OUTBOX_ARENA = 64 << 10, /* heads and small bodies of a batch */
    TIDE_OUTBOX_SMALL = 512,      /* bodies up to this are copied beside their head */
};

/* A frame of the link itself (hello, heartbeat, credit, membership): encoded whole, ahead of
 * everything else. */
struct tide_own_frame {
    struct tide_own_frame *next;
    size_t size;
    uint8_t bytes[];
};

/* Frames in the order they went out, one after the other in `vectors`, the first of which begins
 * with the head of the first frame. Heads are contiguous. */
struct tide_sent_batch {
    struct tide_sent_batch *next;
    size_t frames, bytes;
    struct tide_outgoing *held; /* what vectors refer to that is not behind them */
    size_t vector_at, vector_count;
    struct tide_iovec vectors[];
};

struct tide_outbox_lane {
    struct tide_outgoing *head, *tail;
    size_t sent;     /* bytes of the head message that are in fragments already; 0: not begun */
    uint64_t stream; /* number of those fragments */
    int64_t deficit;
};

/* Of a batch that is being written. Idle boxes have none; those of a node hand one on. */
struct tide_outbox_room {
    struct tide_iovec vectors[2 * TIDE_OUTBOX_VECTORS];
    uint8_t arena[TIDE_OUTBOX_ARENA];
};

struct tide_outbox {
    struct tide_own_frame *own, **own_tail;
    struct tide_outbox_lane lanes[TIDE_LANE_COUNT];
    uint64_t queued_bytes; /* bodies in the lanes */
    uint64_t streams;
    unsigned turn;     /* lane whose round it is */
    size_t open_bytes; /* of the frames that are in fragments now */
    /* the ring */
    struct tide_sent_batch *ring, **ring_tail;
    struct tide_sent_batch *again; /* the next of them to be written again; NULL: none */
    uint64_t sent, acked;          /* numbers of the last frame gathered, the last acknowledged */
    size_t ring_frames, ring_bytes;
    bool parting; /* the link is about to close: the ring has no limit any more */
    /* the batch: own frames, then either one of the ring or new ones */
    struct tide_outbox_room *room;   /* NULL: no batch */
    struct tide_outbox_room **spare; /* where an unused one may lie; NULL: nowhere */
    size_t vector_count, vector_at, batch_bytes;
    size_t own_vectors, own_arena, own_bytes; /* of them, the link's own frames */
    size_t batch_frames;
    size_t arena_used;
    struct tide_outgoing *held; /* gathered, not in the ring yet */
    struct tide_own_frame *held_own;
    uint64_t frames; /* gathered, for statistics */
};

/* spare: of the node, shared by its boxes, freed by its owner; or NULL. */
void tide__outbox_init(struct tide_outbox *box, struct tide_outbox_room **spare);
/* Frees what is queued; `fail`, if not NULL, sees each message that was not yet gathered whole. */
void tide__outbox_clear(struct tide_outbox *box, void (*fail)(void *arg, const struct tide_outgoing *), void *arg);
/* *takes* message. Its body must be within tide__frame_limit. */
void tide__outbox_push(struct tide_outbox *box, struct tide_outgoing *message);
/* Copies body into a frame of the link's own. ENOMEM. */
int tide__outbox_push_own(struct tide_outbox *box, const struct tide_frame *frame, const void *body, size_t size);
/* Nothing queued and nothing of a batch left. */
bool tide__outbox_empty(const struct tide_outbox *box);
/* Gathers the next batch if the last is written; returns whether there is anything to write.
 * ENOMEM: negative. */
int tide__outbox_gather(struct tide_outbox *box);
/* The peer has all frames up to this one. EPROTO: it cannot have. */
int tide__outbox_acked(struct tide_outbox *box, uint64_t frame);
/* The connection is gone: the link's own frames are forgotten, and so is how far the batch came. */
void tide__outbox_detach(struct tide_outbox *box);
/* Behind detach, for the next connection: what follows frame `received` is written again. EPROTO:
 * the ring does not hold it. */
int tide__outbox_rewind(struct tide_outbox *box, uint64_t received);
/* Moves the own frames of `from`, of which nothing is gathered yet, to the end of `box`'s. */
void tide__outbox_adopt(struct tide_outbox *box, struct tide_outbox *from);
const struct tide_iovec *tide__outbox_vectors(const struct tide_outbox *box, size_t *count);
void tide__outbox_written(struct tide_outbox *box, size_t bytes);

/* Frames that are in fragments at one time, over all lanes of a link. */
static inline size_t tide__open_limit(void) {
    return ((size_t)64 << 20) + TIDE_FRAME_HEAD;
}

/* Does the frame count in its session's sequence? The link's own frames do not. */
static inline bool tide__frame_sequenced(unsigned kind, unsigned lane, tide_address to) {
    return lane != TIDE_LANE_SYSTEM ||
           !(kind == TIDE_FRAME_CREDIT || kind == TIDE_FRAME_HEARTBEAT || kind == TIDE_FRAME_HELLO ||
             kind == TIDE_FRAME_HELLO_OK || (kind == TIDE_FRAME_CAST && tide_address_id(to) == TIDE_ID_MEMBERS));
}

/* Largest body that may travel in a lane, however it is cut. */
static inline size_t tide__frame_limit(unsigned lane) {
    return lane == TIDE_LANE_ANSWER || lane == TIDE_LANE_STORE || lane == TIDE_LANE_BULK ? (size_t)64 << 20
           : lane == TIDE_LANE_CONTROL                                                   ? TIDE_FRAME_MAX
                                       : TIDE_OUTBOX_UNIT - TIDE_FRAME_HEAD;
}

#endif
