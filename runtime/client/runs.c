/*
 * Runs: their records at the keeper of runs, the actor `runs` on the controller, and commands that it forwards to
 * them. The program `tide` starts a script and sends its modules along.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2 */
#endif
#include "client/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 200, CLOSING_S = 10, WORDS_MAX = 64, OUTPUT_MAX = 8 << 10 };

/* ---- asking ---- */

/* The keeper's answer to a request; the operation is the caller's then. */
static int ask(struct tide_client *c, const struct tide_writer *request, uint64_t deadline,
               struct tide_client_op **op) {
    uint64_t keeper;
    const uint64_t now = client_now(c);
    int rc = request->error != 0 ? tide_fail(request->error, "no memory for a request about runs")
             : deadline <= now   ? tide_fail(TIDE_ETIMEDOUT, "no answer of the keeper of runs before the deadline")
                                 : tide_client_find(c, "runs", deadline - now, &keeper);
    *op = NULL;
    rc = rc != 0 ? rc : tide_client_call(c, keeper, request->data, request->size, deadline - now, op);
    return rc != 0 ? rc : tide_client_wait(*op, 0);
}

static uint64_t deadline_of(struct tide_client *c, uint64_t timeout) {
    return client_now(c) + (timeout ? timeout : c->timeout);
}

static void read_text(const struct tide_reader *of, const char *key, char *out, size_t capacity) {
    struct tide_reader value;
    size_t size = 0;
    const char *text = tide_read_field(of, key, &value) && tide_read_type(&value) == TIDE_STRING
                           ? tide_read_string(&value, &size)
                           : NULL;
    (void)snprintf(out, capacity, "%.*s", (int)(size < capacity ? size : capacity - 1), text ? text : "");
}

static double read_number(const struct tide_reader *of, const char *key, double none) {
    struct tide_reader value;
    const bool has = tide_read_field(of, key, &value);
    const enum tide_type type = has ? tide_read_type(&value) : TIDE_NIL;
    return type == TIDE_INT || type == TIDE_DOUBLE ? tide_read_double(&value) : none;
}

static bool is_ended(const char *state) {
    static const char *const ended[] = {"done", "stopped", "failed", "lost"};
    for (size_t i = 0; i < TIDE_COUNT(ended); i++) {
        if (strcmp(state, ended[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void read_run(const struct tide_reader *row, struct tide_client_run *out) {
    struct tide_reader progress, value;
    struct tide_client_run run = {.size = out->size};
    read_text(row, "name", run.name, sizeof run.name);
    read_text(row, "job", run.job, sizeof run.job);
    read_text(row, "state", run.state, sizeof run.state);
    read_text(row, "user", run.user, sizeof run.user);
    read_text(row, "why", run.why, sizeof run.why);
    run.ended = is_ended(run.state);
    run.slots = (unsigned)read_number(row, "slots", 0);
    run.exit = (int)read_number(row, "exit", strcmp(run.state, "lost") == 0 ? 5 : strcmp(run.state, "done") != 0);
    run.submitted_at = read_number(row, "submitted_at", 0);
    run.started_at = read_number(row, "started_at", 0);
    run.ended_at = read_number(row, "ended_at", 0);
    const double now = run.submitted_at + read_number(row, "age_s", 0); /* of the keeper's clock */
    const bool closed =
        tide_read_field(row, "closed", &value) && tide_read_type(&value) == TIDE_BOOL && tide_read_bool(&value);
    run.closed = run.ended && (closed || strcmp(run.state, "lost") == 0 || now > run.ended_at + CLOSING_S);
    run.loss = (double)NAN;
    if (tide_read_field(row, "progress", &progress) && tide_read_type(&progress) == TIDE_MAP) {
        run.reports = (uint64_t)read_number(&progress, "report", 0);
        run.examples = read_number(&progress, "examples", 0);
        run.loss = read_number(&progress, "loss", run.loss);
    }
    *out = run;
}

static int check_run(const struct tide_client *c, const struct tide_client_run *out) {
    const int rc = client_check(c);
    return rc != 0 || out->size == sizeof *out
               ? rc
               : tide_fail(TIDE_EINVAL, "the run's size is not that of this library's version");
}

static int get(struct tide_client *c, const char *name, uint64_t deadline, struct tide_client_run *out) {
    uint8_t buffer[160];
    struct tide_writer w;
    struct tide_client_op *op;
    struct tide_reader r;
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_map(&w, 2);
    tide_write_text(&w, "op");
    tide_write_text(&w, "get");
    tide_write_text(&w, "name");
    tide_write_text(&w, name);
    const int rc = ask(c, &w, deadline, &op);
    if (rc == 0) {
        tide_reader_init(&r, op->answer, op->answer_size);
        read_run(&r, out);
    }
    tide_client_free(op);
    tide_writer_release(&w);
    return rc;
}

/* ---- looking ---- */

int tide_client_run(struct tide_client *c, const char *name, uint64_t timeout, struct tide_client_run *out) {
    const int rc = check_run(c, out);
    return rc != 0 ? rc : get(c, name, deadline_of(c, timeout), out);
}

int tide_client_runs(struct tide_client *c, bool ended, uint64_t timeout, struct tide_client_run *out, size_t most,
                     size_t *count) {
    uint8_t buffer[32];
    struct tide_writer w;
    struct tide_client_op *op = NULL;
    struct tide_reader r, list;
    int rc = most > 0 ? check_run(c, out) : client_check(c);
    *count = 0;
    if (rc != 0) {
        return rc;
    }
    tide_writer_init(&w, buffer, sizeof buffer);
    tide_write_map(&w, 2);
    tide_write_text(&w, "op");
    tide_write_text(&w, "list");
    tide_write_text(&w, "all");
    tide_write_bool(&w, ended);
    rc = ask(c, &w, deadline_of(c, timeout), &op);
    if (rc == 0) {
        tide_reader_init(&r, op->answer, op->answer_size);
        const size_t runs = tide_read_field(&r, "runs", &list) ? tide_read_array(&list) : 0;
        for (size_t i = 0; i < runs; i++) {
            if (i < most) {
                out[i].size = sizeof *out;
                read_run(&list, &out[i]);
            }
            tide_read_skip(&list);
        }
        *count = runs;
    }
    tide_client_free(op);
    return rc;
}

static bool never(void *arg) {
    (void)arg;
    return false;
}

static int pause_until(struct tide_client *c, uint64_t until) {
    pthread_mutex_lock(&c->lock);
    const int rc = client_wait_until(c, until, never, NULL);
    pthread_mutex_unlock(&c->lock);
    return rc == TIDE_ETIMEDOUT ? 0 : rc;
}

int tide_client_run_wait(struct tide_client *c, const char *name, uint64_t timeout, struct tide_client_run *out) {
    int rc = check_run(c, out);
    const uint64_t deadline = rc != 0 || timeout == TIDE_NEVER ? TIDE_NEVER : deadline_of(c, timeout);
    while (rc == 0) {
        const uint64_t now = client_now(c), next = now + POLL_MS * MS;
        rc = get(c, name, deadline == TIDE_NEVER ? now + c->timeout : deadline, out);
        if (rc != 0 || out->closed) {
            break;
        }
        rc = pause_until(c, next < deadline ? next : deadline);
        if (rc == 0 && client_now(c) >= deadline) {
            return tide_fail(TIDE_ETIMEDOUT, "run %s is %s still", out->name, out->state);
        }
    }
    return rc;
}

/* ---- steering ---- */

/* As words of a command line are read: a truth value, a number, or text. */
static void write_word(struct tide_writer *w, const char *word) {
    char *end;
    errno = 0;
    const long long whole = strtoll(word, &end, 10);
    if (end != word && *end == 0 && errno == 0) {
        tide_write_int(w, whole);
        return;
    }
    const double number = strtod(word, &end);
    if (end != word && *end == 0) {
        tide_write_double(w, number);
    } else if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        tide_write_bool(w, word[0] == 't');
    } else {
        tide_write_text(w, word);
    }
}

static int write_params(struct tide_writer *w, const char *const *params, size_t count) {
    tide_write_map(w, count);
    for (size_t i = 0; i < count; i++) {
        const char *equals = strchr(params[i], '=');
        if (!equals || equals == params[i]) {
            return tide_fail(TIDE_EINVAL, "'%.100s' is no NAME=VALUE", params[i]);
        }
        tide_write_string(w, params[i], (size_t)(equals - params[i]));
        write_word(w, equals + 1);
    }
    return 0;
}

int tide_client_run_do(struct tide_client *c, const char *name, const char *verb, const char *const *params,
                       size_t count, uint64_t timeout) {
    struct tide_writer w;
    struct tide_client_op *op = NULL;
    int rc = client_check(c);
    if (rc != 0) {
        return rc;
    }
    const uint64_t deadline = deadline_of(c, timeout);
    tide_writer_init(&w, NULL, 0);
    tide_write_map(&w, 5);
    tide_write_text(&w, "op");
    tide_write_text(&w, "verb");
    tide_write_text(&w, "name");
    tide_write_text(&w, name);
    tide_write_text(&w, "verb");
    tide_write_text(&w, verb);
    tide_write_text(&w, "timeout_s");
    tide_write_double(&w, (double)(deadline - client_now(c)) / TIDE_SECOND);
    tide_write_text(&w, "arguments");
    if (strcmp(verb, "set") == 0) {
        tide_write_map(&w, 1);
        tide_write_text(&w, "params");
    }
    rc = write_params(&w, params, count);
    rc = rc != 0 ? rc : ask(c, &w, deadline, &op);
    tide_client_free(op);
    tide_writer_release(&w);
    return rc;
}

/* ---- submitting ---- */

struct output {
    int fd;
    char text[OUTPUT_MAX];
    size_t size;
};

/* The program with both outputs in pipes. */
static int start_program(const char *const *words, pid_t *child, struct output out[2]) {
    int pipes[2][2];
    posix_spawn_file_actions_t actions;
    if (pipe2(pipes[0], O_CLOEXEC) != 0) {
        return tide_fail(TIDE_EMFILE, "no pipe: %s", strerror(errno));
    }
    if (pipe2(pipes[1], O_CLOEXEC) != 0) {
        close(pipes[0][0]);
        close(pipes[0][1]);
        return tide_fail(TIDE_EMFILE, "no pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipes[0][1], 1);
    posix_spawn_file_actions_adddup2(&actions, pipes[1][1], 2);
    const int error = posix_spawnp(child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        out[i].fd = pipes[i][0];
        out[i].size = 0;
        out[i].text[0] = 0;
    }
    return error == 0 ? 0
                      : tide_fail(TIDE_ENOENT,
                                  "the program %s cannot be started: %s. Install the package tide, or set TIDE_PROGRAM",
                                  words[0], strerror(error));
}

static bool read_output(struct output *o) {
    char some[512];
    const ssize_t n = read(o->fd, some, sizeof some);
    for (ssize_t i = 0; i < n && o->size + 1 < sizeof o->text; i++) {
        o->text[o->size++] = some[i];
    }
    o->text[o->size] = 0;
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Both outputs until they end. ETIMEDOUT: the program was killed. */
static int read_program(struct tide_client *c, pid_t child, struct output out[2], uint64_t deadline, int *status) {
    int rc = 0;
    bool open[2] = {out[0].fd >= 0, out[1].fd >= 0};
    while (rc == 0 && (open[0] || open[1])) {
        struct pollfd polls[2] = {{.fd = open[0] ? out[0].fd : -1, .events = POLLIN},
                                  {.fd = open[1] ? out[1].fd : -1, .events = POLLIN}};
        (void)poll(polls, 2, POLL_MS / 4);
        for (int i = 0; i < 2; i++) {
            open[i] = open[i] && (polls[i].revents == 0 || read_output(&out[i]));
        }
        if (client_now(c) >= deadline && (open[0] || open[1])) {
            (void)kill(child, SIGKILL);
            rc = tide_fail(TIDE_ETIMEDOUT, "`tide submit` has not ended before the deadline");
        }
    }
    while (waitpid(child, status, 0) < 0 && errno == EINTR) {
    }
    return rc;
}

int tide_client_submit(struct tide_client *c, const char *const *words, size_t count, uint64_t timeout,
                       struct tide_client_run *out) {
    const char *argv[WORDS_MAX + 8] = {getenv("TIDE_PROGRAM"), "submit"};
    size_t at = 2;
    char where[ENDPOINTS_BYTES], name[64];
    struct output outputs[2] = {{.fd = -1}, {.fd = -1}};
    pid_t child = 0;
    int status = 0, rc = check_run(c, out);
    const uint64_t deadline = deadline_of(c, timeout);
    if (rc == 0 && (count == 0 || count > WORDS_MAX)) {
        rc = tide_fail(TIDE_EINVAL, "a script and its options are 1 to %d words, not %zu", WORDS_MAX, count);
    }
    if (rc != 0) {
        return rc;
    }
    argv[0] = argv[0] ? argv[0] : "tide";
    (void)snprintf(where, sizeof where, "%.*s", (int)strcspn(c->endpoints, ","), c->endpoints);
    argv[at++] = "--cluster";
    argv[at++] = where;
    if (c->keys[0]) {
        argv[at++] = "--keys";
        argv[at++] = c->keys;
    }
    memcpy(&argv[at], words, count * sizeof *words);
    rc = start_program(argv, &child, outputs);
    rc = rc != 0 ? rc : read_program(c, child, outputs, deadline, &status);
    for (int i = 0; i < 2; i++) {
        if (outputs[i].fd >= 0) {
            close(outputs[i].fd);
        }
    }
    if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || sscanf(outputs[0].text, "%63s is", name) != 1)) {
        rc = tide_fail(TIDE_EREFUSED, "`tide submit` failed: %s", outputs[1].text);
    }
    return rc != 0 ? rc : get(c, name, deadline, out);
}
