/*
 * Handshakes of TLS between two ends in one process, without sockets: processor time of both ends together, and what
 * 10,000 of them leave in memory.
 *   bench_tls [--json]
 */
#include "bench/report.h"
#include "net/tls/tls.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

enum { WARM = 200, ROUNDS = 1000, MANY = 10000 };

static struct tide_port *port;

static void write_file(const char *directory, const char *name, const char *text) {
    char path[300];
    struct tide_file *file;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (port->ops->file_open(port, path, TIDE_FILE_WRITE | TIDE_FILE_CREATE | TIDE_FILE_PRIVATE, &file) < 0 ||
        port->ops->file_write(file, text, strlen(text), 0) < 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        exit(1);
    }
    port->ops->file_close(file);
}

/* Keys of a cluster's nodes in a directory. */
static void make_keys(const char *directory) {
    char *authority, *authority_key, *certificate, *key;
    const int64_t now = (int64_t)(port->ops->wall(port) / TIDE_SECOND);
    struct tide_identity who = {.right = TIDE_RIGHT_NODE, .cluster = "lab", .name = "*"};
    if (tide_keys_make_authority("lab", now, NULL, &authority, &authority_key) < 0 ||
        tide_keys_issue(authority, authority_key, &who, now, 30, NULL, &certificate, &key) < 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        exit(1);
    }
    write_file(directory, "ca.pem", authority);
    write_file(directory, "cert.pem", certificate);
    write_file(directory, "key.pem", key);
    tide_free(authority);
    tide_free(authority_key);
    tide_free(certificate);
    tide_free(key);
}

static bool carry(struct tide_tls_session *from, struct tide_tls_session *to, int *state) {
    static uint8_t bytes[64 << 10];
    size_t size;
    const uint8_t *output = tide__tls_output(from, &size);
    if (size == 0) {
        return false;
    }
    memcpy(bytes, output, size);
    tide__tls_written(from, size);
    tide__tls_feed(to, bytes, size);
    if (*state == 0) {
        *state = tide__tls_handshake(to);
    }
    tide__tls_feed(to, NULL, 0);
    return true;
}

static void shake(struct tide_tls *client, struct tide_tls *server) {
    struct tide_tls_session *end[2] = {tide__tls_begin(client, false), tide__tls_begin(server, true)};
    int state[2] = {tide__tls_handshake(end[0]), 0};
    while (carry(end[0], end[1], &state[1]) || carry(end[1], end[0], &state[0])) {
    }
    if (state[0] != 1 || state[1] != 1) {
        fprintf(stderr, "no handshake: %s, %s\n", tide__tls_reason(end[0]), tide__tls_reason(end[1]));
        exit(1);
    }
    tide__tls_end(end[0]);
    tide__tls_end(end[1]);
}

int main(int argc, char **argv) {
    report_init(argc, argv, "tls");
    char directory[] = "/tmp/tide-bench-tls-XXXXXX";
    struct tide_tls *client, *server;
    if (mkdtemp(directory) == NULL || tide_port_real_create(0, &port) < 0) {
        return 1;
    }
    make_keys(directory);
    if (tide__tls_open(port, directory, "lab", &client) < 0 || tide__tls_open(port, directory, "lab", &server) < 0) {
        fprintf(stderr, "%s\n", tide_error_message());
        return 1;
    }
    for (unsigned i = 0; i < WARM; i++) {
        shake(client, server);
    }
    const uint64_t began = report_processor_time();
    for (unsigned i = 0; i < ROUNDS; i++) {
        shake(client, server);
    }
    report_row("handshake, both ends", "ms of a processor", (double)(report_processor_time() - began) / 1e6 / ROUNDS);
    const size_t before = mallinfo2().uordblks;
    for (unsigned i = 0; i < MANY; i++) {
        shake(client, server);
    }
    report_row("memory that 10,000 handshakes leave", "bytes", (double)mallinfo2().uordblks - (double)before);
    tide__tls_close(client);
    tide__tls_close(server);
    for (const char *const *name = (const char *const[]){"ca.pem", "cert.pem", "key.pem", NULL}; *name; name++) {
        char path[300];
        (void)snprintf(path, sizeof path, "%s/%s", directory, *name);
        (void)unlink(path);
    }
    (void)rmdir(directory);
    return 0;
}
