/* The parts of a link that know no socket: detector, handshake bodies, outbox, decoder. */
#include "actor/internal.h"
#include "net/members/detector.h"
#include "net/link/hello.h"
#include "net/link/decoder.h"
#include "net/link/outbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

/* ---- detector ---- */

static void detector_suspects_a_silent_peer_after_the_grace_and_200_ms(void **state) {
    (void)state;
    struct tide_detector d;
    tide__detector_init(&d, 0, 100 * MS);
    uint64_t now = 0;
    for (int i = 0; i < 300; i++) {
        now += 100 * MS;
        tide__detector_beat(&d, now, 100 * MS);
        assert_true(tide__detector_phi(&d, now + 110 * MS, 600 * MS) < 0.1);
    }
    for (uint64_t grace = 600 * MS; grace <= 2000 * MS; grace += 700 * MS) {
        assert_true(tide__detector_phi(&d, now + grace + 100 * MS, grace) < TIDE_PHI_SUSPECT);
        assert_true(tide__detector_phi(&d, now + grace + 250 * MS, grace) >= TIDE_PHI_SUSPECT);
    }
    assert_true(tide__detector_phi(&d, now + 3600 * 1000 * MS, 2000 * MS) >= TIDE_PHI_SUSPECT);
}

static void detector_is_more_patient_with_an_irregular_peer(void **state) {
    (void)state;
    struct tide_detector d;
    tide__detector_init(&d, 0, 100 * MS);
    uint64_t now = 0;
    for (int i = 0; i < 200; i++) {
        now += (i % 2 ? 20 : 220) * MS;
        tide__detector_beat(&d, now, 100 * MS);
    }
    assert_true(tide__detector_phi(&d, now + 900 * MS, 600 * MS) < TIDE_PHI_SUSPECT);
    assert_true(tide__detector_phi(&d, now + 2100 * MS, 600 * MS) >= TIDE_PHI_SUSPECT);
}

static void detector_excuses_silence_of_its_own_standstill(void **state) {
    (void)state;
    struct tide_detector d;
    tide__detector_init(&d, 0, 100 * MS);
    assert_true(tide__detector_phi(&d, 5000 * MS, 600 * MS) >= TIDE_PHI_SUSPECT);
    tide__detector_excuse(&d, 5000 * MS, 4950 * MS);
    assert_true(tide__detector_phi(&d, 5000 * MS, 600 * MS) < 1);
    tide__detector_excuse(&d, 5000 * MS, 4950 * MS); /* never into the future */
    assert_true(d.last <= 5000 * MS);
}

/* ---- hello ---- */

static struct tide_hello good_hello(void) {
    struct tide_hello h = {.version = TIDE_PROTOCOL,
                           .cluster = "a",
                           .name = "n",
                           .to = "",
                           .incarnation = 7,
                           .workers = 2,
                           .store = true,
                           .pid = 12,
                           .endpoint = "unix:/tmp/x",
                           .right = TIDE_RIGHT_NODE};
    return h;
}

static int parse_written(const struct tide_hello *h, struct tide_hello *out) {
    uint8_t buffer[2048];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__hello_write(&w, h);
    int rc = tide_hello_parse(w.data, w.size, out);
    tide_writer_release(&w);
    return rc;
}

static void hello_survives_the_wire(void **state) {
    (void)state;
    struct tide_hello h = good_hello(), out;
    assert_int_equal(parse_written(&h, &out), 0);
    assert_string_equal(out.cluster, "a");
    assert_string_equal(out.endpoint, "unix:/tmp/x");
    assert_int_equal(out.incarnation, 7);
    assert_int_equal(out.pid, 12);
    assert_true(out.store && !out.client);
}

/* Bytes of hello of a client, and of a refusal, as other versions know them. Another layout needs another
 * TIDE_PROTOCOL, and these bytes; a refusal stays as it is, since a peer of any version reads it. */
static void hello_and_refusal_have_the_bytes_of_their_version(void **state) {
    (void)state;
    static const uint8_t hello[] = {0xdc, 0x00, 0x11, 0x07, 0xa0, 0xa0, 0xcf, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                    0x88, 0x00, 0xa0, 0x00, 0xa0, 0xc2, 0xc3, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01};
    static const uint8_t refusal[] = {0x92, 0xd1, 0xd8, 0xde, 0xa2, 'n', 'o'};
    const struct tide_hello h = {.version = TIDE_PROTOCOL,
                                 .incarnation = UINT64_C(0x1122334455667788),
                                 .client = true,
                                 .right = TIDE_RIGHT_READ};
    uint8_t buffer[512];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__hello_write(&w, &h);
    assert_int_equal(w.size, sizeof hello);
    assert_memory_equal(w.data, hello, sizeof hello);
    tide_writer_release(&w);
    int code;
    char text[80];
    assert_int_equal(tide__refusal_parse(refusal, sizeof refusal, &code, text, sizeof text), 0);
    assert_int_equal(code, TIDE_EVERSION);
    assert_string_equal(text, "no");
}

static void hello_refuses_what_is_not_a_hello(void **state) {
    (void)state;
    struct tide_hello h, out;
    h = good_hello();
    h.version = TIDE_PROTOCOL + 1;
    assert_int_equal(parse_written(&h, &out), TIDE_EVERSION);
    char text[80];
    (void)snprintf(text, sizeof text, "peer speaks protocol %u, this node speaks %u", TIDE_PROTOCOL + 1, TIDE_PROTOCOL);
    assert_string_equal(tide_error_message(), text);
    h = good_hello();
    strcpy(h.cluster, "Not valid");
    assert_int_equal(parse_written(&h, &out), TIDE_EPROTO);
    h = good_hello();
    h.incarnation = 0;
    assert_int_equal(parse_written(&h, &out), TIDE_EPROTO);
    h = good_hello();
    strcpy(h.endpoint, "unix:\n");
    assert_int_equal(parse_written(&h, &out), TIDE_EPROTO);
    h = good_hello();
    h.client = true;
    h.right = TIDE_RIGHT_ADMIN;
    h.id = 3;
    assert_int_equal(parse_written(&h, &out), TIDE_EPROTO);
    assert_int_equal(tide_hello_parse("", 0, &out), TIDE_EPROTO);
    assert_int_equal(tide_hello_parse("\xc0", 1, &out), TIDE_EPROTO);
}

static void hello_refuses_every_truncation(void **state) {
    (void)state;
    struct tide_hello h = good_hello(), out;
    uint8_t buffer[512];
    struct tide_writer w;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide__hello_write(&w, &h);
    for (size_t i = 0; i < w.size; i++) {
        assert_int_not_equal(tide_hello_parse(w.data, i, &out), 0);
    }
    tide_write_nil(&w);
    assert_int_equal(tide_hello_parse(w.data, w.size, &out), TIDE_EPROTO);
    tide_writer_release(&w);
}

/* ---- outbox and decoder ---- */

struct pieces {
    struct tide_blob blob;
    struct tide_scatter scatter;
    struct tide_iovec parts[TIDE_SCATTER_MAX];
    uint8_t *bytes;
};

static void free_pieces(struct tide_blob *blob) {
    struct pieces *p = TIDE_CONTAINER(blob, struct pieces, blob);
    free(p->bytes);
    free(p);
}

/* As tide_blob_create, in pieces that lie in reverse order. */
static struct tide_blob *scattered(const uint8_t *tail, size_t size) {
    struct pieces *p = calloc(1, sizeof *p);
    p->bytes = malloc(size);
    p->blob = (struct tide_blob){.data = &p->scatter, .size = size, .release = free_pieces, .refs = 1};
    p->scatter.parts = p->parts;
    const size_t most = size / TIDE_SCATTER_MAX + 1;
    for (size_t at = 0; at < size;) {
        const size_t part = size - at < most ? size - at : most;
        memcpy(p->bytes + size - at - part, tail + at, part);
        p->parts[p->scatter.count++] = (struct tide_iovec){p->bytes + size - at - part, part};
        at += part;
    }
    return &p->blob;
}

static struct tide_outgoing *outgoing(uint8_t lane, size_t size, size_t tail, uint64_t call) {
    struct message *m = message_create(NULL, size);
    m->op = OP_OUTGOING;
    uint8_t *data = message_bytes(m);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 7 + call);
    }
    m->u.out = (struct tide_outgoing){
        .to = 1, .from = 2, .call = call, .data = data, .size = (uint32_t)size, .kind = TIDE_FRAME_CAST, .lane = lane};
    if (tail > 0) {
        m->u.out.tail = tide_blob_create(tail);
        for (size_t i = 0; i < tail; i++) {
            ((uint8_t *)m->u.out.tail->data)[i] = (uint8_t)((i + size) * 7 + call);
        }
        if (call % 2 && TIDE_FRAME_HEAD + size + tail <= TIDE_OUTBOX_UNIT) {
            struct tide_blob *whole = m->u.out.tail;
            m->u.out.tail = scattered(whole->data, tail);
            m->u.out.scattered = true;
            tide_blob_unref(whole);
        }
    }
    return &m->u.out;
}

struct seen {
    uint64_t calls[4096];
    uint8_t lanes[4096];
    size_t sizes[4096];
    size_t count;
    bool damaged;
};

static int see(void *arg, const struct tide_frame *f, struct tide_blob *owner) {
    struct seen *seen = arg;
    if (seen->count == TIDE_COUNT(seen->calls)) {
        return TIDE_ELIMIT;
    }
    seen->calls[seen->count] = f->call;
    seen->lanes[seen->count] = f->lane;
    seen->sizes[seen->count++] = f->body_size;
    for (size_t i = 0; i < f->body_size; i++) {
        seen->damaged = seen->damaged || f->body[i] != (uint8_t)(i * 7 + f->call);
    }
    seen->damaged = seen->damaged || owner == NULL || f->body < (uint8_t *)owner->data ||
                    f->body + f->body_size > (uint8_t *)owner->data + owner->size;
    return 0;
}

static int feed(struct tide_decoder *in, const uint8_t *bytes, size_t size, size_t piece_max, struct seen *seen) {
    while (size > 0) {
        void *at;
        size_t room;
        int rc = tide__decoder_buffer(in, &at, &room);
        if (rc != 0) {
            return rc;
        }
        assert_true(room > 0);
        size_t n = size < room ? size : room;
        n = n < piece_max ? n : piece_max;
        memcpy(at, bytes, n);
        rc = tide__decoder_received(in, n, see, seen);
        if (rc != 0) {
            return rc;
        }
        bytes += n;
        size -= n;
    }
    return 0;
}

/* Writes all that is queued, at most `short_write` bytes a write, into one buffer; between(i) may
 * queue more. */
static size_t drain(struct tide_outbox *box, uint8_t *out, size_t capacity, size_t short_write) {
    size_t used = 0;
    while (tide__outbox_gather(box) > 0) {
        size_t count, left = short_write;
        const struct tide_iovec *v = tide__outbox_vectors(box, &count);
        size_t taken = 0;
        for (size_t i = 0; i < count && left > 0; i++) {
            size_t n = v[i].size < left ? v[i].size : left;
            assert_true(used + n <= capacity);
            memcpy(out + used, v[i].data, n);
            used += n;
            taken += n;
            left -= n;
        }
        tide__outbox_written(box, taken);
    }
    return used;
}

static void frames_of_all_sizes_survive_any_cutting(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 100, 512, 513, 5000, 262000, 262115, 262116, 300000, 3000000};
    static const size_t pieces[] = {1000000, 4096, 33, 7};
    size_t capacity = 8 << 20;
    uint8_t *bytes = malloc(capacity);
    for (size_t p = 0; p < TIDE_COUNT(pieces); p++) {
        struct tide_outbox box;
        tide__outbox_init(&box, NULL);
        size_t pushed = 0;
        for (size_t i = 0; i < TIDE_COUNT(sizes); i++) {
            tide__outbox_push(&box, outgoing(TIDE_LANE_STORE, sizes[i] / 2 + 1, sizes[i] - sizes[i] / 2, i));
            tide__outbox_push(&box, outgoing(TIDE_LANE_BULK, sizes[i] + 1, 0, 100 + i));
            pushed += 2;
        }
        size_t size = drain(&box, bytes, capacity, p == 0 ? SIZE_MAX : 10001);
        assert_true(tide__outbox_empty(&box));
        assert_int_equal(box.queued_bytes, 0);
        struct tide_decoder in;
        tide__decoder_init(&in, NULL);
        in.greeting = false;
        struct seen *seen = calloc(1, sizeof *seen);
        assert_int_equal(feed(&in, bytes, size, pieces[p], seen), 0);
        assert_int_equal(seen->count, pushed);
        assert_false(seen->damaged);
        uint64_t next_store = 0, next_bulk = 100;
        for (size_t i = 0; i < seen->count; i++) {
            uint64_t *next = seen->lanes[i] == TIDE_LANE_STORE ? &next_store : &next_bulk;
            assert_int_equal(seen->calls[i], *next);
            (*next)++;
        }
        free(seen);
        tide__decoder_deinit(&in);
        tide__outbox_clear(&box, NULL, NULL);
    }
    free(bytes);
}

static void system_frame_waits_for_one_fragment_at_most(void **state) {
    (void)state;
    struct tide_outbox box;
    tide__outbox_init(&box, NULL);
    tide__outbox_push(&box, outgoing(TIDE_LANE_BULK, 8 << 20, 0, 1));
    assert_int_equal(tide__outbox_gather(&box), 1);
    size_t count;
    const struct tide_iovec *v = tide__outbox_vectors(&box, &count);
    tide__outbox_push(&box, outgoing(TIDE_LANE_SYSTEM, 10, 0, 2));
    size_t before = 0;
    for (size_t i = 0; i < count; i++) {
        before += v[i].size;
    }
    assert_true(before <= TIDE_OUTBOX_UNIT);
    tide__outbox_written(&box, before);
    assert_int_equal(tide__outbox_gather(&box), 1);
    v = tide__outbox_vectors(&box, &count);
    struct tide_frame frame;
    int64_t length = tide_frame_length(v[0].data, v[0].size, TIDE_FRAME_MAX);
    assert_int_equal(length, TIDE_FRAME_HEAD + 10);
    assert_int_equal(tide_frame_parse((const uint8_t *)v[0].data + 4, (size_t)length - 4, &frame), 0);
    assert_int_equal(frame.call, 2);
    tide__outbox_clear(&box, NULL, NULL);
}

static void lanes_share_a_full_link_8_8_2_1(void **state) {
    (void)state;
    struct tide_outbox box;
    tide__outbox_init(&box, NULL);
    for (unsigned lane = TIDE_LANE_ANSWER; lane < TIDE_LANE_COUNT; lane++) {
        for (int i = 0; i < 3000; i++) {
            tide__outbox_push(&box, outgoing((uint8_t)lane, 4000, 0, lane));
        }
    }
    size_t capacity = 5 << 20, used = 0;
    uint8_t *bytes = malloc(capacity + (1 << 20));
    while (used < capacity) {
        assert_int_equal(tide__outbox_gather(&box), 1);
        size_t count, taken = 0;
        const struct tide_iovec *v = tide__outbox_vectors(&box, &count);
        for (size_t i = 0; i < count; i++) {
            memcpy(bytes + used, v[i].data, v[i].size);
            used += v[i].size;
            taken += v[i].size;
        }
        tide__outbox_written(&box, taken);
    }
    struct tide_decoder in;
    tide__decoder_init(&in, NULL);
    in.greeting = false;
    struct seen *seen = calloc(1, sizeof *seen);
    assert_int_equal(feed(&in, bytes, used, SIZE_MAX, seen), 0);
    double share[TIDE_LANE_COUNT] = {0};
    for (size_t i = 0; i < seen->count; i++) {
        share[seen->lanes[i]] += 1.0 / (double)seen->count;
    }
    assert_true(share[TIDE_LANE_BULK] >= 0.045 && share[TIDE_LANE_BULK] < 0.07);
    assert_true(share[TIDE_LANE_CONTROL] >= 0.09 && share[TIDE_LANE_CONTROL] < 0.13);
    assert_true(share[TIDE_LANE_STORE] > 0.38 && share[TIDE_LANE_ANSWER] > 0.38);
    free(seen);
    free(bytes);
    tide__decoder_deinit(&in);
    tide__outbox_clear(&box, NULL, NULL);
}

static size_t fragment(uint8_t *out, uint8_t lane, uint64_t stream, uint64_t total, uint64_t offset, size_t size) {
    struct tide_frame f = {.kind = TIDE_FRAME_FRAGMENT, .lane = lane, .to = stream, .from = total, .call = offset};
    tide_frame_head(out, &f, size + 2);
    out[TIDE_FRAME_HEAD] = 0xc4;
    out[TIDE_FRAME_HEAD + 1] = (uint8_t)size;
    memset(out + TIDE_FRAME_HEAD + 2, 0, size);
    return TIDE_FRAME_HEAD + 2 + size;
}

static void expect_refused(const uint8_t *bytes, size_t size, bool greeting) {
    static const size_t pieces[] = {1, 5, 1000};
    for (size_t i = 0; i < TIDE_COUNT(pieces); i++) {
        struct tide_decoder in;
        tide__decoder_init(&in, NULL);
        in.greeting = greeting;
        struct seen *seen = calloc(1, sizeof *seen);
        assert_true(feed(&in, bytes, size, pieces[i], seen) < 0);
        assert_int_equal(seen->count, 0);
        free(seen);
        tide__decoder_deinit(&in);
    }
}

static void decoder_refuses_bad_lengths_and_fragments(void **state) {
    (void)state;
    uint8_t b[600];
    expect_refused((const uint8_t *)"\xff\xff\xff\x7f", 4, false); /* 2 GiB */
    expect_refused((const uint8_t *)"\x01\x00\x00\x00", 4, false); /* too short to be a frame */
    expect_refused((const uint8_t *)"\x01\x08\x00\x00", 4, true);  /* 2 KiB before hello */
    expect_refused((const uint8_t *)"GET / HTTP/1.0\r\n\r\n", 18, true);
    size_t n = fragment(b, TIDE_LANE_BULK, 1, UINT64_C(1) << 40, 0, 10);
    expect_refused(b, n, false); /* a terabyte */
    n = fragment(b, TIDE_LANE_BULK, 1, 100, 50, 10);
    expect_refused(b, n, false); /* begins in the middle */
    n = fragment(b, TIDE_LANE_SYSTEM, 1, 100, 0, 10);
    expect_refused(b, n, false); /* not in this lane */
    n = fragment(b, TIDE_LANE_BULK, 1, 5, 0, 10);
    expect_refused(b, n, false); /* more than announced */
    n = fragment(b, TIDE_LANE_BULK, 1, 100, 0, 0);
    expect_refused(b, n, false); /* no progress */
    n = fragment(b, TIDE_LANE_BULK, 1, 100, 0, 10);
    n += fragment(b + n, TIDE_LANE_BULK, 2, 100, 10, 10);
    expect_refused(b, n, false); /* two streams in one lane */
    n = fragment(b, TIDE_LANE_BULK, 1, 20, 0, 10);
    n += fragment(b + n, TIDE_LANE_BULK, 1, 20, 10, 10);
    expect_refused(b, n, false); /* what comes out is no frame */
    n = fragment(b, TIDE_LANE_BULK, 1, 20, 0, 10);
    expect_refused(b, n, true); /* before hello */
}

/* ---- the ring ---- */

/* Writes up to `limit` bytes of what is there. */
static size_t write_some(struct tide_outbox *box, uint8_t *out, size_t limit) {
    size_t used = 0;
    while (used < limit && tide__outbox_gather(box) > 0) {
        size_t count, taken = 0;
        const struct tide_iovec *v = tide__outbox_vectors(box, &count);
        for (size_t i = 0; i < count && used < limit; i++) {
            size_t n = v[i].size < limit - used ? v[i].size : limit - used;
            memcpy(out + used, v[i].data, n);
            used += n;
            taken += n;
        }
        tide__outbox_written(box, taken);
    }
    return used;
}

static void a_ring_resumes_at_every_frame(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 600, 3, 300000, 100, 900000, 5, 512, 262200, 2};
    size_t capacity = 8 << 20;
    uint8_t *bytes = malloc(capacity);
    for (size_t cut = 0; cut < 1500000; cut += 1 + cut / 9) {
        struct tide_outbox box;
        tide__outbox_init(&box, NULL);
        for (size_t i = 0; i < 4 * TIDE_COUNT(sizes); i++) {
            size_t size = sizes[i % TIDE_COUNT(sizes)];
            tide__outbox_push(&box, outgoing(TIDE_LANE_STORE, size, size / 3, i));
        }
        size_t size = write_some(&box, bytes, cut);
        struct tide_decoder in;
        tide__decoder_init(&in, NULL);
        in.greeting = false;
        struct seen *seen = calloc(1, sizeof *seen);
        assert_int_equal(feed(&in, bytes, size - size / 7, 5000, seen), 0); /* the rest is lost */
        uint64_t received = in.sequenced;
        struct tide_assembly lanes[TIDE_LANE_COUNT];
        tide__decoder_suspend(&in, lanes);
        in.greeting = false;
        tide__decoder_resume(&in, lanes, received);
        tide__outbox_detach(&box);
        assert_int_equal(tide__outbox_rewind(&box, box.sent + 1), TIDE_EPROTO);
        assert_int_equal(tide__outbox_rewind(&box, received), 0);
        size = write_some(&box, bytes, capacity);
        assert_int_equal(feed(&in, bytes, size, 100000, seen), 0);
        while (!tide__outbox_empty(&box)) { /* the ring was full */
            assert_true(box.ring_bytes <= tide_limit(net_ring_bytes));
            assert_int_equal(tide__outbox_acked(&box, in.sequenced), 0);
            size = write_some(&box, bytes, capacity);
            assert_int_equal(feed(&in, bytes, size, 100000, seen), 0);
        }
        assert_int_equal(seen->count, 4 * TIDE_COUNT(sizes));
        assert_false(seen->damaged);
        for (size_t i = 0; i < seen->count; i++) {
            assert_int_equal(seen->calls[i], i);
        }
        assert_int_equal(in.sequenced, box.sent);
        assert_int_equal(tide__outbox_acked(&box, in.sequenced), 0);
        assert_int_equal(box.ring_frames, 0);
        assert_int_equal(box.ring_bytes, 0);
        assert_int_equal(tide__outbox_acked(&box, in.sequenced - 1), TIDE_EPROTO);
        assert_int_equal(tide__outbox_acked(&box, in.sequenced + 1), TIDE_EPROTO);
        free(seen);
        tide__decoder_deinit(&in);
        tide__outbox_clear(&box, NULL, NULL);
    }
    free(bytes);
}

static void a_full_ring_holds_frames_back_until_acknowledged(void **state) {
    (void)state;
    struct tide_outbox box;
    tide__outbox_init(&box, NULL);
    for (unsigned i = 0; i < tide_limit(net_ring_frames) + 1000; i++) {
        tide__outbox_push(&box, outgoing(TIDE_LANE_CONTROL, 20, 0, i));
    }
    size_t capacity = 1 << 20;
    uint8_t *bytes = malloc(capacity);
    write_some(&box, bytes, capacity);
    assert_int_equal(box.sent, tide_limit(net_ring_frames));
    assert_int_equal(box.ring_frames, tide_limit(net_ring_frames));
    assert_false(tide__outbox_empty(&box));
    struct tide_frame beat = {.kind = TIDE_FRAME_HEARTBEAT, .lane = TIDE_LANE_SYSTEM};
    assert_int_equal(tide__outbox_push_own(&box, &beat, "\xc0", 1), 0);
    assert_int_equal(write_some(&box, bytes, capacity), TIDE_FRAME_HEAD + 1); /* beats continue */
    assert_int_equal(tide__outbox_acked(&box, tide_limit(net_ring_frames)), 0);
    write_some(&box, bytes, capacity);
    assert_int_equal(box.sent, tide_limit(net_ring_frames) + 1000);
    assert_true(tide__outbox_empty(&box));
    tide__outbox_clear(&box, NULL, NULL);
    free(bytes);
}

/* However small the limits are: an empty ring takes one unit, an empty batch one frame. */
static void the_smallest_ring_lets_every_frame_pass(void **state) {
    (void)state;
    struct tide_outbox box;
    uint8_t *bytes = malloc(1 << 20);
    tide_limit(net_ring_frames) = 4;
    tide_limit(net_ring_bytes) = 4 << 10;
    tide_limit(net_batch_bytes) = 1;
    tide_limit(net_quantum_bytes) = 64;
    tide__outbox_init(&box, NULL);
    tide__outbox_push(&box, outgoing(TIDE_LANE_BULK, 300, 200 << 10, 1));  /* one unit of more than the ring */
    tide__outbox_push(&box, outgoing(TIDE_LANE_STORE, 300, 700 << 10, 2)); /* three fragments */
    for (unsigned writes = 0; !tide__outbox_empty(&box); writes++) {
        assert_in_range(writes, 0, 3);
        assert_true(write_some(&box, bytes, 1 << 20) > 0);
        assert_int_equal(box.ring_frames, 1);
        assert_int_equal(tide__outbox_acked(&box, box.sent), 0);
    }
    assert_int_equal(box.sent, 4);
    tide__outbox_clear(&box, NULL, NULL);
    free(bytes);
}

static int restore_limits(void **state) {
    (void)state;
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        tide__limit_values[i] = tide__limits[i].initial;
    }
    return 0;
}

static void frames_in_fragments_are_64_mib_at_one_time(void **state) {
    (void)state;
    struct tide_outbox box;
    tide__outbox_init(&box, NULL);
    box.parting = true; /* no ring */
    tide__outbox_push(&box, outgoing(TIDE_LANE_STORE, 40 << 20, 0, 1));
    tide__outbox_push(&box, outgoing(TIDE_LANE_BULK, 40 << 20, 0, 2));
    size_t capacity = 82 << 20;
    uint8_t *bytes = malloc(capacity);
    size_t size = write_some(&box, bytes, capacity);
    struct tide_decoder in;
    tide__decoder_init(&in, NULL);
    in.greeting = false;
    struct seen *seen = calloc(1, sizeof *seen);
    assert_int_equal(feed(&in, bytes, size, SIZE_MAX, seen), 0);
    assert_int_equal(seen->count, 2);
    assert_int_equal(box.open_bytes, 0);
    free(seen);
    free(bytes);
    tide__decoder_deinit(&in);
    tide__outbox_clear(&box, NULL, NULL);
    uint8_t b[600];
    size_t n = fragment(b, TIDE_LANE_STORE, 1, 40 << 20, 0, 10);
    n += fragment(b + n, TIDE_LANE_BULK, 1, 40 << 20, 0, 10);
    expect_refused(b, n, false); /* a peer that does not keep to it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detector_suspects_a_silent_peer_after_the_grace_and_200_ms),
        cmocka_unit_test(detector_is_more_patient_with_an_irregular_peer),
        cmocka_unit_test(detector_excuses_silence_of_its_own_standstill),
        cmocka_unit_test(hello_survives_the_wire),
        cmocka_unit_test(hello_and_refusal_have_the_bytes_of_their_version),
        cmocka_unit_test(hello_refuses_what_is_not_a_hello),
        cmocka_unit_test(hello_refuses_every_truncation),
        cmocka_unit_test(frames_of_all_sizes_survive_any_cutting),
        cmocka_unit_test(system_frame_waits_for_one_fragment_at_most),
        cmocka_unit_test(lanes_share_a_full_link_8_8_2_1),
        cmocka_unit_test(decoder_refuses_bad_lengths_and_fragments),
        cmocka_unit_test(a_ring_resumes_at_every_frame),
        cmocka_unit_test(a_full_ring_holds_frames_back_until_acknowledged),
        cmocka_unit_test_teardown(the_smallest_ring_lets_every_frame_pass, restore_limits),
        cmocka_unit_test(frames_in_fragments_are_64_mib_at_one_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
