/* What a socket between two processes carries without anything around it: the limit that transfers
 * are measured by. */
#ifndef BENCH_BARE_STREAM_H
#define BENCH_BARE_STREAM_H

#include "bench/report.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ns that a process has computed: on a machine that others use too, a ratio of these holds. */
static uint64_t processor_time_of(pid_t process) {
    clockid_t id;
    return clock_getcpuclockid(process, &id) == 0 ? report_time_of(id) : 0;
}

static void must(bool good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void connected_pair(bool tcp, int ends[2]) {
    if (!tcp) {
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
        return;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
             getsockname(listener, (struct sockaddr *)&address, &size) == 0,
         "listen");
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(ends[1], (struct sockaddr *)&address, size) == 0, "connect");
    ends[0] = accept(listener, NULL, NULL);
    must(ends[0] >= 0, "accept");
    close(listener);
}

/* The process at the other end: what main does for `--stream END BODY`. */
static int bare_stream_write(int end, size_t body) {
    char *bytes = malloc(body);
    memset(bytes, 1, body);
    while (write(end, bytes, body) > 0) {
    }
    return 0;
}

struct bare {
    double rate;        /* bytes a second */
    double gets, gives; /* ns of processor a byte */
};

/* What another process writes, in bodies of this size, and this one reads to one place, without
 * anything around them. */
static struct bare bare_stream(bool tcp, size_t body, uint64_t measure_ns) {
    int ends[2];
    connected_pair(tcp, ends);
    char *bytes = malloc(body), end[16], size[24];
    memset(bytes, 1, body);
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    snprintf(end, sizeof end, "%d", ends[1]);
    snprintf(size, sizeof size, "%zu", body);
    char *const words[] = {"/proc/self/exe", "--stream", end, size, NULL};
    pid_t child; /* not by fork, after which every row would be touched for the first time */
    must(posix_spawn(&child, words[0], NULL, NULL, words, environ) == 0, "posix_spawn");
    close(ends[1]);
    uint64_t start = 0, read_bytes = 0, elapsed = 0, here = 0, there = 0;
    for (uint64_t bodies = 0; elapsed < measure_ns; bodies++) {
        for (size_t at = 0; at < body;) {
            const ssize_t n = read(ends[0], bytes + at, body - at);
            must(n > 0, "read");
            at += (size_t)n;
        }
        if (bodies == 0) { /* warm-up */
            start = report_now();
            here = report_processor_time();
            there = processor_time_of(child);
        }
        read_bytes += bodies == 0 ? 0 : body;
        elapsed = report_now() - start;
    }
    const double read = (double)read_bytes;
    const struct bare bare = {.rate = read / (double)elapsed * 1e9,
                              .gets = (double)(report_processor_time() - here) / read,
                              .gives = (double)(processor_time_of(child) - there) / read};
    close(ends[0]); /* ends the child */
    waitpid(child, NULL, 0);
    free(bytes);
    return bare;
}

#endif
