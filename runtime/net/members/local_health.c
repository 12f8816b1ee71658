/*
 * Local health: how long nodes that live stand still here, and what silence they are granted for
 * it.
 *
 * Machines differ, and one machine by the hour: on a calm one a node that says nothing for half a
 * second is gone, on a busy one it has only not been scheduled. Two things tell how it is: this
 * node's own timer that fires late, and a peer that is heard again after a silence. The longest
 * such standstill, which counts half after HALF_LIFE, is granted twice, within GRACE_MIN and
 * GRACE_MAX. So a silent peer is suspected GRACE_MIN and two beats after its last sign of life
 * where nothing ever stands still, and never later than GRACE_MAX and two beats after it, if its
 * beats were regular before (detector.c). Peers of one machine share its scheduler, so what one did
 * is held in favour of all. In a ring, whose beats are seldom, the most is granted always.
 */
#include "net/inside.h"

#include <math.h>
#include <stdlib.h>

#define HALF_LIFE (20 * TIDE_SECOND)
#define GRACE_MIN (600 * TIDE_MILLISECOND)
#define GRACE_MAX (2 * TIDE_SECOND)

/* TIDE_SILENCE of the environment, in seconds: for machines that are known to be overloaded. */
void tide__health_init(struct tide_net *net) {
    const char *text = net->port->ops->environment(net->port, "TIDE_SILENCE");
    const double seconds = text ? strtod(text, NULL) : 0;
    net->silence = seconds > 0 && seconds <= 3600 ? (uint64_t)(seconds * (double)TIDE_SECOND) : 0;
}

static uint64_t remembered(const struct tide_net *net, uint64_t now) {
    const double halves = (double)(now - net->standstill_at) / (double)HALF_LIFE;
    return (uint64_t)((double)net->standstill * exp(-0.6931471805599453 * halves));
}

void tide__health_stood_still(struct tide_net *net, uint64_t now, uint64_t duration) {
    if (duration >= BEAT_INTERVAL && duration > remembered(net, now)) {
        net->standstill = duration;
        net->standstill_at = now;
    }
}

uint64_t tide__health_grace(const struct tide_net *net, uint64_t now) {
    if (TIDE_MUTANT(member_impatient)) {
        return 0;
    }
    if (net->ringed) {
        return GRACE_MAX;
    }
    const uint64_t wanted = TIDE_MUTANT(noise_unlearned) ? 0 : 2 * remembered(net, now);
    const uint64_t grace = wanted < GRACE_MIN ? GRACE_MIN : wanted > GRACE_MAX ? GRACE_MAX : wanted;
    return grace < net->silence ? net->silence : grace;
}
