/*
 * The second tier of a table: rows that are used stay in memory, the others lie in segments on a disk of the node.
 *
 *   segment.c  the files: records, blocks, what the disk thread does
 *   readers.c  threads that read rows
 *   hand.c     which rows are frozen: a clock hand goes over the key words
 *   thaw.c     a row that is needed is read again
 *   compact.c  segments that are mostly garbage are emptied
 *   tier.c     the directory, bounds of memory, the turn of the store actor
 *
 * States of a row that this node owns:
 *
 *   OWNED            in memory. CLEAN: the disk has this version at place back[row]; whoever changes the row takes the
 *                    flag away (cut.h), and the record is garbage from then on
 *   COLD             on the disk alone; the word has its place
 *   ARRIVING, cold   an operation needs it. It queues in the arrival record, as for a row that comes from another node,
 *                    until the row is read; relocate.h decides what else happens to it (TIDE__EVENT_THAW)
 *
 * A row freezes in two steps: a copy goes to the open block, and the word becomes CLEAN; when the block is on the disk,
 * a word that is still CLEAN and was not touched becomes COLD. So there is no moment at which a row is nowhere. A row
 * that was read and not changed freezes without a write.
 *
 * A place is segment x records per segment + record. `live` of a segment counts the COLD and cold words and the rows
 * whose `back` lies in it, so a segment without any is not needed. Its file goes when no read is in flight and no
 * checkpoint reads by place (`pins`).
 *
 * What is on the disk outlives no process: generations and moves carry rows away, the directory is emptied when the
 * table is made again. A row that cannot be read is an error that names file, offset and key, never an initial row.
 *
 * All of it is the I/O thread's, but for what is marked.
 */
#ifndef TIDE_STORE_TIER_H
#define TIDE_STORE_TIER_H

#include "store/adaptive/owner.h"
#include "store/rows/rules.h"

enum {
    TIDE__TIER_BLOCK = 4096, /* bytes that are read and written at once, and at multiples of which */
    TIDE__TIER_SEGMENTS = 1 << 16,
    TIDE__TIER_PATH = 400,
    TIDE__WARM = 3, /* passes of the hand that a row stays that was used in as many */
};
#define TIDE__PLACE_NONE (UINT32_MAX - 1)

/* In a segment, little-endian. A record whose sum does not fit is none. */
struct tide__record {
    uint64_t key, version; /* how many rows the table had frozen before */
    uint32_t flags, crc;   /* of the row and of what is above */
    float row[];
};

enum tide__tier_stat {
    TIDE__TIER_COLD,
    TIDE__TIER_BYTES,
    TIDE__TIER_FROZEN,
    TIDE__TIER_THAWED,
    TIDE__TIER_MOVED,
    TIDE__TIER_STATS
};

struct tide__tier;
struct tide__want;
struct tide__readers;

/* What the disk thread does. */
enum tide__work_kind { TIDE__WORK_OPEN, TIDE__WORK_READ, TIDE__WORK_WRITE, TIDE__WORK_UNLINK };
struct tide__work {
    struct tide_task task; /* first */
    struct tide__tier *tier;
    struct tide__work *next;
    enum tide__work_kind kind;
    bool create; /* write: the file is made first */
    uint32_t segment;
    void *data;
    size_t size;
    uint64_t offset;
    int code;
    char text[240];
    void (*done)(struct tide__tier *tier, struct tide__work *work); /* I/O thread */
    struct tide__want *wants;
};

struct tide__segment {
    struct tide_file *file; /* the disk thread's until it was made */
    uint64_t number;        /* never reused */
    uint32_t next, written; /* records that have a place; that are on the disk */
    uint32_t live, reads;   /* reads: in flight */
    uint64_t bad_until;     /* a record could not be read: until then it is no victim */
    bool removing;
    struct tide__work removal;
};

/* ---- a block that is being filled, then written ---- */
struct tide__put {
    uint64_t key;
    uint32_t row, from; /* of a row that freezes; or the place from which it is moved */
};
struct tide__stream {
    uint8_t *data;
    struct tide__put *puts;
    uint32_t segment, first, count; /* segment TIDE__PLACE_NONE: none is open */
    bool busy;                      /* it is being written */
    struct tide__work work;
};

/* A row that is to be read. */
struct tide__want {
    struct tide__want *next;
    uint64_t key;
    uint32_t slot, place, row;
};
struct tide__wants {
    struct tide__want *first, **last;
    size_t count;
};

struct tide__tier {
    struct tide__tiered face; /* first */
    struct tide_table *table;
    struct tide_port *port;
    char path[TIDE__TIER_PATH];
    struct tide_file *owner; /* the lock of the directory */
    /* layout, constant: `per_unit` records lie in `unit_bytes`, a multiple of a block */
    uint32_t record_bytes, stride, per_unit, unit_bytes, per_segment, per_block, block_bytes;
    uint32_t reads_most, read_bytes;
    struct tide__segment **segments; /* by number in a place */
    uint64_t numbers, version;
    uint32_t *back;  /* of each row of the slab: its place on the disk, or TIDE__PLACE_NONE */
    uint8_t *warmth; /* of each row */
    uint32_t rows_capacity, rows_reserve;
    struct tide__stream freeze, compact;
    /* hand.c */
    uint32_t hand_slot;
    uint64_t hand_at;
    uint32_t hand_rounds; /* since it last found a row */
    bool freezing, rests; /* rests: it found none, and looks again later */
    /* thaw.c */
    struct tide__wants wants, anew, later; /* cold rows; rows that are new; that could not be read, and must be */
    uint64_t later_at;
    uint32_t reads;
    /* compact.c */
    uint32_t victim, victim_at;
    bool scanning;
    struct tide__work scan;
    uint8_t *scan_data;
    uint32_t scan_count, scan_next;
    uint64_t compact_at;
    /* the disk refuses */
    int error;
    char error_text[240];
    uint64_t error_until;
    uint64_t live, cold, frozen, thawed, moved, segments_count;
    atomic_uint_fast64_t stats[TIDE__TIER_STATS]; /* any thread reads */
    atomic_uint pins;                             /* readers by place: no file goes. Any thread */
    uint64_t due;
    bool again; /* the next turn has something to do */
    struct tide__work open, *finished, **finished_last;
    struct tide__work *reading;    /* reads_most of them */
    struct tide__readers *readers; /* NULL: the disk thread reads rows */
    bool opened, opens_again;
    uint64_t open_until;
    uint32_t outstanding;
};

static inline struct tide__tier *tide__tier_of(const struct tide_table *table) {
    return (struct tide__tier *)(void *)table->tier;
}
extern const struct tide__technique tide__tiering;
tide__handler tide__tier_message; /* TIER */

/* ---- tier.c ---- */
int tide__tier_open(struct tide__tier *tier); /* its directory, on the disk thread or another that may block */
/* Something is left to do in the next turn. */
void tide__tier_again(struct tide__tier *tier);

/* The next turn comes soon. Any thread. False: the store actor could not be woken. */
bool tide__tier_wake(struct tide__tier *tier);

/* ---- readers.c ---- */
int tide__readers_start(struct tide__tier *tier); /* after an error there are fewer, or none */
void tide__readers_stop(struct tide__tier *tier);
void tide__readers_add(struct tide__tier *tier, struct tide__work *work);
struct tide__work *tide__readers_done(struct tide__tier *tier); /* what was read since the last call */

/* ---- segment.c ---- */
void tide__tier_layout(struct tide__tier *tier, uint32_t row_floats, uint64_t memory);
uint64_t tide__record_offset(const struct tide__tier *tier, uint32_t record);
/* Is it the record of `key`? */
bool tide__record_good(const struct tide__tier *tier, const struct tide__record *record, uint64_t key);
static inline struct tide__segment *tide__segment_at(const struct tide__tier *tier, uint32_t place) {
    return tier->segments[place / tier->per_segment];
}
/* A place more, or less, is in use. */
void tide__place_use(struct tide__tier *tier, uint32_t place);
void tide__place_forget(struct tide__tier *tier, uint32_t place);
void tide__row_forget(struct tide__tier *tier, uint32_t row); /* its `back` */
/* Room for what is kept of the row: rows that move here may be more than the bound. False: out of memory. */
bool tide__rows_reach(struct tide__tier *tier, uint32_t row);
/* A row's copy into the block: its place; TIDE__PLACE_NONE: the block is full, or being written. */
uint32_t tide__stream_put(struct tide__tier *tier, struct tide__stream *stream, const struct tide__put *put,
                          uint64_t version, const float *row);
void tide__stream_flush(struct tide__tier *tier, struct tide__stream *stream);
int tide__stream_init(struct tide__tier *tier, struct tide__stream *stream,
                      void (*done)(struct tide__tier *tier, struct tide__work *work));
void tide__work_begin(struct tide__tier *tier, struct tide__work *work);
void tide__work_finish(struct tide__tier *tier); /* calls `done` of what has been done */
void tide__segment_remove(struct tide__tier *tier, uint32_t segment);
void tide__segment_path(const struct tide__tier *tier, const struct tide__segment *segment,
                        char out[TIDE__TIER_PATH + 40]);
/* Reads a record, on the calling thread, which may block: the row. Between pins. ELOST. */
int tide__tier_read(struct tide_table *table, uint32_t place, uint64_t key, float *row);
int tide__tier_unreadable(const struct tide__tier *tier, uint32_t place, uint64_t key, const char *why);

/* ---- hand.c, thaw.c, compact.c ---- */
void tide__hand_step(struct tide__tier *tier);
void tide__freeze_done(struct tide__tier *tier, struct tide__work *work);
void tide__tier_want(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word);
void tide__thaw_step(struct tide__tier *tier);
void tide__compact_step(struct tide__tier *tier);
void tide__compact_done(struct tide__tier *tier, struct tide__work *work);
/* The word of a key that is in the index, locked; NULL: it is not. */
atomic_uint_fast64_t *tide__tier_word(struct tide_table *table, uint64_t key, uint64_t *old);

#endif
