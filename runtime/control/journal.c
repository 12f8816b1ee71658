/*
 * The control store as a file: the journal of a controller that may be started again.
 *
 * DIRECTORY/control.journal is a file of records (records.h). The payload of the first one is a
 * snapshot, of every other one an entry (control_state.c). An
 * entry counts when it is written and synced; only then it is in the state, and its put is done. So a
 * crash leaves at most a torn last record, whose decision was not announced: it is dropped. A bad
 * record that good ones follow is damage, and refused: what came after it was announced.
 *
 * The disk thread writes and syncs one entry at a time (of two that are not synced the first may be
 * torn and the second not), and puts that come meanwhile queue. So entries are written, applied and
 * done in the order of their puts.
 *
 * When the file has grown well beyond its state, a new one that begins with a snapshot takes its
 * place by a rename, between two entries. DIRECTORY/lock is held as long as the process lives.
 */
#include "actor/actor.h"
#include "base/limits.h"
#include "control/control.h"
#include "control/records.h"
#include "port/port.h"

#include <string.h>

enum { VERSION = 1 };

static const char magic[8] = "tidejnl";

/* A put that is not done. */
struct entry {
    struct entry *next;
    tide_control_done done;
    void *arg;
    struct tide_writer record;
};

struct journal {
    struct tide_control base;
    struct tide_port *port;
    struct tide_file *lock;
    struct entry *queue, **queue_tail; /* the first is being written while `task` is not done */
    bool broken;                       /* a write failed: nothing more is decided here */
    bool at_work;                      /* `task` is not done */
    struct tide_task task;

    /* the disk thread's while it is at work */
    struct tide_file *file; /* NULL: memory alone */
    uint64_t size, durable; /* durable: of it, behind the last entry that was synced */
    struct tide_writer snapshot;
    int code; /* what the task came to */
    char reason[200];

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
    if (error == 0 && at < size && !TIDE_MUTANT(journal_damage_is_torn) && tide__records_follow(data, size, at)) {
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

/* A new file with nothing but the snapshot takes the place of the old one. */
static int replace_file(struct journal *j) {
    struct tide_file *fresh;
    uint64_t size;
    int error = tide__records_create(j->port, j->path, magic, VERSION, &fresh, &size);
    if (error != 0) {
        return error;
    }
    error = tide__record_write(fresh, j->port, &size, &j->snapshot);
    error = tide__records_replace(j->port, j->path, fresh, error, &j->file);
    j->size = error == 0 ? size : j->size;
    return error;
}

static void snapshot_take(struct journal *j) {
    tide_writer_init(&j->snapshot, NULL, 0);
    tide_control_snapshot_write(&j->snapshot, &j->base.state);
}

static void task_ended(struct journal *j, int code) {
    j->code = code;
    (void)snprintf(j->reason, sizeof j->reason, "%s", code != 0 ? tide_error_message() : "");
}

static void task_begin(struct journal *j, void (*run)(struct tide_task *), void (*done)(struct tide_task *)) {
    j->at_work = true;
    j->task = (struct tide_task){.run = run, .done = done};
    tide_task_start(j->file ? j->base.node : NULL, TIDE_ROLE_DISK, &j->task);
}

static void go_on(struct journal *j);

static void rewrite(struct tide_task *task) {
    TIDE_SOMETIMES(journal_rewritten);
    struct journal *j = TIDE_CONTAINER(task, struct journal, task);
    task_ended(j, replace_file(j));
}

/* After a failure the old file holds all of it, and grows until the next attempt. */
static void rewritten(struct tide_task *task) {
    struct journal *j = TIDE_CONTAINER(task, struct journal, task);
    tide_writer_release(&j->snapshot);
    if (j->code != 0) {
        tide_log(TIDE_LOG_WARN, j->name, "the journal was not made smaller: %s", j->reason);
    }
    j->at_work = false;
    go_on(j);
}

static void write_entry(struct tide_task *task) {
    struct journal *j = TIDE_CONTAINER(task, struct journal, task);
    int error = j->file ? tide__record_write(j->file, j->port, &j->size, &j->queue->record) : 0;
    if (error == 0 && j->file && !TIDE_MUTANT(decision_unsynced)) {
        error = j->port->ops->file_sync(j->file);
        j->durable = error == 0 ? j->size : j->durable;
    }
    if (error != 0) {
        TIDE_SOMETIMES(decision_not_written);
    }
    task_ended(j, error);
}

static void entry_done(struct journal *j, int code) {
    struct entry *e = j->queue;
    TIDE_ASSERT(e && j->base.under_way > 0);
    tide_control_done done = e->done;
    void *arg = e->arg;
    j->queue = e->next;
    j->queue_tail = !j->queue ? &j->queue : j->queue_tail;
    j->base.under_way--;
    tide_writer_release(&e->record);
    tide_free(e);
    done(arg, code);
}

static void entry_written(struct tide_task *task) {
    struct journal *j = TIDE_CONTAINER(task, struct journal, task);
    const struct tide_writer *w = &j->queue->record;
    const int code =
        j->code != 0 ? tide_fail(j->code, "%s", j->reason) : tide_control_apply(&j->base.state, w->data, w->size);
    j->broken = j->broken || (code != 0 && !TIDE_MUTANT(journal_goes_on_broken));
    TIDE_ASSERT(j->code != 0 || !j->file || j->durable == j->size); /* no node is notified before */
    const bool grown =
        code == 0 && j->file && j->size > 4 * j->base.state.bytes + tide_limit(control_journal_growth_bytes);
    entry_done(j, code);
    while (j->broken && j->queue) {
        entry_done(j, tide_fail(TIDE_ECLOSED, "the journal could not be written before"));
    }
    j->at_work = false;
    if (grown) {
        snapshot_take(j);
        task_begin(j, rewrite, rewritten);
    } else {
        go_on(j);
    }
}

static void go_on(struct journal *j) {
    if (!j->at_work && j->queue) {
        task_begin(j, write_entry, entry_written);
    }
}

static int append(struct journal *j, uint64_t term, const struct tide_control_put *puts, size_t count,
                  tide_control_done done, void *arg) {
    if (j->broken) {
        return tide_fail(TIDE_ECLOSED, "the journal could not be written before");
    }
    struct entry *e = tide_alloc(sizeof *e);
    if (!e) {
        return TIDE_ENOMEM;
    }
    *e = (struct entry){.done = done, .arg = arg};
    tide_writer_init(&e->record, NULL, 0);
    tide_control_entry_write(&e->record, term, j->base.state.index + j->base.under_way + 1, puts, count);
    int error = e->record.error;
    if (error == 0 && e->record.size > TIDE_CONTROL_ENTRY_MAX) {
        error = tide_fail(TIDE_ELIMIT, "a decision of %zu bytes", e->record.size);
    }
    if (error != 0) {
        tide_writer_release(&e->record);
        tide_free(e);
        j->broken = true;
        return error;
    }
    *j->queue_tail = e;
    j->queue_tail = &e->next;
    j->base.under_way++;
    go_on(j);
    return 0;
}

/* ---- the back end ---- */

static void campaigned(void *arg, int code) {
    *(int *)arg = code;
}

/* While control->node is NULL. */
static int campaign(struct tide_control *control, uint64_t *term) {
    int outcome = 1;
    *term = control->state.term + 1;
    const int error = append((struct journal *)control, *term, NULL, 0, campaigned, &outcome);
    TIDE_ASSERT(error != 0 || outcome <= 0);
    return error != 0 ? error : outcome;
}

static void put(struct tide_control *control, const struct tide_control_put *puts, size_t count, tide_control_done done,
                void *arg) {
    const int error = append((struct journal *)control, control->state.term, puts, count, done, arg);
    if (error != 0) {
        done(arg, error);
    }
}

/* The node's threads have ended, or never ran. */
static void destroy(struct tide_control *control) {
    struct journal *j = (struct journal *)control;
    j->broken = true;
    while (j->queue) {
        entry_done(j, tide_fail(TIDE_ECLOSED, "the controller ends"));
    }
    tide_writer_release(&j->snapshot);
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

static int begin_file(struct journal *j) {
    snapshot_take(j);
    const int error = replace_file(j);
    tide_writer_release(&j->snapshot);
    return error;
}

static int read_file(struct journal *j) {
    char *data;
    size_t size, good = 0;
    int error = tide_port_slurp(j->port, j->path, SIZE_MAX, &data, &size);
    if (error == TIDE_ENOENT) {
        return begin_file(j); /* the first start */
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
    TIDE_SOMETIMES(journal_ends_in_a_torn_decision);
    tide_log(TIDE_LOG_WARN, j->name, "%s: the last %zu bytes are a decision that was not finished, and are dropped",
             j->path, size - good);
    return begin_file(j); /* nothing is left behind the next entry */
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
    j->queue_tail = &j->queue;
    snprintf(j->name, sizeof j->name, "%s", name);
    int error = directory ? open_files(j, directory) : 0;
    if (error != 0) {
        destroy(&j->base);
        return error;
    }
    *out = &j->base;
    return 0;
}
