/*
 * Devices with memory of their own. Operands of their operations, update rules and norms lie there;
 * work is put into a queue and runs in its order, while the host continues. A queue belongs to one
 * thread at a time. The queue NULL is for callers that have none: what is asked of it comes after
 * everything queued before, in any queue, and is done when the call returns.
 *
 * Functions return 0 or a negative TIDE_E... code.
 */
#ifndef TIDE_MEMORY_H
#define TIDE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TIDE_TICKETS = 64 }; /* that a queue keeps apart; older ones are forgotten */

struct tide_memory {
    void *(*allocate)(size_t bytes); /* 256-byte aligned; NULL: no more is left */
    void (*release)(void *memory);
    /* Host memory is held in place, so that copies run beside everything else. Copies of memory
     * that is not pinned are right but make the host wait. Unpin before it is freed. */
    void (*pin)(void *host, size_t bytes);
    void (*unpin)(void *host);
    int (*open)(void **queue);
    void (*close)(void *queue); /* waits */
    /* In the queue's order. `host` stays as it is until finish. */
    int (*upload)(void *queue, void *to, const void *host, size_t bytes);
    int (*download)(void *queue, void *host, const void *from, size_t bytes);
    /* Beside the queue: it starts at once, and what is queued later sees the bytes. Nothing that is
     * queued already may use `to`. */
    int (*upload_beside)(void *queue, void *to, const void *host, size_t bytes);
    /* Beside the queue: the bytes as what is queued now leaves them. Nothing queued later may write
     * `from` before the ticket is over. */
    int (*download_beside)(void *queue, void *host, const void *from, size_t bytes, uint64_t *ticket);
    /* A ticket that is over when all that is in the queue is done. */
    int (*mark)(void *queue, uint64_t *ticket);
    int (*over)(void *queue, uint64_t ticket, bool wait); /* 1, 0 or a code */
    /* Waits for everything. A code and its text when something failed since the last time: EINVAL
     * for a label or id outside its range, EIO for the device. */
    int (*finish)(void *queue, char *text, size_t capacity);
};

#endif
