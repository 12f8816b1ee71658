/*
 * The watchdog of threads that serve others: which actors hold an I/O or the control thread for longer than its limit
 * (actor_slow_io, actor_slow_control), how often and how long. Measured are a message of a handler and a fiber from its
 * resumption to its suspension, by the clock: time in which the machine runs something else counts.
 *
 * The owner thread reads the clock after SLOW_LAP messages and at the end of a turn. When these took longer than the
 * limit, the next SLOW_EXACT messages are measured one by one: what is slow again and again is named, and what was slow
 * once may be missed. In the simulator, where a turn takes no time, nothing is, nor on other threads: there a message
 * costs the decrement of a counter.
 */
#include "actor/internal.h"

#include <string.h>

void slow_init(struct scheduler *s) {
    s->slow.limit = s->system->port->simulated     ? TIDE_NEVER
                    : s->role == TIDE_ROLE_IO      ? tide_limit(actor_slow_io)
                    : s->role == TIDE_ROLE_CONTROL ? tide_limit(actor_slow_control)
                                                   : TIDE_NEVER;
    s->slow.exact = s->slow.limit != TIDE_NEVER ? SLOW_EXACT : 0;
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

static void slow_found(struct scheduler *s, const char *type, uint64_t ns) {
    tide_lock(&s->slots_lock);
    struct tide_slow_handler *entry = entry_of(&s->slow, type);
    entry->role = s->role;
    entry->count++;
    entry->total_ns += ns;
    entry->longest_ns = ns > entry->longest_ns ? ns : entry->longest_ns;
    tide_unlock(&s->slots_lock);
}

/* type NULL: it is not known which of them. */
void slow_look(struct scheduler *s, const char *type) {
    const uint64_t now = tide_port_now(s->system->port), took = now - s->slow.lap;
    const bool alone = s->slow.exact > 0 && type;
    s->slow.exact -= s->slow.exact > 0;
    if (took > s->slow.limit && alone) {
        slow_found(s, type, took);
    } else if (took > s->slow.limit) {
        s->slow.exact = SLOW_EXACT;
    }
    s->slow.lap = now;
    s->slow.left = s->slow.exact > 0 ? 1 : SLOW_LAP;
}
