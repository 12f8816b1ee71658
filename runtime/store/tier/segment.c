/* Segments: records in files, blocks, and the disk thread's queue. See tier.h. */
#include "store/tier/tier.h"

static const char magic[8] = {'T', 'I', 'D', 'E', 'S', 'E', 'G', '1'};

/* ---- layout ---- */

static uint32_t whole_blocks(uint64_t bytes) {
    return (uint32_t)((bytes + TIDE__TIER_BLOCK - 1) / TIDE__TIER_BLOCK * TIDE__TIER_BLOCK);
}

void tide__tier_layout(struct tide__tier *tier, uint32_t row_floats, uint64_t memory) {
    enum { SECTOR = 512, WIDE = 8 };
    tier->record_bytes = (uint32_t)sizeof(struct tide__record) + row_floats * (uint32_t)sizeof(float);
    const bool narrow = tier->record_bytes <= TIDE__TIER_BLOCK;
    tier->stride = narrow ? (tier->record_bytes + 7) / 8 * 8 : (tier->record_bytes + SECTOR - 1) / SECTOR * SECTOR;
    tier->per_unit = narrow ? TIDE__TIER_BLOCK / tier->stride : WIDE;
    tier->unit_bytes = narrow ? TIDE__TIER_BLOCK : tier->stride * WIDE;
    uint64_t block = tide_limit(store_tier_block_bytes), segment = tide_limit(store_tier_segment_bytes);
    block = block < memory / 16 ? block : memory / 16;
    const uint32_t units = block > tier->unit_bytes ? (uint32_t)(block / tier->unit_bytes) : 1;
    tier->block_bytes = units * tier->unit_bytes;
    tier->per_block = units * tier->per_unit;
    segment = segment < tier->block_bytes ? tier->block_bytes : segment;
    tier->per_segment = (uint32_t)(segment / tier->unit_bytes) * tier->per_unit;
    tier->read_bytes = narrow ? TIDE__TIER_BLOCK : whole_blocks(tier->record_bytes + SECTOR) + TIDE__TIER_BLOCK;
    const uint64_t reads = memory / 16 / tier->read_bytes + 1;
    tier->reads_most = reads < tide_limit(store_tier_reads) ? (uint32_t)reads : (uint32_t)tide_limit(store_tier_reads);
}

uint64_t tide__record_offset(const struct tide__tier *tier, uint32_t record) {
    return TIDE__TIER_BLOCK + (uint64_t)(record / tier->per_unit) * tier->unit_bytes +
           (uint64_t)(record % tier->per_unit) * tier->stride;
}

static uint32_t sum_of(const struct tide__tier *tier, const struct tide__record *record) {
    const uint32_t head = tide_crc32c(0, record, offsetof(struct tide__record, crc));
    return tide_crc32c(head, record->row, tier->record_bytes - sizeof *record);
}

bool tide__record_good(const struct tide__tier *tier, const struct tide__record *record, uint64_t key) {
    return record->key == key && record->flags == 1 && record->crc == sum_of(tier, record);
}

/* ---- places ---- */

void tide__place_use(struct tide__tier *tier, uint32_t place) {
    tide__segment_at(tier, place)->live++;
    tier->live++;
}

void tide__place_forget(struct tide__tier *tier, uint32_t place) {
    if (place == TIDE__PLACE_NONE || place == TIDE__PLACE_INITIAL) {
        return;
    }
    struct tide__segment *segment = tide__segment_at(tier, place);
    TIDE_ASSERT(segment && segment->live > 0);
    segment->live--;
    tier->live--;
}

void tide__row_forget(struct tide__tier *tier, uint32_t row) {
    if (row < tier->rows_capacity && tier->back[row] != TIDE__PLACE_NONE) {
        tide__place_forget(tier, tier->back[row]);
        tier->back[row] = TIDE__PLACE_NONE;
    }
}

bool tide__rows_reach(struct tide__tier *tier, uint32_t row) {
    if (row < tier->rows_capacity) {
        return true;
    }
    const uint32_t capacity = row + row / 4 + TIDE__HAND_ROWS;
    uint32_t *back = tide_realloc(tier->back, capacity * sizeof *back);
    tier->back = back ? back : tier->back;
    uint8_t *warmth = back ? tide_realloc(tier->warmth, capacity) : NULL;
    tier->warmth = warmth ? warmth : tier->warmth;
    if (!warmth) {
        return false;
    }
    for (uint32_t i = tier->rows_capacity; i < capacity; i++) {
        back[i] = TIDE__PLACE_NONE;
        warmth[i] = 0;
    }
    tier->rows_capacity = capacity;
    return true;
}

/* ---- segments ---- */

void tide__segment_path(const struct tide__tier *tier, const struct tide__segment *segment,
                        char out[TIDE__TIER_PATH + 40]) {
    (void)snprintf(out, TIDE__TIER_PATH + 40, "%s/%08llu.seg", tier->path, (unsigned long long)segment->number);
}

/* Its number in places; TIDE__PLACE_NONE: out of memory, or too many segments. */
static uint32_t segment_new(struct tide__tier *tier) {
    const uint32_t most = TIDE__PLACE_NONE / tier->per_segment;
    for (uint32_t i = 0; i < TIDE__TIER_SEGMENTS && i < most; i++) {
        if (!tier->segments[i]) {
            tier->segments[i] = tide_alloc_zero(1, sizeof *tier->segments[i]);
            if (tier->segments[i]) {
                tier->segments[i]->number = ++tier->numbers;
                tier->segments_count++;
                return i;
            }
            break;
        }
    }
    return TIDE__PLACE_NONE;
}

static void segment_free(struct tide__tier *tier, uint32_t segment) {
    tide_free(tier->segments[segment]);
    tier->segments[segment] = NULL;
    tier->segments_count--;
}

static void removed(struct tide__tier *tier, struct tide__work *work) {
    if (work->code) {
        tide_log(TIDE_LOG_WARN, tide_node_name(tier->table->store->node), "table '%s': %s", tier->table->name,
                 work->text);
    }
    segment_free(tier, work->segment);
}

void tide__segment_remove(struct tide__tier *tier, uint32_t segment) {
    struct tide__work *work = &tier->segments[segment]->removal;
    *work = (struct tide__work){.kind = TIDE__WORK_UNLINK, .segment = segment, .done = removed};
    tide__work_begin(tier, work);
}

/* ---- blocks ---- */

int tide__stream_init(struct tide__tier *tier, struct tide__stream *stream,
                      void (*done)(struct tide__tier *tier, struct tide__work *work)) {
    stream->segment = TIDE__PLACE_NONE;
    stream->data = tide_alloc_aligned(TIDE__TIER_BLOCK, tier->block_bytes);
    stream->puts = tide_alloc(tier->per_block * sizeof *stream->puts);
    stream->work = (struct tide__work){.kind = TIDE__WORK_WRITE, .data = stream->data, .done = done};
    return stream->data && stream->puts ? 0 : TIDE_ENOMEM;
}

/* Begins an empty block. False: no segment can be opened. */
static bool begin_block(struct tide__tier *tier, struct tide__stream *stream) {
    struct tide__segment *open = stream->segment == TIDE__PLACE_NONE ? NULL : tier->segments[stream->segment];
    if (!open || open->next + tier->per_unit > tier->per_segment) {
        stream->segment = segment_new(tier);
        if (stream->segment == TIDE__PLACE_NONE) {
            return false;
        }
        open = tier->segments[stream->segment];
    }
    stream->first = open->next;
    memset(stream->data, 0, tier->block_bytes);
    return true;
}

static uint32_t capacity_of(const struct tide__tier *tier, const struct tide__stream *stream) {
    const uint32_t left = tier->per_segment - stream->first;
    return left < tier->per_block ? left : tier->per_block;
}

uint32_t tide__stream_put(struct tide__tier *tier, struct tide__stream *stream, const struct tide__put *put,
                          uint64_t version, const float *row) {
    if (stream->busy || (stream->count == 0 && !begin_block(tier, stream)) ||
        stream->count == capacity_of(tier, stream)) {
        return TIDE__PLACE_NONE;
    }
    const uint32_t at = stream->first + stream->count;
    struct tide__record *record =
        (void *)(stream->data + (tide__record_offset(tier, at) - tide__record_offset(tier, stream->first)));
    *record = (struct tide__record){.key = put->key, .version = version, .flags = 1};
    memcpy(record->row, row, tier->record_bytes - sizeof *record);
    stream->puts[stream->count++] = *put;
    tier->segments[stream->segment]->next = at + 1;
    if (stream->count == capacity_of(tier, stream)) {
        tide__stream_flush(tier, stream);
    }
    return stream->segment * tier->per_segment + at;
}

void tide__stream_flush(struct tide__tier *tier, struct tide__stream *stream) {
    if (stream->busy || stream->count == 0) {
        return;
    }
    struct tide__segment *segment = tier->segments[stream->segment];
    const uint32_t units = (stream->count + tier->per_unit - 1) / tier->per_unit;
    segment->next = stream->first + units * tier->per_unit;
    stream->busy = true;
    stream->work.create = !segment->file;
    stream->work.segment = stream->segment;
    stream->work.size = (size_t)units * tier->unit_bytes;
    stream->work.offset = tide__record_offset(tier, stream->first);
    tide__work_begin(tier, &stream->work);
}

/* ---- the disk thread ---- */

static int make_file(struct tide__tier *tier, struct tide__segment *segment) {
    const struct tide_port_ops *ops = tier->port->ops;
    char path[TIDE__TIER_PATH + 40];
    tide__segment_path(tier, segment, path);
    int code = ops->file_open(tier->port, path,
                              TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_TRUNCATE |
                                  TIDE_FILE_DIRECT | TIDE_FILE_PRIVATE,
                              &segment->file);
    uint8_t *head = code ? NULL : tide_alloc_aligned(TIDE__TIER_BLOCK, TIDE__TIER_BLOCK);
    if (head) {
        const uint64_t fields[] = {1 /* format */, segment->number, tier->table->row_floats, tier->record_bytes,
                                   tier->stride,   tier->per_unit,  tier->unit_bytes};
        memset(head, 0, TIDE__TIER_BLOCK);
        memcpy(head, magic, sizeof magic);
        memcpy(head + sizeof magic, fields, sizeof fields);
        const uint32_t sum = tide_crc32c(0, head, sizeof magic + sizeof fields);
        memcpy(head + sizeof magic + sizeof fields, &sum, sizeof sum);
        code = ops->file_write(segment->file, head, TIDE__TIER_BLOCK, 0);
    } else if (!code) {
        code = tide_fail(TIDE_ENOMEM, "no memory to begin '%s'", path);
    }
    tide_free(head);
    return code;
}

static void close_file(struct tide__tier *tier, struct tide__segment *segment) {
    if (segment->file) {
        tier->port->ops->file_close(segment->file);
        segment->file = NULL;
    }
}

static int remove_file(struct tide__tier *tier, struct tide__segment *segment) {
    struct tide_port *port = tier->port;
    char path[TIDE__TIER_PATH + 40];
    close_file(tier, segment);
    tide__segment_path(tier, segment, path);
    return port->ops->file_unlink(port, path);
}

/* Checksums of a block, before it is written. */
static void sum_block(struct tide__tier *tier, struct tide__work *work) {
    const struct tide__stream *stream = TIDE_CONTAINER(work, struct tide__stream, work);
    for (uint32_t i = 0; i < stream->count; i++) {
        const uint64_t at = tide__record_offset(tier, stream->first + i) - work->offset;
        struct tide__record *record = (void *)(stream->data + at);
        record->crc = sum_of(tier, record);
    }
}

void tide__read_check(struct tide__work *work) {
    const struct tide__tier *tier = work->tier;
    for (struct tide__want *want = work->wants; want; want = want->next) {
        const uint64_t at = tide__record_offset(tier, want->place % tier->per_segment) - work->offset;
        want->good = tide__record_good(tier, (const void *)((const uint8_t *)work->data + at), want->key);
    }
}

static int carry_out(struct tide__tier *tier, struct tide__work *work) {
    struct tide__segment *segment = tier->segments[work->segment]; /* OPEN: none */
    const struct tide_port_ops *ops = tier->port->ops;
    ssize_t got;
    int code = 0;
    switch (work->kind) {
    case TIDE__WORK_READ:
        got = ops->file_read(segment->file, work->data, work->size, work->offset);
        return got < 0 ? (int)got
               : (size_t)got < work->size
                   ? tide_fail(TIDE_EIO, "the file ends at %llu", (unsigned long long)(work->offset + (uint64_t)got))
                   : 0;
    case TIDE__WORK_WRITE:
        sum_block(tier, work);
        code = work->create ? make_file(tier, segment) : 0;
        code = code ? code : ops->file_write(segment->file, work->data, work->size, work->offset);
        if (code && work->create) { /* the next write makes the file anew */
            char text[sizeof work->text];
            (void)snprintf(text, sizeof text, "%s", tide_error_message());
            (void)remove_file(tier, segment);
            (void)tide_fail(code, "%s", text);
        }
        return code;
    case TIDE__WORK_UNLINK:
        return remove_file(tier, segment);
    case TIDE__WORK_OPEN:
        return tide__tier_open(tier);
    }
    return code;
}

static void run_work(struct tide_task *task) {
    struct tide__work *work = (struct tide__work *)(void *)task;
    work->code = carry_out(work->tier, work);
    if (work->code) {
        (void)snprintf(work->text, sizeof work->text, "%s", tide_error_message());
    } else {
        tide__read_check(work);
    }
}

/* I/O thread, outside of the store actor's turn: `done` runs in its next turn, which may send and set timers. */
static void work_ran(struct tide_task *task) {
    struct tide__work *work = (struct tide__work *)(void *)task;
    struct tide__tier *tier = work->tier;
    *tier->finished_last = work;
    tier->finished_last = &work->next;
    tide__tier_again(tier);
}

void tide__work_begin(struct tide__tier *tier, struct tide__work *work) {
    work->task = (struct tide_task){.run = run_work, .done = work_ran};
    work->tier = tier;
    work->next = NULL;
    work->code = 0;
    work->text[0] = '\0';
    tier->outstanding++;
    if (work->wants && tier->readers) {
        tide__readers_add(tier, work);
        return;
    }
    tide_task_start(tier->table->store->node, TIDE_ROLE_DISK, &work->task);
}

static void finish(struct tide__tier *tier, struct tide__work *work) {
    for (struct tide__work *next; work; work = next) {
        next = work->next;
        tier->outstanding--;
        work->done(tier, work);
    }
}

void tide__work_finish(struct tide__tier *tier) {
    struct tide__work *work = tier->finished;
    tier->finished = NULL;
    tier->finished_last = &tier->finished;
    finish(tier, work);
    finish(tier, tide__readers_done(tier));
}

/* ---- reading by place ---- */

int tide__tier_unreadable(const struct tide__tier *tier, uint32_t place, uint64_t key, const char *why) {
    const struct tide__segment *segment = tide__segment_at(tier, place);
    char path[TIDE__TIER_PATH + 40];
    tide__segment_path(tier, segment, path);
    return tide_fail(TIDE_ELOST, "the row of key %llu of table '%s' cannot be read from '%s' at offset %llu: %s",
                     (unsigned long long)key, tier->table->name, path,
                     (unsigned long long)tide__record_offset(tier, place % tier->per_segment), why);
}

int tide__tier_read(struct tide_table *table, uint32_t place, uint64_t key, float *row) {
    struct tide__tier *tier = tide__tier_of(table);
    if (place == TIDE__PLACE_INITIAL) {
        tide__row_init(&table->options, key, row, true);
        return 0;
    }
    const uint64_t at = tide__record_offset(tier, place % tier->per_segment);
    const uint64_t from = at / TIDE__TIER_BLOCK * TIDE__TIER_BLOCK;
    const size_t size = whole_blocks(at + tier->record_bytes - from);
    uint8_t *data = tide_alloc_aligned(TIDE__TIER_BLOCK, size);
    if (!data) {
        return tide_fail(TIDE_ENOMEM, "no memory to read a row of table '%s'", table->name);
    }
    const ssize_t got = tier->port->ops->file_read(tide__segment_at(tier, place)->file, data, size, from);
    const struct tide__record *record = (const void *)(data + (at - from));
    int code = 0;
    if (got < (ssize_t)size || !tide__record_good(tier, record, key)) {
        char why[200];
        (void)snprintf(why, sizeof why, "%s", got < 0 ? tide_error_message() : "its checksum differs");
        code = tide__tier_unreadable(tier, place, key, why);
    } else {
        memcpy(row, record->row, tier->record_bytes - sizeof *record);
    }
    tide_free(data);
    return code;
}
