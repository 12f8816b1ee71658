/* See pacer.h. */
#include "store/clocked/pacer.h"

uint64_t tide__pacer_rate(const struct tide__pacer *p, uint64_t bandwidth) {
    const uint64_t most = tide_peak_rate(&p->peak);
    return bandwidth ? bandwidth : most ? most / 10 * 9 : TIDE__PACER_RATE_FIRST;
}

static uint64_t bytes_in(uint64_t rate, uint64_t ns) {
    return (uint64_t)((double)rate * (double)ns / 1e9);
}

static void measure(struct tide__pacer *p, uint64_t now, uint64_t consumed, uint64_t under_way) {
    if (!p->busy_since) {
        const bool recent = p->at && now - p->at <= 2 * (uint64_t)TIDE__PACER_PERIOD_NS;
        p->busy_since = under_way ? (recent ? p->at : now) : 0;
        p->busy_consumed = recent ? p->consumed : consumed;
        return;
    }
    const uint64_t span = now - p->busy_since, bytes = consumed - p->busy_consumed;
    const bool full = span >= TIDE__PACER_SPAN_NS;
    if (span && (full || (under_way == 0 && bytes >= TIDE__PACER_SPAN_BYTES))) {
        tide_peak_rate_add(&p->peak, bytes, span);
    }
    if (full || under_way == 0) {
        p->busy_since = under_way ? now : 0;
        p->busy_consumed = consumed;
    }
}

uint64_t tide__pacer_allows(struct tide__pacer *p, uint64_t now, uint64_t sent, uint64_t consumed, uint64_t under_way,
                            uint64_t bandwidth) {
    measure(p, now, consumed, under_way);
    const uint64_t rate = tide__pacer_rate(p, bandwidth);
    const int64_t debt = -(int64_t)bytes_in(rate, TIDE__PACER_DEBT_NS);
    uint64_t quantum = bytes_in(rate, TIDE__PACER_PERIOD_NS), burst = bytes_in(rate, TIDE__PACER_BURST_NS);
    quantum = quantum > TIDE__PACER_QUANTUM_MIN ? quantum : TIDE__PACER_QUANTUM_MIN;
    burst = burst > quantum ? burst : quantum;
    if (p->at) {
        const uint64_t since = now - p->at < TIDE_SECOND ? now - p->at : TIDE_SECOND;
        const int64_t more = p->tokens + (int64_t)bytes_in(rate, since);
        p->tokens = more < (int64_t)burst ? more : (int64_t)burst;
        p->tokens -= (int64_t)(sent - p->sent);
        p->tokens = p->tokens > debt ? p->tokens : debt;
    }
    p->at = now;
    p->sent = sent;
    p->consumed = consumed;
    if (p->tokens <= 0 || under_way > burst) {
        return 0;
    }
    return (uint64_t)p->tokens < quantum ? (uint64_t)p->tokens : quantum;
}
