/* Heads of requests: the guard, and values of queries. The input is a method, a target, a version and headers, a line
 * each; whatever it is, a verdict has a reason, what passed has a path, and a value fits where it goes. */
#include "fuzz.h"
#include "http/guard.h"

#include <stdlib.h>
#include <string.h>

static const char *const open_paths[] = {"/", "/app.js", NULL};
static const struct tide_http_token token = {
    .digits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", .person = {.right = 1}};
static const struct tide_http_rules rules = {.host = "127.0.0.1:7800", .host_name = "localhost:7800",
    .tokens = &token, .token_count = 1, .open = open_paths};

/* The next line; its terminator is overwritten. */
static char *line(char **at, char *end, size_t *size) {
    char *start = *at, *stop = memchr(start, '\n', (size_t)(end - start));
    stop = stop ? stop : end;
    *size = (size_t)(stop - start);
    *stop = '\0';
    *at = stop < end ? stop + 1 : end;
    return start;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1), *at = text, *end = text ? text + size : NULL;
    if (!text) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    size_t method_size, target_size, version_size, count = 0;
    struct tide_http_header headers[TIDE_HTTP_HEADERS_MAX + 4];
    struct tide_http_head head = {.headers = headers};
    head.method = line(&at, end, &method_size);
    head.target = line(&at, end, &target_size);
    head.version = line(&at, end, &version_size);
    head.target_size = target_size;
    while (at < end && count < TIDE_HTTP_HEADERS_MAX + 4) {
        size_t whole;
        char *name = line(&at, end, &whole), *colon = memchr(name, ':', whole);
        size_t name_size = colon ? (size_t)(colon - name) : whole;
        headers[count++] = (struct tide_http_header){.name = name, .name_size = name_size,
            .value = colon ? colon + 1 : name + whole, .value_size = colon ? whole - name_size - 1 : 0};
    }
    head.header_count = count;
    const char *why = NULL;
    struct tide_http_person who;
    int status = tide_http_guard(&rules, &head, &who, &why);
    if (status != 0 && (!why || status < 400 || status > 505)) {
        abort(); /* refused without a reason */
    }
    if (status == 0 && (target_size == 0 || head.target[0] != '/' || memchr(head.target, '\0', target_size))) {
        abort(); /* passed, and is no path */
    }
    char out[24];
    long length = tide_http_query(head.target, target_size, "after", out, sizeof out);
    if (length >= (long)sizeof out || (length >= 0 && out[length] != '\0')) {
        abort();
    }
    free(text);
    return 0;
}
