/*
 * The second tier of a table: rows in use stay in memory, the others lie in segments on a disk of the node.
 *
 *   segment.c  files: records, blocks, the disk thread's work
 *   readers.c  threads that read rows
 *   hand.c     selects rows to freeze: a clock hand sweeps the key words
 *   thaw.c     reads rows that operations need
 *   compact.c  empties segments that are mostly garbage
 *   tier.c     directory, bounds of memory, the turn of the store actor
 *
 * States of a row that this node owns:
 *
 *   OWNED            in memory. CLEAN: the disk has this version at place back[row]. A change of the row clears the
 * flag (cut.h), and the record is garbage from then on COLD             on the disk alone; the word holds the place
 *   ARRIVING, cold   an operation needs the row and queues in the arrival record, as for a row in flight from another
 *                    node, until the row is read; relocate.h decides all other events (TIDE__EVENT_THAW)
 *
 * A row freezes in two steps. Its copy goes to the open block, and the word becomes CLEAN. When the block is on the
 * disk, a word that is still CLEAN and untouched becomes COLD. So the row is in memory or on the disk at any moment. A
 * row that was read and not changed freezes without a write.
 *
 * A place is segment x records per segment + record. `live` of a segment counts the COLD words and cold arrivals that
 * name it, and the rows whose `back` lies in it; a segment without any is unused. Its file is deleted when no read is
 * in flight and no checkpoint reads by place (`pins`).
 *
 * Files last as long as the process: generations and moves carry rows away, and the next table of that name empties the
 * directory. A row that cannot be read is an error with file, offset and key, never an initial row.
 *
 * All fields are the I/O thread's unless marked otherwise.
 */
#ifndef TIDE_STORE_TIER_H
#define TIDE_STORE_TIER_H

#include "port/reads.h"
#include "store/adaptive/owner.h"
#include "store/rows/rules.h"

enum {
    TIDE__TIER_BLOCK = 4096, /* unit and alignment of reads and writes, bytes */
    TIDE__TIER_SEGMENTS = 1 << 16,
    TIDE__TIER_PATH = 400,
    TIDE__TIER_RETRY_NS = 1000000, /* until what could not be done now is tried again */
    TIDE__WARM = 3,                /* largest warmth: passes of the hand for which an unused row stays */
};
#define TIDE__PLACE_NONE (UINT32_MAX - 1)

/* In a segment, little-endian. A record with a wrong checksum is invalid. */
struct tide__record {
    uint64_t key, version; /* version: rows that the table had frozen before this one */
    uint32_t flags, crc;   /* crc: of the fields above and the row */
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

/* A task of the disk thread, or of a reader. */
enum tide__work_kind { TIDE__WORK_OPEN, TIDE__WORK_READ, TIDE__WORK_WRITE, TIDE__WORK_UNLINK };
struct tide__work {
    struct tide_task task; /* first */
    struct tide__tier *tier;
    struct tide__work *next;
    enum tide__work_kind kind;
    bool create; /* WRITE: makes the file first */
    uint32_t segment;
    void *data;
    size_t size;
    uint64_t offset;
    int code;
    char text[240];
    void (*done)(struct tide__tier *tier, struct tide__work *work); /* I/O thread */
    struct tide__want *wants;                                       /* READ of rows; by readers.c */
    struct tide_read read;                                          /* of a reader with a ring */
};

struct tide__segment {
    struct tide_file *file; /* the disk thread's until it is made */
    uint64_t number;        /* never reused */
    uint32_t next, written; /* records with a place; records on the disk */
    uint32_t live, reads;   /* reads: in flight */
    uint64_t bad_until;     /* a record could not be read: no victim before this time */
    bool removing;
    struct tide__work removal;
};

/* ---- a block that fills up and is then written ---- */
struct tide__put {
    uint64_t key;
    uint32_t row, from; /* row: number of a row that freezes; from: former place of a record that moves */
};
struct tide__stream {
    uint8_t *data;
    struct tide__put *puts;
    uint32_t segment, first, count; /* segment TIDE__PLACE_NONE: none is open */
    bool busy;                      /* a write of it is in flight */
    struct tide__work work;
};

/* A pending read of a row. */
struct tide__want {
    struct tide__want *next;
    uint64_t key;
    uint32_t slot, place, row;
    bool good; /* its record has the checksum; by the thread that has read it */
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
    uint32_t *back;  /* per row of the slab: its place on the disk, or TIDE__PLACE_NONE */
    uint8_t *warmth; /* per row of the slab */
    uint32_t rows_capacity, rows_reserve, rows_first; /* rows_first: the capacity at first */
    struct tide__stream freeze, compact;
    /* hand.c */
    uint32_t hand_slot;
    uint64_t hand_at;
    uint32_t hand_rounds; /* since the hand last found a row */
    uint64_t hand_due;    /* until then the hand rests, ever longer while it finds no row: rest_ns */
    uint64_t rest_ns;
    bool freezing, rests; /* rests: the hand found no row and retries later */
    /* thaw.c */
    struct tide__wants wants, anew, later; /* cold rows; new rows; rows to retry, which another node waits for */
    uint64_t later_at;
    uint32_t reads;
    /* compact.c */
    uint32_t victim, victim_at;
    bool scanning;
    struct tide__work scan;
    uint8_t *scan_data;
    uint32_t scan_count, scan_next;
    uint64_t compact_at;
    /* the disk rejects writes */
    int error;
    char error_text[240];
    uint64_t error_until;
    uint64_t live, cold, frozen, thawed, moved, segments_count;
    uint64_t taken;                               /* rows of the slab for which reads are in flight */
    uint32_t beyond;                              /* rows that this turn may take beyond the bound */
    atomic_uint_fast64_t stats[TIDE__TIER_STATS]; /* any thread reads */
    atomic_uint pins;                             /* readers by place: no file is deleted. Any thread */
    uint64_t due;
    bool again; /* the next turn has work */
    struct tide__work open, *finished, **finished_last;
    struct tide__work *reading; /* reads_most of them, each with its buffer once it has read */
    struct tide__work *reading_free;
    struct tide__readers *readers; /* NULL: the disk thread reads rows */
    bool opened, opens_again;
    uint64_t open_until;
    uint32_t outstanding;
};

static inline struct tide__tier *tide__tier_of(const struct tide_table *table) {
    return table->parts[TIDE__PART_TIER]; /* its face is first */
}
extern const struct tide__technique tide__tiering;
tide__handler tide__tier_message; /* TIER */

/* ---- tier.c ---- */
int tide__tier_open(struct tide__tier *tier); /* its directory; on a thread that may block */
/* Publishes the count of rows that are not in memory, after `cold`, `anew` or `taken` has changed. */
void tide__tier_count(struct tide__tier *tier);
/* Requests another turn. */
void tide__tier_again(struct tide__tier *tier);

/* Wakes the store actor for a turn. Any thread. False: out of memory. */
bool tide__tier_wake(struct tide__tier *tier);

/* ---- readers.c ---- */
int tide__readers_start(struct tide__tier *tier); /* after an error fewer threads run, or none */
void tide__readers_stop(struct tide__tier *tier);
void tide__readers_add(struct tide__tier *tier, struct tide__work *work);
struct tide__work *tide__readers_done(struct tide__tier *tier); /* reads that finished since the last call */

/* ---- segment.c ---- */
void tide__tier_layout(struct tide__tier *tier, uint32_t row_floats, uint64_t memory);
uint64_t tide__record_offset(const struct tide__tier *tier, uint32_t record);
/* Is it a valid record of `key`? */
bool tide__record_good(const struct tide__tier *tier, const struct tide__record *record, uint64_t key);
static inline struct tide__segment *tide__segment_at(const struct tide__tier *tier, uint32_t place) {
    return tier->segments[place / tier->per_segment];
}
/* Counts a place in use, or no longer in use. */
void tide__place_use(struct tide__tier *tier, uint32_t place);
void tide__place_forget(struct tide__tier *tier, uint32_t place);
void tide__row_forget(struct tide__tier *tier, uint32_t row); /* its `back` */
/* Extends the arrays per row to `row`: rows that move here may exceed the bound. False: out of memory. */
bool tide__rows_reach(struct tide__tier *tier, uint32_t row);
/* Copies a row into the block. Returns its place; TIDE__PLACE_NONE: the block is full, or its write is in flight. */
uint32_t tide__stream_put(struct tide__tier *tier, struct tide__stream *stream, const struct tide__put *put,
                          uint64_t version, const float *row);
void tide__stream_flush(struct tide__tier *tier, struct tide__stream *stream);
int tide__stream_init(struct tide__tier *tier, struct tide__stream *stream,
                      void (*done)(struct tide__tier *tier, struct tide__work *work));
/* Compares the checksums of the records that a READ has read, on the reading thread. */
void tide__read_check(struct tide__work *work);
void tide__work_begin(struct tide__tier *tier, struct tide__work *work);
void tide__work_finish(struct tide__tier *tier); /* calls `done` of finished work */
void tide__segment_remove(struct tide__tier *tier, uint32_t segment);
void tide__segment_path(const struct tide__tier *tier, const struct tide__segment *segment,
                        char out[TIDE__TIER_PATH + 40]);
/* Reads a row on the calling thread, which may block and holds a pin. ELOST. */
int tide__tier_read(struct tide_table *table, uint32_t place, uint64_t key, float *row);
int tide__tier_unreadable(const struct tide__tier *tier, uint32_t place, uint64_t key, const char *why);

/* ---- hand.c, thaw.c, compact.c ---- */
bool tide__hand_rests(const struct tide__tier *tier);
void tide__hand_step(struct tide__tier *tier);
void tide__freeze_done(struct tide__tier *tier, struct tide__work *work);
void tide__tier_want(struct tide_table *table, uint32_t slot, uint64_t key, uint64_t word);
void tide__reads_init(struct tide__tier *tier);
void tide__thaw_step(struct tide__tier *tier);
void tide__compact_step(struct tide__tier *tier);
void tide__compact_done(struct tide__tier *tier, struct tide__work *work);
/* The locked word of a key; NULL: the key is not in the index. */
atomic_uint_fast64_t *tide__tier_word(struct tide_table *table, uint64_t key, uint64_t *old);

#endif
