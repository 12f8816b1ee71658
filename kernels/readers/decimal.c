/* Decimal numbers in texts. */
#define _GNU_SOURCE 1 /* strtod_l */
#include "readers/text.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MOST = 400 }; /* characters */

/* Nearest to the digits. Exact where both factors are (Clinger, PLDI 1990); else the C library's way, in no locale. */
static double nearest(uint64_t mantissa, int exponent, const char *digits, size_t size) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (mantissa <= UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22) {
        return exponent < 0 ? (double)mantissa / powers[-exponent] : (double)mantissa * powers[exponent];
    }
    char text[NUMBER_MOST + 1];
    memcpy(text, digits, size);
    text[size] = '\0';
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) {
        return (double)NAN;
    }
    const double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    return value;
}

bool tide_text_double(const char *at, size_t size, double *out) {
    const char *end = at + size;
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool negative = at < end && *at == '-', point = false;
    at += at < end && (*at == '-' || *at == '+');
    const char *first = at;
    for (; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        digits++;
        bool kept = mantissa < UINT64_C(1000000000000000000);
        mantissa = kept ? 10 * mantissa + (uint64_t)(*at - '0') : mantissa;
        exponent += kept ? -point : !point;
    }
    if (digits == 0 || size > NUMBER_MOST) {
        return false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int power = 0;
        bool below = ++at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end) {
            return false;
        }
        for (; at < end && *at >= '0' && *at <= '9'; at++) {
            power = power < 10000 ? 10 * power + (*at - '0') : power;
        }
        exponent += below ? -power : power;
    }
    if (at != end) {
        return false;
    }
    const double value = mantissa == 0 ? 0 : nearest(mantissa, exponent, first, (size_t)(end - first));
    *out = negative ? -value : value;
    return isfinite(*out);
}

bool tide_narrow_exact(uint64_t magnitude, int bits) {
    return magnitude == 0 || magnitude >> __builtin_ctzll(magnitude) >> bits == 0;
}

enum tide_narrow tide_narrow_f32(double value, float *out) {
    *out = (float)value;
    if (!isfinite(value)) {
        return TIDE_NARROW_FITS;
    }
    if (!isfinite(*out)) {
        return TIDE_NARROW_BEYOND;
    }
    const double size = fabs(value);
    return size > 0x1p24 && size <= 0x1p53 && floor(size) == size && !tide_narrow_exact((uint64_t)size, 24)
               ? TIDE_NARROW_ROUNDS
               : TIDE_NARROW_FITS;
}

bool tide_text_number(const char *at, size_t size, float *out) {
    double value;
    return tide_text_double(at, size, &value) && tide_narrow_f32(value, out) == TIDE_NARROW_FITS;
}

bool tide_text_count(const char *at, size_t size, uint64_t most, uint64_t *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (at[i] < '0' || at[i] > '9') {
            return false;
        }
        value = 10 * value + (uint64_t)(at[i] - '0');
        if (value > most) {
            return false;
        }
    }
    *out = value;
    return size > 0;
}
