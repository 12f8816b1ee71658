/*
 * Threads that read rows, of one table: a disk answers many reads at once, and one that waits for each reaches a third
 * of its rate. They take reads from one queue, in its order; what is read goes to the list of finished work, which the
 * store actor takes in its turn.
 */
#include "store/tier/tier.h"

enum { AGAIN_NS = 1000000 };

struct tide__reader {
    struct tide__readers *readers;
    struct tide_executor *executor;
    bool idle; /* under the lock: a read that comes wakes it */
    /* its own */
    struct tide__work *read;
    bool untold; /* what it has read: the store actor could not be woken */
};

struct tide__readers {
    struct tide__tier *tier;
    struct tide_lock lock;
    struct tide__work *first, **last;     /* to be read */
    struct tide__work *done, **done_last; /* read */
    uint32_t count;
    struct tide__reader list[];
};

/* A read that is to be done, after `read` (NULL: none) was. NULL: none. */
static struct tide__work *next_read(struct tide__reader *reader, struct tide__work *read) {
    struct tide__readers *r = reader->readers;
    tide_lock(&r->lock);
    if (read) {
        read->next = NULL;
        *r->done_last = read;
        r->done_last = &read->next;
    }
    struct tide__work *work = r->first;
    if (work) {
        r->first = work->next;
        r->last = r->first ? r->last : &r->first;
    }
    reader->idle = !work;
    tide_unlock(&r->lock);
    return work;
}

static bool pending(void *arg) {
    struct tide__reader *reader = arg;
    tide_lock(&reader->readers->lock);
    const bool is = reader->readers->first;
    tide_unlock(&reader->readers->lock);
    return is;
}

/* One read a turn; what was read counts from the next one, so that in the simulator it takes its time. */
static uint64_t turn(void *arg) {
    struct tide__reader *reader = arg;
    struct tide__tier *tier = reader->readers->tier;
    reader->untold = reader->untold || reader->read;
    reader->read = next_read(reader, reader->read);
    reader->untold = reader->untold && !tide__tier_wake(tier);
    if (reader->read) {
        reader->read->task.run(&reader->read->task);
        return 0;
    }
    return reader->untold ? tide_port_now(tier->port) + AGAIN_NS : TIDE_NEVER;
}

int tide__readers_start(struct tide__tier *tier) {
    const uint32_t wanted = (uint32_t)tide_limit(store_tier_readers);
    const uint32_t count = wanted < tier->reads_most ? wanted : tier->reads_most;
    struct tide__readers *r = tide_alloc_zero(1, sizeof *r + count * sizeof r->list[0]);
    if (!r) {
        return TIDE_ENOMEM;
    }
    r->tier = tier;
    r->last = &r->first;
    r->done_last = &r->done;
    tier->readers = r;
    int code = 0;
    for (uint32_t i = 0; i < count && !code; i++) {
        struct tide__reader *reader = &r->list[i];
        char name[16];
        (void)snprintf(name, sizeof name, "tide-read%u", i % 1000);
        *reader = (struct tide__reader){.readers = r, .idle = true};
        const struct tide_executor_options options = {
            .name = name, .turn = turn, .pending = pending, .arg = reader, .core = -1};
        code = tier->port->ops->executor_start(tier->port, &options, &reader->executor);
        r->count += !code;
    }
    if (r->count == 0) { /* the disk thread reads */
        tide_free(r);
        tier->readers = NULL;
    }
    return code;
}

void tide__readers_stop(struct tide__tier *tier) {
    struct tide__readers *r = tier->readers;
    for (uint32_t i = 0; r && i < r->count; i++) {
        tier->port->ops->executor_stop(r->list[i].executor);
    }
    tide_free(r);
    tier->readers = NULL;
}

void tide__readers_add(struct tide__tier *tier, struct tide__work *work) {
    struct tide__readers *r = tier->readers;
    struct tide__reader *idle = NULL;
    tide_lock(&r->lock);
    *r->last = work;
    r->last = &work->next;
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
    struct tide__work *work = r->done;
    r->done = NULL;
    r->done_last = &r->done;
    tide_unlock(&r->lock);
    return work;
}
