/*
 * Rings: the bytes of a stream between two processes of one machine go through memory that both
 * map, a ring each way, and need no system call while both are awake. The memory is a sealed memfd,
 * so that neither side can take it away from the other.
 *
 * A ring has one writer and one reader. Each publishes how far it is; the other believes it no
 * further than the ring is long. An empty ring begins anew at the start of its memory, so that what
 * is little goes through few lines of the caches. A side that is about to sleep writes that to the ring, looks
 * once more, and is woken through the stream's socket. All of this is seq_cst: "I sleep" comes
 * before that look and "there is more" before the look at the sleepers, so one sees the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create, seals */
#endif
#include "port/real.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x31676e6972656474) /* "tdering1" */
#define NOT_YET UINT64_MAX
enum { RING_BYTES = 128 << 10, LINE = 64, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct way {
    /* the writer's */
    _Alignas(LINE) atomic_uint_fast64_t head; /* bytes written since the beginning */
    atomic_uint_fast64_t base;                /* the byte that is first in memory; changes while all is read */
    atomic_uint_fast64_t begins;              /* behind so many bytes of the socket */
    /* the reader's */
    _Alignas(LINE) atomic_uint_fast64_t tail; /* bytes read */
    /* of both */
    _Alignas(LINE) atomic_uint reader_sleeps, writer_sleeps;
};

struct tide_rings {
    uint64_t magic;
    struct way ways[2]; /* the first is written by its creator */
    uint8_t bytes[2][RING_BYTES];
};

static struct tide_rings *map(int fd) {
    void *at = mmap(NULL, sizeof(struct tide_rings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool tide__rings_make(struct tide_ring_end *end, int *descriptor) {
    int fd = memfd_create("tide-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return false;
    }
    /* All of it now: later there would be no caller for ENOMEM. */
    const bool sized = posix_fallocate(fd, 0, sizeof(struct tide_rings)) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0;
    struct tide_rings *rings = sized ? map(fd) : NULL;
    if (!rings) {
        close(fd);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&rings->ways[i].begins, NOT_YET, memory_order_relaxed);
        atomic_store_explicit(&rings->ways[i].reader_sleeps, 1, memory_order_relaxed);
    }
    rings->magic = MAGIC;
    *end = (struct tide_ring_end){.rings = rings, .side = 0};
    *descriptor = fd;
    return true;
}

bool tide__rings_take(struct tide_ring_end *end, int fd) {
    struct stat info;
    const int seals = fcntl(fd, F_GET_SEALS);
    struct tide_rings *rings = NULL;
    if (seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &info) == 0 && info.st_size == sizeof(struct tide_rings)) {
        rings = map(fd);
    }
    if (rings && rings->magic != MAGIC) {
        (void)munmap(rings, sizeof *rings);
        rings = NULL;
    }
    if (!rings) {
        return false;
    }
    *end = (struct tide_ring_end){.rings = rings, .side = 1};
    return true;
}

void tide__rings_drop(struct tide_ring_end *end) {
    if (end->rings) {
        (void)munmap(end->rings, sizeof *end->rings);
        end->rings = NULL;
    }
}

static struct way *out_way(const struct tide_ring_end *end) {
    return &end->rings->ways[end->side];
}

static struct way *in_way(const struct tide_ring_end *end) {
    return &end->rings->ways[1 - end->side];
}

void tide__ring_begin(struct tide_ring_end *end, uint64_t socket_bytes) {
    /* release: before any byte that wakes the reader through the socket */
    atomic_store_explicit(&out_way(end)->begins, socket_bytes, memory_order_release);
}

bool tide__ring_begins(const struct tide_ring_end *end, uint64_t *socket_bytes) {
    /* acquire: pairs with tide__ring_begin */
    *socket_bytes = atomic_load_explicit(&in_way(end)->begins, memory_order_acquire);
    return *socket_bytes != NOT_YET;
}

/* Bytes [at, at + size) of the ring, which may go round its end. */
static void copy_in(uint8_t *ring, uint64_t at, const void *data, size_t size) {
    const size_t from = at % RING_BYTES, whole = RING_BYTES - from;
    const size_t part = size < whole ? size : whole;
    memcpy(ring + from, data, part);
    memcpy(ring, (const uint8_t *)data + part, size - part);
}

static void copy_out(const uint8_t *ring, uint64_t at, void *data, size_t size) {
    const size_t from = at % RING_BYTES, whole = RING_BYTES - from;
    const size_t part = size < whole ? size : whole;
    memcpy(data, ring + from, part);
    memcpy((uint8_t *)data + part, ring, size - part);
}

/* Once after each time that it said so. */
static bool wakes(atomic_uint *sleeps) {
    return atomic_load(sleeps) != 0 && atomic_exchange(sleeps, 0) != 0;
}

ssize_t tide__ring_write(struct tide_ring_end *end, const struct tide_iovec *iov, size_t count, bool *wake) {
    struct way *way = out_way(end);
    uint8_t *ring = end->rings->bytes[end->side];
    const uint64_t head = end->written;
    /* acquire: the reader is done with what we write over */
    const uint64_t used = head - atomic_load_explicit(&way->tail, memory_order_acquire);
    if (used > RING_BYTES) {
        return tide_fail(TIDE_EPROTO, "the peer has read what was not written");
    }
    if (used == 0) { /* the reader looks at nothing before it sees a new head */
        atomic_store_explicit(&way->base, head, memory_order_relaxed);
        end->base = head;
    }
    size_t room = RING_BYTES - (size_t)used, taken = 0;
    for (size_t i = 0; i < count && room > 0; i++) {
        const size_t size = iov[i].size < room ? iov[i].size : room;
        copy_in(ring, head - end->base + taken, iov[i].data, size);
        taken += size;
        room -= size;
    }
    end->written = head + taken;
    atomic_store(&way->head, end->written); /* with the bytes before it */
    *wake = taken > 0 && wakes(&way->reader_sleeps);
    return (ssize_t)taken;
}

/* Bytes that are there to be read; more than a ring has: the peer lies. */
static uint64_t waiting(const struct tide_ring_end *end) {
    return atomic_load(&in_way(end)->head) - end->read;
}

ssize_t tide__ring_read(struct tide_ring_end *end, void *data, size_t size, bool *wake) {
    struct way *way = in_way(end);
    const uint64_t there = waiting(end);
    if (there > RING_BYTES) {
        return tide_fail(TIDE_EPROTO, "the peer has written more than there was room for");
    }
    size = there < size ? (size_t)there : size;
    const uint64_t base = atomic_load_explicit(&way->base, memory_order_relaxed);
    copy_out(end->rings->bytes[1 - end->side], end->read - base, data, size);
    end->read += size;
    atomic_store(&way->tail, end->read); /* the writer may write over what was copied */
    *wake = size > 0 && there - size <= RING_BYTES / 2 && wakes(&way->writer_sleeps);
    return (ssize_t)size;
}

bool tide__ring_has_bytes(const struct tide_ring_end *end) {
    return waiting(end) != 0;
}

bool tide__ring_has_room(const struct tide_ring_end *end) {
    return end->written - atomic_load(&out_way(end)->tail) <= RING_BYTES / 2;
}

void tide__rings_sleep(struct tide_ring_end *end, bool reads, bool writes) {
    atomic_store(&in_way(end)->reader_sleeps, reads);
    atomic_store(&out_way(end)->writer_sleeps, writes);
}
