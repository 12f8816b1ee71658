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
#include <sys/uio.h>
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

/* Rows that a body is written from or read to, scattered over memory; one row: always the same
 * place. */
struct scattered {
    char *bytes;
    size_t row, rows, next;
    struct iovec *parts; /* of a body */
    int count;
};

static struct scattered scattered(size_t body, size_t row, size_t memory) {
    struct scattered s = {
        .bytes = malloc(memory), .row = row, .rows = memory / row, .count = (int)(body / row)};
    s.parts = malloc((size_t)s.count * sizeof *s.parts);
    memset(s.bytes, 1, memory);
    return s;
}

static void next_body(struct scattered *s) {
    for (int i = 0; i < s->count; i++) {
        s->parts[i] = (struct iovec){s->bytes + s->next++ * 7919 % s->rows * s->row, s->row};
    }
}

static void free_scattered(struct scattered *s) {
    free(s->bytes);
    free(s->parts);
}

/* The process at the other end: what main does for `--stream END BODY ROW MEMORY`. */
static int bare_stream_write(char *const *words) {
    const int end = atoi(words[0]);
    struct scattered from = scattered(strtoull(words[1], NULL, 10), strtoull(words[2], NULL, 10),
                                      strtoull(words[3], NULL, 10));
    do {
        next_body(&from);
    } while (writev(end, from.parts, from.count) > 0);
    free_scattered(&from);
    return 0;
}

/* Of what is to be read, `n` bytes have come. */
static struct iovec *advance(struct iovec *part, size_t n) {
    while (n > 0 && n >= part->iov_len) {
        n -= part++->iov_len;
    }
    if (n > 0) {
        part->iov_base = (char *)part->iov_base + n;
        part->iov_len -= n;
    }
    return part;
}

static void read_body(int end, struct scattered *to) {
    next_body(to);
    struct iovec *part = to->parts, *const past = part + to->count;
    while (part < past) {
        const ssize_t n = readv(end, part, (int)(past - part));
        must(n > 0, "readv");
        part = advance(part, (size_t)n);
    }
}

struct bare {
    double rate;        /* bytes a second */
    double gets, gives; /* ns of processor a byte */
};

/* What another process writes from rows in so much memory, and this one reads to such rows, in
 * bodies of this size, without anything around them. */
static struct bare bare_stream(bool tcp, size_t body, size_t row, size_t memory,
                               uint64_t measure_ns) {
    int ends[2];
    connected_pair(tcp, ends);
    struct scattered to = scattered(body, row, memory);
    char words[4][24];
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    snprintf(words[0], sizeof words[0], "%d", ends[1]);
    snprintf(words[1], sizeof words[1], "%zu", body);
    snprintf(words[2], sizeof words[2], "%zu", row);
    snprintf(words[3], sizeof words[3], "%zu", memory);
    char *const command[] = {"/proc/self/exe", "--stream", words[0], words[1],
                             words[2],         words[3],   NULL};
    pid_t child; /* not by fork, after which every row would be touched for the first time */
    must(posix_spawn(&child, command[0], NULL, NULL, command, environ) == 0, "posix_spawn");
    close(ends[1]);
    uint64_t start = 0, read_bytes = 0, elapsed = 0, here = 0, there = 0;
    for (uint64_t bodies = 0; elapsed < measure_ns; bodies++) {
        read_body(ends[0], &to);
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
    free_scattered(&to);
    return bare;
}

#endif
