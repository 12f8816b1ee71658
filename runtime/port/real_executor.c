/*
 * Executors on libuv. One code path for threads of our own and for a host's loop: uv_prepare runs
 * the turn just before the loop polls, an eventfd watched by uv_poll wakes it, a timerfd wakes it
 * at the time the turn asked for, and a uv_idle is active while the turn is to run again at
 * once.
 *
 * Why not uv_async: Debian's libuv spins against a sender inside uv_async_send, which costs 30 us
 * when both threads share a core. Why not uv_timer: it counts milliseconds; a timerfd keeps short
 * sleeps precise without spinning.
 *
 * Sleeping. After a turn the executor exchanges its state to SLEEPING and only then asks `pending`.
 * A waker publishes its work and only then exchanges the state to NOTIFIED. Both are
 * read-modify-writes of one variable, so one comes first: if the waker's, the executor's exchange
 * acquires the published work and `pending` sees it; if the executor's, the waker reads SLEEPING
 * and writes the eventfd. While the executor is awake a wake is one exchange.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setname_np, pthread_setaffinity_np */
#endif
#include "port/real.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { SPIN_NS = 30000, EAGER_NS = 200000 };

void tide__real_check_thread(const struct tide_executor *executor) {
    TIDE_ASSERT(pthread_equal(executor->self, pthread_self()));
}

static void note_activity(struct tide_executor *e) {
    uint64_t now = tide_port_now(e->port);
    e->eager = now - e->active_at < EAGER_NS;
    e->active_at = now;
}

void tide__real_awake(struct tide_executor *executor) {
    note_activity(executor);
    if (atomic_load_explicit(&executor->state, memory_order_relaxed) == TIDE_REAL_SLEEPING) {
        /* acquire: pairs with the waker's release, should it be the one that came between */
        atomic_exchange_explicit(&executor->state, TIDE_REAL_AWAKE, memory_order_acquire);
    }
}

void tide__real_executor_wake(struct tide_executor *executor) {
    /* release: publishes the waker's work to the exchanges of run_turn; acquire: see the head of
     * this file */
    int before = atomic_exchange_explicit(&executor->state, TIDE_REAL_NOTIFIED, memory_order_acq_rel);
    if (before == TIDE_REAL_SLEEPING) {
        uint64_t one = 1;
        ssize_t n;
        do {
            n = write(executor->wake_fd, &one, sizeof one);
        } while (n < 0 && errno == EINTR);
    }
}

static _Atomic(void (*)(void)) interrupt_handler;

static void on_interrupt(int signal) {
    (void)signal;
    void (*handler)(void) = atomic_load_explicit(&interrupt_handler, memory_order_acquire);
    if (handler) {
        const int before = errno;
        handler();
        errno = before;
    }
}

/* SIGURG: nothing here sends it else, and a process without a handler ignores it. */
int tide__real_executor_interrupt(struct tide_executor *executor, void (*handler)(void)) {
    if (!executor->own_thread) {
        return tide_fail(TIDE_EUNSUPPORTED, "a host's thread is not interrupted");
    }
    if (!atomic_exchange_explicit(&interrupt_handler, handler, memory_order_acq_rel)) {
        struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        (void)sigaction(SIGURG, &action, NULL);
    }
    return pthread_kill(executor->thread, SIGURG) == 0 ? 0 : tide_fail(TIDE_ENOENT, "the thread has ended");
}

/* Empties an eventfd or timerfd, which would report itself readable for ever. */
static void drain(int fd) {
    uint64_t count;
    ssize_t n;
    do {
        n = read(fd, &count, sizeof count);
    } while (n < 0 && errno == EINTR);
}

static void on_wake(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tide_executor *e = poll->data;
    drain(e->wake_fd); /* the turn follows in on_prepare */
    note_activity(e);
}

static void on_timer(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tide_executor *e = poll->data;
    drain(e->timer_fd);
    e->armed = TIDE_NEVER;
}

static void on_idle(uv_idle_t *idle) {
    (void)idle;
}

/* Only a deadline earlier than the armed one costs a system call. A later one is left to the
 * armed one: it fires, a turn finds nothing to do, and the timer is set right then. */
static void arm(struct tide_executor *e, uint64_t deadline) {
    if (deadline >= e->armed) {
        return;
    }
    struct itimerspec spec = {
        .it_value = {.tv_sec = (time_t)(deadline / TIDE_SECOND), .tv_nsec = (long)(deadline % TIDE_SECOND)}};
    TIDE_ASSERT(timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0);
    e->armed = deadline;
}

/* True when the executor may sleep. */
static bool run_turn(struct tide_executor *e) {
    /* acquire: pairs with the release in wake; this turn sees the work of every waker before it */
    atomic_exchange_explicit(&e->state, TIDE_REAL_AWAKE, memory_order_acquire);
    uint64_t next = e->options.turn(e->options.arg);
    if (next == 0 || e->closing_first) {
        return false;
    }
    int before = atomic_exchange_explicit(&e->state, TIDE_REAL_SLEEPING, memory_order_acq_rel);
    bool again = before == TIDE_REAL_NOTIFIED || (e->options.pending && e->options.pending(e->options.arg));
    if (again) {
        note_activity(e);
        return false;
    }
    if (e->eager && tide_port_now(e->port) - e->active_at < SPIN_NS) {
        tide_lend_core();
        return false;
    }
    next = tide__real_streams_doze(e, next);
    if (next != TIDE_NEVER && next <= tide_port_now(e->port)) {
        return false; /* a timer is due: no system call is needed to say so */
    }
    if (next != TIDE_NEVER) {
        arm(e, next);
    }
    return true;
}

static void on_prepare(uv_prepare_t *prepare) {
    struct tide_executor *e = prepare->data;
    /* acquire: pairs with the release in stop */
    if (atomic_load_explicit(&e->stopping, memory_order_acquire)) {
        uv_stop(e->loop);
        return;
    }
    tide__real_streams_look(e);
    tide__real_streams_deliver_closed(e);
    bool sleep = run_turn(e);
    if (sleep) {
        uv_idle_stop(&e->idle);
    } else {
        uv_idle_start(&e->idle, on_idle);
    }
}

static void release(struct tide_executor *e) {
    if (e->wake_fd >= 0) {
        close(e->wake_fd);
    }
    if (e->timer_fd >= 0) {
        close(e->timer_fd);
    }
    tide_free(e);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct tide_executor *e = handle->data;
    TIDE_ASSERT(e->handles_open > 0);
    e->handles_open--;
    if (e->handles_open == 0 && !e->own_thread) {
        release(e); /* a host's loop: no thread to join */
    }
}

static void close_handles(struct tide_executor *e) {
    tide__real_streams_deliver_closed(e);
    TIDE_ASSERT(e->streams_open == 0); /* the owner closes them first */
    tide__real_processes_detach(e);
    uv_close((uv_handle_t *)&e->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&e->idle, on_handle_closed);
    uv_close((uv_handle_t *)&e->wake_poll, on_handle_closed);
    uv_close((uv_handle_t *)&e->timer_poll, on_handle_closed);
}

static void *thread_main(void *arg) {
    struct tide_executor *e = arg;
    e->self = pthread_self();
    pthread_setname_np(e->self, e->name);
    tide__watch_thread(e->options.serves);
    void *crash_stack = tide__real_crash_stack_begin();
    if (e->options.core >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)e->options.core, &set);
        if (pthread_setaffinity_np(e->self, sizeof set, &set) != 0) {
            tide_log(TIDE_LOG_WARN, NULL, "%s: cannot run on core %d", e->name, e->options.core);
        }
    }
    uv_run(e->loop, UV_RUN_DEFAULT);
    close_handles(e);
    uv_run(e->loop, UV_RUN_DEFAULT); /* until every handle has reported its end */
    TIDE_ASSERT(e->handles_open == 0);
    TIDE_ASSERT(uv_loop_close(e->loop) == 0);
    tide__real_crash_stack_end(crash_stack);
    return NULL;
}

/* Signals are the main thread's: ours would only see interrupted system calls. Faults stay
 * deliverable. */
static int start_thread(struct tide_executor *e) {
    static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF, SIGURG};
    sigset_t blocked, previous;
    sigfillset(&blocked);
    for (size_t i = 0; i < TIDE_COUNT(kept); i++) {
        sigdelset(&blocked, kept[i]);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &previous);
    int error = pthread_create(&e->thread, NULL, thread_main, e);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return error;
}

static int init_poll(struct tide_executor *e, uv_poll_t *poll, int fd, uv_poll_cb callback) {
    int code = uv_poll_init(e->loop, poll, fd);
    if (code != 0) {
        return tide__real_fail(-code, "watching a descriptor of executor", e->name);
    }
    poll->data = e;
    e->handles_open++;
    return uv_poll_start(poll, UV_READABLE, callback);
}

/* Descriptors and handles, in the order close_all undoes them. On failure some are open; -1 and
 * handles_open tell. */
static int init_handles(struct tide_executor *e) {
    e->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (e->wake_fd < 0) {
        return tide__real_fail(errno, "waking descriptor of executor", e->name);
    }
    e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (e->timer_fd < 0) {
        return tide__real_fail(errno, "timer of executor", e->name);
    }
    int code = init_poll(e, &e->wake_poll, e->wake_fd, on_wake);
    if (code != 0) {
        return code;
    }
    code = init_poll(e, &e->timer_poll, e->timer_fd, on_timer);
    if (code != 0) {
        return code;
    }
    uv_prepare_init(e->loop, &e->prepare);
    uv_idle_init(e->loop, &e->idle);
    e->prepare.data = e->idle.data = e;
    e->handles_open += 2;
    uv_prepare_start(&e->prepare, on_prepare);
    uv_idle_start(&e->idle, on_idle); /* the first turn needs no event */
    return 0;
}

/* Of an executor that never ran: only the polls can be open. */
static void abandon(struct tide_executor *e, bool loop_ready) {
    unsigned polls = e->handles_open;
    bool own = e->own_thread;
    uv_loop_t *loop = e->loop;
    if (polls >= 1) {
        uv_close((uv_handle_t *)&e->wake_poll, on_handle_closed);
    }
    if (polls >= 2) {
        uv_close((uv_handle_t *)&e->timer_poll, on_handle_closed);
    }
    if (own && loop_ready) {
        uv_run(loop, UV_RUN_DEFAULT);
        TIDE_ASSERT(uv_loop_close(loop) == 0);
    }
    if (own || polls == 0) {
        release(e);
    }
}

int tide__real_executor_start(struct tide_port *port, const struct tide_executor_options *options,
                              struct tide_executor **out) {
    TIDE_ASSERT(options->turn);
    struct tide_executor *e = tide_alloc_zero(1, sizeof *e);
    if (!e) {
        return TIDE_ENOMEM;
    }
    e->port = port;
    e->options = *options;
    snprintf(e->name, sizeof e->name, "%s", options->name ? options->name : "tide");
    e->options.name = e->name;
    e->wake_fd = e->timer_fd = -1;
    e->armed = TIDE_NEVER;
    e->closing_last = &e->closing_first;
    e->own_thread = !options->loop;
    e->loop = e->own_thread ? &e->own_loop : options->loop;
    if (!e->own_thread) {
        ((struct tide_real_port *)port)->hosted = e->loop;
    }
    e->self = pthread_self(); /* a host's loop runs on the thread that creates us */
    if (e->own_thread) {
        int code = uv_loop_init(&e->own_loop);
        if (code != 0) {
            abandon(e, false);
            return tide__real_fail(-code, "loop of executor", options->name);
        }
    }
    int code = init_handles(e);
    if (code != 0) {
        abandon(e, true);
        return code;
    }
    if (e->own_thread) {
        int error = start_thread(e);
        if (error != 0) {
            close_handles(e);
            uv_run(e->loop, UV_RUN_DEFAULT);
            TIDE_ASSERT(uv_loop_close(e->loop) == 0);
            code = tide__real_fail(error, "thread of executor", e->name);
            release(e);
            return code;
        }
    }
    *out = e;
    return 0;
}

void tide__real_executor_stop(struct tide_executor *e) {
    if (!e->own_thread) {
        tide__real_check_thread(e);
        close_handles(e); /* freed by the loop when it has released the handles */
        return;
    }
    TIDE_ASSERT(!pthread_equal(e->thread, pthread_self()));
    atomic_store_explicit(&e->stopping, true, memory_order_release); /* pairs with on_prepare */
    uint64_t one = 1;
    ssize_t n = write(e->wake_fd, &one, sizeof one); /* whatever its state: it may be between two */
    TIDE_ASSERT(n == (ssize_t)sizeof one);
    TIDE_ASSERT(pthread_join(e->thread, NULL) == 0);
    release(e);
}
