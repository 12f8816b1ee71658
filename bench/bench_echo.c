/*
 * Bare libuv between two processes over loopback TCP: what the machine gives without any runtime on
 * top. The reference figure for bench_links, taken in the same run.   bench_echo [--json]
 *
 * The child serves. A connection begins with a header: the size of one transfer. Size 0: every byte
 * is echoed. Else transfers of that size are read and dropped, one byte answers each.
 */
#include "bench/report.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

enum {
    ROUNDS = 40000,
    WARM_UP = 2000,
    MESSAGE_BYTES = 64,
    IN_FLIGHT = 4,
    BUFFER_BYTES = 256 * 1024
};
static const uint64_t stream_bytes = UINT64_C(1) << 30;

#define CHECK(call) check((call) >= 0, #call)

/* A figure from a run that went wrong is worse than none. */
static void check(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "bench_echo: %s failed\n", what);
        exit(1);
    }
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    static char buffer[BUFFER_BYTES];
    (void)handle;
    (void)suggested;
    *out = uv_buf_init(buffer, sizeof buffer);
}

/* ---- the child ---- */

struct served {
    uv_tcp_t tcp;
    uint64_t transfer, received;
    size_t header;
};

struct late_write {
    uv_write_t request;
    char data[];
};

static void on_late_written(uv_write_t *request, int status) {
    (void)status;
    free(request->data);
}

static void answer(uv_stream_t *stream, const char *data, size_t size) {
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)data, (unsigned)size);
    int n = uv_try_write(stream, &buf, 1);
    size_t done = n > 0 ? (size_t)n : 0;
    if (done < size) {
        struct late_write *late = malloc(sizeof *late + size - done);
        check(late != NULL, "malloc");
        memcpy(late->data, data + done, size - done);
        late->request.data = late;
        buf = uv_buf_init(late->data, (unsigned)(size - done));
        CHECK(uv_write(&late->request, stream, &buf, 1, on_late_written));
    }
}

static void on_served_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void on_served(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    struct served *s = stream->data;
    if (n < 0) {
        uv_close((uv_handle_t *)stream, on_served_closed);
        return;
    }
    const char *data = buf->base;
    size_t left = (size_t)n;
    while (left > 0 && s->header < sizeof s->transfer) {
        ((char *)&s->transfer)[s->header++] = *data++;
        left--;
    }
    if (left == 0) {
        return;
    }
    if (s->transfer == 0) {
        answer(stream, data, left);
        return;
    }
    s->received += left;
    while (s->received >= s->transfer) {
        s->received -= s->transfer;
        answer(stream, "", 1);
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    CHECK(status);
    struct served *s = calloc(1, sizeof *s);
    check(s != NULL, "calloc");
    s->tcp.data = s;
    CHECK(uv_tcp_init(listener->loop, &s->tcp));
    CHECK(uv_accept(listener, (uv_stream_t *)&s->tcp));
    CHECK(uv_tcp_nodelay(&s->tcp, 1));
    CHECK(uv_read_start((uv_stream_t *)&s->tcp, allocate, on_served));
}

/* Tells its port through the pipe and serves until it is killed. */
static void serve(int report) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_t loop;
    uv_tcp_t listener;
    struct sockaddr_in address;
    int size = sizeof address;
    CHECK(uv_loop_init(&loop));
    CHECK(uv_ip4_addr("127.0.0.1", 0, &address));
    CHECK(uv_tcp_init(&loop, &listener));
    CHECK(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0));
    CHECK(uv_listen((uv_stream_t *)&listener, 16, on_connection));
    CHECK(uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size));
    check(write(report, &address.sin_port, sizeof address.sin_port) == sizeof address.sin_port,
          "write");
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(1);
}

/* ---- the parent ---- */

struct client {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uint64_t header; /* size of a transfer; 0: round trips */
    size_t received;
    int round;
    uint64_t began, samples[ROUNDS];
    char *payload;
    uint64_t transfers, sent, answered;
    uv_write_t writes[IN_FLIGHT];
};

static char message[MESSAGE_BYTES];

static void send_message(struct client *c) {
    c->received = 0;
    c->began = uv_hrtime();
    uv_buf_t buf = uv_buf_init(message, sizeof message);
    check(uv_try_write((uv_stream_t *)&c->tcp, &buf, 1) == (int)sizeof message, "uv_try_write");
}

static void on_echo(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    (void)buf;
    struct client *c = stream->data;
    CHECK(n);
    c->received += (size_t)n;
    if (c->received < sizeof message) {
        return;
    }
    if (c->round >= WARM_UP) {
        c->samples[c->round - WARM_UP] = uv_hrtime() - c->began;
    }
    if (++c->round == ROUNDS + WARM_UP) {
        uv_close((uv_handle_t *)stream, NULL);
    } else {
        send_message(c);
    }
}

static void on_sent(uv_write_t *request, int status);

static void send_transfer(struct client *c, uv_write_t *request) {
    if (c->sent < c->transfers) {
        c->sent++;
        uv_buf_t buf = uv_buf_init(c->payload, (unsigned)c->header);
        CHECK(uv_write(request, (uv_stream_t *)&c->tcp, &buf, 1, on_sent));
    }
}

static void on_sent(uv_write_t *request, int status) {
    CHECK(status);
    send_transfer(request->handle->data, request);
}

static void on_answer(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    (void)buf;
    struct client *c = stream->data;
    CHECK(n);
    c->answered += (uint64_t)n;
    if (c->answered == c->transfers) {
        c->samples[0] = uv_hrtime() - c->began;
        uv_close((uv_handle_t *)stream, NULL);
    }
}

static void on_connected(uv_connect_t *connect, int status) {
    struct client *c = connect->data;
    CHECK(status);
    CHECK(uv_tcp_nodelay(&c->tcp, 1));
    uv_buf_t buf = uv_buf_init((char *)&c->header, sizeof c->header);
    check(uv_try_write((uv_stream_t *)&c->tcp, &buf, 1) == (int)sizeof c->header, "uv_try_write");
    CHECK(uv_read_start((uv_stream_t *)&c->tcp, allocate, c->header == 0 ? on_echo : on_answer));
    if (c->header == 0) {
        send_message(c);
        return;
    }
    c->began = uv_hrtime();
    for (int i = 0; i < IN_FLIGHT; i++) {
        send_transfer(c, &c->writes[i]);
    }
}

static void run_client(struct client *c, in_port_t port, uint64_t transfer) {
    memset(c, 0, sizeof *c);
    c->header = transfer;
    if (transfer > 0) {
        c->transfers = stream_bytes / transfer;
        c->payload = malloc(transfer);
        check(c->payload != NULL, "malloc");
        memset(c->payload, 1, transfer); /* pages of its own, not one zero page */
    }
    struct sockaddr_in address;
    uv_loop_t loop;
    CHECK(uv_loop_init(&loop));
    CHECK(uv_tcp_init(&loop, &c->tcp));
    c->tcp.data = c->connect.data = c;
    CHECK(uv_ip4_addr("127.0.0.1", 0, &address));
    address.sin_port = port;
    CHECK(uv_tcp_connect(&c->connect, &c->tcp, (struct sockaddr *)&address, on_connected));
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop));
    free(c->payload);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "libuv");
    int report[2];
    check(pipe(report) == 0, "pipe");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        serve(report[1]);
    }
    in_port_t port;
    check(read(report[0], &port, sizeof port) == sizeof port, "read");

    static struct client c;
    run_client(&c, port, 0);
    qsort(c.samples, ROUNDS, sizeof c.samples[0], by_value);
    report_row("round trip 64 B, TCP, p50", "us", (double)c.samples[ROUNDS / 2] / 1e3);
    report_row("round trip 64 B, TCP, p99", "us", (double)c.samples[ROUNDS / 100 * 99] / 1e3);
    run_client(&c, port, 64 << 10);
    report_row("stream of 64 KB, TCP", "MB/s", (double)stream_bytes * 1e3 / (double)c.samples[0]);
    run_client(&c, port, 4 << 20);
    report_row("stream of 4 MB, TCP", "MB/s", (double)stream_bytes * 1e3 / (double)c.samples[0]);

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
