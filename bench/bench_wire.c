/* The wire: a small frame there and back, the pre-scan, a typed array by reference and by copy.
 * Best of five. bench_wire [--json] */
#include "bench/report.h"
#include "wire/json.h"
#include "tide/message.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 5, SMALL = 2000000, KEYS = 1 << 20 };

static uint64_t sink; /* keeps results alive */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds of the best of a few runs of `body(arg)`. */
static double best(void (*body)(void *), void *arg) {
    double least = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds();
        body(arg);
        double took = seconds() - start;
        least = took < least ? took : least;
    }
    return least;
}

/* ---- a small frame: {op: "pull", table: 7, keys: typed[4], clock: 123456} ---- */

static size_t encode_small(uint8_t *out, size_t capacity, uint64_t i) {
    static const uint64_t keys[4] = {1, 2, 3, 4};
    struct tide_frame frame = {
        .kind = TIDE_FRAME_CALL, .lane = TIDE_LANE_STORE, .to = i, .from = 2};
    struct tide_writer w;
    frame.call = i;
    tide_writer_init(&w, out + TIDE_FRAME_HEAD, capacity - TIDE_FRAME_HEAD);
    tide_write_map(&w, 4);
    tide_write_string(&w, "op", 2);
    tide_write_string(&w, "pull", 4);
    tide_write_string(&w, "table", 5);
    tide_write_uint(&w, 7);
    tide_write_string(&w, "keys", 4);
    tide_write_typed(&w, TIDE_U64, keys, 4);
    tide_write_string(&w, "clock", 5);
    tide_write_uint(&w, 123456 + (i & 1023));
    tide_frame_head(out, &frame, w.size);
    return TIDE_FRAME_HEAD + w.size;
}

static uint64_t decode_small(const uint8_t *data, size_t size) {
    struct tide_frame frame;
    struct tide_reader r;
    size_t length, count = 0;
    int64_t whole = tide_frame_length(data, size, TIDE_FRAME_MAX);
    if (whole < 0 || tide_frame_parse(data + 4, (size_t)whole - 4, &frame) != 0) {
        return 0;
    }
    tide_reader_init(&r, frame.body, frame.body_size);
    size_t pairs = tide_read_map(&r);
    (void)tide_read_string(&r, &length);
    (void)tide_read_string(&r, &length);
    (void)tide_read_string(&r, &length);
    uint64_t table = tide_read_uint(&r);
    (void)tide_read_string(&r, &length);
    (void)tide_read_typed(&r, TIDE_U64, &count);
    (void)tide_read_string(&r, &length);
    return r.error != 0 ? 0 : pairs + table + count + tide_read_uint(&r) + frame.call;
}

static void encode_many(void *arg) {
    for (uint64_t i = 0; i < SMALL; i++) {
        uint8_t bytes[256];
        sink += encode_small(bytes, sizeof bytes, i) + bytes[40];
    }
    (void)arg;
}

static void decode_many(void *arg) {
    uint8_t bytes[256];
    size_t size = encode_small(bytes, sizeof bytes, 1);
    for (uint64_t i = 0; i < SMALL; i++) {
        sink += decode_small(bytes, size);
    }
    (void)arg;
}

static void scan_many(void *arg) {
    uint8_t bytes[256];
    size_t size = encode_small(bytes, sizeof bytes, 1);
    for (uint64_t i = 0; i < SMALL; i++) {
        sink += (uint64_t)(tide_scan(bytes + TIDE_FRAME_HEAD, size - TIDE_FRAME_HEAD) == 0);
    }
    (void)arg;
}

static void tree_many(void *arg) {
    uint8_t bytes[256];
    size_t size = encode_small(bytes, sizeof bytes, 1);
    for (uint64_t i = 0; i < SMALL / 4; i++) {
        struct tide_view value;
        sink += (uint64_t)(tide_view_open(bytes + TIDE_FRAME_HEAD, size - TIDE_FRAME_HEAD,
                                             &value) == 0);
        tide_view_release(&value);
    }
    (void)arg;
}

/* ---- larger bodies ---- */

static void scan_body(void *arg) {
    struct tide_writer *w = arg;
    for (int i = 0; i < 50; i++) {
        sink += (uint64_t)(tide_scan(w->data, w->size) == 0);
    }
}

static void skip_body(void *arg) {
    struct tide_writer *w = arg;
    for (int i = 0; i < 50; i++) {
        struct tide_reader r;
        tide_reader_init(&r, w->data, w->size);
        tide_read_skip(&r);
        sink += (uint64_t)(r.error == 0);
    }
}

static void json_body(void *arg) {
    struct tide_writer *w = arg;
    char *text;
    size_t size;
    if (tide_json_from_msgpack(w->data, w->size, &text, &size) == 0) {
        sink += size;
        tide_free(text);
    }
}

/* 4,096 maps of mixed small values: 61,441 items, near the limit. */
static void fill_mixed(struct tide_writer *w) {
    tide_write_array(w, 4096);
    for (uint64_t i = 0; i < 4096; i++) {
        tide_write_map(w, 5);
        tide_write_text(w, "name");
        tide_write_text(w, "worker of the seventh shard");
        tide_write_text(w, "count");
        tide_write_uint(w, i * 977);
        tide_write_text(w, "rate");
        tide_write_double(w, (double)i / 3);
        tide_write_text(w, "up");
        tide_write_bool(w, true);
        tide_write_text(w, "row");
        tide_write_array(w, 4);
        for (uint64_t k = 0; k < 4; k++) {
            tide_write_uint(w, k * i);
        }
    }
}

static uint64_t *keys;

static void typed_by_reference(void *arg) {
    struct tide_writer *w = arg;
    for (int i = 0; i < SMALL; i++) {
        struct tide_reader r;
        size_t count;
        tide_reader_init(&r, w->data, w->size);
        sink +=
            (uint64_t)((const uint8_t *)tide_read_typed(&r, TIDE_U64, &count) - w->data) + count;
    }
}

static void typed_head(void *arg) {
    for (size_t i = 0; i < SMALL; i++) {
        uint8_t bytes[64];
        struct tide_writer w;
        tide_writer_init(&w, bytes, sizeof bytes);
        tide_write_typed_head(&w, TIDE_U64, KEYS + (i & 1));
        sink += w.size;
    }
    (void)arg;
}

static void typed_by_copy(void *arg) {
    struct tide_writer *w = arg;
    for (int i = 0; i < 20; i++) {
        w->size = 0;
        tide_write_typed(w, TIDE_U64, keys, KEYS);
        sink += w->data[w->size / 2];
    }
}

int main(int argc, char **argv) {
    struct tide_writer mixed, array;
    uint8_t bytes[256];
    report_init(argc, argv, "wire");
    tide_writer_init(&mixed, NULL, 0);
    tide_writer_init(&array, NULL, 0);
    keys = tide_alloc_zero(KEYS, sizeof *keys);
    if (!keys) {
        return 1;
    }
    fill_mixed(&mixed);
    double megabytes = (double)mixed.size / 1e6;

    report_row("small frame: bytes", "B", (double)encode_small(bytes, sizeof bytes, 1));
    report_row("small frame: encode", "ns", best(encode_many, NULL) / SMALL * 1e9);
    report_row("small frame: decode by cursor", "ns", best(decode_many, NULL) / SMALL * 1e9);
    report_row("small body: scan", "ns", best(scan_many, NULL) / SMALL * 1e9);
    report_row("small body: scan and msgpack-c tree", "ns",
               best(tree_many, NULL) / (SMALL / 4.0) * 1e9);
    report_row("mixed body: scan", "MB/s", 50 * megabytes / best(scan_body, &mixed));
    report_row("mixed body: skip", "MB/s", 50 * megabytes / best(skip_body, &mixed));
    report_row("mixed body: to JSON", "MB/s", megabytes / best(json_body, &mixed));
    report_row("8 MiB of keys: encode by copy", "MB/s",
               20 * 8.388608 / best(typed_by_copy, &array));
    report_row("8 MiB of keys: encode by reference", "ns", best(typed_head, NULL) / SMALL * 1e9);
    report_row("8 MiB of keys: decode by reference", "ns",
               best(typed_by_reference, &array) / SMALL * 1e9);

    tide_writer_release(&mixed);
    tide_writer_release(&array);
    tide_free(keys);
    return sink == 0;
}
