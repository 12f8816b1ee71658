/*
 * Empties segments that are mostly garbage into a segment of its own, so that rows which stay cold for long lie
 * together. The victim has the best ratio of benefit and cost for its age (Rosenblum and Ousterhout, "The Design and
 * Implementation of a Log-Structured File System", TOCS 1992: (1 - u) age / (1 + u), u the share in use).
 *
 * A record is in use if the word of its key is COLD at exactly its place. It is copied; when the copy is on the disk,
 * the word gets the new place, unless it has changed meanwhile. A row in memory whose clean copy lies in the victim
 * loses CLEAN. A victim with a read in flight is scanned a second time.
 */
#include "store/tier/tier.h"

enum { SPARE_SEGMENTS = 4, AGAIN_NS = 10000000 };
#define BAD_NS (60 * TIDE_SECOND)

static bool is_open(const struct tide__tier *tier, uint32_t segment) {
    return segment == tier->freeze.segment || segment == tier->compact.segment;
}

/* The next victim, if files exceed 1.33 x the space in use and some segments. */
static uint32_t choose(const struct tide__tier *tier) {
    const uint64_t room = tier->segments_count * tier->per_segment;
    const uint64_t bound = tier->live + tier->live / 3 + (uint64_t)SPARE_SEGMENTS * tier->per_segment;
    const uint64_t now = tide_port_now(tier->port);
    uint32_t best = TIDE__PLACE_NONE;
    double most = 0;
    for (uint32_t i = 0, seen = 0; i < TIDE__TIER_SEGMENTS && seen < tier->segments_count; i++) {
        const struct tide__segment *segment = tier->segments[i];
        seen += segment != NULL;
        if (!segment || is_open(tier, i) || segment->removing || (segment->live > 0 && now < segment->bad_until)) {
            continue;
        }
        /* Copies take whole units: a segment whose copies fill as many units is no victim. */
        const uint32_t units = (segment->live + tier->per_unit - 1) / tier->per_unit;
        const double used = (double)(units * tier->per_unit) / tier->per_segment;
        const double age = (double)(tier->numbers - segment->number + 1);
        const double win = segment->live == 0 ? 1e300 : room > bound ? (1 - used) * age / (1 + used) : 0;
        if (win > most) {
            most = win;
            best = i;
        }
    }
    return best;
}

/* Deletes the file of an unused segment, unless a reader by place has a pin. */
static bool remove_empty(struct tide__tier *tier, uint32_t number) {
    struct tide__segment *segment = tier->segments[number];
    const bool unused = segment->live == 0 || TIDE_MUTANT(compact_unlinks_read);
    /* acquire: with the end of a reader by place */
    if (!unused || segment->reads > 0 || atomic_load_explicit(&tier->pins, memory_order_acquire) > 0) {
        return false;
    }
    segment->removing = true;
    tide__segment_remove(tier, number);
    return true;
}

/* All records have been visited. Rows whose `back` lies here are free, or have changed since. */
static void end_pass(struct tide__tier *tier) {
    const uint32_t first = tier->victim * tier->per_segment;
    for (uint32_t row = 0; row < tier->rows_capacity; row++) {
        if (tier->back[row] - first < tier->per_segment) {
            tide__row_forget(tier, row);
        }
    }
    const uint32_t victim = tier->victim;
    tier->victim = TIDE__PLACE_NONE;
    if (!remove_empty(tier, victim)) {
        TIDE_SOMETIMES(tier_victim_in_use);
        tier->compact_at = tide_port_now(tier->port) + AGAIN_NS;
    }
}

/* A read error may be transient: the segment is retried later. Without rows in use it is deleted at once. */
static void spare(struct tide__tier *tier, uint32_t segment) {
    TIDE_SOMETIMES(tier_segment_unreadable);
    tier->segments[segment]->bad_until = tide_port_now(tier->port) + BAD_NS;
}

/* Visits a record of the victim. False: the write of the block is in flight. */
static bool look(struct tide__tier *tier, const struct tide__record *record, uint32_t place) {
    struct tide_table *table = tier->table;
    uint64_t old;
    if (record->flags == 0 || !tide__record_good(tier, record, record->key)) {
        if (record->flags) { /* unreadable, and perhaps in use */
            spare(tier, tier->victim);
        }
        return true;
    }
    atomic_uint_fast64_t *word = tide__tier_word(table, record->key, &old);
    if (!word) {
        return true;
    }
    bool done = true;
    const bool here = (uint32_t)old == place || TIDE_MUTANT(compact_resurrects);
    if (tide__word_state(old) == TIDE__COLD && here) {
        const struct tide__put put = {.key = record->key, .row = UINT32_MAX, .from = (uint32_t)old};
        done = tide__stream_put(tier, &tier->compact, &put, record->version, record->row) != TIDE__PLACE_NONE;
    } else if (tide__word_state(old) == TIDE__OWNED && (uint32_t)old < tier->rows_capacity &&
               tier->back[(uint32_t)old] == place) {
        old &= ~TIDE__WORD_CLEAN;
        tide__row_forget(tier, (uint32_t)old);
    }
    tide__word_unlock(word, old);
    return done;
}

/* Continues with the records that were read. True: all have been visited. */
static bool look_at_block(struct tide__tier *tier) {
    const uint32_t first = tier->victim_at;
    const uint64_t base = tide__record_offset(tier, first);
    while (tier->scan_next < tier->scan_count) {
        const uint32_t record = first + tier->scan_next;
        const void *at = tier->scan_data + (tide__record_offset(tier, record) - base);
        if (!look(tier, at, tier->victim * tier->per_segment + record)) {
            return false;
        }
        tier->scan_next++;
    }
    return true;
}

static void scanned(struct tide__tier *tier, struct tide__work *work) {
    struct tide__segment *segment = tier->segments[tier->victim];
    segment->reads--;
    tier->scanning = false;
    if (work->code) {
        tide_log(TIDE_LOG_ERROR, tide_node_name(tier->table->store->node),
                 "table '%s': a segment of its disk cannot be read: %s", tier->table->name, work->text);
        spare(tier, tier->victim);
        tier->scan_count = tier->scan_next = 0;
        tier->victim = TIDE__PLACE_NONE;
    }
}

static void begin_scan(struct tide__tier *tier) {
    struct tide__segment *segment = tier->segments[tier->victim];
    const uint32_t left = segment->written - tier->victim_at;
    tier->scan_count = left < tier->per_block ? left : tier->per_block;
    tier->scan_next = 0;
    segment->reads++;
    tier->scanning = true;
    tier->scan = (struct tide__work){.kind = TIDE__WORK_READ,
                                     .segment = tier->victim,
                                     .data = tier->scan_data,
                                     .size = (size_t)(tier->scan_count / tier->per_unit) * tier->unit_bytes,
                                     .offset = tide__record_offset(tier, tier->victim_at),
                                     .done = scanned};
    tide__work_begin(tier, &tier->scan);
}

void tide__compact_step(struct tide__tier *tier) {
    const uint64_t now = tide_port_now(tier->port);
    if (tier->scanning || tier->compact.busy || now < tier->compact_at || tier->error) {
        return;
    }
    if (tier->victim == TIDE__PLACE_NONE) {
        tier->victim = choose(tier);
        tier->victim_at = tier->scan_count = tier->scan_next = 0;
        if (tier->victim == TIDE__PLACE_NONE) {
            return;
        }
        if (remove_empty(tier, tier->victim)) {
            tier->victim = TIDE__PLACE_NONE;
            tide__tier_again(tier);
            return;
        }
    }
    if (!look_at_block(tier)) {
        return; /* until the block is on the disk */
    }
    tier->victim_at += tier->scan_count;
    tier->scan_count = tier->scan_next = 0;
    if (tier->victim_at < tier->segments[tier->victim]->written) {
        begin_scan(tier);
    } else if (tier->compact.count > 0) {
        tide__stream_flush(tier, &tier->compact); /* the turn after the write ends the pass */
    } else {
        end_pass(tier);
        tide__tier_again(tier);
    }
}

void tide__compact_done(struct tide__tier *tier, struct tide__work *work) {
    struct tide__stream *stream = &tier->compact;
    struct tide__segment *segment = tier->segments[stream->segment];
    stream->busy = false;
    if (work->code) {
        segment->next = stream->first;
        tier->compact_at = tide_port_now(tier->port) + TIDE_SECOND;
    } else {
        segment->written = segment->next;
    }
    for (uint32_t i = 0; i < stream->count && !work->code; i++) {
        const struct tide__put *put = &stream->puts[i];
        const uint32_t place = stream->segment * tier->per_segment + stream->first + i;
        uint64_t old;
        atomic_uint_fast64_t *word = tide__tier_word(tier->table, put->key, &old);
        if (word && tide__word_state(old) == TIDE__COLD && (uint32_t)old == put->from) {
            tide__place_forget(tier, put->from);
            tide__place_use(tier, place);
            old = (old & ~(uint64_t)UINT32_MAX) | place;
            tier->moved++;
            TIDE_SOMETIMES(tier_record_moved);
        }
        if (word) {
            tide__word_unlock(word, old);
        }
    }
    stream->count = 0;
}
