/*
 * The signals that end this process, its alarms, and the last words of its crashes. SIGINT, SIGTERM and SIGHUP are
 * counted by a handler, so they are heard whatever the threads do: executors block them, and the main thread or one of
 * a library runs the handler. The code that polls the count ends in order. What does not come in time is ended by an
 * alarm, on SIGALRM: the text is written and the process exits. Children that die with their parent die then.
 *
 * A crash is reported by a handler on a stack of the thread's own, for the fiber's may be what has overflowed. Then the
 * signal takes its former course: a core dump, a sanitizer's report.
 */
#include "port/real.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A second signal that a process sends so soon is the same one: `timeout` signals its child, then the group. */
static const uint64_t same_ns = TIDE_SECOND / 5;
static const uint64_t killed_ns = 3 * TIDE_SECOND / 2; /* for ending in order after the last signal */

static const int counted[] = {SIGINT, SIGTERM, SIGHUP};

enum alarm { LATE, UNHEEDED, KILLED, ALARM_COUNT };

static struct {
    atomic_uint_fast64_t at; /* monotonic ns; 0: none */
    const char *text;        /* and the code: set before `at` (release) */
    int code;
} alarms[ALARM_COUNT];

static struct {
    atomic_uint count;
    atomic_int last;           /* the newest signal counted */
    atomic_uint_fast64_t came; /* monotonic ns */
    atomic_uint limit;         /* release: pairs with the handler's acquire; its text and patience are seen */
    uint64_t patience_ns;
} signals;

/* Until handle_alarms: what may run in a handler. */
static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * TIDE_SECOND + (uint64_t)t.tv_nsec;
}

/* The one timer goes off at the earliest alarm. */
static void set_timer(void) {
    const uint64_t now = now_ns();
    uint64_t first = 0;
    for (int i = 0; i < ALARM_COUNT; i++) {
        const uint64_t at = atomic_load_explicit(&alarms[i].at, memory_order_relaxed);
        first = at != 0 && (first == 0 || at < first) ? at : first;
    }
    const uint64_t us = first == 0 ? 0 : first <= now ? 1 : (first - now) / 1000 + 1;
    const struct itimerval after = {
        .it_value = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)}};
    (void)setitimer(ITIMER_REAL, &after, NULL);
}

static void arm(enum alarm which, uint64_t ns) {
    atomic_store_explicit(&alarms[which].at, ns == 0 ? 0 : now_ns() + ns, memory_order_release);
    set_timer();
}

/* ---- crashes ---- */

enum { TOLD_BYTES = 4096, CRASH_STACK_BYTES = 1 << 16 };
static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const char *const crash_names[] = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"};
static struct sigaction before_crash[TIDE_COUNT(crashes)];
static tide_port_teller *tell; /* set once, before there are threads */
#if defined(TIDE_ASAN) || defined(TIDE_TSAN)
static const bool sanitized = true; /* the sanitizer reports crashes */
#else
static const bool sanitized = false;
#endif

static void put(const char *text, size_t size) {
    while (size > 0) {
        const ssize_t n = write(2, text, size);
        if (n <= 0) {
            return;
        }
        text += n;
        size -= (size_t)n;
    }
}

static void put_text(const char *text) {
    put(text, strlen(text));
}

static void put_address(uintptr_t address) {
    char digits[2 * sizeof address];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[address % 16];
        address /= 16;
    } while (address != 0);
    put_text(" at address 0x");
    put(digits + at, sizeof digits - at);
}

/* A line about what this thread does; `none` if it is no thread of a node. */
static void put_told(const char *before, const char *none) {
    char told[TOLD_BYTES];
    const size_t size = tell ? tell(told, sizeof told) : 0;
    put_text(size > 0 ? before : none);
    put(told, size);
    put_text(size > 0 ? "\n" : "");
}

static void on_crash(int signal, siginfo_t *info, void *context) {
    (void)context;
    size_t which = 0;
    while (crashes[which] != signal) {
        which++;
    }
    (void)sigaction(signal, &before_crash[which], NULL); /* also for what comes during this report */
    put_text("\ntide: crashed: ");
    put_text(crash_names[which]);
    if (info->si_code <= 0 && signal != SIGABRT) {
        put_text(" sent by a process");
    } else if (signal == SIGSEGV || signal == SIGBUS) {
        put_address((uintptr_t)info->si_addr);
    }
    put_told(" ", " on a thread without a node\n");
    if (info->si_code <= 0 || signal == SIGABRT) { /* it was sent: coming back would not repeat it */
        (void)raise(signal);
    }
}

void *tide__real_crash_stack_begin(void) {
    void *memory = tell ? tide_map(CRASH_STACK_BYTES, true) : NULL;
    const stack_t stack = {.ss_sp = memory, .ss_size = CRASH_STACK_BYTES};
    if (memory) {
        (void)sigaltstack(&stack, NULL);
    }
    return memory;
}

void tide__real_crash_stack_end(void *memory) {
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (memory) {
        (void)sigaltstack(&none, NULL);
        tide_unmap(memory, CRASH_STACK_BYTES);
    }
}

void tide_port_tell_crashes(tide_port_teller *teller) {
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    tell = teller; /* of alarms too */
    if (!sanitized) {
        (void)tide__real_crash_stack_begin(); /* the main thread's, for good */
        for (size_t i = 0; i < TIDE_COUNT(crashes); i++) {
            (void)sigaction(crashes[i], &action, &before_crash[i]);
        }
    }
}

/* ---- alarms and signals ---- */

static void on_alarm(int signal) {
    (void)signal;
    for (int i = 0; i < ALARM_COUNT; i++) {
        const uint64_t at = atomic_load_explicit(&alarms[i].at, memory_order_acquire);
        if (at != 0 && at <= now_ns() && alarms[i].text) {
            put_text(alarms[i].text);
            put_told("  = ", "");
            _exit(alarms[i].code);
        }
    }
    set_timer();
}

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)context;
    const int before = errno;
    const uint64_t now = now_ns(), came = atomic_load_explicit(&signals.came, memory_order_relaxed);
    const bool typed = info->si_code == SI_KERNEL; /* at the terminal */
    if (typed || came == 0 || now - came >= same_ns) {
        atomic_store_explicit(&signals.came, now, memory_order_relaxed);
        atomic_store_explicit(&signals.last, signal, memory_order_relaxed);
        const unsigned count = atomic_fetch_add_explicit(&signals.count, 1, memory_order_relaxed) + 1;
        const unsigned limit = atomic_load_explicit(&signals.limit, memory_order_acquire);
        if (limit != 0 && count >= limit) {
            arm(KILLED, killed_ns);
        } else if (limit != 0 && signal != SIGINT && signals.patience_ns != 0) {
            arm(UNHEEDED, signals.patience_ns);
        }
    }
    errno = before;
}

static void handle_alarms(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    (void)sigaction(SIGALRM, &action, NULL);
}

static void set_text(enum alarm which, const char *text, int code) {
    alarms[which].text = text;
    alarms[which].code = code;
}

void tide_port_alarm(uint64_t ns, const char *text, int code) {
    if (text) {
        set_text(LATE, text, code);
    }
    if (alarms[LATE].text) {
        handle_alarms();
        arm(LATE, ns);
    }
}

void tide_port_signals(bool on) {
    for (size_t i = 0; i < TIDE_COUNT(counted); i++) {
        struct sigaction action = {.sa_flags = SA_RESTART}, before;
        if (on) {
            action.sa_sigaction = on_signal;
            action.sa_flags |= SA_SIGINFO;
        }
        for (size_t j = 0; j < TIDE_COUNT(counted); j++) {
            (void)sigaddset(&action.sa_mask, counted[j]);
        }
        (void)sigaction(counted[i], NULL, &before);
        if (counted[i] != SIGHUP || before.sa_handler != SIG_IGN) { /* nohup */
            (void)sigaction(counted[i], &action, NULL);
        }
    }
}

unsigned tide_port_signalled(int *last) {
    *last = atomic_load_explicit(&signals.last, memory_order_relaxed);
    return atomic_load_explicit(&signals.count, memory_order_relaxed);
}

void tide_port_signal_limit(const struct tide_signal_limit *limit) {
    atomic_store_explicit(&signals.limit, 0, memory_order_relaxed);
    arm(UNHEEDED, 0);
    arm(KILLED, 0);
    if (limit) {
        set_text(KILLED, limit->killed, limit->code);
        set_text(UNHEEDED, limit->unheeded, limit->code);
        signals.patience_ns = limit->patience_ns;
        handle_alarms();
        atomic_store_explicit(&signals.limit, limit->count, memory_order_release);
    }
}

void tide_port_signal_heed(uint64_t ns) {
    arm(UNHEEDED, ns);
}
