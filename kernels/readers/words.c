/*
 * Words in UTF-8; see words.h. The tables hold whole blocks of Unicode, not every character: what is punctuation, a
 * symbol or a blank, and the lower case of Latin, Greek, Cyrillic, Armenian and full-width letters.
 */
#include "readers/words.h"

#include <stdint.h>

static const struct range {
    uint32_t first, last;
} breaks[] = {
    {0x0, 0x2F},      {0x3A, 0x40},     {0x5B, 0x60},     {0x7B, 0xA9},     {0xAB, 0xB1},     {0xB4, 0xB4},
    {0xB6, 0xB8},     {0xBB, 0xBB},     {0xBF, 0xBF},     {0xD7, 0xD7},     {0xF7, 0xF7},     {0x2C2, 0x2C5},
    {0x2D2, 0x2DF},   {0x37E, 0x37E},   {0x384, 0x385},   {0x387, 0x387},   {0x3F6, 0x3F6},   {0x482, 0x482},
    {0x55A, 0x55F},   {0x589, 0x58F},   {0x5BE, 0x5BE},   {0x5C0, 0x5C0},   {0x5C3, 0x5C3},   {0x5C6, 0x5C6},
    {0x5F3, 0x5F4},   {0x600, 0x60F},   {0x61B, 0x61F},   {0x66A, 0x66D},   {0x6D4, 0x6D4},   {0x6DD, 0x6DE},
    {0x700, 0x70F},   {0x964, 0x965},   {0x970, 0x970},   {0xE3F, 0xE3F},   {0xE4F, 0xE4F},   {0xE5A, 0xE5B},
    {0xF01, 0xF17},   {0xF3A, 0xF3D},   {0x104A, 0x104F}, {0x10FB, 0x10FB}, {0x1360, 0x1368}, {0x1400, 0x1400},
    {0x166D, 0x166E}, {0x1680, 0x1680}, {0x17D4, 0x17D6}, {0x17D8, 0x17DB}, {0x1800, 0x180A}, {0x2000, 0x200B},
    {0x200E, 0x206F}, {0x207A, 0x207E}, {0x208A, 0x208E}, {0x20A0, 0x20CF}, {0x2100, 0x2101}, {0x2103, 0x2106},
    {0x2108, 0x2109}, {0x2114, 0x2114}, {0x2116, 0x2118}, {0x211E, 0x2123}, {0x2140, 0x2144}, {0x214A, 0x214D},
    {0x2190, 0x245F}, {0x249C, 0x24B5}, {0x2500, 0x2775}, {0x2794, 0x2BFF}, {0x2E00, 0x2E2E}, {0x2E30, 0x2E7F},
    {0x2E80, 0x2FFF}, {0x3000, 0x3004}, {0x3008, 0x3020}, {0x3030, 0x3030}, {0x303D, 0x303F}, {0x309B, 0x309C},
    {0x30A0, 0x30A0}, {0x30FB, 0x30FB}, {0xFD3E, 0xFD3F}, {0xFE10, 0xFE19}, {0xFE30, 0xFE6F}, {0xFEFF, 0xFEFF},
    {0xFF00, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}, {0xFFE0, 0xFFFF}, {0x1F000, 0x1FAFF},
};

static const struct fold {
    uint32_t first, last, step;
    int32_t by;
} folds[] = {
    {0x41, 0x5A, 1, 32},        {0xC0, 0xD6, 1, 32},     {0xD8, 0xDE, 1, 32},     {0x100, 0x12E, 2, 1},
    {0x130, 0x130, 1, -199},    {0x132, 0x136, 2, 1},    {0x139, 0x147, 2, 1},    {0x14A, 0x176, 2, 1},
    {0x178, 0x178, 1, -121},    {0x179, 0x17D, 2, 1},    {0x186, 0x186, 1, 206},  {0x189, 0x18A, 1, 205},
    {0x18E, 0x18E, 1, 79},      {0x18F, 0x18F, 1, 202},  {0x190, 0x190, 1, 203},  {0x1A0, 0x1A4, 2, 1},
    {0x1AF, 0x1AF, 1, 1},       {0x1CD, 0x1DB, 2, 1},    {0x1DE, 0x1EE, 2, 1},    {0x1F4, 0x1F4, 1, 1},
    {0x1F8, 0x21E, 2, 1},       {0x222, 0x232, 2, 1},    {0x246, 0x24E, 2, 1},    {0x370, 0x372, 2, 1},
    {0x386, 0x386, 1, 38},      {0x388, 0x38A, 1, 37},   {0x38C, 0x38C, 1, 64},   {0x38E, 0x38F, 1, 63},
    {0x391, 0x3A1, 1, 32},      {0x3A3, 0x3AB, 1, 32},   {0x3D8, 0x3EE, 2, 1},    {0x400, 0x40F, 1, 80},
    {0x410, 0x42F, 1, 32},      {0x460, 0x480, 2, 1},    {0x48A, 0x4BE, 2, 1},    {0x4C0, 0x4C0, 1, 15},
    {0x4C1, 0x4CD, 2, 1},       {0x4D0, 0x52E, 2, 1},    {0x531, 0x556, 1, 48},   {0x1E00, 0x1E94, 2, 1},
    {0x1E9E, 0x1E9E, 1, -7615}, {0x1EA0, 0x1EFE, 2, 1},  {0x1F08, 0x1F0F, 1, -8}, {0x1F18, 0x1F1D, 1, -8},
    {0x1F28, 0x1F2F, 1, -8},    {0x1F38, 0x1F3F, 1, -8}, {0x1F48, 0x1F4D, 1, -8}, {0x1F68, 0x1F6F, 1, -8},
    {0xFF21, 0xFF3A, 1, 32},
};

enum { NO_UTF8 = 0x110000 };

/* The code point at `at`, and how many bytes it takes; NO_UTF8: one byte that is none. */
static uint32_t decode(const char *at, const char *end, size_t *size) {
    const unsigned char *b = (const unsigned char *)at;
    const size_t left = (size_t)(end - at);
    const size_t length = b[0] < 0x80 ? 1 : b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 0;
    static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    *size = 1;
    if (length == 0 || length > left) {
        return NO_UTF8;
    }
    uint32_t point = b[0] & masks[length];
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xC0) != 0x80) {
            return NO_UTF8;
        }
        point = point << 6 | (b[i] & 0x3F);
    }
    if (point < least[length] || point > 0x10FFFF) {
        return NO_UTF8;
    }
    *size = length;
    return point;
}

static size_t encode(uint32_t point, char *out) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    const size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length; i-- > 1; point >>= 6) {
        out[i] = (char)(0x80 | (point & 0x3F));
    }
    out[0] = (char)(marks[length] | point);
    return length;
}

static bool is_letter(uint32_t point) {
    size_t low = 0, high = sizeof breaks / sizeof breaks[0]; /* of the first that ends at the point or behind it */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (breaks[middle].last < point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == sizeof breaks / sizeof breaks[0] || point < breaks[low].first;
}

/* '-' or '\'' of a hyphen or an apostrophe of any shape, else 0 */
static char joint(uint32_t point) {
    return point == '-' || point == 0x2010 || point == 0x2011 ? '-' : point == '\'' || point == 0x2019 ? '\'' : 0;
}

bool tide_words_next(const char **at, const char *end, const char **word, size_t *size) {
    size_t length;
    while (*at < end && !is_letter(decode(*at, end, &length))) {
        *at += length;
    }
    *word = *at;
    while (*at < end) {
        const uint32_t point = decode(*at, end, &length);
        size_t behind;
        const bool joins = joint(point) && *at + length < end && is_letter(decode(*at + length, end, &behind));
        if (!is_letter(point) && !joins) {
            break;
        }
        *at += length;
    }
    *size = (size_t)(*at - *word);
    return *size > 0;
}

static uint32_t lowered(uint32_t point) {
    for (size_t i = 0; i < sizeof folds / sizeof folds[0] && folds[i].first <= point; i++) {
        const struct fold *f = &folds[i];
        if (point <= f->last && (point - f->first) % f->step == 0) {
            return (uint32_t)((int32_t)point + f->by);
        }
    }
    return point;
}

size_t tide_words_write(const char *word, size_t size, bool lower, char *out) {
    const char *at = word, *end = word + size;
    size_t written = 0, length;
    while (at < end) {
        uint32_t point = decode(at, end, &length);
        if (point == NO_UTF8) {
            out[written++] = *at;
        } else {
            point = joint(point) ? (uint32_t)joint(point) : lower ? lowered(point) : point;
            written += encode(point, out + written);
        }
        at += length;
    }
    return written;
}
