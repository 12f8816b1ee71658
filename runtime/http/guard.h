/*
 * What may come in over HTTP: one function that looks at the head of a request, before anything else does, and one that
 * reads a value of its query. Pure, so that a table and a fuzzer can ask them (tests/unit/net/test_guard.c).
 *
 * The library in front of it parses bytes into a head and lets through more than it should. What can be seen in a head
 * is refused here: two hosts, two lengths, odd bytes, odd methods, targets that are no path. What it hides cannot be:
 * lines ended by a bare LF, lines folded into one, lines without a name, what follows a zero byte in a path or a value.
 * They end up as one head with one meaning, and no proxy in front of this server could read them
 * otherwise, so they are harmless.
 */
#ifndef TIDE_HTTP_GUARD_H
#define TIDE_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TIDE_HTTP_TARGET_MAX = 4096, /* bytes */
    TIDE_HTTP_HEADERS_MAX = 64,
    TIDE_HTTP_HEADER_BYTES_MAX = 8192, /* names and values of all */
    TIDE_HTTP_BODY_MAX = 65536,
    TIDE_HTTP_TOKEN = 64, /* hexadecimal digits of 32 bytes */
    TIDE_HTTP_PERSON = 64 /* bytes of a person's name, with the terminator */
};

/* Who a request is from, by its token or by the certificate of its connection. */
struct tide_http_person {
    char name[TIDE_HTTP_PERSON];
    uint8_t right; /* enum tide_right */
};

struct tide_http_token {
    char digits[TIDE_HTTP_TOKEN + 1];
    struct tide_http_person person;
    int64_t until; /* seconds since 1970; 0: as long as the server */
};

struct tide_http_header {
    const char *name, *value; /* need no terminator */
    size_t name_size, value_size;
};

struct tide_http_head {
    const char *method, *target, *version; /* terminated; the target as it was sent */
    size_t target_size;
    const struct tide_http_header *headers;
    size_t header_count;
};

struct tide_http_rules {
    const char *host;      /* "127.0.0.1:PORT" */
    const char *host_name; /* "localhost:PORT" */
    const char *served_as; /* the origin under which a proxy serves this: "https://lab.org"; NULL: none does */
    bool secure;           /* over TLS: pages of this server have https addresses */
    const struct tide_http_token *tokens;
    size_t token_count;
    int64_t now;                                /* seconds since 1970 */
    const struct tide_http_person *certificate; /* of the connection; NULL: none that counts */
    const char *const *open;                    /* paths that need no token, ended by NULL */
};

/* 0: it may continue, and is from `who`, with no right where its path is open to all. Else the status of the answer,
 * and why: a constant text. */
int tide_http_guard(const struct tide_http_rules *rules, const struct tide_http_head *head,
                    struct tide_http_person *who, const char **why);

/* The size of the path in a target: what stands before '?'. */
size_t tide_http_path(const char *target, size_t size);

/* The value of `name` in the target's query, unescaped, into `out` with a terminator. Its length; -1: there is none;
 * -2: it stands there twice, is cut short or longer than `capacity` - 1. */
long tide_http_query(const char *target, size_t size, const char *name, char *out, size_t capacity);

#endif
