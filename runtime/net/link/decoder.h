/*
 * From received bytes to frames, in place. Pure: knows no socket, so that tests and fuzzers feed it
 * directly.
 *
 * Bytes land in a chunk of 256 KiB (1 KiB before hello) that is shared with the messages parsed
 * inside it. The rest of a frame that does not fit the chunk goes into one of exactly its size; the
 * pieces of a fragmented frame go straight to their place in one blob. So a payload is copied at
 * most once, and mostly never, after the kernel.
 */
#ifndef TIDE_NET_DECODER_H
#define TIDE_NET_DECODER_H

#include "actor/actor.h"

enum { TIDE_INTAKE_CHUNK = 256 << 10 };

struct tide_assembly {
    struct tide_blob *blob; /* NULL: no fragmented frame is pending in this lane */
    uint64_t stream;
    size_t filled, whole; /* bytes there; of them, in fragments that are there to their end */
};

struct tide_decoder {
    struct tide_blob *chunk;  /* NULL: nothing is there that is not parsed */
    struct tide_blob **spare; /* where an unused chunk may lie, shared by a node's links; NULL: nowhere */
    size_t start, end;        /* bytes of the chunk that are not parsed yet */
    bool greeting;            /* before hello_ok: frames of up to 1 KiB, no fragments */
    int direct_lane;          /* a fragment's body is being received into lanes[...].blob; -1: no */
    size_t direct_left;
    struct tide_assembly lanes[TIDE_LANE_COUNT];
    uint64_t sequenced; /* frames and fragments received whole that count in the session */
};

/* One whole frame; owner holds frame->body. Not zero: stop, it is the result of
 * tide__decoder_received. */
typedef int (*tide_decoder_frame)(void *arg, const struct tide_frame *frame, struct tide_blob *owner);

void tide__decoder_init(struct tide_decoder *decoder, struct tide_blob **spare);
void tide__decoder_deinit(struct tide_decoder *decoder);
/* The connection is gone: moves what of fragmented frames is there whole to `lanes` (uninitialised)
 * and forgets the rest. */
void tide__decoder_suspend(struct tide_decoder *decoder, struct tide_assembly lanes[TIDE_LANE_COUNT]);
/* Another connection continues after frame `sequenced`; moves `lanes` back. */
void tide__decoder_resume(struct tide_decoder *decoder, struct tide_assembly lanes[TIDE_LANE_COUNT],
                          uint64_t sequenced);
void tide__assembly_drop(struct tide_assembly lanes[TIDE_LANE_COUNT]);
/* Where the next bytes go. ENOMEM. */
int tide__decoder_buffer(struct tide_decoder *decoder, void **data, size_t *size);
/* So many bytes are there now. 0, or why the stream cannot be trusted any more (text in the error
 * slot). */
int tide__decoder_received(struct tide_decoder *decoder, size_t size, tide_decoder_frame frame, void *arg);

#endif
