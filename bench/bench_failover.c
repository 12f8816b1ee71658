/*
 * Fail-over of a table with copies, in real processes: this one (the controller, with workers that
 * push ones to random keys and wait for each answer) and three servers, one of which dies in each
 * round, under load, and is replaced. In turn one is killed (kill -9: its connections end), and one
 * falls silent (SIGSTOP: nothing ends; once it is declared dead it continues, and then is killed).
 * Tells for both how long it took until the death was declared, and how long the slowest push
 * around it: until all rows were served again. At the end each key must hold exactly what was
 * acknowledged: exits 1 when a push was lost, doubled or refused. --rounds N (20), --replicas N
 * (1), --only killed|silent|busy, --durability strict|window: with a window pushes may be lost, at most
 * as many as were told. busy: nobody dies, but in every round so many processes spin for a second
 * that each core has four to choose from; whoever is declared dead then is one too many.
 */
#include "bench/report.h"
#include "store/core/table.h"
#include "tide/stats.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 3, WORKERS = 4, KEYS = 2000, WIDTH = 16 };

struct tide_net *tide_net_of(struct tide_node *node);

struct worker {
    struct tide_node *node;
    struct tide_table *table;
    unsigned index;
    uint32_t acknowledged[KEYS];
    atomic_uint_fast64_t slowest; /* ns; set to 0 at the start of a round */
    atomic_int failures;
};

static atomic_bool over;
static atomic_int running;
static struct tide_node *node;
static pid_t servers[SERVERS];
static const char *program;

static void fail_loudly(const char *what) {
    fprintf(stderr, "bench_failover: %s: %s\n", what, tide_error_message());
    exit(1);
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int worker_main(void *state) {
    struct worker *w = state;
    struct tide_random random;
    tide_random_seed(&random, w->index + 1);
    const float ones[WIDTH] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    while (!atomic_load(&over)) {
        uint64_t key = tide_random_below(&random, KEYS), begun = tide_node_now(node);
        if (tide_table_push(w->table, &key, 1, ones, NULL)) {
            fprintf(stderr, "a push failed: %s\n", tide_error_message());
            atomic_fetch_add(&w->failures, 1);
            continue;
        }
        w->acknowledged[key]++;
        uint64_t took = tide_node_now(node) - begun;
        if (took > atomic_load(&w->slowest)) {
            atomic_store(&w->slowest, took);
        }
    }
    atomic_fetch_sub(&running, 1);
    return 0;
}

_Noreturn static void serve(const char *join, const char *name) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct tide_node *server;
    struct tide_node_options options = {
        .cluster = "failover", .name = name, .join = join, .workers = 1};
    if (tide_node_create(&options, &server)) {
        fail_loudly("server");
    }
    for (;;) {
        pause();
    }
}

static pid_t start_server(unsigned i, unsigned generation) {
    char name[32];
    snprintf(name, sizeof name, "s%u-%u", i, generation);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "--serve", tide_node_endpoint(node), name, (char *)NULL);
        _exit(1);
    }
    return pid;
}

/* Of members that are up, and dead. */
static size_t count_members(enum tide_member_state state) {
    uint64_t view;
    size_t limit = tide_net_members(tide_net_of(node), NULL, 0, &view) + 8, found = 0;
    struct tide_member *members = malloc(limit * sizeof *members);
    size_t count = tide_net_members(tide_net_of(node), members, limit, &view);
    for (size_t i = 0; i < count && i < limit; i++) {
        found += members[i].state == state;
    }
    free(members);
    return found;
}

/* So many servers are up, and no copy is missing. */
static void wait_whole(struct tide_table *table, size_t up) {
    for (int i = 0; i < 60000; i++) {
        struct tide_table_health health = {0};
        if (table) {
            tide_table_health(table, &health);
        }
        if (count_members(TIDE_MEMBER_UP) == up + 1 && !health.under_replicated) {
            return;
        }
        nap();
    }
    fail_loudly("the cluster does not get whole");
}

struct creation {
    struct tide_table_options options;
    struct tide_table *table;
    atomic_bool done;
    struct worker *workers;
    unsigned wrong;
    uint64_t lost; /* pushes, with a window */
};

static int create_main(void *state) {
    struct creation *c = state;
    if (tide_table_create(node, &c->options, &c->table)) {
        fail_loudly("create");
    }
    atomic_store(&c->done, true);
    return 0;
}

static int check_main(void *state) {
    struct creation *c = state;
    for (uint64_t key = 0; key < KEYS; key++) {
        float row[WIDTH];
        uint32_t wanted = 0;
        for (unsigned w = 0; w < WORKERS; w++) {
            wanted += c->workers[w].acknowledged[key];
        }
        if (tide_table_pull(c->table, &key, 1, row, NULL)) {
            fail_loudly("pull");
        }
        const bool window = c->options.durability == TIDE_DURABLE_WINDOW;
        if (window && row[0] < (float)wanted && row[0] == row[WIDTH - 1]) {
            c->lost += wanted - (uint32_t)row[0];
        } else if (row[0] != (float)wanted || row[WIDTH - 1] != (float)wanted) {
            printf("key %llu holds %g, acknowledged are %u\n", (unsigned long long)key,
                   (double)row[0], wanted);
            c->wrong++;
        }
    }
    atomic_store(&c->done, true);
    return 0;
}

static void run_fiber(tide_fiber_main run, void *state, uint8_t thread) {
    struct tide_actor_options actor = {.type = "bench",
                                       .run = run,
                                       .state = state,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .thread = thread,
                                       .stack_bytes = 1 << 20};
    tide_address address;
    if (tide_spawn(node, &actor, &address)) {
        fail_loudly("spawn");
    }
}

static void run_and_wait(tide_fiber_main run, struct creation *c) {
    atomic_store(&c->done, false);
    run_fiber(run, c, 0);
    while (!atomic_load(&c->done)) {
        nap();
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct deaths { /* of a kind; seconds */
    const char *kind;
    double *detected, *slowest;
    unsigned count;
};

static void report(const struct deaths *d) {
    double *const times[] = {d->detected, d->slowest};
    static const char *const what[] = {"declared after", "slowest push of a round"};
    for (unsigned i = 0; i < 2 && d->count; i++) {
        char row[80];
        qsort(times[i], d->count, sizeof *times[i], compare);
        snprintf(row, sizeof row, "%s: %s, p50 of %u", d->kind, what[i], d->count);
        report_row(row, "s", times[i][d->count / 2]);
        snprintf(row, sizeof row, "%s: %s, p99", d->kind, what[i]);
        report_row(row, "s", times[i][d->count * 99 / 100]);
    }
}

/* A new one joins, an old one dies: the new one gets the copies that are missing then. */
static void one_round(unsigned round, struct worker *workers, struct tide_table *table, bool silent,
                      struct deaths *deaths) {
    const size_t dead = count_members(TIDE_MEMBER_DEAD);
    const unsigned victim = (unsigned)(tide_mix64(round + 1) % SERVERS);
    const pid_t old = servers[victim];
    servers[victim] = start_server(victim, round + 1);
    wait_whole(table, SERVERS + 1);
    for (unsigned w = 0; w < WORKERS; w++) {
        atomic_store(&workers[w].slowest, 0);
    }
    const uint64_t killed = tide_node_now(node);
    kill(old, silent ? SIGSTOP : SIGKILL);
    while (count_members(TIDE_MEMBER_DEAD) == dead) {
        nap();
    }
    deaths->detected[deaths->count] = (double)(tide_node_now(node) - killed) / 1e9;
    if (silent) {
        kill(old, SIGCONT);
    }
    wait_whole(table, SERVERS);
    kill(old, SIGKILL);
    waitpid(old, NULL, 0);
    double slowest = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
        double took = (double)atomic_load(&workers[w].slowest) / 1e9;
        slowest = took > slowest ? took : slowest;
    }
    deaths->slowest[deaths->count++] = slowest;
}

/* On a busy machine everybody stalls now and then, and nobody is dead. */
static void busy_round(struct tide_table *table) {
    const long spinners = 3 * sysconf(_SC_NPROCESSORS_ONLN);
    pid_t *pids = malloc((size_t)spinners * sizeof *pids);
    for (long i = 0; i < spinners; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned long n = 0;; n++) {
            }
        }
    }
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    for (long i = 0; i < spinners; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    free(pids);
    if (count_members(TIDE_MEMBER_DEAD) > 0) {
        tide_fail(TIDE_EDIED, "somebody who lives was declared dead on a busy machine");
        fail_loudly("busy");
    }
    wait_whole(table, SERVERS);
}

static int rounds_of(unsigned rounds, const char *only, uint8_t replicas, uint8_t durability) {
    struct creation c = {.options = {.name = "counts",
                                     .key_count = KEYS,
                                     .width = WIDTH,
                                     .replicas = replicas,
                                     .durability = durability}};
    static struct worker workers[WORKERS];
    struct deaths deaths[2] = {{.kind = "killed"}, {.kind = "silent"}};
    for (unsigned i = 0; i < 2; i++) {
        deaths[i].detected = calloc(rounds, sizeof(double));
        deaths[i].slowest = calloc(rounds, sizeof(double));
    }
    for (unsigned i = 0; i < SERVERS; i++) {
        servers[i] = start_server(i, 0);
    }
    wait_whole(NULL, SERVERS);
    run_and_wait(create_main, &c);
    c.workers = workers;
    for (unsigned w = 0; w < WORKERS; w++) {
        workers[w].node = node;
        workers[w].table = c.table;
        workers[w].index = w;
        atomic_fetch_add(&running, 1);
        run_fiber(worker_main, &workers[w], (uint8_t)w);
    }
    for (unsigned round = 0; round < rounds; round++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        const bool silent = only ? strcmp(only, "silent") == 0 : round % 2;
        if (only && strcmp(only, "busy") == 0) {
            busy_round(c.table);
        } else {
            one_round(round, workers, c.table, silent, &deaths[silent]);
        }
    }
    atomic_store(&over, true);
    while (atomic_load(&running) > 0) {
        nap();
    }
    run_and_wait(check_main, &c);
    uint64_t pushes = 0;
    int failures = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
        failures += atomic_load(&workers[w].failures);
        for (unsigned key = 0; key < KEYS; key++) {
            pushes += workers[w].acknowledged[key];
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        report(&deaths[i]);
        free(deaths[i].detected);
        free(deaths[i].slowest);
    }
    report_row("acknowledged pushes", "", (double)pushes);
    report_row("pushes that failed", "", failures);
    report_row("keys with lost or doubled pushes", "", c.wrong);
    struct tide_table_stats stats;
    tide_table_stats(c.table, &stats);
    if (durability == TIDE_DURABLE_WINDOW) {
        report_row("pushes lost", "", (double)c.lost);
        report_row("pushes told to be lost, at most", "", (double)stats.lost_updates);
    }
    return c.wrong || failures || c.lost > stats.lost_updates ? 1 : 0;
}

int main(int argc, char **argv) {
    unsigned rounds = 20, replicas = 1;
    uint8_t durability = TIDE_DURABLE_STRICT;
    const char *only = NULL;
    program = argv[0];
    if (argc > 3 && strcmp(argv[1], "--serve") == 0) {
        serve(argv[2], argv[3]);
    }
    report_init(argc, argv, "failover");
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0) {
            rounds = (unsigned)atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--replicas") == 0) {
            replicas = (unsigned)atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--only") == 0) {
            only = argv[i + 1];
        } else if (strcmp(argv[i], "--durability") == 0 && strcmp(argv[i + 1], "window") == 0) {
            durability = TIDE_DURABLE_WINDOW;
        }
    }
    tide_log_set(TIDE_LOG_ERROR, NULL, NULL);
    struct tide_node_options options = {
        .cluster = "failover", .name = "driver", .listen = "tcp:127.0.0.1:0", .workers = 2};
    if (tide_node_create(&options, &node)) {
        fail_loudly("node");
    }
    int code = rounds_of(rounds ? rounds : 1, only, (uint8_t)replicas, durability);
    for (unsigned i = 0; i < SERVERS; i++) {
        kill(servers[i], SIGKILL);
        waitpid(servers[i], NULL, 0);
    }
    tide_node_destroy(node, TIDE_SECOND);
    return code;
}
