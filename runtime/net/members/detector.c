/*
 * The accrual detector: phi = -log10(P(no beat for t)), with the normal tail approximated by a
 * logistic curve, y = (t - m - grace) / d, q = exp(-y (1.5976 + 0.070566 y^2)), P = q / (1 + q),
 * mean m and deviation d of the last 200 intervals between beats (d >= 20 ms), and the grace that
 * the state of the machine asks for (local_health.c). With beats of 100 ms a silent peer is suspected the
 * grace and about 0.2 s after its last sign of life; an irregular one is given more time.
 */
#include "net/members/detector.h"
#include "base/base.h"

#include <math.h>

static const double deviation_us_min = 20e3;
static const uint64_t sample_us_max = 10000000; /* bounds the squares: 200 * (10^7)^2 fits 64 bits */

static void sample(struct tide_detector *d, uint64_t interval_ns) {
    uint64_t us = interval_ns / 1000;
    if (us > sample_us_max) {
        us = sample_us_max;
    }
    if (d->count == TIDE_DETECTOR_WINDOW) {
        uint64_t old = d->window_us[d->next];
        d->sum -= old;
        d->squares -= old * old;
    } else {
        d->count++;
    }
    d->window_us[d->next] = (uint32_t)us;
    d->sum += us;
    d->squares += us * us;
    d->next = (d->next + 1) % TIDE_DETECTOR_WINDOW;
}

void tide__detector_init(struct tide_detector *d, uint64_t now, uint64_t interval) {
    *d = (struct tide_detector){.last = now, .sampled = now};
    sample(d, interval - interval / 5);
    sample(d, interval + interval / 5);
}

void tide__detector_beat(struct tide_detector *d, uint64_t now, uint64_t interval) {
    if (now < d->last) {
        return;
    }
    d->last = now;
    if (now - d->sampled >= interval / 2) {
        sample(d, now - d->sampled);
        d->sampled = now;
    }
}

void tide__detector_excuse(struct tide_detector *d, uint64_t now, uint64_t duration) {
    d->last += duration;
    if (d->last > now) {
        d->last = now;
    }
    d->sampled = d->last;
}

double tide__detector_phi(const struct tide_detector *d, uint64_t now, uint64_t grace) {
    if (now <= d->last || d->count == 0) {
        return 0;
    }
    double n = d->count;
    double mean = (double)d->sum / n;
    double variance = (double)d->squares / n - mean * mean;
    double deviation = variance > 0 ? sqrt(variance) : 0;
    if (deviation < deviation_us_min) {
        deviation = deviation_us_min;
    }
    double y = ((double)(now - d->last) / 1000 - mean - (double)grace / 1000) / deviation;
    if (y < -8) { /* far inside the usual: the curve is 1 to the last bit */
        return 0;
    }
    double q = exp(-y * (1.5976 + 0.070566 * y * y));
    return -log10(q / (1 + q));
}
