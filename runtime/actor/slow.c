/*
 * The watchdog of threads that serve others: which actors hold an I/O or the control thread for longer than its limit
 * (actor_slow_io, actor_slow_control), how often and how long. Measured are a message of a handler and a fiber from its
 * resumption to its suspension, by the clock: time in which the machine runs something else counts.
 *
 * The owner thread reads the processor's counter once for each of them, the clock and a lock only when it was slow. In
 * the simulator, where a turn takes no time, nothing is measured.
 */
#include "actor/internal.h"

#include <string.h>

void slow_init(struct scheduler *s) {
    s->slow.limit = s->system->port->simulated     ? TIDE_NEVER
                    : s->role == TIDE_ROLE_IO      ? tide_limit(actor_slow_io)
                    : s->role == TIDE_ROLE_CONTROL ? tide_limit(actor_slow_control)
                                                   : TIDE_NEVER;
}

/* The entry of the type; the last one is for all types that find no place. */
static struct tide_slow_handler *entry_of(struct slow *slow, const char *type) {
    for (unsigned i = 0; i < slow->count; i++) {
        if (strncmp(slow->entries[i].type, type, sizeof slow->entries[i].type - 1) == 0) {
            return &slow->entries[i];
        }
    }
    if (slow->count == SLOW_TYPES) {
        return &slow->entries[SLOW_TYPES - 1];
    }
    struct tide_slow_handler *entry = &slow->entries[slow->count++];
    (void)snprintf(entry->type, sizeof entry->type, "%s", slow->count == SLOW_TYPES ? "others" : type);
    return entry;
}

void slow_found(struct scheduler *s, const char *type, uint64_t now) {
    /* A turn has begun before the lap, so its ratio of time to ticks is known better than the lap's. */
    const double turn = (double)(now - s->slow.turn), took = (double)(now - s->slow.lap);
    const uint64_t ns = (uint64_t)(took * (double)(tide_port_now(s->system->port) - s->now) / turn);
    if (ns <= s->slow.limit) {
        return;
    }
    tide_lock(&s->slots_lock);
    struct tide_slow_handler *entry = entry_of(&s->slow, type);
    entry->role = s->role;
    entry->count++;
    entry->total_ns += ns;
    entry->longest_ns = ns > entry->longest_ns ? ns : entry->longest_ns;
    tide_unlock(&s->slots_lock);
}
