/* Bytes of strangers: the three handshake bodies, and the decoder of a link before and after its
 * hello. */
#include "net/link/hello.h"
#include "net/link/decoder.h"

#include <stdlib.h>
#include <string.h>

static int seen(void *arg, const struct tide_frame *frame, struct tide_blob *owner) {
    uint64_t *sum = arg;
    const uint8_t *start = owner->data;
    if (frame->body < start || frame->body + frame->body_size > start + owner->size) {
        abort(); /* a body outside of what keeps it alive */
    }
    for (size_t i = 0; i < frame->body_size; i++) {
        *sum += frame->body[i];
    }
    return 0;
}

static void feed(const uint8_t *data, size_t size, bool greeting, size_t piece) {
    struct tide_decoder decoder;
    uint64_t sum = 0;
    tide__decoder_init(&decoder, NULL);
    decoder.greeting = greeting;
    while (size > 0) {
        void *at;
        size_t room;
        if (tide__decoder_buffer(&decoder, &at, &room) != 0) {
            break;
        }
        size_t n = size < room ? size : room;
        n = n < piece ? n : piece;
        memcpy(at, data, n);
        if (tide__decoder_received(&decoder, n, seen, &sum) != 0) {
            break;
        }
        data += n;
        size -= n;
    }
    tide__decoder_deinit(&decoder);
}

/* What is accepted must be within its rules and survive being written again. */
static void hello(const uint8_t *data, size_t size) {
    struct tide_hello first, second;
    if (tide_hello_parse(data, size, &first) != 0) {
        return;
    }
    if (!tide_identifier_valid(first.cluster) || first.incarnation == 0) {
        abort();
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide__hello_write(&w, &first);
    if (w.error == 0 && (tide_hello_parse(w.data, w.size, &second) != 0 ||
                         strcmp(first.endpoint, second.endpoint) != 0 ||
                         strcmp(first.to, second.to) != 0 || first.pid != second.pid)) {
        abort();
    }
    tide_writer_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tide_welcome welcome;
    int code;
    char text[200];
    hello(data, size);
    (void)tide__welcome_parse(data, size, &welcome);
    (void)tide__refusal_parse(data, size, &code, text, sizeof text);
    size_t piece = size > 0 ? (size_t)data[0] + 1 : 1;
    feed(data, size, true, piece);
    feed(data, size, false, piece);
    return 0;
}
