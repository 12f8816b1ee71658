/* Values of two bytes on the wire: IEEE half precision and bfloat16, rounded to nearest, ties to
 * even. */
#include "tide/table.h"
#include "wire/wire.h"

static uint16_t to_bfloat(uint32_t bits) {
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)((bits >> 16) | 0x40); /* a NaN stays one */
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static uint16_t to_half(uint32_t bits) {
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x7f800000) {
        return (uint16_t)(sign | 0x7c00 | (magnitude > 0x7f800000 ? 0x200 : 0));
    }
    if (magnitude >= 0x477ff000) { /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { /* subnormal or zero: adding 0.5 puts the rounded bits at the bottom */
        float value;
        memcpy(&value, &magnitude, sizeof value);
        value += 0.5f;
        memcpy(&magnitude, &value, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xc8000fff + ((magnitude >> 13) & 1); /* exponent bias 127 -> 15, then round */
    return (uint16_t)(sign | (magnitude >> 13));
}

static uint32_t from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest >= 0x7c00) {
        return sign | 0x7f800000 | (rest & 0x3ff) << 13;
    }
    if (rest < 0x400) { /* zero or subnormal: exact in f32 */
        float value = (float)rest * 0x1p-24f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        return sign | bits;
    }
    return sign | ((rest << 13) + 0x38000000);
}

void tide__floats_to_half(const void *from, void *to, size_t count, uint8_t wire_type) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)from + i * 4, sizeof bits);
        uint16_t half = wire_type == TIDE_WIRE_F16 ? to_half(bits) : to_bfloat(bits);
        memcpy((char *)to + i * 2, &half, sizeof half);
    }
}

void tide__half_to_floats(const void *from, void *to, size_t count, uint8_t wire_type) {
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)from + i * 2, sizeof half);
        uint32_t bits = wire_type == TIDE_WIRE_F16 ? from_half(half) : (uint32_t)half << 16;
        memcpy((char *)to + i * 4, &bits, sizeof bits);
    }
}
