/* The ZeroMQ rows that stand beside bench_links: PUSH/PULL between two processes over loopback TCP. */
#include "bench/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double run(const char *endpoint, size_t bytes, uint64_t count) {
    pid_t child = fork();
    if (child == 0) {
        void *context = zmq_ctx_new();
        void *socket = zmq_socket(context, ZMQ_PUSH);
        zmq_connect(socket, endpoint);
        char *body = calloc(1, bytes);
        for (uint64_t i = 0; i <= count; i++) {
            zmq_send(socket, body, bytes, 0);
        }
        zmq_close(socket);
        zmq_ctx_destroy(context);
        _exit(0);
    }
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_PULL);
    zmq_bind(socket, endpoint);
    char *body = malloc(bytes);
    zmq_recv(socket, body, bytes, 0);
    double began = now();
    for (uint64_t i = 0; i < count; i++) {
        zmq_recv(socket, body, bytes, 0);
    }
    double seconds = now() - began;
    zmq_close(socket);
    zmq_ctx_destroy(context);
    waitpid(child, NULL, 0);
    free(body);
    return seconds;
}

int main(int argc, char **argv) {
    report_init(argc, argv, "zeromq");
    report_row("pipelined 64 B", "M messages/s", 3e6 / run("tcp://127.0.0.1:17741", 64, 3000000) / 1e6);
    report_row("payload 64 KB", "MB/s", 20000 * 65536.0 / run("tcp://127.0.0.1:17742", 65536, 20000) / 1e6);
    return 0;
}
