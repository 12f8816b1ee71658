/*
 * The control store as a file: the journal of a controller that may be started again.
 *
 * DIRECTORY/control.journal is a file of records (records.h). The payload of the first one is a
 * snapshot, of every other one an entry (control_state.c). An
 * entry counts when it is written and synced, and only then anybody hears of the decision. So a
 * crash leaves at most a torn last record, of which nobody has heard: it is dropped. A bad record
 * that good ones follow is damage, and refused: what came after it was told to others.
 *
 * When the file has grown well beyond its state, a new one that begins with a snapshot takes its
 * place by a rename. DIRECTORY/lock is held as long as the process lives.
 */
#include "control/control.h"
#include "control/records.h"
#include "port/port.h"

#include <string.h>

enum {
    VERSION = 1,
    GROWTH_BYTES = 256 << 10, /* beyond four times the state */
};

static const char magic[8] = "tidejnl";

struct journal {
    struct tide_control base;
    struct tide_port *port;
    struct tide_file *lock, *file; /* NULL: memory alone */
    uint64_t size;
    bool broken; /* a write failed: nothing more is decided here */
    char path[300], name[64];
};

int tide_control_journal_parse(const void *bytes, size_t size, struct tide_control_state *state, size_t *good) {
    const uint8_t *data = bytes;
    *state = (struct tide_control_state){0};
    *good = 0;
    int error = tide__records_check(data, size, magic, VERSION, "journal of a controller");
    size_t at = TIDE__RECORDS_HEADER;
    bool first = true;
    while (error == 0 && at < size) {
        uint32_t length;
        const uint8_t *payload = tide__record_at(data, size, at, &length);
        if (!payload) {
            break;
        }
        error = first ? tide_control_restore(state, payload, length) : tide_control_apply(state, payload, length);
        first = false;
        at += TIDE__RECORD_HEAD + length;
    }
    if (error == 0 && first) {
        error = tide_fail(TIDE_EPROTO, "its first record is damaged");
    }
    if (error == 0 && at < size && tide__records_follow(data, size, at)) {
        error = tide_fail(TIDE_EPROTO,
                          "it is damaged at byte %zu, and later decisions follow: put back a copy, "
                          "or begin with an empty directory and a new cluster",
                          at);
    }
    if (error != 0) {
        tide_control_state_release(state);
        return error;
    }
    *good = at;
    return 0;
}

/* ---- writing ---- */

/* A new file with nothing but the state takes the place of the old one. */
static int rewrite(struct journal *j) {
    struct tide_file *fresh;
    uint64_t size;
    int error = tide__records_create(j->port, j->path, magic, VERSION, &fresh, &size);
    if (error != 0) {
        return error;
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, &j->base.state);
    error = tide__record_write(fresh, j->port, &size, &w);
    tide_writer_release(&w);
    error = tide__records_replace(j->port, j->path, fresh, error, &j->file);
    j->size = error == 0 ? size : j->size;
    return error;
}

static int append(struct journal *j, uint64_t term, const struct tide_control_put *puts, size_t count) {
    if (j->broken) {
        return tide_fail(TIDE_ECLOSED, "the journal could not be written before");
    }
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_entry_write(&w, term, j->base.state.index + 1, puts, count);
    int error = w.error;
    if (error == 0 && w.size > TIDE_CONTROL_ENTRY_MAX) {
        error = tide_fail(TIDE_ELIMIT, "a decision of %zu bytes", w.size);
    }
    if (error == 0 && j->file) {
        error = tide__record_write(j->file, j->port, &j->size, &w);
        error = error != 0 ? error : j->port->ops->file_sync(j->file);
    }
    error = error != 0 ? error : tide_control_apply(&j->base.state, w.data, w.size);
    tide_writer_release(&w);
    j->broken = error != 0;
    if (error == 0 && j->file && j->size > 4 * j->base.state.bytes + GROWTH_BYTES) {
        error = rewrite(j); /* the old file holds all of it: the next entry tries again */
        if (error != 0) {
            tide_log(TIDE_LOG_WARN, j->name, "the journal was not made smaller: %s", tide_error_message());
        }
        return 0;
    }
    return error;
}

/* ---- the back end ---- */

static int campaign(struct tide_control *control, uint64_t *term) {
    *term = control->state.term + 1;
    return append((struct journal *)control, *term, NULL, 0);
}

static void put(struct tide_control *control, const struct tide_control_put *puts, size_t count, tide_control_done done,
                void *arg) {
    done(arg, append((struct journal *)control, control->state.term, puts, count));
}

static void destroy(struct tide_control *control) {
    struct journal *j = (struct journal *)control;
    if (j->file) {
        j->port->ops->file_close(j->file);
    }
    if (j->lock) {
        j->port->ops->file_close(j->lock);
    }
    tide_control_state_release(&control->state);
    tide_free(j);
}

static const struct tide_control_ops journal_ops = {.campaign = campaign, .put = put, .destroy = destroy};

static int read_file(struct journal *j) {
    char *data;
    size_t size, good = 0;
    int error = tide_port_slurp(j->port, j->path, SIZE_MAX, &data, &size);
    if (error == TIDE_ENOENT) {
        return rewrite(j); /* the first start */
    }
    error = error != 0 ? error : j->port->ops->file_open(j->port, j->path, TIDE_FILE_READ | TIDE_FILE_WRITE, &j->file);
    error = error != 0 ? error : tide_control_journal_parse(data, size, &j->base.state, &good);
    tide_free(data);
    if (error != 0) {
        char reason[300];
        snprintf(reason, sizeof reason, "%s", tide_error_message());
        return tide_fail(error, "%s: %s", j->path, reason);
    }
    if (good == size) {
        j->size = good;
        return 0;
    }
    tide_log(TIDE_LOG_WARN, j->name, "%s: the last %zu bytes are a decision that was not finished, and are dropped",
             j->path, size - good);
    return rewrite(j); /* nothing is left behind the next entry */
}

static int open_files(struct journal *j, const char *directory) {
    char lock[sizeof j->path];
    if (strlen(directory) + sizeof "/control.journal" > sizeof j->path) {
        return tide_fail(TIDE_EINVAL, "the path of the state directory is too long");
    }
    snprintf(j->path, sizeof j->path, "%s/control.journal", directory);
    snprintf(lock, sizeof lock, "%s/lock", directory);
    int error = tide__records_directory(j->port, directory);
    int flags = TIDE_FILE_READ | TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_LOCK | TIDE_FILE_PRIVATE;
    error = error != 0 ? error : j->port->ops->file_open(j->port, lock, flags, &j->lock);
    if (error == TIDE_EBUSY) {
        return tide_fail(TIDE_EBUSY, "%s: another controller runs with this state", directory);
    }
    return error != 0 ? error : read_file(j);
}

int tide_control_open(struct tide_port *port, const char *directory, const char *name, struct tide_control **out) {
    struct journal *j = tide_alloc_zero(1, sizeof *j);
    if (!j) {
        return TIDE_ENOMEM;
    }
    j->base.ops = &journal_ops;
    j->port = port;
    snprintf(j->name, sizeof j->name, "%s", name);
    int error = directory ? open_files(j, directory) : 0;
    if (error != 0) {
        destroy(&j->base);
        return error;
    }
    *out = &j->base;
    return 0;
}
