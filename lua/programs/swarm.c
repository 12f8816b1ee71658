/*
 * core.swarm: runs of the swarm (tests/swarm), for the program `tide-sim` alone. Each seed runs
 * in a process of its own, forked from this one, so that a failed assertion ends one run and none
 * sees what another has left behind. The report lies in memory that both share: what a run has
 * written when it dies is there.
 */
#define _GNU_SOURCE /* memfd_create */
#include "swarm.h"
#include "lua/host/host.h"
#include "tests/swarm/swarm.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 64, SETTINGS_MAX = 64, RUN_SECONDS_MAX = 300 };

struct request {
    const char *profile, *trace, *mutant;
    uint64_t trace_first, trace_last;
    const char *settings[SETTINGS_MAX];
    size_t setting_count;
};

struct job {
    pid_t pid; /* 0: free */
    uint64_t seed;
    struct swarm_report *report; /* shared */
    int said;                    /* file of the run's stderr */
};

static int draw(const struct request *q, uint64_t seed, struct swarm_options *out) {
    int code = swarm_draw(seed, q->profile, out);
    for (size_t i = 0; i < q->setting_count && code == 0; i++) {
        code = swarm_pin(out, q->settings[i]);
    }
    return code;
}

/* ---- the child ---- */

static struct {
    FILE *file;
    uint64_t first, last;
} trace;

static void trace_event(void *arg, const struct tide_sim_event *e) {
    (void)arg;
    bool inside = e->number >= trace.first && e->number <= trace.last;
    if (inside || (trace.last == 0 && e->number % 4096 == 0)) {
        (void)fprintf(trace.file, "%llu %016llx %llu %s %s %llu %016llx\n", (unsigned long long)e->number,
                      (unsigned long long)e->hash, (unsigned long long)e->time, e->node[0] ? e->node : "-", e->kind,
                      (unsigned long long)e->length, (unsigned long long)e->checksum);
    }
}

_Noreturn static void run_child(const struct request *q, const struct job *job) {
    struct swarm_options options;
    /* Of processor time: it never waits, and others may leave it little of a machine. */
    (void)setrlimit(RLIMIT_CPU, &(struct rlimit){RUN_SECONDS_MAX, RUN_SECONDS_MAX + 5});
    /* Nodes come and go, and what one gives back the next needs: none of it goes to the kernel. */
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    (void)mallopt(M_MMAP_THRESHOLD, INT_MAX);
    (void)dup2(job->said, 2);
    tide_log_set(TIDE_LOG_WARN, NULL, NULL);
    if (draw(q, job->seed, &options) < 0) {
        _exit(2);
    }
#ifdef TIDE_MUTANTS
    tide__mutant = q->mutant;
#endif
    if (q->trace) {
        trace.file = fopen(q->trace, "w");
        trace.first = q->trace_first;
        trace.last = q->trace_last;
        if (!trace.file) {
            (void)fprintf(stderr, "cannot write %s\n", q->trace);
            _exit(2);
        }
    }
    swarm_run(&options, job->report, trace.file ? trace_event : NULL, NULL);
    if (trace.file) {
        (void)fclose(trace.file);
    }
    _exit(0);
}

/* ---- the parent ---- */

static int job_start(const struct request *q, struct job *job, uint64_t seed) {
    memset(job->report, 0, sizeof *job->report);
    job->seed = seed;
    if (ftruncate(job->said, 0) != 0 || lseek(job->said, 0, SEEK_SET) != 0) {
        return tide_fail(TIDE_EIO, "cannot empty a file in memory: %s", strerror(errno));
    }
    (void)fflush(NULL);
    job->pid = fork();
    if (job->pid == 0) {
        run_child(q, job);
    }
    return job->pid > 0 ? 0 : tide_fail(TIDE_ENOMEM, "cannot fork: %s", strerror(errno));
}

/* The end of what the run said on stderr. */
static void push_said(lua_State *L, const struct job *job) {
    char text[4096];
    off_t size = lseek(job->said, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
    ssize_t n = pread(job->said, text, sizeof text, from);
    lua_pushlstring(L, text, n > 0 ? (size_t)n : 0);
}

static void push_report(lua_State *L, const struct job *job, int status) {
    const struct swarm_report *r = job->report;
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    char text[64];
    lua_createtable(L, 0, 16);
    tide__lua_set_integer(L, "seed", job->seed);
    tide__lua_set_integer(L, "events", r->events);
    tide__lua_set_integer(L, "operations", r->operations);
    tide__lua_set_integer(L, "operations_failed", r->operations_lost);
    tide__lua_set_integer(L, "operations_retried", r->retried);
    tide__lua_set_integer(L, "messages", r->messages);
    tide__lua_set_integer(L, "faults", r->fault_count);
    tide__lua_set_integer(L, "nodes_lost", r->lost_nodes);
    tide__lua_set_integer(L, "disk_crashes", r->disk_crashes);
    lua_pushnumber(L, (double)r->virtual_ns * 1e-9);
    lua_setfield(L, -2, "virtual_s");
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)r->hash);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "hash");
    lua_pushboolean(L, r->failed || !ended);
    lua_setfield(L, -2, "failed");
    lua_pushstring(L, r->faults);
    lua_setfield(L, -2, "happened");
    lua_pushstring(L, r->what);
    lua_setfield(L, -2, "what");
    lua_pushstring(L, r->checker);
    if (!ended) { /* an assertion, a sanitizer, or the limit of time */
        (void)snprintf(text, sizeof text, WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU ? "hang" : "crash");
        lua_pop(L, 1);
        lua_pushstring(L, text);
    }
    lua_setfield(L, -2, "checker");
    push_said(L, job);
    lua_setfield(L, -2, "said");
    struct tide_sometimes points[SWARM_POINTS];
    const size_t count = tide__sometimes_list(points, SWARM_POINTS);
    lua_createtable(L, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        tide__lua_set_integer(L, points[i].name, r->reached[i]);
    }
    lua_setfield(L, -2, "reached");
}

static void read_request(lua_State *L, struct request *q) {
    *q = (struct request){0};
    lua_getfield(L, 1, "profile"); /* strings stay alive in the caller's table */
    q->profile = luaL_checkstring(L, -1);
    lua_getfield(L, 1, "trace");
    q->trace = luaL_optstring(L, -1, NULL);
    lua_getfield(L, 1, "mutant");
    q->mutant = luaL_optstring(L, -1, NULL);
#ifndef TIDE_MUTANTS
    luaL_argcheck(L, !q->mutant, 1, "this build has no mutants: cmake -DTIDE_MUTANTS=ON");
#endif
    lua_getfield(L, 1, "trace_first");
    q->trace_first = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "trace_last");
    q->trace_last = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 1, "set");
    for (lua_Integer i = 1; lua_istable(L, -1) && i <= (lua_Integer)lua_rawlen(L, -1); i++) {
        lua_rawgeti(L, -1, i);
        luaL_argcheck(L, q->setting_count < SETTINGS_MAX, 1, "too many settings");
        q->settings[q->setting_count++] = luaL_checkstring(L, -1);
        lua_pop(L, 1);
    }
}

static int jobs_open(struct job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *shared =
            mmap(NULL, sizeof(struct swarm_report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        jobs[i] =
            (struct job){.report = shared != MAP_FAILED ? shared : NULL, .said = memfd_create("said", MFD_CLOEXEC)};
        if (!jobs[i].report || jobs[i].said < 0) {
            return tide_fail(TIDE_ENOMEM, "no memory for a run: %s", strerror(errno));
        }
    }
    return 0;
}

static void jobs_close(struct job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].pid > 0) {
            (void)kill(jobs[i].pid, SIGKILL);
            (void)waitpid(jobs[i].pid, NULL, 0);
        }
        if (jobs[i].report) {
            (void)munmap(jobs[i].report, sizeof(struct swarm_report));
        }
        if (jobs[i].said > 0) {
            (void)close(jobs[i].said);
        }
    }
}

/* Waits for one of the runs; NULL: none is left. */
static struct job *next_ended(struct job *jobs, size_t count, int *status) {
    for (;;) {
        pid_t pid = waitpid(-1, status, 0);
        if (pid < 0 && errno != EINTR) {
            return NULL;
        }
        for (size_t i = 0; i < count && pid > 0; i++) {
            if (jobs[i].pid == pid) {
                jobs[i].pid = 0;
                return &jobs[i];
            }
        }
    }
}

/* core.swarm{profile=, first=, last=, jobs=, set={"a=b"}, trace=, done=function(report) -> stop} ->
 * true | nil, err. Reports come as runs end. */
static int core_swarm(lua_State *L) {
    struct request q;
    struct job jobs[JOBS_MAX];
    struct swarm_options unused;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    read_request(L, &q);
    lua_getfield(L, 1, "first");
    uint64_t next = (uint64_t)luaL_checkinteger(L, -1);
    lua_getfield(L, 1, "last");
    uint64_t last = (uint64_t)luaL_checkinteger(L, -1);
    lua_getfield(L, 1, "jobs");
    lua_Integer wanted = luaL_optinteger(L, -1, 1);
    luaL_argcheck(L, wanted >= 1 && wanted <= JOBS_MAX, 1, "jobs");
    size_t count = (size_t)wanted;
    int code = draw(&q, next, &unused);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    code = jobs_open(jobs, count);
    bool stop = false;
    for (size_t running = 0; code == 0 && (running > 0 || (next <= last && !stop));) {
        for (size_t i = 0; i < count && next <= last && !stop && code == 0; i++) {
            if (jobs[i].pid == 0) {
                code = job_start(&q, &jobs[i], next++);
                running += code == 0;
            }
        }
        int status = 0;
        const struct job *job = code == 0 ? next_ended(jobs, count, &status) : NULL;
        if (!job) {
            break;
        }
        running--;
        lua_getfield(L, 1, "done");
        push_report(L, job, status);
        if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
            jobs_close(jobs, count);
            return lua_error(L);
        }
        stop = stop || lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    jobs_close(jobs, count);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* core.swarm_options{profile=, set=}, seed -> "nodes=5 ...", {name = value}, profiles, {limit = default} of those that
 * differ, expected points | nil, err */
static int core_swarm_options(lua_State *L) {
    struct request q;
    struct swarm_options options;
    char text[SWARM_TEXT];
    luaL_checktype(L, 1, LUA_TTABLE);
    uint64_t seed = (uint64_t)luaL_checkinteger(L, 2);
    read_request(L, &q);
    int code = draw(&q, seed, &options);
    if (code < 0) {
        return tide__lua_failure(L, code);
    }
    swarm_print(&options, text, sizeof text);
    lua_pushstring(L, text);
    lua_createtable(L, 0, SWARM_OPTIONS);
    for (unsigned i = 0; i < SWARM_OPTIONS; i++) {
        lua_pushnumber(L, options.value[i]);
        lua_setfield(L, -2, swarm_option_name(i));
    }
    lua_pushstring(L, swarm_profiles());
    lua_newtable(L);
    for (unsigned i = 0; i < TIDE_LIMITS; i++) {
        if (swarm_limit(&options, i) != tide__limits[i].initial) {
            tide__lua_set_integer(L, tide__limits[i].name, tide__limits[i].initial);
        }
    }
    lua_pushstring(L, swarm_expects(q.profile));
    return 5;
}

void tide__lua_open_swarm(lua_State *L) {
    static const luaL_Reg functions[] = {{"swarm", core_swarm}, {"swarm_options", core_swarm_options}, {NULL, NULL}};
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tide.core");
    lua_call(L, 1, 1);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}
