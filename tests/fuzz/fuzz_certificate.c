/* What strangers show before they are believed: the URI of a certificate, a certificate, and the bytes of a TLS server's
 * peer. Nothing of it may crash, or be taken for somebody it does not say. */
#define OPENSSL_SUPPRESS_DEPRECATED 1
#include "net/tls/tls.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tide_tls *server;

static void write_file(const char *directory, const char *name, const char *text) {
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0 || chmod(path, 0600) != 0) {
        abort();
    }
}

/* A server with keys of its own, the same in every run; its files are gone again. */
static void make_server(void) {
    struct tide_port *port;
    struct tide_random random;
    char directory[] = "/tmp/tide-fuzz-XXXXXX", path[300];
    char *authority, *authority_key, *certificate, *key;
    struct tide_identity who = {.right = TIDE_RIGHT_NODE, .cluster = "lab", .name = "*"};
    tide_random_seed(&random, 7);
    if (mkdtemp(directory) == NULL || tide_port_real_create(1, &port) != 0 ||
        tide_keys_make_authority("lab", 1700000000, &random, &authority, &authority_key) != 0 ||
        tide_keys_issue(authority, authority_key, &who, 1700000000, 7300, &random, &certificate, &key) != 0) {
        abort();
    }
    write_file(directory, "ca.pem", authority);
    write_file(directory, "cert.pem", certificate);
    write_file(directory, "key.pem", key);
    if (tide__tls_open(port, directory, "lab", &server) != 0) {
        abort();
    }
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};
    for (size_t i = 0; i < TIDE_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(directory);
    tide_free(authority);
    tide_free(authority_key);
    tide_free(certificate);
    tide_free(key);
}

/* Who is named writes the same URI again, and has names that are names. */
static void uri(const uint8_t *data, size_t size) {
    struct tide_identity who;
    char again[256];
    if (tide_identity_parse((const char *)data, size, &who) != 0) {
        return;
    }
    const int length =
        snprintf(again, sizeof again, "tide://%s/%s/%s", who.cluster, tide_right_name(who.right), who.name);
    const bool any = strcmp(who.name, "*") == 0;
    if ((size_t)length != size || memcmp(again, data, size) != 0 || who.right == TIDE_RIGHT_NONE ||
        !tide_identifier_valid(who.cluster) || (any ? who.right != TIDE_RIGHT_NODE : !tide_identifier_valid(who.name))) {
        abort();
    }
}

static void certificate(const uint8_t *data, size_t size) {
    const uint8_t *at = data;
    struct tide_identity who;
    X509 *x509 = d2i_X509(NULL, &at, (long)size);
    ERR_clear_error();
    if (x509 != NULL && tide__identity_of(x509, &who) == 0 && who.right == TIDE_RIGHT_NONE) {
        abort();
    }
    X509_free(x509);
    ERR_clear_error();
}

/* Without the authority's key nobody gets through. */
static void peer(const uint8_t *data, size_t size) {
    struct tide_tls_session *s = tide__tls_begin(server, true);
    if (s == NULL) {
        abort();
    }
    int state = 0;
    for (size_t at = 0; at < size && state == 0;) {
        const size_t piece = size - at < 700 ? size - at : 700;
        tide__tls_feed(s, data + at, piece);
        state = tide__tls_handshake(s);
        tide__tls_feed(s, NULL, 0);
        size_t output;
        (void)tide__tls_output(s, &output);
        tide__tls_written(s, output);
        at += piece;
    }
    if (state > 0) {
        abort();
    }
    tide__tls_end(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (server == NULL) {
        make_server();
    }
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        uri(data + 1, size - 1);
        break;
    case 1:
        certificate(data + 1, size - 1);
        break;
    default:
        peer(data + 1, size - 1);
    }
    return 0;
}
