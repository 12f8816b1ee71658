/* Timers of a scheduler: a binary heap of embedded entries, so that arming allocates only when the heap grows. */
#include "actor/internal.h"

static void place(struct scheduler *s, struct timer *timer, uint32_t position) {
    s->heap[position] = timer;
    timer->position = position;
}

static void sift_up(struct scheduler *s, struct timer *timer, uint32_t position) {
    while (position > 1 && timer->when < s->heap[position / 2]->when) {
        place(s, s->heap[position / 2], position);
        position /= 2;
    }
    place(s, timer, position);
}

static void sift_down(struct scheduler *s, struct timer *timer, uint32_t position) {
    for (;;) {
        uint32_t child = position * 2;
        if (child > s->heap_size) {
            break;
        }
        if (child < s->heap_size && s->heap[child + 1]->when < s->heap[child]->when) {
            child++;
        }
        if (s->heap[child]->when >= timer->when) {
            break;
        }
        place(s, s->heap[child], position);
        position = child;
    }
    place(s, timer, position);
}

/* No timer of the heap is due before the one above it, or behind those below. */
static bool is_in_order(const struct scheduler *s, uint32_t position) {
    const uint64_t when = s->heap[position]->when;
    bool ordered = position == 1 || s->heap[position / 2]->when <= when;
    for (uint32_t child = 2 * position; child <= 2 * position + 1 && child <= s->heap_size; child++) {
        ordered = ordered && s->heap[child]->when >= when;
    }
    return ordered;
}

void timer_arm(struct scheduler *s, struct timer *timer, uint64_t when) {
    timer_disarm(s, timer);
    timer->when = when;
    if (s->heap_size + 1 >= s->heap_capacity) {
        uint32_t capacity = s->heap_capacity == 0 ? 64 : s->heap_capacity * 2;
        /* A timer is never all that is pending: an actor that could not arm one would leave its work behind. */
        s->heap = tide_realloc_vital(s->heap, capacity * sizeof(struct timer *));
        s->heap_capacity = capacity;
    }
    s->heap_size++;
    sift_up(s, timer, s->heap_size);
    TIDE_ASSERT(s->heap[timer->position] == timer && s->heap_size < s->heap_capacity);
    TIDE_INVARIANT(is_in_order(s, timer->position));
}

void timer_disarm(struct scheduler *s, struct timer *timer) {
    uint32_t position = timer->position;
    if (position == 0) {
        return;
    }
    TIDE_ASSERT(position <= s->heap_size && s->heap[position] == timer);
    timer->position = 0;
    struct timer *last = s->heap[s->heap_size];
    s->heap_size--;
    if (last == timer) {
        return;
    }
    if (position > 1 && last->when < s->heap[position / 2]->when) {
        sift_up(s, last, position);
    } else {
        sift_down(s, last, position);
    }
    TIDE_INVARIANT(is_in_order(s, last->position) && is_in_order(s, position));
}

void timers_fire(struct scheduler *s, uint64_t now) {
    while (s->heap_size > 0 && s->heap[1]->when <= now) {
        struct timer *timer = s->heap[1];
        timer_disarm(s, timer);
        timer->fire(s, timer);
    }
}

static void actor_timer_fire(struct scheduler *s, struct timer *timer) {
    struct actor_timer *t = TIDE_CONTAINER(timer, struct actor_timer, timer);
    struct actor *actor = t->actor;
    struct actor_timer **at = &actor->timers;
    while (*at != t) {
        at = &(*at)->next;
    }
    *at = t->next;
    struct message *m = message_create(s, 0);
    m->u.in =
        (struct tide_message){.to = actor_address(actor), .call = t->id, .kind = TIDE_TIMER, .lane = TIDE_LANE_CONTROL};
    tide_free(t);
    mailbox_push(s, actor, m);
}

int tide_timer_start(uint64_t delay, uint64_t *id) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        return tide__outside("tide_timer_start");
    }
    struct actor_timer *t = tide_alloc_zero(1, sizeof *t);
    if (!t) {
        return TIDE_ENOMEM;
    }
    t->timer.fire = actor_timer_fire;
    t->actor = s->current;
    t->id = ++s->next_id;
    timer_arm(s, &t->timer, tide_port_now(s->system->port) + delay);
    t->next = s->current->timers;
    s->current->timers = t;
    if (id) {
        *id = t->id;
    }
    return 0;
}

void tide_timer_cancel(uint64_t id) {
    struct scheduler *s = tide__scheduler;
    if (!s || !s->current) {
        (void)tide__outside("tide_timer_cancel");
        return;
    }
    for (struct actor_timer **at = &s->current->timers; *at; at = &(*at)->next) {
        if ((*at)->id == id) {
            struct actor_timer *t = *at;
            *at = t->next;
            timer_disarm(s, &t->timer);
            tide_free(t);
            return;
        }
    }
}
