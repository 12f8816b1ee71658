/* SHA-256 through OpenSSL: the identity of scripts, policies and files, where an attacker may
 * choose the bytes. */
#include "base/base.h"

#include <openssl/evp.h>

static void print_hex(const unsigned char digest[32], char out[65]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[64] = '\0';
}

void tide_sha256_hex(const void *data, size_t size, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    /* Only fails where the library lacks the algorithm or memory for a context; there is nothing
     * sane to continue with. */
    TIDE_ASSERT(EVP_Digest(data, size, digest, &length, EVP_sha256(), NULL) == 1);
    TIDE_ASSERT(length == 32);
    print_hex(digest, out);
}

/* A struct tide_sha256 is the library's context. */
struct tide_sha256 *tide_sha256_begin(void) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return NULL;
    }
    return (struct tide_sha256 *)context;
}

void tide_sha256_add(struct tide_sha256 *sum, const void *data, size_t size) {
    TIDE_ASSERT(EVP_DigestUpdate((EVP_MD_CTX *)sum, data, size) == 1);
}

void tide_sha256_hex_of(struct tide_sha256 *sum, char out[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    TIDE_ASSERT(EVP_DigestFinal_ex((EVP_MD_CTX *)sum, digest, &length) == 1);
    TIDE_ASSERT(length == 32);
    print_hex(digest, out);
    tide_sha256_drop(sum);
}

void tide_sha256_drop(struct tide_sha256 *sum) {
    EVP_MD_CTX_free((EVP_MD_CTX *)sum);
}
