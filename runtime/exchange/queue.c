/*
 * What leaves: one queue and one fiber a peer. A queue is a heap by (step, layer), so what waits
 * leaves in the order in which the next step needs it. What is in flight cannot be overtaken: so a
 * link is given what it carries in a short time (send_window.h), and as all share the node's card, all
 * together no more than `under_way` bytes.
 */
#include "exchange/internal.h"
#include "net/net.h"

enum { SENDER_STACK = 128 << 10 };

static bool before(const struct entry *a, const struct entry *b) {
    return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void sift_up(struct entry *heap, size_t i) {
    while (i > 0 && before(&heap[i], &heap[(i - 1) / 2])) {
        struct entry other = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = other;
        i = (i - 1) / 2;
    }
}

struct entry tide__exchange_pop(struct peer *peer) {
    struct entry *heap = peer->heap, first = heap[0];
    heap[0] = heap[--peer->count];
    for (size_t i = 0;;) {
        size_t least = i, child = 2 * i + 1;
        for (size_t c = child; c < child + 2 && c < peer->count; c++) {
            least = before(&heap[c], &heap[least]) ? c : least;
        }
        if (least == i) {
            return first;
        }
        struct entry other = heap[i];
        heap[i] = heap[least];
        heap[least] = other;
        i = least;
    }
}

/* A worker that waits for layers is not woken for every message: only for the last one. */
static void are_gone(struct tide_exchange *x, size_t count) {
    /* seq_cst, before the waiter is looked for: see tide__exchange_wake */
    const uint64_t gone = atomic_fetch_add(&x->gone, count) + count;
    if (gone == atomic_load_explicit(&x->queued, memory_order_relaxed)) {
        tide__exchange_wake(x);
    }
}

void tide__exchange_drop(struct peer *peer) {
    for (size_t i = 0; i < peer->count; i++) {
        tide_blob_unref(peer->heap[i].blob);
    }
    are_gone(peer->x, peer->count);
    peer->count = 0;
}

int tide__exchange_queue(struct tide_exchange *x, uint32_t to, struct entry entry) {
    struct peer *peer = &x->peers[to];
    if (peer->count == peer->room) {
        size_t room = peer->room ? peer->room * 2 : 64;
        struct entry *heap = tide_realloc(peer->heap, room * sizeof *heap);
        if (!heap) {
            tide_blob_unref(entry.blob);
            return TIDE_ENOMEM;
        }
        peer->heap = heap;
        peer->room = room;
    }
    entry.key = entry.step * x->layer_count + entry.layer;
    entry.order = x->orders++;
    peer->heap[peer->count] = entry;
    /* before what makes the worker ask for it: a layer has come */
    atomic_fetch_add_explicit(&x->queued, 1, memory_order_relaxed);
    sift_up(peer->heap, peer->count++);
    if (peer->waits) {
        tide_fiber_wake(peer->sender);
    }
    return 0;
}

/* What the link to a worker may hold, this message of `size` bytes included. */
static uint32_t window_of(struct peer *peer, uint8_t path, size_t size) {
    struct tide_exchange *x = peer->x;
    struct tide_net *net = tide_net_of(x->node);
    uint64_t consumed, under_way;
    if (!net || !tide_net_flow(net, tide_address_node(peer->address), TIDE_LANE_BULK, &consumed, &under_way)) {
        return 0; /* a worker on this node */
    }
    size_t most = path == TIDE_PATH_RING ? x->under_way : x->link_most; /* a ring uses one link */
    return (uint32_t)tide__send_window_look(&peer->window, tide_port_now(x->port), consumed, under_way, size, most);
}

static int send_entry(struct peer *peer, struct entry *e) {
    struct tide_exchange *x = peer->x;
    if (!e->blob) {
        size_t first;
        const struct layer *l = &x->layers[e->layer];
        e->count = tide__exchange_chunk(l, e->index, &first);
        const float *own = (e->kind == SUM ? x->sums : x->gradients) + l->first + first;
        e->blob = e->kind == PUSH && e->format != TIDE_WIRE_F32
                      ? tide__exchange_blob_keeping(own, l->kept + first, e->count, e->format)
                      : tide__exchange_blob(own, e->count, e->format);
        if (!e->blob) {
            return TIDE_ENOMEM;
        }
    }
    uint8_t buffer[256];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__exchange_head(&w, x, e);
    const size_t size = TIDE_FRAME_HEAD + w.size + e->blob->size;
    const uint32_t window = window_of(peer, e->path, size);
    int code =
        w.error ? w.error : tide_send_blob_within(peer->address, TIDE_LANE_BULK, w.data, w.size, e->blob, window);
    atomic_fetch_add_explicit(&x->messages, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->bytes, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&x->payload[e->path], e->blob->size, memory_order_relaxed);
    tide_writer_release(&w);
    tide_blob_unref(e->blob);
    return code;
}

static void sender_run(void *arg) {
    struct peer *peer = arg;
    struct tide_exchange *x = peer->x;
    for (;;) {
        int code = 0;
        while (peer->count > 0 && code == 0) {
            struct entry e = tide__exchange_pop(peer);
            code = send_entry(peer, &e);
            are_gone(x, 1);
        }
        if (code == TIDE_EDIED || code == TIDE_EUNREACHABLE || code == TIDE_ECLOSED) {
            tide__exchange_drop(peer); /* its exit will arrive */
        } else if (code < 0) {
            tide__exchange_fail(x, code, "worker %u cannot be sent to: %s", peer->rank + 1, tide_error_message());
            tide__exchange_drop(peer);
        }
        if (code == TIDE_ECANCELED || x->closing || peer->dead) {
            break;
        }
        peer->waits = true;
        code = tide_fiber_suspend(TIDE_NEVER, "something to send");
        peer->waits = false;
        if (code == TIDE_ECANCELED) {
            break;
        }
    }
    peer->sender = NULL;
    x->senders--;
    tide_fiber_wake(x->main);
}

int tide__exchange_start_senders(struct tide_exchange *x) {
    int code = 0;
    for (uint32_t r = 0; r < x->workers && code == 0; r++) {
        if (r == x->rank) {
            continue;
        }
        code = tide_fiber_start(sender_run, &x->peers[r], SENDER_STACK, &x->peers[r].sender);
        x->senders += code == 0;
    }
    return code;
}

void tide__exchange_end_sender(struct peer *peer) {
    if (peer->sender && peer->waits) {
        tide_fiber_wake(peer->sender);
    }
}

void tide__exchange_end_senders(struct tide_exchange *x) {
    x->closing = true;
    for (uint32_t r = 0; r < x->workers; r++) {
        tide__exchange_end_sender(&x->peers[r]);
    }
}
