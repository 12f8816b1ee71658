/*
 * What waits to be written to one peer, and in which order it goes.
 *
 * One queue a lane. A *batch* is what one gather takes out of them: a list of iovecs of about one
 * fragment's size; the next batch is gathered when the last one is written completely, so that a
 * system frame that arrives meanwhile waits for at most one fragment. Pure: knows no socket.
 */
#ifndef TIDE_NET_OUTBOX_H
#define TIDE_NET_OUTBOX_H

#include "actor/actor.h"

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

struct tide_outbox_lane {
    struct tide_outgoing *head, *tail;
    size_t sent;     /* bytes of the head message that are in fragments already; 0: not begun */
    uint64_t stream; /* number of those fragments */
    int64_t deficit;
};

struct tide_outbox {
    struct tide_own_frame *own, **own_tail;
    struct tide_outbox_lane lanes[TIDE_LANE_COUNT];
    uint64_t queued_bytes; /* bodies in the lanes */
    uint64_t streams;
    unsigned turn; /* lane whose round it is */
    /* the batch */
    struct tide_iovec vectors[TIDE_OUTBOX_VECTORS];
    size_t vector_count, vector_at, batch_bytes;
    size_t arena_used;
    uint8_t *arena;
    struct tide_outgoing *held; /* gathered; freed when the batch is written */
    struct tide_own_frame *held_own;
    uint64_t frames; /* gathered, for statistics */
};

void tide__outbox_init(struct tide_outbox *box);
/* Frees what is queued; `fail`, if not NULL, sees each message that was not yet gathered whole. */
void tide__outbox_clear(struct tide_outbox *box,
                        void (*fail)(void *arg, const struct tide_outgoing *), void *arg);
/* *takes* message. Its body must be within tide__frame_limit. */
void tide__outbox_push(struct tide_outbox *box, struct tide_outgoing *message);
/* Copies body into a frame of the link's own. ENOMEM. */
int tide__outbox_push_own(struct tide_outbox *box, const struct tide_frame *frame, const void *body,
                          size_t size);
/* Nothing queued and nothing of a batch left. */
bool tide__outbox_empty(const struct tide_outbox *box);
/* Gathers the next batch if the last is written; returns whether there is anything to write.
 * ENOMEM: negative. */
int tide__outbox_gather(struct tide_outbox *box);
const struct tide_iovec *tide__outbox_vectors(const struct tide_outbox *box, size_t *count);
void tide__outbox_written(struct tide_outbox *box, size_t bytes);

/* Largest body that may travel in a lane, however it is cut. */
static inline size_t tide__frame_limit(unsigned lane) {
    return lane == TIDE_LANE_ANSWER || lane == TIDE_LANE_STORE || lane == TIDE_LANE_BULK
               ? (size_t)64 << 20
           : lane == TIDE_LANE_CONTROL ? TIDE_FRAME_MAX
                                       : TIDE_OUTBOX_UNIT - TIDE_FRAME_HEAD;
}

#endif
