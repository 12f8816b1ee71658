/*
 * The store. Local rows: one thread on 20,000 keys (5,000 for 1000 floats), shuffled lists of 100
 * keys a call, beside a copy of random rows of the same size in the same run, in time of that
 * thread's processor; pushes by the rules that compute most. With --net unix|tcp: two processes,
 * remote rows: 64 calls outstanding x 100 keys, and synchronous pulls of one key; rows that are
 * relocated; copies of hot keys, and of rows for the case of a death; and with three processes what
 * such copies cost each of the nodes. --only strict|relocation|copies|remote|apart: one of these
 * groups.
 */
#include "bench/bare_stream.h"
#include "bench/copied_rows.h"
#include "tide/clock.h"
#include "tide/placement.h"
#include "tide/stats.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Keys a second of `keys_a_call` keys and `calls` since `start`; 0 until enough was measured. Looks
 * at the clock only now and then. */
static double rate_since(uint64_t start, uint64_t calls, size_t keys_a_call) {
    if (calls % (keys_a_call > 1 ? 64 : 1024)) {
        return 0;
    }
    uint64_t elapsed = report_processor_time() - start;
    return elapsed < MEASURE_NS ? 0 : (double)(calls * keys_a_call) / (double)elapsed * 1e9;
}

/* ---- local ---- */

static double copy_rows(const uint64_t *lists, size_t keys_a_call, uint64_t key_count, size_t width,
                        bool in) {
    float *table = calloc(key_count * width, sizeof *table),
          *rows = calloc(keys_a_call * width, sizeof *rows);
    memset(table, 1, key_count * width * sizeof *table);
    uint64_t start = report_processor_time();
    double rate = 0;
    for (size_t i = 0; rate == 0; i++) {
        const uint64_t *list = lists + i % LISTS * keys_a_call;
        for (size_t j = 0; j < keys_a_call; j++) {
            float *row = table + list[j] * width, *mine = rows + j * width;
            memcpy(in ? row : mine, in ? mine : row, width * sizeof *row);
        }
        rate = rate_since(start, i + 1, keys_a_call);
    }
    free(table);
    free(rows);
    return rate;
}

static double run_local(struct tide_table *table, const uint64_t *lists, size_t keys_a_call,
                        bool in) {
    float *rows = calloc(keys_a_call * table->width, sizeof *rows);
    uint64_t start = report_processor_time();
    double rate = 0;
    for (size_t i = 0; rate == 0; i++) {
        const uint64_t *list = lists + i % LISTS * keys_a_call;
        int code = in ? tide_table_push(table, list, keys_a_call, rows, NULL)
                      : tide_table_pull(table, list, keys_a_call, rows, NULL);
        if (code) {
            fail_loudly("local");
        }
        rate = rate_since(start, i + 1, keys_a_call);
    }
    free(rows);
    return rate;
}

/* A table of one process, every row of which exists. */
static struct tide_table *open_table(struct tide_table_options options) {
    struct tide_store *store;
    struct tide_table *table;
    options.name = "w";
    if (tide__store_create_bare(&store) || tide__table_create_in(store, &options, &table)) {
        fail_loudly("create");
    }
    float *ones = calloc(options.width, sizeof *ones);
    for (uint64_t key = 0; key < options.key_count; key++) {
        (void)tide_table_push(table, &key, 1, ones, NULL);
    }
    free(ones);
    return table;
}

static void local_rows(size_t width, size_t keys_a_call) {
    const uint64_t key_count = width == 1000 ? 5000 : 20000;
    struct tide_table *table = open_table(
        (struct tide_table_options){.key_count = key_count, .width = (uint32_t)width});
    uint64_t *lists = key_lists(LISTS, keys_a_call, key_count);
    for (int in = 0; in < 2; in++) {
        char what[80];
        snprintf(what, sizeof what, "local %s, %zu floats, %zu keys a call", in ? "push" : "pull",
                 width, keys_a_call);
        double rate = run_local(table, lists, keys_a_call, in);
        report_row(what, "keys/s", rate);
        double copied = copy_rows(lists, keys_a_call, key_count, width, in);
        snprintf(what, sizeof what, "  copy %s random rows, %zu floats", in ? "to" : "of", width);
        report_row(what, "keys/s", copied);
    }
    free(lists);
    tide_store_destroy(table->store);
}

/* Rows of 200 values, as ComplEx's with 100 dimensions, so few that they stay in the second cache. */
static void local_rules(void) {
    enum { KEYS = 200, FLOATS = 200 };
    static const char *const names[] = {
        [TIDE_UPDATE_ADD] = "add", [TIDE_UPDATE_ADAGRAD] = "adagrad", [TIDE_UPDATE_ADAM] = "adam"};
    uint64_t *lists = key_lists(LISTS, KEYS_A_CALL, KEYS);
    for (uint8_t update = 0; update < TIDE_COUNT(names); update++) {
        if (names[update]) {
            char what[80];
            snprintf(what, sizeof what, "local push by rule %s, %d floats", names[update], FLOATS);
            struct tide_table *table = open_table((struct tide_table_options){
                .key_count = KEYS, .width = FLOATS, .update = update, .lr = 0.1f});
            report_row(what, "keys/s", run_local(table, lists, KEYS_A_CALL, true));
            tide_store_destroy(table->store);
        }
    }
    free(lists);
}

/* ---- remote ---- */

struct remote {
    struct tide_node *node;
    const char *only; /* group of rows; NULL: all */
    bool apart;       /* with two servers */
    atomic_int done;
};
enum { SERVERS_MAX = 2 };

static bool over_tcp;                  /* else Unix sockets */
static pid_t servers[SERVERS_MAX + 1]; /* the processes of the other nodes */
static int
    to_servers[SERVERS_MAX]; /* names of tables whose rows one is to take back, a line each */

static int compare_times(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void one_by_one(struct tide_table *table, const uint64_t *keys, size_t count) {
    enum { CALLS = 10000 };
    uint64_t *times = malloc(CALLS * sizeof *times);
    float row[1000];
    for (size_t i = 0; i < CALLS; i++) {
        uint64_t start = report_now();
        if (tide_table_pull(table, &keys[i * 7919 % count], 1, row, NULL)) {
            fail_loudly("remote pull");
        }
        times[i] = report_now() - start;
    }
    qsort(times, CALLS, sizeof *times, compare_times);
    report_row("remote sync pull, 100 floats, 1 key, p50", "us", (double)times[CALLS / 2] / 1e3);
    report_row("remote sync pull, 100 floats, 1 key, p99", "us",
               (double)times[CALLS * 99 / 100] / 1e3);
    free(times);
}

/* All rows of the table are at the other node again. */
static void send_back(struct tide_table *table, const uint64_t *keys, size_t count) {
    const struct timespec pause = {.tv_nsec = 1000000};
    dprintf(to_servers[0], "%s\n", table->name);
    for (size_t i = 0; i < count; i++) {
        uint16_t owner = 0;
        while (tide_table_where(table, keys[i], &owner) == 0 &&
               owner == tide_node_id(table->store->node)) {
            nanosleep(&pause, NULL);
        }
    }
}

struct moved {
    double rate, gets, gives; /* bytes a second; ns of processor a byte, here and there */
};

/* `calls` of them, one after the other. */
static struct moved move_here(struct tide_table *table, const uint64_t *keys, size_t keys_a_call,
                              size_t calls, uint64_t *times) {
    const size_t row_bytes = table->width * sizeof(float);
    const uint64_t here = processor_time_of(getpid()), there = processor_time_of(servers[0]),
                   begun = report_now();
    for (size_t i = 0; i < calls; i++) {
        const uint64_t start = report_now();
        if (tide_table_localize(table, keys + i * keys_a_call, keys_a_call, NULL)) {
            fail_loudly("localize");
        }
        times[i] = report_now() - start;
    }
    const double bytes = (double)(calls * keys_a_call * row_bytes),
                 seconds = (double)(report_now() - begun) / 1e9;
    qsort(times, calls, sizeof *times, compare_times);
    return (struct moved){.rate = bytes / seconds,
                          .gets = (double)(processor_time_of(getpid()) - here) / bytes,
                          .gives = (double)(processor_time_of(servers[0]) - there) / bytes};
}

/* Rows go back and come again, to where such rows were before: the first touch of memory costs more
 * than anything else. Beside what a bare stream carries before and after, in turn; medians. */
static void move_again(struct tide_table *table, const uint64_t *keys, size_t keys_a_call,
                       size_t calls, uint64_t *times) {
    enum { ROUNDS = 5, FIGURES = 7 };
    static const char *const names[FIGURES][2] = {
        {"  again, to where such rows were before", "keys/s"},
        {"  a bare stream of bodies of that size", "MB/s"},
        {"  rows moved, over a bare stream", "x"},
        {"  a bare stream from and to so many scattered rows", "MB/s"},
        {"  rows moved, over that one", "x"},
        {"  processor time to get, a bare stream over it", "x"},
        {"  processor time to give, a bare stream over it", "x"}};
    double figures[FIGURES][ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        send_back(table, keys, calls * keys_a_call);
        const size_t row = table->width * sizeof(float), body = keys_a_call * row;
        const struct bare before = bare_stream(over_tcp, body, body, body, MEASURE_NS / 2);
        const struct moved m = move_here(table, keys, keys_a_call, calls, times);
        const struct bare after = bare_stream(over_tcp, body, body, body, MEASURE_NS / 2);
        const double bare = (before.rate + after.rate) / 2;
        const double rows = bare_stream(over_tcp, body, row, calls * body, MEASURE_NS / 2).rate;
        figures[0][i] = m.rate / (double)body * (double)keys_a_call;
        figures[1][i] = bare / 1e6;
        figures[2][i] = m.rate / bare;
        figures[3][i] = rows / 1e6;
        figures[4][i] = m.rate / rows;
        figures[5][i] = (before.gets + after.gets) / 2 / m.gets;
        figures[6][i] = (before.gives + after.gives) / 2 / m.gives;
    }
    for (int i = 0; i < FIGURES; i++) {
        report_row(names[i][0], names[i][1], median_of(figures[i], ROUNDS));
    }
}

/* Rows come here: `keys_a_call` at a time, waiting after each call. Every key moves once; large
 * ones go back and come again. */
static void relocation(struct tide_node *node, uint32_t width, size_t keys_a_call) {
    struct tide_table *table;
    char name[32], what[80];
    snprintf(name, sizeof name, "r%u_%zu", width, keys_a_call);
    const size_t most = keys_a_call == 1 ? 5000 : 50000;
    struct tide_table_options options = {
        .name = name, .key_count = 2 * most + 8192, .width = width, .technique = TIDE_RELOCATE};
    if (tide_table_create(node, &options, &table)) {
        fail_loudly("create");
    }
    size_t count;
    uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
    struct tide_random random;
    tide_random_seed(&random, 7);
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)tide_random_below(&random, i + 1);
        uint64_t key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
    float *ones = calloc(count * width, sizeof *ones);
    if (tide_table_push(table, keys, count, ones, NULL)) {
        fail_loudly("fill");
    }
    free(ones);
    const size_t calls = most / keys_a_call;
    uint64_t *times = malloc(calls * sizeof *times);
    struct moved moved = move_here(table, keys, keys_a_call, calls, times);
    if (keys_a_call == 1) {
        snprintf(what, sizeof what, "relocate 1 key, %u floats, p50", width);
        report_row(what, "us", (double)times[calls / 2] / 1e3);
    } else {
        snprintf(what, sizeof what, "relocate %zu keys a call, %u floats", keys_a_call, width);
        report_row(what, "keys/s", moved.rate / (double)(width * sizeof(float)));
        report_row("  the median call", "keys/s",
                   (double)keys_a_call / (double)times[calls / 2] * 1e9);
    }
    if (keys_a_call * width * sizeof(float) > 1 << 20) {
        move_again(table, keys, keys_a_call, calls, times);
    }
    free(times);
    free(keys);
}

/* Copies of hot keys whose rows are at the other node, and keys that come because somebody intends
 * to use them: from the call until the row is here. */
static void shared_rows(struct tide_node *node, uint32_t width) {
    enum { HOT = 1000, ONE_BY_ONE = 400 };
    struct tide_table *table, *intended;
    char what[80];
    struct tide_table_options options = {
        .name = width == 10 ? "hot10" : "hot100", .key_count = 20000, .width = width};
    if (tide_table_create(node, &options, &table)) {
        fail_loudly("create");
    }
    options.name = width == 10 ? "intent10" : "intent100";
    options.technique = TIDE_INTENT;
    if (tide_table_create(node, &options, &intended)) {
        fail_loudly("create");
    }
    size_t count;
    uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
    const uint16_t here = tide_node_id(node);
    const struct tide_share_options share = {.nodes = &here, .node_count = 1};
    struct tide_share_stats stats = {0};
    if (tide_table_manage(table, keys, HOT, TIDE_REPLICATE, &share)) {
        fail_loudly("manage");
    }
    for (int i = 0; i < 5000 && stats.copies < HOT; i++) {
        (void)tide_sleep(1000000);
        tide_table_share_stats(table, &stats);
    }
    for (int in = 0; in < 2; in++) {
        snprintf(what, sizeof what, "copies, %s, %u floats, 64 x 100 keys", in ? "push" : "pull",
                 width);
        report_row(what, "keys/s", outstanding(table, keys, HOT, KEYS_A_CALL, in));
    }
    uint64_t times[ONE_BY_ONE], localized[ONE_BY_ONE];
    if (tide_worker_begin(node, 0, 0)) {
        fail_loudly("worker");
    }
    for (size_t i = 0; i < ONE_BY_ONE; i++) { /* in turn, so that a loaded machine is so for both */
        uint64_t start = report_now();
        float row[100];
        uint64_t hit = 0;
        if (tide_table_localize(intended, keys + ONE_BY_ONE + i, 1, NULL)) {
            fail_loudly("localize");
        }
        localized[i] = report_now() - start;
        start = report_now();
        if (tide_table_intent(intended, keys + i, 1, 0, 1)) {
            fail_loudly("intent");
        }
        while (!tide_table_pull_local(intended, keys + i, 1, row, &hit)) {
            /* meanwhile, for the processor's sake */
            if (tide_table_pull(intended, keys + i, 1, row, NULL)) {
                fail_loudly("pull");
            }
        }
        times[i] = report_now() - start;
    }
    tide_worker_end();
    qsort(times, ONE_BY_ONE, sizeof *times, compare_times);
    snprintf(what, sizeof what, "intent to row here, 1 key, %u floats, p50", width);
    report_row(what, "us", (double)times[ONE_BY_ONE / 2] / 1e3);
    qsort(localized, ONE_BY_ONE, sizeof *localized, compare_times);
    report_row("  over a localize of such a key, p50", "x",
               (double)times[ONE_BY_ONE / 2] / (double)localized[ONE_BY_ONE / 2]);
    free(keys);
}

static void relocations(struct tide_node *node) {
    relocation(node, 10, 1);
    relocation(node, 100, 1);
    relocation(node, 10, 1000);
    relocation(node, 100, 1000);
    relocation(node, 1000, 1000);
}

static void shared(struct tide_node *node) {
    shared_rows(node, 10);
    shared_rows(node, 100);
}

static void remote_accesses(struct tide_node *node) {
    static const uint32_t widths[] = {10, 100};
    for (size_t w = 0; w < TIDE_COUNT(widths); w++) {
        struct tide_table *table;
        char name[16], what[80];
        snprintf(name, sizeof name, "w%u", widths[w]);
        struct tide_table_options options = {.name = name, .key_count = 20000, .width = widths[w]};
        if (tide_table_create(node, &options, &table)) {
            fail_loudly("create");
        }
        size_t count;
        uint64_t *keys = remote_keys(table, tide_node_id(node), &count);
        float *ones = calloc(count * widths[w], sizeof *ones);
        if (tide_table_push(table, keys, count, ones, NULL)) {
            fail_loudly("fill");
        }
        free(ones);
        for (int in = 0; in < 2; in++) {
            snprintf(what, sizeof what, "remote %s, %u floats, 64 x 100 keys", in ? "push" : "pull",
                     widths[w]);
            report_row(what, "keys/s", outstanding(table, keys, count, KEYS_A_CALL, in));
        }
        if (widths[w] == 100) {
            one_by_one(table, keys, count);
            report_row("remote pull, 100 floats, 64 x 1 key", "keys/s",
                       outstanding(table, keys, count, 1, false));
        }
        free(keys);
    }
}

static void strict(struct tide_node *node) {
    const pid_t processes[] = {getpid(), servers[0], 0};
    copied_rows(node, processes);
}

static void apart(struct tide_node *node) {
    const pid_t processes[] = {getpid(), servers[0], servers[1], 0};
    home_process = servers[0];
    copied_apart(node, processes, 2, 3);
}

static const struct {
    const char *name;
    void (*run)(struct tide_node *node);
} groups[] = {{"strict", strict},
              {"relocation", relocations},
              {"copies", shared},
              {"remote", remote_accesses}};

static int remote_main(void *state) {
    struct remote *remote = state;
    if (remote->apart) {
        apart(remote->node);
    }
    for (size_t i = 0; i < TIDE_COUNT(groups) && !remote->apart; i++) {
        if (!remote->only || strcmp(remote->only, groups[i].name) == 0) {
            groups[i].run(remote->node);
        }
    }
    atomic_store(&remote->done, 1);
    return 0;
}

struct errand {
    struct tide_node *node;
    char table[64];
};

/* The rows that are at home here come back. */
static int take_back(void *state) {
    struct errand *errand = state;
    struct tide_table *table;
    uint64_t keys[1000];
    size_t count = 0;
    if (tide_table_find(errand->node, errand->table, &table)) {
        fail_loudly("find");
    }
    for (uint64_t key = 0; key <= table->options.key_count; key++) {
        const bool end = key == table->options.key_count;
        if (!end && (tide__route_of(table, tide__slot_of(table, key)) & TIDE__MINE)) {
            keys[count++] = key;
        }
        if ((end || count == TIDE_COUNT(keys)) && count) {
            if (tide_table_localize(table, keys, count, NULL)) {
                fail_loudly("localize");
            }
            count = 0;
        }
    }
    free(errand);
    return 0;
}

/* Until `release` ends; it names tables whose rows are to come back. */
static int serve(const char *join, int release) {
    struct tide_node *node;
    struct tide_node_options options = {.cluster = "bench", .join = join, .workers = 1};
    if (tide_node_create(&options, &node)) {
        fprintf(stderr, "bench_store: server: %s\n", tide_error_message());
        return 1;
    }
    FILE *errands = fdopen(release, "r");
    struct errand *errand = malloc(sizeof *errand);
    while (fgets(errand->table, sizeof errand->table, errands)) {
        const struct tide_actor_options actor = {
            .type = "errand", .run = take_back, .state = errand, .role = TIDE_ROLE_COMPUTE};
        tide_address address;
        errand->table[strcspn(errand->table, "\n")] = 0;
        errand->node = node;
        if (tide_spawn(node, &actor, &address)) {
            fail_loudly("spawn");
        }
        errand = malloc(sizeof *errand);
    }
    free(errand);
    tide_node_destroy(node, TIDE_SECOND);
    return 0;
}

/* Starts one more process, and waits until it is a member. */
static void add_server(struct tide_node *node, const char *program) {
    unsigned at = 0;
    while (servers[at]) {
        at++;
    }
    int release[2];
    must(pipe(release) == 0, "pipe");
    must(fcntl(release[1], F_SETFD, FD_CLOEXEC) == 0,
         "fcntl"); /* of this process alone: it ends the server */
    to_servers[at] = release[1];
    servers[at] = fork();
    if (servers[at] == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", release[0]);
        execl(program, program, "--serve", tide_node_endpoint(node), number, (char *)NULL);
        _exit(1);
    }
    close(release[0]);
    for (int i = 0; i < 5000; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        struct tide_member member;
        struct tide_net *tide_net_of(struct tide_node *);
        if (tide_net_member(tide_net_of(node), (uint16_t)(2 + at), &member) &&
            member.state == TIDE_MEMBER_UP) {
            return;
        }
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "bench_store: a server did not join\n");
    exit(1);
}

static void end_servers(void) {
    for (unsigned i = 0; servers[i]; i++) {
        int status;
        close(to_servers[i]);
        waitpid(servers[i], &status, 0);
        servers[i] = 0;
    }
}

static int remote_rows(const char *net, const char *only, const char *program, bool three) {
    char directory[] = "/tmp/tide-bench-XXXXXX", listen[128] = "tcp:127.0.0.1:0";
    if (!mkdtemp(directory)) {
        return 1;
    }
    over_tcp = strcmp(net, "unix") != 0;
    if (!over_tcp) {
        snprintf(listen, sizeof listen, "unix:%s/socket", directory);
    }
    struct remote remote = {.only = only, .apart = three};
    struct tide_node_options options = {
        .cluster = "bench", .name = "origin", .listen = listen, .workers = 1};
    if (tide_node_create(&options, &remote.node)) {
        fail_loudly("node");
    }
    for (int i = 0; i < (three ? 2 : 1); i++) {
        add_server(remote.node, program);
    }
    struct tide_actor_options actor = {.type = "bench",
                                       .run = remote_main,
                                       .state = &remote,
                                       .role = TIDE_ROLE_COMPUTE,
                                       .stack_bytes = 1 << 20};
    tide_address address;
    if (tide_spawn(remote.node, &actor, &address)) {
        fail_loudly("spawn");
    }
    while (!atomic_load(&remote.done)) {
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    end_servers();
    tide_node_destroy(remote.node, TIDE_SECOND);
    unlink(listen + 5);
    rmdir(directory);
    return 0;
}

static bool understood(const char *net, const char *only) {
    bool known = !only || strcmp(only, "apart") == 0;
    for (size_t i = 0; i < TIDE_COUNT(groups) && !known; i++) {
        known = strcmp(only, groups[i].name) == 0;
    }
    return net ? known && (strcmp(net, "unix") == 0 || strcmp(net, "tcp") == 0) : !only;
}

int main(int argc, char **argv) {
    report_init(argc, argv, "store");
    tide__memory_keep(); /* as the program does */
    if (argc > 3 && strcmp(argv[1], "--serve") == 0) {
        return serve(argv[2], atoi(argv[3]));
    }
    if (argc > 5 && strcmp(argv[1], "--stream") == 0) {
        return bare_stream_write(argv + 2);
    }
    const char *net = NULL, *only = NULL;
    for (int i = 1; i + 1 < argc; i++) {
        net = strcmp(argv[i], "--net") == 0 ? argv[i + 1] : net;
        only = strcmp(argv[i], "--only") == 0 ? argv[i + 1] : only;
    }
    if (!understood(net, only)) {
        fputs("bench_store: options are [--json] [--net unix|tcp "
              "[--only strict|relocation|copies|remote|apart]]\n",
              stderr);
        return 2;
    }
    if (net) {
        const bool three = only && strcmp(only, "apart") == 0;
        int code = three ? 0 : remote_rows(net, only, argv[0], false);
        code = code || (only && !three) ? code : remote_rows(net, only, argv[0], true);
        return code;
    }
    local_rows(10, 100);
    local_rows(10, 1);
    local_rows(100, 100);
    local_rows(1000, 100);
    local_rules();
    return 0;
}
