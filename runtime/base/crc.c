/*
 * CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected), as in iSCSI (RFC 3720, appendix B.4): by
 * the processor's instruction where there is one (SSE 4.2), else by a table of 256 entries.
 */
#include "base/base.h"

#include <string.h>

static uint32_t table[256];

/* Before main: no thread is there yet that could look. */
__attribute__((constructor)) static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = (c >> 1) ^ (UINT32_C(0x82f63b78) & (0u - (c & 1u)));
        }
        table[i] = c;
    }
}

uint32_t tide__crc32c_table(uint32_t crc, const void *data, size_t size) {
    const uint8_t *at = data;
    crc = ~crc;
    for (; size > 0; size--) {
        crc = (crc >> 8) ^ table[(crc ^ *at++) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data, size_t size) {
    const uint8_t *at = data;
    uint64_t c = (uint32_t)~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t eight;
        memcpy(&eight, at, sizeof eight);
        c = __builtin_ia32_crc32di(c, eight);
    }
    for (; size > 0; size--) {
        c = __builtin_ia32_crc32qi((uint32_t)c, *at++);
    }
    return ~(uint32_t)c;
}
#endif

uint32_t tide_crc32c(uint32_t crc, const void *data, size_t size) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        return by_instruction(crc, data, size);
    }
#endif
    return tide__crc32c_table(crc, data, size);
}
