/*
 * The outbox of a link: coalescing, scheduling between lanes, fragments.
 *
 * Order: the link's own frames, then the system lane, then deficit round robin 8 : 8 : 2 : 1 over
 * answer, store, control and bulk, which is also the floor of 5 % for the last. Inside a lane
 * strictly first in, first out. Copies: heads and bodies of up to 512 bytes go into the batch's
 * arena; everything larger is referenced.
 *
 * A frame over 256 KiB is cut: each piece is a FRAGMENT frame (to = stream, from = size of the
 * whole frame without its length word, call = offset, body = bin) and other lanes' frames may go
 * between two pieces.
 */
#include "net/outbox.h"

#include <string.h>

enum {
    QUANTUM = 32 << 10,
    BIN_HEAD = 5,
    FRAGMENT_HEAD = TIDE_FRAME_HEAD + BIN_HEAD,
    FRAGMENT_BYTES = TIDE_OUTBOX_UNIT - FRAGMENT_HEAD,
    VECTORS_MESSAGE = 4, /* most vectors that one unit adds */
    ARENA_MESSAGE = FRAGMENT_HEAD + TIDE_FRAME_HEAD + TIDE_OUTBOX_SMALL,
};

static const int lane_weight[TIDE_LANE_COUNT] = {0, 8, 8, 2, 1};

void tide__outbox_init(struct tide_outbox *box) {
    *box = (struct tide_outbox){.turn = TIDE_LANE_ANSWER};
    box->own_tail = &box->own;
}

static void free_held(struct tide_outbox *box) {
    while (box->held != NULL) {
        struct tide_outgoing *next = box->held->next;
        tide_outgoing_free(box->held);
        box->held = next;
    }
    while (box->held_own != NULL) {
        struct tide_own_frame *next = box->held_own->next;
        tide_free(box->held_own);
        box->held_own = next;
    }
}

void tide__outbox_clear(struct tide_outbox *box,
                        void (*fail)(void *arg, const struct tide_outgoing *), void *arg) {
    free_held(box);
    while (box->own != NULL) {
        struct tide_own_frame *next = box->own->next;
        tide_free(box->own);
        box->own = next;
    }
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        while (box->lanes[i].head != NULL) {
            struct tide_outgoing *m = box->lanes[i].head;
            box->lanes[i].head = m->next;
            if (fail != NULL) {
                fail(arg, m);
            }
            tide_outgoing_free(m);
        }
    }
    tide_free(box->arena);
    tide__outbox_init(box);
}

void tide__outbox_push(struct tide_outbox *box, struct tide_outgoing *m) {
    TIDE_ASSERT(m->lane < TIDE_LANE_COUNT && tide_outgoing_body(m) <= tide__frame_limit(m->lane));
    struct tide_outbox_lane *lane = &box->lanes[m->lane];
    m->next = NULL;
    if (lane->head == NULL) {
        lane->head = m;
    } else {
        lane->tail->next = m;
    }
    lane->tail = m;
    box->queued_bytes += tide_outgoing_body(m);
}

int tide__outbox_push_own(struct tide_outbox *box, const struct tide_frame *frame, const void *body,
                          size_t size) {
    struct tide_own_frame *own = tide_alloc(sizeof *own + TIDE_FRAME_HEAD + size);
    if (own == NULL) {
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

bool tide__outbox_empty(const struct tide_outbox *box) {
    if (box->own != NULL || box->vector_at < box->vector_count) {
        return false;
    }
    for (unsigned i = 0; i < TIDE_LANE_COUNT; i++) {
        if (box->lanes[i].head != NULL) {
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
    TIDE_ASSERT(box->vector_count < TIDE_OUTBOX_VECTORS);
    box->vectors[box->vector_count++] = (struct tide_iovec){data, size};
    box->batch_bytes += size;
}

/* Consecutive copies share one vector. */
static void add_copy(struct tide_outbox *box, const void *data, size_t size) {
    TIDE_ASSERT(box->arena_used + size <= TIDE_OUTBOX_ARENA);
    uint8_t *at = box->arena + box->arena_used;
    memcpy(at, data, size);
    box->arena_used += size;
    struct tide_iovec *last = box->vector_count > 0 ? &box->vectors[box->vector_count - 1] : NULL;
    if (last != NULL && (const uint8_t *)last->data + last->size == at) {
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

static size_t frame_size(const struct tide_outgoing *m) {
    return TIDE_FRAME_HEAD + tide_outgoing_body(m);
}

static void message_head(const struct tide_outgoing *m, uint8_t out[TIDE_FRAME_HEAD]) {
    struct tide_frame frame = {
        .kind = m->kind, .lane = m->lane, .to = m->to, .from = m->from, .call = m->call};
    tide_frame_head(out, &frame, tide_outgoing_body(m));
}

/* Bytes [offset, offset + size) of head (without its length word), data and tail as if they were
 * one. */
static void add_range(struct tide_outbox *box, const struct tide_outgoing *m, size_t offset,
                      size_t size) {
    uint8_t head[TIDE_FRAME_HEAD];
    message_head(m, head);
    const struct tide_iovec parts[3] = {
        {head + 4, TIDE_FRAME_HEAD - 4},
        {m->data, m->size},
        {m->tail != NULL ? m->tail->data : NULL, m->tail != NULL ? m->tail->size : 0}};
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
    }
    uint8_t head[FRAGMENT_HEAD];
    struct tide_frame frame = {.kind = TIDE_FRAME_FRAGMENT,
                               .lane = m->lane,
                               .to = lane->stream,
                               .from = total,
                               .call = lane->sent};
    tide_frame_head(head, &frame, BIN_HEAD + size);
    head[TIDE_FRAME_HEAD] = 0xc6; /* bin 32 */
    for (unsigned i = 0; i < 4; i++) {
        head[TIDE_FRAME_HEAD + 1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
    add_copy(box, head, sizeof head);
    add_range(box, m, lane->sent, size);
    lane->sent += size;
    if (lane->sent == total) {
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
    if (tide_outgoing_body(m) <= TIDE_OUTBOX_SMALL) {
        add_copy(box, m->data, m->size);
        if (m->tail != NULL) {
            add_copy(box, m->tail->data, m->tail->size);
        }
        tide_outgoing_free(m);
        return;
    }
    add(box, m->data, m->size);
    if (m->tail != NULL) {
        add_reference(box, m->tail->data, m->tail->size);
    }
    m->next = box->held;
    box->held = m;
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

/* Lane that is to send now, or NULL. Does not charge it. */
static struct tide_outbox_lane *choose(struct tide_outbox *box) {
    if (box->lanes[TIDE_LANE_SYSTEM].head != NULL) {
        return &box->lanes[TIDE_LANE_SYSTEM];
    }
    bool any = false;
    for (unsigned i = TIDE_LANE_ANSWER; i < TIDE_LANE_COUNT; i++) {
        any = any || box->lanes[i].head != NULL;
    }
    while (any) { /* ends: each round adds to the deficit of a lane that has something */
        struct tide_outbox_lane *lane = &box->lanes[box->turn];
        if (lane->head == NULL) {
            lane->deficit = 0;
        } else if (lane->deficit >= (int64_t)unit_size(lane)) {
            return lane;
        }
        box->turn = box->turn + 1 < TIDE_LANE_COUNT ? box->turn + 1 : TIDE_LANE_ANSWER;
        struct tide_outbox_lane *next = &box->lanes[box->turn];
        if (next->head != NULL) {
            next->deficit += (int64_t)lane_weight[box->turn] * QUANTUM;
        }
    }
    return NULL;
}

static bool batch_has_room(const struct tide_outbox *box, size_t size) {
    return box->batch_bytes == 0 || (box->batch_bytes + size <= TIDE_OUTBOX_UNIT &&
                                     box->vector_count + VECTORS_MESSAGE <= TIDE_OUTBOX_VECTORS &&
                                     box->arena_used + ARENA_MESSAGE <= TIDE_OUTBOX_ARENA);
}

static bool gather_own(struct tide_outbox *box) {
    while (box->own != NULL) {
        struct tide_own_frame *own = box->own;
        if (!batch_has_room(box, own->size)) {
            return false;
        }
        add(box, own->bytes, own->size);
        box->frames++;
        box->own = own->next;
        if (box->own == NULL) {
            box->own_tail = &box->own;
        }
        own->next = box->held_own;
        box->held_own = own;
    }
    return true;
}

int tide__outbox_gather(struct tide_outbox *box) {
    if (box->vector_at < box->vector_count) {
        return 1;
    }
    if (tide__outbox_empty(box)) {
        return 0;
    }
    if (box->arena == NULL) {
        box->arena = tide_alloc(TIDE_OUTBOX_ARENA);
        if (box->arena == NULL) {
            return TIDE_ENOMEM;
        }
    }
    free_held(box);
    box->vector_at = box->vector_count = box->batch_bytes = box->arena_used = 0;
    if (!gather_own(box)) {
        return 1;
    }
    struct tide_outbox_lane *lane;
    while ((lane = choose(box)) != NULL) {
        size_t size = unit_size(lane);
        if (!batch_has_room(box, size)) {
            break;
        }
        if (lane != &box->lanes[TIDE_LANE_SYSTEM]) {
            lane->deficit -= (int64_t)size;
        }
        if (frame_size(lane->head) <= TIDE_OUTBOX_UNIT) {
            add_whole(box, lane);
        } else {
            add_fragment(box, lane);
        }
        box->frames++;
    }
    return 1;
}

const struct tide_iovec *tide__outbox_vectors(const struct tide_outbox *box, size_t *count) {
    *count = box->vector_count - box->vector_at;
    return box->vectors + box->vector_at;
}

void tide__outbox_written(struct tide_outbox *box, size_t bytes) {
    while (bytes > 0) {
        TIDE_ASSERT(box->vector_at < box->vector_count);
        struct tide_iovec *v = &box->vectors[box->vector_at];
        if (bytes < v->size) {
            v->data = (const uint8_t *)v->data + bytes;
            v->size -= bytes;
            return;
        }
        bytes -= v->size;
        box->vector_at++;
    }
    if (box->vector_at == box->vector_count) {
        free_held(box);
    }
}
