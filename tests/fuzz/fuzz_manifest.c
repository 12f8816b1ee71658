/*
 * What restore reads before it trusts anything: a manifest (first byte 0: as it is; 1: the inner
 * object alone, given the sum it should have, so that the fields are reached), and block sums (2).
 * What is accepted keeps its promises, and a manifest written anew is read as the same.
 */
#include "fuzz.h"
#include "store/checkpoint/blocks.h"
#include "store/checkpoint/manifest.h"

static void check_manifest(const char *text, size_t size) {
    struct tide__manifest m, again;
    if (tide__manifest_parse(text, size, &m) == 0) {
        char *written;
        size_t written_size;
        FUZZ_CHECK(m.chain_count > 0 && m.chain_count <= TIDE__INCREMENTS_MAX);
        FUZZ_CHECK(m.chain[m.chain_count - 1] == m.generation);
        for (size_t t = 0; t < m.table_count; t++) {
            FUZZ_CHECK(tide_identifier_valid(m.tables[t].name));
            for (size_t i = 0; i < m.tables[t].file_count; i++) {
                FUZZ_CHECK(!strchr(m.tables[t].files[i].name, '/'));
            }
        }
        if (tide__manifest_write(&m, NULL, &written, &written_size) == 0) {
            FUZZ_CHECK(tide__manifest_parse(written, written_size, &again) == 0);
            FUZZ_CHECK(again.generation == m.generation && again.id == m.id);
            FUZZ_CHECK(again.table_count == m.table_count);
            tide__manifest_release(&again);
            tide_free(written);
        }
    }
    tide__manifest_release(&m);
}

static void check_body(const uint8_t *body, size_t size) {
    static const char head[] = "{\"crc32c\":\"", middle[] = "\",\"manifest\":";
    char *text = malloc(size + 64);
    int at = sprintf(text, "%s%08x%s", head, (unsigned)tide_crc32c(0, body, size), middle);
    memcpy(text + at, body, size);
    memcpy(text + at + size, "}\n", 2);
    check_manifest(text, (size_t)at + size + 2);
    free(text);
}

static void check_sums(const uint8_t *data, size_t size) {
    struct tide__sums sums;
    if (tide__sums_parse(data, size, &sums) == 0) {
        FUZZ_CHECK(sums.count * (uint64_t)TIDE__BLOCK_BYTES >= sums.size);
        FUZZ_CHECK(sums.count == 0 || sums.sums[sums.count - 1] + UINT64_C(1) > 0);
    }
    tide__sums_release(&sums);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0: {
        char *text = malloc(size);
        memcpy(text, data + 1, size - 1);
        check_manifest(text, size - 1);
        free(text);
        break;
    }
    case 1:
        check_body(data + 1, size - 1);
        break;
    default:
        check_sums(data + 1, size - 1);
        break;
    }
    return 0;
}
