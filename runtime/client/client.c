/*
 * A client's life, the library's thread, and waiting. The thread beats, redials and judges deadlines; a caller that
 * waits reads.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "client/inside.h"
#include "port/run_directory.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { REDIRECTS_MAX = 3, READ_MS = 50, DIAL_S = 3, SPREAD_MS = 100 };

struct waiter { /* a thread that does not read */
    struct waiter *next;
    pthread_cond_t woken;
    bool (*done)(void *arg);
    void *arg;
};

/* ---- what callers read ---- */

unsigned tide_client_abi(void) {
    return TIDE_CLIENT_ABI;
}

const char *tide_client_error(void) {
    return tide_error_message();
}

const char *tide_client_error_name(int code) {
    return tide_error_name(code);
}

unsigned tide_client_retry_after_ms(void) {
    return tide_error_retry_after_ms();
}

int client_check(const struct tide_client *c) {
    if (*(const volatile uint8_t *)c->here) {
        return 0;
    }
    return tide_fail(TIDE_ECLOSED, "this client was opened by process %d; open one here", (int)c->opener);
}

int tide_client_info(struct tide_client *c, struct tide_client_info *out) {
    int rc = client_check(c);
    if (rc != 0) {
        return rc;
    }
    struct tide_client_info info = {.size = sizeof info};
    pthread_mutex_lock(&c->lock);
    const struct connection *k = client_gateway(c);
    info.up = k != NULL;
    memcpy(info.cluster, c->cluster, sizeof info.cluster);
    snprintf(info.node, sizeof info.node, "%s", k ? k->name : "");
    info.id = c->id;
    info.right = c->granted;
    info.outstanding = c->outstanding;
    info.bytes = c->bytes;
    info.connects = c->connects;
    info.resent = c->resent;
    info.direct = c->direct;
    info.redirected = c->redirected;
    pthread_mutex_unlock(&c->lock);
    const size_t size = out->size < sizeof info ? out->size : sizeof info;
    memcpy(out, &info, size);
    return 0;
}

/* ---- connections ---- */

static const struct tide_member *member_of(const struct tide_client *c, uint16_t id) {
    for (size_t i = 0; i < c->member_count; i++) {
        if (c->members[i].id == id) {
            return &c->members[i];
        }
    }
    return NULL;
}

static bool stores(const struct tide_client *c, const struct connection *k) {
    const struct tide_member *m = member_of(c, k->node);
    return k->up && k->rows != 0 && (!m || (m->store && m->state == TIDE_MEMBER_UP));
}

/* A node with rows, once one is connected; until then nothing is served. */
struct connection *client_gateway(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (stores(c, &c->connections[i])) {
            return &c->connections[i];
        }
    }
    return NULL;
}

static struct connection *free_place(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *k = &c->connections[i];
        if (!k->up && !k->wanted) {
            return k;
        }
    }
    return NULL;
}

struct connection *client_connection_to(struct tide_client *c, uint16_t node, bool want) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *k = &c->connections[i];
        if ((k->up || k->wanted) && k->node == node) {
            return k->up ? k : NULL;
        }
    }
    struct connection *k = want ? free_place(c) : NULL;
    if (k) {
        k->node = node;
        k->wanted = true;
        client_wake(c);
    }
    return NULL;
}

bool client_has_member(const struct tide_client *c, uint16_t node, uint64_t incarnation) {
    const struct tide_member *m = member_of(c, node);
    return m && m->state < TIDE_MEMBER_LEFT && (incarnation == 0 || m->incarnation == incarnation);
}

struct connection *client_home(struct tide_client *c, uint16_t node) {
    const bool may_dial = client_has_member(c, node, 0) && client_now(c) >= c->direct_at;
    struct connection *k = client_connection_to(c, node, may_dial);
    return k && k->rows != 0 && client_has_member(c, node, 0) ? k : NULL;
}

static void lose(struct connection *k, const char *why) {
    struct tide_client *c = k->client;
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%s", why);
    k->up = false;
    client_lost(k, text);
    client_hang_up(k);
    k->wanted = k->wanted && !k->control;
    k->control = false;
    c->redial_delay = REDIAL_MIN;
    c->redial_at = client_now(c) + tide_random_below(&c->random, SPREAD_MS) * MS;
    client_wake(c);
}

/* Reads, acknowledges and writes. */
static void work_on(struct connection *k, uint64_t now, bool beats) {
    int rc = connection_receive(k);
    if (rc == 0 && beats && k->up) {
        connection_tick(k, now);
    }
    rc = rc != 0 ? rc : connection_flush(k);
    if (rc != 0) {
        lose(k, tide_error_message());
    } else if (now > k->heard + SILENCE_NS) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "node %s has been silent for 10 s", k->name);
        lose(k, text);
    }
}

/* A node that the others have declared dead answers no more, though its connection stays open while it stalls. */
static void lose_dead(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        struct connection *k = &c->connections[i];
        const struct tide_member *m = k->up && !k->control ? member_of(c, k->node) : NULL;
        if (m && m->state == TIDE_MEMBER_DEAD) {
            char text[TEXT_BYTES];
            snprintf(text, sizeof text, "node %s is dead", k->name);
            lose(k, text);
        }
    }
}

static void work_on_all(struct tide_client *c, bool beats) {
    const uint64_t now = client_now(c), view = c->view;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (c->connections[i].up) {
            work_on(&c->connections[i], now, beats);
        }
    }
    if (c->view != view) {
        lose_dead(c);
    }
    if (c->waiting || c->maps_wanted || c->spent) {
        client_dispatch(c);
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            if (c->connections[i].up && connection_flush(&c->connections[i]) != 0) {
                lose(&c->connections[i], tide_error_message());
            }
        }
    }
}

/* ---- waiting ---- */

void client_wake(struct tide_client *c) {
    const uint64_t one = 1;
    ssize_t n = write(c->wake, &one, sizeof one);
    (void)n; /* full: it is awake */
}

static void wake_waiters(struct tide_client *c) {
    bool reader = c->reading;
    for (struct waiter *w = c->waiting_threads; w; w = w->next) {
        if (!reader || w->done(w->arg)) {
            reader = true;
            pthread_cond_signal(&w->woken);
        }
    }
}

void client_finished(struct tide_client_op *op) {
    struct tide_client *c = op->client;
    if (!op->blocking) {
        op->next_done = NULL;
        *c->done_tail = op;
        c->done_tail = &op->next_done;
        const uint64_t one = 1;
        ssize_t n = c->done_fd >= 0 ? write(c->done_fd, &one, sizeof one) : 0;
        (void)n;
    }
    wake_waiters(c);
}

static bool has_connection(const struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (c->connections[i].up) {
            return true;
        }
    }
    return false;
}

/* Sleeps until something arrives, for all threads. ECANCELED: a signal's handler ran. */
static int read_for_all(struct tide_client *c, uint64_t until) {
    struct pollfd polls[CONNECTIONS_MAX];
    nfds_t count = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        const struct connection *k = &c->connections[i];
        if (k->up) {
            polls[count++] =
                (struct pollfd){.fd = k->fd, .events = (short)(POLLIN | (connection_has_output(k) ? POLLOUT : 0))};
        }
    }
    const uint64_t now = client_now(c);
    until = c->retry_at < until ? c->retry_at : until;
    uint64_t left = until > now ? until - now : 0;
    left = left < READ_MS * MS ? left : READ_MS * MS;
    c->reading = true;
    pthread_mutex_unlock(&c->lock);
    const struct timespec wait = {.tv_nsec = (long)left};
    const int n = ppoll(polls, count, &wait, NULL);
    const bool interrupted = n < 0 && errno == EINTR;
    pthread_mutex_lock(&c->lock);
    c->reading = false;
    if (n > 0 || c->retry_at != TIDE_NEVER) {
        work_on_all(c, false);
    }
    return interrupted ? tide_fail(TIDE_ECANCELED, "interrupted by a signal") : 0;
}

/* Sleeps until another thread, which reads, has something for this one. */
static void wait_for_reader(struct tide_client *c, uint64_t until, bool (*done)(void *arg), void *arg) {
    struct waiter w = {.next = c->waiting_threads, .done = done, .arg = arg};
    pthread_condattr_t monotonic;
    struct timespec at;
    const uint64_t now = client_now(c);
    const uint64_t left = until > now ? until - now : 0, slice = left < READ_MS * MS ? left : READ_MS * MS;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w.woken, &monotonic);
    pthread_condattr_destroy(&monotonic);
    clock_gettime(CLOCK_MONOTONIC, &at);
    const uint64_t end = (uint64_t)at.tv_sec * TIDE_SECOND + (uint64_t)at.tv_nsec + slice;
    at = (struct timespec){.tv_sec = (time_t)(end / TIDE_SECOND), .tv_nsec = (long)(end % TIDE_SECOND)};
    c->waiting_threads = &w;
    (void)pthread_cond_timedwait(&w.woken, &c->lock, &at);
    struct waiter **place = &c->waiting_threads;
    while (*place != &w) {
        place = &(*place)->next;
    }
    *place = w.next;
    pthread_cond_destroy(&w.woken);
}

int client_wait_until(struct tide_client *c, uint64_t deadline, bool (*done)(void *arg), void *arg) {
    const unsigned interrupts = atomic_load_explicit(&c->interrupts, memory_order_relaxed);
    int rc = 0;
    while (rc == 0 && !done(arg)) {
        if (client_now(c) >= deadline) {
            rc = tide_fail(TIDE_ETIMEDOUT, "no answer before the deadline");
        } else if (atomic_load_explicit(&c->interrupts, memory_order_relaxed) != interrupts) {
            rc = tide_fail(TIDE_ECANCELED, "interrupted");
        } else if (!c->reading && has_connection(c)) {
            rc = read_for_all(c, deadline);
        } else {
            wait_for_reader(c, deadline, done, arg);
        }
    }
    wake_waiters(c); /* another one reads from now on */
    return done(arg) ? 0 : rc;
}

void tide_client_interrupt(struct tide_client *c) {
    atomic_fetch_add_explicit(&c->interrupts, 1, memory_order_relaxed);
}

/* ---- event loops ---- */

static int watch(const struct tide_client *c, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return c->epoll < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0
               ? 0
               : tide_fail(TIDE_EIO, "epoll_ctl: %s", strerror(errno));
}

int tide_client_fd(struct tide_client *c) {
    int rc = client_check(c);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&c->lock);
    if (c->epoll < 0) {
        c->epoll = epoll_create1(EPOLL_CLOEXEC);
        c->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        rc = c->epoll < 0 || c->done_fd < 0 ? tide_fail(TIDE_EMFILE, "no descriptor: %s", strerror(errno))
                                            : watch(c, c->done_fd);
        for (size_t i = 0; i < CONNECTIONS_MAX && rc == 0; i++) {
            rc = c->connections[i].up ? watch(c, c->connections[i].fd) : 0;
        }
    }
    rc = rc != 0 ? rc : c->epoll;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

size_t tide_client_done(struct tide_client *c, struct tide_client_op **ops, size_t most) {
    size_t count = 0;
    if (client_check(c) != 0) {
        return 0;
    }
    pthread_mutex_lock(&c->lock);
    work_on_all(c, false);
    client_expire(c, client_now(c));
    while (count < most && c->done_first) {
        ops[count++] = c->done_first;
        c->done_first = c->done_first->next_done;
    }
    if (!c->done_first) {
        uint64_t seen;
        ssize_t n = c->done_fd >= 0 ? read(c->done_fd, &seen, sizeof seen) : 0;
        (void)n;
        c->done_tail = &c->done_first;
    }
    pthread_mutex_unlock(&c->lock);
    return count;
}

/* ---- the library's thread ---- */

static void attach(struct tide_client *c, struct connection *made, struct connection *place) {
    const bool wanted = place->wanted;
    *place = *made;
    place->client = c;
    place->queue_tail = &place->queue;
    place->wanted = wanted;
    place->up = true;
    place->beat_at = 0;
    c->connects++;
    c->redial_delay = REDIAL_MIN;
    (void)watch(c, place->fd);
    work_on_all(c, true);
    wake_waiters(c);
}

/* Joins by one of the endpoints, and wherever it leads. */
static int join_by(struct tide_client *c, const char *endpoint, struct connection *made, uint64_t deadline) {
    char at[160];
    int rc = 1;
    snprintf(at, sizeof at, "%s", endpoint);
    for (int i = 0; rc == 1 && i < REDIRECTS_MAX; i++) {
        *made = (struct connection){.client = c, .fd = -1, .control = true};
        rc = client_dial(made, at, true, deadline);
        memcpy(at, made->endpoint, sizeof at);
    }
    return rc == 1 ? tide_fail(TIDE_EUNREACHABLE, "no node at %s is the controller", endpoint) : rc;
}

static size_t endpoint_at(const char *list, size_t from, char out[160]) {
    size_t size = strcspn(list + from, ",");
    snprintf(out, 160, "%.*s", (int)(size < 159 ? size : 159), list + from);
    return from + size + (list[from + size] == ',');
}

static int join(struct tide_client *c, struct connection *made, uint64_t deadline) {
    struct tide_member members[MEMBERS_MAX];
    char endpoint[160];
    int rc = tide_fail(TIDE_EUNREACHABLE, "no endpoint");
    pthread_mutex_lock(&c->lock);
    const size_t count = c->member_count;
    memcpy(members, c->members, count * sizeof *members);
    c->incarnation = c->port->ops->entropy(c->port) | 1;
    pthread_mutex_unlock(&c->lock);
    for (size_t at = 0; c->endpoints[at] != 0;) {
        at = endpoint_at(c->endpoints, at, endpoint);
        rc = join_by(c, endpoint, made, deadline);
        if (rc == 0 || rc == TIDE_EPERM || rc == TIDE_EVERSION || rc == TIDE_EMISMATCH || rc == TIDE_EINVAL) {
            return rc;
        }
    }
    for (size_t i = 0; i < count && client_now(c) < deadline; i++) {
        if (members[i].state == TIDE_MEMBER_UP && join_by(c, members[i].endpoint, made, deadline) == 0) {
            return 0;
        }
    }
    return rc;
}

static bool is_joined(const struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (c->connections[i].up && c->connections[i].control) {
            return true;
        }
    }
    return false;
}

/* Another member that has rows becomes wanted, any one, if none serves. */
static void choose_gateway(struct tide_client *c) {
    uint16_t ids[MEMBERS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        const struct connection *k = &c->connections[i];
        const struct tide_member *m = k->wanted ? member_of(c, k->node) : NULL;
        if (stores(c, k) || (m && m->store && m->state == TIDE_MEMBER_UP)) {
            return;
        }
    }
    for (size_t i = 0; i < c->member_count; i++) {
        if (c->members[i].store && c->members[i].state == TIDE_MEMBER_UP) {
            ids[count++] = c->members[i].id;
        }
    }
    if (count > 0) {
        (void)client_connection_to(c, ids[tide_random_below(&c->random, count)], true);
    }
}

/* What is to be dialled next; NULL: nothing. */
static struct connection *next_wanted(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (c->connections[i].wanted && !c->connections[i].up) {
            return &c->connections[i];
        }
    }
    return NULL;
}

/* A member by its id; the lock is released meanwhile. */
static int dial_member(struct tide_client *c, struct connection *place) {
    const struct tide_member *m = member_of(c, place->node);
    if (!m || m->state >= TIDE_MEMBER_LEFT) {
        place->wanted = false;
        return tide_fail(TIDE_EUNREACHABLE, "node %u is no member any more", (unsigned)place->node);
    }
    struct connection made = {
        .client = c, .fd = -1, .node = m->id, .incarnation = m->incarnation, .attempt = ++c->attempts};
    char endpoint[160];
    memcpy(made.name, m->name, sizeof made.name);
    memcpy(endpoint, m->endpoint, sizeof endpoint);
    pthread_mutex_unlock(&c->lock);
    const int rc = client_dial(&made, endpoint, false, client_now(c) + DIAL_S * TIDE_SECOND);
    pthread_mutex_lock(&c->lock);
    if (rc == 0) {
        attach(c, &made, place);
    } else {
        place->wanted = false; /* another one may serve; callers with pending calls request it again */
        c->direct_at = client_now(c) + TIDE_SECOND;
    }
    return rc;
}

static int dial_controller(struct tide_client *c, uint64_t timeout) {
    struct connection made;
    pthread_mutex_unlock(&c->lock);
    int rc = join(c, &made, client_now(c) + timeout);
    pthread_mutex_lock(&c->lock);
    struct connection *place = rc == 0 ? free_place(c) : NULL;
    if (place) {
        attach(c, &made, place);
    } else if (rc == 0) {
        client_hang_up(&made);
        rc = tide_fail(TIDE_ELIMIT, "all %d connections are in use", CONNECTIONS_MAX);
    }
    return rc;
}

static void redial(struct tide_client *c) {
    const uint64_t now = client_now(c);
    if (now < c->redial_at) {
        return;
    }
    choose_gateway(c);
    struct connection *wanted = next_wanted(c);
    int rc = wanted ? dial_member(c, wanted) : 0;
    if (!c->closing && !is_joined(c)) {
        rc = dial_controller(c, DIAL_S * TIDE_SECOND);
    }
    if (rc != 0) {
        c->redial_at = client_now(c) + c->redial_delay / 2 + tide_random_below(&c->random, c->redial_delay / 2);
        c->redial_delay = c->redial_delay * 2 < REDIAL_MAX ? c->redial_delay * 2 : REDIAL_MAX;
    } else if (next_wanted(c) || !client_gateway(c)) {
        c->redial_at = now + READ_MS * MS;
    }
}

static void *library_main(void *arg) {
    struct tide_client *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        work_on_all(c, true);
        client_expire(c, client_now(c));
        redial(c);
        const int wait_ms = next_wanted(c) || !client_gateway(c) ? READ_MS / 5 : (int)(BEAT_NS / MS) / 2;
        if (!c->closing) {
            struct pollfd p = {.fd = c->wake, .events = POLLIN};
            uint64_t seen;
            pthread_mutex_unlock(&c->lock);
            if (poll(&p, 1, wait_ms) > 0 && read(c->wake, &seen, sizeof seen) < 0) {
                /* another thread has read it */
            }
            pthread_mutex_lock(&c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are the program's: the library's thread takes none. */
static int start_thread(struct tide_client *c) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&c->thread, NULL, library_main, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c->thread_runs = error == 0;
    return error == 0 ? 0 : tide_fail(TIDE_ENOMEM, "no thread: %s", strerror(error));
}

/* ---- opening and closing ---- */

static int check_options(const struct tide_client_options *o) {
    if (o->cluster && !tide_identifier_valid(o->cluster)) {
        return tide_fail(TIDE_EINVAL, "'%.63s' is no name of a cluster: lower-case letters, digits and . _ -",
                         o->cluster);
    }
    if (o->right > TIDE_RIGHT_ADMIN) {
        return tide_fail(TIDE_EINVAL, "a client's right is read, operate or admin");
    }
    if (o->outstanding > TIDE_CLIENT_OUTSTANDING_MAX) {
        return tide_fail(TIDE_EINVAL, "%u outstanding operations; at most %d", o->outstanding,
                         TIDE_CLIENT_OUTSTANDING_MAX);
    }
    if ((o->endpoints && strlen(o->endpoints) >= ENDPOINTS_BYTES) || (o->keys && strlen(o->keys) >= 300)) {
        return tide_fail(TIDE_ELIMIT, "endpoints or keys are too long");
    }
    return 0;
}

/* The endpoints that a cluster of this machine has published, separated by commas. */
static int find_cluster(struct tide_client *c) {
    char path[300], *text = NULL;
    size_t size = 0;
    int rc = tide_run_directory(c->port, path, sizeof path - 80);
    const char *name = c->cluster[0] ? c->cluster : "local";
    if (rc == 0) {
        snprintf(path + strlen(path), 80, "/%s", name);
        rc = tide_private_directory(c->port, path, false);
    }
    if (rc == 0) {
        strcat(path, "/endpoint");
        rc = tide_port_slurp(c->port, path, ENDPOINTS_BYTES - 1, &text, &size);
    }
    if (rc != 0) {
        return tide_fail(TIDE_ENOENT, "no cluster '%s' runs here; start one with: tide up %s", name, name);
    }
    for (size_t i = 0; i < size; i++) {
        c->endpoints[i] = text[i] == '\n' ? ',' : text[i];
    }
    tide_free(text);
    return 0;
}

static void close_descriptors(const struct tide_client *c) {
    const int fds[] = {c->wake, c->epoll, c->done_fd};
    for (size_t i = 0; i < TIDE_COUNT(fds); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static void destroy(struct tide_client *c) {
    while (c->tables) {
        struct tide_client_table *next = c->tables->next;
        client_map_release(c->tables->map);
        tide_free(c->tables);
        c->tables = next;
    }
    client_free_all(c);
    close_descriptors(c);
    pthread_mutex_destroy(&c->lock);
    if (c->here) {
        munmap((void *)(uintptr_t)c->here, (size_t)sysconf(_SC_PAGESIZE));
    }
    if (c->port) {
        c->port->ops->destroy(c->port);
    }
    tide_free(c);
}

/* A page that is zero in children. */
static int mark_process(struct tide_client *c) {
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, size, MADV_WIPEONFORK) != 0) {
        return tide_fail(TIDE_ENOMEM, "no page that a fork clears: %s", strerror(errno));
    }
    *page = 1;
    c->here = page;
    c->opener = getpid();
    return 0;
}

static int prepare(struct tide_client *c, const struct tide_client_options *o) {
    snprintf(c->cluster, sizeof c->cluster, "%s", o->cluster ? o->cluster : "");
    snprintf(c->endpoints, sizeof c->endpoints, "%s", o->endpoints ? o->endpoints : "");
    snprintf(c->keys, sizeof c->keys, "%s", o->keys ? o->keys : "");
    c->right = o->right ? o->right : TIDE_RIGHT_READ;
    c->outstanding_max = o->outstanding ? o->outstanding : 64;
    c->connect_timeout = o->connect_timeout ? o->connect_timeout : 5 * TIDE_SECOND;
    c->timeout = o->timeout ? o->timeout : 30 * TIDE_SECOND;
    c->memory = o->memory ? o->memory : 64 << 20;
    int rc = tide_port_real_create(0, &c->port);
    rc = rc != 0 ? rc : mark_process(c);
    if (rc == 0 && c->keys[0] && c->cluster[0] == 0) {
        rc = tide_keys_cluster(c->port, c->keys, c->cluster);
    }
    rc = rc == 0 && c->endpoints[0] == 0 ? find_cluster(c) : rc;
    c->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (rc == 0 && c->wake < 0) {
        rc = tide_fail(TIDE_EMFILE, "no descriptor: %s", strerror(errno));
    }
    if (rc == 0) {
        tide_random_seed(&c->random, c->port->ops->entropy(c->port));
        c->uid = c->port->ops->entropy(c->port) | 1;
    }
    return rc;
}

static bool is_served(void *arg) {
    return client_gateway(arg) != NULL;
}

int tide_client_open(const struct tide_client_options *given, struct tide_client **out) {
    static const struct tide_client_options plain = {0};
    struct tide_client_options own, *options = &own;
    int rc = tide__layout_read("client", given ? given : &plain, TIDE_LAYOUT(struct tide_client_options, memory), &own,
                               sizeof own);
    rc = rc < 0 ? rc : check_options(options);
    *out = NULL;
    if (rc != 0) {
        return rc;
    }
    struct tide_client *c = tide_alloc_zero(1, sizeof *c);
    if (!c) {
        return tide_fail(TIDE_ENOMEM, "no memory for a client");
    }
    c->wake = c->epoll = c->done_fd = -1;
    c->waiting_tail = &c->waiting;
    c->done_tail = &c->done_first;
    c->retry_at = TIDE_NEVER;
    c->redial_delay = REDIAL_MIN;
    c->next_sequence = c->low = 1;
    c->next_call = 1; /* of the handshake */
    pthread_mutex_init(&c->lock, NULL);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        c->connections[i].client = c;
        c->connections[i].fd = -1;
        c->connections[i].queue_tail = &c->connections[i].queue;
    }
    rc = prepare(c, options);
    if (rc != 0) {
        destroy(c);
        return rc;
    }
    const uint64_t deadline = client_now(c) + c->connect_timeout;
    pthread_mutex_lock(&c->lock);
    rc = dial_controller(c, c->connect_timeout);
    rc = rc != 0 ? rc : start_thread(c);
    if (rc == 0) {
        rc = client_wait_until(c, deadline, is_served, c);
        rc = rc != TIDE_ETIMEDOUT ? rc : tide_fail(rc, "no node of cluster '%s' that has rows answers", c->cluster);
    }
    pthread_mutex_unlock(&c->lock);
    if (rc != 0) {
        tide_client_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

/* In a child: the lock may be another thread's, and the sockets are the parent's too. */
static void abandon(struct tide_client *c) {
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        if (c->connections[i].fd >= 0) {
            close(c->connections[i].fd);
        }
    }
    close_descriptors(c);
}

void tide_client_shut(struct tide_client *c) {
    if (client_check(c) != 0) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    const bool joins = c->thread_runs;
    c->thread_runs = false;
    c->closing = true;
    c->closed = TIDE_ECLOSED;
    snprintf(c->closed_text, sizeof c->closed_text, "the client is closed");
    client_end_all(c, TIDE_ECLOSED, c->closed_text);
    client_wake(c);
    pthread_mutex_unlock(&c->lock);
    if (joins) {
        pthread_join(c->thread, NULL);
    }
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        client_hang_up(&c->connections[i]);
    }
    pthread_mutex_unlock(&c->lock);
}

void tide_client_close(struct tide_client *c) {
    if (!c) {
        return;
    }
    struct tide_error_slot slot = {0}; /* a caller that closes after an error reads that error */
    struct tide_error_slot *previous = tide__error_slot_swap(&slot);
    if (client_check(c) != 0) {
        abandon(c);
    } else {
        tide_client_shut(c);
        destroy(c);
    }
    tide__error_slot_swap(previous);
}
