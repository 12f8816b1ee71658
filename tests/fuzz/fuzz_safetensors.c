/*
 * safetensors headers: the input is a file; and it is a header alone, with a buffer of 16 bytes.
 * What is accepted has the promised layout, and its own header, written anew, is accepted too.
 */
#include "fuzz.h"
#include "wire/json.h"
#include "wire/safetensors.h"

static void check_rewrite(struct tide_safetensors *s) {
    struct tide_safetensors again;
    struct tide_writer w;
    uint64_t data_size;
    size_t size;
    tide_writer_init(&w, NULL, 0);
    FUZZ_CHECK(tide_safetensors_header(s->tensors, s->count, s->metadata, s->metadata_count, &w,
                                       &data_size) == 0);
    FUZZ_CHECK(tide_safetensors_header_size(w.data, w.size + data_size, &size) == 0);
    FUZZ_CHECK(tide_safetensors_parse(w.data + 8, size, w.size + data_size, &again) == 0);
    FUZZ_CHECK(again.count == s->count && again.metadata_count == s->metadata_count);
    tide_safetensors_release(&again);
    tide_writer_release(&w);
}

static void check(const void *header, size_t size, uint64_t file_size) {
    struct tide_safetensors s;
    uint64_t at = 0;
    if (tide_safetensors_parse(header, size, file_size, &s) != 0) {
        FUZZ_CHECK(!s.tensors && !s.pool);
        return;
    }
    for (size_t i = 0; i < s.count; i++) {
        const struct tide_safetensor *t = &s.tensors[i];
        uint64_t bytes = tide_dtype_size(t->dtype);
        for (size_t k = 0; k < t->rank; k++) {
            bytes *= t->shape[k];
        }
        FUZZ_CHECK(t->begin == at && t->end >= at && t->end - t->begin == bytes);
        FUZZ_CHECK(tide_safetensors_find(&s, t->name) == t);
        at = t->end;
    }
    FUZZ_CHECK(s.data + at == file_size);
    check_rewrite(&s);
    tide_safetensors_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t header;
    if (size >= TIDE_SAFETENSORS_PREFIX && tide_safetensors_header_size(data, size, &header) == 0) {
        FUZZ_CHECK(header <= size - TIDE_SAFETENSORS_PREFIX);
        check(data + TIDE_SAFETENSORS_PREFIX, header, size);
    }
    check(data, size, TIDE_SAFETENSORS_PREFIX + size + 16);
    return 0;
}
