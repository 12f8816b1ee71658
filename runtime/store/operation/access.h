/* One walk over keys, and the rows of this node that it reads or changes (access.c). */
#ifndef TIDE_STORE_ACCESS_H
#define TIDE_STORE_ACCESS_H

#include "store/core/message.h"
#include "store/core/table.h"

struct tide__misses {
    uint32_t *at; /* positions in the call, ascending */
    size_t count, capacity;
    uint32_t small[64];
};
static inline void tide__misses_init(struct tide__misses *misses) {
    misses->at = misses->small;
    misses->count = 0;
    misses->capacity = TIDE_COUNT(misses->small);
}
static inline void tide__misses_release(struct tide__misses *misses) {
    if (TIDE_UNLIKELY(misses->at != misses->small)) {
        tide_free(misses->at);
    }
    misses->at = misses->small;
    misses->count = 0;
}
int tide__misses_add(struct tide__misses *misses, size_t position);  /* ENOMEM */
int tide__misses_reserve(struct tide__misses *misses, size_t count); /* room for `count` of an empty list; ENOMEM */

/* Of an operation, on the wire too. SUBSCRIBES, OF_COPY, INTENDED: hot_keys.h. */
enum tide__operation_flags {
    TIDE__RAW = 1,        /* rows with state, copied both ways */
    TIDE__SUMS = 2,       /* push, raw: added instead */
    TIDE__SUBSCRIBES = 4, /* pull: the origin keeps a copy, and requests a notice of the next change;
                             push: and requests the rows that others have changed since it read them */
    TIDE__OF_COPY = 8,    /* push: what the copy of the origin has in it already */
    TIDE__INTENDED = 16,  /* localize, LOC: of an intent; the home decides, and may answer STAY */
    TIDE__PASSED_ON = 32, /* pull, push: the home of relocating keys passed it on to their owner */
    TIDE__FLAGS = 63
};

struct tide__ticket;

/* One walk over the keys of a call or a message; what is not served here is listed in `misses`. */
struct tide__pass {
    struct tide_table *table;
    const void *keys;      /* u64, any alignment */
    const uint32_t *index; /* positions to visit, or NULL for 0..count-1 */
    size_t count, at;      /* at: the next to visit; kept when the pass stops early */
    float *out;            /* pull: row i at out + i * width */
    const uint8_t *in;     /* push: rows, any alignment */
    uint32_t mask;         /* TIDE__FOR_... */
    bool raw;              /* rows with state, copied both ways */
    uint8_t flags;         /* enum tide__operation_flags, TIDE__RAW as `raw` says */
    uint16_t changer;      /* push of a copy's updates: its node */
    bool hands_over;       /* relocating tables: what is missed goes to the store actor, and counts */
    bool patient;          /* may wait for a row; else EBUSY */
    bool async;            /* the call does not wait for an answer */
    bool unshared;         /* begun when the table had no shared keys: OVERTAKEN once it has */
    uint32_t stamp;        /* push: the clock of the worker that pushes, or TIDE_NO_CLOCK */
    /* Rows that come with their slot: u32 each, and second versions of the split ones, in order. */
    const uint8_t *marks, *seconds;
    uint64_t changes; /* of the table's routes when the pass began */
    struct tide__misses *misses;
    uint64_t deadline; /* tables with copies: until when what was read may be returned */
};
int tide__pass_pull(struct tide__pass *pass);
int tide__pass_push(struct tide__pass *pass);
/* Walks of techniques: the plain one, one of keys that have owners, one that tells of every row (row_event); all is
 * missed. */
int tide__walk(struct tide__pass *pass, enum tide__kind kind);
int tide__walk_owned(struct tide__pass *pass, enum tide__kind kind);
int tide__walk_copied(struct tide__pass *pass, enum tide__kind kind);
int tide__pass_miss_all(struct tide__pass *pass);
/* Misses at these positions are not sent after all. */
void tide__pass_take_back(const struct tide__pass *pass, const uint32_t *positions, size_t count);

/* ELIMIT, ERANGE. */
int tide__check_keys(const struct tide_table *table, const uint64_t *keys, size_t count);
/* Walks, and asks other nodes for what was missed; `t` is initialised, and waited for if `wait`. *sent:
 * what was missed is in flight, or was. TIDE__OVERTAKEN: what was missed was not requested, copies
 * may have it by now (hot_keys.h). */
int tide__pass_run(struct tide__pass *pass, enum tide__kind kind, struct tide__ticket *t, bool wait, bool *sent);
/* The door: may it begin? Waits for what the caller issued before, where that counts. */
int tide__operation_enter(struct tide_table *table, enum tide__kind kind, bool raw, const uint64_t *keys, size_t count,
                          const float *in);
/* Names every field: gcc clears what is left out by `rep stos`, which takes a quarter of a pull of one local key. */
static inline struct tide__pass tide__pass_of_worker(struct tide_table *table, const uint64_t *keys, size_t count,
                                                     float *out, const float *in, struct tide__misses *misses) {
    return (struct tide__pass){.table = table,
                               .keys = keys,
                               .index = NULL,
                               .count = count,
                               .at = 0,
                               .out = out,
                               .in = (const uint8_t *)in,
                               .mask = TIDE__FOR_WORKER,
                               .raw = false,
                               .flags = 0,
                               .changer = 0,
                               .hands_over = true,
                               .patient = true,
                               .async = false,
                               .unshared = false,
                               .stamp = TIDE_NO_CLOCK,
                               .marks = NULL,
                               .seconds = NULL,
                               .changes = 0,
                               .misses = misses,
                               .deadline = 0};
}
/* Pull and push by no worker, beside clocks and copies of hot keys; rows with their state when `raw`. Waits. */
int tide__operate_plain(struct tide_table *table, enum tide__kind kind, bool raw, const uint64_t *keys, size_t count,
                        float *out, const float *in);

#endif
