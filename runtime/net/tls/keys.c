/* Credentials: see keys.h. With tls.c the only user of OpenSSL's certificates. */
#define OPENSSL_SUPPRESS_DEPRECATED 1 /* RAND_set_rand_method: OpenSSL 3 has no simpler way to seeded randomness */
#include "net/tls/keys.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 10, AUTHORITY_DAYS = 7300, DAY_S = 86400 };

static const char *const right_names[] = {"none", "read", "operate", "admin", "node"};

const char *tide_right_name(unsigned right) {
    return right_names[right < TIDE_COUNT(right_names) ? right : 0];
}

enum tide_right tide_right_parse(const char *name) {
    for (size_t i = 1; i < TIDE_COUNT(right_names); i++) {
        if (strcmp(name, right_names[i]) == 0) {
            return (enum tide_right)i;
        }
    }
    return TIDE_RIGHT_NONE;
}

/* ---- seeded randomness ---- */

static _Thread_local struct tide_random *drawn;

static int draw(unsigned char *out, int size) {
    if (!drawn) {
        return RAND_OpenSSL()->bytes(out, size);
    }
    for (int i = 0; i < size; i++) {
        out[i] = (unsigned char)(tide_random_next(drawn) >> 32);
    }
    return 1;
}

static int drawable(void) {
    return 1;
}

void tide__keys_draw_from(struct tide_random *random) {
    static const RAND_METHOD method = {.bytes = draw, .pseudorand = draw, .status = drawable};
    if (random && RAND_get_rand_method() != &method) {
        RAND_set_rand_method(&method);
    }
    drawn = random;
}

/* ---- names ---- */

static int bad_uri(const char *why) {
    return tide_fail(TIDE_EPROTO, "its certificate names nobody: %s", why);
}

/* The next part of a URI, up to a slash or the end. */
static bool take_part(const char **at, const char *end, char out[64]) {
    const char *slash = memchr(*at, '/', (size_t)(end - *at));
    const char *stop = slash ? slash : end;
    size_t size = (size_t)(stop - *at);
    if (size == 0 || size >= 64 || memchr(*at, 0, size)) {
        return false;
    }
    memcpy(out, *at, size);
    out[size] = 0;
    *at = slash ? slash + 1 : end;
    return true;
}

int tide_identity_parse(const char *uri, size_t size, struct tide_identity *out) {
    static const char scheme[] = "tide://";
    const char *at = uri + sizeof scheme - 1, *end = uri + size;
    char right[64];
    *out = (struct tide_identity){0};
    if (size < sizeof scheme - 1 || memcmp(uri, scheme, sizeof scheme - 1) != 0) {
        return bad_uri("its URI is not of tide://");
    }
    if (!take_part(&at, end, out->cluster) || !take_part(&at, end, right) || !take_part(&at, end, out->name) ||
        at != end || end[-1] == '/') {
        return bad_uri("its URI is not tide://CLUSTER/RIGHT/NAME");
    }
    out->right = (uint8_t)tide_right_parse(right);
    if (out->right == TIDE_RIGHT_NONE) {
        return bad_uri("its right is none of read, operate, admin, node");
    }
    const bool any = strcmp(out->name, "*") == 0;
    if (!tide_identifier_valid(out->cluster) || (!any && !tide_identifier_valid(out->name)) ||
        (any && out->right != TIDE_RIGHT_NODE && !TIDE_MUTANT(tls_anyone_admin))) {
        return bad_uri("its URI has a name that is none");
    }
    return 0;
}

static int64_t seconds_of(const ASN1_TIME *time) {
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0, seconds = 0;
    int ok = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time);
    ASN1_TIME_free(epoch);
    return ok ? (int64_t)days * DAY_S + seconds : 0;
}

static void serial_of(X509 *certificate, char out[TIDE_SERIAL_SIZE]) {
    const ASN1_INTEGER *number = X509_get0_serialNumber(certificate);
    size_t at = 0;
    for (int i = 0; i < number->length && at + 3 <= TIDE_SERIAL_SIZE; i++, at += 2) {
        snprintf(out + at, 3, "%02x", number->data[i]);
    }
    out[at] = 0;
}

int tide__identity_of(struct x509_st *certificate, struct tide_identity *out) {
    *out = (struct tide_identity){0};
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const ASN1_IA5STRING *uri = NULL;
    int uris = 0;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_URI) {
            uri = name->d.uniformResourceIdentifier;
            uris++;
        }
    }
    int rc = uris != 1 ? bad_uri(uris == 0 ? "it has no URI" : "it has several URIs")
                       : tide_identity_parse((const char *)uri->data, (size_t)uri->length, out);
    GENERAL_NAMES_free(names);
    if (rc == 0) {
        serial_of(certificate, out->serial);
        out->from = seconds_of(X509_get0_notBefore(certificate));
        out->until = seconds_of(X509_get0_notAfter(certificate));
    }
    return rc == 0 ? 0 : TIDE_EPERM;
}

int tide_identity_read(const char *pem, struct tide_identity *out) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    int rc =
        !certificate ? tide_fail(TIDE_EPROTO, "there is no certificate in it") : tide__identity_of(certificate, out);
    X509_free(certificate);
    return rc;
}

/* ---- the directory ---- */

static int read_part(struct tide_port *port, const char *directory, const char *name, bool secret, char **out) {
    char path[512];
    struct tide_file_info info;
    size_t size;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path) {
        return tide_fail(TIDE_EINVAL, "the path of the keys is too long: %.100s...", directory);
    }
    int rc = port->ops->file_info(port, path, &info);
    if (rc == 0 && info.directory) {
        return tide_fail(TIDE_EINVAL, "%s is a directory, not a file of keys", path);
    }
    if (rc == 0 && secret && !port->simulated &&
        ((info.mode & (TIDE_MUTANT(tls_key_of_group) ? 07 : 077)) != 0 ||
         (info.owner != port->ops->user(port) && info.owner != 0))) {
        return tide_fail(TIDE_EPERM, "%s can be read by others (mode %04o, owner %u): chmod 600 it, or issue a new key",
                         path, (unsigned)info.mode & 07777, (unsigned)info.owner);
    }
    return rc != 0 ? rc : tide_port_slurp(port, path, FILE_LIMIT, out, &size);
}

int tide_keys_secret(struct tide_port *port, const char *directory, const char *name, char **out) {
    return read_part(port, directory, name, true, out);
}

int tide__keys_read(struct tide_port *port, const char *directory, struct tide_credential *out) {
    *out = (struct tide_credential){0};
    int rc = read_part(port, directory, "ca.pem", false, &out->authority);
    rc = rc != 0 ? rc : read_part(port, directory, "cert.pem", false, &out->certificate);
    rc = rc != 0 ? rc : read_part(port, directory, "key.pem", true, &out->key);
    if (rc == TIDE_ENOENT) {
        rc = tide_fail(TIDE_ENOENT, "%s holds no keys (%s): `tide keys init` makes them", directory,
                       tide_error_message());
    }
    if (rc == 0) {
        int revoked = read_part(port, directory, "revoked", false, &out->revoked);
        rc = revoked == TIDE_ENOENT ? 0 : revoked;
    }
    if (rc != 0) {
        tide__keys_release(out);
    }
    return rc;
}

void tide__keys_release(struct tide_credential *credential) {
    if (credential->key) {
        OPENSSL_cleanse(credential->key, strlen(credential->key));
    }
    tide_free(credential->authority);
    tide_free(credential->certificate);
    tide_free(credential->key);
    tide_free(credential->revoked);
    *credential = (struct tide_credential){0};
}

int tide_keys_cluster(struct tide_port *port, const char *directory, char out[64]) {
    struct tide_credential credential;
    struct tide_identity who;
    int rc = tide__keys_read(port, directory, &credential);
    if (rc == 0) {
        rc = tide_identity_read(credential.certificate, &who);
        memcpy(out, who.cluster, sizeof who.cluster);
        tide__keys_release(&credential);
    }
    return rc;
}

uint64_t tide__keys_stamp(struct tide_port *port, const char *directory) {
    static const char *const parts[] = {"ca.pem", "cert.pem", "key.pem", "revoked"};
    uint64_t stamp = 0;
    for (size_t i = 0; i < TIDE_COUNT(parts); i++) {
        char path[512];
        struct tide_file_info info = {0};
        snprintf(path, sizeof path, "%s/%s", directory, parts[i]);
        if (port->ops->file_info(port, path, &info) == 0) {
            const uint64_t seen[] = {info.size, info.modified_ns};
            stamp = tide_hash(seen, sizeof seen, stamp + i);
        }
    }
    return stamp;
}

/* ---- making ---- */

static int failed(const char *doing) {
    char text[160];
    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    ERR_clear_error();
    return tide_fail(TIDE_EINVAL, "%s: %s", doing, text);
}

static char *text_of(BIO *bio) {
    char *data;
    long size = BIO_get_mem_data(bio, &data);
    char *text = size > 0 ? tide_alloc((size_t)size + 1) : NULL;
    if (text) {
        memcpy(text, data, (size_t)size);
        text[size] = 0;
    }
    return text;
}

static int write_pem(X509 *certificate, EVP_PKEY *key, char **certificate_out, char **key_out) {
    BIO *one = BIO_new(BIO_s_mem()), *two = BIO_new(BIO_s_secmem());
    int rc = TIDE_ENOMEM;
    if (one && two && PEM_write_bio_X509(one, certificate) &&
        PEM_write_bio_PKCS8PrivateKey(two, key, NULL, NULL, 0, NULL, NULL)) {
        *certificate_out = text_of(one);
        *key_out = text_of(two);
        rc = *certificate_out && *key_out ? 0 : TIDE_ENOMEM;
    }
    BIO_free(one);
    BIO_free(two);
    return rc == 0 ? 0 : tide_fail(rc, "out of memory for a certificate");
}

static bool extend(X509 *certificate, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool ok = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return ok;
}

/* Serial, dates (from a day early: clocks differ) and names; the caller adds extensions and signs. */
static X509 *begin_certificate(const char *subject, X509_NAME *issuer, EVP_PKEY *key, int64_t now, unsigned days) {
    uint8_t serial[8];
    X509 *certificate = X509_new();
    X509_NAME *name = X509_NAME_new();
    bool ok = certificate && name && RAND_bytes(serial, sizeof serial) == 1 &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject, -1, -1, 0);
    serial[0] = (uint8_t)((serial[0] & 0x3f) | 0x40); /* positive, and always of 16 digits */
    ASN1_INTEGER *number = ok ? X509_get_serialNumber(certificate) : NULL;
    BIGNUM *value = ok ? BN_bin2bn(serial, sizeof serial, NULL) : NULL;
    ok = ok && value && BN_to_ASN1_INTEGER(value, number) && X509_set_version(certificate, X509_VERSION_3) &&
         ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)(now - DAY_S)) &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)(now + (int64_t)days * DAY_S)) &&
         X509_set_subject_name(certificate, name) && X509_set_issuer_name(certificate, issuer ? issuer : name) &&
         X509_set_pubkey(certificate, key);
    BN_free(value);
    X509_NAME_free(name);
    if (!ok) {
        X509_free(certificate);
        return NULL;
    }
    return certificate;
}

int tide_keys_make_authority(const char *cluster, int64_t now, struct tide_random *random, char **certificate_out,
                             char **key_out) {
    if (!tide_identifier_valid(cluster)) {
        return tide_fail(TIDE_EINVAL, "`%s` is no name for a cluster", cluster);
    }
    tide__keys_draw_from(random);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *certificate = key ? begin_certificate(cluster, NULL, key, now, AUTHORITY_DAYS) : NULL;
    bool ok = certificate && extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              extend(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
              extend(certificate, certificate, NID_subject_key_identifier, "hash") &&
              X509_sign(certificate, key, NULL) > 0;
    int rc = ok ? write_pem(certificate, key, certificate_out, key_out) : failed("making an authority");
    X509_free(certificate);
    EVP_PKEY_free(key);
    tide__keys_draw_from(NULL);
    return rc;
}

static bool sign_leaf(X509 *certificate, X509 *authority, EVP_PKEY *authority_key, const struct tide_identity *who) {
    char uri[256];
    snprintf(uri, sizeof uri, "URI:tide://%s/%s/%s", who->cluster, tide_right_name(who->right), who->name);
    const char *usage = who->right >= TIDE_RIGHT_ADMIN ? "serverAuth,clientAuth" : "clientAuth"; /* admin: a driver */
    return extend(certificate, authority, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(certificate, authority, NID_key_usage, "critical,digitalSignature") &&
           extend(certificate, authority, NID_ext_key_usage, usage) &&
           extend(certificate, authority, NID_subject_alt_name, uri) &&
           extend(certificate, authority, NID_authority_key_identifier, "keyid") &&
           X509_sign(certificate, authority_key, NULL) > 0;
}

int tide_keys_make_page(const char *names, int64_t now, unsigned days, char **certificate_out, char **key_out) {
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *certificate = key ? begin_certificate("Tide page", NULL, key, now, days) : NULL;
    bool ok = certificate && extend(certificate, certificate, NID_basic_constraints, "critical,CA:FALSE") &&
              extend(certificate, certificate, NID_key_usage, "critical,digitalSignature") &&
              extend(certificate, certificate, NID_ext_key_usage, "serverAuth") &&
              extend(certificate, certificate, NID_subject_alt_name, names) &&
              extend(certificate, certificate, NID_subject_key_identifier, "hash") &&
              X509_sign(certificate, key, EVP_sha256()) > 0;
    int rc = ok ? write_pem(certificate, key, certificate_out, key_out) : failed("making a certificate for a page");
    X509_free(certificate);
    EVP_PKEY_free(key);
    return rc;
}

int tide_keys_issue(const char *authority_certificate, const char *authority_key, struct tide_identity *who,
                    int64_t now, unsigned days, struct tide_random *random, char **certificate_out, char **key_out) {
    const bool any = strcmp(who->name, "*") == 0;
    if (!tide_identifier_valid(who->cluster) || (!any && !tide_identifier_valid(who->name)) ||
        (any && who->right != TIDE_RIGHT_NODE) || who->right == TIDE_RIGHT_NONE || days == 0 || days > AUTHORITY_DAYS) {
        return tide_fail(TIDE_EINVAL, "a certificate is for an identifier, of a right, for 1 to %d days",
                         AUTHORITY_DAYS);
    }
    tide__keys_draw_from(random);
    BIO *certificate_bio = BIO_new_mem_buf(authority_certificate, -1), *key_bio = BIO_new_mem_buf(authority_key, -1);
    X509 *authority = PEM_read_bio_X509(certificate_bio, NULL, NULL, NULL);
    EVP_PKEY *signer = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *certificate = NULL;
    int rc = 0;
    if (!authority || !signer || X509_check_private_key(authority, signer) != 1) {
        ERR_clear_error();
        rc = tide_fail(TIDE_EINVAL, "certificate and key of the authority do not belong together, or are damaged");
    } else if (!key ||
               !(certificate = begin_certificate(who->name, X509_get_subject_name(authority), key, now, days)) ||
               !sign_leaf(certificate, authority, signer, who)) {
        rc = failed("issuing a certificate");
    }
    rc = rc != 0 ? rc : write_pem(certificate, key, certificate_out, key_out);
    if (rc == 0) {
        serial_of(certificate, who->serial);
        who->from = now - DAY_S;
        who->until = now + (int64_t)days * DAY_S;
    }
    X509_free(certificate);
    X509_free(authority);
    EVP_PKEY_free(key);
    EVP_PKEY_free(signer);
    BIO_free(certificate_bio);
    BIO_free(key_bio);
    tide__keys_draw_from(NULL);
    return rc;
}
