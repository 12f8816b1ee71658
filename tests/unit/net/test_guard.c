/* What the dashboard's guard lets in. A row is a request that differs in one thing from one that is let in, and the
 * status that it gets: 0 passes. */
#include "http/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define BEARER "Bearer " TOKEN
#define READER "11112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define EXPIRED "22112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define HOST "127.0.0.1:7800"

static const char *const open_paths[] = {"/", "/app.js", "/style.css", "/healthz", NULL};
static const struct tide_http_token tokens[] = {
    {.digits = TOKEN, .person = {.right = 3}},
    {.digits = READER, .person = {.name = "alice", .right = 1}, .until = 1000},
    {.digits = EXPIRED, .person = {.name = "bob", .right = 2}, .until = 999},
};
static const struct tide_http_rules rules = {.host = HOST, .host_name = "localhost:7800", 
    .tokens = tokens, .token_count = sizeof tokens / sizeof tokens[0], .now = 1000, .open = open_paths};
static unsigned rows;

struct request {
    const char *method, *target, *version;
    struct tide_http_header headers[80];
    size_t count;
};

static void add(struct request *r, const char *name, const char *value) {
    r->headers[r->count++] = (struct tide_http_header){
        .name = name, .name_size = strlen(name), .value = value, .value_size = strlen(value)};
}

static struct request ordinary(void) {
    struct request r = {.method = "GET", .target = "/api/state", .version = "HTTP/1.1"};
    add(&r, "Host", HOST);
    add(&r, "Authorization", BEARER);
    return r;
}

static int ask(const struct request *r, const char **why) {
    struct tide_http_head head = {.method = r->method, .target = r->target, .target_size = strlen(r->target),
        .version = r->version, .headers = r->headers, .header_count = r->count};
    *why = "";
    struct tide_http_person who;
    return tide_http_guard(&rules, &head, &who, why);
}

static void expect(const struct request *r, int status, const char *what) {
    const char *why;
    int got = ask(r, &why);
    rows++;
    if (got != status || (status != 0) != (why[0] != '\0')) {
        fail_msg("%s: %d (%s), not %d", what, got, why, status);
    }
}

struct row {
    const char *text;
    int status;
};
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* A row for each text, put where `place` says. */
static void each(const struct row *list, size_t count, void (*place)(struct request *, const char *)) {
    for (size_t i = 0; i < count; i++) {
        struct request r = ordinary();
        place(&r, list[i].text);
        expect(&r, list[i].status, list[i].text);
    }
}

/* ---- the first line ---- */

static void as_method(struct request *r, const char *text) {
    r->method = text;
    if (strcmp(text, "POST") == 0) {
        add(r, "Content-Length", "2");
    }
}

static void test_methods(void **state) {
    (void)state;
    static const struct row list[] = {{"GET", 0}, {"HEAD", 0}, {"POST", 0}, {"PUT", 405}, {"DELETE", 405}, {"PATCH", 405},
        {"OPTIONS", 405}, {"TRACE", 405}, {"CONNECT", 405}, {"get", 405}, {"Get", 405}, {"post", 405}, {"", 405},
        {"GET ", 405}, {"PRI", 405}, {"PROPFIND", 405}, {"MKCOL", 405}, {"COPY", 405}, {"MOVE", 405}, {"LOCK", 405},
        {"UNLOCK", 405}, {"SEARCH", 405}, {"REPORT", 405}, {"MERGE", 405}, {"PURGE", 405}, {"LINK", 405}, {"UNLINK", 405},
        {"BIND", 405}, {"REBIND", 405}, {"ACL", 405}, {"SUBSCRIBE", 405}, {"NOTIFY", 405}, {"M-SEARCH", 405},
        {"SOURCE", 405}, {"GETT", 405}, {"GE", 405}, {"HEAD\t", 405}, {"\x16\x03\x01", 405}, {"G\xc3\x8bT", 405},
        {"QUERY", 405}, {"X", 405}, {"POST\x7f", 405}};
    each(list, COUNT(list), as_method);
}

static void as_version(struct request *r, const char *text) {
    r->version = text;
}

static void test_versions(void **state) {
    (void)state;
    static const struct row list[] = {{"HTTP/1.1", 0}, {"HTTP/1.0", 505}, {"HTTP/0.9", 505}, {"HTTP/2.0", 505},
        {"HTTP/2", 505}, {"HTTP/3", 505}, {"http/1.1", 505}, {"HTTP/1.10", 505}, {"HTTP/1.1 ", 505}, {"HTTP/01.1", 505},
        {"", 505}, {"1.1", 505}, {"ICY/1.1", 505}, {"RTSP/1.0", 505}, {"SIP/2.0", 505}, {"HTTPS/1.1", 505}};
    each(list, COUNT(list), as_version);
}

static void as_target(struct request *r, const char *text) {
    r->target = text;
}

static void test_targets(void **state) {
    (void)state;
    static const struct row list[] = {
        {"/", 0}, {"/api/state", 0}, {"/api/stream?after=12", 0}, {"/api/policy/mf-1", 0}, {"/metrics", 0}, {"/x.y", 0},
        {"/a/b.c/d", 0}, {"/?", 0}, {"/?a=b&c=d", 0}, {"/api/x?name=%41", 0}, {"/api/x?name=%c3%a4", 0},
        {"/api/x?name=a%20b", 0}, {"/api/x?name=%7e", 0}, {"/~x", 0}, {"/a-b_c", 0}, {"/a+b", 0}, {"/a;b", 0}, {"/a=b", 0},
        {"/a?b/../c", 0}, {"/a?//", 0}, {"/a?b?c", 0}, {"/(x)", 0}, {"/'x'", 0}, {"/a,b", 0}, {"/a!b", 0}, {"/a@b", 0},
        {"/a:b", 0}, {"/a$b", 0}, {"/a*b", 0}, {"/a|b", 0}, {"/a^b", 0}, {"/a`b", 0}, {"/{a}", 0}, {"/[a]", 0},
        {"", 400}, {"*", 400}, {"api/state", 400}, {"?a=b", 400}, {"http://127.0.0.1:7800/", 400},
        {"https://127.0.0.1:7800/", 400}, {"HTTP://x/", 400}, {"ftp://x/", 400}, {"file:///etc/passwd", 400},
        {"127.0.0.1:7800", 400}, {"javascript:alert(1)", 400}, {"//x/", 400}, {"//", 400}, {"/a//b", 400}, {"/a//", 400},
        {"/..", 400}, {"/../", 400}, {"/../etc/passwd", 400}, {"/a/../b", 400}, {"/a/..", 400}, {"/.", 400}, {"/./", 400},
        {"/a/./b", 400}, {"/.git/config", 400}, {"/a/.ssh", 400}, {"/...", 400}, {"/..;/", 400}, {"/%2e%2e/", 400},
        {"/%2E%2E/", 400}, {"/%00", 400}, {"/a%2fb", 400}, {"/a%5cb", 400}, {"/a%", 400}, {"/a%4", 400}, {"/%41", 400},
        {"/%u0041", 400}, {"/a\\b", 400}, {"/\\", 400}, {"/a b", 400}, {"/a\tb", 400}, {"/a\rb", 400}, {"/a\nb", 400},
        {"/a\x01" "b", 400}, {"/a\x1f" "b", 400}, {"/a\x7f" "b", 400}, {"/a\x80" "b", 400}, {"/\xc3\xa4", 400}, {"/\xff", 400},
        {"/a#b", 400}, {"/#", 400}, {"/a?b#c", 400}, {"/a\"b", 400}, {"/<script>", 400}, {"/a?x=<b>", 400},
        {"/a?x=\"", 400}, {"/a?x=%", 400}, {"/a?x=%4", 400}, {"/a?x=%4g", 400}, {"/a?x=%g4", 400}, {"/a?x=%%41", 400},
        {"/a?x=%00", 400}, {"/a?x=%0a", 400}, {"/a?x=%0d%0a", 400}, {"/a?x=%1f", 400}, {"/a?x=%7f", 400}, {"/a?%", 400},
        {"/a?%4", 400}, {"/a?x=1%2", 400}, {"/a?x=\\", 400}, {"/a?x=\x01", 400}, {"/a?x=\xc3\xa4", 400}};
    each(list, COUNT(list), as_target);
}

static void test_long_targets(void **state) {
    (void)state;
    static char text[TIDE_HTTP_TARGET_MAX + 64];
    static const size_t sizes[] = {1, 2, 100, 4094, 4095, 4096, 4097, 4098, 4100, 4150};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(text, 'a', sizeof text);
        text[0] = '/';
        text[sizes[i]] = '\0';
        struct request r = ordinary();
        r.target = text;
        expect(&r, sizes[i] > TIDE_HTTP_TARGET_MAX ? 414 : 0, "a long target");
    }
}

/* ---- who it is meant for ---- */

static void as_host(struct request *r, const char *text) {
    r->headers[0].value = text;
    r->headers[0].value_size = strlen(text);
}

static const struct row hosts[] = {{"127.0.0.1:7800", 0}, {"localhost:7800", 0}, {"", 403}, {"127.0.0.1", 403},
    {"127.0.0.1:", 403}, {"127.0.0.1:80", 403}, {"127.0.0.1:78000", 403}, {"127.0.0.1:780", 403}, {"127.0.0.1:07800", 403},
    {"localhost", 403}, {"LOCALHOST:7800", 403}, {"Localhost:7800", 403}, {"localhost.:7800", 403},
    {"localhost.localdomain:7800", 403}, {"localhost:7801", 403}, {"[::1]:7800", 403}, {"::1:7800", 403},
    {"0.0.0.0:7800", 403}, {"127.0.0.2:7800", 403}, {"127.1:7800", 403}, {"2130706433:7800", 403}, {"0x7f.1:7800", 403},
    {"017700000001:7800", 403}, {"evil.example:7800", 403}, {"evil.example", 403}, {"127.0.0.1.evil.example:7800", 403},
    {"127.0.0.1:7800.evil.example", 403}, {"127.0.0.1:7800@evil.example", 403}, {"evil.example@127.0.0.1:7800", 403},
    {"evil.example#127.0.0.1:7800", 403}, {"evil.example/127.0.0.1:7800", 403}, {"127.0.0.1:7800/", 403},
    {"127.0.0.1:7800 ", 403}, {" 127.0.0.1:7800", 403}, {"127.0.0.1:7800\t", 403}, {"127.0.0.1 :7800", 403},
    {"127.0.0.1:7800,evil.example", 403}, {"evil.example,127.0.0.1:7800", 403}, {"127.0.0.1:7800, 127.0.0.1:7800", 403},
    {"http://127.0.0.1:7800", 403}, {"//127.0.0.1:7800", 403}, {"user:p@127.0.0.1:7800", 403}, {"*", 403}, {"null", 403},
    {"127.0.0.1:7800\xff", 403}, {"\xc2\xa0" "127.0.0.1:7800", 403}, {"127.0.0.1\xe3\x80\x82:7800", 403},
    {"127。0。0。1:7800", 403}, {"①②⑦.0.0.1:7800", 403}, {"127.0.0.1:7800;x", 403}, {"127.0.0.1:7800?x", 403},
    {"localhost:7800localhost:7800", 403}, {"local host:7800", 403}, {"attacker.localhost:7800", 403},
    {"127.0.0.1:7800\r", 400}, {"127.0.0.1:7800\n", 400}, {"127.0.0.1:7800\x01", 400}, {"\x7f" "127.0.0.1:7800", 400},
    {"\x0b" "127.0.0.1:7800", 400}};

static void test_hosts(void **state) {
    (void)state;
    each(hosts, COUNT(hosts), as_host);
}

/* The page itself, which needs no token, is for the same hosts alone. */
static void as_host_of_page(struct request *r, const char *text) {
    as_host(r, text);
    r->target = "/";
    r->count = 1;
}

static void test_hosts_of_the_page(void **state) {
    (void)state;
    each(hosts, COUNT(hosts), as_host_of_page);
}

static void as_origin(struct request *r, const char *text) {
    add(r, "Origin", text);
}

static void test_origins(void **state) {
    (void)state;
    static const struct row list[] = {{"http://127.0.0.1:7800", 0}, {"http://localhost:7800", 0}, {"null", 403}, {"", 403},
        {"https://127.0.0.1:7800", 403}, {"HTTP://127.0.0.1:7800", 403}, {"http://127.0.0.1", 403},
        {"http://127.0.0.1:7801", 403}, {"http://127.0.0.1:780", 403}, {"http://127.0.0.1:7800/", 403},
        {"http://127.0.0.1:7800 ", 403}, {" http://127.0.0.1:7800", 403}, {"http://localhost", 403},
        {"http://localhost:3000", 403}, {"http://LOCALHOST:7800", 403}, {"http://[::1]:7800", 403},
        {"http://evil.example", 403}, {"https://evil.example", 403}, {"http://127.0.0.1:7800.evil.example", 403},
        {"http://127.0.0.1.evil.example:7800", 403}, {"http://evil.example:7800", 403},
        {"http://evil.example@127.0.0.1:7800", 403}, {"http://127.0.0.1:7800@evil.example", 403}, {"file://", 403},
        {"file:///", 403}, {"chrome-extension://abcdef", 403}, {"moz-extension://abcdef", 403}, {"data:", 403},
        {"about:blank", 403}, {"*", 403}, {"127.0.0.1:7800", 403}, {"//127.0.0.1:7800", 403}, {"http:127.0.0.1:7800", 403},
        {"http:///127.0.0.1:7800", 403}, {"ws://127.0.0.1:7800", 403}, {"http://127.0.0.1:7800, http://evil.example", 403},
        {"http://evil.example http://127.0.0.1:7800", 403}, {"http://127.0.0.1:7800\xff", 403},
        {"http://127.0.0.1:7800\x01", 400}, {"undefined", 403}, {"http://", 403}, {"h", 403}, {"http", 403}};
    each(list, COUNT(list), as_origin);
}

static void as_site(struct request *r, const char *text) {
    add(r, "Sec-Fetch-Site", text);
}

static void test_sites(void **state) {
    (void)state;
    static const struct row list[] = {{"none", 0}, {"same-origin", 0}, {"same-site", 403}, {"cross-site", 403}, {"", 403},
        {"None", 403}, {"NONE", 403}, {"Same-Origin", 403}, {"same-origin ", 403}, {" none", 403}, {"none, none", 403},
        {"same-origin,cross-site", 403}, {"x", 403}, {"same_origin", 403}, {"sameorigin", 403}, {"\"none\"", 403},
        {"none\x01", 400}, {"non", 403}, {"nonee", 403}};
    each(list, COUNT(list), as_site);
}

/* ---- the token ---- */

static void as_token(struct request *r, const char *text) {
    r->headers[1].value = text;
    r->headers[1].value_size = strlen(text);
}

static void test_tokens(void **state) {
    (void)state;
    static const struct row list[] = {{BEARER, 0}, {"", 401}, {"Bearer", 401}, {"Bearer ", 401}, {TOKEN, 401},
        {"bearer " TOKEN, 401}, {"BEARER " TOKEN, 401}, {"Bearer  " TOKEN, 401}, {"Bearer\t" TOKEN, 401},
        {" Bearer " TOKEN, 401}, {BEARER " ", 401}, {BEARER "0", 401}, {"Bearer 0" TOKEN, 401}, {BEARER ",", 401},
        {"Basic " TOKEN, 401}, {"Basic dGlkZTp0aWRl", 401}, {"Digest username=\"x\"", 401}, {"Token " TOKEN, 401},
        {"Negotiate " TOKEN, 401}, {"Bearer \"" TOKEN "\"", 401}, {"Bearer token=" TOKEN, 401},
        {"Bearer 00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe", 401},
        {"Bearer 10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 401},
        {"Bearer 00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF", 401},
        {"Bearer 00112233445566778899aabbccddeeff00112233445566778899aabbccddeef", 401},
        {"Bearer 0000000000000000000000000000000000000000000000000000000000000000", 401},
        {"Bearer ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 401},
        {"Bearer 00112233445566778899aabbccddeeff", 401}, {"Bearer null", 401}, {"Bearer undefined", 401},
        {"Bearer *", 401}, {"Bearer %", 401}, {"Bearer \xff", 401}, {BEARER " " BEARER, 401}, {BEARER ", " BEARER, 401},
        {"Bearer\x01" TOKEN, 400}, {BEARER "\r", 400}, {BEARER "\n", 400}, {BEARER "\x7f", 400}};
    each(list, COUNT(list), as_token);
}

/* Each digit counts. */
static void test_each_digit_of_the_token(void **state) {
    (void)state;
    for (size_t i = 0; i < TIDE_HTTP_TOKEN; i++) {
        char text[] = BEARER;
        text[7 + i] = text[7 + i] == '0' ? '1' : '0';
        struct request r = ordinary();
        as_token(&r, text);
        expect(&r, 401, text);
    }
}

static void test_what_needs_a_token(void **state) {
    (void)state;
    static const struct row list[] = {{"/", 0}, {"/?x=1", 0}, {"/app.js", 0}, {"/style.css", 0}, {"/healthz", 0},
        {"/app.js?v=2", 0}, {"/app.jsx", 401}, {"/app.j", 401}, {"/App.js", 401}, {"/app.js/", 401}, {"/healthz/", 401},
        {"/health", 401}, {"/index.html", 401}, {"/api/state", 401}, {"/api/stream", 401}, {"/api/stream?after=1", 401},
        {"/api/policy/mf-1", 401}, {"/api/replay", 401}, {"/api/schema", 401}, {"/metrics", 401}, {"/favicon.ico", 401},
        {"/api/state?token=" TOKEN, 401}, {"/api/state?access_token=" TOKEN, 401}, {"/api", 401}, {"/x", 401}};
    for (size_t i = 0; i < COUNT(list); i++) {
        struct request r = ordinary();
        r.target = list[i].text;
        r.count = 1;
        expect(&r, list[i].status, list[i].text);
        add(&r, "Cookie", "token=" TOKEN);
        expect(&r, list[i].status, list[i].text);
    }
}

/* ---- bodies ---- */

static void as_length(struct request *r, const char *text) {
    r->method = "POST";
    r->target = "/api/replay";
    add(r, "Content-Length", text);
}

static void test_lengths(void **state) {
    (void)state;
    static const struct row list[] = {{"0", 0}, {"1", 0}, {"00", 0}, {"007", 0}, {"65535", 0}, {"65536", 0}, {"65537", 413},
        {"100000", 413}, {"4294967296", 413}, {"999999999999999999", 413}, {"9999999999999999999", 400},
        {"18446744073709551616", 400}, {"184467440737095516160", 400}, {"", 400}, {"-1", 400}, {"+1", 400}, {"0x10", 400},
        {"1e3", 400}, {"1.0", 400}, {"1 ", 400}, {" 1", 400}, {"1,1", 400}, {"1, 1", 400}, {"1;1", 400}, {"one", 400},
        {"1\t", 400}, {"\xef\xbc\x91", 400}, {"1\x01", 400}, {"NaN", 400}, {"10 20", 400}};
    each(list, COUNT(list), as_length);
    struct request r = ordinary();
    r.method = "POST";
    expect(&r, 411, "a POST without a length");
}

static void as_length_of_get(struct request *r, const char *text) {
    add(r, "Content-Length", text);
}

static void test_lengths_of_others(void **state) {
    (void)state;
    static const struct row list[] = {{"0", 0}, {"1", 400}, {"65536", 400}, {"65537", 413}, {"x", 400}, {"", 400}};
    each(list, COUNT(list), as_length_of_get);
}

/* ---- headers ---- */

static void as_name(struct request *r, const char *text) {
    add(r, text, "x");
}

static void test_names(void **state) {
    (void)state;
    static const struct row list[] = {{"X", 0}, {"x-y", 0}, {"Accept", 0}, {"Cookie", 0}, {"User-Agent", 0}, {"Referer", 0},
        {"Connection", 0}, {"Range", 0}, {"If-None-Match", 0}, {"DNT", 0}, {"X_Y", 0}, {"x.y", 0}, {"x!y", 0}, {"x#y", 0},
        {"x$y", 0}, {"x%y", 0}, {"x&y", 0}, {"x'y", 0}, {"x*y", 0}, {"x+y", 0}, {"x^y", 0}, {"x`y", 0}, {"x|y", 0}, {"x~y", 0},
        {"0", 0}, {"Forwarded", 0}, {"X-Forwarded-Host", 0}, {"X-Forwarded-For", 0}, {"X-HTTP-Method-Override", 0},
        {"", 400}, {" ", 400}, {"x y", 400}, {" x", 400}, {"x ", 400}, {"x\t", 400}, {"x:y", 400}, {"x;y", 400}, {"x,y", 400},
        {"x(y", 400}, {"x)y", 400}, {"x<y", 400}, {"x>y", 400}, {"x@y", 400}, {"x\\y", 400}, {"x\"y", 400}, {"x/y", 400},
        {"x[y", 400}, {"x]y", 400}, {"x?y", 400}, {"x=y", 400}, {"x{y", 400}, {"x}y", 400}, {"x\x01", 400}, {"x\x7f", 400},
        {"x\xff", 400}, {"\xc3\xa4", 400}, {"x\r", 400}, {"x\n", 400}, {"Host ", 400}, {"\tHost", 400},
        {"Transfer-Encoding", 400}, {"transfer-encoding", 400}, {"TRANSFER-ENCODING", 400}, {"Transfer-Encoding ", 400},
        {"TE", 400}, {"Trailer", 400}, {"Expect", 417}, {"expect", 417}, {"Upgrade", 400}, {"HTTP2-Settings", 400}};
    each(list, COUNT(list), as_name);
}

static void as_value(struct request *r, const char *text) {
    add(r, "X", text);
}

static void test_values(void **state) {
    (void)state;
    static const struct row list[] = {{"", 0}, {"x", 0}, {"a b", 0}, {"a\tb", 0}, {"\xc3\xa4", 0}, {"\xff\xfe", 0},
        {"<script>", 0}, {"%00", 0}, {"\"", 0}, {"\x80", 0}, {"a\rb", 400}, {"a\nb", 400}, {"a\r\n b", 400},
        {"a\r\nHost: x", 400}, {"\x01", 400}, {"\x08", 400}, {"\x0b", 400}, {"\x0c", 400}, {"\x0e", 400}, {"\x1b[2J", 400},
        {"\x1f", 400}, {"\x7f", 400}, {"x\x02", 400}};
    each(list, COUNT(list), as_value);
    struct request r = ordinary();
    add(&r, "X", "a");
    r.headers[r.count - 1].value = "a\0b";
    r.headers[r.count - 1].value_size = 3;
    expect(&r, 400, "a zero in a value");
    r = ordinary();
    add(&r, "X", "a");
    r.headers[r.count - 1].name = "a\0b";
    r.headers[r.count - 1].name_size = 3;
    expect(&r, 400, "a zero in a name");
}

/* Twice is once too often, whatever they say and however they are written. */
static void test_doubles(void **state) {
    (void)state;
    static const char *const names[][3] = {{"Host", "host", "HOST"}, {"Origin", "origin", "oRIGIN"},
        {"Sec-Fetch-Site", "sec-fetch-site", "SEC-FETCH-SITE"}, {"Authorization", "authorization", "AUTHORIZATION"},
        {"Content-Length", "content-length", "CONTENT-LENGTH"}};
    static const char *const values[][2] = {{HOST, "evil.example"}, {"http://" HOST, "null"}, {"none", "cross-site"},
        {BEARER, "Bearer x"}, {"0", "5"}};
    for (size_t i = 0; i < 5; i++) {
        for (size_t a = 0; a < 3; a++) {
            for (size_t b = 0; b < 2; b++) {
                for (int first = 0; first < 2; first++) {
                    struct request r = {.method = "GET", .target = "/api/state", .version = "HTTP/1.1"};
                    for (size_t k = 0; k < 5; k++) { /* all of them once, in their good values */
                        if (k != i) {
                            add(&r, names[k][0], values[k][0]);
                        }
                    }
                    add(&r, names[i][first ? a : 0], values[i][first ? b : 0]);
                    expect(&r, first && b == 1 ? (i == 4 ? 400 : i == 3 ? 401 : 403) : 0, names[i][0]);
                    add(&r, names[i][first ? 0 : a], values[i][first ? 0 : b]);
                    const char *why;
                    int got = ask(&r, &why);
                    rows++;
                    assert_true(got == 400 || (got == 403 && i == 1 && b == 1));
                }
            }
        }
    }
}

static void test_without(void **state) {
    (void)state;
    struct request r = {.method = "GET", .target = "/api/state", .version = "HTTP/1.1"};
    expect(&r, 400, "no header at all");
    add(&r, "Authorization", BEARER);
    expect(&r, 400, "no host");
    r.target = "/";
    expect(&r, 400, "a page without a host");
}

static void test_counts(void **state) {
    (void)state;
    for (size_t count = 60; count <= 70; count++) {
        struct request r = ordinary();
        while (r.count < count) {
            add(&r, "X", "y");
        }
        expect(&r, count > TIDE_HTTP_HEADERS_MAX ? 431 : 0, "many headers");
    }
    static char text[TIDE_HTTP_HEADER_BYTES_MAX + 2];
    memset(text, 'a', sizeof text - 1);
    const size_t others = strlen("Host" HOST "Authorization" BEARER "X");
    for (size_t over = 0; over < 3; over++) {
        struct request r = ordinary();
        add(&r, "X", text);
        r.headers[r.count - 1].value_size = TIDE_HTTP_HEADER_BYTES_MAX - others - 1 + over;
        expect(&r, over > 1 ? 431 : 0, "long headers");
        struct request parts = ordinary();
        for (size_t i = 0; i < 8; i++) {
            add(&parts, "X", text);
            parts.headers[parts.count - 1].value_size = (TIDE_HTTP_HEADER_BYTES_MAX - others - 7) / 8 - 1 + over;
        }
        expect(&parts, over > 1 ? 431 : 0, "long headers together");
    }
}

static void test_rows(void **state) {
    (void)state;
    print_message("%u rows\n", rows);
    assert_true(rows >= 500);
}

/* ---- queries ---- */

static void test_queries(void **state) {
    (void)state;
    static const struct {
        const char *target, *name, *value;
        long size;
    } list[] = {{"/a", "x", "", -1}, {"/a?", "x", "", -1}, {"/a?x=1", "x", "1", 1}, {"/a?x=", "x", "", 0},
        {"/a?x", "x", "", -1}, {"/a?xx=1", "x", "", -1}, {"/a?y=1&x=2", "x", "2", 1}, {"/a?x=1&x=2", "x", "", -2},
        {"/a?x=1&&y=2", "y", "2", 1}, {"/a?x=%41%42", "x", "AB", 2}, {"/a?x=%4", "x", "", -2}, {"/a?x=%", "x", "", -2},
        {"/a?x=a%26b&y=c", "x", "a&b", 3}, {"/a?x=1234567", "x", "1234567", 7}, {"/a?x=12345678", "x", "", -2},
        {"/x=3?y=1", "x", "", -1}, {"/a?x=a=b", "x", "a=b", 3}, {"/a?&x=1&", "x", "1", 1}};
    for (size_t i = 0; i < COUNT(list); i++) {
        char out[8] = "?";
        long size = tide_http_query(list[i].target, strlen(list[i].target), list[i].name, out, sizeof out);
        if (size != list[i].size || (size >= 0 && strcmp(out, list[i].value) != 0)) {
            fail_msg("%s: %ld %s", list[i].target, size, out);
        }
    }
}

/* Behind a proxy its address counts too, as Host and as Origin, and nothing like it. */
static void an_address_of_a_proxy_is_another_host_and_origin(void **state) {
    (void)state;
    static const struct tide_http_rules served = {.host = HOST, .host_name = "localhost:7800",
        .tokens = tokens, .token_count = 1, .open = open_paths, .served_as = "https://lab.org"};
    static const struct {
        const char *host, *origin;
        int plain, behind;
    } cases[] = {
        {HOST, NULL, 0, 0}, {HOST, "http://" HOST, 0, 0}, {"lab.org", NULL, 403, 0},
        {"lab.org", "https://lab.org", 403, 0}, {HOST, "https://lab.org", 403, 0}, {HOST, "http://lab.org", 403, 403},
        {HOST, "https://lab.org.evil", 403, 403}, {HOST, "https://lab.or", 403, 403}, {"lab.org:80", NULL, 403, 403},
        {"https://lab.org", NULL, 403, 403}, {"", NULL, 403, 403},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct request r = {.method = "POST", .target = "/api/call/x", .version = "HTTP/1.1"};
        add(&r, "Host", cases[i].host);
        add(&r, "Authorization", BEARER);
        add(&r, "Content-Length", "0");
        if (cases[i].origin) {
            add(&r, "Origin", cases[i].origin);
        }
        const struct tide_http_head head = {.method = r.method, .target = r.target, .target_size = strlen(r.target),
            .version = r.version, .headers = r.headers, .header_count = r.count};
        const char *why = "";
        struct tide_http_person who;
        assert_int_equal(tide_http_guard(&rules, &head, &who, &why), cases[i].plain);
        assert_int_equal(tide_http_guard(&served, &head, &who, &why), cases[i].behind);
    }
}

/* Who a request is from: a token's person until its end, else the certificate's; https pages are those of TLS alone. */
static void a_request_has_the_person_and_right_of_its_token_or_certificate(void **state) {
    (void)state;
    static const struct tide_http_person eve = {.name = "eve", .right = 2};
    static const struct {
        const char *token, *origin;
        bool certificate, secure;
        int status;
        const char *name;
        unsigned right;
    } cases[] = {
        {BEARER, NULL, false, false, 0, "", 3}, {"Bearer " READER, NULL, false, false, 0, "alice", 1},
        {"Bearer " EXPIRED, NULL, false, false, 401, "", 0}, {"Bearer " EXPIRED, NULL, true, false, 401, "", 0},
        {NULL, NULL, true, true, 0, "eve", 2}, {NULL, NULL, false, true, 401, "", 0},
        {"Bearer " READER, NULL, true, true, 0, "alice", 1}, {BEARER, "https://" HOST, false, true, 0, "", 3},
        {BEARER, "http://" HOST, false, true, 403, "", 0}, {BEARER, "https://" HOST, false, false, 403, "", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tide_http_rules own = rules;
        own.secure = cases[i].secure;
        own.certificate = cases[i].certificate ? &eve : NULL;
        struct request r = {.method = "GET", .target = "/api/state", .version = "HTTP/1.1"};
        add(&r, "Host", HOST);
        if (cases[i].token) {
            add(&r, "Authorization", cases[i].token);
        }
        if (cases[i].origin) {
            add(&r, "Origin", cases[i].origin);
        }
        const struct tide_http_head head = {.method = r.method, .target = r.target, .target_size = strlen(r.target),
            .version = r.version, .headers = r.headers, .header_count = r.count};
        const char *why = "";
        struct tide_http_person who = {.right = 9};
        assert_int_equal(tide_http_guard(&own, &head, &who, &why), cases[i].status);
        assert_string_equal(who.name, cases[i].name);
        assert_int_equal(who.right, cases[i].right);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_request_has_the_person_and_right_of_its_token_or_certificate),
        cmocka_unit_test(an_address_of_a_proxy_is_another_host_and_origin),
        cmocka_unit_test(test_methods), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_targets), cmocka_unit_test(test_long_targets), cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_hosts_of_the_page), cmocka_unit_test(test_origins), cmocka_unit_test(test_sites),
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_each_digit_of_the_token),
        cmocka_unit_test(test_what_needs_a_token), cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_lengths_of_others), cmocka_unit_test(test_names), cmocka_unit_test(test_values),
        cmocka_unit_test(test_doubles), cmocka_unit_test(test_without), cmocka_unit_test(test_counts),
        cmocka_unit_test(test_queries), cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
