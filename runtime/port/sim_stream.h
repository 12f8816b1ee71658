/* Private to the simulator's streams: sim_stream.c, sim_bulk.c (those that carry much). */
#ifndef TIDE_PORT_SIM_STREAM_H
#define TIDE_PORT_SIM_STREAM_H

#include "port/sim.h"

struct sim_segment {
    struct sim_segment *next;
    struct sim_segment *behind;    /* in the queue of the core or of the receiver's card */
    uint64_t first, last, latency; /* when its ends arrive at the destination */
    size_t size, offset;
    bool end;   /* the peer has closed; carries no bytes */
    bool small; /* has room for SEGMENT_SMALL bytes */
    uint8_t data[];
};

struct sim_queue {
    struct sim_segment *first, *last;
};

/* What every segment touches comes first: the streams of a thousand nodes do not stay in a cache. */
struct tide_stream {
    struct tide_executor *executor;
    const struct tide_stream_events *events;
    void *arg;
    struct tide_stream *peer;          /* NULL: not connected, or freed */
    struct sim_node *peer_node;        /* known once connected */
    struct sim_segment *first, **last; /* towards us */
    bool connected, reading, want_write;
    bool read_scheduled, writable_scheduled;
    bool finished, delivered;
    bool broken;          /* by a reset: what is written goes nowhere, what was cut off still arrives */
    bool orphan;          /* of a crashed node: its owner may still hold it, so it stays until the world ends
                           */
    unsigned events_open; /* in the heap */
    uint32_t journey;     /* of segments to the core and the card; events of older ones are void */
    size_t queued_bytes;
    size_t arrived; /* segments at the front that are here */
    size_t on_way;  /* segments behind them */
    uint64_t last_arrival;
    struct sim_queue at_core, at_card; /* what is in flight to it: one event each */
    struct tide_random random;
    struct sim_bulk *bulk; /* NULL: there never was one */
    uint64_t departed;     /* when what was sent last has left the sender's card */
    size_t burst;          /* bytes sent since the sender's card last had none of it */
    size_t held;           /* arrivals that a partition keeps back */
    char *target;          /* endpoint of a connection in the making */
    uint64_t began;
    int reason;
    struct tide_stream *next, **link; /* all of the world; link: what points to this one */
};

/* What a stream carries as a flow: the segments from `head` on have not left yet, all others have.
 */
struct sim_bulk {
    struct fabric_flow flow;
    struct tide_stream *stream;
    struct sim_segment *head; /* NULL: nothing, and no flow */
    double left;              /* bytes of head, at `since` */
    uint64_t since;
    uint32_t generation; /* of the event that counts */
    bool flows;          /* else it waits until what was sent before is in */
    bool due;            /* it has left, but is not in */
};

void tide__sim_stream_push(struct tide_stream *stream, uint64_t time, enum sim_kind kind, uint32_t generation);
/* The last segment of `stream` is new. True: it goes with a flow, which reports its arrival. */
bool tide__sim_bulk_takes(struct tide_stream *stream, struct sim_segment *segment);
/* Nothing of the stream is in flight to the core or the card any more. */
void tide__sim_bulk_ready(struct tide_stream *stream);
void tide__sim_bulk_event(struct tide_stream *stream, const struct sim_event *event);
/* No flow any more; what has not left does not matter. */
void tide__sim_bulk_stop(struct tide_stream *stream);
/* What has not left leaves at once, without regard to the network. */
void tide__sim_bulk_flush(struct tide_stream *stream);

#endif
