/*
 * Many reads of files in flight from one thread, by io_uring (Linux). Without it, or where the system forbids it, there
 * is no ring, and a thread reads one block at a time.
 */
#ifndef TIDE_PORT_READS_H
#define TIDE_PORT_READS_H

#include "port/port.h"

struct tide_read {
    struct tide_file *file;
    void *data;
    size_t size;
    uint64_t offset;
    ssize_t got; /* bytes, or an error without a text. Fewer than `size`: file_read says why */
};

struct tide_reads; /* a ring, of one thread at a time */

/* For `most` reads in flight. NULL: there is no io_uring, or no memory. */
struct tide_reads *tide_reads_create(struct tide_port *port, unsigned most);
/* Blocks until no read is in flight. NULL is allowed. */
void tide_reads_destroy(struct tide_reads *reads);
/* Begins a read, which the next tide_reads_wait submits. *borrows* it and its data until it is done. */
void tide_reads_begin(struct tide_reads *reads, struct tide_read *read);
/* Blocks until a read is done: how many are, at most `most`, and which. */
size_t tide_reads_wait(struct tide_reads *reads, struct tide_read **done, size_t most);

#endif
