/*
 * The watchdog of threads that serve others: which actors hold an I/O or the control thread for longer than its limit
 * (actor_slow_io, actor_slow_control), how often and how long. Measured are a message of a handler and a fiber from its
 * resumption to its suspension, by the clock: time in which the machine runs something else counts.
 *
 * The owner thread reads the clock once for each of them, and writes under a lock only when it was slow.
 */
#include "actor/internal.h"

#include <string.h>

void slow_init(struct scheduler *s) {
    s->slow.limit = s->role == TIDE_ROLE_IO        ? tide_limit(actor_slow_io)
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

void slow_found(struct scheduler *s, const char *type, uint64_t ns) {
    tide_lock(&s->slots_lock);
    struct tide_slow_handler *entry = entry_of(&s->slow, type);
    entry->role = s->role;
    entry->count++;
    entry->total_ns += ns;
    entry->longest_ns = ns > entry->longest_ns ? ns : entry->longest_ns;
    tide_unlock(&s->slots_lock);
}

size_t tide_slow_handlers(struct tide_node *node, struct tide_slow_handler *out, size_t limit) {
    struct tide_system *system = tide_system_of(node);
    size_t count = 0;
    for (unsigned t = 0; t < system->count; t++) {
        struct scheduler *s = system->schedulers[t];
        tide_lock(&s->slots_lock);
        for (unsigned i = 0; i < s->slow.count && count < limit; i++) {
            out[count++] = s->slow.entries[i];
        }
        tide_unlock(&s->slots_lock);
    }
    return count;
}
