/*
 * A processor share for a process, without privileges: a child of it stops it (SIGSTOP) while it
 * has had more than its share of one core and continues it (SIGCONT) when time has made up for it.
 * What counts is processor time as the kernel accounts it for all threads of the process, so an
 * idle process is left alone, as with cpu.max of control groups, which needs privileges.
 */
#include "port/port.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define TICK UINT64_C(4000000)   /* ns between two looks */
#define SAVED UINT64_C(20000000) /* ns of its share that an idle process can save up */

static bool read_clock(clockid_t id, double *ns) {
    struct timespec t;
    if (clock_gettime(id, &t) != 0) {
        return false;
    }
    *ns = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
    return true;
}

/* Waits for a tick; true: asked to end. */
static bool told_to_end(const sigset_t *ends) {
    const struct timespec tick = {.tv_nsec = (long)TICK};
    return sigtimedwait(ends, NULL, &tick) > 0;
}

static int hold(pid_t parent, clockid_t clock, double share, const sigset_t *ends) {
    double cpu = 0, wall = 0, cpu_now, wall_now, credit = 0;
    bool stopped = false;
    if (!read_clock(clock, &cpu) || !read_clock(CLOCK_MONOTONIC, &wall)) {
        return tide_fail(TIDE_EUNREACHABLE, "the processor time of process %d cannot be read", (int)parent);
    }
    while (!told_to_end(ends) && getppid() == parent && read_clock(clock, &cpu_now) &&
           read_clock(CLOCK_MONOTONIC, &wall_now)) {
        credit += share * (wall_now - wall) - (cpu_now - cpu);
        credit = credit < share * (double)SAVED ? credit : share * (double)SAVED;
        cpu = cpu_now;
        wall = wall_now;
        if (stopped != (credit < 0)) {
            stopped = !stopped;
            (void)kill(parent, stopped ? SIGSTOP : SIGCONT);
        }
    }
    if (getppid() == parent) {
        (void)kill(parent, SIGCONT);
    }
    return 0;
}

int tide_port_hold_parent(double share) {
    pid_t parent = getppid();
    clockid_t clock;
    sigset_t ends;
    if (!(share > 0 && share < 1)) {
        return tide_fail(TIDE_EINVAL, "a processor share is between 0 and 1");
    }
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || parent <= 1 || clock_getcpuclockid(parent, &clock) != 0) {
        return tide_fail(TIDE_EUNREACHABLE, "there is no parent to be held");
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &ends, NULL) != 0) {
        return tide_fail(TIDE_EINVAL, "signals cannot be blocked");
    }
    return hold(parent, clock, share, &ends);
}
