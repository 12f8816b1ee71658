/*
 * Local health: how long live nodes stall here, and what silence they are granted for
 * it.
 *
 * Machines differ, and one machine by the hour: on a calm one a node that says nothing for half a
 * second is gone, on a busy one it has only not been scheduled. Two signs show which: this
 * node's own timer that fires late, and a peer that is heard again after a silence. The longest
 * such stall, which counts half after HALF_LIFE, is granted twice, within GRACE_MIN and
 * GRACE_MAX. So a silent peer is suspected GRACE_MIN and two beats after its last sign of life
 * where nothing ever stalls, and never later than GRACE_MAX and two beats after it, if its
 * beats were regular before (detector.c). Peers of one machine share its scheduler, so what one did
 * is held in favour of all. In a ring, whose beats are seldom, the most is granted always.
 *
 * Between machines networks blink, and a node that returns resumes its session: there SILENCE_LONG is granted
 * in any case. On one machine the kernel knows more than beats say: the process of a silent peer that still exists is
 * stopped or waits for a processor, and is granted as much. A process that is gone is not waited for: its connections
 * end. The option `silence` takes the place of both; a joiner gets it from the controller.
 */
#include "net/net_state.h"
#include "net/link/link.h"
#include "net/members/local_health.h"

#include <math.h>
#include <stdlib.h>

#define HALF_LIFE (20 * TIDE_SECOND)
#define GRACE_MIN (600 * TIDE_MILLISECOND)
#define GRACE_MAX (2 * TIDE_SECOND)

#define SILENCE_LONG (10 * TIDE_SECOND)

/* Without the option TIDE_SILENCE of the environment, in seconds. */
void tide__health_init(struct tide_net *net, const struct tide_net_options *o) {
    const char *text = net->port->ops->environment(net->port, "TIDE_SILENCE");
    const double seconds = text ? strtod(text, NULL) : 0;
    const bool fits = seconds > 0 && seconds <= (double)(TIDE_SILENCE_MAX / TIDE_SECOND);
    net->silence = o->silence > 0 ? o->silence : fits ? (uint64_t)(seconds * (double)TIDE_SECOND) : 0;
    net->far = (o->listen && !tide_endpoint_is_local(o->listen)) || (o->join && !tide_endpoint_is_local(o->join));
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
    const uint64_t asked = net->silence > 0 ? net->silence : net->far ? SILENCE_LONG : 0;
    const uint64_t wanted = TIDE_MUTANT(noise_unlearned) ? 0 : 2 * remembered(net, now);
    const uint64_t most = net->ringed || wanted > GRACE_MAX ? GRACE_MAX : wanted;
    const uint64_t grace = most < GRACE_MIN ? GRACE_MIN : most;
    return grace < asked ? asked : grace;
}

/* Of a member on this machine: what the kernel says of its process; 0: nothing. */
static char process_of(const struct tide_net *net, const struct tide_member *m) {
    const bool here = m->pid > 0 && tide_endpoint_is_local(m->endpoint);
    return here ? net->port->ops->process_state(net->port, m->pid) : 0;
}

uint64_t tide__health_grace_of(const struct tide_net *net, const struct tide_member *silent, uint64_t grace) {
    return net->silence > 0 || grace >= SILENCE_LONG || process_of(net, silent) == 0 ? grace : SILENCE_LONG;
}

void tide__health_describe(const struct tide_net *net, const struct tide_member *silent, char out[64]) {
    const char state = process_of(net, silent);
    out[0] = 0;
    if (state != 0) {
        const bool stopped = state == 'T' || state == 't';
        snprintf(out, 64, " (its process %d %s)", (int)silent->pid, stopped ? "is stopped" : "lives");
    }
}
