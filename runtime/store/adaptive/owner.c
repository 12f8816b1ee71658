/*
 * Keys that change their owner (technique "relocate"): what relocate.h decides, done to key words,
 * rows, waiting operations and messages. In the store actor, except where a worker is named.
 *
 * A worker serves keys this node owns in place, as in a static table. Everything else it hands to
 * the store actor of its own node and counts that in the key's word; the actor alone sends, so an
 * operation and a later LOC of the same key leave in order. A key becomes the workers' only when no
 * operation on it is in the actor's mailbox (word or arrival record: `handed`, `own`). Hence all
 * operations of one worker on one key run in the order of its calls.
 *
 * While a key is ARRIVING its record queues operations of this and other nodes. When the row comes
 * they run under the word's lock, then the row is sent to the noted successor or becomes the
 * workers'. The directory is the key words of the home: AWAY, with owner and term.
 */
#include "store/core/send.h"
#include "store/rows/rules.h"
#include "store/adaptive/intent.h"
#include "store/adaptive/location_cache.h"
#include "store/adaptive/owner.h"
#include "store/adaptive/hot_keys.h"

/* Where a missed key of a job goes: one of these, or a node, with why. */
enum {
    PARK = 0x10000,
    QUEUE,
    NO_MEMORY,
    DIED = 0x20000,     /* the node: nowhere */
    OWNER = 0x40000,    /* from the home to the owner of record */
    STRAIGHT = 0x80000, /* from the origin to where the key was last (location_cache.h) */
    BACK = 0x100000,    /* to the origin: it came straight, and is not here */
    ASKED = 0x200000    /* nowhere: it waits, LOC goes to the node */
};

struct walk {
    struct tide__job *job;
    struct tide_table *table;
    struct tide__relocate_event event; /* what the job is to a key */
    bool operation;                    /* pull or push */
    uint32_t *to;                      /* of each miss */
    uint32_t *terms;                   /* of each miss for an OWNER, or STRAIGHT: under which that node has it; of
                                          one that waits: the arrival record's number */
    uint32_t term;                     /* of the key in hand; QUEUE, ASKED: number of its arrival record */
    uint64_t now;
};

/* Keys of a job that go one way. */
struct part {
    const uint32_t *indices, *terms;
    size_t count;
    uint32_t to;
};

/* ---- one key of a job ---- */

static struct tide__relocate_event event_of(const struct tide__job *job) {
    static const uint8_t kinds[] = {[TIDE__PULL] = TIDE__EVENT_OPERATION,
                                    [TIDE__PUSH] = TIDE__EVENT_OPERATION,
                                    [TIDE__LOCALIZE] = TIDE__EVENT_LOCALIZE,
                                    [TIDE__LOC] = TIDE__EVENT_LOC,
                                    [TIDE__OFFER] = TIDE__EVENT_OFFER};
    const bool operation = kinds[job->kind] == TIDE__EVENT_OPERATION;
    const bool here = job->own || job->returned || (job->flags & TIDE__PASSED_ON);
    return (struct tide__relocate_event){.kind = kinds[job->kind], .node = operation && here ? 0 : job->origin};
}

/* An operation on a row that is here, or on one at home that was never touched. */
static int run_here(struct walk *walk, uint32_t index, uint32_t slot, uint64_t key, uint64_t *word) {
    struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    int code = 0;
    if (tide__word_state(*word) == TIDE__OWNED) {
        return tide__owner_run(job, index, word, tide__slab_row(&table->slab, (uint32_t)*word), false);
    }
    if (tide__word_state(*word) == TIDE__ARRIVING) {
        code =
            tide__owner_run(job, index, word, tide__slab_row(&table->slab, tide__arrival_of(table, *word)->row), false);
    } else if (job->kind == TIDE__PULL) {
        code = tide__job_prepare(job);
        if (!code) {
            tide__row_init(&table->options, key, (float *)job->values->data + index * tide__job_floats(job), job->raw);
            code = tide__subscribe_of(job, index);
        }
    } else {
        uint32_t row;
        code = tide__row_take(table, &row);
        if (!code) {
            tide__row_init(&table->options, key, tide__slab_row(&table->slab, row), true);
            code = tide__job_prepare(job);
            code = code ? code : tide__row_place(table, slot, word, row);
            if (code) {
                tide__slab_give(&table->slab, row);
                return code;
            }
            code = tide__owner_run(job, index, word, tide__slab_row(&table->slab, row), true);
        }
    }
    return code;
}

/* This node requests the key. */
static inline int await(struct walk *walk, uint64_t *word, const struct tide__relocation *k) {
    walk->now = walk->now ? walk->now : tide_port_now(walk->table->store->port);
    return tide__await(walk->table, word, k, walk->now);
}

/* Where a localize of this node for a key goes: to the home; it stays pending. */
static inline uint32_t ask_home(struct walk *walk, uint16_t home, uint64_t key, uint64_t *word,
                                const struct tide__relocation *k, int *error) {
    struct tide_table *table = walk->table;
    const uint8_t intended = walk->job->flags & TIDE__INTENDED;
    *error = await(walk, word, k);
    walk->term = (uint32_t)*word;
    if (!*error) {
        tide__arrival_of(table, *word)->intended = intended;
        tide__outbox_key(table, TIDE__OP_LOC, home, intended, key, tide__word_seen(*word));
    } else if (intended) { /* no room for it, but the home is to know */
        tide__outbox_key(table, TIDE__OP_INTENT, home, 0, key, 0);
        return 0;
    }
    return *error ? NO_MEMORY : ASKED | home;
}

/* The home's directory says what *k says. */
static void write_owner(struct tide_table *table, uint64_t *word, const struct tide__relocation *k) {
    if (tide__word_state(*word) == TIDE__ARRIVING) {
        struct tide__arrival *a = tide__arrival_of(table, *word);
        a->owner = k->owner;
        a->owner_term = k->owner_term;
        a->next = k->next;
        a->next_term = k->next_term;
    } else {
        *word = tide__word_gone(*word, k, tide__word_handed(*word));
    }
}

/* HAND to the present owner; this node waits itself if it is the new one. */
static int hand(struct walk *walk, uint64_t key, uint64_t *word, const struct tide__relocation *k,
                struct tide__relocate_result r) {
    struct tide_table *table = walk->table;
    if (r.node == k->self && tide__word_state(*word) != TIDE__ARRIVING) {
        int code = await(walk, word, k);
        if (code) {
            return code;
        }
    }
    write_owner(table, word, k);
    tide__trail_add(table, key, r.to, (r.term - 1) & TIDE__TERM_MASK, r.node);
    tide__outbox_key(table, TIDE__OP_HAND, r.to, r.node, key, r.term);
    return 0;
}

/* An operation that was sent to this node as the home. */
static bool asks_home(const struct walk *walk) {
    return walk->operation && walk->event.node;
}

/* Does the key's slot make it wait: for what this node sent by a former home, or because the slot comes, or
 * goes and this would be sent to the owner? */
static bool slot_parks(const struct walk *walk, const struct tide__relocation *k, uint32_t route, uint64_t word) {
    const struct tide__job *job = walk->job;
    const bool gone = k->state == TIDE__GONE;
    const bool wish = job->kind == TIDE__LOC || job->kind == TIDE__OFFER;
    const bool held = tide__word_state(word) == TIDE__ARRIVING && tide__arrival_of(walk->table, word)->held;
    const bool fenced = (job->own || job->returned || job->kind == TIDE__OFFER) && (route & TIDE__OWN_HOLD);
    const bool here = k->owner == k->self && !TIDE_MUTANT(closed_keeps_wishes);
    const bool waits = (route & TIDE__AWAITED) || ((route & TIDE__CLOSED) && !here);
    return (fenced && (gone || held)) || (waits && (wish || gone || asks_home(walk)));
}

/* Has the localize been granted before? A node resends a localize that may have been lost with a home that
 * passed it on (relocate_messages.c). */
static bool is_repeated(const struct walk *walk, uint32_t index, uint64_t key, const struct tide__relocation *k) {
    const struct tide__job *job = walk->job;
    return job->kind == TIDE__LOC && k->home &&
           tide__trail_awaits(walk->table, key, job->origin, tide__job_term_at(job, index));
}

/* Do rows move to where they are localized? Those of a static table with a second tier come to memory only. */
static bool moves(const struct tide_table *table) {
    return tide_technique_relocates(table->options.technique);
}

/* What the state of slots and nodes decides before the key's own: true, and where it goes. */
static bool decided(const struct walk *walk, uint32_t index, uint64_t key, const struct tide__relocation *k,
                    uint32_t route, uint64_t word, uint32_t *to) {
    const struct tide__job *job = walk->job;
    const struct tide_store *store = walk->table->store;
    const uint16_t home = tide__route_home(route);
    const bool gone = k->state == TIDE__GONE;
    *to = 0;
    if (TIDE_UNLIKELY(route & (TIDE__OWN_HOLD | TIDE__AWAITED | TIDE__CLOSED)) && slot_parks(walk, k, route, word)) {
        *to = PARK;
        return true;
    }
    if (is_repeated(walk, index, key, k)) {
        return true;
    }
    if (k->home && k->owner != k->self && k->owner != 0 && job->kind != TIDE__OFFER &&
        (gone || asks_home(walk) || job->kind == TIDE__LOC) && tide__member_gone(store, k->owner)) {
        *to = DIED | k->owner;
        return true;
    }
    const bool waits = !k->cold && (job->kind == TIDE__LOCALIZE ? k->state != TIDE__HELD
                                                                : walk->operation && k->state == TIDE__COMING);
    if (waits && !k->home && tide__member_gone(store, home)) {
        *to = DIED | home;
        return true;
    }
    /* what comes now would have to go again, or is of a table whose rows stay */
    return job->kind == TIDE__LOCALIZE && gone &&
           (store->leaving || (!moves(walk->table) && !(job->flags & TIDE__INTENDED)));
}

/* A worker requests the key, which is neither here nor at home here, and nothing stands in the way: what
 * relocate() would come to, of most keys of most calls. False: it is to look. */
static inline bool ask(struct walk *walk, uint32_t slot, uint64_t key, uint64_t *word, uint32_t *to, int *error) {
    struct tide_table *table = walk->table;
    const uint32_t route = tide__route_of(table, slot);
    const uint16_t home = tide__route_home(route);
    if (tide__word_state(*word) != TIDE__ABSENT || (route & (TIDE__MINE | TIDE__AWAITED | TIDE__OWN_HOLD)) ||
        tide__member_gone(table->store, home)) {
        return false;
    }
    const struct tide__relocation k = {.home = false};
    *to = !(walk->job->flags & TIDE__INTENDED) || tide__intent_lasts(table, key)
              ? ask_home(walk, home, key, word, &k, error)
              : 0;
    return true;
}

/* Another node localizes the key, which is here, at home, and unused: it goes there, as
 * relocate() would have it. False: it is to look. */
static inline bool grant(struct walk *walk, uint32_t slot, uint64_t key, uint64_t *word) {
    struct tide_table *table = walk->table;
    const uint16_t to = walk->job->origin;
    if (tide__word_state(*word) != TIDE__OWNED ||
        (tide__route_of(table, slot) & (TIDE__MINE | TIDE__AWAITED | TIDE__OWN_HOLD)) != TIDE__MINE) {
        return false;
    }
    struct tide__relocation k = tide__key_view(table, slot, *word);
    const struct tide__relocate_event event = {.kind = TIDE__EVENT_LOC, .node = to};
    const struct tide__relocate_result r = tide__relocate(&k, event);
    if (r.act == TIDE__GIVE) {
        *word = tide__owner_give(table, *word, &k, key, to, r.term);
    }
    return true;
}

/* A localize of an intent. Another node's interest, or that this node has the row or waits for
 * it, may be reason enough for it to stay; the home remembers the interest in any case. */
static bool intent_moves(const struct walk *walk, uint16_t home, uint64_t key, uint64_t word,
                         const struct tide__relocation *k) {
    const struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    if (job->own && !tide__intent_lasts(table, key)) {
        return false; /* the home has been notified, or will be, that it is over */
    }
    if (!moves(table)) { /* its home reads it from the disk, if it is there */
        if (job->own && k->state == TIDE__GONE && !k->home) {
            tide__outbox_key(table, TIDE__OP_LOC, home, TIDE__INTENDED, key, tide__word_seen(word));
        }
        return false;
    }
    if (!k->home) {
        if (job->own && k->state != TIDE__GONE) {
            tide__outbox_key(table, TIDE__OP_INTENT, home, 0, key, 0);
            return false;
        }
        return true;
    }
    const enum tide__rule rule = tide__interest_begins(table, key, job->origin, k->owner);
    if (rule == TIDE__RULE_OWN || k->owner == job->origin) {
        return true;
    }
    if (job->own) { /* it does not wait yet */
        if (rule == TIDE__RULE_COPY) {
            tide__outbox_key(table, TIDE__OP_INTENT, home, 0, key, 0);
        }
        return false;
    }
    tide__outbox_add(table, TIDE__OP_STAY, job->origin, rule == TIDE__RULE_COPY ? TIDE__STAY_COPY : TIDE__STAY_REMOTE,
                     key, 0, NULL, NULL);
    return false;
}

/* A push makes a row for which there is no room in memory: it waits, as for one that is read. */
static bool must_wait(const struct walk *walk, uint32_t slot, uint64_t key, uint64_t *word) {
    struct tide_table *table = walk->table;
    const bool limit = table->options.key_limit && tide__rows_here(table) >= table->options.key_limit;
    if (walk->job->kind != TIDE__PUSH || tide__word_state(*word) != TIDE__ABSENT || limit || !tide__tier_full(table) ||
        !tide__cold_arrives(table, word, TIDE__PLACE_INITIAL)) {
        return false;
    }
    tide__tiered_of(table)->want(table, slot, key, *word);
    return true;
}

/* 0: done here. Else where it goes, and under which term its owner has it. The word is locked and stays
 * so. */
static uint32_t relocate(struct walk *walk, uint32_t index, uint32_t slot, uint64_t key, uint64_t *word,
                         struct tide__relocation k, int *error) {
    struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    const uint32_t route = tide__route_of(table, slot);
    uint32_t to = 0;
    if (decided(walk, index, key, &k, route, *word, &to)) {
        return to;
    }
    if (TIDE_UNLIKELY(job->flags & TIDE__INTENDED) && !walk->operation &&
        !intent_moves(walk, tide__route_home(route), key, *word, &k)) {
        return 0;
    }
    struct tide__relocate_result r = tide__relocate(&k, walk->event);
    switch (r.act) {
    case TIDE__RUN:
        if (TIDE_UNLIKELY(tide__tiered_of(table)) && must_wait(walk, slot, key, word)) {
            to = QUEUE;
            walk->term = (uint32_t)*word;
            break;
        }
        *error = run_here(walk, index, slot, key, word);
        to = *error ? NO_MEMORY : 0;
        break;
    case TIDE__QUEUE:
        to = QUEUE;
        walk->term = (uint32_t)*word;
        break;
    case TIDE__TO_HOME:
        to = job->own && walk->operation ? tide__locations_way(table, job, key, &walk->term) : 0;
        to = to ? to | STRAIGHT : tide__route_home(route);
        break;
    case TIDE__TO_OWNER:
        to = r.node | OWNER;
        walk->term = k.owner_term;
        break;
    case TIDE__ASK:
        to = ask_home(walk, tide__route_home(route), key, word, &k, error);
        break;
    case TIDE__SEND_HAND:
        *error = hand(walk, key, word, &k, r);
        to = *error ? NO_MEMORY : job->kind == TIDE__LOCALIZE ? QUEUE : 0;
        walk->term = (uint32_t)*word;
        break;
    case TIDE__GIVE:
        if (tide__word_state(*word) == TIDE__ARRIVING &&
            !tide__arrival_of(table, *word)->here) { /* never made, and this node waits too */
            write_owner(table, word, &k);
            tide__outbox_add(table, TIDE__OP_XFER, r.node, 0, key, r.term | TIDE__NO_ROW, NULL, NULL);
        } else {
            *word = tide__owner_give(table, *word, &k, key, r.node, r.term);
        }
        break;
    case TIDE__NOTED:
        write_owner(table, word, &k);
        tide__trail_add(table, key, k.self, (r.term - 1) & TIDE__TERM_MASK, r.node);
        break;
    case TIDE__INSTALL:
        *word =
            tide__owner_install(table, *word, key, &k, r, TIDE__CUT_NO_ROW, NULL, tide_port_now(table->store->port));
        break;
    case TIDE__SURPRISE:
        tide__table_count(table, TIDE__SURPRISES, 1);
        break;
    default:
        break;
    }
    return to;
}

/* An operation that came straight: here, while this node has the row under the term it names. If the row is on the disk
 * it waits: sent back, it would be overtaken by a later one that finds the row in memory, under the same term. */
static uint32_t run_or_return(struct walk *walk, uint32_t index, uint32_t slot, uint64_t key, uint64_t *word,
                              const struct tide__relocation *k, int *error) {
    const uint32_t term = tide__job_term_at(walk->job, index);
    const bool waits = k->cold && !TIDE_MUTANT(cold_sent_back);
    const bool has = (k->state == TIDE__HELD || waits) && (k->term == term || TIDE_MUTANT(location_term_ignored));
    if (!has) {
        walk->term = term;
        return BACK | walk->job->origin;
    }
    if (waits) {
        walk->term = (uint32_t)*word;
        return QUEUE;
    }
    *error = run_here(walk, index, slot, key, word);
    return *error ? NO_MEMORY : 0;
}

/* Begins the read of a row that is on the disk. A row that a localize or an intent brings up ahead of its use, or finds
 * in memory, counts as used, so that it stays until then. False: out of memory. */
static bool meet_cold(const struct walk *walk, uint32_t slot, uint64_t key, uint64_t *word) {
    struct tide_table *table = walk->table;
    if (tide__word_state(*word) == TIDE__COLD && !tide__cold_arrives(table, word, (uint32_t)*word)) {
        return false;
    }
    if (tide__word_state(*word) == TIDE__ARRIVING) {
        tide__arrival_of(table, *word)->ahead |= !walk->operation;
        tide__tiered_of(table)->want(table, slot, key, *word);
    } else if (tide__word_state(*word) == TIDE__OWNED && !walk->operation) {
        *word |= TIDE__WORD_TOUCHED;
    }
    return true;
}

/* As relocate(), with what workers and location caches need besides. */
static uint32_t decide(struct walk *walk, uint32_t index, uint32_t slot, uint64_t key, uint64_t *word, int *error) {
    struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    if (TIDE_UNLIKELY(tide__tiered_of(table)) && !meet_cold(walk, slot, key, word)) {
        *error = tide_fail(TIDE_EBUSY, "no memory to read a row from the disk");
        return NO_MEMORY;
    }
    const struct tide__relocation k = tide__key_view(table, slot, *word);
    if (tide__job_straight(job)) {
        return run_or_return(walk, index, slot, key, word, &k, error);
    }
    if (job->own && !job->returned && (walk->operation || job->kind == TIDE__LOCALIZE) &&
        tide__locations_wait(table, job, key, k.home, k.state == TIDE__GONE)) {
        return PARK;
    }
    uint32_t to = relocate(walk, index, slot, key, word, k, error);
    if (to != PARK && job->own && walk->operation) {
        *word = tide__taken_back(table, *word);
    }
    if (job->returned && to != PARK) {
        tide__locations_resent(table, job, key);
    } else if (job->returned && !job->own && !tide__handed_over(table, word)) {
        *error = tide_fail(TIDE_EBUSY, "too many operations wait for one key");
        to = NO_MEMORY;
    }
    return to;
}

/* ---- the rest of a job ---- */

static void queue_part(struct walk *walk, const struct part *keys) {
    struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    const uint32_t *indices = keys->indices;
    const size_t count = keys->count;
    struct tide__job *part = tide__job_detach(job, indices, count);
    if (part) {
        part->waiters = tide_alloc(count * sizeof *part->waiters);
        part->failed = tide_alloc_zero(count, 1);
        part->left = (uint32_t)count;
        tide__misses_init(&part->misses);
    }
    if (!part || !part->waiters || !part->failed) {
        if (part) {
            tide__job_free(table->store, part);
        }
        tide__job_error(job, TIDE_EBUSY, "too many operations wait for rows on the move", indices, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tide__waiter *w = &part->waiters[i];
        *w = (struct tide__waiter){.job = part, .index = i};
        /* only this thread ends an arrival, and uses its queue: no lock */
        struct tide__arrival *a = tide__arrival_of(table, keys->terms[i]);
        if (TIDE_MUTANT(reloc_queue_backwards) && a->first) {
            w->next = a->first;
            a->first = w;
        } else {
            *a->last = w;
            a->last = &w->next;
        }
    }
    if (job->kind != TIDE__LOCALIZE) {
        tide__table_count(table, TIDE__QUEUED, count);
    }
}

/* The origin fails them if the node dies, or this one, and may go there straight. */
static void tell_passed(const struct tide__job *job, const struct part *part, uint16_t node) {
    struct tide_store *store = job->table->store;
    const struct tide__way way = {.via = tide__store_self(store), .leg = job->hops + 1u};
    uint32_t few[64];
    uint32_t *positions = part->count <= TIDE_COUNT(few) ? few : tide_alloc(part->count * sizeof *positions);
    for (size_t i = 0; positions && i < part->count; i++) {
        positions[i] = tide__job_position_at(job, part->indices[i]);
    }
    if (positions && job->origin == tide__store_self(store)) {
        tide__pending_at(store, job->id, way, node, positions, part->count);
    } else if (positions) {
        (void)tide__store_tell(
            store, job->origin,
            TIDE__AS(PASSED, .id = job->id, .node = node, .leg = way.leg,
                     .positions = TIDE__LIST(positions, part->count),
                     .terms = part->to & OWNER ? TIDE__LIST(part->terms, part->count) : TIDE__LIST_NONE));
    }
    if (positions != few) {
        tide_free(positions);
    }
}

static void fail_part(struct walk *walk, const uint32_t *indices, size_t count, int code, uint16_t dead,
                      const char *text) {
    struct tide__job *job = walk->job;
    if (job->kind != TIDE__LOC) {
        tide__job_error(job, code, text, indices, count);
        return;
    }
    for (size_t i = 0; i < count; i++) { /* the requester waits for it */
        tide__outbox_add(walk->table, TIDE__OP_LOST, job->origin, dead, tide__job_key_at(job, indices[i]), 0, NULL,
                         NULL);
    }
}

/* "Your map is old", where it is: other keys went to an owner, not to a home. */
static void tell_map(const struct tide__job *job, const struct part *part) {
    uint32_t stale[64];
    size_t count = 0;
    for (size_t i = 0; i < part->count && count < TIDE_COUNT(stale); i++) {
        uint32_t slot = tide__slot_of(job->table, tide__job_key_at(job, part->indices[i]));
        if (!(tide__route_of(job->table, slot) & TIDE__MINE)) {
            stale[count++] = part->indices[i];
        }
    }
    if (count) {
        tide__job_tell_map(job, stale, count, (uint16_t)part->to);
    }
}

/* The destination of what is forwarded or parked. */
static void address(struct tide__job *job, bool owner) {
    job->flags = (uint8_t)((job->flags & ~TIDE__PASSED_ON) | (owner ? TIDE__PASSED_ON : 0));
}

static void forward_part(struct walk *walk, const struct part *part) {
    struct tide__job *job = walk->job;
    struct tide_table *table = walk->table;
    const uint16_t to = (uint16_t)part->to;
    char name[96], text[160];
    int code = job->hops + 1 >= TIDE__HOPS_MAX ? TIDE_EREFUSED : 0;
    if (!code && job->id && !(part->to & BACK)) { /* before the new place can answer */
        tell_passed(job, part, to);
    }
    address(job, part->to & OWNER);
    code = code
               ? code
               : tide__job_pass(job, part->indices, part->to & (STRAIGHT | BACK) ? part->terms : NULL, part->count, to);
    if (code) {
        tide__node_text(table->store, to, name);
        (void)snprintf(text, sizeof text, "node %s %s", name,
                       code == TIDE_EREFUSED ? "would be one hop too many"
                       : code == TIDE_EDIED  ? "died"
                                             : "cannot be reached");
        fail_part(walk, part->indices, part->count, code, to, text);
        return;
    }
    tide__table_count(table, part->to & STRAIGHT ? TIDE__LOCATION_USED : TIDE__FORWARDED,
                      job->own && !(part->to & STRAIGHT) ? 0 : part->count);
    if (job->origin != tide__store_self(table->store) && !(part->to & BACK)) {
        tell_map(job, part);
    }
}

/* The localize is at the home until the row comes: when the slot moves, or its home leaves, it is waited for
 * like operations that went there. */
static void asked(const struct tide__job *job, const struct part *part) {
    struct tide_store *store = job->table->store;
    const struct tide__way way = {.via = tide__store_self(store), .leg = 1};
    if (job->id == 0) {
        return;
    }
    if (part->count == job->count) {
        tide__pending_at(store, job->id, way, (uint16_t)part->to, job->positions, job->count);
        return;
    }
    uint32_t *positions = tide_alloc(part->count * sizeof *positions);
    for (size_t i = 0; positions && i < part->count; i++) {
        positions[i] = tide__job_position_at(job, part->indices[i]);
    }
    if (positions) {
        tide__pending_at(store, job->id, way, (uint16_t)part->to, positions, part->count);
    }
    tide_free(positions);
}

static void dispatch_part(struct walk *walk, const struct part *part, int error) {
    char text[160];
    if (part->to == PARK) {
        address(walk->job, false);
        tide__job_park(walk->job, part->indices, part->count);
    } else if (part->to == QUEUE) {
        queue_part(walk, part);
    } else if (part->to & ASKED) {
        queue_part(walk, part);
        asked(walk->job, part);
    } else if (part->to == NO_MEMORY) {
        fail_part(walk, part->indices, part->count, error ? error : TIDE_ENOMEM, 0, tide_error_message());
    } else if (part->to & DIED) {
        tide__died_text(walk->table->store, (uint16_t)part->to, text);
        fail_part(walk, part->indices, part->count, TIDE_EDIED, (uint16_t)part->to, text);
    } else {
        forward_part(walk, part);
    }
}

/* What was missed, destination by destination, in order. */
static void dispatch(struct walk *walk, int error) {
    struct tide__misses *m = &walk->job->misses;
    size_t same = 0;
    while (same < m->count && walk->to[same] == walk->to[0]) {
        same++;
    }
    if (same == m->count) {
        const struct part all = {.indices = m->at, .terms = walk->terms, .count = m->count, .to = walk->to[0]};
        dispatch_part(walk, &all, error);
        return;
    }
    uint32_t *indices = tide_alloc(2 * m->count * sizeof *indices), *terms = indices + m->count;
    if (!indices) {
        fail_part(walk, m->at, m->count, TIDE_ENOMEM, 0, "no memory to pass an operation on");
        return;
    }
    for (size_t first = 0; first < m->count; first++) {
        struct part part = {.indices = indices, .terms = terms, .to = walk->to[first]};
        if (part.to == UINT32_MAX) {
            continue;
        }
        for (size_t i = first; i < m->count; i++) {
            if (walk->to[i] == part.to) {
                terms[part.count] = walk->terms[i];
                indices[part.count++] = m->at[i];
                walk->to[i] = UINT32_MAX;
            }
        }
        dispatch_part(walk, &part, error);
    }
    tide_free(indices);
}

static int note_miss(struct walk *walk, uint32_t index, uint32_t to) {
    struct tide__misses *m = &walk->job->misses;
    if (!walk->to) {
        /* one array: positions, destinations, terms */
        const size_t count = walk->job->count;
        uint32_t *all = tide_alloc(3 * count * sizeof *all);
        if (!all) {
            return TIDE_ENOMEM;
        }
        m->at = all;
        walk->to = all + count;
        walk->terms = all + 2 * count;
    }
    walk->terms[m->count] = walk->term;
    walk->to[m->count] = to;
    m->at[m->count++] = index;
    return 0;
}

void tide__owner_job(struct tide__job *job) {
    struct tide_table *table = job->table;
    struct tide_store *store = table->store;
    struct walk walk = {.job = job,
                        .table = table,
                        .event = event_of(job),
                        .operation = job->kind == TIDE__PULL || job->kind == TIDE__PUSH};
    const bool answered = job->kind != TIDE__LOC && job->kind != TIDE__OFFER;
    const bool wishes = job->kind == TIDE__LOC && !job->returned && !(job->flags & TIDE__INTENDED);
    const bool asks = job->own && job->kind == TIDE__LOCALIZE && !job->returned && !store->leaving && moves(table) &&
                      !tide__locations_in_use(table);
    int error = 0;
    tide__misses_init(&job->misses);
    tide__owners_of(table)->outbox.hint = job->count;
    struct tide__key_block block;
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->own && walk.operation && i + 8 < job->count) {
            tide__locations_prefetch(table, tide__job_key_at(job, i + 8));
        }
        uint64_t key, old;
        uint32_t slot, to = NO_MEMORY;
        atomic_uint_fast64_t *word = tide__block_lock(table, &block, job->keys, i, job->count, &key, &slot, &old);
        if (word) {
            if (wishes && grant(&walk, slot, key, &old)) {
                to = 0;
            } else if (!asks || !ask(&walk, slot, key, &old, &to, &error)) {
                to = decide(&walk, i, slot, key, &old, &error);
            }
            tide__word_unlock(word, old);
        }
        if (to && note_miss(&walk, i, to)) {
            tide__job_error(job, TIDE_ENOMEM, "no memory to pass an operation on", NULL, job->count);
            job->misses.count = job->count; /* nothing else is answered */
            break;
        }
    }
    if (answered && job->origin != tide__store_self(store)) {
        tide__table_count(table, job->kind == TIDE__PULL ? TIDE__SERVED_PULLS : TIDE__SERVED_PUSHES,
                          job->count - job->misses.count);
    }
    if (job->misses.count && walk.to) {
        dispatch(&walk, error);
    }
    if (answered) {
        tide__job_reply(job);
    }
    if (job->own && !job->queued_once) {
        atomic_fetch_add_explicit(&table->self_handled, 1, memory_order_release);
    }
    tide__owner_finish(table);
}

/* ---- a row that stays ---- */

/* An operation that waited for a row that does not come goes to where the row is, as if it came now. */
static void operate_there(struct tide_table *table, struct tide__waiter *w, uint32_t slot, uint64_t key) {
    struct tide__job *job = w->job;
    struct walk walk = {.job = job, .table = table, .event = event_of(job), .operation = true};
    uint64_t word;
    int error = 0;
    atomic_uint_fast64_t *at = tide__key_lock(table, slot, key, &word);
    TIDE_ASSERT(at); /* keys stay in the index */
    const struct tide__relocation k = tide__key_view(table, slot, word);
    uint32_t to = relocate(&walk, w->index, slot, key, &word, k, &error);
    if (to == PARK && job->own && !tide__handed_over(table, &word)) { /* it will be taken back again */
        error = tide_fail(TIDE_EBUSY, "too many operations wait for one key");
        to = NO_MEMORY;
    }
    tide__word_unlock(at, word);
    if (to) {
        const struct part part = {.indices = &w->index, .terms = &walk.term, .count = 1, .to = to};
        dispatch_part(&walk, &part, error);
        job->failed[w->index] = 1; /* answered, or to be, by another node */
        job->failures++;
    }
    tide__waiter_done(table, w, 0, NULL);
}

/* Does a localize wait, which did not ask for itself? */
static bool is_wanted(const struct tide__arrival *a) {
    for (const struct tide__waiter *w = a->first; w; w = w->next) {
        if (w->job->kind == TIDE__LOCALIZE && !(w->job->flags & TIDE__INTENDED)) {
            return true;
        }
    }
    return false;
}

void tide__owner_stays(struct tide_table *table, uint64_t key) {
    const uint32_t slot = tide__slot_of(table, key);
    uint64_t word;
    atomic_uint_fast64_t *at = tide__key_lock(table, slot, key, &word);
    struct tide__waiter *waiters = NULL, *next;
    if (!at) {
        return;
    }
    struct tide__relocation k = tide__key_view(table, slot, word);
    struct tide__arrival *a = k.state == TIDE__COMING && !k.cold ? tide__arrival_of(table, word) : NULL;
    const struct tide__relocate_event event = {.kind = TIDE__EVENT_STAY};
    if (!a || !a->intended) {
        tide__table_count(table, TIDE__SURPRISES, k.state != TIDE__HELD && !k.cold); /* it came with its slot */
    } else if (is_wanted(a)) {
        a->intended = false;
        tide__outbox_add(table, TIDE__OP_LOC, tide__route_home(tide__route_of(table, slot)), 0, key, k.term, NULL,
                         NULL);
    } else if (tide__relocate(&k, event).act == TIDE__STAYS) {
        const uint32_t handed = a->own < UINT16_MAX ? a->own : UINT16_MAX;
        waiters = a->first;
        tide__hand_give(&table->slab, a->row);
        tide__arrival_free(table, word);
        word = tide__word_gone(word, &k, handed);
    } else {
        tide__table_count(table, TIDE__SURPRISES, 1);
    }
    tide__word_unlock(at, word);
    for (struct tide__waiter *w = TIDE_MUTANT(stay_queue_forgotten) ? NULL : waiters; w; w = next) {
        next = w->next;
        if (w->job->kind == TIDE__LOCALIZE) {
            tide__waiter_done(table, w, 0, NULL);
        } else {
            operate_there(table, w, slot, key);
        }
    }
}
