/*
 * Children. A child is forked by an executor thread, which lives as long as the node:
 * the kernel's "die with your parent" means the thread that forked. Until exec it runs in our
 * memory, while that thread waits: only async-signal-safe calls, on memory prepared before. The
 * child's end is read from a pidfd, so no SIGCHLD handler meets the host's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2 */
#endif
#include "port/real.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

struct tide_process {
    struct tide_executor *executor; /* NULL: it has stopped */
    struct tide_process_options options;
    struct tide_process *next, **link;
    uv_poll_t poll;
    int pidfd;
    int held; /* the other end of its standard input; -1 */
    pid_t pid;
    bool ended;
    bool handle_open;
    bool released;
};

extern char **environ;

/* What the child needs, made before the fork. */
struct launch {
    char *program; /* resolved: no PATH search in the child */
    char *const *argv;
    const char **env;
    int input, output; /* output < 0: ours */
    int report;        /* gets the errno of a failed exec */
    pid_t parent;
    bool dies_with_parent;
};

static void set_default_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    for (int i = 1; i < NSIG; i++) {
        (void)sigaction(i, &action, NULL); /* KILL and STOP refuse, which is fine */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_main(const struct launch *launch) {
    int error = 0;
    if (launch->dies_with_parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            error = errno;
        } else if (getppid() != launch->parent) {
            _exit(127); /* the parent went before the request was in place */
        }
    }
    if (error == 0 && setpgid(0, 0) != 0) {
        error = errno;
    }
    if (error == 0 && (dup2(launch->input, 0) < 0 ||
                       (launch->output >= 0 && (dup2(launch->output, 1) < 0 || dup2(launch->output, 2) < 0)))) {
        error = errno;
    }
    if (error == 0) {
        /* A host may hold descriptors without close-on-exec. Old kernels lack the call; ours all
         * have the flag. */
        (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
        set_default_signals();
        execve(launch->program, launch->argv, (char *const *)(uintptr_t)launch->env);
        error = errno;
    }
    ssize_t n = write(launch->report, &error, sizeof error);
    (void)n;
    _exit(127);
}

/* The program file as a shell would find it; *gives*. */
static int find_program(const char *name, char **out) {
    const char *path = getenv("PATH");
    if (strchr(name, '/') || !path) {
        *out = tide_strdup(name);
        return *out ? 0 : TIDE_ENOMEM;
    }
    size_t room = strlen(path) + strlen(name) + 3;
    char *candidate = tide_alloc(room);
    if (!candidate) {
        return TIDE_ENOMEM;
    }
    while (*path != '\0') {
        size_t length = strcspn(path, ":");
        snprintf(candidate, room, "%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? path : ".", name);
        if (access(candidate, X_OK) == 0) {
            *out = candidate;
            return 0;
        }
        path += length + (path[length] == ':');
    }
    tide_free(candidate);
    return tide_fail(TIDE_ENOENT, "starting %s: no such program in PATH", name);
}

static bool same_name(const char *a, const char *b) {
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length + 1) == 0;
}

/* Ours, with `added` in place of or after it; *gives* the array, borrows the strings. */
static const char **merge_environment(const char *const *added) {
    size_t ours = 0, extra = 0, n = 0;
    while (environ && environ[ours]) {
        ours++;
    }
    while (added && added[extra]) {
        extra++;
    }
    const char **merged = tide_alloc((ours + extra + 1) * sizeof *merged);
    if (!merged) {
        return NULL;
    }
    for (size_t i = 0; i < ours; i++) {
        bool replaced = false;
        for (size_t j = 0; j < extra; j++) {
            replaced |= same_name(added[j], environ[i]);
        }
        if (!replaced) {
            merged[n++] = environ[i];
        }
    }
    for (size_t j = 0; j < extra; j++) {
        merged[n++] = added[j];
    }
    merged[n] = NULL;
    return merged;
}

static void unlink_process(struct tide_process *p) {
    if (p->link) {
        *p->link = p->next;
        if (p->next) {
            p->next->link = p->link;
        }
        p->link = NULL;
    }
}

static void free_process_when_done(struct tide_process *p) {
    if (p->released && !p->handle_open) {
        tide_free(p);
    }
}

static void on_process_handle_closed(uv_handle_t *handle) {
    struct tide_process *p = handle->data;
    p->handle_open = false;
    free_process_when_done(p);
}

static void stop_watching(struct tide_process *p) {
    if (p->pidfd >= 0) {
        uv_close((uv_handle_t *)&p->poll, on_process_handle_closed);
        close(p->pidfd);
        p->pidfd = -1;
        unlink_process(p);
    }
}

static void on_ended(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    struct tide_process *p = poll->data;
    tide__real_awake(p->executor);
    int how = 0;
    pid_t got;
    do {
        got = waitpid(p->pid, &how, WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        return;
    }
    p->ended = true;
    if (p->held >= 0) {
        close(p->held);
        p->held = -1;
    }
    stop_watching(p);
    if (p->options.ended) {
        if (got < 0) { /* the host reaped it: how it ended is not known */
            p->options.ended(p->options.arg, -1, 0);
        } else if (WIFSIGNALED(how)) {
            p->options.ended(p->options.arg, 0, WTERMSIG(how));
        } else {
            p->options.ended(p->options.arg, WEXITSTATUS(how), 0);
        }
    }
}

/* Forks and waits until the child has become the program. Returns an errno. */
static int fork_and_exec(struct launch *launch, pid_t *out) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        return errno;
    }
    launch->report = report[1];
    launch->parent = getpid();
    /* No handler of the host may run in the child. */
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    /* Not fork: handlers of libraries would run first, and OpenBLAS's waits for its threads. */
    pid_t pid = vfork();
    int error = pid < 0 ? errno : 0;
    if (pid == 0) {
        child_main(launch);
    }
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    close(report[1]);
    if (pid > 0) {
        ssize_t n;
        int reported = 0;
        do {
            n = read(report[0], &reported, sizeof reported);
        } while (n < 0 && errno == EINTR);
        if (n == (ssize_t)sizeof reported) {
            error = reported;
            (void)waitpid(pid, NULL, 0);
        }
    }
    close(report[0]);
    *out = pid;
    return error;
}

static int launch_process(const struct tide_process_options *options, pid_t *pid, int *held) {
    struct launch launch = {.input = -1, .output = -1, .dies_with_parent = options->dies_with_parent};
    int error;
    int code = find_program(options->argv[0], &launch.program);
    if (code != 0) {
        return code;
    }
    launch.argv = (char *const *)(uintptr_t)options->argv;
    launch.env = merge_environment(options->env);
    if (!launch.env) {
        code = TIDE_ENOMEM;
        goto out;
    }
    int ends[2] = {-1, -1};
    if (options->holds_input && pipe2(ends, O_CLOEXEC) != 0) {
        code = tide__real_fail(errno, "making a pipe to", options->argv[0]);
        goto out;
    }
    *held = ends[1];
    launch.input = options->holds_input ? ends[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (launch.input < 0) {
        code = tide__real_fail(errno, "opening", "/dev/null");
        goto out;
    }
    if (options->output) {
        launch.output = open(options->output, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (launch.output < 0) {
            code = tide__real_fail(errno, "opening", options->output);
            goto out;
        }
    }
    error = fork_and_exec(&launch, pid);
    if (error != 0) {
        code = tide__real_fail(error, "starting", launch.program);
    }
out:
    if (launch.output >= 0) {
        close(launch.output);
    }
    if (launch.input >= 0) {
        close(launch.input);
    }
    if (code != 0 && *held >= 0) {
        close(*held);
        *held = -1;
    }
    tide_free(launch.env);
    tide_free(launch.program);
    return code;
}

/* Not yet watched, so its end would go unnoticed. */
static int abandon_child(struct tide_process *p, int code) {
    (void)kill(-p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, 0);
    if (p->held >= 0) {
        close(p->held);
    }
    tide_free(p);
    return code;
}

int tide__real_process_start(struct tide_executor *e, const struct tide_process_options *options,
                             struct tide_process **out) {
    tide__real_check_thread(e);
    if (!options->argv || !options->argv[0]) {
        return tide_fail(TIDE_EINVAL, "starting a process: no program named");
    }
    tide__watch_blocks("start of", options->argv[0]);
    struct tide_process *p = tide_alloc_zero(1, sizeof *p);
    if (!p) {
        return TIDE_ENOMEM;
    }
    p->executor = e;
    p->options = *options;
    p->pidfd = -1;
    p->held = -1;
    int code = launch_process(options, &p->pid, &p->held);
    if (code != 0) {
        tide_free(p);
        return code;
    }
    int fd = (int)syscall(SYS_pidfd_open, p->pid, 0); /* close-on-exec by definition */
    if (fd < 0) {
        return abandon_child(p, tide__real_fail(errno, "watching", options->argv[0]));
    }
    code = uv_poll_init(e->loop, &p->poll, fd);
    if (code != 0) {
        close(fd);
        return abandon_child(p, tide__real_fail(-code, "watching", options->argv[0]));
    }
    p->pidfd = fd;
    p->handle_open = true;
    p->poll.data = p;
    code = uv_poll_start(&p->poll, UV_READABLE, on_ended);
    TIDE_ASSERT(code == 0);
    p->next = e->processes;
    p->link = &e->processes;
    if (p->next) {
        p->next->link = &p->next;
    }
    e->processes = p;
    *out = p;
    return 0;
}

int tide__real_process_signal(struct tide_process *p, int signal_number) {
    if (p->ended) { /* its number may be another's by now */
        return tide_fail(TIDE_ENOENT, "process %d has ended", (int)p->pid);
    }
    /* The group: what it started goes with it. The group exists, for start waited until after
     * setpgid. */
    return kill(-p->pid, signal_number) == 0 ? 0 : tide__real_fail(errno, "signalling", "a process");
}

int tide__real_process_id(struct tide_process *p) {
    return (int)p->pid;
}

void tide__real_process_release(struct tide_process *p) {
    if (p->executor) {
        tide__real_check_thread(p->executor);
    }
    stop_watching(p);
    p->released = true;
    free_process_when_done(p);
}

char tide__real_process_state(struct tide_port *port, int pid) {
    char path[32], line[256];
    (void)port;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    const ssize_t n = read(fd, line, sizeof line - 1);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    const char *end = strrchr(line, ')'); /* of the name, which may hold anything */
    const char state = end && end[1] == ' ' ? end[2] : 0;
    return state == 'Z' || state == 'X' ? 0 : state;
}

void tide__real_processes_detach(struct tide_executor *e) {
    while (e->processes) {
        struct tide_process *p = e->processes;
        stop_watching(p);
        p->executor = NULL;
        if (!p->ended && p->options.ended) {
            p->options.ended(p->options.arg, -1, 0);
        }
    }
}
