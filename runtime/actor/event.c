/*
 * What happened to the cluster as this node saw it: the last 512 events, each with its time and a text that says why.
 * Members that came and went, slots that moved, controllers; Lua adds what runs do (`core.event`). For people at a
 * console, not for programs that decide: the oldest are forgotten, and a node that ends takes its own with it.
 *
 * Any thread. Rare by nature: no caller is on the path of messages or rows.
 */
#include "actor/internal.h"

#include <stdarg.h>
#include <string.h>

enum { EVENTS_KEPT = 512 };

struct entry {
    struct entry *next;
    struct tide_event event;
};

void tide_event_add(struct tide_system *system, const char *kind, const char *format, ...) {
    struct entry *e = tide_alloc_zero(1, sizeof *e), *oldest = NULL;
    if (!e) {
        return; /* the log has it where it matters */
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->event.text, sizeof e->event.text, format, arguments);
    va_end(arguments);
    snprintf(e->event.kind, sizeof e->event.kind, "%s", kind);
    e->event.wall_ns = system->port->ops->wall(system->port);
    tide_lock(&system->events.lock);
    e->event.number = ++system->events.count;
    *(system->events.last != NULL ? &system->events.last->next : &system->events.first) = e;
    system->events.last = e;
    if (system->events.count > EVENTS_KEPT) {
        oldest = system->events.first;
        system->events.first = oldest->next;
    }
    tide_unlock(&system->events.lock);
    tide_free(oldest);
}

size_t tide_events(struct tide_system *system, uint64_t after, struct tide_event *out, size_t limit) {
    size_t count = 0;
    tide_lock(&system->events.lock);
    for (const struct entry *e = system->events.first; e && count < limit; e = e->next) {
        if (e->event.number > after) {
            out[count++] = e->event;
        }
    }
    tide_unlock(&system->events.lock);
    return count;
}

void events_release(struct tide_system *system) {
    while (system->events.first) {
        struct entry *e = system->events.first;
        system->events.first = e->next;
        tide_free(e);
    }
}
