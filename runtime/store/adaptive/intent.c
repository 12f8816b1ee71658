/*
 * Intents at the node that has them (intent.h). Workers queue what they intend; the table's fiber,
 * on the thread of the store actor, takes it over and looks in rounds how far their clocks are. An
 * intent is queued until its first clock is near, then active until its last one has gone by. A key
 * is of interest while an active intent has it.
 */
#include "store/adaptive/intent.h"
#include "store/operation/inbox.h"
#include "store/adaptive/owner.h"
#include "tide/placement.h"

enum {
    ROUND_NS = 1000000, /* while any intent is there; changes are handled at once */
    SEND_KEYS = 2048,
    MOVES = 32, /* localize calls in flight */
};

struct intent {
    struct intent *next; /* in the inbox */
    uint32_t domain, worker, begin, end;
    size_t count;
    uint64_t keys[];
};

struct heap { /* least clock first */
    struct intent **at;
    size_t count, capacity;
};

struct worker {
    struct worker *next; /* by domain and number */
    uint32_t domain, number;
    uint32_t ahead;   /* clocks: the window's last word */
    bool seen, begun; /* in this round; at all */
    struct tide__action_timer window;
    struct heap queued, active; /* by begin, by end */
};

struct interest { /* of this node in a key */
    uint64_t key;
    uint32_t uses; /* active intents with it */
    uint16_t home; /* that was notified; 0: none */
    bool listed, used;
};

struct keys {
    uint64_t *at;
    size_t count, capacity;
};

struct move {
    struct tide_ticket ticket;
    struct keys keys;
    bool runs;
};

struct tide__intents {
    struct tide_table *table;
    tide_address fiber;
    atomic_bool awake, ended;     /* ended: the fiber is gone */
    atomic_uint_fast64_t nearest; /* window of the fastest worker: later intents wake no fiber */
    struct tide_lock lock;        /* of the next three */
    struct intent *inbox;
    size_t keys; /* of all intents that are not over */

    /* fiber */
    struct worker *workers;
    struct interest *places; /* open addressing by key; `used` */
    size_t capacity, count;
    struct keys changed; /* whose interest may begin or end */
    struct keys begun;   /* whose interest has begun: the homes decide whether the rows come here */
    uint64_t round_at;
    uint64_t routes; /* the table's `changes` when homes were looked at */
    struct move moves[MOVES];
    unsigned next_move;

    /* store actor and fiber */
    struct keys wanted; /* whose rows are to come here */
};

/* ---- lists ---- */

static void keys_add(struct keys *list, uint64_t key) {
    if (list->count == list->capacity) {
        size_t more = list->capacity ? list->capacity * 2 : 256;
        uint64_t *grown = tide_realloc(list->at, more * sizeof *grown);
        if (!grown) {
            return; /* a row will be remote */
        }
        list->at = grown;
        list->capacity = more;
    }
    list->at[list->count++] = key;
}

static uint32_t clock_of(const struct intent *intent, bool by_end) {
    return by_end ? intent->end : intent->begin;
}

static bool heap_push(struct heap *heap, struct intent *intent, bool by_end) {
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity ? heap->capacity * 2 : 64;
        struct intent **at = tide_realloc(heap->at, capacity * sizeof(struct intent *));
        if (!at) {
            return false;
        }
        heap->at = at;
        heap->capacity = capacity;
    }
    size_t i = heap->count++;
    for (size_t up; i > 0; i = up) {
        up = (i - 1) / 2;
        if (clock_of(heap->at[up], by_end) <= clock_of(intent, by_end)) {
            break;
        }
        heap->at[i] = heap->at[up];
    }
    heap->at[i] = intent;
    return true;
}

static struct intent *heap_pop(struct heap *heap, bool by_end) {
    struct intent *least = heap->at[0], *last = heap->at[--heap->count];
    size_t i = 0;
    for (size_t down; (down = 2 * i + 1) < heap->count; i = down) {
        down += down + 1 < heap->count && clock_of(heap->at[down + 1], by_end) < clock_of(heap->at[down], by_end);
        if (clock_of(last, by_end) <= clock_of(heap->at[down], by_end)) {
            break;
        }
        heap->at[i] = heap->at[down];
    }
    heap->at[i] = last;
    return least;
}

/* ---- interests of the node ---- */

static struct interest *place_of(const struct tide__intents *n, uint64_t key) {
    size_t i = (size_t)tide_mix64(key) & (n->capacity - 1);
    while (n->places[i].used && n->places[i].key != key) {
        i = (i + 1) & (n->capacity - 1);
    }
    return &n->places[i];
}

static bool interests_grow(struct tide__intents *n) {
    struct interest *old = n->places;
    const size_t old_capacity = n->capacity, capacity = old_capacity ? old_capacity * 2 : 1024;
    struct interest *places = tide_alloc_zero(capacity, sizeof *places);
    if (!places) {
        return false;
    }
    n->places = places;
    n->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].used) {
            *place_of(n, old[i].key) = old[i];
        }
    }
    tide_free(old);
    return true;
}

static void interest_drop(struct tide__intents *n, struct interest *gone) {
    const size_t mask = n->capacity - 1;
    size_t gap = (size_t)(gone - n->places);
    for (size_t i = (gap + 1) & mask; n->places[i].used; i = (i + 1) & mask) {
        const size_t wanted = (size_t)tide_mix64(n->places[i].key) & mask;
        if (((i - wanted) & mask) >= ((i - gap) & mask)) {
            n->places[gap] = n->places[i];
            gap = i;
        }
    }
    n->places[gap] = (struct interest){0};
    n->count--;
}

static void list(struct tide__intents *n, struct interest *interest) {
    if (!interest->listed) {
        interest->listed = true;
        keys_add(&n->changed, interest->key);
    }
}

static void use(struct tide__intents *n, uint64_t key, bool begins) {
    if ((n->count + 1) * 2 > n->capacity && !interests_grow(n)) {
        return;
    }
    struct interest *interest = place_of(n, key);
    if (!interest->used && !begins) {
        return;
    }
    if (!interest->used) {
        *interest = (struct interest){.key = key, .used = true};
        n->count++;
    }
    interest->uses += begins ? 1u : 0u;
    interest->uses -= !begins && interest->uses > 0;
    if ((interest->uses > 0) != (interest->home != 0)) {
        list(n, interest);
    }
}

static void intent_over(struct tide__intents *n, struct intent *intent, bool was_active) {
    for (size_t i = 0; was_active && i < intent->count; i++) {
        use(n, intent->keys[i], false);
    }
    tide_lock(&n->lock);
    n->keys -= intent->count;
    tide_unlock(&n->lock);
    tide_free(intent);
}

/* This node needs no copy any more for an intent. */
static void copy_ends(struct tide_table *table, uint64_t key) {
    struct tide__hot_table *s = tide__hot_of(table);
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    if (s && tide__hot_lock(s, key, false, true, &word, &old, &k) == TIDE__FOUND) {
        if (k->wanted && k->technique != 1 + TIDE_REPLICATE) {
            k->wanted = false;
            tide__hot_list(s, k, key);
        }
        tide__word_unlock(word, old);
        tide__hot_wake(s);
    }
}

/* ---- what is sent ---- */

struct telling {
    struct telling *next;
    uint16_t home;
    size_t count;
    uint64_t keys[SEND_KEYS];
};

static void telling_send(struct tide_table *table, struct telling *t) {
    if (t->count) {
        tide__interest_done(table, t->home, t->keys, t->count);
        t->count = 0;
    }
}

static void tell_end(struct tide__intents *n, struct telling **all, uint16_t home, uint64_t key) {
    struct telling *t = *all;
    while (t && t->home != home) {
        t = t->next;
    }
    if (!t) {
        t = tide_alloc(sizeof *t);
        if (!t) {
            return; /* a row will be remote */
        }
        *t = (struct telling){.next = *all, .home = home};
        *all = t;
    }
    t->keys[t->count++] = key;
    if (t->count == SEND_KEYS) {
        telling_send(n->table, t);
    }
}

/* Interests that begin go out as a localize of this round; those that end are sent, but not before the
 * home has answered to that. */
static void tell_changes(struct tide__intents *n) {
    struct telling *all = NULL;
    size_t later = 0;
    for (size_t i = 0; i < n->changed.count; i++) {
        const uint64_t key = n->changed.at[i];
        struct interest *interest = place_of(n, key);
        const uint16_t home = tide__route_home(tide__route_of(n->table, tide__slot_of(n->table, key)));
        if (interest->uses == 0 && interest->home && tide__owner_awaits(n->table, key)) {
            n->changed.at[later++] = key;
            continue;
        }
        interest->listed = false;
        if (interest->uses > 0 && interest->home != home) {
            interest->home = home;
            keys_add(&n->begun, key);
        } else if (interest->uses == 0) {
            if (interest->home) {
                tell_end(n, &all, home, key);
                if (!TIDE_MUTANT(intent_copy_stays)) {
                    copy_ends(n->table, key);
                }
            }
            interest_drop(n, interest);
        }
    }
    n->changed.count = later;
    while (all) {
        struct telling *next = all->next;
        telling_send(n->table, all);
        tide_free(all);
        all = next;
    }
}

/* Slots have moved: their new homes have no record of this node. */
static void look_at_homes(struct tide__intents *n) {
    const uint64_t changes = atomic_load_explicit(&n->table->changes, memory_order_acquire);
    if (changes == n->routes) {
        return;
    }
    n->routes = changes;
    for (size_t i = 0; i < n->capacity; i++) {
        struct interest *interest = &n->places[i];
        if (interest->used && interest->uses > 0 &&
            interest->home != tide__route_home(tide__route_of(n->table, tide__slot_of(n->table, interest->key)))) {
            list(n, interest);
        }
    }
}

/* ---- rows that are to come here ---- */

static void move_end(struct tide__intents *n, struct move *move) {
    const uint16_t self = tide__store_self(n->table->store);
    (void)tide__ticket_wait((struct tide__ticket *)(void *)&move->ticket);
    for (size_t i = 0; i < move->keys.count; i++) {
        if (tide__owner_of(n->table, move->keys.at[i]) == self) {
            copy_ends(n->table, move->keys.at[i]); /* the row itself is here */
        }
    }
    tide_free(move->keys.at);
    move->runs = false;
}

static void move_start(struct tide__intents *n, struct keys *keys,
                       int (*localize)(struct tide_table *table, const uint64_t *keys, size_t count,
                                       struct tide_ticket *ticket)) {
    if (keys->count == 0) {
        return;
    }
    struct move *move = &n->moves[n->next_move++ % MOVES];
    if (move->runs) {
        move_end(n, move);
    }
    /* taken after the wait: the list may have grown */
    *move = (struct move){.keys = *keys, .runs = true};
    *keys = (struct keys){0};
    (void)localize(n->table, move->keys.at, move->keys.count, &move->ticket);
}

static void moves_start(struct tide__intents *n) {
    for (unsigned i = 0; i < MOVES; i++) {
        if (n->moves[i].runs && tide_ticket_done(&n->moves[i].ticket)) {
            move_end(n, &n->moves[i]);
        }
    }
    move_start(n, &n->begun, tide__table_intended);
    move_start(n, &n->wanted, tide_table_localize);
}

/* ---- rounds ---- */

static bool is_before(const struct worker *w, uint32_t domain, uint32_t number) {
    return w->domain < domain || (w->domain == domain && w->number < number);
}

static struct worker *worker_of(struct tide__intents *n, uint32_t domain, uint32_t number, bool create) {
    struct worker **at = &n->workers;
    while (*at && is_before(*at, domain, number)) {
        at = &(*at)->next;
    }
    const bool found = *at && (*at)->domain == domain && (*at)->number == number;
    if (!found && create) {
        struct worker *worker = tide_alloc_zero(1, sizeof *worker);
        if (!worker) {
            return NULL;
        }
        worker->domain = domain;
        worker->number = number;
        worker->next = *at;
        *at = worker;
    }
    return found || create ? *at : NULL;
}

static void take_inbox(struct tide__intents *n) {
    tide_lock(&n->lock);
    struct intent *inbox = n->inbox;
    n->inbox = NULL;
    tide_unlock(&n->lock);
    while (inbox) {
        struct intent *next = inbox->next;
        struct worker *worker = worker_of(n, inbox->domain, inbox->worker, true);
        if (!worker || !heap_push(&worker->queued, inbox, false)) {
            intent_over(n, inbox, false);
        }
        inbox = next;
    }
}

/* `full`: a round has gone by since the last full one. */
static uint32_t worker_round(struct tide__intents *n, struct worker *worker, uint32_t clock, bool full) {
    if (!worker->begun) {
        tide__action_timer_init(&worker->window, clock);
    }
    if (full || !worker->begun) {
        worker->ahead = tide__action_timer_round(&worker->window, clock);
        worker->begun = true;
    }
    const uint32_t ahead = TIDE_MUTANT(intent_late) ? 0 : worker->ahead;
    while (worker->queued.count &&
           (worker->queued.at[0]->begin <= clock || worker->queued.at[0]->begin - clock <= ahead)) {
        struct intent *intent = heap_pop(&worker->queued, false);
        const bool late = intent->end <= clock;
        if (late || !heap_push(&worker->active, intent, true)) {
            intent_over(n, intent, false);
            continue;
        }
        for (size_t i = 0; i < intent->count; i++) {
            use(n, intent->keys[i], true);
        }
    }
    while (worker->active.count && worker->active.at[0]->end <= clock) {
        intent_over(n, heap_pop(&worker->active, true), true);
    }
    worker->seen = true;
    return ahead;
}

static void worker_over(struct tide__intents *n, struct worker *worker) {
    while (worker->queued.count) {
        intent_over(n, heap_pop(&worker->queued, false), false);
    }
    while (worker->active.count) {
        intent_over(n, heap_pop(&worker->active, true), true);
    }
    tide_free(worker->queued.at);
    tide_free(worker->active.at);
    tide_free(worker);
}

/* Workers that have ended, or all, intend nothing any more. */
static void workers_end(struct tide__intents *n, bool all) {
    for (struct worker **at = &n->workers; *at;) {
        struct worker *worker = *at;
        if (all || !worker->seen) {
            *at = worker->next;
            worker_over(n, worker);
        } else {
            worker->seen = false;
            at = &worker->next;
        }
    }
}

/* True: there is something to look after. */
static bool intents_round(struct tide__intents *n) {
    struct tide_store *store = n->table->store;
    const uint64_t now = tide_port_now(store->port);
    const bool full = now - n->round_at >= ROUND_NS;
    uint32_t most = 0;
    n->round_at = full ? now : n->round_at;
    take_inbox(n);
    const size_t count = tide__worker_clocks(store, NULL, NULL, 0);
    struct tide__worker_clock *clocks = tide_alloc((count + 1) * sizeof *clocks);
    const size_t got = clocks ? tide__worker_clocks(store, NULL, clocks, count) : 0;
    for (size_t i = 0; i < got && i < count; i++) {
        struct worker *worker = worker_of(n, clocks[i].domain, clocks[i].worker, false);
        const uint32_t ahead = worker ? worker_round(n, worker, clocks[i].clock, full) : 0;
        most = ahead > most ? ahead : most;
    }
    if (clocks) {
        workers_end(n, store->leaving);
    }
    tide_free(clocks);
    atomic_store_explicit(&n->nearest, most, memory_order_relaxed);
    look_at_homes(n);
    tell_changes(n);
    moves_start(n);
    bool busy = n->wanted.count > 0 || n->changed.count > 0;
    for (unsigned i = 0; i < MOVES; i++) {
        busy |= n->moves[i].runs;
    }
    for (const struct worker *w = n->workers; w; w = w->next) {
        busy |= w->queued.count > 0 || w->active.count > 0;
    }
    return busy;
}

static int intents_main(void *state) {
    struct tide__intents *n = state;
    struct tide_port *port = n->table->store->port;
    bool busy = false;
    (void)tide__memory_swap(TIDE_MEMORY_VITAL); /* its waiters depend on it */
    for (;;) {
        const struct tide_message *message;
        int code = tide_receive(busy ? tide_port_now(port) + ROUND_NS : TIDE_NEVER, &message);
        if (code && code != TIDE_ETIMEDOUT) {
            break;
        }
        const bool stop = code == 0 && message->kind == TIDE_STOP;
        if (code == 0) {
            tide_message_free(message);
        }
        if (stop) {
            break;
        }
        atomic_store(&n->awake, false); /* before the inbox is taken */
        busy = intents_round(n);
    }
    for (unsigned i = 0; i < MOVES; i++) {
        if (n->moves[i].runs) {
            move_end(n, &n->moves[i]);
        }
    }
    return 0;
}

static void wake(struct tide__intents *n) {
    static const uint8_t nil = 0xc0;
    if (!atomic_exchange(&n->awake, true) && tide_post(n->table->store->node, n->fiber, &nil, sizeof nil)) {
        atomic_store(&n->awake, false);
    }
}

static void intents_gone(void *state) {
    struct tide__intents *n = state;
    atomic_store_explicit(&n->ended, true, memory_order_release); /* pairs with tide__intents_ended */
}

void tide__intents_end(struct tide_table *table) {
    struct tide__intents *n = atomic_load_explicit(&tide__hot_part(table)->intents, memory_order_acquire);
    if (n && n->fiber) {
        (void)tide_kill(n->fiber, TIDE_EKILLED);
    }
}

bool tide__intents_ended(struct tide_table *table) {
    struct tide__intents *n = atomic_load_explicit(&tide__hot_part(table)->intents, memory_order_acquire);
    return !n || atomic_load_explicit(&n->ended, memory_order_acquire);
}

/* ---- making ---- */

static int intents_of(struct tide_table *table, struct tide__intents **out) {
    /* acquire: with the exchange below */
    *out = atomic_load_explicit(&tide__hot_part(table)->intents, memory_order_acquire);
    if (*out) {
        return 0;
    }
    struct tide__intents *n = tide_alloc_zero(1, sizeof *n), *before = NULL;
    struct tide_actor_options options = {
        .type = "intents", .run = intents_main, .state = n, .release = intents_gone, .role = TIDE_ROLE_IO};
    if (!n) {
        return tide_fail(TIDE_ENOMEM, "no memory for the intents of table '%s'", table->name);
    }
    n->table = table;
    atomic_init(&n->awake, true); /* until the fiber is there */
    if (!atomic_compare_exchange_strong(&tide__hot_part(table)->intents, &before, n)) {
        tide_free(n);
        *out = before;
        return 0;
    }
    *out = n;
    int code = tide_spawn(table->store->node, &options, &n->fiber);
    atomic_store(&n->awake, code != 0); /* without it no fiber is woken, and intents fill the queue */
    if (code) {
        intents_gone(n);
    }
    return code;
}

void tide__intents_destroy(struct tide_table *table) {
    struct tide__intents *n = atomic_load(&tide__hot_part(table)->intents);
    if (!n) {
        return;
    }
    take_inbox(n);
    workers_end(n, true);
    tide_free(n->places);
    tide_free(n->changed.at);
    tide_free(n->begun.at);
    tide_free(n->wanted.at);
    for (unsigned i = 0; i < MOVES; i++) {
        tide_free(n->moves[i].runs ? n->moves[i].keys.at : NULL);
    }
    tide_free(n);
}

/* ---- advice ---- */

bool tide__intent_lasts(const struct tide_table *table, uint64_t key) {
    const struct tide__intents *n = atomic_load_explicit(&tide__hot_part(table)->intents, memory_order_acquire);
    return n && n->capacity && place_of(n, key)->used && place_of(n, key)->uses > 0;
}

static void copy_begins(struct tide__hot_table *s, uint64_t key) {
    struct tide__hot_key *k;
    atomic_uint_fast64_t *word;
    uint64_t old;
    int code = tide__hot_lock(s, key, true, true, &word, &old, &k);
    if (code == TIDE__FOUND) {
        k->wanted = true;
        tide__hot_list(s, k, key);
        tide__word_unlock(word, old);
    } else {
        tide__share_count(&s->refused, 1);
    }
}

void tide__intent_copy(struct tide_table *table, uint64_t key) {
    struct tide__hot_table *s;
    if (tide__intent_lasts(table, key) && tide__hot_create(table, &s) == 0) {
        copy_begins(s, key);
        tide__hot_wake(s);
    }
}

int tide__advice_message(struct tide_store *store, struct tide__incoming *in) {
    const __typeof__(in->as.ADVICE) *m = &in->as.ADVICE;
    struct tide_table *table = tide__incoming_table(store, in, m->table);
    struct tide__intents *n =
        table ? atomic_load_explicit(&tide__hot_part(table)->intents, memory_order_acquire) : NULL;
    if (!table || m->what > TIDE__ADVISE_COPY) {
        return TIDE_EPROTO;
    }
    for (size_t i = 0; n && i < m->keys.count; i++) {
        const uint64_t key = tide__long_at(m->keys.at, i);
        if (m->what == TIDE__ADVISE_COPY) {
            tide__intent_copy(table, key);
        } else if (tide__intent_lasts(table, key)) { /* it may have ended meanwhile */
            keys_add(&n->wanted, key);
        }
    }
    if (n) {
        wake(n);
    }
    return 0;
}

/* ---- workers ---- */

int tide_table_intent(struct tide_table *table, const uint64_t *keys, size_t key_count, uint32_t clock_begin,
                      uint32_t clock_end) {
    const struct tide__worker *worker = tide__worker_current();
    struct tide__intents *n;
    int code = tide__check_keys(table, keys, key_count);
    if (code) {
        return code;
    }
    if (!worker) {
        return tide_fail(TIDE_EINVAL, "intent: this fiber is no worker, and has no clock");
    }
    if (!table->operations->owners || !table->store->net || clock_end <= worker->clock || clock_begin >= clock_end ||
        key_count == 0) {
        tide__table_count(table, TIDE__LOCALIZE_NOOP, key_count);
        return 0;
    }
    code = intents_of(table, &n);
    struct intent *intent = code ? NULL : tide_alloc(sizeof *intent + key_count * sizeof *keys);
    if (!intent) {
        return code ? code : tide_fail(TIDE_ENOMEM, "no memory for an intent");
    }
    *intent = (struct intent){.domain = worker->domain->number,
                              .worker = worker->number,
                              .begin = clock_begin,
                              .end = clock_end,
                              .count = key_count};
    memcpy(intent->keys, keys, key_count * sizeof *keys);
    tide_lock(&n->lock);
    const bool full = n->keys + key_count > TIDE__INTENT_KEYS_MAX;
    if (!full) {
        n->keys += key_count;
        intent->next = n->inbox;
        n->inbox = intent;
    }
    tide_unlock(&n->lock);
    if (full) {
        tide_free(intent);
        return tide_fail(TIDE_EBUSY, "intents on table '%s' have %d keys already: these will be remote", table->name,
                         TIDE__INTENT_KEYS_MAX);
    }
    const uint64_t nearest = atomic_load_explicit(&n->nearest, memory_order_relaxed);
    if (nearest == 0 || clock_begin <= worker->clock + nearest) {
        wake(n);
    }
    return 0;
}
