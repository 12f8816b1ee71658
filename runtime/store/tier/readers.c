/*
 * Threads that read rows of one table: a disk serves many reads at once. The threads take reads from one queue, in
 * order. Finished reads go to a list that the store actor takes in its turn. Where the system has io_uring, few threads
 * have many reads in flight each; else a thread has one.
 */
#include "store/tier/tier.h"

enum {
    AGAIN_NS = 1000000,
    RING_READERS = 2, /* one more than one, for reads that come while it blocks */
    RING_READS = 128, /* in flight by one thread */
    TURN_READS = 16,  /* calls that block, in one turn */
    TOGETHER = 8,     /* finished reads of which the store actor is notified at once, unless no read is queued */
};

struct work_list {
    struct tide__work *first, **last;
};

struct tide__reader {
    struct tide__readers *readers;
    struct tide_executor *executor;
    bool idle; /* under the lock: a new read wakes the thread */
    /* the thread's own */
    struct tide_reads *ring; /* NULL: one read at a time */
    struct work_list taken, finished;
    uint32_t in_flight; /* of the ring */
    bool unnotified;    /* the store actor is to be notified of finished reads */
};

struct tide__readers {
    struct tide__tier *tier;
    struct tide_lock lock;
    struct work_list queued, done;
    uint32_t done_count, count;
    struct tide__reader list[];
};

static void list_add(struct work_list *list, struct tide__work *work) {
    work->next = NULL;
    list->last = list->first ? list->last : &list->first;
    *list->last = work;
    list->last = &work->next;
}

static struct tide__work *list_take(struct work_list *list) {
    struct tide__work *work = list->first;
    list->first = work ? work->next : NULL;
    return work;
}

/* Hands over finished reads and takes queued ones. */
static void exchange(struct tide__reader *reader) {
    struct tide__readers *r = reader->readers;
    const bool finished = reader->finished.first;
    const uint32_t room = reader->ring ? RING_READS - reader->in_flight : 1;
    struct tide__work *work;
    tide_lock(&r->lock);
    while ((work = list_take(&reader->finished))) {
        list_add(&r->done, work);
        r->done_count++;
    }
    for (uint32_t i = 0; i < room && (work = list_take(&r->queued)); i++) {
        list_add(&reader->taken, work);
    }
    reader->idle = !reader->taken.first && reader->in_flight == 0;
    reader->unnotified |= finished && (r->done_count >= TOGETHER || !r->queued.first);
    tide_unlock(&r->lock);
}

static bool pending(void *arg) {
    struct tide__reader *reader = arg;
    tide_lock(&reader->readers->lock);
    const bool is = reader->readers->queued.first;
    tide_unlock(&reader->readers->lock);
    return is;
}

/* Submits what was taken and blocks until a read is done. */
static void read_by_ring(struct tide__reader *reader) {
    struct tide_read *done[RING_READS];
    struct tide__work *work;
    for (; (work = list_take(&reader->taken)); reader->in_flight++) {
        work->read = (struct tide_read){.file = work->tier->segments[work->segment]->file,
                                        .data = work->data,
                                        .size = work->size,
                                        .offset = work->offset};
        tide_reads_begin(reader->ring, &work->read);
    }
    const size_t count = tide_reads_wait(reader->ring, done, RING_READS);
    for (size_t i = 0; i < count; i++) {
        work = TIDE_CONTAINER(done[i], struct tide__work, read);
        if (done[i]->got != (ssize_t)done[i]->size) { /* for its error, or the end of a signal's short read */
            work->task.run(&work->task);
        } else {
            tide__read_check(work);
        }
        list_add(&reader->finished, work);
    }
    reader->in_flight -= (uint32_t)count;
}

/* In the simulator one read a turn, which is handed over in the next one, so that it takes its time. */
static uint64_t turn(void *arg) {
    struct tide__reader *reader = arg;
    struct tide__tier *tier = reader->readers->tier;
    for (int left = tier->port->simulated ? 1 : TURN_READS; left > 0; left--) {
        exchange(reader);
        reader->unnotified = reader->unnotified && !tide__tier_wake(tier);
        if (reader->ring && (reader->taken.first || reader->in_flight > 0)) {
            read_by_ring(reader);
        } else if (reader->taken.first) {
            struct tide__work *work = list_take(&reader->taken);
            work->task.run(&work->task);
            list_add(&reader->finished, work);
        } else {
            return reader->unnotified ? tide_port_now(tier->port) + AGAIN_NS : TIDE_NEVER;
        }
    }
    return 0;
}

int tide__readers_start(struct tide__tier *tier) {
    const uint32_t wanted = (uint32_t)tide_limit(store_tier_readers);
    uint32_t count = wanted < tier->reads_most ? wanted : tier->reads_most;
    struct tide__readers *r = tide_alloc_zero(1, sizeof *r + count * sizeof r->list[0]);
    if (!r) {
        return TIDE_ENOMEM;
    }
    r->tier = tier;
    tier->readers = r;
    int code = 0;
    for (uint32_t i = 0; i < count && !code; i++) {
        struct tide__reader *reader = &r->list[i];
        char name[16];
        (void)snprintf(name, sizeof name, "tide-read%u", i % 1000);
        *reader = (struct tide__reader){.readers = r, .idle = true};
        reader->ring = i < RING_READERS && count > 1 ? tide_reads_create(tier->port, RING_READS) : NULL;
        count = reader->ring && count > RING_READERS ? RING_READERS : count;
        const struct tide_executor_options options = {
            .name = name, .turn = turn, .pending = pending, .arg = reader, .core = -1};
        code = tier->port->ops->executor_start(tier->port, &options, &reader->executor);
        r->count += !code;
        if (code) {
            tide_reads_destroy(reader->ring);
        }
    }
    if (r->count == 0) { /* the disk thread reads rows then */
        tide_free(r);
        tier->readers = NULL;
    }
    return code;
}

void tide__readers_stop(struct tide__tier *tier) {
    struct tide__readers *r = tier->readers;
    for (uint32_t i = 0; r && i < r->count; i++) {
        tier->port->ops->executor_stop(r->list[i].executor);
        tide_reads_destroy(r->list[i].ring);
    }
    tide_free(r);
    tier->readers = NULL;
}

void tide__readers_add(struct tide__tier *tier, struct tide__work *work) {
    struct tide__readers *r = tier->readers;
    struct tide__reader *idle = NULL;
    tide_lock(&r->lock);
    list_add(&r->queued, work);
    for (uint32_t i = 0; i < r->count && !idle; i++) {
        idle = r->list[i].idle ? &r->list[i] : NULL;
    }
    if (idle) {
        idle->idle = false;
    }
    tide_unlock(&r->lock);
    if (idle) {
        tide_executor_wake(tier->port, idle->executor);
    }
}

struct tide__work *tide__readers_done(struct tide__tier *tier) {
    struct tide__readers *r = tier->readers;
    if (!r) {
        return NULL;
    }
    tide_lock(&r->lock);
    struct tide__work *work = r->done.first;
    r->done.first = NULL;
    r->done_count = 0;
    tide_unlock(&r->lock);
    return work;
}
