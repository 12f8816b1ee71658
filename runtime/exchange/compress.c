/*
 * Short forms of a chunk of values: the largest few, or signs, and what is kept of what they lose;
 * and without the zeros, of which nothing is lost. The same values give the same bytes everywhere:
 * ties go to the lower place.
 *
 *   topk    k x u32 place, rising; k x f32 value; k = ceil(count / 100)
 *   onebit  of each block of 1024 (the last may be shorter): f32 mean of the values below 0, f32
 *           mean of the others, then a bit a value, from the lowest of the first byte: 1 = not
 * below 0 sparse  a bit a value, as there: 1 = not +0; then those values as f32
 */
#include "exchange/internal.h"

#include <math.h>

enum { SHARE_OF = 100, BLOCK = 1024, BUCKETS = 1 << 16 };

static size_t kept_of(size_t count) {
    return (count + SHARE_OF - 1) / SHARE_OF;
}

size_t tide__compressed_size(size_t count, uint8_t format) {
    return format == TIDE_FORMAT_TOPK
               ? 8 * kept_of(count)
               : count / BLOCK * (8 + BLOCK / 8) + (count % BLOCK ? 8 + (count % BLOCK + 7) / 8 : 0);
}

/* ---- the largest ---- */

static uint32_t magnitude(float value) { /* as an integer of the same order; NaN is the largest */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffff;
}

/* The highest of those halves of magnitudes for which at least `wanted` values are at or above it,
 * and how many are above. Of the magnitudes whose high half is `high`, the low ones; with `high`
 * beyond all, the high ones of all. */
static uint32_t find_half(const float *from, size_t count, uint32_t high, size_t wanted, uint32_t *buckets,
                          size_t *above) {
    memset(buckets, 0, BUCKETS * sizeof *buckets);
    for (size_t i = 0; i < count; i++) {
        uint32_t m = magnitude(from[i]);
        if (high == BUCKETS) {
            buckets[m >> 16]++;
        } else if (m >> 16 == high) {
            buckets[m & 0xffff]++;
        }
    }
    size_t sum = 0;
    uint32_t at = BUCKETS - 1;
    for (; sum + buckets[at] < wanted; at--) {
        sum += buckets[at];
    }
    *above = sum;
    return at;
}

static int keep_largest(const float *from, uint8_t *to, size_t count) {
    size_t k = kept_of(count), above_high, above_low;
    uint32_t *buckets = tide_alloc(BUCKETS * sizeof *buckets);
    if (!buckets) {
        return TIDE_ENOMEM;
    }
    uint32_t high = find_half(from, count, BUCKETS, k, buckets, &above_high);
    uint32_t low = find_half(from, count, high, k - above_high, buckets, &above_low);
    tide_free(buckets);
    uint32_t least = high << 16 | low;
    size_t ties = k - above_high - above_low, at = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t m = magnitude(from[i]), place = (uint32_t)i;
        if (m < least || (m == least && ties == 0)) {
            continue;
        }
        ties -= m == least;
        memcpy(to + 4 * at, &place, 4);
        memcpy(to + 4 * k + 4 * at, &from[i], 4);
        at++;
    }
    TIDE_ASSERT(at == k);
    return 0;
}

static int spread_largest(const uint8_t *from, float *to, size_t count) {
    size_t k = kept_of(count);
    int64_t before = -1;
    memset(to, 0, count * sizeof *to);
    for (size_t i = 0; i < k; i++) {
        uint32_t place;
        memcpy(&place, from + 4 * i, 4);
        if (place >= count || (int64_t)place <= before) {
            return tide_fail(TIDE_EPROTO, "place %u of %zu values out of order", place, count);
        }
        memcpy(&to[place], from + 4 * k + 4 * i, 4);
        before = place;
    }
    return 0;
}

/* ---- signs ---- */

static void keep_signs(const float *from, uint8_t *to, size_t count) {
    double sums[2] = {0, 0};
    size_t counts[2] = {0, 0};
    uint8_t *bits = to + 8;
    memset(bits, 0, (count + 7) / 8);
    for (size_t i = 0; i < count; i++) {
        int sign = !(from[i] < 0);
        sums[sign] += (double)from[i];
        counts[sign]++;
        bits[i / 8] |= (uint8_t)(sign << i % 8);
    }
    for (int sign = 0; sign < 2; sign++) {
        float mean = counts[sign] ? (float)(sums[sign] / (double)counts[sign]) : 0;
        memcpy(to + 4 * sign, &mean, 4);
    }
}

static void spread_signs(const uint8_t *from, float *to, size_t count) {
    float means[2];
    memcpy(means, from, sizeof means);
    for (size_t i = 0; i < count; i++) {
        to[i] = means[from[8 + i / 8] >> i % 8 & 1];
    }
}

/* ---- without zeros ---- */

struct tide_blob *tide__sparse_blob(const float *from, size_t count) {
    size_t there = 0, map = (count + 7) / 8;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], 4);
        there += bits != 0;
    }
    struct tide_blob *blob = tide_blob_create(map + 4 * there);
    if (!blob) {
        return NULL;
    }
    uint8_t *bytes = blob->data, *at = bytes + map;
    memset(bytes, 0, map);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], 4);
        if (bits != 0) {
            bytes[i / 8] |= (uint8_t)(1 << i % 8);
            memcpy(at, &bits, 4);
            at += 4;
        }
    }
    return blob;
}

int tide__sparse_expand(const uint8_t *from, size_t size, float *to, size_t count) {
    size_t map = (count + 7) / 8, at = map;
    bool fits = size >= map && (count % 8 == 0 || from[map - 1] >> count % 8 == 0);
    for (size_t i = 0; i < count && fits; i++) {
        bool there = from[i / 8] >> i % 8 & 1;
        fits = !there || size - at >= 4;
        to[i] = 0;
        if (there && fits) {
            memcpy(&to[i], from + at, 4);
            at += 4;
        }
    }
    return fits && at == size ? 0 : tide_fail(TIDE_EPROTO, "%zu bytes of %zu values without their zeros", size, count);
}

/* ---- lossy ---- */

int tide__compress(const float *from, uint8_t *to, size_t count, uint8_t format) {
    if (format == TIDE_FORMAT_TOPK) {
        return count > 0 ? keep_largest(from, to, count) : 0;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t size = count - at < BLOCK ? count - at : BLOCK;
        keep_signs(from + at, to, size);
        to += 8 + (size + 7) / 8;
    }
    return 0;
}

int tide__expand(const uint8_t *from, float *to, size_t count, uint8_t format) {
    if (format == TIDE_FORMAT_TOPK) {
        return spread_largest(from, to, count);
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t size = count - at < BLOCK ? count - at : BLOCK;
        spread_signs(from, to + at, size);
        from += 8 + (size + 7) / 8;
    }
    return 0;
}

struct tide_blob *tide__exchange_blob_keeping(const float *from, float *kept, size_t count, uint8_t format) {
    float *whole = tide_alloc((2 * count + 1) * sizeof *whole), *arrives = whole + count;
    if (!whole) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        whole[i] = from[i] + kept[i];
    }
    struct tide_blob *blob = tide__exchange_blob(whole, count, format);
    if (blob) {
        (void)tide__exchange_decode(blob->data, arrives, count, format); /* our own bytes */
        for (size_t i = 0; i < count; i++) {
            float lost = whole[i] - arrives[i];
            kept[i] = isfinite(lost) ? lost : 0; /* what is beyond the format must not come back */
        }
    }
    tide_free(whole);
    return blob;
}
