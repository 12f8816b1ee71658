/*
 * What the watch (base/watch.h) sees of actors. Where a fiber suspends and where a turn ends: fibers and threads that
 * are woken again and again and do nothing. Between two events: threads that sleep with work to do. A thread that
 * sleeps has handled every notification, so what then lies in a queue stays there until another event.
 */
#include "actor/internal.h"

/* So many times in a row, less than so many ns apart on average: a fiber that waits for many parts is woken for each,
 * and one that polls waits for something without a notification. */
enum { IDLE_MAX = 256, WAKES_NS = 1000000, TIMERS_NS = 20000 };

static bool is_streak(uint32_t count, uint64_t since, uint64_t now, uint64_t apart_ns) {
    return count >= IDLE_MAX && now - since < count * apart_ns;
}

void watch_resumed(const struct scheduler *s, struct tide_fiber *fiber) {
    fiber->acts = s->acts;
    fiber->idle_timed = fiber->idle_timed || fiber->timed_out;
}

/* The fiber is about to suspend. Has it done anything since it was resumed, or does it wait for something else now?
 * Whether it spins. */
bool watch_suspend(const struct scheduler *s, struct tide_fiber *fiber, const char *why) {
    if (fiber->acts != s->acts || fiber->idle_for != why) {
        fiber->idle_for = why;
        fiber->idle_count = 0;
        fiber->idle_timed = false;
        fiber->idle_since = s->now;
        return false;
    }
    const uint64_t apart_ns = fiber->idle_timed ? TIMERS_NS : WAKES_NS;
    const bool spins = is_streak(++fiber->idle_count, fiber->idle_since, s->now, apart_ns);
    if (spins) {
        tide__watch_found("spin",
                          "%s: fiber %u of actor %s (%llx) was resumed %u times in %.3f ms and did nothing: it "
                          "waits for '%s' again",
                          s->system->node_name, fiber->number, fiber->actor->type,
                          (unsigned long long)actor_address(fiber->actor), fiber->idle_count,
                          (double)(s->now - fiber->idle_since) * 1e-6, why);
    }
    return spins;
}

/* An actor has handled a timer: did it do anything but start another? */
void watch_timer(struct scheduler *s, struct actor *actor, uint64_t acts) {
    struct watch_timers *t = &s->watch_timers;
    if (t->actor != actor || acts != s->acts) {
        *t = (struct watch_timers){.actor = actor, .since = s->now};
        return;
    }
    if (is_streak(++t->count, t->since, s->now, TIMERS_NS)) {
        tide__watch_found("timer",
                          "%s: actor %s (%llx) handled %u timers in %.3f ms and did nothing but start the next",
                          s->system->node_name, actor->type, (unsigned long long)actor_address(actor), t->count,
                          (double)(s->now - t->since) * 1e-6);
    }
}

/* A turn is over. `worked`: it had messages, timers or actors to run; next: when it asks for another one. */
void watch_turn(struct scheduler *s, bool worked, uint64_t next) {
    s->idle_turns = worked || next > s->now || s->stop != 0 ? 0 : s->idle_turns + 1;
    if (s->idle_turns >= IDLE_MAX) {
        tide__watch_found("turns", "%s: thread %u took %u turns in a row without work and asked for another at once",
                          s->system->node_name, s->index, s->idle_turns);
    }
}

/* ---- threads that sleep ---- */

static void watch_mailbox(const struct scheduler *s, const struct actor *actor) {
    const bool waits = mailbox_has_message(actor);
    const struct message *sender = actor->senders.head;
    if (waits && !actor->run) {
        tide__watch_found("asleep", "%s: %u messages wait for actor %s (%llx), which is not about to run",
                          s->system->node_name, atomic_load(&actor->mailbox_messages), actor->type,
                          (unsigned long long)actor_address(actor));
    }
    if (actor->ready_head && !actor->scheduled) {
        tide__watch_found("asleep", "%s: fiber %u of actor %s (%llx) is ready, and the actor is not about to run",
                          s->system->node_name, actor->ready_head->number, actor->type,
                          (unsigned long long)actor_address(actor));
    }
    for (const struct tide_fiber *f = actor->fibers; waits && f; f = f->next) {
        const char *why = tide_fiber_waits(f);
        if (f->receiving && why) {
            tide__watch_found("unreceived", "%s: fiber %u of actor %s (%llx) waits for '%s', and %u messages are there",
                              s->system->node_name, f->number, actor->type, (unsigned long long)actor_address(actor),
                              why, atomic_load(&actor->mailbox_messages));
        }
    }
    if (sender && mailbox_can_continue(actor, sender)) {
        tide__watch_found("queue", "%s: actor %s (%llx) has room for %u bytes, and the fiber that sends them waits",
                          s->system->node_name, actor->type, (unsigned long long)actor_address(actor),
                          sender->u.in.size);
    }
}

static void watch_scheduler(struct scheduler *s) {
    if (!s->executor || s->stop != 0 || !tide_sim_asleep(s->executor)) {
        return;
    }
    if (scheduler_pending(s) || scheduler_has_actors(s)) {
        tide__watch_found("asleep", "%s: thread %u has %s, and no turn is due", s->system->node_name, s->index,
                          scheduler_has_actors(s) ? "actors to run" : "messages");
        return;
    }
    for (uint32_t i = 1; i < s->slot_count; i++) {
        const struct actor *actor = actor_at(s, i);
        if (actor && actor->lifecycle == ACTOR_LIVE) {
            watch_mailbox(s, actor);
        }
    }
}

void tide_system_watch(struct tide_system *system) {
    for (unsigned i = 0; i < system->count && TIDE_WATCHED; i++) {
        watch_scheduler(system->schedulers[i]);
    }
}

/* ---- for reports: what waits ---- */

static size_t describe_actor(const struct scheduler *s, const struct actor *actor, char *out, size_t size) {
    size_t used = 0;
    for (const struct tide_fiber *f = actor->fibers; f && used < size; f = f->next) {
        const char *why = tide_fiber_waits(f);
        const int n =
            !why ? 0
                 : snprintf(out + used, size - used,
                            "  fiber %u%s%s of actor %s %llx (thread %u) waits for '%s' since %.3f s\n", f->number,
                            f->title[0] ? " " : "", f->title, actor->type, (unsigned long long)actor_address(actor),
                            s->index, why, (double)atomic_load(&f->waits_since) * 1e-9);
        used += n > 0 ? (size_t)n : 0;
    }
    const unsigned messages = atomic_load(&actor->mailbox_messages);
    if (messages > 0 && used < size) {
        const int n = snprintf(out + used, size - used, "  actor %s %llx (thread %u) has %u messages\n", actor->type,
                               (unsigned long long)actor_address(actor), s->index, messages);
        used += n > 0 ? (size_t)n : 0;
    }
    return used < size ? used : size;
}

size_t tide_system_waits(const struct tide_system *system, char *out, size_t size) {
    size_t used = 0;
    for (unsigned t = 0; t < system->count; t++) {
        const struct scheduler *s = system->schedulers[t];
        for (uint32_t i = 1; i < s->slot_count && used < size; i++) {
            const struct actor *actor = actor_at(s, i);
            if (actor) {
                used += describe_actor(s, actor, out + used, size - used);
            }
        }
    }
    return used;
}
