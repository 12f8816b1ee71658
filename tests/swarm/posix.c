/* posix.h: descriptors and threads of simulated hosts. One thread of the operating system. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include "posix.h"

#include "actor/actor.h"
#include "actor/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

enum { FDS = 512, FIRST_FD = 5000, THREADS = 64, CHUNK = 16 << 10, INPUT_MAX = 1 << 20, STACK = 1 << 20 };
static const uint64_t step_min = 100000, step_max = 5000000; /* ns */

struct descriptor {
    bool used, counter; /* counter: an eventfd */
    bool connected, closed, orphan, stopped, full; /* stopped, full: bytes in, bytes out */
    struct posix_host *host;
    struct tide_stream *stream; /* NULL: none, or it has ended */
    uint64_t value;
    uint8_t *in;
    size_t in_size;
    uint8_t chunk[CHUNK];
};

struct thread {
    struct posix_host *host;
    void *(*run)(void *);
    void *arg;
    bool used, ended;
};

struct posix_host {
    struct tide_node node; /* its port and its actors, and nothing else */
    struct posix_host *next;
    uint64_t signals; /* of conditions */
};

/* As the client has it: its own to destroy. */
struct client_port {
    struct tide_port base;
    struct tide_port *host;
};

static struct posix_host *hosts;
static struct descriptor descriptors[FDS];
static struct thread threads[THREADS];

/* ---- hosts ---- */

static struct posix_host *current(void) {
    struct posix_host *host = hosts;
    while (host && (!tide__scheduler || tide__scheduler->system != host->node.system)) {
        host = host->next;
    }
    TIDE_ASSERT(host != NULL); /* the fiber is one of a host */
    return host;
}

struct posix_host *posix_host_create(struct tide_sim *sim, const char *name) {
    struct posix_host *host = tide_alloc_zero(1, sizeof *host);
    TIDE_ASSERT(host != NULL && tide_sim_port(sim, name, &host->node.port) == 0);
    const struct tide_system_options o = {.port = host->node.port, .node_name = name, .io = 1, .compute = 1, .control = 1};
    TIDE_ASSERT(tide_system_create(&o, &host->node, &host->node.system) == 0);
    host->next = hosts;
    hosts = host;
    return host;
}

int posix_host_spawn(struct posix_host *host, int (*run)(void *state), void *state) {
    const struct tide_actor_options o = {
        .type = "program", .run = run, .state = state, .role = TIDE_ROLE_COMPUTE, .stack_bytes = STACK};
    return tide_spawn(&host->node, &o, NULL);
}

uint64_t posix_host_now(const struct posix_host *host) {
    return tide_port_now(host->node.port);
}

static void descriptor_free(struct descriptor *d) {
    tide_free(d->in);
    *d = (struct descriptor){0};
}

void posix_host_destroy(struct posix_host *host) {
    struct posix_host **at = &hosts;
    while (*at != host) {
        at = &(*at)->next;
    }
    *at = host->next;
    (void)tide_system_stop(host->node.system, 0);
    tide_system_destroy(host->node.system);
    host->node.port->ops->destroy(host->node.port);
    for (size_t i = 0; i < FDS; i++) {
        if (descriptors[i].host == host) {
            descriptor_free(&descriptors[i]);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        threads[i].used = threads[i].used && threads[i].host != host;
    }
    tide_free(host);
}

/* ---- waiting ---- */

struct pause {
    uint64_t until, step;
};

/* False: it is `until`, or the host ends. */
static bool pause_for(struct pause *p) {
    const uint64_t now = posix_host_now(current());
    if (now >= p->until) {
        return false;
    }
    const uint64_t left = p->until - now;
    p->step = p->step == 0 ? step_min : p->step * 2 < step_max ? p->step * 2 : step_max;
    return tide_sleep(p->step < left ? p->step : left) == 0;
}

/* ---- streams ---- */

static void stream_connected(void *arg, struct tide_stream *stream) {
    (void)stream;
    ((struct descriptor *)arg)->connected = true;
}

static void stream_buffer(void *arg, void **data, size_t *size) {
    struct descriptor *d = arg;
    d->stopped = d->in_size >= INPUT_MAX;
    *data = d->chunk;
    *size = d->stopped ? 0 : CHUNK;
}

static void stream_received(void *arg, size_t size) {
    struct descriptor *d = arg;
    d->in = tide_realloc(d->in, d->in_size + size);
    TIDE_ASSERT(d->in != NULL);
    memcpy(d->in + d->in_size, d->chunk, size);
    d->in_size += size;
}

static void stream_writable(void *arg) {
    ((struct descriptor *)arg)->full = false;
}

static void stream_closed(void *arg, int reason) {
    struct descriptor *d = arg;
    (void)reason;
    d->stream = NULL;
    d->closed = true;
    if (d->orphan) {
        descriptor_free(d);
    }
}

static struct descriptor *descriptor_at(int fd) {
    TIDE_ASSERT(fd >= FIRST_FD && fd < FIRST_FD + FDS && descriptors[fd - FIRST_FD].used);
    return &descriptors[fd - FIRST_FD];
}

static int descriptor_create(bool counter) {
    for (int i = 0; i < FDS; i++) {
        if (!descriptors[i].used) {
            descriptors[i] = (struct descriptor){.used = true, .counter = counter, .host = current()};
            return FIRST_FD + i;
        }
    }
    errno = EMFILE;
    return -1;
}

int posix_socket(int domain, int type, int protocol) {
    (void)domain, (void)type, (void)protocol;
    return descriptor_create(false);
}

int posix_eventfd(unsigned value, int flags) {
    (void)value, (void)flags;
    return descriptor_create(true);
}

int posix_connect(int fd, const struct sockaddr *address, socklen_t size) {
    static const struct tide_stream_events events = {.connected = stream_connected,
                                                     .buffer = stream_buffer,
                                                     .received = stream_received,
                                                     .writable = stream_writable,
                                                     .closed = stream_closed};
    struct descriptor *d = descriptor_at(fd);
    struct posix_host *host = current();
    (void)size;
    const int rc = host->node.port->ops->connect(tide__scheduler->executor, ((const struct sockaddr_un *)(const void *)address)->sun_path,
                                                 &events, d, &d->stream);
    errno = rc != 0 ? ECONNREFUSED : EINPROGRESS;
    return -1;
}

ssize_t posix_send(int fd, const void *data, size_t size, int flags) {
    struct descriptor *d = descriptor_at(fd);
    const struct tide_iovec iov = {data, size};
    (void)flags;
    const ssize_t n = d->stream ? d->host->node.port->ops->stream_write(d->stream, &iov, 1) : -1;
    d->full = n >= 0 && (size_t)n < size;
    errno = n == 0 ? EAGAIN : EPIPE;
    return n > 0 ? n : -1;
}

ssize_t posix_recv(int fd, void *data, size_t size, int flags) {
    struct descriptor *d = descriptor_at(fd);
    (void)flags;
    if (d->in_size == 0) {
        errno = EAGAIN;
        return d->closed ? 0 : -1;
    }
    size = size < d->in_size ? size : d->in_size;
    memcpy(data, d->in, size);
    d->in_size -= size;
    memmove(d->in, d->in + size, d->in_size);
    if (d->stopped && d->stream) {
        d->stopped = false;
        d->host->node.port->ops->stream_resume(d->stream);
    }
    return (ssize_t)size;
}

int posix_close(int fd) {
    struct descriptor *d = descriptor_at(fd);
    if (d->stream) {
        d->orphan = true;
        d->host->node.port->ops->stream_close(d->stream);
    } else {
        descriptor_free(d);
    }
    return 0;
}

ssize_t posix_write(int fd, const void *data, size_t size) {
    (void)data;
    descriptor_at(fd)->value++;
    return (ssize_t)size;
}

ssize_t posix_read(int fd, void *data, size_t size) {
    (void)data;
    descriptor_at(fd)->value = 0;
    return (ssize_t)size;
}

static int ready(struct pollfd *polls, nfds_t count) {
    int found = 0;
    for (nfds_t i = 0; i < count; i++) {
        const struct descriptor *d = &descriptors[polls[i].fd - FIRST_FD];
        const bool in = d->counter ? d->value > 0 : d->in_size > 0 || d->closed;
        const bool out = !d->counter && ((d->connected && !d->full) || d->closed);
        polls[i].revents = (short)(((in ? POLLIN : 0) | (out ? POLLOUT : 0)) & polls[i].events);
        polls[i].revents = d->used ? polls[i].revents : POLLNVAL; /* another thread has closed it */
        found += polls[i].revents != 0;
    }
    return found;
}

static int wait_for(struct pollfd *polls, nfds_t count, uint64_t ns) {
    struct pause p = {.until = posix_host_now(current()) + ns};
    int found;
    while ((found = ready(polls, count)) == 0 && pause_for(&p)) {
    }
    return found;
}

int posix_poll(struct pollfd *polls, nfds_t count, int timeout_ms) {
    return wait_for(polls, count, (uint64_t)timeout_ms * 1000000);
}

int posix_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout, const sigset_t *signals) {
    (void)signals;
    return wait_for(polls, count, (uint64_t)timeout->tv_sec * TIDE_SECOND + (uint64_t)timeout->tv_nsec);
}

/* ---- what sockets say about themselves ---- */

int posix_getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    (void)level, (void)size;
    if (name == SO_PEERCRED) {
        *(struct ucred *)value = (struct ucred){.uid = geteuid()};
    } else {
        *(int *)value = descriptor_at(fd)->connected ? 0 : ECONNREFUSED;
    }
    return 0;
}

int posix_setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    (void)fd, (void)level, (void)name, (void)value, (void)size;
    return 0;
}

int posix_getpeername(int fd, struct sockaddr *address, socklen_t *size) {
    (void)fd, (void)size;
    address->sa_family = AF_UNIX;
    return 0;
}

int posix_address_parse(const char *endpoint, struct tide_real_address *out) {
    struct sockaddr_un *address = (struct sockaddr_un *)(void *)&out->storage;
    *out = (struct tide_real_address){.size = sizeof *address, .directory = -1};
    address->sun_family = AF_UNIX;
    return snprintf(address->sun_path, sizeof address->sun_path, "%s", endpoint) < (int)sizeof address->sun_path
               ? 0
               : tide_fail(TIDE_EINVAL, "'%s' is too long", endpoint);
}

/* ---- clocks and threads ---- */

int posix_clock_gettime(clockid_t clock, struct timespec *out) {
    const uint64_t now = posix_host_now(current());
    (void)clock;
    *out = (struct timespec){.tv_sec = (time_t)(now / TIDE_SECOND), .tv_nsec = (long)(now % TIDE_SECOND)};
    return 0;
}

pid_t posix_getpid(void) {
    return 4711;
}

static int thread_main(void *state) {
    struct thread *t = state;
    (void)t->run(t->arg);
    t->ended = true;
    return 0;
}

int posix_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    (void)attributes;
    for (size_t i = 0; i < THREADS; i++) {
        if (!threads[i].used) {
            threads[i] = (struct thread){.host = current(), .run = run, .arg = arg, .used = true};
            *thread = (pthread_t)i;
            return posix_host_spawn(threads[i].host, thread_main, &threads[i]) == 0 ? 0 : EAGAIN;
        }
    }
    return EAGAIN;
}

int posix_thread_join(pthread_t thread, void **result) {
    struct thread *t = &threads[thread];
    struct pause p = {.until = TIDE_NEVER};
    (void)result;
    while (!t->ended && pause_for(&p)) {
    }
    t->used = false;
    return 0;
}

int posix_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *until) {
    struct posix_host *host = current();
    const uint64_t before = host->signals;
    struct pause p = {.until = (uint64_t)until->tv_sec * TIDE_SECOND + (uint64_t)until->tv_nsec};
    (void)condition;
    pthread_mutex_unlock(lock);
    while (host->signals == before && pause_for(&p)) {
    }
    pthread_mutex_lock(lock);
    return 0;
}

int posix_cond_signal(pthread_cond_t *condition) {
    (void)condition;
    current()->signals++;
    return 0;
}

/* ---- the port of a client ---- */

static struct tide_port *host_port(struct tide_port *port) {
    return ((struct client_port *)(void *)port)->host;
}

static uint64_t port_now(struct tide_port *port) {
    return tide_port_now(host_port(port));
}

static uint64_t port_entropy(struct tide_port *port) {
    struct tide_port *host = host_port(port);
    return host->ops->entropy(host);
}

static void port_destroy(struct tide_port *port) {
    tide_free(port);
}

int posix_port_create(uint64_t seed, struct tide_port **out) {
    static const struct tide_port_ops ops = {.now = port_now, .entropy = port_entropy, .destroy = port_destroy};
    struct client_port *port = tide_alloc_zero(1, sizeof *port);
    (void)seed;
    if (!port) {
        return tide_fail(TIDE_ENOMEM, "no memory for a port");
    }
    port->base = (struct tide_port){.ops = &ops, .simulated = true};
    port->host = current()->node.port;
    *out = &port->base;
    return 0;
}
