/*
 * The outbox of a link: coalescing, scheduling between lanes, fragments.
 *
 * Order: the link's own frames, then the system lane, then deficit round robin 8 : 8 : 2 : 1 over
 * answer, store, control and bulk, which is also the floor of 5 % for the last. Inside a lane
 * strictly first in, first out. Copies: heads and bodies of up to 512 bytes go into the batch's
 * arena; everything larger is referenced.
 *
 * What a gather took is put into one block of its exact size, which stays in the ring: copying 64
 * KiB at most is cheaper than keeping small messages apart, and less memory.
 *
 * A frame over 256 KiB is cut: each piece is a FRAGMENT frame (to = stream, from = size of the
 * whole frame without its length word, call = offset, body = bin) and other lanes' frames may go
 * between two pieces.
 */
#include "net/link/outbox.h"

#include <string.h>

enum {
    BIN_HEAD = 5,
    FRAGMENT_HEAD = TIDE_FRAME_HEAD + BIN_HEAD,
    FRAGMENT_BYTES = TIDE_OUTBOX_UNIT - FRAGMENT_HEAD,
    VECTORS_MESSAGE = 4, /* most vectors that one unit adds */
    ARENA_MESSAGE = FRAGMENT_HEAD + TIDE_FRAME_HEAD + TIDE_OUTBOX_SMALL,
};

static const int lane_weight[TIDE_LANE_COUNT] = {0, 8, 8, 2, 1};

void tide__outbox_init(struct tide_outbox *box, struct tide_outbox_room **spare) {
    *box = (struct tide_outbox){.turn = TIDE_LANE_ANSWER, .spare = spare};
    box->own_tail = &box->own;
    box->ring_tail = &box->ring;
}

static void free_held_own(struct tide_outbox *box) {
    while (box->held_own) {
        struct tide_own_frame *next = box->held_own->next;
        tide_free(box->held_own);
        box->held_own = next;
    }
}

static int take_room(struct tide_outbox *box) {
    if (!box->room && box->spare) {
        box->room = *box->spare;
        *box->spare = NULL;
    }
    if (!box->room) {
        box->room = tide_alloc(sizeof *box->room);
    }
    return box->room ? 0 : TIDE_ENOMEM;
}

static void give_room(struct tide_outbox *box) {
    if (box->spare && !*box->spare) {
        *box->spare = box->room;
    } else {
        tide_free(box->room);
    }
    box->room = NULL;
}

static void drop_first(struct tide_outbox *box) {
    struct tide_sent_batch *batch = box->ring;
    box->ring = batch->next;
    if (!box->ring) {
        box->ring_tail = &box->ring;
    }
    box->ring_frames -= batch->frames;
    box->ring_bytes -= batch->bytes;
    tide_outgoing_free_all(batch->held);
    tide_free(batch);
}

/* Numbers of frames, and counts of what the ring and the lanes hold, fit each other. */
static bool is_whole(const struct tide_outbox *box) {
    size_t frames = 0, bytes = 0;
    for (const struct tide_sent_batch *batch = box->ring; batch; batch = batch->next) {
        frames += batch->frames;
        bytes += batch->bytes;
    }
    bool idle = true;
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        idle = idle && !box->lanes[i].head;
    }
    return frames == box->ring_frames && bytes == box->ring_bytes && box->sent - box->acked <= frames &&
           box->acked <= box->sent && !*box->ring_tail && (!idle || (box->queued_bytes == 0 && box->open_bytes == 0));
}

void tide__outbox_clear(struct tide_outbox *box, void (*fail)(void *arg, const struct tide_outgoing *), void *arg) {
    tide__outbox_detach(box);
    tide_outgoing_free_all(box->held);
    while (box->ring) {
        drop_first(box);
    }
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        while (box->lanes[i].head) {
            struct tide_outgoing *m = box->lanes[i].head;
            box->lanes[i].head = m->next;
            if (fail) {
                fail(arg, m);
            }
            tide_outgoing_free(m);
        }
    }
    tide__outbox_init(box, box->spare);
}

static size_t frame_size(const struct tide_outgoing *m) {
    return TIDE_FRAME_HEAD + tide_outgoing_body(m);
}

void tide__outbox_push(struct tide_outbox *box, struct tide_outgoing *m) {
    TIDE_ASSERT(m->lane < TIDE_LANE_COUNT && tide_outgoing_body(m) <= tide__frame_limit(m->lane));
    TIDE_ASSERT(!m->scattered || frame_size(m) <= TIDE_OUTBOX_UNIT);
    struct tide_outbox_lane *lane = &box->lanes[m->lane];
    m->next = NULL;
    if (!lane->head) {
        lane->head = m;
    } else {
        lane->tail->next = m;
    }
    lane->tail = m;
    box->queued_bytes += tide_outgoing_body(m);
}

int tide__outbox_push_own(struct tide_outbox *box, const struct tide_frame *frame, const void *body, size_t size) {
    struct tide_own_frame *own = tide_alloc(sizeof *own + TIDE_FRAME_HEAD + size);
    if (!own) {
        return TIDE_ENOMEM;
    }
    own->next = NULL;
    own->size = TIDE_FRAME_HEAD + size;
    tide_frame_head(own->bytes, frame, size);
    memcpy(own->bytes + TIDE_FRAME_HEAD, body, size);
    *box->own_tail = own;
    box->own_tail = &own->next;
    return 0;
}

void tide__outbox_adopt(struct tide_outbox *box, struct tide_outbox *from) {
    TIDE_ASSERT(from->vector_at == from->vector_count);
    if (from->own) {
        *box->own_tail = from->own;
        box->own_tail = from->own_tail;
        from->own = NULL;
        from->own_tail = &from->own;
    }
}

bool tide__outbox_empty(const struct tide_outbox *box) {
    if (box->own || box->again || box->vector_at < box->vector_count) {
        return false;
    }
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        if (box->lanes[i].head) {
            return false;
        }
    }
    return true;
}

/* ---- the batch ---- */

static void add_reference(struct tide_outbox *box, const void *data, size_t size) {
    if (size == 0) {
        return;
    }
    TIDE_ASSERT(box->vector_count < TIDE_COUNT(box->room->vectors));
    box->room->vectors[box->vector_count++] = (struct tide_iovec){data, size};
    box->batch_bytes += size;
}

/* Consecutive copies share one vector. */
static void add_copy(struct tide_outbox *box, const void *data, size_t size) {
    TIDE_ASSERT(box->arena_used + size <= TIDE_OUTBOX_ARENA);
    uint8_t *at = box->room->arena + box->arena_used;
    memcpy(at, data, size);
    box->arena_used += size;
    bool alone = box->vector_count == 0 || box->vector_count == box->own_vectors;
    struct tide_iovec *last = alone ? NULL : &box->room->vectors[box->vector_count - 1];
    if (last && (const uint8_t *)last->data + last->size == at) {
        last->size += size;
        box->batch_bytes += size;
    } else {
        add_reference(box, at, size);
    }
}

static void add(struct tide_outbox *box, const void *data, size_t size) {
    if (size <= TIDE_OUTBOX_SMALL) {
        add_copy(box, data, size);
    } else {
        add_reference(box, data, size);
    }
}

static void message_head(const struct tide_outgoing *m, uint8_t out[TIDE_FRAME_HEAD]) {
    struct tide_frame frame = {.kind = m->kind, .lane = m->lane, .to = m->to, .from = m->from, .call = m->call};
    tide_frame_head(out, &frame, tide_outgoing_body(m));
}

/* Bytes [offset, offset + size) of head (without its length word), data and tail as if they were
 * one. */
static void add_range(struct tide_outbox *box, const struct tide_outgoing *m, size_t offset, size_t size) {
    uint8_t head[TIDE_FRAME_HEAD];
    message_head(m, head);
    const struct tide_iovec parts[3] = {{head + 4, TIDE_FRAME_HEAD - 4},
                                        {m->data, m->size},
                                        {m->tail != NULL ? m->tail->data : NULL, m->tail ? m->tail->size : 0}};
    for (unsigned i = 0; i < 3 && size > 0; i++) {
        if (offset >= parts[i].size) {
            offset -= parts[i].size;
            continue;
        }
        size_t take = parts[i].size - offset < size ? parts[i].size - offset : size;
        const uint8_t *at = (const uint8_t *)parts[i].data + offset;
        if (i == 0) {
            add_copy(box, at, take); /* `head` is gone when this returns */
        } else {
            add(box, at, take);
        }
        offset = 0;
        size -= take;
    }
    TIDE_ASSERT(size == 0);
}

static struct tide_outgoing *pop(struct tide_outbox_lane *lane) {
    struct tide_outgoing *m = lane->head;
    lane->head = m->next;
    lane->sent = 0;
    return m;
}

static void add_fragment(struct tide_outbox *box, struct tide_outbox_lane *lane) {
    struct tide_outgoing *m = lane->head;
    size_t total = frame_size(m) - 4;
    size_t size = total - lane->sent < FRAGMENT_BYTES ? total - lane->sent : FRAGMENT_BYTES;
    if (lane->sent == 0) {
        lane->stream = ++box->streams;
        box->open_bytes += total;
    }
    uint8_t head[FRAGMENT_HEAD];
    struct tide_frame frame = {
        .kind = TIDE_FRAME_FRAGMENT, .lane = m->lane, .to = lane->stream, .from = total, .call = lane->sent};
    tide_frame_head(head, &frame, BIN_HEAD + size);
    head[TIDE_FRAME_HEAD] = 0xc6; /* bin 32 */
    for (unsigned i = 0; i < 4; i++) {
        head[TIDE_FRAME_HEAD + 1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
    add_copy(box, head, sizeof head);
    add_range(box, m, lane->sent, size);
    lane->sent += size;
    if (lane->sent == total) {
        box->open_bytes -= total;
        box->queued_bytes -= tide_outgoing_body(m);
        pop(lane);
        m->next = box->held;
        box->held = m;
    }
}

static void add_whole(struct tide_outbox *box, struct tide_outbox_lane *lane) {
    struct tide_outgoing *m = pop(lane);
    box->queued_bytes -= tide_outgoing_body(m);
    uint8_t head[TIDE_FRAME_HEAD];
    message_head(m, head);
    add_copy(box, head, sizeof head);
    if (tide_outgoing_body(m) <= TIDE_OUTBOX_SMALL && !m->scattered) {
        add_copy(box, m->data, m->size);
        if (m->tail) {
            add_copy(box, m->tail->data, m->tail->size);
        }
        tide_outgoing_free(m);
        return;
    }
    add(box, m->data, m->size);
    if (m->scattered) {
        const struct tide_scatter *scatter = m->tail->data;
        for (size_t i = 0; i < scatter->count; i++) {
            add_reference(box, scatter->parts[i].data, scatter->parts[i].size);
        }
    } else if (m->tail) {
        add_reference(box, m->tail->data, m->tail->size);
    }
    m->next = box->held;
    box->held = m;
}

/* Vectors that the next unit of this lane adds, at most. */
static size_t unit_vectors(const struct tide_outbox_lane *lane) {
    const struct tide_outgoing *m = lane->head;
    return VECTORS_MESSAGE + (m->scattered ? ((const struct tide_scatter *)m->tail->data)->count : 0);
}

/* Bytes that the next unit of this lane puts on the wire. */
static size_t unit_size(const struct tide_outbox_lane *lane) {
    size_t whole = frame_size(lane->head);
    if (whole <= TIDE_OUTBOX_UNIT) {
        return whole;
    }
    size_t left = whole - 4 - lane->sent;
    return FRAGMENT_HEAD + (left < FRAGMENT_BYTES ? left : FRAGMENT_BYTES);
}

/* May the lane send? A frame is cut only when what the peer has to reassemble stays bounded. */
static bool is_ready(const struct tide_outbox *box, const struct tide_outbox_lane *lane) {
    if (!lane->head) {
        return false;
    }
    size_t size = frame_size(lane->head);
    return size <= TIDE_OUTBOX_UNIT || lane->sent > 0 || box->open_bytes + size - 4 <= tide__open_limit();
}

/* Lane that is to send now, or NULL. Does not charge it. */
static struct tide_outbox_lane *choose(struct tide_outbox *box) {
    if (box->lanes[TIDE_LANE_SYSTEM].head) {
        return &box->lanes[TIDE_LANE_SYSTEM];
    }
    bool any = false;
    for (unsigned i = TIDE_LANE_ANSWER; i < TIDE_LANE_COUNT; i++) {
        any = any || is_ready(box, &box->lanes[i]);
    }
    while (any) { /* ends: each round adds to the deficit of a lane that may send */
        struct tide_outbox_lane *lane = &box->lanes[box->turn];
        if (!lane->head) {
            lane->deficit = 0;
        } else if (lane->deficit >= (int64_t)unit_size(lane) && is_ready(box, lane)) {
            return lane;
        }
        box->turn = box->turn + 1 < TIDE_LANE_COUNT ? box->turn + 1 : TIDE_LANE_ANSWER;
        struct tide_outbox_lane *next = &box->lanes[box->turn];
        if (is_ready(box, next)) {
            next->deficit += (int64_t)lane_weight[box->turn] * (int64_t)tide_limit(net_quantum_bytes);
        }
    }
    return NULL;
}

static bool batch_has_room(const struct tide_outbox *box, size_t size, size_t vectors) {
    return box->batch_bytes == 0 ||
           (box->batch_bytes + size <= tide_limit(net_batch_bytes) &&
            box->vector_count + vectors <= TIDE_OUTBOX_VECTORS && box->arena_used + ARENA_MESSAGE <= TIDE_OUTBOX_ARENA);
}

static bool ring_has_room(const struct tide_outbox *box, size_t size) {
    size_t bytes = box->batch_bytes - box->own_bytes;
    if (box->ring_frames > 0 && !box->parting && TIDE_BUGGIFY(ring_full)) {
        return false;
    }
    const size_t frames = box->ring_frames + box->batch_frames;
    return box->parting || frames == 0 ||
           (frames < tide_limit(net_ring_frames) && box->ring_bytes + bytes + size <= tide_limit(net_ring_bytes));
}

static bool gather_own(struct tide_outbox *box) {
    while (box->own) {
        struct tide_own_frame *own = box->own;
        if (!batch_has_room(box, own->size, VECTORS_MESSAGE)) {
            return false;
        }
        add(box, own->bytes, own->size);
        box->frames++;
        box->own = own->next;
        if (!box->own) {
            box->own_tail = &box->own;
        }
        own->next = box->held_own;
        box->held_own = own;
    }
    return true;
}

/* Units out of the lanes, as much as fits. */
static void gather_lanes(struct tide_outbox *box) {
    struct tide_outbox_lane *lane;
    while ((lane = choose(box))) {
        size_t size = unit_size(lane);
        if (!batch_has_room(box, size, unit_vectors(lane))) {
            break;
        }
        if (!ring_has_room(box, size)) {
            TIDE_SOMETIMES(ring_full);
            break;
        }
        if (lane != &box->lanes[TIDE_LANE_SYSTEM]) {
            lane->deficit -= (int64_t)size;
        }
        if (frame_size(lane->head) <= TIDE_OUTBOX_UNIT) {
            add_whole(box, lane);
        } else {
            TIDE_SOMETIMES(message_cut);
            add_fragment(box, lane);
        }
        box->batch_frames++;
    }
}

/* Moves what was gathered from the lanes into the ring; the vectors then point there. */
static int keep(struct tide_outbox *box) {
    size_t count = box->vector_count - box->own_vectors;
    size_t copied = box->arena_used - box->own_arena;
    struct tide_sent_batch *batch = tide_alloc(sizeof *batch + count * sizeof batch->vectors[0] + copied);
    if (!batch) {
        return TIDE_ENOMEM;
    }
    uint8_t *bytes = (uint8_t *)&batch->vectors[count];
    const uint8_t *from = box->room->arena + box->own_arena;
    memcpy(bytes, from, copied);
    *batch = (struct tide_sent_batch){.frames = box->batch_frames,
                                      .bytes = box->batch_bytes - box->own_bytes,
                                      .held = box->held,
                                      .vector_count = count};
    for (size_t i = 0; i < count; i++) {
        struct tide_iovec *v = &box->room->vectors[box->own_vectors + i];
        const uint8_t *at = v->data;
        if (at >= from && at < from + copied) {
            v->data = bytes + (at - from);
        }
        batch->vectors[i] = *v;
    }
    box->held = NULL;
    *box->ring_tail = batch;
    box->ring_tail = &batch->next;
    box->ring_frames += batch->frames;
    box->ring_bytes += batch->bytes;
    box->sent += batch->frames;
    box->frames += batch->frames;
    return 0;
}

static void gather_again(struct tide_outbox *box) {
    const struct tide_sent_batch *batch = box->again;
    for (size_t i = batch->vector_at; i < batch->vector_count; i++) {
        add_reference(box, batch->vectors[i].data, batch->vectors[i].size);
    }
    box->frames += batch->frames;
    box->again = batch->next;
}

int tide__outbox_gather(struct tide_outbox *box) {
    if (box->vector_at < box->vector_count) {
        return 1;
    }
    if (tide__outbox_empty(box)) {
        return 0;
    }
    if (take_room(box) != 0) {
        return TIDE_ENOMEM;
    }
    free_held_own(box);
    box->vector_at = box->vector_count = box->batch_bytes = box->arena_used = 0;
    box->own_vectors = box->own_arena = box->own_bytes = box->batch_frames = 0;
    bool room = gather_own(box);
    box->own_vectors = box->vector_count;
    box->own_arena = box->arena_used;
    box->own_bytes = box->batch_bytes;
    if (room && box->again) {
        gather_again(box);
    } else if (room) {
        gather_lanes(box);
        int error = box->batch_frames > 0 ? keep(box) : 0;
        if (error != 0) {
            return error;
        }
    }
    if (box->vector_count == 0) {
        give_room(box);
    }
    TIDE_ASSERT(!box->held && box->vector_at == 0 && (box->vector_count > 0) == (box->room != NULL));
    TIDE_INVARIANT(is_whole(box));
    return box->vector_count > 0;
}

const struct tide_iovec *tide__outbox_vectors(const struct tide_outbox *box, size_t *count) {
    *count = box->vector_count - box->vector_at;
    return box->room ? box->room->vectors + box->vector_at : NULL;
}

void tide__outbox_written(struct tide_outbox *box, size_t bytes) {
    while (bytes > 0) {
        TIDE_ASSERT(box->vector_at < box->vector_count);
        struct tide_iovec *v = &box->room->vectors[box->vector_at];
        if (bytes < v->size) {
            v->data = (const uint8_t *)v->data + bytes;
            v->size -= bytes;
            return;
        }
        bytes -= v->size;
        box->vector_at++;
    }
    if (box->vector_at == box->vector_count) {
        free_held_own(box);
        give_room(box);
    }
}

/* ---- the ring ---- */

/* Is a batch being written that is still in the ring? Then its vectors must stay. */
static bool is_being_written(const struct tide_outbox *box, const struct tide_sent_batch *batch) {
    bool last = !box->again ? !batch->next : batch->next == box->again;
    return last && box->vector_at < box->vector_count;
}

int tide__outbox_acked(struct tide_outbox *box, uint64_t frame) {
    if (frame < box->acked || frame > box->sent) {
        return tide_fail(TIDE_EPROTO, "frame %llu acknowledged, between %llu and %llu are under way",
                         (unsigned long long)frame, (unsigned long long)box->acked, (unsigned long long)box->sent);
    }
    box->acked = frame;
    while (box->ring && box->sent - box->ring_frames + box->ring->frames <= frame && box->ring != box->again &&
           !is_being_written(box, box->ring)) {
        drop_first(box);
    }
    TIDE_ASSERT(box->acked <= box->sent && box->ring_frames >= box->sent - box->acked);
    TIDE_ASSERT((box->ring_frames > 0) == (box->ring != NULL));
    TIDE_INVARIANT(is_whole(box));
    return 0;
}

void tide__outbox_detach(struct tide_outbox *box) {
    free_held_own(box);
    while (box->own) {
        struct tide_own_frame *next = box->own->next;
        tide_free(box->own);
        box->own = next;
    }
    box->own_tail = &box->own;
    box->vector_at = box->vector_count = 0;
    if (box->room) {
        give_room(box);
    }
    box->again = NULL;
}

/* Takes so many frames off the front: each begins with its length. */
static void skip_frames(struct tide_outbox *box, struct tide_sent_batch *batch, uint64_t count) {
    for (; count > 0; count--) {
        struct tide_iovec *v = &batch->vectors[batch->vector_at];
        int64_t length = tide_frame_length(v->data, v->size, TIDE_FRAME_MAX);
        TIDE_ASSERT(length > 0 && (size_t)length <= batch->bytes);
        batch->bytes -= (size_t)length;
        box->ring_bytes -= (size_t)length;
        batch->frames--;
        box->ring_frames--;
        for (size_t left = (size_t)length; left > 0;) {
            v = &batch->vectors[batch->vector_at];
            size_t n = left < v->size ? left : v->size;
            v->data = (const uint8_t *)v->data + n;
            v->size -= n;
            left -= n;
            batch->vector_at += v->size == 0;
        }
    }
}

int tide__outbox_rewind(struct tide_outbox *box, uint64_t received) {
    TIDE_ASSERT(box->vector_count == 0 && !box->again);
    int error = tide__outbox_acked(box, received);
    if (error != 0) {
        return error;
    }
    if (box->ring) {
        skip_frames(box, box->ring, received - (box->sent - box->ring_frames));
    }
    box->again = box->ring;
    TIDE_ASSERT(box->sent - box->ring_frames == received);
    TIDE_INVARIANT(is_whole(box));
    return 0;
}
