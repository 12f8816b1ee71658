/*
 * Persons by the certificate of their connection, as nodes have them (net/tls/keys.h): the library's TLS asks for one
 * and checks the signature, this the dates, the name in it and the list of revoked ones. Browsers offer none; programs
 * do.
 */
#include "inside.h"
#include "tide.h"

#include "base/base.h"
#include "net/tls/keys.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>

static bool is_revoked(const char *list, const char *serial) {
    const size_t size = strlen(serial);
    for (const char *line = list; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, serial, size) == 0 && strchr(" \t\r\n", line[size])) { /* or the end of the text */
            return true;
        }
    }
    return false;
}

static bool identity_of(const gnutls_datum_t *der, struct tide_identity *out) {
    gnutls_datum_t pem = {NULL, 0};
    bool ok =
        gnutls_pem_base64_encode2("CERTIFICATE", der, &pem) == 0 && tide_identity_read((char *)pem.data, out) == 0;
    gnutls_free(pem.data);
    return ok;
}

bool tide__http_certificate(struct tide_http *http, struct MHD_Connection *connection, struct tide_http_person *out) {
    const union MHD_ConnectionInfo *info =
        http->cluster[0] ? MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
    unsigned count = 0, problems = 1;
    const gnutls_datum_t *list = info ? gnutls_certificate_get_peers(info->tls_session, &count) : NULL;
    struct tide_identity who;
    if (!list || count == 0 || gnutls_certificate_verify_peers2(info->tls_session, &problems) != 0 || problems != 0 ||
        !identity_of(&list[0], &who) || strcmp(who.cluster, http->cluster) != 0 || who.right > TIDE_RIGHT_ADMIN ||
        is_revoked(http->revoked, who.serial)) {
        return false;
    }
    out->right = who.right;
    (void)snprintf(out->name, sizeof out->name, "%s", who.name);
    return true;
}

int64_t tide__http_valid_until(const char *pem) {
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    gnutls_x509_crt_t certificate;
    int64_t until = -1;
    if (gnutls_x509_crt_init(&certificate) == 0) {
        if (gnutls_x509_crt_import(certificate, &text, GNUTLS_X509_FMT_PEM) == 0) {
            until = gnutls_x509_crt_get_expiration_time(certificate);
        }
        gnutls_x509_crt_deinit(certificate);
    }
    return until;
}
