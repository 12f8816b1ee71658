/*
 * Private to the real port. One executor is one uv loop, its own or the host's; everything of an
 * executor (streams, listeners, processes) is touched by its thread alone, except the
 * fields marked atomic.
 */
#ifndef TIDE_PORT_REAL_H
#define TIDE_PORT_REAL_H

#include "port/port.h"

#include <pthread.h>
#include <sys/socket.h>
#include <uv.h>

/* What a waker finds. The executor goes from AWAKE to SLEEPING, wakers make it NOTIFIED, a turn
 * AWAKE. Only the waker that takes it out of SLEEPING pays for a system call. */
enum tide_real_state { TIDE_REAL_AWAKE, TIDE_REAL_SLEEPING, TIDE_REAL_NOTIFIED };

struct tide_real_port {
    struct tide_port base;
    uv_loop_t *hosted; /* the host's loop with an executor of ours, or NULL; of the thread that made the node */
};

struct tide_executor {
    /* set once */
    struct tide_port *port;
    struct tide_executor_options options;
    char name[16];
    uv_loop_t *loop;
    bool own_thread;
    int wake_fd;
    int timer_fd;
    pthread_t thread; /* to join */

    /* any thread, atomic */
    _Atomic int state; /* enum tide_real_state */
    atomic_bool stopping;

    /* its thread only */
    pthread_t self;
    uv_loop_t own_loop;
    uv_prepare_t prepare; /* runs the turn, just before the loop polls */
    uv_idle_t idle;       /* active while a turn is to run again at once: the loop then polls without
                             waiting */
    uv_poll_t wake_poll;
    uv_poll_t timer_poll;
    uint64_t active_at; /* when something last happened */
    bool eager;         /* and the time before was short: spin before sleeping */
    uint64_t armed;     /* when timer_fd fires; TIDE_NEVER: not at all */
    unsigned handles_open;
    size_t streams_open;
    struct tide_stream *closing_first, **closing_last; /* `closed` is to be delivered */
    struct tide_stream *rings_first, *rings_next;      /* streams with rings; where a walk over them continues */
    unsigned rings_count;
    struct tide_process *processes;
};

/* Everything below: on the executor's thread. */
void tide__real_check_thread(const struct tide_executor *executor);
/* A callback of the loop is about to hand an event to the owner: the turn follows, so no thread needs to
 * wake us. */
void tide__real_awake(struct tide_executor *executor);
/* An error of the operating system as ours, with its text in the error slot; returns the code. */
int tide__real_fail(int error_number, const char *what, const char *subject);

/* real_address.c */
struct tide_real_address {
    struct sockaddr_storage storage;
    socklen_t size;
    int directory; /* open one that the path of the socket goes through; -1: none */
};
/* To be released when it is bound or connected, also after an error. */
int tide__real_address_parse(const char *endpoint, struct tide_real_address *out);
void tide__real_address_release(struct tide_real_address *address);
/* "tcp:ADDRESS:PORT"; for a Unix socket "unix:PATH". */
void tide__real_address_print(const struct tide_real_address *address, char *out, size_t size);
/* Binds and listens; gives the descriptor or a negative code. */
int tide__real_address_listen(const struct tide_real_address *address, const char *endpoint);

/* real_ring.c: memory that two processes share, a ring of bytes each way */
struct tide_rings;
struct tide_ring_end {
    struct tide_rings *rings; /* NULL: none */
    unsigned side;            /* 0: made it */
    uint64_t written, read;   /* through the rings */
    uint64_t base;            /* of what it writes */
};
/* False: this machine has none to give, or the descriptor is of something else. Both leave the descriptor open. */
bool tide__rings_make(struct tide_ring_end *end, int *descriptor);
bool tide__rings_take(struct tide_ring_end *end, int descriptor);
void tide__rings_drop(struct tide_ring_end *end);
/* From now on this side writes to its ring, behind so many bytes to the socket; and the other side? */
void tide__ring_begin(struct tide_ring_end *end, uint64_t socket_bytes);
bool tide__ring_begins(const struct tide_ring_end *end, uint64_t *socket_bytes);
/* As many bytes as there is room for, as there are; EPROTO: the peer breaks the ring. *wake: a byte through the socket
 * is to wake the peer. */
ssize_t tide__ring_write(struct tide_ring_end *end, const struct tide_iovec *iov, size_t count, bool *wake);
ssize_t tide__ring_read(struct tide_ring_end *end, void *data, size_t size, bool *wake);
bool tide__ring_has_bytes(const struct tide_ring_end *end);
bool tide__ring_has_room(const struct tide_ring_end *end); /* enough to continue writing */
/* Requests a wake when there is something to read, or room to write. A thread that is about to sleep checks both once
 * more after this call. */
void tide__rings_sleep(struct tide_ring_end *end, bool reads, bool writes);

/* real_stream.c */
void tide__real_streams_look(struct tide_executor *executor); /* what came through rings */
/* Before sleeping until `next`: when to look again; 0: something has come. */
uint64_t tide__real_streams_doze(struct tide_executor *executor, uint64_t next);
void tide__real_streams_deliver_closed(struct tide_executor *executor);
int tide__real_listen(struct tide_executor *executor, const char *endpoint,
                      void (*accepted)(void *arg, struct tide_stream *stream), void *arg, struct tide_listener **out);
const char *tide__real_listener_endpoint(struct tide_listener *listener);
void tide__real_listener_close(struct tide_listener *listener);
int tide__real_connect(struct tide_executor *executor, const char *endpoint, const struct tide_stream_events *events,
                       void *arg, struct tide_stream **out);
void tide__real_stream_accept(struct tide_stream *stream, const struct tide_stream_events *events, void *arg);
ssize_t tide__real_stream_write(struct tide_stream *stream, const struct tide_iovec *iov, size_t count);
void tide__real_stream_resume(struct tide_stream *stream);
void tide__real_stream_close(struct tide_stream *stream);
int tide__real_address_towards(struct tide_port *port, const char *endpoint, char *out, size_t size);
/* What control groups leave this process: bytes, and thousandths of a processor; UINT64_MAX: all
 * (real_limits.c). */
void tide__real_limits(uint64_t *memory, uint64_t *milli_processors);
/* The owner of the end `theirs` of a loopback TCP connection whose other end is `ours` (real_owner.c).
 * listens: that end was dialled, and may not have been accepted yet. False: unknown. */
bool tide__real_owner(const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours, bool listens,
                      uint32_t *uid);
void tide__real_stream_peer(struct tide_stream *stream, struct tide_peer_identity *out);

/* real_executor.c */
int tide__real_executor_start(struct tide_port *port, const struct tide_executor_options *options,
                              struct tide_executor **out);
void tide__real_executor_wake(struct tide_executor *executor);
int tide__real_executor_interrupt(struct tide_executor *executor, void (*handler)(void));
void tide__real_executor_stop(struct tide_executor *executor);

/* real_file.c */
int tide__real_file_open(struct tide_port *port, const char *path, int flags, struct tide_file **out);
ssize_t tide__real_file_read(struct tide_file *file, void *data, size_t size, uint64_t offset);
int tide__real_file_descriptor(const struct tide_file *file);
int tide__real_file_write(struct tide_file *file, const void *data, size_t size, uint64_t offset);
int tide__real_file_sync(struct tide_file *file);
void tide__real_file_close(struct tide_file *file);
int tide__real_file_info(struct tide_port *port, const char *path, struct tide_file_info *out);
int tide__real_file_rename(struct tide_port *port, const char *from, const char *to);
int tide__real_directory_sync(struct tide_port *port, const char *path);
int tide__real_file_unlink(struct tide_port *port, const char *path);
int tide__real_file_mkdir(struct tide_port *port, const char *path, unsigned mode);
int tide__real_file_list(struct tide_port *port, const char *path, void (*entry)(void *arg, const char *name),
                         void *arg);

/* real_process.c */
int tide__real_process_start(struct tide_executor *executor, const struct tide_process_options *options,
                             struct tide_process **out);
int tide__real_process_signal(struct tide_process *process, int signal_number);
int tide__real_process_id(struct tide_process *process);
void tide__real_process_release(struct tide_process *process);
char tide__real_process_state(struct tide_port *port, int pid);
/* A stack for the handler of crashes on this thread; NULL: none. */
void *tide__real_crash_stack_begin(void);
void tide__real_crash_stack_end(void *stack);
/* The executor ends: children live on, unwatched (those that die with us do so when the thread
 * ends). */
void tide__real_processes_detach(struct tide_executor *executor);

#endif
