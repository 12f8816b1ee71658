#include "control/raft_log.h"
#include "control/records.h"
#include "port/port.h"

#include <string.h>

enum { VERSION = 1, PATH_BYTES = 340, FIELDS = 5 };
enum { RECORD_START, RECORD_ENTRY };
static const char magic[8] = "tideraf";
static const char suffix_log[] = ".log", suffix_lock[] = ".lock";

struct entry {
    uint64_t term;
    enum tide_raft_log_kind kind;
    void *data;
    size_t size;
};

struct tide_raft_log {
    struct tide_port *port;
    struct tide_file *file, *lock;
    uint64_t size, first;  /* first: index of entries[0] */
    struct entry *entries; /* behind the start */
    size_t count, capacity;
    char path[PATH_BYTES];
};

static void path_of(char path[PATH_BYTES], const char *directory, uint16_t id, const char *suffix) {
    snprintf(path, PATH_BYTES, "%s/holder-%05u%s", directory, (unsigned)id, suffix);
}

/* ---- writing ---- */

static int lock(struct tide_port *port, const char *directory, uint16_t id, struct tide_file **out) {
    char path[PATH_BYTES];
    path_of(path, directory, id, suffix_lock);
    return port->ops->file_open(
        port, path, TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_LOCK | TIDE_FILE_PRIVATE, out);
}

int tide_raft_log_open(struct tide_port *port, const char *directory, uint16_t id, struct tide_raft_log **out) {
    if (strlen(directory) + 32 > PATH_BYTES) {
        return tide_fail(TIDE_EINVAL, "the path of the state directory is too long");
    }
    struct tide_raft_log *h = tide_alloc_zero(1, sizeof *h);
    if (!h) {
        return TIDE_ENOMEM;
    }
    h->port = port;
    path_of(h->path, directory, id, suffix_log);
    int error = tide__records_directory(port, directory);
    error = error != 0 ? error : lock(port, directory, id, &h->lock);
    if (error != 0) {
        tide_raft_log_close(h);
        return error;
    }
    *out = h;
    return 0;
}

static void drop_from(struct tide_raft_log *h, size_t at) {
    while (h->count > at) {
        tide_free(h->entries[--h->count].data);
    }
}

static void drop_first(struct tide_raft_log *h, size_t count) {
    for (size_t i = 0; i < count; i++) {
        tide_free(h->entries[i].data);
    }
    h->count -= count;
    memmove(h->entries, h->entries + count, h->count * sizeof *h->entries);
}

/* [ENTRY, index, term, kind, data] */
static int write_entry(struct tide_raft_log *h, struct tide_file *file, uint64_t *at, uint64_t index,
                       const struct entry *e) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, FIELDS);
    tide_write_uint(&w, RECORD_ENTRY);
    tide_write_uint(&w, index);
    tide_write_uint(&w, e->term);
    tide_write_uint(&w, e->kind);
    tide_write_binary(&w, e->data, e->size);
    int error = tide__record_write(file, h->port, at, &w);
    tide_writer_release(&w);
    return error;
}

/* [START, index, term, voters, state] */
static int write_start(struct tide_raft_log *h, struct tide_file *file, uint64_t *at,
                       const struct tide_raft_log_start *s) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_write_array(&w, FIELDS);
    tide_write_uint(&w, RECORD_START);
    tide_write_uint(&w, s->index);
    tide_write_uint(&w, s->term);
    tide_write_binary(&w, s->voters, s->voter_count * sizeof s->voters[0]);
    tide_write_binary(&w, s->state, s->size);
    int error = tide__record_write(file, h->port, at, &w);
    tide_writer_release(&w);
    return error;
}

static bool terms_ascend(const struct tide_raft_log *h) {
    bool ascend = true;
    for (size_t i = 1; i < h->count; i++) {
        ascend = ascend && h->entries[i - 1].term <= h->entries[i].term;
    }
    return ascend;
}

/* A new file takes the place of the old one by a rename. */
int tide_raft_log_begin(struct tide_raft_log *h, const struct tide_raft_log_start *start, bool keep) {
    if (!keep || h->count == 0 || start->index < h->first) {
        drop_from(h, 0);
    } else {
        const uint64_t covered = start->index - h->first + !TIDE_MUTANT(snapshot_entry_kept);
        drop_first(h, covered < h->count ? (size_t)covered : h->count);
    }
    h->first = start->index + 1;
    struct tide_file *fresh;
    uint64_t size;
    int error = tide__records_create(h->port, h->path, magic, VERSION, &fresh, &size);
    if (error != 0) {
        return error;
    }
    error = write_start(h, fresh, &size, start);
    for (size_t i = 0; error == 0 && i < h->count; i++) {
        error = write_entry(h, fresh, &size, h->first + i, &h->entries[i]);
    }
    error = tide__records_replace(h->port, h->path, fresh, error, &h->file);
    h->size = error == 0 ? size : h->size;
    TIDE_INVARIANT(terms_ascend(h));
    return error;
}

int tide_raft_log_append(struct tide_raft_log *h, uint64_t term, enum tide_raft_log_kind kind, const void *data,
                         size_t size) {
    if (!h->file) {
        return tide_fail(TIDE_EPROTO, "an entry of a log that has no beginning");
    }
    if (h->count == h->capacity) {
        const size_t capacity = h->capacity == 0 ? 64 : 2 * h->capacity;
        struct entry *grown = tide_realloc(h->entries, capacity * sizeof *grown);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        h->entries = grown;
        h->capacity = capacity;
    }
    struct entry e = {.term = term, .kind = kind, .data = tide_alloc(size + 1), .size = size};
    if (!e.data) {
        return TIDE_ENOMEM;
    }
    memcpy(e.data, data, size);
    int error = write_entry(h, h->file, &h->size, h->first + h->count, &e);
    if (error != 0) {
        tide_free(e.data);
        return error;
    }
    h->entries[h->count++] = e;
    TIDE_ASSERT(h->count <= h->capacity && (h->count < 2 || h->entries[h->count - 2].term <= term));
    return 0;
}

int tide_raft_log_sync(struct tide_raft_log *h) {
    return h->file ? h->port->ops->file_sync(h->file) : 0;
}

/* Nothing is written: an entry with the same index overrules it, and until then no node was notified that
 * it is gone. */
void tide_raft_log_truncate(struct tide_raft_log *h, uint64_t index) {
    drop_from(h, index <= h->first ? 0 : (size_t)(index - h->first));
}

void tide_raft_log_close(struct tide_raft_log *h) {
    drop_from(h, 0);
    tide_free(h->entries);
    if (h->file) {
        h->port->ops->file_close(h->file);
    }
    if (h->lock) {
        h->port->ops->file_close(h->lock);
    }
    tide_free(h);
}

/* ---- reading ---- */

/* What a file says, entry by entry: those that a later one overrules must not take effect, so they
 * are applied at its end. */
struct reading {
    struct tide_raft_log_content *log;
    struct {
        uint64_t term;
        uint64_t kind;
        const void *data;
        size_t size;
    } * entries;
    size_t count, capacity;
    uint64_t first;
    bool begun;
};

static int damaged(void) {
    return tide_fail(TIDE_EPROTO, "a record of no log");
}

static int take_voters(struct tide_raft_log_content *log, const void *data, size_t size) {
    if (size == 0 || size % sizeof log->voters[0] != 0 || size > sizeof log->voters) {
        return damaged();
    }
    memcpy(log->voters, data, size);
    log->voter_count = size / sizeof log->voters[0];
    return 0;
}

static int read_start(struct reading *in, struct tide_reader *r) {
    size_t voters_size, state_size;
    in->log->index = tide_read_uint(r);
    in->log->term = tide_read_uint(r);
    const void *voters = tide_read_binary(r, &voters_size);
    const void *state = tide_read_binary(r, &state_size);
    if (r->error != 0 || r->at != r->end || in->begun || in->log->index == 0 || in->log->index > UINT64_MAX / 2 ||
        take_voters(in->log, voters, voters_size) != 0) {
        return damaged();
    }
    in->begun = true;
    in->first = in->log->index + 1;
    return tide_control_restore(&in->log->state, state, state_size);
}

static int read_entry(struct reading *in, struct tide_reader *r) {
    const uint64_t index = tide_read_uint(r), term = tide_read_uint(r), kind = tide_read_uint(r);
    size_t size;
    const void *data = tide_read_binary(r, &size);
    if (r->error != 0 || r->at != r->end || !in->begun || kind > TIDE_RAFT_LOG_OTHER || index < in->first ||
        index - in->first > in->count) {
        return damaged();
    }
    in->count =
        TIDE_MUTANT(overruled_entry_stays) && index - in->first < in->count ? in->count : (size_t)(index - in->first);
    if (in->count == in->capacity) {
        const size_t capacity = in->capacity == 0 ? 64 : 2 * in->capacity;
        void *grown = tide_realloc(in->entries, capacity * sizeof *in->entries);
        if (!grown) {
            return TIDE_ENOMEM;
        }
        in->entries = grown;
        in->capacity = capacity;
    }
    in->entries[in->count].term = term;
    in->entries[in->count].kind = kind;
    in->entries[in->count].data = data;
    in->entries[in->count++].size = size;
    return 0;
}

static int apply_all(struct reading *in) {
    int error = 0;
    for (size_t i = 0; i < in->count && error == 0; i++) {
        if (in->entries[i].kind == TIDE_RAFT_LOG_DECISION) {
            error = tide_control_apply(&in->log->state, in->entries[i].data, in->entries[i].size);
        } else if (in->entries[i].kind == TIDE_RAFT_LOG_VOTERS) {
            error = take_voters(in->log, in->entries[i].data, in->entries[i].size);
        }
        in->log->index = in->first + i;
        in->log->term = in->entries[i].term;
    }
    return error;
}

static int read_record(struct reading *in, const uint8_t *payload, uint32_t length) {
    struct tide_reader r;
    tide_reader_init(&r, payload, length);
    const size_t fields = tide_read_array(&r);
    const uint64_t what = tide_read_uint(&r);
    if (r.error != 0 || fields != FIELDS || what > RECORD_ENTRY) {
        return damaged();
    }
    return what == RECORD_START ? read_start(in, &r) : read_entry(in, &r);
}

int tide_raft_log_parse(const void *data, size_t size, struct tide_raft_log_content *out, size_t *good) {
    *out = (struct tide_raft_log_content){0};
    *good = 0;
    struct reading in = {.log = out};
    int error = tide__records_check(data, size, magic, VERSION, "log of controllers");
    size_t at = TIDE__RECORDS_HEADER;
    while (error == 0 && at < size) {
        uint32_t length;
        const uint8_t *payload = tide__record_at(data, size, at, &length);
        if (!payload) {
            break;
        }
        error = read_record(&in, payload, length);
        at += TIDE__RECORD_HEAD + length;
    }
    if (error == 0 && at < size && tide__records_follow(data, size, at)) {
        error = tide_fail(TIDE_EPROTO, "it is damaged at byte %zu, and later entries follow", at);
    }
    error = error != 0 ? error : apply_all(&in);
    tide_free(in.entries);
    if (error != 0) {
        tide_raft_log_content_release(out);
        return error;
    }
    *good = at < size ? at : size;
    return 0;
}

void tide_raft_log_content_release(struct tide_raft_log_content *log) {
    tide_control_state_release(&log->state);
    *log = (struct tide_raft_log_content){0};
}

/* ---- all of a directory ---- */

static void note_file(void *arg, const char *name) {
    struct tide_raft_logs *all = arg;
    unsigned id;
    char rest[8];
    if (all->count < TIDE_RAFT_LOGS_MAX && sscanf(name, "holder-%5u%7s", &id, rest) == 2 &&
        strcmp(rest, suffix_log) == 0 && id > 0 && id <= UINT16_MAX) {
        all->ids[all->count++] = (uint16_t)id;
    }
}

static int read_log(struct tide_port *port, const char *path, struct tide_raft_log_content *out) {
    char *data;
    size_t size, good;
    int error = tide_port_slurp(port, path, SIZE_MAX, &data, &size);
    error = error != 0 ? error : tide_raft_log_parse(data, size, out, &good);
    tide_free(data);
    return error;
}

static bool is_further(const struct tide_raft_log_content *a, const struct tide_raft_log_content *b) {
    return a->term != b->term ? a->term > b->term : a->index > b->index;
}

/* Those that are not locked by a living process; the furthest of their logs. */
static void take_furthest(struct tide_port *port, const char *directory, const char *name, struct tide_raft_logs *all,
                          struct tide_raft_log_content *best) {
    size_t found = all->count;
    all->count = 0;
    for (size_t i = 0; i < found; i++) {
        const uint16_t id = all->ids[i];
        char path[PATH_BYTES];
        struct tide_raft_log_content log;
        struct tide_file *held;
        int error = lock(port, directory, id, &held);
        if (error == TIDE_EBUSY) {
            continue;
        }
        path_of(path, directory, id, suffix_log);
        error = error != 0 ? error : read_log(port, path, &log);
        if (error != 0) { /* it says nothing, and does not count */
            tide_log(TIDE_LOG_ERROR, name, "%s: %s", path, tide_error_message());
            port->ops->file_close(held);
            continue;
        }
        all->ids[all->count] = id;
        all->locks[all->count++] = held;
        if (is_further(&log, best)) {
            tide_raft_log_content_release(best);
            *best = log;
        } else {
            tide_raft_log_content_release(&log);
        }
    }
}

static bool has(const struct tide_raft_logs *all, uint16_t id) {
    for (size_t i = 0; i < all->count; i++) {
        if (all->ids[i] == id) {
            return true;
        }
    }
    return false;
}

int tide_raft_logs_open(struct tide_port *port, const char *directory, const char *name, struct tide_raft_logs *out) {
    *out = (struct tide_raft_logs){0};
    if (strlen(directory) + 32 > PATH_BYTES) {
        return tide_fail(TIDE_EINVAL, "the path of the state directory is too long");
    }
    int error = port->ops->file_list(port, directory, note_file, out);
    if (error == TIDE_ENOENT) {
        return 0; /* the first start */
    }
    struct tide_raft_log_content best = {0};
    const size_t found = error == 0 ? out->count : 0;
    if (error == 0) {
        take_furthest(port, directory, name, out, &best);
    }
    size_t there = 0;
    for (size_t i = 0; i < best.voter_count; i++) {
        there += has(out, best.voters[i]);
    }
    if (error == 0 && found > 0 && 2 * there <= best.voter_count) {
        error = tide_fail(TIDE_EBUSY,
                          "%s: %zu of %zu controllers' logs are there, whole, and of processes that have "
                          "ended: a majority is needed to go on",
                          directory, there, best.voter_count);
    }
    if (error != 0) {
        tide_raft_log_content_release(&best);
        tide_raft_logs_release(port, out);
        return error;
    }
    out->state = best.state;
    out->index = best.index;
    out->term = best.term;
    return 0;
}

void tide_raft_logs_remove(struct tide_port *port, const char *directory, struct tide_raft_logs *all) {
    for (size_t i = 0; i < all->count; i++) {
        char path[PATH_BYTES];
        path_of(path, directory, all->ids[i], suffix_log);
        (void)port->ops->file_unlink(port, path);
        path_of(path, directory, all->ids[i], suffix_lock);
        (void)port->ops->file_unlink(port, path);
    }
}

void tide_raft_logs_release(struct tide_port *port, struct tide_raft_logs *all) {
    for (size_t i = 0; i < all->count; i++) {
        port->ops->file_close(all->locks[i]);
    }
    tide_control_state_release(&all->state);
    *all = (struct tide_raft_logs){0};
}
