/*
 * The control store as a log that several nodes hold: libraft (the raft protocol: Ongaro and
 * Ousterhout 2014) with the node's own clock, randomness and links behind its table of functions,
 * so it runs in the simulator like everything else. Built as the plugin tide_raft.so.
 *
 * The log is in memory, and where there is a state directory on disk too (raft_log.h). Memory is enough
 * as long as a majority lives, since a node that was started again is another node with another id: no
 * holder ever comes back having forgotten something. What a majority of the holders knows at any moment
 * survives; its holders change one by one (net/members/quorum.c).
 *
 * A *term* here is the index of the barrier entry with which a leader began to command. It is
 * committed before the leader decides, and every later leader has it in its log and puts its own
 * behind it, so terms rise strictly; and everything that was decided before a barrier is applied
 * when the barrier is. A leader that has to begin anew (a put of it failed) takes another barrier.
 *
 * libraft calls back from within most calls. Completions of what it starts are queued and run by
 * `turn`, never from within its own call. The disk thread does what concerns the log on disk, step by
 * step in the order of the calls, and the completion of each is queued when its step has ended.
 */
#include "control/raft.h"
#include "base/limits.h"
#include "actor/actor.h"
#include "control/control.h"
#include "control/raft_log.h"
#include "port/port.h"

#include <string.h>

#define MILLISECOND UINT64_C(1000000)

enum completed { SENT, APPENDED, SNAPSHOT_STORED, SNAPSHOT_LOADED };

struct completion {
    struct completion *next;
    enum completed kind;
    int status;
    void *request;
};

/* What the disk thread does with the log on disk. */
struct disk_step {
    struct completion completion; /* its first member; request NULL: none waits for it */
    struct disk_step *next;       /* of those that have not ended */
    struct tide_task task;
    struct holder *holder;
    int (*run)(struct disk_step *step);
    int code;
    char reason[160];
    /* arguments */
    const struct raft_entry *entries; /* the library keeps them until the completion */
    unsigned entry_count;
    raft_index index;
    struct tide_raft_log_start start;
    bool keep;
};

struct holder {
    struct tide_control base;
    struct tide_control_host host;
    struct tide_random random;
    struct raft raft;
    struct raft_io io;
    struct raft_fsm fsm;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    raft_io_close_cb close;
    struct raft_snapshot snapshot; /* the last one; index 0: none */
    struct tide__raft_parts parts;
    struct tide_raft_log *disk_log; /* the disk thread's; NULL: in memory alone, or not open */
    struct disk_step *steps, **steps_tail;
    int disk_code;                   /* what the first step that failed came to */
    const struct disk_step *storing; /* the snapshot, which stays meanwhile; NULL: none does */
    struct completion *queue, **queue_tail;
    uint64_t tick_at;
    uint64_t term; /* in which this node leads; 0: it does not */
    raft_term led; /* the library's term of that */
    bool barrier_pending, change_pending, closed;
    bool loses; /* the library is about to step down, and notifies those whose puts it fails */
    struct raft_barrier barrier;
    struct raft_change change;
    struct raft_transfer transfer;
};

struct put {
    struct raft_apply request;
    struct holder *replica;
    tide_control_done done;
    void *arg;
};

static struct holder *of_io(struct raft_io *io) {
    return io->impl;
}

/* ---- completions ---- */

static void completed(struct holder *p, struct completion *c, int status) {
    c->next = NULL;
    c->status = status;
    *p->queue_tail = c;
    p->queue_tail = &c->next;
}

static int complete(struct holder *p, enum completed kind, void *request, int status) {
    struct completion *c = tide_alloc(sizeof *c);
    if (!c) {
        return RAFT_NOMEM;
    }
    *c = (struct completion){.kind = kind, .request = request};
    completed(p, c, status);
    return 0;
}

static int snapshot_copy(const struct raft_snapshot *from, struct raft_snapshot *to) {
    *to = *from;
    to->bufs = raft_calloc(1, sizeof *to->bufs);
    to->n_bufs = 1;
    size_t size = 0;
    for (unsigned i = 0; i < from->n_bufs; i++) {
        size += from->bufs[i].len;
    }
    uint8_t *data = to->bufs ? raft_malloc(size) : NULL;
    if (!data || tide__raft_configuration_copy(&from->configuration, &to->configuration)) {
        raft_free(to->bufs);
        raft_free(data);
        *to = (struct raft_snapshot){0};
        return RAFT_NOMEM;
    }
    *to->bufs = (struct raft_buffer){.base = data, .len = size};
    for (unsigned i = 0; i < from->n_bufs; i++) {
        memcpy(data, from->bufs[i].base, from->bufs[i].len);
        data += from->bufs[i].len;
    }
    return 0;
}

static void snapshot_release(struct raft_snapshot *s) {
    raft_configuration_close(&s->configuration);
    for (unsigned i = 0; i < s->n_bufs; i++) {
        raft_free(s->bufs[i].base);
    }
    raft_free(s->bufs);
    *s = (struct raft_snapshot){0};
}

static void hand_snapshot(struct holder *p, struct raft_io_snapshot_get *request, int status) {
    struct raft_snapshot *copy = status == 0 ? raft_malloc(sizeof *copy) : NULL;
    if (status == 0) {
        status = copy ? snapshot_copy(&p->snapshot, copy) : RAFT_NOMEM;
    }
    if (status != 0) {
        raft_free(copy);
        copy = NULL;
    }
    request->cb(request, copy, status);
}

/* What is begun meanwhile is done too. */
static void run_completions(struct holder *p, bool canceled) {
    while (p->queue) {
        struct completion c = *p->queue;
        tide_free(p->queue);
        p->queue = c.next;
        p->queue_tail = !c.next ? &p->queue : p->queue_tail;
        int status = canceled ? RAFT_CANCELED : c.status;
        switch (c.kind) {
        case SENT:
            ((struct raft_io_send *)c.request)->cb(c.request, status);
            break;
        case APPENDED:
            ((struct raft_io_append *)c.request)->cb(c.request, status);
            break;
        case SNAPSHOT_STORED:
            ((struct raft_io_snapshot_put *)c.request)->cb(c.request, status);
            break;
        case SNAPSHOT_LOADED:
            hand_snapshot(p, c.request, status);
            break;
        }
    }
}

/* ---- the log on disk ---- */

static int open_log(struct disk_step *step) {
    struct tide_control_host *host = &step->holder->host;
    return tide_raft_log_open(host->port, host->directory, host->self, &step->holder->disk_log);
}

static int not_open(void) {
    return tide_fail(TIDE_EIO, "it was not opened");
}

static int append_entry(struct tide_raft_log *log, const struct raft_entry *e) {
    uint16_t voters[TIDE_RAFT_LOG_VOTERS_MAX];
    if (e->type == RAFT_CHANGE) {
        const size_t count = tide__raft_voters(&e->buf, voters, TIDE_COUNT(voters));
        TIDE_ASSERT(count > 0);
        return tide_raft_log_append(log, e->term, TIDE_RAFT_LOG_VOTERS, voters, count * sizeof voters[0]);
    }
    const bool decision = e->type == RAFT_COMMAND;
    return tide_raft_log_append(log, e->term, decision ? TIDE_RAFT_LOG_DECISION : TIDE_RAFT_LOG_OTHER, e->buf.base,
                                decision ? e->buf.len : 0);
}

static int append_entries(struct disk_step *step) {
    struct tide_raft_log *log = step->holder->disk_log;
    int code = log ? 0 : not_open();
    for (unsigned i = 0; code == 0 && i < step->entry_count; i++) {
        code = append_entry(log, &step->entries[i]);
    }
    return code == 0 ? tide_raft_log_sync(log) : code;
}

static int truncate_log(struct disk_step *step) {
    if (step->holder->disk_log) {
        tide_raft_log_truncate(step->holder->disk_log, step->index);
    }
    return 0;
}

static int store_snapshot(struct disk_step *step) {
    struct tide_raft_log *log = step->holder->disk_log;
    return log ? tide_raft_log_begin(log, &step->start, step->keep) : not_open();
}

static void step_run(struct tide_task *task) {
    struct disk_step *step = TIDE_CONTAINER(task, struct disk_step, task);
    step->code = step->run(step);
    (void)snprintf(step->reason, sizeof step->reason, "%s", step->code != 0 ? tide_error_message() : "");
}

/* It has ended, or never will. */
static void step_leave(struct disk_step *step, int status) {
    struct holder *p = step->holder;
    p->steps = step->next;
    p->steps_tail = !p->steps ? &p->steps : p->steps_tail;
    p->storing = p->storing == step ? NULL : p->storing;
    if (step->completion.request) {
        completed(p, &step->completion, status);
    } else {
        tide_free(step);
    }
}

static void step_done(struct tide_task *task) {
    struct disk_step *step = TIDE_CONTAINER(task, struct disk_step, task);
    struct holder *p = step->holder;
    TIDE_ASSERT(p->steps == step);
    if (step->code != 0) {
        p->disk_code = p->disk_code != 0 ? p->disk_code : tide_fail(step->code, "%s", step->reason);
        tide_log(TIDE_LOG_ERROR, p->host.name, "the log of the controllers cannot be written: %s", step->reason);
    }
    step_leave(step, step->code == 0 ? 0 : RAFT_IOERR);
}

/* Without a node the step has ended when this returns. */
static int disk(struct holder *p, const struct disk_step *arguments) {
    struct disk_step *step = tide_alloc(sizeof *step);
    if (!step) {
        return RAFT_NOMEM;
    }
    *step = *arguments;
    step->holder = p;
    step->task = (struct tide_task){.run = step_run, .done = step_done};
    *p->steps_tail = step;
    p->steps_tail = &step->next;
    p->storing = step->run == store_snapshot ? step : p->storing;
    tide_task_start(p->base.node, TIDE_ROLE_DISK, &step->task);
    return 0;
}

/* ---- callbacks of the library ---- */

static int io_init(struct raft_io *io, raft_id id, const char *address) {
    (void)io;
    (void)id;
    (void)address;
    return 0;
}

static void io_close(struct raft_io *io, raft_io_close_cb cb) {
    of_io(io)->close = cb;
}

/* A new log begins with the state as its snapshot, one that comes from others with nothing. */
static int io_load(struct raft_io *io, raft_term *term, raft_id *voted_for, struct raft_snapshot **snapshot,
                   raft_index *start_index, struct raft_entry *entries[], size_t *n_entries) {
    struct holder *p = of_io(io);
    *term = p->snapshot.term;
    *voted_for = 0;
    *snapshot = NULL;
    *start_index = p->snapshot.index + 1;
    *entries = NULL;
    *n_entries = 0;
    if (p->snapshot.index == 0) {
        return 0;
    }
    *snapshot = raft_malloc(sizeof **snapshot);
    return *snapshot ? snapshot_copy(&p->snapshot, *snapshot) : RAFT_NOMEM;
}

static int io_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick, raft_io_recv_cb recv) {
    struct holder *p = of_io(io);
    (void)msecs; /* set by control_heartbeat */
    p->tick = tick;
    p->recv = recv;
    return 0;
}

/* Logs begin in io_load. */
static int io_refuse(struct raft_io *io, const struct raft_configuration *conf) {
    (void)io;
    (void)conf;
    return RAFT_INVALID;
}

/* The library keeps them in memory itself; no node returns under an id that has voted. */
static int io_set_term(struct raft_io *io, raft_term term) {
    (void)io;
    (void)term;
    return 0;
}

static int io_set_vote(struct raft_io *io, raft_id server_id) {
    (void)io;
    (void)server_id;
    return 0;
}

static int io_truncate(struct raft_io *io, raft_index index) {
    struct holder *p = of_io(io);
    return p->host.directory ? disk(p, &(struct disk_step){.run = truncate_log, .index = index}) : 0;
}

/* On disk before any node is notified of them. */
static int io_append(struct raft_io *io, struct raft_io_append *request, const struct raft_entry entries[], unsigned n,
                     raft_io_append_cb cb) {
    struct holder *p = of_io(io);
    request->cb = cb;
    if (!p->host.directory) {
        return complete(p, APPENDED, request, 0);
    }
    return disk(p, &(struct disk_step){.completion = {.kind = APPENDED, .request = request},
                                       .run = append_entries,
                                       .entries = entries,
                                       .entry_count = n});
}

static int io_send(struct raft_io *io, struct raft_io_send *request, const struct raft_message *message,
                   raft_io_send_cb cb) {
    struct holder *p = of_io(io);
    size_t size = message->type == RAFT_IO_INSTALL_SNAPSHOT ? message->install_snapshot.data.len : 0;
    bool sent = true;
    uint64_t offset = 0;
    do {
        struct tide_writer w;
        tide_writer_init(&w, NULL, 0);
        tide__raft_write(&w, message, offset);
        sent = w.error == 0 && p->host.send(p->host.arg, (uint16_t)message->server_id, w.data, w.size);
        tide_writer_release(&w);
        offset += tide_limit(control_message_bytes);
    } while (sent && offset < size);
    request->cb = cb;
    if (!cb) { /* no callback */
        return sent ? 0 : RAFT_NOCONNECTION;
    }
    return complete(p, SENT, request, sent ? 0 : RAFT_NOCONNECTION);
}

/* The file begins with the snapshot. One of another node (`keep` false) takes the place of all. */
static int hold_snapshot(struct holder *p, bool keep, struct raft_io_snapshot_put *request) {
    const struct raft_snapshot *s = &p->snapshot;
    struct disk_step step = {
        .completion = {.kind = SNAPSHOT_STORED, .request = request},
        .run = store_snapshot,
        .start = {.index = s->index, .term = s->term, .state = s->bufs[0].base, .size = s->bufs[0].len},
        .keep = keep};
    for (unsigned i = 0; i < s->configuration.n; i++) {
        if (s->configuration.servers[i].role == RAFT_VOTER && step.start.voter_count < TIDE_COUNT(step.start.voters)) {
            step.start.voters[step.start.voter_count++] = (uint16_t)s->configuration.servers[i].id;
        }
    }
    return disk(p, &step);
}

static int io_snapshot_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *request,
                           const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb) {
    struct holder *p = of_io(io);
    struct raft_snapshot copy;
    request->cb = cb;
    if (p->storing) {
        return RAFT_BUSY;
    }
    if (snapshot_copy(snapshot, &copy) != 0) {
        return RAFT_NOMEM;
    }
    snapshot_release(&p->snapshot);
    p->snapshot = copy;
    return p->host.directory ? hold_snapshot(p, trailing > 0, request) : complete(p, SNAPSHOT_STORED, request, 0);
}

static int io_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *request, raft_io_snapshot_get_cb cb) {
    struct holder *p = of_io(io);
    request->cb = cb;
    return complete(p, SNAPSHOT_LOADED, request, p->snapshot.index != 0 ? 0 : RAFT_NOTFOUND);
}

static raft_time io_time(struct raft_io *io) {
    return tide_port_now(of_io(io)->host.port) / MILLISECOND;
}

static int io_random(struct raft_io *io, int min, int max) {
    return min + (int)tide_random_below(&of_io(io)->random, (uint64_t)(max - min) + 1);
}

/* ---- the state ---- */

static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buffer, void **result) {
    struct holder *p = fsm->data;
    *result = NULL;
    int code = tide_control_apply(&p->base.state, buffer->base, buffer->len);
    if (code != 0) {
        tide_log(TIDE_LOG_ERROR, p->host.name, "a decision cannot be applied here: %s", tide_error_message());
    }
    return code == 0 ? 0 : code == TIDE_ENOMEM ? RAFT_NOMEM : RAFT_CORRUPT;
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *buffers[], unsigned *count) {
    struct holder *p = fsm->data;
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, &p->base.state);
    *buffers = w.error == 0 ? raft_malloc(sizeof **buffers) : NULL;
    if (!*buffers) {
        tide_writer_release(&w);
        return RAFT_NOMEM;
    }
    (*buffers)[0] = (struct raft_buffer){.base = w.data, .len = w.size}; /* raft's heap is ours */
    *count = 1;
    return 0;
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buffer) {
    struct holder *p = fsm->data;
    int code = tide_control_restore(&p->base.state, buffer->base, buffer->len);
    if (code != 0) {
        tide_log(TIDE_LOG_ERROR, p->host.name, "the state of the controller cannot be read: %s", tide_error_message());
        return code == TIDE_ENOMEM ? RAFT_NOMEM : RAFT_CORRUPT;
    }
    raft_free(buffer->base);
    return 0;
}

/* ---- leading ---- */

static void began(struct raft_barrier *request, int status) {
    struct holder *p = request->data;
    p->barrier_pending = false;
    if (status == 0 && raft_state(&p->raft) == RAFT_LEADER) {
        p->term = request->index;
        p->led = p->raft.current_term;
    }
}

/* After everything that may have changed the leader. */
static void look(struct holder *p) {
    bool leads = raft_state(&p->raft) == RAFT_LEADER;
    if (!leads || p->raft.current_term != p->led) {
        p->term = 0;
    }
    if (leads && p->term == 0 && !p->barrier_pending && !p->raft.transfer) {
        p->barrier.data = p;
        p->barrier_pending = raft_barrier(&p->raft, &p->barrier, began) == 0;
    }
}

static uint64_t turn(struct tide_control *control, uint64_t now) {
    struct holder *p = (struct holder *)control;
    if (now >= p->tick_at) {
        p->tick_at = now + tide_limit(control_heartbeat);
        p->tick(&p->io);
    }
    look(p);
    while (p->queue) {
        run_completions(p, false);
        look(p);
    }
    return p->tick_at;
}

static uint64_t leads(const struct tide_control *control) {
    return ((const struct holder *)control)->term;
}

static int campaign(struct tide_control *control, uint64_t *term) {
    struct holder *p = (struct holder *)control;
    (void)turn(control, tide_port_now(p->host.port)); /* the only holder leads at once */
    *term = p->term;
    return *term != 0 ? 0 : tide_fail(TIDE_ECLOSED, "this node does not lead the replicated log");
}

static void put_done(struct raft_apply *request, int status, void *result) {
    struct put *put = TIDE_CONTAINER(request, struct put, request);
    struct holder *p = put->replica;
    tide_control_done done = put->done;
    void *arg = put->arg;
    (void)result;
    tide_free(put);
    p->base.under_way--;
    if (status != 0) {
        p->term = 0;
        p->loses = true;
        done(arg, tide_fail(TIDE_ECLOSED, "the replicated log: %s", raft_strerror(status)));
        p->loses = false;
    } else {
        done(arg, 0);
    }
}

static int propose(struct holder *p, struct put *put, const struct tide_control_put *puts, size_t count) {
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_entry_write(&w, p->term, p->base.state.index + p->base.under_way + 1, puts, count);
    int code = w.error;
    if (code == 0 && (w.size > TIDE_CONTROL_ENTRY_MAX || p->base.state.bytes + w.size > TIDE_CONTROL_STATE_MAX)) {
        code = tide_fail(TIDE_ELIMIT, "a decision of %zu bytes", w.size);
    }
    struct raft_buffer buffer = {.base = w.data, .len = w.size}; /* raft's heap is ours */
    p->base.under_way++;
    int status = code == 0 ? raft_apply(&p->raft, &put->request, &buffer, 1, put_done) : 0;
    if (code == 0 && status != 0) {
        code = tide_fail(TIDE_ECLOSED, "the replicated log: %s", raft_strerror(status));
    }
    if (code != 0) {
        p->base.under_way--;
        tide_writer_release(&w);
    }
    return code;
}

static void put(struct tide_control *control, const struct tide_control_put *puts, size_t count, tide_control_done done,
                void *arg) {
    struct holder *p = (struct holder *)control;
    struct put *one = tide_alloc_zero(1, sizeof *one);
    int code = one ? 0 : TIDE_ENOMEM;
    if (code == 0) {
        *one = (struct put){.replica = p, .done = done, .arg = arg};
        code = p->term != 0 ? propose(p, one, puts, count)
                            : tide_fail(TIDE_ECLOSED, "this node leads the replicated log no more");
    }
    if (code != 0) {
        tide_free(one);
        p->term = 0;
        done(arg, code);
    }
}

static void transferred(struct raft_transfer *request) {
    (void)request; /* look() sees what has come of it */
}

static int hand_over(struct tide_control *control) {
    struct holder *p = (struct holder *)control;
    p->term = 0;
    if (p->loses || raft_state(&p->raft) != RAFT_LEADER || p->raft.transfer) {
        return 0;
    }
    int status = raft_transfer(&p->raft, &p->transfer, 0, transferred);
    return status == 0 ? 0 : tide_fail(TIDE_ENOENT, "nobody else can lead: %s", raft_strerror(status));
}

/* ---- holders ---- */

static size_t holders(const struct tide_control *control, uint16_t *ids, size_t limit) {
    const struct raft_configuration *c = &((const struct holder *)control)->raft.configuration;
    size_t count = 0;
    for (unsigned i = 0; i < c->n; i++) {
        if (c->servers[i].role == RAFT_VOTER) {
            if (count < limit) {
                ids[count] = (uint16_t)c->servers[i].id;
            }
            count++;
        }
    }
    return count;
}

static void changed(struct raft_change *request, int status) {
    struct holder *p = request->data;
    p->change_pending = false;
    if (status != 0 && status != RAFT_LEADERSHIPLOST) {
        tide_log(TIDE_LOG_WARN, p->host.name, "who holds the replicated log is as it was: %s", raft_strerror(status));
    }
}

/* A new holder first is a spare one, in a change of its own. */
static int hold(struct tide_control *control, uint16_t id, bool holds) {
    struct holder *p = (struct holder *)control;
    if (p->change_pending) {
        return tide_fail(TIDE_EBUSY, "the holders of the log are changing");
    }
    bool spare = false;
    for (unsigned i = 0; i < p->raft.configuration.n; i++) {
        spare = spare || p->raft.configuration.servers[i].id == id;
    }
    char address[24];
    tide__raft_address(id, address);
    p->change.data = p;
    p->change_pending = true;
    int status = !holds  ? raft_remove(&p->raft, &p->change, id, changed)
                 : spare ? raft_assign(&p->raft, &p->change, id, RAFT_VOTER, changed)
                         : raft_add(&p->raft, &p->change, id, address, changed);
    if (status != 0) {
        p->change_pending = false;
        return tide_fail(TIDE_EBUSY, "%s", raft_strerror(status));
    }
    return 0;
}

/* ---- from others ---- */

static void receive(struct tide_control *control, uint16_t from, struct tide_reader *r) {
    struct holder *p = (struct holder *)control;
    struct raft_message message;
    char address[24];
    int code = tide__raft_read(r, from, &p->parts, &message);
    if (code < 0) {
        tide_log(TIDE_LOG_WARN, p->host.name, "node n%u: %s", (unsigned)from, tide_error_message());
    }
    if (code == 1) {
        tide__raft_address(from, address);
        message.server_address = address;
        p->recv(&p->io, &message);
        look(p);
    }
}

/* ---- life ---- */

/* Zeroed: some entries of the library's own have bytes that it never writes, and they travel. */
static void *heap_malloc(void *data, size_t size) {
    (void)data;
    return tide_alloc_zero(1, size);
}

static void heap_free(void *data, void *memory) {
    (void)data;
    tide_free(memory);
}

static void *heap_calloc(void *data, size_t count, size_t size) {
    (void)data;
    return tide_alloc_zero(count, size);
}

static void *heap_realloc(void *data, void *memory, size_t size) {
    (void)data;
    return tide_realloc(memory, size);
}

static void *heap_aligned_alloc(void *data, size_t alignment, size_t size) {
    (void)data;
    return tide_alloc_aligned(alignment, size);
}

static void heap_aligned_free(void *data, size_t alignment, void *memory) {
    (void)data;
    (void)alignment;
    tide_free(memory);
}

static void on_closed(struct raft *raft) {
    ((struct holder *)raft->data)->closed = true;
}

static void release(struct holder *p) {
    if (p->disk_log) {
        tide_raft_log_close(p->disk_log);
    }
    snapshot_release(&p->snapshot);
    tide_free(p);
}

static void destroy(struct tide_control *control) {
    struct holder *p = (struct holder *)control;
    raft_close(&p->raft, on_closed);
    while (p->steps) { /* the node's threads have ended */
        step_leave(p->steps, RAFT_CANCELED);
    }
    while (!p->closed) {
        run_completions(p, true);
        TIDE_ASSERT(p->close);
        p->close(&p->io);
    }
    tide__raft_parts_release(&p->parts);
    tide_control_state_release(&control->state);
    release(p);
}

static const struct tide_control_ops raft_ops = {
    .campaign = campaign,
    .put = put,
    .destroy = destroy,
    .receive = receive,
    .turn = turn,
    .leads = leads,
    .hand_over = hand_over,
    .holders = holders,
    .hold = hold,
};

static void fill(struct holder *p, const struct tide_control_host *host) {
    p->base.ops = &raft_ops;
    p->base.node = host->node;
    p->host = *host;
    p->queue_tail = &p->queue;
    p->steps_tail = &p->steps;
    tide_port_random(host->port, "raft", &p->random);
    p->io = (struct raft_io){.version = 2,
                             .impl = p,
                             .init = io_init,
                             .close = io_close,
                             .load = io_load,
                             .start = io_start,
                             .bootstrap = io_refuse,
                             .recover = io_refuse,
                             .set_term = io_set_term,
                             .set_vote = io_set_vote,
                             .send = io_send,
                             .append = io_append,
                             .truncate = io_truncate,
                             .snapshot_put = io_snapshot_put,
                             .snapshot_get = io_snapshot_get,
                             .time = io_time,
                             .random = io_random};
    p->fsm = (struct raft_fsm){
        .version = 1, .data = p, .apply = fsm_apply, .snapshot = fsm_snapshot, .restore = fsm_restore};
}

/* The snapshot with which a new log begins, of which this node is the only holder. Its index is above
 * all terms and indices that the state has seen, and so are the terms to come. */
static int begin_with(struct holder *p, const struct tide_control_state *state) {
    struct raft_snapshot *s = &p->snapshot;
    char address[24];
    tide__raft_address(p->host.self, address);
    raft_configuration_init(&s->configuration);
    int status = raft_configuration_add(&s->configuration, p->host.self, address, RAFT_VOTER);
    struct tide_writer w;
    tide_writer_init(&w, NULL, 0);
    tide_control_snapshot_write(&w, state);
    s->bufs = raft_calloc(1, sizeof *s->bufs);
    if (status != 0 || w.error != 0 || !s->bufs) {
        tide_writer_release(&w);
        return RAFT_NOMEM;
    }
    s->bufs[0] = (struct raft_buffer){.base = w.data, .len = w.size}; /* raft's heap is ours */
    s->n_bufs = 1;
    const uint64_t reached = state->term > state->index ? state->term : state->index;
    s->term = p->host.log_term + 1;
    s->index = 1 + (reached > p->host.log_index ? reached : p->host.log_index);
    s->configuration_index = s->index;
    return p->host.directory ? hold_snapshot(p, false, NULL) : 0;
}

static int start(struct holder *p, const struct tide_control_state *state) {
    char address[24];
    tide__raft_address(p->host.self, address);
    int status = p->host.directory ? disk(p, &(struct disk_step){.run = open_log}) : 0;
    status = status == 0 && state ? begin_with(p, state) : status;
    status = status == 0 && p->disk_code != 0 ? RAFT_IOERR : status;
    status = status != 0 ? status : raft_init(&p->raft, &p->io, &p->fsm, p->host.self, address);
    if (status != 0) {
        return status;
    }
    p->raft.data = p;
    raft_set_election_timeout(&p->raft, (unsigned)(tide_limit(control_election) / MILLISECOND));
    raft_set_heartbeat_timeout(&p->raft, (unsigned)(tide_limit(control_heartbeat) / MILLISECOND));
    raft_set_snapshot_threshold(&p->raft, (unsigned)tide_limit(control_snapshot_entries));
    raft_set_snapshot_trailing(&p->raft, (unsigned)tide_limit(control_snapshot_trailing));
    raft_set_pre_vote(&p->raft, true);
    return raft_start(&p->raft);
}

static int open_raft(const struct tide_control_host *host, const struct tide_control_state *state,
                     struct tide_control **out) {
    static struct raft_heap heap = {.malloc = heap_malloc,
                                    .free = heap_free,
                                    .calloc = heap_calloc,
                                    .realloc = heap_realloc,
                                    .aligned_alloc = heap_aligned_alloc,
                                    .aligned_free = heap_aligned_free};
    struct holder *p = tide_alloc_zero(1, sizeof *p);
    if (!p) {
        return TIDE_ENOMEM;
    }
    raft_heap_set(&heap);
    fill(p, host);
    int status = start(p, state);
    if (status != 0) {
        char reason[160];
        snprintf(reason, sizeof reason, "%s", status == RAFT_IOERR ? tide_error_message() : raft_strerror(status));
        int code = tide_fail(status == RAFT_IOERR ? TIDE_EIO : TIDE_EUNSUPPORTED, "the replicated log cannot start: %s",
                             reason);
        if (p->steps) {
            return code; /* the disk thread has it still */
        }
        if (p->raft.io) {
            destroy(&p->base);
        } else {
            release(p);
        }
        return code;
    }
    *out = &p->base;
    return 0;
}

extern const struct tide_control_plugin TIDE_CONTROL_PLUGIN;
const struct tide_control_plugin TIDE_CONTROL_PLUGIN = {.version = TIDE_VERSION, .open = open_raft};
