/* How much may be in flight; see send_window.h. */
#include "exchange/send_window.h"

static size_t wanted(const struct tide__send_window *w) {
    const double ahead_ns = (double)tide_limit(exchange_window) + 1.25 * (double)w->delay_ns;
    const double bytes = (double)tide_peak_rate(&w->peak) * 1e-9 * ahead_ns;
    return bytes < 1e15 ? (size_t)bytes : (size_t)1e15;
}

size_t tide__send_window_look(struct tide__send_window *w, uint64_t now, uint64_t consumed, uint64_t under_way,
                              size_t size, size_t most) {
    const size_t held = size > w->bytes ? size : w->bytes;
    if (w->at != 0 && under_way != 0) { /* so there was something all the time since */
        w->span_ns += now - w->at;
        w->span_bytes += consumed - w->consumed;
    }
    if (w->span_ns > 0 && w->span_bytes >= 2 * held) {                  /* enough for what comes at a time */
        const double rate = (double)w->span_bytes / (double)w->span_ns; /* bytes/ns */
        const uint64_t delay = 1 + (uint64_t)((double)held / rate);
        tide_peak_rate_add(&w->peak, w->span_bytes, w->span_ns);
        w->delay_ns = w->delay_ns == 0 || delay < w->delay_ns ? delay : w->delay_ns;
        w->span_ns = w->span_bytes = 0;
    }
    w->at = now;
    w->consumed = consumed;
    w->bytes = wanted(w);
    w->bytes = w->bytes < most && !TIDE_MUTANT(exchange_all_leaves) ? w->bytes : most;
    const uint64_t least = tide_limit(exchange_window_least_bytes);
    w->bytes = w->bytes > least ? w->bytes : least;
    return w->bytes;
}
