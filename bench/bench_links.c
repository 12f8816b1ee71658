/*
 * Messages between two node processes: round trip, pipelined small messages, payloads; the bare libuv figures of the
 * same machine come from bench_echo in the same run.
 *   bench_links [--net tcp|unix] [--listen ADDRESS --keys DIR] [--only TEXT] [--json]
 * An address of other machines is under TLS. --only: rows whose name has it.
 */
#include "base/base.h"
#include "bench/report.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 40000, PIPELINED = 3000000, WINDOW = 20000 };
static const uint8_t nil[] = {0xc0};
static struct tide_node *node;
static const char *keys; /* directory; NULL: none */
static const char *only = "";
static atomic_int finished;

/* ---- the other process: echoes casts, counts floods ---- */

static int peer_handle(void *state, const struct tide_message *m) {
    uint64_t *count = state;
    if (m->kind == TIDE_CAST) {
        if (m->size == 1) {
            return tide_send(m->from, TIDE_LANE_CONTROL, m->data, m->size);
        }
        ++*count;
        if (m->data[m->size - 1] == 1) { /* last of a window */
            return tide_send(m->from, TIDE_LANE_CONTROL, nil, sizeof nil);
        }
    }
    return 0;
}

static void peer_process(const char *endpoint) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct tide_node *peer;
    static uint64_t count;
    if (tide_node_create(&(struct tide_node_options){.join = endpoint, .keys = keys, .name = "peer", .workers = 1}, &peer) < 0) {
        fprintf(stderr, "peer: %s\n", tide_error_message());
        _exit(1);
    }
    tide_spawn(peer,
               &(struct tide_actor_options){.name = "peer", .handle = peer_handle, .state = &count, .role = TIDE_ROLE_IO,
                                            .messages_max = 1000000, .bytes_max = 256 << 20},
               NULL);
    for (;;) {
        pause();
    }
}

/* ---- this process ---- */

static tide_address peer_actor;
static uint64_t samples[ROUNDS];
static uint64_t sent_at;
static int round_number;

static int rtt_handle(void *state, const struct tide_message *m) {
    (void)state;
    if (m->kind != TIDE_CAST) {
        return 0;
    }
    uint64_t now = tide_node_now(node);
    if (round_number > 0) {
        samples[round_number - 1] = now - sent_at;
    }
    if (round_number++ == ROUNDS) {
        atomic_store(&finished, 1);
        return 0;
    }
    sent_at = now;
    return tide_send(peer_actor, TIDE_LANE_CONTROL, nil, sizeof nil);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct flood {
    size_t bytes;
    uint64_t count, window, sent, began, ended;
    struct tide_blob *blob;
    enum tide_lane lane;
};

static int flood_window(struct flood *f) {
    static uint8_t body[64] = {0xc4, 62};
    for (uint64_t i = 0; i < f->window; i++) {
        f->sent++;
        bool last = i + 1 == f->window;
        int rc;
        if (f->blob != NULL) {
            uint8_t head[] = {0xc6, (uint8_t)((f->bytes + 1) >> 24), (uint8_t)((f->bytes + 1) >> 16),
                              (uint8_t)((f->bytes + 1) >> 8), (uint8_t)(f->bytes + 1), 0};
            ((uint8_t *)f->blob->data)[f->bytes - 1] = last;
            struct tide_blob *blob = f->blob;
            rc = tide_send_blob(peer_actor, f->lane, head, sizeof head, blob);
        } else {
            body[63] = last;
            rc = tide_send(peer_actor, f->lane, body, sizeof body);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* One window in flight while the next is being sent: the pipe never runs dry. */
static int flood_run(void *state) {
    struct flood *f = state;
    f->began = tide_node_now(node);
    uint64_t answered = 0;
    uint64_t windows = f->count / f->window;
    for (uint64_t w = 0; w < windows; w++) {
        int rc = flood_window(f);
        if (rc < 0) {
            fprintf(stderr, "flood: %s\n", tide_error_message());
            _exit(1);
        }
        while (answered + 2 <= w) {
            const struct tide_message *m;
            tide_receive(TIDE_NEVER, &m);
            tide_message_free(m);
            answered++;
        }
    }
    while (answered < windows) {
        const struct tide_message *m;
        tide_receive(TIDE_NEVER, &m);
        tide_message_free(m);
        answered++;
    }
    f->ended = tide_node_now(node);
    atomic_store(&finished, 1);
    return 0;
}

static void wait_finished(void) {
    while (atomic_load(&finished) == 0) {
        usleep(1000);
    }
    atomic_store(&finished, 0);
}

static int find_peer(void *state) {
    (void)state;
    while (tide_whereis(node, "peer/peer", &peer_actor) < 0) {
        tide_sleep(TIDE_SECOND / 100);
    }
    atomic_store(&finished, 1);
    return 0;
}

static void measure_flood(const char *what, size_t bytes, uint64_t count, uint64_t window, enum tide_lane lane) {
    if (strstr(what, only) == NULL) {
        return;
    }
    struct flood f = {.bytes = bytes, .count = count, .window = window, .lane = lane};
    if (bytes > 64) {
        f.blob = tide_blob_create(bytes);
        memset(f.blob->data, 0, bytes);
    }
    tide_spawn(node, &(struct tide_actor_options){.run = flood_run, .state = &f, .role = TIDE_ROLE_IO}, NULL);
    wait_finished();
    double seconds = (double)(f.ended - f.began) / 1e9;
    if (bytes > 64) {
        report_row(what, "MB/s", (double)f.sent * (double)bytes / seconds / 1e6);
        tide_blob_unref(f.blob);
    } else {
        report_row(what, "M messages/s", (double)f.sent / seconds / 1e6);
    }
}

static void measure_round_trip(void) {
    tide_address rtt;
    if (strstr("round trip, 1 B", only) == NULL) {
        return;
    }
    tide_spawn(node, &(struct tide_actor_options){.handle = rtt_handle, .role = TIDE_ROLE_IO}, &rtt);
    tide_post(node, rtt, nil, sizeof nil);
    wait_finished();
    qsort(samples, ROUNDS, sizeof samples[0], by_value);
    report_row("round trip, 1 B, p50", "us", (double)samples[ROUNDS / 2] / 1e3);
    report_row("round trip, 1 B, p99", "us", (double)samples[ROUNDS * 99 / 100] / 1e3);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "links");
    const char *listen = "tcp:127.0.0.1:0";
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--net") == 0 && strcmp(argv[i + 1], "unix") == 0) {
            listen = NULL;
        } else if (strcmp(argv[i], "--listen") == 0) {
            listen = argv[i + 1];
        } else if (strcmp(argv[i], "--only") == 0) {
            only = argv[i + 1];
        } else if (strcmp(argv[i], "--keys") == 0) {
            keys = argv[i + 1];
        }
    }
    int pipe_fd[2];
    if (pipe(pipe_fd) < 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        char endpoint[256] = "";
        if (read(pipe_fd[0], endpoint, sizeof endpoint - 1) > 0) {
            peer_process(endpoint);
        }
        _exit(1);
    }
    if (tide_node_create(&(struct tide_node_options){.listen = listen, .keys = keys, .no_store = true}, &node) < 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        return 1;
    }
    const char *endpoint = tide_node_endpoint(node);
    if (write(pipe_fd[1], endpoint, strlen(endpoint)) < 0) {
        return 1;
    }
    tide_spawn(node, &(struct tide_actor_options){.run = find_peer, .role = TIDE_ROLE_CONTROL}, NULL);
    wait_finished();
    measure_round_trip();
    measure_flood("pipelined 64 B", 64, PIPELINED, WINDOW, TIDE_LANE_CONTROL);
    measure_flood("payload 64 KB", 64 << 10, 40000, 32, TIDE_LANE_BULK);
    measure_flood("payload 4 MB", 4 << 20, 1000, 2, TIDE_LANE_BULK);
    tide_node_destroy(node, TIDE_SECOND);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
