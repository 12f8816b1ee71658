/* Rates and token buckets of links; see link_rate.h. */
#include "store/clocked/link_rate.h"

uint64_t tide__pace_rate(const struct tide__pace *p, uint64_t bandwidth) {
    uint64_t most = 0;
    for (size_t i = 0; i < TIDE__PACE_SPANS; i++) {
        most = p->rates[i] > most ? p->rates[i] : most;
    }
    most = most ? most / 10 * 9 : TIDE__PACE_RATE_FIRST;
    return bandwidth ? bandwidth : most;
}

static uint64_t bytes_in(uint64_t rate, uint64_t ns) {
    return (uint64_t)((double)rate * (double)ns / 1e9);
}

static void measure(struct tide__pace *p, uint64_t now, uint64_t consumed, uint64_t under_way) {
    if (!p->busy_since) {
        const bool recent = p->at && now - p->at <= 2 * (uint64_t)TIDE__PACE_PERIOD_NS;
        p->busy_since = under_way ? (recent ? p->at : now) : 0;
        p->busy_consumed = recent ? p->consumed : consumed;
        return;
    }
    const uint64_t span = now - p->busy_since, bytes = consumed - p->busy_consumed;
    const bool full = span >= TIDE__PACE_SPAN_NS;
    if (span && (full || (under_way == 0 && bytes >= TIDE__PACE_SPAN_BYTES))) {
        p->rates[p->next++ % TIDE__PACE_SPANS] = (uint64_t)((double)bytes * 1e9 / (double)span);
    }
    if (full || under_way == 0) {
        p->busy_since = under_way ? now : 0;
        p->busy_consumed = consumed;
    }
}

uint64_t tide__pace_look(struct tide__pace *p, uint64_t now, uint64_t sent, uint64_t consumed,
                         uint64_t under_way, uint64_t bandwidth) {
    measure(p, now, consumed, under_way);
    const uint64_t rate = tide__pace_rate(p, bandwidth);
    const int64_t debt = -(int64_t)bytes_in(rate, TIDE__PACE_DEBT_NS);
    uint64_t quantum = bytes_in(rate, TIDE__PACE_PERIOD_NS),
             burst = bytes_in(rate, TIDE__PACE_BURST_NS);
    quantum = quantum > TIDE__PACE_QUANTUM_MIN ? quantum : TIDE__PACE_QUANTUM_MIN;
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
