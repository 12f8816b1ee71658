#include "http/guard.h"

#include <stdint.h>
#include <string.h>

/* ---- bytes ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_of(char c) {
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* RFC 9110 5.6.2 */
static bool is_token_byte(char c) {
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_name(const struct tide_http_header *h, const char *name) {
    size_t size = strlen(name);
    if (h->name_size != size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (lower(h->name[i]) != name[i]) {
            return false;
        }
    }
    return true;
}

static bool is_value(const struct tide_http_header *h, const char *value) {
    return h->value_size == strlen(value) && memcmp(h->value, value, h->value_size) == 0;
}

static int refuse(const char **why, int status, const char *text) {
    *why = text;
    return status;
}

/* ---- the head as a whole ---- */

static int check_sizes(const struct tide_http_head *head, const char **why) {
    if (head->target_size > TIDE_HTTP_TARGET_MAX) {
        return refuse(why, 414, "the target is longer than 4 KiB");
    }
    if (head->header_count > TIDE_HTTP_HEADERS_MAX) {
        return refuse(why, 431, "more than 64 headers");
    }
    size_t bytes = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        bytes += head->headers[i].name_size + head->headers[i].value_size;
    }
    if (bytes > TIDE_HTTP_HEADER_BYTES_MAX) {
        return refuse(why, 431, "headers of more than 8 KiB");
    }
    return 0;
}

static int check_bytes(const struct tide_http_head *head, const char **why) {
    for (size_t i = 0; i < head->header_count; i++) {
        const struct tide_http_header *h = &head->headers[i];
        if (h->name_size == 0) {
            return refuse(why, 400, "a header without a name");
        }
        for (size_t k = 0; k < h->name_size; k++) {
            if (!is_token_byte(h->name[k])) {
                return refuse(why, 400, "a header's name has odd bytes");
            }
        }
        for (size_t k = 0; k < h->value_size; k++) {
            unsigned char c = (unsigned char)h->value[k];
            if ((c < 0x20 && c != '\t') || c == 0x7f) {
                return refuse(why, 400, "a header's value has odd bytes");
            }
        }
    }
    return 0;
}

static int check_target(const struct tide_http_head *head, const char **why) {
    const char *t = head->target;
    size_t size = head->target_size, path = tide_http_path(t, size);
    if (size == 0 || t[0] != '/') {
        return refuse(why, 400, "the target is no path");
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)t[i];
        if (c <= 0x20 || c >= 0x7f || c == '#' || c == '\\' || c == '"' || c == '<' || c == '>') {
            return refuse(why, 400, "the target has odd bytes");
        }
        if (i < path && c == '%') {
            return refuse(why, 400, "a path has no escapes");
        }
        if (c == '%') {
            int high = i + 2 < size ? hex_of(t[i + 1]) : -1, low = i + 2 < size ? hex_of(t[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return refuse(why, 400, "an escape is cut short");
            }
            if (high * 16 + low < 0x20 || high * 16 + low == 0x7f) {
                return refuse(why, 400, "an escape hides an odd byte");
            }
        }
    }
    for (size_t i = 0; i + 1 < path; i++) {
        if (t[i] == '/' && (t[i + 1] == '/' || t[i + 1] == '.')) {
            return refuse(why, 400, "a path's part is empty or begins with a dot");
        }
    }
    return 0;
}

/* ---- single headers ---- */

static const struct tide_http_header *find(const struct tide_http_head *head, const char *name, size_t *count) {
    const struct tide_http_header *found = NULL;
    *count = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        if (is_name(&head->headers[i], name)) {
            found = found ? found : &head->headers[i];
            ++*count;
        }
    }
    return found;
}

static int check_host(const struct tide_http_rules *rules, const struct tide_http_head *head, const char **why) {
    size_t count;
    const struct tide_http_header *host = find(head, "host", &count);
    if (count != 1) {
        return refuse(why, 400, count == 0 ? "no Host" : "more than one Host");
    }
    const char *served = rules->served_as ? strstr(rules->served_as, "://") : NULL;
    if (!is_value(host, rules->host) && !is_value(host, rules->host_name) && !(served && is_value(host, served + 3))) {
        return refuse(why, 403, "another Host: a name that was made to lead here");
    }
    return 0;
}

/* Pages of others may make a browser send requests; it says so. */
static int check_origin(const struct tide_http_rules *rules, const struct tide_http_head *head, const char **why) {
    const char *scheme = rules->secure ? "https://" : "http://";
    const size_t prefix = strlen(scheme);
    size_t count;
    const struct tide_http_header *origin = find(head, "origin", &count);
    if (count > 1) {
        return refuse(why, 400, "more than one Origin");
    }
    if (origin && !(rules->served_as && is_value(origin, rules->served_as))) {
        struct tide_http_header rest = *origin;
        if (rest.value_size < prefix || memcmp(rest.value, scheme, prefix) != 0) {
            return refuse(why, 403, "the request of another page");
        }
        rest.value += prefix;
        rest.value_size -= prefix;
        if (!is_value(&rest, rules->host) && !is_value(&rest, rules->host_name)) {
            return refuse(why, 403, "the request of another page");
        }
    }
    const struct tide_http_header *site = find(head, "sec-fetch-site", &count);
    if (count > 1) {
        return refuse(why, 400, "more than one Sec-Fetch-Site");
    }
    if (site && !is_value(site, "none") && !is_value(site, "same-origin")) {
        return refuse(why, 403, "the request of another site");
    }
    return 0;
}

static int check_length(const struct tide_http_head *head, const char **why) {
    size_t count, others;
    const struct tide_http_header *length = find(head, "content-length", &count);
    bool post = strcmp(head->method, "POST") == 0;
    if (find(head, "transfer-encoding", &others) || find(head, "te", &others) || find(head, "trailer", &others)) {
        return refuse(why, 400, "bodies are sent whole: no Transfer-Encoding");
    }
    if (find(head, "expect", &others)) {
        return refuse(why, 417, "nothing is expected");
    }
    if (find(head, "upgrade", &others) || find(head, "http2-settings", &others)) {
        return refuse(why, 400, "there is no other protocol");
    }
    if (count > 1) {
        return refuse(why, 400, "more than one Content-Length");
    }
    if (count == 0) {
        return post ? refuse(why, 411, "a POST says its length") : 0;
    }
    uint64_t bytes = 0;
    if (length->value_size == 0 || length->value_size > 18) {
        return refuse(why, 400, "Content-Length is no number");
    }
    for (size_t i = 0; i < length->value_size; i++) {
        if (!is_digit(length->value[i])) {
            return refuse(why, 400, "Content-Length is no number");
        }
        bytes = bytes * 10 + (uint64_t)(length->value[i] - '0');
    }
    if (bytes > TIDE_HTTP_BODY_MAX) {
        return refuse(why, 413, "a body of more than 64 KiB");
    }
    if (bytes > 0 && !post) {
        return refuse(why, 400, "only a POST has a body");
    }
    return 0;
}

/* In a time that does not depend on where they differ. */
static bool same_token(const char *given, const char *token) {
    unsigned differs = 0;
    for (size_t i = 0; i < TIDE_HTTP_TOKEN; i++) {
        differs |= (unsigned)((unsigned char)given[i] ^ (unsigned char)token[i]);
    }
    return differs == 0;
}

/* The token that was given; NULL: none of them. All are looked at. */
static const struct tide_http_token *token_of(const struct tide_http_rules *rules, const char *given) {
    const struct tide_http_token *found = NULL;
    for (size_t i = 0; i < rules->token_count; i++) {
        found = same_token(given, rules->tokens[i].digits) ? &rules->tokens[i] : found;
    }
    return found;
}

static int check_token(const struct tide_http_rules *rules, const struct tide_http_head *head,
                       struct tide_http_person *who, const char **why) {
    static const char bearer[] = "Bearer ";
    const size_t prefix = sizeof bearer - 1;
    size_t count, path = tide_http_path(head->target, head->target_size);
    const struct tide_http_header *given = find(head, "authorization", &count);
    if (count > 1) {
        return refuse(why, 400, "more than one Authorization");
    }
    for (const char *const *open = rules->open; *open; open++) {
        if (strlen(*open) == path && memcmp(*open, head->target, path) == 0) {
            return 0;
        }
    }
    if (!given && rules->certificate) {
        *who = *rules->certificate;
        return 0;
    }
    if (!given) {
        return refuse(why, 401, "no token: open the address that tide dashboard or tide keys token printed");
    }
    const struct tide_http_token *token = NULL;
    if (given->value_size == prefix + TIDE_HTTP_TOKEN && memcmp(given->value, bearer, prefix) == 0) {
        token = token_of(rules, given->value + prefix);
    }
    if (!token) {
        return refuse(why, 401, "another token: open the address that tide dashboard or tide keys token printed");
    }
    if (token->until != 0 && token->until < rules->now) {
        return refuse(why, 401, "this token has expired: the owner of the keys makes another one by tide keys token");
    }
    *who = token->person;
    return 0;
}

int tide_http_guard(const struct tide_http_rules *rules, const struct tide_http_head *head,
                    struct tide_http_person *who, const char **why) {
    *who = (struct tide_http_person){.name = ""};
    int status = check_sizes(head, why);
    if (status == 0 && strcmp(head->version, "HTTP/1.1") != 0) {
        status = refuse(why, 505, "only HTTP/1.1 is spoken here");
    }
    if (status == 0 && strcmp(head->method, "GET") != 0 && strcmp(head->method, "HEAD") != 0 &&
        strcmp(head->method, "POST") != 0) {
        status = refuse(why, 405, "there are GET, HEAD and POST");
    }
    status = status != 0 ? status : check_bytes(head, why);
    status = status != 0 ? status : check_target(head, why);
    status = status != 0 ? status : check_host(rules, head, why);
    status = status != 0 ? status : check_origin(rules, head, why);
    status = status != 0 ? status : check_length(head, why);
    return status != 0 ? status : check_token(rules, head, who, why);
}

/* ---- targets ---- */

size_t tide_http_path(const char *target, size_t size) {
    const char *mark = memchr(target, '?', size);
    return mark ? (size_t)(mark - target) : size;
}

static long unescape(const char *from, size_t size, char *out, size_t capacity) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < size ? hex_of(from[i + 1]) : -1, low = i + 2 < size ? hex_of(from[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return -2;
            }
            c = (char)(unsigned char)(high * 16 + low);
            i += 2;
        }
        if (n + 1 >= capacity) {
            return -2;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return (long)n;
}

long tide_http_query(const char *target, size_t size, const char *name, char *out, size_t capacity) {
    size_t at = tide_http_path(target, size), name_size = strlen(name);
    long found = -1;
    while (at < size) {
        const char *start = target + at + 1; /* behind '?' or '&' */
        size_t left = size - at - 1;
        const char *end = memchr(start, '&', left);
        size_t part = end ? (size_t)(end - start) : left;
        if (part > name_size && start[name_size] == '=' && memcmp(start, name, name_size) == 0) {
            if (found != -1) {
                return -2;
            }
            found = unescape(start + name_size + 1, part - name_size - 1, out, capacity);
            if (found < 0) {
                return -2;
            }
        }
        at += part + 1;
    }
    return found;
}
