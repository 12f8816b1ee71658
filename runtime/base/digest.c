/* SHA-256 through OpenSSL: the identity of scripts, policies and files, where an attacker may
 * choose the bytes. */
#include "base/base.h"

#include <openssl/evp.h>

void tide_sha256_hex(const void *data, size_t size, char out[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    /* Only fails where the library lacks the algorithm or memory for a context; there is nothing
     * sane to continue with. */
    TIDE_ASSERT(EVP_Digest(data, size, digest, &length, EVP_sha256(), NULL) == 1);
    TIDE_ASSERT(length == 32);
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[64] = '\0';
}
