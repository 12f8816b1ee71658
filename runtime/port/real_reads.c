/* Reads by io_uring: the system calls and the two rings, without liburing. See reads.h, and io_uring(7). */
#include "port/reads.h"

#include "base/watch.h"
#include "port/real.h"

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <errno.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tide_reads {
    int fd;
    unsigned begun, in_flight; /* begun: not submitted yet */
    char *rings;               /* both, in one mapping */
    size_t rings_bytes, entries_bytes;
    struct io_uring_sqe *entries;
    unsigned *order, submit_mask, done_mask;
    atomic_uint *submit_tail, *done_head, *done_tail;
    const struct io_uring_cqe *done;
};

static atomic_uint *number_at(const struct tide_reads *reads, unsigned offset) {
    return (atomic_uint *)(void *)(reads->rings + offset);
}

static bool map_rings(struct tide_reads *reads, const struct io_uring_params *p) {
    const size_t submit = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    const size_t done = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
    const int both = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_POPULATE;
    if (!(p->features & IORING_FEAT_SINGLE_MMAP)) {
        return false;
    }
    reads->rings_bytes = submit > done ? submit : done;
    reads->entries_bytes = p->sq_entries * sizeof *reads->entries;
    void *rings = mmap(NULL, reads->rings_bytes, both, shared, reads->fd, IORING_OFF_SQ_RING);
    void *entries = mmap(NULL, reads->entries_bytes, both, shared, reads->fd, IORING_OFF_SQES);
    reads->rings = rings == MAP_FAILED ? NULL : rings;
    reads->entries = entries == MAP_FAILED ? NULL : entries;
    if (!reads->rings || !reads->entries) {
        return false;
    }
    reads->order = (unsigned *)(void *)(reads->rings + p->sq_off.array);
    reads->submit_mask = *number_at(reads, p->sq_off.ring_mask);
    reads->done_mask = *number_at(reads, p->cq_off.ring_mask);
    reads->submit_tail = number_at(reads, p->sq_off.tail);
    reads->done_head = number_at(reads, p->cq_off.head);
    reads->done_tail = number_at(reads, p->cq_off.tail);
    reads->done = (const void *)(reads->rings + p->cq_off.cqes);
    return true;
}

static void release(struct tide_reads *reads) {
    if (reads->rings) {
        munmap(reads->rings, reads->rings_bytes);
    }
    if (reads->entries) {
        munmap(reads->entries, reads->entries_bytes);
    }
    if (reads->fd >= 0) {
        close(reads->fd);
    }
    tide_free(reads);
}

struct tide_reads *tide_reads_create(struct tide_port *port, unsigned most) {
    struct io_uring_params params = {.flags = 0};
    struct tide_reads *reads = port->simulated ? NULL : tide_alloc_zero(1, sizeof *reads);
    if (!reads) {
        return NULL;
    }
    reads->fd = (int)syscall(SYS_io_uring_setup, most, &params);
    if (reads->fd < 0 || !map_rings(reads, &params)) {
        release(reads);
        return NULL;
    }
    return reads;
}

void tide_reads_begin(struct tide_reads *reads, struct tide_read *read) {
    const unsigned tail = atomic_load_explicit(reads->submit_tail, memory_order_relaxed);
    struct io_uring_sqe *entry = &reads->entries[tail & reads->submit_mask];
    *entry = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                   .fd = tide__real_file_descriptor(read->file),
                                   .off = read->offset,
                                   .addr = (uint64_t)(uintptr_t)read->data,
                                   .len = (uint32_t)read->size,
                                   .user_data = (uint64_t)(uintptr_t)read};
    reads->order[tail & reads->submit_mask] = tail & reads->submit_mask;
    atomic_store_explicit(reads->submit_tail, tail + 1, memory_order_release); /* with the kernel's acquire */
    reads->begun++;
}

static size_t take_done(struct tide_reads *reads, struct tide_read **done, size_t most) {
    unsigned head = atomic_load_explicit(reads->done_head, memory_order_relaxed);
    /* acquire: with the kernel's release of the entries */
    const unsigned tail = atomic_load_explicit(reads->done_tail, memory_order_acquire);
    size_t count = 0;
    for (; head != tail && count < most; head++) {
        const struct io_uring_cqe *entry = &reads->done[head & reads->done_mask];
        done[count] = (struct tide_read *)(uintptr_t)entry->user_data;
        done[count++]->got = entry->res;
    }
    atomic_store_explicit(reads->done_head, head, memory_order_release); /* with the kernel's acquire */
    reads->in_flight -= (unsigned)count;
    return count;
}

size_t tide_reads_wait(struct tide_reads *reads, struct tide_read **done, size_t most) {
    tide__watch_blocks("read", NULL);
    for (;;) {
        const long code =
            syscall(SYS_io_uring_enter, reads->fd, reads->begun, 1, IORING_ENTER_GETEVENTS, NULL, (size_t)0);
        /* the kernel is short of memory, or a signal came: what is done is taken, and the rest submitted next time */
        TIDE_ASSERT(code >= 0 || errno == EINTR || errno == EAGAIN || errno == EBUSY);
        const unsigned submitted = code > 0 ? (unsigned)code : 0;
        reads->begun -= submitted;
        reads->in_flight += submitted;
        const size_t count = take_done(reads, done, most);
        if (count > 0) {
            return count;
        }
    }
}

void tide_reads_destroy(struct tide_reads *reads) {
    struct tide_read *done[16];
    while (reads && reads->in_flight + reads->begun > 0) {
        (void)tide_reads_wait(reads, done, TIDE_COUNT(done));
    }
    if (reads) {
        release(reads);
    }
}
#else
struct tide_reads *tide_reads_create(struct tide_port *port, unsigned most) {
    (void)port;
    (void)most;
    return NULL;
}
void tide_reads_destroy(struct tide_reads *reads) {
    (void)reads;
}
void tide_reads_begin(struct tide_reads *reads, struct tide_read *read) {
    (void)reads;
    (void)read;
}
size_t tide_reads_wait(struct tide_reads *reads, struct tide_read **done, size_t most) {
    (void)reads;
    (void)done;
    (void)most;
    return 0;
}
#endif
