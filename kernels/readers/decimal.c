/* Decimal numbers in texts. */
#include "readers/text.h"

#include <math.h>

static double scaled(double mantissa, int exponent) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    while (exponent > 22) {
        mantissa *= 1e22;
        exponent -= 22;
    }
    while (exponent < -22) {
        mantissa /= 1e22;
        exponent += 22;
    }
    return exponent < 0 ? mantissa / powers[-exponent] : mantissa * powers[exponent];
}

bool tide_text_double(const char *at, size_t size, double *out) {
    const char *end = at + size;
    uint64_t mantissa = 0;
    int exponent = 0, digits = 0;
    bool negative = at < end && *at == '-', point = false;
    at += at < end && (*at == '-' || *at == '+');
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
    if (digits == 0 || size > 400) {
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
    double value = mantissa == 0     ? 0
                   : exponent > 400  ? (double)INFINITY
                   : exponent < -800 ? 0
                                     : scaled((double)mantissa, exponent);
    *out = negative ? -value : value;
    return at == end && isfinite(*out);
}

bool tide_text_number(const char *at, size_t size, float *out) {
    double value;
    if (!tide_text_double(at, size, &value)) {
        return false;
    }
    *out = (float)value;
    return isfinite(*out);
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
