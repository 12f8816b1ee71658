/* TLS through buffers: see tls.h. With keys.c the only user of OpenSSL's sessions. */
#include "net/tls/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { CHAIN_BYTES = 16 << 10, SPARE_BYTES = 3 * TIDE_TLS_BATCH, BELIEVED = 64, BELIEVED_S = 3600, SUM = 32 };
#define KEY_AGE (3600 * TIDE_SECOND)

uint64_t tide__tls_records_max = UINT64_C(1) << 23;

/* A certificate that OpenSSL believed: its chain and purpose hold for any peer that shows the same bytes again. */
struct believed {
    uint8_t sum[SUM]; /* SHA-256 of its DER */
    bool as_client;
    int64_t until; /* wall seconds; then it is verified anew. 0: no entry */
};

struct tide_tls {
    struct tide_port *port;
    char directory[300], cluster[64];
    SSL_CTX *context;
    struct tide_identity self;
    char (*revoked)[TIDE_SERIAL_SIZE];
    size_t revoked_count;
    uint64_t stamp;            /* of the files that this was read from */
    struct tide_random random; /* simulated: all that OpenSSL draws for this node */
    uint8_t *input;
    struct believed believed[BELIEVED]; /* by the present authority; newest over oldest */
    size_t believed_next;
    uint8_t *spare; /* output that no session has at the moment: SPARE_BYTES; NULL */
};

struct tide_tls_session {
    struct tide_tls *tls;
    SSL *ssl;
    const uint8_t *input;
    size_t input_size;
    uint8_t *out; /* [at, size) is to be written */
    size_t out_at, out_size, out_capacity;
    uint64_t records, keyed_at;
    struct tide_identity peer;
    char reason[200];
};

/* ---- bytes: a BIO over the session's buffers ---- */

static bool grow_output(struct tide_tls_session *s, size_t more) {
    if (!s->out && s->tls->spare) {
        s->out = s->tls->spare;
        s->out_capacity = SPARE_BYTES;
        s->tls->spare = NULL;
    }
    if (s->out_size + more > s->out_capacity) {
        size_t capacity = s->out_size + more > SPARE_BYTES ? 2 * (s->out_size + more) : SPARE_BYTES;
        uint8_t *larger = tide_realloc(s->out, capacity);
        if (!larger) {
            return false;
        }
        s->out = larger;
        s->out_capacity = capacity;
    }
    return true;
}

static void release_output(struct tide_tls_session *s) {
    if (!s->tls->spare && s->out_capacity == SPARE_BYTES) {
        s->tls->spare = s->out;
    } else {
        tide_free(s->out);
    }
    s->out = NULL;
    s->out_at = s->out_size = s->out_capacity = 0;
}

static int bio_write(BIO *bio, const char *data, int size) {
    struct tide_tls_session *s = BIO_get_data(bio);
    if (size <= 0 || !grow_output(s, (size_t)size)) {
        return -1;
    }
    memcpy(s->out + s->out_size, data, (size_t)size);
    s->out_size += (size_t)size;
    return size;
}

static int bio_read(BIO *bio, char *data, int size) {
    struct tide_tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (s->input_size == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t taken = s->input_size < (size_t)size ? s->input_size : (size_t)size;
    memcpy(data, s->input, taken);
    s->input += taken;
    s->input_size -= taken;
    return (int)taken;
}

/* An unknown question must be answered 0. */
static long bio_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO *make_bio(struct tide_tls_session *s) {
    static BIO_METHOD *method; /* for the process; nodes of one process start one after the other, or on one thread */
    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tide");
        if (!method || !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
            !BIO_meth_set_ctrl(method, bio_control)) {
            return NULL;
        }
    }
    BIO *bio = BIO_new(method);
    if (bio) {
        BIO_set_data(bio, s);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- the credential ---- */

static int64_t wall_s(const struct tide_tls *tls) {
    return (int64_t)(tls->port->ops->wall(tls->port) / TIDE_SECOND);
}

static X509 *read_certificate(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return certificate;
}

static bool is_revoked(const struct tide_tls *tls, const char *serial) {
    for (size_t i = 0; i < tls->revoked_count; i++) {
        if (strcmp(tls->revoked[i], serial) == 0) {
            return true;
        }
    }
    return false;
}

const char *tide__tls_objects(const struct tide_tls *tls, const struct tide_identity *identity) {
    return is_revoked(tls, identity->serial) && !TIDE_MUTANT(tls_revoked_stays) ? "its certificate was revoked"
           : wall_s(tls) > identity->until                                      ? "its certificate has expired"
                                                                                : NULL;
}

static void date_of(int64_t seconds, char out[24]) {
    ASN1_TIME *time = ASN1_TIME_set(NULL, (time_t)seconds);
    struct tm parts = {0};
    if (time && ASN1_TIME_to_tm(time, &parts)) {
        snprintf(out, 24, "%04u-%02u-%02u %02u:%02u", ((unsigned)parts.tm_year + 1900) % 10000,
                 ((unsigned)parts.tm_mon + 1) % 100, (unsigned)parts.tm_mday % 100, (unsigned)parts.tm_hour % 100,
                 (unsigned)parts.tm_min % 100);
    } else {
        snprintf(out, 24, "?");
    }
    ASN1_TIME_free(time);
}

/* Why OpenSSL does not believe a certificate, for people. */
static void explain(struct tide_tls_session *s, X509_STORE_CTX *store) {
    const int error = X509_STORE_CTX_get_error(store);
    char now[24];
    date_of(wall_s(s->tls), now);
    switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        snprintf(s->reason, sizeof s->reason, "its certificate has expired (this clock says %s UTC)", now);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        snprintf(s->reason, sizeof s->reason, "its certificate is not valid yet (this clock says %s UTC)", now);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_CHAIN_TOO_LONG:
        snprintf(s->reason, sizeof s->reason, "its certificate is not of this cluster's authority");
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        snprintf(s->reason, sizeof s->reason, "its certificate is a person's, not a node's");
        break;
    default:
        snprintf(s->reason, sizeof s->reason, "its certificate: %s", X509_verify_cert_error_string(error));
    }
}

static struct tide_tls_session *session_of(X509_STORE_CTX *store) {
    return SSL_get_app_data(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
}

/* What of a certificate is ours to judge. */
static int judge(struct tide_tls_session *s, X509_STORE_CTX *store, X509 *certificate) {
    SSL *ssl = s->ssl;
    struct tide_identity who;
    int error = X509_V_OK;
    if (tide__identity_of(certificate, &who) != 0) {
        snprintf(s->reason, sizeof s->reason, "%.190s", tide_error_message());
        error = X509_V_ERR_APPLICATION_VERIFICATION;
    } else if (strcmp(who.cluster, s->tls->cluster) != 0) {
        snprintf(s->reason, sizeof s->reason, "its certificate is of cluster '%s'", who.cluster);
        error = X509_V_ERR_APPLICATION_VERIFICATION;
    } else if (!SSL_is_server(ssl) && who.right < TIDE_RIGHT_ADMIN) {
        snprintf(s->reason, sizeof s->reason, "its certificate is a person's, not a node's");
        error = X509_V_ERR_INVALID_PURPOSE;
    } else if (is_revoked(s->tls, who.serial)) {
        snprintf(s->reason, sizeof s->reason, "its certificate %s was revoked", who.serial);
        error = X509_V_ERR_CERT_REVOKED;
    }
    if (error != X509_V_OK) {
        X509_STORE_CTX_set_error(store, error);
        return 0;
    }
    return 1;
}

/* OpenSSL has judged chain, dates and purpose. */
static int verify(int believed, X509_STORE_CTX *store) {
    struct tide_tls_session *s = session_of(store);
    if (!believed) {
        if (s->reason[0] == 0) {
            explain(s, store);
        }
        return TIDE_MUTANT(tls_no_verification);
    }
    return X509_STORE_CTX_get_error_depth(store) > 0 || judge(s, store, X509_STORE_CTX_get_current_cert(store));
}

/* One that was believed within the hour: its dates and what is ours are judged again, its signature holds. */
static int verify_known(struct tide_tls_session *s, X509_STORE_CTX *store, X509 *certificate) {
    time_t now = (time_t)wall_s(s->tls);
    const int error = X509_cmp_time(X509_get0_notBefore(certificate), &now) >= 0 ? X509_V_ERR_CERT_NOT_YET_VALID
                      : X509_cmp_time(X509_get0_notAfter(certificate), &now) <= 0 && !TIDE_MUTANT(tls_known_for_ever)
                          ? X509_V_ERR_CERT_HAS_EXPIRED
                          : X509_V_OK;
    X509_STORE_CTX_set_error(store, error);
    if (error != X509_V_OK) {
        explain(s, store);
        return TIDE_MUTANT(tls_no_verification);
    }
    return judge(s, store, certificate);
}

/* In place of X509_verify_cert, which is a quarter of a handshake: nodes show few certificates again and again. */
static int verify_chain(X509_STORE_CTX *store, void *arg) {
    struct tide_tls_session *s = session_of(store);
    struct tide_tls *tls = s->tls;
    X509 *certificate = X509_STORE_CTX_get0_cert(store);
    struct believed entry = {.as_client = SSL_is_server(s->ssl), .until = wall_s(tls) + BELIEVED_S};
    (void)arg;
    if (!certificate || !X509_digest(certificate, EVP_sha256(), entry.sum, NULL)) {
        return X509_verify_cert(store) > 0;
    }
    for (size_t i = 0; i < BELIEVED; i++) {
        const struct believed *b = &tls->believed[i];
        if (b->until > wall_s(tls) && b->until <= entry.until && b->as_client == entry.as_client &&
            memcmp(b->sum, entry.sum, SUM) == 0) {
            return verify_known(s, store, certificate);
        }
    }
    if (X509_verify_cert(store) <= 0) {
        return 0;
    }
    if (s->reason[0] == 0) { /* else a planted mistake let it pass */
        tls->believed[tls->believed_next++ % BELIEVED] = entry;
    }
    return 1;
}

static int no_password(char *out, int size, int writes, void *arg) {
    (void)out, (void)size, (void)writes, (void)arg;
    return -1;
}

static int fill_context(SSL_CTX *context, const struct tide_credential *credential, struct tide_identity *self) {
    X509 *authority = read_certificate(credential->authority), *certificate = read_certificate(credential->certificate);
    BIO *bio = BIO_new_mem_buf(credential->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    int rc = 0;
    if (!authority || !certificate || !key) {
        rc = tide_fail(TIDE_EINVAL, "%s is damaged or no PEM file",
                       !authority     ? "ca.pem"
                       : !certificate ? "cert.pem"
                                      : "key.pem");
    } else if (!X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority) ||
               !SSL_CTX_use_certificate(context, certificate) || !SSL_CTX_use_PrivateKey(context, key) ||
               !SSL_CTX_check_private_key(context)) {
        rc = tide_fail(TIDE_EINVAL, "key.pem is not the key of cert.pem");
    } else if (X509_check_issued(authority, certificate) != X509_V_OK ||
               X509_verify(certificate, X509_get0_pubkey(authority)) != 1) {
        rc = tide_fail(TIDE_EINVAL, "cert.pem is not of the authority in ca.pem");
    } else if ((rc = tide__identity_of(certificate, self)) != 0) {
        rc = tide_fail(rc, "cert.pem: %s", tide_error_message());
    }
    ERR_clear_error();
    X509_free(authority);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return rc;
}

static int make_context(const struct tide_credential *credential, struct tide_identity *self, SSL_CTX **out) {
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ||
        !SSL_CTX_set1_groups_list(context, "X25519") || !SSL_CTX_set1_sigalgs_list(context, "ed25519") ||
        !SSL_CTX_set_num_tickets(context, 0)) {
        ERR_clear_error();
        SSL_CTX_free(context);
        return tide_fail(TIDE_ENOMEM, "OpenSSL makes no context for TLS 1.3");
    }
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(context, CHAIN_BYTES);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
    SSL_CTX_set_cert_verify_callback(context, verify_chain, NULL);
    SSL_CTX_set_verify_depth(context, 0); /* nothing between a certificate and the authority */
    int rc = fill_context(context, credential, self);
    if (rc != 0) {
        SSL_CTX_free(context);
        return rc;
    }
    *out = context;
    return 0;
}

/* Serial numbers, one a line; # begins a comment. */
static int read_revoked(const char *text, char (**out)[TIDE_SERIAL_SIZE], size_t *count) {
    *out = NULL;
    *count = 0;
    unsigned line = 1;
    for (const char *at = text; at && *at != 0; line++) {
        size_t size = strcspn(at, "\n"), digits = strspn(at, "0123456789abcdef");
        if (size > 0 && at[0] != '#') {
            if (digits == 0 || digits >= TIDE_SERIAL_SIZE || (digits != size && at[digits] != ' ')) {
                return tide_fail(TIDE_EINVAL, "revoked, line %u: no serial number begins it", line);
            }
            if (*count == TIDE_REVOKED_MAX) {
                return tide_fail(TIDE_ELIMIT,
                                 "revoked has more than %d serial numbers: begin anew with `tide keys init`",
                                 TIDE_REVOKED_MAX);
            }
            char(*more)[TIDE_SERIAL_SIZE] = tide_realloc(*out, (*count + 1) * sizeof **out);
            if (!more) {
                return tide_fail(TIDE_ENOMEM, "out of memory for the list of revoked certificates");
            }
            *out = more;
            memcpy(more[*count], at, digits);
            more[(*count)++][digits] = 0;
        }
        at += size + (at[size] == '\n');
    }
    return 0;
}

/* The directory's present content in place of the former one, or an error and all as it was. */
static int load(struct tide_tls *tls) {
    struct tide_credential credential;
    SSL_CTX *context = NULL;
    struct tide_identity self;
    char(*revoked)[TIDE_SERIAL_SIZE] = NULL;
    size_t count = 0;
    int rc = tide__keys_read(tls->port, tls->directory, &credential);
    if (rc != 0) {
        return rc;
    }
    rc = make_context(&credential, &self, &context);
    if (rc == 0 && strcmp(self.cluster, tls->cluster) != 0) {
        rc = tide_fail(TIDE_EMISMATCH, "these keys are of cluster '%s', not '%s'", self.cluster, tls->cluster);
    }
    rc = rc != 0 ? rc : read_revoked(credential.revoked, &revoked, &count);
    tide__keys_release(&credential);
    if (rc != 0) {
        SSL_CTX_free(context);
        tide_free(revoked);
        return tide_fail(rc, "%s: %s", tls->directory, tide_error_message());
    }
    SSL_CTX_free(tls->context);
    tide_free(tls->revoked);
    tls->context = context;
    tls->self = self;
    tls->revoked = revoked;
    tls->revoked_count = count;
    if (!TIDE_MUTANT(tls_former_authority)) {
        memset(tls->believed, 0, sizeof tls->believed); /* by the former authority, perhaps */
    }
    return 0;
}

int tide__tls_open(struct tide_port *port, const char *directory, const char *cluster, struct tide_tls **out) {
    struct tide_tls *tls = tide_alloc_zero(1, sizeof *tls);
    if (!tls) {
        return TIDE_ENOMEM;
    }
    tls->port = port;
    snprintf(tls->directory, sizeof tls->directory, "%s", directory);
    snprintf(tls->cluster, sizeof tls->cluster, "%s", cluster);
    tide_port_random(port, "tls", &tls->random);
    tls->stamp = tide__keys_stamp(port, directory);
    int rc = strlen(directory) >= sizeof tls->directory ? tide_fail(TIDE_EINVAL, "the path of the keys is too long")
                                                        : load(tls);
    if (rc != 0) {
        tide__tls_close(tls);
        return rc;
    }
    *out = tls;
    return 0;
}

void tide__tls_close(struct tide_tls *tls) {
    if (tls) {
        SSL_CTX_free(tls->context);
        tide_free(tls->revoked);
        tide_free(tls->input);
        tide_free(tls->spare);
        tide_free(tls);
    }
}

const char *tide__tls_directory(const struct tide_tls *tls) {
    return tls->directory;
}

const struct tide_identity *tide__tls_self(const struct tide_tls *tls) {
    return &tls->self;
}

bool tide__tls_refresh(struct tide_tls *tls, const char *who) {
    uint64_t stamp = tide__keys_stamp(tls->port, tls->directory);
    if (stamp == tls->stamp) {
        return false;
    }
    tls->stamp = stamp;
    if (load(tls) != 0) {
        tide_log(TIDE_LOG_WARN, who, "the changed keys are not taken: %s", tide_error_message());
        return false;
    }
    tide_log(TIDE_LOG_INFO, who, "keys read again: certificate %s, %zu revoked", tls->self.serial, tls->revoked_count);
    return true;
}

uint8_t *tide__tls_input(struct tide_tls *tls) {
    if (!tls->input) {
        tls->input = tide_alloc(TIDE_TLS_INPUT);
    }
    return tls->input;
}

/* ---- sessions ---- */

/* Around every call into OpenSSL: its queue of errors is empty before, its draws are seeded where the port is. */
static void enter(struct tide_tls *tls) {
    ERR_clear_error();
    if (tls->port->simulated) {
        tide__keys_draw_from(&tls->random);
    }
}

static void leave(struct tide_tls *tls) {
    if (tls->port->simulated) {
        tide__keys_draw_from(NULL);
    }
}

struct tide_tls_session *tide__tls_begin(struct tide_tls *tls, bool accepts) {
    struct tide_tls_session *s = tide_alloc_zero(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    enter(tls);
    s->tls = tls;
    s->ssl = SSL_new(tls->context);
    BIO *bio = s->ssl ? make_bio(s) : NULL;
    if (!bio) {
        SSL_free(s->ssl);
        tide_free(s);
        s = NULL;
    } else {
        SSL_set_bio(s->ssl, bio, bio);
        SSL_set_app_data(s->ssl, s);
        X509_VERIFY_PARAM_set_time(SSL_get0_param(s->ssl), (time_t)wall_s(tls));
        if (accepts) {
            SSL_set_accept_state(s->ssl);
        } else {
            SSL_set_connect_state(s->ssl);
        }
        s->keyed_at = tide_port_now(tls->port);
    }
    leave(tls);
    return s;
}

void tide__tls_end(struct tide_tls_session *s) {
    if (s) {
        SSL_free(s->ssl);
        release_output(s);
        tide_free(s);
    }
}

void tide__tls_feed(struct tide_tls_session *s, const uint8_t *data, size_t size) {
    s->input = data;
    s->input_size = size;
}

const uint8_t *tide__tls_output(const struct tide_tls_session *s, size_t *size) {
    *size = s->out_size - s->out_at;
    return s->out ? s->out + s->out_at : NULL;
}

void tide__tls_written(struct tide_tls_session *s, size_t size) {
    s->out_at += size;
    if (s->out_at == s->out_size) {
        release_output(s);
    }
}

const struct tide_identity *tide__tls_peer(const struct tide_tls_session *s) {
    return &s->peer;
}

const char *tide__tls_reason(const struct tide_tls_session *s) {
    return s->reason;
}

/* What the peer said as it closed, about this side's certificate. */
static const char *alert_text(int alert) {
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_ACCESS_DENIED:
        return "the peer does not accept this side's certificate";
    case SSL_AD_CERTIFICATE_REVOKED:
        return "the peer says that this side's certificate was revoked";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "the peer says that this side's certificate has expired, or is not valid yet";
    case SSL_AD_UNKNOWN_CA:
        return "the peer says that this side's keys are not of its cluster's authority";
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "the peer requires a certificate";
    case SSL_AD_PROTOCOL_VERSION:
        return "the peer does not speak TLS 1.3";
    default:
        return NULL;
    }
}

static int fail(struct tide_tls_session *s, const char *doing) {
    unsigned long error = ERR_peek_error();
    const int reason = ERR_GET_REASON(error);
    const char *alert = reason > SSL_AD_REASON_OFFSET ? alert_text(reason - SSL_AD_REASON_OFFSET) : NULL;
    if (s->reason[0] != 0) {
        /* the certificate's judge has said it */
    } else if (alert) {
        snprintf(s->reason, sizeof s->reason, "%s", alert);
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        snprintf(s->reason, sizeof s->reason, "it has shown no certificate");
    } else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
               reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_PACKET_LENGTH_TOO_LONG) {
        snprintf(s->reason, sizeof s->reason, "what it sends is not TLS 1.3");
    } else {
        const char *text = ERR_reason_error_string(error);
        snprintf(s->reason, sizeof s->reason, "%s: %s", doing, text ? text : "the peer closed it");
    }
    ERR_clear_error();
    return tide_fail(TIDE_EPERM, "%s", s->reason);
}

int tide__tls_handshake(struct tide_tls_session *s) {
    enter(s->tls);
    int rc = SSL_do_handshake(s->ssl);
    if (rc == 1) {
        X509 *certificate = SSL_get0_peer_certificate(s->ssl);
        rc = certificate && tide__identity_of(certificate, &s->peer) == 0 ? 1 : fail(s, "TLS handshake");
        s->reason[0] = rc == 1 ? 0 : s->reason[0];
    } else if (SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_READ) {
        rc = 0;
    } else {
        rc = fail(s, "TLS handshake");
    }
    leave(s->tls);
    return rc;
}

ssize_t tide__tls_read(struct tide_tls_session *s, void *data, size_t size) {
    size_t got = 0;
    ssize_t rc = 0;
    enter(s->tls);
    if (SSL_read_ex(s->ssl, data, size, &got)) {
        rc = (ssize_t)got;
    } else {
        int error = SSL_get_error(s->ssl, 0);
        /* The peer's goodbye: the end of the stream follows. */
        rc = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN ? 0 : fail(s, "TLS");
    }
    leave(s->tls);
    return rc;
}

int tide__tls_write(struct tide_tls_session *s, const void *data, size_t size) {
    const uint8_t *at = data;
    int rc = 0;
    enter(s->tls);
    uint64_t now = tide_port_now(s->tls->port);
    if (s->records >= tide__tls_records_max || now - s->keyed_at > KEY_AGE) {
        s->records = 0;
        s->keyed_at = now;
        rc = SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) ? 0 : fail(s, "TLS key update");
    }
    for (size_t put = 0; rc == 0 && size > 0; at += put, size -= put) {
        rc = SSL_write_ex(s->ssl, at, size, &put) ? 0 : fail(s, "TLS");
        s->records++;
    }
    leave(s->tls);
    return rc;
}

void tide__tls_goodbye(struct tide_tls_session *s) {
    enter(s->tls);
    if (SSL_is_init_finished(s->ssl)) {
        (void)SSL_shutdown(s->ssl);
    }
    ERR_clear_error();
    leave(s->tls);
}
