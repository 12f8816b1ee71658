/*
 * Credentials of a cluster: a directory with a certificate, its key and the cluster's authority, as `tide keys` makes
 * them, and the rule of names in them. A certificate names its holder by one URI,
 *
 *     tide://CLUSTER/RIGHT/NAME     tide://lab/node/ *   tide://lab/read/alice
 *
 * where the name `*`, of nodes only, is any name. The files are PEM: ca.pem, cert.pem, key.pem (0600, owned by the
 * user), and `revoked`, serial numbers one a line, which may be missing. Keys are Ed25519. Pure, but for
 * tide__keys_read and the randomness of the two that make certificates.
 */
#ifndef TIDE_NET_KEYS_H
#define TIDE_NET_KEYS_H

#include "port/port.h"

struct x509_st; /* OpenSSL's X509 */

enum { TIDE_SERIAL_SIZE = 42, TIDE_REVOKED_MAX = 4096 };

struct tide_identity {
    uint8_t right; /* enum tide_right */
    char cluster[64], name[64];
    char serial[TIDE_SERIAL_SIZE]; /* hexadecimal, as people see it */
    int64_t from, until;           /* seconds since 1970 */
};

/* "read", "operate", "admin", "node"; "none" for anything else. */
const char *tide_right_name(unsigned right);
enum tide_right tide_right_parse(const char *name); /* TIDE_RIGHT_NONE: no such right */

/* Cluster, right and name of a URI of `size` foreign bytes; EPROTO says what is wrong with it. */
int tide_identity_parse(const char *uri, size_t size, struct tide_identity *out);
/* The holder of a certificate: exactly one URI of the form above. EPERM. */
int tide__identity_of(struct x509_st *certificate, struct tide_identity *out);
/* The same of PEM text, for people. */
int tide_identity_read(const char *pem, struct tide_identity *out);

/* The cluster that the credential in a directory is for. */
int tide_keys_cluster(struct tide_port *port, const char *directory, char out[64]);

/* What a directory holds, read and checked: owner, mode, sizes. Texts are the struct's. */
struct tide_credential {
    char *authority, *certificate, *key; /* PEM, zero-terminated */
    char *revoked;                       /* text of that file; NULL: there is none */
};
int tide__keys_read(struct tide_port *port, const char *directory, struct tide_credential *out);
void tide__keys_release(struct tide_credential *credential); /* key bytes are wiped */
/* The text of another file of the directory that its owner alone may read. *gives* (tide_free). ENOENT, EPERM. */
int tide_keys_secret(struct tide_port *port, const char *directory, const char *name, char **out);
/* A number that changes when one of the files does. */
uint64_t tide__keys_stamp(struct tide_port *port, const char *directory);

/* A new authority of a cluster, and a certificate by it. *gives* PEM texts (tide_free). now: seconds since 1970;
 * random: NULL for the system's. who: cluster, right and name; gets the serial number and the dates. */
int tide_keys_make_authority(const char *cluster, int64_t now, struct tide_random *random, char **certificate,
                             char **key);
int tide_keys_issue(const char *authority_certificate, const char *authority_key, struct tide_identity *who,
                    int64_t now, unsigned days, struct tide_random *random, char **certificate, char **key);

/* A certificate for a page that browsers open under these names and numeric addresses, separated by commas. Its own
 * issuer, with a key that browsers know (P-256): none of them takes Ed25519. */
int tide_keys_make_page(const char *names, int64_t now, unsigned days, char **certificate, char **key);

/* In this process OpenSSL draws from `random` until it is called with NULL: it then asks the system again. The thread
 * that called alone. */
void tide__keys_draw_from(struct tide_random *random);

#endif
